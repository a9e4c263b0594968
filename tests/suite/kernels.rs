//! Kernels on paper: random mapped schedules lowered for a GPU, and their plans carried out unit by unit, without a GPU.
//! Every row's sum is that of all trees, no two units add to one sum at a time, caches hold what is read from them,
//! each unit makes the walks that the loop nest gives it, and each walk ends in the leaf.

use crate::generate;
use crate::runs;

use std::{cell::Cell, collections::BTreeMap};

use fangorn::{
    Error,
    forest::reference,
    plan::{Emit, LoweredForest, Plan, Request, cube::Cube, lower, lower_with},
    schedule::{Device, Extents, Gpu, GpuDim, Preset, Schedule},
};
use generate::{Case, Kind};
use proptest::test_runner::{TestCaseError, TestError};
use runs::{
    launch::{Made, launch},
    packed, unit_of,
};

/// Carries a case out on a device, over at most so many cubes an axis; false if the layout or the device refuses it.
fn on_paper(case: &Case, device: Device, most: u32) -> Result<bool, String> {
    // Slots and traces have no sums, so one device shows what there is.
    let emits: &[Emit] = if device == Device::PORTABLE_GPU {
        &[Emit::Margins, Emit::Slots, Emit::Trace]
    } else {
        &[Emit::Margins]
    };
    for &emit in emits {
        let request = Request { emit, ..runs::request(device, 1) };
        let lowered = match lower_with(&case.forest, &case.schedule, request, Some(&case.profile())) {
            Ok(lowered) => lowered,
            Err(Error::Layout(_) | Error::Schedule(_)) => return Ok(false),
            Err(defect) => return Err(defect.to_string()),
        };
        carried_out(case, &lowered, most).map_err(|e| format!("{e}\n{}", lowered.plan()))?;
    }
    Ok(true)
}

fn carried_out(case: &Case, lowered: &LoweredForest, most: u32) -> Result<(), String> {
    let forest = &case.forest;
    let plan = lowered.cube_plan().map_err(|e| e.to_string())?;
    let extents = Extents { batch: case.batch as u32, trees: forest.trees.len() as u32, threads: 1 };
    let (made, cubes) = launch(plan, extents, most)?;
    let mut found: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
    let slots: Vec<Vec<u32>> = (0..case.batch).map(|r| reference::leaf_slots(forest, case.row(r))).collect();
    let rows = runs::walked_rows(case, lowered);
    let walked = lowered.walked_forest(forest);
    for Made { unit, row, tree, steps } in made {
        found.entry(unit).or_default().push((row, tree));
        let expected = slots[row as usize][lowered.order()[tree as usize] as usize];
        let slot = packed::end(walked, lowered.packed(), tree as usize, &rows[row as usize], steps);
        match slot {
            Ok(slot) if slot == expected => {}
            other => return Err(format!("row {row}, position {tree}: {other:?}, should be {expected}")),
        }
    }
    let size = |dim| match dim {
        GpuDim::Grid(axis) => cubes[axis as usize],
        GpuDim::Block(axis) => plan.own.cube_dim[axis as usize],
    };
    let mut expected: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
    for visit in lowered.legal().visits(extents, size) {
        expected.entry(unit_of(&visit, cubes, plan.own.cube_dim)).or_default().push((visit.row, visit.tree));
    }
    match found == expected {
        true => Ok(()),
        false => Err(runs::difference(&found, &expected)),
    }
}

/// A device that every WebGPU device is, one that has more, and a processor of two cores, whose cubes have two units.
const DEVICES: [Device; 3] = [
    Device::PORTABLE_GPU,
    Device::Gpu(Gpu {
        max_units: 1024,
        max_dim: [1024, 1024, 64],
        shared_bytes: 48 << 10,
        plane_ops: true,
        atomic_add: true,
        ..Gpu::PORTABLE
    }),
    PROCESSOR,
];

const PROCESSOR: Device = Device::Gpu(Gpu {
    max_units: 2,
    max_dim: [2; 3],
    atomic_add: true,
    units_are_threads: true,
    ..Gpu::PORTABLE
});

#[test]
fn mapped_schedules_add_up_on_paper() {
    let cases = generate::wanted(200);
    let check = |case: &Case| {
        let mut accepted = true;
        for (device, most) in DEVICES.into_iter().zip([3, 100, 100]) {
            accepted &= on_paper(case, device, most)?;
        }
        Ok(accepted)
    };
    let accepted = Cell::new(0);
    let result = generate::runner(cases).run(&generate::case(Kind::MappedLoop), |case| {
        accepted.set(accepted.get() + u32::from(check(&case).map_err(TestCaseError::fail)?));
        Ok(())
    });
    match result {
        Ok(()) => assert!(accepted.get() * 10 >= cases * 9, "{} of {cases} are accepted", accepted.get()),
        Err(TestError::Fail(what, case)) => {
            panic!("{what}\nput this into tests/schedules to see it again:\n{}", runs::file_of(&case, check))
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn cases_that_went_wrong_once_add_up_on_paper() {
    let mapped = generate::kept().into_iter().filter(|(_, case)| case.schedule.is_mapped());
    let wrong = |(name, case): (String, Case)| {
        let run = |case: &Case| on_paper(case, Device::PORTABLE_GPU, 3);
        Some(format!("{name}: {}", runs::failure(&case, run)?))
    };
    let wrong: Vec<String> = mapped.filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn presets_add_up_on_paper() {
    for forest in ["40 x depth 3; features 5", "3 x chain 4; features 2; outputs 3", "; features 2"] {
        for preset in Preset::ALL {
            let forest = generate::forest_of(forest);
            let schedule = preset.schedule(&forest, true);
            for (device, batch) in DEVICES.into_iter().flat_map(|d| [1, 33, 130].map(|b| (d, b))) {
                let case = Case::new(forest.clone(), schedule.clone(), batch, 3);
                let accepted =
                    on_paper(&case, device, 3).unwrap_or_else(|e| panic!("{}: {e}", preset.name()));
                assert!(accepted, "{}", preset.name());
            }
        }
    }
}

/// The paper notices: two units at one row, and rows past a cache.
#[test]
fn a_broken_plan_does_not_add_up() {
    let forest = generate::forest_of("12 x depth 1; features 2");
    let text = "tile(batch, b0, b1, 8)\ngpuDimension(b0, grid.x)\ngpuDimension(b1, block.x)\n\
                gpuDimension(tree, block.y)\ncache(b0)\nsharedReduce(tree)";
    let schedule = Schedule::parse(text).expect("a schedule");
    let lowered = lower(&forest, &schedule, runs::request(Device::PORTABLE_GPU, 1)).expect("lowered");
    let extents = Extents { batch: 20, trees: 12, threads: 1 };
    let run = |change: fn(&mut Plan<Cube>)| {
        let mut plan = lowered.cube_plan().expect("a kernel").clone();
        change(&mut plan);
        launch(&plan, extents, 100).map(drop)
    };
    assert_eq!(run(|_| ()), Ok(()));
    let refused = |change, what: &str| {
        let found = run(change).expect_err(what);
        assert!(found.contains(what), "{found}");
    };
    refused(|p| p.own.cached_rows = Some(7), "outside the cache");
    refused(|p| p.own.shared_sums.as_mut().expect("sums").rows = 7, "outside the shared sums");
    refused(|p| p.own.shared_sums.as_mut().expect("sums").axes.clear(), "adds where unit");
    refused(|p| p.own.cube_dim[0] = 7, "not the sum of all trees");
}
