//! Passes that rewrite a graph into one that computes the same with less work.
//!
//! Each pass is a function from a graph to a graph, has a switch, and a file of examples in
//! `tests/filetests/graphs`. [`Pass::ALL`] has them in the order in which they run. After each of them, nodes and
//! weights that no output needs are dropped.
//!
//! | file | passes |
//! |---|---|
//! | `simple` | constant folding, common subexpressions, redundant operators |
//! | `selections` | columns: chains of selections, columns that nothing reads |
//! | `forests` | operators before a forest, folded into its splits |
//! | `linear` | linear models of one input, merged into one product |
//! | `sparse` | products with weights that are mostly 0 |
//! | `matrices` | small forests as three products of matrices |
//! | `dtypes` | the smallest types that products are exact in |
//! | `integers` | bounds of the integers in tensors |
//! | `rebuild` | how a pass builds its new graph |

mod dtypes;
mod forests;
mod integers;
mod linear;
mod matrices;
mod rebuild;
mod selections;
mod simple;
mod sparse;

use std::{fmt, sync::Arc};

use super::{
    error::GraphError,
    model::{Graph, Node},
    tensor::Tensor,
};
use crate::cost::GraphTarget;

pub use matrices::ForestWays;

/// A pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pass {
    /// An operator whose operands are all weights becomes a weight.
    Constants,
    /// Equal weights become one weight, and nodes that compute the same become one node.
    Duplicates,
    /// Operators that change nothing or that cancel are removed (redundant elimination, CMLCompiler, section 4.3):
    /// casts to the type that a tensor already has, chains of casts and of reshapes, pairs of transposes, a softmax
    /// before an argmax, and similar ones.
    Redundant,
    /// Chains of column selections become one selection. A selection moves before elementwise operators, so that
    /// columns that nothing reads are not computed.
    Columns,
    /// Scalers, casts, imputers, selections and one-hot encoders before a forest are folded into the predicates of its
    /// splits. Every row reaches the leaves that it reached before.
    Forests,
    /// Products of one tensor with several weights become one product, and slices of it.
    Products,
    /// Products with weights that are mostly 0 skip the zeros (sparse operator replacing, CMLCompiler, section 4.2).
    Sparse,
    /// Small forests become three products of matrices (CMLCompiler, section 3.3). Margins keep the contract of their
    /// sums. By default only forests whose products take less time than their walks are rewritten: [`Passes::default`].
    Matrices,
    /// Products of integers are computed in the fastest type that is exact, and casts to doubles move after operators
    /// that are exact in floats (dtype rewriting, CMLCompiler, section 4.3).
    Dtypes,
}

impl Pass {
    /// All passes, in the order in which they run.
    pub const ALL: [Self; 9] = [
        Self::Constants,
        Self::Redundant,
        Self::Duplicates,
        Self::Columns,
        Self::Forests,
        Self::Matrices,
        Self::Dtypes,
        Self::Products,
        Self::Sparse,
    ];

    /// Returns the name on the command line and in texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Constants => "constants",
            Self::Duplicates => "duplicates",
            Self::Redundant => "redundant",
            Self::Columns => "columns",
            Self::Forests => "forests",
            Self::Products => "products",
            Self::Sparse => "sparse",
            Self::Matrices => "matrices",
            Self::Dtypes => "dtypes",
        }
    }

    /// Returns the pass with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pass| pass.name() == name)
    }

    /// Returns the graph after this pass alone, for the CPU, without nodes and weights that no output needs.
    ///
    /// # Errors
    /// The graph does not verify.
    pub fn apply(self, graph: &Graph) -> Result<Graph, GraphError> {
        self.rewrite(graph, GraphTarget::Cpu, true).map(|(graph, _)| graph)
    }

    /// Returns the graph after this pass, and a line for each node whose type [`Pass::Dtypes`] changed.
    /// [`Pass::Matrices`] rewrites every forest that it can if `every_forest` is set, and otherwise those whose
    /// products take less time.
    fn rewrite(
        self,
        graph: &Graph,
        target: GraphTarget,
        every_forest: bool,
    ) -> Result<(Graph, Vec<String>), GraphError> {
        graph.verify()?;
        let silent = |graph| (graph, Vec::new());
        let (rewritten, done) = match self {
            Self::Constants => simple::constants(graph).map(silent),
            Self::Duplicates => simple::duplicates(graph).map(silent),
            Self::Redundant => simple::redundant(graph).map(silent),
            Self::Columns => selections::columns(graph).map(silent),
            Self::Forests => forests::fold(graph).map(silent),
            Self::Products => linear::merge(graph).map(silent),
            Self::Sparse => sparse::replace(graph).map(silent),
            Self::Matrices => matrices::of_forests(graph, target, every_forest).map(silent),
            Self::Dtypes => dtypes::rewrite(graph, target),
        }?;
        Ok((rewritten.used(), done))
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the graph with every product with a weight rewritten to skip the weight's zeros, even if that takes longer.
/// `fangorn-benches products` uses it to measure when skipping is faster.
///
/// # Errors
/// The graph does not verify.
pub fn skip_zeros(graph: &Graph) -> Result<Graph, GraphError> {
    graph.verify()?;
    Ok(sparse::replace_where(graph, |_, _| true)?.used())
}

/// A set of passes to run, and the target whose costs they use.
///
/// ```
/// use fangorn::graph::{Graph, Pass, Passes};
///
/// let graph = Graph::parse(
///     "input %in0 \"X\": f32[rows, 2]
/// %0 \"widen\" = cast(%in0, to=f64)
/// %1 \"narrow\" = cast(%0, to=f32)
/// %2 \"class\" = argMax(%1, axis=1, keep=false, last=false)
/// output \"label\": %2
/// ",
/// )?;
/// let (rewritten, changes) = Passes::default().apply(&graph)?;
/// assert_eq!(rewritten.nodes.len(), 1);
/// assert_eq!(changes[0].pass, Pass::Redundant);
/// assert_eq!(Passes::none().apply(&graph)?.0, graph);
/// # Ok::<(), fangorn::graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passes {
    on: Vec<Pass>,
    target: GraphTarget,
    /// Whether every forest that products can compute becomes products, even if these take longer than its walks.
    every_forest: bool,
}

impl Default for Passes {
    /// All passes, for the CPU. [`Pass::Matrices`] rewrites only forests whose products take less time than their
    /// walks, as [`GraphTarget::forest_choice`] estimates it. On CPUs hardly any forest is rewritten.
    fn default() -> Self {
        Self { on: Pass::ALL.to_vec(), target: GraphTarget::Cpu, every_forest: false }
    }
}

/// What a pass did to a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct PassChange {
    /// The pass.
    pub pass: Pass,
    /// Number of nodes before and after the pass.
    pub nodes: (usize, usize),
    /// Number of elements of all weights before and after the pass.
    pub weights: (usize, usize),
    /// A line for each node whose type [`Pass::Dtypes`] changed; empty for other passes.
    pub rewrites: Vec<String>,
}

impl fmt::Display for PassChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pass, nodes, weights, rewrites } = self;
        write!(
            f,
            "{pass}: {} nodes become {}, {} weights become {}",
            nodes.0, nodes.1, weights.0, weights.1
        )?;
        match rewrites.len() {
            0 => Ok(()),
            count => write!(f, ", {count} of another type"),
        }
    }
}

impl Passes {
    /// Returns an empty set of passes, for the CPU.
    pub fn none() -> Self {
        Self { on: Vec::new(), target: GraphTarget::Cpu, every_forest: false }
    }

    /// Switches passes on. [`Pass::Matrices`], if it is among them, turns every forest that products can compute into
    /// products, whatever these cost.
    #[must_use]
    pub fn with(mut self, passes: impl IntoIterator<Item = Pass>) -> Self {
        for pass in passes {
            self.every_forest |= pass == Pass::Matrices;
            self.on.push(pass);
        }
        self
    }

    /// Sets the target whose costs the passes use. The default is the CPU.
    #[must_use]
    pub fn on(mut self, target: GraphTarget) -> Self {
        self.target = target;
        self
    }

    /// Switches a pass off.
    #[must_use]
    pub fn without(mut self, pass: Pass) -> Self {
        self.on.retain(|on| *on != pass);
        self.every_forest &= pass != Pass::Matrices;
        self
    }

    /// Returns whether a pass is on.
    pub fn has(&self, pass: Pass) -> bool {
        self.on.contains(&pass)
    }

    /// Returns the estimates of walks and of products for each forest of a graph, for batches of `rows` rows, and the
    /// choice between them.
    pub(super) fn forest_ways(&self, graph: &Graph, rows: usize) -> Vec<ForestWays> {
        ForestWays::of(graph, self.target, rows, self.has(Pass::Matrices), self.every_forest)
    }

    /// Returns the graph after the passes, and a record of each pass that changed it. All passes run again until none
    /// changes the graph, at most eight times.
    ///
    /// # Errors
    /// The graph does not verify.
    pub fn apply(&self, graph: &Graph) -> Result<(Graph, Vec<PassChange>), GraphError> {
        let mut graph = graph.clone();
        let mut changes = Vec::new();
        for _ in 0..ROUNDS {
            let before = changes.len();
            for pass in Pass::ALL.into_iter().filter(|pass| self.has(*pass)) {
                let (rewritten, rewrites) = pass.rewrite(&graph, self.target, self.every_forest)?;
                if !same(&graph, &rewritten) {
                    let elements = |graph: &Graph| graph.weights.iter().map(|w| w.elements().len()).sum();
                    let nodes = (graph.nodes.len(), rewritten.nodes.len());
                    changes.push(PassChange {
                        pass,
                        nodes,
                        weights: (elements(&graph), elements(&rewritten)),
                        rewrites,
                    });
                    graph = rewritten;
                }
            }
            if changes.len() == before {
                break;
            }
        }
        Ok((graph, changes))
    }
}

/// Returns whether two graphs are equal to the bit, so that a NaN equals itself.
fn same(a: &Graph, b: &Graph) -> bool {
    let weights = |(a, b): (&Arc<Tensor>, &Arc<Tensor>)| Arc::ptr_eq(a, b) || simple::equal_to_the_bit(a, b);
    let nodes = |(a, b): (&Node, &Node)| {
        a.operands == b.operands
            // An operator may hold a NaN, which equals nothing.
            && (a.operator == b.operator || format!("{:?}", a.operator) == format!("{:?}", b.operator))
    };
    a.outputs == b.outputs
        && (a.nodes.len(), a.weights.len()) == (b.nodes.len(), b.weights.len())
        && a.nodes.iter().zip(&b.nodes).all(nodes)
        && a.weights.iter().zip(&b.weights).all(weights)
}

/// The maximum number of times that all passes run.
const ROUNDS: usize = 8;
