//! treelite's postprocessors, which turn margins into values.

use super::super::error::at;
use super::super::{ErrorKind, ImportError};
use super::outputs::Outputs;
use crate::forest::Transform;

/// A postprocessor as this crate's transform and scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OutputTransform {
    pub transform: Transform,
    /// The factor of margins, applied before the transform.
    pub scale: f64,
}

/// The parameters of postprocessors. A checkpoint holds all of them, whichever postprocessor it names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    pub sigmoid_alpha: f32,
    pub ratio_c: f32,
}

impl OutputTransform {
    /// Returns the transform of the postprocessor with the name, for a model with these outputs.
    pub(super) fn of(name: &str, parameters: Parameters, outputs: &Outputs) -> Result<Self, ImportError> {
        let of = |transform| Self { transform, scale: 1.0 };
        let slope = || number("sigmoid_alpha", parameters.sigmoid_alpha).map(f64::from);
        let meaning = match name {
            "identity" | "identity_multiclass" => return Ok(of(Transform::Identity)),
            "signed_square" => of(Transform::SignedSquare),
            "hinge" => of(Transform::Step),
            "sigmoid" => Self { scale: slope()?, ..of(Transform::Sigmoid) },
            "exponential" => of(Transform::Exp),
            "exponential_standard_ratio" => {
                let ratio = f64::from(number("ratio_c", parameters.ratio_c)?);
                if ratio == 0.0 {
                    return Err(at(ErrorKind::Value, "ratio_c", "0, which margins are divided by"));
                }
                Self { scale: 1.0 / ratio, ..of(Transform::PowerOfTwo) }
            }
            "logarithm_one_plus_exp" => of(Transform::Softplus),
            "softmax" if outputs.targets() == 1 => return Ok(of(Transform::Softmax)),
            "softmax" => {
                let cause = format!("softmax of each of {} targets is not supported", outputs.targets());
                return Err(unsupported(
                    cause,
                    "save a model a target, or one whose postprocessor is identity_multiclass",
                ));
            }
            "multiclass_ova" if outputs.even() => {
                return Ok(Self { scale: slope()?, ..of(Transform::Sigmoid) });
            }
            "multiclass_ova" => {
                let cause = "multiclass_ova of targets that differ in their classes is not supported";
                return Err(unsupported(cause, "save a model a target"));
            }
            other => {
                let cause = format!("postprocessor `{other}` is not supported");
                return Err(unsupported(
                    cause,
                    "build the model with a postprocessor that treelite 4.8 documents",
                ));
            }
        };
        // treelite applies these postprocessors to the first class of a target only.
        if outputs.classes() > 1 {
            let cause = format!(
                "postprocessor `{name}` of a target with {} classes is not supported",
                outputs.classes()
            );
            return Err(unsupported(
                cause,
                "build the model with softmax, multiclass_ova or identity_multiclass",
            ));
        }
        Ok(meaning)
    }
}

fn number(field: &str, value: f32) -> Result<f32, ImportError> {
    if value.is_finite() {
        return Ok(value);
    }
    Err(at(ErrorKind::Value, field, format!("{value:?} is not a finite number")))
}

fn unsupported(cause: impl AsRef<str>, remedy: &str) -> ImportError {
    at(ErrorKind::Unsupported, "postprocessor", cause).with_remedy(remedy)
}
