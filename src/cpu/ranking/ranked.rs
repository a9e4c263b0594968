//! Ranks all rows of a call before they are walked.

use std::{cell::RefCell, thread::LocalKey};

use super::{
    super::rows::{Row, Rows},
    Rank, Ranker,
};
use crate::{cost::Machine, error::Result, parallel, ranks::Width};

/// Rows of ranks, by the width of a rank.
pub(in crate::cpu) enum Ranked<'r, 'a> {
    U8(&'r Rows<'a, u8>),
    U16(&'r Rows<'a, u16>),
}

/// Ranks `rows` into scratch that the thread keeps, and lends the ranks to `f`. Rows for more than one task
/// are ranked in parallel if `threads` is more than 1.
pub(in crate::cpu) fn ranked<T: Row>(
    ranker: &Ranker,
    rows: &Rows<'_, T>,
    threads: u32,
    f: impl FnOnce(Ranked<'_, '_>) -> Result<()>,
) -> Result<()> {
    thread_local! {
        static BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        static PAIRS: RefCell<Vec<u16>> = const { RefCell::new(Vec::new()) };
    }
    match ranker.shape().0 {
        Width::U8 => with_ranks(&BYTES, ranker, rows, threads, |rows| f(Ranked::U8(rows))),
        Width::U16 => with_ranks(&PAIRS, ranker, rows, threads, |rows| f(Ranked::U16(rows))),
    }
}

fn with_ranks<T: Row, R: Rank + Row>(
    scratch: &'static LocalKey<RefCell<Vec<R>>>,
    ranker: &Ranker,
    rows: &Rows<'_, T>,
    threads: u32,
    f: impl FnOnce(&Rows<'_, R>) -> Result<()>,
) -> Result<()> {
    // Taken out, not borrowed: while this thread waits for others, rayon may have it run another prediction.
    let mut ranks = scratch.with(RefCell::take);
    let (columns, of_task) = (ranker.shape().1, Machine::here().rows_a_task());
    ranks.resize(rows.len() * columns, R::default());
    let task = |k: usize, ranks: &mut [R]| ranker.rank(&rows.slice(k * of_task, of_task), ranks);
    let ranks_a_task = of_task * columns;
    let done = match rows.len() > of_task && threads > 1 {
        true => parallel::try_each_chunk(&mut ranks, ranks_a_task, &task),
        false => ranks.chunks_mut(ranks_a_task).enumerate().try_for_each(|(k, ranks)| task(k, ranks)),
    };
    let done = done.and_then(|()| f(&Rows::strided(&ranks, [rows.len(), columns], [columns, 1])?));
    scratch.with(|s| s.replace(ranks));
    done
}
