//! The cubecl target by itself: every preset over many shapes of forest, and the tracing kernel against the loop nest.

#![cfg(feature = "cube")]

use crate::{generate::kinds::SCHEDULES, runs, support};

use cubecl::client::Client;
use fangorn::{
    cube::Executable,
    forest::reference,
    plan::{Emit, Request, cube::Adders, lower},
    ranks::Choice,
    schedule::{Device, Extents, Gpu, GpuDim, Preset, Schedule},
    sum::Contract,
};
use fangorn_kernels::{Buffer, Rows, adders};
use support::{Specimen, assert_margins, named, reference_margins};

fn client() -> Option<Client> {
    use burn::backend::DispatchDevice;
    let (_, device) = support::gpu()?;
    match device.as_dispatch() {
        DispatchDevice::Cube(device) => Some(device.client()),
        _ => None,
    }
}

/// Rows of a specimen, the first `batch` of them, repeated where there are fewer.
fn upload(client: &Client, s: &Specimen, batch: usize) -> Rows {
    let bytes: Vec<u8> = (0..batch).flat_map(|r| s.row(r % s.count)).flat_map(|v| v.to_ne_bytes()).collect();
    Rows {
        words: Buffer {
            handle: client.create_from_slice(if bytes.is_empty() { &[0; 4] } else { &bytes }),
            len: batch * s.columns(),
        },
        batch: batch as u32,
        row_stride: s.columns() as u32,
        column_stride: 1,
        offset: 0,
    }
}

fn run(client: &Client, exe: &Executable, s: &Specimen, batch: usize, width: usize) -> Vec<u32> {
    let leaves: Vec<u8> = s.forest.leaf_values.iter().flat_map(|v| (v.0 as f32).to_ne_bytes()).collect();
    let leaves = Buffer { handle: client.create_from_slice(&leaves), len: s.forest.leaf_values.len() };
    // Not zero, so that an element no kernel writes shows.
    let len = batch * width;
    let out = Buffer { handle: client.create_from_slice(&vec![0xfe; len.max(1) * 4]), len };
    exe.run(&upload(client, s, batch), &leaves, &out);
    let bytes = client.read_one(out.handle).expect("the launch went well");
    bytes.chunks_exact(4).take(batch * width).map(|c| u32::from_ne_bytes([c[0], c[1], c[2], c[3]])).collect()
}

/// Runs a schedule for slots and margins and holds both against the reference; false if the driver can't.
fn check(client: &Client, s: &Specimen, schedule: &Schedule, batches: &[usize], what: &str) -> bool {
    for emit in [Emit::Slots, Emit::Margins] {
        let exe = match Executable::builder(client, &s.forest).schedule(schedule.clone()).emit(emit).build() {
            Ok(exe) => exe,
            Err(refused) if support::lacks_shared_memory(&refused) => return false,
            Err(refused) => panic!("{what}: {refused}"),
        };
        for &batch in batches {
            match emit {
                Emit::Slots => {
                    let found = run(client, &exe, s, batch, s.forest.trees.len());
                    let expected: Vec<u32> = (0..batch)
                        .flat_map(|r| reference::leaf_slots(&s.forest, s.row(r % s.count)))
                        .collect();
                    assert_eq!(found, expected, "{what}, batch {batch}");
                }
                _ => {
                    let found = run(client, &exe, s, batch, s.forest.outputs as usize);
                    let found: Vec<f32> = found.into_iter().map(f32::from_bits).collect();
                    let expected = reference_margins(s);
                    assert_margins(&format!("{what}, batch {batch}"), &s.forest, &found, |r| {
                        expected(r % s.count)
                    });
                }
            }
        }
    }
    true
}

const SHAPES: [&str; 8] = [
    "logistic-missing",
    "softprob",
    "vector-leaf",
    "forest-softprob",
    "category-partition",
    "zero-threshold",
    "uneven",
    "one-feature",
];

#[test]
fn presets_over_shapes_and_batches() {
    let Some(client) = client() else { return };
    for model in SHAPES {
        let s = named(model);
        for preset in Preset::ALL {
            check(
                &client,
                &s,
                &preset.schedule(&s.forest, true),
                &[1, 7, s.count, 130],
                &format!("{model} with {}", preset.name()),
            );
        }
    }
}

#[test]
fn schedules_beyond_the_presets() {
    let Some(client) = client() else { return };
    for model in ["logistic-missing", "softprob", "vector-leaf", "uneven"] {
        let s = named(model);
        for (name, text) in SCHEDULES {
            let schedule = Schedule::parse(text).expect(name);
            check(&client, &s, &schedule, &[1, 33, 130], &format!("{model} with {name}"));
        }
    }
}

#[test]
fn traces_follow_the_loop_nest() {
    let Some(client) = client() else { return };
    let s = named("uneven");
    let mut schedules: Vec<(String, Schedule)> =
        Preset::ALL.iter().map(|p| (p.name().to_owned(), p.schedule(&s.forest, true))).collect();
    schedules.extend(
        SCHEDULES.iter().map(|(name, text)| ((*name).to_owned(), Schedule::parse(text).expect(name))),
    );
    let batch = 70;
    let mut traces: Vec<(String, Vec<u32>)> = Vec::new();
    let mut plans = Vec::new();
    for (name, schedule) in schedules {
        let request = Request {
            device: fangorn::cube::device(&client),
            emit: Emit::Trace,
            threads: 1,
            ..Request::cpu()
        };
        let lowered = match lower(&s.forest, &schedule, request) {
            Ok(lowered) => lowered,
            Err(refused) if support::lacks_shared_memory(&refused) => continue,
            Err(refused) => panic!("{name}: {refused}"),
        };
        let exe = Executable::from_lowered(&client, &s.forest, &lowered).expect(&name);
        let trees = s.forest.trees.len();
        let found = run(&client, &exe, &s, batch, trees * 2);
        let (cubes, units) = (exe.cubes(batch as u32), exe.plan().own.cube_dim);
        let size = |dim| match dim {
            GpuDim::Grid(axis) => cubes[axis as usize],
            GpuDim::Block(axis) => units[axis as usize],
        };
        let extents = Extents { batch: batch as u32, trees: trees as u32, threads: 1 };
        let mut clocks = std::collections::HashMap::new();
        let mut seen = 0;
        for visit in lowered.legal().visits(extents, size) {
            let owner = runs::unit_of(&visit, cubes, units);
            let tick = clocks.entry(owner).or_insert(0u32);
            let at = 2 * (visit.row as usize * trees + lowered.order()[visit.tree as usize] as usize);
            assert_eq!(found[at..at + 2], [owner, *tick], "{name}: row {}, tree {}", visit.row, visit.tree);
            *tick += 1;
            seen += 1;
        }
        assert_eq!(seen, batch * trees, "{name}: each row and tree once");
        plans.push((name.clone(), lowered.plan().clone()));
        traces.push((name, found));
    }
    // A compiler that ignored the schedule would give all the same trace. Two may be alike by their numbers: a unit a
    // row is the same worker in cubes of 32 and of 64.
    let distinct: std::collections::HashSet<&Vec<u32>> = traces.iter().map(|(_, t)| t).collect();
    assert!(distinct.len() * 2 >= traces.len(), "{} traces, {} distinct", traces.len(), distinct.len());
    for (i, (name, plan)) in plans.iter().enumerate() {
        let same = plans[..i].iter().find(|(_, other)| other == plan);
        assert!(same.is_none(), "{name} and {} have the same plan", same.map_or("", |s| &s.0));
    }
}

/// Sums by planes where the device has their operations, and by atomic additions where it has those. The software
/// driver computes plane operations right and does not declare them, so the test says that it does.
#[test]
fn sums_by_planes_and_by_atomic_additions() {
    let Some(client) = client() else { return };
    let Device::Gpu(gpu) = fangorn::cube::device(&client) else { panic!("a cubecl device") };
    let (planes, atomic) = (Gpu { plane_ops: true, ..gpu }, gpu.atomic_add);
    let tahoe = "gpuDimension(batch, grid.x)\ngpuDimension(tree, block.x)\ncache(batch)\nsharedReduce(tree)";
    let grid = "tile(tree, t0, t1, 3)\nreorder(t0, batch, t1)\ngpuDimension(t0, grid.y)\ngpuDimension(batch, grid.x)\n";
    let hierarchy = format!("{grid}gpuDimension(t1, block.x)\nsharedReduce(t1)\natomicReduce(t0)");
    let added = format!("{grid}atomicReduce(t0)");
    for model in ["logistic-missing", "softprob", "vector-leaf", "one-feature"] {
        let s = named(model);
        for (name, text, gpu) in
            [("planes", tahoe, planes), ("hierarchy", &hierarchy, gpu), ("added", &added, gpu)]
        {
            if name == "planes" && gpu.units_are_threads {
                // A plane is one unit there, which has nobody to add up with.
                continue;
            }
            let schedule = Schedule::parse(text).expect(name);
            let request = Request { device: Device::Gpu(gpu), threads: 1, ..Request::cpu() };
            let lowered = match lower(&s.forest, &schedule, request) {
                Ok(lowered) => lowered,
                Err(refused) if support::lacks_shared_memory(&refused) => continue,
                Err(refused) => panic!("{name}: {refused}"),
            };
            let plan = lowered.plan().to_string();
            match name {
                "planes" => assert!(s.forest.outputs > 8 || plan.contains("by a plane a row"), "{plan}"),
                _ => assert_eq!(lowered.cube_plan().expect("a kernel").is_atomic(), atomic, "{plan}"),
            }
            let exe = Executable::from_lowered(&client, &s.forest, &lowered).expect(name);
            for batch in [1, 7, 70] {
                let found = run(&client, &exe, &s, batch, s.forest.outputs as usize);
                let found: Vec<f32> = found.into_iter().map(f32::from_bits).collect();
                let expected = reference_margins(&s);
                let what = format!("{model} with {name}, batch {batch}");
                assert_margins(&what, &s.forest, &found, |r| expected(r % s.count));
            }
        }
    }
}

#[test]
fn long_batches_go_in_pieces() {
    let Some(client) = client() else { return };
    let s = named("softprob");
    let direct = Preset::TahoeDirect.schedule(&s.forest, true);
    let ranked = direct.clone().ranks(Some(Choice::U8));
    let (batch, outputs) = (300, s.forest.outputs as usize);
    for schedule in [direct, ranked.clone(), ranked.cache("b0")] {
        for sum in Contract::ALL {
            let made = Executable::builder(&client, &s.forest).schedule(schedule.clone()).sum(sum).build();
            let exe = match made {
                Ok(exe) => exe,
                Err(refused) if support::lacks_shared_memory(&refused) => continue,
                Err(refused) => panic!("{schedule}, {sum}: {refused}"),
            };
            let whole = run(&client, &exe, &s, batch, outputs);
            let pieces = run(&client, &exe.clone().with_most_rows(128), &s, batch, outputs);
            assert_eq!(whole, pieces, "{schedule}, {sum}");
            let found: Vec<f32> = whole.into_iter().map(f32::from_bits).collect();
            let expected = reference_margins(&s);
            assert_margins(&format!("{schedule}, {sum}"), &s.forest, &found, |r| expected(r % s.count));
        }
    }
}

#[test]
fn no_rows_launch_nothing() {
    let Some(client) = client() else { return };
    let s = named("one-feature");
    let schedule = Preset::TahoeDirect.schedule(&s.forest, true);
    let exe = Executable::builder(&client, &s.forest).schedule(schedule.clone()).build().expect("made");
    assert!(run(&client, &exe, &s, 0, 1).is_empty());
}

#[test]
#[cfg(all(feature = "wgpu", not(feature = "vulkan")))]
fn a_kernel_compares_integers_only() {
    let Some(client) = client() else { return };
    let s = named("category-partition");
    let schedule = Preset::Default.schedule(&s.forest, true);
    let exe = Executable::builder(&client, &s.forest).schedule(schedule.clone()).build().expect("made");
    let text = exe.source().expect("WGSL");
    assert!(text.contains("@compute"), "{text}");
    assert!(text.contains("workgroupBarrier"), "rows are cached:\n{text}");
}

/// Few rows of many copies are added up by cubes together, many rows by a unit each.
#[test]
fn copies_are_added_up_together_where_rows_are_few() {
    assert_eq!(adders(1000, 1), Adders::Cube);
    assert_eq!(adders(1000, 4096), Adders::Unit);
    assert_eq!(adders(8, 1), Adders::Unit);
}

/// Where units are threads, a kernel with barriers keeps one for each unit: no launch may ask for more than there are
/// cores, the addition of many copies least of all.
#[test]
#[cfg(all(feature = "cubecl-cpu", target_os = "linux"))]
fn no_launch_asks_for_more_threads_than_cores() {
    let Some(client) = client() else { return };
    let Device::Gpu(gpu) = fangorn::cube::device(&client) else { panic!("a cubecl device") };
    if !gpu.units_are_threads {
        return;
    }
    let s = named("churn");
    assert_eq!(adders(s.forest.trees.len() as u32, 1), Adders::Cube, "a cube adds up a row's copies");
    check(&client, &s, &Preset::Hummingbird.schedule(&s.forest, true), &[1], "hummingbird");
    let threads = std::fs::read_dir("/proc/self/task").expect("threads").count();
    // The workers; besides them those of the tests and of the runtime.
    assert!(threads < gpu.max_units as usize + 100, "{threads} threads on {} cores", gpu.max_units);
}

/// What a kernel looks like: an unrolled walk is straight-line code that loads each word of a node once a step; a walk
/// with leaf tests has one loop, whose test is on a word that it loads anyway.
#[test]
#[cfg(all(feature = "wgpu", not(feature = "vulkan")))]
fn a_walk_is_as_short_as_it_can_be() {
    let Some(client) = client() else { return };
    let s = named("logistic-missing");
    let text = |walk: &str| {
        let rows = "tile(batch, b0, b1, 64)\ngpuDimension(b0, grid.x)\ngpuDimension(b1, block.x)\n";
        let schedule = Schedule::parse(&format!("{rows}{walk}")).expect("a schedule");
        let exe = Executable::builder(&client, &s.forest).schedule(schedule.clone()).build().expect("made");
        exe.source().expect("WGSL")
    };
    let count = |text: &str, what: &str| text.matches(what).count();
    // Loops over cubes' rows and over trees; a branch out of each, and one for units without a row.
    let plain = text("layout(array)\nunrollWalk(tree, 0)");
    assert_eq!((count(&plain, "loop {"), count(&plain, "if ")), (3, 4), "{plain}");
    let [one, two] = [1, 2].map(|n| text(&format!("layout(array)\npad(10000)\nunrollWalk(tree, {n})")));
    assert_eq!(count(&one, "loop {"), count(&two, "loop {"), "a step is no loop");
    assert_eq!(count(&one, "if "), count(&two, "if "), "a step is no branch");
    // Two words of the node, and the row's value.
    let loads =
        |text: &str| count(text, "let v") - count(&text.replace("&(*", ""), "let v") + count(text, "&(*");
    assert_eq!(loads(&two) - loads(&one), 3, "loads of a step");
}
