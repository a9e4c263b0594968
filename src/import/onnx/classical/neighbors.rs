//! scikit-learn's imputer of the nearest rows. skl2onnx writes it as functions of the file that go through the columns one
//! by one, with branches for columns and rows that have no missing value.

use std::collections::{HashMap, HashSet};

use super::super::super::ImportError;
use super::super::proto::NodeProto;
use super::{Reader, Source, Value};
use crate::graph::{Dtype, Elements, Operator, Tensor};

/// The domain that skl2onnx gives to functions of a file.
const DOMAIN: &str = "local_domain";
/// The function that imputes a column.
const COLUMN: &str = "knn_imputer_column";
/// The function that computes the distances of rows.
const DISTANCES: &str = "dist_nan_euclidean";

/// Tells whether a node stands for the whole imputer: its inputs are the rows, whether each element of the donors is
/// missing, the donors, and the number of neighbors.
pub(super) fn is_imputer(node: &NodeProto) -> bool {
    node.domain == DOMAIN && node.op_type == COLUMN && node.input.len() == 4
}

/// Replaces the chain of functions of each imputer by one node, and leaves out nodes that then nothing reads.
pub(super) fn put_together(nodes: &mut Vec<(String, NodeProto)>, outputs: &[String]) {
    let is_column =
        |node: &NodeProto| node.domain == DOMAIN && node.op_type == COLUMN && node.input.len() == 10;
    if !nodes.iter().any(|(_, node)| is_column(node)) {
        return;
    }
    let by_output: HashMap<&str, &NodeProto> =
        nodes.iter().filter_map(|(_, node)| Some((node.output.first()?.as_str(), node))).collect();
    let source = |name: &String| by_output.get(name.as_str()).copied();
    // The inputs of a column: its index, the rows so far, the distances, which elements of the donors are there, which
    // are missing, the rows with a distance, which elements of the rows are missing, the rows that miss any, the donors,
    // and the number of neighbors.
    let mut given: HashMap<&str, &String> = HashMap::new();
    let mut whole = Vec::new();
    for (at, (_, node)) in nodes.iter().enumerate().filter(|(_, (_, node))| is_column(node)) {
        // The rows before the first column of the chain.
        let rows = given.get(node.input[1].as_str()).copied().unwrap_or(&node.input[1]);
        given.extend(node.output.first().map(|name| (name.as_str(), rows)));
        let distances = source(&node.input[2]).filter(|of| of.domain == DOMAIN && of.op_type == DISTANCES);
        let chosen = distances.and_then(|of| source(of.input.first()?)).filter(|of| of.op_type == "Gather");
        // The distances are those of the rows that miss an element.
        if chosen.and_then(|of| of.input.first()) == Some(rows) {
            let input = [rows, &node.input[4], &node.input[8], &node.input[9]].map(String::clone).to_vec();
            whole.push((at, input));
        }
    }
    for (at, input) in whole {
        nodes[at].1.input = input;
    }
    let mut wanted: HashSet<String> = outputs.iter().cloned().collect();
    let mut kept = Vec::with_capacity(nodes.len());
    for (location, node) in std::mem::take(nodes).into_iter().rev() {
        if node.output.iter().any(|name| wanted.contains(name)) {
            wanted.extend(node.input.iter().cloned());
            kept.push((location, node));
        }
    }
    kept.reverse();
    *nodes = kept;
}

impl Reader<'_> {
    /// Adds an imputer that [`put_together`] has found.
    pub(super) fn impute_neighbors(&mut self, source: &Source<'_>) -> Result<Value, ImportError> {
        let x = source.operand(0)?;
        let missing = self.constant(source, source.operand(1)?, "elements")?;
        let donors = self.constant(source, source.operand(2)?, "rows")?;
        let neighbors = self.integers(source, source.operand(3)?, "a number of neighbors")?;
        let values = donors.elements().doubles().unwrap_or_default();
        let is_missing = match missing.elements() {
            Elements::Bool(missing) if missing.len() == values.len() => missing,
            _ => return Err(source.unsupported(" of donors of another shape")),
        };
        // A number that stands for a missing value is one among the donors, too.
        let values =
            values.into_iter().zip(is_missing).map(|(value, gone)| if *gone { f64::NAN } else { value });
        let dtype = if x.dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
        let donors =
            Elements::of_doubles(dtype, values.collect()).and_then(|all| Tensor::new(donors.shape(), all));
        let donors = donors.ok_or_else(|| source.unsupported(" of donors of another type"))?;
        let donors = self.weight(donors);
        let neighbors = neighbors.first().and_then(|count| usize::try_from(*count).ok()).unwrap_or(1);
        let operator = Operator::ImputeNeighbors { neighbors, by_distance: false };
        let x = self.cast(source, x, dtype);
        Ok(self.add(source, operator, &[x, donors], dtype))
    }
}
