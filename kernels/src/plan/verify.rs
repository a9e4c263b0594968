//! What targets rest on: a plan that is whole.

use super::{GpuDim, Limit, Map, Op, Plan, Range, RowLoop, Sum, Target, Value};

impl Plan {
    /// What is wrong with the plan, if anything is: a register read before it is set, a slot or a buffer that
    /// is not there, a statement of the other target, a barrier inside a block loop.
    pub fn verify(&self) -> Result<(), String> {
        if self.ranks_from.is_some() && !(self.target == Target::Cube && self.caches_each_row_once()) {
            return Err("rows become ranks in a cache that not each of them is read into once".into());
        }
        let cached = |op: &&Op| matches!(op, Op::Walk(w) if w.cached_rows);
        let walks = || self.ops().into_iter().filter(|op| matches!(op, Op::Walk(_)));
        if self.column_group.is_some() && (!self.used_columns || !walks().all(|op| cached(&op))) {
            return Err(
                "groups of trees have columns of their own, and a walk reads a row where it lies".into()
            );
        }
        if self.target == Target::Cube && self.children.tile() > 1 {
            return Err("a cube's units walk node by node, and the layout holds tiles".into());
        }
        self.verify_ops(&self.body, 0, false)
    }

    fn verify_ops(&self, ops: &[Op], depth: u32, in_block: bool) -> Result<(), String> {
        ops.iter().try_for_each(|op| self.verify_op(op, depth, in_block))
    }

    fn verify_op(&self, op: &Op, depth: u32, in_block: bool) -> Result<(), String> {
        let value = |v: Value| match v {
            Value::Slot(s) if s as usize >= self.sizes.len() => {
                Err(format!("slot {s} of {}", self.sizes.len()))
            }
            _ => Ok(()),
        };
        let limit = |l: &Limit| match l.minus.iter().find(|r| **r >= depth) {
            Some(r) => Err(format!("register {r} is read at depth {depth}, before it is set")),
            None => value(l.end),
        };
        let range = |r: &Range| {
            value(r.start)?;
            value(r.step)?;
            r.limits.iter().try_for_each(limit)
        };
        let sum = |s: &Sum| match s {
            Sum::Partial { buffer, .. } if *buffer as usize >= self.partials.len() => {
                Err(format!("no partial {buffer}"))
            }
            Sum::Shared if self.shared_sums.is_none() => Err("no shared sums".to_owned()),
            _ => Ok(()),
        };
        let only = |target: Target, name: &str| match self.target == target {
            true => Ok(()),
            false => Err(format!("{name} belongs to the other target")),
        };
        let barrier = |name: &str| match in_block {
            true => Err(format!("{name} has a barrier and stands in a block loop")),
            false => only(Target::Cube, name),
        };
        let row_loops = |rows: &[Vec<RowLoop>]| {
            rows.iter().flatten().try_for_each(|l| {
                value(l.range.start)?;
                value(l.range.step)?;
                l.range.limits.iter().try_for_each(|l| value(l.end))
            })
        };
        match op {
            Op::Loop(l) => {
                if l.register != depth {
                    return Err(format!("loop {} keeps register {} at depth {depth}", l.var, l.register));
                }
                range(&l.range)?;
                match l.map {
                    Map::Parallel => only(Target::Cpu, "a parallel loop")?,
                    Map::Gpu { .. } => only(Target::Cube, "a mapped loop")?,
                    Map::Serial | Map::Unrolled { .. } => {}
                }
                let block = matches!(l.map, Map::Gpu { dim: GpuDim::Block(_), .. });
                self.verify_ops(&l.body, depth + 1, in_block || block)
            }
            Op::Walk(w) => {
                if w.tested > 0 {
                    only(Target::Cpu, "a tested step")?;
                }
                w.lanes.iter().try_for_each(|l| range(&l.range))?;
                w.into.iter().try_for_each(sum)
            }
            Op::Accumulate { body, into } => {
                only(Target::Cube, "Accumulate")?;
                sum(into)?;
                self.verify_ops(body, depth, in_block)
            }
            Op::Cases { register, cases } => {
                if *register >= depth || cases.is_empty() {
                    return Err(format!("cases of register {register} at depth {depth}"));
                }
                cases.iter().try_for_each(|(_, body)| self.verify_ops(body, depth, in_block))
            }
            Op::Only { body, .. } => {
                only(Target::Cube, "Only")?;
                // Not every unit comes here, so no barrier may.
                self.verify_ops(body, depth, true)
            }
            Op::CacheRows { .. } | Op::CacheTrees { .. } if self.target == Target::Cpu => Ok(()),
            Op::CacheRows { .. } => barrier("CacheRows"),
            Op::CacheTrees { .. } => barrier("CacheTrees"),
            Op::ClearShared => barrier("ClearShared"),
            Op::ReduceShared { into, rows, .. } => {
                barrier("ReduceShared")?;
                sum(into)?;
                row_loops(rows)
            }
            Op::ReduceDimension { buffer, rows, .. } => {
                only(Target::Cpu, "ReduceDimension")?;
                sum(&Sum::Partial { buffer: *buffer, atomic: false })?;
                row_loops(rows)
            }
        }
    }
}
