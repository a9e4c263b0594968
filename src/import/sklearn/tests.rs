//! The format's own cases, on files made by hand, and rows of `f64` at thresholds of `f64`.

use std::path::Path;

use serde_json::json;

use super::npz::{Array, Model, Zip, zip};
use crate::forest::{
    CategoryRule, ClassRule, CompareType, Forest, Predicate, Real, Side, Targets, Transform, reference,
};
use crate::import::{ErrorKind, Limits, LoadOptions, load, parse};

fn read(model: &Model) -> Forest {
    parse(&model.bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// A tree of one split on column 0: leaf 1 is left, leaf 2 right.
fn stump(compare: &str, threshold: f64, missing_left: u8) -> Model {
    Model::minimal()
        .head(json!({"features": 1, "names": [], "compare": compare}))
        .array("tree_offsets", Array::I8(vec![0, 3]))
        .array("tree_outputs", Array::I4(vec![0]))
        .array("left", Array::I4(vec![1, -1, -1]))
        .array("right", Array::I4(vec![2, -1, -1]))
        .array("feature", Array::I4(vec![0; 3]))
        .array("threshold", Array::F8(vec![threshold, 0.0, 0.0]))
        .array("missing_left", Array::U1(vec![missing_left, 0, 0]))
        .array("set", Array::I4(vec![-1; 3]))
        .array("set_offsets", Array::I8(vec![0]))
        .array("set_members", Array::I4(vec![]))
        .array("values", Array::F8(vec![1.0, 2.0]))
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
fn archives_of_any_sort_and_order_are_the_same_model() {
    let model = Model::minimal();
    let expected = read(&model);
    let mut files = model.files();
    for zipped in [Zip::Stored, Zip::Deflated, Zip::Wide] {
        files.rotate_left(5);
        files.push(("notes.txt".into(), b"not an array".to_vec()));
        let mut bytes = zip(&files, zipped);
        assert_eq!(parse(&bytes, &LoadOptions::default()).as_ref(), Ok(&expected), "{zipped:?}");
        // A comment at the end, which may itself look like an end.
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
    for (name, compare) in [("f32", CompareType::F32), ("f64", CompareType::F64)] {
        for t in thresholds {
            for missing_left in [0, 1] {
                let forest = read(&stump(name, t, missing_left));
                let near =
                    [t.next_down(), t, t.next_up()].into_iter().chain(near_f32(t)).filter(|x| !x.is_nan());
                for x in near.chain(edges) {
                    let expected = if compare.cast(x) <= t { 1 } else { 2 };
                    assert_eq!(leaf(&forest, x), expected, "{x:e} <= {t:e} in {name}");
                }
                assert_eq!(leaf(&forest, f64::NAN), if missing_left == 1 { 1 } else { 2 });
            }
        }
    }
}

#[test]
fn unknown_categories_go_where_missing_values_go() {
    let members = [0, 3, 40, (1 << 24) - 1];
    for (rule, name) in [(CategoryRule::Whole, "whole"), (CategoryRule::NotNegative, "not_negative")] {
        for missing_left in [0, 1] {
            let model = stump("f64", 0.0, missing_left)
                .head(json!({"categories": name}))
                .array("set", Array::I4(vec![0, -1, -1]))
                .array("set_offsets", Array::I8(vec![0, 4]))
                .array("set_members", Array::I4(members.to_vec()));
            let forest = read(&model);
            assert_eq!(forest.sets[0].rule, rule);
            let (away, missing) = if missing_left == 1 { (2, 1) } else { (1, 2) };
            for member in members.map(f64::from).into_iter().chain([-0.0]) {
                assert_eq!(leaf(&forest, member), away, "{member}");
            }
            for other in [-0.5, -1.0, 1.0, 4.0, 41.0, 16_777_214.0, 16_777_216.0, 1e30, -1e30, f64::INFINITY]
            {
                assert_eq!(leaf(&forest, other), missing, "{other}");
            }
            for part in [0.5, 3.7, 40.99] {
                let expected = if rule == CategoryRule::Whole { missing } else { away };
                assert_eq!(leaf(&forest, part), expected, "{part}");
            }
            assert_eq!(leaf(&forest, f64::NAN), missing);
        }
    }
}

#[test]
fn leaves_are_values_or_vectors() {
    let vectors = stump("f32", 0.0, 0)
        .head(json!({"outputs": 2, "classes": "largest", "labels": ["no", "yes"], "scale": 0.5}))
        .array("base", Array::F8(vec![0.0, 1.0]))
        .array("tree_outputs", Array::I4(vec![-1]))
        .array("values", Array::F8(vec![1.0, 2.0, 3.0, 4.0]));
    let forest = read(&vectors);
    assert_eq!(forest.targets, Targets::All);
    assert_eq!(reference::margins(&forest, &[1.0]), [3.0, 5.0]);
    assert_eq!(reference::values(&forest, &[1.0]), [1.5, 2.5]);
    assert_eq!(forest.classes.rule, ClassRule::Largest);
    assert_eq!(forest.classes.labels, ["no", "yes"]);
    let each = Model::minimal()
        .head(json!({"outputs": 2, "round": 2, "transform": "softmax"}))
        .array("base", Array::F8(vec![0.0, 1.0]))
        .array("tree_outputs", Array::I4(vec![1, 0]));
    let forest = read(&each);
    assert_eq!(forest.targets, Targets::One(vec![1, 0]));
    assert_eq!(reference::margins(&forest, &[0.0, 0.0, 0.0]), [2.0, 1.25]);
    assert_eq!(forest.transform, Transform::Softmax);
}

#[test]
fn a_threshold_on_values_may_be_infinite() {
    let over = stump("f32", 0.0, 0).head(json!({"classes": "over", "threshold": 123.25, "labels": ["7"]}));
    assert_eq!(read(&over).classes.rule, ClassRule::Over { threshold: Real(123.25) });
    // As Python writes it, which no JSON value can hold.
    let mut files = over.files();
    let head = over.head.to_string().replace("123.25", "Infinity");
    files.retain(|(name, _)| name != "fangorn.npy");
    files.push(("fangorn.npy".into(), Array::U1(head.into_bytes()).npy()));
    let forest = parse(&zip(&files, Zip::Stored), &LoadOptions::default()).expect("a model");
    assert_eq!(forest.classes.rule, ClassRule::Over { threshold: Real(f64::INFINITY) });
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
    let average = Model::minimal().head(json!({"round": 0}));
    let error = parse(&average.bytes(), &options(0..1)).expect_err("an average");
    assert!(error.to_string().contains("not boosted"), "{error}");
}

#[test]
fn a_model_may_have_no_trees() {
    let empty = |array: &Array| match array {
        Array::U1(_) => Array::U1(vec![]),
        Array::I4(_) => Array::I4(vec![]),
        Array::I8(_) => Array::I8(vec![0]),
        Array::F8(_) => Array::F8(vec![]),
    };
    let mut model = Model::minimal();
    for (name, array) in &mut model.arrays {
        if *name != "base" {
            *array = empty(array);
        }
    }
    assert_eq!(reference::margins(&read(&model), &[0.0; 3]), [0.5]);
}

#[test]
fn a_threshold_that_is_no_number_sends_all_values_right() {
    let forest = read(&stump("f64", f64::NAN, 1));
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
    let model = stump("f32", 0.0, 0)
        .array("tree_offsets", Array::I8(vec![0, 2 * SPLITS as i64 + 1]))
        .array("left", each(&|n| if split(n) { n as i32 + 1 } else { -1 }))
        .array("right", each(&|n| if split(n) { n as i32 + 2 } else { -1 }))
        .array("feature", each(&|_| 0))
        .array("set", each(&|_| -1))
        .array("threshold", Array::F8(vec![0.5; 2 * SPLITS + 1]))
        .array("missing_left", Array::U1(vec![0; 2 * SPLITS + 1]))
        .array("values", Array::F8(vec![0.5; SPLITS + 1]));
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
