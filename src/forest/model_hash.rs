//! A hash that tells models apart.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use xxhash_rust::xxh3::Xxh3;

use super::Forest;

/// A hash of everything that a forest says. Plans that were made for a model are found and verified by it. It
/// is no protection against a forgery (XXH3, 128 bits).
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
        let mut hasher = WordHasher(Xxh3::new());
        self.hash(&mut hasher);
        ModelHash(hasher.0.digest128())
    }
}

/// Hands numbers to XXH3 in one size, so that 32-bit and 64-bit machines agree on a hash.
struct WordHasher(Xxh3);

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
    fn write_u16(&mut self, n: u16) {
        self.0.update(&n.to_le_bytes());
    }
    fn write_u32(&mut self, n: u32) {
        self.0.update(&n.to_le_bytes());
    }
    fn write_u64(&mut self, n: u64) {
        self.0.update(&n.to_le_bytes());
    }
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
    fn write_isize(&mut self, n: isize) {
        self.write_u64(n as u64);
    }
    fn finish(&self) -> u64 {
        self.0.digest()
    }
}
