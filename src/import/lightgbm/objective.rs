//! LightGBM's objectives: the transform of a sum of leaf values.

use super::super::{ErrorKind, ImportError};
use super::lines::Value;
use crate::forest::{ClassRule, Transform};

/// What an objective means for prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Objective {
    pub transform: Transform,
    /// The factor of a sum before the transform.
    pub slope: f64,
    pub classes: ClassRule,
}

/// The objective of a file without one. A model with a user-defined loss leaves such a file.
pub(super) const NONE: Objective =
    Objective { transform: Transform::Identity, slope: 1.0, classes: ClassRule::None };

/// Reads the objective from its field in the header, for a model of `outputs` outputs.
pub(super) fn read(line: Value<'_>, outputs: usize) -> Result<Objective, ImportError> {
    let mut words = line.words();
    let name = words.next().unwrap_or(line);
    let name = name.str()?;
    let (transform, classes) = match name {
        "custom" | "none" | "null" | "na" => return plain(line, words),
        "regression" | "regression_l1" | "huber" | "fair" | "quantile" | "mape" | "lambdarank"
        | "rank_xendcg" => (Transform::Identity, ClassRule::None),
        "poisson" | "gamma" | "tweedie" => (Transform::Exp, ClassRule::None),
        "binary" | "cross_entropy" => (Transform::Sigmoid, ClassRule::Over { threshold: 0.5.into() }),
        "multiclassova" => (Transform::Sigmoid, ClassRule::Largest),
        "cross_entropy_lambda" => (Transform::Softplus, ClassRule::None),
        "multiclass" => (Transform::Softmax, ClassRule::Largest),
        _ => return Err(unsupported(line, format!("objective `{name}` is not supported"))),
    };
    let mut objective = Objective { transform, slope: 1.0, classes };
    let mut stated_classes = None;
    for word in words {
        let text = word.str()?;
        match (text.split_once(':'), name) {
            (None, "regression" | "regression_l1" | "fair" | "quantile" | "mape") if text == "sqrt" => {
                objective.transform = Transform::SignedSquare;
            }
            (Some(("sigmoid", slope)), "binary" | "multiclassova") => {
                objective.slope =
                    slope.parse().ok().filter(|s| 0.0 < *s && *s < f64::INFINITY).ok_or_else(|| {
                        word.error(ErrorKind::Value, format!("`{text}` is no slope above 0 of a sigmoid"))
                    })?;
            }
            (Some(("num_class", count)), "multiclass" | "multiclassova") => {
                stated_classes = Some(count.parse::<usize>().ok());
            }
            _ => return Err(unsupported(word, format!("objective `{name}` with `{text}` is not supported"))),
        }
    }
    let of_classes = matches!(objective.classes, ClassRule::Largest);
    let expected = if of_classes { stated_classes.flatten() } else { Some(1) };
    if expected != Some(outputs) {
        let cause = format!("objective `{}` does not fit {outputs} trees an iteration", line.str()?);
        return Err(line.error(ErrorKind::Structure, cause));
    }
    Ok(objective)
}

/// Returns [`NONE`], for a name that means no objective. No other word may stand on the line.
fn plain<'f>(line: Value<'f>, mut words: impl Iterator<Item = Value<'f>>) -> Result<Objective, ImportError> {
    match words.next() {
        None => Ok(NONE),
        Some(_) => Err(unsupported(line, format!("objective `{}` is not supported", line.str()?))),
    }
}

fn unsupported(at: Value<'_>, cause: String) -> ImportError {
    ImportError::new(ErrorKind::Unsupported, at.location(), cause).with_remedy(
        "train with an objective of LightGBM 4, or remove the line `objective=…` to read the raw scores",
    )
}
