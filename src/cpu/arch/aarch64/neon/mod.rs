//! Kernels for 64-bit ARM, whose every processor has NEON: registers of 16 bytes, 32 of them.
//!
//! It gathers nothing, so walks are those of every machine. What has kernels of its own is what permutes and chooses by
//! bytes: ranks of a byte, blends and their leaves' values, and the copy of rows by column before they are ranked. Their
//! forms were chosen by counting instructions, and by LLVM's models of some processors: nothing was measured on a machine.
//!
//! Words are permuted as their bytes, the lowest first: [`Isa::Neon`](crate::isa::Isa) is for machines that have them so.

pub(in crate::cpu) mod blend;
mod copy;
pub(in crate::cpu) mod rank;

use std::arch::aarch64::*;

pub(in crate::cpu) use copy::columns;

/// Values in a register.
const LANES: usize = 4;

/// Sixteen bytes in a register.
#[inline]
#[target_feature(enable = "neon")]
fn load(bytes: &[u8; 16]) -> uint8x16_t {
    // SAFETY: there are sixteen of them.
    unsafe { vld1q_u8(bytes.as_ptr()) }
}

/// Four values in a register.
#[inline]
#[target_feature(enable = "neon")]
fn four(values: &[f32; LANES]) -> float32x4_t {
    // SAFETY: there are four of them.
    unsafe { vld1q_f32(values.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn store(bytes: uint8x16_t, out: &mut [u8; 16]) {
    // SAFETY: sixteen bytes have the room of sixteen bytes.
    unsafe { vst1q_u8(out.as_mut_ptr(), bytes) }
}
