//! The last launch, and where a tail reads and writes.

use cubecl::{client::Client, prelude::*, server::Handle};

use super::{
    finish::{LastStage, finish},
    fused::FusedInputs,
    launch::{buffer, flat},
    tail::{BesideLaunch, TailInputs},
};
use crate::plan::{Number, Tail};

/// The last launch: what sums, the copies of them that are left, and a tail come to.
#[allow(clippy::too_many_arguments)]
pub(super) fn finish_rows(
    client: &Client,
    what: LastStage,
    (model, base_at): (&(Handle, usize), u32),
    sums: &(Handle, usize),
    (partial, partial_at, copies): (&(Handle, usize), u32, u32),
    inputs: &TailInputs,
    out: (Handle, usize),
    rows: u32,
    scale: f32,
) {
    let (count, dim) = flat(client, rows);
    // SAFETY: the sums of all rows, as many copies as are left of them, and room for what becomes of them.
    unsafe {
        let (values, beside) = written(client, &what.tail, (inputs, None), out.clone());
        // A row's f32 stand somewhere on the way to halves.
        let values = match what.tail.number {
            Number::F32 => values,
            Number::F16 | Number::BF16 => buffer(&client.empty(out.1.max(1) * 4), out.1),
        };
        finish::launch_unchecked(
            client,
            count,
            dim,
            buffer(&model.0, model.1),
            buffer(&sums.0, sums.1),
            buffer(&partial.0, partial.1),
            values,
            beside,
            base_at,
            partial_at,
            copies,
            rows,
            scale,
            what,
        );
    }
}

/// The result where it is of f32, and what a tail reads and writes, which a result of halves is.
///
/// # Safety
/// `out` has room for as many numbers of the tail's type as it says, and each tensor of `inputs` holds as many.
pub(super) unsafe fn written(
    client: &Client,
    tail: &Tail,
    (inputs, fused): (&TailInputs, Option<FusedInputs>),
    (out, len): (Handle, usize),
) -> (BufferArg, BesideLaunch) {
    let result = |number: Number| {
        // SAFETY: as promised to this function.
        (tail.number == number).then(|| unsafe { buffer(&out, len) }).into_iter()
    };
    let values = match tail.number {
        // SAFETY: as promised to this function.
        Number::F32 => unsafe { buffer(&out, len) },
        // SAFETY: it is made here.
        Number::F16 | Number::BF16 => unsafe { buffer(&client.empty(4), 1) },
    };
    // SAFETY: tensors are as large as the result, numbers by output were uploaded at their size.
    let buffers = unsafe {
        let tensors = inputs.tensors.iter().map(|t| buffer(t, len));
        let each = inputs.each.iter().map(|t| buffer(t, t.size_in_used() as usize / 4));
        tensors.chain(each).collect()
    };
    let numbers = inputs.numbers.iter().copied().collect();
    let halves = result(Number::F16).collect();
    let fused = fused.map(FusedInputs::launch).into_iter().collect();
    (values, BesideLaunch::new(buffers, numbers, halves, result(Number::BF16).collect(), fused))
}
