//! Registers of AVX2 and AVX-512.
//!
//! Only [`super::run`] makes values of these types, in functions for machines that have the instructions. That is the
//! invariant of every `unsafe` block here.

use std::arch::x86_64::*;

use super::{Lanes, MOST_BITS};

/// Chooses an entry of `2^levels` parts of a table, for each lane: `$part` chooses within the part that begins at `$at`,
/// by the lowest `$low` bits of the index, and each level of this macro by one bit more. The macro is no loop, so that
/// everything stays in registers.
macro_rules! entries {
    (0, $part:expr, $source:ident, $at:expr, $bits:ident, $low:literal) => { $part($source, $at) };
    (1, $($rest:tt)*) => { entries!(@ 0, 0, $($rest)*) };
    (2, $($rest:tt)*) => { entries!(@ 1, 1, $($rest)*) };
    (3, $($rest:tt)*) => { entries!(@ 2, 2, $($rest)*) };
    (4, $($rest:tt)*) => { entries!(@ 3, 3, $($rest)*) };
    (5, $($rest:tt)*) => { entries!(@ 4, 4, $($rest)*) };
    (@ $below:tt, $level:literal, $part:expr, $source:ident, $at:expr, $bits:ident, $low:literal) => {
        Self::select(
            $bits[$low + $level],
            entries!($below, $part, $source, $at + (1 << ($low + $level)), $bits, $low),
            entries!($below, $part, $source, $at, $bits, $low),
        )
    };
}

/// Eight rows in a register of AVX2, with FMA.
#[derive(Clone, Copy)]
pub(super) struct Avx2(__m256);

impl Avx2 {
    /// Chooses among eight entries of a table, from `at` on, by the lowest three bits of each lane's index.
    #[inline(always)]
    fn of_8((table, index): (&[f32], __m256), at: usize) -> Self {
        let entries = Self::load(&table[at..]);
        // SAFETY: the machine has AVX2.
        Self(unsafe { _mm256_permutevar8x32_ps(entries.0, _mm256_castps_si256(index)) })
    }
}

impl Lanes for Avx2 {
    const WIDTH: usize = 8;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: the machine has AVX2.
        Self(unsafe { _mm256_set1_ps(value) })
    }
    #[inline(always)]
    fn load(values: &[f32]) -> Self {
        let values = &values[..8];
        // SAFETY: the machine has AVX2, and there are eight values.
        Self(unsafe { _mm256_loadu_ps(values.as_ptr()) })
    }
    #[inline(always)]
    fn store(self, values: &mut [f32]) {
        let values = &mut values[..8];
        // SAFETY: the machine has AVX2, and there is room for eight values.
        unsafe { _mm256_storeu_ps(values.as_mut_ptr(), self.0) }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: the machine has AVX2.
        Self(unsafe { _mm256_add_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: the machine has AVX2.
        Self(unsafe { _mm256_sub_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: the machine has AVX2.
        Self(unsafe { _mm256_mul_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        // SAFETY: the machine has FMA.
        Self(unsafe { _mm256_fmadd_ps(self.0, factor.0, addend.0) })
    }
    #[inline(always)]
    fn and(self, mask: Self) -> Self {
        // SAFETY: the machine has AVX2.
        Self(unsafe { _mm256_and_ps(self.0, mask.0) })
    }
    #[inline(always)]
    fn and_not(self, mask: Self) -> Self {
        // SAFETY: the machine has AVX2.
        Self(unsafe { _mm256_andnot_ps(mask.0, self.0) })
    }
    #[inline(always)]
    fn select(mask: Self, yes: Self, no: Self) -> Self {
        // SAFETY: the machine has AVX2.
        Self(unsafe { _mm256_blendv_ps(no.0, yes.0, mask.0) })
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: the machine has AVX2.
        Self(unsafe { _mm256_or_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn lookup<const BITS: usize>(table: &[f32], index: Self, bits: &[Self; MOST_BITS]) -> Self {
        let source = (table, index.0);
        match BITS {
            ..=3 => entries!(0, Self::of_8, source, 0, bits, 3),
            4 => entries!(1, Self::of_8, source, 0, bits, 3),
            5 => entries!(2, Self::of_8, source, 0, bits, 3),
            6 => entries!(3, Self::of_8, source, 0, bits, 3),
            7 => entries!(4, Self::of_8, source, 0, bits, 3),
            _ => entries!(5, Self::of_8, source, 0, bits, 3),
        }
    }
    #[inline(always)]
    fn table_reads(bits: usize) -> usize {
        1 << bits.saturating_sub(3)
    }
    #[inline(always)]
    fn less(self, other: Self) -> Self {
        // SAFETY: the machine has AVX2.
        Self(unsafe { _mm256_cmp_ps::<_CMP_LT_OQ>(self.0, other.0) })
    }
    #[inline(always)]
    fn less_or_nan(self, other: Self) -> Self {
        // SAFETY: the machine has AVX2.
        Self(unsafe { _mm256_cmp_ps::<_CMP_NGE_UQ>(self.0, other.0) })
    }
}

/// Sixteen rows in a register of AVX-512.
#[derive(Clone, Copy)]
pub(super) struct Avx512(__m512);

impl Avx512 {
    /// Chooses among 32 entries of a table, from `at` on, by the lowest five bits of each lane's index.
    #[inline(always)]
    fn of_32((table, index): (&[f32], __m512), at: usize) -> Self {
        let (low, high) = (Self::load(&table[at..]), Self::load(&table[at + Self::WIDTH..]));
        // SAFETY: the machine has AVX-512 F.
        Self(unsafe { _mm512_permutex2var_ps(low.0, _mm512_castps_si512(index), high.0) })
    }

    /// Returns a mask register as a mask of lanes.
    #[inline(always)]
    fn mask(mask: __mmask16) -> Self {
        // SAFETY: the machine has AVX-512 F and DQ.
        Self(unsafe { _mm512_castsi512_ps(_mm512_movm_epi32(mask)) })
    }
}

impl Lanes for Avx512 {
    const WIDTH: usize = 16;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        // SAFETY: the machine has AVX-512 F.
        Self(unsafe { _mm512_set1_ps(value) })
    }
    #[inline(always)]
    fn load(values: &[f32]) -> Self {
        let values = &values[..16];
        // SAFETY: the machine has AVX-512 F, and there are sixteen values.
        Self(unsafe { _mm512_loadu_ps(values.as_ptr()) })
    }
    #[inline(always)]
    fn store(self, values: &mut [f32]) {
        let values = &mut values[..16];
        // SAFETY: the machine has AVX-512 F, and there is room for sixteen values.
        unsafe { _mm512_storeu_ps(values.as_mut_ptr(), self.0) }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: the machine has AVX-512 F.
        Self(unsafe { _mm512_add_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: the machine has AVX-512 F.
        Self(unsafe { _mm512_sub_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: the machine has AVX-512 F.
        Self(unsafe { _mm512_mul_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        // SAFETY: the machine has AVX-512 F.
        Self(unsafe { _mm512_fmadd_ps(self.0, factor.0, addend.0) })
    }
    #[inline(always)]
    fn and(self, mask: Self) -> Self {
        // SAFETY: the machine has AVX-512 F and DQ.
        Self(unsafe { _mm512_and_ps(self.0, mask.0) })
    }
    #[inline(always)]
    fn and_not(self, mask: Self) -> Self {
        // SAFETY: the machine has AVX-512 F and DQ.
        Self(unsafe { _mm512_andnot_ps(mask.0, self.0) })
    }
    #[inline(always)]
    fn select(mask: Self, yes: Self, no: Self) -> Self {
        // SAFETY: the machine has AVX-512 F. The constant takes the bits of `yes` where the mask has ones, and those of
        // `no` elsewhere.
        Self(unsafe {
            _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0xCA>(
                _mm512_castps_si512(mask.0),
                _mm512_castps_si512(yes.0),
                _mm512_castps_si512(no.0),
            ))
        })
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: the machine has AVX-512 F and DQ.
        Self(unsafe { _mm512_or_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn lookup<const BITS: usize>(table: &[f32], index: Self, bits: &[Self; MOST_BITS]) -> Self {
        let source = (table, index.0);
        match BITS {
            ..=4 => {
                // SAFETY: the machine has AVX-512 F. The permutation reads the lowest four bits of each lane's index.
                Self(unsafe { _mm512_permutexvar_ps(_mm512_castps_si512(index.0), Self::load(table).0) })
            }
            5 => entries!(0, Self::of_32, source, 0, bits, 5),
            6 => entries!(1, Self::of_32, source, 0, bits, 5),
            7 => entries!(2, Self::of_32, source, 0, bits, 5),
            _ => entries!(3, Self::of_32, source, 0, bits, 5),
        }
    }
    #[inline(always)]
    fn table_reads(bits: usize) -> usize {
        1 << bits.saturating_sub(5)
    }
    #[inline(always)]
    fn less(self, other: Self) -> Self {
        // SAFETY: the machine has AVX-512 F.
        Self::mask(unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, other.0) })
    }
    #[inline(always)]
    fn less_or_nan(self, other: Self) -> Self {
        // SAFETY: the machine has AVX-512 F.
        Self::mask(unsafe { _mm512_cmp_ps_mask::<_CMP_NGE_UQ>(self.0, other.0) })
    }
}
