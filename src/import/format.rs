//! Which format a file is of: told by its content, since names say little.

use super::{ErrorKind, ImportError, Place, error};

/// A format that models are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Our own `.fangorn`.
    Fangorn,
    /// XGBoost's `.json`.
    XgboostJson,
    /// XGBoost's `.ubj`.
    XgboostUbjson,
    /// LightGBM's text.
    LightGbm,
    /// CatBoost's `.json`.
    CatBoost,
    /// An ONNX graph.
    Onnx,
    /// treelite's checkpoint.
    Treelite,
    /// The arrays that our exporter writes of a scikit-learn estimator, `.npz`.
    ScikitLearn,
}

/// The fields at the top of CatBoost's JSON, one of which is first.
const CATBOOST: [&[u8]; 6] =
    [b"ctr_data", b"features_info", b"model_info", b"oblivious_trees", b"scale_and_bias", b"trees"];

impl Format {
    /// The format of a file with these bytes.
    ///
    /// # Errors
    /// Bytes that no known format begins with; what looks like one that can't be read is named.
    pub fn of(bytes: &[u8]) -> Result<Self, ImportError> {
        let unknown = |cause: &str, remedy: &str| {
            Err(ImportError::new(ErrorKind::Format, Place::File, cause).with_remedy(remedy))
        };
        let start = bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(bytes.len());
        match &bytes[start..] {
            [] => unknown("the file is empty", error::SAVE_AGAIN),
            // Both encodings of an XGBoost model open with `{`.
            [b'{', b'i' | b'U' | b'I' | b'l' | b'L' | b'#' | b'$' | b'N', ..] if start == 0 => {
                Ok(Self::XgboostUbjson)
            }
            [b'{', fields @ ..] if CATBOOST.contains(&first_key(fields)) => Ok(Self::CatBoost),
            [b'{', fields @ ..] if first_key(fields) == b"name" => unknown(
                "this looks like LightGBM's dump of a model, which lacks what becomes of a sum",
                "save the model itself with Booster.save_model('model.txt') instead of Booster.dump_model",
            ),
            [b'{', ..] => Ok(Self::XgboostJson),
            [b't', b'r', b'e', b'e', b'\n' | b'\r', ..] => Ok(Self::LightGbm),
            _ if bytes.starts_with(&super::fangorn::MAGIC) => Ok(Self::Fangorn),
            _ if bytes.starts_with(b"PK\x03\x04") => Ok(Self::ScikitLearn),
            // Three versions of 32 bits, then the types of thresholds and leaves.
            [major @ 3..=9, 0, 0, 0, _, 0, 0, 0, _, 0, 0, 0, 0..=9, 0..=9, ..]
                if start == 0 && *major == bytes[0] =>
            {
                Ok(Self::Treelite)
            }
            // The version of the format, a varint below 128, is the first field that anybody writes.
            [0x08, 1..=127, ..] => Ok(Self::Onnx),
            [b'C', b'B', b'M', b'1', ..] => unknown(
                "this is CatBoost's binary format, which is not supported",
                "save the model with save_model('model.json', format='json')",
            ),
            [b'[', ..] => unknown(
                "this looks like a dump of the trees, which lacks the objective and the base score",
                "save the model itself with Booster.save_model('model.ubj') instead of Booster.dump_model",
            ),
            _ if is_old_xgboost(bytes) => unknown(
                "this is XGBoost's old binary format, which is not supported",
                "load it in the XGBoost that wrote it (3.0 is the last to read it) and save it with Booster.save_model('model.json')",
            ),
            [0x80, 2..=9, ..] => unknown(
                "this is a pickle, which is a program and is never run",
                "save the model in its library's own format, or write a scikit-learn estimator as .npz with the exporter that comes with fangorn",
            ),
            _ => unknown(
                "the file is no model of a known format",
                "save an XGBoost model with Booster.save_model('model.ubj'), a LightGBM model with save_model('model.txt'), a CatBoost model with save_model('model.json', format='json'); ONNX graphs, treelite checkpoints and scikit-learn's .npz by our exporter are read too",
            ),
        }
    }

    /// The name in messages and tables.
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
}

/// XGBoost's binary format before JSON: `binf`, or 136 bytes of numbers, and then the names of objective and booster, each
/// after its length in 64 bits.
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

/// The name of an object's first field, which has nothing escaped in the formats that are told by it.
fn first_key(fields: &[u8]) -> &[u8] {
    let start = fields.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(fields.len());
    let Some((b'"', key)) = fields[start..].split_first() else { return &[] };
    &key[..key.iter().position(|b| *b == b'"').unwrap_or(0)]
}
