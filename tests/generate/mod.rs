//! Forests, rows and schedules for the tests: small ones spelled out in a line, and random ones that shrink.
//!
//! The schedule generator keeps its own picture of the loops and knows only the language's rules, so a schedule that
//! the compiler refuses is a disagreement about the language.

// Each test crate uses its part.
#![allow(dead_code)]

use std::fmt;

use fangorn::{
    Forest,
    forest::{
        Aggregate, CategoryRule, CategorySet, Classes, CompareType, Feature, MOST_CATEGORIES, Node,
        Predicate, Producer, Real, Side, Targets, Transform, Tree, ZERO_ZONE,
    },
    schedule::{Axis, Dim, Directive, GpuDim, LayoutKind, Schedule, Size, TreeOrder},
};
use proptest::prelude::*;

/// Numbers from a seed (splitmix64), for values whose shrinking helps nobody.
pub struct Seeded(pub u64);

impl Seeded {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

/// A tree in the making: grown by splitting leaves.
struct Growing {
    nodes: Vec<Node>,
    depths: Vec<u32>,
}

impl Growing {
    fn new() -> Self {
        Self { nodes: vec![Node::Leaf { slot: 0 }], depths: vec![0] }
    }

    /// Makes a leaf a split with two leaves.
    fn split(&mut self, leaf: usize, feature: u32, predicate: Predicate, missing: Side) {
        let left = self.nodes.len() as u32;
        self.nodes[leaf] = Node::Split { feature, predicate, missing, left, right: left + 1 };
        for _ in 0..2 {
            self.nodes.push(Node::Leaf { slot: 0 });
            self.depths.push(self.depths[leaf] + 1);
        }
    }

    fn leaves(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|n| self.nodes[*n].slot().is_some()).collect()
    }

    /// The nodes in another order, the root still first.
    fn shuffled(&self, random: &mut Seeded) -> Vec<Node> {
        let mut place: Vec<u32> = (0..self.nodes.len() as u32).collect();
        for i in (2..place.len()).rev() {
            place.swap(i, 1 + random.below(i));
        }
        let mut nodes = vec![Node::Leaf { slot: 0 }; self.nodes.len()];
        for (node, at) in self.nodes.iter().zip(&place) {
            nodes[*at as usize] = match *node {
                Node::Split { feature, predicate, missing, left, right } => {
                    let [left, right] = [left, right].map(|c| place[c as usize]);
                    Node::Split { feature, predicate, missing, left, right }
                }
                leaf => leaf,
            };
        }
        nodes
    }
}

/// Numbers the leaves of all trees and wraps them up. Slots are dealt in a random order where `random` is given.
fn assemble(
    mut trees: Vec<Vec<Node>>,
    features: u32,
    outputs: u32,
    vector: bool,
    sets: Vec<CategorySet>,
    values: impl Fn(usize) -> f32,
    random: Option<&mut Seeded>,
) -> Forest {
    let leaves = trees.iter().flatten().filter(|n| n.slot().is_some()).count();
    let mut slots: Vec<u32> = (0..leaves as u32).collect();
    if let Some(random) = random {
        for i in (1..slots.len()).rev() {
            slots.swap(i, random.below(i + 1));
        }
    }
    let mut next = slots.into_iter();
    for node in trees.iter_mut().flatten() {
        if let Node::Leaf { slot } = node {
            *slot = next.next().expect("a slot for each leaf");
        }
    }
    let width = if vector { outputs as usize } else { 1 };
    let targets = match vector {
        true => Targets::All,
        false => Targets::One((0..trees.len() as u32).map(|t| t % outputs).collect()),
    };
    let tree = |nodes: Vec<Node>| Tree { ids: (0..nodes.len() as u32).map(|n| 3 * n + 1).collect(), nodes };
    Forest {
        producer: Producer::default(),
        features: vec![Feature::default(); features as usize],
        outputs,
        trees: trees.into_iter().map(tree).collect(),
        targets,
        leaf_values: (0..leaves * width).map(|i| Real::from(values(i))).collect(),
        sets,
        base_score: (0..outputs).map(|o| Real::from(0.25 * o as f32 - 0.5)).collect(),
        aggregate: Aggregate::Sum,
        compare: CompareType::F32,
        scale: Real(1.0),
        transform: Transform::Identity,
        classes: Classes::default(),
    }
}

/// A forest in a line: `depth 1, 40 x depth 3, chain 2; features 4; outputs 3`. A tree of `depth n` is full; a
/// `chain n` has one leaf at each depth but two at the last. Thresholds count up, leaves are small and distinct.
pub fn forest_of(text: &str) -> Forest {
    let mut parts = text.split(';').map(str::trim);
    let mut shapes = Vec::new();
    for item in parts.next().unwrap_or("").split(',').map(str::trim).filter(|s| !s.is_empty()) {
        let (count, shape) = item.split_once(" x ").unwrap_or(("1", item));
        let (kind, depth) = shape.split_once(' ').unwrap_or_else(|| panic!("`{item}`: depth 2, or chain 2"));
        let depth: u32 = depth.parse().unwrap_or_else(|_| panic!("`{item}`: a depth"));
        let full = match kind {
            "depth" => true,
            "chain" => false,
            _ => panic!("`{item}`: depth or chain"),
        };
        let count: usize = count.parse().unwrap_or_else(|_| panic!("`{item}`: a count"));
        shapes.extend(std::iter::repeat_n((full, depth), count));
    }
    let (mut features, mut outputs, mut vector) = (1, 1, false);
    for part in parts {
        match part.split_once(' ') {
            Some(("features", n)) => features = n.parse().expect("a number of features"),
            Some(("outputs", n)) => outputs = n.parse().expect("a number of outputs"),
            None if part == "vector" => vector = true,
            _ => panic!("`{part}`: features, outputs or vector"),
        }
    }
    let mut count = 0u32;
    let mut grow = |(full, depth): (bool, u32)| {
        let mut tree = Growing::new();
        for d in 0..depth {
            let deepest: Vec<usize> = tree.leaves().into_iter().filter(|n| tree.depths[*n] == d).collect();
            let split = if full { &deepest[..] } else { &deepest[deepest.len() - 1..] };
            for leaf in split {
                let threshold = Real::from((count % 13) as f32 - 6.0);
                let missing = if count.is_multiple_of(2) { Side::Left } else { Side::Right };
                tree.split(*leaf, count % features, Predicate::Less { threshold }, missing);
                count += 1;
            }
        }
        tree.nodes
    };
    let trees = shapes.into_iter().map(&mut grow).collect();
    let forest =
        assemble(trees, features, outputs, vector, Vec::new(), |i| (i % 17) as f32 * 0.125 - 1.0, None);
    forest.verify().expect("a forest of a line keeps the rules");
    forest
}

/// How a leaf is split.
#[derive(Clone, Debug)]
struct Growth {
    leaf: u8,
    deepest: bool,
    feature: u8,
    threshold: u8,
    ask: Ask,
    missing_left: bool,
}

/// What a split asks.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Less,
    LessZeroAside,
    Equal,
    Always,
    InSet(u8, bool),
}

fn growth() -> impl Strategy<Value = Growth> {
    let ask = prop_oneof![
        8 => Just(Ask::Less),
        1 => Just(Ask::LessZeroAside),
        1 => Just(Ask::Equal),
        1 => Just(Ask::Always),
        3 => any::<(u8, bool)>().prop_map(|(set, inside)| Ask::InSet(set, inside)),
    ];
    (any::<(u8, bool, u8, u8)>(), ask, any::<bool>()).prop_map(
        |((leaf, deepest, feature, threshold), ask, missing_left)| Growth {
            leaf,
            deepest,
            feature,
            threshold,
            ask,
            missing_left,
        },
    )
}

const EDGES: [f32; 15] = [
    1e-35,
    -1e-35,
    0.0,
    -0.0,
    1e-45,
    -1e-45,
    1.1e-38,
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::MAX,
    f32::MIN,
    1.0,
    -1.0,
];

/// A threshold, and perhaps its neighbours beside it in the pool.
fn threshold() -> impl Strategy<Value = f32> {
    let near = (0..EDGES.len(), 0..3u8).prop_map(|(i, side)| match side {
        0 => EDGES[i].next_up(),
        1 => EDGES[i].next_down(),
        _ => EDGES[i],
    });
    let small = (-20i32..20).prop_map(|i| i as f32 / 4.0);
    let any = any::<u32>().prop_map(|bits| Some(f32::from_bits(bits)).filter(|x| !x.is_nan()).unwrap_or(0.5));
    prop_oneof![3 => near, 3 => small, 1 => any]
}

/// 1 to 40 trees of depth 0 to 9, in any shape.
pub fn forest() -> impl Strategy<Value = Forest> {
    let trees = prop_oneof![
        3 => prop::collection::vec(prop::collection::vec(growth(), 0..24), 1..12),
        1 => prop::collection::vec(prop::collection::vec(growth(), 0..10), 12..=40),
    ];
    // A forest that asks for thresholds only runs on kernels of its own.
    let plain = prop_oneof![1 => Just(true), 2 => Just(false)];
    let pool = prop::collection::vec(threshold(), 1..10);
    let sets = prop::collection::vec((prop::collection::vec(any::<u32>(), 0..4), 0..3usize), 0..4);
    let outputs = prop_oneof![Just(1u32), 1..=5u32];
    (1..=12u32, outputs, any::<(bool, bool)>(), trees, pool, (plain, sets), any::<u64>()).prop_map(
        |(features, outputs, (vector, wide), trees, pool, (plain, sets), seed)| {
            let compare = if wide { CompareType::F64 } else { CompareType::F32 };
            let value = |growth: &Growth| {
                let t = f64::from(pool[growth.threshold as usize % pool.len()]);
                // Between two f32 values there is room for many thresholds.
                match growth.leaf % 4 {
                    0 if wide => t.next_up(),
                    1 if wide => t.next_down(),
                    2 if wide => t * 1.000_000_01,
                    _ => t,
                }
            };
            let in_zone = |t: f64| t.abs() <= 2.0 * f64::from(ZERO_ZONE);
            let grow = |growths: Vec<Growth>| {
                let mut tree = Growing::new();
                for g in growths {
                    let leaves = tree.leaves();
                    let leaf = if g.deepest {
                        leaves[leaves.len() - 1]
                    } else {
                        leaves[g.leaf as usize % leaves.len()]
                    };
                    if tree.depths[leaf] == 9 {
                        continue;
                    }
                    let side = |left| if left { Side::Left } else { Side::Right };
                    let t = Real(value(&g));
                    let predicate = match g.ask {
                        _ if plain => Predicate::Less { threshold: t },
                        Ask::InSet(set, inside) if !sets.is_empty() => {
                            Predicate::InSet { set: u32::from(set) % sets.len() as u32, inside: side(inside) }
                        }
                        Ask::Equal => Predicate::Equal { value: t },
                        Ask::Always => Predicate::Always,
                        Ask::LessZeroAside if !in_zone(t.0) => Predicate::LessZeroAside { threshold: t },
                        _ => Predicate::Less { threshold: t },
                    };
                    tree.split(leaf, u32::from(g.feature) % features, predicate, side(g.missing_left));
                }
                tree
            };
            let mut random = Seeded(seed);
            let shuffle = seed % 2 == 1;
            let nodes = |tree: Growing| if shuffle { tree.shuffled(&mut random) } else { tree.nodes };
            let trees = trees.into_iter().map(grow).map(nodes).collect();
            let values: Vec<f32> = (0..512)
                .map(|_| match random.below(8) {
                    0 => EDGES[random.below(5)],
                    1 => random.below(2000) as f32 * 37.5,
                    _ => random.below(2_000_001) as f32 * 1e-6 - 1.0,
                })
                .collect();
            let rules = [CategoryRule::NotNegative, CategoryRule::Truncated, CategoryRule::Whole];
            let sets = sets
                .iter()
                .map(|(words, rule)| CategorySet { words: words.clone(), rule: rules[*rule] })
                .collect();
            let slots = if shuffle { Some(&mut random) } else { None };
            let forest =
                assemble(trees, features, outputs, vector, sets, |i| values[i % values.len()], slots);
            let aggregate = if seed % 5 == 0 { Aggregate::Max } else { Aggregate::Sum };
            let aggregate = if seed % 7 == 0 { Aggregate::Min } else { aggregate };
            let forest = Forest { compare, aggregate, ..forest };
            forest.verify().expect("a generated forest keeps the rules");
            forest
        },
    )
}

/// Rows that probe every decision: each threshold and its neighbours, both zeros, missing, infinite and denormal
/// values, and numbers at the edges of what a category is.
pub fn rows(forest: &Forest, count: usize, seed: u64) -> Vec<f32> {
    let mut common: Vec<f32> = EDGES.to_vec();
    common.extend([
        f32::NAN,
        -f32::NAN,
        -0.5,
        0.5,
        2.7,
        1e30,
        (MOST_CATEGORIES as f32),
        (MOST_CATEGORIES as f32).next_down(),
    ]);
    for set in &forest.sets {
        common.extend(set.members().map(|c| c as f32).take(3));
        let past = 32.0 * set.words.len() as f32;
        common.extend([past - 1.0, past, past - 0.5]);
    }
    let mut pools = vec![Vec::new(); forest.features.len()];
    for node in forest.trees.iter().flat_map(|t| &t.nodes) {
        if let Some((feature, t)) = asked(node) {
            let t = t as f32;
            pools[feature].extend([t, t.next_up(), t.next_down()]);
        }
    }
    drawn(&pools, &common, count, seed)
}

/// The same in `f64`, with the neighbours there.
pub fn wide_rows(forest: &Forest, count: usize, seed: u64) -> Vec<f64> {
    let common: Vec<f64> = rows(forest, 8, seed).into_iter().map(f64::from).chain([1e300, -1e-300]).collect();
    let mut pools = vec![Vec::new(); forest.features.len()];
    for node in forest.trees.iter().flat_map(|t| &t.nodes) {
        if let Some((feature, t)) = asked(node) {
            pools[feature].extend([t, t.next_up(), t.next_down()]);
        }
    }
    drawn(&pools, &common, count, seed)
}

/// The column of a split and the number it compares with.
fn asked(node: &Node) -> Option<(usize, f64)> {
    match *node {
        Node::Split {
            feature,
            predicate:
                Predicate::Less { threshold }
                | Predicate::LessZeroAside { threshold }
                | Predicate::Equal { value: threshold },
            ..
        } => Some((feature as usize, threshold.0)),
        _ => None,
    }
}

fn drawn<T: Copy>(pools: &[Vec<T>], common: &[T], count: usize, seed: u64) -> Vec<T> {
    let mut random = Seeded(seed);
    let mut out = Vec::with_capacity(count * pools.len());
    for _ in 0..count {
        for pool in pools {
            let own = !pool.is_empty() && random.below(3) > 0;
            let from = if own { pool } else { common };
            out.push(from[random.below(from.len())]);
        }
    }
    out
}

/// A step in the writing of a schedule; the numbers pick among what the rules allow.
#[derive(Clone, Debug)]
enum Move {
    Tile(u8, u8),
    Split(u8, u8),
    Reorder(u8, u8, u64),
    Parallel(u8),
    Map(u8, u8),
    Cache(u8),
    Interleave(u8),
    Unroll(u8, Option<u8>),
    Shared(u8),
    Layout(bool),
    Sort,
}

/// What a schedule is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any directive anywhere.
    Any,
    /// Loops mapped to a launch in most draws.
    Mapped,
}

/// A loop in the generator's own picture.
#[derive(Clone, Debug)]
struct Line {
    name: String,
    dim: Dim,
    /// Start, end and step where they are numbers.
    range: [Option<u32>; 3],
    mapped: Option<Option<GpuDim>>,
    cached: bool,
    interleaved: bool,
    unrolled: bool,
    shared: bool,
    parent: Option<usize>,
    children: Vec<usize>,
}

impl Line {
    fn marked(&self) -> bool {
        self.mapped.is_some() || self.cached || self.interleaved || self.unrolled || self.shared
    }

    fn iterations(&self) -> Option<u32> {
        let [start, end, step] = self.range;
        Some(end?.saturating_sub(start?).div_ceil(step?.max(1)))
    }
}

struct Writer {
    lines: Vec<Line>,
    roots: Vec<usize>,
    names: usize,
    out: Schedule,
}

const GRID: [GpuDim; 3] = [GpuDim::Grid(Axis::X), GpuDim::Grid(Axis::Y), GpuDim::Grid(Axis::Z)];
const BLOCK: [GpuDim; 3] = [GpuDim::Block(Axis::X), GpuDim::Block(Axis::Y), GpuDim::Block(Axis::Z)];

impl Writer {
    fn new() -> Self {
        let line = |name: &str, dim, parent, children| Line {
            name: name.to_owned(),
            dim,
            range: [Some(0), None, Some(1)],
            mapped: None,
            cached: false,
            interleaved: false,
            unrolled: false,
            shared: false,
            parent,
            children,
        };
        let lines = vec![line("batch", Dim::Batch, None, vec![1]), line("tree", Dim::Tree, Some(0), vec![])];
        Self { lines, roots: vec![0], names: 0, out: Schedule::new() }
    }

    fn live(&self) -> Vec<usize> {
        let mut live = Vec::new();
        let mut open: Vec<usize> = self.roots.iter().rev().copied().collect();
        while let Some(n) = open.pop() {
            live.push(n);
            open.extend(self.lines[n].children.iter().rev());
        }
        live
    }

    fn above(&self, n: usize) -> Vec<usize> {
        std::iter::successors(self.lines[n].parent, |p| self.lines[*p].parent).collect()
    }

    fn below(&self, n: usize) -> Vec<usize> {
        let inside = |c: &usize| std::iter::once(*c).chain(self.below(*c)).collect::<Vec<_>>();
        self.lines[n].children.iter().flat_map(inside).collect()
    }

    /// Every loop of this name, or those of them inside a loop named `within`.
    fn find(&self, name: &str, within: Option<&str>) -> Vec<usize> {
        let inside =
            |n: &usize| within.is_none_or(|w| self.above(*n).iter().any(|a| self.lines[*a].name == w));
        self.live().into_iter().filter(|n| self.lines[*n].name == name).filter(inside).collect()
    }

    /// A loop among those that `may` take part, as a path and all the loops it names.
    fn pick(&self, which: u8, may: impl Fn(&Line) -> bool) -> Option<(String, Vec<usize>)> {
        let choice: Vec<usize> = self.live().into_iter().filter(|n| may(&self.lines[*n])).collect();
        let n = *choice.get(which as usize % choice.len().max(1))?;
        let name = &self.lines[n].name;
        let all = self.find(name, None);
        if all.len() > 1 && which >= 128 {
            let above = self.above(n);
            let within = &self.lines[above[which as usize % above.len()]].name;
            return Some((format!("{within}.{name}"), self.find(name, Some(within))));
        }
        Some((name.clone(), all))
    }

    fn fresh(&mut self, dim: Dim) -> [String; 2] {
        let letter = if dim == Dim::Batch { 'b' } else { 't' };
        self.names += 2;
        [format!("{letter}{}", self.names - 2), format!("{letter}{}", self.names - 1)]
    }

    fn size(&self, which: u8, dim: Dim) -> Size {
        let whole = if dim == Dim::Batch { Size::Batch } else { Size::Trees };
        match which % 16 {
            0 => whole / 2,
            1 => whole / 3,
            2 => whole / Size::Threads,
            3 => whole,
            4 => Size::Threads,
            5 => Size::Trees / 2,
            n @ 6..=13 => Size::Const([1, 2, 3, 4, 5, 7, 8, 16][n as usize - 6]),
            14 => Size::Const(64),
            _ => Size::Const(100),
        }
    }

    fn room(&self) -> bool {
        self.live().len() < 24
    }

    fn apply(&mut self, step: &Move) {
        match *step {
            Move::Tile(which, size) => self.tile(which, size),
            Move::Split(which, at) => self.split(which, at),
            Move::Reorder(which, length, seed) => self.reorder(which, length, seed),
            Move::Parallel(which) => self.map(which, None),
            Move::Map(which, dim) => self.map(which, Some([GRID, BLOCK].concat()[dim as usize % 6])),
            Move::Cache(which) => {
                let Some((path, found)) = self.pick(which, |l| l.dim == Dim::Batch && !l.interleaved) else {
                    return;
                };
                if found.iter().all(|n| !self.lines[*n].interleaved) {
                    found.iter().for_each(|n| self.lines[*n].cached = true);
                    self.out.directives.push(Directive::Cache { var: path });
                }
            }
            Move::Interleave(which) => {
                let may = |l: &Line| {
                    let counted = l.iterations().is_some_and(|n| (1..=64).contains(&n));
                    l.children.is_empty() && l.mapped.is_none() && !l.cached && counted
                };
                let Some((path, found)) = self.pick(which, may) else { return };
                if found.iter().all(|n| may(&self.lines[*n])) {
                    found.iter().for_each(|n| self.lines[*n].interleaved = true);
                    self.out.directives.push(Directive::Interleave { var: path });
                }
            }
            Move::Unroll(which, steps) => {
                let Some((path, found)) = self.pick(which, |l| l.children.is_empty()) else { return };
                if found.iter().all(|n| self.lines[*n].children.is_empty()) {
                    found.iter().for_each(|n| self.lines[*n].unrolled = true);
                    self.out
                        .directives
                        .push(Directive::UnrollWalk { var: path, steps: steps.map(u32::from) });
                }
            }
            Move::Shared(which) => {
                let Some((path, found)) = self.pick(which, |l| l.dim == Dim::Tree) else { return };
                found.iter().for_each(|n| self.lines[*n].shared = true);
                self.out.directives.push(Directive::SharedReduce { var: path });
            }
            Move::Layout(array) => {
                let kind = if array { LayoutKind::Array } else { LayoutKind::Sparse };
                self.out.directives.push(Directive::Layout { kind });
            }
            Move::Sort => self.out.directives.push(Directive::Sort { by: TreeOrder::Depth }),
        }
    }

    fn tile(&mut self, which: u8, size: u8) {
        let Some((path, found)) = self.pick(which, |l| !l.marked()) else { return };
        let dim = self.lines[found[0]].dim;
        if !self.room() || found.iter().any(|n| self.lines[*n].marked()) {
            return;
        }
        let [outer, inner] = self.fresh(dim);
        let size = self.size(size, dim);
        for n in found {
            let line = self.lines[n].clone();
            let span = line.range[2].zip(size.constant()).map(|(step, n)| step * n);
            self.lines.push(Line {
                name: inner.clone(),
                range: [Some(0), span, line.range[2]],
                parent: Some(n),
                ..line.clone()
            });
            let below = self.lines.len() - 1;
            line.children.iter().for_each(|c| self.lines[*c].parent = Some(below));
            self.lines[n].name.clone_from(&outer);
            self.lines[n].range[2] = span;
            self.lines[n].children = vec![below];
        }
        self.out.directives.push(Directive::Tile { var: path, outer, inner, size });
    }

    fn split(&mut self, which: u8, at: u8) {
        let Some((path, found)) = self.pick(which, |l| !l.marked()) else { return };
        let dim = self.lines[found[0]].dim;
        let size: usize = found.iter().map(|n| 1 + self.below(*n).len()).sum();
        if self.live().len() + size > 24 || found.iter().any(|n| self.lines[*n].marked()) {
            return;
        }
        let [first, second] = self.fresh(dim);
        let at = self.size(at, dim);
        for n in found {
            let [start, end, step] = self.lines[n].range;
            let cut = start.zip(step).zip(at.constant()).map(|((start, step), n)| start + n * step);
            let parent = self.lines[n].parent;
            let copy = self.copy(n, parent);
            self.lines[n].name.clone_from(&first);
            self.lines[n].range[1] = end.zip(cut).map(|(a, b)| a.min(b));
            self.lines[copy].name.clone_from(&second);
            self.lines[copy].range[0] = cut;
            let beside = parent.map_or(&mut self.roots, |p| &mut self.lines[p].children);
            let place = beside.iter().position(|c| *c == n).expect("a child of its parent");
            beside.insert(place + 1, copy);
        }
        self.out.directives.push(Directive::Split { var: path, first, second, at });
    }

    fn copy(&mut self, n: usize, parent: Option<usize>) -> usize {
        let line = Line { parent, children: Vec::new(), ..self.lines[n].clone() };
        self.lines.push(line);
        let id = self.lines.len() - 1;
        for c in self.lines[n].children.clone() {
            let below = self.copy(c, Some(id));
            self.lines[id].children.push(below);
        }
        id
    }

    fn reorder(&mut self, which: u8, length: u8, seed: u64) {
        let Some((_, found)) = self.pick(which, |l| l.children.len() == 1) else { return };
        let chain_from = |top: usize| {
            let only = |n: &usize| if let [c] = self.lines[*n].children[..] { Some(c) } else { None };
            std::iter::successors(Some(top), only).collect::<Vec<_>>()
        };
        let mut chain = chain_from(found[0]);
        chain.truncate(2 + length as usize % 5);
        let names: Vec<String> = chain.iter().map(|n| self.lines[*n].name.clone()).collect();
        // Copies of these loops are reordered with them, so each must be the same perfect nest.
        let tops = self.find(&names[0], None);
        let copies: usize = names.iter().map(|n| self.find(n, None).len()).sum();
        let chains: Vec<Vec<usize>> = tops.iter().map(|t| chain_from(*t)).collect();
        let same = |c: &Vec<usize>| {
            c.len() >= names.len() && c.iter().zip(&names).all(|(n, name)| self.lines[*n].name == *name)
        };
        if chain.len() < 2 || copies != tops.len() * names.len() || !chains.iter().all(same) {
            return;
        }
        let mut order: Vec<usize> = (0..names.len()).collect();
        let mut random = Seeded(seed);
        for i in (1..order.len()).rev() {
            order.swap(i, random.below(i + 1));
        }
        let innermost = |c: &Vec<usize>| {
            let last = c[order[order.len() - 1]];
            c[..names.len()]
                .iter()
                .all(|n| *n == last || !(self.lines[*n].interleaved || self.lines[*n].unrolled))
        };
        if !chains.iter().all(innermost) {
            return;
        }
        for chain in &chains {
            let data: Vec<Line> = chain.iter().map(|n| self.lines[*n].clone()).collect();
            for (place, from) in order.iter().enumerate() {
                let Line { parent, children, .. } = self.lines[chain[place]].clone();
                self.lines[chain[place]] = Line { parent, children, ..data[*from].clone() };
            }
        }
        let vars = order.iter().map(|i| names[*i].clone()).collect();
        self.out.directives.push(Directive::Reorder { vars });
    }

    fn map(&mut self, which: u8, dim: Option<GpuDim>) {
        let Some((path, found)) = self.pick(which, |l| l.mapped.is_none() && !l.interleaved) else { return };
        for n in &found {
            let line = &self.lines[*n];
            let around = self.above(*n).into_iter().chain(self.below(*n));
            let clash = dim.is_some() && around.into_iter().any(|m| self.lines[m].mapped == Some(dim));
            if line.mapped.is_some() || line.interleaved || clash {
                return;
            }
        }
        found.iter().for_each(|n| self.lines[*n].mapped = Some(dim));
        // Private sums are a product over the loops that share trees out: keep it in memory.
        let copies: u64 = self
            .live()
            .iter()
            .filter(|n| self.lines[**n].mapped.is_some() && self.lines[**n].dim == Dim::Tree)
            .map(|n| u64::from(self.lines[*n].iterations().unwrap_or(20).max(1)))
            .product();
        if copies > 4000 {
            found.iter().for_each(|n| self.lines[*n].mapped = None);
            return;
        }
        let directive = match dim {
            Some(dim) => Directive::GpuDimension { var: path, dim },
            None => Directive::Parallel { var: path },
        };
        self.out.directives.push(directive);
    }

    /// Maps what is left to a launch: the grid from the outside, the block from the inside.
    fn finish_mapped(&mut self, seed: u64) {
        let mut random = Seeded(seed);
        self.map(0, Some(GRID[0]));
        for dim in [BLOCK[0], BLOCK[1]] {
            if random.below(3) > 0 {
                let live = self.live().len();
                self.map(random.below(live.min(128)) as u8, Some(dim));
            }
        }
        if random.below(2) == 0 {
            self.apply(&Move::Cache(0));
        }
        let shared = self.live().into_iter().find(|n| {
            let l = &self.lines[*n];
            l.dim == Dim::Tree && matches!(l.mapped, Some(Some(GpuDim::Block(_))))
        });
        if let Some(n) = shared.filter(|_| random.below(2) == 0) {
            let var = self.lines[n].name.clone();
            self.out.directives.push(Directive::SharedReduce { var });
        }
    }
}

fn a_move(kind: Kind) -> impl Strategy<Value = Move> {
    let marks = if kind == Kind::Mapped { 0 } else { 2 };
    prop_oneof![
        8 => any::<(u8, u8)>().prop_map(|(v, s)| Move::Tile(v, s)),
        3 => any::<(u8, u8)>().prop_map(|(v, s)| Move::Split(v, s)),
        6 => any::<(u8, u8, u64)>().prop_map(|(v, n, s)| Move::Reorder(v, n, s)),
        1 + marks => any::<u8>().prop_map(Move::Parallel),
        1 + marks => any::<(u8, u8)>().prop_map(|(v, d)| Move::Map(v, d)),
        1 => any::<u8>().prop_map(Move::Cache),
        2 => any::<u8>().prop_map(Move::Interleave),
        2 => (any::<u8>(), prop::option::of(0..9u8)).prop_map(|(v, n)| Move::Unroll(v, n)),
        1 => any::<u8>().prop_map(Move::Shared),
        1 => any::<bool>().prop_map(Move::Layout),
        1 => Just(Move::Sort),
    ]
}

/// A schedule that keeps the language's rules.
pub fn schedule(kind: Kind) -> impl Strategy<Value = Schedule> {
    (prop::collection::vec(a_move(kind), 0..12), any::<u64>()).prop_map(move |(moves, seed)| {
        let mut writer = Writer::new();
        moves.iter().for_each(|m| writer.apply(m));
        if kind == Kind::Mapped {
            writer.finish_mapped(seed);
        }
        writer.out
    })
}

/// What is run: shown as text where a test fails.
#[derive(Clone)]
pub struct Case {
    pub forest: Forest,
    pub schedule: Schedule,
    pub batch: usize,
    pub rows: Vec<f32>,
}

impl Case {
    pub fn row(&self, r: usize) -> &[f32] {
        &self.rows[r * self.forest.features.len()..][..self.forest.features.len()]
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows of\n{}scheduled by\n{}", self.batch, self.forest.to_text(), self.schedule)
    }
}

/// A forest, a schedule for it, and rows.
pub fn case(kind: Kind) -> impl Strategy<Value = Case> {
    let batch = prop::sample::select(vec![0usize, 1, 2, 7, 64, 65, 200]);
    (forest(), schedule(kind), batch, any::<u64>()).prop_map(|(forest, schedule, batch, seed)| {
        let rows = rows(&forest, batch, seed);
        Case { forest, schedule, batch, rows }
    })
}
