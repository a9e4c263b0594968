//! Passes over rows that operators share.
//!
//! In the paper a Row operator has one root, so two operators read a matrix twice even if both go through its rows, and
//! a result with two consumers is written and read again, or computed twice. Here such operators become one with several
//! roots once a plan is selected, if that costs no more. It computes each node once, reads each input once, and writes only
//! what other operators or outputs need.

use std::collections::BTreeSet;

use super::{cost::Costs, operator::PlannedOperator};
use crate::{
    dag::{Dag, Direction, NodeId, Operator},
    explore::{NARROW_COLUMNS, Template},
};

/// The share of a time by which sums of it differ that were added in another order.
const ROUNDING: f64 = 1e-9;

/// An operator that stands for some of a plan's operators.
#[derive(Clone)]
struct Pass {
    operator: PlannedOperator,
    /// The plan's operators that it stands for, by index.
    members: BTreeSet<usize>,
}

/// Joins operators of a plan that go through the same rows. Each pass in turn takes in the one that saves the most time,
/// until any two would take longer as one.
pub(super) fn share_passes(
    dag: &Dag,
    costs: &Costs,
    operators: Vec<PlannedOperator>,
) -> Vec<PlannedOperator> {
    let alone = |(index, operator): (usize, &PlannedOperator)| Pass {
        operator: operator.clone(),
        members: BTreeSet::from([index]),
    };
    let mut passes: Vec<Pass> = operators.iter().enumerate().map(alone).collect();
    let mut at = 0;
    while at < passes.len() {
        let own = costs.operator(dag, &passes[at].operator);
        let joints = (0..passes.len()).filter(|other| *other != at).filter_map(|other| {
            let joint = joined(dag, &operators, &passes[at], &passes[other])?;
            let apart = own + costs.operator(dag, &passes[other].operator);
            let saved = apart - costs.operator(dag, &joint.operator);
            // Where computing takes longer than reading, reading less saves nothing by estimate, and still does some.
            (saved >= -ROUNDING * apart).then_some((other, saved, joint))
        });
        let mut joints: Vec<(usize, f64, Pass)> = joints.collect();
        joints.sort_by(|a, b| b.1.total_cmp(&a.1));
        let legal = joints.into_iter().find_map(|(other, _, joint)| {
            let rest = passes.iter().enumerate().filter(|(index, _)| *index != at && *index != other);
            ordered(rest.map(|(_, pass)| pass).chain([&joint]))
        });
        match legal {
            // The pass may be worth joining with those that it was not worth joining with before.
            Some(ordered) => (passes, at) = (ordered, 0),
            None => at += 1,
        }
    }
    passes.into_iter().map(|pass| pass.operator).collect()
}

/// Returns passes, each after those whose results it reads. Returns `None` if two need one another.
fn ordered<'p>(passes: impl Iterator<Item = &'p Pass>) -> Option<Vec<Pass>> {
    let mut waiting: Vec<&Pass> = passes.collect();
    waiting.sort_by_key(|pass| pass.members.first());
    let mut unwritten: BTreeSet<NodeId> =
        waiting.iter().flat_map(|pass| &pass.operator.roots).copied().collect();
    let mut found = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let is_ready = |pass: &&Pass| pass.operator.inputs.iter().all(|input| !unwritten.contains(input));
        let next = waiting.remove(waiting.iter().position(is_ready)?);
        next.operator.roots.iter().for_each(|root| drop(unwritten.remove(root)));
        found.push(next.clone());
    }
    Some(found)
}

/// Returns the operator that computes what two of them do, in one pass over the rows. Returns `None` if they share
/// nothing, or if one pass can't compute both.
fn joined(dag: &Dag, operators: &[PlannedOperator], one: &Pass, other: &Pass) -> Option<Pass> {
    let (a, b) = (&one.operator, &other.operator);
    let rows = a.space(dag).0;
    let is_of_rows = |node: &&NodeId| dag.shape(**node).0 == rows;
    let reads = |node: &NodeId| b.inputs.contains(node) || b.covered.contains(node);
    let shares = a.inputs.iter().chain(&a.covered).filter(is_of_rows).any(reads);
    if b.space(dag).0 != rows || !shares || ![a, b].iter().all(|operator| may_share(dag, operator)) {
        return None;
    }
    let members: BTreeSet<usize> = one.members.union(&other.members).copied().collect();
    let others = operators.iter().enumerate().filter(|(at, _)| !members.contains(at));
    let read: BTreeSet<NodeId> = others.flat_map(|(_, other)| &other.inputs).copied().collect();
    let is_needed = |root: &NodeId| dag.is_output(*root) || read.contains(root);
    let roots: BTreeSet<NodeId> = a.roots.iter().chain(&b.roots).copied().filter(is_needed).collect();
    let covered = a.covered.iter().chain(&b.covered).copied().collect();
    let joint = PlannedOperator::of_roots(dag, Template::Row, roots.into_iter().collect(), covered);
    joint.goes_by_rows(dag).then_some(Pass { operator: joint, members })
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
