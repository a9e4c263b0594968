//! Keeps plans by the structure of their graph, for graphs of other sizes.
//!
//! The paper keeps compiled operators in a plan cache, across graphs and sizes (sections 2.1 and 5.3). Here operators
//! are not compiled, so the cache keeps whole plans.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{BlockCosts, Costs, Plan, Policy};
use crate::{
    dag::{Dag, Format, Node, Number, Operator, Shape},
    explore::NARROW_COLUMNS,
};

/// A graph without its sizes and names. It keeps what templates ask of shapes: which lengths are equal, which is
/// greater, which are 1 and which are narrow.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Structure {
    nodes: Vec<Node>,
    shapes: Vec<Shape>,
    formats: Vec<Format>,
    /// Whether there is a length of 1, and how many of the lengths are narrow.
    lengths: (bool, usize),
    outputs: Vec<usize>,
    policy: Policy,
    costs: [u64; 7],
}

fn without_bytes(format: Format) -> Format {
    if format.is_compressed() { Format::Compressed { bytes: 0 } } else { format }
}

impl Structure {
    fn of(dag: &Dag, policy: Policy, costs: &Costs) -> Self {
        let all = 0..dag.nodes().len();
        let lengths: BTreeSet<usize> =
            all.clone().flat_map(|node| [dag.shape(node).0, dag.shape(node).1]).collect();
        let order: HashMap<usize, usize> =
            lengths.iter().enumerate().map(|(index, length)| (*length, index)).collect();
        let nodes = dag.nodes().iter().cloned().map(|mut node| {
            if let Operator::Input { name, shape, format, filled } = &mut node.operator {
                (*shape, *format, *filled) = ((0, 0), without_bytes(*format), Number(0.0));
                name.clear();
            }
            if let Operator::Columns { start, end } = &mut node.operator {
                (*start, *end) = (0, 0);
            }
            node
        });
        let Costs { read, write, compute, memory, blocks, row } = *costs;
        // No bandwidth is below 0.
        let BlockCosts { read: of_blocks, broadcast } =
            blocks.unwrap_or(BlockCosts { read: -1.0, broadcast: -1.0 });
        let costs = [read, write, compute, memory, row, of_blocks, broadcast];
        Self {
            nodes: nodes.collect(),
            shapes: all.clone().map(|node| (order[&dag.shape(node).0], order[&dag.shape(node).1])).collect(),
            formats: all.map(|node| without_bytes(dag.size(node).format)).collect(),
            lengths: (lengths.contains(&1), lengths.range(..=NARROW_COLUMNS).count()),
            outputs: dag.outputs().iter().map(|output| output.node).collect(),
            policy,
            costs: costs.map(f64::to_bits),
        }
    }
}

/// How often a plan was in the cache and how often one had to be made, and the time that this took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CacheReport {
    /// How often the plan was in the cache.
    pub hits: u64,
    /// How often a plan had to be made.
    pub misses: u64,
    /// The time that it took to find plans in the cache.
    pub finding: Duration,
    /// The time that it took to make plans.
    pub making: Duration,
}

/// Keeps plans. A graph of the same structure and other sizes gets the kept plan. That plan computes the right results,
/// but another plan may cost less for these sizes; a new cache makes new plans.
///
/// ```
/// use fangorn_fusion::{
///     dag::Builder,
///     select::{Costs, PlanCache, Policy},
/// };
///
/// let mut cache = PlanCache::default();
/// for rows in [1000, 2000] {
///     let builder = Builder::new();
///     let (x, v) = (builder.dense("X", rows, 10), builder.dense("v", 10, 1));
///     builder.output("gradient", x.transpose().matmul(x.matmul(v)));
///     let dag = builder.finish()?;
///     let plan = cache.plan(&dag, Policy::CostBased, &Costs::default());
///     assert_eq!(plan.operators().len(), 1);
/// }
/// assert_eq!((cache.report().hits, cache.report().misses), (1, 1));
/// # Ok::<(), fangorn_fusion::FusionError>(())
/// ```
#[derive(Default)]
pub struct PlanCache {
    plans: HashMap<Structure, Arc<Plan>>,
    report: CacheReport,
}

impl PlanCache {
    /// The maximum number of plans that are kept. A further plan empties the cache first.
    pub const MOST: usize = 4096;

    /// Returns the plan of a graph. It is made if the cache has none for the structure, or if the kept one exceeds the
    /// memory of `costs`.
    pub fn plan(&mut self, dag: &Dag, policy: Policy, costs: &Costs) -> Arc<Plan> {
        let start = Instant::now();
        let structure = Structure::of(dag, policy, costs);
        if let Some(plan) = self.plans.get(&structure)
            && plan.operators().iter().all(|operator| costs.operator(dag, operator).is_finite())
        {
            self.report.hits += 1;
            self.report.finding += start.elapsed();
            return plan.clone();
        }
        let plan = Arc::new(Plan::new(dag, policy, costs));
        if self.plans.len() >= Self::MOST {
            self.plans.clear();
        }
        self.plans.insert(structure, plan.clone());
        self.report.misses += 1;
        self.report.making += start.elapsed();
        plan
    }

    /// Returns the counts and times of all calls so far.
    pub fn report(&self) -> CacheReport {
        self.report
    }
}
