//! `fangorn explain --backend`: says why a GPU's default schedule was chosen.

use std::{fmt::Write as _, path::Path};

use fangorn::{
    Forest,
    cost::{CUBES, CubeShape},
    schedule::{Device, Gpu, Preset, RankedCube, ranked_cubes},
};
use serde::Serialize;

use crate::{
    Outcome,
    backend::Backend,
    error::{Error, Result, one_line},
    explain::{TermReport, term_report, write_term},
    output,
    schedule::line,
};

/// The number of schedules that are printed with the terms of their estimates.
const PRINTED: usize = 3;
/// The largest batch size of `fastest_from`, which looks at powers of two.
const LARGEST: usize = 1 << 20;

#[derive(Serialize)]
struct Report {
    model: String,
    backend: &'static str,
    multiprocessors: u32,
    costs: &'static str,
    batch: usize,
    schedule: String,
    candidates: usize,
    estimates: Vec<CubeReport>,
    /// The shape with the least estimate, from a number of rows on.
    fastest_from: Vec<(usize, String)>,
    /// The fastest shape with half and with twice as many multiprocessors.
    by_multiprocessors: Vec<(u32, String)>,
    compiling_ms: f64,
}

#[derive(Serialize)]
struct CubeReport {
    shape: String,
    us: f64,
    us_per_row: f64,
    schedule: String,
    terms: Vec<TermReport>,
}

/// Explains the default schedule of a GPU for a batch of `rows` rows.
///
/// # Errors
/// The backend has no GPU, is not built in, or its driver does not answer.
pub fn run(model: &Path, forest: &Forest, backend: Backend, rows: usize, json: bool) -> Result<Outcome> {
    let gpu = match backend.open_device()? {
        Device::Gpu(gpu) if gpu.shared_memory && !gpu.units_are_threads => gpu,
        _ => {
            let what = format!(
                "--backend {}: its default schedule is the preset {} for every batch, which needs no shared memory; \
                 name a GPU's backend for estimates",
                backend.name(),
                Preset::TahoeDirect.name()
            );
            return Err(Error::Request(what));
        }
    };
    let ranked = ranked_cubes(forest, &gpu, rows);
    let shape = |gpu: &Gpu, rows: usize| {
        ranked_cubes(forest, gpu, rows).first().map_or_else(String::new, |first| shape_text(first.shape))
    };
    let mut fastest_from: Vec<(usize, String)> = Vec::new();
    for rows in (0..=LARGEST.ilog2()).map(|power| 1usize << power) {
        let shape = shape(&gpu, rows);
        if fastest_from.last().is_none_or(|(_, last)| *last != shape) {
            fastest_from.push((rows, shape));
        }
    }
    let others = [gpu.multiprocessors / 2, gpu.multiprocessors.saturating_mul(2)];
    let report = Report {
        model: model.display().to_string(),
        backend: backend.name(),
        multiprocessors: gpu.multiprocessors,
        costs: CUBES.name,
        batch: rows,
        schedule: line(Preset::Default.schedules_on(forest, Device::Gpu(gpu)).nearest(rows)),
        candidates: ranked.len(),
        estimates: ranked.iter().take(PRINTED).map(|cube| cube_report(cube, rows)).collect(),
        fastest_from,
        by_multiprocessors: others
            .map(|multiprocessors| (multiprocessors, shape(&Gpu { multiprocessors, ..gpu }, rows)))
            .to_vec(),
        compiling_ms: CUBES.compiling * 1e3,
    };
    let text = match json {
        true => serde_json::to_string(&report).map_err(|e| Error::Defect(e.to_string()))? + "\n",
        false => table(&report),
    };
    output::print(&text)?;
    Ok(Outcome::Done)
}

fn cube_report(cube: &RankedCube, rows: usize) -> CubeReport {
    let seconds = cube.estimate.seconds();
    CubeReport {
        shape: shape_text(cube.shape),
        us: seconds * 1e6,
        us_per_row: seconds * 1e6 / rows as f64,
        schedule: line(&cube.schedule),
        terms: cube.estimate.terms.iter().map(|term| term_report(term, rows)).collect(),
    }
}

fn shape_text(CubeShape { rows, row_units, cached }: CubeShape) -> String {
    let rows_of = if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") };
    let units = if row_units == 1 { "1 unit".to_owned() } else { format!("{row_units} units") };
    let cache = if cached { "" } else { ", rows not cached" };
    format!("cubes of {rows_of}, {units} a row{cache}")
}

fn table(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write_table(&mut text, report);
    text
}

fn write_table(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out, "model     {}", one_line(&report.model))?;
    writeln!(out, "backend   {}, {} multiprocessors", report.backend, report.multiprocessors)?;
    writeln!(out, "costs     {}", report.costs)?;
    writeln!(out, "schedule  {}", report.schedule)?;
    writeln!(
        out,
        "\nThe least estimates for a batch of {}, of {} schedules:\n",
        report.batch, report.candidates
    )?;
    for cube in &report.estimates {
        writeln!(out, "{:>10.1} µs a call  {}", cube.us, cube.shape)?;
        for term in cube.terms.iter().filter(|term| term.count > 0.0) {
            write_term(out, term, term.us_per_row * report.batch as f64)?;
        }
    }
    if let [first, second, ..] = &report.estimates[..] {
        let times = second.us / first.us.max(1e-12);
        writeln!(out, "\nThe runner-up, {}, takes {times:.2} times as long by its estimate:", second.shape)?;
        writeln!(out, "  {}", second.schedule)?;
    }
    writeln!(out, "\nWhat would change the choice:")?;
    for (rows, shape) in &report.fastest_from {
        writeln!(out, "  batch            {rows:>7} rows and more: {shape}")?;
    }
    for (multiprocessors, shape) in &report.by_multiprocessors {
        writeln!(out, "  multiprocessors  {multiprocessors:>7}: {shape}")?;
    }
    writeln!(out, "\nA schedule's first call takes some {:.0} ms more, for compiling.", report.compiling_ms)
}
