//! Which instructions the CPU's kernels use.

use std::sync::OnceLock;

/// Set to `avx2`, `neon` or `portable`, it keeps kernels from using more than that: for testing those paths on a machine that has
/// more.
pub const ISA: &str = "FANGORN_ISA";

/// Sets of instructions. Of one architecture's each has those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Isa {
    /// What every machine of the target has.
    Portable,
    /// Of 64-bit ARM.
    Neon,
    /// Of x86-64, as what follows.
    Avx2,
    /// F, DQ and BW.
    Avx512,
}

/// What this machine is able to, and is allowed.
pub(crate) fn isa() -> Isa {
    static FOUND: OnceLock<Isa> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let allowed = match std::env::var(ISA).as_deref() {
            Ok("portable") => Isa::Portable,
            Ok("neon") if cfg!(target_arch = "aarch64") => Isa::Neon,
            Ok("avx2") => Isa::Avx2,
            _ => Isa::Avx512,
        };
        able().min(allowed)
    })
}

#[cfg(target_arch = "x86_64")]
fn able() -> Isa {
    let avx2 = is_x86_feature_detected!("avx2");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw");
    match (avx2, avx512) {
        (true, true) => Isa::Avx512,
        (true, false) => Isa::Avx2,
        _ => Isa::Portable,
    }
}

#[cfg(target_arch = "aarch64")]
fn able() -> Isa {
    // Kernels permute a word's bytes the lowest first; Miri knows few of the instructions.
    if cfg!(any(target_endian = "big", miri)) { Isa::Portable } else { Isa::Neon }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn able() -> Isa {
    Isa::Portable
}

/// Whether eight values are gathered nearly as soon as they are loaded. On some machines that takes many times as long: AMD's
/// before Zen 4, and Intel's whose microcode keeps gathers from running ahead. None of them says so, so it is measured, once.
#[cfg(target_arch = "x86_64")]
pub(crate) fn gathers() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let able = isa() >= Isa::Avx2 && cfg!(not(miri));
        // SAFETY: the machine is able.
        able && unsafe { probe::cycles_of_a_gather() } <= probe::FAST
    })
}

#[cfg(target_arch = "x86_64")]
mod probe {
    use std::{arch::asm, time::Instant};

    /// Cycles of a gather of eight values that is fast.
    pub(super) const FAST: f64 = 6.0;
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
