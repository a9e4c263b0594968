//! Keeps what tuning has found in the user's cache folder, so that no machine tunes a model twice.
//!
//! There is one file for each model, target, number of threads and contract of sums, and in it an
//! entry for each candidate at each batch size: when the space of candidates changes, earlier times remain
//! valid. A file is replaced as a whole by a rename, and a lock lets one process at a time add to it. The
//! system releases the lock when a process ends. So a file is complete at any time.

use std::{
    fmt,
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::tuner::{Miss, TimedSchedule, TunedBatch};
pub use crate::cache_folder::CACHE;
use crate::{
    cache_folder,
    cost::Work,
    error::{Error, Result},
    forest::{Forest, ModelHash},
    schedule::{BatchSchedules, Schedule},
    sum::Contract,
};

/// The version of the files. Files of another version are not read.
const FORMAT: u32 = 3;
/// Maximum number of characters of a target in a file's name.
const MOST_NAME: usize = 60;
/// Maximum size in bytes of a file that is read.
const MOST_BYTES: u64 = 1 << 26;

/// The key of kept schedules.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScheduleKey {
    /// The hash of the model.
    pub model: ModelHash,
    /// What predictions run on: the name of the CPU's instruction set, or a backend with its device, as
    /// `fangorn tune` names it.
    pub target: String,
    /// The number of threads that predictions run on.
    pub threads: usize,
    /// The contract of sums.
    pub sum: Contract,
}

impl ScheduleKey {
    /// Returns the key of a forest on this machine's CPU.
    pub fn here(forest: &Forest, threads: usize, sum: Contract) -> Self {
        Self::on(forest, crate::isa::isa().name(), threads, sum)
    }

    /// Returns the key of a forest on a target.
    pub fn on(forest: &Forest, target: impl Into<String>, threads: usize, sum: Contract) -> Self {
        Self { model: forest.model_hash(), target: target.into(), threads, sum }
    }

    /// Returns the target as a part of a file's name. Devices have names with any characters.
    fn target_in_file(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        let name: String = self.target.chars().map(plain).take(MOST_NAME).collect();
        match name == self.target {
            true => name,
            // Different targets may have the same plain name.
            false => format!("{name}-{:016x}", xxh3_64(self.target.as_bytes())),
        }
    }
}

impl fmt::Display for ScheduleKey {
    /// Writes the name of the key's file, without its extension.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, threads, sum, .. } = self;
        write!(f, "{model}-{}-{threads}-{}", self.target_in_file(), sum.name())
    }
}

/// The result of tuning for batches of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptBatch {
    /// A hash of the rows that candidates were timed on, or 0 for random rows.
    pub rows_hash: u64,
    /// The time that the search was allowed to take.
    pub budget: Duration,
    /// The schedules and times that were found.
    pub found: TunedBatch,
}

impl KeptBatch {
    /// Returns the hash of rows: 0 for `None`, which stands for random rows, and another number for any rows.
    pub fn hash_of(rows: Option<&[f32]>) -> u64 {
        let Some(rows) = rows else { return 0 };
        let mut hasher = Xxh3::new();
        rows.iter().for_each(|value| hasher.update(&value.to_le_bytes()));
        hasher.digest().max(1)
    }
}

/// The results that are kept for one key: batches in ascending order of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptSchedules {
    /// The key.
    pub key: ScheduleKey,
    /// The result for each batch size.
    pub batches: Vec<KeptBatch>,
}

impl KeptSchedules {
    /// Returns the tuned schedules; `None` if there are no batches.
    pub fn schedules(&self) -> Option<BatchSchedules> {
        let bucket = |batch: &KeptBatch| (batch.found.rows, batch.found.tuned.schedule.clone());
        BatchSchedules::new(self.batches.iter().map(bucket))
    }
}

/// A folder of kept schedules.
///
/// ```
/// use std::time::Duration;
/// use fangorn::{auto::{ScheduleKey, ScheduleStore, Tuner}, import, sum::Contract};
///
/// # let scratch = std::env::temp_dir().join(format!("fangorn-doc-{}", std::process::id()));
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
/// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
/// let store = ScheduleStore::at(&scratch);
/// let tuner = Tuner::new(&forest).batches([64]).threads(1).budget(Duration::from_millis(20));
/// let tuned = tuner.clone().store(&store).run(|_| ())?;
/// let kept = store.load(&ScheduleKey::here(&forest, 1, Contract::Any))?.expect("schedules");
/// assert_eq!(kept.batches[0].found, tuned.batches[0]);
/// // A second time takes what is kept.
/// assert_eq!(tuner.store(&store).run(|_| ())?, tuned);
/// # std::fs::remove_dir_all(&scratch).ok();
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleStore {
    folder: PathBuf,
}

impl ScheduleStore {
    /// Returns the store in a folder. The folder is created when something is first kept.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Returns the user's store: in the folder that the variable [`CACHE`] names, else in `fangorn/plans` in
    /// the user's cache folder. Returns `None` if the environment names neither folder.
    pub fn user() -> Option<Self> {
        cache_folder::of_user().map(Self::at)
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, key: &ScheduleKey) -> PathBuf {
        self.folder.join(format!("{key}.toml"))
    }

    /// Returns what is kept for a key. A file of another version, or one that was damaged, counts as absent.
    ///
    /// # Errors
    /// The system can't read the file.
    pub fn load(&self, key: &ScheduleKey) -> Result<Option<KeptSchedules>> {
        let path = self.path(key);
        match read(&path) {
            Ok(text) => Ok(text.and_then(|text| parse(&text)).filter(|kept| kept.key == *key)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Io { path, source }),
        }
    }

    /// Returns what is kept for a key. If there is nothing, it returns the nearest schedules of the same model and
    /// target: with the same contract if there are some, and the nearest number of threads.
    ///
    /// # Errors
    /// The system can't read the folder or the key's file.
    pub fn nearest(&self, key: &ScheduleKey) -> Result<Option<KeptSchedules>> {
        if let Some(kept) = self.load(key)? {
            return Ok(Some(kept));
        }
        let of_target = self.of_model(key.model)?.into_iter().filter(|kept| kept.key.target == key.target);
        let other = |kept: &KeptSchedules| (kept.key.sum != key.sum, kept.key.threads.abs_diff(key.threads));
        Ok(of_target.min_by_key(other))
    }

    /// Returns all that is kept for a model, in the order of the keys.
    ///
    /// # Errors
    /// The system can't read the folder.
    pub fn of_model(&self, model: ModelHash) -> Result<Vec<KeptSchedules>> {
        let begin = format!("{model}-");
        self.listed(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&begin)))
    }

    /// Keeps what was found for batches of some sizes, and replaces what was kept for these sizes.
    ///
    /// # Errors
    /// The system can't write the file.
    pub fn add(&self, key: &ScheduleKey, batches: Vec<KeptBatch>) -> Result<()> {
        let path = self.path(key);
        self.replace(key, &path, batches).map_err(|source| Error::Io { path, source })
    }

    fn replace(&self, key: &ScheduleKey, path: &Path, batches: Vec<KeptBatch>) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).open(self.folder.join("lock"))?;
        match lock.lock() {
            // Some file systems have no locks. A rename is atomic there, too, but of two additions one may be
            // lost.
            Err(e) if e.kind() != io::ErrorKind::Unsupported => return Err(e),
            _ => {}
        }
        let kept = match read(path) {
            Ok(text) => text.and_then(|text| parse(&text)).filter(|kept| kept.key == *key),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        let mut all = kept.map_or(Vec::new(), |kept| kept.batches);
        all.retain(|old| batches.iter().all(|new| new.found.rows != old.found.rows));
        all.extend(batches);
        all.sort_by_key(|batch| batch.found.rows);
        let text = text_of(&KeptSchedules { key: key.clone(), batches: all })?;
        if text.len() as u64 > MOST_BYTES {
            let what =
                "more than the 64 MiB that such a file may have; `fangorn cache clear` empties the folder";
            return Err(io::Error::other(what));
        }
        cache_folder::replace(path, &text)
    }

    /// Returns all that is kept, in the order of the keys.
    ///
    /// # Errors
    /// The system can't read the folder.
    pub fn list(&self) -> Result<Vec<KeptSchedules>> {
        self.listed(|_| true)
    }

    /// Returns what the files of these paths hold, in the order of the keys.
    fn listed(&self, chosen: impl Fn(&Path) -> bool) -> Result<Vec<KeptSchedules>> {
        let files = self.files("toml")?.into_iter().filter(|path| chosen(path));
        let mut kept: Vec<_> = files.filter_map(|path| parse(&read(&path).ok()??)).collect();
        kept.sort_by_cached_key(|one: &KeptSchedules| one.key.to_string());
        Ok(kept)
    }

    /// Removes all that is kept in the folder, [costs](crate::cost::MeasuredWays) included, and returns the number of files.
    ///
    /// # Errors
    /// The system can't read the folder or remove a file.
    pub fn clear(&self) -> Result<usize> {
        let files = self.files("toml")?;
        // Processes that were killed may have left temporary files.
        for path in files.iter().chain(&self.files("part")?) {
            match fs::remove_file(path) {
                // Another process may have been faster.
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::Io { path: path.clone(), source: e });
                }
                _ => {}
            }
        }
        Ok(files.len())
    }

    /// Returns the files with this extension.
    fn files(&self, extension: &str) -> Result<Vec<PathBuf>> {
        let wrong = |source| Error::Io { path: self.folder.clone(), source };
        let entries = match fs::read_dir(&self.folder) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(wrong)?,
        };
        let paths: Vec<_> =
            entries.map(|entry| entry.map(|e| e.path())).collect::<io::Result<_>>().map_err(wrong)?;
        Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|e| e == extension)).collect())
    }
}

/// Reads a file; `None` if it is larger than [`MOST_BYTES`] or is not UTF-8.
fn read(path: &Path) -> io::Result<Option<String>> {
    cache_folder::read(path, MOST_BYTES)
}

/// The keys of a file.
#[derive(Serialize, Deserialize)]
struct Keys {
    format: u32,
    fangorn: String,
    model: String,
    target: String,
    threads: usize,
    sum: String,
    #[serde(default)]
    batch: Vec<BatchKeys>,
}

#[derive(Serialize, Deserialize)]
struct BatchKeys {
    rows: usize,
    rows_hash: String,
    budget_us: u64,
    points: usize,
    auto: TimedKeys,
    tuned: TimedKeys,
    best: Option<TimedKeys>,
    from_host: Option<f64>,
    candidates: Vec<TimedKeys>,
    misses: Vec<(String, String)>,
}

/// A schedule's text, its seconds, and the name of its way, which is empty if it has none.
type TimedKeys = (String, f64, String);

fn text_of(kept: &KeptSchedules) -> io::Result<String> {
    let timed = |timed: &TimedSchedule| {
        (timed.schedule.to_string(), timed.seconds, timed.work.map_or("", Work::name).to_owned())
    };
    let batch = |batch: &KeptBatch| BatchKeys {
        rows: batch.found.rows,
        rows_hash: format!("{:016x}", batch.rows_hash),
        budget_us: batch.budget.as_micros() as u64,
        points: batch.found.points,
        auto: timed(&batch.found.auto),
        tuned: timed(&batch.found.tuned),
        best: batch.found.best.as_ref().map(timed),
        from_host: batch.found.from_host,
        candidates: batch.found.screened.iter().map(timed).collect(),
        misses: batch.found.missed.iter().map(|m| (m.schedule.to_string(), m.why.clone())).collect(),
    };
    let keys = Keys {
        format: FORMAT,
        fangorn: env!("CARGO_PKG_VERSION").to_owned(),
        model: kept.key.model.to_string(),
        target: kept.key.target.clone(),
        threads: kept.key.threads,
        sum: kept.key.sum.name().to_owned(),
        batch: kept.batches.iter().map(batch).collect(),
    };
    toml::to_string(&keys).map_err(io::Error::other)
}

/// Reads a file's text; `None` if it is of another version or damaged.
fn parse(text: &str) -> Option<KeptSchedules> {
    let keys: Keys = toml::from_str(text).ok()?;
    if keys.format != FORMAT || keys.fangorn != env!("CARGO_PKG_VERSION") {
        return None;
    }
    let key = ScheduleKey {
        model: ModelHash(u128::from_str_radix(&keys.model, 16).ok()?),
        target: keys.target,
        threads: keys.threads,
        sum: Contract::parse(&keys.sum)?,
    };
    let timed = |(schedule, seconds, work): TimedKeys| {
        let work = match &work[..] {
            "" => None,
            name => Some(Work::ALL.into_iter().find(|work| work.name() == name)?),
        };
        Some(TimedSchedule { schedule: Schedule::parse(&schedule).ok()?, work, seconds })
    };
    let missed =
        |(schedule, why): (String, String)| Some(Miss { schedule: Schedule::parse(&schedule).ok()?, why });
    let batch = |keys: BatchKeys| {
        Some(KeptBatch {
            rows_hash: u64::from_str_radix(&keys.rows_hash, 16).ok()?,
            budget: Duration::from_micros(keys.budget_us),
            found: TunedBatch {
                rows: keys.rows,
                auto: timed(keys.auto)?,
                tuned: timed(keys.tuned)?,
                best: match keys.best {
                    Some(best) => Some(timed(best)?),
                    None => None,
                },
                from_host: keys.from_host,
                points: keys.points,
                screened: keys.candidates.into_iter().map(timed).collect::<Option<_>>()?,
                missed: keys.misses.into_iter().map(missed).collect::<Option<_>>()?,
            },
        })
    };
    let kept = KeptSchedules { key, batches: keys.batch.into_iter().map(batch).collect::<Option<_>>()? };
    // If there is no batch, or two have the same number of rows, something else has written the file.
    kept.schedules().is_some().then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("fangorn-store-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn key(model: u128) -> ScheduleKey {
        ScheduleKey { model: ModelHash(model), target: "avx2".into(), threads: 2, sum: Contract::Exact }
    }

    fn batch(rows: usize) -> KeptBatch {
        let timed = |text: &str| TimedSchedule {
            schedule: Schedule::parse(text).expect("a schedule"),
            work: text.contains("tile").then_some(Work::TestedWalks(crate::cost::RowTile::Small)),
            seconds: 0.1 + rows as f64 * 1e-9,
        };
        let (auto, tuned) = (timed("fewRows(auto)"), timed("tile(batch, b0, b1, 64)\nlayout(sparse)"));
        let missed = Miss { schedule: auto.schedule.clone(), why: "a \"reason\"\twith\\signs".into() };
        KeptBatch {
            rows_hash: u64::MAX - rows as u64,
            budget: Duration::from_micros(1234),
            found: TunedBatch {
                rows,
                best: (rows == 1).then(|| tuned.clone()),
                from_host: (rows == 64).then_some(0.25),
                points: 7,
                screened: vec![auto.clone(), tuned.clone()],
                missed: vec![missed],
                auto,
                tuned,
            },
        }
    }

    #[test]
    fn what_is_kept_reads_back_and_sizes_add_up() {
        let folder = Folder::new("add");
        let store = ScheduleStore::at(&folder.0);
        assert_eq!(store.load(&key(1)).expect("no folder"), None);
        assert_eq!(store.list().expect("no folder"), []);
        store.add(&key(1), vec![batch(64)]).expect("written");
        store.add(&key(1), vec![batch(1)]).expect("written");
        store.add(&key(2), vec![batch(8)]).expect("written");
        let first = KeptSchedules { key: key(1), batches: vec![batch(1), batch(64)] };
        assert_eq!(store.load(&key(1)).expect("read"), Some(first.clone()));
        let again = KeptBatch { budget: Duration::from_secs(9), ..batch(64) };
        store.add(&key(1), vec![again.clone()]).expect("written");
        let second = KeptSchedules { batches: vec![batch(1), again], ..first };
        let third = KeptSchedules { key: key(2), batches: vec![batch(8)] };
        let nearest = |key: ScheduleKey| store.nearest(&key).expect("read").map(|kept| kept.key);
        assert_eq!(nearest(ScheduleKey { threads: 1, sum: Contract::Any, ..key(2) }), Some(key(2)));
        assert_eq!(nearest(ScheduleKey { target: "avx512".into(), ..key(2) }), None);
        store.add(&ScheduleKey { threads: 9, ..key(2) }, vec![batch(8)]).expect("written");
        assert_eq!(nearest(ScheduleKey { threads: 6, ..key(2) }).map(|key| key.threads), Some(9));
        fs::remove_file(store.path(&ScheduleKey { threads: 9, ..key(2) })).expect("removed");
        assert_eq!(store.list().expect("read"), [second, third]);
        assert_eq!(store.load(&ScheduleKey { threads: 1, ..key(1) }).expect("read"), None);
        assert_eq!(store.clear().expect("removed"), 2);
        assert_eq!(store.list().expect("read"), []);
    }

    #[test]
    fn damaged_files_and_those_of_other_versions_count_as_absent() {
        let folder = Folder::new("damaged");
        let store = ScheduleStore::at(&folder.0);
        store.add(&key(1), vec![batch(64), batch(1)]).expect("written");
        let path = store.path(&key(1));
        let text = fs::read_to_string(&path).expect("text");
        for (from, to) in [
            ("format = 3", "format = 9"),
            (env!("CARGO_PKG_VERSION"), "0.0.0"),
            ("rows = 64", "rows = 1"),
            ("fewRows(auto)", "fewRows(other)"),
            ("sum = \"exact\"", "sum = \"none\""),
            ("threads = 2", "threads = 3"),
        ] {
            assert!(text.contains(from), "{from} is not in {text}");
            fs::write(&path, text.replace(from, to)).expect("written");
            assert_eq!(store.load(&key(1)).expect("read"), None, "{to}");
        }
        for bytes in [&text.as_bytes()[..text.len() / 2], b"", b"\xff\xfe"] {
            fs::write(&path, bytes).expect("written");
            assert_eq!(store.load(&key(1)).expect("read"), None);
        }
        // What is damaged is replaced.
        store.add(&key(1), vec![batch(8)]).expect("written");
        assert_eq!(store.load(&key(1)).expect("read").map(|kept| kept.batches), Some(vec![batch(8)]));
    }

    #[test]
    fn devices_with_any_name_have_files_of_their_own() {
        let folder = Folder::new("devices");
        let store = ScheduleStore::at(&folder.0);
        let on = |target: &str| ScheduleKey { target: target.into(), ..key(1) };
        let devices =
            ["cuda A/B \u{1f332}", "cuda A\\B \u{1f332}", "vulkan ../../x", &"long ".repeat(99)].map(on);
        for (rows, device) in (1..).zip(&devices) {
            store.add(device, vec![batch(rows)]).expect("written");
        }
        for (rows, device) in (1..).zip(&devices) {
            let kept = store.load(device).expect("read").expect("schedules");
            assert_eq!(kept.batches, [batch(rows)], "{device}");
        }
        store.add(&key(2), vec![batch(1)]).expect("written");
        assert_eq!(store.of_model(ModelHash(1)).expect("read").len(), devices.len());
        assert_eq!(fs::read_dir(&folder.0).expect("a folder").count(), devices.len() + 2);
    }

    #[test]
    fn threads_that_add_at_once_lose_nothing() {
        let folder = Folder::new("threads");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let store = ScheduleStore::at(&folder.0);
                scope.spawn(move || {
                    for n in 0..5 {
                        store.add(&key(1), vec![batch(1 + thread * 5 + n)]).expect("written");
                        assert!(store.load(&key(1)).expect("read").is_some());
                    }
                });
            }
        });
        let kept = ScheduleStore::at(&folder.0).load(&key(1)).expect("read").expect("schedules");
        assert_eq!(kept.batches.iter().map(|b| b.found.rows).collect::<Vec<_>>(), Vec::from_iter(1..=20));
    }
}
