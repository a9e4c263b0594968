//! Prefetches of values that the processor does not predict by itself.

/// Bytes of a cache line, which is what a prefetch fetches.
pub(crate) const CACHE_LINE_BYTES: usize = 64;

/// Fetches `count` values from index `first` on into the second-level cache, as many of them as there are. Columns a
/// power of two apart would push each other out of the closest one.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
pub(crate) fn prefetch<T>(values: &[T], first: usize, count: usize) {
    #[cfg(target_arch = "x86_64")]
    for value in
        values.iter().skip(first).take(count).step_by((CACHE_LINE_BYTES / size_of::<T>().max(1)).max(1))
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: every x86-64 has SSE, which `_mm_prefetch` needs. A prefetch never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(value).cast()) };
    }
}
