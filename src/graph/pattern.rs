//! Regular expressions of tokenizers: RE2's language without flags, names, Unicode classes and references.
//!
//! Of the matches that begin first, the longest counts, as in ONNX Runtime's tokenizer. `\w`, `\d`, `\s` and `\b` know
//! ASCII only. The time of a search grows with the product of the text's length and the pattern's.

use std::sync::Arc;

/// The maximum number of ranges of a class of characters.
const MOST_RANGES: usize = 1 << 9;
/// The maximum number of instructions of a compiled pattern.
const MOST_INSTRUCTIONS: usize = 1 << 12;
/// The maximum depth of groups inside each other.
const MOST_DEPTH: usize = 64;
/// The greatest number that a pattern may give as a count of repetitions, as in RE2.
const MOST_REPETITIONS: u32 = 1000;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    program: Vec<Instruction>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

#[derive(Clone, Debug)]
enum Instruction {
    /// Reads one character of a class.
    One(Arc<Class>),
    /// Tests the boundary before the next character.
    Edge(Edge),
    /// Goes on at both instructions.
    Fork(usize, usize),
    /// The pattern has matched.
    Match,
}

/// A class of characters, as ranges.
#[derive(Clone, Debug)]
struct Class {
    ranges: Vec<(char, char)>,
    negated: bool,
}

impl Class {
    fn has(&self, character: char) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&character)) != self.negated
    }
}

#[derive(Clone, Copy, Debug)]
enum Edge {
    Start,
    End,
    Word,
    NoWord,
}

/// A regular expression, and each expression inside it.
enum Expression {
    Nothing,
    One(Arc<Class>),
    Edge(Edge),
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Repeat { of: Box<Expression>, least: u32, most: Option<u32> },
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The text is no regular expression, or has constructs that are not supported, which the message names.
    pub fn new(text: &str) -> Result<Self, String> {
        let mut reader = PatternReader { rest: text, depth: 0 };
        let expression = reader.alternatives()?;
        if !reader.rest.is_empty() {
            return Err(format!("`{}` closes nothing", reader.rest));
        }
        let mut program = Vec::new();
        compile(&expression, &mut program)?;
        program.push(Instruction::Match);
        Ok(Self { text: text.to_owned(), program })
    }

    /// Returns the text of the pattern.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the byte offsets at which a match begins and ends. It is the first match at or after the offset `from`,
    /// and the longest of those that begin there.
    pub(super) fn find(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        let mut found: Option<(usize, usize)> = None;
        // Instructions, each with the offset at which its match began, the earliest first.
        let mut threads: Vec<(usize, usize)> = Vec::new();
        let mut at = from;
        let mut stack = Vec::new();
        let mut before = text.get(..from)?.chars().next_back();
        let mut seen = vec![usize::MAX; self.program.len()];
        loop {
            let next = text[at..].chars().next();
            if found.is_none() {
                threads.push((0, at));
            }
            let mut waiting: Vec<(usize, usize)> = Vec::new();
            for (instruction, start) in threads.drain(..) {
                if found.is_some_and(|(first, _)| start > first) {
                    break;
                }
                stack.push(instruction);
                while let Some(instruction) = stack.pop() {
                    if std::mem::replace(&mut seen[instruction], at) == at {
                        continue;
                    }
                    match &self.program[instruction] {
                        Instruction::One(_) => waiting.push((instruction, start)),
                        Instruction::Edge(edge) if holds(*edge, before, next) => stack.push(instruction + 1),
                        Instruction::Edge(_) => {}
                        Instruction::Fork(a, b) => stack.extend([*a, *b]),
                        Instruction::Match => found = Some((start, at)),
                    }
                }
            }
            let Some(character) = next else { return found };
            if waiting.is_empty() && found.is_some() {
                return found;
            }
            for (instruction, start) in waiting {
                if matches!(&self.program[instruction], Instruction::One(class) if class.has(character)) {
                    threads.push((instruction + 1, start));
                }
            }
            before = Some(character);
            at += character.len_utf8();
        }
    }
}

fn is_word(character: Option<char>) -> bool {
    character.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn holds(edge: Edge, before: Option<char>, next: Option<char>) -> bool {
    match edge {
        Edge::Start => before.is_none(),
        Edge::End => next.is_none(),
        Edge::Word => is_word(before) != is_word(next),
        Edge::NoWord => is_word(before) == is_word(next),
    }
}

/// Appends the instructions of an expression. After a match of the expression, the search goes on at the instruction
/// after them.
fn compile(expression: &Expression, program: &mut Vec<Instruction>) -> Result<(), String> {
    if program.len() > MOST_INSTRUCTIONS {
        return Err(format!("it has more than {MOST_INSTRUCTIONS} instructions"));
    }
    match expression {
        Expression::Nothing => {}
        Expression::One(class) => program.push(Instruction::One(Arc::clone(class))),
        Expression::Edge(edge) => program.push(Instruction::Edge(*edge)),
        Expression::All(items) => items.iter().try_for_each(|item| compile(item, program))?,
        Expression::Any(items) => {
            let mut ends = Vec::new();
            for (at, item) in items.iter().enumerate() {
                let last = at + 1 == items.len();
                let fork = program.len();
                if !last {
                    program.push(Instruction::Fork(fork + 1, 0));
                }
                compile(item, program)?;
                if !last {
                    ends.push(program.len());
                    program.push(Instruction::Fork(0, 0));
                    program[fork] = Instruction::Fork(fork + 1, program.len());
                }
            }
            let end = program.len();
            ends.into_iter().for_each(|at| program[at] = Instruction::Fork(end, end));
        }
        Expression::Repeat { of, least, most } => {
            for _ in 0..*least {
                let before = program.len();
                compile(of, program)?;
                // An expression without instructions has none when it is repeated, either.
                if program.len() == before {
                    return Ok(());
                }
            }
            match most {
                Some(most) => {
                    let mut forks = Vec::new();
                    for _ in *least..*most {
                        forks.push(program.len());
                        program.push(Instruction::Fork(0, 0));
                        compile(of, program)?;
                    }
                    let end = program.len();
                    forks.into_iter().for_each(|at| program[at] = Instruction::Fork(at + 1, end));
                }
                None => {
                    let fork = program.len();
                    program.push(Instruction::Fork(0, 0));
                    compile(of, program)?;
                    program.push(Instruction::Fork(fork, fork));
                    program[fork] = Instruction::Fork(fork + 1, program.len());
                }
            }
        }
    }
    Ok(())
}

const DIGITS: &[(char, char)] = &[('0', '9')];
const WORDS: &[(char, char)] = &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];
const SPACES: &[(char, char)] = &[('\t', '\n'), ('\u{c}', '\r'), (' ', ' ')];

/// Returns the characters that are in none of the ranges. The ranges must ascend.
fn others(ranges: &[(char, char)]) -> Vec<(char, char)> {
    let mut found = Vec::new();
    let mut next = Some('\0');
    for (first, last) in ranges {
        if let (Some(begin), Some(end)) = (next, char::from_u32((*first as u32).wrapping_sub(1)))
            && begin <= end
        {
            found.push((begin, end));
        }
        next = char::from_u32(*last as u32 + 1);
    }
    found.extend(next.map(|next| (next, char::MAX)));
    found
}

struct PatternReader<'t> {
    rest: &'t str,
    depth: usize,
}

impl PatternReader<'_> {
    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn next(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let next = characters.next();
        self.rest = characters.as_str();
        next
    }

    fn alternatives(&mut self) -> Result<Expression, String> {
        let mut all = vec![self.sequence()?];
        while self.take("|") {
            all.push(self.sequence()?);
        }
        if all.len() == 1 { Ok(all.swap_remove(0)) } else { Ok(Expression::Any(all)) }
    }

    fn sequence(&mut self) -> Result<Expression, String> {
        let mut items = Vec::new();
        while !self.rest.is_empty() && !self.rest.starts_with(['|', ')']) {
            let item = self.item()?;
            items.push(self.repeated(item)?);
        }
        match items.len() {
            0 => Ok(Expression::Nothing),
            1 => Ok(items.swap_remove(0)),
            _ => Ok(Expression::All(items)),
        }
    }

    /// Reads the repetition after an item, if there is one.
    fn repeated(&mut self, item: Expression) -> Result<Expression, String> {
        let (least, most) = match self.rest.chars().next() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => match self.counts()? {
                Some(counts) => counts,
                // A brace that begins no count stands for itself.
                None => return Ok(item),
            },
            _ => return Ok(item),
        };
        self.after_count();
        // The longest match counts, so a `?` that asks for the shortest changes nothing.
        self.take("?");
        if self.rest.starts_with(['*', '+', '?']) {
            return Err(format!("a repetition of a repetition before `{}` is not supported", self.rest));
        }
        Ok(Expression::Repeat { of: Box::new(item), least, most })
    }

    /// Skips the text of the repetition.
    fn after_count(&mut self) {
        let brace = self.rest.starts_with('{');
        let end = if brace { self.rest.find('}').map_or(self.rest.len(), |end| end + 1) } else { 1 };
        self.rest = &self.rest[end..];
    }

    /// Returns the least and the greatest count in braces, or `None` if the brace begins no count.
    fn counts(&self) -> Result<Option<(u32, Option<u32>)>, String> {
        let Some(end) = self.rest.find('}') else { return Ok(None) };
        let inside = &self.rest[1..end];
        let (least, most) = match inside.split_once(',') {
            Some((least, "")) => (least, None),
            Some((least, most)) => (least, Some(most)),
            None => (inside, Some(inside)),
        };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(least) || !most.is_none_or(is_number) {
            return Ok(None);
        }
        let number = |text: &str| text.parse().ok().filter(|number| *number <= MOST_REPETITIONS);
        let refused = || format!("the count {{{inside}}} is above {MOST_REPETITIONS}, or descends");
        let least = number(least).ok_or_else(refused)?;
        let most =
            most.map(|most| number(most).filter(|most| *most >= least).ok_or_else(refused)).transpose()?;
        Ok(Some((least, most)))
    }

    fn item(&mut self) -> Result<Expression, String> {
        let one = |ranges: &[(char, char)], negated| {
            Ok(Expression::One(Arc::new(Class { ranges: ranges.to_vec(), negated })))
        };
        match self.next() {
            None => Ok(Expression::Nothing),
            Some('^') => Ok(Expression::Edge(Edge::Start)),
            Some('$') => Ok(Expression::Edge(Edge::End)),
            Some('.') => one(&[('\n', '\n')], true),
            Some('[') => self.class(),
            Some('(') => {
                if self.rest.starts_with('?') && !self.take("?:") {
                    return Err(format!("`({}` is not supported; leave flags and names out", self.rest));
                }
                self.depth += 1;
                if self.depth > MOST_DEPTH {
                    return Err(format!("it has more than {MOST_DEPTH} groups inside each other"));
                }
                let inside = self.alternatives()?;
                self.depth -= 1;
                if self.take(")") { Ok(inside) } else { Err("a group has no end".into()) }
            }
            Some('*' | '+' | '?') => Err("it repeats nothing".into()),
            Some('\\') => match self.next() {
                Some('b') => Ok(Expression::Edge(Edge::Word)),
                Some('B') => Ok(Expression::Edge(Edge::NoWord)),
                Some('A') => Ok(Expression::Edge(Edge::Start)),
                Some('z') => Ok(Expression::Edge(Edge::End)),
                escaped => {
                    let (ranges, negated) = escape(escaped)?;
                    one(&ranges, negated)
                }
            },
            Some(other) => one(&[(other, other)], false),
        }
    }

    /// Reads a class after its bracket.
    fn class(&mut self) -> Result<Expression, String> {
        let negated = self.take("^");
        let mut ranges = Vec::new();
        let mut first = true;
        loop {
            if !first && self.take("]") {
                if ranges.len() > MOST_RANGES {
                    return Err(format!("a class of characters has more than {MOST_RANGES} ranges"));
                }
                return Ok(Expression::One(Arc::new(Class { ranges, negated })));
            }
            if self.rest.starts_with("[:") {
                return Err(format!("the class `{}` is not supported; write its characters", self.rest));
            }
            first = false;
            let begin = match self.next() {
                None => return Err("a class has no end".into()),
                Some('\\') => {
                    let escaped = self.next();
                    let (found, not) = escape(escaped)?;
                    match (&found[..], not) {
                        ([(a, b)], false) if a == b => *a,
                        _ => {
                            ranges.extend(if not { others(&found) } else { found });
                            continue;
                        }
                    }
                }
                Some(other) => other,
            };
            let mut end = begin;
            if self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                self.take("-");
                end = match self.next() {
                    Some('\\') => {
                        let escaped = self.next();
                        match (&escape(escaped)?.0[..], escaped) {
                            ([(a, b)], _) if a == b => *a,
                            _ => return Err("a range of a class ends in a class".into()),
                        }
                    }
                    Some(other) => other,
                    None => return Err("a class has no end".into()),
                };
            }
            if end < begin {
                return Err(format!("the range {begin}-{end} descends"));
            }
            ranges.push((begin, end));
        }
    }
}

/// Returns a set of characters, and whether the escape stands for all characters outside the set.
fn escape(escaped: Option<char>) -> Result<(Vec<(char, char)>, bool), String> {
    let one = |character| Ok((vec![(character, character)], false));
    match escaped {
        Some('d') => Ok((DIGITS.to_vec(), false)),
        Some('D') => Ok((DIGITS.to_vec(), true)),
        Some('w') => Ok((WORDS.to_vec(), false)),
        Some('W') => Ok((WORDS.to_vec(), true)),
        Some('s') => Ok((SPACES.to_vec(), false)),
        Some('S') => Ok((SPACES.to_vec(), true)),
        Some('n') => one('\n'),
        Some('r') => one('\r'),
        Some('t') => one('\t'),
        Some('f') => one('\u{c}'),
        Some('v') => one('\u{b}'),
        Some('a') => one('\u{7}'),
        Some(other) if other.is_ascii_punctuation() => one(other),
        Some(other) => Err(format!("the escape `\\{other}` is not supported")),
        None => Err("it ends in a backslash".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    /// Matches one after the other, as a tokenizer asks for them.
    fn all<'t>(pattern: &str, text: &'t str) -> Vec<&'t str> {
        let pattern = Pattern::new(pattern).expect("a pattern");
        let (mut at, mut found) = (0, Vec::new());
        while let Some((start, end)) = pattern.find(text, at) {
            found.push(&text[start..end]);
            at = if end > start { end } else { end + text[end..].chars().next().map_or(1, char::len_utf8) };
            if at > text.len() {
                break;
            }
        }
        found
    }

    /// What RE2 finds with its option for the longest match.
    #[test]
    fn the_longest_of_the_first_matches_counts() {
        assert_eq!(all("a|ab", "ab a"), ["ab", "a"]);
        assert_eq!(all("a?(ab)?", "aab"), ["aab", ""]);
        assert_eq!(all("a*?b", "xaab"), ["aab"]);
        assert_eq!(all("cd|[a-z]{1,3}", "abcdef"), ["abc", "def"]);
        assert_eq!(all(r"\w+", "éa wé_9"), ["a", "w", "_9"]);
        assert_eq!(all(r"\b\w\w+\b", "a bc d-ef"), ["bc", "ef"]);
        assert_eq!(all(r"^a|b$", "aab"), ["a", "b"]);
        assert_eq!(all(".", "é\nb"), ["é", "b"]);
        assert_eq!(all(r"[^\s.]+|[]-]", "a.b c]-"), ["a", "b", "c]-"]);
        assert_eq!(all(r"[\W]", "a.é"), [".", "é"]);
        assert_eq!(all(r"(?:ab){2}c{2,}", "ababcccc ababc"), ["ababcccc"]);
        assert_eq!(all("x{,2}", "x{,2}"), ["x{,2}"]);
        assert_eq!(all("(|a)b", "ab b"), ["ab", "b"]);
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (pattern, named) in [
            ("(?i)a", "leave flags"),
            (r"\p{L}", "escape `\\p`"),
            ("[[:alpha:]]", "is not supported"),
            ("(a", "no end"),
            ("a)", "closes nothing"),
            ("[a", "no end"),
            ("[b-a]", "descends"),
            ("*", "repeats nothing"),
            ("a**", "repetition of a repetition"),
            ("a{3,2}", "descends"),
            ("a{1001}", "above 1000"),
            ("((a{1000}){1000}){1000}", "more than"),
            ("a\\", "backslash"),
        ] {
            let error = Pattern::new(pattern).expect_err(pattern);
            assert!(error.contains(named), "{pattern}: {error}");
        }
        assert!(Pattern::new(&"(".repeat(1 << 16)).is_err());
        // Time goes with the product of lengths, not with the number of matches.
        let slow = Pattern::new("(a*)*b|(a?){100}").expect("a pattern");
        assert_eq!(slow.find(&"a".repeat(2000), 0), Some((0, 100)));
    }
}
