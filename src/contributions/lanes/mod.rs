//! Vectors with one number for each of several rows, as many as a register holds. A mask is a vector in which each lane
//! has all bits set or none.

#[cfg(target_arch = "x86_64")]
mod x86;

use crate::{arrays, isa};

/// One `f32` of each of `WIDTH` rows.
pub(super) trait Lanes: Copy {
    /// Number of rows.
    const WIDTH: usize;
    fn splat(value: f32) -> Self;
    /// Reads `WIDTH` values.
    fn load(values: &[f32]) -> Self;
    /// Writes `WIDTH` values.
    fn store(self, values: &mut [f32]);
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// Returns `self * factor + addend`, rounded once or twice.
    fn mul_add(self, factor: Self, addend: Self) -> Self;
    /// Returns the lanes that are in a mask, and zero elsewhere. For two masks this is the mask of the lanes that are
    /// in both.
    fn and(self, mask: Self) -> Self;
    /// Returns the lanes that are not in a mask, and zero elsewhere.
    fn and_not(self, mask: Self) -> Self;
    /// Returns `yes` in the mask's lanes, and `no` elsewhere.
    fn select(mask: Self, yes: Self, no: Self) -> Self;
    /// Returns the mask of the lanes that are less than `other`.
    fn less(self, other: Self) -> Self;
    /// Returns the mask of the lanes that are less than `other` or NaN, for an `other` that is not NaN.
    fn less_or_nan(self, other: Self) -> Self;
}

/// `N` rows in an array, for every machine. `FMA` says that the code that uses it is compiled for a machine with fused
/// multiply-add.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(super) struct Array<const N: usize, const FMA: bool>([f32; N]);

impl<const N: usize, const FMA: bool> Array<N, FMA> {
    #[inline(always)]
    fn each(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(arrays::from_fn(|i| f(self.0[i], other.0[i])))
    }

    #[inline(always)]
    fn mask(self, other: Self, f: impl Fn(f32, f32) -> bool) -> Self {
        self.each(other, |a, b| f32::from_bits(if f(a, b) { u32::MAX } else { 0 }))
    }
}

impl<const N: usize, const FMA: bool> Lanes for Array<N, FMA> {
    const WIDTH: usize = N;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        Self([value; N])
    }
    #[inline(always)]
    fn load(values: &[f32]) -> Self {
        Self(arrays::from_fn(|i| values[..N][i]))
    }
    #[inline(always)]
    fn store(self, values: &mut [f32]) {
        values[..N].copy_from_slice(&self.0);
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.each(other, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.each(other, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.each(other, |a, b| a * b)
    }
    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        // Without an instruction for it, `f32::mul_add` calls a function.
        let one = |a: f32, b: f32, c: f32| if FMA { a.mul_add(b, c) } else { a * b + c };
        Self(arrays::from_fn(|i| one(self.0[i], factor.0[i], addend.0[i])))
    }
    #[inline(always)]
    fn and(self, mask: Self) -> Self {
        self.each(mask, |a, m| f32::from_bits(a.to_bits() & m.to_bits()))
    }
    #[inline(always)]
    fn and_not(self, mask: Self) -> Self {
        self.each(mask, |a, m| f32::from_bits(a.to_bits() & !m.to_bits()))
    }
    #[inline(always)]
    fn select(mask: Self, yes: Self, no: Self) -> Self {
        let one = |m: u32, a: u32, b: u32| f32::from_bits((m & a) | (!m & b));
        Self(arrays::from_fn(|i| one(mask.0[i].to_bits(), yes.0[i].to_bits(), no.0[i].to_bits())))
    }
    #[inline(always)]
    fn less(self, other: Self) -> Self {
        self.mask(other, |a, b| a < b)
    }
    #[inline(always)]
    fn less_or_nan(self, other: Self) -> Self {
        self.mask(other, |a, b| a < b || a.is_nan() || b.is_nan())
    }
}

/// Work on a row block, a register at a time.
pub(super) trait Work {
    /// Writes the results of the row block's rows.
    fn run<V: Lanes>(&self, out: &mut [f32]);
}

/// Runs work with the widest registers that the machine has.
pub(super) fn run(work: &impl Work, out: &mut [f32]) {
    match isa::isa() {
        #[cfg(target_arch = "x86_64")]
        isa::Isa::Avx512 if isa::fma() => {
            // SAFETY: `isa` and `fma` say that the machine has these instructions.
            unsafe { run_avx512(work, out) }
        }
        #[cfg(target_arch = "x86_64")]
        isa::Isa::Avx2 if isa::fma() => {
            // SAFETY: `isa` and `fma` say that the machine has these instructions.
            unsafe { run_avx2(work, out) }
        }
        #[cfg(target_arch = "aarch64")]
        isa::Isa::Neon => work.run::<Array<8, true>>(out),
        _ => work.run::<Array<8, false>>(out),
    }
}

/// # Safety
/// The machine has AVX-512 F, DQ and BW, and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,fma")]
unsafe fn run_avx512(work: &impl Work, out: &mut [f32]) {
    work.run::<x86::Avx512>(out);
}

/// # Safety
/// The machine has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn run_avx2(work: &impl Work, out: &mut [f32]) {
    work.run::<x86::Avx2>(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes what all operations give for values, a list of registers for each, and checks that there are as many.
    struct Operations([Vec<f32>; 3]);

    /// The operations of [`Operations`].
    const OPERATIONS: usize = 13;

    impl Work for Operations {
        #[inline(always)]
        fn run<V: Lanes>(&self, out: &mut [f32]) {
            let Self([a, b, c]) = self;
            let length = a.len();
            for first in (0..length).step_by(V::WIDTH) {
                let [a, b, c] = [&a[first..], &b[first..], &c[first..]].map(|values| V::load(values));
                let less = a.less(b);
                let found: [V; OPERATIONS] = [
                    a.add(b),
                    a.sub(b),
                    a.mul(b),
                    a.mul_add(b, c),
                    less,
                    a.less_or_nan(c),
                    a.and(less),
                    a.and_not(less),
                    less.and(b.less(c)),
                    less.and_not(b.less(c)),
                    V::select(less, b, c),
                    V::splat(2.5),
                    a,
                ];
                for (operation, found) in found.into_iter().enumerate() {
                    found.store(&mut out[operation * length + first..]);
                }
            }
        }
    }

    /// The machine's registers do what arrays do, also for NaN, infinities and zeros of both signs.
    #[test]
    fn registers_do_what_arrays_do() {
        let special = [0.0, -0.0, 1.0, -1.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE];
        // All pairs of the first two lists; in the third there is no NaN, as `less_or_nan` asks.
        let a: Vec<f32> = (0..64).map(|i| special[i % 8]).collect();
        let b: Vec<f32> = (0..64).map(|i| special[i / 8]).collect();
        let c: Vec<f32> = (0..64).map(|i| [0.25, -3.0, 0.0, f32::INFINITY, -0.0][i % 5]).collect();
        let work = Operations([a, b, c]);
        let (mut found, mut expected) = (vec![0.0; OPERATIONS * 64], vec![0.0; OPERATIONS * 64]);
        run(&work, &mut found);
        work.run::<Array<8, true>>(&mut expected);
        // NaN has many bits, a mask one of them.
        let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!(
                same(*found, *expected),
                "operation {}, values {}: {found} for {expected}",
                i / 64,
                i % 64
            );
        }
    }
}
