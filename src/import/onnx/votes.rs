//! What the leaves of the classic operators add to outputs.

use super::super::{ErrorKind, ImportError};
use super::attributes::{Attributes, Numbers};
use super::ensemble::{Mode, Node, check_finite, check_length};
use super::error::at;
use super::trees::{Run, Trees};

/// The votes of all leaves, in the file's order.
pub(super) struct Votes {
    prefix: &'static str,
    tree_ids: Vec<i64>,
    node_ids: Vec<i64>,
    pub(super) outputs: Vec<u32>,
    pub(super) weights: Numbers,
}

impl Votes {
    pub(super) fn read(
        attributes: &mut Attributes,
        prefix: &'static str,
        outputs: usize,
    ) -> Result<Self, ImportError> {
        let tree_ids = attributes.ints(&format!("{prefix}_treeids"));
        let node_ids = attributes.ints(&format!("{prefix}_nodeids"));
        let ids = attributes.ints(&format!("{prefix}_ids"));
        let weights = attributes.floats_or_tensor(&format!("{prefix}_weights"))?;
        let count = tree_ids.len();
        let lengths = [
            (format!("{prefix}_nodeids"), node_ids.len()),
            (format!("{prefix}_ids"), ids.len()),
            (weights.name.clone(), weights.values.len()),
        ];
        for (name, length) in lengths {
            check_length(attributes.path(&name), length, count, "votes")?;
        }
        check_finite(attributes, &weights)?;
        let output = |(i, id): (usize, i64)| {
            u32::try_from(id).ok().filter(|id| (*id as usize) < outputs).ok_or_else(|| {
                let path = format!("{}[{i}]", attributes.path(&format!("{prefix}_ids")));
                at(ErrorKind::Value, path, format!("output {id} of {outputs}"))
            })
        };
        let outputs = ids.into_iter().enumerate().map(output).collect::<Result<_, _>>()?;
        Ok(Self { prefix, tree_ids, node_ids, outputs, weights })
    }

    /// Sorts the votes by leaf. Returns them as `(output, weight)`, and where each node's votes begin. Drops
    /// votes of nodes that are not leaves, which older converters wrote.
    #[allow(clippy::type_complexity)]
    pub(super) fn by_leaf(
        self,
        attributes: &Attributes,
        trees: &Trees,
        nodes: &[Node],
    ) -> Result<(Vec<(u32, f64)>, Vec<u32>), ImportError> {
        let count = self.tree_ids.len();
        if u32::try_from(count).is_err() {
            let path = attributes.path(&format!("{}_ids", self.prefix));
            return Err(at(ErrorKind::Value, path, format!("{count} votes, at most 2^32 - 1 are supported")));
        }
        let mut leaves = Vec::with_capacity(count);
        let mut starts = vec![0u32; nodes.len() + 1];
        let mut last: Option<(i64, &Run)> = None;
        for (i, (tree, node)) in self.tree_ids.iter().zip(&self.node_ids).enumerate() {
            let run = match last {
                Some((id, run)) if id == *tree => Some(run),
                _ => trees.by_id.get(tree).and_then(|t| trees.runs.get(*t as usize)),
            };
            let leaf = run.and_then(|run| trees.find(run, *node));
            let Some((run, leaf)) = run.zip(leaf) else {
                let path = format!("{}[{i}]", attributes.path(&format!("{}_nodeids", self.prefix)));
                return Err(at(
                    ErrorKind::Structure,
                    path,
                    format!("there is no node {node} in tree {tree}"),
                ));
            };
            last = Some((*tree, run));
            let is_leaf = nodes[leaf as usize].mode == Mode::Leaf;
            leaves.push(if is_leaf { leaf } else { u32::MAX });
            starts[leaf as usize + 1] += u32::from(is_leaf);
        }
        for n in 0..nodes.len() {
            starts[n + 1] += starts[n];
        }
        let mut votes = vec![(0, 0.0); starts[nodes.len()] as usize];
        let mut next = starts.clone();
        for ((leaf, output), weight) in leaves.iter().zip(&self.outputs).zip(&self.weights.values) {
            if *leaf != u32::MAX {
                let index = &mut next[*leaf as usize];
                votes[*index as usize] = (*output, *weight);
                *index += 1;
            }
        }
        Ok((votes, starts))
    }
}
