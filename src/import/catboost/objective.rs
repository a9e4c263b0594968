//! How each CatBoost loss function transforms raw scores, and how a class is chosen.

use super::super::error::at;
use super::super::{ErrorKind, ImportError};
use super::schema::{Label, ModelInfo};
use crate::forest::{ClassRule, Classes, Real, Transform};

/// A loss function, with its transform of raw scores and its classes.
pub(super) struct Objective {
    /// CatBoost's name for the loss function. Empty if the file names none.
    pub name: String,
    pub transform: Transform,
    pub classes: Classes,
}

/// How `predict_proba` (of a classifier) or `predict` (of any other model) transforms raw scores, and how a
/// class is chosen.
struct OutputTransform {
    transform: Transform,
    choice: Choice,
}

#[derive(Clone, Copy, PartialEq)]
enum Choice {
    /// The model is no classifier.
    None,
    /// The second of two classes, if its probability is over the model's threshold.
    Binary,
    /// The most probable class.
    Largest,
    /// For each output, whether the row has the label.
    Labels,
}

fn meaning(name: &str) -> Option<OutputTransform> {
    let (transform, choice) = match name {
        // These losses keep raw scores as they are. A sum of models with different losses has an empty name.
        ""
        | "RMSE"
        | "MAE"
        | "Quantile"
        | "MultiQuantile"
        | "GroupQuantile"
        | "LogLinQuantile"
        | "Lq"
        | "Huber"
        | "LogCosh"
        | "Expectile"
        | "MAPE"
        | "Cox"
        | "SurvivalAft"
        | "MultiRMSE"
        | "MultiRMSEWithMissingValues"
        | "PairLogit"
        | "PairLogitPairwise"
        | "YetiRank"
        | "YetiRankPairwise"
        | "QueryRMSE"
        | "QuerySoftMax"
        | "QueryCrossEntropy"
        | "StochasticFilter"
        | "StochasticRank"
        | "LambdaMart"
        | "Combination" => (Transform::Identity, Choice::None),
        // User-defined losses. The file does not say whether the model is a classifier.
        "PythonUserDefinedPerObject"
        | "PythonUserDefinedMultiTarget"
        | "UserPerObjMetric"
        | "UserQuerywiseMetric" => (Transform::Identity, Choice::None),
        "RMSEWithUncertainty" => (Transform::MeanAndVariance, Choice::None),
        "Poisson" | "Tweedie" => (Transform::Exp, Choice::None),
        "Logloss" | "CrossEntropy" | "Focal" => (Transform::SigmoidPair, Choice::Binary),
        "MultiClass" => (Transform::Softmax, Choice::Largest),
        "MultiClassOneVsAll" => (Transform::Sigmoid, Choice::Largest),
        "MultiLogloss" | "MultiCrossEntropy" => (Transform::Sigmoid, Choice::Labels),
        _ => return None,
    };
    Some(OutputTransform { transform, choice })
}

/// Returns the model's objective, for leaves of `outputs` values.
pub(super) fn objective(info: ModelInfo, outputs: usize) -> Result<Objective, ImportError> {
    let trained = info.params.and_then(|params| params.0.loss_function);
    let (name, path) = match (trained, info.loss_function) {
        (Some(loss), _) => (loss.0.name, "model_info.params.loss_function"),
        (None, Some(loss)) => (loss.0.name, "model_info.loss_function"),
        (None, None) => (String::new(), "model_info"),
    };
    let unsupported =
        |cause: String, remedy: &str| Err(at(ErrorKind::Unsupported, path, cause).with_remedy(remedy));
    let Some(OutputTransform { transform, choice }) = meaning(&name) else {
        return unsupported(
            format!("loss function `{name}` is not supported"),
            "train with a loss function of CatBoost 1.2",
        );
    };
    let params = info.class_params.map(|params| params.0);
    if name.is_empty() && params.is_some() {
        return unsupported(
            "the model is a classifier and does not name its loss function".into(),
            "save one model, or a sum of models that were trained with the same loss function",
        );
    }
    let sound = match choice {
        Choice::None | Choice::Labels => transform.outputs().is_none_or(|needed| outputs == needed as usize),
        Choice::Binary => outputs == 1,
        Choice::Largest => outputs > 1,
    };
    if !sound {
        let cause = format!("a leaf of {outputs} values, which is not what `{name}` has");
        return Err(at(ErrorKind::Structure, path, cause));
    }
    let threshold = match info.binclass_probability_threshold.map(|threshold| threshold.0) {
        // The thresholds 0 and 1 are valid: they put all rows in one class.
        Some(p) if !(0.0..=1.0).contains(&p) => {
            let path = "model_info.binclass_probability_threshold";
            return Err(at(ErrorKind::Value, path, format!("{p:?} is not between 0 and 1")));
        }
        given => Real(given.unwrap_or(0.5)),
    };
    let rule = match choice {
        Choice::None => ClassRule::None,
        Choice::Largest => ClassRule::Largest,
        Choice::Binary | Choice::Labels => ClassRule::Over { threshold },
    };
    let (labels, words) = match choice {
        Choice::Binary => labels(params.unwrap_or_default(), 2)?,
        Choice::Largest => labels(params.unwrap_or_default(), outputs)?,
        Choice::None | Choice::Labels => (Vec::new(), false),
    };
    Ok(Objective { name, transform, classes: Classes { rule, labels, words } })
}

/// Returns the names of the classes, and whether the names are texts. There are no names if the classes are
/// numbered from 0.
fn labels(params: super::schema::ClassParams, classes: usize) -> Result<(Vec<String>, bool), ImportError> {
    let path = "model_info.class_params";
    // With a larger `classes_count`, CatBoost returns values for classes that no leaf has.
    if params.classes_count > classes as u64 {
        let cause = format!("classes_count is {}, and leaves have {classes} values", params.classes_count);
        return Err(at(ErrorKind::Unsupported, path, cause)
            .with_remedy("train without classes_count, or with rows of each class"));
    }
    let (field, names) = match params.class_names.is_empty() {
        true => ("class_to_label", params.class_to_label),
        false => ("class_names", params.class_names),
    };
    let words = names.iter().any(|label| label.is_word);
    // The file writes the label 1.0 as 1, and only the type of the labels tells that it is a float.
    let real = params.class_label_type.as_deref() == Some("Float");
    let text = |label: Label| match real && label.text.parse::<i64>().is_ok() {
        true => label.text + ".0",
        false => label.text,
    };
    let names: Vec<String> = names.into_iter().map(text).collect();
    if !names.is_empty() && names.len() != classes {
        let cause = format!("{} names for {classes} classes", names.len());
        return Err(at(ErrorKind::Structure, format!("{path}.{field}"), cause));
    }
    let numbered = !words && names.iter().enumerate().all(|(i, name)| *name == i.to_string());
    Ok((if numbered { Vec::new() } else { names }, words))
}
