//! Finding the schedule that `--schedule` names.

use std::path::{Path, PathBuf};

use fangorn::{
    Forest, Predictor,
    forest::Profile,
    schedule::{Device, Preset, Schedule},
    sum::Contract,
};

use crate::error::{Error, Result};

/// A schedule and where it came from.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The schedule.
    pub schedule: Schedule,
    /// Whether it is the default preset, which each device has its own of.
    #[cfg_attr(not(feature = "burn"), allow(dead_code, reason = "only burn's backends are told"))]
    pub is_default: bool,
    /// How many rows come to each leaf, for schedules that go by it.
    pub profile: Option<Profile>,
    file: Option<PathBuf>,
}

impl Choice {
    /// The preset with the name, as it is on a device, or else the schedule in the file.
    ///
    /// # Errors
    /// A name that is neither a preset's nor a file's, or a text that is no schedule.
    pub fn new(name: &str, forest: &Forest, device: Device) -> Result<Self> {
        if let Some(preset) = Preset::parse(name) {
            let is_default = preset == Preset::Default;
            return Ok(Self {
                schedule: preset.schedule_on(forest, device),
                is_default,
                profile: None,
                file: None,
            });
        }
        let path = Path::new(name);
        let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                let presets = Preset::ALL.map(Preset::name).join(", ");
                Error::Request(format!(
                    "unknown schedule {name}: there is no such file, and the presets are {presets}"
                ))
            }
            _ => Error::file(
                path,
                format!("{e}; give a preset's name or a text file with one directive a line"),
            ),
        })?;
        let schedule = Schedule::parse(&text).map_err(|e| Error::file(path, e.to_string()))?;
        Ok(Self { schedule, is_default: false, profile: None, file: Some(path.to_path_buf()) })
    }

    /// The same by a profile.
    pub fn by(self, profile: Option<Profile>) -> Self {
        Self { profile, ..self }
    }

    /// The forest ready on the CPU, for the threads of the current rayon pool.
    ///
    /// # Errors
    /// A schedule that can't be carried out.
    pub fn predictor(&self, forest: &Forest, sum: Contract) -> Result<Predictor> {
        let threads = rayon::current_num_threads();
        let made = Predictor::builder(forest)
            .schedule(self.schedule.clone())
            .threads(threads)
            .sum(sum)
            .profile(self.profile.as_ref())
            .build();
        made.map_err(|e| self.blame(e))
    }

    /// An error of the library, with the schedule's file where it is about the schedule.
    pub fn blame(&self, error: fangorn::Error) -> Error {
        match (&self.file, error) {
            (Some(file), error @ (fangorn::Error::Schedule(_) | fangorn::Error::Layout(_))) => {
                Error::file(file, error.to_string())
            }
            (_, error) => Error::Library(error),
        }
    }

    /// The schedule on one line.
    pub fn line(&self) -> String {
        self.schedule.to_string().lines().collect::<Vec<_>>().join("; ")
    }
}
