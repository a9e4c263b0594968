//! Stands in for the operations that burn's fusion records, in a build without burn: there are none.

use cubecl::prelude::*;

use super::epilogue_steps::EpilogueOperands;

/// The recorded operations. No call has any.
#[derive(CubeType, CubeLaunch)]
pub struct RecordedOps {
    #[allow(dead_code, reason = "a struct of a kernel has a field")]
    #[cube(comptime)]
    none: (),
}

/// The recorded operations as a call hands them over. Nothing makes them.
#[derive(Debug)]
pub enum RecordedInputs {}

impl RecordedInputs {
    pub(super) fn launch(self) -> RecordedOpsLaunch {
        match self {}
    }
}

/// Runs the operations on the forest's value, and there are none: plans with recorded operations come from burn alone.
#[cube]
pub fn write(_beside: &mut EpilogueOperands, _at: u32, _value: f32) {}
