//! XGBoost's objectives: what a base score means, and what becomes of a margin.

use crate::forest::Transform;

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
    /// `-ln(1/p - 1)`; `bounded` keeps `p` at least 10^-6 away from 0 and 1 first, as XGBoost does since 3.2.
    Logit {
        bounded: bool,
    },
    Log,
}

/// What an objective of that name means in a file of that version, or `None` for a name that is not known.
pub(super) fn find(name: &str, version: Version) -> Option<Objective> {
    let logit = Link::Logit { bounded: version >= (3, 2) };
    let (link, transform) = match name {
        "reg:squarederror" | "reg:linear" | "reg:squaredlogerror" | "reg:pseudohubererror" | "reg:absoluteerror"
        | "reg:quantileerror" | "rank:pairwise" | "rank:ndcg" | "rank:map" => (Link::Identity, Transform::Identity),
        "reg:logistic" | "binary:logistic" => (logit, Transform::Sigmoid),
        // The base score was a probability before 2.0, and has been a margin since.
        "binary:logitraw" if version < (2, 0) => (logit, Transform::Identity),
        "binary:logitraw" => (Link::Identity, Transform::Identity),
        "binary:hinge" => (Link::Identity, Transform::Step),
        "count:poisson" | "reg:gamma" | "reg:tweedie" | "survival:cox" | "survival:aft" => (Link::Log, Transform::Exp),
        "multi:softmax" => (Link::Identity, Transform::Argmax),
        "multi:softprob" => (Link::Identity, Transform::Softmax),
        _ => return None,
    };
    Some(Objective { link, transform })
}

impl Link {
    /// The margin of a base score, in `f32` as XGBoost computes it.
    pub(super) fn apply(self, base_score: f32) -> f32 {
        match self {
            Self::Identity => base_score,
            Self::Logit { bounded } => {
                let edge = if bounded { 1e-6f32 } else { 0.0 };
                let p = base_score.max(edge).min(1.0 - edge);
                -ln(1.0 / p - 1.0)
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
