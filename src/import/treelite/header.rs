//! Reads what a checkpoint says before its trees.

use super::super::budget::Budget;
use super::super::error::at;
use super::super::{ErrorKind, ImportError, Location};
use super::outputs::{Counts, Outputs, TreeOutputs};
use super::postprocessor::{OutputTransform, Parameters};
use super::reader::Reader;
use crate::forest::{ClassRule, CompareType, Transform};

/// Major version of the treelite releases whose checkpoints are read.
const MAJOR: i32 = 4;

/// treelite's number for 32-bit floating point numbers.
const FLOAT32: u8 = 2;

/// treelite's number for 64-bit floating point numbers.
const FLOAT64: u8 = 3;

/// treelite's number for binary classifiers.
const BINARY: u8 = 0;

/// treelite's number for classifiers of several classes.
const SEVERAL: u8 = 2;

/// treelite's largest number for a task.
const LAST_TASK: u8 = 4;

/// A checkpoint's header.
pub(super) struct Header {
    /// Version of the treelite that wrote the file.
    pub version: String,
    /// Type of thresholds and leaves. GTIL compares in this type.
    pub compare: CompareType,
    pub features: usize,
    task: u8,
    pub outputs: Outputs,
    /// The outputs that each tree adds to.
    pub reaches: Vec<TreeOutputs>,
    /// The number of trees that each output averages; `None` if outputs are sums.
    pub averaged: Option<Counts>,
    pub postprocessor: String,
    pub meaning: OutputTransform,
    /// Base scores, one for each output.
    pub base_scores: Vec<f64>,
}

impl Header {
    pub(super) fn read(reader: &mut Reader<'_>, budget: &Budget<'_>) -> Result<Self, ImportError> {
        let version = version(reader)?;
        let compare = compare_type(reader)?;
        let trees = usize::try_from(reader.u64("num_tree")?).unwrap_or(usize::MAX);
        budget.trees(trees, || Location::Field("num_tree".into()))?;
        let features = natural("num_feature", reader.i32("num_feature")?)?;
        budget.features(features, || Location::Field("num_feature".into()))?;
        let task = reader.u8("task_type")?;
        if task > LAST_TASK {
            return Err(at(ErrorKind::Value, "task_type", format!("task type {task}")));
        }
        let average = reader.bool("average_tree_output")?;
        let outputs = outputs(reader, budget)?;
        let targets = reader.exactly(trees, "trees", "target_id")?;
        let classes = reader.exactly(trees, "trees", "class_id")?;
        let reach = |(t, (target, class)): (usize, (&[u8; 4], &[u8; 4]))| {
            outputs.reach(t, i32::from_le_bytes(*target), i32::from_le_bytes(*class))
        };
        let reaches = targets.iter().zip(classes).enumerate().map(reach).collect::<Result<Vec<_>, _>>()?;
        let postprocessor = string(reader, budget, "postprocessor")?;
        let parameters =
            Parameters { sigmoid_alpha: reader.f32("sigmoid_alpha")?, ratio_c: reader.f32("ratio_c")? };
        let meaning = OutputTransform::of(&postprocessor, parameters, &outputs)?;
        let base_scores = base_scores(reader, &outputs)?;
        reader.list::<1>("attributes")?;
        reader.optional_fields("num_opt_field_per_model")?;
        let averaged = match average {
            true => Some(averaged(&outputs, &reaches)?),
            false => None,
        };
        Ok(Self {
            version,
            compare,
            features,
            task,
            outputs,
            reaches,
            averaged,
            postprocessor,
            meaning,
            base_scores,
        })
    }

    /// Returns how a row's values become a class.
    pub(super) fn classes(&self) -> ClassRule {
        let several = self.outputs.targets() == 1 && self.outputs.classes() > 1;
        match (self.task, self.meaning.transform) {
            (BINARY | SEVERAL, _) if several => ClassRule::Largest,
            (BINARY, Transform::Sigmoid | Transform::Step) if self.outputs.classes() == 1 => {
                ClassRule::Over { threshold: 0.5.into() }
            }
            _ => ClassRule::None,
        }
    }
}

fn version(reader: &mut Reader<'_>) -> Result<String, ImportError> {
    let [major, minor, patch] =
        [reader.i32("major_ver")?, reader.i32("minor_ver")?, reader.i32("patch_ver")?];
    let version = format!("{major}.{minor}.{patch}");
    if major == MAJOR {
        return Ok(version);
    }
    let cause = format!("a checkpoint of treelite {version}, which is not supported");
    let remedy = match (major, minor) {
        (3, 9) => {
            "load it with treelite 4's Model.deserialize and save it again with Model.serialize('model.tl')"
        }
        _ => "save the model with treelite 4.0 to 4.8, Model.serialize('model.tl')",
    };
    Err(at(ErrorKind::Unsupported, "major_ver", cause).with_remedy(remedy))
}

fn compare_type(reader: &mut Reader<'_>) -> Result<CompareType, ImportError> {
    match (reader.u8("threshold_type")?, reader.u8("leaf_output_type")?) {
        (FLOAT32, FLOAT32) => Ok(CompareType::F32),
        (FLOAT64, FLOAT64) => Ok(CompareType::F64),
        (threshold, leaf) => {
            let cause = format!("thresholds of type {threshold} and leaves of type {leaf} are not supported");
            Err(at(ErrorKind::Unsupported, "threshold_type", cause)
                .with_remedy("build the model with both types float32, or both float64"))
        }
    }
}

fn outputs(reader: &mut Reader<'_>, budget: &Budget<'_>) -> Result<Outputs, ImportError> {
    let targets = natural("num_target", reader.i32("num_target")?)?;
    if targets == 0 {
        return Err(at(ErrorKind::Value, "num_target", "a model without targets"));
    }
    let classes = reader.exactly(targets, "targets", "num_class")?;
    let shape = reader.exactly(2, "dimensions", "leaf_vector_shape")?;
    let shape = [0, 1].map(|i| i32::from_le_bytes(shape[i]));
    Outputs::new(classes.iter().map(|classes| i32::from_le_bytes(*classes)), shape, budget)
}

fn base_scores(reader: &mut Reader<'_>, outputs: &Outputs) -> Result<Vec<f64>, ImportError> {
    let scores = reader.exactly(outputs.count() as usize, "outputs", "base_scores")?;
    let score = |(o, score): (usize, &[u8; 8])| {
        let score = f64::from_le_bytes(*score);
        match outputs.is_class(o) {
            // A padding output stays zero.
            false => Ok(0.0),
            true if score.is_finite() => Ok(score),
            true => {
                let cause = format!("{score:?} is not a finite number");
                Err(at(ErrorKind::Value, format!("base_scores[{o}]"), cause))
            }
        }
    };
    scores.iter().enumerate().map(score).collect()
}

fn averaged(outputs: &Outputs, reaches: &[TreeOutputs]) -> Result<Counts, ImportError> {
    let counts = Counts::new(outputs, reaches);
    let lonely = |o: &usize| outputs.is_class(*o) && counts.of(*o) == 0;
    match (0..outputs.count() as usize).find(lonely) {
        Some(o) => {
            let cause = format!("an average of no trees is not supported, and no tree adds to output {o}");
            Err(at(ErrorKind::Unsupported, "average_tree_output", cause)
                .with_remedy("build the model with a tree for each output, or without average_tree_output"))
        }
        None => Ok(counts),
    }
}

fn string(reader: &mut Reader<'_>, budget: &Budget<'_>, field: &str) -> Result<String, ImportError> {
    let bytes = reader.list::<1>(field)?.as_flattened();
    budget.string(bytes.len(), || Location::Field(field.into()))?;
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(at(ErrorKind::Syntax, field, "the string is not UTF-8")),
    }
}

fn natural(field: &str, value: i32) -> Result<usize, ImportError> {
    usize::try_from(value).map_err(|_| at(ErrorKind::Value, field, format!("{value} is negative")))
}
