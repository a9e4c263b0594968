//! What the text of one cell means.

use std::collections::HashMap;

use fangorn::forest::Feature;

/// Words for a missing value: those of pandas' `read_csv`, and `?`.
const MISSING: [&str; 20] = [
    "", "?", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
    "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
];

/// What a cell's text is, whatever column it stands in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Text {
    /// A word for a missing value, or nothing at all.
    Missing,
    /// A number.
    Number(f64),
    /// What pandas reads a column of as truth values.
    Truth(bool),
    /// Anything else.
    Word,
}

impl Text {
    /// What a text is, white space around it left aside.
    pub fn of(text: &str) -> Self {
        let text = text.trim();
        // In f64 first and then cast, as numpy does.
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

/// How the cells of a column are read.
#[derive(Clone, Debug, Default)]
pub struct Column<'m> {
    /// The codes of the column's categories, where the model has names for them.
    codes: HashMap<&'m str, usize>,
}

impl<'m> Column<'m> {
    /// A column of the model.
    pub fn of(feature: &'m Feature) -> Self {
        let codes = feature.categories.iter().enumerate().map(|(code, name)| (name.as_str(), code));
        Self { codes: codes.collect() }
    }

    /// A cell's value: NaN where it is missing, `None` where it is nothing that the column has.
    pub fn value(&self, text: &[u8]) -> Option<f64> {
        let text = std::str::from_utf8(text).ok()?.trim();
        match Text::of(text) {
            Text::Missing => Some(f64::NAN),
            Text::Number(value) => Some(value),
            Text::Truth(value) => self.category(text).or(Some(f64::from(u8::from(value)))),
            Text::Word => self.category(text),
        }
    }

    /// The code of the category with the name.
    fn category(&self, name: &str) -> Option<f64> {
        self.codes.get(name).map(|code| *code as f64)
    }
}
