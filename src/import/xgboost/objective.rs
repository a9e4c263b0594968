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
    /// `-ln(1/p - 1)`.
    Logit {
        /// Whether `p` is first kept 10^-6 away from 0 and 1, as XGBoost does since 3.2.
        bounded: bool,
    },
    Log,
}

/// What an objective of that name means in a file of that version, or `None` for a name that is not known.
pub(super) fn find(name: &str, version: Version) -> Option<Objective> {
    let logit = Link::Logit { bounded: version >= (3, 2) };
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
        "reg:logistic" | "binary:logistic" => (logit, Transform::Sigmoid),
        "binary:hinge" => (Link::Identity, Transform::Step),
        "count:poisson" | "reg:gamma" | "reg:tweedie" | "survival:cox" | "survival:aft" => {
            (Link::Log, Transform::Exp)
        }
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
            Self::Logit { bounded } => {
                let edge = if bounded { 1e-6f32 } else { 0.0 };
                let p = base_score.max(edge).min(1.0 - edge);
                // XGBoost negates instead; the difference is the sign of a zero.
                0.0 - ln(1.0 / p - 1.0)
            }
            Self::Log => ln(base_score),
        }
    }

    /// The base scores the link takes, for a message.
    pub(super) fn domain(self) -> &'static str {
        match self {
            Self::Identity => "finite",
            Self::Logit { .. } => "between 0 and 1",
            Self::Log => "above 0",
        }
    }

    /// Whether the link takes the base score.
    pub(super) fn accepts(self, base_score: f32) -> bool {
        match self {
            Self::Identity => base_score.is_finite(),
            Self::Logit { bounded: true } => (0.0..=1.0).contains(&base_score),
            Self::Logit { bounded: false } => base_score > 0.0 && base_score < 1.0,
            Self::Log => base_score > 0.0 && base_score.is_finite(),
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
        let margin = |name: &str, version, score| find(name, version).map(|o| o.link.apply(score));
        assert_eq!(margin("binary:logistic", (1, 4), 0.5), Some(0.0));
        assert_eq!(margin("binary:logistic", (3, 2), 0.3), Some(-0.847_297_85));
        assert_eq!(margin("binary:logistic", (3, 2), 0.0), Some(-13.815_51));
        assert_eq!(margin("binary:logitraw", (1, 4), 0.5), Some(0.5));
        assert_eq!(margin("count:poisson", (2, 0), 0.5), Some(-std::f32::consts::LN_2));
        assert_eq!(margin("multi:softprob", (3, 2), -3.5), Some(-3.5));
        assert_eq!(margin("reg:expectileerror", (3, 4), 0.5), None);
    }

    #[test]
    fn links_refuse_what_has_no_margin() {
        assert!(!Link::Logit { bounded: false }.accepts(0.0));
        assert!(Link::Logit { bounded: true }.accepts(0.0));
        assert!(!Link::Logit { bounded: true }.accepts(1.1));
        assert!(!Link::Log.accepts(0.0));
        for link in [Link::Identity, Link::Log, Link::Logit { bounded: true }] {
            assert!(!link.accepts(f32::NAN) && !link.accepts(f32::INFINITY));
        }
    }
}
