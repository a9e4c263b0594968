//! The fields of an XGBoost model file that the importer reads, as XGBoost 1.0 to 3.4 writes them.
//!
//! Fields that some version lacks are optional here. The code that builds the forest decides which of them a
//! file needs. The importer ignores all other keys.

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

/// The whole file.
#[derive(Debug, Deserialize)]
pub(crate) struct Document {
    pub learner: Learner,
    #[serde(default)]
    pub version: Vec<u32>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Learner {
    pub attributes: Option<Attributes>,
    #[serde(default, deserialize_with = "names")]
    pub feature_names: Vec<String>,
    pub gradient_booster: Booster,
    pub learner_model_param: ModelParam,
    pub objective: Objective,
}

/// Attributes that users and callbacks have set. All of them are strings.
#[derive(Debug, Deserialize)]
pub(crate) struct Attributes {
    /// The best round of early stopping, counted from 0.
    pub best_iteration: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ModelParam {
    pub base_score: BaseScore,
    /// Since 1.7: 0 if the user set the base score. Otherwise XGBoost has estimated it, or is still to
    /// estimate it.
    pub boost_from_average: Option<i64>,
    #[serde(default)]
    pub num_class: u64,
    pub num_feature: u64,
    #[serde(default)]
    pub num_target: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Objective {
    pub name: String,
}

/// A booster. The booster `gbtree` holds its model. The booster `dart` holds a whole gbtree, and weights of
/// its trees.
#[derive(Debug, Deserialize)]
pub(crate) struct Booster {
    pub name: String,
    pub model: Option<Model>,
    pub gbtree: Option<InnerBooster>,
    pub weight_drop: Option<Vec<f32>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct InnerBooster {
    pub model: Option<Model>,
}

/// The model of a booster: its trees. All fields are optional, so that another booster is refused by its
/// name.
#[derive(Debug, Deserialize)]
pub(crate) struct Model {
    pub gbtree_model_param: Option<GbtreeParam>,
    pub trees: Option<Vec<Tree>>,
    pub tree_info: Option<Vec<u32>>,
    /// Since 2.0: the index of the first tree of each boosting round, and the number of trees.
    pub iteration_indptr: Option<Vec<u64>>,
    /// Since 3.1: the names of categories.
    pub cats: Option<Categories>,
    /// Since 3.4: the weights of dart's trees.
    pub weight_drop: Option<Vec<f32>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct GbtreeParam {
    pub num_trees: u64,
    /// Since 1.6: the number of trees that a round grows for each output. XGBoost takes 1 if it is missing.
    pub num_parallel_tree: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Categories {
    #[serde(default)]
    pub enc: Vec<CategoryNames>,
}

/// The names of a feature's categories: the bytes of all strings end to end, cut by `offsets`, or numbers
/// without `offsets`.
#[derive(Debug, Deserialize)]
pub(crate) struct CategoryNames {
    pub offsets: Option<Vec<u32>>,
    pub values: Vec<i64>,
}

/// A tree, as parallel arrays over its nodes.
#[derive(Debug, Deserialize)]
pub(crate) struct Tree {
    pub id: Option<u64>,
    pub tree_param: TreeParam,
    pub left_children: Vec<i32>,
    /// The right child of a split. In a leaf of a vector-leaf tree (since 3.2), the row of `leaf_weights`.
    pub right_children: Vec<i32>,
    pub parents: Vec<i32>,
    pub split_indices: Vec<u32>,
    /// The threshold of a split. In a leaf of a scalar tree, the leaf value.
    pub split_conditions: Vec<f32>,
    pub default_left: Vec<u8>,
    /// 1 for a split on categories, 0 for a split on numbers.
    pub split_type: Option<Vec<u8>>,
    /// The cover of each node: the sum of the hessians of its rows.
    #[serde(default)]
    pub sum_hessian: Vec<f32>,
    /// The categories of all category splits. `categories_segments` and `categories_sizes` cut this array
    /// into the categories of each split, and `categories_nodes` names the node of each split.
    #[serde(default)]
    pub categories: Vec<u32>,
    #[serde(default)]
    pub categories_nodes: Vec<u32>,
    #[serde(default)]
    pub categories_segments: Vec<u64>,
    #[serde(default)]
    pub categories_sizes: Vec<u64>,
    /// A vector for each node of a vector-leaf tree. Before 3.2 these are the leaf values.
    #[serde(default)]
    pub base_weights: Vec<f32>,
    /// Since 3.2: the leaf values of a vector-leaf tree, a vector for each leaf.
    #[serde(default)]
    pub leaf_weights: Vec<f32>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct TreeParam {
    pub num_nodes: u64,
    /// Number of values in a leaf. 0 and 1 both mean one value.
    #[serde(default)]
    pub size_leaf_vector: u64,
}

/// The maximum number of names that the importer reads, which is as many as a forest may have columns.
/// Reading more would waste memory: an empty name takes eight times the memory that it takes in the file.
const MOST_NAMES: usize = 1 << 24;

fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    deserializer.deserialize_seq(NamesVisitor)
}

struct NamesVisitor;

impl<'de> Visitor<'de> for NamesVisitor {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of names")
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Vec<String>, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = items.next_element()? {
            if names.len() == MOST_NAMES {
                return Err(de::Error::invalid_length(MOST_NAMES + 1, &"fewer names than 2^24"));
            }
            names.push(name);
        }
        Ok(names)
    }
}

/// The base score: one number before 3.1, a list of numbers since then. Both stand in a string.
#[derive(Debug)]
pub(crate) struct BaseScore(pub Vec<f32>);

impl<'de> Deserialize<'de> for BaseScore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BaseScoreVisitor)
    }
}

struct BaseScoreVisitor;

/// Parses a number as XGBoost does. A number that is not finite is one of these words, or digits too large
/// for `f32`.
fn number(text: &str) -> Option<f32> {
    let known =
        matches!(text, "NaN" | "Infinity" | "-Infinity") || text.contains(|c: char| c.is_ascii_digit());
    text.parse().ok().filter(|_| known)
}

impl<'de> Visitor<'de> for BaseScoreVisitor {
    type Value = BaseScore;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number or a list of numbers, in a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<BaseScore, E> {
        let trimmed = text.trim();
        let list =
            trimmed.strip_prefix(['[', '(']).and_then(|t| t.strip_suffix([']', ')'])).unwrap_or(trimmed);
        let numbers: Option<Vec<f32>> = list.split(',').map(|text| number(text.trim())).collect();
        numbers.map(BaseScore).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_f32<E: de::Error>(self, value: f32) -> Result<BaseScore, E> {
        Ok(BaseScore(vec![value]))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<BaseScore, E> {
        Ok(BaseScore(vec![value as f32]))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<BaseScore, E> {
        Ok(BaseScore(vec![value as f32]))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<BaseScore, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element()? {
            values.push(value);
        }
        Ok(BaseScore(values))
    }
}
