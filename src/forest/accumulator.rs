//! The floating-point type in which a producer adds up leaf values.

use std::fmt;

use super::{CompareType, Forest};

/// The floating-point type of a running sum under the contract [`tree`](crate::sum::Contract::Tree).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accumulator {
    /// Rounds each leaf value to `f32`, and the sum to `f32` after each addition.
    F32,
    /// Rounds the sum to `f64` after each addition, and the finished margin to `f32` once.
    F64,
}

impl Accumulator {
    /// Returns the accumulator of the forest's producer, which
    /// [`Forest::producer`](crate::forest::Forest::producer) names.
    ///
    /// | producer | adds in |
    /// |---|---|
    /// | XGBoost | `f32` |
    /// | ONNX, treelite | the type of the model's thresholds |
    /// | LightGBM, CatBoost, scikit-learn | `f64` |
    /// | anything else | `f64`, as the [reference interpreter](crate::forest::reference) does |
    ///
    /// ```
    /// use fangorn::{Forest, forest::Accumulator};
    ///
    /// let boosted = Forest::builder(1, 1).producer("xgboost", "3.0.0", "reg:squarederror").build()?;
    /// assert_eq!(Accumulator::of(&boosted), Accumulator::F32);
    /// # Ok::<(), fangorn::forest::VerifyError>(())
    /// ```
    pub fn of(forest: &Forest) -> Self {
        match (&forest.producer.library[..], forest.compare) {
            ("xgboost", _) | ("onnx" | "treelite", CompareType::F32) => Self::F32,
            _ => Self::F64,
        }
    }
}

impl fmt::Display for Accumulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}
