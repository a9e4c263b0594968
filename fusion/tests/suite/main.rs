//! Tests of fusion plans.

#![allow(clippy::duplicate_mod, reason = "two examples share the module newton")]

mod algorithms;
mod dags;
mod execution;
mod exploration;
mod random;
mod selection;
