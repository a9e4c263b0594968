//! `fangorn-benches ranking`: times ranking rows apart from predicting them.

use std::{error::Error, hint::black_box, path::Path, time::Instant};

use cpu_time::ThreadTime;
use fangorn::{
    Forest, Predictor,
    cpu::{Rank, Ranker, Rows},
    forest::Predicate,
    import,
    ranks::{Choice, Column, ColumnKind, Ranks, Width},
    schedule::Preset,
};

/// Prints, for each choice of width, the size of a model's ranks, and what ranking takes, in microseconds a
/// row. Rows are ranked into rows, and into columns of 64 rows each. Ranking into columns is also timed with
/// one threshold a column, the least that any model asks for. Beside that stand the times of a prediction,
/// and of reading one value of each column block that is ranked, which no prediction can avoid.
pub fn ranking(model: &Path, rows: &Path, batches: &str) -> Result<(), Box<dyn Error>> {
    let forest = import::load(model, &Default::default())?;
    let (data, columns) = super::read(rows)?;
    let batches: Vec<usize> = batches.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let used = forest.used_columns();
    let predictor =
        Predictor::builder(&forest).schedule(Preset::Default.schedule(&forest, false)).threads(1).build()?;
    println!("{} of {columns} columns are read", used.len());
    for choice in Choice::ALL {
        let start = Instant::now();
        let ranks = Ranks::new(&forest, choice)?;
        let ms = start.elapsed().as_secs_f64() * 1e3;
        let (width, bytes) = (ranks.width().name(), ranks.row_bytes());
        let thresholds: u32 = ranks.columns().iter().map(thresholds).sum();
        println!(
            "{choice:?}: {width}, {} columns of {thresholds} thresholds, {bytes} bytes a row, made in {ms:.1} ms",
            ranks.columns().len()
        );
        if thresholds == 0 || choice == Choice::Auto {
            continue;
        }
        let single = single(&ranks, choice, forest.features.len())?;
        for &batch in &batches {
            let repeated: Vec<f32> = data.iter().copied().cycle().take(batch * columns).collect();
            let rows = Rows::new(&repeated, columns)?;
            let both = [&ranks, &single];
            let [by_row, by_column, one, read, all] = match ranks.width() {
                Width::U8 => measure::<u8>(both, &repeated, &rows, &used, &predictor)?,
                Width::U16 => measure::<u16>(both, &repeated, &rows, &used, &predictor)?,
            };
            println!("  {batch} rows, microseconds a row, and of a prediction's:");
            let line = |what: &str, us: f64| println!("    {what:24} {us:7.3} {:6.1} %", 100.0 * us / all);
            line("predicting", all);
            line("ranks by row", by_row);
            line("ranks by column", by_column);
            line("of one threshold each", one);
            line("reading", read);
        }
    }
    Ok(())
}

/// Returns the number of a column's thresholds.
fn thresholds(column: &Column) -> u32 {
    if let ColumnKind::Thresholds { count, .. } = column.asks { count } else { 0 }
}

/// Makes ranks of the same columns that keep one threshold of each slice of a column: the middle one.
fn single(ranks: &Ranks, choice: Choice, features: usize) -> Result<Ranks, Box<dyn Error>> {
    let mut stumps = Forest::builder(features, 1).compare(ranks.compare());
    for column in ranks.columns() {
        if let ColumnKind::Thresholds { first, count: count @ 1.. } = column.asks {
            let threshold = ranks.thresholds()[(first + count / 2) as usize];
            let mut tree = stumps.tree(0);
            tree.split(column.feature, Predicate::Less { threshold }, column.missing, 1, 2);
            tree.leaf(1, &[1.0]);
            tree.leaf(2, &[2.0]);
        }
    }
    Ok(Ranks::new(&stumps.build()?, choice)?)
}

/// Returns five median times a row, in microseconds of thread CPU time: ranking by row, ranking by column for
/// 64 rows at a time as predictions do, ranking by column with one threshold a column, reading one value of
/// each column block, and predicting.
fn measure<R: Rank>(
    [ranks, single]: [&Ranks; 2],
    values: &[f32],
    rows: &Rows<'_>,
    used: &[u32],
    predictor: &Predictor,
) -> Result<[f64; 5], fangorn::Error> {
    const ROW_BLOCK: usize = 64;
    /// Columns of a column block.
    const COLUMN_BLOCK: u32 = 16;
    let (ranker, columns) = (Ranker::new(ranks), ranks.columns().len());
    let mut column_blocks: Vec<usize> =
        used.iter().map(|column| (column / COLUMN_BLOCK * COLUMN_BLOCK) as usize).collect();
    column_blocks.dedup();
    let mut out = vec![R::default(); rows.len().next_multiple_of(ROW_BLOCK) * columns];
    let mut margins = vec![0.0; rows.len() * predictor.program().outputs()];
    let mut times = [const { Vec::new() }; 5];
    let calls = (16_384 / rows.len().max(1)).max(1);
    let mut time = |which: usize, call: &mut dyn FnMut() -> Result<(), fangorn::Error>| {
        let start = ThreadTime::now();
        for _ in 0..calls {
            call()?;
        }
        times[which].push(start.elapsed().as_secs_f64() * 1e6 / (calls * rows.len().max(1)) as f64);
        Ok::<_, fangorn::Error>(times[which].len())
    };
    let by_column = |ranks: &Ranks, ranker: &Ranker, out: &mut [R]| {
        let columns = ranks.columns().len();
        let each = ROW_BLOCK;
        // Every row block goes into the same memory, as in predictions.
        for first in (0..rows.len()).step_by(each) {
            ranker.rank_strided(
                &black_box(rows).slice(first, each),
                &mut out[..each * columns],
                [1, each],
            )?;
        }
        Ok(())
    };
    let singles = Ranker::new(single);
    let begin = Instant::now();
    loop {
        time(0, &mut || ranker.rank(black_box(rows), &mut out[..rows.len() * columns]))?;
        time(1, &mut || by_column(ranks, &ranker, &mut out))?;
        time(2, &mut || by_column(single, &singles, &mut out))?;
        time(3, &mut || {
            let mut sum = 0;
            for block in black_box(values).chunks(ROW_BLOCK * rows.columns()) {
                for first in &column_blocks {
                    let firsts = block[*first..].iter().step_by(rows.columns());
                    sum ^= firsts.fold(0, |sum, value| sum ^ value.to_bits());
                }
            }
            black_box(sum);
            Ok(())
        })?;
        let done = time(4, &mut || predictor.margins_into(black_box(rows), &mut margins))?;
        if done >= 5 && begin.elapsed().as_secs_f64() >= 1.0 {
            break;
        }
    }
    Ok(times.map(|mut times| {
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() / 2]
    }))
}
