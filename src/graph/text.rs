//! The text of a graph: a line for each input, weight, node and output.

use std::fmt;

use super::{
    model::{Graph, Operand},
    operator::Operator,
    tensor::Tensor,
};

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(at) => write!(f, "%in{at}"),
            Self::Weight(at) => write!(f, "%w{at}"),
            Self::Node(at, 0) => write!(f, "%{at}"),
            Self::Node(at, result) => write!(f, "%{at}.{result}"),
        }
    }
}

/// Writes a shape; `rows` stands for a length that may differ from batch to batch.
fn shape(lengths: impl IntoIterator<Item = Option<usize>>) -> String {
    let text = |length: Option<usize>| length.map_or("rows".to_owned(), |length| length.to_string());
    let all: Vec<_> = lengths.into_iter().map(text).collect();
    format!("[{}]", all.join(", "))
}

/// Writes what a graph's text says of a weight.
fn weight(tensor: &Tensor) -> String {
    let lengths = shape(tensor.shape().iter().map(|length| Some(*length)));
    let (density, smallest) = (100.0 * tensor.density(), tensor.smallest_dtype());
    format!("{}{lengths}, {density:.1}% filled, exact in {smallest}", tensor.dtype())
}

impl fmt::Display for Graph {
    /// Writes the graph without the elements of its weights: for each weight its type and shape, the part of
    /// elements that are not 0, and the smallest type that holds them exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, input) in self.inputs.iter().enumerate() {
            let lengths = shape(input.shape.iter().copied());
            writeln!(f, "input %in{at} `{}`: {}{lengths}", input.name, input.dtype)?;
        }
        for (at, tensor) in self.weights.iter().enumerate() {
            writeln!(f, "weight %w{at}: {}", weight(tensor))?;
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let operands: Vec<_> = node.operands.iter().map(Operand::to_string).collect();
            let operator = &node.operator;
            write!(f, "%{at} = {operator}({})", operands.join(", "))?;
            match operator {
                Operator::Cast(dtype) => write!(f, " to {dtype}")?,
                Operator::Reduce { axes, keep, .. } => write!(f, " axes {axes:?} keep {keep}")?,
                Operator::Softmax { axis }
                | Operator::Gather { axis }
                | Operator::Concat { axis }
                | Operator::GatherElements { axis }
                | Operator::CumulativeSum { axis } => {
                    write!(f, " axis {axis}")?;
                }
                Operator::ArgExtreme { axis, keep, .. } => write!(f, " axis {axis} keep {keep}")?,
                Operator::TopK { axis, k, .. } => write!(f, " axis {axis} k {k}")?,
                Operator::Reshape(lengths) => write!(f, " to {lengths:?}")?,
                Operator::Transpose(order) => write!(f, " order {order:?}")?,
                Operator::Slice { axis, start, end, step } => {
                    write!(f, " axis {axis} from {start} to {end} by {step}")?;
                }
                Operator::Unsqueeze(axes) | Operator::Squeeze(axes) => write!(f, " axes {axes:?}")?,
                Operator::CouplePairs { classes } => write!(f, " of {classes} classes")?,
                Operator::Lookup { keys, .. } => write!(f, " of {} keys", keys.len())?,
                Operator::Forest(forest) => {
                    write!(f, " of {} trees, {} outputs", forest.trees.len(), forest.outputs)?;
                }
                _ => {}
            }
            writeln!(f, "  // {}, {}", operator.kind().name(), node.name)?;
        }
        for output in &self.outputs {
            writeln!(f, "output `{}`: {}", output.name, output.operand)?;
        }
        Ok(())
    }
}
