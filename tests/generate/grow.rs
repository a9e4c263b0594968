//! Trees in the making, and the forest that a line spells out.

use fangorn::{
    Forest,
    forest::{
        Aggregate, CategorySet, Classes, CompareType, Feature, Node, Predicate, Producer, Real, Side,
        Targets, Transform, Tree,
    },
};

use super::Seeded;

/// A tree in the making: grown by splitting leaves.
pub struct Growing {
    pub nodes: Vec<Node>,
    pub depths: Vec<u32>,
}

impl Growing {
    pub fn new() -> Self {
        Self { nodes: vec![Node::Leaf { slot: 0 }], depths: vec![0] }
    }

    /// Makes a leaf a split with two leaves.
    pub fn split(&mut self, leaf: usize, feature: u32, predicate: Predicate, missing: Side) {
        let left = self.nodes.len() as u32;
        self.nodes[leaf] = Node::Split { feature, predicate, missing, left, right: left + 1 };
        for _ in 0..2 {
            self.nodes.push(Node::Leaf { slot: 0 });
            self.depths.push(self.depths[leaf] + 1);
        }
    }

    pub fn leaves(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|n| self.nodes[*n].slot().is_some()).collect()
    }

    /// The nodes in another order, the root still first.
    pub fn shuffled(&self, random: &mut Seeded) -> Vec<Node> {
        let mut indices: Vec<u32> = (0..self.nodes.len() as u32).collect();
        for i in (2..indices.len()).rev() {
            indices.swap(i, 1 + random.below(i));
        }
        let mut nodes = vec![Node::Leaf { slot: 0 }; self.nodes.len()];
        for (node, at) in self.nodes.iter().zip(&indices) {
            nodes[*at as usize] = match *node {
                Node::Split { feature, predicate, missing, left, right } => {
                    let [left, right] = [left, right].map(|c| indices[c as usize]);
                    Node::Split { feature, predicate, missing, left, right }
                }
                leaf => leaf,
            };
        }
        nodes
    }
}

/// Numbers the leaves of all trees and wraps them up. Slots are dealt in a random order where `random` is given.
pub fn assemble(
    mut trees: Vec<Vec<Node>>,
    features: u32,
    outputs: u32,
    vector: bool,
    sets: Vec<CategorySet>,
    values: impl Fn(usize) -> f32,
    random: Option<&mut Seeded>,
) -> Forest {
    let leaves = trees.iter().flatten().filter(|n| n.slot().is_some()).count();
    let mut slots: Vec<u32> = (0..leaves as u32).collect();
    if let Some(random) = random {
        for i in (1..slots.len()).rev() {
            slots.swap(i, random.below(i + 1));
        }
    }
    let mut next = slots.into_iter();
    for node in trees.iter_mut().flatten() {
        if let Node::Leaf { slot } = node {
            *slot = next.next().expect("a slot for each leaf");
        }
    }
    let width = if vector { outputs as usize } else { 1 };
    let targets = match vector {
        true => Targets::All,
        false => Targets::One((0..trees.len() as u32).map(|t| t % outputs).collect()),
    };
    let tree = |nodes: Vec<Node>| Tree { ids: (0..nodes.len() as u32).map(|n| 3 * n + 1).collect(), nodes };
    Forest {
        producer: Producer::default(),
        features: vec![Feature::default(); features as usize],
        outputs,
        trees: trees.into_iter().map(tree).collect(),
        targets,
        leaf_values: (0..leaves * width).map(|i| Real::from(values(i))).collect(),
        sets,
        base_score: (0..outputs).map(|o| Real::from(0.25 * o as f32 - 0.5)).collect(),
        aggregate: Aggregate::Sum,
        compare: CompareType::F32,
        scale: Real(1.0),
        transform: Transform::Identity,
        classes: Classes::default(),
        covers: None,
        gains: None,
    }
}
/// A forest in a line: `depth 1, 40 x depth 3, chain 2; features 4; outputs 3`. A tree of `depth n` is full; a
/// `chain n` has one leaf at each depth but two at the last. Thresholds count up, leaves are small and distinct.
pub fn forest_of(text: &str) -> Forest {
    let mut clauses = text.split(';').map(str::trim);
    let mut shapes = Vec::new();
    for item in clauses.next().unwrap_or("").split(',').map(str::trim).filter(|s| !s.is_empty()) {
        let (count, shape) = item.split_once(" x ").unwrap_or(("1", item));
        let (kind, depth) = shape.split_once(' ').unwrap_or_else(|| panic!("`{item}`: depth 2, or chain 2"));
        let depth: u32 = depth.parse().unwrap_or_else(|_| panic!("`{item}`: a depth"));
        let full = match kind {
            "depth" => true,
            "chain" => false,
            _ => panic!("`{item}`: depth or chain"),
        };
        let count: usize = count.parse().unwrap_or_else(|_| panic!("`{item}`: a count"));
        shapes.extend(std::iter::repeat_n((full, depth), count));
    }
    let (mut features, mut outputs, mut vector) = (1, 1, false);
    for clause in clauses {
        match clause.split_once(' ') {
            Some(("features", n)) => features = n.parse().expect("a number of features"),
            Some(("outputs", n)) => outputs = n.parse().expect("a number of outputs"),
            None if clause == "vector" => vector = true,
            _ => panic!("`{clause}`: features, outputs or vector"),
        }
    }
    let mut count = 0u32;
    let mut grow = |(full, depth): (bool, u32)| {
        let mut tree = Growing::new();
        for d in 0..depth {
            let deepest: Vec<usize> = tree.leaves().into_iter().filter(|n| tree.depths[*n] == d).collect();
            let split = if full { &deepest[..] } else { &deepest[deepest.len() - 1..] };
            for leaf in split {
                let threshold = Real::from((count % 13) as f32 - 6.0);
                let missing = if count.is_multiple_of(2) { Side::Left } else { Side::Right };
                tree.split(*leaf, count % features, Predicate::Less { threshold }, missing);
                count += 1;
            }
        }
        tree.nodes
    };
    let trees = shapes.into_iter().map(&mut grow).collect();
    let forest =
        assemble(trees, features, outputs, vector, Vec::new(), |i| (i % 17) as f32 * 0.125 - 1.0, None);
    forest.verify().expect("a forest of a line keeps the rules");
    forest
}
