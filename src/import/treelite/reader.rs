//! Reads scalars, arrays and strings from the front of a checkpoint's bytes, little endian and without
//! padding.
//!
//! A length in the file is only a claim. Nothing is copied, and an array that goes past the end of the bytes
//! is refused.

use super::super::{ErrorKind, ImportError, Location};
use crate::forest::CompareType;

/// The bytes of a checkpoint, and how far they have been read.
pub(super) struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
    tree: Option<usize>,
}

/// An array of thresholds or leaves, in the type that the header names.
#[derive(Clone, Copy)]
pub(super) enum Reals<'b> {
    F32(&'b [[u8; 4]]),
    F64(&'b [[u8; 8]]),
}

impl Reals<'_> {
    pub(super) fn len(self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    /// Returns the value at index `i`, which must be below [`Reals::len`].
    pub(super) fn get(self, i: usize) -> f64 {
        match self {
            Self::F32(values) => f64::from(f32::from_le_bytes(values[i])),
            Self::F64(values) => f64::from_le_bytes(values[i]),
        }
    }
}

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0, tree: None }
    }

    /// Makes error messages name tree `t` from here on.
    pub(super) fn enter(&mut self, t: usize) {
        self.tree = Some(t);
    }

    pub(super) fn i32(&mut self, field: &str) -> Result<i32, ImportError> {
        self.scalar(field).map(i32::from_le_bytes)
    }

    pub(super) fn u8(&mut self, field: &str) -> Result<u8, ImportError> {
        self.scalar(field).map(u8::from_le_bytes)
    }

    pub(super) fn u64(&mut self, field: &str) -> Result<u64, ImportError> {
        self.scalar(field).map(u64::from_le_bytes)
    }

    pub(super) fn f32(&mut self, field: &str) -> Result<f32, ImportError> {
        self.scalar(field).map(f32::from_le_bytes)
    }

    pub(super) fn bool(&mut self, field: &str) -> Result<bool, ImportError> {
        let begin = self.at;
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            other => {
                Err(self.fail(begin, ErrorKind::Value, format!("{other}, but 0 or 1 is expected"), field))
            }
        }
    }

    /// Reads a length, and then that many items of `W` bytes.
    pub(super) fn list<const W: usize>(&mut self, field: &str) -> Result<&'b [[u8; W]], ImportError> {
        let begin = self.at;
        let count = self.u64(field)?;
        let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(W));
        let Some(bytes) = bytes.and_then(|bytes| self.take(bytes)) else {
            let left = self.bytes.len() - self.at;
            let cause = format!("{count} items of {W} bytes, and {left} bytes are left");
            return Err(self.fail(begin, ErrorKind::Syntax, cause, field));
        };
        Ok(bytes.as_chunks().0)
    }

    /// Reads an array that must have `count` items.
    pub(super) fn exactly<const W: usize>(
        &mut self,
        count: usize,
        of: &str,
        field: &str,
    ) -> Result<&'b [[u8; W]], ImportError> {
        let begin = self.at;
        let list = self.list(field)?;
        if list.len() == count {
            return Ok(list);
        }
        let cause = format!("{} entries for {count} {of}", list.len());
        Err(self.fail(begin, ErrorKind::Structure, cause, field))
    }

    /// Reads an array with an entry for each node.
    pub(super) fn array<const W: usize>(
        &mut self,
        nodes: usize,
        field: &str,
    ) -> Result<&'b [[u8; W]], ImportError> {
        self.exactly(nodes, "nodes", field)
    }

    /// Reads an array of thresholds or leaves with an entry for each node.
    pub(super) fn real_array(
        &mut self,
        nodes: usize,
        of: CompareType,
        field: &str,
    ) -> Result<Reals<'b>, ImportError> {
        Ok(match of {
            CompareType::F32 => Reals::F32(self.array(nodes, field)?),
            CompareType::F64 => Reals::F64(self.array(nodes, field)?),
        })
    }

    /// Reads an array of thresholds or leaves of any length.
    pub(super) fn reals(&mut self, of: CompareType, field: &str) -> Result<Reals<'b>, ImportError> {
        Ok(match of {
            CompareType::F32 => Reals::F32(self.list(field)?),
            CompareType::F64 => Reals::F64(self.list(field)?),
        })
    }

    /// Skips fields that a later release may have added. treelite skips them too.
    pub(super) fn optional_fields(&mut self, field: &str) -> Result<(), ImportError> {
        let begin = self.at;
        let count = self.i32(field)?;
        if count < 0 {
            return Err(self.fail(begin, ErrorKind::Value, format!("{count} fields"), field));
        }
        for _ in 0..count {
            self.list::<1>(field)?;
            let begin = self.at;
            let (size, count) = (self.u64(field)?, self.u64(field)?);
            let bytes = size.checked_mul(count).and_then(|bytes| usize::try_from(bytes).ok());
            if bytes.and_then(|bytes| self.take(bytes)).is_none() {
                let left = self.bytes.len() - self.at;
                let cause = format!("{count} items of {size} bytes, and {left} bytes are left");
                return Err(self.fail(begin, ErrorKind::Syntax, cause, field));
            }
        }
        Ok(())
    }

    /// Checks that nothing follows the last tree.
    pub(super) fn end(&self) -> Result<(), ImportError> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            left => {
                let cause = format!("{left} bytes after the end of the model");
                Err(ImportError::new(ErrorKind::Syntax, Location::Byte(self.at), cause))
            }
        }
    }

    fn scalar<const W: usize>(&mut self, field: &str) -> Result<[u8; W], ImportError> {
        let begin = self.at;
        let chunk = self.take(W).and_then(<[u8]>::first_chunk);
        chunk.copied().ok_or_else(|| self.fail(begin, ErrorKind::Syntax, "the file ends here".into(), field))
    }

    fn take(&mut self, bytes: usize) -> Option<&'b [u8]> {
        let end = self.at.checked_add(bytes)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn fail(&self, byte: usize, kind: ErrorKind, cause: String, field: &str) -> ImportError {
        let of = self.tree.map_or(String::new(), |t| format!(" of tree {t}"));
        ImportError::new(kind, Location::Byte(byte), format!("`{field}`{of}: {cause}"))
    }
}
