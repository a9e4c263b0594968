//! Functions of burn's tensors that run by a fusion plan.
//!
//! [`FusedFunction::capture`] records what a function does with tensors, and chooses by estimated time how its operators
//! are fused. A run then joins operators, so that intermediate results are not written to memory, inputs are read once,
//! and zeros of sparse matrices are skipped. `fangorn-fusion` makes the plans.
//!
//! ```text
//! function ──record──▶ GraphIr ──stages──▶ fused | burn | fused … ──run──▶ tensors
//!         (burn-capture)      (one Dag and Plan for each fused stage)
//! ```
//!
//! | file | subject |
//! |---|---|
//! | `record` | what a function does, as operations of burn |
//! | `stages` | operations that are fused, and those between them that burn runs |
//! | `lower` | an operation of burn as operators of a graph of linear algebra |
//! | `argument` | tensors as matrices, and matrices as tensors |
//! | `run` | the stages, one after the other |

mod argument;
mod lower;
mod record;
mod run;
mod stages;

use std::fmt::Write;

use burn::{
    backend::ir::TensorId,
    tensor::{DType, Tensor},
};
use fangorn_fusion::{
    dag::Dag,
    select::{Costs, Plan, Policy},
};

pub use argument::Argument;

use crate::error::{Error, Result};
use stages::{Constants, Stage, Work};

/// What a function's argument is when plans are chosen: its shape, and whether it is a sparse matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Input {
    shape: [usize; 2],
    /// The expected share of elements that are not 0, if the argument is a matrix in CSR.
    filled: Option<f64>,
    dtype: DType,
}

impl Input {
    /// Describes a tensor, or a dense matrix, with so many rows and columns.
    pub fn dense(rows: usize, columns: usize) -> Self {
        Self { shape: [rows, columns], filled: None, dtype: DType::F32 }
    }

    /// Describes a matrix in CSR with so many rows and columns. `filled` is the expected share of its elements that are
    /// not 0, from 0 to 1. The function sees a tensor; a call takes [`Matrix::Csr`](fangorn_fusion::Matrix::Csr).
    pub fn csr(rows: usize, columns: usize, filled: f64) -> Self {
        Self { shape: [rows, columns], filled: Some(filled), dtype: DType::F32 }
    }
}

impl Input {
    /// Declares elements of `f64` in place of `f32`. The arguments of a function are of one type, as burn's operators ask.
    pub fn f64(self) -> Self {
        Self { dtype: DType::F64, ..self }
    }

    fn check(&self, at: usize) -> Result<()> {
        let [rows, columns] = self.shape;
        let wrong = |problem: String| Err(Error::Fused(format!("argument {at}: {problem}")));
        if self.shape.iter().any(|length| *length == 0 || u32::try_from(*length).is_err()) {
            return wrong(format!(
                "{rows} rows and {columns} columns; a function takes from 1 to 2^32 - 1 of each"
            ));
        }
        match self.filled {
            Some(filled) if !(0.0..=1.0).contains(&filled) => {
                wrong(format!("it is filled by {filled}; give a share from 0 to 1"))
            }
            _ => Ok(()),
        }
    }
}

/// A function of `N` matrices that returns `M` matrices, with the plan by which it runs.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::tensor::{Device, Tensor};
/// use fangorn_graphs::fused::{FusedFunction, Input};
///
/// // X^T (w * (X v)): one pass over X, and no intermediate result in memory.
/// let function = FusedFunction::capture(
///     [Input::dense(3, 2), Input::dense(2, 1), Input::dense(3, 1)],
///     |[x, v, w]| [x.clone().transpose().matmul(w * x.matmul(v))],
/// )?;
///
/// let device = Device::flex();
/// let x = Tensor::<2>::from_floats([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], &device);
/// let v = Tensor::<2>::from_floats([[1.0], [1.0]], &device);
/// let w = Tensor::<2>::from_floats([[1.0], [0.0], [1.0]], &device);
/// let [found] = function.run([x.into(), v.into(), w.into()])?;
/// assert_eq!(found.into_data().to_vec::<f32>().unwrap(), [58.0, 72.0]);
/// # }
/// # Ok::<(), fangorn_graphs::Error>(())
/// ```
///
/// # What is computed
/// Fused operators compute in `f64` on the CPU, whatever the type of the tensors. Tensors of `f32` and `f64` on Flex and
/// NdArray are read where they lie, if they lie row by row. Other tensors are copied to the host's memory first.
/// Numbers have the declared type of what they are combined with, as in burn.
///
/// Operations that no template of fusion covers, such as a sort, run as burn runs them, between fused ones.
/// [`explain`](FusedFunction::explain) names them. These compute in the
/// declared type.
pub struct FusedFunction<const N: usize, const M: usize> {
    inputs: [Input; N],
    /// The tensors of the recorded function that stand for its arguments and its results.
    arguments: [TensorId; N],
    results: [TensorId; M],
    constants: Constants,
    stages: Vec<Stage>,
}

impl<const N: usize, const M: usize> FusedFunction<N, M> {
    /// Calls a function once, with tensors that record what it does, and chooses the plan of least cost.
    ///
    /// The function must do the same with tensors whatever their elements are: the branches that it takes here are those
    /// of each run. It must make other tensors on the device of the ones it gets.
    ///
    /// # Errors
    /// The function returns a tensor on another device than its arguments, or calls an operation that can't be recorded
    /// for another run, such as a forest. An input has no rows or columns, or is filled by a share outside of 0 to 1.
    ///
    /// # Panics
    /// Where the function panics: if it asks a tensor for its elements, for example.
    pub fn capture(
        inputs: [Input; N],
        function: impl FnOnce([Tensor<2>; N]) -> [Tensor<2>; M],
    ) -> Result<Self> {
        Self::capture_with(inputs, Policy::CostBased, &Costs::default(), function)
    }

    /// Calls a function once, as [`FusedFunction::capture`] does, and chooses a plan by a policy and the costs of a
    /// machine.
    ///
    /// # Errors
    /// Those of [`FusedFunction::capture`].
    pub fn capture_with(
        inputs: [Input; N],
        policy: Policy,
        costs: &Costs,
        function: impl FnOnce([Tensor<2>; N]) -> [Tensor<2>; M],
    ) -> Result<Self> {
        inputs.iter().enumerate().try_for_each(|(at, input)| input.check(at))?;
        let recorded = record::record(&inputs, function)?;
        let (constants, stages) = stages::of(&inputs, &recorded, policy, costs)?;
        Ok(Self { inputs, arguments: recorded.arguments, results: recorded.results, constants, stages })
    }

    /// Computes the function. The results are tensors of the type and on the device of the first argument that is a
    /// tensor, or of `f32` on the default device if there is none.
    ///
    /// # Errors
    /// An argument is of another shape or format than declared, is an integer, or has a gradient.
    pub fn run(&self, arguments: [Argument; N]) -> Result<[Tensor<2>; M]> {
        run::run(self, arguments)
    }

    /// Returns the graph and the plan of each fused stage.
    pub fn plans(&self) -> impl Iterator<Item = (&Dag, &Plan)> {
        self.stages.iter().filter_map(|stage| match &stage.work {
            Work::Fused { dag, plan } => Some((dag, plan.as_ref())),
            Work::Burn(_) => None,
        })
    }

    /// Returns a text of the stages. For a fused one, it holds the graph, its partitions, interesting points and
    /// operators; for one of burn, the names of the operations.
    pub fn explain(&self) -> String {
        let mut out = String::new();
        for (at, stage) in self.stages.iter().enumerate() {
            // Writing to a String does not fail.
            let _ = match &stage.work {
                Work::Fused { dag, plan } => {
                    write!(out, "stage {at}: fused\n{dag}{}", plan.explain(dag))
                }
                Work::Burn(operations) => {
                    let names: Vec<String> = operations.iter().map(stages::name).collect();
                    writeln!(out, "stage {at}: burn runs {}", names.join(", "))
                }
            };
        }
        out
    }
}

impl<const N: usize, const M: usize> std::fmt::Debug for FusedFunction<N, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FusedFunction")
            .field("inputs", &self.inputs)
            .field("results", &M)
            .field("stages", &self.stages.len())
            .finish()
    }
}
