//! A compiled plan and how it runs.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::isa::{Isa, isa};
use super::{
    block::{BlocksByTree, Instruction, instructions},
    cached::UsedColumns,
    emit::{Emission, LeafSlots},
    encoded::EncodedNodes,
    engine::{
        EngineRequest, Trees,
        blend::Blends,
        vectors::{Vectors, top_levels},
        walk::Shape,
    },
    engines::Engines,
    ranking::{Ranked, Ranker, ranked},
    rows::{Row, Rows, RowsOfType, with_rows},
    run::Run,
    select::EngineSet,
    sink::SharedBuffer,
};
use crate::{
    cost::{Machine, ROW_BLOCK, TASKS_A_THREAD},
    error::{Error, Result},
    forest::{Aggregate, CompareType, Forest, Targets},
    parallel,
    plan::{
        Dim, Extents, LoweredForest, Map, Note, Op, Plan, RowType, Value,
        cpu::{CopyDim, Cpu, Parallel, Statement},
    },
    schedule::FewRows,
};

/// Largest number of sizes that a plan may leave to run time.
pub(super) const MOST_SLOTS: usize = 64;

/// A forest and a schedule, compiled for the CPU. It is immutable and `Sync`. A run takes no lock and
/// allocates nothing but scratch that each thread keeps: partial sums, copies of cached rows, and slots if
/// margins are the least or largest leaf.
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) plan: Plan<Cpu>,
    notes: Vec<Note>,
    pub(super) instructions: Vec<Instruction>,
    pub(super) nodes: EncodedNodes<f32>,
    pub(super) compare: CompareType,
    /// The nodes for `f64` rows, if the forest compares in `f64` and [`Program::with_doubles`] was called.
    pub(super) wide: Option<EncodedNodes<f64>>,
    pub(super) aggregate: Aggregate,
    /// The leaf slot at each address.
    pub(super) slots: Vec<u32>,
    /// The producer's index of the tree at each position.
    pub(super) order: Vec<u32>,
    /// The output of the tree at each position; `None` if leaves are vectors.
    pub(super) targets: Option<Vec<u32>>,
    pub(super) base: Vec<f32>,
    /// A zero for each output.
    pub(super) zero_base: Vec<f32>,
    /// The forest's leaf values, by slot.
    pub(super) leaves: Vec<f32>,
    /// Columns of a row as the caller hands it over.
    pub(super) features: usize,
    /// Ranks rows before the run walks them, if the schedule asks for ranks.
    pub(super) ranker: Option<Ranker>,
    /// The engines that run blocks of rows and trees.
    pub(super) engines: EngineSet,
    /// The columns that the trees read.
    pub(super) used: UsedColumns,
    /// Whether instructions were made for kernels that walk in vectors, which read copies of rows.
    for_vectors: bool,
    pub(super) threads: u32,
    /// Whether a parallel loop stands inside a serial one, so that a run starts it several times.
    parallel_inside: bool,
    /// Rows of an iteration of the plan's parallel loop. `None` unless there is exactly one such loop and it
    /// goes over rows.
    rows_a_task: Option<u32>,
}

impl Program {
    /// Makes the program of a forest that was lowered for the CPU. `forest` is the one that was lowered.
    ///
    /// # Errors
    /// The forest does not [verify](Forest::verify), the plan is for another target or has more than 64
    /// run-time sizes, or [`ISA`](crate::cpu::ISA) or [`GATHERS`](crate::cpu::GATHERS) has a value that means
    /// nothing on this machine.
    pub fn new(forest: &Forest, lowered: &LoweredForest, threads: u32) -> Result<Self> {
        forest.verify()?;
        Self::of_verified(forest, lowered, threads, Engines::default())
    }

    /// Like [`Self::new`], but for a forest that the caller has verified, and with no other engines than
    /// `engines` allows. An engine for a few rows that the schedule asks for is left out if it can't serve
    /// the forest or the machine: [`Program::few_rows_engine`] says which engine there is.
    pub(crate) fn of_verified(
        forest: &Forest,
        lowered: &LoweredForest,
        threads: u32,
        engines: Engines,
    ) -> Result<Self> {
        crate::isa::check()?;
        let mut plan = lowered.cpu_plan()?.clone();
        if plan.rows != RowType::F32 && lowered.ranks().is_none() {
            let what = "a program of the CPU reads f32 and f64 rows, and ranks them itself if the schedule says \
                        ranks(…); leave Request::rows at RowType::F32";
            return Err(Error::Device(what.into()));
        }
        if plan.sizes.len() > MOST_SLOTS {
            let remedy = format!(
                "{} sizes that only a call knows, at most {MOST_SLOTS}; write more of them as numbers",
                plan.sizes.len()
            );
            return Err(crate::schedule::ScheduleError::whole(remedy).into());
        }
        let features = forest.features.len();
        let forest = lowered.walked_forest(forest);
        let packed = lowered.packed();
        let targets = match &forest.targets {
            Targets::One(outputs) => Some(lowered.order().iter().map(|t| outputs[*t as usize]).collect()),
            Targets::All => None,
        };
        let vectors = Vectors::can_serve(&plan, features, engines.scalar);
        let used = UsedColumns::new(forest);
        let instructions = instructions(&plan.body, &used, vectors);
        let values = plan.rows == RowType::F32 && lowered.ranks().is_none();
        let tops = if vectors { top_levels() } else { 0 };
        let nodes = EncodedNodes::new(forest, packed).for_vectors(tops, plan.rows);
        let ranker = lowered.ranks().map(|ranks| Ranker::by(ranks, engines.ranking));
        let rows_a_task = rows_a_task(&plan);
        let program_engines = EngineSet::build(&EngineRequest {
            plan: &plan,
            forest,
            packed,
            order: lowered.order(),
            nodes: &nodes,
            ranked: lowered.ranks().map(|ranks| ranks.rank_columns()).unwrap_or_default(),
            rows_a_task,
            values,
            blocks: BlocksByTree::new(&instructions, lowered.order().len()),
            by: if engines.scalar { FewRows::Walk } else { plan.own.few_rows },
            scalar: engines.scalar,
        });
        let mut notes = lowered.notes().to_vec();
        let (asked, few_rows) = (plan.own.few_rows, program_engines.few_rows_engine());
        let is_missing = asked != few_rows && !matches!(asked, FewRows::Auto | FewRows::Rows | FewRows::Walk);
        // A plan that blends serves many rows. Its `fewRows` is for the plan of small batches.
        if is_missing && !engines.scalar && program_engines.blends().is_none() {
            let instead = if few_rows == FewRows::Rows { "one after the other" } else { "like many rows" };
            notes.push(Note {
                directive: format!("fewRows({})", asked.name()),
                fallback: format!(
                    "it can't serve this plan on this machine, so a few rows are walked {instead}"
                ),
            });
        }
        plan.own.few_rows = few_rows;
        plan.own.few_rows_end = (few_rows != FewRows::Walk).then(|| program_engines.few_rows() as u32);
        plan.own.many_rows = Some(program_engines.many_rows());
        Ok(Self {
            engines: program_engines,
            instructions,
            used,
            for_vectors: vectors,
            nodes,
            compare: forest.compare,
            wide: None,
            aggregate: forest.aggregate,
            slots: packed.slots(),
            order: lowered.order().to_vec(),
            targets,
            zero_base: vec![0.0; forest.base_score.len()],
            base: forest.base_score.iter().map(|b| b.0 as f32).collect(),
            leaves: forest.leaf_values.iter().map(|v| v.0 as f32).collect(),
            features,
            ranker,
            threads,
            parallel_inside: parallel_inside(&plan.body, false),
            rows_a_task,
            plan,
            notes,
        })
    }

    /// Makes the program serve `f64` rows, too. If the forest compares in `f64`, they get nodes of their own.
    #[must_use]
    pub fn with_doubles(mut self, forest: &Forest, lowered: &LoweredForest) -> Self {
        self.wide = (self.compare == CompareType::F64).then(|| EncodedNodes::new(forest, lowered.packed()));
        self
    }

    /// Returns the trees as engines walk them.
    pub(super) fn nodes_of_trees(&self) -> Trees<'_> {
        Trees {
            nodes: &self.nodes,
            wide: self.wide.as_ref(),
            questions: self.plan.questions,
            addresses: self.slots.len(),
        }
    }

    /// Returns what ranks rows, if the plan reads ranks.
    pub(crate) fn ranker(&self) -> Option<&Ranker> {
        self.ranker.as_ref()
    }

    /// Returns whether rows become ranks window by window, and not as a whole before the run.
    pub(crate) fn ranks_in_windows(&self) -> bool {
        self.engines.blends().is_some()
    }

    /// Returns whether blends evaluate trees for so many rows in blocks of this shape.
    pub(super) fn blends(&self, shape: Shape, rows: usize) -> bool {
        self.engines.blends().is_some_and(|blends| rows >= blends.from() && blends.of(shape).is_some())
    }

    /// Returns the number of rows from which on a block no longer goes through the engine for a few rows.
    pub(crate) fn few_rows(&self) -> usize {
        self.engines.few_rows()
    }

    /// Returns whether batches of `few` and of `many` rows run through the same engines.
    pub(crate) fn same_engines(&self, few: usize, many: usize) -> bool {
        (few < self.few_rows()) == (many < self.few_rows())
    }

    /// Returns the number of rows, at most those of a row block, from which on `many` serves batches faster.
    pub(crate) fn slower_from(&self, many: &Self) -> usize {
        self.engines.slower_from(&many.engines)
    }

    /// Returns about how many seconds a batch of `rows` rows takes on one thread.
    pub(crate) fn seconds(&self, rows: usize) -> f64 {
        self.engines.seconds(rows)
    }

    /// Returns whether a batch of `rows` rows keeps more than one thread busy.
    pub(crate) fn uses_several_threads(&self, rows: usize) -> bool {
        let tasks = self.rows_a_task.is_none_or(|of_task| rows > of_task as usize);
        self.threads > 1 && (tasks || self.shares(rows) > 1 || self.rows_of_part(rows).is_some())
    }

    /// Returns the rows of a task, if the plan puts rows on several threads and a batch of `rows` rows has so few tasks
    /// that some threads may have much less to do than others.
    fn rows_of_few_tasks(&self, rows: usize) -> Option<usize> {
        // A plan with partial sums divides its trees among threads itself.
        let divides = self.threads > 1 && self.plan.own.partials.is_empty();
        let of_task = self.rows_a_task.filter(|rows| divides && *rows > 0)? as usize;
        (rows.div_ceil(of_task) < TASKS_A_THREAD * self.threads as usize).then_some(of_task)
    }

    /// Returns how many threads a batch is worth.
    fn worth(&self, rows: usize) -> usize {
        ((self.engines.seconds(rows) / Machine::here().thread) as usize).min(self.threads as usize)
    }

    /// Returns the number of shares into which a batch's trees are divided among threads. It is more than 1 if the
    /// batch is one task, is worth more threads, and would take longer in parts of its rows.
    pub(super) fn shares(&self, rows: usize) -> usize {
        if self.rows_of_few_tasks(rows).is_none_or(|of_task| rows > of_task) {
            return 1;
        }
        let shares = self.worth(rows).min(self.trees());
        let by_rows = || {
            let parts = self.engines.parts(self.rows_of_part(rows)?);
            Some(parts.of_rows + parts.of_trees)
        };
        let by_trees = || {
            let parts = self.engines.parts(rows);
            parts.of_rows + parts.of_trees / shares as f64
        };
        if shares <= 1 || by_rows().is_some_and(|by_rows| by_rows < by_trees()) { 1 } else { shares }
    }

    /// Returns the number of rows of each part into which a batch is divided among threads: whole row blocks. `None` if
    /// a thread has no more to do by the plan's own tasks.
    pub(super) fn rows_of_part(&self, rows: usize) -> Option<usize> {
        let of_task = self.rows_of_few_tasks(rows)?;
        let of_thread = (rows.div_ceil(of_task).div_ceil(self.threads as usize) * of_task).min(rows);
        let each = |parts: usize| rows.div_ceil(parts).next_multiple_of(ROW_BLOCK);
        // A part begins where a row block of the plan does. What the batch is worth takes the longest to find out.
        let may_pay = of_task.is_multiple_of(ROW_BLOCK) && each(self.threads as usize) < of_thread;
        let worth = if may_pay { self.worth(rows) } else { 0 };
        Some(each(worth.max(1))).filter(|each| worth > 1 && *each < of_thread)
    }

    /// Returns the positions of the trees of share `k` of `shares`.
    pub(super) fn share(&self, k: usize, shares: usize) -> std::ops::Range<usize> {
        let each = self.trees().div_ceil(shares);
        (k * each).min(self.trees())..self.trees().min((k + 1) * each)
    }

    /// Returns whether the program has blends, which a few rows don't fill.
    pub(crate) fn wants_many_rows(&self) -> bool {
        self.ranks_in_windows()
    }

    /// Returns the forest's leaf values, by slot. [`Program::margins`] is fastest with these values.
    pub fn leaves(&self) -> &[f32] {
        &self.leaves
    }

    /// Returns notes on the directives that were not carried out as written.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Returns the plan that the program runs.
    pub fn plan(&self) -> &Plan<Cpu> {
        &self.plan
    }

    /// Returns the number of trees of the forest.
    pub fn trees(&self) -> usize {
        self.order.len()
    }

    /// Returns the number of columns of a row.
    pub(crate) fn features(&self) -> usize {
        self.features
    }

    /// Returns the number of worker threads that the program was made for.
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// Returns the number of outputs of a row.
    pub fn outputs(&self) -> usize {
        self.base.len()
    }

    /// Returns the instruction set of the program's vector kernels, such as `avx512`. It is empty if the
    /// program has none on this machine.
    pub fn vector_name(&self) -> &'static str {
        #[cfg(target_arch = "x86_64")]
        if self.engines.has_vector_kernels() {
            match isa() {
                Isa::Avx512 => return "avx512",
                Isa::Avx2 => return "avx2",
                // Neither set is one of this architecture.
                Isa::Neon | Isa::Portable => {}
            }
        }
        // The NEON kernels are those of blends, on ranks.
        #[cfg(target_arch = "aarch64")]
        if isa() == Isa::Neon && self.ranks_in_windows() {
            return "neon";
        }
        ""
    }

    /// Returns the size in bytes of the nodes, the slots and the engines' tables.
    pub fn node_bytes(&self) -> usize {
        self.engines.bytes()
            + self.nodes.bytes()
            + self.wide.as_ref().map_or(0, EncodedNodes::bytes)
            + size_of_val(&self.slots[..])
    }

    /// Returns the engine that serves a few rows.
    pub fn few_rows_engine(&self) -> FewRows {
        self.engines.few_rows_engine()
    }

    /// Writes `rows x trees` leaf slots, trees in the producer's order.
    ///
    /// # Errors
    /// `rows` or `out` has another shape than the forest needs.
    pub fn slots<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [u32]) -> Result<()> {
        self.slots_of_type(rows.of_type(), out)
    }

    fn slots_of_type(&self, rows: RowsOfType<'_, '_>, out: &mut [u32]) -> Result<()> {
        with_rows!(rows, rows => self.slots_of(rows, out))
    }

    fn slots_of<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [u32]) -> Result<()> {
        self.check(rows, out.len(), self.trees())?;
        self.rank_and_run(rows, 1, LeafSlots(SharedBuffer::new(out)))
    }

    /// Runs the rows, with the trees divided among threads in `shares` shares. If walks read ranks, it ranks
    /// the rows first, unless the run ranks them window by window.
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
        parallel::each(shares as u32, &|k| {
            self.run_trees(rows, at, into.of_share(k), self.share(k as usize, shares));
        });
    }

    pub(super) fn check<T: Row>(&self, rows: &Rows<'_, T>, out: usize, width: usize) -> Result<()> {
        if rows.columns() != self.features {
            return Err(Error::Columns { found: rows.columns(), expected: self.features });
        }
        // The unchecked loads of engines that read rows rely on this.
        if !rows.are_a_matrix() && !self.ranks_in_windows() {
            return Err(Error::Rows(
                "rows that are ranked, for a program that reads them; give a matrix".into(),
            ));
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

    /// Like [`Self::run`], but only through the trees at these positions.
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
        if let Some(each) = self.rows_of_part(rows.len()).filter(|_| trees.len() == self.trees()) {
            let part = |k: u32| {
                let first = k as usize * each;
                let own = first..rows.len().min(first + each);
                let at = self.extents(own.len());
                Run::new(self, rows, at, into.of_share(k)).of_rows(own).all();
            };
            return parallel::each(rows.len().div_ceil(each) as u32, &part);
        }
        let run = Run::new(self, rows, at, into).of_trees(trees);
        // Started from outside the pool, each iteration of the serial loop would wake the pool anew.
        if self.parallel_inside && self.threads > 1 && rayon::current_thread_index().is_none() {
            parallel::inside(&mut || run.all());
        } else {
            run.all();
        }
    }
}

/// Returns the rows of an iteration of the plan's parallel loop. `None` unless there is exactly one such loop
/// and it goes over rows.
fn rows_a_task(plan: &Plan<Cpu>) -> Option<u32> {
    let parallel = plan.ops().into_iter().filter_map(|op| match op {
        Op::Loop(l) if l.map == Map::Own(Parallel) => Some(l),
        _ => None,
    });
    let mut tasks = parallel.map(|l| match (l.dim, l.range.stride) {
        (Dim::Batch, Value::Const(rows)) => Some(rows),
        _ => None,
    });
    match (tasks.next(), tasks.next()) {
        (Some(rows), None) => rows,
        _ => None,
    }
}

/// Returns whether a parallel loop stands inside a serial one.
fn parallel_inside(ops: &[Op<Cpu>], serial: bool) -> bool {
    ops.iter().any(|op| match op {
        Op::Loop(l) if l.map == Map::Own(Parallel) => serial || parallel_inside(&l.body, serial),
        Op::Loop(l) => parallel_inside(&l.body, true),
        op => op.bodies().into_iter().any(|body| parallel_inside(body, serial)),
    })
}

impl std::fmt::Display for Program {
    /// Writes the program as it runs: loops, and the micro-kernels that blocks call.
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
        for op in self.plan.ops() {
            match op {
                Op::Own(Statement::CacheRows { rows }) if self.ranks_in_windows() => {
                    let columns = self.ranker.as_ref().map_or(0, |ranker| ranker.shape().1);
                    writeln!(f, "  cacheRows {rows}: ranks in {columns} columns")?;
                }
                Op::Own(Statement::CacheRows { rows }) => {
                    writeln!(
                        f,
                        "  cacheRows {rows}: {}",
                        self.used.text(*rows, self.for_vectors, self.few_rows())
                    )?;
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
        if let EncodedNodes::Tiled(tiles) = &self.nodes {
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
        self.instructions.iter().try_for_each(|i| super::block::write_instruction(f, i, 0))
    }
}

/// Returns the number of a worker, from the index of each parallel loop around it, outermost first.
pub fn worker(indices: impl IntoIterator<Item = u32>) -> u32 {
    indices.into_iter().fold(0, next_worker)
}

pub(super) fn next_worker(outer: u32, index: u32) -> u32 {
    outer.wrapping_mul(65_599).wrapping_add(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        forest::{CompareType, Side},
        plan::{Request, lower},
        schedule::Schedule,
    };

    fn program(text: &str, request: Request) -> Result<Program> {
        let mut forest = Forest::builder(3, 1);
        for t in 0..100u32 {
            let mut tree = forest.tree(0);
            tree.split(t % 3, CompareType::F32.less(f64::from(t)), Side::Left, 1, 2);
            tree.leaf(1, &[1.0]);
            tree.leaf(2, &[2.0]);
        }
        let forest = forest.build().expect("stumps");
        let lowered = lower(&forest, &Schedule::parse(text).expect("a schedule"), request).expect("lowered");
        Program::new(&forest, &lowered, 1)
    }

    #[test]
    fn batches_below_the_bound_run_other_engines() {
        let text = "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\nlayout(sparse)\nfewRows(full)";
        let program = program(text, Request::cpu()).expect("a program");
        let bound = program.few_rows();
        assert!(bound > 2, "{bound}");
        assert!(program.same_engines(bound - 2, bound - 1) && program.same_engines(bound, 4096));
        assert!(!program.same_engines(bound - 1, bound));
    }

    #[test]
    fn rows_of_other_types_are_refused() {
        for rows in [RowType::U8, RowType::U16, RowType::F16, RowType::BF16] {
            let refused =
                program("", Request { rows, ..Request::cpu() }).expect_err("other rows").to_string();
            assert!(refused.contains("RowType::F32"), "{refused}");
        }
        assert!(program("ranks(u8)", Request::cpu()).is_ok());
    }
}
