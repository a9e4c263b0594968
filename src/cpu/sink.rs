//! What becomes of the leaf that a walk finds.

use std::sync::atomic::{AtomicU32, Ordering};

/// A buffer that several workers write, each its own places.
#[derive(Clone, Copy)]
pub(super) struct Shared<T> {
    start: *mut T,
    len: usize,
}

// SAFETY: a legal plan gives each worker rows or private copies of its own, so no place is written by two.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(super) fn new(buffer: &mut [T]) -> Self {
        Self { start: buffer.as_mut_ptr(), len: buffer.len() }
    }

    /// The place at `index`.
    ///
    /// # Safety
    /// The buffer outlives the reference, and no other worker has this place.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn at(&self, index: usize) -> &mut T {
        debug_assert!(index < self.len);
        // SAFETY: callers keep to the buffer's length: blocks are checked against rows and trees before they run.
        unsafe { &mut *self.start.add(index) }
    }
}

impl Shared<f32> {
    /// Adds to the place at `index` while other workers may, too.
    #[inline(always)]
    pub(super) fn add_atomic(&self, index: usize, amount: f32) {
        assert!(index < self.len);
        // SAFETY: the place is in the buffer (above), an f32's bits are a u32's, and while workers add atomically to a
        // place none reads or writes it otherwise.
        let place = unsafe { AtomicU32::from_ptr(self.start.add(index).cast()) };
        let sum = |bits| Some((f32::from_bits(bits) + amount).to_bits());
        // The closure always gives a value, so this ends well.
        let _ = place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }
}

/// What is done with leaves.
pub(super) trait Sink: Copy {
    /// Whether a row's leaves can be added up before they are handed over.
    const ONE_VALUE: bool;
    /// Whether it matters in which order leaves come.
    const ORDERED: bool = false;
    /// The walk of the tree at `position` for `row` ended at `address`.
    fn leaf(&self, row: usize, position: usize, address: u32);
    /// The value of the leaf at `address`, where there is one.
    fn value(&self, address: u32) -> f32;
    /// Adds a sum of values to a row.
    fn add(&self, row: usize, sum: f32);
}

/// The leaves of a forest, by slot, and the slot at each address.
#[derive(Clone, Copy)]
pub(super) struct Leaves<'a> {
    pub(super) slots: &'a [u32],
    pub(super) values: &'a [f32],
}

impl Leaves<'_> {
    #[inline(always)]
    fn slot(&self, address: u32) -> usize {
        // SAFETY: a slot is stored for every address, and walks stay inside the addresses.
        unsafe { *self.slots.get_unchecked(address as usize) as usize }
    }
}

/// Rows that a kernel counts from row `by` on.
#[derive(Clone, Copy)]
pub(super) struct Moved<S> {
    pub(super) sink: S,
    pub(super) by: usize,
}

impl<S: Sink> Sink for Moved<S> {
    const ONE_VALUE: bool = S::ONE_VALUE;
    const ORDERED: bool = S::ORDERED;
    #[inline(always)]
    fn leaf(&self, row: usize, position: usize, address: u32) {
        self.sink.leaf(row + self.by, position, address);
    }
    #[inline(always)]
    fn value(&self, address: u32) -> f32 {
        self.sink.value(address)
    }
    #[inline(always)]
    fn add(&self, row: usize, sum: f32) {
        self.sink.add(row + self.by, sum);
    }
}

/// Sums of a single output.
#[derive(Clone, Copy)]
pub(super) struct One<'a> {
    pub(super) leaves: Leaves<'a>,
    pub(super) out: Shared<f32>,
    /// Where row 0's sum is in `out`.
    pub(super) base: usize,
    /// Whether others add to the same sums.
    pub(super) atomic: bool,
}

impl Sink for One<'_> {
    const ONE_VALUE: bool = true;
    #[inline(always)]
    fn leaf(&self, row: usize, _position: usize, address: u32) {
        self.add(row, self.value(address));
    }
    #[inline(always)]
    fn value(&self, address: u32) -> f32 {
        // SAFETY: slots index the leaf values (checked when the program is called).
        unsafe { *self.leaves.values.get_unchecked(self.leaves.slot(address)) }
    }
    #[inline(always)]
    fn add(&self, row: usize, sum: f32) {
        match self.atomic {
            true => self.out.add_atomic(self.base + row, sum),
            // SAFETY: the row is this worker's.
            false => unsafe { *self.out.at(self.base + row) += sum },
        }
    }
}

/// Sums of several outputs.
#[derive(Clone, Copy)]
pub(super) struct Many<'a> {
    pub(super) leaves: Leaves<'a>,
    pub(super) out: Shared<f32>,
    pub(super) base: usize,
    pub(super) atomic: bool,
    pub(super) outputs: usize,
    /// The output of each tree, by position; `None` where a leaf has a value for each output.
    pub(super) targets: Option<&'a [u32]>,
}

impl Sink for Many<'_> {
    const ONE_VALUE: bool = false;
    #[inline(always)]
    fn leaf(&self, row: usize, position: usize, address: u32) {
        let slot = self.leaves.slot(address);
        let at = self.base + row * self.outputs;
        let add = |output: usize, value: f32| match self.atomic {
            true => self.out.add_atomic(at + output, value),
            // SAFETY: the row is this worker's; targets are below `outputs` (`Forest::verify`).
            false => unsafe { *self.out.at(at + output) += value },
        };
        match self.targets {
            Some(targets) => add(targets[position] as usize, self.leaves.values[slot]),
            None => {
                let values = &self.leaves.values[slot * self.outputs..][..self.outputs];
                values.iter().enumerate().for_each(|(o, value)| add(o, *value));
            }
        }
    }
    fn value(&self, _address: u32) -> f32 {
        0.0
    }
    fn add(&self, _row: usize, _sum: f32) {}
}

/// Leaf slots, in the producer's tree order.
#[derive(Clone, Copy)]
pub(super) struct Slots<'a> {
    pub(super) leaves: Leaves<'a>,
    pub(super) out: Shared<u32>,
    pub(super) order: &'a [u32],
}

impl Sink for Slots<'_> {
    const ONE_VALUE: bool = false;
    #[inline(always)]
    fn leaf(&self, row: usize, position: usize, address: u32) {
        let at = row * self.order.len() + self.order[position] as usize;
        // SAFETY: each row and tree is visited by one worker.
        unsafe { *self.out.at(at) = self.leaves.slot(address) as u32 };
    }
    fn value(&self, _address: u32) -> f32 {
        0.0
    }
    fn add(&self, _row: usize, _sum: f32) {}
}

/// Who visited, and when: the worker's number and the visit's place in the whole run.
#[derive(Clone, Copy)]
pub(super) struct Trace<'a> {
    pub(super) out: Shared<u32>,
    pub(super) order: &'a [u32],
    pub(super) worker: u32,
    pub(super) clock: &'a AtomicU32,
}

impl Sink for Trace<'_> {
    const ONE_VALUE: bool = false;
    const ORDERED: bool = true;
    fn leaf(&self, row: usize, position: usize, _address: u32) {
        let at = 2 * (row * self.order.len() + self.order[position] as usize);
        // One worker's ticks ascend whatever the others do.
        let tick = self.clock.fetch_add(1, Ordering::Relaxed);
        // SAFETY: each row and tree is visited by one worker.
        unsafe {
            *self.out.at(at) = self.worker;
            *self.out.at(at + 1) = tick;
        }
    }
    fn value(&self, _address: u32) -> f32 {
        0.0
    }
    fn add(&self, _row: usize, _sum: f32) {}
}
