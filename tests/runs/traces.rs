//! The order of walks: on the CPU as it was, and as the loop nest prescribes it.

use std::collections::BTreeMap;

use fangorn::{
    cpu::{Program, Rows, worker},
    mir::{Mode, Visit},
    plan::{Axis, Extents, GpuDim, lower_with},
    schedule::Device,
};

use super::request;
use crate::generate::Case;

/// Each worker's walks, `(row, tree)`, in the order it makes them.
pub type Walks = BTreeMap<u32, Vec<(u32, u32)>>;

/// What the nest prescribes. A walk that it has twice, or not at all, is an error.
pub fn prescribed(case: &Case, threads: u32) -> Result<Walks, String> {
    let Case { forest, schedule, batch, .. } = case;
    let lowered = lower_with(forest, schedule, request(Device::Cpu, threads), Some(&case.profile()))
        .map_err(|e| e.to_string())?;
    let trees = forest.trees.len();
    let extents = Extents { batch: *batch as u32, trees: trees as u32, threads };
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

/// What a run did; a walk made twice, or not at all, is an error.
pub fn recorded(case: &Case, threads: u32) -> Result<Walks, String> {
    let Case { forest, schedule, batch, .. } = case;
    let lowered = lower_with(forest, schedule, request(Device::Cpu, threads), Some(&case.profile()))
        .map_err(|e| e.to_string())?;
    let program = Program::new(forest, &lowered, threads).map_err(|e| e.to_string())?;
    let (columns, trees) = (forest.features.len(), forest.trees.len());
    let rows = Rows::strided(&case.rows, [*batch, columns], [columns, 1]).map_err(|e| e.to_string())?;
    // A walk that is left out keeps a tick that no run gives.
    let mut trace = vec![u32::MAX; batch * trees * 2];
    program.trace(&rows, &mut trace).map_err(|e| e.to_string())?;
    let mut ticks = Vec::new();
    for (at, record) in trace.chunks_exact(2).enumerate() {
        ticks.push((record[1], record[0], (at / trees) as u32, (at % trees) as u32));
    }
    ticks.sort_unstable();
    // The clock ticks once a walk: a walk made twice, or not at all, leaves a gap.
    if let Some((k, (tick, _, row, tree))) = ticks.iter().enumerate().find(|(k, t)| t.0 != *k as u32) {
        return Err(format!("tick {k} of {} is lost; row {row}, tree {tree} has {tick}", batch * trees));
    }
    let mut walks = Walks::new();
    ticks.into_iter().for_each(|(_, who, row, tree)| walks.entry(who).or_default().push((row, tree)));
    Ok(walks)
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

/// The number a kernel gives a visit's worker: its cube's place in the grid, then its unit's in the cube.
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
