//! Finds the schedules that `--schedule` names.

use std::path::{Path, PathBuf};

use fangorn::{
    Forest, Predictor, PredictorBuilder,
    auto::{PlanFile, ScheduleStore},
    forest::Profile,
    graph::{Graph, GraphPredictor, Passes},
    schedule::{BatchSchedules, Device, Preset, Schedule},
    sum::Contract,
};

use crate::{
    backend::Backend,
    error::{Error, Result, note},
    library_error,
};

/// The name that stands for the schedules that are kept for a model.
pub const TUNED: &str = "tuned";

/// Schedules, and the file that they came from.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The schedules by batch size. There is one for all batch sizes, unless they came from a plan file.
    pub schedules: BatchSchedules,
    /// Whether the schedule is the default preset, which differs by device.
    #[cfg_attr(not(feature = "burn"), allow(dead_code, reason = "only burn's backends are told"))]
    pub is_default: bool,
    /// The number of rows that reach each leaf, for schedules that use it.
    pub profile: Option<Profile>,
    file: Option<PathBuf>,
}

impl Choice {
    /// Returns the preset with the name, made for the backend's device. If the name is `tuned`, returns the schedules
    /// that `fangorn tune` keeps for the model and the backend: those tuned for this contract of sums if there are some.
    /// Otherwise returns the contents of the file with that path: a plan file of `fangorn tune` if the name
    /// ends in `.toml`, otherwise a schedule.
    ///
    /// # Errors
    /// The name is neither a preset's nor a file's, the file's text is not a schedule or a plan file, the plan file is
    /// for another model, or nothing is kept.
    pub fn new(name: &str, forest: &Forest, backend: Backend, device: Device, sum: Contract) -> Result<Self> {
        if let Some(preset) = Preset::parse(name) {
            let is_default = preset == Preset::Default;
            return Ok(Self {
                schedules: preset.schedules_on(forest, device),
                is_default,
                profile: None,
                file: None,
            });
        }
        if name == TUNED {
            return Self::kept(forest, backend, sum);
        }
        let path = Path::new(name);
        let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                let presets = Preset::ALL.map(Preset::name).join(", ");
                Error::Request(format!(
                    "unknown schedule {name}: no such file or preset; {TUNED} takes what `fangorn tune` keeps, and the presets are {presets}"
                ))
            }
            _ => Error::file(
                path,
                format!("{e}; give a preset's name or a text file with one directive a line"),
            ),
        })?;
        let schedules = match path.extension().is_some_and(|e| e == "toml") {
            true => PlanFile::parse(&text)
                .and_then(|plan_file| plan_file.schedules(forest))
                .map_err(|e| Error::file(path, e.to_string()))?,
            false => Schedule::parse(&text).map_err(|e| Error::file(path, e.to_string()))?.into(),
        };
        Ok(Self { schedules, is_default: false, profile: None, file: Some(path.to_path_buf()) })
    }

    /// Returns the choice of a given schedule.
    pub fn of(schedule: Schedule) -> Self {
        Self { schedules: schedule.into(), is_default: false, profile: None, file: None }
    }

    /// Returns the schedules that are kept for the model, the backend and this machine.
    fn kept(forest: &Forest, backend: Backend, sum: Contract) -> Result<Self> {
        let key = backend.key(forest, sum)?;
        let kept =
            ScheduleStore::user().map(|store| store.nearest(&key)).transpose().map_err(library_error)?;
        let schedules = kept.flatten().and_then(|kept| kept.schedules()).ok_or_else(|| {
            let option = if backend.is_gpu() { format!(" --backend {}", backend.name()) } else { String::new() };
            Error::Request(format!(
                "--schedule tuned: no schedule is kept for this model on this machine; run `fangorn tune MODEL{option}`"
            ))
        })?;
        Ok(Self { schedules, is_default: false, profile: None, file: None })
    }

    /// Returns the choice of the schedule for batches of `rows` rows.
    pub fn for_batch(self, rows: usize) -> Self {
        Self { schedules: self.schedules.nearest(rows).clone().into(), is_default: false, ..self }
    }

    /// Returns this choice with a profile.
    pub fn by(self, profile: Option<Profile>) -> Self {
        Self { profile, ..self }
    }

    /// Compiles the forest for the CPU and the threads of the current rayon pool.
    ///
    /// # Errors
    /// The schedule can't be carried out.
    pub fn predictor(&self, forest: &Forest, sum: Contract) -> Result<Predictor> {
        let threads = rayon::current_num_threads();
        let builder = Predictor::builder(forest)
            .schedules(self.schedules.clone())
            .threads(threads)
            .sum(sum)
            .profile(self.profile.as_ref());
        compiled(builder).map_err(|e| self.blame(e))
    }

    /// Turns an error of the library into one of the command line. Names the schedule's file if the error is
    /// about the schedule.
    pub fn blame(&self, error: fangorn::Error) -> Error {
        match (&self.file, error) {
            (Some(file), error @ (fangorn::Error::Schedule(_) | fangorn::Error::Layout(_))) => {
                Error::file(file, error.to_string())
            }
            (_, error) => Error::Library(error),
        }
    }

    /// Returns the schedule, if there is one for all batch sizes.
    ///
    /// # Errors
    /// There are several schedules, for different batch sizes.
    pub fn only(&self) -> Result<&Schedule> {
        match self.schedules.buckets().len() {
            1 => Ok(self.schedules.nearest(1)),
            buckets => {
                let what = format!(
                    "--schedule: the plan file has {buckets} schedules, by batch size, and one is needed; give one schedule, \
                     or a plan file of one batch size, or, to `fangorn lower`, --batch"
                );
                Err(Error::Request(what))
            }
        }
    }

    /// Returns the schedule for batches of `rows` rows on one line.
    pub fn line(&self, rows: usize) -> String {
        line(self.schedules.nearest(rows))
    }
}

/// Compiles a forest for the CPU, and notes the warnings of its self-check. Every command that predicts makes its
/// predictor here.
///
/// # Errors
/// [`PredictorBuilder::build`] fails.
pub fn compiled(builder: PredictorBuilder<'_>) -> fangorn::Result<Predictor> {
    let predictor = builder.build()?;
    predictor.warnings().iter().for_each(|warning| note(warning.to_string()));
    Ok(predictor)
}

/// Compiles a graph for the CPU, and notes the warnings of its forests' self-checks.
///
/// # Errors
/// [`GraphPredictor::with_passes`] fails.
pub fn compiled_graph(graph: &Graph, threads: usize, passes: &Passes) -> fangorn::Result<GraphPredictor> {
    let predictor = GraphPredictor::with_passes(graph, threads, passes)?;
    predictor.warnings().for_each(|warning| note(warning.to_string()));
    Ok(predictor)
}

/// Returns a schedule on one line.
pub fn line(schedule: &Schedule) -> String {
    schedule.to_string().lines().collect::<Vec<_>>().join("; ")
}
