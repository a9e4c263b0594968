//! The names of categories. They stand in pandas' lists at the end of the file, and have to be matched with
//! columns.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

use super::super::document;
use super::super::json::Reader;
use super::super::{ErrorKind, ImportError, Limits, Location};
use super::damaged;
use super::lines::{Line, Value};
use crate::forest::{Coding, Feature, UnseenCategory};

/// The start of the last line in a file that Python wrote.
const KEY: &[u8] = b"pandas_categorical:";

/// Gives features the names of their categories, if the file leaves no doubt which columns the names belong
/// to.
///
/// The file lists the names of pandas' categorical columns in the order of the columns, but does not say
/// which columns these are. The columns that LightGBM takes as categorical need not be the same: LightGBM
/// takes pandas' ordered categories as numbers, and accepts columns of plain integers as categories. So a
/// feature gets names only if exactly one choice of columns fits, or if the file declares as many columns as there are
/// lists. These are the columns without an order, unless a table has ordered categories and as many columns of integers
/// were declared.
pub(super) fn name(
    features: &mut [Feature],
    infos: Value<'_>,
    declared: Option<Vec<usize>>,
    line: Line<'_>,
    limits: &Limits,
) -> Result<(), ImportError> {
    let Some(json) = line.text.strip_prefix(KEY) else { return Ok(()) };
    let Some(lists) = read(json, line, limits)? else { return Ok(()) };
    let least: Vec<Option<u64>> = infos.words().map(|info| least_names(info.text)).collect();
    let fits =
        |column: usize, list: usize| least[column].is_some_and(|least| least <= lists[list].len() as u64);
    // `first` is the leftmost choice of columns that fits, `last` the rightmost. Every other choice lies
    // between.
    let first = choose(0..least.len(), 0..lists.len(), fits);
    let mut last = choose((0..least.len()).rev(), (0..lists.len()).rev(), fits);
    last.reverse();
    let only = (first.len() == lists.len() && first == last).then_some(first);
    let as_declared = || {
        let columns = declared.filter(|columns| columns.len() == lists.len())?;
        columns
            .iter()
            .enumerate()
            .all(|(list, column)| *column < least.len() && fits(*column, list))
            .then_some(columns)
    };
    if let Some(columns) = only.or_else(as_declared) {
        for (column, names) in columns.into_iter().zip(lists) {
            if let Some(feature) = features.get_mut(column) {
                let numbers = names.iter().all(|name| !name.is_text);
                feature.coding = Coding::Indices { numbers, unseen: UnseenCategory::Missing, needed: false };
                feature.categories = names.into_iter().map(|name| name.text).collect();
            }
        }
    }
    Ok(())
}

/// Returns the columns that the file's parameters declare categorical, in ascending order, if this is the line of them.
pub(super) fn declared(line: Line<'_>) -> Option<Vec<usize>> {
    let list = std::str::from_utf8(line.text)
        .ok()?
        .trim()
        .strip_prefix("[categorical_feature: ")?
        .strip_suffix(']')?;
    let mut columns: Vec<usize> =
        list.split(',').map(|column| column.trim().parse().ok()).collect::<Option<_>>()?;
    columns.sort_unstable();
    columns.dedup();
    Some(columns)
}

/// Returns, for each list in turn, the next column that the list fits.
fn choose(
    mut columns: impl Iterator<Item = usize>,
    lists: impl Iterator<Item = usize>,
    fits: impl Fn(usize, usize) -> bool,
) -> Vec<usize> {
    lists.map_while(|list| columns.find(|column| fits(*column, list))).collect()
}

/// Returns the minimum number of names in the list of a column, or `None` if the column's values can't be
/// codes. `info` is the column's entry in `feature_infos`, for example `none`, `[0:2]` or `-1:2:0:1`.
fn least_names(info: &[u8]) -> Option<u64> {
    let info = std::str::from_utf8(info).ok()?;
    if info == "none" {
        return Some(0);
    }
    if let Some(range) = info.strip_prefix('[') {
        let (least, most) = range.strip_suffix(']')?.split_once(':')?;
        least.parse::<u64>().ok()?;
        return most.parse::<u64>().ok()?.checked_add(1);
    }
    info.split(':').map(|code| code.parse::<i64>().ok()).try_fold(0, |least, code| {
        let code = code?.saturating_add(1);
        Some(least.max(u64::try_from(code).unwrap_or(0)))
    })
}

fn read(json: &[u8], line: Line<'_>, limits: &Limits) -> Result<Option<Vec<Vec<Name>>>, ImportError> {
    let mut reader = Reader::new(json, limits.string_bytes);
    let lists = Deserialize::deserialize(document::Value::Json(&mut reader))
        .and_then(|lists| reader.finish().map(|()| lists));
    lists.map_err(|error| {
        let kind = if error.offset.is_some() { ErrorKind::Syntax } else { ErrorKind::Schema };
        let column = 1 + KEY.len() + error.offset.unwrap_or(0);
        damaged(
            kind,
            Location::Text { line: line.number, column },
            format!("the names of categories: {error}"),
        )
    })
}

/// The name of a category.
struct Name {
    /// The name as text, even if the file has a number or a truth value.
    text: String,
    /// Whether the name is a string in the file.
    is_text: bool,
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameVisitor)
    }
}

struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a category")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Name, E> {
        Ok(Name { text: if value { "True" } else { "False" }.into(), is_text: false })
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Name, E> {
        Ok(Name { text: value.to_string(), is_text: false })
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Name, E> {
        Ok(Name { text: value.to_string(), is_text: false })
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Name, E> {
        Ok(Name { text: value.into(), is_text: true })
    }
}
