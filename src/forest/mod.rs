//! HIR: what a trained model *means*, without any decision on how to walk it or store it.
//!
//! A [`Forest`] is plain data. [`Forest::verify`] returns the first rule that a forest breaks, and
//! [`Forest::to_text`] writes its stable text form. The [`mod@reference`] interpreter defines the correct
//! result for every later stage. What comes in here: facts about the model. What stays out: schedules,
//! layouts, devices.

mod accumulator;
mod build;
mod compare;
mod covers;
mod diff;
mod fold;
mod gains;
mod model_hash;
mod parse;
mod profile;
mod prologue;
mod raw;
mod stats;
mod text;
mod verify;

pub(crate) mod model;
pub mod passes;
pub mod reference;
pub mod tiling;

pub use accumulator::Accumulator;
pub use build::{ForestBuilder, TreeBuilder};
pub use compare::{CompareType, ZERO_ZONE, greatest_f32_not_above, least_f32_not_below};
pub use covers::Covers;
pub use diff::{FieldDiff, ForestDiff, TreeDiff};
pub use fangorn_ir::Transform;
pub use gains::Gains;
pub(crate) use model::Forest;
pub use model_hash::ModelHash;
pub use parse::ForestTextError;
pub use profile::{Profile, ProfileError};
pub use prologue::{Operation, Prologue, PrologueError};
pub(crate) use raw::CategoryKind;
pub(crate) use raw::hash as category_hash;
pub use raw::{Codes, Coding, UnseenCategory};
pub use stats::{FeatureStats, ForestStats};
pub use verify::VerifyError;

/// A real number that compares and hashes by its bits, so that IRs holding it are `Eq` and `Hash`.
#[derive(Clone, Copy, Default)]
pub struct Real(pub f64);

impl PartialEq for Real {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}
impl Eq for Real {}
impl std::hash::Hash for Real {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}
impl std::fmt::Debug for Real {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}
impl From<f64> for Real {
    fn from(value: f64) -> Self {
        Self(value)
    }
}
impl From<f32> for Real {
    fn from(value: f32) -> Self {
        Self(f64::from(value))
    }
}

/// A side of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The left child.
    Left,
    /// The right child.
    Right,
}

/// The condition that a split tests on its column's value. Values are compared in the forest's
/// [`CompareType`].
///
/// An importer rewrites other conditions into these predicates. `x <= t` is [`CompareType::at_most`]. `x > t`
/// and `x >= t` are `x <= t` and `x < t` with the children swapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Predicate {
    /// `x < threshold` goes left.
    Less {
        /// The threshold: never NaN, may be infinite.
        threshold: Real,
    },
    /// `x < threshold` goes left, but a value in the [`ZERO_ZONE`] goes to the side opposite to the one that
    /// the comparison chooses. It serves models in which zeros are missing values with a side of their own
    /// (LightGBM's `zero_as_missing`).
    LessZeroAside {
        /// The threshold: never NaN, may be infinite, never inside the zone.
        threshold: Real,
    },
    /// `x == value` goes left; -0 and +0 are equal.
    Equal {
        /// The value to compare with: never NaN, may be infinite.
        value: Real,
    },
    /// The set's [`CategoryRule`] reads `x` as a category, and the split looks the category up in a set of
    /// [`Forest::sets`].
    InSet {
        /// Index into [`Forest::sets`].
        set: u32,
        /// The side of the set's members. Every other value that is not missing goes to the other side.
        inside: Side,
    },
    /// Every value that is not missing goes left.
    Always,
}

/// A node of a [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// An inner node.
    Split {
        /// Column of the row that the split reads.
        feature: u32,
        /// The condition that the split tests on the value.
        predicate: Predicate,
        /// The side of a missing value (NaN), whatever the predicate is.
        missing: Side,
        /// Index of the left child in [`Tree::nodes`].
        left: u32,
        /// Index of the right child in [`Tree::nodes`].
        right: u32,
    },
    /// A leaf.
    Leaf {
        /// The leaf's slot: its number, dense over the whole forest. It selects the leaf's values in
        /// [`Forest::leaf_values`].
        slot: u32,
    },
}

/// The outputs to which the trees add their leaf values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Targets {
    /// A leaf holds one value. Tree `t` adds it to output `targets[t]`.
    One(Vec<u32>),
    /// A leaf holds [`Forest::outputs`] values, one for each output.
    All,
}

/// One decision tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    /// The nodes. The root is node 0; children may stand anywhere.
    pub nodes: Vec<Node>,
    /// The producer's number of each node, parallel to `nodes`. The number of a leaf is its leaf id, which
    /// the producer's `pred_leaf` reports.
    pub ids: Vec<u32>,
}

/// How a value that is not missing is read as a category. A value that is no category is in no set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CategoryRule {
    /// A value below 0 is no category. Any other value is truncated (XGBoost, treelite).
    #[default]
    NotNegative,
    /// Every value is first truncated toward zero, so -0.5 is category 0 (LightGBM).
    Truncated,
    /// Only whole numbers are categories (ONNX).
    Whole,
}

impl CategoryRule {
    /// Returns the category that the value `x` is read as, or `None` if `x` is no category. Categories end
    /// before 2^24, because `f32` can't tell all integers above it apart.
    pub fn category(self, x: f64) -> Option<u32> {
        let begin = match self {
            Self::NotNegative | Self::Whole => x >= 0.0,
            Self::Truncated => x > -1.0,
        };
        let whole = self != Self::Whole || x == x.trunc();
        (begin && whole && x < f64::from(MOST_CATEGORIES)).then_some(x as u32)
    }
}

/// Upper end of categories: every category is below 2^24.
pub const MOST_CATEGORIES: u32 = 1 << 24;

/// A set of categories as a bit field: category `c` is bit `c % 32` of word `c / 32`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CategorySet {
    /// The words, at most 2^19. Categories past the last word are not in the set.
    pub words: Vec<u32>,
    /// How a value is read as a category.
    pub rule: CategoryRule,
}

impl CategorySet {
    /// Returns the set of the categories `members`. Each must be below [`MOST_CATEGORIES`].
    pub fn new(members: impl IntoIterator<Item = u32>, rule: CategoryRule) -> Self {
        let mut words = Vec::new();
        for category in members {
            let word = (category / 32) as usize;
            if words.len() <= word {
                words.resize(word + 1, 0);
            }
            words[word] |= 1 << (category % 32);
        }
        Self { words, rule }
    }

    /// Returns whether `category` is in the set.
    pub fn contains(&self, category: u32) -> bool {
        self.words.get((category / 32) as usize).is_some_and(|w| w >> (category % 32) & 1 == 1)
    }

    /// Returns the set's members in ascending order.
    pub fn members(&self) -> impl Iterator<Item = u32> + '_ {
        let bits =
            |(i, w): (usize, u32)| (0..32).filter(move |b| w >> b & 1 == 1).map(move |b| i as u32 * 32 + b);
        self.words.iter().copied().enumerate().flat_map(bits)
    }
}

/// A column of the input: its name and its categories.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Feature {
    /// The producer's name of the column, if the file has one.
    pub name: Option<String>,
    /// The names of the column's categories, indexed by code. Empty if the file has no names.
    pub categories: Vec<String>,
    /// How a category in a table becomes the number that a row holds. [`Feature::codes`] applies it.
    pub coding: Coding,
}

/// The library that trained the forest, and what the library says about the training.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Producer {
    /// The library's name, for example `xgboost`.
    pub library: String,
    /// The library's version, as the file gives it.
    pub version: String,
    /// The library's name for the objective.
    pub objective: String,
    /// The result of early stopping, if the file has it and the forest holds all boosting rounds.
    pub early_stop: Option<EarlyStop>,
}

/// The best of a model's boosting rounds, by the metric that its producer measured during training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EarlyStop {
    /// The best round, counted from 0.
    pub best: u32,
    /// Number of boosting rounds. It is greater than `best`.
    pub rounds: u32,
}

/// How the leaf values that trees add to one output are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Aggregate {
    /// The sum of the leaf values. If a producer averages its trees, the importer divides the leaf values.
    #[default]
    Sum,
    /// The least leaf value (ONNX `MIN`).
    Min,
    /// The largest leaf value (ONNX `MAX`).
    Max,
}

impl Aggregate {
    /// All aggregates.
    pub const ALL: [Self; 3] = [Self::Sum, Self::Min, Self::Max];

    /// The name in text forms.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
        }
    }
}

/// How a row's values become a class, and what the classes are called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Classes {
    /// The rule that chooses a class.
    pub rule: ClassRule,
    /// The producer's labels of the classes. Empty if the classes are numbered from 0.
    pub labels: Vec<String>,
    /// Whether the producer holds the labels as texts. As texts, `01` and `1` differ, and `1` is not a
    /// number.
    pub words: bool,
}

impl Classes {
    /// Returns the labels as integers, indexed by class number. The result is empty if the classes are
    /// numbered from 0, and `None` if a label is a text or a number that is not an integer.
    ///
    /// ```
    /// use fangorn::forest::Classes;
    ///
    /// let labels = vec!["1".to_owned(), "2".to_owned()];
    /// let numbers = Classes { labels: labels.clone(), ..Classes::default() };
    /// assert_eq!(numbers.integers(), Some(vec![1, 2]));
    /// assert_eq!(Classes { labels, words: true, ..Classes::default() }.integers(), None);
    /// ```
    pub fn integers(&self) -> Option<Vec<i64>> {
        // A `.fangorn` file without the optional section `word` may hold text labels, and `words` is false
        // then. So a label counts as an integer only if the integer prints exactly as the label.
        let integer = |label: &String| label.parse::<i64>().ok().filter(|n| n.to_string() == *label);
        if self.words { None } else { self.labels.iter().map(integer).collect() }
    }
}

/// The rule by which a class is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClassRule {
    /// The model is a regressor, a ranker or a detector and has no classes.
    #[default]
    None,
    /// The first of the largest values. If a row has only one value, that value itself is the class number.
    Largest,
    /// Each output decides for itself: class 1 if its value is greater than the threshold, otherwise class 0.
    Over {
        /// The threshold. It is one half for probabilities.
        threshold: Real,
    },
}

impl std::fmt::Display for ClassRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Largest => f.write_str("largest"),
            Self::Over { threshold } => write!(f, "over {threshold:?}"),
        }
    }
}

impl Node {
    /// Returns the leaf's slot, or `None` for a split.
    pub fn slot(&self) -> Option<u32> {
        match self {
            Self::Leaf { slot } => Some(*slot),
            Self::Split { .. } => None,
        }
    }
}

impl Tree {
    /// Returns the depth of every node, parallel to [`Tree::nodes`]. The root's depth is 0. The tree must
    /// verify.
    pub fn depths(&self) -> Vec<u32> {
        let mut depths = vec![0; self.nodes.len()];
        let mut open = vec![0u32];
        while let Some(n) = open.pop() {
            if let Node::Split { left, right, .. } = self.nodes[n as usize] {
                for child in [left, right] {
                    depths[child as usize] = depths[n as usize] + 1;
                    open.push(child);
                }
            }
        }
        depths
    }

    /// Returns the depth of the deepest leaf.
    pub fn depth(&self) -> u32 {
        self.depths().into_iter().max().unwrap_or(0)
    }
}
