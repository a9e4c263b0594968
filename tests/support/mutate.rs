//! What the tests of malformed files share: seeded mutations, and what must hold of whatever becomes of a file.

// Each test crate uses its part.
#![allow(dead_code)]

use fangorn::{
    forest::reference,
    import::{LoadOptions, parse},
};
use serde_json::Value;

/// A generator of random numbers that needs no crate: splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// How many files have loaded, and how many were refused.
#[derive(Debug, Default)]
pub struct Tally {
    pub loaded: usize,
    pub refused: usize,
}

impl Tally {
    /// Reads a file: it is a forest that keeps the rules and predicts, or it is refused on one line.
    #[track_caller]
    pub fn read(&mut self, bytes: &[u8], options: &LoadOptions, what: &str) {
        match parse(bytes, options) {
            Ok(forest) => {
                self.loaded += 1;
                forest.verify().unwrap_or_else(|e| panic!("{what}: {e}"));
                let row = vec![f32::NAN; forest.features.len()];
                assert_eq!(reference::leaf_ids(&forest, &row).len(), forest.trees.len(), "{what}");
                let width = forest.transform.width(forest.outputs as usize);
                assert_eq!(reference::values(&forest, &row).len(), width, "{what}");
            }
            Err(error) => {
                self.refused += 1;
                let line = error.to_string();
                let one = !line.chars().any(char::is_control) && !line.is_empty();
                assert!(one, "{what}: {line:?}");
            }
        }
    }

    /// Mutates each seed as often as it says, one to three times each, and reads what comes of it.
    pub fn mutate(
        &mut self,
        seeds: &[(String, Vec<u8>, usize)],
        options: &LoadOptions,
        random: &mut Random,
        mutate: impl Fn(&mut Vec<u8>, &mut Random),
    ) {
        for (name, seed, rounds) in seeds {
            for round in 0..*rounds {
                let mut bytes = seed.clone();
                for _ in 0..1 + random.below(3) {
                    mutate(&mut bytes, random);
                }
                self.read(&bytes, options, &format!("{name}, mutation {round}"));
            }
        }
    }
}

/// Kinds of [`mutate_bytes`].
pub const KINDS: usize = 6;

/// Changes bytes anywhere: a bit, a byte, the end cut off, a run gone, doubled or swapped with another.
pub fn mutate_bytes(bytes: &mut Vec<u8>, kind: usize, random: &mut Random) {
    let at = random.below(bytes.len());
    let length = 1 + random.below(16.min(bytes.len() - at));
    match kind {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.next() as u8,
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..at + length)),
        4 => {
            let copy = bytes[at..at + length].to_vec();
            bytes.splice(at..at, copy);
        }
        _ => {
            let other = random.below(bytes.len() - length + 1);
            (0..length).for_each(|i| bytes.swap(at + i, other + i));
        }
    }
}

/// Replaces the digits nearest after a random offset by one of these numbers.
pub fn replace_number(bytes: &mut Vec<u8>, numbers: &[&str], random: &mut Random) {
    let from = random.below(bytes.len());
    let Some(start) = bytes[from..].iter().position(u8::is_ascii_digit).map(|i| from + i) else { return };
    let digits = bytes[start..].iter().take_while(|b| b.is_ascii_digit()).count();
    bytes.splice(start..start + digits, random.pick(numbers).bytes());
}

/// Numbers at the ends of types, and what is none.
pub const NUMBERS: [&str; 17] = [
    "-1",
    "0",
    "1",
    "2",
    "-2",
    "31",
    "2147483647",
    "-2147483648",
    "4294967296",
    "9223372036854775807",
    "1e39",
    "-1e-60",
    "NaN",
    "nan",
    "-Infinity",
    "-inf",
    "123456789012345678901234567890",
];

/// The files of the project's zoo that bear one of these names and have at most so many bytes, each for `rounds` mutations.
pub fn zoo(names: &[&str], most: usize, rounds: usize) -> Vec<(String, Vec<u8>, usize)> {
    let zoo = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo");
    let folders = std::fs::read_dir(zoo).into_iter().flatten().flatten();
    let mut files: Vec<_> =
        folders.flat_map(|folder| names.iter().map(move |name| folder.path().join(name))).collect();
    files.sort();
    let small = |file: &std::path::PathBuf| {
        let bytes = std::fs::read(file).ok().filter(|bytes| bytes.len() < most)?;
        Some((file.display().to_string(), bytes, rounds))
    };
    files.iter().filter_map(small).collect()
}

/// The document with the values at JSON pointers replaced; null removes one.
pub fn change(mut document: Value, changes: &[(&str, Value)]) -> Value {
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        match document.pointer_mut(parent).unwrap_or_else(|| panic!("no {parent}")) {
            Value::Object(map) if value.is_null() => drop(map.remove(key)),
            Value::Object(map) => drop(map.insert(key.into(), value.clone())),
            Value::Array(items) => items[key.parse::<usize>().expect("an index")] = value.clone(),
            other => panic!("{parent} is {other}"),
        }
    }
    document
}
