//! Decides what the first record of a CSV is, and which of its fields are the model's columns.

use std::{borrow::Cow, collections::HashSet};

use fangorn::{
    forest::Coding,
    table::{
        CellText, ColumnNames, LOST_CATEGORIES, NameMismatch, SAVE_CATEGORIES, first_names, lost_categories,
    },
};

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
    pub indices: Option<Vec<usize>>,
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
/// The record is a header that lacks columns, names one twice or names none of the model's, it is neither a header nor
/// a row, or it may be both.
pub fn columns(
    wanted: &MatrixRequest<'_>,
    fields: &[Cow<'_, str>],
    odd: Option<usize>,
    line: usize,
    keep: &[String],
) -> Result<Columns> {
    let (names, by_position) = match wanted.contents {
        FileContents::Rows(forest, table) => (ColumnNames::of(forest), table.by_position),
        FileContents::Expected => (ColumnNames::default(), false),
    };
    let texts = fields.iter().map(|field| CellText::of(field)).collect();
    let first = First { wanted, fields, texts, line, keep };
    first.check_separator()?;
    let numbering = first.numbering();
    if by_position {
        return first.by_position(&names, numbering.as_ref(), odd);
    }
    let is_row = first.is_row(odd);
    let has_name = first.has_name(&names);
    match first.by_name(&names, numbering.is_some()) {
        Err(why) if has_name => return wanted.fail(why),
        Ok(indices) if has_name => return Ok(first.header(indices)),
        // All names are numbers, which may also be values.
        Ok(indices) if !names.names().is_empty() && !is_row => {
            return Ok(first.header_of_numbers(indices, "by the model's names"));
        }
        // A single number that is the column's name.
        Ok(_) if names.names().len() == 1 && first.keep.is_empty() => return first.row_or_header(&names),
        Ok(indices) if names.names().len() > 1 => {
            return match indices.len() > 2 || indices.is_sorted() || !first.keep.is_empty() {
                true => Ok(first.header_of_numbers(indices, "by the model's names")),
                false => first.row_or_header(&names),
            };
        }
        _ => {}
    }
    if let Some(numbering) = numbering {
        return first.by_numbers(numbering, &names, is_row);
    }
    if is_row {
        return Ok(first.row());
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
        if let Some(name) = first.doubled(&guess) {
            let what = format!("is a header that has `{name}` more than once; keep one of each");
            return wanted.fail(format!("line {line} {what}"));
        }
        match first.by_name(&guess, false) {
            Ok(indices) => return Ok(first.header(indices)),
            // Some columns are numbered, and the others are not there or have other names.
            Err(why) if first.has_name(&guess) => return wanted.fail(why),
            Err(_) => {}
        }
    }
    // pandas writes the rows' index first, under an empty name.
    match fields.len() == wanted.columns + 1 && fields[0].trim().is_empty() {
        true => Ok(first.header((1..fields.len()).collect())),
        false => first.header_in_order(),
    }
}

/// Returns the message about a cell that is not a value.
pub fn bad_cell_message(line: usize, at: usize, text: &str) -> String {
    let remedy = "write a number, or nothing if the value is missing";
    format!("{} is no number; {remedy}", cell(line, at, text))
}

/// Returns the message about a cell that is not a value of the model's column `column`. `at` is the index of its field.
pub fn misfit_message(
    wanted: &MatrixRequest<'_>,
    line: usize,
    [column, at]: [usize; 2],
    text: &str,
) -> String {
    match (wanted.features().get(column), wanted.contents) {
        (Some(feature), _) if feature.coding != Coding::Numbers => {
            let remedy = "write one of them, or nothing if the value is missing";
            let which = some_categories(&feature.categories);
            format!("{} is none of the column's categories{which}; {remedy}", cell(line, at, text))
        }
        (_, FileContents::Rows(forest, _)) if lost_categories(forest, column) => format!(
            "{} is no number, and {LOST_CATEGORIES}; write the category's number, or {SAVE_CATEGORIES}",
            cell(line, at, text)
        ),
        _ => bad_cell_message(line, at, text),
    }
}

/// Returns the line, the column and the first characters of a cell.
fn cell(line: usize, at: usize, text: &str) -> String {
    format!("line {line}, column {}: `{}`", at + 1, shortened(text))
}

/// Returns the first characters of a text.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Returns the number of a column's categories and the first of them in brackets, or nothing if the file has no names.
fn some_categories(names: &[String]) -> String {
    const MOST: usize = 3;
    let first: Vec<String> = names.iter().take(MOST).map(|name| shortened(name)).collect();
    let more = if names.len() > MOST { ", …" } else { "" };
    match names.len() {
        0 => String::new(),
        count => format!(" ({count}: {}{more})", first.join(", ")),
    }
}

/// Returns the number of a column as pandas writes it, `7` or `7.0`, and whether it has a point.
fn column_number(text: &str) -> Option<(usize, bool)> {
    let text = text.trim();
    let whole = text.strip_suffix(".0");
    let digits = whole.unwrap_or(text);
    let number: usize = digits.parse().ok()?;
    // A plus, or zeros before the number, are not pandas'.
    (number.to_string() == digits).then_some((number, whole.is_some()))
}

/// A header of numbers, as pandas writes it over columns without names: each of 0 to n-1 or of 1 to n once.
struct Numbering {
    /// The field index of each number, in ascending order of the numbers.
    indices: Vec<usize>,
    /// The smallest number, 0 or 1.
    from: usize,
    /// Whether the numbers ascend from field to field.
    in_order: bool,
}

impl First<'_> {
    /// Returns the columns of a file without a header.
    fn row(&self) -> Columns {
        Columns { header: false, width: self.wanted.columns, indices: None, note: None }
    }

    /// Tells whether the record may be a row. `odd` is the first of its fields that is no value of its column.
    fn is_row(&self, odd: Option<usize>) -> bool {
        self.fields.len() == self.wanted.columns && odd.is_none()
    }

    /// Returns the columns of a header whose fields are the model's columns, in order.
    fn header_in_order(&self) -> Result<Columns> {
        self.wanted.check_columns(&format!("line {} has", self.line), self.fields.len())?;
        Ok(Columns { header: true, ..self.row() })
    }

    /// Decides what the first record is if the columns are taken in their order.
    fn by_position(
        &self,
        names: &ColumnNames,
        numbering: Option<&Numbering>,
        odd: Option<usize>,
    ) -> Result<Columns> {
        let (is_row, has_name) = (self.is_row(odd), self.has_name(names));
        let indices = self.by_name(names, numbering.is_some()).ok().filter(|indices| indices.len() > 1);
        let in_order = match (numbering, &indices) {
            (Some(numbering), _) => Some(numbering.in_order),
            (None, Some(indices)) if !has_name => Some(indices.is_sorted()),
            (None, _) => None,
        };
        if let Some(in_order) = in_order {
            let mut found = self.header_in_order()?;
            // So few small numbers are often a row, and the refusal without --by-position says that they become one.
            let few = self.wanted.columns == 1 || self.wanted.columns == 2 && !in_order;
            let line = self.line;
            found.header = !(is_row && few && self.keep.is_empty());
            found.note = Some(match found.header {
                true => self.about_numbers("by their order"),
                false => format!("line {line} is taken for a row; remove it if it is a header"),
            });
            return Ok(found);
        }
        match has_name || self.is_words(true) {
            true if !is_row => self.header_in_order(),
            _ if is_row => Ok(self.row()),
            _ => self.refused(odd),
        }
    }

    /// Decides what a record of column numbers is.
    fn by_numbers(&self, numbering: Numbering, names: &ColumnNames, is_row: bool) -> Result<Columns> {
        let Numbering { indices, from, in_order } = numbering;
        let columns = self.wanted.columns;
        if is_row && self.keep.is_empty() && (columns == 1 || columns == 2 && !in_order) {
            return self.row_or_header(names);
        }
        if in_order {
            return Ok(self.header_of_numbers(indices, "by their order"));
        }
        let what = format!(
            "line {} looks like a header of the numbers {from} to {} in another order",
            self.line,
            columns - 1 + from
        );
        let row = match self.changed_number() {
            Some(change) if is_row => format!("; if it is a row, {change}"),
            _ => String::new(),
        };
        if names.are_chosen() {
            return self.wanted.fail(format!(
                "{what}, and the model's columns have names ({}); name the columns as the model does, or remove the \
                 header and give --by-position if they are in the model's order{row}",
                first_names(names.names())
            ));
        }
        match from {
            0 => Ok(self.header_of_numbers(indices, "by these numbers, counted from 0")),
            _ => self.wanted.fail(format!(
                "{what}, and the model's columns are counted from 0; number them from 0, or put them in the model's \
                 order{row}"
            )),
        }
    }

    /// Refuses one or two numbers that are a row or a header.
    fn row_or_header(&self, names: &ColumnNames) -> Result<Columns> {
        let line = self.line;
        let what = match self.wanted.columns {
            1 => {
                let name = names.names().first().map_or("f0", String::as_str);
                let remedy = match CellText::of(name) {
                    CellText::Word => format!("write {name} as the header"),
                    _ => "remove the line".to_owned(),
                };
                format!("the one column; give --by-position if it is a row, or {remedy} and give --by-position if not")
            }
            _ => "columns in another order than the model's; give --by-position if it is a row, or put the columns in \
                  the model's order"
                .into(),
        };
        self.wanted.fail(format!("line {line} may be a row, or the header of {what}"))
    }

    /// Returns the columns of a header of numbers. `how` says by what they are found.
    fn header_of_numbers(&self, indices: Vec<usize>, how: &str) -> Columns {
        let found = self.header(indices);
        let said = self.about_numbers(how);
        let note = found.note.iter().fold(said, |said, left| format!("{said}; {left}"));
        Columns { note: Some(note), ..found }
    }

    /// Returns the note about a header of numbers.
    fn about_numbers(&self, how: &str) -> String {
        let said = format!("line {} is taken for a header of numbers, and the columns {how}", self.line);
        match self.changed_number() {
            Some(change) if self.fields.len() == self.wanted.columns => {
                format!("{said}; if it is a row, {change}")
            }
            _ => said,
        }
    }

    /// Returns what to do so that a record of numbers can't be a header: no header has `0.00` for `0`.
    fn changed_number(&self) -> Option<String> {
        let is_plain = |field: &&str| {
            field.starts_with(|c: char| c.is_ascii_digit())
                && field.chars().all(|c| c.is_ascii_digit() || c == '.')
        };
        let number = self.fields.iter().map(|field| field.trim()).find(is_plain)?;
        let zeros = if number.contains('.') { "0" } else { ".00" };
        Some(format!("write {number}{zeros} for {number}"))
    }

    /// Returns the columns of a header, with a note about the fields that are left out.
    fn header(&self, indices: Vec<usize>) -> Columns {
        let mut taken = vec![false; self.fields.len()];
        indices.iter().for_each(|at| taken[*at] = true);
        let out = self.fields.iter().zip(&taken).filter(|(_, taken)| !**taken);
        let names = out.map(|(field, _)| match field.trim() {
            "" => "one without a name",
            name => name,
        });
        let left: Vec<&str> = names.filter(|name| !self.keep.iter().any(|kept| kept == name)).collect();
        let which = match self.wanted.contents {
            FileContents::Rows(..) => "columns that the model does not have",
            FileContents::Expected => "other columns",
        };
        let note = match left.len() {
            0 => None,
            count => Some(format!("{which} are left out, {count}: {}", first_names(&left))),
        };
        Columns { header: true, width: self.fields.len(), indices: Some(indices), note }
    }

    /// Returns the field index of each name, or a message about names that are missing or occur twice. With `numbers`,
    /// the field `7.0` has the name `7`, too.
    fn by_name(&self, names: &ColumnNames, numbers: bool) -> Result<Vec<usize>, String> {
        let (line, columns) = (self.line, names.names().len());
        let mut found = names.indices(self.fields.iter().map(|field| &**field));
        if numbers && found.is_err() {
            let fields = self.fields.iter().map(|field| field.trim());
            found = names.indices(fields.map(|field| field.strip_suffix(".0").unwrap_or(field)));
        }
        found.map_err(|mismatch| match mismatch {
            NameMismatch::Missing(missing) => {
                let remedy = match self.fields.len() == self.wanted.columns {
                    true => "add them, or give --by-position if the columns are in the model's order",
                    false => "add them",
                };
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

    /// Returns the first of the names that the record has a second time.
    fn doubled(&self, names: &ColumnNames) -> Option<&str> {
        let known: HashSet<&str> = names.names().iter().map(String::as_str).collect();
        let mut seen = HashSet::new();
        let mut fields = self.fields.iter().map(|field| field.trim());
        fields.find(|name| known.contains(name) && !seen.insert(*name))
    }

    /// Tells whether a word among the fields is one of the names.
    fn has_name(&self, names: &ColumnNames) -> bool {
        let words = self.fields.iter().zip(&self.texts).filter(|(_, text)| **text == CellText::Word);
        names.any_of(words.map(|(field, _)| &**field))
    }

    /// Returns the numbers of a record that holds each of 0 to n-1, or each of 1 to n, once, for `n` columns. The other
    /// fields may only be words, or an index without a name. pandas writes such a header for columns without names. A
    /// file of expected values has such a header only with an index, and a single column only the number `0`.
    fn numbering(&self) -> Option<Numbering> {
        let columns = self.wanted.columns;
        let is_number = |text: &CellText| matches!(text, CellText::Number(_));
        let fields: Vec<usize> = (0..self.fields.len()).filter(|at| is_number(&self.texts[*at])).collect();
        let alone = self.fields.len() == columns;
        let is_expected = matches!(self.wanted.contents, FileContents::Expected);
        let mut others = self.fields.iter().zip(&self.texts).filter(|(_, text)| !is_number(text));
        let named =
            |(field, text): (&Cow<'_, str>, &CellText)| *text == CellText::Word || field.trim().is_empty();
        if fields.len() != columns || alone && is_expected || !others.all(named) {
            return None;
        }
        let numbers: Vec<(usize, bool)> =
            fields.iter().map(|at| column_number(&self.fields[*at])).collect::<Option<_>>()?;
        let (from, has_points) = *numbers.iter().min()?;
        // pandas writes either all numbers with a point or none.
        let mixed = numbers.iter().any(|(_, point)| *point != has_points);
        if from > 1 || mixed || alone && columns == 1 && (from, has_points) != (0, false) {
            return None;
        }
        let mut indices = vec![None; columns];
        for (at, (number, _)) in fields.iter().zip(&numbers) {
            let index: &mut Option<usize> = indices.get_mut(number - from)?;
            if index.replace(*at).is_some() {
                return None;
            }
        }
        let indices: Vec<usize> = indices.into_iter().collect::<Option<_>>()?;
        let in_order = indices.is_sorted();
        Some(Numbering { indices, from, in_order })
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
        self.wanted.fail(misfit_message(self.wanted, self.line, [at, at], &self.fields[at]))
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
