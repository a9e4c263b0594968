//! Cuts comma-separated text into chunks of whole records.

use std::{
    fmt,
    io::{self, Read},
    path::Path,
    sync::{Arc, Mutex, atomic::AtomicBool},
};

use crate::{
    error::{Error, Result},
    standard_input::{PIPE, StandardInput, read_once},
};

/// The number of bytes of a chunk. A record whose end was not read yet goes to the next chunk.
const CHUNK: usize = 4 << 20;

/// The maximum number of bytes in memory while the end of a record is searched for.
const MOST_BYTES: usize = 64 << 20;

/// Some whole records.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The text.
    pub bytes: Vec<u8>,
    /// The number of the line on which it begins, counted from 1.
    pub line: usize,
    /// Whether the text contains a quotation mark.
    pub has_quotes: bool,
}

impl Chunk {
    /// Returns the chunk's name in messages.
    pub fn name(&self) -> String {
        format!("the lines from {} on", self.line)
    }
}

/// Returns the next chunk of a file, or `None` at the end and after an error.
pub fn next(chunks: &Mutex<Chunks>, path: &Path) -> Option<Result<Chunk>> {
    let next = chunks.lock().ok()?.next();
    next.map_err(|e| Error::file(path, format!("{e}; give a file that can be read"))).transpose()
}

/// The chunks of a text.
pub struct Chunks {
    input: Box<dyn Read + Send>,
    /// Whether each read gives a chunk, so that a program that writes into a pipe gets answers at once.
    eager: bool,
    /// Whether quotation marks have no special meaning.
    plain: bool,
    /// The beginning of a record whose end is not read yet.
    rest: Vec<u8>,
    line: usize,
    ended: bool,
}

impl fmt::Debug for Chunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks").field("line", &self.line).finish_non_exhaustive()
    }
}

impl Chunks {
    /// Cuts a file.
    pub fn of_file(file: std::fs::File) -> Self {
        Self::new(Box::new(file), false, false)
    }

    /// Cuts a file whose records are lines.
    pub fn of_lines(file: std::fs::File) -> Self {
        Self::new(Box::new(file), false, true)
    }

    fn new(input: Box<dyn Read + Send>, eager: bool, plain: bool) -> Self {
        Self { input, eager, plain, rest: Vec::new(), line: 1, ended: false }
    }

    /// Cuts standard input, until `stop` is set.
    pub fn of_stdin(stop: Arc<AtomicBool>) -> Self {
        Self::new(Box::new(StandardInput::open(stop)), true, false)
    }

    /// Returns the next chunk, or `None` at the end and after an error.
    ///
    /// # Errors
    /// The input can't be read, or a record is longer than 64 MiB.
    pub fn next(&mut self) -> io::Result<Option<Chunk>> {
        let next = self.read();
        self.ended |= next.is_err();
        next
    }

    fn read(&mut self) -> io::Result<Option<Chunk>> {
        let mut bytes = std::mem::take(&mut self.rest);
        let mut ends = RecordEnds { plain: self.plain, ..RecordEnds::default() };
        let mut end = 0;
        while !self.ended {
            let before = bytes.len();
            let at_most = if self.eager { PIPE } else { CHUNK };
            if self.eager {
                bytes.resize(before + at_most, 0);
                let read = read_once(&mut self.input, &mut bytes[before..]);
                bytes.truncate(before + *read.as_ref().unwrap_or(&0));
                read?;
            } else {
                // A buffer that grows while it is read into is copied.
                bytes.try_reserve(at_most).map_err(|_| io::ErrorKind::OutOfMemory)?;
                (&mut self.input).take(at_most as u64).read_to_end(&mut bytes)?;
            }
            if bytes.len() == before {
                self.ended = true;
                break;
            }
            end = ends.last_end(&bytes);
            if end > 0 && (self.eager || bytes.len() >= CHUNK) {
                break;
            }
            if end == 0 && bytes.len() > MOST_BYTES {
                return Err(io::Error::other(format!(
                    "the record on line {} does not end within {} MiB; close its quotation mark, or end lines with \\n",
                    self.line,
                    MOST_BYTES >> 20
                )));
            }
        }
        if self.ended {
            ends.last_end(&bytes);
            end = bytes.len();
        }
        if end == 0 {
            return Ok(None);
        }
        self.rest = bytes.split_off(end);
        let line = self.line;
        self.line += newlines(&bytes);
        Ok(Some(Chunk { bytes, line, has_quotes: ends.any_quote }))
    }
}

/// Returns the number of line breaks in a text.
pub fn newlines(bytes: &[u8]) -> usize {
    // Chunks are so short that a byte can count their line breaks, so that the compiler vectorizes the loop.
    let few = bytes.chunks(usize::from(u8::MAX));
    few.map(|few| usize::from(few.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>())).sum()
}

/// Finds the ends of records in a text that grows. A line break inside quotation marks does not end a record. As in the
/// crate `csv`, a quotation mark opens a quoted text only at the beginning of a field, and two inside it stand
/// for one.
#[derive(Debug)]
struct RecordEnds {
    /// The number of bytes that were examined.
    seen: usize,
    /// The end of the last record.
    end: usize,
    /// Whether the next byte is inside quotation marks.
    quoted: bool,
    /// Whether a quotation mark opens a quoted text. It does at the beginning of a field. It also does right after a
    /// closing one, because the two together stand for one inside the text.
    opens: bool,
    /// Whether there was a quotation mark.
    any_quote: bool,
    /// Whether quotation marks have no special meaning.
    plain: bool,
}

impl Default for RecordEnds {
    fn default() -> Self {
        Self { seen: 0, end: 0, quoted: false, opens: true, any_quote: false, plain: false }
    }
}

impl RecordEnds {
    /// Returns the end of the last complete record of a text that has grown at its end, or 0 if there is none.
    fn last_end(&mut self, bytes: &[u8]) -> usize {
        let new = &bytes[self.seen..];
        let quotes = new.contains(&b'"');
        self.any_quote |= quotes;
        if self.plain || !self.quoted && !quotes {
            // Each line break ends a record.
            if let Some(at) = new.iter().rposition(|byte| *byte == b'\n') {
                self.end = self.seen + at + 1;
            }
            if let Some(last) = new.last() {
                self.opens = matches!(last, b',' | b'\n' | b'\r');
            }
        } else {
            for (at, byte) in (self.seen..).zip(new) {
                match (self.quoted, byte) {
                    (true, b'"') => (self.quoted, self.opens) = (false, true),
                    (true, _) => {}
                    (false, b'"') => (self.quoted, self.opens) = (self.opens, false),
                    (false, byte) => {
                        self.opens = matches!(byte, b',' | b'\n' | b'\r');
                        if *byte == b'\n' {
                            self.end = at + 1;
                        }
                    }
                }
            }
        }
        self.seen = bytes.len();
        self.end
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::{Chunks, RecordEnds};

    /// Random texts of few letters, which grow by random lengths. The two texts before and after an end have the records
    /// of the whole text.
    #[test]
    fn cuts_are_between_records() {
        let records = |bytes: &[u8]| -> Vec<Vec<Vec<u8>>> {
            let mut reader = ::csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
            reader.byte_records().map(|r| r.expect("bytes").iter().map(<[u8]>::to_vec).collect()).collect()
        };
        let mut state = 7u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let mut cuts = 0;
        for _ in 0..20_000 {
            let text: Vec<u8> = (0..random(24)).map(|_| b"a,\"\n\r\"\n,"[random(8)]).collect();
            let (mut ends, mut seen) = (RecordEnds::default(), 0);
            while seen < text.len() {
                seen = (seen + 1 + random(6)).min(text.len());
                let end = ends.last_end(&text[..seen]);
                let apart = [records(&text[..end]), records(&text[end..])].concat();
                assert_eq!(apart, records(&text), "{:?} cut at {end}", String::from_utf8_lossy(&text));
                cuts += usize::from(end > 0);
            }
        }
        assert!(cuts > 10_000, "{cuts} cuts");
    }

    /// A reader that gives a few bytes at a time.
    struct Slow(Vec<u8>, usize);

    impl Read for Slow {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            let count = self.1.min(self.0.len()).min(to.len());
            to[..count].copy_from_slice(&self.0[..count]);
            self.0.drain(..count);
            Ok(count)
        }
    }

    #[test]
    fn a_pipe_gives_records_as_they_come() {
        let text = b"1,2\n3,\"4\n5\"\n6,7";
        for eager in [true, false] {
            let input = Box::new(Slow(text.to_vec(), 5));
            let mut chunks = Chunks::new(input, eager, false);
            let mut found = Vec::new();
            while let Some(chunk) = chunks.next().expect("bytes") {
                found.push((chunk.line, String::from_utf8(chunk.bytes).expect("ASCII")));
            }
            let expected: &[(usize, &str)] = match eager {
                true => &[(1, "1,2\n"), (2, "3,\"4\n5\"\n"), (4, "6,7")],
                false => &[(1, "1,2\n3,\"4\n5\"\n6,7")],
            };
            let expected: Vec<_> = expected.iter().map(|(line, text)| (*line, (*text).to_owned())).collect();
            assert_eq!(found, expected);
        }
    }
}
