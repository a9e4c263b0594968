//! `fangorn compile`: compiles a model ahead of time to C99 source.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use clap::Args;
use fangorn::ahead::{c_source, check_name};

use crate::{
    Outcome,
    atomic_file::{AtomicFile, refusal},
    error::{Error, Result, one_line},
    library_error,
    limits::LimitsChoice,
    load_forest, output,
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
    let name = args.o.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let of_file = |path: &Path, error| match error {
        fangorn::Error::Ahead(what) => Error::file(path, what),
        error => library_error(error),
    };
    check_name(name).map_err(|e| of_file(&args.o, e))?;
    if let Ok(model) = args.model.canonicalize()
        && [&args.o, &header].iter().any(|path| path.canonicalize().is_ok_and(|path| path == model))
    {
        return Err(Error::file(&args.model, "the model would be overwritten; name another output"));
    }
    let remedy = "`fangorn predict` predicts with it";
    let forest = load_forest(&args.model, &args.limits, "compile takes", remedy)?;
    let compiled = c_source(&forest, name).map_err(|e| of_file(&args.model, e))?;
    // Both are whole before one is in its place, because they belong together.
    let (mut source_file, mut header_file) = (AtomicFile::create(&args.o)?, AtomicFile::create(&header)?);
    let written = |file: &mut AtomicFile, path: &Path, text: &str| {
        let out = file.out();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| refusal(path, &e))
    };
    written(&mut source_file, &args.o, &compiled.source)?;
    written(&mut header_file, &header, &compiled.header)?;
    source_file.complete(&args.o)?;
    header_file.complete(&header)?;
    let [source, header] = [&args.o, &header].map(|path| one_line(&path.display().to_string()));
    output::print(&format!("{source}, {header}: {} trees\n", forest.trees.len()))?;
    Ok(Outcome::Done)
}
