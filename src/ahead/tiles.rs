//! Walks through tiles of four levels, like the library's engine `registers` on a processor with AVX-512. A row
//! stands in registers, and one compare makes all decisions of a tile (tree tiling: Treebeard, section 3.2). Other
//! processors walk the same tiles split by split, through eight trees side by side.

use std::fmt::Write;

use super::{
    text::{Number, array, constant, of},
    walks::{LeafText, Walks},
};
use crate::{
    cpu::registers::{LEAF, Registers, Tile, Tree},
    forest::{CompareType, Forest, Node},
};

/// How many times the bytes of nodes tiles may take. A full tree of six levels takes 2.4 times as many, one of eight 0.8
/// times. "Models compiled ahead of time" in `benches/NOTEBOOK.md` says what tiles gain.
pub(super) const MOST_GROWTH: usize = 3;
/// Bytes of a tile, with its alignment.
const TILE_BYTES: usize = 128;
// The functions in C know the bit of a leaf.
const _: () = assert!(LEAF == 1 << 15);

/// A forest's tiles, and its leaves by their slots.
pub(super) struct Tiles<'a> {
    forest: &'a Forest,
    tables: Registers,
}

/// Where there is code for AVX-512, and the types of the tables.
const WHERE: &str = "\
/* -DNAME_SCALAR leaves out the code for AVX-512. */
#if defined(__x86_64__) && !defined(_MSC_VER) && !defined(NAME_SCALAR) && \\
    (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 8))
#include <immintrin.h>
#define WIDE __attribute__((always_inline, target(\"avx512f,avx512dq,avx512bw\"))) static inline
/* On a virtual machine, asking the processor takes 0.1 ms, once. */
#if defined(__AVX512BW__) && defined(__AVX512DQ__)
#define IS_WIDE 1
#else
#define IS_WIDE (__builtin_cpu_supports(\"avx512dq\") && __builtin_cpu_supports(\"avx512bw\"))
#endif
/* Trees of a call, which brings the row into registers. */
#define TOGETHER 128
#else
#define TOGETHER 8
#endif
#ifdef __GNUC__
#define ALIGNED __attribute__((aligned(64)))
#else
#define ALIGNED
#endif

/* Four levels of a tree as fifteen splits, level by level: the thresholds, from which on values go right; where a walk
   goes from each of the tile's sixteen ends; the splits' columns; and a bit for each split, set if missing values go
   right. An end with bit 15 is the number of a leaf in its tree, another that of a tile in its tree. */
typedef struct { value thresholds[16]; uint16_t ends[16]; uint8_t columns[16]; uint16_t missing; } ALIGNED tile;
/* The tile of the root, the tree's first leaf, and the tiles that every walk goes through. */
typedef struct { uint32_t root, leaves, tiles; } tree;

";

/// The walk for any processor: a row goes through eight trees side by side, so that the processor works on several walks
/// while each waits for its loads. `COLUMN(i)` is the column of the row whose number in tiles is `i`.
const ANY: &str = "\
/* Walks a row through trees side by side. A walk that has ended keeps its end. */
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
                    split[k] = 2 * n + 1 + ((uint32_t)(x >= of[k]->thresholds[n]) | missing);
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

/// Loads a row into registers, and walks it. `REGISTERS` is the number of registers, `VALUES` that of their values.
const WIDE: &str = "\
#ifdef WIDE
/* The number of a split on a tile's last level, by the decisions of the seven splits above. */
static const uint8_t last[128] = {
LAST};

/* `missing` is a constant where this is called: whether the row misses a value. */
WIDE uint32_t wide_step(const __m512 *in, const tile *of, int missing)
{
    const __m512i columns = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)of->columns));
    const __m512 x = PICK;
    uint32_t right = _mm512_cmp_ps_mask(x, _mm512_loadu_ps(of->thresholds), _CMP_GE_OQ), split;
    if (missing) right |= (uint32_t)_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q) & of->missing;
    split = last[right & 127];
    return of->ends[2 * split + 1 + (right >> split & 1) - 15];
}

/* A walk of the tree `of`. Every walk goes through the same number of tiles first, without a branch on whether it has
   ended. */
#define WALK(STEP) \\
    do { \\
        const tile *const root = tiles + of.root; \\
        uint32_t end = STEP(root), n; \\
        for (n = 1; n < of.tiles; n++) { \\
            const uint32_t ended = end >> 15; \\
            const uint32_t next = STEP(root + (end & (ended - 1))); \\
            end = (end & (0 - ended)) | (next & (ended - 1)); \\
        } \\
        while (!(end >> 15)) end = STEP(root + end); \\
        at[k] = of.leaves + (end & 0x7fff); \\
    } while (0)

#define PRESENT_STEP(TILE) wide_step(in, TILE, 0)
#define MISSING_STEP(TILE) wide_step(in, TILE, 1)
__attribute__((target(\"avx512f,avx512dq,avx512bw\")))
static void wide_walk(const value *row, uint32_t first, uint32_t count, uint32_t *at)
{
    __m512 in[REGISTERS];
    int missing = 0;
    uint32_t k;
LOAD
    for (k = 0; k < REGISTERS; k++) missing |= _mm512_cmp_ps_mask(in[k], in[k], _CMP_UNORD_Q);
    if (missing) {
        for (k = 0; k < count; k++) {
            const tree of = trees[first + k];
            WALK(MISSING_STEP);
        }
    } else {
        for (k = 0; k < count; k++) {
            const tree of = trees[first + k];
            WALK(PRESENT_STEP);
        }
    }
}
#endif

/* Says in `at` which leaves a row reaches in some trees. */
static void walk(const value *row, uint32_t first, uint32_t count, uint32_t *at)
{
#ifdef WIDE
    if (IS_WIDE) {
        wide_walk(row, first, count, at);
        return;
    }
#endif
    any_walk(row, first, count, at);
}

";

impl<'a> Tiles<'a> {
    /// Returns the tiles of a forest that they serve: one that compares in `float`, asks for nothing but thresholds,
    /// reads at most 128 columns and has a split.
    pub(super) fn new(forest: &'a Forest) -> Option<Self> {
        let splits = |node: &Node| matches!(node, Node::Split { .. });
        let has_split = forest.trees.iter().flat_map(|tree| &tree.nodes).any(splits);
        if forest.compare != CompareType::F32 || !has_split {
            return None;
        }
        Some(Self { forest, tables: Registers::for_elsewhere(forest)? })
    }

    /// Returns the bytes of the tables.
    pub(super) fn bytes(&self, sums: Number) -> usize {
        self.tables.tiles.len() * TILE_BYTES + self.forest.leaf_values.len() * sums.bytes()
    }

    /// Returns the walks.
    pub(super) fn walks(&self, sums: Number, name: &str) -> Walks {
        let mut text = WHERE.replace("NAME", &name.to_ascii_uppercase());
        self.constants(&mut text, sums);
        text += ANY;
        text += &self.wide();
        Walks { text, leaf: LeafText::Number("at[k]"), ids: self.forest.leaf_ids() }
    }

    /// Writes the tables.
    fn constants(&self, text: &mut String, sums: Number) {
        let list = |all: &mut dyn Iterator<Item = String>| all.collect::<Vec<_>>().join(",");
        let tile = |tile: &Tile| {
            format!(
                "{{{{{}}},{{{}}},{{{}}},{}}}",
                list(&mut tile.thresholds.iter().map(|t| constant(f64::from(*t), Number::F32))),
                list(&mut tile.exits.iter().map(u16::to_string)),
                list(&mut tile.columns.iter().map(u8::to_string)),
                tile.missing
            )
        };
        let tree = |tree: &Tree| format!("{{{},{},{}}}", tree.root, tree.slots, tree.tiles);
        *text += &array("tile", "tiles", self.tables.tiles.iter().map(tile));
        *text += &array("tree", "trees", self.tables.trees.iter().map(tree));
        let leaves = self.forest.leaf_values.iter().map(|value| constant(of(value.0, sums), sums));
        *text += &array("number", "leafvalues", leaves);
        match &self.tables.columns {
            None => *text += "#define COLUMN(I) (I)\n\n",
            Some(columns) => {
                *text += &array("uint32_t", "columns_read", columns.iter().map(u32::to_string));
                *text += "#define COLUMN(I) columns_read[I]\n\n";
            }
        }
    }

    /// Returns the functions for AVX-512, and `walk`, which chooses.
    fn wide(&self) -> String {
        let registers = self.tables.values.div_ceil(32) * 2;
        let pair = |p: usize| format!("_mm512_permutex2var_ps(in[{}], columns, in[{}])", 2 * p, 2 * p + 1);
        let blend = |bit: u32, low: &str, high: &str| {
            format!(
                "_mm512_mask_blend_ps(_mm512_test_epi32_mask(columns, _mm512_set1_epi32({bit})),\n        {low},\n        \
                 {high})"
            )
        };
        let four = |first: usize| blend(32, &pair(first), &pair(first + 1));
        let pick = match registers {
            2 => pair(0),
            4 => four(0),
            6 => blend(64, &four(0), &pair(2)),
            _ => blend(64, &four(0), &four(2)),
        };
        let mut load = String::new();
        let from = match self.tables.columns {
            None => "row",
            Some(_) => {
                let values = self.tables.values;
                let _ = writeln!(
                    load,
                    "    value used[{values}];\n    for (k = 0; k < {values}; k++) used[k] = row[COLUMN(k)];"
                );
                "used"
            }
        };
        for register in 0..registers {
            let here = self.tables.values.saturating_sub(register * 16).min(16);
            let mask = (1u32 << here) - 1;
            // A pointer past the row's end would be none of C's.
            let at = if here > 0 { register * 16 } else { 0 };
            let _ = writeln!(load, "    in[{register}] = _mm512_maskz_loadu_ps({mask:#x}, {from} + {at});");
        }
        // Decisions of a tile's first seven splits lead to one of the eight splits below them.
        let last = (0u32..128).map(|decisions| {
            let index = (0..3).fold(0, |index, _| 2 * index + 1 + (decisions >> index & 1));
            index.to_string()
        });
        let last = last.collect::<Vec<_>>().chunks(32).map(|line| line.join(",") + ",\n").collect::<String>();
        WIDE.replace("LAST", &last)
            .replace("PICK", &pick)
            .replace("LOAD\n", &load)
            .replace("REGISTERS", &registers.to_string())
    }
}
