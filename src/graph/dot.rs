//! The picture of a graph, in Graphviz's language.

use std::fmt::Write;

use super::{
    model::{Graph, Operand},
    operator::{Kind, Operator},
    tensor_text::shape,
};

/// Returns a text in quotation marks.
fn quoted(text: &str) -> String {
    // Characters that not every reader of DOT takes become spaces.
    let plain: String = text
        .chars()
        .map(|c| if c.is_control() || matches!(c, '"' | '\\' | '<' | '>') { ' ' } else { c })
        .collect();
    format!("\"{plain}\"")
}

impl Graph {
    /// Returns the graph as a picture for Graphviz. A box holds an operator with the types of its weights. Boxes of
    /// one kind of operator have one colour.
    ///
    /// ```
    /// use fangorn::graph::Graph;
    ///
    /// let graph = Graph::parse(
    ///     "input %in0 \"X\": f32[rows, 2]
    /// %0 \"squash\" = sigmoid(%in0)
    /// output \"p\": %0
    /// ",
    /// )?;
    /// assert!(graph.to_dot().contains("in0 -> n0"));
    /// # Ok::<(), fangorn::graph::GraphError>(())
    /// ```
    pub fn to_dot(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = self.write_dot(&mut out);
        out
    }

    fn write_dot(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "digraph graph_of_operators {{")?;
        writeln!(out, "  node [shape=box];")?;
        for (at, input) in self.inputs.iter().enumerate() {
            let label = format!("{}: {}{}", input.name, input.dtype, shape(input.shape.iter().copied()));
            writeln!(out, "  in{at} [label={}, shape=ellipse];", quoted(&label))?;
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let mut label = match &node.operator {
                Operator::Forest(forest) => format!("forest of {} trees", forest.trees.len()),
                Operator::LinearLeaves(leaves) => {
                    format!("linear leaves of {} trees", leaves.forest().trees.len())
                }
                Operator::SparseMatMul(weights) => {
                    format!("{} {:?}, {} filled", node.operator, weights.shape(), weights.filled())
                }
                other => other.to_string(),
            };
            for weight in node.operands.iter().filter_map(|operand| self.weight_of(*operand)) {
                let lengths = shape(weight.shape().iter().map(|length| Some(*length)));
                write!(label, " {}{lengths}", weight.dtype())?;
            }
            let colour = match node.operator.kind() {
                Kind::Comparison => "lightyellow",
                Kind::Indices => "lightblue",
                Kind::Monotonic => "lightgreen",
                Kind::Reduction => "lightpink",
                Kind::Arithmetic => "white",
            };
            writeln!(out, "  n{at} [label={}, style=filled, fillcolor={colour}];", quoted(&label))?;
            for operand in &node.operands {
                match operand {
                    Operand::Input(from) => writeln!(out, "  in{from} -> n{at};")?,
                    Operand::Node(from, _) => writeln!(out, "  n{from} -> n{at};")?,
                    Operand::Weight(_) => {}
                }
            }
        }
        for (at, output) in self.outputs.iter().enumerate() {
            writeln!(out, "  out{at} [label={}, shape=ellipse];", quoted(&output.name))?;
            match output.operand {
                Operand::Input(from) => writeln!(out, "  in{from} -> out{at};")?,
                Operand::Node(from, _) => writeln!(out, "  n{from} -> out{at};")?,
                Operand::Weight(_) => {}
            }
        }
        writeln!(out, "}}")
    }
}
