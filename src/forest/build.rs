//! Builders for forests that a program makes itself, for example from a format that has no importer here.

use super::{
    Aggregate, CategoryRule, CategorySet, Classes, CompareType, Covers, EarlyStop, Feature, Forest, Gains,
    Node, Predicate, Producer, Real, Side, Targets, Transform, Tree, VerifyError,
};

/// Builds a [`Forest`] tree by tree.
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
    vector_leaves: bool,
    /// The covers of the trees that have some, with the index of the tree.
    covers: Vec<(usize, Vec<Real>)>,
    /// The gains of the trees that have some, with the index of the tree.
    gains: Vec<(usize, Vec<Real>)>,
}

/// Builds one tree. Nodes get numbers in the order in which they are added, from 0, the root. A split names
/// its children by their numbers, and a child may be added later than its parent.
#[derive(Debug)]
pub struct TreeBuilder<'b> {
    forest: &'b mut Forest,
    covers: &'b mut Vec<(usize, Vec<Real>)>,
    gains: &'b mut Vec<(usize, Vec<Real>)>,
    tree: usize,
}

impl Forest {
    /// Returns a builder of a forest that reads rows of `features` columns and gives each row `outputs`
    /// margins. Without further calls, base scores are 0, leaf values are summed, values are compared in
    /// `f32`, and there is no transform.
    pub fn builder(features: usize, outputs: u32) -> ForestBuilder {
        let forest = Self::empty(features, outputs);
        ForestBuilder {
            forest,
            targets: Vec::new(),
            vector_leaves: false,
            covers: Vec::new(),
            gains: Vec::new(),
        }
    }

    /// Returns a forest without trees.
    pub(super) fn empty(features: usize, outputs: u32) -> Self {
        Self {
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
            covers: None,
            gains: None,
        }
    }
}

impl ForestBuilder {
    /// Sets the producer's library, its version and its name for the objective.
    #[must_use]
    pub fn producer(mut self, library: &str, version: &str, objective: &str) -> Self {
        let [library, version, objective] = [library, version, objective].map(str::to_owned);
        self.forest.producer = Producer { library, version, objective, ..self.forest.producer };
        self
    }

    /// Sets which of the model's boosting rounds was the best, for a model whose training stopped early.
    #[must_use]
    pub fn early_stop(mut self, early_stop: EarlyStop) -> Self {
        self.forest.producer.early_stop = Some(early_stop);
        self
    }

    /// Sets the names of the columns, in column order. Columns after the last name have no name.
    #[must_use]
    pub fn names<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        for (feature, name) in self.forest.features.iter_mut().zip(names) {
            feature.name = Some(name.into());
        }
        self
    }

    /// Sets the base scores, one for each output, with which the sums start.
    #[must_use]
    pub fn base_score(mut self, base_score: impl IntoIterator<Item = f64>) -> Self {
        self.forest.base_score = base_score.into_iter().map(Real).collect();
        self
    }

    /// Sets how the leaf values that go to one output are combined.
    #[must_use]
    pub fn aggregate(mut self, aggregate: Aggregate) -> Self {
        self.forest.aggregate = aggregate;
        self
    }

    /// Sets the type in which splits compare. Values of a row are cast to it first.
    #[must_use]
    pub fn compare(mut self, compare: CompareType) -> Self {
        self.forest.compare = compare;
        self
    }

    /// Sets the factor that multiplies margins before the transform.
    #[must_use]
    pub fn scale(mut self, scale: f64) -> Self {
        self.forest.scale = Real(scale);
        self
    }

    /// Sets the transform from margins to values.
    #[must_use]
    pub fn transform(mut self, transform: Transform) -> Self {
        self.forest.transform = transform;
        self
    }

    /// Sets the rule that turns values into a class, and the classes' labels.
    #[must_use]
    pub fn classes(mut self, classes: Classes) -> Self {
        self.forest.classes = classes;
        self
    }

    /// Returns the columns, so that a caller can set names or categories.
    pub fn features_mut(&mut self) -> &mut [Feature] {
        &mut self.forest.features
    }

    /// Adds a set of categories for [`Predicate::InSet`], and returns its index.
    pub fn set(&mut self, members: impl IntoIterator<Item = u32>, rule: CategoryRule) -> u32 {
        self.push_set(CategorySet::new(members, rule))
    }

    /// Adds a [`CategorySet`] for [`Predicate::InSet`], and returns its index.
    pub fn push_set(&mut self, set: CategorySet) -> u32 {
        self.forest.sets.push(set);
        self.forest.sets.len() as u32 - 1
    }

    /// Sets the leaf values of all slots, in slot order, for trees whose leaf nodes name their slots already.
    pub(crate) fn leaf_values(&mut self, values: impl IntoIterator<Item = f64>) {
        self.forest.leaf_values = values.into_iter().map(Real).collect();
    }

    /// Begins a tree whose leaves hold one value each. The tree adds its leaf values to `output`.
    pub fn tree(&mut self, output: u32) -> TreeBuilder<'_> {
        self.targets.push(output);
        self.begin()
    }

    /// Begins a tree whose leaves hold one value for each output. A forest can't mix such trees with trees of
    /// [`ForestBuilder::tree`].
    pub fn vector_tree(&mut self) -> TreeBuilder<'_> {
        self.vector_leaves = true;
        self.begin()
    }

    fn begin(&mut self) -> TreeBuilder<'_> {
        self.forest.trees.push(Tree { nodes: Vec::new(), ids: Vec::new() });
        TreeBuilder {
            tree: self.forest.trees.len() - 1,
            forest: &mut self.forest,
            covers: &mut self.covers,
            gains: &mut self.gains,
        }
    }

    /// Returns the finished forest.
    ///
    /// # Errors
    /// Returns the first rule of [`Forest::verify`] that the forest breaks.
    pub fn build(self) -> Result<Forest, VerifyError> {
        self.build_measured().map(|(forest, _)| forest)
    }

    /// Returns the finished forest, and the depth of each tree in the producer's order.
    pub(crate) fn build_measured(mut self) -> Result<(Forest, Vec<u32>), VerifyError> {
        // A forest with trees of both sorts gets a list of targets that is too short, and `verified_depths`
        // refuses it.
        if !self.vector_leaves || !self.targets.is_empty() {
            self.forest.targets = Targets::One(self.targets);
        }
        // Contributions need the covers of all trees.
        let trees = self.forest.trees.len();
        self.forest.covers = of_all_trees(self.covers, trees).and_then(Covers::new);
        self.forest.gains = of_all_trees(self.gains, trees).and_then(Gains::new);
        let depths = self.forest.verified_depths()?;
        Ok((self.forest, depths))
    }

    /// Sets the covers of all trees at once.
    pub(crate) fn set_all_covers(&mut self, covers: Vec<Vec<Real>>) {
        self.covers = covers.into_iter().enumerate().collect();
    }

    /// Sets all trees at once. `targets` names the output of each tree, and is `None` if leaves hold a value
    /// for each output.
    pub(crate) fn set_all_trees(&mut self, trees: Vec<Tree>, targets: Option<Vec<u32>>) {
        self.forest.trees = trees;
        self.vector_leaves = targets.is_none();
        self.targets = targets.unwrap_or_default();
    }
}

/// Returns the numbers of all trees, or `None` if a tree has none.
fn of_all_trees(numbers: Vec<(usize, Vec<Real>)>, trees: usize) -> Option<Vec<Vec<Real>>> {
    let all = !numbers.is_empty() && numbers.iter().map(|(t, _)| *t).eq(0..trees);
    all.then(|| numbers.into_iter().map(|(_, numbers)| numbers).collect())
}

impl TreeBuilder<'_> {
    /// Reserves memory for `nodes` more nodes.
    pub fn reserve(&mut self, nodes: usize) {
        let tree = &mut self.forest.trees[self.tree];
        tree.nodes.reserve(nodes);
        tree.ids.reserve(nodes);
    }

    /// Adds a split of column `feature`, and returns the new node's number.
    pub fn split(&mut self, feature: u32, predicate: Predicate, missing: Side, left: u32, right: u32) -> u32 {
        let id = self.forest.trees[self.tree].nodes.len() as u32;
        self.push(Node::Split { feature, predicate, missing, left, right }, id)
    }

    /// Adds a leaf that the producer numbers `id`, with one value or one for each output, and returns the new
    /// node's number.
    pub fn leaf(&mut self, id: u32, values: &[f64]) -> u32 {
        let width = values.len().max(1);
        let slot = (self.forest.leaf_values.len() / width) as u32;
        self.forest.leaf_values.extend(values.iter().copied().map(Real));
        self.push(Node::Leaf { slot }, id)
    }

    /// Sets the covers of the tree's nodes, in the order of the nodes: how much of the training data reached each. A
    /// forest has covers if all of its trees have some, and if all covers are finite and not negative.
    pub fn covers(&mut self, covers: impl IntoIterator<Item = f64>) {
        self.covers.push((self.tree, covers.into_iter().map(Real).collect()));
    }

    /// Sets the gains of the tree's nodes, in the order of the nodes: how much each split improved the objective, and 0
    /// for a leaf. A forest has gains if all of its trees have some, and if all gains are finite.
    pub fn gains(&mut self, gains: impl IntoIterator<Item = f64>) {
        self.gains.push((self.tree, gains.into_iter().map(Real).collect()));
    }

    fn push(&mut self, node: Node, id: u32) -> u32 {
        let tree = &mut self.forest.trees[self.tree];
        tree.nodes.push(node);
        tree.ids.push(id);
        tree.nodes.len() as u32 - 1
    }
}
