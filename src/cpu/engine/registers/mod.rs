//! A few rows: walks of four levels a step, the row in registers.
//!
//! A batch of a few rows fills neither blends nor vectors of rows, and a walk of one row waits for its loads. So a tree is
//! cut into full tiles of its next four levels (tree tiling: Treebeard, section 3.2, with one shape): fifteen thresholds,
//! their columns, and what lies at each of sixteen exits. The row stays in registers, so a tile's values are permuted and
//! not loaded, one compare makes its decisions, and four of those name the exit. Trees don't wait for each other.

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

/// Columns that a row in registers has, at most.
pub(in crate::cpu) const MOST_COLUMNS: usize = 128;
/// Levels of a tile.
const LEVELS: u32 = 4;
/// An exit is a leaf: its slot, counted from the tree's first, or a tile, counted from the tree's root.
pub(in crate::cpu) const LEAF: u16 = 1 << 15;

/// Four levels of a tree.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(in crate::cpu) struct Tile {
    /// Level by level; values from it on go right. The last is none.
    pub(in crate::cpu) thresholds: [f32; 16],
    /// Places in a row as it stands in registers.
    pub(in crate::cpu) columns: [u8; 16],
    /// From left to right: see [`LEAF`].
    pub(in crate::cpu) exits: [u16; 16],
    /// Splits whose missing values go right, a bit each.
    pub(in crate::cpu) missing: u16,
}

/// A tree's place among tiles and slots.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct Tree {
    /// The root's tile.
    pub(in crate::cpu) root: u32,
    /// Slot that leaves are counted from.
    pub(in crate::cpu) slots: u32,
    /// Tiles that all of its walks go through, as if they all were there; those that have not ended yet go on.
    pub(in crate::cpu) tiles: u32,
    /// Whether all walks end after just so many.
    pub(in crate::cpu) even: bool,
}

/// The trees of a forest, by position.
#[derive(Clone, Debug)]
pub(in crate::cpu) struct Registers {
    pub(in crate::cpu) tiles: Vec<Tile>,
    pub(in crate::cpu) trees: Vec<Tree>,
    /// The column at each place of a row in registers, where that is not its number.
    columns: Option<Vec<u32>>,
    /// Places of a row in registers.
    places: usize,
    /// Seconds of a row.
    seconds: f64,
}

impl Registers {
    /// For a machine that has the kernel; `None` for a forest that asks more than thresholds or reads too many columns.
    fn new(forest: &Forest, order: &[u32]) -> Option<Self> {
        if isa() < Isa::Avx512 { None } else { build::build(forest, order) }
    }

    /// The column at each place of a row in registers, where that is not its number.
    pub(in crate::cpu) fn columns(&self) -> Option<&[u32]> {
        self.columns.as_deref()
    }

    /// Places of a row in registers.
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
        // Its thresholds are `f32`.
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
            // SAFETY: it is built where the machine has AVX-512; otherwise as promised to this function.
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
