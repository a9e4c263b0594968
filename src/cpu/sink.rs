//! What becomes of the leaf that a walk finds.

use std::ops::AddAssign;

use super::{
    addend::Addend,
    engine::blend::{evaluate, groups::LeafValues},
    engines::Engine,
};

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

impl<T> Shared<T> {
    /// `count` places from `index` on.
    ///
    /// # Safety
    /// As for [`Shared::at`], for each of them.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn range(&self, index: usize, count: usize) -> &mut [T] {
        assert!(count <= self.len && index <= self.len - count);
        // SAFETY: the places are in the buffer, and as promised to this function nobody else has them.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(index), count) }
    }
}

impl<A: Addend> Shared<A> {
    /// Adds to the place at `index` while other workers may, too.
    #[inline(always)]
    pub(super) fn add_atomic(&self, index: usize, amount: A) {
        assert!(index < self.len);
        // SAFETY: the place is in the buffer (above), and sums that workers share are added to atomically only.
        unsafe { A::add_atomic(self.start.add(index), amount) };
    }
}

/// What is done with leaves.
pub(super) trait Sink: Copy {
    /// What a leaf is worth.
    type Value: Copy + Default + AddAssign;
    /// Whether a row's leaves can be added up before they are handed over.
    const ONE_VALUE: bool;
    /// The same for leaves that this engine finds.
    fn by(self, _engine: Engine) -> Self {
        self
    }
    /// The walk of the tree at `position` for `row` ended at `address`.
    fn leaf(&self, row: usize, position: usize, address: u32);
    /// The tree at `position` has the leaf with this slot for `row`.
    fn slot(&self, row: usize, position: usize, slot: usize);
    /// The sums of `count` rows from `row` on that the tree at `position` adds to, where they lie side by side in `f32`.
    fn sums(&self, _row: usize, _count: usize, _position: usize) -> Option<&mut [f32]> {
        None
    }
    /// The values of a tree's leaves in their order, where [`Sink::sums`] are.
    fn values<'r>(&self, leaves: evaluate::Leaves<'r>, _room: &'r mut evaluate::Room) -> LeafValues<'r> {
        leaves.values
    }
    /// The value of the leaf at `address`, where there is one.
    fn value(&self, address: u32) -> Self::Value;
    /// The value of the leaf with this slot, where there is one.
    fn slot_value(&self, _slot: usize) -> Self::Value {
        Self::Value::default()
    }
    /// Adds a sum of values to a row.
    fn add(&self, row: usize, sum: Self::Value);
}

/// The slot at each address.
#[derive(Clone, Copy)]
pub(super) struct SlotTable<'a>(pub(super) &'a [u32]);

impl SlotTable<'_> {
    #[inline(always)]
    fn at(&self, address: u32) -> usize {
        // SAFETY: a slot is stored for every address, and walks stay inside the addresses.
        unsafe { *self.0.get_unchecked(address as usize) as usize }
    }
}

/// The leaves of a forest, by slot, and the slot at each address.
#[derive(Clone, Copy)]
pub(super) struct Leaves<'a, A> {
    pub(super) slots: SlotTable<'a>,
    pub(super) values: &'a [A],
}

/// Sums of a single output. `GROUPED` says whether some of a row's leaves may be added up before they are added to its sum.
#[derive(Clone, Copy)]
pub(super) struct SingleOutputSums<'a, A, const GROUPED: bool> {
    pub(super) leaves: Leaves<'a, A>,
    pub(super) out: Shared<A>,
    /// Where row 0's sum is in `out`.
    pub(super) base: usize,
    /// Whether others add to the same sums.
    pub(super) atomic: bool,
    /// Whether the leaves are the forest's own.
    pub(super) own: bool,
}

impl<A: Addend, const GROUPED: bool> Sink for SingleOutputSums<'_, A, GROUPED> {
    const ONE_VALUE: bool = GROUPED;
    type Value = A;
    #[inline(always)]
    fn leaf(&self, row: usize, _position: usize, address: u32) {
        self.add(row, self.value(address));
    }
    #[inline(always)]
    fn slot(&self, row: usize, _position: usize, slot: usize) {
        self.add(row, self.leaves.values[slot]);
    }
    fn sums(&self, row: usize, count: usize, _position: usize) -> Option<&mut [f32]> {
        if self.atomic {
            return None;
        }
        // SAFETY: the rows are this worker's.
        A::singles(unsafe { self.out.range(self.base + row, count) })
    }
    fn values<'r>(&self, leaves: evaluate::Leaves<'r>, room: &'r mut evaluate::Room) -> LeafValues<'r> {
        match self.own {
            true => leaves.values,
            false => A::filled(self.leaves.values, leaves, room),
        }
    }
    #[inline(always)]
    fn value(&self, address: u32) -> A {
        // SAFETY: slots index the leaf values (checked when the program is called).
        unsafe { *self.leaves.values.get_unchecked(self.leaves.slots.at(address)) }
    }
    #[inline(always)]
    fn slot_value(&self, slot: usize) -> A {
        self.leaves.values[slot]
    }
    #[inline(always)]
    fn add(&self, row: usize, sum: A) {
        match self.atomic {
            true => self.out.add_atomic(self.base + row, sum),
            // SAFETY: the row is this worker's.
            false => unsafe { *self.out.at(self.base + row) += sum },
        }
    }
}

/// Sums of several outputs, to which each leaf is added by itself.
#[derive(Clone, Copy)]
pub(super) struct MultiOutputSums<'a, A> {
    pub(super) leaves: Leaves<'a, A>,
    pub(super) out: Shared<A>,
    pub(super) base: usize,
    pub(super) atomic: bool,
    pub(super) outputs: usize,
    /// The output of each tree, by position; `None` where a leaf has a value for each output.
    pub(super) targets: Option<&'a [u32]>,
}

impl<A: Addend> Sink for MultiOutputSums<'_, A> {
    const ONE_VALUE: bool = false;
    type Value = A;
    #[inline(always)]
    fn leaf(&self, row: usize, position: usize, address: u32) {
        self.slot(row, position, self.leaves.slots.at(address));
    }
    #[inline(always)]
    fn slot(&self, row: usize, position: usize, slot: usize) {
        let at = self.base + row * self.outputs;
        let add = |output: usize, value: A| match self.atomic {
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
    fn value(&self, _address: u32) -> A {
        A::default()
    }
    fn add(&self, _row: usize, _sum: A) {}
}

/// Leaf slots, in the producer's tree order.
#[derive(Clone, Copy)]
pub(super) struct Slots<'a> {
    pub(super) slots: SlotTable<'a>,
    pub(super) out: Shared<u32>,
    pub(super) order: &'a [u32],
}

impl Sink for Slots<'_> {
    const ONE_VALUE: bool = false;
    type Value = u32;
    #[inline(always)]
    fn leaf(&self, row: usize, position: usize, address: u32) {
        self.slot(row, position, self.slots.at(address));
    }
    #[inline(always)]
    fn slot(&self, row: usize, position: usize, slot: usize) {
        let at = row * self.order.len() + self.order[position] as usize;
        // SAFETY: each row and tree is visited by one worker.
        unsafe { *self.out.at(at) = slot as u32 };
    }
    fn value(&self, _address: u32) -> u32 {
        0
    }
    fn add(&self, _row: usize, _sum: u32) {}
}

/// Sums of several outputs, output by output: those of `count` rows from `first` on, which are put in their places in the
/// end.
#[derive(Clone, Copy)]
pub(super) struct OutputMajorSums<'a> {
    pub(super) leaves: Leaves<'a, f32>,
    /// `[output][row]`.
    pub(super) sums: Shared<f32>,
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) targets: &'a [u32],
    pub(super) own: bool,
}

impl Sink for OutputMajorSums<'_> {
    const ONE_VALUE: bool = false;
    type Value = f32;
    #[inline(always)]
    fn leaf(&self, row: usize, position: usize, address: u32) {
        self.slot(row, position, self.leaves.slots.at(address));
    }
    #[inline(always)]
    fn slot(&self, row: usize, position: usize, slot: usize) {
        let at = self.targets[position] as usize * self.count + row - self.first;
        // SAFETY: the sums are this worker's, and targets are below their outputs.
        unsafe { *self.sums.at(at) += self.leaves.values[slot] };
    }
    fn sums(&self, row: usize, count: usize, position: usize) -> Option<&mut [f32]> {
        let at = self.targets[position] as usize * self.count + row - self.first;
        // SAFETY: the sums are this worker's.
        Some(unsafe { self.sums.range(at, count) })
    }
    fn values<'r>(&self, leaves: evaluate::Leaves<'r>, room: &'r mut evaluate::Room) -> LeafValues<'r> {
        match self.own {
            true => leaves.values,
            false => leaves.filled(self.leaves.values, room),
        }
    }
    fn value(&self, _address: u32) -> f32 {
        0.0
    }
    fn add(&self, _row: usize, _sum: f32) {}
}
