//! `fangorn compile`: compiles a model ahead of time to C99 source, or to a static library.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use clap::Args;
use fangorn::ahead::{c_source, check_name, smallest_c_source};

use crate::{
    Outcome,
    atomic_file::{AtomicFile, refusal},
    error::{Error, Result, one_line},
    library_error,
    limits::LimitsChoice,
    load_forest, output, static_library,
};

/// Compile a model to C99 source or to a static library, for machines that serve this model alone
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  fangorn compile model.ubj -o librisk.a\n  fangorn compile model.ubj -o risk.c \
                  --header=include/risk.h"
)]
pub struct Compile {
    /// The model file, in any format that fangorn reads
    model: PathBuf,
    /// The file to write: a static library, whose name ends in .a, or the source, whose name ends in .c. A header is
    /// written, too. The name without lib and the ending begins the names of the functions.
    /// For a library, the environment variables CC, CFLAGS and AR choose the compiler, its arguments and the archiver
    #[arg(short, value_name = "FILE")]
    o: PathBuf,
    /// The header to write, in a folder that exists. Without it, or without a file, the header lies beside the output and
    /// has the name that begins the functions, with the ending .h
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    header: Option<Option<PathBuf>>,
    /// Take the smallest tables, for a machine with little memory: rows walk from node to node, and may be slower
    #[arg(long)]
    smallest: bool,
    #[command(flatten)]
    limits: LimitsChoice,
}

/// Returns where a file would be written, whatever names and links its path has.
fn destination(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let there = || Some(folder.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(there).unwrap_or_else(|| path.to_owned())
}

/// Runs the command.
///
/// # Errors
/// The options or the model are wrong, the model can't be compiled, or a file can't be written.
pub fn run(args: &Compile) -> Result<Outcome> {
    let extension = args.o.extension().and_then(|extension| extension.to_str());
    let (name, is_library) = match extension {
        Some("c") => (args.o.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default(), false),
        Some("a") => (static_library::name_of(&args.o), true),
        _ => return Err(Error::file(&args.o, "its name has to end in .a or .c; rename the output")),
    };
    let beside = args.o.with_file_name(format!("{name}.h"));
    let header = args.header.clone().flatten().unwrap_or_else(|| beside.clone());
    if destination(&header) == destination(&args.o) {
        return Err(Error::file(&header, "the header would overwrite the output; name another header"));
    }
    if !is_library && header.file_name() != beside.file_name() {
        let of_source = format!("the source includes `{name}.h`; give the header this name, in any folder");
        return Err(Error::file(&header, of_source));
    }
    AtomicFile::check(&args.o)?;
    AtomicFile::check(&header)?;
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
    let compiled = match args.smallest {
        true => smallest_c_source(&forest, name),
        false => c_source(&forest, name),
    };
    let compiled = compiled.map_err(|e| of_file(&args.model, e))?;
    let bytes = match is_library {
        true => static_library::of_source(&compiled, name)?,
        false => compiled.source.into_bytes(),
    };
    // Both are whole before one appears at its path, because they belong together.
    let (mut main_file, mut header_file) = (AtomicFile::create(&args.o)?, AtomicFile::create(&header)?);
    let written = |file: &mut AtomicFile, path: &Path, bytes: &[u8]| {
        let out = file.out();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(|e| refusal(path, &e))
    };
    written(&mut main_file, &args.o, &bytes)?;
    written(&mut header_file, &header, compiled.header.as_bytes())?;
    main_file.complete(&args.o)?;
    header_file.complete(&header)?;
    let [main, header] = [&args.o, &header].map(|path| one_line(&path.display().to_string()));
    output::print(&format!("{main}, {header}: {} trees\n", forest.trees.len()))?;
    Ok(Outcome::Done)
}
