//! What all threads of a machine read, write and compute in a second.

/// What all threads of a machine together read, write and compute in a second, from memory and not from caches.
/// `fangorn-fusion` chooses fusion plans by it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// Bytes read in a second.
    pub read: f64,
    /// Bytes written in a second. Writing takes new memory for each result, which the system has to clear first.
    pub write: f64,
    /// Floating-point operations in a second.
    pub compute: f64,
}

/// The throughput of two cores of an AMD EPYC (Zen 4) that other programs shared, 2026-11-26: medians of three runs of
/// `cargo run --release -p fangorn-fusion --example bandwidth -- 1024`. Run it for the numbers of your machine.
pub const THROUGHPUT: Throughput = Throughput { read: 8.7e9, write: 1.1e9, compute: 1.9e9 };
