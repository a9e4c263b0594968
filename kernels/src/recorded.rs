//! Elementwise operations that burn's fusion recorded after a forest. The kernel runs them where it writes
//! each sum.

use burn_cubecl_fusion::engine::codegen::{
    ir::{FuseArg, FuseBlockConfig, GlobalArgs, GlobalArgsLaunch},
    kernel::{fuse_on_write, init_locals},
};
use cubecl::prelude::*;

use super::epilogue_steps::EpilogueOperands;

/// The recorded operations, with what they read and write.
#[derive(CubeType, CubeLaunch)]
pub struct RecordedOps {
    /// Tensors and numbers that the operations read.
    pub inputs: GlobalArgs,
    /// Tensors that the operations write.
    pub outputs: GlobalArgs,
    /// The operations.
    #[cube(comptime)]
    pub config: FuseBlockConfig,
    /// Which operand of the operations is the forest's value.
    #[cube(comptime)]
    pub value: FuseArg,
}

/// The recorded operations as a call hands them over.
#[derive(Debug)]
pub struct RecordedInputs {
    /// Tensors and numbers that the operations read.
    pub inputs: GlobalArgsLaunch,
    /// Tensors that the operations write.
    pub outputs: GlobalArgsLaunch,
    /// The operations.
    pub config: FuseBlockConfig,
    /// Which operand of the operations is the forest's value.
    pub value: FuseArg,
}

impl RecordedInputs {
    pub(super) fn launch(self) -> RecordedOpsLaunch {
        RecordedOpsLaunch::new(self.inputs, self.outputs, self.config, self.value)
    }
}

/// Runs the operations on the forest's value at index `at` of the result, and writes their outputs there.
#[cube]
pub fn write(beside: &mut EpilogueOperands, at: u32, value: f32) {
    let recorded = beside.recorded.index_mut(0);
    let config = comptime![recorded.config.clone()];
    let arg = comptime![recorded.value.clone()];
    let mut values = Registry::<FuseArg, Vector<f32, Const<1>>>::new();
    values.insert(comptime![arg.clone()], Vector::new(value));
    let args = comptime![vec![arg.clone()]];
    let mut locals = init_locals(&recorded.inputs, &mut recorded.outputs, &config);
    fuse_on_write::<f32, Const<1>>(
        &recorded.inputs,
        &mut recorded.outputs,
        &mut locals,
        at as usize,
        values,
        args,
        &config,
    );
}
