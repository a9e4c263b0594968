//! Which mutant runs: a number in `FANGORN_MUTANT`. With `FANGORN_MUTANTS_SEEN`, a file, none does, and the numbers
//! of those that the run comes by are written there.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};

const UNKNOWN: u32 = u32::MAX;
const LISTING: u32 = u32::MAX - 1;

static CHOSEN: AtomicU32 = AtomicU32::new(UNKNOWN);
static SEEN: [AtomicU32; 1024] = [const { AtomicU32::new(0) }; 1024];
static LIST: LazyLock<Mutex<Option<std::fs::File>>> = LazyLock::new(|| {
    let path = std::env::var_os("FANGORN_MUTANTS_SEEN");
    Mutex::new(path.and_then(|path| std::fs::OpenOptions::new().create(true).append(true).open(path).ok()))
});

/// Whether the mutant of this number runs.
#[inline(always)]
pub fn on(number: u32) -> bool {
    let chosen = CHOSEN.load(Relaxed);
    if chosen < LISTING { chosen == number } else { first_asked(number) }
}

#[cold]
#[inline(never)]
fn first_asked(number: u32) -> bool {
    if CHOSEN.load(Relaxed) == UNKNOWN {
        let chosen = std::env::var("FANGORN_MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
        CHOSEN.store(if std::env::var_os("FANGORN_MUTANTS_SEEN").is_some() { LISTING } else { chosen }, Relaxed);
        return on(number);
    }
    let bit = 1 << (number % 32);
    if SEEN[(number / 32) as usize % 1024].fetch_or(bit, Relaxed) & bit == 0 {
        if let Ok(mut list) = LIST.lock()
            && let Some(file) = list.as_mut()
        {
            let _ = writeln!(file, "{number}");
        }
    }
    false
}
