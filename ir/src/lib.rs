//! LIR: the shape of a program or a kernel, without the values of a model.
//!
//! A [`Plan`] is what one schedule on one layout becomes: loops with their mapping, walks, caches, partial
//! sums and the stages that reduce them. It is plain data. Numbers in a plan are compiled in, except
//! [`Plan::sizes`], which are read at run time, so that one kernel serves every batch and every model of the
//! same shape.
//!
//! All targets share the language of loops and walks. Statements that only one target has are in its
//! [`Dialect`]: [`cpu`] and [`cube`]. A plan of one target can't hold a statement of another, since the types
//! differ.
//!
//! ```
//! use fangorn_ir::{Children, Combine, Emit, LayoutKind, Op, Plan, Remainder, RowType, Walk, cpu};
//!
//! // One row through one tree, until its leaf.
//! let own = cpu::Walk { tested: 0, blend: None, into: cpu::Sum::Result { atomic: false } };
//! let plan = Plan::<cpu::Cpu> {
//!     emit: Emit::Margins,
//!     layout: LayoutKind::Sparse,
//!     children: Children::Linked,
//!     combine: Combine::Sum,
//!     questions: false,
//!     outputs: 1,
//!     vector_leaves: false,
//!     rows: RowType::F32,
//!     sizes: vec![],
//!     body: vec![Op::Walk(Walk { lanes: None, steps: 0, rest: Remainder::UntilLeaf, own })],
//!     own: cpu::Head::default(),
//! };
//! assert_eq!(plan.verify(), Ok(()));
//! assert!(plan.to_string().ends_with("result += walk until leaf\n"));
//! ```

mod axis;
pub mod cpu;
pub mod cube;
mod dialect;
mod epilogue;
mod few_rows;
mod key;
mod layout;
mod plan;
pub mod question;
mod size;
mod text;
mod transform;
mod verify;

pub use axis::{Axis, GpuDim};
pub use dialect::{Dialect, PlanData, Scope, Target, TargetPlan};
pub use epilogue::{EpilogueOp, EpiloguePlan, Number};
pub use few_rows::FewRows;
pub use key::{MISSING, key};
pub use layout::{Children, LayoutKind};
pub use plan::{
    Combine, Dim, Emit, Lanes, Limit, Loop, Map, Op, Plan, Range, Remainder, RowLoop, RowType, Value, Walk,
};
pub use size::{Extents, Size};
pub use transform::{LEAST_INCREMENT, Transform, argmax};
