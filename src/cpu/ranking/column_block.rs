//! Column blocks: sixteen adjacent columns of a row, as many `f32` values as a cache line holds.

pub(crate) use crate::cost::ROW_BLOCK;
use crate::cpu::cache_line::CacheLine;

/// Columns of a column block.
pub(crate) const BLOCK_COLUMNS: usize = 16;
/// Most row blocks that are read together from a column whose values are adjacent. Each column of many rows lies in
/// pages of its own, so a few values of each column are slow to read (`fangorn-benches sparse-rows`).
pub(crate) const ROW_BLOCKS_TOGETHER: usize = 4;
/// Maximum number of thresholds of a column that is ranked in layers.
pub(crate) const MOST_LAYERS: usize = 4;

/// For one layer: which values of 64 rows reach the threshold of their column, as `[half][row]`. Bit `i` of a
/// byte stands for column `i` of the column block in half 0, and for column `8 + i` in half 1.
pub(in crate::cpu) type ThresholdMasks = CacheLine<[[u8; ROW_BLOCK]; 2]>;

/// Sixteen adjacent columns of a row, or fewer at the end of the row, and which of them are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnBlock {
    /// The number of the first column.
    pub(crate) first: u32,
    /// The wanted columns: bit `i` stands for column `first + i`.
    pub(crate) wanted: u16,
    /// A column that is read soon. Kernels prefetch it in each row.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(crate) ahead: Option<u32>,
}

impl ColumnBlock {
    /// Has each column block prefetch the column block that comes `by` column blocks after it.
    pub(crate) fn prefetch_ahead<'l>(column_blocks: impl Iterator<Item = &'l mut Self>, by: usize) {
        let mut column_blocks: Vec<_> = column_blocks.collect();
        let firsts: Vec<u32> = column_blocks.iter().skip(by).map(|column_block| column_block.first).collect();
        for (column_block, first) in column_blocks.iter_mut().zip(firsts) {
            column_block.ahead = Some(first);
        }
    }

    /// Returns the number of its columns that exist in rows of `columns` columns.
    pub(in crate::cpu) fn most(self, columns: usize) -> usize {
        columns.saturating_sub(self.first as usize).min(BLOCK_COLUMNS)
    }
}
