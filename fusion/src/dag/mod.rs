//! Directed acyclic graphs (DAGs) of linear algebra over matrices of `f64`.
//!
//! A node is an operator with its inputs. The graph keeps what plans need to know of its result: shape, format, share
//! of elements that are not 0, memory. This module holds plain data and its rules; how nodes are fused and run is for
//! other modules.
//!
//! | file | subject |
//! |---|---|
//! | `operator` | operators, their names and what they do to zeros |
//! | `functions` | exponential and logarithm |
//! | `model` | the graph, and the checks that it is valid |
//! | `sizes` | shapes, formats, filled shares and memory of results |
//! | `builder` | expressions in Rust that become a graph, each common subexpression once |
//! | `text` | the text of a graph, and its reader |
//! | `dot` | the picture of a graph, for Graphviz |

mod builder;
mod dot;
mod functions;
mod model;
mod operator;
mod sizes;
mod text;

pub use builder::{Builder, Expression};
pub use model::{Dag, Node, NodeId, Output};
pub use operator::{Aggregation, Binary, Direction, Format, Number, Operator, Unary};
pub(crate) use sizes::zero_if;
pub use sizes::{Shape, Size, bytes_of};
