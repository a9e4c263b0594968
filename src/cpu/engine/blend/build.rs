//! Groups the splits of a tree, so that the total cost of its groups is least.

use super::{
    evaluate::padded,
    groups::{Blend, FLIPPED_BIT, Group, LeafGroup, MOST_LEAVES, ROW_BLOCK, Split, Tree},
};
use crate::cpu::cache_line::CacheLine;
use crate::{
    cost::{Machine, picoseconds},
    forest::{Forest, Predicate, Side},
    layout::{PackedForest, PackedNode},
};

/// A node of a tree without the splits that send every row left.
#[derive(Clone, Copy)]
enum PrunedNode {
    /// A leaf, or the split from which a walk goes on.
    Exit {
        address: u32,
    },
    Split {
        split: Split,
        children: [usize; 2],
    },
}

/// The kinds of groups, in the order in which a tree's groups are evaluated. No group reads the result
/// of a later kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GroupKind {
    /// A group above leaves, of this many levels.
    LeafGroup(u32),
    Seven,
    Three,
    One,
}

/// A child of a group: an exit, by its number, or the result of another group, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupChild {
    Exit(u8),
    Group(usize),
}

/// A group before it is put into a [`Blend`].
struct Draft {
    kind: GroupKind,
    /// The splits, level by level.
    splits: Vec<Split>,
    /// The children, from left to right.
    children: Vec<GroupChild>,
}

/// The best group at a node: its kind and its levels.
#[derive(Clone, Copy)]
struct Best {
    /// Cost of this group and of all groups below it, in picoseconds.
    cost: u64,
    kind: GroupKind,
    levels: u32,
}

pub(super) fn build(forest: &Forest, packed: &PackedForest, levels: u32, flipped: bool) -> Option<Blend> {
    let mut blend = Blend {
        trees: Vec::with_capacity(packed.roots.len()),
        leaf_groups: Default::default(),
        groups_of_7: Vec::new(),
        groups_of_3: Vec::new(),
        groups_of_1: Vec::new(),
        levels: Vec::new(),
        exits: Vec::new(),
        values: Vec::new(),
        byte_lists: Vec::new(),
        buffers: MOST_LEAVES,
        columns_end: forest.features.len() * ROW_BLOCK,
        flipped,
    };
    for position in 0..packed.roots.len() {
        let grouping = Grouping::new(packed, position, levels);
        let tree = grouping.map(|grouping| blend.push(forest, packed, grouping));
        blend.trees.push(tree);
    }
    if flipped {
        blend.turn();
    }
    (blend.count() > 0).then_some(blend)
}

/// The groups and the exits of one tree.
struct Grouping {
    nodes: Vec<PrunedNode>,
    best: Vec<Option<Best>>,
    groups: Vec<Draft>,
    /// Splits that replace groups if each level repeats one split: one for each level, from the last level
    /// up.
    levels: Vec<Split>,
    /// The address of each exit, by exit number. A group above exits that has gaps gives
    /// several numbers to some exits.
    exits: Vec<u32>,
    root: GroupChild,
}

impl Grouping {
    /// Groups the splits of this many levels, or of all levels for `u32::MAX`. Returns `None` for a
    /// tree with too many leaves, or with a split that is no threshold of a byte.
    fn new(packed: &PackedForest, position: usize, levels: u32) -> Option<Self> {
        let root = packed.roots[position];
        // A byte can't number the exits of too many levels, so fewer levels are tried then.
        let cut = (1..=levels.min(packed.depths[position])).rev();
        let cut = cut.take(if levels == u32::MAX { 1 } else { usize::MAX });
        let mut nodes = Vec::new();
        let top =
            std::iter::once(0).filter(|_| packed.depths[position] == 0).chain(cut).find_map(|levels| {
                nodes.clear();
                let top = pruned(packed, position, root, levels, &mut nodes)?;
                let exits = nodes.iter().filter(|n| matches!(n, PrunedNode::Exit { .. })).count();
                (exits <= MOST_LEAVES).then_some(top)
            })?;
        if let Some((levels, exits)) = levels_of(&nodes, top) {
            let root = GroupChild::Exit(0);
            return Some(Self { nodes, best: Vec::new(), groups: Vec::new(), levels, exits, root });
        }
        // Gaps in groups take exit numbers. If that takes too many, no group has a gap, and each
        // exit has one number.
        let roomy = Self::with(&nodes, top, true);
        Some(if roomy.exits.len() <= MOST_LEAVES { roomy } else { Self::with(&nodes, top, false) })
    }

    fn with(nodes: &[PrunedNode], root: usize, allow_gaps: bool) -> Self {
        let (nodes, best) = (nodes.to_vec(), vec![None; nodes.len()]);
        let (groups, levels, exits) = (Vec::new(), Vec::new(), Vec::new());
        let mut grouping = Self { nodes, best, groups, levels, exits, root: GroupChild::Exit(0) };
        // Children stand before their parents.
        for node in 0..grouping.nodes.len() {
            grouping.best[node] = grouping.choose(node, node == root, allow_gaps);
        }
        grouping.root = grouping.emit(root);
        grouping
    }

    /// Returns the best group at a node whose descendants have theirs. Returns `None` at an exit.
    fn choose(&self, node: usize, root: bool, allow_gaps: bool) -> Option<Best> {
        let PrunedNode::Split { .. } = self.nodes[node] else { return None };
        let costs = &Machine::here().blend;
        let mut best: Option<Best> = None;
        let mut take = |kind, levels, own: f64, below: &[usize]| {
            let mut each = below.to_vec();
            each.dedup();
            let cost = each
                .iter()
                .filter_map(|n| self.best[*n])
                .fold(picoseconds(own), |sum, b| sum.saturating_add(b.cost));
            if best.is_none_or(|b| cost < b.cost) {
                best = Some(Best { cost, kind, levels });
            }
        };
        for levels in 1..=3u32 {
            let (splits, below) = self.spread(node, levels, levels);
            let bottom = below.iter().all(|n| self.best[*n].is_none());
            if bottom && (allow_gaps || splits.iter().all(Option::is_some)) {
                take(GroupKind::LeafGroup(levels), levels, costs.bottom[levels as usize - 1], &below);
            }
            take(GroupKind::Seven, levels, costs.seven, &below);
            match levels {
                1 if root => take(GroupKind::One, 1, costs.one, &below),
                2 if root => take(GroupKind::Three, 2, costs.three, &below),
                _ => {}
            }
        }
        best
    }

    /// Returns the splits of the first `levels` levels from a node on, level by level, and the nodes
    /// below them from left to right, in a group with room for `room` levels. A branch that ends sooner
    /// fills all children below its end.
    fn spread(&self, node: usize, levels: u32, room: u32) -> (Vec<Option<Split>>, Vec<usize>) {
        let (mut splits, mut row) = (Vec::new(), vec![node]);
        for level in 0..room {
            let mut next = Vec::with_capacity(2 * row.len());
            for n in row {
                match self.nodes[n] {
                    // A parent's index is greater than those of its children, so a node that fills
                    // gaps is not its own child.
                    PrunedNode::Split { split, children } if level < levels => {
                        splits.push(Some(split));
                        next.extend(children);
                    }
                    _ => {
                        splits.push(None);
                        next.extend([n, n]);
                    }
                }
            }
            row = next;
        }
        (splits, row)
    }

    /// Adds the groups from a node down. A group comes after the groups whose results it reads.
    fn emit(&mut self, node: usize) -> GroupChild {
        let Some(Best { kind, levels, .. }) = self.best[node] else {
            return self.number(node);
        };
        let room = match kind {
            GroupKind::LeafGroup(levels) => levels,
            GroupKind::Seven => 3,
            GroupKind::Three => 2,
            GroupKind::One => 1,
        };
        let (splits, below) = self.spread(node, levels, room);
        // A gap has threshold 0. No row goes left of it, and both sides have the same child.
        let splits = splits.into_iter().map(Option::unwrap_or_default).collect();
        let mut children: Vec<GroupChild> = Vec::with_capacity(below.len());
        for (i, n) in below.iter().enumerate() {
            let again = i > 0 && below[i - 1] == *n && !matches!(kind, GroupKind::LeafGroup(_));
            let found = if again { children[i - 1] } else { self.emit(*n) };
            children.push(found);
        }
        self.groups.push(Draft { kind, splits, children });
        GroupChild::Group(self.groups.len() - 1)
    }

    fn number(&mut self, exit: usize) -> GroupChild {
        if let PrunedNode::Exit { address } = self.nodes[exit] {
            self.exits.push(address);
        }
        // `new` looks for more exits than a byte can number.
        GroupChild::Exit((self.exits.len() - 1) as u8)
    }
}

/// Returns the splits and the exits of a full tree of at least two levels each of which repeats one
/// split: one split for each level, from the last level up. Returns `None` for any other tree.
fn levels_of(nodes: &[PrunedNode], root: usize) -> Option<(Vec<Split>, Vec<u32>)> {
    let (mut levels, mut row) = (Vec::new(), vec![root]);
    loop {
        let mut exits = Vec::new();
        let mut next = Vec::new();
        let mut own = None;
        for n in &row {
            match nodes[*n] {
                PrunedNode::Exit { address } => exits.push(address),
                PrunedNode::Split { split, .. } if own.is_some_and(|own| own != split) => return None,
                PrunedNode::Split { split, children } => {
                    own = Some(split);
                    next.extend(children);
                }
            }
        }
        match own {
            None => {
                levels.reverse();
                return (levels.len() > 1).then_some((levels, exits));
            }
            Some(_) if !exits.is_empty() => return None,
            Some(split) => levels.push(split),
        }
        row = next;
    }
}

/// Adds the nodes from an address down to a depth of `levels` splits, children before parents, and
/// returns the index of the top node. Returns `None` if a split is no threshold of a byte.
fn pruned(
    packed: &PackedForest,
    position: usize,
    address: u32,
    levels: u32,
    nodes: &mut Vec<PrunedNode>,
) -> Option<usize> {
    let mut address = address;
    let step = |address: u32, side| packed.step(position, address, side);
    let new = loop {
        match packed.nodes[address as usize] {
            PackedNode::Leaf { .. } => break PrunedNode::Exit { address },
            PackedNode::Through { .. } | PackedNode::Split { predicate: Predicate::Always, .. } => {
                address = step(address, Side::Left);
            }
            PackedNode::Split { .. } if levels == 0 => break PrunedNode::Exit { address },
            PackedNode::Split { predicate: Predicate::Less { threshold }, feature, .. } => {
                // A threshold outside this range fits no byte: ranks are below 256.
                let threshold = (0.0..256.0).contains(&threshold.0).then_some(threshold.0 as u8)?;
                let column = feature.checked_mul(ROW_BLOCK as u32)?;
                let [left, right] = [Side::Left, Side::Right].map(|side| step(address, side));
                let children = [
                    pruned(packed, position, left, levels - 1, nodes)?,
                    pruned(packed, position, right, levels - 1, nodes)?,
                ];
                break PrunedNode::Split { split: Split::new(column, threshold), children };
            }
            PackedNode::Split { .. } | PackedNode::Empty | PackedNode::Tile { .. } => return None,
        }
    };
    nodes.push(new);
    Some(nodes.len() - 1)
}

impl Blend {
    /// Adds a tree's groups. The result of a group goes into a buffer that no other group still needs.
    fn push(&mut self, forest: &Forest, packed: &PackedForest, grouping: Grouping) -> Tree {
        let Grouping { groups, levels, exits, root, .. } = grouping;
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by_key(|g| groups[*g].kind);
        let starts = self.counts();
        let mut outs = vec![0u16; groups.len()];
        let mut free: Vec<u16> = Vec::new();
        let mut used = MOST_LEAVES as u16;
        for g in order {
            let Draft { kind, splits, children } = &groups[g];
            let children: Vec<u16> = children
                .iter()
                .enumerate()
                .map(|(i, child)| match child {
                    GroupChild::Exit(leaf) => u16::from(*leaf),
                    GroupChild::Group(g) => {
                        // Only this group reads that buffer, and it reads before it writes its own
                        // result.
                        if i == 0 || children[i - 1] != *child {
                            free.push(outs[*g]);
                        }
                        outs[*g]
                    }
                })
                .collect();
            let out = free.pop().unwrap_or_else(|| {
                used += 1;
                used - 1
            });
            outs[g] = out;
            self.push_group(*kind, splits, &children, out);
        }
        self.buffers = self.buffers.max(usize::from(used));
        let ends = self.counts();
        let range = |i: usize| (starts[i], ends[i]);
        let first = self.exits.len() as u32;
        let (values, byte_lists) = (self.values.len() as u32, self.byte_lists.len() as u32);
        let count = exits.len() as u32;
        let slot = |address: &u32| match packed.nodes[*address as usize] {
            PackedNode::Leaf { slot } => Some(slot),
            _ => None,
        };
        let slots: Option<Vec<u32>> = exits.iter().map(slot).collect();
        let cut = slots.is_none();
        if let Some(slots) = slots.as_deref().filter(|_| forest.leaf_width() == 1) {
            self.push_values(forest, slots);
        }
        self.exits.extend(slots.unwrap_or(exits));
        let from = self.levels.len() as u32;
        self.levels.extend(levels);
        Tree {
            levels: (from, self.levels.len() as u32),
            leaf_groups: [range(0), range(1), range(2)],
            groups_of_7: range(3),
            groups_of_3: range(4),
            groups_of_1: range(5),
            root: match root {
                GroupChild::Exit(leaf) => u16::from(leaf),
                GroupChild::Group(g) => outs[g],
            },
            exits: (first, count),
            cut,
            values,
            byte_lists: (byte_lists, self.byte_lists.len() as u32),
        }
    }

    /// Adds a group to the list of its kind. It reads the buffers `children`, and its result goes into the buffer
    /// `out`.
    fn push_group(&mut self, kind: GroupKind, splits: &[Split], children: &[u16], out: u16) {
        let first = children[0] as u8;
        match kind {
            GroupKind::LeafGroup(1) => {
                self.leaf_groups.0.push(LeafGroup { splits: array(splits), first, out })
            }
            GroupKind::LeafGroup(2) => {
                self.leaf_groups.1.push(LeafGroup { splits: array(splits), first, out })
            }
            GroupKind::LeafGroup(_) => {
                self.leaf_groups.2.push(LeafGroup { splits: array(splits), first, out })
            }
            GroupKind::Seven => {
                self.groups_of_7.push(Group { splits: array(splits), children: array(children), out })
            }
            GroupKind::Three => {
                self.groups_of_3.push(Group { splits: array(splits), children: array(children), out })
            }
            GroupKind::One => {
                self.groups_of_1.push(Group { splits: array(splits), children: array(children), out })
            }
        }
    }

    /// Adds the values of a tree's leaves, each of a single value, and their byte lists on a machine that reads them.
    fn push_values(&mut self, forest: &Forest, slots: &[u32]) {
        let value = |i: usize| slots.get(i).map_or(0.0, |slot| forest.leaf_values[*slot as usize].0 as f32);
        let count = padded(slots.len());
        let line = |first: usize| CacheLine(std::array::from_fn(|i| value(first + i)));
        self.values.extend((0..count).step_by(16).map(line));
        #[cfg(target_arch = "x86_64")]
        if match self.flipped {
            true => matches!(count, 32 | 64),
            false => count >= ROW_BLOCK && crate::cpu::arch::x86::avx512::blend::permutes_bytes(),
        } {
            let line_of_bytes = |byte: usize, first: usize| {
                CacheLine(std::array::from_fn(|i| value(first + i).to_le_bytes()[byte]))
            };
            let lines = (0..4).flat_map(|byte| (0..count).step_by(ROW_BLOCK).map(move |first| (byte, first)));
            self.byte_lists.extend(lines.map(|(byte, first)| line_of_bytes(byte, first)));
        }
    }

    /// Flips the bit [`FLIPPED_BIT`] of every threshold.
    fn turn(&mut self) {
        let groups = (self.leaf_groups.0.iter_mut().flat_map(|g| &mut g.splits))
            .chain(self.leaf_groups.1.iter_mut().flat_map(|g| &mut g.splits))
            .chain(self.leaf_groups.2.iter_mut().flat_map(|g| &mut g.splits))
            .chain(self.groups_of_7.iter_mut().flat_map(|g| &mut g.splits))
            .chain(self.groups_of_3.iter_mut().flat_map(|g| &mut g.splits))
            .chain(self.groups_of_1.iter_mut().flat_map(|g| &mut g.splits));
        for split in groups.chain(&mut self.levels) {
            split.threshold ^= u32::from_ne_bytes([FLIPPED_BIT; 4]);
        }
    }

    fn counts(&self) -> [u32; 6] {
        let [a, b, c] = [self.leaf_groups.0.len(), self.leaf_groups.1.len(), self.leaf_groups.2.len()];
        [a, b, c, self.groups_of_7.len(), self.groups_of_3.len(), self.groups_of_1.len()].map(|n| n as u32)
    }
}

/// Returns the items as an array. Groups have the lengths of their kind, so no item is left out or
/// added.
fn array<T: Copy + Default, const N: usize>(items: &[T]) -> [T; N] {
    std::array::from_fn(|i| items.get(i).copied().unwrap_or_default())
}
