//! Additions of doubles in integer arithmetic. Every device computes them alike, no device needs doubles, and
//! no compiler may reorder them.
//!
//! The algorithm is IEEE 754's addition with rounding to nearest even, by guard, round and sticky bits
//! (Muller et al., *Handbook of Floating-Point Arithmetic*, section 8.4). Operands are finite. A sum past the
//! largest double is infinite.

use cubecl::prelude::*;

/// The bits of a double, or a 64-bit mantissa during an addition, as two words.
#[derive(CubeType)]
pub struct Pair {
    /// The upper word: of a double the sign, the exponent and the mantissa's first bits.
    pub high: u32,
    /// The lower word: the mantissa's other bits.
    pub low: u32,
}

/// Returns the 64-bit number `of` shifted right by `by` bits, with the lowest bit set if a 1 bit was shifted
/// out (the sticky bit).
#[cube]
fn down(of: &Pair, by: u32) -> Pair {
    let bits = by & 31u32;
    // Two shifts, since a shift by 32 bits leaves a word as it is.
    let over = (of.high << 1u32) << (31u32 - bits);
    let near = Pair { high: of.high >> bits, low: (of.low >> bits) | over };
    let near_lost = (of.low << 1u32) << (31u32 - bits);
    let far = Pair { high: 0u32.runtime(), low: of.high >> bits };
    let far_lost = of.low | over;
    let words = select(by >= 32u32, far.low, near.low);
    let lost = select(by >= 32u32, far_lost, near_lost);
    let nothing = by >= 64u32;
    let low = select(nothing, 0u32, words);
    let lost = select(nothing, of.high | of.low, lost);
    Pair { high: select(by >= 32u32, 0u32, near.high), low: low | select(lost == 0u32, 0u32, 1u32) }
}

/// Returns the mantissa with its implicit bit, shifted left by three bits: room for guard, round and sticky
/// bit.
#[cube]
fn mantissa(of: &Pair) -> Pair {
    let implicit = select(of.high & 0x7ff0_0000u32 == 0u32, 0u32, 0x10_0000u32);
    let high = (of.high & 0xf_ffffu32) | implicit;
    Pair { high: (high << 3u32) | (of.low >> 29u32), low: of.low << 3u32 }
}

/// Returns the stored exponent, but 1 for a denormal.
#[cube]
fn exponent(of: &Pair) -> u32 {
    let stored = (of.high >> 20u32) & 0x7ffu32;
    select(stored == 0u32, 1u32, stored)
}

/// Returns `a + b`.
#[cube]
pub fn add(a: &Pair, b: &Pair) -> Pair {
    // `x` is the operand of larger magnitude, `y` the other one.
    let (above, below) = (a.high & 0x7fff_ffffu32, b.high & 0x7fff_ffffu32);
    let smaller =
        select(above == below, select(a.low < b.low, 1u32, 0u32), select(above < below, 1u32, 0u32));
    let swap = smaller == 1u32;
    let x = Pair { high: select(swap, b.high, a.high), low: select(swap, b.low, a.low) };
    let y = Pair { high: select(swap, a.high, b.high), low: select(swap, a.low, b.low) };
    let first = mantissa(&x);
    let by = exponent(&x) - exponent(&y);
    let second = down(&mantissa(&y), select(by < 64u32, by, 64u32));
    let differ = (x.high ^ y.high) >> 31u32 == 1u32;
    let plus = first.low + second.low;
    let plus_high = first.high + second.high + select(plus < first.low, 1u32, 0u32);
    let minus = first.low - second.low;
    let minus_high = first.high - second.high - select(first.low < second.low, 1u32, 0u32);
    let mut high = select(differ, minus_high, plus_high);
    let mut low = select(differ, minus, plus);
    let mut biased = exponent(&x);
    // If the addition carried past the implicit bit, shift right by one bit.
    let carried = high >> 24u32 != 0u32;
    let lost = low & 1u32;
    low = select(carried, (low >> 1u32) | (high << 31u32) | lost, low);
    high = select(carried, high >> 1u32, high);
    biased += select(carried, 1u32, 0u32);
    // If the subtraction cancelled leading bits, shift left until the implicit bit is in place or the
    // exponent is 1.
    let zeros = select(high == 0u32, 24u32 + low.leading_zeros(), high.leading_zeros() - 8u32);
    let up = select(zeros < biased - 1u32, zeros, biased - 1u32);
    let bits = up & 31u32;
    let over = (low >> 1u32) >> (31u32 - bits);
    high = select(up >= 32u32, low << bits, (high << bits) | over);
    low = select(up >= 32u32, 0u32, low << bits);
    biased -= up;
    // Round to nearest, ties to even. The implicit bit adds one to the exponent.
    let rest = low & 7u32;
    let rounded = (low >> 3u32) | (high << 29u32);
    let one = select(rest + (rounded & 1u32) > 4u32, 1u32, 0u32);
    let low = rounded + one;
    let high = (high >> 3u32) + select(low < one, 1u32, 0u32);
    let magnitude = high + ((biased - 1u32) << 20u32);
    let infinite = magnitude >= 0x7ff0_0000u32;
    let zero = (high | low) == 0u32;
    let sign = select(zero && differ, 0u32, x.high & 0x8000_0000u32);
    Pair {
        high: sign | select(zero, 0u32, select(infinite, 0x7ff0_0000u32, magnitude)),
        low: select(infinite, 0u32, low),
    }
}

/// Returns the bits of the nearest `f32`, ties to even.
#[cube]
pub fn to_single(of: &Pair) -> u32 {
    let sign = of.high & 0x8000_0000u32;
    let stored = (of.high >> 20u32) & 0x7ffu32;
    // An f32 stores this exponent less 896. If it is below 897, the f32 is a denormal.
    let normal = stored >= 897u32;
    let by = select(normal, 27u32, select(stored < 850u32, 64u32, 924u32 - stored));
    let kept = down(&Pair { high: (of.high & 0xf_ffffu32) | 0x10_0000u32, low: of.low }, by);
    let up = select((kept.low & 3u32) + ((kept.low >> 2u32) & 1u32) > 2u32, 1u32, 0u32);
    let mantissa = (kept.low >> 2u32) + up;
    let bits = mantissa + select(normal, (stored - 897u32) << 23u32, 0u32);
    let infinite = stored > 1150u32 || bits >= 0x7f80_0000u32;
    let magnitude = select(infinite, 0x7f80_0000u32, bits);
    sign | select(stored == 0u32, 0u32, magnitude)
}

/// Returns the double that has exactly the value of the `f32` with these bits.
#[cube]
pub fn of_single(bits: u32) -> Pair {
    let sign = bits & 0x8000_0000u32;
    let magnitude = bits & 0x7fff_ffffu32;
    // The highest set bit of a denormal becomes the implicit bit.
    let zeros = magnitude.leading_zeros();
    let denormal = magnitude < 0x80_0000u32;
    let mantissa =
        select(denormal, (magnitude << ((zeros - 8u32) & 31u32)) & 0x7f_ffffu32, magnitude & 0x7f_ffffu32);
    let exponent = select(denormal, 905u32 - zeros, (magnitude >> 23u32) + 896u32);
    let zero = magnitude == 0u32;
    Pair {
        high: sign | select(zero, 0u32, (exponent << 20u32) | (mantissa >> 3u32)),
        low: select(zero, 0u32, mantissa << 29u32),
    }
}
