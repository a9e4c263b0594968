//! burn's operator and kernels on the devices there are.

#![cfg(feature = "burn")]

mod contributions;
mod epilogue;
mod gpu;
mod gpu_properties;
mod gpu_sums;
mod interactions;
mod op;

#[path = "../generate/mod.rs"]
mod generate;
#[path = "../runs/mod.rs"]
mod runs;
#[path = "../support/mod.rs"]
mod support;
