//! Fields that are missing, not supported, or over a limit.

use fangorn::import::{
    ErrorKind::{Limit, Options, Schema, Structure, Unsupported, Value as BadValue},
    Limits, LoadOptions, parse,
};
use serde_json::{Value, json};

use crate::{MODEL, both, minimal, refusal, refused, refused_with, tree_refused, with};

#[test]
fn missing_fields_and_wrong_types() {
    refused(&[("/learner", Value::Null)], Schema, "model", "missing field `learner`");
    refused(&[("/learner/objective", Value::Null)], Schema, "learner", "missing field `objective`");
    refused(
        &[(&format!("{MODEL}/trees"), Value::Null)],
        Schema,
        "learner.gradient_booster.model.trees",
        "missing field",
    );
    refused(
        &[(&format!("{MODEL}/tree_info"), Value::Null)],
        Schema,
        "learner.gradient_booster.model.tree_info",
        "missing",
    );
    refused(&[(MODEL, Value::Null)], Schema, "learner.gradient_booster.model", "missing field");
    refused(&[("/version", Value::Null)], Schema, "version", "expected the version");
    tree_refused(&[("parents", Value::Null)], Schema, "", "missing field `parents`");
    tree_refused(
        &[("left_children/3", json!({}))],
        Schema,
        ".left_children[3]",
        "invalid type: an object, expected i32",
    );
    tree_refused(
        &[("left_children/3", json!(1u64 << 40))],
        Schema,
        ".left_children[3]",
        "integer `1099511627776`",
    );
    tree_refused(
        &[("split_conditions/3", json!("half"))],
        Schema,
        ".split_conditions[3]",
        "string \"half\", expected f32",
    );
    tree_refused(
        &[("parents", json!("none"))],
        Schema,
        ".parents",
        "invalid type: string \"none\", expected an array",
    );
    tree_refused(&[("default_left/1", json!(300))], Schema, ".default_left[1]", "integer `300`, expected u8");
    let location = "learner.learner_model_param";
    refused(
        &[("/learner/learner_model_param/num_feature", json!("three"))],
        Schema,
        &format!("{location}.num_feature"),
        "string \"three\", expected u64",
    );
    refused(
        &[("/learner/learner_model_param/base_score", json!("[1E0,x]"))],
        Schema,
        &format!("{location}.base_score"),
        "expected a number or a list of numbers",
    );
    refused(
        &[("/learner/objective/name", json!(3))],
        Schema,
        "learner.objective.name",
        "invalid type: integer `3`",
    );
}

#[test]
fn what_is_not_supported_is_named() {
    refused(
        &[("/learner/objective/name", json!("reg:lava"))],
        Unsupported,
        "learner.objective.name",
        "objective `reg:lava`",
    );
    // What a file says never breaks the line.
    refused(
        &[("/learner/objective/name", json!("a\nb\u{2028}"))],
        Unsupported,
        "learner.objective.name",
        "`a\\nb\\u{2028}`",
    );
    let linear = json!({"name": "gblinear", "model": {"boosted_rounds": 3, "param": {"num_feature": "3"}, "weights": [0.5, 1.0, 2.0]}});
    let booster = "/learner/gradient_booster";
    refused(
        &[(booster, linear)],
        Unsupported,
        "learner.gradient_booster.name",
        "booster `gblinear` is not supported",
    );
    refused(&[("/version", json!([4, 0, 0]))], Unsupported, "version", "written by XGBoost 4.0");
    refused(&[("/version", json!([0, 90, 0]))], Unsupported, "version", "written by XGBoost 0.90");
    let both = [
        ("/learner/learner_model_param/num_class", json!("3")),
        ("/learner/learner_model_param/num_target", json!("2")),
    ];
    refused(&both, Unsupported, "learner.learner_model_param.num_target", "3 classes and 2 targets at once");
    let quantiles = [
        ("/version", json!([3, 4, 0])),
        ("/learner/learner_model_param/num_target", json!("2")),
        ("/learner/objective/name", json!("reg:quantileerror")),
    ];
    refused(&quantiles, Unsupported, "learner.objective.name", "several quantiles");
}

#[test]
fn dart_needs_a_weight_a_tree() {
    let inner = minimal().pointer("/learner/gradient_booster").cloned().unwrap_or_default();
    let dart = |weights: Value| json!({"name": "dart", "gbtree": inner, "weight_drop": weights});
    let booster = "/learner/gradient_booster";
    let weights = "learner.gradient_booster.weight_drop";
    refused(&[(booster, dart(json!([0.5])))], Structure, weights, "1 weights for 2 trees");
    refused(&[(booster, dart(Value::Null))], Schema, weights, "missing field");
    refused(&[(booster, dart(json!([0.5, "heavy"])))], Schema, &format!("{weights}[1]"), "string \"heavy\"");
    let location = "learner.gradient_booster.gbtree.model.trees[1].split_conditions[1]";
    refused(
        &[(booster, dart(json!([0.5, "Infinity"])))],
        BadValue,
        location,
        "a leaf of inf after the tree's weight inf",
    );
    refused(
        &[(booster, json!({"name": "dart"}))],
        Schema,
        "learner.gradient_booster.gbtree.model",
        "missing field",
    );
}

#[test]
fn limits_hold_and_name_themselves() {
    let check = |limits: Limits, changes: &[(&str, Value)], location: &str, cause: &str, field: &str| {
        let options = LoadOptions { limits, ..Default::default() };
        refused_with(&with(changes), &options, Limit, location, cause);
        let remedy = refusal(with(changes).to_string().as_bytes(), &options).remedy().to_owned();
        assert_eq!(remedy, format!("raise `Limits::{field}` if you trust the file"));
    };
    let limits = Limits::default;
    let model = "learner.gradient_booster.model";
    check(
        Limits { trees: 1, ..limits() },
        &[],
        &format!("{model}.trees"),
        "2 trees, over the limit of 1",
        "trees",
    );
    let nodes = format!("{model}.trees[1].tree_param.num_nodes");
    check(
        Limits { memory_bytes: 99, ..limits() },
        &[],
        &nodes.replace("[1]", "[0]"),
        "over the limit of 99",
        "memory_bytes",
    );
    check(Limits { nodes: 9, ..limits() }, &[], &nodes, "10 nodes, over the limit of 9", "nodes");
    check(
        Limits { depth: 1, ..limits() },
        &[],
        &format!("{model}.trees[0]"),
        "deeper than the limit of 1",
        "depth",
    );
    let features = "learner.learner_model_param.num_feature";
    check(Limits { features: 2, ..limits() }, &[], features, "3 features, over the limit of 2", "features");
    let claim = [("/learner/learner_model_param/num_feature", json!("18446744073709551615"))];
    refused(&claim, Schema, features, "expected u64");
    let claim = [("/learner/learner_model_param/num_feature", json!("9223372036854775807"))];
    check(limits(), &claim, features, "9223372036854775807 features", "features");
    let claim = [("/learner/learner_model_param/num_class", json!("2000000000"))];
    check(limits(), &claim, "learner.learner_model_param.num_class", "2000000000 outputs", "outputs");
    let words = [("/learner/gradient_booster/model/trees/1/categories/1", json!(16_000_000))];
    let location = format!("{model}.trees[1].categories");
    check(
        Limits { category_words: 1000, ..limits() },
        &words,
        &location,
        "500001 category words, over the limit of 1000",
        "category_words",
    );
    let small = LoadOptions { limits: Limits { file_bytes: 99, ..limits() }, ..Default::default() };
    for (_, bytes) in both(&minimal()) {
        assert!(refusal(&bytes, &small).cause().ends_with("bytes, over the limit of 99"));
    }
    let short = LoadOptions { limits: Limits { string_bytes: 9, ..limits() }, ..Default::default() };
    for (_, bytes) in both(&minimal()) {
        assert!(refusal(&bytes, &short).cause().contains("over the limit of 9"));
    }
}

#[test]
fn iteration_ranges_must_fit() {
    let range = |start, end| LoadOptions { iteration_range: Some(start..end), ..Default::default() };
    for (start, end) in [(0, 3), (2, 1), (3, 0), (u32::MAX, u32::MAX)] {
        let cause = format!("rounds {start}..{end} of a model with 2");
        refused_with(&minimal(), &range(start, end), Options, "iteration_range", &cause);
    }
    for (start, end, trees) in [(0, 0, 2), (1, 0, 1), (0, 1, 1), (1, 2, 1), (2, 0, 0), (1, 1, 0)] {
        for (_, bytes) in both(&minimal()) {
            let forest = parse(&bytes, &range(start, end)).unwrap_or_else(|e| panic!("{start}..{end}: {e}"));
            assert_eq!(forest.trees.len(), trees, "{start}..{end}");
        }
    }
}
