//! A model, and what the page shows about it.

use fangorn::{
    Forest, Predictor,
    contributions::Explainer,
    forest::Aggregate,
    import::{self, Format, LoadOptions},
    insight::{Histogram, thresholds},
    schedule::Preset,
    sum::Contract,
};
use serde::Serialize;

use crate::{
    error::{Error, Result},
    json::{Num, feature_name},
    limits,
};

/// The number of bins of a histogram.
const BINS: usize = 24;
/// The maximum number of features, class labels and base scores that the page lists.
const MOST_LISTED: usize = 500;
/// The maximum number of columns of a table of rows.
const MOST_NAMED: usize = 50;

/// The model that a page has opened.
#[derive(Debug)]
pub struct Model {
    /// The forest.
    pub forest: Forest,
    name: String,
    format: Format,
    /// The predictor of the last contract that was asked for.
    predictor: Option<Predictor>,
    explainer: Option<Explainer>,
}

/// What the page shows about a model.
#[derive(Debug, Serialize)]
pub struct Summary {
    name: String,
    format: String,
    producer: String,
    version: String,
    objective: String,
    transform: &'static str,
    scale: Num,
    aggregate: &'static str,
    compare: &'static str,
    class_rule: String,
    class_labels: Vec<String>,
    outputs: u32,
    leaf_width: usize,
    base_score: Vec<Num>,
    trees: usize,
    nodes: usize,
    leaves: usize,
    max_leaves: usize,
    /// The number of trees of each depth. `leaf_depths` has the number of leaves of each depth.
    depths: Vec<usize>,
    leaf_depths: Vec<usize>,
    leaf_values: Histogram,
    columns: usize,
    /// The names of the first columns.
    column_names: Vec<String>,
    /// The number of columns that splits read.
    used: usize,
    /// The columns that splits read, those with the most splits first.
    features: Vec<FeatureFacts>,
    /// Why the page can't show contributions, if it can't.
    unexplained: Option<String>,
    presets: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct FeatureFacts {
    column: usize,
    name: String,
    splits: usize,
    thresholds: usize,
    category_splits: usize,
}

impl Model {
    /// Reads a model's file.
    ///
    /// # Errors
    /// The file is too large, or is no model that Fangorn reads as a forest.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self> {
        limits::check_size(name, bytes.len(), limits::MODEL_BYTES)?;
        let options =
            LoadOptions { limits: limits::of_models(), raw_categories: true, ..LoadOptions::default() };
        let refused = |error: import::ImportError| match error.limit_name() {
            Some(_) => {
                let what = format!("{}: {}", error.location(), error.cause());
                Error::file(
                    name,
                    format!("{what}, which is all that the page takes; use the command `fangorn` for it"),
                )
            }
            None => Error::file(name, error),
        };
        let format = Format::of(bytes).map_err(refused)?;
        let forest = import::parse(bytes, &options).map_err(refused)?;
        Ok(Self { forest, name: name.into(), format, predictor: None, explainer: None })
    }

    /// Returns what the page shows about the model.
    pub fn summary(&self) -> Summary {
        let forest = &self.forest;
        let stats = forest.stats();
        let mut features: Vec<FeatureFacts> = stats
            .features
            .iter()
            .map(|of| FeatureFacts {
                column: of.feature as usize,
                name: feature_name(forest, of.feature as usize),
                splits: of.splits,
                thresholds: of.thresholds,
                category_splits: of.category_splits,
            })
            .collect();
        features.sort_by_key(|of| (std::cmp::Reverse(of.splits + of.category_splits), of.column));
        features.truncate(MOST_LISTED);
        Summary {
            name: self.name.clone(),
            format: format!("{:?}", self.format),
            producer: forest.producer.library.clone(),
            version: forest.producer.version.clone(),
            objective: forest.producer.objective.clone(),
            transform: forest.transform.name(),
            scale: Num(forest.scale.0),
            aggregate: forest.aggregate.name(),
            compare: forest.compare.name(),
            class_rule: forest.classes.rule.to_string(),
            class_labels: forest.classes.labels.iter().take(MOST_LISTED).cloned().collect(),
            outputs: forest.outputs,
            leaf_width: forest.leaf_width(),
            base_score: forest.base_score.iter().take(MOST_LISTED).map(|base| Num(base.0)).collect(),
            trees: stats.trees,
            nodes: stats.nodes,
            leaves: stats.leaves,
            max_leaves: stats.max_leaves,
            depths: stats.depths,
            leaf_depths: stats.leaf_depths,
            leaf_values: Histogram::new(forest.leaf_values.iter().map(|value| value.0), BINS),
            columns: forest.features.len(),
            column_names: (0..forest.features.len().min(MOST_NAMED))
                .map(|f| feature_name(forest, f))
                .collect(),
            used: stats.features.len(),
            features,
            unexplained: self.unexplained(),
            presets: Preset::ALL.map(Preset::name).to_vec(),
        }
    }

    /// Returns the histogram of a column's thresholds.
    ///
    /// # Errors
    /// The model has no such column.
    pub fn thresholds(&self, column: usize) -> Result<Histogram> {
        match column < self.forest.features.len() {
            true => Ok(Histogram::new(thresholds(&self.forest, column as u32).into_iter(), BINS)),
            false => {
                Err(Error::request(format!("column {column}: the model has {}", self.forest.features.len())))
            }
        }
    }

    /// Returns why there can be no contributions, without preparing them.
    fn unexplained(&self) -> Option<String> {
        let forest = &self.forest;
        let splits = forest.trees.iter().any(|tree| tree.nodes.len() > 1);
        match forest.aggregate != Aggregate::Sum || forest.covers.is_none() && splits {
            // Here `Explainer::new` fails before it does any work that takes long.
            true => Explainer::new(forest).err().map(|error| error.to_string()),
            false => None,
        }
    }

    /// Returns the forest and a predictor whose sums keep a contract.
    ///
    /// # Errors
    /// The forest's sums can't keep the contract.
    pub fn predictor(&mut self, sum: Contract) -> Result<(&Forest, &Predictor)> {
        if self.predictor.as_ref().is_none_or(|predictor| predictor.sum() != sum) {
            self.predictor = Some(Predictor::builder(&self.forest).threads(1).sum(sum).build()?);
        }
        match &self.predictor {
            Some(predictor) => Ok((&self.forest, predictor)),
            None => Err(Error::request("internal: no predictor")),
        }
    }

    /// Returns the forest and the explainer of its margins.
    ///
    /// # Errors
    /// The forest has no covers, or its margins are no sums.
    pub fn explainer(&mut self) -> Result<(&Forest, &Explainer)> {
        if self.explainer.is_none() {
            self.explainer = Some(Explainer::new(&self.forest)?);
        }
        match &self.explainer {
            Some(explainer) => Ok((&self.forest, explainer)),
            None => Err(Error::request("internal: no explainer")),
        }
    }
}
