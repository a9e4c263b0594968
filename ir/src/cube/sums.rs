//! Where a kernel's sums go, and where the epilogue is computed.

use super::{Cube, Statement, Sum};
use crate::{Combine, Emit, Number, Op, Plan};

/// Where a plan's transform and the rest of its epilogue are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EpilogueSite {
    /// In the kernel, where each sum is written.
    Sum,
    /// In the kernel, by the unit that has just written all sums of a row.
    Row,
    /// In a launch of its own after the kernel.
    Launch,
}

impl EpilogueSite {
    /// Returns the words with which a plan's text names this choice.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "as sums are written",
            Self::Row => "as rows are written",
            Self::Launch => "in a launch of its own",
        }
    }
}

/// Returns the sum that a statement adds to, if it adds to one.
fn added_to(op: &Op<Cube>) -> Option<Sum> {
    match op {
        Op::Walk(walk) => walk.own.into,
        Op::Own(Statement::Accumulate { into, .. } | Statement::ReduceShared { into, .. }) => Some(*into),
        _ => None,
    }
}

impl Plan<Cube> {
    /// Whether each row's result is written exactly once, as a sum that starts from the base score. The result
    /// then needs no initial value.
    pub fn sums_once(&self) -> bool {
        let again = |sum: Sum| matches!(sum, Sum::Result { first: false } | Sum::Atomic);
        self.own.partials.is_empty() && !self.ops().into_iter().filter_map(added_to).any(again)
    }

    /// Whether some sum is added to the result with atomic operations.
    pub fn is_atomic(&self) -> bool {
        self.ops().into_iter().filter_map(added_to).any(|sum| sum == Sum::Atomic)
    }

    /// Whether the plan writes its sums unchanged, or writes no sums at all.
    pub fn writes_sums(&self) -> bool {
        !self.emit.sums() || self.emit == Emit::Margins && self.own.epilogue.is_empty()
    }

    /// Returns where the epilogue is computed from the sums.
    pub fn epilogue_site(&self) -> EpilogueSite {
        if self.writes_sums() {
            return EpilogueSite::Sum;
        }
        let (transform, epilogue) = (self.emit.transform(), &self.own.epilogue);
        if !self.sums_once()
            || self.combine == Combine::Fixed
            || transform.width(self.outputs) != self.outputs
        {
            return EpilogueSite::Launch;
        }
        if transform.is_elementwise() && epilogue.is_elementwise() {
            return EpilogueSite::Sum;
        }
        // The unit that adds up a row's copies has all sums of the row. It keeps them in the result until the
        // epilogue.
        let by_row = |op: &&Op<Cube>| match op {
            Op::Own(Statement::ReduceShared { into: Sum::Result { .. }, rows, .. }) => {
                rows.iter().all(|chain| !chain.is_empty())
            }
            op => !matches!(added_to(op), Some(Sum::Result { .. })),
        };
        let of_row = transform.is_of_row() || transform.is_elementwise();
        match of_row && epilogue.number == Number::F32 && self.ops().iter().all(by_row) {
            true => EpilogueSite::Row,
            false => EpilogueSite::Launch,
        }
    }
}
