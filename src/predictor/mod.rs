//! Runs a forest on the CPU by itself, without a tensor library.

mod blocks;
mod builder;
mod classes;
mod columns;
mod explained;
mod sparse;

use std::{cell::RefCell, sync::Arc};

use crate::{
    check::{self, Check, Difference, SelfCheck, Warning},
    contributions::RowExplainer,
    cost::Machine,
    cpu::{Engine, NamedPlan, Plans, Program, Row, Rows, SumMethod, TraceEntry, prefer_large_pages},
    error::{Error, Result},
    forest::{CompareType, Forest, Transform},
    parallel,
    schedule::FewRows,
    sum::Contract,
};

pub use builder::PredictorBuilder;
pub(crate) use classes::ClassDecision;

/// A forest ready to predict on the CPU. It is immutable and `Send + Sync`. A prediction takes no lock and
/// allocates nothing but its output and scratch that each thread keeps. The scratch holds margins if a row has
/// more or fewer values than margins, partial sums if the schedule runs trees in parallel, totals if sums are not
/// in `f32`, and leaf slots if a margin is the least or largest leaf value or if the walks come in another order
/// than the sum.
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
    /// The program that the schedule asks for. For batches that are too small for ranks there may be a second
    /// program, with the same loops on values.
    plans: Plans,
    sum: Contract,
    summing: SumMethod,
    leaf_width: usize,
    scale: f32,
    transform: Transform,
    /// The type in which the producer compares.
    compare: CompareType,
    /// The columns that some tree reads, in ascending order.
    used: Vec<u32>,
    /// The leaf id of each leaf slot.
    ids: Vec<u32>,
    /// The pool that runs large batches; `None` for the current rayon pool of each call.
    pool: Option<Arc<rayon::ThreadPool>>,
    /// What explains rows, if the builder was given it.
    explainer: Option<RowExplainer>,
    warnings: Vec<Warning>,
}

/// The epilogue of a row block. It takes the index of the row block's first row, and the row block's results to
/// change.
type Epilogue<'a> = &'a (dyn Fn(usize, &mut [f32]) + Sync);

/// The types of rows that a predictor takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowTypes {
    /// Both `f32` and `f64` rows.
    Both,
    /// Only `f32` rows.
    #[cfg_attr(not(feature = "burn"), allow(dead_code, reason = "only burn's operators ask for it"))]
    Singles,
}

impl Predictor {
    /// Compiles a forest with the CPU's default schedule, for the threads of the current rayon pool.
    /// [`Predictor::builder`] takes options.
    ///
    /// # Errors
    /// [`PredictorBuilder::build`] lists them.
    pub fn new(forest: &Forest) -> Result<Self> {
        Self::builder(forest).build()
    }

    /// Returns a builder, which takes options and compiles the forest.
    pub fn builder(forest: &Forest) -> PredictorBuilder<'_> {
        PredictorBuilder::new(forest)
    }

    /// Runs a self-check of any extent again, and returns the first difference from the reference interpreter.
    /// After each round it calls `progress` with the number of rounds done and the number of all rounds. A model
    /// that compares in `f64` is checked with `f64` rows after `f32` rows.
    pub fn run_check(
        &self,
        forest: &Forest,
        check: SelfCheck,
        mut progress: impl FnMut(usize, usize),
    ) -> Option<Difference> {
        let check = Check::new(forest, check);
        let found = self.difference::<f32>(&check, &mut progress);
        match forest.compare {
            CompareType::F64 => found.or_else(|| self.difference::<f64>(&check, &mut progress)),
            CompareType::F32 => found,
        }
    }

    /// Runs a check. A check's batches are small and would all go to one plan. So if there are several schedules,
    /// each plan is checked by itself.
    fn difference<T: Row + check::Value>(
        &self,
        check: &Check<'_>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Option<Difference> {
        if !self.plans.of_several_schedules() {
            return check.run_on::<T>(self, self, progress);
        }
        let plans = self.plans.named();
        plans.iter().find_map(|plan| {
            let runner = PlanRunner { predictor: self, program: plan.program };
            check.run_on::<T>(&runner, &runner, progress)
        })
    }

    /// Returns the predictor's plans by the number of rows in a batch, the one for the smallest batches
    /// first.
    pub fn plans(&self) -> Vec<NamedPlan<'_>> {
        self.plans.named()
    }

    /// Returns the plan that runs a batch of `rows` rows.
    pub fn plan_for(&self, rows: usize) -> NamedPlan<'_> {
        let holds = |plan: &NamedPlan<'_>| plan.rows.contains(&rows.max(1));
        let mut plans = self.plans.named();
        let at = plans.iter().position(holds).unwrap_or(0);
        plans.swap_remove(at)
    }

    /// Returns whether a plan of the predictor has this engine for a few rows.
    pub fn uses(&self, few_rows: FewRows) -> bool {
        self.plans.named().iter().any(|plan| plan.program.few_rows_engine() == few_rows)
    }

    /// Returns the engines that run a batch of `rows` rows, each with its number of visits. A visit is one row in
    /// one tree. The rows are contiguous `f32` rows of zeros. A row with missing values or of `f64` may go
    /// through walks instead, if an engine can't read it. The call counts visits one by one. Ask for a batch of a
    /// few thousand rows, because larger batches repeat its pattern.
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
    /// let predictor = Predictor::builder(&forest.build()?).schedule(schedule).threads(1).build()?;
    /// assert_eq!(predictor.engines(7)?, [(Engine::Walks, 7)]);
    /// # Ok::<(), fangorn::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory for so many rows.
    pub fn engines(&self, rows: usize) -> Result<Vec<(Engine, u64)>> {
        let columns = self.plans.large().features();
        let zeros = room::<f32>(rows, columns)?;
        let zeros = Rows::strided(&zeros, [rows, columns], [columns, 1])?;
        let mut engines = Vec::new();
        self.on_threads(rows, &mut || {
            engines = self.plans.of(rows).engines(&zeros)?;
            Ok(())
        })?;
        Ok(engines)
    }

    /// Returns the visit of each row to each tree, `rows x trees`, trees in the producer's order. It records the
    /// run that computes the margins of these rows under [`Contract::Any`]: see [`Program::trace`].
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or there is no memory for the
    /// results.
    pub fn trace<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<TraceEntry>> {
        let mut out = room(rows.len(), self.plans.large().trees())?;
        self.on_threads(rows.len(), &mut || self.plans.of(rows.len()).trace(rows, &mut out))?;
        Ok(out)
    }

    /// Returns the predictor's warnings. There is one if its self-check failed and slower code runs instead.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Calls `f`, which predicts `rows` rows, on the pool if they keep more than one thread busy.
    fn on_threads(&self, rows: usize, f: &mut (dyn FnMut() -> Result<()> + Send)) -> Result<()> {
        match &self.pool {
            Some(pool) if self.uses_several_threads(rows) => parallel::inside_of(pool, f),
            _ => f(),
        }
    }

    /// Returns whether a batch of `rows` rows keeps more than one thread busy. If not, a call for it stays on the
    /// caller's thread.
    pub fn uses_several_threads(&self, rows: usize) -> bool {
        self.plans.of(rows).uses_several_threads(rows)
    }

    /// Returns the program that runs the largest batches.
    pub fn program(&self) -> &Program {
        self.plans.large()
    }

    /// Returns the contract of the predictor's sums.
    pub fn sum(&self) -> Contract {
        self.sum
    }

    /// Returns the number of values of a row ([`Transform::width`]).
    pub fn width(&self) -> usize {
        self.transform.width(self.plans.large().outputs())
    }

    /// Returns the values of contiguous rows of `features` columns, `rows x width`: what the producer's own
    /// predict returns.
    ///
    /// Rows are `f32` or `f64`. A value is cast as the producer casts it before it is compared: `f64` rows are
    /// compared in `f64` if the producer does so.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or there is no memory for the
    /// results.
    pub fn predict<T: Row>(&self, rows: &[T], features: usize) -> Result<Vec<f32>> {
        self.values(&Rows::new(rows, features)?)
    }

    /// Returns the values of rows with any strides, `rows x width`.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or there is no memory for the
    /// results.
    pub fn values<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<f32>> {
        let mut out = room(rows.len(), self.width())?;
        self.values_into(rows, &mut out)?;
        Ok(out)
    }

    /// Writes the values of rows with any strides into `out`, `rows x width`.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or `out` has the wrong length.
    pub fn values_into<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [f32]) -> Result<()> {
        let program = self.plans.of(rows.len());
        self.on_threads(rows.len(), &mut || self.values_by(program, rows, out))
    }

    /// Like [`Predictor::values_into`], but under [`Contract::Any`] with the leaf values `leaves`, in slot order.
    /// Stricter contracts always use the forest's own leaf values.
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    pub(crate) fn values_of(&self, rows: &Rows<'_>, leaves: &[f32], out: &mut [f32]) -> Result<()> {
        let what = PredictedRows { rows, leaves: self.contract_leaves(leaves), values: true };
        self.predict_with(self.plans.of(rows.len()), what, None, out)
    }

    /// Writes margins, with the leaf values that [`Predictor::values_of`] takes.
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    pub(crate) fn margins_of(&self, rows: &Rows<'_>, leaves: &[f32], out: &mut [f32]) -> Result<()> {
        self.plans.of(rows.len()).margins_by(&self.summing, rows, self.contract_leaves(leaves), out)
    }

    /// Writes margins or values, with the leaf values that [`Predictor::values_of`] takes. It then calls
    /// `epilogue` on each row block with the index of the row block's first row.
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    pub(crate) fn with_epilogue_of(
        &self,
        rows: &Rows<'_>,
        leaves: &[f32],
        values: bool,
        epilogue: Epilogue<'_>,
        out: &mut [f32],
    ) -> Result<()> {
        let what = PredictedRows { rows, leaves: self.contract_leaves(leaves), values };
        self.predict_with(self.plans.of(rows.len()), what, Some(epilogue), out)
    }

    /// Returns the leaf values to add up: `leaves` under [`Contract::Any`], otherwise the forest's own.
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    fn contract_leaves<'a>(&'a self, leaves: &'a [f32]) -> &'a [f32] {
        if self.sum == Contract::Any { leaves } else { self.plans.large().leaves() }
    }

    /// Writes the values of rows by one of the predictor's programs.
    fn values_by<T: Row>(&self, program: &Program, rows: &Rows<'_, T>, out: &mut [f32]) -> Result<()> {
        let what = PredictedRows { rows, leaves: program.leaves(), values: true };
        self.predict_with(program, what, None, out)
    }

    /// Writes the margins of rows by one of the predictor's programs.
    fn margins_by<T: Row>(&self, program: &Program, rows: &Rows<'_, T>, out: &mut [f32]) -> Result<()> {
        program.margins_by(&self.summing, rows, program.leaves(), out)
    }

    fn predict_with<T: Row>(
        &self,
        program: &Program,
        what: PredictedRows<'_, '_, T>,
        epilogue: Option<Epilogue<'_>>,
        out: &mut [f32],
    ) -> Result<()> {
        let PredictedRows { rows, leaves, values } = what;
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
            program.margins_by(&self.summing, rows, leaves, out)?;
            self.end_in_place(out, outputs, values, epilogue);
            return Ok(());
        }
        // A row has more or fewer margins than values, so the margins go into scratch that the thread keeps.
        thread_local!(static MARGINS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) });
        let mut margins = MARGINS.with(RefCell::take);
        let needed = rows
            .len()
            .checked_mul(outputs)
            .filter(|needed| margins.try_reserve_exact(needed.saturating_sub(margins.len())).is_ok());
        margins.resize(needed.ok_or_else(|| no_room(rows.len(), outputs))?, 0.0);
        let done = program.margins_by(&self.summing, rows, leaves, &mut margins);
        self.end(&mut margins, outputs, epilogue, out);
        MARGINS.with(|m| m.replace(margins));
        done
    }

    /// Computes the values of rows from their margins, and calls `epilogue` on each row block.
    fn end(&self, margins: &mut [f32], outputs: usize, epilogue: Option<Epilogue<'_>>, out: &mut [f32]) {
        let (width, of_task) = (self.width(), Machine::here().rows_a_task());
        let in_tasks = self.in_tasks(out.len() / width);
        match in_tasks && self.scale != 1.0 {
            true => parallel::each_chunk(margins, of_task * outputs, &|_, margins| self.scale(margins)),
            false => self.scale(margins),
        }
        let margins = &*margins;
        let task = |block: usize, values: &mut [f32]| {
            let first = block * of_task;
            let margins = margins[first * outputs..].chunks_exact(outputs);
            let rows = margins.zip(values.chunks_exact_mut(width));
            rows.for_each(|(margins, values)| self.transform.apply(margins, values));
            if let Some(epilogue) = epilogue {
                epilogue(first, values);
            }
        };
        let of_block = of_task * width;
        match in_tasks {
            true => parallel::each_chunk(out, of_block, &task),
            false => out.chunks_mut(of_block).enumerate().for_each(|(block, values)| task(block, values)),
        }
    }

    /// Returns whether work on the margins of `rows` rows is worth more than one thread.
    fn in_tasks(&self, rows: usize) -> bool {
        rows > Machine::here().rows_a_task() && self.plans.large().threads() > 1
    }

    fn end_in_place(&self, out: &mut [f32], outputs: usize, values: bool, epilogue: Option<Epilogue<'_>>) {
        let transforms = values && (self.transform != Transform::Identity || self.scale != 1.0);
        if !transforms && epilogue.is_none() {
            return;
        }
        let of_task = Machine::here().rows_a_task();
        let task = |block: usize, rows: &mut [f32]| {
            if transforms {
                self.scale(rows);
                rows.chunks_exact_mut(outputs).for_each(|row| self.transform.apply_in_place(row));
            }
            if let Some(epilogue) = epilogue {
                epilogue(block * of_task, rows);
            }
        };
        match self.in_tasks(out.len() / outputs) {
            true => parallel::each_chunk(out, of_task * outputs, &task),
            false => {
                out.chunks_mut(of_task * outputs).enumerate().for_each(|(block, rows)| task(block, rows))
            }
        }
    }

    fn scale(&self, margins: &mut [f32]) {
        if self.scale != 1.0 {
            margins.iter_mut().for_each(|m| *m *= self.scale);
        }
    }

    /// Returns the values, `rows x width`, of rows with these raw margins, `rows x outputs`: those that
    /// [`Predictor::values`] returns for the rows. Another device may have found the margins.
    ///
    /// # Errors
    /// The margins are no whole number of rows, or there is no memory for the result.
    ///
    /// # Example
    /// ```
    /// use fangorn::{Predictor, cpu::Rows, import};
    ///
    /// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
    /// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
    /// let predictor = Predictor::new(&forest)?;
    /// let row = vec![0.5f32; forest.features.len()];
    /// let rows = Rows::new(&row, row.len())?;
    /// let margins = predictor.margins(&rows)?;
    /// assert_eq!(predictor.values_of_margins(&margins)?, predictor.values(&rows)?);
    /// # Ok::<(), fangorn::Error>(())
    /// ```
    pub fn values_of_margins(&self, margins: &[f32]) -> Result<Vec<f32>> {
        let outputs = self.plans.large().outputs();
        if !margins.len().is_multiple_of(outputs) {
            let what = format!("{} margins are no whole number of rows of {outputs}", margins.len());
            return Err(Error::Rows(what));
        }
        let rows = margins.len() / outputs;
        let mut own = room(rows, outputs)?;
        own.copy_from_slice(margins);
        let mut out = room(rows, self.width())?;
        self.on_threads(rows, &mut || {
            self.end(&mut own, outputs, None, &mut out);
            Ok(())
        })?;
        Ok(out)
    }

    /// Writes raw margins into `out`, `rows x outputs`.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or `out` has the wrong length.
    pub fn margins_into<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [f32]) -> Result<()> {
        let program = self.plans.of(rows.len());
        self.on_threads(rows.len(), &mut || self.margins_by(program, rows, out))
    }

    /// Returns raw margins, `rows x outputs`.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or there is no memory for the
    /// results.
    pub fn margins<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<f32>> {
        let mut out = room(rows.len(), self.plans.large().outputs())?;
        self.margins_into(rows, &mut out)?;
        Ok(out)
    }

    /// Returns the leaf id that each row reaches in each tree, `rows x trees`, trees in the producer's order.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or there is no memory for the
    /// results.
    pub fn leaf_ids<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<u32>> {
        let mut out = self.leaf_slots(rows)?;
        out.iter_mut().for_each(|slot| *slot = self.ids[*slot as usize]);
        Ok(out)
    }

    /// Returns the leaf slot that each row reaches in each tree, `rows x trees`, trees in the producer's
    /// order.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or there is no memory for the
    /// results.
    pub fn leaf_slots<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<u32>> {
        let mut out = room(rows.len(), self.plans.large().trees())?;
        self.leaf_slots_into(rows, &mut out)?;
        Ok(out)
    }

    /// Writes into `out` the leaf slot that each row reaches in each tree, `rows x trees`, trees in the
    /// producer's order.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or `out` has the wrong length.
    pub fn leaf_slots_into<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [u32]) -> Result<()> {
        self.on_threads(rows.len(), &mut || self.plans.of(rows.len()).slots(rows, out))
    }

    /// Returns the leaf values that each tree adds to a row's margins, `rows x trees x leaf width`, trees in the
    /// producer's order.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or there is no memory for the
    /// results.
    pub fn tree_values<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<f32>> {
        let slots = self.leaf_slots(rows)?;
        let width = self.leaf_width;
        let mut out = room(slots.len(), width)?;
        for (slot, out) in slots.into_iter().zip(out.chunks_exact_mut(width)) {
            out.copy_from_slice(&self.plans.large().leaves()[slot as usize * width..][..width]);
        }
        Ok(out)
    }
}

/// Makes room for `width` results of each row.
fn room<T: Clone + Default>(rows: usize, width: usize) -> Result<Vec<T>> {
    /// Below this number of results `room` does not check first that there is enough memory.
    const SURE: usize = 1 << 20;
    match rows.checked_mul(width) {
        // The system hands this memory out as zeros. It is not filled here, so that the threads that compute
        // results are the first to write it.
        Some(count) if count < SURE || Vec::<T>::new().try_reserve_exact(count).is_ok() => {
            let mut room = vec![T::default(); count];
            prefer_large_pages(&mut room);
            Ok(room)
        }
        _ => Err(no_room(rows, width)),
    }
}

fn no_room(rows: usize, width: usize) -> Error {
    let what = format!("{rows} rows of {width} results each are more than there is memory for");
    Error::Rows(format!("{what}; predict fewer rows at a time"))
}

/// Rows, the leaf values to add up, and whether values or margins are asked for.
struct PredictedRows<'r, 'a, T> {
    rows: &'r Rows<'a, T>,
    /// The leaf values to add up.
    leaves: &'r [f32],
    /// Whether values are asked for. Otherwise it is margins.
    values: bool,
}

/// Runs every batch with one of a predictor's programs.
struct PlanRunner<'p> {
    predictor: &'p Predictor,
    program: &'p Program,
}

impl<T: Row> check::Runner<T> for PlanRunner<'_> {
    fn leaf_slots(&self, rows: &[T]) -> Option<check::RunResult<u32>> {
        let run = |rows: &Rows<'_, T>| {
            let mut out = room(rows.len(), self.program.trees())?;
            self.program.slots(rows, &mut out).map(|()| out)
        };
        Some(Rows::new(rows, self.program.features()).and_then(|rows| run(&rows)).map_err(Into::into))
    }

    fn margins(&self, rows: &[T]) -> Option<check::RunResult<f32>> {
        let run = |rows: &Rows<'_, T>| {
            let mut out = room(rows.len(), self.program.outputs())?;
            self.predictor.margins_by(self.program, rows, &mut out).map(|()| out)
        };
        Some(Rows::new(rows, self.program.features()).and_then(|rows| run(&rows)).map_err(Into::into))
    }
}

impl check::Engines for PlanRunner<'_> {
    fn seconds(&self, rows: usize) -> f64 {
        self.program.seconds(rows)
    }

    fn are_same(&self, few: usize, many: usize) -> bool {
        self.program.same_engines(few, many)
    }
}

impl<T: Row> check::Runner<T> for Predictor {
    fn leaf_slots(&self, rows: &[T]) -> Option<check::RunResult<u32>> {
        let rows = Rows::new(rows, self.plans.large().features());
        Some(rows.and_then(|rows| Self::leaf_slots(self, &rows)).map_err(Into::into))
    }

    fn margins(&self, rows: &[T]) -> Option<check::RunResult<f32>> {
        let rows = Rows::new(rows, self.plans.large().features());
        Some(rows.and_then(|rows| Self::margins(self, &rows)).map_err(Into::into))
    }
}

impl check::Engines for Predictor {
    fn seconds(&self, rows: usize) -> f64 {
        self.plans.of(rows).seconds(rows)
    }

    fn are_same(&self, few: usize, many: usize) -> bool {
        let (of_few, of_many) = (self.plans.of(few), self.plans.of(many));
        std::ptr::eq(of_few, of_many) && of_few.same_engines(few, many)
    }
}
