//! Decides what the first record of a CSV is, and which of its fields are the model's columns.

use std::borrow::Cow;

use fangorn::table::{CellText, ColumnNames, NameMismatch, first_names};

use super::{FileContents, MatrixRequest};
use crate::error::Result;

/// The fields of a record that hold the matrix's columns.
#[derive(Clone, Debug)]
pub struct Columns {
    /// Whether the first record is a header instead of a row.
    pub header: bool,
    /// The number of fields of a record.
    pub width: usize,
    /// The field index of each column. `None` if the fields are the columns, in order.
    pub places: Option<Vec<usize>>,
    /// A note for the user about the choice.
    pub note: Option<String>,
}

/// The first record of a CSV.
struct First<'r> {
    wanted: &'r MatrixRequest<'r>,
    fields: &'r [Cow<'r, str>],
    texts: Vec<CellText>,
    line: usize,
    /// Columns that are kept beside the predictions.
    keep: &'r [String],
}

/// Decides what the first record is. `odd` is the first of its fields that is not a value of the column at
/// that index. The note does not mention columns to `keep`.
///
/// # Errors
/// The record is a header that lacks columns, names one twice or names none of the model's, or it is neither
/// a header nor a row.
pub fn columns(
    wanted: &MatrixRequest<'_>,
    fields: &[Cow<'_, str>],
    odd: Option<usize>,
    line: usize,
    keep: &[String],
) -> Result<Columns> {
    let (names, by_position) = match wanted.what {
        FileContents::Rows(forest, table) => (ColumnNames::of(forest), table.by_position),
        FileContents::Expected => (ColumnNames::default(), false),
    };
    let texts = fields.iter().map(|field| CellText::of(field)).collect();
    let first = First { wanted, fields, texts, line, keep };
    first.check_separator()?;
    let is_row = fields.len() == wanted.columns && odd.is_none();
    let row = Columns { header: false, width: wanted.columns, places: None, note: None };
    let in_order = || -> Result<Columns> {
        wanted.check_columns(&format!("line {line} has"), fields.len())?;
        Ok(Columns { header: true, ..row.clone() })
    };
    let places = first.by_name(&names);
    let has_name = first.has_name(&names);
    let counted = first.counted();
    if by_position {
        return match has_name || counted.is_some() || first.is_words(true) {
            true if !is_row || counted.is_some() => in_order(),
            _ if is_row => Ok(row),
            _ => first.refused(odd),
        };
    }
    // A name that is a number may also be a value, so names decide only if all of them are there.
    let all_are_there = names.names().len() > 1 && places.is_ok();
    match places {
        Ok(places) if has_name || all_are_there && (!is_row || counted.is_some()) => {
            return Ok(first.header(places));
        }
        Err(why) if has_name => return wanted.fail(why),
        Ok(_) if all_are_there => {
            let what = "may be a row, or a header with the model's names in another order";
            let remedy = "write the numbers of a row with a point, for example 1.0, or give --by-position";
            return wanted.fail(format!("line {line} {what}; {remedy}"));
        }
        _ => {}
    }
    if let Some(places) = counted {
        return Ok(first.header(places));
    }
    if is_row {
        return Ok(row);
    }
    if !first.is_words(false) {
        return first.refused(odd);
    }
    if names.are_chosen() {
        let remedy = "rename its columns, or give --by-position if they are in the model's order";
        return wanted.fail(format!(
            "line {line} is a header without the model's names ({}); {remedy}",
            first_names(names.names())
        ));
    }
    for guess in ColumnNames::made_up(wanted.columns) {
        if let Ok(places) = first.by_name(&guess) {
            return Ok(first.header(places));
        }
    }
    // pandas writes the rows' index first, under an empty name.
    match fields.len() == wanted.columns + 1 && fields[0].trim().is_empty() {
        true => Ok(first.header((1..fields.len()).collect())),
        false => in_order(),
    }
}

/// Returns the message about a cell that is not a value.
pub fn bad_cell_message(line: usize, at: usize, text: &str) -> String {
    let text: String = text.chars().take(40).collect();
    let remedy = "write a number, or nothing if the value is missing";
    format!("line {line}, column {}: `{text}` is no number; {remedy}", at + 1)
}

impl First<'_> {
    /// Returns the columns of a header, with a note about the fields that are left out.
    fn header(&self, places: Vec<usize>) -> Columns {
        let mut taken = vec![false; self.fields.len()];
        places.iter().for_each(|at| taken[*at] = true);
        let out = self.fields.iter().zip(&taken).filter(|(_, taken)| !**taken);
        let names = out.map(|(field, _)| match field.trim() {
            "" => "one without a name",
            name => name,
        });
        let left: Vec<&str> = names.filter(|name| !self.keep.iter().any(|kept| kept == name)).collect();
        let numbers = self.texts.iter().all(|text| matches!(text, CellText::Number(_)));
        let note = match left.len() {
            0 if numbers => {
                let line = self.line;
                Some(format!("line {line} is taken for a header of numbers; write 0.0 for 0 if it is a row"))
            }
            0 => None,
            count => Some(format!(
                "columns that the model does not have are left out, {count}: {}",
                first_names(&left)
            )),
        };
        Columns { header: true, width: self.fields.len(), places: Some(places), note }
    }

    /// Returns the field index of each name, or a message about names that are missing or occur twice.
    fn by_name(&self, names: &ColumnNames) -> Result<Vec<usize>, String> {
        let (line, columns) = (self.line, names.names().len());
        names.places(self.fields.iter().map(|field| &**field)).map_err(|mismatch| match mismatch {
            NameMismatch::Missing(missing) => {
                let remedy = "add them, or give --by-position if the columns are in the model's order";
                let what =
                    format!("{} of the model's {columns} columns: {}", missing.len(), first_names(&missing));
                format!("line {line} is a header without {what}; {remedy}")
            }
            NameMismatch::Doubled(doubled) => {
                let what = format!("{} of the model's {columns} columns", doubled.len());
                let which = first_names(&doubled);
                format!("line {line} is a header that has {what} more than once: {which}; keep one of each")
            }
        })
    }

    /// Tells whether a word among the fields is one of the names.
    fn has_name(&self, names: &ColumnNames) -> bool {
        let words = self.fields.iter().zip(&self.texts).filter(|(_, text)| **text == CellText::Word);
        names.any_of(words.map(|(field, _)| &**field))
    }

    /// Returns the fields that hold 0, 1, 2 and so on in order, one for each column. The other fields may
    /// only be words, or an index without a name. pandas writes such a header for columns without names. A
    /// single 0 is a row.
    fn counted(&self) -> Option<Vec<usize>> {
        let columns = self.wanted.columns;
        let is_number = |text: &CellText| matches!(text, CellText::Number(_));
        let places: Vec<usize> = (0..self.fields.len()).filter(|at| is_number(&self.texts[*at])).collect();
        let in_order = places.iter().enumerate().all(|(i, at)| self.fields[*at].trim() == i.to_string());
        let mut others = self.fields.iter().zip(&self.texts).filter(|(_, text)| !is_number(text));
        let named =
            |(field, text): (&Cow<'_, str>, &CellText)| *text == CellText::Word || field.trim().is_empty();
        let rows = matches!(self.wanted.what, FileContents::Rows(..));
        let several = self.fields.len() > 1;
        let found = rows && several && places.len() == columns && in_order && others.all(named);
        found.then_some(places)
    }

    /// Tells whether all fields are names: words with a letter or a digit, or empty. With `or_missing`, for
    /// `--by-position`, texts for missing values may be names too.
    fn is_words(&self, or_missing: bool) -> bool {
        let mut any = false;
        let all = self.fields.iter().zip(&self.texts).all(|(field, text)| match text {
            CellText::Word => {
                any = true;
                field.chars().any(char::is_alphanumeric)
            }
            CellText::Missing => or_missing || field.trim().is_empty(),
            CellText::Number(_) | CellText::Truth(_) => false,
        });
        all && any
    }

    /// Returns the error for a record that is neither a header nor a row.
    fn refused(&self, odd: Option<usize>) -> Result<Columns> {
        self.wanted.check_columns(&format!("line {} has", self.line), self.fields.len())?;
        let at = odd.unwrap_or(0);
        self.wanted.fail(bad_cell_message(self.line, at, &self.fields[at]))
    }

    /// Refuses a record whose separator is not a comma.
    fn check_separator(&self) -> Result<()> {
        let [field] = self.fields else { return Ok(()) };
        let columns = self.wanted.columns;
        let separators = [(';', "semicolons"), ('\t', "tabs"), ('|', "bars"), (' ', "spaces")];
        let splits = |separator: char| field.trim().split(separator).count() == columns;
        let found = separators.into_iter().find(|(separator, _)| {
            columns > 1
                && (splits(*separator) || matches!(*separator, ';' | '\t') && field.contains(*separator))
        });
        match found {
            Some((_, name)) => self
                .wanted
                .fail(format!("line {} is separated by {name}; write commas as separators", self.line)),
            None => Ok(()),
        }
    }
}
