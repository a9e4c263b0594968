//! Leaf slots, margins and traces, by schedules of every kind.

use fangorn::{
    Error, Forest,
    cube::Executable,
    forest::{Aggregate, reference},
    plan::{Emit, Request, RowType, lower_with},
    schedule::{Preset, Schedule},
    sum::Contract,
};
use proptest::{prelude::*, strategy::ValueTree};

use crate::{
    generate::{self, Case, Kind, kinds::SCHEDULES},
    gpu::{Gpu, PLACEMENTS, Placement, ROW_TYPES, as_floats, stored},
    runs,
};

/// Random schedules: leaf slots, margins and traces of batches of several sizes.
pub async fn random_schedules(gpu: &Gpu) -> String {
    let mut runner = generate::runner(1);
    let (mut ran, mut batches, mut refused) = (0, 0, 0);
    let wanted = 30;
    while ran < wanted {
        let drawn = generate::case_of_batches(Kind::MappedLoop).new_tree(&mut runner).expect("a case");
        let case = drawn.current();
        match random_schedule(gpu, &case).await {
            Ok(true) => (ran, batches) = (ran + 1, batches + case.batches().len()),
            Ok(false) => {
                refused += 1;
                assert!(refused < wanted, "{refused} cases are refused, {ran} ran");
            }
            Err(wrong) => panic!("{wrong}\n{}", case.to_text()),
        }
    }
    format!("{ran} schedules, {batches} batches, {refused} schedules refused by name")
}

/// Runs a case for everything that a kernel can emit. Returns whether the schedule is one for a GPU.
async fn random_schedule(gpu: &Gpu, case: &Case) -> Result<bool, String> {
    let Case { forest, schedule, .. } = case;
    for emit in [Emit::Slots, Emit::Margins, Emit::Trace] {
        // Whole numbers take the place of floats in one case of three.
        let exact = emit == Emit::Margins && (case.rows.len() + case.batch).is_multiple_of(3);
        let sum = if exact { Contract::Exact } else { Contract::Any };
        let request = Request { device: gpu.device(), emit, threads: 1, sum, ..Request::cpu() };
        let lowered = match lower_with(forest, schedule, request, Some(&case.profile())) {
            Ok(lowered) => lowered,
            Err(Error::Layout(_)) => return Ok(false),
            Err(Error::Schedule(_)) if !schedule.is_mapped() || schedule.tiles().is_some() => {
                return Ok(false);
            }
            Err(refused) => return Err(refused.to_string()),
        };
        let executable =
            Executable::from_lowered(&gpu.client, forest, &lowered).map_err(|e| e.to_string())?;
        let width = emit.width(forest.outputs, forest.trees.len() as u32) as usize;
        for batch in case.batches() {
            let case = case.first(batch);
            let rows = gpu.rows(&case.rows, forest.features.len(), RowType::F32, Placement::Rows);
            let found = gpu.run(&executable, forest, &rows, width).await;
            let what = |e: String| format!("{emit:?} of {batch} rows: {e}");
            match emit {
                Emit::Slots => runs::same_slots(&case, &found).map_err(what)?,
                Emit::Margins | Emit::Values(_) => {
                    let found = as_floats(found);
                    if exact {
                        runs::same_margins(&case, &found).map_err(what)?;
                    }
                    runs::near_margins_without_denormals(&case, &found).map_err(what)?;
                }
                Emit::Trace => {
                    // Nothing is launched for no rows.
                    let cubes = if batch == 0 { [1; 3] } else { executable.cubes(batch as u32) };
                    let units = executable.plan().own.cube_dim;
                    runs::follows(&case, &lowered, cubes, units, &found).map_err(what)?;
                }
            }
        }
    }
    Ok(true)
}

/// Every preset, the default one for every size of a batch, on random forests: leaf slots of each type of rows, and
/// margins under each contract.
pub async fn presets(gpu: &Gpu) -> String {
    let (mut runner, mut ran, mut contracts) = (generate::runner(2), 0, 0);
    loop {
        let drawn = (generate::forest(), any::<u64>()).new_tree(&mut runner).expect("a forest");
        let (forest, seed) = drawn.current();
        let by_batch = Preset::Default.schedules_on(&forest, gpu.device());
        let default = by_batch.buckets().map(|(_, schedule)| schedule.clone());
        let others = Preset::ALL.into_iter().filter(|preset| *preset != Preset::Default);
        let mut schedules = default.chain(others.map(|preset| preset.schedule_on(&forest, gpu.device())));
        let Some(schedule) = schedules.nth(ran) else { break };
        contracts += by_schedule(gpu, &forest, &schedule, ran, seed).await;
        ran += 1;
    }
    format!("{ran} forests and schedules, {contracts} contracts of sums")
}

/// Schedules with trees over the grid, strides, splits, two block axes, and lanes of rows.
pub async fn schedules_beyond_the_presets(gpu: &Gpu) -> String {
    let (mut runner, mut contracts) = (generate::runner(3), 0);
    for (case, (_, text)) in SCHEDULES.iter().enumerate() {
        let drawn = (generate::forest(), any::<u64>()).new_tree(&mut runner).expect("a forest");
        let (forest, seed) = drawn.current();
        contracts += by_schedule(gpu, &forest, &Schedule::parse(text).expect("a schedule"), case, seed).await;
    }
    format!("{} forests and schedules, {contracts} contracts of sums", SCHEDULES.len())
}

/// Runs a forest with a schedule. Returns how many contracts its sums keep.
async fn by_schedule(gpu: &Gpu, forest: &Forest, schedule: &Schedule, case: usize, seed: u64) -> usize {
    let columns = forest.features.len();
    let what = || format!("case {case}\n{schedule}\n{}", forest.to_text());
    let case_of = Case::new(forest.clone(), schedule.clone(), 67, seed);
    let build = |emit, of, sum| {
        let builder = Executable::builder(&gpu.client, forest).schedule(schedule.clone());
        builder.emit(emit).rows(of).sum(sum).build()
    };
    let (of, placement) = (ROW_TYPES[case % 3], PLACEMENTS[case / 3 % 3]);
    let slots = build(Emit::Slots, of, Contract::Any).unwrap_or_else(|e| panic!("{e}: {}", what()));
    let rows = gpu.rows(&case_of.rows, columns, of, placement);
    let found = gpu.run(&slots, forest, &rows, forest.trees.len()).await;
    let narrow = Case { rows: stored(&case_of.rows, of), ..case_of.clone() };
    runs::same_slots(&narrow, &found).unwrap_or_else(|e| panic!("{of:?}, {placement:?}, {e}: {}", what()));

    let mut kept = 0;
    for sum in Contract::ALL {
        let margins = match build(Emit::Margins, RowType::F32, sum) {
            Ok(margins) => margins,
            // Sums of some forests are exact in no number of bits that a GPU adds.
            Err(refused) if sum == Contract::Exact => {
                assert!(refused.to_string().starts_with("sum"), "{refused}: {}", what());
                continue;
            }
            Err(refused) => panic!("{refused}: {}", what()),
        };
        let rows = gpu.rows(&case_of.rows, columns, RowType::F32, Placement::Rows);
        let found = as_floats(gpu.run(&margins, forest, &rows, forest.outputs as usize).await);
        let held = match sum {
            Contract::Any => runs::near_margins_without_denormals(&case_of, &found),
            Contract::Exact => runs::same_margins(&case_of, &found),
            Contract::Tree if forest.aggregate == Aggregate::Sum => same_producer_margins(&case_of, &found),
            // The least and the largest leaf have no order, and a GPU may take a denormal leaf for zero.
            Contract::Tree => runs::near_margins_without_denormals(&case_of, &found),
        };
        held.unwrap_or_else(|e| panic!("{sum}, {e}: {}", what()));
        kept += 1;
    }
    kept
}

/// Margins to the bit, added in the producer's order.
pub fn same_producer_margins(case: &Case, found: &[f32]) -> Result<(), String> {
    let outputs = case.forest.outputs as usize;
    for (r, found) in found.chunks_exact(outputs).enumerate() {
        let slots = reference::leaf_slots(&case.forest, case.row(r));
        let expected = reference::producer_margins(&case.forest, &slots, None);
        for (o, (found, expected)) in found.iter().zip(expected).enumerate() {
            if found.to_bits() != (expected as f32).to_bits() {
                return Err(format!(
                    "row {r}, output {o}: {found:?}, should be exactly {:?}",
                    expected as f32
                ));
            }
        }
    }
    Ok(())
}
