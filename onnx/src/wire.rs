//! Protobuf's encoding, as far as it is needed to remove fields from a message and to add fields to it. It is
//! written by hand, because fields that a schema does not name have to stay, and a decoder drops them.

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'b> {
    pub(crate) number: u64,
    /// The field's bytes, if it is a field with a length.
    pub(crate) body: Option<&'b [u8]>,
    /// The field's value, if it is an integer, otherwise 0.
    pub(crate) integer: u64,
    /// All bytes of the field, with its key.
    pub(crate) whole: &'b [u8],
}

impl<'b> Field<'b> {
    /// Returns the body of this field, if its number is `number`.
    pub(crate) fn of(&self, number: u64) -> Option<&'b [u8]> {
        self.body.filter(|_| self.number == number)
    }
}

/// Returns the fields of a message.
pub(crate) fn fields(message: &[u8]) -> Result<Vec<Field<'_>>, String> {
    let mut fields = Vec::new();
    let mut rest = message;
    while !rest.is_empty() {
        let begin = rest;
        let key = varint(&mut rest).ok_or_else(broken)?;
        let (mut integer, mut body) = (0, None);
        match key & 7 {
            0 => integer = varint(&mut rest).ok_or_else(broken)?,
            1 => drop(take(&mut rest, 8)?),
            2 => {
                let length = varint(&mut rest).ok_or_else(broken)?;
                body = Some(take(&mut rest, usize::try_from(length).unwrap_or(usize::MAX))?);
            }
            5 => drop(take(&mut rest, 4)?),
            _ => return Err(broken()),
        }
        let whole = &begin[..begin.len() - rest.len()];
        fields.push(Field { number: key >> 3, body, integer, whole });
    }
    Ok(fields)
}

fn broken() -> String {
    "the file is no ONNX model, or it is damaged or incomplete; convert the model again".into()
}

fn take<'b>(rest: &mut &'b [u8], length: usize) -> Result<&'b [u8], String> {
    let (taken, left) = rest.split_at_checked(length).ok_or_else(broken)?;
    *rest = left;
    Ok(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, left) = rest.split_first()?;
        *rest = left;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Returns bytes as text. Bytes that are not UTF-8 become replacement characters.
pub(crate) fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}

/// Appends field `number` with these bytes.
pub(crate) fn put(message: &mut Vec<u8>, number: u64, body: &[u8]) {
    put_varint(message, number << 3 | 2);
    put_varint(message, body.len() as u64);
    message.extend_from_slice(body);
}

/// Appends field `number` with this integer.
pub(crate) fn put_integer(message: &mut Vec<u8>, number: u64, integer: u64) {
    put_varint(message, number << 3);
    put_varint(message, integer);
}

fn put_varint(message: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::{fields, put, put_integer};

    #[test]
    fn what_is_put_is_read() {
        let mut message = Vec::new();
        put_integer(&mut message, 1, u64::MAX);
        put(&mut message, 300, &[7; 200]);
        let read = fields(&message).expect("fields");
        assert_eq!((read[0].number, read[0].integer), (1, u64::MAX));
        assert_eq!(read[1].of(300), Some(&[7; 200][..]));
        assert_eq!([read[0].whole, read[1].whole].concat(), message);
    }

    #[test]
    fn no_cut_short_message_is_read_whole() {
        let mut message = Vec::new();
        put(&mut message, 1, b"four");
        put_integer(&mut message, 2, 1 << 40);
        let whole = fields(&message).expect("fields").len();
        for end in 0..message.len() {
            assert!(fields(&message[..end]).map_or(0, |f| f.len()) < whole, "{end}");
        }
        assert!(fields(&[0x0b]).is_err(), "a group");
    }
}
