//! Tests of fusion plans.

#![allow(clippy::duplicate_mod, reason = "examples share modules")]

mod algorithms;
mod blocks;
mod compressed;
mod dags;
mod execution;
mod exploration;
mod random;
mod selection;
