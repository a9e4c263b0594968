//! What a file holds that is named `.csv` and is something else.

/// What a Parquet file under another name is, and what to do.
const PARQUET: &str = if cfg!(feature = "tables") {
    "it is a Parquet file; give it a name that ends in .parquet"
} else {
    "it is a Parquet file, which this build does not read; build fangorn with --features tables, and name it .parquet"
};

/// What a file of Arrow under another name is, and what to do.
const ARROW: &str = if cfg!(feature = "tables") {
    "it is a file of Arrow; give it a name that ends in .arrow, or pipe the rows as a stream of Arrow"
} else {
    "it is a file of Arrow, which this build does not read; build fangorn with --features tables, and name it .arrow"
};

/// Returns what a file is and what to do, if its first bytes can't begin a CSV.
pub fn binary(bytes: &[u8]) -> Option<&'static str> {
    let begins = |with: &[u8]| bytes.starts_with(with);
    if begins(b"\xff\xfe") || begins(b"\xfe\xff") {
        return Some("the text is UTF-16; save it as UTF-8");
    }
    let formats: [(&[u8], &str); 6] = [
        (b"\x1f\x8b", "it is compressed by gzip; unpack it, for example with gunzip"),
        (b"PK\x03\x04", "it is a zip file, as .xlsx files are; unpack it, or save the table as CSV"),
        (b"PAR1", PARQUET),
        (b"ARROW1", ARROW),
        (b"\xff\xff", ARROW),
        (b"\x93NUMPY", "it is a file of numpy; give it a name that ends in .npy"),
    ];
    if let Some((_, what)) = formats.into_iter().find(|(begin, _)| begins(begin)) {
        return Some(what);
    }
    // A letter of ASCII is a zero and another byte in UTF-16.
    match bytes {
        [0, 0, ..] => Some("it holds binary data and no text; give a CSV"),
        [0, _, ..] | [_, 0, ..] => Some("the text is UTF-16; save it as UTF-8"),
        _ => None,
    }
}

/// Returns what a text is and what to do, if it begins like another format. A CSV may begin so, too, so this is the
/// reason only where a text can't be read as one.
pub fn text(bytes: &[u8]) -> Option<&'static str> {
    let bytes = bytes.trim_ascii_start();
    match bytes.first()? {
        // A text for a missing value.
        b'<' if bytes.starts_with(b"<NA>") => None,
        b'<' => Some("it is HTML or XML, and no CSV; save the table itself, as CSV"),
        b'{' | b'[' => Some("it is JSON, and no CSV; save the table as CSV"),
        _ => None,
    }
}
