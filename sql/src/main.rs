//! `fangorn sql`: queries files of tables, with trained models as functions.

use std::{
    fs::File,
    io::{self, BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use arrow::{
    array::{Array, AsArray, RecordBatch, RecordBatchOptions, UInt64Array},
    compute::take,
    datatypes::{DataType, Field, Schema, SchemaRef},
    error::ArrowError,
    util::pretty::pretty_format_batches,
};
use clap::Parser;
use datafusion::{
    error::DataFusionError,
    parquet::{arrow::ArrowWriter, basic::Compression, file::properties::WriterProperties},
    prelude::{CsvReadOptions, JsonReadOptions, ParquetReadOptions, SessionContext},
};
use fangorn_sql::{Models, functions};
use futures::StreamExt as _;

/// Query tables in SQL, with trained models as functions.
///
/// A table is a file's path in quotes, or a name that --table gives it. forest_predict('model', column, …) is the model's
/// prediction, forest_margin(…) its margin, and forest_class(…) its class; a model is a file's path, or a name that
/// --model gives it. Columns are found by their names; forest_predict_by_position(…) and its like take them in the model's
/// order.
#[derive(Debug, Parser)]
#[command(
    name = "fangorn sql",
    version,
    after_help = "Example:
  fangorn sql \"SELECT id, forest_predict('model.ubj', age, income) AS risk FROM 'people.parquet' WHERE age > 30\"
  fangorn sql --model risk=model.ubj --table people=people.csv -o risk.parquet \\
    \"SELECT id, forest_class('risk', age, income) AS class FROM people\"
  fangorn sql --cluster df://localhost:50050 \"SELECT id, forest_predict('model.ubj', age, income) FROM 'people/'\""
)]
struct Arguments {
    /// The query
    query: String,
    /// A model file, with its name in the query. Repeat the option for several
    #[arg(long, value_name = "NAME=FILE", value_parser = named)]
    model: Vec<(String, PathBuf)>,
    /// A table file, with its name in the query: .parquet, .csv, .json (one object a line) or .arrow. Repeat the option for
    /// several
    #[arg(long, value_name = "NAME=FILE", value_parser = named)]
    table: Vec<(String, PathBuf)>,
    /// Run the query on the cluster of a scheduler, which fangorn-cluster starts
    #[arg(long, value_name = "df://HOST:PORT")]
    cluster: Option<String>,
    /// The file to write: .csv, .parquet, .arrow or .json. Without it, a terminal gets a table, and a pipe or a file CSV
    #[arg(short, value_name = "FILE")]
    o: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

fn named(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_owned(), path.into())),
        _ => Err("give a name and a file with = between them, for example risk=model.ubj".into()),
    }
}

/// Why a command fails.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{}", cause(.0))]
    Query(Box<DataFusionError>),
    #[error("{}: {what}", path.display())]
    File { path: PathBuf, what: String },
    #[error("{0}")]
    Model(#[from] fangorn_sql::ModelError),
    #[cfg(not(feature = "cluster"))]
    #[error(
        "--cluster: this fangorn-sql has no clusters; in a checkout of Fangorn, cargo install --path sql --features \
             cluster installs one that has"
    )]
    NoClusters,
    #[error("standard output: {0}")]
    Output(io::Error),
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        Self::Query(Box::new(error))
    }
}

/// Returns the message of an error's root cause, on one line.
fn cause(error: &DataFusionError) -> String {
    let root = error.find_root().strip_backtrace();
    root.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("fangorn: the threads can't be started: {e}");
            return ExitCode::from(2);
        }
    };
    match runtime.block_on(run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fangorn: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: &Arguments) -> Result<(), Error> {
    let models = Arc::new(Models::default());
    let context = match &arguments.cluster {
        None => {
            let context = SessionContext::new();
            functions(&models).into_iter().for_each(|function| context.register_udf(function));
            context
        }
        #[cfg(feature = "cluster")]
        Some(address) => fangorn_sql::cluster::connect(address, &models).await?,
        #[cfg(not(feature = "cluster"))]
        Some(_) => return Err(Error::NoClusters),
    };
    let context = context.enable_url_table();
    for (name, path) in &arguments.model {
        models.load(name, path)?;
    }
    for (name, path) in &arguments.table {
        add_table(&context, name, path).await?;
    }
    let rows = context.sql(&arguments.query).await?;
    // On a cluster, the stream of a query without rows has no columns.
    let planned = rows.schema().inner().clone();
    let mut batches = rows.execute_stream().await?;
    let schema = if batches.schema().fields().is_empty() { planned } else { batches.schema() };
    let mut sink = Sink::new(arguments, schema)?;
    while let Some(batch) = batches.next().await {
        sink.write(batch?)?;
    }
    sink.finish()
}

async fn add_table(context: &SessionContext, name: &str, path: &Path) -> Result<(), Error> {
    let text = path.to_string_lossy();
    let extension = extension(path);
    if !path.exists() {
        return Err(Error::File {
            path: path.into(),
            what: "there is no such file; give a table's path".into(),
        });
    }
    match &*extension {
        "csv" => context.register_csv(name, &*text, CsvReadOptions::new()).await?,
        "parquet" => context.register_parquet(name, &*text, ParquetReadOptions::default()).await?,
        "json" | "ndjson" => {
            let options = JsonReadOptions::default().file_extension(&extension);
            context.register_json(name, &*text, options).await?;
        }
        "arrow" => context.register_arrow(name, &text, Default::default()).await?,
        _ => {
            let what = "the name ends in none of .parquet, .csv, .json and .arrow; rename the file".into();
            return Err(Error::File { path: path.into(), what });
        }
    }
    Ok(())
}

fn extension(path: &Path) -> String {
    path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase()
}

/// Returns a batch in which each list of a fixed length is replaced by that many columns, `name_0`, `name_1` and so on:
/// CSV has no lists.
fn without_lists(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let DataType::FixedSizeList(item, length) = field.data_type() else {
            fields.push(field.as_ref().clone());
            columns.push(column.clone());
            continue;
        };
        let lists = column.as_fixed_size_list();
        let length = *length as usize;
        for at in 0..length {
            // A null list has values in memory, too, which nobody reads.
            let indices = (0..lists.len())
                .map(|row| lists.is_valid(row).then_some((lists.value_offset(row) as usize + at) as u64));
            let indices: UInt64Array = indices.collect();
            fields.push(Field::new(format!("{}_{at}", field.name()), item.data_type().clone(), true));
            columns.push(take(lists.values(), &indices, None)?);
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
}

/// A file that is renamed to its destination when it is complete. If it is dropped before, it is removed.
struct PartialFile {
    path: PathBuf,
    destination: PathBuf,
}

impl PartialFile {
    fn create(destination: &Path) -> Result<(Self, File), Error> {
        let refused = |e: io::Error| Error::File {
            path: destination.into(),
            what: format!("it can't be written: {e}; name a file in a folder that you may write to"),
        };
        if destination.is_dir() {
            return Err(refused(io::ErrorKind::IsADirectory.into()));
        }
        let name = destination.file_name().unwrap_or_default().to_string_lossy();
        let path = destination.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
        let file = File::create_new(&path).map_err(refused)?;
        Ok((Self { path, destination: destination.into() }, file))
    }

    fn complete(self) -> io::Result<()> {
        std::fs::rename(&self.path, &self.destination)
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // After the rename there is nothing to remove.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Where the rows of the result go.
struct Sink {
    /// `None` for standard output.
    file: Option<PartialFile>,
    writer: Writer,
}

enum Writer {
    Parquet(Box<ArrowWriter<Box<dyn Write + Send>>>),
    Arrow(Box<arrow::ipc::writer::FileWriter<Box<dyn Write + Send>>>),
    /// A writer, its columns, which are those of [`without_lists`], and whether a batch, and with it a header, was
    /// written.
    Csv(Box<arrow::csv::Writer<Box<dyn Write + Send>>>, SchemaRef, bool),
    Json(Box<arrow::json::LineDelimitedWriter<Box<dyn Write + Send>>>),
    /// The table is laid out when all batches are there.
    Table(Vec<RecordBatch>, SchemaRef),
}

impl Sink {
    fn new(arguments: &Arguments, schema: SchemaRef) -> Result<Self, Error> {
        let stdout = || -> Box<dyn Write + Send> { Box::new(BufWriter::new(io::stdout())) };
        let columns = schema.clone();
        let csv = |out| Writer::Csv(Box::new(arrow::csv::Writer::new(out)), columns, false);
        let json = |out| Writer::Json(Box::new(arrow::json::LineDelimitedWriter::new(out)));
        let Some(destination) = &arguments.o else {
            let writer = match (arguments.json, io::stdout().is_terminal()) {
                (true, _) => json(stdout()),
                (false, true) => Writer::Table(Vec::new(), schema),
                (false, false) => csv(stdout()),
            };
            return Ok(Self { file: None, writer });
        };
        let refused = |what: String| Error::File { path: destination.clone(), what };
        let extension = extension(destination);
        if !["csv", "parquet", "arrow", "json"].contains(&&*extension) {
            return Err(refused(
                "its name has to end in .csv, .parquet, .arrow or .json; rename the output".into(),
            ));
        }
        let (partial, file) = PartialFile::create(destination)?;
        let out: Box<dyn Write + Send> = Box::new(BufWriter::new(file));
        let writer = match &*extension {
            "parquet" => {
                let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                let writer = ArrowWriter::try_new(out, schema, Some(properties));
                Writer::Parquet(Box::new(writer.map_err(|e| refused(e.to_string()))?))
            }
            "arrow" => {
                let writer = arrow::ipc::writer::FileWriter::try_new(out, &schema);
                Writer::Arrow(Box::new(writer.map_err(|e| refused(e.to_string()))?))
            }
            "json" => json(out),
            _ => csv(out),
        };
        Ok(Self { file: Some(partial), writer })
    }

    fn write(&mut self, batch: RecordBatch) -> Result<(), Error> {
        let written: Result<(), ArrowError> = match &mut self.writer {
            Writer::Parquet(writer) => {
                writer.write(&batch).map_err(|e| ArrowError::ParquetError(e.to_string()))
            }
            Writer::Arrow(writer) => writer.write(&batch),
            Writer::Csv(writer, _, begun) => {
                *begun = true;
                without_lists(&batch).and_then(|batch| writer.write(&batch))
            }
            Writer::Json(writer) => writer.write(&batch),
            Writer::Table(batches, _) => {
                batches.push(batch);
                Ok(())
            }
        };
        written.map_err(|e| self.refused(e))
    }

    fn refused(&self, error: ArrowError) -> Error {
        match (&self.file, error) {
            (Some(file), error) => Error::File { path: file.destination.clone(), what: error.to_string() },
            (None, ArrowError::IoError(_, e)) => Error::Output(e),
            // Arrow's writer of CSV keeps only the text of an error.
            (None, ArrowError::CsvError(what)) if what.contains("Broken pipe") => {
                Error::Output(io::ErrorKind::BrokenPipe.into())
            }
            (None, error) => Error::Output(io::Error::other(error.to_string())),
        }
    }

    fn finish(mut self) -> Result<(), Error> {
        let ended: Result<(), ArrowError> = match &mut self.writer {
            // `into_inner` writes the end of the file.
            Writer::Parquet(_) => Ok(()),
            Writer::Arrow(writer) => writer.finish(),
            Writer::Json(writer) => writer.finish(),
            Writer::Csv(writer, schema, false) => {
                without_lists(&RecordBatch::new_empty(schema.clone())).and_then(|batch| writer.write(&batch))
            }
            Writer::Csv(..) => Ok(()),
            Writer::Table(batches, schema) => {
                if batches.is_empty() {
                    batches.push(RecordBatch::new_empty(schema.clone()));
                }
                pretty_format_batches(batches).and_then(|table| Ok(writeln!(io::stdout(), "{table}")?))
            }
        };
        ended.map_err(|e| self.refused(e))?;
        // Writers also write what they hold when they are dropped, but then a failure would go unnoticed.
        let flushed = match self.writer {
            Writer::Parquet(writer) => match writer.into_inner() {
                Ok(mut out) => out.flush(),
                Err(e) => Err(io::Error::other(e)),
            },
            Writer::Arrow(writer) => match writer.into_inner() {
                Ok(mut out) => out.flush(),
                Err(e) => Err(io::Error::other(e)),
            },
            Writer::Csv(writer, ..) => writer.into_inner().flush(),
            Writer::Json(writer) => writer.into_inner().flush(),
            Writer::Table(..) => Ok(()),
        };
        match self.file {
            Some(file) => {
                let path = file.destination.clone();
                let renamed = flushed.and_then(|()| file.complete());
                renamed
                    .map_err(|e| Error::File { path, what: format!("it can't be written: {e}; make room") })
            }
            None => flushed.map_err(Error::Output),
        }
    }
}
