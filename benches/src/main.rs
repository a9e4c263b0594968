//! Fangorn's backends side by side on one model and its rows.
//!
//! ```text
//! cargo run --release -p fangorn-benches -- MODEL ROWS.npy [BATCH,BATCH,…]
//! ```
//!
//! Prints microseconds a row, one thread, the least of many calls, for each preset on the CPU target. The peers'
//! figures come from `benches/peers`, and `fangorn bench --json` has the same measurement for scripts.

use std::{hint::black_box, path::Path, process::ExitCode, time::Instant};

use fangorn::{Predictor, cpu::Rows, import, schedule::Preset};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, rows, rest @ ..] = &arguments[..] else {
        eprintln!("usage: fangorn-benches MODEL ROWS.npy [BATCH,BATCH,…]");
        return ExitCode::from(2);
    };
    let batches = rest.first().map_or("1,64,4096", String::as_str);
    match run(Path::new(model), Path::new(rows), batches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("fangorn-benches: {e}");
            ExitCode::from(2)
        }
    }
}

fn run(model: &Path, rows: &Path, batches: &str) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let forest = import::load(model, &Default::default())?;
    println!("loaded in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let bytes = std::fs::read(rows)?;
    let file = npyz::NpyFile::new(&bytes[..])?;
    let columns = usize::try_from(*file.shape().last().ok_or("rows without a shape")?)?;
    let data: Vec<f32> = file.into_vec()?;
    if columns == 0 || data.is_empty() {
        return Err("no rows".into());
    }
    let batches: Vec<usize> = batches.split(',').map(str::parse).collect::<Result<_, _>>()?;
    for preset in Preset::ALL {
        let predictor = Predictor::with_threads(&forest, &preset.schedule(&forest, false), 1)?;
        let mut line = format!("{:20}", preset.name());
        for &batch in &batches {
            let repeated: Vec<f32> = data.iter().copied().cycle().take(batch * columns).collect();
            line += &format!("  {batch}: {:8.3}", measure(&predictor, &Rows::new(&repeated, columns)?)?);
        }
        println!("{line}");
    }
    Ok(())
}

/// The least time a row in microseconds, over about half a second of calls.
fn measure(predictor: &Predictor, rows: &Rows<'_>) -> Result<f64, fangorn::Error> {
    let mut out = vec![0.0; rows.len() * predictor.program().outputs()];
    let mut least = f64::INFINITY;
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < 0.5 {
        let calls = (2048 / rows.len().max(1)).max(1);
        let start = Instant::now();
        for _ in 0..calls {
            predictor.margins_into(black_box(rows), &mut out)?;
        }
        least = least.min(start.elapsed().as_secs_f64() * 1e6 / (calls * rows.len().max(1)) as f64);
    }
    Ok(least)
}
