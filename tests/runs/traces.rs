//! The order of walks: on the CPU as it was, and as the loop nest prescribes it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

use fangorn::{
    cost::ROW_BLOCK,
    cpu::{Engine, Program, Rows, TraceEntry, worker},
    plan::{LoweredForest, Mode, Visit, lower_with},
    schedule::{Axis, Device, Directive, Extents, GpuDim},
};

use super::request;
use crate::generate::Case;

/// Each worker's walks, `(row, tree)`, in the order it makes them.
pub type Walks = BTreeMap<u32, Vec<(u32, u32)>>;

/// What the nest prescribes. A walk that it has twice, or not at all, is an error.
pub fn prescribed(case: &Case, threads: u32) -> Result<Walks, String> {
    prescribed_for(case, threads, case.batch)
}

/// What the nest prescribes for a batch of another size.
fn prescribed_for(case: &Case, threads: u32, batch: usize) -> Result<Walks, String> {
    let Case { forest, schedule, .. } = case;
    let lowered = lower_with(forest, schedule, request(Device::Cpu, threads), Some(&case.profile()))
        .map_err(|e| e.to_string())?;
    let trees = forest.trees.len();
    let extents = Extents { batch: batch as u32, trees: trees as u32, threads };
    let mut walks = Walks::new();
    let mut seen = vec![0u32; batch * trees];
    for visit in lowered.legal().visits(extents, |_| u32::MAX) {
        let tree = lowered.order()[visit.tree as usize];
        let who = worker(visit.worker.iter().map(|(_, index)| *index));
        walks.entry(who).or_default().push((visit.row, tree));
        seen[visit.row as usize * trees + tree as usize] += 1;
    }
    match seen.iter().position(|times| *times != 1) {
        Some(at) => Err(format!("row {} is visited {} times by tree {}", at / trees, seen[at], at % trees)),
        None => Ok(walks),
    }
}

/// Runs a case, and holds what it did against what its nest prescribes. Each part of the rows of a divided batch is a
/// batch of its own. Returns the number of parts.
pub fn runs_as_prescribed(case: &Case, threads: u32) -> Result<usize, String> {
    let found = recorded(case, threads)?;
    let Some(parts) = found.parts_of_rows(case.batch) else {
        return found.against(&prescribed(case, threads)?).map(|()| 1);
    };
    let shares_rows = case.schedule.directives.iter().any(|d| matches!(d, Directive::Parallel { .. }));
    if threads == 1 || !shares_rows {
        return Err(format!("{} parts on {threads} threads", parts.len()));
    }
    for (rows, part) in &parts {
        if !rows.start.is_multiple_of(ROW_BLOCK) {
            return Err(format!("rows {rows:?} begin inside a row block"));
        }
        let prescribed = prescribed_for(case, threads, rows.len())?;
        part.against(&prescribed).map_err(|e| format!("rows {rows:?} of {}: {e}", case.batch))?;
    }
    Ok(parts.len())
}

/// What a run did: each worker's visits, in the order it makes them, by the share of the trees, or the part of the rows,
/// that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record(BTreeMap<u32, BTreeMap<u32, Vec<Made>>>);

/// A visit that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    row: u32,
    tree: u32,
    block: u32,
    engine: Engine,
}

impl Record {
    /// Whether it is what is prescribed: the same worker makes the same visits block by block, and inside a block in the same
    /// order, but for engines that have one of their own.
    pub fn is(&self, expected: &Walks) -> bool {
        self.against(expected).is_ok()
    }

    /// All visits, `(row, tree)`, one worker's after the other's.
    pub fn in_order(&self) -> Vec<(u32, u32)> {
        let made = self.0.values().flat_map(BTreeMap::values).flatten();
        made.map(|visit| (visit.row, visit.tree)).collect()
    }

    /// The parts into which the rows were divided, each with its rows counted from 0. `None` if they were not.
    fn parts_of_rows(&self, batch: usize) -> Option<Vec<(Range<usize>, Self)>> {
        let mut parts = BTreeMap::<u32, BTreeMap<u32, Vec<Made>>>::new();
        for (who, shares) in &self.0 {
            for (share, made) in shares {
                parts.entry(*share).or_default().insert(*who, made.clone());
            }
        }
        let mut divided = Vec::new();
        let mut begin = 0;
        for (share, mut of_workers) in parts {
            let rows = || of_workers.values().flatten().map(|visit| visit.row);
            let (first, last) = (rows().min()?, rows().max()?);
            if first != begin {
                return None;
            }
            of_workers.values_mut().flatten().for_each(|visit| visit.row -= first);
            let of_workers = of_workers.into_iter().map(|(who, made)| (who, BTreeMap::from([(share, made)])));
            divided.push((first as usize..last as usize + 1, Self(of_workers.collect())));
            begin = last + 1;
        }
        (divided.len() > 1 && begin as usize == batch).then_some(divided)
    }

    /// The first visit that is not as it should be.
    pub fn against(&self, expected: &Walks) -> Result<(), String> {
        if !self.0.keys().eq(expected.keys()) {
            return Err(format!("{} workers, should be {}", self.0.len(), expected.len()));
        }
        for ((who, shares), prescribed) in self.0.iter().zip(expected.values()) {
            for made in shares.values() {
                // What is dealt out are trees.
                let trees: BTreeSet<u32> = made.iter().map(|visit| visit.tree).collect();
                let own: Vec<_> =
                    prescribed.iter().filter(|(_, tree)| trees.contains(tree)).copied().collect();
                if own.len() != made.len() {
                    return Err(format!("worker {who}: {} visits, should be {}", made.len(), own.len()));
                }
                let mut at = 0;
                for block in made.chunk_by(|a, b| a.block == b.block) {
                    let mut found: Vec<_> = block.iter().map(|visit| (visit.row, visit.tree)).collect();
                    let mut should = own[at..at + block.len()].to_vec();
                    let by_row =
                        |visit: &Made| matches!(visit.engine, Engine::WalksByRow | Engine::TilesByRow);
                    let runs = block.chunk_by(|a, b| a.row == b.row).count();
                    let rows: BTreeSet<u32> = block.iter().map(|visit| visit.row).collect();
                    if block.iter().all(by_row) && runs != rows.len() {
                        return Err(format!(
                            "worker {who}: rows from {:?} on do not go one by one",
                            found[0]
                        ));
                    }
                    if !block.iter().all(|visit| visit.engine.keeps_order()) {
                        found.sort_unstable();
                        should.sort_unstable();
                    }
                    if let Some(i) = (0..found.len()).find(|i| found[*i] != should[*i]) {
                        let (found, should, at) = (found[i], should[i], at + i);
                        return Err(format!("worker {who}'s visit {at} is {found:?}, should be {should:?}"));
                    }
                    at += block.len();
                }
            }
        }
        Ok(())
    }
}

/// What a run did; a visit made twice, or not at all, is an error.
pub fn recorded(case: &Case, threads: u32) -> Result<Record, String> {
    let Case { forest, schedule, batch, .. } = case;
    let lowered = lower_with(forest, schedule, request(Device::Cpu, threads), Some(&case.profile()))
        .map_err(|e| e.to_string())?;
    let program = Program::new(forest, &lowered, threads).map_err(|e| e.to_string())?;
    let (columns, trees) = (forest.features.len(), forest.trees.len());
    let rows = Rows::strided(&case.rows, [*batch, columns], [columns, 1]).map_err(|e| e.to_string())?;
    // A visit that is left out keeps a number that no run gives.
    let mut trace = vec![TraceEntry::default(); batch * trees];
    program.trace(&rows, &mut trace).map_err(|e| e.to_string())?;
    let mut visits: Vec<(usize, TraceEntry)> = trace.into_iter().enumerate().collect();
    visits.sort_unstable_by_key(|(_, visit)| visit.visit);
    // A visit made twice, or not at all, leaves a gap.
    if let Some((k, (at, visit))) = visits.iter().enumerate().find(|(k, v)| v.1.visit != *k as u32) {
        let (row, tree) = (at / trees, at % trees);
        return Err(format!(
            "visit {k} of {} is lost; row {row}, tree {tree} has {}",
            batch * trees,
            visit.visit
        ));
    }
    let mut record = Record::default();
    for (at, visit) in visits {
        let (row, tree) = ((at / trees) as u32, (at % trees) as u32);
        let own = record.0.entry(visit.worker).or_default().entry(visit.share).or_default();
        own.push(Made { row, tree, block: visit.block, engine: visit.engine });
    }
    Ok(record)
}

/// The first worker that does not do as it should.
pub fn difference(found: &Walks, expected: &Walks) -> String {
    for (who, walks) in expected {
        let none = Vec::new();
        let did = found.get(who).unwrap_or(&none);
        if did != walks {
            let at = did.iter().zip(walks).position(|(a, b)| a != b).unwrap_or(did.len().min(walks.len()));
            return format!(
                "worker {who}'s walk {at} is {:?} of {}, should be {:?} of {}",
                did.get(at),
                did.len(),
                walks.get(at),
                walks.len()
            );
        }
    }
    format!("{} workers, should be {}", found.len(), expected.len())
}

/// The number a kernel gives a visit's worker: its cube's index in the grid, then its unit's in the cube.
pub fn unit_of(visit: &Visit, cubes: [u32; 3], units: [u32; 3]) -> u32 {
    let index = |dim: GpuDim| {
        visit.worker.iter().find(|(mode, _)| *mode == Mode::Gpu(dim)).map_or(0, |(_, index)| *index)
    };
    let linear = |of: fn(Axis) -> GpuDim, size: [u32; 3]| {
        let [x, y, z] = Axis::ALL.map(|axis| index(of(axis)));
        x + size[0] * (y + size[1] * z)
    };
    linear(GpuDim::Grid, cubes) * units.iter().product::<u32>() + linear(GpuDim::Block, units)
}

/// Each visit by the worker, and at the time, that the nest prescribes.
///
/// A launch has so many cubes of so many units; `found` has two words for each row and tree.
pub fn follows(
    case: &Case,
    lowered: &LoweredForest,
    cubes: [u32; 3],
    units: [u32; 3],
    found: &[u32],
) -> Result<(), String> {
    let (batch, trees) = (case.batch as u32, case.forest.trees.len());
    let size = |dim| match dim {
        GpuDim::Grid(axis) => cubes[axis as usize],
        GpuDim::Block(axis) => units[axis as usize],
    };
    let extents = Extents { batch, trees: trees as u32, threads: 1 };
    let mut clocks = HashMap::new();
    let mut seen = 0;
    for visit in lowered.legal().visits(extents, size) {
        let owner = unit_of(&visit, cubes, units);
        let tick = clocks.entry(owner).or_insert(0u32);
        let at = 2 * (visit.row as usize * trees + lowered.order()[visit.tree as usize] as usize);
        if found[at..at + 2] != [owner, *tick] {
            return Err(format!(
                "row {}, tree {} is worker {}'s walk {}, should be worker {owner}'s walk {tick}",
                visit.row,
                visit.tree,
                found[at],
                found[at + 1]
            ));
        }
        *tick += 1;
        seen += 1;
    }
    match seen == batch as usize * trees {
        true => Ok(()),
        false => Err(format!("{seen} walks of {batch} rows and {trees} trees")),
    }
}
