//! A row block, read one column block at a time: the same sixteen columns of 64 rows, then the next sixteen
//! columns.
//!
//! Everything that needs a column block reads it at once, while its values are in a close cache. If whole
//! rows were copied first, one after the other, the copied columns would go out to the next cache and come
//! back.

use std::marker::PhantomData;

use super::{
    super::{cache_line::CacheLine, rows::Rows},
    column_block::{BLOCK_COLUMNS, ColumnBlock, MOST_LAYERS, ROW_BLOCK, ThresholdMasks},
    search::{Columns, LayeredColumn, Missing},
};
use crate::arrays;
#[cfg(target_arch = "aarch64")]
use crate::isa::{Isa, isa};

/// Room for the numbers that are computed from one column block.
pub(crate) struct ColumnBlockRoom {
    /// The values, column after column of 64 rows.
    pub(crate) columns: CacheLine<[f32; BLOCK_COLUMNS * ROW_BLOCK]>,
    reached: [ThresholdMasks; MOST_LAYERS],
}

impl ColumnBlockRoom {
    pub(crate) const EMPTY: Self = Self {
        columns: CacheLine([0.0; BLOCK_COLUMNS * ROW_BLOCK]),
        reached: [const { CacheLine([[0; ROW_BLOCK]; 2]) }; MOST_LAYERS],
    };
}

/// At most 64 rows, each of adjacent values.
pub(crate) struct RowBlock<'a> {
    /// Where each row begins. Entries past the last row repeat it. Each pointer points to `columns` values, as
    /// [`RowBlock::new`] checks.
    rows: [*const f32; ROW_BLOCK],
    count: usize,
    columns: usize,
    of: PhantomData<&'a [f32]>,
}

impl<'a> RowBlock<'a> {
    /// Returns the rows from `first` on, at most 64 and at most `most`. Returns `None` if there are no
    /// values, or if the values of a row are not adjacent.
    pub(crate) fn new(rows: &Rows<'a>, first: usize, most: usize) -> Option<Self> {
        let count = rows.len().saturating_sub(first).min(most).min(ROW_BLOCK);
        if count == 0 || rows.columns() == 0 || !rows.is_unit() {
            return None;
        }
        let (columns, apart) = (rows.columns(), rows.row_stride());
        // The slice ends with the last row's last value, so it panics unless all rows are inside the data.
        let begin = rows.from(first)[..(count - 1) * apart + columns].as_ptr();
        let row = |r: usize| begin.wrapping_add(r.min(count - 1) * apart);
        Some(Self { rows: arrays::from_fn(row), count, columns, of: PhantomData })
    }

    /// Returns the values of a row from column `first` on.
    fn row(&self, r: usize, first: usize) -> &'a [f32] {
        // SAFETY: `RowBlock::new` has checked that `columns` values follow each pointer in `rows`.
        let row = unsafe { std::slice::from_raw_parts(self.rows[r], self.columns) };
        &row[first..]
    }

    /// Copies the wanted columns of column blocks, 64 values of each. Column `c` goes to `into[(c - base) *
    /// 64..]`, where `base` is the first column of the first column block. Rows past the last one get
    /// arbitrary values.
    ///
    /// Panics if the rows lack a wanted column or `into` has no room for it.
    pub(crate) fn columns(&self, column_blocks: &[ColumnBlock], into: &mut [f32]) {
        let Some(base) = column_blocks.first().map(|column_block| column_block.first) else { return };
        let fits = |column_block: &ColumnBlock| {
            let wanted = column_block.wanted.checked_ilog2().map_or(0, |last| last as usize + 1);
            let end =
                column_block.first.checked_sub(base).map(|column| (column as usize + wanted) * ROW_BLOCK);
            wanted <= column_block.most(self.columns)
                && column_block.first as usize <= self.columns
                && end.is_some_and(|end| end <= into.len())
        };
        assert!(column_blocks.iter().all(fits), "columns are the rows', and have room");
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: `RowBlock::new` has checked the rows. The assertion above checks that no column block
            // begins past their columns, that the wanted columns exist, and that `into` has room for them.
            if unsafe {
                crate::cpu::arch::x86::columns(&self.rows, self.count, self.columns, column_blocks, into)
            } {
                return;
            }
        }
        #[cfg(target_arch = "aarch64")]
        if isa() == Isa::Neon {
            // SAFETY: `isa` has found NEON. `RowBlock::new` has checked the rows. The assertion above checks
            // that no column block begins past their columns, that the wanted columns exist, and that `into`
            // has room for them.
            return unsafe {
                crate::cpu::arch::aarch64::neon::columns(
                    &self.rows,
                    self.count,
                    self.columns,
                    column_blocks,
                    into,
                )
            };
        }
        for r in 0..self.count {
            for column_block in column_blocks {
                let row = self.row(r, column_block.first as usize);
                let into = &mut into[(column_block.first - base) as usize * ROW_BLOCK..];
                for c in (0..BLOCK_COLUMNS).filter(|c| column_block.wanted >> c & 1 == 1) {
                    into[c * ROW_BLOCK + r] = row[c];
                }
            }
        }
    }

    /// Ranks the columns of a column block that have few thresholds. `layers[j]` holds threshold `j` of each
    /// of the sixteen columns, ascending with `j`, and an arbitrary value if a column has fewer thresholds.
    /// `missing` says which thresholds a missing value reaches. The ranks of column `n` go to column `n` of `out`.
    pub(crate) fn layered(
        &self,
        column_block: ColumnBlock,
        layers: &[CacheLine<[f32; BLOCK_COLUMNS]>],
        missing: Missing,
        columns: &[LayeredColumn],
        room: &mut ColumnBlockRoom,
        out: Columns<&mut [u8]>,
    ) {
        let Columns { of: out, apart } = out;
        let reached = &mut room.reached[..layers.len()];
        assert!(column_block.first as usize <= self.columns, "columns are the rows'");
        let most = column_block.most(self.columns);
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: the assertion above checks that the column block begins within the rows, `most` is the
            // number of its columns that they have, and `reached` has an element for every layer.
            // `RowBlock::new` has checked the rows.
            let done = unsafe {
                crate::cpu::arch::x86::layers::reach(&self.rows, most, column_block, layers, missing, reached)
            };
            if done {
                // SAFETY: `reach` has returned `true`, so the machine has the instructions.
                return unsafe { crate::cpu::arch::x86::layers::add_up(columns, reached, out, apart) };
            }
        }
        for (layer, reached) in layers.iter().zip(&mut *reached) {
            reached.0 = [[0; ROW_BLOCK]; 2];
            for r in 0..ROW_BLOCK {
                for (c, (value, threshold)) in
                    self.row(r, column_block.first as usize)[..most].iter().zip(layer.0).enumerate()
                {
                    let is = *value >= threshold || value.is_nan() && missing == Missing::Most;
                    reached.0[c / 8][r] |= u8::from(is) << (c % 8);
                }
            }
        }
        for few in columns {
            let (lane, count) = (usize::from(few.lane), usize::from(few.count));
            let out = &mut out[few.column as usize * apart..][..ROW_BLOCK];
            for (r, out) in out.iter_mut().enumerate() {
                *out = reached[..count].iter().map(|layer| layer.0[lane / 8][r] >> (lane % 8) & 1).sum();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `count` rows with `columns` columns. Some are NaN, infinite or zero.
    fn rows(count: usize, columns: usize) -> Vec<f32> {
        let odd = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0];
        let value = |i: usize| odd.get(i * 7919 % 23).copied().unwrap_or((i * 104_729 % 11) as f32 - 5.0);
        (0..count * columns).map(value).collect()
    }

    #[test]
    fn wanted_columns_are_copied() {
        for (count, columns) in [(1, 1), (16, 15), (17, 24), (64, 16), (40, 53), (64, 40)] {
            let values = rows(count, columns);
            let rows = Rows::new(&values, columns).expect("rows");
            let block = RowBlock::new(&rows, 0, ROW_BLOCK).expect("a block");
            let column_blocks: Vec<ColumnBlock> = (0..columns as u32)
                .step_by(BLOCK_COLUMNS)
                .map(|first| {
                    let there = u16::MAX >> BLOCK_COLUMNS.saturating_sub(columns - first as usize);
                    ColumnBlock { first, wanted: there & 0x9bd7, ahead: Some(first / 2) }
                })
                .collect();
            let mut into = vec![77.0; columns.next_multiple_of(BLOCK_COLUMNS) * ROW_BLOCK];
            block.columns(&column_blocks, &mut into);
            for (i, found) in into.iter().enumerate() {
                let (c, r) = (i / ROW_BLOCK, i % ROW_BLOCK);
                let wanted =
                    c < columns && column_blocks[c / BLOCK_COLUMNS].wanted >> (c % BLOCK_COLUMNS) & 1 == 1;
                match wanted {
                    true if r < count => assert_eq!(found.to_bits(), values[r * columns + c].to_bits()),
                    true => {}
                    false => assert_eq!(*found, 77.0, "column {c}, which nobody wants"),
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "columns are the rows'")]
    fn no_column_is_copied_that_rows_have_not() {
        let rows = Rows::new(&[1.0; 17], 17).expect("rows");
        let block = RowBlock::new(&rows, 0, ROW_BLOCK).expect("a block");
        block.columns(
            &[ColumnBlock { first: 16, wanted: 2, ahead: None }],
            &mut [0.0; BLOCK_COLUMNS * ROW_BLOCK],
        );
    }

    #[test]
    fn layers_count_the_thresholds_that_values_reach() {
        // One room for all, so that what one call leaves there can't show in the next.
        let mut room = ColumnBlockRoom::EMPTY;
        for (count, columns) in [(1, 1), (64, 9), (20, 15), (64, 16), (40, 17), (64, 24), (33, 27)] {
            let values = rows(count, columns);
            let rows = Rows::new(&values, columns).expect("rows");
            let block = RowBlock::new(&rows, 0, ROW_BLOCK).expect("a block");
            for first in (0..columns as u32).step_by(BLOCK_COLUMNS) {
                for of in 0..=MOST_LAYERS {
                    let layer = |j: usize| CacheLine(std::array::from_fn(|c| (j * 2 + c % 5) as f32 - 5.0));
                    let layers: Vec<_> = (0..of).map(layer).collect();
                    let there = (columns - first as usize).min(BLOCK_COLUMNS);
                    let own: Vec<_> = (0..there)
                        .rev()
                        .map(|lane| LayeredColumn {
                            column: lane as u32,
                            lane: lane as u8,
                            count: ((lane + 1) % (of + 1)) as u8,
                        })
                        .collect();
                    for missing in [Missing::Least, Missing::Most] {
                        let apart = ROW_BLOCK + 3;
                        let mut out = vec![0xee; BLOCK_COLUMNS * apart];
                        let column_block = ColumnBlock { first, wanted: 0, ahead: Some(first) };
                        let to = Columns { of: &mut out[..], apart };
                        block.layered(column_block, &layers, missing, &own, &mut room, to);
                        for of in own.iter().map(|of| (of.lane as usize, of.count as usize)) {
                            for r in 0..count {
                                let value = values[r * columns + first as usize + of.0];
                                let reached = |layer: &&CacheLine<[f32; BLOCK_COLUMNS]>| match value.is_nan()
                                {
                                    true => missing == Missing::Most,
                                    false => value >= layer.0[of.0],
                                };
                                let expected = layers[..of.1].iter().filter(reached).count();
                                let found = usize::from(out[of.0 * apart + r]);
                                assert_eq!(found, expected, "{value} in column {}", of.0);
                            }
                        }
                        assert!(
                            out.chunks(apart).all(|out| out[ROW_BLOCK..] == [0xee; 3]),
                            "written past a block"
                        );
                    }
                }
            }
        }
    }
}
