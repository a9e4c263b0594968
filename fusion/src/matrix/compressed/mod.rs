//! Compressed matrices: groups of columns, each with a dictionary of the distinct tuples that its rows hold. A tuple is
//! what one row holds in the columns of a group.
//!
//! It follows Elgohary et al., "Compressed Linear Algebra for Large-Scale Machine Learning" (VLDB 2016; extended in
//! The VLDB Journal 27, 2018). It depends on dense matrices only; what operators make of groups is for another module.
//!
//! | file | subject |
//! |---|---|
//! | `sizes` | encodings, and the memory of a group in each |
//! | `coding` | codes of the rows of columns, before an encoding is chosen |
//! | `cocoding` | which columns share a group |
//! | `group` | groups, and loops over the codes of their rows |

mod cocoding;
mod coding;
mod group;
mod sizes;

use std::{ops::Range, sync::Arc};

use rayon::prelude::*;

pub use self::{group::ColumnGroup, sizes::Encoding};
use crate::{DenseMatrix, dag::Shape};

/// The number of elements that are decompressed at a time. They stay in a second-level cache.
const TILE: usize = 1 << 14;

/// A matrix in groups of columns, each with a dictionary. It holds the elements of the matrix that it was made of bit
/// for bit.
///
/// ```
/// use fangorn_fusion::{CompressedMatrix, DenseMatrix, Encoding};
///
/// // 1000 rows of two columns: one of three values that take turns, and one that grows once.
/// let values = (0..1000).flat_map(|row| [f64::from(row % 3), f64::from(u8::from(row > 500))]).collect();
/// let dense = DenseMatrix::new((1000, 2), values).expect("2000 elements");
/// let compressed = CompressedMatrix::new(&dense);
/// assert_eq!(compressed.to_dense(), dense.values());
/// assert_eq!(compressed.groups()[1].encoding(), Encoding::Runs);
/// // 16 000 bytes as a dense matrix.
/// assert!(compressed.bytes() < 1200);
/// ```
#[derive(Clone, Debug)]
pub struct CompressedMatrix {
    shape: Shape,
    groups: Vec<ColumnGroup>,
    /// For each column its group, and its index within the group.
    columns: Arc<[(usize, usize)]>,
}

impl CompressedMatrix {
    /// Compresses a matrix. Each group takes the encoding of the fewest bytes, and columns whose rows belong together
    /// share a group if that takes fewer bytes. Columns with too many distinct values are not encoded. A matrix of
    /// 2^32 rows or columns and more has no encoded column.
    ///
    /// While it runs, it takes about a quarter of the memory of the dense matrix, besides the two matrices.
    pub fn new(dense: &DenseMatrix) -> Self {
        let (rows, columns) = dense.shape();
        if dense.values().is_empty() {
            return Self { shape: (rows, columns), groups: Vec::new(), columns: Vec::new().into() };
        }
        let coded = if u32::try_from(rows).is_ok() && u32::try_from(columns).is_ok() {
            cocoding::joined(coding::columns(dense), rows)
        } else {
            Vec::new()
        };
        let mut is_coded = vec![false; columns];
        coded.iter().flat_map(|coded| &coded.columns).for_each(|column| is_coded[*column] = true);
        let rest: Vec<usize> = (0..columns).filter(|column| !is_coded[*column]).collect();
        let mut groups: Vec<ColumnGroup> =
            coded.into_par_iter().map(|coded| ColumnGroup::encoded(dense, coded)).collect();
        if !rest.is_empty() {
            groups.push(ColumnGroup::uncompressed(dense, rest));
        }
        groups.sort_by_key(|group| group.columns().first().copied());
        let mut places = vec![(0, 0); columns];
        for (at, group) in groups.iter().enumerate() {
            group.columns().iter().enumerate().for_each(|(index, column)| places[*column] = (at, index));
        }
        Self { shape: (rows, columns), groups, columns: places.into() }
    }

    /// Returns the number of rows and of columns.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the groups. Each column is in one of them.
    pub fn groups(&self) -> &[ColumnGroup] {
        &self.groups
    }

    /// Returns the memory, in bytes: codes, dictionaries, counts of tuples and indices of columns.
    pub fn bytes(&self) -> u64 {
        self.groups.iter().map(ColumnGroup::bytes).sum()
    }

    /// Returns an element.
    ///
    /// # Panics
    /// There is no such row or column.
    pub fn element(&self, row: usize, column: usize) -> f64 {
        assert!(row < self.shape.0, "row {row} of {}", self.shape.0);
        let (group, index) = self.columns[column];
        let group = &self.groups[group];
        group.tuple(group.code(row))[index]
    }

    /// Returns all elements, row-major.
    pub fn to_dense(&self) -> Vec<f64> {
        let (rows, columns) = self.shape;
        let mut out = vec![0.0; rows * columns];
        let height = (TILE / columns.max(1)).max(1);
        out.par_chunks_mut((height * columns).max(1)).enumerate().for_each(|(tile, out)| {
            let first = tile * height;
            self.decompress(first..first + out.len() / columns, out);
        });
        out
    }

    /// Writes the elements of some rows, row-major.
    pub(crate) fn decompress(&self, rows: Range<usize>, out: &mut [f64]) {
        let width = self.shape.1;
        for group in &self.groups {
            if let [column] = group.columns() {
                // The compiler leaves out the loop over columns.
                group.for_codes(rows.clone(), |row, count, code| {
                    let x = group.dictionary()[code];
                    (row..row + count).for_each(|row| out[row * width + column] = x);
                });
                continue;
            }
            group.for_codes(rows.clone(), |row, count, code| {
                let tuple = group.tuple(code);
                for row in row..row + count {
                    let out = &mut out[row * width..][..width];
                    group.columns().iter().zip(tuple).for_each(|(column, x)| out[*column] = *x);
                }
            });
        }
    }

    /// Returns a matrix with the same codes and other dictionaries, one for each group.
    pub(crate) fn with_dictionaries(&self, dictionaries: Vec<Vec<f64>>) -> Self {
        let groups = self.groups.iter().zip(dictionaries);
        let groups = groups.map(|(group, dictionary)| group.with_dictionary(dictionary)).collect();
        Self { shape: self.shape, groups, columns: self.columns.clone() }
    }

    /// Returns how many elements are not 0.
    pub(crate) fn filled(&self) -> usize {
        let of_group = |group: &ColumnGroup| -> usize {
            let of_tuple = |tuple: usize| group.tuple(tuple).iter().filter(|x| **x != 0.0).count();
            (0..group.tuples()).map(|tuple| of_tuple(tuple) * group.count(tuple) as usize).sum()
        };
        self.groups.iter().map(of_group).sum()
    }
}
