//! Turns CatBoost's conditions into predicates of the HIR.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::budget::Budget;
use super::super::{ImportError, Location};
use super::category::{self, Codes};
use super::columns::Condition;
use super::schema::CategoryName;
use crate::forest::{CategoryRule, Coding, CompareType, ForestBuilder, Predicate, Real, Side};

/// A condition as a split of the HIR.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub column: u32,
    pub predicate: Predicate,
    pub missing: Side,
    /// Whether a row goes left if the answer is yes.
    pub yes_left: bool,
}

/// The category hashes that splits ask for.
#[derive(Debug, Default)]
pub(super) struct CategoryHashes {
    /// Each hash, with the location of the first tree that asks for it.
    pub locations: HashMap<u32, Location>,
    /// Each column, with the hashes that splits ask of it.
    pub columns: BTreeMap<u32, BTreeSet<u32>>,
}

/// The predicate of each pair of column and hash that a split asks for.
pub(super) struct Predicates(HashMap<(u32, u32), Predicate>);

impl Predicates {
    /// Finds the categories that the hashes stand for, and sets how the categories of each column become
    /// numbers.
    pub(super) fn new(
        asked: CategoryHashes,
        named: &[CategoryName],
        raw: bool,
        forest: &mut ForestBuilder,
        budget: &mut Budget<'_>,
    ) -> Result<Self, ImportError> {
        let codes = category::codes(asked.locations, named, raw)?;
        let names: HashMap<u32, &str> = named.iter().map(|n| (n.hash, n.value.as_str())).collect();
        let mut sets: HashMap<u32, Predicate> = HashMap::new();
        let mut predicates = HashMap::new();
        for (column, hashes) in asked.columns {
            let texts = hashes.iter().any(|hash| codes.get(hash) == Some(&Codes::Text));
            let mut numbers = Vec::with_capacity(hashes.len());
            for (i, hash) in hashes.iter().enumerate() {
                // The number of a text has a half, so that a row with a whole number is in no known category.
                let of_text = Real(i as f64 + 0.5);
                let (number, predicate) = match codes.get(hash) {
                    Some(Codes::One(code)) if !texts => {
                        let number = Real(f64::from(*code));
                        (number, Predicate::Equal { value: number })
                    }
                    Some(Codes::Many(codes)) if !texts => {
                        let predicate = match sets.get(hash) {
                            Some(predicate) => *predicate,
                            None => {
                                let words = codes.last().map_or(0, |last| *last as usize / 32 + 1);
                                budget.category_words(words, || {
                                    Location::Field("features_info.categorical_features".into())
                                })?;
                                let set = forest.set(codes.iter().copied(), CategoryRule::Whole);
                                Predicate::InSet { set, inside: Side::Left }
                            }
                        };
                        sets.insert(*hash, predicate);
                        (Real(f64::from(codes.first().copied().unwrap_or(0))), predicate)
                    }
                    _ => (of_text, Predicate::Equal { value: of_text }),
                };
                numbers.push((*hash, number));
                predicates.insert((column, *hash), predicate);
            }
            let Some(feature) = forest.features_mut().get_mut(column as usize) else { continue };
            if texts {
                // The names in the order of the numbers, if every hash has a name.
                let all: Option<Vec<String>> =
                    hashes.iter().map(|hash| names.get(hash).map(|name| (*name).to_owned())).collect();
                feature.categories = all.unwrap_or_default();
            }
            feature.coding = Coding::Hashes { codes: numbers, needed: texts };
        }
        Ok(Self(predicates))
    }

    pub(super) fn of(&self, condition: Condition) -> Level {
        match condition {
            Condition::Over { column, border, missing } => {
                let predicate = CompareType::F32.at_most(border.into());
                Level { column, predicate, missing, yes_left: false }
            }
            Condition::Category { column, hash } => {
                // `new` has looked up every hash. The fallback asks for infinity, which is no category.
                let none = Predicate::Equal { value: f64::INFINITY.into() };
                let predicate = self.0.get(&(column, hash)).copied().unwrap_or(none);
                Level { column, predicate, missing: Side::Right, yes_left: true }
            }
        }
    }
}
