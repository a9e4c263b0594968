//! Writes [`Contents`] to bytes.

use super::{ALIGN, Contents, HEADER_BYTES, MAGIC, NamedText, SECTION_BYTES, VERSION, coding, kind};
use crate::forest::{
    CategoryRule, ClassRule, Coding, EarlyStop, Forest, Node, Predicate, Side, Targets, UnseenCategory,
};

/// The bytes written so far of a section or of the file.
#[derive(Default)]
struct Buffer(Vec<u8>);

impl Buffer {
    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }
    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }
    fn f64(&mut self, value: f64) {
        self.u64(value.to_bits());
    }
    fn text(&mut self, text: &str) {
        self.u64(text.len() as u64);
        self.0.extend(text.as_bytes());
    }
    fn texts(&mut self, texts: &[String]) {
        self.u64(texts.len() as u64);
        texts.iter().for_each(|t| self.text(t));
    }
}

fn section(fill: impl FnOnce(&mut Buffer)) -> Vec<u8> {
    let mut buffer = Buffer::default();
    fill(&mut buffer);
    buffer.0
}

impl Contents {
    /// Returns the file's bytes. Equal contents give equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let forest = &self.forest;
        let nodes = || forest.trees.iter().flat_map(|t| &t.nodes);
        let mut sections: Vec<([u8; 4], Vec<u8>)> = vec![
            (*b"HEAD", section(|b| head(b, forest))),
            (
                *b"TREE",
                section(|b| {
                    let mut at = 0;
                    b.u64(0);
                    for tree in &forest.trees {
                        at += tree.nodes.len() as u64;
                        b.u64(at);
                    }
                }),
            ),
            (*b"ASKS", section(|b| nodes().for_each(|n| b.u32(asks(n))))),
            (*b"WHAT", section(|b| nodes().for_each(|n| b.u64(what(n))))),
            (*b"LEFT", section(|b| nodes().for_each(|n| b.u32(children(n)[0])))),
            (*b"RGHT", section(|b| nodes().for_each(|n| b.u32(children(n)[1])))),
            (*b"NUMB", section(|b| forest.trees.iter().flat_map(|t| &t.ids).for_each(|id| b.u32(*id)))),
            (*b"LEAF", section(|b| forest.leaf_values.iter().for_each(|v| b.f64(v.0)))),
        ];
        if let Targets::One(targets) = &forest.targets {
            sections.push((*b"TARG", section(|b| targets.iter().for_each(|t| b.u32(*t)))));
        }
        if !forest.sets.is_empty() {
            sections.extend(sets(forest));
        }
        if forest.features.iter().any(|f| f.coding != Coding::Numbers) {
            // A reader that does not know the upper-case section refuses the file. Otherwise it would take
            // the numbers in rows for something else.
            let needed = forest.features.iter().any(|feature| feature.coding.is_needed());
            sections.push((if needed { *b"CODE" } else { *b"code" }, section(|b| codings(b, forest))));
        }
        if let Some(covers) = &forest.covers {
            let covers = (0..covers.len()).flat_map(|t| covers.tree(t));
            sections.push((*b"covr", section(|b| covers.for_each(|cover| b.f64(cover.0)))));
        }
        if forest.classes.words {
            sections.push((*b"word", section(|b| b.u32(1))));
        }
        if let Some(EarlyStop { best, rounds }) = forest.producer.early_stop {
            sections.push((
                *b"stop",
                section(|b| {
                    b.u32(best);
                    b.u32(rounds);
                }),
            ));
        }
        for (name, texts) in [(*b"schd", &self.schedules), (*b"plan", &self.plan_files)] {
            if !texts.is_empty() {
                sections.push((name, section(|b| named(b, texts))));
            }
        }
        if let Some(profile) = &self.profile {
            sections.push((*b"prof", section(|b| profile.iter().for_each(|n| b.u64(*n)))));
        }
        assemble_file(&sections)
    }
}

fn assemble_file(sections: &[([u8; 4], Vec<u8>)]) -> Vec<u8> {
    let head = HEADER_BYTES + sections.len() * SECTION_BYTES + 4;
    let mut at = head.next_multiple_of(ALIGN);
    let mut offsets = Vec::new();
    for (_, bytes) in sections {
        offsets.push(at);
        at = (at + bytes.len()).next_multiple_of(ALIGN);
    }
    let mut out = Buffer(Vec::with_capacity(at));
    out.0.extend(MAGIC);
    out.u32(VERSION);
    out.u32(sections.len() as u32);
    out.u64(at as u64);
    for ((name, bytes), offset) in sections.iter().zip(&offsets) {
        out.0.extend(name);
        out.u32(crc32fast::hash(bytes));
        out.u64(*offset as u64);
        out.u64(bytes.len() as u64);
        out.u64(0);
    }
    out.u32(crc32fast::hash(&out.0));
    for ((_, bytes), offset) in sections.iter().zip(offsets) {
        out.0.resize(offset, 0);
        out.0.extend(bytes);
    }
    out.0.resize(at, 0);
    out.0
}

fn head(b: &mut Buffer, forest: &Forest) {
    let producer = &forest.producer;
    for text in [&producer.library, &producer.version, &producer.objective] {
        b.text(text);
    }
    b.u32(forest.outputs);
    b.u64(forest.features.len() as u64);
    b.text(forest.compare.name());
    b.text(forest.aggregate.name());
    b.text(forest.transform.name());
    b.f64(forest.scale.0);
    b.u64(forest.base_score.len() as u64);
    forest.base_score.iter().for_each(|v| b.f64(v.0));
    let (rule, threshold) = match forest.classes.rule {
        ClassRule::None => ("none", 0.0),
        ClassRule::Largest => ("largest", 0.0),
        ClassRule::Over { threshold } => ("over", threshold.0),
    };
    b.text(rule);
    b.f64(threshold);
    b.texts(&forest.classes.labels);
    // Only columns with a name or with categories are written: most models name no column, and few name
    // categories.
    let told: Vec<_> = forest
        .features
        .iter()
        .enumerate()
        .filter(|(_, f)| f.name.is_some() || !f.categories.is_empty())
        .collect();
    b.u64(told.len() as u64);
    for (column, feature) in told {
        b.u64(column as u64);
        b.u32(feature.name.is_some().into());
        b.text(feature.name.as_deref().unwrap_or(""));
        b.texts(&feature.categories);
    }
}

fn codings(b: &mut Buffer, forest: &Forest) {
    let coded: Vec<_> =
        forest.features.iter().enumerate().filter(|(_, f)| f.coding != Coding::Numbers).collect();
    b.u64(coded.len() as u64);
    for (column, feature) in coded {
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        b.u64(column as u64);
        match &feature.coding {
            Coding::Numbers => {}
            Coding::Indices { numbers, unseen, needed } => {
                let unseen = match unseen {
                    UnseenCategory::Missing => 0,
                    UnseenCategory::Refused => coding::REFUSED,
                    UnseenCategory::Own => coding::OWN,
                };
                b.u32(coding::INDICES);
                b.u32(flag(*numbers, coding::NUMBERS) | unseen | flag(*needed, coding::NEEDED));
                b.u64(0);
            }
            Coding::Hashes { codes, needed } => {
                b.u32(coding::HASHES);
                b.u32(flag(*needed, coding::NEEDED));
                b.u64(codes.len() as u64);
                for (hash, code) in codes {
                    b.u32(*hash);
                    b.f64(code.0);
                }
            }
        }
    }
}

fn asks(node: &Node) -> u32 {
    let Node::Split { feature, predicate, missing, .. } = *node else {
        return kind::LEAF << kind::SHIFT;
    };
    let (which, inside) = match predicate {
        Predicate::Less { .. } => (kind::LESS, Side::Left),
        Predicate::LessZeroAside { .. } => (kind::LESS_ZERO_ASIDE, Side::Left),
        Predicate::Equal { .. } => (kind::EQUAL, Side::Left),
        Predicate::InSet { inside, .. } => (kind::IN_SET, inside),
        Predicate::Always => (kind::ALWAYS, Side::Left),
    };
    let flag = |side, flag| if side == Side::Right { flag } else { 0 };
    feature | which << kind::SHIFT | flag(missing, kind::MISSING_RIGHT) | flag(inside, kind::INSIDE_RIGHT)
}

fn what(node: &Node) -> u64 {
    match *node {
        Node::Leaf { slot } => slot.into(),
        Node::Split { predicate, .. } => match predicate {
            Predicate::Less { threshold } | Predicate::LessZeroAside { threshold } => threshold.0.to_bits(),
            Predicate::Equal { value } => value.0.to_bits(),
            Predicate::InSet { set, .. } => set.into(),
            Predicate::Always => 0,
        },
    }
}

fn children(node: &Node) -> [u32; 2] {
    match *node {
        Node::Split { left, right, .. } => [left, right],
        Node::Leaf { .. } => [0, 0],
    }
}

fn sets(forest: &Forest) -> [([u8; 4], Vec<u8>); 3] {
    let starts = section(|b| {
        let mut at = 0;
        b.u64(0);
        for set in &forest.sets {
            at += set.words.len() as u64;
            b.u64(at);
        }
    });
    let rules = forest.sets.iter().map(|set| match set.rule {
        CategoryRule::NotNegative => 0,
        CategoryRule::Truncated => 1,
        CategoryRule::Whole => 2,
    });
    let words = section(|b| forest.sets.iter().flat_map(|s| &s.words).for_each(|w| b.u32(*w)));
    [(*b"SETS", starts), (*b"RULE", rules.collect()), (*b"WORD", words)]
}

fn named(b: &mut Buffer, texts: &[NamedText]) {
    b.u64(texts.len() as u64);
    for named in texts {
        b.text(&named.name);
        b.text(&named.text);
    }
}
