//! Reads LightGBM's text format: a header, trees as lists of numbers, and a last section, of which the importer
//! reads only the names of categories.
//!
//! | file | subject |
//! |---|---|
//! | `lines` | lines, fields and lists of the text, each with its line and column |
//! | `objective` | the transform of a sum of leaf values |
//! | `tree` | one tree |
//! | `linear` | trees whose leaves are linear models, as a graph |
//! | `categories` | the names of categories |

mod categories;
mod linear;
mod lines;
mod objective;
mod tree;

#[cfg(test)]
mod tests;

use super::budget::Budget;
use super::{ErrorKind, ImportError, LoadOptions, Location};
use crate::Forest;
use crate::forest::{Classes, CompareType, ForestBuilder};
use crate::graph::LeafModels;
use lines::{Fields, Line, Lines, Value};
use objective::Objective;

/// The fields of the header that the importer reads.
const READ: [&str; 10] = [
    "tree",
    "version",
    "num_class",
    "num_tree_per_iteration",
    "max_feature_idx",
    "objective",
    "average_output",
    "feature_names",
    "feature_infos",
    "tree_sizes",
];

/// The fields of the header that the importer ignores.
const IGNORED: [&str; 2] = ["label_index", "monotone_constraints"];

/// The lines that end the trees. Before LightGBM 2.2 a file has no `end of trees`, and the feature
/// importances come directly after the trees.
const ENDS: [&[u8]; 2] = [b"end of trees", b"feature importances:"];

/// Returns an error whose remedy is to save the model again.
fn damaged(kind: ErrorKind, location: Location, cause: impl AsRef<str>) -> ImportError {
    ImportError::new(kind, location, cause).with_remedy(
        "the file is damaged or incomplete: save the model again with Booster.save_model('model.txt')",
    )
}

pub(super) use linear::graph;

/// Returns the forest that a file describes.
pub(super) fn forest(bytes: &[u8], options: &LoadOptions) -> Result<Forest, ImportError> {
    read(bytes, options, None)
}

/// Returns the forest that a file describes. `models` takes the linear models of its leaves. If it is `None`, a leaf
/// with a coefficient is refused.
fn read(bytes: &[u8], options: &LoadOptions, models: Option<&mut LeafModels>) -> Result<Forest, ImportError> {
    let mut lines = Lines::of(bytes);
    let (fields, after) = header(&mut lines)?;
    let mut budget = Budget::new(&options.limits);
    let header = Header::of(&fields, &budget)?;
    let mut builder = Forest::builder(header.columns, header.outputs as u32)
        .producer("lightgbm", header.version, header.objective_line)
        .compare(CompareType::F64)
        .transform(header.objective.transform)
        .classes(Classes { rule: header.objective.classes, ..Classes::default() });
    for (feature, name) in builder.features_mut().iter_mut().zip(header.names.words()) {
        budget.string(name.text.len(), || name.location())?;
        // A name that is not UTF-8 is left out.
        feature.name = std::str::from_utf8(name.text).ok().map(str::to_owned);
    }
    let mut trees = Trees { count: 0, header: &header, options, models };
    trees.read(after, &mut lines, &mut builder, &mut budget)?;
    let rounds = trees.rounds()?;
    let (mut declared, mut last) = (None, None);
    for line in lines.filter(|line| !line.is_blank()) {
        if let Some(columns) = categories::declared(line) {
            declared = Some(columns);
        }
        last = Some(line);
    }
    if let Some(line) = last {
        categories::name(builder.features_mut(), header.infos, declared, line, &options.limits)?;
    }
    let rounds = match (header.averages, rounds) {
        (None, _) => 1,
        (Some(line), 0) => {
            let error = line.error(ErrorKind::Structure, "the average of no trees, which is no number");
            return Err(error.with_remedy("keep one iteration at least, or train again"));
        }
        (Some(_), rounds) => rounds,
    };
    let forest = budget.finish(builder.scale(header.objective.slope / rounds as f64));
    forest.map_err(|error| match error.kind() {
        ErrorKind::Structure => damaged(ErrorKind::Structure, error.location().clone(), error.cause()),
        _ => error,
    })
}

/// Reads the fields of the header. Returns the fields and the line after them.
fn header<'f>(lines: &mut Lines<'f>) -> Result<(Fields<'f>, Line<'f>), ImportError> {
    let Some(first) = lines.find(|line| !line.is_blank()) else { return Err(lines.cut()) };
    let mut fields = Fields::new(first, &READ, &IGNORED);
    fields.take(first)?;
    let next = fields.fill(lines)?;
    Ok((fields, next))
}

/// What the header says.
struct Header<'f> {
    version: &'f str,
    columns: usize,
    /// Number of outputs, which is also the number of trees in an iteration.
    outputs: usize,
    objective: Objective,
    objective_line: &'f str,
    /// The field that says that trees are averaged, not summed.
    averages: Option<Value<'f>>,
    names: Value<'f>,
    infos: Value<'f>,
    /// The number of trees that the header states, with the field that states it.
    trees: Option<(usize, Value<'f>)>,
}

impl<'f> Header<'f> {
    fn of(fields: &Fields<'f>, budget: &Budget<'_>) -> Result<Self, ImportError> {
        fields.need("tree")?;
        let version = fields.need("version")?;
        if !matches!(version.text, b"v2" | b"v3" | b"v4") {
            let cause =
                format!("format version `{}` is not supported", String::from_utf8_lossy(version.text));
            return Err(version
                .error(ErrorKind::Unsupported, cause)
                .with_remedy("save the model with LightGBM 2.1 to 4, Booster.save_model('model.txt')"));
        }
        let count = |value: Value<'f>, least: i32| match value.number::<i32>()? {
            count if count >= least => Ok(count as usize),
            count => Err(value.error(ErrorKind::Value, format!("{count}, but {least} is the least"))),
        };
        let classes = fields.need("num_class")?;
        let per_iteration = fields.get("num_tree_per_iteration").unwrap_or(classes);
        let outputs = count(per_iteration, 1)?;
        budget.outputs(outputs, || per_iteration.location())?;
        if count(classes, 1)? != outputs {
            let cause = format!("{outputs} trees an iteration for `num_class={}`", count(classes, 1)?);
            return Err(per_iteration.error(ErrorKind::Structure, cause));
        }
        let last = fields.need("max_feature_idx")?;
        let columns = count(last, 0)? + 1;
        budget.features(columns, || last.location())?;
        let list = |name| {
            let value = fields.need(name)?;
            match value.words().count() {
                found if found == columns => Ok(value),
                found => {
                    let cause = format!("{found} entries of `{name}` for {columns} features");
                    Err(value.error(ErrorKind::Structure, cause))
                }
            }
        };
        let objective = fields.get("objective");
        let sizes = fields.get("tree_sizes");
        Ok(Self {
            version: version.str()?,
            columns,
            outputs,
            objective: objective.map_or(Ok(objective::NONE), |line| objective::read(line, outputs))?,
            objective_line: objective.map_or(Ok(""), |line| line.str())?,
            averages: fields.get("average_output"),
            names: list("feature_names")?,
            infos: list("feature_infos")?,
            trees: sizes.map(|sizes| (sizes.words().count(), sizes)),
        })
    }
}

/// Reads the trees one after another.
struct Trees<'h, 'f> {
    count: usize,
    header: &'h Header<'f>,
    options: &'h LoadOptions,
    models: Option<&'h mut LeafModels>,
}

impl<'f> Trees<'_, 'f> {
    /// Reads trees up to the line that ends the trees. `line` is the line after the header.
    fn read(
        &mut self,
        mut line: Line<'f>,
        lines: &mut Lines<'f>,
        builder: &mut ForestBuilder,
        budget: &mut Budget<'_>,
    ) -> Result<(), ImportError> {
        while !ENDS.contains(&line.text) {
            let number = line.text.strip_prefix(b"Tree=").and_then(|n| std::str::from_utf8(n).ok());
            if number.and_then(|number| number.trim().parse().ok()) != Some(self.count) {
                let cause =
                    format!("`{}`, but `Tree={}` or `end of trees` is expected", line.shown(), self.count);
                return Err(line.error(ErrorKind::Syntax, cause));
            }
            let (fields, next) = tree_fields(line, lines)?;
            self.count += 1;
            budget.trees(self.count, || Location::Text { line: line.number, column: 1 })?;
            let output = (self.count - 1) % self.header.outputs;
            if self.is_chosen((self.count - 1) / self.header.outputs) {
                let (models, gains) = (self.models.as_deref_mut(), self.options.gains);
                tree::grow(&fields, output as u32, builder, budget, models, gains)?;
            }
            line = next;
        }
        let sound = self.count.is_multiple_of(self.header.outputs);
        match self.header.trees {
            Some((stated, sizes)) if stated != self.count => {
                let cause = format!("{stated} sizes of trees, {} trees in the file", self.count);
                Err(sizes.error(ErrorKind::Structure, cause))
            }
            _ if !sound => {
                let cause = format!(
                    "{} trees make no whole number of iterations of {}",
                    self.count, self.header.outputs
                );
                Err(line.error(ErrorKind::Structure, cause))
            }
            _ => Ok(()),
        }
    }

    fn is_chosen(&self, round: usize) -> bool {
        self.options.iteration_range.as_ref().is_none_or(|range| {
            range.start as usize <= round && (range.end == 0 || round < range.end as usize)
        })
    }

    /// Returns the number of iterations that are kept.
    fn rounds(&self) -> Result<usize, ImportError> {
        let rounds = self.count / self.header.outputs;
        let Some(range) = &self.options.iteration_range else { return Ok(rounds) };
        let (begin, end) = (range.start as usize, if range.end == 0 { rounds } else { range.end as usize });
        if begin <= end && end <= rounds {
            return Ok(end - begin);
        }
        let cause = format!("rounds {}..{} of a model with {rounds}", range.start, range.end);
        let remedy = format!("choose a range within 0..{rounds}, or an end of 0 for the last round");
        Err(ImportError::new(ErrorKind::Options, Location::Field("iteration_range".into()), cause)
            .with_remedy(remedy))
    }
}

/// Reads the fields of a tree. Returns the fields and the line after them.
fn tree_fields<'f>(first: Line<'f>, lines: &mut Lines<'f>) -> Result<(Fields<'f>, Line<'f>), ImportError> {
    let mut fields = Fields::new(first, &tree::READ, &tree::IGNORED);
    let next = fields.fill(lines)?;
    Ok((fields, next))
}
