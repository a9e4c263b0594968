//! Runs of plans that get some inputs in row blocks.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    Values,
    block_operator::{BlockOperator, BlockParts, name_of},
    compute, is_only_viewed, literals, outputs_of,
};
use crate::{
    Bindings, FusionError, Matrix,
    dag::{Dag, Operator, Shape},
    matrix::{bound_but, rows_of},
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

    /// Returns the results of an operator from all blocks. This is where a source of several machines sends the operator to
    /// them; by default, it goes through [`each`](Self::each) block.
    ///
    /// # Errors
    /// Those of [`each`](Self::each) and [`BlockOperator::add`].
    fn results(&self, operator: &BlockOperator) -> Result<BlockParts, FusionError> {
        let (mut parts, mut failed) = (BlockParts::default(), None);
        self.each(&mut |first, block| {
            let taken = match &failed {
                Some(error) => Err(FusionError::clone(error)),
                None => operator.add(&mut parts, Some(first), &block),
            };
            failed = taken.clone().err();
            taken
        })?;
        // A source may go on after an error.
        failed.map_or(Ok(parts), Err)
    }
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

impl Plan {
    /// Computes the outputs of the graph, by name, where some inputs are read in row blocks. Each operator that takes such
    /// an input reads all of its blocks once; other results are in memory. Where an operator stands for several that share
    /// a pass, and takes two inputs in blocks or needs a whole one, those run one after another instead.
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
        let blocked_inputs = |operator: &PlannedOperator| {
            let read = operator.inputs.iter().map(|input| dag.transposed(*input).unwrap_or(*input));
            let mut read =
                read.filter(|input| sources.contains_key(input)).collect::<BTreeSet<_>>().into_iter();
            (read.next(), read.next())
        };
        let plan = self.with_passes_that(|pass| match blocked_inputs(pass) {
            (None, _) => true,
            (Some(blocked), None) => BlockOperator::new(dag, pass, blocked, &Values::new()).is_ok(),
            (Some(_), Some(_)) => false,
        });
        for (at, operator) in plan.operators().iter().enumerate() {
            let root = operator.roots[0];
            if *dag.operator(root) == Operator::Transpose && is_only_viewed(&plan, dag, root) {
                continue;
            }
            let made = match blocked_inputs(operator) {
                (None, _) => compute(dag, operator, &values)?,
                (Some(blocked), None) => {
                    let is_small = self.costs().blocks.is_some() && !self.costs().reads_blocks(dag, operator);
                    let mut operator = BlockOperator::new(dag, operator, blocked, &values)?;
                    operator.fits_memory = is_small;
                    operator.finish(sources[&blocked].results(&operator)?)?
                }
                (Some(one), Some(other)) => {
                    let [one, other] = [one, other].map(|node| name_of(dag, node));
                    let problem = format!(
                        "the operator that writes %{root} reads {other:?} in blocks, too; bind one in memory"
                    );
                    return Err(FusionError::Input { name: one, problem });
                }
            };
            values.extend(made);
            plan.forget(dag, at, &mut values);
        }
        Ok(outputs_of(dag, &values))
    }
}
