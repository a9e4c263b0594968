//! Operators that go through a matrix of which they get row blocks.
//!
//! An operator computes rows of its result from the same rows of some inputs, or joins something over all rows. So it can
//! go through row blocks in any order: it computes a part of its results from each block, and parts are merged. Operators
//! are the plan's, with its templates; only the number of rows is another one.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use fangorn::sparse::SparseMatrix;

use super::{LIMIT, Values, compute, is_only_viewed, literals, outputs_of};
use crate::{
    Bindings, DenseMatrix, FusionError, Matrix,
    dag::{Aggregation, Dag, Direction, Format, Node, NodeId, Number, Operator, Output, Shape},
    matrix::{bound_but, csr_of, rows_of},
    select::{Plan, PlannedOperator},
};

/// A matrix that is larger than memory: it is read in row blocks.
///
/// Blocks may have any number of rows, one at least, and come in any order. Together they have each row once.
pub trait RowBlocks {
    /// Returns the number of rows and of columns of the whole matrix.
    fn shape(&self) -> Shape;

    /// Calls `take` with the number of the first row of each block, and with the block.
    ///
    /// # Errors
    /// A block can't be read, or `take` returns an error.
    fn each(&self, take: &mut dyn FnMut(usize, Matrix) -> Result<(), FusionError>)
    -> Result<(), FusionError>;
}

/// A matrix in memory, as row blocks of so many rows.
///
/// ```
/// use fangorn_fusion::{Matrix, MatrixBlocks, RowBlocks};
///
/// let matrix = Matrix::dense((5, 1), vec![1.0, 2.0, 3.0, 4.0, 5.0]).expect("five elements");
/// let mut sizes = Vec::new();
/// MatrixBlocks { matrix, rows: 2 }.each(&mut |first, block| {
///     sizes.push((first, block.shape()));
///     Ok(())
/// })?;
/// assert_eq!(sizes, [(0, (2, 1)), (2, (2, 1)), (4, (1, 1))]);
/// # Ok::<(), fangorn_fusion::FusionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MatrixBlocks {
    /// The matrix. Rows of a compressed one are written out.
    pub matrix: Matrix,
    /// Number of rows of a block; the last block may have fewer. 0 counts as 1.
    pub rows: usize,
}

impl RowBlocks for MatrixBlocks {
    fn shape(&self) -> Shape {
        self.matrix.shape()
    }

    fn each(
        &self,
        take: &mut dyn FnMut(usize, Matrix) -> Result<(), FusionError>,
    ) -> Result<(), FusionError> {
        let (all, of_block) = (self.shape().0, self.rows.max(1));
        for first in (0..all).step_by(of_block) {
            take(first, rows_of(&self.matrix, first, of_block.min(all - first)))?;
        }
        Ok(())
    }
}

/// How a root's results of several blocks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joining {
    /// Each block gives rows of its own.
    Rows,
    /// Blocks give aggregates of the same elements.
    Aggregates(Aggregation),
}

/// An operator of a plan that goes through the row blocks of one of its inputs.
///
/// Parts of its results may be computed in any order, on any thread, and merged in any order; sums differ by rounding.
#[derive(Clone, Debug)]
struct BlockOperator<'p> {
    dag: &'p Dag,
    operator: &'p PlannedOperator,
    /// The input of which there are blocks.
    blocked: NodeId,
    /// The nodes of whose rows a block takes the same: this input, others, and some that the operator covers.
    aligned: BTreeSet<NodeId>,
    joinings: Vec<Joining>,
}

/// Results of an operator from some of the row blocks, root by root: rows by the number of the first one, or aggregates,
/// which have the number 0.
type Parts = Vec<BTreeMap<usize, Matrix>>;

impl<'p> BlockOperator<'p> {
    /// Returns how an operator goes through the rows of an input.
    ///
    /// # Errors
    /// The operator needs the whole input for a row of its result, since it multiplies by it from the right, for example;
    /// or a result takes more than 64 GiB.
    fn new(dag: &'p Dag, operator: &'p PlannedOperator, blocked: NodeId) -> Result<Self, FusionError> {
        let found = Self { dag, operator, blocked, aligned: BTreeSet::new(), joinings: Vec::new() };
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

    /// Returns the error of an operator that needs all rows of a node's result at once.
    fn needs_whole(&self, node: NodeId) -> FusionError {
        let other = if self.operator.template.is_some() { ", or plan with Policy::NoFusion" } else { "" };
        let problem = format!(
            "the operator that writes {:?} needs all rows of %{node} at once, so it can't go through row blocks; bind the \
             matrix in memory{other}",
            self.operator.roots
        );
        FusionError::Input { name: name_of(self.dag, self.blocked), problem }
    }

    fn covers(&self, node: NodeId) -> bool {
        self.operator.covered.binary_search(&node).is_ok()
    }

    /// Computes the part of the results that a block gives: rows from `first` on of the input. `values` has the other
    /// inputs, whole.
    ///
    /// # Errors
    /// The block has another format or number of columns than the input, or rows past its last one, or a result takes more
    /// than 64 GiB.
    fn part(&self, first: usize, block: &Matrix, values: &Values) -> Result<Parts, FusionError> {
        let (dag, (rows, columns)) = (self.dag, block.shape());
        let whole = dag.shape(self.blocked);
        if columns != whole.1 || rows == 0 || first.checked_add(rows).is_none_or(|end| end > whole.0) {
            return Err(FusionError::Input {
                name: name_of(dag, self.blocked),
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
                name: name_of(dag, self.blocked),
                problem: format!(
                    "a block in {}, {declared} declared; give blocks of that format",
                    block.format()
                ),
            });
        }
        // The operator alone, over as many rows as the block has.
        let (mut nodes, mut found, mut ids) = (Vec::new(), Values::new(), HashMap::new());
        let mut sources: BTreeSet<NodeId> = self.operator.inputs.iter().copied().collect();
        sources.extend(self.operator.inputs.iter().filter_map(|input| dag.transposed(*input)));
        let all: BTreeSet<NodeId> = sources.iter().chain(&self.operator.covered).copied().collect();
        for node in all {
            // What is transposed of rows is only viewed: products read these rows.
            let is_view = dag.transposed(node).is_some_and(|of| self.aligned.contains(&of));
            let matrix = match values.get(&node) {
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
    fn merge(&self, parts: &mut Parts, others: Parts) {
        for ((own, others), joining) in parts.iter_mut().zip(others).zip(&self.joinings) {
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
    }

    /// Returns the result of each root, once the blocks of all rows are merged.
    fn finish(&self, parts: Parts) -> Values {
        let mut values = Values::new();
        for ((root, parts), joining) in self.operator.roots.iter().zip(parts).zip(&self.joinings) {
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
            values.extend(matrix.map(|matrix| (*root, matrix)));
        }
        values
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
struct RowUses<'u, 'p> {
    of: &'u BlockOperator<'p>,
    /// Nodes whose rows it takes. The operator covers some of them.
    aligned: BTreeSet<NodeId>,
    /// Nodes that it takes whole.
    whole: BTreeSet<NodeId>,
}

impl RowUses<'_, '_> {
    /// Takes the rows of a block of a node's result.
    fn take_rows(&mut self, node: NodeId) -> Result<(), FusionError> {
        let (dag, rows) = (self.of.dag, self.of.dag.shape(self.of.blocked).0);
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

fn name_of(dag: &Dag, node: NodeId) -> String {
    match dag.operator(node) {
        Operator::Input { name, .. } => name.clone(),
        _ => format!("%{node}"),
    }
}

/// The rows of which there were blocks: the end of each block by its first row.
#[derive(Default)]
struct SeenRows(BTreeMap<usize, usize>);

impl SeenRows {
    /// Adds the rows of a block. Returns whether they are new.
    fn add(&mut self, first: usize, rows: usize) -> bool {
        let end = first.saturating_add(rows);
        let before = self.0.range(..end).next_back();
        let is_new = before.is_none_or(|(_, last)| *last <= first);
        if is_new {
            self.0.insert(first, end);
        }
        is_new
    }

    /// Returns the first row of which there was no block.
    fn missing(&self, all: usize) -> Option<usize> {
        let mut next = 0;
        for (first, end) in &self.0 {
            if *first > next {
                break;
            }
            next = *end;
        }
        (next < all).then_some(next)
    }
}

impl Plan {
    /// Computes the outputs of the graph, by name, where some inputs are read in row blocks. Each operator that takes such
    /// an input reads all of its blocks once; other results are in memory.
    ///
    /// ```
    /// use std::collections::HashMap;
    ///
    /// use fangorn_fusion::{
    ///     Bindings, Matrix, MatrixBlocks, RowBlocks,
    ///     dag::Builder,
    ///     select::{Costs, Plan, Policy},
    /// };
    ///
    /// let builder = Builder::new();
    /// let (x, v) = (builder.dense("X", 3, 2), builder.dense("v", 2, 1));
    /// builder.output("gradient", x.transpose().matmul(x.matmul(v)));
    /// let dag = builder.finish()?;
    /// let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
    /// let matrix = Matrix::dense((3, 2), vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("six elements");
    /// let blocks = MatrixBlocks { matrix, rows: 2 };
    /// let v = Matrix::dense((2, 1), vec![1.0, 1.0]).expect("two elements");
    /// let found = plan.run_blocks(
    ///     &dag,
    ///     &Bindings::from([("v".to_owned(), v)]),
    ///     &HashMap::from([("X".to_owned(), &blocks as &dyn RowBlocks)]),
    /// )?;
    /// assert_eq!(found["gradient"].to_dense(), [79.0, 100.0]);
    /// # Ok::<(), fangorn_fusion::FusionError>(())
    /// ```
    ///
    /// # Errors
    /// An input is missing or of another shape or format, a result takes more than 64 GiB, a block can't be read or has
    /// another number of columns, blocks leave rows out, or an operator takes two inputs in blocks or needs a whole one.
    pub fn run_blocks(
        &self,
        dag: &Dag,
        bindings: &Bindings,
        blocks: &HashMap<String, &dyn RowBlocks>,
    ) -> Result<HashMap<String, Matrix>, FusionError> {
        let mut values = bound_but(dag, bindings, |name| blocks.contains_key(name))?;
        values.extend(literals(dag));
        let mut sources = BTreeMap::new();
        for (node, operator) in dag.nodes().iter().map(|node| &node.operator).enumerate() {
            let Operator::Input { name, shape, .. } = operator else { continue };
            let Some(source) = blocks.get(name) else { continue };
            let wrong = |problem: String| Err(FusionError::Input { name: name.clone(), problem });
            if source.shape() != *shape {
                let what = format!("blocks of {:?} rows and columns, {shape:?} declared", source.shape());
                return wrong(what);
            }
            if bindings.contains_key(name) {
                return wrong("a matrix is bound to it, too; give one of the two".to_owned());
            }
            if dag.is_output(node) || shape.0 == 1 {
                let what = if shape.0 == 1 { "it has one row" } else { "it is an output, too" };
                return wrong(format!("{what}; bind it in memory"));
            }
            sources.insert(node, *source);
        }
        for (at, operator) in self.operators().iter().enumerate() {
            let root = operator.roots[0];
            let read = operator.inputs.iter().map(|input| dag.transposed(*input).unwrap_or(*input));
            let mut read =
                read.filter(|input| sources.contains_key(input)).collect::<BTreeSet<_>>().into_iter();
            if *dag.operator(root) == Operator::Transpose && is_only_viewed(self, dag, root) {
                continue;
            }
            let made = match (read.next(), read.next()) {
                (None, _) => compute(dag, operator, &values)?,
                (Some(blocked), None) => through_blocks(dag, operator, blocked, sources[&blocked], &values)?,
                (Some(one), Some(other)) => {
                    let [one, other] = [one, other].map(|node| name_of(dag, node));
                    let problem = format!(
                        "the operator that writes %{root} reads {other:?} in blocks, too; bind one in memory"
                    );
                    return Err(FusionError::Input { name: one, problem });
                }
            };
            values.extend(made);
            self.forget(dag, at, &mut values);
        }
        Ok(outputs_of(dag, &values))
    }
}

/// Computes the results of an operator from all blocks of an input.
fn through_blocks(
    dag: &Dag,
    operator: &PlannedOperator,
    blocked: NodeId,
    source: &dyn RowBlocks,
    values: &Values,
) -> Result<Values, FusionError> {
    let by_block = BlockOperator::new(dag, operator, blocked)?;
    let wrong = |problem: String| FusionError::Input { name: name_of(dag, blocked), problem };
    let (mut all, mut seen, mut failed) = (None::<Parts>, SeenRows::default(), None);
    source.each(&mut |first, block| {
        let rows = block.shape().0;
        let mut take = || {
            let part = by_block.part(first, &block, values)?;
            if !seen.add(first, rows) {
                let end = first + rows;
                return Err(wrong(format!("rows {first} to {end} come in two blocks; give each row once")));
            }
            match &mut all {
                Some(all) => by_block.merge(all, part),
                None => all = Some(part),
            }
            Ok(())
        };
        let taken = match &failed {
            Some(error) => Err(FusionError::clone(error)),
            None => take(),
        };
        failed = taken.clone().err();
        taken
    })?;
    // A source may go on after an error.
    if let Some(error) = failed {
        return Err(error);
    }
    match (all, seen.missing(dag.shape(blocked).0)) {
        (Some(all), None) => Ok(by_block.finish(all)),
        (_, missing) => {
            let row = missing.unwrap_or(0);
            Err(wrong(format!("blocks leave out row {row}; give each row once")))
        }
    }
}
