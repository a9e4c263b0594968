//! Encodings, and the memory of a group in each. Whatever chooses or reports an encoding asks here.

/// The maximum number of tuples of an encoded group, so that a code fits two bytes.
pub(super) const MOST_TUPLES: usize = 1 << 16;

/// How the codes of a group are stored. The names in parentheses are those of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// A code for each row (DDC, dense dictionary coding, The VLDB Journal 2018): one byte for up to 256 tuples, else
    /// two.
    Dense,
    /// Runs of rows with the same code (RLE, run-length encoding, VLDB 2016, section 3): the row after each run, and its
    /// code.
    Runs,
    /// The rows that don't hold the most frequent tuple, ascending, and their codes. Offset-list encoding (OLE, VLDB
    /// 2016, section 3) has a list of rows for each tuple instead. In one list a tile of rows is one stretch.
    Offsets,
    /// No codes: the elements, row by row.
    Uncompressed,
}

impl Encoding {
    /// All encodings. Of two with the same bytes the first is chosen: its loops over rows are the simplest.
    pub const ALL: [Self; 4] = [Self::Dense, Self::Runs, Self::Offsets, Self::Uncompressed];
}

/// What the memory of a group depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contents {
    pub rows: usize,
    pub columns: usize,
    /// The number of distinct tuples.
    pub tuples: usize,
    /// The number of runs of rows with the same tuple.
    pub runs: usize,
    /// The number of rows that hold the most frequent tuple.
    pub most: usize,
}

/// The memory of a column's indices, in bytes: its index in the matrix, its group, and its index within the group.
const COLUMN: u64 = 24;

/// Returns the memory of a dictionary, in bytes: 8 for each element, and 4 for each tuple's count.
fn dictionary(tuples: usize, columns: usize) -> u64 {
    tuples as u64 * (8 * columns as u64 + 4)
}

/// Returns the greatest number of tuples whose codes and dictionary may take fewer bytes than a limit.
pub(super) fn most_tuples(limit: u64, columns: usize) -> usize {
    let most = limit / dictionary(1, columns);
    usize::try_from(most).unwrap_or(MOST_TUPLES).min(MOST_TUPLES)
}

impl Contents {
    /// Returns the memory of the group in an encoding, in bytes.
    pub fn bytes(&self, encoding: Encoding) -> u64 {
        let code: u64 = if self.tuples <= 256 { 1 } else { 2 };
        let listed = |count: usize| count as u64 * (4 + code);
        let encoded = match encoding {
            Encoding::Uncompressed => {
                return (COLUMN + 8 * self.rows as u64) * self.columns as u64;
            }
            Encoding::Dense => self.rows as u64 * code,
            Encoding::Runs => listed(self.runs),
            Encoding::Offsets => listed(self.rows - self.most),
        };
        COLUMN * self.columns as u64 + dictionary(self.tuples, self.columns) + encoded
    }

    /// Returns the encoding of the fewest bytes, and these bytes.
    pub fn least(&self) -> (Encoding, u64) {
        let fits = |encoding: &Encoding| *encoding == Encoding::Uncompressed || self.tuples <= MOST_TUPLES;
        let sizes = Encoding::ALL.into_iter().filter(fits).map(|encoding| (encoding, self.bytes(encoding)));
        // `Uncompressed` always fits.
        sizes.min_by_key(|(_, bytes)| *bytes).unwrap_or((Encoding::Uncompressed, 0))
    }
}
