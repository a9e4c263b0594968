//! Tiles of four levels in C, as the library's engine `registers` has them.

use super::{TileText, list};
use crate::{
    ahead::text::{Number, constant},
    cpu::registers::Tile,
};

impl TileText for Tile {
    const BYTES: usize = 128;

    const TYPE: &'static str = "\
/* Four levels of a tree as fifteen splits, level by level: the thresholds, from which on values go right; where a walk
   goes from each of the tile's sixteen ends; the splits' columns; and a bit for each split, set if missing values go
   right. An end with bit 15 is the number of a leaf in its tree, another that of a tile in its tree. */
typedef struct { float thresholds[16]; uint16_t ends[16]; uint8_t columns[16]; uint16_t missing; } ALIGNED tile;
";

    const ANY: &'static str = "\
/* Walks a row through trees, eight side by side, so that the processor works on several walks while each waits for its
   loads. A walk that has ended keeps its end. */
static void any_walk(const value *row, uint32_t first, uint32_t count, uint32_t *at)
{
    uint32_t t, k, level, open;
    for (t = 0; t < count; t += 8) {
        const uint32_t here = count - t < 8 ? count - t : 8;
        const tile *root[8], *of[8];
        uint32_t split[8], end[8];
        for (k = 0; k < 8; k++) {
            root[k] = of[k] = tiles + trees[first + t + (k < here ? k : here - 1)].root;
            end[k] = 0;
        }
        do {
            open = 0;
            for (k = 0; k < 8; k++) split[k] = 0;
            for (level = 0; level < 4; level++) {
                for (k = 0; k < 8; k++) {
                    const uint32_t n = split[k];
                    const value x = row[COLUMN(of[k]->columns[n])];
                    const uint32_t missing = (uint32_t)(x != x) & (uint32_t)(of[k]->missing >> n & 1);
                    split[k] = 2 * n + 1 + ((uint32_t)(x >= THRESHOLD(of[k], n)) | missing);
                }
            }
            for (k = 0; k < 8; k++) {
                const uint32_t ended = end[k] >> 15, next = of[k]->ends[split[k] - 15];
                end[k] = (end[k] & (0 - ended)) | (next & (ended - 1));
                open |= ~end[k] & 0x8000;
                of[k] = root[k] + (end[k] & ((end[k] >> 15) - 1));
            }
        } while (open);
        for (k = 0; k < here; k++) at[t + k] = trees[first + t + k].leaves + (end[k] & 0x7fff);
    }
}
";

    const WIDE: &'static str = "\
#define SIXTEEN(OF, HALF) ((void)(HALF), _mm512_loadu_ps((OF)->thresholds))

/* The number of a split on a tile's last level, by the decisions of the seven splits above. */
static const uint8_t last[128] = {
LAST};

/* Where a row goes that goes right at these splits. */
WIDE uint32_t wide_end(const tile *of, uint32_t right)
{
    const uint32_t split = last[right & 127];
    return of->ends[2 * split + 1 + (right >> split & 1) - 15];
}
/* `RIGHT(of, half)` says at which of sixteen splits a row goes right. */
#define END(OF, RIGHT) wide_end(OF, RIGHT(OF, 0))
";

    fn text(&self) -> String {
        format!(
            "{{{{{}}},{{{}}},{{{}}},{}}}",
            list(self.thresholds.iter().map(|t| constant(f64::from(*t), Number::F32))),
            list(self.exits.iter().map(u16::to_string)),
            list(self.columns.iter().map(u8::to_string)),
            self.missing
        )
    }

    fn wide() -> String {
        // Decisions of a tile's first seven splits lead to one of the eight splits below them.
        let last = (0u32..128).map(|decisions| {
            let index = (0..3).fold(0, |index, _| 2 * index + 1 + (decisions >> index & 1));
            index.to_string()
        });
        let lines =
            last.collect::<Vec<_>>().chunks(32).map(|line| line.join(",") + ",\n").collect::<String>();
        Self::WIDE.replace("LAST", &lines)
    }
}
