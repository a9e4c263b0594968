//! `fangorn predict --output contributions`.

use super::*;

#[test]
fn contributions_have_the_features_names_and_add_up() {
    let rows = zoo("churn", "rows.csv");
    let margins = csv::<f64>(&prints(&["predict", &model("churn"), "--rows", &rows, "--output", "margin"]));
    let text = prints(&["predict", &model("churn"), "--rows", &rows, "--output", "contributions"]);
    let (header, values) = text.split_once('\n').expect("a header");
    assert!(header.ends_with(",bias"), "{header}");
    let values = csv::<f64>(values);
    assert_eq!(values.len(), margins.len());
    for (row, margin) in values.iter().zip(margins) {
        assert_eq!(row.len(), header.split(',').count());
        assert!((row.iter().sum::<f64>() - margin[0]).abs() < 1e-5);
    }
}

#[test]
fn a_model_without_covers_is_refused_by_name() {
    let rows = zoo("onnx-logistic", "rows.npy");
    let run = ["predict", &model("onnx-logistic"), "--rows", &rows, "--output", "contributions"];
    refuses(&run, &["no covers", "ONNX"]);
    let rows = zoo("churn", "rows.csv");
    let run = ["predict", &model("churn"), "--rows", &rows, "--output", "contributions", "--sum", "exact"];
    refuses(&run, &["--sum", "contributions"]);
}
