//! Ranking rows apart from predicting them: nanoseconds a row and column that is read.

use std::{error::Error, hint::black_box, path::Path, time::Instant};

use cpu_time::ThreadTime;
use fangorn::{
    cpu::Rows,
    import,
    ranks::{Choice, Rank, Ranks, Width},
};

/// Prints what ranks of a model come to for each choice of width, and what ranking takes: into rows of ranks, and into columns of
/// 64 rows each. What it takes to read a value of each line of the cache that is ranked is printed beside it: nobody predicts
/// without that.
pub fn ranking(model: &Path, rows: &Path, batches: &str) -> Result<(), Box<dyn Error>> {
    let forest = import::load(model, &Default::default())?;
    let (data, columns) = super::read(rows)?;
    let batches: Vec<usize> = batches.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let used = forest.used_columns().len();
    println!("{used} of {columns} columns are read");
    for choice in Choice::ALL {
        let start = Instant::now();
        let ranks = Ranks::new(&forest, choice)?;
        let ms = start.elapsed().as_secs_f64() * 1e3;
        let (width, bytes) = (ranks.width().name(), ranks.row_bytes());
        println!(
            "{choice:?}: {width}, {} columns, {bytes} bytes a row, made in {ms:.1} ms",
            ranks.columns().len()
        );
        for &batch in batches.iter().filter(|_| choice != Choice::Auto) {
            let repeated: Vec<f32> = data.iter().copied().cycle().take(batch * columns).collect();
            let [by_row, by_column, read] = match ranks.width() {
                Width::U8 => measure::<u8>(&ranks, &repeated, columns, &forest.used_columns())?,
                Width::U16 => measure::<u16>(&ranks, &repeated, columns, &forest.used_columns())?,
            };
            let each = |us: f64| us * 1e3 / used.max(1) as f64;
            println!(
                "  {batch:6} rows: {by_row:7.3} us a row ({:6.2} ns a column); columns of 64 rows: {by_column:7.3} ({:6.2}); reading: {read:7.3}",
                each(by_row),
                each(by_column)
            );
        }
    }
    Ok(())
}

/// The median time a row, in microseconds of thread CPU time: ranks by row, by column for 64 rows at a time, and a value read of each line.
fn measure<R: Rank>(
    ranks: &Ranks,
    values: &[f32],
    width: usize,
    used: &[u32],
) -> Result<[f64; 3], fangorn::Error> {
    const BLOCK: usize = 64;
    /// Values of a line.
    const LINE: u32 = 16;
    let rows = &Rows::new(values, width)?;
    let (ranker, columns) = (ranks.ranker(), ranks.columns().len());
    let mut lines: Vec<usize> = used.iter().map(|column| (column / LINE * LINE) as usize).collect();
    lines.dedup();
    let mut out = vec![R::default(); rows.len().next_multiple_of(BLOCK) * columns];
    let mut times = [const { Vec::new() }; 3];
    let calls = (1024 / rows.len().max(1)).max(1);
    let begin = Instant::now();
    while times[0].len() < 5 || begin.elapsed().as_secs_f64() < 1.0 {
        let per_row =
            |start: ThreadTime| start.elapsed().as_secs_f64() * 1e6 / (calls * rows.len().max(1)) as f64;
        let start = ThreadTime::now();
        for _ in 0..calls {
            ranker.rank(black_box(rows), &mut out[..rows.len() * columns])?;
        }
        times[0].push(per_row(start));
        let start = ThreadTime::now();
        for _ in 0..calls {
            for (b, out) in out.chunks_exact_mut((BLOCK * columns).max(1)).enumerate() {
                ranker.rank_strided(&black_box(rows).slice(b * BLOCK, BLOCK), out, [1, BLOCK])?;
            }
        }
        times[1].push(per_row(start));
        let start = ThreadTime::now();
        for _ in 0..calls {
            let mut sum = 0;
            for block in black_box(values).chunks(BLOCK * rows.columns()) {
                for line in &lines {
                    let firsts = block[*line..].iter().step_by(rows.columns());
                    sum ^= firsts.fold(0, |sum, value| sum ^ value.to_bits());
                }
            }
            black_box(sum);
        }
        times[2].push(per_row(start));
    }
    Ok(times.map(|mut times| {
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() / 2]
    }))
}
