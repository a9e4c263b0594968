//! Code that a compiler makes vectors of, for every machine. Walks, ranks and copies of it are the generic code in the modules that call
//! kernels.

pub(in crate::cpu) mod blend;
