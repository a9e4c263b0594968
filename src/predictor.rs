//! The stand-alone way to run a forest on the CPU.

use std::{cell::RefCell, sync::Arc};

use rayon::prelude::*;

use crate::{
    check::{self, Check, Difference, SelfCheck, Strictness, Warning},
    cpu::{Engine, Engines, NamedPlan, Plans, Program, Row, Rows, Summing, TraceEntry},
    error::{Error, Result},
    forest::{CompareType, Forest, Profile, Transform},
    plan::{Lowered, Request, lower_with},
    schedule::{FewRows, Preset, Schedule},
    sum::Contract,
};

/// A forest ready to predict on the CPU: immutable, `Send + Sync`, no lock and no allocation beyond the output on the
/// way of a prediction (but for scratch that each thread keeps: margins where a row has more or fewer values, partial sums
/// where the schedule runs trees in parallel, totals where a sum is not in `f32`, slots where margins are the least or
/// largest leaf or the walks come in another order than the sum).
///
/// ```
/// use fangorn::{Predictor, import};
///
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
/// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
/// let predictor = Predictor::new(&forest)?;
/// let rows = vec![0.5f32; 2 * forest.features.len()];
/// let values = predictor.predict(&rows, forest.features.len())?;
/// assert_eq!(values.len(), 2);
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Predictor {
    /// Beside what the schedule says, for batches too small for that, the same loops on values and not on ranks.
    plans: Plans,
    contract: Contract,
    summing: Summing,
    leaf_width: usize,
    scale: f32,
    transform: Transform,
    /// The producer's number of the leaf with each slot.
    ids: Vec<u32>,
    /// Where threads come from, if not from rayon's own pool.
    pool: Option<Arc<rayon::ThreadPool>>,
    warnings: Vec<Warning>,
}

/// How a [`Predictor`] is made.
#[derive(Clone, Debug, Default)]
pub struct Options<'p> {
    /// How the forest is walked; the default of the CPU where it is `None`.
    pub schedule: Option<Schedule>,
    /// Worker threads: 1 keeps every prediction on the caller's, `None` takes those of the current rayon pool.
    pub threads: Option<usize>,
    /// What sums promise.
    pub sum: Contract,
    /// How many rows come to each leaf, for schedules that go by it.
    pub profile: Option<&'p Profile>,
    /// How much the predictor proves before it serves.
    pub check: SelfCheck,
    /// Which engines may be chosen.
    pub engines: Engines,
}

/// Whether rows of `f64` are predicted, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowTypes {
    Both,
    #[cfg_attr(not(feature = "burn"), allow(dead_code, reason = "burn's operators take no others"))]
    Singles,
}

/// What follows rows whose first one has this number.
type Tail<'a> = &'a (dyn Fn(usize, &mut [f32]) + Sync);

/// Work below this many rows is not worth waking threads for.
const ROWS_A_TASK: usize = 4096;

impl Predictor {
    /// Compiles a forest with the default schedule, for the threads of the current rayon pool.
    ///
    /// # Errors
    /// A forest that does not verify.
    pub fn new(forest: &Forest) -> Result<Self> {
        Self::with_schedule(forest, &Preset::Default.schedule(forest, false))
    }

    /// Compiles a forest with a schedule, for the threads of the current rayon pool.
    ///
    /// # Errors
    /// A forest that does not verify, a schedule whose directives contradict each other, or a layout that can't
    /// hold the forest.
    pub fn with_schedule(forest: &Forest, schedule: &Schedule) -> Result<Self> {
        Self::with_threads(forest, schedule, rayon::current_num_threads())
    }

    /// The same for a number of worker threads: 1 keeps every prediction on the caller's thread.
    ///
    /// # Errors
    /// As [`Predictor::with_schedule`].
    pub fn with_threads(forest: &Forest, schedule: &Schedule, threads: usize) -> Result<Self> {
        Self::with_sum(forest, schedule, threads, Contract::Any)
    }

    /// The same with what its sums are to promise, whatever the schedule: all margins and values keep to it.
    ///
    /// ```
    /// use fangorn::{Forest, Predictor, cpu::Rows, schedule::Preset, sum::Contract};
    ///
    /// let mut forest = Forest::builder(1, 1).base_score([1.0]);
    /// for value in [2f64.powi(-25); 4] {
    ///     forest.tree(0).leaf(0, &[value]);
    /// }
    /// let forest = forest.build()?;
    /// let schedule = Preset::Default.schedule(&forest, false);
    /// let exact = Predictor::with_sum(&forest, &schedule, 1, Contract::Exact)?;
    /// // Each leaf by itself is lost in an f32 sum from 1 on; together they are one unit in its last place.
    /// assert_eq!(exact.margins(&Rows::new(&[0.0f32], 1)?)?, [1.0 + f32::EPSILON]);
    /// # Ok::<(), fangorn::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Predictor::with_schedule`], or a forest that [`FixedPoint`](crate::sum::FixedPoint) can't hold.
    pub fn with_sum(
        forest: &Forest,
        schedule: &Schedule,
        threads: usize,
        contract: Contract,
    ) -> Result<Self> {
        Self::with_options(forest, &options(schedule, threads, contract))
    }

    /// The same by how many rows come to each leaf, which `tileNodes(n, probability)`, `tileNodes(n, hybrid)`,
    /// `peelWalk(v, 90%)` and `sort(likely_leaf)` go by.
    ///
    /// ```
    /// use fangorn::{Predictor, cpu::Rows, forest::Profile, import, schedule::Schedule, sum::Contract};
    ///
    /// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
    /// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
    /// let rows = vec![0.5f32; 3 * forest.features.len()]; // rows like those to come
    /// let rows = Rows::new(&rows, forest.features.len())?;
    /// let plain = Predictor::new(&forest)?;
    /// let mut profile = Profile::new(&forest);
    /// profile.count(&forest, &plain.slots(&rows)?)?;
    /// let schedule = Schedule::parse("tileNodes(8, probability)")?;
    /// let tiled = Predictor::with_profile(&forest, &schedule, 1, Contract::Any, &profile)?;
    /// assert_eq!(tiled.slots(&rows)?, plain.slots(&rows)?);
    /// # Ok::<(), fangorn::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Predictor::with_sum`], or a profile of another forest.
    pub fn with_profile(
        forest: &Forest,
        schedule: &Schedule,
        threads: usize,
        contract: Contract,
        profile: &Profile,
    ) -> Result<Self> {
        Self::with_options(
            forest,
            &Options { profile: Some(profile), ..options(schedule, threads, contract) },
        )
    }

    /// Compiles a forest as the options say.
    ///
    /// ```
    /// use fangorn::{Forest, Predictor, check::SelfCheck, predictor::Options};
    ///
    /// let mut forest = Forest::builder(1, 1);
    /// forest.tree(0).leaf(0, &[0.5]);
    /// let options = Options { threads: Some(1), check: SelfCheck::Full, ..Options::default() };
    /// let predictor = Predictor::with_options(&forest.build()?, &options)?;
    /// assert!(predictor.warnings().is_empty());
    /// # Ok::<(), fangorn::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Predictor::with_sum`] and [`Predictor::with_profile`]; [`Error::SelfCheck`] where neither the fast engines nor
    /// plain walks pass the check.
    pub fn with_options(forest: &Forest, options: &Options<'_>) -> Result<Self> {
        Self::proven(forest, options, RowTypes::Both)
    }

    /// For `f32` rows only, which keeps one set of nodes.
    #[cfg(feature = "burn")]
    pub(crate) fn for_singles(forest: &Forest, options: &Options<'_>) -> Result<Self> {
        Self::proven(forest, options, RowTypes::Singles)
    }

    /// A predictor that has passed its check: the one that was asked for, or plain walks.
    fn proven(forest: &Forest, options: &Options<'_>, types: RowTypes) -> Result<Self> {
        let strictness = Strictness::from_environment()?;
        Self::proven_by(forest, options, types, strictness, |made, check| made.checked(forest, check, types))
    }

    fn proven_by(
        forest: &Forest,
        options: &Options<'_>,
        types: RowTypes,
        strictness: Strictness,
        check: impl Fn(&Self, SelfCheck) -> Option<Difference>,
    ) -> Result<Self> {
        let made = Self::made(forest, options, types)?;
        let Some(extent) = strictness.of(options.check) else { return Ok(made) };
        let Some(difference) = check(&made, extent) else { return Ok(made) };
        let wrong = |difference| Error::SelfCheck { target: "cpu".into(), difference: Box::new(difference) };
        if strictness == Strictness::Strict {
            return Err(wrong(difference));
        }
        let schedule = Some(Schedule::default());
        let plain = Options { schedule, profile: None, engines: Engines::PLAIN, ..options.clone() };
        let mut plain = Self::made(forest, &plain, types)?;
        if let Some(difference) = check(&plain, extent) {
            return Err(wrong(difference));
        }
        let warning = Warning::FellBack { target: "cpu".into(), difference };
        log::warn!("fangorn: {warning}");
        plain.warnings.push(warning);
        Ok(plain)
    }

    /// The first difference from the reference interpreter.
    fn checked(&self, forest: &Forest, check: SelfCheck, types: RowTypes) -> Option<Difference> {
        let doubles = types == RowTypes::Both && forest.compare == CompareType::F64;
        let check = Check::new(forest, check);
        let mut ignored = |_, _| {};
        let found = check.run::<f32>(self, &mut ignored);
        found.or_else(|| doubles.then(|| check.run::<f64>(self, &mut ignored)).flatten())
    }

    /// Runs a self-check of any extent on it again, and gives the first difference from the reference interpreter. `progress` is
    /// told how many rounds are done, and of how many; a model that compares in `f64` is checked with `f64` rows after `f32` ones.
    pub fn check(
        &self,
        forest: &Forest,
        check: SelfCheck,
        mut progress: impl FnMut(usize, usize),
    ) -> Option<Difference> {
        let check = Check::new(forest, check);
        let found = check.run::<f32>(self, &mut progress);
        match forest.compare {
            CompareType::F64 => found.or_else(|| check.run::<f64>(self, &mut progress)),
            CompareType::F32 => found,
        }
    }

    /// The plans that it holds by the number of rows of a batch, the smallest batches first.
    pub fn plans(&self) -> Vec<NamedPlan<'_>> {
        self.plans.named()
    }

    /// The plan that runs a batch of so many rows.
    pub fn plan_for(&self, rows: usize) -> NamedPlan<'_> {
        let holds = |plan: &NamedPlan<'_>| plan.rows.contains(&rows.max(1));
        let mut plans = self.plans.named();
        let at = plans.iter().position(holds).unwrap_or(0);
        plans.swap_remove(at)
    }

    /// Whether a plan of it has this engine for a few rows.
    pub fn uses(&self, few_rows: FewRows) -> bool {
        self.plans.named().iter().any(|plan| plan.program.few_rows_engine() == few_rows)
    }

    /// How many visits of a batch's rows to trees each engine makes, for `f32` rows of zeros that follow each other. A row with
    /// missing values, or one of `f64`, may go by walks where an engine can't read it. Takes as long as the batch's visits, counted one
    /// by one: ask for a batch of some thousands of rows, which larger ones repeat.
    ///
    /// ```
    /// use fangorn::{
    ///     Forest, Predictor,
    ///     cpu::Engine,
    ///     forest::{Predicate, Real, Side},
    ///     schedule::{FewRows, Schedule},
    /// };
    ///
    /// let mut forest = Forest::builder(1, 1);
    /// let mut tree = forest.tree(0);
    /// tree.split(0, Predicate::Less { threshold: Real(0.5) }, Side::Left, 1, 2);
    /// tree.leaf(1, &[1.0]);
    /// tree.leaf(2, &[2.0]);
    /// let schedule = Schedule::new().reorder(["tree", "batch"]).few_rows(FewRows::Walk);
    /// let predictor = Predictor::with_threads(&forest.build()?, &schedule, 1)?;
    /// assert_eq!(predictor.engines(7)?, [(Engine::Walks, 7)]);
    /// # Ok::<(), fangorn::Error>(())
    /// ```
    ///
    /// # Errors
    /// More rows than there is memory for.
    pub fn engines(&self, rows: usize) -> Result<Vec<(Engine, u64)>> {
        let columns = self.plans.large().features();
        let zeros = room::<f32>(rows, columns)?;
        let zeros = Rows::strided(&zeros, [rows, columns], [columns, 1])?;
        self.on_threads(rows, || self.plans.of(rows).engines(&zeros))
    }

    /// The visit of each row to each tree, `rows x trees`, trees in the producer's order: a record of the run that makes the margins
    /// of these rows, added up by [`Contract::Any`]: see [`Program::trace`].
    ///
    /// # Errors
    /// As [`Predictor::predict`].
    pub fn trace<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<TraceEntry>> {
        let mut out = room(rows.len(), self.plans.large().trees())?;
        self.on_threads(rows.len(), || self.plans.of(rows.len()).trace(rows, &mut out))?;
        Ok(out)
    }

    /// What it has to say about itself: nothing, or that its self-check failed and slower code serves.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    fn made(forest: &Forest, options: &Options<'_>, types: RowTypes) -> Result<Self> {
        forest.verify()?;
        let default = || Preset::Default.schedule(forest, false);
        let schedule = options.schedule.clone().unwrap_or_else(default);
        let threads = options.threads.unwrap_or_else(rayon::current_num_threads).clamp(1, 1 << 16) as u32;
        let request = Request { threads, sum: options.sum, ..Request::cpu() };
        let lowered = lower_with(forest, &schedule, request, options.profile)?;
        let program = |lowered: &Lowered| {
            let program = Program::with_engines(forest, lowered, threads, options.engines)?;
            Ok::<_, Error>(if types == RowTypes::Both {
                program.with_doubles(forest, lowered)
            } else {
                program
            })
        };
        let many = program(&lowered)?;
        // Beside it the same loops on values where a few rows want those.
        let plans = match many.wants_many_rows() {
            true => {
                let unranked = lower_with(forest, &schedule.unranked(), request, options.profile)?;
                Plans::of_all(many).with_small(program(&unranked)?)
            }
            false => Plans::of_all(many),
        };
        let summing = Summing::new(options.sum, forest, &lowered, threads)?;
        Ok(Self { contract: options.sum, summing, ..Self::of_plans(forest, plans) })
    }

    fn of_plans(forest: &Forest, plans: Plans) -> Self {
        let mut ids = vec![0; forest.slots()];
        for tree in &forest.trees {
            for (node, id) in tree.nodes.iter().zip(&tree.ids) {
                if let Some(slot) = node.slot() {
                    ids[slot as usize] = *id;
                }
            }
        }
        let (scale, transform) = (forest.scale.0 as f32, forest.transform);
        let (contract, summing) = (Contract::Any, Summing::Any);
        let leaf_width = forest.leaf_width();
        let warnings = Vec::new();
        Self { plans, contract, summing, leaf_width, scale, transform, ids, pool: None, warnings }
    }

    /// The same on the threads of a pool of the caller's. A batch that keeps one thread only stays on the caller's.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use fangorn::{Predictor, cpu::Rows, import, schedule::Preset};
    ///
    /// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
    /// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
    /// let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build()?);
    /// let schedule = Preset::Default.schedule(&forest, false);
    /// let predictor = Predictor::with_threads(&forest, &schedule, 2)?.in_pool(pool);
    /// let rows = vec![0.5f32; 1000 * forest.features.len()];
    /// assert_eq!(predictor.margins(&Rows::new(&rows, forest.features.len())?)?.len(), 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn in_pool(self, pool: Arc<rayon::ThreadPool>) -> Self {
        Self { pool: Some(pool), ..self }
    }

    /// Runs what predicts so many rows, on the pool if it wants more threads than one.
    fn on_threads<R: Send>(&self, rows: usize, f: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) if self.plans.of(rows).wakes(rows) => pool.install(f),
            _ => f(),
        }
    }

    /// The program that runs the largest batches.
    pub fn program(&self) -> &Program {
        self.plans.large()
    }

    /// What its sums promise.
    pub fn contract(&self) -> Contract {
        self.contract
    }

    /// Values a row gives ([`Transform::width`]).
    pub fn width(&self) -> usize {
        self.transform.width(self.plans.large().outputs())
    }

    /// Values of contiguous rows of `features` columns: `rows x width`, what the producer's own predict returns.
    ///
    /// Rows are `f32` or `f64`. Values are cast as the producer casts them before they are compared: `f64` rows decide
    /// in `f64` where it does.
    ///
    /// # Errors
    /// Rows with another number of columns than the forest has features, or results that there is no memory for.
    pub fn predict<T: Row>(&self, rows: &[T], features: usize) -> Result<Vec<f32>> {
        self.values(&Rows::new(rows, features)?)
    }

    /// The same of any rows: `rows x width`.
    ///
    /// # Errors
    /// As [`Predictor::predict`].
    pub fn values<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<f32>> {
        let mut out = room(rows.len(), self.width())?;
        self.predict_into(rows, &mut out)?;
        Ok(out)
    }

    /// Writes the values of any rows into `out`, `rows x width`.
    ///
    /// # Errors
    /// Rows with another number of columns than the forest has features, or `out` of another length.
    pub fn predict_into<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [f32]) -> Result<()> {
        self.on_threads(rows.len(), || self.values_by(rows, self.plans.large().leaves(), out))
    }

    /// The same with other leaf values, by slot, where sums may be in any order; a stricter contract is about the forest's
    /// own leaves.
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    pub(crate) fn values_of(&self, rows: &Rows<'_>, leaves: &[f32], out: &mut [f32]) -> Result<()> {
        self.values_by(rows, self.promised(leaves), out)
    }

    /// Margins, as [`Predictor::values_of`].
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    pub(crate) fn margins_of(&self, rows: &Rows<'_>, leaves: &[f32], out: &mut [f32]) -> Result<()> {
        self.plans.of(rows.len()).margins_by(&self.summing, rows, self.promised(leaves), out)
    }

    /// Margins or values, as [`Predictor::values_of`], and `tail` on each block of rows of them, which is told its first row.
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    pub(crate) fn then_of(
        &self,
        rows: &Rows<'_>,
        leaves: &[f32],
        values: bool,
        tail: Tail<'_>,
        out: &mut [f32],
    ) -> Result<()> {
        self.ended_by(rows, self.promised(leaves), values, Some(tail), out)
    }

    /// The leaves that the contract is about, where these are handed over.
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    fn promised<'a>(&'a self, leaves: &'a [f32]) -> &'a [f32] {
        if self.contract == Contract::Any { leaves } else { self.plans.large().leaves() }
    }

    fn values_by<T: Row>(&self, rows: &Rows<'_, T>, leaves: &[f32], out: &mut [f32]) -> Result<()> {
        self.ended_by(rows, leaves, true, None, out)
    }

    fn ended_by<T: Row>(
        &self,
        rows: &Rows<'_, T>,
        leaves: &[f32],
        values: bool,
        tail: Option<Tail<'_>>,
        out: &mut [f32],
    ) -> Result<()> {
        let outputs = self.plans.large().outputs();
        let width = if values { self.width() } else { outputs };
        if rows.len().checked_mul(width) != Some(out.len()) {
            return Err(Error::Rows(format!(
                "room for {} values, {} rows need {}",
                out.len(),
                rows.len(),
                rows.len().saturating_mul(width)
            )));
        }
        if width == outputs {
            self.plans.of(rows.len()).margins_by(&self.summing, rows, leaves, out)?;
            self.end_in_place(out, outputs, values, tail);
            return Ok(());
        }
        // The margins of a row are more or fewer than its values: they stand in scratch that the thread keeps.
        thread_local!(static MARGINS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) });
        let mut margins = MARGINS.with(RefCell::take);
        let needed = rows
            .len()
            .checked_mul(outputs)
            .filter(|needed| margins.try_reserve_exact(needed.saturating_sub(margins.len())).is_ok());
        margins.resize(needed.ok_or_else(|| no_room(rows.len(), outputs))?, 0.0);
        let done = self.plans.of(rows.len()).margins_by(&self.summing, rows, leaves, &mut margins);
        let task = |(block, (margins, values)): (usize, (&mut [f32], &mut [f32]))| {
            self.scale(margins);
            let rows = margins.chunks_exact(outputs).zip(values.chunks_exact_mut(width));
            rows.for_each(|(margins, values)| self.transform.apply(margins, values));
            if let Some(tail) = tail {
                tail(block * ROWS_A_TASK, values);
            }
        };
        let (of_margins, of_values) = (ROWS_A_TASK * outputs, ROWS_A_TASK * width);
        match self.in_tasks(rows.len()) {
            true => {
                let blocks = margins.par_chunks_mut(of_margins).zip(out.par_chunks_mut(of_values));
                blocks.enumerate().for_each(task);
            }
            false => margins.chunks_mut(of_margins).zip(out.chunks_mut(of_values)).enumerate().for_each(task),
        }
        MARGINS.with(|m| m.replace(margins));
        done
    }

    /// Whether rows are worth more than one thread after their sums.
    fn in_tasks(&self, rows: usize) -> bool {
        rows > ROWS_A_TASK && self.plans.large().threads() > 1
    }

    fn end_in_place(&self, out: &mut [f32], outputs: usize, values: bool, tail: Option<Tail<'_>>) {
        let transforms = values && (self.transform != Transform::Identity || self.scale != 1.0);
        if !transforms && tail.is_none() {
            return;
        }
        let task = |(block, rows): (usize, &mut [f32])| {
            if transforms {
                self.scale(rows);
                rows.chunks_exact_mut(outputs).for_each(|row| self.transform.apply_in_place(row));
            }
            if let Some(tail) = tail {
                tail(block * ROWS_A_TASK, rows);
            }
        };
        match self.in_tasks(out.len() / outputs) {
            true => out.par_chunks_mut(ROWS_A_TASK * outputs).enumerate().for_each(task),
            false => out.chunks_mut(ROWS_A_TASK * outputs).enumerate().for_each(task),
        }
    }

    fn scale(&self, margins: &mut [f32]) {
        if self.scale != 1.0 {
            margins.iter_mut().for_each(|m| *m *= self.scale);
        }
    }

    /// Writes raw margins into `out`, `rows x outputs`.
    ///
    /// # Errors
    /// As [`Predictor::predict_into`].
    pub fn margins_into<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [f32]) -> Result<()> {
        self.on_threads(rows.len(), || {
            self.plans.of(rows.len()).margins_by(&self.summing, rows, self.plans.large().leaves(), out)
        })
    }

    /// Raw margins, `rows x outputs`.
    ///
    /// # Errors
    /// As [`Predictor::predict`].
    pub fn margins<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<f32>> {
        let mut out = room(rows.len(), self.plans.large().outputs())?;
        self.margins_into(rows, &mut out)?;
        Ok(out)
    }

    /// The producer's number of the leaf that each row reaches in each tree, `rows x trees`, trees in its order.
    ///
    /// # Errors
    /// As [`Predictor::predict`].
    pub fn leaves<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<u32>> {
        let mut out = self.slots(rows)?;
        out.iter_mut().for_each(|slot| *slot = self.ids[*slot as usize]);
        Ok(out)
    }

    /// The leaf slot that each row reaches in each tree, `rows x trees`.
    ///
    /// # Errors
    /// As [`Predictor::predict`].
    pub fn slots<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<u32>> {
        let mut out = room(rows.len(), self.plans.large().trees())?;
        self.on_threads(rows.len(), || self.plans.of(rows.len()).slots(rows, &mut out))?;
        Ok(out)
    }

    /// What each tree adds, `rows x trees x leaf width`.
    ///
    /// # Errors
    /// As [`Predictor::predict`].
    pub fn tree_values<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<f32>> {
        let slots = self.slots(rows)?;
        let width = self.leaf_width;
        let mut out = room(slots.len(), width)?;
        for (slot, out) in slots.into_iter().zip(out.chunks_exact_mut(width)) {
            out.copy_from_slice(&self.plans.large().leaves()[slot as usize * width..][..width]);
        }
        Ok(out)
    }
}

/// Room for so many results of each row.
fn room<T: Clone + Default>(rows: usize, width: usize) -> Result<Vec<T>> {
    /// Fewer are asked for without a question.
    const SURE: usize = 1 << 20;
    match rows.checked_mul(width) {
        // Memory that comes as zeros is first written by whoever computes it, so it is not filled here.
        Some(count) if count < SURE || Vec::<T>::new().try_reserve_exact(count).is_ok() => {
            Ok(vec![T::default(); count])
        }
        _ => Err(no_room(rows, width)),
    }
}

fn no_room(rows: usize, width: usize) -> Error {
    let what = format!("{rows} rows of {width} results each are more than there is memory for");
    Error::Rows(format!("{what}; predict fewer rows at a time"))
}

/// The options that several constructors name.
fn options(schedule: &Schedule, threads: usize, sum: Contract) -> Options<'static> {
    Options { schedule: Some(schedule.clone()), threads: Some(threads), sum, ..Options::default() }
}

impl<T: Row> check::Runner<T> for Predictor {
    fn slots(&self, rows: &[T]) -> Option<check::Found<u32>> {
        let rows = Rows::new(rows, self.plans.large().features());
        Some(rows.and_then(|rows| Self::slots(self, &rows)).map_err(Into::into))
    }

    fn margins(&self, rows: &[T]) -> Option<check::Found<f32>> {
        let rows = Rows::new(rows, self.plans.large().features());
        Some(rows.and_then(|rows| Self::margins(self, &rows)).map_err(Into::into))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::Finding,
        forest::{Predicate, Real, Side},
    };

    fn forest() -> Forest {
        let mut builder = Forest::builder(2, 1);
        for t in 0..20 {
            let mut tree = builder.tree(0);
            tree.split(t % 2, Predicate::Less { threshold: Real(f64::from(t)) }, Side::Left, 1, 2);
            tree.leaf(1, &[1.0]);
            tree.leaf(2, &[-0.5]);
        }
        builder.build().expect("stumps")
    }

    fn wrong() -> Difference {
        let what = Finding::Leaf { tree: 3, found: 1, expected: 0 };
        Difference { batch: 145, row: 64, values: vec![0.5, 1.0], what }
    }

    #[test]
    fn plain_walks_serve_where_the_fast_engine_is_wrong() {
        let forest = forest();
        let plain = |p: &Predictor| p.program().vector_name().is_empty() && p.plans().len() == 1;
        let check = |made: &Predictor, extent| {
            if plain(made) { made.checked(&forest, extent, RowTypes::Both) } else { Some(wrong()) }
        };
        let made = |strictness, options: &Options<'_>| {
            Predictor::proven_by(&forest, options, RowTypes::Both, strictness, check)
        };
        let options = Options::default();
        let fast = Predictor::made(&forest, &options, RowTypes::Both).expect("a predictor");
        if plain(&fast) {
            // This machine has nothing faster.
            return;
        }
        let found = made(Strictness::FallBack, &options).expect("plain walks");
        let warning = Warning::FellBack { target: "cpu".into(), difference: wrong() };
        assert_eq!(found.warnings(), std::slice::from_ref(&warning));
        let text = warning.to_string();
        assert!(
            text.contains("row 64 of 145: leaf slot 1 in tree 3") && text.contains("plain walks serve"),
            "{text}"
        );
        assert_eq!(
            found.predict(&[3.0f32, 2.5], 2).expect("a row"),
            fast.predict(&[3.0f32, 2.5], 2).expect("a row")
        );
        let refused = made(Strictness::Strict, &options).expect_err("a difference is an error");
        assert!(refused.to_string().starts_with("self-check on cpu: row 64 of 145"), "{refused}");
        assert!(made(Strictness::Off, &options).expect("unchecked").warnings().is_empty());
        let off = Options { check: SelfCheck::Off, ..Options::default() };
        assert!(made(Strictness::Strict, &off).expect("unchecked").warnings().is_empty());
    }

    #[test]
    fn nothing_serves_where_plain_walks_are_wrong_too() {
        let check = |_: &Predictor, _| Some(wrong());
        let made =
            Predictor::proven_by(&forest(), &Options::default(), RowTypes::Both, Strictness::FallBack, check);
        assert!(matches!(made, Err(Error::SelfCheck { .. })));
    }
}
