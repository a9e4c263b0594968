//! `fangorn lower`: the compiler's stages as text.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fangorn::{
    Forest, Predictor, plan,
    plan::{Lowered, Request},
};

use crate::{
    Outcome,
    backend::Backend,
    error::{Error, Result},
    load_model, output,
    schedule::Choice,
};

/// A stage of the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Stage {
    /// The model as it was read
    Forest,
    /// The schedule's directives
    Schedule,
    /// The loops it spells out, before and after reductions are made legal
    Loops,
    /// The loops on a layout
    Plan,
    /// What the backend runs
    Kernel,
}

/// Print a stage of the compiler.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  fangorn lower model.ubj --schedule treebeard_one_tree --emit loops")]
pub struct Lower {
    /// The model file, of any format that is read
    model: PathBuf,
    /// A preset's name, or a file with one directive a line
    #[arg(long, value_name = "NAME|FILE", default_value = "default")]
    schedule: String,
    /// The backend to lower for; of those that are not built in, all stages but the kernel
    #[arg(long, default_value = "cpu")]
    backend: String,
    /// The stage to print
    #[arg(long, value_enum)]
    emit: Stage,
}

/// Runs the command.
///
/// # Errors
/// Whatever is wrong with what was handed in.
pub fn run(args: &Lower) -> Result<Outcome> {
    let backend = Backend::parse(&args.backend)?;
    if args.emit == Stage::Kernel {
        backend.require()?;
    }
    let forest = load_model(&args.model)?;
    let choice = Choice::new(&args.schedule, &forest, backend.is_gpu())?;
    let text = match args.emit {
        Stage::Forest => forest.to_text(),
        Stage::Schedule => choice.schedule.to_string(),
        Stage::Loops => {
            let lowered = lowered(&forest, backend, &choice)?;
            format!("{}# legalised\n{}", ended(lowered.loops()), ended(lowered.legal()))
        }
        Stage::Plan => {
            let lowered = lowered(&forest, backend, &choice)?;
            let notes: String = lowered.notes().iter().map(|n| format!("# {n}\n")).collect();
            format!("{}{notes}", ended(lowered.plan()))
        }
        Stage::Kernel => kernel_text(&forest, backend, &choice)?,
    };
    output::print(&text)?;
    Ok(Outcome::Done)
}

/// The text of an IR, its last line ended.
fn ended(ir: &impl std::fmt::Display) -> String {
    format!("{}\n", ir.to_string().trim_end_matches('\n'))
}

fn not_reference(backend: Backend) -> Result<()> {
    if backend == Backend::Reference {
        let what = "the reference walks the forest as it stands, so it has no loops, plan or kernel";
        return Err(Error::Request(format!("{what}; use --backend cpu")));
    }
    Ok(())
}

fn lowered(forest: &Forest, backend: Backend, choice: &Choice) -> Result<Lowered> {
    not_reference(backend)?;
    let threads = if backend.is_gpu() { 1 } else { Request::cpu().threads };
    let request = Request { device: backend.portable_device(), threads, ..Request::cpu() };
    plan::lower(forest, &choice.schedule, request).map_err(|e| choice.blame(e))
}

/// What runs on the backend, as text.
fn kernel_text(forest: &Forest, backend: Backend, choice: &Choice) -> Result<String> {
    #[cfg(feature = "cube")]
    if backend.is_gpu() {
        return Ok(ended(&crate::backend::kernel_text(backend, forest, choice)?));
    }
    not_reference(backend)?;
    let predictor = Predictor::with_schedule(forest, &choice.schedule).map_err(|e| choice.blame(e))?;
    Ok(ended(predictor.program()))
}
