//! `fangorn sql`: starts the program `fangorn-sql`, which contains DataFusion and is installed separately.

use std::{
    ffi::OsString,
    io::ErrorKind,
    path::PathBuf,
    process::{Command, ExitStatus},
};

use clap::Args;

use crate::{
    Outcome,
    error::{Error, Result},
};

/// Query tables in SQL, with trained models as functions
#[derive(Debug, Args)]
#[command(after_help = "Example:
  fangorn sql \"SELECT id, forest_predict('model.ubj', age, income) AS risk FROM 'people.parquet'\"

The program fangorn-sql does the work; fangorn-sql --help lists its options. In a checkout,
cargo install --path sql installs it.")]
pub struct Sql {
    /// The query, and options of fangorn-sql
    #[arg(required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Runs the command.
///
/// # Errors
/// The program is not installed, or can't be started.
pub fn run(args: &Sql) -> Result<Outcome> {
    let name = format!("fangorn-sql{}", std::env::consts::EXE_SUFFIX);
    let beside =
        std::env::current_exe().ok().map(|own| own.with_file_name(&name)).filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from(&name));
    match Command::new(&program).args(&args.arguments).status() {
        Ok(status) => Ok(Outcome::Of(code(status))),
        Err(e) if e.kind() == ErrorKind::NotFound => Err(Error::Request(
            "sql: the program fangorn-sql is neither beside fangorn nor on the PATH; in a checkout of Fangorn, cargo \
             install --path sql installs it"
                .into(),
        )),
        Err(e) => Err(Error::file(&program, format!("{e}; install it again: cargo install --path sql"))),
    }
}

/// Returns a program's exit code, or 2 if a signal ended it or the code is not from 0 to 255.
fn code(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2)
}
