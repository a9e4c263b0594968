//! Runs a check: compares the code under check with the reference interpreter.

use std::sync::OnceLock;

use super::{Difference, Finding, Probes, SelfCheck, Value};
use crate::forest::{Aggregate, CompareType, Forest, Node, Transform, Tree, reference};

/// Why the code under check gives no result.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
/// A result of the code under check, or the reason why there is none.
pub type RunResult<T> = Result<Vec<T>, Failure>;

/// The code under check: it takes rows and returns results. A method returns `None` if the code does not give
/// that kind of result. The code gives at least one of leaf slots, margins and values.
pub trait Runner<T> {
    /// Returns the value that the code reads in place of `value`, for example after rounding to the type of
    /// its rows.
    fn cast(&self, value: T) -> T {
        value
    }
    /// Returns the leaf slots of contiguous rows, `rows x trees`, trees in the producer's order.
    fn leaf_slots(&self, rows: &[T]) -> Option<RunResult<u32>>;
    /// Returns the margins of contiguous rows, `rows x outputs`.
    fn margins(&self, rows: &[T]) -> Option<RunResult<f32>>;
    /// Returns the values of contiguous rows, `rows x values`, if the code gives values but not the margins
    /// that they come from.
    fn values(&self, _rows: &[T]) -> Option<RunResult<f32>> {
        None
    }
    /// Returns whether sums may treat denormal numbers as zero.
    fn flushes_denormals(&self) -> bool {
        false
    }
}

/// What is known of the engines under check.
pub(crate) trait Engines {
    /// Returns about how many seconds a batch of `rows` rows takes.
    fn seconds(&self, rows: usize) -> f64;
    /// Returns whether batches of `few` and of `many` rows run through the same engines.
    fn are_same(&self, few: usize, many: usize) -> bool;
}

/// Engines of which nothing is known: each batch may run through others, and takes no time worth saving.
struct UnknownEngines;

impl Engines for UnknownEngines {
    fn seconds(&self, _rows: usize) -> f64 {
        0.0
    }

    fn are_same(&self, _few: usize, _many: usize) -> bool {
        false
    }
}

/// Steps of the reference interpreter that a quick check may take for any model, `f64` rows included: some
/// 0.15 ms. Measured by `fangorn-benches load`.
const QUICK_STEPS: usize = 8_000;
/// Steps that a quick check may take in addition for each node, because loading a large model takes longer,
/// too.
const QUICK_STEPS_A_NODE: f64 = 0.03;
/// Largest number of values in the rows that a quick check makes: 0.1 ms for a wide model.
const QUICK_VALUES: usize = 30_000;
/// Largest number of values in a batch of a quick check. With more than 7000 columns, fewer rows than two
/// row blocks have to do.
const QUICK_BATCH: usize = 1 << 20;
/// Number of leaf values of a batch that are added up and compared with its margins.
const SUMMED: usize = 1 << 12;
/// Largest number of leaf values in a batch of a quick check. With more than 28 000 trees, fewer rows than
/// two row blocks have to do.
const QUICK_SLOTS: usize = 1 << 22;
/// Steps of the reference interpreter that a full check may take: about a second.
const FULL_STEPS: usize = 50_000_000;
/// Largest number of rows in a round of a full check.
const FULL_ROWS: usize = 1024;
/// Largest number of values in the rows of a round of a full check.
const FULL_VALUES: usize = 1 << 23;
/// Largest number of slots that the reference finds in a round of a full check.
const FULL_SLOTS: usize = 1 << 24;
/// Number of rows of a row block.
const ROW_BLOCK: usize = 64;
/// Number of rows of a partial row block that fills no vector.
const PARTIAL: usize = 17;
/// Number of rows of two row blocks and a partial one.
const TWO_BLOCKS: usize = 2 * ROW_BLOCK + PARTIAL;
/// Seconds for which the code under check may run the row blocks of a quick check that are not necessary.
const QUICK_SECONDS: f64 = 6e-5;
/// Batches of a few rows, as engines take them: one row, a few, and more than a vector holds.
const FEW: [usize; 3] = [1, 3, PARTIAL];
/// Batches of a full check, with every kind of remainder of row blocks of 16, 64, 128 and 256 rows.
const FULL: [usize; 11] = [1, 2, 7, 16, 31, 63, 64, 80, 129, 200, 257];

/// How much a check compares.
struct Scope {
    /// Number of different rows in a round.
    distinct: usize,
    rounds: usize,
    /// The reference walks each row through one of this many trees, so that checking a large forest takes no
    /// longer.
    one_tree_of: usize,
    /// Steps that the reference may take in a round. No walk begins after them.
    steps: usize,
    batches: Vec<Batch>,
}

/// A batch of a check, in rows.
#[derive(Clone, Copy)]
struct Batch {
    rows: usize,
    /// The margins of this many rows are compared, too.
    summed: usize,
}

impl Batch {
    /// Returns a batch whose margins are all compared.
    fn summed(rows: usize) -> Self {
        Self { rows, summed: rows }
    }

    /// Returns the batch with at most `rows` rows, and at least one.
    fn at_most(self, rows: usize) -> Self {
        let rows = self.rows.min(rows).max(1);
        Self { rows, summed: self.summed.min(rows) }
    }
}

/// Returns about how many steps a walk through a tree takes if the tree is balanced.
fn balanced_steps(tree: &Tree) -> usize {
    tree.nodes.len().max(1).ilog2() as usize + 1
}

/// Returns about how many steps a walk through a tree takes. For a large tree it is the average depth of the
/// leaves, because a tree that is a chain is much deeper than a balanced one.
fn average_steps(tree: &Tree) -> usize {
    const LARGE: usize = 1024;
    if tree.nodes.len() < LARGE {
        return balanced_steps(tree);
    }
    let (mut sum, mut leaves) = (0usize, 0);
    let mut open = vec![(0, 1)];
    while let Some((node, steps)) = open.pop() {
        match tree.nodes[node as usize] {
            Node::Split { left, right, .. } => open.extend([(left, steps + 1), (right, steps + 1)]),
            Node::Leaf { .. } => (sum, leaves) = (sum.saturating_add(steps), leaves + 1),
        }
    }
    sum / leaves.max(1) + 1
}

/// Returns about how many steps the reference takes with a row, by the steps of a walk through a tree.
fn steps_of_a_row(forest: &Forest, of_tree: impl Fn(&Tree) -> usize) -> usize {
    let steps = forest.trees.iter().map(of_tree).fold(1, usize::saturating_add);
    // To add up a vector leaf takes about a step for every four of its values.
    steps.saturating_add(forest.trees.len().saturating_mul(forest.leaf_width() / 4))
}

impl Scope {
    /// Decides how much a check of `engines` compares. With `whole`, the reference walks every tree for each of its
    /// rows, because a kernel that writes sums gives no leaves to compare one by one. `wide` says that rows are `f64`.
    fn new(forest: &Forest, extent: SelfCheck, whole: bool, wide: bool, engines: &dyn Engines) -> Self {
        let (trees, columns) = (forest.trees.len().max(1), forest.features.len().max(1));
        let nodes: usize = forest.trees.iter().map(|tree| tree.nodes.len()).sum();
        let slots = |most: usize| most / (trees * forest.leaf_width().max(1));
        match extent {
            SelfCheck::Off => Self { distinct: 0, rounds: 0, one_tree_of: 1, steps: 0, batches: Vec::new() },
            SelfCheck::Quick => {
                let of_a_row = match whole {
                    true => steps_of_a_row(forest, average_steps),
                    false => steps_of_a_row(forest, balanced_steps),
                };
                let steps = QUICK_STEPS + (nodes as f64 * QUICK_STEPS_A_NODE) as usize;
                // A forest that compares in `f64` is checked with rows of both types, so each type has half
                // the steps.
                let steps = if forest.compare == CompareType::F64 { steps / 2 } else { steps };
                let least = if whole || 16 * columns > QUICK_BATCH { 3 } else { 16 };
                let distinct = (steps / of_a_row).min(QUICK_VALUES / columns).clamp(least, 512);
                // Two row blocks of leaf slots, and a partial row block for all else, are always run.
                let slow = 4.0 * engines.seconds(ROW_BLOCK) > QUICK_SECONDS;
                let large = if slow { 2 * ROW_BLOCK } else { distinct.max(TWO_BLOCKS) };
                let others = if slow { PARTIAL } else { ROW_BLOCK + PARTIAL };
                let mut batches: Vec<Batch> = match (whole, wide) {
                    // A device has one kernel for all batches, so one short batch is enough.
                    (true, _) => [FEW[0], large].map(Batch::summed).into(),
                    (false, false) => {
                        // Fewer rows than a vector holds may take another path through the same engines.
                        let repeats = |few: &usize| *few == PARTIAL && engines.are_same(*few, large);
                        let few = FEW.into_iter().filter(|few| !repeats(few));
                        let large = Batch { rows: large, summed: others };
                        few.map(Batch::summed).chain([large]).collect()
                    }
                    // The code that adds up the leaf values of `f32` rows adds up theirs.
                    (false, true) => vec![Batch::summed(FEW[0]), Batch { rows: others, summed: 0 }],
                };
                let most = (QUICK_BATCH / columns).min(slots(QUICK_SLOTS));
                batches.iter_mut().for_each(|batch| *batch = batch.at_most(most));
                let one_tree_of = distinct.saturating_mul(of_a_row).div_ceil(steps).clamp(1, trees);
                let (one_tree_of, steps) = if whole { (1, usize::MAX) } else { (one_tree_of, 2 * steps) };
                Self { distinct, rounds: 1, one_tree_of, steps, batches }
            }
            SelfCheck::Full => {
                let of_a_row = steps_of_a_row(forest, average_steps);
                let distinct = (FULL_VALUES / columns).min(FULL_SLOTS / trees).clamp(3, FULL_ROWS);
                // Three rows for each node: each row leads to a split from a side that no other row has met
                // it from.
                let wanted = (3 * nodes).div_ceil(distinct);
                let most = (2 * FULL_VALUES / columns).min(slots(FULL_SLOTS));
                let batches = FULL.into_iter().chain([distinct.max(TWO_BLOCKS)]);
                Self {
                    distinct,
                    rounds: (FULL_STEPS / (distinct * of_a_row)).clamp(1, wanted.max(1)),
                    one_tree_of: 1,
                    steps: usize::MAX,
                    batches: batches.map(|rows| Batch::summed(rows).at_most(most)).collect(),
                }
            }
        }
    }
}

/// A check of a forest: all that does not depend on the type of the rows.
pub struct Check<'f> {
    forest: &'f Forest,
    extent: SelfCheck,
    /// The forest's [`Forest::sum_bound`], which takes as long as reading every leaf value. Most margins are so
    /// near that nobody asks for it.
    bound: OnceLock<Vec<f64>>,
}

impl<'f> Check<'f> {
    /// Prepares a check.
    pub fn new(forest: &'f Forest, extent: SelfCheck) -> Self {
        Self { forest, extent, bound: OnceLock::new() }
    }

    /// Runs the check and returns the first difference. After each round it calls `progress` with the number
    /// of rounds done and of all rounds.
    pub fn run<T: Value>(
        &self,
        runner: &impl Runner<T>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Option<Difference> {
        self.run_on(runner, &UnknownEngines, progress)
    }

    /// Like [`Self::run`], but leaves out of a quick check what repeats or takes too long by `engines`.
    pub(crate) fn run_on<T: Value>(
        &self,
        runner: &impl Runner<T>,
        engines: &dyn Engines,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Option<Difference> {
        if self.forest.features.is_empty() {
            return None;
        }
        let whole = runner.leaf_slots(&[]).is_none();
        let scope = Scope::new(self.forest, self.extent, whole, size_of::<T>() > size_of::<f32>(), engines);
        for round in 0..scope.rounds {
            let difference = self.one_round(&scope, round as u64, runner);
            if difference.is_some() {
                return difference;
            }
            progress(round + 1, scope.rounds);
        }
        None
    }

    fn bound(&self) -> &[f64] {
        self.bound.get_or_init(|| self.forest.sum_bound())
    }

    fn one_round<T: Value>(&self, scope: &Scope, seed: u64, runner: &impl Runner<T>) -> Option<Difference> {
        // With an odd number of different rows, a row's repetitions fall on different rows of the row blocks.
        let distinct = scope.distinct | 1;
        let mut probes = Probes::<T>::new(self.forest, distinct, seed);
        probes.values.iter_mut().for_each(|value| *value = runner.cast(*value));
        let expected = ExpectedSlots::new(self.forest, &probes, scope);
        let most = scope.batches.iter().map(|batch| batch.rows).max().unwrap_or(0);
        let mut all = Vec::with_capacity(most * probes.columns);
        (0..most).for_each(|r| all.extend_from_slice(probes.row(r % distinct)));
        // Short batches begin at different rows.
        let mut begin = 0;
        for batch in &scope.batches {
            let first = if begin + batch.rows <= most { begin } else { 0 };
            begin = first + batch.rows;
            let rows = &all[first * probes.columns..][..batch.rows * probes.columns];
            let found = self.compare(runner, rows, batch.summed, &expected, |r| (first + r) % distinct);
            if let Some((row, what)) = found {
                let values = probes.row((first + row) % distinct).iter().map(|v| (*v).into()).collect();
                return Some(Difference { batch: batch.rows, row, values, what });
            }
        }
        None
    }

    /// Compares the results of a batch, and the margins of its first `summed` rows.
    fn compare<T: Value>(
        &self,
        runner: &impl Runner<T>,
        rows: &[T],
        summed: usize,
        expected: &ExpectedSlots,
        distinct: impl Fn(usize) -> usize,
    ) -> Option<(usize, Finding)> {
        let forest = self.forest;
        let trees = forest.trees.len();
        let past_the_last = forest.leaf_count();
        let refused = |e: Failure| Some((0, Finding::Refused(e.to_string())));
        let count = rows.len() / forest.features.len();
        let slots = match runner.leaf_slots(rows) {
            Some(Ok(slots)) => slots,
            Some(Err(e)) => return refused(e),
            None => (0..count).flat_map(|r| expected.row(distinct(r))).copied().collect(),
        };
        let of_row = |r: usize| slots.get(r * trees..(r + 1) * trees).unwrap_or(&[]);
        for r in 0..count {
            if let Some(found) = expected.differs(distinct(r), of_row(r)) {
                return Some((r, found));
            }
            // A slot in a tree that the reference has not walked only has to exist.
            if of_row(r).iter().any(|slot| *slot as usize >= past_the_last) {
                return Some((r, Finding::Refused("a leaf slot past the last".into())));
            }
        }
        if summed == 0 {
            return None;
        }
        let rows = &rows[..summed * forest.features.len()];
        match runner.margins(rows) {
            Some(Ok(margins)) => {
                if let Some(found) =
                    self.compare_margins(&margins, summed, runner.flushes_denormals(), of_row)
                {
                    return Some(found);
                }
            }
            Some(Err(e)) => return refused(e),
            None => {}
        }
        match runner.values(rows)? {
            Ok(values) => self.compare_values(&values, summed, of_row),
            Err(e) => refused(e),
        }
    }

    /// Compares margins of `rows` rows with the sums of the rows' leaf values. `of_row` returns a row's leaf slots.
    fn compare_margins<'s>(
        &self,
        margins: &[f32],
        rows: usize,
        flushes_denormals: bool,
        of_row: impl Fn(usize) -> &'s [u32],
    ) -> Option<(usize, Finding)> {
        let forest = self.forest;
        let (trees, outputs) = (forest.trees.len(), forest.outputs as usize);
        // A device that flushes denormals may treat three denormal numbers as zero at each addition: both
        // operands and the sum.
        let denormal = if flushes_denormals { 3.0 * (trees + 1) as f64 } else { 0.0 };
        let denormal = denormal * f64::from(f32::MIN_POSITIVE);
        // In a large batch, only some rows are compared. The last row is always one of them.
        let apart = (rows * trees * forest.leaf_width()).div_ceil(SUMMED).max(1);
        let last = (rows - 1) % apart;
        for (r, found) in margins.chunks_exact(outputs).enumerate().skip(last).step_by(apart) {
            let expected = reference::margins_of(forest, of_row(r));
            let near_sum = forest.sum_bound_of(of_row(r));
            for (output, (found, expected)) in found.iter().zip(expected).enumerate() {
                let is_near = |bound: f64| near(forest.aggregate, *found, expected, bound + denormal);
                if !is_near(near_sum[output]) && !is_near(self.bound()[output]) {
                    return Some((r, Finding::Margin { output, found: *found, expected }));
                }
            }
        }
        None
    }

    /// Compares values of `rows` rows with those of the reference interpreter. `of_row` returns a row's leaf
    /// slots.
    fn compare_values<'s>(
        &self,
        values: &[f32],
        rows: usize,
        of_row: impl Fn(usize) -> &'s [u32],
    ) -> Option<(usize, Finding)> {
        let forest = self.forest;
        let allowed = of_values(forest, self.bound())?;
        for (r, found) in values.chunks_exact((values.len() / rows).max(1)).enumerate() {
            let expected = reference::values_of(forest, &reference::margins_of(forest, of_row(r)));
            for (output, (found, expected)) in found.iter().zip(expected).enumerate() {
                if !near(forest.aggregate, *found, expected, allowed * expected.abs().max(1.0)) {
                    return Some((r, Finding::Margin { output, found: *found, expected }));
                }
            }
        }
        None
    }
}

/// The leaf slots that the reference interpreter finds for each distinct row, in the trees that it walks.
struct ExpectedSlots {
    trees: usize,
    /// The slots, `rows x trees`. A tree that was not walked has [`NOT_WALKED`].
    slots: Vec<u32>,
}

/// Stands for the slot of a tree that the reference has not walked.
const NOT_WALKED: u32 = u32::MAX;

impl ExpectedSlots {
    fn new<T: Value>(forest: &Forest, probes: &Probes<T>, scope: &Scope) -> Self {
        let trees = forest.trees.len();
        let mut slots = vec![NOT_WALKED; probes.rows * trees];
        let mut left = scope.steps;
        'rows: for (r, slots) in slots.chunks_exact_mut(trees.max(1)).enumerate() {
            for t in (r % scope.one_tree_of..trees).step_by(scope.one_tree_of) {
                if left == 0 {
                    break 'rows;
                }
                let (leaf, splits) = reference::walk(forest, t, probes.row(r));
                left = left.saturating_sub(splits + 1);
                slots[t] = forest.trees[t].nodes[leaf as usize].slot().unwrap_or(NOT_WALKED);
            }
        }
        Self { trees, slots }
    }

    /// Returns the slots of a row.
    fn row(&self, distinct: usize) -> &[u32] {
        &self.slots[distinct * self.trees..][..self.trees]
    }

    /// Returns the first tree of a row in which another slot was found.
    fn differs(&self, distinct: usize, found: &[u32]) -> Option<Finding> {
        let own = self.row(distinct);
        let tree = (0..self.trees).find(|t| own[*t] != NOT_WALKED && found.get(*t) != Some(&own[*t]))?;
        Some(Finding::Leaf {
            tree,
            found: found.get(tree).copied().unwrap_or(NOT_WALKED),
            expected: own[tree],
        })
    }
}

/// Returns how far a value may be off, relative to the larger of 1 and its magnitude. The limit is generous,
/// because a wrong leaf gives another number altogether. It is `None` if rounding alone may give another
/// number.
fn of_values(forest: &Forest, bound: &[f64]) -> Option<f64> {
    let most = bound.iter().copied().fold(0.0, f64::max) * forest.scale.0.abs();
    let jumps = matches!(
        forest.transform,
        Transform::Step | Transform::Argmax | Transform::SoftmaxZero | Transform::Probit
    );
    (!jumps && most < 1e-4 && bound.iter().all(|bound| bound.is_finite())).then_some(1e-3)
}

/// Returns whether a margin is as near to the sum of its leaf values as an `f32` sum in any order is.
fn near(aggregate: Aggregate, found: f32, expected: f64, bound: f64) -> bool {
    let off = (f64::from(found) - expected).abs();
    // Leaf values or sums that an `f32` can't hold have no bound.
    let beyond = !bound.is_finite() || expected.abs() >= f64::from(f32::MAX);
    let unit = match aggregate {
        Aggregate::Sum => 0.0,
        Aggregate::Min | Aggregate::Max => expected.abs() * f64::from(f32::EPSILON),
    };
    beyond || f64::from(found) == expected || (found.is_nan() && expected.is_nan()) || off <= bound + unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forest::{CategoryRule, Predicate, Real, Side};

    /// Returns a forest on twenty columns, one of them categories, with trees of three levels.
    fn forest() -> Forest {
        let mut builder = Forest::builder(20, 1);
        let set = builder.set([1, 2, 5, 40], CategoryRule::NotNegative);
        for t in 0..40u32 {
            let mut tree = builder.tree(0);
            for node in 0..7 {
                let feature = (t * 7 + node * 3) % 20;
                let predicate = match feature {
                    7 => Predicate::InSet { set, inside: Side::Left },
                    _ => Predicate::Less { threshold: Real(((t * 7 + node) as f32).sqrt().into()) },
                };
                let missing = if (t + node) % 2 == 0 { Side::Left } else { Side::Right };
                tree.split(feature, predicate, missing, 2 * node + 1, 2 * node + 2);
            }
            for leaf in 7..15 {
                tree.leaf(leaf, &[f64::from(t * 15 + leaf) * 0.01]);
            }
        }
        builder.build().expect("a forest")
    }

    /// The reference interpreter with a fault: `row` changes which row is read, and `slot` changes the
    /// slots.
    struct FaultyRunner<'f, P, S> {
        forest: &'f Forest,
        row: P,
        slot: S,
    }

    impl<P: Fn(usize, usize) -> usize, S: Fn(usize, &mut u32)> Runner<f32> for FaultyRunner<'_, P, S> {
        fn leaf_slots(&self, rows: &[f32]) -> Option<RunResult<u32>> {
            let count = rows.len() / 20;
            let row = |r: usize| {
                let mut slots = reference::leaf_slots(self.forest, &rows[(self.row)(r, count) * 20..][..20]);
                slots.iter_mut().enumerate().for_each(|(t, slot)| (self.slot)(t, slot));
                slots
            };
            Some(Ok((0..count).flat_map(row).collect()))
        }

        fn margins(&self, rows: &[f32]) -> Option<RunResult<f32>> {
            let margin = |row: &[f32]| reference::margins(self.forest, row)[0] as f32;
            Some(Ok(rows.chunks_exact(20).map(margin).collect()))
        }
    }

    fn found(row: impl Fn(usize, usize) -> usize, slot: impl Fn(usize, &mut u32)) -> Option<Difference> {
        let forest = forest();
        let faulty = FaultyRunner { forest: &forest, row, slot };
        Check::new(&forest, SelfCheck::Quick).run(&faulty, &mut |_, _| {})
    }

    #[test]
    fn a_right_engine_passes() {
        assert_eq!(found(|r, _| r, |_, _| {}), None);
    }

    #[test]
    fn faults_as_engines_have_them_are_found() {
        let leaf =
            |found: Option<Difference>| matches!(found, Some(Difference { what: Finding::Leaf { .. }, .. }));
        // The engine reads the second of two row blocks from the first one's cache.
        assert!(leaf(found(|r, _| if r / 64 == 1 { r - 64 } else { r }, |_, _| {})));
        // The engine takes the row before for the last row of a batch.
        assert!(leaf(found(|r, count| if r + 1 == count { r.saturating_sub(1) } else { r }, |_, _| {})));
        // The engine walks a partial row block that fills no vector from its first row.
        assert!(leaf(found(|r, count| if r >= count / 16 * 16 { count / 16 * 16 } else { r }, |_, _| {})));
        // The engine's table of one tree is off by one slot.
        assert!(leaf(found(|r, _| r, |t, slot| *slot = if t == 31 { *slot ^ 1 } else { *slot })));
        // The engine gives a slot that no tree has.
        assert!(found(|r, _| r, |t, slot| *slot = if t == 0 { u32::MAX } else { *slot }).is_some());
    }

    #[test]
    fn margins_that_are_not_their_leaves_sums_are_found() {
        struct WrongMargins<'f>(&'f Forest);
        impl Runner<f32> for WrongMargins<'_> {
            fn leaf_slots(&self, rows: &[f32]) -> Option<RunResult<u32>> {
                Some(Ok(rows.chunks_exact(20).flat_map(|row| reference::leaf_slots(self.0, row)).collect()))
            }
            fn margins(&self, rows: &[f32]) -> Option<RunResult<f32>> {
                let margins = rows.chunks_exact(20).map(|row| reference::margins(self.0, row)[0] as f32);
                Some(Ok(margins.enumerate().map(|(r, m)| if r == 80 { m + 0.01 } else { m }).collect()))
            }
        }
        let forest = forest();
        let check = Check::new(&forest, SelfCheck::Quick);
        let found = check.run(&WrongMargins(&forest), &mut |_, _| {}).expect("a difference");
        assert!(matches!(found.what, Finding::Margin { .. }) && found.row == 80, "{found}");
    }

    /// Returns `count` trees with a split in each of `depth` levels, whose rows mostly go on to the next level.
    fn chains(count: usize, depth: u32) -> Forest {
        let mut builder = Forest::builder(depth as usize, 1);
        for _ in 0..count {
            let mut tree = builder.tree(0);
            for level in 0..depth {
                let at = 2 * level;
                tree.split(
                    level,
                    Predicate::Less { threshold: Real(f32::MAX.into()) },
                    Side::Left,
                    at + 2,
                    at + 1,
                );
                tree.leaf(at + 1, &[0.5]);
            }
            tree.leaf(2 * depth, &[1.0]);
        }
        builder.build().expect("a forest")
    }

    #[test]
    fn a_quick_check_takes_few_steps_of_deep_trees() {
        let forest = chains(50, 3000);
        let scope = Scope::new(&forest, SelfCheck::Quick, false, false, &UnknownEngines);
        let probes = Probes::<f32>::new(&forest, 17, 0);
        let expected = ExpectedSlots::new(&forest, &probes, &scope);
        let splits = |(r, t): (usize, usize)| reference::walk(&forest, t, probes.row(r)).1;
        let walked = (0..17 * 50).filter(|i| expected.slots[*i] != NOT_WALKED).map(|i| (i / 50, i % 50));
        let taken: usize = walked.map(splits).sum();
        assert!(taken > 0 && taken <= scope.steps + 3000, "{taken} of {}", scope.steps);
    }

    #[test]
    fn the_forests_bound_decides_where_the_rows_own_bound_does_not_hold() {
        struct Off<'f>(&'f Forest, f64);
        impl Runner<f32> for Off<'_> {
            fn leaf_slots(&self, rows: &[f32]) -> Option<RunResult<u32>> {
                Some(Ok(rows.iter().flat_map(|x| reference::leaf_slots(self.0, &[*x])).collect()))
            }
            fn margins(&self, rows: &[f32]) -> Option<RunResult<f32>> {
                let margin = |x: &f32| (reference::margins(self.0, &[*x])[0] + self.1) as f32;
                Some(Ok(rows.iter().map(margin).collect()))
            }
        }
        // No row reaches the leaf that makes the forest's bound large.
        let mut builder = Forest::builder(1, 1);
        let mut tree = builder.tree(0);
        tree.split(0, Predicate::Always, Side::Left, 1, 2);
        tree.leaf(1, &[1.0]);
        tree.leaf(2, &[1e6]);
        let forest = builder.build().expect("a forest");
        let (own, all) = (forest.sum_bound_of(&[0])[0], forest.sum_bound()[0]);
        assert!(own * 1e5 < all, "{own} {all}");
        let found = |off: f64| {
            Check::new(&forest, SelfCheck::Quick).run(&Off(&forest, off), &mut |_, _| {}).is_some()
        };
        assert!(!found(0.0) && !found(own * 100.0) && found(all * 2.0));
    }
}
