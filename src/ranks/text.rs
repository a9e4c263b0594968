//! The text of ranks: stable, with one line for each column.

use std::fmt;

use super::{ColumnKind, Ranks, Side};

impl fmt::Display for Ranks {
    /// ```text
    /// ranks u8: 2 columns, 2 bytes a row
    ///   0: x[3], missing left, thresholds [0.5, 2.0]
    ///   1: x[7], missing right, in set 0
    /// set 0 [1, 4]
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, columns, bytes) = (self.width.name(), self.columns.len(), self.row_bytes());
        writeln!(f, "ranks {width}: {columns} columns, {bytes} bytes a row")?;
        for (c, column) in self.columns.iter().enumerate() {
            let missing = if column.missing == Side::Left { "left" } else { "right" };
            write!(f, "  {c}: x[{}], missing {missing}, ", column.feature)?;
            match column.asks {
                ColumnKind::Thresholds { first, count } => {
                    writeln!(f, "thresholds {:?}", &self.thresholds[first as usize..][..count as usize])?;
                }
                ColumnKind::Question { predicate } => writeln!(f, "{predicate}")?,
            }
        }
        for (i, set) in self.sets.iter().enumerate() {
            writeln!(f, "set {i} {:?}", set.members().collect::<Vec<_>>())?;
        }
        Ok(())
    }
}
