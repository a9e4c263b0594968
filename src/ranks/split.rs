//! The form of each split on ranks, and category sets without repetitions.

use std::collections::HashMap;

use crate::forest::{CategoryRule, CategorySet, Forest, Predicate, Side};

/// The form of a split on ranks.
#[derive(Clone, Copy, Debug)]
pub(super) enum RankSplit {
    /// Every row goes to this side.
    Constant(Side),
    /// Values below this threshold go left. It is never -0, and NaN stands for the threshold above infinity.
    Threshold(f64),
    /// A question of one bit.
    Question(Predicate),
}

impl RankSplit {
    /// Returns the form of a split with this predicate.
    pub(super) fn of(predicate: Predicate, missing: Side, sets: &Sets) -> Self {
        match (predicate, missing) {
            (Predicate::Always, Side::Left) => Self::Constant(Side::Left),
            (Predicate::Always, Side::Right) => Self::Threshold(f64::NAN),
            // No value is below this threshold, and missing values go right as well.
            (Predicate::Less { threshold }, Side::Right) if threshold.0 == f64::NEG_INFINITY => {
                Self::Constant(Side::Right)
            }
            // -0 and 0 decide alike. Adding zero makes them one threshold.
            (Predicate::Less { threshold }, _) => Self::Threshold(threshold.0 + 0.0),
            (Predicate::Equal { value }, _) => {
                Self::Question(Predicate::Equal { value: (value.0 + 0.0).into() })
            }
            (Predicate::LessZeroAside { .. }, _) => Self::Question(predicate),
            (Predicate::InSet { set, inside }, _) => {
                let set = sets.indices[set as usize];
                match sets.unique[set as usize].words.is_empty() && inside != missing {
                    true => Self::Constant(missing),
                    false => Self::Question(Predicate::InSet { set, inside }),
                }
            }
        }
    }
}

/// A forest's category sets without repetitions.
#[derive(Clone, Debug)]
pub(super) struct Sets {
    /// The different sets, without words of zeros at the end, in order of first appearance.
    pub(super) unique: Vec<CategorySet>,
    /// For each set of the forest, its index in `unique`.
    indices: Vec<u32>,
}

impl Sets {
    pub(super) fn of(forest: &Forest) -> Self {
        let mut found: HashMap<(CategoryRule, &[u32]), u32> = HashMap::new();
        let mut unique = Vec::new();
        let add = |set: &CategorySet, unique: &mut Vec<CategorySet>| {
            unique.push(set.clone());
            unique.len() as u32 - 1
        };
        let indices = forest
            .sets
            .iter()
            .map(|set| {
                let end = set.words.iter().rposition(|w| *w != 0).map_or(0, |last| last + 1);
                let words = &set.words[..end];
                *found.entry((set.rule, words)).or_insert_with(|| {
                    add(&CategorySet { words: words.to_vec(), rule: set.rule }, &mut unique)
                })
            })
            .collect();
        Self { unique, indices }
    }
}
