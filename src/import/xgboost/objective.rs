//! XGBoost's objectives: what a base score means, and how margins become values.

use crate::forest::{ClassRule, Transform};
use fangorn_ir::LEAST_INCREMENT;

/// Version of the XGBoost that wrote a file: major and minor.
pub(super) type Version = (u32, u32);

/// What an objective means for prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Objective {
    pub link: Link,
    pub transform: Transform,
}

/// How a base score in the file becomes a margin, from which sums start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Identity,
    /// `-ln(1/p - 1)`, where the base score `p` is first kept 10^-6 away from 0 and 1. XGBoost does this
    /// since 3.2, whichever release wrote the file.
    Logit,
    /// The logarithm of any base score. Labels that are all zero give a base score of zero.
    Log,
    /// The logarithm of a base score above zero. No other base score is accepted.
    LogOfPositive,
    /// The first base score is its own margin. Each further base score becomes the margin from which
    /// [`Transform::CumulativeSoftplus`] makes that base score, given the base score before it.
    Ascending,
}

/// Returns what the objective `name` means for `outputs` outputs, or `None` if the name is not known.
pub(super) fn find(name: &str, outputs: usize) -> Option<Objective> {
    let (link, transform) = match name {
        // Several expectiles of a row ascend. A single expectile is the margin itself.
        "reg:expectileerror" if outputs > 1 => (Link::Ascending, Transform::CumulativeSoftplus),
        "reg:squarederror"
        | "reg:linear"
        | "reg:squaredlogerror"
        | "reg:pseudohubererror"
        | "reg:absoluteerror"
        | "reg:quantileerror"
        | "reg:expectileerror"
        | "rank:pairwise"
        | "rank:ndcg"
        | "rank:map" => (Link::Identity, Transform::Identity),
        // This base score is a margin, unlike the base scores of the other logistic objectives.
        "binary:logitraw" => (Link::Identity, Transform::Identity),
        "reg:logistic" | "binary:logistic" => (Link::Logit, Transform::Sigmoid),
        "binary:hinge" => (Link::Identity, Transform::Step),
        "reg:gamma" => (Link::LogOfPositive, Transform::Exp),
        "count:poisson" | "reg:tweedie" | "survival:cox" | "survival:aft" => (Link::Log, Transform::Exp),
        "multi:softmax" => (Link::Identity, Transform::Argmax),
        "multi:softprob" => (Link::Identity, Transform::Softmax),
        _ => return None,
    };
    Some(Objective { link, transform })
}

impl Objective {
    /// Returns how the objective's values become a class.
    pub(super) fn classes(self) -> ClassRule {
        match self.transform {
            Transform::Sigmoid | Transform::Step => ClassRule::Over { threshold: 0.5.into() },
            Transform::Softmax | Transform::Argmax => ClassRule::Largest,
            _ => ClassRule::None,
        }
    }
}

impl Link {
    /// Returns the margin of each output's base score, computed in `f32` as in XGBoost.
    pub(super) fn margins(self, base_scores: &[f32]) -> Vec<f32> {
        let mut margins: Vec<f32> = base_scores.iter().map(|b| self.apply(*b)).collect();
        if self == Self::Ascending {
            for (margin, pair) in margins.iter_mut().skip(1).zip(base_scores.windows(2)) {
                *margin = inverse_softplus((pair[1] - pair[0] - LEAST_INCREMENT).max(LEAST_INCREMENT));
            }
        }
        margins
    }

    /// Returns the margin of one base score, without regard to other outputs.
    fn apply(self, base_score: f32) -> f32 {
        match self {
            Self::Identity | Self::Ascending => base_score,
            Self::Logit => {
                let p = base_score.clamp(1e-6, 1.0 - 1e-6);
                // XGBoost negates the logarithm instead. Only the sign of a zero differs.
                0.0 - ln(1.0 / p - 1.0)
            }
            Self::Log | Self::LogOfPositive => ln(base_score),
        }
    }

    /// Returns what a base score has to be, or `None` if XGBoost accepts this base score as it is.
    pub(super) fn wants(self, base_score: f32) -> Option<&'static str> {
        match self {
            Self::Logit if !(0.0..=1.0).contains(&base_score) => Some("between 0 and 1"),
            Self::LogOfPositive if base_score.is_nan() || base_score <= 0.0 => Some("above 0"),
            _ => None,
        }
    }
}

/// Returns the logarithm as the machine's own `f32` library computes it, which XGBoost uses too. A correctly
/// rounded logarithm differs from it for one number in a hundred.
fn ln(x: f32) -> f32 {
    x.ln()
}

/// Returns `ln(e^x - 1)` for an `x` above 0, in `f32`. A small `x` loses no precision, and a large `x` does
/// not overflow.
fn inverse_softplus(x: f32) -> f32 {
    if x > std::f32::consts::LN_2 { x + (-(-x).exp()).ln_1p() } else { ln(x.exp_m1()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_give_the_margins_that_xgboost_gives() {
        let margin = |name: &str, score| find(name, 1).map(|o| o.link.apply(score));
        assert_eq!(margin("binary:logistic", 0.5), Some(0.0));
        assert_eq!(margin("binary:logistic", 0.3), Some(-0.847_297_85));
        for edge in [0.0, -0.0, 1e-7, 1e-40] {
            assert_eq!(margin("binary:logistic", edge), Some(-13.815_51));
        }
        assert_eq!(margin("reg:logistic", 1.0), Some(13.745_16));
        assert_eq!(margin("binary:logitraw", 0.5), Some(0.5));
        assert_eq!(margin("count:poisson", 0.5), Some(-std::f32::consts::LN_2));
        assert_eq!(margin("multi:softprob", -3.5), Some(-3.5));
        assert_eq!(margin("reg:gamma", f32::INFINITY), Some(f32::INFINITY));
        for name in ["count:poisson", "reg:tweedie", "survival:cox", "survival:aft"] {
            assert_eq!([0.0, -0.0].map(|b| margin(name, b)), [Some(f32::NEG_INFINITY); 2], "{name}");
            assert!(
                margin(name, -0.5).is_some_and(f32::is_nan)
                    && margin(name, f32::NAN).is_some_and(f32::is_nan)
            );
        }
    }

    #[test]
    fn several_expectiles_start_where_their_values_are_the_base_scores() {
        let of = |outputs| find("reg:expectileerror", outputs).expect("an objective");
        assert_eq!(of(1), Objective { link: Link::Identity, transform: Transform::Identity });
        let several = of(3);
        let margins = several.link.margins(&[-0.5, 0.5, 0.600_001]);
        let expected = [-0.5, 0.541_323_3, -2.252_168];
        assert!(margins.iter().zip(expected).all(|(m, e)| (m - e).abs() < 1e-5), "{margins:?}");
        let mut values = [0.0; 3];
        several.transform.apply(&margins, &mut values);
        assert!(values.iter().zip([-0.5, 0.5, 0.600_001]).all(|(v, b)| (v - b).abs() < 1e-6), "{values:?}");
        // Base scores that do not ascend are replaced by values that ascend by the least step.
        assert_eq!(several.link.margins(&[3.5, 3.5, 1.0]), [3.5, -13.815_51, -13.815_51]);
        assert_eq!(several.link.margins(&[0.0, 1e10]), [0.0, 1e10]);
    }

    #[test]
    fn links_refuse_what_xgboost_refuses() {
        assert_eq!([0.0, -0.0, 1e-40, 1.0].map(|b| Link::Logit.wants(b)), [None; 4]);
        for base in [-1e-40, 1.1, f32::NAN, f32::INFINITY] {
            assert_eq!(Link::Logit.wants(base), Some("between 0 and 1"), "{base}");
        }
        assert_eq!([1e-40, f32::INFINITY].map(|b| Link::LogOfPositive.wants(b)), [None; 2]);
        for base in [0.0, -0.0, -0.5, f32::NAN] {
            assert_eq!(Link::LogOfPositive.wants(base), Some("above 0"), "{base}");
        }
        for base in [0.0, -0.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!([Link::Identity, Link::Log].map(|link| link.wants(base)), [None; 2], "{base}");
        }
    }
}
