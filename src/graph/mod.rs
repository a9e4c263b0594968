//! Graphs of tensor operators. Classical models are read as such graphs: scalers, encoders, linear models, support
//! vector machines, forests and others.
//!
//! It is the extended computational graph (ECG) of CMLCompiler (Wen et al., ICS 2023, section 3.2): each node
//! has weights, whose density and smallest exact type are known, a kind of operator, and a type. What may come
//! in: forests, their facts and predictor, costs, and the CPU's loops and products. File formats and burn stay
//! out.
//!
//! | file | subject |
//! |---|---|
//! | `tensor` | tensors and their types |
//! | `operator` | operators and their kinds |
//! | `model` | graphs, and the check that one is whole |
//! | `types` | the type and the shape of each tensor, found before there are rows |
//! | `text`, `parse` | the text of a graph, and its reader |
//! | `dot` | the picture of a graph, for Graphviz |
//! | `passes` | rewrites that keep what a graph computes |
//! | `interpret` | the interpreter, which defines what a graph means |
//! | `explain` | the estimates by which a graph's forests, products and types were chosen |
//! | `prediction` | which outputs are a graph's predictions |
//! | `predictor` | graphs on this machine's CPU, with compiled forests |
//! | `linear_leaves` | forests whose leaves are linear models |
//! | `elementwise`, `reduce`, `arrange`, `choose`, `solve`, `impute` | what the interpreter does for each group of operators |
//! | `view` | borrowed tensors, which operators take |
//! | `rows`, `codes` | the rows of a table as a graph's inputs, and texts as numbers |
//! | `by_rows` | whether a batch can be evaluated in pieces |
//! | `networks` | convolutions, pooling, and the normalization of layers |
//! | `broadcast` | loops over tensors that are broadcast against each other |
//! | `texts`, `pattern` | operators on texts, and the regular expressions of tokenizers |

mod arrange;
mod broadcast;
mod by_rows;
mod choose;
mod codes;
mod dot;
mod elementwise;
mod error;
mod explain;
mod impute;
mod interpret;
mod linear_leaves;
mod model;
mod networks;
mod operator;
mod parse;
mod passes;
mod pattern;
mod prediction;
mod predictor;
mod reduce;
mod rows;
mod solve;
mod tensor;
mod tensor_text;
mod tensor_type;
mod text;
mod texts;
mod types;
mod view;

pub use error::GraphError;
pub use explain::{GraphExplanation, ProductWays};

pub use linear_leaves::{LeafModels, LinearLeaves};
pub use model::{Graph, GraphInput, GraphOutput, Node, Operand};
pub use networks::{Pool, Pooling, Window};
pub use operator::{Binary, Compare, Distance, Kind, Operator, Reduction, Unary};
pub use passes::{ForestWays, Pass, PassChange, Passes, skip_zeros};
pub use pattern::Pattern;
pub use prediction::Prediction;
pub use predictor::GraphPredictor;
pub use tensor::{Dtype, Elements, Tensor};
pub use tensor_type::TensorType;
pub use texts::{Case, Ngrams, Normalizer, TextOperator, Tokenizer, Tokens, Weighing};
pub use types::GraphTypes;
