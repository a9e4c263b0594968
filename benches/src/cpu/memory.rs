//! Memory of this process, as Linux counts it; elsewhere nothing is known.

/// Forgets the most that was in memory, so that [`peak`] counts from here.
pub fn forget_peak() {
    // Where that is refused the peak is that of the whole process: too large, never too small.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Mebibytes in memory now.
pub fn now() -> Option<f64> {
    line("VmRSS:")
}

/// The most mebibytes that were in memory.
pub fn peak() -> Option<f64> {
    line("VmHWM:")
}

fn line(name: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: f64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes / 1024.0)
}
