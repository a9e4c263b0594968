//! `fangorn predict`: rows in, margins, values, classes, leaves or tree values out.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fangorn::{Forest, forest::Transform};

use crate::{
    Outcome,
    backend::{Backend, Engine},
    compare,
    error::{Error, Result},
    load_model,
    output::{self, Sink, Table, Values},
    rows::{self, Matrix},
    schedule::Choice,
};

/// What is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Sums before the objective's transform
    Margin,
    /// The producer's own predictions
    Value,
    /// The class, for a classifier
    Class,
    /// The producer's number of the leaf reached in each tree
    Leaf,
    /// What each tree adds
    Tree,
}

/// Predict rows.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  fangorn predict model.ubj --rows rows.csv --output class -o classes.npy")]
pub struct Predict {
    /// The model file: XGBoost's .ubj or .json
    model: PathBuf,
    /// The rows, .npy or .csv; - reads CSV from standard input
    #[arg(long, value_name = "FILE")]
    rows: PathBuf,
    /// What to predict
    #[arg(long, value_enum, default_value = "value")]
    output: Output,
    /// reference, cpu, flex, ndarray, wgpu, vulkan, metal, cuda, rocm or cubecl-cpu
    #[arg(long, default_value = "cpu")]
    backend: String,
    /// A preset's name, or a file with one directive a line
    #[arg(long, value_name = "NAME|FILE", default_value = "default")]
    schedule: String,
    /// Where to write, .npy or .csv; CSV on standard output without
    #[arg(short, value_name = "FILE")]
    o: Option<PathBuf>,
    /// Print the values beside those of this file, .npy or .csv; exit with 1 where they differ by more than 1e-5 of
    /// max(1, |expected|)
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Whatever is wrong with what was handed in.
pub fn run(args: &Predict) -> Result<Outcome> {
    let backend = Backend::parse(&args.backend)?;
    backend.require()?;
    let sink = Sink::new(args.o.as_deref())?;
    let forest = load_model(&args.model)?;
    let choice = Choice::new(&args.schedule, &forest, backend.is_gpu())?;
    if args.output == Output::Class {
        classes(&forest).map_err(|what| Error::file(&args.model, what))?;
    }
    let rows = rows::read_rows(&args.rows, forest.features.len())?;
    let engine = Engine::open(backend, &forest, &choice)?;
    let table = predict(&forest, &engine, &rows, args.output)?;
    let Some(expected) = &args.expect else {
        output::write(&table, &sink)?;
        return Ok(Outcome::Done);
    };
    let expected = rows::read_expected(expected, table.rows, table.columns)?;
    if !matches!(sink, Sink::Stdout) {
        output::write(&table, &sink)?;
    }
    compare::report(&table, &expected)
}

/// How a model's margins become classes.
enum Classes {
    /// Each output is a question of its own, yes above one half.
    Each,
    /// The output with the largest margin.
    Largest,
}

fn classes(forest: &Forest) -> Result<Classes, String> {
    match forest.transform {
        Transform::Sigmoid | Transform::Step => Ok(Classes::Each),
        Transform::Softmax | Transform::Argmax => Ok(Classes::Largest),
        Transform::Identity | Transform::Exp => Err(format!(
            "the model is a regressor, its objective {} knows no classes; use --output value",
            forest.producer.objective
        )),
    }
}

fn predict(forest: &Forest, engine: &Engine<'_>, rows: &Matrix<f32>, output: Output) -> Result<Table> {
    let outputs = forest.outputs as usize;
    let trees = forest.trees.len();
    let width = forest.leaf_width();
    let (columns, values) = match output {
        Output::Margin => (outputs, Values::Floats(engine.margins(rows)?)),
        Output::Value => (forest.transform.width(outputs), Values::Floats(engine.values(rows)?)),
        Output::Class => match classes(forest).map_err(Error::Request)? {
            Classes::Each => {
                let yes = |v: f32| i32::from(v > 0.5);
                (outputs, Values::Ints(engine.values(rows)?.into_iter().map(yes).collect()))
            }
            Classes::Largest => {
                (1, Values::Ints(engine.margins(rows)?.chunks(outputs).map(largest).collect()))
            }
        },
        Output::Leaf => {
            let ids = leaf_ids(forest);
            (trees, Values::Ints(engine.slots(rows)?.into_iter().map(|slot| ids[slot as usize]).collect()))
        }
        Output::Tree => {
            let leaf = |slot: u32| forest.leaf(slot).iter().map(|v| v.0 as f32);
            (trees * width, Values::Floats(engine.slots(rows)?.into_iter().flat_map(leaf).collect()))
        }
    };
    Ok(Table { rows: rows.rows, columns, values })
}

/// The first output with the largest margin.
fn largest(margins: &[f32]) -> i32 {
    (1..margins.len()).fold(0, |best, i| if margins[i] > margins[best] { i } else { best }) as i32
}

/// The producer's number of the leaf with each slot.
fn leaf_ids(forest: &Forest) -> Vec<i32> {
    let mut ids = vec![0; forest.slots()];
    for tree in &forest.trees {
        for (node, id) in tree.nodes.iter().zip(&tree.ids) {
            if let Some(slot) = node.slot() {
                ids[slot as usize] = *id as i32;
            }
        }
    }
    ids
}
