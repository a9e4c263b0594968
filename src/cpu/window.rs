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

/// Values past a row block's last column that a kernel may load: a register from any row of that column, and from the last
/// row the three ranks that a gather of four bytes loads with the wanted one.
pub(super) const SLACK: usize = ROW_BLOCK + 4;

/// Returns the length of a buffer for a row block of `columns` columns that kernels read as a window, if its first value
/// is at stride 1 from the next row's and at stride [`ROW_BLOCK`] from the next column's.
pub(crate) fn window_length(columns: usize) -> usize {
    columns.saturating_mul(ROW_BLOCK).saturating_add(SLACK)
}

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
    /// Returns rows as a window, if they lie as in one: see [`window_length`].
    pub(super) fn of(rows: &Rows<'a, T>, first: usize, count: usize) -> Option<Self> {
        let columns = rows.columns();
        let data = rows.row_block(window_length(columns)).filter(|_| first + count <= rows.len())?;
        Some(Self { first: 0, count: rows.len(), columns, data, flipped: &[] })
    }

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

    /// Rows that lie as in a window are one, whatever follows them; others have to be copied.
    #[test]
    fn rows_may_be_a_window() {
        let data = vec![0f32; window_length(3) + 5];
        for count in [1, 40, ROW_BLOCK] {
            let rows =
                |length: usize, strides| Rows::strided(&data[..length], [count, 3], strides).expect("rows");
            let whole = rows(window_length(3), [1, ROW_BLOCK]);
            let window = Window::of(&whole, 0, count).expect("a window");
            assert_eq!((window.count, window.columns, window.data.len()), (count, 3, window_length(3)));
            assert!(std::ptr::eq(window.data.as_ptr(), data.as_ptr()));
            assert!(Window::of(&whole, 0, count + 1).is_none());
            assert!(Window::of(&rows(window_length(3) - 1, [1, ROW_BLOCK]), 0, count).is_none());
            assert!(Window::of(&rows(window_length(3), [1, ROW_BLOCK + 1]), 0, count).is_none());
            assert!(Window::of(&rows(window_length(3), [3, 1]), 0, count).is_none());
        }
        // Two row blocks are no window, even if their columns overlap.
        assert!(
            Window::of(&Rows::strided(&data, [ROW_BLOCK + 1, 3], [1, ROW_BLOCK]).expect("rows"), 0, 64)
                .is_none()
        );
        // The end of a row block is one, too, if there is room after it.
        let more = vec![0f32; window_length(3) + ROW_BLOCK];
        let end = Rows::strided(&more, [ROW_BLOCK, 3], [1, ROW_BLOCK]).expect("rows").slice(60, 4);
        let window = Window::of(&end, 0, 4).expect("a window");
        assert!(window.count == 4 && std::ptr::eq(window.data.as_ptr(), &more[60]));
        let end = Rows::strided(&data, [ROW_BLOCK, 3], [1, ROW_BLOCK]).expect("rows").slice(60, 4);
        assert!(Window::of(&end, 0, 4).is_none());
    }

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
