//! Flags that limit what a model file may ask for. Each is named after a field of [`Limits`].

use std::ffi::OsString;

use clap::Args;
use fangorn::import::Limits;

/// Limits on what a model file may ask for.
#[derive(Clone, Debug, Default, Args)]
pub struct LimitsChoice {
    /// Size of the model file, in bytes [default: 4 GiB]
    #[arg(long, value_name = "N", help_heading = HEADING, hide_short_help = true)]
    max_file_bytes: Option<u64>,
    /// Memory for the model's nodes, leaf values and category sets, in bytes [default: 16 GiB]
    #[arg(long, value_name = "N", help_heading = HEADING, hide_short_help = true)]
    max_memory_bytes: Option<u64>,
    /// Number of trees [default: 4194304]
    #[arg(long, value_name = "N", help_heading = HEADING, hide_short_help = true)]
    max_trees: Option<usize>,
    /// Number of nodes of all trees together [default: 268435456]
    #[arg(long, value_name = "N", help_heading = HEADING, hide_short_help = true)]
    max_nodes: Option<usize>,
    /// Depth of a tree [default: 1048576]
    #[arg(long, value_name = "N", help_heading = HEADING, hide_short_help = true)]
    max_depth: Option<u32>,
    /// Number of columns of a row [default: 1048576]
    #[arg(long, value_name = "N", help_heading = HEADING, hide_short_help = true)]
    max_features: Option<usize>,
    /// Number of outputs of the forest [default: 65536]
    #[arg(long, value_name = "N", help_heading = HEADING, hide_short_help = true)]
    max_outputs: Option<usize>,
    /// Number of 32-bit words of all category sets together [default: 67108864]
    #[arg(long, value_name = "N", help_heading = HEADING, hide_short_help = true)]
    max_category_words: Option<usize>,
    /// Length of one string, in bytes [default: 1 MiB]
    #[arg(long, value_name = "N", help_heading = HEADING, hide_short_help = true)]
    max_string_bytes: Option<usize>,
}

const HEADING: &str = "Limits on what a model file may ask for; raise one if you trust the file";

impl LimitsChoice {
    /// Returns the limits: the flags' values, and the default for each flag that is not given.
    pub fn limits(&self) -> Limits {
        let usual = Limits::default();
        Limits {
            file_bytes: self.max_file_bytes.unwrap_or(usual.file_bytes),
            trees: self.max_trees.unwrap_or(usual.trees),
            nodes: self.max_nodes.unwrap_or(usual.nodes),
            depth: self.max_depth.unwrap_or(usual.depth),
            features: self.max_features.unwrap_or(usual.features),
            outputs: self.max_outputs.unwrap_or(usual.outputs),
            category_words: self.max_category_words.unwrap_or(usual.category_words),
            memory_bytes: self.max_memory_bytes.unwrap_or(usual.memory_bytes),
            string_bytes: self.max_string_bytes.unwrap_or(usual.string_bytes),
        }
    }
}

impl LimitsChoice {
    /// Returns the flags as arguments for another command.
    pub fn arguments(&self) -> Vec<OsString> {
        let sizes = [
            ("trees", self.max_trees),
            ("nodes", self.max_nodes),
            ("features", self.max_features),
            ("outputs", self.max_outputs),
            ("category_words", self.max_category_words),
            ("string_bytes", self.max_string_bytes),
        ];
        let sizes = sizes.map(|(field, value)| (field, value.map(|n| n as u64)));
        let others = [
            ("file_bytes", self.max_file_bytes),
            ("memory_bytes", self.max_memory_bytes),
            ("depth", self.max_depth.map(u64::from)),
        ];
        let given = sizes.into_iter().chain(others).filter_map(|(field, value)| Some((field, value?)));
        given.flat_map(|(field, value)| [flag(field).into(), value.to_string().into()]).collect()
    }
}

/// Returns the flag that raises the limit with the field's name.
pub fn flag(field: &str) -> String {
    format!("--max-{}", field.replace('_', "-"))
}
