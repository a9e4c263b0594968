//! Turns rows into ranks, in a launch before the walks or while rows are cached.

use cubecl::{client::Client, prelude::*};

use super::{
    device::{Buffer, Rows, flat},
    keys::load_key,
    node,
};
use fangorn_ir::RowType;

/// Number of words of a rank column's record: the feature, the index where its keys or its question begin,
/// the number of keys, and a node's flags ([`QUESTION`](super::QUESTION),
/// [`NAMED_RIGHT`](super::NAMED_RIGHT), [`MISSING_LEFT`](super::MISSING_LEFT)).
pub const COLUMN_WORDS: u32 = 4;

/// Where rows' values lie in a buffer.
#[derive(CubeType, CubeLaunch)]
pub struct RowSpan {
    /// Number of rows.
    pub batch: u32,
    /// Distance between two rows, in values.
    pub row_stride: u32,
    /// Distance between two columns, in values.
    pub column_stride: u32,
    /// Index of the first value.
    pub offset: u32,
}

/// Computes one word of ranks in each unit. Rows follow one another, and each begins at a word.
///
/// A column's keys ascend. If missing values go left, each key of the column is one larger, and so is the key
/// of the value that is looked up. The key of a missing value is the largest word, so it wraps to 0.
#[cube(launch_unchecked)]
pub fn rank_rows(
    rows: &[u32],
    tables: &[u32],
    ranked: &mut [u32],
    span: &RowSpan,
    columns: u32,
    #[comptime] from: RowType,
    #[comptime] to: RowType,
) {
    let per_word = comptime![to.per_word()];
    let words = columns.div_ceil(per_word);
    let i = ABSOLUTE_POS as u32;
    let row = i / words;
    if row < span.batch {
        let first = (i % words) * per_word;
        let mut packed = 0u32;
        #[unroll]
        for c in 0..per_word {
            let column = first + c;
            if column < columns {
                let record = column * COLUMN_WORDS;
                let feature = tables[record as usize];
                let at = span.offset + row * span.row_stride + feature * span.column_stride;
                let key = load_key(rows, at, from);
                packed |= rank(tables, 0u32, record, key) << comptime![c * (32 / per_word)];
            }
        }
        ranked[i as usize] = packed;
    }
}

/// Returns the rank of the value with this key in the column that has its record at `record`. The tables
/// begin at index `tables_at` of `tables`.
#[cube]
pub fn rank(tables: &[u32], tables_at: u32, record: u32, key: u32) -> u32 {
    let at = tables_at + tables[(record + 1u32) as usize];
    let count = tables[(record + 2u32) as usize];
    let flags = tables[(record + 3u32) as usize];
    let mut found = 0u32;
    if (flags & comptime![node::QUESTION]) != 0u32 {
        found = node::question_right(tables, at, key, flags);
    } else if count != 0u32 {
        let key = key + (flags >> 31u32);
        // A binary search, with strides from the largest power of two that is at most `count` down to 1.
        let mut stride = 0x8000_0000u32 >> count.leading_zeros();
        while stride > 0u32 {
            let probe = found + stride;
            let inside = probe <= count;
            let below = tables[(at + select(inside, probe, count) - 1u32) as usize] <= key;
            found = select(inside, select(below, probe, found), found);
            stride >>= 1u32;
        }
    }
    found
}

/// The tables that turn values into ranks on a device: a record of [`COLUMN_WORDS`] words for each column,
/// then keys and questions.
#[derive(Clone, Debug)]
pub struct RankTables {
    /// The words of the tables.
    pub words: Buffer,
    /// Number of rank columns.
    pub columns: u32,
    /// The type of the values that are ranked.
    pub from: RowType,
    /// The type of the ranks.
    pub to: RowType,
}

impl RankTables {
    /// Returns the number of words of a row of ranks.
    pub fn row_words(&self) -> u32 {
        self.columns.div_ceil(self.to.per_word())
    }
}

/// Turns rows into ranks in one launch. There must be at least one row, and few enough that the ranks fit a
/// binding.
pub fn rank_batch(client: &Client, tables: &RankTables, rows: &Rows) -> Rows {
    let len = rows.batch as usize * tables.row_words() as usize;
    let ranked = Buffer::of_words(client, len);
    let (count, dim) = flat(client, len as u32);
    let span = RowSpanLaunch::new(rows.batch, rows.row_stride, rows.column_stride, rows.offset);
    // SAFETY: each unit checks that its row exists. `ranked` is made here with a word for each unit that has
    // a row. The encoder of the tables upholds that keys and questions lie in them. The caller upholds that
    // each feature is a column of the rows.
    unsafe {
        let (words, into, columns) = (rows.words.arg(), ranked.arg(), tables.columns);
        let tables_words = tables.words.arg();
        rank_rows::launch_unchecked(
            client,
            count,
            dim,
            words,
            tables_words,
            into,
            span,
            columns,
            tables.from,
            tables.to,
        );
    }
    let row_stride = tables.row_words() * tables.to.per_word();
    Rows { words: ranked, batch: rows.batch, row_stride, column_stride: 1, offset: 0 }
}
