//! Walks a few rows, four levels a step, with the row in registers.
//!
//! A batch of a few rows fills neither blends nor vectors of rows, and the walk of one row waits for
//! its loads. So a tree is cut into full tiles of four levels (tree tiling: Treebeard, section 3.2,
//! with one shape). A tile has fifteen thresholds, their columns, and sixteen exits. The row stays in
//! registers, so a tile's values are permuted and not loaded. One compare makes all decisions of a
//! tile, and four of them name the exit. Walks of different trees do not wait for each other.

mod build;
#[cfg(test)]
mod tests;

use super::{Block, BlockEngine, EngineRequest, Source, Trees};
#[cfg(target_arch = "x86_64")]
use crate::cpu::arch::x86::avx512::registers as kernel;
use crate::cpu::{
    engines::Engine,
    isa::{Isa, isa},
    rows::Row,
    sink::Sink,
};
use crate::forest::Forest;

/// Most columns of a row in registers.
pub(in crate::cpu) const MOST_COLUMNS: usize = 128;
/// Levels of a tile.
const LEVELS: u32 = 4;
/// Bit of an exit that is a leaf. The other bits are then the leaf slot, counted from the tree's least
/// leaf slot. Without this bit an exit is a tile, counted from the tree's root.
pub(in crate::cpu) const LEAF: u16 = 1 << 15;

/// Four levels of a tree, as fifteen splits.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(in crate::cpu) struct Tile {
    /// Thresholds, level by level. Values that reach a threshold go right. The last place has no split.
    pub(in crate::cpu) thresholds: [f32; 16],
    /// The place of each split's column in a row as it stands in registers.
    pub(in crate::cpu) columns: [u8; 16],
    /// Exits from left to right: see [`LEAF`].
    pub(in crate::cpu) exits: [u16; 16],
    /// One bit for each split, set if missing values go right.
    pub(in crate::cpu) missing: u16,
}

/// Where a tree's tiles and leaf slots begin.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct Tree {
    /// Index of the root's tile.
    pub(in crate::cpu) root: u32,
    /// The tree's least leaf slot, from which exits are counted.
    pub(in crate::cpu) slots: u32,
    /// How many tiles all walks of the tree go through without a test for a leaf. Walks that have not
    /// ended then go on.
    pub(in crate::cpu) tiles: u32,
    /// Whether every walk ends after exactly `tiles` tiles.
    pub(in crate::cpu) ends_together: bool,
}

/// The trees of a forest as tiles, by position.
#[derive(Clone, Debug)]
pub(in crate::cpu) struct Registers {
    pub(in crate::cpu) tiles: Vec<Tile>,
    pub(in crate::cpu) trees: Vec<Tree>,
    /// The column at each place of a row in registers. `None` if every column's place is its number.
    columns: Option<Vec<u32>>,
    /// Number of places of a row in registers.
    places: usize,
    /// Seconds that one row takes through all trees.
    seconds: f64,
}

impl Registers {
    /// Cuts the trees of a forest into tiles. Returns `None` on a machine without the kernel, and for a
    /// forest that asks more than thresholds, reads too many columns, or has a tree with too many
    /// leaves or tiles.
    fn new(forest: &Forest, order: &[u32]) -> Option<Self> {
        if isa() < Isa::Avx512 { None } else { build::build(forest, order) }
    }

    /// Returns the column at each place of a row in registers, or `None` if every column's place is its
    /// number.
    pub(in crate::cpu) fn columns(&self) -> Option<&[u32]> {
        self.columns.as_deref()
    }

    /// Returns the number of places of a row in registers.
    pub(in crate::cpu) fn places(&self) -> usize {
        self.places
    }
}

impl BlockEngine for Registers {
    fn build(wanted: &EngineRequest<'_>) -> Option<Self> {
        let able = wanted.few_rows && !wanted.scalar;
        if able { Self::new(wanted.forest, wanted.order) } else { None }
    }

    fn serves<T: Row>(&self, trees: &Trees<'_>, source: Source<'_, '_, T>, _: &Block) -> bool {
        // Thresholds of tiles are `f32`, so `f64` rows of a forest that compares in `f64` go elsewhere.
        matches!(source, Source::Rows(rows) if T::doubles(rows).is_none() || trees.wide.is_none())
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
            // SAFETY: `Registers::new` returns an engine only on a machine with AVX-512. The caller
            // upholds that the spans lie inside rows and trees and that rows have the forest's columns.
            Source::Rows(rows) => unsafe { kernel::block(self, rows, row, tree, sink) },
            Source::Copy(_) | Source::Ranks(_) => {
                unreachable!("a row is brought into registers as it was handed over")
            }
        }
    }

    fn seconds(&self, rows: usize) -> f64 {
        self.seconds * rows as f64
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.tiles[..]) + size_of_val(&self.trees[..])
    }
}
