//! `fangorn convert`: converts any model to a `.fangorn` file.

use std::{io::Write, path::PathBuf};

use clap::Args;
use fangorn::{
    file::{Contents, NamedText},
    import::LoadOptions,
    schedule::Device,
    sum::Contract,
};

use crate::{
    Outcome,
    atomic_file::AtomicFile,
    backend::Backend,
    error::{Error, Result, one_line},
    library_error,
    limits::LimitsChoice,
    output, profile,
    schedule::Choice,
};

/// Convert a model to a .fangorn file, which loads fastest
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  fangorn convert model.ubj -o model.fangorn")]
pub struct Convert {
    /// The model file, in any format that fangorn reads
    model: PathBuf,
    /// The file to write; its name ends in .fangorn
    #[arg(short, value_name = "FILE")]
    o: PathBuf,
    /// A schedule to store with the forest: a preset's name, or a file with one directive a line. Repeat the option for
    /// several
    #[arg(long, value_name = "NAME|FILE")]
    schedule: Vec<String>,
    /// A profile to store with the forest: a file that `fangorn profile` wrote
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// The boosting rounds to keep: those from FIRST to END - 1, counted from 0; END = 0 stands for the end of the last
    /// round
    #[arg(long, value_name = "FIRST..END", value_parser = rounds)]
    iteration_range: Option<std::ops::Range<u32>>,
    #[command(flatten)]
    limits: LimitsChoice,
}

fn rounds(text: &str) -> Result<std::ops::Range<u32>, String> {
    let range = text.split_once("..").and_then(|(a, b)| Some(a.trim().parse().ok()?..b.trim().parse().ok()?));
    range.ok_or_else(|| "give two numbers with .. between them, for example 0..100".into())
}

/// Runs the command.
///
/// # Errors
/// The options, the model, a schedule or the profile are wrong, or the file can't be written.
pub fn run(args: &Convert) -> Result<Outcome> {
    if args.o.extension().is_none_or(|e| !e.eq_ignore_ascii_case("fangorn")) {
        return Err(Error::file(&args.o, "its name has to end in .fangorn; rename the output"));
    }
    AtomicFile::check(&args.o)?;
    let iteration_range = args.iteration_range.clone();
    let options = LoadOptions {
        iteration_range,
        limits: args.limits.limits(),
        raw_categories: true,
        ..LoadOptions::default()
    };
    let mut contents = Contents::load(&args.model, &options).map_err(library_error)?;
    for name in &args.schedule {
        let choice = Choice::new(name, &contents.forest, Backend::Cpu, Device::Cpu, Contract::Any)?;
        let text = choice.only()?.to_string();
        contents.schedules.retain(|s| s.name != *name);
        contents.schedules.push(NamedText { name: name.clone(), text });
    }
    if let Some(path) = &args.profile {
        contents.profile = Some(profile::read(path, &contents.forest)?.visits().to_vec());
    }
    let bytes = contents.to_bytes();
    AtomicFile::write(&args.o, |out| out.write_all(&bytes))?;
    let forest = &contents.forest;
    let name = one_line(&args.o.display().to_string());
    output::print(&format!("{name}: {} trees, {} bytes\n", forest.trees.len(), bytes.len()))?;
    Ok(Outcome::Done)
}
