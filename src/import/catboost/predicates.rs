//! Questions in the words of the HIR.

use std::collections::HashMap;

use super::super::budget::Budget;
use super::super::{ImportError, Place};
use super::category::{self, Codes};
use super::columns::Question;
use super::schema::CategoryName;
use crate::forest::{CategoryRule, CompareType, ForestBuilder, Predicate, Side};

/// A question as a split.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub column: u32,
    pub predicate: Predicate,
    pub missing: Side,
    /// Whether a row whose answer is yes goes left.
    pub yes_left: bool,
}

/// The predicates of all hashes that are asked for.
pub(super) struct Predicates(HashMap<u32, Predicate>);

impl Predicates {
    /// Finds the categories behind the hashes, which come with the places that ask for them.
    pub(super) fn new(
        hashes: HashMap<u32, Place>,
        named: &[CategoryName],
        forest: &mut ForestBuilder,
        budget: &mut Budget<'_>,
    ) -> Result<Self, ImportError> {
        let mut predicates = HashMap::with_capacity(hashes.len());
        for (hash, codes) in category::codes(hashes, named)? {
            let predicate = match codes {
                Codes::One(code) => Predicate::Equal { value: f64::from(code).into() },
                Codes::Many(codes) => {
                    let words = codes.last().map_or(0, |last| *last as usize / 32 + 1);
                    budget.category_words(words, || {
                        Place::Field("features_info.categorical_features".into())
                    })?;
                    Predicate::InSet { set: forest.set(codes, CategoryRule::Whole), inside: Side::Left }
                }
            };
            predicates.insert(hash, predicate);
        }
        Ok(Self(predicates))
    }

    pub(super) fn of(&self, question: Question) -> Level {
        match question {
            Question::Over { column, border, missing } => {
                let predicate = CompareType::F32.at_most(border.into());
                Level { column, predicate, missing, yes_left: false }
            }
            Question::Category { column, hash } => {
                // Each hash has been looked up; nothing is equal to infinity that is a category.
                let none = Predicate::Equal { value: f64::INFINITY.into() };
                let predicate = self.0.get(&hash).copied().unwrap_or(none);
                Level { column, predicate, missing: Side::Right, yes_left: true }
            }
        }
    }
}
