//! The meaning of one cell's text.

use std::borrow::Cow;

use crate::forest::{CategoryKind, Codes, Coding, Feature};

/// Texts that stand for a missing value: those of pandas' `read_csv`, and `?`.
const MISSING: [&str; 20] = [
    "", "?", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
    "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
];

/// A number type that tables are read as.
pub trait Number: Copy {
    /// Converts a value, rounded to nearest as numpy does. NaN stands for a missing value.
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

/// Every number of at most this many digits is below 2^63.
const MOST_DIGITS: usize = 18;

/// Powers of ten, which are exact as doubles.
const POWERS_OF_TEN: [f64; MOST_DIGITS + 1] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18];

/// The same powers of ten as integers.
const INTEGERS_OF_TEN: [u64; MOST_DIGITS + 1] = {
    let mut powers = [1; MOST_DIGITS + 1];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// Returns the number that the digits at the beginning of eight bytes form, and how many digits there are. No branch
/// depends on how many there are, because a processor would mispredict it.
fn leading_digits(text: [u8; 8]) -> (u64, usize) {
    // A digit becomes 0 to 9.
    let bytes = u64::from_le_bytes(text) ^ 0x3030_3030_3030_3030;
    // The upper bit of a byte that is no digit. Carries into the bytes after the first of them do not matter.
    let others = (bytes.wrapping_add(0x7676_7676_7676_7676) | bytes) & 0x8080_8080_8080_8080;
    let count = others.trailing_zeros() as usize / 8;
    // The digits, with zeros before them.
    let digits = if count == 0 { 0 } else { bytes << (64 - 8 * count) };
    // Digits become pairs, pairs become fours, and fours the number (Lemire, Number Parsing at a Gigabyte per Second,
    // 2021).
    let pairs = digits.wrapping_mul(2561) >> 8;
    let fours = (pairs & 0x00ff_00ff_00ff_00ff).wrapping_mul(6_553_601) >> 16;
    ((fours & 0x0000_ffff_0000_ffff).wrapping_mul(42_949_672_960_001) >> 32, count)
}

/// Reads the decimal number at the beginning of a text: digits, with an optional minus before them and an optional
/// point. Returns the number and its length in bytes. Returns `None` if the text begins with anything else, or if the
/// number has so many digits that it could be rounded twice.
///
/// A whole number below 2^53 and a power of ten up to 10^22 are doubles, so their quotient is rounded once (Clinger,
/// How to Read Floating Point Numbers Accurately, 1990).
///
/// ```
/// use fangorn::table::plain_decimal;
///
/// assert_eq!(plain_decimal(b"-12.50,7"), Some((-12.5, 6)));
/// // Whoever asks sees by the byte behind it that a number goes on.
/// assert_eq!(plain_decimal(b"1e3"), Some((1.0, 1)));
/// assert_eq!(plain_decimal(b"nan"), None);
/// ```
// Without inlining, its result goes through memory in parts, and the processor waits for them.
#[inline(always)]
pub fn plain_decimal(text: &[u8]) -> Option<(f64, usize)> {
    let negative = text.first() == Some(&b'-');
    let begin = usize::from(negative);
    let (mut number, mut at) = (0u64, begin);
    let digit = |at: usize| text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10);
    while let Some(digit) = digit(at) {
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    let mut digits = at - begin;
    let mut behind_the_point = 0;
    if text.get(at) == Some(&b'.') {
        at += 1;
        let first = at;
        if let Some(eight) = text.get(at..).and_then(<[u8]>::first_chunk) {
            let (fraction, count) = leading_digits(*eight);
            number = number.wrapping_mul(INTEGERS_OF_TEN[count]).wrapping_add(fraction);
            at += count;
        }
        while let Some(digit) = digit(at) {
            number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
            at += 1;
        }
        behind_the_point = at - first;
        digits += behind_the_point;
    }
    if digits == 0 || digits > MOST_DIGITS || number > 1 << 53 {
        return None;
    }
    let value = number as f64 / POWERS_OF_TEN[behind_the_point];
    // A branch on the sign would be mispredicted.
    Some((f64::from_bits(value.to_bits() | u64::from(negative) << 63), at))
}

/// A category as a table of types holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CategoryValue<'t> {
    /// A text.
    Text(&'t str),
    /// An integer.
    Whole(i128),
    /// A float or a decimal.
    Float(f64),
    /// A truth value.
    Truth(bool),
}

/// What the values of a column of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Texts.
    Texts,
    /// Integers.
    Whole,
    /// Floats or decimals.
    Floats,
    /// Truth values.
    Truths,
}

impl CategoryValue<'_> {
    /// Returns what the value is.
    pub fn kind(&self) -> ValueKind {
        match self {
            Self::Text(_) => ValueKind::Texts,
            Self::Whole(_) => ValueKind::Whole,
            Self::Float(_) => ValueKind::Floats,
            Self::Truth(_) => ValueKind::Truths,
        }
    }

    /// Returns the value as a text. A whole float keeps its point.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => (*text).into(),
            Self::Whole(value) => value.to_string().into(),
            Self::Float(value) => format!("{value:?}").into(),
            Self::Truth(true) => "True".into(),
            Self::Truth(false) => "False".into(),
        }
    }
}

/// How the cells of one column become the numbers of rows.
///
/// ```
/// use fangorn::{
///     forest::{Coding, Feature, UnseenCategory},
///     table::CellReader,
/// };
///
/// let colours = Feature {
///     categories: vec!["red".into(), "blue".into()],
///     coding: Coding::Indices { numbers: false, unseen: UnseenCategory::Refused, needed: false },
///     ..Feature::default()
/// };
/// let reader = CellReader::of(&colours);
/// assert_eq!([reader.value(b"blue"), reader.value(b"green")], [Some(1.0), None]);
/// assert!(reader.value(b"NA").is_some_and(f64::is_nan));
/// ```
#[derive(Clone, Debug, Default)]
pub struct CellReader<'m> {
    /// The numbers of the column's categories, if the model's file says which categories a table holds.
    codes: Option<Codes<'m>>,
    /// Number of categories if every category's name is a word and a table may hold codes, else 0. A whole number in
    /// a cell can then only be a code.
    words: usize,
    /// Whether categories may be texts of whole numbers, which a table may write with a decimal point.
    whole: bool,
}

impl<'m> CellReader<'m> {
    /// Returns the reader of the cells of a model's column.
    pub fn of(feature: &'m Feature) -> Self {
        let is_word = |name: &String| matches!(CellText::of(name), CellText::Word);
        let may_be_coded = !feature.coding.is_needed() && feature.categories.iter().all(is_word);
        let words = if may_be_coded { feature.categories.len() } else { 0 };
        let whole = matches!(feature.coding, Coding::Hashes { needed: false, .. });
        Self { codes: feature.codes(), words, whole }
    }

    /// Returns whether the column holds categories that become numbers of their own.
    pub fn has_codes(&self) -> bool {
        self.codes.is_some()
    }

    /// Returns why values of a kind can't be the column's categories, as the end of a sentence that begins with `it holds`,
    /// and what to do. Returns `None` if they may be categories, or if the column holds numbers.
    pub fn refusal(&self, values: ValueKind) -> Option<[&'static str; 2]> {
        // Where no category is known, each is an unseen one.
        let codes = self.codes.as_ref().filter(|codes| !codes.is_empty())?;
        let to_texts = "cast the column to texts";
        match (codes.kind(), values) {
            (CategoryKind::Numbers, ValueKind::Texts) => Some([
                "texts, and the model's categories of it are numbers",
                "cast the column to the numbers that the model was trained on",
            ]),
            (CategoryKind::Texts, ValueKind::Truths) => {
                Some(["truth values, and the model's categories of it are texts", to_texts])
            }
            // Where all categories are words, a whole number is a category's code.
            (CategoryKind::Texts, ValueKind::Whole | ValueKind::Floats) if self.words == 0 => {
                Some(["numbers, and the model's categories of it are texts", to_texts])
            }
            (CategoryKind::Hashed, ValueKind::Floats) => Some([
                "floats, of which the model's library makes no categories",
                "cast the column to integers or texts, as the training data had it",
            ]),
            _ => None,
        }
    }

    /// Returns the number of a category that a table of types holds. Texts are compared as they are, and a text is
    /// never equal to a number. Returns `None` if the model's producer refuses the category, or if the column holds
    /// numbers.
    ///
    /// ```
    /// use fangorn::{
    ///     forest::{Coding, Feature, UnseenCategory},
    ///     table::{CategoryValue, CellReader},
    /// };
    ///
    /// let sizes = Feature {
    ///     categories: vec!["10".into(), "20".into()],
    ///     coding: Coding::Indices { numbers: true, unseen: UnseenCategory::Refused, needed: false },
    ///     ..Feature::default()
    /// };
    /// let reader = CellReader::of(&sizes);
    /// assert_eq!(reader.category(CategoryValue::Float(20.0)), Some(1.0));
    /// assert_eq!(reader.category(CategoryValue::Text("20")), None);
    /// ```
    pub fn category(&self, value: CategoryValue<'_>) -> Option<f64> {
        let codes = self.codes.as_ref()?;
        let code = |code: f64| match code.trunc() == code && (0.0..self.words as f64).contains(&code) {
            true => Some(code),
            false => codes.unseen(),
        };
        match (codes.kind(), value) {
            (_, CategoryValue::Float(value)) if value.is_nan() => Some(f64::NAN),
            (CategoryKind::Texts, CategoryValue::Whole(value)) => code(value as f64),
            (CategoryKind::Texts, CategoryValue::Float(value)) => code(value),
            (CategoryKind::Texts, CategoryValue::Truth(_))
            | (CategoryKind::Numbers, CategoryValue::Text(_)) => codes.unseen(),
            (CategoryKind::Hashed, CategoryValue::Float(_)) => None,
            (_, value) => codes.of(&value.text()),
        }
    }

    /// Returns a cell's value: NaN if it is missing, or `None` if the column has no such value.
    pub fn value(&self, text: &[u8]) -> Option<f64> {
        if self.codes.is_none()
            && let Some((value, length)) = plain_decimal(text)
            && length == text.len()
        {
            return Some(value);
        }
        if self.codes.is_none() && text.is_empty() {
            return Some(f64::NAN);
        }
        let text = std::str::from_utf8(text).ok()?;
        if let Some(codes) = &self.codes {
            return self.category_of_cell(codes, text);
        }
        match CellText::of(text) {
            CellText::Missing => Some(f64::NAN),
            CellText::Number(value) => Some(value),
            CellText::Truth(value) => Some(f64::from(u8::from(value))),
            CellText::Word => None,
        }
    }

    /// Returns the number of a category. The text of a category may be one that stands for a missing value in other
    /// columns.
    fn category_of_cell(&self, codes: &Codes<'_>, text: &str) -> Option<f64> {
        // Look for the text as it is, then without the white space around it.
        let exact = codes.known(text).or_else(|| codes.known(text.trim()));
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

#[cfg(test)]
mod tests {
    use super::plain_decimal;
    use crate::check::Random;

    /// Numbers as people write them are those of the library; what else there is ends the number.
    #[test]
    fn plain_decimals_are_rounded_once() {
        let mut random = Random(9);
        let mut found = 0;
        for _ in 0..200_000 {
            let mut digits = |most: f32| -> String {
                (0..(random.fraction() * most) as usize)
                    .map(|_| char::from(b'0' + (random.fraction() * 10.0) as u8))
                    .collect()
            };
            let mut text = digits(12.0) + "." + &digits(14.0);
            if digits(2.0).is_empty() {
                text.insert(0, '-');
            }
            let text = text.strip_suffix('.').map_or(text.clone(), str::to_owned);
            for end in ["", ",", "\n", "e5", " ", "x"] {
                match plain_decimal((text.clone() + end).as_bytes()) {
                    Some((value, length)) => {
                        let expected: f64 = text.parse().expect("a number");
                        assert_eq!(
                            (value.to_bits(), length),
                            (expected.to_bits(), text.len()),
                            "{text}{end}"
                        );
                        found += 1;
                    }
                    None => {
                        assert!(text.len() > 15 || !text.contains(|c: char| c.is_ascii_digit()), "{text}")
                    }
                }
            }
        }
        assert!(found > 900_000, "{found}");
        for (text, expected) in [
            ("9007199254740992", Some(9_007_199_254_740_992.0)),
            ("9007199254740993", None),
            ("-0", Some(-0.0)),
            ("-", None),
            (".", None),
            ("", None),
            ("+1", None),
            ("1.5", Some(1.5)),
            ("0.000000000000000001", None),
        ] {
            assert_eq!(
                plain_decimal(text.as_bytes()).map(|(value, _)| value.to_bits()),
                expected.map(f64::to_bits),
                "{text}"
            );
        }
    }
}
