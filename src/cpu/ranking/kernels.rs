//! Calls the kernels of the instruction sets that rank a column.

use super::{
    compressed::CompressedBlock,
    count::FAN,
    elements::Elements,
    search::{CategoryBits, ColumnSearch, Columns, ROW_BLOCK, ZeroAside},
};
#[cfg(not(target_arch = "x86_64"))]
use crate::cpu::arch::{CountingLoops, portable};
use crate::cpu::{cache_line::CacheLine, nodes::Compare, rows::Read};
#[cfg(target_arch = "aarch64")]
use crate::isa::{Isa, isa};

/// Writes, for each value, the number of thresholds that are less than or equal to it, one column after the
/// other, if the machine has vectors for that. Otherwise returns `false`. Columns that take the same kernel
/// are ranked faster if they stand side by side.
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(unused_variables))]
pub(super) fn ranks(
    pivots: &[CacheLine<[f32; FAN]>],
    columns: &[ColumnSearch],
    values: Columns<&[f32]>,
    out: Columns<&mut [u8]>,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    return crate::cpu::arch::x86::rank::ranks(pivots, columns, values, out);
    #[cfg(target_arch = "aarch64")]
    if isa() == Isa::Neon {
        // SAFETY: `isa` has found NEON on this machine.
        unsafe { crate::cpu::arch::aarch64::neon::rank::ranks(pivots, columns, values, out) };
        return true;
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Ranks the elements of sparse rows.
pub(super) fn elements<T: Read<f32> + Copy + Default + PartialEq, O: Fn(usize, f32) -> u8>(
    elements: Elements<'_, f32, T, O>,
) {
    #[cfg(target_arch = "x86_64")]
    crate::cpu::arch::x86::rank::counting(elements);
    #[cfg(not(target_arch = "x86_64"))]
    elements.run(portable::rank::at_most);
}

/// Returns whether the machine has a kernel that ranks compressed columns.
pub(super) fn compresses() -> bool {
    #[cfg(target_arch = "x86_64")]
    return crate::cpu::arch::x86::rank::compresses();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Ranks a row block of sparse rows by the searches of its columns.
///
/// # Panics
/// The machine has no kernel for that.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
pub(super) fn compressed<T: Read<f32> + Copy + Default + PartialEq>(block: CompressedBlock<'_, T>) {
    #[cfg(target_arch = "x86_64")]
    return crate::cpu::arch::x86::rank::compressed(block);
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!("`compresses` returns false");
}

/// Writes for each of 64 codes its bit in a table: 1 or 0.
pub(super) fn bits(codes: &CategoryBits, table: &[u8; 32], out: &mut [u8; ROW_BLOCK]) {
    #[cfg(target_arch = "x86_64")]
    if crate::cpu::arch::x86::rank::bits(table, codes, out) {
        return;
    }
    #[cfg(target_arch = "aarch64")]
    if isa() == Isa::Neon {
        // SAFETY: `isa` has found NEON on this machine.
        return unsafe { crate::cpu::arch::aarch64::neon::rank::bits(table, codes, out) };
    }
    for ((out, byte), bit) in out.iter_mut().zip(codes.byte).zip(codes.bit) {
        *out = u8::from(table[usize::from(byte) % 32] & bit != 0);
    }
}

/// Writes for each of 64 values 1 if a split that sends zeros aside sends it right, and 0 otherwise.
pub(super) fn zero_aside<C: Compare>(
    split: &ZeroAside<C>,
    values: &[C; ROW_BLOCK],
    out: &mut [u8; ROW_BLOCK],
) {
    #[cfg(target_arch = "x86_64")]
    if crate::cpu::arch::x86::rank::zero_aside(split, values, out) {
        return;
    }
    // SSE2 and NEON are part of every processor of their architectures, so this loop has their vectors.
    split.answer(values, out);
}
