//! Which columns share a group (co-coding, Elgohary et al., VLDB 2016, section 4). Two groups are joined if their rows
//! then take fewer bytes: because their tuples depend on each other, or because they have few of them.
//!
//! As in the paper, columns are first divided into bins, groups of a bin are joined greedily in pairs, and a sample of
//! the rows estimates what a pair saves. A pair is joined only if all rows show that it saves bytes.

use std::{
    collections::{BTreeMap, HashMap},
    hash::BuildHasherDefault,
};

use rayon::prelude::*;

use super::{
    coding::{Coded, KeyHasher, key},
    sizes::Contents,
};

/// The number of columns of a bin. The effort for a bin grows with the square of it.
const BIN: usize = 32;
/// The number of rows of a sample.
const SAMPLE: usize = 2048;

/// A group of a bin.
struct Member {
    coded: Coded,
    /// The codes of the rows of the sample.
    sample: Vec<u16>,
    bytes: u64,
}

impl Member {
    fn new(coded: Coded, sample: &[usize]) -> Self {
        let of_sample = sample.iter().map(|row| coded.codes[*row]).collect();
        Self { sample: of_sample, bytes: coded.contents().least().1, coded }
    }
}

/// Joins groups of columns as long as that saves bytes.
pub(super) fn joined(mut columns: Vec<Coded>, rows: usize) -> Vec<Coded> {
    // Columns that depend on each other have about as many distinct values.
    columns.sort_by_key(|coded| coded.firsts.len());
    let mut bins = Vec::new();
    while !columns.is_empty() {
        let rest = columns.split_off(BIN.min(columns.len()));
        bins.push(std::mem::replace(&mut columns, rest));
    }
    let sample = sample(rows);
    bins.into_par_iter().flat_map_iter(|bin| joined_in_bin(bin, &sample)).collect()
}

/// Returns rows for a sample: all if there are few, else a row out of each of equal stretches. The row differs from
/// stretch to stretch, so that rows that repeat do not show as one.
fn sample(rows: usize) -> Vec<usize> {
    if rows <= SAMPLE {
        return (0..rows).collect();
    }
    let mut seed = 1u64;
    let mut row = |stretch: usize| {
        let bound = |stretch: usize| (stretch as u64 * rows as u64 / SAMPLE as u64) as usize;
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let (start, end) = (bound(stretch), bound(stretch + 1));
        start + (seed >> 33) as usize % (end - start)
    };
    (0..SAMPLE).map(&mut row).collect()
}

fn joined_in_bin(bin: Vec<Coded>, sample: &[usize]) -> Vec<Coded> {
    let most_refusals = bin.len();
    let mut members: Vec<Option<Member>> =
        bin.into_iter().map(|coded| Some(Member::new(coded, sample))).collect();
    // What each pair saves, by estimate. It is estimated once.
    let mut savings: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    let add_pairs = |members: &[Option<Member>], b: usize, savings: &mut BTreeMap<(usize, usize), u64>| {
        let Some(last) = &members[b] else { return };
        for (a, member) in members[..b].iter().enumerate() {
            let Some(member) = member else { continue };
            let saved = (member.bytes + last.bytes).saturating_sub(estimated(member, last).least().1);
            if saved > 0 {
                savings.insert((a, b), saved);
            }
        }
    };
    (0..members.len()).for_each(|b| add_pairs(&members, b, &mut savings));
    let mut refusals = 0;
    while refusals < most_refusals {
        let Some((pair, _)) = savings.iter().max_by_key(|(_, saved)| **saved) else { break };
        let (a, b) = *pair;
        savings.remove(&(a, b));
        let (Some(left), Some(right)) = (&members[a], &members[b]) else { continue };
        let limit = left.bytes + right.bytes;
        let joint = left.coded.join(&right.coded, limit).map(|joint| Member::new(joint, sample));
        match joint.filter(|joint| joint.bytes < limit) {
            Some(joint) => {
                (members[a], members[b]) = (None, None);
                savings.retain(|pair, _| ![pair.0, pair.1].iter().any(|at| *at == a || *at == b));
                members.push(Some(joint));
                add_pairs(&members, members.len() - 1, &mut savings);
            }
            None => refusals += 1,
        }
    }
    members.into_iter().flatten().map(|member| member.coded).collect()
}

/// Estimates what two groups hold together. The number of tuples is estimated by the square root of the rows that a row
/// of the sample stands for, times the tuples that one row of the sample holds, plus the other tuples of the sample
/// (Charikar et al., "Towards Estimation Error Guarantees for Distinct Values", PODS 2000).
fn estimated(a: &Member, b: &Member) -> Contents {
    let mut counts: HashMap<u64, u32, BuildHasherDefault<KeyHasher>> = HashMap::default();
    let keys = a.sample.iter().zip(&b.sample).map(|(a, b)| key(*a, *b));
    keys.for_each(|key| *counts.entry(key).or_default() += 1);
    let (a, b) = (a.coded.contents(), b.coded.contents());
    let share = a.rows as f64 / counts.values().map(|count| f64::from(*count)).sum::<f64>().max(1.0);
    let single = counts.values().filter(|count| **count == 1).count();
    let tuples = share.sqrt() * single as f64 + (counts.len() - single) as f64;
    let most = counts.values().max().map_or(0.0, |most| f64::from(*most) * share);
    Contents {
        rows: a.rows,
        columns: a.columns + b.columns,
        tuples: (tuples as usize).max(a.tuples.max(b.tuples)).min(a.tuples.saturating_mul(b.tuples)),
        runs: (a.runs + b.runs).min(a.rows),
        most: (most as usize).min(a.most.min(b.most)),
    }
}
