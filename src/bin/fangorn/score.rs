//! Predicts rows part by part. Each of several workers takes parts, reads their batches, and predicts them. The results
//! are written in the order of the rows.

use std::{
    io::{self, BufWriter},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
};

use indicatif::ProgressBar;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{
    atomic_file::{self, AtomicFile},
    error::{Error, Result, catch_panic, note},
    output::{Sink, Table},
    progress,
    rows::{Element, OnError, PartedRows, RowBatch},
    tables::{BATCH_ROWS, ColumnNames, ScoredBatch, ScoredSchema, TableWriter},
};

/// The number of batches of a part that were read and wait for their predictions.
const READ_AHEAD: usize = 4;

/// The number of bytes of a part's predictions that wait until the parts before it are written.
const PREDICTED_AHEAD: usize = 64 << 20;

/// The number of bytes of a batch's predictions. A batch of many columns that has more is cut.
const BATCH_BYTES: usize = 16 << 20;

/// The results of a part's batches. If one is an error, it is the last.
type PartResults = Receiver<Result<ScoredBatch>>;

/// A part to read, and the sender for its results.
type Work<P> = (Result<P>, SyncSender<Result<ScoredBatch>>);

/// Predicts the rows of a batch. It may change the rows.
pub type Predict<'p, T> = &'p (dyn Fn(&mut RowBatch<T>) -> Result<Table> + Sync);

/// The threads that predict batches. A worker is busy while it has a part, unless it waits for the parts before it to be
/// written.
struct Workers {
    /// The pool on which batches are predicted while some worker is not busy.
    pool: ThreadPool,
    /// The number of busy workers.
    busy: AtomicUsize,
}

impl Workers {
    /// Makes a pool as large as the current one.
    fn new() -> Result<Self> {
        let pool = ThreadPoolBuilder::new().num_threads(rayon::current_num_threads()).build();
        let pool = pool.map_err(|e| Error::Request(format!("the system gives no threads: {e}")))?;
        Ok(Self { pool, busy: AtomicUsize::new(0) })
    }

    /// Makes the current thread a pool of its own, so that loops of the library run on it. On a pool that all workers
    /// share, they would wait for its threads to wake up, and a run would take 5 to 19 % longer (`benches/tables`).
    fn make_current_thread_a_pool() {
        // The registry of such a pool is never freed. There is one for each worker of a run. A thread that can't become a
        // pool uses the global one, which is only slower.
        drop(ThreadPoolBuilder::new().num_threads(1).use_current_thread().build());
    }

    /// Sends a result. Returns whether more are needed.
    fn send(&self, results: &SyncSender<Result<ScoredBatch>>, scored: Result<ScoredBatch>) -> bool {
        let goes_on = scored.is_ok();
        let sent = match results.try_send(scored) {
            Ok(()) => true,
            Err(TrySendError::Disconnected(_)) => false,
            Err(TrySendError::Full(scored)) => {
                self.busy.fetch_sub(1, Ordering::Relaxed);
                let sent = results.send(scored).is_ok();
                self.busy.fetch_add(1, Ordering::Relaxed);
                sent
            }
        };
        sent && goes_on
    }

    /// Predicts a batch on the current thread if as many workers are busy as the pool has threads, and otherwise on the
    /// pool.
    fn predict<T: Element>(&self, batch: &mut RowBatch<T>, predict: Predict<'_, T>) -> Result<Table> {
        match self.busy.load(Ordering::Relaxed) < self.pool.current_num_threads() {
            true => self.pool.install(|| predict(batch)),
            false => predict(batch),
        }
    }
}

/// Takes the results of parts, in the order of the rows.
pub trait TakesParts {
    /// Takes the results of a batch.
    ///
    /// # Errors
    /// They can't be written.
    fn take(&mut self, scored: ScoredBatch) -> Result<()>;

    /// Is called after the last batch of each part.
    fn end_part(&mut self);

    /// Tells whether an earlier run has predicted the first rows.
    fn goes_on(&self) -> bool;
}

/// Predicts all rows, and gives the results to `taker` in the order of the rows. A row has `columns` predictions. If
/// `on_error` allows it, a part that can't be read is left out. Returns the number of rows.
///
/// # Errors
/// A part can't be read or predicted, or `taker` fails.
pub fn score<T: Element, R: PartedRows>(
    source: &R,
    columns: usize,
    on_error: OnError,
    predict: Predict<'_, T>,
    taker: &mut dyn TakesParts,
) -> Result<u64> {
    // Kept columns count as numbers of 8 bytes.
    let most_rows = (BATCH_BYTES / (size_of::<f32>() * columns).max(1)).clamp(1, BATCH_ROWS);
    let bytes = most_rows * (size_of::<f32>() * columns + 8 * source.kept_fields().len());
    let ahead = (PREDICTED_AHEAD / bytes.max(1)).max(1);
    // If parts are short, a thread does not predict while it reads, so there is one more thread. This saves 5 % of the
    // time of a CSV (`benches/tables`).
    let workers = Workers::new()?;
    let threads = workers.pool.current_num_threads() + usize::from(!source.has_long_parts());
    let bar = progress(source);
    let (parts, in_order) = sync_channel::<PartResults>(threads);
    // The thread with the lock takes the next part, and queues its results after those of the parts before it.
    let parts = Mutex::new(Some(parts));
    let take = || -> Option<Work<R::Part>> {
        let mut parts = parts.lock().ok()?;
        let Some(part) = parts.as_ref().and_then(|_| source.next_part()) else {
            // Dropping the sender tells the receiver that no results follow.
            *parts = None;
            return None;
        };
        let (sender, receiver) = sync_channel(ahead);
        parts.as_ref()?.send(receiver).ok()?;
        Some((part, sender))
    };
    let work = || {
        Workers::make_current_thread_a_pool();
        while let Some((part, sender)) = take() {
            workers.busy.fetch_add(1, Ordering::Relaxed);
            let name = part.as_ref().map(|part| source.name_of(part)).unwrap_or_default();
            let run = || match part {
                Ok(part) => predict_part(source, part, on_error, most_rows, &workers, predict, &sender),
                // There is no next part, so there is none to leave out.
                Err(e) => drop(sender.send(Err(Error::Request(e.to_string())))),
            };
            if let Err(panic) = catch_panic(run) {
                // Without this error, the part would be taken for a shorter one.
                let what = format!("{}: {name}: {panic}", source.path().display());
                drop(sender.send(Err(Error::Defect(what))));
            }
            workers.busy.fetch_sub(1, Ordering::Relaxed);
        }
    };
    let written = std::thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(work)));
        let written = write_in_order(&in_order, source, on_error, &bar, taker);
        // After a failure nobody needs the results of further parts, or further rows.
        drop(in_order);
        source.stop();
        written
    });
    bar.finish_and_clear();
    let written = written?;
    if let Some((rows, what)) = source.left_out() {
        let path = source.path().display();
        note(match rows {
            1 => format!("{path}: 1 row is left out, because it can't be read: {what}"),
            _ => {
                format!("{path}: {rows} rows are left out, because they can't be read; the first one: {what}")
            }
        });
    }
    Ok(written)
}

/// Cuts a batch into batches of at most `most_rows` rows.
fn cut<T: Element>(batch: RowBatch<T>, most_rows: usize) -> Vec<RowBatch<T>> {
    if batch.rows.rows <= most_rows {
        return vec![batch];
    }
    let rows = batch.rows.rows;
    let piece = |first: usize| batch.slice(first, most_rows.min(rows - first));
    (0..rows).step_by(most_rows).map(piece).collect()
}

/// Reads and predicts the batches of a part, each of at most `most_rows` rows, until one fails or nobody needs more.
fn predict_part<T: Element, R: PartedRows>(
    source: &R,
    part: R::Part,
    on_error: OnError,
    most_rows: usize,
    workers: &Workers,
    predict: Predict<'_, T>,
    results: &SyncSender<Result<ScoredBatch>>,
) {
    let batches = match source.batches::<T>(part) {
        Ok(batches) => batches,
        Err(e) => return drop(results.send(Err(e))),
    };
    // A batch whose rows were all left out has no result.
    let batches = batches.filter(|batch| batch.as_ref().map_or(true, |batch| batch.rows.rows > 0));
    let batches = batches.flat_map(|batch| match batch {
        Ok(batch) => cut(batch, most_rows).into_iter().map(Ok).collect(),
        Err(e) => vec![Err(e)],
    });
    let predict = |batch: Result<RowBatch<T>>| {
        let mut batch = batch?;
        let table = workers.predict(&mut batch, predict)?;
        Ok(ScoredBatch { kept: batch.kept, table })
    };
    // Sends results until one is an error, or nobody needs more.
    let send = |all: &mut dyn Iterator<Item = Result<ScoredBatch>>| {
        for scored in all {
            if !workers.send(results, scored) {
                return;
            }
        }
    };
    if on_error == OnError::Skip {
        // A part is left out as a whole, so none of it is written before all of it is predicted.
        return match batches.map(predict).collect::<Result<Vec<_>>>() {
            Ok(all) => send(&mut all.into_iter().map(Ok)),
            Err(e) => drop(results.send(Err(e))),
        };
    }
    if !source.has_long_parts() {
        return send(&mut batches.map(predict));
    }
    let (sender, read) = sync_channel(READ_AHEAD);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for batch in batches {
                let failed = batch.is_err();
                if sender.send(batch).is_err() || failed {
                    return;
                }
            }
        });
        send(&mut read.into_iter().map(predict));
    });
}

/// Writes the results of all parts, which come in the order of the rows.
fn write_in_order<R: PartedRows>(
    in_order: &Receiver<PartResults>,
    source: &R,
    on_error: OnError,
    bar: &ProgressBar,
    taker: &mut dyn TakesParts,
) -> Result<u64> {
    let (mut parts, mut left_out, mut first, mut written) = (0u64, 0u64, None, 0);
    for results in in_order {
        parts += 1;
        for scored in results {
            match scored {
                Ok(scored) => {
                    let rows = scored.table.rows as u64;
                    taker.take(scored)?;
                    bar.inc(rows);
                    written += rows;
                }
                // A defect of this program does not mean that the file is damaged.
                Err(error @ Error::File { .. }) if on_error == OnError::Skip => {
                    left_out += 1;
                    first.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        taker.end_part();
    }
    match first {
        Some(error) if left_out == parts && !taker.goes_on() => Err(error),
        Some(error) => {
            let path = source.path().display();
            let those = if taker.goes_on() { " that this run has read" } else { "" };
            note(format!(
                "{path}: {left_out} of {parts} parts{those} are left out, because they can't be read; the first one: {error}"
            ));
            Ok(written)
        }
        None => Ok(written),
    }
}

/// Returns the bar that shows how many rows are read.
pub fn progress(source: &impl PartedRows) -> ProgressBar {
    let template = match source.rows() {
        Some(_) => "{bar:30} {human_pos} of {human_len} rows, {per_sec}, {eta} left",
        None => "{spinner} {human_pos} rows, {per_sec}",
    };
    progress::bar(source.rows(), template)
}

/// Writes a whole prediction to a sink.
///
/// # Errors
/// The sink can't be written.
pub fn write_whole(table: Table, sink: &Sink, names: ColumnNames) -> Result<()> {
    let schema = ScoredSchema::new(Vec::new(), names, &table).map_err(Error::Request)?;
    write_to(sink, schema, table.rows, |write| write(ScoredBatch { kept: Vec::new(), table }))
}

/// Writes predictions to a sink. `rows` is their number, as far as it is known. `run` gets a function that takes the
/// next batch.
///
/// # Errors
/// `run` fails, or the sink can't be written.
pub fn write_to(
    sink: &Sink,
    schema: ScoredSchema,
    rows: usize,
    run: impl FnOnce(&mut dyn FnMut(ScoredBatch) -> Result<()>) -> Result<()>,
) -> Result<()> {
    let path = match sink {
        Sink::Stdout => {
            let mut out = BufWriter::new(io::stdout().lock());
            let writer = TableWriter::csv(schema, &mut out).map_err(Error::Output)?;
            return drive(writer, run, Error::Output);
        }
        Sink::Csv(path) | Sink::Npy(path) => path,
        #[cfg(feature = "tables")]
        Sink::Table(path, _) => path,
    };
    let refused = |e| atomic_file::refusal(path, &e);
    let mut file = AtomicFile::create(path)?;
    let writer = match sink {
        Sink::Npy(_) => TableWriter::npy(schema, rows, file.out()),
        #[cfg(feature = "tables")]
        Sink::Table(_, format) => TableWriter::new(schema, *format, file.out()),
        Sink::Csv(_) | Sink::Stdout => TableWriter::csv(schema, file.out()),
    };
    drive(writer.map_err(refused)?, run, refused)?;
    file.complete(path)
}

fn drive(
    mut writer: TableWriter<'_>,
    run: impl FnOnce(&mut dyn FnMut(ScoredBatch) -> Result<()>) -> Result<()>,
    refused: impl Fn(io::Error) -> Error,
) -> Result<()> {
    run(&mut |scored| writer.write(scored).map_err(&refused))?;
    writer.finish().map_err(refused)
}
