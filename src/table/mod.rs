//! Tables: columns that have names and types, and how they become the rows of a forest.
//!
//! What may come in: forests, and with the feature `arrow` the arrays of Arrow. Files stay out.
//!
//! | file | subject |
//! |---|---|
//! | `names` | the names of a model's columns, and where a table has them |
//! | `lost` | categories whose names a file of XGBoost has lost |
//! | `cell` | what the text of one cell means |
//! | `column` | columns of numbers in the caller's memory |
//! | `batch`, `error` | batches of Arrow, and the error of a table |

#[cfg(feature = "arrow")]
mod batch;
mod cell;
mod column;
#[cfg(feature = "arrow")]
mod error;
mod lost;
mod names;

#[cfg(feature = "arrow")]
pub use batch::{BatchColumns, BatchReader, ColumnMatch, LeafColumn, leaf_columns, nested_column};
pub use cell::{CategoryValue, CellReader, CellText, Number, ValueKind, plain_decimal};
pub use column::{Column, ColumnValues};
#[cfg(feature = "arrow")]
pub use error::TableError;
pub use lost::{LOST_CATEGORIES, SAVE_CATEGORIES, lost_categories};
pub use names::{ColumnNames, NameMismatch, first_names};
