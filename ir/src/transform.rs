//! Transforms from margins to values. They are part of a model's meaning, and are here because kernels
//! compute them too.

/// The transform from margins to values. Its margins have already been multiplied by the forest's scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transform {
    /// `m`: values are the margins.
    #[default]
    Identity,
    /// `1 / (1 + e^-m)`, each output on its own.
    Sigmoid,
    /// `e^m`, each output on its own.
    Exp,
    /// `e^(m_o - max m) / Σ e^(m - max m)` over a row's outputs.
    Softmax,
    /// `e^(m_o - max m) / Σ e^(m - max m)` over the outputs of a row whose margin is not zero (above 10^-7 in
    /// magnitude). The other outputs become zero (ONNX `SOFTMAX_ZERO`, as ONNX Runtime computes it).
    SoftmaxZero,
    /// One value a row: the first output with the largest margin (`multi:softmax`).
    Argmax,
    /// `1` if the margin is above zero, otherwise `0` (`binary:hinge`).
    Step,
    /// `ln(1 + e^m)`, each output on its own (LightGBM's `cross_entropy_lambda`).
    Softplus,
    /// `m |m|`, each output on its own (LightGBM's `reg_sqrt`).
    SignedSquare,
    /// `2^-m`, each output on its own (isolation forests, whose scale is one over `c(n)`).
    PowerOfTwo,
    /// `√2 erf⁻¹(2m - 1)`, each output on its own (ONNX `PROBIT`).
    Probit,
    /// Two values of a single margin: `1 / (1 + e^m)` and `1 / (1 + e^-m)`.
    SigmoidPair,
    /// Two values of a single margin: `1 - m` and `m`.
    ComplementPair,
    /// Two values of a single margin: `-m` and `m`.
    OppositePair,
    /// Two values of two margins: `m_0` and `e^(2 m_1)`, a mean and its variance (CatBoost's
    /// `RMSEWithUncertainty`, whose second margin is the logarithm of a standard deviation).
    MeanAndVariance,
    /// Values that ascend: the first value is the first margin, and each further value is the value before it
    /// plus `ln(1 + e^m) + 10^-6` of its own margin `m` (several expectiles of XGBoost's
    /// `reg:expectileerror`).
    CumulativeSoftplus,
}

/// The smallest difference of two adjacent values of [`Transform::CumulativeSoftplus`].
pub const LEAST_INCREMENT: f32 = 1e-6;

impl Transform {
    /// Every transform, for tables and tests.
    pub const ALL: [Self; 16] = [
        Self::Identity,
        Self::Sigmoid,
        Self::Exp,
        Self::Softmax,
        Self::SoftmaxZero,
        Self::Argmax,
        Self::Step,
        Self::Softplus,
        Self::SignedSquare,
        Self::PowerOfTwo,
        Self::Probit,
        Self::SigmoidPair,
        Self::ComplementPair,
        Self::OppositePair,
        Self::MeanAndVariance,
        Self::CumulativeSoftplus,
    ];

    /// Returns the transform's name in text forms, such as `sigmoid`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Sigmoid => "sigmoid",
            Self::Exp => "exp",
            Self::Softmax => "softmax",
            Self::SoftmaxZero => "softmax_zero",
            Self::Argmax => "argmax",
            Self::Step => "step",
            Self::Softplus => "softplus",
            Self::SignedSquare => "signed_square",
            Self::PowerOfTwo => "power_of_two",
            Self::Probit => "probit",
            Self::SigmoidPair => "sigmoid_pair",
            Self::ComplementPair => "complement_pair",
            Self::OppositePair => "opposite_pair",
            Self::MeanAndVariance => "mean_and_variance",
            Self::CumulativeSoftplus => "cumulative_softplus",
        }
    }

    /// Returns the transform with this name, or `None` if there is none.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }

    /// Whether a single margin becomes two values.
    pub fn is_pair(self) -> bool {
        matches!(self, Self::SigmoidPair | Self::ComplementPair | Self::OppositePair)
    }

    /// Whether each margin becomes one value that depends on no other margin.
    pub fn is_elementwise(self) -> bool {
        !self.is_pair() && !self.is_of_row() && !matches!(self, Self::Argmax | Self::MeanAndVariance)
    }

    /// Whether a row has as many values as margins, and a value depends on several margins of the row.
    pub fn is_of_row(self) -> bool {
        matches!(self, Self::Softmax | Self::SoftmaxZero | Self::CumulativeSoftplus)
    }

    /// Returns the number of margins that the transform needs, or `None` if it takes any number.
    pub fn outputs(self) -> Option<u32> {
        match self {
            _ if self.is_pair() => Some(1),
            Self::MeanAndVariance => Some(2),
            _ => None,
        }
    }

    /// Returns the number of values that `outputs` margins become.
    pub fn width<N: Copy + From<u8> + std::ops::Mul<Output = N>>(self, outputs: N) -> N {
        match self {
            Self::Argmax => N::from(1),
            _ if self.is_pair() => outputs * N::from(2),
            _ => outputs,
        }
    }

    /// Transforms one row's `f32` margins, as the targets do. `values` has [`Transform::width`] elements.
    pub fn apply(self, margins: &[f32], values: &mut [f32]) {
        match self {
            Self::Argmax => values[0] = argmax(margins) as f32,
            _ if self.is_pair() => {
                for (m, pair) in margins.iter().zip(values.chunks_exact_mut(2)) {
                    pair.copy_from_slice(&match self {
                        Self::SigmoidPair => [sigmoid(-*m), sigmoid(*m)],
                        Self::ComplementPair => [1.0 - m, *m],
                        _ => [-m, *m],
                    });
                }
            }
            _ => {
                values.copy_from_slice(margins);
                self.apply_in_place(values);
            }
        }
    }

    /// Transforms one row's `f32` margins in place. If the transform changes the number of values of a row,
    /// the margins stay as they are.
    pub fn apply_in_place(self, row: &mut [f32]) {
        match self {
            // The largest of one margin is the first, which has index 0.
            Self::Argmax if row.len() == 1 => row[0] = 0.0,
            Self::Identity | Self::Argmax | Self::SigmoidPair | Self::ComplementPair | Self::OppositePair => {
            }
            Self::Sigmoid => row.iter_mut().for_each(|m| *m = sigmoid(*m)),
            Self::Exp => row.iter_mut().for_each(|m| *m = m.exp()),
            Self::Step => row.iter_mut().for_each(|m| *m = f32::from(u8::from(*m > 0.0))),
            Self::Softplus => row.iter_mut().for_each(|m| *m = softplus(*m)),
            Self::SignedSquare => row.iter_mut().for_each(|m| *m *= m.abs()),
            Self::PowerOfTwo => row.iter_mut().for_each(|m| *m = (-*m).exp2()),
            Self::Probit => row.iter_mut().for_each(|m| *m = probit(f64::from(*m)) as f32),
            Self::MeanAndVariance => row.iter_mut().skip(1).for_each(|m| *m = (2.0 * *m).exp()),
            Self::CumulativeSoftplus => {
                for o in 1..row.len() {
                    row[o] = row[o - 1] + softplus(row[o]) + LEAST_INCREMENT;
                }
            }
            Self::Softmax | Self::SoftmaxZero => {
                let counts = |m: f32| self == Self::Softmax || m.abs() > 1e-7;
                let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                row.iter_mut().for_each(|m| *m = if counts(*m) { (*m - top).exp() } else { 0.0 });
                // XGBoost, too, adds in f64.
                let sum: f64 = row.iter().map(|v| f64::from(*v)).sum();
                // No value counts where the sum is 0. A margin of infinity makes all values NaN, as in XGBoost.
                if sum != 0.0 {
                    row.iter_mut().for_each(|v| *v /= sum as f32);
                }
            }
        }
    }

    /// Returns the values of one row's `f64` margins, as the reference interpreter computes them.
    pub fn apply_f64(self, margins: &[f64]) -> Vec<f64> {
        let each = |f: fn(f64) -> f64| margins.iter().map(|m| f(*m)).collect();
        let pairs = |f: fn(f64) -> [f64; 2]| margins.iter().flat_map(|m| f(*m)).collect();
        match self {
            Self::Identity => margins.to_vec(),
            Self::Sigmoid => each(|m| 1.0 / (1.0 + (-m).exp())),
            Self::Exp => each(f64::exp),
            Self::Step => each(|m| f64::from(u8::from(m > 0.0))),
            Self::Softplus => each(softplus_f64),
            Self::SignedSquare => each(|m| m * m.abs()),
            Self::PowerOfTwo => each(|m| (-m).exp2()),
            Self::Probit => each(probit),
            Self::Argmax => vec![argmax(margins) as f64],
            Self::SigmoidPair => pairs(|m| [1.0 / (1.0 + m.exp()), 1.0 / (1.0 + (-m).exp())]),
            Self::ComplementPair => pairs(|m| [1.0 - m, m]),
            Self::OppositePair => pairs(|m| [-m, m]),
            Self::MeanAndVariance => {
                margins.iter().enumerate().map(|(o, m)| if o == 0 { *m } else { (2.0 * m).exp() }).collect()
            }
            Self::CumulativeSoftplus => {
                let mut values = margins.to_vec();
                for o in 1..values.len() {
                    values[o] = values[o - 1] + softplus_f64(values[o]) + f64::from(LEAST_INCREMENT);
                }
                values
            }
            Self::Softmax | Self::SoftmaxZero => {
                let counts = |m: f64| self == Self::Softmax || m.abs() > 1e-7;
                let top = margins.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let power = |m: &f64| if counts(*m) { (m - top).exp() } else { 0.0 };
                let powers: Vec<f64> = margins.iter().map(power).collect();
                let sum: f64 = powers.iter().sum();
                powers.iter().map(|p| if sum == 0.0 { 0.0 } else { p / sum }).collect()
            }
        }
    }
}

fn sigmoid(m: f32) -> f32 {
    1.0 / (1.0 + (-m).exp())
}

/// Returns `ln(1 + e^m)`, without overflow for any `m`.
fn softplus(m: f32) -> f32 {
    m.max(0.0) + (-m.abs()).exp().ln_1p()
}

fn softplus_f64(m: f64) -> f64 {
    m.max(0.0) + (-m.abs()).exp().ln_1p()
}

/// Returns `√2 erf⁻¹(2p - 1)` by Winitzki's approximation of the inverse error function (2008, "A handy
/// approximation for the error function and its inverse"), which is what ONNX Runtime computes.
fn probit(p: f64) -> f64 {
    let x = 2.0 * p - 1.0;
    let log = ((1.0 - x) * (1.0 + x)).ln();
    let a = 2.0 / (std::f64::consts::PI * 0.147) + 0.5 * log;
    let root = (a * a - log / 0.147).sqrt() - a;
    std::f64::consts::SQRT_2 * x.signum() * root.sqrt()
}

/// Returns the index of the largest entry, or of the first one if several are equal.
pub fn argmax<T: PartialOrd>(row: &[T]) -> usize {
    (1..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best })
}
