//! Threads that run large batches: one pool for each number of threads, which all models share.
//!
//! These pools are used in place of rayon's global one, so that a forked process can start new ones: threads do not
//! survive a fork. So everything of the crate that may use rayon goes through [`run`], and so does reading a model.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use pyo3::{exceptions::PyRuntimeError, prelude::*};
use rayon::{ThreadPool, ThreadPoolBuilder};

type Pools = HashMap<usize, Arc<ThreadPool>>;

static POOLS: Mutex<Option<Pools>> = Mutex::new(None);

/// Returns the pool of `threads` threads. The first call for a number starts it.
fn pool(threads: usize) -> PyResult<Arc<ThreadPool>> {
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let pools = pools.get_or_insert_default();
    if let Some(pool) = pools.get(&threads) {
        return Ok(pool.clone());
    }
    let name = |at| format!("fangorn-{at}");
    let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build().map(Arc::new);
    let pool = pool.map_err(|e| {
        PyRuntimeError::new_err(format!(
            "{threads} threads can't be started: {e}; load the model with threads=1"
        ))
    })?;
    pools.insert(threads, pool.clone());
    Ok(pool)
}

/// Runs `work` on the pool of `threads` threads, without the interpreter's lock.
pub fn run<R: Send>(py: Python<'_>, threads: usize, work: impl FnOnce() -> R + Send) -> PyResult<R> {
    let pool = pool(threads)?;
    Ok(py.detach(|| pool.install(work)))
}

/// Forgets the pools in a forked process, where their threads do not run. `os.register_at_fork` calls it.
#[pyfunction]
#[pyo3(name = "_after_fork")]
pub fn after_fork() {
    // A thread that held the lock at the fork does not run here. But only threads that are attached to the interpreter
    // look up pools. The thread that forks is attached, too, so no other thread held the lock.
    if let Ok(mut pools) = POOLS.try_lock()
        && let Some(pools) = pools.take()
    {
        // Dropping a pool would wait for its threads.
        std::mem::forget(pools);
    }
}

/// Returns how many threads this machine runs at the same time.
pub fn here() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
