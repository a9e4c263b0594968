//! The number types in which a run adds up leaf values: `f32`, `f64` and `i64`.

use std::{
    cell::RefCell,
    ops::AddAssign,
    sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering},
    thread::LocalKey,
};

use super::engine::blend::{evaluate, groups::LeafValues};

/// A number type in which leaf values are added up.
pub(super) trait Addend: Copy + Default + AddAssign + Send + Sync + 'static {
    /// The thread's scratch buffer, which [`with_scratch`] lends.
    const SCRATCH: &'static LocalKey<RefCell<Vec<Self>>>;
    /// Returns the sums as `f32`, or `None` if `Self` is another type.
    fn singles(_sums: &mut [Self]) -> Option<&mut [f32]> {
        None
    }
    /// Returns leaf values as `f32`, or `None` if `Self` is another type.
    fn as_f32(_values: &[Self]) -> Option<&[f32]> {
        None
    }
    /// Returns the values of one tree's leaves. For `f32` they come from `values`, which holds all leaf
    /// values by slot; for other types they are the forest's own.
    fn filled<'r>(
        _values: &[Self],
        leaves: evaluate::Leaves<'r>,
        _room: &'r mut evaluate::Room,
    ) -> LeafValues<'r> {
        leaves.values
    }
    /// Adds to a number in memory that other workers may add to at the same time.
    ///
    /// `sum` is valid for reads and writes and aligned for the atomic type of its size, and while workers
    /// add to it none accesses it except through this function.
    unsafe fn add_atomic(sum: *mut Self, amount: Self);
}

thread_local! {
    static SINGLES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    static DOUBLES: RefCell<Vec<f64>> = const { RefCell::new(Vec::new()) };
    static WHOLES: RefCell<Vec<i64>> = const { RefCell::new(Vec::new()) };
}

impl Addend for f32 {
    const SCRATCH: &'static LocalKey<RefCell<Vec<Self>>> = &SINGLES;
    fn singles(sums: &mut [Self]) -> Option<&mut [f32]> {
        Some(sums)
    }
    fn as_f32(values: &[Self]) -> Option<&[f32]> {
        Some(values)
    }
    fn filled<'r>(
        values: &[Self],
        leaves: evaluate::Leaves<'r>,
        room: &'r mut evaluate::Room,
    ) -> LeafValues<'r> {
        leaves.filled(values, room)
    }
    #[inline(always)]
    unsafe fn add_atomic(sum: *mut Self, amount: Self) {
        // SAFETY: the caller upholds that `sum` is valid, aligned and only accessed atomically. `f32` and
        // `u32` have the same size, and every bit pattern is valid for both.
        let sum = unsafe { AtomicU32::from_ptr(sum.cast()) };
        let added = |bits| Some((Self::from_bits(bits) + amount).to_bits());
        // The closure always returns `Some`, so `fetch_update` can't fail.
        let _ = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
    }
}

impl Addend for f64 {
    const SCRATCH: &'static LocalKey<RefCell<Vec<Self>>> = &DOUBLES;
    #[inline(always)]
    unsafe fn add_atomic(sum: *mut Self, amount: Self) {
        // SAFETY: the caller upholds that `sum` is valid, aligned and only accessed atomically. `f64` and
        // `u64` have the same size, and every bit pattern is valid for both.
        let sum = unsafe { AtomicU64::from_ptr(sum.cast()) };
        let added = |bits| Some((Self::from_bits(bits) + amount).to_bits());
        // The closure always returns `Some`, so `fetch_update` can't fail.
        let _ = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
    }
}

impl Addend for i64 {
    const SCRATCH: &'static LocalKey<RefCell<Vec<Self>>> = &WHOLES;
    #[inline(always)]
    unsafe fn add_atomic(sum: *mut Self, amount: Self) {
        // SAFETY: the caller upholds that `sum` is valid, aligned and only accessed atomically.
        unsafe { AtomicI64::from_ptr(sum) }.fetch_add(amount, Ordering::Relaxed);
    }
}

/// Lends `f` a zeroed buffer of `len` sums. The thread keeps the buffer for its next call.
pub(super) fn with_scratch<A: Addend, R>(len: usize, f: impl FnOnce(&mut [A]) -> R) -> R {
    // The buffer is taken out, not borrowed: while this thread waits for others, rayon may have it run
    // another prediction.
    let mut buffer = A::SCRATCH.with(RefCell::take);
    buffer.clear();
    buffer.resize(len, A::default());
    let done = f(&mut buffer);
    A::SCRATCH.with(|s| s.replace(buffer));
    done
}
