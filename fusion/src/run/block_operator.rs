//! An operator that goes through a matrix of which it gets row blocks, with what it needs besides.
//!
//! An operator computes rows of its result from the same rows of some inputs, or joins something over all rows. So it can
//! go through row blocks in any order: it computes a part of its results from each block, and parts are merged. Operators
//! are the plan's, with its templates; only the number of rows is another one.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use fangorn::sparse::SparseMatrix;

use super::{LIMIT, Values, compute, literals, views};
use crate::{
    DenseMatrix, FusionError, Matrix,
    dag::{Aggregation, Dag, Direction, Format, Node, NodeId, Number, Operator, Output, Shape},
    matrix::{csr_of, rows_of},
    select::PlannedOperator,
};

/// How a root's results of several blocks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joining {
    /// Each block gives rows of its own.
    Rows,
    /// Blocks give aggregates of the same elements.
    Aggregates(Aggregation),
}

/// An operator of a plan that goes through the row blocks of one of its inputs. It holds its other inputs, so it can be
/// sent to whoever reads the blocks.
///
/// Parts of its results may be computed in any order, on any thread or machine, and merged in any order; sums differ by
/// rounding.
///
/// ```
/// use std::collections::HashMap;
///
/// use fangorn_fusion::{
///     Bindings, BlockOperator, BlockParts, FusionError, Matrix, RowBlocks,
///     dag::{Builder, Shape},
///     select::{Costs, Plan, Policy},
/// };
///
/// /// Two rows, each on a machine of its own.
/// struct Machines;
///
/// impl RowBlocks for Machines {
///     fn shape(&self) -> Shape {
///         (2, 1)
///     }
///
///     fn each(
///         &self,
///         take: &mut dyn FnMut(usize, Matrix) -> Result<(), FusionError>,
///     ) -> Result<(), FusionError> {
///         (0..2).try_for_each(|row| take(row, Matrix::dense((1, 1), vec![row as f64]).expect("a row")))
///     }
///
///     fn results(&self, operator: &BlockOperator) -> Result<BlockParts, FusionError> {
///         let sent = operator.to_bytes();
///         let mut all = BlockParts::default();
///         for row in 0..2 {
///             // On the machine of that row:
///             let received = BlockOperator::from_bytes(&sent)?;
///             let mut parts = BlockParts::default();
///             received.add(&mut parts, Some(row), &Matrix::dense((1, 1), vec![row as f64]).expect("a row"))?;
///             let answer = parts.to_bytes();
///             // Here again:
///             operator.merge(&mut all, operator.parts_from_bytes(&answer)?)?;
///         }
///         Ok(all)
///     }
/// }
///
/// let builder = Builder::new();
/// builder.output("sum", builder.dense("X", 2, 1).sum());
/// let dag = builder.finish()?;
/// let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
/// let blocks = HashMap::from([("X".to_owned(), &Machines as &dyn RowBlocks)]);
/// assert_eq!(plan.run_blocks(&dag, &Bindings::new(), &blocks)?["sum"].scalar(), 1.0);
/// # Ok::<(), FusionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BlockOperator {
    pub(super) dag: Dag,
    pub(super) operator: PlannedOperator,
    /// The input of which there are blocks.
    pub(super) blocked: NodeId,
    /// The other inputs, whole.
    pub(super) values: Values,
    /// The nodes of whose rows a block takes the same: this input, others, and some that the operator covers.
    aligned: BTreeSet<NodeId>,
    pub(super) joinings: Vec<Joining>,
    /// Whether the plan's memory has room for its inputs and results.
    pub(super) fits_memory: bool,
}

/// Results of an operator from some of the row blocks.
#[derive(Clone, Debug, Default)]
pub struct BlockParts {
    pub(super) seen: SeenRows,
    /// Root by root, rows by the number of the first one, or aggregates, which have the number 0.
    pub(super) results: Vec<BTreeMap<usize, Matrix>>,
}

impl BlockOperator {
    /// Returns how an operator goes through the rows of an input. It takes its other inputs from `values`.
    ///
    /// # Errors
    /// The operator needs the whole input for a row of its result, since it multiplies by it from the right, for example;
    /// or a result takes more than 64 GiB.
    pub(super) fn new(
        dag: &Dag,
        operator: &PlannedOperator,
        blocked: NodeId,
        values: &Values,
    ) -> Result<Self, FusionError> {
        let mut found = Self {
            dag: dag.clone(),
            operator: operator.clone(),
            blocked,
            values: Values::new(),
            aligned: BTreeSet::new(),
            joinings: Vec::new(),
            fits_memory: false,
        };
        let is_read = |node: &NodeId| *node != blocked && dag.literal(*node).is_none();
        let read = found.sources().into_iter().filter(is_read);
        found.values = read.filter_map(|node| Some((node, values.get(&node)?.clone()))).collect();
        let mut uses = RowUses { of: &found, aligned: BTreeSet::new(), whole: BTreeSet::new() };
        let mut joinings = Vec::new();
        for root in &operator.roots {
            let size = dag.size(*root);
            let bytes = if size.format == Format::Csr { size.bytes() } else { 8.0 * size.elements() } as u64;
            if bytes > LIMIT {
                return Err(FusionError::Memory { node: *root, bytes, limit: LIMIT });
            }
            let inputs = dag.inputs(*root);
            joinings.push(match dag.operator(*root) {
                Operator::Aggregate(aggregation, Direction::Column | Direction::Full) => {
                    uses.take_rows(inputs[0])?;
                    Joining::Aggregates(*aggregation)
                }
                Operator::MatMul if dag.transposed(inputs[0]).is_some() => {
                    uses.take_rows(dag.inputs(inputs[0])[0])?;
                    uses.take_rows(inputs[1])?;
                    Joining::Aggregates(Aggregation::Sum)
                }
                _ => {
                    uses.take_rows(*root)?;
                    Joining::Rows
                }
            });
        }
        let RowUses { aligned, whole, .. } = uses;
        let is_both = |node: &&NodeId| {
            whole.contains(node) || dag.transposed(**node).is_some_and(|of| aligned.contains(&of))
        };
        if let Some(node) = aligned.iter().find(is_both) {
            return Err(found.needs_whole(*node));
        }
        if !aligned.contains(&blocked) {
            return Err(found.needs_whole(blocked));
        }
        Ok(Self { aligned, joinings, ..found })
    }

    /// Returns the name of the input of which there are blocks.
    pub fn input(&self) -> String {
        name_of(&self.dag, self.blocked)
    }

    /// Returns the number of rows and columns of all blocks together.
    pub fn shape(&self) -> Shape {
        self.dag.shape(self.blocked)
    }

    /// Returns the format in which blocks are taken: dense or CSR. Blocks of a compressed matrix are taken in both.
    pub fn format(&self) -> Format {
        let format = self.dag.size(self.blocked).format;
        if format.is_compressed() { Format::Dense } else { format }
    }

    /// Tells whether the plan's [`Costs`](crate::select::Costs) have row blocks, and found memory for the inputs and results
    /// of this operator. A source that reads blocks on other machines may then keep them here instead.
    pub fn fits_memory(&self) -> bool {
        self.fits_memory
    }

    /// Tells whether blocks need the number of their first row: the operator gives rows, or reads the same rows of another
    /// input.
    pub fn needs_row_numbers(&self) -> bool {
        let others = self.sources().into_iter().filter(|node| *node != self.blocked);
        let mut read = others.map(|node| self.dag.transposed(node).unwrap_or(node));
        self.joinings.contains(&Joining::Rows)
            || read.any(|node| node != self.blocked && self.aligned.contains(&node))
    }

    /// Returns the nodes whose results it reads, and what is transposed of them.
    fn sources(&self) -> BTreeSet<NodeId> {
        let read = &self.operator.inputs;
        read.iter().copied().chain(read.iter().filter_map(|input| self.dag.transposed(*input))).collect()
    }

    /// Tells whether there is a value for all that the operator reads besides blocks and literals. Of a transposition that
    /// products only view, there need be none.
    pub(super) fn has_all_inputs(&self) -> bool {
        let (dag, operator) = (&self.dag, &self.operator);
        let is_viewed = |node: NodeId| {
            let mut takers = operator.covered.iter().filter(|covered| dag.inputs(**covered).contains(&node));
            dag.transposed(node).is_some() && takers.all(|covered| views(dag, operator, *covered, node))
        };
        let is_there = |node: NodeId| {
            node == self.blocked
                || dag.literal(node).is_some()
                || self.values.contains_key(&node)
                || is_viewed(node)
        };
        self.sources().into_iter().all(is_there)
    }

    /// Computes the part of the results that a block gives, and adds it to parts of other blocks. `first` is the number of
    /// the block's first row, if that is known.
    ///
    /// # Errors
    /// The block has another format or number of columns than the input, or rows past its last one or that came before; or
    /// the operator [needs](Self::needs_row_numbers) the number; or a result takes more than 64 GiB.
    pub fn add(
        &self,
        parts: &mut BlockParts,
        first: Option<usize>,
        block: &Matrix,
    ) -> Result<(), FusionError> {
        if first.is_none() && self.needs_row_numbers() {
            let problem = format!(
                "the operator that writes {:?} needs the numbers of the rows; give them with the blocks",
                self.operator.roots
            );
            return Err(FusionError::Input { name: self.input(), problem });
        }
        let mut seen = SeenRows::default();
        let results = self.part(first.unwrap_or(0), block)?;
        let rows = block.shape().0;
        match first {
            Some(first) => drop(seen.add(first, first + rows)),
            None => seen.unnumbered = rows,
        }
        self.merge(parts, BlockParts { seen, results })
    }

    /// Returns the error of an operator that needs all rows of a node's result at once.
    fn needs_whole(&self, node: NodeId) -> FusionError {
        let other = if self.operator.template.is_some() { ", or plan with Policy::NoFusion" } else { "" };
        let problem = format!(
            "the operator that writes {:?} needs all rows of %{node} at once, so it can't go through row blocks; bind the \
             matrix in memory{other}",
            self.operator.roots
        );
        FusionError::Input { name: self.input(), problem }
    }

    fn covers(&self, node: NodeId) -> bool {
        self.operator.covered.binary_search(&node).is_ok()
    }

    /// Computes the part of the results that a block gives: rows from `first` on of the input.
    fn part(&self, first: usize, block: &Matrix) -> Result<Vec<BTreeMap<usize, Matrix>>, FusionError> {
        let (dag, (rows, columns)) = (&self.dag, block.shape());
        let whole = dag.shape(self.blocked);
        if columns != whole.1 || rows == 0 || first.checked_add(rows).is_none_or(|end| end > whole.0) {
            return Err(FusionError::Input {
                name: self.input(),
                problem: format!(
                    "a block of {rows} rows and {columns} columns from row {first} on, of {} rows and {} columns in all",
                    whole.0, whole.1
                ),
            });
        }
        let declared = dag.size(self.blocked).format;
        // A compressed matrix may come in blocks that are not.
        let is_written_out = declared.is_compressed() && block.format() == Format::Dense;
        if !(block.format().is_kind_of(declared) || is_written_out) {
            return Err(FusionError::Input {
                name: self.input(),
                problem: format!(
                    "a block in {}, {declared} declared; give blocks of that format",
                    block.format()
                ),
            });
        }
        // The operator alone, over as many rows as the block has.
        let (mut nodes, mut found, mut ids) = (Vec::new(), Values::new(), HashMap::new());
        let all: BTreeSet<NodeId> = self.sources().iter().chain(&self.operator.covered).copied().collect();
        for node in all {
            // What is transposed of rows is only viewed: products read these rows.
            let is_view = dag.transposed(node).is_some_and(|of| self.aligned.contains(&of));
            let matrix = match self.values.get(&node) {
                _ if node == self.blocked => Some(block.clone()),
                _ if self.covers(node) || is_view || dag.literal(node).is_some() => None,
                Some(whole) if self.aligned.contains(&node) => Some(rows_of(whole, first, rows)),
                whole => whole.cloned(),
            };
            let size = dag.size(node);
            let (operator, inputs) = match &matrix {
                Some(matrix) => {
                    // Zeros are skipped where CSR is declared, however the matrix is held.
                    let format = if size.format.is_compressed() { matrix.format() } else { size.format };
                    let (name, shape) = (format!("%{node}"), matrix.shape());
                    (Operator::Input { name, shape, format, filled: Number(size.filled) }, Vec::new())
                }
                None => {
                    let inputs = dag.inputs(node).iter().map(|input| ids.get(input).copied());
                    let inputs = inputs.collect::<Option<_>>().ok_or_else(|| self.needs_whole(node))?;
                    (dag.operator(node).clone(), inputs)
                }
            };
            found.extend(matrix.map(|matrix| (nodes.len(), matrix)));
            ids.insert(node, nodes.len());
            nodes.push(Node { operator, inputs });
        }
        let outputs =
            self.operator.roots.iter().map(|root| Output { name: format!("%{root}"), node: ids[root] });
        let root = self.operator.roots[0];
        let of_block = Dag::new(nodes, outputs.collect())
            .map_err(|e| FusionError::Node { node: root, problem: format!("over {rows} rows: {e}") })?;
        found.extend(literals(&of_block));
        let operator = self.operator.renumbered(&ids);
        let made = compute(&of_block, &operator, &found)?;
        let part = |(root, joining): (&NodeId, &Joining)| {
            let number = if *joining == Joining::Rows { first } else { 0 };
            made.get(root).map(|matrix| BTreeMap::from([(number, matrix.clone())]))
        };
        Ok(operator.roots.iter().zip(&self.joinings).filter_map(part).collect())
    }

    /// Adds the results of other blocks.
    ///
    /// # Errors
    /// Both have the same row.
    pub fn merge(&self, parts: &mut BlockParts, others: BlockParts) -> Result<(), FusionError> {
        for (first, end) in others.seen.ends {
            if !parts.seen.add(first, end) {
                let problem = format!("rows {first} to {end} come in two blocks; give each row once");
                return Err(FusionError::Input { name: self.input(), problem });
            }
        }
        parts.seen.unnumbered = parts.seen.unnumbered.saturating_add(others.seen.unnumbered);
        parts.results.resize_with(self.joinings.len(), BTreeMap::new);
        for ((own, others), joining) in parts.results.iter_mut().zip(others.results).zip(&self.joinings) {
            let Joining::Aggregates(aggregation) = joining else {
                own.extend(others);
                continue;
            };
            for (number, matrix) in others {
                let joined = match own.remove(&number) {
                    Some(before) => joined(*aggregation, before, matrix),
                    None => matrix,
                };
                own.insert(number, joined);
            }
        }
        Ok(())
    }

    /// Returns the result of each root, once the blocks of all rows are merged.
    ///
    /// # Errors
    /// A row is missing.
    pub(super) fn finish(&self, parts: BlockParts) -> Result<Values, FusionError> {
        if let Some(problem) = parts.seen.missing(self.shape().0) {
            return Err(FusionError::Input { name: self.input(), problem });
        }
        let mut values = Values::new();
        for ((root, parts), joining) in self.operator.roots.iter().zip(parts.results).zip(&self.joinings) {
            let (size, mut parts) = (self.dag.size(*root), parts.into_values());
            let matrix = match joining {
                Joining::Aggregates(_) => parts.next(),
                Joining::Rows if size.format == Format::Csr => {
                    let parts: Vec<_> = parts.filter_map(sparse).collect();
                    csr_of(
                        size.shape,
                        parts.iter().flat_map(|part| (0..part.shape().0).map(|row| part.row(row))),
                    )
                }
                Joining::Rows => {
                    let mut elements = Vec::new();
                    parts.for_each(|rows| elements.extend(rows.into_dense()));
                    Matrix::dense(size.shape, elements)
                }
            };
            let matrix = matrix.ok_or_else(|| FusionError::Sent(format!("no whole result of %{root}")))?;
            values.insert(*root, matrix);
        }
        Ok(values)
    }
}

/// Returns a part's rows in CSR.
fn sparse(part: Matrix) -> Option<Arc<SparseMatrix<f64>>> {
    match part {
        Matrix::Csr(part) => Some(part),
        other => Some(SparseMatrix::of_dense(other.shape().into(), &other.to_dense())?.into()),
    }
}

/// Joins aggregates of the same elements over other rows.
fn joined(aggregation: Aggregation, a: Matrix, b: Matrix) -> Matrix {
    let shape = a.shape();
    let mut values = a.into_dense();
    values.iter_mut().zip(b.to_dense()).for_each(|(a, b)| *a = aggregation.join(*a, b));
    // Both have the shape of the operator's result, so there are as many elements.
    DenseMatrix::new(shape, values).map_or(b, |joined| Matrix::Dense(joined.into()))
}

/// What an operator takes of its inputs: the rows of a block, or the whole.
struct RowUses<'u> {
    of: &'u BlockOperator,
    /// Nodes whose rows it takes. The operator covers some of them.
    aligned: BTreeSet<NodeId>,
    /// Nodes that it takes whole.
    whole: BTreeSet<NodeId>,
}

impl RowUses<'_> {
    /// Takes the rows of a block of a node's result.
    fn take_rows(&mut self, node: NodeId) -> Result<(), FusionError> {
        let (dag, rows) = (&self.of.dag, self.of.shape().0);
        let mut pending = vec![node];
        while let Some(node) = pending.pop() {
            // A row that is broadcast is the same in all blocks.
            if dag.shape(node).0 == 1 {
                self.take_whole(node);
                continue;
            }
            if dag.shape(node).0 != rows {
                return Err(self.of.needs_whole(node));
            }
            if !self.aligned.insert(node) || !self.of.covers(node) {
                continue;
            }
            let inputs = dag.inputs(node);
            match dag.operator(node) {
                Operator::Unary(_)
                | Operator::Binary(_)
                | Operator::Columns { .. }
                | Operator::Aggregate(_, Direction::Row) => pending.extend(inputs),
                Operator::MatMul if dag.transposed(inputs[0]).is_none() => {
                    pending.push(inputs[0]);
                    self.take_whole(inputs[1]);
                }
                _ => return Err(self.of.needs_whole(node)),
            }
        }
        Ok(())
    }

    /// Takes all of a node's result.
    fn take_whole(&mut self, node: NodeId) {
        let mut pending = vec![node];
        while let Some(node) = pending.pop() {
            if !self.whole.insert(node) {
                continue;
            }
            if self.of.covers(node) || self.of.dag.transposed(node).is_some() {
                pending.extend(self.of.dag.inputs(node));
            }
        }
    }
}

/// Returns what users call a node: an input's name, or the node's number.
pub(super) fn name_of(dag: &Dag, node: NodeId) -> String {
    match dag.operator(node) {
        Operator::Input { name, .. } => name.clone(),
        _ => format!("%{node}"),
    }
}

/// The rows of which there were blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenRows {
    /// The end of each stretch of rows by its first row.
    pub(super) ends: BTreeMap<usize, usize>,
    /// How many rows had no number.
    pub(super) unnumbered: usize,
}

impl SeenRows {
    /// Adds rows. Returns whether they are new.
    pub(super) fn add(&mut self, first: usize, end: usize) -> bool {
        let before = self.ends.range(..end).next_back().map(|(first, end)| (*first, *end));
        if before.is_some_and(|(_, last)| last > first) {
            return false;
        }
        // Stretches that touch become one.
        let first = match before {
            Some((before, last)) if last == first => before,
            _ => first,
        };
        let end = self.ends.remove(&end).unwrap_or(end);
        self.ends.insert(first, end);
        true
    }

    /// Returns what is missing of so many rows.
    fn missing(&self, all: usize) -> Option<String> {
        if self.unnumbered > 0 {
            let rows: usize = self.ends.iter().map(|(first, end)| end - first).sum();
            let found = rows.saturating_add(self.unnumbered);
            return (found != all)
                .then(|| format!("blocks have {found} rows, {all} declared; give each row once"));
        }
        let next = self.ends.get(&0).copied().unwrap_or(0);
        (next < all).then(|| format!("blocks leave out row {next}; give each row once"))
    }
}
