//! The estimated time of operators, in seconds (section 4.3, equation 4).

use fangorn::cost::{THROUGHPUT, Throughput};

use super::operator::{PlannedOperator, flops};
use crate::{
    dag::{Dag, NodeId, Operator},
    explore::Template,
};

/// The speed and the limits of a machine, for which plans are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Memory that all threads together read, in bytes a second.
    pub read: f64,
    /// Memory that all threads together write, in bytes a second.
    pub write: f64,
    /// Floating-point operations of all threads together, a second.
    pub compute: f64,
    /// The maximum memory of an operator's inputs and results, in bytes. An operator with more reads its largest input in
    /// row blocks. It has infinite cost without `blocks`, or if the rest exceeds the memory, too.
    pub memory: f64,
    /// How inputs are read that memory has no room for, if they are.
    pub blocks: Option<BlockCosts>,
    /// The maximum memory of one row of a Row operator with its intermediates, in bytes. An operator with more has
    /// infinite cost.
    pub row: f64,
}

/// Bandwidths of an operator whose largest input is read in row blocks, from files or by several machines (section 5.5).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockCosts {
    /// Bytes of row blocks that are read in a second. More than [`Costs::read`] counts as that.
    pub read: f64,
    /// Bytes of the other inputs that reach whoever reads blocks in a second, and bytes of results that come back. More than
    /// [`Costs::read`] or [`Costs::write`] counts as that.
    pub broadcast: f64,
}

impl Default for Costs {
    /// The [shipped throughput](THROUGHPUT). The example `bandwidth` measures that of your machine.
    fn default() -> Self {
        let Throughput { read, write, compute } = THROUGHPUT;
        Self { read, write, compute, memory: f64::INFINITY, blocks: None, row: 8e6 }
    }
}

impl Costs {
    /// Tells whether an operator reads an input in row blocks: memory has no room for its inputs and results, and there are
    /// [`blocks`](Self::blocks).
    pub fn reads_blocks(&self, dag: &Dag, operator: &PlannedOperator) -> bool {
        self.blocks.is_some() && held(dag, operator) > self.memory
    }

    /// Returns the estimated time of an operator in seconds: that of writing its results, plus the greater of reading
    /// and computing, which overlap. Results from row blocks are written as they come back. Elements that a sparse driver
    /// skips are neither read nor computed. Of a compressed matrix that the operator reads alone, it computes as many
    /// elements as the dictionaries may hold. The time is infinite if the operator exceeds `row`, or `memory` without its
    /// largest input or without `blocks`.
    pub fn operator(&self, dag: &Dag, operator: &PlannedOperator) -> f64 {
        let space = operator.space(dag);
        let scale = operator.driver.map_or(1.0, |driver| dag.size(driver).filled);
        let in_space = |node: NodeId| dag.shape(node) == space && space != (1, 1);
        let distinct = operator.distinct(dag).map_or(1.0, |input| dag.size(input).distinct());
        let read = |input: &NodeId| {
            let skips = Some(*input) != operator.driver && in_space(*input);
            dag.size(*input).bytes() * if skips { scale } else { 1.0 }
        };
        let compute: f64 = operator
            .covered
            .iter()
            .map(|node| {
                // For a left-hand side in CSR, `flops` counts only the stored elements already.
                let over_space = in_space(*node) || matches!(dag.operator(*node), Operator::Aggregate(..));
                flops(dag, *node) * distinct * if over_space { scale } else { 1.0 }
            })
            .sum();
        let write: f64 = operator.roots.iter().map(|root| dag.size(*root).bytes()).sum();
        // A transposition that it covers is only viewed: it has no row of its own.
        let rows = operator.covered.iter().filter(|node| dag.transposed(**node).is_none());
        let row: f64 = rows.map(|node| 8.0 * dag.shape(*node).1 as f64).sum();
        if operator.template == Some(Template::Row) && row > self.row {
            return f64::INFINITY;
        }
        let bytes = |input: &&NodeId| dag.size(**input).bytes();
        let (reading, writing) = match self.blocks {
            _ if held(dag, operator) <= self.memory => {
                (operator.inputs.iter().map(read).sum::<f64>() / self.read, write / self.write)
            }
            None => return f64::INFINITY,
            Some(blocks) => {
                // A transposition is read as what is transposed.
                let matrix = |input: &NodeId| dag.transposed(*input).unwrap_or(*input);
                let largest = operator.inputs.iter().max_by(|a, b| bytes(a).total_cmp(&bytes(b))).map(matrix);
                let is_rest = |input: &&NodeId| Some(matrix(input)) != largest;
                // Products view a transposition; nothing is written.
                let is_view = *dag.operator(operator.roots[0]) == Operator::Transpose;
                let write = if is_view { 0.0 } else { write };
                let others = operator.inputs.iter().filter(is_rest).map(|input| bytes(&input));
                if others.sum::<f64>() + write > self.memory {
                    return f64::INFINITY;
                }
                let speed = |input| if is_rest(&input) { blocks.broadcast } else { blocks.read };
                let reading = operator.inputs.iter().map(|input| read(input) / speed(input).min(self.read));
                (reading.sum(), write / blocks.broadcast.min(self.write))
            }
        };
        writing + reading.max(compute / self.compute)
    }
}

/// Returns the memory of an operator's inputs and results, in bytes.
fn held(dag: &Dag, operator: &PlannedOperator) -> f64 {
    operator.inputs.iter().chain(&operator.roots).map(|node| dag.size(*node).bytes()).sum()
}
