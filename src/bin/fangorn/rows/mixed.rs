//! Tables with columns of texts and columns of numbers.

use std::{path::Path, sync::Arc};

use fangorn::{Forest, table::ColumnNames};

use super::{CsvRows, Matrix, OnError, RowsInParts, TableChoice, parts, plural, request};
#[cfg(feature = "tables")]
use super::{TableFormat, TableRows};
use crate::{
    error::{Error, Result, note},
    standard_input::is_standard_input,
    table_format,
    tables::KeptColumn,
};

/// A column that the caller wants.
#[derive(Clone, Debug)]
pub struct ColumnRequest<'g> {
    /// Its name, if it has one.
    pub name: Option<&'g str>,
    /// Whether its cells stay texts.
    pub texts: bool,
}

/// The wanted columns of a table: those of numbers, and those of texts.
#[derive(Clone, Debug)]
pub struct MixedRows {
    /// The columns of numbers, in the order of the requests. A missing number is NaN.
    pub numbers: Matrix<f64>,
    /// The columns of texts, in the order of the requests. A missing text is empty.
    pub texts: Vec<Vec<Arc<str>>>,
}

impl<'f> RowsInParts<'f> {
    /// Opens a table with columns of texts and of numbers, and columns to keep beside the predictions. Columns are found
    /// by name if each requested column has a name and the table has at least one of these names, and otherwise by
    /// position. `numbers` has a feature for each requested column of numbers.
    ///
    /// # Errors
    /// The file can't be read, is no table with names and rows, or has other columns.
    pub fn open_mixed(
        path: &'f Path,
        requests: &[ColumnRequest<'_>],
        numbers: &'f Forest,
        table: TableChoice,
        keep: &[String],
        on_error: OnError,
    ) -> Result<Self> {
        table_format::require(path)?;
        #[cfg(feature = "tables")]
        if let Some(format) = TableFormat::of_rows(path) {
            return TableRows::open_mixed(path, format, numbers, requests, table, keep).map(Self::Table);
        }
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
        if !is_standard_input(path) && extension != "csv" {
            let tables = table_format::NAMED_TABLES;
            let remedy = format!("give {tables}, or - for CSV or a stream of Arrow from standard input");
            let what = format!("the graph takes texts, which this file can't hold; {remedy}");
            return Err(Error::file(path, what));
        }
        let wanted = request(path, numbers, table);
        CsvRows::open_mixed(wanted, requests, table, keep, on_error).map(Self::Csv)
    }
}

/// Reads the columns of a table whole, as [`RowsInParts::open_mixed`] finds them.
///
/// # Errors
/// The file can't be read, is no table with names and rows, or has other columns.
pub fn read_mixed(path: &Path, requests: &[ColumnRequest<'_>], table: TableChoice) -> Result<MixedRows> {
    let numbers = super::nameless(requests.iter().filter(|request| !request.texts).count())?;
    let rows = RowsInParts::open_mixed(path, requests, &numbers, table, &[], OnError::Stop)?;
    let columns = numbers.features.len();
    let mut texts = vec![Vec::new(); requests.len() - columns];
    let add = |of_batch: &[KeptColumn]| {
        let of_batch = texts_of(of_batch, path)?;
        texts.iter_mut().zip(of_batch).for_each(|(all, texts)| all.extend(texts));
        Ok(())
    };
    let no_room = |values| request(path, &numbers, table).no_room::<f64>(values);
    let numbers = match &rows {
        #[cfg(feature = "tables")]
        RowsInParts::Table(rows) => parts::read_all(rows, columns, no_room, add),
        RowsInParts::Csv(rows) => parts::read_all(rows, columns, no_room, add),
        // They hold no texts, so `open_mixed` refuses them.
        RowsInParts::Npy(_) | RowsInParts::Libsvm(_) => {
            Err(Error::Defect("a table of texts in a file of numbers".into()))
        }
    };
    Ok(MixedRows { numbers: numbers?, texts })
}

/// Returns the texts of a batch's columns.
///
/// # Errors
/// A column holds other values.
pub fn texts_of(columns: &[KeptColumn], path: &Path) -> Result<Vec<Vec<Arc<str>>>> {
    let texts = columns.iter().map(KeptColumn::shared_texts).collect::<std::io::Result<_>>();
    texts.map_err(|e| Error::file(path, format!("{e}; write the file again")))
}

/// The indices of the wanted columns among those of a table, in the order of the requests.
pub(super) struct MixedIndices {
    /// Those of the columns of numbers.
    pub(super) numbers: Vec<usize>,
    /// Those of the columns of texts.
    pub(super) texts: Vec<usize>,
}

impl MixedIndices {
    /// Finds the columns of a table with these names. If columns are taken in their order, those to keep are left out.
    ///
    /// # Errors
    /// The table has other columns.
    pub(super) fn find(
        path: &Path,
        names: &[&str],
        wanted: &[ColumnRequest<'_>],
        table: TableChoice,
        kept: &[usize],
    ) -> Result<Self> {
        let mut found = Self { numbers: Vec::new(), texts: Vec::new() };
        for (request, index) in wanted.iter().zip(column_indices(path, names, wanted, table, kept)?) {
            if request.texts { found.texts.push(index) } else { found.numbers.push(index) }
        }
        Ok(found)
    }
}

/// Returns the index of each wanted column among those of a table. If columns are taken in their order, those to keep are
/// left out.
fn column_indices(
    path: &Path,
    names: &[&str],
    wanted: &[ColumnRequest<'_>],
    table: TableChoice,
    kept: &[usize],
) -> Result<Vec<usize>> {
    if !table.by_position && wanted.iter().all(|column| column.name.is_some()) {
        let mut features = super::nameless(wanted.len())?;
        for (feature, column) in features.features.iter_mut().zip(wanted) {
            feature.name = column.name.map(str::to_owned);
        }
        let wanted = ColumnNames::of(&features);
        // A single input has the name that the exporter gave it.
        let are_columns = wanted.names().len() > 1 && wanted.are_chosen();
        if are_columns || !wanted.names().is_empty() && wanted.any_of(names.iter().copied()) {
            let remedy = "write the model's names into the first line, or give --by-position if the columns are in the \
                          graph's order";
            let indices = wanted.indices(names.iter().copied());
            return indices.map_err(|mismatch| Error::file(path, format!("{mismatch}; {remedy}")));
        }
    }
    note(format!("{}: the first line is the header, and columns are taken in their order", path.display()));
    let others: Vec<usize> = (0..names.len()).filter(|at| !kept.contains(at)).collect();
    match others.len() == wanted.len() {
        true => Ok(others),
        false => Err(Error::file(
            path,
            format!(
                "the table has {} column{}, the graph takes {}; give all its columns in order",
                others.len(),
                plural(others.len()),
                wanted.len()
            ),
        )),
    }
}
