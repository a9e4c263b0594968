//! Random forests that shrink.

use fangorn::{
    Forest,
    forest::{Aggregate, CategoryRule, CategorySet, CompareType, Predicate, Real, Side, ZERO_ZONE},
};
use proptest::prelude::*;

use super::{
    Seeded,
    grow::{Growing, assemble},
    rows::EDGES,
};

/// How a leaf is split.
#[derive(Clone, Debug)]
struct Growth {
    leaf: u8,
    deepest: bool,
    feature: u16,
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
    (any::<(u8, bool, u16, u8)>(), ask, any::<bool>()).prop_map(
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

/// The trees of a forest before they are grown: the shapes in turn, so many times in all, none deeper than `deepest`.
#[derive(Clone, Debug)]
struct Grove {
    shapes: Vec<Vec<Growth>>,
    trees: usize,
    deepest: u32,
}

/// What the papers' models and the limits of storage are like: a few trees of any shape, many small ones, single
/// leaves, stumps, chains as deep as trees come, and thousands of tiny trees.
fn grove() -> impl Strategy<Value = Grove> {
    let each = |deepest: u32| move |shapes: Vec<Vec<Growth>>| Grove { trees: shapes.len(), shapes, deepest };
    let chain = prop::collection::vec(growth(), 20..=60)
        .prop_map(|steps| steps.into_iter().map(|g| Growth { deepest: true, ..g }).collect::<Vec<_>>());
    let tiny = (prop::collection::vec(prop::collection::vec(growth(), 0..3), 1..6), 100..=5000usize);
    prop_oneof![
        12 => prop::collection::vec(prop::collection::vec(growth(), 0..24), 1..12).prop_map(each(9)),
        6 => prop::collection::vec(prop::collection::vec(growth(), 0..10), 12..=40).prop_map(each(9)),
        1 => prop::collection::vec(prop::collection::vec(growth(), 0), 1..=60).prop_map(each(0)),
        2 => prop::collection::vec(prop::collection::vec(growth(), 1), 1..=120).prop_map(each(1)),
        1 => prop::collection::vec(chain, 1..4).prop_map(each(60)),
        1 => tiny.prop_map(|(shapes, trees)| Grove { shapes, trees, deepest: 2 }),
    ]
}

/// A random forest: 1 to 5000 trees, 1 to 3000 features, 1 to 300 outputs.
pub fn forest() -> impl Strategy<Value = Forest> {
    // A forest that asks for thresholds only runs on kernels of its own.
    let plain = prop_oneof![1 => Just(true), 2 => Just(false)];
    let pool = prop::collection::vec(threshold(), 1..10);
    let sets = prop::collection::vec((prop::collection::vec(any::<u32>(), 0..4), 0..3usize), 0..4);
    let features = prop_oneof![12 => 1..=12u32, 1 => 13..=200u32, 1 => 201..=3000u32];
    let outputs = prop_oneof![6 => Just(1u32), 6 => 1..=5u32, 1 => 6..=300u32];
    let head = (features, outputs, any::<(bool, bool)>());
    (head, grove(), pool, (plain, sets), any::<u64>()).prop_map(
        |((features, outputs, (vector, wide)), grove, pool, (plain, sets), seed)| {
            // Neither is the other's business, and both at once cost too much.
            let outputs = if grove.trees > 200 { outputs.min(5) } else { outputs };
            let compare = if wide { CompareType::F64 } else { CompareType::F32 };
            let asking = Asking { features, wide, plain, pool: &pool, sets: sets.len() as u32 };
            let mut random = Seeded(seed);
            let shuffle = seed % 2 == 1;
            let grow = |t: usize| {
                let tree = asking.grow(&grove.shapes[t % grove.shapes.len()], grove.deepest);
                if shuffle { tree.shuffled(&mut random) } else { tree.nodes }
            };
            let trees = (0..grove.trees).map(grow).collect();
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

/// What the splits of a forest may ask.
struct Asking<'a> {
    features: u32,
    wide: bool,
    plain: bool,
    pool: &'a [f32],
    sets: u32,
}

impl Asking<'_> {
    fn value(&self, growth: &Growth) -> f64 {
        let t = f64::from(self.pool[growth.threshold as usize % self.pool.len()]);
        // Between two f32 values there is room for many thresholds.
        match growth.leaf % 4 {
            0 if self.wide => t.next_up(),
            1 if self.wide => t.next_down(),
            2 if self.wide => t * 1.000_000_01,
            _ => t,
        }
    }

    fn predicate(&self, growth: &Growth) -> Predicate {
        let side = |left| if left { Side::Left } else { Side::Right };
        let in_zone = |t: f64| t.abs() <= 2.0 * f64::from(ZERO_ZONE);
        let t = Real(self.value(growth));
        match growth.ask {
            _ if self.plain => Predicate::Less { threshold: t },
            Ask::InSet(set, inside) if self.sets > 0 => {
                Predicate::InSet { set: u32::from(set) % self.sets, inside: side(inside) }
            }
            Ask::Equal => Predicate::Equal { value: t },
            Ask::Always => Predicate::Always,
            Ask::LessZeroAside if !in_zone(t.0) => Predicate::LessZeroAside { threshold: t },
            _ => Predicate::Less { threshold: t },
        }
    }

    fn grow(&self, growths: &[Growth], deepest: u32) -> Growing {
        let mut tree = Growing::new();
        for g in growths {
            let leaves = tree.leaves();
            let leaf =
                if g.deepest { leaves[leaves.len() - 1] } else { leaves[g.leaf as usize % leaves.len()] };
            if tree.depths[leaf] < deepest {
                let missing = if g.missing_left { Side::Left } else { Side::Right };
                tree.split(leaf, u32::from(g.feature) % self.features, self.predicate(g), missing);
            }
        }
        tree
    }
}
