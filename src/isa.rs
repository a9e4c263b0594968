//! Which instructions the CPU's kernels use.

use std::sync::OnceLock;

/// Set to `avx2` or `portable`, it keeps kernels from using more than that: for testing those paths on a machine that has
/// more.
pub const ISA: &str = "FANGORN_ISA";

/// Sets of instructions, each with those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Isa {
    /// What every machine of the target has.
    Portable,
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

#[cfg(not(target_arch = "x86_64"))]
fn able() -> Isa {
    Isa::Portable
}

/// Whether eight values are gathered nearly as soon as they are loaded. On some machines that takes many times as long: AMD's
/// before Zen 4, and Intel's whose microcode keeps gathers from running ahead. None of them says so, so it is measured, once.
#[cfg(target_arch = "x86_64")]
pub(crate) fn gathers() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    // SAFETY: the machine is able.
    *FOUND.get_or_init(|| isa() >= Isa::Avx2 && unsafe { probe::cycles_of_a_gather() } <= probe::FAST)
}

#[cfg(target_arch = "x86_64")]
mod probe {
    use std::{arch::x86_64::*, hint::black_box, time::Instant};

    /// Cycles of a gather of eight values that is fast.
    pub(super) const FAST: f64 = 6.0;
    /// Gathers of a measurement, and multiplications.
    const COUNT: u32 = 256;
    /// Cycles that a multiplication waits for the one before, on every machine that has AVX2.
    const MULTIPLICATION: f64 = 3.0;

    /// Cycles of a gather beside others, by what a chain of multiplications takes: the least of some measurements each.
    #[target_feature(enable = "avx2")]
    pub(super) fn cycles_of_a_gather() -> f64 {
        let least = |f: &mut dyn FnMut()| {
            let times = (0..16).map(|_| {
                let begin = Instant::now();
                f();
                begin.elapsed().as_secs_f64()
            });
            times.fold(f64::INFINITY, f64::min)
        };
        let values = [1.0f32; 64];
        let gathers = least(&mut || {
            let mut sums = [_mm256_setzero_ps(); 4];
            let mut at = black_box(_mm256_setr_epi32(0, 9, 18, 27, 36, 45, 54, 63));
            for _ in 0..COUNT / 4 {
                for sum in &mut sums {
                    // SAFETY: places are below 64.
                    let found = unsafe { _mm256_i32gather_ps::<4>(values.as_ptr(), at) };
                    *sum = _mm256_add_ps(*sum, found);
                }
                at = black_box(at);
            }
            black_box(sums);
        });
        let chain = least(&mut || {
            let mut x = black_box(3u64);
            for _ in 0..COUNT {
                x = black_box(x).wrapping_mul(x);
            }
            black_box(x);
        });
        MULTIPLICATION * gathers / chain.max(1e-9)
    }
}
