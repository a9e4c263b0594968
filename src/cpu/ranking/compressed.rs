//! Sparse rows as compressed columns: of each column, only the values that its rows hold are searched.

use std::ops::Range;

use super::{
    super::cache_line::CacheLine,
    count::FAN,
    search::{ColumnSearch, ROW_BLOCK},
};
use crate::sparse::SparseMatrix;

/// A column of a row block of sparse rows. Its first values share a cache line with `held`, so an element of a column
/// of few touches one line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(in crate::cpu) struct CompressedColumn {
    /// A bit for each row that holds a value. The lowest bit is the first row's.
    pub(in crate::cpu) held: u64,
    /// The values that rows hold, from the first row's on. What follows the last one is arbitrary.
    pub(in crate::cpu) values: [f32; ROW_BLOCK],
}

/// Room for the columns of a row block.
#[derive(Debug, Default)]
pub(crate) struct CompressedColumns(pub(super) Vec<CompressedColumn>);

/// A row block of sparse rows, and what its columns are ranked by.
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "only a kernel for an instruction set reads it")
)]
pub(in crate::cpu) struct CompressedBlock<'b, T> {
    pub(in crate::cpu) matrix: &'b SparseMatrix<T>,
    /// The rows, at most 64.
    pub(in crate::cpu) rows: Range<usize>,
    /// Room for each column of the rows.
    pub(in crate::cpu) columns: &'b mut [CompressedColumn],
    pub(in crate::cpu) pivots: &'b [CacheLine<[f32; FAN]>],
    /// The searches, those with the same kernel side by side.
    pub(in crate::cpu) searches: &'b [ColumnSearch],
    /// By column of ranks, the rank of a row that holds no value.
    pub(in crate::cpu) absent: &'b [u8],
    /// The ranks, `[column of ranks][row]`.
    pub(in crate::cpu) out: &'b mut [[u8; ROW_BLOCK]],
}

impl CompressedColumn {
    /// A column without values.
    pub(super) const EMPTY: Self = Self { held: 0, values: [0.0; ROW_BLOCK] };

    /// Returns a value for each row: `absent` for rows that hold none.
    pub(super) fn written_out(&self, absent: f32) -> [f32; ROW_BLOCK] {
        let mut found = [absent; ROW_BLOCK];
        let mut held = self.held;
        for value in &self.values {
            let Some(found) = found.get_mut(held.trailing_zeros() as usize) else { break };
            *found = *value;
            held &= held - 1;
        }
        found
    }
}
