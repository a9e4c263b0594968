//! Forests, rows and schedules for the tests: small ones spelled out in text, and random ones that shrink.
//!
//! The schedule generator keeps its own picture of the loops and knows only the language's rules, so a schedule that
//! the compiler refuses is a disagreement about the language.

// Each test crate uses its part.
#![allow(dead_code, unused_imports)]

pub mod engines;
pub mod explained;
mod forests;
mod grow;
pub mod kinds;
mod rows;
mod schedules;
pub mod tables;
mod text;
mod writer;

use std::fmt;

use fangorn::{
    Forest,
    forest::{Node, Profile, Tree},
    schedule::{Dim, Mapping, NestLoop, Schedule},
};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

pub use forests::forest;
pub use grow::forest_of;
pub use rows::{rows, wide_rows};
pub use schedules::{Kind, schedule};
pub use text::kept;

/// Numbers from a seed (splitmix64), for values whose shrinking helps nobody.
pub struct Seeded(pub u64);

impl Seeded {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// What is run: shown as the text that `tests/schedules` keeps where a test fails.
#[derive(Clone)]
pub struct Case {
    pub forest: Forest,
    pub schedule: Schedule,
    pub batch: usize,
    /// What the rows are drawn from.
    pub seed: u64,
    pub rows: Vec<f32>,
}

impl Case {
    pub fn new(forest: Forest, schedule: Schedule, batch: usize, seed: u64) -> Self {
        let rows = rows(&forest, batch, seed);
        Self { forest, schedule, batch, seed, rows }
    }

    /// How many rows come to each leaf, as the seed has it: in many trees nearly all to a few.
    pub fn profile(&self) -> Profile {
        let trees = self.forest.trees.len();
        let mut random = Seeded(self.seed ^ 0x70_72_6f_66);
        let slots = |tree: &Tree| tree.nodes.iter().filter_map(Node::slot).collect::<Vec<u32>>();
        let slots: Vec<Vec<u32>> = self.forest.trees.iter().map(slots).collect();
        let usual: Vec<usize> = slots.iter().map(|slots| random.below(slots.len())).collect();
        let mut profile = Profile::new(&self.forest);
        for _ in 0..if trees == 0 { 0 } else { 20 } {
            let mut row = Vec::with_capacity(trees);
            for (slots, usual) in slots.iter().zip(&usual) {
                let unusual = random.below(20) == 0;
                row.push(slots[if unusual { random.below(slots.len()) } else { *usual }]);
            }
            profile.count(&self.forest, &row).expect("slots of the forest");
        }
        profile
    }

    /// The case of its first rows only.
    pub fn first(&self, batch: usize) -> Self {
        let rows = self.rows[..batch * self.forest.features.len()].to_vec();
        Self { batch, rows, ..self.clone() }
    }

    /// Batches of its rows: all, and each usual number that is less.
    pub fn batches(&self) -> Vec<usize> {
        BATCHES.into_iter().filter(|batch| *batch < self.batch).chain([self.batch]).collect()
    }

    pub fn row(&self, r: usize) -> &[f32] {
        &self.rows[r * self.forest.features.len()..][..self.forest.features.len()]
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

/// Rows of a call: none, one, the neighbours of a block of 64, and many.
const BATCHES: [usize; 7] = [0, 1, 2, 63, 64, 65, 1000];

/// A forest, a schedule for it, and rows: as many as drawn, or the next fewer that keep the case within milliseconds.
pub fn case(kind: Kind) -> impl Strategy<Value = Case> {
    case_of(kind, prop_oneof![1 => 0..1usize, 12 => 1..BATCHES.len()])
}

/// The same with as many rows as keep the case within milliseconds, for runs of [`Case::batches`].
pub fn case_of_batches(kind: Kind) -> impl Strategy<Value = Case> {
    case_of(kind, BATCHES.len() - 1..BATCHES.len())
}

fn case_of(kind: Kind, batch: impl Strategy<Value = usize>) -> impl Strategy<Value = Case> {
    (forest(), schedule(kind), batch, any::<u64>()).prop_map(|(forest, schedule, batch, seed)| {
        let cheap = |rows: &&usize| affordable(&forest, &schedule, **rows);
        let batch = BATCHES[..=batch].iter().rev().find(cheap).copied().unwrap_or(0);
        Case::new(forest, schedule, batch, seed)
    })
}

fn affordable(forest: &Forest, schedule: &Schedule, rows: usize) -> bool {
    let (trees, outputs) = (forest.trees.len(), forest.outputs as usize);
    let sums = rows * outputs * copies(schedule, trees, rows);
    rows * trees <= 1 << 14
        && rows * trees * outputs <= 1 << 19
        && rows * forest.features.len() <= 1 << 16
        && sums <= 1 << 20
}

/// Private sums that the deepest chain of parallel tree loops asks for.
fn copies(schedule: &Schedule, trees: usize, rows: usize) -> usize {
    let at = fangorn::schedule::Extents { batch: rows as u32, trees: trees as u32, threads: 2 };
    fn of(l: &NestLoop, at: fangorn::schedule::Extents) -> usize {
        let shared = l.var.dim == Dim::Tree && l.marks.mapping != Mapping::Serial;
        let own = if shared { l.var.extent().resolve(at) as usize } else { 1 };
        own.max(1).saturating_mul(l.body.iter().map(|l| of(l, at)).max().unwrap_or(1))
    }
    schedule.nest().map_or(1, |nest| nest.body.iter().map(|l| of(l, at)).max().unwrap_or(1))
}

/// Cases of each kind that the equivalence suite runs on the CPU, and that the coverage is counted over.
pub const IN_CI: u32 = 1000;

/// Cases that a suite runs: `FANGORN_CASES`, or what it runs in CI.
pub fn wanted(in_ci: u32) -> u32 {
    let given = std::env::var("FANGORN_CASES").ok();
    given.map_or(in_ci, |n| n.parse().expect("FANGORN_CASES is a number of cases"))
}

/// A runner whose draws are always the same; `FANGORN_SEED` gives others.
pub fn runner(cases: u32) -> TestRunner {
    let given = std::env::var("FANGORN_SEED").ok();
    runner_of(given.map_or(0, |n| n.parse().expect("FANGORN_SEED is a number to draw from")), cases)
}

/// The runner of a seed: the usual draws are those of 0.
pub fn runner_of(seed: u64, cases: u32) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 4000, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}
