//! Tests of fusion plans.

mod dags;
mod execution;
mod exploration;
mod random;
mod selection;
