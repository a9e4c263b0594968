//! Tiles as the CPU reads them: thresholds and columns of all splits side by side, and tables that say which child the
//! outcome of their compares leads to (Treebeard, section 5.1).

use crate::cpu::{
    engine::walk::NodeStore,
    nodes::{Compare, LEAF, Node, Splits},
    rows::{Read, Row, Rows},
};
use crate::{
    forest::Forest,
    layout::{Children, Packed, PackedNode, Shape},
};

/// Places for splits in a line.
const BLOCK_COLUMNS: usize = 8;

/// Eight places for splits: of `f32` a line of the cache, so that no tile lies across two.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct CacheLine<C>([Node<C>; BLOCK_COLUMNS]);

/// What follows a tile.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// The leftmost child's address, where tiles name it.
    link: u32,
    /// Where its shape's table begins, and flags.
    table: u32,
}

/// Every row goes to the first child, a leaf.
const HOP: u32 = 1 << 31;

/// The tiles of a forest, by address, each in 2, 4 or 8 places.
#[derive(Clone, Debug)]
pub(in crate::cpu) struct Tiles<C> {
    /// The splits, tile after tile, each in level order. Places without one send everything left.
    lines: Vec<CacheLine<C>>,
    /// Places of a tile: 2, 4 or 8.
    width: usize,
    heads: Vec<Head>,
    /// The child for each outcome, shape after shape.
    tables: Vec<u8>,
    /// Shapes of tiles.
    shapes: usize,
    roots: Vec<u32>,
    constants: Vec<u32>,
    pub(in crate::cpu) depths: Vec<u32>,
    questions: Vec<u32>,
    /// Children that the layout has room for at each tile, where their places are computed; otherwise 0.
    children: u32,
    /// The first address of a leaf, where they lie behind the tiles.
    leaves_from: u32,
}

impl<C: Compare> Tiles<C> {
    pub(in crate::cpu) fn new(forest: &Forest, packed: &Packed) -> Self {
        let mut splits = Splits::new(forest);
        let most = packed.children.tile();
        let width = most.next_power_of_two().clamp(2, BLOCK_COLUMNS as u32) as usize;
        let linked = matches!(packed.children, Children::TilesLinked { .. });
        let is_leaf = |n: &PackedNode| matches!(n, PackedNode::Leaf { .. });
        let there = if linked { packed.nodes.partition_point(|n| !is_leaf(n)) } else { packed.nodes.len() };
        let mut lines =
            vec![CacheLine([Node::still(); BLOCK_COLUMNS]); (there * width).div_ceil(BLOCK_COLUMNS)];
        let mut heads = Vec::with_capacity(there);
        let mut shapes: Vec<Shape> = Vec::new();
        let mut known = std::collections::HashMap::new();
        for (address, node) in packed.nodes[..there].iter().enumerate() {
            heads.push(match *node {
                PackedNode::Tile { first, shape, link } => {
                    let inside = &packed.inside[first as usize..][..shape.nodes() as usize];
                    for (place, split) in inside.iter().enumerate().take(width) {
                        let at = address * width + place;
                        lines[at / BLOCK_COLUMNS].0[at % BLOCK_COLUMNS] = splits.node(split);
                    }
                    let number = *known.entry(shape).or_insert_with(|| {
                        shapes.push(shape);
                        shapes.len() as u32 - 1
                    });
                    Head { link, table: number << most }
                }
                // Every table's first entry is the first child, whatever the shape.
                PackedNode::Through { link } => {
                    let child = packed.nodes.get(link as usize).filter(|_| linked);
                    Head { link, table: if child.is_some_and(is_leaf) { HOP } else { 0 } }
                }
                PackedNode::Leaf { .. } => Head { link: address as u32, table: LEAF },
                PackedNode::Empty | PackedNode::Split { .. } => Head { link: 0, table: 0 },
            });
        }
        let mut tables: Vec<u8> = shapes.iter().flat_map(|shape| shape.table(most)).collect();
        // Padding alone has no shape.
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

    /// Bytes of tiles and tables.
    pub(in crate::cpu) fn bytes(&self) -> usize {
        size_of_val(&self.lines[..]) + size_of_val(&self.heads[..]) + self.tables.len()
    }

    /// Tiles and padding, or places for them where those are computed.
    pub(in crate::cpu) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Places for splits in a tile.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(in crate::cpu) fn width(&self) -> usize {
        self.width
    }

    /// The splits, tile after tile.
    pub(in crate::cpu) fn nodes(&self) -> *const Node<C> {
        self.lines.as_ptr().cast()
    }

    /// The address that an outcome of the splits at `address` leads to: bit *i* is set where the row goes right at split
    /// *i*.
    ///
    /// # Safety
    /// `address` is a tile's or padding's that walks reach, and no bit is set past its splits.
    #[inline(always)]
    pub(in crate::cpu) unsafe fn child(&self, address: u32, constant: u32, outcome: u32) -> u32 {
        // SAFETY: a tile's address is in range (`Packed::verify`), and so is each outcome of its splits behind its place.
        let (link, k) = unsafe {
            let Head { link, table } = *self.heads.get_unchecked(address as usize);
            // A walk that waits at its leaf steps from there, too: what it comes to does not count, but is read.
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
        write!(f, "{tiles} in {} places each, {shapes} shapes, tables of {bytes} bytes", self.width)
    }
}

impl<C: Compare> NodeStore for Tiles<C> {
    type Compare = C;
    const HOLDS: bool = false;

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
        for place in 0..self.width {
            // SAFETY: a tile's address is in range (`Packed::verify`), and each has as many places.
            let node = unsafe { *self.nodes().add(address as usize * self.width + place) };
            // SAFETY: a verified forest's features are columns, which `Rows` has checked against its data; where there is
            // a tile there is a column, which places without a split read.
            let x = unsafe { rows.get::<UNIT>(row, node.feature()) }.read();
            outcome |= node.right::<QUESTIONS>(x, &self.questions) << place;
        }
        // SAFETY: places without a split set no bit.
        unsafe { self.child(address, constant, outcome) }
    }

    #[inline(always)]
    unsafe fn is_leaf(&self, address: u32) -> bool {
        match self.children {
            0 => address >= self.leaves_from,
            // SAFETY: where places are computed leaves have heads, too.
            _ => unsafe { self.heads.get_unchecked(address as usize) }.table & LEAF != 0,
        }
    }

    #[inline(always)]
    unsafe fn past_hop(&self, address: u32) -> u32 {
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
