//! Tests of the importer as a whole, on models that real libraries wrote.

use std::path::{Path, PathBuf};

use super::{LoadOptions, load, parse};
use crate::forest::{EarlyStop, Forest, reference};

/// Returns the folders of XGBoost models with expected results, from the crate's zoo and a larger zoo beside
/// the crate.
fn zoo() -> Vec<PathBuf> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let zoos = [crate_folder.join("tests/zoo"), crate_folder.join("../shared/zoo")];
    let folders = zoos.iter().filter_map(|zoo| std::fs::read_dir(zoo).ok()).flatten();
    let mut folders: Vec<PathBuf> = folders.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.retain(|folder| {
        std::fs::read_to_string(folder.join("meta.json")).is_ok_and(|m| m.contains("xgboost"))
    });
    folders.sort();
    folders
}

fn model(folder: &Path) -> PathBuf {
    let file =
        ["model.json", "model.ubj"].map(|name| folder.join(name)).into_iter().find(|file| file.exists());
    file.unwrap_or_else(|| panic!("{} has no model", folder.display()))
}

fn array<T: npyz::Deserialize>(folder: &Path, name: &str) -> Option<Vec<T>> {
    let bytes = std::fs::read(folder.join(name)).ok()?;
    Some(npyz::NpyFile::new(&bytes[..]).expect("npy").into_vec().expect("npy values"))
}

/// Compares a forest with its producer's results, row by row: leaf ids exactly, margins within the sum's
/// error bound, and values loosely.
fn check(forest: &Forest, folder: &Path) {
    let location = |r: usize| format!("{}, row {r}", folder.display());
    let rows: Vec<f32> = array(folder, "rows.npy").expect("rows");
    let margins: Vec<f32> = array(folder, "margin.npy").expect("margins");
    let leaves: Option<Vec<i32>> = array(folder, "leaves.npy");
    let values: Option<Vec<f32>> = array(folder, "output.npy");
    let bounds = forest.sum_bound();
    let (outputs, trees) = (forest.outputs as usize, forest.trees.len());
    for (r, row) in rows.chunks(forest.features.len()).enumerate() {
        if let Some(leaves) = &leaves {
            let ids: Vec<i32> = reference::leaf_ids(forest, row).iter().map(|id| *id as i32).collect();
            assert_eq!(ids, leaves[r * trees..][..trees], "{}", location(r));
        }
        for (o, margin) in reference::margins(forest, row).into_iter().enumerate() {
            let expected = f64::from(margins[r * outputs + o]);
            assert!(
                (margin - expected).abs() <= bounds[o],
                "{}: margin {margin}, not {expected}",
                location(r)
            );
        }
        let width = forest.transform.width(outputs);
        if let Some(expected) = values.as_ref().map(|values| &values[r * width..][..width]) {
            for (value, expected) in reference::values(forest, row).into_iter().zip(expected) {
                let expected = f64::from(*expected);
                let near = (value - expected).abs() <= 1e-5 * expected.abs().max(1.0);
                assert!(near || value == expected, "{}: value {value}, not {expected}", location(r));
            }
        }
    }
}

#[test]
fn models_of_the_zoo_give_their_producers_leaves_and_margins() {
    for folder in zoo() {
        let forest = load(&model(&folder), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        check(&forest, &folder);
    }
}

/// Reads a file with this booster, in which `TREE` stands for a stump.
fn stump(gradient_booster: &str, version: &str) -> Forest {
    let tree = r#"{"tree_param": {"num_nodes": "3"}, "left_children": [1, -1, -1], "right_children": [2, -1, -1],
        "parents": [2147483647, 0, 0], "split_indices": [0, 0, 0], "split_conditions": [0.5, 0.3, -2.5E-1],
        "default_left": [true, false, false]}"#;
    let text = format!(
        r#"{{"version": {version}, "learner": {{"objective": {{"name": "reg:squarederror"}},
        "learner_model_param": {{"base_score": "5E-1", "num_class": "0", "num_feature": "1"}},
        "gradient_booster": {gradient_booster}}}}}"#
    );
    parse(text.replace("TREE", tree).as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_file_with_no_more_than_version_1_0_wrote_loads() {
    let model = r#"{"name": "gbtree",
        "model": {"gbtree_model_param": {"num_trees": "1"}, "tree_info": [0], "trees": [TREE]}}"#;
    let forest = stump(model, "[1, 0, 0]");
    assert_eq!(reference::margins(&forest, &[0.0]), [0.5 + f64::from(0.3f32)]);
    assert_eq!(reference::margins(&forest, &[f32::NAN]), reference::margins(&forest, &[0.0]));
    assert_eq!(reference::margins(&forest, &[0.5]), [0.25]);
    assert_eq!((forest.producer.version.as_str(), &forest.features[0].name), ("1.0.0", &None));
}

#[test]
fn reg_linear_is_an_old_name_of_squared_error() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo/logistic-1.4.2/model.json");
    let text = std::fs::read_to_string(file).unwrap();
    let named = |name: &str| parse(text.replace("binary:logistic", name).as_bytes(), &LoadOptions::default());
    let (old, new) = (named("reg:linear").unwrap(), named("reg:squarederror").unwrap());
    let row = vec![0.25f32; old.features.len()];
    assert_eq!(reference::values(&old, &row), reference::values(&new, &row));
    assert_eq!((old.transform, old.base_score), (new.transform, new.base_score));
}

#[test]
fn base_scores_at_the_ends_are_taken_as_xgboost_takes_them() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo/logistic-1.7.6/model.json");
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(r#""base_score":"5E-1""#));
    let (minus, plus, nan) = (f64::NEG_INFINITY, f64::INFINITY, f64::NAN);
    for (objective, base, margin, value) in [
        ("count:poisson", "[0E0]", minus, 0.0),
        ("reg:tweedie", "-0", minus, 0.0),
        ("survival:cox", "[-5E-1]", nan, nan),
        ("survival:aft", "[NaN]", nan, nan),
        ("count:poisson", "1E39", plus, plus),
        ("reg:gamma", "[Infinity]", plus, plus),
        ("reg:squarederror", "[-Infinity]", minus, minus),
        ("binary:logitraw", "[NaN]", nan, nan),
        ("binary:hinge", "[Infinity]", plus, 1.0),
    ] {
        let text = text.replace("binary:logistic", objective);
        let text = text.replace(r#""base_score":"5E-1""#, &format!(r#""base_score":"{base}""#));
        let forest = parse(text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let row = vec![0.25f32; forest.features.len()];
        let same = |found: f64, expected: f64| found == expected || found.is_nan() && expected.is_nan();
        let found = [reference::margins(&forest, &row)[0], reference::values(&forest, &row)[0]];
        assert!(same(found[0], margin) && same(found[1], value), "{objective} {base}: {found:?}");
        assert!(crate::sum::FixedPoint::new(&forest).is_err());
        let kept = super::fangorn::Contents::new(forest.clone()).to_bytes();
        assert_eq!(parse(&kept, &LoadOptions::default()).as_ref(), Ok(&forest));
    }
}

#[test]
fn the_best_round_is_read_where_it_is_a_round_of_the_file() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo/logistic-1.7.6/model.json");
    let text = std::fs::read_to_string(file).unwrap();
    let stop = |best: &str, iteration_range| {
        let text = text.replace(r#""best_iteration":"19""#, &format!(r#""best_iteration":{best}"#));
        let options = LoadOptions { iteration_range, ..LoadOptions::default() };
        parse(text.as_bytes(), &options).map(|forest| forest.producer.early_stop)
    };
    let known = [("12", Some(12)), (" 2", Some(2)), ("+2", Some(2)), ("0", Some(0)), ("19", Some(19))];
    for (best, expected) in known.into_iter().chain(["20", "-1", "1.0", "best", ""].map(|best| (best, None)))
    {
        let expected = expected.map(|best| EarlyStop { best, rounds: 20 });
        assert_eq!(stop(&format!("\"{best}\""), None).unwrap(), expected, "{best}");
    }
    assert_eq!(stop("\"12\"", Some(0..13)).unwrap(), None);
    let error = stop("12", None).expect_err("a number, which XGBoost does not read either");
    assert_eq!(error.location().to_string(), "learner.attributes.best_iteration", "{error}");
}

#[test]
fn weights_of_dart_multiply_leaves_in_f32_wherever_they_stand() {
    let model = |weights| {
        format!(
            r#"{{{weights}"gbtree_model_param": {{"num_trees": "1"}}, "tree_info": [0], "trees": [TREE]}}"#
        )
    };
    let beside = format!(
        r#"{{"name": "dart", "gbtree": {{"name": "gbtree", "model": {}}}, "weight_drop": [0.7]}}"#,
        model("")
    );
    let inside = format!(r#"{{"name": "gbtree", "model": {}}}"#, model(r#""weight_drop": [0.7], "#));
    let forests = [stump(&beside, "[3, 2, 0]"), stump(&inside, "[3, 4, 0]")];
    for forest in forests {
        let expected = [0.3f32 * 0.7, -0.25 * 0.7].map(crate::forest::Real::from);
        assert_eq!(forest.leaf_values, expected);
    }
}

#[test]
fn trees_are_ordered_by_their_id() {
    let leaf = |id: u32, value: u32| {
        format!(
            r#"{{"id": {id}, "tree_param": {{"num_nodes": "1"}}, "left_children": [-1], "right_children": [-1],
            "parents": [-1], "split_indices": [0], "split_conditions": [{value}], "default_left": [0]}}"#
        )
    };
    let model = format!(
        r#"{{"name": "gbtree", "model": {{"gbtree_model_param": {{"num_trees": "2"}}, "tree_info": [0, 0],
        "trees": [{}, {}]}}}}"#,
        leaf(1, 7),
        leaf(0, 3)
    );
    assert_eq!(reference::tree_values(&stump(&model, "[3, 2, 0]"), &[0.0]), [3.0, 7.0]);
}

#[test]
fn deleted_nodes_go_and_the_others_keep_their_numbers() {
    let model = r#"{"name": "gbtree", "model": {"gbtree_model_param": {"num_trees": "1"}, "tree_info": [0], "trees": [
        {"tree_param": {"num_nodes": "5", "num_deleted": "2"}, "left_children": [3, -1, -1, -1, -1],
        "right_children": [4, -1, -1, -1, -1], "parents": [2147483647, 3, 3, 0, 0],
        "split_indices": [0, 2147483647, 4294967295, 0, 0], "split_conditions": [0.5, 9, 9, 1, 2],
        "default_left": [0, 1, 1, 0, 0]}]}}"#;
    let forest = stump(model, "[3, 2, 0]");
    assert_eq!(forest.trees[0].ids, [0, 3, 4]);
    assert_eq!(reference::leaf_ids(&forest, &[0.25]), [3]);
    assert_eq!(reference::margins(&forest, &[0.75]), [2.5]);
}
