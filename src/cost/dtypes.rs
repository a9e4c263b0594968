//! The number types that a matrix product may be computed in, and how fast each target is with each of them.

use super::GraphTarget;

/// A number type. The order is that of CMLCompiler (Wen et al., ICS 2023, section 3.2), with 64-bit integers and
/// doubles after the paper's types. The paper puts `i32` and `f16` beside each other; here `i32` comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NumberType {
    /// 0 and 1.
    Bool,
    /// Signed integers of 4 bits.
    I4,
    /// Signed integers of 8 bits.
    I8,
    /// Signed integers of 16 bits.
    I16,
    /// Signed integers of 32 bits.
    I32,
    /// Floats of 16 bits.
    F16,
    /// Floats of 32 bits.
    F32,
    /// Signed integers of 64 bits.
    I64,
    /// Floats of 64 bits.
    F64,
}

impl NumberType {
    /// All types, the smallest first.
    pub const ALL: [Self; 9] =
        [Self::Bool, Self::I4, Self::I8, Self::I16, Self::I32, Self::F16, Self::F32, Self::I64, Self::F64];

    /// Returns the name, such as `f32`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I4 => "i4",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::I64 => "i64",
            Self::F64 => "f64",
        }
    }

    /// Returns the smallest integer type that holds all integers from `least` to `greatest`, or [`Self::F64`] if none
    /// does.
    pub fn of_integers(least: f64, greatest: f64) -> Self {
        let integers = [Self::Bool, Self::I4, Self::I8, Self::I16, Self::I32, Self::I64];
        let fits =
            |number: &Self| number.range().is_some_and(|(from, below)| from <= least && greatest < below);
        integers.into_iter().find(fits).unwrap_or(Self::F64)
    }

    /// Returns the least integer of an integer type, and the first one beyond its greatest.
    fn range(self) -> Option<(f64, f64)> {
        let bits = |bits: i32| Some((-2f64.powi(bits - 1), 2f64.powi(bits - 1)));
        match self {
            Self::Bool => Some((0.0, 2.0)),
            Self::I4 => bits(4),
            Self::I8 => bits(8),
            Self::I16 => bits(16),
            Self::I32 => bits(32),
            Self::I64 => bits(64),
            Self::F16 | Self::F32 | Self::F64 => None,
        }
    }

    /// Returns whether the type represents a value exactly. `-0.0` is no integer.
    ///
    /// ```
    /// use fangorn::cost::NumberType;
    ///
    /// let smallest = |value| NumberType::ALL.into_iter().find(|number| number.holds(value));
    /// assert_eq!(smallest(-8.0), Some(NumberType::I4));
    /// assert_eq!(smallest(0.5), Some(NumberType::F16));
    /// assert_eq!(smallest(0.1), Some(NumberType::F64));
    /// ```
    pub fn holds(self, value: f64) -> bool {
        match (self, self.range()) {
            (_, Some((from, below))) => {
                value.trunc() == value
                    && from <= value
                    && value < below
                    && value.to_bits() != (-0.0f64).to_bits()
            }
            // Halves have 10 bits of a mantissa, reach up to 65504, and below 2^-14 are multiples of 2^-24.
            (Self::F16, _) => {
                let short = value.to_bits().trailing_zeros() >= 52 - 10;
                let scaled = value * 16_777_216.0;
                short && (!value.is_finite() || (value.abs() <= 65504.0 && scaled.trunc() == scaled))
            }
            (Self::F32, _) => f64::from(value as f32).to_bits() == value.to_bits(),
            _ => true,
        }
    }

    /// Returns the greatest magnitude up to which sums of integer-valued products of this type are exact. Products of
    /// integers of up to 32 bits are summed in 32-bit integers, products of other types in their own type.
    pub fn exact_sums(self) -> f64 {
        match self {
            Self::Bool | Self::I4 | Self::I8 | Self::I16 | Self::I32 => f64::from(i32::MAX),
            Self::F16 => 2048.0,
            Self::F32 => 16_777_216.0,
            Self::I64 => i64::MAX as f64,
            Self::F64 => 9_007_199_254_740_992.0,
        }
    }
}

/// The speed of matrix products of each type on each target, relative to `f32`; `None` if there is no maintained
/// implementation.
///
/// - CPUs multiply matrices with the crate `matrixmultiply`, which has `f32` and `f64`: a vector holds half as many
///   doubles. No maintained Rust library multiplies matrices of bytes or of truth values, so a CPU multiplies them as
///   `f32`.
/// - Devices multiply with burn, which holds all matrices there as `f32`, even those of doubles.
pub const PRODUCT_SPEEDS: [(NumberType, Speeds); 9] = [
    (NumberType::Bool, Speeds { cpu: None, device: None }),
    (NumberType::I4, Speeds { cpu: None, device: None }),
    (NumberType::I8, Speeds { cpu: None, device: None }),
    (NumberType::I16, Speeds { cpu: None, device: None }),
    (NumberType::I32, Speeds { cpu: None, device: None }),
    (NumberType::F16, Speeds { cpu: None, device: None }),
    (NumberType::F32, Speeds { cpu: Some(1.0), device: Some(1.0) }),
    (NumberType::I64, Speeds { cpu: None, device: None }),
    (NumberType::F64, Speeds { cpu: Some(0.5), device: None }),
];

/// The speeds of products of one type on each target: see [`PRODUCT_SPEEDS`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speeds {
    /// On a CPU.
    pub cpu: Option<f64>,
    /// On a device of burn's.
    pub device: Option<f64>,
}

impl GraphTarget {
    /// Returns the speed of products of this type relative to `f32`; `None` if the target has no such product.
    pub fn product_speed(self, number: NumberType) -> Option<f64> {
        let (_, speeds) = PRODUCT_SPEEDS.into_iter().find(|(of, _)| *of == number)?;
        match self {
            Self::Cpu => speeds.cpu,
            Self::Device => speeds.device,
        }
    }

    /// Returns the fastest type in which a product of integer matrices is exact. `least` is a type that holds all
    /// elements, and no partial sum is beyond `sums` in magnitude. Of equally fast types it is the smallest. Returns
    /// `None` if the target has no such type.
    ///
    /// ```
    /// use fangorn::cost::{GraphTarget, NumberType};
    ///
    /// let product = |sums| GraphTarget::Cpu.product_type(NumberType::I8, sums);
    /// assert_eq!(product(300.0), Some(NumberType::F32));
    /// assert_eq!(product(1e9), Some(NumberType::F64));
    /// ```
    pub fn product_type(self, least: NumberType, sums: f64) -> Option<NumberType> {
        let exact = |number: &NumberType| sums <= number.exact_sums();
        let larger = NumberType::ALL.into_iter().filter(|number| *number >= least && exact(number));
        let fast = larger.filter_map(|number| Some((self.product_speed(number)?, number)));
        // The first of the fastest stays.
        fast.reduce(|best, other| if other.0 > best.0 { other } else { best }).map(|(_, number)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least and the greatest integer of each type, and one more.
    #[test]
    fn integers_get_the_smallest_type_that_holds_them() {
        let found = |least, greatest| NumberType::of_integers(least, greatest);
        assert_eq!(found(0.0, 1.0), NumberType::Bool);
        assert_eq!((found(-1.0, 0.0), found(-8.0, 7.0)), (NumberType::I4, NumberType::I4));
        assert_eq!((found(0.0, 8.0), found(-128.0, 127.0)), (NumberType::I8, NumberType::I8));
        assert_eq!((found(0.0, 128.0), found(-32768.0, 0.0)), (NumberType::I16, NumberType::I16));
        assert_eq!((found(0.0, 32768.0), found(0.0, 2_147_483_647.0)), (NumberType::I32, NumberType::I32));
        assert_eq!(found(0.0, 2_147_483_648.0), NumberType::I64);
        assert_eq!(
            (found(-2f64.powi(63), 0.0), found(0.0, 2f64.powi(63))),
            (NumberType::I64, NumberType::F64)
        );
    }

    #[test]
    fn a_type_holds_its_greatest_value_and_no_more() {
        let smallest = |value: f64| NumberType::ALL.into_iter().find(|number| number.holds(value));
        let expected = [
            (1.0, NumberType::Bool),
            (-0.0, NumberType::F16),
            (2.0, NumberType::I4),
            (-9.0, NumberType::I8),
            (-129.0, NumberType::I16),
            (65504.0, NumberType::I32),
            (2048.5, NumberType::F32),
            (1023.5, NumberType::F16),
            (1024.5, NumberType::F32),
            (2f64.powi(-24), NumberType::F16),
            (2f64.powi(-25), NumberType::F32),
            (-1.5 * 2f64.powi(-24), NumberType::F32),
            (1e9 + 1.0, NumberType::I32),
            (2f64.powi(40), NumberType::F32),
            (2f64.powi(40) + 1.0, NumberType::I64),
            (2f64.powi(65), NumberType::F32),
            (2f64.powi(65) + 2f64.powi(14), NumberType::F64),
            (1e300, NumberType::F64),
            (f64::INFINITY, NumberType::F16),
            (f64::NAN, NumberType::F16),
        ];
        for (value, number) in expected {
            assert_eq!(smallest(value), Some(number), "{value}");
        }
    }

    /// 2^24 + 1 is the least integer that `f32` does not hold.
    #[test]
    fn products_take_the_fastest_exact_type_of_the_target() {
        let limit = 16_777_216.0;
        for (sums, cpu, device) in [
            (limit, Some(NumberType::F32), Some(NumberType::F32)),
            (limit + 1.0, Some(NumberType::F64), None),
            (1e16, None, None),
        ] {
            assert_eq!(GraphTarget::Cpu.product_type(NumberType::Bool, sums), cpu, "{sums}");
            assert_eq!(GraphTarget::Device.product_type(NumberType::I32, sums), device, "{sums}");
        }
        let all: Vec<NumberType> = PRODUCT_SPEEDS.into_iter().map(|(number, _)| number).collect();
        assert_eq!(all, NumberType::ALL);
    }
}
