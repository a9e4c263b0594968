//! `fangorn-benches gpu`: times a forest's margins on a device, by batch size and schedule.
//!
//! Rows lie on the device while calls are timed. Calls that include the transfer of rows and margins are
//! timed apart. With `--serve` the command reads one request a line from standard input and answers with
//! lines of JSON, so that a driver can time several programs in turns:
//!
//! ```text
//! open BATCH SECONDS    load the rows, try every schedule for SECONDS, write the best one's results to --out
//! time SECONDS          time the best schedule
//! quit
//! ```

mod session;
pub mod synthetic;

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
    error::{self, Error, Result},
    npy::RowFile,
    time::Summary,
};
use session::Session;

/// Time a forest's margins on a device.
#[derive(Debug, Parser)]
#[command(name = "fangorn-benches gpu", no_binary_name = true)]
struct Args {
    /// The model file, in any format that fangorn reads
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// The rows, a float32 .npy file; a larger batch repeats them
    #[arg(long, value_name = "FILE")]
    rows: PathBuf,
    /// Rows of a call; several numbers with commas
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "512,4096,32768",
          value_parser = clap::value_parser!(u32).range(1..=1 << 28))]
    batch: Vec<u32>,
    /// cuda, vulkan, wgpu, metal or rocm
    #[arg(long)]
    backend: String,
    /// A preset's name, a file with one directive a line, or all for every preset; several with commas
    #[arg(long, value_name = "NAME|FILE|all", value_delimiter = ',', default_value = "default")]
    schedule: Vec<String>,
    /// Schedules to leave out
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    skip: Vec<String>,
    /// Seconds to time each batch size and schedule for
    #[arg(long, value_name = "S", default_value = "2.0")]
    seconds: f64,
    /// Seconds a schedule may take to its first margins before it is given up
    #[arg(long, value_name = "S", default_value = "60.0")]
    patience: f64,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
    /// Take requests on standard input
    #[arg(long, requires = "out")]
    serve: bool,
    /// A folder for the results of --serve
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Rows whose leaf ids are written, and whose leaf slots are compared with the CPU's
    #[arg(long, value_name = "N", default_value = "4096")]
    check: usize,
}

/// Runs the command with the arguments after its name.
pub fn run(arguments: &[String]) -> ExitCode {
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(e) => e.exit(),
    };
    error::silence_panics();
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
    let start = Instant::now();
    let forest = import::load(&args.model, &Default::default())?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let mut rows = RowFile::open(&args.rows, forest.features.len())?;
    let mut session = Session::open(&args.backend, forest, &args.schedule, &args.skip)?;
    let forest = session.forest();
    let hello = json!({
        "kind": "device",
        "version": env!("CARGO_PKG_VERSION"),
        "backend": session.backend,
        "device": session.device_name(),
        "model": args.model,
        "trees": forest.trees.len(),
        "features": forest.features.len(),
        "outputs": forest.outputs,
        "load_ms": load_ms,
    });
    say(args, &hello)?;
    match args.serve {
        true => serve(args, &mut session, &mut rows),
        false => args.batch.iter().try_for_each(|batch| batch_of(args, &mut session, &mut rows, *batch)),
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
    let micros = |key: &str| what[key]["median"].as_f64().map_or("-".to_owned(), |v| format!("{v:.1}"));
    match what["kind"].as_str() {
        Some("device") => {
            let head = format!("{} on {}, {} trees", text("model"), text("device"), text("trees"));
            format!("{head}; microseconds a call, medians")
        }
        Some("schedule") => format!(
            "{:>8} {:28} resident {:>10} queued {:>10} device {:>10} total {:>10} first {:.0} ms",
            text("batch"),
            text("schedule"),
            micros("resident_us"),
            micros("queued_us"),
            micros("device_us"),
            micros("total_us"),
            what["first_ms"].as_f64().unwrap_or(f64::NAN),
        ),
        Some("best") => format!("{:>8} best: {}", text("batch"), text("schedule")),
        _ => format!("{:>8} {:28} {}", text("batch"), text("schedule"), text("error")),
    }
}

/// Times every schedule on a batch and prints which one is the best.
fn batch_of(args: &Args, session: &mut Session, rows: &mut RowFile, batch: u32) -> Result<()> {
    session.load(rows.first(batch as usize)?)?;
    let mut best: Option<(f64, String)> = None;
    for candidate in 0..session.candidates.len() {
        if !ready(args, session, candidate, batch)? {
            continue;
        }
        let times = match session.time(candidate, args.seconds) {
            Ok(times) => times,
            Err(e) => {
                refuse(args, session, candidate, batch, &e)?;
                continue;
            }
        };
        let c = &session.candidates[candidate];
        let summaries = times.summaries();
        let mut said = json!({
            "kind": "schedule",
            "backend": session.backend,
            "batch": batch,
            "schedule": c.name,
            "directives": session.directives(candidate, batch),
            "first_ms": c.first_ms,
        });
        if let (Some(said), Ok(Value::Object(more))) =
            (said.as_object_mut(), serde_json::to_value(&summaries))
        {
            said.extend(more);
        }
        say(args, &said)?;
        let median = Summary::of(&times.resident).map_or(f64::INFINITY, |s| s.median);
        if best.as_ref().is_none_or(|(least, _)| median < *least) {
            best = Some((median, c.name.clone()));
        }
    }
    let (_, name) = best.ok_or_else(|| none_runs(batch))?;
    say(args, &json!({"kind": "best", "backend": session.backend, "batch": batch, "schedule": name}))
}

fn none_runs(batch: u32) -> Error {
    Error::Request(format!("no schedule runs on a batch of {batch}"))
}

/// Makes a schedule's first call on a batch, which compiles the schedule. Returns whether the schedule can be
/// timed.
fn ready(args: &Args, session: &mut Session, candidate: usize, batch: u32) -> Result<bool> {
    if session.candidates[candidate].refused.is_some() {
        return Ok(false);
    }
    let start = Instant::now();
    if let Err(e) = session.first(candidate) {
        refuse(args, session, candidate, batch, &e)?;
        return Ok(false);
    }
    let took = start.elapsed().as_secs_f64();
    if took > args.patience {
        let slow =
            Error::Request(format!("{took:.1} s for its first margins; --patience lets it take longer"));
        refuse(args, session, candidate, batch, &slow)?;
        return Ok(false);
    }
    Ok(true)
}

/// Prints why a schedule is left out, and leaves it out from now on.
///
/// # Errors
/// The device is lost with the schedule. Nothing can be measured after that.
fn refuse(args: &Args, session: &mut Session, candidate: usize, batch: u32, cause: &Error) -> Result<()> {
    let c = &mut session.candidates[candidate];
    c.refused = Some(cause.to_string());
    let mut said = json!({
        "kind": "refused",
        "backend": session.backend,
        "batch": batch,
        "schedule": c.name,
        "error": cause.to_string(),
    });
    let alive = !matches!(cause, Error::Device { .. }) || session.sync().is_ok();
    if !alive {
        said["kind"] = "lost".into();
    }
    say(args, &said)?;
    match alive {
        true => Ok(()),
        false => Err(Error::Request(format!("{}: the device is lost", session.candidates[candidate].name))),
    }
}

/// Answers requests from standard input until it ends or a request says `quit`.
fn serve(args: &Args, session: &mut Session, rows: &mut RowFile) -> Result<()> {
    let mut best = None;
    for request in std::io::stdin().lock().lines() {
        let request = request?;
        let words: Vec<&str> = request.split_whitespace().collect();
        let bad =
            || Error::Request(format!("{request}: not a request; open BATCH SECONDS, time SECONDS or quit"));
        let number = |word: &str| word.parse::<f64>().map_err(|_| bad());
        match words[..] {
            ["open", batch, seconds] => {
                let (batch, seconds) = (number(batch)? as u32, number(seconds)?);
                best = match open(args, session, rows, batch, seconds) {
                    Ok(best) => Some(best),
                    Err(e) => {
                        say(args, &json!({"kind": "failed", "batch": batch, "error": e.to_string()}))?;
                        session.sync()?;
                        None
                    }
                };
            }
            ["time", seconds] => {
                let timed = best.ok_or_else(bad).and_then(|best| session.time(best, number(seconds)?));
                match timed {
                    Ok(times) => say(args, &json!({"kind": "timed", "times": times}))?,
                    Err(e) => say(args, &json!({"kind": "failed", "error": e.to_string()}))?,
                }
            }
            ["quit"] => return Ok(()),
            _ => return Err(bad()),
        }
    }
    Ok(())
}

/// Loads a batch, times every schedule on it, and writes the results of the best one.
fn open(args: &Args, session: &mut Session, rows: &mut RowFile, batch: u32, seconds: f64) -> Result<usize> {
    session.load(rows.first(batch as usize)?)?;
    let mut best = None;
    let mut least = f64::INFINITY;
    for candidate in 0..session.candidates.len() {
        if !ready(args, session, candidate, batch)? {
            continue;
        }
        let times = match session.resident(candidate, seconds) {
            Ok(times) => times,
            Err(e) => {
                refuse(args, session, candidate, batch, &e)?;
                continue;
            }
        };
        let c = &session.candidates[candidate];
        let summary = Summary::of(&times);
        say(
            args,
            &json!({
                "kind": "schedule",
                "batch": batch,
                "schedule": c.name,
                "directives": session.directives(candidate, batch),
                "first_ms": c.first_ms,
                "resident_us": summary,
            }),
        )?;
        if let Some(median) = summary.map(|s| s.median).filter(|m| *m < least) {
            (least, best) = (median, Some(candidate));
        }
    }
    let best = best.ok_or_else(|| none_runs(batch))?;
    let folder = args.out.clone().ok_or_else(|| Error::Request("--serve needs --out".into()))?;
    let written = session.write(best, &folder, args.check)?;
    let c = &session.candidates[best];
    say(
        args,
        &json!({
            "kind": "opened",
            "batch": batch,
            "setting": c.name,
            "directives": session.directives(best, batch),
            "first_ms": c.first_ms,
            "written": written,
        }),
    )?;
    Ok(best)
}
