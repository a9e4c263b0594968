//! What a run does, written down: which worker visits which tree for which row, when, and by which engine.
//!
//! A trace is a run of the very code that margins are made by, with a sink of its own.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{
    emit::Emission,
    engine::Block,
    engines::Engine,
    program::Program,
    rows::{Row, Rows},
    run::{Run, State},
    sink::{Shared, Sink},
};
use crate::{error::Result, forest::Aggregate, plan::cpu::Sum};

/// A row's visit to a tree, as a trace has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// The worker: [`worker`](super::worker) of the parallel loops round it.
    pub worker: u32,
    /// Of a batch too small for its rows to be dealt out to threads, the share of the trees.
    pub share: u32,
    /// The block of rows and trees that the visit belongs to, counted from 0 in the order in which blocks begin.
    pub block: u32,
    /// The visit's place in the whole run, counted from 0; `u32::MAX` where there is no visit.
    pub place: u32,
    /// What the block is evaluated by.
    pub engine: Engine,
}

/// No visit.
impl Default for TraceEntry {
    fn default() -> Self {
        Self { worker: 0, share: 0, block: 0, place: u32::MAX, engine: Engine::Walks }
    }
}

/// Visits by engine, as [`Engine::ALL`] lists them.
pub(super) type Counts = [AtomicU64; Engine::ALL.len()];

/// What is kept of visits.
#[derive(Clone, Copy)]
enum TraceTarget<'a> {
    /// Each, at its row and the producer's index of its tree.
    Each { out: Shared<TraceEntry>, places: &'a AtomicU32 },
    /// How many there are.
    Counts(&'a Counts),
}

/// A run's visits.
#[derive(Clone, Copy)]
struct TraceEmission<'a> {
    kept: TraceTarget<'a>,
    blocks: &'a AtomicU32,
    share: u32,
}

impl Emission for TraceEmission<'_> {
    fn of_share(self, share: u32) -> Self {
        Self { share, ..self }
    }
    fn block<T: Row>(self, run: &Run<'_, T, Self>, block: Block, _into: Sum, state: &State<'_>) {
        let Self { kept, blocks, share } = self;
        let number = blocks.fetch_add(1, Ordering::Relaxed);
        let visit = TraceEntry { worker: state.worker, share, block: number, ..TraceEntry::default() };
        run.dispatch(block, Trace { kept, order: &run.program.order, visit }, state);
    }
}

/// A block's visits.
#[derive(Clone, Copy)]
struct Trace<'a> {
    kept: TraceTarget<'a>,
    order: &'a [u32],
    visit: TraceEntry,
}

impl Sink for Trace<'_> {
    const ONE_VALUE: bool = false;
    type Value = u32;
    fn by(self, engine: Engine) -> Self {
        Self { visit: TraceEntry { engine, ..self.visit }, ..self }
    }
    fn leaf(&self, row: usize, position: usize, _address: u32) {
        self.slot(row, position, 0);
    }
    fn slot(&self, row: usize, position: usize, _slot: usize) {
        match self.kept {
            TraceTarget::Each { out, places } => {
                let at = row * self.order.len() + self.order[position] as usize;
                // One worker's places ascend whatever the others do.
                let place = places.fetch_add(1, Ordering::Relaxed);
                // SAFETY: each row and tree is visited by one worker.
                unsafe { *out.at(at) = TraceEntry { place, ..self.visit } };
            }
            TraceTarget::Counts(counts) => {
                counts[self.visit.engine as usize].fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    fn value(&self, _address: u32) -> u32 {
        0
    }
    fn add(&self, _row: usize, _sum: u32) {}
}

impl Program {
    /// Writes the visit of each row to each tree, `rows x trees`, trees in the producer's order, of the run that makes margins of
    /// these rows in any order of sums. A visit that is made twice leaves a place that no visit has.
    ///
    /// Where margins need room for each row (private sums, sums in another type, margins that are the least or largest leaf), they are
    /// made of a large batch in pieces, each by a run like that of a batch as long; the trace is of one run.
    ///
    /// # Errors
    /// Rows or output of another shape than the forest's.
    pub fn trace<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [TraceEntry]) -> Result<()> {
        T::trace(self, rows, out)
    }

    pub(super) fn trace_of<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [TraceEntry]) -> Result<()> {
        self.check(rows, out.len(), self.trees())?;
        let places = AtomicU32::new(0);
        self.visit(rows, TraceTarget::Each { out: Shared::new(out), places: &places })
    }

    /// How many visits of these rows to trees each engine makes, of those that make any.
    ///
    /// # Errors
    /// Rows of another number of columns than the forest's.
    pub fn engines(&self, rows: &Rows<'_>) -> Result<Vec<(Engine, u64)>> {
        self.check(rows, 0, 0)?;
        let counts = Counts::default();
        self.visit(rows, TraceTarget::Counts(&counts))?;
        let counted = Engine::ALL.into_iter().zip(counts).map(|(engine, n)| (engine, n.into_inner()));
        Ok(counted.filter(|(_, visits)| *visits > 0).collect())
    }

    fn visit<T: Row>(&self, rows: &Rows<'_, T>, kept: TraceTarget<'_>) -> Result<()> {
        let blocks = AtomicU32::new(0);
        let visits = TraceEmission { kept, blocks: &blocks, share: 0 };
        // Least and largest leaves are of slots, whose trees are not dealt out.
        let shares = if self.aggregate == Aggregate::Sum { self.shares(rows.len()) } else { 1 };
        self.rank_and_run(rows, shares, visits)
    }
}
