//! Files of tables that are read and written in batches: Parquet, and Arrow's IPC format (Feather).
//!
//! | file | subject |
//! |---|---|
//! | `read` | the batches of a file, part by part |
//! | `write` | predictions and kept columns, batch after batch |
//! | `journal` | what a run has predicted so far, for a run that goes on from there |

mod journal;
mod read;
mod write;

pub use journal::{Journal, journal_of_this_run};
pub use read::{BATCH_ROWS, TableFile};
pub use write::{ColumnNames, ScoredBatch, ScoredSchema, TableWriter};
