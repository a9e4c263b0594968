//! A forest with its prologue folded in, on raw rows, against the forest on rows that are prepared in IEEE arithmetic.

use crate::generate;

use fangorn::{
    Forest,
    forest::{CompareType, Operation, Predicate, Prologue, Side, reference},
};
use generate::Seeded;

/// Second operands: neutral ones, zeros, denormal, huge and ordinary ones.
const NUMBERS: [f64; 16] = [
    0.0, -0.0, 1.0, -1.0, 0.1, -2.5, 3.0, 1e-45, -1e-40, 1e-38, 1e-10, 12345.678, -1e10, 1e30, 3.4e38,
    -3.0e38,
];
/// The same for double precision.
const WIDE: [f64; 6] = [1e-300, -1e-320, 1e300, -1e45, 5e-324, 1.7e308];

fn pick<T: Copy>(random: &mut Seeded, from: &[T]) -> T {
    from[random.below(from.len())]
}

/// Up to four steps, of which the last gives `features` columns, and the columns before the first.
fn steps(random: &mut Seeded, features: usize) -> (Vec<Prologue>, usize) {
    let mut columns = features;
    let mut steps = Vec::new();
    for _ in 0..1 + random.below(4) {
        let precision = pick(random, &CompareType::ALL);
        steps.push(match random.below(8) {
            0 => Prologue::Cast(precision),
            1 => {
                let width = 1 + random.below(5);
                let chosen = (0..columns).map(|_| random.below(width) as u32).collect();
                columns = width;
                Prologue::Columns { columns: chosen, width }
            }
            _ => {
                let operations =
                    [Operation::Add, Operation::Subtract, Operation::Multiply, Operation::Divide];
                let number = |random: &mut Seeded| match precision {
                    CompareType::F64 if random.below(4) == 0 => pick(random, &WIDE),
                    _ => pick(random, &NUMBERS),
                };
                let count = if random.below(4) == 0 { 1 } else { columns };
                let numbers = (0..count).map(|_| number(random)).collect();
                Prologue::Arithmetic { operation: pick(random, &operations), numbers, precision }
            }
        });
    }
    steps.reverse();
    (steps, columns)
}

/// A row after the steps, one operation after the other.
fn prepared(steps: &[Prologue], raw: &[f64]) -> Vec<f64> {
    let mut row = raw.to_vec();
    for step in steps {
        row = match step {
            Prologue::Columns { columns, .. } => columns.iter().map(|c| row[*c as usize]).collect(),
            Prologue::Cast(CompareType::F32) => row.iter().map(|x| f64::from(*x as f32)).collect(),
            Prologue::Cast(CompareType::F64) => row,
            Prologue::Arithmetic { operation, numbers, precision } => {
                let number = |i: usize| numbers[if numbers.len() == 1 { 0 } else { i }];
                let of = |(i, x): (usize, &f64)| match (precision, operation) {
                    (CompareType::F64, Operation::Add) => x + number(i),
                    (CompareType::F64, Operation::Subtract) => x - number(i),
                    (CompareType::F64, Operation::Multiply) => x * number(i),
                    (CompareType::F64, Operation::Divide) => x / number(i),
                    (CompareType::F32, Operation::Add) => f64::from(*x as f32 + number(i) as f32),
                    (CompareType::F32, Operation::Subtract) => f64::from(*x as f32 - number(i) as f32),
                    (CompareType::F32, Operation::Multiply) => f64::from(*x as f32 * number(i) as f32),
                    (CompareType::F32, Operation::Divide) => f64::from(*x as f32 / number(i) as f32),
                };
                row.iter().enumerate().map(of).collect()
            }
        };
    }
    row
}

/// A raw value: an edge, a small number, or any bits.
fn raw(random: &mut Seeded, rows: CompareType) -> f64 {
    let edges = [
        0.0,
        -0.0,
        1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e-45,
        -1e-45,
        3.4e38,
        -1e30,
        1e-300,
        1e300,
    ];
    let value = match random.below(4) {
        0 => pick(random, &edges),
        1 => random.below(4001) as f64 / 100.0 - 20.0,
        2 => f32::from_bits(random.next() as u32).into(),
        _ => f64::from_bits(random.next()),
    };
    if rows == CompareType::F32 { f64::from(value as f32) } else { value }
}

/// A forest of small trees whose thresholds are what raw values come to, and their neighbours.
fn forest(random: &mut Seeded, features: usize, compare: CompareType, images: &[Vec<f64>]) -> Forest {
    let mut forest = Forest::builder(features, 1).compare(compare);
    forest.set([0, 1, 5], fangorn::forest::CategoryRule::NotNegative);
    let plain = random.below(3) > 0;
    for _ in 0..1 + random.below(4) {
        let splits = random.below(6);
        let mut tree = forest.tree(0);
        // A chain: the left child of each split is a leaf.
        for s in 0..splits as u32 {
            let feature = random.below(features);
            let image = compare.cast(pick(random, &images[feature]));
            let image = if image.is_nan() { 0.5 } else { image };
            let t = match (random.below(3), compare) {
                (0, CompareType::F32) => f64::from((image as f32).next_up()),
                (1, CompareType::F32) => f64::from((image as f32).next_down()),
                (0, CompareType::F64) => image.next_up(),
                (1, CompareType::F64) => image.next_down(),
                _ => image,
            };
            let predicate = match random.below(if plain { 2 } else { 8 }) {
                5 => Predicate::Always,
                6 if t.abs() > 1e-30 => Predicate::LessZeroAside { threshold: t.into() },
                6 | 7 => Predicate::Equal { value: t.into() },
                4 if random.below(4) == 0 => Predicate::InSet { set: 0, inside: Side::Left },
                _ => Predicate::Less { threshold: t.into() },
            };
            let missing = pick(random, &[Side::Left, Side::Right]);
            tree.split(feature as u32, predicate, missing, 2 * s + 1, 2 * s + 2);
            tree.leaf(s, &[f64::from(s)]);
        }
        tree.leaf(splits as u32, &[-1.0]);
    }
    forest.build().expect("a forest")
}

#[test]
fn every_row_comes_to_the_leaves_of_the_prepared_one() {
    let cases = generate::wanted(20_000);
    let (mut accepted, mut scaled, mut compared) = (0, 0, 0u64);
    for case in 0..cases {
        let mut random = Seeded(u64::from(case) << 20 | 11);
        let features = 1 + random.below(4);
        let (steps, width) = steps(&mut random, features);
        let [rows, compare] = [(); 2].map(|()| pick(&mut random, &CompareType::ALL));
        let mut samples: Vec<Vec<f64>> =
            (0..24).map(|_| (0..width).map(|_| raw(&mut random, rows)).collect()).collect();
        let images: Vec<Vec<f64>> = (0..features)
            .map(|f| samples.iter().map(|sample| prepared(&steps, sample)[f]).collect())
            .collect();
        let forest = forest(&mut random, features, compare, &images);
        let folded = match forest.with_prologue(&steps, rows) {
            Ok(folded) => folded,
            Err(error) => {
                // Only what asks for more than an order, or numbers that make NaN or lose their type.
                let zero = |p: &Prologue| match p {
                    Prologue::Arithmetic { numbers, precision, .. } => {
                        numbers.iter().any(|n| precision.cast(*n) == 0.0)
                    }
                    _ => false,
                };
                let asks = |p: &Predicate| !matches!(p, Predicate::Less { .. });
                let nodes = || forest.trees.iter().flat_map(|t| &t.nodes);
                let special = nodes()
                    .any(|n| matches!(n, fangorn::forest::Node::Split { predicate, .. } if asks(predicate)));
                assert!(special || steps.iter().any(zero), "case {case}: {error}\n{steps:?}");
                continue;
            }
        };
        folded.verify().expect("the folded forest keeps the rules");
        accepted += 1;
        scaled += u32::from(steps.iter().any(|s| matches!(s, Prologue::Arithmetic { .. })));
        // The samples, their neighbours, and each threshold with its own.
        let neighbours = |x: f64| match rows {
            CompareType::F32 => [f64::from((x as f32).next_up()), x, f64::from((x as f32).next_down())],
            CompareType::F64 => [x.next_up(), x, x.next_down()],
        };
        let near: Vec<Vec<f64>> =
            samples.iter().map(|row| row.iter().map(|x| neighbours(*x)[random.below(3)]).collect()).collect();
        samples.extend(near);
        let thresholds = generate::wide_rows(&folded, 48, u64::from(case));
        let cast = |x: &f64| if rows == CompareType::F32 { f64::from(*x as f32) } else { *x };
        samples.extend(thresholds.chunks(width).map(|row| row.iter().map(cast).collect::<Vec<_>>()));
        for row in &samples {
            let (found, expected) =
                (reference::leaf_ids(&folded, row), reference::leaf_ids(&forest, &prepared(&steps, row)));
            assert_eq!(
                found, expected,
                "case {case}, {rows:?} row {row:?}\n{steps:?}\n{forest:?}\n{folded:?}"
            );
            compared += 1;
        }
    }
    let least = cases / 2;
    assert!(
        accepted > least && scaled > least && compared > 50 * u64::from(least),
        "{accepted}, {scaled} of {cases}"
    );
}
