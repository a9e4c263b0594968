//! `fangorn-benches alignment`: times the default schedule with results that begin at each quarter of a cache line, in
//! turns, on one thread.

use std::{error::Error, path::Path};

use cpu_time::ThreadTime;
use fangorn::{Predictor, cpu::Rows, import};

/// Values of a cache line.
const LINE: usize = 16;
/// Number of samples for each begin.
const SAMPLES: usize = 31;
/// Rows that the calls of one sample take in all.
const ROWS: usize = 16_384;

/// Prints, for each batch size, the median time of a row in microseconds if the results begin with a cache line, and how
/// many times as long a row takes if they begin 4, 8 and 12 values later.
///
/// # Errors
/// The model or the rows can't be read, or the model does not predict.
pub fn alignment(model: &Path, rows: &Path, batches: &str) -> Result<(), Box<dyn Error>> {
    let forest = import::load(model, &Default::default())?;
    let predictor = Predictor::builder(&forest).threads(1).build()?;
    let (data, columns) = super::read(rows)?;
    for batch in batches.split(',').map(str::parse::<usize>) {
        let batch = batch?;
        let repeated: Vec<f32> = data.iter().copied().cycle().take(batch * columns).collect();
        let rows = Rows::new(&repeated, columns)?;
        let results = batch * predictor.program().outputs();
        let mut room = vec![0.0; results + 2 * LINE];
        let line = room.as_ptr().align_offset(LINE * size_of::<f32>());
        let mut times = [const { Vec::new() }; 4];
        for _ in 0..SAMPLES {
            for (quarter, times) in times.iter_mut().enumerate() {
                let out = &mut room[line + quarter * LINE / 4..][..results];
                let calls = (ROWS / batch.max(1)).max(1);
                let start = ThreadTime::now();
                for _ in 0..calls {
                    predictor.margins_into(&rows, out)?;
                }
                times.push(start.elapsed().as_secs_f64() * 1e6 / (calls * batch) as f64);
            }
        }
        let [first, others @ ..] = times.map(|mut times| {
            times.sort_unstable_by(f64::total_cmp);
            times[SAMPLES / 2]
        });
        let ratios: Vec<String> = others.iter().map(|other| format!("{:.3}", other / first)).collect();
        println!("{batch:6} rows {first:9.3} us   begins 4, 8, 12 values later: {}", ratios.join(", "));
    }
    Ok(())
}
