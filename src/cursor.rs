//! Reads the text forms of forests and graphs: words, numbers, quoted strings and lists on one line.

use std::str::FromStr;

/// The unread rest of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'t> {
    rest: &'t str,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(line: &'t str) -> Self {
        Self { rest: line.trim() }
    }

    /// Returns the unread rest.
    pub(crate) fn rest(&self) -> &'t str {
        self.rest
    }

    /// Reads `text` if it comes next.
    pub(crate) fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Reads `text`, which must come next.
    pub(crate) fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.take(text) { Ok(()) } else { Err(format!("`{text}` is missing before `{}`", self.excerpt())) }
    }

    /// Reads letters, digits, and the characters that numbers have.
    pub(crate) fn word(&mut self) -> &'t str {
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || "_.+-".contains(c))).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Reads a word as a number or another type that has a text.
    pub(crate) fn parse<T: FromStr>(&mut self) -> Result<T, String> {
        let before = *self;
        let word = self.word();
        word.parse().map_err(|_| format!("`{}` is no {}", before.excerpt(), std::any::type_name::<T>()))
    }

    /// Reads a string in quotation marks, with the escapes that Rust's `{:?}` writes.
    pub(crate) fn string(&mut self) -> Result<String, String> {
        self.expect("\"")?;
        let mut found = String::new();
        let mut characters = self.rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(found);
                }
                '\\' => match characters.next().map(|(_, escaped)| escaped) {
                    Some('n') => found.push('\n'),
                    Some('r') => found.push('\r'),
                    Some('t') => found.push('\t'),
                    Some('0') => found.push('\0'),
                    Some('u') => {
                        let digits: String =
                            characters.by_ref().map(|(_, c)| c).skip(1).take_while(|c| *c != '}').collect();
                        let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                        found.push(code.ok_or_else(|| format!("`\\u{{{digits}}}` is no character"))?);
                    }
                    Some(other) => found.push(other),
                    None => break,
                },
                other => found.push(other),
            }
        }
        Err("a string has no closing quotation mark".into())
    }

    /// Reads a list in brackets.
    pub(crate) fn list<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        self.expect("[")?;
        let mut found = Vec::new();
        if self.take("]") {
            return Ok(found);
        }
        loop {
            found.push(element(self)?);
            if self.take("]") {
                return Ok(found);
            }
            self.expect(",")?;
        }
    }

    /// Checks that nothing is left to read.
    pub(crate) fn end(&self) -> Result<(), String> {
        match self.rest.trim().is_empty() {
            true => Ok(()),
            false => Err(format!("`{}` is left over", self.excerpt())),
        }
    }

    /// Returns the beginning of the unread rest, for messages.
    fn excerpt(&self) -> String {
        self.rest.trim().chars().take(24).collect()
    }
}
