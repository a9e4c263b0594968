//! A tree as groups of splits, the cheapest there are by a count of what each kind costs.

use super::{
    evaluate::padded,
    groups::{BLOCK, Blend, Group, LeafGroup, MOST_LEAVES, Split, TURNED, Tree},
};
use crate::cpu::cache_line::CacheLine;
use crate::{
    cost::{Machine, picoseconds},
    forest::{Forest, Predicate, Side},
    layout::{Packed, PackedNode},
};

/// A node without splits that send everything left.
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

/// The kinds of groups, in the order in which a tree's are evaluated: none waits for one of a later kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Above leaves, of so many levels.
    LeafGroup(u32),
    Seven,
    Three,
    One,
}

/// What a group chooses among: an exit's number, or what a group found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupChild {
    Exit(u8),
    Group(usize),
}

/// A group in the making.
struct Draft {
    kind: Kind,
    /// Level by level.
    splits: Vec<Split>,
    /// From left to right.
    children: Vec<GroupChild>,
}

/// How the splits from a node down are best grouped: the kind and the levels of the group at the node.
#[derive(Clone, Copy)]
struct Best {
    /// In picoseconds.
    cost: u64,
    kind: Kind,
    levels: u32,
}

pub(super) fn build(forest: &Forest, packed: &Packed, levels: u32, turned: bool) -> Option<Blend> {
    let mut blend = Blend {
        trees: Vec::with_capacity(packed.roots.len()),
        bottoms: Default::default(),
        sevens: Vec::new(),
        threes: Vec::new(),
        ones: Vec::new(),
        levels: Vec::new(),
        exits: Vec::new(),
        values: Vec::new(),
        planes: Vec::new(),
        blocks: MOST_LEAVES,
        columns_end: forest.features.len() * BLOCK,
        turned,
    };
    for position in 0..packed.roots.len() {
        let grouping = Grouping::new(packed, position, levels);
        let tree = grouping.map(|grouping| blend.push(forest, packed, grouping));
        blend.trees.push(tree);
    }
    if turned {
        blend.turn();
    }
    (blend.count() > 0).then_some(blend)
}

/// A tree's groups, and its exits by their numbers.
struct Grouping {
    nodes: Vec<PrunedNode>,
    best: Vec<Option<Best>>,
    groups: Vec<Draft>,
    /// In the stead of groups: a split a level, from the last up.
    levels: Vec<Split>,
    /// Addresses. Where a group above exits has fewer than it has room for, some have several numbers.
    exits: Vec<u32>,
    root: GroupChild,
}

impl Grouping {
    /// Of the splits of so many levels, or of all. `None` for a tree of too many leaves, or with a split that is no threshold
    /// of a byte.
    fn new(packed: &Packed, position: usize, levels: u32) -> Option<Self> {
        let root = packed.roots[position];
        // Fewer levels where those asked for have more exits than a byte has numbers.
        let cut = (1..=levels.min(packed.depths[position])).rev();
        let cut = cut.take(if levels == u32::MAX { 1 } else { usize::MAX });
        let mut nodes = Vec::new();
        let top =
            std::iter::once(0).filter(|_| packed.depths[position] == 0).chain(cut).find_map(|levels| {
                nodes.clear();
                let top = plain(packed, position, root, levels, &mut nodes)?;
                let exits = nodes.iter().filter(|n| matches!(n, PrunedNode::Exit { .. })).count();
                (exits <= MOST_LEAVES).then_some(top)
            })?;
        if let Some((levels, exits)) = levels_of(&nodes, top) {
            let root = GroupChild::Exit(0);
            return Some(Self { nodes, best: Vec::new(), groups: Vec::new(), levels, exits, root });
        }
        // With room to spare groups may have empty places; without, a number is an exit.
        let roomy = Self::with(&nodes, top, true);
        Some(if roomy.exits.len() <= MOST_LEAVES { roomy } else { Self::with(&nodes, top, false) })
    }

    fn with(nodes: &[PrunedNode], root: usize, spare: bool) -> Self {
        let (nodes, best) = (nodes.to_vec(), vec![None; nodes.len()]);
        let (groups, levels, exits) = (Vec::new(), Vec::new(), Vec::new());
        let mut grouping = Self { nodes, best, groups, levels, exits, root: GroupChild::Exit(0) };
        // Children stand before their parents.
        for node in 0..grouping.nodes.len() {
            grouping.best[node] = grouping.choose(node, node == root, spare);
        }
        grouping.root = grouping.emit(root);
        grouping
    }

    /// The best group at a node, those below it chosen; `None` at a leaf.
    fn choose(&self, node: usize, root: bool, spare: bool) -> Option<Best> {
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
            if bottom && (spare || splits.iter().all(Option::is_some)) {
                take(Kind::LeafGroup(levels), levels, costs.bottom[levels as usize - 1], &below);
            }
            take(Kind::Seven, levels, costs.seven, &below);
            match levels {
                1 if root => take(Kind::One, 1, costs.one, &below),
                2 if root => take(Kind::Three, 2, costs.three, &below),
                _ => {}
            }
        }
        best
    }

    /// The splits of a node's first `levels`, level by level, and what is below them from left to right, in a group of
    /// `room` levels. What ends sooner fills all places below it.
    fn spread(&self, node: usize, levels: u32, room: u32) -> (Vec<Option<Split>>, Vec<usize>) {
        let (mut splits, mut row) = (Vec::new(), vec![node]);
        for level in 0..room {
            let mut next = Vec::with_capacity(2 * row.len());
            for n in row {
                match self.nodes[n] {
                    // A parent's place is after its children's, so a node that fills places is no parent of itself.
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

    /// The groups from a node down, those that others wait for first.
    fn emit(&mut self, node: usize) -> GroupChild {
        let Some(Best { kind, levels, .. }) = self.best[node] else {
            return self.number(node);
        };
        let room = match kind {
            Kind::LeafGroup(levels) => levels,
            Kind::Seven => 3,
            Kind::Three => 2,
            Kind::One => 1,
        };
        let (splits, below) = self.spread(node, levels, room);
        // No row goes left of threshold 0, and both sides are the same.
        let splits = splits.into_iter().map(Option::unwrap_or_default).collect();
        let mut children: Vec<GroupChild> = Vec::with_capacity(below.len());
        for (i, n) in below.iter().enumerate() {
            let again = i > 0 && below[i - 1] == *n && !matches!(kind, Kind::LeafGroup(_));
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
        // More than there is room for are looked at by `new`.
        GroupChild::Exit((self.exits.len() - 1) as u8)
    }
}

/// The splits and the exits of a full tree of at least two levels that ask one question each, levels from the last up.
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

/// Adds what lies at an address and so many levels of splits from there down, children first, and gives its place.
fn plain(
    packed: &Packed,
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
                // A rank is below every other threshold.
                let threshold = (0.0..256.0).contains(&threshold.0).then_some(threshold.0 as u8)?;
                let column = feature.checked_mul(BLOCK as u32)?;
                let [left, right] = [Side::Left, Side::Right].map(|side| step(address, side));
                let children = [
                    plain(packed, position, left, levels - 1, nodes)?,
                    plain(packed, position, right, levels - 1, nodes)?,
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
    /// Adds a tree's groups, each with a place for what it finds that nothing else still needs.
    fn push(&mut self, forest: &Forest, packed: &Packed, grouping: Grouping) -> Tree {
        let Grouping { groups, levels, exits, root, .. } = grouping;
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by_key(|g| groups[*g].kind);
        let starts = self.counts();
        let mut places = vec![0u16; groups.len()];
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
                        // A group is read by one other, before that writes.
                        if i == 0 || children[i - 1] != *child {
                            free.push(places[*g]);
                        }
                        places[*g]
                    }
                })
                .collect();
            let out = free.pop().unwrap_or_else(|| {
                used += 1;
                used - 1
            });
            places[g] = out;
            let first = children[0] as u8;
            match kind {
                Kind::LeafGroup(1) => self.bottoms.0.push(LeafGroup { splits: array(splits), first, out }),
                Kind::LeafGroup(2) => self.bottoms.1.push(LeafGroup { splits: array(splits), first, out }),
                Kind::LeafGroup(_) => self.bottoms.2.push(LeafGroup { splits: array(splits), first, out }),
                Kind::Seven => {
                    self.sevens.push(Group { splits: array(splits), children: array(&children), out })
                }
                Kind::Three => {
                    self.threes.push(Group { splits: array(splits), children: array(&children), out })
                }
                Kind::One => self.ones.push(Group { splits: array(splits), children: array(&children), out }),
            }
        }
        self.blocks = self.blocks.max(usize::from(used));
        let ends = self.counts();
        let range = |i: usize| (starts[i], ends[i]);
        let first = self.exits.len() as u32;
        let (values, planes) = (self.values.len() as u32, self.planes.len() as u32);
        let count = exits.len() as u32;
        let slot = |address: &u32| match packed.nodes[*address as usize] {
            PackedNode::Leaf { slot } => Some(slot),
            _ => None,
        };
        let slots: Option<Vec<u32>> = exits.iter().map(slot).collect();
        let cut = slots.is_none();
        if let Some(slots) = slots.as_ref().filter(|_| forest.leaf_width() == 1) {
            let value =
                |i: usize| slots.get(i).map_or(0.0, |slot| forest.leaf_values[*slot as usize].0 as f32);
            let count = padded(slots.len());
            let line = |first: usize| CacheLine(std::array::from_fn(|i| value(first + i)));
            self.values.extend((0..count).step_by(16).map(line));
            #[cfg(target_arch = "x86_64")]
            if match self.turned {
                true => matches!(count, 32 | 64),
                false => count >= BLOCK && crate::cpu::arch::x86::avx512::blend::permutes_bytes(),
            } {
                let plane = |byte: usize, first: usize| {
                    CacheLine(std::array::from_fn(|i| value(first + i).to_le_bytes()[byte]))
                };
                let lines = (0..4).flat_map(|byte| (0..count).step_by(BLOCK).map(move |first| (byte, first)));
                self.planes.extend(lines.map(|(byte, first)| plane(byte, first)));
            }
        }
        self.exits.extend(slots.unwrap_or(exits));
        let from = self.levels.len() as u32;
        self.levels.extend(levels);
        Tree {
            levels: (from, self.levels.len() as u32),
            bottoms: [range(0), range(1), range(2)],
            sevens: range(3),
            threes: range(4),
            ones: range(5),
            root: match root {
                GroupChild::Exit(leaf) => u16::from(leaf),
                GroupChild::Group(g) => places[g],
            },
            exits: (first, count),
            cut,
            values,
            planes: (planes, self.planes.len() as u32),
        }
    }

    /// Turns every threshold.
    fn turn(&mut self) {
        let groups = (self.bottoms.0.iter_mut().flat_map(|g| &mut g.splits))
            .chain(self.bottoms.1.iter_mut().flat_map(|g| &mut g.splits))
            .chain(self.bottoms.2.iter_mut().flat_map(|g| &mut g.splits))
            .chain(self.sevens.iter_mut().flat_map(|g| &mut g.splits))
            .chain(self.threes.iter_mut().flat_map(|g| &mut g.splits))
            .chain(self.ones.iter_mut().flat_map(|g| &mut g.splits));
        for split in groups.chain(&mut self.levels) {
            split.threshold ^= u32::from_ne_bytes([TURNED; 4]);
        }
    }

    fn counts(&self) -> [u32; 6] {
        let [a, b, c] = [self.bottoms.0.len(), self.bottoms.1.len(), self.bottoms.2.len()];
        [a, b, c, self.sevens.len(), self.threes.len(), self.ones.len()].map(|n| n as u32)
    }
}

/// As many as there are: groups have the lengths of their kind.
fn array<T: Copy + Default, const N: usize>(items: &[T]) -> [T; N] {
    std::array::from_fn(|i| items.get(i).copied().unwrap_or_default())
}
