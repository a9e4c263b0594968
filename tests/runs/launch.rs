//! A cube plan carried out on paper: every unit of every cube in turn, barriers where they stand, sums of a number that
//! each tree is given. What a GPU would only sometimes show is an error here: two units that add to one sum between
//! the same barriers, a row or a tree outside its cache's range, a sum that is left in shared memory or written twice.

use std::collections::HashMap;

use fangorn::{
    plan::{
        Emit, Limit, Map, Op, Plan, Range, Remainder, RowLoop, Walk,
        cube::{Cube, MappedLoop, Statement, Sum},
    },
    schedule::{Axis, Dim, Extents, GpuDim},
};

/// A walk that was made, in the order of its unit.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// The unit's number.
    pub unit: u32,
    pub row: u32,
    /// The tree's position.
    pub tree: u32,
    /// Steps in straight-line code, and what follows.
    pub steps: (u32, Remainder),
}

/// A sum in memory: its number, and who added to it last, since which barrier.
#[derive(Clone, Copy, Debug, Default)]
struct StoredSum {
    sum: u64,
    last: Option<(u32, u32)>,
    written: bool,
}

/// The state of one unit.
#[derive(Clone, Debug, Default)]
struct Unit {
    at: [u32; 3],
    number: u32,
    registers: Vec<u32>,
    row: u32,
    tree: u32,
    /// The row of a register sum, and the sum.
    held: Option<(u32, u64)>,
}

/// A launch.
pub struct Launch<'a> {
    plan: &'a Plan<Cube>,
    extents: Extents,
    cubes: [u32; 3],
    cube: [u32; 3],
    barriers: u32,
    result: HashMap<u32, StoredSum>,
    partials: HashMap<(u32, Vec<u32>, u32), StoredSum>,
    shared: HashMap<(Vec<u32>, u32), StoredSum>,
    shared_from: Option<u32>,
    rows_from: Option<u32>,
    /// The running tree as rows were cached.
    rows_of: u32,
    trees_from: Option<u32>,
    made: Vec<Made>,
}

type Outcome = Result<(), String>;

/// The number that a tree adds.
fn number_of(tree: u32) -> u64 {
    (u64::from(tree) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(tree % 64)
}

/// What every row starts from.
const BASE: u64 = 0x1234_5678_9abc_def1;

/// Runs a plan over at most `most` cubes an axis: the walks that were made, in the order of each unit, if every
/// row's sum is the sum of all trees.
pub fn launch(plan: &Plan<Cube>, extents: Extents, most: u32) -> Result<(Vec<Made>, [u32; 3]), String> {
    let cubes = plan.own.grid.map(|g| g.map_or(1, |v| plan.resolve(v, extents)).clamp(1, most));
    let mut launch = Launch {
        plan,
        extents,
        cubes,
        cube: [0; 3],
        barriers: 0,
        result: HashMap::new(),
        partials: HashMap::new(),
        shared: HashMap::new(),
        shared_from: None,
        rows_from: None,
        rows_of: 0,
        trees_from: None,
        made: Vec::new(),
    };
    let each = |size: [u32; 3]| {
        (0..size[2]).flat_map(move |z| (0..size[1]).flat_map(move |y| (0..size[0]).map(move |x| [x, y, z])))
    };
    for cube in each(cubes) {
        launch.cube = cube;
        (launch.shared_from, launch.rows_from, launch.trees_from) = (None, None, None);
        let number = cube[0] + cubes[0] * (cube[1] + cubes[1] * cube[2]);
        let mut units: Vec<Unit> = each(plan.own.cube_dim)
            .enumerate()
            .map(|(i, at)| Unit { at, number: number * plan.own.units() + i as u32, ..Unit::default() })
            .collect();
        launch.together(&plan.body, &mut units)?;
        if launch.shared.values().any(|kept| kept.sum != 0) {
            return Err("sums are left in shared memory".to_owned());
        }
        launch.shared.clear();
        launch.barriers += 1;
    }
    if plan.emit == Emit::Margins {
        launch.check()?;
    }
    Ok((launch.made, cubes))
}

fn has_barrier(op: &Op<Cube>) -> bool {
    let own = matches!(
        op,
        Op::Own(
            Statement::CacheRows { .. }
                | Statement::CacheTrees { .. }
                | Statement::ClearShared
                | Statement::ReduceShared { .. }
        )
    );
    own || op.bodies().into_iter().flatten().any(has_barrier)
}

impl Launch<'_> {
    /// What the second launch makes of the private sums, row by row.
    fn check(&self) -> Outcome {
        let all = (0..self.extents.trees).map(number_of).fold(BASE, u64::wrapping_add);
        let mut copies: HashMap<u32, u64> = HashMap::new();
        for ((_, _, row), kept) in &self.partials {
            let sum = copies.entry(*row).or_default();
            *sum = sum.wrapping_add(kept.sum);
        }
        for row in 0..self.extents.batch {
            let start = if self.plan.sums_once() { None } else { Some(BASE) };
            let own = match (self.result.get(&row), start) {
                (Some(kept), _) => kept.sum,
                (None, Some(base)) => base,
                (None, None) => return Err(format!("row {row} is never written, and has no start")),
            };
            if own.wrapping_add(copies.get(&row).copied().unwrap_or(0)) != all {
                return Err(format!("row {row} is not the sum of all trees"));
            }
        }
        Ok(())
    }

    /// Statements for all units of the cube: those with a barrier inside as one, the others unit by unit.
    fn together(&mut self, ops: &[Op<Cube>], units: &mut [Unit]) -> Outcome {
        for op in ops {
            match op {
                op if !has_barrier(op) => units.iter_mut().try_for_each(|u| self.alone(op, u))?,
                Op::Loop(l) => {
                    if matches!(l.map, Map::Own(MappedLoop { dim: GpuDim::Block(_), .. })) {
                        return Err(format!("a barrier inside the block loop {}", l.var));
                    }
                    for offset in self.offsets(&l.range, l.map, &units[0]) {
                        units.iter_mut().for_each(|u| enter(u, l.dim, offset));
                        self.together(&l.body, units)?;
                        units.iter_mut().for_each(|u| leave(u, l.dim));
                    }
                }
                Op::Cases { register, cases } => {
                    let taken = taken(cases, units[0].registers[*register as usize]);
                    self.together(&cases[taken].1, units)?;
                }
                Op::Own(Statement::Only { dims, body }) => {
                    let block = |d: &GpuDim| matches!(d, GpuDim::Block(_));
                    if dims.iter().any(block) {
                        return Err("a barrier that only some units reach".to_owned());
                    }
                    if dims.iter().all(|d| self.index(*d, &units[0]) == 0) {
                        self.together(body, units)?;
                    }
                }
                Op::Own(Statement::CacheRows { .. }) => {
                    self.barriers += 1;
                    self.rows_from = Some(units[0].row);
                    self.rows_of = units[0].tree;
                }
                Op::Own(Statement::CacheTrees { .. }) => {
                    self.barriers += 1;
                    self.trees_from = Some(units[0].tree);
                }
                Op::Own(Statement::ClearShared) => {
                    self.barriers += 1;
                    if self.shared.values().any(|kept| kept.sum != 0) {
                        return Err("shared sums are cleared that nobody has added up".to_owned());
                    }
                    self.shared.clear();
                    self.shared_from = Some(units[0].row);
                }
                Op::Own(Statement::ReduceShared { into, rows, .. }) => self.reduce(*into, rows, units)?,
                Op::Walk(_) | Op::Own(Statement::Accumulate { .. }) => {
                    return Err("a barrier inside a register sum".to_owned());
                }
            }
        }
        Ok(())
    }

    fn reduce(&mut self, into: Sum, chains: &[Vec<RowLoop>], units: &mut [Unit]) -> Outcome {
        for chain in chains {
            self.barriers += 1;
            let mut rows = Vec::new();
            self.rows_of(chain, &units[0], None, &mut rows);
            let all = units.len();
            for (share, row) in rows {
                let first = self.shared_from.ok_or("shared sums are added up before they are cleared")?;
                let near = row.checked_sub(first).ok_or(format!("row {row} is before the cleared rows"))?;
                let mut sum = 0u64;
                for (_, kept) in self.shared.iter_mut().filter(|((_, r), _)| *r == near) {
                    sum = sum.wrapping_add(std::mem::take(&mut kept.sum));
                }
                self.add(into, row, sum, &units[share as usize % all].clone())?;
            }
        }
        self.barriers += 1;
        self.shared.values_mut().for_each(|kept| kept.last = None);
        Ok(())
    }

    /// The rows that a chain of loops goes over, each with its index in the first loop, which units share out.
    fn rows_of(&self, chain: &[RowLoop], unit: &Unit, share: Option<u32>, out: &mut Vec<(u32, u32)>) {
        let Some((first, rest)) = chain.split_first() else {
            out.push((share.unwrap_or(0), unit.row));
            return;
        };
        let register = first.register as usize;
        for (k, offset) in self.offsets(&first.range, Map::Serial, unit).into_iter().enumerate() {
            let mut inside = unit.clone();
            inside.registers.resize(inside.registers.len().max(register + 1), 0);
            inside.registers[register] = offset;
            inside.row += offset;
            self.rows_of(rest, &inside, share.or(Some(k as u32)), out);
        }
    }

    /// A statement by one unit.
    fn alone(&mut self, op: &Op<Cube>, unit: &mut Unit) -> Outcome {
        match op {
            Op::Loop(l) => {
                for offset in self.offsets(&l.range, l.map, unit) {
                    enter(unit, l.dim, offset);
                    l.body.iter().try_for_each(|op| self.alone(op, unit))?;
                    leave(unit, l.dim);
                }
                Ok(())
            }
            Op::Cases { register, cases } => {
                let taken = taken(cases, unit.registers[*register as usize]);
                cases[taken].1.iter().try_for_each(|op| self.alone(op, unit))
            }
            Op::Own(Statement::Only { dims, body }) => match dims.iter().all(|d| self.index(*d, unit) == 0) {
                true => body.iter().try_for_each(|op| self.alone(op, unit)),
                false => Ok(()),
            },
            Op::Own(Statement::Accumulate { body, into }) => {
                if unit.held.is_some() {
                    return Err("a register sum inside a register sum".to_owned());
                }
                unit.held = Some((unit.row, 0));
                body.iter().try_for_each(|op| self.alone(op, unit))?;
                let (row, sum) = unit.held.take().expect("it was begun");
                self.add(*into, row, sum, &unit.clone())
            }
            Op::Walk(walk) => self.walk(walk, unit),
            other => Err(format!("a unit comes to {other:?} alone")),
        }
    }

    fn walk(&mut self, walk: &Walk<Cube>, unit: &mut Unit) -> Outcome {
        let lanes = match &walk.lanes {
            Some(lanes) => {
                let offsets = self.offsets(&lanes.range, Map::Serial, unit);
                if offsets.len() as u32 > lanes.count {
                    return Err(format!("{} lanes, room for {}", offsets.len(), lanes.count));
                }
                offsets.into_iter().map(|o| (lanes.dim, o)).collect()
            }
            None => vec![(Dim::Tree, 0)],
        };
        for (dim, offset) in lanes {
            let (row, tree) = match dim {
                Dim::Batch => (unit.row + offset, unit.tree),
                Dim::Tree => (unit.row, unit.tree + offset),
            };
            let within = |what: &str, at: u32, from: Option<u32>, many: Option<u32>| match (from, many) {
                (Some(from), Some(many)) if (from..from.saturating_add(many)).contains(&at) => Ok(()),
                _ => Err(format!("{what} {at} is outside the cache's {many:?} from {from:?} on")),
            };
            if walk.own.cached_rows {
                within("row", row, self.rows_from, self.plan.own.cached_rows)?;
                if let Some(group) = self.plan.own.column_group
                    && tree / group != self.rows_of / group
                {
                    return Err(format!("tree {tree} reads the columns cached for tree {}", self.rows_of));
                }
            }
            if walk.own.cached_trees {
                within("tree", tree, self.trees_from, self.plan.own.cached_trees.map(|c| c.trees))?;
            }
            self.made.push(Made { unit: unit.number, row, tree, steps: (walk.steps, walk.rest) });
            if self.plan.emit != Emit::Margins {
                continue;
            }
            match (walk.own.into, &mut unit.held) {
                (Some(into), None) => self.add(into, row, number_of(tree), &unit.clone())?,
                (None, Some((held, sum))) if *held == row => *sum = sum.wrapping_add(number_of(tree)),
                (None, Some((held, _))) => {
                    return Err(format!("row {row} in the register sum of row {held}"));
                }
                _ => return Err("a sum that goes nowhere, or two ways".to_owned()),
            }
        }
        Ok(())
    }

    fn add(&mut self, into: Sum, row: u32, sum: u64, unit: &Unit) -> Outcome {
        let now = (unit.number, self.barriers);
        let units = self.plan.own.units();
        let (kept, first, atomic) = match into {
            Sum::Result { first } => (self.result.entry(row).or_default(), first, false),
            Sum::Atomic => (self.result.entry(row).or_default(), false, true),
            Sum::Partial { buffer } => {
                let dims = &self.plan.own.partials[buffer as usize].dims;
                let copy = dims.iter().map(|d| self.index(*d, unit)).collect();
                (self.partials.entry((buffer, copy, row)).or_default(), false, false)
            }
            Sum::Shared => {
                let sums = self.plan.own.shared_sums.as_ref().expect("verified");
                let from = self.shared_from.ok_or("a shared sum before they are cleared")?;
                let near = row.checked_sub(from).filter(|r| *r < sums.rows);
                let near =
                    near.ok_or(format!("row {row} is outside the shared sums' {} from {from}", sums.rows))?;
                let copy = sums.axes.iter().map(|(axis, _)| unit.at[*axis as usize]).collect();
                (self.shared.entry((copy, near)).or_default(), false, false)
            }
        };
        let clash = |(who, when): (u32, u32)| who != now.0 && (who / units != now.0 / units || when == now.1);
        if !atomic && kept.last.is_some_and(clash) {
            return Err(format!("row {row}: unit {} adds where unit {:?} does, {into:?}", now.0, kept.last));
        }
        kept.last = Some(now);
        let to_result = matches!(into, Sum::Result { .. } | Sum::Atomic);
        match (first, kept.written) {
            (true, true) => return Err(format!("row {row} is begun twice")),
            (true, false) => kept.sum = BASE.wrapping_add(sum),
            (false, false) if to_result => kept.sum = BASE.wrapping_add(sum),
            (false, _) => kept.sum = kept.sum.wrapping_add(sum),
        }
        kept.written = true;
        if to_result && !first && self.plan.sums_once() {
            return Err(format!("row {row} is added to before it has a start"));
        }
        Ok(())
    }

    fn index(&self, dim: GpuDim, unit: &Unit) -> u32 {
        match dim {
            GpuDim::Grid(axis) => self.cube[axis as usize],
            GpuDim::Block(axis) => unit.at[axis as usize],
        }
    }

    fn size(&self, dim: GpuDim) -> u32 {
        match dim {
            GpuDim::Grid(axis) => self.cubes[axis as usize],
            GpuDim::Block(axis) => self.plan.own.cube_dim[axis as usize],
        }
    }

    /// The offsets of a loop that are a unit's.
    fn offsets(&self, range: &Range, map: Map<Cube>, unit: &Unit) -> Vec<u32> {
        let value = |v| self.plan.resolve(v, self.extents);
        let limit = |l: &Limit| {
            let taken: u64 = l.minus.iter().map(|r| u64::from(unit.registers[*r as usize])).sum();
            u64::from(value(l.end)).saturating_sub(taken)
        };
        let end = range.limits.iter().map(limit).min().unwrap_or(0);
        let all = (u64::from(value(range.start))..end).step_by(value(range.stride).max(1) as usize);
        let all = all.map(|o| o as u32);
        match map {
            Map::Serial => all.collect(),
            Map::Unrolled { count } => all.take(count as usize).collect(),
            Map::Own(MappedLoop { dim, single }) => {
                let most = if single { 1 } else { usize::MAX };
                all.skip(self.index(dim, unit) as usize)
                    .step_by(self.size(dim).max(1) as usize)
                    .take(most)
                    .collect()
            }
        }
    }
}

fn taken(cases: &[(u32, Vec<Op<Cube>>)], offset: u32) -> usize {
    cases.iter().position(|(end, _)| offset < *end).unwrap_or(cases.len() - 1)
}

fn enter(unit: &mut Unit, dim: Dim, offset: u32) {
    unit.registers.push(offset);
    match dim {
        Dim::Batch => unit.row += offset,
        Dim::Tree => unit.tree += offset,
    }
}

fn leave(unit: &mut Unit, dim: Dim) {
    let offset = unit.registers.pop().expect("a loop was entered");
    match dim {
        Dim::Batch => unit.row -= offset,
        Dim::Tree => unit.tree -= offset,
    }
}
