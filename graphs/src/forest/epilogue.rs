//! The epilogue of a module.

use std::sync::Arc;

use burn::tensor::Tensor;
use fangorn::op::{self, Epilogue, EpilogueStep};

use super::{ForestModule, Output};
use crate::error::Result;

impl ForestModule {
    /// Adds one step to the epilogue that [`forward`](ForestModule::forward) applies: scale and shift,
    /// sigmoid, softmax, a tensor beside the rows, or the result's type. Without a gradient to pass on, the
    /// steps run with the forest: on a GPU in its kernel, on the CPU block by block.
    ///
    /// Steps belong to the program, so a record does not hold them. The results of other methods,
    /// [`margins`](ForestModule::margins) for example, stay as they are.
    ///
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::tensor::{Device, Tensor};
    /// use fangorn::import;
    /// use fangorn_graphs::{forest::{ForestModuleConfig, Output}, fangorn::op::EpilogueStep};
    ///
    /// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/zoo/churn/model.ubj");
    /// let forest = import::load(model.as_ref(), &Default::default())?;
    /// let device = Device::flex();
    /// let module = ForestModuleConfig::new(forest).with_output(Output::Margins).init(&device)?;
    /// let module = module.with_step(EpilogueStep::Affine { scale: 0.9, shift: -0.1 })?.with_step(EpilogueStep::Add)?.with_step(EpilogueStep::Sigmoid)?;
    /// let x = Tensor::<2>::zeros([4, module.features()], &device);
    /// let logits = Tensor::<2>::ones([4, 1], &device); // of another model
    /// assert_eq!(module.forward_with(x, vec![logits])?.dims(), [4, 1]);
    /// # }
    /// # Ok::<(), fangorn_graphs::Error>(())
    /// ```
    ///
    /// # Errors
    /// The step can't follow the earlier ones, or the step's numbers are for another number of outputs than
    /// the module has.
    pub fn with_step(self, step: EpilogueStep) -> Result<Self> {
        let before = self.epilogue.as_ref().map_or(&[][..], |epilogue| epilogue.steps());
        let steps = before.iter().cloned().chain([step]);
        let epilogue = match self.output {
            Output::Margins => Epilogue::of_margins(steps)?,
            Output::Values => Epilogue::of_values(steps)?,
        };
        epilogue.fits(self.operator()?)?;
        Ok(Self { epilogue: Some(Arc::new(epilogue)), ..self })
    }

    /// Like [`forward`](ForestModule::forward), with a tensor `[rows, outputs]` of f32 for each step that
    /// takes one, in the order of the steps. Under autodiff gradients reach these tensors, too.
    ///
    /// # Errors
    /// The errors of [`forward`](ForestModule::forward), tensors of another number, shape, type or device
    /// than the steps take, and a result of a type that the device does not store.
    pub fn forward_with(&self, x: Tensor<2>, tensors: Vec<Tensor<2>>) -> Result<Tensor<2>> {
        let op = self.operator()?;
        let Some(epilogue) = &self.epilogue else {
            let none = match self.output {
                Output::Margins => Epilogue::of_margins([])?,
                Output::Values => Epilogue::of_values([])?,
            };
            none.check(&x, &tensors, op)?;
            return self.forward(x);
        };
        if self.soft.is_none() || !x.is_autodiff() {
            return Ok(op::forest_with_epilogue(x, self.leaf_value_tensor(op)?, tensors, op, epilogue)?);
        }
        epilogue.check(&x, &tensors, op)?;
        let of = if epilogue.follows_values() { self.values(x)? } else { self.margins(x)? };
        Ok(epilogue.by_operations(of, &tensors))
    }
}
