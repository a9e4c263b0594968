//! Explains a graph's forests, products and types: the estimates by which they were chosen.

use super::{
    error::GraphError,
    model::Graph,
    operator::Operator,
    passes::{ForestWays, Pass, PassChange, Passes},
    tensor::Dtype,
    types::GraphTypes,
};
use crate::cost::{NumberType, PRODUCTS};

/// What [`Passes`] changed in a graph, and the estimates that decided.
///
/// ```
/// use fangorn::graph::{Graph, GraphExplanation, Passes};
///
/// let graph = Graph::parse(
///     "input %in0 \"X\": f32[rows, 2]
/// weight %w0: f32[2, 1] = [1.5, 0.0]
/// %0 \"linear\" = matmul(%in0, %w0)
/// output \"y\": %0
/// ",
/// )?;
/// let why = GraphExplanation::new(&graph, &Passes::default(), 256)?;
/// let product = &why.products[0];
/// assert_eq!((product.shape, product.filled, product.skips), ([2, 1], 1, false));
/// assert!(product.dense < product.skipping);
/// # Ok::<(), fangorn::graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct GraphExplanation {
    /// Number of rows of the batch that the estimates of forests are for.
    pub rows: usize,
    /// The forests, each with the estimates for walks and for products of matrices.
    pub forests: Vec<ForestWays>,
    /// The rewritten graph's products with a weight, each with the estimates for a dense and a sparse product.
    pub products: Vec<ProductWays>,
    /// What each pass did.
    pub changes: Vec<PassChange>,
}

/// A product with a weight, and its estimates: as a dense product, and if the weight's zeros are skipped.
#[derive(Clone, Debug, PartialEq)]
pub struct ProductWays {
    /// The name of its node.
    pub name: String,
    /// Rows and columns of the weight.
    pub shape: [usize; 2],
    /// Number of the weight's elements that are not 0.
    pub filled: usize,
    /// The type that it is computed in.
    pub dtype: Dtype,
    /// The smallest type that holds every element of the weight.
    pub smallest_type: NumberType,
    /// Estimated seconds of a row as a dense product.
    pub dense: f64,
    /// Estimated seconds of a row if zeros are skipped.
    pub skipping: f64,
    /// Whether zeros are skipped.
    pub skips: bool,
}

impl GraphExplanation {
    /// Explains the result of these passes on a graph, with estimates of forests for batches of `rows` rows.
    ///
    /// # Errors
    /// The graph does not verify.
    pub fn new(graph: &Graph, passes: &Passes, rows: usize) -> Result<Self, GraphError> {
        let (rewritten, changes) = passes.apply(graph)?;
        // The rewritten graph has lost the forests that became products. A graph without that pass has them all.
        let (with_forests, _) = passes.clone().without(Pass::Matrices).apply(graph)?;
        let forests = passes.forest_ways(&with_forests, rows);
        Ok(Self { rows, forests, products: products(&rewritten, &rewritten.types()?), changes })
    }
}

fn products(graph: &Graph, types: &GraphTypes) -> Vec<ProductWays> {
    let ways = |name: &str, shape: [usize; 2], filled, dtype, (smallest_type, skips)| ProductWays {
        name: name.to_owned(),
        shape,
        filled,
        dtype,
        smallest_type,
        dense: PRODUCTS.dense_seconds(shape),
        skipping: PRODUCTS.skipping_seconds(shape, filled),
        skips,
    };
    let of_node = |node: &super::Node| match &node.operator {
        Operator::MatMul => {
            let weight = graph.weight_of(node.operands[1])?;
            let [rows, columns] = *weight.shape() else { return None };
            let filled = weight.elements().doubles()?.iter().filter(|value| **value != 0.0).count();
            let smallest = weight.smallest_type()?;
            Some(ways(&node.name, [rows, columns], filled, weight.dtype(), (smallest, false)))
        }
        Operator::SparseMatMul(weights) => {
            let (outputs, columns) = weights.shape();
            let elements = super::Elements::F64(weights.to_dense());
            let smallest = super::Tensor::new([outputs, columns], elements)?.smallest_type()?;
            let dtype = types.of(node.operands[0]).dtype;
            Some(ways(&node.name, [columns, outputs], weights.filled(), dtype, (smallest, true)))
        }
        _ => None,
    };
    graph.nodes.iter().filter_map(of_node).collect()
}
