//! Exploration: which operators may be fused, by which templates.
//!
//! It is the OFMC algorithm (open, fuse, merge, close) of Boehm et al., "On Optimizing Operator Fusion Plans for
//! Large-Scale Machine Learning in SystemML" (VLDB 2018), section 3.2, algorithm 1. It depends on graphs only; what
//! plans cost and how they run is for other modules.
//!
//! | file | subject |
//! |---|---|
//! | `memo` | the memo table, its entries, their pruning and text |
//! | `template` | the templates, and the conditions of each |

mod memo;
mod template;

pub use memo::{Close, Entry, MemoTable};
pub use template::{NARROW_COLUMNS, Template};

use crate::dag::{Dag, NodeId};

impl MemoTable {
    /// Explores a graph: finds all partial fusion plans of each operator, from the inputs up.
    ///
    /// ```
    /// use fangorn_fusion::{dag::Builder, explore::MemoTable};
    ///
    /// let builder = Builder::new();
    /// let (x, v) = (builder.dense("X", 1000, 10), builder.dense("v", 10, 1));
    /// builder.output("gradient", x.transpose().matmul(x.matmul(v)));
    /// let dag = builder.finish()?;
    /// let memo = MemoTable::explore(&dag);
    /// assert!(memo.display(&dag).contains("R(-1,3) R(2,-1) R(2,3)"), "{}", memo.display(&dag));
    /// # Ok::<(), fangorn_fusion::FusionError>(())
    /// ```
    pub fn explore(dag: &Dag) -> Self {
        let mut memo = Self::default();
        // Nodes come after their inputs, so one pass replaces the recursion of lines 1 to 6, which visits each node
        // once.
        for node in 0..dag.nodes().len() {
            if dag.is_source(node) {
                continue;
            }
            let mut found = Vec::new();
            // Lines 7 to 10: templates that open here.
            for template in Template::ALL {
                if template.open(dag, node) {
                    plans(dag, &memo, node, None, template, &mut found);
                }
            }
            // Lines 11 to 15: open templates of inputs that may be fused here.
            for input in distinct(dag.inputs(node)) {
                for template in Template::ALL {
                    if memo.is_open(input, &[template]) && template.fuse(dag, node, input) {
                        plans(dag, &memo, node, Some(input), template, &mut found);
                    }
                }
            }
            // Lines 16 to 20: the close status. Entries that are closed and invalid go.
            found.retain_mut(|entry| match entry.template.close(dag, node, entry.has_references()) {
                Some(close) => {
                    entry.close = close;
                    true
                }
                None => false,
            });
            memo.add(node, found);
        }
        memo
    }
}

/// Returns the inputs of a node, each once.
fn distinct(inputs: &[NodeId]) -> Vec<NodeId> {
    let mut found = inputs.to_vec();
    found.dedup();
    found
}

/// Adds the entries of a template at a node, one for each set of inputs that may be fused (`createPlans`). `fused` is
/// in every set. Another input may be if the template merges with it.
fn plans(
    dag: &Dag,
    memo: &MemoTable,
    node: NodeId,
    fused: Option<NodeId>,
    template: Template,
    found: &mut Vec<Entry>,
) {
    let mut choices: Vec<Vec<NodeId>> = vec![fused.into_iter().collect()];
    for input in distinct(dag.inputs(node)) {
        if Some(input) != fused
            && memo.is_open(input, template.merges_with())
            && template.merge(dag, node, input)
        {
            let with: Vec<_> = choices.iter().map(|choice| [choice.as_slice(), &[input]].concat()).collect();
            choices.extend(with);
        }
    }
    for choice in choices {
        let reference = |input: &NodeId| choice.contains(input).then_some(*input);
        let inputs = dag.inputs(node).iter().map(reference).collect();
        found.push(Entry { template, inputs, close: Close::OpenValid });
    }
}
