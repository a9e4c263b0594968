//! Plans that are kept by the structure of their graph, for graphs of other sizes.
//!
//! The paper keeps compiled operators in a plan cache, across graphs and sizes (sections 2.1 and 5.3). Here an operator is
//! not compiled, so the whole plan is what is kept.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Costs, Plan, Policy};
use crate::{
    dag::{Dag, Format, Node, Number, Operator, Shape},
    explore::NARROW_COLUMNS,
};

/// A graph without its sizes and names: what templates ask of shapes is kept, that is which lengths are equal, which is
/// greater, which are 1 and which are narrow.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Structure {
    nodes: Vec<Node>,
    shapes: Vec<Shape>,
    formats: Vec<Format>,
    /// Whether the least length is 1, and how many are narrow.
    lengths: (bool, usize),
    outputs: Vec<usize>,
    policy: Policy,
    costs: [u64; 5],
}

impl Structure {
    fn of(dag: &Dag, policy: Policy, costs: &Costs) -> Self {
        let all = 0..dag.nodes().len();
        let lengths: BTreeSet<usize> =
            all.clone().flat_map(|node| [dag.shape(node).0, dag.shape(node).1]).collect();
        let ranks: HashMap<usize, usize> =
            lengths.iter().enumerate().map(|(rank, length)| (*length, rank)).collect();
        let nodes = dag.nodes().iter().cloned().map(|mut node| {
            if let Operator::Input { name, shape, filled, .. } = &mut node.operator {
                (*shape, *filled) = ((0, 0), Number(0.0));
                name.clear();
            }
            if let Operator::Columns { start, end } = &mut node.operator {
                (*start, *end) = (0, 0);
            }
            node
        });
        let costs = [costs.read, costs.write, costs.compute, costs.memory, costs.row];
        Self {
            nodes: nodes.collect(),
            shapes: all.clone().map(|node| (ranks[&dag.shape(node).0], ranks[&dag.shape(node).1])).collect(),
            formats: all.map(|node| dag.size(node).format).collect(),
            lengths: (lengths.contains(&1), lengths.range(..=NARROW_COLUMNS).count()),
            outputs: dag.outputs().iter().map(|output| output.node).collect(),
            policy,
            costs: costs.map(f64::to_bits),
        }
    }
}

/// What a plan cache was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CacheReport {
    /// Plans that were there.
    pub hits: u64,
    /// Plans that had to be made.
    pub misses: u64,
    /// What finding them took.
    pub finding: Duration,
    /// What making them took.
    pub making: Duration,
}

/// Keeps plans. A graph of the same structure and other sizes takes the plan that is there, which computes the same
/// results but may no longer be the one of least cost; a new cache plans anew.
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
    /// The most plans that are kept. Then the cache starts anew.
    pub const MOST: usize = 4096;

    /// Returns the plan of a graph, made if none of its structure is there, or if one exceeds the memory of `costs`.
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

    /// Returns what the cache was asked for so far.
    pub fn report(&self) -> CacheReport {
        self.report
    }
}
