//! Files that are read and written in batches: CSV, numpy's, and with the feature `tables` Parquet and Arrow's IPC
//! format (Feather).
//!
//! | file | subject |
//! |---|---|
//! | `kept` | columns of a table that are kept beside the predictions |
//! | `write` | predictions and kept columns, batch after batch |
//! | `journal`, `encoding` | what a run has predicted so far, for a run that goes on from there |
//! | `read`, `arrow` | the batches of files of Parquet and Arrow, and what is written to them |
//! | `messages` | Arrow's streams and files, below the batches |

#[cfg(feature = "tables")]
mod arrow;
mod encoding;
mod journal;
mod kept;
#[cfg(feature = "tables")]
mod messages;
#[cfg(feature = "tables")]
mod read;
mod write;

pub use journal::{Journal, journal_of_this_run};
pub use kept::{KeptColumn, KeptField, Texts};
#[cfg(feature = "tables")]
pub use read::{TableFile, TablePart};
pub use write::{ColumnNames, ScoredBatch, ScoredSchema, TableWriter};

/// The number of rows of a batch. Up to some 30 columns, a core's second-level cache holds the decoded columns of a
/// batch and the rows that are made of them.
pub const BATCH_ROWS: usize = 8192;
