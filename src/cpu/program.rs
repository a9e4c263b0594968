//! A compiled plan, and its run.

use rayon::prelude::*;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::isa::{Isa, isa};
use super::{
    block::{ProgramStep, steps},
    cached::UsedColumns,
    emit::{Emission, LeafSlots},
    encoded::Encoded,
    engine::{
        EngineRequest, Trees,
        blend::{Blends, groups::Blend},
        vectors::{Vectors, top_levels},
        walk::Shape,
    },
    engines::Engines,
    ranking::{Ranked, Ranker, ranked},
    rows::{Row, Rows},
    run::Run,
    select::EngineSet,
    sink::Shared,
};
use crate::{
    cost::Machine,
    error::{Error, Result},
    forest::{Aggregate, CompareType, Forest, Targets},
    plan::{
        Cpu, Dim, Extents, Lowered, Map, Note, Op, Plan, RowType, Value,
        cpu::{CopyDim, Parallel, Statement},
    },
    schedule::FewRows,
};

/// Sizes a plan may leave to run time.
pub(super) const MOST_SLOTS: usize = 64;

/// A forest and a schedule, ready to run on the CPU. Immutable and `Sync`; a run takes no lock and allocates nothing
/// (but for scratch that each thread keeps: partial sums, copies of cached rows, and slots where margins are the least or
/// largest leaf).
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) plan: Plan<Cpu>,
    notes: Vec<Note>,
    pub(super) steps: Vec<ProgramStep>,
    pub(super) nodes: Encoded<f32>,
    pub(super) compare: CompareType,
    /// For `f64` rows of a forest that compares in `f64`.
    pub(super) wide: Option<Encoded<f64>>,
    pub(super) aggregate: Aggregate,
    /// The slot at each address.
    pub(super) slots: Vec<u32>,
    /// The producer's index of the tree at each position.
    pub(super) order: Vec<u32>,
    /// The output of the tree at each position; `None` where leaves are vectors.
    pub(super) targets: Option<Vec<u32>>,
    pub(super) base: Vec<f32>,
    /// As many zeros.
    pub(super) no_base: Vec<f32>,
    /// The forest's leaf values, by slot.
    pub(super) leaves: Vec<f32>,
    /// Columns of a row as it is handed over.
    pub(super) features: usize,
    /// What makes a row ranks before it is walked, where the schedule wants that.
    pub(super) ranker: Option<Ranker>,
    /// What runs blocks of rows and trees.
    pub(super) engines: EngineSet,
    /// What of a row the trees read.
    pub(super) used: UsedColumns,
    pub(super) threads: u32,
    /// Whether a run goes round its parallel loops.
    parallel_inside: bool,
    /// Rows of an iteration of the one parallel loop, where there is one and it is over rows.
    rows_a_task: Option<u32>,
}

impl Program {
    /// Makes the program of a forest that was lowered for the CPU.
    ///
    /// # Errors
    /// A plan for another target, or one with more than 64 run-time sizes; [`ISA`](crate::cpu::ISA) or
    /// [`GATHERS`](crate::cpu::GATHERS) set to what they can't be.
    pub fn new(forest: &Forest, lowered: &Lowered, threads: u32) -> Result<Self> {
        Self::with_engines(forest, lowered, threads, Engines::default())
    }

    /// The same with no other engines than these. An engine for a few rows that the schedule asks for, and that can't serve the forest or
    /// the machine, is left out: [`Program::few_rows_engine`] says which there is.
    ///
    /// # Errors
    /// As [`Program::new`].
    pub fn with_engines(forest: &Forest, lowered: &Lowered, threads: u32, engines: Engines) -> Result<Self> {
        crate::isa::check()?;
        let plan = lowered.cpu_plan()?.clone();
        if plan.sizes.len() > MOST_SLOTS {
            let remedy = format!(
                "{} sizes that only a call knows, at most {MOST_SLOTS}; write more of them as numbers",
                plan.sizes.len()
            );
            return Err(crate::schedule::ScheduleError::whole(remedy).into());
        }
        let features = forest.features.len();
        let forest = lowered.walked(forest);
        let packed = lowered.packed();
        let targets = match &forest.targets {
            Targets::One(outputs) => Some(lowered.order().iter().map(|t| outputs[*t as usize]).collect()),
            Targets::All => None,
        };
        let vectors = Vectors::can_serve(&plan, features, engines.scalar);
        let used = UsedColumns::new(forest);
        let steps = steps(&plan.body, &used, vectors);
        let values = plan.rows == RowType::F32 && lowered.ranks().is_none();
        let tops = if vectors { top_levels() } else { 0 };
        let nodes = Encoded::new(forest, packed).for_vectors(tops, plan.rows);
        let ranker = lowered.ranks().map(|ranks| Ranker::by(ranks, engines.ranking));
        let engines = EngineSet::build(&EngineRequest {
            plan: &plan,
            forest,
            packed,
            order: lowered.order(),
            nodes: &nodes,
            ranked: ranker.as_ref().map_or((0, 0), Ranker::columns),
            few_rows: values && !plan.questions && plan.children.tile() == 1 && rows_inside(&steps),
            by: if engines.scalar { FewRows::Walk } else { lowered.few_rows() },
            scalar: engines.scalar,
        });
        Ok(Self {
            engines,
            steps,
            used,
            nodes,
            compare: forest.compare,
            wide: None,
            aggregate: forest.aggregate,
            slots: packed.slots(),
            order: lowered.order().to_vec(),
            targets,
            no_base: vec![0.0; forest.base_score.len()],
            base: forest.base_score.iter().map(|b| b.0 as f32).collect(),
            leaves: forest.leaf_values.iter().map(|v| v.0 as f32).collect(),
            features,
            ranker,
            threads,
            parallel_inside: parallel_inside(&plan.body, false),
            rows_a_task: rows_a_task(&plan),
            plan,
            notes: lowered.notes().to_vec(),
        })
    }

    /// The same for `f64` rows too, which take nodes of their own where the forest compares in `f64`.
    #[must_use]
    pub fn with_doubles(mut self, forest: &Forest, lowered: &Lowered) -> Self {
        self.wide = (self.compare == CompareType::F64).then(|| Encoded::new(forest, lowered.packed()));
        self
    }

    /// The trees, as engines walk them.
    pub(super) fn nodes_of_trees(&self) -> Trees<'_> {
        Trees {
            nodes: &self.nodes,
            wide: self.wide.as_ref(),
            questions: self.plan.questions,
            addresses: self.slots.len(),
        }
    }

    /// Whether rows become ranks in windows, and not before they are walked.
    pub(super) fn ranks_in_windows(&self) -> bool {
        self.engines.blends().is_some()
    }

    /// What evaluates trees by blends in blocks of this shape.
    pub(super) fn blend_of(&self, shape: Shape) -> Option<&Blend> {
        self.engines.blends()?.of(shape)
    }

    /// Fewer rows than this are walked a row at a time.
    pub(crate) fn few_rows(&self) -> usize {
        self.engines.few_rows()
    }

    /// The same, for batches for which `many` would have been taken that are small enough to be faster here.
    #[must_use]
    pub(crate) fn instead_of(mut self, many: &Self) -> Self {
        self.engines = self.engines.instead_of(&many.engines);
        self
    }

    /// Whether a batch of so many rows keeps more than one thread.
    pub(crate) fn wakes(&self, rows: usize) -> bool {
        let tasks = self.rows_a_task.is_none_or(|of_task| rows > of_task as usize);
        self.threads > 1 && (tasks || self.shares(rows) > 1)
    }

    /// Into how many shares a batch's trees are dealt out to threads: where the schedule has rows on threads, and those of the
    /// batch would keep one thread only, for long enough.
    pub(super) fn shares(&self, rows: usize) -> usize {
        let one_task = self.rows_a_task.is_some_and(|of_task| rows <= of_task as usize);
        // A plan with sums of its own for some trees deals these out itself.
        if self.threads == 1 || !one_task || !self.plan.own.partials.is_empty() {
            return 1;
        }
        let worth = (self.engines.seconds(rows) / Machine::here().thread) as usize;
        worth.min(self.threads as usize).min(self.trees()).max(1)
    }

    /// The positions of the trees of share `k` of so many.
    pub(super) fn share(&self, k: usize, shares: usize) -> std::ops::Range<usize> {
        let each = self.trees().div_ceil(shares);
        (k * each).min(self.trees())..self.trees().min((k + 1) * each)
    }

    /// Whether it has blends, which a few rows don't fill.
    pub(crate) fn wants_many_rows(&self) -> bool {
        self.ranks_in_windows()
    }

    /// The forest's leaf values, by slot: what margins add up fastest.
    pub fn leaves(&self) -> &[f32] {
        &self.leaves
    }

    /// What of the schedule its plan carries out otherwise.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The plan it runs.
    pub fn plan(&self) -> &Plan<Cpu> {
        &self.plan
    }

    /// Trees of the forest.
    pub fn trees(&self) -> usize {
        self.order.len()
    }

    /// Columns of a row.
    pub(crate) fn features(&self) -> usize {
        self.features
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
        if self.engines.has_vector_kernels() {
            match isa() {
                Isa::Avx512 => return "avx512",
                Isa::Avx2 => return "avx2",
                // Not on this architecture.
                Isa::Neon | Isa::Portable => {}
            }
        }
        // What it has kernels for is blends, on ranks.
        #[cfg(target_arch = "aarch64")]
        if isa() == Isa::Neon && self.ranks_in_windows() {
            return "neon";
        }
        ""
    }

    /// Bytes of its nodes and slots.
    pub fn node_bytes(&self) -> usize {
        self.engines.bytes()
            + self.nodes.bytes()
            + self.wide.as_ref().map_or(0, Encoded::bytes)
            + size_of_val(&self.slots[..])
    }

    /// What walks a few rows.
    pub fn few_rows_engine(&self) -> FewRows {
        self.engines.few_rows_engine()
    }

    /// Writes `rows x trees` leaf slots, trees in the producer's order.
    ///
    /// # Errors
    /// Rows or output of another shape than the forest's.
    pub fn slots<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [u32]) -> Result<()> {
        T::slots(self, rows, out)
    }

    pub(super) fn slots_of<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [u32]) -> Result<()> {
        self.check(rows, out.len(), self.trees())?;
        self.rank_and_run(rows, 1, LeafSlots(Shared::new(out)))
    }

    /// Runs rows as they are walked, the trees dealt out to threads in so many shares.
    pub(super) fn rank_and_run<T: Row, E: Emission>(
        &self,
        rows: &Rows<'_, T>,
        shares: usize,
        into: E,
    ) -> Result<()> {
        let Some(ranker) = self.ranker.as_ref().filter(|_| !self.ranks_in_windows()) else {
            self.run_shares(rows, shares, into);
            return Ok(());
        };
        ranked(ranker, rows, self.threads, |rows| {
            match rows {
                Ranked::U8(rows) => self.run_shares(rows, shares, into),
                Ranked::U16(rows) => self.run_shares(rows, shares, into),
            }
            Ok(())
        })
    }

    fn run_shares<T: Row, E: Emission>(&self, rows: &Rows<'_, T>, shares: usize, into: E) {
        let at = self.extents(rows.len());
        if shares == 1 {
            return self.run(rows, at, into);
        }
        (0..shares).into_par_iter().for_each(|k| {
            self.run_trees(rows, at, into.of_share(k as u32), self.share(k, shares));
        });
    }

    pub(super) fn check<T: Row>(&self, rows: &Rows<'_, T>, out: usize, width: usize) -> Result<()> {
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

    pub(super) fn extents(&self, batch: usize) -> Extents {
        Extents { batch: batch as u32, trees: self.order.len() as u32, threads: self.threads }
    }

    pub(super) fn copies(&self, partial: &[CopyDim], at: Extents) -> usize {
        let copies = |d: &CopyDim| self.plan.resolve(d.count, at).clamp(1, at.trees.max(1)) as usize;
        partial.iter().map(copies).product()
    }

    pub(super) fn run<T: Row, E: Emission>(&self, rows: &Rows<'_, T>, at: Extents, into: E) {
        self.run_trees(rows, at, into, 0..self.trees());
    }

    /// The same of the trees at these positions.
    pub(super) fn run_trees<T: Row, E: Emission>(
        &self,
        rows: &Rows<'_, T>,
        at: Extents,
        into: E,
        trees: std::ops::Range<usize>,
    ) {
        if rows.is_empty() {
            return;
        }
        let run = Run::new(self, rows, at, into).of_trees(trees);
        // From outside a pool each of its iterations would wake the pool anew.
        if self.parallel_inside && self.threads > 1 && rayon::current_thread_index().is_none() {
            rayon::scope(|_| run.all());
        } else {
            run.all();
        }
    }
}

/// Whether some block walks a tree for all its rows.
fn rows_inside(steps: &[ProgramStep]) -> bool {
    steps.iter().any(|step| match step {
        ProgramStep::Block { shape, .. } => shape.rows_inside,
        ProgramStep::Loop { body, .. } => rows_inside(body),
        ProgramStep::Cases { cases, .. } => cases.iter().any(|(_, body)| rows_inside(body)),
        ProgramStep::CacheRows { .. } | ProgramStep::Reduce { .. } => false,
    })
}

/// The rows of an iteration of the parallel loop of a plan that has no other.
fn rows_a_task(plan: &Plan<Cpu>) -> Option<u32> {
    let parallel = plan.ops().into_iter().filter_map(|op| match op {
        Op::Loop(l) if l.map == Map::Own(Parallel) => Some(l),
        _ => None,
    });
    let mut steps = parallel.map(|l| match (l.dim, l.range.step) {
        (Dim::Batch, Value::Const(rows)) => Some(rows),
        _ => None,
    });
    match (steps.next(), steps.next()) {
        (Some(rows), None) => rows,
        _ => None,
    }
}

/// Whether a parallel loop stands inside a serial one.
fn parallel_inside(ops: &[Op<Cpu>], serial: bool) -> bool {
    ops.iter().any(|op| match op {
        Op::Loop(l) if l.map == Map::Own(Parallel) => serial || parallel_inside(&l.body, serial),
        Op::Loop(l) => parallel_inside(&l.body, true),
        op => op.bodies().into_iter().any(|body| parallel_inside(body, serial)),
    })
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
        // What of a window is copied: tiles read rows as they are.
        let vectors = self.engines.has_vectors();
        for op in self.plan.ops() {
            match op {
                Op::Own(Statement::CacheRows { rows }) if self.ranks_in_windows() => {
                    let columns = self.ranker.as_ref().map_or(0, |ranker| ranker.shape().1);
                    writeln!(f, "  cacheRows {rows}: ranks in {columns} columns")?;
                }
                Op::Own(Statement::CacheRows { rows }) => {
                    writeln!(f, "  cacheRows {rows}: {}", self.used.text(*rows, vectors))?;
                }
                Op::Own(Statement::CacheTrees { trees }) => {
                    writeln!(
                        f,
                        "  cacheTrees {trees}: nothing: a prefetch just before the walks costs more than it gives"
                    )?;
                }
                _ => {}
            }
        }
        if let Encoded::Tiled(tiles) = &self.nodes {
            writeln!(f, "  tiles: {tiles}")?;
        }
        if let Some(text) = self.engines.few_rows_text() {
            writeln!(f, "  fewer than {} rows: a row at a time, {text}", self.few_rows())?;
        }
        for (levels, blend) in self.engines.blends().map_or(&[][..], Blends::by_levels) {
            write!(f, "  blends: {} of {} trees", blend.count(), self.trees())?;
            match levels {
                &u32::MAX => writeln!(f)?,
                levels => {
                    writeln!(f, ", {levels} levels or the whole tree, {} to be walked on", blend.cut())?;
                }
            }
        }
        self.steps.iter().try_for_each(|s| super::block::write_step(f, s, 0))
    }
}

/// The number of a worker, from the index of each parallel loop on the way to it, outermost first.
pub fn worker(indices: impl IntoIterator<Item = u32>) -> u32 {
    indices.into_iter().fold(0, next_worker)
}

pub(super) fn next_worker(outer: u32, index: u32) -> u32 {
    outer.wrapping_mul(65_599).wrapping_add(index + 1)
}
