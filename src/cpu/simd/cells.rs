//! Ranks by cells: 64 rows of sixteen columns as keys of two bytes, and tables of bytes looked up for 64 of them at a time.

use std::{arch::x86_64::*, ops::Range};

use super::{
    super::{
        isa::{Isa, isa},
        line::Line,
        ranking::cells::{self, Blocks, CellRoom, Celled, Keys, Scales, TOGETHER, TableLine},
        ranking::{
            row_block::{LINE, LineOf},
            search::{BLOCK, Missing},
        },
    },
    LANES,
    blend::kept,
    copy::ask,
};

/// Whether the machine has them: AVX-512 with VBMI.
pub(in crate::cpu) fn available() -> bool {
    isa() == Isa::Avx512 && is_x86_feature_detected!("avx512vbmi")
}

/// Ranks columns of a line of some blocks by cells, and says in `room` which rows are unsure.
///
/// # Safety
/// [`available`]; the line begins within the rows, which have columns up to `most` of it.
pub(in crate::cpu) unsafe fn ranks<'r>(
    blocks: impl ExactSizeIterator<Item = &'r [*const f32; BLOCK]>,
    (line, most): (LineOf, usize),
    scales: &Scales,
    (columns, tables): (&[Celled], &[TableLine]),
    room: &mut CellRoom,
    out: &mut Blocks<'_>,
) {
    let count = blocks.len();
    for (rows, keys) in blocks.zip(&mut room.keys) {
        // SAFETY: as promised to this function.
        unsafe {
            match (scales.missing, most == LINE) {
                (Some(Missing::Least), false) => by_column::<LEAST, false>(rows, line, most, scales, keys),
                (Some(Missing::Least), true) => by_column::<LEAST, true>(rows, line, most, scales, keys),
                (Some(Missing::Most), false) => by_column::<MOST, false>(rows, line, most, scales, keys),
                (Some(Missing::Most), true) => by_column::<MOST, true>(rows, line, most, scales, keys),
                (None, false) => by_column::<APART, false>(rows, line, most, scales, keys),
                (None, true) => by_column::<APART, true>(rows, line, most, scales, keys),
            }
        }
    }
    // SAFETY: as promised to this function.
    unsafe {
        match count {
            1 => each::<1>(columns, tables, room, out),
            _ => each::<TOGETHER>(columns, tables, room, out),
        }
    }
}

/// Keys of missing values: those of values below all others, …
const LEAST: u8 = 0;
/// … of values above them, …
const MOST: u8 = 1;
/// … and none that another value has.
const APART: u8 = 2;

/// The keys of sixteen values, as words. What is negative, or NaN, is 0 as soon as words are packed.
#[inline]
#[target_feature(enable = "avx512f")]
fn key<const MISSING: u8>(values: __m512, [by, plus, most]: [__m512; 3]) -> __m512i {
    const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
    let key = _mm512_fmadd_round_ps::<DOWN>(values, by, plus);
    // Where one of two is NaN, both give the second.
    _mm512_cvttps_epi32(match MISSING {
        LEAST => _mm512_min_ps(most, key),
        MOST => _mm512_min_ps(key, most),
        _ => _mm512_max_ps(_mm512_set1_ps(cells::LEAST as f32), _mm512_min_ps(most, key)),
    })
}

/// Writes the keys of a line of rows by column. A `WHOLE` line needs no mask, which is an instruction more for each row.
///
/// # Safety
/// As for [`ranks`]; a whole line has all sixteen columns.
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
unsafe fn by_column<const MISSING: u8, const WHOLE: bool>(
    rows: &[*const f32; BLOCK],
    line: LineOf,
    most: usize,
    scales: &Scales,
    keys: &mut Keys,
) {
    let there = (((1u32 << most) - 1) & 0xffff) as __mmask16;
    // SAFETY: a line is sixteen values.
    let load = |line: &Line<[f32; LINE]>| unsafe { _mm512_load_ps(line.0.as_ptr()) };
    let scale = [load(&scales.by), load(&scales.plus), load(&scales.most)];
    let last = _mm512_set1_epi8(cells::LAST as i8);
    for (sixteen, rows) in rows.as_chunks::<LANES>().0.iter().enumerate() {
        ask(rows, &line);
        let mut a = [_mm512_setzero_si512(); 8];
        for (i, two) in a.iter_mut().enumerate() {
            let key = |r: usize| {
                let row = rows[r].wrapping_add(line.first as usize);
                // SAFETY: the line is of the row's columns, or the mask keeps to them.
                let values =
                    unsafe { if WHOLE { _mm512_loadu_ps(row) } else { _mm512_maskz_loadu_ps(there, row) } };
                key::<MISSING>(values, scale)
            };
            *two = _mm512_packus_epi32(key(i), key(i + 8));
        }
        // Each quarter has four columns of row `i` and of row `i + 8`. Bytes of neighbouring rows come side by side, pairs of these, and so
        // on, until sixteen rows are together of a byte of a column: four shuffles of each register, and none across quarters.
        let mut b = a;
        for i in 0..4 {
            b[i] = _mm512_unpacklo_epi8(a[2 * i], a[2 * i + 1]);
            b[i + 4] = _mm512_unpackhi_epi8(a[2 * i], a[2 * i + 1]);
        }
        for i in 0..4 {
            a[2 * i] = _mm512_unpacklo_epi16(b[2 * i], b[2 * i + 1]);
            a[2 * i + 1] = _mm512_unpackhi_epi16(b[2 * i], b[2 * i + 1]);
        }
        for (i, from) in [0, 1, 4, 5].into_iter().enumerate() {
            b[2 * i] = _mm512_unpacklo_epi32(a[from], a[from + 2]);
            b[2 * i + 1] = _mm512_unpackhi_epi32(a[from], a[from + 2]);
        }
        for i in 0..4 {
            let place = _mm512_min_epu8(last, _mm512_unpacklo_epi64(b[i], b[i + 4]));
            let cell = _mm512_unpackhi_epi64(b[i], b[i + 4]);
            for (byte, rows) in [place, cell].into_iter().enumerate() {
                let mut store = |quarter: usize, rows: __m128i| {
                    let column = &mut keys.0[4 * quarter + i][byte];
                    // SAFETY: of 64 bytes these are a quarter.
                    unsafe { _mm_storeu_si128(column.as_mut_ptr().add(LANES * sixteen).cast(), rows) };
                };
                store(0, _mm512_castsi512_si128(rows));
                store(1, _mm512_extracti32x4_epi32::<1>(rows));
                store(2, _mm512_extracti32x4_epi32::<2>(rows));
                store(3, _mm512_extracti32x4_epi32::<3>(rows));
            }
        }
    }
}

/// Ranks columns by their keys.
///
/// # Safety
/// [`available`].
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vbmi")]
unsafe fn each<const B: usize>(
    columns: &[Celled],
    tables: &[TableLine],
    room: &mut CellRoom,
    out: &mut Blocks<'_>,
) {
    let mut first = 0;
    while let Some(column) = columns.get(first) {
        let run = first..columns.len().min(first + column.alike as usize);
        first = run.end;
        // SAFETY: as promised to this function.
        unsafe {
            match column.kernel() {
                (1, false) => some::<B, 1, false>(columns, run, tables, room, out),
                (1, true) => some::<B, 1, true>(columns, run, tables, room, out),
                (2, false) => some::<B, 2, false>(columns, run, tables, room, out),
                (2, true) => some::<B, 2, true>(columns, run, tables, room, out),
                (_, false) => some::<B, 4, false>(columns, run, tables, room, out),
                (_, true) => some::<B, 4, true>(columns, run, tables, room, out),
            }
        }
    }
}

/// A run of columns whose tables have `LINES` lines; none of their values is unsure where they are `SURE`.
///
/// # Safety
/// As for [`each`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vbmi")]
unsafe fn some<const B: usize, const LINES: usize, const SURE: bool>(
    columns: &[Celled],
    run: Range<usize>,
    tables: &[TableLine],
    room: &mut CellRoom,
    out: &mut Blocks<'_>,
) {
    // SAFETY: a column's keys are 64 bytes and 64 bytes.
    let load = |bytes: &[u8; BLOCK]| unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) };
    // A number that the compiler knew would be added as a mask made into bytes.
    let one = kept(_mm512_set1_epi8(1));
    for (c, column) in run.clone().zip(&columns[run]) {
        let (counts, slots) = column.tables(tables).split_at(LINES);
        let (mut place, mut cell) = ([_mm512_setzero_si512(); B], [_mm512_setzero_si512(); B]);
        let (mut upper, mut ranks) = ([0; B], [_mm512_setzero_si512(); B]);
        let mut away = [_mm512_set1_epi8(-1); B];
        for b in 0..B {
            let keys = &room.keys[b].0[column.searched.from as usize];
            (place[b], cell[b]) = (load(&keys[0]), load(&keys[1]));
            upper[b] = if LINES == 4 { _mm512_movepi8_mask(cell[b]) } else { 0 };
            ranks[b] = look_up(counts, cell[b], upper[b]);
        }
        for slot in slots.as_chunks::<LINES>().0 {
            for b in 0..B {
                let threshold = look_up(slot, cell[b], upper[b]);
                let reached = _mm512_cmpge_epu8_mask(place[b], threshold);
                ranks[b] = _mm512_mask_add_epi8(ranks[b], reached, ranks[b], one);
                if !SURE {
                    away[b] = _mm512_min_epu8(away[b], _mm512_sub_epi8(place[b], threshold));
                }
            }
        }
        for b in 0..B {
            room.unsure[b][c] = if SURE { 0 } else { _mm512_testn_epi8_mask(away[b], away[b]) };
            let out = out.column(b, column.searched.to);
            // SAFETY: 64 bytes have the room of 64 bytes.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), ranks[b]) };
        }
    }
}

/// The bytes of a table of 1, 2 or 4 lines at these cells, whose highest bits are in `upper`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn look_up(lines: &[TableLine], cell: __m512i, upper: __mmask64) -> __m512i {
    // SAFETY: a line is 64 bytes.
    let line = |i: usize| unsafe { _mm512_load_si512(lines[i].0.as_ptr().cast()) };
    let two = |i: usize| _mm512_permutex2var_epi8(line(i), cell, line(i + 1));
    match lines.len() {
        1 => _mm512_permutexvar_epi8(cell, line(0)),
        2 => two(0),
        _ => _mm512_mask_blend_epi8(upper, two(0), two(2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::ranking::cells::Scale;

    /// All three kinds of missing values, rows with and without whole lines, and values at the ends of scales and around their steps.
    #[test]
    fn keys_are_those_of_the_scale() {
        if !available() {
            return;
        }
        let scale =
            |lane: usize| Scale::new(0.37 * (lane + 1) as f32, 5.0 - lane as f32, [1, 2, 4][lane % 3]);
        let odd = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, -0.0, 1e-40];
        let value = |i: usize| odd.get(i % 61).copied().unwrap_or(((i * 7919) % 90_000) as f32 - 900.0);
        for (most, missing) in [(LINE, 0), (LINE, 1), (LINE, 2), (11, 0), (11, 1), (11, 2)] {
            let sides = [&[Missing::Least][..], &[Missing::Most], &[Missing::Least, Missing::Most]][missing];
            let mut scales = Scales::new(sides.iter().copied());
            (0..LINE).for_each(|lane| scales.set(lane as u32, scale(lane)));
            let values: Vec<f32> = (0..BLOCK * most).map(value).collect();
            let rows: [*const f32; BLOCK] = std::array::from_fn(|r| values[r * most..].as_ptr());
            let (line, mut room) = (LineOf { first: 0, wanted: 0, ahead: None }, CellRoom::NOTHING);
            let mut out = Blocks { ranks: &mut [], apart: 0, between: 0 };
            // SAFETY: the machine is able, and rows have `most` columns.
            unsafe { ranks([&rows].into_iter(), (line, most), &scales, (&[], &[]), &mut room, &mut out) };
            for (i, value) in values.iter().enumerate() {
                let (r, lane) = (i / most, i % most);
                let found = [1, 0].map(|byte| room.keys[0].0[lane][byte][r]);
                let key = scale(lane).key(*value);
                let [least, most] = [f32::NEG_INFINITY, f32::INFINITY].map(|end| scale(lane).key(end));
                match (value.is_nan(), missing) {
                    (true, 0) | (true, 2) => assert_eq!(found, [0, 0]),
                    (true, _) => assert_eq!(found, most),
                    // Whatever is below the scale has the first cell, which has no thresholds.
                    (false, 0 | 1) if key == least => assert!(found <= least, "{value:e}: {found:?}"),
                    (false, _) => assert_eq!(found, key, "{value:e} on {:?}", scale(lane)),
                }
            }
        }
    }
}
