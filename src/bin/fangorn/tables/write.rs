//! Writes predictions with the kept columns, batch after batch.

use std::{
    fs::File,
    io::{self, BufWriter, Seek, SeekFrom, Write},
};

#[cfg(feature = "tables")]
use super::arrow::ArrowTable;
use super::kept::{KeptColumn, KeptField};
use crate::output::{self, Table, Values};
#[cfg(feature = "tables")]
use crate::table_format::TableFormat;

/// The predictions of a batch, and the kept columns.
#[derive(Clone, Debug)]
pub struct ScoredBatch {
    /// The kept columns, in the order in which they were asked for.
    pub kept: Vec<KeptColumn>,
    /// The predictions.
    pub table: Table,
}

/// The names of the columns of a prediction.
#[derive(Clone, Debug)]
pub enum ColumnNames {
    /// A number of columns of one kind. A single column has the name of the output. Several have the name with their
    /// number, as in `value_0`. A CSV has these names in its header only if it also has kept columns.
    Numbered(&'static str, usize),
    /// A name for each column, which every CSV has in its header.
    Named(Vec<String>),
}

/// The columns of a prediction, and the kept columns.
#[derive(Clone, Debug)]
pub struct ScoredSchema {
    kept: Vec<KeptField>,
    predicted: Vec<String>,
    /// An empty list of predictions, which gives their type.
    none: Values,
    /// Whether a CSV has a header.
    has_header: bool,
}

impl ScoredSchema {
    /// Returns the columns of predictions like `example`.
    ///
    /// # Errors
    /// A kept column has the name of a prediction.
    pub fn new(kept: Vec<KeptField>, names: ColumnNames, example: &Table) -> Result<Self, String> {
        let has_header = !kept.is_empty() || matches!(names, ColumnNames::Named(_));
        let predicted: Vec<String> = match names {
            ColumnNames::Numbered(name, 1) => vec![name.to_owned()],
            ColumnNames::Numbered(name, columns) => (0..columns).map(|at| format!("{name}_{at}")).collect(),
            ColumnNames::Named(names) => names,
        };
        if let Some(both) = kept.iter().find(|field| predicted.iter().any(|name| name == field.name())) {
            return Err(format!(
                "--keep: the column `{}` has the name of a prediction; leave it out of --keep, or add a copy with another \
                 name to the table",
                both.name()
            ));
        }
        let none = match example.values {
            Values::Floats(_) => Values::Floats(Vec::new()),
            Values::Ints(_) => Values::Ints(Vec::new()),
            Values::Words(_) => Values::Words(Vec::new()),
        };
        Ok(Self { kept, predicted, none, has_header })
    }

    /// Returns the kept columns, which come first.
    pub(super) fn kept(&self) -> &[KeptField] {
        &self.kept
    }

    /// Returns the names of the columns of predictions.
    pub(super) fn predicted(&self) -> &[String] {
        &self.predicted
    }

    /// Returns an empty list of predictions, which gives their type.
    pub(super) fn none(&self) -> &Values {
        &self.none
    }

    fn header(&self) -> String {
        let names = self.kept.iter().map(KeptField::name).chain(self.predicted.iter().map(String::as_str));
        names.map(|name| output::quoted(name).into_owned()).collect::<Vec<_>>().join(",") + "\n"
    }
}

/// The file that predictions go to.
pub struct TableWriter<'o> {
    schema: ScoredSchema,
    rows: usize,
    out: Writer<'o>,
}

enum Writer<'o> {
    #[cfg(feature = "tables")]
    Table(ArrowTable<'o>),
    Csv(&'o mut dyn Write),
    /// The number of rows that the header gives. If it turns out wrong, the header is written again.
    Npy(&'o mut BufWriter<File>, usize),
}

impl<'o> TableWriter<'o> {
    /// Begins a file of Parquet or Arrow.
    ///
    /// # Errors
    /// The system reports a failure, or the format has no such type.
    #[cfg(feature = "tables")]
    pub fn new(schema: ScoredSchema, format: TableFormat, out: &'o mut BufWriter<File>) -> io::Result<Self> {
        let out = Writer::Table(ArrowTable::new(&schema, format, out)?);
        Ok(Self { schema, rows: 0, out })
    }

    /// Begins a CSV file. It has a header if the schema asks for one.
    ///
    /// # Errors
    /// The system reports a failure.
    pub fn csv(schema: ScoredSchema, out: &'o mut dyn Write) -> io::Result<Self> {
        if schema.has_header {
            out.write_all(schema.header().as_bytes())?;
        }
        Ok(Self { schema, rows: 0, out: Writer::Csv(out) })
    }

    /// Begins a numpy file of `rows` rows, as far as the number is known. It has no kept columns.
    ///
    /// # Errors
    /// The system reports a failure.
    pub fn npy(schema: ScoredSchema, rows: usize, out: &'o mut BufWriter<File>) -> io::Result<Self> {
        out.write_all(&output::npy_header(&schema.none, [rows, schema.predicted.len()])?)?;
        Ok(Self { schema, rows: 0, out: Writer::Npy(out, rows) })
    }

    /// Writes the next batch.
    ///
    /// # Errors
    /// The system reports a failure.
    pub fn write(&mut self, scored: ScoredBatch) -> io::Result<()> {
        self.rows += scored.table.rows;
        match &mut self.out {
            #[cfg(feature = "tables")]
            Writer::Table(table) => table.write(&scored),
            // Flushing gives the reader of a pipe each batch at once.
            Writer::Csv(out) => csv(&scored, *out).and_then(|()| out.flush()),
            Writer::Npy(out, _) => output::npy_values(&scored.table.values, *out),
        }
    }

    /// Writes what comes after the last batch.
    ///
    /// # Errors
    /// The system reports a failure.
    pub fn finish(self) -> io::Result<()> {
        match self.out {
            #[cfg(feature = "tables")]
            Writer::Table(table) => table.finish(),
            Writer::Csv(out) => out.flush(),
            Writer::Npy(_, rows) if rows == self.rows => Ok(()),
            Writer::Npy(out, _) => {
                let header = output::npy_header(&self.schema.none, [self.rows, self.schema.predicted.len()])?;
                out.seek(SeekFrom::Start(0))?;
                out.write_all(&header)?;
                out.seek(SeekFrom::End(0)).map(drop)
            }
        }
    }
}

fn csv(scored: &ScoredBatch, out: &mut dyn Write) -> io::Result<()> {
    let kept = scored.kept.iter().map(KeptColumn::texts).collect::<io::Result<Vec<_>>>()?;
    for row in 0..scored.table.rows {
        for column in &kept {
            out.write_all(output::quoted(&column.get(row)?).as_bytes())?;
            out.write_all(b",")?;
        }
        output::csv_row(&scored.table, row, out)?;
    }
    Ok(())
}
