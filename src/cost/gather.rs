//! Finds out whether a machine gathers values fast.

use std::sync::OnceLock;

use crate::isa::{Isa, gathers_said, isa};

/// Returns whether a gather of eight values takes little longer than a load. On some machines a gather takes
/// many times as long: on AMD's before Zen 4, and on Intel's with microcode that keeps gathers from running
/// ahead. No machine reports this, so the time of a gather is measured, once.
pub(crate) fn gathers() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let limit = super::Machine::here().hardware.gather;
        let measured = || cfg!(not(miri)) && seconds_of_a_gather().is_some_and(|seconds| seconds <= limit);
        isa() >= Isa::Avx2 && gathers_said().unwrap_or_else(measured)
    })
}

/// Measures the seconds of a gather of eight values from the first-level cache, at the clock of the shipped costs.
/// Returns `None` without AVX2.
pub(super) fn seconds_of_a_gather() -> Option<f64> {
    // SAFETY: `isa` says that the machine has AVX2.
    let cycles = (isa() >= Isa::Avx2).then(|| unsafe { probe::cycles_of_a_gather() })?;
    Some(cycles / super::Machine::here().hardware.clock)
}

mod probe {
    use std::{arch::asm, time::Instant};

    /// Gathers in one measurement, and multiplications in the chain that they are compared with.
    const COUNT: u32 = 256;
    /// Cycles that a multiplication waits for the one before, on every machine that has AVX2.
    const MULTIPLICATION: f64 = 3.0;

    /// Measures the cycles of one gather beside other gathers. A chain of multiplications, whose latency
    /// is known, tells how long a cycle takes. Both times are the least of 16 measurements. Gathers and
    /// multiplications are written in assembly: a compiler would make one gather of equal gathers, and
    /// would multiply in memory if the value were hidden from it.
    #[target_feature(enable = "avx2")]
    pub(super) fn cycles_of_a_gather() -> f64 {
        let least = |f: &dyn Fn()| {
            let times = (0..16).map(|_| {
                let begin = Instant::now();
                f();
                begin.elapsed().as_secs_f64()
            });
            times.fold(f64::INFINITY, f64::min)
        };
        let values = [1.0f32; 64];
        let indices = [0, 9, 18, 27, 36, 45, 54, 63];
        let gathers = least(&|| {
            for _ in 0..COUNT / 4 {
                // SAFETY: `indices` are eight indices below 64, the number of values.
                unsafe {
                    asm!(
                        "vmovdqu {at}, [{indices}]",
                        "vpxor {found}, {found}, {found}",
                        "vpcmpeqd {mask}, {mask}, {mask}",
                        "vgatherdps {found}, [{values} + {at} * 4], {mask}",
                        "vpxor {found}, {found}, {found}",
                        "vpcmpeqd {mask}, {mask}, {mask}",
                        "vgatherdps {found}, [{values} + {at} * 4], {mask}",
                        "vpxor {found}, {found}, {found}",
                        "vpcmpeqd {mask}, {mask}, {mask}",
                        "vgatherdps {found}, [{values} + {at} * 4], {mask}",
                        "vpxor {found}, {found}, {found}",
                        "vpcmpeqd {mask}, {mask}, {mask}",
                        "vgatherdps {found}, [{values} + {at} * 4], {mask}",
                        indices = in(reg) indices.as_ptr(), values = in(reg) values.as_ptr(),
                        at = out(ymm_reg) _, found = out(ymm_reg) _, mask = out(ymm_reg) _,
                        options(nostack, readonly, preserves_flags),
                    );
                }
            }
        });
        let chain = least(&|| {
            let mut x = 3u64;
            for _ in 0..COUNT {
                // SAFETY: the instruction reads and writes only a register.
                unsafe { asm!("imul {x}, {x}", x = inout(reg) x, options(nomem, nostack)) };
            }
        });
        MULTIPLICATION * gathers / chain.max(1e-9)
    }
}
