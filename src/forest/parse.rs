//! Reads a forest's text form.

use super::{
    Aggregate, CategoryRule, ClassRule, Classes, CompareType, EarlyStop, Forest, Node, Predicate, Real, Side,
    Transform,
};
use crate::cursor::Cursor;

/// The error for a text that describes no forest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct ForestTextError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong in the line.
    pub cause: String,
}

impl Forest {
    /// Reads the text that [`Forest::to_text`] writes. The text has no names of columns and categories, and
    /// no ids of splits. So the forest's columns have no names, and a split's id is its index in the tree.
    ///
    /// ```
    /// use fangorn::Forest;
    ///
    /// let text = "forest features=1 outputs=1 trees=1 compare=f32 transform=identity
    ///   from custom by hand
    ///   base_score [0.5]
    /// tree 0 -> output 0
    ///   0: if x[0] < 1.5, missing left, then 1 else 2
    ///   1: leaf 1 #0 [-1.0]
    ///   2: leaf 2 #1 [1.0]
    /// ";
    /// let forest = Forest::from_text(text)?;
    /// assert_eq!(forest.trees[0].nodes.len(), 3);
    /// assert_eq!(Forest::from_text(&forest.to_text())?, forest);
    /// # Ok::<(), fangorn::forest::ForestTextError>(())
    /// ```
    ///
    /// # Errors
    /// A line is not as [`Forest::to_text`] writes it, or the forest does not verify.
    pub fn from_text(text: &str) -> Result<Self, ForestTextError> {
        let mut lines = text.lines().enumerate();
        let (_, first) = lines.next().unwrap_or((0, ""));
        let forest = head(first).map_err(|cause| ForestTextError { line: 1, cause })?;
        let mut reader = ForestReader { forest, targets: Vec::new(), leaves: Vec::new() };
        for (at, line) in lines {
            reader.read(line).map_err(|cause| ForestTextError { line: at + 1, cause })?;
        }
        reader.finish().map_err(|cause| ForestTextError { line: text.lines().count(), cause })
    }
}

/// A forest that is being read. Its targets and leaf values are set at the end.
struct ForestReader {
    forest: Forest,
    /// The output of each tree. Empty if leaves hold a value for each output.
    targets: Vec<u32>,
    /// The slots with their leaf values, in the order of the text.
    leaves: Vec<(u32, Vec<Real>)>,
}

/// Reads the first line.
fn head(line: &str) -> Result<Forest, String> {
    let mut cursor = Cursor::new(line);
    cursor.expect("forest")?;
    let mut number = |name: &str| {
        cursor.expect(name)?;
        cursor.expect("=")?;
        cursor.parse::<u32>()
    };
    let (features, outputs, _) = (number("features")?, number("outputs")?, number("trees")?);
    // A text of one line must not ask for much memory.
    if features >= 1 << 24 || outputs >= 1 << 20 {
        return Err(format!("{features} columns and {outputs} outputs are too many"));
    }
    let mut forest = Forest::empty(features as usize, outputs);
    cursor.expect("compare=")?;
    let name = cursor.word();
    let compare = CompareType::ALL.into_iter().find(|compare| compare.name() == name);
    forest.compare = compare.ok_or_else(|| format!("splits don't compare in {name}"))?;
    cursor.expect("transform=")?;
    let name = cursor.rest().trim();
    forest.transform = Transform::named(name).ok_or_else(|| format!("there is no transform {name}"))?;
    Ok(forest)
}

impl ForestReader {
    fn read(&mut self, line: &str) -> Result<(), String> {
        let forest = &mut self.forest;
        let mut cursor = Cursor::new(line);
        if cursor.take("from") {
            let mut words = cursor.rest().trim_start().splitn(3, ' ').map(str::to_owned);
            let mut word = || words.next().unwrap_or_default();
            let producer = &mut forest.producer;
            (producer.library, producer.version, producer.objective) = (word(), word(), word());
            return Ok(());
        }
        if cursor.take("best round") {
            let best = cursor.parse()?;
            cursor.expect("of")?;
            forest.producer.early_stop = Some(EarlyStop { best, rounds: cursor.parse()? });
        } else if cursor.take("base_score") {
            forest.base_score = cursor.list(real)?;
        } else if cursor.take("aggregate") {
            let name = cursor.word();
            let known = Aggregate::ALL.into_iter().find(|aggregate| aggregate.name() == name);
            forest.aggregate = known.ok_or_else(|| format!("there is no aggregate {name}"))?;
        } else if cursor.take("scale") {
            forest.scale = real(&mut cursor)?;
        } else if cursor.take("classes") {
            let rule = match cursor.word() {
                "none" => ClassRule::None,
                "largest" => ClassRule::Largest,
                "over" => ClassRule::Over { threshold: real(&mut cursor)? },
                other => return Err(format!("there is no rule {other} for classes")),
            };
            let labels = cursor.list(Cursor::string)?;
            forest.classes = Classes { rule, labels, words: cursor.take("as texts") };
        } else if cursor.take("set ") {
            cursor.parse::<u32>()?;
            let rule = match cursor.word() {
                "truncated" => CategoryRule::Truncated,
                "whole" => CategoryRule::Whole,
                _ => CategoryRule::NotNegative,
            };
            let members = cursor.list(Cursor::parse::<u32>)?;
            if members.iter().any(|member| *member >= super::MOST_CATEGORIES) {
                return Err("a category is below 2^24".into());
            }
            forest.sets.push(super::CategorySet::new(members, rule));
        } else if cursor.take("tree ") {
            cursor.parse::<u32>()?;
            cursor.expect("->")?;
            if !cursor.take("all outputs") {
                cursor.expect("output")?;
                self.targets.push(cursor.parse()?);
            }
            forest.trees.push(super::Tree { nodes: Vec::new(), ids: Vec::new() });
        } else {
            let at: u32 = cursor.parse()?;
            cursor.expect(":")?;
            let (node, id) = match cursor.take("leaf ") {
                true => {
                    let id = cursor.parse()?;
                    cursor.expect("#")?;
                    let slot = cursor.parse()?;
                    self.leaves.push((slot, cursor.list(real)?));
                    (Node::Leaf { slot }, id)
                }
                false => (split(&mut cursor)?, at),
            };
            let tree = forest.trees.last_mut().ok_or("a node comes before the first tree")?;
            if at as usize != tree.nodes.len() {
                return Err(format!("node {at} is not the next one, {}", tree.nodes.len()));
            }
            tree.nodes.push(node);
            tree.ids.push(id);
        }
        cursor.end()
    }

    fn finish(self) -> Result<Forest, String> {
        let Self { mut forest, targets, leaves } = self;
        forest.targets = match () {
            () if targets.is_empty() => super::Targets::All,
            () if targets.len() == forest.trees.len() => super::Targets::One(targets),
            () => return Err("some trees add to one output, others to all".into()),
        };
        let width = forest.leaf_width().max(1);
        forest.leaf_values = vec![Real(f64::NAN); leaves.len() * width];
        for (slot, values) in leaves.iter() {
            let leaf = forest.leaf_values.chunks_exact_mut(width).nth(*slot as usize);
            match leaf {
                Some(leaf) if values.len() == width => leaf.copy_from_slice(values),
                Some(_) => return Err(format!("slot {slot} has {} values, not {width}", values.len())),
                None => return Err(format!("slot {slot} of {} leaves", leaves.len())),
            }
        }
        forest.verify().map_err(|e| e.to_string())?;
        Ok(forest)
    }
}

fn real(cursor: &mut Cursor<'_>) -> Result<Real, String> {
    cursor.parse().map(Real)
}

/// Reads a split.
fn split(cursor: &mut Cursor<'_>) -> Result<Node, String> {
    cursor.expect("if x[")?;
    let feature = cursor.parse()?;
    cursor.expect("]")?;
    let predicate = if cursor.take("<") {
        let threshold = real(cursor)?;
        if cursor.take("xor zero") {
            Predicate::LessZeroAside { threshold }
        } else {
            Predicate::Less { threshold }
        }
    } else if cursor.take("==") {
        Predicate::Equal { value: real(cursor)? }
    } else if cursor.take("not in set") {
        Predicate::InSet { set: cursor.parse()?, inside: Side::Right }
    } else if cursor.take("in set") {
        Predicate::InSet { set: cursor.parse()?, inside: Side::Left }
    } else {
        cursor.expect("any")?;
        Predicate::Always
    };
    cursor.expect(", missing")?;
    let missing = match cursor.word() {
        "left" => Side::Left,
        "right" => Side::Right,
        other => return Err(format!("a missing value goes left or right, not {other}")),
    };
    cursor.expect(", then")?;
    let left = cursor.parse()?;
    cursor.expect("else")?;
    let right = cursor.parse()?;
    Ok(Node::Split { feature, predicate, missing, left, right })
}
