//! What each target defines of a plan for itself.

use std::{
    fmt::{self, Debug},
    hash::Hash,
};

use crate::{Op, Plan, Walk, cpu::Cpu, cube::Cube};

/// The target that a plan runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Native code on the CPU.
    Cpu,
    /// A cubecl kernel.
    Cube,
}

/// Plain data in a plan.
pub trait PlanData: Clone + Debug + Eq + Hash {}

impl<T: Clone + Debug + Eq + Hash> PlanData for T {}

/// The surroundings of a statement in a plan, as far as its checks depend on them.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Number of enclosing loops. Registers below this number are set.
    pub depth: u32,
    /// Whether some units of a cube may skip the statement, so that no barrier may stand here.
    pub divided: bool,
}

/// A target's own extension of the plan language: its statements, their text and their rules.
pub trait Dialect: Copy + Debug + Eq + Hash + 'static {
    /// The target that this dialect belongs to.
    const TARGET: Target;
    /// Statements that only this target has.
    type Op: PlanData;
    /// The mapping of a loop whose iterations run at the same time.
    type Map: PlanData + Copy;
    /// The target's own data of a walk.
    type Walk: PlanData;
    /// The target's own data of a whole plan.
    type Head: PlanData;

    /// Returns the statements inside a statement of the target, if it can hold any.
    fn body(op: &Self::Op) -> Option<&[Op<Self>]>;

    /// Returns the words after `plan cpu` or `plan cube`: what the plan writes, and where it computes that.
    fn emit_text(plan: &Plan<Self>) -> String;

    /// Returns the format of a node's words, for the line of the layout.
    fn node_text(plan: &Plan<Self>) -> String;

    /// Writes the lines of the launch, which stand before the lines of the sizes.
    ///
    /// # Errors
    /// An error of `f`.
    fn write_launch(plan: &Plan<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Writes the lines of caches and buffers, which stand after the lines of the sizes.
    ///
    /// # Errors
    /// An error of `f`.
    fn write_buffers(plan: &Plan<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Returns the words for how a loop's iterations run.
    fn map_text(map: Self::Map) -> String;

    /// Returns the text of a walk: where its leaf value goes, `start` (`walk` with lanes and steps), and
    /// `rest`.
    fn walk_text(walk: &Walk<Self>, start: &str, rest: &str) -> String;

    /// Writes a statement of the target at `depth`, and the statements inside it at `depth + 1`.
    ///
    /// # Errors
    /// An error of `f`.
    fn write_op(plan: &Plan<Self>, op: &Self::Op, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result;

    /// Checks the target's rules for a whole plan, except those for single statements.
    ///
    /// # Errors
    /// The first rule that the plan breaks.
    fn verify(plan: &Plan<Self>) -> Result<(), String>;

    /// Whether a loop with this mapping divides its iterations among the units of a cube. If it does, no
    /// barrier may stand inside.
    fn divides(_: Self::Map) -> bool {
        false
    }

    /// Checks the target's rules for a walk.
    ///
    /// # Errors
    /// The first rule that the walk breaks.
    fn verify_walk(plan: &Plan<Self>, walk: &Walk<Self>) -> Result<(), String>;

    /// Checks the target's rules for one of its own statements, and for the statements inside.
    ///
    /// # Errors
    /// The first rule that a statement breaks.
    fn verify_op(plan: &Plan<Self>, op: &Self::Op, scope: Scope) -> Result<(), String>;
}

/// A plan of any target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TargetPlan {
    /// The plan of a CPU program.
    Cpu(Plan<Cpu>),
    /// The plan of a kernel.
    Cube(Plan<Cube>),
}

impl TargetPlan {
    /// Returns the target that the plan runs on.
    pub fn target(&self) -> Target {
        match self {
            Self::Cpu(_) => Target::Cpu,
            Self::Cube(_) => Target::Cube,
        }
    }

    /// Returns the CPU's plan, or `None` if the plan is a kernel's.
    pub fn cpu(&self) -> Option<&Plan<Cpu>> {
        if let Self::Cpu(plan) = self { Some(plan) } else { None }
    }

    /// Returns the kernel's plan, or `None` if the plan is the CPU's.
    pub fn cube(&self) -> Option<&Plan<Cube>> {
        if let Self::Cube(plan) = self { Some(plan) } else { None }
    }
}

impl fmt::Display for TargetPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(plan) => write!(f, "{plan}"),
            Self::Cube(plan) => write!(f, "{plan}"),
        }
    }
}
