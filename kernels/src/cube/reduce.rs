//! The launches round a plan's kernel: sums filled with their start, and global copies added up.

use cubecl::prelude::*;

/// `out[row][output] = base[output]`.
#[cube(launch_unchecked)]
pub fn fill_base(model: &[u32], out: &mut [u32], base_at: u32, outputs: u32, len: u32) {
    let i = ABSOLUTE_POS as u32;
    if i < len {
        out[i as usize] = model[(base_at + i % outputs) as usize];
    }
}

/// `buffer[i] = 0`.
#[cube(launch_unchecked)]
pub fn fill_zero(buffer: &mut [f32], len: u32) {
    let i = ABSOLUTE_POS as u32;
    if i < len {
        buffer[i as usize] = 0.0f32;
    }
}

/// `reduceDimension` over all global copies: `out[i] += Σ over copies of partial[at + copy x len + i]`.
#[cube(launch_unchecked)]
pub fn reduce_copies(partial: &[f32], out: &mut [u32], at: u32, copies: u32, len: u32) {
    let i = ABSOLUTE_POS as u32;
    if i < len {
        let mut total = 0.0f32;
        for copy in 0..copies {
            total += partial[(at + copy * len + i) as usize];
        }
        out[i as usize] = u32::reinterpret(f32::reinterpret(out[i as usize]) + total);
    }
}
