//! Tests of the format on hand-made files, and of rows of `f64` at thresholds of `f64`.

mod families;
mod pipelines;
mod refused;

use std::path::Path;

use serde_json::json;

use super::npz::{Array, Model, Zip, class, zip};
use crate::forest::{CompareType, Forest, Predicate, Real, Side, Targets, reference};
use crate::import::{ErrorKind, Limits, LoadOptions, load, parse};

fn read(model: &Model) -> Forest {
    parse(&model.bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// A single decision tree with one split on the only column. Leaf 1 is left, leaf 2 is right.
fn stump(threshold: f64, missing_left: u8) -> Model {
    let name = class("sklearn.tree._classes", "DecisionTreeRegressor");
    Model::means()
        .head(json!({"n_features_in_": 1, "estimator": name, "trees": [[name, null]]}))
        .ranges("children_left", Array::I8(vec![1, -1, -1]), vec![3])
        .ranges("children_right", Array::I8(vec![2, -1, -1]), vec![3])
        .ranges("feature", Array::I8(vec![0, -2, -2]), vec![3])
        .ranges("threshold", Array::F8(vec![threshold, -2.0, -2.0]), vec![3])
        .ranges("missing_go_to_left", Array::U1(vec![missing_left, 0, 0]), vec![3])
        .ranges("value", Array::F8(vec![0.0, 1.0, 2.0]), vec![3])
}

/// Histogram boosting, which compares in f64, with one split on the only column: on a threshold, or on a set
/// of categories that go left. Leaf 1 is left, leaf 2 is right.
fn wide_stump(threshold: f64, missing_left: u8, set: Option<[u32; 8]>) -> Model {
    let leaves = [0, 0, 0];
    let known = [u32::MAX; 8].to_vec();
    Model::minimal()
        .head(json!({"n_features_in_": 1, "feature_names_in_": [], "categories": null, "is_categorical_": null}))
        .ranges("left", Array::U4(vec![1, 0, 0]), vec![3])
        .ranges("right", Array::U4(vec![2, 0, 0]), vec![3])
        .ranges("feature_idx", Array::U4(leaves.to_vec()), vec![3])
        .ranges("num_threshold", Array::F8(vec![threshold, 0.0, 0.0]), vec![3])
        .ranges("missing_go_to_left", Array::U1(vec![missing_left, 0, 0]), vec![3])
        .ranges("is_leaf", Array::U1(vec![0, 1, 1]), vec![3])
        .ranges("value", Array::F8(vec![0.0, 1.0, 2.0]), vec![3])
        .ranges("is_categorical", Array::U1(vec![set.is_some().into(), 0, 0]), vec![3])
        .ranges("bitset_idx", Array::U4(leaves.to_vec()), vec![3])
        .ranges("left_bitsets", Array::U4(set.unwrap_or_default().to_vec()), vec![8])
        .ranges("known_bitsets", Array::U4(known), vec![8])
        .ranges("known_places", Array::U4(vec![0]), vec![1])
}

fn leaf(forest: &Forest, x: f64) -> u32 {
    reference::leaf_ids(forest, &[x])[0]
}

#[test]
fn the_minimal_model_means_what_it_says() {
    let forest = read(&Model::minimal());
    assert_eq!(forest.producer.library, "scikit-learn");
    assert_eq!(forest.producer.version, "1.9.1");
    assert_eq!(forest.producer.objective, "HistGradientBoostingRegressor");
    let names: Vec<_> = forest.features.iter().map(|f| f.name.as_deref()).collect();
    assert_eq!(names, [Some("a"), Some("b"), Some("c")]);
    assert_eq!((forest.targets.clone(), forest.outputs), (Targets::One(vec![0, 0]), 1));
    assert_eq!(reference::leaf_ids(&forest, &[0.5, 0.0, 0.0]), [1, 0]);
    assert_eq!(reference::margins(&forest, &[0.6, 0.0, 3.0]), [0.5 + 0.125 + 2.0]);
    assert_eq!(reference::margins(&forest, &[0.6, 0.0, 2.0]), [0.5 - 0.75 + 2.0]);
    assert_eq!(reference::leaf_ids(&forest, &[f32::NAN, 0.0, 0.0]), [1, 0]);
    assert_eq!(reference::leaf_ids(&forest, &[1.0, 0.0, f32::NAN]), [4, 0]);
}

#[test]
fn the_exporter_is_read_at_a_glance() {
    let script = include_str!("../../../../scripts/export_sklearn.py");
    assert!(script.lines().count() <= 125 && script.lines().all(|line| line.chars().count() <= 120));
}

#[test]
fn archives_of_any_sort_and_order_are_the_same_model() {
    let model = Model::minimal();
    let expected = read(&model);
    let mut files = model.files();
    for zipped in [Zip::Stored, Zip::Deflated, Zip::Wide] {
        files.rotate_left(5);
        files.push(("notes.txt".into(), b"not an array".to_vec()));
        let mut bytes = zip(&files, zipped);
        assert_eq!(parse(&bytes, &LoadOptions::default()).as_ref(), Ok(&expected), "{zipped:?}");
        // Add a comment at the end that itself looks like an end record.
        let length = bytes.len();
        bytes[length - 2] = 22;
        bytes.extend(b"PK\x05\x06 and some comment ");
        assert_eq!(parse(&bytes[..length + 22], &LoadOptions::default()).as_ref(), Ok(&expected));
    }
}

#[test]
fn values_at_and_near_a_threshold_go_where_scikit_learn_sends_them() {
    let near_f32 = |t: f64| {
        let t = t as f32;
        [t.next_down(), t, t.next_up()].map(f64::from)
    };
    let thresholds = [
        0.5,
        -0.5,
        0.1,
        1.0 / 3.0,
        0.0,
        -0.0,
        1e-45,
        -1e-45,
        1e-300,
        -1e-300,
        1e-38,
        16_777_217.0,
        3.4e38,
        1e39,
        -1e39,
        f64::MAX,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let edges = [0.0, -0.0, 1e-45, -1e-45, 1e-38, 3.4e38, f64::INFINITY, f64::NEG_INFINITY];
    for compare in CompareType::ALL {
        for t in thresholds {
            for missing_left in [0, 1] {
                let forest = read(&match compare {
                    CompareType::F32 => stump(t, missing_left),
                    CompareType::F64 => wide_stump(t, missing_left, None),
                });
                assert_eq!(forest.compare, compare);
                let near =
                    [t.next_down(), t, t.next_up()].into_iter().chain(near_f32(t)).filter(|x| !x.is_nan());
                for x in near.chain(edges) {
                    let expected = if compare.cast(x) <= t { 1 } else { 2 };
                    assert_eq!(leaf(&forest, x), expected, "{x:e} <= {t:e} in {}", compare.name());
                }
                assert_eq!(leaf(&forest, f64::NAN), if missing_left == 1 { 1 } else { 2 });
            }
        }
    }
}

#[test]
fn rounds_of_boosting_are_chosen_and_those_of_a_forest_are_not() {
    let options = |range| LoadOptions { iteration_range: Some(range), ..Default::default() };
    let bytes = Model::minimal().bytes();
    let forest = parse(&bytes, &options(1..2)).expect("the second tree");
    assert_eq!(reference::tree_values(&forest, &[0.0, 0.0, 0.0]), [2.0]);
    let forest = parse(&bytes, &options(0..1)).expect("the first tree");
    assert_eq!(reference::tree_values(&forest, &[0.0, 0.0, 0.0]), [0.25]);
    assert_eq!(parse(&bytes, &options(0..0)).expect("both").trees.len(), 2);
    let error = parse(&bytes, &options(1..3)).expect_err("too far");
    assert_eq!(error.kind(), ErrorKind::Options);
    assert!(error.to_string().contains("rounds 1..3 of a model with 2"), "{error}");
    for average in [Model::means(), Model::bag(), Model::isolation()] {
        let error = parse(&average.bytes(), &options(0..1)).expect_err("an average");
        assert!(error.to_string().contains("not boosted"), "{error}");
    }
}

#[test]
fn a_boosted_model_may_have_no_trees() {
    let mut model = Model::minimal();
    for (name, array) in &mut model.arrays {
        if !name.starts_with("known") {
            *array = Array::F8(vec![]);
        }
    }
    assert_eq!(reference::margins(&read(&model), &[0.0; 3]), [0.5]);
}

#[test]
fn a_threshold_that_is_no_number_sends_all_values_right() {
    let forest = read(&wide_stump(f64::NAN, 1, None));
    let Some(crate::forest::Node::Split { predicate, missing, .. }) = forest.trees[0].nodes.first() else {
        panic!("a split")
    };
    assert_eq!((*predicate, *missing), (Predicate::Less { threshold: Real(f64::NEG_INFINITY) }, Side::Left));
}

fn values<T: npyz::Deserialize>(folder: &Path, name: &str) -> Option<Vec<T>> {
    let bytes = std::fs::read(folder.join(name)).ok()?;
    Some(npyz::NpyFile::new(&bytes[..]).expect("npy").into_vec().expect("npy values"))
}

#[test]
fn rows_of_f64_end_in_scikit_learns_leaves() {
    let zoo = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo");
    let zoos = [Some(zoo), std::env::var_os("FANGORN_ZOO").map(Into::into)];
    let mut models = 0;
    for folder in zoos.into_iter().flatten().flat_map(|zoo| std::fs::read_dir(zoo).expect("the zoo")) {
        let folder = folder.expect("a folder").path();
        let model = folder.join("model.npz");
        let Some(rows) = values::<f64>(&folder, "rows64.npy").filter(|_| model.exists()) else { continue };
        models += 1;
        let forest = load(&model, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let leaves: Vec<i32> = values(&folder, "leaves64.npy").expect("leaves");
        let margins: Vec<f64> = values(&folder, "margin64.npy").expect("margins");
        for (r, row) in rows.chunks(forest.features.len()).enumerate() {
            let ids: Vec<i32> = reference::leaf_ids(&forest, row).iter().map(|id| *id as i32).collect();
            let trees = forest.trees.len();
            assert_eq!(ids, leaves[r * trees..][..trees], "{}, row {r}", folder.display());
            let outputs = forest.outputs as usize;
            for (o, margin) in reference::margins(&forest, row).into_iter().enumerate() {
                let expected = margins[r * outputs + o];
                assert!((margin - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{}", folder.display());
            }
        }
    }
    assert!(models >= 6, "{models} models with rows of f64");
}

#[test]
fn a_chain_a_hundred_thousand_deep_loads_on_a_small_stack() {
    const SPLITS: usize = 100_000;
    let split = |n: usize| n.is_multiple_of(2) && n < 2 * SPLITS;
    let each = |f: &dyn Fn(usize) -> i32| Array::I4((0..=2 * SPLITS).map(f).collect());
    let sizes = || vec![2 * SPLITS as i64 + 1];
    let model = stump(0.5, 0)
        .ranges("children_left", each(&|n| if split(n) { n as i32 + 1 } else { -1 }), sizes())
        .ranges("children_right", each(&|n| if split(n) { n as i32 + 2 } else { -1 }), sizes())
        .ranges("feature", each(&|_| 0), sizes())
        .ranges("threshold", Array::F8(vec![0.5; 2 * SPLITS + 1]), sizes())
        .ranges("missing_go_to_left", Array::U1(vec![0; 2 * SPLITS + 1]), sizes())
        .ranges("value", Array::F8(vec![0.5; 2 * SPLITS + 1]), sizes());
    let bytes = zip(&model.files(), Zip::Deflated);
    let run = move || {
        let forest = parse(&bytes, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(forest.trees[0].depth() as usize, SPLITS);
        let limits = Limits { depth: SPLITS as u32 - 1, ..Default::default() };
        parse(&bytes, &LoadOptions { limits, ..Default::default() }).expect_err("too deep")
    };
    let thread = std::thread::Builder::new().stack_size(128 << 10).spawn(run).expect("a thread");
    assert_eq!(thread.join().expect("no overflow").kind(), ErrorKind::Limit);
}
