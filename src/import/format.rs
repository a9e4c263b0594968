//! Tells the format of a file by its content, since file names say little.

use super::{ErrorKind, ImportError, Location, foreign};

/// A format of model files that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Fangorn's own file, `.fangorn`.
    Fangorn,
    /// XGBoost's JSON, `.json`.
    XgboostJson,
    /// XGBoost's UBJSON, `.ubj`.
    XgboostUbjson,
    /// LightGBM's text format.
    LightGbm,
    /// CatBoost's JSON, `.json`.
    CatBoost,
    /// An ONNX graph.
    Onnx,
    /// A checkpoint of treelite.
    Treelite,
    /// The arrays that `scripts/export_sklearn.py` writes for a scikit-learn estimator, `.npz`.
    ScikitLearn,
}

/// The top-level fields of CatBoost's JSON. A file begins with one of them.
const CATBOOST: [&[u8]; 6] =
    [b"ctr_data", b"features_info", b"model_info", b"oblivious_trees", b"scale_and_bias", b"trees"];

/// Returns the bytes after a UTF-8 byte-order mark, which editors on Windows put before text. Returns `bytes`
/// unchanged if there is no mark, or if what comes after it is not the start of a text format.
pub(super) fn text(bytes: &[u8]) -> &[u8] {
    match bytes.strip_prefix(b"\xef\xbb\xbf") {
        Some(text @ [b'{' | b't' | b'\r' | b'\n' | b' ' | b'\t', ..]) => text,
        _ => bytes,
    }
}

impl Format {
    /// Returns whether a file of the format may hold a [graph](crate::graph) that is more than one forest.
    pub fn has_graphs(self) -> bool {
        matches!(self, Self::Onnx | Self::LightGbm | Self::ScikitLearn)
    }

    /// Tells the format of a file from its bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Format`] if the bytes are the start of no format that can be read. If another known
    /// format begins like this, the error names it.
    pub fn of(bytes: &[u8]) -> Result<Self, ImportError> {
        let bytes = text(bytes);
        let unknown = |cause: &str, remedy: &str| {
            Err(ImportError::new(ErrorKind::Format, Location::File, cause).with_remedy(remedy))
        };
        let start = bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(bytes.len());
        match &bytes[start..] {
            [] => unknown("the file is empty", "save the model again with the library that trained it"),
            // JSON and UBJSON models of XGBoost both open with `{`. The marker after the brace tells UBJSON.
            [b'{', b'i' | b'U' | b'I' | b'l' | b'L' | b'#' | b'$' | b'N', ..] if start == 0 => {
                Ok(Self::XgboostUbjson)
            }
            [b'{', fields @ ..] if CATBOOST.contains(&first_key(fields)) => Ok(Self::CatBoost),
            [b'{', fields @ ..] if first_key(fields) == b"name" && is_lightgbm_dump(bytes) => unknown(
                "this looks like LightGBM's dump of a model, which lacks what becomes of a sum",
                "save the model itself with Booster.save_model('model.txt') instead of Booster.dump_model",
            ),
            [b'{', ..] => Ok(Self::XgboostJson),
            [b't', b'r', b'e', b'e', b'\n' | b'\r', ..] => Ok(Self::LightGbm),
            _ if bytes.starts_with(&super::fangorn::MAGIC) => Ok(Self::Fangorn),
            _ if is_coreml(bytes) => unknown(
                "this is a CoreML model, which is not supported",
                "save the model that it was made from, in the format of the library that trained it",
            ),
            _ if bytes.starts_with(b"PK\x03\x04") => Ok(Self::ScikitLearn),
            // A checkpoint opens with three version numbers of 32 bits, then the types of thresholds and
            // leaves.
            [major @ 3..=9, 0, 0, 0, _, 0, 0, 0, _, 0, 0, 0, 0..=9, 0..=9, ..]
                if start == 0 && *major == bytes[0] =>
            {
                Ok(Self::Treelite)
            }
            // Every writer of ONNX puts the version of the format first, a varint below 128.
            [0x08, 1..=127, ..] => Ok(Self::Onnx),
            [b'C', b'B', b'M', b'1', ..] => unknown(
                "this is CatBoost's binary format, which is not supported",
                "save the model with save_model('model.json', format='json')",
            ),
            _ if is_old_xgboost(bytes) => unknown(
                "this is XGBoost's old binary format, which is not supported",
                "load it in the XGBoost that wrote it (3.0 is the last to read it) and save it with Booster.save_model('model.json')",
            ),
            _ => Err(foreign::refusal(bytes)),
        }
    }

    /// Returns the format's name in messages and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fangorn => "fangorn",
            Self::XgboostJson => "XGBoost JSON",
            Self::XgboostUbjson => "XGBoost UBJSON",
            Self::LightGbm => "LightGBM text",
            Self::CatBoost => "CatBoost JSON",
            Self::Onnx => "ONNX",
            Self::Treelite => "treelite checkpoint",
            Self::ScikitLearn => "scikit-learn npz",
        }
    }

    /// Returns what a file of the format is, as a noun with its article.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Fangorn => "a .fangorn file",
            Self::XgboostJson => "an XGBoost model (JSON)",
            Self::XgboostUbjson => "an XGBoost model (UBJSON)",
            Self::LightGbm => "a LightGBM model",
            Self::CatBoost => "a CatBoost model (JSON)",
            Self::Onnx => "an ONNX model",
            Self::Treelite => "a treelite checkpoint",
            Self::ScikitLearn => "a scikit-learn .npz file",
        }
    }
}

/// Returns whether a JSON object is the result of LightGBM's `dump_model`. A first field `name` is not enough
/// to tell, since other objects begin with it too.
fn is_lightgbm_dump(bytes: &[u8]) -> bool {
    foreign::keys(bytes).iter().any(|key| ["num_class", "tree_info"].contains(&key.as_str()))
}

/// Returns whether this is CoreML's `.mlmodel`, or an `.mlpackage` in a zip.
fn is_coreml(bytes: &[u8]) -> bool {
    // In CoreML the field after the version is a description, which begins with its first column. In ONNX
    // that field is the producer's name.
    if let [0x08, 1..=127, 0x12, rest @ ..] = bytes {
        let length = rest.iter().take_while(|b| **b >= 0x80).count() + 1;
        return rest.get(length) == Some(&0x0a);
    }
    let name =
        bytes.get(26..28).and_then(|at| bytes.get(30..30 + usize::from(at[0]) + 256 * usize::from(at[1])));
    let holds = |text: &str| name.is_some_and(|name| name.windows(text.len()).any(|w| w == text.as_bytes()));
    bytes.starts_with(b"PK\x03\x04") && [".mlpackage", "com.apple.CoreML"].into_iter().any(holds)
}

/// Returns whether the file is in XGBoost's binary format from before JSON. Such a file opens with `binf`, or
/// with 136 bytes of numbers and then the names of objective and booster, each after its length in 64 bits.
fn is_old_xgboost(bytes: &[u8]) -> bool {
    let name = |at: usize| -> Option<(&[u8], usize)> {
        let length = u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
        let end = at.checked_add(8)?.checked_add(usize::try_from(length).ok()?)?;
        Some((bytes.get(at + 8..end)?, end))
    };
    let booster = || name(name(136)?.1);
    bytes.starts_with(b"binf")
        || booster().is_some_and(|(name, _)| [&b"gbtree"[..], b"dart", b"gblinear"].contains(&name))
}

/// Returns the name of an object's first field, or nothing if there is none. The names that tell a format
/// contain no escapes.
fn first_key(fields: &[u8]) -> &[u8] {
    let start = fields.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(fields.len());
    let Some((b'"', key)) = fields[start..].split_first() else { return &[] };
    &key[..key.iter().position(|b| *b == b'"').unwrap_or(0)]
}
