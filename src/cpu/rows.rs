//! Rows in the caller's memory, with any strides. Nothing is copied.

use crate::{
    cost::ROW_BLOCK,
    error::{Error, Result},
    prefetch::prefetch,
};

mod sealed {
    use super::{Rows, RowsOfType};

    /// The kernels' unchecked loads rely on the results of [`Row`](super::Row), so no other crate may implement it.
    pub trait Sealed: Sized {
        fn of_type<'r, 'a>(rows: &'r Rows<'a, Self>) -> RowsOfType<'r, 'a>;
    }
    macro_rules! sealed {
        ($($t:ty: $name:ident),*) => {$(
            impl Sealed for $t {
                fn of_type<'r, 'a>(rows: &'r Rows<'a, Self>) -> RowsOfType<'r, 'a> {
                    RowsOfType::$name(rows)
                }
            }
        )*};
    }
    sealed!(f32: F32, f64: F64, u8: U8, u16: U16);
}

/// Rows of each type that rows can have. A method that takes them is compiled once, in this crate. A method that takes
/// rows of any type would be compiled again in each crate that calls it.
#[derive(Clone, Copy, Debug)]
pub enum RowsOfType<'r, 'a> {
    F32(&'r Rows<'a, f32>),
    F64(&'r Rows<'a, f64>),
    U8(&'r Rows<'a, u8>),
    U16(&'r Rows<'a, u16>),
}

/// Calls a method with the rows of a [`RowsOfType`], whatever their type is.
macro_rules! with_rows {
    ($of_type:expr, $rows:ident => $call:expr) => {
        match $of_type {
            $crate::cpu::rows::RowsOfType::F32($rows) => $call,
            $crate::cpu::rows::RowsOfType::F64($rows) => $call,
            $crate::cpu::rows::RowsOfType::U8($rows) => $call,
            $crate::cpu::rows::RowsOfType::U16($rows) => $call,
        }
    };
}
pub(super) use with_rows;

/// A type of the values in rows: `f32`, `f64`, `u8` or `u16`.
pub trait Row:
    sealed::Sealed
    + crate::forest::reference::Input
    + Read<f32>
    + Send
    + Sync
    + std::panic::UnwindSafe
    + std::panic::RefUnwindSafe
    + std::fmt::Debug
    + 'static
{
    /// Returns the rows as `f32` rows, or `None` if the values have another type.
    fn singles<'r, 'a>(rows: &'r Rows<'a, Self>) -> Option<&'r Rows<'a, f32>>;
    /// Returns the rows as `f64` rows, or `None` if the values have another type.
    fn doubles<'r, 'a>(rows: &'r Rows<'a, Self>) -> Option<&'r Rows<'a, f64>>;
}

impl Row for f32 {
    fn singles<'r, 'a>(rows: &'r Rows<'a, f32>) -> Option<&'r Rows<'a, f32>> {
        Some(rows)
    }
    fn doubles<'r, 'a>(_: &'r Rows<'a, Self>) -> Option<&'r Rows<'a, f64>> {
        None
    }
}

impl Row for f64 {
    fn singles<'r, 'a>(_: &'r Rows<'a, Self>) -> Option<&'r Rows<'a, f32>> {
        None
    }
    fn doubles<'r, 'a>(rows: &'r Rows<'a, f64>) -> Option<&'r Rows<'a, f64>> {
        Some(rows)
    }
}

macro_rules! whole {
    ($($t:ty)*) => {$(
        impl Row for $t {
            fn singles<'r, 'a>(_: &'r Rows<'a, Self>) -> Option<&'r Rows<'a, f32>> {
                None
            }
            fn doubles<'r, 'a>(_: &'r Rows<'a, Self>) -> Option<&'r Rows<'a, f64>> {
                None
            }
        }
        impl Read<f32> for $t {
            #[inline(always)]
            fn read(self) -> f32 {
                self.into()
            }
        }
        impl Read<f64> for $t {
            #[inline(always)]
            fn read(self) -> f64 {
                self.into()
            }
        }
    )*};
}
whole!(u8 u16);

/// Casts a value of a row to `C`, the type in which it is compared.
pub trait Read<C> {
    /// Returns the value in the type in which it is compared.
    fn read(self) -> C;
    /// Returns the values as they lie in memory, if they need no cast to be compared, otherwise `None`.
    fn as_they_are(_values: &[Self]) -> Option<&[C]>
    where
        Self: Sized,
    {
        None
    }
}

impl Read<f32> for f32 {
    #[inline(always)]
    fn read(self) -> f32 {
        self
    }
    #[inline(always)]
    fn as_they_are(values: &[Self]) -> Option<&[f32]> {
        Some(values)
    }
}

impl Read<f32> for f64 {
    #[inline(always)]
    fn read(self) -> f32 {
        self as f32
    }
}

impl Read<f64> for f64 {
    #[inline(always)]
    fn read(self) -> f64 {
        self
    }
    #[inline(always)]
    fn as_they_are(values: &[Self]) -> Option<&[f64]> {
        Some(values)
    }
}

/// What ranks rows that are no matrix of one type in memory. A call writes the ranks of so many rows, from the first of
/// the two numbers on, into row blocks, as [`Ranker::rank_blocks`](super::Ranker::rank_blocks) does.
pub(crate) type RankRows<'a> = dyn Fn(usize, usize, &mut [u8]) + Sync + std::panic::RefUnwindSafe + 'a;

/// A matrix of rows in the caller's memory.
#[derive(Clone, Copy)]
pub struct Rows<'a, T = f32> {
    data: &'a [T],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
    /// If the rows are no matrix: what ranks them, and the number of the first of them there. `data` is empty then.
    ranked_by: Option<(&'a RankRows<'a>, usize)>,
}

impl<T> std::fmt::Debug for Rows<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Rows");
        shown.field("shape", &[self.rows, self.columns]);
        shown.field("strides", &[self.row_stride, self.column_stride]).finish_non_exhaustive()
    }
}

impl<'a, T: Row> Rows<'a, T> {
    /// Takes rows of `columns` values each, one after the other.
    ///
    /// # Errors
    /// `data` is not a whole number of rows, or `columns` is 0.
    pub fn new(data: &'a [T], columns: usize) -> Result<Self> {
        if columns == 0 || !data.len().is_multiple_of(columns) {
            return Err(Error::Rows(format!(
                "{} values are no whole number of rows of {columns} columns",
                data.len()
            )));
        }
        Self::strided(data, [data.len() / columns, columns], [columns, 1])
    }

    /// Takes `shape[0]` rows of `shape[1]` columns; value `(r, c)` is at `r * strides[0] + c * strides[1]`.
    ///
    /// # Errors
    /// The shape and the strides reach past the data, or there are more than 2^31 - 1 rows.
    pub fn strided(data: &'a [T], shape: [usize; 2], strides: [usize; 2]) -> Result<Self> {
        let [rows, columns] = shape;
        if rows > i32::MAX as usize {
            return Err(Error::Rows(format!("{rows} rows, at most 2^31 - 1 in a call; predict in chunks")));
        }
        let reach = |n: usize, stride: usize| n.checked_sub(1).and_then(|n| n.checked_mul(stride));
        if rows > 0 && columns > 0 {
            let last = reach(rows, strides[0]).and_then(|r| reach(columns, strides[1])?.checked_add(r));
            if last.is_none_or(|last| last >= data.len()) {
                return Err(Error::Rows(format!(
                    "{rows} rows of {columns} columns with strides {strides:?} reach past the {} values given",
                    data.len()
                )));
            }
        }
        let [row_stride, column_stride] = strides;
        Ok(Self { data, rows, columns, row_stride, column_stride, ranked_by: None })
    }

    /// Takes rows of a source from its row `first` on, which are no matrix. Only a program that ranks rows in windows
    /// predicts them, and nothing else reads them. They count as column-major rows, of which several row blocks are
    /// ranked together.
    ///
    /// # Errors
    /// There are more than 2^31 - 1 rows.
    pub(crate) fn ranked_by(rank: &'a RankRows<'a>, first: usize, shape: [usize; 2]) -> Result<Self> {
        let [rows, columns] = shape;
        Ok(Self { columns, ranked_by: Some((rank, first)), ..Self::strided(&[], [rows, 0], [1, 0])? })
    }

    /// Returns whether the rows are a matrix in memory.
    pub(super) fn are_a_matrix(&self) -> bool {
        self.ranked_by.is_none()
    }

    /// Writes the ranks of these rows into row blocks, if they are no matrix. Returns whether they are none.
    pub(super) fn rank_blocks(&self, out: &mut [u8]) -> bool {
        if let Some((rank, first)) = self.ranked_by {
            rank(first, self.rows, out);
        }
        self.ranked_by.is_some()
    }

    /// Returns the rows by their type.
    pub(super) fn of_type(&self) -> RowsOfType<'_, 'a> {
        T::of_type(self)
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the value at a row and a column.
    pub(crate) fn value(&self, row: usize, column: usize) -> T {
        self.data[row * self.row_stride + column * self.column_stride]
    }

    /// Returns a copy of the rows, one after the other.
    pub(crate) fn to_vec(self) -> Vec<T> {
        let of_row = |row| (0..self.columns).map(move |column| self.value(row, column));
        (0..self.rows).flat_map(of_row).collect()
    }

    /// Returns whether the values of a row follow each other.
    pub fn is_unit(&self) -> bool {
        self.column_stride == 1
    }

    /// Returns the distance between rows, in values.
    pub(super) fn row_stride(&self) -> usize {
        self.row_stride
    }

    /// Returns the distance between the values of adjacent columns, in values.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) fn column_stride(&self) -> usize {
        self.column_stride
    }

    /// Returns the data from the first value of row `row` on.
    pub(super) fn from(&self, row: usize) -> &'a [T] {
        &self.data[(row * self.row_stride).min(self.data.len())..]
    }

    /// Returns the rows `first` to `first + count`.
    pub fn slice(&self, first: usize, count: usize) -> Self {
        let first = first.min(self.rows);
        let ranked_by = self.ranked_by.map(|(rank, begin)| (rank, begin + first));
        Self { data: self.from(first), rows: count.min(self.rows - first), ranked_by, ..*self }
    }

    /// Reads a column in the type in which it is compared: as many rows from `first` on as `into` has room for.
    /// `column` is below [`Rows::columns`]. If rows end before `into` does, the rest of `into` stays as it is.
    pub(crate) fn read_column<C: Copy>(&self, first: usize, column: usize, into: &mut [C])
    where
        T: Read<C>,
    {
        let count = self.rows.saturating_sub(first).min(into.len());
        if self.row_stride == 1 {
            let from = &self.data[first + column * self.column_stride..][..count];
            if let Some(from) = T::as_they_are(from) {
                return copy(from, &mut into[..count]);
            }
            from.iter().zip(into).for_each(|(from, value)| *value = from.read());
            return;
        }
        for (row, value) in into[..count].iter_mut().enumerate() {
            *value = self.data[(first + row) * self.row_stride + column * self.column_stride].read();
        }
    }

    /// Returns `N` values of a column from row `first` on without copying them, if they follow each other and
    /// need no cast. Values past the last row are whatever lies there.
    pub(crate) fn column<C, const N: usize>(&self, first: usize, column: usize) -> Option<&'a [C; N]>
    where
        T: Read<C>,
    {
        let from = self.data.get(first + column * self.column_stride..)?.get(..N)?;
        T::as_they_are(from).filter(|_| self.row_stride == 1)?.first_chunk()
    }

    /// Returns all columns from row `first` on without copying them, if a column's values follow each other
    /// and need no cast: the values from the first column on, and the distance between columns. Each column
    /// has at least `N` values; those past the last row are whatever lies there.
    pub(crate) fn columns_of<C, const N: usize>(&self, first: usize) -> Option<(&'a [C], usize)>
    where
        T: Read<C>,
    {
        let last = self.columns.checked_sub(1)? * self.column_stride;
        let from = self.data.get(first..).filter(|from| self.row_stride == 1 && from.len() >= last + N)?;
        Some((T::as_they_are(from)?, self.column_stride))
    }

    /// Returns the data, if the rows are at most one row block, whose columns follow each other. The data has at least
    /// `length` values; those past the last row are whatever lies there.
    pub(super) fn row_block(&self, length: usize) -> Option<&'a [T]> {
        let is_block = self.row_stride == 1
            && self.column_stride == ROW_BLOCK
            && self.rows <= ROW_BLOCK
            && self.columns > 0;
        Some(self.data).filter(|data| is_block && data.len() >= length)
    }

    /// Returns whether the values of a column follow each other.
    pub(super) fn has_adjacent_columns(&self) -> bool {
        self.row_stride == 1
    }

    /// Fetches `count` values of a column from row `first` on if they follow each other.
    pub(super) fn prefetch_column(&self, first: usize, column: usize, count: usize) {
        if self.row_stride == 1 {
            prefetch(self.data, first + column * self.column_stride, count);
        }
    }

    /// Returns the value at a row and a column.
    ///
    /// # Safety
    /// The rows are a matrix, `row < self.len()` and `column < self.columns()`. `UNIT` is set only if [`Rows::is_unit`]
    /// is true.
    #[inline(always)]
    pub unsafe fn get<const UNIT: bool>(&self, row: usize, column: usize) -> T {
        let at = row * self.row_stride + if UNIT { column } else { column * self.column_stride };
        // SAFETY: the caller upholds that row and column are in range. `strided` has checked that the last
        // value of the last row is in the data, and `slice` keeps to that.
        unsafe { *self.data.get_unchecked(at) }
    }
}

/// Copies values into as many. A row block's are copied in pieces, for which the compiler emits a few instructions. A
/// call of `memcpy` for each column takes longer (`fangorn-benches sparse-rows`).
#[inline(always)]
fn copy<C: Copy>(from: &[C], into: &mut [C]) {
    const PIECE: usize = ROW_BLOCK / 4;
    match (from.as_chunks::<PIECE>(), into.as_chunks_mut::<PIECE>()) {
        (([a, b, c, d], []), ([to_a, to_b, to_c, to_d], [])) => {
            (*to_a, *to_b) = (*a, *b);
            (*to_c, *to_d) = (*c, *d);
        }
        _ => into.copy_from_slice(from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cpu::Program,
        forest::{CompareType, Forest, Side},
        plan::{Request, lower},
        schedule::Schedule,
    };

    #[test]
    fn no_shape_reaches_past_the_data() {
        let data = [0f32; 10];
        // The last value of the last row is the tenth.
        let shape = Rows::strided(&data, [3, 2], [4, 1]);
        assert_eq!(shape.map(|rows| (rows.len(), rows.columns(), rows.is_empty())).unwrap(), (3, 2, false));
        for (shape, strides) in [
            ([3, 3], [4, 1]),
            ([3, 2], [4, 2]),
            ([4, 1], [4, 1]),
            ([1, 11], [11, 1]),
            ([11, 1], [1, 1]),
            ([2, 2], [usize::MAX, 2]),
        ] {
            let refused = Rows::strided(&data, shape, strides).expect_err("past the end").to_string();
            assert!(refused.contains("reach past the 10 values"), "{refused}");
        }
        // Where there is no value, there is nothing to reach.
        assert!(Rows::strided(&data, [0, 9], [99, 99]).unwrap().is_empty());
        assert_eq!(Rows::<f32>::strided(&[], [7, 0], [99, 99]).unwrap().len(), 7);
        let most = i32::MAX as usize;
        assert_eq!(Rows::<f32>::strided(&[], [most, 0], [0, 0]).unwrap().len(), most);
        let refused = Rows::<f32>::strided(&[], [most + 1, 0], [0, 0]).expect_err("too many").to_string();
        assert!(refused.contains("2^31 - 1"), "{refused}");
    }

    #[test]
    fn rows_that_are_ranked_are_read_by_nothing_else() {
        let mut forest = Forest::builder(3, 1);
        let mut stump = forest.tree(0);
        stump.split(1, CompareType::F32.less(0.5), Side::Left, 1, 2);
        stump.leaf(1, &[1.0]);
        stump.leaf(2, &[2.0]);
        let forest = forest.build().expect("a stump");
        let numbers = |first: usize, count: usize, out: &mut [u8]| {
            out.iter_mut().zip(first..first + count).for_each(|(out, row)| *out = row as u8);
        };
        let rows = Rows::<f32>::ranked_by(&numbers, 5, [90, 3]).expect("rows");
        assert_eq!((rows.len(), rows.columns(), rows.is_unit()), (90, 3, false));
        assert!(!rows.are_a_matrix() && rows.has_adjacent_columns());
        assert_eq!((rows.column::<f32, 1>(0, 0), rows.columns_of::<f32, 1>(0)), (None, None));
        assert!(rows.row_block(0).is_none() && rows.from(7).is_empty());
        // A slice of a slice begins at the right row.
        let mut out = [0; 4];
        assert!(rows.slice(10, 60).slice(20, 4).rank_blocks(&mut out));
        assert_eq!(out, [35, 36, 37, 38]);
        // A program that reads rows refuses them.
        for text in ["", "ranks(u16)", "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\ncache(b0)"] {
            let schedule = Schedule::parse(text).expect("a schedule");
            let lowered = lower(&forest, &schedule, Request::cpu()).expect("lowered");
            let program = Program::new(&forest, &lowered, 1).expect("a program");
            let refused = [
                program.slots(&rows, &mut [0; 90]),
                program.margins(&rows, program.leaves(), &mut [0.0; 90]),
                program.engines(&rows).map(|_| ()),
            ];
            for refused in refused {
                let message = refused.expect_err("no matrix").to_string();
                assert!(message.contains("give a matrix"), "{text}: {message}");
            }
        }
    }

    #[test]
    fn columns_are_lent_only_where_their_values_follow_each_other() {
        let data: Vec<f32> = (0..15).map(|i| i as f32).collect();
        // Five rows of three columns, column by column.
        let rows = Rows::strided(&data, [5, 3], [1, 5]).unwrap();
        assert!(rows.has_adjacent_columns() && !rows.is_unit());
        assert_eq!(rows.column::<f32, 4>(1, 2), Some(&[11.0, 12.0, 13.0, 14.0]));
        assert_eq!(rows.column::<f32, 4>(2, 2), None);
        assert_eq!(rows.columns_of::<f32, 4>(1), Some((&data[1..], 5)));
        assert_eq!(rows.columns_of::<f32, 4>(2), None);
        let mut column = [-1.0f32; 3];
        rows.read_column(3, 1, &mut column);
        assert_eq!(column, [8.0, 9.0, -1.0]);
        // The same values, row by row.
        let rows = Rows::new(&data, 3).unwrap();
        assert!(rows.is_unit() && !rows.has_adjacent_columns());
        assert_eq!((rows.column::<f32, 1>(0, 0), rows.columns_of::<f32, 1>(0)), (None, None));
        let mut column = [-1.0f32; 4];
        rows.read_column(2, 1, &mut column);
        assert_eq!(column, [7.0, 10.0, 13.0, -1.0]);
        // A row that is repeated has no values that follow each other.
        let rows = Rows::strided(&data, [5, 3], [0, 1]).unwrap();
        assert!(rows.is_unit() && !rows.has_adjacent_columns());
        assert_eq!((rows.column::<f32, 4>(0, 2), rows.columns_of::<f32, 4>(0)), (None, None));
        let mut column = [-1.0f32; 5];
        rows.read_column(0, 1, &mut column);
        assert_eq!(column, [1.0; 5]);
        // Values that are cast are not lent.
        let wide: Vec<f64> = (0..4).map(f64::from).collect();
        let rows = Rows::strided(&wide, [4, 1], [1, 4]).unwrap();
        assert_eq!((rows.column::<f32, 2>(0, 0), rows.columns_of::<f32, 2>(0)), (None, None));
        assert_eq!(rows.column::<f64, 2>(2, 0), Some(&[2.0, 3.0]));
        assert_eq!(Rows::<f32>::strided(&[], [3, 0], [1, 3]).unwrap().columns_of::<f32, 1>(0), None);
    }
}
