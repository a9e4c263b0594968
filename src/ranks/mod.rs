//! Ranks: small integers that replace values and thresholds and decide every split in the same way.
//!
//! Take a feature whose nodes ask `x < t_0`, …, `x < t_{m-1}`, the thresholds ascending and distinct. Their
//! answers depend only on the number of thresholds that are less than or equal to `x`. This number is the
//! *rank* of `x`, from 0 to `m`, and `x < t_k` holds if and only if `rank(x) < k + 1`. So a row becomes a few
//! bytes and a threshold one byte. A forest on ranks is itself a [`Forest`] whose splits are all
//! `rank < small integer`: layouts, plans and the reference interpreter take it as it is.
//!
//! - A rank [`Column`] is a pair of a feature and the side of its missing values. A missing value has rank 0
//!   if it goes left and rank `m` if it goes right, so a node stays one compare. A feature whose nodes send
//!   missing values both ways has two columns, each with the thresholds of its own nodes.
//! - A column holds at most [`Width::largest`] thresholds. A feature with more has several columns, each for
//!   a slice of the thresholds. The rank in a slice is the number of the slice's thresholds that are at most
//!   `x`.
//! - Other predicates ([`Predicate::InSet`], `Equal`, `LessZeroAside`) are answered while a row is ranked.
//!   The answer is a column that is 1 if the row goes right and 0 if it goes left.
//!
//! [`Ranks`] is the plain data; [`Ranker`](crate::cpu::Ranker) ranks rows with it on the CPU. This module
//! takes a verified forest. It knows nothing of rows, schedules, layouts and devices.

mod columns;
mod rewrite;
mod split;
mod text;

use fangorn_ir::key;

use crate::cost::RankColumns;
use crate::forest::{
    CategorySet, CompareType, Forest, Predicate, Real, Side, VerifyError, least_f32_not_below,
};

/// The type in which a rank is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// One byte: at most 255 thresholds a column.
    U8,
    /// Two bytes: at most 65 535 thresholds a column.
    U16,
}

impl Width {
    /// Both widths.
    pub const ALL: [Self; 2] = [Self::U8, Self::U16];

    /// Returns the largest rank, which is also the largest number of thresholds of a column.
    pub fn largest(self) -> u32 {
        match self {
            Self::U8 => 255,
            Self::U16 => 65_535,
        }
    }

    /// Returns the size of a rank in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
        }
    }

    /// Returns the name of the width in text forms.
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
        }
    }
}

/// How to choose a [`Width`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Choice {
    /// Takes `u8`, with as many columns as needed.
    U8,
    /// Takes `u16`.
    U16,
    /// Takes the width that makes ranked rows shorter, or `u8` if both make them as long. That is `u16` if it
    /// needs fewer than half as many columns as `u8`.
    #[default]
    Auto,
}

impl Choice {
    /// All choices.
    pub const ALL: [Self; 3] = [Self::U8, Self::U16, Self::Auto];

    /// Returns the name of the choice in a schedule's text.
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::Auto => "auto",
        }
    }
}

/// What a [`Column`] holds about its feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// The rank among the thresholds `first .. first + count` of [`Ranks::thresholds`]. A missing value has
    /// rank 0 if it goes left and `count` if it goes right.
    Thresholds {
        /// Index of the least threshold.
        first: u32,
        /// Number of thresholds, at most [`Width::largest`]. 0 makes a column of zeros.
        count: u32,
    },
    /// The answer to a question: 1 if the row goes right and 0 if it goes left, missing values included.
    Question {
        /// The question. Its set is one of [`Ranks::sets`].
        predicate: Predicate,
    },
}

/// A column of a ranked row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// The column of the forest's rows that this column is computed from.
    pub feature: u32,
    /// The side to which missing values of the feature go.
    pub missing: Side,
    /// What the column holds about the feature.
    pub asks: ColumnKind,
}

/// Why a forest can't be put on ranks, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RanksError {
    /// The forest breaks a rule of the HIR.
    #[error(transparent)]
    Forest(#[from] VerifyError),
    /// The ranks need more columns than a node can name.
    #[error(
        "ranks({}): {columns} columns, at most 2^24 - 1 can be addressed; use ranks(u16) or leave ranks off", 
        width.name()
    )]
    Columns {
        /// Number of columns that the ranks need.
        columns: usize,
        /// The width of the ranks.
        width: Width,
    },
    /// The forest has more thresholds than 32 bits can count.
    #[error("ranks: {thresholds} thresholds, at most 2^32 - 1 can be addressed; leave ranks off")]
    Thresholds {
        /// Number of distinct thresholds of all columns.
        thresholds: usize,
    },
}

/// A forest on ranks, with the data that turns a row into ranks.
///
/// ```
/// use fangorn::{cpu::{Ranker, Rows}, forest::reference, import, ranks::{Choice, Ranks}};
///
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
/// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
/// let ranks = Ranks::new(&forest, Choice::U8)?;
///
/// let row = vec![0.5f32; forest.features.len()];
/// let mut ranked = vec![0u8; ranks.columns().len()];
/// Ranker::new(&ranks).rank(&Rows::new(&row, row.len())?, &mut ranked)?;
///
/// let ranked: Vec<f32> = ranked.into_iter().map(f32::from).collect();
/// assert_eq!(reference::leaf_slots(ranks.forest(), &ranked), reference::leaf_slots(&forest, &row));
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ranks {
    width: Width,
    columns: Vec<Column>,
    thresholds: Vec<Real>,
    sets: Vec<CategorySet>,
    forest: Forest,
    /// Number of columns of the rows before they are ranked.
    features: usize,
    /// The type in which values of these rows are compared.
    compare: CompareType,
}

impl Ranks {
    /// Returns how many columns of each kind a row of ranks of this width has. It makes no ranks.
    ///
    /// # Errors
    /// The forest does not verify, or it has more thresholds than 32 bits can count.
    pub fn columns_of(forest: &Forest, width: Width) -> Result<RankColumns, RanksError> {
        forest.verify()?;
        Ok(columns::ForestPredicates::of(forest)?.rank_columns(width))
    }

    /// Puts a forest on ranks. Nodes keep their numbers, leaf ids and leaf slots.
    ///
    /// # Errors
    /// The forest does not verify, has more thresholds than 32 bits can count, or takes more columns than a
    /// node can name.
    pub fn new(forest: &Forest, choice: Choice) -> Result<Self, RanksError> {
        forest.verify()?;
        let predicates = columns::ForestPredicates::of(forest)?;
        let width = match choice {
            Choice::U8 => Width::U8,
            Choice::U16 => Width::U16,
            Choice::Auto if predicates.bytes(Width::U16) < predicates.bytes(Width::U8) => Width::U16,
            Choice::Auto => Width::U8,
        };
        let index = predicates.column_index(width)?;
        Ok(Self {
            width,
            forest: rewrite::on_ranks(forest, &predicates, &index),
            columns: index.columns,
            thresholds: predicates.thresholds,
            sets: predicates.sets.unique,
            features: forest.features.len(),
            compare: forest.compare,
        })
    }

    /// Returns the type in which ranks are stored.
    pub fn width(&self) -> Width {
        self.width
    }

    /// Returns how many columns of each kind a ranked row has.
    pub(crate) fn rank_columns(&self) -> RankColumns {
        let mut found = RankColumns::default();
        for column in &self.columns {
            match column.asks {
                ColumnKind::Thresholds { count, .. } => {
                    found.thresholds += 1;
                    found.levels += RankColumns::levels_of(count);
                }
                ColumnKind::Question { .. } => found.questions += 1,
            }
        }
        found
    }

    /// Returns the columns of a ranked row, in the order of the features. Columns of one feature come in the
    /// order missing left, missing right, questions.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the size of a ranked row in bytes.
    pub fn row_bytes(&self) -> usize {
        self.columns.len() * self.width.bytes()
    }

    /// Returns the thresholds of all columns, ascending within each. Rows are compared with them in the
    /// forest's own compare type. NaN, which is last in a column, stands for a threshold above infinity,
    /// which no value reaches.
    pub fn thresholds(&self) -> &[Real] {
        &self.thresholds
    }

    /// Like [`Ranks::thresholds`], but for `f32` rows.
    ///
    /// Two `f64` thresholds may become one `f32`, so a column's thresholds are ascending but not all
    /// distinct. Ranks stay right: each `f32` value decides by the `f32` threshold as it did by the `f64` one
    /// ([`least_f32_not_below`]). A rank counts repeated thresholds, too, so `rank < k + 1` still holds if
    /// and only if threshold `k` is above `x`.
    pub fn thresholds_f32(&self) -> Vec<f32> {
        self.thresholds.iter().map(|t| least_f32_not_below(t.0)).collect()
    }

    /// Like [`Ranks::thresholds_f32`], but as integer keys, [`key`]` + d`, where `d` is 1 if the column's
    /// missing values go left and otherwise 0. The threshold above infinity is `u32::MAX`.
    ///
    /// Let `k = key(x).wrapping_add(d)`. The rank of any `f32`, a missing one included, is the number of a
    /// column's keys that are at most `k`. The key of a missing value is `u32::MAX`: it wraps to 0 and is
    /// below all keys, or it stays and is above all.
    pub fn threshold_keys(&self) -> Vec<u32> {
        let mut keys: Vec<u32> = self.thresholds_f32().into_iter().map(key).collect();
        for column in &self.columns {
            if let (ColumnKind::Thresholds { first, count }, Side::Left) = (column.asks, column.missing) {
                // This can't overflow: the threshold above infinity is only in columns whose missing values
                // go right.
                keys[first as usize..][..count as usize].iter_mut().for_each(|k| *k += 1);
            }
        }
        keys
    }

    /// Returns the category sets that questions ask about, without repetitions.
    pub fn sets(&self) -> &[CategorySet] {
        &self.sets
    }

    /// Returns the type in which rows are compared with thresholds.
    pub fn compare(&self) -> CompareType {
        self.compare
    }

    /// Returns the number of columns of the rows before they are ranked.
    pub fn features(&self) -> usize {
        self.features
    }

    /// Returns the forest on ranks. It has the same trees, but its columns are [`Ranks::columns`], and every
    /// split is [`Predicate::Less`] with a whole threshold from 0 to [`Width::largest`], compared in `f32`.
    ///
    /// A split that sends every row to one side becomes `rank < 0`, which holds for no rank. If all rows went
    /// left, its children are swapped. A node's missing side is that of its column, but a ranked row has no
    /// missing values.
    pub fn forest(&self) -> &Forest {
        &self.forest
    }
}
