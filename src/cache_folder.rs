//! The folder in the user's cache that Fangorn keeps files in. Files are read and replaced as a whole.

use std::{
    env,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// The environment variable that names the folder of kept schedules and costs. An empty value counts as unset.
pub const CACHE: &str = "FANGORN_CACHE";

/// Files that are being written at the same time, at most.
const MOST_PARTS: u32 = 1 << 10;

/// Returns the user's folder: the one that the variable [`CACHE`] names, else `fangorn/plans` in the user's cache
/// folder. Returns `None` if the environment names neither folder.
pub(crate) fn of_user() -> Option<PathBuf> {
    let folder = |variable: &str| env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = || {
        if cfg!(windows) {
            return folder("LOCALAPPDATA");
        }
        let below = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
        folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(below)))
    };
    folder(CACHE).or_else(|| Some(cache()?.join("fangorn/plans")))
}

/// Reads a file; `None` if it is no plain file, has more than `most` bytes, or is not UTF-8.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Option<String>> {
    // Opening a pipe would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= most))
}

/// Replaces a file in a folder, which is there, as a whole: readers see the old text or the new one.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    // Several threads and processes may write at once, so each writes a file of its own. Processes of two machines may have
    // the same number.
    let mut numbers = 0..MOST_PARTS;
    let (temporary, mut file) = loop {
        let number = numbers
            .next()
            .ok_or_else(|| io::Error::other("too many files that end in .part; remove them"))?;
        let temporary = path.with_file_name(format!("{}-{number}.part", std::process::id()));
        match File::create_new(&temporary) {
            Ok(file) => break (temporary, file),
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            Err(_) => {}
        }
    };
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    drop(file);
    fs::rename(&temporary, path)
}
