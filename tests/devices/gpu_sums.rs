//! Contracts of sums on a cubecl device: the same bytes whatever the schedule and however the batch is cut.

#![cfg(feature = "cube")]

use crate::runs;
use crate::support;

use fangorn::{
    Forest,
    cube::Executable,
    forest::{Accumulator, Aggregate, CompareType, Side, Targets, reference},
    op::ForestOp,
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
        for (name, schedule) in schedules(&s.forest) {
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

/// Stumps with leaves of every magnitude, each half of them the other's opposite but for the last bit.
fn stumps(library: &str, seed: u64) -> Specimen {
    let mut state = seed;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ (state >> 29)
    };
    let mut value = || {
        let exponent = [1023, 1023, 1000, 1050, 880, 1100, 1, 0][(random() % 8) as usize] + random() % 40;
        f64::from_bits((random() & (1 << 63 | ((1 << 52) - 1))) | exponent << 52)
    };
    let base = value();
    let mut forest = Forest::builder(4, 1).producer(library, "1", "regression").base_score([base]);
    let mut last = 0.0f64;
    for t in 0..96 {
        let mut tree = forest.tree(0);
        tree.split(t % 4, CompareType::F32.less(0.5), Side::Left, 1, 2);
        let left = if t % 3 == 2 { -last.next_up() } else { value() };
        last = left;
        tree.leaf(1, &[left]);
        tree.leaf(2, &[value()]);
    }
    let rows = (0..16 * 4).map(|i| f32::from(u8::from(i >> (2 + i % 4) & 1 == 1))).collect();
    Specimen {
        name: format!("stumps of {library}, seed {seed}"),
        model: Default::default(),
        forest: forest.build().expect("a forest"),
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
    let models: Vec<Specimen> =
        ["lightgbm", "xgboost"].into_iter().flat_map(|l| (0..4).map(move |seed| stumps(l, seed))).collect();
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
