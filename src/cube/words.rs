//! Encodes a packed forest as the words that the kernels' `node` module reads.

use fangorn_kernels::{COLUMN_WORDS, LEAF, MISSING_LEFT, NAMED_RIGHT, QUESTION, TREE_WORDS};

use crate::{
    forest::{Aggregate, Forest, Predicate, Side, Targets, least_f32_not_below},
    layout::{Children, PackedNode, Questions},
    plan::{LoweredForest, MISSING, Plan, cube::Cube, group_columns, key},
    ranks::{ColumnKind, Ranks},
    sum::FixedPoint,
};

/// The words of a model, and the indices where their sections begin.
pub(super) struct ModelWords {
    pub(super) words: Vec<u32>,
    pub(super) trees_at: u32,
    pub(super) slots_at: u32,
    pub(super) questions_at: u32,
    pub(super) columns_at: u32,
    pub(super) ranks_at: u32,
    pub(super) base_at: u32,
}

/// A node before it is packed into words.
struct NodeWords {
    /// The threshold's key, or the index of a question in the words of questions.
    asked: u32,
    column: u32,
    flags: u32,
    /// The address of the child that the node holds, if it holds one.
    link: u32,
}

impl NodeWords {
    fn write(&self, address: u32, plan: &Plan<Cube>, words: &mut Vec<u32>) {
        let Self { asked, column, flags, link } = *self;
        let format = plan.own.node;
        let named = plan.children.named();
        let spare = (1 << format.spare_bits) - 1;
        let shift = format.column_shift(plan.children);
        let leaf = u32::from(flags & LEAF != 0) << (shift + format.column_bits);
        match format.words {
            1 if plan.rows.rank_shift().is_some() => {
                let ahead = if named { link.wrapping_sub(address) } else { 0 };
                words.push(asked & !spare | leaf | column << shift | ahead);
            }
            1 => {
                let missing_left = u32::from(flags & MISSING_LEFT != 0) << (format.column_bits + 1);
                // If a missing value goes left, `asked` is the threshold's key plus 1. A node of one word holds the
                // key itself.
                let asked = if asked == u32::MAX { asked } else { asked - (flags >> 31) };
                words.push(asked & !spare | missing_left | leaf | column);
            }
            2 if named => {
                let ahead = link.wrapping_sub(address) << format.column_bits;
                words.extend([asked, flags | ahead | column]);
            }
            2 => words.extend([asked, flags | column]),
            _ => words.extend([asked, flags | column, link]),
        }
    }
}

/// The lists of columns that the row cache holds, if it does not hold all columns. A node then names a column with
/// its index in such a list.
struct ColumnLists {
    /// One list for each group of trees, or one list for all trees.
    lists: Vec<Vec<u32>>,
    /// Number of trees of a group.
    group: u32,
}

impl ColumnLists {
    fn new(forest: &Forest, lowered: &LoweredForest, plan: &Plan<Cube>) -> Self {
        match plan.own.column_group {
            Some(group) => Self { lists: group_columns(forest, lowered.order(), group), group },
            None if plan.own.used_columns => Self { lists: vec![forest.used_columns()], group: u32::MAX },
            None => Self { lists: Vec::new(), group: u32::MAX },
        }
    }

    /// Returns the number with which a node of the tree at `position` names the column `feature`: the index in
    /// the tree's list of columns, or the column itself if there are no lists.
    fn index(&self, position: u32, feature: u32) -> u32 {
        let list = self.lists.get((position / self.group) as usize);
        list.map_or(feature, |list| list.binary_search(&feature).unwrap_or(0) as u32)
    }

    /// Writes the lists. If there are several, each takes `width` words: a shorter list is filled up with
    /// zeros that no node asks for.
    fn write(&self, width: u32, words: &mut Vec<u32>) {
        for list in &self.lists {
            let end = if self.lists.len() > 1 { width as usize } else { list.len() };
            words.extend((0..end).map(|c| list.get(c).copied().unwrap_or(0)));
        }
    }
}

/// Encodes nodes, trees, leaf slots, questions, columns and base scores. Returns `None` if they need more
/// words than 32 bits can count.
pub(super) fn encode(
    forest: &Forest,
    lowered: &LoweredForest,
    plan: &Plan<Cube>,
    fixed: Option<&FixedPoint>,
    tables: &[u32],
) -> Option<ModelWords> {
    let forest = lowered.walked_forest(forest);
    let (packed, order) = (lowered.packed(), lowered.order());
    let mut questions = Questions::new(forest);
    let columns = ColumnLists::new(forest, lowered, plan);
    let mut words = Vec::with_capacity(packed.nodes.len() * plan.own.node.words as usize);
    for (address, node) in packed.nodes.iter().enumerate() {
        let address = address as u32;
        // In such a node everything goes left: see the table of words in the kernels' `node` module.
        let still = |flags, link| NodeWords { asked: u32::MAX, column: 0, flags: MISSING_LEFT | flags, link };
        let encoded = match *node {
            // Only the CPU has tiles.
            PackedNode::Empty | PackedNode::Tile { .. } => still(0, address),
            PackedNode::Through { link } => still(0, link),
            PackedNode::Leaf { .. } if plan.children == Children::Near => {
                // In this leaf everything goes right.
                NodeWords { asked: 0, column: 0, flags: LEAF, link: address }
            }
            PackedNode::Leaf { .. } => still(LEAF, address),
            PackedNode::Split { feature, predicate, missing, link } => {
                // A row of ranks has no missing values.
                let rank_shift = plan.rows.rank_shift();
                let missing_left =
                    if missing == Side::Left && rank_shift.is_none() { MISSING_LEFT } else { 0 };
                let threshold = |t: f64| match rank_shift {
                    Some(shift) => [(t as u32) << shift],
                    None => threshold_word(predicate, t),
                };
                let (asked, flags) = asked_with(&mut questions, predicate, missing_left, threshold);
                NodeWords { asked, column: columns.index(packed.position(address), feature), flags, link }
            }
        };
        encoded.write(address, plan, &mut words);
    }
    let trees_at = words.len();
    for (position, original) in order.iter().enumerate() {
        let output = match &forest.targets {
            Targets::One(outputs) => outputs[*original as usize],
            Targets::All => 0,
        };
        let (root, constant) = (packed.roots[position], packed.constants[position]);
        words.extend([root, constant, output, *original, packed.depths[position]]);
    }
    // One past the last node, as the root of a tree after the last one.
    words.extend([packed.nodes.len() as u32, 0, 0, 0, 0]);
    debug_assert_eq!(words.len() - trees_at, (order.len() + 1) * TREE_WORDS as usize);
    let slots_at = words.len();
    words.extend(packed.slots());
    let questions_at = words.len();
    words.extend(questions.words);
    // A lookup past the end of a set reads the set's first word, which an empty last set must have, too.
    words.push(0);
    let columns_at = words.len();
    columns.write(plan.own.features, &mut words);
    let ranks_at = words.len();
    words.extend(tables);
    let base_at = words.len();
    match fixed {
        None => words.extend(forest.base_score.iter().map(|b| (b.0 as f32).to_bits())),
        Some(fixed) => words.extend(fixed.base().iter().flat_map(|b| fixed.split(*b))),
    }
    words.push(match forest.aggregate {
        Aggregate::Sum => 0,
        Aggregate::Min => f32::INFINITY.to_bits(),
        Aggregate::Max => f32::NEG_INFINITY.to_bits(),
    });
    if let Some(fixed) = fixed {
        words.push(fixed.low_bits());
        words.extend(fixed.exponents().iter().map(|s| *s as u32));
    }
    u32::try_from(words.len()).ok()?;
    let [trees_at, slots_at, questions_at, columns_at, ranks_at, base_at] =
        [trees_at, slots_at, questions_at, columns_at, ranks_at, base_at].map(|n| n as u32);
    Some(ModelWords { words, trees_at, slots_at, questions_at, columns_at, ranks_at, base_at })
}

/// Returns word 0 of a split's node for rows of floats, and its flags.
pub(super) fn asked(questions: &mut Questions, predicate: Predicate, missing: Side) -> (u32, u32) {
    let missing_left = if missing == Side::Left { MISSING_LEFT } else { 0 };
    asked_with(questions, predicate, missing_left, |t| threshold_word(predicate, t))
}

/// Returns word 0 of a split's node, and its flags. `missing_left` is the flag of that name or 0, and `threshold` returns
/// the word of a threshold or of a question's value.
fn asked_with(
    questions: &mut Questions,
    predicate: Predicate,
    missing_left: u32,
    threshold: impl Fn(f64) -> [u32; 1],
) -> (u32, u32) {
    match (predicate, questions.add(predicate, &threshold)) {
        (_, Some((index, named))) => {
            let side = if named == Side::Right { NAMED_RIGHT } else { 0 };
            (index, missing_left | QUESTION | side)
        }
        (Predicate::Less { threshold: t }, None) => {
            (threshold(t.0)[0] + u32::from(missing_left != 0), missing_left)
        }
        // Every key but that of a missing value is below this threshold, also if 1 is added to the key.
        (_, None) => (MISSING, missing_left),
    }
}

/// Encodes the tables that turn rows into ranks, as the kernels' `rank` module reads them. Returns `None` if
/// they need more words than 32 bits can count.
pub(super) fn rank_tables(ranks: &Ranks) -> Option<Vec<u32>> {
    let keys_at = ranks.columns().len() * COLUMN_WORDS as usize;
    let keys = ranks.threshold_keys();
    let questions_at = keys_at + keys.len();
    let mut questions = Questions::of_sets(ranks.sets());
    let mut words = Vec::with_capacity(questions_at);
    for column in ranks.columns() {
        let missing = if column.missing == Side::Left { MISSING_LEFT } else { 0 };
        let (at, count, flags) = match column.asks {
            ColumnKind::Thresholds { first, count } => (keys_at + first as usize, count, 0),
            ColumnKind::Question { predicate } => {
                let value = |t: f64| threshold_word(predicate, t);
                let (index, named) = questions.add(predicate, value)?;
                let side = if named == Side::Right { NAMED_RIGHT } else { 0 };
                (questions_at + index as usize, 0, QUESTION | side)
            }
        };
        words.extend([column.feature, u32::try_from(at).ok()?, count, missing | flags]);
    }
    words.extend(keys);
    words.extend(questions.words);
    // A lookup past the end of a set reads the set's first word, which an empty last set must have, too.
    words.push(0);
    u32::try_from(words.len()).ok()?;
    Some(words)
}

/// Returns the key of a threshold, or of a question's value.
fn threshold_word(predicate: Predicate, t: f64) -> [u32; 1] {
    match predicate {
        // If no f32 has the f64's value, no row has it. The question then has the key of a missing value,
        // which no other value has.
        Predicate::Equal { .. } if f64::from(t as f32) != t => [MISSING],
        Predicate::Equal { .. } => [key(t as f32)],
        _ => [key(least_f32_not_below(t))],
    }
}
