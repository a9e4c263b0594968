//! The gradient of the leaf values: each row's gradient is added to the leaves that the row reached.

use super::ForestOp;
use crate::forest::Targets;

/// Number of rows of a row block, whose gradients are added up by themselves. A leaf value's gradient is an f32
/// sum of its rows in their order within each block, and of the blocks in their order. The order is the same
/// on every backend, thread count and schedule. With `n` rows the sum is off by no more than `(GRADIENT_ROWS + n /
/// GRADIENT_ROWS) x 2^-24` times the sum of the magnitudes.
pub const GRADIENT_ROWS: usize = 256;

/// The source of a leaf value's gradient.
#[cfg(feature = "cube")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GradientSource {
    /// The leaf slot.
    pub slot: u32,
    /// The leaf's tree.
    pub tree: u32,
    /// The output that the leaf value is added to.
    pub output: u32,
}

impl ForestOp {
    /// Returns the source of each leaf value's gradient.
    #[cfg(feature = "cube")]
    pub(super) fn sources(&self) -> Vec<GradientSource> {
        let forest = &self.forest;
        let width = forest.leaf_width();
        let mut sources = vec![GradientSource { slot: 0, tree: 0, output: 0 }; forest.leaf_values.len()];
        for (t, tree) in forest.trees.iter().enumerate() {
            for slot in tree.nodes.iter().filter_map(|n| n.slot()) {
                for (o, source) in sources[slot as usize * width..][..width].iter_mut().enumerate() {
                    let output = match &forest.targets {
                        Targets::One(targets) => targets[t],
                        Targets::All => o as u32,
                    };
                    *source = GradientSource { slot, tree: t as u32, output };
                }
            }
        }
        sources
    }

    /// Computes the gradient of the leaf values on the CPU from the gradient of the margins. The operator
    /// must be [prepared](ForestOp::prepare).
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    pub(super) fn cpu_leaf_gradients(
        &self,
        rows: &crate::cpu::Rows<'_>,
        grad: &[f32],
    ) -> burn::tensor::TensorData {
        let (trees, outputs, width) = (self.trees(), self.outputs(), self.forest.leaf_width());
        if trees == 0 {
            return burn::tensor::TensorData::new(Vec::<f32>::new(), [0]);
        }
        let mut slots = vec![0u32; rows.len() * trees];
        let predictor = self.predictor().expect("prepared by the caller");
        predictor.program().slots(rows, &mut slots).expect("checked by the caller");
        let mut sums = vec![0.0f32; self.forest.leaf_values.len()];
        let mut block_sums = sums.clone();
        let add = |slots: &[u32], each: &mut dyn FnMut(usize, usize, usize)| {
            for (row, slots) in slots.chunks_exact(trees).enumerate() {
                for (tree, slot) in slots.iter().enumerate() {
                    match &self.forest.targets {
                        Targets::One(targets) => each(*slot as usize, row, targets[tree] as usize),
                        Targets::All => (0..width).for_each(|o| each(*slot as usize * width + o, row, o)),
                    }
                }
            }
        };
        for (slots, grad) in slots.chunks(GRADIENT_ROWS * trees).zip(grad.chunks(GRADIENT_ROWS * outputs)) {
            add(slots, &mut |value, row, output| block_sums[value] += grad[row * outputs + output]);
            // Several rows of the block may have reached a leaf. Its block sum is moved at the first of them,
            // and is zero for the others.
            add(slots, &mut |value, _, _| sums[value] += std::mem::take(&mut block_sums[value]));
        }
        burn::tensor::TensorData::new(sums, [self.forest.leaf_values.len()])
    }
}
