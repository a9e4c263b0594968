//! The contracts of sums: `exact` gives the same bytes whatever runs, within its bound; `tree` gives what additions in the
//! producer's order and type give, which for these producers is the producer's own margin.

use crate::generate;
use crate::support;

use fangorn::{
    Error, Forest, Predictor,
    check::SelfCheck,
    cpu::{Row, Rows},
    forest::{Accumulator, Aggregate, CompareType, ForestBuilder, Side, Targets, reference},
    schedule::{Preset, Schedule},
    sum::{Contract, FixedPoint},
};
use generate::{Case, Kind};
use proptest::test_runner::TestCaseError;
use support::{Specimen, assert_values, exact_sum, for_each_specimen, named, reference_margins};

/// Rows are walked in calls of so many.
const CALLS: [usize; 3] = [usize::MAX, 33, 1];

/// Serial and parallel, in the trees' order and in others, with private sums and with shared ones.
fn schedules(forest: &Forest) -> Vec<Schedule> {
    let text = [
        "tile(tree, t0, t1, trees/3)\nreorder(t0, batch, t1)\nparallel(t0)",
        "parallel(tree)\natomicReduce(tree)\ntile(batch, b0, b1, 16)\nreorder(b0, tree, b1)",
        "reorder(tree, batch)\nsort(depth)",
        "ranks(auto)",
    ];
    let presets = [Preset::Default, Preset::TreebeardOneRow].map(|p| p.schedule(forest, false));
    let text = text.map(|t| Schedule::parse(t).unwrap_or_else(|e| panic!("{t}: {e}")));
    presets.into_iter().chain(text).collect()
}

/// The margins of all rows in calls of `call` rows, as bits.
fn bits<T: Row>(predictor: &Predictor, rows: &[T], columns: usize, call: usize) -> Vec<u32> {
    let mut found = Vec::new();
    let count = rows.len().checked_div(columns).unwrap_or(0);
    for first in (0..count).step_by(call.min(count.max(1))) {
        let values = &rows[first * columns..];
        let shape = [call.min(count - first), columns];
        let rows = Rows::strided(values, shape, [columns, 1]).expect("rows");
        found.extend(predictor.margins(&rows).expect("margins").into_iter().map(f32::to_bits));
    }
    found
}

/// The values that meet in a row's sum for an output, the base score first.
fn addends(forest: &Forest, slots: &[u32], output: usize) -> Vec<f64> {
    let own = |(t, slot): (usize, &u32)| match &forest.targets {
        Targets::One(outputs) => (outputs[t] as usize == output).then(|| forest.leaf(*slot)[0].0),
        Targets::All => Some(forest.leaf(*slot)[output].0),
    };
    let leaves = slots.iter().enumerate().filter_map(own);
    std::iter::once(forest.base_score[output].0).chain(leaves).collect()
}

/// A row's margins under `tree`, by its definition.
fn in_tree_order(forest: &Forest, slots: &[u32]) -> Vec<f32> {
    let sum = |output| {
        let values = addends(forest, slots, output);
        match Accumulator::of(forest) {
            Accumulator::F32 => values.into_iter().map(|v| v as f32).reduce(|sum, v| sum + v),
            Accumulator::F64 => values.into_iter().reduce(|sum, v| sum + v).map(|sum| sum as f32),
        }
    };
    (0..forest.outputs as usize).map(|o| sum(o).expect("a base score")).collect()
}

/// Holds a row's margins against both contracts' definitions.
fn check_row(
    forest: &Forest,
    fixed: &FixedPoint,
    slots: &[u32],
    exact: &[f32],
    tree: &[f32],
) -> Result<(), String> {
    for (o, margin) in exact.iter().enumerate() {
        let values = addends(forest, slots, o);
        let off = exact_sum(values.into_iter().chain([-f64::from(*margin)])).abs();
        let (allowed, bound) = (fixed.error(o, *margin), fixed.bound()[o]);
        if !margin.is_finite() || off > allowed * (1.0 + 1e-12) || allowed > bound * (1.0 + 1e-12) {
            return Err(format!(
                "output {o}: {margin} is off by {off:e}, allowed {allowed:e}, at most {bound:e}"
            ));
        }
    }
    let expected = in_tree_order(forest, slots);
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    if bits(&expected) != bits(tree) {
        return Err(format!("in tree order {tree:?}, should be {expected:?}"));
    }
    Ok(())
}

/// Both contracts for these rows under every schedule, batch and number of threads.
fn check<T: Row + reference::Input>(what: &str, forest: &Forest, rows: &[T]) {
    let columns = forest.features.len();
    for contract in [Contract::Tree, Contract::Exact] {
        let mut first: Option<Vec<u32>> = None;
        for (schedule, threads) in schedules(forest).iter().flat_map(|s| [(s, 1), (s, 2)]) {
            let predictor = Predictor::builder(forest)
                .schedule(schedule.clone())
                .threads(threads)
                .sum(contract)
                .build()
                .unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(predictor.sum(), contract);
            for call in CALLS {
                let found = bits(&predictor, rows, columns, call);
                let same = first.get_or_insert_with(|| found.clone());
                assert!(
                    *same == found,
                    "{what}: {contract} differs in calls of {call} on {threads} threads with\n{schedule}"
                );
            }
        }
    }
    if forest.aggregate != Aggregate::Sum {
        return;
    }
    let fixed = FixedPoint::new(forest).expect("fixed point");
    let margins = |contract| {
        let predictor = Predictor::builder(forest)
            .schedule(Preset::Default.schedule(forest, false))
            .threads(1)
            .sum(contract)
            .build()
            .expect("compiled");
        predictor
            .margins(
                &Rows::strided(rows, [rows.len().checked_div(columns).unwrap_or(0), columns], [columns, 1])
                    .expect("rows"),
            )
            .expect("margins")
    };
    let (exact, tree) = (margins(Contract::Exact), margins(Contract::Tree));
    let outputs = forest.outputs as usize;
    for (r, (exact, tree)) in exact.chunks(outputs).zip(tree.chunks(outputs)).enumerate() {
        let slots = reference::leaf_slots(forest, &rows[r * columns..][..columns]);
        check_row(forest, &fixed, &slots, exact, tree).unwrap_or_else(|e| panic!("{what}: row {r}: {e}"));
    }
}

#[test]
fn nothing_shows_in_the_bytes_of_the_zoo() {
    for_each_specimen(|s| {
        check(&s.name, &s.forest, &s.rows);
        if let Some(wide) = &s.wide {
            check(&s.name, &s.forest, &wide.rows);
        }
    });
}

/// Without a contract the order of additions shows, or the tests above would hold for any sum.
#[test]
fn the_order_shows_without_a_contract() {
    let s = named("softprob");
    let margins = |schedule: &Schedule| {
        bits(
            &Predictor::builder(&s.forest).schedule(schedule.clone()).threads(1).build().expect("compiled"),
            &s.rows,
            s.columns(),
            usize::MAX,
        )
    };
    let schedules = schedules(&s.forest);
    let first = margins(&schedules[0]);
    assert!(schedules.iter().any(|other| margins(other) != first));
}

#[test]
fn values_keep_to_the_contract() {
    for model in ["logistic-missing", "softprob", "softmax", "lightgbm-rf", "catboost-rmse-with-uncertainty"]
    {
        let s = named(model);
        for contract in Contract::ALL {
            let mut first: Option<Vec<u32>> = None;
            for schedule in schedules(&s.forest) {
                let predictor = Predictor::builder(&s.forest)
                    .schedule(schedule.clone())
                    .threads(2)
                    .sum(contract)
                    .build()
                    .expect("compiled");
                let values = predictor.predict(&s.rows, s.columns()).expect("values");
                assert_values(model, &s.forest, &values, reference_margins(&s));
                let found: Vec<u32> = values.into_iter().map(f32::to_bits).collect();
                let same = first.get_or_insert_with(|| found.clone());
                assert!(contract == Contract::Any || *same == found, "{model}: {contract} with\n{schedule}");
            }
        }
    }
}

/// Totals that are no `f32` are held a piece of the batch at a time.
/// Stumps over three columns, whose leaf values have no exact sum in `f32`.
fn stumps(trees: u32) -> ForestBuilder {
    let mut builder = Forest::builder(3, 1).base_score([0.3]);
    for t in 0..trees {
        let mut tree = builder.tree(0);
        tree.split(t % 3, CompareType::F32.less(f64::from(t % 5)), Side::Left, 1, 2);
        tree.leaf(1, &[0.1 * f64::from(t % 97 + 1)]);
        tree.leaf(2, &[-0.7 / f64::from(t % 89 + 1)]);
    }
    builder
}

/// Trees that could be divided among threads are added up in the producer's order and type.
#[test]
fn many_trees_of_a_small_batch_are_added_in_order() {
    let forest = stumps(20_011).producer("xgboost", "3.2.0", "reg:squarederror").build().expect("a forest");
    let values: Vec<f32> = (0..40 * 3).map(|i| (i * 5 % 11) as f32 - 3.0).collect();
    let slots = values.chunks(3).map(|row| reference::leaf_slots(&forest, row));
    let expected: Vec<u32> = slots.flat_map(|s| in_tree_order(&forest, &s)).map(f32::to_bits).collect();
    for schedule in [Preset::Default, Preset::Xgboost].map(|preset| preset.schedule(&forest, false)) {
        for threads in [1, 2, 8] {
            let builder = Predictor::builder(&forest).schedule(schedule.clone()).threads(threads);
            let predictor = builder.sum(Contract::Tree).build().expect("a predictor");
            for call in [1, 2, 17, 40] {
                assert_eq!(
                    bits(&predictor, &values, 3, call),
                    expected,
                    "{threads} threads, calls of {call}"
                );
            }
        }
    }
}

/// The least and the greatest leaf value of no tree, of one, and of more trees than slots are kept of at once.
#[test]
fn extremes_of_any_number_of_trees() {
    for trees in [0, 1, 70_000] {
        for aggregate in [Aggregate::Min, Aggregate::Max] {
            let forest = stumps(trees).aggregate(aggregate).build().expect("a forest");
            let values: Vec<f32> = (0..5 * 3).map(|i| (i * 5 % 11) as f32 - 3.0).collect();
            let expected: Vec<f32> = values
                .chunks(3)
                .flat_map(|row| reference::margins(&forest, row))
                .map(|margin| margin as f32)
                .collect();
            for threads in [1, 2] {
                let builder = Predictor::builder(&forest).threads(threads).check(SelfCheck::Off);
                let predictor = builder.build().expect("a predictor");
                let found = predictor.margins(&Rows::new(&values, 3).expect("rows")).expect("margins");
                assert_eq!(found.len(), expected.len());
                let close = found.iter().zip(&expected).all(|(f, e)| (f - e).abs() < 1e-6);
                assert!(close, "{aggregate:?} of {trees} trees, {threads} threads: {found:?}, {expected:?}");
            }
        }
    }
}

/// More outputs than sums are kept of at once.
#[test]
fn a_row_of_a_million_outputs_has_an_exact_sum() {
    let outputs = (1 << 20) + 1;
    let mut builder = Forest::builder(1, outputs).base_score(vec![0.25; outputs as usize]);
    for output in [0, outputs - 1] {
        let mut tree = builder.tree(output);
        tree.split(0, CompareType::F32.less(0.5), Side::Left, 1, 2);
        tree.leaf(1, &[1.0]);
        tree.leaf(2, &[2.0]);
    }
    let forest = builder.build().expect("a forest");
    let builder = Predictor::builder(&forest).threads(1).sum(Contract::Exact).check(SelfCheck::Off);
    let predictor = builder.build().expect("a predictor");
    let found = predictor.margins(&Rows::new(&[0.0f32, 1.0], 1).expect("rows")).expect("margins");
    assert_eq!(found.len(), 2 * outputs as usize);
    for (row, leaf) in found.chunks(outputs as usize).zip([1.25, 2.25]) {
        assert_eq!((row[0], row[1], row[outputs as usize - 1]), (leaf, 0.25, leaf));
    }
}

/// A margin of minus zero keeps its sign under `tree`, whatever engine adds it up.
#[test]
fn minus_zero_keeps_its_sign() {
    let columns = 3;
    let mut builder = Forest::builder(columns, 1).base_score([-0.0]);
    for t in 0..130u32 {
        let mut tree = builder.tree(0);
        tree.split(t % 3, CompareType::F32.less(0.5), Side::Left, 1, 2);
        tree.leaf(1, &[-0.0]);
        tree.leaf(2, &[if t == 129 { -0.0 } else { 1.0 }]);
    }
    let forest = builder.build().expect("a forest");
    let rows = vec![0.0f32; 300 * columns];
    for (name, schedule, engines) in generate::engines::engines() {
        let builder = Predictor::builder(&forest).engines(engines).threads(1).sum(Contract::Tree);
        let builder = match schedule {
            Some(schedule) => builder.schedule(schedule),
            None => builder,
        };
        let predictor = builder.build().unwrap_or_else(|e| panic!("{name}: {e}"));
        for call in [1, 7, 16, 64, 300] {
            let found = bits(&predictor, &rows, columns, call);
            assert!(found.iter().all(|margin| *margin == (-0.0f32).to_bits()), "{name}, calls of {call}");
        }
    }
}

#[test]
fn long_batches_give_the_same() {
    let s = named("one-feature");
    let rows: Vec<f32> = (0..(1 << 20) + 70).map(|r| s.row(r % s.count)[0]).collect();
    for schedule in schedules(&s.forest) {
        let predictor = Predictor::builder(&s.forest)
            .schedule(schedule.clone())
            .threads(1)
            .sum(Contract::Exact)
            .build()
            .expect("compiled");
        let once = bits(&predictor, &s.rows, 1, usize::MAX);
        let found = bits(&predictor, &rows, 1, usize::MAX);
        let other = found.iter().enumerate().find(|(r, bits)| **bits != once[r % s.count]);
        assert_eq!(other, None, "with\n{schedule}");
    }
}

#[test]
fn refuses_what_it_cannot_hold() {
    // An order of magnitude past f32 is no reason.
    let mut forest = Forest::builder(1, 1);
    forest.tree(0).leaf(0, &[1e300]);
    let mut forest = forest.build().expect("a forest");
    let predictor = Predictor::builder(&forest)
        .schedule(Schedule::new())
        .threads(1)
        .sum(Contract::Exact)
        .build()
        .expect("compiled");
    assert_eq!(predictor.predict(&[0.0f32], 1).expect("a value"), [f32::INFINITY]);
    forest.leaf_values[0] = f64::NAN.into();
    let error = Predictor::builder(&forest)
        .schedule(Schedule::new())
        .threads(1)
        .sum(Contract::Exact)
        .build()
        .expect_err("a leaf that is no number");
    assert!(error.to_string().contains("leaf_values: value 0 is NaN"), "{error}");
}

/// Random schedules on random forests, with leaves of every magnitude.
fn on_random_forests(case: &Case) -> Result<(), String> {
    let forest = &case.forest;
    let columns = forest.features.len();
    let rows = Rows::strided(&case.rows, [case.batch, columns], [columns, 1]).map_err(|e| e.to_string())?;
    let profile = case.profile();
    let margins = |contract, threads| match Predictor::builder(forest)
        .schedule(case.schedule.clone())
        .threads(threads)
        .sum(contract)
        .profile(&profile)
        .build()
    {
        Ok(predictor) => predictor.margins(&rows).map(Some).map_err(|e| e.to_string()),
        Err(Error::Layout(_)) => Ok(None),
        Err(e) => Err(e.to_string()),
    };
    let fixed = match forest.aggregate {
        Aggregate::Sum => FixedPoint::new(forest).map_err(|e| e.to_string())?,
        Aggregate::Min | Aggregate::Max => return Ok(()),
    };
    let outputs = forest.outputs as usize;
    for threads in [1, 2] {
        let (Some(exact), Some(tree)) =
            (margins(Contract::Exact, threads)?, margins(Contract::Tree, threads)?)
        else {
            return Ok(());
        };
        for (r, (exact, tree)) in exact.chunks(outputs).zip(tree.chunks(outputs)).enumerate() {
            let slots = reference::leaf_slots(forest, case.row(r));
            check_row(forest, &fixed, &slots, exact, tree).map_err(|e| format!("row {r}: {e}"))?;
            let total = |o| {
                let leaves = slots.iter().enumerate().filter_map(|(t, slot)| match &forest.targets {
                    Targets::One(outputs) => {
                        (outputs[t] as usize == o).then(|| fixed.leaves()[*slot as usize])
                    }
                    Targets::All => Some(fixed.leaves()[*slot as usize * outputs + o]),
                });
                fixed.round(fixed.base()[o] + leaves.sum::<i64>(), o)
            };
            if let Some(o) = (0..outputs).find(|o| total(*o).to_bits() != exact[*o].to_bits()) {
                return Err(format!("row {r}, output {o}: {}, should be {}", exact[o], total(o)));
            }
        }
    }
    Ok(())
}

#[test]
fn no_schedule_shows_in_the_bytes() {
    let cases = generate::wanted(400);
    for kind in [Kind::Any, Kind::MappedLoop] {
        generate::runner(cases)
            .run(&generate::case(kind), |case| on_random_forests(&case).map_err(TestCaseError::fail))
            .unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Producers that start at the base score and take tree by tree, all on one thread.
const PLAIN: [&str; 4] = ["xgboost", "lightgbm", "catboost", "scikit-learn"];

/// Models of others whose margins differ in the last digits, with what is done there instead.
const OTHERS: [(&str, &[&str]); 5] = [
    (
        "the base score comes last",
        &[
            "onnx-boosted-poisson",
            "onnx-catboost-regression",
            "onnx-one-score-positive",
            "onnx-one-score-positive-labels",
            "onnx-scaled",
            "treelite-all-targets-one-class",
            "treelite-exponential",
            "treelite-hinge",
            "treelite-logarithm-one-plus-exp",
            "treelite-multiclass-ova",
            "treelite-one-target-all-classes",
            "treelite-one-target-one-class",
            "treelite-sigmoid-alpha",
            "treelite-signed-square",
            "treelite-softmax",
            "treelite-xgb-categories",
            "treelite-xgb-logistic-missing",
            "treelite-xgb-pruned",
            "treelite-xgb-softprob",
        ],
    ),
    ("a sum is divided by the number of trees at the end", &["onnx-average"]),
    (
        "each output is divided by its number of trees, and the base score comes last",
        &["treelite-all-targets-all-classes"],
    ),
    ("thresholds in f64 that are all f32 too: compared in f32, added in f64", &["onnx-doubles-of-floats"]),
    (
        "threads add up some of the trees each",
        &["cat-higgs-onnx", "sk-extra-trees-onnx", "sk-gradient-boosting-onnx", "sk-random-forest-onnx"],
    ),
];

/// How many margins under `tree` are not the producer's, rounded to `f32`, bit for bit.
fn other_margins<T: Row>(s: &Specimen, rows: &[T], margins: &[f64]) -> usize {
    let predictor = Predictor::builder(&s.forest)
        .schedule(Preset::Default.schedule(&s.forest, false))
        .threads(1)
        .sum(Contract::Tree)
        .build()
        .expect("compiled");
    let found = bits(&predictor, rows, s.columns(), usize::MAX);
    found.iter().zip(margins).filter(|(bits, m)| **bits != (**m as f32).to_bits()).count()
}

#[test]
fn tree_order_gives_the_producers_own_margins() {
    for_each_specimen(|s| {
        let (name, library) = (&s.name[..], &s.forest.producer.library[..]);
        let wide = s.wide.as_ref().map_or(0, |wide| other_margins(s, &wide.rows, &wide.margin));
        let other = other_margins(s, &s.rows, &s.margin) + wide;
        let reason = OTHERS.iter().find(|(_, models)| models.contains(&name)).map(|(reason, _)| reason);
        let known = PLAIN.contains(&library) || s.model.starts_with(env!("CARGO_MANIFEST_DIR"));
        match reason {
            Some(reason) => assert!(other > 0, "{name}: every margin is the producer's, though {reason}"),
            None => assert!(other == 0 || !known, "{name}: {other} margins of {} differ", s.margin.len()),
        }
    });
}
