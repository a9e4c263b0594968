//! MPSkipEnum (section 4.4, algorithm 2): goes through all assignments of a partition's interesting points, and skips
//! those that can't be the best, by a lower bound of their cost and by the structure of the partition. An interesting
//! point is a reference that a plan either fuses or cuts (see `partition`).
//!
//! As in the paper, the search starts with the plan that fuses all points and the plan that cuts all points, and goes
//! from fused points to cut ones. Four things differ:
//!
//! - Points have no fixed order. An operator records the points that it depends on. A plan that differs only in other
//!   points has the same operators and is skipped. So a subspace is divided by the points that its first plan depends
//!   on, operator by operator, up to the operator that makes the plan exceed the best one (partial costing).
//! - The lower bound contains the cost of every operator whose points are all known. For the rest the paper adds the
//!   least cost of writing to the least cost of reading and computing. A plan may cost less than that: reading and
//!   computing overlap within an operator, and a node whose reference is cut may be computed in its consumer's operator
//!   anyway. See `bound`.
//! - Any set of cuts divides a subspace if the references that are left fall apart into components. The optimum is then
//!   the sum of the optima of the components. The paper chooses its cut sets beforehand.
//! - Before the search, points of the better starting plan are changed one by one.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, HashSet},
    rc::Rc,
};

use super::{
    bound::Bound,
    cost::Costs,
    operator::{Assignment, OperatorBuilder, PlannedOperator, Points, Reference},
    partition::{Partition, Point, PointKind, components, references},
};
use crate::{
    dag::{Dag, NodeId},
    explore::MemoTable,
};

/// The maximum number of interesting points that are searched. Further points are all fused, or all cut where their inputs
/// have several consumers, whichever costs less.
const MAX_POINTS: usize = 127;
/// The maximum number of plans that are costed in one partition. The search then returns the best plan so far.
const MAX_COSTED: u64 = 5_000;
/// The maximum number of steps of a search of one partition, each about 40 nanoseconds. The search then returns the best
/// plan so far. Where plans have hundreds of operators, it ends the search before `MAX_COSTED` does.
const MAX_STEPS: u64 = 10_000_000;

/// The best assignment that a search has found, and the counts of the search.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The points that are cut.
    pub cut: Vec<Point>,
    /// The cost of the plan, in seconds.
    pub cost: f64,
    /// The number of plans, which is 2 to the power of the number of points.
    pub plans: f64,
    /// The number of plans that were costed. Plans of components count, and so do plans whose costing stopped because
    /// they cost more than the best one.
    pub costed: u64,
    /// The number of plans that were skipped because of their lower bound.
    pub skipped_by_cost: f64,
    /// The number of plans that were skipped because the cut points divide the partition into components.
    pub skipped_by_structure: f64,
    /// The number of plans that were skipped because they have the operators of a costed one: they differ in points
    /// that no operator depends on.
    pub skipped_as_equal: f64,
}

/// Connected nodes of a partition, or all of them. Their plans do not affect the cost of other components.
struct Component {
    nodes: Vec<NodeId>,
    demanded: Vec<NodeId>,
    points: Vec<Point>,
    /// References that are cut in all of its plans.
    fixed: HashSet<Reference>,
}

/// All plans that cut some points and fuse some others.
#[derive(Clone, Copy)]
struct Subspace {
    cut: Points,
    fused: Points,
}

impl Subspace {
    fn known(self) -> Points {
        self.cut | self.fused
    }
}

/// An operator with the points that it depends on and its cost.
struct CostedOperator {
    /// The points that were cut when the operator was made.
    cut: Points,
    /// The points that the operator depends on.
    points: Points,
    operator: PlannedOperator,
    cost: f64,
}

/// The operators of a component that follow from the known points.
struct Traversal {
    cost: f64,
    /// Operators that depend on points that are not known.
    open: Vec<Rc<CostedOperator>>,
    /// For each node of the component, whether an operator that is known or open writes it.
    written: Vec<bool>,
}

/// The search of a component.
struct Task<'a> {
    builder: OperatorBuilder<'a>,
    component: &'a Component,
    bit_indices: HashMap<Reference, u32>,
    operators: RefCell<HashMap<NodeId, Vec<Rc<CostedOperator>>>>,
    bound: Bound<'a>,
}

/// Counts of a search.
#[derive(Default)]
struct Counts {
    costed: u64,
    by_cost: f64,
    by_structure: f64,
    as_equal: f64,
}

impl Costs {
    /// Returns the best assignment of a partition, found by MPSkipEnum.
    pub fn search(&self, dag: &Dag, memo: &MemoTable, partition: &Partition) -> Search {
        let steps = Cell::new(0);
        let builder = OperatorBuilder { dag, memo, costs: self, steps: &steps };
        let mut counts = Counts::default();
        let mut component = whole_component(partition);
        let further = partition.points.iter().skip(MAX_POINTS);
        let mut fixed: Vec<Point> =
            further.filter(|point| point.kind == PointKind::Materialization).copied().collect();
        let cost = |cut: &[Point]| self.assignment(dag, memo, partition, cut).1;
        if !fixed.is_empty() && cost(&fixed) >= cost(&[]) {
            fixed.clear();
        }
        component.fixed = fixed.iter().map(reference).collect();
        let fallback = || (Vec::new(), Task::new(builder, &component).traverse(0, Points::MAX).cost);
        let (cut, cost) =
            best_assignment(builder, &component, f64::INFINITY, &mut counts).unwrap_or_else(fallback);
        search_result(partition, [cut, fixed].concat(), cost, counts)
    }

    /// Returns the best assignment of a partition, found by costing every plan: 2 to the power of the number of points.
    pub fn search_all(&self, dag: &Dag, memo: &MemoTable, partition: &Partition) -> Search {
        let component = whole_component(partition);
        let steps = Cell::new(0);
        let task = Task::new(OperatorBuilder { dag, memo, costs: self, steps: &steps }, &component);
        let (mut cut, mut least, mut counts) = (0, f64::INFINITY, Counts::default());
        for plan in 0..1 << component.points.len() {
            counts.costed += 1;
            // Each plan is costed from scratch, so that this can check what the search reuses.
            task.operators.borrow_mut().clear();
            let cost = task.traverse(plan, Points::MAX).cost;
            if cost < least {
                (cut, least) = (plan, cost);
            }
        }
        search_result(partition, task.points(cut), least, counts)
    }

    /// Returns the operators of an assignment of a partition, and their cost together, in seconds.
    pub fn assignment(
        &self,
        dag: &Dag,
        memo: &MemoTable,
        partition: &Partition,
        cut: &[Point],
    ) -> (Vec<PlannedOperator>, f64) {
        let steps = Cell::new(0);
        let builder = OperatorBuilder { dag, memo, costs: self, steps: &steps };
        let fixed = cut.iter().map(reference).collect();
        let component = Component { points: Vec::new(), fixed, ..whole_component(partition) };
        let task = Task::new(builder, &component);
        let mut operators = Vec::new();
        let cost = task.visit(0, Points::MAX, |costed| operators.push(costed.operator.clone())).cost;
        (operators, cost)
    }
}

fn reference(point: &Point) -> Reference {
    (point.input, point.consumer)
}

fn whole_component(partition: &Partition) -> Component {
    Component {
        nodes: partition.nodes.clone(),
        demanded: partition.demanded.clone(),
        points: partition.points.iter().take(MAX_POINTS).copied().collect(),
        fixed: HashSet::new(),
    }
}

fn search_result(partition: &Partition, cut: Vec<Point>, cost: f64, counts: Counts) -> Search {
    Search {
        cut,
        cost,
        plans: (partition.points.len() as f64).exp2(),
        costed: counts.costed,
        skipped_by_cost: counts.by_cost,
        skipped_by_structure: counts.by_structure,
        skipped_as_equal: counts.as_equal,
    }
}

fn bits(points: Points) -> impl Iterator<Item = u32> {
    (0..Points::BITS).filter(move |bit| points >> bit & 1 == 1)
}

/// Returns the cut points of the best assignment of a component and its cost, if it is below a limit.
fn best_assignment(
    builder: OperatorBuilder,
    component: &Component,
    limit: f64,
    counts: &mut Counts,
) -> Option<(Vec<Point>, f64)> {
    let task = Task::new(builder, component);
    let count = component.points.len() as u32;
    let (cut, mut least) = task.opening(limit, counts);
    let mut cut: Vec<Point> = task.points(cut);
    let mut pending = vec![Subspace { cut: 0, fused: 0 }];
    while let Some(space) = pending.pop() {
        let plans = f64::from(count - space.known().count_ones()).exp2();
        let mut traversal = task.traverse(space.cut, space.known());
        if traversal.cost + task.rest(&traversal, space.cut) >= least {
            counts.by_cost += plans;
            continue;
        }
        if counts.costed >= MAX_COSTED || builder.steps.get() >= MAX_STEPS {
            break;
        }
        let components = task.independent_components(space);
        if components.len() > 1 {
            counts.by_structure += plans;
            if let Some((of_components, cost)) = best_of_all(builder, &components, least, counts)
                && cost < least
            {
                (cut, least) = (task.points(space.cut), cost);
                cut.extend(of_components);
            }
            continue;
        }
        counts.costed += 1;
        // Costs the plan that fuses all free points of the subspace, operator by operator, until it costs too much.
        // Every other plan differs in a point that one of these operators depends on.
        let (mut known, mut order) = (space.known(), Vec::new());
        loop {
            let Some(next) = traversal.open.first() else {
                if traversal.cost < least {
                    (cut, least) = (task.points(space.cut), traversal.cost);
                }
                break;
            };
            order.extend(bits(next.points & !known));
            known |= next.points;
            traversal = task.traverse(space.cut, known);
            let costs_too_much = traversal.cost + task.rest(&traversal, space.cut) >= least;
            if costs_too_much || builder.steps.get() >= MAX_STEPS {
                break;
            }
        }
        counts.as_equal += f64::from(count - known.count_ones()).exp2() - 1.0;
        let mut fused = space.fused;
        for bit in order {
            pending.push(Subspace { cut: space.cut | 1 << bit, fused });
            fused |= 1 << bit;
        }
    }
    (least < limit).then_some((cut, least))
}

/// Returns the best plans of components and their cost together, if it is below a limit.
fn best_of_all(
    builder: OperatorBuilder,
    components: &[Component],
    limit: f64,
    counts: &mut Counts,
) -> Option<(Vec<Point>, f64)> {
    let bounds: Vec<f64> = components
        .iter()
        .map(|component| {
            let task = Task::new(builder, component);
            let traversal = task.traverse(0, 0);
            traversal.cost + task.rest(&traversal, 0)
        })
        .collect();
    let mut rest: f64 = bounds.iter().sum();
    let (mut cut, mut cost) = (Vec::new(), 0.0);
    for (component, bound) in components.iter().zip(bounds) {
        rest -= bound;
        let (of_component, more) = best_assignment(builder, component, limit - cost - rest, counts)?;
        cut.extend(of_component);
        cost += more;
    }
    Some((cut, cost))
}

impl<'a> Task<'a> {
    fn new(builder: OperatorBuilder<'a>, component: &'a Component) -> Self {
        let bit_indices =
            component.points.iter().zip(0..).map(|(point, bit)| (reference(point), bit)).collect();
        let bound = Bound::new(builder.dag, builder.memo, builder.costs, &component.nodes);
        Self { builder, component, bit_indices, operators: RefCell::default(), bound }
    }

    fn points(&self, cut: Points) -> Vec<Point> {
        bits(cut).map(|bit| self.component.points[bit as usize]).collect()
    }

    fn assignment(&self, cut: Points) -> Assignment<'_> {
        Assignment { bit_indices: &self.bit_indices, fixed: &self.component.fixed, cut, points: Cell::new(0) }
    }

    fn operator(&self, root: NodeId, cut: Points) -> Rc<CostedOperator> {
        let mut all = self.operators.borrow_mut();
        let known = all.entry(root).or_default();
        let found = known.iter().position(|costed| (costed.cut ^ cut) & costed.points == 0);
        self.builder.add_steps(1 + found.unwrap_or(known.len()) / 4);
        if let Some(at) = found {
            return known[at].clone();
        }
        let assignment = self.assignment(cut);
        let operator = self.builder.operator(root, &assignment);
        self.builder.add_steps(50 * operator.covered.len());
        let cost = self.builder.costs.operator(self.builder.dag, &operator);
        let costed = Rc::new(CostedOperator { cut, points: assignment.points.get(), operator, cost });
        known.push(costed.clone());
        costed
    }

    /// Returns the operators that depend on known points only, and their cost.
    fn traverse(&self, cut: Points, known: Points) -> Traversal {
        self.visit(cut, known, |_| {})
    }

    fn visit(&self, cut: Points, known: Points, mut take: impl FnMut(&CostedOperator)) -> Traversal {
        let nodes = &self.component.nodes;
        let index_of = |node: &NodeId| nodes.binary_search(node).ok();
        let mut written = vec![false; nodes.len()];
        self.builder.add_steps(nodes.len() / 4);
        self.component.demanded.iter().filter_map(index_of).for_each(|index| written[index] = true);
        let mut pending = self.component.demanded.clone();
        let (mut cost, mut open) = (0.0, Vec::new());
        while let Some(root) = pending.pop() {
            let costed = self.operator(root, cut);
            if costed.points & !known != 0 {
                open.push(costed);
                continue;
            }
            for input in &costed.operator.inputs {
                if let Some(index) = index_of(input)
                    && !written[index]
                {
                    written[index] = true;
                    pending.push(*input);
                }
            }
            cost += costed.cost;
            take(&costed);
        }
        Traversal { cost, open, written }
    }

    fn rest(&self, traversal: &Traversal, cut: Points) -> f64 {
        let open: Vec<NodeId> = traversal.open.iter().map(|costed| costed.operator.roots[0]).collect();
        self.builder.add_steps(if open.is_empty() { 0 } else { 4 * self.component.nodes.len() });
        if open.is_empty() { 0.0 } else { self.bound.rest(&open, &traversal.written, &self.assignment(cut)) }
    }

    /// Returns a good assignment to start from, and its cost. From two points on, it is the better of fusing all points
    /// and cutting all points. From six points on, each point is also changed if that costs less.
    fn opening(&self, limit: f64, counts: &mut Counts) -> (Points, f64) {
        let count = self.component.points.len();
        let all = (1 << count) - 1;
        let (mut best, mut least) = (0, limit);
        let mut attempt = |cut: Points| {
            counts.costed += 1;
            let cost = self.traverse(cut, Points::MAX).cost;
            if cost < least {
                (best, least) = (cut, cost);
            }
            best
        };
        if count >= 2 {
            attempt(0);
            let mut best = attempt(all);
            if count >= 6 {
                for bit in 0..count {
                    best = attempt(best ^ 1 << bit);
                }
            }
        }
        (best, least)
    }

    /// Returns the components of the references that a subspace does not cut. Returns none unless several have free
    /// points.
    fn independent_components(&self, space: Subspace) -> Vec<Component> {
        let (dag, component) = (self.builder.dag, self.component);
        self.builder.add_steps(20 * component.nodes.len());
        let assignment = self.assignment(space.cut);
        let inside = |node: NodeId| component.nodes.binary_search(&node).is_ok();
        let edges = references(self.builder.memo, &component.nodes);
        let kept = edges.into_iter().filter(|edge| !assignment.is_cut(*edge) && inside(edge.0));
        let found = components(&component.nodes, kept);
        let free = |at: &u32| space.known() >> at & 1 == 0;
        let free: Vec<Point> =
            (0..component.points.len() as u32).filter(free).map(|at| component.points[at as usize]).collect();
        let holds = |nodes: &[NodeId]| free.iter().any(|point| nodes.binary_search(&point.consumer).is_ok());
        if found.iter().filter(|nodes| holds(nodes)).count() < 2 {
            return Vec::new();
        }
        let mut fixed = component.fixed.clone();
        fixed.extend(self.points(space.cut).iter().map(reference));
        let make = |nodes: Vec<NodeId>| {
            let within = |node: NodeId| nodes.binary_search(&node).is_ok();
            let crosses = |node: NodeId| dag.consumers(node).iter().any(|to| inside(*to) && !within(*to));
            let is_demanded = |node: &NodeId| component.demanded.contains(node) || crosses(*node);
            let demanded = nodes.iter().copied().filter(is_demanded).collect();
            let points = free.iter().filter(|point| within(point.consumer)).copied().collect();
            Component { demanded, points, nodes, fixed: fixed.clone() }
        };
        found.into_iter().map(make).collect()
    }
}
