//! Loops on the threads of the current rayon pool.
//!
//! Each takes its body as a `dyn` function, so that rayon's code of a loop is compiled once for all bodies. With a copy
//! for each body, it was a thirteenth of the crate's code.

use rayon::prelude::*;

use crate::error::Result;

/// Calls `f` with each number below `count`.
pub(crate) fn each(count: u32, f: &(dyn Fn(u32) + Sync)) {
    (0..count).into_par_iter().for_each(f);
}

/// Calls `f` with the index and the elements of each chunk of `length` elements; the last chunk may be shorter.
pub(crate) fn each_chunk<T: Send>(all: &mut [T], length: usize, f: &(dyn Fn(usize, &mut [T]) + Sync)) {
    all.par_chunks_mut(length).enumerate().for_each(|(k, chunk)| f(k, chunk));
}

/// Like [`each_chunk`], for an `f` that may fail.
///
/// # Errors
/// Those of `f`. Chunks after one that failed may be left out.
pub(crate) fn try_each_chunk<T: Send>(
    all: &mut [T],
    length: usize,
    f: &(dyn Fn(usize, &mut [T]) -> Result<()> + Sync),
) -> Result<()> {
    all.par_chunks_mut(length).enumerate().try_for_each(|(k, chunk)| f(k, chunk))
}

/// The body of a loop over chunks that may fail, with a scratch.
type ScratchBody<'f, S, T> = dyn Fn(&mut S, usize, &mut [T]) -> Result<()> + Sync + 'f;

/// Like [`try_each_chunk`], and gives `f` a scratch from `init`, which later calls on the same thread may get again.
///
/// # Errors
/// Those of `f`. Chunks after one that failed may be left out.
pub(crate) fn try_each_chunk_with<S, T: Send>(
    all: &mut [T],
    length: usize,
    init: &(dyn Fn() -> S + Sync),
    f: &ScratchBody<'_, S, T>,
) -> Result<()> {
    all.par_chunks_mut(length).enumerate().try_for_each_init(init, |scratch, (k, chunk)| f(scratch, k, chunk))
}

/// Calls both functions, at the same time if a thread is free.
pub(crate) fn both(a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
    rayon::join(a, b);
}

/// Calls `f` on a thread of the current pool.
pub(crate) fn inside(f: &mut (dyn FnMut() + Send)) {
    rayon::scope(|_| f());
}

/// Calls `f` on a thread of `pool`, which is the current pool of the loops in `f`.
///
/// # Errors
/// Those of `f`.
pub(crate) fn inside_of(pool: &rayon::ThreadPool, f: &mut (dyn FnMut() -> Result<()> + Send)) -> Result<()> {
    pool.install(f)
}
