//! Arrays that kernels make in registers.
//!
//! The compiler may leave `std::array::from_fn` and `map` as functions of their own, without the target features of the
//! kernel that calls them, and then registers go through memory at each call: without ThinLTO, predictions took up to
//! twelve times as long. These loops are always inlined.

/// Returns an array of the values at each index.
#[inline(always)]
pub(crate) fn from_fn<T: Copy, const N: usize>(mut value: impl FnMut(usize) -> T) -> [T; N] {
    const { assert!(N > 0, "an array without elements has no first value") };
    let mut values = [value(0); N];
    // Adapters of iterators are functions that may not be inlined, too.
    let mut i = 1;
    while i < N {
        values[i] = value(i);
        i += 1;
    }
    values
}

/// Maps arrays in registers.
pub(crate) trait MapInline<T, const N: usize> {
    /// Returns an array of what `f` returns for each value.
    fn map_inline<U: Copy>(self, f: impl FnMut(T) -> U) -> [U; N];
}

impl<T: Copy, const N: usize> MapInline<T, N> for [T; N] {
    #[inline(always)]
    fn map_inline<U: Copy>(self, mut f: impl FnMut(T) -> U) -> [U; N] {
        const { assert!(N > 0, "an array without elements has no first value") };
        let mut values = [f(self[0]); N];
        let mut i = 1;
        while i < N {
            values[i] = f(self[i]);
            i += 1;
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::{MapInline, from_fn};

    #[test]
    fn each_index_is_asked_once_and_in_order() {
        fn check<const N: usize>() {
            let mut asked = 0;
            let values: [usize; N] = from_fn(|i| {
                assert_eq!(i, asked);
                asked += 1;
                7 * i + 3
            });
            assert_eq!((asked, values), (N, std::array::from_fn(|i| 7 * i + 3)));
            assert_eq!(values.map_inline(|value| 2 * value), values.map(|value| 2 * value));
        }
        check::<1>();
        check::<2>();
        check::<3>();
        check::<16>();
    }
}
