//! MPSkipEnum (section 4.4, algorithm 2): goes through all assignments of a partition's interesting points, and skips
//! those that can't be the best, by a lower bound of their cost and by the structure of the partition.
//!
//! The paper's lower bound adds the least materialization to the least reading and computing of the partition. Reading
//! and computing overlap within an operator, so that sum may exceed what a plan costs; here the bound is
//! `write + max(read, compute)` over each component of the references that are left, which no plan undercuts.
//!
//! The paper's cut sets ask that points above and below are apart. Here they ask that the partition falls apart into
//! components without the references that are cut, which makes the sum of their optima the optimum.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{
    cost::Costs,
    operator::{Covering, Cuts, PlannedOperator, flops},
    partition::{Partition, Point, components, references},
};
use crate::{
    dag::{Dag, Format, NodeId, Operator},
    explore::MemoTable,
};

/// The most interesting points that are searched. With more, the last ones stay fused; a search of 2^63 plans would
/// not end anyway.
const MAX_POINTS: usize = 40;
/// The most plans that are costed in one partition. Then the best one so far is taken.
const MAX_COSTED: u64 = 200_000;

/// The best assignment that a search has found, and what the search took.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The points that are cut.
    pub cut: Vec<Point>,
    /// What the plan costs, in seconds.
    pub cost: f64,
    /// The number of plans, which is 2 to the power of the number of points.
    pub plans: f64,
    /// The plans that were costed, plans of components included.
    pub costed: u64,
    /// Plans that were skipped because of their lower bound.
    pub skipped_by_cost: f64,
    /// Plans that were skipped because a cut set splits them into components.
    pub skipped_by_structure: f64,
}

/// A part of a partition whose plans matter to no other part.
struct Part {
    nodes: Vec<NodeId>,
    demanded: Vec<NodeId>,
    points: Vec<Point>,
}

/// Points that split a part if all are cut, and where they end in the layout of the search.
struct CutSet {
    points: Vec<Point>,
    score: f64,
}

pub(super) struct Enumeration<'a> {
    dag: &'a Dag,
    memo: &'a MemoTable,
    costs: &'a Costs,
    prune: bool,
    costed: u64,
    skipped_by_cost: f64,
    skipped_by_structure: f64,
}

impl Costs {
    /// Returns the best assignment of a partition, found by MPSkipEnum.
    pub fn search(&self, dag: &Dag, memo: &MemoTable, partition: &Partition) -> Search {
        Enumeration::new(dag, memo, self, true).run(partition)
    }

    /// Returns the best assignment of a partition, found by costing all of them. It takes as long as there are plans.
    pub fn search_all(&self, dag: &Dag, memo: &MemoTable, partition: &Partition) -> Search {
        Enumeration::new(dag, memo, self, false).run(partition)
    }

    /// Returns the operators of an assignment of a partition, and what they take together.
    pub fn assignment(
        &self,
        dag: &Dag,
        memo: &MemoTable,
        partition: &Partition,
        cut: &[Point],
    ) -> (Vec<PlannedOperator>, f64) {
        let cuts = cut.iter().map(edge).collect();
        Enumeration::new(dag, memo, self, false).operators(&partition.nodes, &partition.demanded, &cuts)
    }
}

fn edge(point: &Point) -> (NodeId, NodeId) {
    (point.input, point.consumer)
}

impl<'a> Enumeration<'a> {
    fn new(dag: &'a Dag, memo: &'a MemoTable, costs: &'a Costs, prune: bool) -> Self {
        Self { dag, memo, costs, prune, costed: 0, skipped_by_cost: 0.0, skipped_by_structure: 0.0 }
    }

    fn run(mut self, partition: &Partition) -> Search {
        let (nodes, demanded) = (partition.nodes.clone(), partition.demanded.clone());
        let points: Vec<Point> = partition.points.iter().take(MAX_POINTS).copied().collect();
        let part = Part { nodes, demanded, points };
        let (cut, cost) = self.best(part, &Cuts::new(), f64::INFINITY);
        Search {
            cut,
            cost,
            plans: (partition.points.len() as f64).exp2(),
            costed: self.costed,
            skipped_by_cost: self.skipped_by_cost,
            skipped_by_structure: self.skipped_by_structure,
        }
    }

    /// Returns the operators of an assignment and their cost: those of demanded nodes, then those that they read.
    fn operators(&self, nodes: &[NodeId], demanded: &[NodeId], cuts: &Cuts) -> (Vec<PlannedOperator>, f64) {
        let (mut found, mut cost) = (Vec::new(), 0.0);
        self.visit(nodes, demanded, cuts, |operator, of_operator| {
            found.push(operator);
            cost += of_operator;
            true
        });
        (found, cost)
    }

    /// Costs an assignment; stops as soon as it costs `limit` (partial costing).
    fn cost(&mut self, part: &Part, cuts: &Cuts, limit: f64) -> f64 {
        self.costed += 1;
        let mut cost = 0.0;
        self.visit(&part.nodes, &part.demanded, cuts, |_, of_operator| {
            cost += of_operator;
            cost < limit
        });
        cost
    }

    fn visit(
        &self,
        nodes: &[NodeId],
        demanded: &[NodeId],
        cuts: &Cuts,
        mut take: impl FnMut(PlannedOperator, f64) -> bool,
    ) {
        let covering = Covering { dag: self.dag, memo: self.memo, costs: self.costs };
        let mut seen: HashSet<NodeId> = demanded.iter().copied().collect();
        let mut pending = demanded.to_vec();
        while let Some(root) = pending.pop() {
            let operator = covering.operator(root, cuts);
            for input in &operator.inputs {
                if nodes.binary_search(input).is_ok() && seen.insert(*input) {
                    pending.push(*input);
                }
            }
            let cost = self.costs.operator(self.dag, &operator);
            if !take(operator, cost) {
                return;
            }
        }
    }

    /// Returns the cut points of the best assignment of a part, and its cost. A cost of `limit` and more says that there
    /// is none below it.
    fn best(&mut self, part: Part, fixed: &Cuts, limit: f64) -> (Vec<Point>, f64) {
        let count = part.points.len();
        let bound = Bound::new(self.dag, self.memo, self.costs, &part, fixed);
        let cut_sets = if self.prune { self.cut_sets(&part, fixed) } else { Vec::new() };
        // The layout: cut sets first, the best one first of all.
        let mut layout: Vec<Point> = cut_sets.iter().flat_map(|set| set.points.iter().copied()).collect();
        layout
            .extend(part.points.iter().filter(|point| !layout.contains(point)).copied().collect::<Vec<_>>());
        let (mut best, mut least) =
            if self.prune { self.opening(&part, fixed, limit) } else { (Vec::new(), limit) };
        // The opening has costed the first plan.
        let mut at: u64 = u64::from(self.prune);
        let plans = 1u64 << count;
        while at < plans {
            // The first point is the highest bit, so that plans which differ in the last points follow each other.
            let is_cut = |place: usize| at >> (count - 1 - place) & 1 == 1;
            let cut: Vec<Point> =
                (0..count).filter(|place| is_cut(*place)).map(|place| layout[place]).collect();
            let after = (0..count).rev().find(|place| is_cut(*place)).map_or(0, |last| last + 1);
            let below = 1u64 << (count - after);
            if self.prune && bound.of(&cut) >= least {
                self.skipped_by_cost += below as f64;
                at += below;
                continue;
            }
            if self.costed >= MAX_COSTED && self.prune {
                break;
            }
            let mut cuts = fixed.clone();
            cuts.extend(cut.iter().map(edge));
            // Where what is cut lets the rest fall apart, the best plans of its components together are the best of
            // this subspace. Cut sets come first in the layout so that it does so early.
            let components = if self.prune { self.split(&part, &cuts, &layout[after..]) } else { Vec::new() };
            if components.iter().filter(|component| !component.points.is_empty()).count() > 1 {
                let bounds: Vec<f64> = components
                    .iter()
                    .map(|part| Bound::new(self.dag, self.memo, self.costs, part, &cuts).of(&[]))
                    .collect();
                let mut rest: f64 = bounds.iter().sum();
                let (mut whole, mut cost) = (cut, 0.0);
                for (component, bound) in components.into_iter().zip(bounds) {
                    rest -= bound;
                    let (of_component, more) = self.best(component, &cuts, least - cost - rest);
                    whole.extend(of_component);
                    cost += more;
                    if cost + rest >= least {
                        cost = f64::INFINITY;
                        break;
                    }
                }
                self.skipped_by_structure += below as f64;
                if cost < least {
                    (best, least) = (whole, cost);
                }
                at += below;
                continue;
            }
            let cost = self.cost(&part, &cuts, least);
            if cost < least {
                (best, least) = (cut, cost);
            }
            at += 1;
        }
        (best, least)
    }

    /// Returns a good assignment to start from: fuse-all or fuse-no-redundancy, then each point changed if that costs
    /// less. It costs as many plans as there are points.
    fn opening(&mut self, part: &Part, fixed: &Cuts, limit: f64) -> (Vec<Point>, f64) {
        let cost = |of: &mut Self, cut: &[Point], limit: f64| {
            let mut cuts = fixed.clone();
            cuts.extend(cut.iter().map(edge));
            of.cost(part, &cuts, limit)
        };
        let (mut best, mut least) = (Vec::new(), cost(self, &[], limit));
        if part.points.len() < 2 {
            return (best, least);
        }
        let all = cost(self, &part.points, least);
        if all < least {
            (best, least) = (part.points.clone(), all);
        }
        if part.points.len() < 6 {
            return (best, least);
        }
        for point in &part.points {
            let mut changed = best.clone();
            match changed.iter().position(|other| other == point) {
                Some(place) => _ = changed.remove(place),
                None => changed.push(*point),
            }
            let of_changed = cost(self, &changed, least);
            if of_changed < least {
                (best, least) = (changed, of_changed);
            }
        }
        (best, least)
    }

    /// Returns the components of a part whose references are cut, with those of the points that are free.
    fn split(&self, part: &Part, cuts: &Cuts, free: &[Point]) -> Vec<Part> {
        let edges = references(self.memo, &part.nodes);
        let inside = |node: NodeId| part.nodes.binary_search(&node).is_ok();
        let kept = edges.iter().copied().filter(|edge| !cuts.contains(edge) && inside(edge.0));
        let make = |nodes: Vec<NodeId>| {
            let within = |node: NodeId| nodes.binary_search(&node).is_ok();
            let crosses =
                |node: NodeId| self.dag.consumers(node).iter().any(|to| inside(*to) && !within(*to));
            let demanded =
                nodes.iter().copied().filter(|node| part.demanded.contains(node) || crosses(*node)).collect();
            let points = free.iter().filter(|point| within(point.consumer)).copied().collect();
            Part { demanded, points, nodes }
        };
        components(&part.nodes, kept).into_iter().map(make).collect()
    }

    /// Returns cut sets that don't overlap, the best one first (equation 5).
    fn cut_sets(&self, part: &Part, fixed: &Cuts) -> Vec<CutSet> {
        let count = part.points.len();
        if count < 3 {
            return Vec::new();
        }
        let targets: BTreeSet<NodeId> = part.points.iter().map(|point| point.input).collect();
        let of_target = |target: NodeId| -> Vec<Point> {
            part.points.iter().filter(|point| point.input == target).copied().collect()
        };
        let composites: Vec<Vec<Point>> = targets.iter().map(|target| of_target(*target)).collect();
        let mut candidates: Vec<Vec<Point>> = part.points.iter().map(|point| vec![*point]).collect();
        candidates.extend(composites.iter().filter(|points| points.len() > 1).cloned());
        for (at, first) in composites.iter().enumerate() {
            candidates.extend(composites[at + 1..].iter().map(|second| [first.as_slice(), second].concat()));
        }
        let mut found: Vec<CutSet> = Vec::new();
        for points in candidates {
            let mut cuts = fixed.clone();
            cuts.extend(points.iter().map(edge));
            let free: Vec<Point> =
                part.points.iter().filter(|point| !points.contains(point)).copied().collect();
            let sizes: Vec<usize> = self
                .split(part, &cuts, &free)
                .iter()
                .map(|part| part.points.len())
                .filter(|size| *size > 0)
                .collect();
            if sizes.len() > 1 {
                let share = (-(points.len() as f64)).exp2();
                let parts: f64 = sizes.iter().map(|size| (*size as f64).exp2()).sum();
                found.push(CutSet { score: (1.0 - share) * (count as f64).exp2() + share * parts, points });
            }
        }
        found.sort_by(|a, b| a.score.total_cmp(&b.score));
        let mut taken: Vec<CutSet> = Vec::new();
        for set in found {
            if taken.iter().all(|other| other.points.iter().all(|point| !set.points.contains(point))) {
                taken.push(set);
            }
        }
        taken
    }
}

/// What plans of a part cost at least.
struct Bound<'a> {
    dag: &'a Dag,
    costs: &'a Costs,
    part: &'a Part,
    fixed: &'a Cuts,
    edges: BTreeSet<(NodeId, NodeId)>,
    /// For each node of the part the least share of it that any plan computes.
    scales: BTreeMap<NodeId, f64>,
}

impl<'a> Bound<'a> {
    fn new(dag: &'a Dag, memo: &MemoTable, costs: &'a Costs, part: &'a Part, fixed: &'a Cuts) -> Self {
        let inside = |node: NodeId| part.nodes.binary_search(&node).is_ok();
        let edges: BTreeSet<_> =
            references(memo, &part.nodes).into_iter().filter(|(input, _)| inside(*input)).collect();
        let touched = part.nodes.iter().flat_map(|node| dag.inputs(*node).iter().chain([node]));
        let sparse = touched.map(|node| dag.size(*node)).filter(|size| size.format == Format::Csr);
        let least = sparse.map(|size| size.filled).fold(1.0, f64::min);
        // A node is computed in part only if something in CSR that skips zeros may fuse it. Consumers come later.
        let mut scales = BTreeMap::new();
        for node in part.nodes.iter().rev() {
            let skips = dag.size(*node).format == Format::Csr
                || matches!(dag.operator(*node), Operator::Aggregate(..))
                    && dag.size(dag.inputs(*node)[0]).format == Format::Csr
                || edges.iter().any(|(input, consumer)| {
                    input == node
                        && dag.shape(*input) == dag.shape(*consumer)
                        && scales.get(consumer).is_some_and(|scale| *scale < 1.0)
                });
            scales.insert(*node, if skips { least } else { 1.0 });
        }
        Self { dag, costs, part, fixed, edges, scales }
    }

    /// Returns what every plan costs at least that cuts these points, whatever it does with points after them. An
    /// operator stays within a component of the references that are left, and all nodes are computed once at least.
    fn of(&self, cut: &[Point]) -> f64 {
        let mut cuts = self.fixed.clone();
        cuts.extend(cut.iter().map(edge));
        let kept = self.edges.iter().copied().filter(|edge| !cuts.contains(edge));
        components(&self.part.nodes, kept).iter().map(|nodes| self.of_component(nodes, &cuts)).sum()
    }

    fn of_component(&self, nodes: &[NodeId], cuts: &Cuts) -> f64 {
        let dag = self.dag;
        let (mut write, mut read, mut compute) = (0.0, BTreeMap::new(), 0.0);
        for node in nodes {
            let mut written = self.part.demanded.binary_search(node).is_ok();
            for consumer in dag.consumers(*node) {
                let outside =
                    nodes.binary_search(consumer).is_err() && self.part.nodes.binary_search(consumer).is_ok();
                written |= outside || cuts.contains(&(*node, *consumer));
            }
            if written {
                write += dag.size(*node).bytes();
            }
            for input in dag.inputs(*node) {
                if nodes.binary_search(input).is_err() || cuts.contains(&(*input, *node)) {
                    let in_part = dag.shape(*input) == dag.shape(*node);
                    let bytes = dag.size(*input).bytes() * if in_part { self.scales[node] } else { 1.0 };
                    read.entry(*input)
                        .and_modify(|least: &mut f64| *least = least.min(bytes))
                        .or_insert(bytes);
                }
            }
            compute += flops(dag, *node) * self.scales[node];
        }
        let read: f64 = read.values().sum();
        write / self.costs.write + (read / self.costs.read).max(compute / self.costs.compute)
    }
}
