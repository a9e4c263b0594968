//! Forests and rows that are drawn at random, with seeds.

use std::error::Error;

use fangorn::{
    Forest,
    forest::{Predicate, Real, Side},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Different thresholds of a column.
pub const THRESHOLDS: u32 = 60;

/// A generator of random numbers: splitmix64.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        (((self.next() >> 32) * u64::from(end)) >> 32) as u32
    }
}

/// The shape of a drawn tree.
#[derive(Clone, Copy)]
pub enum Shape {
    /// All leaves at this depth.
    Full(u32),
    /// This many full levels. The first node below them has three more full levels, the other nodes are leaves.
    OneSided(u32),
    /// About this many leaves, with random splits, and another number in each tree. Trees of
    /// boosting look like this.
    Grown(u32),
    /// Half of the rows end after eight levels, the other half after nine. Only two leaves lie at the ninth
    /// level, so counts of leaves hide this.
    Surprising,
    /// A third of the leaves lie at the eighth level, the others at the ninth.
    Uneven,
}

/// A drawn tree: a leaf, or a split with its threshold, its column and its two subtrees.
enum DrawnTree {
    Leaf,
    Split(f64, u32, Box<[DrawnTree; 2]>),
}

/// Returns `k / n`, rounded to `f32`.
pub fn share(k: u32, n: u32) -> f64 {
    f64::from(k as f32 / n as f32)
}

/// Draws a tree of a shape over `columns` columns.
fn draw(shape: Shape, columns: u32, random: &mut Random) -> DrawnTree {
    let threshold = |random: &mut Random| share(1 + random.below(THRESHOLDS), THRESHOLDS + 1);
    match shape {
        Shape::Full(0) | Shape::Grown(0 | 1) => DrawnTree::Leaf,
        Shape::Grown(leaves) => {
            let left = 1 + random.below(leaves - 1);
            let below = [left, leaves - left].map(|leaves| draw(Shape::Grown(leaves), columns, random));
            DrawnTree::Split(threshold(random), random.below(columns), Box::new(below))
        }
        Shape::Full(depth) => {
            let below = [(); 2].map(|()| draw(Shape::Full(depth - 1), columns, random));
            DrawnTree::Split(threshold(random), random.below(columns), Box::new(below))
        }
        Shape::OneSided(0) => draw(Shape::Full(3), columns, random),
        Shape::OneSided(top) => {
            let below =
                [Shape::OneSided(top - 1), Shape::Full(top - 1)].map(|shape| draw(shape, columns, random));
            DrawnTree::Split(threshold(random), random.below(columns), Box::new(below))
        }
        Shape::Uneven => {
            let below = [7, 8].map(|depth| draw(Shape::Full(depth), columns, random));
            DrawnTree::Split(threshold(random), random.below(columns), Box::new(below))
        }
        Shape::Surprising => {
            // Every value is below 2, so every row goes down this chain.
            let mut chain = draw(Shape::Full(1), columns, random);
            for _ in 0..7 {
                chain = DrawnTree::Split(2.0, random.below(columns), Box::new([chain, DrawnTree::Leaf]));
            }
            let below = [draw(Shape::Full(7), columns, random), chain];
            DrawnTree::Split(0.5, random.below(columns), Box::new(below))
        }
    }
}

/// Draws a forest of `trees` trees with one output.
pub fn forest(trees: usize, columns: u32, shape: Shape) -> Result<Forest> {
    forest_of_vectors(trees, columns, 1, shape)
}

/// Draws a forest of `trees` trees whose leaves are vectors of `width` values.
pub fn forest_of_vectors(trees: usize, columns: u32, width: u32, shape: Shape) -> Result<Forest> {
    let mut random = Random(7);
    let mut builder = Forest::builder(columns as usize, width);
    for _ in 0..trees {
        let shape = match shape {
            Shape::Grown(leaves) => Shape::Grown(1 + random.below(2 * leaves - 1)),
            even => even,
        };
        let drawn = draw(shape, columns, &mut random);
        // Nodes are added level by level: a node's children come after all nodes that were met before.
        let mut tree = if width > 1 { builder.vector_tree() } else { builder.tree(0) };
        let (mut open, mut done) = (vec![&drawn], 0);
        while let Some(node) = open.get(done).copied() {
            done += 1;
            match node {
                DrawnTree::Leaf => {
                    let values: Vec<f64> = (0..width).map(|_| share(random.below(1000), 1000)).collect();
                    tree.leaf(done as u32 - 1, &values)
                }
                DrawnTree::Split(threshold, feature, below) => {
                    let left = open.len() as u32;
                    open.extend(below.iter());
                    let predicate = Predicate::Less { threshold: Real(*threshold) };
                    tree.split(*feature, predicate, Side::Left, left, left + 1)
                }
            };
        }
    }
    Ok(builder.build()?)
}

/// Returns `rows x columns` random numbers between 0 and 1.
pub fn values(rows: usize, columns: usize) -> Vec<f32> {
    let mut random = Random(11);
    (0..rows * columns).map(|_| random.below(1 << 24) as f32 / (1 << 24) as f32).collect()
}
