//! Runs of a case: what it gives, held against the reference, and who walked what when, held against the loop nest.

// Each test crate uses its part.
#![allow(dead_code, unused_imports)]

#[cfg(feature = "cube")]
pub mod gpu;
pub mod launch;
pub mod packed;
mod traces;

use std::panic::{AssertUnwindSafe, catch_unwind};

use fangorn::{
    Error, Forest, Predictor,
    cpu::{Rank, Ranker, Rows},
    forest::{Aggregate, Targets, reference},
    plan::{LoweredForest, Request},
    ranks::{Ranks, Width},
    schedule::Device,
    sum::{Contract, FixedPoint},
};

use crate::generate::{Case, forest_of};

pub use traces::{Record, Walks, difference, follows, prescribed, recorded, runs_as_prescribed, unit_of};

pub fn request(device: Device, threads: u32) -> Request {
    Request { device, threads, ..Request::cpu() }
}

/// The rows as they are walked: ranks, where the schedule wants them.
pub fn walked_rows(case: &Case, lowered: &LoweredForest) -> Vec<Vec<f32>> {
    fn ranked<R: Rank>(ranks: &Ranks, row: &[f32]) -> Vec<f32> {
        let mut out = vec![R::default(); ranks.columns().len()];
        Ranker::new(ranks).rank(&Rows::new(row, row.len()).unwrap(), &mut out).unwrap();
        out.into_iter().map(|rank| rank.into() as f32).collect()
    }
    let walked = |r: usize| match lowered.ranks() {
        None => case.row(r).to_vec(),
        Some(ranks) if ranks.width() == Width::U8 => ranked::<u8>(ranks, case.row(r)),
        Some(ranks) => ranked::<u16>(ranks, case.row(r)),
    };
    (0..case.batch).map(walked).collect()
}

/// Leaf slots exactly as the reference's.
pub fn same_slots(case: &Case, found: &[u32]) -> Result<(), String> {
    let trees = case.forest.trees.len();
    if found.len() != case.batch * trees {
        return Err(format!("{} slots of {} rows and {trees} trees", found.len(), case.batch));
    }
    for r in 0..case.batch {
        let (found, expected) =
            (&found[r * trees..][..trees], reference::leaf_slots(&case.forest, case.row(r)));
        if let Some(t) = (0..trees).find(|t| found[*t] != expected[*t]) {
            return Err(format!("row {r}, tree {t}: slot {}, should be {}", found[t], expected[t]));
        }
    }
    Ok(())
}

/// The exact margins of a row that ends in these slots.
pub fn exact_margins(forest: &Forest, slots: &[u32]) -> Vec<f32> {
    let fixed = FixedPoint::new(forest).expect("leaves are finite");
    let mut totals = fixed.base().to_vec();
    for (t, slot) in slots.iter().enumerate() {
        let leaf = &fixed.leaves()[*slot as usize * forest.leaf_width()..][..forest.leaf_width()];
        match &forest.targets {
            Targets::One(outputs) => totals[outputs[t] as usize] += leaf[0],
            Targets::All => totals.iter_mut().zip(leaf).for_each(|(total, v)| *total += v),
        }
    }
    totals.into_iter().enumerate().map(|(o, total)| fixed.round(total, o)).collect()
}

/// Exact margins to the bit, of a forest that adds leaves up.
pub fn same_margins(case: &Case, found: &[f32]) -> Result<(), String> {
    if case.forest.aggregate != Aggregate::Sum {
        return Ok(());
    }
    let outputs = case.forest.outputs as usize;
    for r in 0..case.batch {
        let expected = exact_margins(&case.forest, &reference::leaf_slots(&case.forest, case.row(r)));
        for (o, (found, expected)) in found[r * outputs..].iter().zip(expected).enumerate() {
            if found.to_bits() != expected.to_bits() {
                return Err(format!("row {r}, output {o}: {found:?}, should be exactly {expected:?}"));
            }
        }
    }
    Ok(())
}

/// Margins as far from the reference's as the sum's contract allows.
pub fn near_margins(case: &Case, found: &[f32]) -> Result<(), String> {
    within(case, found, 0.0)
}

/// The same on a device that may take a denormal number for zero, as each addition reads and writes three.
pub fn near_margins_without_denormals(case: &Case, found: &[f32]) -> Result<(), String> {
    within(case, found, 3.0 * (case.forest.trees.len() + 1) as f64 * f64::from(f32::MIN_POSITIVE))
}

fn within(case: &Case, found: &[f32], more: f64) -> Result<(), String> {
    let outputs = case.forest.outputs as usize;
    if found.len() != case.batch * outputs {
        return Err(format!("{} margins of {} rows and {outputs} outputs", found.len(), case.batch));
    }
    let bound = case.forest.sum_bound();
    for r in 0..case.batch {
        for (o, expected) in reference::margins(&case.forest, case.row(r)).into_iter().enumerate() {
            let found = found[r * outputs + o];
            let off = (f64::from(found) - expected).abs();
            // A NaN is near nothing.
            if off.is_nan() || off > bound[o] + more {
                return Err(format!("row {r}, output {o}: {found} is {off:e} from {expected}"));
            }
        }
    }
    Ok(())
}

/// Runs a case on the CPU: false if the layout can't hold the forest, which is the one refusal there is.
pub fn on_cpu(case: &Case, threads: usize) -> Result<bool, String> {
    let Case { forest, schedule, batch, .. } = case;
    let made = Predictor::builder(forest)
        .schedule(schedule.clone())
        .threads(threads)
        .profile(&case.profile())
        .build();
    let predictor = match made {
        Ok(predictor) => predictor,
        Err(Error::Layout(_)) => return Ok(false),
        Err(e) => return Err(e.to_string()),
    };
    let columns = forest.features.len();
    let rows = Rows::strided(&case.rows, [*batch, columns], [columns, 1]).map_err(|e| e.to_string())?;
    same_slots(case, &predictor.leaf_slots(&rows).map_err(|e| e.to_string())?)?;
    near_margins(case, &predictor.margins(&rows).map_err(|e| e.to_string())?)?;
    runs_as_prescribed(case, threads as u32).map_err(|e| format!("trace: {e}"))?;
    Ok(true)
}

/// What is wrong with a case, if anything is; a panic is.
pub fn failure(case: &Case, check: impl Fn(&Case) -> Result<bool, String>) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(|| check(case))) {
        Ok(Ok(_)) => None,
        Ok(Err(what)) => Some(what),
        Err(_) => Some("it panics".to_owned()),
    }
}

/// A failed case as the file for `tests/schedules` that shows it again: with a forest of a line if one does.
pub fn file_of(case: &Case, check: impl Fn(&Case) -> Result<bool, String>) -> String {
    let own = case.forest.trees.len();
    let counts = [1, 2, 3, 4, 5, 7, 12, 40, own];
    let shapes = ["depth 0", "depth 1", "depth 2", "chain 2", "depth 3", "chain 3"];
    let vector = if case.forest.targets == Targets::All { "; vector" } else { "" };
    let ends = [String::new(), format!("; features 3; outputs {}{vector}", case.forest.outputs)];
    for count in counts.into_iter().filter(|n| *n <= own.max(1)) {
        for (shape, end) in shapes.iter().flat_map(|s| ends.iter().map(move |e| (s, e))) {
            let line = format!("{count} x {shape}{end}");
            let simpler = Case::new(forest_of(&line), case.schedule.clone(), case.batch, case.seed);
            if failure(&simpler, &check).is_some() {
                return simpler.to_text_with(&line);
            }
        }
    }
    case.to_text()
}
