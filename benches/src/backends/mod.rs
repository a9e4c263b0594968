//! `fangorn-benches backend`: times a forest's margins on one backend with its default schedule, by batch
//! size.
//!
//! Rows lie on the device while calls are timed. Transfers of rows and of margins are timed apart. Before a
//! batch is timed, the backend's results are compared with the native target's, and the native target's with
//! the reference interpreter's. A batch whose results differ is not timed. With `--serve` the command reads
//! one request a line from standard input and answers each with a line of JSON, so that a driver can time
//! several programs in turns:
//!
//! ```text
//! open BATCH      load the rows, check the results
//! time SECONDS    time the batch
//! quit
//! ```

mod check;
#[cfg(feature = "device")]
mod on_burn;
mod rows;
mod runner;

use std::{
    io::{BufRead, Write},
    path::PathBuf,
    process::ExitCode,
    time::Instant,
};

use clap::Parser;
use fangorn::{Forest, import};
use serde_json::{Value, json};

use crate::{
    error::{self, Error, Result},
    npy::RowFile,
    time::Summary,
};
use check::Results;
use runner::{Native, Runner};

/// Time a forest's margins on a backend, with transfers apart.
#[derive(Debug, Parser)]
#[command(
    name = "fangorn-benches backend",
    no_binary_name = true,
    after_help = "Example:\n  fangorn-benches backend --model model.json --rows rows.npy --backend flex --batch 1,4096"
)]
struct Args {
    /// The model file, in any format that fangorn reads
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// The rows, a float32 .npy file; a larger batch repeats them with a small jitter
    #[arg(long, value_name = "FILE")]
    rows: PathBuf,
    /// cpu, ndarray, flex, wgpu, vulkan, metal, cubecl-cpu, cuda or rocm, if it is built in
    #[arg(long, default_value = "cpu")]
    backend: String,
    /// Rows of a call; several numbers with commas
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,64,512,4096",
          value_parser = clap::value_parser!(u32).range(1..=1 << 28))]
    batch: Vec<u32>,
    /// Worker threads of backends that run on the CPU
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: u16,
    /// Seconds to time each batch size for
    #[arg(long, value_name = "S", default_value = "2.0")]
    seconds: f64,
    /// Rows whose leaf slots are compared
    #[arg(long, value_name = "N", default_value = "512", value_parser = clap::value_parser!(u32).range(1..))]
    check: u32,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
    /// Take requests on standard input
    #[arg(long)]
    serve: bool,
}

/// The maximum number of leaf slots that are compared. It limits the compared rows of forests with many trees.
const MOST_SLOTS: usize = 1 << 22;

/// Runs the command with the arguments after its name.
pub fn run(arguments: &[String]) -> ExitCode {
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(e) => e.exit(),
    };
    error::silence_panics();
    match go(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("fangorn-benches: {e}");
            ExitCode::from(2)
        }
    }
}

/// A forest on a backend, and the native target that its results are compared with.
struct Session {
    forest: Forest,
    file: RowFile,
    native: Native,
    runner: Box<dyn Runner>,
    is_native: bool,
    check: usize,
}

/// Runs the command. Returns whether all results agreed.
fn go(args: &Args) -> Result<bool> {
    if !(args.seconds > 0.0 && args.seconds <= 3600.0) {
        return Err(Error::Request(format!("--seconds {} is not above 0 and at most 3600", args.seconds)));
    }
    let backend = runner::named(&args.backend)?;
    let threads = usize::from(args.threads);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    pool.map_err(|e| Error::Request(format!("--threads {threads}: {e}; ask for fewer")))?;
    let forest = import::load(&args.model, &Default::default())?;
    let mut file = RowFile::open(&args.rows, forest.features.len())?;
    let row = file.first(1)?;
    let (runner, compile_ms) = compiled(backend, &forest, row)?;
    let native = Native::new(&forest)?;
    let is_native = backend == "cpu";
    let mut session = Session { forest, file, native, runner, is_native, check: args.check as usize };
    let hello = json!({
        "kind": "backend",
        "version": env!("CARGO_PKG_VERSION"),
        "backend": backend,
        "device": session.runner.device(),
        "schedule": session.runner.schedule(),
        "model": args.model,
        "trees": session.forest.trees.len(),
        "features": session.forest.features.len(),
        "outputs": session.forest.outputs,
        "compile_ms": compile_ms,
    });
    say(args, &hello)?;
    match args.serve {
        true => serve(args, &mut session),
        false => {
            let mut agree = true;
            for batch in &args.batch {
                agree &= timed(args, &mut session, *batch)?;
            }
            Ok(agree)
        }
    }
}

/// Compiles the forest for a backend. Also returns the milliseconds from the forest to the margins of a first
/// row: lowering, the driver's or LLVM's compiler, and copying the model to the device. The device opens
/// before the clock starts.
#[cfg_attr(not(feature = "device"), allow(clippy::unnecessary_wraps, reason = "as with devices"))]
fn compiled(backend: &'static str, forest: &Forest, row: Vec<f32>) -> Result<(Box<dyn Runner>, f64)> {
    let first = |mut runner: Box<dyn Runner>, start: Instant| -> Result<_> {
        runner.load(row)?;
        runner.margins()?;
        Ok((runner, start.elapsed().as_secs_f64() * 1e3))
    };
    if backend == "cpu" {
        let start = Instant::now();
        return first(Box::new(Native::new(forest)?), start);
    }
    #[cfg(feature = "device")]
    {
        let device = on_burn::open(backend)?;
        let start = Instant::now();
        first(Box::new(on_burn::OnBurn::new(backend, device, forest)?), start)
    }
    #[cfg(not(feature = "device"))]
    Err(Error::NotBuiltIn(backend))
}

impl Session {
    /// Loads a batch and checks its results. Says how they differ from the expected ones, or returns `None`.
    fn open(&mut self, batch: usize) -> Result<Option<String>> {
        let rows = rows::batch_of(&self.forest, &mut self.file, batch)?;
        let most = MOST_SLOTS / self.forest.trees.len().max(1);
        let count = batch.min(self.check).min(most).max(1);
        self.runner.load(rows.clone())?;
        let mut found = Results { slots: self.runner.slots(count)?, margins: self.runner.margins()? };
        let expected = match self.is_native {
            true => {
                found.margins.truncate(count * self.forest.outputs as usize);
                check::by_reference(&self.forest, &rows[..count * self.forest.features.len()])
            }
            false => {
                self.native.load(rows)?;
                Results { slots: self.native.slots(count)?, margins: self.native.margins()? }
            }
        };
        Ok(check::unlike(&self.forest, &found, &expected))
    }
}

/// Prints an object as JSON, or as a line for people.
fn say(args: &Args, what: &Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match args.json || args.serve {
        true => writeln!(out, "{what}")?,
        false => writeln!(out, "{}", line(what))?,
    }
    Ok(out.flush()?)
}

/// Formats an object as a line for people.
fn line(what: &Value) -> String {
    let text = |key: &str| what[key].as_str().map_or_else(|| what[key].to_string(), str::to_owned);
    let micros = |key: &str, of: &str| what[key][of].as_f64().map_or("-".to_owned(), |v| format!("{v:.2}"));
    match what["kind"].as_str() {
        Some("backend") => format!(
            "{} on {} ({}), {} trees, compiled in {:.1} ms; microseconds a call, medians and least",
            text("model"),
            text("backend"),
            text("device"),
            text("trees"),
            what["compile_ms"].as_f64().unwrap_or(f64::NAN),
        ),
        Some("batch") => format!(
            "{:>8} margins {:>11} {:>11}   rows there {:>10} {:>10}   margins back {:>10} {:>10}",
            text("batch"),
            micros("resident_us", "median"),
            micros("resident_us", "min"),
            micros("upload_us", "median"),
            micros("upload_us", "min"),
            micros("download_us", "median"),
            micros("download_us", "min"),
        ),
        _ => format!("{:>8} {}", text("batch"), text("error")),
    }
}

/// Checks a batch and times it if its results agree. Returns whether they agree.
fn timed(args: &Args, session: &mut Session, batch: u32) -> Result<bool> {
    if let Some(unlike) = session.open(batch as usize)? {
        say(args, &json!({"kind": "differs", "batch": batch, "error": format!("differs: {unlike}")}))?;
        return Ok(false);
    }
    let times = session.runner.time(args.seconds)?;
    let said = json!({
        "kind": "batch",
        "batch": batch,
        "resident_us": Summary::of(&times.resident),
        "upload_us": Summary::of(&times.upload),
        "download_us": Summary::of(&times.download),
    });
    say(args, &said)?;
    Ok(true)
}

/// Answers requests from standard input until it ends or a request says `quit`.
fn serve(args: &Args, session: &mut Session) -> Result<bool> {
    for request in std::io::stdin().lock().lines() {
        let request = request?;
        let words: Vec<&str> = request.split_whitespace().collect();
        let bad = || Error::Request(format!("{request}: not a request; open BATCH, time SECONDS or quit"));
        let answer = match words[..] {
            ["open", batch] => {
                let batch: u32 = batch.parse().map_err(|_| bad())?;
                session.open(batch.max(1) as usize).map(|unlike| match unlike {
                    Some(unlike) => json!({"kind": "differs", "batch": batch, "error": unlike}),
                    None => json!({"kind": "opened", "batch": batch}),
                })
            }
            ["time", seconds] => {
                let seconds: f64 = seconds.parse().map_err(|_| bad())?;
                session.runner.time(seconds).map(|times| json!({"kind": "timed", "times": times}))
            }
            ["quit"] => break,
            _ => return Err(bad()),
        };
        say(args, &answer.unwrap_or_else(|e| json!({"kind": "failed", "error": e.to_string()})))?;
    }
    Ok(true)
}
