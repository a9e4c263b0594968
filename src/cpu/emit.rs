//! The outputs of a run: sums or leaf slots.

use std::{cell::RefCell, ops::Range};

use super::{
    addend::Addend,
    block::Stage,
    cache_line::{BYTES, aligned, room},
    engine::Block,
    program::Program,
    rows::Row,
    run::{Run, State},
    sink::{Leaves, MultiOutputSums, OutputMajorSums, SharedBuffer, SingleOutputSums, SlotTable, Slots},
};
use crate::{forest::Aggregate, plan::cpu::Sum};

/// A kind of output that a run writes.
pub(super) trait Emission: Copy + Send + Sync {
    /// Returns the emission for one share of the trees, if a batch's trees are divided among threads.
    fn of_share(self, _share: u32) -> Self {
        self
    }
    /// Runs a block of walks and writes the outputs for their leaves.
    fn block<T: Row>(self, run: &Run<'_, T, Self>, block: Block, into: Sum, state: &State<'_>);
    /// Reduces one dimension of a buffer of partial sums, for these rows.
    fn reduce<T: Row>(
        self,
        run: &Run<'_, T, Self>,
        buffer: u32,
        dimension: usize,
        rows: Range<usize>,
        stage: Stage,
        state: &State<'_>,
    ) {
        let _ = (run, buffer, dimension, rows, stage, state);
    }
}

/// Writes `rows x outputs` sums. Without `GROUPED` each leaf value is added to its row's sum by itself, because the
/// order of additions matters.
#[derive(Clone, Copy)]
pub(super) struct Sums<'a, A, const GROUPED: bool> {
    /// Leaf values, by slot.
    pub(super) leaves: &'a [A],
    pub(super) result: SharedBuffer<A>,
    pub(super) partials: SharedBuffer<A>,
    /// Whether `leaves` are the forest's own leaf values.
    pub(super) own: bool,
}

impl<A: Addend, const GROUPED: bool> Emission for Sums<'_, A, GROUPED> {
    fn block<T: Row>(self, run: &Run<'_, T, Self>, block: Block, into: Sum, state: &State<'_>) {
        let p = run.program;
        let leaves = Leaves { slots: SlotTable(&p.slots), values: self.leaves };
        let outputs = p.base.len();
        let (out, base, atomic) = match into {
            Sum::Partial { buffer, atomic } => (self.partials, run.partial(buffer, state, None), atomic),
            Sum::Result { atomic } => (self.result, 0, atomic),
        };
        match outputs {
            _ if self.in_own_room(run, block, out, base, atomic, state) => {}
            1 => {
                let own = self.own;
                run.dispatch(block, SingleOutputSums::<A, GROUPED> { leaves, out, base, atomic, own }, state);
            }
            _ => {
                let targets = p.targets.as_deref();
                run.dispatch(block, MultiOutputSums { leaves, out, base, atomic, outputs, targets }, state);
            }
        }
    }

    /// Adds up the copies of these rows over one dimension, and leaves the copies zero.
    fn reduce<T: Row>(
        self,
        run: &Run<'_, T, Self>,
        buffer: u32,
        dimension: usize,
        rows: Range<usize>,
        stage: Stage,
        state: &State<'_>,
    ) {
        let p = run.program;
        let outputs = p.base.len();
        let copies = run.value(p.plan.own.partials[buffer as usize][dimension].count).min(run.at.trees);
        let start = |k: u32| run.partial(buffer, state, Some((dimension, k)));
        let (first, stride) = (start(0), if copies > 1 { start(1) - start(0) } else { 0 });
        let range = rows.start * outputs..rows.end * outputs;
        let copies = Copies { first, stride, count: copies as usize };
        match stage.vector {
            16 => self.add_copies::<16>(copies, range, stage),
            8 => self.add_copies::<8>(copies, range, stage),
            4 => self.add_copies::<4>(copies, range, stage),
            2 => self.add_copies::<2>(copies, range, stage),
            _ => self.add_copies::<1>(copies, range, stage),
        }
    }
}

/// The copies of partial sums that one stage adds up.
#[derive(Clone, Copy)]
struct Copies {
    /// The index of the first copy's sum 0.
    first: usize,
    /// The distance from a copy to the next one.
    stride: usize,
    count: usize,
}

impl<A: Addend, const GROUPED: bool> Sums<'_, A, GROUPED> {
    /// Adds up the copies of the sums in `range`, `WIDTH` adjacent sums at a time, which the compiler keeps in vector
    /// registers. The last ones, fewer than `WIDTH`, go one at a time.
    fn add_copies<const WIDTH: usize>(self, copies: Copies, range: Range<usize>, stage: Stage) {
        let Copies { first, stride, count } = copies;
        let mut at = range.start;
        while at + WIDTH <= range.end {
            let mut sums = [A::default(); WIDTH];
            for k in 0..count {
                for (i, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the plan puts a stage after the loops that write these copies, so no other worker has
                    // them. `run.partial` and the buffer's length count the same copies.
                    *sum += std::mem::take(unsafe { self.partials.at(first + k * stride + at + i) });
                }
            }
            for (i, sum) in sums.iter().enumerate() {
                match (stage.in_place, stage.atomic) {
                    // SAFETY: the plan puts a stage after the loops that write these copies, so no other worker has
                    // copy 0.
                    (true, _) => unsafe { *self.partials.at(first + at + i) += *sum },
                    // SAFETY: a stage without atomics ends every loop that shares these rows' sums, so this
                    // worker alone has them.
                    (false, false) => unsafe { *self.result.at(at + i) += *sum },
                    (false, true) => self.result.add_atomic(at + i, *sum),
                }
            }
            at += WIDTH;
        }
        if at < range.end {
            self.add_copies::<1>(copies, at..range.end, stage);
        }
    }
}

/// Returns whether a block's sums may be kept in room of their own while it runs, output by output: blends evaluate its
/// rows, and each tree has one output.
fn can_have_own_room(program: &Program, block: &Block) -> bool {
    let Block { row, tree, shape } = *block;
    // To copy the sums and back costs about two additions for each row and output.
    let pays = tree.count >= 2 * program.base.len();
    pays && program.targets.is_some() && program.blends(shape, row.count) && row.stride == 1
}

/// Returns whether engines add the margins of a block to sums that a sink lends (`Sink::sums`).
pub(super) fn lends_sums(program: &Program, block: &Block, into: Sum) -> bool {
    let (Sum::Partial { atomic, .. } | Sum::Result { atomic }) = into;
    let by_blends = program.aggregate == Aggregate::Sum && program.blends(block.shape, block.row.count);
    !atomic && by_blends && (program.base.len() == 1 || can_have_own_room(program, block))
}

impl<A: Addend, const GROUPED: bool> Sums<'_, A, GROUPED> {
    /// Runs a block with its sums kept in room of their own meanwhile, output by output, and returns whether it did. It
    /// does so if that is faster: blends evaluate the rows, each tree has one output, and there are several outputs, or
    /// the sums begin inside a cache line, so that each addition would touch two lines. The sums of row 0 begin at
    /// `base` in `out`, and `atomic` says whether additions to them are atomic.
    fn in_own_room<T: Row>(
        self,
        run: &Run<'_, T, Self>,
        block: Block,
        out: SharedBuffer<A>,
        base: usize,
        atomic: bool,
        state: &State<'_>,
    ) -> bool {
        let p = run.program;
        let row = block.row;
        let (Some(targets), Some(values)) = (&p.targets, A::as_f32(self.leaves)) else { return false };
        let outputs = p.base.len();
        if atomic || !can_have_own_room(p, &block) {
            return false;
        }
        // SAFETY: the sums are not atomic, so the legal plan gives these rows to this worker alone.
        let Some(own) = A::singles(unsafe { out.range(base + row.start * outputs, row.count * outputs) })
        else {
            return false;
        };
        // `with_scratch` may lend the scratch of sums around this call, so this one is separate.
        thread_local!(static BY_OUTPUT: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) });
        let mut scratch = BY_OUTPUT.with(RefCell::take);
        scratch.resize(scratch.len().max(room::<f32>(own.len())), 0.0);
        // The room is made in any case, so that no later call has to make it.
        let pays = outputs > 1 || !own.as_ptr().addr().is_multiple_of(BYTES);
        if pays {
            let sums = &mut aligned(&mut scratch)[..own.len()];
            for (r, row_sums) in own.chunks_exact(outputs).enumerate() {
                row_sums.iter().enumerate().for_each(|(o, sum)| sums[o * row.count + r] = *sum);
            }
            let leaves = Leaves { slots: SlotTable(&p.slots), values };
            let (first, count) = (row.start, row.count);
            let shared = SharedBuffer::new(sums);
            run.dispatch(
                block,
                OutputMajorSums { leaves, sums: shared, first, count, targets, own: self.own },
                state,
            );
            for (r, row_sums) in own.chunks_exact_mut(outputs).enumerate() {
                row_sums.iter_mut().enumerate().for_each(|(o, sum)| *sum = sums[o * row.count + r]);
            }
        }
        BY_OUTPUT.with(|s| s.replace(scratch));
        pays
    }
}

/// Writes `rows x trees` leaf slots, trees in the producer's order.
#[derive(Clone, Copy)]
pub(super) struct LeafSlots(pub(super) SharedBuffer<u32>);

impl Emission for LeafSlots {
    fn block<T: Row>(self, run: &Run<'_, T, Self>, block: Block, _into: Sum, state: &State<'_>) {
        let p = run.program;
        run.dispatch(block, Slots { slots: SlotTable(&p.slots), out: self.0, order: &p.order }, state);
    }
}
