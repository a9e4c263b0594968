//! What the limits leave while a model is read, and the forest's last check.

use super::{ErrorKind, ImportError, Limits, Place};
use crate::Forest;
use crate::forest::{ForestBuilder, Node};

/// Counts what a file asks for. A claim is checked before room is made for it.
pub(super) struct Budget<'l> {
    limits: &'l Limits,
    nodes: usize,
    words: usize,
    bytes: u64,
}

/// Memory that a node takes: itself, its number, and a value where it is a leaf.
const NODE_BYTES: usize = size_of::<Node>() + size_of::<u32>() + size_of::<f64>();

impl<'l> Budget<'l> {
    pub(super) fn new(limits: &'l Limits) -> Self {
        Self { limits, nodes: 0, words: 0, bytes: 0 }
    }

    /// A forest of so many trees.
    pub(super) fn trees(&self, trees: usize, place: impl FnOnce() -> Place) -> Result<(), ImportError> {
        check(trees, self.limits.trees, "trees", place)
    }

    /// So many more nodes.
    pub(super) fn nodes(&mut self, nodes: usize, place: impl FnOnce() -> Place) -> Result<(), ImportError> {
        self.nodes = self.nodes.saturating_add(nodes);
        // Slots and places in layouts are counted in 31 bits.
        let most = self.limits.nodes.min(i32::MAX as usize);
        match self.nodes > most {
            true => check(self.nodes, most, "nodes", place),
            false => self.memory(nodes, NODE_BYTES, place),
        }
    }

    /// Leaves of so many values each that a file does not spell out: as many values as there may be nodes.
    pub(super) fn vector_leaves(
        &mut self,
        leaves: usize,
        width: usize,
        place: impl FnOnce() -> Place,
    ) -> Result<(), ImportError> {
        let (values, limit) = (leaves.saturating_mul(width), self.limits.nodes);
        if values > limit {
            let cause = format!("{leaves} leaves of {width} values each, over the limit of {limit} nodes");
            return Err(ImportError::limit(place(), cause, "nodes"));
        }
        self.memory(values, size_of::<f64>(), place)
    }

    fn memory(
        &mut self,
        count: usize,
        each: usize,
        place: impl FnOnce() -> Place,
    ) -> Result<(), ImportError> {
        self.bytes = self.bytes.saturating_add((count as u64).saturating_mul(each as u64));
        check(self.bytes, self.limits.memory_bytes, "memory_bytes", place)
    }

    /// Rows of so many columns.
    pub(super) fn features(&self, features: usize, place: impl FnOnce() -> Place) -> Result<(), ImportError> {
        check(features, self.limits.features, "features", place)
    }

    /// So many more numbers of a step before the trees, one a column.
    pub(super) fn prologue(&mut self, numbers: usize, place: impl Fn() -> Place) -> Result<(), ImportError> {
        self.features(numbers, &place)?;
        self.memory(numbers, size_of::<f64>(), &place)
    }

    /// So many outputs.
    pub(super) fn outputs(&self, outputs: usize, place: impl FnOnce() -> Place) -> Result<(), ImportError> {
        check(outputs, self.limits.outputs, "outputs", place)
    }

    /// So many more 32-bit words of category sets.
    pub(super) fn category_words(
        &mut self,
        words: usize,
        place: impl FnOnce() -> Place,
    ) -> Result<(), ImportError> {
        self.words = self.words.saturating_add(words);
        match self.words > self.limits.category_words {
            true => check(self.words, self.limits.category_words, "category_words", place),
            false => self.memory(words, size_of::<u32>(), place),
        }
    }

    /// A string of so many bytes.
    pub(super) fn string(&self, bytes: usize, place: impl FnOnce() -> Place) -> Result<(), ImportError> {
        check(bytes, self.limits.string_bytes, "string_bytes", place)
    }

    /// The forest, if it keeps the rules: whatever a file's nodes add up to, what comes out are trees. Sums start at finite
    /// numbers: of all producers XGBoost alone takes others.
    pub(super) fn finish(&self, forest: ForestBuilder) -> Result<Forest, ImportError> {
        let forest = self.finish_of_any_base(forest)?;
        if let Some(i) = forest.base_score.iter().position(|b| !b.0.is_finite()) {
            let cause = format!("value {i} is {:?}, not a finite number", forest.base_score[i]);
            return Err(ImportError::new(ErrorKind::Structure, Place::Field("base_score".into()), cause));
        }
        Ok(forest)
    }

    /// The same, wherever sums start.
    pub(super) fn finish_of_any_base(&self, forest: ForestBuilder) -> Result<Forest, ImportError> {
        let (forest, depths) = forest
            .build_measured()
            .map_err(|e| ImportError::new(ErrorKind::Structure, Place::Field(e.place), e.rule))?;
        for (t, depth) in depths.into_iter().enumerate() {
            check(depth, self.limits.depth, "depth", || Place::Field(format!("tree {t}")))?;
        }
        Ok(forest)
    }
}

fn check<N: PartialOrd + std::fmt::Display>(
    asked: N,
    limit: N,
    field: &str,
    place: impl FnOnce() -> Place,
) -> Result<(), ImportError> {
    if asked <= limit {
        return Ok(());
    }
    let what = field.replace('_', " ");
    Err(ImportError::limit(place(), format!("{asked} {what}, over the limit of {limit}"), field))
}
