//! `fangorn verify`: a table of engines, and the producer's own predictions beside it.

use std::path::Path;

use crate::{Scratch, command, model, refuses, zoo};

/// The table's lines of a run, as JSON.
fn lines(arguments: &[&str]) -> Vec<serde_json::Value> {
    let output = command(&[&["verify", "--json"], arguments].concat()).output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn every_engine_and_preset_is_in_the_table() {
    let lines = lines(&[&model("churn"), "--backend", "cpu"]);
    let engines: Vec<&str> = lines.iter().filter_map(|line| line["engine"].as_str()).collect();
    for engine in ["fewRows(auto)", "fewRows(walk)", "ranks by columns", "plain walks"] {
        assert!(engines.contains(&engine), "{engine} is not among {engines:?}");
    }
    let schedules: Vec<&str> = lines.iter().filter_map(|line| line["schedule"].as_str()).collect();
    for preset in ["default", "xgboost", "treebeard_tiles", "hummingbird"] {
        assert!(schedules.contains(&preset), "{preset} is not among {schedules:?}");
    }
    for line in &lines {
        assert!(line["result"] == "right" || line["result"] == "refused", "{line}");
    }
}

#[test]
fn the_producers_predictions_are_held_beside_ours() {
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    let right =
        command(&["verify", &model, "--rows", &rows, "--expect", &zoo("churn", "output.npy")]).output();
    let right = right.expect("the program runs");
    let said = String::from_utf8_lossy(&right.stderr);
    assert!(right.status.success() && said.contains("largest difference"), "{said}");
    let scratch = Scratch::new("verify-expect");
    let count = std::fs::read_to_string(zoo("churn", "rows.csv")).expect("rows").lines().count();
    let rows = zoo("churn", "rows.csv");
    let wrong = scratch.file("wrong.csv", "7\n".repeat(count - 1));
    let output = command(&["verify", &model, "--rows", &rows, "--expect", &wrong]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The table would be on standard output if the checks had run.
#[test]
fn expected_values_are_read_before_the_checks() {
    let (model, rows) = (model("churn"), zoo("churn", "rows.csv"));
    let scratch = Scratch::new("verify-early");
    let verify = |expect: &str, phrases: &[&str]| {
        refuses(&["verify", &model, "--rows", &rows, "--expect", expect], phrases);
    };
    verify(&scratch.path("absent.npy"), &["absent.npy"]);
    verify(&scratch.file("short.csv", "0.5\n"), &["short.csv", "give one for each"]);
    verify(&scratch.file("wide.csv", "0.5,0.5\n".repeat(20)), &["wide.csv", "columns"]);
}

#[test]
fn a_graph_is_refused_with_the_commands_that_serve_it() {
    let graph = format!("{}/tests/zoo-classical/Pipeline/model.onnx", env!("CARGO_MANIFEST_DIR"));
    let phrases =
        ["model.onnx", "graph of several operators", "`fangorn predict`", "--expect", "`fangorn graph`"];
    refuses(&["verify", &graph], &phrases);
}

/// No engine is wrong here, so no command can be seen to say it. A source file that makes a predictor has to note the
/// warnings of its self-check, say them, or leave the check out.
#[test]
fn whoever_makes_a_predictor_says_its_warnings() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/fangorn")];
    let mut makers = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let source = std::fs::read_to_string(entry.path()).expect("a source file");
            let source = source.replace("GraphPredictor::", "");
            if source.contains("Predictor::new(") || source.contains("Predictor::builder(") {
                let says = ["compiled(", ".warnings()"].iter().any(|says| source.contains(says));
                assert!(says, "{}", entry.path().display());
                makers += 1;
            }
        }
    }
    assert!(makers > 5, "{makers} files make a predictor");
}

#[test]
fn what_can_not_be_checked_is_refused() {
    refuses(&["verify", &model("churn"), "--backend", "reference"], &["name another backend"]);
    refuses(&["verify", &model("churn"), "--expect", "x.npy"], &["--rows"]);
    let mut odd = command(&["predict", &model("churn"), "--rows", &zoo("churn", "rows.csv")]);
    let output = odd.env("FANGORN_SELF_CHECK", "perhaps").output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("FANGORN_SELF_CHECK is `perhaps`"), "{said}");
}
