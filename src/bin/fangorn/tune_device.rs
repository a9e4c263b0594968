//! `fangorn tune` on a device: schedules in the order of their estimates, then SilvanForge's search (section 8.2,
//! Algorithm 1), in a process of its own.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use fangorn::{
    Forest,
    auto::{KeptBatch, Miss, Progress, ScheduleKey, ScheduleStore, TimedSchedule, TunedBatch, TuningResult},
    schedule::{Schedule, Template},
    sum::Contract,
};

use crate::{
    error::{Error, Result},
    library_error,
    measure::{Answer, Hello, Job},
};

/// The seconds for which each schedule is timed.
const SECONDS: f64 = 0.1;
/// The maximum time that compiling, checking and timing a schedule may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// The number of fastest schedules that are timed again with shared sums.
const WITH_SHARED_SUMS: usize = 3;
/// How often the default schedule and the fastest one are timed at the end, in turns.
const TURNS: usize = 5;
/// The store rounds budgets by less than this.
const ROUNDED: Duration = Duration::from_micros(10);
/// The fastest schedule has to take less than this fraction of the default schedule's time.
const GAIN: f64 = 0.98;

/// The options of a search.
pub struct Request<'a> {
    /// The arguments of `fangorn measure` without the batch: model, backend, rows and so on.
    pub arguments: Vec<std::ffi::OsString>,
    /// The model.
    pub forest: &'a Forest,
    /// The contract of sums.
    pub sum: Contract,
    /// The hash of the rows, as kept results name it.
    pub rows_hash: u64,
    /// Batch sizes, in ascending order.
    pub batches: &'a [usize],
    /// The time for all batch sizes. A schedule that is being timed when it ends is timed to the end.
    pub budget: Duration,
    /// Whether to time all of the paper's 5184 schedules after the search.
    pub exhaustive: bool,
    /// Where results are kept, if there is such a place.
    pub store: Option<&'a ScheduleStore>,
    /// Whether to search anew and to replace what is kept.
    pub fresh: bool,
}

impl Request<'_> {
    fn features(&self) -> usize {
        self.forest.features.len()
    }

    fn key(&self, target: String) -> ScheduleKey {
        ScheduleKey::on(self.forest, target, 1, self.sum)
    }

    /// Returns what is kept for the target and these rows.
    fn kept(&self, target: &str) -> Result<Vec<KeptBatch>> {
        let kept = match self.store.filter(|_| !self.fresh) {
            Some(store) => store.load(&self.key(target.to_owned())).map_err(library_error)?,
            None => None,
        };
        let batches = kept.map_or(Vec::new(), |kept| kept.batches);
        Ok(batches.into_iter().filter(|kept| kept.rows_hash == self.rows_hash).collect())
    }
}

/// Tunes for a device. Calls `tell` after each schedule. A kept result of a search with at least this budget is taken
/// over; a search with a larger budget does not time its schedules again.
///
/// # Errors
/// The process that times schedules does not start, the default schedule can't be timed, or the store can't be read or
/// written.
pub fn run(request: &Request<'_>, tell: &dyn Fn(Progress)) -> Result<TuningResult> {
    let begin = Instant::now();
    let each = request.budget / request.batches.len().max(1) as u32;
    let first =
        *request.batches.first().ok_or_else(|| Error::Request("--batch: name a batch size".into()))?;
    let mut first = Some(Timer::new(request, first));
    let target = first.as_mut().map_or_else(|| Ok(String::new()), Timer::target).map_err(Error::Request)?;
    let kept = request.kept(&target)?;
    let (mut batches, mut new) = (Vec::new(), Vec::new());
    for (at, rows) in request.batches.iter().enumerate() {
        let timer = first.take().unwrap_or_else(|| Timer::new(request, *rows));
        let kept = kept.iter().find(|kept| kept.found.rows == *rows);
        let is_enough = |kept: &&KeptBatch| {
            kept.budget + ROUNDED >= each && (!request.exhaustive || kept.found.best.is_some())
        };
        if let Some(kept) = kept.filter(is_enough) {
            batches.push(kept.found.clone());
            continue;
        }
        let end = each * (at as u32 + 1);
        let mut search = Search {
            timer,
            rows: *rows,
            auto: None,
            timed: kept.map_or_else(HashMap::new, |kept| known(&kept.found)),
            tried: Vec::new(),
            missed: Vec::new(),
            tell: &|seen, points, best| {
                tell(Progress { rows: *rows, seen, points, best, elapsed: begin.elapsed() });
            },
        };
        let found = search.run(request, &|| begin.elapsed() < end)?;
        let budget = each.max(kept.map_or(Duration::ZERO, |kept| kept.budget));
        new.push(KeptBatch { rows_hash: request.rows_hash, budget, found: found.clone() });
        batches.push(found);
    }
    if let (Some(store), false) = (request.store, new.is_empty()) {
        store.add(&request.key(target.clone()), new).map_err(library_error)?;
    }
    Ok(TuningResult { target, threads: 1, batches })
}

/// Returns the seconds of a call with each schedule that an earlier search has timed.
fn known(found: &TunedBatch) -> HashMap<Schedule, f64> {
    let call = |timed: &TimedSchedule| (timed.schedule.clone(), timed.seconds * found.rows as f64);
    found.screened.iter().map(call).collect()
}

struct Search<'s> {
    timer: Timer<'s>,
    rows: usize,
    /// The default schedule, and the seconds of a call.
    auto: Option<(Schedule, f64)>,
    /// Seconds of a call with schedules that have been timed, by an earlier search too.
    timed: HashMap<Schedule, f64>,
    /// The schedules of this search that have been timed, in its order.
    tried: Vec<Schedule>,
    missed: Vec<Miss>,
    /// Called with the number of schedules tried, the number of all, and the best time as a share of the
    /// default schedule's.
    tell: &'s dyn Fn(usize, usize, f64),
}

impl Search<'_> {
    fn run(&mut self, request: &Request<'_>, goes_on: &dyn Fn() -> bool) -> Result<TunedBatch> {
        let (auto, default) = self.timer.time(None, false).map_err(Error::Request)?;
        self.auto = Some((auto.clone(), default));
        let own = self.timer.ranked().map_err(Error::Request)?;
        let published: Vec<_> = Template::heuristic(self.rows, request.features()).collect();
        let mut points = own.len() + published.len() + WITH_SHARED_SUMS;
        self.time_all(own, points, goes_on);
        self.time_all(published.iter().map(Template::schedule), points, goes_on);
        let mut fastest: Vec<_> = published
            .iter()
            .filter_map(|template| Some((template, *self.timed.get(&template.schedule())?)))
            .collect();
        fastest.sort_by(|a, b| a.1.total_cmp(&b.1));
        let shared = fastest.into_iter().take(WITH_SHARED_SUMS).map(|(t, _)| t.with_shared_sums().schedule());
        let shared: Vec<_> = shared.collect();
        self.time_all(shared, points, goes_on);
        let fastest = self.fastest();
        let (mut tuned, mut found) = (self.in_turns(&auto, fastest)?, None);
        if request.exhaustive {
            points = Template::all().count();
            self.time_all(Template::all().map(|template| template.schedule()), points, &|| true);
            let fastest = self.fastest();
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
        let from_host = self.timer.time(Some(&tuned.1.schedule), true).map_err(Error::Request)?.1 / rows;
        let screened = self.tried.iter().filter_map(|schedule| {
            let call = self.timed.get(schedule)?;
            Some(timed(schedule, call / rows))
        });
        Ok(TunedBatch {
            rows: self.rows,
            auto: tuned.0,
            tuned: tuned.1,
            best: found,
            from_host: Some(from_host),
            points,
            screened: screened.collect(),
            missed: std::mem::take(&mut self.missed),
        })
    }

    fn time_all(
        &mut self,
        schedules: impl IntoIterator<Item = Schedule>,
        points: usize,
        goes_on: &dyn Fn() -> bool,
    ) {
        for schedule in schedules {
            if !self.tried.is_empty() && !goes_on() {
                return;
            }
            if self.tried.contains(&schedule) || self.missed.iter().any(|miss| miss.schedule == schedule) {
                continue;
            }
            let timed = match self.timed.get(&schedule) {
                Some(call) => Ok(*call),
                None => self.timer.time(Some(&schedule), false).map(|(_, call)| call),
            };
            match timed {
                Ok(call) => {
                    self.timed.insert(schedule.clone(), call);
                    self.tried.push(schedule);
                }
                Err(why) => self.missed.push(Miss { schedule, why }),
            }
            let auto = self.auto.as_ref().map_or(f64::INFINITY, |(_, call)| *call);
            let least = self.fastest().map_or(1.0, |(_, call)| (call / auto).min(1.0));
            (self.tell)(self.tried.len() + self.missed.len(), points, least);
        }
    }

    /// Returns the fastest schedule so far, and the seconds of a call.
    fn fastest(&self) -> Option<(Schedule, f64)> {
        let timed = self.tried.iter().filter_map(|schedule| Some((schedule, *self.timed.get(schedule)?)));
        let fastest = timed.min_by(|a, b| a.1.total_cmp(&b.1));
        fastest.map(|(schedule, call)| (schedule.clone(), call))
    }

    /// Times a schedule and another one, if there is one, in turns. Returns both with their median times.
    fn in_turns(
        &mut self,
        first: &Schedule,
        other: Option<(Schedule, f64)>,
    ) -> Result<(TimedSchedule, TimedSchedule)> {
        let other = other.map_or_else(|| first.clone(), |(schedule, _)| schedule);
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..TURNS {
            for (schedule, times) in [first, &other].into_iter().zip(&mut times) {
                times.push(self.timer.time(Some(schedule), false).map_err(Error::Request)?.1);
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
    hello: Hello,
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

    /// Returns the process, started if there is none.
    fn process(&mut self) -> Result<&mut Process, String> {
        let process = match self.process.take() {
            Some(process) => process,
            None => self.start()?,
        };
        Ok(self.process.insert(process))
    }

    /// Returns the backend and its device, as kept schedules name them.
    fn target(&mut self) -> Result<String, String> {
        Ok(self.process()?.hello.target.clone())
    }

    /// Returns schedules of the device in the order of their estimates.
    fn ranked(&mut self) -> Result<Vec<Schedule>, String> {
        let texts = self.process()?.hello.ranked.clone();
        texts.iter().map(|text| Schedule::parse(text).map_err(|e| e.to_string())).collect()
    }

    /// Times a schedule, or the default one. Returns it with the seconds of a call, or says why it can't be
    /// timed. `from_host`: a call copies the rows from the host's memory, and the margins back.
    fn time(&mut self, schedule: Option<&Schedule>, from_host: bool) -> Result<(Schedule, f64), String> {
        let process = self.process()?;
        let job = Job { schedule: schedule.map(ToString::to_string), seconds: SECONDS, from_host };
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

    fn start(&self) -> Result<Process, String> {
        let failed = |e: std::io::Error| format!("the process that times schedules can't start: {e}");
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg("measure").args(&self.request.arguments).args(["--batch", &self.rows.to_string()]);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().map_err(failed)?;
        let (Some(jobs), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        let (send, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let mut process = Process { child, jobs, answers, hello: Hello::default() };
        match process.answers.recv_timeout(PATIENCE) {
            Ok(hello) => process.hello = serde_json::from_str(&hello).map_err(|e| e.to_string())?,
            Err(_) => return Err(process.last_words()),
        }
        Ok(process)
    }
}

/// Returns a schedule for a device with its seconds for each row. There are no estimates for devices.
fn timed(schedule: &Schedule, seconds: f64) -> TimedSchedule {
    TimedSchedule { schedule: schedule.clone(), work: None, seconds }
}
