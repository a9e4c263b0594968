//! A forest on a device: its schedules, the rows of a batch, and the ways to time calls.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use burn::tensor::{Device, ProfileOptions, Tensor, TensorData, TimingMethod};
use fangorn::{
    Forest, Predictor,
    cpu::Rows,
    op::ForestOp,
    schedule::{Preset, Schedule},
};
use serde::Serialize;

use crate::{
    bounds, devices,
    error::{Error, Result, caught},
    npy, schedules,
    time::{Summary, samples, wall},
};

/// The backends that run on a GPU, by the names of their features.
pub const BACKENDS: [&str; 5] = ["cuda", "vulkan", "wgpu", "metal", "rocm"];

/// A schedule with a name. It is compiled at its first use.
pub struct Candidate {
    /// The name of a preset, or of a schedule file.
    pub name: String,
    op: Arc<ForestOp>,
    /// Milliseconds from the forest to the first margins.
    pub first_ms: Option<f64>,
    /// Why the schedule is left out, or `None` while it runs.
    pub refused: Option<String>,
}

/// Microseconds a call, of many calls, measured in four ways.
#[derive(Debug, Default, Serialize)]
pub struct Times {
    /// A call and the wait until the device is done. Rows and margins stay on the device.
    pub resident: Vec<f64>,
    /// A call by the device's own clock, with rows and margins on the device. Empty if the device has no
    /// clock.
    pub device: Vec<f64>,
    /// A call among several that are queued before one wait.
    pub queued: Vec<f64>,
    /// A call that also copies rows from the host's memory, and margins into it.
    pub total: Vec<f64>,
}

/// The medians and the least of the samples in [`Times`].
#[derive(Debug, Serialize)]
pub struct Summaries {
    resident_us: Option<Summary>,
    device_us: Option<Summary>,
    queued_us: Option<Summary>,
    total_us: Option<Summary>,
}

impl Times {
    /// Summarizes each way of measuring.
    pub fn summaries(&self) -> Summaries {
        Summaries {
            resident_us: Summary::of(&self.resident),
            device_us: Summary::of(&self.device),
            queued_us: Summary::of(&self.queued),
            total_us: Summary::of(&self.total),
        }
    }
}

/// Files with results of a batch, for comparison with other libraries.
#[derive(Debug, Serialize)]
pub struct ResultFiles {
    /// Margins of all rows, `rows x outputs`.
    margins: PathBuf,
    /// Leaf ids that the first rows reach, `rows x trees`.
    leaves: PathBuf,
    /// Error bounds of the first rows' margins, `rows x outputs`: how far a correct sum may be from the exact
    /// one.
    row_bound: PathBuf,
    /// Error bounds of any row's margins, by output.
    bound: Vec<f64>,
    /// How many leaf slots of the first rows are others than on the native CPU target.
    leaves_unlike_cpu: usize,
}

/// The maximum number of calls that are queued before one wait.
const QUEUED: usize = 16;
/// The maximum number of bytes that the margins of queued calls may take.
const QUEUED_BYTES: usize = 512 << 20;
/// The maximum number of leaf ids that are written.
const MOST_LEAVES: usize = 1 << 24;

/// A forest on a device, with its schedules and a batch of rows.
pub struct Session {
    /// The backend's name.
    pub backend: &'static str,
    device: Device,
    forest: Forest,
    cpu: Predictor,
    /// The schedules.
    pub candidates: Vec<Candidate>,
    host: Vec<f32>,
    x: Option<Tensor<2>>,
}

impl Session {
    /// Opens a backend's default device.
    ///
    /// # Errors
    /// The backend is not built in or does not answer, or a schedule can't be read.
    pub fn open(backend: &str, forest: Forest, names: &[String], skipped: &[String]) -> Result<Self> {
        let name = BACKENDS.into_iter().find(|b| *b == backend).ok_or_else(|| {
            let names = BACKENDS.join(", ");
            Error::Request(format!("unknown backend {backend}; the backends are {names}"))
        })?;
        let cpu = Predictor::new(&forest)?;
        let mut candidates = Vec::new();
        for asked in names {
            for named in schedules::named(asked, &forest, true)? {
                candidates.push(candidate(named, &forest)?);
            }
        }
        candidates.retain(|c: &Candidate| !skipped.contains(&c.name));
        if candidates.is_empty() {
            return Err(Error::Request("every schedule is skipped; leave one".into()));
        }
        caught(name, || {
            let device = devices::open(name).ok_or(Error::NotBuiltIn(name))?;
            let session = Self { backend: name, device, forest, cpu, candidates, host: Vec::new(), x: None };
            session.sync()?;
            Ok(session)
        })
    }

    /// Returns the name that the device reports for itself.
    pub fn device_name(&self) -> String {
        devices::name(self.backend, &self.device)
    }

    /// Returns the directives of a candidate's schedule for a batch, on one line.
    pub fn directives(&self, candidate: usize, batch: u32) -> String {
        let device = devices::description(&self.device);
        schedules::line(self.candidates[candidate].op.schedules(&device).nearest(batch as usize))
    }

    /// Returns the forest.
    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    /// Waits until the device is done.
    pub fn sync(&self) -> Result<()> {
        let failed = |e| Error::Device { backend: self.backend, cause: format!("{e:?}") };
        caught(self.backend, || self.device.sync().map_err(failed))
    }

    /// Puts rows on the device in place of the earlier ones.
    ///
    /// # Errors
    /// The device has no room for the rows.
    pub fn load(&mut self, rows: Vec<f32>) -> Result<()> {
        self.x = None;
        self.host = rows;
        caught(self.backend, || {
            self.device.memory_cleanup();
            self.x = Some(self.upload(self.host.clone()));
            self.sync()
        })
    }

    fn upload(&self, rows: Vec<f32>) -> Tensor<2> {
        let columns = self.forest.features.len();
        let shape = [rows.len() / columns.max(1), columns];
        Tensor::from_data(TensorData::new(rows, shape), &self.device)
    }

    /// Copies margins into the host's memory. burn may fetch data only when it is first read, and the copy
    /// reads it.
    fn download(&self, margins: Tensor<2>) -> Result<Vec<f32>> {
        let failed = |e| Error::Device { backend: self.backend, cause: format!("{e:?}") };
        margins.into_data().try_to_vec::<f32>().map_err(failed)
    }

    fn rows(&self) -> Result<&Tensor<2>> {
        self.x.as_ref().ok_or_else(|| Error::Request("no rows are loaded; open a batch first".into()))
    }

    /// Runs a schedule over the loaded rows and waits until the device is done. The first call compiles the
    /// schedule.
    ///
    /// # Errors
    /// The device refuses the call, or fails.
    pub fn first(&mut self, candidate: usize) -> Result<()> {
        let start = Instant::now();
        let op = &self.candidates[candidate].op;
        caught(self.backend, || {
            let margins = op.margins(self.rows()?.clone())?;
            self.sync()?;
            drop(margins);
            Ok(())
        })?;
        let ms = start.elapsed().as_secs_f64() * 1e3;
        self.candidates[candidate].first_ms.get_or_insert(ms);
        Ok(())
    }

    /// Times a schedule in all four ways, for about `seconds` seconds in all.
    ///
    /// # Errors
    /// The device fails.
    pub fn time(&self, candidate: usize, seconds: f64) -> Result<Times> {
        let op = &self.candidates[candidate].op;
        let x = self.rows()?;
        let bytes = x.dims()[0] * op.outputs() * 4;
        let queued = (QUEUED_BYTES / bytes.max(1)).clamp(1, QUEUED);
        caught(self.backend, || {
            let mut times = Times { resident: self.resident(candidate, 0.4 * seconds)?, ..Times::default() };
            times.queued = samples(0.2 * seconds, || {
                let took = wall(|| {
                    let run = |_| op.margins(x.clone());
                    // The margins are kept until the device is done, so that no call is skipped as unused.
                    let margins = (0..queued).map(run).collect::<Result<Vec<_>, _>>()?;
                    self.sync()?;
                    drop(margins);
                    Ok(())
                })?;
                Ok(Some(took / queued as f64))
            })?;
            times.device = samples(0.1 * seconds, || self.device_time(op, x))?;
            times.total = samples(0.3 * seconds, || {
                // The copy that the upload consumes is made before the clock starts.
                let rows = self.host.clone();
                let took = wall(|| {
                    std::hint::black_box(self.download(op.margins(self.upload(rows))?)?);
                    Ok(())
                })?;
                Ok(Some(took))
            })?;
            Ok(times)
        })
    }

    /// Times calls whose rows and margins stay on the device, by which schedules are compared. The first
    /// tenth of the time only warms up.
    ///
    /// # Errors
    /// The device fails.
    pub fn resident(&self, candidate: usize, seconds: f64) -> Result<Vec<f64>> {
        let op = &self.candidates[candidate].op;
        let x = self.rows()?;
        let call = || {
            let margins = op.margins(x.clone())?;
            self.sync()?;
            drop(margins);
            Ok(())
        };
        caught(self.backend, || {
            samples(0.1 * seconds, || wall(call).map(Some))?;
            samples(0.9 * seconds, || wall(call).map(Some))
        })
    }

    /// Returns the microseconds of one call by the device's own clock, or `None` if it has none.
    fn device_time(&self, op: &Arc<ForestOp>, x: &Tensor<2>) -> Result<Option<f64>> {
        let (op, x) = (op.clone(), x.clone());
        let failed = |e| Error::Device { backend: self.backend, cause: format!("{e:?}") };
        let timed = self.device.profile_with(ProfileOptions::default().flush(), move || op.margins(x));
        let (margins, duration) = timed.map_err(failed)?;
        let margins = margins?;
        let own_clock = duration.timing_method() == TimingMethod::Device;
        let ticks = wait(duration.into_future());
        drop(margins);
        Ok(ticks.filter(|_| own_clock).map(|t| t.duration().as_secs_f64() * 1e6))
    }

    /// Writes a schedule's margins of the loaded rows, and the leaf ids and error bounds of the first `most`
    /// rows.
    ///
    /// # Errors
    /// The device fails, or a file can't be written.
    pub fn write(&self, candidate: usize, folder: &Path, most: usize) -> Result<ResultFiles> {
        let op = &self.candidates[candidate].op;
        let x = self.rows()?;
        let [batch, columns] = x.dims();
        let trees = op.trees();
        let count = batch.min(most).min(MOST_LEAVES / trees.max(1)).max(1);
        let failed =
            |e: &dyn std::fmt::Debug| Error::Device { backend: self.backend, cause: format!("{e:?}") };
        let (margins, slots) = caught(self.backend, || {
            let margins = self.download(op.margins(x.clone())?)?;
            let slots = op.leaf_slots(x.clone().slice([0..count, 0..columns]))?.into_data().convert::<i32>();
            Ok((margins, slots.try_to_vec::<i32>().map_err(|e| failed(&e))?))
        })?;
        let written = ResultFiles {
            margins: folder.join("margins.npy"),
            leaves: folder.join("leaves.npy"),
            row_bound: folder.join("row-bound.npy"),
            // JSON has no infinity, so the largest `f64` stands for it.
            bound: self.forest.sum_bound().into_iter().map(|bound| bound.min(f64::MAX)).collect(),
            leaves_unlike_cpu: {
                let first = Rows::new(&self.host[..count * columns], columns)?;
                let own = self.cpu.leaf_slots(&first)?;
                own.iter().zip(&slots).filter(|(own, slot)| **own != **slot as u32).count()
            },
        };
        npy::write(&written.margins, op.outputs(), margins.into_iter())?;
        let ids = self.forest.leaf_ids();
        npy::write(&written.leaves, trees, slots.iter().map(|slot| ids[*slot as usize] as i32))?;
        let of_row = |row: &[i32]| bounds::of_row(&self.forest, row.iter().map(|slot| *slot as u32));
        let bounds: Vec<f32> = slots.chunks_exact(trees.max(1)).flat_map(of_row).collect();
        npy::write(&written.row_bound, op.outputs(), bounds.into_iter())?;
        Ok(written)
    }
}

/// Makes a schedule's operator, which is compiled at its first use. The operator chooses the default schedule itself, by
/// the device and the batch.
fn candidate((name, schedule): (String, Schedule), forest: &Forest) -> Result<Candidate> {
    let schedule = (name != Preset::Default.name()).then_some(schedule);
    let op = Arc::new(ForestOp::builder(forest.clone()).schedule(schedule).build()?);
    Ok(Candidate { name, op, first_ms: None, refused: None })
}

/// Waits for a future by polling it again and again.
fn wait<F: Future + Unpin>(mut future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match std::pin::Pin::new(&mut future).poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}
