//! Ranks of one byte, computed in registers for 64 rows of a column: by a binary search that looks up its
//! pivots with permutes of registers, or by a table of category bits.

use super::{avx2, avx512};
use crate::cpu::{
    arch::{CountingLoops, portable},
    cache_line::CacheLine,
    isa::{Isa, isa, popcnt, vbmi2},
    nodes::Compare,
    ranking::{
        compressed::CompressedBlock,
        count::FAN,
        search::{CategoryBits, ColumnSearch, Columns, ROW_BLOCK, ZeroAside},
    },
    rows::Read,
};

/// Writes the rank of each value, one column after the other: how many thresholds of its column are at most
/// the value. Returns `false` if the machine has no kernel for that.
pub(in crate::cpu) fn ranks(
    pivots: &[CacheLine<[f32; FAN]>],
    columns: &[ColumnSearch],
    values: Columns<&[f32]>,
    out: Columns<&mut [u8]>,
) -> bool {
    // SAFETY: `isa` has found the kernel's instructions, and VBMI2 is detected if the kernel needs it.
    unsafe {
        match isa() {
            Isa::Avx512 if vbmi2() => avx512::rank::each::<true>(pivots, columns, values, out),
            Isa::Avx512 => avx512::rank::each::<false>(pivots, columns, values, out),
            Isa::Avx2 => avx2::rank::each(pivots, columns, values, out),
            Isa::Neon | Isa::Portable => return false,
        }
    }
    true
}

/// Returns how many pairs of cache lines the pivots of a level take, at least one.
pub(super) const fn pairs_of(level: u32) -> usize {
    (1usize << level).div_ceil(2 * FAN)
}

/// Runs loops that count thresholds.
pub(in crate::cpu) fn counting(loops: impl CountingLoops) {
    // SAFETY: `isa` has found the kernel's instructions, and POPCNT is detected.
    unsafe {
        match isa() {
            Isa::Avx512 if popcnt() => avx512::rank::counting(loops),
            Isa::Avx2 if popcnt() => avx2::rank::counting(loops),
            _ => loops.run(portable::rank::at_most),
        }
    }
}

/// Returns whether the machine has the kernel that ranks compressed columns.
pub(in crate::cpu) fn compresses() -> bool {
    vbmi2() && popcnt()
}

/// Ranks a row block of sparse rows by the searches of its columns.
///
/// # Panics
/// The machine has no kernel for that.
pub(in crate::cpu) fn compressed<T: Read<f32> + Copy + Default + PartialEq>(block: CompressedBlock<'_, T>) {
    assert!(compresses(), "a kernel for compressed columns");
    // SAFETY: `isa` has found AVX-512 F, DQ and BW, and VBMI2 and POPCNT are detected.
    unsafe { avx512::rank::compressed(block) };
}

/// Looks up 64 category codes in a bit table, and writes the bit of each. Returns `false` if the machine
/// has no kernel for that.
pub(in crate::cpu) fn bits(table: &[u8; 32], codes: &CategoryBits, out: &mut [u8; ROW_BLOCK]) -> bool {
    match isa() {
        // SAFETY: `isa` has found AVX-512 F and BW.
        Isa::Avx512 => unsafe { avx512::rank::bits(table, codes, out) },
        // SAFETY: `isa` has found AVX2.
        Isa::Avx2 => unsafe { avx2::rank::bits(table, codes, out) },
        Isa::Neon | Isa::Portable => return false,
    }
    true
}

/// Writes for each of 64 values 1 if a split that sends zeros aside sends it right, and 0 otherwise. Returns
/// `false` if the machine has no kernel for that.
pub(in crate::cpu) fn zero_aside<C: Compare>(
    split: &ZeroAside<C>,
    values: &[C; ROW_BLOCK],
    out: &mut [u8; ROW_BLOCK],
) -> bool {
    match isa() {
        // SAFETY: `isa` has found AVX2, which every processor with AVX-512 has.
        Isa::Avx512 | Isa::Avx2 => unsafe { avx2::rank::zero_aside(split, values, out) },
        Isa::Neon | Isa::Portable => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::ranking::search::{Missing, lay_out};

    type Ranked = unsafe fn(&[CacheLine<[f32; FAN]>], &[ColumnSearch], Columns<&[f32]>, Columns<&mut [u8]>);

    /// Compares every kernel that this machine can run with a plain search, even if `ranks` would choose
    /// another kernel. The values lie in all gaps between thresholds.
    #[test]
    fn kernels_agree() {
        const COLUMNS: usize = 5;
        let mut kernels: Vec<Ranked> = Vec::new();
        if is_x86_feature_detected!("avx2") {
            kernels.push(avx2::rank::each);
        }
        if is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512bw") {
            kernels.push(avx512::rank::each::<false>);
            if is_x86_feature_detected!("avx512vbmi2") {
                kernels.push(avx512::rank::each::<true>);
            }
        }
        let odd = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, f32::MIN, f32::MAX];
        let gaps = ROW_BLOCK - odd.len();
        let gap = |i: usize| {
            (i / ROW_BLOCK * gaps + i % ROW_BLOCK - odd.len()) as f32 - 12.0 + (i % 2) as f32 * 0.5
        };
        let value = |i: usize| odd.get(i % ROW_BLOCK).copied().unwrap_or_else(|| gap(i));
        let values: Vec<f32> = (0..COLUMNS * ROW_BLOCK).map(value).collect();
        let of = Columns { of: &values[..], apart: ROW_BLOCK };
        for count in 0..=255usize {
            let mut pivots = Vec::new();
            let thresholds: [Vec<f32>; COLUMNS] = std::array::from_fn(|c| {
                (0..count.saturating_sub(c % 2)).map(|i| (i + 3 * c) as f32 - 8.0).collect()
            });
            let searches =
                thresholds.each_ref().map(|own| lay_out(own, &mut pivots).expect("finite thresholds"));
            for turn in 0..COLUMNS {
                let columns: [ColumnSearch; COLUMNS] = std::array::from_fn(|c| {
                    let missing = if c == 1 { Missing::Most } else { Missing::Least };
                    ColumnSearch::new(
                        searches[c].with_missing(missing),
                        ((c + turn) % COLUMNS) as u32,
                        c as u32,
                    )
                });
                let mut together = columns;
                ColumnSearch::count_runs(&mut together);
                for (kernel, columns) in
                    kernels.iter().flat_map(|kernel| [(kernel, &columns), (kernel, &together)])
                {
                    let mut out = [0xee; COLUMNS * ROW_BLOCK];
                    // SAFETY: `kernels` has only kernels whose instructions have been detected.
                    unsafe { kernel(&pivots, columns, of, Columns { of: &mut out, apart: ROW_BLOCK }) };
                    for (c, column) in columns.iter().enumerate() {
                        for (value, rank) in of.column(column.from).iter().zip(&out[c * ROW_BLOCK..]) {
                            let expected = match value.is_nan() {
                                true if c == 1 => thresholds[c].len(),
                                true => 0,
                                false => thresholds[c].partition_point(|t| t <= value),
                            };
                            assert_eq!(usize::from(*rank), expected, "{value:e} among {count}, column {c}");
                        }
                    }
                }
            }
        }
    }
}
