//! Names files that are no model, so that a refusal says what the file is and what to give instead.

use std::io::Read;

use flate2::read::{GzDecoder, ZlibDecoder};

use super::json::Reader;
use super::{ErrorKind, ImportError, Location, sklearn};

/// The remedy for JSON that is no model.
const JSON_REMEDY: &str = "give the model's own file: of JSON, XGBoost's (save_model('model.json')) and CatBoost's \
    (save_model('model.json', format='json')) are read";

/// The remedy for a pickle.
const PICKLE_REMEDY: &str = "save the model in its library's own format, or write a scikit-learn estimator as .npz: \
    python3 scripts/export_sklearn.py model.joblib model.npz";

/// The remedy for a file of an unknown format.
const UNKNOWN_REMEDY: &str = "save an XGBoost model with Booster.save_model('model.ubj'), a LightGBM model with \
    save_model('model.txt'), a CatBoost model with save_model('model.json', format='json'); ONNX graphs, treelite \
    checkpoints and scikit-learn's .npz by our exporter are read too";

/// The opening bytes of each compression that joblib uses, and its name.
const COMPRESSED: [(&[u8], &str); 11] = [
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x5d\0\0", "lzma"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x78\x01", "zlib"),
    (b"\x78\x5e", "zlib"),
    (b"\x78\x9c", "zlib"),
    (b"\x78\xda", "zlib"),
    (b"ZF0x", "zlib"),
];

/// The number of bytes to inflate of a compressed file: the first header of a tar archive.
const INFLATED: u64 = 512;

/// The number of names that a message lists.
const LISTED: usize = 5;

fn refused(cause: impl AsRef<str>, remedy: impl Into<String>) -> ImportError {
    ImportError::new(ErrorKind::Format, Location::File, cause).with_remedy(remedy)
}

/// Returns the refusal of a file that begins like no format that can be read.
pub(super) fn refusal(bytes: &[u8]) -> ImportError {
    let text = bytes.trim_ascii_start();
    if text.starts_with(b"booster[") || is_tree_dump(text) {
        return refused(
            "this looks like a dump of the trees, which lacks the objective and the base score",
            "save the model itself with Booster.save_model('model.ubj') instead of Booster.dump_model",
        );
    }
    if is_pickle(bytes) {
        return refused("this is a pickle, which is a program and is never run", PICKLE_REMEDY);
    }
    if is_tar(bytes) {
        return refused("this is a tar archive", "unpack it, and give the model's own file");
    }
    let named = compressed(bytes).or_else(|| json_value(text));
    named.unwrap_or_else(|| refused("the file is no model of a known format", UNKNOWN_REMEDY))
}

fn is_pickle(bytes: &[u8]) -> bool {
    matches!(bytes, [0x80, 2..=9, ..])
}

fn is_tar(bytes: &[u8]) -> bool {
    bytes.get(257..).is_some_and(|magic| magic.starts_with(b"ustar"))
}

/// Returns whether a JSON text is the result of XGBoost's `dump_model`: an array of trees, each its root's node.
fn is_tree_dump(json: &[u8]) -> bool {
    let Some(first) = json.strip_prefix(b"[").map(<[u8]>::trim_ascii_start) else { return false };
    if !first.starts_with(b"{") {
        return false;
    }
    let keys = keys(first);
    let has = |name: &str| keys.iter().any(|key| key == name);
    has("nodeid") && (has("leaf") || has("split") || has("children"))
}

/// Returns the refusal of a JSON text that is no object, or `None` if the text is not JSON.
fn json_value(json: &[u8]) -> Option<ImportError> {
    let what = match json.first()? {
        b'[' => "a JSON array",
        b'"' => "a JSON string",
        b'-' | b'0'..=b'9' => "a JSON number",
        b't' | b'f' => "a JSON boolean",
        b'n' => "the JSON value null",
        _ => return None,
    };
    let mut reader = Reader::new(json, usize::MAX);
    reader.skip().and_then(|()| reader.finish()).ok()?;
    Some(refused(format!("no model: {what}"), JSON_REMEDY))
}

/// Returns the refusal of a compressed file, or `None` if the file is not compressed.
fn compressed(bytes: &[u8]) -> Option<ImportError> {
    let (magic, with) = COMPRESSED.iter().find(|(magic, _)| bytes.starts_with(magic))?;
    let first = match (*with, magic[0]) {
        ("gzip", _) => inflated(GzDecoder::new(bytes)),
        ("zlib", b'x') => inflated(ZlibDecoder::new(bytes)),
        _ => Vec::new(),
    };
    if is_tar(&first) {
        let cause = format!("this is a tar archive, compressed with {with}");
        return Some(refused(cause, "unpack it, and give the model's own file"));
    }
    // Two bytes tell a pickle.
    if first.len() >= 2 && !is_pickle(&first) {
        return Some(refused(format!("this is a {with} file, and fangorn unpacks none"), "unpack it first"));
    }
    let cause = format!(
        "this is compressed with {with}, as joblib writes a pickle, which is a program and is never run"
    );
    match is_pickle(&first) {
        true => Some(refused(cause, PICKLE_REMEDY)),
        false => Some(refused(cause, format!("unpack it first if it is no pickle, or {PICKLE_REMEDY}"))),
    }
}

/// Returns the first bytes that a decoder reads, up to the first error.
fn inflated(decoder: impl Read) -> Vec<u8> {
    let mut first = Vec::new();
    let _ = decoder.take(INFLATED).read_to_end(&mut first);
    first
}

/// If the JSON is no XGBoost model, replaces a schema error by one that lists the object's first fields.
pub(super) fn name_foreign_json(error: ImportError, bytes: &[u8]) -> ImportError {
    let keys = keys(bytes);
    let inner = bytes.trim_ascii().strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
    if inner.is_some_and(|inner| inner.trim_ascii().is_empty()) {
        return refused("no model: an empty JSON object", JSON_REMEDY);
    }
    // A damaged file keeps its own error, since its first fields do not tell what it is. So does an XGBoost
    // model that lacks a field.
    let of_xgboost = keys.iter().all(|key| key == "version") || keys.iter().any(|key| key == "learner");
    if of_xgboost || error.kind() != ErrorKind::Schema {
        return error;
    }
    refused(format!("no model: a JSON object with the fields {}", first_of(&keys)), JSON_REMEDY)
}

/// Returns the first names with commas between them, and a mark if there are more.
fn first_of(names: &[String]) -> String {
    let first = &names[..names.len().min(LISTED)];
    format!("{}{}", first.join(", "), if names.len() > first.len() { ", …" } else { "" })
}

/// If a zip archive holds no arrays, replaces the error of the importer of arrays by one that says what the
/// archive is.
pub(super) fn name_foreign_zip(error: ImportError, bytes: &[u8]) -> ImportError {
    let names = sklearn::archive::names(bytes);
    let holds = |file: &str| names.iter().any(|name| file_name(name) == file);
    if names.is_empty() || holds("fangorn.npy") {
        error
    } else if let Some(model) = names.iter().find(|name| is_model_name(name)) {
        refused(format!("a zip archive that holds {model}"), "unpack it, and give the model's own file")
    } else if holds("data.pkl") {
        refused(
            "this is a file of PyTorch, which holds a pickle: a program, which is never run",
            "give a decision forest, in the format of the library that trained it",
        )
    } else if holds("schema.json") {
        refused(
            "this is a skops file, which is not supported",
            "load it with skops.io.load, and write the estimator as .npz with `export` of scripts/export_sklearn.py",
        )
    } else if names.iter().any(|name| name.starts_with("xl/")) {
        refused(
            "no model: an Excel workbook",
            "give a model's file; rows are given to --rows, as CSV or Parquet",
        )
    } else if names.iter().any(|name| name.ends_with(".npy")) {
        error
    } else {
        refused(
            format!("no model: a zip archive with the files {}", first_of(&names)),
            "give the model's own file: of zip archives, only .npz files of scripts/export_sklearn.py are read",
        )
    }
}

/// Returns the last name of a path in an archive.
fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Returns whether a file in an archive has a model's name.
fn is_model_name(path: &str) -> bool {
    let name = file_name(path);
    match name.rsplit_once('.') {
        // macOS writes `._model.json` beside `model.json`.
        _ if name.starts_with('.') => false,
        Some((_, "ubj" | "onnx" | "fangorn" | "npz")) => true,
        Some((stem, "json" | "txt")) => stem.contains("model"),
        _ => false,
    }
}

/// Returns the names of the first fields of a JSON object, with escapes left as they are.
pub(super) fn keys(json: &[u8]) -> Vec<String> {
    const MOST: usize = 32;
    let (mut keys, mut depth, mut at) = (Vec::new(), 0usize, 0);
    while at < json.len() && keys.len() < MOST {
        match json[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    break;
                }
            }
            b'"' => {
                let start = at + 1;
                at = start;
                while at < json.len() && json[at] != b'"' {
                    at += 1 + usize::from(json[at] == b'\\');
                }
                let end = at.min(json.len());
                let after = json.get(end + 1..).unwrap_or_default().trim_ascii_start();
                if depth == 1 && after.first() == Some(&b':') {
                    keys.push(String::from_utf8_lossy(&json[start..end]).into_owned());
                }
            }
            _ => {}
        }
        at += 1;
    }
    keys
}
