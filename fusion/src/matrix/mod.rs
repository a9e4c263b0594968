//! Matrices that runs take and return.
//!
//! | file | subject |
//! |---|---|
//! | `dense` | matrices with all their elements |
//! | `single` | the same of single precision, which may stand in other memory |
//! | `compressed` | matrices in groups of columns with dictionaries |

mod compressed;
mod dense;
mod single;

use std::{collections::HashMap, sync::Arc};

use fangorn::sparse::SparseMatrix;

use crate::{
    FusionError,
    dag::{Dag, Format, Operator, Shape, bytes_of},
};

pub use self::{
    compressed::{ColumnGroup, CompressedMatrix, Encoding},
    dense::DenseMatrix,
    single::SingleMatrix,
};

/// A matrix in one of the formats. A clone shares the elements.
#[derive(Clone, Debug)]
pub enum Matrix {
    /// All elements, row-major.
    Dense(Arc<DenseMatrix>),
    /// All elements, row-major, of single precision. An operator widens those that it reads.
    Single(SingleMatrix),
    /// Compressed sparse rows.
    Csr(Arc<SparseMatrix<f64>>),
    /// Groups of columns with dictionaries.
    Compressed(Arc<CompressedMatrix>),
}

impl Matrix {
    /// Makes a dense matrix of row-major elements. Returns `None` if the shape has another number of elements.
    ///
    /// ```
    /// use fangorn_fusion::Matrix;
    ///
    /// let matrix = Matrix::dense((2, 2), vec![1.0, 2.0, 3.0, 4.0]).expect("four elements");
    /// assert_eq!(matrix.shape(), (2, 2));
    /// ```
    pub fn dense(shape: Shape, values: Vec<f64>) -> Option<Self> {
        DenseMatrix::new(shape, values).map(|dense| Self::Dense(Arc::new(dense)))
    }

    /// Makes a matrix in CSR of all elements, row-major. Returns `None` if the shape has another number of elements, or
    /// 2^32 columns or more.
    pub fn csr(shape: Shape, values: &[f64]) -> Option<Self> {
        SparseMatrix::of_dense([shape.0, shape.1], values).map(|sparse| Self::Csr(Arc::new(sparse)))
    }

    /// Compresses a matrix, as [`CompressedMatrix::new`] does.
    ///
    /// ```
    /// use fangorn_fusion::{DenseMatrix, Matrix};
    ///
    /// let dense = DenseMatrix::new((1000, 1), vec![0.5; 1000]).expect("1000 elements");
    /// let compressed = Matrix::compress(&dense);
    /// assert_eq!(compressed.to_dense(), dense.values());
    /// // 8000 bytes as a dense matrix.
    /// assert!(compressed.bytes() < 100);
    /// ```
    pub fn compress(dense: &DenseMatrix) -> Self {
        Self::Compressed(CompressedMatrix::new(dense).into())
    }

    /// Returns the memory of the elements with their indices or codes, in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Compressed(compressed) => compressed.bytes(),
            Self::Single(single) => 4 * single.values().len() as u64,
            _ => bytes_of(self.shape(), self.format(), self.filled()) as u64,
        }
    }

    /// Returns the number of rows and of columns.
    pub fn shape(&self) -> Shape {
        match self {
            Self::Dense(dense) => dense.shape(),
            Self::Single(single) => single.shape(),
            Self::Csr(sparse) => sparse.shape(),
            Self::Compressed(compressed) => compressed.shape(),
        }
    }

    /// Returns all elements, row-major.
    pub fn to_dense(&self) -> Vec<f64> {
        match self {
            Self::Dense(dense) => dense.values().to_vec(),
            Self::Single(single) => single.values().iter().map(|x| f64::from(*x)).collect(),
            Self::Csr(sparse) => sparse.to_dense(),
            Self::Compressed(compressed) => compressed.to_dense(),
        }
    }

    /// Returns all elements, row-major. Those of a dense matrix that nothing else shares are not copied.
    pub fn into_dense(self) -> Vec<f64> {
        match self {
            Self::Dense(dense) => Arc::unwrap_or_clone(dense).into_values(),
            other => other.to_dense(),
        }
    }

    /// Returns the first element, which is the value of a scalar.
    pub fn scalar(&self) -> f64 {
        match self {
            Self::Dense(dense) => dense.values().first().copied().unwrap_or(0.0),
            Self::Single(single) => single.values().first().copied().unwrap_or(0.0).into(),
            Self::Csr(sparse) => {
                sparse.row(0).find(|(column, _)| *column == 0).map_or(0.0, |(_, value)| value)
            }
            Self::Compressed(compressed) if compressed.groups().is_empty() => 0.0,
            Self::Compressed(compressed) => compressed.element(0, 0),
        }
    }

    /// Returns the share of elements that are not 0; of a matrix in CSR, the share of stored elements.
    pub fn filled(&self) -> f64 {
        let (rows, columns) = self.shape();
        let count = match self {
            Self::Dense(dense) => dense.values().iter().filter(|value| **value != 0.0).count(),
            Self::Single(single) => single.values().iter().filter(|value| **value != 0.0).count(),
            Self::Csr(sparse) => sparse.filled(),
            Self::Compressed(compressed) => compressed.filled(),
        };
        if rows * columns == 0 { 0.0 } else { count as f64 / (rows as f64 * columns as f64) }
    }

    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Dense(_) | Self::Single(_) => Format::Dense,
            Self::Csr(_) => Format::Csr,
            Self::Compressed(compressed) => Format::Compressed { bytes: compressed.bytes() },
        }
    }
}

/// The inputs of a run, by name.
pub type Bindings = HashMap<String, Matrix>;

/// Returns the matrix that is bound to each input of a graph, by the index of the input's node.
///
/// # Errors
/// An input is not bound, or bound to a matrix of another shape or format.
pub(crate) fn bound(dag: &Dag, bindings: &Bindings) -> Result<HashMap<usize, Matrix>, FusionError> {
    bound_but(dag, bindings, |_| false)
}

/// Like [`bound`], but without the inputs that are bound `elsewhere`, by name.
pub(crate) fn bound_but(
    dag: &Dag,
    bindings: &Bindings,
    elsewhere: impl Fn(&str) -> bool,
) -> Result<HashMap<usize, Matrix>, FusionError> {
    let mut found = HashMap::new();
    for (at, node) in dag.nodes().iter().enumerate() {
        let Operator::Input { name, shape, format, .. } = &node.operator else { continue };
        if elsewhere(name) {
            continue;
        }
        let wrong = |problem: String| FusionError::Input { name: name.clone(), problem };
        let matrix =
            bindings.get(name).ok_or_else(|| wrong("nothing is bound to it; bind a matrix".to_owned()))?;
        if matrix.shape() != *shape {
            return Err(wrong(format!(
                "{:?} rows and columns are bound, {shape:?} declared",
                matrix.shape()
            )));
        }
        if !matrix.format().is_kind_of(*format) {
            return Err(wrong(format!("a {} matrix is bound, {format} declared", matrix.format())));
        }
        found.insert(at, matrix.clone());
    }
    Ok(found)
}

/// Returns some rows of a matrix, in its format; those of a compressed matrix and of single precision become dense.
///
/// # Panics
/// The matrix has no such rows.
pub(crate) fn rows_of(matrix: &Matrix, first: usize, count: usize) -> Matrix {
    let columns = matrix.shape().1;
    let elements = first * columns..(first + count) * columns;
    let dense = |values: Vec<f64>| Matrix::dense((count, columns), values).expect("whole rows");
    match matrix {
        _ if (first, count) == (0, matrix.shape().0) => matrix.clone(),
        Matrix::Dense(all) => dense(all.values()[elements].to_vec()),
        Matrix::Single(all) => dense(all.values()[elements].iter().map(|x| f64::from(*x)).collect()),
        Matrix::Csr(all) => {
            let rows = csr_of((count, columns), (first..first + count).map(|row| all.row(row)));
            rows.expect("rows of a valid matrix")
        }
        Matrix::Compressed(all) => {
            let rows = (first..first + count).flat_map(|row| (0..columns).map(move |column| (row, column)));
            dense(rows.map(|(row, column)| all.element(row, column)).collect())
        }
    }
}

/// Makes a matrix in CSR of rows: the columns and the values of the elements that each stores. Returns `None` if they don't
/// fit the shape.
pub(crate) fn csr_of(
    shape: Shape,
    rows: impl Iterator<Item = impl Iterator<Item = (usize, f64)>>,
) -> Option<Matrix> {
    let (mut offsets, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in rows {
        for (column, value) in row {
            columns.push(column as u32);
            values.push(value);
        }
        offsets.push(columns.len());
    }
    Some(Matrix::Csr(SparseMatrix::new([shape.0, shape.1], offsets, columns, values)?.into()))
}
