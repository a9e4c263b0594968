//! The error of tables.

/// What is wrong with a table, where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{cause}; {remedy}", self.column_text(), self.line())]
pub struct TableError {
    /// The column, or `None` if the table as a whole is wrong.
    pub column: Option<String>,
    /// The row in its batch, counted from 0, if one value is wrong.
    pub row: Option<usize>,
    /// What is wrong.
    pub cause: String,
    /// What to do about it.
    pub remedy: String,
}

impl TableError {
    /// Returns the error of a table as a whole.
    pub(super) fn of_table(cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { column: None, row: None, cause: cause.into(), remedy: remedy.into() }
    }

    /// Returns the error of a column, or of the value that it has in a row.
    pub(super) fn of_column(
        column: &str,
        row: Option<usize>,
        cause: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { column: Some(column.to_owned()), row, ..Self::of_table(cause, remedy) }
    }

    /// Returns the error with another row, if it names a row.
    pub fn in_row(self, row: usize) -> Self {
        Self { row: self.row.map(|_| row), ..self }
    }

    fn column_text(&self) -> String {
        self.column.as_ref().map(|column| format!("column `{column}`: ")).unwrap_or_default()
    }

    fn line(&self) -> String {
        self.row.map(|row| format!("row {row}: ")).unwrap_or_default()
    }
}
