//! The numbers by which recorded operations name forests.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use super::ForestOp;

/// Returns the map from the number that stands for a forest in recorded operations to the forest.
fn forests() -> &'static Mutex<HashMap<u64, Weak<ForestOp>>> {
    static FORESTS: OnceLock<Mutex<HashMap<u64, Weak<ForestOp>>>> = OnceLock::new();
    FORESTS.get_or_init(Mutex::default)
}

/// Returns the number that stands for a forest. [`find_forest`] finds the forest as long as it exists.
pub(super) fn number(op: &Arc<ForestOp>) -> u64 {
    *op.number.get_or_init(|| {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut forests = forests().lock().unwrap_or_else(PoisonError::into_inner);
        // Forests that no longer exist are removed.
        forests.retain(|_, forest| forest.strong_count() > 0);
        forests.insert(number, Arc::downgrade(op));
        number
    })
}

/// Returns the forest that a number stands for, if it still exists.
pub(super) fn find_forest(number: u64) -> Option<Arc<ForestOp>> {
    forests().lock().unwrap_or_else(PoisonError::into_inner).get(&number).and_then(Weak::upgrade)
}
