//! Predicts rows that memory does not hold in a form that a predictor reads. If trees are blended, the rows' source
//! ranks them. Otherwise each row block is written into a buffer, which fits a core's cache if a row has at most 1024
//! `f32` columns.

use std::{ops::Range, panic::RefUnwindSafe};

use super::{Predictor, room};
use crate::{
    cost::{PIECE_BYTES, ROW_BLOCK},
    cpu::{Program, Ranker, Row, Rows, aligned, aligned_room, window_length},
    error::{Error, Result},
    parallel,
    prefetch::CACHE_LINE_BYTES,
};

/// The maximum number of bytes of the buffers of row blocks that are written together.
const TOGETHER_BYTES: usize = 1 << 24;

/// The maximum number of rows that are predicted together if their source ranks them.
const RANKED_ROWS: usize = 1 << 20;

/// The maximum number of rows of a row block.
const MOST_ROWS: usize = 4096;

/// Rows that are written out row block by row block, or ranked.
pub(super) trait BlockSource<T>: Sync + RefUnwindSafe {
    /// The maximum number of row blocks that are written together, each into a buffer of its own.
    const TOGETHER: usize;

    /// Writes the ranks of `count` rows from `first` on into row blocks, as [`Ranker::rank_blocks`] does.
    fn rank_blocks(&self, ranker: &Ranker, first: usize, count: usize, out: &mut [u8]);

    /// Returns the number of rows and of columns.
    fn shape(&self) -> [usize; 2];

    /// Returns the strides between rows and between columns in the buffer of a row block of `rows` rows.
    fn strides(&self, rows: usize) -> [usize; 2];

    /// Returns a buffer of `length` values, in the state that [`write`](Self::write) expects.
    fn buffer(&self, length: usize) -> Vec<T>;

    /// Writes some rows into buffers of `length` values, each of which takes `block` rows.
    fn write(&self, rows: Range<usize>, strides: [usize; 2], block: usize, length: usize, buffers: &mut [T]);

    /// Resets a buffer into which these rows were written, so that it can take the next rows.
    fn clear(&self, _rows: Range<usize>, _strides: [usize; 2], _buffer: &mut [T]) {}
}

impl Predictor {
    /// Calls `predict` on each row block, and returns `width` results for each row. The plan of the whole batch runs all
    /// row blocks.
    pub(super) fn predict_in_blocks<T: Row, S: BlockSource<T>, R: Clone + Default + Send>(
        &self,
        source: &S,
        width: usize,
        predict: impl Fn(&Program, &Rows<'_, T>, &mut [R]) -> Result<()> + Sync,
    ) -> Result<Vec<R>> {
        let [count, columns] = source.shape();
        let program = self.plans.of(count);
        let features = program.features();
        if columns != features {
            return Err(Error::Columns { found: columns, expected: features });
        }
        let mut out = room(count, width)?;
        if out.is_empty() {
            return Ok(out);
        }
        if columns > 0
            && program.ranks_in_windows()
            && let Some(ranker) = program.ranker()
        {
            let rank = |first, count, out: &mut [u8]| source.rank_blocks(ranker, first, count, out);
            let most = RANKED_ROWS.min(count);
            self.on_threads(count, &mut || {
                let mut pieces = (0..count).step_by(most).zip(out.chunks_mut(most * width));
                pieces.try_for_each(|(first, out)| {
                    let rows = Rows::ranked_by(&rank, first, [out.len() / width, columns])?;
                    predict(program, &rows, out)
                })
            })?;
            return Ok(out);
        }
        let fits = PIECE_BYTES / (columns * size_of::<T>()).max(1) / ROW_BLOCK * ROW_BLOCK;
        let block = fits.clamp(ROW_BLOCK, MOST_ROWS).min(count);
        let strides = source.strides(block);
        let mut length = (block - 1) * strides[0] + columns.saturating_sub(1) * strides[1] + 1;
        let threads = program.threads() as usize;
        let mut together = 1;
        if strides == [1, ROW_BLOCK] {
            // Trees that read values from a window then read the buffer itself.
            length = length.max(window_length(columns)).next_multiple_of(CACHE_LINE_BYTES / size_of::<T>());
            let most = (TOGETHER_BYTES / (length * size_of::<T>())).min(S::TOGETHER);
            together = most.min(count / (2 * threads * block)).max(1);
        }
        let buffer = || source.buffer(aligned_room::<T>(together * length));
        let rows_together = together * block;
        let run = |buffer: &mut Vec<T>, at: usize, out: &mut [R]| {
            let buffer = &mut aligned(buffer)[..together * length];
            let rows = at * rows_together..count.min((at + 1) * rows_together);
            source.write(rows.clone(), strides, block, length, buffer);
            let firsts = rows.clone().step_by(block);
            for ((first, buffer), out) in
                firsts.zip(buffer.chunks_mut(length)).zip(out.chunks_mut(block * width))
            {
                let rows = first..rows.end.min(first + block);
                predict(program, &Rows::strided(buffer, [rows.len(), columns], strides)?, out)?;
                source.clear(rows, strides, buffer);
            }
            Ok(())
        };
        let results = rows_together * width;
        let several = threads > 1 && count > rows_together;
        self.on_threads(count, &mut || match several {
            true => parallel::try_each_chunk_with(&mut out, results, &buffer, &run),
            false => {
                let mut buffer = buffer();
                out.chunks_mut(results).enumerate().try_for_each(|(at, out)| run(&mut buffer, at, out))
            }
        })?;
        Ok(out)
    }
}
