//! Passes over rows that operators share.
//!
//! In the paper a Row operator has one root, so two operators read a matrix twice even if both go through its rows, and
//! a result with two consumers is written and read again, or computed twice. Here such operators become one with several
//! roots once a plan is selected, if that costs no more. It computes each node once, reads each input once, and writes only
//! what other operators or outputs need.

use std::collections::{BTreeSet, HashMap};

use super::{cost::Costs, operator::PlannedOperator};
use crate::{
    dag::{Dag, Direction, NodeId, Operator},
    explore::{NARROW_COLUMNS, Template},
};

/// The share of a time by which sums of it differ that were added in another order.
const ROUNDING: f64 = 1e-9;

/// The maximum number of nodes that a pass covers. It bounds the registers of a tile and the time to find passes.
const MOST_COVERED: usize = 256;

/// An operator that stands for some of a plan's operators.
struct Pass {
    operator: PlannedOperator,
    /// The estimated time of the operator, in seconds.
    cost: f64,
    /// The plan's operators that it stands for, by index.
    members: BTreeSet<usize>,
}

/// Joins operators of a plan that go through the same rows. Each pass in turn takes in others, until any that is left would
/// take longer with it than apart.
pub(super) fn share_passes(
    dag: &Dag,
    costs: &Costs,
    operators: Vec<PlannedOperator>,
) -> Vec<PlannedOperator> {
    let mut readers: HashMap<NodeId, Vec<usize>> = HashMap::new();
    for (index, operator) in operators.iter().enumerate() {
        operator.inputs.iter().for_each(|input| readers.entry(*input).or_default().push(index));
    }
    let alone = |(index, operator): (usize, PlannedOperator)| {
        let cost = costs.operator(dag, &operator);
        Some(Pass { operator, cost, members: BTreeSet::from([index]) })
    };
    let mut sharing =
        Sharing { dag, costs, readers, passes: operators.into_iter().enumerate().map(alone).collect() };
    for at in 0..sharing.passes.len() {
        while sharing.take_in(at) {}
    }
    ordered(sharing.passes.into_iter().flatten().collect())
}

/// The passes so far.
struct Sharing<'a> {
    dag: &'a Dag,
    costs: &'a Costs,
    /// The plan's operators that read a node, by index.
    readers: HashMap<NodeId, Vec<usize>>,
    /// Passes by the index of their first operator; `None` for one that another one took in.
    passes: Vec<Option<Pass>>,
}

impl Sharing<'_> {
    /// Goes through the other passes once, and lets a pass take in those with which it takes no longer than apart. Tells
    /// whether there was one.
    fn take_in(&mut self, at: usize) -> bool {
        let mut has_grown = false;
        for other in (0..self.passes.len()).filter(|other| *other != at) {
            let (Some(own), Some(added)) = (&self.passes[at], &self.passes[other]) else { continue };
            let Some(joint) = self.joint(own, added) else { continue };
            // Where computing takes longer than reading, reading less saves nothing by estimate, and still does some.
            let is_worth_it =
                joint.cost.is_finite() && joint.cost <= (own.cost + added.cost) * (1.0 + ROUNDING);
            if is_worth_it && !self.is_between(at, other) {
                (self.passes[at], self.passes[other], has_grown) = (Some(joint), None, true);
            }
        }
        has_grown
    }

    /// Returns the pass that computes what two of them do. Returns `None` if they share nothing, or if one pass can't
    /// compute both.
    fn joint(&self, one: &Pass, other: &Pass) -> Option<Pass> {
        let (dag, a, b) = (self.dag, &one.operator, &other.operator);
        let rows = a.space(dag).0;
        let is_of_rows = |node: &&NodeId| dag.shape(**node).0 == rows;
        let reads =
            |node: &NodeId| b.inputs.binary_search(node).is_ok() || b.covered.binary_search(node).is_ok();
        let shares = || a.inputs.iter().chain(&a.covered).filter(is_of_rows).any(reads);
        let both_may = || [a, b].iter().all(|operator| may_share(dag, operator));
        let is_too_large = a.covered.len() + b.covered.len() > MOST_COVERED;
        if is_too_large || b.space(dag).0 != rows || !shares() || !both_may() {
            return None;
        }
        let members: BTreeSet<usize> = one.members.union(&other.members).copied().collect();
        let is_needed = |root: &NodeId| {
            let mut readers = self.readers.get(root).into_iter().flatten();
            dag.is_output(*root) || readers.any(|reader| !members.contains(reader))
        };
        let roots: BTreeSet<NodeId> = a.roots.iter().chain(&b.roots).copied().filter(is_needed).collect();
        let covered = a.covered.iter().chain(&b.covered).copied().collect();
        let operator = PlannedOperator::of_roots(dag, Template::Row, roots.into_iter().collect(), covered);
        let cost = self.costs.operator(dag, &operator);
        operator.goes_by_rows(dag).then_some(Pass { operator, cost, members })
    }

    /// Tells whether a third pass has to run after one of two passes and before the other.
    fn is_between(&self, a: usize, b: usize) -> bool {
        let writers = self.passes.iter().enumerate().flat_map(|(index, pass)| {
            let roots = pass.iter().flat_map(|pass| &pass.operator.roots);
            roots.map(move |root| (*root, index))
        });
        let writers: HashMap<NodeId, usize> = writers.collect();
        let needs = |pass: usize| {
            let inputs = self.passes[pass].iter().flat_map(|pass| &pass.operator.inputs);
            inputs.filter_map(|input| writers.get(input).copied())
        };
        let is_either = |pass: &usize| [a, b].contains(pass);
        let mut pending: Vec<usize> = needs(a).chain(needs(b)).filter(|pass| !is_either(pass)).collect();
        let mut reached = BTreeSet::new();
        while let Some(pass) = pending.pop() {
            if is_either(&pass) {
                return true;
            }
            if reached.insert(pass) {
                pending.extend(needs(pass));
            }
        }
        false
    }
}

/// Returns the operators of passes, each after those whose results it reads.
fn ordered(passes: Vec<Pass>) -> Vec<PlannedOperator> {
    let mut waiting: Vec<PlannedOperator> = passes.into_iter().map(|pass| pass.operator).collect();
    let mut unwritten: BTreeSet<NodeId> =
        waiting.iter().flat_map(|operator| &operator.roots).copied().collect();
    let mut found = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let is_ready =
            |operator: &PlannedOperator| operator.inputs.iter().all(|input| !unwritten.contains(input));
        // There is always one, since no pass is between two that became one.
        let next = waiting.remove(waiting.iter().position(is_ready).unwrap_or(0));
        next.roots.iter().for_each(|root| _ = unwritten.remove(root));
        found.push(next);
    }
    found
}

/// Tells whether an operator reads whole rows of matrices that are not compressed. Others have ways of their own to skip
/// zeros and rows that repeat.
fn may_share(dag: &Dag, operator: &PlannedOperator) -> bool {
    let is_compressed = |input: &NodeId| {
        let of = dag.transposed(*input).unwrap_or(*input);
        dag.size(of).format.is_compressed()
    };
    operator.template != Some(Template::Outer)
        && operator.driver.is_none()
        && !operator.inputs.iter().any(is_compressed)
}

impl PlannedOperator {
    /// Tells whether one pass over rows computes all that the operator covers: a row of each covered node follows from the
    /// same row of others and from whole inputs, and what is summed over rows is a root that nothing else in the operator
    /// reads.
    pub(crate) fn goes_by_rows(&self, dag: &Dag) -> bool {
        let rows = self.space(dag).0;
        let covers = |node: NodeId| self.covered.binary_search(&node).is_ok();
        let is_summed = |node: NodeId| match dag.operator(node) {
            Operator::Aggregate(_, Direction::Column | Direction::Full) => true,
            Operator::MatMul => dag.transposed(dag.inputs(node)[0]).is_some(),
            _ => false,
        };
        // A row of the node is at hand when a tile needs it.
        let by_row = |node: NodeId| {
            let turned = dag.transposed(node).is_some();
            dag.shape(node).0 == rows && !turned && !(covers(node) && is_summed(node))
        };
        let whole = |node: NodeId| !covers(node);
        let broadcast = |node: NodeId| by_row(node) || dag.shape(node).0 == 1 && whole(node);
        let is_root = |node: NodeId| self.roots.binary_search(&node).is_ok();
        let fits = |node: &NodeId| {
            let inputs = dag.inputs(*node);
            match dag.operator(*node) {
                Operator::Unary(_) | Operator::Binary(_) => {
                    dag.shape(*node).0 == rows && inputs.iter().all(|input| broadcast(*input))
                }
                Operator::Columns { .. } | Operator::Aggregate(_, Direction::Row) => by_row(inputs[0]),
                Operator::Aggregate(..) => is_root(*node) && by_row(inputs[0]),
                Operator::MatMul if dag.shape(*node).1 > NARROW_COLUMNS || inputs[0] == inputs[1] => false,
                Operator::MatMul => match dag.transposed(inputs[0]) {
                    Some(left) => is_root(*node) && by_row(left) && by_row(inputs[1]),
                    None => by_row(inputs[0]) && whole(inputs[1]),
                },
                // Products view it.
                Operator::Transpose => !is_root(*node) && by_row(inputs[0]),
                Operator::Input { .. } | Operator::Literal(_) => false,
            }
        };
        rows > 1 && self.covered.iter().all(fits)
    }
}
