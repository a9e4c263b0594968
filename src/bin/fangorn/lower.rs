//! `fangorn lower`: prints the compiler's stages as text.

use std::{io::Write, path::PathBuf};

use clap::{Args, ValueEnum};
use fangorn::{
    Forest, plan,
    plan::{LoweredForest, Request},
    schedule::{Architecture, BatchSchedules, Device},
    sum::Contract,
};

use crate::{
    Outcome,
    atomic_file::AtomicFile,
    backend::Backend,
    error::{Error, Result, say},
    limits::LimitsChoice,
    load_contents, output,
    profile::ProfileChoice,
    schedule::Choice,
};

/// A stage of the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Stage {
    /// The model as it was read
    Forest,
    /// The schedule's directives
    Schedule,
    /// The loops that the schedule makes, before and after their sums are made safe in parallel
    Loops,
    /// The loops on a layout of nodes in memory, with walks, caches and sums
    Plan,
    /// The code that the backend runs: WGSL, SPIR-V, PTX, LLVM IR for AMD's GPUs, or the CPU's program
    Kernel,
}

/// Print a stage of the compiler: forest, schedule, loops, plan or kernel
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  fangorn lower model.ubj --schedule treebeard_one_tree --emit loops
  fangorn lower model.ubj --emit plan --batch 7
  fangorn lower model.ubj --backend wgpu --portable --emit plan
  fangorn lower model.ubj --schedule rapids_fil --backend cuda --arch sm_90a --emit kernel --output kernel.ptx")]
pub struct Lower {
    /// The model file, in any format that fangorn reads
    model: PathBuf,
    /// A preset's name, or a file with one directive a line. For the CPU also a plan file (.toml), or `tuned`: the
    /// schedules that `fangorn tune` keeps for the model
    #[arg(long, value_name = "NAME|FILE", default_value = "default")]
    schedule: String,
    #[command(flatten)]
    profile: ProfileChoice,
    /// The backend to lower for. A GPU's backend that is built in lowers for the GPU of this machine; cuda and rocm lower
    /// for the GPU that --arch names
    #[arg(long, default_value = "cpu")]
    backend: String,
    /// The stage to print
    #[arg(long, value_enum)]
    emit: Stage,
    /// The architecture to lower for, with the backends cuda [default: sm_90a] and rocm [default: gfx942]. No GPU is
    /// needed
    #[arg(long, value_name = "NAME")]
    arch: Option<String>,
    /// Lower for a GPU with the limits that every GPU meets (256 units a cube, 16 KiB of shared memory), whichever GPU
    /// this machine has
    #[arg(long)]
    portable: bool,
    /// Print the plan or the kernel that runs a batch of this many rows, and on the CPU its engines. On a GPU, 4096
    /// without it
    #[arg(long, value_name = "ROWS")]
    batch: Option<usize>,
    /// Write to this file instead of standard output. A kernel for cuda or rocm is written as the driver loads it: PTX or
    /// a code object
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    limits: LimitsChoice,
}

/// Runs the command.
///
/// # Errors
/// The options, the model, the schedule or the profile are wrong, or the model can't be lowered.
pub fn run(args: &Lower) -> Result<Outcome> {
    let backend = Backend::parse(&args.backend)?;
    let arch = architecture(args, backend)?;
    if let Some(rows) = args.batch.filter(|rows| !(1..=LARGEST_BATCH).contains(rows)) {
        let what = format!("--batch {rows}: give 1 to {LARGEST_BATCH} rows; larger batches run the same way");
        return Err(Error::Request(what));
    }
    let (device, note) = match arch {
        Some(_) if args.portable && args.arch.is_some() => {
            return Err(Error::Request("--arch names a GPU, --portable none; leave one out".into()));
        }
        Some(arch) if !args.portable => (arch.device(), None),
        _ => device(args, backend)?,
    };
    if args.emit == Stage::Kernel {
        backend.require()?;
    }
    if let Some(path) = &args.output {
        AtomicFile::check(path)?;
    }
    let contents = load_contents(&args.model, &args.limits)?;
    let forest = &contents.forest;
    let choice = Choice::new(&args.schedule, forest, backend, device, Contract::Any)?
        .by(args.profile.read(&args.model, &contents)?);
    let choice = match backend.is_gpu() {
        true => choice.for_batch(args.batch.unwrap_or(BatchSchedules::USUAL_ROWS)),
        false => choice,
    };
    if let Some(rows) = args.batch.filter(|_| !backend.is_gpu()) {
        let text = batch_text(args, backend, forest, &choice, rows)?;
        return write(args, &text, text.as_bytes());
    }
    let text = match args.emit {
        Stage::Forest => forest.to_text(),
        Stage::Schedule => choice.only()?.to_string(),
        Stage::Loops => {
            let lowered = lowered(forest, backend, device, &choice)?;
            format!(
                "{}# legalised\n{}",
                with_final_newline(lowered.loops()),
                with_final_newline(lowered.legal())
            )
        }
        Stage::Plan => {
            let lowered = lowered(forest, backend, device, &choice)?;
            let notes: String = lowered.notes().iter().map(|n| format!("# {n}\n")).collect();
            format!("{}{notes}", with_final_newline(lowered.plan()))
        }
        Stage::Kernel => match arch {
            #[cfg(feature = "cube")]
            Some(arch) => {
                let lowered = lowered(forest, backend, device, &choice)?;
                let kernel = fangorn::cube::offline::kernel(arch, &lowered)?;
                return write(args, &with_final_newline(&kernel.text), &kernel.binary);
            }
            _ => kernel_text(forest, backend, &choice)?,
        },
    };
    if let Some(note) = note {
        say(&note);
    }
    write(args, &text, text.as_bytes())
}

/// The maximum number of rows of `--batch`. On the CPU a batch is run, and its engines are counted.
const LARGEST_BATCH: usize = 1 << 20;

/// Returns the plan or the program that runs a batch of `rows` rows, and its engines, as text.
fn batch_text(
    args: &Lower,
    backend: Backend,
    forest: &Forest,
    choice: &Choice,
    rows: usize,
) -> Result<String> {
    refuse_reference(backend)?;
    if !matches!(args.emit, Stage::Plan | Stage::Kernel) {
        return Err(Error::Request("--batch goes with --emit plan and --emit kernel".into()));
    }
    let predictor = choice.predictor(forest, Contract::Any)?;
    let plan = predictor.plan_for(rows);
    let engines = predictor.engines(rows)?;
    let visits: u64 = engines.iter().map(|(_, visits)| visits).sum();
    let mut text = format!("# batch of {rows}: plan of {plan}\n");
    for (engine, own) in engines {
        text += &format!("# engine {engine}: {own} of {visits} visits of a row to a tree\n");
    }
    if args.emit == Stage::Kernel {
        return Ok(text + &with_final_newline(plan.program));
    }
    let notes: String = plan.program.notes().iter().map(|note| format!("# {note}\n")).collect();
    Ok(text + &with_final_newline(plan.program.plan()) + &notes)
}

/// Writes the text to standard output, or the bytes to a file.
fn write(args: &Lower, text: &str, bytes: &[u8]) -> Result<Outcome> {
    match &args.output {
        Some(path) => AtomicFile::write(path, |out| out.write_all(bytes))?,
        None => output::print(text)?,
    }
    Ok(Outcome::Done)
}

/// Returns the architecture to lower for, or `None` for a backend that has no architectures to choose from.
fn architecture(args: &Lower, backend: Backend) -> Result<Option<Architecture>> {
    let name = match (&args.arch, backend) {
        (Some(name), Backend::Cuda | Backend::Rocm) => name,
        (None, Backend::Cuda) => "sm_90a",
        (None, Backend::Rocm) => "gfx942",
        (Some(_), _) => {
            let what = format!("--arch goes with --backend cuda and rocm, not {}", backend.name());
            return Err(Error::Request(what));
        }
        (None, _) => return Ok(None),
    };
    let arch: Architecture = name.parse().map_err(fangorn::Error::from)?;
    if matches!(arch, Architecture::Nvidia(_)) != (backend == Backend::Cuda) {
        let what = format!("--arch {name} is no architecture of the backend {}", backend.name());
        return Err(Error::Request(format!("{what}; name one of its own, or leave --arch out")));
    }
    Ok(Some(arch))
}

/// Returns the device to lower for, and a note for the user. If a GPU backend is not built in or its device
/// does not answer, the device is a portable GPU and the note says so.
fn device(args: &Lower, backend: Backend) -> Result<(Device, Option<String>)> {
    match (backend.is_gpu(), args.portable) {
        (false, false) => Ok((backend.device(), None)),
        (false, true) => {
            Err(Error::Request(format!("--portable goes with a GPU's backend, not {}", backend.name())))
        }
        (true, true) if args.emit == Stage::Kernel => {
            let what = "--portable goes with --emit schedule, loops and plan; a kernel is for one device";
            Err(Error::Request(what.into()))
        }
        (true, true) => Ok((Device::PORTABLE_GPU, None)),
        // The forest does not depend on a device, so don't open one.
        (true, false) if args.emit == Stage::Forest => Ok((Device::PORTABLE_GPU, None)),
        (true, false) => match backend.open_device() {
            Err(e @ (Error::NotBuiltIn { .. } | Error::Device { .. })) if args.emit != Stage::Kernel => {
                let note = format!("{e}; lowered for a portable GPU, as with --portable");
                Ok((Device::PORTABLE_GPU, Some(note)))
            }
            there => Ok((there?, None)),
        },
    }
}

/// Returns the text of an IR, with one newline at its end.
fn with_final_newline(ir: &impl std::fmt::Display) -> String {
    format!("{}\n", ir.to_string().trim_end_matches('\n'))
}

fn refuse_reference(backend: Backend) -> Result<()> {
    if backend == Backend::Reference {
        let what = "the reference interpreter walks the forest as it is, without loops, plan or kernel";
        return Err(Error::Request(format!("{what}; use --backend cpu")));
    }
    Ok(())
}

fn lowered(forest: &Forest, backend: Backend, device: Device, choice: &Choice) -> Result<LoweredForest> {
    refuse_reference(backend)?;
    let threads = if backend.is_gpu() { 1 } else { Request::cpu().threads };
    let request = Request { device, threads, ..Request::cpu() };
    plan::lower_with(forest, choice.only()?, request, choice.profile.as_ref()).map_err(|e| choice.blame(e))
}

/// Returns the code that the backend runs, as text.
fn kernel_text(forest: &Forest, backend: Backend, choice: &Choice) -> Result<String> {
    #[cfg(feature = "cube")]
    if backend.is_gpu() {
        return Ok(with_final_newline(&crate::backend::kernel_text(backend, forest, choice)?));
    }
    refuse_reference(backend)?;
    let predictor = choice.predictor(forest, Contract::Any)?;
    Ok(with_final_newline(predictor.program()))
}
