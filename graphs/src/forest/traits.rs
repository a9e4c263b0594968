//! The traits that burn asks of a module: parameters to visit, map and move, and printing.
//!
//! burn's derive would write the same, except for `map`: a mapper may exchange the structure for that of
//! another forest, which then has to be compiled.

use std::{fmt, sync::Arc};

use burn::{
    module::{
        Content, Devices, DisplaySettings, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper,
        ModuleVisitor, Param,
    },
    tensor::{Device, Int, Tensor},
};

use super::{ForestModule, soft::SoftSplits, structure};

const TYPE: &str = "Struct:ForestModule";

impl Module for ForestModule {
    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        visitor.enter_module("leaf_values", TYPE);
        self.leaf_values.visit(visitor);
        visitor.exit_module("leaf_values", TYPE);
        for (name, param) in [("structure", &self.structure), ("fingerprint", &self.fingerprint)] {
            visitor.enter_module(name, TYPE);
            param.visit(visitor);
            visitor.exit_module(name, TYPE);
        }
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        mapper.enter_module("leaf_values", TYPE);
        let leaf_values = Module::map(self.leaf_values, mapper);
        mapper.exit_module("leaf_values", TYPE);
        let mut exchanged = false;
        let mut map = |name: &str, param: Param<Tensor<1, Int>>| {
            mapper.enter_module(name, TYPE);
            let before = param.clone();
            let param = Module::map(param, mapper);
            // A parameter that the mapper returns unchanged still shares its value with the clone. So an
            // optimizer's step reads nothing from the device.
            exchanged |= !is_shared(&before, &param);
            mapper.exit_module(name, TYPE);
            param
        };
        let structure = map("structure", self.structure);
        let fingerprint = map("fingerprint", self.fingerprint);
        if !exchanged {
            return Self { leaf_values, structure, fingerprint, ..self };
        }
        let mut operator =
            structure::reload(&structure, &fingerprint, &self.operator, self.schedule.as_deref());
        let same = matches!((&operator, &self.operator), (Ok(new), Ok(old)) if Arc::ptr_eq(new, old));
        let mut soft = self.soft;
        if let (false, Ok(op), Some(old)) = (same, &operator, &soft) {
            match SoftSplits::new(old.temperature(), op.forest()) {
                Ok(new) => soft = Some(new),
                Err(error) => operator = Err(error.to_string()),
            }
        }
        Self { leaf_values, structure, fingerprint, operator, soft, ..self }
    }

    fn collect_devices(&self, devices: Devices) -> Devices {
        let devices = self.leaf_values.collect_devices(devices);
        self.fingerprint.collect_devices(self.structure.collect_devices(devices))
    }

    fn to_device(self, device: &Device) -> Self {
        Self {
            leaf_values: self.leaf_values.to_device(device),
            structure: self.structure.to_device(device),
            fingerprint: self.fingerprint.to_device(device),
            ..self
        }
    }

    fn fork(self, device: &Device) -> Self {
        Self {
            leaf_values: self.leaf_values.fork(device),
            structure: self.structure.fork(device),
            fingerprint: self.fingerprint.fork(device),
            ..self
        }
    }

    fn train(self) -> Self {
        Self {
            leaf_values: self.leaf_values.train(),
            structure: self.structure.train(),
            fingerprint: self.fingerprint.train(),
            ..self
        }
    }

    fn valid(&self) -> Self {
        Self {
            leaf_values: self.leaf_values.valid(),
            structure: self.structure.valid(),
            fingerprint: self.fingerprint.valid(),
            ..self.clone()
        }
    }

    fn materialize(self) -> Self {
        Self { leaf_values: self.leaf_values.materialize(), ..self }
    }
}

/// Tells whether two parameters share one value, rather than have equal values.
fn is_shared(a: &Tensor<1, Int>, b: &Tensor<1, Int>) -> bool {
    std::ptr::eq(a, b)
}

impl fmt::Display for ForestModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&ModuleDisplay::format(self, DisplaySettings::default()))
    }
}

impl ModuleDisplayDefault for ForestModule {
    fn content(&self, content: Content) -> Option<Content> {
        content
            .set_top_level_type("ForestModule")
            .add("leaf_values", &self.leaf_values)
            .add("structure", &self.structure)
            .add("fingerprint", &self.fingerprint)
            .optional()
    }

    fn num_params(&self) -> usize {
        Module::num_params(self)
    }
}

impl ModuleDisplay for ForestModule {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let content = content.set_top_level_type("ForestModule");
        let Ok(op) = &self.operator else {
            return content.add("broken", &true).optional();
        };
        let forest = op.forest();
        let content = content
            .add("producer", forest.producer.library.as_str())
            .add("features", &forest.features.len())
            .add("trees", &op.trees())
            .add("leaves", &forest.leaf_count())
            .add("outputs", &op.outputs())
            .add_debug_attribute("output", &self.output);
        let content = match &self.soft {
            Some(soft) => content.add("temperature", &soft.temperature()),
            None => content,
        };
        match &self.epilogue {
            Some(epilogue) => content.add_debug_attribute("epilogue", &epilogue.steps()).optional(),
            None => content.optional(),
        }
    }
}
