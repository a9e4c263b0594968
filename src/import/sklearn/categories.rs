//! The category sets that histogram boosting splits on, and the columns that its trees see.

use std::ops::Range;

use super::super::budget::Budget;
use super::super::{ErrorKind, ImportError, Location, RAW_CATEGORIES};
use super::array::{self, Count};
use super::head::{Head, lacks};
use super::plain::PlainValue;
use super::{File, error, unsupported};
use crate::forest::{CategoryRule, CategorySet, Coding, Feature, MOST_CATEGORIES, Side, UnseenCategory};

/// 32-bit words of one of scikit-learn's sets, which has a bit for each of 256 categories.
const WORDS: usize = 8;

/// Translates the columns and categories that the trees see into the user's.
pub(super) struct Categories<'f> {
    /// The user's column for each column that the trees see.
    columns: Vec<u32>,
    /// For each categorical column, the user's category for each category that the trees see; `None` if they
    /// are the same.
    codes: Option<Vec<Vec<u32>>>,
    /// The user's columns whose codes are indices into the list of their categories. Each has the categories'
    /// names and whether they are numbers.
    named: Vec<(u32, Vec<String>, bool)>,
    /// The words of the sets that go left, of all trees. `left_of` has the range of each tree's words.
    left: Vec<u32>,
    left_of: Vec<Range<usize>>,
    /// The words of the sets that hold all categories of a column's training data. `known_of` has the number
    /// of each column's set.
    known: Vec<u32>,
    known_of: Vec<u32>,
    budget: Budget<'f>,
}

impl<'f> Categories<'f> {
    pub(super) fn read(file: &File<'f>) -> Result<Self, ImportError> {
        let (archive, limits, head) = (&file.archive, file.limits, &file.head);
        let features = head.features as usize;
        let mut budget = Budget::new(limits);
        let left_of = array::ranges(archive, "left_bitsets", Count::AtMost(limits.trees, "trees"))?;
        let words = left_of.last().map_or(0, |range| range.end);
        budget.category_words(words, || Location::Field("left_bitsets.sizes".into()))?;
        let known = Count::AtMost(limits.category_words, "category_words");
        let mut named = Vec::new();
        let codes = head.categories.as_ref().map(|_| codes(head, file.raw_categories, &mut named));
        Ok(Self {
            columns: columns(head, features)?,
            codes: codes.transpose()?,
            named,
            left: array::integers(archive, "left_bitsets", Count::Exactly(words, "words of sets"))?,
            left_of,
            known: array::integers(archive, "known_bitsets", known)?,
            known_of: array::integers(archive, "known_places", Count::Exactly(features, "features"))?,
            budget,
        })
    }

    /// Returns the user's column for the trees' column `feature`, which node `n` asks for.
    pub(super) fn column(&self, n: usize, feature: u32) -> Result<u32, ImportError> {
        self.columns.get(feature as usize).copied().ok_or_else(|| {
            let cause = format!("feature {feature} of {}", self.columns.len());
            error(ErrorKind::Value, format!("feature_idx[{n}]"), cause)
        })
    }

    /// Gives the features the names of their categories, if rows hold indices of categories.
    pub(super) fn name(&mut self, features: &mut [Feature]) {
        for (column, names, numbers) in self.named.drain(..) {
            if let Some(feature) = features.get_mut(column as usize) {
                feature.categories = names;
                feature.coding = Coding::Indices { numbers, unseen: UnseenCategory::Missing, needed: true };
            }
        }
    }

    /// Returns the set of node `n`, which asks for set `set` of tree `t`: the known categories that go to the
    /// other side than missing values.
    pub(super) fn set(
        &mut self,
        t: usize,
        n: usize,
        feature: u32,
        set: u32,
        missing: Side,
    ) -> Result<CategorySet, ImportError> {
        let fail = |name: &str, cause: String| error(ErrorKind::Value, format!("{name}[{n}]"), cause);
        let words = self.left_of.get(t).and_then(|range| self.left.get(range.clone())).unwrap_or_default();
        let left = nth(words, set)
            .ok_or_else(|| fail("bitset_idx", format!("set {set} of {}", words.len() / WORDS)))?;
        let known = self.known_of.get(feature as usize).and_then(|number| nth(&self.known, *number));
        let known = known.ok_or_else(|| {
            fail("feature_idx", format!("feature {feature} has no set of known categories"))
        })?;
        let members = match missing {
            Side::Right => left,
            Side::Left => std::array::from_fn(|w| known[w] & !left[w]),
        };
        let bits = CategorySet { words: members.to_vec(), rule: CategoryRule::NotNegative };
        let Some(codes) = &self.codes else {
            self.budget.category_words(WORDS, || Location::Field(format!("bitset_idx[{n}]")))?;
            return Ok(CategorySet::new(bits.members(), CategoryRule::NotNegative));
        };
        let codes = codes.get(feature as usize).map_or(&[][..], Vec::as_slice);
        let code = |bit: u32| codes.get(bit as usize).copied();
        let members: Option<Vec<u32>> = bits.members().map(code).collect();
        let members = members.ok_or_else(|| {
            fail("bitset_idx", format!("a category past the {} of feature {feature}", codes.len()))
        })?;
        let words = members.iter().max().map_or(0, |largest| *largest as usize / 32 + 1);
        self.budget.category_words(words, || Location::Field(format!("bitset_idx[{n}]")))?;
        Ok(CategorySet::new(members, CategoryRule::Whole))
    }
}

/// Returns set number `set` of the sets in `words`.
fn nth(words: &[u32], set: u32) -> Option<[u32; WORDS]> {
    words.as_chunks().0.get(set as usize).copied()
}

/// Returns the user's columns in the order of the trees' columns. Since release 1.4 categorical columns are
/// encoded and come before the others.
fn columns(head: &Head, features: usize) -> Result<Vec<u32>, ImportError> {
    let columns = 0..features as u32;
    if head.categories.is_none() {
        return Ok(columns.collect());
    }
    let chosen = head.is_categorical.as_deref().ok_or_else(|| lacks("is_categorical_"))?;
    if chosen.len() != features {
        let cause = format!("{} entries for {features} features", chosen.len());
        return Err(error(ErrorKind::Structure, "fangorn.is_categorical_", cause));
    }
    let (of_categories, others): (Vec<u32>, Vec<u32>) = columns.partition(|column| chosen[*column as usize]);
    Ok([of_categories, others].concat())
}

/// Returns the encoder's categories as whole numbers, without the missing one. A column whose categories are
/// not valid codes gets their indices if `raw` allows it, and is added to `named`.
fn codes(
    head: &Head,
    raw: bool,
    named: &mut Vec<(u32, Vec<String>, bool)>,
) -> Result<Vec<Vec<u32>>, ImportError> {
    let columns = head.categories.iter().flatten().zip(columns(head, head.features as usize)?);
    let mut codes = Vec::new();
    for (i, (categories, column)) in columns.enumerate() {
        codes.push(match codes_of(head, i, categories, column) {
            Err(_) if raw && !categories.contains(&PlainValue::List) => {
                let known: Vec<&PlainValue> = categories.iter().filter(|c| !is_missing(c)).collect();
                let numbers = !known.iter().any(|c| matches!(c, PlainValue::Text(_)));
                named.push((column, known.iter().map(|c| c.to_string()).collect(), numbers));
                (0..known.len() as u32).collect()
            }
            found => found?,
        });
    }
    Ok(codes)
}

fn is_missing(category: &PlainValue) -> bool {
    matches!(category, PlainValue::Null) || matches!(category, PlainValue::Real(value) if value.is_nan())
}

fn codes_of(head: &Head, i: usize, categories: &[PlainValue], column: u32) -> Result<Vec<u32>, ImportError> {
    let mut codes = Vec::with_capacity(categories.len());
    for (j, category) in categories.iter().enumerate() {
        let value = match category {
            missing if is_missing(missing) => continue,
            PlainValue::Bool(value) => f64::from(u8::from(*value)),
            PlainValue::Integer(value) => *value as f64,
            PlainValue::Real(value) => *value,
            PlainValue::Text(_) | PlainValue::List | PlainValue::Null => f64::NAN,
        };
        if value.trunc() != value || !(0.0..f64::from(MOST_CATEGORIES)).contains(&value) {
            let cause =
                format!("{}: category {category} of column {column} is not supported", head.estimator);
            return Err(unsupported(
                &format!("categories[{i}][{j}]"),
                cause,
                format!(
                    "{RAW_CATEGORIES}; or train on whole numbers from 0 to 2^24 - 1, for instance on the column's cat.codes"
                ),
            ));
        }
        codes.push(value as u32);
    }
    Ok(codes)
}
