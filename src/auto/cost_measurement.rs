//! Measures the costs of the ways to evaluate many rows, on this machine.

use std::{hint::black_box, time::Instant};

use super::{explain::Explanation, random_model::RandomModel, record::work_of, rows::RowPool, tuner::median};
use crate::{
    Predictor,
    check::SelfCheck,
    cost::{CHOICE_ROWS, ForestFacts, Machine, MeasuredWays, ROW_BLOCK, RowTile, Ways, Work},
    cpu::Rows,
    error::Result,
    forest::Forest,
    schedule::FewRows,
};

/// The models whose times are taken: trees, columns, deepest leaf, sets of categories.
const MODELS: [(usize, u32, u32, u32); 14] = [
    (100, 8, 6, 0),
    (400, 8, 8, 0),
    (1000, 32, 7, 0),
    (100, 128, 8, 0),
    (400, 128, 6, 0),
    (100, 512, 6, 0),
    (400, 512, 8, 0),
    (100, 2048, 6, 0),
    (100, 8, 10, 0),
    (100, 32, 12, 0),
    (200, 8, 12, 0),
    (100, 128, 12, 0),
    (100, 32, 6, 4),
    (400, 128, 6, 64),
];
/// Rows of a batch. The first is for walks row by row, the second for row blocks that wait for loads. A call takes some
/// time besides, which is a small part of these.
const BATCHES: [usize; 5] = [16, 32, 64, 512, 4096];
/// Rounds in which each way has a turn.
const ROUNDS: usize = 5;
/// Least seconds of a turn.
const TURN: f64 = 2e-3;

/// Measured costs pay if the ways that they choose take less than this fraction of the time; otherwise noise may have
/// chosen them.
const GAIN: f64 = 0.995;
/// The weight of the costs that there were before, in squares of relative errors: a few measurements outweigh them, and a
/// cost that none shows stays as it was.
const PRIOR: f64 = 0.01;
/// Rounds of a fit, each with the weights and the counts of the estimates of the round before.
const FITS: usize = 8;
/// Sweeps over all costs in a round.
const SWEEPS: usize = 400;

/// How the ways that costs choose compare with the fastest ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choices {
    /// The geometric mean of the chosen way's time divided by the fastest way's.
    pub mean: f64,
    /// The greatest such ratio.
    pub most: f64,
}

/// Costs of [`Ways`] that were measured on this machine, and how well they choose.
///
/// Random models are evaluated in each way, and costs are fitted to the times: least squares of relative errors, beside the
/// costs that this machine had before. The costs that judge a model were fitted to other models. As for the default
/// schedule, a model has one choice for all batches.
///
/// ```no_run
/// use fangorn::auto::CostMeasurement;
///
/// let measured = CostMeasurement::run(|_, _| ())?;
/// if measured.pays() {
///     measured.ways.keep()?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostMeasurement {
    /// The measured costs.
    pub ways: MeasuredWays,
    /// The choices by the costs that this machine had before.
    pub before: Choices,
    /// The choices by measured costs.
    pub measured: Choices,
    /// How many batches of models were judged.
    pub batches: usize,
}

/// The time of a batch of a model that is evaluated in one way.
#[derive(Clone, Copy, Debug)]
struct TimedWay {
    facts: ForestFacts,
    work: Work,
    rows: usize,
    seconds: f64,
}

impl CostMeasurement {
    /// Measures the costs, on one thread, in about half a minute. The machine should do nothing else. `progress` gets the
    /// number of models that are done, and of all.
    ///
    /// # Errors
    /// There is no memory for a model or its rows.
    pub fn run(mut progress: impl FnMut(usize, usize)) -> Result<Self> {
        let mut models = Vec::new();
        for (done, (trees, columns, deepest, sets)) in MODELS.into_iter().enumerate() {
            progress(done, MODELS.len());
            let forest = RandomModel { trees, columns, outputs: 1, deepest, sets }.forest()?;
            let batches: Vec<_> =
                BATCHES.iter().map(|rows| of_batch(&forest, *rows)).collect::<Result<_>>()?;
            models.push(batches.concat());
        }
        progress(MODELS.len(), MODELS.len());
        Ok(Self::fitted(Machine::here(), &models))
    }

    /// Fits costs to the times of models, beside those of a machine.
    fn fitted(machine: &Machine, models: &[Vec<TimedWay>]) -> Self {
        // Of two halves of the models, each is judged by costs that were fitted to the other one.
        let halves = [0, 1].map(|half| {
            let others = models.iter().enumerate().filter(|(at, _)| at % 2 != half);
            fit(machine, others.flat_map(|(_, timed)| timed))
        });
        let choices = |machine_of: &dyn Fn(usize) -> Machine| {
            let of_models = models.iter().enumerate().flat_map(|(at, timed)| regrets(&machine_of(at), timed));
            of_models.collect::<Vec<f64>>()
        };
        let measured = choices(&|at| Machine { ways: halves[at % 2], ..*machine });
        Self {
            ways: MeasuredWays { ways: fit(machine, models.iter().flatten()) }.beside_few_rows(),
            before: Choices::of(&choices(&|_| *machine)),
            batches: measured.len(),
            measured: Choices::of(&measured),
        }
    }

    /// Returns whether the measured costs choose faster ways than those before.
    pub fn pays(&self) -> bool {
        self.ways.can_be_kept() && self.measured.mean < GAIN * self.before.mean
    }
}

impl Choices {
    fn of(regrets: &[f64]) -> Self {
        let logs: f64 = regrets.iter().map(|regret| regret.ln()).sum();
        let mean = (logs / regrets.len().max(1) as f64).exp();
        Self { mean, most: regrets.iter().copied().fold(1.0, f64::max) }
    }
}

/// Times each way that serves a batch of this size, in turns.
fn of_batch(forest: &Forest, rows: usize) -> Result<Vec<TimedWay>> {
    let pool = RowPool::drawn(forest, rows)?;
    let mut out = vec![0.0; rows];
    let mut ways: Vec<(Work, Predictor, Vec<f64>)> = Vec::new();
    let why = Explanation::new(forest, rows);
    for way in why.of_batch {
        let by_row = way.work == Work::RowWalks;
        if !by_row && rows < Machine::here().walk.rows_one_by_one() {
            continue;
        }
        // A part of a row block has engines of its own, but here it is to be evaluated in this way.
        let by_way = !by_row && rows < ROW_BLOCK;
        let schedule = if by_way { way.schedule.few_rows(FewRows::Walk) } else { way.schedule };
        let builder = Predictor::builder(forest).schedule(schedule.clone()).threads(1);
        let predictor = builder.check(SelfCheck::Off).build()?;
        let Some(work) = work_of(&predictor, &schedule, rows)?.map(|work| of_tile(work, rows)) else {
            continue;
        };
        // Two tiles that hold the whole batch are one way.
        if ways.iter().all(|(other, ..)| *other != work) {
            ways.push((work, predictor, Vec::new()));
        }
    }
    let mut next = 0;
    for _ in 0..ROUNDS {
        for (_, predictor, times) in &mut ways {
            let (mut calls, begin) = (0, Instant::now());
            let seconds = loop {
                let batch = Rows::new(pool.batch(next), pool.columns())?;
                predictor.margins_into(black_box(&batch), black_box(&mut out))?;
                (calls, next) = (calls + 1, (next + 1) % pool.batches());
                let seconds = begin.elapsed().as_secs_f64();
                if seconds > TURN {
                    break seconds;
                }
            };
            times.push(seconds / f64::from(calls));
        }
    }
    let timed = |(work, _, times): (Work, _, Vec<f64>)| TimedWay {
        facts: why.facts,
        work,
        rows,
        seconds: median(&times),
    };
    Ok(ways.into_iter().map(timed).collect())
}

/// Returns the way with the smallest tile that does the same for so many rows.
fn of_tile(work: Work, rows: usize) -> Work {
    let tile = |tile: RowTile| if tile.rows() > rows { RowTile::of(rows) } else { tile };
    match work {
        Work::UntestedWalks(of) => Work::UntestedWalks(tile(of)),
        Work::TestedWalks(of) => Work::TestedWalks(tile(of)),
        other => other,
    }
}

/// Returns how often a time meets each cost, in the order of [`Ways::all`].
fn counts(machine: &Machine, timed: &TimedWay) -> [f64; Ways::COUNT] {
    let terms = machine.estimate(&timed.facts, timed.work, timed.rows).map(|estimate| estimate.terms);
    let terms = terms.unwrap_or_default();
    machine
        .ways
        .all()
        .map(|(name, _)| terms.iter().filter(|term| term.cost == name).map(|term| term.count).sum())
}

/// Returns, for each batch of a model that is not of a few rows, how many times the fastest way's time the way takes that a
/// machine's costs choose for the model.
fn regrets(machine: &Machine, model: &[TimedWay]) -> Vec<f64> {
    let Some(first) = model.first() else { return Vec::new() };
    let Some(chosen) = machine.fastest(&first.facts, &Work::OF_MANY_ROWS, CHOICE_ROWS) else {
        return Vec::new();
    };
    let of_batch = |rows: usize| {
        let ways = || model.iter().filter(move |timed| timed.rows == rows && timed.work != Work::RowWalks);
        let seconds = ways().find(|timed| timed.work == of_tile(chosen, rows))?.seconds;
        let fastest = ways().map(|timed| timed.seconds).fold(f64::INFINITY, f64::min);
        (ways().count() > 1).then_some(seconds / fastest)
    };
    BATCHES.into_iter().filter(|rows| *rows >= ROW_BLOCK).filter_map(of_batch).collect()
}

/// Fits costs to times: the least squares of relative errors, with no cost below 0. Costs count in times of those before.
fn fit<'t>(before: &Machine, timed: impl Iterator<Item = &'t TimedWay>) -> Ways {
    let timed: Vec<_> = timed.filter(|timed| timed.seconds > 0.0 && timed.seconds.is_finite()).collect();
    // A machine that takes twice as long for everything has the same costs twice.
    let ratio = |timed: &&TimedWay| {
        let estimate = before.estimate(&timed.facts, timed.work, timed.rows)?.seconds();
        Some(timed.seconds / estimate).filter(|ratio| ratio.is_finite())
    };
    let ratios: Vec<f64> = timed.iter().filter_map(ratio).collect();
    if ratios.is_empty() {
        return before.ways;
    }
    let mut prior = before.ways;
    let times = median(&ratios);
    prior.all_mut().into_iter().for_each(|(_, cost)| *cost *= times);
    let mut machine = Machine { ways: prior, ..*before };
    let mut factors = [1.0; Ways::COUNT];
    for _ in 0..FITS {
        let mut products = [[0.0; Ways::COUNT]; Ways::COUNT];
        let mut sums = [PRIOR; Ways::COUNT];
        products.iter_mut().enumerate().for_each(|(at, row)| row[at] += PRIOR);
        for timed in &timed {
            let (counts, costs) = (counts(&machine, timed), prior.all());
            // One of 0 stays 0.
            let counts: [f64; Ways::COUNT] = std::array::from_fn(|at| counts[at] * costs[at].1);
            let estimate: f64 = counts.iter().zip(factors).map(|(count, factor)| count * factor).sum();
            // Weights by the mean of time and estimate, so that errors in both directions weigh alike.
            let weight = 1.0 / (estimate.max(1e-3 * timed.seconds) * timed.seconds);
            for ((row, sum), a) in products.iter_mut().zip(&mut sums).zip(counts) {
                *sum += weight * a * timed.seconds;
                row.iter_mut().zip(counts).for_each(|(product, b)| *product += weight * a * b);
            }
        }
        for at in (0..SWEEPS).flat_map(|_| 0..Ways::COUNT) {
            let all: f64 = products[at].iter().zip(factors).map(|(product, factor)| product * factor).sum();
            factors[at] = (factors[at] + (sums[at] - all) / products[at][at]).max(0.0);
        }
        machine.ways = prior;
        machine.ways.all_mut().into_iter().zip(factors).for_each(|((_, cost), factor)| *cost *= factor);
    }
    machine.ways
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times that a machine's estimates say, of every way for smaller models.
    fn estimated(machine: &Machine) -> Vec<Vec<TimedWay>> {
        let models = MODELS.into_iter().filter(|model| model.1 < 600);
        let of_model = |(trees, columns, deepest, sets): (usize, u32, u32, u32)| {
            let model = RandomModel { trees: trees.min(100), columns, outputs: 1, deepest, sets };
            let facts = Explanation::new(&model.forest().expect("a model"), 64).facts;
            let mut all: Vec<TimedWay> = Vec::new();
            for rows in BATCHES {
                for work in Work::ALL.map(|work| of_tile(work, rows)) {
                    let is_new = all.iter().all(|other| (other.rows, other.work) != (rows, work));
                    let seconds = machine.estimate(&facts, work, rows).map(|estimate| estimate.seconds());
                    all.extend(seconds.filter(|_| is_new).map(|seconds| TimedWay {
                        facts,
                        work,
                        rows,
                        seconds,
                    }));
                }
            }
            all
        };
        models.map(of_model).collect()
    }

    /// Costs of a machine on which some operations take longer are found from times, and choose the fastest ways.
    #[test]
    fn a_fit_finds_the_costs_that_times_were_made_of() {
        let before = Machine::shipped()[0];
        // A row block of whole steps takes longer than a load, and then shorter.
        for step in [2.0, 1.2] {
            let mut other = *before;
            for (name, cost) in other.ways.all_mut() {
                *cost *= match name {
                    "step" => step,
                    "tested_step" => 2.6,
                    "split" => 9.0,
                    "node" => 1.5,
                    _ => 2.0,
                };
            }
            let models = estimated(&other);
            let measured = CostMeasurement::fitted(before, &models);
            assert!(measured.pays() && measured.measured.mean < 1.01, "{measured:?}");
            assert!(measured.batches >= 2 * models.len() && measured.before.mean > 1.015, "{measured:?}");
            let found = fit(before, models.iter().flatten());
            for timed in models.iter().flatten() {
                let found = Machine { ways: found, ..*before };
                let estimate = found.estimate(&timed.facts, timed.work, timed.rows).expect("a way").seconds();
                let ratio = estimate / timed.seconds;
                assert!((0.85..1.15).contains(&ratio), "{ratio} of {:?}, {} rows", timed.work, timed.rows);
            }
        }
    }

    #[test]
    fn costs_stay_without_times_and_with_times_that_are_none() {
        let before = Machine::shipped()[0];
        assert_eq!(fit(before, std::iter::empty()), before.ways);
        let mut timed = estimated(before).concat();
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            timed.iter_mut().for_each(|timed| timed.seconds = seconds);
            assert_eq!(fit(before, timed.iter()), before.ways);
        }
        let nothing = CostMeasurement::fitted(before, &[]);
        assert!(!nothing.pays() && nothing.batches == 0, "{nothing:?}");
    }

    /// The commands' measurement on a small model.
    #[test]
    fn every_way_that_serves_a_batch_is_timed_once() {
        let model = RandomModel { trees: 20, columns: 8, outputs: 1, deepest: 6, sets: 0 };
        let forest = model.forest().expect("a model");
        for (rows, least) in [(16, 1), (64, 2), (512, 3)] {
            let timed = of_batch(&forest, rows).expect("times");
            assert!(timed.len() >= least, "{rows}: {timed:?}");
            assert!(timed.iter().all(|timed| timed.seconds > 0.0 && timed.rows == rows), "{timed:?}");
            let works: std::collections::HashSet<_> = timed.iter().map(|timed| timed.work).collect();
            assert_eq!(works.len(), timed.len(), "{timed:?}");
        }
    }
}
