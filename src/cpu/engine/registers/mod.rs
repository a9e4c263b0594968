//! Walks a few rows, one row at a time. The row stays in registers, and a few instructions decide all splits of a tile.
//!
//! A batch of a few rows fills neither blends nor vectors of rows, and the walk of one row waits for its
//! loads. So a tree is cut into tiles (tree tiling: Treebeard, section 3.2). The row stays in registers, so a tile's
//! values are permuted and not loaded, and vector compares make all of its decisions. Walks of different trees do not
//! wait for each other.
//!
//! There are two kinds of tiles, and an engine of each: a [`Tile`] has four full levels, and a [`MaskTile`] any shape.

mod answers;
mod build;
mod masks;
#[cfg(test)]
mod tests;
mod tile;

pub(crate) use answers::{Answers, CategoryColumn, LookUp, LookUps};
pub(crate) use masks::MaskTile;
pub(crate) use tile::Tile;

use super::{Block, BlockEngine, EngineRequest, Source, Trees};
#[cfg(target_arch = "x86_64")]
use crate::cpu::arch::x86::avx512::registers as kernel;
#[cfg(target_arch = "x86_64")]
use crate::cpu::{engine::walk::Span, rows::Rows};
use crate::cpu::{
    engines::Engine,
    isa::{Isa, isa},
    rows::{Read, Row},
    sink::Sink,
};
use crate::{
    cost::{self, Machine},
    forest::Forest,
};
use answers::CategorySplit;
use build::TreeToCut;

/// Maximum number of columns of a row in registers.
pub(in crate::cpu) const MOST_COLUMNS: usize = 128;
/// The bit of an exit that is a leaf. If it is set, the other bits are the leaf slot minus the tree's least
/// leaf slot. If it is not set, the exit is the index of the next tile, counted from the tree's root tile.
pub(crate) const LEAF: u16 = 1 << 15;

/// A kind of tiles.
pub(crate) trait TileKind: Kernel + Sized {
    /// The maximum number of splits of a tile.
    const SPLITS: usize;
    /// The entries of a tile's arrays of splits. The last one has no split.
    const ENTRIES: usize = Self::SPLITS + 1;

    /// Whether a tile may have splits on categories.
    const TAKES_CATEGORIES: bool;

    /// Cuts a tile out of a tree, from the node `top` on. Returns `None` if a split has no place in a tile.
    fn cut(tree: &TreeToCut<'_>, top: u32) -> Option<Cut<Self>>;

    /// Writes down which look-ups answer the tile's splits on categories.
    fn look_up(&mut self, look_ups: LookUps);

    /// Returns whether the tiles may be faster than others for a forest.
    fn may_be_faster(forest: &Forest) -> bool;

    /// Returns the tile's exits, left to right.
    fn exits(&mut self) -> &mut [u16];

    /// Returns the costs of such tiles.
    fn costs(costs: &cost::Registers) -> &cost::TileCosts;
}

/// A tile that was cut out of a tree. Its exits are yet to be written.
pub(crate) struct Cut<P> {
    tile: P,
    /// The thresholds of the tile's entries as `f64`, before they were rounded.
    exact: Vec<f64>,
    /// The node at each exit, from left to right.
    exits: Vec<u32>,
    /// The tile's splits on categories.
    asking: Vec<CategorySplit>,
}

/// The kernel of a kind of tiles. Only AVX-512 has some.
#[cfg(target_arch = "x86_64")]
pub(crate) use kernel::TileKernel as Kernel;

/// Other machines have no kernel.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) trait Kernel {}
#[cfg(not(target_arch = "x86_64"))]
impl<P> Kernel for P {}

/// The tiles of a tree, and how its walks go through them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    /// Index of the root's tile.
    pub(crate) root: u32,
    /// The tree's least leaf slot, which is added to an exit that is a leaf.
    pub(crate) slots: u32,
    /// How many tiles every walk of the tree goes through without a branch on whether it is at a leaf. A walk
    /// that ends sooner keeps its exit. A walk that has not ended after these tiles goes on, with a leaf test
    /// after each tile.
    pub(crate) tiles: u32,
    /// Whether every walk ends after exactly `tiles` tiles.
    pub(crate) ends_together: bool,
}

/// The trees of a forest as tiles, as kernels read them.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct TiledTrees<'a, P> {
    pub(in crate::cpu) tiles: &'a [P],
    /// The thresholds of each tile's entries as `f64`: see [`InRegisters`].
    pub(in crate::cpu) exact: &'a [f64],
    pub(in crate::cpu) answers: &'a Answers,
    /// By position.
    pub(in crate::cpu) trees: &'a [Tree],
    /// `columns[i]` is the column whose value is the `i`th in the registers. `None` if that is always column
    /// `i`.
    pub(in crate::cpu) columns: Option<&'a [u32]>,
    /// Number of values of a row that the registers hold.
    pub(in crate::cpu) values: usize,
}

/// Trees whose leaf slots are found before they go to the sink.
const TREES: usize = 128;

/// The engine that walks through tiles of four levels.
pub(crate) type Registers = InRegisters<Tile>;
/// The engine that walks through tiles of any shape.
pub(crate) type Masks = InRegisters<MaskTile>;

/// The trees of a forest as tiles, by position.
#[derive(Clone, Debug)]
pub(crate) struct InRegisters<P> {
    pub(crate) tiles: Vec<P>,
    /// The thresholds of each tile's entries as `f64`, for `f64` rows of a forest that compares in `f64`. There are none
    /// for other forests, and for one with thresholds next to 0 that are no normal numbers of `f32`.
    pub(crate) exact: Vec<f64>,
    /// The answers to splits on categories.
    pub(crate) answers: Answers,
    pub(crate) trees: Vec<Tree>,
    /// `columns[i]` is the column whose value is the `i`th in the registers. `None` if that is always column
    /// `i`.
    pub(crate) columns: Option<Vec<u32>>,
    /// Number of values of a row that the registers hold.
    pub(crate) values: usize,
    /// Mean number of tiles that one row goes through.
    row_tiles: f64,
    /// Estimated seconds of one row through all trees.
    seconds: f64,
}

impl<P: TileKind> InRegisters<P> {
    /// Cuts the trees of a forest into tiles. Returns `None` on a machine without the kernel, and for a
    /// forest that has predicates other than `Less` and `Always` and those that the kind of tiles takes, reads too many
    /// columns, has a tree with too many leaves or tiles, or takes more than 256 MiB.
    fn new(forest: &Forest, order: &[u32]) -> Option<Self> {
        if isa() < Isa::Avx512 { None } else { build::build(forest, order, Machine::here()) }
    }

    /// Cuts the trees of a forest into tiles for code that runs elsewhere: as [`new`](Self::new) does, but at the
    /// shipped costs of a machine with AVX-512, so that every machine writes the same code.
    pub(crate) fn for_elsewhere(forest: &Forest) -> Option<Self> {
        let order: Vec<u32> = (0..forest.trees.len() as u32).collect();
        build::build(forest, &order, Machine::shipped()[0])
    }

    /// Returns the estimated seconds of one row through all trees.
    pub(crate) fn row_seconds(&self) -> f64 {
        self.seconds
    }

    /// Returns whether the tiles may be faster than others for a forest, so that they are worth building.
    pub(in crate::cpu) fn may_be_faster(forest: &Forest) -> bool {
        P::may_be_faster(forest)
    }

    /// Returns the bytes that walks read. The exact thresholds are read so seldom that they are not among them.
    fn walked_bytes(&self) -> usize {
        size_of_val(&self.tiles[..]) + size_of_val(&self.trees[..]) + self.answers.bytes()
    }

    /// Walks every row of `row` through every tree of `tree`, one row at a time, and hands the leaves to `sink`.
    ///
    /// # Safety
    /// Rows are in range and have the forest's columns. Trees are positions.
    #[cfg(target_arch = "x86_64")]
    unsafe fn block<T: Row, S: Sink>(&self, rows: &Rows<'_, T>, row: Span, tree: Span, sink: S) {
        let tiled = TiledTrees {
            tiles: &self.tiles,
            exact: &self.exact,
            answers: &self.answers,
            trees: &self.trees,
            columns: self.columns.as_deref(),
            values: self.values,
        };
        // Other forests compare `f64` values as `f32`.
        let doubles = T::doubles(rows).filter(|_| !self.exact.is_empty());
        let (tiled, apart) = (&tiled, rows.column_stride());
        for r in 0..row.count {
            let row = row.at(r);
            // SAFETY: `new` returns an engine only on a machine with AVX-512. The caller upholds that rows are in range
            // and have the forest's columns, and that trees are positions.
            unsafe {
                match doubles {
                    None => {
                        let of_row = rows.from(row);
                        let in_registers = kernel::load(tiled, of_row, apart);
                        let codes = self.codes(|column| {
                            f64::from(Read::<f32>::read(*of_row.get_unchecked(column * apart)))
                        });
                        by_groups(row, tree, sink, &|these, slots| {
                            in_registers.walks(tiled, &codes, these, slots);
                        });
                    }
                    Some(rows) => {
                        let of_row = rows.from(row);
                        let in_registers = kernel::load_rounded(tiled, of_row, apart);
                        let codes = self.codes(|column| *of_row.get_unchecked(column * apart));
                        by_groups(row, tree, sink, &|these, slots| {
                            in_registers.walks(tiled, &codes, these, slots);
                        });
                    }
                }
            }
        }
    }

    /// Returns the codes of a row's categories. `value` returns the value of a column.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn codes(&self, value: impl Fn(usize) -> f64) -> [u32; MOST_COLUMNS] {
        let mut codes = [0; MOST_COLUMNS];
        for (code, column) in codes.iter_mut().zip(&self.answers.columns) {
            *code = column.code(value(column.column as usize));
        }
        codes
    }
}

/// Hands the leaves of a row to `sink`. `walk` writes the slots of the leaves that the row reaches in a group of trees.
#[cfg(target_arch = "x86_64")]
#[inline]
fn by_groups<S: Sink>(row: usize, tree: Span, sink: S, walk: &dyn Fn(Span, &mut [u32])) {
    let mut slots = [0u32; TREES];
    let mut sum = S::Value::default();
    let mut done = 0;
    while done < tree.count {
        let count = TREES.min(tree.count - done);
        let (these, slots) = (Span { start: tree.at(done), count, ..tree }, &mut slots[..count]);
        walk(these, slots);
        for (t, slot) in slots.iter().enumerate() {
            match S::TAKES_ROW_SUMS {
                true => sum += sink.slot_value(*slot as usize),
                false => sink.slot(row, these.at(t), *slot as usize),
            }
        }
        done += count;
    }
    if S::TAKES_ROW_SUMS {
        sink.add(row, sum);
    }
}

impl<P: TileKind> BlockEngine for InRegisters<P> {
    fn build(wanted: &EngineRequest<'_>) -> Option<Self> {
        let able = wanted.has_few_rows(P::TAKES_CATEGORIES) && !wanted.scalar;
        if able { Self::new(wanted.forest, wanted.order) } else { None }
    }

    fn serves<T: Row>(&self, trees: &Trees<'_>, source: Source<'_, '_, T>, _: &Block) -> bool {
        // `f64` rows of a forest that compares in `f64` are served by thresholds that are `f64`, too.
        let able = |rows| T::doubles(rows).is_none() || trees.wide.is_none() || !self.exact.is_empty();
        matches!(source, Source::Rows(rows) if able(rows))
    }

    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    unsafe fn run<T: Row, S: Sink>(
        &self,
        _: &Trees<'_>,
        source: Source<'_, '_, T>,
        Block { row, tree, .. }: Block,
        _: Engine,
        sink: S,
    ) {
        #[cfg(not(target_arch = "x86_64"))]
        unreachable!("it is built on x86-64 only");
        #[cfg(target_arch = "x86_64")]
        match source {
            // SAFETY: the caller upholds that the spans lie inside rows and trees and that rows have the
            // forest's columns.
            Source::Rows(rows) => unsafe { self.block(rows, row, tree, sink) },
            Source::Window(_) | Source::Ranks(_) => {
                unreachable!("a row is brought into registers as it was handed over")
            }
        }
    }

    fn seconds(&self, rows: usize) -> f64 {
        self.seconds * rows as f64
    }

    fn rows_end(&self) -> usize {
        Machine::here().registers.tree_of_eight.rows()
    }

    fn text(&self) -> String {
        format!("{} tiles of up to {} splits", self.tiles.len(), P::SPLITS)
    }

    fn bytes(&self) -> usize {
        self.walked_bytes() + size_of_val(&self.exact[..])
    }
}
