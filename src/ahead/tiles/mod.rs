//! Walks through tiles, like the library's engines `registers` and `masks` on a processor with AVX-512. A row stands in
//! registers, and vector compares make all decisions of a tile (tree tiling: Treebeard, section 3.2). Other processors
//! walk the same tiles without vectors.

mod levels;
mod masks;

use std::fmt::Write;

use super::{
    text::{CATEGORY_OF, Number, array, constant, of, rule_number},
    walks::{LeafText, Walks},
};
use crate::{
    cpu::registers::{Answers, CategoryColumn, InRegisters, LEAF, LookUp, MaskTile, Tile, TileKind, Tree},
    forest::{CompareType, Forest, Node},
};

/// How many times the bytes of nodes tiles may take. A full tree of six levels takes 2.4 times as many, one of eight 0.8
/// times. "Models compiled ahead of time" in `benches/NOTEBOOK.md` says what tiles gain.
pub(super) const MOST_GROWTH: usize = 3;
// The functions in C know the bit of a leaf.
const _: () = assert!(LEAF == 1 << 15);

/// A kind of tiles in C.
trait TileText: TileKind {
    /// Bytes of a tile, with its alignment.
    const BYTES: usize;
    /// The type `tile`.
    const TYPE: &'static str;
    /// The function `any_walk`, for any processor. `COLUMN(i)` is the column of the row whose number in tiles is `i`,
    /// `VALUES` the number of these columns, and `THRESHOLD(of, n)` the threshold of a split.
    const ANY: &'static str;
    /// The macros `SIXTEEN(of, half)`, sixteen thresholds of a tile, and `END(of, RIGHT)`, where a row goes, for AVX-512.
    const WIDE: &'static str;

    /// Returns a tile as a constant.
    fn text(&self) -> String;

    /// Returns [`WIDE`](Self::WIDE), with its table.
    fn wide() -> String;
}

/// A forest's tiles, and its leaves by their slots.
pub(super) struct Tiles<'a> {
    forest: &'a Forest,
    kind: Kind,
}

enum Kind {
    Levels(InRegisters<Tile>),
    Masks(InRegisters<MaskTile>),
}

/// Where there is code for AVX-512, and the types of the tables.
const WHERE: &str = "\
/* -DNAME_SCALAR leaves out the code for AVX-512. On Windows, gcc does not align the stack for its registers. */
#if defined(__x86_64__) && !defined(_WIN32) && !defined(NAME_SCALAR) && \\
    (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 8))
#include <immintrin.h>
#define WIDE __attribute__((always_inline, target(\"avx512f,avx512dq,avx512bw\"))) static inline
/* On a virtual machine, asking the processor takes 0.1 ms, once. */
#if defined(__AVX512BW__) && defined(__AVX512DQ__)
#define IS_WIDE 1
#else
#define IS_WIDE (__builtin_cpu_supports(\"avx512dq\") && __builtin_cpu_supports(\"avx512bw\"))
#endif
/* Trees of a call, which first brings the row into registers. */
#define TOGETHER 128
#else
#define TOGETHER 32
#endif
#ifdef __GNUC__
#define ALIGNED __attribute__((aligned(64)))
#else
#define ALIGNED
#endif

TYPE/* The tile of the root, the tree's first leaf, and the tiles that every walk goes through. */
typedef struct { uint32_t root, leaves, tiles; } tree;

";

/// The look-ups of tiles that ask for categories: as in the library's engine.
const ASKING: &str = "\
/* A column of categories: how its values are read, and the end of its categories. */
typedef struct { uint32_t column, rule, end; } category_column;
/* A look-up: the number of the column of categories, and the first of its answers. They are those to a missing value, to a
   value that is in no set, and to each category. An answer has a bit for each split of the tile where a row goes right. */
typedef struct { uint32_t column, first; } look_up;

CONSTANTS/* The place of a value among a look-up's answers. */
static uint32_t code_of(value x, category_column of)
{
    const uint32_t category = category_of(x, of.rule);
    if (x != x) return 0;
    return category < of.end ? category + 2 : 1;
}

/* At which splits on categories a row goes right. */
static uint32_t looked_up(const uint32_t *codes, const tile *of)
{
    uint32_t right = 0, k;
    for (k = 0; k < of->look_ups; k++) {
        const look_up by = look_ups[of->look_up + k];
        right |= answers[by.first + codes[by.column]];
    }
    return right;
}
#define ASKED(OF) looked_up(codes, OF)

";

/// The codes of a row's categories.
const CODES: &str = "\
    uint32_t codes[COUNT];
    for (k = 0; k < COUNT; k++) codes[k] = code_of(row[category_columns[k].column], category_columns[k]);
";

/// The decisions on sixteen splits of a tile. `PICKED` is the expression for a row's values in sixteen `columns`.
const RIGHT: &str = "\
/* A row's values in sixteen columns. */
WIDE __m512 pick(const __m512 *in, const uint8_t *sixteen)
{
    const __m512i columns = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)sixteen));
    return PICKED;
}

/* At which of sixteen splits a row goes right. `half` and `missing` are constants where this is called: which sixteen of
   a tile, and whether the row misses a value. */
WIDE __mmask16 wide_right(const __m512 *in, const tile *of, uint32_t half, int missing)
{
    const __m512 x = pick(in, of->columns + 16 * half);
    __mmask16 right = _mm512_cmp_ps_mask(x, SIXTEEN(of, half), _CMP_GE_OQ);
    if (missing) right |= _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q) & (__mmask16)(of->missing >> 16 * half);
    return right;
}

";

/// The decisions on a row of `double`, which registers hold rounded down and up: as in the library's engine.
const ROUNDED_RIGHT: &str = "\
/* Values that are smaller than normal numbers of float, but not 0. A thread may take such floats for 0. */
WIDE __mmask8 tiny(__m512d x)
{
    return _mm512_cmp_pd_mask(_mm512_abs_pd(x), _mm512_set1_pd(FLT_MIN), _CMP_LT_OQ) &
           _mm512_cmp_pd_mask(x, _mm512_setzero_pd(), _CMP_NEQ_OQ);
}

WIDE __m256 rounded_down(__m512d x)
{
    x = _mm512_mask_blend_pd(tiny(x), x, _mm512_set1_pd(-FLT_MIN));
    return _mm512_cvt_roundpd_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

WIDE __m256 rounded_up(__m512d x)
{
    x = _mm512_mask_blend_pd(tiny(x), x, _mm512_set1_pd(FLT_MIN));
    return _mm512_cvt_roundpd_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}

/* At which of sixteen splits a row goes right that `in` has rounded down and `up` rounded up. Thresholds in tiles are
   rounded up. A value that rounds down to such a one reaches the split's own, and a value that rounds up to less does
   not. Else `exact` decides. */
WIDE __mmask16 rounded_right(const __m512 *in, const __m512 *up, const value *row, const tile *of, uint32_t half)
{
    const __m512 above = pick(up, of->columns + 16 * half);
    uint32_t right = wide_right(in, of, half, 1);
    uint32_t open = _mm512_cmp_ps_mask(above, SIXTEEN(of, half), _CMP_GE_OQ) & ~right;
    for (; open; open &= open - 1) {
        const uint32_t n = (uint32_t)__builtin_ctz(open), split = 16 * half + n;
        right |= (uint32_t)(row[COLUMN(of->columns[split])] >= exact[of - tiles][split]) << n;
    }
    return (__mmask16)right;
}

#define ROUNDED(OF, HALF) rounded_right(in, up, row, OF, HALF)
";

/// Loads a row into registers, and walks it. `REGISTERS` is the number of registers.
const WIDE: &str = "\
/* A walk of the tree `of`. Every walk goes through the same number of tiles first, without a branch on whether it has
   ended. */
#define WALK(RIGHT) \\
    do { \\
        const tile *const root = tiles + of.root, *here = root; \\
        uint32_t end = END(here, RIGHT), n; \\
        for (n = 1; n < of.tiles; n++) { \\
            const uint32_t ended = end >> 15; \\
            uint32_t next; \\
            here = root + (end & (ended - 1)); \\
            next = END(here, RIGHT); \\
            end = (end & (0 - ended)) | (next & (ended - 1)); \\
        } \\
        while (!(end >> 15)) { \\
            here = root + end; \\
            end = END(here, RIGHT); \\
        } \\
        at[k] = of.leaves + (end & 0x7fff); \\
    } while (0)

#define PRESENT(OF, HALF) wide_right(in, OF, HALF, 0)
#define MISSING(OF, HALF) wide_right(in, OF, HALF, 1)
__attribute__((target(\"avx512f,avx512dq,avx512bw\")))
static void wide_walk(const value *row, uint32_t first, uint32_t count, uint32_t *at)
{
    __m512 in[REGISTERS];
    int missing = 0;
    uint32_t k;
CODES
LOAD
    for (k = 0; k < REGISTERS; k++) missing |= _mm512_cmp_ps_mask(in[k], in[k], _CMP_UNORD_Q);
WALKS    if (missing) {
        for (k = 0; k < count; k++) {
            const tree of = trees[first + k];
            WALK(MISSING);
        }
    } else {
        for (k = 0; k < count; k++) {
            const tree of = trees[first + k];
            WALK(PRESENT);
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

/// The walks of a row of `double` that has other values than those of `float`.
const ROUNDED_WALKS: &str = "\
    if (rounded) {
        for (k = 0; k < count; k++) {
            const tree of = trees[first + k];
            WALK(ROUNDED);
        }
        return;
    }
";

/// Loads sixteen values of `double`, rounded down and up.
const ROUNDED_LOAD: &str = "\
    {
        const __m512d low = _mm512_maskz_loadu_pd(LOW, FROM), high = _mm512_maskz_loadu_pd(HIGH, FROM + ABOVE);
        in[REGISTER] = _mm512_insertf32x8(_mm512_castps256_ps512(rounded_down(low)), rounded_down(high), 1);
        up[REGISTER] = _mm512_insertf32x8(_mm512_castps256_ps512(rounded_up(low)), rounded_up(high), 1);
        rounded |= _mm512_cmp_ps_mask(in[REGISTER], up[REGISTER], _CMP_NEQ_OQ);
    }
";

/// Joins the items of an array.
fn list(all: impl Iterator<Item = String>) -> String {
    all.collect::<Vec<_>>().join(",")
}

impl<'a> Tiles<'a> {
    /// Returns the tiles of a forest that they serve: one that the library's engines for one row serve, and that has a
    /// split. The kind of tiles is the one that the library estimates to be faster for a row on a machine with
    /// AVX-512, of those that take at most `most_bytes`.
    pub(super) fn new(forest: &'a Forest, sums: Number, most_bytes: usize) -> Option<Self> {
        let splits = |node: &Node| matches!(node, Node::Split { .. });
        if !forest.trees.iter().flat_map(|tree| &tree.nodes).any(splits) {
            return None;
        }
        // Where tiles can't decide on rows of double, nodes can.
        let is_able = |tiles: &Self| {
            tiles.has_exact() == (forest.compare == CompareType::F64) && tiles.bytes(sums) <= most_bytes
        };
        let of_kind = |kind| Some(Self { forest, kind }).filter(is_able);
        let levels = InRegisters::for_elsewhere(forest).map(Kind::Levels).and_then(of_kind);
        let masks = MaskTile::may_be_faster(forest).then(|| InRegisters::for_elsewhere(forest)).flatten();
        let masks = masks.map(Kind::Masks).and_then(of_kind);
        levels.into_iter().chain(masks).min_by(|a, b| a.row_seconds().total_cmp(&b.row_seconds()))
    }

    /// Returns the estimated seconds of a row on a machine with AVX-512.
    fn row_seconds(&self) -> f64 {
        match &self.kind {
            Kind::Levels(tables) => tables.row_seconds(),
            Kind::Masks(tables) => tables.row_seconds(),
        }
    }

    /// Returns whether there are thresholds as `double`.
    fn has_exact(&self) -> bool {
        match &self.kind {
            Kind::Levels(tables) => !tables.exact.is_empty(),
            Kind::Masks(tables) => !tables.exact.is_empty(),
        }
    }

    /// Returns the bytes of the tables.
    fn bytes(&self, sums: Number) -> usize {
        let tiles = match &self.kind {
            Kind::Levels(tables) => bytes_of_tiles(tables),
            Kind::Masks(tables) => bytes_of_tiles(tables),
        };
        tiles + self.forest.leaf_values.len() * sums.bytes()
    }

    /// Returns the walks.
    pub(super) fn walks(&self, sums: Number, name: &str) -> Walks {
        let text = match &self.kind {
            Kind::Levels(tables) => self.text(tables, sums, name),
            Kind::Masks(tables) => self.text(tables, sums, name),
        };
        Walks { text, leaf: LeafText::Number("at[k]"), ids: self.forest.leaf_ids() }
    }

    fn text<P: TileText>(&self, tables: &InRegisters<P>, sums: Number, name: &str) -> String {
        let mut text = WHERE.replace("TYPE", P::TYPE).replace("NAME", &name.to_ascii_uppercase());
        self.constants(&mut text, tables, sums);
        let asks = !tables.answers.columns.is_empty();
        let codes = CODES.replace("COUNT", &tables.answers.columns.len().to_string());
        let codes = if asks { &codes } else { "" };
        let (taken, given) = if asks { ("const uint32_t *codes, ", "codes, ") } else { ("", "") };
        text +=
            &P::ANY.replace("CODES_TAKEN ", taken).replace("CODES_GIVEN ", given).replace("CODES\n", codes);
        text += "\n#ifdef WIDE\n";
        text += &P::wide();
        text.push('\n');
        text += &RIGHT.replace("PICKED", &picked(registers(tables)));
        let is_double = !tables.exact.is_empty();
        if is_double {
            text += ROUNDED_RIGHT;
        }
        let wide = WIDE.replace("CODES\n", codes).replace("LOAD\n", &load(tables));
        let wide = wide.replace("WALKS", if is_double { ROUNDED_WALKS } else { "" });
        text + &wide.replace("REGISTERS", &registers(tables).to_string())
    }

    /// Writes the tables.
    fn constants<P: TileText>(&self, text: &mut String, tables: &InRegisters<P>, sums: Number) {
        let tree = |tree: &Tree| format!("{{{},{},{}}}", tree.root, tree.slots, tree.tiles);
        *text += &array("tile", "tiles", tables.tiles.iter().map(P::text));
        *text += &array("tree", "trees", tables.trees.iter().map(tree));
        let leaves = self.forest.leaf_values.iter().map(|value| constant(of(value.0, sums), sums));
        *text += &array("number", "leafvalues", leaves);
        match tables.exact.is_empty() {
            true => *text += "#define THRESHOLD(OF, N) ((OF)->thresholds[N])\n",
            false => {
                let exact = tables.exact.chunks(P::ENTRIES);
                let exact =
                    exact.map(|of| format!("{{{}}}", list(of.iter().map(|t| constant(*t, Number::F64)))));
                let entries = P::ENTRIES;
                let _ = writeln!(
                    text,
                    "/* The thresholds of tiles, not rounded. */\ntypedef double thresholds[{entries}];"
                );
                *text += &array("thresholds", "exact", exact);
                *text += "#define THRESHOLD(OF, N) (exact[(OF) - tiles][N])\n";
            }
        }
        match tables.answers.columns.is_empty() {
            true => *text += "#define ASKED(OF) 0u\n",
            false => *text += &ASKING.replace("CONSTANTS", &(answers(&tables.answers) + CATEGORY_OF)),
        }
        let _ = writeln!(text, "#define VALUES {}", tables.values);
        match &tables.columns {
            None => *text += "#define COLUMN(I) (I)\n\n",
            Some(columns) => {
                *text += &array("uint32_t", "columns_read", columns.iter().map(u32::to_string));
                *text += "#define COLUMN(I) columns_read[I]\n\n";
            }
        }
    }
}

/// Returns the bytes of tiles, with their exact thresholds and their answers.
fn bytes_of_tiles<P: TileText>(tables: &InRegisters<P>) -> usize {
    tables.tiles.len() * P::BYTES + size_of_val(&tables.exact[..]) + tables.answers.bytes()
}

/// Returns the tables of look-ups.
fn answers(answers: &Answers) -> String {
    let column = |of: &CategoryColumn| format!("{{{},{},{}}}", of.column, rule_number(of.rule), of.end);
    let look_up = |of: &LookUp| format!("{{{},{}}}", of.column, of.first);
    let mut text = array("category_column", "category_columns", answers.columns.iter().map(column));
    text += &array("look_up", "look_ups", answers.look_ups.iter().map(look_up));
    text + &array("uint32_t", "answers", answers.right.iter().map(|mask| format!("{mask}u")))
}

/// Returns the number of registers that a row takes, an even one.
fn registers<P>(tables: &InRegisters<P>) -> usize {
    tables.values.div_ceil(32).max(1) * 2
}

/// Returns the expression for a row's values in sixteen `columns`.
fn picked(registers: usize) -> String {
    let pair = |p: usize| format!("_mm512_permutex2var_ps(in[{}], columns, in[{}])", 2 * p, 2 * p + 1);
    let blend = |bit: u32, low: &str, high: &str| {
        format!(
            "_mm512_mask_blend_ps(_mm512_test_epi32_mask(columns, _mm512_set1_epi32({bit})),\n        {low},\n        \
             {high})"
        )
    };
    let four = |first: usize| blend(32, &pair(first), &pair(first + 1));
    match registers {
        2 => pair(0),
        4 => four(0),
        6 => blend(64, &four(0), &pair(2)),
        _ => blend(64, &four(0), &four(2)),
    }
}

/// Returns the statements that bring a row into registers.
fn load<P>(tables: &InRegisters<P>) -> String {
    let is_double = !tables.exact.is_empty();
    let mut load = String::new();
    if is_double {
        let _ = writeln!(load, "    __m512 up[REGISTERS];\n    int rounded = 0;");
    }
    let from = match tables.columns {
        None => "row",
        Some(_) => {
            let values = tables.values;
            let _ = writeln!(
                load,
                "    value used[{values}];\n    for (k = 0; k < {values}; k++) used[k] = row[COLUMN(k)];"
            );
            "used"
        }
    };
    for register in 0..registers(tables) {
        let here = tables.values.saturating_sub(register * 16).min(16);
        let mask = (1u32 << here) - 1;
        // A pointer past the row's end would be none of C's.
        let at = if here > 0 { register * 16 } else { 0 };
        let _ = match is_double {
            false => writeln!(load, "    in[{register}] = _mm512_maskz_loadu_ps({mask:#x}, {from} + {at});"),
            true => {
                let (low, high) = (mask & 0xff, mask >> 8);
                let text = ROUNDED_LOAD
                    .replace("LOW", &format!("{low:#x}"))
                    .replace("HIGH", &format!("{high:#x}"))
                    .replace("FROM", &format!("{from} + {at}"))
                    .replace("ABOVE", if high > 0 { "8" } else { "0" })
                    .replace("REGISTER", &register.to_string());
                write!(load, "{text}")
            }
        };
    }
    load
}
