//! Makes batches of any size from a file of rows.

use fangorn::{
    Forest,
    forest::{Node, Predicate},
};

use crate::{error::Result, npy::RowFile};

/// Returns the first `batch` rows of the file, and repeats the file's rows if the batch has more. A
/// repeated value is off by at most one part in a thousand, so that no branch predictor learns the rows.
/// Categories are not changed.
///
/// # Errors
/// The file ends early.
pub fn batch_of(forest: &Forest, file: &mut RowFile, batch: usize) -> Result<Vec<f32>> {
    let columns = forest.features.len();
    let mut values = file.first(batch)?;
    let mut categories = vec![false; columns];
    for node in forest.trees.iter().flat_map(|t| &t.nodes) {
        if let Node::Split { feature, predicate: Predicate::InSet { .. }, .. } = *node {
            categories[feature as usize] = true;
        }
    }
    let mut random = 0x5EED_u64;
    let own = (file.rows() * columns).min(values.len());
    for (i, value) in values[own..].iter_mut().enumerate() {
        let moved = *value * (1.0 + 0.001 * unit(&mut random));
        if !categories[i % columns] && moved.is_finite() {
            *value = moved;
        }
    }
    Ok(values)
}

/// Returns a uniform number in `[-1, 1)` from Vigna's splitmix64. Every run draws the same numbers.
fn unit(state: &mut u64) -> f32 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    (z >> 40) as f32 / (1u32 << 23) as f32 - 1.0
}
