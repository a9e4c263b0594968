//! Whether a batch can be evaluated in parts: each output has a slice for each row, which depends on that row alone.

use super::{
    model::{Graph, Node, Operand},
    operator::Operator,
    reduce::axis_of,
    types::GraphTypes,
};

/// Returns whether the outputs of a part of a batch are that part of the batch's outputs. A graph for which this is not
/// known counts as one for which it is not so.
pub(super) fn goes_by_rows(graph: &Graph, types: &GraphTypes) -> bool {
    if graph.inputs.iter().any(|input| input.shape.first() != Some(&None)) {
        return false;
    }
    // For each node, whether its results have a slice for each row.
    let mut nodes: Vec<bool> = Vec::with_capacity(graph.nodes.len());
    for (at, node) in (0u32..).zip(&graph.nodes) {
        let rows = Rows { types, nodes: &nodes };
        let has_rows = node.operands.iter().any(|operand| rows.are_in(*operand));
        if has_rows && rows.stay(node, Operand::Node(at, 0)) != Some(true) {
            return false;
        }
        nodes.push(has_rows);
    }
    let rows = Rows { types, nodes: &nodes };
    graph.outputs.iter().all(|output| rows.are_in(output.operand))
}

/// Where the rows of a batch are the first dimension.
struct Rows<'g> {
    types: &'g GraphTypes,
    nodes: &'g [bool],
}

impl Rows<'_> {
    /// Returns whether a tensor has a slice for each row.
    fn are_in(&self, operand: Operand) -> bool {
        match operand {
            Operand::Input(_) => true,
            Operand::Weight(_) => false,
            Operand::Node(at, _) => self.nodes[at as usize],
        }
    }

    /// Returns whether the results of a node have a slice for each row, too; `None` where too little is known. Some of
    /// its operands have one.
    fn stay(&self, node: &Node, result: Operand) -> Option<bool> {
        let shape = |operand: Operand| self.types.of(operand).shape.as_deref();
        let dimensions = |operand: Operand| Some(shape(operand)?.len());
        let x = node.operands[0];
        let second = node.operands.get(1).copied();
        let is_inner = |axis: i64| Some(axis_of(axis, dimensions(x)?).ok()? != 0);
        let all_inner = |axes: &[i64]| axes.iter().try_fold(true, |all, axis| Some(all & is_inner(*axis)?));
        let is_weight = |operand: Option<Operand>| operand.is_some_and(|operand| !self.are_in(operand));
        match &node.operator {
            Operator::Unary(_)
            | Operator::Cast(_)
            | Operator::Lookup { .. }
            | Operator::CouplePairs { .. }
            | Operator::Pool(_)
            | Operator::Forest(_)
            | Operator::LeafSlots(_)
            | Operator::LinearLeaves(_) => Some(true),
            // What has no rows is the same for all of them.
            Operator::Binary(_) | Operator::Compare(_) | Operator::Where => {
                let all = dimensions(result)?;
                node.operands.iter().try_fold(true, |so_far, operand| {
                    let own = shape(*operand)?;
                    let fits = match self.are_in(*operand) {
                        true => own.len() == all,
                        false => own.len() < all || own[0] == Some(1),
                    };
                    Some(so_far && fits)
                })
            }
            Operator::MatMul if is_weight(second) => Some(dimensions(x)? >= 2 && dimensions(second?)? <= 2),
            Operator::MatMul => {
                Some(self.are_in(x) && dimensions(x)? >= 3 && dimensions(x)? == dimensions(second?)?)
            }
            Operator::Convolve { .. } => Some(node.operands[1..].iter().all(|weight| !self.are_in(*weight))),
            Operator::LayerNorm { .. } => {
                Some(dimensions(x)? >= 2 && node.operands[1..].iter().all(|weight| !self.are_in(*weight)))
            }
            Operator::SparseMatMul(_) => Some(dimensions(x)? >= 2),
            Operator::Distances(_) => Some(is_weight(second)),
            Operator::Reduce { axes, .. } => Some(!axes.is_empty() && all_inner(axes)?),
            Operator::Softmax { axis }
            | Operator::CumulativeSum { axis }
            | Operator::ArgExtreme { axis, .. }
            | Operator::TopK { axis, .. }
            | Operator::Slice { axis, .. } => is_inner(*axis),
            Operator::Gather { axis } if self.are_in(x) => Some(is_weight(second) && is_inner(*axis)?),
            Operator::Gather { axis } => Some(!is_inner(*axis)? && dimensions(second?)? >= 1),
            Operator::GatherElements { axis } => {
                Some(self.are_in(x) && !is_weight(second) && is_inner(*axis)?)
            }
            Operator::Concat { axis } => {
                Some(node.operands.iter().all(|operand| self.are_in(*operand)) && is_inner(*axis)?)
            }
            Operator::Reshape(lengths) => {
                let (first, rest) = lengths.split_first()?;
                if *first == 0 {
                    return Some(true);
                }
                // A row keeps its elements.
                let inner = shape(x)?[1..].iter().try_fold(1usize, |all, n| all.checked_mul((*n)?))?;
                let same = rest
                    .iter()
                    .try_fold(1usize, |all, n| all.checked_mul(usize::try_from(*n).ok().filter(|n| *n > 0)?))
                    == Some(inner);
                Some(*first == -1 && same)
            }
            Operator::Transpose(order) => Some(order.first() == Some(&0)),
            Operator::Unsqueeze(axes) => {
                let all = dimensions(x)? + axes.len();
                axes.iter().try_fold(true, |so_far, axis| Some(so_far & (axis_of(*axis, all).ok()? != 0)))
            }
            Operator::Squeeze(axes) => Some(!axes.is_empty() && all_inner(axes)?),
            _ => Some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::goes_by_rows;
    use crate::graph::Graph;

    #[track_caller]
    fn is_by_rows(lines: &str) -> bool {
        let text = format!(
            "input %in0 \"x\": f32[rows, 4]\ninput %in1 \"y\": f32[rows, 4]\nweight %w0: f32[4] = [1.0, 2.0, 3.0, 4.0]
weight %w1: f32[4, 2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]\nweight %w2: i64[3] = [5, 6, 7]\n{lines}"
        );
        let graph = Graph::parse(&text).expect("a graph");
        goes_by_rows(&graph, &graph.types().expect("types"))
    }

    #[test]
    fn rows_that_depend_on_themselves_alone() {
        for lines in [
            "%0 \"a\" = add(%in0, %w0)\noutput \"o\": %0\n",
            "%0 \"a\" = matmul(%in0, %w1)\n%1 \"b\" = argMax(%0, axis=-1, keep=false, last=false)
%2 \"c\" = gather(%w2, %1, axis=0)\noutput \"o\": %2\noutput \"p\": %0\n",
            "%0 \"a\" = reduceSum(%in0, axes=[-1], keep=true)\n%1 \"b\" = divide(%in0, %0)\noutput \"o\": %1\n",
            "%0 \"a\" = reshape(%in0, to=[-1, 2, 2])\n%1 \"b\" = transpose(%0, order=[0, 2, 1])\noutput \"o\": %1\n",
            "%0 \"a\" = concat(%in0, %in1, axis=1)\noutput \"o\": %0\n",
            "%0 \"a\" = reshape(%in0, to=[0, 2, -1, 2])\noutput \"o\": %0\n",
            "%0 \"a\" = reshape(%in0, to=[-1, 2, 2])\n%1 \"b\" = matmul(%0, %0)\noutput \"o\": %1\n",
            "%0 \"a\" = layerNorm(%in0, %w0, %w0, epsilon=0.1)\noutput \"o\": %0\n",
        ] {
            assert!(is_by_rows(lines), "{lines}");
        }
    }

    #[test]
    fn rows_that_depend_on_others() {
        for lines in [
            "%0 \"a\" = reduceMean(%in0, axes=[0], keep=true)\n%1 \"b\" = subtract(%in0, %0)\noutput \"o\": %1\n",
            "%0 \"a\" = transpose(%in0, order=[1, 0])\noutput \"o\": %0\n",
            "%0 \"a\" = transpose(%w1, order=[1, 0])\n%1 \"b\" = layerNorm(%0, %w0, %in0, epsilon=0.1)\noutput \"o\": %1\n",
            "%0 \"a\" = euclideanDistances(%in0, %in1)\noutput \"o\": %0\n",
            "%0 \"a\" = softmax(%in0, axis=0)\noutput \"o\": %0\n",
            "%0 \"a\" = reduceSum(%in0, axes=[], keep=false)\noutput \"o\": %0\n",
            "%0 \"a\" = reshape(%in0, to=[-1, 2])\noutput \"o\": %0\n",
            "%0 \"a\" = add(%in0, %w0)\noutput \"o\": %w0\noutput \"p\": %0\n",
            "%0 \"a\" = slice(%in0, axis=0, start=0, end=3, step=1)\noutput \"o\": %0\n",
            "%0 \"a\" = argMax(%in0, axis=-1, keep=false, last=false)\n%1 \"b\" = gather(%in1, %0, axis=0)\noutput \"o\": %1\n",
        ] {
            assert!(!is_by_rows(lines), "{lines}");
        }
    }
}
