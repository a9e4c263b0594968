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
