//! CatBoost models that are damaged, hostile or not supported: each is refused with one line that names the location,
//! the cause and the remedy; and whatever is not refused is a sound forest.

use crate::mutate;

use fangorn::forest::reference;
use fangorn::import::ErrorKind::{Limit, Options, Schema, Structure, Syntax, Unsupported, Value as BadValue};
use fangorn::import::{ErrorKind, ImportError, Limits, LoadOptions, Location, parse};
use mutate::{KINDS, NUMBERS, Random, Tally, change, mutate_bytes, replace_number, zoo};
use serde_json::{Value, json};

fn over(feature: u32, border: f64, index: u32) -> Value {
    json!({"border": border, "float_feature_index": feature, "split_index": index, "split_type": "FloatFeature"})
}

/// The smallest model that has every field: trees of two levels, of one and of none.
fn minimal() -> Value {
    json!({
        "features_info": {
            "categorical_features": [
                {"feature_id": "k", "feature_index": 0, "flat_feature_index": 2, "values": [593172586]},
            ],
            "float_features": [
                {"borders": [0.5, 1.5], "feature_id": "a", "feature_index": 0, "flat_feature_index": 0,
                    "has_nans": true, "nan_value_treatment": "AsTrue"},
                {"borders": [-2.25], "feature_id": "b", "feature_index": 1, "flat_feature_index": 1,
                    "has_nans": false, "nan_value_treatment": "AsIs"},
            ],
        },
        "model_info": {
            "catboost_version_info": "Git info:\n    Branch: tags/v1.2.10\n",
            "class_params": {"class_label_type": "String", "class_names": ["no", "yes"], "classes_count": 0},
            "params": {"loss_function": {"params": {}, "type": "Logloss"}},
        },
        "oblivious_trees": [
            {"leaf_values": [0.5, -1, 2, 0.25], "leaf_weights": [1, 2, 3, 4],
                "splits": [over(0, 1.5, 1), over(1, -2.25, 2)]},
            {"leaf_values": [0.125, 3], "leaf_weights": [5, 6], "splits": [over(0, 0.5, 0)]},
            {"leaf_values": [4], "leaf_weights": [7], "splits": null},
        ],
        "scale_and_bias": [1, [0.75]],
    })
}

/// The same with trees of any shape.
fn nested() -> Value {
    let mut document = minimal();
    let trees = json!([
        {"left": {"value": 0.5, "weight": 1},
            "right": {"left": {"value": -1, "weight": 2}, "right": {"value": 2, "weight": 3}, "split": over(1, -2.25, 2)},
            "split": over(0, 1.5, 1)},
        {"value": 4, "weight": 6},
    ]);
    if let Some(map) = document.as_object_mut() {
        map.remove("oblivious_trees");
        map.insert("trees".into(), trees);
    }
    document
}

fn refusal(text: &str, options: &LoadOptions) -> ImportError {
    let error = parse(text.as_bytes(), options).expect_err("a model that must be refused");
    let line = error.to_string();
    assert!(!line.contains(['\n', '\r']), "more than one line: {line}");
    assert_eq!(line, format!("{}: {}; {}", error.location(), error.cause(), error.remedy()));
    assert!(!error.remedy().is_empty() && !line.contains("Booster"), "another library's remedy: {line}");
    error
}

#[track_caller]
fn text_refused(text: &str, options: &LoadOptions, kind: ErrorKind, location: &str, cause: &str) {
    let error = refusal(text, options);
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(error.location().to_string(), location, "{error}");
    assert!(error.cause().contains(cause), "`{cause}` is not in: {error}");
}

#[track_caller]
fn refused(changes: &[(&str, Value)], kind: ErrorKind, location: &str, cause: &str) {
    let document = change(minimal(), changes).to_string();
    text_refused(&document, &LoadOptions::default(), kind, location, cause);
}

/// A change to the trees of any shape; the location is that of `needle` in the text, which has one line.
#[track_caller]
fn nested_refused(changes: &[(&str, Value)], kind: ErrorKind, needle: &str, cause: &str) {
    let text = change(nested(), changes).to_string();
    let column = text.find(needle).unwrap_or_else(|| panic!("no {needle} in {text}")) + 1;
    text_refused(&text, &LoadOptions::default(), kind, &format!("line 1, column {column}"), cause);
}

#[test]
fn the_minimal_models_load() {
    let forest =
        parse(minimal().to_string().as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        forest.to_text(),
        "forest features=3 outputs=1 trees=3 compare=f32 transform=sigmoid_pair\n\
         \x20 from catboost 1.2.10 Logloss\n\
         \x20 base_score [0.75]\n\
         \x20 classes over 0.5 [\"no\", \"yes\"] as texts\n\
         tree 0 -> output 0\n\
         \x20 0: if x[0] < 1.5000001192092896, missing right, then 1 else 2\n\
         \x20 1: if x[1] < -2.249999761581421, missing left, then 3 else 4\n\
         \x20 2: if x[1] < -2.249999761581421, missing left, then 5 else 6\n\
         \x20 3: leaf 0 #0 [0.5]\n\
         \x20 4: leaf 2 #1 [2.0]\n\
         \x20 5: leaf 1 #2 [-1.0]\n\
         \x20 6: leaf 3 #3 [0.25]\n\
         tree 1 -> output 0\n\
         \x20 0: if x[0] < 0.5000000596046448, missing right, then 1 else 2\n\
         \x20 1: leaf 0 #4 [0.125]\n\
         \x20 2: leaf 1 #5 [3.0]\n\
         tree 2 -> output 0\n\
         \x20 0: leaf 0 #6 [4.0]\n"
    );
    let forest =
        parse(nested().to_string().as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(reference::leaf_ids(&forest, &[2.0f32, 0.0, 0.0]), [2, 0]);
}

#[test]
fn fields_that_are_missing_or_of_the_wrong_type() {
    refused(&[("/oblivious_trees", Value::Null)], Schema, "oblivious_trees", "missing field");
    let tree = "oblivious_trees[1]";
    refused(&[("/oblivious_trees/1/leaf_values", Value::Null)], Schema, tree, "missing field `leaf_values`");
    refused(
        &[("/oblivious_trees/1/leaf_values", json!([1, "a"]))],
        Schema,
        &format!("{tree}.leaf_values[1]"),
        "invalid type: string",
    );
    refused(&[("/oblivious_trees", json!(3))], Schema, "oblivious_trees", "invalid type: integer `3`");
    for (field, location) in [("border", "border"), ("float_feature_index", "float_feature_index")] {
        let pointer = format!("/oblivious_trees/1/splits/0/{field}");
        let location = format!("{tree}.splits[0].{location}");
        refused(&[(&pointer, Value::Null)], Schema, &location, &format!("missing field `{field}`"));
    }
    refused(
        &[("/oblivious_trees/1/splits/0/split_type", Value::Null)],
        Schema,
        &format!("{tree}.splits[0]"),
        "missing field `split_type`",
    );
    refused(
        &[("/oblivious_trees/1/splits/0/float_feature_index", json!(-1))],
        Schema,
        &format!("{tree}.splits[0].float_feature_index"),
        "invalid value: integer `-1`",
    );
    refused(
        &[("/features_info/float_features/0/flat_feature_index", Value::Null)],
        Schema,
        "features_info.float_features[0]",
        "missing field `flat_feature_index`",
    );
    refused(&[("/scale_and_bias", json!([1]))], Schema, "scale_and_bias", "invalid length 1");
    refused(
        &[("/scale_and_bias", json!([1, "x"]))],
        Schema,
        "scale_and_bias[1]",
        "a number or a list of numbers",
    );
    refused(
        &[("/model_info/params/loss_function", json!("{\"type\": 1}"))],
        Schema,
        "model_info.params.loss_function",
        "the object in this string: invalid type: integer `1`",
    );
    refused(
        &[("/model_info/binclass_probability_threshold", json!("half"))],
        Schema,
        "model_info.binclass_probability_threshold",
        "expected a number",
    );
}

#[test]
fn fields_that_do_not_fit_each_other() {
    let values = "oblivious_trees[1].leaf_values";
    refused(
        &[("/oblivious_trees/1/leaf_values", json!([1]))],
        Structure,
        values,
        "1 values for 2^1 leaves of 1",
    );
    refused(&[("/oblivious_trees/1/leaf_values", json!([]))], Structure, values, "0 values for 2^1 leaves");
    let many: Vec<Value> = (0..40).map(|_| over(0, 0.5, 0)).collect();
    refused(&[("/oblivious_trees/1/splits", json!(many))], Structure, values, "2 values for 2^40 leaves");
    refused(&[("/trees", json!([]))], Structure, "trees", "the file has `oblivious_trees` too");
    refused(
        &[("/features_info/float_features/1/flat_feature_index", json!(0))],
        Structure,
        "features_info.float_features[1].flat_feature_index",
        "column 0 belongs to another feature",
    );
    refused(
        &[("/features_info/categorical_features/0/flat_feature_index", json!(1))],
        Structure,
        "features_info.categorical_features[0].flat_feature_index",
        "column 1 belongs",
    );
    refused(
        &[("/features_info/float_features/1/feature_index", json!(0))],
        Structure,
        "features_info.float_features[1].feature_index",
        "feature 0 is listed twice",
    );
    let index = "oblivious_trees[1].splits[0].split_index";
    for wrong in [1, 2, 3, 99] {
        let change = [("/oblivious_trees/1/splits/0/split_index", json!(wrong))];
        refused(&change, Structure, index, "border 0.5 is not the one of that number");
    }
    refused(
        &[("/oblivious_trees/1/splits/0/border", json!(0.75))],
        Structure,
        index,
        "border 0.75 is not the one",
    );
    refused(
        &[("/model_info/class_params/class_names", json!(["a", "b", "c"]))],
        Structure,
        "model_info.class_params.class_names",
        "3 names for 2 classes",
    );
    let multi = [("/model_info/params/loss_function/type", json!("MultiClass"))];
    refused(&multi, Structure, "model_info.params.loss_function", "a leaf of 1 values");
    refused(
        &[("/scale_and_bias", json!([1, [1, 2]]))],
        Structure,
        "scale_and_bias[1]",
        "2 values, but a leaf has 1",
    );
}

#[test]
fn numbers_out_of_range() {
    refused(
        &[("/oblivious_trees/1/splits/0/float_feature_index", json!(2))],
        BadValue,
        "oblivious_trees[1].splits[0].float_feature_index",
        "numeric feature 2, which the model does not list",
    );
    let border = "oblivious_trees[1].splits[0].border";
    refused(&[("/oblivious_trees/1/splits/0/border", json!(1e39))], BadValue, border, "the border is inf");
    refused(&[("/oblivious_trees/1/splits/0/border", json!("NaN"))], BadValue, border, "the border is NaN");
    let text = minimal().to_string().replace("0.125", "NaN");
    text_refused(
        &text,
        &LoadOptions::default(),
        BadValue,
        "oblivious_trees[1].leaf_values[0]",
        "a leaf of NaN",
    );
    let text = minimal().to_string().replace("0.125", "-1e999");
    text_refused(
        &text,
        &LoadOptions::default(),
        BadValue,
        "oblivious_trees[1].leaf_values[0]",
        "a leaf of -inf",
    );
    let text = minimal().to_string().replace("[1,[0.75]]", "[1,[Infinity]]");
    text_refused(&text, &LoadOptions::default(), BadValue, "scale_and_bias[1]", "a bias of inf");
    let text = minimal().to_string().replace("[1,[0.75]]", "[1e308,[0]]");
    text_refused(&text, &LoadOptions::default(), Structure, "leaf_values", "not a finite number");
    refused(
        &[("/features_info/float_features/0/nan_value_treatment", json!("AsZero"))],
        BadValue,
        "features_info.float_features[0].nan_value_treatment",
        "`AsZero` is none of",
    );
    for p in ["-1e-9", "1.5", "-3", "NaN"] {
        refused(
            &[("/model_info/binclass_probability_threshold", json!(p))],
            BadValue,
            "model_info.binclass_probability_threshold",
            "is not between 0 and 1",
        );
    }
}

/// The minimal model with its second tree asking for a category.
fn category(hash: i64, named: Value) -> Vec<(&'static str, Value)> {
    let split =
        json!({"cat_feature_index": 0, "split_index": 3, "split_type": "OneHotFeature", "value": hash});
    vec![
        ("/oblivious_trees/1/splits/0", split),
        ("/features_info/categorical_features/0/values", json!([hash])),
        ("/features_info/cat_features_hash", named),
    ]
}

#[test]
fn what_is_not_supported_is_named() {
    let split = "oblivious_trees[1].splits[0].split_type";
    refused(
        &[("/oblivious_trees/1/splits/0/split_type", json!("OnlineCtr"))],
        Unsupported,
        split,
        "a counter (CTR) of a categorical feature",
    );
    refused(
        &[("/oblivious_trees/1/splits/0/split_type", json!("EstimatedFeature"))],
        Unsupported,
        split,
        "a split of type `EstimatedFeature`",
    );
    for sort in ["text", "embedding"] {
        let pointer = format!("/features_info/{sort}_features");
        let location = format!("features_info.{sort}_features");
        refused(
            &[(&pointer, json!([{}]))],
            Unsupported,
            &location,
            &format!("{sort} features are not supported"),
        );
    }
    let loss = "model_info.params.loss_function";
    let of_loss = |name: &str| [("/model_info/params/loss_function/type", json!(name))];
    refused(&of_loss("Sorcery"), Unsupported, loss, "loss function `Sorcery` is not supported");
    let narrow = "a leaf of 1 values, which is not what `RMSEWithUncertainty` has";
    refused(&of_loss("RMSEWithUncertainty"), Structure, loss, narrow);
    refused(
        &[("/model_info/params", Value::Null)],
        Unsupported,
        "model_info",
        "does not name its loss function",
    );
    refused(
        &[("/model_info/class_params/classes_count", json!(3))],
        Unsupported,
        "model_info.class_params",
        "classes_count is 3",
    );
    // The hash of a string.
    refused(
        &category(-123_456_789, Value::Null),
        Unsupported,
        "oblivious_trees[1]",
        "no whole number below 65536",
    );
    let named = json!([{"hash": 4_171_510_507u32, "value": "red"}]);
    refused(
        &category(-123_456_789, named),
        Unsupported,
        "oblivious_trees[1]",
        "category `red` is no whole number",
    );
    let named = json!([{"hash": 4_171_510_507u32, "value": "7"}]);
    refused(
        &category(-123_456_789, named),
        BadValue,
        "features_info.cat_features_hash",
        "category 7 is said to have",
    );
    let mut wrong = category(593_172_586, Value::Null);
    wrong[0].1["split_index"] = json!(2);
    let index = "oblivious_trees[1].splits[0].split_index";
    refused(&wrong, Structure, index, "value 593172586 is not the one");
    wrong[0].1["cat_feature_index"] = json!(1);
    let feature = "oblivious_trees[1].splits[0].cat_feature_index";
    refused(&wrong, BadValue, feature, "categorical feature 1, which the model does not list");
    let fits = change(minimal(), &category(593_172_586, Value::Null)).to_string();
    let forest = parse(fits.as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(reference::leaf_ids(&forest, &[0.0f32, 0.0, 3.0])[1], 1);
}

#[test]
fn nodes_that_make_no_tree() {
    let inner = r#"{"left":{"value":-1"#;
    nested_refused(
        &[("/trees/0/right/right", Value::Null)],
        Structure,
        inner,
        "a node needs a `value`, or `left`, `right` and `split`",
    );
    nested_refused(&[("/trees/0/right/split", Value::Null)], Structure, inner, "a node needs a `value`");
    nested_refused(
        &[("/trees/0/right/value", json!(1))],
        Structure,
        inner,
        "a node with a `value` can't have children",
    );
    nested_refused(&[("/trees/0/left", json!({}))], Structure, "{},\"right\"", "a node needs a `value`");
    nested_refused(&[("/trees/0/left", json!(7))], Syntax, "7,\"right\"", "expected an object");
    nested_refused(&[("/trees", json!({"a": 1}))], Syntax, "{\"a\"", "expected an array");
    nested_refused(
        &[("/trees/1/value", json!([1, 2]))],
        Structure,
        "[1,2]",
        "a leaf of 2 values, but the first has 1",
    );
    nested_refused(&[("/trees/1/value", json!([]))], Structure, "[]", "a leaf of 0 values");
    nested_refused(&[("/trees/1/value", json!("x"))], Schema, "\"x\"", "a number or a list of numbers");
    nested_refused(
        &[("/trees/0/split/float_feature_index", json!(5))],
        BadValue,
        r#"{"border":1.5"#,
        "numeric feature 5",
    );
    nested_refused(
        &[("/trees/0/split/split_type", json!("OnlineCtr"))],
        Unsupported,
        r#"{"border":1.5"#,
        "a counter",
    );
    nested_refused(&[("/trees/0/split", json!([]))], Schema, "[]}", "expected an object");
    let text = nested()
        .to_string()
        .replace(r#"{"left":{"value":0.5,"weight":1}"#, r#"{"left":{"value":1},"left":{"value":2}"#);
    let column = text.find(r#""left":{"value":2}"#).expect("the second") + 1;
    let location = format!("line 1, column {column}");
    text_refused(&text, &LoadOptions::default(), Structure, &location, "two children `left`");
    let text = nested().to_string().replace("0.5,\"weight\"", "1e999,\"weight\"");
    let column = text.find("1e999").expect("the leaf") + 1;
    text_refused(
        &text,
        &LoadOptions::default(),
        BadValue,
        &format!("line 1, column {column}"),
        "a leaf of inf",
    );
}

#[test]
fn limits_are_kept() {
    let limited = |document: Value, limits: Limits, location: &str, cause: &str| {
        let options = LoadOptions { limits, ..LoadOptions::default() };
        text_refused(&document.to_string(), &options, Limit, location, cause);
    };
    let limits = Limits::default;
    limited(minimal(), Limits { trees: 2, ..limits() }, "oblivious_trees", "3 trees, over the limit of 2");
    limited(
        minimal(),
        Limits { nodes: 9, ..limits() },
        "oblivious_trees[1]",
        "10 nodes, over the limit of 9",
    );
    limited(minimal(), Limits { depth: 1, ..limits() }, "tree 0", "2 depth, over the limit of 1");
    limited(
        minimal(),
        Limits { features: 2, ..limits() },
        "features_info",
        "3 features, over the limit of 2",
    );
    let far =
        change(minimal(), &[("/features_info/float_features/1/flat_feature_index", json!(4_000_000_000u32))]);
    limited(far, limits(), "features_info", "4000000001 features");
    let huge = change(minimal(), &[("/features_info/float_features/1/flat_feature_index", json!(i64::MAX))]);
    limited(huge, limits(), "features_info", "features, over the limit");
    let wide = [("/oblivious_trees", json!([{"leaf_values": [1, 2, 3], "splits": null}]))];
    limited(
        change(minimal(), &wide),
        Limits { outputs: 2, ..limits() },
        "oblivious_trees",
        "3 outputs, over the limit",
    );
    let text = nested().to_string();
    let column = |needle: &str| format!("line 1, column {}", text.find(needle).expect(needle) + 1);
    let second = column(r#"{"value":4"#);
    limited(nested(), Limits { trees: 1, ..limits() }, &second, "2 trees, over the limit of 1");
    limited(nested(), Limits { nodes: 5, ..limits() }, &second, "6 nodes, over the limit of 5");
    let options = LoadOptions { limits: Limits { string_bytes: 30, ..limits() }, ..LoadOptions::default() };
    assert_eq!(refusal(&text, &options).kind(), Syntax);
    let options = LoadOptions { iteration_range: Some(1..4), ..LoadOptions::default() };
    text_refused(
        &minimal().to_string(),
        &options,
        Options,
        "iteration_range",
        "trees 1..4 of a model with 3",
    );
}

#[test]
fn text_that_is_no_json() {
    for document in [minimal(), nested()] {
        let text = document.to_string();
        for end in 1..text.len() {
            let cut = &text[..end];
            assert!(parse(cut.as_bytes(), &LoadOptions::default()).is_err(), "cut at {end}");
        }
        let more = format!("{text} 1");
        let location = format!("line 1, column {}", text.len() + 2);
        text_refused(&more, &LoadOptions::default(), Syntax, &location, "after the end");
    }
    // Brackets without end, where values are skipped and where they may nest.
    for field in ["model_info", "features_info", "scale_and_bias"] {
        for open in ["[", "{\"a\":"] {
            let text = format!("{{\"{field}\":{{\"new\":{}", open.repeat(100_000));
            let error = refusal(&text, &LoadOptions::default());
            assert!(matches!(error.kind(), Syntax | Schema), "{error}");
        }
    }
    for open in ["[", "[{\"left\":", "{\"a\":[", "[{\"new\":"] {
        let text = format!("{{\"features_info\":null,\"trees\":{}", open.repeat(100_000));
        assert_eq!(refusal(&text, &LoadOptions::default()).kind(), Syntax);
    }
}

/// A tree of `splits` splits, each the right child of the one above, with a value that is skipped as deep.
fn chain(splits: usize) -> String {
    let split = r#""split":{"border":0.5,"float_feature_index":0,"split_type":"FloatFeature"}"#;
    let node = format!(r#"{{"left":{{"value":1}},{split},"right":"#);
    let features = minimal()["features_info"].to_string();
    format!(
        r#"{{"features_info":{features},"trees":[{}{{"value":2}}{},{{"new":{}1{},"value":3}}]}}"#,
        node.repeat(splits),
        "}".repeat(splits),
        "[".repeat(splits),
        "]".repeat(splits)
    )
}

#[test]
fn a_chain_a_hundred_thousand_deep_loads_on_a_small_stack() {
    let text = chain(100_000);
    let run = move || {
        let forest = parse(text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(forest.trees[0].depth(), 100_000);
        assert_eq!(reference::leaf_ids(&forest, &[1.0f32, 0.0, 0.0]), [100_000, 0]);
        let limits = Limits { depth: 99_999, ..Default::default() };
        refusal(&text, &LoadOptions { limits, ..Default::default() })
    };
    let thread = std::thread::Builder::new().stack_size(128 << 10).spawn(run).expect("a thread");
    assert_eq!(thread.join().expect("no overflow").location(), &Location::Field("tree 0".into()));
}

/// Replaces one of the values of the text by another.
fn move_value(bytes: &mut Vec<u8>, random: &mut Random) {
    let mut span = || {
        let from = random.below(bytes.len());
        let start = bytes[from..].iter().position(|b| b"{[\"".contains(b)).map(|i| from + i)?;
        let close = match bytes[start] {
            b'{' => b'}',
            b'[' => b']',
            _ => b'"',
        };
        let end = bytes[start + 1..].iter().position(|b| *b == close).map(|i| start + i + 2)?;
        Some(start..end)
    };
    if let (Some(from), Some(to)) = (span(), span()) {
        let value = bytes[from].to_vec();
        bytes.splice(to, value);
    }
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    match random.below(10) {
        kind if kind < KINDS => mutate_bytes(bytes, kind, random),
        6 => move_value(bytes, random),
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
    let plain = change(minimal(), &[("/model_info/params/loss_function/type", json!("RMSE"))]);
    let category = change(minimal(), &category(593_172_586, Value::Null));
    let seed = |name: &str, text: String, rounds| (name.to_owned(), text.into_bytes(), rounds);
    let mut seeds = vec![
        seed("minimal", plain.to_string(), 3000),
        seed("nested", nested().to_string(), 3000),
        seed("chain", chain(20), 500),
        seed("category", category.to_string(), 20),
    ];
    let models =
        zoo(&["model.json"], 64 << 10, 100).into_iter().filter(|(name, ..)| name.contains("catboost-"));
    seeds.extend(models.map(|(name, bytes, rounds)| {
        // Each of these looks for the numbers behind hashes.
        let rounds = if name.contains("one-hot") { 10 } else { rounds };
        (name, bytes, rounds)
    }));
    let mut tally = Tally::default();
    tally.mutate(&seeds, &options, &mut Random(20_260_214), mutate);
    assert!(tally.loaded > 500 && tally.refused > 2000, "{tally:?}");
}
