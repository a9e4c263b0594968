//! What the text of one cell means.

use fangorn::forest::{Codes, Coding, Feature};

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

impl Text {
    /// Whether a cell is neither a number nor a word for a missing value.
    pub fn is_word(cell: &[u8]) -> bool {
        std::str::from_utf8(cell).map_or(true, |text| matches!(Self::of(text), Self::Word))
    }
}

/// How the cells of a column are read.
#[derive(Clone, Debug, Default)]
pub struct Column<'m> {
    /// The numbers of the column's categories, where the model's file says what these are in a table.
    codes: Option<Codes<'m>>,
    /// How many categories there are, where all are words, so that a whole number in a cell can only be a code.
    words: usize,
    /// Whether the categories are whole numbers by their texts, which a table may write with a point.
    whole: bool,
}

impl<'m> Column<'m> {
    /// A column of the model.
    pub fn of(feature: &'m Feature) -> Self {
        let is_word = |name: &String| matches!(Text::of(name), Text::Word);
        let words = if feature.categories.iter().all(is_word) { feature.categories.len() } else { 0 };
        let whole = matches!(feature.coding, Coding::Hashes { needed: false, .. });
        Self { codes: feature.codes(), words, whole }
    }

    /// A cell's value: NaN where it is missing, `None` where it is nothing that the column has.
    pub fn value(&self, text: &[u8]) -> Option<f64> {
        let text = std::str::from_utf8(text).ok()?;
        if let Some(codes) = &self.codes {
            return self.category(codes, text);
        }
        match Text::of(text) {
            Text::Missing => Some(f64::NAN),
            Text::Number(value) => Some(value),
            Text::Truth(value) => Some(f64::from(u8::from(value))),
            Text::Word => None,
        }
    }

    /// The number of a category. A text may be one that elsewhere stands for a missing value.
    fn category(&self, codes: &Codes<'_>, text: &str) -> Option<f64> {
        // As it is, or without the space round it.
        let exact =
            [text, text.trim()].into_iter().find_map(|text| codes.of(text).filter(|code| !code.is_nan()));
        if exact.is_some() {
            return exact;
        }
        match Text::of(text) {
            Text::Missing => Some(f64::NAN),
            Text::Number(value) if self.whole && value.trunc() == value => codes.of(&format!("{value:.0}")),
            Text::Number(code) if code.trunc() == code && (0.0..self.words as f64).contains(&code) => {
                Some(code)
            }
            _ => codes.of(text.trim()),
        }
    }
}
