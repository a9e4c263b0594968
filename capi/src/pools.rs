//! Threads that compile models and predict: one pool for each number of threads, which all models share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::Refusal;

/// The largest number of threads that is accepted. Each takes memory for its stack.
const MOST_THREADS: usize = 4096;

static POOLS: Mutex<Option<HashMap<usize, Arc<ThreadPool>>>> = Mutex::new(None);

/// Returns the pool of `threads` threads. The first call for a number starts it.
pub fn pool(threads: usize) -> Result<Arc<ThreadPool>, Refusal> {
    if threads > MOST_THREADS {
        return Err(Refusal::argument(format!("threads: {threads} are too many; take up to {MOST_THREADS}")));
    }
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let pools = pools.get_or_insert_default();
    if let Some(pool) = pools.get(&threads) {
        return Ok(pool.clone());
    }
    let name = |at| format!("fangorn-{at}");
    let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build().map(Arc::new);
    let pool = pool.map_err(|error| {
        Refusal::argument(format!("threads: {threads} can't be started: {error}; take fewer"))
    })?;
    pools.insert(threads, pool.clone());
    Ok(pool)
}

/// Returns how many threads this machine runs at the same time.
pub fn here() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
