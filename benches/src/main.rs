//! Fangorn's backends side by side on one model and its rows.
//!
//! ```text
//! cargo run --release -p fangorn-benches -- MODEL ROWS.npy [BATCH,BATCH,…]
//! cargo run --release -p fangorn-benches -- load MODEL…
//! ```
//!
//! Prints microseconds a row, one thread, the least of many calls, for each preset on the CPU target. The peers'
//! figures come from `benches/peers`, and `fangorn bench --json` has the same measurement for scripts. `load` times reading
//! models, each also as a `.fangorn` file, beside `benches/peers/load.py`.

use std::{hint::black_box, path::Path, process::ExitCode, time::Instant};

use fangorn::{Predictor, cpu::Rows, file::Contents, import, schedule::Preset};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, models @ ..] = &arguments[..]
        && first == "load"
    {
        return done(models.iter().try_for_each(|model| load(Path::new(model))));
    }
    let [model, rows, rest @ ..] = &arguments[..] else {
        eprintln!("usage: fangorn-benches MODEL ROWS.npy [BATCH,BATCH,…] | load MODEL…");
        return ExitCode::from(2);
    };
    let batches = rest.first().map_or("1,64,4096", String::as_str);
    done(run(Path::new(model), Path::new(rows), batches))
}

fn done(result: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("fangorn-benches: {e}");
            ExitCode::from(2)
        }
    }
}

/// Prints the least time of reading a model's bytes, which are in memory, and those of its `.fangorn` file.
fn load(model: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let bytes = std::fs::read(model)?;
    let forest = import::parse(&bytes, &Default::default())?;
    let nodes: usize = forest.trees.iter().map(|t| t.nodes.len()).sum();
    let own = Contents::new(forest).to_bytes();
    let time = |bytes: &[u8]| -> Result<f64, import::ImportError> {
        let begin = Instant::now();
        let mut least = f64::INFINITY;
        while begin.elapsed().as_secs_f64() < 2.0 {
            let start = Instant::now();
            black_box(import::parse(black_box(bytes), &Default::default())?);
            least = least.min(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(least)
    };
    let (theirs, ours) = (time(&bytes)?, time(&own)?);
    let name = model.parent().and_then(Path::file_name).unwrap_or(model.as_os_str()).to_string_lossy();
    let size = bytes.len() as f64 / 1e6;
    println!("{name:28} {size:8.2} MB {nodes:9} nodes {theirs:9.2} ms, as .fangorn {ours:8.2} ms");
    Ok(())
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
