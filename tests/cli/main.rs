//! The command line as a user meets it: what it prints, what it writes, and how it refuses.

#![cfg(feature = "cli")]

mod answers;
mod arguments;
#[cfg(feature = "tables")]
mod batches;
mod book;
mod contributions;
#[allow(dead_code, reason = "`units` needs a part of it")]
#[path = "../../src/bin/fangorn/error.rs"]
mod error;
#[cfg(feature = "tables")]
mod graphs;
mod insight;
mod models;
mod outputs;
#[cfg(feature = "tables")]
mod parts;
mod predict;
mod rows;
mod schedules;
#[allow(dead_code, reason = "`units` needs a part of it")]
#[path = "../../src/bin/fangorn/standard_input.rs"]
mod standard_input;
mod tables;
mod tune;
mod units;
mod verify;
#[cfg(not(feature = "tables"))]
mod without_tables;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use npyz::WriterBuilder as _;

/// Presets that run on every backend.
const PRESETS: [&str; 6] =
    ["default", "xgboost", "treebeard_one_tree", "treebeard_one_row", "tahoe_direct", "tahoe_shared_data"];

fn zoo(model: &str, file: &str) -> String {
    format!("{}/tests/zoo/{model}/{file}", env!("CARGO_MANIFEST_DIR"))
}

fn model(name: &str) -> String {
    let files = std::fs::read_dir(zoo(name, "")).expect("the model's folder").flatten().map(|e| e.path());
    let model = files.filter(|file| file.file_stem().is_some_and(|stem| stem == "model")).min();
    model.expect("a model").display().to_string()
}

/// A folder of one test's own, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("fangorn-cli-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), content).expect("a file");
        self.path(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fangorn"));
    // Nothing is kept in the user's cache.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("plans-{}", std::process::id()));
    command.args(arguments).stdin(Stdio::null()).env("FANGORN_CACHE", cache);
    command
}

fn fangorn(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program runs")
}

fn with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    child.stdin.take().expect("a pipe").write_all(input).expect("it reads");
    child.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// What a command that succeeds prints.
fn prints(arguments: &[&str]) -> String {
    let output = fangorn(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// A command is refused with status 2, nothing on standard output and one line that holds all of `phrases`.
fn assert_refused(output: &Output, phrases: &[&str]) {
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert!(output.stdout.is_empty(), "{line}");
    assert!(line.starts_with("fangorn: ") && line.ends_with('\n') && line.lines().count() == 1, "{line:?}");
    phrases.iter().for_each(|phrase| assert!(line.contains(phrase), "`{phrase}` in {line}"));
}

fn refuses(arguments: &[&str], phrases: &[&str]) {
    assert_refused(&fangorn(arguments), phrases);
}

fn read_npy<T: npyz::Deserialize>(path: &str) -> (Vec<u64>, Vec<T>) {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let file = npyz::NpyFile::new(&bytes[..]).expect("a npy file");
    (file.shape().to_vec(), file.into_vec().expect("values of the type"))
}

fn npy<T: npyz::AutoSerialize + Copy>(shape: &[u64], order: npyz::Order, values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let options = npyz::WriteOptions::new().default_dtype().shape(shape).order(order);
    let mut writer = options.writer(&mut bytes).begin_nd().expect("a header");
    writer.extend(values.iter().copied()).expect("values");
    writer.finish().expect("an end");
    bytes
}

fn csv<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> Vec<Vec<T>> {
    let row = |line: &str| line.split(',').map(|v| v.trim().parse().expect("a value")).collect();
    text.lines().map(row).collect()
}
