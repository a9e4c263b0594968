//! How each family of estimators combines its trees.

use serde_json::json;

use super::super::npz::{Array, Model, Zip, class, zip};
use super::{leaf, read, stump, wide_stump};
use crate::forest::{CategoryRule, ClassRule, Forest, Real, Targets, Transform, reference};
use crate::import::{LoadOptions, parse};

#[test]
fn means_of_leaves_are_of_values_over_trees() {
    let forest = read(&Model::means());
    assert_eq!((forest.targets.clone(), forest.outputs), (Targets::All, 3));
    assert_eq!(reference::margins(&forest, &[0.0, 0.0]), [1.5 + 4.5, 2.0 + 5.0, 2.5 + 5.5]);
    assert_eq!(forest.classes.rule, ClassRule::None);
    let one = read(&stump(0.5, 0));
    assert_eq!(one.targets, Targets::One(vec![0]));
    assert_eq!(reference::values(&one, &[1.0]), [2.0]);
    assert_eq!(one.producer.objective, "DecisionTreeRegressor");
}

#[test]
fn votes_are_shares_of_the_classes_that_a_tree_has_seen() {
    let forest = read(&Model::bag());
    assert_eq!(forest.classes.rule, ClassRule::Largest);
    assert_eq!(forest.classes.labels, ["no", "perhaps", "yes"]);
    // The first tree sees column 1 only.
    assert_eq!(reference::margins(&forest, &[9.0, 0.5]), [0.25 + 0.75, 0.0, 0.75 + 0.25]);
    assert_eq!(reference::values(&forest, &[0.0, 0.6]), [(1.0 + 0.75) / 2.0, 0.0, 0.25 / 2.0]);
    let missing = [f32::NAN, f32::NAN];
    assert_eq!(reference::leaf_ids(&forest, &missing), [1, 0]);
    // In releases before 1.3, missing values go right.
    let old = Model::bag().ranges("missing_go_to_left", Array::F8(vec![]), vec![0, 0]);
    assert_eq!(reference::leaf_ids(&read(&old), &missing), [2, 0]);
    let one =
        Model::bag().head(json!({"classes_": [7]})).ranges("value", Array::F8(vec![1.0; 4]), vec![3, 1]);
    let forest = read(&one);
    assert_eq!(forest.classes.rule, ClassRule::Over { threshold: Real(f64::INFINITY) });
    assert_eq!((forest.classes.labels, forest.targets), (vec!["7".to_owned()], Targets::One(vec![0, 0])));
}

#[test]
fn shares_add_up_as_numpy_adds() {
    // Ten weights whose sum depends on the order: numpy adds eight lanes, then the lanes in pairs.
    let weights: Vec<f64> = (1..=10).map(|n| f64::from(n) * 0.1).collect();
    let [a, b, c, d, e, f, g, h, i, j] = weights[..] else { panic!("ten") };
    let total = ((a + b) + (c + d)) + ((e + f) + (g + h)) + i + j;
    let labels: Vec<u32> = (0..10).collect();
    let values: Vec<f64> = weights.iter().copied().cycle().take(40).collect();
    let model =
        Model::bag().head(json!({"classes_": labels})).ranges("value", Array::F8(values), vec![30, 10]);
    let forest = read(&model);
    let expected: Vec<f64> = weights.iter().map(|weight| weight / total + weight / total).collect();
    assert_eq!(reference::margins(&forest, &[0.0, 0.0]), expected);
}

#[test]
fn labels_are_written_as_python_prints_them() {
    let classes = |classes: serde_json::Value| read(&Model::bag().head(json!({"classes_": classes}))).classes;
    let labels = |labels: serde_json::Value| classes(labels).labels;
    assert_eq!(classes(json!([-3, 2, 5])).integers(), Some(vec![-3, 2, 5]));
    assert_eq!(classes(json!(["-3", "2", "5"])).integers(), None);
    assert_eq!(labels(json!(["01", "1", "2"])), ["01", "1", "2"]);
    assert_eq!(labels(json!([-3, 0.5, 2.0])), ["-3", "0.5", "2.0"]);
    assert_eq!(labels(json!([false, true, "None"])), ["False", "True", "None"]);
}

#[test]
fn boosting_starts_from_a_base_and_passes_over_missing_sides() {
    let forest = read(&Model::boosting());
    assert_eq!(reference::margins(&forest, &[0.0, 0.0]), [0.25 - 0.5 + 0.25]);
    assert_eq!(reference::leaf_ids(&forest, &[f32::NAN, 0.0]), [2, 0]);
    assert_eq!((forest.transform, forest.scale), (Transform::SigmoidPair, Real(1.0)));
    assert_eq!(forest.classes.rule, ClassRule::Over { threshold: Real(f64::next_down(0.5)) });
    let exponential = Model::boosting().head(json!({"loss": "exponential", "init_": "zero"}));
    assert_eq!(read(&exponential).scale, Real(2.0));
    let name = class("sklearn.ensemble._gb", "GradientBoostingRegressor");
    let regressor = Model::boosting().head(json!({"estimator": name, "classes_": []}));
    assert_eq!(read(&regressor).transform, Transform::Identity);
    let one_each = Model::boosting().head(json!({"classes_": [4, 5, 6], "base": [[0.0, 1.0, 2.0]]}));
    let error = parse(&one_each.bytes(), &LoadOptions::default()).expect_err("two trees");
    assert!(error.to_string().contains("2 trees make no whole number of rounds of 3"), "{error}");
}

#[test]
fn links_of_histogram_boosting() {
    let with = |loss: &str| read(&Model::minimal().head(json!({"loss": loss}))).transform;
    assert_eq!(
        [with("poisson"), with("gamma"), with("quantile")],
        [Transform::Exp, Transform::Exp, Transform::Identity]
    );
    let module = "sklearn.ensemble._hist_gradient_boosting.gradient_boosting";
    let name = class(module, "HistGradientBoostingClassifier");
    let two = Model::minimal()
        .head(json!({"estimator": name, "loss": "log_loss", "classes_": ["a", "b"], "base": 0.5}));
    let forest = read(&two);
    assert_eq!(forest.transform, Transform::SigmoidPair);
    assert_eq!(forest.classes.rule, ClassRule::Over { threshold: Real(0.5) });
}

#[test]
fn isolation_forests_have_path_lengths() {
    let forest = read(&Model::isolation());
    // A leaf of n samples stands for a subtree of mean depth c(n).
    let c = |n: f64| 2.0 * ((n - 1.0).ln() + 0.577_215_664_901_532_9) - 2.0 * (n - 1.0) / n;
    assert_eq!(reference::margins(&forest, &[0.0, 0.0]), [(1.0 + c(3.0)) / 2.0 + c(4.0) / 2.0]);
    assert_eq!(reference::margins(&forest, &[1.0, 0.0]), [1.0 / 2.0 + c(4.0) / 2.0]);
    assert_eq!(forest.scale, Real(1.0 / c(4.0)));
    assert_eq!(forest.classes.labels, ["1", "-1"]);
    let ClassRule::Over { threshold } = forest.classes.rule else { panic!("a threshold") };
    assert!(threshold.0 > 0.5 && threshold.0 < 0.5 + 1e-12);
    let single = read(&Model::isolation().head(json!({"_max_samples": 1})));
    assert_eq!((single.scale, single.base_score[0]), (Real(1.0), Real(1.0)));
    // Trees that see all columns use the user's column numbers, whatever order the file lists them in.
    let columns = Model::isolation().ranges("columns", Array::I8(vec![1, 0, 1, 0]), vec![2, 2]);
    assert_eq!(read(&columns), forest);
    let columns = Model::isolation().ranges("columns", Array::I8(vec![1, 0]), vec![1, 1]);
    assert_eq!(reference::leaf_ids(&read(&columns), &[0.0, 1.0]), [2, 0]);
}

/// A set with the bits of these numbers.
fn bits(numbers: &[u32]) -> [u32; 8] {
    std::array::from_fn(|w| {
        numbers.iter().filter(|n| **n as usize / 32 == w).fold(0, |word, n| word | 1 << (n % 32))
    })
}

#[test]
fn unknown_categories_go_where_missing_values_go() {
    // Releases before 1.4 know the categories 0 to 255 directly. Later ones encode them, and the trees see
    // other numbers.
    let direct = bits(&[0, 3, 40, 255]);
    let encoded =
        json!({"is_categorical_": [true], "categories": [[0, 3.0, 5, true, 40, 16_777_215, f64::from(7)]]});
    for (rule, members) in
        [(CategoryRule::NotNegative, [0, 3, 40, 255]), (CategoryRule::Whole, [0, 3, 40, (1 << 24) - 1])]
    {
        for missing_left in [0, 1] {
            // The file's set holds the categories that go left. If missing values go left too, the forest's
            // set holds the other known ones.
            let left = match (rule, missing_left) {
                (CategoryRule::Whole, 0) => bits(&[0, 1, 4, 5]),
                (CategoryRule::Whole, _) => bits(&[2, 3, 6]),
                (_, 0) => direct,
                _ => direct.map(|word| !word),
            };
            let mut model = wide_stump(0.0, missing_left, Some(left));
            if rule == CategoryRule::Whole {
                model = model
                    .head(encoded.clone())
                    .array("known_bitsets", Array::U4(bits(&[0, 1, 2, 3, 4, 5, 6]).to_vec()));
            }
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
            for fraction in [0.5, 3.7, 40.99] {
                let expected = if rule == CategoryRule::Whole { missing } else { away };
                assert_eq!(leaf(&forest, fraction), expected, "{fraction}");
            }
            assert_eq!(leaf(&forest, f64::NAN), missing);
        }
    }
}

#[test]
fn categories_that_are_no_whole_numbers_have_indices() {
    let categories = json!({"is_categorical_": [true], "categories": [["blue", "dark red", "01", null]]});
    let model = wide_stump(0.0, 0, Some(bits(&[0, 2]))).head(categories);
    let bytes = model.array("known_bitsets", Array::U4(bits(&[0, 1, 2]).to_vec())).bytes();
    let options = LoadOptions { raw_categories: true, ..LoadOptions::default() };
    let forest = parse(&bytes, &options).unwrap_or_else(|e| panic!("{e}"));
    let codes = forest.features[0].codes().expect("categories");
    assert_eq!(["blue", "dark red", "01"].map(|text| codes.of(text)), [Some(0.0), Some(1.0), Some(2.0)]);
    let found = ["blue", "dark red", "01", "1", "pink", ""]
        .map(|text| leaf(&forest, codes.of(text).expect("a code")));
    assert_eq!(found, [1, 2, 1, 2, 2, 2]);
    // Rows with other codes would get wrong predictions, so a loader without `raw_categories` refuses the
    // model.
    let kept = crate::file::Contents::new(forest.clone()).to_bytes();
    assert_eq!(parse(&kept, &options).as_ref(), Ok(&forest));
    for bytes in [&bytes, &kept] {
        let error = parse(bytes, &LoadOptions::default()).expect_err("texts");
        assert!(error.remedy().contains("CSV") && error.remedy().contains("raw_categories"), "{error}");
    }
}

#[test]
fn a_missing_category_of_the_encoder_has_no_number() {
    let members = |forest: &Forest| forest.sets[0].members().collect::<Vec<_>>();
    let mut model = Model::minimal().head(json!({"categories": [[4, 9, null]]}));
    assert_eq!(members(&read(&model)), [4, 9]);
    let mut files = model.files();
    let head = model.head.to_string().replace("null", "NaN");
    files.retain(|(name, _)| name != "fangorn.npy");
    files.push(("fangorn.npy".into(), Array::U1(head.into_bytes()).npy()));
    let forest = parse(&zip(&files, Zip::Stored), &LoadOptions::default()).expect("a model");
    assert_eq!(members(&forest), [4, 9]);
    model.head["categories"] = json!([[4.0, -0.0, 2]]);
    assert_eq!(members(&read(&model)), [0, 4]);
}
