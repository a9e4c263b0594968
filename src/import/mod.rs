//! Reads model files into [`Forest`]s.
//!
//! This folder knows file formats, their versions and their quirks, and nothing of schedules or backends. It does
//! not trust the bytes that it reads. It returns a [`Forest`] that verifies, or an [`ImportError`] of one line that
//! names the location, the cause and the remedy. Nothing here panics. No file decides how deep a recursion goes, or
//! how much is allocated for lengths that the file only claims: [`Limits`] bound both.
//!
//! | file | subject |
//! |---|---|
//! | `format` | tells the format of a file by its content |
//! | `foreign` | names files that are no model |
//! | `json`, `ubjson` | the syntax of two encodings of one data model |
//! | `document` | one `serde` deserialiser for both |
//! | `decode` | decodes a document, and names the location of a failure |
//! | `xgboost` | XGBoost's models, in either encoding |
//! | `lightgbm` | LightGBM's text format |
//! | `catboost` | CatBoost's JSON |
//! | `onnx` | tree ensembles of ONNX-ML |
//! | `treelite` | treelite's checkpoints |
//! | `sklearn` | files that our exporter writes for scikit-learn's estimators |
//! | `fangorn` | Fangorn's own file, read and written |
//! | `budget` | counts what a file asks for, and verifies the finished forest |
//! | `limits`, `error` | bounds on what a file may ask for, and the error of an import |

mod budget;
mod catboost;
mod decode;
mod document;
mod error;
pub(crate) mod fangorn;
mod foreign;
mod format;
mod json;
mod lightgbm;
mod limits;
pub mod onnx;
mod sklearn;
mod treelite;
mod ubjson;
mod xgboost;

use std::io::Read;
use std::ops::Range;
use std::path::Path;

pub use error::{ErrorKind, ImportError, Location};
pub use format::Format;
pub use limits::Limits;

use crate::{Error, Forest, graph::Graph};

/// Options for reading a model file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// How much the file may ask for.
    pub limits: Limits,
    /// The boosting rounds to keep, as in XGBoost's `iteration_range`: an end of 0 means the last round.
    /// `None` keeps every round, even if early stopping wrote a best round into the file.
    pub iteration_range: Option<Range<u32>>,
    /// Whether the caller makes each row with [`Feature::codes`](crate::forest::Feature::codes), so that
    /// categories may be texts. If it is false, a model whose splits ask for texts is refused, since no
    /// number in a row could match them.
    pub raw_categories: bool,
    /// Whether to read how much each split improved the objective, if the file says so (XGBoost, LightGBM). Only
    /// [importances](crate::insight::SplitImportances) need these [gains](crate::forest::Gains), and they take 8
    /// bytes a node.
    pub gains: bool,
}

/// The remedy for a model whose categories are texts.
const RAW_CATEGORIES: &str = "predict rows that are CSV; in Rust set `LoadOptions::raw_categories`, and make rows with \
    `Feature::codes`";

/// Reads a model file.
///
/// Tells the format by the file's content. The file's name does not matter.
///
/// # Errors
/// [`Error::Io`] if the file can't be read. [`Error::Import`], which names the file, for everything that
/// [`parse`] refuses.
pub fn load(path: &Path, options: &LoadOptions) -> Result<Forest, Error> {
    load_with(path, options, |bytes| parse(bytes, options))
}

/// Reads a graph: an ONNX file of classical operators, a pipeline of scikit-learn that the project's exporter wrote, or
/// a LightGBM model whose leaves are linear models.
///
/// [`load`] reads a file of one tree ensemble as a forest. A forest predicts faster than a graph, and only a forest has
/// schedules and contributions. This function reads graphs with other operators, or with several ensembles.
///
/// # Errors
/// The errors of [`load`]. An operator that is not supported is named, with its location.
pub fn load_graph(path: &Path, options: &LoadOptions) -> Result<Graph, Error> {
    load_with(path, options, |bytes| parse_graph(bytes, options))
}

/// Reads a graph from the bytes of a file, as [`load_graph`] does.
///
/// # Errors
/// The errors of [`parse`]. A file of another format is refused.
pub fn parse_graph(bytes: &[u8], options: &LoadOptions) -> Result<Graph, ImportError> {
    let size = bytes.len() as u64;
    if size > options.limits.file_bytes {
        return Err(file_too_large(size, options.limits.file_bytes));
    }
    match Format::of(bytes)? {
        Format::Onnx => onnx::classical_graph(bytes, options),
        Format::LightGbm => lightgbm::graph(format::text(bytes), options),
        Format::ScikitLearn => {
            sklearn::graph(bytes, options).map_err(|error| foreign::name_foreign_zip(error, bytes))
        }
        other => {
            // The importer of forests refuses a file that is damaged or no model, and says so.
            parse_as(other, bytes, &LoadOptions { raw_categories: true, ..options.clone() })?;
            let cause = format!("{} is a forest and no graph", other.noun());
            Err(ImportError::new(ErrorKind::Format, Location::File, cause)
                .with_remedy("load it as a forest, as the commands predict, inspect and lower do"))
        }
    }
}

/// Reads a file, up to the limit on its size, and passes its bytes to `parse`.
fn load_with<T>(
    path: &Path,
    options: &LoadOptions,
    parse: impl FnOnce(&[u8]) -> Result<T, ImportError>,
) -> Result<T, Error> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let limit = options.limits.file_bytes;
    let mut file = std::fs::File::open(path).map_err(io)?;
    let mut bytes = Vec::new();
    // The length in the file's metadata is a hint: a pipe has none, and a file may grow while it is read.
    let stated = file.metadata().map_err(io)?.len();
    if stated <= limit {
        let room = bytes.try_reserve_exact(usize::try_from(stated).unwrap_or(usize::MAX));
        room.map_err(|_| io(std::io::ErrorKind::OutOfMemory.into()))?;
        file.by_ref().take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(io)?;
    }
    let size = stated.max(bytes.len() as u64);
    let read = if size > limit { Err(file_too_large(size, limit)) } else { parse(&bytes) };
    read.map_err(|error| Error::Import(error.in_file(path)))
}

/// Reads a model from the bytes of its file.
///
/// # Errors
/// An [`ImportError`], which names the location and the remedy, if the bytes are no model of a known format, are
/// damaged, ask for more than the [`Limits`] allow, or use something that is not supported.
pub fn parse(bytes: &[u8], options: &LoadOptions) -> Result<Forest, ImportError> {
    let size = bytes.len() as u64;
    if size > options.limits.file_bytes {
        return Err(file_too_large(size, options.limits.file_bytes));
    }
    parse_as(Format::of(bytes)?, bytes, options)
}

/// Like [`parse`], but reads the bytes as this format, whatever they begin with.
///
/// # Errors
/// An [`ImportError`] for everything that [`parse`] refuses in a file of this format.
pub fn parse_as(format: Format, bytes: &[u8], options: &LoadOptions) -> Result<Forest, ImportError> {
    let size = bytes.len() as u64;
    if size > options.limits.file_bytes {
        return Err(file_too_large(size, options.limits.file_bytes));
    }
    let bytes = format::text(bytes);
    match format {
        Format::Fangorn => fangorn::Contents::from_bytes(bytes, options).map(|contents| contents.forest),
        Format::XgboostJson => xgboost::forest(bytes, decode::Encoding::Json, options)
            .map_err(|error| foreign::name_foreign_json(error, bytes)),
        Format::XgboostUbjson => xgboost::forest(bytes, decode::Encoding::Ubjson, options),
        Format::LightGbm => lightgbm::forest(bytes, options),
        Format::CatBoost => catboost::forest(bytes, options),
        Format::Onnx => onnx::forest(bytes, options),
        Format::Treelite => treelite::forest(bytes, options),
        Format::ScikitLearn => {
            sklearn::forest(bytes, options).map_err(|error| foreign::name_foreign_zip(error, bytes))
        }
    }
}

fn file_too_large(size: u64, limit: u64) -> ImportError {
    ImportError::limit(
        Location::File,
        format!("the file has {size} bytes, over the limit of {limit}"),
        "file_bytes",
    )
}

#[cfg(test)]
mod tests;
