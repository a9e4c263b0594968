//! The types in which producers compare, and the conversion of a threshold to one of these types.

use super::Predicate;

/// LightGBM takes values of at most this magnitude for zero (its `kZeroThreshold`, an `f32` constant).
pub const ZERO_ZONE: f32 = 1e-35;

/// The type in which a producer compares a value with a threshold. The value is cast to this type first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CompareType {
    /// Single precision: XGBoost, CatBoost, scikit-learn's trees. Every threshold is an `f32` value.
    #[default]
    F32,
    /// Double precision: LightGBM, scikit-learn's histogram boosting.
    F64,
}

impl CompareType {
    /// Both types.
    pub const ALL: [Self; 2] = [Self::F32, Self::F64];

    /// Returns `x` rounded to this type, as a split compares it.
    pub fn cast(self, x: f64) -> f64 {
        match self {
            Self::F32 => f64::from(x as f32),
            Self::F64 => x,
        }
    }

    /// Returns a predicate that sends `x` left if and only if `x < t`, for every `x` of this type.
    pub fn less(self, t: f64) -> Predicate {
        let threshold = match self {
            Self::F32 => f64::from(least_f32_not_below(t)),
            Self::F64 => t,
        };
        Predicate::Less { threshold: threshold.into() }
    }

    /// Returns a predicate that sends `x` left if and only if `x <= t`, for every `x` of this type.
    pub fn at_most(self, t: f64) -> Predicate {
        let next = match self {
            Self::F32 => greatest_f32_not_above(t).next_up().into(),
            Self::F64 => t.next_up(),
        };
        // `Less` can't ask for `x <= infinity`, because the next value above infinity is infinity.
        if t == f64::INFINITY { Predicate::Always } else { Predicate::Less { threshold: f64::into(next) } }
    }

    /// The type's name in text forms.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }
}

/// Returns the least `f32` that is not below `t`. For every `f32` value `x`, `x < t` if and only if
/// `x < least_f32_not_below(t)`.
pub fn least_f32_not_below(t: f64) -> f32 {
    let near = t as f32;
    if f64::from(near) < t { near.next_up() } else { near }
}

/// Returns the greatest `f32` that is not above `t`. For every `f32` value `x`, `x <= t` if and only if
/// `x <= greatest_f32_not_above(t)`.
pub fn greatest_f32_not_above(t: f64) -> f32 {
    let near = t as f32;
    if f64::from(near) > t { near.next_down() } else { near }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Vec<f32> {
        let mut values = vec![0.0, -0.0, f32::MIN_POSITIVE, 1e-45, -1e-45, 1.0, 0.1, f32::MAX, f32::MIN];
        values.extend([f32::INFINITY, f32::NEG_INFINITY, 1e-35, -1e-35, 16_777_217.0]);
        let near = |v: &f32| [v.next_down(), *v, v.next_up()];
        values.iter().flat_map(near).collect()
    }

    #[test]
    fn narrowed_thresholds_decide_every_f32_as_the_f64_does() {
        let wide = |v: f32| [f64::from(v).next_down(), f64::from(v), f64::from(v).next_up()];
        let thresholds = values().into_iter().flat_map(wide).chain([1e300, -1e300, 1e-300, -1e-300]);
        for t in thresholds.filter(|t| !t.is_nan()) {
            for x in values() {
                let decides = |predicate| match predicate {
                    Predicate::Less { threshold } => f64::from(x) < threshold.0,
                    _ => true,
                };
                assert_eq!(decides(CompareType::F32.less(t)), f64::from(x) < t, "{x:e} < {t:e}");
                assert_eq!(decides(CompareType::F32.at_most(t)), f64::from(x) <= t, "{x:e} <= {t:e}");
                assert_eq!(decides(CompareType::F64.at_most(t)), f64::from(x) <= t, "{x:e} <= {t:e} in f64");
                assert_eq!(x < least_f32_not_below(t), f64::from(x) < t, "{x:e} < {t:e}");
                assert_eq!(x <= greatest_f32_not_above(t), f64::from(x) <= t, "{x:e} <= {t:e}");
            }
        }
    }
}
