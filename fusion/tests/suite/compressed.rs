//! Compressed matrices: their round trip, encodings and sizes, and runs over them.

use std::collections::BTreeSet;

use fangorn_fusion::{
    Bindings, CompressedMatrix, DenseMatrix, Encoding, FusionError, Matrix,
    dag::{Aggregation, Builder, Dag, Direction, Expression, Format},
    select::{Costs, Plan, PlanCache, Policy},
};

use crate::{
    execution::compare,
    random::{Random, compressed, few_values},
};

/// Compresses a matrix, checks that it holds the same bits, and returns it.
fn round_trip(shape: (usize, usize), values: Vec<f64>) -> CompressedMatrix {
    let dense = DenseMatrix::new(shape, values).unwrap();
    let compressed = CompressedMatrix::new(&dense);
    let bits = |values: &[f64]| -> Vec<u64> { values.iter().map(|x| x.to_bits()).collect() };
    assert_eq!(bits(&compressed.to_dense()), bits(dense.values()), "{shape:?}");
    for at in 0..dense.values().len().min(10_000) {
        let (row, column) = (at / shape.1, at % shape.1);
        assert_eq!(compressed.element(row, column).to_bits(), dense.row(row)[column].to_bits());
    }
    let mut columns: Vec<usize> =
        compressed.groups().iter().flat_map(|group| group.columns()).copied().collect();
    columns.sort_unstable();
    let all = if dense.values().is_empty() { 0 } else { shape.1 };
    assert_eq!(columns, (0..all).collect::<Vec<_>>());
    // Never more than uncompressed columns take.
    assert!(compressed.bytes() <= 8 * dense.values().len() as u64 + 24 * all as u64);
    compressed
}

fn encodings(matrix: &CompressedMatrix) -> Vec<Encoding> {
    matrix.groups().iter().map(|group| group.encoding()).collect()
}

#[test]
fn random_matrices_come_back_bit_for_bit() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let mut random = Random::new(100 + seed);
        let sizes = [1, 2, 3, 7, 40, 130, 700];
        let (rows, columns) = (random.pick(&sizes), random.pick(&sizes));
        let mut values = few_values(&mut random, rows, columns);
        let spoils = random.pick(&[0.0, 0.001, 0.1]);
        for value in &mut values {
            if random.share() < spoils {
                let bits = f64::from_bits(0x7FF8_0000_0000_0000 | random.below(3) as u64);
                *value = random.pick(&[bits, -bits, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 5e-324]);
            }
        }
        let compressed = round_trip((rows, columns), values);
        seen.extend(encodings(&compressed).into_iter().map(|encoding| format!("{encoding:?}")));
    }
    assert_eq!(seen.len(), Encoding::ALL.len(), "{seen:?}");
}

#[test]
fn matrices_without_elements_and_of_one_row_or_column() {
    for shape in [(0, 0), (0, 5), (5, 0), (0, usize::MAX), (usize::MAX, 0)] {
        let empty = round_trip(shape, Vec::new());
        assert_eq!((empty.shape(), empty.bytes(), empty.groups().len()), (shape, 0, 0));
        let matrix = compressed(shape, Vec::new());
        assert_eq!((matrix.scalar(), matrix.filled()), (0.0, 0.0));
    }
    // A code and a dictionary take more than the element.
    assert_eq!(encodings(&round_trip((1, 3), vec![1.0, 1.0, 2.0])), [Encoding::Uncompressed]);
    // Of a constant column no row is listed.
    let constant = round_trip((10_000, 1), vec![f64::NAN; 10_000]);
    assert_eq!((encodings(&constant), constant.bytes()), (vec![Encoding::Offsets], 24 + 12));
    let wide = round_trip((3, 50_000), (0..150_000).map(|at| f64::from(at % 7)).collect());
    assert_eq!(wide.shape(), (3, 50_000));
}

#[test]
fn each_column_takes_the_encoding_of_the_fewest_bytes() {
    let rows = 100_000;
    let mut random = Random::new(3);
    let mut column = |value: &mut dyn FnMut(&mut Random, usize) -> f64| -> CompressedMatrix {
        round_trip((rows, 1), (0..rows).map(|row| value(&mut random, row)).collect())
    };
    // Codes and runs are as long as `sizes` says: 12 bytes for a tuple of one column, 24 for the column.
    let few = column(&mut |random, _| random.below(256) as f64);
    assert_eq!((encodings(&few), few.bytes()), (vec![Encoding::Dense], 24 + 256 * 12 + 100_000));
    let more = column(&mut |_, row| (row % 257) as f64);
    assert_eq!((encodings(&more), more.bytes()), (vec![Encoding::Dense], 24 + 257 * 12 + 200_000));
    let sorted = column(&mut |_, row| (row / 10_000) as f64);
    assert_eq!((encodings(&sorted), sorted.bytes()), (vec![Encoding::Runs], 24 + 10 * 12 + 10 * 5));
    let sparse = column(&mut |_, row| if row % 100 == 7 { 1.0 + (row / 50_000) as f64 } else { 0.0 });
    assert_eq!((encodings(&sparse), sparse.bytes()), (vec![Encoding::Offsets], 24 + 3 * 12 + 1000 * 5));
    // The most frequent tuple need not be 0.
    let filled = column(&mut |_, row| if row % 100 == 7 { 0.0 } else { 5.0 });
    assert_eq!(encodings(&filled), [Encoding::Offsets]);
    let any = column(&mut |random, _| random.share());
    assert_eq!((encodings(&any), any.bytes()), (vec![Encoding::Uncompressed], 24 + 800_000));
    // More tuples than two bytes can name, with rows enough.
    let many = round_trip((400_000, 1), (0..400_000).map(|row| f64::from(row % 70_000)).collect());
    assert_eq!(encodings(&many), [Encoding::Uncompressed]);
    let most = round_trip((400_000, 1), (0..400_000).map(|row| f64::from(row % 65_536)).collect());
    assert_eq!(encodings(&most), [Encoding::Dense]);
    assert_eq!(most.groups()[0].tuples(), 65_536);
}

#[test]
fn columns_that_depend_on_each_other_share_a_group() {
    let rows = 50_000;
    let mut random = Random::new(5);
    let mut values = Vec::new();
    for _ in 0..rows {
        let (origin, other) = (random.below(5000) as f64, random.below(4000) as f64);
        values.extend([origin, other, origin * 0.5, -origin, random.below(2) as f64, random.below(3) as f64]);
    }
    let compressed = round_trip((rows, 6), values);
    let groups: Vec<&[usize]> = compressed.groups().iter().map(|group| group.columns()).collect();
    // The last two have six tuples together, and a byte holds their code.
    assert_eq!(groups, [&[0, 2, 3][..], &[1], &[4, 5]]);
    // All columns of a wide matrix that are copies of each other end in one group of each bin.
    let copies = round_trip((1000, 64), (0..64_000).map(|at| f64::from(at / 64 % 50)).collect());
    assert_eq!(copies.groups().len(), 2);
}

fn bound(pairs: &[(&str, Matrix)]) -> Bindings {
    pairs.iter().map(|(name, matrix)| ((*name).to_owned(), matrix.clone())).collect()
}

fn matrix(random: &mut Random, rows: usize, columns: usize) -> Matrix {
    let values = (0..rows * columns).map(|_| random.share() * 2.0 - 1.0).collect();
    Matrix::dense((rows, columns), values).unwrap()
}

fn few(random: &mut Random, rows: usize, columns: usize) -> Matrix {
    compressed((rows, columns), few_values(random, rows, columns))
}

/// A graph in which each template meets X in each way: distinct tuples, column groups, and elements.
fn templates(rows: usize, columns: usize, x: impl for<'b> Fn(&'b Builder) -> Expression<'b>) -> Dag {
    let builder = Builder::new();
    let x = x(&builder);
    let (y, s) = (builder.dense("Y", rows, columns), builder.csr("S", rows, columns, 0.1));
    let (w, v) = (builder.dense("w", rows, 1), builder.dense("v", columns, 1));
    let (wide, u) = (builder.dense("W", columns, 20), builder.dense("U", rows, 1));
    let scalar = builder.dense("s", 1, 1);
    // Not sparse-safe, of X alone and a scalar.
    let of_x = ((x * scalar + 0.5).abs() * x).exp();
    for (name, value) in [
        ("full", of_x.sum()),
        ("squares", of_x.aggregate(Aggregation::SumOfSquares, Direction::Column)),
        ("least", of_x.aggregate(Aggregation::Min, Direction::Row)),
        ("rows", x.square().row_sums()),
        ("greatest", x.aggregate(Aggregation::Max, Direction::Full)),
        ("columns", x.column_sums()),
        ("elements", of_x),
        ("coded", x.square() * 2.0),
        ("ones", x.sum() + x.square().sum()),
        ("with Y", (x * y).sum() + (x * x).sum()),
        ("cells", x * y + w),
        ("sparse", s * x.exp()),
        ("sparse sum", (s * x).sum()),
        ("right", x.matmul(v)),
        ("left", x.transpose().matmul(w)),
        ("chain", x.transpose().matmul(w * x.matmul(v))),
        ("normal", x.transpose().matmul(x.matmul(v) - w)),
        ("wide", x.matmul(wide)),
        ("wide left", x.transpose().matmul(y.matmul(wide))),
        ("centred", (x / (x.abs().row_sums() + 1.0)).column_sums()),
        ("scaled", (x * 0.5).transpose().matmul(w)),
        ("outer", (s * u.matmul(v.transpose())).matmul(v)),
        ("transposed", x.transpose() * 2.0),
        ("some", x.columns(columns / 2, columns).row_sums()),
    ] {
        builder.output(name, value);
    }
    builder.finish().unwrap()
}

/// Rows from fewer to more than a tile has, so that the last tile has every number of rows. The tile of an operator that
/// decompresses 130 columns has 32 rows. That of one which goes over groups has 4096, in four passes of 1024.
#[test]
fn every_template_computes_what_the_interpreter_does() {
    let heights = (1..=66).map(|rows| (rows, 130));
    let shapes = [
        (300, 4),
        (1023, 3),
        (1024, 3),
        (1025, 3),
        (4095, 3),
        (4096, 3),
        (4097, 3),
        (8200, 2),
        (700, 1),
        (1, 9),
        (1, 1),
    ];
    for (at, (rows, columns)) in heights.chain(shapes).enumerate() {
        let mut random = Random::new(at as u64);
        let x = few(&mut random, rows, columns);
        let bytes = x.bytes();
        let dag = templates(rows, columns, |builder| builder.compressed("X", rows, columns, bytes));
        let s = few_values(&mut random, rows, columns);
        let bindings = bound(&[
            ("X", x),
            ("S", Matrix::csr((rows, columns), &s).unwrap()),
            ("Y", matrix(&mut random, rows, columns)),
            ("w", matrix(&mut random, rows, 1)),
            ("v", matrix(&mut random, columns, 1)),
            ("W", matrix(&mut random, columns, 20)),
            ("U", matrix(&mut random, rows, 1)),
            ("s", matrix(&mut random, 1, 1)),
        ]);
        compare(&format!("{rows} x {columns}"), &dag, &bindings, &mut BTreeSet::new());
    }
}

/// Every vector in place of a dense one, so that each position of an operator meets a compressed matrix.
#[test]
fn every_input_may_be_compressed() {
    let (rows, columns) = (900, 5);
    let mut random = Random::new(8);
    let builder = Builder::new();
    let x = builder.compressed("X", rows, columns, 500);
    let (y, r) = (builder.compressed("Y", rows, columns, 700), builder.compressed("r", 1, columns, 90));
    let (c, v) = (builder.compressed("c", rows, 1, 90), builder.compressed("v", columns, 1, 90));
    let (k, s) = (builder.compressed("k", 1, 1, 32), builder.csr("S", rows, columns, 0.3));
    builder.output("cells", (x * y + r) * c + k);
    builder.output("right", x.matmul(v) + s.matmul(v));
    builder.output("left", x.transpose().matmul(c) + s.transpose().matmul(c));
    builder.output("square", y.transpose().matmul(x).matmul(x.transpose().matmul(y)));
    builder.output("outer", (s * c.matmul(v.transpose())).sum());
    builder.output("scalar", (k + 1.0) * k);
    builder.output("scaled", (x * k).sum() + (k * x).sum());
    builder.output("row", (r * r).row_sums());
    let dag = builder.finish().unwrap();
    let shapes = [("X", rows, columns), ("Y", rows, columns), ("r", 1, columns), ("c", rows, 1)];
    let mut bindings: Bindings = shapes
        .into_iter()
        .chain([("v", columns, 1), ("k", 1, 1)])
        .map(|(name, rows, columns)| (name.to_owned(), few(&mut random, rows, columns)))
        .collect();
    let values = few_values(&mut random, rows, columns);
    bindings.insert("S".to_owned(), Matrix::csr((rows, columns), &values).unwrap());
    compare("all", &dag, &bindings, &mut BTreeSet::new());
}

#[test]
fn products_with_infinity_and_nan_are_those_of_a_dense_matrix() {
    // Rows that hold infinity have weights of both signs and of 0, whose sum is less than 0 for each tuple.
    let rows = 6000;
    let spoils = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0];
    for (at, spoil) in spoils.into_iter().enumerate() {
        let row = |row: usize| [if row.is_multiple_of(5) { spoil } else { -0.0 }, (row % 3) as f64, 0.0];
        let x = compressed((rows, 3), (0..rows).flat_map(row).collect());
        let weight = |row: usize| match (row, at) {
            (5000, 3) => f64::INFINITY,
            (row, _) => [1.0, -2.0, 0.0, 0.5][row % 4],
        };
        let builder = Builder::new();
        let input = builder.compressed("X", rows, 3, x.bytes());
        let (w, v) = (builder.dense("w", rows, 1), builder.dense("v", 3, 2));
        builder.output("left", input.transpose().matmul(w));
        builder.output("right", input.matmul(v));
        builder.output("sum", input.sum());
        builder.output("product", input * w);
        let dag = builder.finish().unwrap();
        let v = vec![1.0, f64::INFINITY, 0.0, -1.0, f64::NAN, 2.0];
        let bindings = bound(&[
            ("X", x),
            ("w", Matrix::dense((rows, 1), (0..rows).map(weight).collect()).unwrap()),
            ("v", Matrix::dense((3, 2), v).unwrap()),
        ]);
        compare(&format!("{spoil}"), &dag, &bindings, &mut BTreeSet::new());
    }
}

#[test]
fn plans_say_how_they_read_a_compressed_matrix() {
    let builder = Builder::new();
    let (x, y) = (builder.compressed("X", 10_000, 20, 40_000), builder.dense("Y", 10_000, 20));
    let v = builder.dense("v", 20, 1);
    builder.output("sum", x.square().sum());
    builder.output("chain", x.transpose().matmul(x.matmul(v)));
    builder.output("both", (x.abs() * y).sum());
    let dag = builder.finish().unwrap();
    let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
    let text = plan.explain(&dag);
    for part in ["computes the distinct tuples of 0", "multiplies the column groups of 0", "decompresses 0"] {
        assert!(text.contains(part), "{text}");
    }
    // Square and sum of 5000 elements at most, instead of 200 000; or the time to read 40 000 bytes.
    let sum = plan.operators().iter().find(|operator| operator.distinct(&dag).is_some()).unwrap();
    let costs = Costs::default();
    let expected = 8.0 / costs.write + (40_000.0 / costs.read).max(2.0 * 5000.0 / costs.compute);
    assert!((costs.operator(&dag, sum) / expected - 1.0).abs() < 1e-12);
}

#[test]
fn elementwise_functions_of_a_compressed_matrix_keep_its_codes() {
    let builder = Builder::new();
    let x = builder.compressed("X", 4000, 2, 9000);
    let y = builder.dense("Y", 4000, 2);
    builder.output("kept", (x.exp() * 2.0).max(0.5));
    builder.output("dense", x * y);
    builder.output("turned", x.transpose());
    builder.output("some", x.columns(0, 1));
    let dag = builder.finish().unwrap();
    let format =
        |name: &str| dag.size(dag.outputs().iter().find(|output| output.name == name).unwrap().node).format;
    assert_eq!(format("kept"), Format::Compressed { bytes: 9000 });
    assert!(["dense", "turned", "some"].iter().all(|name| format(name) == Format::Dense));
    let values: Vec<f64> = (0..8000).map(|at| f64::from(at % 6)).collect();
    let x = compressed((4000, 2), values.clone());
    let bindings = bound(&[("X", x.clone()), ("Y", Matrix::dense((4000, 2), values).unwrap())]);
    for policy in Policy::ALL {
        let found = Plan::new(&dag, policy, &Costs::default()).run(&dag, &bindings).unwrap();
        assert!(matches!(found["kept"], Matrix::Compressed(_)), "{policy:?}");
        assert_eq!(found["kept"].bytes(), x.bytes());
        assert!(matches!(found["dense"], Matrix::Dense(_)));
    }
}

#[test]
fn a_compressed_input_has_a_text_and_refusals() {
    let text = "%0 = input \"X\": compressed[300, 4] bytes 1234 filled 0.5
%1 = exp(%0)  // compressed[300, 4] filled 1.0
%2 = sum.full(%1)  // dense[1, 1] filled 1.0
output \"sum\": %2
";
    let dag = Dag::parse(text).unwrap();
    assert_eq!(dag.to_string(), text);
    assert_eq!(dag.size(1).bytes(), 1234.0);
    let error = Dag::parse("%0 = input \"X\": compressed[3, 2]\noutput \"x\": %0").unwrap_err().to_string();
    assert!(error.contains("expected \" bytes \""), "{error}");
    let error = Dag::parse("%0 = input \"X\": packed[3, 2]\noutput \"x\": %0").unwrap_err().to_string();
    assert!(error.contains("write dense, csr or compressed"), "{error}");
    let dense = Matrix::dense((300, 4), vec![0.0; 1200]).unwrap();
    let error = dag.interpret(&bound(&[("X", dense)])).unwrap_err();
    assert!(
        matches!(&error, FusionError::Input { problem, .. } if problem.contains("a dense matrix is bound"))
    );
    // The bytes are what plans expect, and need not be those of the matrix.
    let x = compressed((300, 4), vec![0.0; 1200]);
    assert_eq!(dag.interpret(&bound(&[("X", x)])).unwrap()["sum"].scalar(), 1200.0);
}

#[test]
fn a_plan_is_kept_for_other_bytes() {
    let mut cache = PlanCache::default();
    for bytes in [100, 5000] {
        let dag = templates(50, 5, |builder| builder.compressed("X", 50, 5, bytes));
        cache.plan(&dag, Policy::CostBased, &Costs::default());
    }
    assert_eq!((cache.report().hits, cache.report().misses), (1, 1));
}
