//! scikit-learn's arrays, damaged and hostile: each file is refused with one line that names the place, the cause and
//! the remedy; and whatever is not refused is a sound forest.

#[path = "support/npz.rs"]
mod npz;

#[path = "support/mutate.rs"]
mod mutate;

use fangorn::import::{ErrorKind, ErrorKind::*, ImportError, Limits, LoadOptions, parse};
use mutate::{KINDS, Random, Tally, mutate_bytes};
use npz::{Array, Model, Zip, npy, zip};
use serde_json::{Value, json};

fn refusal(bytes: &[u8], options: &LoadOptions) -> ImportError {
    let error = parse(bytes, options).expect_err("a model that must be refused");
    let line = error.to_string();
    assert!(!line.contains(['\n', '\r']), "more than one line: {line}");
    assert_eq!(line, format!("{}: {}; {}", error.place(), error.cause(), error.remedy()));
    assert!(!error.remedy().contains("Booster"), "a remedy of another library: {line}");
    error
}

#[track_caller]
fn refused_with(bytes: &[u8], options: &LoadOptions, kind: ErrorKind, place: &str, cause: &str) {
    let error = refusal(bytes, options);
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(error.place().to_string(), place, "{error}");
    assert!(error.cause().contains(cause), "{error}");
    assert!(!error.remedy().is_empty(), "{error}");
}

#[track_caller]
fn refused(model: &Model, kind: ErrorKind, place: &str, cause: &str) {
    refused_with(&model.bytes(), &LoadOptions::default(), kind, place, cause);
}

/// With a field of the head replaced.
#[track_caller]
fn head_refused(field: &str, value: Value, kind: ErrorKind, cause: &str) {
    let place = format!("fangorn.{field}");
    refused(&Model::minimal().head(json!({ field: value })), kind, &place, cause);
}

/// With an array replaced.
#[track_caller]
fn array_refused(name: &'static str, array: Array, kind: ErrorKind, place: &str, cause: &str) {
    refused(&Model::minimal().array(name, array), kind, place, cause);
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
fn bytes_refused(bytes: &[u8], kind: ErrorKind, place: &str, cause: &str) {
    refused_with(bytes, &LoadOptions::default(), kind, place, cause);
}

#[test]
fn archives_that_are_none_of_ours() {
    let other = zip(&[("weights.npy".into(), Array::F8(vec![1.0]).npy())], Zip::Stored);
    bytes_refused(&other, Format, "model", "no `fangorn` array");
    let error = refusal(&other, &LoadOptions::default());
    assert!(error.remedy().contains("export_sklearn.py"), "{error}");
    head_refused("format", json!(2), Unsupported, "format 2");
    head_refused("format", json!("one"), Schema, "invalid");
}

#[test]
fn heads_that_say_nothing_of_use() {
    for field in ["estimator", "features", "compare", "threshold", "labels", "round", "categories"] {
        let mut model = Model::minimal();
        model.head.as_object_mut().expect("fields").remove(field);
        refused(&model, Schema, "fangorn", &format!("missing field `{field}`"));
    }
    head_refused("features", json!(-1), Schema, "invalid");
    head_refused("features", json!(1u64 << 40), Limit, "features, over the limit");
    head_refused("outputs", json!(0), Value, "at least one output");
    head_refused("outputs", json!(1 << 20), Limit, "outputs, over the limit");
    head_refused("names", json!(["a"]), Structure, "1 names for 3 features");
    head_refused("names", json!("abc"), Schema, "invalid type");
    head_refused("compare", json!("f16"), Value, "`f16` is none of f32 and f64");
    head_refused("transform", json!("logit"), Value, "`logit`");
    head_refused("classes", json!("first"), Value, "`first` is none of");
    head_refused("categories", json!("all"), Value, "`all` is none of");
    head_refused("scale", json!("x"), Schema, "invalid type");
    head_refused("round", json!(3), Structure, "2 trees make no whole number of rounds of 3");
    let nan = Model::minimal().head(json!({"classes": "over"})).head.to_string();
    let nan = nan.replace("\"threshold\":0.0", "\"threshold\":NaN");
    bytes_refused(
        &with_file("fangorn", Some(&Array::U1(nan.clone().into_bytes()).npy())),
        Value,
        "fangorn.threshold",
        "NaN",
    );
    let scale = nan.replace("\"scale\":1.0", "\"scale\":Infinity").replace("NaN", "0");
    bytes_refused(
        &with_file("fangorn", Some(&Array::U1(scale.into_bytes()).npy())),
        Structure,
        "scale",
        "not a finite number",
    );
    for (text, place, cause) in [
        ("{\"format\": 1,, }", "fangorn, line 1, column 14", "expected a name in quotes"),
        ("{\"format\": 1", "fangorn, line 1, column 13", "the text ends"),
        ("[]", "fangorn", "invalid length 0"),
        ("{}", "fangorn", "missing field `format`"),
        ("\u{7f}", "fangorn, line 1, column 1", "expected a value"),
    ] {
        let bytes = with_file("fangorn", Some(&Array::U1(text.into()).npy()));
        let error = refusal(&bytes, &LoadOptions::default());
        assert!(matches!(error.kind(), Syntax | Schema), "{error}");
        assert_eq!(error.place().to_string(), place, "{error}");
        assert!(error.cause().contains(cause), "{error}");
    }
    let pair = Model::minimal()
        .head(json!({"transform": "sigmoid_pair", "outputs": 2}))
        .array("base", Array::F8(vec![0.0; 2]));
    refused(&pair, Structure, "transform", "sigmoid_pair of 2 outputs");
}

#[test]
fn arrays_that_are_missing_or_something_else() {
    for name in Model::minimal().arrays.keys() {
        file_refused(name, None, Schema, "missing array");
        file_refused(name, Some(b""), Schema, "no array of numpy's");
        file_refused(name, Some(b"\x93NUMPY\x01\x00\xff\xff{"), Schema, "no array of numpy's");
    }
    array_refused("left", Array::I8(vec![-1; 6]), Schema, "left", "type <i8, expected <i4");
    array_refused("values", Array::I8(vec![0; 4]), Schema, "values", "type <i8, expected <f8");
    let header = |descr: &str, order: &str, shape: &str| {
        npy(&format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}"), &[0; 8])
    };
    file_refused("base", Some(&header("<f8", "False", "(1, 1)")), Schema, "of shape (1, 1)");
    file_refused("base", Some(&header("<f8", "False", "()")), Schema, "of shape ()");
    file_refused("base", Some(&header("<f8", "True", "(1,)")), Schema, "no array");
    file_refused("base", Some(&header(">f8", "False", "(1,)")), Schema, "type >f8");
    file_refused("base", Some(&header("|O", "False", "(1,)")), Schema, "type |O");
    file_refused("base", Some(&header("<f8", "False", "(2,)")), Syntax, "2 entries of 8 bytes claimed");
    file_refused("base", Some(&header("<f8", "False", "(-1,)")), Schema, "of shape (-1,)");
    let huge = header("<f8", "False", "(18446744073709551615,)");
    file_refused("base", Some(&huge), Syntax, "18446744073709551615 entries");
    file_refused("base", Some(&header("<f8", "False", "(18446744073709551616,)")), Schema, "of shape");
    let mut deep = header("<f8", "False", "(1,)");
    deep[10..100].fill(b'(');
    file_refused("base", Some(&deep), Schema, "no array of numpy's");
    let mut newer = Array::F8(vec![0.0]).npy();
    newer[6] = 3;
    file_refused("base", Some(&newer), Schema, "no array of numpy's");
}

#[test]
fn arrays_whose_lengths_differ() {
    array_refused("right", Array::I4(vec![-1; 5]), Structure, "right", "for 6 nodes");
    array_refused("feature", Array::I4(vec![0; 7]), Structure, "feature", "for 6 nodes");
    array_refused("threshold", Array::F8(vec![]), Structure, "threshold", "for 6 nodes");
    array_refused("missing_left", Array::U1(vec![0; 600]), Structure, "missing_left", "for 6 nodes");
    array_refused("set", Array::I4(vec![-1]), Structure, "set", "for 6 nodes");
    array_refused("values", Array::F8(vec![0.0; 3]), Structure, "values", "for 4 values of leaves");
    array_refused("values", Array::F8(vec![0.0; 5]), Structure, "values", "for 4 values of leaves");
    array_refused("base", Array::F8(vec![0.0; 2]), Structure, "base", "for 1 outputs");
    array_refused("tree_outputs", Array::I4(vec![0; 3]), Structure, "tree_outputs", "for 2 trees");
    array_refused("set_members", Array::I4(vec![1; 3]), Structure, "set_members", "for 2 members");
    array_refused("left", Array::I4(vec![-1; 5]), Structure, "tree_offsets", "trees of 6 nodes");
    for offsets in [vec![], vec![1, 6], vec![0, 5, 4, 6], vec![0, -1, 6], vec![0, i64::MIN], vec![-1, 6]] {
        array_refused("tree_offsets", Array::I8(offsets), Structure, "tree_offsets", "expected ascending");
    }
    let far = Array::I8(vec![0, i64::MAX]);
    array_refused(
        "tree_offsets",
        far.clone(),
        Structure,
        "tree_offsets",
        "trees of 9223372036854775807 nodes",
    );
    array_refused("set_offsets", far, Structure, "set_members", "members of sets");
    array_refused("set_offsets", Array::I8(vec![2, 0]), Structure, "set_offsets", "expected ascending");
}

#[test]
fn nodes_that_make_no_trees() {
    let left = |left: [i32; 6]| Array::I4(left.to_vec());
    let minimal = [1, -1, 3, -1, -1, -1];
    let with = |n: usize, child: i32| {
        let mut changed = minimal;
        changed[n] = child;
        left(changed)
    };
    array_refused("left", with(2, 9), Structure, "tree 0, node 2", "child 9 is out of range");
    array_refused("left", with(2, i32::MAX), Structure, "tree 0, node 2", "out of range");
    array_refused("left", with(2, 0), Structure, "tree 0, node 2", "the root is a child");
    array_refused("left", with(2, 4), Structure, "tree 0, node 2", "child 4 has two parents");
    array_refused("left", with(2, -2), Structure, "left[2]", "children -2 and 4");
    array_refused("right", Array::I4(vec![2, -1, -1, -1, -1, -1]), Structure, "left[2]", "children 3 and -1");
    let alone = Model::minimal().array("left", left([-1; 6])).array("right", left([-1; 6]));
    let alone = alone.array("values", Array::F8(vec![0.0; 6]));
    refused(&alone, Structure, "tree 0", "4 of 5 nodes can't be reached");
    let empty = Model::minimal()
        .array("tree_offsets", Array::I8(vec![0, 5, 5, 6]))
        .array("tree_outputs", Array::I4(vec![0; 3]))
        .head(json!({"round": 0}));
    refused(&empty, Structure, "tree 1", "no nodes, so no root");
    array_refused("tree_outputs", Array::I4(vec![0, 1]), Value, "tree_outputs[1]", "output 1 of 1");
    array_refused("tree_outputs", Array::I4(vec![0, -1]), Value, "tree_outputs[1]", "output -1 of 1");
}

#[test]
fn numbers_out_of_their_range() {
    let feature = |f: i32| Array::I4(vec![0, 0, f, 0, 0, 0]);
    array_refused("feature", feature(3), Value, "feature[2]", "feature 3 of 3");
    array_refused("feature", feature(-2), Value, "feature[2]", "feature -2 of 3");
    let set = |s: i32| Array::I4(vec![-1, -1, s, -1, -1, -1]);
    array_refused("set", set(1), Value, "set[2]", "category set 1 of 1");
    array_refused("set", set(-2), Value, "set[2]", "of 1");
    let missing = Array::U1(vec![1, 0, 2, 0, 0, 0]);
    array_refused("missing_left", missing, Value, "missing_left[2]", "2 is neither 0");
    for member in [-1, 1 << 24, i32::MIN, i32::MAX] {
        array_refused("set_members", Array::I4(vec![1, member]), Value, "set_members[1]", "is not from 0");
    }
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let values = Array::F8(vec![0.0, 0.0, value, 0.0]);
        array_refused("values", values, Value, "values[2]", "a leaf of");
        array_refused("base", Array::F8(vec![value]), Structure, "base_score", "not a finite number");
    }
}

#[test]
fn files_that_ask_for_too_much() {
    let with = |change: &dyn Fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        LoadOptions { limits, ..Default::default() }
    };
    let bytes = Model::minimal().bytes();
    let limited = |change: &dyn Fn(&mut Limits), place: &str, cause: &str, remedy: &str| {
        refused_with(&bytes, &with(change), Limit, place, cause);
        let error = refusal(&bytes, &with(change));
        assert_eq!(error.remedy(), format!("raise `Limits::{remedy}` if you trust the file"));
    };
    limited(&|l| l.trees = 1, "tree_offsets", "over the limit of 2", "trees");
    limited(&|l| l.nodes = 5, "left", "over the limit of 5", "nodes");
    limited(&|l| l.depth = 1, "tree 0", "2 depth, over the limit of 1", "depth");
    limited(&|l| l.features = 2, "fangorn.features", "3 features, over", "features");
    limited(&|l| l.outputs = 0, "fangorn.outputs", "1 outputs, over", "outputs");
    limited(&|l| l.category_words = 0, "set_offsets", "over the limit of 1", "category_words");
    limited(&|l| l.string_bytes = 1, "fangorn", "over the limit of 64", "string_bytes");
    limited(&|l| l.file_bytes = 10, "model", "over the limit of 10", "file_bytes");
    let wide = Model::minimal().array("set_members", Array::I4(vec![1, 3200])).bytes();
    let words = with(&|l| l.category_words = 100);
    refused_with(&wide, &words, Limit, "set_members[0]", "101 category words");
    let long = Model::minimal().head(json!({"names": ["a", "b", "c".repeat(100)]})).bytes();
    refused_with(
        &long,
        &with(&|l| l.string_bytes = 64),
        Syntax,
        "fangorn, line 1, column 153",
        "a string of",
    );
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
    bytes_refused(&bomb("threshold"), Structure, "threshold", "for 6 nodes");
    let limits = Limits { file_bytes: 1 << 20, ..Default::default() };
    let options = LoadOptions { limits, ..Default::default() };
    refused_with(&bomb("values"), &options, Limit, "values", "over the limit of 1048576");
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
    bytes_refused(&change(left + 46, b"base"), Structure, "base", "stands in the file twice");
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
                (_, Some(place)) => *place = $value,
                _ => {}
            }
        }};
    }
    match array {
        Array::U1(values) => change!(values, whole as u8),
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
    for round in 0..3000 {
        let mut model = Model::minimal();
        for _ in 0..1 + random.below(3) {
            mutate_array(&mut model, &mut random);
        }
        check(&model.bytes(), round);
    }
    for round in 0..3000 {
        let mut files = Model::minimal().files();
        // Inside a file, and the archive made of it is whole.
        let file = random.below(files.len());
        mutate(&mut files[file].1, &mut random);
        check(&zip(&files, Zip::Deflated), round);
    }
    for round in 0..3000 {
        let zipped = [Zip::Stored, Zip::Deflated, Zip::Wide][round % 3];
        let mut bytes = zip(&Model::minimal().files(), zipped);
        for _ in 0..1 + random.below(3) {
            mutate(&mut bytes, &mut random);
        }
        check(&bytes, round);
    }
    assert!(tally.loaded > 500 && tally.refused > 4000, "{tally:?}");
}
