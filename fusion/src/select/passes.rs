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

/// How many operators of a plan, in order, may become one pass. It bounds the time to find passes in large graphs.
const WINDOW: usize = 1024;

/// An operator that stands for some of a plan's operators.
pub(super) struct Pass {
    pub(super) operator: PlannedOperator,
    /// The estimated time of the operator, in seconds.
    cost: f64,
    /// The plan's operators that it stands for, by index.
    pub(super) members: BTreeSet<usize>,
}

/// Joins operators of a plan that go through the same rows. Each pass in turn takes in others, until any that is left would
/// take longer with it than apart. Returns the passes in an order in which they can run.
pub(super) fn share_passes(dag: &Dag, costs: &Costs, operators: &[PlannedOperator]) -> Vec<Pass> {
    let mut readers: HashMap<NodeId, Vec<usize>> = HashMap::new();
    for (index, operator) in operators.iter().enumerate() {
        operator.inputs.iter().for_each(|input| readers.entry(*input).or_default().push(index));
    }
    // Nothing outside a window runs between two of its operators, since a plan lists operators in order.
    let windows = operators.chunks(WINDOW).enumerate();
    let passes = windows.flat_map(|(at, window)| {
        let mut sharing = Sharing::new(dag, costs, &readers, at * WINDOW, window);
        (0..window.len()).for_each(|pass| sharing.grow(pass));
        sharing.ordered()
    });
    passes.collect()
}

/// The passes of a window so far.
struct Sharing<'a> {
    dag: &'a Dag,
    costs: &'a Costs,
    /// The plan's operators that read a node, by index.
    readers: &'a HashMap<NodeId, Vec<usize>>,
    /// Passes by the place of their first operator in the window; `None` for one that another one took in.
    passes: Vec<Option<Pass>>,
    /// For each pass those whose results it reads.
    needs: Vec<BTreeSet<usize>>,
    /// For each pass those that read its results.
    feeds: Vec<BTreeSet<usize>>,
    /// Whether a pass can become part of another one.
    may_join: Vec<bool>,
}

impl<'a> Sharing<'a> {
    fn new(
        dag: &'a Dag,
        costs: &'a Costs,
        readers: &'a HashMap<NodeId, Vec<usize>>,
        first: usize,
        window: &[PlannedOperator],
    ) -> Self {
        let alone = |(at, operator): (usize, &PlannedOperator)| {
            let (operator, cost) = (operator.clone(), costs.operator(dag, operator));
            Some(Pass { operator, cost, members: BTreeSet::from([first + at]) })
        };
        let (mut needs, mut feeds) =
            (vec![BTreeSet::new(); window.len()], vec![BTreeSet::new(); window.len()]);
        for (at, operator) in window.iter().enumerate() {
            let read_by = operator.roots.iter().filter_map(|root| readers.get(root)).flatten();
            for reader in read_by.map(|reader| reader - first).filter(|reader| *reader < window.len()) {
                needs[reader].insert(at);
                feeds[at].insert(reader);
            }
        }
        let may_join = |operator| PlannedOperator::goes_by_rows(operator, dag) && may_share(dag, operator);
        Self {
            dag,
            costs,
            readers,
            passes: window.iter().enumerate().map(alone).collect(),
            needs,
            feeds,
            may_join: window.iter().map(may_join).collect(),
        }
    }

    /// Lets a pass take in others with which it takes no longer than apart, until there are none.
    fn grow(&mut self, at: usize) {
        let count = self.passes.len();
        let (mut other, mut refused, mut has_grown) = (at, 0, false);
        let mut far = self.far(at);
        while refused + 1 < count {
            other = (other + 1) % count;
            refused += usize::from(other != at);
            // The passes before this one were asked to take it in as it was.
            if other == at || far[other] || other < at && !has_grown {
                continue;
            }
            let Some(joint) = self.joint(at, other) else { continue };
            self.join(at, other, joint);
            (far, refused, has_grown) = (self.far(at), 0, true);
        }
    }

    /// Returns the pass that computes what two of them do. Returns `None` if they share nothing, if one pass can't compute
    /// both, or if it takes longer.
    fn joint(&self, at: usize, other: usize) -> Option<Pass> {
        let (Some(one), Some(other)) = (
            self.passes[at].as_ref().filter(|_| self.may_join[at]),
            self.passes[other].as_ref().filter(|_| self.may_join[other]),
        ) else {
            return None;
        };
        let (dag, a, b) = (self.dag, &one.operator, &other.operator);
        let rows = a.space(dag).0;
        let is_of_rows = |node: &&NodeId| dag.shape(**node).0 == rows;
        let reads =
            |node: &NodeId| b.inputs.binary_search(node).is_ok() || b.covered.binary_search(node).is_ok();
        let shares = || a.inputs.iter().chain(&a.covered).filter(is_of_rows).any(reads);
        let is_too_large = a.covered.len() + b.covered.len() > MOST_COVERED;
        if is_too_large || b.space(dag).0 != rows || !shares() {
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
        if !operator.goes_by_rows(dag) {
            return None;
        }
        let cost = self.costs.operator(dag, &operator);
        // By estimate a pass gains nothing if computing takes longer than reading. A run still gains a little.
        let is_worth_it = cost.is_finite() && cost <= (one.cost + other.cost) * (1.0 + ROUNDING);
        is_worth_it.then_some(Pass { operator, cost, members })
    }

    /// Puts a pass in the place of two.
    fn join(&mut self, at: usize, other: usize, joint: Pass) {
        (self.passes[at], self.passes[other]) = (Some(joint), None);
        let Self { needs, feeds, .. } = self;
        let take = |own: &mut Vec<BTreeSet<usize>>, back: &mut Vec<BTreeSet<usize>>| {
            for near in std::mem::take(&mut own[other]) {
                back[near].remove(&other);
                if near != at {
                    back[near].insert(at);
                    own[at].insert(near);
                }
            }
        };
        take(needs, feeds);
        take(feeds, needs);
    }

    /// Tells of each pass whether a third one has to run between it and this one.
    fn far(&self, at: usize) -> Vec<bool> {
        let mut found = vec![false; self.passes.len()];
        for next in [&self.needs, &self.feeds] {
            let mut pending: Vec<usize> = next[at].iter().flat_map(|near| &next[*near]).copied().collect();
            while let Some(pass) = pending.pop() {
                if !std::mem::replace(&mut found[pass], true) {
                    pending.extend(&next[pass]);
                }
            }
        }
        found
    }

    /// Returns the passes, each after those whose results it reads.
    fn ordered(mut self) -> Vec<Pass> {
        let count = self.passes.iter().flatten().count();
        let mut ready: BTreeSet<usize> =
            (0..self.passes.len()).filter(|pass| self.needs[*pass].is_empty()).collect();
        let mut found = Vec::with_capacity(count);
        while let Some(pass) = ready.pop_first() {
            for reader in std::mem::take(&mut self.feeds[pass]) {
                self.needs[reader].remove(&pass);
                if self.needs[reader].is_empty() {
                    ready.insert(reader);
                }
            }
            found.extend(self.passes[pass].take());
        }
        debug_assert_eq!(found.len(), count, "no pass needs itself");
        found
    }
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
