//! Groups of columns, and loops over the codes of their rows.

use std::{ops::Range, sync::Arc};

use super::{
    coding::Coded,
    sizes::{Contents, Encoding},
};
use crate::DenseMatrix;

/// Codes, in as many bytes as the number of tuples takes.
#[derive(Clone, Debug)]
enum Codes {
    Byte(Vec<u8>),
    Word(Vec<u16>),
}

impl Codes {
    fn new(tuples: usize, codes: impl Iterator<Item = u16>) -> Self {
        if tuples <= 256 {
            Self::Byte(codes.map(|code| code as u8).collect())
        } else {
            Self::Word(codes.collect())
        }
    }

    fn get(&self, at: usize) -> usize {
        match self {
            Self::Byte(codes) => usize::from(codes[at]),
            Self::Word(codes) => usize::from(codes[at]),
        }
    }
}

/// The codes of all rows.
#[derive(Clone, Debug)]
enum Rows {
    Dense(Codes),
    /// The row after each run, and its code.
    Runs {
        ends: Vec<u32>,
        codes: Codes,
    },
    /// Rows, ascending, with their codes. All other rows have the code `other`.
    Offsets {
        rows: Vec<u32>,
        codes: Codes,
        other: usize,
    },
    /// The code of a row is its index.
    Uncompressed,
}

/// What matrices with the same codes share.
#[derive(Debug)]
struct Coding {
    columns: Vec<usize>,
    /// The number of rows.
    count: usize,
    rows: Rows,
    /// For each tuple the number of rows that hold it. Empty if the group is uncompressed: each is held by one row.
    counts: Vec<u32>,
}

/// Columns of a compressed matrix that share their codes: each row has the code of a tuple in the group's dictionary. In
/// an uncompressed group each row has a tuple of its own.
#[derive(Clone, Debug)]
pub struct ColumnGroup {
    coding: Arc<Coding>,
    /// Tuples x columns, row-major.
    dictionary: Vec<f64>,
}

impl ColumnGroup {
    pub(super) fn encoded(dense: &DenseMatrix, coded: Coded) -> Self {
        let tuples = coded.firsts.len();
        let dictionary = tuples_of(dense, coded.firsts.iter().map(|row| *row as usize), &coded.columns);
        let codes = || coded.codes.iter().copied();
        let rows = match coded.contents().least().0 {
            Encoding::Dense => Rows::Dense(Codes::new(tuples, codes())),
            Encoding::Runs => {
                let ends: Vec<usize> = (1..=coded.codes.len())
                    .filter(|end| coded.codes.get(*end) != Some(&coded.codes[end - 1]))
                    .collect();
                let codes = Codes::new(tuples, ends.iter().map(|end| coded.codes[end - 1]));
                Rows::Runs { ends: ends.into_iter().map(|end| end as u32).collect(), codes }
            }
            Encoding::Offsets => {
                let other = (0..tuples).max_by_key(|tuple| coded.counts[*tuple]).unwrap_or(0);
                let listed = || codes().enumerate().filter(|(_, code)| usize::from(*code) != other);
                let codes = Codes::new(tuples, listed().map(|(_, code)| code));
                Rows::Offsets { rows: listed().map(|(row, _)| row as u32).collect(), codes, other }
            }
            // Columns are coded and joined only if that takes fewer bytes.
            Encoding::Uncompressed => return Self::uncompressed(dense, coded.columns),
        };
        let Coded { columns, counts, .. } = coded;
        Self { coding: Arc::new(Coding { columns, count: dense.shape().0, rows, counts }), dictionary }
    }

    pub(super) fn uncompressed(dense: &DenseMatrix, columns: Vec<usize>) -> Self {
        let count = dense.shape().0;
        let dictionary = tuples_of(dense, 0..count, &columns);
        let coding = Coding { columns, count, rows: Rows::Uncompressed, counts: Vec::new() };
        Self { coding: Arc::new(coding), dictionary }
    }

    /// Returns the columns, ascending.
    pub fn columns(&self) -> &[usize] {
        &self.coding.columns
    }

    /// Returns how codes are stored.
    pub fn encoding(&self) -> Encoding {
        match &self.coding.rows {
            Rows::Dense(_) => Encoding::Dense,
            Rows::Runs { .. } => Encoding::Runs,
            Rows::Offsets { .. } => Encoding::Offsets,
            Rows::Uncompressed => Encoding::Uncompressed,
        }
    }

    /// Returns the number of tuples: distinct ones, or the number of rows if the group is uncompressed.
    pub fn tuples(&self) -> usize {
        self.dictionary.len() / self.columns().len()
    }

    /// Returns the elements of the tuples, tuples x columns, row-major.
    pub fn dictionary(&self) -> &[f64] {
        &self.dictionary
    }

    /// Returns the memory, in bytes: codes, dictionary, counts of tuples and indices of columns.
    pub fn bytes(&self) -> u64 {
        let contents = Contents {
            rows: self.coding.count,
            columns: self.columns().len(),
            tuples: self.tuples(),
            runs: if let Rows::Runs { ends, .. } = &self.coding.rows { ends.len() } else { 0 },
            most: match &self.coding.rows {
                Rows::Offsets { rows, .. } => self.coding.count - rows.len(),
                _ => 0,
            },
        };
        contents.bytes(self.encoding())
    }

    pub(crate) fn tuple(&self, code: usize) -> &[f64] {
        let width = self.columns().len();
        &self.dictionary[code * width..][..width]
    }

    /// Returns how many rows hold a tuple.
    pub(crate) fn count(&self, tuple: usize) -> u32 {
        self.coding.counts.get(tuple).copied().unwrap_or(1)
    }

    pub(super) fn with_dictionary(&self, dictionary: Vec<f64>) -> Self {
        Self { coding: self.coding.clone(), dictionary }
    }

    /// Returns the code of a row.
    pub(super) fn code(&self, row: usize) -> usize {
        match &self.coding.rows {
            Rows::Dense(codes) => codes.get(row),
            Rows::Runs { ends, codes } => codes.get(ends.partition_point(|end| *end as usize <= row)),
            Rows::Offsets { rows, codes, other } => {
                rows.binary_search(&(row as u32)).map_or(*other, |at| codes.get(at))
            }
            Rows::Uncompressed => row,
        }
    }

    /// Calls `take` for stretches of rows of a range that have the same code: with the first row, counted from the start
    /// of the range, the number of rows, and the code. It goes through all rows in order. If rows have codes of their
    /// own, each is a stretch.
    #[inline(always)]
    pub(crate) fn for_codes(&self, range: Range<usize>, mut take: impl FnMut(usize, usize, usize)) {
        let first = range.start;
        match &self.coding.rows {
            // A loop for each width of codes, so that it does not ask for each row.
            Rows::Dense(Codes::Byte(codes)) => {
                codes[range].iter().enumerate().for_each(|(row, code)| take(row, 1, usize::from(*code)));
            }
            Rows::Dense(Codes::Word(codes)) => {
                codes[range].iter().enumerate().for_each(|(row, code)| take(row, 1, usize::from(*code)));
            }
            Rows::Runs { ends, codes } => {
                let mut run = ends.partition_point(|end| *end as usize <= first);
                let mut row = first;
                while row < range.end {
                    let end = range.end.min(ends[run] as usize);
                    take(row - first, end - row, codes.get(run));
                    (run, row) = (run + 1, end);
                }
            }
            Rows::Offsets { rows, codes, other } => {
                let mut next = rows.partition_point(|row| (*row as usize) < first);
                let mut row = first;
                loop {
                    let listed = rows.get(next).map_or(range.end, |row| range.end.min(*row as usize));
                    if listed > row {
                        take(row - first, listed - row, *other);
                    }
                    if listed == range.end {
                        break;
                    }
                    take(listed - first, 1, codes.get(next));
                    (next, row) = (next + 1, listed + 1);
                }
            }
            Rows::Uncompressed => range.for_each(|row| take(row - first, 1, row)),
        }
    }
}

/// Returns what rows hold in some columns, row by row.
fn tuples_of(dense: &DenseMatrix, rows: impl Iterator<Item = usize>, columns: &[usize]) -> Vec<f64> {
    let mut found = Vec::new();
    rows.for_each(|row| found.extend(columns.iter().map(|column| dense.row(row)[*column])));
    found
}
