//! Graphs on texts, and the operators that choose or put elements: what each means in its corners, its text, and the
//! models of scikit-learn that take texts.

use std::{path::Path, slice::from_ref, sync::Arc};

use fangorn::{
    graph::{
        Case, Dtype, Elements, Graph, GraphPredictor, Ngrams, Normalizer, Operator, Pass, Passes, Pattern,
        Tensor, TextOperator, Tokenizer, Tokens, Weighing,
    },
    import::load_graph,
};

use crate::graphs::read;

fn texts(shape: &[usize], values: &[&str]) -> Tensor {
    let values = values.iter().map(|text| Arc::from(*text)).collect();
    Tensor::new(shape, Elements::Text(values)).expect("as many as the shape has")
}

fn tensor(text: &str) -> Tensor {
    Tensor::parse(text).expect("a tensor")
}

/// A graph of one operator. Its text gives the same graph again.
fn graph_of(operator: Operator, operands: &[Tensor]) -> Graph {
    let mut graph = Graph::default();
    let inputs: Vec<_> =
        operands.iter().map(|t| graph.input("x", t.dtype(), vec![None; t.shape().len()])).collect();
    let node = graph.node("it", operator, inputs);
    graph.output("y", node);
    assert_eq!(Graph::parse(&graph.to_string()).as_ref(), Ok(&graph), "{graph}");
    graph
}

#[track_caller]
fn gives(operator: Operator, operands: &[Tensor], expected: &Tensor) {
    let graph = graph_of(operator, operands);
    let found = graph.run(operands).expect("a result");
    assert_eq!(&found[0], expected);
    let (rewritten, _) = Passes::none().with(Pass::ALL).apply(&graph).expect("passes");
    assert_eq!(&rewritten.run(operands).expect("a result")[0], expected);
    // What is known of the shape before rows are there is true.
    let types = graph.types().expect("types");
    let of = types.of(graph.outputs[0].operand);
    assert_eq!(of.dtype, expected.dtype());
    if let Some(shape) = &of.shape {
        assert_eq!(shape.len(), expected.shape().len());
        assert!(shape.iter().zip(expected.shape()).all(|(a, b)| a.is_none_or(|a| a == *b)));
    }
}

#[track_caller]
fn refused(operator: Operator, operands: &[Tensor], phrase: &str) {
    let error = graph_of(operator, operands).run(operands).expect_err(phrase).to_string();
    assert!(error.starts_with("it: ") && error.contains(phrase), "`{phrase}` is not in {error}");
}

fn normalizer(case: Case, exact: bool, stopwords: &[&str]) -> Operator {
    let stopwords = stopwords.iter().map(|text| Arc::from(*text)).collect();
    Operator::Texts(TextOperator::Normalize(Arc::new(Normalizer { case, exact, stopwords })))
}

fn tokenizer(tokens: Tokens, least: usize, has_delimiters: bool) -> Operator {
    let tokenizer = Tokenizer { tokens, least, has_delimiters, padding: "#".into() };
    Operator::Texts(TextOperator::Tokenize(Arc::new(tokenizer)))
}

fn matches(pattern: &str) -> Tokens {
    Tokens::Matches(Pattern::new(pattern).expect("a pattern"))
}

fn between(patterns: &[&str]) -> Tokens {
    Tokens::Between(patterns.iter().map(|text| Pattern::new(text).expect("a pattern")).collect())
}

/// What ONNX Runtime 1.32 gives, in the locale C.UTF-8.
#[test]
fn normalized_texts_are_those_of_onnx_runtime() {
    let x = texts(&[4], &["Ab", "THE", "", "straße İ É Σς"]);
    gives(
        normalizer(Case::Lower, false, &[]),
        from_ref(&x),
        &texts(&[4], &["ab", "the", "", "straße i é σς"]),
    );
    let upper = texts(&[4], &["AB", "THE", "", "STRAßE İ É ΣΣ"]);
    gives(normalizer(Case::Upper, true, &[]), &[x], &upper);
    let x = texts(&[3], &["Ab", "THE", "the"]);
    gives(normalizer(Case::Lower, false, &["the"]), from_ref(&x), &texts(&[1], &["ab"]));
    gives(normalizer(Case::Lower, true, &["the"]), from_ref(&x), &texts(&[2], &["ab", "the"]));
    gives(normalizer(Case::Keep, false, &["The"]), from_ref(&x), &texts(&[1], &["Ab"]));
    gives(normalizer(Case::Upper, false, &["The", "ab"]), from_ref(&x), &texts(&[1], &[""]));
    gives(normalizer(Case::Keep, true, &["a"]), &[texts(&[1, 2], &["a", "b"])], &texts(&[1, 1], &["b"]));
    refused(normalizer(Case::Keep, true, &["a"]), &[texts(&[2, 1], &["a", "b"])], "out of a list");
}

/// What ONNX Runtime 1.32 gives.
#[test]
fn tokens_are_those_of_onnx_runtime() {
    let x = texts(&[2], &["ab a", "abab b"]);
    gives(tokenizer(matches("a|ab"), 1, false), &[x], &texts(&[2, 2], &["ab", "a", "ab", "ab"]));
    let x = texts(&[3], &["", "..", "ab c"]);
    let marked = ["\u{2}", "\u{3}", "#", "#", "\u{2}", "\u{3}", "#", "#", "\u{2}", "ab", "c", "\u{3}"];
    gives(tokenizer(matches("[a-z]+"), 1, true), from_ref(&x), &texts(&[3, 4], &marked));
    gives(tokenizer(matches("[0-9]+"), 1, true), from_ref(&x), &texts(&[3, 0], &[]));
    let long = texts(&[1], &["a ab abc"]);
    gives(tokenizer(matches("[a-z]+"), 2, false), from_ref(&long), &texts(&[1, 2], &["ab", "abc"]));
    let x = texts(&[3], &["a b..c", "", " x "]);
    let expected = ["a", "b", "c", "#", "#", "#", "x", "#", "#"];
    gives(tokenizer(between(&[" ", "[.]"]), 1, false), from_ref(&x), &texts(&[3, 3], &expected));
    gives(tokenizer(between(&["b*"]), 1, false), from_ref(&x), &texts(&[3, 0], &[]));
    let x = texts(&[2], &["aé b", ""]);
    gives(
        tokenizer(Tokens::Characters, 1, false),
        from_ref(&x),
        &texts(&[2, 4], &["a", "é", " ", "b", "#", "#", "#", "#"]),
    );
    let rows = texts(&[2, 2], &["a b", "c", "d", "e f g"]);
    let found = ["a", "b", "#", "c", "#", "#", "d", "#", "#", "e", "f", "g"];
    gives(tokenizer(between(&[" "]), 1, false), &[rows], &texts(&[2, 2, 3], &found));
    let long: Vec<String> = vec!["a ".repeat(1 << 16), String::new()];
    let many = texts(
        &[1 << 14],
        &long.iter().map(String::as_str).cycle().take(1 << 14).collect::<Vec<_>>()[..1]
            .iter()
            .copied()
            .chain(std::iter::repeat_n("", (1 << 14) - 1))
            .collect::<Vec<_>>(),
    );
    refused(tokenizer(between(&[" "]), 1, false), &[many], "too many");
}

fn ngrams(weighing: Weighing, lengths: [usize; 2], skips: usize, pool: Elements) -> Operator {
    let columns = (vec![0, 3, 1], vec![1.0, 2.0, 3.0]);
    let ngrams = Ngrams::new(weighing, lengths, skips, (pool, vec![0, 2]), columns).expect("n-grams");
    Operator::Texts(TextOperator::CountNgrams(Arc::new(ngrams)))
}

/// What ONNX Runtime 1.32 gives.
#[test]
fn counts_of_ngrams_are_those_of_onnx_runtime() {
    let pool = || Elements::Text(["a", "b", "a", "b"].map(Into::into).to_vec());
    let x = texts(&[1, 5], &["a", "b", "a", "c", "b"]);
    gives(
        ngrams(Weighing::WeightedCount, [1, 2], 1, pool()),
        from_ref(&x),
        &tensor("f32[1, 4] = [2.0, 6.0, 0.0, 4.0]"),
    );
    gives(
        ngrams(Weighing::Count, [1, 2], 0, pool()),
        from_ref(&x),
        &tensor("f32[1, 4] = [2.0, 1.0, 0.0, 2.0]"),
    );
    gives(
        ngrams(Weighing::Presence, [2, 2], 1, pool()),
        from_ref(&x),
        &tensor("f32[1, 4] = [0.0, 3.0, 0.0, 0.0]"),
    );
    gives(
        ngrams(Weighing::Count, [1, 1], usize::MAX, pool()),
        &[texts(&[2], &["b", ""])],
        &tensor("f32[4] = [0.0, 0.0, 0.0, 1.0]"),
    );
    gives(
        ngrams(Weighing::Count, [1, 2], 3, pool()),
        &[texts(&[2, 0], &[])],
        &tensor(&format!("f32[2, 4] = {:?}", [0.0; 8])),
    );
    let pool = Elements::I64(vec![7, 8, 7, 8]);
    gives(
        ngrams(Weighing::Count, [2, 2], 0, pool),
        &[tensor("i64[1, 3] = [7, 8, 8]")],
        &tensor("f32[1, 4] = [0.0, 1.0, 0.0, 0.0]"),
    );
    let made = |lengths, starts: &[usize], columns: usize| {
        let pool = Elements::I64(vec![7, 8, 7, 8]);
        Ngrams::new(Weighing::Count, lengths, 0, (pool, starts.to_vec()), (vec![0; columns], Vec::new()))
    };
    for (lengths, starts, columns) in [
        ([0, 1], &[0, 2][..], 3),
        ([2, 1], &[0, 2], 3),
        ([1, 3], &[0, 2], 3),
        ([1, 2], &[0, 1], 3),
        ([1, 2], &[0, 9], 3),
        ([1, 2], &[2, 0], 3),
        ([1, 2], &[0, 2], 2),
        ([1, 2], &[], 0),
    ] {
        assert!(made(lengths, starts, columns).is_err(), "{lengths:?} {starts:?} {columns}");
    }
    // A column that a file claims takes no memory.
    let wide = Ngrams::new(
        Weighing::Count,
        [1, 1],
        0,
        (Elements::I64(vec![1]), vec![0]),
        (vec![usize::MAX], Vec::new()),
    );
    let wide = Operator::Texts(TextOperator::CountNgrams(Arc::new(wide.expect("an n-gram"))));
    refused(wide, &[tensor("i64[1, 1] = [1]")], "too many");
}

/// Hashes of MurmurHash3_x86_32, as scikit-learn's `murmurhash3_32` gives them.
#[test]
fn hashes_are_those_of_murmur() {
    let x = texts(&[5], &["", "a", "ab", "foo", "hello, world"]);
    let hash = |seed, positive| Operator::Texts(TextOperator::Hash { seed, positive });
    gives(
        hash(0, false),
        from_ref(&x),
        &tensor("i32[5] = [0, 1009084850, -1681926305, -156908512, 345750399]"),
    );
    gives(
        hash(42, true),
        from_ref(&x),
        &tensor("i64[5] = [142593372, 3001393763, 3610054215, 2972666014, 2127021762]"),
    );
}

#[test]
fn slices_are_chosen_and_elements_are_put() {
    let x = tensor("i64[2, 3] = [1, 2, 3, 4, 5, 6]");
    let bools = tensor("bool[3] = [true, false, true]");
    gives(Operator::Compress { axis: 1 }, &[x.clone(), bools.clone()], &tensor("i64[2, 2] = [1, 3, 4, 6]"));
    gives(
        Operator::Compress { axis: -2 },
        &[x.clone(), tensor("bool[1] = [false]")],
        &tensor("i64[0, 3] = []"),
    );
    refused(Operator::Compress { axis: 0 }, &[x.clone(), bools], "not for 2 slices");
    refused(Operator::Compress { axis: 1 }, &[x.clone(), tensor("i64[1] = [1]")], "not of truth values");
    let put = Operator::ScatterElements { axis: 1 };
    let operands = [x.clone(), tensor("i64[2, 2] = [-1, 0, 1, 1]"), tensor("i64[2, 2] = [7, 8, 9, 10]")];
    gives(put.clone(), &operands, &tensor("i64[2, 3] = [8, 2, 7, 4, 10, 6]"));
    let operands = [x.clone(), tensor("i64[1, 1] = [3]"), tensor("i64[1, 1] = [7]")];
    refused(put.clone(), &operands, "not among the 3");
    let operands = [x, tensor("i64[3, 1] = [0, 0, 0]"), tensor("i64[3, 1] = [7, 7, 7]")];
    refused(put.clone(), &operands, "are not inside");
    let operands = [operands[0].clone(), tensor("i64[1, 1] = [0]"), tensor("i64[1, 2] = [7, 7]")];
    refused(put, &operands, "are not for updates");
}

#[test]
fn systems_of_equations_are_solved() {
    let a = tensor("f32[2, 2] = [0.0, 2.0, 4.0, 1.0]");
    let b = tensor("f32[2, 2] = [2.0, -4.0, 9.0, 2.0]");
    gives(Operator::Solve, &[a.clone(), b], &tensor("f32[2, 2] = [2.0, 1.0, 1.0, -2.0]"));
    gives(Operator::Solve, &[a.clone(), tensor("f32[2] = [2.0, 9.0]")], &tensor("f32[2] = [2.0, 1.0]"));
    let singular = tensor("f32[2, 2] = [1.0, 2.0, 2.0, 4.0]");
    refused(Operator::Solve, &[singular, tensor("f32[2] = [2.0, 9.0]")], "singular");
    refused(Operator::Solve, &[a, tensor("f32[3] = [2.0, 9.0, 1.0]")], "no system");
}

/// Without a value for others, an element that is no key is refused.
#[test]
fn an_element_that_is_no_key_is_refused() {
    let lookup = Operator::Lookup {
        keys: Elements::I64(vec![5, 7]),
        values: Elements::I64(vec![0, 1]),
        other: Elements::I64(Vec::new()),
    };
    gives(lookup.clone(), &[tensor("i64[3] = [7, 5, 7]")], &tensor("i64[3] = [1, 0, 1]"));
    refused(lookup, &[tensor("i64[1] = [6]")], "is none of its 2 keys");
}

#[test]
fn text_operators_of_other_operands_are_refused() {
    let mut graph = Graph::default();
    let x = graph.input("x", Dtype::F32, [None]);
    let node = graph.node("it", normalizer(Case::Lower, false, &[]), [x]);
    graph.output("y", node);
    assert!(graph.verify().expect_err("numbers").to_string().contains("takes text, not f32"));
    for (line, phrase) in [
        ("normalizeTexts(%in0, case=title, exact=true, stopwords=[])", "\"title\" is not known"),
        ("tokenize(%in0, tokens=matches, patterns=[], least=1, mark=false, padding=\"#\")", "0 patterns"),
        ("tokenize(%in0, tokens=matches, patterns=[\"(\"], least=1, mark=false, padding=\"#\")", "no end"),
        ("murmurHash(%in0, seed=-1, positive=true)", "is no u32"),
    ] {
        let text = format!("input %in0 \"x\": text[rows]\n%0 \"it\" = {line}\noutput \"y\": %0\n");
        let error = Graph::parse(&text).expect_err(phrase).to_string();
        assert!(error.contains(phrase), "`{phrase}` is not in {error}");
    }
}

/// The rows of a model of texts: a header, and a text in quotation marks on each line.
fn rows(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("rows.csv")).expect("rows");
    text.lines().skip(1).map(|line| line.trim_matches('"').to_owned()).collect()
}

#[test]
fn models_of_texts_predict_what_scikit_learn_predicts() {
    let zoo = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo-classical");
    for name in ["TfidfVectorizer", "FeatureHasher", "TextPipeline", "TokenPipeline"] {
        let folder = zoo.join(name);
        let graph = load_graph(&folder.join("model.onnx"), &Default::default())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(Graph::parse(&graph.to_string()).as_ref(), Ok(&graph), "{name}");
        let rows = rows(&folder);
        let shape: Vec<usize> =
            graph.inputs[0].shape.iter().map(|length| length.unwrap_or(rows.len())).collect();
        let x = texts(&shape, &rows.iter().map(String::as_str).collect::<Vec<_>>());
        let interpreted = graph.run(from_ref(&x)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let predictor = GraphPredictor::new(graph, 1).unwrap_or_else(|e| panic!("{name}: {e}"));
        let predicted = predictor.predict(from_ref(&x)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (_, output) = read(&folder.join("output.npy")).expect("an output");
        let proba = read(&folder.join("proba.npy")).map(|(_, values)| values);
        for found in [interpreted, predicted] {
            for (found, expected) in found.iter().zip([Some(output.clone()), proba.clone()]) {
                let Some(expected) = expected else { continue };
                let found = found.elements().doubles().expect("numbers");
                assert_eq!(found.len(), expected.len(), "{name}");
                let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5;
                assert!(found.iter().zip(&expected).all(near), "{name}: {found:?} and not {expected:?}");
            }
        }
    }
}

/// A batch in pieces has the results of the whole batch, although tokens of a row are padded to the longest row.
#[test]
fn texts_in_pieces_give_pieces_of_the_results() {
    let zoo = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo-classical");
    let words = ["the", "cat", "DOG", "bird", "42", "blue", "#", "a", "ünknown", ",", ""];
    let mut state = 11u64;
    let mut below = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % most
    };
    for name in ["TextPipeline", "TokenPipeline", "TfidfVectorizer"] {
        let path = format!("{zoo}/{name}/model.onnx");
        let graph = load_graph(path.as_ref(), &Default::default()).expect(name);
        let predictor = GraphPredictor::new(graph, 1).expect(name);
        assert!(predictor.goes_by_rows(), "{name}");
        for case in 0..200 {
            let rows = 1 + below(9);
            // Rows without a token, and batches of nothing else.
            let longest = [0, 1, 3, 12][case % 4];
            let mut text = |_| {
                let words: Vec<&str> = (0..below(longest + 1)).map(|_| words[below(words.len())]).collect();
                words.join(" ")
            };
            let all: Vec<String> = (0..rows).map(&mut text).collect();
            let run = |from: usize, to: usize| {
                let texts =
                    texts(&[to - from, 1], &all[from..to].iter().map(String::as_str).collect::<Vec<_>>());
                predictor.predict(&[texts]).unwrap_or_else(|e| panic!("{name}, case {case}: {e}"))
            };
            let (whole, at) = (run(0, rows), below(rows + 1));
            let (first, second) = (run(0, at), run(at, rows));
            for ((whole, first), second) in whole.iter().zip(&first).zip(&second) {
                let rows_of = |from: usize, to: usize| whole.rows(&(from..to).collect::<Vec<_>>());
                let what = format!("{name}, case {case}: {all:?}, cut at {at}");
                assert_eq!(Some(first), rows_of(0, at).as_ref(), "{what}");
                assert_eq!(Some(second), rows_of(at, rows).as_ref(), "{what}");
            }
        }
    }
}
