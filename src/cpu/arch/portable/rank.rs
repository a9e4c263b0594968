//! Counts the thresholds of a group for ranks.

use crate::cpu::{nodes::Compare, ranking::count::FAN};

/// Returns how many thresholds of a group are at most a value.
#[inline(always)]
pub(in crate::cpu) fn at_most<C: Compare>(group: &[C; FAN], value: C) -> u32 {
    group.iter().map(|threshold| u32::from(*threshold <= value)).sum()
}
