//! Exact sums on a cubecl device: the same bytes whatever the schedule and however the batch is cut.

#![cfg(feature = "cube")]

mod generate;
mod runs;
mod support;

use fangorn::{
    Forest,
    cube::Executable,
    forest::{Aggregate, reference},
    plan::{Emit, RowType},
    schedule::{Preset, Schedule},
    sum::Contract,
};
use support::Specimen;

/// Schedules that keep sums in registers, in shared memory, in global copies, in the result, and added to atomically.
fn schedules(forest: &Forest) -> Vec<(String, Schedule)> {
    let preset = |p: Preset| (p.name().to_owned(), p.schedule(forest, true));
    let mut all = [Preset::Default, Preset::TahoeDirect, Preset::RapidsFil].map(preset).to_vec();
    for text in [
        "tile(tree, t0, t1, 7); reorder(t0, batch, t1); gpuDimension(t0, grid.y); gpuDimension(batch, grid.x)",
        "tile(tree, t0, t1, 5); tile(batch, b0, b1, 8); reorder(b0, t0, b1, t1); gpuDimension(b0, grid.x)
         gpuDimension(t0, grid.y); gpuDimension(b1, block.x); atomicReduce(t0); ranks(auto)",
    ] {
        let text = text.replace("; ", "\n");
        all.push((text.clone(), Schedule::parse(&text).expect("a schedule")));
    }
    all
}

/// A model of each kind; all of the zoo's where `FANGORN_ZOO` is `all`, which takes an hour on a software driver.
fn zoo() -> Vec<Specimen> {
    const SOME: [&str; 8] = [
        "churn",
        "vector-leaf",
        "forest-softprob",
        "lightgbm-categories",
        "lightgbm-multiclass",
        "catboost-multiclass-depthwise",
        "sklearn-isolation-forest",
        "dart",
    ];
    match std::env::var("FANGORN_ZOO").is_ok_and(|v| v == "all") {
        true => support::folders().iter().map(|folder| support::specimen(folder)).collect(),
        false => SOME.iter().map(|name| support::named(name)).collect(),
    }
}

#[test]
fn exact_sums_have_the_same_bytes_under_every_schedule_and_split() {
    let Some(client) = runs::gpu::client() else { return };
    for s in zoo() {
        if s.forest.aggregate != Aggregate::Sum || s.count == 0 {
            continue;
        }
        let (rows, outputs) = (s.count.min(40), s.forest.outputs as usize);
        let exact = |r: usize| runs::exact_margins(&s.forest, &reference::slots(&s.forest, s.row(r)));
        let expected: Vec<f32> = (0..rows).flat_map(exact).collect();
        for (name, schedule) in schedules(&s.forest) {
            let made = Executable::with_sum(
                &client,
                &s.forest,
                &schedule,
                Emit::Margins,
                RowType::F32,
                Contract::Exact,
            );
            let exe = match made {
                Ok(exe) => exe,
                Err(refused) if support::lacks_shared_memory(&refused) => continue,
                Err(refused) => panic!("{}, {name}: {refused}", s.name),
            };
            for piece in [rows, 1, 7] {
                let found = (0..rows).step_by(piece).flat_map(|first| {
                    let count = piece.min(rows - first);
                    let values = &s.rows[first * s.columns()..][..count * s.columns()];
                    runs::gpu::words(&client, &exe, &s.forest, values, count, count * outputs)
                });
                let found: Vec<f32> = found.map(f32::from_bits).collect();
                let same = found.iter().map(|v| v.to_bits()).eq(expected.iter().map(|v| v.to_bits()));
                assert!(same, "{}, {name}, pieces of {piece}: {found:?}, should be {expected:?}", s.name);
            }
        }
    }
}
