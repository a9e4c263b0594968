//! ONNX files that ask for much before their trees: many steps may name one tensor, and a shape may claim columns that no
//! tensor has, so a small file must come to little memory, or be refused by name. Memory is what a thread has allocated.

#[path = "support/onnx.rs"]
mod onnx;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use fangorn::{
    Forest,
    forest::Feature,
    import::{ErrorKind, ImportError, LoadOptions, parse},
};
use onnx::{Graph, Value::Floats, around, node, tensor, trees};

struct Counting;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn add(bytes: isize) {
    let now = NOW.get() + bytes;
    NOW.set(now);
    PEAK.set(PEAK.get().max(now));
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller keeps the rules of `GlobalAlloc`, and the system asks for the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: the caller keeps the rules of `GlobalAlloc`, and the system asks for the same.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What a file gives, and the most bytes that were held at a time meanwhile.
fn parsed(graph: &Graph, options: &LoadOptions) -> (Result<Forest, ImportError>, usize) {
    let file = graph.bytes();
    assert!(file.len() < 40 << 10, "some KiB: {}", file.len());
    let before = NOW.get();
    PEAK.set(before);
    let parsed = parse(&file, options);
    (parsed, (PEAK.get() - before) as usize)
}

/// Operators that may follow each other.
const LONGEST: usize = 64;
/// Columns of the files here, a byte each in the tensor that every step names.
const COLUMNS: usize = 16 << 10;

/// A regressor with a chain of operators before it, each of which names one tensor of a byte a column.
fn chain(op: &'static str, length: usize, bytes: &[u8], claimed: i64) -> Graph {
    let mut graph = around("TreeEnsembleRegressor", trees());
    graph.columns = claimed;
    graph.constants = vec![tensor("c", 2, &[bytes.len() as i64], bytes)];
    let names: Vec<&'static str> = (0..length).map(|i| &*format!("s{i}").leak()).collect();
    let mut from = "X";
    for name in &names {
        let at = graph.nodes.len() - 1;
        graph.nodes.insert(at, node(op, vec![from, "c"].leak(), vec![*name].leak()));
        from = name;
    }
    graph.nodes.last_mut().expect("the trees").from = vec![from].leak();
    graph
}

#[track_caller]
fn refused(graph: &Graph, options: &LoadOptions, kind: ErrorKind, location: &str, cause: &str) {
    let (parsed, most) = parsed(graph, options);
    let error = parsed.expect_err("a model that must be refused");
    assert_eq!((error.kind(), error.location().to_string().as_str()), (kind, location), "{error}");
    assert!(error.cause().contains(cause), "{error}");
    assert!(!error.remedy().is_empty() && most < 4 << 20, "{error}: {most} bytes");
}

/// Of 64 steps with numbers each has its own: 8 bytes a column.
#[test]
fn the_longest_chain_holds_its_numbers_and_no_more() {
    let graph = chain("Add", LONGEST, &vec![0; COLUMNS], COLUMNS as i64);
    let (forest, most) = parsed(&graph, &LoadOptions::default());
    assert_eq!(forest.expect("a chain that adds nothing").features.len(), COLUMNS);
    let numbers = LONGEST * COLUMNS * 8;
    assert!((numbers..numbers + numbers / 2).contains(&most), "{most} bytes for {numbers} of numbers");
}

#[test]
fn the_longest_choice_of_columns_holds_its_numbers_and_no_more() {
    // Columns 0 to 255 over and over, so that each step has as many as the one before.
    let columns: Vec<u8> = (0..COLUMNS).map(|c| c as u8).collect();
    let graph = chain("ArrayFeatureExtractor", LONGEST, &columns, COLUMNS as i64);
    let (forest, most) = parsed(&graph, &LoadOptions::default());
    assert_eq!(forest.expect("a choice of columns").features.len(), COLUMNS);
    let numbers = LONGEST * COLUMNS * 8;
    // Beside them the columns of the forest themselves.
    assert!(most < numbers + numbers / 4, "{most} bytes for {numbers} of numbers");
}

#[test]
fn one_step_more_is_refused_before_a_number_is_read() {
    let longer = chain("Add", LONGEST + 1, &vec![0; COLUMNS], COLUMNS as i64);
    let cause = "operator Add `n` is not supported after 64 others";
    refused(&longer, &LoadOptions::default(), ErrorKind::Unsupported, "graph.node[64]", cause);
}

#[test]
fn numbers_count_for_the_limits() {
    let mut options = LoadOptions::default();
    options.limits.features = 10_000;
    // The input's shape is left open, so that the first tensor says how many columns there are.
    let open = |length| chain("Add", length, &vec![0; COLUMNS], 0);
    refused(&open(1), &options, ErrorKind::Limit, "graph.node[0]", "16384 features, over the limit of 10000");
    let mut options = LoadOptions::default();
    options.limits.memory_bytes = 1 << 20;
    refused(&open(LONGEST), &options, ErrorKind::Limit, "graph.node[7]", "over the limit of 1048576");
}

/// A `Scaler` has its numbers itself: two of 8 bytes a column, beside what the trees take.
#[test]
fn a_scaler_counts_for_the_memory() {
    let limited = |memory_bytes| {
        let mut options = LoadOptions::default();
        options.limits.memory_bytes = memory_bytes;
        options
    };
    let bare = around("TreeEnsembleRegressor", trees());
    let least = (0..4096).find(|bytes| parsed(&bare, &limited(*bytes)).0.is_ok()).expect("a small forest");
    let mut scaled = around("TreeEnsembleRegressor", trees());
    let mut scaler = node("Scaler", &["X"], &["S"]);
    scaler.attributes = vec![("offset", Floats(vec![0.0; 2])), ("scale", Floats(vec![1.0; 2]))];
    scaled.nodes[0].from = &["S"];
    scaled.nodes.insert(0, scaler);
    assert!(parsed(&scaled, &limited(least + 32)).0.is_ok());
    let cause = format!("{} memory bytes, over the limit of {}", least + 32, least + 31);
    refused(&scaled, &limited(least + 31), ErrorKind::Limit, "graph.node[0]", &cause);
}

/// A shape that claims columns which the trees never ask for costs what the forest's columns cost, a few times over.
#[test]
fn columns_that_a_shape_claims_are_held_a_few_times() {
    let claimed = LoadOptions::default().limits.features;
    let graph = chain("ArrayFeatureExtractor", LONGEST, &[0, 1], claimed as i64);
    let (forest, most) = parsed(&graph, &LoadOptions::default());
    assert_eq!(forest.expect("a choice of columns").features.len(), claimed);
    assert!(most < 4 * claimed * size_of::<Feature>(), "{most} bytes");
    let past = chain("ArrayFeatureExtractor", LONGEST, &[0, 1], claimed as i64 + 1);
    refused(&past, &LoadOptions::default(), ErrorKind::Limit, "graph.node[0]", "features, over the limit");
}
