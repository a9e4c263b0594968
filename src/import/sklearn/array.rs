//! The arrays in an archive: `.npy` files of one dimension and of one of four types.

use super::super::{ErrorKind, ImportError, Place};
use super::archive::{Archive, missing};
use super::error;

/// Longest header of an array of one dimension, which numpy fills up to a multiple of 64 bytes.
const LONGEST_HEADER: u64 = 256;

/// A type of an array's entries.
pub(super) trait Number: Sized {
    /// What numpy calls it.
    const DESCR: &str;
    /// Its size in bytes.
    const SIZE: usize;
    /// The value of that many bytes.
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! number {
    ($($type:ty, $descr:literal)*) => {$(
        impl Number for $type {
            const DESCR: &str = $descr;
            const SIZE: usize = size_of::<$type>();
            fn read(bytes: &[u8]) -> Self {
                bytes.try_into().map(Self::from_le_bytes).unwrap_or_default()
            }
        }
    )*};
}

number! { u8, "|u1" i32, "<i4" i64, "<i8" f64, "<f8" }

/// How many entries an array may have.
#[derive(Clone, Copy)]
pub(super) enum Count {
    /// So many, of these.
    Exactly(usize, &'static str),
    /// So many by this field of the limits.
    AtMost(usize, &'static str),
}

/// Reads an array. What it claims is checked before it is inflated.
pub(super) fn read<T: Number>(
    archive: &Archive<'_>,
    name: &str,
    count: Count,
) -> Result<Vec<T>, ImportError> {
    let size = archive.size(name).ok_or_else(|| missing(name))?;
    let (Count::Exactly(most, _) | Count::AtMost(most, _)) = count;
    if size > (most as u64).saturating_mul(T::SIZE as u64).saturating_add(LONGEST_HEADER) {
        let claimed = size.saturating_sub(LONGEST_HEADER) / T::SIZE as u64;
        return Err(too_many(name, claimed as usize, count));
    }
    let bytes = archive.read(name)?;
    let (entries, values) = header::<T>(&bytes).map_err(|cause| error(ErrorKind::Schema, name, cause))?;
    if entries != (values.len() / T::SIZE) as u64 || !values.len().is_multiple_of(T::SIZE) {
        let cause = format!("{entries} entries of {} bytes claimed in {} bytes", T::SIZE, values.len());
        return Err(error(ErrorKind::Syntax, name, cause));
    }
    let entries = values.len() / T::SIZE;
    match count {
        Count::AtMost(most, _) if entries <= most => {}
        Count::Exactly(expected, _) if entries == expected => {}
        _ => return Err(too_many(name, entries, count)),
    }
    Ok(values.chunks_exact(T::SIZE).map(T::read).collect())
}

fn too_many(name: &str, entries: usize, count: Count) -> ImportError {
    match count {
        Count::Exactly(expected, what) => {
            error(ErrorKind::Structure, name, format!("{entries} entries or more for {expected} {what}"))
        }
        Count::AtMost(most, field) => {
            let cause = format!("{entries} entries or more, over the limit of {most}");
            ImportError::limit(Place::Field(name.into()), cause, field)
        }
    }
}

/// The entries that a header claims, and the bytes after it; or what is wrong with it.
fn header<T: Number>(bytes: &[u8]) -> Result<(u64, &[u8]), String> {
    let broken = || "no array of numpy's".to_owned();
    let (length, rest) = match bytes {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, rest @ ..] => (u16::from_le_bytes([*a, *b]), rest),
        _ => return Err(broken()),
    };
    let (text, values) = rest.split_at_checked(length.into()).ok_or_else(broken)?;
    // What numpy writes is always spelt like this.
    let text = std::str::from_utf8(text).ok().and_then(|text| text.strip_prefix("{'descr': '"));
    let (descr, text) =
        text.and_then(|text| text.split_once("', 'fortran_order': False, 'shape': (")).ok_or_else(broken)?;
    let (shape, _) = text.split_once("), }").ok_or_else(broken)?;
    if descr != T::DESCR {
        return Err(format!("entries of type {descr}, expected {}", T::DESCR));
    }
    let entries = shape.strip_suffix(',').and_then(|entries| entries.parse().ok());
    Ok((entries.ok_or_else(|| format!("of shape ({shape}), expected one dimension"))?, values))
}
