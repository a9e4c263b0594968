//! The types of numbers that a product of matrices may be computed in, and what each target gains from them.

use super::GraphTarget;

/// A type of numbers, in the order of CMLCompiler (Wen et al., ICS 2023, section 3.2), with doubles above it.
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
    /// Floats of 32 bits.
    F32,
    /// Floats of 64 bits.
    F64,
}

impl NumberType {
    /// All types, the smallest first.
    pub const ALL: [Self; 7] = [Self::Bool, Self::I4, Self::I8, Self::I16, Self::I32, Self::F32, Self::F64];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I4 => "i4",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// Returns the smallest type that holds the integers from `least` to `greatest`. Beyond those of 32 bits it is
    /// doubles.
    pub fn of_integers(least: f64, greatest: f64) -> Self {
        let fits = |(from, to): (f64, f64)| from <= least && greatest <= to;
        let bits = |bits: i32| (-2f64.powi(bits - 1), 2f64.powi(bits - 1) - 1.0);
        let ranges = [
            (Self::Bool, (0.0, 1.0)),
            (Self::I4, bits(4)),
            (Self::I8, bits(8)),
            (Self::I16, bits(16)),
            (Self::I32, bits(32)),
        ];
        ranges.into_iter().find(|(_, range)| fits(*range)).map_or(Self::F64, |(number, _)| number)
    }

    /// Returns the number up to which a sum of integers is exact where products of this type are summed: those of
    /// small integers in integers of 32 bits, those of floats in floats of the same type.
    pub fn exact_sums(self) -> f64 {
        match self {
            Self::Bool | Self::I4 | Self::I8 | Self::I16 | Self::I32 => f64::from(i32::MAX),
            Self::F32 => 16_777_216.0,
            Self::F64 => 9_007_199_254_740_992.0,
        }
    }
}

/// How many products of a type a target computes while it computes one of `f32`; `None` where it has none that is
/// kept in order.
///
/// - CPUs multiply matrices with the crate `matrixmultiply`, which has `f32` and `f64`: a vector holds half as many
///   doubles. No Rust library that is kept in order multiplies matrices of bytes or of truth values, so on a CPU these
///   gain nothing but by becoming `f32`.
/// - Devices multiply with burn, whose matrices are of `f32` there, doubles among them.
pub const PRODUCT_SPEEDS: [(NumberType, Speeds); 7] = [
    (NumberType::Bool, Speeds { cpu: None, device: None }),
    (NumberType::I4, Speeds { cpu: None, device: None }),
    (NumberType::I8, Speeds { cpu: None, device: None }),
    (NumberType::I16, Speeds { cpu: None, device: None }),
    (NumberType::I32, Speeds { cpu: None, device: None }),
    (NumberType::F32, Speeds { cpu: Some(1.0), device: Some(1.0) }),
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
    /// Returns how many products of this type are computed in the time of one of `f32`; `None` if the target has none.
    pub fn product_speed(self, number: NumberType) -> Option<f64> {
        let (_, speeds) = PRODUCT_SPEEDS.into_iter().find(|(of, _)| *of == number)?;
        match self {
            Self::Cpu => speeds.cpu,
            Self::Device => speeds.device,
        }
    }

    /// Returns the fastest type of a product whose elements are integers that `least` holds, and whose sums have no
    /// partial sum beyond `sums`. The smallest one is returned of those that are as fast, and `None` if the target
    /// has no such product that is exact.
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
        assert_eq!(found(0.0, 2_147_483_648.0), NumberType::F64);
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
