//! Times the points of a space on rows, and keeps the fastest.

use std::{
    cell::OnceCell,
    collections::HashSet,
    hint::black_box,
    time::{Duration, Instant},
};

use super::{
    plan_file::{PlanFile, PlanFileBucket},
    record::work_of,
    rows::RowPool,
    space::{CpuPoint, Evaluate, cpu_space},
    store::{KeptBatch, ScheduleKey, ScheduleStore},
};
use crate::{
    Predictor,
    check::SelfCheck,
    cost::{ForestFacts, Machine, ROW_BLOCK, RowTile, Work},
    cpu::Rows,
    error::{Error, Result},
    forest::Forest,
    schedule::{FewRows, Preset, Schedule, cpu_facts},
    sum::Contract,
};

/// Least seconds of the calls of one measurement, so that the time of reading the clock is negligible.
const MEASUREMENT: f64 = 200e-6;
/// Pairs of measurements, one of the default schedule and one of the candidate, before a candidate is kept
/// or dropped.
const SCREENED: usize = 3;
/// Candidates that are kept for the rounds after the screening.
const KEPT: usize = 8;
/// Pairs of measurements in the first round after the screening. Each later round has twice as many, for half as many
/// candidates.
const FIRST_ROUND: usize = 6;
/// Pairs of measurements that decide between the default schedule and the fastest candidate.
const LAST_ROUND: usize = 25;
/// A candidate that takes this many times as long as the default schedule in its first measurement is not measured
/// again.
const HOPELESS: f64 = 2.0;
/// The winner has to take less than this fraction of the default's time; otherwise noise may have
/// chosen it.
const GAIN: f64 = 0.98;
/// The fraction of a batch's time budget in which candidates are screened.
const SCREENING: f64 = 0.6;

/// Finds fast schedules for a forest on this machine's CPU, by batch size.
///
/// Candidates are the points of [`cpu_space`], in the order of their [estimates](crate::cost::Estimate). Each is
/// compiled, then timed beside the default schedule, in turns. The median of the ratios of their times decides, so that
/// a change of the machine's speed affects both alike. The best candidates go through rounds of successive halving
/// (Jamieson and Talwalkar, 2016, section 3): each round times half as many candidates twice as long. A candidate that
/// can't run as written on this machine or with this forest is a [`Miss`].
///
/// ```
/// use std::time::Duration;
/// use fangorn::{Predictor, auto::Tuner, import};
///
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
/// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
/// let tuned = Tuner::new(&forest).batches([16]).budget(Duration::from_millis(50)).threads(1).run(|_| ())?;
/// let [batch] = &tuned.batches[..] else { unreachable!() };
/// assert!(!batch.screened.is_empty() && batch.tuned.seconds > 0.0);
/// let predictor = Predictor::builder(&forest).schedules(tuned.plan_file(&forest).schedules(&forest)?).build()?;
/// assert_eq!(predictor.plan_for(16).program.trees(), 100);
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "call `run` to tune"]
pub struct Tuner<'f> {
    forest: &'f Forest,
    rows: Option<&'f [f32]>,
    batches: Vec<usize>,
    budget: Duration,
    exhaustive: bool,
    threads: usize,
    sum: Contract,
    store: Option<&'f ScheduleStore>,
    fresh: bool,
}

/// The result of tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct TuningResult {
    /// What predictions ran on, as [`ScheduleKey::target`](super::ScheduleKey::target) names it.
    pub target: String,
    /// Number of threads that predictions ran on.
    pub threads: usize,
    /// The result for each batch size, in ascending order.
    pub batches: Vec<TunedBatch>,
}

/// The result of tuning for batches of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct TunedBatch {
    /// Number of rows of a batch.
    pub rows: usize,
    /// The default schedule.
    pub auto: TimedSchedule,
    /// The schedule that the tuner has chosen within its budget. It is the default schedule if no candidate is faster
    /// by more than noise.
    pub tuned: TimedSchedule,
    /// The fastest of all candidates and the default schedule; `None` unless the search was exhaustive.
    pub best: Option<TimedSchedule>,
    /// On a device, seconds of a row of a call with the tuned schedule that copies the rows from the host's memory and
    /// the margins back. `None` on a CPU.
    pub from_host: Option<f64>,
    /// Number of candidates of the space.
    pub points: usize,
    /// The candidates that were timed, in the order of the search. Their seconds are the default schedule's seconds,
    /// multiplied by a ratio from few measurements, so they are less certain than those of `auto`, `tuned` and `best`.
    pub screened: Vec<TimedSchedule>,
    /// The candidates that could not be timed.
    pub missed: Vec<Miss>,
}

/// A schedule and the time that it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedSchedule {
    /// The schedule.
    pub schedule: Schedule,
    /// The way of the [cost model](crate::cost::Work) by which it evaluates a batch of this size; `None` if
    /// the model has no estimate of what it runs.
    pub work: Option<Work>,
    /// Seconds of a row: the median of measurements.
    pub seconds: f64,
}

/// A candidate that could not be timed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// The candidate.
    pub schedule: Schedule,
    /// Why the candidate could not be timed.
    pub why: String,
}

/// How far a tuner has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Number of rows of the batches that are being tuned.
    pub rows: usize,
    /// Number of candidates that were compiled so far for this batch size, misses among them.
    pub seen: usize,
    /// Number of candidates for this batch size.
    pub points: usize,
    /// The time of the best candidate so far, divided by the default schedule's; 1 if none is faster.
    pub best: f64,
    /// The time since the tuner began.
    pub elapsed: Duration,
}

/// A compiled candidate.
struct Candidate {
    schedule: Schedule,
    predictor: Predictor,
    work: Option<Work>,
    /// Its time divided by the default schedule's.
    ratio: f64,
}

/// A stopwatch for candidates at one batch size, with the rows that they run on.
struct Stopwatch {
    pool: RowPool,
    out: Vec<f32>,
    /// Calls of a measurement.
    calls: usize,
    /// The batch that the next measurement begins with.
    next: usize,
}

impl<'f> Tuner<'f> {
    /// Makes a tuner for batches of 1, 64 and 4096 rows, with a budget of ten seconds, for the threads of the
    /// current rayon pool and [`Contract::Any`].
    pub fn new(forest: &'f Forest) -> Self {
        Self {
            forest,
            rows: None,
            batches: vec![1, 64, 4096],
            budget: Duration::from_secs(10),
            exhaustive: false,
            threads: rayon::current_num_threads(),
            sum: Contract::Any,
            store: None,
            fresh: false,
        }
    }

    /// Sets the rows to time with: the values of the forest's columns, row by row. By default, rows are
    /// [drawn](RowPool::drawn) from the forest's thresholds.
    pub fn rows(mut self, rows: impl Into<Option<&'f [f32]>>) -> Self {
        self.rows = rows.into();
        self
    }

    /// Sets the batch sizes.
    pub fn batches(mut self, batches: impl IntoIterator<Item = usize>) -> Self {
        self.batches = batches.into_iter().collect();
        self.batches.sort_unstable();
        self.batches.dedup();
        self
    }

    /// Sets the time that tuning takes in all. A measurement that has begun is completed, so tuning may take a little
    /// longer. An exhaustive search has no budget.
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    /// Sets whether all candidates are timed after the search within the budget.
    pub fn exhaustive(mut self, exhaustive: bool) -> Self {
        self.exhaustive = exhaustive;
        self
    }

    /// Sets the number of threads of predictions. They run in the current rayon pool.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Sets the contract of sums.
    pub fn sum(mut self, sum: Contract) -> Self {
        self.sum = sum;
        self
    }

    /// Sets the store. Tuning looks there first, and keeps there what it finds. It takes over what an earlier search
    /// found for the same rows with at least as large a budget. With a larger budget, it goes on with the candidates
    /// that the earlier search did not reach. By default there is no store.
    pub fn store(mut self, store: impl Into<Option<&'f ScheduleStore>>) -> Self {
        self.store = store.into();
        self
    }

    /// Sets whether to search anew and to replace what is kept in the store.
    pub fn fresh(mut self, fresh: bool) -> Self {
        self.fresh = fresh;
        self
    }

    /// Tunes. Calls `progress` after each candidate and each round.
    ///
    /// # Errors
    /// The forest does not verify or has no columns, the rows are not of its columns, a batch has no rows,
    /// there is no memory, or the store can't be read or written.
    pub fn run(&self, mut progress: impl FnMut(Progress)) -> Result<TuningResult> {
        if self.batches.is_empty() {
            return Err(Error::Rows("no batch size to tune for; name at least one".into()));
        }
        self.forest.verify()?;
        let begin = Instant::now();
        let each = self.budget.as_secs_f64() / self.batches.len() as f64;
        let points = cpu_space(self.threads);
        let key = self.store.map(|_| ScheduleKey::here(self.forest, self.threads, self.sum));
        let kept = match (self.store, &key) {
            (Some(store), Some(key)) if !self.fresh => {
                store.load(key)?.map_or(Vec::new(), |kept| kept.batches)
            }
            _ => Vec::new(),
        };
        let rows_hash = KeptBatch::hash_of(self.rows);
        // A kept result needs no facts.
        let facts = OnceCell::new();
        let (mut batches, mut new) = (Vec::new(), Vec::new());
        for (at, rows) in self.batches.iter().enumerate() {
            let mut tell = |seen, best| {
                let (points, elapsed) = (points.len(), begin.elapsed());
                progress(Progress { rows: *rows, seen, points, best, elapsed });
            };
            // A batch that ends early leaves its time to the next ones.
            let end = each * (at + 1) as f64 - begin.elapsed().as_secs_f64();
            let kept = kept.iter().find(|kept| kept.found.rows == *rows && kept.rows_hash == rows_hash);
            if let Some(kept) = kept.filter(|kept| self.is_enough(kept, &points, each)) {
                batches.push(kept.found.clone());
                continue;
            }
            let facts = facts.get_or_init(|| cpu_facts(self.forest, &self.forest.stats()));
            let points = ordered(&points, facts, *rows);
            let found = self.tune(*rows, &points, end, kept.map(|kept| &kept.found), &mut tell)?;
            let budget = Duration::from_secs_f64(each).max(kept.map_or(Duration::ZERO, |kept| kept.budget));
            new.push(KeptBatch { rows_hash, budget, found: found.clone() });
            batches.push(found);
        }
        if let (Some(store), Some(key), false) = (self.store, &key, new.is_empty()) {
            store.add(key, new)?;
        }
        let target = crate::isa::isa().name().to_owned();
        Ok(TuningResult { target, threads: self.threads, batches })
    }

    /// Returns whether a kept result can replace a search of `seconds`.
    fn is_enough(&self, kept: &KeptBatch, points: &[CpuPoint], seconds: f64) -> bool {
        // The store rounds to microseconds.
        let as_long = kept.budget.as_secs_f64() + 1e-5 >= seconds;
        if as_long && !self.exhaustive {
            return true;
        }
        let seen = seen_schedules(&kept.found);
        let all = points.iter().all(|point| seen.contains(&point.schedule()));
        all && (!self.exhaustive || kept.found.best.is_some())
    }

    /// Tunes for batches of `rows` rows in `budget` seconds. `kept` is the result of an earlier search.
    fn tune(
        &self,
        rows: usize,
        points: &[CpuPoint],
        budget: f64,
        kept: Option<&TunedBatch>,
        tell: &mut dyn FnMut(usize, f64),
    ) -> Result<TunedBatch> {
        let pool = match self.rows {
            Some(values) => RowPool::of_rows(self.forest, values, rows)?,
            None => RowPool::drawn(self.forest, rows)?,
        };
        let begin = Instant::now();
        let (schedule, predictor) = (Preset::Default.schedule(self.forest, false), self.build(None)?);
        let work = work_of(&predictor, &schedule, rows)?;
        let auto = Candidate { schedule, predictor, work, ratio: 1.0 };
        let mut watch = Stopwatch::new(pool, rows, &auto)?;
        let until = |seconds: f64| move || begin.elapsed().as_secs_f64() < seconds;
        let mut search = Search {
            tuner: self,
            rows,
            auto: &auto,
            watch: &mut watch,
            tell,
            missed: Vec::new(),
            screened: Vec::new(),
        };
        // The winner of an earlier search competes with the candidates that the search did not reach.
        let before = match kept {
            Some(found) => {
                let relative = |timed: &TimedSchedule| TimedSchedule {
                    seconds: timed.seconds / found.auto.seconds,
                    ..timed.clone()
                };
                search.screened = found.screened.iter().map(relative).collect();
                search.missed.clone_from(&found.missed);
                search.candidate(found.tuned.schedule.clone()).ok()
            }
            None => None,
        };
        let seen = kept.map(seen_schedules).unwrap_or_default();
        let unseen: Vec<_> = points.iter().filter(|p| !seen.contains(&p.schedule())).copied().collect();
        let mut finalists = search.screen(&unseen, until(budget * SCREENING))?;
        finalists.extend(before);
        let finalists = search.halve(finalists, until(budget))?;
        let tuned = search.winner(finalists)?;
        let mut best = None;
        if self.exhaustive {
            (search.missed, search.screened) = Default::default();
            let finalists = search.screen(points, || true)?;
            let finalists = search.halve(finalists, || true)?;
            best = search.winner(finalists)?;
        }
        let Search { missed, screened, .. } = search;
        // All three in turns, so that their times can be compared.
        let mut last: Vec<&Candidate> = vec![&auto];
        last.extend(tuned.iter().chain(&best));
        let times = watch.turns(&last, LAST_ROUND)?;
        let timed: Vec<_> = last.iter().zip(&times).map(|(c, times)| c.timed(median(times), rows)).collect();
        let of = |candidate: &Option<Candidate>| match candidate {
            Some(candidate) => timed.iter().find(|timed| timed.schedule == candidate.schedule),
            None => None,
        };
        let (of_tuned, of_best) = (of(&tuned), of(&best));
        // What a few measurements found faster may be slower when it is timed again.
        let of_tuned = of_tuned.filter(|tuned| tuned.seconds < timed[0].seconds);
        Ok(TunedBatch {
            rows,
            auto: timed[0].clone(),
            tuned: of_tuned.unwrap_or(&timed[0]).clone(),
            from_host: None,
            best: self.exhaustive.then(|| {
                let all = [Some(&timed[0]), of_tuned, of_best].into_iter().flatten();
                all.min_by(|a, b| a.seconds.total_cmp(&b.seconds)).unwrap_or(&timed[0]).clone()
            }),
            points: points.len(),
            screened: screened
                .into_iter()
                .map(|relative| TimedSchedule { seconds: relative.seconds * timed[0].seconds, ..relative })
                .collect(),
            missed,
        })
    }

    fn build(&self, schedule: Option<Schedule>) -> Result<Predictor> {
        let builder = Predictor::builder(self.forest).schedule(schedule).threads(self.threads);
        builder.sum(self.sum).check(SelfCheck::Off).build()
    }
}

impl Candidate {
    fn timed(&self, call: f64, rows: usize) -> TimedSchedule {
        TimedSchedule { schedule: self.schedule.clone(), work: self.work, seconds: call / rows as f64 }
    }
}

/// A search at one batch size.
struct Search<'s, 'f> {
    tuner: &'s Tuner<'f>,
    /// Number of rows of a batch.
    rows: usize,
    auto: &'s Candidate,
    watch: &'s mut Stopwatch,
    /// Takes the number of candidates seen, and the least ratio so far.
    tell: &'s mut dyn FnMut(usize, f64),
    missed: Vec<Miss>,
    /// The candidates timed so far. Their `seconds` are divided by the default schedule's.
    screened: Vec<TimedSchedule>,
}

impl Search<'_, '_> {
    /// Compiles and times candidates in their order while `goes_on` holds. Returns the best of them, the
    /// fastest first.
    fn screen(&mut self, points: &[CpuPoint], goes_on: impl Fn() -> bool) -> Result<Vec<Candidate>> {
        let mut kept: Vec<Candidate> = Vec::new();
        for point in points {
            if !kept.is_empty() && !goes_on() {
                break;
            }
            let schedule = point.schedule();
            match self.candidate(schedule.clone()) {
                Err(why) => self.missed.push(Miss { schedule, why }),
                Ok(mut candidate) => {
                    let first = self.watch.ratio(self.auto, &candidate, 1)?;
                    candidate.ratio = match first < HOPELESS {
                        true => self.watch.ratio(self.auto, &candidate, SCREENED)?,
                        false => first,
                    };
                    let work = candidate.work;
                    self.screened.push(TimedSchedule { schedule, work, seconds: candidate.ratio });
                    let at = kept.partition_point(|better| better.ratio <= candidate.ratio);
                    kept.insert(at, candidate);
                    kept.truncate(KEPT);
                }
            }
            let best = kept.first().map_or(1.0, |best| best.ratio.min(1.0));
            let seen = self.seen();
            (self.tell)(seen, best);
        }
        Ok(kept)
    }

    /// Returns the number of candidates that were compiled so far.
    fn seen(&self) -> usize {
        self.screened.len() + self.missed.len()
    }

    /// Compiles a candidate, or returns the reason why it can't be timed.
    fn candidate(&self, schedule: Schedule) -> Result<Candidate, String> {
        let predictor = self.tuner.build(Some(schedule.clone())).map_err(|e| e.to_string())?;
        match predictor.plans().iter().flat_map(|plan| plan.program.notes()).next() {
            // With a note, this candidate would run as another candidate does.
            Some(note) => Err(note.to_string()),
            None => {
                let work = work_of(&predictor, &schedule, self.rows).map_err(|e| e.to_string())?;
                Ok(Candidate { schedule, predictor, work, ratio: f64::INFINITY })
            }
        }
    }

    /// Drops the slower half of the candidates round by round until one is left or `goes_on` no longer holds.
    fn halve(&mut self, mut kept: Vec<Candidate>, goes_on: impl Fn() -> bool) -> Result<Vec<Candidate>> {
        let mut pairs = FIRST_ROUND;
        while kept.len() > 1 && goes_on() {
            let mut all: Vec<&Candidate> = vec![self.auto];
            all.extend(&kept);
            let times = self.watch.turns(&all, pairs)?;
            let ratios: Vec<f64> = times[1..].iter().map(|times_of| ratio(&times[0], times_of)).collect();
            kept.iter_mut().zip(ratios).for_each(|(candidate, ratio)| candidate.ratio = ratio);
            kept.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
            kept.truncate(kept.len().div_ceil(2));
            pairs *= 2;
            let seen = self.seen();
            (self.tell)(seen, kept[0].ratio.min(1.0));
        }
        Ok(kept)
    }

    /// Returns the fastest candidate if it is faster than the default schedule and passes a self-check.
    fn winner(&mut self, kept: Vec<Candidate>) -> Result<Option<Candidate>> {
        for mut candidate in kept {
            candidate.ratio = self.watch.ratio(self.auto, &candidate, LAST_ROUND)?;
            if candidate.ratio >= GAIN || candidate.schedule == self.auto.schedule {
                return Ok(None);
            }
            match candidate.predictor.run_check(self.tuner.forest, SelfCheck::Quick, |_, _| ()) {
                None => return Ok(Some(candidate)),
                Some(difference) => {
                    let (schedule, why) = (candidate.schedule, format!("self-check: {difference}"));
                    self.missed.push(Miss { schedule, why });
                }
            }
        }
        Ok(None)
    }
}

impl Stopwatch {
    fn new(pool: RowPool, rows: usize, auto: &Candidate) -> Result<Self> {
        let values = rows.checked_mul(auto.predictor.program().outputs());
        let mut out = Vec::new();
        let room = values.filter(|n| out.try_reserve_exact(*n).is_ok());
        out.resize(
            room.ok_or_else(|| Error::Rows("no memory for the results; ask for fewer rows".into()))?,
            0.0,
        );
        let mut watch = Self { pool, out, calls: 1, next: 0 };
        // The first call touches memory that later calls find.
        watch.seconds(auto)?;
        let call = (0..3)
            .map(|_| watch.seconds(auto))
            .try_fold(f64::INFINITY, |least, seconds| Ok::<_, Error>(least.min(seconds?)))?;
        watch.calls = (MEASUREMENT / call.max(1e-9)).ceil().clamp(1.0, 1e5) as usize;
        Ok(watch)
    }

    /// Returns the seconds of a call, averaged over a measurement. Each measurement goes on with the next batches, so
    /// that no candidate finds its rows in a cache because another one has just read them.
    fn seconds(&mut self, candidate: &Candidate) -> Result<f64> {
        let columns = self.pool.columns();
        let begin = Instant::now();
        for call in 0..self.calls {
            let rows = Rows::new(self.pool.batch(self.next + call), columns)?;
            candidate.predictor.margins_into(black_box(&rows), black_box(&mut self.out))?;
        }
        let seconds = begin.elapsed().as_secs_f64() / self.calls as f64;
        self.next = (self.next + self.calls) % self.pool.batches();
        Ok(seconds)
    }

    /// Measures candidates in turns, each turn with another one first. Returns the seconds of a call in each
    /// turn, for each candidate.
    fn turns(&mut self, candidates: &[&Candidate], turns: usize) -> Result<Vec<Vec<f64>>> {
        let mut times = vec![Vec::with_capacity(turns); candidates.len()];
        for turn in 0..turns {
            for at in 0..candidates.len() {
                let at = (at + turn) % candidates.len();
                let seconds = self.seconds(candidates[at])?;
                times[at].push(seconds);
            }
        }
        Ok(times)
    }

    /// Returns the candidate's time divided by the default schedule's, measured in pairs.
    fn ratio(&mut self, auto: &Candidate, candidate: &Candidate, pairs: usize) -> Result<f64> {
        let times = self.turns(&[auto, candidate], pairs)?;
        Ok(ratio(&times[0], &times[1]))
    }
}

impl TuningResult {
    /// Returns the plan file of the tuned schedules.
    pub fn plan_file(&self, forest: &Forest) -> PlanFile {
        let bucket = |batch: &TunedBatch| PlanFileBucket {
            rows: batch.rows,
            schedule: batch.tuned.schedule.clone(),
            us_per_row: Some(batch.tuned.seconds * 1e6),
            auto_us_per_row: Some(batch.auto.seconds * 1e6),
        };
        let buckets = self.batches.iter().map(bucket).collect();
        PlanFile::new(forest, &*self.target, self.threads, buckets)
    }
}

/// Returns the points in the order of their estimates, so that a short search reaches the best ones.
fn ordered(points: &[CpuPoint], facts: &ForestFacts, rows: usize) -> Vec<CpuPoint> {
    let seconds = |point: &CpuPoint| {
        let tile = RowTile::of(point.rows as usize);
        let work = match point.evaluate {
            // Blends leave a few rows to the engine for a few rows, too.
            _ if rows < ROW_BLOCK && point.few_rows != FewRows::Walk => Work::RowWalks,
            Evaluate::Blend => Work::Blends,
            Evaluate::Walk | Evaluate::WalkRows(_) if point.unroll_walks => Work::UntestedWalks(tile),
            Evaluate::Walk | Evaluate::WalkRows(_) => Work::TestedWalks(tile),
            Evaluate::WalkTrees(_) | Evaluate::Tiles(_) => Work::RowWalks,
        };
        let estimate = Machine::here().estimate(facts, work, rows);
        estimate.map_or(f64::INFINITY, |estimate| estimate.seconds())
    };
    // What serves a few rows hardly depends on the rest of a schedule, so each engine for them comes early, once.
    let plain = CpuPoint::default();
    let names_engine = |point: &CpuPoint| {
        let is_plain = CpuPoint { few_rows: plain.few_rows, ..*point } == plain;
        rows < ROW_BLOCK && point.few_rows != FewRows::Auto && is_plain
    };
    let mut points = points.to_vec();
    points.sort_by(|a, b| {
        seconds(a).total_cmp(&seconds(b)).then_with(|| names_engine(b).cmp(&names_engine(a)))
    });
    points
}

/// Returns the schedules that a search has reached.
fn seen_schedules(found: &TunedBatch) -> HashSet<Schedule> {
    let timed = found.screened.iter().map(|timed| &timed.schedule);
    timed.chain(found.missed.iter().map(|miss| &miss.schedule)).cloned().collect()
}

/// Returns the median of the ratios of two lists of times, taken pair by pair.
fn ratio(base: &[f64], times: &[f64]) -> f64 {
    let ratios: Vec<f64> = base.iter().zip(times).map(|(base, time)| time / base.max(1e-12)).collect();
    median(&ratios)
}

pub(super) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::INFINITY)
}
