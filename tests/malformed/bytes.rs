//! Bytes that are no document, documents cut short or changed at random, and one that is as deep as it is long.

use std::{fmt::Write as _, io::Write as _};

use fangorn::import::{
    ErrorKind::{self, Schema},
    Format, Limits, LoadOptions, Location, load, parse, parse_as,
};
use serde_json::json;

use crate::{
    MODEL, both, minimal,
    mutate::{KINDS, NUMBERS, Random, Tally, mutate_bytes, replace_number, zoo},
    refusal, ubjson, with,
};

/// Bytes that are refused before there is a document: the location, and what is in the cause.
#[track_caller]
fn bytes_refused(bytes: impl AsRef<[u8]>, kind: ErrorKind, location: &str, cause: &str) {
    let error = refusal(bytes.as_ref(), &LoadOptions::default());
    assert_eq!((error.kind(), &*error.location().to_string()), (kind, location), "{error}");
    assert!(error.cause().contains(cause), "`{cause}` is not in: {error}");
}

#[test]
fn files_of_another_format() {
    use ErrorKind::Format;
    bytes_refused("", Format, "model", "the file is empty");
    bytes_refused(" \n ", Format, "model", "the file is empty");
    bytes_refused(b"binf\x00\x00\x00\x3f", Format, "model", "old binary format");
    bytes_refused(b"\x00\x00\x00\x3f\x1c\x00\x00\x00", Format, "model", "no model of a known format");
    let compressed: [(&[u8], &str); 6] = [
        (b"\x1f\x8b\x08\0", "gzip"),
        (b"\x78\x9c\x6b\x60", "zlib"),
        (b"BZh91AY", "bzip2"),
        (b"\xfd7zXZ\0\0\x04", "xz"),
        (b"\x5d\0\0\x80\0", "lzma"),
        (b"\x04\x22\x4d\x18\x44", "lz4"),
    ];
    for (bytes, with) in compressed {
        bytes_refused(bytes, Format, "model", &format!("compressed with {with}, as joblib writes a pickle"));
        assert!(refusal(bytes, &LoadOptions::default()).remedy().contains("export_sklearn.py"));
    }
    let package = r#"{"name": "app", "version": "1.0.0", "dependencies": {"learner": "1"}}"#;
    bytes_refused(package, Format, "model", "a JSON object with the fields name, version, dependencies");
    let dump = r#"{"name": "tree", "version": "v4", "num_class": 1}"#;
    bytes_refused(dump, Format, "model", "LightGBM's dump");
    bytes_refused(
        b"\x08\x04\x12\x0c\x0a\x0a\x0a\x03age\x1a\x03\x12\x01\0",
        Format,
        "model",
        "a CoreML model",
    );
    let names = b"\x0f\0\0\0\0\0\0\0binary:logistic\x06\0\0\0\0\0\0\0gbtree";
    bytes_refused([&[0; 136][..], names].concat(), Format, "model", "old binary format");
    bytes_refused(b"CBM1\x00\x00", Format, "model", "CatBoost's binary format");
    bytes_refused(b"\x80\x04\x95", Format, "model", "a pickle");
    bytes_refused(b"{L\0\0\0\0\0\0\0\x01aZ}", Schema, "model", "missing field `learner`");
}

#[test]
fn text_that_is_no_model_is_named() {
    use ErrorKind::Format;
    let split = r#"[{ "nodeid": 0, "depth": 0, "split": "f2", "children": [{ "nodeid": 1, "leaf": 0.5 }] }]"#;
    for dump in ["[\n  { \"nodeid\": 0, \"leaf\": 0.5 }\n]", split, "booster[0]:\n0:leaf=0.5\n"] {
        bytes_refused(dump, Format, "model", "a dump of the trees");
    }
    for (json, what) in [
        ("[]", "no model: a JSON array"),
        (" [1, 2, 3]\n", "no model: a JSON array"),
        ("[{\"age\": 1}, {\"nodeid\": 1, \"leaf\": 2}]", "no model: a JSON array"),
        ("null", "no model: the JSON value null"),
        ("true", "no model: a JSON boolean"),
        ("3", "no model: a JSON number"),
        ("-2.5e3\n", "no model: a JSON number"),
        ("\"x\"", "no model: a JSON string"),
        ("{}", "no model: an empty JSON object"),
        (" { }\n", "no model: an empty JSON object"),
    ] {
        bytes_refused(json, Format, "model", what);
        assert!(refusal(json.as_bytes(), &LoadOptions::default()).remedy().contains("own file"), "{json}");
    }
    for other in ["[a]\nb = 1\n", "[package]", "[1, 2", "3 1:0.5\n", "\"a\",\"b\"\n1,2\n", "nul", "-"] {
        bytes_refused(other, Format, "model", "no model of a known format");
    }
    let objects = [("\"x\"", "string \"x\""), ("null", "null"), ("[]", "an array"), ("[1]", "integer `1`")];
    for (value, found) in objects {
        let error = refusal(format!("{{\"learner\": {value}}}").as_bytes(), &LoadOptions::default());
        assert_eq!(error.kind(), Schema, "{error}");
        assert!(error.location().to_string().starts_with("learner"), "{error}");
        assert!(error.cause().starts_with(&format!("invalid type: {found}, expected an object")), "{error}");
    }
}

/// Returns the bytes in gzip's format and in zlib's.
fn deflated(bytes: &[u8]) -> [(&'static str, Vec<u8>); 2] {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).expect("memory");
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    zlib.write_all(bytes).expect("memory");
    [("gzip", gzip.finish().expect("memory")), ("zlib", zlib.finish().expect("memory"))]
}

#[test]
fn compressed_files_and_archives_are_to_be_unpacked() {
    use ErrorKind::Format;
    let remedy = |bytes: &[u8]| refusal(bytes, &LoadOptions::default()).remedy().to_owned();
    let model = minimal().to_string().repeat(100);
    let mut tar = b"model.json".to_vec();
    tar.resize(257, 0);
    tar.extend(b"ustar\x0000");
    tar.resize(1024, 0);
    bytes_refused(&tar, Format, "model", "this is a tar archive");
    for (with, bytes) in deflated(model.as_bytes()) {
        bytes_refused(&bytes, Format, "model", &format!("this is a {with} file"));
        assert_eq!(remedy(&bytes), "unpack it first");
        // The first bytes tell, whatever becomes of the others.
        bytes_refused(&bytes[..bytes.len() / 2], Format, "model", &format!("this is a {with} file"));
    }
    for (with, bytes) in deflated(&tar) {
        bytes_refused(&bytes, Format, "model", &format!("a tar archive, compressed with {with}"));
        assert!(remedy(&bytes).starts_with("unpack it"), "{with}");
    }
    for (with, bytes) in deflated(b"\x80\x04\x95\x0b\0\0\0") {
        bytes_refused(&bytes, Format, "model", &format!("compressed with {with}, as joblib writes a pickle"));
        assert!(remedy(&bytes).starts_with("save the model"), "{with}");
    }
    // Where the content can't be seen, both are said.
    assert!(remedy(b"BZh91AY").starts_with("unpack it first if it is no pickle, or save the model"));
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
        "a count of 9 items, but the file has 3 bytes left",
    );
    bytes_refused(b"{L\xff\xff\xff\xff\xff\xff\xff\xffabc", Syntax, "byte 1", "a count of -1 items");
    bytes_refused(file(b""), Syntax, "byte 11", "the file ends too soon");
    bytes_refused(file(b"?"), Syntax, "byte 11", "marker `?`, but a value is expected");
    bytes_refused(file(b"H"), Syntax, "byte 11", "marker `H`");
    bytes_refused(
        file(b"[$d#L\0\0\0\0\x40\0\0\0"),
        Syntax,
        "byte 15",
        "a count of 1073741824 items, but the file has 0 bytes",
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
        "marker `T`, but the type of numbers or strings",
    );
    bytes_refused(file(b"[$[#U\x05"), Syntax, "byte 13", "marker `[`");
    bytes_refused(file(b"[$d"), Syntax, "byte 14", "a type without a count");
    bytes_refused(file(b"[#d\0\0\0\0"), Syntax, "byte 13", "marker `d`, but an integer is expected");
    bytes_refused(file(b"SU\x02\xff\xfe}"), Schema, "model", "missing field `learner`");
    bytes_refused(b"{L\0\0\0\0\0\0\0\x01\xffZ}", Syntax, "byte 1", "not UTF-8");
    for open in [&b"["[..], &[b"{", &name("a")[..]].concat()] {
        let location = format!("byte {}", 12 + 63 * open.len());
        bytes_refused(file(&open.repeat(100_000)), Syntax, &location, "nest more than 64 deep");
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
    assert_eq!(error.location(), &Location::Field("learner.gradient_booster.model.trees[0]".into()));
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

#[test]
fn a_byte_order_mark_before_text_is_skipped() {
    for model in ["base-score-given/model.json", "catboost-rmse/model.json", "lightgbm-binary/model.txt"] {
        let file = format!("{}/tests/zoo/{model}", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(&file).expect(&file);
        let marked = [b"\xef\xbb\xbf", &bytes[..]].concat();
        let [plain, marked] =
            [bytes, marked].map(|bytes| parse(&bytes, &LoadOptions::default()).expect(&file));
        assert_eq!(plain.to_text(), marked.to_text(), "{model}");
        // So does the parser that is told the format.
        let bytes = std::fs::read(&file).expect(&file);
        let format = Format::of(&bytes).expect(&file);
        let marked = [b"\xef\xbb\xbf", &bytes[..]].concat();
        assert_eq!(Format::of(&marked), Ok(format), "{model}");
        let told = parse_as(format, &marked, &LoadOptions::default()).expect(&file);
        assert_eq!(told.to_text(), plain.to_text(), "{model}");
    }
    // A mark alone makes no text.
    assert!(parse(b"\xef\xbb\xbf\x08\x07", &LoadOptions::default()).is_err());
}
