//! Pipelines, unions, column transformers and linear models, as graphs that compute in doubles as scikit-learn does.

use std::sync::Arc;

use serde::Deserialize;

use super::super::budget::Budget;
use super::super::{ErrorKind, ImportError, LoadOptions, Location};
use super::column_uses::ColumnUse;
use super::head::{class, is_sklearn};
use super::plain::{Numbers, PlainValue};
use super::{error, unsupported};
use crate::forest::{ClassRule, Feature};
use crate::graph::{Binary, Compare, Dtype, Elements, Graph, Operand, Operator, Reduction, Tensor, Unary};

/// The remedy for a step that is not read.
const EXPORT_REMEDY: &str = "export the pipeline to ONNX with skl2onnx, which has more estimators";

/// The rows of the table.
const TABLE: Operand = Operand::Input(0);

/// The texts in place of a transformer that keeps columns as they are, or drops them.
pub(super) const PLACEHOLDERS: [&str; 2] = ["passthrough", "drop"];

/// Linear regressions.
const REGRESSORS: [&str; 14] = [
    "LinearRegression",
    "Ridge",
    "RidgeCV",
    "Lasso",
    "LassoCV",
    "ElasticNet",
    "ElasticNetCV",
    "BayesianRidge",
    "HuberRegressor",
    "SGDRegressor",
    "LinearSVR",
    "Lars",
    "LassoLars",
    "TheilSenRegressor",
];

/// Linear classifiers whose scores are no probabilities.
const SCORERS: [&str; 6] = [
    "LinearSVC",
    "RidgeClassifier",
    "RidgeClassifierCV",
    "SGDClassifier",
    "Perceptron",
    "PassiveAggressiveClassifier",
];

/// A fitted estimator, with its attributes under scikit-learn's own names. Its class decides which fields it has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Step {
    pub(super) estimator: String,
    /// The steps of a pipeline, the members of a union or of a column transformer.
    pub(super) steps: Vec<Step>,
    /// The columns that each member of a column transformer takes, or that a selector keeps.
    pub(super) columns: Option<Vec<Numbers>>,
    /// The columns of whose missing values an imputer's indicator tells.
    pub(super) indicator: Option<Numbers>,
    /// The index of a forest among those of the file.
    forest: Option<u64>,
    #[serde(rename = "mean_")]
    mean: Option<Numbers>,
    #[serde(rename = "scale_")]
    scale: Option<Numbers>,
    #[serde(rename = "center_")]
    center: Option<Numbers>,
    #[serde(rename = "min_")]
    min: Option<Numbers>,
    #[serde(rename = "statistics_")]
    pub(super) statistics: Option<Vec<PlainValue>>,
    /// The rows of a neighbors' imputer, one after the other.
    #[serde(rename = "_fit_X")]
    pub(super) donors: Option<Numbers>,
    pub(super) n_neighbors: Option<u64>,
    pub(super) weights: Option<PlainValue>,
    pub(super) metric: Option<String>,
    #[serde(rename = "encodings_")]
    pub(super) encodings: Option<Vec<Numbers>>,
    #[serde(rename = "target_mean_")]
    pub(super) target_mean: Option<Numbers>,
    #[serde(rename = "infrequent_categories_")]
    pub(super) infrequent: Option<Vec<Option<Vec<PlainValue>>>>,
    pub(super) unknown_value: Option<f64>,
    pub(super) encoded_missing_value: Option<f64>,
    pub(super) keep_empty_features: Option<bool>,
    /// The type in which an imputer holds numbers.
    #[serde(rename = "_fit_dtype")]
    pub(super) fitted_in: Option<PlainValue>,
    #[serde(rename = "components_")]
    components: Option<Numbers>,
    #[serde(rename = "explained_variance_")]
    explained_variance: Option<Numbers>,
    #[serde(rename = "coef_")]
    coef: Option<Numbers>,
    #[serde(rename = "intercept_")]
    intercept: Option<Numbers>,
    #[serde(rename = "powers_")]
    powers: Option<Numbers>,
    #[serde(rename = "categories_")]
    pub(super) categories: Option<Vec<Vec<PlainValue>>>,
    #[serde(rename = "drop_idx_")]
    pub(super) drop_indices: Option<Numbers>,
    #[serde(rename = "classes_", deserialize_with = "or_none")]
    classes: Vec<PlainValue>,
    clip: Option<bool>,
    feature_range: Option<Numbers>,
    norm: Option<PlainValue>,
    threshold: Option<f64>,
    whiten: Option<bool>,
    with_mean: Option<bool>,
    pub(super) missing_values: Option<PlainValue>,
    pub(super) add_indicator: Option<bool>,
    pub(super) handle_unknown: Option<String>,
    solver: Option<String>,
    multi_class: Option<String>,
    transformer_weights: Option<PlainValue>,
}

/// Reads a list, or nothing as an empty one: an encoder of a regression's target has `None` for its classes.
fn or_none<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<PlainValue>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A file whose estimator is no forest.
#[derive(Deserialize)]
pub(super) struct Head {
    pub(super) estimator: String,
    #[serde(rename = "n_features_in_", default)]
    features: u64,
    #[serde(rename = "feature_names_in_", default)]
    names: Vec<String>,
    #[serde(default)]
    model: Option<Step>,
}

impl Head {
    /// Returns whether the file holds an estimator that becomes a graph.
    pub(super) fn is_graph(&self) -> bool {
        self.model.is_some()
    }
}

/// Returns the graph of a file's estimator. `forest` reads a forest of the file.
pub(super) fn graph(
    head: Head,
    options: &LoadOptions,
    forest: impl Fn(usize) -> Result<crate::Forest, ImportError>,
) -> Result<Graph, ImportError> {
    let Some(model) = head.model else {
        return Err(error(ErrorKind::Schema, "fangorn", "missing field `model`"));
    };
    let width = usize::try_from(head.features).unwrap_or(usize::MAX);
    Budget::new(&options.limits).features(width, || Location::Field("fangorn.n_features_in_".into()))?;
    let uses = ColumnUse::of(&model, width, &head.names)?;
    let is_named = head.names.len() == width;
    // A table need not have the columns that nothing reads. Rows without names have them in their places.
    let read: Vec<usize> = (0..width).filter(|column| !is_named || uses[*column].is_read()).collect();
    let column = |column: &usize| uses[*column].feature(is_named.then(|| head.names[*column].clone()));
    let columns: Vec<Feature> = read.iter().map(column).collect();
    let mut graph = Graph::default();
    let rows = graph.input("X", Dtype::F64, [None, Some(columns.len())]);
    if columns.iter().any(|column| *column != Feature::default()) {
        graph.inputs[0].columns = columns;
    }
    let mut positions = vec![None; width];
    read.iter().enumerate().for_each(|(at, column)| positions[*column] = Some(at));
    let mut reader = Reader { graph, forest: &forest, options, uses, positions };
    let table = Columns { rows, width, raw: Some((0..width).collect()), filled: false };
    let last = reader.add_step(&model, Some(table), "model", true)?;
    if let Some(Columns { rows, .. }) = last {
        reader.graph.output("transformed", rows);
    }
    reader.graph.verify().map_err(|e| error(ErrorKind::Structure, "fangorn.model", e.to_string()))?;
    Ok(reader.graph)
}

/// Rows, and their number of columns.
#[derive(Clone)]
pub(super) struct Columns {
    pub(super) rows: Operand,
    pub(super) width: usize,
    /// The table's column that each of them is, or `None` after a step that computes columns.
    pub(super) raw: Option<Vec<usize>>,
    /// Whether an imputer has replaced all missing values.
    pub(super) filled: bool,
}

pub(super) struct Reader<'o, F> {
    pub(super) graph: Graph,
    forest: &'o F,
    pub(super) options: &'o LoadOptions,
    /// What the steps take each of the table's columns for.
    pub(super) uses: Vec<ColumnUse>,
    /// The index of each of the table's columns in the graph's input, which leaves out columns that nothing reads.
    positions: Vec<Option<usize>>,
}

pub(super) fn refusal(location: &str, cause: impl AsRef<str>) -> ImportError {
    unsupported(location, cause, EXPORT_REMEDY)
}

/// Returns a step's list of numbers, which must have this length.
pub(super) fn list(
    table: &Option<Numbers>,
    length: usize,
    location: &str,
    name: &str,
) -> Result<Vec<f64>, ImportError> {
    match table {
        Some(Numbers(values)) if values.len() == length => Ok(values.clone()),
        Some(Numbers(values)) => {
            let cause = format!("{name} has {} numbers, not {length}", values.len());
            Err(error(ErrorKind::Structure, format!("fangorn.{location}.{name}"), cause))
        }
        None => {
            Err(error(ErrorKind::Schema, format!("fangorn.{location}"), format!("missing field `{name}`")))
        }
    }
}

/// Returns a table's numbers as indices, which must be below a bound.
pub(super) fn indices(table: &Numbers, below: usize, location: &str) -> Result<Vec<i64>, ImportError> {
    let inside = |v: &f64| (v.fract() == 0.0 && *v >= 0.0 && *v < below as f64).then_some(*v as i64);
    table.0.iter().map(inside).collect::<Option<_>>().ok_or_else(|| {
        error(ErrorKind::Value, format!("fangorn.{location}"), format!("a column that is none of {below}"))
    })
}

impl<F: Fn(usize) -> Result<crate::Forest, ImportError>> Reader<'_, F> {
    pub(super) fn node(&mut self, name: &str, operator: Operator, operands: &[Operand]) -> Operand {
        self.graph.node(name, operator, operands.iter().copied())
    }

    pub(super) fn weight(
        &mut self,
        shape: &[usize],
        elements: Elements,
        location: &str,
    ) -> Result<Operand, ImportError> {
        let tensor = Tensor::new(shape, elements);
        let cause = "another number of elements";
        let tensor =
            tensor.ok_or_else(|| error(ErrorKind::Structure, format!("fangorn.{location}"), cause))?;
        Ok(self.graph.weight(tensor))
    }

    /// Adds an operator with a list of numbers, one for each column.
    fn add_list_operation(
        &mut self,
        name: &str,
        how: Binary,
        x: Columns,
        values: Vec<f64>,
    ) -> Result<Columns, ImportError> {
        let weight = self.weight(&[values.len()], Elements::F64(values), name)?;
        let rows = self.node(name, Operator::Binary(how), &[x.rows, weight]);
        Ok(Columns { rows, raw: None, ..x })
    }

    pub(super) fn select(
        &mut self,
        x: &Columns,
        columns: &Numbers,
        location: &str,
    ) -> Result<Columns, ImportError> {
        let mut columns = indices(columns, x.width, location)?;
        let width = columns.len();
        let raw = x.raw.as_ref().map(|raw| columns.iter().map(|column| raw[*column as usize]).collect());
        if x.rows == TABLE {
            let position = |column: &i64| self.positions[*column as usize].map(|at| at as i64);
            columns = columns.iter().map(position).collect::<Option<_>>().ok_or_else(|| {
                let cause = "a column that no step reads is read";
                error(ErrorKind::Structure, format!("fangorn.{location}"), cause)
            })?;
        }
        let columns = self.weight(&[width], Elements::I64(columns), location)?;
        let rows = self.node(location, Operator::Gather { axis: 1 }, &[x.rows, columns]);
        Ok(Columns { rows, width, raw, filled: x.filled })
    }

    pub(super) fn concat(&mut self, all: &[Columns], location: &str) -> Result<Columns, ImportError> {
        let width = all.iter().try_fold(0usize, |sum, columns| sum.checked_add(columns.width));
        let width = width.ok_or_else(|| refusal(location, "too many columns"))?;
        Budget::new(&self.options.limits)
            .features(width, || Location::Field(format!("fangorn.{location}")))?;
        match all {
            [] => Err(refusal(location, "no columns at all")),
            [only] => Ok(only.clone()),
            _ => {
                let rows: Vec<Operand> = all.iter().map(|columns| columns.rows).collect();
                let rows = self.node(location, Operator::Concat { axis: 1 }, &rows);
                Ok(Columns { rows, width, raw: None, filled: false })
            }
        }
    }

    /// Adds a step, and returns the rows that it computes. Returns `None` for `drop`, and after a predictor, whose
    /// results become the graph's outputs. Only the last step (`last`) may be a predictor.
    fn add_step(
        &mut self,
        step: &Step,
        x: Option<Columns>,
        location: &str,
        last: bool,
    ) -> Result<Option<Columns>, ImportError> {
        let Some(x) = x else { return Err(refusal(location, "a step after a predictor is not supported")) };
        if PLACEHOLDERS.contains(&&step.estimator[..]) {
            let dropped = step.estimator == "drop";
            return Ok((!dropped).then_some(x));
        }
        let (module, name) = class(&step.estimator).unwrap_or(("", &step.estimator));
        if !is_sklearn(module) {
            return Err(refusal(location, format!("{name} of {module} is not supported in a pipeline")));
        }
        let one = |columns: Result<Columns, ImportError>| columns.map(Some);
        match name {
            "Pipeline" => {
                let mut rows = Some(x);
                for (at, inner) in step.steps.iter().enumerate() {
                    let is_last = last && at + 1 == step.steps.len();
                    rows = self.add_step(inner, rows, &format!("{location}.steps[{at}]"), is_last)?;
                }
                Ok(rows)
            }
            "FeatureUnion" | "ColumnTransformer" => one(self.union(step, &x, location)),
            "StandardScaler" | "RobustScaler" => one(self.standardize(step, name, x, location)),
            "MinMaxScaler" => one(self.scale_to_range(step, name, x, location)),
            "MaxAbsScaler" => one(self.scale_to_one(step, name, x, location)),
            "Normalizer" => one(self.normalize(step, name, x, location)),
            "Binarizer" => {
                let threshold = vec![step.threshold.unwrap_or(0.0)];
                let threshold = self.weight(&[1], Elements::F64(threshold), location)?;
                let above = self.node(name, Operator::Compare(Compare::Greater), &[x.rows, threshold]);
                let rows = self.node(name, Operator::Cast(Dtype::F64), &[above]);
                Ok(Some(Columns { rows, raw: None, ..x }))
            }
            "SimpleImputer" => one(self.impute(step, x, location)),
            "KNNImputer" => one(self.impute_neighbors(step, x, location)),
            "OneHotEncoder" => one(self.one_hot(step, x, location)),
            "OrdinalEncoder" => one(self.ordinals(step, x, location)),
            "TargetEncoder" => one(self.encode_targets(step, x, location)),
            "PolynomialFeatures" => one(self.powers(step, x, location)),
            "PCA" | "TruncatedSVD" => one(self.project(step, name, x, location)),
            _ if step.forest.is_some() && last => self.forest(step, x, location).map(|()| None),
            // As the last step, `RFE` would predict with an estimator of its own.
            "RFE" | "RFECV" if last => {
                Err(refusal(location, format!("{name} as the last step is not supported")))
            }
            _ if step.columns.is_some() && step.steps.is_empty() => {
                let columns = step.columns.as_deref().unwrap_or_default();
                let [columns] = columns else {
                    return Err(refusal(location, "a selector has one list of columns"));
                };
                one(self.select(&x, columns, location))
            }
            _ if last && REGRESSORS.contains(&name) => {
                let (scores, _) = self.scores(step, x, location)?;
                self.graph.output("value", scores);
                Ok(None)
            }
            _ if last && (name.starts_with("LogisticRegression") || SCORERS.contains(&name)) => {
                self.classes(step, name, x, location).map(|()| None)
            }
            _ if !last && (step.forest.is_some() || step.coef.is_some()) => {
                Err(refusal(location, format!("{name} before the last step is not supported")))
            }
            _ => Err(refusal(location, format!("{name} is not supported in a pipeline"))),
        }
    }

    /// Adds the members of a union or of a column transformer, and joins their columns.
    fn union(&mut self, step: &Step, x: &Columns, location: &str) -> Result<Columns, ImportError> {
        if step.transformer_weights.as_ref().is_some_and(|weights| *weights != PlainValue::Null) {
            return Err(refusal(location, "weights of transformers are not supported"));
        }
        let columns = step.columns.as_deref();
        if columns.is_some_and(|columns| columns.len() != step.steps.len()) {
            return Err(error(ErrorKind::Structure, format!("fangorn.{location}.columns"), "other columns"));
        }
        let mut found = Vec::with_capacity(step.steps.len());
        for (at, inner) in step.steps.iter().enumerate() {
            let inside = format!("{location}.steps[{at}]");
            let own = match columns {
                Some(columns) if columns[at].0.is_empty() => continue,
                Some(columns) if inner.estimator != "drop" => self.select(x, &columns[at], &inside)?,
                _ => x.clone(),
            };
            found.extend(self.add_step(inner, Some(own), &inside, false)?);
        }
        self.concat(&found, location).map(|joined| Columns { raw: None, ..joined })
    }

    /// Subtracts the centre of each column and divides by its scale, as far as the step has them.
    fn standardize(
        &mut self,
        step: &Step,
        name: &str,
        mut x: Columns,
        location: &str,
    ) -> Result<Columns, ImportError> {
        let (center, field) = match name {
            "StandardScaler" => (&step.mean, "mean_"),
            _ => (&step.center, "center_"),
        };
        // The file has a mean even if the step does not subtract it.
        if center.is_some() && step.with_mean != Some(false) {
            let center = list(center, x.width, location, field)?;
            x = self.add_list_operation(name, Binary::Subtract, x, center)?;
        }
        if step.scale.is_some() {
            let scale = list(&step.scale, x.width, location, "scale_")?;
            x = self.add_list_operation(name, Binary::Divide, x, scale)?;
        }
        Ok(x)
    }

    /// Multiplies each column by its scale, adds its minimum, and clips the results if the step says so.
    fn scale_to_range(
        &mut self,
        step: &Step,
        name: &str,
        x: Columns,
        location: &str,
    ) -> Result<Columns, ImportError> {
        let scale = list(&step.scale, x.width, location, "scale_")?;
        let mut x = self.add_list_operation(name, Binary::Multiply, x, scale)?;
        let min = list(&step.min, x.width, location, "min_")?;
        x = self.add_list_operation(name, Binary::Add, x, min)?;
        if step.clip == Some(true) {
            let range = list(&step.feature_range, 2, location, "feature_range")?;
            x = self.clip(name, x, range[0], range[1])?;
        }
        Ok(x)
    }

    /// Divides each column by its scale, and clips the results to -1 and 1 if the step says so.
    fn scale_to_one(
        &mut self,
        step: &Step,
        name: &str,
        x: Columns,
        location: &str,
    ) -> Result<Columns, ImportError> {
        let scale = list(&step.scale, x.width, location, "scale_")?;
        let mut x = self.add_list_operation(name, Binary::Divide, x, scale)?;
        if step.clip == Some(true) {
            x = self.clip(name, x, -1.0, 1.0)?;
        }
        Ok(x)
    }

    /// Replaces numbers below `least` by it, and numbers above `most`.
    fn clip(&mut self, name: &str, x: Columns, least: f64, most: f64) -> Result<Columns, ImportError> {
        let x = self.add_list_operation(name, Binary::Maximum, x, vec![least])?;
        self.add_list_operation(name, Binary::Minimum, x, vec![most])
    }

    /// Divides each row by its norm. A row of zeros stays.
    fn normalize(
        &mut self,
        step: &Step,
        name: &str,
        x: Columns,
        location: &str,
    ) -> Result<Columns, ImportError> {
        let how = match &step.norm {
            None | Some(PlainValue::Null) => Reduction::L2,
            Some(PlainValue::Text(norm)) if norm == "l2" => Reduction::L2,
            Some(PlainValue::Text(norm)) if norm == "l1" => Reduction::L1,
            Some(other) => return Err(refusal(location, format!("norm {other} is not supported"))),
        };
        let norm = self.node(name, Operator::Reduce { how, axes: vec![1], keep: true }, &[x.rows]);
        let zero = self.weight(&[1], Elements::F64(vec![0.0]), location)?;
        let unit = self.weight(&[1], Elements::F64(vec![1.0]), location)?;
        let is_zero = self.node(name, Operator::Compare(Compare::Equal), &[norm, zero]);
        let norm = self.node(name, Operator::Where, &[is_zero, unit, norm]);
        let rows = self.node(name, Operator::Binary(Binary::Divide), &[x.rows, norm]);
        Ok(Columns { rows, raw: None, ..x })
    }

    /// Multiplies the rows by the components of a decomposition.
    fn project(
        &mut self,
        step: &Step,
        name: &str,
        mut x: Columns,
        location: &str,
    ) -> Result<Columns, ImportError> {
        let Some(Numbers(components)) = &step.components else {
            return Err(error(
                ErrorKind::Schema,
                format!("fangorn.{location}"),
                "missing field `components_`",
            ));
        };
        let count = components.len() / x.width.max(1);
        if name == "PCA" {
            let mean = list(&step.mean, x.width, location, "mean_")?;
            x = self.add_list_operation(name, Binary::Subtract, x, mean)?;
        }
        x.raw = None;
        x.rows = self.product(&x, components, count, location)?;
        x.width = count;
        if step.whiten == Some(true) {
            let variance = list(&step.explained_variance, count, location, "explained_variance_")?;
            let roots = variance.into_iter().map(f64::sqrt).collect();
            x = self.add_list_operation(name, Binary::Divide, x, roots)?;
        }
        Ok(x)
    }

    /// Adds the product of rows with a matrix that has a row for each of `count` outputs.
    fn product(
        &mut self,
        x: &Columns,
        lines: &[f64],
        count: usize,
        location: &str,
    ) -> Result<Operand, ImportError> {
        if count.checked_mul(x.width) != Some(lines.len()) || count == 0 {
            let cause = format!("{} numbers for rows of {} columns", lines.len(), x.width);
            return Err(error(ErrorKind::Structure, format!("fangorn.{location}"), cause));
        }
        let by_column =
            (0..x.width).flat_map(|column| (0..count).map(move |line| lines[line * x.width + column]));
        let weight = self.weight(&[x.width, count], Elements::F64(by_column.collect()), location)?;
        Ok(self.node(location, Operator::MatMul, &[x.rows, weight]))
    }

    /// Adds the scores of a linear model, and returns their number.
    fn scores(&mut self, step: &Step, x: Columns, location: &str) -> Result<(Operand, usize), ImportError> {
        let Some(Numbers(coefficients)) = &step.coef else {
            return Err(error(ErrorKind::Schema, format!("fangorn.{location}"), "missing field `coef_`"));
        };
        let count = coefficients.len() / x.width.max(1);
        let product = self.product(&x, coefficients, count, location)?;
        let terms = match &step.intercept {
            // Without an intercept, `intercept_` is a single zero.
            Some(Numbers(terms)) if terms.len() == 1 => vec![terms[0]; count],
            _ => list(&step.intercept, count, location, "intercept_")?,
        };
        let terms = self.weight(&[count], Elements::F64(terms), location)?;
        Ok((self.node(location, Operator::Binary(Binary::Add), &[product, terms]), count))
    }

    /// Adds the outputs of a linear classifier: the label, and probabilities or scores.
    fn classes(&mut self, step: &Step, name: &str, x: Columns, location: &str) -> Result<(), ImportError> {
        let (scores, count) = self.scores(step, x, location)?;
        let classes = step.classes.len();
        if classes < 2 || count != if classes == 2 { 1 } else { classes } {
            let cause = format!("{count} scores for {classes} classes");
            return Err(error(ErrorKind::Structure, format!("fangorn.{location}"), cause));
        }
        let class = match classes {
            2 => {
                let zero = self.weight(&[1], Elements::F64(vec![0.0]), location)?;
                let second = self.node(location, Operator::Compare(Compare::Greater), &[scores, zero]);
                let second = self.node(location, Operator::Cast(Dtype::I64), &[second]);
                self.node(location, Operator::Reshape(vec![-1]), &[second])
            }
            _ => {
                let greatest = Operator::ArgExtreme { axis: 1, keep: false, greatest: true, last: false };
                self.node(location, greatest, &[scores])
            }
        };
        let labels: Vec<String> = step.classes.iter().map(PlainValue::to_string).collect();
        let integers = step.classes.iter().map(|label| match label {
            PlainValue::Integer(label) => Some(*label),
            _ => None,
        });
        self.label(integers.collect(), &labels, class, location)?;
        if !name.starts_with("LogisticRegression") {
            self.graph.output("scores", scores);
            return Ok(());
        }
        let separate =
            step.multi_class.as_deref() == Some("ovr") || step.solver.as_deref() == Some("liblinear");
        let probabilities = match (classes, separate) {
            (2, _) => {
                let other = self.node(location, Operator::Unary(Unary::Negate), &[scores]);
                let both = self.node(location, Operator::Concat { axis: 1 }, &[other, scores]);
                // Earlier releases apply a softmax to both scores if `multi_class` is `multinomial`.
                let how = match step.multi_class.as_deref() {
                    Some("multinomial") => Operator::Softmax { axis: 1 },
                    _ => Operator::Unary(Unary::Sigmoid),
                };
                self.node(location, how, &[both])
            }
            (_, true) => {
                let each = self.node(location, Operator::Unary(Unary::Sigmoid), &[scores]);
                let sum = Operator::Reduce { how: Reduction::Sum, axes: vec![1], keep: true };
                let sum = self.node(location, sum, &[each]);
                self.node(location, Operator::Binary(Binary::Divide), &[each, sum])
            }
            (_, false) => self.node(location, Operator::Softmax { axis: 1 }, &[scores]),
        };
        self.graph.output("probabilities", probabilities);
        Ok(())
    }

    /// Adds the label of a class as the first output: an integer if all labels are integers, and a text otherwise.
    fn label(
        &mut self,
        integers: Option<Vec<i64>>,
        labels: &[String],
        class: Operand,
        location: &str,
    ) -> Result<(), ImportError> {
        let elements = match integers {
            Some(integers) => Elements::I64(integers),
            None => Elements::Text(labels.iter().map(|label| label.as_str().into()).collect()),
        };
        let table = self.weight(&[labels.len()], elements, location)?;
        let label = self.node(location, Operator::Gather { axis: 0 }, &[table, class]);
        self.graph.output("label", label);
        Ok(())
    }

    fn forest(&mut self, step: &Step, x: Columns, location: &str) -> Result<(), ImportError> {
        let forest = (self.forest)(step.forest.unwrap_or(0) as usize)?;
        if forest.features.len() != x.width {
            let cause = format!("a forest of {} columns after {} columns", forest.features.len(), x.width);
            return Err(error(ErrorKind::Structure, format!("fangorn.{location}"), cause));
        }
        let classes = forest.classes.clone();
        let values = self.node(location, Operator::Forest(Arc::new(forest)), &[x.rows]);
        if classes.rule == ClassRule::None {
            self.graph.output("value", values);
            return Ok(());
        }
        let Operand::Node(at, _) = values else { unreachable!("a node") };
        match classes.labels.is_empty() {
            // Classes that are numbered from 0 are their own labels.
            true => self.graph.output("label", Operand::Node(at, 1)),
            false => self.label(classes.integers(), &classes.labels, Operand::Node(at, 1), location)?,
        }
        self.graph.output("probabilities", values);
        Ok(())
    }

    /// Adds products of powers of columns.
    fn powers(&mut self, step: &Step, x: Columns, location: &str) -> Result<Columns, ImportError> {
        let Some(Numbers(powers)) = &step.powers else {
            return Err(error(ErrorKind::Schema, format!("fangorn.{location}"), "missing field `powers_`"));
        };
        let width = powers.len() / x.width.max(1);
        if width.checked_mul(x.width) != Some(powers.len()) || width == 0 {
            return Err(error(ErrorKind::Structure, format!("fangorn.{location}.powers_"), "other columns"));
        }
        Budget::new(&self.options.limits)
            .features(width, || Location::Field(format!("fangorn.{location}")))?;
        // `[rows, 1, columns]` to the powers of `[outputs, columns]`, and the product over columns.
        let wide = self.node(location, Operator::Unsqueeze(vec![1]), &[x.rows]);
        let powers = self.weight(&[width, x.width], Elements::F64(powers.clone()), location)?;
        let raised = self.node(location, Operator::Binary(Binary::Power), &[wide, powers]);
        let product = Operator::Reduce { how: Reduction::Product, axes: vec![2], keep: false };
        Ok(Columns { rows: self.node(location, product, &[raised]), width, raw: None, filled: false })
    }
}
