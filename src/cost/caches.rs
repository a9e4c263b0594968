//! Finds out how large the caches of a core are.

/// Returns the bytes of data in the first-level and in the second-level cache of a core, if the machine says so.
pub(super) fn data_caches() -> Option<[usize; 2]> {
    if cfg!(miri) { None } else { found() }
}

/// The processor's own description: Intel's leaf 4, and AMD's leaf 8000001D, which has the same form.
#[cfg(target_arch = "x86_64")]
fn found() -> Option<[usize; 2]> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};

    // Older compilers hold them for unsafe.
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 processor has the instruction.
    let (leaf_of, cache_of) = (|leaf| unsafe { __cpuid(leaf) }, |leaf, i| unsafe { __cpuid_count(leaf, i) });

    const OF_INTEL: u32 = 4;
    const OF_AMD: u32 = 0x8000_001d;
    /// Caches that a processor describes, at most.
    const MOST: u32 = 16;
    const INSTRUCTIONS: u32 = 2;

    let bytes = |leaf: u32, level: u32| {
        let caches = (0..MOST).map(|i| cache_of(leaf, i)).take_while(|cache| cache.eax & 31 != 0);
        let mut of_level =
            caches.filter(|cache| cache.eax & 31 != INSTRUCTIONS && cache.eax >> 5 & 7 == level);
        of_level.next().map(|cache| {
            let [ways, partitions, line] = [cache.ebx >> 22, cache.ebx >> 12 & 1023, cache.ebx & 4095];
            [ways, partitions, line, cache.ecx].iter().map(|count| *count as usize + 1).product::<usize>()
        })
    };
    let leaves = [(OF_INTEL, leaf_of(0).eax), (OF_AMD, leaf_of(0x8000_0000).eax)];
    let known = leaves.into_iter().filter(|(leaf, last)| leaf <= last).map(|(leaf, _)| leaf);
    known.filter_map(|leaf| Some([bytes(leaf, 1)?, bytes(leaf, 2)?])).next()
}

/// What Linux says of the first core's caches.
#[cfg(not(target_arch = "x86_64"))]
fn found() -> Option<[usize; 2]> {
    let bytes = |level: &str| {
        (0..8).find_map(|i| {
            let of = |what| {
                let path = format!("/sys/devices/system/cpu/cpu0/cache/index{i}/{what}");
                std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
            };
            let is_it = of("level")? == level && of("type")? != "Instruction";
            is_it.then(|| of("size")?.strip_suffix('K')?.parse::<usize>().ok()).flatten().map(|kib| kib << 10)
        })
    };
    Some([bytes("1")?, bytes("2")?])
}

#[cfg(test)]
mod tests {
    use super::data_caches;

    /// A cache of an unknown size is no cache of 0 bytes, and no core has more than some megabytes.
    #[test]
    fn caches_have_sizes_of_caches() {
        let Some([first, second]) = data_caches() else { return };
        assert!((8 << 10..=1 << 20).contains(&first), "{first}");
        assert!((64 << 10..=64 << 20).contains(&second) && second > first, "{second}");
    }
}
