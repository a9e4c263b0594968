//! Runs of plans on the CPU, with the threads of rayon.
//!
//! An operator, fused or basic, is a register program: the covered nodes in order, each with a register. The program
//! runs on a tile of rows whose registers fit the cache, or on a batch of the elements of a sparse driver. It depends
//! on graphs, plans and matrices; choosing plans is for another module.
//!
//! | file | subject |
//! |---|---|
//! | `kernels` | loops over elements, one for each operator |
//! | `narrow` | products with few columns |
//! | `tiles` | programs over tiles of rows |
//! | `groups` | products over the column groups of a compressed matrix |
//! | `tuples` | programs over the distinct tuples of a compressed matrix |
//! | `elements` | programs over the elements of a sparse driver |
//! | `blocks` | runs over the row blocks of a matrix that is larger than memory |
//! | `block_operator` | an operator over row blocks, with what it needs besides |
//! | `sent` | such operators and their results, as bytes for another process |

mod block_operator;
mod blocks;
mod elements;
mod groups;
mod kernels;
mod narrow;
mod sent;
mod tiles;
mod tuples;

use std::collections::HashMap;

use crate::{
    Bindings, FusionError, Matrix,
    dag::{Dag, NodeId, Operator},
    matrix::bound,
    select::{Plan, PlannedOperator},
};

pub use block_operator::{BlockOperator, BlockParts};
pub use blocks::{MatrixBlocks, RowBlocks};

/// The maximum size of a result of a run, in bytes.
const LIMIT: u64 = 1 << 36;

/// Results of operators, by node.
type Values = HashMap<NodeId, Matrix>;

impl Plan {
    /// Computes the outputs of the graph that the plan was made for, by name.
    ///
    /// ```
    /// use fangorn_fusion::{
    ///     Bindings, Matrix,
    ///     dag::Builder,
    ///     select::{Costs, Plan, Policy},
    /// };
    ///
    /// let builder = Builder::new();
    /// let (x, v) = (builder.dense("X", 2, 2), builder.dense("v", 2, 1));
    /// builder.output("gradient", x.transpose().matmul(x.matmul(v)));
    /// let dag = builder.finish()?;
    /// let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
    /// let bindings = Bindings::from([
    ///     ("X".to_owned(), Matrix::dense((2, 2), vec![1.0, 2.0, 3.0, 4.0]).expect("four elements")),
    ///     ("v".to_owned(), Matrix::dense((2, 1), vec![1.0, 1.0]).expect("two elements")),
    /// ]);
    /// assert_eq!(plan.run(&dag, &bindings)?["gradient"].to_dense(), [24.0, 34.0]);
    /// # Ok::<(), fangorn_fusion::FusionError>(())
    /// ```
    ///
    /// # Errors
    /// An input is missing or of another shape or format, or a result takes more than 64 GiB.
    pub fn run(&self, dag: &Dag, bindings: &Bindings) -> Result<HashMap<String, Matrix>, FusionError> {
        let mut values: Values = bound(dag, bindings)?;
        values.extend(literals(dag));
        for (at, operator) in self.operators().iter().enumerate() {
            let root = operator.roots[0];
            if *dag.operator(root) != Operator::Transpose || !is_only_viewed(self, dag, root) {
                let made = compute(dag, operator, &values)?;
                values.extend(made);
            }
            self.forget(dag, at, &mut values);
        }
        Ok(outputs_of(dag, &values))
    }

    /// Drops results that no later operator reads.
    fn forget(&self, dag: &Dag, at: usize, values: &mut Values) {
        let later = &self.operators()[at + 1..];
        let reads = |operator: &PlannedOperator, node: NodeId| {
            operator.inputs.contains(&node)
                || operator.inputs.iter().any(|input| dag.transposed(*input) == Some(node))
        };
        for input in &self.operators()[at].inputs {
            if !dag.is_source(*input)
                && !dag.is_output(*input)
                && !later.iter().any(|operator| reads(operator, *input))
            {
                values.remove(input);
            }
        }
    }
}

/// Returns the literals of a graph.
fn literals(dag: &Dag) -> impl Iterator<Item = (NodeId, Matrix)> {
    (0..dag.nodes().len()).filter_map(|node| Some((node, Matrix::dense((1, 1), vec![dag.literal(node)?])?)))
}

/// Returns the outputs of a graph, by name.
fn outputs_of(dag: &Dag, values: &Values) -> HashMap<String, Matrix> {
    let outputs = dag.outputs().iter();
    outputs.filter_map(|output| Some((output.name.clone(), values.get(&output.node)?.clone()))).collect()
}

/// Computes the results of an operator.
fn compute(dag: &Dag, operator: &PlannedOperator, values: &Values) -> Result<Values, FusionError> {
    for root in &operator.roots {
        let bytes = (8.0 * dag.size(*root).elements()) as u64;
        if bytes > LIMIT && dag.size(*root).bytes() as u64 > LIMIT {
            return Err(FusionError::Memory { node: *root, bytes, limit: LIMIT });
        }
    }
    let root = operator.roots[0];
    if *dag.operator(root) == Operator::Transpose {
        return Ok(Values::from([(root, kernels::transpose(&values[&dag.inputs(root)[0]]))]));
    }
    let distinct = operator.distinct(dag).and_then(|input| values.get(&input));
    Ok(match distinct {
        Some(Matrix::Compressed(matrix)) => tuples::run(dag, operator, values, matrix).into_iter().collect(),
        _ if operator.driver.is_some() => elements::run(dag, operator, values).into_iter().collect(),
        _ => tiles::run(dag, operator, values).into_iter().collect(),
    })
}

/// Tells whether all operators of a plan use a transposition only as the left-hand side of a product: they then read what
/// is transposed.
fn is_only_viewed(plan: &Plan, dag: &Dag, node: NodeId) -> bool {
    !dag.is_output(node)
        && plan.operators().iter().filter(|operator| operator.inputs.contains(&node)).all(|operator| {
            let takes = |covered: &&NodeId| dag.inputs(**covered).contains(&node);
            operator.covered.iter().filter(takes).all(|covered| views(dag, operator, *covered, node))
        })
}

/// Tells whether an operator reads what is transposed instead of the transposition, which is an input of a covered
/// node.
fn views(dag: &Dag, operator: &PlannedOperator, covered: NodeId, transposition: NodeId) -> bool {
    let inputs = dag.inputs(covered);
    *dag.operator(covered) == Operator::MatMul
        && inputs[0] != inputs[1]
        && inputs[0] == transposition
        && operator.driver.is_none()
}
