//! Shapes of tiles: how the splits of a tile are connected, and which child the outcomes of all splits lead
//! to (Treebeard, section 5.1).

use crate::forest::{Node, Tree, tiling::MOST_TILE};

/// The shape of a tile of up to eight splits, as a number. Each split in level order has two bits: whether
/// its left child is in the tile, and whether its right child is in the tile. A binary tree of *k* nodes has
/// *k - 1* such bits set, and two different shapes of the same number of nodes have different numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape(u16);

impl Shape {
    /// Returns the shape of the splits `splits` of a tree. They are connected, in level order, and at most
    /// eight.
    pub fn of(tree: &Tree, splits: &[u32]) -> Self {
        let bits = splits.iter().take(MOST_TILE as usize).enumerate().map(|(i, n)| {
            let inside = |child: u32| u16::from(splits.contains(&child));
            match tree.nodes[*n as usize] {
                Node::Split { left, right, .. } => (inside(left) | inside(right) << 1) << (2 * i),
                Node::Leaf { .. } => 0,
            }
        });
        Self(bits.fold(0, |all, bits| all | bits))
    }

    /// Returns every shape of `nodes` splits, 1 to 8. Their number is the Catalan number of `nodes` (Treebeard,
    /// equation 1).
    pub fn all(nodes: u32) -> Vec<Self> {
        // Shapes grow in level order: the next split without a decision gets none, one or both of its
        // children.
        let mut open = vec![(0u16, 0u32, 1u32)];
        let mut found = Vec::new();
        while let Some((bits, at, count)) = open.pop() {
            if at == count {
                found.extend((count == nodes).then_some(Self(bits)));
                continue;
            }
            for own in 0..4u16 {
                let count = count + own.count_ones();
                if count <= nodes.min(MOST_TILE) {
                    open.push((bits | own << (2 * at), at + 1, count));
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// Returns the shape's number of 16 bits.
    pub fn number(self) -> u16 {
        self.0
    }

    /// Returns the number of the tile's splits. The tile has one child more.
    pub fn nodes(self) -> u32 {
        self.0.count_ones() + 1
    }

    /// Returns the split of the tile that follows split `at` on the right or on the left, or `None` if that
    /// child is outside the tile.
    fn next(self, at: u32, right: bool) -> Option<u32> {
        let bit = 2 * at + u32::from(right);
        let before = self.0 & ((1u16 << bit) - 1);
        (self.0 >> bit & 1 == 1).then(|| before.count_ones() + 1)
    }

    /// Returns the exits of the tile from left to right: the split that an exit leaves, and whether by its
    /// right side.
    fn exits(self) -> Vec<(u32, bool)> {
        let mut exits = Vec::new();
        let mut open = vec![(0u32, true), (0, false)];
        while let Some((at, right)) = open.pop() {
            match self.next(at, right) {
                Some(inside) => open.extend([(inside, true), (inside, false)]),
                None => exits.push((at, right)),
            }
        }
        exits
    }

    /// Returns, for each outcome of the splits, the index of the child that it leads to, counted from the left. Bit *i*
    /// of the index is set if the row goes right at split *i*. The table has `2^width` entries. `width` is at least
    /// [`Shape::nodes`] and at most 8, and bits past the tile's splits change nothing.
    ///
    /// ```
    /// use fangorn::plan::Shape;
    ///
    /// // A root and its right child: to the left there is child 0, whatever the other split says.
    /// let chain = Shape::all(2).into_iter().find(|s| s.table(2)[0b10] == 0).expect("two shapes of two splits");
    /// assert_eq!(chain.table(2), [0, 1, 0, 2]);
    /// ```
    pub fn table(self, width: u32) -> Vec<u8> {
        let exits = self.exits();
        let child = |outcome: u32| {
            let mut at = 0;
            loop {
                let right = outcome >> at & 1 == 1;
                match self.next(at, right) {
                    Some(inside) => at = inside,
                    None => return exits.iter().position(|e| *e == (at, right)).unwrap_or(0) as u8,
                }
            }
        };
        (0..1u32 << width.min(MOST_TILE)).map(child).collect()
    }
}
