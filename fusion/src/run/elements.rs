//! Programs over the elements of a sparse driver, which is an input in CSR. An element that is 0 in the driver is
//! neither read from the other inputs nor computed.

use std::{ops::Range, sync::Arc};

use fangorn::sparse::SparseMatrix;
use rayon::prelude::*;

use super::{
    Values,
    kernels::{View, add_scaled_skipping, aggregate, binary, dot, multiply_skipping, transpose, unary},
};
use crate::{
    Matrix,
    dag::{Binary, Dag, Direction, Format, NodeId, Operator},
    matrix::DenseMatrix,
    select::PlannedOperator,
};

/// The minimum number of elements of a batch, except for the last one. The registers for this many elements stay in the
/// first-level cache.
const BATCH: usize = 512;

/// What one thread computes of a root from its rows.
struct Partial {
    /// Elements of a result in CSR, rows of a dense one, or sums over the rows.
    values: Vec<f64>,
}

struct Elements<'a> {
    dag: &'a Dag,
    operator: &'a PlannedOperator,
    values: &'a Values,
    driver: Arc<SparseMatrix<f64>>,
    /// For each covered node, the left-hand side and the transposed right-hand side if it is an outer product.
    /// Otherwise `None`.
    factors: Vec<Option<[Arc<DenseMatrix>; 2]>>,
}

/// A batch of elements: the row, the column and the driver's value of each.
#[derive(Default)]
struct Batch {
    rows: Vec<usize>,
    columns: Vec<usize>,
    driver: Vec<f64>,
}

/// Computes the roots of an operator with a sparse driver.
pub(super) fn run(dag: &Dag, operator: &PlannedOperator, values: &Values) -> Vec<(NodeId, Matrix)> {
    let Some(driver) = operator.driver.and_then(|driver| values.get(&driver)).map(sparse) else {
        return Vec::new();
    };
    let factor = |node: &NodeId| {
        let inputs = dag.inputs(*node);
        let is_product = *dag.operator(*node) == Operator::MatMul && !operator.is_closing_product(*node, dag);
        let right = values.get(inputs.get(1)?).filter(|_| is_product)?;
        Some([dense(values.get(&inputs[0])?), dense(&transpose(right))])
    };
    let factors = operator.covered.iter().map(factor).collect();
    let elements = Elements { dag, operator, values, driver, factors };
    let ranges = elements.ranges();
    let of_ranges: Vec<Vec<Partial>> = ranges.into_par_iter().map(|rows| elements.partials(rows)).collect();
    let mut of_roots: Vec<Vec<Partial>> = operator.roots.iter().map(|_| Vec::new()).collect();
    for partials in of_ranges {
        of_roots.iter_mut().zip(partials).for_each(|(of_root, partial)| of_root.push(partial));
    }
    let roots = operator.roots.iter().zip(of_roots);
    roots.filter_map(|(root, partials)| Some((*root, elements.whole(*root, partials)?))).collect()
}

fn sparse(matrix: &Matrix) -> Arc<SparseMatrix<f64>> {
    match matrix {
        Matrix::Csr(sparse) => sparse.clone(),
        Matrix::Dense(_) | Matrix::Single(_) | Matrix::Compressed(_) => {
            let held = dense(matrix);
            let (rows, columns) = held.shape();
            // A graph's matrices have fewer than 2^32 columns, and as many elements as their shapes say.
            let made = SparseMatrix::of_dense([rows, columns], held.values());
            Arc::new(made.expect("a matrix of a graph"))
        }
    }
}

fn dense(matrix: &Matrix) -> Arc<DenseMatrix> {
    match matrix {
        Matrix::Dense(dense) => dense.clone(),
        Matrix::Single(_) | Matrix::Csr(_) | Matrix::Compressed(_) => {
            Arc::new(DenseMatrix::new(matrix.shape(), matrix.to_dense()).expect("all elements of the shape"))
        }
    }
}

/// What a root computes from the elements.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Elements,
    Rows,
    Columns,
    Full,
    /// W V: rows of the result.
    Right,
    /// t(W) U: sums over the rows.
    Left,
}

impl Elements<'_> {
    fn end(&self, root: NodeId) -> End {
        match self.dag.operator(root) {
            Operator::Aggregate(_, Direction::Full) => End::Full,
            Operator::Aggregate(_, Direction::Column) => End::Columns,
            Operator::Aggregate(_, Direction::Row) => End::Rows,
            Operator::MatMul if self.operator.is_closing_product(root, self.dag) => {
                match self.dag.transposed(self.dag.inputs(root)[0]) {
                    Some(_) => End::Left,
                    None => End::Right,
                }
            }
            _ => End::Elements,
        }
    }

    /// Splits the rows into a range for each thread, with about as many elements in each.
    fn ranges(&self) -> Vec<Range<usize>> {
        let rows = self.driver.shape().0;
        let each = (self.driver.filled() / rayon::current_num_threads().max(1)).max(1);
        let (mut found, mut first, mut count) = (Vec::new(), 0, 0);
        for row in 0..rows {
            count += self.driver.row(row).count();
            if count >= each && row + 1 < rows {
                found.push(first..row + 1);
                (first, count) = (row + 1, 0);
            }
        }
        found.push(first..rows);
        found
    }

    /// Returns the number of values of one thread's partial result. It is 0 if the result is a list of elements,
    /// which grows.
    fn length(&self, root: NodeId, rows: usize) -> usize {
        let (all, columns) = self.dag.shape(root);
        match self.end(root) {
            End::Elements => 0,
            End::Rows | End::Right => rows * columns,
            _ => all * columns,
        }
    }

    fn partials(&self, rows: Range<usize>) -> Vec<Partial> {
        let mut partials: Vec<Partial> = self
            .operator
            .roots
            .iter()
            .map(|root| Partial { values: vec![0.0; self.length(*root, rows.len())] })
            .collect();
        let others: Vec<Option<Arc<DenseMatrix>>> = self
            .operator
            .roots
            .iter()
            .map(|root| {
                let right = self.dag.inputs(*root).get(1)?;
                matches!(self.end(*root), End::Left | End::Right)
                    .then(|| self.values.get(right))
                    .flatten()
                    .map(dense)
            })
            .collect();
        let mut registers = vec![Vec::new(); self.operator.covered.len()];
        let mut inputs = vec![Vec::new(); self.operator.inputs.len()];
        let mut batch = Batch::default();
        for row in rows.clone() {
            for (column, value) in self.driver.row(row) {
                batch.rows.push(row);
                batch.columns.push(column);
                batch.driver.push(value);
            }
            if batch.rows.len() >= BATCH || row + 1 == rows.end {
                self.gather(&batch, &mut inputs);
                self.evaluate(&batch, &inputs, &mut registers);
                for ((root, partial), other) in self.operator.roots.iter().zip(&mut partials).zip(&others) {
                    let body = self.operator.body(self.dag, *root);
                    let data = self.data(body, &inputs, &registers);
                    self.add(*root, rows.start, &batch, data, other.as_deref(), &mut partial.values);
                }
                batch.rows.clear();
                batch.columns.clear();
                batch.driver.clear();
            }
        }
        partials
    }

    fn data<'v>(&self, node: NodeId, inputs: &'v [Vec<f64>], registers: &'v [Vec<f64>]) -> &'v [f64] {
        match (self.operator.covered.binary_search(&node), self.operator.inputs.binary_search(&node)) {
            (Ok(index), _) => &registers[index],
            (_, Ok(index)) => &inputs[index],
            _ => &[],
        }
    }

    /// Collects the elements of the inputs at the rows and columns of a batch.
    fn gather(&self, batch: &Batch, inputs: &mut [Vec<f64>]) {
        for (node, out) in self.operator.inputs.iter().zip(inputs) {
            out.clear();
            if Some(*node) == self.operator.driver {
                out.extend(&batch.driver);
                continue;
            }
            if !self.is_elementwise_input(*node) {
                continue;
            }
            let (rows, columns) = self.dag.shape(*node);
            let at = batch.rows.iter().zip(&batch.columns).map(|(row, column)| {
                (if rows == 1 { 0 } else { *row }, if columns == 1 { 0 } else { *column })
            });
            match self.values.get(node) {
                Some(Matrix::Dense(dense)) => {
                    let values = dense.values();
                    out.extend(at.map(|(row, column)| values[row * columns + column]));
                }
                Some(Matrix::Single(single)) => {
                    let values = single.values();
                    out.extend(at.map(|(row, column)| f64::from(values[row * columns + column])));
                }
                Some(Matrix::Csr(sparse)) => {
                    // Columns ascend within a row, so one pass over a row's elements finds all of them.
                    let (mut of, mut held) = (usize::MAX, Vec::new());
                    let mut next = 0;
                    for (row, column) in at {
                        if row != of {
                            (of, next) = (row, 0);
                            held.clear();
                            held.extend(sparse.row(row));
                        }
                        if rows == 1 && held.get(next).is_some_and(|(first, _)| *first > column) {
                            next = 0;
                        }
                        next += held[next..].iter().take_while(|(other, _)| *other < column).count();
                        out.push(
                            held.get(next).filter(|(other, _)| *other == column).map_or(0.0, |(_, x)| *x),
                        );
                    }
                }
                Some(Matrix::Compressed(compressed)) => {
                    out.extend(at.map(|(row, column)| compressed.element(row, column)));
                }
                None => {}
            }
        }
    }

    /// Tells whether elements of an input are read one by one: by elementwise operators, or by an aggregate.
    fn is_elementwise_input(&self, node: NodeId) -> bool {
        self.operator.covered.iter().any(|covered| {
            self.dag.inputs(*covered).contains(&node)
                && !matches!(self.dag.operator(*covered), Operator::MatMul | Operator::Transpose)
        }) || self.operator.roots.iter().any(|root| self.operator.body(self.dag, *root) == node)
    }

    fn evaluate(&self, batch: &Batch, inputs: &[Vec<f64>], registers: &mut [Vec<f64>]) {
        let count = batch.rows.len();
        for (index, node) in self.operator.covered.iter().enumerate() {
            let mut out = std::mem::take(&mut registers[index]);
            out.resize(count, 0.0);
            let of = self.dag.inputs(*node);
            let view = |at: usize| View { data: self.data(of[at], inputs, registers), row: count, column: 1 };
            match (self.dag.operator(*node), &self.factors[index]) {
                (Operator::Unary(function), _) => unary(*function, view(0), &mut out, count),
                (Operator::Binary(Binary::Multiply), _) => {
                    let skips = |at: usize| self.dag.size(of[at]).format == Format::Csr;
                    multiply_skipping(view(0), view(1), [skips(0), skips(1)], &mut out, count);
                }
                (Operator::Binary(function), _) => binary(*function, view(0), view(1), &mut out, count),
                (_, Some([left, right])) => {
                    let at = batch.rows.iter().zip(&batch.columns);
                    let skips = self.dag.size(of[0]).format == Format::Csr;
                    for (out, (row, column)) in out.iter_mut().zip(at) {
                        let (left, right) = (left.row(*row), right.row(*column));
                        *out = if skips {
                            left.iter().zip(right).filter(|(x, _)| **x != 0.0).map(|(x, y)| x * y).sum()
                        } else {
                            dot(left, right)
                        };
                    }
                }
                _ => {}
            }
            registers[index] = out;
        }
    }

    /// Adds the elements of a batch to a thread's result of a root.
    fn add(
        &self,
        root: NodeId,
        first: usize,
        batch: &Batch,
        data: &[f64],
        other: Option<&DenseMatrix>,
        out: &mut Vec<f64>,
    ) {
        let squares = |x: f64| match self.dag.operator(root) {
            Operator::Aggregate(aggregation, _) => aggregation.add(0.0, x),
            _ => x,
        };
        let at = batch.rows.iter().zip(&batch.columns).zip(data);
        match (self.end(root), other) {
            (End::Elements, _) => out.extend(data),
            (End::Full, _) => {
                if let Operator::Aggregate(aggregation, _) = self.dag.operator(root) {
                    out[0] = aggregate(*aggregation, out[0], data);
                }
            }
            (End::Rows, _) => at.for_each(|((row, _), x)| out[row - first] += squares(*x)),
            (End::Columns, _) => at.for_each(|((_, column), x)| out[*column] += squares(*x)),
            (End::Right, Some(other)) => {
                let width = other.shape().1;
                at.for_each(|((row, column), x)| {
                    add_scaled_skipping(&mut out[(row - first) * width..][..width], *x, other.row(*column));
                });
            }
            (End::Left, Some(other)) => {
                let width = other.shape().1;
                at.for_each(|((row, column), x)| {
                    add_scaled_skipping(&mut out[column * width..][..width], *x, other.row(*row));
                });
            }
            _ => {}
        }
    }

    /// Joins the partial results of a root.
    fn whole(&self, root: NodeId, partials: Vec<Partial>) -> Option<Matrix> {
        let shape = self.dag.shape(root);
        let mut partials = partials.into_iter().map(|partial| partial.values);
        match self.end(root) {
            End::Elements => {
                let values: Vec<f64> = partials.flatten().collect();
                let rows = self.driver.shape().0;
                let mut offsets = vec![0];
                let mut columns = Vec::with_capacity(values.len());
                for row in 0..rows {
                    columns.extend(self.driver.row(row).map(|(column, _)| column as u32));
                    offsets.push(columns.len());
                }
                let made = SparseMatrix::new([rows, shape.1], offsets, columns, values)?;
                Some(Matrix::Csr(Arc::new(made)))
            }
            End::Rows | End::Right => Matrix::dense(shape, partials.flatten().collect()),
            _ => {
                let mut whole = partials.next()?;
                partials.for_each(|partial| whole.iter_mut().zip(partial).for_each(|(a, b)| *a += b));
                Matrix::dense(shape, whole)
            }
        }
    }
}
