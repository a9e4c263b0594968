//! The `.fangorn` file: a forest with its schedules, plans and profile.

pub use crate::import::fangorn::{Contents, MAGIC, NamedText, VERSION};
