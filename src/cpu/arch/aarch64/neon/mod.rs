//! Kernels for 64-bit ARM. Every such processor has NEON: 32 registers of 16 bytes.
//!
//! NEON has no gathers, so walks are the portable ones. Kernels here permute bytes or choose among
//! bytes: ranks of one byte, blends, sums of leaf values in blends, and the copy of rows to columns
//! before they are ranked. Instruction counts and LLVM's models of some processors decided the form of
//! these kernels. Nothing was measured on a machine.
//!
//! Kernels permute a word as its bytes, the lowest byte first. [`Isa::Neon`](crate::isa::Isa) stands
//! only for machines with that byte order.

pub(in crate::cpu) mod blend;
mod copy;
pub(in crate::cpu) mod rank;

use std::arch::aarch64::*;

pub(in crate::cpu) use copy::columns;

/// Values of `f32` in a register.
const LANES: usize = 4;

/// Loads sixteen bytes into a register.
#[inline]
#[target_feature(enable = "neon")]
fn load(bytes: &[u8; 16]) -> uint8x16_t {
    // SAFETY: `bytes` has sixteen bytes.
    unsafe { vld1q_u8(bytes.as_ptr()) }
}

/// Loads four values into a register.
#[inline]
#[target_feature(enable = "neon")]
fn four(values: &[f32; LANES]) -> float32x4_t {
    // SAFETY: `values` has four values.
    unsafe { vld1q_f32(values.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn store(bytes: uint8x16_t, out: &mut [u8; 16]) {
    // SAFETY: `out` has room for sixteen bytes.
    unsafe { vst1q_u8(out.as_mut_ptr(), bytes) }
}
