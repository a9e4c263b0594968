//! What the leaves that rows can reach say of outputs.

use super::super::{ErrorKind, ImportError};
use super::ensemble::{Ensemble, Mode};
use super::walk::Walk;

impl Walk<'_> {
    /// The output that a tree's leaves all speak for, and for no other.
    pub(super) fn target(&self, tree: usize) -> Option<u32> {
        let mut targets = self.leaves(tree).map(|n| match self.ensemble().votes(n) {
            [(output, _)] => Some(*output),
            _ => None,
        });
        let first = targets.next()??;
        targets.all(|t| t == Some(first)).then_some(first)
    }

    /// Whether each leaf says the opposite of the one class of the other one.
    pub(super) fn opposite(&self) -> bool {
        let opposite = |n| match self.ensemble().votes(n) {
            [(a, v), (b, w)] => a != b && *v == -*w,
            _ => false,
        };
        self.trees() > 0 && (0..self.trees()).all(|tree| self.leaves(tree).all(opposite))
    }

    /// For each output, whether every row reaches a leaf that speaks for it.
    pub(super) fn told(&self) -> Vec<bool> {
        let mut told = vec![false; self.ensemble().outputs];
        let mut counts = vec![0usize; told.len()];
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
                // Counted once: the rest of this tree's votes find nothing left.
                told[output] |= counts[output] == leaves;
                counts[output] = 0;
            }
        }
        told
    }

    /// Whether no score is below zero, and each row's largest is above it.
    pub(super) fn always_positive(&self) -> bool {
        let positive = |n| self.ensemble().votes(n).iter().any(|(_, w)| *w > 0.0);
        self.ensemble().votes.iter().all(|(_, w)| *w >= 0.0)
            && (0..self.trees()).any(|tree| self.leaves(tree).all(positive))
    }
}

/// Checks that no leaf has two votes for an output, nor none where that is no zero.
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
