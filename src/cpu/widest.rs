//! Plain loops, compiled for the widest vectors of this machine.

use crate::isa;

/// Loops that the compiler turns into vectors.
pub trait Loops {
    /// The type of the loops' result.
    type Result;

    /// Runs the loops. Implementations are `#[inline(always)]`: code that is compiled by itself has none of the
    /// instructions that [`widest`] allows.
    fn run(self) -> Self::Result;
}

/// Runs loops, compiled for AVX2 and FMA if the machine has them and `FANGORN_ISA` allows them, otherwise for the
/// instructions that every machine of the target has. Results are the same, unless the loops call `mul_add`.
///
/// ```
/// use fangorn::cpu::{Loops, widest};
///
/// struct Sum<'a>(&'a [u32]);
///
/// impl Loops for Sum<'_> {
///     type Result = u32;
///
///     #[inline(always)]
///     fn run(self) -> u32 {
///         self.0.iter().sum()
///     }
/// }
///
/// assert_eq!(widest(Sum(&[1, 2, 3])), 6);
/// ```
#[inline]
pub fn widest<L: Loops>(loops: L) -> L::Result {
    #[cfg(target_arch = "x86_64")]
    if has_fma() {
        #[target_feature(enable = "avx2,fma")]
        fn compiled<L: Loops>(loops: L) -> L::Result {
            loops.run()
        }
        // SAFETY: `has_fma` says that the machine has AVX2 and FMA.
        return unsafe { compiled(loops) };
    }
    loops.run()
}

/// Returns whether [`widest`] has one instruction for a multiplication and an addition.
pub(super) fn has_fma() -> bool {
    isa::fma()
}
