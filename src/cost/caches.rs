//! Finds out what a processor is called and how large the caches of a core are.

use std::ops::RangeInclusive;

/// Sizes of a core's first-level and second-level cache, in bytes. A hypervisor that says otherwise is not believed.
const USUAL: [RangeInclusive<usize>; 2] = [8 << 10..=1 << 20, 64 << 10..=64 << 20];

/// Returns the bytes of data in the first-level and in the second-level cache of a core, if the machine says so. Where
/// cores differ, it is the core that this thread runs on.
pub(super) fn data_caches() -> Option<[usize; 2]> {
    let caches = if cfg!(miri) { None } else { found() };
    caches.filter(|caches| caches.iter().zip(&USUAL).all(|(bytes, usual)| usual.contains(bytes)))
}

/// The processor's own description: AMD's leaf 8000001D, and Intel's leaf 4, which has the same form. Intel's
/// processors have no cache in AMD's leaf.
#[cfg(target_arch = "x86_64")]
fn found() -> Option<[usize; 2]> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};

    // Older compilers declare them unsafe.
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 processor has the instruction.
    let (leaf_of, cache_of) = (|leaf| unsafe { __cpuid(leaf) }, |leaf, i| unsafe { __cpuid_count(leaf, i) });
    const OF_AMD: u32 = 0x8000_001d;
    const OF_INTEL: u32 = 4;
    /// Caches that a processor describes, at most.
    const MOST: u32 = 16;
    const INSTRUCTIONS: u32 = 2;

    let bytes = |leaf: u32, level: u32| {
        let caches = (0..MOST).map(|i| cache_of(leaf, i)).take_while(|cache| cache.eax & 31 != 0);
        let mut of_level =
            caches.filter(|cache| cache.eax & 31 != INSTRUCTIONS && cache.eax >> 5 & 7 == level);
        let cache = of_level.next()?;
        let [ways, partitions, line] = [cache.ebx >> 22, cache.ebx >> 12 & 1023, cache.ebx & 4095];
        let counts = [ways, partitions, line, cache.ecx].map(|count| (count as usize).checked_add(1));
        counts.into_iter().try_fold(1usize, |product, count| product.checked_mul(count?))
    };
    let leaves = [(OF_AMD, leaf_of(0x8000_0000).eax), (OF_INTEL, leaf_of(0).eax)];
    let known = leaves.into_iter().filter(|(leaf, last)| leaf <= last).map(|(leaf, _)| leaf);
    known.filter_map(|leaf| Some([bytes(leaf, 1)?, bytes(leaf, 2)?])).next()
}

#[cfg(not(target_arch = "x86_64"))]
fn found() -> Option<[usize; 2]> {
    by_linux()
}

/// Returns the processor's name, if it says one: on x86-64 by the leaves from 80000002 on. Two processors of the same name
/// may differ in family, model and stepping, so they are part of it.
pub(super) fn processor_name() -> Option<String> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::__cpuid;

        // Older compilers declare it unsafe.
        #[allow(unused_unsafe)]
        // SAFETY: every x86-64 processor has the instruction.
        let leaf_of = |leaf| unsafe { __cpuid(leaf) };
        const NAME: RangeInclusive<u32> = 0x8000_0002..=0x8000_0004;
        if leaf_of(0x8000_0000).eax < *NAME.end() {
            return None;
        }
        let words = NAME.map(leaf_of).flat_map(|leaf| [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx]);
        let letters = words.flat_map(u32::to_le_bytes).filter(|byte| (b' '..=b'~').contains(byte));
        let name: String = letters.map(char::from).collect();
        Some(format!("{} {:x}", name.trim(), leaf_of(1).eax))
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    None
}

/// What Linux says of the first core's caches.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn by_linux() -> Option<[usize; 2]> {
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
    use super::{by_linux, data_caches};

    #[test]
    fn the_processor_and_linux_say_the_same() {
        let [Some(own), Some(linux)] = [data_caches(), by_linux()] else { return };
        assert_eq!(own, linux);
    }
}
