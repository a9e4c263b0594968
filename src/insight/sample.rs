//! A random sample of rows whose number is not known in advance.

use crate::check::Random;

/// Selects a limited number of rows from a stream, each with the same probability (Vitter's algorithm R). The sample
/// depends only on its size, the seed, and the number of rows.
///
/// ```
/// use fangorn::insight::Sample;
///
/// let mut sample = Sample::new(2, 7);
/// let mut kept = Vec::new();
/// for row in 0..10 {
///     match sample.select() {
///         Some(index) if index == kept.len() => kept.push(row),
///         Some(index) => kept[index] = row,
///         None => (),
///     }
/// }
/// assert_eq!((kept.len(), sample.seen()), (2, 10));
/// ```
#[derive(Clone, Debug)]
pub struct Sample {
    random: Random,
    most: usize,
    seen: u64,
}

impl Sample {
    /// Returns a sample of at most `most` rows.
    pub fn new(most: usize, seed: u64) -> Self {
        Self { random: Random(seed), most, seen: 0 }
    }

    /// Returns the index in the sample where the next row goes, or `None` if the row is not selected. The row
    /// replaces an earlier one with this index, if there is one.
    pub fn select(&mut self) -> Option<usize> {
        let row = self.seen;
        self.seen += 1;
        if row < self.most as u64 {
            return Some(row as usize);
        }
        let index = self.random.below(usize::try_from(self.seen).unwrap_or(usize::MAX));
        (index < self.most).then_some(index)
    }

    /// Returns how many rows the stream had so far.
    pub fn seen(&self) -> u64 {
        self.seen
    }
}
