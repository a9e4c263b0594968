//! Walks of one row through tiles, with the row's values in registers.

use std::{arch::x86_64::*, hint::select_unpredictable};

use crate::{
    arrays,
    cpu::{
        engine::registers::{LEAF, MOST_COLUMNS, MaskTile, Tile, TiledTrees, Tree},
        engine::walk::Span,
        rows::Read,
    },
};

/// Values in a register.
const LANES: usize = 16;
/// Registers that a row takes, at most.
const MOST: usize = MOST_COLUMNS / LANES;

/// The index of a split on a tile's last level, 7 to 14, by the decisions of the tile's first seven splits.
static LAST: [u8; 128] = last();

const fn last() -> [u8; 128] {
    let mut table = [0; 128];
    let mut decisions = 0;
    while decisions < 128 {
        let mut index = 0;
        let mut level = 0;
        while level < 3 {
            index = 2 * index + 1 + (decisions >> index & 1);
            level += 1;
        }
        table[decisions] = index as u8;
        decisions += 1;
    }
    table
}

/// A kind of tiles that walks go through.
pub(crate) trait TileKernel {
    /// Returns the exit that a row takes from the tile. `MISSING` is true if a value of the row is missing.
    ///
    /// # Safety
    /// The machine has AVX-512 F, DQ and BW. The row has at most `16 x R` values. The tile was built by
    /// `TileKind::cut`. Its exits are those that `InRegisters::add` wrote.
    unsafe fn exit<const R: usize, const MISSING: bool>(&self, row_values: &RowValues) -> u16;
}

/// The values of a row.
pub(crate) type RowValues = [__m512; MOST];

/// A row in registers.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct RegisterRow {
    values: RowValues,
    /// Whether some value is missing.
    missing: bool,
}

/// Loads a row into registers. `row` begins with the value of column 0, and the values of adjacent columns are
/// `apart` from each other.
///
/// # Safety
/// The machine has AVX-512 F. The row has the forest's columns.
#[target_feature(enable = "avx512f")]
pub(in crate::cpu) unsafe fn load<T: Read<f32> + Copy, P>(
    tiled: &TiledTrees<'_, P>,
    row: &[T],
    apart: usize,
) -> RegisterRow {
    let count = tiled.values;
    let register = |data: *const f32, i: usize| {
        let here = count.saturating_sub(i * LANES).min(LANES);
        let mask = ((1u32 << here) - 1) as __mmask16;
        // SAFETY: the mask leaves out what is past the row's values. `data` has as many values: it
        // is the array below, or a row that the caller upholds has the forest's columns.
        unsafe { _mm512_maskz_loadu_ps(mask, data.wrapping_add(i * LANES)) }
    };
    if let (Some(row), 1, None) = (T::as_they_are(row), apart, tiled.columns) {
        let data = row.as_ptr();
        return RegisterRow::new(arrays::from_fn(|i| register(data, i)));
    }
    let mut values = [0.0; MOST_COLUMNS];
    for (index, value) in values[..count].iter_mut().enumerate() {
        let column = tiled.columns.map_or(index, |columns| columns[index] as usize);
        // SAFETY: the caller upholds that the row has the forest's columns.
        *value = unsafe { *row.get_unchecked(column * apart) }.read();
    }
    RegisterRow::new(arrays::from_fn(|i| register(values.as_ptr(), i)))
}

impl RegisterRow {
    #[target_feature(enable = "avx512f")]
    fn new(values: RowValues) -> Self {
        let missing = values.iter().any(|v| _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(*v, *v) != 0);
        Self { values, missing }
    }

    /// Writes the slot of the leaf that the row reaches in each tree to `slots`.
    ///
    /// # Safety
    /// The machine has AVX-512 F, DQ and BW. The row was loaded for these trees, which `InRegisters` built, and `tree`
    /// holds positions of them.
    #[target_feature(enable = "avx512f,avx512dq,avx512bw")]
    pub(in crate::cpu) unsafe fn walks<P: TileKernel>(
        &self,
        tiled: &TiledTrees<'_, P>,
        tree: Span,
        slots: &mut [u32],
    ) {
        // SAFETY: the caller upholds that trees are positions. Each arm reads at least as many registers as
        // the row takes, and has `MISSING` set if a value is missing.
        unsafe {
            match (tiled.values, self.missing) {
                (0..=32, false) => walks::<P, 2, false>(tiled, &self.values, tree, slots),
                (0..=32, true) => walks::<P, 2, true>(tiled, &self.values, tree, slots),
                (33..=64, false) => walks::<P, 4, false>(tiled, &self.values, tree, slots),
                (33..=64, true) => walks::<P, 4, true>(tiled, &self.values, tree, slots),
                (65..=96, false) => walks::<P, 6, false>(tiled, &self.values, tree, slots),
                (65..=96, true) => walks::<P, 6, true>(tiled, &self.values, tree, slots),
                (_, false) => walks::<P, 8, false>(tiled, &self.values, tree, slots),
                (_, true) => walks::<P, 8, true>(tiled, &self.values, tree, slots),
            }
        }
    }
}

/// Walks a row through trees: see [`RegisterRow::walks`]. `MISSING` is true if a value of the row is missing.
///
/// # Safety
/// The machine has AVX-512 F, DQ and BW. The row was loaded for these trees, and `tree` holds positions of them.
/// The row has at most `16 x R` values.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
unsafe fn walks<P: TileKernel, const R: usize, const MISSING: bool>(
    tiled: &TiledTrees<'_, P>,
    row_values: &RowValues,
    tree: Span,
    slots: &mut [u32],
) {
    for (t, slot) in slots[..tree.count].iter_mut().enumerate() {
        // SAFETY: the caller upholds that trees are positions. `build` has made every exit a leaf, or a tile
        // of the same tree.
        *slot = unsafe {
            let Tree { root, slots, tiles, ends_together } = *tiled.trees.get_unchecked(tree.at(t));
            let root = tiled.tiles.as_ptr().add(root as usize);
            let step = |tile: *const P| (*tile).exit::<R, MISSING>(row_values);
            let mut exit = step(root);
            if ends_together {
                for _ in 1..tiles {
                    exit = step(root.add(usize::from(exit)));
                }
            } else {
                for _ in 1..tiles {
                    // A walk that has ended keeps its exit. Selecting takes no branch, which the processor
                    // would mispredict.
                    let ended = exit & LEAF != 0;
                    let next = step(root.add(select_unpredictable(ended, 0, usize::from(exit))));
                    exit = select_unpredictable(ended, exit, next);
                }
                while exit & LEAF == 0 {
                    exit = step(root.add(usize::from(exit)));
                }
            }
            slots + u32::from(exit & !LEAF)
        };
    }
}

impl TileKernel for Tile {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw")]
    unsafe fn exit<const R: usize, const MISSING: bool>(&self, row_values: &RowValues) -> u16 {
        let mut right = decide::<R>(row_values, &self.columns, &self.thresholds);
        if MISSING {
            right |= missing_in::<R>(row_values, &self.columns) & self.missing;
        }
        let right = usize::from(right);
        // SAFETY: seven decisions index the 128 numbers in `LAST`, all from 7 to 14, so the exit is one of the tile's
        // sixteen.
        unsafe {
            let index = usize::from(*LAST.get_unchecked(right & 127));
            let exit = 2 * index + 1 + (right >> index & 1) - 15;
            *self.exits.get_unchecked(exit)
        }
    }
}

impl TileKernel for MaskTile {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw")]
    unsafe fn exit<const R: usize, const MISSING: bool>(&self, row_values: &RowValues) -> u16 {
        let (columns, thresholds) = (halves(&self.columns), halves(&self.thresholds));
        let mut right = [0, 1].map(|half| decide::<R>(row_values, columns[half], thresholds[half]));
        if MISSING {
            right[0] |= missing_in::<R>(row_values, columns[0]) & self.missing as __mmask16;
            right[1] |= missing_in::<R>(row_values, columns[1]) & (self.missing >> LANES) as __mmask16;
        }
        let [low, high] = halves(&self.left);
        // SAFETY: both halves are sixteen numbers. One exit is to the left of no split at which the row goes right: the
        // one that it takes. So not all 32 bits are set, and the index is below 32.
        unsafe {
            let low = _mm512_maskz_loadu_epi32(right[0], low.as_ptr().cast());
            let high = _mm512_maskz_loadu_epi32(right[1], high.as_ptr().cast());
            let ruled_out = _mm512_reduce_or_epi32(_mm512_or_si512(low, high)) as u32;
            *self.exits.get_unchecked(ruled_out.trailing_ones() as usize)
        }
    }
}

/// Returns the halves of an array.
#[inline]
fn halves<T>(array: &[T; 32]) -> [&[T; LANES]; 2] {
    let (low, high) = array.split_at(LANES);
    [low, high].map(|half| half.try_into().expect("sixteen values"))
}

/// Returns which of sixteen splits a row's values go right at. Missing values go left.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn decide<const R: usize>(
    row_values: &RowValues,
    columns: &[u8; LANES],
    thresholds: &[f32; LANES],
) -> __mmask16 {
    // SAFETY: there are sixteen thresholds.
    let thresholds = unsafe { _mm512_loadu_ps(thresholds.as_ptr()) };
    _mm512_cmp_ps_mask::<_CMP_GE_OQ>(pick::<R>(row_values, columns), thresholds)
}

/// Returns in which of sixteen columns a row's value is missing.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn missing_in<const R: usize>(row_values: &RowValues, columns: &[u8; LANES]) -> __mmask16 {
    let values = pick::<R>(row_values, columns);
    _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(values, values)
}

/// Returns the row's values in sixteen columns, all below `16 x R`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn pick<const R: usize>(row_values: &RowValues, columns: &[u8; LANES]) -> __m512 {
    // SAFETY: there are sixteen columns.
    let columns = unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(columns.as_ptr().cast())) };
    let pair = |i: usize| _mm512_permutex2var_ps(row_values[2 * i], columns, row_values[2 * i + 1]);
    let bit = |bit: i32| _mm512_test_epi32_mask(columns, _mm512_set1_epi32(bit));
    match R {
        0..=2 => pair(0),
        3..=4 => _mm512_mask_blend_ps(bit(32), pair(0), pair(1)),
        _ => {
            let low = _mm512_mask_blend_ps(bit(32), pair(0), pair(1));
            let high = if R <= 6 { pair(2) } else { _mm512_mask_blend_ps(bit(32), pair(2), pair(3)) };
            _mm512_mask_blend_ps(bit(64), low, high)
        }
    }
}
