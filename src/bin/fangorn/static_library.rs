//! Makes a static library of C source, with the machine's own compiler and archiver.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use fangorn::ahead::CSource;

use crate::error::{Error, Result, one_line};

/// How many names that are already taken are tried for a folder.
const MOST_TRIES: u32 = 100;

/// A folder for files between two programs, removed with all that is in it when this value is dropped.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> Result<Self> {
        let mut last = None;
        for number in 0..MOST_TRIES {
            let path = std::env::temp_dir().join(format!("fangorn-compile-{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(e) => last = Some((path, e)),
            }
        }
        let (path, e) = last.unwrap_or_else(|| (std::env::temp_dir(), std::io::ErrorKind::Other.into()));
        let remedy = "set TMPDIR to a folder that takes files";
        Err(Error::file(&path, format!("no folder for the compiler's files can be made: {e}; {remedy}")))
    }

    /// Writes a file into the folder.
    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        let remedy = "set TMPDIR to a folder that takes files";
        fs::write(&path, text).map_err(|e| Error::file(&path, format!("can't be written: {e}; {remedy}")))?;
        Ok(path)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Compiles a source, and returns the bytes of a static library. `name` names the source's files. The environment
/// variables `CC`, `CFLAGS` and `AR` name the compiler, more arguments for it, and the archiver; each may be several
/// words.
///
/// # Errors
/// There is no compiler or archiver, or one of them fails.
pub fn of_source(compiled: &CSource, name: &str) -> Result<Vec<u8>> {
    let folder = TemporaryFolder::new()?;
    let source = folder.write(&format!("{name}.c"), &compiled.source)?;
    folder.write(&format!("{name}.h"), &compiled.header)?;
    let [object, library] = ["o", "a"].map(|extension| source.with_extension(extension));
    let mut arguments: Vec<OsString> = ["-O3", "-fPIC"].map(OsString::from).to_vec();
    arguments.extend(words("CFLAGS").into_iter().map(OsString::from));
    arguments.extend(["-c".into(), source.into(), "-o".into(), object.clone().into()]);
    run("CC", "cc", &arguments)?;
    run("AR", "ar", &["rcs".into(), library.clone().into(), object.into()])?;
    fs::read(&library).map_err(|e| {
        Error::file(&library, format!("the archiver has written no library: {e}; set AR to one that does"))
    })
}

/// Returns the words of an environment variable.
fn words(variable: &str) -> Vec<String> {
    let value = std::env::var(variable).unwrap_or_default();
    value.split_whitespace().map(str::to_owned).collect()
}

/// Runs the program that an environment variable names, or else `usual`.
fn run(variable: &str, usual: &str, arguments: &[OsString]) -> Result<()> {
    let mut words = words(variable);
    if words.is_empty() {
        words.push(usual.to_owned());
    }
    let program = words.join(" ");
    let remedy =
        format!("set {variable} to a program that works here, or name the output .c to compile it yourself");
    let output = Command::new(&words[0]).args(&words[1..]).args(arguments).output();
    let output = output.map_err(|e| Error::Request(format!("`{program}` can't be run: {e}; {remedy}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find(|line| line.contains("error")).or(said.lines().next()).unwrap_or_default();
    Err(Error::Request(format!("`{program}` fails, {}: {}; {remedy}", output.status, one_line(line))))
}

/// Returns the name that the functions of a library have: that of the file without `lib` and `.a`.
pub fn name_of(library: &Path) -> &str {
    let stem = library.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    stem.strip_prefix("lib").unwrap_or(stem)
}
