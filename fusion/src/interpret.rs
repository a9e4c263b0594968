//! The interpreter, which defines the results of a graph. It computes each node by itself, dense and in `f64`.

use std::collections::HashMap;

use crate::{
    FusionError, Matrix,
    dag::{Aggregation, Binary, Dag, Direction, Format, NodeId, Operator, Shape},
    matrix::{Bindings, DenseMatrix, bound},
};

/// The maximum size of a node's dense result, in bytes.
const LIMIT: u64 = 1 << 32;

impl Dag {
    /// Computes the outputs, by name, as dense matrices. A zero of a matrix in CSR times anything is 0, NaN and
    /// infinity included: in an elementwise multiplication, and in the left operand of a matrix product.
    ///
    /// ```
    /// use fangorn_fusion::{Bindings, Matrix, dag::Dag};
    ///
    /// let dag = Dag::parse("%0 = input \"X\": dense[2, 2]\n%1 = sum.row(%0)\noutput \"sums\": %1\n")?;
    /// let x = Matrix::dense((2, 2), vec![1.0, 2.0, 3.0, 4.0]).expect("four elements");
    /// let found = dag.interpret(&Bindings::from([("X".to_owned(), x)]))?;
    /// assert_eq!(found["sums"].to_dense(), [3.0, 7.0]);
    /// # Ok::<(), fangorn_fusion::FusionError>(())
    /// ```
    ///
    /// # Errors
    /// An input is missing or of another shape or format, or a node's dense result takes more than 4 GiB.
    pub fn interpret(&self, bindings: &Bindings) -> Result<HashMap<String, Matrix>, FusionError> {
        let inputs = bound(self, bindings)?;
        let mut results: Vec<DenseMatrix> = Vec::with_capacity(self.nodes().len());
        for at in 0..self.nodes().len() {
            let bytes = (8.0 * self.size(at).elements()) as u64;
            if bytes > LIMIT {
                return Err(FusionError::Memory { node: at, bytes, limit: LIMIT });
            }
            let values = match inputs.get(&at) {
                Some(matrix) => matrix.to_dense(),
                None => self.evaluate(at, &results),
            };
            let whole = DenseMatrix::new(self.shape(at), values);
            results
                .push(whole.ok_or(FusionError::Node { node: at, problem: "elements are lost".to_owned() })?);
        }
        let result = |node: NodeId| Matrix::Dense(results[node].clone().into());
        Ok(self.outputs().iter().map(|output| (output.name.clone(), result(output.node))).collect())
    }

    fn evaluate(&self, node: NodeId, results: &[DenseMatrix]) -> Vec<f64> {
        let inputs = self.inputs(node);
        let input = |at: usize| &results[inputs[at]];
        let shape = self.shape(node);
        match self.operator(node) {
            Operator::Input { .. } => Vec::new(),
            Operator::Literal(number) => vec![number.0],
            Operator::Unary(unary) => input(0).values().iter().map(|x| unary.apply(*x)).collect(),
            Operator::Binary(binary) => {
                let (a, b) = (input(0), input(1));
                let held = |at: usize| self.size(inputs[at]).format == Format::Csr;
                let (a_sparse, b_sparse) = (held(0), held(1));
                each(shape, |row, column| {
                    let (x, y) = (broadcast(a, row, column), broadcast(b, row, column));
                    let absorbs = a_sparse && x == 0.0 || b_sparse && y == 0.0;
                    if *binary == Binary::Multiply && absorbs { 0.0 } else { binary.apply(x, y) }
                })
            }
            Operator::MatMul => {
                let (a, b) = (input(0), input(1));
                let skips = self.size(inputs[0]).format == Format::Csr;
                each(shape, |row, column| {
                    let held = a.row(row).iter().enumerate().filter(|(_, x)| !skips || **x != 0.0);
                    held.map(|(k, x)| x * b.row(k)[column]).sum()
                })
            }
            Operator::Transpose => each(shape, |row, column| input(0).row(column)[row]),
            Operator::Aggregate(aggregation, direction) => aggregate(input(0), *aggregation, *direction),
            Operator::Columns { start, .. } => each(shape, |row, column| input(0).row(row)[start + column]),
        }
    }
}

/// Computes the elements of a matrix, row-major.
fn each(shape: Shape, element: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    (0..shape.0)
        .flat_map(|row| (0..shape.1).map(move |column| (row, column)))
        .map(|(r, c)| element(r, c))
        .collect()
}

/// Returns an element of a matrix, which is broadcast if it has one row or one column.
fn broadcast(matrix: &DenseMatrix, row: usize, column: usize) -> f64 {
    let (rows, columns) = matrix.shape();
    matrix.row(if rows == 1 { 0 } else { row })[if columns == 1 { 0 } else { column }]
}

fn aggregate(matrix: &DenseMatrix, aggregation: Aggregation, direction: Direction) -> Vec<f64> {
    let (rows, columns) = matrix.shape();
    let fold = |sum: f64, x: &f64| aggregation.add(sum, *x);
    match direction {
        Direction::Row => {
            (0..rows).map(|row| matrix.row(row).iter().fold(aggregation.start(), fold)).collect()
        }
        Direction::Column => (0..columns)
            .map(|column| (0..rows).map(|row| &matrix.row(row)[column]).fold(aggregation.start(), fold))
            .collect(),
        Direction::Full => vec![matrix.values().iter().fold(aggregation.start(), fold)],
    }
}
