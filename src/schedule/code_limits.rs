//! Limits of a kernel's code, for each compiler that turns it into machine code.

/// Limits of a kernel's code. A compiler's time grows faster than the kernel, and not all compilers are equally fast.
///
/// The limits are such that a kernel at their edge compiles in at most three seconds on a core of the
/// machine that `benches/NOTEBOOK.md` names. `benches/gpu/compile_times.py` measures NVIDIA's compilers again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeLimits {
    /// Maximum number of innermost loops, each of which is a walk of its own.
    pub siblings: u32,
    /// Maximum number of walks that advance together in a unit.
    pub lanes: u32,
    /// Maximum number of walks in the kernel's text, with lanes, unrolled loops and branches multiplied out.
    pub walks: u32,
    /// Maximum number of straight-line steps in the kernel's text. Each walk counts as three more steps.
    pub steps: u32,
    /// How many times larger a step's code is if nodes ask questions. `walks` and `steps` are then divided by this
    /// number.
    pub question: u32,
}

impl CodeLimits {
    /// The limits for an unknown compiler. They are those of the slowest that was timed, Mesa's software
    /// driver.
    pub const PORTABLE: Self = Self { siblings: 8, lanes: 8, walks: 24, steps: 90, question: 4 };
    /// The limits for LLVM's PTX and NVIDIA's assembler. 32 walks of six steps are at their edge.
    pub const PTX: Self = Self { siblings: 16, lanes: 32, walks: 32, steps: 288, question: 4 };
}
