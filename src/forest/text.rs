//! The forest's text form: stable, complete, one line a node.

use std::fmt::Write;

use super::{Forest, Node, Predicate, Targets};

impl Forest {
    /// The forest as text, for reading and for snapshots.
    ///
    /// ```text
    /// forest features=3 outputs=1 trees=1 compare=f32 transform=sigmoid
    ///   from xgboost 3.2.0 binary:logistic
    ///   base_score [0.0]
    /// tree 0 -> output 0
    ///   0: if x[2] < 0.5, missing left, then 1 else 2
    ///   1: leaf #0 [-0.25]
    ///   2: leaf #1 [0.25]
    /// ```
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = self.write_text(&mut out);
        out
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "forest features={} outputs={} trees={} compare=f32 transform={}",
            self.features.len(),
            self.outputs,
            self.trees.len(),
            self.transform.name()
        )?;
        writeln!(
            out,
            "  from {} {} {}",
            self.producer.library, self.producer.version, self.producer.objective
        )?;
        writeln!(out, "  base_score {:?}", self.base_score)?;
        for (i, set) in self.sets.iter().enumerate() {
            writeln!(out, "  set {i} {:?}", set.members().collect::<Vec<_>>())?;
        }
        for (t, tree) in self.trees.iter().enumerate() {
            match &self.targets {
                Targets::One(outputs) => writeln!(out, "tree {t} -> output {}", outputs[t])?,
                Targets::All => writeln!(out, "tree {t} -> all outputs")?,
            }
            for (node, id) in tree.nodes.iter().zip(&tree.ids) {
                match *node {
                    Node::Leaf { slot } => writeln!(out, "  {id}: leaf #{slot} {:?}", self.leaf(slot))?,
                    Node::Split { feature, predicate, missing, left, right } => {
                        let ask = match predicate {
                            Predicate::Less { threshold } => format!("x[{feature}] < {threshold:?}"),
                            Predicate::InSet { set, inside: super::Side::Left } => {
                                format!("x[{feature}] in set {set}")
                            }
                            Predicate::InSet { set, .. } => format!("x[{feature}] not in set {set}"),
                        };
                        let missing = format!("{missing:?}").to_lowercase();
                        let [left, right] = [left, right].map(|c| tree.ids[c as usize]);
                        writeln!(out, "  {id}: if {ask}, missing {missing}, then {left} else {right}")?;
                    }
                }
            }
        }
        Ok(())
    }
}
