//! XGBoost's objectives: what a base score means, and what becomes of a margin.

use crate::forest::{ClassRule, Transform};
use fangorn_ir::LEAST_STEP;

/// Version of the XGBoost that wrote a file: major and minor.
pub(super) type Version = (u32, u32);

/// What an objective says of a finished model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Objective {
    pub link: Link,
    pub transform: Transform,
}

/// How a base score in the file becomes the start of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Identity,
    /// `-ln(1/p - 1)` of a `p` that is first kept 10^-6 away from 0 and 1, as XGBoost does since 3.2, whichever release
    /// wrote the file.
    Logit,
    /// The logarithm, of whatever there is: labels that are all zero have a base score of zero.
    Log,
    /// The same of what is above zero.
    LogOfPositive,
    /// The first is a margin; each further one's is what makes its value, by [`Transform::CumulativeSoftplus`], of the one
    /// before.
    Ascending,
}

/// What an objective of that name means for so many outputs, or `None` for a name that is not known.
pub(super) fn find(name: &str, outputs: usize) -> Option<Objective> {
    let (link, transform) = match name {
        // Several expectiles of a row ascend; one is its margin.
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
        // Its base score is a margin, unlike that of the other logistic objectives.
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
    /// How its values become a class.
    pub(super) fn classes(self) -> ClassRule {
        match self.transform {
            Transform::Sigmoid | Transform::Step => ClassRule::Over { threshold: 0.5.into() },
            Transform::Softmax | Transform::Argmax => ClassRule::Largest,
            _ => ClassRule::None,
        }
    }
}

impl Link {
    /// The margins of the outputs' base scores, in `f32` as XGBoost computes them.
    pub(super) fn margins(self, base_scores: &[f32]) -> Vec<f32> {
        let mut margins: Vec<f32> = base_scores.iter().map(|b| self.apply(*b)).collect();
        if self == Self::Ascending {
            for (margin, pair) in margins.iter_mut().skip(1).zip(base_scores.windows(2)) {
                *margin = inverse_softplus((pair[1] - pair[0] - LEAST_STEP).max(LEAST_STEP));
            }
        }
        margins
    }

    /// The margin of a base score by itself.
    fn apply(self, base_score: f32) -> f32 {
        match self {
            Self::Identity | Self::Ascending => base_score,
            Self::Logit => {
                let p = base_score.clamp(1e-6, 1.0 - 1e-6);
                // XGBoost negates instead; the difference is the sign of a zero.
                0.0 - ln(1.0 / p - 1.0)
            }
            Self::Log | Self::LogOfPositive => ln(base_score),
        }
    }

    /// What a base score has to be, where this one is not; all others XGBoost takes as they are.
    pub(super) fn wants(self, base_score: f32) -> Option<&'static str> {
        match self {
            Self::Logit if !(0.0..=1.0).contains(&base_score) => Some("between 0 and 1"),
            Self::LogOfPositive if base_score.is_nan() || base_score <= 0.0 => Some("above 0"),
            _ => None,
        }
    }
}

/// The machine's own logarithm of `f32`, which is XGBoost's, too: one rounded once differs from it in one of a hundred numbers.
fn ln(x: f32) -> f32 {
    x.ln()
}

/// `ln(e^x - 1)` of an `x` above 0 in `f32`, in which nothing is lost of a small `x`, and a large one does not overflow.
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
        // What does not ascend keeps the least step.
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
