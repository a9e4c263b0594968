//! The comparison itself.

use super::{Cell, Difference, Finding, Probes, SelfCheck};
use crate::forest::{Aggregate, CompareType, Forest, Node, Transform, Tree, reference};

/// Why something that is checked gives no result.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
/// What it gives.
pub type RunResult<T> = Result<Vec<T>, Failure>;

/// What is checked: rows in, results out, `None` for those that it does not give. It gives slots, or margins, or values.
pub trait Runner<T> {
    /// What a row's value becomes before it is walked.
    fn cast(&self, value: T) -> T {
        value
    }
    /// Leaf slots of contiguous rows, `rows x trees`, trees in the producer's order.
    fn leaf_slots(&self, rows: &[T]) -> Option<RunResult<u32>>;
    /// Their margins, `rows x outputs`.
    fn margins(&self, rows: &[T]) -> Option<RunResult<f32>>;
    /// Their values, where these come from no margins that could be had.
    fn values(&self, _rows: &[T]) -> Option<RunResult<f32>> {
        None
    }
    /// Whether denormal numbers may be taken for zero in sums.
    fn flushes_denormals(&self) -> bool {
        false
    }
}

/// Steps of the reference interpreter that a quick check may take whatever the model, rows of `f64` included: some 0.15 ms.
/// Measured by `fangorn-benches load`.
const QUICK_STEPS: usize = 8_000;
/// Steps for each node of a large model beside that, as loading it takes longer, too.
const QUICK_STEPS_A_NODE: f64 = 0.03;
/// Values of rows that a quick check makes, at most: 0.1 ms of a wide model.
const QUICK_VALUES: usize = 30_000;
/// Values of a batch of those rows: of more than 7000 columns fewer rows than two blocks have to do.
const QUICK_BATCH: usize = 1 << 20;
/// Leaves of a batch that are added up and held against its margins.
const SUMMED: usize = 1 << 13;
/// Leaves of a batch of them: of more than 28 000 trees fewer rows than two blocks have to do.
const QUICK_SLOTS: usize = 1 << 22;
/// Steps of a full check: about a second.
const FULL_STEPS: usize = 50_000_000;
/// Rows of a round of a full check, values that they have, and slots that the reference finds of them, at most.
const FULL_ROWS: usize = 1024;
const FULL_VALUES: usize = 1 << 23;
const FULL_SLOTS: usize = 1 << 24;
/// Two blocks of 64 rows, and a part of one that fills no vector.
const TWO_BLOCKS: usize = 2 * 64 + 17;
/// Batches of a few rows, as engines take them: one row, a few, and more than a vector holds.
const FEW: [usize; 3] = [1, 5, 17];
/// Batches of a full check: with every kind of remainder of blocks of 16, 64, 128 and 256 rows.
const FULL: [usize; 11] = [1, 2, 7, 16, 31, 63, 64, 80, 129, 200, 257];

/// How much is checked.
struct Plan {
    /// Rows that differ from each other, in a round.
    distinct: usize,
    rounds: usize,
    /// Each row is walked through one tree of so many by the reference, so that a large forest takes no longer.
    one_tree_of: usize,
    batches: Vec<usize>,
    /// Rows of the longest batch whose margins are compared, too.
    summed: usize,
}

/// Steps of a walk through a tree, about: as many as its number of nodes has bits, or of a large tree what its leaves are
/// deep on average, as one that is a chain is much deeper.
fn steps(tree: &Tree) -> usize {
    const LARGE: usize = 1024;
    let nodes = tree.nodes.len().max(1);
    if nodes < LARGE {
        return nodes.ilog2() as usize + 1;
    }
    let (mut sum, mut leaves) = (0, 0);
    let mut open = vec![(0, 1)];
    while let Some((node, steps)) = open.pop() {
        match tree.nodes[node as usize] {
            Node::Split { left, right, .. } => open.extend([(left, steps + 1), (right, steps + 1)]),
            Node::Leaf { .. } => (sum, leaves) = (sum + steps, leaves + 1),
        }
    }
    sum / leaves.max(1) + 1
}

impl Plan {
    /// `whole`: the reference walks every tree for each of its rows, because a kernel that writes sums gives no leaves to
    /// compare one by one.
    /// `wide`: rows are f64.
    fn new(check: &Check<'_>, whole: bool, wide: bool) -> Self {
        let (forest, of_a_row) = (check.forest, check.steps_a_row);
        let (trees, columns) = (forest.trees.len().max(1), forest.features.len().max(1));
        let nodes: usize = forest.trees.iter().map(|tree| tree.nodes.len()).sum();
        let slots = |most: usize| most / (trees * forest.leaf_width().max(1));
        let few = FEW.into_iter();
        match check.extent {
            SelfCheck::Off => Self { distinct: 0, rounds: 0, one_tree_of: 1, batches: Vec::new(), summed: 0 },
            SelfCheck::Quick => {
                let steps = QUICK_STEPS + (nodes as f64 * QUICK_STEPS_A_NODE) as usize;
                // Rows of both types go through it.
                let steps = if forest.compare == CompareType::F64 { steps / 2 } else { steps };
                let least = if whole || 16 * columns > QUICK_BATCH { 3 } else { 16 };
                let distinct = (steps / of_a_row).min(QUICK_VALUES / columns).clamp(least, 512);
                Self {
                    distinct,
                    rounds: 1,
                    one_tree_of: match whole {
                        true => 1,
                        false => (distinct * of_a_row).div_ceil(steps).clamp(1, trees),
                    },
                    // Rows of f64 are slower to walk, and their leaves are added up by the code that adds up those of f32 rows.
                    summed: if wide { FEW[0] } else { usize::MAX },
                    // A device has one kernel for all batches.
                    batches: few
                        .take(if whole { 1 } else { FEW.len() - usize::from(wide) })
                        .chain([distinct.max(TWO_BLOCKS)])
                        .map(|batch| batch.min(QUICK_BATCH / columns).min(slots(QUICK_SLOTS)).max(1))
                        .collect(),
                }
            }
            SelfCheck::Full => {
                let distinct = (FULL_VALUES / columns).min(FULL_SLOTS / trees).clamp(3, FULL_ROWS);
                // Each split from three sides, if every row leads to one that no other has met from there.
                let wanted = (3 * nodes).div_ceil(distinct);
                Self {
                    distinct,
                    rounds: (FULL_STEPS / (distinct * of_a_row)).clamp(1, wanted.max(1)),
                    one_tree_of: 1,
                    summed: usize::MAX,
                    batches: FULL
                        .into_iter()
                        .chain([distinct.max(TWO_BLOCKS)])
                        .map(|batch| batch.min(2 * FULL_VALUES / columns).min(slots(FULL_SLOTS)).max(1))
                        .collect(),
                }
            }
        }
    }
}

/// A check of a forest: what is the same for rows of every type.
pub struct Check<'f> {
    forest: &'f Forest,
    extent: SelfCheck,
    /// Steps that the reference takes with a row, about.
    steps_a_row: usize,
    /// [`Forest::sum_bound`].
    bound: Vec<f64>,
}

impl<'f> Check<'f> {
    /// Linear in the forest's size.
    pub fn new(forest: &'f Forest, extent: SelfCheck) -> Self {
        let steps: usize = forest.trees.iter().map(steps).sum();
        // Sums of vector leaves are as long as these.
        let steps_a_row = steps.max(1) + forest.trees.len() * (forest.leaf_width() / 4);
        Self { forest, extent, steps_a_row, bound: forest.sum_bound() }
    }

    /// Runs it, and gives the first difference. `progress` is told after each round how many there have been, and of how many.
    pub fn run<T: Cell>(
        &self,
        runner: &impl Runner<T>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Option<Difference> {
        if self.forest.features.is_empty() {
            return None;
        }
        let whole = runner.leaf_slots(&[]).is_none();
        let plan = Plan::new(self, whole, size_of::<T>() > size_of::<f32>());
        for round in 0..plan.rounds {
            let difference = one_round(self.forest, &plan, round as u64, runner, &self.bound);
            if difference.is_some() {
                return difference;
            }
            progress(round + 1, plan.rounds);
        }
        None
    }
}

fn one_round<T: Cell>(
    forest: &Forest,
    plan: &Plan,
    seed: u64,
    runner: &impl Runner<T>,
    bound: &[f64],
) -> Option<Difference> {
    // An odd number of rows that differ comes to other places of each block.
    let distinct = plan.distinct | 1;
    let mut probes = Probes::<T>::new(forest, distinct, seed);
    probes.values.iter_mut().for_each(|value| *value = runner.cast(*value));
    let expected = ExpectedSlots::new(forest, &probes, plan.one_tree_of);
    let most = plan.batches.iter().copied().max().unwrap_or(0);
    let mut all = Vec::with_capacity(most * probes.columns);
    (0..most).for_each(|r| all.extend_from_slice(probes.row(r % distinct)));
    // Short batches begin at rows of their own.
    let mut begin = 0;
    for &batch in &plan.batches {
        let first = if begin + batch <= most { begin } else { 0 };
        begin = first + batch;
        let rows = &all[first * probes.columns..][..batch * probes.columns];
        let of = (&expected, (batch <= plan.summed).then_some(bound));
        let found = compare(forest, runner, rows, |r| (first + r) % distinct, of);
        if let Some((row, what)) = found {
            let values = probes.row((first + row) % distinct).iter().map(|v| (*v).into()).collect();
            return Some(Difference { batch, row, values, what });
        }
    }
    None
}

/// The slots of some trees for each row that differs.
struct ExpectedSlots {
    trees: usize,
    one_tree_of: usize,
    /// `rows x trees`, of which those that are walked are set.
    slots: Vec<u32>,
}

impl ExpectedSlots {
    fn new<T: Cell>(forest: &Forest, probes: &Probes<T>, one_tree_of: usize) -> Self {
        let trees = forest.trees.len();
        let mut slots = vec![u32::MAX; probes.rows * trees];
        for (r, slots) in slots.chunks_exact_mut(trees.max(1)).enumerate() {
            for t in (r % one_tree_of..trees).step_by(one_tree_of) {
                let leaf = reference::leaf_node(forest, t, probes.row(r)) as usize;
                slots[t] = forest.trees[t].nodes[leaf].slot().unwrap_or(u32::MAX);
            }
        }
        Self { trees, one_tree_of, slots }
    }

    /// The slots of a row.
    fn row(&self, distinct: usize) -> &[u32] {
        &self.slots[distinct * self.trees..][..self.trees]
    }

    /// The first tree of a row whose slot is another.
    fn differs(&self, distinct: usize, found: &[u32]) -> Option<Finding> {
        let own = self.row(distinct);
        let walked = (distinct % self.one_tree_of..self.trees).step_by(self.one_tree_of);
        walked.into_iter().find(|t| found[*t] != own[*t]).map(|tree| Finding::Leaf {
            tree,
            found: found[tree],
            expected: own[tree],
        })
    }
}

fn compare<T: Cell>(
    forest: &Forest,
    runner: &impl Runner<T>,
    rows: &[T],
    distinct: impl Fn(usize) -> usize,
    (expected, bound): (&ExpectedSlots, Option<&[f64]>),
) -> Option<(usize, Finding)> {
    let (trees, outputs) = (forest.trees.len(), forest.outputs as usize);
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
        // What is not walked by the reference is held against itself.
        if of_row(r).iter().any(|slot| *slot as usize >= past_the_last) {
            return Some((r, Finding::Refused("a leaf slot past the last".into())));
        }
    }
    // Sums of three denormals that a device takes for zero at each addition.
    let denormal = if runner.flushes_denormals() { 3.0 * (trees + 1) as f64 } else { 0.0 };
    let denormal = denormal * f64::from(f32::MIN_POSITIVE);
    let bound = bound?;
    if let Some(margins) = runner.margins(rows) {
        let margins = match margins {
            Ok(margins) => margins,
            Err(e) => return refused(e),
        };
        // Of a large batch some rows, the last of it always among them.
        let apart = (count * trees * forest.leaf_width()).div_ceil(SUMMED).max(1);
        let last = (count - 1) % apart;
        for (r, found) in margins.chunks_exact(outputs).enumerate().skip(last).step_by(apart) {
            let expected = reference::margins_of(forest, of_row(r));
            for (output, (found, expected)) in found.iter().zip(expected).enumerate() {
                if !near(forest.aggregate, *found, expected, bound[output] + denormal) {
                    return Some((r, Finding::Margin { output, found: *found, expected }));
                }
            }
        }
    }
    let (values, allowed) = match (runner.values(rows)?, of_values(forest, bound)) {
        (Ok(values), Some(allowed)) => (values, allowed),
        (Ok(_), None) => return None,
        (Err(e), _) => return refused(e),
    };
    for (r, found) in values.chunks_exact((values.len() / count).max(1)).enumerate() {
        let expected = reference::values_of(forest, &reference::margins_of(forest, of_row(r)));
        for (output, (found, expected)) in found.iter().zip(expected).enumerate() {
            if !near(forest.aggregate, *found, expected, allowed * expected.abs().max(1.0)) {
                return Some((r, Finding::Margin { output, found: *found, expected }));
            }
        }
    }
    None
}

/// How far values may be off, of 1 or of themselves: generously, as a wrong leaf is another number altogether. `None` where a
/// rounding may make them another number, too.
fn of_values(forest: &Forest, bound: &[f64]) -> Option<f64> {
    let most = bound.iter().copied().fold(0.0, f64::max) * forest.scale.0.abs();
    let jumps = matches!(
        forest.transform,
        Transform::Step | Transform::Argmax | Transform::SoftmaxZero | Transform::Probit
    );
    (!jumps && most < 1e-4 && bound.iter().all(|bound| bound.is_finite())).then_some(1e-3)
}

/// Whether a margin is as near to the sum of its leaves as a sum in `f32` comes in any order.
fn near(aggregate: Aggregate, found: f32, expected: f64, bound: f64) -> bool {
    let off = (f64::from(found) - expected).abs();
    // Leaves or sums past what an f32 holds have no bound.
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

    /// Twenty columns, one of them categories, and trees of three levels.
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

    /// The reference with a fault: what becomes of a row's place, and of its slots.
    struct FaultyRunner<'f, P, S> {
        forest: &'f Forest,
        place: P,
        slot: S,
    }

    impl<P: Fn(usize, usize) -> usize, S: Fn(usize, &mut u32)> Runner<f32> for FaultyRunner<'_, P, S> {
        fn leaf_slots(&self, rows: &[f32]) -> Option<RunResult<u32>> {
            let count = rows.len() / 20;
            let row = |r: usize| {
                let mut slots =
                    reference::leaf_slots(self.forest, &rows[(self.place)(r, count) * 20..][..20]);
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

    fn found(place: impl Fn(usize, usize) -> usize, slot: impl Fn(usize, &mut u32)) -> Option<Difference> {
        let forest = forest();
        let faulty = FaultyRunner { forest: &forest, place, slot };
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
        // The second of two blocks is read from the first one's cache.
        assert!(leaf(found(|r, _| if r / 64 == 1 { r - 64 } else { r }, |_, _| {})));
        // The last row of a batch is the one before it.
        assert!(leaf(found(|r, count| if r + 1 == count { r.saturating_sub(1) } else { r }, |_, _| {})));
        // A part of a block that fills no vector is walked from its first row.
        assert!(leaf(found(|r, count| if r >= count / 16 * 16 { count / 16 * 16 } else { r }, |_, _| {})));
        // A table of one tree is off by a place.
        assert!(leaf(found(|r, _| r, |t, slot| *slot = if t == 31 { *slot ^ 1 } else { *slot })));
        // A slot that no tree has.
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
                Some(Ok(margins.enumerate().map(|(r, m)| if r == 130 { m + 0.01 } else { m }).collect()))
            }
        }
        let forest = forest();
        let check = Check::new(&forest, SelfCheck::Quick);
        let found = check.run(&WrongMargins(&forest), &mut |_, _| {}).expect("a difference");
        assert!(matches!(found.what, Finding::Margin { .. }) && found.row == 130, "{found}");
    }
}
