//! A random choice of rows whose number is not known before.

use crate::check::Random;

/// Chooses at most so many of the rows that come by, each with the same chance (Vitter's algorithm R). The choice
/// depends on the seed and on the number of rows alone.
///
/// ```
/// use fangorn::insight::Sample;
///
/// let mut sample = Sample::new(2, 7);
/// let mut kept = Vec::new();
/// for row in 0..10 {
///     match sample.place() {
///         Some(place) if place == kept.len() => kept.push(row),
///         Some(place) => kept[place] = row,
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
    /// Returns a choice of at most `most` rows.
    pub fn new(most: usize, seed: u64) -> Self {
        Self { random: Random(seed), most, seen: 0 }
    }

    /// Returns the place of the next row among the chosen ones, where it takes the place of an earlier one; `None` if
    /// it is not chosen.
    pub fn place(&mut self) -> Option<usize> {
        let row = self.seen;
        self.seen += 1;
        if row < self.most as u64 {
            return Some(row as usize);
        }
        let place = self.random.below(usize::try_from(self.seen).unwrap_or(usize::MAX));
        (place < self.most).then_some(place)
    }

    /// Returns how many rows came by.
    pub fn seen(&self) -> u64 {
        self.seen
    }
}
