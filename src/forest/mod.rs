//! HIR: what a trained model *means*, with no word on how it will be walked or stored.
//!
//! A [`Forest`] is plain data. [`Forest::verify`] names the first rule it breaks, its text form
//! ([`Forest::to_text`]) is stable, and the [`mod@reference`] interpreter is the definition of correct for every
//! stage after this one. What comes in here: facts about the model. What stays out: schedules, layouts, devices.

mod accumulator;
mod build;
mod compare;
mod fold;
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
pub use fangorn_ir::Transform;
pub(crate) use model::Forest;
pub use profile::{Profile, ProfileError};
pub use prologue::{Operation, Prologue, PrologueError};
pub(crate) use raw::hash as category_hash;
pub use raw::{Codes, Coding, Unseen};
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

/// What a split asks of its feature; values are compared in the forest's [`CompareType`].
///
/// Producers that ask something else say it in these words: `x <= t` is [`CompareType::at_most`], `x > t` and
/// `x >= t` are those with the children swapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Predicate {
    /// `x < threshold` goes left.
    Less {
        /// Never NaN; may be infinite.
        threshold: Real,
    },
    /// The same, but a value in the [`ZERO_ZONE`] goes to the other side: where zeros are missing values and those
    /// have a side of their own (LightGBM's `zero_as_missing`).
    LessZeroAside {
        /// Never NaN; may be infinite; not inside the zone.
        threshold: Real,
    },
    /// `x == value` goes left; -0 and +0 are equal.
    Equal {
        /// Never NaN; may be infinite.
        value: Real,
    },
    /// `x`, read as a category by the set's [`CategoryRule`], is looked up in a set of [`Forest::sets`].
    InSet {
        /// Index into [`Forest::sets`].
        set: u32,
        /// Where members of the set go; everything else goes to the other side.
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
        /// Column of the row that is read.
        feature: u32,
        /// What is asked of it.
        predicate: Predicate,
        /// Where a missing value (NaN) goes, whatever the predicate.
        missing: Side,
        /// Index of the left child in [`Tree::nodes`].
        left: u32,
        /// Index of the right child in [`Tree::nodes`].
        right: u32,
    },
    /// A leaf.
    Leaf {
        /// Dense number of the leaf in the whole forest; its values are at [`Forest::leaf_values`].
        slot: u32,
    },
}

/// Which outputs the trees add their leaves to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Targets {
    /// A leaf is one value; tree `t` adds it to output `targets[t]`.
    One(Vec<u32>),
    /// A leaf is a vector of [`Forest::outputs`] values, one for each output.
    All,
}

/// One decision tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    /// The nodes; the root is node 0. Children may stand anywhere.
    pub nodes: Vec<Node>,
    /// The producer's number of each node, parallel to `nodes`: what `pred_leaf` reports for a leaf.
    pub ids: Vec<u32>,
}

/// How a value that is not missing is read as a category; one that is no category is in no set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CategoryRule {
    /// A value below 0 is no category; any other is truncated (XGBoost, treelite).
    #[default]
    NotNegative,
    /// Truncated toward zero first, so that -0.5 is category 0 (LightGBM).
    Truncated,
    /// Only whole numbers are categories (ONNX).
    Whole,
}

impl CategoryRule {
    /// The category a value is; `None` where it is none. Categories end before 2^24, where `f32` stops telling
    /// integers apart.
    pub fn category(self, x: f64) -> Option<u32> {
        let begin = match self {
            Self::NotNegative | Self::Whole => x >= 0.0,
            Self::Truncated => x > -1.0,
        };
        let whole = self != Self::Whole || x == x.trunc();
        (begin && whole && x < f64::from(MOST_CATEGORIES)).then_some(x as u32)
    }
}

/// Categories are below this (`2^24`).
pub const MOST_CATEGORIES: u32 = 1 << 24;

/// A set of categories as a bit field: category `c` is bit `c % 32` of word `c / 32`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CategorySet {
    /// The words, at most 2^19; categories past the last are not in the set.
    pub words: Vec<u32>,
    /// How a value is read as a category.
    pub rule: CategoryRule,
}

impl CategorySet {
    /// The set of these categories, all below [`MOST_CATEGORIES`].
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

    /// Whether `category` is in the set.
    pub fn contains(&self, category: u32) -> bool {
        self.words.get((category / 32) as usize).is_some_and(|w| w >> (category % 32) & 1 == 1)
    }

    /// The set's members, ascending.
    pub fn members(&self) -> impl Iterator<Item = u32> + '_ {
        let bits =
            |(i, w): (usize, u32)| (0..32).filter(move |b| w >> b & 1 == 1).map(move |b| i as u32 * 32 + b);
        self.words.iter().copied().enumerate().flat_map(bits)
    }
}

/// What a column of the input is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Feature {
    /// The producer's name for it, where the file has one.
    pub name: Option<String>,
    /// The names of its categories by code, where the file has them.
    pub categories: Vec<String>,
    /// How a category in a table becomes the number that a row holds: see [`Feature::codes`].
    pub coding: Coding,
}

/// Where a forest came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Producer {
    /// The library, `xgboost` say.
    pub library: String,
    /// Its version, as the file gives it.
    pub version: String,
    /// Its name for the objective.
    pub objective: String,
    /// What early stopping found, where the file says it and all of its rounds are in the forest.
    pub early_stop: Option<EarlyStop>,
}

/// The best of a model's boosting rounds, by what its producer measured while it trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EarlyStop {
    /// The best round, counted from 0.
    pub best: u32,
    /// How many rounds there are; more than `best`.
    pub rounds: u32,
}

/// How trees that add to the same output are taken together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Aggregate {
    /// Their leaves' sum. A producer that averages has its leaves divided when it is read.
    #[default]
    Sum,
    /// The least of their leaves (ONNX `MIN`).
    Min,
    /// The largest of their leaves (ONNX `MAX`).
    Max,
}

impl Aggregate {
    /// All of them.
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

/// How a row's values become a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Classes {
    /// The rule.
    pub rule: ClassRule,
    /// What the producer calls the classes; empty where they are numbered from 0.
    pub labels: Vec<String>,
    /// Whether the labels are texts to the producer: then `01` is not `1`, and neither is `1` a number.
    pub words: bool,
}

impl Classes {
    /// The labels as whole numbers, by the classes' numbers; empty where classes are numbered from 0. `None` where they are
    /// texts, or numbers of another sort.
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
        // Files of ours that don't say hold texts too: those that no number is written as are none.
        let integer = |label: &String| label.parse::<i64>().ok().filter(|n| n.to_string() == *label);
        if self.words { None } else { self.labels.iter().map(integer).collect() }
    }
}

/// The rule by which a class is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClassRule {
    /// A regressor, a ranker or a detector: there are no classes.
    #[default]
    None,
    /// The first of the largest values; with one value a row, the value itself is the class.
    Largest,
    /// Each output is a question of its own: class 1 where its value is over the threshold, otherwise 0.
    Over {
        /// One half for probabilities.
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
    /// The leaf's slot, or `None` for a split.
    pub fn slot(&self) -> Option<u32> {
        match self {
            Self::Leaf { slot } => Some(*slot),
            Self::Split { .. } => None,
        }
    }
}

impl Tree {
    /// Depth of every node (the root's is 0), parallel to [`Tree::nodes`], for a tree that verifies.
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

    /// Depth of the deepest leaf.
    pub fn depth(&self) -> u32 {
        self.depths().into_iter().max().unwrap_or(0)
    }
}
