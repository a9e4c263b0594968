//! `predict`: what it prints and writes, on either backend and under each contract of sums.

use std::path::Path;

use serde_json::Value;

use crate::{Scratch, csv, fangorn, model, prints, read_npy, refuses, text, zoo};

const MODELS: [&str; 9] = [
    "churn",
    "softprob",
    "softmax",
    "hinge",
    "targets-logistic",
    "vector-leaf-softprob",
    "category-partition",
    "logistic-missing",
    "only-leaves",
];

#[test]
fn predictions_are_the_producers_on_either_backend() {
    for name in MODELS {
        for (output, file) in [("margin", "margin.npy"), ("value", "output.npy"), ("leaf", "leaves.npy")] {
            let output_file = zoo(name, "output.npy");
            let file =
                if output == "value" && !Path::new(&output_file).exists() { "margin.npy" } else { file };
            for backend in ["reference", "cpu"] {
                let found = fangorn(&[
                    "predict",
                    &model(name),
                    "--rows",
                    &zoo(name, "rows.npy"),
                    "--output",
                    output,
                    "--backend",
                    backend,
                    "--expect",
                    &zoo(name, file),
                ]);
                let said = text(&found.stderr);
                assert_eq!(found.status.code(), Some(0), "{name}, {output}, {backend}: {said}");
                assert!(said.contains("largest difference") && said.lines().count() == 1, "{said}");
            }
        }
    }
}

#[test]
fn npy_results_have_the_shapes_and_types_of_the_producers() {
    let scratch = Scratch::new("shapes");
    let out = scratch.path("out.npy");
    for name in MODELS {
        let (rows, _) = read_npy::<f32>(&zoo(name, "rows.npy"));
        let (margins, _) = read_npy::<f32>(&zoo(name, "margin.npy"));
        let (leaves, _) = read_npy::<i32>(&zoo(name, "leaves.npy"));
        let predict = |output: &str| {
            prints(&[
                "predict",
                &model(name),
                "--rows",
                &zoo(name, "rows.npy"),
                "--output",
                output,
                "-o",
                &out,
            ])
        };
        predict("margin");
        assert_eq!(read_npy::<f32>(&out).0, [rows[0], margins[1]], "{name}");
        predict("leaf");
        assert_eq!(read_npy::<i32>(&out).0, [rows[0], leaves[1]], "{name}");
        predict("tree");
        let width = if name.starts_with("vector-leaf") { margins[1] } else { 1 };
        assert_eq!(read_npy::<f32>(&out).0, [rows[0], leaves[1] * width], "{name}");
    }
}

#[test]
fn csv_and_npy_hold_the_same_values() {
    let scratch = Scratch::new("round-trip");
    let (npy, file) = (scratch.path("out.npy"), scratch.path("out.csv"));
    for (name, output) in [("churn", "value"), ("softprob", "margin"), ("churn", "tree"), ("gamma", "value")]
    {
        let (model, rows) = (model(name), zoo(name, "rows.npy"));
        let arguments = ["predict", &model, "--rows", &rows, "--output", output];
        let printed = prints(&arguments);
        assert_eq!(prints(&[&arguments[..], &["-o", &npy]].concat()), "");
        assert_eq!(prints(&[&arguments[..], &["-o", &file]].concat()), "");
        assert_eq!(std::fs::read_to_string(&file).expect("CSV"), printed);
        let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(csv::<f32>(&printed).concat()), bits(read_npy(&npy).1), "{name}, {output}");
    }
    let printed =
        prints(&["predict", &model("churn"), "--rows", &zoo("churn", "rows.npy"), "--output", "leaf"]);
    assert_eq!(csv::<i32>(&printed).concat(), read_npy::<i32>(&zoo("churn", "leaves.npy")).1);
}

#[test]
fn what_trees_add_sums_up_to_the_margin() {
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    let trees = csv::<f64>(&prints(&["predict", &model, "--rows", &rows, "--output", "tree"]));
    let report: Value = serde_json::from_str(&prints(&["inspect", &model, "--json"])).expect("JSON");
    let base = report["base_score"][0].as_f64().expect("a base score");
    for (row, margin) in trees.iter().zip(read_npy::<f32>(&zoo("churn", "margin.npy")).1) {
        assert!((base + row.iter().sum::<f64>() - f64::from(margin)).abs() < 1e-5);
    }
}

#[test]
fn classes_are_those_of_the_probabilities() {
    let classes = |name: &str, backend: &str| {
        let rows = zoo(name, "rows.npy");
        csv::<i32>(&prints(&[
            "predict",
            &model(name),
            "--rows",
            &rows,
            "--output",
            "class",
            "--backend",
            backend,
        ]))
    };
    for backend in ["cpu", "reference"] {
        for name in ["churn", "targets-logistic"] {
            let (shape, values) = read_npy::<f32>(&zoo(name, "output.npy"));
            let expected: Vec<i32> = values.into_iter().map(|v| i32::from(v > 0.5)).collect();
            let found = classes(name, backend);
            assert_eq!(found[0].len() as u64, shape[1], "{name}");
            assert_eq!(found.concat(), expected, "{name}");
        }
        for name in ["softmax", "hinge"] {
            let expected: Vec<i32> =
                read_npy::<f32>(&zoo(name, "output.npy")).1.into_iter().map(|v| v as i32).collect();
            assert_eq!(classes(name, backend).concat(), expected, "{name}");
        }
        let (shape, values) = read_npy::<f32>(&zoo("softprob", "output.npy"));
        let largest =
            |row: &[f32]| (1..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best }) as i32;
        let expected: Vec<i32> = values.chunks(shape[1] as usize).map(largest).collect();
        assert_eq!(classes("softprob", backend).concat(), expected);
    }
    for name in ["squared-error", "gamma", "rank-ndcg"] {
        let (model, rows) = (model(name), zoo(name, "rows.npy"));
        refuses(
            &["predict", &model, "--rows", &rows, "--output", "class"],
            &["no classifier", "--output value", "model."],
        );
    }
}

#[test]
fn sums_keep_the_contract_that_is_asked_for() {
    let (model, rows) = (model("softprob"), zoo("softprob", "rows.npy"));
    let predict = ["predict", &model, "--rows", &rows, "--output", "margin"];
    let with =
        |sum: &str, schedule: &str| prints(&[&predict[..], &["--sum", sum, "--schedule", schedule]].concat());
    let presets = ["default", "treebeard_one_row", "tahoe_shared_data", "hummingbird"];
    for sum in ["tree", "exact"] {
        for preset in presets {
            assert_eq!(with(sum, preset), with(sum, "xgboost"), "{sum} with {preset}");
        }
    }
    // Each contract rounds where the others do not.
    let [any, tree, exact] = ["any", "tree", "exact"].map(|sum| with(sum, "hummingbird"));
    assert!(any != tree && tree != exact && any != exact);
    assert_eq!(prints(&predict), with("any", "default"));
    for command in ["predict", "bench"] {
        let arguments = [command, &model, "--rows", &rows, "--sum"];
        let reference = [&arguments[..], &["exact", "--backend", "reference"]].concat();
        refuses(&reference, &["--sum exact", "reference", "--backend cpu"]);
        assert_eq!(fangorn(&[&arguments[..], &["most"]].concat()).status.code(), Some(2));
    }
    let bench = ["bench", &model, "--rows", &rows, "--batch", "64", "--seconds", "0.05", "--sum", "tree"];
    assert!(prints(&bench).contains("sum tree"));
    let report: Value = serde_json::from_str(&prints(&[&bench[..], &["--json"]].concat())).expect("JSON");
    assert_eq!(report["sum"], "tree");
}

#[test]
#[cfg(feature = "flex")]
fn sums_of_flex_are_those_of_the_cpu() {
    let (model, rows) = (model("softprob"), zoo("softprob", "rows.npy"));
    for (output, sum) in [("margin", "tree"), ("margin", "exact"), ("value", "tree"), ("value", "exact")] {
        let predict = ["predict", &model, "--rows", &rows, "--output", output, "--sum", sum];
        let with = |backend, schedule| {
            prints(&[&predict[..], &["--backend", backend, "--schedule", schedule]].concat())
        };
        assert_eq!(with("flex", "hummingbird"), with("cpu", "default"), "{output}, {sum}");
    }
}

#[test]
#[cfg(feature = "flex")]
fn flex_predicts_the_same() {
    for name in MODELS {
        for output in ["margin", "leaf", "tree"] {
            let (model, rows) = (model(name), zoo(name, "rows.npy"));
            let predict = ["predict", &model, "--rows", &rows, "--output", output, "--backend"];
            let [flex, cpu] = ["flex", "cpu"].map(|backend| prints(&[&predict[..], &[backend]].concat()));
            assert_eq!(flex, cpu, "{name}, {output}");
        }
    }
}
