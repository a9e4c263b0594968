//! Plan files: the schedules that tuning has chosen for a model, as TOML that a person can read and change.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    forest::{Forest, ModelHash},
    schedule::{BatchSchedules, Schedule},
};

/// The version of the format that is written and read.
const FORMAT: u32 = 1;

/// The content of a plan file: schedules for one model, each for batches of one size.
///
/// ```
/// use fangorn::{Forest, auto::{PlanFile, PlanFileBucket}, schedule::Schedule};
///
/// let mut forest = Forest::builder(1, 1);
/// forest.tree(0).leaf(0, &[1.0]);
/// let forest = forest.build()?;
/// let schedule = Schedule::parse("fewRows(walk)")?;
/// let bucket = PlanFileBucket { rows: 64, schedule, us_per_row: Some(0.5), auto_us_per_row: None };
/// let plan_file = PlanFile::new(&forest, "avx2", 1, vec![bucket]);
/// assert_eq!(PlanFile::parse(&plan_file.to_string())?, plan_file);
/// assert_eq!(plan_file.schedules(&forest)?.buckets().len(), 1);
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PlanFile {
    /// The hash of the model that the schedules are for.
    pub model: ModelHash,
    /// The target for which they were chosen: an instruction set, or a backend with its device.
    pub target: String,
    /// The number of threads for which they were chosen.
    pub threads: usize,
    /// The buckets, each with a different number of rows.
    pub buckets: Vec<PlanFileBucket>,
}

/// The schedule for batches of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanFileBucket {
    /// Number of rows of a batch.
    pub rows: usize,
    /// The schedule.
    pub schedule: Schedule,
    /// Microseconds per row with this schedule when it was chosen, if it was timed.
    pub us_per_row: Option<f64>,
    /// Microseconds per row with the default schedule at that time.
    pub auto_us_per_row: Option<f64>,
}

/// The error of a plan file that can't be read or that is for another model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanFileError {
    /// The text is no TOML, or a key is missing or unknown.
    #[error("{0}; `fangorn tune MODEL -o plan.toml` writes a plan file")]
    Text(String),
    /// The plan file was written by another version.
    #[error("format {0} of plan files, this version reads format {FORMAT}; tune again with this version")]
    Format(u32),
    /// The model's hash is not 32 hexadecimal digits.
    #[error("`model` is not 32 hexadecimal digits; tune again, or restore the line as it was written")]
    Hash,
    /// A schedule's text can't be read.
    #[error("the schedule for {rows} rows: {error}")]
    Schedule {
        /// The bucket's number of rows.
        rows: usize,
        /// What is wrong.
        error: crate::schedule::ParseError,
    },
    /// There is no bucket, two have the same number of rows, or one has 0 rows.
    #[error(
        "at least one [[batch]] is needed, each with a number of rows of its own, above 0; change `rows`"
    )]
    Buckets,
    /// The plan file is for another model.
    #[error(
        "the plan file is for the model {expected}, this one is {model}; run `fangorn tune` on this model"
    )]
    OtherModel {
        /// The hash that the plan file names.
        expected: ModelHash,
        /// The hash of the forest at hand.
        model: ModelHash,
    },
}

/// The keys of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    format: u32,
    model: String,
    /// Version 0.1 called it `instructions`.
    #[serde(alias = "instructions")]
    target: String,
    threads: usize,
    #[serde(default)]
    batch: Vec<BucketKeys>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BucketKeys {
    rows: usize,
    schedule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    us_per_row: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_us_per_row: Option<f64>,
}

impl PlanFile {
    /// Makes a plan file for a forest.
    pub fn new(
        forest: &Forest,
        target: impl Into<String>,
        threads: usize,
        buckets: Vec<PlanFileBucket>,
    ) -> Self {
        Self { model: forest.model_hash(), target: target.into(), threads, buckets }
    }

    /// Reads a plan file.
    ///
    /// # Errors
    /// The text is not a plan file of this version. The error names the line and the remedy.
    pub fn parse(text: &str) -> Result<Self, PlanFileError> {
        // The first line of the message says what is wrong; the other lines show where.
        let first = |e: toml::de::Error| {
            let line = e.span().map(|at| 1 + text[..at.start.min(text.len())].matches('\n').count());
            let message = e.message().lines().next().unwrap_or_default().to_owned();
            PlanFileError::Text(line.map_or(message.clone(), |line| format!("line {line}: {message}")))
        };
        let keys: Keys = toml::from_str(text).map_err(first)?;
        if keys.format != FORMAT {
            return Err(PlanFileError::Format(keys.format));
        }
        let digits = keys.model.len() == 32 && keys.model.bytes().all(|b| b.is_ascii_hexdigit());
        let model = u128::from_str_radix(&keys.model, 16).ok().filter(|_| digits);
        let bucket = |keys: BucketKeys| {
            let BucketKeys { rows, schedule, us_per_row, auto_us_per_row } = keys;
            let parsed = Schedule::parse(&schedule);
            let schedule = parsed.map_err(|error| PlanFileError::Schedule { rows, error })?;
            Ok(PlanFileBucket { rows, schedule, us_per_row, auto_us_per_row })
        };
        let file = Self {
            model: ModelHash(model.ok_or(PlanFileError::Hash)?),
            target: keys.target,
            threads: keys.threads,
            buckets: keys.batch.into_iter().map(bucket).collect::<Result<_, _>>()?,
        };
        file.by_batch().map(|_| file)
    }

    /// Returns the schedules for the forest.
    ///
    /// # Errors
    /// The plan file is for another model, it has no buckets, two have the same number of rows, or one has 0 rows.
    pub fn schedules(&self, forest: &Forest) -> Result<BatchSchedules, PlanFileError> {
        let model = forest.model_hash();
        if model != self.model {
            return Err(PlanFileError::OtherModel { expected: self.model, model });
        }
        self.by_batch()
    }

    fn by_batch(&self) -> Result<BatchSchedules, PlanFileError> {
        let buckets = self.buckets.iter().map(|bucket| (bucket.rows, bucket.schedule.clone()));
        BatchSchedules::new(buckets).ok_or(PlanFileError::Buckets)
    }
}

impl fmt::Display for PlanFile {
    /// Writes the file, which [`PlanFile::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bucket = |bucket: &PlanFileBucket| BucketKeys {
            rows: bucket.rows,
            schedule: bucket.schedule.to_string(),
            us_per_row: bucket.us_per_row,
            auto_us_per_row: bucket.auto_us_per_row,
        };
        let keys = Keys {
            format: FORMAT,
            model: self.model.to_string(),
            target: self.target.clone(),
            threads: self.threads,
            batch: self.buckets.iter().map(bucket).collect(),
        };
        let text = toml::to_string_pretty(&keys).map_err(|_| fmt::Error)?;
        write!(f, "# Schedules for one model, by the rows of a batch. `--schedule` takes this file.\n{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_file() -> PlanFile {
        let mut forest = Forest::builder(1, 1);
        forest.tree(0).leaf(0, &[1.0]);
        let bucket = |rows, text: &str| PlanFileBucket {
            rows,
            schedule: Schedule::parse(text).expect("a schedule"),
            us_per_row: Some(0.25),
            auto_us_per_row: None,
        };
        let buckets = vec![bucket(1, "fewRows(full)"), bucket(64, "tile(batch, b0, b1, 64)\nparallel(b0)")];
        PlanFile::new(&forest.build().expect("a leaf"), "avx512", 2, buckets)
    }

    #[test]
    fn a_plan_reads_back() {
        let text = plan_file().to_string();
        assert!(
            text.contains("[[batch]]\nrows = 64\nschedule = \"\"\"\ntile(batch, b0, b1, 64)\n"),
            "{text}"
        );
        assert_eq!(PlanFile::parse(&text), Ok(plan_file()));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let text = plan_file().to_string();
        let refused = |from: &str, to: &str, expected: &str| {
            assert!(text.contains(from), "{from} is not in {text}");
            let error = PlanFile::parse(&text.replacen(from, to, 1)).expect_err(expected).to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "`{expected}` is not in {error}");
        };
        refused("format = 1", "format = 2", "format 2 of plan files, this version reads format 1");
        refused("threads = 2", "threads = two", "line 5: ");
        refused("threads = 2", "", "missing field `threads`");
        refused("threads = 2", "threads = 2\ncolour = 1", "unknown field `colour`");
        refused("rows = 64", "rows = 1", "rows of its own");
        refused("rows = 64", "rows = 0", "rows of its own");
        refused("fewRows(full)", "fewRows(fuller)", "the schedule for 1 rows: ");
        let mut short = plan_file();
        short.buckets.clear();
        assert_eq!(PlanFile::parse(&short.to_string()), Err(PlanFileError::Buckets));
        let hash = plan_file().model.to_string();
        refused(&hash, &hash[1..], "32 hexadecimal digits");
        refused(&hash, &format!("+{}", &hash[1..]), "32 hexadecimal digits");
        let mut other = Forest::builder(1, 1);
        other.tree(0).leaf(0, &[2.0]);
        let other = other.build().expect("a leaf");
        assert!(matches!(plan_file().schedules(&other), Err(PlanFileError::OtherModel { .. })));
    }
}
