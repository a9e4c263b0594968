//! Sparse rows: the answers of the same rows written out.

use std::path::Path;

use fangorn::{
    Forest, Predictor,
    forest::{CompareType, Side},
    import::{self, LoadOptions},
    schedule::Schedule,
    sparse::SparseMatrix,
    sum::Contract,
};

/// The schedule that blends trees on ranks, which sparse rows become without being written out, or after it.
const BLENDS: &str = "ranks(u8)\ntile(batch, b0, b1, 256)\nreorder(b0, tree, b1)\ncache(b0)\nparallel(b0)\nevaluate(b1, blend)";

/// Seeded numbers between 0 and 1.
struct Random(u64);

impl Random {
    fn fraction(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1u64 << 24) as f32
    }
}

/// Rows of which each holds some of the columns, and the same rows written out.
fn rows(
    random: &mut Random,
    [rows, columns]: [usize; 2],
    density: f32,
    absent: f32,
) -> (SparseMatrix<f32>, Vec<f32>) {
    let (mut offsets, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    let mut dense = vec![absent; rows * columns];
    for row in 0..rows {
        // Some rows hold nothing, and some eleven times as much.
        let density = [density, density, density, 0.0, 11.0 * density][row % 5];
        for column in 0..columns {
            if random.fraction() < density {
                // Zeros and missing values may be held, too.
                let value = [random.fraction() * 4.0 - 2.0, 0.0, f32::NAN, -0.0]
                    [usize::from(random.fraction() < 0.2) * (column % 4)];
                indices.push(column as u32);
                values.push(value);
                dense[row * columns + column] = value;
            }
        }
        offsets.push(values.len());
    }
    (SparseMatrix::new([rows, columns], offsets, indices, values).expect("ascending columns"), dense)
}

/// The same rows in doubles, sparse and written out. Some values lie between two singles.
fn in_doubles(rows: &SparseMatrix<f32>, absent: f32) -> (SparseMatrix<f64>, Vec<f64>) {
    let (count, columns) = rows.shape();
    let (mut offsets, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    let mut dense = vec![f64::from(absent); count * columns];
    for row in 0..count {
        for (column, value) in rows.row(row) {
            let value = f64::from(value) + [0.0, 1e-12][column % 2];
            dense[row * columns + column] = value;
            indices.push(column as u32);
            values.push(value);
        }
        offsets.push(values.len());
    }
    (SparseMatrix::new([count, columns], offsets, indices, values).expect("the same columns"), dense)
}

fn same(found: &[f32], expected: &[f32], what: &str) {
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert!(bits(found) == bits(expected), "{what}");
}

#[test]
fn sparse_rows_have_the_answers_of_dense_ones() {
    let mut random = Random(11);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo");
    let load = |model: &str| {
        import::load(&folder.join(model), &LoadOptions::default()).unwrap_or_else(|e| panic!("{model}: {e}"))
    };
    // Wide, so that a row block is all that a cache holds.
    let mut wide = Forest::builder(1500, 2);
    for at in 0..60 {
        let mut tree = wide.tree(at % 2);
        tree.split(at * 25 % 1500, CompareType::F32.less(0.25), Side::Left, 1, 2);
        tree.split((at * 31 + 7) % 1500, CompareType::F32.less(-0.5), Side::Right, 3, 4);
        tree.leaf(2, &[f64::from(at) / 7.0]);
        tree.leaf(3, &[0.25]);
        tree.leaf(4, &[-1.0]);
    }
    let wide = wide.build().expect("a forest");
    assert_eq!(wide.absent_value(), 0.0);
    let models = [
        ("churn", load("churn/model.ubj"), true),
        ("softprob", load("softprob/model.ubj"), true),
        ("lightgbm-binary", load("lightgbm-binary/model.txt"), false),
        ("wide", wide, false),
    ];
    for (name, forest, missing) in models {
        assert_eq!(forest.absent_value().is_nan(), missing, "{name}");
        let columns = forest.features.len();
        for (threads, blends) in [(1, false), (3, false), (1, true), (3, true)] {
            // Row blocks may add up in another order than the whole batch, unless the order is the producer's.
            let builder = Predictor::builder(&forest).threads(threads).sum(Contract::Tree);
            let predictor =
                if blends { builder.schedule(Schedule::parse(BLENDS).expect("blends")) } else { builder };
            let predictor = predictor.build().expect("compiled");
            for count in [0, 1, 5, 63, 64, 65, 129, 700, 5000] {
                let absent = forest.absent_value() as f32;
                // Row blocks that are written out, ranked as compressed columns, and element by element.
                let densities = [0.1, 0.03, 0.005];
                for (absent, density) in densities.into_iter().flat_map(|d| [(absent, d), (-1.5, d)]) {
                    let (sparse, dense) = rows(&mut random, [count, columns], density, absent);
                    let what =
                        format!("{name}, {count} rows, {density} filled, {threads} threads, blends {blends}");
                    let expected = predictor.predict(&dense, columns).expect("values");
                    same(&predictor.values_of_sparse(&sparse, absent).expect("values"), &expected, &what);
                    let dense = fangorn::cpu::Rows::new(&dense, columns).expect("rows");
                    let expected = predictor.margins(&dense).expect("margins");
                    same(&predictor.margins_of_sparse(&sparse, absent).expect("margins"), &expected, &what);
                    if count <= 700 {
                        let (sparse, dense) = in_doubles(&sparse, absent);
                        let expected = predictor.predict(&dense, columns).expect("values");
                        let found = predictor.values_of_sparse(&sparse, f64::from(absent)).expect("values");
                        same(&found, &expected, &format!("{what}, doubles"));
                    }
                }
            }
            let other = SparseMatrix::new([1, columns + 1], vec![0, 0], Vec::new(), Vec::<f32>::new())
                .expect("a row");
            for rows in [0, 1] {
                let huge =
                    SparseMatrix::new([rows, usize::MAX], vec![0; rows + 1], Vec::new(), Vec::<f32>::new());
                let found = predictor.values_of_sparse(&huge.expect("rows without elements"), 0.0);
                assert!(matches!(found, Err(fangorn::Error::Columns { .. })), "{found:?}");
            }
            let refused = predictor.values_of_sparse(&other, 0.0).expect_err("another width").to_string();
            assert!(refused.contains(&format!("{} columns", columns + 1)), "{refused}");
        }
    }
}
