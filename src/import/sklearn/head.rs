//! Reads the JSON text: the estimator's class, scikit-learn's release, and the estimator's scalars.

use serde::Deserialize;

use super::super::budget::Budget;
use super::super::decode::{Encoding, decode};
use super::super::{ErrorKind, ImportError, Limits, Location};
use super::archive::Archive;
use super::array::{self, Count};
use super::plain::{Numbers, PlainValue};
use super::{error, unsupported};

/// The version of the exporter's format that is read.
const FORMAT: u64 = 2;

/// The releases of scikit-learn whose trees are known.
const RELEASES: std::ops::RangeInclusive<(u32, u32)> = (1, 0)..=(1, 9);

/// How an estimator combines its trees into a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// The mean of the leaves.
    Average { classifier: bool },
    /// A base and the sum of the leaves.
    Boosting { classifier: bool },
    /// A base and the sum of the leaves, of trees that were trained on binned values.
    Histogram { classifier: bool },
    /// The mean length of paths.
    Isolation,
}

/// The estimators of a single tree, of which forests and bags consist.
pub(super) const TREES: [&str; 4] =
    ["DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor"];

/// The estimators of several trees.
const ENSEMBLES: [(&str, Family); 11] = [
    ("RandomForestClassifier", Family::Average { classifier: true }),
    ("RandomForestRegressor", Family::Average { classifier: false }),
    ("ExtraTreesClassifier", Family::Average { classifier: true }),
    ("ExtraTreesRegressor", Family::Average { classifier: false }),
    ("BaggingClassifier", Family::Average { classifier: true }),
    ("BaggingRegressor", Family::Average { classifier: false }),
    ("GradientBoostingClassifier", Family::Boosting { classifier: true }),
    ("GradientBoostingRegressor", Family::Boosting { classifier: false }),
    ("HistGradientBoostingClassifier", Family::Histogram { classifier: true }),
    ("HistGradientBoostingRegressor", Family::Histogram { classifier: false }),
    ("IsolationForest", Family::Isolation),
];

/// The text's description of an estimator. Which fields it has depends on the estimator's family.
#[derive(Deserialize)]
pub(super) struct Head {
    pub(super) version: String,
    /// The estimator's class, without the module.
    pub(super) estimator: String,
    #[serde(rename = "n_features_in_")]
    pub(super) features: u64,
    #[serde(rename = "feature_names_in_", default)]
    pub(super) names: Vec<String>,
    #[serde(rename = "classes_", default)]
    pub(super) classes: Vec<PlainValue>,
    /// The class and the labels of each tree.
    #[serde(default)]
    pub(super) trees: Vec<(String, Option<Vec<PlainValue>>)>,
    pub(super) loss: Option<String>,
    pub(super) learning_rate: Option<f64>,
    #[serde(rename = "init_")]
    pub(super) init: Option<String>,
    /// The initial value of boosting, one for each output.
    pub(super) base: Option<Numbers>,
    #[serde(rename = "is_categorical_")]
    pub(super) is_categorical: Option<Vec<bool>>,
    /// The encoder's categories, for each categorical column.
    pub(super) categories: Option<Vec<Vec<PlainValue>>>,
    #[serde(rename = "offset_")]
    pub(super) offset: Option<f64>,
    #[serde(rename = "_max_samples")]
    pub(super) max_samples: Option<f64>,
}

impl Head {
    /// Returns whether the classes' labels are texts.
    pub(super) fn words(&self) -> bool {
        self.classes.iter().any(|label| matches!(label, PlainValue::Text(_)))
    }

    /// Returns the classes' labels.
    pub(super) fn labels(&self) -> Result<Vec<String>, ImportError> {
        let label = |label: &PlainValue| match label {
            PlainValue::List => Err(unsupported(
                "classes_",
                format!("{} of several outputs is not supported", self.estimator),
                "train a classifier for each of them",
            )),
            // JSON numbers beyond 64 bits are read as floats, which have lost digits of the label.
            PlainValue::Real(number) if number.abs() >= 2f64.powi(63) => Err(unsupported(
                "classes_",
                format!("label {number:e} is not supported"),
                "train on labels that are strings or smaller numbers",
            )),
            label => Ok(label.to_string()),
        };
        self.classes.iter().map(label).collect()
    }
}

/// Returns the error for a head that lacks a field.
pub(super) fn lacks(field: &str) -> ImportError {
    error(ErrorKind::Schema, "fangorn", format!("missing field `{field}`"))
}

/// Returns the module and the name in the text of a Python class, `<class 'module.Name'>`.
pub(super) fn class(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix("<class '")?.strip_suffix("'>")?.rsplit_once('.')
}

/// Returns whether a module is scikit-learn's.
pub(super) fn is_sklearn(module: &str) -> bool {
    module == "sklearn" || module.starts_with("sklearn.")
}

/// Reads the text in three steps: the format's version, then the estimator's class and release, then all
/// fields. A file of another version or estimator is thus refused by name.
pub(super) fn read(archive: &Archive<'_>, limits: &Limits) -> Result<(Family, Head), ImportError> {
    let text = text(archive, limits)?;
    let EstimatorInfo { estimator, model, .. } = decoded(&text, limits)?;
    if model.is_some() {
        let cause = format!("{} is a graph and no forest", class(&estimator).unwrap_or(("", &estimator)).1);
        let remedy = "load it as a graph, as the commands predict, bench, explain and graph do";
        return Err(unsupported("estimator", cause, remedy));
    }
    let (name, family) = family(&estimator)?;
    let mut head: Head = decoded(&text, limits)?;
    head.estimator = name.to_owned();
    let features = usize::try_from(head.features).unwrap_or(usize::MAX);
    Budget::new(limits).features(features, || Location::Field("fangorn.n_features_in_".into()))?;
    if !head.names.is_empty() && head.names.len() != features {
        let cause = format!("{} names for {features} features", head.names.len());
        return Err(error(ErrorKind::Structure, "fangorn.feature_names_in_", cause));
    }
    Ok((family, head))
}

#[derive(Deserialize)]
struct EstimatorInfo {
    version: String,
    estimator: String,
    model: Option<serde::de::IgnoredAny>,
}

/// Reads the text, or some of its fields.
pub(super) fn decoded<T: serde::de::DeserializeOwned>(
    text: &[u8],
    limits: &Limits,
) -> Result<T, ImportError> {
    decode(text, Encoding::Json, limits).map_err(|e| match e.location() {
        Location::Field(path) => error(e.kind(), format!("fangorn.{path}"), e.cause()),
        Location::File => error(e.kind(), "fangorn", e.cause()),
        location => error(e.kind(), format!("fangorn, {location}"), e.cause()),
    })
}

/// Returns the text, after the exporter's format and the release have been checked.
pub(super) fn text(archive: &Archive<'_>, limits: &Limits) -> Result<Vec<u8>, ImportError> {
    if archive.size("fangorn").is_none() {
        let cause = "no `fangorn` array: this archive is not written by the exporter for scikit-learn";
        return Err(ImportError::new(ErrorKind::Format, Location::File, cause)
            .with_remedy("export a fitted scikit-learn estimator with scripts/export_sklearn.py"));
    }
    // Each name takes a few bytes of the text, so this limits the number of names too.
    let most = Count::AtMost(limits.string_bytes.saturating_mul(64), "string_bytes");
    let text: Vec<u8> = array::integers(archive, "fangorn", most)?;
    #[derive(Deserialize)]
    struct Version {
        format: u64,
    }
    let Version { format } = decoded(&text, limits)?;
    if format != FORMAT {
        return Err(unsupported(
            "format",
            format!("format {format} of the exporter, format {FORMAT} is read"),
            "export it again with the exporter of this version, scripts/export_sklearn.py",
        ));
    }
    check_release(&decoded::<EstimatorInfo>(&text, limits)?.version)?;
    Ok(text)
}

/// Refuses releases that are not known.
fn check_release(version: &str) -> Result<(), ImportError> {
    let mut numbers = version.split('.').map(|text| {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..digits].parse::<u32>().ok()
    });
    let release = numbers.next().flatten().zip(numbers.next().flatten());
    let (oldest, newest) = (RELEASES.start(), RELEASES.end());
    match release {
        Some(release) if RELEASES.contains(&release) => Ok(()),
        Some(release) if release > *newest => Err(unsupported(
            "version",
            format!(
                "scikit-learn {version} is newer than {}.{}, the newest that is known",
                newest.0, newest.1
            ),
            "take a newer fangorn, or train and export with a release that is known",
        )),
        Some(_) => Err(unsupported(
            "version",
            format!(
                "scikit-learn {version} is older than {}.{}, the oldest that is known",
                oldest.0, oldest.1
            ),
            "train and export with a newer one",
        )),
        None => Err(error(ErrorKind::Value, "fangorn.version", format!("`{version}` is no release"))),
    }
}

/// Returns the name and the family of an estimator, by the text of its class.
fn family(text: &str) -> Result<(&'static str, Family), ImportError> {
    let (module, name) = class(text).unwrap_or(("", text));
    let tree = |tree: &'static str| (tree, Family::Average { classifier: tree.ends_with("Classifier") });
    let mut known = TREES.into_iter().map(tree).chain(ENSEMBLES);
    known.find(|(known, _)| is_sklearn(module) && *known == name).ok_or_else(|| {
        let names: Vec<&str> = TREES.into_iter().chain(ENSEMBLES.map(|(name, _)| name)).collect();
        let cause = match module {
            "" => format!("{name} is not supported"),
            module => format!("{name} of {module} is not supported"),
        };
        let remedy = format!(
            "export a fitted {} of scikit-learn, or a pipeline of such; of a search its best_estimator_",
            names.join(", ")
        );
        unsupported("estimator", cause, remedy)
    })
}
