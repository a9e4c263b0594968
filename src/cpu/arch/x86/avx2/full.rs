//! Walks one row through full trees, four trees side by side. A step of a walk is four instructions, in assembly.

use crate::cpu::{
    arch::portable::full as portable,
    engine::full::{FullSplit, SIDE_BY_SIDE},
};

// The assembly finds split `n` at byte `8 n`, and its column four bytes further on.
const _: () = assert!(size_of::<FullSplit>() == 8 && std::mem::offset_of!(FullSplit, column) == 4);

/// Returns whether some value is NaN.
#[target_feature(enable = "avx2")]
pub(in crate::cpu) fn any_missing(values: &[f32]) -> bool {
    portable::any_missing(values)
}

/// Takes `COUNT` steps from the root of each tree and returns the number that the row has reached in each,
/// in straight-line code and with AVX. The end of a loop would be mispredicted once in each four trees. A
/// load without AVX would wait for the previous contents of its register.
///
/// # Safety
/// The machine has AVX. Each of `trees` points to `2^COUNT` splits, the unused number 0 among them.
/// Their columns lie inside the row at `row`.
#[cfg_attr(miri, allow(dead_code, reason = "Miri runs no assembly"))]
#[inline(always)]
pub(in crate::cpu) unsafe fn steps<const COUNT: u32>(
    row: *const f32,
    trees: [*const FullSplit; SIDE_BY_SIDE],
) -> [usize; SIDE_BY_SIDE] {
    let mut numbers = [1; SIDE_BY_SIDE];
    for _ in 0..COUNT {
        // SAFETY: the caller upholds that the machine has AVX, that `2^COUNT` splits stand at each tree
        // and that their columns lie inside the row. Before the last step a number is below `2^COUNT`.
        unsafe { step(row, &trees, &mut numbers) };
    }
    numbers
}

/// Takes one step of each walk.
///
/// # Safety
/// The machine has AVX. Each number is that of a split of its tree, and the split's column lies inside
/// the row at `row`.
#[cfg_attr(miri, allow(dead_code, reason = "Miri runs no assembly"))]
#[inline(always)]
unsafe fn step(
    row: *const f32,
    trees: &[*const FullSplit; SIDE_BY_SIDE],
    numbers: &mut [usize; SIDE_BY_SIDE],
) {
    let [a, b, c, d] = numbers;
    // SAFETY: the code writes registers only. It reads splits and values, and the caller upholds that
    // they exist.
    unsafe {
        std::arch::asm!(
            "mov {x:e}, dword ptr [{ta} + 8*{a} + 4]",
            "mov {y:e}, dword ptr [{tb} + 8*{b} + 4]",
            "vmovss {p}, dword ptr [{row} + {x}]",
            "vmovss {q}, dword ptr [{row} + {y}]",
            "mov {x:e}, dword ptr [{tc} + 8*{c} + 4]",
            "mov {y:e}, dword ptr [{td} + 8*{d} + 4]",
            "vmovss {r}, dword ptr [{row} + {x}]",
            "vmovss {s}, dword ptr [{row} + {y}]",
            "vucomiss {p}, dword ptr [{ta} + 8*{a}]",
            "adc {a}, {a}",
            "vucomiss {q}, dword ptr [{tb} + 8*{b}]",
            "adc {b}, {b}",
            "vucomiss {r}, dword ptr [{tc} + 8*{c}]",
            "adc {c}, {c}",
            "vucomiss {s}, dword ptr [{td} + 8*{d}]",
            "adc {d}, {d}",
            row = in(reg) row,
            ta = in(reg) trees[0],
            tb = in(reg) trees[1],
            tc = in(reg) trees[2],
            td = in(reg) trees[3],
            a = inout(reg) *a,
            b = inout(reg) *b,
            c = inout(reg) *c,
            d = inout(reg) *d,
            x = out(reg) _,
            y = out(reg) _,
            p = out(xmm_reg) _,
            q = out(xmm_reg) _,
            r = out(xmm_reg) _,
            s = out(xmm_reg) _,
            options(nostack, readonly, pure),
        );
    }
}
