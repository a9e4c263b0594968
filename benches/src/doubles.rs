//! `fangorn-benches doubles`: times a few `f64` rows, of `f32` values and of others, beside the same rows as `f32`.

use std::{error::Error, hint::black_box, path::Path, time::Instant};

use cpu_time::ThreadTime;
use fangorn::{
    Predictor,
    check::SelfCheck,
    cpu::{Row, Rows},
    import,
    schedule::{FewRows, Preset},
};

use crate::time::Summary;

/// Seconds of measurement for each batch size.
const SECONDS: f64 = 3.0;
/// Rows that calls go through, so that no branch predictor learns them.
const POOL: usize = 1 << 14;
/// Rows that the calls of one sample take in all.
const ROWS: usize = 4096;
/// The engines for a few rows that are timed.
const ENGINES: [FewRows; 4] = [FewRows::Auto, FewRows::Registers, FewRows::Masks, FewRows::Rows];

/// Prints, for each batch size and each engine for a few rows, the median time a row in microseconds of thread CPU time:
/// of `f32` rows, of `f64` rows with the same values, and of `f64` rows whose values lie between those of `f32`.
pub fn doubles(model: &Path, rows: &Path, batches: &str) -> Result<(), Box<dyn Error>> {
    let forest = import::load(model, &Default::default())?;
    let (data, columns) = super::read(rows)?;
    let singles: Vec<f32> = data.iter().copied().cycle().take(POOL * columns).collect();
    let same: Vec<f64> = singles.iter().map(|value| f64::from(*value)).collect();
    let between: Vec<f64> = same.iter().map(|value| value * (1.0 + 1e-9)).collect();
    let predictors = ENGINES.map(|few_rows| {
        let schedule = Preset::Default.schedule(&forest, false).few_rows(few_rows);
        Predictor::builder(&forest).schedule(schedule).threads(1).check(SelfCheck::Off).build()
    });
    let name = model.parent().and_then(Path::file_name).unwrap_or(model.as_os_str()).to_string_lossy();
    for batch in batches.split(',') {
        let batch: usize = batch.parse()?;
        if !(1..POOL).contains(&batch) {
            return Err(format!("a batch of {batch}; give 1 to {}", POOL - 1).into());
        }
        let mut times: Vec<[Vec<f64>; 3]> = ENGINES.iter().map(|_| Default::default()).collect();
        let (begin, mut first) = (Instant::now(), 0);
        while times[0][0].len() < 9 || begin.elapsed().as_secs_f64() < SECONDS {
            for (predictor, times) in predictors.iter().zip(&mut times) {
                let predictor = predictor.as_ref().map_err(ToString::to_string)?;
                times[0].push(sample(predictor, &singles, columns, batch, first)?);
                times[1].push(sample(predictor, &same, columns, batch, first)?);
                times[2].push(sample(predictor, &between, columns, batch, first)?);
            }
            first = (first + ROWS) % POOL;
        }
        print!("{name:24} {batch:3}");
        for (predictor, times) in predictors.iter().flatten().zip(&times) {
            // The schedule's engine may not serve the forest.
            let few_rows = predictor.plan_for(batch).program.few_rows_engine();
            print!("  {}", few_rows.name());
            times.iter().filter_map(|times| Summary::of(times)).for_each(|of| print!(" {:.3}", of.median));
        }
        println!();
    }
    Ok(())
}

/// Returns the microseconds that a row takes, over the calls of [`ROWS`] rows from `first` on.
fn sample<T: Row>(
    predictor: &Predictor,
    pool: &[T],
    columns: usize,
    batch: usize,
    first: usize,
) -> Result<f64, fangorn::Error> {
    let mut out = vec![0.0; batch * predictor.program().outputs()];
    let calls = (ROWS / batch).max(1);
    let start = ThreadTime::now();
    for call in 0..calls {
        let from = (first + call * batch) % (POOL - batch) * columns;
        let rows = Rows::new(&pool[from..from + batch * columns], columns)?;
        predictor.margins_into(black_box(&rows), &mut out)?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / (calls * batch) as f64)
}
