//! Sparse rows as compressed columns: of each column, only the values that its rows hold are searched.

use std::ops::Range;

use super::{
    super::{cache_line::CacheLine, rows::Read},
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
    pub(super) matrix: &'b SparseMatrix<T>,
    /// The rows, at most 64.
    pub(super) rows: Range<usize>,
    pub(in crate::cpu) columns: &'b mut Vec<CompressedColumn>,
    pub(in crate::cpu) pivots: &'b [CacheLine<[f32; FAN]>],
    /// The searches, those with the same kernel side by side.
    pub(in crate::cpu) searches: &'b [ColumnSearch],
    /// By column of ranks, the rank of a row that holds no value.
    pub(in crate::cpu) absent: &'b [u8],
    /// The ranks, `[column of ranks][row]`.
    pub(in crate::cpu) out: &'b mut [[u8; ROW_BLOCK]],
}

impl<T: Read<f32> + Copy + Default + PartialEq> CompressedBlock<'_, T> {
    /// Reads the rows into `columns`.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "only a kernel for an instruction set calls it")
    )]
    #[inline(always)]
    pub(in crate::cpu) fn read(&mut self) {
        self.columns.resize(self.matrix.shape().1, CompressedColumn { held: 0, values: [0.0; ROW_BLOCK] });
        self.columns.iter_mut().for_each(|column| column.held = 0);
        for (row, of_matrix) in self.rows.clone().take(ROW_BLOCK).enumerate() {
            let (columns, values) = self.matrix.elements_of(of_matrix);
            for (column, value) in columns.iter().zip(values) {
                let column = &mut self.columns[*column as usize];
                if let Some(next) = column.values.get_mut(column.held.count_ones() as usize) {
                    *next = value.read();
                }
                column.held |= 1 << row;
            }
        }
    }
}

impl CompressedColumn {
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
