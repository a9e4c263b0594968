//! The schedule language: *how* a forest is walked, said apart from what it means.
//!
//! A [`Schedule`] is a list of [`Directive`]s over index variables. Two are given: `batch`, the rows of a call, and
//! `tree`, the trees of the forest, nested in that order. Directives derive others from them (SilvanForge,
//! section 3). A schedule has a builder, a text form ([`Schedule::parse`], `Display`), and a [`Nest`] of loops that
//! it spells out. It knows nothing of node storage and nothing of devices beyond [`Device`]'s numbers.
//!
//! ```
//! use fangorn::schedule::{Schedule, Size};
//!
//! let built = Schedule::new()
//!     .tile("batch", "b0", "b1", 64u32)
//!     .reorder(["b0", "tree", "b1"])
//!     .parallel("b0");
//! let parsed = Schedule::parse("tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\nparallel(b0)")?;
//! assert_eq!(built, parsed);
//! # Ok::<(), fangorn::Error>(())
//! ```

mod architecture;
mod nest;
mod parse;
mod presets;
mod template;
mod text;
mod verify;

use std::fmt;

pub use architecture::{Architecture, UnknownArchitecture};
pub(crate) use nest::MOST_DEPTH;
pub use nest::{Bound, IndexVar, Mapping, Marks, Nest, NestLoop, ReduceMarks};
pub use parse::ParseError;
pub use presets::Preset;
pub use template::Template;
pub use verify::{Device, Gpu, MOST_SIBLING_WALKS, ScheduleError};

pub use fangorn_ir::{Axis, Dim, Extents, GpuDim, LayoutKind, Size};

use crate::ranks::Choice;

/// A schedule: directives, applied in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Schedule {
    /// The directives.
    pub directives: Vec<Directive>,
}

/// How the trees are ordered before they are walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TreeOrder {
    /// By depth, shallow first; equal depths stay in the producer's order.
    Depth,
    /// By the depth of the shallowest leaf, then by depth.
    FirstLeaf,
    /// Trees of one shape side by side: by depth, then by which nodes of a level are leaves.
    Structure,
    /// By the depth at which [`LIKELY_PERCENT`] of the rows of a profile have come to a leaf, then by depth.
    LikelyLeaf,
}

impl TreeOrder {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Depth, Self::FirstLeaf, Self::Structure, Self::LikelyLeaf];

    /// The name in a schedule's text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Depth => "depth",
            Self::FirstLeaf => "first_leaf",
            Self::Structure => "structure",
            Self::LikelyLeaf => "likely_leaf",
        }
    }
}

/// Percent of the rows by which `sort(likely_leaf)` orders trees (Treebeard, section 5.2.3).
pub const LIKELY_PERCENT: u32 = 90;

/// How a tree's nodes are gathered into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tiler {
    /// Level by level (Treebeard, algorithm 1).
    Uniform,
    /// The nodes that most rows of a profile come to (Treebeard, algorithm 2).
    Probability,
    /// By probability where a few leaves hold nearly all rows, otherwise level by level (Treebeard, section 3.4.1).
    Hybrid,
}

impl Tiler {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Uniform, Self::Probability, Self::Hybrid];

    /// The name in a schedule's text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Probability => "probability",
            Self::Hybrid => "hybrid",
        }
    }
}

/// Percent by which `pad` may let a tree grow where the directive does not say.
pub const PAD_PERCENT: u32 = 10;

/// One line of a schedule. Variables are named; a name that a `split` has doubled means every copy, and
/// `first.name` means the copy inside `first`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Directive {
    /// `tile(v, outer, inner, size)`: walk `v` in tiles of `size` iterations; the last may be partial.
    Tile {
        /// The variable that is tiled, and gone afterwards.
        var: String,
        /// Steps from tile to tile.
        outer: String,
        /// Steps inside a tile.
        inner: String,
        /// Iterations of `var` in a tile.
        size: Size,
    },
    /// `split(v, first, second, at)`: two loops one after the other, the first over `at` iterations of `v`.
    Split {
        /// The variable that is split, and gone afterwards.
        var: String,
        /// The first `at` iterations.
        first: String,
        /// The rest.
        second: String,
        /// Iterations of the first.
        at: Size,
    },
    /// `reorder(v, w, …)`: these loops, perfectly nested in each other, in this order from the outside in.
    Reorder {
        /// The loops, outermost first.
        vars: Vec<String>,
    },
    /// `unroll(v)`: the loop's iterations become straight-line code, one after the other.
    Unroll {
        /// A loop whose extent does not depend on the batch.
        var: String,
    },
    /// `specialize(v)`: code of its own for each iteration of `v`, for the trees that it visits; iterations whose code
    /// would be the same share it.
    Specialize {
        /// The loop.
        var: String,
    },
    /// `parallel(v)`: iterations run on the machine's threads.
    Parallel {
        /// The loop.
        var: String,
    },
    /// `gpuDimension(v, grid.x)`: iterations are the cubes or the units of a GPU launch.
    GpuDimension {
        /// The loop.
        var: String,
        /// The dimension.
        dim: GpuDim,
    },
    /// `cache(v)`: the rows, or the trees, of one iteration of `v` are kept close (shared memory on a GPU).
    Cache {
        /// A loop over rows or over trees.
        var: String,
    },
    /// `interleave(v)`: the walks of the innermost loop `v` advance together, a step of each in turn, for the steps
    /// that `unrollWalk` takes in straight-line code; the rest of each walk follows one by one.
    Interleave {
        /// An innermost loop of constant extent.
        var: String,
    },
    /// `unrollWalk(v)` or `unrollWalk(v, n)`: walks in the innermost loop `v` take `n` steps in straight-line code
    /// with no leaf test; without `n`, as many as the deepest tree there needs.
    UnrollWalk {
        /// An innermost loop.
        var: String,
        /// Steps, or as many as the trees are deep.
        steps: Option<u32>,
    },
    /// `peelWalk(v, n)`: walks in the innermost loop `v` take their first `n` steps, or as many as there are above the
    /// first leaf of any tree there, without a leaf test.
    PeelWalk {
        /// An innermost loop.
        var: String,
        /// Steps, at most.
        steps: u32,
    },
    /// `peelWalk(v, 90%)`: walks in the innermost loop `v` test for a leaf at each step, in straight-line code, down to
    /// the depth at which so many of the rows of a profile have come to one, in each tree there.
    PeelLikely {
        /// An innermost loop.
        var: String,
        /// Rows in percent, 1 to 100.
        percent: u32,
    },
    /// `evaluate(v, walk)`, `evaluate(v, blend)` or `evaluate(v, blend(levels))`: how the trees of the innermost loop `v` find leaves.
    Evaluate {
        /// An innermost loop.
        var: String,
        /// How.
        how: Evaluation,
    },
    /// `atomicReduce(v)`: iterations of the parallel tree loop `v` add to their sums with atomic operations.
    AtomicReduce {
        /// A loop over trees.
        var: String,
    },
    /// `sharedReduce(v)`: partial sums of the tree loop `v` are kept in a cube's shared memory.
    SharedReduce {
        /// A loop over trees on a block dimension.
        var: String,
    },
    /// `vectorReduce(v, width)`: the stage that adds up the private sums of `v` takes `width` of them at a time.
    VectorReduce {
        /// A loop over trees.
        var: String,
        /// Sums at a time: 1, 2, 4, 8 or 16.
        width: u32,
    },
    /// `layout(array)`, `layout(sparse)`, `layout(reorg)`, `layout(depth_first)`: how nodes lie in memory.
    Layout {
        /// The layout.
        kind: LayoutKind,
    },
    /// `tileNodes(n, uniform)`, `tileNodes(n, probability)`, `tileNodes(n, hybrid)`: walks decide up to `n` connected
    /// nodes at once.
    TileNodes {
        /// Nodes of a tile, 1 to 8; tiles of 1 are no tiles.
        nodes: u32,
        /// Which nodes are together.
        by: Tiler,
    },
    /// `sort(depth)`, `sort(first_leaf)`, `sort(structure)`, `sort(likely_leaf)`: the order in which `tree` counts the trees.
    Sort {
        /// The order.
        by: TreeOrder,
    },
    /// `pad()`, `pad(percent)`: trees get all their leaves at one depth where that adds no more nodes than this.
    Pad {
        /// Nodes added, in percent of those there are.
        percent: u32,
    },
    /// `fewRows(auto)`, `fewRows(registers)`, `fewRows(abreast)`, `fewRows(full)`, `fewRows(rows)`, `fewRows(walk)`: how rows too few
    /// for vectors find leaves.
    FewRows {
        /// How.
        by: FewRows,
    },
    /// `ranks(u8)`, `ranks(u16)`, `ranks(auto)`, `ranks(off)`: rows and thresholds become [ranks](crate::ranks) before
    /// trees are walked.
    Ranks {
        /// Their width; `None` leaves values as they are.
        choice: Option<Choice>,
    },
}

/// How rows that are too few to fill vectors find their leaves (CPU). An engine that can't serve a forest or a machine is not
/// taken, and rows are walked one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FewRows {
    /// By the fastest engine that can serve the forest on the machine.
    #[default]
    Auto,
    /// With the row in registers, four levels of a tree a step.
    Registers,
    /// Through 64 trees abreast, by gathers.
    Abreast,
    /// Through trees filled up, four side by side.
    Full,
    /// One row after the other, by walks on the schedule's layout.
    Rows,
    /// As many rows are: by walks in the order of the loops.
    Walk,
}

impl FewRows {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Auto, Self::Registers, Self::Abreast, Self::Full, Self::Rows, Self::Walk];

    /// The name in a schedule's text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Registers => "registers",
            Self::Abreast => "abreast",
            Self::Full => "full",
            Self::Rows => "rows",
            Self::Walk => "walk",
        }
    }
}

/// How a tree finds the leaf of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Evaluation {
    /// A walk from the root, a split a step.
    #[default]
    Walk,
    /// Every split for many rows at once, and of what its children found the one that it chooses.
    Blend,
    /// The same of the splits of so many levels from the root down; what lies below is walked.
    BlendTop(u32),
}

impl Evaluation {
    /// The most levels of [`Evaluation::BlendTop`]: a full tree's have as many exits as a byte has numbers.
    pub const MOST_LEVELS: u32 = 8;

    /// Whether some splits are evaluated for many rows at once.
    pub fn blends(self) -> bool {
        self != Self::Walk
    }

    /// Levels from the root down whose splits are, `u32::MAX` for all.
    pub fn levels(self) -> Option<u32> {
        match self {
            Self::Walk => None,
            Self::Blend => Some(u32::MAX),
            Self::BlendTop(levels) => Some(levels),
        }
    }
}

impl fmt::Display for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Walk => f.write_str("walk"),
            Self::Blend => f.write_str("blend"),
            Self::BlendTop(levels) => write!(f, "blend({levels})"),
        }
    }
}

impl Schedule {
    /// The empty schedule: for each row, every tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the text form, one directive a line, `#` to the end of a line a comment.
    ///
    /// # Errors
    /// A [`ParseError`] that names the line, the column and what was expected there.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::parse(text)
    }

    fn with(mut self, directive: Directive) -> Self {
        self.directives.push(directive);
        self
    }

    /// Adds [`Directive::Tile`].
    #[must_use]
    pub fn tile(self, var: &str, outer: &str, inner: &str, size: impl Into<Size>) -> Self {
        let [var, outer, inner] = [var, outer, inner].map(str::to_owned);
        self.with(Directive::Tile { var, outer, inner, size: size.into() })
    }

    /// Adds [`Directive::Split`].
    #[must_use]
    pub fn split(self, var: &str, first: &str, second: &str, at: impl Into<Size>) -> Self {
        let [var, first, second] = [var, first, second].map(str::to_owned);
        self.with(Directive::Split { var, first, second, at: at.into() })
    }

    /// Adds [`Directive::Reorder`].
    #[must_use]
    pub fn reorder<'a>(self, vars: impl IntoIterator<Item = &'a str>) -> Self {
        self.with(Directive::Reorder { vars: vars.into_iter().map(str::to_owned).collect() })
    }

    /// Adds [`Directive::Unroll`].
    #[must_use]
    pub fn unroll(self, var: &str) -> Self {
        self.with(Directive::Unroll { var: var.to_owned() })
    }

    /// Adds [`Directive::Specialize`].
    #[must_use]
    pub fn specialize(self, var: &str) -> Self {
        self.with(Directive::Specialize { var: var.to_owned() })
    }

    /// Adds [`Directive::Parallel`].
    #[must_use]
    pub fn parallel(self, var: &str) -> Self {
        self.with(Directive::Parallel { var: var.to_owned() })
    }

    /// Adds [`Directive::GpuDimension`].
    #[must_use]
    pub fn gpu_dimension(self, var: &str, dim: GpuDim) -> Self {
        self.with(Directive::GpuDimension { var: var.to_owned(), dim })
    }

    /// Adds [`Directive::Cache`].
    #[must_use]
    pub fn cache(self, var: &str) -> Self {
        self.with(Directive::Cache { var: var.to_owned() })
    }

    /// Adds [`Directive::Interleave`].
    #[must_use]
    pub fn interleave(self, var: &str) -> Self {
        self.with(Directive::Interleave { var: var.to_owned() })
    }

    /// Adds [`Directive::UnrollWalk`].
    #[must_use]
    pub fn unroll_walk(self, var: &str, steps: Option<u32>) -> Self {
        self.with(Directive::UnrollWalk { var: var.to_owned(), steps })
    }

    /// Adds [`Directive::Evaluate`].
    #[must_use]
    pub fn evaluate(self, var: &str, how: Evaluation) -> Self {
        self.with(Directive::Evaluate { var: var.to_owned(), how })
    }

    /// Adds [`Directive::PeelWalk`].
    #[must_use]
    pub fn peel_walk(self, var: &str, steps: u32) -> Self {
        self.with(Directive::PeelWalk { var: var.to_owned(), steps })
    }

    /// Adds [`Directive::PeelLikely`].
    #[must_use]
    pub fn peel_likely(self, var: &str, percent: u32) -> Self {
        self.with(Directive::PeelLikely { var: var.to_owned(), percent })
    }

    /// Adds [`Directive::AtomicReduce`].
    #[must_use]
    pub fn atomic_reduce(self, var: &str) -> Self {
        self.with(Directive::AtomicReduce { var: var.to_owned() })
    }

    /// Adds [`Directive::VectorReduce`].
    #[must_use]
    pub fn vector_reduce(self, var: &str, width: u32) -> Self {
        self.with(Directive::VectorReduce { var: var.to_owned(), width })
    }

    /// Adds [`Directive::SharedReduce`].
    #[must_use]
    pub fn shared_reduce(self, var: &str) -> Self {
        self.with(Directive::SharedReduce { var: var.to_owned() })
    }

    /// Adds [`Directive::Layout`].
    #[must_use]
    pub fn layout(self, kind: LayoutKind) -> Self {
        self.with(Directive::Layout { kind })
    }

    /// Adds [`Directive::TileNodes`].
    #[must_use]
    pub fn tile_nodes(self, nodes: u32, by: Tiler) -> Self {
        self.with(Directive::TileNodes { nodes, by })
    }

    /// Adds [`Directive::Sort`].
    #[must_use]
    pub fn sort(self, by: TreeOrder) -> Self {
        self.with(Directive::Sort { by })
    }

    /// Adds [`Directive::Pad`].
    #[must_use]
    pub fn pad(self, percent: u32) -> Self {
        self.with(Directive::Pad { percent })
    }

    /// Adds [`Directive::FewRows`].
    #[must_use]
    pub fn few_rows(self, by: FewRows) -> Self {
        self.with(Directive::FewRows { by })
    }

    /// How a few rows find leaves: as the schedule says last. One that says how nodes lie or how walks go, and nothing of a few
    /// rows, has these walked so, too.
    pub fn few_rows_by(&self) -> FewRows {
        let named = self.directives.iter().rev().find_map(|d| match d {
            Directive::FewRows { by } => Some(*by),
            _ => None,
        });
        let says_how = |d: &Directive| {
            matches!(
                d,
                Directive::Layout { .. }
                    | Directive::TileNodes { .. }
                    | Directive::UnrollWalk { .. }
                    | Directive::PeelWalk { .. }
                    | Directive::PeelLikely { .. }
                    | Directive::Interleave { .. }
            )
        };
        let walked = self.directives.iter().any(says_how);
        named.unwrap_or(if walked { FewRows::Rows } else { FewRows::Auto })
    }

    /// Adds [`Directive::Ranks`].
    #[must_use]
    pub fn ranks(self, choice: Option<Choice>) -> Self {
        self.with(Directive::Ranks { choice })
    }

    /// The ranks that the schedule names last, if it wants any.
    pub fn rank_choice(&self) -> Option<Choice> {
        let named = self.directives.iter().rev().find_map(|d| match d {
            Directive::Ranks { choice } => Some(*choice),
            _ => None,
        });
        named.flatten()
    }

    /// The growth in percent that the schedule's last `pad` allows, if it has one.
    pub fn padding(&self) -> Option<u32> {
        self.directives.iter().rev().find_map(|d| match d {
            Directive::Pad { percent } => Some(*percent),
            _ => None,
        })
    }

    /// The layout the schedule names last, if it names one.
    pub fn layout_kind(&self) -> Option<LayoutKind> {
        self.directives.iter().rev().find_map(|d| match d {
            Directive::Layout { kind } => Some(*kind),
            _ => None,
        })
    }

    /// The tree order the schedule names last, if it names one.
    pub fn tree_order(&self) -> Option<TreeOrder> {
        self.directives.iter().rev().find_map(|d| match d {
            Directive::Sort { by } => Some(*by),
            _ => None,
        })
    }

    /// The tiles the schedule names last: how many nodes one has, and which; `None` where nodes are walked one by one.
    pub fn tiles(&self) -> Option<(u32, Tiler)> {
        let named = self.directives.iter().rev().find_map(|d| match d {
            Directive::TileNodes { nodes, by } => Some((*nodes, *by)),
            _ => None,
        });
        named.filter(|(nodes, _)| *nodes > 1)
    }

    /// The same loops on values, walked.
    #[must_use]
    pub fn unranked(&self) -> Self {
        let kept = |d: &&Directive| !matches!(d, Directive::Ranks { .. } | Directive::Evaluate { .. });
        Self { directives: self.directives.iter().filter(kept).cloned().collect() }
    }

    /// Whether some loop's trees are evaluated by blends.
    pub fn blends(&self) -> bool {
        self.directives.iter().any(|d| matches!(d, Directive::Evaluate { how, .. } if how.blends()))
    }

    /// Whether some loop is mapped to a GPU dimension.
    pub fn is_mapped(&self) -> bool {
        self.directives.iter().any(|d| matches!(d, Directive::GpuDimension { .. }))
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.directives.iter().try_for_each(|d| writeln!(f, "{d}"))
    }
}
