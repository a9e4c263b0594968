//! Graphs of tensor operators, which classical models become: scalers, encoders, linear models, support vector
//! machines, and forests among them.
//!
//! It is the extended computational graph (ECG) of CMLCompiler (Wen et al., ICS 2023, section 3.2): each node
//! has weights, whose density and smallest exact type are known, a kind of operator, and a type. What may come
//! in: forests and their predictor. File formats and burn stay out.
//!
//! | file | subject |
//! |---|---|
//! | `tensor` | tensors and their types |
//! | `operator` | operators and their kinds |
//! | `model` | graphs, and whether one is whole |
//! | `text` | the text of a graph |
//! | `interpret` | the interpreter, which defines what a graph means |
//! | `predictor` | graphs on this machine's CPU, with compiled forests |
//! | `elementwise`, `reduce`, `arrange` | what the interpreter does for each group of operators |

mod arrange;
mod elementwise;
mod interpret;
mod model;
mod operator;
mod predictor;
mod reduce;
mod tensor;
mod text;

pub use interpret::GraphError;
pub use model::{Graph, GraphInput, GraphOutput, Node, Operand};
pub use operator::{Binary, Compare, Distance, Kind, Operator, Reduction, Unary};
pub use predictor::GraphPredictor;
pub use tensor::{Dtype, Elements, Tensor};
