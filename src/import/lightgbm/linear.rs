//! Trees whose leaves are linear models (`linear_tree=true`), as a graph. It adds up the leaves' models, and
//! its operators turn the sums into the objective's outputs.

use std::sync::Arc;

use super::super::budget::Budget;
use super::super::{ErrorKind, ImportError, LoadOptions, Location};
use super::lines::Fields;
use super::{damaged, tree};
use crate::forest::{ClassRule, Classes, Real, Transform};
use crate::graph::{
    Binary, Compare, Dtype, Elements, Graph, LeafModels, LinearLeaves, Operand, Operator, Tensor, Unary,
};

/// Below this margin, ln(1 + e^m) is e^m to eight digits, and the sum would lose digits.
const LEAST_SOFTPLUS: f64 = -18.0;

/// Reads the models of a tree's leaves. A tree without models has its leaf values as constants.
pub(super) fn read_models(
    fields: &Fields<'_>,
    leaves: usize,
    columns: usize,
    models: &mut LeafModels,
    budget: &mut Budget<'_>,
) -> Result<(), ImportError> {
    let is_linear = tree::is_linear(fields)?;
    // The lengths of lists are checked against the file before memory is allocated.
    let mut constants = fields.list(if is_linear { "leaf_const" } else { "leaf_value" }, leaves)?;
    let mut counts = Vec::new();
    let mut terms = 0usize;
    if is_linear {
        let mut stated = fields.list("num_features", leaves)?;
        for _ in 0..leaves {
            let (count, _) = stated.next::<u32>()?;
            terms = terms.saturating_add(count as usize);
            counts.push(count as usize);
        }
    }
    let lists = match terms {
        0 => None,
        _ => Some((fields.list("leaf_features", terms)?, fields.list("leaf_coeff", terms)?)),
    };
    budget.leaf_models(leaves, terms, || fields.location())?;
    let (mut features, mut coefficients) = lists.unzip();
    for leaf in 0..leaves {
        let (constant, at) = constants.next::<f64>()?;
        if !constant.is_finite() {
            return Err(at.error(ErrorKind::Value, format!("a leaf of {constant}")));
        }
        let mut of_leaf = Vec::new();
        for _ in 0..counts.get(leaf).copied().unwrap_or(0) {
            let (Some(features), Some(coefficients)) = (&mut features, &mut coefficients) else { break };
            let (feature, at) = features.next::<u32>()?;
            if feature as usize >= columns {
                return Err(at.error(ErrorKind::Value, format!("feature {feature} of {columns}")));
            }
            let (coefficient, at) = coefficients.next::<f64>()?;
            if !coefficient.is_finite() {
                return Err(at.error(ErrorKind::Value, format!("a coefficient of {coefficient}")));
            }
            of_leaf.push((feature, coefficient));
        }
        models.push(constant, of_leaf);
    }
    Ok(())
}

/// Returns the graph that a file with linear models describes.
pub(in super::super) fn graph(bytes: &[u8], options: &LoadOptions) -> Result<Graph, ImportError> {
    let mut models = LeafModels::default();
    let mut forest = super::read(bytes, options, Some(&mut models))?;
    if models.columns.is_empty() {
        let cause = "no leaf has a linear model: the file is a forest and no graph";
        return Err(
            ImportError::new(ErrorKind::Format, Location::File, cause).with_remedy("load it as a forest")
        );
    }
    // Operators after the trees do what a forest's epilogue does.
    let scale = std::mem::replace(&mut forest.scale, Real(1.0)).0;
    let transform = std::mem::replace(&mut forest.transform, Transform::Identity);
    let classes = std::mem::take(&mut forest.classes);
    let columns = forest.features.len();
    let leaves = LinearLeaves::new(Arc::new(forest), models)
        .map_err(|cause| damaged(ErrorKind::Structure, Location::File, cause))?;
    let mut graph = Graph::default();
    let rows = graph.input("rows", Dtype::F64, [None, Some(columns)]);
    let margins = graph.node("trees", Operator::LinearLeaves(Arc::new(leaves)), [rows]);
    let mut epilogue = Epilogue { graph };
    let scaled = match scale {
        1.0 => margins,
        _ => epilogue.with_number("scale", Binary::Multiply, margins, scale),
    };
    let values = epilogue.transform(transform, scaled)?;
    epilogue.outputs(&classes, values);
    let graph = epilogue.graph;
    graph.verify().map_err(|e| ImportError::new(ErrorKind::Structure, Location::File, e.to_string()))?;
    Ok(graph)
}

/// Adds the operators after the trees.
struct Epilogue {
    graph: Graph,
}

impl Epilogue {
    fn number(&mut self, number: f64) -> Operand {
        self.graph.weight(Tensor::new([], Elements::F64(vec![number])).expect("a number"))
    }

    fn with_number(&mut self, name: &str, how: Binary, x: Operand, number: f64) -> Operand {
        let number = self.number(number);
        self.graph.node(name, Operator::Binary(how), [x, number])
    }

    fn unary(&mut self, name: &str, how: Unary, x: Operand) -> Operand {
        self.graph.node(name, Operator::Unary(how), [x])
    }

    /// Adds the operators of a transform, and returns the values.
    fn transform(&mut self, transform: Transform, x: Operand) -> Result<Operand, ImportError> {
        Ok(match transform {
            Transform::Identity => x,
            Transform::Exp => self.unary("exponential", Unary::Exp, x),
            Transform::Sigmoid => self.unary("sigmoid", Unary::Sigmoid, x),
            Transform::Softmax => self.graph.node("softmax", Operator::Softmax { axis: 1 }, [x]),
            Transform::SignedSquare => {
                let magnitude = self.unary("magnitude", Unary::Abs, x);
                self.graph.node("signed square", Operator::Binary(Binary::Multiply), [x, magnitude])
            }
            Transform::Softplus => {
                let small = self.unary("exponential", Unary::Exp, x);
                let sum = self.with_number("softplus", Binary::Add, small, 1.0);
                let large = self.unary("softplus", Unary::Log, sum);
                let least = self.number(LEAST_SOFTPLUS);
                let is_small = self.graph.node("softplus", Operator::Compare(Compare::Less), [x, least]);
                self.graph.node("softplus", Operator::Where, [is_small, small, large])
            }
            // No objective has another transform.
            other => {
                let cause =
                    format!("linear models in leaves with the transform {other:?}, which is not supported");
                return Err(ImportError::new(ErrorKind::Unsupported, Location::File, cause)
                    .with_remedy("train with linear_tree=false"));
            }
        })
    }

    /// Adds the outputs: for a classifier the label and then the values, and otherwise only the values.
    fn outputs(&mut self, classes: &Classes, values: Operand) {
        let label = match classes.rule {
            ClassRule::None => {
                self.graph.output("value", values);
                return;
            }
            ClassRule::Largest => {
                let greatest = Operator::ArgExtreme { axis: 1, keep: false, greatest: true, last: false };
                self.graph.node("label", greatest, [values])
            }
            ClassRule::Over { threshold } => {
                let threshold = self.number(threshold.0);
                let over = self.graph.node("label", Operator::Compare(Compare::Greater), [values, threshold]);
                let over = self.graph.node("label", Operator::Cast(Dtype::I64), [over]);
                self.graph.node("label", Operator::Reshape(vec![-1]), [over])
            }
        };
        self.graph.output("label", label);
        self.graph.output("probabilities", values);
    }
}
