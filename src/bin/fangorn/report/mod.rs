//! `fangorn report`: one page that shows what a model does with some rows.
//!
//! | file | subject |
//! |---|---|
//! | `findings` | the numbers that the page shows, all of them the library's |
//! | `charts` | the kinds of pictures |
//! | `page` | the page |

mod charts;
mod findings;
mod page;

use std::{io::Write as _, path::PathBuf};

use clap::Args;

use crate::{
    Outcome,
    answer::{MissingChoice, RoundsChoice},
    atomic_file::AtomicFile,
    error::{Error, Result},
    importance::LabelArgs,
    limits::LimitsChoice,
    output,
    row_source::{RowSource, SampleChoice},
    rows::{self, TableChoice},
    standard_input::rows_path,
};
use findings::Findings;

/// Write an HTML page about a model and its predictions of some rows
#[derive(Debug, Args)]
#[command(after_help = "Example:
  fangorn report model.ubj --rows rows.csv -o report.html
  fangorn report model.ubj --rows rows.parquet --label churned --row 17 -o report.html")]
pub struct Report {
    /// The model file, in any format that fangorn reads
    model: PathBuf,
    /// Rows like those that are predicted: a .npy, .csv, .parquet, .arrow or .libsvm file, or - for CSV from standard
    /// input
    #[arg(long, value_name = "FILE", value_parser = rows_path())]
    rows: PathBuf,
    #[command(flatten)]
    labels: LabelArgs,
    /// The number of the row whose prediction is explained, counted from 0
    #[arg(long, value_name = "N", default_value = "0")]
    row: u64,
    /// The number of the output whose contributions and dependences are drawn, counted from 0, if the model has several
    #[arg(long, value_name = "N", default_value = "0")]
    of_output: u32,
    /// A file of some hundred typical rows, in any format of --rows. For contributions, a feature that is not known takes
    /// its values from these rows. Without it, contributions use the covers in the model's file, or up to 100 of the
    /// rows if there are none
    #[arg(long, value_name = "FILE")]
    background: Option<PathBuf>,
    #[command(flatten)]
    rounds: RoundsChoice,
    #[command(flatten)]
    missing: MissingChoice,
    #[command(flatten)]
    sample: SampleChoice,
    /// The page to write
    #[arg(short, value_name = "FILE.html", default_value = "report.html")]
    o: PathBuf,
    #[command(flatten)]
    table: TableChoice,
    #[command(flatten)]
    limits: LimitsChoice,
}

/// Runs the command.
///
/// # Errors
/// The options, the model or the rows are wrong, or the page can't be written.
pub fn run(args: &Report) -> Result<Outcome> {
    AtomicFile::check(&args.o)?;
    rows::check_standard_input(["--rows", "--background"], [Some(&args.rows), args.background.as_deref()])?;
    let forest = args.rounds.load(&args.model, &args.limits, true)?.forest;
    if forest.used_columns().is_empty() {
        let what = "the model has no split, so there is nothing to show; give a model with splits";
        return Err(Error::file(&args.model, what));
    }
    if args.of_output >= forest.outputs {
        let what = format!(
            "--of-output {}: the model has {} outputs, counted from 0; give a smaller number",
            args.of_output, forest.outputs
        );
        return Err(Error::Request(what));
    }
    let source =
        RowSource::open(&args.rows, &forest, args.table, args.labels.label.as_deref(), args.missing)?;
    let findings = match source.reads_doubles() {
        true => Findings::of::<f64>(args, &forest, &source)?,
        false => Findings::of::<f32>(args, &forest, &source)?,
    };
    let page = page::html(args, &forest, &findings);
    AtomicFile::write(&args.o, |out| out.write_all(page.as_bytes()))?;
    let text = format!(
        "{}: {} of {} rows, {} bytes\n",
        crate::error::one_line(&args.o.display().to_string()),
        findings.rows,
        findings.seen,
        page.len()
    );
    output::print(&text)?;
    Ok(Outcome::Done)
}
