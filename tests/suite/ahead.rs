//! Models compiled to C: a compiler of C makes programs of them, whose leaves and margins are the reference's.

use crate::generate;
use crate::support;

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use fangorn::{
    Forest,
    ahead::{c_source, smallest_c_source},
    forest::{
        Accumulator, CategoryRule, ClassRule, CompareType, ForestBuilder, Predicate, Side, Transform,
        reference,
    },
};
use proptest::prelude::*;

/// The compiler, if there is one. `FANGORN_REQUIRE_CC` makes its absence a failure.
fn compiler() -> Option<&'static str> {
    static FOUND: OnceLock<bool> = OnceLock::new();
    let answers = || Command::new("cc").arg("--version").output().is_ok_and(|said| said.status.success());
    let found = *FOUND.get_or_init(answers);
    if !found {
        assert!(std::env::var("FANGORN_REQUIRE_CC").is_err(), "no compiler of C answers to cc");
        eprintln!("skipped: no compiler of C answers to cc");
    }
    found.then_some("cc")
}

/// Reads rows, and writes each one's leaves, margins, values and classes as hexadecimal numbers.
const MAIN: &str = r#"
#include "forest.h"
#include <stdio.h>
#ifdef FLUSH
#include <xmmintrin.h>
#endif

static void doubles(const forest_number *all, unsigned count)
{
    unsigned i;
    for (i = 0; i < count; i++) printf(" %a", (double)all[i]);
}

int main(void)
{
    static forest_value row[FOREST_FEATURES + 1];
    static uint32_t leaves[FOREST_TREES + 1];
    static forest_number margins[FOREST_OUTPUTS], values[FOREST_VALUES];
    const unsigned trees = FOREST_TREES;
    unsigned i;
#ifdef FLUSH
    /* Numbers that are smaller than normal ones are 0, as in programs compiled with -ffast-math. */
    _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
    while (fread(row, sizeof *row, FOREST_FEATURES + 1, stdin) == FOREST_FEATURES + 1) {
        forest_leaves(row, leaves);
        forest_margins(row, margins);
        forest_values(row, values);
        for (i = 0; i < trees; i++) printf(" %u", (unsigned)leaves[i]);
        printf(";");
        doubles(margins, FOREST_OUTPUTS);
        printf(";");
        doubles(values, FOREST_VALUES);
        printf(";");
#ifdef FOREST_CLASSES
        {
            static uint32_t classes[FOREST_CLASSES];
            forest_classes(row, classes);
            for (i = 0; i < FOREST_CLASSES; i++) printf(" %u", (unsigned)classes[i]);
        }
#endif
        printf(";");
#ifdef LABELS
        for (i = 0; i < LABELS; i++) printf(" %s", forest_labels[i]);
#endif
        printf("\n");
    }
    return 0;
}
"#;

/// A number as C's `%a` writes it.
fn hexadecimal(text: &str) -> f64 {
    let (sign, rest) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
    let Some(rest) = rest.strip_prefix("0x") else {
        return sign * rest.parse::<f64>().expect("inf or nan");
    };
    let (digits, exponent) = rest.split_once('p').expect("an exponent");
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mantissa = u64::from_str_radix(&format!("{whole}{fraction}"), 16).expect("digits");
    let exponent = exponent.parse::<i32>().expect("a number") - 4 * fraction.len() as i32;
    // Two steps, because a power of two below 2^-1022 is none of f64's.
    sign * mantissa as f64 * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
}

/// What the program says of a row.
struct Found {
    leaves: Vec<u32>,
    margins: Vec<f64>,
    values: Vec<f64>,
    classes: Vec<u32>,
    labels: Vec<String>,
}

fn found(line: &str) -> Found {
    let fields: Vec<Vec<&str>> = line.split(';').map(|field| field.split_whitespace().collect()).collect();
    let whole = |field: &[&str]| field.iter().map(|n| n.parse().expect("a whole number")).collect();
    let real = |field: &[&str]| field.iter().map(|n| hexadecimal(n)).collect();
    Found {
        leaves: whole(&fields[0]),
        margins: real(&fields[1]),
        values: real(&fields[2]),
        classes: whole(&fields[3]),
        labels: fields[4].iter().map(|label| label.to_string()).collect(),
    }
}

fn folder() -> PathBuf {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("fangorn-ahead-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Flags of strict C99, the book's, which allow a compiler more, and those of a processor without AVX-512.
const FLAGS: [&[&str]; 3] =
    [&["-std=c99", "-pedantic", "-O1"], &["-O3", "-march=native"], &["-O2", "-DFOREST_SCALAR"]];

/// Compiles a forest in a folder, and returns the program.
fn program(cc: &str, folder: &Path, forest: &Forest, flags: &[&str]) -> PathBuf {
    let compiled = c_source(forest, "forest").expect("C");
    for (name, text) in [("forest.h", &*compiled.header), ("forest.c", &compiled.source), ("main.c", MAIN)] {
        std::fs::write(folder.join(name), text).expect("a file");
    }
    let mut command = Command::new(cc);
    command.args(flags).args(["-Wall", "-Wextra", "-Werror", "-DFOREST_LEAVES"]);
    if forest.classes.rule != ClassRule::None && !forest.classes.labels.is_empty() {
        command.arg(format!("-DLABELS={}", forest.classes.labels.len()));
    }
    let made = command.args(["main.c", "forest.c", "-lm", "-o", "program"]).current_dir(folder).output();
    let made = made.expect("the compiler runs");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{}", said.chars().take(2000).collect::<String>());
    folder.join("program")
}

/// Compiles a forest, runs it on rows of `f64`, and compares all that it prints with the reference interpreter.
fn check(what: &str, forest: &Forest, rows: &[f64], count: usize, flags: &[&str]) {
    let Some(cc) = compiler() else { return };
    let folder = folder();
    let columns = forest.features.len();
    let mut bytes = Vec::new();
    for row in 0..count {
        // The program reads one more value in each row, so that a model without columns has rows, too.
        for value in rows[row * columns..][..columns].iter().chain([&0.0]) {
            match forest.compare {
                CompareType::F32 => bytes.extend((*value as f32).to_ne_bytes()),
                CompareType::F64 => bytes.extend(value.to_ne_bytes()),
            }
        }
    }
    let mut child = Command::new(program(cc, &folder, forest, flags))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut input = child.stdin.take().expect("standard input");
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut input, &bytes));
    let output = child.wait_with_output().expect("output");
    writer.join().expect("a thread").expect("all rows are read");
    let _ = std::fs::remove_dir_all(&folder);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success() && text.lines().count() == count, "{what}: {}", output.status);
    for (r, line) in text.lines().enumerate() {
        let found = found(line);
        let row = &rows[r * columns..][..columns];
        assert_eq!(found.leaves, reference::leaf_ids(forest, row), "{what}: row {r}");
        let slots = reference::leaf_slots(forest, row);
        let margins = reference::producer_margins(forest, &slots, None);
        let bits = |all: &[f64]| {
            all.iter().map(|m| if m.is_nan() { f64::NAN.to_bits() } else { m.to_bits() }).collect::<Vec<_>>()
        };
        assert_eq!(bits(&found.margins), bits(&margins), "{what}: row {r}: {:?}, {margins:?}", found.margins);
        let expected = reference::values_of_sums(forest, &margins);
        assert_eq!(found.values.len(), expected.len(), "{what}");
        for (value, expected) in found.values.iter().zip(&expected) {
            let relative = if Accumulator::of(forest) == Accumulator::F32 { 1e-6 } else { 1e-13 };
            // The other transforms may subtract nearly equal numbers, so their values have larger relative errors.
            let keeps_size =
                matches!(forest.transform, Transform::Sigmoid | Transform::Exp | Transform::Softmax);
            let least = if keeps_size { 1e-30 } else { 1.0 };
            let close = (value - expected).abs() <= relative * expected.abs().max(least);
            assert!(
                close || value == expected || value.is_nan() && expected.is_nan(),
                "{what}: row {r}: {value}, {expected}"
            );
        }
        if forest.classes.rule != ClassRule::None {
            let labels = forest.classes.labels.iter().flat_map(|label| label.split_whitespace());
            assert_eq!(found.labels, labels.collect::<Vec<_>>(), "{what}");
            assert_eq!(
                found.classes,
                reference::classes_of_slots(forest, &slots),
                "{what}: row {r}: {margins:?}"
            );
        }
    }
}

#[test]
fn the_zoo_is_the_same_in_c() {
    support::for_each_specimen(|s| {
        let (rows, count) = match &s.wide {
            Some(wide) => (wide.rows.clone(), wide.count),
            None => (s.rows.iter().map(|value| f64::from(*value)).collect(), s.count),
        };
        check(&s.name, &s.forest, &rows, count.min(300), FLAGS[s.name.len() % 3]);
    });
}

#[test]
fn random_forests_are_the_same_in_c() {
    let run = generate::runner(generate::wanted(40)).run(
        &(generate::forest(), any::<u64>()),
        |(mut forest, seed)| {
            let draw = |from: usize, shift: u32| (seed >> shift) as usize % from;
            let transform = Transform::ALL[draw(Transform::ALL.len(), 0)];
            if transform.outputs().is_none_or(|outputs| outputs == forest.outputs) {
                forest.transform = transform;
            }
            let libraries = ["xgboost", "lightgbm", "catboost", "scikit-learn", "onnx", "custom"];
            forest.producer.library = libraries[draw(libraries.len(), 8)].into();
            forest.classes.rule = match draw(4, 16) {
                0 => ClassRule::None,
                1 => ClassRule::Over { threshold: 0.5.into() },
                2 => ClassRule::Over { threshold: 0.25.into() },
                _ if forest.transform.is_pair() => ClassRule::None,
                _ => ClassRule::Largest,
            };
            if forest.verify().is_err() {
                return Ok(());
            }
            let rows = generate::wide_rows(&forest, 50, seed);
            let what = format!("{:?}, {:?}\n{}", forest.transform, forest.classes.rule, forest.to_text());
            check(&what, &forest, &rows, 50, FLAGS[draw(3, 24)]);
            Ok(())
        },
    );
    run.unwrap_or_else(|e| panic!("{e}"));
}

/// Adds a tree of at most this many levels, whose walks end above its last level here and there.
fn uneven_tree(
    builder: &mut ForestBuilder,
    levels: u32,
    outputs: u32,
    draw: &mut dyn FnMut(u32) -> u32,
    columns: &[u32],
    thresholds: &[f64],
    sets: &[u32],
) {
    let mut tree = if outputs == 1 { builder.tree(0) } else { builder.vector_tree() };
    // Levels of the nodes that are still to come, the next one first.
    let mut open = std::collections::VecDeque::from([0u32]);
    let (mut node, mut next) = (0, 1);
    while let Some(level) = open.pop_front() {
        if level == levels || level > 1 && draw(6) == 0 {
            let values: Vec<f64> = (0..outputs).map(|_| f64::from(draw(2000)) / 64.0 - 15.0).collect();
            tree.leaf(node, &values);
        } else {
            let asks = match draw(9) {
                0 => Predicate::Always,
                1..4 if !sets.is_empty() => {
                    let inside = if draw(2) == 0 { Side::Left } else { Side::Right };
                    Predicate::InSet { set: sets[draw(sets.len() as u32) as usize], inside }
                }
                _ => CompareType::F64.less(thresholds[draw(thresholds.len() as u32) as usize]),
            };
            let missing = if draw(2) == 0 { Side::Left } else { Side::Right };
            tree.split(columns[draw(columns.len() as u32) as usize], asks, missing, next, next + 1);
            open.extend([level + 1; 2]);
            next += 2;
        }
        node += 1;
    }
}

/// Rows in two, four, six and eight registers, whole and with missing values; and of one column too many for tiles. Of a
/// forest that compares in `double`, some rows have values of `float` alone, and others have values between these, around
/// thresholds that no `float` is. Some forests ask for categories.
#[test]
fn tiles_of_every_width_are_the_same_in_c() {
    let (mut kinds, mut asking) = ([0; 4], 0);
    let rules = [CategoryRule::Whole, CategoryRule::Truncated, CategoryRule::NotNegative];
    for (number, (columns, read, outputs)) in [
        (1, 1, 1),
        (2, 2, 1),
        (16, 16, 3),
        (33, 33, 1),
        (64, 64, 1),
        (65, 60, 2),
        (97, 97, 1),
        (128, 128, 1),
        (300, 90, 1),
        (129, 129, 1),
    ]
    .into_iter()
    .enumerate()
    {
        for compare in [CompareType::F32, CompareType::F64] {
            let is_double = compare == CompareType::F64;
            let mut random = generate::Seeded(7 + number as u64);
            let mut draw = |below: u32| random.below(below as usize) as u32;
            let mut builder = Forest::builder(columns, outputs).compare(compare);
            let all: Vec<u32> = (0..columns as u32).rev().step_by(columns / read).take(read).collect();
            let mut thresholds: Vec<f64> = (0..40).map(|n| f64::from(n) / 4.0).collect();
            if is_double {
                thresholds.extend([
                    0.1,
                    0.1f64.next_up(),
                    0.1f64.next_down(),
                    -7.3,
                    1e300,
                    -1e300,
                    1e-35,
                    f64::INFINITY,
                ]);
            }
            let members: &[Vec<u32>] = match number % 2 {
                0 => &[],
                _ => &[vec![0, 2, 3, 8], vec![5], (1..10).collect(), vec![]],
            };
            let add = |members: &Vec<u32>| builder.set(members.iter().copied(), rules[number / 2 % 3]);
            let sets: Vec<u32> = members.iter().map(add).collect();
            // More trees than one call walks, and no multiple of eight.
            for tree in 0..131 {
                let levels = if number % 2 == 0 { [6, 3, 9, 1] } else { [5, 6, 5, 1] }[tree % 4];
                uneven_tree(&mut builder, levels, outputs, &mut draw, &all, &thresholds, &sets);
            }
            let forest = builder.build().expect("a forest");
            let source = c_source(&forest, "forest").expect("C").source;
            assert_eq!(source.contains("any_walk"), read <= 128, "{columns} columns");
            if read <= 128 {
                asking += u32::from(source.contains("looked_up("));
                kinds[2 * usize::from(source.contains("any_end(")) + usize::from(is_double)] += 1;
            }
            let around = thresholds.iter().flat_map(|t| [t.next_down(), *t, t.next_up()]);
            // Where numbers are flushed to 0, these are 0 in every comparison.
            let around: Vec<f64> = around.filter(|x| !x.is_subnormal()).collect();
            let rows: Vec<f64> = (0..70 * columns)
                .map(|at| match draw(12) {
                    0 if at / columns % 3 > 0 => f64::NAN,
                    1 => f64::INFINITY,
                    2 => [f64::NEG_INFINITY, 1e-40, -1e-40, -1e-300][draw(4) as usize],
                    3..8 if is_double && at / columns % 2 > 0 => around[draw(around.len() as u32) as usize],
                    _ => f64::from(draw(44)) / 4.0 - 0.5,
                })
                .collect();
            let flush: &[&[&str]] = match is_double && cfg!(target_arch = "x86_64") {
                true => &[&["-O2", "-DFLUSH"]],
                false => &[],
            };
            let two = [FLAGS[number % 3], FLAGS[(number + 1) % 3]];
            for flags in two.iter().chain(flush) {
                check(&format!("{columns} columns, {flags:?}"), &forest, &rows, 70, flags);
            }
            let smallest = smallest_c_source(&forest, "forest").expect("C").source;
            assert!(smallest.contains("nodes[") && !smallest.contains("any_walk"), "{columns} columns");
        }
    }
    assert!(kinds.iter().all(|count| *count > 1), "tiles of both kinds, in float and double: {kinds:?}");
    assert!(asking > 3, "tiles with look-ups");
}

/// Splits on categories that no row reaches are in no tile.
#[test]
fn dead_splits_on_categories_are_the_same_in_c() {
    for levels in [3, 7] {
        let mut builder = Forest::builder(2, 1);
        let set = builder.set([1, 3], CategoryRule::Whole);
        for _ in 0..9 {
            let mut tree = builder.tree(0);
            tree.split(0, Predicate::Always, Side::Left, 1, 2);
            tree.split(1, Predicate::InSet { set, inside: Side::Left }, Side::Left, 3, 4);
            (2..5).for_each(|node| _ = tree.leaf(node, &[f64::from(node)]));
            let mut tree = builder.tree(0);
            let splits = (1 << levels) - 1;
            for n in 0..splits {
                let asks = CompareType::F32.less(f64::from(n * 5 % 9));
                tree.split(n % 2, asks, Side::Right, 2 * n + 1, 2 * n + 2);
            }
            (splits..=2 * splits).for_each(|n| _ = tree.leaf(n, &[f64::from(n)]));
        }
        let rows: Vec<f64> = (0..60).map(|at| f64::from(at * 7 % 11)).collect();
        check("dead splits", &builder.build().expect("a forest"), &rows, 30, FLAGS[0]);
    }
}

/// Columns and levels that need more than 32 bits a node.
#[test]
fn nodes_of_64_bits_are_the_same_in_c() {
    const COLUMNS: usize = 1 << 20;
    let mut builder = Forest::builder(COLUMNS, 1);
    let set = builder.set([1, 3], CategoryRule::Whole);
    let mut tree = builder.tree(0);
    let splits = (1 << 12) - 1;
    for n in 0..splits {
        let asks = match n % 50 {
            7 => Predicate::InSet { set, inside: Side::Left },
            _ => CompareType::F32.less(f64::from(n % 4)),
        };
        let side = if n % 3 == 0 { Side::Right } else { Side::Left };
        tree.split(COLUMNS as u32 - 1 - n % 7, asks, side, 2 * n + 1, 2 * n + 2);
    }
    (splits..=2 * splits).for_each(|n| _ = tree.leaf(n, &[f64::from(n)]));
    let forest = builder.build().expect("a forest");
    let mut rows = vec![0.0; 4 * COLUMNS];
    for (r, row) in rows.chunks_mut(COLUMNS).enumerate() {
        for k in 1..8 {
            row[COLUMNS - k] = [0.0, 1.0, 3.0, f64::NAN, 2.5][(r * 3 + k) % 5];
        }
    }
    check("64 bits", &forest, &rows, 4, FLAGS[0]);
}

/// The header is C++, too; functions may have any name, and leaves may be left out.
#[test]
fn sources_compile_under_any_name_and_for_cpp() {
    let Some(cc) = compiler() else { return };
    let folder = folder();
    let [vectors, churn] = ["vector-leaf", "churn"].map(|name| support::named(name).forest);
    for (name, forest) in [
        ("leaf", &vectors),
        ("node", &vectors),
        ("x", &vectors),
        ("of", &vectors),
        ("of", &churn),
        ("tile", &churn),
        ("tree", &churn),
        ("prototype", &churn),
        ("SECOND_NAME", &churn),
    ] {
        let compiled = c_source(forest, name).expect("C");
        std::fs::write(folder.join(format!("{name}.h")), &compiled.header).expect("a file");
        std::fs::write(folder.join(format!("{name}.c")), &compiled.source).expect("a file");
        std::fs::write(folder.join("other.cpp"), format!("#include \"{name}.h\"\n{name}_number number;\n"))
            .expect("it");
        for file in [format!("{name}.c"), "other.cpp".into()] {
            let mut command = Command::new(cc);
            let made =
                command.args(["-Wall", "-Wextra", "-Werror", "-c", &file]).current_dir(&folder).output();
            let said = made.expect("the compiler runs");
            // A machine may have no compiler of C++.
            let absent = String::from_utf8_lossy(&said.stderr).contains("cc1plus");
            assert!(said.status.success() || absent, "{}", String::from_utf8_lossy(&said.stderr));
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// A compiled forest calls nothing but functions of `math.h`, so it can't allocate, and its tables can't be written to.
#[test]
#[cfg(target_os = "linux")]
fn compiled_forests_call_mathematics_alone_and_their_tables_are_read_only() {
    let mathematics = "exp expf exp2 exp2f log logf log1p log1pf sqrt sqrtf copysign fabs".split(' ');
    // What a compiler may make of loops over memory, and of checks that a system turns on.
    let of_compilers = ["memcpy", "memmove", "memset", "__stack_chk_fail"];
    let called: Vec<&str> = mathematics.chain(of_compilers).collect();
    let Some(cc) = compiler() else { return };
    let models =
        ["churn", "category-names", "vector-leaf", "catboost-labels", "lightgbm-cross-entropy-lambda"];
    let mut walked = [0, 0];
    for name in models.into_iter().chain(["onnx-probit", "sklearn-isolation-forest"]) {
        let compiled = c_source(&support::named(name).forest, "forest").expect("C");
        for flags in FLAGS {
            let folder = folder();
            std::fs::write(folder.join("forest.h"), &compiled.header).expect("a file");
            std::fs::write(folder.join("forest.c"), &compiled.source).expect("a file");
            let mut command = Command::new(cc);
            command.args(flags).args(["-DFOREST_LEAVES", "-c", "forest.c"]).current_dir(&folder);
            assert!(command.status().expect("the compiler runs").success(), "{name}");
            let Ok(listed) = Command::new("nm").arg("-P").arg(folder.join("forest.o")).output() else {
                assert!(std::env::var("FANGORN_REQUIRE_CC").is_err(), "there is no nm, which lists symbols");
                eprintln!("skipped: there is no nm, which lists symbols");
                return;
            };
            let _ = std::fs::remove_dir_all(&folder);
            let listed = String::from_utf8(listed.stdout).expect("text");
            for line in listed.lines() {
                let mut words = line.split_whitespace();
                let (symbol, kind) = (words.next().expect("a name"), words.next().expect("a type"));
                let is_fine = match kind {
                    "T" | "t" | "R" | "r" => true,
                    // The labels are addresses: the loader writes them, and then makes their pages read-only.
                    "D" | "d" => symbol == "forest_labels",
                    // The linker's table of addresses, and what the compiler's own library knows of the processor.
                    "U" if symbol == "_GLOBAL_OFFSET_TABLE_" => true,
                    "U" if symbol.starts_with("__cpu_") => !flags.contains(&"-DFOREST_SCALAR"),
                    "U" => called.contains(&symbol),
                    _ => false,
                };
                assert!(is_fine, "{name}, {flags:?}: {line}");
            }
            let is_constant =
                |table: &str| listed.lines().any(|line| line.starts_with(&format!("{table} r ")));
            for (count, tables) in walked.iter_mut().zip([["nodes", "roots"], ["tiles", "trees"]]) {
                *count += usize::from(tables.iter().all(|table| is_constant(table)));
            }
        }
    }
    assert!(walked.iter().all(|count| *count >= FLAGS.len()), "models walk nodes and tiles: {walked:?}");
}

#[test]
fn names_that_c_can_not_have_are_refused() {
    let mut forest = Forest::builder(1, 1);
    forest.tree(0).leaf(0, &[1.0]);
    let forest = forest.build().expect("a forest");
    for name in ["", "1st", "a-b", "é", "Math", "a b", "immintrin"] {
        let refused = c_source(&forest, name).expect_err("no name").to_string();
        assert!(refused.contains("no name for functions") && refused.contains("give letters"), "{refused}");
    }
    let wide = Forest::builder(1, 8193).build().expect("a forest");
    let refused = c_source(&wide, "wide").expect_err("too wide").to_string();
    assert!(refused.contains("8193 outputs"), "{refused}");
}
