//! Tests of fusion plans.

mod algorithms;
mod dags;
mod execution;
mod exploration;
mod random;
mod selection;
