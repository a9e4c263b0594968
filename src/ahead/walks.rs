//! How a compiled forest walks: its tables, and the function that finds leaves.

use super::{encode::Tables, nodes, text::Number, tiles};
use crate::{error::Result, forest::Forest};

/// The walks of a forest in C.
#[derive(Clone, Debug)]
pub(super) struct Walks {
    /// The tables, the function `walk(row, first, count, at)`, which says in `at` where a row's walks of `count` trees end,
    /// and `TOGETHER`, the maximum number of trees of a call.
    pub text: String,
    /// What `at[k]` says of a leaf.
    pub leaf: LeafText,
    /// The producer's id of each leaf, by `at[k]`.
    pub ids: Vec<u32>,
}

/// An expression of C for the leaf where a walk has ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum LeafText {
    /// The leaf's value.
    Value(&'static str),
    /// The leaf's number in `leafvalues`.
    Number(&'static str),
}

impl Walks {
    /// Returns the walks of a forest that has trees: through tiles where they serve the forest and are not much larger,
    /// otherwise from node to node.
    ///
    /// # Errors
    /// Nodes can't number the forest's leaves, sets or columns.
    pub(super) fn new(forest: &Forest, name: &str) -> Result<Self> {
        let (rows, sums) = (Number::of_rows(forest), Number::of_sums(forest));
        let tables = Tables::new(forest)?;
        let most_bytes = tiles::MOST_GROWTH * nodes::bytes(forest, &tables, rows, sums);
        match tiles::Tiles::new(forest, sums, most_bytes) {
            Some(tiles) => Ok(tiles.walks(sums, name)),
            None => Ok(nodes::walks(forest, &tables, rows, sums)),
        }
    }

    /// Returns the walks from node to node.
    ///
    /// # Errors
    /// Those of [`Walks::new`].
    pub(super) fn by_nodes(forest: &Forest) -> Result<Self> {
        Ok(nodes::walks(forest, &Tables::new(forest)?, Number::of_rows(forest), Number::of_sums(forest)))
    }
}
