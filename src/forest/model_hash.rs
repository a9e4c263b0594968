//! A hash that tells models apart.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use xxhash_rust::xxh3::Xxh3;

use super::Forest;

/// A hash of the whole forest. It identifies the model that a stored schedule or plan belongs to. It does not
/// protect against forgery (XXH3, 128 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelHash(pub u128);

impl fmt::Display for ModelHash {
    /// Writes 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Forest {
    /// Returns the forest's hash. The time is linear in the forest's size.
    ///
    /// ```
    /// use fangorn::Forest;
    ///
    /// let stump = |value| {
    ///     let mut forest = Forest::builder(1, 1);
    ///     forest.tree(0).leaf(0, &[value]);
    ///     forest.build()
    /// };
    /// assert_eq!(stump(1.0)?.model_hash(), stump(1.0)?.model_hash());
    /// assert_ne!(stump(1.0)?.model_hash(), stump(2.0)?.model_hash());
    /// # Ok::<(), fangorn::Error>(())
    /// ```
    pub fn model_hash(&self) -> ModelHash {
        let mut hasher = WordHasher::new();
        self.hash(&mut hasher);
        ModelHash(hasher.digest())
    }
}

/// Hands numbers to XXH3 in one size, so that 32-bit and 64-bit machines agree on a hash. One call hands over
/// many numbers, because one call for each takes ten times as long.
struct WordHasher {
    hasher: Xxh3,
    waiting: [u8; 1024],
    /// Number of bytes that wait.
    len: usize,
}

impl WordHasher {
    fn new() -> Self {
        Self { hasher: Xxh3::new(), waiting: [0; 1024], len: 0 }
    }

    fn digest(mut self) -> u128 {
        self.hasher.update(&self.waiting[..self.len]);
        self.len = 0;
        self.hasher.digest128()
    }
}

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        if self.len + bytes.len() > self.waiting.len() {
            self.hasher.update(&self.waiting[..self.len]);
            self.len = 0;
        }
        match self.waiting.get_mut(self.len..self.len + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.hasher.update(bytes),
        }
    }
    fn write_u8(&mut self, n: u8) {
        self.write(&[n]);
    }
    fn write_u16(&mut self, n: u16) {
        self.write(&n.to_le_bytes());
    }
    fn write_u32(&mut self, n: u32) {
        self.write(&n.to_le_bytes());
    }
    fn write_u64(&mut self, n: u64) {
        self.write(&n.to_le_bytes());
    }
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
    fn write_isize(&mut self, n: isize) {
        self.write_u64(n as u64);
    }
    fn finish(&self) -> u64 {
        let mut hasher = self.hasher.clone();
        hasher.update(&self.waiting[..self.len]);
        hasher.digest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash is the same wherever the bytes are cut into writes.
    #[test]
    fn chunks_have_the_hash_of_the_whole() {
        let bytes: Vec<u8> = (0..5000u32).map(|n| (n * 7 % 251) as u8).collect();
        let whole = xxhash_rust::xxh3::xxh3_128(&bytes);
        for length in [1, 3, 8, 1000, 1023, 1024, 1025, 2500, 5000] {
            let mut hasher = WordHasher::new();
            bytes.chunks(length).for_each(|chunk| hasher.write(chunk));
            assert_eq!(hasher.finish(), xxhash_rust::xxh3::xxh3_64(&bytes), "chunks of {length}");
            assert_eq!(hasher.digest(), whole, "chunks of {length}");
        }
    }
}
