//! Tree ensembles among other operators.

use std::sync::Arc;

use super::super::super::{ImportError, budget::Budget};
use super::super::{
    graph::{Rows, TreeGraph},
    prepare::PreparationSteps,
    proto::ElementType,
    steps::{Label, Steps},
};
use super::standard::second;
use super::{Reader, Source, Value};
use crate::{
    forest::{Aggregate, Forest, Real, Targets, Transform},
    graph::{Binary, Dtype, Elements, LeafModels, LinearLeaves, Operator, Reduction, Tensor},
};

impl Reader<'_> {
    /// Adds a forest whose scores are doubles. If scores are sums, they are summed in doubles, and otherwise
    /// they are cast from `f32`.
    fn scores_in_doubles(&mut self, source: &Source<'_>, forest: Forest, x: Value) -> Value {
        let sums = forest.aggregate == Aggregate::Sum
            && forest.transform == Transform::Identity
            && forest.scale == Real(1.0);
        let forest = Arc::new(forest);
        let double = |values: &[Real]| Elements::F64(values.iter().map(|value| value.0).collect());
        let outputs = forest.outputs as usize;
        match forest.targets {
            Targets::One(_) if sums => {
                // Each leaf gets a model that is a constant.
                let mut constants = LeafModels::default();
                forest.leaf_values.iter().for_each(|value| constants.push(value.0, []));
                if let Ok(leaves) = LinearLeaves::new(forest.clone(), constants) {
                    return self.add(source, Operator::LinearLeaves(Arc::new(leaves)), &[x], Dtype::F64);
                }
            }
            Targets::All if sums => {
                let leaves = Tensor::new([forest.leaf_count(), outputs], double(&forest.leaf_values));
                let base = Tensor::new([outputs], double(&forest.base_score));
                if let (Some(leaves), Some(base)) = (leaves, base) {
                    let (leaves, base) = (self.weight(leaves), self.weight(base));
                    let slots = self.add(source, Operator::LeafSlots(forest), &[x], Dtype::I64);
                    let found = self.add(source, Operator::Gather { axis: 0 }, &[leaves, slots], Dtype::F64);
                    let sum = Operator::Reduce { how: Reduction::Sum, axes: vec![1], keep: false };
                    let sum = self.add(source, sum, &[found], Dtype::F64);
                    return self.add(source, Operator::Binary(Binary::Add), &[sum, base], Dtype::F64);
                }
            }
            _ => {}
        }
        let values = self.add(source, Operator::Forest(forest), &[x], Dtype::F32);
        self.cast(source, values, Dtype::F64)
    }

    /// Adds a forest. A classifier returns its labels and its scores, a regressor its values.
    pub(super) fn forest(
        &mut self,
        source: &mut Source<'_>,
        classifier: bool,
    ) -> Result<Vec<Value>, ImportError> {
        let mut x = source.operand(0)?;
        let given = match x.dtype {
            Dtype::F32 => ElementType::Float,
            Dtype::F64 => ElementType::Double,
            Dtype::Text => return Err(source.unsupported(" on texts")),
            _ => {
                x = self.cast(source, x, Dtype::F32);
                ElementType::Float
            }
        };
        let rows = Rows {
            given,
            single: given == ElementType::Float,
            columns: None,
            raw: (given, None),
            prepared: PreparationSteps::default(),
        };
        let graph = TreeGraph {
            operator: source.node.clone(),
            location: source.location.to_owned(),
            rows,
            scores: Some(Steps::default()),
            label: classifier.then_some(Label { largest_after: None, names: None }),
        };
        let labels = if classifier { Some(self.labels(source)?) } else { None };
        let forest = super::super::followed(graph, "", Budget::new(&self.options.limits))?;
        // Rows may be wider than the columns that the trees read.
        let width = forest.features.len() as i64;
        let x = self.add(source, Operator::Slice { axis: 1, start: 0, end: width, step: 1 }, &[x], x.dtype);
        let doubles = source.node.op_type == "TreeEnsemble" && x.dtype == Dtype::F64;
        let values = match doubles {
            true => self.scores_in_doubles(source, forest, x),
            false => self.add(source, Operator::Forest(Arc::new(forest)), &[x], Dtype::F32),
        };
        match labels {
            Some(labels) => {
                let label = self.label(source, second(values, Dtype::I64), labels);
                Ok(vec![label, values])
            }
            None => Ok(vec![values]),
        }
    }
}
