//! The definition of path-dependent contributions: two exact interpreters in `f64`, written to be read.
//!
//! A tree's value of a set `S` of features is an expectation: a walk that takes the row's side at splits on features of
//! `S`, and both sides, in the ratio of their covers, at every other split. The contribution of a feature is its
//! Shapley value in that game (Lundberg, Erion, Lee: *Consistent Individualized Feature Attribution for Tree
//! Ensembles*, 2018, algorithm 1).

use crate::forest::{Forest, Node, Side, Targets, reference};

use super::ratio;

/// Returns the contributions of one row by the definition: all subsets of each tree's features. The time doubles with
/// each feature of a tree, so it is for tiny trees. The result is `outputs x (features + 1)`, the bias last.
///
/// The forest must have covers.
pub fn by_subsets(forest: &Forest, row: &[impl reference::Input]) -> Vec<f64> {
    by_tree(forest, |t, k, phi| {
        let features = features_of(&forest.trees[t].nodes);
        let walk = Walk { forest, tree: t, value: k, row };
        let count = features.len();
        let chosen = |set: usize| {
            move |feature: u32, all: &[u32]| all.binary_search(&feature).is_ok_and(|bit| set >> bit & 1 == 1)
        };
        let values: Vec<f64> = (0..1usize << count)
            .map(|set| walk.expected(0, &|feature| chosen(set)(feature, &features)))
            .collect();
        for (i, feature) in features.iter().enumerate() {
            for set in (0..1usize << count).filter(|set| set >> i & 1 == 0) {
                let size = set.count_ones() as usize;
                // |S|! (n - |S| - 1)! / n!
                let weight = 1.0 / (count as f64 * binomial(count - 1, size));
                phi[*feature as usize] += weight * (values[set | 1 << i] - values[set]);
            }
        }
        values[0]
    })
}

/// Returns the contributions of one row by TreeSHAP (algorithm 2 of the same paper), in time `leaves x depth^2` a tree.
/// The result is `outputs x (features + 1)`, the bias last.
///
/// The forest must have covers.
pub fn tree_shap(forest: &Forest, row: &[impl reference::Input]) -> Vec<f64> {
    by_tree(forest, |t, k, phi| {
        let walk = Walk { forest, tree: t, value: k, row };
        walk.tree_shap(phi);
        walk.expected(0, &|_| false)
    })
}

/// Returns the interactions of one row by the definition: all subsets of each tree's features. The time doubles with
/// each feature of a tree, so it is for tiny trees. The result is `outputs x (features + 1) x (features + 1)`, the bias
/// last.
///
/// An interaction is half of the Shapley interaction index of two features. The rest of a feature's contribution is on
/// the diagonal (Lundberg, Erion, Lee: *Consistent Individualized Feature Attribution for Tree Ensembles*, 2018,
/// section 4).
///
/// The forest must have covers.
pub fn interactions_by_subsets(forest: &Forest, row: &[impl reference::Input]) -> Vec<f64> {
    let first_order = by_subsets(forest, row);
    interactions_by_tree(forest, first_order, |t, k, phi| {
        let features = features_of(&forest.trees[t].nodes);
        let walk = Walk { forest, tree: t, value: k, row };
        let count = features.len();
        let known =
            |set: usize, feature: u32| features.binary_search(&feature).is_ok_and(|bit| set >> bit & 1 == 1);
        let values: Vec<f64> =
            (0..1usize << count).map(|set| walk.expected(0, &|feature| known(set, feature))).collect();
        add_interactions_of_subsets(&features, &values, phi);
    })
}

/// Returns the interactions of one row. It adds them up leaf by leaf, in time `leaves x depth^4` a tree. The
/// result is `outputs x (features + 1) x (features + 1)`, the bias last.
///
/// The forest must have covers.
pub fn interactions(forest: &Forest, row: &[impl reference::Input]) -> Vec<f64> {
    let first_order = tree_shap(forest, row);
    interactions_by_tree(forest, first_order, |t, k, phi| {
        let walk = Walk { forest, tree: t, value: k, row };
        let mut open = vec![(0, Vec::<Factor>::new())];
        while let Some((n, path)) = open.pop() {
            let Some((feature, children)) = walk.children(n) else {
                for (j, b) in path.iter().enumerate() {
                    for (i, a) in path[..j].iter().enumerate() {
                        let others = path.iter().enumerate().filter(|(k, _)| *k != i && *k != j);
                        let mean = mean_of_subsets(others.map(|(_, factor)| factor));
                        let both = (a.one - a.zero) * (b.one - b.zero);
                        phi(a.feature, b.feature, walk.leaf(n) * mean * both / 2.0);
                    }
                }
                continue;
            };
            for ((child, share), own) in children.into_iter().zip([true, false]) {
                let mut path = path.clone();
                let index = path.iter().position(|factor| factor.feature == feature).unwrap_or_else(|| {
                    path.push(Factor { feature, zero: 1.0, one: 1.0 });
                    path.len() - 1
                });
                path[index].zero *= share;
                path[index].one *= if own { 1.0 } else { 0.0 };
                open.push((child, path));
            }
        }
    })
}

/// Returns the contributions of one row against background rows, computed from the definition. For each background row,
/// it walks each tree once for every subset of the tree's features. A walk takes the row's side at splits on features
/// of the subset, and the background row's side at all other splits. Features of which both rows have the same value
/// contribute nothing and are left out. The time doubles with each other feature of a tree, so use it for tiny trees or
/// similar rows only. The result is `outputs x (features + 1)`, the bias last.
pub fn interventional_by_subsets<T: reference::Input>(
    forest: &Forest,
    row: &[T],
    background: &[&[T]],
) -> Vec<f64> {
    by_tree(forest, |t, k, phi| {
        let share = 1.0 / background.len() as f64;
        let mut mean = 0.0;
        for other in background {
            let (features, values) = values_of_mixed_rows(forest, t, k, row, other);
            let count = features.len();
            mean += share * values[0];
            for (i, feature) in features.iter().enumerate() {
                for set in (0..1usize << count).filter(|set| set >> i & 1 == 0) {
                    let weight = 1.0 / (count as f64 * binomial(count - 1, set.count_ones() as usize));
                    phi[*feature as usize] += share * weight * (values[set | 1 << i] - values[set]);
                }
            }
        }
        mean
    })
}

/// Returns the contributions of one row against background rows. It adds them up leaf by leaf, in time `background rows
/// x leaves x depth^2` a tree. The result is `outputs x (features + 1)`, the bias last.
///
/// If a path has a feature that neither row satisfies, its leaf contributes nothing. Otherwise, with `a` features that
/// only the row satisfies and `b` that only the background row satisfies, each of the former gets `value (a - 1)! b! /
/// (a + b)!`, and each of the latter loses `value a! (b - 1)! / (a + b)!` (Lundberg et al.: *From local explanations to
/// global understanding with explainable AI for trees*, 2020, algorithm 3).
pub fn interventional<T: reference::Input>(forest: &Forest, row: &[T], background: &[&[T]]) -> Vec<f64> {
    by_tree(forest, |t, k, phi| {
        let share = 1.0 / background.len() as f64;
        let mut mean = 0.0;
        for other in background {
            let mut open = vec![(0, Vec::<Satisfied>::new())];
            while let Some((n, path)) = open.pop() {
                let Node::Split { feature, predicate, missing, left, right } =
                    forest.trees[t].nodes[n as usize]
                else {
                    let slot = forest.trees[t].nodes[n as usize].slot();
                    let value = share * slot.map_or(0.0, |slot| forest.leaf(slot)[k].0);
                    mean += add_leaf(value, &path, phi);
                    continue;
                };
                let side = |row: &[T]| reference::side(forest, predicate, missing, row[feature as usize]);
                for (child, of_child) in [(left, Side::Left), (right, Side::Right)] {
                    let mut path = path.clone();
                    let index =
                        path.iter().position(|before| before.feature == feature).unwrap_or_else(|| {
                            path.push(Satisfied { feature, by_row: true, by_background: true });
                            path.len() - 1
                        });
                    path[index].by_row &= side(row) == of_child;
                    path[index].by_background &= side(other) == of_child;
                    open.push((child, path));
                }
            }
        }
        mean
    })
}

/// Returns the interactions of one row against background rows by the definition, with the walks of
/// [`interventional_by_subsets`]. The time doubles with each feature of a tree in which two rows differ, so it is for tiny
/// trees. The result is `outputs x (features + 1) x (features + 1)`, the bias last.
pub fn interventional_interactions_by_subsets<T: reference::Input>(
    forest: &Forest,
    row: &[T],
    background: &[&[T]],
) -> Vec<f64> {
    let first_order = interventional_by_subsets(forest, row, background);
    interactions_by_tree(forest, first_order, |t, k, phi| {
        let share = 1.0 / background.len() as f64;
        for other in background {
            let (features, values) = values_of_mixed_rows(forest, t, k, row, other);
            add_interactions_of_subsets(&features, &values, |a, b, value| phi(a, b, share * value));
        }
    })
}

/// Returns the features of tree `t` in which two rows differ, and for each set of them value `k` of the tree's leaf for
/// the background row with the row's values of these features.
fn values_of_mixed_rows<T: reference::Input>(
    forest: &Forest,
    t: usize,
    k: usize,
    row: &[T],
    other: &[T],
) -> (Vec<u32>, Vec<f64>) {
    let bits = |row: &[T], feature: u32| -> u64 { row[feature as usize].into().to_bits() };
    let differs = |feature: &u32| bits(row, *feature) != bits(other, *feature);
    let features: Vec<u32> = features_of(&forest.trees[t].nodes).into_iter().filter(differs).collect();
    let value = |set: usize| {
        let mut mixed = other.to_vec();
        let known = features.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1);
        known.for_each(|(_, feature)| mixed[*feature as usize] = row[*feature as usize]);
        let leaf = reference::leaf_node(forest, t, &mixed);
        let slot = forest.trees[t].nodes[leaf as usize].slot();
        slot.map_or(0.0, |slot| forest.leaf(slot)[k].0)
    };
    let values = (0..1usize << features.len()).map(value).collect();
    (features, values)
}

/// Passes on half of the Shapley interaction index of each pair of features, given the value of each set of them.
fn add_interactions_of_subsets(features: &[u32], values: &[f64], mut phi: impl FnMut(u32, u32, f64)) {
    let count = features.len();
    for (i, j) in (0..count).flat_map(|j| (0..j).map(move |i| (i, j))) {
        let (of_i, of_j) = (1usize << i, 1usize << j);
        let without = (0..values.len()).filter(|set| set & (of_i | of_j) == 0);
        let sum: f64 = without
            .map(|set| {
                let together = values[set | of_i | of_j] - values[set | of_i] - values[set | of_j];
                // |S|! (n - |S| - 2)! / (n - 1)!
                let size = set.count_ones() as usize;
                (together + values[set]) / ((count - 1) as f64 * binomial(count - 2, size))
            })
            .sum();
        phi(features[i], features[j], sum / 2.0);
    }
}

/// A feature of a path, and whether a row and a background row take the path's sides at all splits on it.
#[derive(Clone, Copy)]
struct Satisfied {
    feature: u32,
    by_row: bool,
    by_background: bool,
}

/// Adds a leaf's part of the contributions of a row against a background row. Returns its part of the bias.
fn add_leaf(value: f64, path: &[Satisfied], phi: &mut [f64]) -> f64 {
    if path.iter().any(|feature| !feature.by_row && !feature.by_background) {
        return 0.0;
    }
    let a = path.iter().filter(|feature| !feature.by_background).count();
    let b = path.iter().filter(|feature| !feature.by_row).count();
    // (a - 1)! b! / (a + b)! and a! (b - 1)! / (a + b)!
    let of_row = value / (a as f64 * binomial(a + b, a));
    let of_background = value / (b as f64 * binomial(a + b, a));
    for feature in path {
        match (feature.by_row, feature.by_background) {
            (true, false) => phi[feature.feature as usize] += of_row,
            (false, true) => phi[feature.feature as usize] -= of_background,
            _ => {}
        }
    }
    if a == 0 { value } else { 0.0 }
}

/// A feature of a path: the fraction of walks that take the path's sides if the feature is not known (`zero`) and if it
/// is (`one`).
#[derive(Clone, Copy)]
struct Factor {
    feature: u32,
    zero: f64,
    one: f64,
}

/// Returns the mean, over all orders of features, of the fraction of walks that reach a leaf. A feature that comes
/// before a given position counts with `one`, every other with `zero`.
fn mean_of_subsets<'a>(factors: impl Iterator<Item = &'a Factor>) -> f64 {
    // `sums[n]` is the sum over all subsets of `n` features.
    let mut sums = vec![1.0];
    for factor in factors {
        sums.push(0.0);
        for size in (0..sums.len()).rev() {
            let grown = if size == 0 { 0.0 } else { sums[size - 1] * factor.one };
            sums[size] = sums[size] * factor.zero + grown;
        }
    }
    let count = sums.len() - 1;
    // |S|! (n - |S|)! / (n + 1)!
    let weight = |size: usize| 1.0 / ((count + 1) as f64 * binomial(count, size));
    sums.iter().enumerate().map(|(size, sum)| sum * weight(size)).sum()
}

/// Adds up the interactions of trees. `contribute` passes on the interaction of each pair of a tree's features, for
/// value `k` of its leaves.
fn interactions_by_tree(
    forest: &Forest,
    first_order: Vec<f64>,
    mut contribute: impl FnMut(usize, usize, &mut dyn FnMut(u32, u32, f64)),
) -> Vec<f64> {
    let width = forest.features.len() + 1;
    let mut all = vec![0.0; width * width * forest.outputs as usize];
    // The diagonal starts with a feature's contribution, from which its interactions are subtracted.
    for (elements, first) in all.chunks_exact_mut(width * width).zip(first_order.chunks_exact(width)) {
        elements.iter_mut().step_by(width + 1).zip(first).for_each(|(element, first)| *element = *first);
    }
    for t in 0..forest.trees.len() {
        for k in 0..forest.leaf_width() {
            let output = output_of(forest, t, k);
            let elements = &mut all[output * width * width..][..width * width];
            contribute(t, k, &mut |a, b, value| {
                let (a, b) = (a as usize, b as usize);
                elements[a * width + b] += value;
                elements[b * width + a] += value;
                elements[a * width + a] -= value;
                elements[b * width + b] -= value;
            });
        }
    }
    all
}

fn output_of(forest: &Forest, tree: usize, value: usize) -> usize {
    match &forest.targets {
        Targets::One(outputs) => outputs[tree] as usize,
        Targets::All => value,
    }
}

/// Returns the features that a tree's splits read, in ascending order.
fn features_of(nodes: &[Node]) -> Vec<u32> {
    let mut features: Vec<u32> = splits(nodes).map(|(feature, _)| feature).collect();
    features.sort_unstable();
    features.dedup();
    features
}

/// Adds up the contributions of trees. `contribute` adds a tree's contributions for value `k` of its leaves, and
/// returns the tree's expected value.
fn by_tree(forest: &Forest, mut contribute: impl FnMut(usize, usize, &mut [f64]) -> f64) -> Vec<f64> {
    let width = forest.features.len() + 1;
    let mut all = vec![0.0; width * forest.outputs as usize];
    for t in 0..forest.trees.len() {
        for k in 0..forest.leaf_width() {
            let output = output_of(forest, t, k);
            let phi = &mut all[output * width..][..width];
            phi[width - 1] += contribute(t, k, phi);
        }
    }
    for (phi, base) in all.chunks_exact_mut(width).zip(&forest.base_score) {
        phi[width - 1] += base.0;
    }
    all
}

fn splits(nodes: &[Node]) -> impl Iterator<Item = (u32, [u32; 2])> + '_ {
    nodes.iter().filter_map(|node| match node {
        Node::Split { feature, left, right, .. } => Some((*feature, [*left, *right])),
        Node::Leaf { .. } => None,
    })
}

fn binomial(n: usize, k: usize) -> f64 {
    (0..k).fold(1.0, |product, i| product * (n - i) as f64 / (i + 1) as f64)
}

/// One row in one tree, for one value of its leaves.
struct Walk<'a, T> {
    forest: &'a Forest,
    tree: usize,
    value: usize,
    row: &'a [T],
}

/// A feature of a path, in TreeSHAP: the fraction of walks that take the path's sides if the feature is not known
/// (`zero`) and if it is (`one`), and the weight of subsets with as many features of the path as come before this
/// entry.
#[derive(Clone, Copy)]
struct Entry {
    feature: u32,
    zero: f64,
    one: f64,
    weight: f64,
}

/// The feature of the entry that stands for no feature.
const NOTHING: u32 = u32::MAX;

impl<T: reference::Input> Walk<'_, T> {
    /// Returns the row's child first, then the other one, each with its share of the cover; `None` for a leaf.
    fn children(&self, n: u32) -> Option<(u32, [(u32, f64); 2])> {
        let Node::Split { feature, predicate, missing, left, right } = self.node(n) else { return None };
        let share = ratio(self.forest, self.tree, left, right);
        let children = [(left, share), (right, 1.0 - share)];
        let side = reference::side(self.forest, predicate, missing, self.row[feature as usize]);
        Some((feature, if side == Side::Left { children } else { [children[1], children[0]] }))
    }

    fn node(&self, n: u32) -> Node {
        self.forest.trees[self.tree].nodes[n as usize]
    }

    fn leaf(&self, n: u32) -> f64 {
        self.node(n).slot().map_or(0.0, |slot| self.forest.leaf(slot)[self.value].0)
    }

    /// Returns the tree's value below node `n` if `known` says which features are known.
    fn expected(&self, n: u32, known: &dyn Fn(u32) -> bool) -> f64 {
        match self.children(n) {
            None => self.leaf(n),
            Some((feature, [(own, _), _])) if known(feature) => self.expected(own, known),
            Some((_, children)) => {
                children.iter().map(|(child, share)| share * self.expected(*child, known)).sum()
            }
        }
    }

    fn tree_shap(&self, phi: &mut [f64]) {
        let root = Entry { feature: NOTHING, zero: 1.0, one: 1.0, weight: 0.0 };
        let mut open = vec![(0, Vec::new(), root)];
        while let Some((n, path, entry)) = open.pop() {
            let mut path = extended(path, entry);
            let Some((feature, [(own, own_share), (other, other_share)])) = self.children(n) else {
                for i in 1..path.len() {
                    let weight: f64 = unwound(&path, i).iter().map(|entry| entry.weight).sum();
                    let Entry { feature, zero, one, .. } = path[i];
                    phi[feature as usize] += weight * (one - zero) * self.leaf(n);
                }
                continue;
            };
            let (mut zero, mut one) = (1.0, 1.0);
            if let Some(before) = path.iter().position(|entry| entry.feature == feature) {
                (zero, one) = (path[before].zero, path[before].one);
                path = unwound(&path, before);
            }
            open.push((own, path.clone(), Entry { feature, zero: zero * own_share, one, weight: 0.0 }));
            open.push((other, path, Entry { feature, zero: zero * other_share, one: 0.0, weight: 0.0 }));
        }
    }
}

/// The paper's EXTEND.
fn extended(mut path: Vec<Entry>, entry: Entry) -> Vec<Entry> {
    let length = path.len();
    path.push(Entry { weight: if length == 0 { 1.0 } else { 0.0 }, ..entry });
    for i in (0..length).rev() {
        path[i + 1].weight += entry.one * path[i].weight * (i + 1) as f64 / (length + 1) as f64;
        path[i].weight *= entry.zero * (length - i) as f64 / (length + 1) as f64;
    }
    path
}

/// The paper's UNWIND.
fn unwound(path: &[Entry], i: usize) -> Vec<Entry> {
    let length = path.len();
    let mut shorter = path.to_vec();
    let Entry { zero, one, .. } = path[i];
    let mut next = path[length - 1].weight;
    for j in (0..length - 1).rev() {
        if one != 0.0 {
            let before = shorter[j].weight;
            shorter[j].weight = next * length as f64 / ((j + 1) as f64 * one);
            next = before - shorter[j].weight * zero * (length - 1 - j) as f64 / length as f64;
        } else if zero != 0.0 {
            shorter[j].weight = shorter[j].weight * length as f64 / (zero * (length - 1 - j) as f64);
        } else {
            shorter[j].weight = 0.0;
        }
    }
    for j in i..length - 1 {
        (shorter[j].feature, shorter[j].zero, shorter[j].one) =
            (path[j + 1].feature, path[j + 1].zero, path[j + 1].one);
    }
    shorter.pop();
    shorter
}
