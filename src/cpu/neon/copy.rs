//! Rows to columns, four by four.

use std::arch::aarch64::*;

use super::{LANES, four};
use crate::cpu::{rows::Rows, window::BLOCK};

/// Rows of which a column's values are written together: a line of the cache.
const ROWS: usize = 16;

/// Copies the used columns of `count` rows from `first` on to `[column][BLOCK]`.
///
/// # Safety
/// NEON; the rows' values follow each other; the rows are there, at most [`BLOCK`]; used columns are theirs, and `into` has a
/// block for each of them.
#[target_feature(enable = "neon")]
pub(in crate::cpu) unsafe fn transpose(
    rows: &Rows<'_>,
    first: usize,
    count: usize,
    lines: &[(u32, u16)],
    into: &mut [f32],
) {
    for begin in (0..count).step_by(ROWS) {
        let here = (count - begin).min(ROWS);
        // What stands past the last row is written, and is nobody's.
        let row: [&[f32]; ROWS] = std::array::from_fn(|r| rows.from(first + begin + r.min(here - 1)));
        for &(line, mask) in lines {
            for quarter in (0..16).step_by(LANES) {
                let (column, used) = (line as usize + quarter, mask >> quarter & 0xf);
                if used == 0 {
                    continue;
                }
                let into = &mut into[column * BLOCK + begin..];
                let used = (0..LANES).filter(|c| used >> c & 1 == 1);
                if rows.columns() < column + LANES {
                    for c in used {
                        for (row, place) in row[..here].iter().zip(&mut into[c * BLOCK..]) {
                            *place = row[column + c];
                        }
                    }
                    continue;
                }
                // SAFETY: the rows have these columns.
                let value = |r: usize| unsafe { row[r].get_unchecked(column..column + LANES) };
                let blocks: [_; ROWS / LANES] = std::array::from_fn(|b| {
                    transposed(std::array::from_fn(|r| {
                        four(value(LANES * b + r).try_into().expect("four values"))
                    }))
                });
                for c in used {
                    let (into, _) = into[c * BLOCK..][..ROWS].as_chunks_mut::<LANES>();
                    for (into, block) in into.iter_mut().zip(blocks) {
                        // SAFETY: there is room for four values.
                        unsafe { vst1q_f32(into.as_mut_ptr(), block[c]) };
                    }
                }
            }
        }
    }
}

/// Four rows of four values to columns.
#[inline]
#[target_feature(enable = "neon")]
fn transposed([a, b, c, d]: [float32x4_t; LANES]) -> [float32x4_t; LANES] {
    // Values of every other row side by side, then those of the rows between.
    let [even, odd] = [vzipq_f32(a, c), vzipq_f32(b, d)];
    let [low, high] = [vzipq_f32(even.0, odd.0), vzipq_f32(even.1, odd.1)];
    [low.0, low.1, high.0, high.1]
}
