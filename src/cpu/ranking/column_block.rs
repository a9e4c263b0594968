//! Lines of columns: sixteen that lie side by side in a row, as a line of the cache has them.

pub(crate) use crate::cost::BLOCK;
use crate::cpu::cache_line::CacheLine;

/// Columns of a line.
pub(crate) const BLOCK_COLUMNS: usize = 16;
/// Thresholds of a column that layers count, at most.
pub(crate) const MOST_LAYERS: usize = 4;

/// Which rows' values reach a threshold of their column: by bit of a byte, the first eight columns of a line and the others.
pub(in crate::cpu) type ThresholdMasks = CacheLine<[[u8; BLOCK]; 2]>;

/// Columns that lie side by side, at most sixteen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnBlock {
    /// The first of them.
    pub(crate) first: u32,
    /// Which are wanted.
    pub(crate) wanted: u16,
    /// A column that is soon wanted, to be asked for.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(crate) ahead: Option<u32>,
}

impl ColumnBlock {
    /// Has each of some lines ask for the one that comes so many after it.
    pub(crate) fn prefetch_ahead<'l>(column_blocks: impl Iterator<Item = &'l mut Self>, by: usize) {
        let mut column_blocks: Vec<_> = column_blocks.collect();
        let firsts: Vec<u32> = column_blocks.iter().skip(by).map(|column_block| column_block.first).collect();
        for (column_block, first) in column_blocks.iter_mut().zip(firsts) {
            column_block.ahead = Some(first);
        }
    }

    /// Its columns among so many that rows have.
    pub(in crate::cpu) fn most(self, columns: usize) -> usize {
        columns.saturating_sub(self.first as usize).min(BLOCK_COLUMNS)
    }
}
