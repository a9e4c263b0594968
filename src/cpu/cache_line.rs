//! Memory aligned to cache lines. A load of a 64-byte register that straddles two cache lines takes two
//! accesses, and trees in blends do little else than load: "Without AVX-512" in `benches/NOTEBOOK.md`.

pub(crate) use crate::prefetch::CACHE_LINE_BYTES as BYTES;

/// A value that starts at a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct CacheLine<A>(pub(crate) A);

/// Returns the length of a buffer in which [`aligned`] finds room for `values` values.
pub(crate) const fn room<T>(values: usize) -> usize {
    values.saturating_add(BYTES / size_of::<T>())
}

/// Returns the rest of the buffer that starts at its first cache line boundary.
pub(crate) fn aligned<T>(room: &mut [T]) -> &mut [T] {
    // Under an interpreter such as Miri, `align_offset` may find no aligned address. The buffer then starts at
    // its first value.
    let skip = Some(room.as_ptr().align_offset(BYTES)).filter(|skip| *skip < BYTES / size_of::<T>());
    &mut room[skip.unwrap_or(0)..]
}

/// Returns the values of neighbouring cache lines as one slice.
pub(super) fn flat<T, const N: usize>(lines: &[CacheLine<[T; N]>]) -> &[T] {
    const { assert!(size_of::<[T; N]>() == BYTES) };
    // SAFETY: the assertion above says that a `CacheLine` is its `N` values and no padding, so the values of
    // neighbouring cache lines follow each other.
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
