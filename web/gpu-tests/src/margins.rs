//! What a walk decides, how leaf values are added up, and what margins become.

use fangorn::{
    cube::Executable,
    forest::{Aggregate, CompareType, Transform, reference},
    plan::{Emit, RowType},
    ranks::Choice,
    schedule::{Preset, Schedule},
    sum::Contract,
};

use crate::{
    compare::assert_values,
    generate::{
        Case, forest_of,
        kinds::{edges, predicates, schedules_of_sums, small, small_rows, stumps},
    },
    gpu::{Gpu, Placement, ROW_TYPES, as_floats, stored},
    runs,
    schedules::same_producer_margins,
};

/// Every predicate, of numbers at and beside its thresholds, and of every f16 and bf16.
pub async fn every_predicate_and_every_half(gpu: &Gpu) -> String {
    let mut decisions = 0;
    for compare in [CompareType::F32, CompareType::F64] {
        let forest = predicates(compare);
        for of in ROW_TYPES {
            let x: Vec<f32> = match of {
                RowType::F16 => (0..=u16::MAX).map(|bits| half::f16::from_bits(bits).to_f32()).collect(),
                RowType::BF16 => (0..=u16::MAX).map(|bits| half::bf16::from_bits(bits).to_f32()).collect(),
                _ => edges(),
            };
            let slots = Executable::builder(&gpu.client, &forest).emit(Emit::Slots).rows(of).build();
            let rows = gpu.rows(&x, 1, of, Placement::Rows);
            let found = gpu.run(&slots.expect("the default"), &forest, &rows, forest.trees.len()).await;
            let x = stored(&x, of);
            for (x, found) in x.iter().zip(found.chunks_exact(forest.trees.len())) {
                let expected = reference::leaf_slots(&forest, &[*x]);
                if let Some(t) = (0..found.len()).find(|t| found[*t] != expected[*t]) {
                    panic!("x = {x:e} of {of:?} at {:?}", forest.trees[t].nodes[0]);
                }
                decisions += found.len();
            }
        }
    }
    format!("{decisions} decisions")
}

/// Every transform: where one launch does everything, and where a last launch transforms.
pub async fn every_transform(gpu: &Gpu) -> String {
    let (x, mut ran) = (small_rows(), 0);
    for transform in Transform::ALL {
        for outputs in transform.outputs().map_or_else(|| vec![1, 3], |only| vec![only]) {
            let forest = small(transform, Aggregate::Sum, false, outputs);
            let width = transform.width(outputs) as usize;
            for (sum, preset) in [
                (Contract::Any, Preset::Default),
                (Contract::Any, Preset::RapidsFil),
                (Contract::Tree, Preset::TahoeDirect),
            ] {
                let schedule = preset.schedule_on(&forest, gpu.device());
                let values = Executable::builder(&gpu.client, &forest).schedule(schedule).sum(sum);
                let values = values.emit(Emit::Values(transform)).build().expect("a preset");
                let rows = gpu.rows(&x, 2, RowType::F32, Placement::Rows);
                let found = as_floats(gpu.run(&values, &forest, &rows, width).await);
                let what = format!("{transform:?} of {outputs} outputs, {sum}, {}", preset.name());
                assert_eq!(found.len(), x.len() / 2 * width, "{what}");
                assert_values(&what, &forest, &found, |r| reference::margins(&forest, &x[2 * r..][..2]));
                ran += 1;
            }
        }
    }
    format!("{} transforms, {ran} kernels", Transform::ALL.len())
}

pub async fn the_least_and_the_largest_leaf(gpu: &Gpu) -> String {
    let (x, mut ran) = (small_rows(), 0);
    for (aggregate, vectors) in
        [Aggregate::Min, Aggregate::Max].into_iter().flat_map(|a| [(a, false), (a, true)])
    {
        let forest = small(Transform::Identity, aggregate, vectors, 3);
        let expected: Vec<f32> =
            x.chunks(2).flat_map(|row| reference::margins(&forest, row)).map(|m| m as f32).collect();
        for preset in [Preset::Default, Preset::TahoeDirect, Preset::RapidsFil, Preset::Hummingbird] {
            let schedule = preset.schedule_on(&forest, gpu.device());
            let margins = Executable::builder(&gpu.client, &forest).schedule(schedule).build();
            let rows = gpu.rows(&x, 2, RowType::F32, Placement::Columns);
            let found = gpu.run(&margins.expect("a preset"), &forest, &rows, 3).await;
            assert_eq!(as_floats(found), expected, "{aggregate:?} with {}", preset.name());
            ran += 1;
        }
    }
    format!("{ran} kernels")
}

/// Doubles of every magnitude, added in integers as the standard says, however the batch is cut.
pub async fn sums_of_doubles(gpu: &Gpu) -> String {
    let mut ran = 0;
    for (library, seed) in [("lightgbm", 0), ("xgboost", 1)] {
        let (forest, rows) = stumps(library, seed);
        for (name, schedule) in schedules_of_sums(&forest) {
            let made =
                Executable::builder(&gpu.client, &forest).schedule(schedule.clone()).sum(Contract::Tree);
            let made = made.build().unwrap_or_else(|e| panic!("{name}: {e}"));
            for piece in [16, 1, 7] {
                for rows in rows.chunks(4 * piece) {
                    let case = Case {
                        batch: rows.len() / 4,
                        rows: rows.to_vec(),
                        ..Case::new(forest.clone(), schedule.clone(), 0, 0)
                    };
                    let on_gpu = gpu.rows(rows, 4, RowType::F32, Placement::Rows);
                    let found = as_floats(gpu.run(&made, &forest, &on_gpu, 1).await);
                    let same = same_producer_margins(&case, &found);
                    same.unwrap_or_else(|e| panic!("{library}, seed {seed}, {name}, pieces of {piece}: {e}"));
                }
            }
            ran += 1;
        }
    }
    format!("{ran} forests and schedules")
}

/// Launches of fewer rows give the same margins, from rows and from ranks that a launch or the row cache makes.
pub async fn batches_in_pieces(gpu: &Gpu) -> String {
    let forest = forest_of("30 x depth 5, 10 x chain 6; features 7; outputs 5");
    let direct = Preset::TahoeDirect.schedule_on(&forest, gpu.device());
    let ranked = direct.clone().ranks(Some(Choice::U8));
    let wide = Schedule::parse(&format!("{direct}\nranks(u16)")).expect("a schedule");
    let case = Case::new(forest.clone(), direct.clone(), 300, 5);
    let rows = gpu.rows(&case.rows, 7, RowType::F32, Placement::Apart);
    let mut ran = 0;
    for schedule in [direct, ranked.clone(), wide, ranked.cache("b0")] {
        for sum in Contract::ALL {
            let made = Executable::builder(&gpu.client, &forest).schedule(schedule.clone()).sum(sum).build();
            let made = made.unwrap_or_else(|e| panic!("{schedule}: {e}"));
            let whole = gpu.run(&made, &forest, &rows, 5).await;
            let pieces = gpu.run(&made.with_most_rows(128), &forest, &rows, 5).await;
            assert!(whole == pieces, "{schedule}, {sum}");
            let held = runs::near_margins_without_denormals(&case, &as_floats(whole));
            held.unwrap_or_else(|e| panic!("{schedule}, {sum}: {e}"));
            ran += 1;
        }
    }
    format!("{ran} kernels")
}

/// Sums by planes where the GPU has their operations, and by atomic additions where it has those.
pub async fn sums_of_planes_and_grids(gpu: &Gpu) -> String {
    let tahoe = "gpuDimension(batch, grid.x)\ngpuDimension(tree, block.x)\ncache(batch)\nsharedReduce(tree)";
    let grid = "tile(tree, t0, t1, 3)\nreorder(t0, batch, t1)\ngpuDimension(t0, grid.y)\ngpuDimension(batch, grid.x)\n";
    let hierarchy = format!("{grid}gpuDimension(t1, block.x)\nsharedReduce(t1)\natomicReduce(t0)");
    let (mut planes, mut atomic, mut ran) = (0, 0, 0);
    for line in ["30 x depth 5; features 4", "7 x depth 3, 20 x chain 4; features 4; outputs 5; vector"] {
        let forest = forest_of(line);
        for text in [tahoe, &hierarchy, &format!("{grid}atomicReduce(t0)")] {
            let schedule = Schedule::parse(text).expect("a schedule");
            let made = Executable::builder(&gpu.client, &forest).schedule(schedule.clone()).build();
            let made = made.unwrap_or_else(|e| panic!("{text}: {e}"));
            planes += usize::from(made.plan().to_string().contains("by a plane a row"));
            atomic += usize::from(made.plan().is_atomic());
            for batch in [1, 7, 70] {
                let case = Case::new(forest.clone(), schedule.clone(), batch, 3);
                let rows = gpu.rows(&case.rows, 4, RowType::F32, Placement::Rows);
                let found = as_floats(gpu.run(&made, &forest, &rows, forest.outputs as usize).await);
                let held = runs::near_margins_without_denormals(&case, &found);
                held.unwrap_or_else(|e| panic!("{line}, {batch} rows, {text}: {e}"));
            }
            ran += 1;
        }
    }
    format!("{ran} kernels, {planes} by planes, {atomic} by atomic additions")
}
