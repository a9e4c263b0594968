//! Forests made by hand, or by a reader of a format that is not built in.

use super::{
    Aggregate, CategoryRule, CategorySet, Classes, CompareType, EarlyStop, Feature, Forest, Node, Predicate,
    Producer, Real, Side, Targets, Transform, Tree, VerifyError,
};

/// Makes a [`Forest`] tree by tree.
///
/// ```
/// use fangorn::{forest::{CompareType, Side, Transform, reference}, Forest};
///
/// let mut forest = Forest::builder(3, 1).compare(CompareType::F64).transform(Transform::Sigmoid);
/// let mut tree = forest.tree(0);
/// // Node 0: x[2] <= 0.5 goes to node 1, everything else and a missing value to node 2.
/// tree.split(2, CompareType::F64.at_most(0.5), Side::Right, 1, 2);
/// tree.leaf(7, &[-0.25]);
/// tree.leaf(8, &[0.25]);
/// let forest = forest.build()?;
/// assert_eq!(reference::margins(&forest, &[0.0, 0.0, 0.5]), [-0.25]);
/// assert_eq!(reference::leaf_ids(&forest, &[0.0, 0.0, f32::NAN]), [8]);
/// # Ok::<(), fangorn::forest::VerifyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ForestBuilder {
    forest: Forest,
    targets: Vec<u32>,
    vectors: bool,
}

/// Makes one tree: nodes are numbered from 0, the root, in the order they are added, and name their children by that
/// number, which may be one that is still to come.
#[derive(Debug)]
pub struct TreeBuilder<'b> {
    forest: &'b mut Forest,
    tree: usize,
}

impl Forest {
    /// A builder of a forest over rows of `features` columns that gives `outputs` margins: a sum that starts at 0,
    /// compared in `f32`, not transformed.
    pub fn builder(features: usize, outputs: u32) -> ForestBuilder {
        let forest = Self {
            producer: Producer { library: "custom".into(), ..Producer::default() },
            features: vec![Feature::default(); features],
            outputs,
            trees: Vec::new(),
            targets: Targets::All,
            leaf_values: Vec::new(),
            sets: Vec::new(),
            base_score: vec![Real(0.0); outputs as usize],
            aggregate: Aggregate::Sum,
            compare: CompareType::F32,
            scale: Real(1.0),
            transform: Transform::Identity,
            classes: Classes::default(),
        };
        ForestBuilder { forest, targets: Vec::new(), vectors: false }
    }
}

impl ForestBuilder {
    /// Where the forest comes from.
    #[must_use]
    pub fn producer(mut self, library: &str, version: &str, objective: &str) -> Self {
        let [library, version, objective] = [library, version, objective].map(str::to_owned);
        self.forest.producer = Producer { library, version, objective, ..self.forest.producer };
        self
    }

    /// The best of the model's boosting rounds, where it was stopped early.
    #[must_use]
    pub fn early_stop(mut self, early_stop: EarlyStop) -> Self {
        self.forest.producer.early_stop = Some(early_stop);
        self
    }

    /// Names of the columns, in order; columns past the last name have none.
    #[must_use]
    pub fn names<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        for (feature, name) in self.forest.features.iter_mut().zip(names) {
            feature.name = Some(name.into());
        }
        self
    }

    /// The start of each output's sum.
    #[must_use]
    pub fn base_score(mut self, base_score: impl IntoIterator<Item = f64>) -> Self {
        self.forest.base_score = base_score.into_iter().map(Real).collect();
        self
    }

    /// How trees of the same output are taken together.
    #[must_use]
    pub fn aggregate(mut self, aggregate: Aggregate) -> Self {
        self.forest.aggregate = aggregate;
        self
    }

    /// The type inputs are cast to and compared in.
    #[must_use]
    pub fn compare(mut self, compare: CompareType) -> Self {
        self.forest.compare = compare;
        self
    }

    /// What margins are multiplied with before the transform.
    #[must_use]
    pub fn scale(mut self, scale: f64) -> Self {
        self.forest.scale = Real(scale);
        self
    }

    /// What becomes of the margins.
    #[must_use]
    pub fn transform(mut self, transform: Transform) -> Self {
        self.forest.transform = transform;
        self
    }

    /// How values become a class.
    #[must_use]
    pub fn classes(mut self, classes: Classes) -> Self {
        self.forest.classes = classes;
        self
    }

    /// The columns, to name them or their categories.
    pub fn features_mut(&mut self) -> &mut [Feature] {
        &mut self.forest.features
    }

    /// Adds a set of categories, for [`Predicate::InSet`].
    pub fn set(&mut self, members: impl IntoIterator<Item = u32>, rule: CategoryRule) -> u32 {
        self.push_set(CategorySet::new(members, rule))
    }

    /// The same for a set that is there already.
    pub fn push_set(&mut self, set: CategorySet) -> u32 {
        self.forest.sets.push(set);
        self.forest.sets.len() as u32 - 1
    }

    /// The values of all leaves by slot, for nodes that name their slots.
    pub(crate) fn leaf_values(&mut self, values: impl IntoIterator<Item = f64>) {
        self.forest.leaf_values = values.into_iter().map(Real).collect();
    }

    /// Begins a tree whose leaves hold one value each, for `output`.
    pub fn tree(&mut self, output: u32) -> TreeBuilder<'_> {
        self.targets.push(output);
        self.begin()
    }

    /// Begins a tree whose leaves hold a value for each output. A forest has trees of one sort only.
    pub fn vector_tree(&mut self) -> TreeBuilder<'_> {
        self.vectors = true;
        self.begin()
    }

    fn begin(&mut self) -> TreeBuilder<'_> {
        self.forest.trees.push(Tree { nodes: Vec::new(), ids: Vec::new() });
        TreeBuilder { tree: self.forest.trees.len() - 1, forest: &mut self.forest }
    }

    /// The forest.
    ///
    /// # Errors
    /// The first rule of [`Forest::verify`] that it breaks.
    pub fn build(self) -> Result<Forest, VerifyError> {
        self.build_measured().map(|(forest, _)| forest)
    }

    /// The forest, and the depth of each tree.
    pub(crate) fn build_measured(mut self) -> Result<(Forest, Vec<u32>), VerifyError> {
        // Trees of both sorts leave a target list that is too short, which the check finds.
        if !self.vectors || !self.targets.is_empty() {
            self.forest.targets = Targets::One(self.targets);
        }
        let depths = self.forest.verified_depths()?;
        Ok((self.forest, depths))
    }

    /// All trees at once, and the outputs they add to where leaves are no vectors.
    pub(crate) fn set_trees(&mut self, trees: Vec<Tree>, targets: Option<Vec<u32>>) {
        self.forest.trees = trees;
        self.vectors = targets.is_none();
        self.targets = targets.unwrap_or_default();
    }
}

impl TreeBuilder<'_> {
    /// Makes room for that many nodes.
    pub fn reserve(&mut self, nodes: usize) {
        let tree = &mut self.forest.trees[self.tree];
        tree.nodes.reserve(nodes);
        tree.ids.reserve(nodes);
    }

    /// Adds a split of column `feature` and gives its number.
    pub fn split(&mut self, feature: u32, predicate: Predicate, missing: Side, left: u32, right: u32) -> u32 {
        let id = self.forest.trees[self.tree].nodes.len() as u32;
        self.push(Node::Split { feature, predicate, missing, left, right }, id)
    }

    /// Adds a leaf that the producer numbers `id`, with its values: one, or one for each output.
    pub fn leaf(&mut self, id: u32, values: &[f64]) -> u32 {
        let width = values.len().max(1);
        let slot = (self.forest.leaf_values.len() / width) as u32;
        self.forest.leaf_values.extend(values.iter().copied().map(Real));
        self.push(Node::Leaf { slot }, id)
    }

    fn push(&mut self, node: Node, id: u32) -> u32 {
        let tree = &mut self.forest.trees[self.tree];
        tree.nodes.push(node);
        tree.ids.push(id);
        tree.nodes.len() as u32 - 1
    }
}
