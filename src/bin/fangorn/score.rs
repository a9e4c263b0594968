//! Predicts the rows of a table file batch by batch. As many threads as the pool has take parts of the file, decodes their
//! batches, and predicts them; the results are written in the order of the file.

use std::{
    io::{self, BufWriter, IsTerminal},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
};

use arrow_array::RecordBatch;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{
    atomic_file::{self, AtomicFile},
    error::{Error, Result, catch_panic},
    output::{Sink, Table},
    rows::{Cell, Matrix, TableRows},
    tables::{BATCH_ROWS, ScoredBatch, ScoredSchema, TableWriter},
};

/// Decoded batches of a part that wait for their predictions.
const DECODED_AHEAD: usize = 4;

/// Bytes of a part's predictions that wait until the parts before it are written.
const PREDICTED_AHEAD: usize = 64 << 20;

/// A decoded batch: its rows, and the kept columns.
type Decoded<T> = Result<(Matrix<T>, RecordBatch)>;

impl TableRows<'_> {
    /// Predicts all batches, and hands each result to `write` in the order of the file. A row has `columns`
    /// predictions.
    ///
    /// # Errors
    /// A part can't be decoded or predicted, or `write` fails.
    pub fn score<T: Cell>(
        &self,
        columns: usize,
        predict: impl Fn(&mut Matrix<T>) -> Result<Table> + Sync,
        mut write: impl FnMut(ScoredBatch) -> Result<()>,
    ) -> Result<()> {
        let parts = self.file.parts();
        // Kept columns count as numbers of 8 bytes.
        let bytes = BATCH_ROWS * (size_of::<f32>() * columns + 8 * self.kept.len());
        let ahead = (PREDICTED_AHEAD / bytes.max(1)).max(1);
        let threads = rayon::current_num_threads().min(parts.max(1));
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..parts).map(|_| sync_channel(ahead)).unzip();
        let senders: Vec<_> = senders.into_iter().map(|sender| Mutex::new(Some(sender))).collect();
        let next = AtomicUsize::new(0);
        let bar = self.progress();
        let work = || loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            let Some(sender) = senders.get(part) else { return };
            // A part's channel closes when its batches are all there.
            let Some(sender) = sender.lock().ok().and_then(|mut sender| sender.take()) else { return };
            match catch_panic(|| self.part(part, &predict, &sender)) {
                Ok(true) => {}
                Ok(false) => return,
                // Without a word about it the next part would be waited for, which no thread takes.
                Err(panic) => {
                    let what =
                        format!("{}: {}: {panic}", self.file.path().display(), self.file.name_of(part));
                    return drop(sender.send(Err(Error::Defect(what))));
                }
            }
        };
        std::thread::scope(|scope| {
            (0..threads).for_each(|_| drop(scope.spawn(work)));
            let all = || -> Result<()> {
                for receiver in receivers {
                    take(&receiver, &bar, &mut write)?;
                }
                Ok(())
            };
            let written = all();
            // No thread starts another part after a failure.
            next.store(parts, Ordering::Relaxed);
            bar.finish_and_clear();
            written
        })
    }

    /// Decodes and predicts a part. Returns whether someone still wants results.
    fn part<T: Cell>(
        &self,
        part: usize,
        predict: &(impl Fn(&mut Matrix<T>) -> Result<Table> + Sync),
        results: &SyncSender<Result<ScoredBatch>>,
    ) -> bool {
        let (sender, decoded) = sync_channel(DECODED_AHEAD);
        std::thread::scope(|scope| {
            scope.spawn(move || self.decode(part, &sender));
            for batch in decoded {
                let scored = batch.and_then(|(mut rows, batch): (Matrix<T>, _)| {
                    let table = predict(&mut rows)?;
                    let kept = self.kept.iter().map(|at| batch.column(*at).clone()).collect();
                    Ok(ScoredBatch { kept, table })
                });
                let failed = scored.is_err();
                if results.send(scored).is_err() || failed {
                    return false;
                }
            }
            true
        })
    }

    /// Decodes the batches of a part until nobody wants more.
    fn decode<T: Cell>(&self, part: usize, decoded: &SyncSender<Decoded<T>>) {
        let batches = match self.matrices(part) {
            Ok(batches) => batches,
            Err(e) => return drop(decoded.send(Err(e))),
        };
        for batch in batches {
            let failed = batch.is_err();
            if decoded.send(batch).is_err() || failed {
                return;
            }
        }
    }

    fn progress(&self) -> ProgressBar {
        if !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(self.file.rows(), ProgressDrawTarget::stderr());
        let style =
            ProgressStyle::with_template("{bar:30} {human_pos} of {human_len} rows, {per_sec}, {eta} left");
        bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }
}

/// Writes the results of a part.
fn take(
    results: &Receiver<Result<ScoredBatch>>,
    bar: &ProgressBar,
    write: &mut impl FnMut(ScoredBatch) -> Result<()>,
) -> Result<()> {
    for scored in results {
        let scored = scored?;
        let rows = scored.table.rows;
        write(scored)?;
        bar.inc(rows as u64);
    }
    Ok(())
}

/// Writes a whole prediction, whose columns have the name of what is predicted, to a sink.
///
/// # Errors
/// The sink can't be written.
pub fn write_whole(table: Table, sink: &Sink, name: &str) -> Result<()> {
    let schema = ScoredSchema::new(Vec::new(), name, &table).map_err(Error::Request)?;
    write_to(sink, schema, table.rows, |write| write(ScoredBatch { kept: Vec::new(), table }))
}

/// Writes predictions to a sink: `rows` of them, as far as is known. `run` gets a function that takes the next batch.
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
        Sink::Csv(path) | Sink::Npy(path) | Sink::Table(path, _) => path,
    };
    let refused = |e| atomic_file::refusal(path, &e);
    let mut file = AtomicFile::create(path)?;
    let writer = match sink {
        Sink::Npy(_) => TableWriter::npy(schema, rows, file.out()),
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
