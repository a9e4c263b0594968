//! The messages of Arrow streams, and the blocks of Arrow files. No memory is taken for a length before it is checked: a
//! stream's buffer grows with what arrives, and a file's blocks have to lie in the file.
//!
//! The format is Arrow's "Serialization and Interprocess Communication (IPC)" (Columnar Format, 1.5).

use std::{
    collections::VecDeque,
    fmt::{self, Display},
    fs::File,
    io::{BufReader, Read, Seek, SeekFrom},
    sync::Arc,
};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::{
    Block, MessageHeader,
    convert::fb_to_schema,
    reader::{FileReader, StreamDecoder, read_footer_length},
    root_as_footer, root_as_message,
};
use arrow_schema::SchemaRef;

use crate::{error::catch_own_panic, standard_input::PIPE};

/// The marker that begins a message.
const MARKER: [u8; 4] = [0xff; 4];
/// The bytes that end a stream.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
/// The bytes at the end of a file: the length of the footer, and `ARROW1`.
const TRAILER: usize = 10;

/// A stream of Arrow, which is read message by message.
pub struct ArrowStream {
    input: Input,
    decoder: StreamDecoder,
    /// Bytes of messages that are not decoded yet.
    undecoded: VecDeque<Buffer>,
    ended: bool,
}

/// The bytes of a stream.
type Input = BufReader<Box<dyn Read + Send>>;

impl fmt::Debug for ArrowStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrowStream").field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl ArrowStream {
    /// Reads the schema, which is the first message.
    ///
    /// # Errors
    /// The input can't be read, or is no stream.
    pub fn open(input: Box<dyn Read + Send>) -> Result<(SchemaRef, Self), String> {
        let mut input = BufReader::with_capacity(PIPE, input);
        let Some(message) = read_message(&mut input)? else {
            return Err("it ends before its schema".to_owned());
        };
        // The decoder would return the schema only after more bytes have come.
        let schema = {
            let metadata = root_as_message(message.metadata()).map_err(|e| e.to_string())?;
            let schema = metadata.header_as_schema().ok_or("its first message is no schema")?;
            Arc::new(catch_own_panic(|| fb_to_schema(schema))?)
        };
        let decoder = StreamDecoder::new();
        Ok((schema, Self { input, decoder, undecoded: message.into_buffers().into(), ended: false }))
    }

    /// Returns the next batch, or `None` at the end.
    ///
    /// # Errors
    /// The input can't be read, or is damaged. Nothing can be read after an error.
    pub fn next(&mut self) -> Result<Option<RecordBatch>, String> {
        loop {
            while let Some(bytes) = self.undecoded.front_mut() {
                // Damaged metadata make the decoder panic.
                let batch = catch_own_panic(|| self.decoder.decode(bytes))?;
                if let Some(batch) = batch.map_err(|e| e.to_string())? {
                    return Ok(Some(batch));
                }
                self.undecoded.pop_front();
            }
            if self.ended {
                return Ok(None);
            }
            match read_message(&mut self.input)? {
                Some(message) => self.undecoded.extend(message.into_buffers()),
                None => {
                    self.ended = true;
                    // The decoder holds a last batch without a body until more bytes come.
                    self.undecoded.push_back(Buffer::from(END.as_slice()));
                }
            }
        }
    }
}

/// A message: its metadata with the lengths before it, and its body.
struct Message {
    head: Vec<u8>,
    /// The index of the first byte of the metadata in `head`.
    metadata: usize,
    body: Vec<u8>,
}

impl Message {
    fn metadata(&self) -> &[u8] {
        &self.head[self.metadata..]
    }

    fn into_buffers(self) -> [Buffer; 2] {
        [Buffer::from(self.head), Buffer::from(self.body)]
    }
}

/// Reads a message, or `None` at the end of a stream. After the end there must be nothing more.
fn read_message(input: &mut Input) -> Result<Option<Message>, String> {
    let mut head = Vec::new();
    extend(input, &mut head, 4)?;
    if head.is_empty() {
        return Ok(None);
    }
    // Arrow before 0.15 wrote no markers.
    if head == MARKER {
        extend(input, &mut head, 4)?;
    }
    let cut = || "it ends within a message".to_owned();
    let metadata = head.len();
    let length = head.last_chunk().filter(|_| metadata % 4 == 0 && head != MARKER).ok_or_else(cut)?;
    let length = u32::from_le_bytes(*length);
    if length == 0 {
        extend(input, &mut head, 1)?;
        return match head.len() > metadata {
            true => Err("bytes follow the end of the stream, as if two streams were joined".to_owned()),
            false => Ok(None),
        };
    }
    extend(input, &mut head, length.into())?;
    if (head.len() - metadata) as u64 != u64::from(length) {
        return Err(cut());
    }
    let message = root_as_message(&head[metadata..]).map_err(|e| e.to_string())?;
    let length =
        u64::try_from(message.bodyLength()).map_err(|_| "a message has a negative length".to_owned())?;
    if message.header_type() == MessageHeader::NONE {
        return Err("a message has no contents".to_owned());
    }
    let mut body = Vec::new();
    extend(input, &mut body, length)?;
    if body.len() as u64 != length {
        return Err(cut());
    }
    Ok(Some(Message { head, metadata, body }))
}

/// Appends the next `count` bytes, or as many as there are.
fn extend(input: &mut Input, to: &mut Vec<u8>, count: u64) -> Result<(), String> {
    input.take(count).read_to_end(to).map(|_| ()).map_err(|e| e.to_string())
}

/// Returns a reader of an Arrow file whose blocks were [checked](check_blocks), with the columns `columns` of its schema,
/// or all.
///
/// # Errors
/// The file can't be read, or is damaged.
pub fn file_reader(file: File, columns: Option<Vec<usize>>) -> Result<FileReader<BufReader<File>>, String> {
    // Damaged metadata make the reader panic.
    catch_own_panic(|| FileReader::try_new(BufReader::new(file), columns))?.map_err(|e| e.to_string())
}

/// Checks that the footer and the blocks that it names lie in a file. Afterwards the file is at its beginning.
///
/// # Errors
/// They don't, or the file can't be read.
pub fn check_blocks(file: &mut File) -> Result<(), String> {
    let text = |e: &dyn Display| e.to_string();
    let length = file.seek(SeekFrom::End(0)).map_err(|e| text(&e))?;
    let cut = "it ends before its footer";
    let before = length.checked_sub(TRAILER as u64).ok_or(cut)?;
    let mut trailer = [0; TRAILER];
    file.seek(SeekFrom::Start(before)).and_then(|_| file.read_exact(&mut trailer)).map_err(|e| text(&e))?;
    let footer = read_footer_length(trailer).map_err(|e| text(&e))?;
    let begin = before.checked_sub(footer as u64).ok_or(cut)?;
    let mut bytes = vec![0; footer];
    file.seek(SeekFrom::Start(begin)).and_then(|_| file.read_exact(&mut bytes)).map_err(|e| text(&e))?;
    let footer = root_as_footer(&bytes).map_err(|e| text(&e))?;
    let fits = |block: &Block| {
        let parts = [block.offset(), block.metaDataLength().into(), block.bodyLength()];
        let parts = parts.map(|part| u64::try_from(part).ok());
        let end = parts.into_iter().try_fold(0u64, |sum, part| sum.checked_add(part?));
        end.is_some_and(|end| end <= begin)
    };
    let blocks = [("dictionary", footer.dictionaries()), ("record batch", footer.recordBatches())];
    for (name, blocks) in blocks {
        if let Some(number) = blocks.and_then(|blocks| blocks.iter().position(|block| !fits(block))) {
            return Err(format!("{name} {number} does not lie in the file"));
        }
    }
    file.rewind().map_err(|e| text(&e))
}
