//! Programs over the distinct tuples of a compressed matrix (figure 9 of the fusion paper; Elgohary et al., VLDB 2016,
//! section 3). The operator computes each tuple once; a sum takes it as often as rows hold it.

use rayon::prelude::*;

use super::{
    Values,
    kernels::{View, aggregate, binary, multiply_skipping, unary},
};
use crate::{
    ColumnGroup, CompressedMatrix, Encoding, Matrix,
    dag::{Aggregation, Binary, Dag, Direction, Format, NodeId, Operator},
    select::PlannedOperator,
};

/// The number of elements that are computed at a time. The registers for them fit a second-level cache.
const BATCH: usize = 4096;

/// What a root computes of the tuples.
#[derive(Clone, Copy)]
enum End {
    /// Tuples.
    Tuples,
    /// An aggregate of each tuple, of each column or of all elements.
    Aggregate(Aggregation, Direction),
}

struct Tuples<'a> {
    dag: &'a Dag,
    operator: &'a PlannedOperator,
    /// The values of the inputs that are scalars; 0 for the matrix.
    scalars: Vec<f64>,
}

/// Computes the roots of an operator that reads one compressed matrix, and scalars.
pub(super) fn run(
    dag: &Dag,
    operator: &PlannedOperator,
    values: &Values,
    matrix: &CompressedMatrix,
) -> Vec<(NodeId, Matrix)> {
    let is_scalar = |input: &NodeId| dag.shape(*input) == (1, 1);
    let scalar = |input: &NodeId| values.get(input).filter(|_| is_scalar(input)).map_or(0.0, Matrix::scalar);
    let scalars = operator.inputs.iter().map(scalar).collect();
    let tuples = Tuples { dag, operator, scalars };
    // For each group, what each root computes of it.
    let of_groups: Vec<Vec<Vec<f64>>> = matrix.groups().par_iter().map(|group| tuples.group(group)).collect();
    let mut of_roots: Vec<Vec<Vec<f64>>> = operator.roots.iter().map(|_| Vec::new()).collect();
    for of_group in of_groups {
        of_roots.iter_mut().zip(of_group).for_each(|(of_root, found)| of_root.push(found));
    }
    let roots = operator.roots.iter().zip(of_roots);
    roots.filter_map(|(root, found)| Some((*root, tuples.whole(*root, matrix, found)?))).collect()
}

impl Tuples<'_> {
    fn end(&self, root: NodeId) -> End {
        match self.dag.operator(root) {
            Operator::Aggregate(aggregation, direction) => End::Aggregate(*aggregation, *direction),
            _ => End::Tuples,
        }
    }

    /// Computes the tuples of a group, batches in parallel. Returns for each root elements of the tuples, an aggregate
    /// for each tuple or for each column, or one number.
    fn group(&self, group: &ColumnGroup) -> Vec<Vec<f64>> {
        let width = group.columns().len();
        let height = (BATCH / width).max(1);
        let batches = group.dictionary().par_chunks(height * width).enumerate();
        let registers = || vec![Vec::new(); self.operator.covered.len()];
        let of_batches: Vec<Vec<Vec<f64>>> = batches
            .map_init(registers, |registers, (batch, elements)| {
                self.evaluate(elements, registers);
                let reduced = |root: &NodeId| {
                    let body = self.operator.body(self.dag, *root);
                    let data = self
                        .operator
                        .covered
                        .binary_search(&body)
                        .map_or(elements, |at| registers[at].as_slice());
                    self.reduced(*root, group, batch * height, data)
                };
                self.operator.roots.iter().map(reduced).collect()
            })
            .collect();
        let mut of_batches = of_batches.into_iter();
        let mut whole = of_batches.next().unwrap_or_default();
        for batch in of_batches {
            for ((root, whole), batch) in self.operator.roots.iter().zip(&mut whole).zip(batch) {
                match self.end(*root) {
                    End::Tuples | End::Aggregate(_, Direction::Row) => whole.extend(batch),
                    End::Aggregate(aggregation, _) => join(aggregation, whole, &batch),
                }
            }
        }
        whole
    }

    fn evaluate(&self, elements: &[f64], registers: &mut [Vec<f64>]) {
        let count = elements.len();
        for (index, node) in self.operator.covered.iter().enumerate() {
            let of = self.dag.inputs(*node);
            let mut out = std::mem::take(&mut registers[index]);
            let view = |at: usize| {
                let node = of[at];
                if let Ok(index) = self.operator.covered.binary_search(&node) {
                    return View { data: &registers[index], row: count, column: 1 };
                }
                match self.operator.inputs.binary_search(&node) {
                    Ok(index) if self.dag.shape(node) == (1, 1) => {
                        View { data: &self.scalars[index..=index], row: 0, column: 0 }
                    }
                    _ => View { data: elements, row: count, column: 1 },
                }
            };
            if !matches!(self.dag.operator(*node), Operator::Aggregate(..)) {
                out.resize(count, 0.0);
            }
            match self.dag.operator(*node) {
                Operator::Unary(function) => unary(*function, view(0), &mut out, count),
                Operator::Binary(Binary::Multiply) => {
                    let skips = |at: usize| self.dag.size(of[at]).format == Format::Csr;
                    multiply_skipping(view(0), view(1), [skips(0), skips(1)], &mut out, count);
                }
                Operator::Binary(function) => binary(*function, view(0), view(1), &mut out, count),
                _ => {}
            }
            registers[index] = out;
        }
    }

    /// Returns what a root computes of tuples, the first of which has an index in its group.
    fn reduced(&self, root: NodeId, group: &ColumnGroup, first: usize, data: &[f64]) -> Vec<f64> {
        let width = group.columns().len();
        let counted =
            || data.chunks_exact(width).zip(first..).map(move |(tuple, at)| (tuple, group.count(at)));
        match self.end(root) {
            End::Tuples => data.to_vec(),
            End::Aggregate(aggregation, Direction::Row) => {
                counted().map(|(tuple, _)| aggregate(aggregation, aggregation.start(), tuple)).collect()
            }
            // Each tuple is held once. A loop over all elements takes a tenth of the time of one over tuples of one column.
            End::Aggregate(aggregation, Direction::Full) if group.encoding() == Encoding::Uncompressed => {
                vec![aggregate(aggregation, aggregation.start(), data)]
            }
            End::Aggregate(aggregation, Direction::Full) => {
                let add = |whole: f64, (tuple, count): (&[f64], u32)| {
                    let of_tuple = aggregate(aggregation, aggregation.start(), tuple);
                    aggregation.join(whole, repeated(aggregation, of_tuple, count))
                };
                vec![counted().fold(aggregation.start(), add)]
            }
            End::Aggregate(aggregation, Direction::Column) => {
                let mut whole = vec![aggregation.start(); width];
                for (tuple, count) in counted() {
                    for (whole, x) in whole.iter_mut().zip(tuple) {
                        let of_element = aggregation.add(aggregation.start(), *x);
                        *whole = aggregation.join(*whole, repeated(aggregation, of_element, count));
                    }
                }
                whole
            }
        }
    }

    /// Returns the result of a root, given what it computes of each group.
    fn whole(&self, root: NodeId, matrix: &CompressedMatrix, of_groups: Vec<Vec<f64>>) -> Option<Matrix> {
        let shape = self.dag.shape(root);
        match self.end(root) {
            End::Tuples => {
                let made = matrix.with_dictionaries(of_groups);
                if self.dag.size(root).format.is_compressed() {
                    return Some(Matrix::Compressed(made.into()));
                }
                Matrix::dense(shape, made.to_dense())
            }
            End::Aggregate(aggregation, Direction::Full) => {
                let mut whole = [aggregation.start()];
                of_groups.iter().for_each(|of_group| join(aggregation, &mut whole, of_group));
                Matrix::dense(shape, whole.to_vec())
            }
            End::Aggregate(_, Direction::Column) => {
                let mut whole = vec![0.0; shape.1];
                for (group, of_group) in matrix.groups().iter().zip(of_groups) {
                    group.columns().iter().zip(of_group).for_each(|(column, x)| whole[*column] = x);
                }
                Matrix::dense(shape, whole)
            }
            End::Aggregate(aggregation, Direction::Row) => {
                let mut whole = vec![aggregation.start(); shape.0];
                whole.par_chunks_mut(BATCH).enumerate().for_each(|(batch, out)| {
                    let first = batch * BATCH;
                    for (group, of_group) in matrix.groups().iter().zip(&of_groups) {
                        group.for_codes(first..first + out.len(), |row, count, code| {
                            let x = of_group[code];
                            out[row..row + count].iter_mut().for_each(|out| *out = aggregation.join(*out, x));
                        });
                    }
                });
                Matrix::dense(shape, whole)
            }
        }
    }
}

/// Returns the aggregate of so many sets, each of which has the given aggregate.
fn repeated(aggregation: Aggregation, aggregate: f64, count: u32) -> f64 {
    match aggregation {
        Aggregation::Sum | Aggregation::SumOfSquares => aggregate * f64::from(count),
        Aggregation::Min | Aggregation::Max => aggregate,
    }
}

fn join(aggregation: Aggregation, whole: &mut [f64], other: &[f64]) {
    whole.iter_mut().zip(other).for_each(|(whole, x)| *whole = aggregation.join(*whole, *x));
}
