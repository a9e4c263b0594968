//! `fangorn compile`: compiles a model ahead of time to C99 source.

use std::{io::Write, path::PathBuf};

use clap::Args;
use fangorn::ahead::c_source;

use crate::{
    Outcome,
    atomic_file::AtomicFile,
    error::{Error, Result, one_line},
    library_error,
    limits::LimitsChoice,
    load_model, output,
};

/// Compile a model to C99 source, which needs no library, for machines that serve this model alone
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  fangorn compile model.ubj -o risk.c\n  cc -O2 -c risk.c")]
pub struct Compile {
    /// The model file, in any format that fangorn reads
    model: PathBuf,
    /// The source to write; its name ends in .c. The header is written beside it, with .h. The name without .c begins
    /// the names of the functions
    #[arg(short, value_name = "FILE")]
    o: PathBuf,
    #[command(flatten)]
    limits: LimitsChoice,
}

/// Runs the command.
///
/// # Errors
/// The options or the model are wrong, the model can't be compiled, or a file can't be written.
pub fn run(args: &Compile) -> Result<Outcome> {
    if args.o.extension().is_none_or(|e| e != "c") {
        return Err(Error::file(&args.o, "its name has to end in .c; rename the output"));
    }
    let header = args.o.with_extension("h");
    AtomicFile::check(&args.o)?;
    AtomicFile::check(&header)?;
    let forest = load_model(&args.model, &args.limits)?;
    let name = args.o.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let compiled = c_source(&forest, name).map_err(library_error)?;
    AtomicFile::write(&header, |out| out.write_all(compiled.header.as_bytes()))?;
    AtomicFile::write(&args.o, |out| out.write_all(compiled.source.as_bytes()))?;
    let [source, header] = [&args.o, &header].map(|path| one_line(&path.display().to_string()));
    output::print(&format!("{source}, {header}: {} trees\n", forest.trees.len()))?;
    Ok(Outcome::Done)
}
