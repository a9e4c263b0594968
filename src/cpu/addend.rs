//! The types that leaves are added up in.

use std::{
    cell::RefCell,
    ops::AddAssign,
    sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering},
    thread::LocalKey,
};

use super::engine::blend::{evaluate, groups::LeafValues};

/// A type that leaves are added up in.
pub(super) trait Addend: Copy + Default + AddAssign + Send + Sync + 'static {
    /// Sums that a thread keeps the room of.
    const SCRATCH: &'static LocalKey<RefCell<Vec<Self>>>;
    /// Sums of this type as `f32`, where they are.
    fn singles(_sums: &mut [Self]) -> Option<&mut [f32]> {
        None
    }
    /// Values of this type as `f32`, where they are.
    fn all_singles(_values: &[Self]) -> Option<&[f32]> {
        None
    }
    /// The values of a tree's leaves, of all by slot, where they are `f32`.
    fn filled<'r>(
        _values: &[Self],
        leaves: evaluate::Leaves<'r>,
        _room: &'r mut evaluate::Room,
    ) -> LeafValues<'r> {
        leaves.values
    }
    /// Adds to a place while other workers may, too.
    ///
    /// # Safety
    /// The place is valid, and while workers add to it none reads or writes it otherwise.
    unsafe fn add_atomic(place: *mut Self, amount: Self);
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
    fn all_singles(values: &[Self]) -> Option<&[f32]> {
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
    unsafe fn add_atomic(place: *mut Self, amount: Self) {
        // SAFETY: as promised to this function; an f32's bits are a u32's.
        let place = unsafe { AtomicU32::from_ptr(place.cast()) };
        let sum = |bits| Some((Self::from_bits(bits) + amount).to_bits());
        // The closure always gives a value, so this ends well.
        let _ = place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }
}

impl Addend for f64 {
    const SCRATCH: &'static LocalKey<RefCell<Vec<Self>>> = &DOUBLES;
    #[inline(always)]
    unsafe fn add_atomic(place: *mut Self, amount: Self) {
        // SAFETY: as promised to this function; an f64's bits are a u64's.
        let place = unsafe { AtomicU64::from_ptr(place.cast()) };
        let sum = |bits| Some((Self::from_bits(bits) + amount).to_bits());
        // The closure always gives a value, so this ends well.
        let _ = place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }
}

impl Addend for i64 {
    const SCRATCH: &'static LocalKey<RefCell<Vec<Self>>> = &WHOLES;
    #[inline(always)]
    unsafe fn add_atomic(place: *mut Self, amount: Self) {
        // SAFETY: as promised to this function.
        unsafe { AtomicI64::from_ptr(place) }.fetch_add(amount, Ordering::Relaxed);
    }
}

/// Lends `f` a zeroed buffer that the thread keeps for its next call.
pub(super) fn with_scratch<A: Addend, R>(len: usize, f: impl FnOnce(&mut [A]) -> R) -> R {
    // Taken out, not borrowed: while this thread waits for others, rayon may have it run another prediction.
    let mut buffer = A::SCRATCH.with(RefCell::take);
    buffer.clear();
    buffer.resize(len, A::default());
    let done = f(&mut buffer);
    A::SCRATCH.with(|s| s.replace(buffer));
    done
}
