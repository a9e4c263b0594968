//! What a function does with tensors, as operations of burn.

use std::{cell::Cell, collections::BTreeMap};

use burn::{
    backend::{
        Capture,
        ir::{OperationIr, TensorId},
    },
    tensor::{Device, Tensor, TensorData},
};

use super::Input;
use crate::error::{Error, Result};

/// A function that was recorded.
pub(super) struct Recorded<const N: usize, const M: usize> {
    /// In the order of execution.
    pub operations: Vec<OperationIr>,
    pub arguments: [TensorId; N],
    pub results: [TensorId; M],
    /// The elements of tensors that the function made.
    pub values: BTreeMap<TensorId, TensorData>,
}

/// Records a function.
pub(super) fn record<const N: usize, const M: usize>(
    inputs: &[Input; N],
    function: impl FnOnce([Tensor<2>; N]) -> [Tensor<2>; M],
) -> Result<Recorded<N, M>> {
    let (device, _busy) = recorder();
    let mut found = None;
    let captured = device.capture_scope(|scope| {
        // Filled tensors are recorded without their elements, so a large input takes no memory here.
        let arguments = inputs.map(|input| Tensor::<2>::zeros(input.shape, (&device, input.dtype)));
        let of_arguments = arguments.each_ref().map(id_of);
        let results = function(arguments);
        let of_results = results.each_ref().map(id_of);
        let mut outputs: Vec<TensorId> = of_results.iter().flatten().copied().collect();
        outputs.sort();
        outputs.dedup();
        found = Some((of_arguments, of_results));
        // The arguments are no inputs for burn, since it made them.
        scope.complete([], outputs)
    });
    let wrong = |problem: String| Error::Fused(problem);
    let (of_arguments, of_results) =
        found.ok_or_else(|| wrong("another function is being recorded on this device".to_owned()))?;
    let captured = captured.map_err(|error| wrong(error.to_string()))?;
    let elsewhere = || {
        wrong(
            "a result is on another device than the arguments; make tensors on the arguments' device"
                .to_owned(),
        )
    };
    let mut arguments = [TensorId::new(0); N];
    for (id, found) in arguments.iter_mut().zip(of_arguments) {
        *id = found.ok_or_else(elsewhere)?;
    }
    let mut results = [TensorId::new(0); M];
    for (id, found) in results.iter_mut().zip(of_results) {
        *id = found.ok_or_else(elsewhere)?;
    }
    Ok(Recorded { operations: captured.graph.operations, arguments, results, values: captured.values })
}

thread_local! {
    /// The device that this thread records on, and whether it does. Each new device takes one of 65 536 numbers for good.
    static RECORDER: (Device, Cell<bool>) = (Device::capture(), Cell::new(false));
}

/// Marks the thread's device as free when a function was recorded, or has panicked.
struct Busy;

impl Drop for Busy {
    fn drop(&mut self) {
        RECORDER.with(|(_, busy)| busy.set(false));
    }
}

/// Returns the thread's device, or a new one for a function that is recorded inside another.
fn recorder() -> (Device, Option<Busy>) {
    RECORDER.with(
        |(device, busy)| {
            if busy.replace(true) { (Device::capture(), None) } else { (device.clone(), Some(Busy)) }
        },
    )
}

/// Returns what stands for a tensor in recorded operations, or `None` if it is not on the recording device.
fn id_of(tensor: &Tensor<2>) -> Option<TensorId> {
    Some(tensor.clone().try_into_primitive::<Capture>().ok()?.id())
}
