//! Traces of a run: which worker visits which tree for which row, when, and with which engine.
//!
//! A trace is a run of the code that makes margins, with a sink of its own.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{
    emit::{Emission, lends_sums},
    engine::Block,
    engines::Engine,
    program::Program,
    rows::{Row, Rows, RowsOfType, with_rows},
    run::{Run, State},
    sink::{SharedBuffer, Sink},
};
use crate::{error::Result, forest::Aggregate, plan::cpu::Sum};

/// A row's visit to a tree in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// The worker: the number that [`worker`](super::worker) gives the parallel loops around the visit.
    pub worker: u32,
    /// The share of the trees, or the part of the rows, if a batch has too few iterations for all threads; otherwise 0.
    pub share: u32,
    /// The block of rows and trees that the visit belongs to, counted from 0 in the order in which blocks
    /// begin.
    pub block: u32,
    /// The visit's number in the whole run, counted from 0; `u32::MAX` if there is no visit.
    pub visit: u32,
    /// The engine that evaluates the block.
    pub engine: Engine,
}

/// The entry of a pair of row and tree without a visit.
impl Default for TraceEntry {
    fn default() -> Self {
        Self { worker: 0, share: 0, block: 0, visit: u32::MAX, engine: Engine::Walks }
    }
}

/// Numbers of visits by engine, in the order of [`Engine::ALL`].
pub(super) type Counts = [AtomicU64; Engine::ALL.len()];

/// What a trace keeps of the visits.
#[derive(Clone, Copy)]
enum KeptVisits<'a> {
    /// Every visit, at its row and the producer's index of its tree.
    Each { out: SharedBuffer<TraceEntry>, visits: &'a AtomicU32 },
    /// The number of visits of each engine.
    Counts(&'a Counts),
}

/// Emits the visits of a run.
#[derive(Clone, Copy)]
struct TraceEmission<'a> {
    kept: KeptVisits<'a>,
    blocks: &'a AtomicU32,
    share: u32,
}

impl Emission for TraceEmission<'_> {
    fn of_share(self, share: u32) -> Self {
        Self { share, ..self }
    }
    fn block<T: Row>(self, run: &Run<'_, T, Self>, block: Block, into: Sum, state: &State<'_>) {
        let Self { kept, blocks, share } = self;
        let number = blocks.fetch_add(1, Ordering::Relaxed);
        let visit = TraceEntry { worker: state.worker, share, block: number, ..TraceEntry::default() };
        let (first, count) = (block.row.start, block.row.end() - block.row.start);
        let mut sums = lends_sums(run.program, &block, into).then(|| vec![0.0; count]);
        let sums = sums.as_mut().map(|sums| SharedBuffer::new(sums));
        run.dispatch(block, Trace { kept, order: &run.program.order, visit, first, sums }, state);
    }
}

/// Takes the visits of a block.
#[derive(Clone, Copy)]
struct Trace<'a> {
    kept: KeptVisits<'a>,
    order: &'a [u32],
    visit: TraceEntry,
    /// The first row of the block.
    first: usize,
    /// Room for a sum for each row of the block, if the code that computes margins adds to such sums. Nobody reads it; with
    /// it, engines run the same code as for margins.
    sums: Option<SharedBuffer<f32>>,
}

impl Sink for Trace<'_> {
    const TAKES_ROW_SUMS: bool = false;
    type Value = u32;
    fn by(self, engine: Engine) -> Self {
        Self { visit: TraceEntry { engine, ..self.visit }, ..self }
    }
    fn leaf(&self, row: usize, position: usize, _address: u32) {
        self.slot(row, position, 0);
    }
    fn slot(&self, row: usize, position: usize, _slot: usize) {
        match self.kept {
            KeptVisits::Each { out, visits } => {
                let at = row * self.order.len() + self.order[position] as usize;
                // The numbers of one worker's visits ascend, whatever other workers do.
                let visit = visits.fetch_add(1, Ordering::Relaxed);
                // SAFETY: one worker visits each pair of row and tree. `Run::block` has checked the pair, and
                // `Program::check` the buffer's length.
                unsafe { *out.at(at) = TraceEntry { visit, ..self.visit } };
            }
            KeptVisits::Counts(counts) => {
                counts[self.visit.engine as usize].fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    fn sums(&self, row: usize, count: usize, _position: usize) -> Option<&mut [f32]> {
        // SAFETY: `TraceEmission::block` made the sums for this block alone and keeps them until `dispatch` returns. One
        // worker runs a block, and engines drop the sums before they ask again.
        self.sums.as_ref().map(|sums| unsafe { sums.range(row - self.first, count) })
    }
    fn added(&self, row: usize, count: usize, position: usize) {
        (row..row + count).for_each(|row| self.slot(row, position, 0));
    }
    fn value(&self, _address: u32) -> u32 {
        0
    }
    fn add(&self, _row: usize, _sum: u32) {}
}

impl Program {
    /// Writes the visit of each row to each tree, `rows x trees`, trees in the producer's order. The run is
    /// the one that computes margins of these rows under the contract `any`. If a visit is made twice, its
    /// first number is missing from the result.
    ///
    /// Margins may need room for each row: private sums, sums in another type, or slots for the least or
    /// largest leaf. The margins of a large batch are then computed in pieces, each as a batch of its own. A
    /// trace runs the batch as a whole.
    ///
    /// # Errors
    /// `rows` or `out` has another shape than the forest needs.
    pub fn trace<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [TraceEntry]) -> Result<()> {
        self.trace_of_type(rows.of_type(), out)
    }

    fn trace_of_type(&self, rows: RowsOfType<'_, '_>, out: &mut [TraceEntry]) -> Result<()> {
        with_rows!(rows, rows => self.trace_of(rows, out))
    }

    fn trace_of<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [TraceEntry]) -> Result<()> {
        self.check(rows, out.len(), self.trees())?;
        let visits = AtomicU32::new(0);
        self.visit(rows, KeptVisits::Each { out: SharedBuffer::new(out), visits: &visits })
    }

    /// Returns how many visits of these rows to trees each engine makes, without the engines that make none.
    ///
    /// # Errors
    /// `rows` have another number of columns than the forest.
    pub fn engines(&self, rows: &Rows<'_>) -> Result<Vec<(Engine, u64)>> {
        self.check(rows, 0, 0)?;
        let counts = Counts::default();
        self.visit(rows, KeptVisits::Counts(&counts))?;
        let counted = Engine::ALL.into_iter().zip(counts).map(|(engine, n)| (engine, n.into_inner()));
        Ok(counted.filter(|(_, visits)| *visits > 0).collect())
    }

    fn visit<T: Row>(&self, rows: &Rows<'_, T>, kept: KeptVisits<'_>) -> Result<()> {
        let blocks = AtomicU32::new(0);
        let visits = TraceEmission { kept, blocks: &blocks, share: 0 };
        // The least and largest leaf are found from slots. The trees of a run that writes slots are not
        // divided among threads.
        let shares = if self.aggregate == Aggregate::Sum { self.shares(rows.len()) } else { 1 };
        self.rank_and_run(rows, shares, visits)
    }
}
