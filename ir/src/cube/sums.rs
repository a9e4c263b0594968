//! Where sums go, and where what follows them is computed.

use super::{Cube, Statement, Sum};
use crate::{Combine, Emit, Number, Op, Plan};

/// Where a plan's transform and tail are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EpiloguePlace {
    /// Where each sum is written.
    Sum,
    /// By the unit that has just written all sums of a row.
    Row,
    /// In a last launch.
    Launch,
}

impl EpiloguePlace {
    /// The words of a plan's text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "as sums are written",
            Self::Row => "as rows are written",
            Self::Launch => "in a last launch",
        }
    }
}

/// Where a statement adds to a sum, if it does.
fn added_to(op: &Op<Cube>) -> Option<Sum> {
    match op {
        Op::Walk(walk) => walk.own.into,
        Op::Own(Statement::Accumulate { into, .. } | Statement::ReduceShared { into, .. }) => Some(*into),
        _ => None,
    }
}

impl Plan<Cube> {
    /// Whether every row's result is written once, from the base score on, so that it needs no start.
    pub fn sums_once(&self) -> bool {
        let again = |sum: Sum| matches!(sum, Sum::Result { first: false } | Sum::Atomic);
        self.own.partials.is_empty() && !self.ops().into_iter().filter_map(added_to).any(again)
    }

    /// Whether some sum is added to the result with atomic operations.
    pub fn is_atomic(&self) -> bool {
        self.ops().into_iter().filter_map(added_to).any(|sum| sum == Sum::Atomic)
    }

    /// Whether what it writes is the sums as they are, or none at all.
    pub fn writes_sums(&self) -> bool {
        !self.emit.sums() || self.emit == Emit::Margins && self.own.epilogue.is_empty()
    }

    /// Where what it emits is computed from the sums.
    pub fn place(&self) -> EpiloguePlace {
        if self.writes_sums() {
            return EpiloguePlace::Sum;
        }
        let (transform, epilogue) = (self.emit.transform(), &self.own.epilogue);
        if !self.sums_once()
            || self.combine == Combine::Fixed
            || transform.width(self.outputs) != self.outputs
        {
            return EpiloguePlace::Launch;
        }
        if transform.is_each() && epilogue.is_each() {
            return EpiloguePlace::Sum;
        }
        // A unit that adds up a row's copies has the whole row. Its sums are kept in the result meanwhile.
        let by_row = |op: &&Op<Cube>| match op {
            Op::Own(Statement::ReduceShared { into: Sum::Result { .. }, rows, .. }) => {
                rows.iter().all(|chain| !chain.is_empty())
            }
            op => !matches!(added_to(op), Some(Sum::Result { .. })),
        };
        let of_row = transform.is_of_row() || transform.is_each();
        match of_row && epilogue.number == Number::F32 && self.ops().iter().all(by_row) {
            true => EpiloguePlace::Row,
            false => EpiloguePlace::Launch,
        }
    }
}
