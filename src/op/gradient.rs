//! The gradient of the leaf values: each row's gradient is added to the leaves that the row reached.

#[cfg(any(feature = "flex", feature = "ndarray"))]
use super::ForestOp;
#[cfg(any(feature = "flex", feature = "ndarray"))]
use crate::forest::Targets;

/// Number of rows of a row block, whose gradients are added up by themselves. A leaf value's gradient is an f32
/// sum of its rows in their order within each block, and of the blocks in their order. The order is the same
/// on every backend, thread count and schedule. With `n` rows the sum is off by no more than `(GRADIENT_ROWS + n /
/// GRADIENT_ROWS) x 2^-24` times the sum of the magnitudes.
pub const GRADIENT_ROWS: usize = 256;

#[cfg(any(feature = "flex", feature = "ndarray"))]
impl ForestOp {
    /// Computes the gradient of the leaf values on the CPU from the gradient of the margins. The operator
    /// must be [prepared](ForestOp::prepare).
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
