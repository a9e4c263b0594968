//! A case as text, written and read: what `tests/schedules` holds.
//!
//! ```text
//! # What it showed.
//! batch: 65
//! seed: 7
//! forest: 12 x depth 1; features 4
//! schedule:
//!   tile(tree, t0, t1, 2)
//! ```
//!
//! The rows are drawn from the seed. A forest that a line can't spell out is given as its own text, indented below
//! `forest:`; `words:` then says how many words each category set has, which that text leaves out.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use fangorn::{
    Forest,
    forest::{
        Aggregate, CategoryRule, CategorySet, Classes, CompareType, Feature, Node, Predicate, Producer, Real,
        Side, Targets, Transform, Tree,
    },
    schedule::Schedule,
};

use super::{Case, forest_of};

impl Case {
    /// The text that is read back as this case.
    pub fn to_text(&self) -> String {
        let words: Vec<String> = self.forest.sets.iter().map(|s| s.words.len().to_string()).collect();
        let words = if words.is_empty() { String::new() } else { format!("words: {}\n", words.join(" ")) };
        let forest: String = self.forest.to_text().lines().fold(String::new(), |mut text, line| {
            // Writing to a String does not fail.
            let _ = writeln!(text, "  {line}");
            text
        });
        self.text(&format!("{words}forest:\n{forest}"))
    }

    /// The same with the forest's line.
    pub fn to_text_with(&self, line: &str) -> String {
        self.text(&format!("forest: {line}\n"))
    }

    fn text(&self, forest: &str) -> String {
        let schedule: String = self.schedule.directives.iter().map(|d| format!("  {d}\n")).collect();
        format!("batch: {}\nseed: {}\n{forest}schedule:\n{schedule}", self.batch, self.seed)
    }

    /// Reads a case.
    pub fn from_text(text: &str) -> Self {
        let text: String = text.lines().filter(|l| !l.starts_with('#')).map(|l| format!("{l}\n")).collect();
        let (head, schedule) = text.split_once("\nschedule:\n").expect("a line `schedule:`");
        let field = |name: &str| head.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
        let number = |name: &str| field(name).map(|n| n.parse::<u64>().expect("a number"));
        let forest = match field("forest:") {
            Some("") => {
                let below: Vec<&str> =
                    head.lines().skip_while(|l| *l != "forest:").skip(1).map(|l| &l[2..]).collect();
                let words = field("words:").unwrap_or_default();
                read(&below, &words.split_whitespace().map(number_of).collect::<Vec<_>>())
            }
            Some(line) => forest_of(line),
            None => panic!("a line `forest: …`"),
        };
        let schedule = Schedule::parse(schedule).unwrap_or_else(|e| panic!("{e}\n{schedule}"));
        let batch = number("batch:").expect("a line `batch: …`");
        Self::new(forest, schedule, batch as usize, number("seed:").unwrap_or(7))
    }
}

/// The cases in `tests/schedules`, by file.
pub fn kept() -> Vec<(String, Case)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schedules");
    let read = |file: PathBuf| {
        let text = std::fs::read_to_string(&file).expect("a text file");
        (file.display().to_string(), Case::from_text(&text))
    };
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("the files").flatten().map(|e| e.path()).collect();
    files.sort();
    assert!(files.len() >= 10, "the files are there");
    files.into_iter().map(read).collect()
}

fn number_of<T: std::str::FromStr>(text: &str) -> T {
    text.trim().parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
}

/// The numbers in `[1.0, 2.0]`.
fn list<T: std::str::FromStr>(text: &str) -> Vec<T> {
    let inside = text.trim().trim_start_matches('[').trim_end_matches(']');
    inside.split(',').filter(|s| !s.trim().is_empty()).map(number_of).collect()
}

fn side(text: &str) -> Side {
    if text == "left" { Side::Left } else { Side::Right }
}

/// Reads what `Forest::to_text` writes, as far as the generator's forests go.
fn read(lines: &[&str], words: &[usize]) -> Forest {
    let head = |name: &str| {
        let fields = lines[0].split_whitespace();
        fields
            .filter_map(|f| f.strip_prefix(name))
            .next()
            .unwrap_or_else(|| panic!("`{name}…` in {}", lines[0]))
    };
    assert_eq!(head("transform="), "identity", "no other transform is drawn");
    let (features, outputs): (usize, u32) = (number_of(head("features=")), number_of(head("outputs=")));
    let compare = if head("compare=") == "f64" { CompareType::F64 } else { CompareType::F32 };
    let empty = Forest::builder(features, outputs).compare(compare).build().expect("a forest without trees");
    let mut forest = Forest { producer: Producer::default(), targets: Targets::All, ..empty };
    forest.base_score.clear();
    let mut one = Vec::new();
    let mut leaves: Vec<(usize, Vec<f64>)> = Vec::new();
    for line in &lines[1..] {
        let text = line.trim();
        if let Some(scores) = text.strip_prefix("base_score ") {
            forest.base_score = list::<f64>(scores).into_iter().map(Real).collect();
        } else if let Some(name) = text.strip_prefix("aggregate ") {
            forest.aggregate = if name == "min" { Aggregate::Min } else { Aggregate::Max };
        } else if let Some(set) = text.strip_prefix("set ") {
            let (about, members) = set.split_once('[').expect("a set's members");
            let rule = match about.split_whitespace().nth(1) {
                Some("truncated") => CategoryRule::Truncated,
                Some("whole") => CategoryRule::Whole,
                _ => CategoryRule::NotNegative,
            };
            let mut set = CategorySet::new(list(members), rule);
            set.words.resize(words[forest.sets.len()], 0);
            forest.sets.push(set);
        } else if let Some(tree) = text.strip_prefix("tree ") {
            one.extend(tree.rsplit_once("output ").map(|(_, o)| number_of::<u32>(o)));
            forest.trees.push(Tree { nodes: Vec::new(), ids: Vec::new() });
        } else if let Some((n, node)) = text.split_once(": ") {
            let tree = forest.trees.last_mut().expect("a node of a tree");
            assert_eq!(n, tree.nodes.len().to_string(), "nodes count up");
            if let Some(leaf) = node.strip_prefix("leaf ") {
                let mut words = leaf.splitn(3, ' ');
                tree.ids.push(number_of(words.next().expect("an id")));
                let slot = words.next().and_then(|s| s.strip_prefix('#')).expect("a slot");
                tree.nodes.push(Node::Leaf { slot: number_of(slot) });
                leaves.push((number_of(slot), list(words.next().expect("values"))));
            } else {
                tree.ids.push(3 * tree.nodes.len() as u32 + 1);
                tree.nodes.push(split(node));
            }
        }
    }
    leaves.sort_by_key(|(slot, _)| *slot);
    forest.leaf_values = leaves.into_iter().flat_map(|(_, values)| values).map(Real).collect();
    if one.len() == forest.trees.len() {
        forest.targets = Targets::One(one);
    }
    forest.verify().unwrap_or_else(|e| panic!("a forest that was written is read: {e}"));
    forest
}

/// `if x[2] < 0.5, missing left, then 1 else 2`.
fn split(text: &str) -> Node {
    let clauses: Vec<&str> = text.split(", ").collect();
    let [asks, missing, then] = clauses[..] else { panic!("`{text}` is no split") };
    let (feature, predicate) =
        asks.strip_prefix("if x[").and_then(|a| a.split_once("] ")).expect("a column and a predicate");
    let (left, right) =
        then.strip_prefix("then ").and_then(|t| t.split_once(" else ")).expect("two children");
    let real = |t: &str| Real(number_of(t));
    let predicate = if predicate == "any" {
        Predicate::Always
    } else if let Some(set) = predicate.strip_prefix("in set ") {
        Predicate::InSet { set: number_of(set), inside: Side::Left }
    } else if let Some(set) = predicate.strip_prefix("not in set ") {
        Predicate::InSet { set: number_of(set), inside: Side::Right }
    } else if let Some(value) = predicate.strip_prefix("== ") {
        Predicate::Equal { value: real(value) }
    } else {
        let threshold = predicate.strip_prefix("< ").expect("a threshold");
        match threshold.strip_suffix(" xor zero") {
            Some(t) => Predicate::LessZeroAside { threshold: real(t) },
            None => Predicate::Less { threshold: real(threshold) },
        }
    };
    Node::Split {
        feature: number_of(feature),
        predicate,
        missing: side(missing.trim_start_matches("missing ")),
        left: number_of(left),
        right: number_of(right),
    }
}
