//! Ranks rows on the CPU: 64 rows of one column at a time.

use super::{Asks, Ranks, Width, search::Search};
use crate::{
    cpu::{Read, Row, Rows, nodes::Compare},
    error::{Error, Result},
    forest::{CategorySet, CompareType, Predicate, Side, reference::side_of_cast},
};

/// Rows that are ranked together.
const BLOCK: usize = 64;

mod sealed {
    /// What a ranker writes is what its columns' width says, so nobody else implements it.
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
}

/// A type ranks are stored in: `u8` or `u16`.
pub trait Rank:
    sealed::Sealed + Copy + Default + Into<u32> + Send + Sync + std::fmt::Debug + 'static
{
    /// Which of them.
    const WIDTH: Width;
    /// The low bits of a rank, which are all it has.
    fn of(rank: u32) -> Self;
}

impl Rank for u8 {
    const WIDTH: Width = Width::U8;
    #[inline(always)]
    fn of(rank: u32) -> Self {
        rank as Self
    }
}

impl Rank for u16 {
    const WIDTH: Width = Width::U16;
    #[inline(always)]
    fn of(rank: u32) -> Self {
        rank as Self
    }
}

/// Ranks rows on the CPU: immutable and `Send + Sync`, no lock and no allocation on the way of a row.
#[derive(Clone, Debug)]
pub struct Ranker {
    width: Width,
    /// Columns of the rows.
    features: usize,
    /// Columns of ranks.
    columns: usize,
    sets: Vec<CategorySet>,
    singles: Vec<Reading<f32>>,
    /// For `f64` rows of a forest that compares there.
    doubles: Option<Vec<Reading<f64>>>,
}

/// What is made of a column of the rows.
#[derive(Clone, Debug)]
struct Reading<C> {
    feature: usize,
    /// Its rank columns, from `first` on.
    first: usize,
    answers: Vec<Answer<C>>,
}

/// How a rank comes about.
#[derive(Clone, Debug)]
enum Answer<C> {
    /// By a search; a missing value has the rank `missing`.
    Search {
        search: Search<C>,
        missing: u32,
    },
    Question {
        predicate: Predicate,
        missing: Side,
    },
}

impl Ranker {
    pub(super) fn new(ranks: &Ranks) -> Self {
        Self {
            width: ranks.width,
            features: ranks.features,
            columns: ranks.columns.len(),
            sets: ranks.sets.clone(),
            singles: readings(ranks),
            doubles: (ranks.compare == CompareType::F64).then(|| readings(ranks)),
        }
    }

    /// Bytes and columns of a ranked row.
    pub fn shape(&self) -> (Width, usize) {
        (self.width, self.columns)
    }

    /// Writes the ranks of rows into `out`, `rows x columns`, one row after the other.
    ///
    /// Rows are `f32` or `f64`, cast as the forest casts them before they are compared.
    ///
    /// # Errors
    /// Rows with another number of columns than the forest has features; `out` of another length, or of another type
    /// than the ranks' [`Width`].
    pub fn rank<T: Row, R: Rank>(&self, rows: &Rows<'_, T>, out: &mut [R]) -> Result<()> {
        if out.len() != rows.len() * self.columns {
            return Err(Error::Rows(format!(
                "room for {} ranks, {} rows of {} rank columns need {}",
                out.len(),
                rows.len(),
                self.columns,
                rows.len() * self.columns
            )));
        }
        self.rank_strided(rows, out, [self.columns, 1])
    }

    /// The same for any place of a rank: row `r`'s of column `c` is at `r * strides[0] + c * strides[1]`. Columns that
    /// lie apart (`strides[0] == 1`) are the quickest to write.
    ///
    /// # Errors
    /// Rows with another number of columns than the forest has features; strides that reach past `out`; `out` of another
    /// type than the ranks' [`Width`].
    pub fn rank_strided<T: Row, R: Rank>(
        &self,
        rows: &Rows<'_, T>,
        out: &mut [R],
        strides: [usize; 2],
    ) -> Result<()> {
        if rows.columns() != self.features {
            return Err(Error::Columns { found: rows.columns(), expected: self.features });
        }
        if R::WIDTH != self.width {
            let (given, width) = (R::WIDTH.name(), self.width.name());
            return Err(Error::Rows(format!(
                "room for ranks of {given}, these are {width}; hand over {width}"
            )));
        }
        if rows.is_empty() || self.columns == 0 {
            return Ok(());
        }
        let reach = |n: usize, stride: usize| (n - 1).checked_mul(stride);
        let last = reach(rows.len(), strides[0])
            .and_then(|r| reach(self.columns, strides[1])?.checked_add(r))
            .filter(|last| *last < out.len());
        if last.is_none() {
            return Err(Error::Rows(format!(
                "ranks of {} rows in {} columns with strides {strides:?} reach past the room for {}",
                rows.len(),
                self.columns,
                out.len()
            )));
        }
        match (&self.doubles, T::doubles(rows)) {
            (Some(readings), Some(rows)) => self.all(readings, rows, out, strides),
            _ => self.all(&self.singles, rows, out, strides),
        }
        Ok(())
    }

    fn all<T: Row + Read<C>, C: Compare, R: Rank>(
        &self,
        readings: &[Reading<C>],
        rows: &Rows<'_, T>,
        out: &mut [R],
        strides: [usize; 2],
    ) {
        let whole = rows.len() / BLOCK * BLOCK;
        for first in (0..whole).step_by(BLOCK) {
            self.some::<T, C, R, BLOCK>(readings, rows, first, out, strides);
        }
        for row in whole..rows.len() {
            self.some::<T, C, R, 1>(readings, rows, row, out, strides);
        }
    }

    /// Ranks `N` rows from `first` on, all of which are there.
    fn some<T: Row + Read<C>, C: Compare, R: Rank, const N: usize>(
        &self,
        readings: &[Reading<C>],
        rows: &Rows<'_, T>,
        first: usize,
        out: &mut [R],
        strides: [usize; 2],
    ) {
        let mut values = [C::NAN; N];
        let mut ranks = [0u32; N];
        for reading in readings {
            rows.read_column(first, reading.feature, &mut values);
            for (c, answer) in reading.answers.iter().enumerate() {
                answer.ranks(&self.sets, &values, &mut ranks);
                let begin = first * strides[0] + (reading.first + c) * strides[1];
                for (r, rank) in ranks.iter().enumerate() {
                    out[begin + r * strides[0]] = R::of(*rank);
                }
            }
        }
    }
}

impl<C: Compare> Answer<C> {
    #[inline(always)]
    fn ranks<const N: usize>(&self, sets: &[CategorySet], values: &[C; N], ranks: &mut [u32; N]) {
        match self {
            Self::Search { search, missing } => {
                search.count(values, ranks);
                for (rank, value) in ranks.iter_mut().zip(values) {
                    // Only NaN differs from itself, and no threshold is at most it.
                    #[allow(clippy::eq_op)]
                    let is_missing = *value != *value;
                    *rank |= if is_missing { *missing } else { 0 };
                }
            }
            Self::Question { predicate, missing } => {
                for (rank, value) in ranks.iter_mut().zip(values) {
                    let side = side_of_cast(sets, *predicate, *missing, (*value).into());
                    *rank = u32::from(side == Side::Right);
                }
            }
        }
    }
}

/// The features that are read, with their columns, which lie side by side.
fn readings<C: Compare>(ranks: &Ranks) -> Vec<Reading<C>> {
    let mut readings: Vec<Reading<C>> = Vec::new();
    for (c, column) in ranks.columns.iter().enumerate() {
        let feature = column.feature as usize;
        if readings.last().is_none_or(|last| last.feature != feature) {
            readings.push(Reading { feature, first: c, answers: Vec::new() });
        }
        let answer = match column.asks {
            Asks::Thresholds { first, count } => {
                let own = &ranks.thresholds[first as usize..][..count as usize];
                let narrowed: Vec<C> = own.iter().map(|t| C::threshold(t.0)).collect();
                let missing = if column.missing == Side::Right { count } else { 0 };
                Answer::Search { search: Search::new(&narrowed), missing }
            }
            Asks::Question { predicate } => Answer::Question { predicate, missing: column.missing },
        };
        if let Some(last) = readings.last_mut() {
            last.answers.push(answer);
        }
    }
    readings
}
