//! HIR: what a trained model *means*, with no word on how it will be walked or stored.
//!
//! A [`Forest`] is plain data. [`Forest::verify`] names the first rule it breaks, its text form
//! ([`Forest::to_text`]) is stable, and the [`mod@reference`] interpreter is the definition of correct for every
//! stage after this one. What comes in here: facts about the model. What stays out: schedules, layouts, devices.

mod stats;
mod text;
mod transform;
mod verify;

pub mod passes;
pub mod reference;

pub use stats::{FeatureStats, ForestStats};
pub use transform::Transform;
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

/// The type in which a producer compares an input with a threshold; inputs are cast to it first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareType {
    /// Single precision: XGBoost, CatBoost. Every threshold is an `f32` value.
    F32,
}

/// What a split asks of its feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Predicate {
    /// `x < threshold` goes left, compared in the forest's [`CompareType`].
    Less {
        /// Never NaN; may be infinite.
        threshold: Real,
    },
    /// `x`, read as a category, is looked up in a set of [`Forest::sets`].
    ///
    /// A value that is negative, or at least 2^24, is no category and counts as outside; any other value is
    /// truncated toward zero.
    InSet {
        /// Index into [`Forest::sets`].
        set: u32,
        /// Where members of the set go; everything else goes to the other side.
        inside: Side,
    },
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

/// A set of categories as a bit field: category `c` is bit `c % 32` of word `c / 32`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CategorySet {
    /// The words; categories past the last are not in the set.
    pub words: Vec<u32>,
}

impl CategorySet {
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
}

/// A trained forest: `margin[o] = base_score[o] + Σ leaf(tree, row)[o]`, `value = transform(margin)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Forest {
    /// Where it came from.
    pub producer: Producer,
    /// The columns of a row, in order.
    pub features: Vec<Feature>,
    /// Values a row gives: 1, the number of classes, or the number of targets.
    pub outputs: u32,
    /// The trees, in the producer's order.
    pub trees: Vec<Tree>,
    /// Which outputs they add to.
    pub targets: Targets,
    /// Leaf values by slot, [`Forest::leaf_width`] values a slot, tree weights (dart) already multiplied in.
    pub leaf_values: Vec<Real>,
    /// The category sets that [`Predicate::InSet`] names.
    pub sets: Vec<CategorySet>,
    /// The start of each output's sum, in margin space.
    pub base_score: Vec<Real>,
    /// The type inputs are cast to and compared in.
    pub compare: CompareType,
    /// What the objective makes of the margins.
    pub transform: Transform,
}

impl Forest {
    /// Values a leaf slot holds: `outputs` where leaves are vectors, otherwise 1.
    pub fn leaf_width(&self) -> usize {
        match self.targets {
            Targets::One(_) => 1,
            Targets::All => self.outputs as usize,
        }
    }

    /// Number of leaf slots.
    pub fn slots(&self) -> usize {
        self.leaf_values.len() / self.leaf_width().max(1)
    }

    /// The values of a leaf slot.
    pub fn leaf(&self, slot: u32) -> &[Real] {
        let width = self.leaf_width();
        &self.leaf_values[slot as usize * width..][..width]
    }

    /// The margin's error bound for a sum in `f32` in any order, for each output:
    /// `(trees + 1) x 2^-24 x (|base| + Σ over trees of the largest |leaf|)`.
    pub fn sum_bound(&self) -> Vec<f64> {
        let mut total: Vec<f64> = self.base_score.iter().map(|b| b.0.abs()).collect();
        for (t, tree) in self.trees.iter().enumerate() {
            let slots = || tree.nodes.iter().filter_map(|n| n.slot());
            let largest = |lane: usize| slots().map(|s| self.leaf(s)[lane].0.abs()).fold(0.0, f64::max);
            match &self.targets {
                Targets::One(outputs) => total[outputs[t] as usize] += largest(0),
                Targets::All => total.iter_mut().enumerate().for_each(|(o, total)| *total += largest(o)),
            }
        }
        total.iter().map(|t| (self.trees.len() + 1) as f64 * t * 2f64.powi(-24)).collect()
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
