//! How many thresholds are at most a value, for many values at once.
//!
//! A sorted table is a tree of blocks of sixteen thresholds. The values of a block of rows are counted against the top's
//! few thresholds together, a vector of rows at a time; below it each value is counted against the one block it belongs
//! to, a vector of thresholds at a time. Nothing branches on a value.

use std::ops::Range;

use crate::cpu::nodes::Compare;

/// Thresholds of a block.
const FAN: usize = 16;
/// Values that are counted together.
const LANES: usize = 16;
/// Tables of at most so many thresholds are counted through.
const FEW: usize = 24;

/// The thresholds of one column.
#[derive(Clone, Debug)]
pub(super) struct Search<C> {
    /// Counted through for every value.
    top: Vec<C>,
    /// The levels below, the uppermost first: each a range of `blocks`.
    levels: Vec<Range<usize>>,
    /// Room past a level's last threshold holds NaN, which is at most nothing.
    blocks: Vec<[C; FAN]>,
}

impl<C: Compare> Search<C> {
    /// For ascending thresholds; NaN may stand at their end.
    pub(super) fn new(thresholds: &[C]) -> Self {
        let (mut levels, mut blocks) = (Vec::new(), Vec::new());
        let mut top = thresholds.to_vec();
        while top.len() > FEW {
            let begin = blocks.len();
            blocks.extend(top.chunks(FAN).map(|chunk| {
                let mut block = [C::NAN; FAN];
                block[..chunk.len()].copy_from_slice(chunk);
                block
            }));
            levels.push(begin..blocks.len());
            // A value at or above a block's last threshold belongs to a later one. There is none after the last, so its
            // last threshold is not asked.
            top = blocks[begin..blocks.len() - 1].iter().map(|block| block[FAN - 1]).collect();
        }
        levels.reverse();
        Self { top, levels, blocks }
    }

    /// Writes for each value how many thresholds are at most it: none where the value is NaN.
    #[inline(always)]
    pub(super) fn count<const N: usize>(&self, values: &[C; N], found: &mut [u32; N]) {
        for (values, found) in values.chunks(LANES).zip(found.chunks_mut(LANES)) {
            match (<&[C; LANES]>::try_from(values), <&mut [u32; LANES]>::try_from(&mut *found)) {
                (Ok(values), Ok(found)) => *found = counts(&self.top, values),
                _ => {
                    for (value, found) in values.iter().zip(found) {
                        *found = self.top.iter().map(|t| u32::from(*t <= *value)).sum();
                    }
                }
            }
        }
        for level in &self.levels {
            let blocks = &self.blocks[level.clone()];
            for (value, found) in values.iter().zip(found.iter_mut()) {
                let block = &blocks[*found as usize];
                let within: u32 = block.iter().map(|t| u32::from(*t <= *value)).sum();
                *found = *found * FAN as u32 + within;
            }
        }
    }
}

/// How many thresholds are at most each of sixteen values.
#[inline(always)]
fn counts<C: Compare>(thresholds: &[C], values: &[C; LANES]) -> [u32; LANES] {
    let mut counts = [0; LANES];
    for t in thresholds {
        for (count, value) in counts.iter_mut().zip(values) {
            *count += u32::from(*t <= *value);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every size around a block's and a level's, with values on, below and above each threshold.
    #[test]
    fn counts_what_a_loop_counts() {
        let sizes = (0..70).chain([255, 256, 257, 271, 272, 273, 300, 4095, 4096, 4097, 4112, 4400, 65_535]);
        for size in sizes {
            let thresholds: Vec<f32> = (0..size).map(|i| i as f32 - 20.0).collect();
            let search = Search::new(&thresholds);
            let step = (size / 300).max(1);
            let mut values: Vec<f32> = thresholds
                .iter()
                .step_by(step)
                .chain(thresholds.last())
                .flat_map(|t| [t.next_down(), *t, t.next_up()])
                .chain([f32::NEG_INFINITY, f32::INFINITY, f32::NAN, -0.0, 1e-45])
                .collect();
            values.resize(values.len().next_multiple_of(64), 0.5);
            for values in values.as_chunks::<64>().0 {
                let mut found = [u32::MAX; 64];
                search.count(values, &mut found);
                for (value, found) in values.iter().zip(found) {
                    let expected = thresholds.iter().filter(|t| **t <= *value).count();
                    assert_eq!(found as usize, expected, "{value:e} among {size}");
                    let mut alone = [u32::MAX];
                    search.count(&[*value], &mut alone);
                    assert_eq!(alone[0], found, "{value:e} among {size}, alone");
                }
            }
        }
    }

    #[test]
    fn repetitions_count_and_nan_does_not() {
        for size in [3, 40, 600] {
            let thresholds: Vec<f32> = (0..size).map(|i| (i / 3) as f32).chain([f32::NAN]).collect();
            let search = Search::new(&thresholds);
            let mut found = [0; 4];
            search.count(&[-1.0, 0.0, f32::INFINITY, f32::NAN], &mut found);
            assert_eq!(found, [0, 3, size, 0], "{size}");
        }
    }
}
