//! `fangorn-benches cpu`: times a forest's margins on the native CPU target, by batch size and schedule.
//!
//! Calls cycle through several batches of rows. The first schedule is compared with other libraries. The other
//! schedules show how much time another choice would save. With `--serve` the command reads one request a
//! line from standard input and answers with lines of JSON, so that a driver can time several programs in
//! turns:
//!
//! ```text
//! open BATCH BATCHES SECONDS    load so many batches of rows, try every schedule for SECONDS, write results to --out
//! time SECONDS                  time the first schedule
//! quit
//! ```

mod memory;
mod session;

use std::{
    io::{BufRead, Write},
    path::PathBuf,
    process::ExitCode,
    time::Instant,
};

use clap::Parser;
use fangorn::import;
use serde_json::{Value, json};

use crate::{
    error::{Error, Result},
    npy::RowFile,
    schedules,
    time::{Groups, Summary},
};
use session::{Refusal, Session};

/// Time a forest's margins on the CPU.
#[derive(Debug, Parser)]
#[command(
    name = "fangorn-benches cpu",
    no_binary_name = true,
    after_help = "Example:\n  fangorn-benches cpu --model model.json --rows rows.npy --batch 1,64,4096 --schedule all"
)]
struct Args {
    /// The model file, in any format that fangorn reads
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// The rows, a float32 .npy file; a larger batch repeats them
    #[arg(long, value_name = "FILE")]
    rows: PathBuf,
    /// Rows of a call; several numbers with commas
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,64,512,4096",
          value_parser = clap::value_parser!(u32).range(1..=1 << 28))]
    batch: Vec<u32>,
    /// Batches that calls cycle through
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    batches: u32,
    /// A preset's name, a file with one directive a line, or all for every preset; several with commas
    #[arg(long, value_name = "NAME|FILE|all", value_delimiter = ',', default_value = "default")]
    schedule: Vec<String>,
    /// Worker threads; 1 keeps to the calling thread
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: u16,
    /// Seconds to time each batch size and schedule for
    #[arg(long, value_name = "S", default_value = "2.0")]
    seconds: f64,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
    /// Take requests on standard input
    #[arg(long, requires = "out")]
    serve: bool,
    /// A folder for the results of --serve
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Rows whose results are written
    #[arg(long, value_name = "N", default_value = "4096")]
    check: usize,
}

/// Rounds that a schedule's time is divided into. In each round every schedule has a turn, so that whatever
/// disturbs the machine disturbs all schedules alike.
const ROUNDS: usize = 3;

/// Runs the command with the arguments after its name.
pub fn run(arguments: &[String]) -> ExitCode {
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(e) => e.exit(),
    };
    match go(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("fangorn-benches: {e}");
            ExitCode::from(2)
        }
    }
}

fn go(args: &Args) -> Result<()> {
    if !(args.seconds > 0.0 && args.seconds <= 3600.0) {
        return Err(Error::Request(format!("--seconds {} is not above 0 and at most 3600", args.seconds)));
    }
    let threads = usize::from(args.threads);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    pool.map_err(|e| Error::Request(format!("--threads {threads}: {e}; ask for fewer")))?;
    memory::forget_peak();
    let before = memory::now();
    let start = Instant::now();
    let forest = import::load(&args.model, &Default::default())?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let mut rows = RowFile::open(&args.rows, forest.features.len())?;
    let mut names = Vec::new();
    for schedule in &args.schedule {
        names.extend(schedules::named(schedule, &forest, false)?);
    }
    let first = names.first().ok_or_else(|| Error::Request("no schedule; --schedule names one".into()))?;
    let mut session = Session::new(forest, first, threads)?;
    // The first call allocates the thread's scratch memory, which has to count as kept memory.
    session.load(rows.first(1)?, 1);
    session.time(0, 1e-9)?;
    let grown = |after: Option<f64>| Some((after? - before?).max(0.0));
    let (kept_mib, peak_mib) = (grown(memory::now()), grown(memory::peak()));
    let refused: Vec<Refusal> = names[1..].iter().filter_map(|named| session.add(named)).collect();
    let forest = session.forest();
    let hello = json!({
        "kind": "engine",
        "version": env!("CARGO_PKG_VERSION"),
        "setting": session.candidates[0].directives,
        "vectors": session.vectors(),
        "model": args.model,
        "threads": threads,
        "trees": forest.trees.len(),
        "features": forest.features.len(),
        "outputs": forest.outputs,
        "load_ms": load_ms,
        "compile_ms": session.candidates[0].compile_ms,
        "kept_mib": kept_mib,
        "peak_mib": peak_mib,
        "refused": refused.iter().map(|r| json!({"schedule": r.name, "error": r.error})).collect::<Vec<_>>(),
    });
    say(args, &hello)?;
    match args.serve {
        true => serve(args, &mut session, &mut rows),
        false => args.batch.iter().try_for_each(|batch| {
            session.load(rows.first(*batch as usize * args.batches as usize)?, *batch as usize);
            trials(args, &mut session, *batch, args.seconds)
        }),
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
    if what["kind"] == "engine" {
        let head = format!("{}, {} trees, {} thread(s)", text("model"), text("trees"), text("threads"));
        return format!("{head}; microseconds a row, the least and the median");
    }
    let batch = what["batch"].as_f64().unwrap_or(f64::NAN);
    let micros = |key: &str, of: &str| what[key][of].as_f64().unwrap_or(f64::NAN) / batch;
    format!(
        "{:>8} {:28} processor {:>9.4} {:>9.4}   wall {:>9.4} {:>9.4}   compiled in {:.1} ms",
        text("batch"),
        text("schedule"),
        micros("process_us", "min"),
        micros("process_us", "median"),
        micros("wall_us", "min"),
        micros("wall_us", "median"),
        what["compile_ms"].as_f64().unwrap_or(f64::NAN),
    )
}

/// Times every schedule in turns and prints each one's times.
fn trials(args: &Args, session: &mut Session, batch: u32, seconds: f64) -> Result<()> {
    let mut times: Vec<Groups> = session.candidates.iter().map(|_| Groups::default()).collect();
    for _ in 0..ROUNDS {
        for (candidate, times) in times.iter_mut().enumerate() {
            times.extend(session.time(candidate, seconds / ROUNDS as f64)?);
        }
    }
    for (candidate, times) in session.candidates.iter().zip(&times) {
        let said = json!({
            "kind": "schedule",
            "batch": batch,
            "schedule": candidate.name,
            "directives": candidate.directives,
            "compile_ms": candidate.compile_ms,
            "thread_us": Summary::of(&times.thread),
            "process_us": Summary::of(&times.process),
            "wall_us": Summary::of(&times.wall),
        });
        say(args, &said)?;
    }
    Ok(())
}

/// Answers requests from standard input until it ends or a request says `quit`.
fn serve(args: &Args, session: &mut Session, rows: &mut RowFile) -> Result<()> {
    for request in std::io::stdin().lock().lines() {
        let request = request?;
        let words: Vec<&str> = request.split_whitespace().collect();
        let bad = || {
            let forms = "open BATCH BATCHES SECONDS, time SECONDS or quit";
            Error::Request(format!("{request}: not a request; {forms}"))
        };
        let number = |word: &str| word.parse::<f64>().map_err(|_| bad());
        let done = match words[..] {
            ["open", batch, batches, seconds] => {
                let (batch, batches) = (number(batch)?.max(1.0) as u32, number(batches)?.max(1.0) as u32);
                open(args, session, rows, [batch, batches], number(seconds)?)
            }
            ["time", seconds] => {
                let timed = session.time(0, number(seconds)?);
                timed.and_then(|times| say(args, &json!({"kind": "timed", "times": times})))
            }
            ["quit"] => return Ok(()),
            _ => return Err(bad()),
        };
        if let Err(e) = done {
            say(args, &json!({"kind": "failed", "error": e.to_string()}))?;
        }
    }
    Ok(())
}

/// Loads batches, times every schedule on them, and writes the results of the first schedule.
fn open(
    args: &Args,
    session: &mut Session,
    rows: &mut RowFile,
    [batch, batches]: [u32; 2],
    seconds: f64,
) -> Result<()> {
    session.load(rows.first(batch as usize * batches as usize)?, batch as usize);
    trials(args, session, batch, seconds)?;
    let folder = args.out.as_deref().ok_or_else(|| Error::Request("--serve needs --out".into()))?;
    let written = session.write(folder, args.check)?;
    let c = &session.candidates[0];
    say(
        args,
        &json!({
            "kind": "opened",
            "batch": batch,
            "setting": c.name,
            "directives": c.directives,
            "written": written,
        }),
    )
}
