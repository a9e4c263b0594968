//! The plan of a whole graph, and its explanation.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write,
};

use super::{
    cost::Costs,
    enumerate::Search,
    operator::PlannedOperator,
    partition::{Partition, Point, PointKind},
    passes::share_passes,
};
use crate::{
    dag::{Dag, NodeId},
    explore::{MemoTable, Template},
};

/// How plans are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The plan of least cost (section 4.4). Operators that go through the same rows are then one, if that costs no more.
    CostBased,
    /// All references are fused, even if results are computed several times (section 4.1).
    FuseAll,
    /// Every result with several consumers is written to memory (section 4.1).
    FuseNoRedundancy,
    /// Every operator runs by itself.
    NoFusion,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 4] = [Self::CostBased, Self::FuseAll, Self::FuseNoRedundancy, Self::NoFusion];
}

/// The choices in a partition.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionReport {
    /// The partition.
    pub partition: Partition,
    /// The points that are cut, their cost and the counts of the search. The heuristic policies don't search: they cost
    /// one plan.
    pub search: Search,
}

/// The operators that compute a graph, each after those whose results it reads.
///
/// ```
/// use fangorn_fusion::{
///     dag::Builder,
///     select::{Costs, Plan, Policy},
/// };
///
/// let builder = Builder::new();
/// let (x, y, z) = (builder.dense("X", 1000, 50), builder.dense("Y", 1000, 50), builder.dense("Z", 1000, 50));
/// builder.output("s", (x * y * z).sum());
/// let dag = builder.finish()?;
/// let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
/// // One fused operator, which writes one number.
/// assert_eq!(plan.operators().len(), 1);
/// println!("{}", plan.explain(&dag));
/// # Ok::<(), fangorn_fusion::FusionError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    policy: Policy,
    operators: Vec<PlannedOperator>,
    /// The operators that one pass stands for, in order, by the index of the pass.
    members: HashMap<usize, Vec<PlannedOperator>>,
    reports: Vec<PartitionReport>,
    cost: f64,
    costs: Costs,
}

impl Plan {
    /// Selects a plan of a graph.
    pub fn new(dag: &Dag, policy: Policy, costs: &Costs) -> Self {
        let memo = if policy == Policy::NoFusion { MemoTable::default() } else { MemoTable::explore(dag) };
        let (mut reports, mut by_root) = (Vec::new(), BTreeMap::new());
        for partition in Partition::all(dag, &memo) {
            let search = match policy {
                Policy::CostBased => costs.search(dag, &memo, &partition),
                Policy::FuseNoRedundancy => {
                    let several = |point: &&Point| point.kind == PointKind::Materialization;
                    let cut = partition.points.iter().filter(several).copied().collect();
                    heuristic(dag, &memo, costs, &partition, cut)
                }
                Policy::FuseAll | Policy::NoFusion => heuristic(dag, &memo, costs, &partition, Vec::new()),
            };
            let (operators, _) = costs.assignment(dag, &memo, &partition, &search.cut);
            by_root.extend(operators.into_iter().map(|operator| (operator.roots[0], operator)));
            reports.push(PartitionReport { partition, search });
        }
        let mut operators = demanded(dag, by_root);
        if policy == Policy::CostBased {
            operators = multi_aggregates(dag, costs, operators);
        }
        // An aggregate that joined no other one is a Cell operator.
        for operator in &mut operators {
            if operator.template == Some(Template::MAgg) && operator.roots.len() == 1 {
                operator.template = Some(Template::Cell);
            }
        }
        let mut members = HashMap::new();
        if policy == Policy::CostBased {
            let passes = share_passes(dag, costs, &operators);
            for (at, pass) in passes.iter().enumerate().filter(|(_, pass)| pass.members.len() > 1) {
                members.insert(at, pass.members.iter().map(|member| operators[*member].clone()).collect());
            }
            operators = passes.into_iter().map(|pass| pass.operator).collect();
        }
        let cost = operators.iter().map(|operator| costs.operator(dag, operator)).sum();
        Self { policy, operators, members, reports, cost, costs: *costs }
    }

    /// Returns how the plan was selected.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Returns the operators, each after those whose results it reads.
    pub fn operators(&self) -> &[PlannedOperator] {
        &self.operators
    }

    /// Returns the plan with other operators instead of each pass that `can_run` refuses: those that the pass stands for.
    pub(crate) fn with_passes_that(&self, can_run: impl Fn(&PlannedOperator) -> bool) -> Self {
        let mut found = Self { operators: Vec::new(), members: HashMap::new(), ..self.clone() };
        for (at, pass) in self.operators.iter().enumerate() {
            match self.members.get(&at) {
                Some(members) if !can_run(pass) => found.operators.extend_from_slice(members),
                _ => found.operators.push(pass.clone()),
            }
        }
        found
    }

    /// Returns what was selected in each partition.
    pub fn reports(&self) -> &[PartitionReport] {
        &self.reports
    }

    /// Returns the estimated time of the plan, in seconds.
    pub fn cost(&self) -> f64 {
        self.cost
    }

    /// Returns the speed and the limits for which the plan was selected.
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// Returns a text of the partitions, their interesting points, how many plans were costed and skipped, and the
    /// operators.
    pub fn explain(&self, dag: &Dag) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = self.write_explanation(dag, &mut out);
        out
    }

    fn write_explanation(&self, dag: &Dag, out: &mut String) -> std::fmt::Result {
        for (at, PartitionReport { partition, search }) in self.reports.iter().enumerate() {
            writeln!(out, "partition {at}: operators {:?}", partition.nodes)?;
            writeln!(out, "  roots {:?}, inputs {:?}", partition.roots, partition.inputs)?;
            for point in &partition.points {
                let kind = match point.kind {
                    PointKind::Materialization => "several consumers",
                    PointKind::Switch => "template switch",
                };
                let choice = if search.cut.contains(point) { "written" } else { "fused" };
                writeln!(out, "  point {} -> {} ({kind}): {choice}", point.input, point.consumer)?;
            }
            writeln!(
                out,
                "  {} plans: {} costed, {} skipped by cost, {} by structure, {} equal to others; {:.3} ms",
                search.plans,
                search.costed,
                search.skipped_by_cost,
                search.skipped_by_structure,
                search.skipped_as_equal,
                search.cost * 1e3
            )?;
        }
        for operator in &self.operators {
            let name = operator.template.map_or("basic".to_owned(), |template| format!("{template:?}"));
            let short: Vec<String> = operator
                .covered
                .iter()
                .map(|node| format!("{node} {}", dag.operator(*node).short()))
                .collect();
            write!(out, "{name} {}: {}", operator.variants(dag), short.join(", "))?;
            write!(out, "; reads {:?}", operator.inputs)?;
            if self.costs.reads_blocks(dag, operator) {
                write!(out, " in row blocks")?;
            }
            if let Some(driver) = operator.driver {
                write!(out, "; skips the zeros of {driver}")?;
            }
            let distinct = operator.distinct(dag);
            for input in compressed_inputs(dag, operator) {
                if distinct == Some(input) {
                    write!(out, "; computes the distinct tuples of {input}")?;
                } else if operator.reads_elements(dag, input) {
                    write!(out, "; decompresses {input}")?;
                } else {
                    write!(out, "; multiplies the column groups of {input}")?;
                }
            }
            writeln!(out, "; writes {:?}", operator.roots)?;
        }
        writeln!(out, "{:.3} ms by estimate", self.cost * 1e3)
    }
}

/// Returns the compressed matrices that an operator reads. Instead of a transposition that is only the left-hand side of
/// products, it reads what is transposed.
fn compressed_inputs(dag: &Dag, operator: &PlannedOperator) -> BTreeSet<NodeId> {
    let viewed = |input: NodeId| dag.transposed(input).filter(|_| !operator.reads_elements(dag, input));
    let read = operator.inputs.iter().map(|input| viewed(*input).unwrap_or(*input));
    read.filter(|input| dag.size(*input).format.is_compressed()).collect()
}

fn heuristic(dag: &Dag, memo: &MemoTable, costs: &Costs, partition: &Partition, cut: Vec<Point>) -> Search {
    let (_, cost) = costs.assignment(dag, memo, partition, &cut);
    let plans = (partition.points.len() as f64).exp2();
    Search {
        cut,
        cost,
        plans,
        costed: 1,
        skipped_by_cost: plans - 1.0,
        skipped_by_structure: 0.0,
        skipped_as_equal: 0.0,
    }
}

/// Returns the operators that the outputs need. A node without an operator of a partition gets a basic one.
fn demanded(dag: &Dag, mut by_root: BTreeMap<NodeId, PlannedOperator>) -> Vec<PlannedOperator> {
    let mut pending: BTreeSet<NodeId> = dag.outputs().iter().map(|output| output.node).collect();
    let mut found = Vec::new();
    // From the last node to the first: an operator reads only nodes that come before its root.
    while let Some(node) = pending.pop_last() {
        if dag.is_source(node) {
            continue;
        }
        let operator = by_root.remove(&node).unwrap_or_else(|| PlannedOperator::basic(dag, node));
        pending.extend(&operator.inputs);
        found.push(operator);
    }
    found.reverse();
    found
}

/// Joins aggregates of all elements over the same shape that share an input, if that costs less (MAgg, table 1).
fn multi_aggregates(dag: &Dag, costs: &Costs, operators: Vec<PlannedOperator>) -> Vec<PlannedOperator> {
    let mut found: Vec<PlannedOperator> = Vec::new();
    // For each operator the operators before it that it reads, directly or not.
    let mut needs: Vec<BTreeSet<NodeId>> = Vec::new();
    for operator in operators {
        let mut before: BTreeSet<NodeId> = operator.inputs.iter().copied().collect();
        for (other, its) in found.iter().zip(&needs) {
            if other.roots.iter().any(|root| before.contains(root)) {
                before.extend(its);
            }
        }
        let candidate = found.iter().position(|other| {
            let fits = operator.template == Some(Template::MAgg)
                && other.template == Some(Template::MAgg)
                && operator.space(dag) == other.space(dag)
                && operator.inputs.iter().any(|input| {
                    other.inputs.contains(input) && dag.shape(*input) == other.space(dag)
                })
                && !other.roots.iter().any(|root| before.contains(root))
                // The joint operator runs in place of the other one, so everything that it reads has to be available
                // there.
                && operator.inputs.iter().all(|input| dag.is_source(*input) || other.inputs.contains(input));
            fits && {
                let joint = joined(dag, other, &operator);
                costs.operator(dag, &joint) < costs.operator(dag, other) + costs.operator(dag, &operator)
            }
        });
        match candidate {
            Some(index) => found[index] = joined(dag, &found[index], &operator),
            None => {
                found.push(operator);
                needs.push(before);
            }
        }
    }
    found
}

fn joined(dag: &Dag, a: &PlannedOperator, b: &PlannedOperator) -> PlannedOperator {
    let joint = |a: &[NodeId], b: &[NodeId]| -> Vec<NodeId> {
        a.iter().chain(b).copied().collect::<BTreeSet<_>>().into_iter().collect()
    };
    let mut found = PlannedOperator {
        template: a.template,
        roots: joint(&a.roots, &b.roots),
        covered: joint(&a.covered, &b.covered),
        inputs: joint(&a.inputs, &b.inputs),
        driver: None,
    };
    found.driver = found.sparse_driver(dag);
    found
}
