//! Rows as they were given, and what is computed from them.

use fangorn::{
    Error, Predictor, Result,
    contributions::RowExplainer,
    cpu::Rows,
    sparse::SparseMatrix,
    table::{Column, ColumnValues},
};

use crate::arrays::View;

/// Rows in the caller's memory.
pub enum Source<'a> {
    /// A matrix of 32-bit floats, and its view.
    Singles(Rows<'a, f32>, View<'a>),
    /// A matrix of doubles, and its view.
    Doubles(Rows<'a, f64>, View<'a>),
    /// Columns, each of its own type.
    Columns(Vec<Column<'a>>),
    /// Sparse rows, and the value of the elements that they do not store.
    Sparse(SparseMatrix<f64>, f64),
}

/// The maximum number of rows that are copied at a time, for code that does not read columns or sparse rows.
const ROWS_AT_A_TIME: usize = 4096;
/// The maximum number of values that are copied at a time.
const VALUES_AT_A_TIME: usize = 1 << 20;

impl<'a> Source<'a> {
    /// Takes a view of a matrix. Rows keep their order in memory; [`View::reversed`] tells whether the last one comes
    /// first.
    pub fn of_view(view: View<'a>) -> Result<Self> {
        if view.reversed[1] {
            let [rows, columns] = view.shape;
            let column = |c: usize| {
                Column::strided(view.values, rows, (columns - 1 - c) * view.strides[1], view.strides[0])
            };
            return (0..columns).map(column).collect::<Result<_>>().map(Self::Columns);
        }
        match view.values {
            ColumnValues::F32(values) => {
                Ok(Self::Singles(Rows::strided(values, view.shape, view.strides)?, view))
            }
            ColumnValues::F64(values) => {
                Ok(Self::Doubles(Rows::strided(values, view.shape, view.strides)?, view))
            }
            values => Column::of_matrix(values, view.shape, view.strides).map(Self::Columns),
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Singles(rows, _) => rows.len(),
            Self::Doubles(rows, _) => rows.len(),
            Self::Columns(columns) => columns.first().map_or(0, Column::len),
            Self::Sparse(rows, _) => rows.shape().0,
        }
    }

    /// Returns the number of columns.
    fn columns(&self) -> usize {
        match self {
            Self::Singles(rows, _) => rows.columns(),
            Self::Doubles(rows, _) => rows.columns(),
            Self::Columns(columns) => columns.len(),
            Self::Sparse(rows, _) => rows.shape().1,
        }
    }

    /// Returns the predicted values of the rows.
    pub fn values(&self, predictor: &Predictor) -> Result<Vec<f32>> {
        match self {
            Self::Singles(rows, _) => predictor.values(rows),
            Self::Doubles(rows, _) => predictor.values(rows),
            Self::Columns(columns) => predictor.values_of_columns(columns),
            Self::Sparse(rows, absent) => predictor.values_of_sparse(rows, *absent),
        }
    }

    /// Returns the predicted margins of the rows.
    pub fn margins(&self, predictor: &Predictor) -> Result<Vec<f32>> {
        match self {
            Self::Singles(rows, _) => predictor.margins(rows),
            Self::Doubles(rows, _) => predictor.margins(rows),
            Self::Columns(columns) => predictor.margins_of_columns(columns),
            Self::Sparse(rows, absent) => predictor.margins_of_sparse(rows, *absent),
        }
    }

    /// Returns the leaf slot of each row in each tree.
    pub fn slots(&self, predictor: &Predictor) -> Result<Vec<u32>> {
        match self {
            Self::Singles(rows, _) => predictor.leaf_slots(rows),
            Self::Doubles(rows, _) => predictor.leaf_slots(rows),
            Self::Columns(columns) => predictor.leaf_slots_of_columns(columns),
            Self::Sparse(..) => self.in_pieces(|rows| predictor.leaf_slots(rows)),
        }
    }

    /// Returns the contributions to each row's margins, or the interactions.
    pub fn explained(&self, explainer: &RowExplainer, interactions: bool) -> Result<Vec<f32>> {
        match (self, interactions) {
            (Self::Singles(rows, _), false) => explainer.contributions(rows),
            (Self::Doubles(rows, _), false) => explainer.contributions(rows),
            (Self::Singles(rows, _), true) => explainer.interactions(rows),
            (Self::Doubles(rows, _), true) => explainer.interactions(rows),
            (_, false) => self.in_pieces(|rows| explainer.contributions(rows)),
            (_, true) => self.in_pieces(|rows| explainer.interactions(rows)),
        }
    }

    /// Copies rows as doubles, piece by piece. Calls `each` with the rows of a piece, and returns the results of all
    /// pieces.
    fn in_pieces<R>(&self, mut each: impl FnMut(&Rows<'_, f64>) -> Result<Vec<R>>) -> Result<Vec<R>> {
        let columns = self.columns();
        let mut found = Vec::new();
        self.pieces(|count, values| {
            found.extend(each(&Rows::strided(values, [count, columns], [1, count.max(1)])?)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Calls `each` with the number of rows of each piece, and their values as doubles, column after column. Without rows
    /// there is one empty piece.
    fn pieces(&self, mut each: impl FnMut(usize, &[f64]) -> Result<()>) -> Result<()> {
        let (rows, columns) = (self.len(), self.columns());
        let piece = (VALUES_AT_A_TIME / columns.max(1)).clamp(1, ROWS_AT_A_TIME).min(rows.max(1));
        let mut buffer = vec![0.0; piece * columns];
        for first in (0..rows.max(1)).step_by(piece) {
            let count = piece.min(rows - first);
            let values = &mut buffer[..count * columns];
            self.write(first, count, values)?;
            each(count, values)?;
        }
        Ok(())
    }

    /// Copies rows into a buffer, column after column.
    fn write(&self, first: usize, count: usize, into: &mut [f64]) -> Result<()> {
        let write = |columns: &[Column<'_>], into: &mut [f64]| {
            let buffers = into.chunks_mut(count.max(1));
            columns.iter().zip(buffers).for_each(|(column, into)| column.read(first, into));
        };
        match self {
            Self::Columns(columns) => write(columns, into),
            Self::Singles(_, view) | Self::Doubles(_, view) => {
                write(&Column::of_matrix(view.values, view.shape, view.strides)?, into);
            }
            Self::Sparse(rows, absent) => {
                into.fill(*absent);
                for row in 0..count {
                    rows.row(first + row).for_each(|(column, value)| into[column * count + row] = value);
                }
            }
        }
        Ok(())
    }

    /// Returns all rows as doubles, row after row.
    pub fn to_rows(&self) -> Result<Vec<f64>> {
        let columns = self.columns();
        let mut found = Vec::with_capacity(self.len() * columns);
        self.pieces(|count, values| {
            found.extend((0..count).flat_map(|row| values.iter().skip(row).step_by(count)));
            Ok(())
        })?;
        Ok(found)
    }

    /// Checks the number of columns.
    pub fn check(&self, expected: usize) -> Result<()> {
        match self.columns() {
            found if found == expected => Ok(()),
            found => Err(Error::Columns { found, expected }),
        }
    }
}
