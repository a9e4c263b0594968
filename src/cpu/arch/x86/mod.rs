//! x86-64: AVX-512 in [`avx512`], AVX2 in [`avx2`], and here what chooses between them.

pub(in crate::cpu) mod avx2;
pub(in crate::cpu) mod avx512;
mod copy;
pub(in crate::cpu) mod layers;
pub(in crate::cpu) mod rank;
pub(in crate::cpu) mod tiles;

pub(in crate::cpu) use copy::columns;

use crate::cpu::{
    engine::walk::{LeafAddresses, Shape, Span, WalkStarts},
    isa::{Isa, isa},
    nodes::{Nodes, TOP_LEVELS, TOP_LEVELS_8},
    rows::Rows,
    window::{BLOCK, Window},
};

/// Rows that are read together, by either set.
const TOGETHER: usize = 64;
const _: () = assert!(TOGETHER == avx512::LANES * avx512::GROUPS);

/// Whether the machine has kernels that walk vectors of rows: of AVX-512, or of AVX2.
pub(in crate::cpu) fn available() -> bool {
    isa() >= Isa::Avx2
}

/// Levels of a tree that the machine's kernels hold in registers.
pub(in crate::cpu) fn top_levels() -> u32 {
    if isa() == Isa::Avx512 { TOP_LEVELS } else { TOP_LEVELS_8 }
}

/// Whether rows can be addressed with 32-bit offsets from the first of 64.
pub(in crate::cpu) fn fits(rows: &Rows<'_>) -> bool {
    rows.is_unit()
        && rows.row_stride().checked_mul(TOGETHER).is_some_and(|n| n + rows.columns() < i32::MAX as usize / 4)
}

/// Rows of which some can be walked together.
pub(in crate::cpu) trait RowSpans: Copy {
    /// Rows from `row` on that can.
    fn together(&self, row: usize) -> usize;
}

impl RowSpans for &Rows<'_> {
    fn together(&self, _row: usize) -> usize {
        usize::MAX
    }
}

impl<T: crate::cpu::Row> RowSpans for Window<'_, T> {
    fn together(&self, row: usize) -> usize {
        BLOCK - self.block(row).1
    }
}

/// Where the kernels of either set read rows from.
pub(in crate::cpu) trait Source: avx512::Source16 + avx2::Source8 {}
impl<F: avx512::Source16 + avx2::Source8> Source for F {}

/// Nodes that the kernels of either set gather.
pub(in crate::cpu) trait VectorRule: avx512::WalkRule16 + avx2::WalkRule8 {}
impl<R: avx512::WalkRule16 + avx2::WalkRule8> VectorRule for R {}

/// A block with rows inside, `row.step` 1: each tree against 64 rows at a time. A tree's rows lie side by side in `found`.
///
/// # Safety
/// [`available`]; the rows [`fits`] or hold the span; otherwise as for [`crate::cpu::engine::walk::block`].
pub(in crate::cpu) unsafe fn block<R: VectorRule, F: Source>(
    nodes: &Nodes<R>,
    rows: F,
    row: Span,
    tree: Span,
    shape: Shape,
    found: &mut LeafAddresses,
) {
    // SAFETY: as promised to this function; the kernel is one of this machine's.
    unsafe {
        match isa() {
            Isa::Avx512 => avx512::block(nodes, rows, row, tree, shape, found),
            _ => avx2::block(nodes, rows, row, tree, shape, found),
        }
    }
}

/// Walks a tree on from an address for each of at most 64 rows.
///
/// # Safety
/// [`available`]; the source holds the rows, which can be walked together; addresses are of nodes of the tree at the position,
/// 64 of them.
pub(in crate::cpu) unsafe fn walk_on<R: VectorRule, F: Source>(
    nodes: &Nodes<R>,
    rows: F,
    row: Span,
    from: WalkStarts<'_>,
    found: &mut LeafAddresses,
) {
    // SAFETY: as promised to this function; the kernel is one of this machine's.
    unsafe {
        match isa() {
            Isa::Avx512 => avx512::walk_on(nodes, rows, row, from, found),
            _ => avx2::walk_on(nodes, rows, row, from, found),
        }
    }
}
