//! Explains the default schedule: the estimates by which it was chosen, and what would change the choice.

use crate::{
    cost::{CHOICE_ROWS, Estimate, ForestFacts, Machine, RankColumns, Work},
    forest::Forest,
    schedule::{Preset, Schedule, cpu_facts, cpu_schedule},
};

/// The largest batch size of [`Explanation::by_batch`], which looks at powers of two.
const LARGEST: usize = 1 << 16;
/// The largest number of columns that [`Explanation::rank_columns`] looks at.
const MOST_COLUMNS: usize = 1 << 20;

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
    /// The ways that the default schedule was chosen among, for [`CHOICE_ROWS`] rows, the fastest first.
    pub options: Vec<Way>,
    /// The ways to evaluate a batch of [`Explanation::rows`] rows, the fastest first.
    pub of_batch: Vec<Way>,
    /// The fastest ways by batch size: each with the number of rows from which on it is the fastest, in ascending
    /// order.
    pub by_batch: Vec<(usize, Work)>,
    /// A number of columns of thresholds with which the choice between blends and walks would be another; with one
    /// column nearer to the forest's number it would not. `None` if none was found.
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
                let (seconds, schedule) = (estimate.seconds(), cpu_schedule(*work));
                Some(Way { work: *work, estimate, seconds, schedule })
            };
            let mut ways: Vec<_> = among.iter().filter_map(way).collect();
            ways.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
            ways
        };
        let mut by_batch: Vec<(usize, Work)> = Vec::new();
        for rows in (0..=LARGEST.ilog2()).map(|power| 1usize << power) {
            let Some(work) = machine.fastest(&facts, &Work::ALL, rows) else { continue };
            if by_batch.last().is_none_or(|(_, last)| *last != work) {
                by_batch.push((rows, work));
            }
        }
        // This machine has its own caches.
        let machines =
            Machine::shipped().map(|other| if other.name == machine.name { machine } else { other });
        let by_machine = machines.into_iter().filter_map(|machine| {
            Some((machine.name, machine.fastest(&facts, &Work::OF_MANY_ROWS, CHOICE_ROWS)?))
        });
        Self {
            rows,
            schedule: Preset::Default.schedule(forest, false),
            options: ways(&Work::OF_MANY_ROWS, CHOICE_ROWS),
            of_batch: ways(&Work::ALL, rows),
            by_batch,
            rank_columns: other_columns(machine, &facts),
            by_machine: by_machine.collect(),
            facts,
        }
    }
}

/// Returns a number of columns of thresholds with which the choice between blends and walks would be another, while
/// with one column nearer to the forest's number it would not. Every column has as many levels of a search as the
/// forest's have on average. It looks at more columns first if blends were chosen, and at fewer first if walks were, in
/// steps that double.
fn other_columns(machine: &Machine, facts: &ForestFacts) -> Option<usize> {
    let now = facts.rank_columns.thresholds;
    let levels = (facts.rank_columns.levels as f64 / now.max(1) as f64).max(1.0);
    let blends = |columns: usize| {
        let levels = (levels * columns as f64) as usize;
        let rank_columns = RankColumns { thresholds: columns, levels, ..facts.rank_columns };
        let facts =
            ForestFacts { columns: (facts.columns + columns).saturating_sub(now), rank_columns, ..*facts };
        machine.fastest(&facts, &Work::OF_MANY_ROWS, CHOICE_ROWS) == Some(Work::Blends)
    };
    let chosen = machine.fastest(facts, &Work::OF_MANY_ROWS, CHOICE_ROWS)? == Work::Blends;
    let most_fewer = now.min(facts.columns);
    let at = |more: bool, by: usize| if more { now + by } else { now - by };
    [chosen, !chosen].into_iter().find_map(|more| {
        let most = if more { MOST_COLUMNS.saturating_sub(now) } else { most_fewer };
        let steps = (0..usize::BITS).map(|power| 1 << power).take_while(|step| *step < most).chain([most]);
        let mut same = 0;
        let mut other = steps.filter(|by| *by > 0).find(|by| {
            let is_other = blends(at(more, *by)) != chosen;
            same = if is_other { same } else { *by };
            is_other
        })?;
        while other - same > 1 {
            let middle = same + (other - same) / 2;
            *if blends(at(more, middle)) == chosen { &mut same } else { &mut other } = middle;
        }
        Some(at(more, other))
    })
}
