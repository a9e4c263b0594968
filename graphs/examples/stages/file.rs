//! The file of a pipeline: burn's record of the whole module, with its forest.

use std::path::{Path, PathBuf};

use burn::{
    module::{Module, ModuleVisitor, Param, ParamId},
    store::ModuleRecord,
    tensor::{Device, Tensor, TensorData},
};
use fangorn_graphs::forest::ForestModuleConfig;

use super::{Pipeline, Result, Work, arrays};

/// A file that holds a saved pipeline.
pub struct Saved {
    path: PathBuf,
    tensors: Vec<burn_pack::Tensor>,
}

impl Saved {
    pub fn open(path: &Path) -> Result<Self> {
        let reader = burn_pack::Reader::from_file(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self { path: path.into(), tensors: reader.into_tensors()? })
    }

    /// Returns the options of the forest that the file holds under `name`. No other file is needed.
    pub fn forest(&self, name: &str) -> Result<ForestModuleConfig> {
        let structure = format!("{name}.structure");
        let found = self.tensors.iter().find(|tensor| tensor.name == structure);
        let found = found.ok_or_else(|| format!("{}: no tensor `{structure}`", self.path.display()))?;
        let bytes = found.to_bytes()?;
        let words: Vec<i32> =
            bytes.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        Ok(ForestModuleConfig::of_structure(&words)?)
    }

    /// Loads the pipeline onto a device.
    pub fn load<P: Pipeline>(&self, device: &Device) -> Result<P> {
        Ok(P::of(self, device)?.try_load_record(ModuleRecord::load(&self.path)?)?)
    }
}

impl Work {
    /// Reads a parameter that the script has fitted.
    pub fn parameter<const D: usize>(&self, name: &str, device: &Device) -> Result<Param<Tensor<D>>> {
        let (values, shape) = arrays::read(&self.path(name))?;
        if shape.len() != D {
            return Err(format!("{name}: {} dimensions, not {D}", shape.len()).into());
        }
        Ok(Param::initialized(ParamId::new(), Tensor::from_data(TensorData::new(values, shape), device)))
    }
}

/// Writes each parameter, except those of forests, as `NAME.npy` into a folder, for other programs.
pub fn write_parameters<M: Module>(module: &M, folder: &Path) -> Result<()> {
    struct Writer<'a>(&'a Path, Vec<String>, Result<()>);
    impl ModuleVisitor for Writer<'_> {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.1.push(name.into());
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.1.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if self.2.is_ok() && !self.1.iter().any(|name| name == "forest") {
                let path = self.0.join(format!("{}.npy", self.1.join(".")));
                let values = arrays::floats(param.val());
                self.2 = values.and_then(|values| arrays::write(&path, &values, &param.dims()));
            }
        }
    }
    std::fs::create_dir_all(folder)?;
    let mut writer = Writer(folder, Vec::new(), Ok(()));
    module.visit(&mut writer);
    writer.2
}
