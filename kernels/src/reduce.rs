//! Kernels of the launches before and after a plan's kernel: they fill sums and copies, and add up copies in
//! global memory.

use cubecl::prelude::*;

use super::memory::combine;
use fangorn_ir::{Combine, cube::Adders};

/// Writes `out[row][word] = base[word]`, or the sum of no leaves into every word unless `base`.
#[cube(launch_unchecked)]
pub fn fill_out(model: &[u32], out: &mut [u32], base_at: u32, words: u32, len: u32, #[comptime] base: bool) {
    let i = ABSOLUTE_POS as u32;
    if i < len {
        let from = if base { base_at + i % words } else { base_at + words };
        out[i as usize] = model[from as usize];
    }
}

/// Writes the sum of no leaves, which the model holds, into every private copy.
#[cube(launch_unchecked)]
pub fn fill_partial(model: &[u32], buffer: &mut [u32], nothing_at: u32, len: u32) {
    let i = ABSOLUTE_POS as u32;
    if i < len {
        buffer[i as usize] = model[nothing_at as usize];
    }
}

/// The copies of sums of one partial buffer.
#[derive(CubeType, CubeLaunch)]
pub struct CopySpan {
    /// Index of the sum of no leaves in the model's words.
    pub nothing_at: u32,
    /// Index of the first copy's first word.
    pub at: u32,
    /// Number of copies.
    pub copies: u32,
    /// Number of words of a copy.
    pub len: u32,
}

/// `reduceDimension` over all global copies: `out[i] += Σ over copies of partial[at + copy x len + i]`. One
/// unit adds up each sum, or one cube of `units` units if there are fewer sums than copies. `units` is a
/// power of two.
#[cube(launch_unchecked)]
pub fn reduce_copies(
    model: &[u32],
    partial: &[u32],
    out: &mut [u32],
    span: &CopySpan,
    #[comptime] how: Combine,
    #[comptime] by: Adders,
    #[comptime] units: u32,
) {
    let together = comptime![by == Adders::Cube];
    let i = if together { CUBE_POS as u32 } else { ABSOLUTE_POS as u32 };
    let mut total = model[span.nothing_at as usize];
    if i < span.len {
        let mut copy = if together { UNIT_POS } else { 0u32.runtime() };
        let stride = if together { units } else { 1u32 };
        while copy < span.copies {
            total = combine(total, partial[(span.at + copy * span.len + i) as usize], how);
            copy += stride;
        }
    }
    if together {
        let mut sums = Shared::<[u32]>::new_slice(comptime![units as usize]);
        sums[UNIT_POS as usize] = total;
        let mut half = comptime![units / 2].runtime();
        while half > 0u32 {
            sync_cube();
            if UNIT_POS < half {
                let other = sums[(UNIT_POS + half) as usize];
                sums[UNIT_POS as usize] = combine(sums[UNIT_POS as usize], other, how);
            }
            half /= 2u32;
        }
        total = sums[0usize];
    }
    let mine = if together { UNIT_POS == 0u32 } else { true.runtime() };
    if mine && i < span.len {
        out[i as usize] = combine(out[i as usize], total, how);
    }
}
