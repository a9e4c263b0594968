//! Forests whose leaves are linear models of the row, as LightGBM trains them with `linear_tree`.

use std::sync::Arc;

use super::{
    tensor::{Elements, Tensor},
    view::{ElementsView, TensorView},
};
use crate::forest::{Aggregate, Forest, Real, Targets, ZERO_ZONE, reference};

/// The linear models of a forest's leaves, by leaf slot, in compressed sparse rows.
///
/// [`LinearLeaves::new`] checks that they fit a forest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeafModels {
    /// The constant of each leaf.
    pub constants: Vec<Real>,
    /// For each leaf, the index of its first term; at the end, the number of terms.
    pub offsets: Vec<usize>,
    /// The column of each term.
    pub columns: Vec<u32>,
    /// The coefficient of each term.
    pub coefficients: Vec<Real>,
}

impl Default for LeafModels {
    /// Returns a list without models.
    fn default() -> Self {
        Self { constants: Vec::new(), offsets: vec![0], columns: Vec::new(), coefficients: Vec::new() }
    }
}

impl LeafModels {
    /// Adds the next leaf: its constant, and its terms as columns and coefficients.
    pub fn push(&mut self, constant: f64, terms: impl IntoIterator<Item = (u32, f64)>) {
        self.constants.push(Real(constant));
        for (column, coefficient) in terms {
            self.columns.push(column);
            self.coefficients.push(Real(coefficient));
        }
        self.offsets.push(self.columns.len());
    }

    /// Returns the terms of a leaf: columns with their coefficients.
    ///
    /// # Panics
    /// There is no such leaf.
    pub fn terms(&self, slot: usize) -> impl Iterator<Item = (u32, f64)> + '_ {
        let terms = self.offsets[slot]..self.offsets[slot + 1];
        let coefficients = self.coefficients[terms.clone()].iter().map(|c| c.0);
        self.columns[terms].iter().copied().zip(coefficients)
    }
}

/// A forest whose leaves are linear models of the row.
///
/// In each tree a row reaches a leaf, as in any forest. The tree adds the leaf's constant plus the sum of its
/// coefficients times the row's values, term by term in `f64`. If a value that a term reads is NaN, the tree adds the
/// forest's leaf value instead. Values in the [zone of zeros](ZERO_ZONE) count as 0, as they do in LightGBM. A margin
/// is the base score of its output, plus what the trees of this output add, in their order. The forest's scale,
/// transform and classes are ignored.
///
/// ```
/// use std::sync::Arc;
///
/// use fangorn::{
///     Forest,
///     forest::{CompareType, Side},
///     graph::{Dtype, Elements, Graph, LeafModels, LinearLeaves, Operator, Tensor},
/// };
///
/// let mut forest = Forest::builder(2, 1).compare(CompareType::F64);
/// let mut tree = forest.tree(0);
/// tree.split(0, CompareType::F64.at_most(0.5), Side::Left, 1, 2);
/// tree.leaf(0, &[-1.0]);
/// tree.leaf(1, &[1.0]);
/// let mut models = LeafModels::default();
/// models.push(10.0, [(1, 2.0)]); // 10 + 2 x[1], or -1 if x[1] is NaN
/// models.push(20.0, []);
/// let leaves = LinearLeaves::new(Arc::new(forest.build()?), models)?;
///
/// let mut graph = Graph::default();
/// let x = graph.input("x", Dtype::F64, [None, Some(2)]);
/// let margins = graph.node("trees", Operator::LinearLeaves(Arc::new(leaves)), [x]);
/// graph.output("margins", margins);
/// let rows = Elements::F64(vec![0.0, 3.0, 0.0, f64::NAN, 1.0, f64::NAN]);
/// let found = graph.run(&[Tensor::new([3, 2], rows).expect("three rows")])?;
/// assert_eq!(found[0].elements(), &Elements::F64(vec![16.0, -1.0, 20.0]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LinearLeaves {
    forest: Arc<Forest>,
    models: LeafModels,
}

impl LinearLeaves {
    /// Gives the leaves of a forest linear models. A leaf value of the forest replaces its model if a value that the
    /// model reads is missing.
    ///
    /// # Errors
    /// The forest does not verify, its leaves hold several values, it does not sum its trees, or the models don't fit
    /// it: the number of models is not that of leaves, lengths contradict each other, a column is not below the
    /// number of columns, or a number is not finite.
    pub fn new(forest: Arc<Forest>, models: LeafModels) -> Result<Self, String> {
        forest.verify().map_err(|e| format!("in the forest, {e}"))?;
        if forest.leaf_width() != 1 || forest.aggregate != Aggregate::Sum {
            return Err("leaves with linear models are of trees that add one value each".into());
        }
        let (leaves, terms, width) = (forest.leaf_count(), models.columns.len(), forest.features.len());
        if models.constants.len() != leaves {
            return Err(format!("{} constants for {leaves} leaves", models.constants.len()));
        }
        if models.coefficients.len() != terms {
            return Err(format!("{} coefficients for {terms} columns", models.coefficients.len()));
        }
        let offsets = &models.offsets;
        let bounds = (offsets.first(), offsets.last()) == (Some(&0), Some(&terms));
        if offsets.len() != leaves + 1 || !bounds || !offsets.is_sorted() {
            return Err(format!("its offsets don't part {terms} terms among {leaves} leaves"));
        }
        if let Some(column) = models.columns.iter().find(|column| **column as usize >= width) {
            return Err(format!("a term of column {column}, but rows have {width} columns"));
        }
        let wrong = models.constants.iter().chain(&models.coefficients).find(|v| !v.0.is_finite());
        match wrong {
            Some(wrong) => Err(format!("a model with {wrong:?}, which is not finite")),
            None => Ok(Self { forest, models }),
        }
    }

    /// Returns the forest. Its leaf values count if a value that a leaf's model reads is missing.
    pub fn forest(&self) -> &Arc<Forest> {
        &self.forest
    }

    /// Returns the models of the leaves.
    pub fn models(&self) -> &LeafModels {
        &self.models
    }

    /// Returns the margins of rows and, if `ids` is set, the leaf id of each row in each tree. `slots` finds the leaf
    /// slot that each row reaches in each tree.
    pub(super) fn evaluate(
        &self,
        rows: TensorView<'_>,
        slots: impl FnOnce(&Forest, TensorView<'_>) -> Result<Vec<u32>, String>,
        ids: bool,
    ) -> Result<[Option<Tensor>; 2], String> {
        let count = rows.shape().first().copied().unwrap_or(0);
        let (trees, outputs) = (self.forest.trees.len(), self.forest.outputs as usize);
        let reached = slots(&self.forest, rows)?;
        let margins = match rows.elements() {
            ElementsView::F64(values) => self.margins(count, values, &reached),
            ElementsView::F32(values) => self.margins(count, values, &reached),
            other => return Err(format!("it takes rows of floats, not of {}", other.dtype())),
        };
        let margins = Tensor::new([count, outputs], Elements::F64(margins)).ok_or("its margins don't fit")?;
        let ids = match ids {
            true => Some(self.ids(&reached)),
            false => None,
        };
        let ids =
            ids.map(|ids| Tensor::new([count, trees], Elements::I64(ids)).ok_or("its leaves don't fit"));
        Ok([Some(margins), ids.transpose()?])
    }

    /// Returns the margins, `count x outputs`, of rows that reach these leaf slots.
    fn margins<T: reference::Input>(&self, count: usize, rows: &[T], slots: &[u32]) -> Vec<f64> {
        let (width, trees) = (self.forest.features.len(), self.forest.trees.len());
        let mut all = Vec::with_capacity(count * self.forest.outputs as usize);
        for row in 0..count {
            let first = all.len();
            all.extend(self.forest.base_score.iter().map(|base| base.0));
            let (values, reached) = (&rows[row * width..][..width], &slots[row * trees..][..trees]);
            for (tree, slot) in reached.iter().enumerate() {
                let output = match &self.forest.targets {
                    Targets::One(outputs) => outputs[tree] as usize,
                    Targets::All => 0,
                };
                all[first + output] += self.value(*slot, values);
            }
        }
        all
    }

    /// Returns what a leaf adds to the margin of a row that reaches it.
    fn value<T: reference::Input>(&self, slot: u32, row: &[T]) -> f64 {
        let mut sum = self.models.constants[slot as usize].0;
        for (column, coefficient) in self.models.terms(slot as usize) {
            let x: f64 = row[column as usize].into();
            if x.is_nan() {
                return self.forest.leaf(slot)[0].0;
            }
            let zero = x.abs() <= f64::from(ZERO_ZONE);
            sum += coefficient * if zero { 0.0 } else { x };
        }
        sum
    }

    /// Returns the leaf id of each leaf slot in `reached`.
    fn ids(&self, reached: &[u32]) -> Vec<i64> {
        let mut of_slots = vec![0; self.forest.leaf_count()];
        for tree in &self.forest.trees {
            for (node, id) in tree.nodes.iter().zip(&tree.ids) {
                if let Some(slot) = node.slot() {
                    of_slots[slot as usize] = i64::from(*id);
                }
            }
        }
        reached.iter().map(|slot| of_slots[*slot as usize]).collect()
    }
}
