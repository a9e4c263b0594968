//! Models that are damaged, hostile or not supported: each is refused with one line that names the place, the cause
//! and the remedy; and whatever is not refused is a sound forest.

#[path = "support/mutate.rs"]
mod mutate;

use std::fmt::Write as _;

use fangorn::import::{ErrorKind, Format, ImportError, Limits, LoadOptions, Place, load, parse};
use mutate::{KINDS, NUMBERS, Random, Tally, mutate_bytes, replace_number, zoo};
use serde_json::{Value, json};

/// The smallest model that has every part: two trees of five nodes, the second with a split on categories.
fn minimal() -> Value {
    let tree = |id: u32| {
        json!({
            "id": id,
            "tree_param": {"num_deleted": "0", "num_feature": "3", "num_nodes": "5", "size_leaf_vector": "1"},
            "left_children": [1, -1, 3, -1, -1],
            "right_children": [2, -1, 4, -1, -1],
            "parents": [i32::MAX, 0, 0, 2, 2],
            "split_indices": [0, 0, 2, 0, 0],
            "split_conditions": [0.5, 0.25, -1.5, 0.125, -0.75],
            "default_left": [1, 0, 0, 0, 0],
            "split_type": [0, 0, id, 0, 0],
            "categories": if id == 1 { json!([1, 3]) } else { json!([]) },
            "categories_nodes": if id == 1 { json!([2]) } else { json!([]) },
            "categories_segments": if id == 1 { json!([0]) } else { json!([]) },
            "categories_sizes": if id == 1 { json!([2]) } else { json!([]) },
            "base_weights": [0.0, 0.0, 0.0, 0.0, 0.0],
        })
    };
    json!({
        "learner": {
            "attributes": {},
            "feature_names": ["a", "b", "c"],
            "feature_types": ["float", "float", "c"],
            "gradient_booster": {
                "model": {
                    "cats": {"enc": [], "feature_segments": [], "sorted_idx": []},
                    "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": "2"},
                    "iteration_indptr": [0, 1, 2],
                    "tree_info": [0, 0],
                    "trees": [tree(0), tree(1)],
                },
                "name": "gbtree",
            },
            "learner_model_param":
                {"base_score": "[5E-1]", "boost_from_average": "1", "num_class": "0", "num_feature": "3", "num_target": "1"},
            "objective": {"name": "binary:logistic", "reg_loss_param": {"scale_pos_weight": "1"}},
        },
        "version": [3, 2, 0],
    })
}

const MODEL: &str = "/learner/gradient_booster/model";

/// The minimal model with the value at a JSON pointer replaced; null removes it.
fn with(changes: &[(&str, Value)]) -> Value {
    let mut document = minimal();
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        match document.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}")) {
            Value::Object(map) if value.is_null() => drop(map.remove(key)),
            Value::Object(map) => drop(map.insert(key.into(), value.clone())),
            Value::Array(items) => items[key.parse::<usize>().expect("an index")] = value.clone(),
            other => panic!("{parent} is {other}"),
        }
    }
    document
}

/// The document in UBJSON, as XGBoost writes it: arrays of numbers state their type.
fn ubjson(value: &Value, out: &mut Vec<u8>) {
    let text = |text: &str, out: &mut Vec<u8>| {
        out.push(b'L');
        out.extend((text.len() as i64).to_be_bytes());
        out.extend(text.as_bytes());
    };
    match value {
        Value::Null => out.push(b'Z'),
        Value::Bool(value) => out.push(if *value { b'T' } else { b'F' }),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => out.extend([&[b'L'][..], &integer.to_be_bytes()].concat()),
            None => out
                .extend([&[b'd'][..], &(number.as_f64().unwrap_or(f64::NAN) as f32).to_be_bytes()].concat()),
        },
        Value::String(string) => {
            out.push(b'S');
            text(string, out);
        }
        Value::Array(items) => {
            let integers: Option<Vec<i64>> = items.iter().map(Value::as_i64).collect();
            let numbers: Option<Vec<f64>> = items.iter().map(Value::as_f64).collect();
            out.push(b'[');
            let typed = match (&integers, &numbers) {
                (Some(_), _) => Some(b'L'),
                (_, Some(_)) => Some(b'd'),
                _ => None,
            };
            out.extend(typed.map(|marker| [b'$', marker]).into_iter().flatten());
            out.extend(b"#L");
            out.extend((items.len() as i64).to_be_bytes());
            match (integers, numbers) {
                (Some(integers), _) => integers.iter().for_each(|i| out.extend(i.to_be_bytes())),
                (_, Some(numbers)) => numbers.iter().for_each(|n| out.extend((*n as f32).to_be_bytes())),
                _ => items.iter().for_each(|item| ubjson(item, out)),
            }
        }
        Value::Object(map) => {
            out.push(b'{');
            for (name, value) in map {
                text(name, out);
                ubjson(value, out);
            }
            out.push(b'}');
        }
    }
}

fn both(document: &Value) -> [(&'static str, Vec<u8>); 2] {
    let mut binary = Vec::new();
    ubjson(document, &mut binary);
    [("JSON", document.to_string().into_bytes()), ("UBJSON", binary)]
}

fn refusal(bytes: &[u8], options: &LoadOptions) -> ImportError {
    let error = parse(bytes, options).expect_err("a model that must be refused");
    let line = error.to_string();
    assert!(!line.contains(['\n', '\r']), "more than one line: {line}");
    assert!(!error.remedy().is_empty(), "no remedy: {line}");
    assert_eq!(line, format!("{}: {}; {}", error.place(), error.cause(), error.remedy()));
    error
}

/// Checks that the model is refused in both encodings, at a field, for a cause.
#[track_caller]
fn refused_with(document: &Value, options: &LoadOptions, kind: ErrorKind, place: &str, cause: &str) {
    for (encoding, bytes) in both(document) {
        let error = refusal(&bytes, options);
        assert_eq!(error.kind(), kind, "{encoding}: {error}");
        assert_eq!(error.place().to_string(), place, "{encoding}: {error}");
        assert!(error.cause().contains(cause), "{encoding}: `{cause}` is not in: {error}");
    }
}

#[track_caller]
fn refused(changes: &[(&str, Value)], kind: ErrorKind, place: &str, cause: &str) {
    refused_with(&with(changes), &LoadOptions::default(), kind, place, cause);
}

/// A change to the first tree, and the place in it that the refusal names.
#[track_caller]
fn tree_refused(changes: &[(&str, Value)], kind: ErrorKind, place: &str, cause: &str) {
    let pointers: Vec<String> = changes.iter().map(|(field, _)| format!("{MODEL}/trees/1/{field}")).collect();
    let changes: Vec<(&str, Value)> =
        pointers.iter().map(String::as_str).zip(changes.iter().map(|c| c.1.clone())).collect();
    refused(&changes, kind, &format!("learner.gradient_booster.model.trees[1]{place}"), cause);
}

use ErrorKind::{Limit, Options, Schema, Structure, Unsupported, Value as BadValue};

#[test]
fn the_minimal_model_loads() {
    for (encoding, bytes) in both(&minimal()) {
        let forest = parse(&bytes, &LoadOptions::default()).unwrap_or_else(|e| panic!("{encoding}: {e}"));
        assert_eq!(
            forest.to_text(),
            "forest features=3 outputs=1 trees=2 compare=f32 transform=sigmoid\n\
             \x20 from xgboost 3.2.0 binary:logistic\n\
             \x20 base_score [0.0]\n\
             \x20 classes over 0.5 []\n\
             \x20 set 0 [1, 3]\n\
             tree 0 -> output 0\n\
             \x20 0: if x[0] < 0.5, missing left, then 1 else 2\n\
             \x20 1: leaf 1 #0 [0.25]\n\
             \x20 2: if x[2] < -1.5, missing right, then 3 else 4\n\
             \x20 3: leaf 3 #1 [0.125]\n\
             \x20 4: leaf 4 #2 [-0.75]\n\
             tree 1 -> output 0\n\
             \x20 0: if x[0] < 0.5, missing left, then 1 else 2\n\
             \x20 1: leaf 1 #3 [0.25]\n\
             \x20 2: if x[2] not in set 0, missing right, then 3 else 4\n\
             \x20 3: leaf 3 #4 [0.125]\n\
             \x20 4: leaf 4 #5 [-0.75]\n"
        );
    }
}

#[test]
fn children_and_parents_that_make_no_tree() {
    tree_refused(
        &[("left_children/0", json!(5))],
        Structure,
        ".left_children[0]",
        "child 5 is out of range (5 nodes)",
    );
    tree_refused(
        &[("right_children/2", json!(-7))],
        Structure,
        ".right_children[2]",
        "child -7 is out of range",
    );
    tree_refused(&[("left_children/2", json!(0))], Structure, ".left_children[2]", "there is a cycle");
    tree_refused(&[("left_children/2", json!(2))], Structure, ".left_children[2]", "its parent is 0");
    tree_refused(
        &[("right_children/2", json!(1))],
        Structure,
        ".right_children[2]",
        "two parents or a cycle",
    );
    tree_refused(
        &[("right_children/2", json!(3))],
        Structure,
        ".right_children[2]",
        "node 3 has two parents",
    );
    tree_refused(&[("parents/3", json!(0))], Structure, ".left_children[2]", "its parent is 0: two parents");
    tree_refused(&[("parents/0", json!(2))], Structure, ".parents[0]", "the tree has no root");
    tree_refused(&[("left_children/2", json!(-1))], Structure, ".parents[3]", "a second root or a cycle");
    // A cycle of two nodes that the root does not reach.
    let cycle = [
        ("left_children", json!([-1, 2, 1, -1, -1])),
        ("right_children", json!([-1, 3, 4, -1, -1])),
        ("parents", json!([i32::MAX, 2, 1, 1, 2])),
    ];
    tree_refused(&cycle, Structure, ".parents[1]", "the root does not reach node 1");
    let split = [("split_indices/2", json!(i32::MAX)), ("default_left/2", json!(1))];
    tree_refused(&split, Structure, ".split_indices[2]", "a deleted node that the root reaches");
    let empty: Vec<(&str, Value)> = [
        "left_children",
        "right_children",
        "parents",
        "split_indices",
        "split_conditions",
        "default_left",
        "split_type",
    ]
    .map(|field| (field, json!([])))
    .into_iter()
    .chain([("tree_param/num_nodes", json!("0"))])
    .collect();
    tree_refused(&empty, Structure, "", "a tree without nodes has no root");
}

#[test]
fn arrays_of_the_wrong_length() {
    let short = |n: usize| Value::Array(vec![json!(0); n]);
    for field in ["left_children", "right_children", "parents", "split_indices", "default_left", "split_type"]
    {
        tree_refused(&[(field, short(4))], Structure, &format!(".{field}"), "4 entries for 5 nodes");
    }
    tree_refused(&[("split_conditions", short(6))], Structure, ".split_conditions", "6 entries for 5 nodes");
    let claim = [("tree_param/num_nodes", json!("1000000000"))];
    tree_refused(&claim, Structure, ".left_children", "5 entries for 1000000000 nodes");
    let model = "learner.gradient_booster.model";
    refused(
        &[(&format!("{MODEL}/tree_info"), short(3))],
        Structure,
        &format!("{model}.tree_info"),
        "3 entries for 2 trees",
    );
    let trees = format!("{MODEL}/gbtree_model_param/num_trees");
    refused(
        &[(&trees, json!("7"))],
        Structure,
        &format!("{model}.gbtree_model_param.num_trees"),
        "7 trees claimed, 2 in",
    );
    let starts = format!("{MODEL}/iteration_indptr");
    for bad in [json!([0, 2, 1]), json!([1, 2]), json!([0, 1]), json!([]), json!([0, 1, u32::MAX])] {
        refused(
            &[(&starts, bad)],
            Structure,
            &format!("{model}.iteration_indptr"),
            "expected ascending numbers from 0",
        );
    }
    let rounds =
        [(&*starts, Value::Null), (&format!("{MODEL}/gbtree_model_param/num_parallel_tree"), json!("3"))];
    let place = format!("{model}.gbtree_model_param.num_parallel_tree");
    refused(&rounds, Structure, &place, "2 trees make no whole number of rounds of 3");
    refused(
        &[("/learner/feature_names", json!(["a"]))],
        Structure,
        "learner.feature_names",
        "1 names for 3 features",
    );
    let base = "learner.learner_model_param.base_score";
    refused(
        &[("/learner/learner_model_param/base_score", json!("[1E-1,2E-1]"))],
        Structure,
        base,
        "2 values for 1 outputs",
    );
}

#[test]
fn numbers_out_of_range() {
    tree_refused(&[("split_indices/2", json!(3))], BadValue, ".split_indices[2]", "feature 3 of 3");
    tree_refused(
        &[("split_conditions/0", json!("NaN"))],
        BadValue,
        ".split_conditions[0]",
        "the threshold is NaN",
    );
    tree_refused(&[("split_conditions/1", json!("NaN"))], BadValue, ".split_conditions[1]", "a leaf of NaN");
    tree_refused(
        &[("split_conditions/1", json!("-Infinity"))],
        BadValue,
        ".split_conditions[1]",
        "a leaf of -inf",
    );
    tree_refused(&[("split_conditions/4", json!(1e39))], BadValue, ".split_conditions[4]", "a leaf of inf");
    tree_refused(&[("split_type/2", json!(2))], BadValue, ".split_type[2]", "split type 2");
    tree_refused(&[("id", json!(0))], Structure, ".id", "tree 0 stands in the file twice");
    tree_refused(&[("id", json!(2))], Structure, ".id", "tree 2 of 2");
    let targets = "learner.gradient_booster.model.tree_info[1]";
    refused(&[(&format!("{MODEL}/tree_info/1"), json!(1))], BadValue, targets, "output 1 of 1");
    let base = |text: &str, cause: &str| {
        let place = "learner.learner_model_param.base_score";
        refused(&[("/learner/learner_model_param/base_score", json!(text))], BadValue, place, cause);
    };
    base("1.5E0", "1.5, where the objective takes a value that is between 0 and 1");
    base("NaN", "NaN, where");
    let poisson = [
        ("/learner/objective/name", json!("count:poisson")),
        ("/learner/learner_model_param/base_score", json!("[0E0]")),
    ];
    refused(&poisson, BadValue, "learner.learner_model_param.base_score", "a value that is above 0");
}

#[test]
fn category_sets() {
    tree_refused(
        &[("categories_nodes", json!([3]))],
        Structure,
        ".split_type[2]",
        "`categories_nodes` does not list it",
    );
    tree_refused(&[("categories_nodes", json!([5]))], Structure, ".categories_nodes[0]", "node 5 of 5");
    tree_refused(
        &[("categories_nodes", json!([2, 2]))],
        Structure,
        ".categories_segments",
        "1 entries for 2 category",
    );
    let twice = [
        ("categories_nodes", json!([2, 2])),
        ("categories_segments", json!([0, 0])),
        ("categories_sizes", json!([1, 1])),
    ];
    tree_refused(&twice, Structure, ".categories_nodes[1]", "ascending order");
    tree_refused(
        &[("categories_sizes", json!([3]))],
        Structure,
        ".categories_segments[0]",
        "categories 0 and the next 3 of 2",
    );
    let past = [("categories_segments", json!([i64::MAX])), ("categories_sizes", json!([i64::MAX]))];
    tree_refused(&past, Structure, ".categories_segments[0]", "of 2");
    tree_refused(&[("categories_sizes", json!([0]))], Structure, ".categories_sizes[0]", "at least one");
    tree_refused(
        &[("categories/1", json!(1 << 24))],
        BadValue,
        ".categories[1]",
        "16777216 is not below 2^24",
    );
    tree_refused(
        &[("categories/1", json!(-1))],
        Schema,
        ".categories[1]",
        "invalid value: integer `-1`, expected u32",
    );
    let names = format!("{MODEL}/cats/enc");
    let place = "learner.gradient_booster.model.cats.enc";
    refused(&[(&names, json!([{"values": []}]))], Structure, place, "1 entries for 3 features");
    let cut = json!([{"values": []}, {"values": []}, {"offsets": [0, 1, 9], "values": [97, 98]}]);
    refused(
        &[(&names, cut)],
        Structure,
        &format!("{place}[2].offsets[2]"),
        "a name from byte 1 to byte 9 of 2",
    );
    let back = json!([{"values": []}, {"values": []}, {"offsets": [2, 1], "values": [97, 98]}]);
    refused(
        &[(&names, back)],
        Structure,
        &format!("{place}[2].offsets[1]"),
        "a name from byte 2 to byte 1 of 2",
    );
}

#[test]
fn vector_leaves() {
    let width = |w: &str| ("tree_param/size_leaf_vector", json!(w));
    tree_refused(
        &[width("4")],
        Structure,
        ".tree_param.size_leaf_vector",
        "leaves of 4 values in a model of 1 outputs",
    );
    tree_refused(&[width("-1")], Schema, ".tree_param.size_leaf_vector", "integer `-1`, expected u64");
    let targets = ("/learner/learner_model_param/num_target", json!("2"));
    let second = format!("{MODEL}/trees/1/tree_param/size_leaf_vector");
    let place = "learner.gradient_booster.model.trees[1].tree_param.size_leaf_vector";
    refused(
        &[targets.clone(), (&second, json!("2"))],
        Structure,
        place,
        "leaves of 2 values after trees whose leaves have 1",
    );
    let first = format!("{MODEL}/trees/0/tree_param/size_leaf_vector");
    let place = "learner.gradient_booster.model.trees[0].right_children[3]";
    let changes = [targets.clone(), (&*first, json!("2"))];
    refused(&changes, Structure, place, "leaf vector 3 of width 2, but `base_weights` has 5 values");
    let leaves = format!("{MODEL}/trees/0/leaf_weights");
    let changes = [targets, (&first, json!("2")), (&leaves, json!([0.5, 0.5]))];
    let place = "learner.gradient_booster.model.trees[0].right_children[1]";
    refused(&changes, Structure, place, "leaf vector -1 of width 2, but `leaf_weights` has 2 values");
}

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
        "invalid type: map, expected i32",
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
        "invalid type: string \"none\", expected a sequence",
    );
    tree_refused(&[("default_left/1", json!(300))], Schema, ".default_left[1]", "integer `300`, expected u8");
    let place = "learner.learner_model_param";
    refused(
        &[("/learner/learner_model_param/num_feature", json!("three"))],
        Schema,
        &format!("{place}.num_feature"),
        "string \"three\", expected u64",
    );
    refused(
        &[("/learner/learner_model_param/base_score", json!("[1E0,x]"))],
        Schema,
        &format!("{place}.base_score"),
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
    let place = "learner.gradient_booster.gbtree.model.trees[1].split_conditions[1]";
    refused(
        &[(booster, dart(json!([0.5, "Infinity"])))],
        BadValue,
        place,
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
    let check = |limits: Limits, changes: &[(&str, Value)], place: &str, cause: &str, field: &str| {
        let options = LoadOptions { limits, ..Default::default() };
        refused_with(&with(changes), &options, Limit, place, cause);
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
    let place = format!("{model}.trees[1].categories");
    check(
        Limits { category_words: 1000, ..limits() },
        &words,
        &place,
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

/// Bytes that are refused before there is a document: the place, and what is in the cause.
#[track_caller]
fn bytes_refused(bytes: impl AsRef<[u8]>, kind: ErrorKind, place: &str, cause: &str) {
    let error = refusal(bytes.as_ref(), &LoadOptions::default());
    assert_eq!((error.kind(), &*error.place().to_string()), (kind, place), "{error}");
    assert!(error.cause().contains(cause), "`{cause}` is not in: {error}");
}

#[test]
fn files_of_another_format() {
    use ErrorKind::Format;
    bytes_refused("", Format, "model", "the file is empty");
    bytes_refused(" \n ", Format, "model", "the file is empty");
    bytes_refused(b"binf\x00\x00\x00\x3f", Format, "model", "old binary format");
    bytes_refused(b"\x00\x00\x00\x3f\x1c\x00\x00\x00", Format, "model", "no model of a known format");
    bytes_refused(b"\x1f\x8b\x08", Format, "model", "no model of a known format");
    let names = b"\x0f\0\0\0\0\0\0\0binary:logistic\x06\0\0\0\0\0\0\0gbtree";
    bytes_refused([&[0; 136][..], names].concat(), Format, "model", "old binary format");
    bytes_refused(b"CBM1\x00\x00", Format, "model", "CatBoost's binary format");
    bytes_refused(b"\x80\x04\x95", Format, "model", "a pickle");
    bytes_refused("[{\"nodeid\": 0}]", Format, "model", "a dump of the trees");
    bytes_refused("{}", Schema, "model", "missing field `learner`");
    bytes_refused(b"{L\0\0\0\0\0\0\0\x01aZ}", Schema, "model", "missing field `learner`");
}

#[test]
fn broken_json() {
    use ErrorKind::Syntax;
    bytes_refused("{", Syntax, "line 1, column 2", "the text ends where");
    bytes_refused("{\n  \"learner\": {", Syntax, "line 2, column 15", "the text ends where");
    bytes_refused("{\"learner\" 3}", Syntax, "line 1, column 12", "expected `:`");
    bytes_refused("{name: 3}", Syntax, "line 1, column 2", "expected a name in quotes");
    bytes_refused("{\"a\": tru}", Syntax, "line 1, column 7", "expected a value");
    bytes_refused("{\"a\": [1, 2}", Syntax, "line 1, column 12", "expected `,` or `]`");
    bytes_refused("{\"a\": [1,]}", Syntax, "line 1, column 10", "expected a value");
    bytes_refused("{\"a\": 1.e5}", Syntax, "line 1, column 9", "expected a digit");
    bytes_refused("{\"a\": -}", Syntax, "line 1, column 8", "expected a value");
    bytes_refused("{\"version\": [3, 2, 0], \"a\": \"b", Syntax, "line 1, column 31", "ends inside a string");
    bytes_refused("{\"a\\", Syntax, "line 1, column 5", "ends inside a string");
    bytes_refused("{\"\\ud83d\": 1}", Syntax, "line 1, column 2", "unknown escape");
    bytes_refused("{\"a\": \"b\nc\"}", Syntax, "line 1, column 9", "control character");
    bytes_refused(b"{\"\xff\": 1}", Syntax, "line 1, column 2", "not UTF-8");
    bytes_refused(
        format!("{}?", minimal()),
        Syntax,
        &format!("line 1, column {}", minimal().to_string().len() + 1),
        "after the end",
    );
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{{\"a\": {}1{}}}", open.repeat(100_000), close.repeat(100_000));
        bytes_refused(
            &deep,
            Syntax,
            &format!("line 1, column {}", 7 + 63 * open.len()),
            "nest more than 64 deep",
        );
    }
}

#[test]
fn broken_ubjson() {
    use ErrorKind::Syntax;
    let name = |name: &str| [b"L\0\0\0\0\0\0\0", &[name.len() as u8][..], name.as_bytes()].concat();
    let file = |value: &[u8]| [b"{", &name("a")[..], value].concat();
    bytes_refused(b"{L", Syntax, "byte 2", "the file ends too soon");
    bytes_refused(
        b"{L\0\0\0\0\0\0\0\x09abc",
        Syntax,
        "byte 1",
        "a count of 9 items, where the file has 3 bytes left",
    );
    bytes_refused(b"{L\xff\xff\xff\xff\xff\xff\xff\xffabc", Syntax, "byte 1", "a count of -1 items");
    bytes_refused(file(b""), Syntax, "byte 11", "the file ends too soon");
    bytes_refused(file(b"?"), Syntax, "byte 11", "marker `?` where a value is expected");
    bytes_refused(file(b"H"), Syntax, "byte 11", "marker `H`");
    bytes_refused(
        file(b"[$d#L\0\0\0\0\x40\0\0\0"),
        Syntax,
        "byte 15",
        "a count of 1073741824 items, where the file has 0 bytes",
    );
    bytes_refused(
        file(b"[$d#L\x7f\xff\xff\xff\xff\xff\xff\xff"),
        Syntax,
        "byte 15",
        "a count of 9223372036854775807 items",
    );
    bytes_refused(file(b"[#l\x7f\xff\xff\xff"), Syntax, "byte 13", "a count of 2147483647 items");
    bytes_refused(
        file(b"[$T#l\x7f\xff\xff\xff"),
        Syntax,
        "byte 13",
        "marker `T` where the type of numbers or strings",
    );
    bytes_refused(file(b"[$[#U\x05"), Syntax, "byte 13", "marker `[`");
    bytes_refused(file(b"[$d"), Syntax, "byte 14", "a type without a count");
    bytes_refused(file(b"[#d\0\0\0\0"), Syntax, "byte 13", "marker `d` where an integer is expected");
    bytes_refused(file(b"SU\x02\xff\xfe}"), Schema, "model", "missing field `learner`");
    bytes_refused(b"{L\0\0\0\0\0\0\0\x01\xffZ}", Syntax, "byte 1", "not UTF-8");
    for open in [&b"["[..], &[b"{", &name("a")[..]].concat()] {
        let place = format!("byte {}", 12 + 63 * open.len());
        bytes_refused(file(&open.repeat(100_000)), Syntax, &place, "nest more than 64 deep");
    }
    let mut whole = Vec::new();
    ubjson(&minimal(), &mut whole);
    bytes_refused([&whole[..], b"Z"].concat(), Syntax, &format!("byte {}", whole.len()), "after the end");
}

#[test]
fn every_truncation_is_refused() {
    for (encoding, bytes) in both(&minimal()) {
        for end in 0..bytes.len() {
            assert!(parse(&bytes[..end], &LoadOptions::default()).is_err(), "{encoding} cut at {end}");
        }
    }
}

#[test]
fn load_names_the_file() {
    let folder = std::env::temp_dir().join(format!("fangorn-malformed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("model.json");
    std::fs::write(&file, "{\"learner\": 1}").expect("a file");
    let line = load(&file, &LoadOptions::default()).expect_err("no model").to_string();
    assert!(line.starts_with(&format!("{}: learner: invalid type: integer `1`", file.display())), "{line}");
    let small = LoadOptions { limits: Limits { file_bytes: 3, ..Default::default() }, ..Default::default() };
    let line = load(&file, &small).expect_err("too large").to_string();
    assert!(line.contains("the file has 14 bytes, over the limit of 3"), "{line}");
    std::fs::write(&file, minimal().to_string()).expect("a file");
    assert!(load(&file, &LoadOptions::default()).is_ok());
    let line = load(&folder.join("none"), &LoadOptions::default()).expect_err("no file").to_string();
    assert!(line.starts_with(&folder.join("none").display().to_string()), "{line}");
    assert!(load(&folder, &LoadOptions::default()).is_err());
    std::fs::remove_dir_all(&folder).expect("cleaning up");
}

/// A tree of `splits` splits, each the right child of the one above.
fn chain(splits: usize) -> String {
    let list = |f: &dyn Fn(usize) -> i64| {
        let mut text = String::new();
        for n in 0..=2 * splits {
            let _ = write!(text, "{}{}", if n == 0 { "" } else { "," }, f(n));
        }
        text
    };
    let split = |n: usize| n.is_multiple_of(2) && n < 2 * splits;
    let arrays = [
        ("left_children", list(&|n| if split(n) { n as i64 + 1 } else { -1 })),
        ("right_children", list(&|n| if split(n) { n as i64 + 2 } else { -1 })),
        ("parents", list(&|n| if n == 0 { i64::from(i32::MAX) } else { (n as i64 - 1) / 2 * 2 })),
        ("split_indices", list(&|_| 0)),
        ("split_conditions", list(&|n| (n % 7) as i64)),
        ("default_left", list(&|n| i64::from(split(n)))),
    ];
    let mut tree = String::new();
    for (field, list) in arrays {
        let _ = write!(tree, "\"{field}\":[{list}],");
    }
    let _ = write!(tree, "\"tree_param\":{{\"num_nodes\":\"{}\"}}", 2 * splits + 1);
    let placeholder = json!("the tree");
    let document = with(&[
        (&format!("{MODEL}/trees"), json!([placeholder])),
        (&format!("{MODEL}/tree_info"), json!([0])),
        (&format!("{MODEL}/iteration_indptr"), json!([0, 1])),
        (&format!("{MODEL}/gbtree_model_param/num_trees"), json!("1")),
    ]);
    document.to_string().replace(&placeholder.to_string(), &format!("{{{tree}}}"))
}

#[test]
fn a_chain_a_hundred_thousand_deep_loads_on_a_small_stack() {
    let text = chain(100_000);
    let run = move || {
        let forest = parse(text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(forest.trees[0].depth(), 100_000);
        let limits = Limits { depth: 99_999, ..Default::default() };
        refusal(text.as_bytes(), &LoadOptions { limits, ..Default::default() })
    };
    let thread = std::thread::Builder::new().stack_size(128 << 10).spawn(run).expect("a thread");
    let error = thread.join().expect("no overflow");
    assert_eq!(error.place(), &Place::Field("learner.gradient_booster.model.trees[0]".into()));
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    match random.below(9) {
        kind if kind < KINDS => mutate_bytes(bytes, kind, random),
        // A huge or a negative count, if a count is there.
        6 => {
            let at = random.below(bytes.len());
            let length = 1 + random.below(16.min(bytes.len() - at));
            let edge = random.pick(&[0x00, 0x7f, 0x80, 0xff]);
            bytes[at..at + length].fill(edge);
        }
        _ => replace_number(bytes, &NUMBERS, random),
    }
    if bytes.is_empty() {
        bytes.push(b'{');
    }
}

#[test]
fn mutations_never_panic_and_what_loads_is_sound() {
    let limits = Limits { features: 1 << 12, outputs: 1 << 8, category_words: 1 << 20, ..Default::default() };
    let options = LoadOptions { limits, ..Default::default() };
    // The minimal model, and those of the zoo.
    let mut seeds: Vec<_> = both(&minimal()).map(|(name, bytes)| (name.to_owned(), bytes, 3000)).into();
    let ours = |bytes: &[u8]| matches!(Format::of(bytes), Ok(Format::XgboostJson | Format::XgboostUbjson));
    seeds.extend(zoo(&["model.json", "model.ubj"], 24 << 10, 150).into_iter().filter(|(_, b, _)| ours(b)));
    let mut tally = Tally::default();
    tally.mutate(&seeds, &options, &mut Random(20_260_131), mutate);
    assert!(tally.loaded > 500 && tally.refused > 2000, "{tally:?}");
}
