//! `fangorn-benches sparse-rows MODEL [ROWS]`: times row-major dense rows, column-major dense rows, a table's
//! columns and sparse rows of the same values, in turns, on one thread.

use std::{error::Error, path::Path};

use cpu_time::ThreadTime;
use fangorn::{Predictor, cpu::Rows, import, sparse::SparseMatrix, table::Column};

/// Rows of a batch, if the command line gives no number: far more than a cache holds.
const ROWS: usize = 16_384;
/// The fractions of the values that sparse rows hold.
const DENSITIES: [f64; 7] = [1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01];
/// Number of calls for each kind of rows.
const CALLS: usize = 11;

/// Returns a seeded number between 0 and 1.
pub fn number(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 40) as f64 / f64::from(1 << 24)
}

/// Returns the number of rows that the rest of a command line gives.
pub fn rows_of(rest: &[String]) -> Option<usize> {
    match rest {
        [] => Some(ROWS),
        [rows] => rows.parse().ok().filter(|rows| (1..=1 << 24).contains(rows)),
        _ => None,
    }
}

/// Prints, for each density, the nanoseconds of a row of each kind.
///
/// # Errors
/// The model can't be read or does not predict.
pub fn sparse_rows(model: &Path, count: usize) -> Result<(), Box<dyn Error>> {
    let forest = import::load(model, &Default::default())?;
    let predictor = Predictor::builder(&forest).threads(1).build()?;
    let columns = forest.features.len();
    let absent = forest.absent_value() as f32;
    println!("{count} rows of {columns} columns; nanoseconds of a row; thread CPU time, medians of {CALLS}");
    println!(
        "filled       rows   by columns      table     sparse   by columns / rows   table / rows   rows / sparse"
    );
    let mut seed = 1;
    for density in DENSITIES {
        let mut dense = vec![absent; count * columns];
        let (mut offsets, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for row in dense.chunks_exact_mut(columns) {
            for (column, value) in row.iter_mut().enumerate() {
                if number(&mut seed) < density {
                    *value = number(&mut seed) as f32 * 4.0 - 2.0;
                    indices.push(u32::try_from(column)?);
                    values.push(*value);
                }
            }
            offsets.push(values.len());
        }
        let by_columns: Vec<f32> =
            (0..columns).flat_map(|column| dense[column..].iter().step_by(columns).copied()).collect();
        let sparse =
            SparseMatrix::new([count, columns], offsets, indices, values).ok_or("columns that ascend")?;
        let rows = Rows::new(&dense, columns)?;
        let table: Vec<Column<'_>> = by_columns.chunks_exact(count).map(Column::new).collect();
        let by_columns = Rows::strided(&by_columns, [count, columns], [1, count])?;
        let mut times = [const { Vec::new() }; 4];
        for _ in 0..CALLS {
            let mut found = Vec::new();
            for (storage, times) in times.iter_mut().enumerate() {
                let start = ThreadTime::now();
                found.push(match storage {
                    0 => predictor.values(&rows)?,
                    1 => predictor.values(&by_columns)?,
                    2 => predictor.values_of_columns(&table)?,
                    _ => predictor.values_of_sparse(&sparse, absent)?,
                });
                times.push(start.elapsed().as_secs_f64() * 1e9 / count as f64);
            }
            let near = |other: &Vec<f32>| {
                other.iter().zip(&found[0]).all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs().max(1.0))
            };
            if !found.iter().all(near) {
                return Err("the results differ".into());
            }
        }
        let [rows, by_columns, table, sparse] = times.map(|mut times| {
            times.sort_unstable_by(f64::total_cmp);
            times[CALLS / 2]
        });
        println!(
            "{density:>6} {rows:>10.0} {by_columns:>12.0} {table:>10.0} {sparse:>10.0} {:>19.2} {:>14.2} {:>15.2}",
            by_columns / rows,
            table / rows,
            rows / sparse
        );
    }
    Ok(())
}
