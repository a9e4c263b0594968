//! Tiles of any shape in C, as the library's engine `masks` has them.

use super::{TileText, list};
use crate::{
    ahead::text::{Number, constant},
    cpu::registers::{MaskTile, TileKind},
};

impl TileText for MaskTile {
    const BYTES: usize = 384;

    const TYPE: &'static str = "\
/* Up to 31 connected splits of a tree: the thresholds, from which on values go right; a bit for each split, set if
   missing values go right; the tile's ends below the left side of each split, a bit for each; the number of splits; the
   splits' columns; where a walk goes from each end, left to right; and the first and the number of the tile's look-ups,
   which answer its splits on categories. An end with bit 15 is the number of a leaf in its tree, another that of a tile in
   its tree. */
typedef struct {
    float thresholds[31]; uint32_t missing, left[31], count; uint8_t columns[32]; uint16_t ends[32];
    uint32_t look_up, look_ups;
} ALIGNED tile;
";

    const ANY: &'static str = "\
/* Where a row goes. Each split where it goes right rules out the ends below its left side, and the first end that is left
   is the row's (QuickScorer, Lucchese et al., SIGIR 2015). There is no branch that a processor would mispredict. */
static uint32_t any_end(const value *row, CODES_TAKEN const tile *of, int missing)
{
    /* The place of a number's only bit, by the number's product with a sequence of de Bruijn. */
    static const uint8_t places[32] = {
        0, 1, 28, 2, 29, 14, 24, 3, 30, 22, 20, 15, 25, 17, 4, 8,
        31, 27, 13, 23, 21, 19, 16, 7, 26, 12, 18, 6, 11, 5, 10, 9};
    const uint32_t asked = ASKED(of);
    uint32_t ruled_out = 0, n;
    for (n = 0; n < of->count; n++) {
        const value x = row[COLUMN(of->columns[n])];
        uint32_t right = (uint32_t)(x >= THRESHOLD(of, n)) | (asked >> n & 1);
        if (missing) right |= (uint32_t)(x != x) & (of->missing >> n & 1);
        ruled_out |= of->left[n] & (0 - right);
    }
    return of->ends[places[(~ruled_out & (ruled_out + 1)) * 0x077cb531u >> 27]];
}

static void any_walk(const value *row, uint32_t first, uint32_t count, uint32_t *at)
{
    int missing = 0;
    uint32_t k;
CODES
    for (k = 0; k < VALUES; k++) missing |= row[COLUMN(k)] != row[COLUMN(k)];
    for (k = 0; k < count; k++) {
        const tree of = trees[first + k];
        const tile *const root = tiles + of.root, *here = root;
        uint32_t end;
        for (;;) {
            end = missing ? any_end(row, CODES_GIVEN here, 1) : any_end(row, CODES_GIVEN here, 0);
            if (end >> 15) break;
            here = root + end;
        }
        at[k] = of.leaves + (end & 0x7fff);
    }
}
";

    const WIDE: &'static str = "\
/* An entry without a split has no threshold that a value reaches. */
#define SIXTEEN(OF, HALF) \\
    ((HALF) ? _mm512_mask_loadu_ps(_mm512_set1_ps(NAN), 0x7fff, (OF)->thresholds + 16) : \\
              _mm512_loadu_ps((OF)->thresholds))

/* Where a row goes that goes right at these splits. */
WIDE uint32_t wide_end(const tile *of, __mmask16 low, __mmask16 high, uint32_t asked)
{
    const __m512i both = _mm512_or_si512(
        _mm512_maskz_loadu_epi32((__mmask16)(low | asked), of->left),
        _mm512_maskz_loadu_epi32((__mmask16)(high | asked >> 16), of->left + 16));
    return of->ends[__builtin_ctz(~(uint32_t)_mm512_reduce_or_epi32(both))];
}
/* `RIGHT(of, half)` says at which of sixteen splits a row goes right. */
#define END(OF, RIGHT) wide_end(OF, RIGHT(OF, 0), RIGHT(OF, 1), ASKED(OF))
";

    fn text(&self) -> String {
        let splits = <Self as TileKind>::SPLITS;
        format!(
            "{{{{{}}},{}u,{{{}}},{},{{{}}},{{{}}},{},{}}}",
            list(self.thresholds[..splits].iter().map(|t| constant(f64::from(*t), Number::F32))),
            self.missing,
            list(self.left[..splits].iter().map(|left| format!("{left}u"))),
            self.left.iter().filter(|left| **left != 0).count(),
            list(self.columns.iter().map(u8::to_string)),
            list(self.exits.iter().map(u16::to_string)),
            self.look_ups.first,
            self.look_ups.count
        )
    }

    fn wide() -> String {
        Self::WIDE.into()
    }
}
