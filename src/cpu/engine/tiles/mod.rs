//! Walks tiles of nodes in vectors, for schedules with `tileNodes`.

pub(in crate::cpu) mod tables;

use super::{Block, BlockEngine, EngineRequest, Source, Trees};
#[cfg(target_arch = "x86_64")]
use super::{hand_over, walk::MOST_ADDRESSES};
#[cfg(target_arch = "x86_64")]
use crate::cpu::arch::x86::tiles as kernel;
use crate::{
    cost::Machine,
    cpu::{
        encoded::EncodedNodes,
        engines::Engine,
        isa::{Isa, isa},
        rows::Row,
        sink::Sink,
    },
};

/// The engine that walks tiles. Its tables are the forest's nodes encoded as tiles, which
/// [`Walks`](super::walks::Walks) reads, too.
#[derive(Clone, Debug)]
pub(in crate::cpu) struct TileWalks {
    /// Estimated seconds of one row through all trees.
    row: f64,
}

impl BlockEngine for TileWalks {
    fn build(wanted: &EngineRequest<'_>) -> Option<Self> {
        let tiled = matches!(wanted.nodes, EncodedNodes::Tiled(_)) && !wanted.plan.questions;
        // Rows of one tree that don't adjoin are walked one by one.
        let reached = !wanted.blocks.exist || wanted.blocks.rows_together > 0;
        (tiled && reached && wanted.values && isa() >= Isa::Avx2 && !wanted.scalar)
            .then(|| Self { row: Machine::here().walk.one * wanted.nodes.steps() as f64 })
    }

    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    fn serves<T: Row>(&self, trees: &Trees<'_>, source: Source<'_, '_, T>, block: &Block) -> bool {
        #[cfg(target_arch = "x86_64")]
        if let (EncodedNodes::Tiled(tiles), Some(rows)) = (trees.nodes, source.singles()) {
            return kernel::available(tiles, rows, block.row, block.shape);
        }
        false
    }

    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    unsafe fn run<T: Row, S: Sink>(
        &self,
        trees: &Trees<'_>,
        source: Source<'_, '_, T>,
        block: Block,
        _: Engine,
        sink: S,
    ) {
        #[cfg(not(target_arch = "x86_64"))]
        unreachable!("it is built on x86-64 only");
        #[cfg(target_arch = "x86_64")]
        match (trees.nodes, source.singles()) {
            (EncodedNodes::Tiled(tiles), Some(rows)) => {
                // SAFETY: `serves` has asked the kernel whether it can run the block, and `build`
                // refuses plans with questions. The caller upholds that the spans lie inside rows and
                // trees and that rows have the forest's columns.
                hand_over(block, 0, &mut [0; MOST_ADDRESSES], sink, &mut |row, tree, found| unsafe {
                    kernel::block(tiles, rows, row, tree, block.shape, found);
                });
            }
            _ => unreachable!("tiles serve rows of `f32`, as they were handed over"),
        }
    }

    fn seconds(&self, rows: usize) -> f64 {
        self.row * rows as f64
    }
}
