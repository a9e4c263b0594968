//! What targets say each in their own way.

use std::{
    fmt::{self, Debug},
    hash::Hash,
};

use crate::{Cpu, Cube, Op, Plan, Walk};

/// Where a plan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Native code on the CPU.
    Cpu,
    /// A cubecl kernel.
    Cube,
}

/// What a part of a plan has to be: plain data.
pub trait PlanPart: Clone + Debug + Eq + Hash {}

impl<T: Clone + Debug + Eq + Hash> PlanPart for T {}

/// Where a statement stands, for what has to be true of it.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Loops round it: registers below this are set.
    pub depth: u32,
    /// Whether some units of a cube may not come here, so that no barrier may stand here.
    pub divided: bool,
}

/// A target's own part of the language: what only its plans can say, with its text and its rules.
pub trait Dialect: Copy + Debug + Eq + Hash + 'static {
    /// The target.
    const TARGET: Target;
    /// Statements that only this target has.
    type Op: PlanPart;
    /// How iterations run side by side.
    type Map: PlanPart + Copy;
    /// What it says of a walk.
    type Walk: PlanPart;
    /// What it says of a whole plan.
    type Head: PlanPart;

    /// The statements inside one of its own.
    fn body(op: &Self::Op) -> Option<&[Op<Self>]>;

    /// The words after `plan cpu` or `plan cube`: what is written, and by whom.
    fn emit_text(plan: &Plan<Self>) -> String;

    /// What is known of a node's words, for the line of the layout.
    fn node_text(plan: &Plan<Self>) -> String;

    /// The lines of the launch, before those of the sizes.
    ///
    /// # Errors
    /// As `f`.
    fn write_launch(plan: &Plan<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// The lines of caches and buffers, after those of the sizes.
    ///
    /// # Errors
    /// As `f`.
    fn write_buffers(plan: &Plan<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// How a loop's iterations run.
    fn map_text(map: Self::Map) -> String;

    /// A walk: where its leaf goes, `walk` with lanes and steps, and its rest.
    fn walk_text(walk: &Walk<Self>, start: &str, rest: &str) -> String;

    /// One of its own statements, and those inside at `depth + 1`.
    ///
    /// # Errors
    /// As `f`.
    fn write_op(plan: &Plan<Self>, op: &Self::Op, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result;

    /// What has to be true of a whole plan, besides its statements.
    ///
    /// # Errors
    /// What is wrong.
    fn verify(plan: &Plan<Self>) -> Result<(), String>;

    /// Whether a loop that is mapped so shares its iterations out over a cube's units: no barrier may stand inside.
    fn divides(_: Self::Map) -> bool {
        false
    }

    /// What has to be true of a walk.
    ///
    /// # Errors
    /// What is wrong.
    fn verify_walk(plan: &Plan<Self>, walk: &Walk<Self>) -> Result<(), String>;

    /// What has to be true of one of its own statements, and of those inside.
    ///
    /// # Errors
    /// What is wrong.
    fn verify_op(plan: &Plan<Self>, op: &Self::Op, scope: Scope) -> Result<(), String>;
}

/// A plan, of whichever target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TargetPlan {
    /// A program of the CPU.
    Cpu(Plan<Cpu>),
    /// A kernel.
    Cube(Plan<Cube>),
}

impl TargetPlan {
    /// Where it runs.
    pub fn target(&self) -> Target {
        match self {
            Self::Cpu(_) => Target::Cpu,
            Self::Cube(_) => Target::Cube,
        }
    }

    /// The CPU's plan, where it is that.
    pub fn cpu(&self) -> Option<&Plan<Cpu>> {
        if let Self::Cpu(plan) = self { Some(plan) } else { None }
    }

    /// The kernel's plan, where it is that.
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
