//! Conversion of integers of two words to floats.

use cubecl::prelude::*;

/// Returns `(high x 2^low_bits + low) x 2^-exponent`, rounded once to nearest even. `high` is signed,
/// `low_bits` is from 1 to 31, and the exponent is at most 126, so that no result is denormal. All arithmetic
/// is in integers, which every device computes alike.
#[cube]
pub fn round(low: u32, high: u32, low_bits: u32, exponent: u32) -> f32 {
    // The number as 64 bits in two's complement.
    let below = (high << low_bits) + low;
    let signs = select(high >> 31u32 == 1u32, 0xffff_ffffu32 << low_bits, 0u32);
    let above = ((high >> (32u32 - low_bits)) | signs) + select(below < low, 1u32, 0u32);
    // The number as a sign and a magnitude.
    let negative = above >> 31u32 == 1u32;
    let bottom = select(negative, !below + 1u32, below);
    let top = select(negative, !above + select(below == 0u32, 1u32, 0u32), above);
    // The magnitude with its highest set bit shifted to the top.
    let zeros = select(top == 0u32, 32u32 + bottom.leading_zeros(), top.leading_zeros());
    let moved_down = (bottom >> 1u32) >> (31u32 - (zeros & 31u32));
    let word = select(zeros >= 32u32, bottom << (zeros & 31u32), (top << (zeros & 31u32)) | moved_down);
    let lost = select(zeros >= 32u32, 0u32, bottom << (zeros & 31u32));
    let mantissa = (word >> 8u32) & 0x7f_ffffu32;
    let half = word & 0xffu32;
    let to_even = select(lost != 0u32, 1u32, mantissa & 1u32);
    let up = select(half + to_even > 0x80u32, 1u32, 0u32);
    let biased = 190u32 - zeros - exponent;
    // A mantissa that is rounded up past its end carries into the exponent, as it should.
    let finite = (biased << 23u32) + mantissa + up;
    let magnitude = select(biased > 254u32, 0x7f80_0000u32, finite);
    let sign = select(negative, 0x8000_0000u32, 0u32);
    f32::reinterpret(select(zeros >= 64u32, 0u32, sign | magnitude))
}
