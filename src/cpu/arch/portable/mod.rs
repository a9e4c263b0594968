//! Kernels for every machine, which the compiler turns into vectors. Portable walks, searches and copies
//! are the generic code in the modules that call kernels.

pub(in crate::cpu) mod blend;
pub(in crate::cpu) mod full;
pub(in crate::cpu) mod rank;
