//! What finds the leaves of a block of rows in a block of trees: an engine a file or folder, with its tables.
//!
//! | engine | for |
//! |---|---|
//! | [`walk`] | every forest, on every machine: a split a step |
//! | [`tiles`] | schedules with `tileNodes`: a tile of splits a step |
//! | [`blend`] | 64 rows: every split of a tree at once |
//! | [`registers`] | a few rows: a row in registers, four levels a step |
//! | [`full`] | a few rows: trees filled up, four side by side |
//!
//! Walks of rows in vectors, and of one row through 64 trees abreast, have no tables of their own and are in
//! [`arch`](super::arch). Which engine serves what is chosen in [`select`](super::select) and `Run::engine`.

pub(super) mod blend;
pub(super) mod full;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(super) mod registers;
pub(super) mod tiles;
pub(super) mod walk;
