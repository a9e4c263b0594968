//! Directed acyclic graphs (DAGs) of linear algebra over matrices of `f64`.
//!
//! A node is an operator with its inputs, and everything that plans need to know of its result: shape, format, filled
//! share, memory. What may come in: plain data and its rules. How nodes are fused and run stays out.
//!
//! | file | subject |
//! |---|---|
//! | `operator` | operators, their names and what they do to zeros |
//! | `model` | the graph, and whether one is whole |
//! | `sizes` | shapes, formats, filled shares and memory of results |
//! | `builder` | expressions in Rust that become a graph, each common subexpression once |
//! | `text` | the text of a graph, and its reader |
//! | `dot` | the picture of a graph, for Graphviz |

mod builder;
mod dot;
mod model;
mod operator;
mod sizes;
mod text;

pub use builder::{Builder, Expression};
pub use model::{Dag, Node, NodeId, Output};
pub use operator::{Aggregation, Binary, Direction, Format, Number, Operator, Unary};
pub(crate) use sizes::zero_if;
pub use sizes::{Shape, Size, bytes_of};
