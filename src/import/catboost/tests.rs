//! Tests of what is peculiar to CatBoost, on files small enough to check by eye.

use super::super::{ErrorKind, LoadOptions, parse};
use crate::Forest;
use crate::forest::{ClassRule, Transform, reference};

fn load(text: &str) -> Forest {
    parse(text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// Reads a model of the numeric features 0 to 2. Feature 0 takes NaN as below every border, feature 1 as
/// above every border, and feature 2 compares it as it is.
fn numeric(rest: &str, trees: &str) -> Forest {
    load(&format!(
        r#"{{"features_info": {{"float_features": [
            {{"borders": [0, 0.30000001192092896], "feature_index": 0, "flat_feature_index": 0, "feature_id": "a",
              "has_nans": true, "nan_value_treatment": "AsFalse"}},
            {{"borders": [-1.5, -0], "feature_index": 1, "flat_feature_index": 2, "feature_id": "",
              "has_nans": true, "nan_value_treatment": "AsTrue"}},
            {{"borders": null, "feature_index": 2, "flat_feature_index": 1, "feature_name": "c",
              "has_nans": false, "nan_value_treatment": "AsIs"}}]}},
            {rest} {trees}}}"#
    ))
}

const RMSE: &str = r#""model_info": {"params": {"loss_function": {"params": {}, "type": "RMSE"}},
    "catboost_version_info": "Git info:\n    Branch: tags/v1.2.10\n    Author: a"}, "scale_and_bias": [1, [0]],"#;

fn over(index: u32, border: &str) -> String {
    format!(r#"{{"split_type": "FloatFeature", "float_feature_index": {index}, "border": {border}}}"#)
}

/// Returns a tree of one level, which asks whether the feature is over `border`.
fn stump(index: u32, border: &str) -> String {
    format!(
        r#""oblivious_trees": [{{"splits": [{}], "leaf_values": [-1, 1], "leaf_weights": [3, 4]}}]"#,
        over(index, border)
    )
}

fn leaf(forest: &Forest, row: &[f32]) -> u32 {
    reference::leaf_ids(forest, row)[0]
}

#[test]
fn a_bit_is_set_above_the_border_alone() {
    for border in [0.0f32, -1.5, 0.3, f32::MIN_POSITIVE, 1e-45, f32::MIN, f32::MAX, 16_777_216.0] {
        let forest = numeric(RMSE, &stump(2, &format!("{:?}", f64::from(border))));
        let mut values =
            vec![border.next_down(), border, border.next_up(), 0.0, -0.0, 1e-45, -1e-45, f32::MIN_POSITIVE];
        values.extend([f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 1e30]);
        for x in values {
            assert_eq!(leaf(&forest, &[0.0, x, 0.0]), u32::from(x > border), "{x:e} > {border:e}");
        }
    }
}

#[test]
fn a_missing_value_takes_the_side_that_its_feature_says() {
    let nan = f32::NAN;
    for (index, missing) in [(0, 0), (1, 1), (2, 0)] {
        let forest = numeric(RMSE, &stump(index, "0"));
        assert_eq!(leaf(&forest, &[nan, nan, nan]), missing, "feature {index}");
    }
    let forest = numeric(RMSE, &stump(1, "0"));
    assert_eq!(
        forest.features.iter().map(|f| f.name.as_deref()).collect::<Vec<_>>(),
        [Some("a"), Some("c"), None]
    );
    assert_eq!(leaf(&forest, &[9.0, 9.0, -1.0]), 0);
    assert_eq!(forest.producer.version, "1.2.10");
}

#[test]
fn the_first_split_is_the_lowest_bit_and_leaves_are_vectors_side_by_side() {
    let values: Vec<String> = (0..16).map(|v| v.to_string()).collect();
    let trees = format!(
        r#""oblivious_trees": [{{"splits": [{}, {}, {}], "leaf_values": [{}]}}]"#,
        over(0, "0"),
        over(1, "-1.5"),
        over(2, "7"),
        values.join(",")
    );
    let info = RMSE.replace("RMSE", "MultiRMSE").replace("[1, [0]]", "[0.5, [10, 20]]");
    let forest = numeric(&info, &trees);
    assert_eq!((forest.outputs, forest.trees[0].depth()), (2, 3));
    for number in 0..8u32 {
        let bit = |b: u32| (number >> b & 1) as f32;
        let row = [bit(0), 7.0 + bit(2), -1.5 + bit(1)];
        assert_eq!(leaf(&forest, &row), number);
        let first = f64::from(number);
        assert_eq!(reference::margins(&forest, &row), [10.0 + first, 20.5 + first]);
    }
}

#[test]
fn nested_leaves_are_numbered_from_left_to_right_wherever_they_stand_in_the_file() {
    let trees = format!(
        r#""trees": [{{"right": {{"right": {{"value": 3}}, "split": {}, "left": {{"weight": 1, "value": 2}}}},
            "new": [{{}}], "split": {}, "left": {{"value": 1}}}}, {{"value": 5, "weight": 0}}]"#,
        over(1, "-1.5"),
        over(0, "0.30000001192092896"),
    );
    let forest = numeric(RMSE, &trees);
    let ids = |row: &[f32]| (reference::leaf_ids(&forest, row), reference::tree_values(&forest, row));
    assert_eq!(ids(&[0.3, 0.0, 0.0]), (vec![0, 0], vec![1.0, 5.0]));
    assert_eq!(ids(&[0.4, 0.0, -1.5]), (vec![1, 0], vec![2.0, 5.0]));
    assert_eq!(ids(&[0.4, 0.0, f32::NAN]), (vec![2, 0], vec![3.0, 5.0]));
}

#[test]
fn a_leaf_beside_a_split_is_numbered_before_those_below_it() {
    let trees = format!(
        r#""trees": [{{"split": {}, "left": {{"split": {}, "left": {{"value": 2}}, "right": {{"value": 3}}}},
            "right": {{"value": 1}}}}]"#,
        over(0, "0.30000001192092896"),
        over(1, "-1.5"),
    );
    let forest = numeric(RMSE, &trees);
    let ids = |row: &[f32]| (reference::leaf_ids(&forest, row), reference::tree_values(&forest, row));
    assert_eq!(ids(&[0.4, 0.0, 0.0]), (vec![0], vec![1.0]));
    assert_eq!(ids(&[0.3, 0.0, f32::NAN]), (vec![2], vec![3.0]));
    assert_eq!(ids(&[0.3, 0.0, -1.5]), (vec![1], vec![2.0]));
}

#[test]
fn a_tree_without_splits_is_a_leaf_and_a_model_without_trees_its_bias() {
    let forest = numeric(RMSE, r#""oblivious_trees": [{"splits": null, "leaf_values": [0.25]}]"#);
    assert_eq!(reference::margins(&forest, &[0.0; 3]), [0.25]);
    let info = RMSE.replace("RMSE", "MultiRMSE").replace("[1, [0]]", "[2, [0.5, 1.5]]");
    let forest = numeric(&info, r#""oblivious_trees": null"#);
    assert_eq!(reference::margins(&forest, &[0.0; 3]), [0.5, 1.5]);
}

#[test]
fn scale_multiplies_leaves_and_bias_is_added_as_it_is() {
    let forest = numeric(&RMSE.replace("[1, [0]]", "[-2, 0.5]"), &stump(0, "0"));
    assert_eq!(reference::margins(&forest, &[1.0; 3]), [-1.5]);
    let forest = numeric(&RMSE.replace(r#", "scale_and_bias": [1, [0]]"#, ""), &stump(0, "0"));
    assert_eq!(reference::margins(&forest, &[1.0; 3]), [1.0]);
}

/// Reads a model of one categorical feature. Its splits ask for the hashes of "3" and "-1".
fn categories() -> Forest {
    let split = |value: u32| {
        format!(r#"{{"split_type": "OneHotFeature", "cat_feature_index": 0, "value": {}}}"#, value as i32)
    };
    load(&format!(
        r#"{{"features_info": {{"categorical_features": [{{"feature_index": 0, "flat_feature_index": 0,
            "feature_id": "k", "values": [593172586, 288298918]}}]}}, {RMSE}
            "oblivious_trees": [{{"splits": [{}, {}], "leaf_values": [0, 1, 2, 3]}}]}}"#,
        split(593_172_586),
        split(288_298_918)
    ))
}

#[test]
fn a_category_is_a_whole_number_and_nothing_near_it() {
    let forest = categories();
    let cases = [
        (3.0, 1),
        (-1.0, 2),
        (0.0, 0),
        (-0.0, 0),
        (-0.5, 0),
        (2.7, 0),
        (3.5, 0),
        (4.0, 0),
        (-3.0, 0),
        (16_777_215.0, 0),
        (16_777_216.0, 0),
        (1e30, 0),
        (f32::INFINITY, 0),
        (f32::NEG_INFINITY, 0),
        (f32::NAN, 0),
    ];
    for (x, expected) in cases {
        assert_eq!(leaf(&forest, &[x]), expected, "{x}");
    }
}

#[test]
fn categories_that_are_texts_are_looked_up_by_their_hash() {
    use crate::forest::category_hash;
    let hash = |text: &str| category_hash(text.as_bytes()).cast_signed();
    let split = |text: &str| {
        format!(r#"{{"split_type": "OneHotFeature", "cat_feature_index": 0, "value": {}}}"#, hash(text))
    };
    let text = format!(
        r#"{{"features_info": {{"categorical_features": [
            {{"feature_index": 0, "flat_feature_index": 0, "values": [{}, {}]}}]}},
            "oblivious_trees": [{{"splits": [{}, {}], "leaf_values": [0, 1, 2, 3]}}]}}"#,
        hash("dark red"),
        hash("7"),
        split("dark red"),
        split("7"),
    );
    let error = parse(text.as_bytes(), &LoadOptions::default()).expect_err("a text");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.remedy().contains("pool=train_pool") && error.remedy().contains("CSV"), "{error}");
    let options = LoadOptions { raw_categories: true, ..LoadOptions::default() };
    let forest = parse(text.as_bytes(), &options).unwrap_or_else(|e| panic!("{e}"));
    let codes = forest.features[0].codes().expect("categories");
    let margin = |x: f64| reference::margins(&forest, &[x])[0];
    let found = ["dark red", "7", "7.0", "pink", ""].map(|text| margin(codes.of(text).expect("a number")));
    assert_eq!(found, [1.0, 2.0, 0.0, 0.0, 0.0]);
    // No whole number is a known category.
    assert!((-10..10).all(|n| margin(f64::from(n)) == 0.0));
    assert!(forest.features[0].coding.is_needed());
    // If all categories are numbers, rows hold these numbers, and `Codes::of` still finds a text.
    let numbers = text.replace(&hash("dark red").to_string(), &hash("-3").to_string());
    let forest = load(&numbers);
    let codes = forest.features[0].codes().expect("categories");
    assert_eq!(["-3", "7"].map(|text| codes.of(text)), [Some(-3.0), Some(7.0)]);
    assert!(codes.of("8").is_some_and(f64::is_nan) && !forest.features[0].coding.is_needed());
}

#[test]
fn losses_say_what_becomes_of_scores() {
    let info = |loss: &str, more: &str| {
        RMSE.replace("RMSE", loss).replace(r#""model_info": {"#, &format!(r#""model_info": {{{more}"#))
    };
    let two = stump(0, "0").replace("[-1, 1]", "[0, 1, 2, 3]");
    let wide = |loss: &str, more: &str| numeric(&info(loss, more).replace("[1, [0]]", "[1, [0, 0]]"), &two);
    let forest = numeric(&info("Logloss", r#""binclass_probability_threshold": "0.75","#), &stump(0, "0"));
    assert_eq!(forest.transform, Transform::SigmoidPair);
    assert_eq!(forest.classes.rule, ClassRule::Over { threshold: 0.75.into() });
    let names = r#""class_params": {"class_names": [false, true], "classes_count": 0},"#;
    assert_eq!(numeric(&info("Focal", names), &stump(0, "0")).classes.labels, ["False", "True"]);
    let names = r#""class_params": "{\"class_names\": [], \"class_to_label\": [0, 1]}","#;
    assert!(numeric(&info("CrossEntropy", names), &stump(0, "0")).classes.labels.is_empty());
    let labelled = |sort: &str, names: &str| {
        let more = format!(r#""class_params": {{"class_label_type": "{sort}", "class_names": {names}}},"#);
        let classes = numeric(&info("Logloss", &more), &stump(0, "0")).classes;
        (classes.labels.join(" "), classes.words, classes.integers())
    };
    assert_eq!(labelled("String", r#"["01", "1"]"#), ("01 1".into(), true, None));
    assert_eq!(labelled("String", r#"["0", "1"]"#), ("0 1".into(), true, None));
    assert_eq!(labelled("Integer", "[0, 1]"), (String::new(), false, Some(vec![])));
    assert_eq!(labelled("Integer", "[1, 1099511627776]").2, Some(vec![1, 1 << 40]));
    assert_eq!(labelled("Float", "[0, 1]"), ("0.0 1.0".into(), false, None));
    assert_eq!(labelled("Boolean", "[false, true]"), ("False True".into(), false, None));
    let names = r#""class_params": {"class_names": [-1, 0.10000000149011612]},"#;
    let forest = wide("MultiClass", names);
    assert_eq!((forest.transform, forest.classes.rule), (Transform::Softmax, ClassRule::Largest));
    assert_eq!(forest.classes.labels, ["-1", "0.1"]);
    let forest = wide("MultiClassOneVsAll", r#""class_params": {"class_names": ["no", "yes"]},"#);
    assert_eq!((forest.transform, forest.classes.rule), (Transform::Sigmoid, ClassRule::Largest));
    assert_eq!(forest.classes.labels, ["no", "yes"]);
    let forest = wide("MultiLogloss", r#""class_params": {"class_names": [0, 1]},"#);
    assert_eq!(
        (forest.transform, forest.classes.rule),
        (Transform::Sigmoid, ClassRule::Over { threshold: 0.5.into() })
    );
    assert_eq!(numeric(&info("Tweedie", ""), &stump(0, "0")).transform, Transform::Exp);
    let sum = r#""model_info": {"loss_function": "{\"type\":\"Poisson\",\"params\":{}}"},"#;
    assert_eq!(numeric(sum, &stump(0, "0")).transform, Transform::Exp);
    assert_eq!(numeric("", &stump(0, "0")).transform, Transform::Identity);
}

#[test]
fn a_range_of_rounds_is_one_of_trees() {
    let leaf = |v: u32| format!(r#"{{"splits": null, "leaf_values": [{v}]}}"#);
    let text = format!(
        r#"{{"oblivious_trees": [{}, {}, {}], "scale_and_bias": [1, [0.5]]}}"#,
        leaf(1),
        leaf(2),
        leaf(4)
    );
    let with = |begin, end| {
        let options = LoadOptions { iteration_range: Some(begin..end), ..Default::default() };
        parse(text.as_bytes(), &options)
    };
    // The bias belongs to the first tree.
    for (begin, end, sum) in [(0, 0, 7.5), (0, 2, 3.5), (1, 0, 6.0), (1, 2, 2.0), (3, 3, 0.0)] {
        let forest = with(begin, end).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(reference::margins(&forest, &[0.0f32; 0]), [sum]);
    }
    for (begin, end) in [(0, 4), (4, 0), (2, 1)] {
        assert_eq!(with(begin, end).map_err(|e| e.kind()).err(), Some(ErrorKind::Options));
    }
}
