//! Reads numpy's `.npy`: matrices of its real number types.

use half::f16;

use super::{MatrixRequest, RowSet};
use crate::error::{Error, Result};

const REMEDY: &str = "save it again with numpy.save";
/// The maximum size of a header, in bytes. Numpy's own limit is 10 000 characters.
const MOST_HEADER: usize = 10_000;

/// What a file's header says.
#[derive(Clone, Debug, PartialEq)]
struct Header<'b> {
    /// The type of the values, such as `<f4`.
    descr: &'b str,
    /// Whether the values are stored column after column.
    by_columns: bool,
    shape: Vec<usize>,
}

/// Reads a value from its bytes, the least significant first. Zeros follow the bytes of a type of less than 8.
type ValueReader = fn([u8; 8]) -> f64;

/// Reads rows.
///
/// # Errors
/// The shape does not fit the model, the values are no real numbers, or the file is damaged.
pub fn read(wanted: &MatrixRequest<'_>, bytes: &[u8]) -> Result<RowSet> {
    if let Some(column) = wanted.features().iter().position(|feature| feature.coding.is_needed()) {
        let remedy = "give the rows as CSV, with categories as the table had them";
        return wanted
            .fail(format!("the model's column {column} has categories that are no codes; {remedy}"));
    }
    let (header, data) = header(wanted, bytes)?;
    let [rows, columns] = match header.shape[..] {
        [n] if wanted.columns == 1 => [n, 1],
        [n] if n == wanted.columns => [1, n],
        [rows, columns] => [rows, columns],
        [n] => {
            let remedy = format!("reshape it to rows x {}", wanted.columns);
            return wanted.fail(format!("an array of one dimension and {n} values is no matrix; {remedy}"));
        }
        _ => {
            return wanted
                .fail(format!("the array has {} dimensions, rows have 2; reshape it", header.shape.len()));
        }
    };
    wanted.check_columns("rows have", columns)?;
    let values = rows.saturating_mul(columns);
    wanted.check_values(values)?;
    if rows == 0 {
        return wanted.fail("there is no row in it; give at least one row");
    }
    let Some((size, value)) = reader_of(header.descr) else {
        let remedy = "convert it with .astype(numpy.float32)";
        return wanted.fail(format!("values of type {} are not read; {remedy}", header.descr));
    };
    let Some(data) = data.get(..values.saturating_mul(size)) else {
        let what = format!(
            "its header gives {rows} x {columns} values, the file holds {} bytes of them; {REMEDY}",
            data.len()
        );
        return wanted.fail(what);
    };
    let big = header.descr.starts_with('>');
    let element = |at: usize| {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&data[at * size..][..size]);
        if big {
            bytes[..size].reverse();
        }
        value(bytes)
    };
    let index = |at: usize| match header.by_columns {
        true => at % columns * rows + at / columns,
        false => at,
    };
    let values = (0..values).map(|at| element(index(at))).collect();
    Ok(RowSet { name: wanted.name.into(), rows, values, notes: Vec::new() })
}

/// Returns the number of bytes of a type's value, and a function that reads it with the least significant byte first.
/// Returns `None` for a type that is no real number.
fn reader_of(descr: &str) -> Option<(usize, ValueReader)> {
    /// The first bytes of a value.
    fn first<const N: usize>(bytes: [u8; 8]) -> [u8; N] {
        std::array::from_fn(|at| bytes[at])
    }
    Some(match descr.trim_start_matches(['<', '>', '|', '=']) {
        "f2" => (2, |b| f16::from_le_bytes(first(b)).to_f64()),
        "f4" => (4, |b| f64::from(f32::from_le_bytes(first(b)))),
        "f8" => (8, f64::from_le_bytes),
        "i1" => (1, |b| f64::from(i8::from_le_bytes(first(b)))),
        "i2" => (2, |b| f64::from(i16::from_le_bytes(first(b)))),
        "i4" => (4, |b| f64::from(i32::from_le_bytes(first(b)))),
        "i8" => (8, |b| i64::from_le_bytes(b) as f64),
        "u1" => (1, |b| f64::from(b[0])),
        "u2" => (2, |b| f64::from(u16::from_le_bytes(first(b)))),
        "u4" => (4, |b| f64::from(u32::from_le_bytes(first(b)))),
        "u8" => (8, |b| u64::from_le_bytes(b) as f64),
        "b1" => (1, |b| f64::from(u8::from(b[0] != 0))),
        _ => return None,
    })
}

/// Reads the header, and returns it with the bytes after it.
fn header<'b>(wanted: &MatrixRequest<'_>, bytes: &'b [u8]) -> Result<(Header<'b>, &'b [u8])> {
    let wrong = |what: &str| Error::file(wanted.name, format!("{what}; {REMEDY}"));
    let Some(rest) = bytes.strip_prefix(b"\x93NUMPY") else {
        return Err(wrong("it is no npy file: it does not begin with numpy's bytes"));
    };
    let (length, rest) = match rest {
        [1, _, a, b, rest @ ..] => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        [1..=3, ..] | [] => return Err(wrong("the npy file ends in its header")),
        _ => return Err(wrong("it is no npy file of versions 1 to 3")),
    };
    if length > rest.len() {
        return Err(wrong("the npy file ends in its header"));
    }
    let (text, data) = rest.split_at(length);
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= MOST_HEADER);
    let header = text.and_then(parse).ok_or_else(|| wrong("its npy header describes no plain array"))?;
    Ok((header, data))
}

/// Reads the header's text: `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`, with its entries in any order.
fn parse(text: &str) -> Option<Header<'_>> {
    let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    let (mut descr, mut by_columns, mut shape) = (None, None, None);
    while !rest.is_empty() {
        let (key, after) = quoted(rest)?;
        let after = after.trim_start().strip_prefix(':')?.trim_start();
        rest = match key {
            "descr" => {
                let (value, after) = quoted(after)?;
                descr = Some(value);
                after
            }
            "fortran_order" => {
                let (value, after) = match after.strip_prefix("True") {
                    Some(after) => (true, after),
                    None => (false, after.strip_prefix("False")?),
                };
                by_columns = Some(value);
                after
            }
            "shape" => {
                let (inside, after) = after.strip_prefix('(')?.split_once(')')?;
                let lengths = inside.split(',').map(str::trim).filter(|length| !length.is_empty());
                shape = Some(lengths.map(|length| length.parse().ok()).collect::<Option<Vec<usize>>>()?);
                after
            }
            _ => return None,
        };
        rest = rest.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    Some(Header { descr: descr?, by_columns: by_columns?, shape: shape? })
}

/// Returns a text between quotation marks, and the text after it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    text[1..].split_once(quote)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_in_any_order() {
        let found = parse("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n");
        assert_eq!(found, Some(Header { descr: "<f4", by_columns: false, shape: vec![3, 4] }));
        let found = parse(r#"{"shape":(7,),"fortran_order":True,"descr":">i8"}"#);
        assert_eq!(found, Some(Header { descr: ">i8", by_columns: true, shape: vec![7] }));
        for wrong in [
            "",
            "{}",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3",
            "{'descr': '<f4",
            "é",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
