//! Categories whose names a file of XGBoost has lost.

use crate::forest::{Forest, Node, Predicate};

/// Why a file of XGBoost has no names for a column's categories.
pub const LOST_CATEGORIES: &str = "the model's file has no names for the column's categories: XGBoost before 3.4 damages \
                                   names that are not ASCII";

/// What to do about it.
pub const SAVE_CATEGORIES: &str = "train and save the model with XGBoost 3.4 or newer";

/// Returns whether a column has categories whose names a file of XGBoost may have lost. Releases from 3.1 to 3.3 write
/// names, but count characters where they store bytes.
pub fn lost_categories(forest: &Forest, column: usize) -> bool {
    let producer = &forest.producer;
    let mut numbers = producer.version.split('.').map(|number| number.parse::<u32>().ok());
    let version = (numbers.next().flatten(), numbers.next().flatten());
    let damages = matches!(version, (Some(3), Some(1..=3)));
    let of_column = |node: &Node| match node {
        Node::Split { feature, predicate: Predicate::InSet { .. }, .. } => *feature as usize == column,
        _ => false,
    };
    // Without sets no split asks for a category, so the trees need no search.
    producer.library == "xgboost"
        && damages
        && forest.features.get(column).is_some_and(|feature| feature.codes().is_none())
        && !forest.sets.is_empty()
        && forest.trees.iter().flat_map(|tree| &tree.nodes).any(of_column)
}
