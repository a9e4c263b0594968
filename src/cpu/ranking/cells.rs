//! Ranks by cells: where a value lies on a scale of its column says which few of the thresholds are left to be compared.
//!
//! A scale makes of a value a *key* of 16 bits, whose high byte is a cell and whose low byte is a place in it. Tables of bytes have
//! of every cell how many thresholds lie before it, and the place of the first in it, of the second, and so on: as many as the
//! fullest cell has. To look a byte up for 64 rows takes an instruction or two, where a level of a search takes two for sixteen.
//!
//! Keys are in the order of their values, so a value whose key is none of the thresholds' is ranked by it. One whose key a
//! threshold has, too, is *unsure* and is compared with that threshold, unless no value below the threshold has the key: so it is
//! with thresholds that are whole numbers of the scale's steps.

use super::{
    super::line::Line,
    row_block::LINE,
    search::{BLOCK, Missing, Searched, count_runs},
};

/// Blocks of rows that are ranked together: tables are read once for both.
pub(crate) const TOGETHER: usize = 2;

/// Cells of a line of a table.
pub(crate) const CELLS: usize = 64;
/// Thresholds that a cell may have: of more, a search is as quick.
pub(crate) const MOST_SLOTS: usize = 8;
/// Columns of ranks, of a line of rows, that are ranked by cells.
pub(crate) const MOST_COLUMNS: usize = 48;
/// Places in a cell.
const PLACES: u32 = 256;
/// The last place that a value has, so that the place of a threshold that isn't there is beyond it.
pub(in crate::cpu) const LAST: u8 = (PLACES - 2) as u8;
/// The least key of a value where a missing value has the first cell to itself.
pub(in crate::cpu) const LEAST: f64 = PLACES as f64;

/// A line of a table of bytes.
pub(crate) type TableLine = Line<[u8; CELLS]>;

/// What makes keys of a column's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    by: f32,
    plus: f32,
    /// The greatest key.
    most: f32,
}

impl Scale {
    /// Of steps as long as `1 / by`, of which one begins with this value, or nearly; its tables have so many lines.
    pub(crate) fn new(by: f32, first: f32, lines: usize) -> Self {
        // There is room for a value below the first, even where this sum is rounded.
        let plus = LEAST + 2.0 - f64::from(first) * f64::from(by);
        Self { by, plus: plus as f32, most: (lines * CELLS) as f32 * PLACES as f32 - 1.0 }
    }

    /// Steps between the ends of a scale of so many lines, beside a few that rounding may take.
    pub(crate) fn steps(lines: usize) -> f64 {
        (lines * CELLS) as f64 * f64::from(PLACES) - LEAST - 8.0
    }

    /// A value's cell, and its place there, where a missing value has the first cell to itself. It is `floor(value * by + plus)` of real numbers, within bounds: rounded down to `f32` before
    /// it is cut off, it would be the same, because all whole numbers up to 2^16 are such.
    pub(crate) fn key(&self, value: f32) -> [u8; 2] {
        if value.is_nan() {
            return [0; 2];
        }
        let (product, plus) = (f64::from(value) * f64::from(self.by), f64::from(self.plus));
        let sum = product + plus;
        // A product of two `f32` is exact. What the sum has lost is, too (Knuth, The Art of Computer Programming 2, 4.2.2).
        let part = sum - product;
        let lost = (product - (sum - part)) + (plus - part);
        let whole = if lost < 0.0 { sum.next_down() } else { sum }.floor();
        let key = whole.clamp(LEAST, f64::from(self.most)) as u32;
        [(key / PLACES) as u8, ((key % PLACES) as u8).min(LAST)]
    }

    /// A length in steps.
    pub(crate) fn in_steps(&self, length: f64) -> f64 {
        length * f64::from(self.by)
    }

    /// Whether a threshold's key is its own and that of values that have reached it.
    pub(crate) fn is_sure(&self, threshold: f32) -> bool {
        self.key(threshold.next_down()) < self.key(threshold)
    }
}

/// The scales of columns that lie side by side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scales {
    pub(in crate::cpu) by: Line<[f32; LINE]>,
    pub(in crate::cpu) plus: Line<[f32; LINE]>,
    pub(in crate::cpu) most: Line<[f32; LINE]>,
    /// What missing values are to all columns, and so whether they have the key of the least values or of the most. Otherwise they have a
    /// key, and the first cell, to themselves.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(in crate::cpu) missing: Option<Missing>,
}

impl Scales {
    /// Whether a missing value's key is none of another value.
    pub(crate) fn keep_missing(&self) -> bool {
        self.missing.is_none()
    }

    /// Of columns whose missing values are these.
    pub(crate) fn new(missing: impl Iterator<Item = Missing>) -> Self {
        let mut missing = missing;
        let first = missing.next();
        Self {
            by: Line([0.0; LINE]),
            plus: Line([0.0; LINE]),
            most: Line([0.0; LINE]),
            missing: first.filter(|first| missing.all(|other| other == *first)),
        }
    }

    /// Gives a column its scale.
    pub(crate) fn set(&mut self, lane: u32, scale: Scale) {
        let lane = lane as usize;
        (self.by.0[lane], self.plus.0[lane], self.most.0[lane]) = (scale.by, scale.plus, scale.most);
    }
}

/// A column that is ranked by cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Celled {
    /// How it is searched where too many values are unsure: what it reads, and what it writes.
    pub(crate) searched: Searched,
    /// The first line of its tables: of thresholds before a cell, and of each slot's places.
    begin: u32,
    /// Lines of a table: 1, 2 or 4.
    lines: u8,
    /// Thresholds that its fullest cell has.
    slots: u8,
    /// Whether no value is unsure.
    pub(in crate::cpu) sure: bool,
    /// From it on, how many that follow each other take its kernel: what [`Celled::count_runs`] has found.
    pub(in crate::cpu) alike: u32,
}

impl Celled {
    /// The tables of ascending thresholds on a scale, if no cell has too many.
    pub(crate) fn new(
        searched: Searched,
        thresholds: &[f32],
        (scale, lines): (&Scale, usize),
        tables: &mut Vec<TableLine>,
    ) -> Option<Self> {
        let slots = fullest(scale, thresholds);
        if slots > MOST_SLOTS {
            return None;
        }
        let begin = tables.len();
        tables.resize(begin + (1 + slots) * lines, Line([u8::MAX; CELLS]));
        let own = &mut tables[begin..];
        let mut before = 0;
        let mut left = thresholds;
        for cell in 0..lines * CELLS {
            let of_cell = left.iter().take_while(|t| usize::from(scale.key(**t)[0]) == cell).count();
            own[cell / CELLS].0[cell % CELLS] = before;
            for (slot, threshold) in left[..of_cell].iter().enumerate() {
                own[(1 + slot) * lines + cell / CELLS].0[cell % CELLS] = scale.key(*threshold)[1];
            }
            before += of_cell as u8;
            left = &left[of_cell..];
        }
        let sure = thresholds.iter().all(|t| scale.is_sure(*t));
        Some(Self { searched, begin: begin as u32, lines: lines as u8, slots: slots as u8, sure, alike: 1 })
    }

    /// Ranks a missing value after all thresholds, of which there are so many, where its key is none of another value.
    pub(crate) fn keep_missing(&self, thresholds: usize, tables: &mut [TableLine]) {
        tables[self.begin as usize].0[0] = thresholds as u8;
    }

    /// Which kernel it takes: lines of a table, and whether no value is unsure.
    pub(crate) fn kernel(&self) -> (u8, bool) {
        (self.lines, self.sure)
    }

    /// How often the kernel repeats itself.
    pub(crate) fn slots(&self) -> u8 {
        self.slots
    }

    /// Its tables.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(in crate::cpu) fn tables<'t>(&self, tables: &'t [TableLine]) -> &'t [TableLine] {
        &tables[self.begin as usize..][..(1 + usize::from(self.slots)) * usize::from(self.lines)]
    }

    /// [`count_runs`] of these.
    pub(crate) fn count_runs(columns: &mut [Self]) {
        count_runs(columns, Self::kernel, |column| &mut column.alike);
    }
}

/// How many of ascending thresholds the fullest cell of a scale has.
pub(crate) fn fullest(scale: &Scale, thresholds: &[f32]) -> usize {
    let cells = thresholds.chunk_by(|a, b| scale.key(*a)[0] == scale.key(*b)[0]);
    cells.map(<[f32]>::len).max().unwrap_or(0)
}

/// The keys of 64 rows of sixteen columns: a column's places in cells, and its cells.
pub(in crate::cpu) type Keys = Line<[[[u8; BLOCK]; 2]; LINE]>;

/// Unsure values that a column of 64 may have, or it is searched: an even number, for two are found at a time.
pub(crate) const MOST_UNSURE: usize = 16;
/// Unsure values of a block, by 64 times the number of the column and the row's, and room for two that aren't there.
pub(crate) type Found = [u16; MOST_COLUMNS * MOST_UNSURE + 2];

/// Room for keys, and for what is found by them.
pub(crate) struct CellRoom {
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(in crate::cpu) keys: [Keys; TOGETHER],
    /// Which rows of a block are unsure, by column of ranks.
    pub(crate) unsure: [[u64; MOST_COLUMNS]; TOGETHER],
    pub(crate) found: Found,
}

impl CellRoom {
    pub(crate) const NOTHING: Self = Self {
        keys: [const { Line([[[0; BLOCK]; 2]; LINE]) }; TOGETHER],
        unsure: [[0; MOST_COLUMNS]; TOGETHER],
        found: [0; MOST_COLUMNS * MOST_UNSURE + 2],
    };
}

/// Ranks of blocks of 64 rows, in columns.
pub(crate) struct Blocks<'r> {
    pub(crate) ranks: &'r mut [u8],
    /// From a column to the next.
    pub(crate) apart: usize,
    /// From a block to the next.
    pub(crate) between: usize,
}

impl Blocks<'_> {
    /// Those of a block and a column.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(crate) fn column(&mut self, block: usize, c: u32) -> &mut [u8; BLOCK] {
        let ranks = &mut self.ranks[block * self.between + c as usize * self.apart..];
        ranks.first_chunk_mut().expect("a block of room")
    }

    /// Those of a block.
    pub(crate) fn block(&mut self, block: usize) -> &mut [u8] {
        &mut self.ranks[block * self.between..]
    }
}

/// Whether the machine ranks by cells.
pub(crate) fn available() -> bool {
    #[cfg(target_arch = "x86_64")]
    return crate::cpu::simd::cells::available();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key by whole numbers: of values and scales that are multiples of 2^-40.
    fn by_whole_numbers(scale: &Scale, value: f32, lines: usize) -> [u8; 2] {
        let fixed = |value: f32, unit: i32| (f64::from(value) * f64::from(unit).exp2()) as i128;
        let sum = fixed(value, 40) * fixed(scale.by, 40) + (fixed(scale.plus, 40) << 40);
        let key = (sum >> 80).clamp(256, (lines * CELLS * 256) as i128 - 1);
        [(key / 256) as u8, ((key % 256) as u8).min(254)]
    }

    #[test]
    fn keys_are_whole_parts() {
        let mut seed = 7u32;
        let mut random = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as f32 / (1 << 24) as f32
        };
        for lines in [1, 2, 4] {
            for _ in 0..500 {
                let (first, by) = (random() * 64.0 - 32.0, 1.0 + random() * 256.0);
                let scale = Scale::new(by, first, lines);
                for _ in 0..20 {
                    // Around the place where a step begins.
                    let step = ((256.0 + random() * 20_000.0).floor() - scale.plus) / by;
                    for value in [step, step.next_up(), step.next_down(), first, -first, random() - 0.5]
                        .into_iter()
                        .filter(|value| value.abs() > 1e-4)
                    {
                        let expected = by_whole_numbers(&scale, value, lines);
                        assert_eq!(scale.key(value), expected, "{value:e} on {scale:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_value_is_off_the_scale() {
        let scale = Scale::new(3.7, -2.0, 4);
        let ends = [f32::NEG_INFINITY, f32::MIN, f32::MAX, f32::INFINITY, f32::NAN, -f32::NAN];
        assert_eq!(ends.map(|end| scale.key(end)), [[1, 0], [1, 0], [255, 254], [255, 254], [0, 0], [0, 0]]);
    }

    #[test]
    fn tables_count_thresholds_before_cells() {
        let mut lines = Vec::new();
        let thresholds: Vec<f32> = (0..40).map(|k| (k * k) as f32).collect();
        let search =
            crate::cpu::ranking::search::lay_out(&thresholds, &mut Vec::new()).expect("finite thresholds");
        let searched = Searched::new(search.of_missing(Missing::Most), 3, 5);
        let scale = Scale::new(8.0, 0.0, 2);
        let of =
            Celled::new(searched, &thresholds, (&scale, 2), &mut lines).expect("eight of a cell at most");
        assert_eq!(lines[0].0[0], 0, "values below all thresholds");
        of.keep_missing(thresholds.len(), &mut lines);
        assert_eq!((of.kernel(), usize::from(of.slots())), ((2, true), fullest(&scale, &thresholds)));
        let byte = |table: usize, cell: u8| {
            of.tables(&lines)[2 * table + usize::from(cell / 64)].0[usize::from(cell % 64)]
        };
        assert_eq!(byte(0, 0), 40, "missing values have reached all");
        for value in (0..1600).map(|value| value as f32) {
            let [cell, place] = scale.key(value);
            let slots = (1..=usize::from(of.slots())).filter(|slot| byte(*slot, cell) <= place).count();
            let expected = thresholds.partition_point(|t| *t <= value);
            assert_eq!(usize::from(byte(0, cell)) + slots, expected, "{value}");
        }
        // Nine thresholds of one cell.
        assert!(Celled::new(searched, &thresholds[..9], (&Scale::new(1.0, 0.0, 1), 1), &mut lines).is_none());
    }
}
