//! The trees of the classic operators. Finds a node by its tree's id and its own id.

use std::collections::HashMap;

use super::super::budget::Budget;
use super::super::{ErrorKind, ImportError, Location};
use super::attributes::Attributes;
use super::ensemble::{check_count, check_length};
use super::error::at;

/// The nodes of one tree, `begin..end`. The first is the root.
pub(super) struct Run {
    pub(super) begin: u32,
    pub(super) end: u32,
    finder: Finder,
}

/// How a node of a tree is found by its id.
enum Finder {
    /// In a table: id `lowest` is entry `begin` of [`Trees::table`], and the table has `length` entries.
    Dense { lowest: i64, begin: usize, length: usize },
    /// By binary search in this range of [`Trees::sorted`].
    Sorted { begin: usize, end: usize },
}

pub(super) struct Trees {
    pub(super) node_ids: Vec<i64>,
    pub(super) runs: Vec<Run>,
    pub(super) by_id: HashMap<i64, u32>,
    /// Node indices by id, for all dense trees; `u32::MAX` if no node has the id.
    table: Vec<u32>,
    sorted: Vec<(i64, u32)>,
}

impl Trees {
    pub(super) fn read(attributes: &mut Attributes, budget: &mut Budget<'_>) -> Result<Self, ImportError> {
        let tree_ids = attributes.ints("nodes_treeids");
        let node_ids = attributes.ints("nodes_nodeids");
        let count = tree_ids.len();
        check_length(attributes.path("nodes_nodeids"), node_ids.len(), count, "nodes")?;
        budget.nodes(count, || Location::Field(attributes.path("nodes_treeids")))?;
        check_count(attributes.path("nodes_treeids"), count)?;
        let mut trees =
            Self { node_ids, runs: Vec::new(), by_id: HashMap::new(), table: Vec::new(), sorted: Vec::new() };
        let mut begin = 0;
        for same in tree_ids.chunk_by(|a, b| a == b) {
            if trees.by_id.insert(same[0], trees.runs.len() as u32).is_some() {
                let path = format!("{}[{begin}]", attributes.path("nodes_treeids"));
                let cause = format!("the nodes of tree {} do not stand together", same[0]);
                return Err(at(ErrorKind::Unsupported, path, cause).with_remedy(
                    "write the nodes of a tree one after the other, its root first, as ONNX Runtime reads them",
                ));
            }
            trees.push(begin, begin + same.len(), attributes)?;
            begin += same.len();
        }
        budget.trees(trees.runs.len(), || Location::Field(attributes.path("nodes_treeids")))?;
        Ok(trees)
    }

    /// Adds the tree of the nodes from `begin` to `end`.
    fn push(&mut self, begin: usize, end: usize, attributes: &Attributes) -> Result<(), ImportError> {
        let ids = &self.node_ids[begin..end];
        let (lowest, highest) =
            ids.iter().fold((i64::MAX, i64::MIN), |(low, high), id| (low.min(*id), high.max(*id)));
        let twice = |n: u32| {
            let path = format!("{}[{n}]", attributes.path("nodes_nodeids"));
            at(ErrorKind::Structure, path, "a node of this number is in the tree already")
        };
        // If more than half of the ids are gaps, a table would outgrow the file.
        let length = highest.checked_sub(lowest).and_then(|d| usize::try_from(d).ok()?.checked_add(1));
        let finder = match length.filter(|length| *length <= 2 * ids.len() + 16) {
            Some(length) => {
                let start = self.table.len();
                self.table.resize(start + length, u32::MAX);
                for (n, id) in (begin as u32..).zip(ids) {
                    let entry = &mut self.table[start + (id - lowest) as usize];
                    if *entry != u32::MAX {
                        return Err(twice(n));
                    }
                    *entry = n;
                }
                Finder::Dense { lowest, begin: start, length }
            }
            None => {
                let start = self.sorted.len();
                self.sorted.extend(ids.iter().copied().zip(begin as u32..));
                self.sorted[start..].sort_unstable();
                if let Some(pair) = self.sorted[start..].windows(2).find(|pair| pair[0].0 == pair[1].0) {
                    return Err(twice(pair[1].1));
                }
                Finder::Sorted { begin: start, end: self.sorted.len() }
            }
        };
        self.runs.push(Run { begin: begin as u32, end: end as u32, finder });
        Ok(())
    }

    /// Returns the index of the node with this id in a tree.
    pub(super) fn find(&self, run: &Run, id: i64) -> Option<u32> {
        match run.finder {
            Finder::Dense { lowest, begin, length } => {
                let offset = usize::try_from(id.checked_sub(lowest)?).ok().filter(|o| *o < length)?;
                self.table.get(begin + offset).copied().filter(|n| *n != u32::MAX)
            }
            Finder::Sorted { begin, end } => {
                let nodes = self.sorted.get(begin..end)?;
                let i = nodes.binary_search_by_key(&id, |(id, _)| *id).ok()?;
                Some(nodes[i].1)
            }
        }
    }
}
