//! scikit-learn's arrays, damaged and hostile: each file is refused with one line that names the location, the cause
//! and the remedy; and whatever is not refused is a sound forest.

use crate::npz;

use crate::mutate;

use fangorn::import::{ErrorKind, ErrorKind::*, ImportError, Limits, LoadOptions, parse, parse_graph};
use mutate::{KINDS, Random, Tally, mutate_bytes};
use npz::{Array, Model, Zip, npy, zip};
use serde_json::{Value, json};

fn refusal(bytes: &[u8], options: &LoadOptions) -> ImportError {
    let error = parse(bytes, options).expect_err("a model that must be refused");
    let line = error.to_string();
    assert!(!line.contains(['\n', '\r']), "more than one line: {line}");
    assert_eq!(line, format!("{}: {}; {}", error.location(), error.cause(), error.remedy()));
    assert!(!error.remedy().contains("Booster"), "a remedy of another library: {line}");
    error
}

#[track_caller]
fn refused_with(bytes: &[u8], options: &LoadOptions, kind: ErrorKind, location: &str, cause: &str) {
    let error = refusal(bytes, options);
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(error.location().to_string(), location, "{error}");
    assert!(error.cause().contains(cause), "{error}");
    assert!(!error.remedy().is_empty(), "{error}");
}

#[track_caller]
fn refused(model: &Model, kind: ErrorKind, location: &str, cause: &str) {
    refused_with(&model.bytes(), &LoadOptions::default(), kind, location, cause);
}

/// With a field of the head replaced.
#[track_caller]
fn head_refused(field: &str, value: Value, kind: ErrorKind, cause: &str) {
    let location = format!("fangorn.{field}");
    refused(&Model::minimal().head(json!({ field: value })), kind, &location, cause);
}

/// With an array replaced.
#[track_caller]
fn array_refused(name: &'static str, array: Array, kind: ErrorKind, location: &str, cause: &str) {
    refused(&Model::minimal().array(name, array), kind, location, cause);
}

/// With a file of the archive replaced by these bytes, or taken out.
fn with_file(name: &str, bytes: Option<&[u8]>) -> Vec<u8> {
    let mut files = Model::minimal().files();
    files.retain(|(file, _)| *file != format!("{name}.npy"));
    files.extend(bytes.map(|bytes| (format!("{name}.npy"), bytes.to_vec())));
    zip(&files, Zip::Stored)
}

#[track_caller]
fn file_refused(name: &str, bytes: Option<&[u8]>, kind: ErrorKind, cause: &str) {
    refused_with(&with_file(name, bytes), &LoadOptions::default(), kind, name, cause);
}

#[track_caller]
fn bytes_refused(bytes: &[u8], kind: ErrorKind, location: &str, cause: &str) {
    refused_with(bytes, &LoadOptions::default(), kind, location, cause);
}

#[test]
fn archives_that_are_none_of_ours() {
    let other = zip(&[("weights.npy".into(), Array::F8(vec![1.0]).npy())], Zip::Stored);
    bytes_refused(&other, Format, "model", "no `fangorn` array");
    let error = refusal(&other, &LoadOptions::default());
    assert!(error.remedy().contains("export_sklearn.py"), "{error}");
    for format in [1, 3] {
        let older = Model::minimal().head(json!({"format": format}));
        refused(
            &older,
            Unsupported,
            "fangorn.format",
            &format!("format {format} of the exporter, format 2 is read"),
        );
        let error = refusal(&older.bytes(), &LoadOptions::default());
        assert!(error.remedy().starts_with("export it again with the exporter of this version"), "{error}");
    }
    head_refused("format", json!("one"), Schema, "invalid");
}

#[test]
fn zip_archives_without_arrays_are_named() {
    let files =
        |names: &[&str]| names.iter().map(|name| (name.to_string(), vec![0x80u8])).collect::<Vec<_>>();
    let archives: [(&[&str], &str, &str); 7] = [
        (&["readme.txt", "model.ubj"], "a zip archive that holds model.ubj", "unpack it"),
        (&["out/model.json"], "a zip archive that holds out/model.json", "unpack it"),
        (&["archive/data.pkl", "archive/version"], "a file of PyTorch", "give a decision forest"),
        (&["7f.npy", "schema.json"], "a skops file", "skops.io.load"),
        (&["[Content_Types].xml", "xl/workbook.xml"], "an Excel workbook", "--rows"),
        (&["._model.json", "a", "b", "c", "d", "e"], "the files ._model.json, a, b, c, d, …", "own file"),
        (&["weights.npy"], "no `fangorn` array", "export_sklearn.py"),
    ];
    for (names, cause, remedy) in archives {
        for kind in [Zip::Stored, Zip::Deflated, Zip::Wide] {
            let bytes = zip(&files(names), kind);
            bytes_refused(&bytes, Format, "model", cause);
            let error = refusal(&bytes, &LoadOptions::default());
            assert!(error.remedy().contains(remedy), "{error}");
            let of_graph = parse_graph(&bytes, &LoadOptions::default()).expect_err("no graph");
            assert_eq!(of_graph.to_string(), error.to_string());
        }
    }
    // A download that was cut has lost the directory, which is at the end. The first file's name is left.
    let cut = &zip(&files(&["model.ubj", "readme.txt"]), Zip::Stored)[..60];
    bytes_refused(cut, Format, "model", "a zip archive that holds model.ubj");
}

#[test]
fn heads_that_say_nothing_of_use() {
    let without = |model: &Model, field: &str| {
        let mut model = model.clone();
        model.head.as_object_mut().expect("fields").remove(field);
        refused(&model, Schema, "fangorn", &format!("missing field `{field}`"));
    };
    for (model, fields) in [
        (
            Model::minimal(),
            &["version", "estimator", "n_features_in_", "base", "loss", "is_categorical_"][..],
        ),
        (Model::boosting(), &["init_", "learning_rate", "base"]),
        (Model::isolation(), &["offset_", "_max_samples"]),
    ] {
        fields.iter().for_each(|field| without(&model, field));
    }
    head_refused("n_features_in_", json!(-1), Schema, "invalid");
    head_refused("n_features_in_", json!(1u64 << 40), Limit, "features, over the limit");
    head_refused("feature_names_in_", json!(["a"]), Structure, "1 names for 3 features");
    head_refused("feature_names_in_", json!("abc"), Schema, "invalid type");
    head_refused("version", json!("nightly"), Value, "`nightly` is no release");
    head_refused("is_categorical_", json!([true]), Structure, "1 entries for 3 features");
    for base in [json!([]), json!([0.5, 0.5]), json!([[0.5], [0.5, 0.5]])] {
        head_refused("base", base, Structure, "values for 1 outputs");
    }
    let base = Model::minimal().head(json!({"base": "half"}));
    refused(&base, Schema, "fangorn.base", "expected a number or a list of numbers");
    let class_of = |class: Value| Model::bag().head(json!({"classes_": class}));
    refused(&class_of(json!([])), Structure, "fangorn.classes_", "no classes");
    refused(&class_of(json!((0..70_000).collect::<Vec<u32>>())), Limit, "fangorn", "70000 outputs, over");
    let mut bag = Model::bag();
    bag.head["trees"][1][1] = json!([0, 3]);
    refused(&bag, Value, "fangorn.trees[1]", "no numbers below 3");
    bag.head["trees"][1][1] = json!(["no", "yes"]);
    refused(&bag, Value, "fangorn.trees[1]", "no numbers below 3");
    bag.head["trees"] = json!([]);
    refused(&bag, Structure, "fangorn.trees", "0 entries for 2 trees");
    let nan = |model: &Model, field: &str| {
        let mut head = model.head.clone();
        head[field] = json!("NaN here");
        let head = head.to_string().replace("\"NaN here\"", "NaN");
        let mut files = model.files();
        files.retain(|(name, _)| name != "fangorn.npy");
        files.push(("fangorn.npy".into(), Array::U1(head.into_bytes()).npy()));
        zip(&files, Zip::Stored)
    };
    bytes_refused(&nan(&Model::isolation(), "offset_"), Value, "fangorn.offset_", "the offset is NaN");
    bytes_refused(&nan(&Model::isolation(), "_max_samples"), Value, "fangorn._max_samples", "of NaN samples");
    bytes_refused(&nan(&Model::boosting(), "learning_rate"), Value, "value, node 1", "a leaf of NaN");
    bytes_refused(&nan(&Model::minimal(), "base"), Structure, "base_score", "not a finite number");
    for (text, location, cause) in [
        ("{\"format\": 2,, }", "fangorn, line 1, column 14", "expected a name in quotes"),
        ("{\"format\": 2", "fangorn, line 1, column 13", "the text ends"),
        ("[]", "fangorn", "invalid type: an array, expected an object"),
        ("{}", "fangorn", "missing field `format`"),
        ("\u{7f}", "fangorn, line 1, column 1", "expected a value"),
    ] {
        let bytes = with_file("fangorn", Some(&Array::U1(text.into()).npy()));
        let error = refusal(&bytes, &LoadOptions::default());
        assert!(matches!(error.kind(), Syntax | Schema), "{error}");
        assert_eq!(error.location().to_string(), location, "{error}");
        assert!(error.cause().contains(cause), "{error}");
    }
}

#[test]
fn arrays_that_are_missing_or_something_else() {
    for (model, unread) in Model::families().iter().zip([
        &["known_bitsets.sizes", "known_places.sizes"][..],
        &["n_node_samples", "n_node_samples.sizes"],
        &["n_node_samples", "n_node_samples.sizes"],
        &["n_node_samples", "n_node_samples.sizes"],
        &["value", "value.sizes"],
    ]) {
        for name in model.arrays.keys().filter(|name| !unread.contains(name)) {
            let with = |bytes: Option<&[u8]>| {
                let mut files = model.files();
                files.retain(|(file, _)| *file != format!("{name}.npy"));
                files.extend(bytes.map(|bytes| (format!("{name}.npy"), bytes.to_vec())));
                zip(&files, Zip::Stored)
            };
            bytes_refused(&with(None), Schema, name, "missing array");
            bytes_refused(&with(Some(b"")), Schema, name, "no array of numpy's");
            bytes_refused(&with(Some(b"\x93NUMPY\x01\x00\xff\xff{")), Schema, name, "no array of numpy's");
        }
    }
    array_refused("left", Array::F8(vec![-1.0; 6]), Schema, "left", "type <f8, expected whole numbers");
    array_refused("value", Array::I8(vec![0; 6]), Schema, "value", "type <i8, expected <f8");
    let header = |descr: &str, order: &str, shape: &str| {
        npy(&format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}"), &[0; 48])
    };
    let value =
        |header: &[u8], kind: ErrorKind, cause: &str| file_refused("value", Some(header), kind, cause);
    value(&header("<f8", "False", "(6, 1)"), Schema, "of shape (6, 1)");
    value(&header("<f8", "False", "()"), Schema, "of shape ()");
    value(&header("<f8", "True", "(6,)"), Schema, "no array");
    for descr in [">f8", "|O", "<f4", "<U6", "|S8", "<c16", ""] {
        value(&header(descr, "False", "(6,)"), Schema, &format!("type {descr}, expected numbers"));
    }
    value(&header("<f8", "False", "(7,)"), Syntax, "7 entries of 8 bytes claimed");
    value(&header("<f8", "False", "(-1,)"), Schema, "of shape (-1,)");
    value(&header("<f8", "False", "(18446744073709551615,)"), Syntax, "18446744073709551615 entries");
    value(&header("<f8", "False", "(18446744073709551616,)"), Schema, "of shape");
    let mut deep = header("<f8", "False", "(6,)");
    deep[10..100].fill(b'(');
    value(&deep, Schema, "no array of numpy's");
    let mut newer = Array::F8(vec![0.0; 6]).npy();
    newer[6] = 3;
    value(&newer, Schema, "no array of numpy's");
}

#[test]
fn arrays_whose_lengths_differ() {
    array_refused("right", Array::U4(vec![0; 5]), Structure, "right", "for 6 nodes");
    array_refused("feature_idx", Array::I8(vec![0; 7]), Structure, "feature_idx", "for 6 nodes");
    array_refused("num_threshold", Array::F8(vec![]), Structure, "num_threshold", "for 6 nodes");
    array_refused("is_leaf", Array::U1(vec![0; 600]), Structure, "is_leaf", "for 6 nodes");
    array_refused("left", Array::U4(vec![0; 5]), Structure, "left", "for 6 nodes");
    array_refused("left_bitsets", Array::U4(vec![0; 7]), Structure, "left_bitsets", "for 8 words of sets");
    array_refused("known_places", Array::U4(vec![0; 2]), Structure, "known_places", "for 3 features");
    array_refused("right.sizes", Array::I8(vec![1, 5]), Structure, "right.sizes[0]", "1 entries for 5 nodes");
    array_refused("right.sizes", Array::I8(vec![6]), Structure, "right.sizes", "for 2 trees");
    for sizes in [vec![5, -1], vec![i64::MIN, 0]] {
        let n = sizes.iter().position(|size| *size < 0).expect("a number below 0");
        array_refused("left.sizes", Array::I8(sizes), Value, &format!("left.sizes[{n}]"), "out of its range");
    }
    let far = Array::I8(vec![i64::MAX; 3]);
    // Two of these fit an integer of 64 bits without a sign.
    let first = if usize::BITS < 64 { 0 } else { 2 };
    for name in ["left.sizes", "left_bitsets.sizes"] {
        let location = format!("{name}[{first}]");
        array_refused(name, far.clone(), Value, &location, "more entries than can be counted");
    }
    let many = 1 << (usize::BITS.min(41) - 1);
    array_refused("left.sizes", Array::I8(vec![5, many]), Limit, "left.sizes", "nodes, over the limit");
    let name = "left_bitsets.sizes";
    array_refused(name, Array::I8(vec![many]), Limit, name, "over the limit");
    let means = |name: &'static str, array: Array, location: &str, cause: &str| {
        refused(&Model::means().array(name, array), Structure, location, cause);
    };
    means("value", Array::F8(vec![0.0; 11]), "value", "for 12 values of nodes");
    means("value.sizes", Array::I8(vec![8, 4]), "value.sizes[0]", "8 values for 3 nodes");
    let uneven = Model::means().ranges("value", Array::F8(vec![0.0; 11]), vec![9, 2]);
    refused(&uneven, Structure, "value.sizes[1]", "2 values a node, but 3 in the first tree");
    means("value.sizes", Array::I8(vec![0, 0]), "value.sizes[0]", "0 values for 3 nodes");
    means("columns.sizes", Array::I8(vec![1]), "columns.sizes", "1 parts for 2 trees");
    let gone = Model::means().head(json!({"trees": []})).ranges("children_left", Array::I8(vec![]), vec![]);
    let gone = ["children_right", "feature", "missing_go_to_left"]
        .into_iter()
        .fold(gone, |model, name| model.ranges(name, Array::I8(vec![]), vec![]));
    refused(
        &gone.ranges("threshold", Array::F8(vec![]), vec![]),
        Structure,
        "children_left.sizes",
        "an average of no trees",
    );
}

#[test]
fn nodes_that_make_no_trees() {
    let minimal = [1, 0, 3, 0, 0, 0];
    let with = |n: usize, child: u32| {
        let mut changed = minimal;
        changed[n] = child;
        Array::U4(changed.to_vec())
    };
    array_refused("left", with(2, 9), Structure, "tree 0, node 2", "child 9 is out of range");
    array_refused("left", with(2, u32::MAX), Structure, "tree 0, node 2", "out of range");
    array_refused("left", with(2, 0), Structure, "tree 0, node 2", "the root is a child");
    array_refused("left", with(2, 4), Structure, "tree 0, node 2", "child 4 has two parents");
    array_refused("is_leaf", Array::U1(vec![1; 6]), Structure, "tree 0", "4 of 5 nodes can't be reached");
    for model in [Model::means(), Model::bag(), Model::boosting()] {
        let left = |left: [i64; 4]| model.clone().array("children_left", Array::I8(left.to_vec()));
        refused(&left([9, -1, -1, -1]), Structure, "tree 0, node 0", "child 9 is out of range");
        refused(&left([0, -1, -1, -1]), Structure, "tree 0, node 0", "the root is a child");
        refused(&left([-2, -1, -1, -1]), Structure, "children_left[0]", "children -2 and 2");
        refused(&left([1, -1, -1, 0]), Structure, "children_left[3]", "children 0 and -1");
        refused(&left([1, -1, -1, 1 << 40]), Value, "children_left[3]", "out of its range");
    }
    for child in [9, 0, i64::from(i32::MAX)] {
        let forest = Model::isolation().array("children_left", Array::I8(vec![child, -1, -1, -1]));
        refused(&forest, Structure, "children_left[0]", "does not stand after its parent");
    }
}

#[test]
fn numbers_out_of_their_range() {
    let feature = |f: i64| Array::I8(vec![0, 0, f, 0, 0, 0]);
    array_refused("feature_idx", feature(3), Value, "feature_idx[2]", "feature 3 has no set of known");
    array_refused("feature_idx", feature(-2), Value, "feature_idx[2]", "out of its range");
    array_refused(
        "feature_idx",
        Array::I8(vec![3, 0, 0, 0, 0, 0]),
        Value,
        "feature_idx[0]",
        "feature 3 of 3",
    );
    array_refused("bitset_idx", Array::U4(vec![0, 0, 1, 0, 0, 0]), Value, "bitset_idx[2]", "set 1 of 1");
    array_refused("known_bitsets", Array::U4(vec![7; 7]), Value, "feature_idx[2]", "no set of known");
    let past = Array::U4(vec![8, 0, 0, 0, 0, 0, 0, 0]);
    array_refused("left_bitsets", past, Value, "bitset_idx[2]", "a category past the 3 of feature 0");
    let missing = Array::U1(vec![1, 0, 2, 0, 0, 0]);
    array_refused("missing_go_to_left", missing.clone(), Value, "missing_go_to_left[2]", "2 is neither 0");
    let means = |name: &'static str, array: Array, location: &str, cause: &str| {
        refused(&Model::means().array(name, array), Value, location, cause);
    };
    means("missing_go_to_left", Array::U1(vec![2, 0, 0, 0]), "missing_go_to_left[0]", "2 is neither 0");
    for feature in [2, -1, i64::from(i32::MAX)] {
        means("feature", Array::I8(vec![feature, -2, -2, -2]), "feature[0]", "is none of 2 columns");
    }
    means("feature", Array::I8(vec![i64::MIN, -2, -2, -2]), "feature[0]", "out of its range");
    let columns = |columns: Vec<i64>| Model::bag().array("columns", Array::I8(columns));
    refused(&columns(vec![2, 0]), Value, "feature[0]", "is none of 2 columns");
    refused(&columns(vec![-1, 0]), Value, "feature[0]", "is none of 2 columns");
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let values = Array::F8(vec![0.0, 0.0, 0.0, value, 0.0, 0.0]);
        array_refused("value", values, Value, "value, node 3", "a leaf of");
    }
}

#[test]
fn files_that_ask_for_too_much() {
    let with = |change: &dyn Fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        LoadOptions { limits, ..Default::default() }
    };
    let limited = |model: &Model, change: &dyn Fn(&mut Limits), location: &str, cause: &str, remedy: &str| {
        refused_with(&model.bytes(), &with(change), Limit, location, cause);
        let error = refusal(&model.bytes(), &with(change));
        assert_eq!(error.remedy(), format!("raise `Limits::{remedy}` if you trust the file"));
    };
    let minimal = Model::minimal();
    limited(&minimal, &|l| l.trees = 1, "left.sizes", "over the limit of 1", "trees");
    limited(&minimal, &|l| l.nodes = 5, "left.sizes", "6 nodes, over the limit of 5", "nodes");
    limited(&minimal, &|l| l.memory_bytes = 90, "left.sizes", "over the limit of 90", "memory_bytes");
    limited(&minimal, &|l| l.depth = 1, "tree 0", "2 depth, over the limit of 1", "depth");
    limited(&minimal, &|l| l.features = 2, "fangorn.n_features_in_", "3 features, over", "features");
    limited(
        &minimal,
        &|l| l.category_words = 0,
        "left_bitsets.sizes",
        "8 category words, over",
        "category_words",
    );
    limited(&minimal, &|l| l.string_bytes = 1, "fangorn", "over the limit of 64", "string_bytes");
    limited(&minimal, &|l| l.file_bytes = 10, "model", "over the limit of 10", "file_bytes");
    let means = Model::means();
    limited(&means, &|l| l.trees = 1, "children_left.sizes", "over the limit of 1", "trees");
    limited(&means, &|l| l.nodes = 3, "children_left.sizes", "4 nodes, over the limit of 3", "nodes");
    limited(&means, &|l| l.outputs = 2, "fangorn", "3 outputs, over", "outputs");
    // A bag's trees that have seen a few of many classes.
    let labels: Vec<u32> = (0..40_000).collect();
    let bag = Model::bag().head(json!({"classes_": labels}));
    limited(&bag, &|l| l.nodes = 100_000, "fangorn.trees[0]", "3 leaves of 40000 values each", "nodes");
    let wide = Model::minimal().head(json!({"categories": [[1, 3200, 7]]}));
    limited(&wide, &|l| l.category_words = 100, "bitset_idx[2]", "109 category words", "category_words");
    let long = Model::minimal().head(json!({"feature_names_in_": ["a", "b", "c".repeat(200)]})).bytes();
    let error = refusal(&long, &with(&|l| l.string_bytes = 128));
    assert!(error.kind() == Syntax && error.cause().contains("a string of 200 bytes"), "{error}");
}

#[test]
fn a_bomb_is_not_inflated() {
    // 64 MiB of zeros in 64 KiB: more than there are nodes, and more than the file may have in all.
    let bomb = |name: &str| {
        let mut files = Model::minimal().files();
        files.retain(|(file, _)| *file != format!("{name}.npy"));
        files.push((format!("{name}.npy"), Array::F8(vec![0.0; 8 << 20]).npy()));
        zip(&files, Zip::Deflated)
    };
    bytes_refused(&bomb("num_threshold"), Structure, "num_threshold", "for 6 nodes");
    let limits = Limits { file_bytes: 1 << 20, ..Default::default() };
    let options = LoadOptions { limits, ..Default::default() };
    refused_with(&bomb("value"), &options, Limit, "value", "over the limit of 1048576");
    // One that claims less than it inflates to.
    let mut bytes = bomb("left");
    let size = (Array::F8(vec![0.0; 8 << 20]).npy().len() as u32).to_le_bytes();
    for at in (0..bytes.len() - 4).rev() {
        if bytes[at..at + 4] == size {
            bytes[at..at + 4].copy_from_slice(&152u32.to_le_bytes());
        }
    }
    bytes_refused(&bytes, Syntax, "left", "152 bytes claimed");
}

/// Where the directory's entry of a file begins.
fn entry(bytes: &[u8], name: &str) -> usize {
    let name = format!("{name}.npy");
    let is_entry =
        |at: &usize| bytes[*at..].starts_with(b"PK\x01\x02") && bytes[at + 46..].starts_with(name.as_bytes());
    (0..bytes.len() - 46 - name.len()).find(is_entry).expect("the entry")
}

#[test]
fn archives_that_are_damaged() {
    let whole = Model::minimal().bytes();
    let end = whole.len() - 22;
    let change = |at: usize, value: &[u8]| {
        let mut bytes = whole.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    };
    bytes_refused(&whole[..100], Syntax, "byte 100", "its directory is missing");
    bytes_refused(&whole[..whole.len() - 1], Syntax, &format!("byte {}", whole.len() - 1), "missing");
    bytes_refused(&change(end + 16, &u32::MAX.to_le_bytes()), Syntax, &format!("byte {end}"), "zip64");
    bytes_refused(
        &change(end + 16, &(1u32 << 31).to_le_bytes()),
        Syntax,
        &format!("byte {end}"),
        "past its end",
    );
    bytes_refused(&change(end + 16, &[0; 4]), Syntax, "byte 0", "directory is broken");
    bytes_refused(&change(end + 10, &[200, 0]), Syntax, &format!("byte {end}"), "directory is broken");
    let left = entry(&whole, "left");
    bytes_refused(&change(left + 8, &[1, 0]), Unsupported, "left", "encrypted");
    bytes_refused(&change(left + 10, &[14, 0]), Unsupported, "left", "method 14");
    bytes_refused(&change(left + 10, &[8, 0]), Syntax, "left", "");
    bytes_refused(&change(left + 16, &[1, 2, 3, 4]), Syntax, "left", "checksum");
    bytes_refused(&change(left + 42, &[255, 255, 255, 127]), Syntax, "left", "its place in the archive");
    bytes_refused(&change(left + 20, &[255, 255, 255, 127]), Syntax, "left", "its place in the archive");
    bytes_refused(&change(left + 20, &[1, 0, 0, 0]), Syntax, "left", "bytes claimed");
    bytes_refused(&change(left + 24, &[0, 0, 0, 0]), Syntax, "left", "0 bytes claimed");
    bytes_refused(&change(left + 24, &[255; 4]), Syntax, &format!("byte {left}"), "directory is broken");
    let right = entry(&whole, "right");
    bytes_refused(&change(right + 46, b"value"), Structure, "value", "stands in the file twice");
    bytes_refused(&change(left + 46, b"Left"), Schema, "left", "missing array");
}

#[test]
fn every_truncation_is_refused() {
    for zipped in [Zip::Stored, Zip::Deflated, Zip::Wide] {
        let bytes = zip(&Model::minimal().files(), zipped);
        for end in 0..bytes.len() {
            assert!(parse(&bytes[..end], &LoadOptions::default()).is_err(), "{zipped:?} cut at {end}");
        }
    }
}

/// Changes bytes anywhere.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    match random.below(7) {
        kind if kind < KINDS => mutate_bytes(bytes, kind, random),
        _ => {
            let at = random.below(bytes.len());
            let length = 1 + random.below(16.min(bytes.len() - at));
            let edge = random.pick(&[0x00, 0x7f, 0x80, 0xff]);
            bytes[at..at + length].fill(edge);
        }
    }
    if bytes.is_empty() {
        bytes.push(b'P');
    }
}

/// Changes an entry of an array, which no checksum sees.
fn mutate_array(model: &mut Model, random: &mut Random) {
    let which = random.below(model.arrays.len());
    let array = model.arrays.values_mut().nth(which).expect("an array");
    let whole = [-2, -1, 0, 1, 2, 3, 4, 5, 1 << 24, i64::from(i32::MAX), i64::from(i32::MIN)];
    let whole = whole[random.below(whole.len())];
    let reals = [0.0, -0.0, 0.5, 1e-45, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let real = reals[random.below(reals.len())];
    macro_rules! change {
        ($values:expr, $value:expr) => {{
            let at = random.below($values.len());
            match (random.below(8), $values.get_mut(at)) {
                (0, _) => $values.push($value),
                (1, Some(_)) => drop($values.remove(at)),
                (2, Some(_)) => $values.swap(0, at),
                (_, Some(entry)) => *entry = $value,
                _ => {}
            }
        }};
    }
    match array {
        Array::U1(values) => change!(values, whole as u8),
        Array::U4(values) => change!(values, whole as u32),
        Array::I4(values) => change!(values, whole as i32),
        Array::I8(values) => change!(values, whole),
        Array::F8(values) => change!(values, real),
    }
}

#[test]
fn mutations_never_panic_and_what_loads_is_sound() {
    let limits = Limits {
        file_bytes: 1 << 22,
        nodes: 1 << 16,
        features: 1 << 12,
        outputs: 1 << 8,
        category_words: 1 << 20,
        ..Default::default()
    };
    let options = LoadOptions { limits, ..Default::default() };
    let mut random = Random(20_261_120);
    let mut tally = Tally::default();
    let mut check = |bytes: &[u8], round: usize| tally.read(bytes, &options, &format!("mutation {round}"));
    let families = Model::families();
    for round in 0..6000 {
        let mut model = families[round % families.len()].clone();
        for _ in 0..1 + random.below(3) {
            mutate_array(&mut model, &mut random);
        }
        check(&model.bytes(), round);
    }
    for round in 0..3000 {
        let mut files = families[round % families.len()].files();
        // Inside a file, and the archive made of it is whole.
        let file = random.below(files.len());
        mutate(&mut files[file].1, &mut random);
        check(&zip(&files, Zip::Deflated), round);
    }
    for round in 0..3000 {
        let zipped = [Zip::Stored, Zip::Deflated, Zip::Wide][round % 3];
        let mut bytes = zip(&families[round % families.len()].files(), zipped);
        for _ in 0..1 + random.below(3) {
            mutate(&mut bytes, &mut random);
        }
        check(&bytes, round);
    }
    assert!(tally.loaded > 500 && tally.refused > 4000, "{tally:?}");
}
