//! `fangorn tune`, and the plans that it writes.

use serde_json::Value;

use crate::{Scratch, model, prints, refuses, text, zoo};

#[test]
fn a_plan_is_written_and_taken_wherever_a_schedule_is() {
    let scratch = Scratch::new("tune");
    let (model, other, rows) = (model("churn"), model("softprob"), zoo("churn", "rows.npy"));
    let plan = scratch.path("plan.toml");
    let tune =
        ["tune", &model, "--rows", &rows, "--batch", "64,1", "--budget", "200ms", "-o", &plan, "--json"];
    let report: Value = serde_json::from_str(&prints(&tune)).expect("JSON");
    assert_eq!((report["model"].as_str(), report["plan"].as_str()), (Some(&*model), Some(&*plan)));
    let results = report["results"].as_array().expect("results");
    assert_eq!(results.iter().map(|r| r["batch"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(64)]);
    for result in results {
        for which in ["auto", "tuned"] {
            assert!(result[which]["us_per_row"].as_f64().expect("a time") > 0.0, "{result}");
            assert!(result[which]["schedule"].as_str().expect("a schedule").contains("layout("), "{result}");
        }
        assert!(result["tried"].as_u64() > Some(0) && result["best"].is_null(), "{result}");
        assert_eq!(result["missed"].as_u64(), result["misses"].as_array().map(|m| m.len() as u64));
    }
    // The plan changes no result.
    let predict = |schedule: &str| {
        prints(&["predict", &model, "--rows", &rows, "--sum", "exact", "--schedule", schedule])
    };
    assert_eq!(predict(&plan), predict("default"));
    // `bench` says which bucket's schedule it times.
    let bench = [
        "bench",
        &model,
        "--rows",
        &rows,
        "--schedule",
        &plan,
        "--seconds",
        "0.02",
        "--batch",
        "1,64",
        "--json",
    ];
    let bench: Value = serde_json::from_str(&prints(&bench)).expect("JSON");
    for (timed, tuned) in bench["results"].as_array().expect("results").iter().zip(results) {
        assert_eq!(timed["schedule"], tuned["tuned"]["schedule"]);
    }
    assert!(
        prints(&["lower", &model, "--schedule", &plan, "--emit", "plan", "--batch", "64"])
            .contains("batch of 64")
    );
    refuses(&["predict", &other, "--rows", &rows, "--schedule", &plan], &["plan.toml", "fangorn tune"]);
    refuses(
        &["lower", &model, "--schedule", &plan, "--backend", "wgpu", "--portable", "--emit", "plan"],
        &["plan.toml", "plans are for the CPU"],
    );
    let wrong = text(&std::fs::read(&plan).expect("a plan")).replacen("rows = 64", "rows = none", 1);
    let wrong = scratch.file("wrong.toml", wrong);
    refuses(
        &["predict", &model, "--rows", &rows, "--schedule", &wrong],
        &["wrong.toml", "line ", "fangorn tune"],
    );
}

#[test]
fn rows_are_drawn_where_none_are_given() {
    let tuned = prints(&["tune", &model("churn"), "--batch", "32", "--budget", "100ms", "--threads", "2"]);
    for part in ["auto", "tuned", "tried", "missed", "batch 32", "2 thread(s)"] {
        assert!(tuned.contains(part), "`{part}` is not in {tuned}");
    }
}

#[test]
fn what_can_not_be_tuned_is_refused() {
    let model = model("churn");
    refuses(
        &["tune", &model, "--backend", "wgpu"],
        &["--backend wgpu", "tuned for the CPU", "fangorn bench"],
    );
    refuses(&["tune", &model, "--budget", "ten"], &["--budget", "10s"]);
    refuses(&["tune", &model, "-o", "plan.txt"], &["plan.txt", ".toml"]);
    refuses(&["tune", &model, "-o", "/no/such/folder/plan.toml"], &["plan.toml", "folder"]);
    refuses(&["tune", &model, "--batch", "0"], &["--batch"]);
}
