//! The `.fangorn` file: a forest with its schedules, plan files and profile.

pub use crate::import::fangorn::{Contents, MAGIC, NamedText, VERSION};
