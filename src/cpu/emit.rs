//! What a run writes: sums or leaf slots.

use std::{cell::RefCell, ops::Range};

use super::{
    addend::Addend,
    block::Stage,
    cache_line::{aligned, room},
    engine::Block,
    rows::Row,
    run::{Run, State},
    sink::{Leaves, MultiOutputSums, OutputMajorSums, Shared, SingleOutputSums, SlotTable, Slots},
};
use crate::plan::cpu::Sum;

/// Sums that a stage takes at a time, at most.
const MOST_VECTOR: usize = 16;

/// What a run writes.
pub(super) trait Emission: Copy + Send + Sync {
    /// The same for one of the shares in which a batch's trees are dealt out.
    fn of_share(self, _share: u32) -> Self {
        self
    }
    /// Runs a block of walks into what takes their leaves.
    fn block<T: Row>(self, run: &Run<'_, T, Self>, block: Block, into: Sum, state: &State<'_>);
    /// Ends a dimension of a buffer of private sums, for these rows.
    fn reduce<T: Row>(
        self,
        run: &Run<'_, T, Self>,
        dimension: (u32, usize),
        rows: Range<usize>,
        stage: Stage,
        state: &State<'_>,
    ) {
        let _ = (run, dimension, rows, stage, state);
    }
}

/// `rows x outputs` sums. Where they are not `GROUPED`, each leaf is added to its row's sum by itself, since the order of
/// additions counts.
#[derive(Clone, Copy)]
pub(super) struct Sums<'a, A, const GROUPED: bool> {
    /// By slot.
    pub(super) leaves: &'a [A],
    pub(super) result: Shared<A>,
    pub(super) partials: Shared<A>,
    /// Whether the leaves are the forest's own.
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
            1 => {
                let own = self.own;
                run.dispatch(block, SingleOutputSums::<A, GROUPED> { leaves, out, base, atomic, own }, state);
            }
            _ if self.by_output(run, block, (out, base, atomic), state) => {}
            _ => {
                let targets = p.targets.as_deref();
                run.dispatch(block, MultiOutputSums { leaves, out, base, atomic, outputs, targets }, state);
            }
        }
    }

    /// Adds up the copies of rows over one dimension, and leaves them zero.
    fn reduce<T: Row>(
        self,
        run: &Run<'_, T, Self>,
        (buffer, dimension): (u32, usize),
        rows: Range<usize>,
        stage: Stage,
        state: &State<'_>,
    ) {
        let p = run.program;
        let outputs = p.base.len();
        let copies = run.value(p.plan.own.partials[buffer as usize][dimension].count).min(run.at.trees);
        let place = |k: u32| run.partial(buffer, state, Some((dimension, k)));
        let (first, stride) = (place(0), if copies > 1 { place(1) - place(0) } else { 0 });
        let (mut at, end) = (rows.start * outputs, rows.end * outputs);
        while at < end {
            let width = stage.vector.clamp(1, MOST_VECTOR).min(end - at);
            let mut sums = [A::default(); MOST_VECTOR];
            for k in 0..copies as usize {
                for (i, sum) in sums[..width].iter_mut().enumerate() {
                    // SAFETY: the copies of these rows belong to the iterations this stage ends.
                    *sum += std::mem::take(unsafe { self.partials.at(first + k * stride + at + i) });
                }
            }
            for (i, sum) in sums[..width].iter().enumerate() {
                match (stage.in_place, stage.atomic) {
                    // SAFETY: as above.
                    (true, _) => unsafe { *self.partials.at(first + at + i) += *sum },
                    // SAFETY: the stage ends every loop that shares the rows' sums.
                    (false, false) => unsafe { *self.result.at(at + i) += *sum },
                    (false, true) => self.result.add_atomic(at + i, *sum),
                }
            }
            at += width;
        }
    }
}

impl<A: Addend, const GROUPED: bool> Sums<'_, A, GROUPED> {
    /// Runs a block of several outputs whose sums are kept by output meanwhile, if that pays: where rows are evaluated
    /// together, and each tree has one output.
    fn by_output<T: Row>(
        self,
        run: &Run<'_, T, Self>,
        block: Block,
        (out, base, atomic): (Shared<A>, usize, bool),
        state: &State<'_>,
    ) -> bool {
        let p = run.program;
        let Block { row, tree, shape } = block;
        let (Some(targets), Some(values)) = (&p.targets, A::all_singles(self.leaves)) else { return false };
        let outputs = p.base.len();
        // The way there and back is two additions a row and output.
        if p.blend_of(shape).is_none() || atomic || row.step != 1 || tree.count < 2 * outputs {
            return false;
        }
        // SAFETY: the rows are this worker's.
        let Some(own) = A::singles(unsafe { out.range(base + row.start * outputs, row.count * outputs) })
        else {
            return false;
        };
        // The scratch of sums is in use round this.
        thread_local!(static BY_OUTPUT: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) });
        let mut scratch = BY_OUTPUT.with(RefCell::take);
        scratch.resize(scratch.len().max(room::<f32>(own.len())), 0.0);
        {
            let sums = &mut aligned(&mut scratch)[..own.len()];
            for (r, row_sums) in own.chunks_exact(outputs).enumerate() {
                row_sums.iter().enumerate().for_each(|(o, sum)| sums[o * row.count + r] = *sum);
            }
            let leaves = Leaves { slots: SlotTable(&p.slots), values };
            let (first, count) = (row.start, row.count);
            let shared = Shared::new(sums);
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
        true
    }
}

/// `rows x trees` leaf slots, trees in the producer's order.
#[derive(Clone, Copy)]
pub(super) struct LeafSlots(pub(super) Shared<u32>);

impl Emission for LeafSlots {
    fn block<T: Row>(self, run: &Run<'_, T, Self>, block: Block, _into: Sum, state: &State<'_>) {
        let p = run.program;
        run.dispatch(block, Slots { slots: SlotTable(&p.slots), out: self.0, order: &p.order }, state);
    }
}
