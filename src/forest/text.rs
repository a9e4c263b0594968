//! The forest's text form: stable and complete, one line for each node.

use std::fmt::Write;

use super::{Aggregate, CategoryRule, Classes, EarlyStop, Forest, Node, Predicate, Real, Side, Targets};

impl Forest {
    /// Returns the forest as text, for readers and for snapshots. It leaves out covers.
    ///
    /// ```text
    /// forest features=3 outputs=1 trees=1 compare=f32 transform=sigmoid
    ///   from xgboost 3.2.0 binary:logistic
    ///   base_score [0.0]
    /// tree 0 -> output 0
    ///   0: if x[2] < 0.5, missing left, then 1 else 2
    ///   1: leaf 1 #0 [-0.25]
    ///   2: leaf 2 #1 [0.25]
    /// ```
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        // Writing to a `String` does not fail.
        let _ = self.write_text(&mut out);
        out
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "forest features={} outputs={} trees={} compare={} transform={}",
            self.features.len(),
            self.outputs,
            self.trees.len(),
            self.compare.name(),
            self.transform.name()
        )?;
        writeln!(
            out,
            "  from {} {} {}",
            self.producer.library, self.producer.version, self.producer.objective
        )?;
        if let Some(EarlyStop { best, rounds }) = self.producer.early_stop {
            writeln!(out, "  best round {best} of {rounds}")?;
        }
        writeln!(out, "  base_score {:?}", self.base_score)?;
        if self.aggregate != Aggregate::Sum {
            writeln!(out, "  aggregate {}", self.aggregate.name())?;
        }
        if self.scale != Real(1.0) {
            writeln!(out, "  scale {:?}", self.scale)?;
        }
        if self.classes != Classes::default() {
            let words = if self.classes.words { " as texts" } else { "" };
            writeln!(out, "  classes {} {:?}{words}", self.classes.rule, self.classes.labels)?;
        }
        for (i, set) in self.sets.iter().enumerate() {
            let rule = match set.rule {
                CategoryRule::NotNegative => "",
                CategoryRule::Truncated => " truncated",
                CategoryRule::Whole => " whole",
            };
            writeln!(out, "  set {i}{rule} {:?}", set.members().collect::<Vec<_>>())?;
        }
        for (t, tree) in self.trees.iter().enumerate() {
            match &self.targets {
                Targets::One(outputs) => writeln!(out, "tree {t} -> output {}", outputs[t])?,
                Targets::All => writeln!(out, "tree {t} -> all outputs")?,
            }
            for (n, (node, id)) in tree.nodes.iter().zip(&tree.ids).enumerate() {
                match *node {
                    Node::Leaf { slot } => writeln!(out, "  {n}: leaf {id} #{slot} {:?}", self.leaf(slot))?,
                    Node::Split { feature, predicate, missing, left, right } => {
                        let missing = format!("{missing:?}").to_lowercase();
                        writeln!(
                            out,
                            "  {n}: if x[{feature}] {predicate}, missing {missing}, then {left} else {right}"
                        )?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for Predicate {
    /// Writes the condition without the column, for example `< 0.5` or `in set 3`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Less { threshold } => write!(f, "< {threshold:?}"),
            Self::LessZeroAside { threshold } => write!(f, "< {threshold:?} xor zero"),
            Self::Equal { value } => write!(f, "== {value:?}"),
            Self::InSet { set, inside: Side::Left } => write!(f, "in set {set}"),
            Self::InSet { set, inside: Side::Right } => write!(f, "not in set {set}"),
            Self::Always => f.write_str("any"),
        }
    }
}
