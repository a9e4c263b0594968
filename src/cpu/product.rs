//! Products of matrices, by the crate `matrixmultiply`.

/// Computes the product of two row-major matrices, `m x k` and `k x n`, into the `m x n` elements of `out`. Sums are
/// in doubles, in an order of the crate's.
///
/// # Panics
/// A matrix has another number of elements.
pub(crate) fn product(a: &[f64], b: &[f64], out: &mut [f64], [m, k, n]: [usize; 3]) {
    assert!(a.len() == m * k && b.len() == k * n && out.len() == m * n, "matrices of other lengths");
    let (a, b, out) = (a.as_ptr(), b.as_ptr(), out.as_mut_ptr());
    let [columns_of_a, columns_of_b] = [k, n].map(|columns| columns as isize);
    // SAFETY: each matrix has as many elements as the assertion says, a step down is a row of them and a step right is
    // one, and `out` is borrowed for writing alone.
    unsafe {
        matrixmultiply::dgemm(
            m,
            k,
            n,
            1.0,
            a,
            columns_of_a,
            1,
            b,
            columns_of_b,
            1,
            0.0,
            out,
            columns_of_b,
            1,
        );
    }
}
