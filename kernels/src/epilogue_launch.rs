//! The launch of the epilogue kernel, and the arguments of an epilogue in any kernel.

use cubecl::{client::Client, prelude::*};
use fangorn_ir::{EpiloguePlan, Number};

use super::{
    device::{Buffer, flat},
    epilogue_kernel::{EpilogueBuffersLaunch, EpilogueCallLaunch, EpilogueStage, epilogue},
    epilogue_steps::{EpilogueInputs, EpilogueOperandsLaunch},
    recorded::RecordedInputs,
};

/// The buffers that the launch of an epilogue reads.
pub(crate) struct Sums<'a> {
    /// Number of rows.
    pub(crate) rows: u32,
    /// The words that hold the base scores.
    pub(crate) model: &'a Buffer,
    /// Index of the first base score in `model`.
    pub(crate) base_at: u32,
    /// The sums of all rows.
    pub(crate) sums: &'a Buffer,
    /// The memory of the copies of sums that are not added up yet.
    pub(crate) partial: &'a Buffer,
    /// Index of the first copy's first word in `partial`.
    pub(crate) partial_at: u32,
    /// Number of copies that are not added up yet.
    pub(crate) copies: u32,
    /// Factor of margins before the transform.
    pub(crate) scale: f32,
}

/// Launches the epilogue: adds up the copies of sums that are left, and writes the epilogue's results into
/// `out`.
pub(crate) fn launch_epilogue(
    client: &Client,
    stage: EpilogueStage,
    sums: &Sums<'_>,
    inputs: &EpilogueInputs,
    out: &Buffer,
) {
    let (count, dim) = flat(client, sums.rows);
    let call = EpilogueCallLaunch::new(sums.base_at, sums.partial_at, sums.copies, sums.rows, sums.scale);
    // SAFETY: the callers, `RowPiece` and `margins_in_order`, made `sums.sums` for `sums.rows` rows and
    // `sums.partial` for `sums.copies` copies of them. Their own callers uphold that `out` has room for the rows'
    // results and that each tensor of `inputs` has as many values as `out`.
    unsafe {
        let (values, operands) = bind_results(client, &stage.epilogue, inputs, None, out);
        // The f32 values of a row need memory before they become f16 or bf16.
        let values = match stage.epilogue.number {
            Number::F32 => values,
            Number::F16 | Number::BF16 => Buffer::of_words(client, out.len).arg(),
        };
        let (model, partial, sums) = (sums.model.arg(), sums.partial.arg(), sums.sums.arg());
        let buffers = EpilogueBuffersLaunch::new(model, sums, partial, values, operands);
        epilogue::launch_unchecked(client, count, dim, buffers, call, stage);
    }
}

/// Returns a kernel's arguments for the f32 result and for the operands of an epilogue. If the result is f16
/// or bf16, it is one of the operands, and the first argument is a placeholder of one word.
///
/// # Safety
/// `out` has room for `out.len` numbers of the epilogue's type, and each tensor of `inputs` holds `out.len`
/// values.
pub(crate) unsafe fn bind_results(
    client: &Client,
    epilogue: &EpiloguePlan,
    inputs: &EpilogueInputs,
    recorded: Option<RecordedInputs>,
    out: &Buffer,
) -> (BufferArg, EpilogueOperandsLaunch) {
    let result = |number: Number| {
        // SAFETY: the caller upholds that `out` has room for `out.len` numbers of this type.
        (epilogue.number == number).then(|| unsafe { out.arg() }).into_iter()
    };
    let values = match epilogue.number {
        // SAFETY: the caller upholds that `out` has room for `out.len` f32.
        Number::F32 => unsafe { out.arg() },
        // SAFETY: the buffer is made here with as many words as it says.
        Number::F16 | Number::BF16 => unsafe { Buffer::none(client).arg() },
    };
    // SAFETY: the caller upholds that each tensor holds `out.len` values. A buffer with a number for each output
    // is bound at the size with which it was uploaded.
    let buffers = unsafe {
        let tensors = inputs.tensors.iter().map(|t| BufferArg::from_raw_parts(t.clone(), out.len));
        let each = inputs.each.iter();
        let each = each.map(|t| BufferArg::from_raw_parts(t.clone(), t.size_in_used() as usize / 4));
        tensors.chain(each).collect()
    };
    let numbers = inputs.numbers.iter().copied().collect();
    let halves = result(Number::F16).collect();
    let recorded = recorded.map(RecordedInputs::launch).into_iter().collect();
    (values, EpilogueOperandsLaunch::new(buffers, numbers, halves, result(Number::BF16).collect(), recorded))
}
