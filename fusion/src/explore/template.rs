//! The templates of fused operators (table 1), and their conditions for OFMC (section 3.2).
//!
//! | template | binds to | variants | sparse-safe |
//! |---|---|---|---|
//! | Cell | cells of a main input | no, row, column and full aggregate | if zeros of a main input in CSR stay zeros |
//! | Row | rows of a main input | those of Cell, t(X) W, X V | no: rows are read as they are held |
//! | MAgg | cells of a shared main input | several full aggregates | as Cell, for all its aggregates |
//! | Outer | elements of X, rows of U and V | W V, t(W) U, no and full aggregate | always |

use super::memo::Close;
use crate::dag::{Aggregation, Binary, Dag, Direction, Format, NodeId, Operator};

/// The most columns of the right-hand side of a product that the Row template computes for each row: beyond, a product
/// by blocks is faster than a product by rows.
pub const NARROW_COLUMNS: usize = 64;

/// The kind of a fused operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Template {
    /// Cell by cell.
    Cell,
    /// Row by row.
    Row,
    /// Several full aggregates.
    MAgg,
    /// The elements of a sparse matrix beside an outer product.
    Outer,
}

impl Template {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Cell, Self::Row, Self::MAgg, Self::Outer];

    /// Returns the letter in memo tables.
    pub fn letter(self) -> char {
        match self {
            Self::Cell => 'C',
            Self::Row => 'R',
            Self::MAgg => 'M',
            Self::Outer => 'O',
        }
    }

    /// Returns the templates of inputs that this one may take in.
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
            Self::Cell => dag.is_cellwise(node),
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

    /// Tells whether an open fused operator at an input may go on to its consumer.
    pub fn fuse(self, dag: &Dag, node: NodeId, input: NodeId) -> bool {
        self != Self::MAgg && self.merge(dag, node, input) || self.fuses_only(dag, node, input)
    }

    /// What a template fuses on the way up and does not merge on the way down.
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

    /// Tells whether an open fused operator at a consumer may take in one of its inputs.
    pub fn merge(self, dag: &Dag, node: NodeId, input: NodeId) -> bool {
        let inputs = dag.inputs(node);
        let operator = dag.operator(node);
        // A transposition is never computed; it only turns a product with what is transposed.
        if dag.transposed(input).is_some() && (*operator != Operator::MatMul || inputs[0] != input) {
            return false;
        }
        match self {
            Self::Cell => dag.is_cellwise(node) && dag.shape(node).0 == dag.shape(input).0,
            Self::Row => match operator {
                Operator::Unary(_) | Operator::Binary(_) => {
                    dag.is_cellwise(node) && dag.shape(node).0 == dag.shape(input).0 && dag.shape(node).0 > 1
                }
                Operator::Aggregate(..) => dag.shape(input).0 > 1,
                Operator::Columns { .. } => dag.shape(node).0 > 1,
                Operator::Transpose => feeds_narrow_product(dag, node),
                Operator::MatMul => {
                    let narrow = dag.shape(node).1 <= NARROW_COLUMNS && inputs[0] != inputs[1];
                    match dag.transposed(inputs[0]) {
                        // t(X) W: both X and W have the rows of the operator.
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
                    // Another full matrix may only be a factor, which can be a sparse driver.
                    let full = |at: &&NodeId| **at != input && dag.shape(**at) == dag.shape(node);
                    *binary == Binary::Multiply || inputs.iter().filter(full).count() == 0
                }
                _ => false,
            },
        }
    }

    /// Returns what becomes of a fused operator after a node, and `None` if it is closed and invalid.
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
            // An outer product pays only where a sparse matrix says which of its elements count.
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

/// Tells whether a product makes more columns and more rows than it sums over.
pub(crate) fn is_outer_product(dag: &Dag, node: NodeId) -> bool {
    let inputs = dag.inputs(node);
    *dag.operator(node) == Operator::MatMul && {
        let ((rows, rank), (_, columns)) = (dag.shape(inputs[0]), dag.shape(inputs[1]));
        rows > rank && columns > rank
    }
}

/// Tells whether a transposition is the left-hand side of a product with few columns.
fn feeds_narrow_product(dag: &Dag, node: NodeId) -> bool {
    dag.consumers(node).iter().any(|consumer| {
        let inputs = dag.inputs(*consumer);
        *dag.operator(*consumer) == Operator::MatMul
            && inputs[0] == node
            && inputs[1] != node
            && dag.shape(*consumer).1 <= NARROW_COLUMNS
    })
}
