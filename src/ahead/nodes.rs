//! Walks from node to node, for any forest.

use std::fmt::Write;

use super::{
    encode::{Entry, PREDICATE, PredicateCode, Tables},
    text::{CATEGORY_OF, Number, array, constant, of, rule_number},
    walks::{LeafText, Walks},
};
use crate::forest::{Forest, ZERO_ZONE};

/// Trees that a row walks side by side.
const SIDE_BY_SIDE: usize = 8;

/// Returns the bytes of the nodes' tables, leaf values and sets among them.
pub(super) fn bytes(forest: &Forest, tables: &Tables, rows: Number, sums: Number) -> usize {
    let node = if tables.fields.bits == 32 && rows == Number::F32 { 8 } else { 16 };
    let values = tables.leaf_values.as_ref().map_or(0, Vec::len);
    // Three words a set, and its categories.
    let sets: usize = forest.sets.iter().map(|set| 4 * (3 + set.words.len())).sum();
    tables.nodes.len() * node + values * sums.bytes() + sets
}

/// Returns the walks of a forest that has trees.
pub(super) fn walks(forest: &Forest, tables: &Tables, rows: Number, sums: Number) -> Walks {
    let mut text = format!("#define TOGETHER {SIDE_BY_SIDE}\n\n");
    tables_text(&mut text, tables, rows, sums);
    if tables.questions {
        questions(&mut text, forest, rows);
    }
    walk(&mut text, tables);
    let leaf = match tables.leaf_values {
        None => LeafText::Value("nodes[at[k]].threshold"),
        Some(_) => LeafText::Number("(uint32_t)nodes[at[k]].threshold"),
    };
    Walks { text, leaf, ids: tables.ids.clone() }
}

/// Writes the tables of nodes and leaves.
fn tables_text(text: &mut String, tables: &Tables, rows: Number, sums: Number) {
    let word = format!("uint{}_t", tables.fields.bits);
    let _ = write!(
        text,
        "/* The threshold of a split or what stands for it, and its fields, from bit 0 on: whether it is a split, whether\n   \
         missing values go right{}, the column, and the distance to the left child, which the right one follows. */\n\
         typedef struct {{ value threshold; {word} what; }} node;\n\n",
        if tables.questions { ", what it asks" } else { "" }
    );
    let long = if tables.fields.bits == 64 { "ull" } else { "u" };
    let node = |node: &Entry| format!("{{{},{}{long}}}", constant(of(node.threshold, rows), rows), node.word);
    *text += &array("node", "nodes", tables.nodes.iter().map(node));
    *text += &array("uint32_t", "roots", tables.roots.iter().map(usize::to_string));
    if let Some(values) = &tables.leaf_values {
        let values = values.iter().map(|value| constant(of(*value, sums), sums));
        *text += &array("number", "leafvalues", values);
    }
}

/// Writes what splits ask besides whether a value is below a threshold.
fn questions(text: &mut String, forest: &Forest, rows: Number) {
    let has_sets = !forest.sets.is_empty();
    if has_sets {
        let mut words = Vec::new();
        let sets: Vec<String> = forest
            .sets
            .iter()
            .map(|set| {
                let first = words.len();
                words.extend(set.words.iter().map(|word| format!("{word}u")));
                format!("{{{first},{},{}}}", set.words.len(), rule_number(set.rule))
            })
            .collect();
        // C has no array of no items.
        words.push("0".into());
        *text += &array("uint32_t", "set_words", words.into_iter());
        *text += "/* The first word of a set, the number of its words, and how a value is read as a category. */\n\
                  typedef struct { uint32_t first, words, rule; } set;\n\n";
        *text += &array("set", "sets", sets.into_iter());
        *text += CATEGORY_OF;
        *text += "\
static uint32_t in_set(value x, uint32_t s)
{
    const set of = sets[s];
    const uint32_t category = category_of(x, of.rule);
    return category / 32 < of.words && (set_words[of.first + category / 32] >> (category % 32) & 1);
}

";
    }
    let absolute = format!("fabs{}", rows.suffix());
    let zone = constant(f64::from(ZERO_ZONE), Number::F64);
    let [first, bits] = PREDICATE;
    let mask = (1 << bits) - 1;
    let (aside, equal, always) =
        (PredicateCode::LessZeroAside as u32, PredicateCode::Equal as u32, PredicateCode::Always as u32);
    let _ = write!(
        text,
        "/* Whether a value that is not missing goes right. */\n\
         static uint32_t goes_right(value x, node n)\n{{\n    switch (n.what >> {first} & {mask}) {{\n\
        \x20   case {aside}: return (x < n.threshold) == ((double){absolute}(x) <= {zone});\n\
        \x20   case {equal}: return x != n.threshold;\n"
    );
    if has_sets {
        let (left, right) = (PredicateCode::InSetLeft as u32, PredicateCode::InSetRight as u32);
        let _ = write!(
            text,
            "    case {left}: return !in_set(x, (uint32_t)n.threshold);\n    case {right}: return in_set(x, \
             (uint32_t)n.threshold);\n"
        );
    }
    let _ =
        write!(text, "    case {always}: return 0;\n    default: return !(x < n.threshold);\n    }}\n}}\n\n");
}

/// Writes the function that walks a row through some trees.
fn walk(text: &mut String, tables: &Tables) {
    let fields = tables.fields;
    let columns = (1u64 << (fields.distance - fields.column)) - 1;
    let right = match tables.questions {
        true => "x == x ? goes_right(x, n) : (uint32_t)(n.what >> 1 & 1)",
        false => "(uint32_t)!(x < n.threshold) & ((uint32_t)(x == x) | (uint32_t)(n.what >> 1 & 1))",
    };
    let has_splits = tables.nodes.iter().any(|node| node.word & 1 == 1);
    let steps = format!(
        "    do {{\n        open = 0;\n        for (k = 0; k < {SIDE_BY_SIDE}; k++) {{\n            const node n = nodes[at[k]];\n\
        \x20           const uint32_t split = (uint32_t)(n.what & 1);\n\
        \x20           const value x = row[n.what >> {} & {columns}];\n\
        \x20           const uint32_t right = {right};\n\
        \x20           at[k] += (uint32_t)(n.what >> {}) + (right & split);\n            open |= split;\n        }}\n\
        \x20   }} while (open);\n",
        fields.column, fields.distance
    );
    // A forest of single leaves reads no column, and its rows may have none.
    let (variables, steps) = match has_splits {
        true => ("    uint32_t k, open;\n", &*steps),
        false => ("    uint32_t k;\n    (void)row;\n", ""),
    };
    let _ = write!(
        text,
        "/* Walks a row through trees side by side, and writes the leaves that it reaches. A leaf steps to itself. */\n\
         static void walk(const value *row, uint32_t first, uint32_t count, uint32_t *at)\n{{\n{variables}\
        \x20   for (k = 0; k < {SIDE_BY_SIDE}; k++) at[k] = roots[first + (k < count ? k : count - 1)];\n{steps}}}\n\n"
    );
}
