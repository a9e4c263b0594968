//! Operators on texts: case and stop words, tokens, n-grams, hashes.

use std::sync::Arc;

use super::super::super::{ErrorKind, ImportError, Location, budget::Budget};
use super::super::error::at;
use super::{Reader, Source, Value, tensors};
use crate::graph::{
    Case, Dtype, Elements, Ngrams, Normalizer, Operator, Pattern, TextOperator, Tokenizer, Tokens, Weighing,
};

impl Reader<'_> {
    /// Adds an operator on texts, of ONNX or of ONNX Runtime. Returns `None` if it is no such operator.
    pub(super) fn texts(&mut self, source: &mut Source<'_>) -> Result<Option<Value>, ImportError> {
        let own = source.node.domain.is_empty() || source.node.domain == "ai.onnx";
        let (operator, dtype) = match &source.node.op_type[..] {
            "StringNormalizer" => (normalizer(source)?, Dtype::Text),
            "TfIdfVectorizer" if own => {
                let ngrams = ngrams(source)?;
                let location = || Location::Field(format!("{}.ngram_indexes", source.location));
                Budget::new(&self.options.limits).features(ngrams.width(), location)?;
                let mut x = source.operand(0)?;
                if x.dtype == Dtype::I32 && ngrams.dtype() == Dtype::I64 {
                    x = self.cast(source, x, Dtype::I64);
                }
                let operator = Operator::Texts(TextOperator::CountNgrams(Arc::new(ngrams)));
                return Ok(Some(self.add(source, operator, &[x], Dtype::F32)));
            }
            "Tokenizer" if !own => (tokenizer(source)?, Dtype::Text),
            "MurmurHash3" if !own => {
                let seed = source.attributes.int("seed").unwrap_or(0);
                let positive = source.attributes.int("positive").unwrap_or(1) != 0;
                let seed = u32::try_from(seed).map_err(|_| source.unsupported(" with a seed below 0"))?;
                if source.operand(0)?.dtype != Dtype::Text {
                    return Err(source.unsupported(" on numbers, whose width a graph does not keep"));
                }
                let dtype = if positive { Dtype::I64 } else { Dtype::I32 };
                (TextOperator::Hash { seed, positive }, dtype)
            }
            _ => return Ok(None),
        };
        let x = source.operand(0)?;
        Ok(Some(self.add(source, Operator::Texts(operator), &[x], dtype)))
    }
}

fn words(texts: &[super::super::proto::Bytes]) -> Vec<Arc<str>> {
    texts.iter().map(|text| tensors::words(text)).collect()
}

fn normalizer(source: &mut Source<'_>) -> Result<TextOperator, ImportError> {
    // The first version wrote the name without underscores.
    let action = source.attributes.string("case_change_action");
    let action = action.or_else(|| source.attributes.string("casechangeaction"));
    let case = match action.as_deref() {
        None | Some("NONE") => Case::Keep,
        Some("LOWER") => Case::Lower,
        Some("UPPER") => Case::Upper,
        Some(other) => return Err(source.unsupported(&format!(" with the action {other:?}"))),
    };
    let locale = source.attributes.string("locale").unwrap_or_default();
    // The letters of these languages have other cases than in Unicode's simple mapping.
    if ["tr", "az", "lt"].iter().any(|language| locale.starts_with(language)) {
        return Err(
            source.unsupported(&format!(" in the locale {locale:?}, whose letters have cases of their own"))
        );
    }
    let exact = source.attributes.int("is_case_sensitive").unwrap_or(0) != 0;
    let stopwords = words(&source.attributes.strings("stopwords"));
    Ok(TextOperator::Normalize(Arc::new(Normalizer { case, exact, stopwords })))
}

fn tokenizer(source: &mut Source<'_>) -> Result<TextOperator, ImportError> {
    let separators = words(&source.attributes.strings("separators"));
    let pattern = source.attributes.string("tokenexp").filter(|pattern| !pattern.is_empty());
    let least = source.attributes.int("mincharnum").unwrap_or(1);
    let has_delimiters = source.attributes.int("mark").unwrap_or(0) != 0;
    let padding = source.attributes.string("pad_value").unwrap_or_default().into();
    let least = usize::try_from(least).ok().filter(|least| *least > 0);
    let Some(least) = least else {
        return Err(at(
            ErrorKind::Value,
            format!("{}.mincharnum", source.location),
            "tokens of no character",
        ));
    };
    let compiled = |text: &str| {
        Pattern::new(text).map_err(|why| source.unsupported(&format!(" with the pattern {text:?}: {why}")))
    };
    let tokens = match (pattern, &separators[..]) {
        (Some(pattern), []) => Tokens::Matches(compiled(&pattern)?),
        (None, [one]) if one.is_empty() && least == 1 => Tokens::Characters,
        (None, [_, ..]) if !separators.iter().any(|separator| separator.is_empty()) => {
            Tokens::Between(separators.iter().map(|text| compiled(text)).collect::<Result<_, _>>()?)
        }
        _ => return Err(source.unsupported(" without one pattern of tokens or of separators")),
    };
    Ok(TextOperator::Tokenize(Arc::new(Tokenizer { tokens, least, has_delimiters, padding })))
}

fn ngrams(source: &mut Source<'_>) -> Result<Ngrams, ImportError> {
    let weighing = match source.attributes.string("mode").as_deref() {
        Some("TF") => Weighing::Count,
        Some("IDF") => Weighing::Presence,
        Some("TFIDF") => Weighing::WeightedCount,
        other => return Err(source.unsupported(&format!(" with the mode {other:?}"))),
    };
    let location = source.location;
    let structure = |cause: String| at(ErrorKind::Structure, location, cause);
    let number = |name: &str, value: Option<i64>| {
        let value = value.and_then(|value| usize::try_from(value).ok());
        value.ok_or_else(|| structure(format!("{name} is no number from 0")))
    };
    let list = |name: &str, values: Vec<i64>| {
        let values = values.into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>();
        values.map_err(|_| structure(format!("{name} has a number below 0")))
    };
    let attributes = &mut source.attributes;
    let lengths = ["min_gram_length", "max_gram_length"];
    let lengths = lengths.map(|name| number(name, attributes.int(name)));
    let [least, most] = lengths;
    let lengths = [least?, most?];
    let skips = number("max_skip_count", attributes.int("max_skip_count"))?;
    let starts = list("ngram_counts", attributes.ints("ngram_counts"))?;
    let columns = list("ngram_indexes", attributes.ints("ngram_indexes"))?;
    let weights = attributes.floats("weights").into_iter().map(|weight| weight as f32).collect();
    let strings = attributes.strings("pool_strings");
    let pool = match strings.is_empty() {
        true => Elements::I64(attributes.ints("pool_int64s")),
        false => Elements::Text(words(&strings)),
    };
    Ngrams::new(weighing, lengths, skips, (pool, starts), (columns, weights)).map_err(structure)
}
