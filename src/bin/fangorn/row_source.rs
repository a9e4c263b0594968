//! Rows for commands that read a whole table: part by part, or a random sample.

use std::path::Path;

use clap::{Args, value_parser};
use fangorn::{
    Forest,
    cpu::Rows,
    forest::{ClassRule, CompareType},
    insight::Sample,
    table::CellText,
};

use crate::{
    answer::MissingChoice,
    error::{Error, Result},
    library_error,
    output::Table,
    rows::{self, Element, Matrix, OnError, PartedRows, RowBatch, RowsInParts, TableChoice},
    score::{self, TakesParts},
    table_format::NAMED_TABLES,
    tables::{KeptColumn, ScoredBatch},
};

/// The rows of a large table that a command uses.
#[derive(Clone, Copy, Debug, Args)]
pub struct SampleChoice {
    /// The maximum number of rows to use, drawn at random from the whole file. Importances of the kind contribution
    /// use all rows
    #[arg(long, value_name = "N", default_value = "2000", value_parser = value_parser!(u32).range(1..=1 << 24))]
    pub sample: u32,
    /// The seed of the random numbers that draw rows and shuffle columns
    #[arg(long, value_name = "N", default_value = "0")]
    pub seed: u64,
}

/// A file of rows for a model.
pub struct RowSource<'f> {
    path: &'f Path,
    forest: &'f Forest,
    table: TableChoice,
    label: Option<&'f str>,
    missing: MissingChoice,
    /// The rows, if they are read part by part.
    parts: Option<RowsInParts<'f>>,
}

/// A sample of a file's rows, with their labels.
pub struct SampledRows<T> {
    /// The rows, one after the other.
    pub rows: Matrix<T>,
    /// The label of each row, if there are labels.
    pub labels: Vec<f64>,
    /// The number of rows in the file.
    pub file_rows: u64,
    /// The row whose number the caller gave.
    pub chosen: Option<Vec<T>>,
}

/// Returns a matrix as rows of the library.
///
/// # Errors
/// There are too many rows for one call.
pub fn view<T: Element>(rows: &Matrix<T>) -> Result<Rows<'_, T>> {
    Rows::strided(&rows.values, [rows.rows, rows.columns], rows.strides()).map_err(library_error)
}

impl<'f> RowSource<'f> {
    /// Opens a file. If a column of labels is named, the file has to have it.
    ///
    /// # Errors
    /// The file can't be read, has other columns than the model, or has no labels.
    pub fn open(
        path: &'f Path,
        forest: &'f Forest,
        table: TableChoice,
        label: Option<&'f str>,
        missing: MissingChoice,
    ) -> Result<Self> {
        if label.is_some() && !rows::has_named_columns(path) {
            let what = format!("--label: the file's columns have no names; give {NAMED_TABLES}");
            return Err(Error::file(path, what));
        }
        let keep: Vec<String> = label.map(str::to_owned).into_iter().collect();
        let parts =
            RowsInParts::open(path, forest, table, &keep, OnError::Stop).map_err(name_label_option)?;
        Ok(Self { path, forest, table, label, missing, parts })
    }

    /// Tells whether the rows are read as `f64`: if the model compares in `f64`, rounding to `f32` could change a
    /// comparison.
    pub fn reads_doubles(&self) -> bool {
        let holds_singles = match &self.parts {
            Some(parts) => parts.holds_singles(self.path),
            None => rows::holds_singles(self.path),
        };
        self.forest.compare == CompareType::F64 && !holds_singles
    }

    /// Calls `compute` with batches of rows, on several threads, and `take` with the results, in the order of the rows.
    /// A row has `columns` results. Returns the number of rows.
    ///
    /// # Errors
    /// The rows can't be read, or `compute` or `take` fails.
    pub fn each<T: Element>(
        &self,
        columns: usize,
        compute: impl Fn(&Matrix<T>) -> Result<Table> + Sync,
        take: impl FnMut(Table) -> Result<()>,
    ) -> Result<u64> {
        let mut taker = FunctionTaker(take);
        let compute = |batch: &mut RowBatch<T>| {
            self.missing.to_nan(self.forest, &mut batch.rows);
            compute(&batch.rows)
        };
        match &self.parts {
            #[cfg(feature = "tables")]
            Some(RowsInParts::Table(rows)) => {
                score::score(rows, columns, OnError::Stop, &compute, &mut taker)
            }
            Some(RowsInParts::Csv(rows)) => score::score(rows, columns, OnError::Stop, &compute, &mut taker),
            Some(RowsInParts::Npy(rows)) => score::score(rows, columns, OnError::Stop, &compute, &mut taker),
            Some(RowsInParts::Libsvm(rows)) => {
                score::score(rows, columns, OnError::Stop, &compute, &mut taker)
            }
            None => {
                let rows = rows::read_rows::<T>(self.path, self.forest, self.table)?;
                let count = rows.rows as u64;
                (taker.0)(compute(&mut RowBatch::of_numbers(rows))?)?;
                Ok(count)
            }
        }
    }

    /// Returns a random sample of at most `choice.sample` rows with their labels, and row number `chosen`.
    ///
    /// # Errors
    /// The rows can't be read, there is none, or a label is not one of the model's.
    pub fn sample<T: Element>(&self, choice: SampleChoice, chosen: Option<u64>) -> Result<SampledRows<T>> {
        let columns = self.forest.features.len();
        let mut draw = SampleDraw {
            sample: Sample::new(choice.sample as usize, choice.seed),
            found: SampledRows {
                rows: Matrix::of_rows(0, columns, Vec::new()),
                labels: Vec::new(),
                file_rows: 0,
                chosen: None,
            },
            chosen,
            source: self,
        };
        match &self.parts {
            #[cfg(feature = "tables")]
            Some(RowsInParts::Table(rows)) => draw.draw_parts(rows)?,
            Some(RowsInParts::Csv(rows)) => draw.draw_parts(rows)?,
            Some(RowsInParts::Npy(rows)) => draw.draw_parts(rows)?,
            Some(RowsInParts::Libsvm(rows)) => draw.draw_parts(rows)?,
            None => {
                let rows = rows::read_rows::<T>(self.path, self.forest, self.table)?;
                draw.draw(RowBatch::of_numbers(rows))?;
            }
        }
        let found = draw.found;
        match chosen {
            _ if found.file_rows == 0 => {
                Err(Error::file(self.path, "there is no row in it; give at least one"))
            }
            Some(row) if found.chosen.is_none() => {
                let what = format!("--row {row}: the file has {} rows, counted from 0", found.file_rows);
                Err(Error::file(self.path, format!("{what}; give a smaller number")))
            }
            _ => Ok(found),
        }
    }

    /// Returns the number of a label's class, or the label as a number if the model knows no classes.
    fn label(&self, text: &str, row: u64) -> Result<f64> {
        let label = self.label.unwrap_or_default();
        let refused = |why: String| {
            Err(Error::file(self.path, format!("the column `{label}` of --label, row {row}: {why}")))
        };
        let number = match CellText::of(text) {
            CellText::Missing => {
                return refused("there is no label; leave out rows without one".into());
            }
            CellText::Number(number) => Some(number),
            CellText::Truth(truth) => Some(f64::from(truth)),
            CellText::Word => None,
        };
        let classes = &self.forest.classes;
        let is_label = |of: &String| {
            *of == text.trim() || !classes.words && number.is_some() && of.parse::<f64>().ok() == number
        };
        if let Some(class) = classes.labels.iter().position(is_label) {
            return Ok(class as f64);
        }
        let count = classes.labels.len() as f64;
        // The number of a class can't be another class's label if no label is a number.
        let by_number = number.filter(|number| (0.0..count).contains(number) && number.fract() == 0.0);
        let words = classes.labels.iter().all(|label| label.parse::<f64>().is_err());
        if let Some(number) = by_number.filter(|_| words) {
            return Ok(number);
        }
        match number {
            _ if !classes.labels.is_empty() => {
                let known = fangorn::table::first_names(&classes.labels);
                refused(format!("`{text}` is no class of the model; its classes are {known}"))
            }
            None => refused(format!("`{text}` is no number, and the model names no classes; give numbers")),
            Some(number) => {
                let outputs = f64::from(self.forest.outputs.max(2));
                let inside =
                    (0.0..outputs).contains(&number) && (self.forest.outputs == 1 || number.fract() == 0.0);
                match classes.rule == ClassRule::None || inside && number <= outputs - 1.0 {
                    true => Ok(number),
                    false => refused(format!(
                        "`{text}` is no class; the classes are numbered from 0 to {}",
                        outputs - 1.0
                    )),
                }
            }
        }
    }
}

/// The state of drawing a sample.
struct SampleDraw<'s, 'f, T> {
    sample: Sample,
    found: SampledRows<T>,
    chosen: Option<u64>,
    source: &'s RowSource<'f>,
}

impl<T: Element> SampleDraw<'_, '_, T> {
    fn draw_parts<R: PartedRows>(&mut self, parts: &R) -> Result<()> {
        let bar = score::progress(parts);
        while let Some(part) = parts.next_part() {
            for batch in parts.batches::<T>(part?)? {
                let batch = batch?;
                bar.inc(batch.rows.rows as u64);
                self.draw(batch)?;
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn draw(&mut self, batch: RowBatch<T>) -> Result<()> {
        let RowBatch { mut rows, kept, .. } = batch;
        self.source.missing.to_nan(self.source.forest, &mut rows);
        let rows = rows.by_rows();
        let no_text = |e: std::io::Error| Error::file(self.source.path, e.to_string());
        let labels = kept.first().map(KeptColumn::texts).transpose().map_err(no_text)?;
        for row in 0..rows.rows {
            let values = rows.row(row);
            if self.chosen == Some(self.sample.seen()) {
                self.found.chosen = Some(values.to_vec());
            }
            let number = self.sample.seen();
            let Some(index) = self.sample.select() else { continue };
            let label = match &labels {
                Some(labels) => {
                    let text = labels.get(row).map_err(no_text)?;
                    Some(self.source.label(&text, number)?)
                }
                None => None,
            };
            let found = &mut self.found;
            if index == found.rows.rows {
                found.rows.values.extend(values);
                found.rows.rows += 1;
                found.labels.extend(label);
            } else {
                found.rows.values[index * rows.columns..][..rows.columns].copy_from_slice(values);
                found.labels.get_mut(index).into_iter().zip(label).for_each(|(of, label)| *of = label);
            }
        }
        self.found.file_rows = self.sample.seen();
        Ok(())
    }
}

/// A function that takes results.
struct FunctionTaker<F>(F);

impl<F: FnMut(Table) -> Result<()>> TakesParts for FunctionTaker<F> {
    fn take(&mut self, scored: ScoredBatch) -> Result<()> {
        (self.0)(scored.table)
    }

    fn end_part(&mut self) {}

    fn goes_on(&self) -> bool {
        false
    }
}

/// Replaces the option `--keep` by `--label` in an error about a kept column, because the kept column is the label
/// here.
fn name_label_option(error: Error) -> Error {
    match error {
        Error::File { file, what } => Error::File { file, what: what.replace("--keep", "--label") },
        other => other,
    }
}
