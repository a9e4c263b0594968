//! Rows and thresholds as ranks: small integers that decide every split as the values did.
//!
//! A feature whose nodes ask `x < t_0`, …, `x < t_{m-1}`, the thresholds ascending and distinct, tells values apart
//! only by how many thresholds are at most `x`: its *rank*, `0 ..= m`. `x < t_k` holds exactly where `rank(x) < k + 1`.
//! So a row becomes a few bytes, a threshold one byte, and a forest on ranks is itself a [`Forest`], every split of
//! which is `rank < small integer`: layouts, plans and the reference interpreter take it as it is.
//!
//! - A rank [`Column`] is a pair of a feature and the side of its missing values. A missing value takes rank 0 where it
//!   goes left and rank `m` where it goes right, so a node stays one compare. A feature whose nodes send missing values
//!   both ways has two columns, each with the thresholds of its own nodes.
//! - A column holds as many thresholds as its [`Width`] counts. One with more becomes several, each of a slice: the
//!   rank in a slice is how many of the slice's thresholds are at most `x`.
//! - What is no threshold ([`Predicate::InSet`], `Equal`, `LessZeroAside`) is answered when a row is ranked, into a column
//!   that is 1 where the row goes right and 0 where it goes left.
//!
//! [`Ranks`] is the plain data; [`Ranker`](crate::cpu::Ranker) ranks rows with it on the CPU. What comes in here: a verified forest.
//! What stays out: rows, schedules, layouts, devices.

mod columns;
mod rewrite;
mod split;
mod text;

use fangorn_ir::key;

use crate::forest::{
    CategorySet, CompareType, Forest, Predicate, Real, Side, VerifyError, least_f32_not_below,
};

/// The type a rank is stored in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// One byte: at most 255 thresholds a column.
    U8,
    /// Two bytes: at most 65 535 thresholds a column.
    U16,
}

impl Width {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::U8, Self::U16];

    /// The largest rank, which is how many thresholds a column holds at most.
    pub fn largest(self) -> u32 {
        match self {
            Self::U8 => 255,
            Self::U16 => 65_535,
        }
    }

    /// Bytes of a rank.
    pub fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
        }
    }

    /// The name in text forms.
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
        }
    }
}

/// Which [`Width`] to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Choice {
    /// `u8`, with as many columns as that needs.
    U8,
    /// `u16`.
    U16,
    /// The one that makes a row of fewer bytes, `u8` where both make as many: `u16` pays where a feature has, on average
    /// over the columns, more than two slices.
    #[default]
    Auto,
}

impl Choice {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::U8, Self::U16, Self::Auto];

    /// The name in a schedule's text.
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::Auto => "auto",
        }
    }
}

/// What a [`Column`] says of its feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// The rank among thresholds `first .. first + count` of [`Ranks::thresholds`]. A missing value has rank 0 where it
    /// goes left and `count` where it goes right.
    Thresholds {
        /// Index of the least.
        first: u32,
        /// How many, at most [`Width::largest`]. 0 makes a column of zeros.
        count: u32,
    },
    /// 1 where the row goes right, a missing value included, and 0 where it goes left.
    Question {
        /// What is asked. Its set is one of [`Ranks::sets`].
        predicate: Predicate,
    },
}

/// A column of a ranked row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// The column of the forest's rows that is read.
    pub feature: u32,
    /// Where its missing values go.
    pub missing: Side,
    /// What is said of it.
    pub asks: ColumnKind,
}

/// A forest that can't be put on ranks, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RanksError {
    /// A forest that breaks a rule of the HIR.
    #[error(transparent)]
    Forest(#[from] VerifyError),
    /// More columns than a node can name.
    #[error(
        "ranks({}): {columns} columns, at most 2^24 - 1 can be addressed; use ranks(u16) or leave ranks off", 
        width.name()
    )]
    Columns {
        /// Columns that it takes.
        columns: usize,
        /// The width.
        width: Width,
    },
    /// More thresholds than can be counted in 32 bits.
    #[error("ranks: {thresholds} thresholds, at most 2^32 - 1 can be addressed; leave ranks off")]
    Thresholds {
        /// Distinct thresholds of all columns.
        thresholds: usize,
    },
}

/// A forest on ranks, and what makes a row one of ranks.
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
    /// Columns of the rows that are ranked.
    features: usize,
    /// The type those are compared in.
    compare: CompareType,
}

impl Ranks {
    /// Columns that a row of these ranks would have: of thresholds, and of questions.
    ///
    /// # Errors
    /// As [`Ranks::new`].
    pub fn columns_of(forest: &Forest, width: Width) -> Result<(usize, usize), RanksError> {
        forest.verify()?;
        let asked = columns::ForestQuestions::of(forest)?;
        let all = asked.bytes(width) / width.bytes();
        Ok((all - asked.questions(), asked.questions()))
    }

    /// Puts a forest on ranks: nodes keep their numbers, ids and slots.
    ///
    /// # Errors
    /// A forest that does not verify, or that takes more columns than a node can name.
    pub fn new(forest: &Forest, choice: Choice) -> Result<Self, RanksError> {
        forest.verify()?;
        let asked = columns::ForestQuestions::of(forest)?;
        let width = match choice {
            Choice::U8 => Width::U8,
            Choice::U16 => Width::U16,
            Choice::Auto if asked.bytes(Width::U16) < asked.bytes(Width::U8) => Width::U16,
            Choice::Auto => Width::U8,
        };
        let places = asked.places(width)?;
        Ok(Self {
            width,
            forest: rewrite::on_ranks(forest, &asked, &places),
            columns: places.columns,
            thresholds: asked.thresholds,
            sets: asked.sets.unique,
            features: forest.features.len(),
            compare: forest.compare,
        })
    }

    /// The type ranks are stored in.
    pub fn width(&self) -> Width {
        self.width
    }

    /// The columns of a ranked row, by feature; those of one feature in the order missing left, missing right,
    /// questions.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Bytes of a ranked row.
    pub fn row_bytes(&self) -> usize {
        self.columns.len() * self.width.bytes()
    }

    /// The thresholds of all columns, ascending within each: what rows are compared with in the forest's own compare
    /// type. NaN, which is last in a column, is the threshold above infinity: no value is at least it.
    pub fn thresholds(&self) -> &[Real] {
        &self.thresholds
    }

    /// The same for `f32` rows.
    ///
    /// Two `f64` thresholds may become one `f32`, so a column's are ascending, but not all distinct. Ranks stay right:
    /// every `f32` decides by each as it did by the `f64` ([`least_f32_not_below`]), and a rank counts thresholds with
    /// their repetitions, so `rank < k + 1` is still exactly where threshold `k` is above `x`.
    pub fn thresholds_f32(&self) -> Vec<f32> {
        self.thresholds.iter().map(|t| least_f32_not_below(t.0)).collect()
    }

    /// The same as integer keys, [`key`]` + d`, where `d` is 1 if the column's missing values go left and otherwise 0;
    /// the threshold above infinity is `u32::MAX`.
    ///
    /// With `k = key(x).wrapping_add(d)` the rank of any `f32`, a missing one included, is how many of a column's keys are
    /// at most `k`: a missing value's key is `u32::MAX`, which wraps to 0 and is below all, or stays and is above all.
    pub fn threshold_keys(&self) -> Vec<u32> {
        let mut keys: Vec<u32> = self.thresholds_f32().into_iter().map(key).collect();
        for column in &self.columns {
            if let (ColumnKind::Thresholds { first, count }, Side::Left) = (column.asks, column.missing) {
                // No overflow: the threshold above infinity is in columns of the other side only.
                keys[first as usize..][..count as usize].iter_mut().for_each(|k| *k += 1);
            }
        }
        keys
    }

    /// The category sets that questions name, each once.
    pub fn sets(&self) -> &[CategorySet] {
        &self.sets
    }

    /// The type in which rows are compared with thresholds.
    pub fn compare(&self) -> CompareType {
        self.compare
    }

    /// Columns of the rows that are ranked.
    pub fn features(&self) -> usize {
        self.features
    }

    /// The forest on ranks: the same trees, but every split is [`Predicate::Less`] with a whole threshold from 0 to
    /// [`Width::largest`], compared in `f32`, and its columns are [`Ranks::columns`].
    ///
    /// A split that sends every row to one side is `rank < 0`, which no rank is; where all go left its children have
    /// changed places. A node's missing side is its column's, but a ranked row has no missing values.
    pub fn forest(&self) -> &Forest {
        &self.forest
    }
}
