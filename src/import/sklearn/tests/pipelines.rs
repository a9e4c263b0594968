//! Pipelines that no exporter writes.

use super::super::npz::{Array, Zip, zip};
use crate::graph::{Elements, Graph, Tensor};
use crate::import::{ImportError, LoadOptions, parse_graph};

/// Reads a file of rows with two columns and this model.
fn graph(model: &str) -> Result<Graph, ImportError> {
    let text = format!(
        r#"{{"format": 2, "version": "1.9.1", "estimator": "<class 'sklearn.pipeline.Pipeline'>",
             "n_features_in_": 2, "model": {model}}}"#
    );
    let files = [
        ("fangorn.npy".to_owned(), Array::U1(text.into_bytes()).npy()),
        ("forests.npy".to_owned(), Array::U1(Vec::new()).npy()),
        ("forests.sizes.npy".to_owned(), Array::I8(Vec::new()).npy()),
    ];
    parse_graph(&zip(&files, Zip::Stored), &LoadOptions::default())
}

/// Returns the text of a step of a class.
fn of(name: &str, rest: &str) -> String {
    format!(r#"{{"estimator": "<class 'sklearn.x.{name}'>"{rest}}}"#)
}

/// Steps and options that no model of the shared folder has, by hand.
#[test]
fn steps_compute_what_scikit_learn_computes() {
    let logistic = |options: &str| {
        of(
            "LogisticRegression",
            &format!(r#", "coef_": [[1, 2]], "intercept_": [0.5], "classes_": [0, 1]{options}"#),
        )
    };
    let three =
        r#", "coef_": [[1, 0], [0, 1], [0, 0]], "intercept_": [0, 0, 0], "classes_": ["a", "b", "c"]"#;
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    // The row is (0.25, -3).
    let score = 0.25 - 6.0 + 0.5;
    let shares = [sigmoid(0.25), sigmoid(-3.0), 0.5];
    let sum: f64 = shares.iter().sum();
    let cases: Vec<(String, Vec<f64>)> = vec![
        (logistic(""), vec![sigmoid(-score), sigmoid(score)]),
        (logistic(r#", "multi_class": "ovr""#), vec![sigmoid(-score), sigmoid(score)]),
        (logistic(r#", "multi_class": "multinomial""#), vec![sigmoid(-2.0 * score), sigmoid(2.0 * score)]),
        (
            of("LogisticRegression", &format!(r#"{three}, "solver": "liblinear""#)),
            shares.map(|share| share / sum).to_vec(),
        ),
        (of("MaxAbsScaler", r#", "scale_": [2, 2]"#), vec![0.125, -1.5]),
        (of("MaxAbsScaler", r#", "scale_": [2, 2], "clip": true"#), vec![0.125, -1.0]),
        (of("SimpleImputer", r#", "statistics_": [7, 8], "missing_values": -3"#), vec![0.25, 8.0]),
        // A column without any value in training is dropped or kept, and an indicator tells of missing values.
        (of("SimpleImputer", r#", "statistics_": [1, null]"#), vec![0.25]),
        (of("SimpleImputer", r#", "statistics_": [1, null], "keep_empty_features": true"#), vec![0.25, -3.0]),
        (
            of(
                "SimpleImputer",
                r#", "statistics_": [7, 8], "missing_values": -3, "add_indicator": true, "indicator": [1]"#,
            ),
            vec![0.25, 8.0, 1.0],
        ),
        (
            of(
                "SimpleImputer",
                r#", "statistics_": [7, 0.1], "missing_values": -3, "_fit_dtype": "float32""#,
            ),
            vec![0.25, f64::from(0.1f32)],
        ),
        (of("OrdinalEncoder", r#", "categories_": [[0.25], [4, -3, 1]]"#), vec![0.0, 1.0]),
        (
            of(
                "OrdinalEncoder",
                r#", "categories_": [[1], [-3]], "handle_unknown": "use_encoded_value", "unknown_value": -9"#,
            ),
            vec![-9.0, 0.0],
        ),
        (
            of(
                "TargetEncoder",
                r#", "categories_": [[1], [-3, 2]], "encodings_": [[5], [6, 7]], "target_mean_": 8, "classes_": null"#,
            ),
            vec![8.0, 6.0],
        ),
        (of("OneHotEncoder", r#", "categories_": [[0.25, 2], [-3, null]]"#), vec![1.0, 0.0, 1.0, 0.0]),
        (
            of(
                "OneHotEncoder",
                r#", "categories_": [[1, 2, 3], [-3, 2]], "handle_unknown": "infrequent_if_exist",
                   "infrequent_categories_": [[2, 3], null]"#,
            ),
            vec![0.0, 1.0, 1.0, 0.0],
        ),
        (of("TruncatedSVD", r#", "components_": [[2, 1]]"#), vec![-2.5]),
        (of("KNNImputer", r#", "_fit_X": [[1, null], [2, null]], "n_neighbors": 1"#), vec![0.25]),
        (
            of(
                "KNNImputer",
                r#", "_fit_X": [[1, null]], "keep_empty_features": true, "weights": "distance""#,
            ),
            vec![0.25, 0.0],
        ),
    ];
    for (model, expected) in cases {
        let graph = graph(&model).unwrap_or_else(|e| panic!("{model}: {e}"));
        let row = Tensor::new([1, 2], Elements::F64(vec![0.25, -3.0])).expect("a row");
        let found = graph.run(&[row]).expect("values").pop().expect("an output");
        let found = found.elements().doubles().expect("numbers");
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-15;
        assert!(found.len() == expected.len() && found.iter().zip(&expected).all(near), "{model}: {found:?}");
    }
}

/// What a head says that no pipeline says, each by its own name.
#[test]
fn other_steps_are_refused_by_name() {
    let scaler = of("StandardScaler", r#", "mean_": [1, 2], "scale_": [1, 2]"#);
    let ridge = of("Ridge", r#", "coef_": [1, 2], "intercept_": 0.5"#);
    let cases = [
        (scaler.clone(), None),
        (of("Pipeline", &format!(r#", "steps": [{scaler}, {ridge}]"#)), None),
        (of("QuantileTransformer", ""), Some("QuantileTransformer is not supported")),
        (of("StandardScaler", r#", "mean_": [1]"#), Some("has 1 numbers, not 2")),
        (of("Ridge", ""), Some("missing field `coef_`")),
        (of("Ridge", r#", "coef_": [1, 2, 3], "intercept_": 0"#), Some("3 numbers for rows of 2 columns")),
        (of("Pipeline", &format!(r#", "steps": [{ridge}, {scaler}]"#)), Some("before the last step")),
        (of("RandomForestClassifier", r#", "forest": 0"#), Some("there is no forest 0")),
        (of("OneHotEncoder", r#", "categories_": [[1], [2]], "handle_unknown": "error""#), None),
        (
            of("OneHotEncoder", r#", "categories_": [["a", 1], [2]], "handle_unknown": "ignore""#),
            Some("texts and numbers"),
        ),
        (
            of(
                "FeatureUnion",
                &format!(
                    r#", "steps": [{scaler}, {}]"#,
                    of("OneHotEncoder", r#", "categories_": [["a"], [2]], "handle_unknown": "ignore""#)
                ),
            ),
            Some("column `0` holds texts in one step and numbers in this one"),
        ),
        (of("OneHotEncoder", r#", "categories_": [["a"]]"#), Some("other columns")),
        (of("OneHotEncoder", r#", "categories_": [[null, null], [2]]"#), Some("two categories")),
        (
            of("OrdinalEncoder", r#", "categories_": [[1], [2]], "handle_unknown": "guess""#),
            Some("\"guess\""),
        ),
        (
            of("TargetEncoder", r#", "categories_": [[1], [2]], "encodings_": [[1]], "target_mean_": 1"#),
            Some("more than two classes"),
        ),
        (of("KNNImputer", r#", "_fit_X": [[1, 2]], "metric": "cosine""#), Some("other metrics")),
        (of("KNNImputer", r#", "_fit_X": [[1, 2, 3]]"#), Some("3 numbers for rows of 2 columns")),
        (of("SelectKBest", r#", "columns": [[0, 2]]"#), Some("none of 2")),
        (of("SimpleImputer", r#", "statistics_": [1]"#), Some("has 1 values, not 2")),
        (of("Normalizer", r#", "norm": false"#), Some("norm False is not supported")),
        (
            of("LogisticRegression", r#", "coef_": [1, 2], "intercept_": 0, "classes_": [1]"#),
            Some("1 scores for 1 classes"),
        ),
        (of("RFE", r#", "columns": [[0]]"#), Some("RFE as the last step")),
        (
            of("FeatureUnion", &format!(r#", "steps": [{scaler}], "transformer_weights": {{"a": 2}}"#)),
            Some("weights of transformers"),
        ),
        (
            of(
                "OneHotEncoder",
                r#", "categories_": [[1], [2]], "infrequent_categories_": [[1], null], "drop_idx_": [0, null]"#,
            ),
            Some("drop with rare categories"),
        ),
        (r#"{"estimator": "<class 'other.Scaler'>"}"#.to_owned(), Some("Scaler of other")),
    ];
    for (model, cause) in cases {
        match (cause, graph(&model)) {
            (None, Ok(_)) => {}
            (Some(cause), Err(error)) => assert!(error.to_string().contains(cause), "{error}"),
            (cause, found) => panic!("{model}: {cause:?} and {found:?}"),
        }
    }
}
