//! A compiled plan, and its run.

use std::{cell::RefCell, sync::atomic::AtomicU32};

use rayon::prelude::*;

#[cfg(target_arch = "x86_64")]
use super::simd;
use super::{
    block::{BlockLoop, Stage, Step, steps},
    nodes::{Compare, LinkedNode, Node, Nodes, Rule, ShortNode},
    rows::{Read, Row, Rows},
    sink::{Leaves, Many, Moved, One, Shared, Sink, Slots, Trace},
    walk::{self, Shape, Span},
    window::{self, Used, Window},
};
use crate::{
    error::{Error, Result},
    forest::{Aggregate, CompareType, Forest, Targets},
    layout::{Children, Packed},
    plan::{Dim, Extents, Limit, Lowered, Op, Plan, Range, RowLoop, Size, Sum, Target, Value},
    schedule::MOST_DEPTH,
};

/// Sizes a plan may leave to run time.
const MOST_SLOTS: usize = 64;
/// Slots held at a time where margins are made of them.
const SLOTS_AT_A_TIME: usize = 1 << 16;
/// Partial sums held at a time; longer batches go in pieces.
const MOST_PARTIALS: usize = 1 << 26;

/// Sums that a stage takes at a time, at most.
const MOST_VECTOR: usize = 16;

/// Nodes with thresholds of one type.
#[derive(Clone, Debug)]
enum Encoded<C> {
    Affine(Nodes<Node<C>>),
    Linked(Nodes<LinkedNode<C>>),
    /// Of `f32` thresholds only.
    Short(Nodes<ShortNode>),
}

impl<C: Compare> Encoded<C> {
    fn new(forest: &Forest, packed: &Packed) -> Self {
        match packed.children {
            Children::Affine { .. } | Children::Interleaved => Self::Affine(Nodes::affine(forest, packed)),
            Children::Linked => Self::Linked(Nodes::linked(forest, packed)),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Affine(n) => size_of_val(&n.nodes[..]),
            Self::Linked(n) => size_of_val(&n.nodes[..]) + size_of_val(&n.tops[..]),
            Self::Short(n) => size_of_val(&n.nodes[..]) + size_of_val(&n.tops[..]),
        }
    }
}

impl Encoded<f32> {
    /// With what the vector kernels want.
    fn for_vectors(self, vectors: bool) -> Self {
        let nodes = match self {
            Self::Linked(nodes) => Nodes::short(&nodes).map_or(Self::Linked(nodes), Self::Short),
            nodes => nodes,
        };
        match nodes {
            Self::Linked(nodes) if vectors => Self::Linked(nodes.with_tops()),
            Self::Short(nodes) if vectors => Self::Short(nodes.with_tops()),
            nodes => nodes,
        }
    }
}

/// A forest and a schedule, ready to run on the CPU. Immutable and `Sync`; a run takes no lock and allocates nothing
/// (but for scratch that each thread keeps: partial sums, copies of cached rows, and slots where margins are the least or
/// largest leaf).
#[derive(Clone, Debug)]
pub struct Program {
    plan: Plan,
    steps: Vec<Step>,
    nodes: Encoded<f32>,
    compare: CompareType,
    /// For `f64` rows of a forest that compares in `f64`.
    wide: Option<Encoded<f64>>,
    aggregate: Aggregate,
    /// The slot at each address.
    slots: Vec<u32>,
    /// The producer's index of the tree at each position.
    order: Vec<u32>,
    /// The output of the tree at each position; `None` where leaves are vectors.
    targets: Option<Vec<u32>>,
    base: Vec<f32>,
    leaf_values: usize,
    features: usize,
    /// What of a row the trees read.
    used: Used,
    threads: u32,
    /// Whether the machine runs the vector kernels.
    #[cfg(target_arch = "x86_64")]
    vectors: bool,
}

impl Program {
    /// Makes the program of a forest that was lowered for the CPU.
    ///
    /// # Errors
    /// A plan for another target, or one with more than 64 run-time sizes.
    pub fn new(forest: &Forest, lowered: &Lowered, threads: u32) -> Result<Self> {
        let plan = lowered.plan().clone();
        if plan.target != Target::Cpu {
            return Err(Error::Internal("a cube plan was handed to the CPU".into()));
        }
        if plan.sizes.len() > MOST_SLOTS {
            let remedy = format!(
                "{} sizes that only a call knows, at most {MOST_SLOTS}; write more of them as numbers",
                plan.sizes.len()
            );
            return Err(crate::schedule::ScheduleError::whole(remedy).into());
        }
        let packed = lowered.packed();
        let targets = match &forest.targets {
            Targets::One(outputs) => Some(lowered.order().iter().map(|t| outputs[*t as usize]).collect()),
            Targets::All => None,
        };
        #[cfg(target_arch = "x86_64")]
        let vectors = simd::available();
        #[cfg(not(target_arch = "x86_64"))]
        let vectors = false;
        let able = vectors && !plan.questions;
        let used = Used::new(forest);
        Ok(Self {
            steps: steps(&plan.body, &used, able),
            used,
            nodes: Encoded::new(forest, packed).for_vectors(able),
            compare: forest.compare,
            wide: None,
            aggregate: forest.aggregate,
            slots: packed.slots(),
            order: lowered.order().to_vec(),
            targets,
            base: forest.base_score.iter().map(|b| b.0 as f32).collect(),
            leaf_values: forest.leaf_values.len(),
            features: forest.features.len(),
            threads,
            #[cfg(target_arch = "x86_64")]
            vectors,
            plan,
        })
    }

    /// The same for `f64` rows too, which take nodes of their own where the forest compares in `f64`.
    #[must_use]
    pub fn with_doubles(mut self, forest: &Forest, lowered: &Lowered) -> Self {
        self.wide = (self.compare == CompareType::F64).then(|| Encoded::new(forest, lowered.packed()));
        self
    }

    /// The plan it runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Trees of the forest.
    pub fn trees(&self) -> usize {
        self.order.len()
    }

    /// Worker threads it was made for.
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// Outputs a row.
    pub fn outputs(&self) -> usize {
        self.base.len()
    }

    /// The instruction set of its vector kernels; empty where it has none for this machine.
    pub fn vector_name(&self) -> &'static str {
        #[cfg(target_arch = "x86_64")]
        if self.vectors && !self.plan.questions {
            return "avx512";
        }
        ""
    }

    /// Bytes of its nodes and slots.
    pub fn node_bytes(&self) -> usize {
        self.nodes.bytes() + self.wide.as_ref().map_or(0, Encoded::bytes) + size_of_val(&self.slots[..])
    }

    /// Writes `rows x outputs` margins; `leaves` are the leaf values by slot.
    ///
    /// # Errors
    /// Rows, leaves or output of another shape than the forest's.
    pub fn margins<T: Row>(&self, rows: &Rows<'_, T>, leaves: &[f32], out: &mut [f32]) -> Result<()> {
        let outputs = self.outputs();
        self.check(rows, out.len(), outputs)?;
        if leaves.len() != self.leaf_values {
            return Err(Error::Rows(format!(
                "{} leaf values, the forest has {}",
                leaves.len(),
                self.leaf_values
            )));
        }
        if self.aggregate != Aggregate::Sum {
            self.extremes(rows, leaves, out);
            return Ok(());
        }
        for row in out.chunks_exact_mut(outputs) {
            row.copy_from_slice(&self.base);
        }
        let per_row =
            |at: Extents| self.plan.partials.iter().map(|p| self.copies(p, at) * outputs).sum::<usize>();
        let needed = per_row(self.extents(rows.len()));
        if needed > MOST_PARTIALS {
            return Err(Error::Rows(format!(
                "the schedule keeps {needed} partial sums a row, at most {MOST_PARTIALS}; make fewer loops over trees parallel"
            )));
        }
        // Rows do not depend on each other, so a batch whose copies are too many goes in pieces.
        let piece = MOST_PARTIALS.checked_div(needed).map_or(rows.len(), |n| n.clamp(1, rows.len().max(1)));
        let mut first = 0;
        while first < rows.len() {
            let count = piece.min(rows.len() - first);
            let part = rows.slice(first, count);
            let sums = &mut out[first * outputs..][..count * outputs];
            let at = self.extents(count);
            with_scratch(per_row(at) * count, |partials| {
                let into = Into::Sums { leaves, result: Shared::new(sums), partials: Shared::new(partials) };
                self.run(&part, at, into);
            });
            first += count;
        }
        Ok(())
    }

    /// Margins that are the least or the largest leaf: slots first, which every schedule gives, then their values.
    fn extremes<T: Row>(&self, rows: &Rows<'_, T>, leaves: &[f32], out: &mut [f32]) {
        let (outputs, trees) = (self.outputs(), self.trees());
        let piece = (SLOTS_AT_A_TIME / trees.max(1)).max(1);
        thread_local!(static SLOTS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) });
        let mut slots = SLOTS.with(RefCell::take);
        for (p, sums) in out.chunks_mut(piece * outputs).enumerate() {
            let part = rows.slice(p * piece, piece);
            slots.clear();
            slots.resize(part.len() * trees, 0);
            self.run(&part, self.extents(part.len()), Into::Slots(Shared::new(&mut slots)));
            for (r, row) in sums.chunks_exact_mut(outputs).enumerate() {
                self.extreme(&slots[r * trees..][..trees], leaves, row);
            }
        }
        SLOTS.with(|s| s.replace(slots));
    }

    fn extreme(&self, slots: &[u32], leaves: &[f32], row: &mut [f32]) {
        let least = self.aggregate == Aggregate::Min;
        let start = if least { f32::INFINITY } else { f32::NEG_INFINITY };
        row.fill(start);
        let mut take = |output: usize, value: f32| {
            let have = &mut row[output];
            *have = if least { have.min(value) } else { have.max(value) };
        };
        // Targets stand by position, slots in the producer's order.
        let outputs = self.outputs();
        match &self.targets {
            Some(targets) => {
                for (target, tree) in targets.iter().zip(&self.order) {
                    take(*target as usize, leaves[slots[*tree as usize] as usize]);
                }
            }
            None => {
                for slot in slots {
                    let leaf = &leaves[*slot as usize * outputs..][..outputs];
                    leaf.iter().enumerate().for_each(|(o, value)| take(o, *value));
                }
            }
        }
        for (sum, base) in row.iter_mut().zip(&self.base) {
            // An output without trees is its base score.
            *sum = if *sum == start { *base } else { *sum + base };
        }
    }

    /// Writes `rows x trees` leaf slots, trees in the producer's order.
    ///
    /// # Errors
    /// Rows or output of another shape than the forest's.
    pub fn slots<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [u32]) -> Result<()> {
        self.check(rows, out.len(), self.trees())?;
        self.run(rows, self.extents(rows.len()), Into::Slots(Shared::new(out)));
        Ok(())
    }

    /// Writes for each row and tree, in the producer's tree order, the worker that visits it ([`worker`]) and the
    /// visit's place in the whole run: `rows x trees x 2`.
    ///
    /// # Errors
    /// Rows or output of another shape than the forest's.
    pub fn trace<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [u32]) -> Result<()> {
        self.check(rows, out.len(), self.trees() * 2)?;
        let clock = AtomicU32::new(0);
        self.run(rows, self.extents(rows.len()), Into::Trace(Shared::new(out), &clock));
        Ok(())
    }

    fn check<T: Row>(&self, rows: &Rows<'_, T>, out: usize, width: usize) -> Result<()> {
        if rows.columns() != self.features {
            return Err(Error::Columns { found: rows.columns(), expected: self.features });
        }
        if T::doubles(rows).is_some() && self.compare == CompareType::F64 && self.wide.is_none() {
            return Err(Error::Rows("f64 rows for a program without them; make it `with_doubles`".into()));
        }
        if out != rows.len() * width {
            return Err(Error::Rows(format!(
                "room for {out} values, {} rows need {}",
                rows.len(),
                rows.len() * width
            )));
        }
        Ok(())
    }

    fn extents(&self, batch: usize) -> Extents {
        Extents { batch: batch as u32, trees: self.order.len() as u32, threads: self.threads }
    }

    fn copies(&self, partial: &crate::plan::Partial, at: Extents) -> usize {
        partial
            .dims
            .iter()
            .map(|d| self.plan.resolve(d.count, at).clamp(1, at.trees.max(1)) as usize)
            .product()
    }

    fn run<T: Row>(&self, rows: &Rows<'_, T>, at: Extents, into: Into<'_>) {
        if rows.is_empty() {
            return;
        }
        let mut sizes = [0; MOST_SLOTS];
        for (place, size) in sizes.iter_mut().zip(&self.plan.sizes) {
            *place = Size::resolve(size, at);
        }
        let run = Run { program: self, rows, sizes, at, into };
        run.steps(&self.steps, State { offsets: [0; 32], row: 0, tree: 0, worker: 0, window: None });
    }
}

impl std::fmt::Display for Program {
    /// The program as it runs: loops, and the micro-kernels that blocks call.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let vectors = if self.vector_name().is_empty() { "portable" } else { self.vector_name() };
        writeln!(
            f,
            "program threads={} isa={vectors} layout={} trees={}",
            self.threads,
            self.plan.layout,
            self.trees()
        )?;
        for (i, size) in self.plan.sizes.iter().enumerate() {
            writeln!(f, "  s{i} = {size}")?;
        }
        let vectors = !self.vector_name().is_empty();
        for op in self.plan.ops() {
            match op {
                Op::CacheRows { rows } => {
                    writeln!(f, "  cacheRows {rows}: {}", self.used.text(*rows, vectors))?;
                }
                Op::CacheTrees { trees } => {
                    writeln!(
                        f,
                        "  cacheTrees {trees}: nothing: a prefetch just before the walks costs more than it gives"
                    )?;
                }
                _ => {}
            }
        }
        self.steps.iter().try_for_each(|s| super::block::write_step(f, &self.plan, s, 0))
    }
}

/// The number of a worker, from the index of each parallel loop on the way to it, outermost first.
pub fn worker(indices: impl IntoIterator<Item = u32>) -> u32 {
    indices.into_iter().fold(0, next_worker)
}

fn next_worker(outer: u32, index: u32) -> u32 {
    outer.wrapping_mul(65_599).wrapping_add(index + 1)
}

/// Lends `f` a zeroed buffer that the thread keeps for its next call.
fn with_scratch(len: usize, f: impl FnOnce(&mut [f32])) {
    thread_local!(static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) });
    // Taken out, not borrowed: while this thread waits for others, rayon may have it run another prediction.
    let mut buffer = SCRATCH.with(RefCell::take);
    buffer.clear();
    buffer.resize(len, 0.0);
    f(&mut buffer);
    SCRATCH.with(|s| s.replace(buffer));
}

/// What a run writes.
#[derive(Clone, Copy)]
enum Into<'a> {
    Sums { leaves: &'a [f32], result: Shared<f32>, partials: Shared<f32> },
    Slots(Shared<u32>),
    Trace(Shared<u32>, &'a AtomicU32),
}

const _: () = assert!(MOST_DEPTH == 32, "a state holds the offset of every loop of the deepest nest");

#[derive(Clone, Copy)]
struct State<'w> {
    offsets: [u32; 32],
    row: u32,
    tree: u32,
    worker: u32,
    /// Rows that are read from a copy.
    window: Option<Window<'w>>,
}

struct Run<'a, T> {
    program: &'a Program,
    rows: &'a Rows<'a, T>,
    sizes: [u32; MOST_SLOTS],
    at: Extents,
    into: Into<'a>,
}

impl<T: Row> Run<'_, T> {
    fn value(&self, value: Value) -> u32 {
        match value {
            Value::Const(n) => n,
            Value::Slot(s) => self.sizes[s as usize],
        }
    }

    /// First offset, step and count of a range. No offset reaches past the rows or trees there are, so a tile larger
    /// than that has no further iterations.
    fn span(&self, range: &Range, dim: Dim, state: &State<'_>) -> (u32, u32, u32) {
        let most = if dim == Dim::Batch { self.at.batch } else { self.at.trees };
        let limit = |l: &Limit| {
            l.minus.iter().fold(self.value(l.end), |end, r| end.saturating_sub(state.offsets[*r as usize]))
        };
        let end = range.limits.iter().map(limit).min().unwrap_or(0).min(most);
        let start = self.value(range.start);
        let step = self.value(range.step).max(1);
        (start, step, end.saturating_sub(start).div_ceil(step))
    }

    fn steps(&self, steps: &[Step], state: State<'_>) {
        for (i, step) in steps.iter().enumerate() {
            if let Step::CacheRows { rows, copied } = step {
                let first = (state.row as usize).min(self.rows.len());
                let count = (*rows as usize).min(self.rows.len() - first);
                let used = &self.program.used;
                if !copied {
                    window::prefetched(self.rows, first, count, used);
                    continue;
                }
                // A few rows are close as they are; a copy holds `f32`, which not every forest compares `f64` rows as.
                let wide = T::doubles(self.rows).is_some() && self.program.wide.is_some();
                if count < walk::FEW_ROWS || wide || !used.fits(count) {
                    continue;
                }
                let rest = &steps[i + 1..];
                window::copied(self.rows, first, count, used, |window| {
                    self.steps(rest, State { window: Some(window), ..state });
                });
                return;
            }
            self.step(step, state);
        }
    }

    fn step(&self, step: &Step, mut state: State<'_>) {
        match step {
            Step::Loop { dim, register, range, parallel, body } => {
                let (start, step, count) = self.span(range, *dim, &state);
                let iteration = |k: u32, worker: u32| {
                    let offset = start + k * step;
                    let mut inner = state;
                    inner.worker = worker;
                    inner.offsets[*register as usize] = offset;
                    match dim {
                        Dim::Batch => inner.row += offset,
                        Dim::Tree => inner.tree += offset,
                    }
                    self.steps(body, inner);
                };
                match *parallel {
                    false => (0..count).for_each(|k| iteration(k, state.worker)),
                    true if count == 1 || self.program.threads == 1 => {
                        (0..count).for_each(|k| iteration(k, next_worker(state.worker, k)));
                    }
                    true => {
                        (0..count).into_par_iter().for_each(|k| iteration(k, next_worker(state.worker, k)))
                    }
                }
            }
            Step::Block { rows, trees, shape, into } => {
                let span = |l: &Option<BlockLoop>, dim: Dim, base: u32| {
                    let (start, step, count) =
                        l.as_ref().map_or((0, 1, 1), |l| self.span(&l.range, dim, &state));
                    Span { start: (base + start) as usize, step: step as usize, count: count as usize }
                };
                let (rows, trees) = (span(rows, Dim::Batch, state.row), span(trees, Dim::Tree, state.tree));
                self.block(rows, trees, *shape, into, &state);
            }
            Step::Cases { register, cases } => {
                let offset = state.offsets[*register as usize];
                let taken = cases.iter().find(|(end, _)| offset < *end).or(cases.last());
                if let Some((_, body)) = taken {
                    self.steps(body, state);
                }
            }
            // It is for all that follows it: see `steps`.
            Step::CacheRows { .. } => {}
            Step::Reduce { buffer, dimension, rows, into } => {
                let here = state;
                for chain in rows {
                    // Rows side by side are reduced together: their sums lie side by side.
                    let mut run = 0..0;
                    self.each_row(chain, &mut state, &mut |row, _| {
                        if row != run.end {
                            self.reduce(*buffer, *dimension as usize, run.clone(), *into, &here);
                            run = row..row;
                        }
                        run.end += 1;
                    });
                    self.reduce(*buffer, *dimension as usize, run, *into, &here);
                }
            }
        }
    }

    fn block(&self, row: Span, tree: Span, shape: Shape, into: &Sum, state: &State<'_>) {
        // What the unchecked loads of the micro-kernels rest on.
        if row.count == 0
            || tree.count == 0
            || row.end() > self.rows.len()
            || tree.end() > self.program.order.len()
        {
            debug_assert!(row.count == 0 || tree.count == 0, "a block past the rows or trees");
            return;
        }
        let p = self.program;
        let slots = &p.slots[..];
        match self.into {
            Into::Sums { leaves, result, partials } => {
                let leaves = Leaves { slots, values: leaves };
                let outputs = p.base.len();
                let (out, base, atomic) = match into {
                    Sum::Partial { buffer, atomic } => {
                        (partials, self.partial(*buffer, state, None), *atomic)
                    }
                    Sum::Result { .. } | Sum::Shared => (result, 0, false),
                    Sum::Atomic => (result, 0, true),
                };
                match outputs {
                    1 => self.dispatch(row, tree, shape, One { leaves, out, base, atomic }, state),
                    _ => self.dispatch(
                        row,
                        tree,
                        shape,
                        Many { leaves, out, base, atomic, outputs, targets: p.targets.as_deref() },
                        state,
                    ),
                }
            }
            Into::Slots(out) => {
                let leaves = Leaves { slots, values: &[] };
                self.dispatch(row, tree, shape, Slots { leaves, out, order: &p.order }, state);
            }
            Into::Trace(out, clock) => {
                self.dispatch(
                    row,
                    tree,
                    shape,
                    Trace { out, order: &p.order, worker: state.worker, clock },
                    state,
                );
            }
        }
    }

    /// Picks the micro-kernel.
    fn dispatch<S: Sink>(&self, row: Span, tree: Span, shape: Shape, sink: S, state: &State<'_>) {
        let p = self.program;
        if let Some(window) = state.window.filter(|w| w.holds(row))
            && self.in_window(window, row, tree, shape, sink)
        {
            return;
        }
        if let Some(rows) = T::doubles(self.rows) {
            return match (&p.wide, &p.nodes) {
                (Some(Encoded::Affine(nodes)), _) => self.plain(nodes, rows, row, tree, shape, sink),
                (Some(Encoded::Linked(nodes)), _) => self.plain(nodes, rows, row, tree, shape, sink),
                (_, Encoded::Affine(nodes)) => self.plain(nodes, rows, row, tree, shape, sink),
                (_, Encoded::Linked(nodes)) => self.plain(nodes, rows, row, tree, shape, sink),
                (_, Encoded::Short(nodes)) => self.plain(nodes, rows, row, tree, shape, sink),
            };
        }
        let Some(rows) = T::singles(self.rows) else { return };
        #[cfg(target_arch = "x86_64")]
        if self.vectors(row, shape) && simd::fits(rows) {
            // SAFETY: `vectors` and `fits` hold.
            return unsafe { self.vector(rows, row, tree, shape, sink) };
        }
        self.portable(rows, row, tree, shape, sink);
    }

    /// The same for rows in a window, unless the walks' order has to be another than from block to block of it.
    fn in_window<S: Sink>(&self, window: Window<'_>, row: Span, tree: Span, shape: Shape, sink: S) -> bool {
        #[cfg(target_arch = "x86_64")]
        if self.vectors(row, shape) {
            // SAFETY: `vectors` holds, and the window has the rows.
            unsafe { self.vector(window, row, tree, shape, sink) };
            return true;
        }
        if S::ORDERED && !window.together(row) {
            return false;
        }
        let mut done = 0;
        while done < row.count {
            let first = row.at(done);
            let (rows, place) = window.rows(first);
            let count = (rows.len() - place).div_ceil(row.step).min(row.count - done);
            let part = Span { start: place, step: row.step, count };
            self.portable(&rows, part, tree, shape, Moved { sink, by: first - place });
            done += count;
        }
        true
    }

    /// The one kernel for `f64` rows: any strides, any question, whatever the interleaving.
    fn plain<R: Rule, S: Sink>(
        &self,
        nodes: &Nodes<R>,
        rows: &Rows<'_, f64>,
        row: Span,
        tree: Span,
        shape: Shape,
        sink: S,
    ) where
        f64: Read<R::Compare>,
    {
        // SAFETY: the spans were checked against rows and trees, the columns against the forest; `lower` has
        // settled steps that stay inside the nodes.
        unsafe { walk::lanes::<R, f64, S, true, false, 4>(nodes, rows, row, tree, shape, sink) }
    }

    /// Whether the vector kernels can run these rows through this forest.
    #[cfg(target_arch = "x86_64")]
    fn vectors(&self, row: Span, shape: Shape) -> bool {
        let p = self.program;
        // Addresses are gathered with 32-bit signed offsets of words.
        let small = p.slots.len() < i32::MAX as usize / 12;
        let rows = shape.rows_inside && row.step == 1 && row.count >= walk::FEW_ROWS;
        // A step from a leaf reads a value, too.
        rows && p.vectors && !p.plan.questions && small && p.features > 0
    }

    /// # Safety
    /// [`Run::vectors`]; the rows are in the source, which [`simd::fits`] or is a window.
    #[cfg(target_arch = "x86_64")]
    unsafe fn vector<F: simd::Source, S: Sink>(&self, rows: F, row: Span, tree: Span, shape: Shape, sink: S) {
        // SAFETY: the spans were checked against rows and trees, the columns against the forest; `lower` has
        // settled steps that stay inside the nodes.
        unsafe {
            match &self.program.nodes {
                Encoded::Affine(nodes) => simd::block(nodes, rows, row, tree, shape, sink),
                Encoded::Linked(nodes) => simd::block(nodes, rows, row, tree, shape, sink),
                Encoded::Short(nodes) => simd::block(nodes, rows, row, tree, shape, sink),
            }
        }
    }

    fn portable<S: Sink>(&self, rows: &Rows<'_>, row: Span, tree: Span, shape: Shape, sink: S) {
        match &self.program.nodes {
            Encoded::Affine(nodes) => self.dispatch_rule(nodes, rows, row, tree, shape, sink),
            Encoded::Linked(nodes) => self.dispatch_rule(nodes, rows, row, tree, shape, sink),
            Encoded::Short(nodes) => self.dispatch_rule(nodes, rows, row, tree, shape, sink),
        }
    }

    fn dispatch_rule<R: Rule<Compare = f32>, S: Sink>(
        &self,
        nodes: &Nodes<R>,
        rows: &Rows<'_>,
        row: Span,
        tree: Span,
        shape: Shape,
        sink: S,
    ) {
        // SAFETY: the spans were checked against rows and trees, the columns against the forest; `lower` has
        // settled steps that stay inside the nodes.
        unsafe {
            match (self.program.plan.questions, rows.is_unit()) {
                (false, true) => walk::block::<R, f32, S, false, true>(nodes, rows, row, tree, shape, sink),
                (false, false) => walk::block::<R, f32, S, false, false>(nodes, rows, row, tree, shape, sink),
                (true, _) => walk::block::<R, f32, S, true, false>(nodes, rows, row, tree, shape, sink),
            }
        }
    }

    /// Where row 0 of a private copy starts in the scratch: the copy of the current iterations, or the one in which
    /// dimension `fixed.0` has index `fixed.1` and those after it index 0.
    fn partial(&self, buffer: u32, state: &State<'_>, fixed: Option<(usize, u32)>) -> usize {
        let p = self.program;
        let row_width = self.rows.len() * p.base.len();
        let before: usize =
            p.plan.partials[..buffer as usize].iter().map(|b| p.copies(b, self.at) * row_width).sum();
        let mut copy = 0usize;
        for (i, dim) in p.plan.partials[buffer as usize].dims.iter().enumerate() {
            let index = match fixed {
                Some((d, k)) if i == d => k,
                Some((d, _)) if i > d => 0,
                _ => {
                    let offset = state.offsets[dim.register as usize];
                    offset.saturating_sub(self.value(dim.start)) / self.value(dim.step).max(1)
                }
            };
            copy = copy * self.value(dim.count).clamp(1, self.at.trees.max(1)) as usize + index as usize;
        }
        before + copy * row_width
    }

    fn each_row(&self, chain: &[RowLoop], state: &mut State<'_>, f: &mut dyn FnMut(usize, &State<'_>)) {
        let Some((outer, inner)) = chain.split_first() else {
            f(state.row as usize, state);
            return;
        };
        let (start, step, count) = self.span(&outer.range, Dim::Batch, state);
        let row = state.row;
        for k in 0..count {
            let offset = start + k * step;
            state.offsets[outer.register as usize] = offset;
            state.row = row + offset;
            self.each_row(inner, state, f);
        }
        state.row = row;
        state.offsets[outer.register as usize] = 0;
    }

    /// Adds up the copies of rows over one dimension, and leaves them zero.
    fn reduce(
        &self,
        buffer: u32,
        dimension: usize,
        rows: std::ops::Range<usize>,
        stage: Stage,
        state: &State<'_>,
    ) {
        let Into::Sums { result, partials, .. } = self.into else { return };
        let p = self.program;
        let outputs = p.base.len();
        let copies = self.value(p.plan.partials[buffer as usize].dims[dimension].count).min(self.at.trees);
        let place = |k: u32| self.partial(buffer, state, Some((dimension, k)));
        let (first, stride) = (place(0), if copies > 1 { place(1) - place(0) } else { 0 });
        let (mut at, end) = (rows.start * outputs, rows.end * outputs);
        while at < end {
            let width = stage.vector.clamp(1, MOST_VECTOR).min(end - at);
            let mut sums = [0.0f32; MOST_VECTOR];
            for k in 0..copies as usize {
                for (i, sum) in sums[..width].iter_mut().enumerate() {
                    // SAFETY: the copies of these rows belong to the iterations this stage ends.
                    *sum += std::mem::take(unsafe { partials.at(first + k * stride + at + i) });
                }
            }
            for (i, sum) in sums[..width].iter().enumerate() {
                match (stage.in_place, stage.atomic) {
                    // SAFETY: as above.
                    (true, _) => unsafe { *partials.at(first + at + i) += sum },
                    // SAFETY: the stage ends every loop that shares the rows' sums.
                    (false, false) => unsafe { *result.at(at + i) += sum },
                    (false, true) => result.add_atomic(at + i, *sum),
                }
            }
            at += width;
        }
    }
}
