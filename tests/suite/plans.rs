//! The shapes of kernels: launch sizes, shared memory, barriers and partial sums of known schedules.

use crate::generate;

use fangorn::{
    Forest,
    cpu::Program,
    forest::Transform,
    plan::{
        Emit, EpilogueOp, EpiloguePlan, Map, Number, Op, Plan, Request, RowType, Target, Value,
        cube::{Adders, Cube, EpilogueSite, MappedLoop, SharedSums, Statement, Sum},
        lower,
    },
    schedule::{Architecture, Axis, Device, Gpu, GpuDim, Preset, Schedule, Size},
    sum::Contract,
};
use generate::forest_of;

fn plan_as(forest: &Forest, schedule: &Schedule, emit: Emit) -> Plan<Cube> {
    let request = Request { device: Device::PORTABLE_GPU, emit, threads: 1, ..Request::cpu() };
    let lowered = lower(forest, schedule, request).unwrap_or_else(|e| panic!("{e}\n{schedule}"));
    lowered.cube_plan().expect("a kernel").clone()
}

fn plan(forest: &Forest, text: &str) -> Plan<Cube> {
    plan_as(forest, &Schedule::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}")), Emit::Margins)
}

fn preset(forest: &Forest, preset: Preset) -> Plan<Cube> {
    plan_as(forest, &preset.schedule(forest, true), Emit::Margins)
}

/// Each grid axis as the size that its iterations are.
fn grid(plan: &Plan<Cube>) -> [Option<Size>; 3] {
    plan.own.grid.map(|axis| match axis? {
        Value::Const(n) => Some(Size::Const(n)),
        Value::Size(s) => Some(plan.sizes[s as usize].clone()),
    })
}

/// The statements' text, without the head and without indents.
fn body(plan: &Plan<Cube>) -> Vec<String> {
    let text = plan.to_string();
    let is_head = |l: &&str| l.starts_with("plan ") || l.starts_with("  ");
    text.lines().skip_while(is_head).map(|l| l.trim().to_owned()).collect()
}

/// The mapped loops, by name, and whether each has at most one iteration a unit.
fn mapped(ops: &[Op<Cube>]) -> Vec<(String, GpuDim, bool)> {
    let of = |op: &Op<Cube>| match op {
        Op::Loop(l) => {
            let own = match l.map {
                Map::Own(MappedLoop { dim, single }) => Some((l.var.clone(), dim, single)),
                Map::Serial | Map::Unrolled { .. } => None,
            };
            own.into_iter().chain(mapped(&l.body)).collect()
        }
        Op::Own(Statement::Accumulate { body, .. }) => mapped(body),
        _ => Vec::new(),
    };
    ops.iter().flat_map(of).collect()
}

const BLOCK_X: GpuDim = GpuDim::Block(Axis::X);
const BLOCK_Y: GpuDim = GpuDim::Block(Axis::Y);
const GRID_Y: GpuDim = GpuDim::Grid(Axis::Y);

#[test]
fn tahoe_shared_data() {
    let plan = preset(&forest_of("40 x depth 3; features 5"), Preset::TahoeSharedData);
    // 40 trees over units, whose number is a multiple of a plane's; a row of 5 keys is cached.
    assert_eq!(plan.own.cube_dim, [64, 1, 1]);
    assert_eq!(grid(&plan), [Some(Size::Batch), None, None]);
    assert_eq!((plan.own.cached_rows, plan.own.features), (Some(1), 5));
    assert_eq!((plan.shared_bytes(), plan.barriers()), (20, 2));
    assert_eq!(plan.own.shared_sums, None);
    assert_eq!(plan.own.partials.len(), 1);
    assert_eq!(plan.own.partials[0].dims, [BLOCK_X]);
    assert_eq!(
        body(&plan),
        [
            "grid.x for batch (r0, rows) in 0 .. s0 step 1:",
            "barrier; cacheRows 1 x 5 by 64 units; barrier",
            "partial0 += accumulate:",
            "block.x for tree (r1, trees) in 0 .. s1 step 1:",
            "walk until leaf, rows cached",
        ]
    );
    assert!(!plan.sums_once(), "copies are added up by a second launch");
}

#[test]
fn tahoe_direct() {
    let plan = preset(&forest_of("40 x depth 3; features 5"), Preset::TahoeDirect);
    assert_eq!(plan.own.cube_dim, [64, 1, 1]);
    assert_eq!(grid(&plan), [Some(Size::Batch / 64), None, None]);
    assert_eq!((plan.own.cached_rows, plan.shared_bytes(), plan.barriers()), (None, 0, 0));
    assert!(plan.own.partials.is_empty() && plan.sums_once(), "a unit has its row to itself");
}

#[test]
fn the_default_with_many_trees() {
    let plan = preset(&forest_of("40 x depth 3; features 5"), Preset::Default);
    // 8 rows by 32 shares of the trees.
    assert_eq!(plan.own.cube_dim, [8, 32, 1]);
    assert_eq!(grid(&plan), [Some(Size::Batch / 8), None, None]);
    assert_eq!(plan.own.cached_rows, Some(8));
    assert_eq!(plan.own.shared_sums, Some(SharedSums { axes: vec![(Axis::Y, 32)], rows: 8 }));
    // The cache, 8 x 5, and the sums, 32 x 8 x 1.
    assert_eq!(plan.shared_bytes(), 4 * (40 + 256));
    assert!(plan.own.partials.is_empty() && plan.sums_once());
    assert_eq!(
        body(&plan)[..7],
        [
            "grid.x for b0 (r0, rows) in 0 .. s1 step 8:",
            "barrier; cacheRows 8 x 5 by 256 units; barrier",
            "clear shared sums; barrier",
            "block.x once for b1 (r1, rows) in 0 .. min(8, s1-r0) step 1:",
            "shared += accumulate:",
            "block.y once for t1 (r2, trees) in 0 .. 32 step 1:",
            "for t0 (r3, trees) in 0 .. s2-r2 step 32:",
        ]
    );
}

/// Whatever the forest and the device, the default schedules can be carried out, for each size of a batch and for sums
/// of one word and of two.
#[test]
fn the_defaults_by_batch_fit_every_device() {
    let hopper = "sm_90a".parse::<Architecture>().expect("a name").device();
    let limits = |max_units: u32, shared_bytes: u32| {
        Device::Gpu(Gpu { max_units, max_dim: [max_units; 3], shared_bytes, ..Gpu::PORTABLE })
    };
    let devices =
        [Device::PORTABLE_GPU, hopper, limits(1024, 48 << 10), limits(64, 4 << 10), limits(1, 1 << 10)];
    for trees in [1, 2, 7, 100, 600] {
        for features in [1, 30, 129, 968, 2000, 9000] {
            for outputs in [1, 3, 26, 150] {
                let forest = forest_of(&format!("{trees} x depth 2; features {features}; outputs {outputs}"));
                for (device, sum) in devices.iter().flat_map(|d| [(*d, Contract::Any), (*d, Contract::Exact)])
                {
                    let mut row_units = u32::MAX;
                    for (rows, schedule) in Preset::Default.schedules_on(&forest, device).buckets() {
                        let what = format!(
                            "{trees}, {features}, {outputs}, {device:?}, {sum:?}, {rows}: {schedule}"
                        );
                        let request = Request { device, threads: 1, sum, ..Request::cpu() };
                        let lowered = lower(&forest, schedule, request);
                        let lowered = lowered.unwrap_or_else(|e| panic!("{what}: {e}"));
                        let [_, units, _] = lowered.cube_plan().expect("a kernel").own.cube_dim;
                        let notes = lowered.notes();
                        assert!(notes.is_empty(), "{what}: {notes:?}");
                        let wide = features > 129;
                        assert!(wide || units <= row_units, "more rows have no more units each: {what}");
                        row_units = units;
                    }
                }
            }
        }
    }
}

/// Where units are a processor's threads, nothing waits at a barrier, and no cube has more units than there are cores.
#[test]
fn the_default_of_a_processor() {
    let forest = forest_of("40 x depth 3; features 5");
    let cores = Gpu { max_units: 2, max_dim: [2; 3], units_are_threads: true, ..Gpu::PORTABLE };
    let device = Device::Gpu(cores);
    let request = Request { device, threads: 1, ..Request::cpu() };
    let lowered = lower(&forest, &Preset::Default.schedule_on(&forest, device), request).expect("lowered");
    let plan = lowered.cube_plan().expect("a kernel");
    assert_eq!((plan.own.cube_dim, plan.shared_bytes(), plan.barriers()), ([2, 1, 1], 0, 0), "{plan}");
    assert!(plan.own.partials.is_empty() && plan.sums_once(), "a unit has its rows to itself");
    // Any other preset is what it is, in cubes that fit.
    for preset in Preset::ALL {
        let schedule = preset.schedule(&forest, true);
        assert!(preset == Preset::Default || preset.schedule_on(&forest, device) == schedule);
        let lowered = lower(&forest, &schedule, request).expect("lowered");
        assert!(
            lowered.cube_plan().expect("a kernel").own.units() <= 2,
            "{}: {}",
            preset.name(),
            lowered.plan()
        );
    }
}

#[test]
fn the_default_with_more_outputs_or_fewer_trees() {
    let three = preset(&forest_of("40 x depth 3; features 5; outputs 3"), Preset::Default);
    let [rows, units, _] = three.own.cube_dim;
    let cached = three.own.cached_rows.map_or(0, |_| three.cached_stride() * 5);
    assert_eq!(three.shared_bytes(), 4 * (cached + units * rows * 3), "{three}");
    assert!(!body(&three).iter().any(|l| l.contains("accumulate")), "a register holds one output's sum");
    let few = preset(&forest_of("5 x depth 3; features 5"), Preset::Default);
    assert!(few.own.cube_dim[1] <= 4 * 5, "few units of a row are without a tree: {few}");
    let one = preset(&forest_of("1 x depth 3; features 5"), Preset::Default);
    assert!(one.own.cube_dim[1] <= 4, "{one}");
    assert!(few.sums_once() && one.sums_once());
    // 16 KiB hold few rows of 600 columns, or none.
    let wide = preset(&forest_of("31 x depth 3; features 600"), Preset::Default);
    assert!(wide.shared_bytes() <= 16 << 10, "{wide}");
}

#[test]
fn shared_sums_over_two_axes() {
    let plan = plan(
        &forest_of("64 x depth 2; features 3"),
        "tile(batch, b0, b1, 8)\ntile(tree, t0, t1, trees/4)\ntile(t1, t2, t3, 8)\n\
         reorder(b0, b1, t0, t2, t3)\ntile(t2, t4, t5, 2)\nreorder(t4, t5)\ngpuDimension(b0, grid.x)\n\
         gpuDimension(b1, block.x)\ngpuDimension(t0, block.y)\ngpuDimension(t5, block.z)\nsharedReduce(t0)\n\
         sharedReduce(t5)",
    );
    assert_eq!(plan.own.cube_dim, [8, 4, 2]);
    let sums = plan.own.shared_sums.clone().expect("shared sums");
    assert_eq!((sums.axes.clone(), sums.rows, sums.copies()), (vec![(Axis::Y, 4), (Axis::Z, 2)], 8, 8));
    // 8 copies of 8 rows; the clearing's barrier and the reduction's two.
    assert_eq!((plan.shared_bytes(), plan.barriers()), (4 * 64, 3));
    assert!(plan.own.partials.is_empty() && plan.sums_once());
}

/// One directive is enough: every block loop over trees round a shared sum has copies of its own.
#[test]
fn shared_sums_named_once_cover_all_block_loops() {
    let forest = forest_of("64 x depth 2; features 3");
    let text = "tile(tree, t0, t1, 8)\ntile(t0, t2, t3, 4)\nreorder(batch, t3, t1, t2)\n\
                gpuDimension(batch, grid.x)\ngpuDimension(t3, block.y)\ngpuDimension(t1, block.x)\n";
    let [outer, inner] = ["t3", "t1"].map(|t| plan(&forest, &format!("{text}sharedReduce({t})")));
    let sums = SharedSums { axes: vec![(Axis::X, 8), (Axis::Y, 4)], rows: 1 };
    assert_eq!((outer.own.cube_dim, outer.shared_bytes()), ([8, 4, 1], 4 * 32));
    assert_eq!(outer.own.shared_sums, Some(sums));
    assert_eq!(outer, inner);
}

#[test]
fn trees_over_the_grid() {
    let forest = forest_of("64 x depth 2; features 3; outputs 2");
    let text = "tile(batch, b0, b1, 32)\ntile(tree, t0, t1, trees/4)\nreorder(b0, t0, b1, t1)\n\
                gpuDimension(b0, grid.x)\ngpuDimension(t0, grid.y)\ngpuDimension(b1, block.x)\n";
    let plan = plan(&forest, text);
    assert_eq!(grid(&plan), [Some(Size::Batch / 32), Some(Size::Const(4)), None]);
    assert_eq!((plan.own.cube_dim, plan.shared_bytes(), plan.barriers()), ([32, 1, 1], 0, 0));
    assert_eq!(plan.own.partials.len(), 1);
    assert_eq!(plan.own.partials[0].dims, [GRID_Y]);
    assert!(body(&plan).contains(&"partial0 += walk until leaf".to_owned()));
    assert!(!plan.sums_once());
}

#[test]
fn trees_over_the_grid_and_the_block() {
    let forest = forest_of("64 x depth 2; features 3");
    let text = "tile(batch, b0, b1, 32)\ntile(tree, t0, t1, trees/4)\ntile(t1, t2, t3, 4)\n\
                tile(t2, t4, t5, 2)\nreorder(b0, t0, b1, t5, t4, t3)\n\
                gpuDimension(b0, grid.x)\ngpuDimension(t0, grid.y)\ngpuDimension(b1, block.x)\n\
                gpuDimension(t5, block.y)\n";
    let global = plan(&forest, text);
    assert_eq!((global.own.cube_dim, grid(&global)[1].clone()), ([32, 2, 1], Some(Size::Const(4))));
    assert_eq!(global.own.partials[0].dims, [GRID_Y, BLOCK_Y]);
    // The cube adds up its units' sums; what is left over is a copy for each cube.
    let shared = plan(&forest, &format!("{text}sharedReduce(t5)"));
    assert_eq!(shared.own.shared_sums, Some(SharedSums { axes: vec![(Axis::Y, 2)], rows: 32 }));
    assert_eq!((shared.shared_bytes(), shared.barriers()), (4 * 64, 3));
    assert_eq!(shared.own.partials[0].dims, [GRID_Y]);
    let last = body(&shared).pop().expect("a line");
    assert!(
        last.starts_with("barrier; partial0 += reduce shared sums by a unit a row, rows(r2 in 0 .. min(32,"),
        "{last}"
    );
}

#[test]
fn longer_loops_than_units_wrap() {
    // 600 trees over at most 256 units: each takes several.
    let many = plan(
        &forest_of("600 x depth 1; features 2"),
        "gpuDimension(batch, grid.x)\ngpuDimension(tree, block.x)\nsharedReduce(tree)",
    );
    assert_eq!(many.own.cube_dim, [256, 1, 1]);
    assert_eq!(mapped(&many.body)[1], ("tree".to_owned(), BLOCK_X, false));
    assert_eq!(many.shared_bytes(), 4 * 256);
    // A tile as long as the units has one iteration each.
    let exact = plan(
        &forest_of("600 x depth 1; features 2"),
        "tile(tree, t0, t1, 256)\nreorder(batch, t1, t0)\ngpuDimension(batch, grid.x)\ngpuDimension(t1, block.x)",
    );
    assert_eq!(exact.own.cube_dim, [256, 1, 1]);
    assert_eq!(mapped(&exact.body)[1], ("t1".to_owned(), BLOCK_X, true));
    // Rows past a cube's units.
    let rows = plan(
        &forest_of("4 x depth 1; features 2"),
        "tile(batch, b0, b1, 1000)\ngpuDimension(b0, grid.x)\ngpuDimension(b1, block.x)",
    );
    assert_eq!(rows.own.cube_dim, [256, 1, 1]);
    assert_eq!(mapped(&rows.body)[1], ("b1".to_owned(), BLOCK_X, false));
    assert_eq!(grid(&rows)[0], Some(Size::Batch / 1000));
}

/// Two axes that ask for more units than a cube has are cut down together, and both wrap.
#[test]
fn two_long_axes_share_the_units() {
    let plan = plan(
        &forest_of("64 x depth 1; features 2"),
        "tile(batch, b0, b1, 64)\ntile(tree, t0, t1, 64)\nreorder(b0, t0, b1, t1)\ngpuDimension(b0, grid.x)\n\
         gpuDimension(b1, block.x)\ngpuDimension(t1, block.y)",
    );
    assert_eq!(plan.own.cube_dim, [16, 16, 1]);
    assert!(mapped(&plan.body).iter().all(|(_, _, single)| !single));
    assert_eq!(plan.own.partials[0].dims, [BLOCK_Y]);
    // block.z takes 64 units at most.
    let deep = self::plan(
        &forest_of("4 x depth 1; features 2"),
        "tile(batch, b0, b1, 100)\ngpuDimension(b0, grid.x)\ngpuDimension(b1, block.z)",
    );
    assert_eq!(deep.own.cube_dim, [1, 1, 64]);
}

/// A split's branches on one launch dimension: the launch is as long as the longer, and both keep their bounds.
#[test]
fn branches_share_a_dimension() {
    let plan = plan(
        &forest_of("12 x depth 2; features 2"),
        "split(tree, t0, t1, 4)\ntile(t0, t2, t3, 4)\ntile(t1, t4, t5, 8)\ngpuDimension(batch, grid.x)\n\
         gpuDimension(t3, block.x)\ngpuDimension(t5, block.x)",
    );
    assert_eq!(plan.own.cube_dim, [8, 1, 1]);
    let singles = |plan: &Plan<Cube>| {
        mapped(&plan.body).into_iter().map(|(_, _, single)| single).collect::<Vec<bool>>()
    };
    assert_eq!(singles(&plan), [false, true, true]);
    assert_eq!(plan.own.partials.len(), 1, "a unit adds both branches to its own copy");
    // One iteration more than a cube has units, and a unit has a second one.
    let rows = |n: u32| {
        let text = format!("tile(batch, b0, b1, {n})\ngpuDimension(b0, grid.x)\ngpuDimension(b1, block.x)");
        singles(&plan_as(&forest_of("depth 1"), &Schedule::parse(&text).expect("a schedule"), Emit::Margins))
    };
    assert_eq!([rows(256), rows(257)], [[false, true], [false, false]]);
}

/// Leaves and traces need no sums: neither copies nor shared sums, whatever the schedule says of them.
#[test]
fn runs_that_add_nothing_up_keep_no_sums() {
    let forest = forest_of("40 x depth 3; features 5");
    for preset in Preset::ALL {
        for emit in [Emit::Slots, Emit::Trace] {
            let plan = plan_as(&forest, &preset.schedule(&forest, true), emit);
            assert!(
                plan.own.partials.is_empty() && plan.own.shared_sums.is_none(),
                "{}:\n{plan}",
                preset.name()
            );
            let caches = plan.own.cached_rows.unwrap_or(0) * 5 + plan.own.cached_trees.map_or(0, |c| c.words);
            assert_eq!(plan.shared_bytes(), 4 * caches, "{}", preset.name());
        }
    }
}

/// What is a number in the schedule is compiled in, what the forest and the call settle is not: models of one shape
/// share a kernel.
#[test]
fn plans_hold_no_model_values() {
    let sizes = ["40 x depth 3; features 5", "48 x depth 3; features 5"];
    for preset in [Preset::Default, Preset::TahoeDirect, Preset::TahoeSharedData, Preset::Xgboost] {
        let [a, b] = sizes.map(|text| self::preset(&forest_of(text), preset));
        assert_eq!(a, b, "{}", preset.name());
    }
}

/// The same input gives the same plan, and its sums say where they go.
#[test]
fn lowering_is_a_function() {
    let forest = forest_of("40 x depth 3; features 5");
    for preset in Preset::ALL {
        let [a, b] = [(); 2].map(|()| self::preset(&forest, preset));
        assert_eq!((a.to_string(), &a), (b.to_string(), &b), "{}", preset.name());
    }
    let direct = preset(&forest, Preset::TahoeDirect);
    let [Op::Loop(grid)] = &direct.body[..] else { panic!("one loop:\n{direct}") };
    let [Op::Loop(block)] = &grid.body[..] else { panic!("one loop:\n{direct}") };
    assert!(
        matches!(&block.body[..], [Op::Own(Statement::Accumulate { into: Sum::Result { first: true }, .. })]),
        "{direct}"
    );
}

/// One row and many trees are added up by the cube together, or by its planes; rows enough by a unit each.
#[test]
fn units_come_together_where_sums_are_few() {
    let forest = forest_of("1000 x depth 1; features 5");
    let one_row = "gpuDimension(batch, grid.x)\ngpuDimension(tree, block.x)\nsharedReduce(tree)";
    let many = "tile(batch, b0, b1, 32)\ntile(tree, t0, t1, trees/8)\nreorder(b0, b1, t0, t1)\ngpuDimension(b0, grid.x)\n\
                gpuDimension(b1, block.x)\ngpuDimension(t0, block.y)\nsharedReduce(t0)";
    let by = |text: &str, plane_ops: bool| {
        let device = Device::Gpu(Gpu { plane_ops, ..Gpu::PORTABLE });
        let request = Request { device, threads: 1, ..Request::cpu() };
        let lowered = lower(&forest, &Schedule::parse(text).expect("a schedule"), request).expect("lowered");
        let by = |op: &Op<Cube>| match op {
            Op::Own(Statement::ReduceShared { by, .. }) => Some(*by),
            _ => None,
        };
        lowered.cube_plan().expect("a kernel").ops().into_iter().find_map(by).expect("shared sums")
    };
    assert_eq!([false, true].map(|planes| by(one_row, planes)), [Adders::Cube, Adders::Plane]);
    assert_eq!([false, true].map(|planes| by(many, planes)), [Adders::Unit, Adders::Unit]);
}

#[test]
fn ranks_are_made_as_rows_are_cached_where_each_is_cached_once() {
    let forest = forest_of("40 x depth 3; features 5");
    let by_row =
        "tile(batch, b0, b1, 64); gpuDimension(b0, grid.x); gpuDimension(b1, block.x); ranks(u8); cache(b0)";
    let shared_out =
        "tile(batch, b0, b1, 64); tile(tree, t0, t1, 8); reorder(b0, t0, b1, t1); ranks(u8); cache(b0)
                      gpuDimension(b0, grid.x); gpuDimension(b1, block.x)";
    let from = |text: &str| {
        let plan = plan(&forest, &text.replace("; ", "\n"));
        assert_eq!(plan.rows, RowType::U8, "{plan}");
        plan.own.ranks_from
    };
    assert_eq!(from(by_row), Some(RowType::F32));
    assert_eq!(from(&by_row.replace("; cache(b0)", "")), None, "there is no cache");
    assert_eq!(from(shared_out), Some(RowType::F32), "all trees of a cube's rows are its own");
    let other_cubes = format!("{shared_out}; gpuDimension(t0, grid.y)");
    assert_eq!(from(&other_cubes), None, "cubes with other trees cache the same rows");
    let again = shared_out
        .replace("cache(b0)", "cache(b1)")
        .replace("reorder(b0, t0, b1, t1)", "reorder(t0, b0, b1, t1)");
    assert_eq!(from(&again), None, "rows are cached for each group of trees");
}

fn with_epilogue(mut plan: Plan<Cube>, epilogue: EpiloguePlan) -> Plan<Cube> {
    plan.own.epilogue = epilogue;
    plan
}

/// What follows a forest is computed where sums end: by itself or with its row where a row is written once, and behind it
/// otherwise.
#[test]
fn a_tail_is_where_sums_end() {
    let (one, five) =
        (forest_of("40 x depth 3; features 5"), forest_of("40 x depth 3; features 5; outputs 5"));
    let site = |forest: &Forest, schedule: Preset, emit: Emit, steps: &[EpilogueOp], number: Number| {
        let plan = plan_as(forest, &schedule.schedule(forest, true), emit);
        with_epilogue(plan, EpiloguePlan { steps: steps.to_vec(), number, recorded: false }).epilogue_site()
    };
    let (alone, row) = (&[EpilogueOp::Affine { at: 0 }, EpilogueOp::Sigmoid][..], &[EpilogueOp::Softmax][..]);
    for (forest, preset, steps, number, expected) in [
        (&one, Preset::TahoeDirect, alone, Number::F16, EpilogueSite::Sum),
        (&one, Preset::Default, alone, Number::BF16, EpilogueSite::Sum),
        (&five, Preset::Default, alone, Number::F16, EpilogueSite::Sum),
        (&five, Preset::Default, row, Number::F32, EpilogueSite::Row),
        // Halves have no room for the row's sums on the way.
        (&five, Preset::Default, row, Number::F16, EpilogueSite::Launch),
        // A row's sums are several units'.
        (&five, Preset::RapidsFil, alone, Number::F32, EpilogueSite::Sum),
        (&five, Preset::RapidsFil, row, Number::F32, EpilogueSite::Launch),
        // They are added to in memory, or have copies.
        (&five, Preset::TahoeDirect, alone, Number::F32, EpilogueSite::Launch),
        (&one, Preset::Hummingbird, alone, Number::F32, EpilogueSite::Launch),
        (&five, Preset::TahoeDirect, &[], Number::F32, EpilogueSite::Sum),
    ] {
        let found = site(forest, preset, Emit::Margins, steps, number);
        assert_eq!(found, expected, "{} of {} outputs, {steps:?}", preset.name(), forest.outputs);
    }
    for (transform, steps, expected) in [
        (Transform::Softmax, &[][..], EpilogueSite::Row),
        (Transform::Softmax, alone, EpilogueSite::Row),
        (Transform::CumulativeSoftplus, &[][..], EpilogueSite::Row),
        (Transform::Sigmoid, alone, EpilogueSite::Sum),
        (Transform::Argmax, alone, EpilogueSite::Launch),
    ] {
        let found = site(&five, Preset::Default, Emit::Values(transform), steps, Number::F32);
        assert_eq!(found, expected, "{transform:?}, {steps:?}");
    }
    let plan = plan_as(&one, &Preset::TahoeDirect.schedule(&one, true), Emit::Margins);
    let steps = vec![EpilogueOp::Affine { at: 0 }, EpilogueOp::Add { buffer: 0 }];
    let plan = with_epilogue(plan, EpiloguePlan { steps, number: Number::F16, recorded: false });
    let line = "  epilogue (as sums are written): v * n0 + n1 -> v + b0[row, output] -> f16";
    assert!(plan.to_string().lines().any(|l| l == line), "{plan}");
}

/// A plan that is handed to the other target is refused, with what to lower for.
#[test]
fn a_plan_is_of_one_target() {
    let forest = forest_of("4 x depth 2; features 3");
    let schedule = Schedule::parse("gpuDimension(batch, grid.x)").expect("a schedule");
    let lowered = |device| lower(&forest, &schedule, Request { device, threads: 1, ..Request::cpu() });
    let gpu = lowered(Device::PORTABLE_GPU).expect("lowered");
    let refused = Program::new(&forest, &gpu, 1).expect_err("a kernel's plan").to_string();
    assert!(refused.contains("lower it for Device::Cpu"), "{refused}");
    let cpu = lowered(Device::Cpu).expect("lowered");
    let refused = cpu.cube_plan().expect_err("a program's plan").to_string();
    assert!(refused.contains("lower it for Device::Gpu"), "{refused}");
    assert_eq!((gpu.plan().target(), cpu.plan().target()), (Target::Cube, Target::Cpu));
    assert!(gpu.cube_plan().is_ok() && cpu.cpu_plan().is_ok());
}
