//! LIR: what a schedule on a layout becomes. The types are in `fangorn-ir`, which every target sees. This
//! module lowers a forest and a schedule to them.

mod budget;
mod lower;
mod to_cpu;
mod to_cube;
mod trees;

pub use fangorn_ir::{
    Children, Combine, Dialect, Emit, EpilogueOp, EpiloguePlan, FewRows, Lanes, Limit, Loop, MISSING, Map,
    Number, Op, Plan, PlanData, Range, Remainder, RowLoop, RowType, Scope, Target, TargetPlan, Value, Walk,
    cpu, cube, key, question,
};
pub(crate) use fangorn_ir::{Dim, Extents, GpuDim, Size};

pub use crate::{
    layout::{LayoutError, PackedForest, PackedNode, Shape},
    mir::{LoopNest, Mode, SharedCodeReason, UnspecializedLoop, Visit},
};
pub(crate) use lower::lower_verified;
pub use lower::{LoweredForest, Note, Request, check, check_with, lower, lower_with};
#[cfg(feature = "kernels")]
pub(crate) use to_cube::group_columns;

/// The types of the loop nests of [`LoweredForest::loops`] and [`LoweredForest::legal`].
pub mod nest {
    pub use crate::mir::{BufferId, Case, Cases, Loop, Op, Partial, Private, Reduce, Walk};
}
