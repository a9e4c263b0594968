//! The names of a classifier's classes.

use super::super::budget::Budget;
use super::super::{ErrorKind, ImportError, Location};
use super::attributes::Attributes;
use super::error::at;

/// The names of the classes; empty if classes are numbered from 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels {
    pub(super) texts: Vec<String>,
    /// Whether the names are strings in the file, not integers.
    pub(super) words: bool,
}

/// Reads a classifier's labels.
pub(super) fn read(attributes: &mut Attributes, budget: &Budget<'_>) -> Result<Labels, ImportError> {
    let integers = attributes.ints("classlabels_int64s");
    let strings = attributes.strings("classlabels_strings");
    if !integers.is_empty() && !strings.is_empty() {
        let cause = "labels are integers and strings at once";
        return Err(at(ErrorKind::Structure, attributes.path("classlabels_strings"), cause));
    }
    if !strings.is_empty() {
        let path = attributes.path("classlabels_strings");
        let label = |(i, s): (usize, &super::proto::Bytes)| {
            budget.string(s.len(), || Location::Field(format!("{path}[{i}]")))?;
            Ok(String::from_utf8_lossy(s).into_owned())
        };
        let texts = strings.iter().enumerate().map(label).collect::<Result<_, _>>()?;
        return Ok(Labels { texts, words: true });
    }
    if integers.is_empty() {
        let cause = "a classifier without labels of classes";
        return Err(at(ErrorKind::Schema, attributes.path("classlabels_int64s"), cause).with_remedy(
            "convert the model again; CatBoost writes such a file of a model of several targets",
        ));
    }
    Ok(Labels { texts: integers.iter().map(i64::to_string).collect(), words: false })
}
