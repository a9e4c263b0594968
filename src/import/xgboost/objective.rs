//! XGBoost's objectives: what a base score means, and what becomes of a margin.

use crate::forest::{ClassRule, Transform};

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
}

/// What an objective of that name means, or `None` for a name that is not known.
pub(super) fn find(name: &str) -> Option<Objective> {
    let (link, transform) = match name {
        "reg:squarederror"
        | "reg:linear"
        | "reg:squaredlogerror"
        | "reg:pseudohubererror"
        | "reg:absoluteerror"
        | "reg:quantileerror"
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
    /// The margin of a base score, in `f32` as XGBoost computes it.
    pub(super) fn apply(self, base_score: f32) -> f32 {
        match self {
            Self::Identity => base_score,
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

/// The logarithm, rounded once.
fn ln(x: f32) -> f32 {
    f64::from(x).ln() as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_give_the_margins_that_xgboost_gives() {
        let margin = |name: &str, score| find(name).map(|o| o.link.apply(score));
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
