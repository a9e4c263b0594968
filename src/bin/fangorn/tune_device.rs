//! `fangorn tune` on a device: SilvanForge's search (section 8.2, Algorithm 1) in a process of its own.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use fangorn::{
    auto::{Miss, Progress, TimedSchedule, TunedBatch, TuningResult},
    schedule::{Schedule, Template},
};

use crate::{
    error::{Error, Result},
    measure::{Answer, Job},
};

/// The seconds for which each schedule is timed.
const SECONDS: f64 = 0.1;
/// The maximum time that compiling, checking and timing a schedule may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// The number of fastest schedules that are timed again with shared sums.
const WITH_SHARED_SUMS: usize = 3;
/// How often the default schedule and the fastest one are timed at the end, in turns.
const TURNS: usize = 5;
/// The fastest schedule has to take less than this fraction of the default schedule's time.
const GAIN: f64 = 0.98;

/// The options of a search.
pub struct Request<'a> {
    /// The arguments of `fangorn measure` without the batch: model, backend, rows and so on.
    pub arguments: Vec<std::ffi::OsString>,
    /// Number of columns of a row.
    pub features: usize,
    /// Batch sizes, in ascending order.
    pub batches: &'a [usize],
    /// The time for all batch sizes. A schedule that is being timed when it ends is timed to the end.
    pub budget: Duration,
    /// Whether to time all of the paper's 5184 schedules after the search.
    pub exhaustive: bool,
}

/// Tunes for a device. Calls `tell` after each schedule.
///
/// # Errors
/// The process that times schedules does not start, or the default schedule can't be timed.
pub fn run(request: &Request<'_>, tell: &dyn Fn(Progress)) -> Result<TuningResult> {
    let begin = Instant::now();
    let each = request.budget / request.batches.len().max(1) as u32;
    let mut batches = Vec::new();
    for (at, rows) in request.batches.iter().enumerate() {
        let end = each * (at as u32 + 1);
        let mut search = Search {
            timer: Timer::new(request, *rows),
            rows: *rows,
            auto: None,
            timed: Vec::new(),
            missed: Vec::new(),
            tell: &|seen, points, best| {
                tell(Progress { rows: *rows, seen, points, best, elapsed: begin.elapsed() });
            },
        };
        batches.push(search.run(request, &|| begin.elapsed() < end)?);
    }
    Ok(TuningResult { threads: 1, batches })
}

struct Search<'s> {
    timer: Timer<'s>,
    rows: usize,
    /// The default schedule, and the seconds of a call.
    auto: Option<(Schedule, f64)>,
    /// Templates of schedules, each with the seconds of a call.
    timed: Vec<(Template, f64)>,
    missed: Vec<Miss>,
    /// Called with the number of schedules tried, the number of all, and the best time as a share of the
    /// default schedule's.
    tell: &'s dyn Fn(usize, usize, f64),
}

impl Search<'_> {
    fn run(&mut self, request: &Request<'_>, goes_on: &dyn Fn() -> bool) -> Result<TunedBatch> {
        let (auto, default) = self.timer.time(None).map_err(Error::Request)?;
        self.auto = Some((auto.clone(), default));
        let points: Vec<_> = Template::heuristic(self.rows, request.features).collect();
        let all = points.len() + WITH_SHARED_SUMS;
        self.time_all(points, all, goes_on);
        let shared: Vec<_> = self.fastest(WITH_SHARED_SUMS).map(Template::with_shared_sums).collect();
        self.time_all(shared, all, goes_on);
        let fastest: Vec<_> = self.fastest(1).map(|template| template.schedule()).collect();
        let (mut tuned, mut found) = (self.in_turns(&auto, fastest)?, None);
        let mut points = all;
        if request.exhaustive {
            let known: Vec<_> = self.timed.iter().map(|(template, _)| *template).collect();
            points = Template::all().count();
            let rest = Template::all().filter(|template| !known.contains(template)).collect();
            self.time_all(rest, points, &|| true);
            let fastest: Vec<_> = self.fastest(1).map(|template| template.schedule()).collect();
            let best = self.in_turns(&tuned.1.schedule.clone(), fastest)?.1;
            if best.seconds < tuned.1.seconds {
                found = Some(best);
            }
            found = found.or_else(|| Some(tuned.1.clone()));
        }
        if tuned.1.seconds > GAIN * tuned.0.seconds {
            tuned.1 = tuned.0.clone();
        }
        let rows = self.rows as f64;
        let screened = self.timed.iter().map(|(template, call)| timed(&template.schedule(), call / rows));
        Ok(TunedBatch {
            rows: self.rows,
            auto: tuned.0,
            tuned: tuned.1,
            best: found,
            points,
            screened: screened.collect(),
            missed: std::mem::take(&mut self.missed),
        })
    }

    fn time_all(&mut self, templates: Vec<Template>, points: usize, goes_on: &dyn Fn() -> bool) {
        for template in templates {
            if !self.timed.is_empty() && !goes_on() {
                return;
            }
            let schedule = template.schedule();
            match self.timer.time(Some(&schedule)) {
                Ok((_, call)) => self.timed.push((template, call)),
                Err(why) => self.missed.push(Miss { schedule, why }),
            }
            let auto = self.auto.as_ref().map_or(f64::INFINITY, |(_, call)| *call);
            let least = self.timed.iter().map(|(_, call)| call / auto).fold(1.0, f64::min);
            (self.tell)(self.timed.len() + self.missed.len(), points, least);
        }
    }

    /// Returns the fastest templates so far.
    fn fastest(&self, count: usize) -> impl Iterator<Item = Template> + use<> {
        let mut timed = self.timed.clone();
        timed.sort_by(|a, b| a.1.total_cmp(&b.1));
        timed.into_iter().take(count).map(|(template, _)| template)
    }

    /// Times a schedule and another one, if there is one, in turns. Returns both with their median times.
    fn in_turns(&mut self, first: &Schedule, other: Vec<Schedule>) -> Result<(TimedSchedule, TimedSchedule)> {
        let other = other.into_iter().next().unwrap_or_else(|| first.clone());
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..TURNS {
            for (schedule, times) in [first, &other].into_iter().zip(&mut times) {
                times.push(self.timer.time(Some(schedule)).map_err(Error::Request)?.1);
            }
        }
        let [first_call, other_call] = times.map(|mut times| {
            times.sort_unstable_by(f64::total_cmp);
            times[times.len() / 2] / self.rows as f64
        });
        Ok((timed(first, first_call), timed(&other, other_call)))
    }
}

/// A process that times schedules for batches of one size. It is started again after it has ended.
struct Timer<'a> {
    request: &'a Request<'a>,
    rows: usize,
    process: Option<Process>,
}

struct Process {
    child: Child,
    jobs: ChildStdin,
    answers: Receiver<String>,
}

impl Process {
    /// Ends the process. Returns why it does not answer: the last line that it wrote, or how it ended.
    fn last_words(mut self) -> String {
        // A process that has closed its output is about to end.
        std::thread::sleep(Duration::from_millis(50));
        let Ok(Some(status)) = self.child.try_wait() else {
            return format!("no answer in {} s", PATIENCE.as_secs());
        };
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut said);
        }
        match said.lines().last() {
            Some(line) => line.strip_prefix("fangorn: ").unwrap_or(line).to_owned(),
            None => format!("the process that ran it ended: {status}"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already, which does no harm.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<'a> Timer<'a> {
    fn new(request: &'a Request<'a>, rows: usize) -> Self {
        Self { request, rows, process: None }
    }

    /// Times a schedule, or the default one. Returns it with the seconds of a call, or says why it can't be
    /// timed.
    fn time(&mut self, schedule: Option<&Schedule>) -> Result<(Schedule, f64), String> {
        let process = match self.process.take() {
            Some(process) => process,
            None => self.start().map_err(|e| format!("the process that times schedules can't start: {e}"))?,
        };
        let process = self.process.insert(process);
        let job = Job { schedule: schedule.map(ToString::to_string), seconds: SECONDS };
        let line = serde_json::to_string(&job).map_err(|e| e.to_string())?;
        let asked = writeln!(process.jobs, "{line}").and_then(|()| process.jobs.flush());
        let answer = match asked {
            Ok(()) => process.answers.recv_timeout(PATIENCE).map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        };
        let Ok(answer) = answer else {
            let ended = self.process.take().map(Process::last_words);
            return Err(ended.unwrap_or_default());
        };
        let answer: Answer = serde_json::from_str(&answer).map_err(|e| e.to_string())?;
        match (answer.call, answer.error) {
            (Some(call), _) => Ok((Schedule::parse(&answer.schedule).map_err(|e| e.to_string())?, call)),
            (None, why) => {
                // The device may be in any state after this.
                self.process = None;
                Err(why.unwrap_or_else(|| "it could not be timed".to_owned()))
            }
        }
    }

    fn start(&self) -> std::io::Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("measure").args(&self.request.arguments).args(["--batch", &self.rows.to_string()]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (Some(jobs), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        let (send, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Process { child, jobs, answers })
    }
}

/// Returns a schedule for a device with its seconds for each row. There are no estimates for devices.
fn timed(schedule: &Schedule, seconds: f64) -> TimedSchedule {
    TimedSchedule { schedule: schedule.clone(), work: None, seconds }
}
