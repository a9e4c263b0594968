//! The templates of fused operators (Boehm et al., VLDB 2018, table 1), and when each may open, fuse, merge and close
//! (OFMC, section 3.2).
//!
//! | template | binds to | variants | sparse-safe |
//! |---|---|---|---|
//! | Cell | elements of a main input | no aggregate, or one per row, per column or of all | if zeros in CSR give 0 |
//! | Row | rows of a main input | those of Cell, t(X) W, X V | no: rows are read in their stored format |
//! | MAgg | elements of a shared main input | several aggregates of all elements | as Cell, for all its aggregates |
//! | Outer | elements of a sparse X, rows of U and V | W V, t(W) U, no aggregate, or one of all | always |
//!
//! In the last line, W is what the operator computes for the elements of X. An operator that is sparse-safe skips the
//! zeros of its main input.

use super::memo::Close;
use crate::dag::{Aggregation, Binary, Dag, Direction, Format, NodeId, Operator};

/// The maximum number of columns of a matrix product that Row and Outer operators take in. A blocked product is faster
/// for a wider one.
pub const NARROW_COLUMNS: usize = 64;

/// The kind of a fused operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Template {
    /// Works element by element.
    Cell,
    /// Works row by row.
    Row,
    /// Computes several aggregates of all elements in one pass.
    MAgg,
    /// Works on the elements of a sparse matrix, and computes an outer product only there.
    Outer,
}

impl Template {
    /// All templates.
    pub const ALL: [Self; 4] = [Self::Cell, Self::Row, Self::MAgg, Self::Outer];

    /// Returns the letter that stands for the template in the text of a memo table.
    pub fn letter(self) -> char {
        match self {
            Self::Cell => 'C',
            Self::Row => 'R',
            Self::MAgg => 'M',
            Self::Outer => 'O',
        }
    }

    /// Returns the templates that may be open at an input if this template is to merge with it.
    pub fn merges_with(self) -> &'static [Self] {
        match self {
            Self::Cell | Self::MAgg => &[Self::Cell],
            Self::Row => &[Self::Row, Self::Cell],
            Self::Outer => &[Self::Outer, Self::Cell],
        }
    }

    /// Tells whether a fused operator of this template may start at a node, reading the node's inputs from memory.
    pub fn open(self, dag: &Dag, node: NodeId) -> bool {
        let inputs = dag.inputs(node);
        let operator = dag.operator(node);
        match self {
            Self::Cell => dag.is_elementwise(node),
            Self::Row => match operator {
                Operator::MatMul => {
                    dag.transposed(inputs[0]).is_none()
                        && is_matrix(dag, inputs[0])
                        && dag.shape(node).1 <= NARROW_COLUMNS
                }
                Operator::Transpose => is_matrix(dag, node) && feeds_narrow_product(dag, node),
                Operator::Aggregate(_, Direction::Row | Direction::Column) => is_matrix(dag, inputs[0]),
                Operator::Columns { .. } => dag.shape(node).0 > 1,
                _ => false,
            },
            Self::MAgg => {
                matches!(operator, Operator::Aggregate(_, Direction::Full)) && dag.shape(inputs[0]) != (1, 1)
            }
            Self::Outer => is_outer_product(dag, node),
        }
    }

    /// Tells whether a fused operator that is open at `input` may take in its consumer `node`.
    pub fn fuse(self, dag: &Dag, node: NodeId, input: NodeId) -> bool {
        self != Self::MAgg && self.merge(dag, node, input) || self.fuses_only(dag, node, input)
    }

    /// Tells whether `fuse` allows a pair of node and input that `merge` does not.
    fn fuses_only(self, dag: &Dag, node: NodeId, input: NodeId) -> bool {
        let inputs = dag.inputs(node);
        match (self, dag.operator(node)) {
            (Self::Cell, Operator::Aggregate(..)) => dag.shape(input) != (1, 1),
            (Self::Outer, Operator::Aggregate(aggregation, Direction::Full)) => {
                matches!(aggregation, Aggregation::Sum | Aggregation::SumOfSquares)
                    && dag.transposed(input).is_none()
            }
            (Self::Outer, Operator::MatMul) => {
                inputs[0] == input && inputs[1] != input && dag.shape(node).1 <= NARROW_COLUMNS
            }
            (Self::Outer, Operator::Transpose) => feeds_narrow_product(dag, node),
            _ => false,
        }
    }

    /// Tells whether a fused operator at `node` may take in its input `input`.
    pub fn merge(self, dag: &Dag, node: NodeId, input: NodeId) -> bool {
        let inputs = dag.inputs(node);
        let operator = dag.operator(node);
        // A fused operator never computes a transposition: it takes one in only as the left-hand side of a product,
        // `t(X) W`.
        if dag.transposed(input).is_some() && (*operator != Operator::MatMul || inputs[0] != input) {
            return false;
        }
        match self {
            Self::Cell => dag.is_elementwise(node) && dag.shape(node).0 == dag.shape(input).0,
            Self::Row => match operator {
                Operator::Unary(_) | Operator::Binary(_) => {
                    dag.is_elementwise(node)
                        && dag.shape(node).0 == dag.shape(input).0
                        && dag.shape(node).0 > 1
                }
                Operator::Aggregate(..) => dag.shape(input).0 > 1,
                Operator::Columns { .. } => dag.shape(node).0 > 1,
                Operator::Transpose => feeds_narrow_product(dag, node),
                Operator::MatMul => {
                    let narrow = dag.shape(node).1 <= NARROW_COLUMNS && inputs[0] != inputs[1];
                    match dag.transposed(inputs[0]) {
                        // In t(X) W the operator goes through the rows of X and W together, so it may take in either.
                        Some(turned) => narrow && dag.shape(turned).0 > 1,
                        None => narrow && inputs[0] == input && dag.shape(node).0 > 1,
                    }
                }
                _ => false,
            },
            Self::MAgg => matches!(operator, Operator::Aggregate(_, Direction::Full)),
            Self::Outer => match operator {
                Operator::Unary(_) => true,
                Operator::Binary(binary) if dag.shape(node) == dag.shape(input) => {
                    // If the other operand has the shape of the result, only a multiplication is fused: the other
                    // operand can then be the sparse driver.
                    let full = |at: &&NodeId| **at != input && dag.shape(**at) == dag.shape(node);
                    *binary == Binary::Multiply || inputs.iter().filter(full).count() == 0
                }
                _ => false,
            },
        }
    }

    /// Returns the close status of a fused operator at a node, or `None` if it is closed and invalid. `fuses` says
    /// whether the operator fuses an input of the node.
    pub fn close(self, dag: &Dag, node: NodeId, fuses: bool) -> Option<Close> {
        let inputs = dag.inputs(node);
        let operator = dag.operator(node);
        let is_sparse = |node: NodeId| dag.size(node).format == Format::Csr;
        match self {
            Self::Cell if matches!(operator, Operator::Aggregate(..)) => Some(Close::ClosedValid),
            Self::Cell => Some(Close::OpenValid),
            Self::MAgg => Some(Close::ClosedValid),
            Self::Row => Some(match operator {
                Operator::Aggregate(_, Direction::Column | Direction::Full) => Close::ClosedValid,
                Operator::MatMul if dag.transposed(inputs[0]).is_some() => Close::ClosedValid,
                Operator::Transpose => Close::OpenInvalid,
                _ => Close::OpenValid,
            }),
            // An outer product is fused only if a sparse matrix limits it to some of its elements.
            Self::Outer => match operator {
                Operator::MatMul if !fuses => Some(Close::OpenInvalid),
                Operator::MatMul | Operator::Aggregate(..) => {
                    is_sparse(inputs[0]).then_some(Close::ClosedValid)
                }
                Operator::Transpose => Some(Close::OpenInvalid),
                _ if is_sparse(node) => Some(Close::OpenValid),
                _ => Some(Close::OpenInvalid),
            },
        }
    }
}

fn is_matrix(dag: &Dag, node: NodeId) -> bool {
    let (rows, columns) = dag.shape(node);
    rows > 1 && columns > 1
}

/// Tells whether a node is a matrix product whose result has more rows and more columns than the common dimension.
pub(crate) fn is_outer_product(dag: &Dag, node: NodeId) -> bool {
    let inputs = dag.inputs(node);
    *dag.operator(node) == Operator::MatMul && {
        let ((rows, inner), (_, columns)) = (dag.shape(inputs[0]), dag.shape(inputs[1]));
        rows > inner && columns > inner
    }
}

/// Tells whether a transposition is the left-hand side of a product with at most `NARROW_COLUMNS` columns.
fn feeds_narrow_product(dag: &Dag, node: NodeId) -> bool {
    dag.consumers(node).iter().any(|consumer| {
        let inputs = dag.inputs(*consumer);
        *dag.operator(*consumer) == Operator::MatMul
            && inputs[0] == node
            && inputs[1] != node
            && dag.shape(*consumer).1 <= NARROW_COLUMNS
    })
}
