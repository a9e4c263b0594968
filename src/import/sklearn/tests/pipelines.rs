//! Pipelines that no exporter writes.

use super::super::npz::{Array, Zip, zip};
use crate::import::{LoadOptions, parse_graph};

/// What a head says that no pipeline says, each by its own name.
#[test]
fn other_steps_are_refused_by_name() {
    let head = |model: &str| {
        format!(
            r#"{{"format": 2, "version": "1.9.1", "estimator": "<class 'sklearn.pipeline.Pipeline'>",
                 "n_features_in_": 2, "model": {model}}}"#
        )
    };
    let of = |name: &str, rest: &str| format!(r#"{{"estimator": "<class 'sklearn.x.{name}'>"{rest}}}"#);
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
        (r#"{"estimator": "<class 'other.Scaler'>"}"#.to_owned(), Some("Scaler of other")),
    ];
    for (model, cause) in cases {
        let text = head(&model).into_bytes();
        let files = [
            ("fangorn.npy".to_owned(), Array::U1(text).npy()),
            ("forests.npy".to_owned(), Array::U1(Vec::new()).npy()),
            ("forests.sizes.npy".to_owned(), Array::I8(Vec::new()).npy()),
        ];
        let found = parse_graph(&zip(&files, Zip::Stored), &LoadOptions::default());
        match (cause, found) {
            (None, Ok(_)) => {}
            (Some(cause), Err(error)) => assert!(error.to_string().contains(cause), "{error}"),
            (cause, found) => panic!("{model}: {cause:?} and {found:?}"),
        }
    }
}
