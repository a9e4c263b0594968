//! Kernels for 64-bit ARM.

pub(in crate::cpu) mod neon;
