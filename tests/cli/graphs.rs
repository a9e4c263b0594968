//! `fangorn predict` of classical models, which are graphs and no forests alone.

use crate::{Scratch, command, prints, refuses, text};

fn file(model: &str, name: &str) -> String {
    format!("{}/tests/zoo-classical/{model}/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn classical_models_predict_values_and_classes() {
    for (model, output, expected) in [
        ("Pipeline", "class", "output.npy"),
        ("Pipeline", "value", "proba.npy"),
        ("ColumnTransformer", "value", "output.npy"),
        ("GaussianNB", "value", "proba.npy"),
        ("KMeans", "class", "output.npy"),
        ("SVR", "value", "output.npy"),
        ("StackingClassifier", "class", "output.npy"),
        ("LabelEncoder", "value", "output.npy"),
    ] {
        let (graph, rows, expected) =
            (file(model, "model.onnx"), file(model, "rows.npy"), file(model, expected));
        let predict = ["predict", &graph, "--rows", &rows, "--output", output, "--expect", &expected];
        let done = command(&predict).output().expect("the program runs");
        assert_eq!(done.status.code(), Some(0), "{model}: {}", text(&done.stderr));
    }
    let scratch = Scratch::new("graphs");
    let rows = scratch.file("rows.csv", "a,b,c,d,e,f\n1,2,3,4,5,6\n0,0,0,0,0,0\n");
    let table = prints(&["predict", &file("Pipeline", "model.onnx"), "--rows", &rows, "--output", "class"]);
    assert_eq!(table.lines().count(), 2, "{table}");
}

#[test]
fn what_a_graph_has_not_is_refused() {
    let (model, rows) = (file("SVR", "model.onnx"), file("SVR", "rows.npy"));
    let predict = |more: &[&str], parts: &[&str]| {
        refuses(&[&["predict", &*model, "--rows", &*rows], more].concat(), parts);
    };
    predict(&["--output", "leaf"], &["model.onnx", "--output", "value or class"]);
    predict(&["--output", "class"], &["model.onnx", "no classes", "--output value"]);
    predict(&["--schedule", "one-row"], &["model.onnx", "--schedule"]);
    predict(&["--backend", "reference"], &["model.onnx", "--backend"]);
    predict(&["--sum", "exact"], &["model.onnx", "--sum"]);
    predict(&["--missing", "0"], &["model.onnx", "--missing"]);
    let narrow = file("LabelEncoder", "rows.npy");
    refuses(&["predict", &model, "--rows", &narrow], &["rows.npy", "rows x 6"]);
}
