//! Builds the forest of one tree operator without its graph, for a program that reads the graph itself, such
//! as one with a network around the trees.

use prost::Message;

use super::super::budget::Budget;
use super::super::{ErrorKind, ImportError, LoadOptions};
use super::graph::{Rows, TreeGraph};
use super::prepare::PreparationSteps;
use super::proto::{AttributeProto, ElementType, NodeProto, TensorProto};
use super::steps::{Label, Steps};
use super::{error::at, followed};
use crate::Forest;

/// The numbers of an attribute that is a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Tensor<'t> {
    /// `float`.
    Float(&'t [f32]),
    /// `double`.
    Double(&'t [f64]),
    /// `uint8`.
    Byte(&'t [u8]),
}

/// A builder for the forest of a single tree operator of the domain `ai.onnx.ml`, used by a program that
/// reads the graph around it. The program sets the operator's attributes by the standard's names and takes
/// the forest.
///
/// Rows are floats. The caller handles the operators before and after this one.
///
/// ```
/// use fangorn::import::{LoadOptions, onnx::TreeOperator};
///
/// let forest = TreeOperator::new("TreeEnsembleRegressor", "graph.node[3]")
///     .int("n_targets", 1)
///     .ints("nodes_treeids", &[0, 0, 0])
///     .ints("nodes_nodeids", &[0, 1, 2])
///     .ints("nodes_featureids", &[1, 0, 0])
///     .floats("nodes_values", &[0.5, 0.0, 0.0])
///     .strings("nodes_modes", ["BRANCH_LEQ", "LEAF", "LEAF"])
///     .ints("nodes_truenodeids", &[1, 0, 0])
///     .ints("nodes_falsenodeids", &[2, 0, 0])
///     .ints("target_ids", &[0, 0])
///     .ints("target_treeids", &[0, 0])
///     .ints("target_nodeids", &[1, 2])
///     .floats("target_weights", &[-1.0, 1.0])
///     .forest(&LoadOptions::default())?;
/// assert_eq!((forest.features.len(), forest.trees.len()), (2, 1));
/// # Ok::<(), fangorn::import::ImportError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TreeOperator {
    node: NodeProto,
    location: String,
    columns: Option<u64>,
    labelled: bool,
}

impl TreeOperator {
    /// Returns an operator without attributes. `operator` is `TreeEnsembleRegressor`,
    /// `TreeEnsembleClassifier` or `TreeEnsemble`; [`TreeOperator::forest`] refuses any other. `location` is the
    /// operator's path in messages.
    pub fn new(operator: &str, location: &str) -> Self {
        let node = NodeProto { op_type: operator.into(), ..Default::default() };
        Self { node, location: location.into(), columns: None, labelled: true }
    }

    /// Sets the number of columns of a row. Without it, a row is as wide as the largest feature number needs.
    #[must_use]
    pub fn columns(mut self, columns: usize) -> Self {
        self.columns = Some(columns as u64);
        self
    }

    /// Leaves a classifier's label out. A classifier is then read even if its labels can't be expressed as a
    /// rule on its scores.
    #[must_use]
    pub fn without_label(mut self) -> Self {
        self.labelled = false;
        self
    }

    /// Sets an attribute that is an integer.
    #[must_use]
    pub fn int(self, name: &str, i: i64) -> Self {
        self.attribute(AttributeProto { name: name.into(), i, ..Default::default() })
    }

    /// Sets an attribute that is a list of integers.
    #[must_use]
    pub fn ints(self, name: &str, ints: &[i64]) -> Self {
        self.attribute(AttributeProto { name: name.into(), ints: ints.into(), ..Default::default() })
    }

    /// Sets an attribute that is a list of floats.
    #[must_use]
    pub fn floats(self, name: &str, floats: &[f32]) -> Self {
        self.attribute(AttributeProto { name: name.into(), floats: floats.into(), ..Default::default() })
    }

    /// Sets an attribute that is a string.
    #[must_use]
    pub fn string(self, name: &str, text: &str) -> Self {
        let s = text.as_bytes().to_vec().into();
        self.attribute(AttributeProto { name: name.into(), s, ..Default::default() })
    }

    /// Sets an attribute that is a list of strings.
    #[must_use]
    pub fn strings(self, name: &str, texts: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let strings = texts.into_iter().map(|text| text.as_ref().as_bytes().to_vec().into()).collect();
        self.attribute(AttributeProto { name: name.into(), strings, ..Default::default() })
    }

    /// Sets an attribute that is a tensor of one dimension.
    #[must_use]
    pub fn tensor(self, name: &str, numbers: Tensor<'_>) -> Self {
        let (data_type, count, raw): (i32, usize, Vec<u8>) = match numbers {
            Tensor::Float(v) => (1, v.len(), v.iter().flat_map(|v| v.to_le_bytes()).collect()),
            Tensor::Double(v) => (11, v.len(), v.iter().flat_map(|v| v.to_le_bytes()).collect()),
            Tensor::Byte(v) => (2, v.len(), v.to_vec()),
        };
        let tensor =
            TensorProto { dims: vec![count as i64], data_type, raw_data: raw.into(), ..Default::default() };
        let t = tensor.encode_to_vec().into();
        self.attribute(AttributeProto { name: name.into(), t, ..Default::default() })
    }

    fn attribute(mut self, attribute: AttributeProto) -> Self {
        self.node.attribute.push(attribute.encode_to_vec().into());
        self
    }

    /// Returns the operator's forest. Its values are the operator's scores, its classes the operator's
    /// labels.
    ///
    /// # Errors
    /// Fails if [`parse`](super::super::parse) would refuse the same operator in a file.
    pub fn forest(self, options: &LoadOptions) -> Result<Forest, ImportError> {
        let Self { node, location, columns, labelled } = self;
        let known = ["TreeEnsembleRegressor", "TreeEnsembleClassifier", "TreeEnsemble"];
        if !known.contains(&node.op_type.as_str()) {
            let cause = format!("operator {} is no tree ensemble", node.op_type);
            let remedy = format!("give {}, {} or {}", known[0], known[1], known[2]);
            return Err(at(ErrorKind::Unsupported, location, cause).with_remedy(remedy));
        }
        if options.iteration_range.is_some() {
            let cause = "an ONNX graph does not tell boosting rounds apart";
            return Err(at(ErrorKind::Options, "iteration_range", cause).with_remedy("load the whole model"));
        }
        let label = labelled && node.op_type == "TreeEnsembleClassifier";
        let float = ElementType::Float;
        let prepared = PreparationSteps::default();
        let rows = Rows { given: float, single: true, columns, raw: (float, columns), prepared };
        let label = label.then_some(Label { largest_after: None, names: None });
        let scores = Some(Steps::default());
        followed(
            TreeGraph { operator: node, location, rows, scores, label },
            "",
            Budget::new(&options.limits),
        )
    }
}
