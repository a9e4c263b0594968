//! `fangorn graph`: prints the graph that a classical model becomes.

use std::path::PathBuf;

use clap::Args;
use fangorn::import::{self, LoadOptions};

use crate::{Outcome, error::Result, library_error, limits::LimitsChoice, output};

/// Print the graph of a classical model
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  fangorn graph pipeline.onnx")]
pub struct Graph {
    /// The model file, an ONNX graph
    model: PathBuf,
    #[command(flatten)]
    limits: LimitsChoice,
}

/// Runs the command.
///
/// # Errors
/// The file can't be read, or an operator in it is not supported.
pub fn run(args: &Graph) -> Result<Outcome> {
    let options = LoadOptions { limits: args.limits.limits(), ..LoadOptions::default() };
    let graph = import::load_graph(&args.model, &options).map_err(library_error)?;
    output::print(&graph.to_string())?;
    Ok(Outcome::Done)
}
