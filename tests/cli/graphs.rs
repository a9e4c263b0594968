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

/// The graph before and after its passes, one pass alone, its text in full, pictures, and its outputs.
#[test]
fn a_graph_is_printed_drawn_and_run() {
    let model = file("Pipeline", "model.onnx");
    let before = prints(&["graph", &model, "--before"]);
    let after = prints(&["graph", &model]);
    assert!(before.contains("\"Scaler\" = subtract(") && !before.contains("// constants"), "{before}");
    assert!(after.lines().filter(|line| line.starts_with('%')).count() > 5, "{after}");
    let forest = file("StackingClassifier", "model.onnx");
    let changes = prints(&["graph", &forest]);
    assert!(changes.starts_with("// ") && changes.contains(" nodes become "), "{changes}");
    let whole = prints(&["graph", &forest, "--whole", "--passes", "none"]);
    let parsed = fangorn::graph::Graph::parse(&whole).expect("its own text");
    assert_eq!(parsed.to_string(), whole);
    assert!(prints(&["graph", &model, "--dot"]).starts_with("digraph"));
    let scratch = Scratch::new("graph");
    let picture = scratch.path("graph.svg");
    prints(&["graph", &forest, "--svg", &picture]);
    let svg = std::fs::read_to_string(&picture).expect("a picture");
    assert!(svg.contains("<svg") && svg.contains("forest of"), "{}", &svg[..200]);
    let inputs = scratch.file("inputs.txt", "f32[1, 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n");
    let outputs = prints(&["graph", &model, "--run", &inputs]);
    assert!(outputs.starts_with("i64[1] = [") && outputs.contains("\nf32[1, 3] = ["), "{outputs}");
    refuses(&["graph", &model, "--passes", "nothing"], &["there is no pass `nothing`", "redundant"]);
    let wrong = scratch.file("wrong.txt", "f32[1, 6] = [1.0]\n");
    refuses(&["graph", &model, "--run", &wrong], &["wrong.txt", "line 1", "1 elements"]);
}

/// The ways of forests and products, the types, and what passes did, as text and as JSON.
#[test]
fn explain_says_how_a_graph_was_chosen() {
    let pipeline = file("Pipeline", "model.onnx");
    let text = prints(&["explain", &pipeline]);
    for part in
        ["Forests, by", "there is none", "Products with a weight", "µs a row  dense, chosen", "Passes:"]
    {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
    let stacking = file("StackingClassifier", "model.onnx");
    let text = prints(&["explain", &stacking, "--batch", "64"]);
    for part in ["a batch of 64", "blends, chosen", "least estimate for 256 rows"] {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
    let json = prints(&["explain", &stacking, "--batch", "64", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let forest = &report["forests"][0];
    assert_eq!((forest["chosen"].as_str(), report["batch"].as_u64()), (Some("walk"), Some(64)), "{report}");
    assert!(forest["walk"]["us_per_row"].as_f64().is_some_and(|time| time > 0.0), "{report}");
    let passes = report["passes"].as_array().expect("passes");
    assert!(passes.iter().any(|pass| pass["nodes"][0].as_u64() > pass["nodes"][1].as_u64()), "{report}");
    refuses(&["explain", &file("Pipeline", "rows.npy")], &["rows.npy"]);
}
