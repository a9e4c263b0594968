//! Graphs of classical operators that are damaged or hostile: refused on one line, or graphs that run without a panic.

use std::path::Path;

use fangorn::{
    graph::{Elements, Graph, Pass, Passes, Tensor},
    import::{ErrorKind, Format, LoadOptions, parse_graph},
};

use crate::{
    both, minimal,
    mutate::{Random, mutate_bytes},
};

fn models() -> Vec<(String, Vec<u8>)> {
    let zoo = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo-classical");
    let folders =
        std::fs::read_dir(zoo).expect("the classical models").filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<_> = folders
        .filter_map(|folder| {
            let name = folder.file_name()?.to_string_lossy().into_owned();
            Some((name, std::fs::read(folder.join("model.onnx")).ok()?))
        })
        .collect();
    found.sort();
    found
}

/// Three rows of zeros or of texts, however wide a graph says that its inputs are.
fn zeros(graph: &Graph) -> Option<Vec<Tensor>> {
    graph
        .inputs
        .iter()
        .map(|input| {
            let shape: Vec<usize> = input.shape.iter().map(|length| length.unwrap_or(3)).collect();
            let all = shape
                .iter()
                .try_fold(1usize, |all, length| all.checked_mul(*length))
                .filter(|n| *n < 1 << 16)?;
            let texts = || Elements::Text((0..all).map(|at| "The cat. ".repeat(at % 3).into()).collect());
            Tensor::new(shape, Elements::of_doubles(input.dtype, vec![0.0; all]).unwrap_or_else(texts))
        })
        .collect()
}

/// Runs a graph. An error is fine.
fn run(graph: &Graph) {
    if let Some(inputs) = zeros(graph) {
        let _ = graph.run(&inputs);
    }
}

/// Runs all passes over a graph. What ran before runs after them, and to outputs of the same shapes.
fn rewrite(graph: &Graph) {
    let (rewritten, _) = Passes::none().with(Pass::ALL).apply(graph).expect("a graph that verifies");
    rewritten.verify().expect("the rewritten graph");
    if let Some(inputs) = zeros(graph)
        && let Ok(before) = graph.run(&inputs)
    {
        let after = rewritten.run(&inputs).unwrap_or_else(|e| panic!("{e}\n{graph}\nbecomes\n{rewritten}"));
        for (a, b) in before.iter().zip(&after) {
            assert_eq!((a.dtype(), a.shape()), (b.dtype(), b.shape()), "{graph}\nbecomes\n{rewritten}");
        }
    }
}

#[test]
fn damaged_graphs_are_refused_or_run() {
    let (mut loaded, mut refused) = (0, 0);
    for (name, bytes) in models() {
        let mut random = Random(u64::from(crc32fast::hash(name.as_bytes())));
        for case in 0..150 {
            let mut bytes = bytes.clone();
            mutate_bytes(&mut bytes, case % 6, &mut random);
            match parse_graph(&bytes, &LoadOptions::default()) {
                Ok(graph) => {
                    loaded += 1;
                    graph.verify().unwrap_or_else(|e| panic!("{name}, case {case}: {e}"));
                    run(&graph);
                    rewrite(&graph);
                }
                Err(error) => {
                    refused += 1;
                    let line = error.to_string();
                    let one = !line.chars().any(char::is_control) && !line.is_empty();
                    assert!(one, "{name}, case {case}: {line:?}");
                }
            }
        }
    }
    assert!(loaded > 100 && refused > 1000, "{loaded} loaded, {refused} refused");
}

#[test]
fn another_format_is_no_graph() {
    let error = parse_graph(b"{}", &LoadOptions::default()).expect_err("JSON");
    assert_eq!(error.kind(), ErrorKind::Format, "{error}");
    for (encoding, bytes) in both(&minimal()) {
        let error = parse_graph(&bytes, &LoadOptions::default()).expect_err("a forest");
        assert_eq!(error.cause(), format!("an XGBoost model ({encoding}) is a forest and no graph"));
    }
    // A file that is no model is named here, too.
    let error = parse_graph(b"{\"a\": 1}", &LoadOptions::default()).expect_err("JSON");
    assert!(error.cause().contains("a JSON object with the fields a"), "{error}");
    let (_, bytes) = models().swap_remove(0);
    assert_eq!(Format::of(&bytes).expect("a format"), Format::Onnx);
    let options = LoadOptions {
        limits: fangorn::import::Limits { file_bytes: 10, ..Default::default() },
        ..Default::default()
    };
    assert_eq!(parse_graph(&bytes, &options).expect_err("too large").kind(), ErrorKind::Limit);
}
