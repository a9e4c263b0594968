//! The operator that an assignment of interesting points makes at a node.

use std::{
    cell::Cell,
    collections::{BTreeSet, HashMap, HashSet},
};

use super::cost::Costs;
use crate::{
    dag::{Aggregation, Binary, Dag, Direction, Format, NodeId, Operator, Shape, Unary, zero_if},
    explore::{Close, Entry, MemoTable, Template},
};

/// The maximum number of columns of a product that goes over the groups of a compressed matrix. The matrix is
/// decompressed for a wider one: the blocked product of a tile is then faster (`examples/compressed.rs`).
pub(crate) const GROUP_COLUMNS: usize = 4;

/// A reference: an input and its consumer. If it is cut, the input is written to memory, and the consumer reads it there
/// unless the operator computes the input anyway.
pub(super) type Reference = (NodeId, NodeId);

/// A set of points of a search, one bit for each.
pub(super) type Points = u128;

/// An assignment of interesting points. It records the points that an operator depends on.
pub(super) struct Assignment<'a> {
    /// The index of each point's bit.
    pub bit_indices: &'a HashMap<Reference, u32>,
    /// References that are cut in every plan.
    pub fixed: &'a HashSet<Reference>,
    /// The points that are cut.
    pub cut: Points,
    /// The points for which an operator has called [`is_cut`](Self::is_cut).
    pub points: Cell<Points>,
}

impl Assignment<'_> {
    pub fn is_cut(&self, reference: Reference) -> bool {
        match self.bit_indices.get(&reference) {
            Some(bit) => {
                self.points.set(self.points.get() | 1 << bit);
                self.cut >> bit & 1 == 1
            }
            None => self.fixed.contains(&reference),
        }
    }
}

/// An operator of a plan, fused or basic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedOperator {
    /// The template, or `None` for a basic operator.
    pub template: Option<Template>,
    /// The nodes whose results it writes: one; several full aggregates of MAgg; or, of a Row operator that goes through
    /// rows once for several results, any that follow from them.
    pub roots: Vec<NodeId>,
    /// The nodes that it computes, each after its inputs.
    pub covered: Vec<NodeId>,
    /// The nodes whose results it reads, each once.
    pub inputs: Vec<NodeId>,
    /// The sparse driver: an input in CSR whose zeros the operator skips.
    pub driver: Option<NodeId>,
}

impl PlannedOperator {
    /// Returns the numbers of rows and columns that the operator goes through. They are those of the first root, or
    /// those of the root's input if it is an aggregate or a closing product.
    pub fn space(&self, dag: &Dag) -> Shape {
        dag.shape(self.body(dag, self.roots[0]))
    }

    /// Returns the input of a root that is an aggregate, or the left-hand side of one that is a closing product,
    /// without its transposition. Otherwise returns the root.
    pub(crate) fn body(&self, dag: &Dag, root: NodeId) -> NodeId {
        let inputs = dag.inputs(root);
        match dag.operator(root) {
            Operator::Aggregate(..) => inputs[0],
            Operator::MatMul if self.is_closing_product(root, dag) => {
                dag.transposed(inputs[0]).unwrap_or(inputs[0])
            }
            _ => root,
        }
    }

    /// Tells whether a node is the product that an Outer operator ends with or, in any other operator, a product t(X)
    /// W.
    pub(crate) fn is_closing_product(&self, node: NodeId, dag: &Dag) -> bool {
        let left = dag.inputs(node)[0];
        *dag.operator(node) == Operator::MatMul
            && match self.template {
                Some(Template::Outer) => self.roots.contains(&node) && self.covered.contains(&left),
                _ => dag.transposed(left).is_some(),
            }
    }

    /// Makes the basic operator of a node.
    pub(crate) fn basic(dag: &Dag, node: NodeId) -> Self {
        Self::of_covered(dag, None, node, BTreeSet::from([node]))
    }

    /// Makes an operator of a template that another process planned. Returns `None` if it can't run, or if no
    /// template has it.
    pub(crate) fn checked(
        dag: &Dag,
        template: Option<Template>,
        roots: Vec<NodeId>,
        covered: Vec<NodeId>,
    ) -> Option<Self> {
        let rises = |nodes: &[NodeId]| nodes.windows(2).all(|pair| pair[0] < pair[1]);
        let is_computed = |node: &NodeId| *node < dag.nodes().len() && !dag.is_source(*node);
        let is_known = rises(&covered) && covered.iter().all(is_computed);
        let ends = |root: &NodeId| covered.binary_search(root).is_ok();
        if !(is_known && rises(&roots) && !roots.is_empty() && roots.iter().all(ends)) {
            return None;
        }
        let one = match template {
            None => covered.len() == 1,
            Some(Template::MAgg) => true,
            Some(_) => roots.len() == 1,
        };
        let mut found = Self::of_covered(dag, template, roots[0], covered.into_iter().collect());
        found.roots = roots;
        found.driver = found.sparse_driver(dag);
        if template == Some(Template::Row) && found.goes_by_rows(dag) && found.covers_what_roots_need(dag) {
            return Some(found);
        }
        let has_one_space =
            found.roots.iter().all(|root| dag.shape(found.body(dag, *root)) == found.space(dag));
        let whole = template.is_none() || !found.covers_factor(dag) && !found.covers_transposed_elements(dag);
        let drives = template != Some(Template::Outer) || found.driver.is_some();
        (one && has_one_space && whole && drives && found.is_explored(dag)).then_some(found)
    }

    /// Tells whether the operator covers no node but its roots and what they follow from.
    fn covers_what_roots_need(&self, dag: &Dag) -> bool {
        let (mut reached, mut pending) = (BTreeSet::new(), self.roots.clone());
        while let Some(node) = pending.pop() {
            if self.covered.binary_search(&node).is_ok() && reached.insert(node) {
                pending.extend(dag.inputs(node));
            }
        }
        reached.len() == self.covered.len()
    }

    /// Tells whether exploration finds plans that fuse what the operator covers.
    fn is_explored(&self, dag: &Dag) -> bool {
        let Some(template) = self.template else { return true };
        let memo = MemoTable::explore(dag);
        let covers = |node: NodeId| self.covered.binary_search(&node).is_ok();
        let (mut reached, mut pending) = (BTreeSet::new(), self.roots.clone());
        while let Some(node) = pending.pop() {
            if !reached.insert(node) {
                continue;
            }
            let ends = self.roots.contains(&node);
            let belongs = |entry: &&Entry| {
                // A single aggregate of MAgg is a Cell operator.
                let is_own = entry.template == template
                    || (template, entry.template) == (Template::Cell, Template::MAgg);
                let fits = if ends { is_own } else { template.merges_with().contains(&entry.template) };
                let opens =
                    if ends { entry.close != Close::OpenInvalid } else { entry.close != Close::ClosedValid };
                fits && opens && entry.references().all(covers)
            };
            let Some(entry) =
                memo.entries(node).iter().filter(belongs).max_by_key(|entry| entry.references().count())
            else {
                return false;
            };
            pending.extend(entry.references());
        }
        reached.len() == self.covered.len()
    }

    /// Returns the operator in a graph where nodes have other numbers.
    pub(crate) fn renumbered(&self, ids: &HashMap<NodeId, NodeId>) -> Self {
        let renumber = |nodes: &[NodeId]| nodes.iter().map(|node| ids[node]).collect();
        Self {
            template: self.template,
            roots: renumber(&self.roots),
            covered: renumber(&self.covered),
            inputs: renumber(&self.inputs),
            driver: self.driver.map(|driver| ids[&driver]),
        }
    }

    /// Makes an operator of a template with several roots.
    pub(super) fn of_roots(
        dag: &Dag,
        template: Template,
        roots: Vec<NodeId>,
        covered: BTreeSet<NodeId>,
    ) -> Self {
        let mut found = Self::of_covered(dag, Some(template), roots[0], covered);
        found.roots = roots;
        found.driver = found.sparse_driver(dag);
        found
    }

    fn of_covered(dag: &Dag, template: Option<Template>, root: NodeId, covered: BTreeSet<NodeId>) -> Self {
        let read = covered.iter().flat_map(|node| dag.inputs(*node)).filter(|input| !covered.contains(input));
        let inputs: BTreeSet<NodeId> = read.copied().collect();
        let mut found = Self {
            template,
            roots: vec![root],
            covered: covered.into_iter().collect(),
            inputs: inputs.into_iter().collect(),
            driver: None,
        };
        found.driver = found.sparse_driver(dag);
        found
    }

    /// Returns an input in CSR whose zeros all roots skip: the one with the least share of elements that are not 0.
    pub(super) fn sparse_driver(&self, dag: &Dag) -> Option<NodeId> {
        if self.template == Some(Template::Row) {
            return None;
        }
        let space = self.space(dag);
        let drives = |input: &NodeId| {
            let size = dag.size(*input);
            size.format == Format::Csr
                && size.shape == space
                && self.roots.iter().all(|root| self.root_skips_zeros(dag, *root, *input))
        };
        let filled = |node: &NodeId| dag.size(*node).filled;
        self.inputs.iter().copied().filter(drives).min_by(|a, b| filled(a).total_cmp(&filled(b)))
    }

    fn root_skips_zeros(&self, dag: &Dag, root: NodeId, driver: NodeId) -> bool {
        let body = self.body(dag, root);
        // A fused operator skips zeros only where a basic one would store CSR, so that zeros absorb the same elements.
        if dag.size(body).format != Format::Csr {
            return false;
        }
        let ends = match dag.operator(root) {
            Operator::Aggregate(aggregation, _) => aggregation.skips_zeros(),
            Operator::MatMul => self.template == Some(Template::Outer) && body != root,
            Operator::Unary(_) | Operator::Binary(_) => true,
            _ => false,
        };
        ends && self.skips_zeros(dag, body, driver)
    }

    /// Tells whether a covered node is 0 wherever the driver is.
    fn skips_zeros(&self, dag: &Dag, body: NodeId, driver: NodeId) -> bool {
        let mut zero: HashSet<NodeId> = HashSet::from([driver]);
        for node in &self.covered {
            let inputs = dag.inputs(*node);
            let is_zero = |at: usize| zero.contains(&inputs[at]);
            let stays = match dag.operator(*node) {
                Operator::Unary(unary) => unary.keeps_zero() && is_zero(0),
                Operator::Binary(Binary::Multiply) => {
                    // Only a zero of a matrix in CSR gives 0 when it is multiplied by NaN or infinity.
                    (0..2).any(|at| is_zero(at) && dag.size(inputs[at]).format == Format::Csr)
                }
                Operator::Binary(binary) => {
                    let (a, b) = (is_zero(0), is_zero(1));
                    (a || b) && zero_if(*binary, a, b, dag.literal(inputs[0]), dag.literal(inputs[1]))
                }
                _ => false,
            };
            if stays {
                zero.insert(*node);
            }
        }
        zero.contains(&body)
    }

    /// Returns the compressed matrix of which the operator computes only the distinct tuples (CLA in section 5.2, figure
    /// 9): all that it covers is an elementwise function of this matrix and of scalars, or an aggregate of one. Unlike
    /// in the paper the function need not be sparse-safe, since a dictionary holds zeros, too.
    pub fn distinct(&self, dag: &Dag) -> Option<NodeId> {
        let space = self.space(dag);
        let mut matrices = self.inputs.iter().filter(|input| dag.shape(**input) != (1, 1));
        let input = *matrices.next().filter(|_| matrices.next().is_none())?;
        let is_of_tuples = |node: &NodeId| match dag.operator(*node) {
            Operator::Aggregate(..) => self.roots.contains(node),
            _ => dag.is_elementwise(*node) && dag.shape(*node) == space,
        };
        let size = dag.size(input);
        let whole = size.format.is_compressed() && size.shape == space;
        (whole && self.covered.iter().all(is_of_tuples)).then_some(input)
    }

    /// Tells whether the operator needs elements of an input. Otherwise the input is only the left-hand side of products
    /// with few columns, itself or transposed, which go over the groups of a compressed matrix.
    pub(crate) fn reads_elements(&self, dag: &Dag, input: NodeId) -> bool {
        let is_left = |node: NodeId, of: NodeId| {
            let inputs = dag.inputs(node);
            let is_product = *dag.operator(node) == Operator::MatMul && dag.shape(node).1 <= GROUP_COLUMNS;
            is_product && inputs[0] == of && inputs[1] != of
        };
        let reads = |of: NodeId| {
            let mut consumers = self.covered.iter().filter(|node| dag.inputs(**node).contains(&of));
            consumers.any(|node| dag.transposed(*node) != Some(of) && !is_left(*node, of))
        };
        let turned = self.covered.iter().filter(|node| dag.transposed(**node) == Some(input));
        let mut turned = turned.map(|node| self.roots.contains(node) || reads(*node));
        self.driver.is_some() || reads(input) || turned.any(|reads| reads)
    }

    /// Tells whether a product of the operator needs a whole matrix that the operator computes tile by tile. A square
    /// matrix may be covered by way of another consumer.
    fn covers_factor(&self, dag: &Dag) -> bool {
        let products = self.covered.iter().filter(|node| *dag.operator(**node) == Operator::MatMul);
        products.into_iter().any(|node| {
            let inputs = dag.inputs(*node);
            let covers = |at: usize| self.covered.contains(&inputs[at]);
            match self.template {
                Some(Template::Outer) => covers(1) || covers(0) && !self.is_closing_product(*node, dag),
                _ => covers(1) && dag.transposed(inputs[0]).is_none(),
            }
        })
    }

    /// Tells whether the operator covers a transposition of which it needs elements. It goes through rows of what is
    /// transposed, so only products may take it, as their left-hand side.
    fn covers_transposed_elements(&self, dag: &Dag) -> bool {
        self.covered.iter().filter(|node| dag.transposed(**node).is_some()).any(|turned| {
            let mut consumers = self.covered.iter().filter(|node| dag.inputs(**node).contains(turned));
            consumers.any(|node| *dag.operator(*node) != Operator::MatMul || dag.inputs(*node)[1] == *turned)
        })
    }

    /// Returns the name of the operator's variant in table 1. If there are several roots, it is that of the first one.
    pub fn variant(&self, dag: &Dag) -> &'static str {
        self.variant_of(dag, self.roots[0])
    }

    /// Returns the names of the roots' variants, each once.
    pub(super) fn variants(&self, dag: &Dag) -> String {
        let mut found: Vec<&str> = Vec::new();
        for root in &self.roots {
            let name = self.variant_of(dag, *root);
            if !found.contains(&name) {
                found.push(name);
            }
        }
        found.join(" ")
    }

    fn variant_of(&self, dag: &Dag, root: NodeId) -> &'static str {
        match dag.operator(root) {
            Operator::Aggregate(_, Direction::Row) => "row_agg",
            Operator::Aggregate(_, Direction::Column) => "col_agg",
            Operator::Aggregate(_, Direction::Full) => "full_agg",
            Operator::MatMul if self.is_closing_product(root, dag) => {
                match (self.template, dag.transposed(dag.inputs(root)[0])) {
                    (Some(Template::Outer), Some(_)) => "left_mm",
                    (Some(Template::Outer), None) => "right_mm",
                    _ => "col_t_agg",
                }
            }
            _ => "no_agg",
        }
    }
}

/// Makes operators at nodes, given a graph, its memo table, and the cost model.
#[derive(Clone, Copy)]
pub(super) struct OperatorBuilder<'a> {
    /// The steps of the search so far.
    pub(super) steps: &'a Cell<u64>,
    pub dag: &'a Dag,
    pub memo: &'a MemoTable,
    pub costs: &'a Costs,
}

impl OperatorBuilder<'_> {
    /// Counts steps of a search.
    pub(super) fn add_steps(&self, count: usize) {
        self.steps.set(self.steps.get() + count as u64);
    }

    /// Returns the operator at a node. It is of the first template that may end there, in the order Outer, Row, MAgg,
    /// Cell, and fuses as many inputs as are not cut. Outer comes first, because it may reduce the number of elements
    /// that are computed.
    pub fn operator(&self, root: NodeId, assignment: &Assignment) -> PlannedOperator {
        let made = |template: Template, within: Option<&[NodeId]>| {
            let covered = self.covered_nodes(root, template, within, assignment)?;
            // A single node is a basic operator.
            (covered.len() > 1).then_some(())?;
            let found = PlannedOperator::of_covered(self.dag, Some(template), root, covered);
            let fits = self.costs.operator(self.dag, &found).is_finite();
            let whole = !found.covers_factor(self.dag) && !found.covers_transposed_elements(self.dag);
            (fits && whole && (template != Template::Outer || found.driver.is_some())).then_some(found)
        };
        let cells =
            |within: Option<&[NodeId]>| made(Template::MAgg, within).or_else(|| made(Template::Cell, within));
        if let Some(outer) = made(Template::Outer, None) {
            return outer;
        }
        match made(Template::Row, None) {
            // A Cell or MAgg operator over the same nodes may skip zeros; Row reads whole rows.
            Some(row) => {
                let is_cell = |node: &NodeId| {
                    let entries = self.memo.entries(*node).iter();
                    entries
                        .map(|entry| entry.template)
                        .any(|of| matches!(of, Template::Cell | Template::MAgg))
                };
                let same = row.covered.iter().all(is_cell).then(|| cells(Some(&row.covered))).flatten();
                same.filter(|cells| cells.covered == row.covered).unwrap_or(row)
            }
            None => cells(None).unwrap_or_else(|| PlannedOperator::basic(self.dag, root)),
        }
    }

    /// Returns the nodes that a template covers from a root down. Returns `None` if a node has no entry whose
    /// references are all fused, or is not in `within`.
    fn covered_nodes(
        &self,
        root: NodeId,
        template: Template,
        within: Option<&[NodeId]>,
        assignment: &Assignment,
    ) -> Option<BTreeSet<NodeId>> {
        let mut covered = BTreeSet::new();
        // A stack, not recursion: chains may be as long as a graph.
        let mut pending = vec![root];
        while let Some(node) = pending.pop() {
            if within.is_some_and(|within| within.binary_search(&node).is_err()) {
                return None;
            }
            if !covered.insert(node) {
                continue;
            }
            let top = node == root;
            let belongs = |entry: &&Entry| {
                if top {
                    entry.template == template && entry.close != Close::OpenInvalid
                } else {
                    entry.close != Close::ClosedValid && template.merges_with().contains(&entry.template)
                }
            };
            let mut entries: Vec<&Entry> = self.memo.entries(node).iter().filter(belongs).collect();
            // Entries with the most references are tried first, so that the assignment is asked only for points that
            // the choice depends on.
            entries.sort_by_key(|entry| (entry.references().count(), entry.template == template));
            let is_whole =
                |entry: &&&Entry| entry.references().all(|input| !assignment.is_cut((input, node)));
            let best = entries.iter().rev().find(is_whole)?;
            pending.extend(best.references());
        }
        Some(covered)
    }
}

/// Returns the approximate number of floating-point operations of a node. Only the zeros of a left-hand side in CSR are
/// skipped.
pub(super) fn flops(dag: &Dag, node: NodeId) -> f64 {
    let inputs = dag.inputs(node);
    let elements = dag.size(node).elements();
    match dag.operator(node) {
        Operator::Input { .. } | Operator::Literal(_) | Operator::Transpose => 0.0,
        Operator::Unary(unary) => unary.flops() * elements,
        Operator::Binary(binary) => binary.flops() * elements,
        Operator::MatMul => {
            let left = dag.size(inputs[0]);
            let filled = if left.format == Format::Csr { left.filled } else { 1.0 };
            2.0 * elements * left.shape.1 as f64 * filled
        }
        Operator::Aggregate(Aggregation::SumOfSquares, _) => {
            (1.0 + Unary::Square.flops()) * dag.size(inputs[0]).elements()
        }
        Operator::Aggregate(..) => dag.size(inputs[0]).elements(),
        Operator::Columns { .. } => 0.0,
    }
}
