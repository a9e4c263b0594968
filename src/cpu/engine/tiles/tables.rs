//! Tiles as the CPU reads them: the thresholds and columns of all splits side by side, and tables that
//! give the child for each outcome of a tile's compares (Treebeard, section 5.1).

use crate::cpu::{
    engine::walk::NodeStore,
    nodes::{Compare, LEAF, Node, Splits},
    rows::{Read, Row, Rows},
};
use crate::{
    forest::Forest,
    layout::{Children, PackedForest, PackedNode, Shape},
};

/// Splits in an `EightSplits`.
const SPLITS: usize = 8;

/// Room for eight splits. With `f32` thresholds they are one cache line, so no tile lies across two.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct EightSplits<C>([Node<C>; SPLITS]);

/// How a walk gets from a tile to its children.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// Address of the leftmost child, if tiles hold it. A leaf has its own address here.
    link: u32,
    /// Index at which the table of the tile's shape begins, and flags.
    table: u32,
}

/// Flag of padding whose first child is a leaf. Every row goes to that child.
const HOP: u32 = 1 << 31;

/// The tiles of a forest, by address. Each tile has room for 2, 4 or 8 splits.
#[derive(Clone, Debug)]
pub(in crate::cpu) struct Tiles<C> {
    /// The splits, tile after tile, each tile's in level order. An entry without a split sends every row
    /// left.
    lines: Vec<EightSplits<C>>,
    /// Room of a tile, in splits: 2, 4 or 8.
    width: usize,
    heads: Vec<Head>,
    /// The child for each outcome of a tile's compares, one shape after the other.
    tables: Vec<u8>,
    /// Number of shapes of tiles.
    shapes: usize,
    roots: Vec<u32>,
    constants: Vec<u32>,
    pub(in crate::cpu) depths: Vec<u32>,
    questions: Vec<u32>,
    /// How many children the layout has room for at each tile, if addresses of children are computed. 0 if
    /// tiles hold the address of their leftmost child.
    children: u32,
    /// The first address of a leaf if leaves lie after the tiles, otherwise `u32::MAX`.
    leaves_from: u32,
}

impl<C: Compare> Tiles<C> {
    pub(in crate::cpu) fn new(forest: &Forest, packed: &PackedForest) -> Self {
        let mut splits = Splits::new(forest);
        let most = packed.children.tile();
        let width = most.next_power_of_two().clamp(2, SPLITS as u32) as usize;
        let linked = matches!(packed.children, Children::TilesLinked { .. });
        let is_leaf = |n: &PackedNode| matches!(n, PackedNode::Leaf { .. });
        let there = if linked { packed.nodes.partition_point(|n| !is_leaf(n)) } else { packed.nodes.len() };
        let mut lines = vec![EightSplits([Node::always_left(); SPLITS]); (there * width).div_ceil(SPLITS)];
        let mut heads = Vec::with_capacity(there);
        let mut shapes: Vec<Shape> = Vec::new();
        let mut known = std::collections::HashMap::new();
        for (address, node) in packed.nodes[..there].iter().enumerate() {
            heads.push(match *node {
                PackedNode::Tile { first, shape, link } => {
                    let inside = &packed.inside[first as usize..][..shape.nodes() as usize];
                    for (k, split) in inside.iter().enumerate().take(width) {
                        let at = address * width + k;
                        lines[at / SPLITS].0[at % SPLITS] = splits.node(split);
                    }
                    let number = *known.entry(shape).or_insert_with(|| {
                        shapes.push(shape);
                        shapes.len() as u32 - 1
                    });
                    Head { link, table: number << most }
                }
                // The first entry of every table is the first child, so padding can take any shape's
                // table.
                PackedNode::Through { link } => {
                    let child = packed.nodes.get(link as usize).filter(|_| linked);
                    Head { link, table: if child.is_some_and(is_leaf) { HOP } else { 0 } }
                }
                PackedNode::Leaf { .. } => Head { link: address as u32, table: LEAF },
                PackedNode::Empty | PackedNode::Split { .. } => Head { link: 0, table: 0 },
            });
        }
        let mut tables: Vec<u8> = shapes.iter().flat_map(|shape| shape.table(most)).collect();
        // A forest without tiles has no shape, but its padding reads a table.
        tables.resize(tables.len().max(1), 0);
        Self {
            lines,
            width,
            heads,
            tables,
            shapes: shapes.len(),
            roots: packed.roots.clone(),
            constants: packed.constants.clone(),
            depths: packed.depths.clone(),
            questions: splits.questions(),
            children: if linked { 0 } else { most + 1 },
            leaves_from: if linked { there as u32 } else { u32::MAX },
        }
    }

    /// Returns the size in bytes of tiles and tables.
    pub(in crate::cpu) fn bytes(&self) -> usize {
        size_of_val(&self.lines[..]) + size_of_val(&self.heads[..]) + self.tables.len()
    }

    /// Returns the number of tiles and padding nodes, or of all addresses if addresses of children are
    /// computed.
    pub(in crate::cpu) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Returns for how many splits a tile has room.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(in crate::cpu) fn width(&self) -> usize {
        self.width
    }

    /// Returns the splits, tile after tile.
    pub(in crate::cpu) fn nodes(&self) -> *const Node<C> {
        self.lines.as_ptr().cast()
    }

    /// Returns the address that an outcome of the splits at `address` leads to. Bit *i* of `outcome` is
    /// set if the row goes right at split *i*.
    ///
    /// # Safety
    /// `address` is that of a tile or of padding that walks reach, or the result of `readable` for a leaf. No
    /// bit is set past the splits of a tile.
    #[inline(always)]
    pub(in crate::cpu) unsafe fn child(&self, address: u32, constant: u32, outcome: u32) -> u32 {
        // SAFETY: the caller upholds that walks reach `address`, which `PackedForest::verify` bounds, and
        // that `outcome` has no bit past the splits, so the table of the shape has an entry for it.
        let (link, k) = unsafe {
            let Head { link, table } = *self.heads.get_unchecked(address as usize);
            // A walk that waits at its leaf takes steps from there, too. It reads an entry, but discards the
            // result.
            (link, *self.tables.get_unchecked(((table & !(HOP | LEAF)) + outcome) as usize))
        };
        let first = match self.children {
            0 => link,
            children => address.wrapping_mul(children).wrapping_add(constant),
        };
        first.wrapping_add(k.into())
    }
}

impl<C: Compare> std::fmt::Display for Tiles<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (tiles, shapes, bytes) = (self.len(), self.shapes, self.tables.len());
        write!(f, "{tiles} padded to {} splits each, {shapes} shapes, tables of {bytes} bytes", self.width)
    }
}

impl<C: Compare> NodeStore for Tiles<C> {
    type Compare = C;
    const LEAVES_HOLD: bool = false;

    #[inline(always)]
    fn start(&self, position: usize) -> (u32, u32) {
        (self.roots[position], self.constants[position])
    }

    #[inline(always)]
    fn depth(&self, position: usize) -> u32 {
        self.depths[position]
    }

    #[inline(always)]
    unsafe fn step<T: Row + Read<C>, const QUESTIONS: bool, const UNIT: bool>(
        &self,
        address: u32,
        constant: u32,
        rows: &Rows<'_, T>,
        row: usize,
    ) -> u32 {
        let mut outcome = 0;
        for k in 0..self.width {
            // SAFETY: the caller upholds that walks reach `address`, which `PackedForest::verify` bounds.
            // Each tile has room for `width` splits.
            let node = unsafe { *self.nodes().add(address as usize * self.width + k) };
            // SAFETY: a verified forest's features are columns, which `Rows` has checked against its
            // data. Entries without a split read column 0, and where there is a tile there is a column.
            let x = unsafe { rows.get::<UNIT>(row, node.feature()) }.read();
            outcome |= node.right::<QUESTIONS>(x, &self.questions) << k;
        }
        // SAFETY: the caller upholds that walks reach `address`. Entries without a split send every row
        // left, so they set no bit.
        unsafe { self.child(address, constant, outcome) }
    }

    #[inline(always)]
    unsafe fn is_leaf(&self, address: u32) -> bool {
        match self.children {
            0 => address >= self.leaves_from,
            // SAFETY: the caller upholds that walks reach `address`. Where addresses of children are
            // computed, every address has a head, a leaf's included.
            _ => unsafe { self.heads.get_unchecked(address as usize) }.table & LEAF != 0,
        }
    }

    #[inline(always)]
    unsafe fn leaf_behind_padding(&self, address: u32) -> u32 {
        match self.heads.get(address as usize) {
            Some(Head { link, table }) if table & HOP != 0 => *link,
            _ => address,
        }
    }

    #[inline(always)]
    fn readable(&self, address: u32) -> u32 {
        address.min((self.heads.len() as u32).saturating_sub(1))
    }
}
