//! Facts about the votes of the leaves that rows can reach.

use super::super::{ErrorKind, ImportError};
use super::ensemble::{Ensemble, Mode};
use super::reached::ReachedTrees;

impl ReachedTrees<'_> {
    /// Returns the only output that all of a tree's leaves vote for, if each leaf has exactly one vote and
    /// all are for the same output.
    pub(super) fn target(&self, tree: usize) -> Option<u32> {
        let mut targets = self.leaves(tree).map(|n| match self.ensemble().votes(n) {
            [(output, _)] => Some(*output),
            _ => None,
        });
        let first = targets.next()??;
        targets.all(|t| t == Some(first)).then_some(first)
    }

    /// Returns whether each leaf has two votes, for two outputs, and one weight is the negative of the other.
    pub(super) fn votes_are_opposite(&self) -> bool {
        let votes_are_opposite = |n| match self.ensemble().votes(n) {
            [(a, v), (b, w)] => a != b && *v == -*w,
            _ => false,
        };
        self.trees() > 0 && (0..self.trees()).all(|tree| self.leaves(tree).all(votes_are_opposite))
    }

    /// Returns, for each output, whether every row reaches a leaf that votes for it. That is so if all leaves
    /// of some tree vote for it.
    pub(super) fn always_voted(&self) -> Vec<bool> {
        let mut always_voted = vec![false; self.ensemble().outputs];
        let mut counts = vec![0usize; always_voted.len()];
        let mut touched = Vec::new();
        for tree in 0..self.trees() {
            let mut leaves = 0;
            for n in self.leaves(tree) {
                leaves += 1;
                for (output, _) in self.ensemble().votes(n) {
                    counts[*output as usize] += 1;
                    touched.push(*output as usize);
                }
            }
            for output in touched.drain(..) {
                // This tree's further votes for the output find a count of 0, so the output is counted once.
                always_voted[output] |= counts[output] == leaves;
                counts[output] = 0;
            }
        }
        always_voted
    }

    /// Returns whether no weight is negative and each row gets a positive weight for some output, because all
    /// leaves of some tree have one.
    pub(super) fn always_positive(&self) -> bool {
        let positive = |n| self.ensemble().votes(n).iter().any(|(_, w)| *w > 0.0);
        self.ensemble().votes.iter().all(|(_, w)| *w >= 0.0)
            && (0..self.trees()).any(|tree| self.leaves(tree).all(positive))
    }
}

/// Checks that no leaf has two votes for one output, and that with a single output each leaf has a vote.
pub(super) fn check(ensemble: &Ensemble) -> Result<(), ImportError> {
    let mut last = vec![u32::MAX; ensemble.outputs];
    for (n, node) in (0u32..).zip(&ensemble.nodes) {
        if node.mode != Mode::Leaf {
            continue;
        }
        let votes = ensemble.votes(n);
        for (output, _) in votes {
            let Some(last) = last.get_mut(*output as usize) else { continue };
            if std::mem::replace(last, n) == n {
                let cause = format!("the leaf has two weights for output {output}");
                return Err(ensemble
                    .at(ErrorKind::Unsupported, "nodes_nodeids", n, cause)
                    .with_remedy("write the sum of the weights as one"));
            }
        }
        if votes.is_empty() && ensemble.outputs == 1 {
            let cause = "a leaf without a weight";
            return Err(ensemble.at(ErrorKind::Structure, "nodes_nodeids", n, cause));
        }
    }
    Ok(())
}
