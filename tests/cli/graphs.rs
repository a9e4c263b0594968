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

/// Columns of texts stay texts; a table of them has a header.
#[test]
fn models_of_texts_predict_from_a_table() {
    for (model, output, expected) in [
        ("TextPipeline", "class", "output.npy"),
        ("TextPipeline", "value", "proba.npy"),
        ("TokenPipeline", "value", "proba.npy"),
        ("TfidfVectorizer", "value", "output.npy"),
        ("FeatureHasher", "value", "output.npy"),
    ] {
        let (graph, rows, expected) =
            (file(model, "model.onnx"), file(model, "rows.csv"), file(model, expected));
        let predict = ["predict", &graph, "--rows", &rows, "--output", output, "--expect", &expected];
        let done = command(&predict).output().expect("the program runs");
        assert_eq!(done.status.code(), Some(0), "{model}: {}", text(&done.stderr));
    }
    let scratch = Scratch::new("texts");
    let model = file("TextPipeline", "model.onnx");
    // The graph's input is called X, so a table may have it among others.
    let table = scratch.file("named.csv", "id,X,note\n7,\"the cat, and a dog\",a\n8,,b\n");
    let found = prints(&["predict", &model, "--rows", &table, "--output", "class"]);
    assert_eq!(found.lines().count(), 2, "{found}");
    let alone = scratch.file("alone.csv", "text\n\"the cat, and a dog\"\n\"\"\n");
    assert_eq!(prints(&["predict", &model, "--rows", &alone, "--output", "class"]), found);
    refuses(&["predict", &model, "--rows", &table, "--by-position"], &["named.csv", "3 columns", "takes 1"]);
    refuses(&["predict", &model, "--rows", &file("Pipeline", "rows.npy")], &["rows.npy", "texts", ".csv"]);
    let empty = scratch.file("empty.csv", "text\n");
    refuses(&["predict", &model, "--rows", &empty], &["empty.csv", "no row"]);
    let ragged = scratch.file("ragged.csv", "text\na,b\n");
    refuses(&["predict", &model, "--rows", &ragged], &["ragged.csv", "line 2", "2 fields"]);
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

/// LightGBM's linear trees: values, classes, margins and leaves, of rows whose columns a header names.
#[test]
fn linear_trees_predict() {
    for (model, output, expected) in [
        ("linear-regression-sqrt", "value", "output.npy"),
        ("linear-rf-regression", "margin", "margin.npy"),
        ("linear-binary", "value", "output.npy"),
        ("linear-multiclass", "value", "output.npy"),
        ("linear-multiclass", "leaf", "leaves.npy"),
        ("linear-rf", "margin", "margin.npy"),
    ] {
        let (graph, rows, expected) =
            (file(model, "model.txt"), file(model, "rows.npy"), file(model, expected));
        let predict = ["predict", &graph, "--rows", &rows, "--output", output, "--expect", &expected];
        let done = command(&predict).output().expect("the program runs");
        assert_eq!(done.status.code(), Some(0), "{model}: {}", text(&done.stderr));
    }
    let scratch = Scratch::new("linear-trees");
    let model = file("linear-binary", "model.txt");
    let of = |name: &str, rows: &str, more: &[&str]| {
        let rows = scratch.file(name, rows);
        prints(&[&["predict", &*model, "--rows", &*rows], more].concat())
    };
    let in_order = of("rows.csv", "a,b,c,d,kind\n1,2,3,4,5\n-1,,0,1,0\n", &[]);
    let by_name = of("named.csv", "kind,d,c,b,a\n5,4,3,2,1\n0,1,0,,-1\n", &[]);
    assert_eq!((in_order.lines().count(), &in_order), (2, &by_name));
    let classes = of("class.csv", "a,b,c,d,kind\n3,-100,0,0,1\n-3,100,0,0,0\n", &["--output", "class"]);
    assert_eq!(classes, "1\n0\n");
    let predict = |model: &str, more: &[&str], parts: &[&str]| {
        let (graph, rows) = (file(model, "model.txt"), file(model, "rows.npy"));
        refuses(&[&["predict", &*graph, "--rows", &*rows], more].concat(), parts);
    };
    predict("linear-dart", &["--output", "tree"], &["model.txt", "--output", "value, class, margin or leaf"]);
    predict("linear-dart", &["--output", "class"], &["model.txt", "no classes", "--output value"]);
    predict("linear-dart", &["--iterations", "all"], &["model.txt", "--iterations"]);
    refuses(&["inspect", &model], &["model.txt", "linear model", "fangorn predict"]);
    let forest = format!("{}/tests/zoo/lightgbm-binary/model.txt", env!("CARGO_MANIFEST_DIR"));
    refuses(&["graph", &forest], &["no leaf has a linear model", "load it as a forest"]);
    assert!(prints(&["graph", &model]).contains("linearLeaves(%in0, trees=%f0"));
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
