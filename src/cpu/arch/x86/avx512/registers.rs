//! Walks of one row through tiles, with the row's values in registers.

use std::{arch::x86_64::*, hint::select_unpredictable};

use crate::{
    arrays,
    cpu::{
        engine::registers::{
            Answers, LEAF, LookUp, LookUps, MOST_COLUMNS, MaskTile, Tile, TileKind, TiledTrees, Tree,
        },
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
    /// Returns the exit that a row takes from the tile. `exact` points to the tile's thresholds as `f64`, one for each
    /// entry. A [`RegisterRow`] does not read them.
    ///
    /// # Safety
    /// The machine has AVX-512 F, DQ and BW. The row has at most `16 x R` values, and `MISSING` is true if one of them
    /// is missing. The tile is one of the trees that the row was loaded for, as `InRegisters::add` left it. For a
    /// [`RoundedRow`], also inside an [`AskedRow`], `exact` points to the tile's `TileKind::ENTRIES` thresholds.
    unsafe fn exit<V: LoadedRow, const R: usize, const MISSING: bool>(
        &self,
        row: &V,
        exact: *const f64,
    ) -> u16;
}

/// The values of a row.
type RowValues = [__m512; MOST];

/// A row in registers.
pub(crate) trait LoadedRow {
    /// Returns which of sixteen splits the row goes right at. Missing values go left. `exact` points to the thresholds
    /// as `f64`.
    ///
    /// # Safety
    /// The machine has AVX-512 F and DQ. The row has at most `16 x R` values, and the columns are among them. For a
    /// [`RoundedRow`], also inside an [`AskedRow`], sixteen values can be read at `exact`.
    unsafe fn decide<const R: usize>(
        &self,
        columns: &[u8; LANES],
        thresholds: &[f32; LANES],
        exact: *const f64,
    ) -> __mmask16;

    /// Returns in which of sixteen columns the row's value is missing.
    ///
    /// # Safety
    /// The machine has AVX-512 F and DQ. The row has at most `16 x R` values, and the columns are among them.
    unsafe fn missing_in<const R: usize>(&self, columns: &[u8; LANES]) -> __mmask16;

    /// Returns at which splits on categories the row goes right, by a tile's look-ups. Only an [`AskedRow`] looks up.
    ///
    /// # Safety
    /// The look-ups are those of a tile of the trees that the row was loaded for.
    #[inline(always)]
    unsafe fn look_up(&self, _: LookUps) -> u32 {
        0
    }
}

/// A row in registers, with the codes of its categories.
struct AskedRow<'a, V> {
    row: &'a V,
    answers: &'a Answers,
    /// The code of the row's value, by column of [`Answers::columns`].
    codes: &'a [u32; MOST_COLUMNS],
}

/// A row of `f32` values in registers.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct RegisterRow {
    values: RowValues,
    /// Whether some value is missing.
    missing: bool,
}

/// A row of `f64` values in registers, rounded to `f32` down and up. A tile's threshold is the least `f32` that is not
/// below the split's. A value that rounds down to that or more reaches the split's threshold, and a value that rounds up
/// to less does not. Where the two disagree, the `f64` values decide.
pub(in crate::cpu) struct RoundedRow {
    down: RegisterRow,
    up: RowValues,
    /// Whether some value is no `f32`.
    is_rounded: bool,
    values: [f64; MOST_COLUMNS],
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
    // SAFETY: the caller upholds that the row has the forest's columns.
    unsafe { collect(tiled, row, apart, &mut values) };
    RegisterRow::new(arrays::from_fn(|i| register(values.as_ptr(), i)))
}

/// Loads a row of `f64` values into registers. `row` and `apart` are those of [`load`].
///
/// # Safety
/// The machine has AVX-512 F and DQ. The row has the forest's columns.
#[target_feature(enable = "avx512f,avx512dq")]
pub(in crate::cpu) unsafe fn load_rounded<P>(
    tiled: &TiledTrees<'_, P>,
    row: &[f64],
    apart: usize,
) -> RoundedRow {
    let mut values = [0.0; MOST_COLUMNS];
    // SAFETY: the caller upholds that the row has the forest's columns.
    unsafe { collect(tiled, row, apart, &mut values) };
    let (mut down, mut up): (RowValues, RowValues) =
        ([_mm512_setzero_ps(); MOST], [_mm512_setzero_ps(); MOST]);
    let mut is_rounded = false;
    for i in 0..tiled.values.div_ceil(LANES) {
        let halves = [0, LANES / 2].map(|half| {
            // SAFETY: eight values from here on are in the array.
            unsafe { _mm512_loadu_pd(values.as_ptr().add(i * LANES + half)) }
        });
        // A thread may take an `f32` that is smaller than normal numbers for 0. So a value that is becomes the normal
        // numbers around it.
        let least = |sign: f64| _mm512_set1_pd(sign * f64::from(f32::MIN_POSITIVE));
        let tiny = |x| {
            _mm512_cmp_pd_mask::<_CMP_LT_OQ>(_mm512_abs_pd(x), least(1.0))
                & _mm512_cmp_pd_mask::<_CMP_NEQ_OQ>(x, _mm512_setzero_pd())
        };
        let lower = halves.map(|x| {
            let x = _mm512_mask_blend_pd(tiny(x), x, least(-1.0));
            _mm512_cvt_roundpd_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(x)
        });
        let upper = halves.map(|x| {
            let x = _mm512_mask_blend_pd(tiny(x), x, least(1.0));
            _mm512_cvt_roundpd_ps::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(x)
        });
        let both = |[low, high]: [__m256; 2]| _mm512_insertf32x8::<1>(_mm512_castps256_ps512(low), high);
        (down[i], up[i]) = (both(lower), both(upper));
        // Missing values are not rounded.
        is_rounded |= _mm512_cmp_ps_mask::<_CMP_NEQ_OQ>(down[i], up[i]) != 0;
    }
    RoundedRow { down: RegisterRow::new(down), up, is_rounded, values }
}

/// Copies the values that registers hold. `row` and `apart` are those of [`load`].
///
/// # Safety
/// The row has the forest's columns.
#[inline(always)]
unsafe fn collect<T: Read<C> + Copy, C, P>(
    tiled: &TiledTrees<'_, P>,
    row: &[T],
    apart: usize,
    values: &mut [C; MOST_COLUMNS],
) {
    for (index, value) in values[..tiled.values].iter_mut().enumerate() {
        let column = tiled.columns.map_or(index, |columns| columns[index] as usize);
        // SAFETY: the caller upholds that the row has the forest's columns.
        *value = unsafe { *row.get_unchecked(column * apart) }.read();
    }
}

impl RegisterRow {
    #[target_feature(enable = "avx512f")]
    fn new(values: RowValues) -> Self {
        let missing = values.iter().any(|v| _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(*v, *v) != 0);
        Self { values, missing }
    }

    /// Writes the slot of the leaf that the row reaches in each tree to `slots`. `codes` are those of the row's categories,
    /// by column of [`Answers::columns`].
    ///
    /// # Safety
    /// The machine has AVX-512 F, DQ and BW. The row was loaded for these trees, which `InRegisters` built, and `tree`
    /// holds positions of them. `CategoryColumn::code` returned the codes.
    #[target_feature(enable = "avx512f,avx512dq,avx512bw")]
    pub(in crate::cpu) unsafe fn walks<P: TileKind>(
        &self,
        tiled: &TiledTrees<'_, P>,
        codes: &[u32; MOST_COLUMNS],
        tree: Span,
        slots: &mut [u32],
    ) {
        // SAFETY: the caller upholds that trees are positions, and what codes are. `MISSING` is true if a value is
        // missing.
        unsafe {
            match (asks(tiled), self.missing) {
                (false, false) => by_width::<_, P, false>(tiled, self, tree, slots),
                (false, true) => by_width::<_, P, true>(tiled, self, tree, slots),
                (true, _) => {
                    let asked = AskedRow { row: self, answers: tiled.answers, codes };
                    by_width::<_, P, true>(tiled, &asked, tree, slots);
                }
            }
        }
    }
}

impl RoundedRow {
    /// Writes the slot of the leaf that the row reaches in each tree to `slots`.
    ///
    /// # Safety
    /// As for [`RegisterRow::walks`]. The trees have thresholds as `f64`, too.
    #[target_feature(enable = "avx512f,avx512dq,avx512bw")]
    pub(in crate::cpu) unsafe fn walks<P: TileKind>(
        &self,
        tiled: &TiledTrees<'_, P>,
        codes: &[u32; MOST_COLUMNS],
        tree: Span,
        slots: &mut [u32],
    ) {
        // SAFETY: the caller upholds that trees are positions and have `f64` thresholds, and what codes are.
        unsafe {
            match (self.is_rounded, asks(tiled)) {
                (false, _) => self.down.walks(tiled, codes, tree, slots),
                (true, false) => by_width::<_, P, true>(tiled, self, tree, slots),
                (true, true) => {
                    let asked = AskedRow { row: self, answers: tiled.answers, codes };
                    by_width::<_, P, true>(tiled, &asked, tree, slots);
                }
            }
        }
    }
}

/// Returns whether tiles look up categories.
fn asks<P: TileKind>(tiled: &TiledTrees<'_, P>) -> bool {
    P::TAKES_CATEGORIES && !tiled.answers.columns.is_empty()
}

/// Walks a row through trees, with as many registers as the row takes: see [`walks`].
///
/// # Safety
/// As for [`walks`], but the row has as many values as the trees read.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
unsafe fn by_width<V: LoadedRow, P: TileKind, const MISSING: bool>(
    tiled: &TiledTrees<'_, P>,
    row: &V,
    tree: Span,
    slots: &mut [u32],
) {
    // SAFETY: the caller upholds that trees are positions. Each arm reads at least as many registers as the row takes.
    unsafe {
        match tiled.values {
            0..=32 => walks::<_, P, 2, MISSING>(tiled, row, tree, slots),
            33..=64 => walks::<_, P, 4, MISSING>(tiled, row, tree, slots),
            65..=96 => walks::<_, P, 6, MISSING>(tiled, row, tree, slots),
            _ => walks::<_, P, 8, MISSING>(tiled, row, tree, slots),
        }
    }
}

impl LoadedRow for RegisterRow {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn decide<const R: usize>(
        &self,
        columns: &[u8; LANES],
        thresholds: &[f32; LANES],
        _: *const f64,
    ) -> __mmask16 {
        reach(pick::<R>(&self.values, columns), thresholds)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn missing_in<const R: usize>(&self, columns: &[u8; LANES]) -> __mmask16 {
        let values = pick::<R>(&self.values, columns);
        _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(values, values)
    }
}

impl LoadedRow for RoundedRow {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn decide<const R: usize>(
        &self,
        columns: &[u8; LANES],
        thresholds: &[f32; LANES],
        exact: *const f64,
    ) -> __mmask16 {
        let mut right = reach(pick::<R>(&self.down.values, columns), thresholds);
        let mut open = right ^ reach(pick::<R>(&self.up, columns), thresholds);
        while open != 0 {
            let split = open.trailing_zeros() as usize;
            // SAFETY: a mask has sixteen bits, and the caller upholds that there are as many thresholds.
            let threshold = unsafe { *exact.add(split) };
            right |= __mmask16::from(self.values[usize::from(columns[split])] >= threshold) << split;
            open &= open - 1;
        }
        right
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn missing_in<const R: usize>(&self, columns: &[u8; LANES]) -> __mmask16 {
        // SAFETY: the caller upholds what this needs.
        unsafe { self.down.missing_in::<R>(columns) }
    }
}

impl<V: LoadedRow> LoadedRow for AskedRow<'_, V> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn decide<const R: usize>(
        &self,
        columns: &[u8; LANES],
        thresholds: &[f32; LANES],
        exact: *const f64,
    ) -> __mmask16 {
        // SAFETY: the caller upholds what this needs.
        unsafe { self.row.decide::<R>(columns, thresholds, exact) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn missing_in<const R: usize>(&self, columns: &[u8; LANES]) -> __mmask16 {
        // SAFETY: the caller upholds what this needs.
        unsafe { self.row.missing_in::<R>(columns) }
    }

    #[inline(always)]
    unsafe fn look_up(&self, LookUps { first, count }: LookUps) -> u32 {
        let mut right = 0;
        for look_up in first..first + count {
            // SAFETY: the caller upholds that the tile has these look-ups. A code is less than the number of a look-up's
            // answers. A forest that reads more than `MOST_COLUMNS` columns has no tiles, and a look-up's column is one of
            // those, so there is a code of it.
            right |= unsafe {
                let LookUp { column, first } = *self.answers.look_ups.get_unchecked(look_up as usize);
                let code = *self.codes.get_unchecked(column as usize);
                *self.answers.right.get_unchecked((first + code) as usize)
            };
        }
        right
    }
}

/// Walks a row through trees: see [`RegisterRow::walks`]. `MISSING` is true if a value of the row is missing.
///
/// # Safety
/// The machine has AVX-512 F, DQ and BW. The row was loaded for these trees, and `tree` holds positions of them.
/// The row has at most `16 x R` values. For a [`RoundedRow`], the trees have thresholds as `f64`, too.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
unsafe fn walks<V: LoadedRow, P: TileKind, const R: usize, const MISSING: bool>(
    tiled: &TiledTrees<'_, P>,
    row: &V,
    tree: Span,
    slots: &mut [u32],
) {
    for (t, slot) in slots[..tree.count].iter_mut().enumerate() {
        // SAFETY: the caller upholds that trees are positions. `build` has made every exit a leaf, or a tile
        // of the same tree.
        *slot = unsafe {
            let Tree { root, slots, tiles, ends_together } = *tiled.trees.get_unchecked(tree.at(t));
            let root = root as usize;
            let (root, exact) =
                (tiled.tiles.as_ptr().add(root), tiled.exact.as_ptr().wrapping_add(root * P::ENTRIES));
            let step = |tile: usize| {
                (*root.add(tile)).exit::<V, R, MISSING>(row, exact.wrapping_add(tile * P::ENTRIES))
            };
            let mut exit = step(0);
            if ends_together {
                for _ in 1..tiles {
                    exit = step(usize::from(exit));
                }
            } else {
                for _ in 1..tiles {
                    // A walk that has ended keeps its exit. Selecting takes no branch, which the processor
                    // would mispredict.
                    let ended = exit & LEAF != 0;
                    let next = step(select_unpredictable(ended, 0, usize::from(exit)));
                    exit = select_unpredictable(ended, exit, next);
                }
                while exit & LEAF == 0 {
                    exit = step(usize::from(exit));
                }
            }
            slots + u32::from(exit & !LEAF)
        };
    }
}

impl TileKernel for Tile {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw")]
    unsafe fn exit<V: LoadedRow, const R: usize, const MISSING: bool>(
        &self,
        row: &V,
        exact: *const f64,
    ) -> u16 {
        // SAFETY: the caller upholds that the row has so many values, and a tile's columns are among a row's.
        let right = unsafe {
            let missing = if MISSING { row.missing_in::<R>(&self.columns) & self.missing } else { 0 };
            usize::from(row.decide::<R>(&self.columns, &self.thresholds, exact) | missing)
        };
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
    unsafe fn exit<V: LoadedRow, const R: usize, const MISSING: bool>(
        &self,
        row: &V,
        exact: *const f64,
    ) -> u16 {
        let (columns, thresholds) = (halves(&self.columns), halves(&self.thresholds));
        let missing = [self.missing as __mmask16, (self.missing >> LANES) as __mmask16];
        // SAFETY: the caller upholds that the row has so many values, and a tile's columns are among a row's. The tile's
        // look-ups are its own.
        let right = unsafe {
            let asked = row.look_up(self.look_ups);
            let asked = [asked as __mmask16, (asked >> LANES) as __mmask16];
            [0, 1].map(|half| {
                let missing = if MISSING { row.missing_in::<R>(columns[half]) & missing[half] } else { 0 };
                let reached =
                    row.decide::<R>(columns[half], thresholds[half], exact.wrapping_add(half * LANES));
                reached | missing | asked[half]
            })
        };
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

/// Returns which of sixteen values reach their thresholds.
#[inline]
#[target_feature(enable = "avx512f")]
fn reach(values: __m512, thresholds: &[f32; LANES]) -> __mmask16 {
    // SAFETY: there are sixteen thresholds.
    let thresholds = unsafe { _mm512_loadu_ps(thresholds.as_ptr()) };
    _mm512_cmp_ps_mask::<_CMP_GE_OQ>(values, thresholds)
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
