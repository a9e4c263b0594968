//! Categories of CatBoost models. A model keeps the hash of each category's string. A row holds a whole
//! number, which is the category whose string is that number. If rows are made from strings, a row holds a
//! number that stands for the string's hash.

use std::collections::HashMap;

use super::super::error::at;
use super::super::{ErrorKind, ImportError, Location, RAW_CATEGORIES};
use super::schema::CategoryName;
use crate::forest::{MOST_CATEGORIES, category_hash as hash};

/// A code whose absolute value is below this is accepted without its string. Of the hashes of other strings,
/// one in 2^15 equals the hash of such a code.
const NEAR: i64 = 1 << 16;

/// The search for numbers that share a hash ends here, so that a file can't make it run longer.
const SEARCH_END: i32 = 1 << 20;

const REMEDY: &str = "train on whole numbers below 2^24 as categories (an integer column in cat_features), and save \
    with save_model(..., format='json', pool=train_pool), which names them; or";

/// The codes whose strings have one hash. A split on that hash asks for these codes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Codes {
    One(i32),
    /// Two or more codes, none of them negative.
    Many(Vec<u32>),
    /// No code, or an unknown one. Only a category's string tells whether it has the hash.
    Text,
}

/// Returns the codes of each hash. `hashes` maps each hash to the location of the tree that asks for it. Refuses a
/// hash whose category is no number, unless rows are made from `raw` strings.
pub(super) fn codes(
    hashes: HashMap<u32, Location>,
    named: &[CategoryName],
    raw: bool,
) -> Result<HashMap<u32, Codes>, ImportError> {
    if hashes.is_empty() {
        return Ok(HashMap::new());
    }
    let names: HashMap<u32, &str> = named.iter().map(|n| (n.hash, n.value.as_str())).collect();
    let mut found = search(hashes.keys().copied(), |hash| raw || names.contains_key(&hash));
    // The order of the hashes is fixed, so that the same file always gives the same error.
    let mut hashes: Vec<(u32, Location)> = hashes.into_iter().collect();
    hashes.sort_by_key(|(hash, _)| *hash);
    let refuse = |location: &Location, cause: String| {
        let remedy = format!("{REMEDY} {RAW_CATEGORIES}");
        Err(ImportError::new(ErrorKind::Unsupported, location.clone(), cause).with_remedy(remedy))
    };
    let mut codes = HashMap::with_capacity(hashes.len());
    for (hash, location) in hashes {
        let numbers = found.remove(&hash).unwrap_or_default();
        let near: Vec<i32> =
            numbers.iter().copied().filter(|code| i64::from(code.unsigned_abs()) < NEAR).collect();
        let alike = near.len() > 1 && near[..2].iter().any(|code| *code < 0);
        if raw && !names.contains_key(&hash) && (near.is_empty() || alike) {
            codes.insert(hash, Codes::Text);
            continue;
        }
        let known = match (names.get(&hash), &near[..]) {
            (Some(name), _) => match code(name) {
                None if !raw => {
                    return refuse(&location, format!("category `{name}` is no whole number below 2^24"));
                }
                _ if self::hash(name.as_bytes()) != hash => {
                    let cause = format!("category {name} is said to have the hash {hash}, which it has not");
                    return Err(at(ErrorKind::Value, "features_info.cat_features_hash", cause));
                }
                Some(code) => code,
                None => {
                    codes.insert(hash, Codes::Text);
                    continue;
                }
            },
            (None, []) => {
                return refuse(
                    &location,
                    format!("category with hash {hash} is no whole number below 65536"),
                );
            }
            (None, [first, second, ..]) if *first < 0 || *second < 0 => {
                return refuse(
                    &location,
                    format!("categories {first} and {second} have the same hash {hash}"),
                );
            }
            (None, [first, ..]) => *first,
        };
        let plain: Vec<u32> = numbers.iter().filter_map(|code| u32::try_from(*code).ok()).collect();
        // Of the numbers with this hash, a negative one counts only if it is the known code.
        let asked = if known < 0 || plain.len() < 2 { Codes::One(known) } else { Codes::Many(plain) };
        codes.insert(hash, asked);
    }
    Ok(codes)
}

/// Returns the code that a category's string spells, or `None` if the string is not the plain decimal text of
/// a whole number between -2^24 and 2^24.
fn code(name: &str) -> Option<i32> {
    let code = name.parse::<i32>().ok()?;
    (code.to_string() == name && code.unsigned_abs() < MOST_CATEGORIES).then_some(code)
}

/// Returns the numbers between -2^16 and 2^20 that have each hash. The search stops at 2^16 if a hash has
/// neither a number nor a name by then, since such a hash is refused.
fn search(hashes: impl ExactSizeIterator<Item = u32>, named: impl Fn(u32) -> bool) -> HashMap<u32, Vec<i32>> {
    // The filter marks the low bits of each wanted hash, so that few other numbers get past it.
    let bits = (hashes.len().min(1 << 20) * 64).next_power_of_two() as u32;
    let mut filter = vec![false; bits as usize];
    let mut found: HashMap<u32, Vec<i32>> = HashMap::with_capacity(hashes.len());
    for hash in hashes {
        filter[(hash & (bits - 1)) as usize] = true;
        found.insert(hash, Vec::new());
    }
    let mut digits = Decimal::new();
    for code in 0..SEARCH_END {
        if i64::from(code) == NEAR && found.iter().any(|(hash, codes)| codes.is_empty() && !named(*hash)) {
            break;
        }
        let mut test = |code: i32, text: &[u8]| {
            let hash = hash(text);
            if filter[(hash & (bits - 1)) as usize]
                && let Some(codes) = found.get_mut(&hash)
            {
                codes.push(code);
            }
        };
        test(code, digits.text());
        if code > 0 && i64::from(code) < NEAR {
            test(-code, digits.negative());
        }
        digits.increment();
    }
    found
}

/// A counter that keeps its number as decimal digits.
struct Decimal {
    /// The digits at the end, with `-` in every byte before them. The last `-` is the sign of the negative
    /// number.
    text: [u8; 10],
    length: usize,
}

impl Decimal {
    fn new() -> Self {
        Self { text: *b"---------0", length: 1 }
    }

    fn text(&self) -> &[u8] {
        &self.text[10 - self.length..]
    }

    fn negative(&self) -> &[u8] {
        &self.text[9 - self.length..]
    }

    fn increment(&mut self) {
        for (i, digit) in self.text.iter_mut().rev().enumerate() {
            match *digit {
                b'9' => *digit = b'0',
                b'-' => {
                    *digit = b'1';
                    self.length = i + 1;
                    return;
                }
                _ => {
                    *digit += 1;
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_share_a_hash_are_all_asked_for() {
        assert_eq!(hash(b"47220"), hash(b"111524"));
        let found = resolve(&["47220"], &[]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(found, [Codes::Many(vec![47220, 111_524])]);
        // 10255511 has the same hash, but is past the end of the search.
        assert_eq!(hash(b"34781"), hash(b"10255511"));
        assert_eq!(resolve(&["34781"], &[]).unwrap_or_else(|e| panic!("{e}")), [Codes::One(34781)]);
        let found = resolve(&["-19914"], &[]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((hash(b"311578"), found), (hash(b"-19914"), vec![Codes::One(-19914)]));
        // Two numbers are equally likely: only the name can tell.
        let error = resolve(&["15184"], &[]).expect_err("two numbers");
        assert!(error.cause().contains("have the same hash 2087706029"), "{error}");
        let name = CategoryName { hash: hash(b"15184"), value: "15184".into() };
        assert_eq!(resolve(&["15184"], &[name]).unwrap_or_else(|e| panic!("{e}")), [Codes::One(15184)]);
        let name = CategoryName { hash: hash(b"15184"), value: "15185".into() };
        let error = resolve(&["15184"], &[name]).expect_err("a wrong name");
        assert_eq!(error.kind(), ErrorKind::Value, "{error}");
    }

    #[test]
    fn numbers_are_counted_in_decimal() {
        let mut digits = Decimal::new();
        for code in 0..120_000 {
            assert_eq!(digits.text(), code.to_string().as_bytes());
            if code > 0 {
                assert_eq!(digits.negative(), (-code).to_string().as_bytes());
            }
            digits.increment();
        }
    }

    fn resolve(texts: &[&str], named: &[CategoryName]) -> Result<Vec<Codes>, ImportError> {
        let hashes = texts.iter().map(|t| (hash(t.as_bytes()), Location::File)).collect();
        let found = codes(hashes, named, false)?;
        Ok(texts.iter().map(|t| found[&hash(t.as_bytes())].clone()).collect())
    }

    #[test]
    fn whole_numbers_are_found_by_their_hash_and_nothing_else_is() {
        let found = resolve(&["0", "7", "-1", "65535"], &[]).unwrap_or_else(|e| panic!("{e}"));
        for (codes, code) in found.into_iter().zip([0, 7, -1, 65535]) {
            match codes {
                Codes::One(one) => assert_eq!(one, code),
                Codes::Many(many) => assert!(code >= 0 && many.contains(&(code as u32))),
                Codes::Text => panic!("{code} is a whole number"),
            }
        }
        for text in ["red", "1.0", "16777215", "01"] {
            let error = resolve(&["0", text], &[]).expect_err(text);
            assert!(error.cause().contains("no whole number"), "{error}");
        }
        let name = |text: &str| CategoryName { hash: hash(text.as_bytes()), value: text.into() };
        let found = resolve(&["16777215"], &[name("16777215")]).unwrap_or_else(|e| panic!("{e}"));
        assert!(matches!(&found[0], Codes::One(16_777_215) | Codes::Many(_)));
        for text in ["red", "16777216", "-0", "+1"] {
            let error = resolve(&[text], &[name(text)]).expect_err(text);
            assert!(error.cause().contains(&format!("category `{text}`")), "{error}");
            for named in [vec![], vec![name(text)]] {
                let hash = hash(text.as_bytes());
                let found = codes(HashMap::from([(hash, Location::File)]), &named, true);
                assert_eq!(found.unwrap_or_else(|e| panic!("{e}"))[&hash], Codes::Text);
            }
        }
        let wrong = CategoryName { hash: hash(b"blue"), value: "red".into() };
        let error = codes(HashMap::from([(hash(b"blue"), Location::File)]), &[wrong], true)
            .expect_err("a wrong name");
        assert_eq!(error.kind(), ErrorKind::Value, "{error}");
    }
}
