//! Contracts of sums on a cubecl device: the same bytes whatever the schedule and however the batch is cut.

#![cfg(feature = "cube")]

use crate::{
    generate::kinds::{schedules_of_sums, stumps},
    runs, support,
};

use fangorn::{
    Forest,
    cube::Executable,
    forest::{Accumulator, Aggregate, Targets, reference},
    op::ForestOp,
    sum::Contract,
};
use support::Specimen;

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

/// What `margins` gives for each of the first rows of each model, against every schedule and split.
fn same_bytes(models: &[Specimen], sum: Contract, margins: impl Fn(&Forest, &[u32]) -> Vec<f32>) {
    let Some(client) = runs::gpu::client() else { return };
    for s in models {
        if s.forest.aggregate != Aggregate::Sum || s.count == 0 {
            continue;
        }
        let (rows, outputs) = (s.count.min(40), s.forest.outputs as usize);
        let expected: Vec<f32> =
            (0..rows).flat_map(|r| margins(&s.forest, &reference::leaf_slots(&s.forest, s.row(r)))).collect();
        for (name, schedule) in schedules_of_sums(&s.forest) {
            let made = Executable::builder(&client, &s.forest).schedule(schedule.clone()).sum(sum).build();
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

#[test]
fn exact_sums_have_the_same_bytes_under_every_schedule_and_split() {
    same_bytes(&zoo(), Contract::Exact, runs::exact_margins);
}

/// The base score, then each tree's leaf, added as the producer adds.
fn in_order(forest: &Forest, slots: &[u32]) -> Vec<f32> {
    let single = Accumulator::of(forest) == Accumulator::F32;
    let rounded = |v: f64| if single { f64::from(v as f32) } else { v };
    let mut sums: Vec<f64> = forest.base_score.iter().map(|b| rounded(b.0)).collect();
    for (t, slot) in slots.iter().enumerate() {
        for (lane, leaf) in forest.leaf(*slot).iter().enumerate() {
            let output = match &forest.targets {
                Targets::One(outputs) => outputs[t] as usize,
                Targets::All => lane,
            };
            // Rounding the f64 sum of two f32 to f32 gives their f32 sum.
            sums[output] = rounded(sums[output] + rounded(leaf.0));
        }
    }
    sums.into_iter().map(|v| v as f32).collect()
}

#[test]
fn sums_in_the_order_of_the_trees_have_the_producers_bytes() {
    same_bytes(&zoo(), Contract::Tree, in_order);
}

/// [`stumps`] as a model with its rows.
fn specimen_of_stumps(library: &str, seed: u64) -> Specimen {
    let (forest, rows) = stumps(library, seed);
    Specimen {
        name: format!("stumps of {library}, seed {seed}"),
        model: Default::default(),
        forest,
        rows,
        count: 16,
        margin: Vec::new(),
        output: support::Output::Values(Vec::new()),
        leaves: Vec::new(),
        wide: None,
    }
}

#[test]
fn doubles_are_added_in_integers_as_the_standard_says() {
    let models: Vec<Specimen> = ["lightgbm", "xgboost"]
        .into_iter()
        .flat_map(|l| (0..4).map(move |seed| specimen_of_stumps(l, seed)))
        .collect();
    same_bytes(&models, Contract::Tree, in_order);
}

#[test]
fn operators_keep_contracts_on_every_backend() {
    use burn::tensor::{Tensor, TensorData};
    type Margins = fn(&Forest, &[u32]) -> Vec<f32>;
    let kept: [(Contract, Margins); 2] = [(Contract::Exact, runs::exact_margins), (Contract::Tree, in_order)];
    for s in zoo().iter().filter(|s| s.forest.aggregate == Aggregate::Sum && s.count > 0) {
        let rows = s.count.min(40);
        for (sum, margins) in kept {
            let expected: Vec<u32> = (0..rows)
                .flat_map(|r| margins(&s.forest, &reference::leaf_slots(&s.forest, s.row(r))))
                .map(f32::to_bits)
                .collect();
            for (name, device) in support::devices() {
                let op = ForestOp::builder(s.forest.clone()).sum(sum).build().expect("made");
                let op = std::sync::Arc::new(op);
                for piece in [rows, 1, 7] {
                    let of_piece = |first: usize| {
                        let count = piece.min(rows - first);
                        let values = s.rows[first * s.columns()..][..count * s.columns()].to_vec();
                        let x =
                            Tensor::<2>::from_data(TensorData::new(values, [count, s.columns()]), &device);
                        let margins = op.margins(x).expect("margins").into_data();
                        margins.try_to_vec::<f32>().expect("floats").into_iter().map(f32::to_bits)
                    };
                    let found: Vec<u32> = (0..rows).step_by(piece).flat_map(of_piece).collect();
                    assert!(found == expected, "{}, {sum}, {name}, pieces of {piece}", s.name);
                }
            }
        }
    }
}
