//! A window of rows: some of them by column, 64 at a time.
//!
//! What a tree's top asks of 64 rows is then four lines of the cache instead of 64, and a vector kernel loads it instead of
//! gathering it. Columns keep their numbers, so that nodes need no second encoding.

use super::{
    engine::walk::Span,
    rows::{Row, Rows},
};

/// Rows that stand side by side.
pub(super) use super::ranking::column_block::BLOCK;

/// Rows `first` to `first + count` by column.
#[derive(Clone, Copy)]
pub(super) struct Window<'a, T = f32> {
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) columns: usize,
    /// `[block][column][row of the block]`
    pub(super) data: &'a [T],
    /// The same for blends that have their ranks turned, if there are such.
    pub(super) turned: &'a [T],
}

impl<'a, T: Row> Window<'a, T> {
    /// Whether all of these rows are in it.
    pub(super) fn holds(&self, rows: Span) -> bool {
        rows.start >= self.first && rows.end() <= self.first + self.count
    }

    /// Whether all of these rows, which it holds, are in one block.
    pub(super) fn together(&self, rows: Span) -> bool {
        rows.count == 0 || (rows.start - self.first) / BLOCK == (rows.end() - 1 - self.first) / BLOCK
    }

    /// The block that a row is in, and its place there.
    pub(super) fn block(&self, row: usize) -> (&'a [T], usize) {
        let row = row - self.first;
        (&self.data[row / BLOCK * self.columns * BLOCK..], row % BLOCK)
    }

    /// The same block with the highest bit of ranks turned.
    pub(super) fn turned_block(&self, row: usize) -> (&'a [T], usize) {
        Self { data: self.turned, ..*self }.block(row)
    }

    /// The block's rows that a row is one of, and its place there.
    pub(super) fn rows(&self, row: usize) -> (Rows<'a, T>, usize) {
        let (data, place) = self.block(row);
        let rows = Rows::strided(data, [BLOCK, self.columns], [1, BLOCK]);
        (rows.expect("a block's data is whole"), place)
    }
}
