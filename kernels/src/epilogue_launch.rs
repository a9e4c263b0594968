//! The last launch, and where a tail reads and writes.

use cubecl::{client::Client, prelude::*};
use fangorn_ir::{EpiloguePlan, Number};

use super::{
    device::{Buffer, flat},
    epilogue_kernel::{EpilogueBuffersLaunch, EpilogueCallLaunch, EpilogueStage, epilogue},
    epilogue_steps::{EpilogueInputs, EpilogueOperandsLaunch},
    recorded::RecordedInputs,
};

/// What a last launch reads.
pub(crate) struct Sums<'a> {
    /// Rows.
    pub(crate) rows: u32,
    /// Where the base scores are, …
    pub(crate) model: &'a Buffer,
    /// … and where they begin in it.
    pub(crate) base_at: u32,
    /// The sums of all rows.
    pub(crate) sums: &'a Buffer,
    /// Where the copies of them are that are left, …
    pub(crate) partial: &'a Buffer,
    /// … where these begin in it, …
    pub(crate) partial_at: u32,
    /// … and how many there are.
    pub(crate) copies: u32,
    /// What margins are multiplied with.
    pub(crate) scale: f32,
}

/// The last launch: what sums, the copies of them that are left, and a tail come to.
pub(crate) fn launch_epilogue(
    client: &Client,
    what: EpilogueStage,
    from: &Sums<'_>,
    inputs: &EpilogueInputs,
    out: &Buffer,
) {
    let (count, dim) = flat(client, from.rows);
    let call = EpilogueCallLaunch::new(from.base_at, from.partial_at, from.copies, from.rows, from.scale);
    // SAFETY: there are the sums of all rows, as many copies as are left of them, and room for what becomes of them.
    unsafe {
        let (values, beside) = written(client, &what.epilogue, inputs, None, out);
        // A row's f32 stand somewhere on the way to halves.
        let values = match what.epilogue.number {
            Number::F32 => values,
            Number::F16 | Number::BF16 => Buffer::of_words(client, out.len).arg(),
        };
        let (model, sums, partial) = (from.model.arg(), from.sums.arg(), from.partial.arg());
        let buffers = EpilogueBuffersLaunch::new(model, sums, partial, values, beside);
        epilogue::launch_unchecked(client, count, dim, buffers, call, what);
    }
}

/// The result where it is of f32, and what a tail reads and writes, which a result of halves is.
///
/// # Safety
/// `out` has room for as many numbers of the tail's type as it says, and each tensor of `inputs` holds as many.
pub(crate) unsafe fn written(
    client: &Client,
    epilogue: &EpiloguePlan,
    inputs: &EpilogueInputs,
    recorded: Option<RecordedInputs>,
    out: &Buffer,
) -> (BufferArg, EpilogueOperandsLaunch) {
    let result = |number: Number| {
        // SAFETY: as promised to this function.
        (epilogue.number == number).then(|| unsafe { out.arg() }).into_iter()
    };
    let values = match epilogue.number {
        // SAFETY: as promised to this function.
        Number::F32 => unsafe { out.arg() },
        // SAFETY: it is made here.
        Number::F16 | Number::BF16 => unsafe { Buffer::none(client).arg() },
    };
    // SAFETY: tensors are as large as the result, numbers by output were uploaded at their size.
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
