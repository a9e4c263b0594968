//! `fangorn predict --output contributions` and `--output interactions`: explains the rows.

use std::path::Path;

use fangorn::{
    Forest,
    contributions::{Explainer, Interventional, RowExplainer},
    cpu::Rows,
    forest::{Aggregate, CompareType},
    sum::Contract,
};

use crate::{
    answer::MissingChoice,
    backend::{Backend, Explanation},
    error::{Error, Result},
    library_error,
    output::{Sink, Table, Values},
    predict::{Output, Predict},
    rows::{self, Element, Matrix, TableChoice},
};

/// The maximum number of columns of interactions in a table, whose columns have names.
pub const MOST_NAMED_COLUMNS: usize = 1 << 16;

/// What explains the rows of a prediction.
pub enum ExplainedBy {
    /// An explainer on the CPU.
    Cpu(RowExplainer),
    /// The backend that runs the forest.
    Backend(Explanation),
}

impl ExplainedBy {
    /// Prepares contributions or interactions.
    ///
    /// # Errors
    /// An option does not apply to contributions and interactions, the model can't be explained, or the background can't be read.
    pub fn new(args: &Predict, forest: &Forest, backend: Backend, sink: &Sink) -> Result<Self> {
        let what = match args.background {
            Some(_) => format!("{}s against a background", args.output.name()),
            None => format!("{}s", args.output.name()),
        };
        let refused = |why: String| Err(Error::Request(format!("{why}; leave the option out")));
        if args.schedule != "default" {
            return refused(format!("--schedule: {what} need all leaves, so no schedule applies"));
        }
        if args.sum.sum != Contract::Any {
            return refused(format!("--sum: {what} keep no contract of sums"));
        }
        let of_model = |error: fangorn::Error| Error::file(&args.model, error.to_string());
        let pairs = args.output == Output::Interactions;
        let side = forest.features.len() + 1;
        let columns = side.saturating_mul(side).saturating_mul(forest.outputs as usize);
        let is_table = args.expect.is_none() && !matches!(sink, Sink::Npy(_));
        if pairs && is_table && columns > MOST_NAMED_COLUMNS {
            return Err(Error::Request(format!(
                "--output interactions: {columns} columns, for all pairs of {} features and the bias, are too many for a \
                 table; name the output .npy, or use --output contributions",
                forest.features.len()
            )));
        }
        if let Some(background) = &args.background {
            let read = || background_of(&args.model, forest, background, args.table, args.answer.missing);
            return match backend {
                Backend::Cpu => Ok(Self::Cpu(read()?.into())),
                _ => Explanation::against(backend, pairs, read).map(Self::Backend),
            };
        }
        Explainer::check(forest).map_err(|error| match forest.covers {
            // With a background, they need no covers.
            None if forest.aggregate == Aggregate::Sum => {
                Error::file(&args.model, format!("{error}; here the option --background FILE gives one"))
            }
            _ => of_model(error),
        })?;
        Ok(match backend {
            Backend::Cpu => {
                let explainer = Explainer::new(forest).map_err(of_model)?;
                Self::Cpu(explainer.into())
            }
            _ => Self::Backend(Explanation::by_covers(pairs)),
        })
    }
}

/// Returns zeros for the contributions to the margins of `rows` rows, or for their interactions.
///
/// # Errors
/// There is no memory for them.
pub fn room(explainer: &RowExplainer, rows: usize, output: Output) -> Result<Vec<f32>> {
    let mut room = Vec::new();
    let length = width(explainer, output).and_then(|width| width.checked_mul(rows));
    match length.filter(|length| room.try_reserve_exact(*length).is_ok()) {
        Some(length) => room.resize(length, 0.0),
        None => {
            let what = format!("no memory for {}s of {rows} rows; time fewer", output.name());
            return Err(Error::Request(what));
        }
    }
    Ok(room)
}

fn width(explainer: &RowExplainer, output: Output) -> Option<usize> {
    match output {
        Output::Interactions => explainer.interactions_width(),
        _ => Some(explainer.width()),
    }
}

/// Returns the contributions to each row's margins, or the interactions.
///
/// # Errors
/// There is no memory for them.
pub fn table<T: Element>(explainer: &RowExplainer, rows: &Matrix<T>, output: Output) -> Result<Table> {
    let view = Rows::strided(&rows.values, [rows.rows, rows.columns], rows.strides());
    let view = view.map_err(library_error)?;
    let values = match output {
        Output::Interactions => explainer.interactions(&view),
        _ => explainer.contributions(&view),
    };
    let values = Values::Floats(values.map_err(library_error)?);
    Ok(Table { rows: rows.rows, columns: width(explainer, output).unwrap_or(0), values })
}

/// Prepares contributions and interactions against a background file, which marks missing values like the file of rows.
///
/// # Errors
/// The background can't be read, or the model can't be explained.
pub fn background_of(
    model: &Path,
    forest: &Forest,
    background: &Path,
    table: TableChoice,
    missing: MissingChoice,
) -> Result<Interventional> {
    match forest.compare {
        CompareType::F64 => against_rows::<f64>(model, forest, background, table, missing),
        CompareType::F32 => against_rows::<f32>(model, forest, background, table, missing),
    }
}

/// Reads the background.
fn against_rows<T: Element>(
    model: &Path,
    forest: &Forest,
    background: &Path,
    table: TableChoice,
    missing: MissingChoice,
) -> Result<Interventional> {
    let mut rows = rows::read_rows::<T>(background, forest, table)?;
    missing.to_nan(forest, &mut rows);
    let view = Rows::strided(&rows.values, [rows.rows, rows.columns], rows.strides());
    let explainer = view.and_then(|view| Interventional::new(forest, &view));
    explainer.map_err(|error| match error {
        fangorn::Error::Rows(what) => Error::file(background, what),
        error => Error::file(model, error.to_string()),
    })
}
