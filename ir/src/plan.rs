//! What all targets share of a plan: loops, walks, sizes.

use crate::{Children, Dialect, Extents, LayoutKind, Size, Transform};

/// The dimension that a loop goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// Rows.
    Batch,
    /// Trees.
    Tree,
}

/// A number of the plan: either compiled in, or one of [`Plan::sizes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// The number itself, which is compiled in.
    Const(u32),
    /// Index in [`Plan::sizes`] of a number that is read at run time.
    Size(u32),
}

/// An upper bound of a loop's offset: `offset < end - Σ registers`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// The bound before registers are subtracted.
    pub end: Value,
    /// Registers (offsets of enclosing loops) to subtract.
    pub minus: Vec<u32>,
}

/// The offsets of a loop: `start, start + stride, …` as far as every limit allows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// The first offset.
    pub start: Value,
    /// Distance from one offset to the next.
    pub stride: Value,
    /// The bounds. An offset satisfies all of them.
    pub limits: Vec<Limit>,
}

/// A loop over rows, without its body.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowLoop {
    /// Register that holds the loop's offset.
    pub register: u32,
    /// The loop's offsets.
    pub range: Range,
}

/// How a loop's iterations run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Map<D: Dialect> {
    /// One after the other, in a loop.
    Serial,
    /// One after the other, in straight-line code that repeats the body `count` times. A repetition does
    /// nothing if its offset is out of range.
    Unrolled {
        /// How many times the code holds the body.
        count: u32,
    },
    /// At the same time, as the target defines.
    Own(D::Map),
}

/// A loop. Each iteration adds its offset to the running row or tree, which is the sum of the offsets of the
/// enclosing loops, and keeps the offset in a register.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Loop<D: Dialect> {
    /// The loop's name in the schedule.
    pub var: String,
    /// The dimension that the loop goes over.
    pub dim: Dim,
    /// Register that holds the offset. Its number is the loop's depth in the nest.
    pub register: u32,
    /// The loop's offsets.
    pub range: Range,
    /// How the iterations run.
    pub map: Map<D>,
    /// The statements of an iteration.
    pub body: Vec<Op<D>>,
}

/// Walks of several rows or trees that advance together, one in each lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lanes {
    /// The dimension that the lanes go over.
    pub dim: Dim,
    /// Number of lanes.
    pub count: u32,
    /// The offsets of the lanes.
    pub range: Range,
    /// Register of the loop whose iterations are the lanes.
    pub register: u32,
}

/// How a walk goes on after its straight-line steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Remainder {
    /// It ends: the straight-line steps reach every leaf.
    Nothing,
    /// It steps until it is at a leaf, with a leaf test for each step.
    UntilLeaf,
    /// It takes as many steps in all as the tree's depth in the table of trees, with no leaf test.
    Counted,
}

/// `walkDecisionTree`: finds a row's leaf in a tree. Then `reduce`: adds the leaf value to a sum.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Walk<D: Dialect> {
    /// The walks that advance together, if more than one does.
    pub lanes: Option<Lanes>,
    /// Number of steps in straight-line code with no leaf test.
    pub steps: u32,
    /// How the walk goes on after those steps.
    pub rest: Remainder,
    /// The target's own data of the walk: where the leaf value is added, and more.
    pub own: D::Walk,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op<D: Dialect> {
    /// A loop.
    Loop(Loop<D>),
    /// A walk.
    Walk(Walk<D>),
    /// One of several bodies, chosen by a loop's offset.
    Cases {
        /// Register of the loop.
        register: u32,
        /// The bodies in order, each with the end of its offsets: a body runs for offsets below its end that
        /// no earlier body runs for. The last body also runs for all other offsets.
        cases: Vec<(u32, Vec<Op<D>>)>,
    },
    /// A statement that only this target has.
    Own(D::Op),
}

impl<D: Dialect> Op<D> {
    /// Returns the bodies inside the statement: a loop's body, or every case's.
    pub fn bodies(&self) -> Vec<&[Self]> {
        match self {
            Self::Loop(l) => vec![&l.body],
            Self::Cases { cases, .. } => cases.iter().map(|(_, body)| &body[..]).collect(),
            Self::Own(op) => D::body(op).into_iter().collect(),
            Self::Walk(_) => Vec::new(),
        }
    }
}

/// How a row's leaf values become its margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Combine {
    /// Leaf values are added up as floats.
    Sum,
    /// The margin is the smallest leaf value.
    Min,
    /// The margin is the largest leaf value.
    Max,
    /// Leaf values are added up as integers of two words each. The sum is the same in any order.
    Fixed,
}

impl Combine {
    /// Returns the number of words of a sum.
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
    /// For each visit of a row to a tree, the number of the worker that made it and the visit's number among
    /// the worker's visits: `rows x trees x 2`, u32.
    Trace,
}

impl Emit {
    /// Whether a run adds up leaf values.
    pub fn sums(self) -> bool {
        matches!(self, Self::Margins | Self::Values(_))
    }

    /// Returns the transform of margins before they are written.
    pub fn transform(self) -> Transform {
        if let Self::Values(transform) = self { transform } else { Transform::Identity }
    }

    /// Returns the number of words written for each row, for a forest of `outputs` outputs and `trees` trees.
    pub fn width(self, outputs: u32, trees: u32) -> u32 {
        match self {
            Self::Margins => outputs,
            Self::Values(transform) => transform.width(outputs),
            Self::Slots => trees,
            Self::Trace => trees.saturating_mul(2),
        }
    }
}

/// The type of the rows in memory. Values of every type are widened exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowType {
    /// IEEE single, 32 bits.
    F32,
    /// IEEE half, 16 bits.
    F16,
    /// bfloat16, 16 bits.
    BF16,
    /// Ranks of one byte.
    U8,
    /// Ranks of two bytes.
    U16,
}

impl RowType {
    /// Returns the number of values in a word.
    pub fn per_word(self) -> u32 {
        match self {
            Self::F32 => 1,
            Self::F16 | Self::BF16 | Self::U16 => 2,
            Self::U8 => 4,
        }
    }

    /// Returns the number of key bits below the rank, or `None` if rows are no ranks. All those bits are set
    /// in a key. Above them a key has one bit more than a rank takes, so that a word can be above every key.
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
    /// What a run writes.
    pub emit: Emit,
    /// The layout of the nodes.
    pub layout: LayoutKind,
    /// The rule by which walks step through the layout.
    pub children: Children,
    /// How leaf values become margins.
    pub combine: Combine,
    /// Whether some node asks a question instead of comparing with a threshold: see
    /// [`question`](crate::question).
    pub questions: bool,
    /// Number of outputs of a row.
    pub outputs: u32,
    /// Whether a leaf holds a value for each output.
    pub vector_leaves: bool,
    /// The type of the rows that walks read.
    pub rows: RowType,
    /// The sizes that are read at run time. [`Value::Size`] is an index into them.
    pub sizes: Vec<Size>,
    /// The statements of the plan.
    pub body: Vec<Op<D>>,
    /// The target's own data of the plan.
    pub own: D::Head,
}

impl<D: Dialect> Plan<D> {
    /// Returns every statement, each before the statements inside it.
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

    /// Returns every walk, in order.
    pub fn walks(&self) -> impl Iterator<Item = &Walk<D>> {
        self.ops().into_iter().filter_map(|op| if let Op::Walk(walk) = op { Some(walk) } else { None })
    }

    /// Returns the number that a value stands for at these extents.
    pub fn resolve(&self, value: Value, at: Extents) -> u32 {
        match value {
            Value::Const(n) => n,
            Value::Size(s) => self.sizes[s as usize].resolve(at),
        }
    }
}

/// Whether `of` holds for any statement, those inside other statements included.
pub(crate) fn any<D: Dialect>(ops: &[Op<D>], of: &impl Fn(&Op<D>) -> bool) -> bool {
    ops.iter().any(|op| of(op) || op.bodies().into_iter().any(|body| any(body, of)))
}
