//! `fangorn-benches engines`: times the default schedule with and without each engine of the CPU, in turns.

use std::{error::Error, hint::black_box, path::Path, time::Instant};

use cpu_time::ThreadTime;
use fangorn::{
    Predictor,
    check::SelfCheck,
    cpu::{Engines, Ranking, Rows},
    import,
    schedule::{FewRows, Preset},
};

/// Seconds of measurement for each batch size.
const SECONDS: f64 = 1.5;
/// Rows that the calls of one sample take in all.
const ROWS: usize = 4096;

/// The variants that leave one engine out: a name for the output, the engine for a few rows, and how rows
/// become ranks.
const WITHOUT: [(&str, FewRows, Ranking); 5] = [
    ("layers and lines", FewRows::Auto, Ranking::Columns),
    ("few rows", FewRows::Rows, Ranking::Chosen),
    ("registers for few", FewRows::Registers, Ranking::Chosen),
    ("masks for few", FewRows::Masks, Ranking::Chosen),
    ("full trees for few", FewRows::Full, Ranking::Chosen),
];

/// Prints, for each batch size, the median time a row with all engines, in microseconds of thread CPU time.
/// After it comes, for each variant of [`WITHOUT`], how many times as long a row takes: the median of ratios
/// of samples that were taken side by side.
pub fn engines(model: &Path, rows: &Path, batches: &str) -> Result<(), Box<dyn Error>> {
    let forest = import::load(model, &Default::default())?;
    let (data, columns) = super::read(rows)?;
    let batches: Vec<usize> = batches.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let made = |few_rows, ranking| {
        let schedule = Preset::Default.schedule(&forest, false).few_rows(few_rows);
        let engines = Engines { ranking, ..Engines::default() };
        let builder = Predictor::builder(&forest).schedule(schedule).engines(engines).threads(1);
        builder.check(SelfCheck::Off).build()
    };
    let mut predictors = vec![made(FewRows::Auto, Ranking::Chosen)?];
    for (_, few_rows, ranking) in WITHOUT {
        predictors.push(made(few_rows, ranking)?);
    }
    let name = model.parent().and_then(Path::file_name).unwrap_or(model.as_os_str()).to_string_lossy();
    for batch in batches {
        let repeated: Vec<f32> = data.iter().copied().cycle().take(batch * columns).collect();
        let rows = Rows::new(&repeated, columns)?;
        let (all, ratios) = ratios(&predictors, &rows)?;
        print!("{name:28} {batch:5} {all:9.3} us");
        for ((what, ..), ratio) in WITHOUT.iter().zip(ratios) {
            print!("  {what} {ratio:.3}");
        }
        println!();
    }
    Ok(())
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

fn ratios(predictors: &[Predictor], rows: &Rows<'_>) -> Result<(f64, Vec<f64>), fangorn::Error> {
    let calls = (ROWS / rows.len().max(1)).max(1);
    let mut out = vec![0.0; rows.len() * predictors[0].program().outputs()];
    let mut times = vec![Vec::new(); predictors.len()];
    let begin = Instant::now();
    while times[0].len() < 9 || begin.elapsed().as_secs_f64() < SECONDS {
        for (predictor, times) in predictors.iter().zip(&mut times) {
            let start = ThreadTime::now();
            for _ in 0..calls {
                predictor.margins_into(black_box(rows), &mut out)?;
            }
            times.push(start.elapsed().as_secs_f64() * 1e6 / (calls * rows.len()) as f64);
        }
    }
    let ratio = |without: &Vec<f64>| {
        let mut ratios: Vec<f64> =
            without.iter().zip(&times[0]).map(|(without, with)| without / with).collect();
        median(&mut ratios)
    };
    let ratios = times[1..].iter().map(ratio).collect();
    Ok((median(&mut times[0].clone()), ratios))
}
