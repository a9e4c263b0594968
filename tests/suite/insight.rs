//! Importances and dependences against XGBoost, LightGBM and scikit-learn (`tests/insight`), and drift against a count
//! by the definition.

use std::{collections::BTreeMap, path::Path};

use fangorn::{
    Forest, Predictor,
    contributions::Explainer,
    cpu::Rows,
    file::Contents,
    forest::{CategoryRule, ClassRule, Classes, CompareType, Predicate, Side, Transform, reference},
    import::{self, LoadOptions},
    insight::{
        Bin, Drift, DriftCounter, FeatureBins, Grid, Histogram, MeanContributions, Metric,
        PermutationOptions, Sample, SplitImportances, dependence, permutation, psi, thresholds,
    },
};

use crate::support::{folders, specimen};

/// Numbers that look random.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// A model of the zoo with the gains of its splits.
fn with_gains(name: &str) -> Forest {
    let zoo = folder("zoo").join(name);
    let files = std::fs::read_dir(zoo).expect(name).flatten().map(|entry| entry.path());
    let model = files.filter(|file| file.file_stem().is_some_and(|stem| stem == "model")).min();
    let options = LoadOptions { gains: true, raw_categories: true, ..LoadOptions::default() };
    import::load(&model.expect("a model"), &options).expect(name)
}

fn assert_near(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 1e-5 * largest, "{what}, {at}: {found} for {expected}");
    }
}

fn numbers(value: &serde_json::Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|v| v.as_f64().expect("a number")).collect()
}

#[test]
fn importances_and_dependences_are_the_producers() {
    let mut tested = 0;
    for entry in std::fs::read_dir(folder("insight")).expect("the folder").flatten() {
        if entry.path().extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let name = entry.path().file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(entry.path()).expect("a file");
        let expected: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let forest = with_gains(&name);
        let splits = SplitImportances::new(&forest);
        for (kind, values) in expected["importances"].as_object().expect("importances") {
            let found = match kind.as_str() {
                "weight" => splits.weight.iter().map(|n| *n as f64).collect(),
                "gain" => splits.gain().expect("gains"),
                "total_gain" => splits.total_gain.clone().expect("gains"),
                "cover" => splits.cover().expect("covers"),
                "total_cover" => splits.total_cover.clone().expect("covers"),
                other => panic!("the kind {other}"),
            };
            assert_near(&found, &numbers(values), &format!("{name}, {kind}"));
            tested += 1;
        }
        let specimen = specimen(&folder("zoo").join(&name));
        let predictor = Predictor::new(&forest).expect("a predictor");
        for expected in expected["dependences"].as_array().expect("dependences") {
            let column = expected["column"].as_u64().expect("a column") as u32;
            let grid = Grid::of_values(&forest, column, numbers(&expected["values"]));
            let found = match &specimen.wide {
                Some(wide) => {
                    let rows = Rows::new(&wide.rows, forest.features.len()).expect("rows");
                    dependence(&predictor, &rows, column, &grid)
                }
                None => {
                    let rows = Rows::new(&specimen.rows, forest.features.len()).expect("rows");
                    dependence(&predictor, &rows, column, &grid)
                }
            };
            let found = found.expect("a dependence");
            assert_near(&found.partial, &numbers(&expected["partial"]), &format!("{name}, column {column}"));
            tested += 1;
        }
    }
    assert!(tested > 60, "{tested} comparisons");
}

/// Only who asks for gains gets them, and Fangorn's own file has the same bytes with and without them.
#[test]
fn gains_are_read_on_demand_and_kept_in_no_file() {
    for name in ["churn", "lightgbm-binary"] {
        let with = with_gains(name);
        let mut without = with.clone();
        without.gains = None;
        assert!(with.gains.is_some(), "{name}");
        let bytes = |forest| Contents { forest, ..Contents::new(without.clone()) }.to_bytes();
        assert_eq!(bytes(with.clone()), bytes(without.clone()), "{name}");
        assert_eq!(with.fingerprint(), without.fingerprint(), "{name}");
    }
    for name in ["catboost-logloss", "onnx-logistic"] {
        assert!(with_gains(name).gains.is_none(), "{name}");
    }
    // What is wrong with them matters only to who asks.
    let text = std::fs::read_to_string(folder("zoo/lightgbm-binary/model.txt")).expect("a model");
    let asked = LoadOptions { gains: true, ..LoadOptions::default() };
    let (before, after) = text.split_once("split_gain=").expect("gains");
    let (_, rest) = after.split_once(' ').expect("the first gain");
    let with_first = |gain: &str| format!("{before}split_gain={gain} {rest}");
    for (wrong, phrase) in [("much", "much"), ("1 2", "split_gain")] {
        let damaged = with_first(wrong);
        import::parse(damaged.as_bytes(), &LoadOptions::default()).expect("a model");
        let refused = import::parse(damaged.as_bytes(), &asked).expect_err(wrong).to_string();
        assert!(refused.contains(phrase), "{refused}");
    }
    assert!(import::parse(with_first("inf").as_bytes(), &asked).expect("a model").gains.is_none());
    // Rounds that are left out have no gains, either.
    let text = std::fs::read(folder("zoo/churn/model.ubj")).expect("a model");
    let options = LoadOptions { gains: true, iteration_range: Some(3..5), ..LoadOptions::default() };
    let some = import::parse(&text, &options).expect("two rounds");
    let all = with_gains("churn");
    let gains = |forest: &Forest, t| forest.gains.as_ref().expect("gains").tree(t).to_vec();
    assert_eq!((some.trees.len(), gains(&some, 0), gains(&some, 1)), (2, gains(&all, 3), gains(&all, 4)));
}

#[test]
fn mean_contributions_are_means_whatever_the_batches() {
    for name in ["churn", "softprob"] {
        let forest = with_gains(name);
        let specimen = specimen(&folder("zoo").join(name));
        let (columns, outputs) = (forest.features.len(), forest.outputs as usize);
        let explainer = Explainer::new(&forest).expect("an explainer");
        let rows = Rows::new(&specimen.rows, columns).expect("rows");
        let all = explainer.contributions(&rows).expect("contributions");
        let mut means = MeanContributions::new(&forest);
        for first in (0..rows.len()).step_by(7) {
            means.add(&explainer.contributions(&rows.slice(first, 7)).expect("some")).expect("whole rows");
        }
        let mut expected = vec![0.0; columns];
        for (index, value) in all.iter().enumerate() {
            if index % (columns + 1) < columns {
                expected[index % (columns + 1)] += f64::from(value.abs()) / rows.len() as f64;
            }
        }
        assert_near(&means.total(), &expected, name);
        let of_outputs: Vec<f64> =
            (0..columns).map(|f| (0..outputs).map(|output| means.of_output(output)[f]).sum()).collect();
        assert_near(&of_outputs, &expected, name);
        assert!(means.add(&all[1..]).is_err());
    }
}

/// A forest of every kind of split on columns 0 to 5: numbers, many thresholds, zeros aside, equality, two rules of
/// categories. Column 6 is read by no split.
fn mixed(draws: &mut Draws, compare: CompareType, many: u64) -> Forest {
    let mut builder = Forest::builder(7, 1).compare(compare);
    let sets =
        [builder.set([0, 2, 5], CategoryRule::NotNegative), builder.set([1, 7], CategoryRule::Truncated)];
    for _ in 0..60 {
        let mut tree = builder.tree(0);
        for split in 0..15 {
            let number = (draws.below(41) as f32 - 20.0) / 4.0;
            let (feature, predicate) = match draws.below(9) {
                0..=2 => (0, Predicate::Less { threshold: number.into() }),
                3 | 4 => (1, Predicate::Less { threshold: (draws.below(many) as f32).into() }),
                5 => (2, Predicate::LessZeroAside { threshold: (number.abs() + 1.0).into() }),
                6 => (3, Predicate::Equal { value: number.into() }),
                7 => (4, Predicate::InSet { set: sets[0], inside: Side::Left }),
                _ => (5, Predicate::InSet { set: sets[1], inside: Side::Right }),
            };
            let missing = if draws.below(2) == 0 { Side::Left } else { Side::Right };
            tree.split(feature, predicate, missing, 2 * split + 1, 2 * split + 2);
        }
        for leaf in 0..16 {
            tree.leaf(leaf, &[f64::from(leaf)]);
        }
    }
    builder.build().expect("a forest")
}

fn rows_of(draws: &mut Draws, count: usize, many: u64) -> Vec<f64> {
    let mut rows = Vec::new();
    for _ in 0..count {
        for column in 0..7 {
            let number = (draws.below(47) as f64 - 23.0) / 4.0;
            rows.push(match (draws.below(12), column) {
                (0, _) => f64::NAN,
                (1, 2) => 1e-36,
                (_, 1) => draws.below(many + 9) as f64 - 0.5,
                (_, 4 | 5) => draws.below(9) as f64 - 1.0,
                (2, _) => [f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e30][draws.below(4) as usize],
                _ => number,
            });
        }
    }
    rows
}

fn counted<T: fangorn::cpu::Row>(forest: &Forest, bins: &FeatureBins, rows: &[T]) -> DriftCounter {
    let predictor = Predictor::new(forest).expect("a predictor");
    let mut counter = DriftCounter::new(forest, bins);
    let rows = Rows::new(rows, forest.features.len()).expect("rows");
    // In batches of other sizes, some by another counter.
    let mut other = DriftCounter::new(forest, bins);
    for (n, first) in (0..rows.len()).step_by(701).enumerate() {
        let counter = if n % 2 == 0 { &mut counter } else { &mut other };
        counter.count(bins, &predictor, &rows.slice(first, 701)).expect("counts");
    }
    counter.merge(&other);
    counter
}

/// Counts the values in a bin by the bin's own words.
fn naive(bin: Bin, column: &[f64], compare: CompareType, truncated: bool, known: &[u32]) -> u64 {
    let category = |x: f64| {
        let rule = if truncated { CategoryRule::Truncated } else { CategoryRule::NotNegative };
        rule.category(x)
    };
    let inside = |x: &&f64| match bin {
        Bin::Missing => x.is_nan(),
        Bin::Category(c) => category(**x) == Some(c),
        Bin::OtherCategories => !x.is_nan() && category(**x).is_none_or(|c| !known.contains(&c)),
        Bin::Numbers { from, below } => {
            let x = compare.cast(**x);
            !x.is_nan() && from.is_none_or(|from| x >= from) && below.is_none_or(|below| x < below)
        }
    };
    column.iter().filter(inside).count() as u64
}

#[test]
fn bins_hold_the_rows_that_they_say() {
    let mut draws = Draws(5);
    // More than 255 thresholds make several slices of bytes, or ranks of two bytes.
    for (compare, many) in [(CompareType::F32, 40), (CompareType::F64, 700), (CompareType::F32, 3000)] {
        let forest = mixed(&mut draws, compare, many);
        let bins = FeatureBins::new(&forest).expect("bins");
        let tables = [rows_of(&mut draws, 3000, many), rows_of(&mut draws, 1111, many)];
        let counters = match compare {
            CompareType::F64 => [0, 1].map(|side| counted(&forest, &bins, &tables[side])),
            CompareType::F32 => [0, 1].map(|side| {
                let singles: Vec<f32> = tables[side].iter().map(|v| *v as f32).collect();
                counted(&forest, &bins, &singles)
            }),
        };
        for most in [2, 20, 100_000] {
            let drift = Drift::new(&forest, &bins, [&counters[0], &counters[1]], most).expect("drift");
            assert_eq!(drift.rows, [3000, 1111]);
            assert_eq!(drift.features.len(), 6);
            for feature in &drift.features {
                let f = feature.feature as usize;
                let known: Vec<u32> = feature
                    .bins
                    .iter()
                    .filter_map(|(bin, _)| if let Bin::Category(c) = bin { Some(*c) } else { None })
                    .collect();
                assert_eq!(known.is_empty(), f < 4 || most == 2, "{f} {:?}", feature.bins);
                for (bin, counts) in &feature.bins {
                    for side in 0..2 {
                        let column: Vec<f64> = tables[side].iter().skip(f).step_by(7).copied().collect();
                        let expected = naive(*bin, &column, compare, f == 5, &known);
                        assert_eq!(counts[side], expected, "column {f}, {bin:?}, table {side}");
                    }
                }
                let sums =
                    [0, 1].map(|side| feature.bins.iter().map(|(_, counts)| counts[side]).sum::<u64>());
                assert_eq!(sums, drift.rows, "column {f}");
            }
            for tree in &drift.trees {
                let sums = [0, 1].map(|side| tree.bins.iter().map(|counts| counts[side]).sum::<u64>());
                assert_eq!(sums, drift.rows, "tree {}", tree.tree);
            }
        }
    }
}

#[test]
fn leaves_are_counted_by_tree() {
    let mut draws = Draws(9);
    let forest = mixed(&mut draws, CompareType::F64, 50);
    let bins = FeatureBins::new(&forest).expect("bins");
    let rows = rows_of(&mut draws, 500, 50);
    let counter = counted(&forest, &bins, &rows);
    let drift = Drift::new(&forest, &bins, [&counter, &counter], usize::MAX).expect("drift");
    for tree in &drift.trees {
        let mut reached: BTreeMap<u32, u64> = BTreeMap::new();
        for row in rows.chunks_exact(7) {
            *reached.entry(reference::leaf_slots(&forest, row)[tree.tree as usize]).or_default() += 1;
        }
        // Leaves are joined until a bin has a row, so bins have the rows of one leaf each.
        let mut expected: Vec<u64> = reached.into_values().collect();
        let mut found: Vec<u64> = tree.bins.iter().map(|counts| counts[0]).filter(|n| *n > 0).collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "tree {}", tree.tree);
    }
}

#[test]
fn shuffled_rows_do_not_drift_and_shifted_ones_do() {
    let mut draws = Draws(3);
    let forest = mixed(&mut draws, CompareType::F32, 60);
    let bins = FeatureBins::new(&forest).expect("bins");
    let base: Vec<f32> = rows_of(&mut draws, 4000, 60).into_iter().map(|v| v as f32).collect();
    let mut order: Vec<usize> = (0..4000).collect();
    (1..4000).rev().for_each(|last| order.swap(last, draws.below(last as u64 + 1) as usize));
    let shuffled: Vec<f32> = order.iter().flat_map(|r| base[r * 7..][..7].to_vec()).collect();
    assert_ne!(base, shuffled);
    let of_base = counted(&forest, &bins, &base);
    let drift = |rows: &[f32]| {
        let counter = counted(&forest, &bins, rows);
        Drift::new(&forest, &bins, [&of_base, &counter], 20).expect("drift")
    };
    let same = drift(&shuffled);
    assert!(same.features.iter().all(|feature| feature.psi == 0.0));
    assert!(same.trees.iter().all(|tree| tree.psi == 0.0));
    let again: Vec<f32> = rows_of(&mut draws, 4000, 60).into_iter().map(|v| v as f32).collect();
    for feature in &drift(&again).features {
        assert!(feature.psi > 0.0 && feature.psi < 6.0 * feature.by_chance, "{feature:?}");
    }
    for moved in [0, 1, 4] {
        let mut rows = again.clone();
        rows.iter_mut()
            .skip(moved)
            .step_by(7)
            .for_each(|value| *value += if moved == 1 { 20.0 } else { 2.0 });
        let drift = drift(&rows);
        assert_eq!(drift.features[0].feature as usize, moved);
        assert!(drift.features[0].psi > 0.2 && drift.features[1].psi < 0.05, "{:?}", drift.features[1]);
        assert!(drift.trees[0].psi >= drift.trees[1].psi && drift.trees[0].psi > 0.02);
    }
    // A column that is missing more often.
    let mut rows = again.clone();
    rows.iter_mut().skip(3).step_by(21).for_each(|value| *value = f32::NAN);
    let drift = drift(&rows);
    assert_eq!(drift.features[0].feature, 3);
    let missing =
        drift.features[0].bins.iter().find(|(bin, _)| *bin == Bin::Missing).expect("missing values");
    assert!(missing.1[1] > 3 * missing.1[0]);
    // Where a column is missing in both tables, nothing can differ, not even by chance.
    let mut both = [base.clone(), again];
    both.iter_mut().for_each(|rows| rows.iter_mut().skip(3).step_by(7).for_each(|value| *value = f32::NAN));
    let [one, other] = both.map(|rows| counted(&forest, &bins, &rows));
    let drift = Drift::new(&forest, &bins, [&one, &other], 20).expect("drift");
    let column = drift.features.iter().find(|feature| feature.feature == 3).expect("the column");
    assert_eq!((column.psi, column.by_chance), (0.0, 0.0), "{column:?}");
}

#[test]
fn the_index_is_what_its_definition_says() {
    // Shares of 1/4 and 3/4 against 1/2 and 1/2, with half a row more in each bin.
    let [p, q]: [[f64; 2]; 2] = [[100.5 / 401.0, 300.5 / 401.0], [0.5, 0.5]];
    let expected: f64 = (0..2).map(|bin| (q[bin] - p[bin]) * (q[bin] / p[bin]).ln()).sum();
    assert!((psi(&[[100, 200], [300, 200]]) - expected).abs() < 1e-12);
    assert_eq!(psi(&[]), 0.0);
    let empty = psi(&[[100, 0], [0, 100]]);
    assert!(empty.is_finite() && empty > 5.0, "{empty}");
    let forest = mixed(&mut Draws(1), CompareType::F32, 9);
    let bins = FeatureBins::new(&forest).expect("bins");
    let none = DriftCounter::new(&forest, &bins);
    assert!(Drift::new(&forest, &bins, [&none, &none], 10).is_err());
}

/// Returns a forest whose margin is 1 if `x[1] < 0.5`, else 0. Its second tree splits on `x[2]` and adds 0.
fn indicator(transform: Transform, rule: ClassRule) -> Forest {
    let classes = Classes { rule, ..Classes::default() };
    let mut builder = Forest::builder(4, 1).transform(transform).classes(classes);
    for (feature, values) in [(1, [1.0, 0.0]), (2, [0.0, 0.0])] {
        let mut tree = builder.tree(0);
        tree.split(feature, Predicate::Less { threshold: 0.5f32.into() }, Side::Left, 1, 2);
        for (leaf, value) in (0..).zip(values) {
            tree.leaf(leaf, &[value]);
        }
    }
    builder.build().expect("a forest")
}

#[test]
fn permutations_show_what_predictions_depend_on() {
    let forest = indicator(Transform::Identity, ClassRule::None);
    let predictor = Predictor::new(&forest).expect("a predictor");
    let mut draws = Draws(11);
    let values: Vec<f32> = (0..4 * 2000).map(|_| draws.below(1000) as f32 / 1000.0).collect();
    let labels: Vec<f64> = values.chunks_exact(4).map(|row| f64::from(row[1] < 0.5)).collect();
    let rows = Rows::new(&values, 4).expect("rows");
    let of = |repeats, seed, metric| {
        let options = PermutationOptions { metric, repeats, seed };
        permutation(&forest, &predictor, &rows, &labels, options, |_| ()).expect("importances")
    };
    let found = of(8, 0, Metric::SquaredError);
    assert_eq!(found.baseline, 0.0);
    assert_eq!([found.mean[0], found.mean[2], found.mean[3]], [0.0; 3]);
    // After a permutation, a row has the `x[1]` of a random row, and so a wrong prediction in half of all cases.
    assert!((found.mean[1] - 0.5).abs() < 0.03 && found.deviation[1] > 0.0, "{found:?}");
    assert!(found.deviation[1] < 0.03);
    assert_eq!(of(8, 0, Metric::SquaredError), found);
    assert_ne!(of(8, 1, Metric::SquaredError).mean, found.mean);
    assert_eq!(of(1, 0, Metric::AbsoluteError).deviation[1], 0.0);
    let wrong = PermutationOptions { metric: Metric::LogLoss, repeats: 1, seed: 0 };
    let refused =
        permutation(&forest, &predictor, &rows, &labels, wrong, |_| ()).expect_err("no probabilities");
    assert!(refused.to_string().contains("squared-error"), "{refused}");
    assert!(permutation(&forest, &predictor, &rows, &labels[1..], wrong, |_| ()).is_err());
}

/// `permutation` restores the rows after each feature, so the importance of a feature does not depend on earlier ones.
#[test]
fn a_features_permutations_are_its_own() {
    let forest = with_gains("churn");
    let specimen = specimen(&folder("zoo/churn"));
    let columns = forest.features.len();
    let labels: Vec<f64> = (0..specimen.count).map(|row| (row % 2) as f64).collect();
    let options = PermutationOptions { metric: Metric::of(&forest), repeats: 2, seed: 4 };
    let predictor = Predictor::new(&forest).expect("a predictor");
    let all = permutation(
        &forest,
        &predictor,
        &Rows::new(&specimen.rows, columns).expect("rows"),
        &labels,
        options,
        |_| (),
    )
    .expect("importances");
    // The log loss of the rows without permutation, from its definition.
    let loss: f64 = (0..specimen.count)
        .map(|row| {
            let p = reference::values(&forest, specimen.row(row))[0];
            -(if labels[row] == 1.0 { p } else { 1.0 - p }).ln() / specimen.count as f64
        })
        .sum();
    assert!((all.baseline - loss).abs() < 1e-5, "{} for {loss}", all.baseline);
    let last = *forest.used_columns().last().expect("a column") as usize;
    let mut constant = specimen.rows.clone();
    // If every other column is constant, only permutations of the last one change predictions.
    for row in 1..specimen.count {
        for column in (0..columns).filter(|column| *column != last) {
            constant[row * columns + column] = constant[column];
        }
    }
    let rows = Rows::new(&constant, columns).expect("rows");
    let found = permutation(&forest, &predictor, &rows, &labels, options, |_| ()).expect("importances");
    for column in (0..columns).filter(|column| *column != last) {
        assert_eq!((found.mean[column], found.deviation[column]), (0.0, 0.0), "column {column}");
    }
}

#[test]
fn metrics_are_the_objectives() {
    let usual = |name: &str| Metric::of(&with_gains(name));
    assert_eq!(usual("churn"), Metric::LogLoss);
    assert_eq!(usual("softprob"), Metric::LogLoss);
    assert_eq!(usual("lightgbm-multiclass"), Metric::LogLoss);
    assert_eq!(usual("lightgbm-regression"), Metric::SquaredError);
    assert_eq!(usual("poisson"), Metric::SquaredError);
    let largest = indicator(Transform::Argmax, ClassRule::Largest);
    assert_eq!(Metric::of(&largest), Metric::Error);
    // Three classes: probabilities of two rows.
    let forest = with_gains("softprob");
    let values = [0.2f32, 0.5, 0.3, 0.0, 0.25, 0.75];
    let values: Vec<f32> = values
        .chunks(3)
        .flat_map(|row| {
            row.iter()
                .copied()
                .chain(std::iter::repeat(0.0))
                .take(forest.outputs as usize)
                .collect::<Vec<_>>()
        })
        .collect();
    let loss = |metric: Metric, labels: &[f64]| metric.loss(&forest, &values, labels);
    assert!((loss(Metric::LogLoss, &[1.0, 2.0]) + (0.5f64.ln() + 0.75f64.ln()) / 2.0).abs() < 1e-7);
    // A probability of zero costs what scikit-learn's log_loss of f32 makes of it.
    let zero = -f64::from(f32::EPSILON).ln();
    assert!((loss(Metric::LogLoss, &[1.0, 0.0]) - (zero - 0.5f64.ln()) / 2.0).abs() < 1e-6);
    assert_eq!(loss(Metric::Error, &[1.0, 0.0]), 0.5);
    assert!(Metric::SquaredError.check(&forest, forest.outputs as usize).is_err());
}

/// A classifier of scikit-learn gives the probabilities of both of its classes.
#[test]
fn a_pair_of_probabilities_has_one_label() {
    for name in ["sklearn-boosting-classifier", "sklearn-histogram-classifier"] {
        let forest = with_gains(name);
        let specimen = specimen(&folder(&format!("zoo/{name}")));
        let predictor = Predictor::new(&forest).expect("a predictor");
        let rows = Rows::new(&specimen.rows, forest.features.len()).expect("rows");
        let values = predictor.values(&rows).expect("values");
        assert_eq!(values.len(), 2 * specimen.count, "{name}");
        let labels: Vec<f64> = values.chunks_exact(2).map(|pair| f64::from(pair[1] > pair[0])).collect();
        let others: Vec<f64> = labels.iter().map(|label| 1.0 - label).collect();
        assert_eq!(Metric::of(&forest), Metric::LogLoss);
        assert_eq!(Metric::Error.loss(&forest, &values, &labels), 0.0, "{name}");
        assert_eq!(Metric::Error.loss(&forest, &values, &others), 1.0, "{name}");
        let sum: f64 = values.chunks_exact(2).map(|pair| -f64::from(pair[0].max(pair[1])).ln()).sum();
        let loss = Metric::LogLoss.loss(&forest, &values, &labels);
        assert!((loss - sum / labels.len() as f64).abs() < 1e-6, "{name}: {loss}");
        let none = vec![-1.0; labels.len()];
        assert!(Metric::LogLoss.loss(&forest, &values, &none) > 15.0, "{name}: labels of no class");
        for metric in [Metric::LogLoss, Metric::Error] {
            let options = PermutationOptions { metric, repeats: 2, seed: 0 };
            let found =
                permutation(&forest, &predictor, &rows, &labels, options, |_| ()).expect("importances");
            assert!(found.mean.iter().any(|mean| *mean > 0.0), "{name}: {found:?}");
        }
    }
}

/// Every line is what the reference interpreter gives for the row with another value, and the partial dependence their
/// mean.
#[test]
fn dependences_are_predictions_of_replaced_rows() {
    let mut draws = Draws(17);
    let forest = mixed(&mut draws, CompareType::F64, 30);
    let rows = rows_of(&mut draws, 40, 30);
    let predictor = Predictor::new(&forest).expect("a predictor");
    for feature in 0..7u32 {
        let column = rows.iter().skip(feature as usize).step_by(7).copied();
        let grid = Grid::of_column(&forest, feature, column, 6);
        let has_missing = rows.iter().skip(feature as usize).step_by(7).any(|value| value.is_nan());
        assert!(grid.values().len() <= 7);
        assert_eq!(grid.values().last().is_some_and(|v| v.is_nan()), has_missing, "column {feature}");
        assert_eq!(grid.is_of_categories(), matches!(feature, 4 | 5));
        let found = dependence(&predictor, &Rows::new(&rows, 7).expect("rows"), feature, &grid).expect("one");
        for (r, row) in rows.chunks_exact(7).enumerate() {
            let mut row = row.to_vec();
            for (value, margin) in grid.values().iter().zip(found.individual_of(r, 0)) {
                row[feature as usize] = *value;
                assert!((reference::margins(&forest, &row)[0] - f64::from(margin)).abs() < 1e-4);
            }
        }
        for (point, partial) in found.partial_of(0).into_iter().enumerate() {
            let mean = (0..40).map(|r| f64::from(found.individual_of(r, 0)[point])).sum::<f64>() / 40.0;
            assert!((partial - mean).abs() < 1e-9);
        }
    }
    let grid = Grid::of_values(&forest, 0, [1.0]);
    assert!(dependence(&predictor, &Rows::new(&rows, 7).expect("rows"), 7, &grid).is_err());
}

#[test]
fn grids_are_few_values_of_the_column() {
    let forest = mixed(&mut Draws(2), CompareType::F64, 30);
    let of = |feature, column: &[f64], most| {
        Grid::of_column(&forest, feature, column.iter().copied(), most).values().to_vec()
    };
    assert_eq!(of(0, &[3.0, 1.0, 3.0, -0.0, 0.0], 5), [0.0, 1.0, 3.0]);
    let many: Vec<f64> = (0..1000).map(|i| f64::from(i * i)).collect();
    let few = of(0, &many, 5);
    assert_eq!((few.len(), few[0], few[4]), (5, 0.0, 998_001.0));
    // The most frequent categories, in their order.
    assert_eq!(of(4, &[5.0, 2.0, 2.0, 7.0, 7.0, 0.0], 2), [2.0, 7.0]);
    assert!(of(0, &[f64::NAN], 5)[0].is_nan());
    assert!(of(0, &[], 5).is_empty());
}

#[test]
fn samples_are_fair_and_repeat() {
    let draw = |seed| {
        let (mut sample, mut kept) = (Sample::new(3, seed), Vec::new());
        for row in 0..12u32 {
            match sample.select() {
                Some(index) if index == kept.len() => kept.push(row),
                Some(index) => kept[index] = row,
                None => (),
            }
        }
        kept
    };
    let mut chosen = [0u32; 12];
    for seed in 0..4000 {
        let kept = draw(seed);
        assert_eq!(kept.len(), 3);
        kept.iter().for_each(|row| chosen[*row as usize] += 1);
    }
    // 1000 each on average, with a standard deviation of 27.
    assert!(chosen.iter().all(|times| (850..1150).contains(times)), "{chosen:?}");
    assert_eq!(draw(5), draw(5));
}

#[test]
fn histograms_count_all_numbers() {
    let forest = with_gains("churn");
    let leaves = Histogram::new(forest.leaf_values.iter().map(|value| value.0), 10);
    assert_eq!(leaves.counts.iter().sum::<usize>(), forest.leaf_values.len());
    let splits = SplitImportances::new(&forest);
    for feature in 0..forest.features.len() {
        assert_eq!(thresholds(&forest, feature as u32).len() as u64, splits.weight[feature]);
    }
    let of = |numbers: &[f64]| Histogram::new(numbers.iter().copied(), 4);
    assert_eq!(of(&[]).counts, [0usize; 0]);
    assert_eq!(of(&[2.0, 2.0]).counts, [2]);
    assert_eq!(of(&[f64::MIN, f64::MAX, f64::INFINITY, f64::NAN]).counts, [1, 0, 0, 1]);
}

/// Every model of the zoo has bins, counts and importances, or says why not.
#[test]
fn every_model_of_the_zoo_has_insight() {
    let mut tested = 0;
    for folder in folders() {
        let specimen = specimen(&folder);
        let forest = &specimen.forest;
        let splits = SplitImportances::new(forest);
        let expected: u64 =
            forest.stats().features.iter().map(|f| (f.splits + f.category_splits) as u64).sum();
        assert_eq!(splits.weight.iter().sum::<u64>(), expected, "{}", specimen.name);
        let bins = FeatureBins::new(forest).expect("bins");
        let predictor = Predictor::new(forest).expect("a predictor");
        let mut counter = DriftCounter::new(forest, &bins);
        let rows = Rows::new(&specimen.rows, specimen.columns().max(1)).expect("rows");
        counter.count(&bins, &predictor, &rows.slice(0, 200)).expect("counts");
        if counter.rows() == 0 {
            continue;
        }
        let drift = Drift::new(forest, &bins, [&counter, &counter], 20).expect("drift");
        assert!(drift.features.iter().all(|feature| feature.psi == 0.0), "{}", specimen.name);
        for feature in &drift.features {
            let all: u64 = feature.bins.iter().map(|(_, counts)| counts[0]).sum();
            assert_eq!(all, counter.rows(), "{}, column {}", specimen.name, feature.feature);
        }
        tested += 1;
    }
    assert!(tested > 30, "{tested} models");
}
