//! Checks that a plan is consistent. Targets rely on these checks.

use crate::{Dialect, Limit, Map, Op, Plan, Range, RowLoop, Scope, Value};

impl<D: Dialect> Plan<D> {
    /// Checks the plan: it reads no register before that is set, names only entries of `sizes` and buffers that
    /// exist, and has no barrier inside a block loop.
    ///
    /// # Errors
    /// The first of these rules that the plan breaks.
    pub fn verify(&self) -> Result<(), String> {
        D::verify(self)?;
        self.verify_ops(&self.body, Scope { depth: 0, divided: false })
    }

    pub(crate) fn verify_ops(&self, ops: &[Op<D>], scope: Scope) -> Result<(), String> {
        ops.iter().try_for_each(|op| self.verify_op(op, scope))
    }

    fn verify_op(&self, op: &Op<D>, scope: Scope) -> Result<(), String> {
        let depth = scope.depth;
        match op {
            Op::Loop(l) => {
                if l.register != depth {
                    return Err(format!("loop {} keeps register {} at depth {depth}", l.var, l.register));
                }
                self.verify_range(&l.range, depth)?;
                let divides = matches!(l.map, Map::Own(map) if D::divides(map));
                let divided = scope.divided || divides;
                self.verify_ops(&l.body, Scope { depth: depth + 1, divided })
            }
            Op::Walk(walk) => {
                walk.lanes.iter().try_for_each(|lanes| self.verify_range(&lanes.range, depth))?;
                D::verify_walk(self, walk)
            }
            Op::Cases { register, cases } => {
                if *register >= depth || cases.is_empty() {
                    return Err(format!("cases of register {register} at depth {depth}"));
                }
                cases.iter().try_for_each(|(_, body)| self.verify_ops(body, scope))
            }
            Op::Own(op) => D::verify_op(self, op, scope),
        }
    }

    fn verify_value(&self, value: Value) -> Result<(), String> {
        match value {
            Value::Size(s) if s as usize >= self.sizes.len() => {
                Err(format!("size s{s} of {}", self.sizes.len()))
            }
            _ => Ok(()),
        }
    }

    fn verify_range(&self, range: &Range, depth: u32) -> Result<(), String> {
        let limit = |l: &Limit| match l.minus.iter().find(|r| **r >= depth) {
            Some(r) => Err(format!("register {r} is read at depth {depth}, before it is set")),
            None => self.verify_value(l.end),
        };
        self.verify_value(range.start)?;
        self.verify_value(range.stride)?;
        range.limits.iter().try_for_each(limit)
    }

    /// Checks loops over rows that repeat the loops of earlier statements. Their registers may be past those
    /// of the enclosing loops, so registers are not checked.
    pub(crate) fn verify_row_loops(&self, rows: &[Vec<RowLoop>]) -> Result<(), String> {
        rows.iter().flatten().try_for_each(|l| {
            self.verify_value(l.range.start)?;
            self.verify_value(l.range.stride)?;
            l.range.limits.iter().try_for_each(|l| self.verify_value(l.end))
        })
    }
}
