//! Kernels for x86-64: AVX-512 in [`avx512`], AVX2 in [`avx2`]. The functions here choose between the two.

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
    window::{ROW_BLOCK, Window},
};

/// Rows that a kernel of either instruction set walks together.
const TOGETHER: usize = 64;
const _: () = assert!(TOGETHER == avx512::LANES * avx512::GROUPS);

/// Whether the machine has kernels that walk vectors of rows, with AVX-512 or AVX2.
pub(in crate::cpu) fn available() -> bool {
    isa() >= Isa::Avx2
}

/// Returns how many levels of a tree the machine's kernels hold in registers.
pub(in crate::cpu) fn top_levels() -> u32 {
    if isa() == Isa::Avx512 { TOP_LEVELS } else { TOP_LEVELS_8 }
}

/// Whether kernels reach every value of 64 rows with signed 32-bit offsets from the first of them. The values
/// of a row have to be adjacent.
pub(in crate::cpu) fn fits(rows: &Rows<'_>) -> bool {
    rows.is_unit()
        && rows.row_stride().checked_mul(TOGETHER).is_some_and(|n| n + rows.columns() < i32::MAX as usize / 4)
}

/// A source of rows that says which rows kernels can walk together.
pub(in crate::cpu) trait RowSpans: Copy {
    /// Returns how many rows from `row` on can be walked together.
    fn together(&self, row: usize) -> usize;
}

impl RowSpans for &Rows<'_> {
    fn together(&self, _row: usize) -> usize {
        usize::MAX
    }
}

impl<T: crate::cpu::Row> RowSpans for Window<'_, T> {
    fn together(&self, row: usize) -> usize {
        ROW_BLOCK - self.block(row).1
    }
}

/// A source of rows for the kernels of both instruction sets.
pub(in crate::cpu) trait Source: avx512::Source16 + avx2::Source8 {}
impl<F: avx512::Source16 + avx2::Source8> Source for F {}

/// A layout rule whose nodes the kernels of both instruction sets gather.
pub(in crate::cpu) trait VectorRule: avx512::WalkRule16 + avx2::WalkRule8 {}
impl<R: avx512::WalkRule16 + avx2::WalkRule8> VectorRule for R {}

/// Walks a block of rows through a block of trees, 64 rows at a time through each tree. `row.stride` is 1.
/// Writes the addresses of leaves to `found`, the rows of a tree side by side.
///
/// # Safety
/// [`available`] is true. `rows` are either rows for which [`fits`] is true, or a window that holds the rows
/// of `row`. Offsets of nodes in bytes fit signed 32-bit gathers, and no node asks a question. Otherwise the
/// conditions of [`crate::cpu::engine::walk::block`]: rows are in range and have the forest's columns, `tree`
/// holds positions of trees, and the shape's walks stay inside the nodes.
pub(in crate::cpu) unsafe fn block<R: VectorRule, F: Source>(
    nodes: &Nodes<R>,
    rows: F,
    row: Span,
    tree: Span,
    shape: Shape,
    found: &mut LeafAddresses,
) {
    // SAFETY: the caller upholds that rows, columns and walks stay in range, and that `available` is true. So
    // `isa` is AVX-512 or AVX2.
    unsafe {
        match isa() {
            Isa::Avx512 => avx512::block(nodes, rows, row, tree, shape, found),
            _ => avx2::block(nodes, rows, row, tree, shape, found),
        }
    }
}

/// Walks a tree on from one address for each of at most 64 rows, until every row is at a leaf.
///
/// # Safety
/// [`available`] is true. The source holds at least one row and at most 64, which can be walked together and
/// have the forest's columns. `from` has 64 addresses, all of nodes of the tree at its position. Offsets of
/// nodes in bytes fit signed 32-bit gathers, and no node asks a question.
pub(in crate::cpu) unsafe fn walk_on<R: VectorRule, F: Source>(
    nodes: &Nodes<R>,
    rows: F,
    row: Span,
    from: WalkStarts<'_>,
    found: &mut LeafAddresses,
) {
    // SAFETY: the caller upholds that the source holds the rows, that the 64 addresses are nodes of the tree,
    // and that `available` is true. So `isa` is AVX-512 or AVX2.
    unsafe {
        match isa() {
            Isa::Avx512 => avx512::walk_on(nodes, rows, row, from, found),
            _ => avx2::walk_on(nodes, rows, row, from, found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_rows_stay_below_two_gigabytes() {
        let fits =
            |columns, stride| fits(&Rows::<f32>::strided(&[], [0, columns], [stride, 1]).expect("no rows"));
        // 64 rows of this stride and 62 columns end at 2^29 - 2 values. Signed 32-bit offsets in bytes reach fewer
        // than 2^29 - 1 values.
        let most = (1 << 23) - 1;
        assert!(fits(62, most));
        assert!(!fits(63, most));
        assert!(!fits(1, 1 << 23));
        assert!(fits(1000, 0), "all rows are the same");
    }
}
