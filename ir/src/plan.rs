//! What plans of all targets have: loops, walks, sizes.

use crate::{Children, Dialect, Extents, LayoutKind, Size, Transform};

/// What a loop goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// Rows.
    Batch,
    /// Trees.
    Tree,
}

/// A number of the plan: compiled in, or a slot of [`Plan::sizes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// Compiled in.
    Const(u32),
    /// Read at run time.
    Slot(u32),
}

/// `offset < end - Σ registers`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// The limit before anything is taken off.
    pub end: Value,
    /// Registers (offsets of enclosing loops) that are taken off.
    pub minus: Vec<u32>,
}

/// The offsets `start, start + step, …` that every limit allows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// First.
    pub start: Value,
    /// From one to the next.
    pub step: Value,
    /// Limits.
    pub limits: Vec<Limit>,
}

/// A loop over rows, without what it does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowLoop {
    /// Register of its offset.
    pub register: u32,
    /// Its offsets.
    pub range: Range,
}

/// How a loop's iterations run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Map<D: Dialect> {
    /// One after the other.
    Serial,
    /// One after the other, in straight-line code: so many times, unless the range ends before.
    Unrolled {
        /// Copies of the body.
        count: u32,
    },
    /// Side by side, as the target has it.
    Own(D::Map),
}

/// A loop. Its offset is added to the running row or tree, and kept in its register.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Loop<D: Dialect> {
    /// The schedule's name for it.
    pub var: String,
    /// What it goes over.
    pub dim: Dim,
    /// Register of its offset: its depth in the nest.
    pub register: u32,
    /// Its offsets.
    pub range: Range,
    /// How they run.
    pub map: Map<D>,
    /// What each does.
    pub body: Vec<Op<D>>,
}

/// Rows or trees that are walked together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lanes {
    /// What the lanes go over.
    pub dim: Dim,
    /// How many.
    pub count: u32,
    /// Their offsets.
    pub range: Range,
    /// Register of the loop they were.
    pub register: u32,
}

/// How a walk goes on after its straight-line steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Remainder {
    /// Not at all: the steps reach every leaf.
    Nothing,
    /// Until the leaf, which each step tests for.
    UntilLeaf,
    /// For as many steps as the tree's depth in the table of trees says, with no test for a leaf.
    Counted,
}

/// `walkDecisionTree`, and `reduce` of what it finds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Walk<D: Dialect> {
    /// Walks that advance together, if more than one does.
    pub lanes: Option<Lanes>,
    /// Steps taken in straight-line code, with no test for a leaf.
    pub steps: u32,
    /// What follows them.
    pub rest: Remainder,
    /// Where the leaf is added, and what else the target says of a walk.
    pub own: D::Walk,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op<D: Dialect> {
    /// A loop.
    Loop(Loop<D>),
    /// A walk.
    Walk(Walk<D>),
    /// One of several bodies, by a loop's offset.
    Cases {
        /// The loop's register.
        register: u32,
        /// The bodies in order, each for offsets below a number; the last also for all others.
        cases: Vec<(u32, Vec<Op<D>>)>,
    },
    /// A statement of the target alone.
    Own(D::Op),
}

impl<D: Dialect> Op<D> {
    /// The statements inside: a loop's body, or every case's.
    pub fn bodies(&self) -> Vec<&[Self]> {
        match self {
            Self::Loop(l) => vec![&l.body],
            Self::Cases { cases, .. } => cases.iter().map(|(_, body)| &body[..]).collect(),
            Self::Own(op) => D::body(op).into_iter().collect(),
            Self::Walk(_) => Vec::new(),
        }
    }
}

/// How leaves become a row's margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Combine {
    /// They are added up.
    Sum,
    /// The least.
    Min,
    /// The largest.
    Max,
    /// They are added up as whole numbers of two words each, in any order the same sum.
    Fixed,
}

impl Combine {
    /// Words of a sum.
    pub fn words(self) -> u32 {
        if self == Self::Fixed { 2 } else { 1 }
    }
}

/// What a run writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Emit {
    /// Margins: `rows x outputs`, f32.
    Margins,
    /// Values: margins times the forest's scale, transformed, f32.
    Values(Transform),
    /// Leaf slots: `rows x trees` in the producer's tree order, u32.
    Slots,
    /// For each visit its worker and its place in the worker's order: `rows x trees x 2`, u32.
    Trace,
}

impl Emit {
    /// Whether leaves are added up at all.
    pub fn sums(self) -> bool {
        matches!(self, Self::Margins | Self::Values(_))
    }

    /// What becomes of margins before they are written.
    pub fn transform(self) -> Transform {
        if let Self::Values(transform) = self { transform } else { Transform::Identity }
    }

    /// Words a row, for a forest of so many outputs and trees.
    pub fn width(self, outputs: u32, trees: u32) -> u32 {
        match self {
            Self::Margins => outputs,
            Self::Values(transform) => transform.width(outputs),
            Self::Slots => trees,
            Self::Trace => trees.saturating_mul(2),
        }
    }
}

/// The type of the rows in memory; values of each are widened exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowType {
    /// 32-bit.
    F32,
    /// IEEE half.
    F16,
    /// bfloat16.
    BF16,
    /// Ranks of one byte.
    U8,
    /// Ranks of two bytes.
    U16,
}

impl RowType {
    /// Values in a word.
    pub fn per_word(self) -> u32 {
        match self {
            Self::F32 => 1,
            Self::F16 | Self::BF16 | Self::U16 => 2,
            Self::U8 => 4,
        }
    }

    /// Of ranks, the bits of a key below the rank; all of them are set. There is one bit more above than a rank takes, so
    /// that a word can stand above every key.
    pub fn rank_shift(self) -> Option<u32> {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => None,
            Self::U8 => Some(23),
            Self::U16 => Some(15),
        }
    }
}

/// The shape of a target's program or kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan<D: Dialect> {
    /// What it writes.
    pub emit: Emit,
    /// The layout.
    pub layout: LayoutKind,
    /// How walks step through it.
    pub children: Children,
    /// How leaves become margins.
    pub combine: Combine,
    /// Whether some node asks more than a threshold: see [`question`](crate::question).
    pub questions: bool,
    /// Outputs a row.
    pub outputs: u32,
    /// Whether a leaf holds a value for each output.
    pub vector_leaves: bool,
    /// The type of the rows that are walked.
    pub rows: RowType,
    /// What the slots stand for.
    pub sizes: Vec<Size>,
    /// The statements.
    pub body: Vec<Op<D>>,
    /// What only this target's plans have.
    pub own: D::Head,
}

impl<D: Dialect> Plan<D> {
    /// Every statement, outermost first.
    pub fn ops(&self) -> Vec<&Op<D>> {
        fn all<'a, D: Dialect>(ops: &'a [Op<D>], out: &mut Vec<&'a Op<D>>) {
            for op in ops {
                out.push(op);
                op.bodies().into_iter().for_each(|body| all(body, out));
            }
        }
        let mut out = Vec::new();
        all(&self.body, &mut out);
        out
    }

    /// Every walk, in order.
    pub fn walks(&self) -> impl Iterator<Item = &Walk<D>> {
        self.ops().into_iter().filter_map(|op| if let Op::Walk(walk) = op { Some(walk) } else { None })
    }

    /// A value for these extents.
    pub fn resolve(&self, value: Value, at: Extents) -> u32 {
        match value {
            Value::Const(n) => n,
            Value::Slot(s) => self.sizes[s as usize].resolve(at),
        }
    }
}

/// Whether a statement, or one inside it, is as asked.
pub(crate) fn any<D: Dialect>(ops: &[Op<D>], of: &impl Fn(&Op<D>) -> bool) -> bool {
    ops.iter().any(|op| of(op) || op.bodies().into_iter().any(|body| any(body, of)))
}
