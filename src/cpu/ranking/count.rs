//! Counts the thresholds of a sorted table that are less than or equal to a value. This count is the value's
//! rank.
//!
//! A table is a tree of groups of [`FAN`] ascending thresholds. The children of a group stand one after the
//! other on the level below. In each group the search counts the thresholds that are less than or equal to
//! the value, and goes on in the child with this index. On the last level, `FAN` times the group's index plus
//! this count is the result.

use super::super::nodes::Compare;

/// Thresholds in a group.
pub(crate) const FAN: usize = 16;
/// Values that are compared together.
const LANES: usize = 16;

/// Writes into `found`, for each value, the number of thresholds that are less than or equal to it. `levels`
/// holds the index in `groups` at which each level begins, the root's level first. `root` is the number of
/// thresholds in the root. The caller fills `found` with zeros.
#[inline(always)]
pub(crate) fn count_at_most<C: Compare, const N: usize>(
    groups: &[[C; FAN]],
    levels: &[u32],
    root: usize,
    values: &[C; N],
    found: &mut [u32; N],
) {
    #[cfg(target_arch = "x86_64")]
    if let (Some(groups), Some(values)) = (C::singles(groups.as_flattened()), C::singles(values))
        && let Some(values) = values.first_chunk::<N>()
        && crate::cpu::arch::x86::avx512::count::count(groups.as_chunks().0, levels, root, values, found)
    {
        return;
    }
    let mut levels = levels;
    if let (true, Some((first, below))) = (N.is_multiple_of(LANES), levels.split_first()) {
        let root = &groups[*first as usize][..root];
        for (values, found) in values.as_chunks().0.iter().zip(found.as_chunks_mut().0) {
            *found = counts(root, values);
        }
        levels = below;
    }
    for level in levels {
        let groups = &groups[*level as usize..];
        for (value, found) in values.iter().zip(found.iter_mut()) {
            let within: u32 = groups[*found as usize].iter().map(|t| u32::from(*t <= *value)).sum();
            *found = *found * FAN as u32 + within;
        }
    }
}

/// Returns, for each of sixteen values, the number of thresholds that are less than or equal to it.
#[inline(always)]
fn counts<C: Compare>(thresholds: &[C], values: &[C; LANES]) -> [u32; LANES] {
    let mut counts = [0; LANES];
    for t in thresholds {
        for (count, value) in counts.iter_mut().zip(values) {
            *count += u32::from(*t <= *value);
        }
    }
    counts
}
