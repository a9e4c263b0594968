//! Whether a machine gathers values fast.

use std::sync::OnceLock;

use crate::isa::{Isa, gathers_said, isa};

/// Whether eight values are gathered nearly as soon as they are loaded. On some machines that takes many times as long: AMD's
/// before Zen 4, and Intel's whose microcode keeps gathers from running ahead. None of them says so, so it is measured, once.
pub(crate) fn gathers() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let measured = || {
            let hardware = &super::Machine::here().hardware;
            // SAFETY: the machine is able.
            let cycles = || unsafe { probe::cycles_of_a_gather() };
            cfg!(not(miri)) && cycles() / hardware.clock <= hardware.gather
        };
        isa() >= Isa::Avx2 && gathers_said().unwrap_or_else(measured)
    })
}

mod probe {
    use std::{arch::asm, time::Instant};

    /// Gathers of a measurement, and multiplications.
    const COUNT: u32 = 256;
    /// Cycles that a multiplication waits for the one before, on every machine that has AVX2.
    const MULTIPLICATION: f64 = 3.0;

    /// Cycles of a gather beside others, by what a chain of multiplications takes: the least of some measurements each. Written out,
    /// because a compiler would gather once what is the same, and multiply in memory what it must not know.
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
        let places = [0, 9, 18, 27, 36, 45, 54, 63];
        let gathers = least(&|| {
            for _ in 0..COUNT / 4 {
                // SAFETY: places are below 64.
                unsafe {
                    asm!(
                        "vmovdqu {at}, [{places}]",
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
                        places = in(reg) places.as_ptr(), values = in(reg) values.as_ptr(),
                        at = out(ymm_reg) _, found = out(ymm_reg) _, mask = out(ymm_reg) _,
                        options(nostack, readonly, preserves_flags),
                    );
                }
            }
        });
        let chain = least(&|| {
            let mut x = 3u64;
            for _ in 0..COUNT {
                // SAFETY: an instruction between registers.
                unsafe { asm!("imul {x}, {x}", x = inout(reg) x, options(nomem, nostack)) };
            }
        });
        MULTIPLICATION * gathers / chain.max(1e-9)
    }
}
