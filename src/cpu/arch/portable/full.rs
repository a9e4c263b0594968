//! Looks for missing values of a row that is walked through full trees.

/// Returns whether some value is NaN. It is always inlined, so that the kernel of an instruction set that calls
/// it has its loops in vectors of that set.
#[inline(always)]
pub(in crate::cpu) fn any_missing(values: &[f32]) -> bool {
    let missing = |values: &[f32]| values.iter().fold(false, |any, value| any | value.is_nan());
    let (chunks, rest) = values.as_chunks::<64>();
    chunks.iter().any(|chunk| missing(chunk)) || missing(rest)
}
