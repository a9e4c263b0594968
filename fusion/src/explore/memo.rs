//! The memo table (section 3.1, figure 5): for each operator the partial fusion plans that end at it.

use std::{collections::BTreeMap, fmt};

use super::template::Template;
use crate::dag::{Dag, NodeId};

/// The close status of a partial plan at an operator. An open plan may be fused into a consumer; a valid plan may end
/// at the operator. Plans that are closed and invalid are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Close {
    /// The plan may be fused into a consumer, and may end here.
    OpenValid,
    /// The plan may be fused into a consumer, and may not end here.
    OpenInvalid,
    /// The plan may not be fused into a consumer: it ends here.
    ClosedValid,
}

/// A partial fusion plan of an operator: a template, and the inputs that are fused. The other inputs are read from
/// memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// The template.
    pub template: Template,
    /// For each input of the operator, the node that is fused; `None` if the input is read from memory.
    pub inputs: Vec<Option<NodeId>>,
    /// The close status.
    pub close: Close,
}

impl Entry {
    /// Returns the references: the inputs that are fused.
    pub fn references(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.inputs.iter().flatten().copied()
    }

    /// Tells whether an input is fused.
    pub fn has_references(&self) -> bool {
        self.inputs.iter().any(Option::is_some)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let input = |input: &Option<NodeId>| input.map_or("-1".to_owned(), |node| node.to_string());
        let inputs: Vec<String> = self.inputs.iter().map(input).collect();
        write!(f, "{}({})", self.template.letter(), inputs.join(","))
    }
}

/// The partial fusion plans of a graph, by operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoTable {
    groups: BTreeMap<NodeId, Vec<Entry>>,
}

impl MemoTable {
    /// Adds the entries of an operator without duplicates, and without those that are closed and fuse nothing (basic
    /// pruning, section 3.2).
    pub(super) fn add(&mut self, node: NodeId, mut entries: Vec<Entry>) {
        entries.retain(|entry| entry.close != Close::ClosedValid || entry.has_references());
        entries.sort();
        entries.dedup();
        if !entries.is_empty() {
            self.groups.insert(node, entries);
        }
    }

    /// Returns the operators that have plans.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.groups.keys().copied()
    }

    /// Returns the plans of an operator.
    pub fn entries(&self, node: NodeId) -> &[Entry] {
        self.groups.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Tells whether an operator has an open plan of one of the templates.
    pub fn is_open(&self, node: NodeId, templates: &[Template]) -> bool {
        let open = |entry: &Entry| entry.close != Close::ClosedValid && templates.contains(&entry.template);
        self.entries(node).iter().any(open)
    }

    /// Returns a table without the entries for which `keep` is false. An entry also goes if a fused input of it has no
    /// open plan left that its template merges with.
    pub fn filtered(&self, keep: impl Fn(NodeId, &Entry) -> bool) -> Self {
        let mut found = Self::default();
        for (node, entries) in &self.groups {
            let fits = |entry: &Entry| {
                entry.references().all(|input| found.is_open(input, entry.template.merges_with()))
            };
            let kept = entries.iter().filter(|entry| keep(*node, entry) && fits(entry)).cloned().collect();
            found.add(*node, kept);
        }
        found
    }

    /// Returns a table without dominated entries. An entry is dominated if its operator has another entry of the same
    /// template and close status that fuses the same inputs and more, and if all inputs that it fuses have a single
    /// consumer. Only heuristics that never cut such references may use it (section 3.2, advanced pruning; in figure 5
    /// R(10,9) dominates R(10,-1), and R(6,8) does not dominate R(-1,8)).
    pub fn without_dominated(&self, dag: &Dag) -> Self {
        self.filtered(|node, entry| {
            let dominates = |other: &Entry| {
                let superset = entry
                    .inputs
                    .iter()
                    .zip(&other.inputs)
                    .all(|(mine, theirs)| mine.is_none() || mine == theirs);
                let alone = other.references().all(|input| dag.consumers(input).len() == 1);
                other.template == entry.template
                    && other.close == entry.close
                    && superset
                    && alone
                    && other != entry
            };
            !self.entries(node).iter().any(dominates)
        })
    }

    /// Returns the table as text, one line for each operator, from the last operator to the first, as in figure 5.
    pub fn display(&self, dag: &Dag) -> String {
        let mut out = String::new();
        for (node, entries) in self.groups.iter().rev() {
            let entries: Vec<String> = entries.iter().map(Entry::to_string).collect();
            out += &format!("{node} {}: {}\n", dag.operator(*node).short(), entries.join(" "));
        }
        out
    }
}
