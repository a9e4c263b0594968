//! A step of an algorithm: a function of tensors, which burn runs, or a fusion plan.

use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::{Bool, DType, Tensor};
use fangorn_graphs::{
    Result,
    fangorn_fusion::select::Policy,
    fused::{Argument, FusedFunction, Input},
};

/// Whether plans are printed as they are made.
pub(crate) static EXPLAIN: AtomicBool = AtomicBool::new(false);

/// How steps run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    /// As burn runs them.
    Burn,
    /// By a fusion plan that a policy selects.
    Plan(Policy),
}

impl Way {
    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Burn => "burn",
            Self::Plan(Policy::CostBased) => "cost-based",
            Self::Plan(Policy::FuseAll) => "fuse-all",
            Self::Plan(Policy::FuseNoRedundancy) => "fuse-no-redundancy",
            Self::Plan(Policy::NoFusion) => "no-fusion",
        }
    }
}

/// A function of `N` matrices that returns `M`.
pub(crate) struct Step<const N: usize, const M: usize> {
    function: fn([Tensor<2>; N]) -> [Tensor<2>; M],
    plan: Option<FusedFunction<N, M>>,
}

impl<const N: usize, const M: usize> Step<N, M> {
    /// Makes a step. A plan is chosen for the shapes of its arguments.
    pub fn new(way: Way, inputs: [Input; N], function: fn([Tensor<2>; N]) -> [Tensor<2>; M]) -> Result<Self> {
        let plan = match way {
            Way::Burn => None,
            Way::Plan(policy) => {
                Some(FusedFunction::capture_with(inputs, policy, &Default::default(), function)?)
            }
        };
        if let Some(plan) = plan.as_ref().filter(|_| EXPLAIN.load(Ordering::Relaxed)) {
            println!("{}", plan.explain());
        }
        Ok(Self { function, plan })
    }

    /// Runs the step on tensors.
    pub fn call(&self, arguments: [&Tensor<2>; N]) -> Result<[Tensor<2>; M]> {
        self.call_with(arguments.map(|tensor| Argument::from(tensor.clone())))
    }

    /// Runs the step on tensors, or on matrices if it runs by a plan.
    ///
    /// # Panics
    /// Burn is to run a step on a matrix.
    pub fn call_with(&self, arguments: [Argument; N]) -> Result<[Tensor<2>; M]> {
        match &self.plan {
            Some(plan) => plan.run(arguments),
            None => Ok((self.function)(arguments.map(|argument| match argument {
                Argument::Tensor(tensor) => *tensor,
                Argument::Matrix(_) => panic!("burn takes tensors"),
            }))),
        }
    }
}

/// Describes a dense argument like a tensor.
pub(crate) fn like(tensor: &Tensor<2>) -> Input {
    let [rows, columns] = tensor.dims();
    dense(rows, columns, tensor)
}

/// Describes a dense argument of the type of a tensor.
pub(crate) fn dense(rows: usize, columns: usize, beside: &Tensor<2>) -> Input {
    of_type(Input::dense(rows, columns), beside)
}

/// Gives an argument the type of a tensor.
pub(crate) fn of_type(input: Input, beside: &Tensor<2>) -> Input {
    if beside.dtype() == DType::F64 { input.f64() } else { input }
}

/// Returns a sum of all elements as a matrix of one.
pub(crate) fn one(sum: Tensor<1>) -> Tensor<2> {
    sum.unsqueeze()
}

/// Returns 1 where something holds, else 0, of the type of another tensor.
pub(crate) fn indicators(holds: Tensor<2, Bool>, like: &Tensor<2>) -> Tensor<2> {
    holds.float().cast(like.dtype())
}

/// Returns the value of a matrix of one element.
pub(crate) fn value(tensor: &Tensor<2>) -> f64 {
    tensor.to_data().iter::<f64>().next().unwrap_or(f64::NAN)
}

/// Returns a matrix of one element, or of many equal ones, beside another.
pub(crate) fn filled(shape: [usize; 2], value: f64, beside: &Tensor<2>) -> Tensor<2> {
    Tensor::full(shape, value, (&beside.device(), beside.dtype()))
}
