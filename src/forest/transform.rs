//! What an objective makes of its margins.

/// The last step from margins to values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transform {
    /// Values are the margins.
    Identity,
    /// `1 / (1 + e^-m)`, each output on its own.
    Sigmoid,
    /// `e^m`, each output on its own.
    Exp,
    /// `e^(m_o - max m) / Σ e^(m - max m)` over a row's outputs.
    Softmax,
    /// One value a row: the first output with the largest margin (`multi:softmax`).
    Argmax,
    /// `1` where the margin is above zero, otherwise `0` (`binary:hinge`).
    Step,
}

impl Transform {
    /// Every transform, for tables and tests.
    pub const ALL: [Self; 6] =
        [Self::Identity, Self::Sigmoid, Self::Exp, Self::Softmax, Self::Argmax, Self::Step];

    /// The name in text forms.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Sigmoid => "sigmoid",
            Self::Exp => "exp",
            Self::Softmax => "softmax",
            Self::Argmax => "argmax",
            Self::Step => "step",
        }
    }

    /// Values a row has after the transform, when it has `outputs` margins.
    pub fn width(self, outputs: usize) -> usize {
        if self == Self::Argmax { 1 } else { outputs }
    }

    /// Transforms one row's `f32` margins, as the targets do; `values` has [`Transform::width`] places.
    pub fn apply(self, margins: &[f32], values: &mut [f32]) {
        match self {
            Self::Argmax => values[0] = argmax(margins) as f32,
            _ => {
                values.copy_from_slice(margins);
                self.apply_in_place(values);
            }
        }
    }

    /// The same where a row keeps its width; [`Transform::Argmax`] leaves the margins as they are.
    pub fn apply_in_place(self, row: &mut [f32]) {
        match self {
            Self::Identity | Self::Argmax => {}
            Self::Sigmoid => row.iter_mut().for_each(|m| *m = 1.0 / (1.0 + (-*m).exp())),
            Self::Exp => row.iter_mut().for_each(|m| *m = m.exp()),
            Self::Step => row.iter_mut().for_each(|m| *m = f32::from(u8::from(*m > 0.0))),
            Self::Softmax => {
                let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                row.iter_mut().for_each(|m| *m = (*m - top).exp());
                // The sum is in f64, as XGBoost's is.
                let sum: f64 = row.iter().map(|v| f64::from(*v)).sum();
                row.iter_mut().for_each(|v| *v /= sum as f32);
            }
        }
    }

    /// Transforms one row's `f64` margins, as the reference does.
    pub fn apply_f64(self, margins: &[f64]) -> Vec<f64> {
        match self {
            Self::Identity => margins.to_vec(),
            Self::Sigmoid => margins.iter().map(|m| 1.0 / (1.0 + (-m).exp())).collect(),
            Self::Exp => margins.iter().map(|m| m.exp()).collect(),
            Self::Step => margins.iter().map(|m| f64::from(u8::from(*m > 0.0))).collect(),
            Self::Argmax => vec![argmax(margins) as f64],
            Self::Softmax => {
                let top = margins.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let powers: Vec<f64> = margins.iter().map(|m| (m - top).exp()).collect();
                let sum: f64 = powers.iter().sum();
                powers.iter().map(|p| p / sum).collect()
            }
        }
    }
}

/// Index of the first largest entry.
pub(crate) fn argmax<T: PartialOrd>(row: &[T]) -> usize {
    (1..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best })
}
