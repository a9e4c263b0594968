//! Costs of ways that were measured on this machine. They are in a file of the user's cache folder.

use std::{
    fs,
    io::{self, Result},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::{Machine, Ways, caches};
use crate::{
    cache_folder::{self, CACHE},
    isa::isa,
};

/// The version of the file. A file of another version is not read.
const FORMAT: u32 = 1;
/// Maximum size in bytes of a file that is read.
const MOST_BYTES: u64 = 1 << 16;
/// The greatest cost that is read, in seconds. No operation of a way takes that long.
const MOST_SECONDS: f64 = 1e-3;

/// Costs of the [ways](Ways) to evaluate many rows, as measured on this machine with one instruction set.
///
/// The shipped costs are right for several machines, and exact for none. With those of the machine itself,
/// [estimates](super::Estimate) choose the default schedule by what it takes here. They are kept in the user's cache
/// folder, in one file for each processor and instruction set, and [`Machine::here`] reads them. A choice never changes a
/// result, so measured costs never do.
///
/// [`auto::CostMeasurement`](crate::auto::CostMeasurement) measures them, as `fangorn costs measure` does.
///
/// ```
/// use fangorn::cost::MeasuredWays;
///
/// assert!(MeasuredWays::processor().contains(std::env::consts::ARCH));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredWays {
    /// The costs.
    pub ways: Ways,
}

/// The keys of a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    format: u32,
    fangorn: String,
    instructions: String,
    processor: String,
    ways: Ways,
}

impl MeasuredWays {
    /// Returns what tells this machine's processor from others: its architecture, and its name. A processor that says no
    /// name has the bytes of a core's first and second cache instead.
    pub fn processor() -> String {
        let caches = || {
            let [closest, second] = caches::data_caches().unwrap_or([0; 2]);
            format!("caches of {closest} and {second} bytes")
        };
        format!("{}, {}", std::env::consts::ARCH, caches::processor_name().unwrap_or_else(caches))
    }

    /// Returns the file that the costs of this machine are kept in. Returns `None` if the environment names no cache
    /// folder.
    pub fn path() -> Option<PathBuf> {
        let name = format!("costs-{}-{:016x}.toml", isa().name(), xxh3_64(Self::processor().as_bytes()));
        Some(cache_folder::of_user()?.join(name))
    }

    /// Returns the costs that are kept for this machine; `None` if there are none. A file of another version of Fangorn
    /// counts as absent, and so does one that was damaged.
    ///
    /// # Errors
    /// The system can't read the file.
    pub fn kept() -> Result<Option<Self>> {
        let Some(path) = Self::path() else { return Ok(None) };
        match cache_folder::read(&path, MOST_BYTES) {
            Ok(text) => Ok(text.and_then(|text| Self::parse(&text))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Keeps the costs, and returns their file. Processes that have asked for [`Machine::here`] already go on with the
    /// costs of then.
    ///
    /// # Errors
    /// Some cost is no number of seconds that a cost may have, the environment names no cache folder, or the system can't
    /// write the file.
    pub fn keep(&self) -> Result<PathBuf> {
        if !self.can_be_kept() {
            let what =
                format!("a cost is below 0 or above {MOST_SECONDS} seconds; measure on an idle machine");
            return Err(io::Error::other(what));
        }
        let no_folder = || format!("the environment names no cache folder; set {CACHE} to a folder");
        let path = Self::path().ok_or_else(|| io::Error::other(no_folder()))?;
        let keys = Keys {
            format: FORMAT,
            fangorn: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: isa().name().to_owned(),
            processor: Self::processor(),
            ways: self.ways,
        };
        let text = toml::to_string(&keys).map_err(io::Error::other)?;
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        cache_folder::replace(&path, &text)?;
        Ok(path)
    }

    /// Returns whether every cost is a number of seconds that a cost may have.
    pub fn can_be_kept(&self) -> bool {
        self.ways.all().into_iter().all(|(_, cost)| (0.0..=MOST_SECONDS).contains(&cost))
    }

    /// Removes the costs that are kept for this machine. Returns whether there were some.
    ///
    /// # Errors
    /// The system can't remove the file.
    pub fn forget() -> Result<bool> {
        let Some(path) = Self::path() else { return Ok(false) };
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Returns the costs in which a step of one row takes as long as in the shipped ones. Costs of few rows are shipped,
    /// and they are compared with those of ways.
    #[must_use]
    pub(crate) fn beside_few_rows(mut self) -> Self {
        let times = Machine::shipped_here().ways.row_step / self.ways.row_step;
        if times.is_finite() {
            self.ways.all_mut().into_iter().for_each(|(_, cost)| *cost *= times);
        }
        self
    }

    /// Reads a file's text; `None` if it is of another version or machine, or damaged.
    fn parse(text: &str) -> Option<Self> {
        let keys: Keys = toml::from_str(text).ok()?;
        let is_here = keys.format == FORMAT
            && keys.fangorn == env!("CARGO_PKG_VERSION")
            && keys.instructions == isa().name()
            && keys.processor == Self::processor();
        Some(Self { ways: keys.ways }).filter(|costs| is_here && costs.can_be_kept())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(change: impl FnOnce(&mut Keys)) -> String {
        let mut keys = Keys {
            format: FORMAT,
            fangorn: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: isa().name().to_owned(),
            processor: MeasuredWays::processor(),
            ways: Machine::shipped_here().ways,
        };
        change(&mut keys);
        toml::to_string(&keys).expect("text")
    }

    #[test]
    fn costs_of_this_machine_are_read_and_others_are_not() {
        let ways = Machine::shipped_here().ways;
        assert_eq!(MeasuredWays::parse(&text(|_| ())), Some(MeasuredWays { ways }));
        let changes: [fn(&mut Keys); 7] = [
            |keys| keys.format += 1,
            |keys| keys.fangorn.push('0'),
            |keys| keys.instructions.push('0'),
            |keys| keys.processor.push('0'),
            |keys| keys.ways.node = f64::NAN,
            |keys| keys.ways.split = -1e-12,
            |keys| keys.ways.step = 1.0,
        ];
        for (at, change) in changes.into_iter().enumerate() {
            assert_eq!(MeasuredWays::parse(&text(change)), None, "change {at}");
        }
        assert_eq!(MeasuredWays::parse(&(text(|_| ()) + "more = 1\n")), None);
        assert_eq!(MeasuredWays::parse(""), None);
    }

    /// Costs of a machine that is twice as fast are compared with the same costs of few rows.
    #[test]
    fn a_faster_machine_chooses_as_the_shipped_costs_do() {
        let mut ways = Machine::shipped_here().ways;
        ways.all_mut().into_iter().for_each(|(_, cost)| *cost /= 2.0);
        assert_eq!(MeasuredWays { ways }.beside_few_rows().ways, Machine::shipped_here().ways);
        let zero = Ways { row_step: 0.0, ..ways };
        assert_eq!(MeasuredWays { ways: zero }.beside_few_rows().ways, zero);
    }
}
