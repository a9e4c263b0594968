//! Matrices of which most elements are 0, in compressed sparse rows (CSR).

/// A matrix that holds only elements which are not 0, row by row.
///
/// ```
/// use fangorn::sparse::SparseMatrix;
///
/// let matrix = SparseMatrix::of_dense([2, 3], &[0.0, 5.0, 0.0, 1.0, 0.0, 2.0]).expect("six elements");
/// assert_eq!(matrix.filled(), 3);
/// assert_eq!(matrix.row(1).collect::<Vec<_>>(), [(0, 1.0), (2, 2.0)]);
/// assert_eq!(matrix.to_dense(), [0.0, 5.0, 0.0, 1.0, 0.0, 2.0]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SparseMatrix<T> {
    /// Number of rows and columns.
    shape: (usize, usize),
    /// For each row, where its elements begin; then where the last row's end.
    offsets: Vec<usize>,
    /// The column of each element, ascending in a row.
    columns: Vec<u32>,
    /// The elements.
    values: Vec<T>,
}

impl<T: Copy + Default + PartialEq> SparseMatrix<T> {
    /// Makes a matrix of its arrays: where the elements of each row begin and the last row's end, the column of
    /// each element, and the elements. Returns `None` if a column is not below the number of columns, columns of
    /// a row don't ascend, or the lengths don't fit.
    pub fn new(shape: [usize; 2], offsets: Vec<usize>, columns: Vec<u32>, values: Vec<T>) -> Option<Self> {
        let whole = offsets.len() == shape[0].checked_add(1)?
            && offsets.first() == Some(&0)
            && offsets.last() == Some(&values.len())
            && columns.len() == values.len()
            && offsets.is_sorted();
        let ascends = |row: &[usize]| {
            let columns = &columns[row[0]..row[1]];
            columns.is_sorted_by(|a, b| a < b)
                && columns.last().is_none_or(|last| (*last as usize) < shape[1])
        };
        (whole && offsets.windows(2).all(ascends)).then(|| Self {
            shape: shape.into(),
            offsets,
            columns,
            values,
        })
    }

    /// Makes a matrix of all its elements, row-major. Returns `None` if the shape has another number of elements,
    /// or 2^32 columns or more.
    pub fn of_dense(shape: [usize; 2], elements: &[T]) -> Option<Self> {
        let count = shape[0].checked_mul(shape[1])?;
        if count != elements.len() || u32::try_from(shape[1]).is_err() {
            return None;
        }
        let (mut offsets, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        for row in 0..shape[0] {
            for (column, value) in elements[row * shape[1]..][..shape[1]].iter().enumerate() {
                if *value != T::default() {
                    columns.push(column as u32);
                    values.push(*value);
                }
            }
            offsets.push(values.len());
        }
        Some(Self { shape: shape.into(), offsets, columns, values })
    }

    /// Returns the number of rows and of columns.
    pub fn shape(&self) -> (usize, usize) {
        self.shape
    }

    /// Returns how many elements are held.
    pub fn filled(&self) -> usize {
        self.values.len()
    }

    /// Returns how many elements of some rows are held.
    pub(crate) fn filled_in(&self, rows: std::ops::Range<usize>) -> usize {
        self.offsets[rows.end] - self.offsets[rows.start]
    }

    /// Returns the columns and the elements of a row.
    ///
    /// # Panics
    /// There is no such row.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (usize, T)> + '_ {
        let elements = self.offsets[row]..self.offsets[row + 1];
        let columns = self.columns[elements.clone()].iter().map(|column| *column as usize);
        columns.zip(self.values[elements].iter().copied())
    }

    /// Returns the columns and the elements of a row, as slices.
    pub(crate) fn elements_of(&self, row: usize) -> (&[u32], &[T]) {
        let elements = self.offsets[row]..self.offsets[row + 1];
        (&self.columns[elements.clone()], &self.values[elements])
    }

    /// Returns all elements, row-major.
    pub fn to_dense(&self) -> Vec<T> {
        let mut found = vec![T::default(); self.shape.0 * self.shape.1];
        for row in 0..self.shape.0 {
            self.row(row).for_each(|(column, value)| found[row * self.shape.1 + column] = value);
        }
        found
    }
}
