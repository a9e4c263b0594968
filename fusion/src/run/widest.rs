//! Plain loops, compiled for the widest vectors of this machine.

/// Loops that the compiler turns into vectors.
pub(super) trait Loops {
    /// Runs the loops. Implementations are `#[inline(always)]`: code that is compiled by itself has none of the
    /// instructions that [`widest`] allows.
    fn run(self);
}

/// Runs loops, compiled for AVX2 if the machine has it, otherwise for the instructions that every machine of the target
/// has. Results are the same.
#[inline]
pub(super) fn widest(loops: impl Loops) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        #[target_feature(enable = "avx2")]
        fn compiled(loops: impl Loops) {
            loops.run();
        }
        // SAFETY: the machine has AVX2.
        return unsafe { compiled(loops) };
    }
    loops.run();
}
