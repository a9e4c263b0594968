//! Sinks, which take the leaves that engines find: they add leaf values to sums, or write leaf slots.

use std::ops::AddAssign;

use super::{
    addend::Addend,
    engine::blend::{evaluate, groups::LeafValues},
    engines::Engine,
};

/// A buffer that several workers write, each in elements of its own.
#[derive(Clone, Copy)]
pub(super) struct SharedBuffer<T> {
    start: *mut T,
    len: usize,
}

// SAFETY: a legal plan gives each worker rows or private copies of its own, so no two workers write the same
// element.
unsafe impl<T: Send> Send for SharedBuffer<T> {}
// SAFETY: a legal plan gives each worker rows or private copies of its own, so no two workers write the same
// element.
unsafe impl<T: Send> Sync for SharedBuffer<T> {}

impl<T> SharedBuffer<T> {
    pub(super) fn new(buffer: &mut [T]) -> Self {
        Self { start: buffer.as_mut_ptr(), len: buffer.len() }
    }

    /// Returns the element at `index`.
    ///
    /// # Safety
    /// `index` is below the buffer's length, the buffer outlives the reference, and no other worker has this
    /// element.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn at(&self, index: usize) -> &mut T {
        debug_assert!(index < self.len);
        // SAFETY: the caller upholds that `index` is below the buffer's length and that no other worker has
        // the element.
        unsafe { &mut *self.start.add(index) }
    }
}

impl<T> SharedBuffer<T> {
    /// Returns the `count` elements from `index` on.
    ///
    /// # Safety
    /// The buffer outlives the reference, no other worker has any of these elements, and no other reference to them is
    /// alive.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn range(&self, index: usize, count: usize) -> &mut [T] {
        assert!(count <= self.len && index <= self.len - count);
        // SAFETY: the assertion keeps the elements in the buffer, and the caller upholds that no other worker
        // has them.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(index), count) }
    }
}

impl<A: Addend> SharedBuffer<A> {
    /// Adds to the element at `index` while other workers may add to it, too.
    #[inline(always)]
    pub(super) fn add_atomic(&self, index: usize, amount: A) {
        assert!(index < self.len);
        // SAFETY: the assertion keeps the element in the buffer. Where workers share sums, the plan has them
        // add atomically only. On 64-bit targets the types of sums are aligned like their atomic types.
        unsafe { A::add_atomic(self.start.add(index), amount) };
    }
}

/// Takes the leaves that engines find.
pub(super) trait Sink: Copy {
    /// The type of the value that a leaf adds to a row.
    type Value: Copy + Default + AddAssign;
    /// Whether a row's leaf values may be added up before [`Sink::add`] takes their sum.
    const TAKES_ROW_SUMS: bool;
    /// Returns the sink for leaves that `engine` finds.
    fn by(self, _engine: Engine) -> Self {
        self
    }
    /// Takes a walk's end: for `row`, the tree at `position` has the leaf at `address`.
    fn leaf(&self, row: usize, position: usize, address: u32);
    /// Takes a leaf by its slot: for `row`, the tree at `position` has the leaf with this slot.
    fn slot(&self, row: usize, position: usize, slot: usize);
    /// Returns the sums of `count` rows from `row` on that the tree at `position` adds to; `None` if they are not
    /// neighbouring `f32` sums of this worker alone. The caller drops them before it asks the sink for anything else.
    fn sums(&self, _row: usize, _count: usize, _position: usize) -> Option<&mut [f32]> {
        None
    }
    /// Learns that each of these rows has got a leaf value of the tree at `position`, added to [`Sink::sums`].
    fn added(&self, _row: usize, _count: usize, _position: usize) {}
    /// Returns the values of a tree's leaves, in the order of the leaves. They are for adding to
    /// [`Sink::sums`].
    fn values<'r>(&self, leaves: evaluate::Leaves<'r>, _room: &'r mut evaluate::Room) -> LeafValues<'r> {
        leaves.values
    }
    /// Returns the value of the leaf at `address`. A sink without [`Sink::TAKES_ROW_SUMS`] may return any value.
    fn value(&self, address: u32) -> Self::Value;
    /// Returns the value of the leaf with this slot. A sink without [`Sink::TAKES_ROW_SUMS`] may return any value.
    fn slot_value(&self, _slot: usize) -> Self::Value {
        Self::Value::default()
    }
    /// Adds a sum of leaf values to a row.
    fn add(&self, row: usize, sum: Self::Value);
}

/// The leaf slot at each address.
#[derive(Clone, Copy)]
pub(super) struct SlotTable<'a>(pub(super) &'a [u32]);

impl SlotTable<'_> {
    #[inline(always)]
    fn at(&self, address: u32) -> usize {
        // SAFETY: `PackedForest::slots` stores a slot for every address, and `PackedForest::verify` bounds the addresses
        // that walks reach.
        unsafe { *self.0.get_unchecked(address as usize) as usize }
    }
}

/// Leaf values by slot, and the leaf slot at each address.
#[derive(Clone, Copy)]
pub(super) struct Leaves<'a, A> {
    pub(super) slots: SlotTable<'a>,
    pub(super) values: &'a [A],
}

/// Sums of a forest with a single output. With `GROUPED`, some of a row's leaf values may be added up before
/// they are added to the row's sum.
#[derive(Clone, Copy)]
pub(super) struct SingleOutputSums<'a, A, const GROUPED: bool> {
    pub(super) leaves: Leaves<'a, A>,
    pub(super) out: SharedBuffer<A>,
    /// Index of row 0's sum in `out`.
    pub(super) base: usize,
    /// Whether other workers add to the same sums.
    pub(super) atomic: bool,
    /// Whether the leaf values are the forest's own.
    pub(super) own: bool,
}

impl<A: Addend, const GROUPED: bool> Sink for SingleOutputSums<'_, A, GROUPED> {
    const TAKES_ROW_SUMS: bool = GROUPED;
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
        // SAFETY: the sums are not atomic, so the legal plan gives these rows to this worker alone.
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
        // SAFETY: `Forest::verify` bounds the slots by the number of leaf values, and `Program::margins_as`
        // has checked that there are as many.
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
            // SAFETY: `Run::block` has checked the row, and as the sums are not atomic, the legal plan gives
            // it to this worker alone.
            false => unsafe { *self.out.at(self.base + row) += sum },
        }
    }
}

/// Sums of a forest with several outputs, to which each leaf value is added by itself.
#[derive(Clone, Copy)]
pub(super) struct MultiOutputSums<'a, A> {
    pub(super) leaves: Leaves<'a, A>,
    pub(super) out: SharedBuffer<A>,
    pub(super) base: usize,
    pub(super) atomic: bool,
    pub(super) outputs: usize,
    /// The output of each tree, by position; `None` if a leaf has a value for each output.
    pub(super) targets: Option<&'a [u32]>,
}

impl<A: Addend> Sink for MultiOutputSums<'_, A> {
    const TAKES_ROW_SUMS: bool = false;
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
            // SAFETY: `Run::block` has checked the row, and as the sums are not atomic, the legal plan gives
            // it to this worker alone. `Forest::verify` keeps targets below `outputs`.
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

/// Writes leaf slots, trees in the producer's order.
#[derive(Clone, Copy)]
pub(super) struct Slots<'a> {
    pub(super) slots: SlotTable<'a>,
    pub(super) out: SharedBuffer<u32>,
    pub(super) order: &'a [u32],
}

impl Sink for Slots<'_> {
    const TAKES_ROW_SUMS: bool = false;
    type Value = u32;
    #[inline(always)]
    fn leaf(&self, row: usize, position: usize, address: u32) {
        self.slot(row, position, self.slots.at(address));
    }
    #[inline(always)]
    fn slot(&self, row: usize, position: usize, slot: usize) {
        let at = row * self.order.len() + self.order[position] as usize;
        // SAFETY: one worker visits each pair of row and tree. `Run::block` has checked the pair, and
        // `Program::check` the buffer's length.
        unsafe { *self.out.at(at) = slot as u32 };
    }
    fn value(&self, _address: u32) -> u32 {
        0
    }
    fn add(&self, _row: usize, _sum: u32) {}
}

/// Sums in room of their own, kept output by output: those of `count` rows from `first` on. `Sums::in_own_room`
/// puts them back row by row at the end.
#[derive(Clone, Copy)]
pub(super) struct OutputMajorSums<'a> {
    pub(super) leaves: Leaves<'a, f32>,
    /// The sums, `[output][row]`.
    pub(super) sums: SharedBuffer<f32>,
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) targets: &'a [u32],
    pub(super) own: bool,
}

impl Sink for OutputMajorSums<'_> {
    const TAKES_ROW_SUMS: bool = false;
    type Value = f32;
    #[inline(always)]
    fn leaf(&self, row: usize, position: usize, address: u32) {
        self.slot(row, position, self.leaves.slots.at(address));
    }
    #[inline(always)]
    fn slot(&self, row: usize, position: usize, slot: usize) {
        let at = self.targets[position] as usize * self.count + row - self.first;
        // SAFETY: the sums are this worker's own copy, with `count` rows for each output. The block's rows
        // are those rows, and `Forest::verify` keeps targets below the number of outputs.
        unsafe { *self.sums.at(at) += self.leaves.values[slot] };
    }
    fn sums(&self, row: usize, count: usize, position: usize) -> Option<&mut [f32]> {
        let at = self.targets[position] as usize * self.count + row - self.first;
        // SAFETY: the sums are this worker's own copy.
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
