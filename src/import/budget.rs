//! Counts what a model file asks for against the [`Limits`], and verifies the finished forest.

use super::{ErrorKind, ImportError, Limits, Location};
use crate::Forest;
use crate::forest::{ForestBuilder, Node};

/// Counts what one file asks for. An importer checks a claim here before it allocates memory for it.
pub(super) struct Budget<'l> {
    limits: &'l Limits,
    nodes: usize,
    words: usize,
    bytes: u64,
}

/// Bytes counted for each node: the node, its id (`u32`), its cover (`f64`), and a leaf value (`f64`), which only a
/// leaf has.
const NODE_BYTES: usize = size_of::<Node>() + size_of::<u32>() + 2 * size_of::<f64>();

impl<'l> Budget<'l> {
    pub(super) fn new(limits: &'l Limits) -> Self {
        Self { limits, nodes: 0, words: 0, bytes: 0 }
    }

    /// Checks the number of trees.
    pub(super) fn trees(&self, trees: usize, location: impl FnOnce() -> Location) -> Result<(), ImportError> {
        check(trees, self.limits.trees, "trees", location)
    }

    /// Counts `nodes` more nodes and their memory, and checks both totals.
    pub(super) fn nodes(
        &mut self,
        nodes: usize,
        location: impl FnOnce() -> Location,
    ) -> Result<(), ImportError> {
        self.nodes = self.nodes.saturating_add(nodes);
        // Layouts count leaf slots and addresses in 31 bits.
        let most = self.limits.nodes.min(i32::MAX as usize);
        match self.nodes > most {
            true => check(self.nodes, most, "nodes", location),
            false => self.memory(nodes, NODE_BYTES, location),
        }
    }

    /// Checks and counts the memory of `leaves` leaves with `width` values each, for a file that does not
    /// spell out all these values. There may be as many values as `Limits::nodes` allows nodes.
    pub(super) fn vector_leaves(
        &mut self,
        leaves: usize,
        width: usize,
        location: impl FnOnce() -> Location,
    ) -> Result<(), ImportError> {
        let (values, limit) = (leaves.saturating_mul(width), self.limits.nodes);
        if values > limit {
            let cause = format!("{leaves} leaves of {width} values each, over the limit of {limit} nodes");
            return Err(ImportError::limit(location(), cause, "nodes"));
        }
        self.memory(values, size_of::<f64>(), location)
    }

    fn memory(
        &mut self,
        count: usize,
        each: usize,
        location: impl FnOnce() -> Location,
    ) -> Result<(), ImportError> {
        self.bytes = self.bytes.saturating_add((count as u64).saturating_mul(each as u64));
        check(self.bytes, self.limits.memory_bytes, "memory_bytes", location)
    }

    /// Counts the memory of the linear models of `leaves` leaves, with `terms` terms in total.
    pub(super) fn leaf_models(
        &mut self,
        leaves: usize,
        terms: usize,
        location: impl Fn() -> Location,
    ) -> Result<(), ImportError> {
        self.memory(leaves, size_of::<f64>() + size_of::<usize>(), &location)?;
        self.memory(terms, size_of::<u32>() + size_of::<f64>(), &location)
    }

    /// Checks the number of columns of a row.
    pub(super) fn features(
        &self,
        features: usize,
        location: impl FnOnce() -> Location,
    ) -> Result<(), ImportError> {
        check(features, self.limits.features, "features", location)
    }

    /// Checks the constants of a step before the trees, one for each column, and counts their memory.
    pub(super) fn prologue(
        &mut self,
        numbers: usize,
        location: impl Fn() -> Location,
    ) -> Result<(), ImportError> {
        self.features(numbers, &location)?;
        self.memory(numbers, size_of::<f64>(), &location)
    }

    /// Checks the number of outputs.
    pub(super) fn outputs(
        &self,
        outputs: usize,
        location: impl FnOnce() -> Location,
    ) -> Result<(), ImportError> {
        check(outputs, self.limits.outputs, "outputs", location)
    }

    /// Counts `words` more 32-bit words of category sets and their memory, and checks both totals.
    pub(super) fn category_words(
        &mut self,
        words: usize,
        location: impl FnOnce() -> Location,
    ) -> Result<(), ImportError> {
        self.words = self.words.saturating_add(words);
        match self.words > self.limits.category_words {
            true => check(self.words, self.limits.category_words, "category_words", location),
            false => self.memory(words, size_of::<u32>(), location),
        }
    }

    /// Checks the length of one string, in bytes.
    pub(super) fn string(
        &self,
        bytes: usize,
        location: impl FnOnce() -> Location,
    ) -> Result<(), ImportError> {
        check(bytes, self.limits.string_bytes, "string_bytes", location)
    }

    /// Builds the forest and verifies it, so that nodes which form no trees are refused.
    ///
    /// Also refuses a base score that is not finite. Of all producers only XGBoost accepts such a base score.
    pub(super) fn finish(&self, forest: ForestBuilder) -> Result<Forest, ImportError> {
        let forest = self.finish_with_any_base_score(forest)?;
        if let Some(i) = forest.base_score.iter().position(|b| !b.0.is_finite()) {
            let cause = format!("value {i} is {:?}, not a finite number", forest.base_score[i]);
            return Err(ImportError::new(ErrorKind::Structure, Location::Field("base_score".into()), cause));
        }
        Ok(forest)
    }

    /// Like [`Self::finish`], but accepts a base score that is not finite.
    pub(super) fn finish_with_any_base_score(&self, forest: ForestBuilder) -> Result<Forest, ImportError> {
        let (forest, depths) = forest
            .build_measured()
            .map_err(|e| ImportError::new(ErrorKind::Structure, Location::Field(e.location), e.rule))?;
        for (t, depth) in depths.into_iter().enumerate() {
            check(depth, self.limits.depth, "depth", || Location::Field(format!("tree {t}")))?;
        }
        Ok(forest)
    }
}

fn check<N: PartialOrd + std::fmt::Display>(
    asked: N,
    limit: N,
    field: &str,
    location: impl FnOnce() -> Location,
) -> Result<(), ImportError> {
    if asked <= limit {
        return Ok(());
    }
    let what = field.replace('_', " ");
    Err(ImportError::limit(location(), format!("{asked} {what}, over the limit of {limit}"), field))
}
