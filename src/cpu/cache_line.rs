//! Memory in whole lines of the cache. A register of 64 bytes that lies on two lines takes two loads, and trees in blends do little
//! else than load: "Without AVX-512" in `benches/NOTEBOOK.md`.

/// Bytes of a line.
pub(super) const BYTES: usize = 64;

/// Values that begin with a line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct CacheLine<A>(pub(crate) A);

/// What so many values need for [`aligned`] to have room for them.
pub(super) const fn room<T>(values: usize) -> usize {
    values.saturating_add(BYTES / size_of::<T>())
}

/// The values from the first on that begins with a line.
pub(super) fn aligned<T>(room: &mut [T]) -> &mut [T] {
    // An interpreter of programs may know no such place.
    let skip = Some(room.as_ptr().align_offset(BYTES)).filter(|skip| *skip < BYTES / size_of::<T>());
    &mut room[skip.unwrap_or(0)..]
}

/// The values of lines that follow each other.
pub(super) fn flat<T, const N: usize>(lines: &[CacheLine<[T; N]>]) -> &[T] {
    const { assert!(size_of::<[T; N]>() == BYTES) };
    // SAFETY: a line is its values and nothing after them, as was just asserted, so those of neighbours follow each other.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * N) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_where_they_should() {
        for values in [0, 1, 16, 1000] {
            let mut own = vec![0f32; room::<f32>(values)];
            let found = aligned(&mut own);
            assert!(found.len() >= values);
            assert!(cfg!(miri) || found.as_ptr().addr().is_multiple_of(BYTES));
        }
        let lines: Vec<CacheLine<[f32; 16]>> =
            (0..3).map(|l| CacheLine(std::array::from_fn(|i| (16 * l + i) as f32))).collect();
        assert!(flat(&lines).iter().copied().eq((0..48).map(|i| i as f32)));
    }
}
