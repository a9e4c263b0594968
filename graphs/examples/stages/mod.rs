//! The stages that the example pipelines share: data from the script, training, saving to one file, and
//! predictions of the pipeline that was loaded from it. Each example's `model.rs` defines its pipeline.

// Each example uses only a part of this module.
#![allow(dead_code)]

mod arrays;
mod check;
mod file;
mod layers;
mod serve;
mod train;

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::Command,
};

use burn::{module::Module, tensor::Device};
use fangorn_graphs::fangorn::graph::Graph;

pub use arrays::Table;
pub use file::Saved;
pub use layers::Layers;
pub use train::Steps;

use burn::tensor::Tensor;

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What each example's pipeline implements for the stages.
pub trait Pipeline: Module {
    /// The name by which the script knows the pipeline.
    const NAME: &str;
    /// The names of the heads. Each head predicts rows by itself.
    const HEADS: &[&str];
    /// Rows that one call predicts on the CPU: few enough that the values between two layers stay in its
    /// cache.
    const AT_ONCE: usize = 256;

    /// Trains the pipeline on the script's data. Some of the result's tensors may still be on an autodiff device.
    fn trained(work: &Work) -> Result<Self>;

    /// Makes a pipeline with the same tensor shapes as the saved pipeline, so that the file can be loaded into it.
    fn of(saved: &Saved, device: &Device) -> Result<Self>;

    /// Returns the predictions of one head for the rows.
    fn predict(&self, head: &str, rows: &Table, device: &Device) -> Result<Tensor<2>>;

    /// Returns one head as a graph: the network and the forest, with an input that takes the rows.
    fn graph(&self, head: &str) -> Result<Graph>;

    /// Tells whether a prediction agrees with the label.
    fn right(predicted: &[f32], label: i32) -> bool {
        i32::from(predicted[0] > 0.5) == label
    }

    /// Writes arrays that a program in Python needs besides the parameters.
    fn export(&self, _work: &Work) -> Result<()> {
        Ok(())
    }
}

/// The folder of a pipeline's files, and how to run its script.
pub struct Work {
    folder: PathBuf,
    python: String,
    name: &'static str,
    quick: bool,
    at_once: NonZeroUsize,
}

impl Work {
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Runs `pipelines.py`. `data` makes rows and labels, `forest` fits what burn does not train.
    pub fn script(&self, what: &str) -> Result<()> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/pipelines.py");
        let mut command = Command::new(&self.python);
        command.arg(&script).args([what, self.name]).arg(&self.folder);
        if self.quick {
            command.arg("--quick");
        }
        let status =
            command.status().map_err(|e| format!("{}: {e}; --python FILE names another", self.python))?;
        if !status.success() {
            return Err(format!("{} {what} {}: {status}", script.display(), self.name).into());
        }
        Ok(())
    }

    /// Reads the rows and labels of a set: `train` or `test`.
    pub fn labelled(&self, set: &str) -> Result<(Table, Vec<i32>)> {
        let rows = Table::read(&self.path(&format!("rows-{set}.npy")))?;
        let labels = arrays::integers(&self.path(&format!("labels-{set}.npy")))?;
        if rows.rows() != labels.len() {
            return Err(format!("rows-{set}.npy and labels-{set}.npy are of different lengths").into());
        }
        Ok((rows, labels))
    }

    /// Returns the predictions of one head for the rows, in the host's memory.
    fn predictions<P: Pipeline>(
        &self,
        pipeline: &P,
        head: &str,
        rows: &Table,
        device: &Device,
    ) -> Result<Vec<f32>> {
        if rows.rows() <= self.at_once.get() {
            return arrays::floats(pipeline.predict(head, rows, device)?);
        }
        let mut all = Vec::new();
        for piece in rows.pieces(self.at_once.get()) {
            all.extend(arrays::floats(pipeline.predict(head, &piece, device)?)?);
        }
        Ok(all)
    }

    /// Writes an array into the folder, for other programs.
    pub fn write<T: npyz::AutoSerialize + Copy>(
        &self,
        name: &str,
        values: &[T],
        shape: &[usize],
    ) -> Result<()> {
        arrays::write(&self.path(name), values, shape)
    }

    /// Writes the features that the network makes of the rows, so that the script can fit a forest on them.
    pub fn write_features(&self, rows: &Table, network: impl Fn(&Table) -> Tensor<2>) -> Result<()> {
        let (mut features, mut columns) = (Vec::new(), 0);
        for piece in rows.pieces(256) {
            let made = network(&piece);
            columns = made.dims()[1];
            features.extend(arrays::floats(made)?);
        }
        self.write("features-train.npy", &features, &[rows.rows(), columns])
    }
}

/// Runs an example's command: `[FOLDER] [--python FILE] [--quick] [--at-once ROWS] [--serve [--graph]]`.
pub fn run<P: Pipeline>() -> Result<()> {
    let (mut work, mut served, mut as_graph) = (
        Work {
            folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/pipelines").join(P::NAME),
            python: "python3".into(),
            name: P::NAME,
            quick: false,
            at_once: NonZeroUsize::new(P::AT_ONCE).unwrap_or(NonZeroUsize::MIN),
        },
        false,
        false,
    );
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--python" => work.python = arguments.next().ok_or("--python takes a file")?,
            "--quick" => work.quick = true,
            "--at-once" => work.at_once = arguments.next().ok_or("--at-once takes a number")?.parse()?,
            "--serve" => served = true,
            "--graph" => as_graph = true,
            _ if argument.starts_with('-') => {
                return Err(format!(
                    "{argument}: not one of [FOLDER] [--python FILE] [--quick] [--at-once ROWS] [--serve [--graph]]"
                )
                .into());
            }
            _ => work.folder = argument.into(),
        }
    }
    let file = work.path("pipeline.bpk");
    if served {
        return serve::serve::<P>(&work, &file, as_graph);
    }
    std::fs::create_dir_all(&work.folder)?;
    work.script("data")?;
    let trained = P::trained(&work)?.valid();
    check::saved_and_loaded(&work, &file, trained)
}
