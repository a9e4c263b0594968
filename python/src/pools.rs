//! Threads that run large batches: one pool for each number of threads, which all models share.
//!
//! The pools are ours and not rayon's global one, so that a process that was forked can have new ones: threads do not
//! survive a fork. So whatever of the crate may use rayon goes through [`run`], reading a model, too.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use pyo3::{exceptions::PyRuntimeError, prelude::*};
use rayon::{ThreadPool, ThreadPoolBuilder};

type Pools = HashMap<usize, Arc<ThreadPool>>;

static POOLS: Mutex<Option<Pools>> = Mutex::new(None);

/// Returns the pool of so many threads, which the first call starts.
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

/// Runs `work` on the pool of so many threads, without the lock of the interpreter.
pub fn run<R: Send>(py: Python<'_>, threads: usize, work: impl FnOnce() -> R + Send) -> PyResult<R> {
    let pool = pool(threads)?;
    Ok(py.detach(|| pool.install(work)))
}

/// Forgets the pools in a process that was forked, where their threads do not run. `os.register_at_fork` calls it.
#[pyfunction]
#[pyo3(name = "_after_fork")]
pub fn after_fork() {
    // Whoever held the lock when the process was forked does not run here. Pools are looked up by a thread that is
    // attached to the interpreter, and so is the one that forks, so nobody did.
    if let Ok(mut pools) = POOLS.try_lock()
        && let Some(pools) = pools.take()
    {
        // To drop a pool is to wait for its threads.
        std::mem::forget(pools);
    }
}

/// Returns how many threads this machine runs at the same time.
pub fn here() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
