//! A window: a copy of some rows, column by column, in row blocks of 64 rows.
//!
//! A split near a tree's root reads the same column of 64 rows. In a window those values take four cache
//! lines instead of 64, and a vector kernel loads them instead of gathering them. Columns keep their numbers,
//! so nodes need no second encoding.

use super::{
    engine::walk::Span,
    rows::{Row, Rows},
};

/// Number of rows of a row block. Their values of a column lie side by side in a window.
pub(super) use super::ranking::column_block::ROW_BLOCK;

/// A copy of the rows `first` to `first + count`, column by column.
#[derive(Clone, Copy)]
pub(super) struct Window<'a, T = f32> {
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) columns: usize,
    /// The values, `[row block][column][row of the row block]`.
    pub(super) data: &'a [T],
    /// Like `data`, with the highest bit of each rank flipped, for blends that need that. Empty if no blend
    /// does.
    pub(super) flipped: &'a [T],
}

impl<'a, T: Row> Window<'a, T> {
    /// Returns whether the window holds all of these rows.
    pub(super) fn holds(&self, rows: Span) -> bool {
        rows.start >= self.first && rows.end() <= self.first + self.count
    }

    /// Returns whether all of these rows lie in one row block. The window has to hold them.
    pub(super) fn together(&self, rows: Span) -> bool {
        rows.count == 0 || (rows.start - self.first) / ROW_BLOCK == (rows.end() - 1 - self.first) / ROW_BLOCK
    }

    /// Returns the data from the row's row block on, and the row's index in the row block.
    pub(super) fn block(&self, row: usize) -> (&'a [T], usize) {
        let row = row - self.first;
        (&self.data[row / ROW_BLOCK * self.columns * ROW_BLOCK..], row % ROW_BLOCK)
    }

    /// Like [`Self::block`], but from the data with the highest bit of each rank flipped.
    pub(super) fn flipped_block(&self, row: usize) -> (&'a [T], usize) {
        Self { data: self.flipped, ..*self }.block(row)
    }

    /// Returns the rows of the row block that holds `row`, and the index of `row` among them.
    pub(super) fn rows(&self, row: usize) -> (Rows<'a, T>, usize) {
        let (data, index) = self.block(row);
        let rows = Rows::strided(data, [ROW_BLOCK, self.columns], [1, ROW_BLOCK]);
        (rows.expect("a row block's data is whole"), index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_knows_its_rows_and_their_blocks() {
        let data = vec![0f32; 2 * 2 * ROW_BLOCK];
        let window = Window { first: 10, count: 100, columns: 2, data: &data, flipped: &[] };
        let span = |start, count| Span { start, stride: 1, count };
        assert!(window.holds(span(10, 100)) && window.holds(span(109, 1)));
        assert!(!window.holds(span(9, 2)) && !window.holds(span(10, 101)) && !window.holds(span(109, 2)));
        // The first row block ends before row 74.
        assert!(window.together(span(10, ROW_BLOCK)) && window.together(span(74, 36)));
        assert!(!window.together(span(10, ROW_BLOCK + 1)) && !window.together(span(73, 2)));
        assert!(window.together(span(74, 0)));
        let (block, index) = window.block(75);
        assert_eq!((block.len(), index), (2 * ROW_BLOCK, 1));
    }
}
