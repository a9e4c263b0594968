//! The text of a compiled forest.

use std::fmt::Write;

use super::{
    transform,
    walks::{LeafText, Walks},
};
use crate::forest::{
    Accumulator, Aggregate, CategoryRule, CompareType, Feature, Forest, Targets, reference::base_is_first,
};

/// A floating-point type of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    F32,
    F64,
}

impl Number {
    /// Returns the type of a forest's sums and values.
    pub(super) fn of_sums(forest: &Forest) -> Self {
        match Accumulator::of(forest) {
            Accumulator::F32 => Self::F32,
            Accumulator::F64 => Self::F64,
        }
    }

    /// Returns the type of a forest's rows.
    pub(super) fn of_rows(forest: &Forest) -> Self {
        match forest.compare {
            CompareType::F32 => Self::F32,
            CompareType::F64 => Self::F64,
        }
    }

    /// Returns the type's name in C.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F32 => "float",
            Self::F64 => "double",
        }
    }

    /// Returns the type's bytes.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Returns the last letter of constants, and of functions of `math.h`, of this type.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::F32 => "f",
            Self::F64 => "",
        }
    }
}

/// Returns a number as a constant of C, exactly. A number for `float` has to be one.
pub(super) fn constant(value: f64, number: Number) -> String {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_nan() {
        return "NAN".into();
    }
    if value.is_infinite() {
        return format!("{sign}INFINITY");
    }
    let (bits, suffix) = (value.to_bits(), number.suffix());
    let (exponent, mantissa) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    if exponent == 0 && mantissa == 0 {
        return format!("{sign}0.0{suffix}");
    }
    let (first, exponent) = if exponent == 0 { (0, -1022) } else { (1, exponent - 1023) };
    let digits = format!("{mantissa:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("{sign}0x{first}{point}{digits}p{exponent}{suffix}")
}

/// Returns a text as part of a C comment. Compilers warn of marks that turn the direction of text.
fn comment(text: &str) -> String {
    let turns =
        |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let plain = |c: char| if c.is_control() || turns(c) || matches!(c, '*' | '?' | '\\') { '_' } else { c };
    text.chars().map(plain).collect()
}

/// Returns a text as a string of C.
fn string(text: &str) -> String {
    let mut found = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' | b'?' => {
                found.push('\\');
                found.push(char::from(byte));
            }
            b' '..=b'~' => found.push(char::from(byte)),
            _ => {
                let _ = write!(found, "\\{byte:03o}");
            }
        }
    }
    found + "\""
}

/// Returns the lines of an array's contents, some items a line.
fn items(all: impl Iterator<Item = String>) -> String {
    let mut lines = String::new();
    let mut column = 0;
    for item in all {
        if column > 0 && column + item.len() > 110 {
            lines.push('\n');
            column = 0;
        }
        column += item.len() + 1;
        lines += &item;
        lines.push(',');
    }
    lines
}

/// Returns the lines of a constant array.
pub(super) fn array(of: &str, name: &str, all: impl ExactSizeIterator<Item = String>) -> String {
    let count = all.len();
    format!("static const {of} {name}[{count}] = {{\n{}\n}};\n\n", items(all))
}

/// The function that reads a value as a category. [`rule_number`] is the number of a rule.
pub(super) const CATEGORY_OF: &str = "\
/* The category of a value, or a number that no category has. */
static uint32_t category_of(value x, uint32_t rule)
{
    const uint32_t none = 0xffffffffu;
    if (!(rule == 1 ? x > -1 : x >= 0) || !(x < 16777216)) return none;
    return rule == 2 && (value)(uint32_t)x != x ? none : (uint32_t)x;
}

";

/// Returns the number that a rule has in C.
pub(super) fn rule_number(rule: CategoryRule) -> u32 {
    match rule {
        CategoryRule::NotNegative => 0,
        CategoryRule::Truncated => 1,
        CategoryRule::Whole => 2,
    }
}

fn written_by(forest: &Forest) -> String {
    let producer = &forest.producer;
    let model = [&producer.library, &producer.version, &producer.objective].map(|text| comment(text));
    format!(
        "/* Written by fangorn {} from a model of {}. */\n",
        env!("CARGO_PKG_VERSION"),
        model.join(" ").trim()
    )
}

/// Returns the header of a forest.
pub(super) fn header(forest: &Forest, name: &str) -> String {
    let large = name.to_ascii_uppercase();
    let values = forest.transform.width(forest.outputs);
    let (rows, sums) = (Number::of_rows(forest).name(), Number::of_sums(forest).name());
    let classes = transform::classes(forest, Number::of_sums(forest));
    let mut text = written_by(forest);
    let _ = write!(
        text,
        "#ifndef {large}_H\n#define {large}_H\n\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n\
         /* Columns of a row{}. */\n#define {large}_FEATURES {}\n/* Margins of a row. */\n#define {large}_OUTPUTS {}\n\
         /* Values of a row. */\n#define {large}_VALUES {values}\n#define {large}_TREES {}\n",
        feature_names(&forest.features),
        forest.features.len(),
        forest.outputs,
        forest.trees.len()
    );
    if let Some(classes) = &classes {
        let _ = write!(text, "/* Classes of a row. */\n#define {large}_CLASSES {}\n", classes.count);
    }
    let _ = write!(
        text,
        "\n/* A value of a row. NaN is a missing value, and a category is the number that the training had for it. */\n\
         typedef {rows} {name}_value;\n/* A prediction. */\ntypedef {sums} {name}_number;\n\n\
         /* A row and a result may not overlap. */\n\
         void {name}_margins(const {name}_value *row, {name}_number *margins);\n\
         void {name}_values(const {name}_value *row, {name}_number *values);\n"
    );
    if classes.is_some() {
        let _ = writeln!(text, "void {name}_classes(const {name}_value *row, uint32_t *classes);");
        let labels = forest.classes.labels.len();
        if labels > 0 {
            let _ = writeln!(
                text,
                "/* The label of each class. */\nextern const char *const {name}_labels[{labels}];"
            );
        }
    }
    let _ = write!(
        text,
        "/* The id of the leaf that the row reaches in each tree. It is there if {name}.c is compiled with \
         {large}_LEAVES. */\nvoid {name}_leaves(const {name}_value *row, uint32_t *leaves);\n\n\
         #ifdef __cplusplus\n}}\n#endif\n\n#endif\n"
    );
    text
}

/// Returns the names of the columns, for a comment; nothing if the model has no names.
fn feature_names(features: &[Feature]) -> String {
    if features.iter().all(|feature| feature.name.is_none()) {
        return String::new();
    }
    let names = features.iter().map(|feature| comment(feature.name.as_deref().unwrap_or("-")));
    format!(", in this order:\n{}", items(names).trim_end_matches(','))
}

/// Returns the source of a forest. It has walks if the forest has trees.
pub(super) fn source(forest: &Forest, walks: Option<&Walks>, name: &str) -> String {
    let sums = Number::of_sums(forest);
    let mut text = written_by(forest);
    let _ = write!(
        text,
        "#include \"{name}.h\"\n\n#include <float.h>\n#include <math.h>\n\n\
         #if defined(__FAST_MATH__) || defined(_M_FP_FAST) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)\n\
         #error \"fast mathematics change predictions; compile without -ffast-math and its like\"\n#endif\n\
         /* 16 widens half precision alone. */\n\
         #if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16\n\
         #error \"this target computes with excess precision, which changes predictions\"\n#endif\n\
         #if FLT_MANT_DIG != 24 || DBL_MANT_DIG != 53\n\
         #error \"float and double have to be those of IEEE 754\"\n#endif\n\n\
         #define OUTPUTS {}\n#define TREES {}\n\ntypedef {name}_value value;\ntypedef {name}_number number;\n\n",
        forest.outputs,
        forest.trees.len()
    );
    if let Some(walks) = walks {
        text += &walks.text;
    }
    outputs(&mut text, forest, sums);
    margins(&mut text, forest, walks, name);
    text += transform::probit(forest);
    values(&mut text, forest, sums, name);
    classes(&mut text, forest, sums, name);
    let large = name.to_ascii_uppercase();
    let (ids, body) = match walks {
        None => (String::new(), "    (void)row;\n    (void)leaves;\n".to_owned()),
        Some(walks) => (
            array("uint32_t", "ids", walks.ids.iter().map(u32::to_string)),
            "    uint32_t t, k;\n".to_owned()
                + &by_trees("        for (k = 0; k < count; k++) leaves[t + k] = ids[at[k]];\n"),
        ),
    };
    let _ = write!(
        text,
        "#ifdef {large}_LEAVES\n{ids}void {name}_leaves(const value *row, uint32_t *leaves)\n{{\n{body}}}\n#endif\n"
    );
    text
}

/// Writes the tables of outputs.
fn outputs(text: &mut String, forest: &Forest, sums: Number) {
    if let Targets::One(outputs) = &forest.targets
        && forest.outputs > 1
        && !outputs.is_empty()
    {
        *text += &array("uint32_t", "targets", outputs.iter().map(u32::to_string));
    }
    let base: Vec<f64> = forest.base_score.iter().map(|base| of(base.0, sums)).collect();
    let constants = |numbers: &[f64]| numbers.iter().map(|n| constant(*n, sums)).collect::<Vec<_>>();
    if base_is_first(forest) {
        *text += &array("number", "starts", constants(&base).into_iter());
        return;
    }
    let starts: Vec<f64> = (0..forest.outputs).map(|output| start(forest, output)).collect();
    *text += &array("number", "starts", constants(&starts).into_iter());
    *text += &array("number", "base", constants(&base).into_iter());
}

/// Rounds to the type.
pub(super) fn of(value: f64, number: Number) -> f64 {
    match number {
        Number::F32 => f64::from(value as f32),
        Number::F64 => value,
    }
}

/// Returns the number that leaves no trace in an output's total; 0 if no tree adds to the output.
fn start(forest: &Forest, output: u32) -> f64 {
    let has_tree = match &forest.targets {
        Targets::One(outputs) => outputs.contains(&output),
        Targets::All => !forest.trees.is_empty(),
    };
    match forest.aggregate {
        _ if !has_tree => 0.0,
        // The sum of -0 and -0 is -0.
        Aggregate::Sum => -0.0,
        Aggregate::Min => f64::INFINITY,
        Aggregate::Max => f64::NEG_INFINITY,
    }
}

/// Returns C statements that walk all trees, some in one call, and run `body` for them.
fn by_trees(body: &str) -> String {
    format!(
        "    for (t = 0; t < TREES; t += TOGETHER) {{\n        const uint32_t count = TREES - t < TOGETHER ? TREES - t : \
         TOGETHER;\n        uint32_t at[TOGETHER];\n        walk(row, t, count, at);\n{body}    }}\n"
    )
}

fn margins(text: &mut String, forest: &Forest, walks: Option<&Walks>, name: &str) {
    let vector = matches!(forest.targets, Targets::All);
    let leaf = match walks.map(|walks| walks.leaf) {
        None => String::new(),
        Some(LeafText::Value(value)) => value.into(),
        Some(LeafText::Number(number)) if vector && forest.outputs > 1 => {
            format!("leafvalues[{number} * OUTPUTS + o]")
        }
        Some(LeafText::Number(number)) => format!("leafvalues[{number}]"),
    };
    // One sum stays in a register.
    let sum = match (vector, forest.outputs) {
        (true, 2..) => "out[o]",
        (false, 2..) => "out[targets[t + k]]",
        _ => "total",
    };
    let take = match forest.aggregate {
        Aggregate::Sum => format!("{sum} += {leaf};"),
        Aggregate::Min => format!("if ({leaf} < {sum}) {sum} = {leaf};"),
        Aggregate::Max => format!("if ({leaf} > {sum}) {sum} = {leaf};"),
    };
    let take = match vector && forest.outputs > 1 {
        true => format!("            for (o = 0; o < OUTPUTS; o++) {take}\n"),
        false => format!("            {take}\n"),
    };
    let (counters, of_trees) = match walks {
        None => ("", "    (void)row;\n".to_owned()),
        Some(_) => {
            let body = format!("        for (k = 0; k < count; k++) {{\n{take}        }}\n");
            ("    uint32_t t, k;\n", by_trees(&body))
        }
    };
    let (begin, end) = match (forest.outputs, base_is_first(forest)) {
        (1, true) => ("    number total = starts[0];\n", "    out[0] = total;\n"),
        (1, false) => ("    number total = starts[0];\n", "    out[0] = base[0] + total;\n"),
        (_, true) => ("    uint32_t o;\n    for (o = 0; o < OUTPUTS; o++) out[o] = starts[o];\n", ""),
        (_, false) => (
            "    uint32_t o;\n    for (o = 0; o < OUTPUTS; o++) out[o] = starts[o];\n",
            "    for (o = 0; o < OUTPUTS; o++) out[o] = base[o] + out[o];\n",
        ),
    };
    let _ = write!(
        text,
        "void {name}_margins(const value *row, number *out)\n{{\n{counters}{begin}{of_trees}{end}}}\n\n"
    );
}

fn values(text: &mut String, forest: &Forest, sums: Number, name: &str) {
    let width = forest.transform.width(forest.outputs);
    let statements = transform::statements(forest, sums);
    let _ = write!(text, "static void transform(number *v)\n{{\n{statements}}}\n\n");
    let body = match width < forest.outputs {
        // Fewer values than margins, so the margins have no room in the result.
        true => format!(
            "    number v[OUTPUTS];\n    {name}_margins(row, v);\n    transform(v);\n    out[0] = v[0];\n"
        ),
        false => format!("    {name}_margins(row, out);\n    transform(out);\n"),
    };
    let _ = write!(text, "void {name}_values(const value *row, number *out)\n{{\n{body}}}\n\n");
}

fn classes(text: &mut String, forest: &Forest, sums: Number, name: &str) {
    let Some(rule) = transform::classes(forest, sums) else { return };
    let labels = &forest.classes.labels;
    if !labels.is_empty() {
        let all = items(labels.iter().map(|label| string(label)));
        let _ = write!(text, "const char *const {name}_labels[{}] = {{\n{all}\n}};\n\n", labels.len());
    }
    let width = forest.outputs.max(forest.transform.width(forest.outputs));
    let counters = rule.counters;
    let (converts, decides) = match rule.values {
        // Margins decide in double, as the reference interpreter has them.
        None => (
            "    double m[OUTPUTS];\n".to_owned(),
            "    for (p = 0; p < OUTPUTS; p++) m[p] = sums[p];\n".to_owned(),
        ),
        Some(number) if number == sums => (String::new(), "    transform(v);\n".to_owned()),
        Some(_) => (
            format!("    double v[{width}];\n"),
            "    for (p = 0; p < OUTPUTS; p++) v[p] = sums[p];\n    transform_doubles(v);\n".to_owned(),
        ),
    };
    let (margins, counted) = match rule.values {
        Some(number) if number == sums => ("v", ""),
        _ => ("sums", "    uint32_t p;\n"),
    };
    if rule.values == Some(Number::F64) && sums == Number::F32 {
        let statements = transform::statements(forest, Number::F64);
        let _ = write!(text, "static void transform_doubles(double *v)\n{{\n{statements}}}\n\n");
    }
    let _ = write!(
        text,
        "void {name}_classes(const value *row, uint32_t *classes)\n{{\n    number {margins}[{width}];\n{converts}{counters}\
         {counted}    {name}_margins(row, {margins});\n{decides}{}}}\n\n",
        rule.statements
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_exact() {
        for (value, text) in [
            (1.0, "0x1p0"),
            (-0.0, "-0.0"),
            (0.1, "0x1.999999999999ap-4"),
            (f64::MIN_POSITIVE / 4.0, "0x0.4p-1022"),
            (f64::NEG_INFINITY, "-INFINITY"),
        ] {
            assert_eq!(constant(value, Number::F64), text);
        }
        assert_eq!(constant(f64::from(0.1f32), Number::F32), "0x1.99999ap-4f");
    }

    #[test]
    fn texts_end_neither_a_comment_nor_a_string() {
        assert_eq!(comment("a*/\nb"), "a_/_b");
        assert_eq!(string("say \"é\"\\"), "\"say \\\"\\303\\251\\\"\\\\\"");
    }
}
