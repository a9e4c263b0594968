//! Ranking rows apart from predicting them: nanoseconds a row and column that is read.

use std::{error::Error, hint::black_box, path::Path, time::Instant};

use cpu_time::ThreadTime;
use fangorn::{
    cpu::Rows,
    import,
    ranks::{Choice, Rank, Ranker, Ranks, Width},
};

/// Prints what ranks of a model come to for each choice of width, and what ranking takes: into rows of ranks, and
/// into columns of 64 rows each.
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
            let rows = Rows::new(&repeated, columns)?;
            let [by_row, by_column] = match ranks.width() {
                Width::U8 => measure::<u8>(&ranks.ranker(), &rows, ranks.columns().len())?,
                Width::U16 => measure::<u16>(&ranks.ranker(), &rows, ranks.columns().len())?,
            };
            let each = |us: f64| us * 1e3 / used.max(1) as f64;
            println!(
                "  {batch:6} rows: {by_row:7.3} us a row ({:6.2} ns a column); columns of 64 rows: {by_column:7.3} ({:6.2})",
                each(by_row),
                each(by_column)
            );
        }
    }
    Ok(())
}

/// The median time a row, in microseconds of thread CPU time: ranks by row, and by column for 64 rows at a time.
fn measure<R: Rank>(ranker: &Ranker, rows: &Rows<'_>, columns: usize) -> Result<[f64; 2], fangorn::Error> {
    const BLOCK: usize = 64;
    let mut out = vec![R::default(); rows.len().next_multiple_of(BLOCK) * columns];
    let mut times = [Vec::new(), Vec::new()];
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
    }
    Ok(times.map(|mut times| {
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() / 2]
    }))
}
