//! The meaning of one cell's text.

use crate::forest::{Codes, Coding, Feature};

/// Texts that stand for a missing value: those of pandas' `read_csv`, and `?`.
const MISSING: [&str; 20] = [
    "", "?", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
    "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
];

/// A number type that tables are read as.
pub trait Number: Copy {
    /// Rounds to nearest, as numpy casts. A missing value is NaN.
    fn cast(value: f64) -> Self;
}

impl Number for f32 {
    fn cast(value: f64) -> Self {
        value as Self
    }
}

impl Number for f64 {
    fn cast(value: f64) -> Self {
        value
    }
}

/// The kind of a cell's text, independent of the cell's column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CellText {
    /// A text that stands for a missing value, or no text.
    Missing,
    /// A number.
    Number(f64),
    /// A text that pandas reads as a truth value.
    Truth(bool),
    /// Anything else.
    Word,
}

impl CellText {
    /// Returns the kind of a text. Ignores white space around it.
    pub fn of(text: &str) -> Self {
        let text = text.trim();
        // Parse as f64 first and cast later, as numpy does.
        match text.parse::<f64>() {
            Ok(value) if value.is_nan() => Self::Missing,
            Ok(value) => Self::Number(value),
            Err(_) => match text {
                "True" | "TRUE" | "true" => Self::Truth(true),
                "False" | "FALSE" | "false" => Self::Truth(false),
                _ if MISSING.contains(&text) || text.eq_ignore_ascii_case("na") => Self::Missing,
                _ => Self::Word,
            },
        }
    }
}

impl CellText {
    /// Returns whether a cell is a word: neither a number, nor a truth value, nor a text for a missing value.
    /// A cell that is not UTF-8 is a word too.
    pub fn is_word(cell: &[u8]) -> bool {
        std::str::from_utf8(cell).map_or(true, |text| matches!(Self::of(text), Self::Word))
    }
}

/// How the cells of one column become the numbers of rows.
///
/// ```
/// use fangorn::{
///     forest::{Coding, Feature, Unseen},
///     table::CellReader,
/// };
///
/// let colours = Feature {
///     categories: vec!["red".into(), "blue".into()],
///     coding: Coding::Places { numbers: false, unseen: Unseen::Refused, needed: false },
///     ..Feature::default()
/// };
/// let reader = CellReader::of(&colours);
/// assert_eq!([reader.value(b"blue"), reader.value(b"green")], [Some(1.0), None]);
/// assert!(reader.value(b"NA").is_some_and(f64::is_nan));
/// ```
#[derive(Clone, Debug, Default)]
pub struct CellReader<'m> {
    /// The numbers of the column's categories, where the model's file says which categories a table holds.
    codes: Option<Codes<'m>>,
    /// Number of categories if every category's name is a word, else 0. If all are words, a whole number in a
    /// cell can only be a code.
    words: usize,
    /// Whether the categories are whole numbers by their texts. A table may write them with a decimal point.
    whole: bool,
}

impl<'m> CellReader<'m> {
    /// Returns how the cells of a model's column are read.
    pub fn of(feature: &'m Feature) -> Self {
        let is_word = |name: &String| matches!(CellText::of(name), CellText::Word);
        let words = if feature.categories.iter().all(is_word) { feature.categories.len() } else { 0 };
        let whole = matches!(feature.coding, Coding::Hashes { needed: false, .. });
        Self { codes: feature.codes(), words, whole }
    }

    /// Returns whether the column holds categories that become numbers of their own.
    pub fn has_codes(&self) -> bool {
        self.codes.is_some()
    }

    /// Returns a cell's value: NaN where it is missing, `None` where the column has no such value.
    pub fn value(&self, text: &[u8]) -> Option<f64> {
        let text = std::str::from_utf8(text).ok()?;
        if let Some(codes) = &self.codes {
            return self.category(codes, text);
        }
        match CellText::of(text) {
            CellText::Missing => Some(f64::NAN),
            CellText::Number(value) => Some(value),
            CellText::Truth(value) => Some(f64::from(u8::from(value))),
            CellText::Word => None,
        }
    }

    /// Returns the number of a category. A category's text may be one that elsewhere stands for a missing
    /// value.
    fn category(&self, codes: &Codes<'_>, text: &str) -> Option<f64> {
        // Look for the text as it is, then without the white space around it.
        let exact =
            [text, text.trim()].into_iter().find_map(|text| codes.of(text).filter(|code| !code.is_nan()));
        if exact.is_some() {
            return exact;
        }
        match CellText::of(text) {
            CellText::Missing => Some(f64::NAN),
            CellText::Number(value) if self.whole && value.trunc() == value => {
                codes.of(&format!("{value:.0}"))
            }
            CellText::Number(code) if code.trunc() == code && (0.0..self.words as f64).contains(&code) => {
                Some(code)
            }
            _ => codes.of(text.trim()),
        }
    }
}
