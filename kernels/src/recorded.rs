//! Elementwise operations that burn's fusion recorded behind a forest, taken where its sums are written.

use burn_cubecl_fusion::engine::codegen::{
    ir::{FuseArg, FuseBlockConfig, GlobalArgs, GlobalArgsLaunch},
    kernel::{fuse_on_write, init_locals},
};
use cubecl::prelude::*;

use super::epilogue_steps::EpilogueOperands;

/// What the operations read and write, and which they are.
#[derive(CubeType, CubeLaunch)]
pub struct RecordedOps {
    /// Tensors and numbers that they read.
    pub inputs: GlobalArgs,
    /// Tensors that they write.
    pub outputs: GlobalArgs,
    /// The operations.
    #[cube(comptime)]
    pub config: FuseBlockConfig,
    /// The forest's value among what they read.
    #[cube(comptime)]
    pub value: FuseArg,
}

/// What a call hands to the operations.
#[derive(Debug)]
pub struct RecordedInputs {
    /// Tensors and numbers that they read.
    pub inputs: GlobalArgsLaunch,
    /// Tensors that they write.
    pub outputs: GlobalArgsLaunch,
    /// The operations.
    pub config: FuseBlockConfig,
    /// The forest's value among what they read.
    pub value: FuseArg,
}

impl RecordedInputs {
    pub(super) fn launch(self) -> RecordedOpsLaunch {
        RecordedOpsLaunch::new(self.inputs, self.outputs, self.config, self.value)
    }
}

/// Takes the operations on the value at a place of the result, and writes what they come to.
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
