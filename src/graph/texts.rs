//! Operators on texts: change of case, removal of stop words, tokenization, counts of n-grams, and hashes.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    pattern::Pattern,
    tensor::{Dtype, Elements, MOST_ELEMENTS, Tensor, count},
    tensor_type::TensorType,
    view::{ElementsView, TensorView},
};

/// An operator on texts. `CountNgrams` takes integers as well.
#[derive(Clone, Debug, PartialEq)]
pub enum TextOperator {
    /// Changes the case of texts and drops stop words. With stop words it takes a list, or a matrix of one row.
    Normalize(Arc<Normalizer>),
    /// Cuts each text into tokens, and gives tokens a dimension of their own. Rows with fewer tokens are padded.
    Tokenize(Arc<Tokenizer>),
    /// Counts n-grams along the last dimension.
    CountNgrams(Arc<Ngrams>),
    /// The hash of each text: `MurmurHash3_x86_32`.
    Hash {
        /// The seed of the hash function.
        seed: u32,
        /// Whether a hash is stored as a non-negative 64-bit integer. Otherwise it is a signed 32-bit integer.
        positive: bool,
    },
}

/// The case that letters get. A letter whose upper case has several characters stays as it is. Of a lower case with
/// several characters, the first is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Case {
    Keep,
    Lower,
    Upper,
}

impl Case {
    pub(super) const ALL: [Self; 3] = [Self::Keep, Self::Lower, Self::Upper];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Lower => "lower",
            Self::Upper => "upper",
        }
    }

    fn of(self, text: &str) -> Arc<str> {
        let character = |c: char| match self {
            Self::Keep => c,
            // One character, `İ`, has a lower case of two characters: a letter, and a dot that is left out.
            Self::Lower => c.to_lowercase().next().unwrap_or(c),
            Self::Upper => {
                let mut upper = c.to_uppercase();
                if upper.len() == 1 { upper.next().unwrap_or(c) } else { c }
            }
        };
        match self {
            Self::Keep => text.into(),
            _ => text.chars().map(character).collect::<String>().into(),
        }
    }
}

/// Drops the texts that are stop words, and changes the case of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Normalizer {
    /// The case that letters get.
    pub case: Case,
    /// Whether texts are compared with stop words case-sensitively. Otherwise both are compared in lower case.
    pub exact: bool,
    /// The stop words.
    pub stopwords: Vec<Arc<str>>,
}

impl Normalizer {
    fn evaluate(&self, x: TensorView<'_>, texts: &[Arc<str>]) -> Result<Tensor, String> {
        let changed = |texts: &mut dyn Iterator<Item = &Arc<str>>| {
            Elements::Text(texts.map(|text| self.case.of(text)).collect())
        };
        if self.stopwords.is_empty() {
            return made(x.shape().to_vec(), changed(&mut texts.iter()));
        }
        if !matches!(x.shape(), [_] | [1, _]) {
            return Err(format!("it leaves texts out of a list, not of shape {:?}", x.shape()));
        }
        let compared = |text: &str| if self.exact { text.into() } else { Case::Lower.of(text) };
        let stops: HashSet<Arc<str>> = self.stopwords.iter().map(|text| compared(text)).collect();
        let mut kept = texts.iter().filter(|text| !stops.contains(&compared(text))).peekable();
        let elements = match kept.peek() {
            Some(_) => changed(&mut kept),
            // If every text is a stop word, the result is one empty text.
            None if !texts.is_empty() => Elements::Text(vec!["".into()]),
            None => Elements::Text(Vec::new()),
        };
        let mut shape = x.shape().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = elements.len();
        }
        made(shape, elements)
    }
}

/// Where a tokenizer finds tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Tokens {
    /// Each character is a token.
    Characters,
    /// Each match of a pattern is a token.
    Matches(Pattern),
    /// The texts between the matches of patterns are tokens.
    Between(Vec<Pattern>),
}

/// Cuts texts into tokens as ONNX Runtime's operator `Tokenizer` does.
#[derive(Clone, Debug, PartialEq)]
pub struct Tokenizer {
    /// Where tokens are.
    pub tokens: Tokens,
    /// The least number of characters of a token, at least 1.
    pub least: usize,
    /// Whether `\x02` stands before the first token of each text, and `\x03` after the last (ONNX's attribute `mark`).
    pub has_delimiters: bool,
    /// The text that is put after the last token of a text with fewer tokens than the longest.
    pub padding: Arc<str>,
}

impl Tokenizer {
    fn of<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let long = |token: &&str| token.chars().count() >= self.least;
        match &self.tokens {
            Tokens::Characters => text
                .char_indices()
                .map(|(at, character)| &text[at..at + character.len_utf8()])
                .filter(long)
                .collect(),
            Tokens::Matches(pattern) => {
                let (mut found, mut from) = (Vec::new(), 0);
                while let Some((start, end)) = pattern.find(text, from) {
                    let token = &text[start..end];
                    let taken = long(&token) && !token.is_empty();
                    if taken {
                        found.push(token);
                    }
                    // After a match that is too short, the search goes on at its second character.
                    let Some(next) = (if taken { Some(end) } else { after(text, start) }) else { break };
                    from = next;
                }
                found
            }
            Tokens::Between(separators) => {
                let mut tokens = vec![text];
                for separator in separators {
                    let mut divided = Vec::new();
                    for text in tokens {
                        let mut from = Some(0);
                        while let Some(begin) = from {
                            let Some((start, end)) = separator.find(text, begin) else {
                                divided.push(&text[begin..]);
                                break;
                            };
                            divided.push(&text[begin..start]);
                            from = if end > start { Some(end) } else { after(text, start) };
                        }
                    }
                    divided.retain(long);
                    tokens = divided;
                }
                tokens.retain(long);
                tokens
            }
        }
    }

    fn evaluate(&self, x: TensorView<'_>, texts: &[Arc<str>]) -> Result<Tensor, String> {
        let rows: Vec<Vec<&str>> = texts.iter().map(|text| self.of(text)).collect();
        let most = rows.iter().map(Vec::len).max().unwrap_or(0);
        // If no text has a token, the delimiters are left out, except with [`Tokens::Characters`].
        let characters = matches!(self.tokens, Tokens::Characters);
        let delimited = self.has_delimiters && (most > 0 || characters);
        let width = most + if delimited { 2 } else { 0 };
        let shape = [x.shape(), &[width]].concat();
        let all = count(&shape).filter(|all| *all <= MOST_ELEMENTS);
        let all =
            all.ok_or_else(|| format!("{width} tokens for each text are too many; predict fewer texts"))?;
        let mut interned: HashMap<&str, Arc<str>> = HashMap::new();
        let mut found: Vec<Arc<str>> = Vec::with_capacity(all);
        let (first, last): (Arc<str>, Arc<str>) = ("\u{2}".into(), "\u{3}".into());
        for row in &rows {
            let end = found.len() + width;
            found.extend(delimited.then(|| Arc::clone(&first)));
            found.extend(
                row.iter()
                    .map(|token| Arc::clone(interned.entry(token).or_insert_with(|| Arc::from(*token)))),
            );
            found.extend(delimited.then(|| Arc::clone(&last)));
            found.resize(end, Arc::clone(&self.padding));
        }
        made(shape, Elements::Text(found))
    }
}

/// Returns the byte offset after the character at the offset `at`, or `None` at the end of the text.
fn after(text: &str, at: usize) -> Option<usize> {
    text[at..].chars().next().map(|character| at + character.len_utf8())
}

/// How the number of occurrences of an n-gram becomes an element of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Weighing {
    /// The number of occurrences of the n-gram.
    Count,
    /// The weight of an n-gram that occurs, 1 if there are no weights; 0 for an n-gram that does not occur.
    Presence,
    /// The number of occurrences of the n-gram, times its weight.
    WeightedCount,
}

impl Weighing {
    pub(super) const ALL: [Self; 3] = [Self::Count, Self::Presence, Self::WeightedCount];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Presence => "presence",
            Self::WeightedCount => "weightedCount",
        }
    }
}

/// The n-grams of ONNX's operator `TfIdfVectorizer`, the columns that count them, and how counts are weighted.
#[derive(Clone, Debug, PartialEq)]
pub struct Ngrams {
    weighing: Weighing,
    /// The least and the greatest number of tokens of an n-gram that is counted.
    lengths: [usize; 2],
    /// The maximum number of tokens that are skipped between one token of an n-gram and the next.
    skips: usize,
    /// The tokens of all n-grams, integers or texts: first the n-grams of one token, then those of two, and so on.
    pool: Elements,
    /// For each length, the index in `pool` at which the n-grams of this length begin.
    starts: Vec<usize>,
    /// The column of each n-gram.
    columns: Vec<usize>,
    /// The weight of each n-gram. Empty if n-grams have no weights.
    weights: Vec<f32>,
}

/// N-grams as a trie of their tokens.
struct NgramTrie {
    /// For a node and a token, the child that the token leads to.
    next: HashMap<(u32, u32), u32>,
    /// For each node, the n-gram that ends there.
    ngrams: Vec<Option<u32>>,
}

impl Ngrams {
    /// Makes n-grams. `lengths` are the least and the greatest number of tokens of an n-gram that is counted.
    /// `skips` is the maximum number of tokens that may be skipped between one token and the next. `pool` holds the
    /// tokens of all n-grams, n-grams of one token first. `starts` holds, for each length, the index in `pool` at which
    /// the n-grams of this length begin. `columns` has an entry for each n-gram. `weights` has an entry for each n-gram
    /// or is empty.
    ///
    /// # Errors
    /// The tokens are neither integers nor texts, `lengths` is out of range, or the lists' lengths do not agree.
    pub fn new(
        weighing: Weighing,
        lengths: [usize; 2],
        skips: usize,
        (pool, starts): (Elements, Vec<usize>),
        (columns, weights): (Vec<usize>, Vec<f32>),
    ) -> Result<Self, String> {
        if !matches!(pool, Elements::I64(_) | Elements::Text(_)) {
            return Err(format!("tokens are integers or texts, not {}", pool.dtype()));
        }
        let [least, most] = lengths;
        if least == 0 || most < least || most > starts.len() {
            return Err(format!(
                "n-grams of {least} to {most} tokens, of which {} lengths are there",
                starts.len()
            ));
        }
        let mut ngrams = 0;
        for (at, start) in starts.iter().enumerate() {
            let end = starts.get(at + 1).copied().unwrap_or(pool.len());
            let tokens = end.checked_sub(*start).filter(|_| end <= pool.len());
            let tokens = tokens.filter(|tokens| tokens.is_multiple_of(at + 1));
            ngrams += tokens.ok_or_else(|| {
                format!("tokens {start} to {end} of {} are no n-grams of {} tokens", pool.len(), at + 1)
            })? / (at + 1);
        }
        if columns.len() != ngrams || !(weights.is_empty() || weights.len() == ngrams) || ngrams == 0 {
            return Err(format!(
                "{ngrams} n-grams have {} columns and {} weights",
                columns.len(),
                weights.len()
            ));
        }
        Ok(Self { weighing, lengths, skips, pool, starts, columns, weights })
    }

    /// Returns the number of columns of the result.
    pub fn width(&self) -> usize {
        self.columns.iter().max().map_or(0, |last| last.saturating_add(1))
    }

    /// Returns whether some n-gram has this text as a token.
    pub(super) fn has_token(&self, text: &str) -> bool {
        matches!(&self.pool, Elements::Text(pool) if pool.iter().any(|token| **token == *text))
    }

    /// Returns the type of the tokens.
    pub fn dtype(&self) -> Dtype {
        self.pool.dtype()
    }

    fn trie(&self, tokens: &[u32]) -> NgramTrie {
        let mut trie = NgramTrie { next: HashMap::new(), ngrams: vec![None] };
        let mut ngram = 0;
        let [least, most] = self.lengths;
        for (at, start) in self.starts.iter().enumerate() {
            let length = at + 1;
            let end = self.starts.get(length).copied().unwrap_or(tokens.len());
            for tokens in tokens[*start..end].chunks_exact(length) {
                if (least..=most).contains(&length) {
                    let mut node = 0;
                    for token in tokens {
                        node = *trie.next.entry((node, *token)).or_insert_with(|| {
                            trie.ngrams.push(None);
                            trie.ngrams.len() as u32 - 1
                        });
                    }
                    trie.ngrams[node as usize] = Some(ngram);
                }
                ngram += 1;
            }
        }
        trie
    }

    fn evaluate(&self, x: TensorView<'_>) -> Result<Tensor, String> {
        let (rows, length) = match x.shape() {
            [] => (1, 1),
            [length] => (1, *length),
            [rows, length] => (*rows, *length),
            other => return Err(format!("it takes a list or rows of tokens, not shape {other:?}")),
        };
        let width = self.width();
        let all = count(&[rows, width]).filter(|all| *all <= MOST_ELEMENTS);
        let all =
            all.ok_or_else(|| format!("{rows} rows of {width} columns are too many; predict fewer rows"))?;
        // Tokens are replaced by numbers. A token of the input that is in no n-gram becomes `None`.
        let (tokens, known): (Vec<u32>, Vec<Option<u32>>) = match (&self.pool, x.elements()) {
            (Elements::Text(pool), ElementsView::Text(x)) => numbers(pool, x),
            (Elements::I64(pool), ElementsView::I64(x)) => numbers(pool, x),
            _ => return Err(format!("its tokens are of {}, not of {}", self.pool.dtype(), x.dtype())),
        };
        let trie = self.trie(&tokens);
        let mut found = vec![0.0f32; all];
        let lines = known.chunks_exact(length.max(1)).zip(found.chunks_exact_mut(width.max(1)));
        lines.for_each(|(row, counts)| self.count(&trie, row, counts));
        let shape = if x.shape().len() == 2 { vec![rows, width] } else { vec![width] };
        made(shape, Elements::F32(found))
    }

    /// Adds the n-grams of a row to `counts`.
    fn count(&self, trie: &NgramTrie, row: &[Option<u32>], counts: &mut [f32]) {
        let [mut least, most] = self.lengths;
        for distance in 1..=self.skips.saturating_add(1).min(row.len().max(1)) {
            for first in 0..row.len() {
                if (least - 1).saturating_mul(distance) >= row.len() - first {
                    break;
                }
                let (mut node, mut at, mut length) = (0u32, first, 0);
                while let Some(Some(token)) = row.get(at) {
                    let Some(next) = trie.next.get(&(node, *token)) else { break };
                    (node, at, length) = (*next, at + distance, length + 1);
                    if let Some(ngram) = trie.ngrams[node as usize].filter(|_| length >= least) {
                        let ngram = ngram as usize;
                        let weight = self.weights.get(ngram).copied().unwrap_or(1.0);
                        let to = &mut counts[self.columns[ngram]];
                        match self.weighing {
                            Weighing::Count => *to += 1.0,
                            Weighing::Presence => *to = weight,
                            Weighing::WeightedCount => *to += weight,
                        }
                    }
                }
            }
            // N-grams of one token skip none, so they are counted once.
            if least == 1 {
                least = 2;
                if least > most {
                    break;
                }
            }
        }
    }
}

/// Returns a number for each token of the pool, and for each token of `x`. Equal tokens have one number. A token of `x`
/// that the pool lacks has `None`.
fn numbers<T: Eq + std::hash::Hash>(pool: &[T], x: &[T]) -> (Vec<u32>, Vec<Option<u32>>) {
    let mut of: HashMap<&T, u32> = HashMap::new();
    let tokens = pool
        .iter()
        .map(|token| {
            let next = of.len() as u32;
            *of.entry(token).or_insert(next)
        })
        .collect();
    (tokens, x.iter().map(|token| of.get(token).copied()).collect())
}

/// Returns the `MurmurHash3_x86_32` hash of bytes.
fn murmur(bytes: &[u8], seed: u32) -> u32 {
    let scrambled = |word: u32| word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let (words, rest) = bytes.as_chunks::<4>();
    let mut hash = seed;
    for word in words {
        hash ^= scrambled(u32::from_le_bytes(*word));
        hash = hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    let last = rest.iter().rev().fold(0u32, |word, byte| (word << 8) | u32::from(*byte));
    if !rest.is_empty() {
        hash ^= scrambled(last);
    }
    hash ^= bytes.len() as u32;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

fn made(shape: Vec<usize>, elements: Elements) -> Result<Tensor, String> {
    Tensor::new(shape, elements).ok_or_else(|| "the shape is too large".into())
}

impl TextOperator {
    /// Returns the name in a graph's text.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Normalize(_) => "normalizeTexts",
            Self::Tokenize(_) => "tokenize",
            Self::CountNgrams(_) => "countNgrams",
            Self::Hash { .. } => "murmurHash",
        }
    }

    /// Returns the type of the result.
    pub(super) fn result(&self, x: &TensorType) -> Result<TensorType, String> {
        let wanted = match self {
            Self::CountNgrams(ngrams) => ngrams.dtype(),
            _ => Dtype::Text,
        };
        if x.dtype != wanted {
            return Err(format!("it takes {wanted}, not {}", x.dtype));
        }
        let mut shape = x.shape.clone();
        let dtype = match self {
            Self::Normalize(normalizer) => {
                if let Some(last) = shape.as_mut().and_then(|shape| shape.last_mut())
                    && !normalizer.stopwords.is_empty()
                {
                    *last = None;
                }
                Dtype::Text
            }
            Self::Tokenize(_) => {
                shape = shape.map(|mut shape| {
                    shape.push(None);
                    shape
                });
                Dtype::Text
            }
            Self::CountNgrams(ngrams) => {
                shape = match shape.as_deref() {
                    Some([] | [_]) => Some(vec![Some(ngrams.width())]),
                    Some([rows, _]) => Some(vec![*rows, Some(ngrams.width())]),
                    Some(other) => {
                        return Err(format!("it takes a list or rows of tokens, not shape {other:?}"));
                    }
                    None => None,
                };
                Dtype::F32
            }
            Self::Hash { positive, .. } => {
                if *positive {
                    Dtype::I64
                } else {
                    Dtype::I32
                }
            }
        };
        Ok(TensorType { dtype, shape })
    }

    /// Evaluates the operator.
    pub(super) fn evaluate(&self, x: TensorView<'_>) -> Result<Tensor, String> {
        if let Self::CountNgrams(ngrams) = self {
            return ngrams.evaluate(x);
        }
        let ElementsView::Text(texts) = x.elements() else {
            return Err(format!("it takes text, not {}", x.dtype()));
        };
        match self {
            Self::Normalize(normalizer) => normalizer.evaluate(x, texts),
            Self::Tokenize(tokenizer) => tokenizer.evaluate(x, texts),
            Self::Hash { seed, positive } => {
                let hashes = texts.iter().map(|text| murmur(text.as_bytes(), *seed));
                let elements = match positive {
                    true => Elements::I64(hashes.map(i64::from).collect()),
                    false => Elements::I32(hashes.map(u32::cast_signed).collect()),
                };
                made(x.shape().to_vec(), elements)
            }
            Self::CountNgrams(ngrams) => ngrams.evaluate(x),
        }
    }

    /// Returns the operator's attributes, names and values, as a graph's text lists them after the operand.
    pub(super) fn attributes(&self) -> Vec<(&'static str, String)> {
        let list = |texts: &[Arc<str>]| format!("{texts:?}");
        match self {
            Self::Normalize(normalizer) => vec![
                ("case", normalizer.case.name().into()),
                ("exact", normalizer.exact.to_string()),
                ("stopwords", list(&normalizer.stopwords)),
            ],
            Self::Tokenize(tokenizer) => {
                let (how, patterns) = match &tokenizer.tokens {
                    Tokens::Characters => ("characters", Vec::new()),
                    Tokens::Matches(pattern) => ("matches", vec![pattern.text().into()]),
                    Tokens::Between(patterns) => {
                        ("between", patterns.iter().map(|pattern| pattern.text().into()).collect())
                    }
                };
                vec![
                    ("tokens", how.into()),
                    ("patterns", list(&patterns)),
                    ("least", tokenizer.least.to_string()),
                    ("mark", tokenizer.has_delimiters.to_string()),
                    ("padding", format!("{:?}", tokenizer.padding)),
                ]
            }
            Self::CountNgrams(ngrams) => {
                vec![
                    ("weighing", ngrams.weighing.name().into()),
                    ("lengths", format!("{:?}", ngrams.lengths)),
                    ("skips", ngrams.skips.to_string()),
                    ("pool", super::tensor_text::typed(&ngrams.pool)),
                    ("starts", format!("{:?}", ngrams.starts)),
                    ("columns", format!("{:?}", ngrams.columns)),
                    ("weights", format!("{:?}", ngrams.weights)),
                ]
            }
            Self::Hash { seed, positive } => {
                vec![("seed", seed.to_string()), ("positive", positive.to_string())]
            }
        }
    }
}
