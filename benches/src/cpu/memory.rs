//! The memory of this process, as Linux counts it. Other systems report nothing.

/// Resets the peak, so that [`peak`] counts from here.
pub fn forget_peak() {
    // Linux may refuse this. The peak is then that of the whole process: too large, never too small.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Returns the memory that is resident now, in mebibytes.
pub fn now() -> Option<f64> {
    line("VmRSS:")
}

/// Returns the maximum of the resident memory so far, in mebibytes.
pub fn peak() -> Option<f64> {
    line("VmHWM:")
}

fn line(name: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: f64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes / 1024.0)
}
