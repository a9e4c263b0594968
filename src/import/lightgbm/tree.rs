//! Turns one LightGBM tree from its lists into HIR nodes.

use super::super::budget::Budget;
use super::super::{ErrorKind, ImportError};
use super::linear;
use super::lines::{Fields, List, Value};
use crate::{
    forest::{
        CategoryRule, CategorySet, CompareType, ForestBuilder, MOST_CATEGORIES, Predicate, Side, ZERO_ZONE,
    },
    graph::LeafModels,
};

/// The fields of a tree that the importer reads.
pub(super) const READ: [&str; 18] = [
    "num_leaves",
    "num_cat",
    "split_feature",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
    "leaf_value",
    "cat_boundaries",
    "cat_threshold",
    "is_linear",
    "leaf_const",
    "num_features",
    "leaf_features",
    "leaf_coeff",
    "leaf_count",
    "internal_count",
    "split_gain",
];

/// The fields of a tree that the importer ignores.
pub(super) const IGNORED: [&str; 4] = ["leaf_weight", "internal_value", "internal_weight", "shrinkage"];

/// Adds the tree of these fields to the forest. The tree's leaf values go to the output `output`. `models` takes the
/// linear models of its leaves. If it is `None`, a leaf with a coefficient is refused. `wants_gains` says whether to
/// read the gains of its splits.
pub(super) fn grow(
    fields: &Fields<'_>,
    output: u32,
    builder: &mut ForestBuilder,
    budget: &mut Budget<'_>,
    models: Option<&mut LeafModels>,
    wants_gains: bool,
) -> Result<(), ImportError> {
    let stated = fields.need("num_leaves")?;
    let leaves = stated.number::<i32>()?;
    if leaves < 1 {
        let cause = format!("{leaves} leaves, but a tree has at least one");
        return Err(stated.error(ErrorKind::Value, cause));
    }
    let leaves = leaves as u32;
    budget.nodes(2 * leaves as usize - 1, || stated.location())?;
    // Before memory is allocated, this checks that the file has a value for each leaf.
    let mut values = match models {
        None => leaf_values(fields, leaves as usize)?,
        Some(models) => {
            linear::read_models(fields, leaves as usize, builder.features_mut().len(), models, budget)?;
            fields.list("leaf_value", leaves as usize)?
        }
    };
    let sets = category_sets(fields, builder, budget)?;
    let covers = covers(fields, leaves as usize)?;
    let gains = if wants_gains { gains(fields, leaves as usize)? } else { None };
    let features = builder.features_mut().len();
    let mut tree = builder.tree(output);
    // In a tree of one leaf, the lists of splits are empty or left out.
    if leaves > 1 {
        let mut splits = Splits::of(fields, leaves - 1, features, sets)?;
        tree.reserve(2 * leaves as usize - 1);
        for _ in 1..leaves {
            let Split { feature, predicate, missing, children: [left, right] } = splits.next()?;
            tree.split(feature, predicate, missing, left, right);
        }
    }
    for leaf in 0..leaves {
        let (value, at) = values.next::<f64>()?;
        if !value.is_finite() {
            return Err(at.error(ErrorKind::Value, format!("a leaf of {value}")));
        }
        tree.leaf(leaf, &[value]);
    }
    if let Some(covers) = covers {
        tree.covers(covers);
    }
    if let Some(gains) = gains {
        tree.gains(gains);
    }
    Ok(())
}

/// Returns the gains of the nodes, splits before leaves. Returns `None` if the file has none. A tree of one leaf has
/// no split, so its file may have no list of gains.
fn gains(fields: &Fields<'_>, leaves: usize) -> Result<Option<Vec<f64>>, ImportError> {
    if leaves == 1 {
        return Ok(Some(vec![0.0]));
    }
    if fields.get("split_gain").is_none() {
        return Ok(None);
    }
    let mut gains = Vec::with_capacity(2 * leaves - 1);
    let mut list = fields.list("split_gain", leaves - 1)?;
    for _ in 1..leaves {
        gains.push(list.next::<f64>()?.0);
    }
    gains.resize(2 * leaves - 1, 0.0);
    Ok(Some(gains))
}

/// Returns the covers of the nodes, splits before leaves: how many rows reached each node. LightGBM computes its own
/// contributions from the same counts. Returns `None` if the file has no counts. In a tree of one leaf no cover is
/// used, so its file may have no counts, and the cover is 1.
fn covers(fields: &Fields<'_>, leaves: usize) -> Result<Option<Vec<f64>>, ImportError> {
    if leaves == 1 {
        return Ok(Some(vec![1.0]));
    }
    if fields.get("leaf_count").is_none() || fields.get("internal_count").is_none() {
        return Ok(None);
    }
    let mut covers = Vec::with_capacity(2 * leaves - 1);
    for (name, count) in [("internal_count", leaves - 1), ("leaf_count", leaves)] {
        let mut list = fields.list(name, count)?;
        for _ in 0..count {
            covers.push(list.next::<f64>()?.0);
        }
    }
    Ok(Some(covers))
}

/// Returns the leaf values. In a linear tree these are the constants of its leaves, and no leaf may have a
/// coefficient.
fn leaf_values<'f>(fields: &Fields<'f>, leaves: usize) -> Result<List<'f>, ImportError> {
    if !is_linear(fields)? {
        return fields.list("leaf_value", leaves);
    }
    let mut counts = fields.list("num_features", leaves)?;
    for _ in 0..leaves {
        let (count, at) = counts.next::<u32>()?;
        if count > 0 {
            let cause = "a leaf with a linear model, which a forest does not have";
            return Err(at.error(ErrorKind::Unsupported, cause).with_remedy(
                "predict with `fangorn predict`, in Rust with `import::load_graph`, or train with linear_tree=false",
            ));
        }
    }
    fields.list("leaf_const", leaves)
}

/// Returns whether the tree's leaves have linear models, which may be constants.
pub(super) fn is_linear(fields: &Fields<'_>) -> Result<bool, ImportError> {
    let flag = fields.get("is_linear").map(|flag| flag.number::<u8>()).transpose()?;
    Ok(flag.is_some_and(|flag| flag != 0))
}

/// Adds the tree's category sets to the forest, and returns their range among the forest's sets. Members go
/// left.
fn category_sets(
    fields: &Fields<'_>,
    builder: &mut ForestBuilder,
    budget: &mut Budget<'_>,
) -> Result<std::ops::Range<u32>, ImportError> {
    let stated = fields.need("num_cat")?;
    let count = match stated.number::<i32>()? {
        0 => return Ok(0..0),
        count @ 1.. => count as usize,
        count => return Err(stated.error(ErrorKind::Value, format!("{count} category splits"))),
    };
    let mut bounds = fields.list("cat_boundaries", count + 1)?;
    let mut sizes = Vec::with_capacity(count);
    let (mut start, at) = bounds.next::<i32>()?;
    if start != 0 {
        return Err(at.error(ErrorKind::Structure, format!("the first set begins at word {start}, not 0")));
    }
    for _ in 0..count {
        let (end, at) = bounds.next::<i32>()?;
        let size = end.checked_sub(start).and_then(|size| usize::try_from(size).ok());
        let Some(size) = size else {
            return Err(at.error(ErrorKind::Structure, format!("a set from word {start} to word {end}")));
        };
        if size > MOST_CATEGORIES as usize / 32 {
            let cause = "a set with categories of 2^24 and more, which is not supported";
            return Err(at
                .error(ErrorKind::Unsupported, cause)
                .with_remedy("number the categories from 0 without gaps, and train again"));
        }
        sizes.push(size);
        start = end;
    }
    let total = start as usize;
    let mut words = fields.list("cat_threshold", total)?;
    budget.category_words(total, || stated.location())?;
    let mut range = 0..0;
    for (i, size) in sizes.into_iter().enumerate() {
        let mut set = CategorySet { words: Vec::with_capacity(size), rule: CategoryRule::Truncated };
        for _ in 0..size {
            set.words.push(words.next::<u32>()?.0);
        }
        let number = builder.push_set(set);
        range = if i == 0 { number..number + 1 } else { range.start..number + 1 };
    }
    Ok(range)
}

/// One split of a tree in the file.
struct Split {
    feature: u32,
    predicate: Predicate,
    missing: Side,
    children: [u32; 2],
}

/// The lists that hold the splits of a tree.
struct Splits<'f> {
    count: u32,
    columns: usize,
    sets: std::ops::Range<u32>,
    features: List<'f>,
    thresholds: List<'f>,
    types: List<'f>,
    children: [List<'f>; 2],
}

impl<'f> Splits<'f> {
    fn of(
        fields: &Fields<'f>,
        count: u32,
        columns: usize,
        sets: std::ops::Range<u32>,
    ) -> Result<Self, ImportError> {
        let list = |name| fields.list(name, count as usize);
        Ok(Self {
            count,
            columns,
            sets,
            features: list("split_feature")?,
            thresholds: list("threshold")?,
            types: list("decision_type")?,
            children: [list("left_child")?, list("right_child")?],
        })
    }

    fn next(&mut self) -> Result<Split, ImportError> {
        let (feature, at) = self.features.next::<u32>()?;
        if feature as usize >= self.columns {
            return Err(at.error(ErrorKind::Value, format!("feature {feature} of {}", self.columns)));
        }
        let (threshold, at) = self.thresholds.next::<f64>()?;
        let (bits, at_bits) = self.types.next::<u8>()?;
        let (predicate, missing) = match Decision::of(bits) {
            Some(Decision::Category) => (self.category(threshold, at)?, Side::Right),
            Some(Decision::Number { missing, default }) => number(threshold, missing, default, at)?,
            None => return Err(at_bits.error(ErrorKind::Value, format!("{bits} is no decision type"))),
        };
        let children = [self.child(0)?, self.child(1)?];
        Ok(Split { feature, predicate, missing, children })
    }

    /// Returns the predicate of a category split. In the file, the field `threshold` of such a split is the index of
    /// its category set within the tree.
    fn category(&self, threshold: f64, at: Value<'_>) -> Result<Predicate, ImportError> {
        let count = self.sets.end - self.sets.start;
        if threshold.trunc() != threshold || !(0.0..f64::from(count)).contains(&threshold) {
            return Err(at.error(ErrorKind::Structure, format!("category set {threshold} of {count}")));
        }
        Ok(Predicate::InSet { set: self.sets.start + threshold as u32, inside: Side::Left })
    }

    /// Reads a child of the next split and returns its node number. Nodes are numbered splits first, then leaves. In
    /// the file a child is the number of a split, or the bitwise complement of the number of a leaf.
    fn child(&mut self, side: usize) -> Result<u32, ImportError> {
        let splits = self.count;
        let (child, at) = self.children[side].next::<i32>()?;
        let (number, of, node) = match child {
            0.. => (child as u32, splits, child as u32),
            _ => (!child as u32, splits + 1, splits.saturating_add(!child as u32)),
        };
        if number < of {
            return Ok(node);
        }
        let what = if child < 0 { "leaf" } else { "split" };
        Err(at.error(ErrorKind::Structure, format!("child {child} is out of range: {what} {number} of {of}")))
    }
}

/// The meaning of the bits of a decision type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// Membership in a category set. NaN is in no set, whatever the other bits say.
    Category,
    /// `x <= threshold`.
    Number { missing: Missing, default: Side },
}

/// Which values count as missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    /// No values: NaN is read as 0.
    Nothing,
    /// Zeros and NaN.
    Zero,
    Nan,
}

impl Decision {
    fn of(bits: u8) -> Option<Self> {
        let missing = match bits >> 2 {
            0 => Missing::Nothing,
            1 => Missing::Zero,
            2 => Missing::Nan,
            _ => return None,
        };
        let default = if bits & 2 == 0 { Side::Right } else { Side::Left };
        Some(if bits & 1 == 0 { Self::Number { missing, default } } else { Self::Category })
    }
}

/// Returns the predicate of `x <= threshold`, and the side that NaN takes.
fn number(
    threshold: f64,
    missing: Missing,
    default: Side,
    at: Value<'_>,
) -> Result<(Predicate, Side), ImportError> {
    if threshold.is_nan() {
        return Err(at.error(ErrorKind::Value, "the threshold is NaN"));
    }
    let compare = CompareType::F64;
    let zone = f64::from(ZERO_ZONE);
    // LightGBM reads a value of at most `ZERO_ZONE` in magnitude as 0.0. So such a value goes left at any threshold
    // from 0 up, and right at any threshold below 0.
    let (predicate, zero) = if threshold >= 0.0 {
        (compare.at_most(threshold.max(zone)), Side::Left)
    } else if threshold >= -zone {
        (compare.less(-zone), Side::Right)
    } else {
        (compare.at_most(threshold), Side::Right)
    };
    match (missing, predicate) {
        (Missing::Nothing, _) => Ok((predicate, zero)),
        (Missing::Nan, _) => Ok((predicate, default)),
        (Missing::Zero, _) if default == zero => Ok((predicate, default)),
        (Missing::Zero, Predicate::Less { threshold }) => {
            Ok((Predicate::LessZeroAside { threshold }, default))
        }
        (Missing::Zero, _) => {
            let cause = "zeros against everything else, which is not supported";
            Err(at.error(ErrorKind::Unsupported, cause).with_remedy("train with zero_as_missing=false"))
        }
    }
}
