//! What classes are called.

use super::super::budget::Budget;
use super::super::{ErrorKind, ImportError, Place};
use super::at;
use super::attributes::Attributes;

/// A classifier's labels, and whether they are integers.
pub(super) fn read(
    attributes: &mut Attributes,
    budget: &Budget<'_>,
) -> Result<(Vec<String>, bool), ImportError> {
    let integers = attributes.ints("classlabels_int64s");
    let strings = attributes.strings("classlabels_strings");
    if !integers.is_empty() && !strings.is_empty() {
        let cause = "labels are integers and strings at once";
        return Err(at(ErrorKind::Structure, attributes.path("classlabels_strings"), cause));
    }
    if !strings.is_empty() {
        let path = attributes.path("classlabels_strings");
        let label = |(i, s): (usize, &super::proto::Bytes)| {
            budget.string(s.len(), || Place::Field(format!("{path}[{i}]")))?;
            Ok(String::from_utf8_lossy(s).into_owned())
        };
        return Ok((strings.iter().enumerate().map(label).collect::<Result<_, _>>()?, false));
    }
    if integers.is_empty() {
        let cause = "a classifier without labels of classes";
        return Err(at(ErrorKind::Schema, attributes.path("classlabels_int64s"), cause).with_remedy(
            "convert the model again; CatBoost writes such a file of a model of several targets",
        ));
    }
    Ok((integers.iter().map(i64::to_string).collect(), true))
}
