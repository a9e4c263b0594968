//! Rows as ranks: a launch before the walks'.

use cubecl::{client::Client, prelude::*};

use super::{
    device::{Buffer, Rows, flat},
    keys::load_key,
    node,
};
use fangorn_ir::RowType;

/// Words of a rank column's record: the feature, where its keys or its question begin, how many keys, and a node's flags
/// ([`QUESTION`](super::QUESTION), [`NAMED_RIGHT`](super::NAMED_RIGHT), [`MISSING_LEFT`](super::MISSING_LEFT)).
pub const COLUMN_WORDS: u32 = 4;

/// Where rows' values lie.
#[derive(CubeType, CubeLaunch)]
pub struct RowSpan {
    /// Rows.
    pub batch: u32,
    /// From row to row, in values.
    pub row_stride: u32,
    /// From column to column, in values.
    pub column_stride: u32,
    /// The first value, in values.
    pub offset: u32,
}

/// One unit a word of ranks, rows one after the other, each from a word's beginning on.
///
/// A column's keys are ascending; where missing values go left each is one more, and so is the key of the value that is
/// looked up. That of a missing one is the largest word, which wraps to 0.
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

/// The rank of a value in the column whose record is given, with tables that begin at `tables_at`.
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
        // By halves, from the largest power of two that is no more than there are.
        let mut step = 0x8000_0000u32 >> count.leading_zeros();
        while step > 0u32 {
            let probe = found + step;
            let inside = probe <= count;
            let below = tables[(at + select(inside, probe, count) - 1u32) as usize] <= key;
            found = select(inside, select(below, probe, found), found);
            step >>= 1u32;
        }
    }
    found
}

/// What makes rows ranks on a device: a record of [`COLUMN_WORDS`] a column, then keys and questions.
#[derive(Clone, Debug)]
pub struct RankTables {
    /// The words.
    pub words: Buffer,
    /// Rank columns.
    pub columns: u32,
    /// The type of the rows that are ranked.
    pub from: RowType,
    /// The type of the ranks.
    pub to: RowType,
}

impl RankTables {
    /// Words of a ranked row.
    pub fn row_words(&self) -> u32 {
        self.columns.div_ceil(self.to.per_word())
    }
}

/// Ranks rows, one launch: a batch of at least one row, few enough that the ranks fit a binding.
pub fn rank_batch(client: &Client, tables: &RankTables, rows: &Rows) -> Rows {
    let len = rows.batch as usize * tables.row_words() as usize;
    let ranked = Buffer::of_words(client, len);
    let (count, dim) = flat(client, len as u32);
    let span = RowSpanLaunch::new(rows.batch, rows.row_stride, rows.column_stride, rows.offset);
    // SAFETY: features are columns of the rows, keys and questions lie in the tables, and there is a word for each unit
    // that has a row.
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
