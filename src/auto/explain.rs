//! Explains the default schedule: the estimates by which it was chosen, and what would change the choice.

use crate::{
    cost::{BLENDED_ROWS, Estimate, ForestFacts, Machine, ROW_BLOCK, Work},
    forest::Forest,
    schedule::{Preset, Schedule, cpu_facts, cpu_schedule},
};

/// The ways that the default schedule is chosen among.
const CHOSEN_AMONG: [Work; 3] = [Work::Blends, Work::UntestedWalks, Work::TestedWalks];
/// The largest batch size of [`Explanation::by_batch`], which looks at powers of two.
const LARGEST: usize = 1 << 16;

/// The reasons for a forest's default schedule on this machine's CPU.
///
/// ```
/// use fangorn::{auto::Explanation, cost::Work, import};
///
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
/// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
/// let why = Explanation::new(&forest, 64);
/// assert!(why.options.is_sorted_by(|a, b| a.seconds <= b.seconds));
/// assert_eq!(why.options[0].schedule, why.schedule);
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Number of rows of the batch that was asked about.
    pub rows: usize,
    /// The numbers that describe the forest.
    pub facts: ForestFacts,
    /// The default schedule.
    pub schedule: Schedule,
    /// The ways that the default schedule was chosen among, for [`BLENDED_ROWS`] rows, the fastest first.
    pub options: Vec<Way>,
    /// The ways to evaluate a batch of [`Explanation::rows`] rows, the fastest first.
    pub of_batch: Vec<Way>,
    /// The fastest ways by batch size: each with the number of rows from which on it is the fastest, in ascending
    /// order.
    pub by_batch: Vec<(usize, Work)>,
    /// If blends were chosen, the least number of columns of thresholds with which walks would take less time. If walks
    /// were chosen, the greatest number with which blends would. `None` if no number would change the choice.
    pub rank_columns: Option<usize>,
    /// For each machine with shipped costs: its name, and the way that its costs would choose.
    pub by_machine: Vec<(&'static str, Work)>,
}

/// A way to evaluate a batch, with its estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// The way.
    pub work: Work,
    /// The estimate.
    pub estimate: Estimate,
    /// The sum of the estimate's terms: seconds of the batch on one thread.
    pub seconds: f64,
    /// A schedule that evaluates batches in this way.
    pub schedule: Schedule,
}

impl Explanation {
    /// Explains the default schedule for a forest that verifies, and how it serves a batch of `rows` rows.
    pub fn new(forest: &Forest, rows: usize) -> Self {
        let machine = Machine::here();
        let stats = forest.stats();
        let facts = cpu_facts(forest, &stats);
        let ways = |among: &[Work], rows: usize| {
            let way = |work: &Work| {
                let estimate = machine.estimate(&facts, *work, rows)?;
                let (seconds, schedule) = (estimate.seconds(), cpu_schedule(*work, &stats));
                Some(Way { work: *work, estimate, seconds, schedule })
            };
            let mut ways: Vec<_> = among.iter().filter_map(way).collect();
            ways.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
            ways
        };
        let mut by_batch: Vec<(usize, Work)> = Vec::new();
        for rows in (0..=LARGEST.ilog2()).map(|power| 1usize << power) {
            let Some(work) = fastest(machine, &facts, &Work::ALL, rows) else { continue };
            if by_batch.last().is_none_or(|(_, last)| *last != work) {
                by_batch.push((rows, work));
            }
        }
        let by_machine = Machine::shipped().into_iter().filter_map(|machine| {
            Some((machine.name, fastest(machine, &facts, &CHOSEN_AMONG, BLENDED_ROWS)?))
        });
        Self {
            rows,
            schedule: Preset::Default.schedule(forest, false),
            options: ways(&CHOSEN_AMONG, BLENDED_ROWS),
            of_batch: ways(&Work::ALL, rows),
            by_batch,
            rank_columns: other_columns(machine, &facts),
            by_machine: by_machine.collect(),
            facts,
        }
    }
}

/// Returns the way with the least estimate.
fn fastest(machine: &Machine, facts: &ForestFacts, among: &[Work], rows: usize) -> Option<Work> {
    let seconds = |work: &Work| machine.estimate(facts, *work, rows).map(|e| (e.seconds(), *work));
    among.iter().filter_map(seconds).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, work)| work)
}

/// Returns the number of columns of thresholds at which the choice between blends and walks changes. A column costs
/// blends its ranking, and walks its copy.
fn other_columns(machine: &Machine, facts: &ForestFacts) -> Option<usize> {
    let seconds = |work| machine.estimate(facts, work, BLENDED_ROWS).map(|e| e.seconds());
    let walks = seconds(Work::UntestedWalks)?.min(seconds(Work::TestedWalks)?);
    let blends = seconds(Work::Blends)?;
    let of_column = (BLENDED_ROWS / ROW_BLOCK) as f64 * (machine.ways.thresholds - machine.ways.column);
    let (now, between) = (facts.rank_columns.0, (walks - blends) / of_column);
    match between > 0.0 {
        true => Some(now + between.ceil() as usize),
        false => {
            let fewer = (-between).ceil() as usize;
            (fewer <= now.min(facts.columns)).then(|| now - fewer)
        }
    }
}
