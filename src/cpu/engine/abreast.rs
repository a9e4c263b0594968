//! Walks one row through 64 trees abreast, by gathers. It serves a few rows of any number of columns.

use super::{Block, BlockEngine, EngineRequest, Source, Trees, vectors};
#[cfg(target_arch = "x86_64")]
use super::{hand_over, walk::MOST_ADDRESSES};
#[cfg(target_arch = "x86_64")]
use crate::cpu::{arch::x86::avx2::abreast as kernel, encoded::of_encoding};
use crate::{
    cost::Machine,
    cpu::{engines::Engine, rows::Row, sink::Sink},
};

/// The least number of trees of a block. With fewer, a register of eight addresses would not be full.
const LEAST_TREES: usize = 8;

/// The engine that walks trees abreast. It has no tables besides the nodes.
#[derive(Clone, Debug)]
pub(in crate::cpu) struct Abreast {
    /// Estimated seconds of one row through all trees.
    row: f64,
}

impl BlockEngine for Abreast {
    fn build(wanted: &EngineRequest<'_>) -> Option<Self> {
        let columns = wanted.forest.features.len();
        let able = vectors::Vectors::can_serve(wanted.plan, columns, wanted.scalar);
        (able && wanted.has_few_rows(false) && wanted.blocks.trees_together >= LEAST_TREES).then(|| {
            let machine = Machine::here();
            let far = machine.walk.far_abreast * machine.far_part(wanted.nodes.bytes());
            Self { row: (machine.walk.abreast + far) * wanted.nodes.steps() as f64 }
        })
    }

    fn serves<T: Row>(&self, trees: &Trees<'_>, source: Source<'_, '_, T>, block: &Block) -> bool {
        let room = block.tree.stride == 1 && block.tree.count >= LEAST_TREES;
        room && source.singles().is_some_and(vectors::fits) && trees.can_be_gathered()
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
        let mut found = [0; MOST_ADDRESSES];
        #[cfg(target_arch = "x86_64")]
        let Some(rows) = source.singles() else {
            unreachable!("trees abreast serve rows of `f32`, as they were handed over");
        };
        #[cfg(target_arch = "x86_64")]
        for r in 0..block.row.count {
            let row = Block { row: block.row.one(r), shape: block.shape.by_row(), ..block };
            hand_over(row, 0, &mut found, sink, &mut |row, tree, found| {
                // SAFETY: the machine has AVX2, without which `build` returns no engine. `serves` has
                // checked that the rows fit, that addresses can be gathered and that the trees follow
                // each other. The caller upholds that the spans lie inside rows and trees and that rows
                // have the forest's columns. No node is a tile, because `Vectors::can_serve` accepts
                // the plan.
                unsafe {
                    of_encoding!(trees.nodes, nodes => kernel::row(nodes, rows, row.start, tree, found), _ => {})
                }
            });
        }
    }

    fn text(&self) -> String {
        "64 trees abreast".into()
    }

    fn seconds(&self, rows: usize) -> f64 {
        self.row * rows as f64
    }
}
