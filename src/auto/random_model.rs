//! Random models, to time ways to evaluate a forest on.

use crate::{
    check::Random,
    error::{Error, Result},
    forest::{CategoryRule, Forest, Predicate, Real, Side, TreeBuilder},
};

/// Different thresholds of a column: XGBoost's histograms have 256 bins.
const THRESHOLDS: usize = 254;
/// The greatest model. Its trees have about 5000 nodes each.
const MOST_TREES: usize = 1 << 14;
const MOST_COLUMNS: usize = 1 << 16;
const MOST_OUTPUTS: usize = 1 << 10;
const MOST_DEPTH: usize = 16;
const MOST_SETS: usize = 1 << 10;
/// The least depth of a leaf.
const LEAST_DEPTH: u32 = 2;
/// A node between the least depth and the deepest one is a leaf once in so many times.
const LEAF_ONCE_IN: usize = 5;

/// The shape of a model of random trees, as in SilvanForge's section 10.
///
/// Leaves lie at depths from 2 to `deepest`. Thresholds and columns are drawn with a seed, so a shape is always the same
/// model.
///
/// ```
/// use fangorn::auto::RandomModel;
///
/// let forest = RandomModel { trees: 10, columns: 8, outputs: 1, deepest: 6, sets: 4 }.forest()?;
/// assert_eq!((forest.trees.len(), forest.features.len(), forest.sets.len()), (10, 8, 4));
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RandomModel {
    /// Number of trees.
    pub trees: usize,
    /// Number of columns of a row.
    pub columns: u32,
    /// Number of outputs, which take turns with the trees.
    pub outputs: u32,
    /// The depth of the deepest leaves.
    pub deepest: u32,
    /// Sets of categories that every fourth column asks for; 0 for a model without categories.
    pub sets: u32,
}

impl RandomModel {
    /// Draws the model.
    ///
    /// # Errors
    /// There are no columns or no outputs, or the model is larger than any that costs are fitted to.
    pub fn forest(&self) -> Result<Forest> {
        let most = [
            ("trees", self.trees, MOST_TREES),
            ("columns", self.columns as usize, MOST_COLUMNS),
            ("outputs", self.outputs as usize, MOST_OUTPUTS),
            ("levels", self.deepest as usize, MOST_DEPTH),
            ("sets", self.sets as usize, MOST_SETS),
        ];
        if let Some((what, count, most)) = most.into_iter().find(|(_, count, most)| count > most) {
            return Err(Error::RandomModel(format!("{count} {what}; draw at most {most}")));
        }
        let mut random = Random(7);
        let mut builder = Forest::builder(self.columns as usize, self.outputs);
        let sets: Vec<u32> =
            (0..self.sets).map(|k| builder.set([k, k + 3], CategoryRule::NotNegative)).collect();
        for tree in 0..self.trees {
            let output = (tree % self.outputs.max(1) as usize) as u32;
            self.add_tree(builder.tree(output), &sets, &mut random);
        }
        Ok(builder.build()?)
    }

    fn add_tree(&self, mut tree: TreeBuilder<'_>, sets: &[u32], random: &mut Random) {
        // The depths of the nodes, which come level by level.
        let (mut depths, mut done) = (vec![0], 0);
        while let Some(depth) = depths.get(done).copied() {
            let node = done as u32;
            done += 1;
            let ends = depth >= LEAST_DEPTH && random.below(LEAF_ONCE_IN) == 0;
            if depth >= self.deepest || ends {
                tree.leaf(node, &[f64::from(random.fraction())]);
                continue;
            }
            let left = depths.len() as u32;
            depths.extend([depth + 1; 2]);
            let column = random.below(self.columns as usize) as u32;
            let threshold = (1 + random.below(THRESHOLDS)) as f32 / (THRESHOLDS + 1) as f32;
            let predicate = match sets.len() {
                count if count > 0 && column % 4 == 3 => {
                    Predicate::InSet { set: sets[random.below(count)], inside: Side::Left }
                }
                _ => Predicate::Less { threshold: Real(threshold.into()) },
            };
            tree.split(column, predicate, Side::Left, left, left + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_lie_between_the_least_and_the_greatest_depth() {
        let model = RandomModel { trees: 50, columns: 8, outputs: 2, deepest: 7, sets: 3 };
        let (forest, stats) = (model.forest().expect("a model"), model.forest().expect("a model").stats());
        let depths: Vec<usize> = (0..stats.leaf_depths.len()).filter(|d| stats.leaf_depths[*d] > 0).collect();
        assert_eq!(depths, [2, 3, 4, 5, 6, 7]);
        assert_eq!(forest, model.forest().expect("the same model"));
        let asks = |node: &crate::forest::Node| {
            use crate::forest::Node;
            matches!(*node, Node::Split { feature, predicate: Predicate::InSet { .. }, .. } if feature % 4 == 3)
        };
        let asking = forest.trees.iter().flat_map(|tree| &tree.nodes).filter(|node| asks(node)).count();
        let splits = stats.leaves - stats.trees;
        assert!((splits / 6..splits / 3).contains(&asking), "{asking} of {splits}");
    }

    #[test]
    fn models_that_are_none_or_too_large_are_refused() {
        let model = RandomModel { trees: 1, columns: 4, outputs: 1, deepest: 3, sets: 1 };
        for (large, what) in [
            (RandomModel { trees: usize::MAX, ..model }, "trees"),
            (RandomModel { columns: u32::MAX, ..model }, "columns"),
            (RandomModel { outputs: u32::MAX, ..model }, "outputs"),
            (RandomModel { deepest: 60, ..model }, "levels"),
            (RandomModel { sets: u32::MAX, ..model }, "sets"),
        ] {
            assert!(large.forest().expect_err(what).to_string().contains(what));
        }
        assert!(RandomModel { trees: 1, columns: 1, outputs: 0, deepest: 3, sets: 0 }.forest().is_err());
        assert!(RandomModel { trees: 1, columns: 0, outputs: 1, deepest: 3, sets: 0 }.forest().is_err());
        assert!(RandomModel { trees: 1, columns: 1, outputs: 1, deepest: 0, sets: 0 }.forest().is_ok());
    }
}
