//! Rows that don't stand in memory as a predictor reads them: blocks of them are written out, each into a buffer that
//! stays in a core's cache where a row has up to 1024 columns.

use std::ops::Range;

use rayon::prelude::*;

use super::{Predictor, room};
use crate::{
    cost::BLOCK,
    cpu::{Row, Rows},
    error::{Error, Result},
};

/// Bytes of a block of rows that are written out.
const BLOCK_BYTES: usize = 1 << 18;

/// The most rows of a block.
const MOST_ROWS: usize = 4096;

/// Rows that are written out block by block.
pub(super) trait BlockSource<T>: Sync {
    /// Returns the number of rows and of columns.
    fn shape(&self) -> [usize; 2];

    /// Returns the distances between rows and between columns of a block of so many rows; `by_ranks`: the trees read ranks.
    fn strides(&self, rows: usize, by_ranks: bool) -> [usize; 2];

    /// Returns a buffer of so many values, as [`write`](Self::write) wants it.
    fn buffer(&self, length: usize) -> Vec<T>;

    /// Writes some rows into a buffer.
    fn write(&self, rows: Range<usize>, strides: [usize; 2], buffer: &mut [T]);

    /// Makes a buffer, into which these rows were written, one for the next rows.
    fn clear(&self, _rows: Range<usize>, _strides: [usize; 2], _buffer: &mut [T]) {}
}

impl Predictor {
    /// Returns what `predict` makes of each row: `width` results.
    pub(super) fn in_blocks<T: Row, R: Clone + Default + Send>(
        &self,
        source: &impl BlockSource<T>,
        width: usize,
        predict: impl Fn(&Rows<'_, T>, &mut [R]) -> Result<()> + Sync,
    ) -> Result<Vec<R>> {
        let [count, columns] = source.shape();
        let features = self.plans.large().features();
        if columns != features {
            return Err(Error::Columns { found: columns, expected: features });
        }
        let mut out = room(count, width)?;
        if out.is_empty() {
            return Ok(out);
        }
        let of_cache = BLOCK_BYTES / (columns * size_of::<T>()).max(1) / BLOCK * BLOCK;
        let block = of_cache.clamp(BLOCK, MOST_ROWS).min(count);
        let strides = source.strides(block, self.plans.of(block).ranks_rows());
        let length = (block - 1) * strides[0] + columns.saturating_sub(1) * strides[1] + 1;
        let buffer = || source.buffer(length);
        let run = |buffer: &mut Vec<T>, (at, out): (usize, &mut [R])| {
            let rows = at * block..count.min((at + 1) * block);
            source.write(rows.clone(), strides, buffer);
            predict(&Rows::strided(buffer, [rows.len(), columns], strides)?, out)?;
            source.clear(rows, strides, buffer);
            Ok::<(), Error>(())
        };
        let of_block = block * width;
        let several = self.plans.large().threads() > 1 && count > block;
        self.on_threads(count, || match several {
            true => out.par_chunks_mut(of_block).enumerate().try_for_each_init(buffer, run),
            false => {
                let mut buffer = buffer();
                out.chunks_mut(of_block).enumerate().try_for_each(|part| run(&mut buffer, part))
            }
        })?;
        Ok(out)
    }
}
