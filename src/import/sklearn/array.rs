//! Reads the arrays in an archive: `.npy` files of one dimension, of whole numbers or of `f64`.

use std::ops::Range;

use super::super::{ErrorKind, ImportError, Location};
use super::archive::{Archive, missing};
use super::error;

/// The longest header of an array of one dimension. numpy pads it to a multiple of 64 bytes.
const LONGEST_HEADER: u64 = 256;

/// Bytes of the widest entry.
const WIDEST: u64 = 8;

/// The number of entries that an array may have.
#[derive(Clone, Copy)]
pub(super) enum Count {
    /// Exactly this many; the text names what has one entry each.
    Exactly(usize, &'static str),
    /// At most this many; the text names the field of the limits.
    AtMost(usize, &'static str),
}

/// Reads an array of `f64`. Checks its claimed size before inflating it.
pub(super) fn reals(archive: &Archive<'_>, name: &str, count: Count) -> Result<Vec<f64>, ImportError> {
    let file = File::read(archive, name, count)?;
    match file.descr() {
        "<f8" => Ok(file.entries().as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()),
        _ if file.count == 0 => Ok(Vec::new()),
        other => Err(error(ErrorKind::Schema, name, format!("entries of type {other}, expected <f8"))),
    }
}

/// Reads an array of whole numbers. numpy's type for them differs between releases of scikit-learn. Checks
/// the array's claimed size before inflating it.
pub(super) fn integers<T: TryFrom<i64>>(
    archive: &Archive<'_>,
    name: &str,
    count: Count,
) -> Result<Vec<T>, ImportError> {
    let file = File::read(archive, name, count)?;
    let entries = file.entries();
    let values = match file.descr() {
        "|b1" | "|u1" => each(entries, |b| Some(u8::from_le_bytes(b).into())),
        "|i1" => each(entries, |b| Some(i8::from_le_bytes(b).into())),
        "<u2" => each(entries, |b| Some(u16::from_le_bytes(b).into())),
        "<i2" => each(entries, |b| Some(i16::from_le_bytes(b).into())),
        "<u4" => each(entries, |b| Some(u32::from_le_bytes(b).into())),
        "<i4" => each(entries, |b| Some(i32::from_le_bytes(b).into())),
        "<u8" => each(entries, |b| i64::try_from(u64::from_le_bytes(b)).ok()),
        "<i8" => each(entries, |b| Some(i64::from_le_bytes(b))),
        // numpy makes an empty list an array of f64.
        _ if file.count == 0 => Ok(Vec::new()),
        other => {
            let cause = format!("entries of type {other}, expected whole numbers");
            return Err(error(ErrorKind::Schema, name, cause));
        }
    };
    values.map_err(|i| error(ErrorKind::Value, format!("{name}[{i}]"), "the number is out of its range"))
}

/// Returns the numbers of `N` bytes each, or the index of the first one that does not fit `T`.
fn each<T: TryFrom<i64>, const N: usize>(
    entries: &[u8],
    number: impl Fn([u8; N]) -> Option<i64>,
) -> Result<Vec<T>, usize> {
    let chunks = entries.as_chunks().0.iter().enumerate();
    chunks.map(|(i, bytes)| number(*bytes).and_then(|n| T::try_from(n).ok()).ok_or(i)).collect()
}

/// Returns the range of each tree's entries in an array, from the array of their numbers.
pub(super) fn ranges(
    archive: &Archive<'_>,
    name: &str,
    count: Count,
) -> Result<Vec<Range<usize>>, ImportError> {
    let sizes_name = format!("{name}.sizes");
    let sizes: Vec<u64> = integers(archive, &sizes_name, count)?;
    let mut end = 0usize;
    let range = |(i, size): (usize, u64)| {
        let start = end;
        let next = usize::try_from(size).ok().and_then(|size| end.checked_add(size));
        end = next.ok_or_else(|| {
            error(ErrorKind::Value, format!("{sizes_name}[{i}]"), "more entries than can be counted")
        })?;
        Ok(start..end)
    };
    sizes.into_iter().enumerate().map(range).collect()
}

/// A `.npy` file whose header has been checked.
struct File {
    bytes: Vec<u8>,
    descr: Range<usize>,
    /// The byte at which the entries begin.
    start: usize,
    count: usize,
}

impl File {
    fn read(archive: &Archive<'_>, name: &str, count: Count) -> Result<Self, ImportError> {
        let size = archive.size(name).ok_or_else(|| missing(name))?;
        let (Count::Exactly(most, _) | Count::AtMost(most, _)) = count;
        if size > (most as u64).saturating_mul(WIDEST).saturating_add(LONGEST_HEADER) {
            return Err(too_many(name, (size.saturating_sub(LONGEST_HEADER) / WIDEST) as usize, count));
        }
        let bytes = archive.read(name)?;
        let (descr, claimed, start) =
            header(&bytes).map_err(|cause| error(ErrorKind::Schema, name, cause))?;
        let rest = bytes.len() - start;
        let each = width(&bytes[descr.clone()])
            .ok_or_else(|| {
                let descr = String::from_utf8_lossy(&bytes[descr.clone()]);
                error(ErrorKind::Schema, name, format!("entries of type {descr}, expected numbers"))
            })?
            .into();
        if claimed != (rest / each) as u64 || !rest.is_multiple_of(each) {
            let cause = format!("{claimed} entries of {each} bytes claimed in {rest} bytes");
            return Err(error(ErrorKind::Syntax, name, cause));
        }
        let entries = rest / each;
        match count {
            Count::AtMost(most, _) if entries <= most => {}
            Count::Exactly(expected, _) if entries == expected => {}
            _ => return Err(too_many(name, entries, count)),
        }
        Ok(Self { descr, start, count: entries, bytes })
    }

    fn descr(&self) -> &str {
        std::str::from_utf8(&self.bytes[self.descr.clone()]).unwrap_or_default()
    }

    fn entries(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// Returns the bytes of one entry, or `None` for a type that is not read.
fn width(descr: &[u8]) -> Option<u8> {
    match descr {
        b"|b1" | b"|u1" | b"|i1" => Some(1),
        b"<u2" | b"<i2" => Some(2),
        b"<u4" | b"<i4" => Some(4),
        b"<u8" | b"<i8" | b"<f8" => Some(8),
        _ => None,
    }
}

fn too_many(name: &str, entries: usize, count: Count) -> ImportError {
    match count {
        Count::Exactly(expected, what) => {
            error(ErrorKind::Structure, name, format!("{entries} entries or more for {expected} {what}"))
        }
        Count::AtMost(most, field) => {
            let cause = format!("{entries} entries or more, over the limit of {most}");
            ImportError::limit(Location::Field(name.into()), cause, field)
        }
    }
}

/// Returns where the header holds the type of the entries, how many entries it claims, and where they begin.
/// Returns what is wrong with a broken header.
fn header(bytes: &[u8]) -> Result<(Range<usize>, u64, usize), String> {
    const BEFORE: &str = "{'descr': '";
    let broken = || "no array of numpy's".to_owned();
    let length = match bytes {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => usize::from(u16::from_le_bytes([*a, *b])),
        _ => return Err(broken()),
    };
    let text = bytes.get(10..10 + length).and_then(|text| std::str::from_utf8(text).ok());
    // numpy always writes the header in this form.
    let text = text.and_then(|text| text.strip_prefix(BEFORE)).ok_or_else(broken)?;
    let (descr, rest) = text.split_once("', 'fortran_order': False, 'shape': (").ok_or_else(broken)?;
    let (shape, _) = rest.split_once("), }").ok_or_else(broken)?;
    let entries = shape.strip_suffix(',').and_then(|entries| entries.parse().ok());
    let entries = entries.ok_or_else(|| format!("of shape ({shape}), expected one dimension"))?;
    let start = 10 + BEFORE.len();
    Ok((start..start + descr.len(), entries, 10 + length))
}
