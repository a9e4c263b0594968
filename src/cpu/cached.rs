//! `cacheRows`: brings rows close for the trees of a loop.
//!
//! It copies the columns that the forest uses into a [`Window`], or ranks them into one, 64 rows at a time
//! and column by column. It never touches the room of unused columns.

use std::cell::RefCell;

use super::{
    cache_line::{BYTES as CACHE_LINE_BYTES, aligned, room},
    engine::blend::groups::FLIPPED_BIT,
    ranking::{
        Ranker,
        column_block::{BLOCK_COLUMNS, ColumnBlock, ROW_BLOCKS_TOGETHER},
        row_block::RowBlock,
    },
    rows::{Row, Rows},
    window::{ROW_BLOCK, SLACK, Window},
};
use crate::{
    cost::{COPY_BYTES, Machine},
    forest::Forest,
};

/// How many column blocks ahead a copy prefetches.
const AHEAD: usize = 4;
/// How many columns ahead a copy of adjacent columns prefetches.
pub(crate) const COLUMNS_AHEAD: usize = 4;

/// The columns that some tree reads.
#[derive(Clone, Debug)]
pub(super) struct UsedColumns {
    /// The used columns, in column blocks of sixteen.
    column_blocks: Vec<ColumnBlock>,
    /// The used columns, in ascending order.
    columns: Vec<u32>,
    /// Columns of a row, used or not.
    all: usize,
    /// Blocks of fewer rows than this are walked row by row.
    few: usize,
}

impl UsedColumns {
    pub(super) fn new(forest: &Forest) -> Self {
        let used = forest.used_columns();
        let mut column_blocks: Vec<ColumnBlock> = Vec::new();
        for column in &used {
            let (first, bit) =
                (column / BLOCK_COLUMNS as u32 * BLOCK_COLUMNS as u32, 1 << (column % BLOCK_COLUMNS as u32));
            match column_blocks.last_mut().filter(|column_block| column_block.first == first) {
                Some(column_block) => column_block.wanted |= bit,
                None => column_blocks.push(ColumnBlock { first, wanted: bit, ahead: None }),
            }
        }
        ColumnBlock::prefetch_ahead(column_blocks.iter_mut(), AHEAD);
        Self {
            column_blocks,
            columns: used,
            all: forest.features.len(),
            few: Machine::here().walk.rows_one_by_one(),
        }
    }

    /// Returns how to bring `rows` rows close; `rows` is `u32::MAX` if only a call knows the number. The
    /// choice is measured: "Caches on the CPU" in `benches/NOTEBOOK.md`.
    pub(super) fn close(&self, rows: u32, vectors: bool) -> RowAccess {
        let few = (rows as usize) < self.few;
        if !few && vectors && !self.columns.is_empty() && (rows == u32::MAX || self.fits(rows as usize)) {
            RowAccess::Copied
        } else if !self.columns.is_empty()
            && (few
                || !vectors
                    && self
                        .column_blocks
                        .len()
                        .saturating_mul(rows as usize)
                        .saturating_mul(CACHE_LINE_BYTES)
                        <= Machine::here().hardware.cache / 2)
        {
            RowAccess::Prefetched
        } else {
            RowAccess::Nothing
        }
    }

    /// Returns whether a thread may keep a buffer for a copy of `rows` rows.
    pub(super) fn fits(&self, rows: usize) -> bool {
        rows.div_ceil(ROW_BLOCK).saturating_mul(self.all).saturating_mul(ROW_BLOCK * size_of::<f32>())
            <= COPY_BYTES
    }

    /// Returns a description of the result of [`UsedColumns::close`] for a program's text. Fewer rows than `few` are
    /// not copied.
    pub(super) fn text(&self, rows: u32, vectors: bool, few: usize) -> String {
        let Self { columns, all, column_blocks, .. } = self;
        let columns = columns.len();
        match self.close(rows, vectors) {
            RowAccess::Copied => {
                let together = ROW_BLOCKS_TOGETHER * ROW_BLOCK;
                format!(
                    "packed copy of {columns} of {all} columns, {together} rows together if column-major; of fewer \
                     than {few} rows, prefetch of {} lines a row",
                    column_blocks.len()
                )
            }
            RowAccess::Prefetched => format!("prefetch of {} lines a row", column_blocks.len()),
            RowAccess::Nothing if columns == 0 => "nothing: no tree reads a column".to_owned(),
            RowAccess::Nothing if !self.fits(rows as usize) => {
                format!("nothing: a copy would take more than {} MiB", COPY_BYTES >> 20)
            }
            RowAccess::Nothing => "nothing: its kernel reads rows as they are".to_owned(),
        }
    }
}

/// How rows are brought close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowAccess {
    /// The run copies the used columns.
    Copied,
    /// The run prefetches the cache lines of the used columns.
    Prefetched,
    /// The run does nothing, because it would cost more than it gives.
    Nothing,
}

/// Lends `f` a copy of `count` rows from `first` on, as a [`Window`]. Rows that lie as in a window are not copied.
pub(super) fn copied<T: Row>(
    rows: &Rows<'_, T>,
    first: usize,
    count: usize,
    used: &UsedColumns,
    f: &mut dyn FnMut(Window<'_>),
) {
    if let Some(window) = T::singles(rows).and_then(|rows| Window::of(rows, first, count)) {
        return f(window);
    }
    thread_local!(static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) });
    // The buffer is taken out, not borrowed: while this thread waits for others, rayon may have it run
    // another prediction.
    let mut scratch = SCRATCH.with(RefCell::take);
    let columns = rows.columns();
    let needed = count.div_ceil(ROW_BLOCK) * columns * ROW_BLOCK + SLACK;
    if scratch.len() < room::<f32>(needed) {
        scratch.resize(room::<f32>(needed), 0.0);
    }
    let data = aligned(&mut scratch);
    if rows.has_adjacent_columns() {
        copy_columns(rows, first, count, used, data);
    } else {
        for (b, block) in data[..needed - SLACK].chunks_exact_mut(columns * ROW_BLOCK).enumerate() {
            let begin = first + b * ROW_BLOCK;
            let count = ROW_BLOCK.min(first + count - begin);
            if let Some(row_block) = T::singles(rows).and_then(|rows| RowBlock::new(rows, begin, count)) {
                let first = used.column_blocks.first().map_or(0, |column_block| column_block.first as usize);
                row_block.columns(&used.column_blocks, &mut block[first * ROW_BLOCK..]);
                continue;
            }
            for column in used.columns.iter().map(|column| *column as usize) {
                rows.read_column(begin, column, &mut block[column * ROW_BLOCK..][..count]);
            }
        }
    }
    f(Window { first, count, columns, data: &data[..needed], flipped: &[] });
    SCRATCH.with(|s| s.replace(scratch));
}

/// Copies the used columns of `count` rows from `first` on into the row blocks of a window, a column of several row
/// blocks at a time. A column's values are adjacent.
fn copy_columns<T: Row>(
    rows: &Rows<'_, T>,
    first: usize,
    count: usize,
    used: &UsedColumns,
    data: &mut [f32],
) {
    let room = rows.columns() * ROW_BLOCK;
    for begin in (0..count).step_by(ROW_BLOCKS_TOGETHER * ROW_BLOCK) {
        let some = (count - begin).min(ROW_BLOCKS_TOGETHER * ROW_BLOCK);
        for (at, column) in used.columns.iter().map(|column| *column as usize).enumerate() {
            if let Some(ahead) = used.columns.get(at + COLUMNS_AHEAD) {
                rows.prefetch_column(first + begin, *ahead as usize, some);
            }
            for row in (begin..begin + some).step_by(ROW_BLOCK) {
                let into = &mut data[row / ROW_BLOCK * room + column * ROW_BLOCK..];
                rows.read_column(first + row, column, &mut into[..ROW_BLOCK.min(count - row)]);
            }
        }
    }
}

/// Lends `f` the ranks of `count` rows from `first` on, as a [`Window`]. With `flipped`, the window also holds
/// the ranks with their highest bit flipped.
pub(super) fn ranked<T: Row>(
    ranker: &Ranker,
    rows: &Rows<'_, T>,
    first: usize,
    count: usize,
    flipped: bool,
    f: &mut dyn FnMut(Window<'_, u8>),
) {
    thread_local!(static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
    let mut scratch = SCRATCH.with(RefCell::take);
    let columns = ranker.shape().1;
    let needed = count.div_ceil(ROW_BLOCK) * columns * ROW_BLOCK + SLACK;
    let flipped = if flipped { needed } else { 0 };
    if scratch.len() < room::<u8>(needed + flipped) {
        scratch.resize(room::<u8>(needed + flipped), 0);
    }
    let (own, rest) = aligned(&mut scratch).split_at_mut(needed);
    let rest = &mut rest[..flipped];
    // Of rows whose columns are adjacent, and of rows that are no matrix, several row blocks are ranked at a time.
    let together = if rows.has_adjacent_columns() { ROW_BLOCKS_TOGETHER * ROW_BLOCK } else { ROW_BLOCK };
    let mut others = rest.chunks_mut(columns * together);
    for (b, ranks) in own[..needed - SLACK].chunks_mut(columns * together).enumerate() {
        let begin = b * together;
        let here = together.min(count - begin);
        let rows = rows.slice(first + begin, here);
        let done = rows.rank_blocks(ranks) || ranker.rank_blocks(&rows, ranks).is_ok();
        debug_assert!(done, "rows and ranks have the forest's columns");
        // Flips the ranks while they are in the cache.
        if let Some(flipped) = others.next() {
            flipped.iter_mut().zip(&*ranks).for_each(|(flipped, rank)| *flipped = rank ^ FLIPPED_BIT);
        }
    }
    f(Window { first, count, columns, data: own, flipped: rest });
    SCRATCH.with(|s| s.replace(scratch));
}

/// Returns whether a thread may keep a buffer for the ranks of `rows` rows.
pub(super) fn ranks_fit(rows: u32, columns: usize) -> bool {
    let rows = (rows as usize).checked_next_multiple_of(ROW_BLOCK);
    rows.is_some_and(|rows| rows.saturating_mul(columns) <= COPY_BYTES)
}

/// Prefetches the used columns of `count` rows from `first` on.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
pub(super) fn prefetched<T: Row>(rows: &Rows<'_, T>, first: usize, count: usize, used: &UsedColumns) {
    if !rows.is_unit() {
        return;
    }
    for row in first..first + count {
        let row = rows.from(row).as_ptr();
        for column_block in &used.column_blocks {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every x86-64 has SSE, which `_mm_prefetch` needs. A prefetch never faults, so any
            // address is allowed.
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(column_block.first as usize).cast());
            }
        }
    }
}
