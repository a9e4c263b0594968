//! Categories as a table writes them, for example `red`, and the numbers that rows hold for them.

use std::collections::HashMap;

use super::{Feature, Real};

/// How the categories of a column in a table become the numbers that rows hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Coding {
    /// The table holds the numbers of rows already, or the file does not say how it codes categories.
    #[default]
    Numbers,
    /// A category's number is its index in [`Feature::categories`].
    Indices {
        /// Whether categories are numbers or truth values, so that `10.0` equals `10`. Otherwise they are
        /// texts and are compared as they are.
        numbers: bool,
        /// How a category that is not in [`Feature::categories`] is read.
        unseen: UnseenCategory,
        /// Whether rows must be made with [`Feature::codes`]. It is true if nothing else defines the column's
        /// numbers, so that rows made in another way are wrong.
        needed: bool,
    },
    /// A category's number is listed under a hash of its text, because the model stores hashes and not texts
    /// (CatBoost).
    Hashes {
        /// Pairs of a category's hash and its number, in ascending order of hashes. A category without a pair
        /// is in no split, as NaN is.
        codes: Vec<(u32, Real)>,
        /// Whether rows must be made with [`Feature::codes`], as in [`Coding::Indices`].
        needed: bool,
    },
}

impl Coding {
    /// Returns whether rows must be made with [`Feature::codes`]. If so, the splits of this column ask for no
    /// number that a table may hold.
    pub fn is_needed(&self) -> bool {
        match self {
            Self::Numbers => false,
            Self::Indices { needed, .. } | Self::Hashes { needed, .. } => *needed,
        }
    }
}

/// How a category that did not occur in the training data is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UnseenCategory {
    /// It becomes a missing value (LightGBM, scikit-learn).
    #[default]
    Missing,
    /// The producer refuses a row with such a category (XGBoost since 3.3).
    Refused,
    /// It becomes a number of its own, the number of categories, so that an operator can tell it from a missing value
    /// (scikit-learn's encoders).
    Own,
}

/// A lookup from the categories of a column to their numbers. [`Feature::codes`] makes it.
#[derive(Clone, Debug)]
pub struct Codes<'f> {
    by: CodeTable<'f>,
    /// Number of categories.
    count: usize,
}

#[derive(Clone, Debug)]
enum CodeTable<'f> {
    Texts(HashMap<&'f str, usize>, UnseenCategory),
    Numbers(HashMap<Key, usize>, UnseenCategory),
    /// Hashes with their numbers. The flag tells whether every hash is the hash of `0` or of `1`, as in a
    /// column of truth values.
    Hashes(&'f [(u32, Real)], bool),
}

/// What the categories of a column are in the training data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CategoryKind {
    /// Texts.
    Texts,
    /// Numbers or truth values.
    Numbers,
    /// Integers, truth values or texts. The model has only hashes of their texts (CatBoost).
    Hashed,
}

/// A category that is a number or a truth value, independent of how its text writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Truth(bool),
    Whole(i64),
    Real(u64),
}

impl Feature {
    /// Returns the lookup from the column's categories to the numbers that rows hold, or `None` if the table
    /// holds these numbers already.
    ///
    /// ```
    /// use fangorn::forest::{Coding, Feature, UnseenCategory};
    ///
    /// let colours = Feature {
    ///     categories: vec!["red".into(), "01".into()],
    ///     coding: Coding::Indices { numbers: false, unseen: UnseenCategory::Refused, needed: false },
    ///     ..Feature::default()
    /// };
    /// let codes = colours.codes().expect("categories");
    /// assert_eq!([codes.of("red"), codes.of("01"), codes.of("1")], [Some(0.0), Some(1.0), None]);
    /// ```
    pub fn codes(&self) -> Option<Codes<'_>> {
        // Categories go from the last to the first, so that the first of two equal ones overwrites the other.
        let names = || self.categories.iter().enumerate().rev();
        let by = match &self.coding {
            Coding::Numbers => return None,
            Coding::Indices { numbers: true, unseen, .. } => {
                CodeTable::Numbers(names().filter_map(|(i, name)| Some((key(name)?, i))).collect(), *unseen)
            }
            Coding::Indices { unseen, .. } => {
                CodeTable::Texts(names().map(|(i, name)| (name.as_str(), i)).collect(), *unseen)
            }
            Coding::Hashes { codes, .. } => {
                let truths = [hash(b"0"), hash(b"1")];
                CodeTable::Hashes(codes, codes.iter().all(|(hash, _)| truths.contains(hash)))
            }
        };
        Some(Codes { by, count: self.categories.len() })
    }

    /// Returns the name of the category that a row's number stands for, or `None` if it stands for none with a name.
    ///
    /// ```
    /// use fangorn::forest::{Coding, Feature, UnseenCategory};
    ///
    /// let colours = Feature {
    ///     categories: vec!["red".into(), "blue".into()],
    ///     coding: Coding::Indices { numbers: false, unseen: UnseenCategory::Missing, needed: false },
    ///     ..Feature::default()
    /// };
    /// assert_eq!([colours.category(1.0), colours.category(1.5)], [Some("blue"), None]);
    /// ```
    pub fn category(&self, number: f64) -> Option<&str> {
        let name = match &self.coding {
            Coding::Hashes { .. } => {
                let codes = self.codes()?;
                self.categories.iter().find(|name| codes.known(name) == Some(number))
            }
            _ if number >= 0.0 && number.fract() == 0.0 => self.categories.get(number as usize),
            _ => None,
        };
        name.map(String::as_str)
    }
}

impl Codes<'_> {
    /// Returns the number of the category that a table writes as `text`. [`UnseenCategory`] says what a category
    /// becomes that did not occur in the training data; `None` stands for a refused one.
    ///
    /// An empty text may be a category. So look it up first, and take it for a missing value only if the
    /// result is `None`.
    pub fn of(&self, text: &str) -> Option<f64> {
        self.known(text).or(self.unseen())
    }

    /// Returns the number of a category that did not occur in the training data, or `None` if it is refused.
    pub(crate) fn unseen(&self) -> Option<f64> {
        let unseen = match &self.by {
            CodeTable::Texts(_, unseen) | CodeTable::Numbers(_, unseen) => *unseen,
            CodeTable::Hashes(..) => UnseenCategory::Missing,
        };
        match unseen {
            UnseenCategory::Missing => Some(f64::NAN),
            UnseenCategory::Refused => None,
            UnseenCategory::Own => Some(self.count as f64),
        }
    }

    /// Returns whether no category is known.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.by {
            CodeTable::Texts(indices, _) => indices.is_empty(),
            CodeTable::Numbers(indices, _) => indices.is_empty(),
            CodeTable::Hashes(codes, _) => codes.is_empty(),
        }
    }

    /// Returns what the categories are in the training data.
    pub(crate) fn kind(&self) -> CategoryKind {
        match self.by {
            CodeTable::Texts(..) => CategoryKind::Texts,
            CodeTable::Numbers(..) => CategoryKind::Numbers,
            CodeTable::Hashes(..) => CategoryKind::Hashed,
        }
    }

    /// Returns the number of the category that a table writes as `text`, or `None` if it did not occur in the training
    /// data.
    pub(crate) fn known(&self, text: &str) -> Option<f64> {
        match &self.by {
            CodeTable::Texts(indices, _) => indices.get(text).map(|index| *index as f64),
            CodeTable::Numbers(indices, _) => {
                key(text).and_then(|key| indices.get(&key)).map(|index| *index as f64)
            }
            CodeTable::Hashes(codes, truths) => {
                // CatBoost writes truth values as 1 and 0, while tables write them as words.
                let text = match text {
                    "True" if *truths => "1",
                    "False" if *truths => "0",
                    other => other,
                };
                let index = codes.binary_search_by_key(&hash(text.as_bytes()), |(hash, _)| *hash);
                index.ok().map(|index| codes[index].1.0)
            }
        }
    }
}

fn key(text: &str) -> Option<Key> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
        return Some(Key::Truth(text.eq_ignore_ascii_case("true")));
    }
    if let Ok(whole) = text.parse() {
        return Some(Key::Whole(whole));
    }
    let number: f64 = text.parse().ok()?;
    let whole = number == number.trunc() && number.abs() < 2f64.powi(63);
    match number.is_nan() {
        true => None,
        false if whole => Some(Key::Whole(number as i64)),
        false => Some(Key::Real(number.to_bits())),
    }
}

/// Returns CatBoost's hash of a category's text: the low half of CityHash64, version 1.0.
pub(crate) fn hash(text: &[u8]) -> u32 {
    city(text) as u32
}

const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;
const K3: u64 = 0xc949_d7c7_509e_6557;

fn word(text: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&text[at..at + 8]);
    u64::from_le_bytes(bytes)
}

fn word_of_4_bytes(text: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&text[at..at + 4]);
    u32::from_le_bytes(bytes).into()
}

fn shifted(x: u64) -> u64 {
    x ^ (x >> 47)
}

/// Returns a hash of two words as one word.
fn pair(low: u64, high: u64) -> u64 {
    const MUL: u64 = 0x9ddf_ea08_eb38_2d69;
    let a = shifted((low ^ high).wrapping_mul(MUL));
    shifted((high ^ a).wrapping_mul(MUL)).wrapping_mul(MUL)
}

/// Returns a hash of the 32 bytes at `at` and of the seeds `a` and `b`, as two words.
fn hash_32_bytes(text: &[u8], at: usize, a: u64, b: u64) -> [u64; 2] {
    let [w, x, y, z] = [0, 8, 16, 24].map(|more| word(text, at + more));
    let a = a.wrapping_add(w);
    let b = b.wrapping_add(a).wrapping_add(z).rotate_right(21);
    let c = a;
    let a = a.wrapping_add(x).wrapping_add(y);
    let b = b.wrapping_add(a.rotate_right(44));
    [a.wrapping_add(z), b.wrapping_add(c)]
}

fn city(text: &[u8]) -> u64 {
    let n = text.len();
    let length = n as u64;
    match n {
        0 => K2,
        1..=3 => {
            let byte = |i: usize| u64::from(text[i]);
            let y = byte(0) + (byte(n / 2) << 8);
            let z = length + (byte(n - 1) << 2);
            shifted(y.wrapping_mul(K2) ^ z.wrapping_mul(K3)).wrapping_mul(K2)
        }
        4..=8 => pair(length + (word_of_4_bytes(text, 0) << 3), word_of_4_bytes(text, n - 4)),
        9..=16 => {
            let (a, b) = (word(text, 0), word(text, n - 8));
            pair(a, b.wrapping_add(length).rotate_right(n as u32)) ^ b
        }
        17..=32 => {
            let a = word(text, 0).wrapping_mul(K1);
            let b = word(text, 8);
            let c = word(text, n - 8).wrapping_mul(K2);
            let d = word(text, n - 16).wrapping_mul(K0);
            let low = a.wrapping_sub(b).rotate_right(43).wrapping_add(c.rotate_right(30)).wrapping_add(d);
            let high = a.wrapping_add((b ^ K3).rotate_right(20)).wrapping_sub(c).wrapping_add(length);
            pair(low, high)
        }
        33..=64 => city_of_64(text),
        _ => city_of_over_64(text),
    }
}

fn city_of_64(text: &[u8]) -> u64 {
    /// Returns a hash of three words and of the seed `first`, as two words.
    fn three(first: u64, [x, y]: [u64; 2], z: u64) -> [u64; 2] {
        let b = first.wrapping_add(z).rotate_right(52);
        let c = first.rotate_right(37);
        let a = first.wrapping_add(x);
        let c = c.wrapping_add(a.rotate_right(7));
        let a = a.wrapping_add(y);
        [a.wrapping_add(z), b.wrapping_add(a.rotate_right(31)).wrapping_add(c)]
    }
    let n = text.len();
    let a = word(text, 0).wrapping_add((n as u64).wrapping_add(word(text, n - 16)).wrapping_mul(K0));
    let v = three(a, [word(text, 8), word(text, 16)], word(text, 24));
    let a = word(text, 16).wrapping_add(word(text, n - 32));
    let w = three(a, [word(text, n - 24), word(text, n - 16)], word(text, n - 8));
    let low = v[0].wrapping_add(w[1]).wrapping_mul(K2);
    let high = w[0].wrapping_add(v[1]).wrapping_mul(K0);
    let r = shifted(low.wrapping_add(high));
    shifted(r.wrapping_mul(K0).wrapping_add(v[1])).wrapping_mul(K2)
}

fn city_of_over_64(text: &[u8]) -> u64 {
    let n = text.len();
    let mut x = word(text, 0);
    let mut y = word(text, n - 16) ^ K1;
    let mut z = word(text, n - 56) ^ K0;
    let mut v = hash_32_bytes(text, n - 64, n as u64, y);
    let mut w = hash_32_bytes(text, n - 32, (n as u64).wrapping_mul(K1), K0);
    z = z.wrapping_add(shifted(v[1]).wrapping_mul(K1));
    x = z.wrapping_add(x).rotate_right(39).wrapping_mul(K1);
    y = y.rotate_right(33).wrapping_mul(K1);
    for at in (0..(n - 1) / 64 * 64).step_by(64) {
        let sum = x.wrapping_add(y).wrapping_add(v[0]).wrapping_add(word(text, at + 16));
        x = sum.rotate_right(37).wrapping_mul(K1) ^ w[1];
        let sum = y.wrapping_add(v[1]).wrapping_add(word(text, at + 48));
        y = sum.rotate_right(42).wrapping_mul(K1) ^ v[0];
        z = (z ^ w[0]).rotate_right(33);
        v = hash_32_bytes(text, at, v[1].wrapping_mul(K1), x.wrapping_add(w[0]));
        w = hash_32_bytes(text, at + 32, z.wrapping_add(w[1]), y);
        std::mem::swap(&mut z, &mut x);
    }
    let low = pair(v[0], w[0]).wrapping_add(shifted(y).wrapping_mul(K1)).wrapping_add(z);
    pair(low, pair(v[1], w[1]).wrapping_add(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_that_catboost_writes() {
        let repeated = |letter: &str, n: usize| letter.repeat(n);
        let known = [
            (String::new(), 797_982_799),
            ("a".into(), 3_489_901_818),
            ("0".into(), 2_856_682_258),
            ("-1".into(), 288_298_918),
            ("red".into(), 3_052_168_893),
            ("1000".into(), 901_807_697),
            ("dark red".into(), 2_766_598_221),
            ("16777217".into(), 642_038_919),
            (repeated("x", 9), 4_121_982_645),
            (repeated("x", 16), 2_067_776_764),
            (repeated("y", 17), 782_355_611),
            (repeated("y", 32), 3_690_797_023),
            (repeated("z", 33), 2_675_455_389),
            (repeated("z", 64), 2_725_922_757),
            (repeated("w", 65), 1_141_626_801),
            (repeated("w", 128), 3_045_890_605),
            (repeated("v", 129), 2_496_708_607),
            (repeated("v", 200), 250_541_923),
            ("Zürich".into(), 3_409_199_112),
            ("東京".into(), 991_853_845),
        ];
        for (text, expected) in known {
            assert_eq!(hash(text.as_bytes()), expected, "{text}");
        }
    }

    fn indexed(categories: &[&str], numbers: bool, unseen: UnseenCategory) -> Feature {
        let categories = categories.iter().map(|name| (*name).to_owned()).collect();
        Feature {
            categories,
            coding: Coding::Indices { numbers, unseen, needed: false },
            ..Feature::default()
        }
    }

    #[test]
    fn texts_are_compared_as_they_are() {
        let feature = indexed(&["red", "01", " 1", "", "red"], false, UnseenCategory::Refused);
        let codes = feature.codes().expect("categories");
        let found = ["red", "01", " 1", "", "1", "Red", "red "].map(|text| codes.of(text));
        assert_eq!(found, [Some(0.0), Some(1.0), Some(2.0), Some(3.0), None, None, None]);
        assert!(Feature::default().codes().is_none());
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        let large = i64::MAX.to_string();
        let feature = indexed(&["-3", "7", "0.5", "10", &large, "True"], true, UnseenCategory::Missing);
        let codes = feature.codes().expect("categories");
        for (text, code) in [
            ("-3", 0.0),
            ("-3.0", 0.0),
            (" 7 ", 1.0),
            (".5", 2.0),
            ("1e1", 3.0),
            (large.as_str(), 4.0),
            ("true", 5.0),
        ] {
            assert_eq!(codes.of(text), Some(code), "{text}");
        }
        for text in ["8", "red", "", "nan", "9223372036854775806", "1"] {
            assert!(codes.of(text).is_some_and(f64::is_nan), "{text}");
        }
    }

    #[test]
    fn hashes_are_looked_up_by_text() {
        let coded = |texts: &[&str]| {
            let mut codes: Vec<(u32, Real)> = texts
                .iter()
                .zip(0i32..)
                .map(|(text, i)| (hash(text.as_bytes()), Real(f64::from(i) + 0.5)))
                .collect();
            codes.sort_by_key(|(hash, _)| *hash);
            Feature { coding: Coding::Hashes { codes, needed: true }, ..Feature::default() }
        };
        let feature = coded(&["red", "1", "01", ""]);
        let codes = feature.codes().expect("categories");
        assert_eq!(["red", "1", "01", ""].map(|text| codes.of(text)), [0.5, 1.5, 2.5, 3.5].map(Some));
        assert!(["1.0", "pink", "True"].into_iter().all(|text| codes.of(text).is_some_and(f64::is_nan)));
        let feature = coded(&["1"]);
        let codes = feature.codes().expect("categories");
        assert_eq!(codes.of("True"), Some(0.5));
        assert!(codes.of("False").is_some_and(f64::is_nan));
    }
}
