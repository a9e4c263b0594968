//! Keys on the device: floats as integers in the same order.

use cubecl::prelude::*;

use fangorn_ir::RowType;

/// Returns [`fangorn_ir::key`] of the value with these bits. It recognises NaN by its bits, because a device
/// may assume that there is no NaN.
#[cube]
fn key_of_bits(bits: u32) -> u32 {
    let magnitude = bits & 0x7fff_ffffu32;
    let bits = select(magnitude == 0u32, 0u32, bits);
    let negative = bits >> 31u32;
    let flip = select(negative == 1u32, 0xffff_ffffu32, 0x8000_0000u32);
    select(magnitude > 0x7f80_0000u32, 0xffff_ffffu32, bits ^ flip)
}

/// Returns the key of the value at index `at`.
#[cube]
pub fn load_key(rows: &[u32], at: u32, #[comptime] row_type: RowType) -> u32 {
    match row_type {
        RowType::F32 => key_of_bits(rows[at as usize]),
        RowType::BF16 => key_of_bits(half_word(rows, at) << 16u32),
        RowType::F16 => key_of_bits(widen_half(half_word(rows, at))),
        RowType::U8 => key_of_rank((rows[(at >> 2u32) as usize] >> ((at & 3u32) * 8u32)) & 0xffu32, row_type),
        RowType::U16 => key_of_rank(half_word(rows, at), row_type),
    }
}

/// Returns the key of a rank: the rank, with every bit below it set.
#[cube]
pub fn key_of_rank(rank: u32, #[comptime] row_type: RowType) -> u32 {
    let shift = comptime![row_type.rank_shift().unwrap_or(0)];
    (rank << shift) | comptime![(1u32 << shift) - 1]
}

/// Returns the 16-bit value at index `at`. Two of them share a word, the first in its low bits.
#[cube]
fn half_word(rows: &[u32], at: u32) -> u32 {
    let word = rows[(at >> 1u32) as usize];
    (word >> ((at & 1u32) * 16u32)) & 0xffffu32
}

/// Returns the bits of a single with the value of a half, both IEEE. The conversion is exact and in integers.
/// A denormal half becomes a normal single.
#[cube]
fn widen_half(half: u32) -> u32 {
    let sign = (half & 0x8000u32) << 16u32;
    let exponent = (half >> 10u32) & 0x1fu32;
    let mantissa = half & 0x3ffu32;
    let normal = ((exponent + 112u32) << 23u32) | (mantissa << 13u32);
    let special = 0x7f80_0000u32 | (mantissa << 13u32);
    // The value is mantissa x 2^-24. Shift the mantissa's highest set bit, at 31 - zeros, up to the implicit
    // bit.
    let zeros = mantissa.leading_zeros();
    let shifted = (mantissa << (zeros - 8u32)) & 0x7f_ffffu32;
    let denormal = ((134u32 - zeros) << 23u32) | shifted;
    let small = select(mantissa == 0u32, 0u32, denormal);
    let finite = select(exponent == 0u32, small, normal);
    sign | select(exponent == 31u32, special, finite)
}
