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
    let cases: [(String, Vec<f64>); 7] = [
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
        (
            of("OneHotEncoder", r#", "categories_": [[1], [2]], "handle_unknown": "error""#),
            Some("stops at a category"),
        ),
        (
            of("OneHotEncoder", r#", "categories_": [["a"], [2]], "handle_unknown": "ignore""#),
            Some("no numbers"),
        ),
        (of("SelectKBest", r#", "columns": [[0, 2]]"#), Some("none of 2")),
        (of("SimpleImputer", r#", "statistics_": [1, null]"#), Some("without any value")),
        (
            of("LogisticRegression", r#", "coef_": [1, 2], "intercept_": 0, "classes_": [1]"#),
            Some("1 scores for 1 classes"),
        ),
        (of("RFE", r#", "columns": [[0]]"#), Some("RFE as the last step")),
        (
            of(
                "OneHotEncoder",
                r#", "categories_": [[1], [2]], "handle_unknown": "ignore", "max_categories": 3"#,
            ),
            Some("because they are rare"),
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
