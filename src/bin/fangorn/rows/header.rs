//! What the first record of a CSV is, and which of its fields are the model's columns.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use fangorn::Forest;

use super::{FileContents, MatrixRequest, cell::Text};
use crate::error::Result;

/// Where the columns of the matrix stand in a record.
#[derive(Clone, Debug)]
pub struct Columns {
    /// Whether the first record is a header and no row.
    pub header: bool,
    /// Fields of a record.
    pub width: usize,
    /// The place of each column, where columns are not simply in order.
    pub places: Option<Vec<usize>>,
    /// What there is to say of the choice.
    pub note: Option<String>,
}

/// The names of a model's columns, where each has one that no other has.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: Vec<String>,
    /// Whether somebody chose them: a library's own are no reason to refuse a header.
    chosen: bool,
    /// LightGBM keeps names with underscores for spaces.
    underscores: bool,
}

/// What libraries put before a column's number where it has no name.
const STEMS: [&str; 3] = ["", "f", "Column_"];

impl Names {
    /// The names that a model has for its columns.
    pub fn of(forest: &Forest) -> Self {
        let mut of = Self { underscores: forest.producer.library == "lightgbm", ..Self::default() };
        let named = forest.features.iter().filter_map(|f| f.name.as_deref());
        let names: Vec<String> = named.map(|name| of.key(name)).filter(|name| !name.is_empty()).collect();
        let mut sorted: Vec<&String> = names.iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() == forest.features.len() {
            of.chosen = !STEMS.iter().any(|stem| names == Self::numbered(stem, names.len()).names);
            of.names = names;
        }
        of
    }

    /// Whether a header has to hold them.
    pub fn are_chosen(&self) -> bool {
        self.chosen
    }

    /// The names that a library makes of a stem.
    fn numbered(stem: &str, columns: usize) -> Self {
        Self { names: (0..columns).map(|i| format!("{stem}{i}")).collect(), ..Self::default() }
    }

    /// What a name is compared by: white space and quotes round it say nothing.
    fn key(&self, name: &str) -> String {
        let name = name.trim();
        let bare = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name);
        if self.underscores { bare.replace(' ', "_") } else { bare.to_owned() }
    }
}

/// The first record.
struct First<'r> {
    wanted: &'r MatrixRequest<'r>,
    fields: &'r [Cow<'r, str>],
    texts: Vec<Text>,
    line: usize,
}

/// What the first record is. `odd` is the first of its fields that is no value of the column in its place.
///
/// # Errors
/// A header that lacks columns, has them twice or has none of the model's; a record that is neither header nor row.
pub fn columns(
    wanted: &MatrixRequest<'_>,
    fields: &[Cow<'_, str>],
    odd: Option<usize>,
    line: usize,
) -> Result<Columns> {
    let (names, by_position) = match wanted.what {
        FileContents::Rows(forest, table) => (Names::of(forest), table.by_position),
        FileContents::Expected => (Names::default(), false),
    };
    let texts = fields.iter().map(|field| Text::of(field)).collect();
    let first = First { wanted, fields, texts, line };
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
    // Names that are numbers may be values as well, so all of them have to be there.
    let all_are_there = names.names.len() > 1 && places.is_ok();
    match places {
        Ok(places) if has_name || all_are_there && (!is_row || counted.is_some()) => {
            return Ok(first.header(places));
        }
        Err(why) if has_name => return wanted.fail(why),
        Ok(_) if all_are_there => {
            let what = "may be a row, or a header with the model's names in another order";
            let remedy = "write the numbers of a row with a point, 1.0 say, or hand over --by-position";
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
    if names.chosen {
        let some: Vec<&str> = names.names.iter().map(String::as_str).collect();
        let remedy = "rename its columns, or hand over --by-position if they are in the model's order";
        return wanted
            .fail(format!("line {line} is a header without the model's names ({}); {remedy}", few(&some)));
    }
    for stem in STEMS {
        let guess = Names::numbered(stem, wanted.columns);
        if let Ok(places) = first.by_name(&guess) {
            return Ok(first.header(places));
        }
    }
    // pandas writes a row's index under an empty name.
    match fields.len() == wanted.columns + 1 && fields[0].trim().is_empty() {
        true => Ok(first.header((1..fields.len()).collect())),
        false => in_order(),
    }
}

/// What is said of a cell that is no value.
pub fn no_value(line: usize, at: usize, text: &str) -> String {
    let text: String = text.chars().take(40).collect();
    let remedy = "write a number, or nothing where the value is missing";
    format!("line {line}, column {}: `{text}` is no number; {remedy}", at + 1)
}

impl First<'_> {
    /// The columns of a header, and a note of those that are left out.
    fn header(&self, places: Vec<usize>) -> Columns {
        let mut taken = vec![false; self.fields.len()];
        places.iter().for_each(|at| taken[*at] = true);
        let out = self.fields.iter().zip(&taken).filter(|(_, taken)| !**taken);
        let left: Vec<&str> = out
            .map(|(field, _)| match field.trim() {
                "" => "one without a name",
                name => name,
            })
            .collect();
        let numbers = self.texts.iter().all(|text| matches!(text, Text::Number(_)));
        let note = match left.len() {
            0 if numbers => {
                let line = self.line;
                Some(format!("line {line} is taken for a header of numbers; write 0.0 for 0 if it is a row"))
            }
            0 => None,
            count => {
                Some(format!("columns that the model does not have are left out, {count}: {}", few(&left)))
            }
        };
        Columns { header: true, width: self.fields.len(), places: Some(places), note }
    }

    /// The place of each name, or which are not there once.
    fn by_name(&self, names: &Names) -> Result<Vec<usize>, String> {
        let mut found: HashMap<String, (usize, usize)> = HashMap::new();
        for (at, field) in self.fields.iter().enumerate() {
            found.entry(names.key(field)).or_insert((at, 0)).1 += 1;
        }
        let times = |name: &str| found.get(name).map_or(0, |(_, times)| *times);
        let all = || names.names.iter().map(String::as_str);
        let missing: Vec<&str> = all().filter(|name| times(name) == 0).collect();
        let doubled: Vec<&str> = all().filter(|name| times(name) > 1).collect();
        let (line, columns) = (self.line, names.names.len());
        if !missing.is_empty() {
            let remedy = "add them, or hand over --by-position if the columns are in the model's order";
            let what = format!("{} of the model's {columns} columns: {}", missing.len(), few(&missing));
            return Err(format!("line {line} is a header without {what}; {remedy}"));
        }
        if !doubled.is_empty() {
            let what = format!("{} of the model's {columns} columns", doubled.len());
            return Err(format!(
                "line {line} is a header that has {what} more than once: {}; keep one of each",
                few(&doubled)
            ));
        }
        Ok(all().filter_map(|name| found.get(name)).map(|(at, _)| *at).collect())
    }

    /// Whether a word in it is a name.
    fn has_name(&self, names: &Names) -> bool {
        let known: HashSet<&str> = names.names.iter().map(String::as_str).collect();
        let mut words = self.fields.iter().zip(&self.texts).filter(|(_, text)| **text == Text::Word);
        words.any(|(field, _)| known.contains(names.key(field).as_str()))
    }

    /// Where 0, 1, 2 and so on stand in order, one for each column and beside them nothing but words and an index without
    /// a name: pandas' header of columns without names. A single 0 is a row.
    fn counted(&self) -> Option<Vec<usize>> {
        let columns = self.wanted.columns;
        let is_number = |text: &Text| matches!(text, Text::Number(_));
        let places: Vec<usize> = (0..self.fields.len()).filter(|at| is_number(&self.texts[*at])).collect();
        let in_order = places.iter().enumerate().all(|(i, at)| self.fields[*at].trim() == i.to_string());
        let mut others = self.fields.iter().zip(&self.texts).filter(|(_, text)| !is_number(text));
        let named = |(field, text): (&Cow<'_, str>, &Text)| *text == Text::Word || field.trim().is_empty();
        let rows = matches!(self.wanted.what, FileContents::Rows(..));
        let several = self.fields.len() > 1;
        let found = rows && several && places.len() == columns && in_order && others.all(named);
        found.then_some(places)
    }

    /// Whether all of its fields are names: words with a letter or a digit, and nothing. With `--by-position` words for
    /// missing values may be names as well.
    fn is_words(&self, or_missing: bool) -> bool {
        let mut any = false;
        let all = self.fields.iter().zip(&self.texts).all(|(field, text)| match text {
            Text::Word => {
                any = true;
                field.chars().any(char::is_alphanumeric)
            }
            Text::Missing => or_missing || field.trim().is_empty(),
            Text::Number(_) | Text::Truth(_) => false,
        });
        all && any
    }

    /// Neither a header nor a row.
    fn refused(&self, odd: Option<usize>) -> Result<Columns> {
        self.wanted.check_columns(&format!("line {} has", self.line), self.fields.len())?;
        let at = odd.unwrap_or(0);
        self.wanted.fail(no_value(self.line, at, &self.fields[at]))
    }

    /// Refuses what is separated by something else than commas.
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

/// The first few of a list.
fn few(names: &[&str]) -> String {
    const MOST: usize = 5;
    let more = if names.len() > MOST { ", …" } else { "" };
    names[..names.len().min(MOST)].join(", ") + more
}
