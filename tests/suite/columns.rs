//! Compares predictions with the reference interpreter, leaf by leaf, for tables whose columns have their own types and
//! strides, and missing values.

use crate::generate;

use fangorn::{
    Forest, Predictor,
    check::SelfCheck,
    cpu::Rows,
    forest::{CompareType, Side, reference},
    schedule::{BatchSchedules, FewRows, Schedule},
    table::{Column, ColumnValues},
};
use generate::{Seeded, engines::usual, forest_of};
use half::{bf16, f16};

/// Values of one column in a type that holds them all exactly.
enum Held {
    F64(Vec<f64>),
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
    I32(Vec<i32>),
    I16(Vec<i16>),
    I8(Vec<i8>),
    U32(Vec<u32>),
    U16(Vec<u16>),
    U8(Vec<u8>),
    Bool(Vec<bool>),
}

/// The names of the types, in the order of [`Held`].
const TYPES: [&str; 11] = ["f64", "f32", "f16", "bf16", "i32", "i16", "i8", "u32", "u16", "u8", "bool"];

impl Held {
    /// Returns the values in a type, or `None` if the type can't hold all of them. With `garbage`, NaN becomes 1.
    fn new(values: &[f64], dtype: &str, garbage: bool) -> Option<Self> {
        let there: Vec<f64> = values.iter().map(|v| if garbage && v.is_nan() { 1.0 } else { *v }).collect();
        macro_rules! whole {
            ($variant:ident $t:ty) => {{
                let exact = |v: &f64| f64::from(*v as $t).to_bits() == v.to_bits();
                there.iter().all(exact).then(|| Self::$variant(there.iter().map(|v| *v as $t).collect()))
            }};
        }
        macro_rules! float {
            ($variant:ident $of:expr) => {{
                let of = $of;
                let exact = |v: &f64| v.is_nan() || f64::from(of(*v)) == *v;
                there.iter().all(exact).then(|| Self::$variant(there.iter().map(|v| of(*v)).collect()))
            }};
        }
        match dtype {
            "f64" => Some(Self::F64(there)),
            "f32" => float!(F32 |v: f64| v as f32),
            "f16" => float!(F16 f16::from_f64),
            "bf16" => float!(Bf16 bf16::from_f64),
            "i32" => whole!(I32 i32),
            "i16" => whole!(I16 i16),
            "i8" => whole!(I8 i8),
            "u32" => whole!(U32 u32),
            "u16" => whole!(U16 u16),
            "u8" => whole!(U8 u8),
            _ => there
                .iter()
                .all(|v| v.to_bits() == 0 || *v == 1.0)
                .then(|| Self::Bool(there.iter().map(|v| *v == 1.0).collect())),
        }
    }

    fn values(&self) -> ColumnValues<'_> {
        match self {
            Self::F64(values) => values[..].into(),
            Self::F32(values) => values[..].into(),
            Self::F16(values) => values[..].into(),
            Self::Bf16(values) => values[..].into(),
            Self::I32(values) => values[..].into(),
            Self::I16(values) => values[..].into(),
            Self::I8(values) => values[..].into(),
            Self::U32(values) => values[..].into(),
            Self::U16(values) => values[..].into(),
            Self::U8(values) => values[..].into(),
            Self::Bool(values) => values[..].into(),
        }
    }
}

/// A column in memory: the value of row `i` is `held[from + i * stride]`. `bits` is a bitmap of the values that are not
/// missing, with the index of its first bit.
struct Kept {
    held: Held,
    dtype: &'static str,
    from: usize,
    stride: usize,
    bits: Option<(Vec<u8>, usize)>,
}

impl Kept {
    fn draw(values: &[f64], random: &mut Seeded) -> Self {
        let (from, stride) = (random.below(3), 1 + random.below(2) * random.below(4));
        let garbage = random.below(2) == 0 && values.iter().any(|v| v.is_nan());
        let mut spread = vec![values[0]; from + (values.len() - 1) * stride + 1 + random.below(3)];
        for (row, value) in values.iter().enumerate() {
            spread[from + row * stride] = *value;
        }
        let first = random.below(TYPES.len());
        let types = (0..TYPES.len()).map(|at| TYPES[(first + at) % TYPES.len()]);
        let (dtype, held) = types
            .filter_map(|dtype| Some((dtype, Held::new(&spread, dtype, garbage)?)))
            .next()
            .expect("a double holds every value");
        let bits = garbage.then(|| {
            let offset = random.below(11);
            let mut bits = vec![0u8; (offset + values.len()).div_ceil(8)];
            for (row, _) in values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
                bits[(offset + row) / 8] |= 1 << ((offset + row) % 8);
            }
            (bits, offset)
        });
        Self { held, dtype, from, stride, bits }
    }

    fn column(&self, rows: usize) -> Column<'_> {
        let column = match (self.from, self.stride, &self.bits) {
            (0, 1, None) if self.held.values().len() == rows => Column::new(self.held.values()),
            _ => {
                let column = Column::strided(self.held.values(), rows, self.from, self.stride);
                column.expect("values of all rows")
            }
        };
        match &self.bits {
            Some((bits, offset)) => column.with_validity(bits, *offset).expect("bits of all rows"),
            None => column,
        }
    }
}

fn one(seed: u64, seen: &mut [usize; TYPES.len()]) {
    let (table, batches) = usual(seed);
    let threads = 1 + seed as usize % 2;
    let predictor = Predictor::builder(&table.forest).threads(threads).check(SelfCheck::Off).build();
    leaves_are_those_of_rows(
        &table.forest,
        &predictor.expect("a predictor"),
        &table.rows,
        batches,
        seed,
        seen,
    );
}

/// Compares the leaves and margins of batches of rows, given as columns of drawn types, with the reference's. A batch has the
/// index of its first row and its number of rows.
fn leaves_are_those_of_rows(
    forest: &Forest,
    predictor: &Predictor,
    all: &[f64],
    batches: Vec<(usize, usize)>,
    seed: u64,
    seen: &mut [usize; TYPES.len()],
) {
    let width = forest.features.len();
    let trees = forest.trees.len();
    let bound = forest.sum_bound();
    let mut random = Seeded(seed ^ 0xc01);
    for (first, batch) in batches {
        let rows = &all[first * width..][..batch * width];
        let kept: Vec<Kept> = (0..width)
            .map(|column| {
                let values: Vec<f64> = rows[column..].iter().step_by(width).copied().collect();
                Kept::draw(&values, &mut random)
            })
            .collect();
        for kept in &kept {
            seen[TYPES.iter().position(|dtype| *dtype == kept.dtype).expect("a type")] += 1;
        }
        let columns: Vec<Column<'_>> = kept.iter().map(|kept| kept.column(batch)).collect();
        let expected: Vec<u32> =
            rows.chunks_exact(width).flat_map(|row| reference::leaf_slots(forest, row)).collect();
        let what = format!("seed {seed}, rows {first} to {}", first + batch);
        let found = predictor.leaf_slots_of_columns(&columns).expect("slots");
        if let Some(at) = found.iter().zip(&expected).position(|(found, expected)| found != expected) {
            let (row, tree) = (at / trees, at % trees);
            let types: Vec<&str> = kept.iter().map(|kept| kept.dtype).collect();
            panic!(
                "{what}: row {row}, tree {tree}: slot {}, should be {}; columns {types:?}, {:?}, in {:?}",
                found[at],
                expected[at],
                &rows[row * width..][..width],
                forest.compare
            );
        }
        let margins = predictor.margins_of_columns(&columns).expect("margins");
        let outputs = forest.outputs as usize;
        for (row, found) in margins.chunks_exact(outputs).enumerate() {
            let expected = reference::margins_of(forest, &expected[row * trees..][..trees]);
            for ((found, expected), bound) in found.iter().zip(expected).zip(&bound) {
                assert!((f64::from(*found) - expected).abs() <= *bound, "{what}: {found}, not {expected}");
            }
        }
        let values = predictor.values_of_columns(&columns).expect("values");
        assert_eq!(values.len(), batch * predictor.width(), "{what}");
    }
}

#[test]
fn columns_of_any_type_have_the_leaves_of_their_rows() {
    let mut seen = [0; TYPES.len()];
    let in_ci = 60;
    let seeds = generate::wanted(in_ci);
    for seed in 0..u64::from(seeds) {
        one(seed, &mut seen);
    }
    for (dtype, seen) in TYPES.iter().zip(seen) {
        assert!(seen >= 5 || seeds < in_ci, "{dtype} was drawn {seen} times");
    }
}

/// A table is written out in row blocks, but the plan of the whole batch runs them. The plans of 64 and of more rows add
/// up trees in different groups, which the last bits of margins show.
#[test]
fn the_plan_of_the_whole_batch_runs_each_row_block_of_a_table() {
    let mut forest = Forest::builder(1200, 1);
    for t in 0..101u32 {
        let mut tree = forest.tree(0);
        tree.split(t * 11, CompareType::F32.less(f64::from(t % 5)), Side::Left, 1, 2);
        tree.leaf(1, &[0.1 * f64::from(t % 13)]);
        tree.leaf(2, &[0.3 * f64::from(t % 7)]);
    }
    let forest = forest.build().expect("a forest");
    let schedule = |text: &str| Schedule::parse(text).expect("a schedule").few_rows(FewRows::Walk);
    let small = schedule("reorder(batch, tree)");
    let large = schedule("tile(tree, t0, t1, 7)\nreorder(t0, batch, t1)");
    let margins = |schedules: BatchSchedules, matrix: bool| {
        let values: Vec<f32> = (0..700 * 1200).map(|i| (i * 37 % 101) as f32 * 0.11 - 3.0).collect();
        let predictor = Predictor::builder(&forest).schedules(schedules).threads(1).build();
        let predictor = predictor.expect("a predictor");
        if matrix {
            return predictor.margins(&Rows::new(&values, 1200).expect("rows")).expect("margins");
        }
        let columns: Vec<Vec<f32>> =
            (0..1200).map(|column| values[column..].iter().step_by(1200).copied().collect()).collect();
        let columns: Vec<Column<'_>> =
            columns.iter().map(|values| Column::new(ColumnValues::F32(values))).collect();
        predictor.margins_of_columns(&columns).expect("margins")
    };
    let both = BatchSchedules::new([(64, small.clone()), (65, large.clone())]).expect("two sizes");
    let found = margins(both, false);
    assert_eq!(found, margins(large.into(), true));
    assert_ne!(found, margins(small.into(), true));
}

/// Wide tables: several row blocks of each column are written together, if there are enough for each thread, and columns
/// that no tree reads are left out. Trees read values or ranks, of f32 and of f64.
#[test]
fn columns_of_wide_tables_have_the_leaves_of_their_rows() {
    let window = "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\ncache(b0)";
    let schedules = [
        window.to_owned(),
        format!("ranks(u8)\n{window}\nevaluate(b1, blend)"),
        format!("ranks(u16)\n{window}"),
        "reorder(batch, tree)".to_owned(),
    ];
    let counts = [1, 63, 64, 65, 127, 128, 129, 255, 256, 257, 383, 511, 512, 513, 700];
    let mut seen = [0; TYPES.len()];
    for (seed, features) in [(1, 600), (2, 1030), (3, 1700)] {
        let mut forest = forest_of(&format!("12 x depth 4, chain 6; features {features}"));
        for compare in [CompareType::F32, CompareType::F64] {
            forest.compare = compare;
            // Singles and doubles: half of the tables hold values that no f32 does.
            let mut rows: Vec<f64> = generate::rows(&forest, 700, seed).into_iter().map(f64::from).collect();
            if compare == CompareType::F64 && seed % 2 == 0 {
                rows.iter_mut().step_by(7).for_each(|value| *value += 1e-12);
            }
            for (at, text) in schedules.iter().enumerate() {
                let schedule = Schedule::parse(text).expect("a schedule");
                let threads = 1 + (at + seed as usize) % 3;
                let predictor =
                    Predictor::builder(&forest).schedule(schedule).threads(threads).check(SelfCheck::Off);
                let predictor = predictor.build().unwrap_or_else(|e| panic!("{text}: {e}"));
                let batches = counts.iter().skip(at % 2).step_by(2).map(|count| (700 - count, *count));
                leaves_are_those_of_rows(&forest, &predictor, &rows, batches.collect(), seed, &mut seen);
            }
        }
    }
}

/// Results of a predictor that is asked for values, and those of the same rows one after the other.
#[test]
fn values_are_those_of_rows() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/softprob");
    let model = std::fs::read_dir(folder).expect("the folder").flatten().map(|entry| entry.path());
    let model = model.filter(|path| path.file_stem().is_some_and(|stem| stem == "model")).min();
    let forest = fangorn::import::load(&model.expect("a model"), &Default::default()).expect("a forest");
    let predictor = Predictor::new(&forest).expect("a predictor");
    let width = forest.features.len();
    let mut random = Seeded(5);
    let rows: Vec<f32> = (0..9000 * width).map(|_| random.below(2000) as f32 / 100.0 - 10.0).collect();
    for count in [0, 1, 15, 16, 17, 4096, 4097, 9000] {
        let rows = &rows[..count * width];
        let columns = Column::of_matrix(rows, [count, width], [width, 1]).expect("a matrix");
        let expected = predictor.predict(rows, width).expect("values");
        let found = predictor.values_of_columns(&columns).expect("values");
        assert_eq!(found.len(), expected.len());
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 1e-6), "{count} rows");
    }
    let columns = Column::of_matrix(&rows[..], [9000, width], [width, 1]).expect("a matrix");
    let other = [&columns[..width - 1], &[Column::new(&rows[..8])]].concat();
    let refused = predictor.values_of_columns(&other).expect_err("another number of rows").to_string();
    assert!(refused.contains("8") && refused.contains("9000"), "{refused}");
    assert!(predictor.values_of_columns(&columns[1..]).is_err());
    assert!(predictor.values_of_columns(&[]).is_err());
}
