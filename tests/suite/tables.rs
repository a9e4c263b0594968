//! Every engine of the CPU, forced in turn, on forests and rows as people have them: columns of mixed kinds side by side, batches
//! with every remainder of a block, rows of `f32` and `f64` in any strides, against the reference interpreter leaf by leaf.
//!
//! `FANGORN_CASES` asks for another number of tables than a change is held to, `FANGORN_SEED` for others than the usual ones, and
//! `FANGORN_ISA` for another instruction set. A failure names the seed that shows it again.

use crate::generate;

use std::{collections::BTreeMap, time::Instant};

use fangorn::{
    Forest, Predictor,
    check::SelfCheck,
    cpu::{Row, Rows},
    forest::reference,
};
use generate::engines::{TABLES, engines, serves, usual};

/// How rows lie in memory.
const STORAGES: [&str; 3] = ["row after row", "further apart", "column after column"];

/// The values of rows as they lie there, with their strides.
fn laid<T: Copy + Default>(values: &[T], columns: usize, storage: &str) -> (Vec<T>, [usize; 2]) {
    let count = values.len() / columns;
    match storage {
        "row after row" => (values.to_vec(), [columns, 1]),
        "further apart" => {
            let apart = columns + 3;
            let mut out = vec![T::default(); count * apart];
            for (row, out) in values.chunks_exact(columns).zip(out.chunks_exact_mut(apart)) {
                out[..columns].copy_from_slice(row);
            }
            (out, [apart, 1])
        }
        _ => {
            let at = |i: usize| values[i % count * columns + i / count];
            ((0..values.len()).map(at).collect(), [1, count])
        }
    }
}

fn check<T: Row + Default>(
    what: &str,
    predictor: &Predictor,
    forest: &Forest,
    (values, slots): (&[T], &[u32]),
    (first, batch): (usize, usize),
    storage: &str,
) {
    let (columns, trees, outputs) = (forest.features.len(), forest.trees.len(), forest.outputs as usize);
    let (laid, strides) = laid(&values[first * columns..][..batch * columns], columns, storage);
    let rows = Rows::strided(&laid, [batch, columns], strides).expect("rows");
    let expected = &slots[first * trees..][..batch * trees];
    let what = || format!("{what}, rows {first} to {} {storage}", first + batch);
    let found = predictor.leaf_slots(&rows).unwrap_or_else(|e| panic!("{}: {e}", what()));
    if let Some(at) = found.iter().zip(expected).position(|(found, expected)| found != expected) {
        let (r, t) = (at / trees, at % trees);
        panic!("{}: row {r}, tree {t}: slot {}, should be {}", what(), found[at], expected[at]);
    }
    let bound = forest.sum_bound();
    let margins = predictor.margins(&rows).unwrap_or_else(|e| panic!("{}: {e}", what()));
    for (r, found) in margins.chunks_exact(outputs).enumerate() {
        let expected = reference::margins_of(forest, &expected[r * trees..][..trees]);
        for ((found, expected), bound) in found.iter().zip(expected).zip(&bound) {
            let off = (f64::from(*found) - expected).abs();
            assert!(off <= *bound, "{}: row {r}: margin {found}, should be {expected}", what());
        }
    }
}

/// One table through every engine; gives how often each served.
fn one(seed: u64, served: &mut BTreeMap<String, usize>) {
    let (table, batches) = usual(seed);
    let forest = &table.forest;
    let columns = forest.features.len();
    let singles: Vec<f32> = table.rows.iter().map(|v| *v as f32).collect();
    let slots: Vec<u32> =
        singles.chunks_exact(columns).flat_map(|row| reference::leaf_slots(forest, row)).collect();
    let wide: Vec<u32> =
        table.rows.chunks_exact(columns).flat_map(|row| reference::leaf_slots(forest, row)).collect();
    for (i, (name, schedule, engines)) in engines().into_iter().enumerate() {
        let threads = 1 + (seed as usize + i) % 2;
        let builder = Predictor::builder(forest).schedule(schedule.clone()).engines(engines).threads(threads);
        let predictor = match builder.check(SelfCheck::Off).build() {
            Ok(predictor) => predictor,
            Err(fangorn::Error::Layout(_)) => continue,
            Err(e) => panic!("seed {seed}, {name}: {e}"),
        };
        if !serves(&predictor, schedule.as_ref()) {
            continue;
        }
        *served.entry(name.clone()).or_default() += 1;
        let what = format!("seed {seed}, {name}, {threads} threads");
        for (j, batch) in batches.iter().enumerate() {
            let storage = STORAGES[(seed as usize + i + j) % STORAGES.len()];
            check(&what, &predictor, forest, (&singles, &slots), *batch, storage);
        }
        let storage = STORAGES[(seed as usize + i) % STORAGES.len()];
        let batch = batches[1 + i % (batches.len() - 1)];
        check(&format!("{what}, f64"), &predictor, forest, (&table.rows, &wide), batch, storage);
    }
}

#[test]
fn every_engine_serves_tables_as_people_have_them() {
    let cases = generate::wanted(TABLES);
    let from: u64 =
        std::env::var("FANGORN_SEED").ok().map_or(0, |n| n.parse().expect("a number to draw from"));
    let (begun, mut said) = (Instant::now(), Instant::now());
    let mut served = BTreeMap::new();
    for case in 0..u64::from(cases) {
        one(from + case, &mut served);
        if said.elapsed().as_secs() >= 5 {
            said = Instant::now();
            eprintln!("{} of {cases} tables, {} s", case + 1, begun.elapsed().as_secs());
        }
    }
    eprintln!("{cases} tables in {:.1} s; served: {served:?}", begun.elapsed().as_secs_f32());
    if cases >= TABLES {
        let least = |name: &str| served.get(name).copied().unwrap_or(0);
        for name in [
            "default",
            "fewRows(full)",
            "ranks by columns, blends",
            "ranks by columns, walks",
            "ranks of two bytes",
            "trees inside",
            "tiles",
            "plain",
        ] {
            assert!(least(name) >= 5, "{name} served {} of {cases} tables: {served:?}", least(name));
        }
    }
}

/// Whether a self-check alone finds a fault: nothing else is compared here. Mutants of the kernels are run against it.
#[test]
#[ignore = "a part of the test above; the mutation run asks it apart"]
fn self_checks_of_every_engine_pass() {
    for seed in 0..u64::from(generate::wanted(TABLES)) {
        let (table, _) = usual(seed);
        for (name, schedule, engines) in engines() {
            let builder = Predictor::builder(&table.forest).schedule(schedule).engines(engines);
            match builder.threads(1).build() {
                Ok(made) => assert!(made.warnings().is_empty(), "seed {seed}, {name}: {:?}", made.warnings()),
                Err(fangorn::Error::Layout(_)) => {}
                Err(e) => panic!("seed {seed}, {name}: {e}"),
            }
        }
    }
}
