//! The schedule language: *how* a forest is walked, separate from what the forest means.
//!
//! A [`Schedule`] is a list of [`Directive`]s over index variables. Two variables are given: `batch`, the rows of a
//! call, and `tree`, the trees of the forest, nested in that order. Directives derive other variables from them
//! (SilvanForge, section 3). A schedule has a builder, a text form ([`Schedule::parse`], `Display`), and a [`Nest`] of
//! the loops that it describes. This module does not know how nodes are stored. Of a device it knows only the numbers
//! in [`Device`].
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
mod by_batch;
mod code_limits;
mod cubes;
mod nest;
mod parse;
mod presets;
mod template;
mod text;
mod verify;

use std::fmt;

pub use architecture::{Architecture, UnknownArchitecture};
pub use by_batch::BatchSchedules;
pub use code_limits::CodeLimits;
pub use cubes::{RankedCube, ranked_cubes};
pub(crate) use nest::MOST_DEPTH;
pub use nest::{Bound, IndexVar, Mapping, Marks, Nest, NestLoop, ReduceMarks};
pub use parse::ParseError;
pub use presets::Preset;
pub(crate) use presets::{cpu_facts, cpu_schedule};
pub use template::Template;
pub use verify::{Device, Gpu, ScheduleError};

pub use fangorn_ir::{Axis, Dim, Extents, FewRows, GpuDim, LayoutKind, Size};

use crate::ranks::Choice;

/// A list of directives, applied in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Schedule {
    /// The directives, in order.
    pub directives: Vec<Directive>,
}

/// The order of the trees, by which positions are assigned before the trees are walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TreeOrder {
    /// By the depth of the deepest leaf, shallow trees first. Trees of equal depth keep the producer's order.
    Depth,
    /// By the depth of the shallowest leaf, then by the depth of the deepest leaf.
    FirstLeaf,
    /// By depth, then by the pattern of leaves in level order, so that trees of the same shape are side by side.
    Structure,
    /// By the depth at which [`LIKELY_PERCENT`] of the rows of a profile have reached a leaf, then by depth.
    LikelyLeaf,
}

impl TreeOrder {
    /// All tree orders.
    pub const ALL: [Self; 4] = [Self::Depth, Self::FirstLeaf, Self::Structure, Self::LikelyLeaf];

    /// Returns the name in a schedule's text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Depth => "depth",
            Self::FirstLeaf => "first_leaf",
            Self::Structure => "structure",
            Self::LikelyLeaf => "likely_leaf",
        }
    }
}

/// `sort(likely_leaf)` orders trees by the depth at which this percentage of a profile's rows has reached a
/// leaf (Treebeard, section 5.2.3).
pub const LIKELY_PERCENT: u32 = 90;

/// The rule by which a tree's nodes are gathered into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tiler {
    /// Fills tiles level by level (Treebeard, algorithm 1).
    Uniform,
    /// Fills tiles with the nodes that most rows of a profile reach (Treebeard, algorithm 2).
    Probability,
    /// Fills a tree's tiles by probability if a few leaves hold nearly all rows, otherwise level by level (Treebeard,
    /// section 3.4.1).
    Hybrid,
}

impl Tiler {
    /// All rules.
    pub const ALL: [Self; 3] = [Self::Uniform, Self::Probability, Self::Hybrid];

    /// Returns the name in a schedule's text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Probability => "probability",
            Self::Hybrid => "hybrid",
        }
    }
}

/// Percentage by which `pad` may let a tree grow if the directive gives none.
pub const PAD_PERCENT: u32 = 10;

/// One line of a schedule. Most directives name loops by their variables. A `split` repeats the loops inside its loop.
/// Afterwards their plain name stands for all repetitions, and `first.name` for the one inside `first`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Directive {
    /// `tile(v, outer, inner, size)`: walks `v` in tiles of `size` iterations. The last tile may be partial.
    Tile {
        /// The variable to tile. It no longer exists afterwards.
        var: String,
        /// The variable that steps from tile to tile.
        outer: String,
        /// The variable that steps inside a tile.
        inner: String,
        /// Number of iterations of `var` in a tile.
        size: Size,
    },
    /// `split(v, first, second, at)`: makes two loops, one after the other, the first over `at` iterations of
    /// `v`.
    Split {
        /// The variable to split. It no longer exists afterwards.
        var: String,
        /// The variable of the first `at` iterations.
        first: String,
        /// The variable of the remaining iterations.
        second: String,
        /// Number of iterations of the first loop.
        at: Size,
    },
    /// `reorder(v, w, …)`: puts loops that are perfectly nested into this order, outermost first.
    Reorder {
        /// The variables of the loops, outermost first.
        vars: Vec<String>,
    },
    /// `unroll(v)`: turns the loop's iterations into straight-line code, one after the other.
    Unroll {
        /// A loop whose number of iterations does not depend on the batch.
        var: String,
    },
    /// `specialize(v)`: gives each iteration of `v` code of its own for the trees that it visits. Iterations
    /// with equal code share it.
    Specialize {
        /// The loop to specialize.
        var: String,
    },
    /// `parallel(v)`: runs iterations on the machine's threads.
    Parallel {
        /// The loop to run in parallel.
        var: String,
    },
    /// `gpuDimension(v, grid.x)`: maps iterations to the cubes or the units of a GPU launch.
    GpuDimension {
        /// The loop to map.
        var: String,
        /// The dimension of the launch.
        dim: GpuDim,
    },
    /// `cache(v)`: caches the rows or the trees of one iteration of `v`, in shared memory on a GPU.
    Cache {
        /// A loop over rows or over trees.
        var: String,
    },
    /// `interleave(v)`: the walks of the innermost loop `v` advance together, one step of each in turn. This
    /// covers the steps that `unrollWalk` makes straight-line code. Then the walks end one by one.
    Interleave {
        /// An innermost loop with a constant number of iterations.
        var: String,
    },
    /// `unrollWalk(v)` or `unrollWalk(v, n)`: walks in the innermost loop `v` take `n` steps in straight-line
    /// code without a leaf test. Without `n`, they take as many steps as their deepest tree needs.
    UnrollWalk {
        /// An innermost loop.
        var: String,
        /// Number of steps, or `None` for as many as the trees are deep.
        steps: Option<u32>,
    },
    /// `peelWalk(v, n)`: walks in the innermost loop `v` take their first steps without a leaf test: at most `n`, and
    /// at most as many as the shallowest leaf of their trees is deep.
    PeelWalk {
        /// An innermost loop.
        var: String,
        /// The greatest number of steps.
        steps: u32,
    },
    /// `peelWalk(v, 90%)`: walks in the innermost loop `v` take straight-line steps, each with a leaf test,
    /// down to the depth at which this percentage of a profile's rows has reached a leaf in each of their
    /// trees.
    PeelLikely {
        /// An innermost loop.
        var: String,
        /// Percentage of rows, 1 to 100.
        percent: u32,
    },
    /// `evaluate(v, walk)`, `evaluate(v, blend)` or `evaluate(v, blend(levels))`: chooses how the trees of
    /// the innermost loop `v` find leaves.
    Evaluate {
        /// An innermost loop.
        var: String,
        /// How the trees find leaves.
        how: Evaluation,
    },
    /// `atomicReduce(v)`: iterations of the parallel tree loop `v` add to their sums with atomic operations.
    AtomicReduce {
        /// A loop over trees.
        var: String,
    },
    /// `sharedReduce(v)`: keeps the partial sums of the tree loop `v` in a cube's shared memory.
    SharedReduce {
        /// A loop over trees on a block dimension.
        var: String,
    },
    /// `vectorReduce(v, width)`: the stage that adds up the private sums of `v` adds `width` of them at a
    /// time.
    VectorReduce {
        /// A loop over trees.
        var: String,
        /// Number of sums at a time: 1, 2, 4, 8 or 16.
        width: u32,
    },
    /// `layout(array)`, `layout(sparse)`, `layout(reorg)`, `layout(depth_first)`: chooses how nodes lie in
    /// memory.
    Layout {
        /// The layout to use.
        kind: LayoutKind,
    },
    /// `tileNodes(n, uniform)`, `tileNodes(n, probability)`, `tileNodes(n, hybrid)`: one step of a walk
    /// decides up to `n` connected nodes.
    TileNodes {
        /// Number of nodes of a tile, 1 to 8. With 1, walks decide single nodes.
        nodes: u32,
        /// The rule that gathers nodes into tiles.
        by: Tiler,
    },
    /// `sort(depth)`, `sort(first_leaf)`, `sort(structure)`, `sort(likely_leaf)`: chooses the order in which
    /// `tree` counts the trees.
    Sort {
        /// The order of the trees.
        by: TreeOrder,
    },
    /// `pad()`, `pad(percent)`: pads a tree so that all its leaves lie at one depth, if this adds no more
    /// than `percent` nodes.
    Pad {
        /// The greatest number of added nodes, as a percentage of the tree's nodes.
        percent: u32,
    },
    /// `fewRows(auto)`, or the name of another [choice](FewRows): chooses the engine for a few rows, too few to fill vectors.
    FewRows {
        /// The engine for a few rows.
        by: FewRows,
    },
    /// `ranks(u8)`, `ranks(u16)`, `ranks(auto)`, `ranks(off)`: turns rows and thresholds into
    /// [ranks](crate::ranks) before trees are walked.
    Ranks {
        /// The width of ranks. `None` leaves values as they are.
        choice: Option<Choice>,
    },
}

/// How a tree finds the leaf of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Evaluation {
    /// Walks from the root, one split in each step.
    #[default]
    Walk,
    /// Evaluates every split for many rows at once. Each split chooses between the leaves that its children
    /// have found.
    Blend,
    /// Evaluates the splits of this many levels from the root down for many rows at once, and walks the levels below.
    BlendTop(u32),
}

impl Evaluation {
    /// The greatest number of levels of [`Evaluation::BlendTop`]. A full tree with this many levels has as many exits
    /// as a byte has values.
    pub const MOST_LEVELS: u32 = 8;

    /// Returns whether some splits are evaluated for many rows at once.
    pub fn blends(self) -> bool {
        self != Self::Walk
    }

    /// Returns how many levels from the root down are evaluated for many rows at once. It is `u32::MAX` for
    /// all levels, and `None` for a walk.
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
    /// Returns the empty schedule: for each row, every tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the text form: one directive a line. A `#` begins a comment that ends with the line.
    ///
    /// # Errors
    /// Returns a [`ParseError`] that names the line, the column and what was expected there.
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

    /// Returns the engine for a few rows that the schedule's last `fewRows` chooses. Without `fewRows`, it is
    /// [`FewRows::Rows`] if the schedule chooses a layout or how walks step, so that the choice applies to a few rows,
    /// too. Otherwise it is [`FewRows::Auto`].
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

    /// Returns the width of ranks that the schedule's last `ranks` chooses, or `None` if there is no `ranks` or it says
    /// `off`.
    pub fn rank_choice(&self) -> Option<Choice> {
        let named = self.directives.iter().rev().find_map(|d| match d {
            Directive::Ranks { choice } => Some(*choice),
            _ => None,
        });
        named.flatten()
    }

    /// Returns the growth in percent that the schedule's last `pad` allows, or `None` if there is no `pad`.
    pub fn padding(&self) -> Option<u32> {
        self.directives.iter().rev().find_map(|d| match d {
            Directive::Pad { percent } => Some(*percent),
            _ => None,
        })
    }

    /// Returns the layout that the schedule names last, or `None` if it names none.
    pub fn layout_kind(&self) -> Option<LayoutKind> {
        self.directives.iter().rev().find_map(|d| match d {
            Directive::Layout { kind } => Some(*kind),
            _ => None,
        })
    }

    /// Returns the tree order that the schedule names last, or `None` if it names none.
    pub fn tree_order(&self) -> Option<TreeOrder> {
        self.directives.iter().rev().find_map(|d| match d {
            Directive::Sort { by } => Some(*by),
            _ => None,
        })
    }

    /// Returns the tiles that the schedule names last: the greatest number of nodes of a tile, and the rule
    /// that gathers nodes. It is `None` if walks decide single nodes.
    pub fn tiles(&self) -> Option<(u32, Tiler)> {
        let named = self.directives.iter().rev().find_map(|d| match d {
            Directive::TileNodes { nodes, by } => Some((*nodes, *by)),
            _ => None,
        });
        named.filter(|(nodes, _)| *nodes > 1)
    }

    /// Returns the schedule with the same loops on values instead of ranks, walked instead of blended.
    #[must_use]
    pub fn unranked(&self) -> Self {
        let kept = |d: &&Directive| !matches!(d, Directive::Ranks { .. } | Directive::Evaluate { .. });
        Self { directives: self.directives.iter().filter(kept).cloned().collect() }
    }

    /// Returns whether the trees of some loop are evaluated by blends.
    pub fn blends(&self) -> bool {
        self.directives.iter().any(|d| matches!(d, Directive::Evaluate { how, .. } if how.blends()))
    }

    /// Returns the number of rows of the first tile of the batch; `None` if there is none or it is not a number.
    pub(crate) fn rows_of_tile(&self) -> Option<u32> {
        self.directives.iter().find_map(|d| match d {
            Directive::Tile { var, size: Size::Const(rows), .. } if var == "batch" => Some(*rows),
            _ => None,
        })
    }

    /// Returns whether the walks of some loop are unrolled.
    pub fn unrolls_walks(&self) -> bool {
        self.directives.iter().any(|d| matches!(d, Directive::UnrollWalk { .. }))
    }

    /// Returns whether some loop is mapped to a GPU dimension.
    pub fn is_mapped(&self) -> bool {
        self.directives.iter().any(|d| matches!(d, Directive::GpuDimension { .. }))
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.directives.iter().try_for_each(|d| writeln!(f, "{d}"))
    }
}
