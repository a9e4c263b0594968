//! Models that are damaged, hostile or not supported: each is refused with one line that names the location, the cause
//! and the remedy; and whatever is not refused is a sound forest.

mod bytes;
mod catboost;
mod fields;
mod graphs;
mod lightgbm;
mod onnx;
mod sklearn;
mod treelite;
mod trees;

#[path = "../support/checkpoint.rs"]
mod checkpoint;
#[path = "../support/onnx.rs"]
mod messages;
#[path = "../support/mutate.rs"]
mod mutate;
// The importer's own tests use the rest.
#[allow(dead_code)]
#[path = "../support/npz.rs"]
mod npz;

use fangorn::import::{ErrorKind, ImportError, LoadOptions, parse};
use serde_json::{Value, json};

/// The smallest model that has every field: two trees of five nodes, the second with a split on categories.
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

/// The minimal model with the values at JSON pointers replaced; null removes one.
fn with(changes: &[(&str, Value)]) -> Value {
    mutate::change(minimal(), changes)
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
    assert_eq!(line, format!("{}: {}; {}", error.location(), error.cause(), error.remedy()));
    error
}

/// Checks that the model is refused in both encodings, at a field, for a cause.
#[track_caller]
fn refused_with(document: &Value, options: &LoadOptions, kind: ErrorKind, location: &str, cause: &str) {
    for (encoding, bytes) in both(document) {
        let error = refusal(&bytes, options);
        assert_eq!(error.kind(), kind, "{encoding}: {error}");
        assert_eq!(error.location().to_string(), location, "{encoding}: {error}");
        assert!(error.cause().contains(cause), "{encoding}: `{cause}` is not in: {error}");
    }
}

#[track_caller]
fn refused(changes: &[(&str, Value)], kind: ErrorKind, location: &str, cause: &str) {
    refused_with(&with(changes), &LoadOptions::default(), kind, location, cause);
}

/// A change to the first tree, and the location in it that the refusal names.
#[track_caller]
fn tree_refused(changes: &[(&str, Value)], kind: ErrorKind, location: &str, cause: &str) {
    let pointers: Vec<String> = changes.iter().map(|(field, _)| format!("{MODEL}/trees/1/{field}")).collect();
    let changes: Vec<(&str, Value)> =
        pointers.iter().map(String::as_str).zip(changes.iter().map(|c| c.1.clone())).collect();
    refused(&changes, kind, &format!("learner.gradient_booster.model.trees[1]{location}"), cause);
}
