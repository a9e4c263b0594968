//! `fangorn verify`: a table of engines, and the producer's own predictions beside it.

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

#[test]
fn what_can_not_be_checked_is_refused() {
    refuses(&["verify", &model("churn"), "--backend", "reference"], &["name another backend"]);
    refuses(&["verify", &model("churn"), "--expect", "x.npy"], &["--rows"]);
    let mut odd = command(&["predict", &model("churn"), "--rows", &zoo("churn", "rows.csv")]);
    let output = odd.env("FANGORN_SELF_CHECK", "perhaps").output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("FANGORN_SELF_CHECK is `perhaps`"), "{said}");
}
