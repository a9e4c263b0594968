//! Margins: adds up a row's leaf values to one number for each output, under a contract of sums.

use std::{cell::RefCell, ops::Range};

use super::{
    addend::{Addend, with_scratch},
    emit::{LeafSlots, Sums},
    program::Program,
    ranking::{Ranked, ranked},
    rows::{Row, Rows, RowsOfType, with_rows},
    sink::SharedBuffer,
    widest::{Loops, widest},
};
use crate::{
    cost::{Machine, ROW_BLOCK},
    error::{Error, Result},
    forest::{Aggregate, Forest, Real, Targets},
    parallel,
    plan::Extents,
    sum::{Accumulator, Contract, FixedPoint},
};

/// Slots that a thread holds at a time if it computes margins from slots.
const SLOTS_AT_A_TIME: usize = 1 << 16;
/// Sums of a row block to which wide leaf vectors are added.
const SUMS_AT_A_TIME: usize = 1 << 15;
/// Largest number of partial sums held at a time. Longer batches run in pieces.
const MOST_PARTIALS: usize = 1 << 26;
/// Largest number of sums in another type than the result's held at a time. Longer batches run in pieces.
const MOST_TOTALS: usize = 1 << 20;

/// How a program adds up a forest's leaf values, with the numbers that a contract needs besides their `f32` values.
#[derive(Clone, Debug)]
pub enum SumMethod {
    /// Adds in `f32`, in the order of the walks.
    Any,
    /// Adds wide leaf vectors in `f32`, in the producer's order, after the walks.
    Vectors,
    /// Adds in `f32`, in the producer's order.
    Singles { order: Order },
    /// Adds in `f64`, in the producer's order.
    Doubles { leaves: Vec<f64>, base: Vec<f64>, order: Order },
    /// Adds integers.
    Fixed(FixedPoint),
}

/// How additions get into the producer's order.
#[derive(Clone, Debug)]
pub enum Order {
    /// The walks of each row come in the producer's order.
    Walks,
    /// A run first writes slots, and then their leaf values are added in order. Holds the output of each tree; `None`
    /// if leaves are vectors.
    Slots(Option<Vec<u32>>),
}

impl SumMethod {
    /// Returns how to add up a verified forest under a contract. `ordered` says whether the walks of all plans come in
    /// the producer's order.
    ///
    /// # Errors
    /// The contract is `exact`, trees are added up, and [`FixedPoint::new`] refuses the forest.
    pub(crate) fn new(contract: Contract, forest: &Forest, ordered: bool) -> Result<Self> {
        let order = || match (ordered, &forest.targets) {
            (true, _) => Order::Walks,
            (false, Targets::One(outputs)) => Order::Slots(Some(outputs.clone())),
            (false, Targets::All) => Order::Slots(None),
        };
        Ok(match contract {
            // The least or largest leaf is the same in every order.
            _ if forest.aggregate != Aggregate::Sum => Self::Any,
            Contract::Any if is_wide(forest) => Self::Vectors,
            Contract::Any => Self::Any,
            Contract::Exact => Self::Fixed(FixedPoint::of_verified(forest)?),
            Contract::Tree => match Accumulator::of(forest) {
                Accumulator::F32 => Self::Singles { order: order() },
                Accumulator::F64 => {
                    let reals = |values: &[Real]| values.iter().map(|v| v.0).collect();
                    let (leaves, base) = (reals(&forest.leaf_values), reals(&forest.base_score));
                    Self::Doubles { leaves, base, order: order() }
                }
            },
        })
    }
}

/// The numbers that are added up.
#[derive(Clone, Copy)]
struct Addends<'a, A> {
    /// Leaf values, by slot.
    leaves: &'a [A],
    /// Base scores, by output.
    base: &'a [A],
}

/// Returns whether leaves are vectors of so many values that they are added after the walks.
fn is_wide(forest: &Forest) -> bool {
    let width = forest.leaf_width();
    width > 1 && Machine::here().leaf_vectors.are_added_after_walks(width)
}

/// Adds to the sums of each row the vectors of its leaves.
struct VectorSums<'s> {
    /// `rows x trees`.
    slots: &'s [u32],
    trees: usize,
    leaves: &'s [f32],
    outputs: usize,
    /// `rows x outputs`.
    sums: &'s mut [f32],
}

impl Loops for VectorSums<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        for tree in 0..self.trees {
            let of_tree = self.slots[tree..].iter().step_by(self.trees);
            for (sums, slot) in self.sums.chunks_exact_mut(self.outputs).zip(of_tree) {
                let leaf = &self.leaves[*slot as usize * self.outputs..][..self.outputs];
                sums.iter_mut().zip(leaf).for_each(|(sum, value)| *sum += value);
            }
        }
    }
}

impl Program {
    /// Writes `rows x outputs` margins. `leaves` are the leaf values by slot, added up in `f32` in the order
    /// of the walks.
    ///
    /// # Errors
    /// `rows`, `leaves` or `out` has another shape than the forest needs.
    pub fn margins<T: Row>(&self, rows: &Rows<'_, T>, leaves: &[f32], out: &mut [f32]) -> Result<()> {
        self.margins_by(&SumMethod::Any, rows, leaves, out)
    }

    /// Like [`Self::margins`], but adds as `summing` says. Only contracts that add `f32` values read `leaves`.
    pub(crate) fn margins_by<T: Row>(
        &self,
        summing: &SumMethod,
        rows: &Rows<'_, T>,
        leaves: &[f32],
        out: &mut [f32],
    ) -> Result<()> {
        self.margins_of_type(summing, rows.of_type(), leaves, out)
    }

    fn margins_of_type(
        &self,
        summing: &SumMethod,
        rows: RowsOfType<'_, '_>,
        leaves: &[f32],
        out: &mut [f32],
    ) -> Result<()> {
        with_rows!(rows, rows => self.margins_as(summing, rows, leaves, out))
    }

    fn margins_as<T: Row>(
        &self,
        summing: &SumMethod,
        rows: &Rows<'_, T>,
        leaves: &[f32],
        out: &mut [f32],
    ) -> Result<()> {
        self.check(rows, out.len(), self.outputs())?;
        if leaves.len() != self.leaves.len() {
            return Err(Error::Rows(format!(
                "{} leaf values, the forest has {}",
                leaves.len(),
                self.leaves.len()
            )));
        }
        match &self.ranker {
            None => self.margins_of(summing, rows, leaves, out),
            Some(_) if self.ranks_in_windows() => self.margins_of(summing, rows, leaves, out),
            Some(ranker) => ranked(ranker, rows, self.threads, |rows| match rows {
                Ranked::U8(rows) => self.margins_of(summing, rows, leaves, out),
                Ranked::U16(rows) => self.margins_of(summing, rows, leaves, out),
            }),
        }
    }

    /// Writes the margins of rows in the type in which they are walked.
    fn margins_of<T: Row>(
        &self,
        summing: &SumMethod,
        rows: &Rows<'_, T>,
        leaves: &[f32],
        out: &mut [f32],
    ) -> Result<()> {
        if self.aggregate != Aggregate::Sum {
            self.extremes(rows, leaves, out);
            return Ok(());
        }
        match summing {
            SumMethod::Vectors => {
                self.add_vectors(rows, leaves, out);
                Ok(())
            }
            SumMethod::Any => self.singles::<T, true>(rows, leaves, out),
            SumMethod::Singles { order: Order::Walks } => self.singles::<T, false>(rows, leaves, out),
            SumMethod::Singles { order: Order::Slots(targets) } => {
                let values = Addends { leaves, base: &self.base };
                self.in_order(rows, values, targets.as_deref(), out, |sum| sum);
                Ok(())
            }
            SumMethod::Doubles { leaves, base, order: Order::Walks } => {
                self.totals::<_, T, false>(rows, Addends { leaves, base }, out, |sum, _| sum as f32)
            }
            SumMethod::Doubles { leaves, base, order: Order::Slots(targets) } => {
                self.in_order(rows, Addends { leaves, base }, targets.as_deref(), out, |sum| sum as f32);
                Ok(())
            }
            SumMethod::Fixed(fixed) => {
                let round = |total, output| fixed.round(total, output);
                let values = Addends { leaves: fixed.leaves(), base: fixed.base() };
                self.totals::<_, T, true>(rows, values, out, round)
            }
        }
    }

    /// Adds up in `f32`, which needs no room but the result's.
    fn singles<T: Row, const GROUPED: bool>(
        &self,
        rows: &Rows<'_, T>,
        leaves: &[f32],
        out: &mut [f32],
    ) -> Result<()> {
        let outputs = self.outputs();
        let shares = if GROUPED { self.shares(rows.len()) } else { 1 };
        if shares > 1 {
            self.add_by_tree_shares::<T, GROUPED>(rows, leaves, out, shares);
            return Ok(());
        }
        let values = Addends { leaves, base: &self.base };
        self.in_pieces(rows, 0, |piece, at, range, partials| {
            let sums = &mut out[range.start * outputs..range.end * outputs];
            with_scratch(partials, |partials| {
                self.add_up::<_, T, GROUPED>(piece, at, values, sums, partials)
            });
        })
    }

    /// Adds up in `f32` for a batch too small to divide its rows among threads. It divides the trees instead, and each
    /// share of them adds to sums of its own.
    fn add_by_tree_shares<T: Row, const GROUPED: bool>(
        &self,
        rows: &Rows<'_, T>,
        leaves: &[f32],
        out: &mut [f32],
        shares: usize,
    ) {
        let len = out.len();
        let zero_base = &self.zero_base;
        with_scratch((shares - 1) * len, |others| {
            let share = |k: usize, base: &[f32], sums: &mut [f32]| {
                let at = self.extents(rows.len());
                let trees = self.share(k, shares);
                let values = Addends { leaves, base };
                self.add_up_trees::<_, T, GROUPED>(rows, at, values, sums, &mut [], trees);
            };
            parallel::both(&mut || share(0, &self.base, out), &mut || {
                parallel::each_chunk(others, len, &|k, sums| share(k + 1, zero_base, sums));
            });
            for sums in others.chunks_exact(len) {
                out.iter_mut().zip(sums).for_each(|(out, sum)| *out += sum);
            }
        });
    }

    /// Adds up in another type than the result's, and rounds each sum to the result's type at the end.
    fn totals<A: Addend, T: Row, const GROUPED: bool>(
        &self,
        rows: &Rows<'_, T>,
        values: Addends<'_, A>,
        out: &mut [f32],
        round: impl Fn(A, usize) -> f32,
    ) -> Result<()> {
        let outputs = self.outputs();
        self.in_pieces(rows, outputs, |piece, at, range, partials| {
            let out = &mut out[range.start * outputs..range.end * outputs];
            with_scratch(out.len() + partials, |room| {
                let (sums, partials) = room.split_at_mut(out.len());
                self.add_up::<_, T, GROUPED>(piece, at, values, sums, partials);
                for (out, sums) in out.chunks_exact_mut(outputs).zip(sums.chunks_exact(outputs)) {
                    let each = out.iter_mut().zip(sums).enumerate();
                    each.for_each(|(o, (out, sum))| *out = round(*sum, o));
                }
            });
        })
    }

    /// Adds up base scores and the leaf values of each row's walks.
    fn add_up<A: Addend, T: Row, const GROUPED: bool>(
        &self,
        rows: &Rows<'_, T>,
        at: Extents,
        values: Addends<'_, A>,
        sums: &mut [A],
        partials: &mut [A],
    ) {
        self.add_up_trees::<A, T, GROUPED>(rows, at, values, sums, partials, 0..self.trees());
    }

    /// Like [`Self::add_up`], but only through the trees at these positions.
    fn add_up_trees<A: Addend, T: Row, const GROUPED: bool>(
        &self,
        rows: &Rows<'_, T>,
        at: Extents,
        values: Addends<'_, A>,
        sums: &mut [A],
        partials: &mut [A],
        trees: Range<usize>,
    ) {
        let Addends { leaves, base } = values;
        sums.chunks_exact_mut(base.len()).for_each(|row| row.copy_from_slice(base));
        let (result, partials) = (SharedBuffer::new(sums), SharedBuffer::new(partials));
        let own = A::as_f32(leaves).is_some_and(|leaves| std::ptr::eq(leaves, &self.leaves[..]));
        self.run_trees(rows, at, Sums::<_, GROUPED> { leaves, result, partials, own }, trees);
    }

    /// Calls `f` for pieces of a batch that needs too much room as a whole. Rows do not depend on each other.
    /// `own` is the number of totals that a row has besides its partial sums. The last argument of `f` is the
    /// number of partial sums in the piece.
    fn in_pieces<T: Row>(
        &self,
        rows: &Rows<'_, T>,
        own: usize,
        mut f: impl FnMut(&Rows<'_, T>, Extents, Range<usize>, usize),
    ) -> Result<()> {
        let outputs = self.outputs();
        let partials =
            |at: Extents| self.plan.own.partials.iter().map(|p| self.copies(p, at) * outputs).sum::<usize>();
        let needed = partials(self.extents(rows.len()));
        if needed > MOST_PARTIALS {
            return Err(Error::Rows(format!(
                "the schedule keeps {needed} partial sums a row, at most {MOST_PARTIALS}; make fewer loops over trees parallel"
            )));
        }
        let fit = |most: usize, each: usize| most.checked_div(each).unwrap_or(rows.len());
        let most = fit(MOST_PARTIALS, needed).min(fit(MOST_TOTALS, own)).clamp(1, rows.len().max(1));
        let mut first = 0;
        while first < rows.len() {
            let count = most.min(rows.len() - first);
            let at = self.extents(count);
            f(&rows.slice(first, count), at, first..first + count, partials(at) * count);
            first += count;
        }
        Ok(())
    }

    /// Adds up in the producer's order for a program whose walks come in another order. It writes slots
    /// first, which every schedule gives, and then adds up their leaf values.
    fn in_order<A: Addend, T: Row>(
        &self,
        rows: &Rows<'_, T>,
        values: Addends<'_, A>,
        targets: Option<&[u32]>,
        out: &mut [f32],
        round: impl Fn(A) -> f32 + Sync,
    ) {
        let Addends { leaves, base } = values;
        let (outputs, trees) = (self.outputs(), self.trees());
        self.by_slots(rows, out, |slots, out| {
            with_scratch(outputs, |sums| {
                for (r, out) in out.chunks_exact_mut(outputs).enumerate() {
                    let slots = &slots[r * trees..][..trees];
                    sums.copy_from_slice(base);
                    match targets {
                        Some(targets) => {
                            let each = slots.iter().zip(targets);
                            each.for_each(|(slot, o)| sums[*o as usize] += leaves[*slot as usize]);
                        }
                        None => {
                            for slot in slots {
                                let leaf = &leaves[*slot as usize * outputs..][..outputs];
                                sums.iter_mut().zip(leaf).for_each(|(sum, value)| *sum += *value);
                            }
                        }
                    }
                    out.iter_mut().zip(&sums[..]).for_each(|(out, sum)| *out = round(*sum));
                }
            });
        });
    }

    /// Adds up wide leaf vectors: those of one tree after the other for a row block, so that a cache holds the
    /// tree's leaves and the row block's sums.
    fn add_vectors<T: Row>(&self, rows: &Rows<'_, T>, leaves: &[f32], out: &mut [f32]) {
        let (outputs, trees) = (self.outputs(), self.trees());
        out.chunks_exact_mut(outputs).for_each(|sums| sums.copy_from_slice(&self.base));
        if trees == 0 {
            return;
        }
        let block = (SUMS_AT_A_TIME / outputs).max(ROW_BLOCK);
        self.by_slots(rows, out, |slots, out| {
            let blocks = out.chunks_mut(block * outputs).zip(slots.chunks(block * trees));
            blocks.for_each(|(sums, slots)| widest(VectorSums { slots, trees, leaves, outputs, sums }));
        });
    }

    /// Writes margins that are the least or the largest leaf.
    fn extremes<T: Row>(&self, rows: &Rows<'_, T>, leaves: &[f32], out: &mut [f32]) {
        let (outputs, trees) = (self.outputs(), self.trees());
        self.by_slots(rows, out, |slots, out| {
            for (r, row) in out.chunks_exact_mut(outputs).enumerate() {
                self.extreme(&slots[r * trees..][..trees], leaves, row);
            }
        });
    }

    /// Calls `f` on every thread with the slots of some rows, trees in the producer's order, and the room
    /// for their margins.
    fn by_slots<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [f32], f: impl Fn(&[u32], &mut [f32]) + Sync) {
        let (outputs, trees) = (self.outputs(), self.trees());
        let own = (SLOTS_AT_A_TIME / trees.max(1)).max(1);
        let most = own.saturating_mul(self.threads as usize).min(rows.len().max(1));
        thread_local!(static SLOTS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) });
        let mut slots = SLOTS.with(RefCell::take);
        for (p, out) in out.chunks_mut(most * outputs).enumerate() {
            let piece = rows.slice(p * most, most.min(out.len() / outputs));
            slots.clear();
            slots.resize(piece.len() * trees, 0);
            self.run(&piece, self.extents(piece.len()), LeafSlots(SharedBuffer::new(&mut slots)));
            match self.threads > 1 && trees > 0 {
                true => parallel::each_chunk(out, own * outputs, &|k, out| {
                    f(&slots[k * own * trees..][..out.len() / outputs * trees], out);
                }),
                false => f(&slots, out),
            }
        }
        SLOTS.with(|s| s.replace(slots));
    }

    fn extreme(&self, slots: &[u32], leaves: &[f32], row: &mut [f32]) {
        let least = self.aggregate == Aggregate::Min;
        let start = if least { f32::INFINITY } else { f32::NEG_INFINITY };
        row.fill(start);
        let mut take = |output: usize, value: f32| {
            let have = &mut row[output];
            *have = if least { have.min(value) } else { have.max(value) };
        };
        // `targets` are by position, slots in the producer's order.
        let outputs = self.outputs();
        match &self.targets {
            Some(targets) => {
                for (target, tree) in targets.iter().zip(&self.order) {
                    take(*target as usize, leaves[slots[*tree as usize] as usize]);
                }
            }
            None => {
                for slot in slots {
                    let leaf = &leaves[*slot as usize * outputs..][..outputs];
                    leaf.iter().enumerate().for_each(|(o, value)| take(o, *value));
                }
            }
        }
        for (sum, base) in row.iter_mut().zip(&self.base) {
            // The margin of an output without trees is its base score.
            *sum = if *sum == start { *base } else { *sum + base };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cpu::TraceEntry,
        forest::{CompareType, Side, reference},
        plan::{Request, lower},
        schedule::{FewRows, Preset, Schedule},
    };

    /// Returns a forest of stumps whose leaf values are powers of two, so that sums are exact in any order.
    fn stumps(trees: u32) -> Forest {
        let mut forest = Forest::builder(7, 2).base_score([0.5, -2.0]);
        for t in 0..trees {
            let mut tree = forest.tree(t % 2);
            tree.split(t % 7, CompareType::F32.less(f64::from(t % 5)), Side::Left, 1, 2);
            tree.split((t + 1) % 7, CompareType::F32.less(f64::from(t % 3)), Side::Right, 3, 4);
            tree.leaf(2, &[f64::from(1 << (t % 4))]);
            tree.leaf(3, &[0.25]);
            tree.leaf(4, &[-1.0]);
        }
        forest.build().expect("a forest")
    }

    #[test]
    fn a_small_batch_of_many_trees_is_dealt_out_by_trees() {
        let forest = stumps(20_011);
        let values: Vec<f32> = (0..40 * 7).map(|i| (i * 5 % 11) as f32 - 3.0).collect();
        let mut dealt_out = 0;
        // Some shares have no tree of a tile whose trees lie far apart.
        let apart =
            "tile(batch, b0, b1, 64)\ntile(tree, t0, t1, 10007)\nreorder(b0, t1, t0, b1)\nparallel(b0)";
        let apart = Schedule::parse(apart).expect("a schedule");
        for schedule in [
            Preset::Default.schedule(&forest, false),
            Preset::Xgboost.schedule(&forest, false),
            apart.clone(),
            apart.few_rows(FewRows::Full),
        ] {
            for threads in [1, 2, 3, 8] {
                let request = Request { threads, ..Request::cpu() };
                let lowered = lower(&forest, &schedule, request).expect("lowered");
                let program = Program::new(&forest, &lowered, threads).expect("a program");
                for count in [1, 2, 17, 40] {
                    let rows = Rows::new(&values[..count * 7], 7).expect("rows");
                    let mut out = vec![0.0; count * 2];
                    program.margins(&rows, program.leaves(), &mut out).expect("margins");
                    let expected: Vec<f32> = values[..count * 7]
                        .chunks(7)
                        .flat_map(|row| reference::margins(&forest, row))
                        .map(|margin| margin as f32)
                        .collect();
                    assert_eq!(out, expected, "{count} rows, {threads} threads");
                    assert!(threads > 1 || program.shares(count) == 1);
                    dealt_out += usize::from(program.shares(count) > 1);
                }
            }
        }
        assert!(dealt_out > 10, "{dealt_out} batches");
        // A schedule that puts trees on threads, or nothing, runs as it says.
        for text in ["", "tile(tree, t0, t1, 100)\nreorder(t0, t1, batch)\nparallel(t0)"] {
            let schedule = Schedule::parse(text).expect("a schedule");
            let lowered =
                lower(&forest, &schedule, Request { threads: 4, ..Request::cpu() }).expect("lowered");
            assert_eq!(Program::new(&forest, &lowered, 4).expect("a program").shares(40), 1);
        }
    }

    /// Tiles of many rows would leave threads idle, so the rows are divided into parts of whole row blocks. Leaves are
    /// the same, and in every bit the sums of contracts that promise it.
    #[test]
    fn a_batch_of_few_tasks_is_divided_by_rows() {
        let mut forest = stumps(5003);
        for (i, value) in forest.leaf_values.iter_mut().enumerate() {
            value.0 = f64::from(i as u32 * 37 % 101) / 7.0;
        }
        let most = 1100;
        let values: Vec<f32> = (0..most * 7).map(|i| (i * 5 % 11) as f32 - 3.0).collect();
        let by_column: Vec<f32> = (0..most * 7).map(|i| values[i % most * 7 + i / most]).collect();
        let walks = "tile(batch, b0, b1, 256)\nreorder(b0, tree, b1)\nparallel(b0)\ncache(b0)";
        let rows_outside = "tile(batch, b0, b1, 1024)\nreorder(b0, b1, tree)\nparallel(b0)";
        let blends = "ranks(u8)\ntile(batch, b0, b1, 512)\nreorder(b0, tree, b1)\nparallel(b0)\ncache(b0)\n\
                      evaluate(b1, blend)";
        let untested = format!("{walks}\nunrollWalk(b1)");
        let ranked = format!("ranks(u16)\n{walks}");
        let methods = [Contract::Tree, Contract::Exact]
            .map(|contract| SumMethod::new(contract, &forest, false).expect("sums"));
        let mut divided = std::collections::BTreeSet::new();
        for (number, text) in [&untested, walks, &ranked, rows_outside, blends].into_iter().enumerate() {
            let schedule = Schedule::parse(text).expect("a schedule");
            let program = |threads| {
                let request = Request { threads, ..Request::cpu() };
                let lowered = lower(&forest, &schedule, request).expect("lowered");
                Program::new(&forest, &lowered, threads).expect("a program")
            };
            let alone = program(1);
            for threads in [2, 3, 8] {
                let program = program(threads);
                for count in [127, 128, 129, 200, 256, 300, 511, 513, 777, most] {
                    // Row-major on two and eight threads, column-major on three.
                    let rows = match threads {
                        3 => Rows::strided(&by_column, [count, 7], [1, most]).expect("rows"),
                        _ => Rows::new(&values[..count * 7], 7).expect("rows"),
                    };
                    let results = [&alone, &program].map(|program| {
                        let mut slots = vec![0; count * 5003];
                        program.slots(&rows, &mut slots).expect("slots");
                        let sums = methods.each_ref().map(|method| {
                            let mut sums = vec![0.0; count * 2];
                            let done = program.margins_by(method, &rows, program.leaves(), &mut sums);
                            done.expect("margins");
                            sums
                        });
                        (sums, slots)
                    });
                    assert_eq!(results[0], results[1], "{text}: {count} rows, {threads} threads");
                    if let Some(each) = program.rows_of_part(count) {
                        assert!(each % ROW_BLOCK == 0 && each < count, "{count} rows in parts of {each}");
                        assert!((2..=threads as usize).contains(&count.div_ceil(each)));
                        divided.insert((number, threads));
                        if count == 300 && program.shares(count) == 1 {
                            let mut trace = vec![TraceEntry::default(); count * 5003];
                            program.trace(&rows, &mut trace).expect("a trace");
                            let mut of_rows = trace.chunks(5003).enumerate();
                            let is_of_part = |(row, visits): (usize, &[TraceEntry])| {
                                visits.iter().all(|v| v.visit != u32::MAX && v.share as usize == row / each)
                            };
                            assert!(of_rows.all(is_of_part), "{text}: {threads} threads");
                        }
                    }
                }
            }
        }
        assert_eq!(divided.len(), 15, "{divided:?}");
    }

    /// Margins of slots are computed on several threads, each with rows of its own.
    #[test]
    fn each_thread_computes_margins_of_its_own_rows() {
        for (aggregate, outputs) in [(Aggregate::Max, 1), (Aggregate::Max, 3), (Aggregate::Min, 2)] {
            let mut forest = Forest::builder(7, outputs).aggregate(aggregate);
            // So many trees that a thread takes some thirty rows at a time.
            for t in 0..2003 {
                let mut tree = forest.tree(t % outputs);
                tree.split(t % 7, CompareType::F32.less(f64::from(t % 11) - 3.0), Side::Left, 1, 2);
                tree.leaf(1, &[f64::from(t * 7919 % 2003)]);
                tree.leaf(2, &[f64::from(t * 104_729 % 2003)]);
            }
            let forest = forest.build().expect("a forest");
            let values: Vec<f32> = (0..200 * 7).map(|i| (i * 5 % 11) as f32 - 3.0).collect();
            let expected: Vec<f32> = values
                .chunks(7)
                .flat_map(|row| reference::margins(&forest, row))
                .map(|margin| margin as f32)
                .collect();
            for threads in [1, 2, 3] {
                let predictor = crate::Predictor::builder(&forest).threads(threads).build();
                let found = predictor.expect("a predictor").margins(&Rows::new(&values, 7).expect("rows"));
                assert_eq!(
                    found.expect("margins"),
                    expected,
                    "{aggregate:?} of {outputs}, {threads} threads"
                );
            }
        }
    }

    /// Each result needs room, and each leaf a value.
    #[test]
    fn buffers_of_another_size_are_refused() {
        let forest = stumps(4);
        let values = [1.0f32; 3 * 7];
        let rows = Rows::new(&values, 7).expect("rows");
        let lowered = lower(&forest, &Schedule::new(), Request::cpu()).expect("lowered");
        let program = Program::new(&forest, &lowered, 1).expect("a program");
        for room in [0, 3 * 4 - 1, 3 * 4 + 1] {
            let refused = [
                program.slots(&rows, &mut vec![0; room]),
                program.trace(&rows, &mut vec![TraceEntry::default(); room]),
            ];
            for refused in refused {
                let refused = refused.expect_err("another size").to_string();
                assert!(refused.contains("3 rows need 12"), "{refused}");
            }
        }
        let leaves = program.leaves();
        for room in [0, 5, 7] {
            let refused = program.margins(&rows, leaves, &mut vec![0.0; room]);
            let refused = refused.expect_err("another size").to_string();
            assert!(refused.contains("3 rows need 6"), "{refused}");
        }
        for of in [&leaves[..0], &leaves[1..], &[leaves, leaves].concat()] {
            let refused = program.margins(&rows, of, &mut [0.0; 6]);
            let refused = refused.expect_err("other leaf values").to_string();
            assert!(refused.contains("the forest has 12"), "{refused}");
        }
    }

    /// A forest without trees whose trees would add to every output has its base score for each row.
    #[test]
    fn no_wide_leaf_vector_is_the_base_score() {
        let base: Vec<f64> = (0..40).map(|o| f64::from(o) / 4.0).collect();
        let mut forest = Forest::builder(3, 40).base_score(base.clone()).build().expect("a forest");
        forest.targets = Targets::All;
        let predictor = crate::Predictor::builder(&forest).threads(1).sum(Contract::Any);
        let predictor = predictor.build().expect("a predictor");
        let rows = Rows::new(&[1.0f32; 6], 3).expect("rows");
        let expected: Vec<f32> = [&base[..], &base].concat().into_iter().map(|b| b as f32).collect();
        assert_eq!(predictor.margins(&rows).expect("margins"), expected);
    }

    /// A row may have 2^26 partial sums, and no more.
    #[test]
    fn partial_sums_have_a_most() {
        let outputs = 1 << 20;
        for (trees, fits) in [(64, true), (65, false)] {
            let mut forest = Forest::builder(1, outputs).base_score(vec![0.0; outputs as usize]);
            for t in 0..trees {
                forest.tree(t).leaf(0, &[f64::from(t + 1)]);
            }
            let forest = forest.build().expect("a forest");
            let schedule = Schedule::parse("reorder(tree, batch)\nparallel(tree)").expect("a schedule");
            let lowered =
                lower(&forest, &schedule, Request { threads: 2, ..Request::cpu() }).expect("lowered");
            let program = Program::new(&forest, &lowered, 2).expect("a program");
            let mut out = vec![0.0; outputs as usize];
            let done = program.margins(&Rows::new(&[0.5f32], 1).expect("a row"), program.leaves(), &mut out);
            match done {
                Ok(()) => {
                    assert!(fits);
                    let expected = |o: usize| if o < 64 { o as f32 + 1.0 } else { 0.0 };
                    assert!(out.iter().enumerate().all(|(o, sum)| *sum == expected(o)));
                }
                Err(refused) => {
                    assert!(!fits && refused.to_string().contains("at most 67108864"), "{refused}");
                }
            }
        }
    }

    /// Wide leaf vectors are added after the walks: any number of outputs around a vector, of trees and of rows.
    #[test]
    fn wide_leaf_vectors_are_added_after_the_walks() {
        for outputs in [31, 32, 33, 40, 88] {
            for trees in [0, 1, 2, 9] {
                let base = (0..outputs).map(|o| f64::from(o) / 4.0).collect::<Vec<_>>();
                let mut forest = Forest::builder(3, outputs).base_score(base);
                for t in 0..trees {
                    let mut tree = forest.vector_tree();
                    tree.split(t % 3, CompareType::F32.less(f64::from(t % 4)), Side::Left, 1, 2);
                    let value =
                        |leaf: u32| (0..outputs).map(|o| f64::from((o * leaf + t) % 16)).collect::<Vec<_>>();
                    tree.leaf(1, &value(3));
                    tree.leaf(2, &value(5));
                }
                let forest = forest.build().expect("a forest");
                let predictor = crate::Predictor::builder(&forest).threads(1).build().expect("a predictor");
                for count in [0, 1, 63, 64, 65, 700] {
                    let values: Vec<f32> = (0..count * 3).map(|i| (i * 5 % 11) as f32 - 3.0).collect();
                    let rows = Rows::new(&values, 3).expect("rows");
                    let expected: Vec<f32> = values
                        .chunks(3)
                        .flat_map(|row| reference::margins(&forest, row))
                        .map(|margin| margin as f32)
                        .collect();
                    assert_eq!(predictor.margins(&rows).expect("margins"), expected, "{outputs} x {trees}");
                }
            }
        }
    }
}
