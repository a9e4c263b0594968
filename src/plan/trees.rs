//! Arranges trees before they are laid out: it tiles, orders and pads them.

use super::Note;
use crate::{
    forest::{
        Forest,
        passes::{self, Depths},
        tiling::{self, Tiling},
    },
    schedule::{Directive, LIKELY_PERCENT, Schedule, ScheduleError, Tiler, TreeOrder},
};

/// The trees as a schedule arranges them.
pub(super) struct Trees {
    /// The producer's index of the tree at each position.
    pub(super) order: Vec<u32>,
    /// The maximum number of nodes of a tile, and each tree's tiling by the producer's index, if there are
    /// tiles of more than one node.
    pub(super) tiles: Option<(u32, Vec<Tiling>)>,
    /// Depths of each tree by position, counted in tiles if there are tiles.
    pub(super) depths: Vec<Depths>,
    /// Whether `pad` gives a tree all its leaves at one depth, by position.
    pub(super) padded: Vec<bool>,
    /// The number of a profile's rows that have reached a leaf by each depth, for each tree by position. It
    /// is empty without a profile.
    come: Vec<Vec<u128>>,
}

/// A tree's leaves: the depth and the leaf slot of each.
type Leaves = Vec<(u32, u32)>;

impl Trees {
    /// Arranges the trees. `visits` are those of a profile, by leaf slot.
    pub(super) fn new(
        forest: &Forest,
        schedule: &Schedule,
        visits: Option<&[u64]>,
        notes: &mut Vec<Note>,
    ) -> Result<Self, ScheduleError> {
        let tiles = match schedule.tiles() {
            None => None,
            Some((nodes, by)) => Some((nodes, tilings(forest, schedule, nodes, by, visits, notes)?)),
        };
        let leaves = |t: usize| -> Leaves {
            let tree = &forest.trees[t];
            match &tiles {
                Some((_, tilings)) => tilings[t].leaf_depths(tree).collect(),
                None => {
                    let depths = tree.depths();
                    tree.nodes.iter().zip(depths).filter_map(|(n, depth)| Some((depth, n.slot()?))).collect()
                }
            }
        };
        let (mut depths, mut come, mut padded) = (Vec::new(), Vec::new(), Vec::new());
        for (t, tree) in forest.trees.iter().enumerate() {
            let leaves = leaves(t);
            let own = Depths::of_leaves(leaves.iter().map(|(depth, _)| *depth));
            if let Some(visits) = visits {
                come.push(arrivals(&leaves, visits));
            }
            let (added, there) = match &tiles {
                // Pushing a leaf down by one step adds one tile.
                Some((_, tilings)) => (
                    leaves.iter().map(|(depth, _)| u64::from(own.deepest - depth)).sum(),
                    tilings[t].len() as u64,
                ),
                None => (passes::padding(tree, own.deepest), tree.nodes.len() as u64),
            };
            padded.push(schedule.padding().is_some_and(|p| added <= there * u64::from(p) / 100));
            depths.push(own);
        }
        let order = match schedule.tree_order() {
            Some(TreeOrder::Depth) => passes::by_depth(&depths),
            Some(TreeOrder::FirstLeaf) => passes::by_first_leaf(&depths),
            Some(TreeOrder::Structure) => passes::by_structure(forest, &depths),
            Some(TreeOrder::LikelyLeaf) if visits.is_none() => {
                let sorts = |d: &Directive| matches!(d, Directive::Sort { .. });
                return Err(schedule.last_of(sorts, wants_profile()));
            }
            Some(TreeOrder::LikelyLeaf) => {
                let likely: Vec<u32> = come.iter().map(|come| likely_depth(come, LIKELY_PERCENT)).collect();
                passes::by_likely_leaf(&likely, &depths)
            }
            None => (0..forest.trees.len() as u32).collect(),
        };
        fn at<T: Clone>(order: &[u32], of: &[T]) -> Vec<T> {
            order.iter().map(|t| of[*t as usize].clone()).collect()
        }
        let come = if visits.is_some() { at(&order, &come) } else { Vec::new() };
        Ok(Self { depths: at(&order, &depths), padded: at(&order, &padded), come, order, tiles })
    }

    /// Returns the maximum number of nodes of a tile.
    pub(super) fn tile(&self) -> u32 {
        self.tiles.as_ref().map_or(1, |(nodes, _)| *nodes)
    }

    /// Returns the depths of the trees at these positions together. A padded tree has every leaf at its
    /// depth.
    pub(super) fn depths(&self, positions: &[u32]) -> Depths {
        let of = |k: &u32| match (self.depths[*k as usize], self.padded[*k as usize]) {
            (Depths { deepest, .. }, true) => Depths { deepest, first_leaf: deepest },
            (depths, false) => depths,
        };
        let all = || positions.iter().map(of);
        Depths {
            deepest: all().map(|d| d.deepest).max().unwrap_or(0),
            first_leaf: all().map(|d| d.first_leaf).min().unwrap_or(0),
        }
    }

    /// Returns the depth at which `percent` of a profile's rows have reached a leaf in each of the trees at
    /// these positions. It is 0 without a profile.
    pub(super) fn likely(&self, positions: &[u32], percent: u32) -> u32 {
        let of = |k: &u32| match (self.come.get(*k as usize), self.padded[*k as usize]) {
            (Some(_), true) => self.depths[*k as usize].deepest,
            (Some(come), false) => likely_depth(come, percent),
            (None, _) => 0,
        };
        positions.iter().map(of).max().unwrap_or(0)
    }
}

/// Returns the message for a directive that needs a profile if there is none.
pub(super) fn wants_profile() -> String {
    "it depends on how many rows reach each leaf; count them with fangorn profile MODEL --rows ROWS -o PROFILE and give \
     --profile PROFILE, in Rust a Profile to Predictor::builder, ForestOp::builder or \
     ForestModuleConfig::with_profile"
        .to_owned()
}

fn tilings(
    forest: &Forest,
    schedule: &Schedule,
    nodes: u32,
    by: Tiler,
    visits: Option<&[u64]>,
    notes: &mut Vec<Note>,
) -> Result<Vec<Tiling>, ScheduleError> {
    let trees = forest.trees.iter();
    let uniform = |tree| Tiling::uniform(tree, nodes);
    let visits = match (by, visits) {
        (Tiler::Uniform, _) => return Ok(trees.map(uniform).collect()),
        (_, Some(visits)) => visits,
        (Tiler::Probability, None) => {
            let tiles = |d: &Directive| matches!(d, Directive::TileNodes { .. });
            return Err(schedule.last_of(tiles, wants_profile()));
        }
        (Tiler::Hybrid, None) => {
            let instead = "no profile says which leaves rows come to, so no tree is known to be biased; all tiles are uniform";
            notes.push(Note { directive: format!("tileNodes({nodes}, hybrid)"), fallback: instead.into() });
            return Ok(trees.map(uniform).collect());
        }
    };
    let tiled = |tree| match by == Tiler::Probability || tiling::is_leaf_biased(tree, visits) {
        true => Tiling::by_probability(tree, nodes, &tiling::weights(tree, visits)),
        false => Tiling::uniform(tree, nodes),
    };
    Ok(trees.map(tiled).collect())
}

/// Returns the number of rows that have reached a leaf by each depth.
fn arrivals(leaves: &Leaves, visits: &[u64]) -> Vec<u128> {
    let mut come = Vec::new();
    for (depth, slot) in leaves {
        if come.len() <= *depth as usize {
            come.resize(*depth as usize + 1, 0);
        }
        come[*depth as usize] += u128::from(visits[*slot as usize]);
    }
    for depth in 1..come.len() {
        come[depth] += come[depth - 1];
    }
    come
}

/// Returns the smallest depth by which `percent` of the rows have reached a leaf.
fn likely_depth(come: &[u128], percent: u32) -> u32 {
    let all = come.last().copied().unwrap_or(0);
    come.iter().position(|n| n * 100 >= all * u128::from(percent)).unwrap_or(0) as u32
}
