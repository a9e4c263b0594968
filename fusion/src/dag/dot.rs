//! The picture of a graph, in Graphviz's language.

use std::fmt::Write;

use super::{model::Dag, operator::Operator};

/// Returns a text in quotation marks. Characters that DOT treats specially become spaces.
fn quoted(text: &str) -> String {
    let plain: String = text
        .chars()
        .map(|c| if c.is_control() || matches!(c, '"' | '\\' | '<' | '>') { ' ' } else { c })
        .collect();
    format!("\"{plain}\"")
}

impl Dag {
    /// Returns the graph as a picture for Graphviz: a box for each operator with the shape of its result, ellipses for
    /// inputs, literals and outputs.
    ///
    /// ```
    /// use fangorn_fusion::dag::Dag;
    ///
    /// let dag = Dag::parse("%0 = input \"X\": dense[3, 2]\n%1 = sum.row(%0)\noutput \"sums\": %1\n")?;
    /// assert!(dag.to_dot().contains("n0 -> n1;"));
    /// # Ok::<(), fangorn_fusion::FusionError>(())
    /// ```
    pub fn to_dot(&self) -> String {
        let mut out = String::from("digraph linear_algebra {\n  node [shape=box];\n");
        for (at, node) in self.nodes().iter().enumerate() {
            let (rows, columns) = self.shape(at);
            let label = match &node.operator {
                Operator::Columns { start, end } => format!("{at} rix {start}..{end} [{rows}, {columns}]"),
                other => format!("{at} {} [{rows}, {columns}]", other.short()),
            };
            let shape = if self.is_source(at) { ", shape=ellipse" } else { "" };
            // Writing to a String does not fail.
            let _ = writeln!(out, "  n{at} [label={}{shape}];", quoted(&label));
            for input in &node.inputs {
                let _ = writeln!(out, "  n{input} -> n{at};");
            }
        }
        for (at, output) in self.outputs().iter().enumerate() {
            let _ = writeln!(out, "  out{at} [label={}, shape=ellipse];", quoted(&output.name));
            let _ = writeln!(out, "  n{} -> out{at};", output.node);
        }
        out.push_str("}\n");
        out
    }
}
