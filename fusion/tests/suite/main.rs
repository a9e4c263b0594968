//! Tests of fusion plans.

mod dags;
