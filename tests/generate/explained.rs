//! Forests for tests of contributions, with every kind of split and with covers.

use fangorn::{
    Forest,
    forest::{CategoryRule, CompareType, Predicate, Side},
};

use super::Seeded;

fn unit(draws: &mut Seeded) -> f64 {
    draws.below(1 << 20) as f64 / f64::from(1 << 20)
}

/// A forest of every kind of split, with trees of at most `splits` splits on few features, so that features repeat on paths.
pub fn forest(draws: &mut Seeded, features: usize, splits: usize, vector: bool, deep: bool) -> Forest {
    let outputs = 1 + draws.below(3) as u32;
    let compare = if draws.below(2) == 0 { CompareType::F32 } else { CompareType::F64 };
    let base = (0..outputs).map(|o| f64::from(o) - 0.5);
    let mut builder = Forest::builder(features, outputs).compare(compare).base_score(base);
    let set = builder.set([0, 2, 5, 40], CategoryRule::NotNegative);
    for t in 0..1 + draws.below(20) as u32 {
        let splits = draws.below(splits + 1);
        // The children of a split: `Some` for a split, which comes later, `None` for a leaf.
        let mut children = vec![[None; 2]; splits];
        let mut open = vec![(0, 0), (0, 1)];
        for n in 1..splits {
            let at = if deep { open.len() - 1 } else { draws.below(open.len()) };
            let (parent, side): (usize, usize) = open.swap_remove(at);
            children[parent][side] = Some(n);
            open.extend([(n, 0), (n, 1)]);
        }
        let values: usize = if vector { outputs as usize } else { 1 };
        let mut tree = if vector { builder.vector_tree() } else { builder.tree(t % outputs) };
        let mut next = splits as u32;
        let mut covers = vec![0.0; 2 * splits + 1];
        let mut nodes = Vec::new();
        for of in &children {
            nodes.push(of.map(|child| {
                child.map_or_else(
                    || {
                        next += 1;
                        next - 1
                    },
                    |child| child as u32,
                )
            }));
        }
        for [left, right] in &nodes {
            let threshold = ((draws.below(9) as f32 - 4.0) / 2.0).into();
            let predicate = match draws.below(12) {
                0 => Predicate::Equal { value: threshold },
                1 => Predicate::InSet { set, inside: Side::Right },
                2 => Predicate::Always,
                3 => Predicate::LessZeroAside { threshold: 1.5f32.into() },
                _ => Predicate::Less { threshold },
            };
            let missing = if draws.below(2) == 0 { Side::Left } else { Side::Right };
            tree.split(draws.below(features) as u32, predicate, missing, *left, *right);
        }
        for leaf in 0..=splits {
            let all: Vec<f64> = (0..values).map(|_| unit(draws) - 0.5).collect();
            tree.leaf(leaf as u32, &all);
            // Some leaves are empty, so that shares of 0, 1 and 0 of 0 occur.
            covers[splits + leaf] = if draws.below(8) == 0 { 0.0 } else { (1 + draws.below(50)) as f64 };
        }
        for (n, [left, right]) in nodes.iter().enumerate().rev() {
            covers[n] = covers[*left as usize] + covers[*right as usize];
        }
        tree.covers(covers);
    }
    builder.build().expect("a forest")
}

/// Rows of values near and far from the thresholds of [`forest`], some missing.
pub fn rows<T: From<f32>>(draws: &mut Seeded, count: usize, features: usize) -> Vec<T> {
    let value = |draws: &mut Seeded| match draws.below(8) {
        0 => f32::NAN,
        1 => 0.0,
        2 => -(draws.below(3) as f32),
        3 => draws.below(50) as f32,
        _ => (draws.below(41) as f32 - 20.0) / 8.0,
    };
    (0..count * features).map(|_| value(draws).into()).collect()
}

/// Compares contributions with expected ones, within 1e-5 of the largest of a row's.
pub fn assert_close(what: &str, found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0f64, |most, v| most.max(v.abs()));
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let off = (f64::from(*found) - expected).abs();
        assert!(
            off <= 1e-5 * largest + 1e-12,
            "{what}: number {i}: {found} for {expected}, of {largest} at most"
        );
    }
}

/// Compares interactions with expected ones, within 1e-4 of the largest of a row's. The biases are not counted for the
/// largest, because they are larger than interactions. An output has `side x side` elements.
pub fn assert_close_interactions(what: &str, side: usize, found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let elements = expected.iter().enumerate().filter(|(at, _)| !(at + 1).is_multiple_of(side * side));
    let largest = elements.fold(0f64, |most, (_, v)| most.max(v.abs()));
    for (found, expected) in found
        .chunks_exact(side * side)
        .zip(expected.chunks_exact(side * side))
        .map(|(a, b)| (a[side * side - 1], b[side * side - 1]))
    {
        assert!(
            (f64::from(found) - expected).abs() <= 1e-6 * expected.abs().max(1.0),
            "{what}: bias {found} for {expected}"
        );
    }
    let is_bias = |at: usize| (at + 1).is_multiple_of(side * side);
    for (i, (found, expected)) in found.iter().zip(expected).enumerate().filter(|(i, _)| !is_bias(*i)) {
        let off = (f64::from(*found) - expected).abs();
        assert!(off <= 1e-4 * largest + 1e-7, "{what}: number {i}: {found} for {expected}, of {largest}");
    }
}
