//! The data that interactions need besides a program: for each split, the features above it on its path.
//!
//! The interaction of two features is the integral of `value x path x g_a x g_b` over a leaf's points, where `g` is
//! `(one - zero) / factor` (see `program`). A split adds `change` to the `g` of its own feature, so for each other
//! feature above it, it adds the integral of `path x change x g x (below left - below right)` to their interaction.
//! `g` has one of two values at a point `t`: `(1 - zero) / (t + (1 - t) zero)` if the row takes the path's sides at all
//! of the feature's splits, and `-1 / (1 - t)` if not. The second value does not depend on the feature, so its
//! integral is computed once for a split.

use std::collections::HashMap;

use super::program::{Group, MOST_POINTS, Opcode, OutputProgram, Program, TreeProgram};
use crate::error::{Error, Result};

/// The maximum number of numbers that are stored for a model's interactions, besides its program.
const MOST_NUMBERS: usize = 1 << 28;

/// The data for interactions of a forest's program, output by output.
#[derive(Debug)]
pub(crate) struct Pairs {
    pub(crate) outputs: Vec<OutputPairs>,
    /// The greatest number of pairs of a group.
    pub(crate) most_pairs: usize,
}

/// The pairs of features that lie on one path of some tree of an output.
#[derive(Debug)]
pub(crate) struct OutputPairs {
    /// Each pair once, as two indices into [`OutputProgram::columns`].
    pub(crate) pairs: Vec<[u32; 2]>,
    /// The pairs of each of [`OutputProgram::groups`].
    pub(crate) groups: Vec<GroupPairs>,
}

/// The pairs of a group of trees.
#[derive(Debug)]
pub(crate) struct GroupPairs {
    pub(crate) trees: Vec<TreePairs>,
    /// The index of each of the group's pairs in [`OutputPairs::pairs`].
    pub(crate) indices: Vec<u32>,
}

/// The pairs of a tree.
#[derive(Debug)]
pub(crate) struct TreePairs {
    /// The features above each split. Splits come in the order in which they end.
    pub(crate) ancestors: Vec<Ancestor>,
    /// For each split, the index in `ancestors` after its last feature.
    pub(crate) ends: Vec<u32>,
    /// For each pass, a number for each point and edge: `g` for rows that took the path's sides at all splits on the
    /// edge's feature.
    pub(crate) edge_terms: Vec<Vec<f32>>,
}

/// A feature on the path to a split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ancestor {
    /// The level of the feature's nearest split above: its index on the stack of paths.
    pub(crate) level: u32,
    /// The edge that leads from that split towards this one.
    pub(crate) edge: u32,
    /// The pair, as an index into [`GroupPairs::indices`].
    pub(crate) pair: u32,
}

impl Pairs {
    /// Prepares the interactions of a program.
    ///
    /// # Errors
    /// The forest's paths have so many features that their pairs take more than [`MOST_NUMBERS`] numbers.
    pub(crate) fn new(program: &Program) -> Result<Self> {
        let mut budget = MOST_NUMBERS;
        let outputs = program.outputs.iter().map(|output| output_pairs(output, &mut budget));
        let outputs = outputs.collect::<Option<Vec<_>>>().ok_or_else(|| {
            Error::Contributions(format!(
                "interactions of this model take more than {MOST_NUMBERS} numbers, because its paths have too many features; {}",
                "explain it by contributions, or train it with a lower limit of depth"
            ))
        })?;
        let pairs = outputs.iter().flat_map(|output| &output.groups).map(|group| group.indices.len());
        let most_pairs = pairs.max().unwrap_or(0);
        Ok(Self { outputs, most_pairs })
    }
}

/// Returns the pairs of an output, or `None` if they need more than `budget` numbers.
fn output_pairs(output: &OutputProgram, budget: &mut usize) -> Option<OutputPairs> {
    let mut all = HashMap::new();
    let mut pairs = Vec::new();
    let mut groups = Vec::with_capacity(output.groups.len());
    for group in &output.groups {
        let mut of_group = HashMap::new();
        let mut indices = Vec::new();
        let mut trees = Vec::with_capacity(group.trees.len());
        for tree in &group.trees {
            trees.push(tree_pairs(tree, budget, |a, b| {
                *of_group.entry([a.min(b), a.max(b)]).or_insert_with(|| {
                    let pair = columns_of(group, a, b);
                    indices.push(*all.entry(pair).or_insert_with(|| {
                        pairs.push(pair);
                        pairs.len() as u32 - 1
                    }));
                    indices.len() as u32 - 1
                })
            })?);
        }
        groups.push(GroupPairs { trees, indices });
    }
    Some(OutputPairs { pairs, groups })
}

fn columns_of(group: &Group, a: u32, b: u32) -> [u32; 2] {
    let (a, b) = (group.features[a as usize], group.features[b as usize]);
    [a.min(b), a.max(b)]
}

/// A feature of the path above the current instruction.
#[derive(Clone, Copy)]
struct Edge {
    feature: u32,
    number: u32,
    zero: f64,
    /// Whether no later split of the path has the same feature.
    is_last: bool,
    /// The level of the feature's split before this one on the path. When this edge ends, that split is the feature's
    /// last one again.
    previous: Option<usize>,
}

fn tree_pairs(
    tree: &TreeProgram,
    budget: &mut usize,
    mut pair: impl FnMut(u32, u32) -> u32,
) -> Option<TreePairs> {
    let mut path: Vec<Edge> = Vec::new();
    // The level of each feature's last split on the path.
    let mut levels: HashMap<u32, usize> = HashMap::new();
    let mut zeros = Vec::new();
    let (mut ancestors, mut ends) = (Vec::new(), Vec::new());
    let points: usize = tree.passes.iter().map(|pass| pass.at.len()).sum();
    for instruction in &tree.instructions {
        match instruction.opcode {
            Opcode::Left | Opcode::Right => {
                let share = f64::from(instruction.share);
                let share = if instruction.opcode == Opcode::Left { share } else { 1.0 - share };
                let previous = levels.insert(instruction.feature, path.len());
                let zero = share * previous.map_or(1.0, |level| path[level].zero);
                if let Some(level) = previous {
                    path[level].is_last = false;
                }
                let number = zeros.len() as u32;
                path.push(Edge { feature: instruction.feature, number, zero, is_last: true, previous });
                zeros.push(zero);
                *budget = budget.checked_sub(points)?;
            }
            Opcode::Back => {
                let Some(edge) = path.pop() else { continue };
                match edge.previous {
                    Some(level) => {
                        path[level].is_last = true;
                        levels.insert(edge.feature, level);
                    }
                    None => drop(levels.remove(&edge.feature)),
                }
            }
            Opcode::Leaves | Opcode::RightLeaf | Opcode::LeftLeaf | Opcode::Join => {
                // The loop below stores at most one `Ancestor`, three numbers, for each level of the path.
                *budget = budget.checked_sub(3 * path.len())?;
                for (level, edge) in path.iter().enumerate() {
                    if edge.is_last && edge.feature != instruction.feature {
                        let pair = pair(edge.feature, instruction.feature);
                        ancestors.push(Ancestor { level: level as u32, edge: edge.number, pair });
                    }
                }
                ends.push(ancestors.len() as u32);
            }
        }
    }
    let edge_terms = tree.passes.iter().map(|pass| {
        debug_assert!(pass.at.len() <= MOST_POINTS);
        let term = |zero: f64, t: f64| ((1.0 - zero) / (t + (1.0 - t) * zero)) as f32;
        zeros.iter().flat_map(|zero| pass.at.iter().map(move |at| term(*zero, f64::from(*at)))).collect()
    });
    Some(TreePairs { ancestors, ends, edge_terms: edge_terms.collect() })
}
