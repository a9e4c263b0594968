//! Vectors with one number for each of several rows, as many as a register holds. A mask is a vector in which each lane
//! has all bits set or none.

#[cfg(target_arch = "x86_64")]
mod x86;

use super::program::{LEAST_PATTERNS, MOST_BITS};
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
    /// Returns the bits that are set in one of two vectors.
    fn or(self, other: Self) -> Self;
    /// Returns an entry of a table for each lane. A table has `2^BITS` entries, and at least [`LEAST_PATTERNS`]. `index`
    /// has an integer in each lane, whose bits from `BITS` on are 0. `bits` has each bit of the index as a mask.
    fn lookup<const BITS: usize>(table: &[f32], index: Self, bits: &[Self; MOST_BITS]) -> Self;
    /// Returns how many registers or cache lines of entries [`lookup`](Self::lookup) reads from a table of `2^bits`
    /// entries, over all lanes.
    fn table_reads(bits: usize) -> usize;
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
    fn or(self, other: Self) -> Self {
        self.each(other, |a, b| f32::from_bits(a.to_bits() | b.to_bits()))
    }
    #[inline(always)]
    fn lookup<const BITS: usize>(table: &[f32], index: Self, _: &[Self; MOST_BITS]) -> Self {
        let table = &table[..(1 << BITS).max(LEAST_PATTERNS)];
        // The mask leaves an index as it is, and spares a test.
        Self(arrays::from_fn(|i| table[index.0[i].to_bits() as usize & ((1 << BITS) - 1)]))
    }
    #[inline(always)]
    fn table_reads(bits: usize) -> usize {
        // Different lanes read different lines of a cache, which hold 16 entries.
        1 << bits.saturating_sub(4)
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

/// Returns [`Lanes::table_reads`] of the registers that [`run`] takes on this machine.
pub(super) fn table_reads(bits: usize) -> usize {
    match isa::isa() {
        #[cfg(target_arch = "x86_64")]
        isa::Isa::Avx512 if isa::fma() => x86::Avx512::table_reads(bits),
        #[cfg(target_arch = "x86_64")]
        isa::Isa::Avx2 if isa::fma() => x86::Avx2::table_reads(bits),
        _ => Array::<8, false>::table_reads(bits),
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
    const OPERATIONS: usize = 14;

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
                    less.and(V::splat(1.0)).or(b.less(c).and(V::splat(2.0))),
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

    /// The entries of a table of `2^BITS` entries at some indices.
    struct Lookup<'a, const BITS: usize> {
        table: &'a [f32],
        indices: &'a [u32],
    }

    impl<const BITS: usize> Work for Lookup<'_, BITS> {
        #[inline(always)]
        fn run<V: Lanes>(&self, out: &mut [f32]) {
            for (indices, out) in self.indices.chunks_exact(16).zip(out.chunks_exact_mut(16)) {
                for first in (0..16).step_by(V::WIDTH) {
                    let of = |lane: &dyn Fn(u32) -> u32| {
                        let values: Vec<f32> =
                            indices[first..].iter().map(|i| f32::from_bits(lane(*i))).collect();
                        V::load(&values)
                    };
                    let bits = arrays::from_fn(|bit| of(&|i| if i >> bit & 1 == 1 { u32::MAX } else { 0 }));
                    V::lookup::<BITS>(self.table, of(&|i| i), &bits).store(&mut out[first..]);
                }
            }
        }
    }

    fn every_index_is_found<const BITS: usize>() {
        let length = (1usize << BITS).max(LEAST_PATTERNS);
        let table: Vec<f32> = (0..length).map(|i| (i % (1 << BITS)) as f32 + 0.5).collect();
        // Each index in several lanes, beside others.
        let indices: Vec<u32> = (0..4096u32).map(|i| (i * 37 + i / 256) % (1 << BITS)).collect();
        let mut found = vec![0.0; indices.len()];
        run(&Lookup::<BITS> { table: &table, indices: &indices }, &mut found);
        for (found, index) in found.iter().zip(&indices) {
            assert_eq!(*found, *index as f32 + 0.5, "{BITS} bits");
        }
    }

    #[test]
    fn lookups_find_the_entry_of_each_lane() {
        every_index_is_found::<1>();
        every_index_is_found::<2>();
        every_index_is_found::<3>();
        every_index_is_found::<4>();
        every_index_is_found::<5>();
        every_index_is_found::<6>();
        every_index_is_found::<7>();
        every_index_is_found::<8>();
    }
}
