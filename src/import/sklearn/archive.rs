//! Reads an `.npz` file: a zip archive (APPNOTE 6.3) with a file `name.npy` for each array, stored or
//! deflated.
//!
//! Reads only what numpy writes: one disk, no encryption. Checks what an array claims before inflating it,
//! and limits the size of all arrays together to the limit on the file's size.

use std::io::Read;

use flate2::{Crc, read::DeflateDecoder};

use super::super::{ErrorKind, ImportError, Limits, Location};
use super::{EXPORT_AGAIN, error};

/// The longest end record of an archive: 22 bytes, and a comment whose length has 16 bits.
const LONGEST_END: usize = 22 + 0xffff;

/// The value of a 32-bit field whose number is in the entry's zip64 field, with 64 bits.
const WIDE: u64 = 0xffff_ffff;

/// The arrays of an archive, still compressed.
pub(super) struct Archive<'b> {
    bytes: &'b [u8],
    entries: Vec<Entry<'b>>,
}

/// A file of the archive, as the archive's directory describes it.
struct Entry<'b> {
    name: &'b [u8],
    flags: u64,
    method: u64,
    crc: u32,
    packed: u64,
    size: u64,
    header: u64,
}

/// Reads a little-endian integer of 2, 4 or 8 bytes at `at`, or returns `None` past the end.
fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let digits = bytes.get(at..at.checked_add(width)?)?;
    Some(digits.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte)))
}

fn damaged(at: usize, cause: &str) -> ImportError {
    ImportError::new(ErrorKind::Syntax, Location::Byte(at), cause).with_remedy(EXPORT_AGAIN)
}

impl<'b> Archive<'b> {
    /// Reads the directory of an archive. Keeps only the files `name.npy` and `name.sizes.npy` of the arrays
    /// in `names`.
    pub(super) fn open(bytes: &'b [u8], names: &[&str], limits: &Limits) -> Result<Self, ImportError> {
        let (count, mut at) = directory(bytes)?;
        let mut entries: Vec<Entry<'b>> = Vec::new();
        let mut total: u64 = 0;
        for _ in 0..count {
            let (entry, next) =
                Entry::read(bytes, at).ok_or_else(|| damaged(at, "the archive's directory is broken"))?;
            if let Some(name) = entry.array().filter(|name| known(names, name)) {
                if entries.iter().any(|other| other.name == entry.name) {
                    return Err(error(ErrorKind::Structure, name, "the array stands in the file twice"));
                }
                total = total.saturating_add(entry.size);
                if total > limits.file_bytes {
                    let cause = format!(
                        "the arrays up to this one have {total} bytes, over the limit of {}",
                        limits.file_bytes
                    );
                    return Err(ImportError::limit(Location::Field(name.into()), cause, "file_bytes"));
                }
                entries.push(entry);
            }
            at = next;
        }
        Ok(Self { bytes, entries })
    }

    /// Returns the number of bytes that a file of the archive claims to have, or `None` if there is no such
    /// file.
    pub(super) fn size(&self, name: &str) -> Option<u64> {
        self.entry(name).map(|entry| entry.size)
    }

    fn entry(&self, name: &str) -> Option<&Entry<'b>> {
        self.entries.iter().find(|entry| entry.array() == Some(name))
    }

    /// Returns the bytes of a file. Inflates at most one byte more than the file claims, and refuses it if
    /// the number of bytes differs from the claim.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, ImportError> {
        let entry = self.entry(name).ok_or_else(|| missing(name))?;
        let fail = |cause: String| error(ErrorKind::Syntax, name, cause);
        if entry.flags & 1 != 0 {
            return Err(error(ErrorKind::Unsupported, name, "the archive is encrypted"));
        }
        let packed = entry
            .packed(self.bytes)
            .ok_or_else(|| fail("its place in the archive is past the end or no file's".into()))?;
        let mut values = Vec::new();
        match entry.method {
            0 => values.extend_from_slice(packed),
            8 => {
                let claimed = entry.size.saturating_add(1);
                let read = DeflateDecoder::new(packed).take(claimed).read_to_end(&mut values);
                read.map_err(|e| fail(format!("can't be inflated: {e}")))?;
            }
            other => {
                let cause = format!("compressed by method {other}, neither stored nor deflated");
                return Err(error(ErrorKind::Unsupported, name, cause));
            }
        }
        if values.len() as u64 != entry.size {
            return Err(fail(format!("{} bytes claimed, other than there are", entry.size)));
        }
        let mut sum = Crc::new();
        sum.update(&values);
        if sum.sum() != entry.crc {
            return Err(fail("its checksum is wrong".into()));
        }
        Ok(values)
    }
}

/// Returns whether `name` is one of `names`, or the name of such an array's sizes.
fn known(names: &[&str], name: &str) -> bool {
    names.contains(&name.strip_suffix(".sizes").unwrap_or(name))
}

/// Returns the error for a file that lacks an array.
pub(super) fn missing(name: &str) -> ImportError {
    error(ErrorKind::Schema, name, "missing array")
}

/// Returns the names of the first files of any zip archive. If the directory is broken, returns the name that
/// precedes the first file's bytes.
pub(in super::super) fn names(bytes: &[u8]) -> Vec<String> {
    const MOST: u64 = 256;
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let mut names = Vec::new();
    if let Ok((count, mut at)) = directory(bytes) {
        for _ in 0..count.min(MOST) {
            let Some((entry, next)) = Entry::read(bytes, at) else { break };
            names.push(text(entry.name));
            at = next;
        }
    }
    if names.is_empty() {
        let length = number(bytes, 26, 2).unwrap_or(0) as usize;
        names.extend(bytes.get(30..30 + length).map(text));
    }
    names
}

/// Returns the number of entries in the directory, and the offset at which it begins.
fn directory(bytes: &[u8]) -> Result<(u64, usize), ImportError> {
    let last = bytes.len().checked_sub(22);
    let is_end = |at: &usize| {
        bytes[*at..].starts_with(b"PK\x05\x06")
            && number(bytes, at + 20, 2).is_some_and(|comment| at + 22 + comment as usize == bytes.len())
    };
    let first = bytes.len().saturating_sub(LONGEST_END);
    let end = last.and_then(|last| (first..=last).rev().find(is_end));
    let end =
        end.ok_or_else(|| damaged(bytes.len(), "the archive ends too soon: its directory is missing"))?;
    let field = |at: usize, width: usize| number(bytes, end + at, width).unwrap_or(u64::MAX);
    let (count, start) = (field(10, 2), field(16, 4));
    let (count, start) = match count == 0xffff || start == WIDE {
        true => wide_directory(bytes, end)
            .ok_or_else(|| damaged(end, "the archive's zip64 directory is broken"))?,
        false => (count, start),
    };
    let start = usize::try_from(start).ok().filter(|start| *start <= end);
    Ok((count, start.ok_or_else(|| damaged(end, "the archive's directory begins past its end"))?))
}

/// Returns the number of entries and the start of the directory of a zip64 archive, past 4 GiB. Its end
/// record is preceded by a locator that says where a larger end record is.
fn wide_directory(bytes: &[u8], end: usize) -> Option<(u64, u64)> {
    let locator = end.checked_sub(20)?;
    let record = usize::try_from(number(bytes, locator + 8, 8)?).ok()?;
    let found =
        bytes.get(locator..)?.starts_with(b"PK\x06\x07") && bytes.get(record..)?.starts_with(b"PK\x06\x06");
    let field = |at: usize| number(bytes, record.checked_add(at)?, 8);
    if found { field(32).zip(field(48)) } else { None }
}

impl<'b> Entry<'b> {
    /// Returns the name of the array that the file holds.
    fn array(&self) -> Option<&'b str> {
        std::str::from_utf8(self.name.strip_suffix(b".npy")?).ok()
    }

    /// Reads the directory entry at `at`. Returns it and the offset of the next one.
    fn read(bytes: &'b [u8], at: usize) -> Option<(Self, usize)> {
        let head = bytes.get(at..at.checked_add(46)?)?;
        if !head.starts_with(b"PK\x01\x02") {
            return None;
        }
        let field = |at: usize, width: usize| number(head, at, width);
        let lengths = [field(28, 2)?, field(30, 2)?, field(32, 2)?].map(|length| length as usize);
        let name = at + 46;
        let more = name + lengths[0];
        let next = more + lengths[1] + lengths[2];
        bytes.get(at..next)?;
        let mut entry = Self {
            name: bytes.get(name..more)?,
            flags: field(8, 2)?,
            method: field(10, 2)?,
            crc: field(16, 4)? as u32,
            packed: field(20, 4)?,
            size: field(24, 4)?,
            header: field(42, 4)?,
        };
        entry.widen(bytes.get(more..more + lengths[1])?)?;
        Some((entry, next))
    }

    /// Replaces the numbers that do not fit 32 bits by those of the zip64 extra field, which has them in this
    /// order.
    fn widen(&mut self, extra: &[u8]) -> Option<()> {
        let fields = [&mut self.size, &mut self.packed, &mut self.header];
        let narrow: Vec<&mut u64> = fields.into_iter().filter(|field| **field == WIDE).collect();
        let mut at = 0;
        while !narrow.is_empty() && number(extra, at, 2)? != 1 {
            at += 4 + number(extra, at + 2, 2)? as usize;
        }
        for (i, field) in narrow.into_iter().enumerate() {
            *field = number(extra, at + 4 + 8 * i, 8)?;
        }
        Some(())
    }

    /// Returns the file's compressed bytes, which come after a header of the file's own.
    fn packed(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let header = usize::try_from(self.header).ok()?;
        if !bytes.get(header..)?.starts_with(b"PK\x03\x04") {
            return None;
        }
        let [name, extra] = [number(bytes, header + 26, 2)?, number(bytes, header + 28, 2)?];
        let start = header + 30 + name as usize + extra as usize;
        bytes.get(start..start.checked_add(usize::try_from(self.packed).ok()?)?)
    }
}
