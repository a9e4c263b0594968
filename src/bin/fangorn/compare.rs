//! Compares a prediction with the values that the user expects.

use std::fmt::Write;

use crate::{
    Outcome,
    error::{Result, say},
    output::{self, Table, Values},
    rows::Matrix,
};

/// The largest difference that passes, relative to `max(1, |expected|)`. Integers have to be equal.
const TOLERANCE: f64 = 1e-5;

/// Prints the prediction beside the expected values, and the largest difference on standard error.
///
/// # Errors
/// Standard output can't be written.
pub fn report(table: &Table, expected: &Matrix<f64>) -> Result<Outcome> {
    verdict(table, expected, true)
}

/// Prints predicted labels, which are texts, beside the expected ones, and the first that differs on standard error.
///
/// # Errors
/// Standard output can't be written.
pub fn report_labels(table: &Table, labels: &[String], expected: &[String]) -> Result<Outcome> {
    print(&text(table, |at| expected[at].clone()))?;
    let differs = |at: &usize| labels[*at] != expected[*at];
    let Some(first) = (0..labels.len()).find(differs) else {
        say(&match labels.len() {
            0 => "nothing to compare".to_owned(),
            count => format!("labels that differ: 0 of {count}"),
        });
        return Ok(Outcome::Done);
    };
    let (count, all) = ((0..labels.len()).filter(differs).count(), labels.len());
    let location = format!("row {}, output {}", first / table.columns, first % table.columns);
    let both = format!("`{}`, expected is `{}`", labels[first], expected[first]);
    say(&format!("labels that differ: {count} of {all}; the first at {location}: {both}"));
    Ok(Outcome::Differs)
}

/// Prints on standard output. A reader that closes the pipe early still wants the verdict.
fn print(text: &str) -> Result<()> {
    match output::print(text) {
        Err(e) if e.is_closed_pipe() => Ok(()),
        other => other,
    }
}

/// Prints the largest difference on standard error. If `printed` is true, it prints the table of both on
/// standard output before it. Returns whether the prediction passes.
///
/// # Errors
/// Standard output can't be written.
pub fn verdict(table: &Table, expected: &Matrix<f64>, printed: bool) -> Result<Outcome> {
    let worst = worst(table, expected);
    if printed {
        let is_float = matches!(table.values, Values::Floats(_));
        let theirs = |at: usize| match (expected.values[at], is_float) {
            (value, true) => format!("{:?}", value as f32),
            (value, false) => value.to_string(),
        };
        print(&text(table, theirs))?;
    }
    let Some(LargestDifference { at, difference, differs }) = worst else {
        say("nothing to compare");
        return Ok(Outcome::Done);
    };
    let bound = match table.values {
        Values::Ints(_) | Values::Words(_) => "no difference passes".to_owned(),
        Values::Floats(_) => format!("relative to max(1, |expected|); up to {TOLERANCE:?} passes"),
    };
    let location = format!("row {}, output {}", at / table.columns, at % table.columns);
    say(&format!("largest difference {difference:?} at {location}, {bound}"));
    Ok(if differs { Outcome::Differs } else { Outcome::Done })
}

struct LargestDifference {
    at: usize,
    difference: f64,
    differs: bool,
}

fn worst(table: &Table, expected: &Matrix<f64>) -> Option<LargestDifference> {
    let (ours, tolerance): (Vec<f64>, f64) = match &table.values {
        Values::Floats(values) => (values.iter().map(|v| f64::from(*v)).collect(), TOLERANCE),
        Values::Ints(values) => (values.iter().map(|v| f64::from(*v)).collect(), 0.0),
        // A class name is never equal to a number.
        Values::Words(values) => (vec![f64::INFINITY; values.len()], 0.0),
    };
    let difference = |ours: f64, expected: f64| match ours == expected || (ours.is_nan() && expected.is_nan())
    {
        true => 0.0,
        false => {
            let off = (ours - expected).abs() / expected.abs().max(1.0);
            // One of the two is NaN, or both are infinite.
            if off.is_nan() { f64::INFINITY } else { off }
        }
    };
    let differences = ours.iter().zip(&expected.values).map(|(o, e)| difference(*o, *e));
    let larger = |worst: (usize, f64), next: (usize, f64)| if next.1 > worst.1 { next } else { worst };
    let (at, difference) = differences.enumerate().reduce(larger)?;
    Some(LargestDifference { at, difference, differs: difference > tolerance })
}

/// Returns both as CSV with a header, padded so that the columns line up. `theirs` returns the text of an expected
/// value.
fn text(table: &Table, theirs: impl Fn(usize) -> String) -> String {
    let mut cells = vec!["row".to_owned()];
    for c in 0..table.columns {
        let suffix = if table.columns == 1 { String::new() } else { format!("_{c}") };
        cells.extend([format!("ours{suffix}"), format!("expected{suffix}")]);
    }
    let width = cells.len();
    for r in 0..table.rows {
        cells.push(r.to_string());
        for at in r * table.columns..(r + 1) * table.columns {
            let ours = match &table.values {
                Values::Floats(values) => format!("{:?}", values[at]),
                Values::Ints(values) => values[at].to_string(),
                Values::Words(values) => values[at].clone(),
            };
            cells.extend([ours, theirs(at)]);
        }
    }
    let mut widths = vec![0; width];
    cells.iter().enumerate().for_each(|(i, cell)| widths[i % width] = widths[i % width].max(cell.len()));
    let mut text = String::new();
    for line in cells.chunks(width) {
        for (i, (cell, width)) in line.iter().zip(&widths).enumerate() {
            // Writing to a String does not fail.
            let _ = write!(text, "{}{cell:>width$}", if i == 0 { "" } else { ", " });
        }
        text.push('\n');
    }
    text
}
