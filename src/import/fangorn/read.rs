//! Reads [`Contents`] from bytes. The bytes are not trusted: a length is a claim until it is checked against
//! the file.

use std::path::Path;

use rayon::prelude::*;

use super::super::budget::Budget;
use super::super::{ErrorKind, Format, ImportError, LoadOptions, Location, RAW_CATEGORIES};
use super::{ALIGN, Contents, HEADER_BYTES, MAGIC, NamedText, SECTION_BYTES, VERSION, coding, kind};
use crate::forest::{
    Aggregate, CategoryRule, CategorySet, ClassRule, Classes, Coding, CompareType, EarlyStop, Forest,
    ForestBuilder, Node, Predicate, Real, Side, Transform, Tree, UnseenCategory,
};
use crate::{Error, import};

const SAVE_AGAIN: &str = "the file is damaged: make it again with `fangorn convert`";

fn error(kind: ErrorKind, location: impl Into<String>, cause: impl AsRef<str>) -> ImportError {
    ImportError::new(kind, Location::Field(location.into()), cause).with_remedy(SAVE_AGAIN)
}

fn damaged(at: usize, cause: impl AsRef<str>) -> ImportError {
    ImportError::new(ErrorKind::Syntax, Location::Byte(at), cause).with_remedy(SAVE_AGAIN)
}

/// The sections of a file. All bytes of the file have been checked.
struct Sections<'a> {
    bytes: &'a [u8],
    table: Vec<([u8; 4], u32, usize, usize)>,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

const KNOWN_SECTIONS: [&[u8; 4]; 13] = [
    b"CODE", b"HEAD", b"TREE", b"ASKS", b"WHAT", b"LEFT", b"RGHT", b"NUMB", b"LEAF", b"TARG", b"SETS",
    b"RULE", b"WORD",
];

impl<'a> Sections<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, ImportError> {
        let short =
            || damaged(bytes.len(), format!("the file ends after {} bytes, inside its header", bytes.len()));
        if !bytes.starts_with(&MAGIC) {
            return Err(damaged(0, "the file does not begin with FANGORN"));
        }
        let version = u32_at(bytes, 8).ok_or_else(short)?;
        if version > VERSION {
            let cause = format!("the file is of format {version}, this program reads up to {VERSION}");
            return Err(ImportError::new(ErrorKind::Unsupported, Location::Byte(8), cause)
                .with_remedy("use the fangorn that wrote it, or a newer one"));
        }
        if version == 0 {
            return Err(damaged(8, "there is no format 0"));
        }
        let count = u32_at(bytes, 12).ok_or_else(short)? as usize;
        let length = u64_at(bytes, 16).ok_or_else(short)?;
        if length != bytes.len() as u64 {
            let cause = format!("the header tells of {length} bytes, the file has {}", bytes.len());
            return Err(damaged(16, cause));
        }
        // `count` is a claim, so the end of the table is checked against the file before memory is allocated.
        let end = count.checked_mul(SECTION_BYTES).and_then(|n| n.checked_add(HEADER_BYTES));
        let end = end
            .filter(|end| *end < bytes.len())
            .ok_or_else(|| damaged(12, format!("{count} sections, more than the file has room for")))?;
        if u32_at(bytes, end).ok_or_else(short)? != crc32fast::hash(&bytes[..end]) {
            return Err(damaged(end, "the header does not match its checksum"));
        }
        let mut table: Vec<([u8; 4], u32, usize, usize)> = Vec::with_capacity(count);
        for at in (HEADER_BYTES..end).step_by(SECTION_BYTES) {
            let entry = &bytes[at..at + SECTION_BYTES];
            let name = [entry[0], entry[1], entry[2], entry[3]];
            let shown = name.escape_ascii().to_string();
            if !name[0].is_ascii_lowercase() && !KNOWN_SECTIONS.contains(&&name) {
                let cause = format!("section `{shown}` is not known");
                return Err(ImportError::new(ErrorKind::Unsupported, Location::Byte(at), cause)
                    .with_remedy("use the fangorn that wrote it, or a newer one"));
            }
            if table.iter().any(|(n, ..)| *n == name) {
                return Err(damaged(at, format!("section `{shown}` is there twice")));
            }
            let range = [8, 16].map(|at| u64_at(entry, at).and_then(|n| usize::try_from(n).ok()));
            let (Some(sum), [Some(offset), Some(length)]) = (u32_at(entry, 4), range) else {
                return Err(damaged(at, format!("section `{shown}` is past the end")));
            };
            let inside = offset.checked_add(length).is_some_and(|end| end <= bytes.len());
            if !inside || !offset.is_multiple_of(ALIGN) {
                let cause = format!(
                    "section `{shown}`, {length} bytes from byte {offset} on, is not inside the file"
                );
                return Err(damaged(at, cause));
            }
            table.push((name, sum, offset, length));
        }
        let sections = Self { bytes, table };
        sections.check(end + 4)?;
        Ok(sections)
    }

    /// Checks every section against its checksum, and that all bytes between sections are zero.
    fn check(&self, header: usize) -> Result<(), ImportError> {
        let mut order: Vec<_> = self.table.iter().collect();
        order.sort_unstable_by_key(|(_, _, offset, length)| (*offset, *length));
        let mut end = header;
        for (name, sum, offset, length) in order {
            let name = name.escape_ascii();
            if *offset < end {
                return Err(damaged(*offset, format!("section `{name}` begins inside another")));
            }
            self.zeros(end..*offset)?;
            end = offset + length;
            if crc32fast::hash(&self.bytes[*offset..end]) != *sum {
                return Err(damaged(*offset, format!("section `{name}` does not match its checksum")));
            }
        }
        self.zeros(end..self.bytes.len())
    }

    fn zeros(&self, range: std::ops::Range<usize>) -> Result<(), ImportError> {
        match self.bytes[range.clone()].iter().position(|b| *b != 0) {
            Some(at) => Err(damaged(range.start + at, "a byte between sections is not zero")),
            None => Ok(()),
        }
    }

    fn find(&self, name: &[u8; 4]) -> Option<Section<'a>> {
        let (_, _, offset, length) = self.table.iter().find(|(n, ..)| n == name)?;
        let bytes = &self.bytes[*offset..offset + length];
        Some(Section { name: name.escape_ascii().to_string(), bytes, at: 0 })
    }

    fn get(&self, name: &[u8; 4]) -> Result<Section<'a>, ImportError> {
        self.find(name).ok_or_else(|| {
            error(ErrorKind::Structure, "sections", format!("section `{}` is missing", name.escape_ascii()))
        })
    }
}

/// A section's bytes, and the offset `at` of the next byte to read.
struct Section<'a> {
    name: String,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Section<'a> {
    fn short(&self) -> ImportError {
        error(
            ErrorKind::Structure,
            &self.name,
            format!("the section ends at byte {}, in a value", self.bytes.len()),
        )
    }

    fn u32(&mut self) -> Result<u32, ImportError> {
        let value = u32_at(self.bytes, self.at).ok_or_else(|| self.short())?;
        self.at += 4;
        Ok(value)
    }

    fn u64(&mut self) -> Result<u64, ImportError> {
        let value = u64_at(self.bytes, self.at).ok_or_else(|| self.short())?;
        self.at += 8;
        Ok(value)
    }

    fn f64(&mut self) -> Result<f64, ImportError> {
        self.u64().map(f64::from_bits)
    }

    /// Reads a count of entries, and checks that the section has at least `least` bytes left for each.
    fn count(&mut self, least: usize) -> Result<usize, ImportError> {
        let count = self.u64()?;
        let room = ((self.bytes.len() - self.at) / least) as u64;
        if count > room {
            let cause = format!("{count} entries, the section has room for {room}");
            return Err(error(ErrorKind::Structure, &self.name, cause));
        }
        Ok(count as usize)
    }

    fn text(&mut self, budget: &Budget<'_>) -> Result<&'a str, ImportError> {
        let length = self.count(1)?;
        budget.string(length, || Location::Field(self.name.clone()))?;
        let bytes = self.bytes.get(self.at..self.at + length).ok_or_else(|| self.short())?;
        self.at += length;
        std::str::from_utf8(bytes).map_err(|_| error(ErrorKind::Value, &self.name, "a text is not UTF-8"))
    }

    fn texts(&mut self, budget: &Budget<'_>) -> Result<Vec<String>, ImportError> {
        let count = self.count(8)?;
        (0..count).map(|_| Ok(self.text(budget)?.to_owned())).collect()
    }

    /// Returns the whole section as an array of values of `N` bytes.
    fn array<const N: usize>(&self) -> Result<&'a [[u8; N]], ImportError> {
        match self.bytes.as_chunks() {
            (values, []) => Ok(values),
            (_, rest) => {
                let cause = format!("{} bytes are left over of an array of {N}-byte values", rest.len());
                Err(error(ErrorKind::Structure, &self.name, cause))
            }
        }
    }

    /// Like [`Self::array`], but checks that the array has `length` values.
    fn array_of<const N: usize>(&self, length: usize) -> Result<&'a [[u8; N]], ImportError> {
        let array = self.array()?;
        if array.len() != length {
            let cause = format!("{} entries, not {length}", array.len());
            return Err(error(ErrorKind::Structure, &self.name, cause));
        }
        Ok(array)
    }

    fn one_of<T>(&self, what: &str, name: &str, value: Option<T>) -> Result<T, ImportError> {
        value.ok_or_else(|| {
            ImportError::new(
                ErrorKind::Unsupported,
                Location::Field(self.name.clone()),
                format!("{what} `{name}` is not known"),
            )
            .with_remedy("use the fangorn that wrote it, or a newer one")
        })
    }

    /// Reads the indices at which ranges of another section begin, each of which also ends the range before.
    /// Checks that they start at 0, never fall, and finish at `end` if it is given.
    fn starts(&self, end: Option<usize>) -> Result<Vec<usize>, ImportError> {
        let array = self.array::<8>()?;
        let mut before = 0;
        let mut starts = Vec::with_capacity(array.len());
        for (i, start) in array.iter().enumerate() {
            let start = usize::try_from(u64::from_le_bytes(*start)).unwrap_or(usize::MAX);
            if start < before || (i == 0 && start != 0) {
                return Err(error(
                    ErrorKind::Value,
                    format!("{}[{i}]", self.name),
                    format!("{start} after {before}"),
                ));
            }
            before = start;
            starts.push(start);
        }
        if starts.is_empty() || end.is_some_and(|end| before != end) {
            let cause = format!("ends at {before}, what it divides has {}", end.unwrap_or(0));
            return Err(error(ErrorKind::Structure, &self.name, cause));
        }
        Ok(starts)
    }
}

impl Contents {
    /// Reads a model file with everything that it holds. A file of any other format holds only a forest.
    ///
    /// # Errors
    /// The errors of [`import::load`].
    pub fn load(path: &Path, options: &LoadOptions) -> Result<Self, Error> {
        import::load_with(path, options, |bytes| match Format::of(bytes) {
            Ok(Format::Fangorn) => Self::from_bytes(bytes, options),
            _ => import::parse(bytes, options).map(Self::new),
        })
    }

    /// Reads the contents of a `.fangorn` file from its bytes.
    ///
    /// # Errors
    /// Fails for a file of another format or of a newer version, for a damaged file (any flipped bit, any
    /// missing byte), for a file that asks for more than the limits allow, for load options that ask for a
    /// range of rounds, and for categories that are texts unless the load options accept them.
    pub fn from_bytes(bytes: &[u8], options: &LoadOptions) -> Result<Self, ImportError> {
        if options.iteration_range.is_some() {
            let cause = "a .fangorn file does not know rounds of boosting";
            return Err(ImportError::new(ErrorKind::Options, Location::File, cause)
                .with_remedy("give the range when the producer's own file is converted"));
        }
        let sections = Sections::new(bytes)?;
        let forest = forest(&sections, options)?;
        let budget = Budget::new(&options.limits);
        let named = |name: &[u8; 4]| match sections.find(name) {
            None => Ok(Vec::new()),
            Some(mut section) => {
                let count = section.count(16)?;
                let text =
                    |section: &mut Section<'_>| Ok::<_, ImportError>(section.text(&budget)?.to_owned());
                (0..count)
                    .map(|_| Ok(NamedText { name: text(&mut section)?, text: text(&mut section)? }))
                    .collect::<Result<Vec<NamedText>, ImportError>>()
            }
        };
        let profile = match sections.find(b"prof") {
            None => None,
            Some(s) => {
                Some(s.array_of::<8>(forest.leaf_count())?.iter().map(|n| u64::from_le_bytes(*n)).collect())
            }
        };
        Ok(Self { schedules: named(b"schd")?, plan_files: named(b"plan")?, profile, forest })
    }
}

fn forest(sections: &Sections<'_>, options: &LoadOptions) -> Result<Forest, ImportError> {
    let mut budget = Budget::new(&options.limits);
    let words = match sections.find(b"word") {
        Some(mut section) => section.u32()? != 0,
        None => false,
    };
    let mut builder = head(&mut sections.get(b"HEAD")?, words, &budget)?;
    if let Some(mut section) = sections.find(b"stop") {
        let (best, rounds) = (section.u32()?, section.u32()?);
        if best >= rounds {
            return Err(error(ErrorKind::Value, "stop", format!("round {best} of {rounds}")));
        }
        builder = builder.early_stop(EarlyStop { best, rounds });
    }
    if let Some(mut section) = sections.find(b"CODE").or_else(|| sections.find(b"code")) {
        codings(&mut section, &mut builder, options)?;
    }
    sets(sections, &mut builder, &mut budget)?;

    let location = |name: &'static str| move || Location::Field(name.into());
    let asks = sections.get(b"ASKS")?;
    let asks = asks.array::<4>()?;
    budget.nodes(asks.len(), location("ASKS"))?;
    let words = |name: &[u8; 4]| sections.get(name)?.array_of::<4>(asks.len());
    let [left, right, ids] = [words(b"LEFT")?, words(b"RGHT")?, words(b"NUMB")?];
    let what = sections.get(b"WHAT")?.array_of::<8>(asks.len())?;
    let starts = sections.get(b"TREE")?.starts(Some(asks.len()))?;
    let trees = starts.len() - 1;
    budget.trees(trees, location("TREE"))?;
    let targets = match sections.find(b"TARG") {
        Some(section) => Some(section.array_of::<4>(trees)?),
        None => None,
    };
    let values = sections.get(b"LEAF")?;
    builder.leaf_values(values.array::<8>()?.iter().map(|v| f64::from_le_bytes(*v)));
    let tree = |t: usize| {
        let range = starts[t]..starts[t + 1];
        let node = |n: usize| {
            let [asks, left, right] = [asks[n], left[n], right[n]].map(u32::from_le_bytes);
            node(asks, u64::from_le_bytes(what[n]), [left, right]).ok_or_else(|| {
                error(ErrorKind::Value, format!("ASKS[{n}]"), format!("{asks:#x} is no kind of node"))
            })
        };
        let ids = ids[range.clone()].iter().map(|id| u32::from_le_bytes(*id)).collect();
        Ok(Tree { nodes: range.map(node).collect::<Result<_, _>>()?, ids })
    };
    let grown = (0..trees).into_par_iter().map(tree).collect::<Result<_, ImportError>>();
    // After a failure, read the trees again in order, so that the same file always gives the same error.
    let grown = grown.or_else(|_| (0..trees).map(tree).collect::<Result<_, ImportError>>())?;
    builder.set_all_trees(grown, targets.map(|t| t.iter().map(|t| u32::from_le_bytes(*t)).collect()));
    if let Some(section) = sections.find(b"covr") {
        let covers = section.array_of::<8>(asks.len())?;
        let cover = |bytes: &[u8; 8]| Real(f64::from_le_bytes(*bytes));
        let of_tree = |t: usize| covers[starts[t]..starts[t + 1]].iter().map(cover).collect();
        builder.set_all_covers((0..trees).map(of_tree).collect());
    }
    budget.finish_with_any_base_score(builder).map_err(|e| match e.kind() {
        ErrorKind::Structure => e.with_remedy(SAVE_AGAIN),
        _ => e,
    })
}

fn node(asks: u32, what: u64, [left, right]: [u32; 2]) -> Option<Node> {
    let side = |flag| if asks & flag != 0 { Side::Right } else { Side::Left };
    let real = || Real(f64::from_bits(what));
    let index = u32::try_from(what).ok();
    let predicate = match asks >> kind::SHIFT & kind::KIND {
        kind::LEAF => return Some(Node::Leaf { slot: index? }),
        kind::LESS => Predicate::Less { threshold: real() },
        kind::LESS_ZERO_ASIDE => Predicate::LessZeroAside { threshold: real() },
        kind::EQUAL => Predicate::Equal { value: real() },
        kind::IN_SET => Predicate::InSet { set: index?, inside: side(kind::INSIDE_RIGHT) },
        kind::ALWAYS => Predicate::Always,
        _ => return None,
    };
    let missing = side(kind::MISSING_RIGHT);
    Some(Node::Split { feature: asks & kind::COLUMN, predicate, missing, left, right })
}

/// Reads the section `HEAD`, which describes the model as a whole. `words` tells whether labels of classes
/// are texts.
fn head(section: &mut Section<'_>, words: bool, budget: &Budget<'_>) -> Result<ForestBuilder, ImportError> {
    let mut text = || section.text(budget).map(str::to_owned);
    let [library, version, objective] = [text()?, text()?, text()?];
    let outputs = section.u32()?;
    budget.outputs(outputs as usize, || Location::Field("HEAD".into()))?;
    let columns = usize::try_from(section.u64()?).unwrap_or(usize::MAX);
    budget.features(columns, || Location::Field("HEAD".into()))?;
    let name = section.text(budget)?;
    let compare = CompareType::ALL.into_iter().find(|c| c.name() == name);
    let compare = section.one_of("compare type", name, compare)?;
    let name = section.text(budget)?;
    let aggregate = Aggregate::ALL.into_iter().find(|a| a.name() == name);
    let aggregate = section.one_of("aggregate", name, aggregate)?;
    let name = section.text(budget)?;
    let transform = section.one_of("transform", name, Transform::named(name))?;
    let scale = section.f64()?;
    let bases = section.count(8)?;
    let base_score = (0..bases).map(|_| section.f64()).collect::<Result<Vec<_>, _>>()?;
    let name = section.text(budget)?;
    let threshold = Real(section.f64()?);
    let rule = section.one_of(
        "class rule",
        name,
        match name {
            "none" => Some(ClassRule::None),
            "largest" => Some(ClassRule::Largest),
            "over" => Some(ClassRule::Over { threshold }),
            _ => None,
        },
    )?;
    let labels = section.texts(budget)?;
    let mut builder = Forest::builder(columns, outputs)
        .producer(&library, &version, &objective)
        .compare(compare)
        .aggregate(aggregate)
        .transform(transform)
        .scale(scale)
        .base_score(base_score)
        .classes(Classes { rule, labels, words });
    for _ in 0..section.count(28)? {
        let column = section.u64()?;
        let named = section.u32()? != 0;
        let name = section.text(budget)?.to_owned();
        let categories = section.texts(budget)?;
        let feature = usize::try_from(column).ok().and_then(|c| builder.features_mut().get_mut(c));
        let Some(feature) = feature else {
            return Err(error(ErrorKind::Value, "HEAD", format!("a name for column {column} of {columns}")));
        };
        feature.name = named.then_some(name);
        feature.categories = categories;
    }
    Ok(builder)
}

/// Reads how the categories of columns become the numbers that rows hold.
fn codings(
    section: &mut Section<'_>,
    builder: &mut ForestBuilder,
    options: &LoadOptions,
) -> Result<(), ImportError> {
    for _ in 0..section.count(24)? {
        let column = section.u64()?;
        let (sort, flags) = (section.u32()?, section.u32()?);
        let is = |flag: u32| flags & flag != 0;
        let count = section.count(12)?;
        let codes: Vec<(u32, Real)> = (0..count)
            .map(|_| Ok((section.u32()?, Real(section.f64()?))))
            .collect::<Result<_, ImportError>>()?;
        let needed = is(coding::NEEDED);
        let unseen = match (is(coding::REFUSED), is(coding::OWN)) {
            (true, _) => UnseenCategory::Refused,
            (false, true) => UnseenCategory::Own,
            (false, false) => UnseenCategory::Missing,
        };
        let coding = match sort {
            coding::INDICES => Coding::Indices { numbers: is(coding::NUMBERS), unseen, needed },
            coding::HASHES if codes.is_sorted_by_key(|(hash, _)| *hash) => Coding::Hashes { codes, needed },
            _ => {
                return Err(error(
                    ErrorKind::Value,
                    "code",
                    format!("the numbers of column {column} are none"),
                ));
            }
        };
        if needed && !options.raw_categories {
            let cause = format!("categories of column {column} are texts");
            return Err(ImportError::new(ErrorKind::Unsupported, Location::Field("code".into()), cause)
                .with_remedy(RAW_CATEGORIES));
        }
        let feature = usize::try_from(column).ok().and_then(|c| builder.features_mut().get_mut(c));
        let Some(feature) = feature else {
            return Err(error(
                ErrorKind::Value,
                "code",
                format!("numbers of column {column}, which is not there"),
            ));
        };
        feature.coding = coding;
    }
    Ok(())
}

fn sets(
    sections: &Sections<'_>,
    builder: &mut ForestBuilder,
    budget: &mut Budget<'_>,
) -> Result<(), ImportError> {
    let Some(starts) = sections.find(b"SETS") else { return Ok(()) };
    let words = sections.get(b"WORD")?;
    let words = words.array::<4>()?;
    budget.category_words(words.len(), || Location::Field("WORD".into()))?;
    let starts = starts.starts(Some(words.len()))?;
    let rules = sections.get(b"RULE")?.array_of::<1>(starts.len() - 1)?;
    for (i, [rule]) in rules.iter().enumerate() {
        let rule = match rule {
            0 => CategoryRule::NotNegative,
            1 => CategoryRule::Truncated,
            2 => CategoryRule::Whole,
            _ => return Err(error(ErrorKind::Value, format!("RULE[{i}]"), format!("{rule} is no rule"))),
        };
        let words = words[starts[i]..starts[i + 1]].iter().map(|w| u32::from_le_bytes(*w)).collect();
        builder.push_set(CategorySet { words, rule });
    }
    Ok(())
}
