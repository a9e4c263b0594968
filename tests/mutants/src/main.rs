//! Mutation testing of the CPU's code: makes one change at a time (a compare, an offset, a bound, a number, a line left
//! out, a body replaced) and runs the tests that hold engines against the reference. A change that no test notices has
//! survived: it needs a test, or a reason in `benches/NOTEBOOK.md`.
//!
//! All changes are built into one copy of the tree, each behind a switch, so that there is one build and not one a
//! mutant. Each test is run alone once to see which changes it reaches and how long it takes. A mutant meets only the
//! tests that reach it, the quick ones first. Where the tests take too long, a reader may judge a mutant: the verdicts
//! `time`, `same`, `machine` and `text` of the results file are such, with the reason in the last column.

mod switches;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::Parser;
use switches::{Change, Switches};

/// Text of `src/mutant.rs` of the copy: what the switches ask.
const MUTANT: &str = include_str!("mutant.rs");

/// Mutation testing of Fangorn's CPU code.
///
/// Example: cargo run --release --manifest-path tests/mutants/Cargo.toml -- --count 200
#[derive(Parser)]
struct Options {
    /// Folders of the tree whose files are changed
    #[arg(long, default_values = ["src/cpu", "src/ranks"])]
    folder: Vec<String>,
    /// Only files whose path has this text
    #[arg(long, default_value = "")]
    only: String,
    /// Files whose path has one of these texts are left alone: another architecture's code runs in no test here
    #[arg(long, default_values = ["/neon/", "tests.rs"])]
    not: Vec<String>,
    /// How many mutants to draw; all without it
    #[arg(long)]
    count: Option<usize>,
    /// What they are drawn from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// These mutants and no others, by number
    #[arg(long, value_delimiter = ',')]
    numbers: Vec<u32>,
    /// Tests: files of `tests/suite`, or programs of their own as `predictor` is
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "predictor,columns,cpu,engines,guard,tables,tiles,blends,ranks,sums,trace"
    )]
    tests: Vec<String>,
    /// Names of the library's own tests to run
    #[arg(long, value_delimiter = ',', default_value = "cpu::,ranks::")]
    units: Vec<String>,
    /// File that verdicts are added to; mutants that have one there are not run again
    #[arg(long, default_value = "tests/mutants/verdicts.tsv")]
    results: PathBuf,
    /// Verdicts of that file which are asked for again: `open`, `not reached` under another FANGORN_ISA, `survives`
    #[arg(long, value_delimiter = ',')]
    again: Vec<String>,
    /// Seconds of tests that a mutant meets at most; one that is not caught by then stays `open`
    #[arg(long, default_value_t = f64::INFINITY)]
    seconds: f64,
    /// Mutants that run side by side, each with one thread of tests
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, usize::from))]
    jobs: usize,
    /// Ask the self-checks alone, not the tests
    #[arg(long)]
    self_checks: bool,
    /// Folder for the copy and its build, to keep between runs; delete it after files were renamed or removed
    #[arg(long, default_value = "target/mutants")]
    work: PathBuf,
    /// List the mutants and end
    #[arg(long)]
    list: bool,
}

type Failure = Box<dyn std::error::Error>;

struct Mutant {
    file: String,
    change: Change,
}

/// One test, and how long it takes when nothing is changed.
#[derive(Clone)]
struct Test {
    name: String,
    program: PathBuf,
    takes: Duration,
    reaches: BTreeSet<u32>,
    /// Whether it runs only when it is asked for.
    ignored: bool,
}

impl Test {
    /// Runs the test with nothing changed, and notes how long it takes and which changes it reaches. `seen` is a file
    /// for the list.
    fn time(&mut self, tree: &Path, seen: &Path) -> Result<(), Failure> {
        let _ = std::fs::remove_file(seen);
        let began = Instant::now();
        let settings = [("FANGORN_MUTANTS_SEEN", seen.as_os_str())];
        let outcome = run(&[&*self], tree, &settings, Duration::from_secs(1800))?;
        self.takes = began.elapsed();
        let list = std::fs::read_to_string(seen).unwrap_or_default();
        self.reaches = list.lines().filter_map(|l| l.parse().ok()).collect();
        match outcome {
            Outcome::Passes => Ok(()),
            _ => Err(format!("{} fails where nothing is changed", self.name).into()),
        }
    }
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let work = root.join(&options.work);
    let tree = work.join("tree");
    let files = copy_tree(&root, &tree, &options)?;
    let mutants = switch_all(&root, &tree, &work, &files)?;
    if options.list {
        for (i, m) in mutants.iter().enumerate() {
            println!("{} {}:{}: `{}`: {}", i + 1, m.file, m.change.line, m.change.from, m.change.to);
        }
        return Ok(());
    }
    let tests = build(&tree, &work, &options)?;
    let all = tests.len();
    let (next, timed) = (AtomicUsize::new(0), Mutex::new(tests));
    side_by_side(options.jobs, || {
        loop {
            let i = next.fetch_add(1, Relaxed);
            let Some(mut test) = timed.lock().map_err(|e| e.to_string())?.get(i).cloned() else {
                return Ok(());
            };
            test.time(&tree, &work.join(format!("seen-{i}"))).map_err(|e| e.to_string())?;
            timed.lock().map_err(|e| e.to_string())?[i] = test;
            eprint!("\rtest {} of {all}", i + 1);
        }
    })?;
    let mut tests = timed.into_inner().map_err(|e| e.to_string())?;
    tests.sort_by_key(|test| test.takes);
    let seconds: f64 = tests.iter().map(|test| test.takes.as_secs_f64()).sum();
    eprintln!("\n{all} tests, {seconds:.0} s one after the other");
    let keys = keys(&mutants);
    let mut records = Records::open(&root.join(&options.results), &options.again)?;
    let mut drawn = drawn(&options, mutants.len());
    if drawn.iter().any(|number| *number == 0 || *number as usize > mutants.len()) {
        return Err("there is no mutant of this number".into());
    }
    let drawn_count = drawn.len();
    drawn.retain(|number| !records.known.contains(&keys[*number as usize - 1]));
    let of = mutants.len();
    let known = drawn_count - drawn.len();
    eprintln!("{drawn_count} of {of} mutants in {} files, {known} of them run before", files.len());
    let (next, counts) = (AtomicUsize::new(0), Mutex::new(BTreeMap::<&str, usize>::new()));
    let records = Mutex::new(&mut records);
    let one_after_the_other = || -> Result<(), String> {
        while let Some(&number) = drawn.get(next.fetch_add(1, Relaxed)) {
            let (verdict, by) = judge(&tests, &tree, number, options.seconds).map_err(|e| e.to_string())?;
            let Mutant { file, change } = &mutants[number as usize - 1];
            let Change { line, from, to, .. } = change;
            println!("{verdict:11} {number} {file}:{line}: `{from}`: {to} {by}");
            let from: String = from.chars().take(60).collect();
            let record = format!("{}\t{verdict}\t{file}:{line}\t{from}\t{to}", keys[number as usize - 1]);
            records.lock().map_err(|e| e.to_string())?.add(&record).map_err(|e| e.to_string())?;
            let mut counts = counts.lock().map_err(|e| e.to_string())?;
            *counts.entry(verdict).or_default() += 1;
            eprint!("\r{} of {}, {counts:?}        ", counts.values().sum::<usize>(), drawn.len());
        }
        Ok(())
    };
    side_by_side(options.jobs, one_after_the_other)?;
    eprintln!();
    Ok(())
}

/// Runs `work` on as many threads as `jobs` says.
fn side_by_side(jobs: usize, work: impl Fn() -> Result<(), String> + Sync) -> Result<(), String> {
    std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(&work)).collect();
        jobs.into_iter().try_for_each(|job| job.join().unwrap_or(Err("a thread panicked".into())))
    })
}

/// Runs the tests that reach a mutant, the quick ones first and together, up to `most` seconds of them. Returns the
/// verdict and the tests that failed.
fn judge(tests: &[Test], tree: &Path, number: u32, most: f64) -> Result<(&'static str, String), Failure> {
    let reaching: Vec<&Test> = tests.iter().filter(|test| test.reaches.contains(&number)).collect();
    let mut left = reaching.as_slice();
    let (mut seconds, mut met) = (0.3f64, 0.0f64);
    let mut verdict = "not reached";
    while !left.is_empty() {
        if met + left[0].takes.as_secs_f64() > most {
            return Ok(("open", format!("{} tests left", left.len())));
        }
        verdict = "survives";
        let mut sum = 0.0;
        let count = left.iter().take_while(|test| {
            sum += test.takes.as_secs_f64();
            sum <= seconds.min(most - met)
        });
        let (batch, rest) = left.split_at(count.count().max(1));
        (left, seconds) = (rest, seconds * 10.0);
        met += batch.iter().map(|test| test.takes.as_secs_f64()).sum::<f64>();
        let programs: BTreeSet<&Path> = batch.iter().map(|test| test.program.as_path()).collect();
        for program in programs {
            let own: Vec<&Test> = batch.iter().filter(|test| test.program == program).copied().collect();
            let takes: Duration = own.iter().map(|test| test.takes).sum();
            let number = number.to_string();
            let outcome =
                run(&own, tree, &[("FANGORN_MUTANT", number.as_ref())], takes * 5 + Duration::from_secs(10))?;
            let by = || format!("{} and {} more", own[0].name, own.len() - 1);
            match outcome {
                Outcome::Passes => {}
                Outcome::Fails => return Ok(("caught", by())),
                Outcome::Hangs => return Ok(("hangs", by())),
            }
        }
    }
    Ok((verdict, String::new()))
}

/// Returns a key for each mutant that stays the same when other lines of its file are edited: the file, what is
/// changed into what, and how many such changes come before it.
fn keys(mutants: &[Mutant]) -> Vec<String> {
    let mut before: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    let key = |mutant: &Mutant, nth: usize| {
        let Mutant { file, change } = mutant;
        let text = format!("{file}\0{}\0{}\0{nth}", change.from, change.to);
        // FNV-1a, which stays the same from build to build.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{hash:016x}")
    };
    let mut keys = Vec::with_capacity(mutants.len());
    for mutant in mutants {
        let nth = before.entry((&mutant.file, &mutant.change.from, &mutant.change.to)).or_default();
        keys.push(key(mutant, *nth));
        *nth += 1;
    }
    keys
}

/// Mutants that earlier runs judged, and the file that new verdicts are added to.
struct Records {
    known: BTreeSet<String>,
    file: std::fs::File,
}

impl Records {
    /// Reads the verdicts of a file, and leaves one line for each mutant there: its last verdict. Those to be asked for
    /// `again` are not known.
    fn open(path: &Path, again: &[String]) -> Result<Self, Failure> {
        let text = if path.exists() { std::fs::read_to_string(path)? } else { String::new() };
        let mut lines: BTreeMap<&str, &str> = BTreeMap::new();
        lines.extend(text.lines().filter_map(|line| Some((line.split('\t').next()?, line))));
        let is_asked = |line: &str| line.split('\t').nth(1).is_some_and(|v| again.iter().any(|a| a == v));
        let known =
            lines.iter().filter(|(_, line)| !is_asked(line)).map(|(key, _)| (*key).to_owned()).collect();
        std::fs::write(path, lines.values().map(|line| format!("{line}\n")).collect::<String>())?;
        Ok(Self { known, file: std::fs::OpenOptions::new().append(true).open(path)? })
    }

    fn add(&mut self, record: &str) -> std::io::Result<()> {
        writeln!(self.file, "{record}")
    }
}

/// Copies the files that git tracks; those to change are returned, with their source.
fn copy_tree(root: &Path, tree: &Path, options: &Options) -> Result<Vec<(String, String)>, Failure> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output()?;
    let mut files = Vec::new();
    for name in String::from_utf8(listed.stdout)?.split('\0').filter(|n| !n.is_empty()) {
        let (from, to) = (root.join(name), tree.join(name));
        if !from.is_file() {
            continue;
        }
        let changed = name.ends_with(".rs")
            && options.folder.iter().any(|f| Path::new(name).starts_with(f))
            && name.contains(&options.only)
            && !options.not.iter().any(|n| name.contains(n));
        if changed {
            files.push((name.to_owned(), std::fs::read_to_string(&from)?));
        } else {
            write(&to, &std::fs::read(&from)?)?;
        }
    }
    let library = std::fs::read_to_string(root.join("src/lib.rs"))?;
    write(
        &tree.join("src/lib.rs"),
        format!("{library}\n#[allow(missing_docs)]\npub mod mutant;\n").as_bytes(),
    )?;
    write(&tree.join("src/mutant.rs"), MUTANT.as_bytes())?;
    Ok(files)
}

/// Leaves a file alone whose content is there already, so that cargo sees what changed.
fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    if std::fs::read(path).is_ok_and(|there| there == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    Ok(std::fs::write(path, content)?)
}

/// Writes each file with its switches. Lines where a switch does not compile lose theirs.
fn switch_all(
    root: &Path,
    tree: &Path,
    work: &Path,
    files: &[(String, String)],
) -> Result<Vec<Mutant>, Failure> {
    let mut refused: BTreeSet<(String, usize)> = BTreeSet::new();
    for _ in 0..20 {
        let mut mutants = Vec::new();
        for (name, source) in files {
            let switches = Switches::of(source).map_err(|e| format!("{name}: {e}"))?;
            let (text, changes) =
                switches.write(mutants.len() as u32 + 1, |line| !refused.contains(&(name.clone(), line)));
            write(&tree.join(name), text.as_bytes())?;
            mutants.extend(changes.into_iter().map(|change| Mutant { file: name.clone(), change }));
        }
        let errors = compile_errors(root, tree, work)?;
        eprintln!("{} mutants, {} lines that do not compile with theirs", mutants.len(), errors.len());
        if errors.is_empty() {
            return Ok(mutants);
        }
        // What is wrong in a line is the innermost switch around it that is still there.
        refused.extend(errors.into_iter().filter_map(|(file, line)| {
            let around =
                mutants.iter().filter(|m| m.file == file && (m.change.line..=m.change.end).contains(&line));
            around.map(|m| m.change.line).max().map(|first| (file, first))
        }));
    }
    Err("the switches still do not compile".into())
}

fn compile_errors(root: &Path, tree: &Path, work: &Path) -> Result<BTreeSet<(String, usize)>, Failure> {
    let output = Command::new("cargo")
        .args(["check", "--locked", "--no-default-features", "--message-format=json"])
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", work.join("target"))
        .output()?;
    let mut errors = BTreeSet::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        let message = &value["message"];
        if message["level"] != "error" {
            continue;
        }
        for span in message["spans"].as_array().into_iter().flatten() {
            let (Some(file), Some(first), Some(last)) =
                (span["file_name"].as_str(), span["line_start"].as_u64(), span["line_end"].as_u64())
            else {
                continue;
            };
            // A value that may be missing is told of where it is used; where it was left out is a second location.
            if first == last {
                errors.insert((file.to_owned(), first as usize));
            }
        }
    }
    if errors.is_empty() && !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("the copy of {} does not compile: {said}", root.display()).into());
    }
    Ok(errors)
}

/// The program of most tests, a module for each file.
const SUITE: &str = "suite";

/// Whether a test is a program of its own.
fn is_program(tree: &Path, test: &str) -> bool {
    tree.join(format!("tests/{test}.rs")).exists()
}

fn build(tree: &Path, work: &Path, options: &Options) -> Result<Vec<Test>, Failure> {
    let mut command = Command::new("cargo");
    command.args(["test", "--locked", "--no-default-features", "--no-run", "--message-format=json", "--lib"]);
    command.args(["--test", SUITE]);
    for test in options.tests.iter().filter(|test| is_program(tree, test)) {
        command.args(["--test", test]);
    }
    let output = command
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", work.join("target"))
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err("the tests do not compile".into());
    }
    let mut programs = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        if let (Some(program), Some(name)) = (value["executable"].as_str(), value["target"]["name"].as_str())
        {
            programs.insert(name.to_owned(), PathBuf::from(program));
        }
    }
    let named = |program: &str, filters: &[String], ignored: bool| -> Result<Vec<Test>, Failure> {
        let program = programs.get(program).ok_or(format!("cargo built no test {program}"))?;
        let mut list = Command::new(program);
        list.args(["--list", "--format", "terse"]).args(filters);
        if ignored {
            list.arg("--ignored");
        }
        let listed = list.current_dir(tree).env("CARGO_MANIFEST_DIR", tree).output()?;
        let text = String::from_utf8(listed.stdout)?;
        let tests = text.lines().filter_map(|line| line.strip_suffix(": test"));
        let test = |name: &str| Test {
            name: name.into(),
            program: program.clone(),
            takes: Duration::ZERO,
            reaches: BTreeSet::new(),
            ignored,
        };
        Ok(tests.map(test).collect())
    };
    if options.self_checks {
        return named(SUITE, &["self_checks_of_every_engine_pass".into()], true);
    }
    let mut tests = named("fangorn", &options.units, false)?;
    for test in &options.tests {
        tests.extend(match is_program(tree, test) {
            true => named(test, &[], false)?,
            false => named(SUITE, &[format!("{test}::")], false)?,
        });
    }
    Ok(tests)
}

#[derive(PartialEq)]
enum Outcome {
    Passes,
    Fails,
    Hangs,
}

/// Runs tests of one program, and ends it as soon as one of them fails.
fn run(
    tests: &[&Test],
    tree: &Path,
    settings: &[(&str, &std::ffi::OsStr)],
    limit: Duration,
) -> Result<Outcome, Failure> {
    let mut command = Command::new(&tests[0].program);
    command.args(["--exact", "--test-threads", "1"]).args(tests.iter().map(|test| &test.name));
    if tests.iter().any(|test| test.ignored) {
        command.arg("--ignored");
    }
    let mut child = command
        .current_dir(tree)
        .env("CARGO_MANIFEST_DIR", tree)
        .env("FANGORN_SELF_CHECK", "strict")
        .env("RUST_BACKTRACE", "0")
        .envs(settings.iter().copied())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = child.stdout.take().map(BufReader::new).ok_or("no output")?.lines();
    let failed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let reader = std::thread::spawn({
        let failed = failed.clone();
        move || {
            for line in lines.map_while(Result::ok) {
                if line.ends_with("FAILED") {
                    failed.store(true, std::sync::atomic::Ordering::Relaxed);
                }
            }
        }
    });
    let began = Instant::now();
    let outcome = loop {
        if let Some(status) = child.try_wait()? {
            break if status.success() { Outcome::Passes } else { Outcome::Fails };
        }
        let fails = failed.load(std::sync::atomic::Ordering::Relaxed);
        if fails || began.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            break if fails { Outcome::Fails } else { Outcome::Hangs };
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let _ = reader.join();
    Ok(outcome)
}

/// Numbers of the mutants to run, in order.
fn drawn(options: &Options, all: usize) -> Vec<u32> {
    if !options.numbers.is_empty() {
        return options.numbers.clone();
    }
    let mut numbers: Vec<u32> = (1..=all as u32).collect();
    if let Some(count) = options.count.filter(|&c| c < all) {
        // splitmix64, so that a seed draws the same mutants everywhere.
        let mut state = options.seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        for i in 0..count {
            let j = i + (next() % (all - i) as u64) as usize;
            numbers.swap(i, j);
        }
        numbers.truncate(count);
        numbers.sort_unstable();
    }
    numbers
}
