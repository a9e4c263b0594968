//! Passes over graphs: what each one makes of a text, and that none of them changes what a graph computes.
//!
//! A file in `tests/filetests/graphs` holds a graph, then `== PASS` and the graph that the pass makes of it. Run with
//! `FANGORN_BLESS=1` to write what is found into the files, and read it before it is kept.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use fangorn::{
    Forest,
    cost::GraphTarget,
    forest::{CategoryRule, CompareType, Predicate, Side},
    graph::{
        Binary, Compare, Dtype, Elements, Graph, GraphExplanation, GraphPredictor, Operand, Operator, Pass,
        Passes, Reduction, Tensor, Unary, skip_zeros,
    },
    import::load_graph,
};

use crate::{
    generate::Seeded,
    graphs::{folders, inputs, read},
};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests/graphs");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("the files").flatten().map(|e| e.path()).collect();
    files.sort();
    files
}

#[test]
fn passes_make_of_graphs_what_the_files_say() {
    let bless = std::env::var_os("FANGORN_BLESS").is_some();
    let mut wrong = String::new();
    let mut seen = Vec::new();
    for file in files() {
        let expected = std::fs::read_to_string(&file).expect("a text file");
        let head_length = expected.find("\n== ").map_or(expected.len(), |at| at + 1);
        let (head, rest) = expected.split_at(head_length);
        let graph = Graph::parse(head).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let mut found = head.to_owned();
        for title in rest.lines().filter_map(|line| line.strip_prefix("== ")) {
            let pass = Pass::named(title).unwrap_or_else(|| panic!("{}: no pass {title}", file.display()));
            let made = pass.apply(&graph).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            seen.push(pass);
            let _ = write!(found, "== {title}\n{made}");
        }
        if bless {
            std::fs::write(&file, &found).expect("the file is written");
        } else if found != expected {
            let _ = writeln!(wrong, "{}:\n{found}", file.display());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    for pass in Pass::ALL {
        assert!(seen.contains(&pass), "no file has the pass {pass}");
    }
}

/// Tensors that are equal: NaN is NaN, and zeros of both signs are zero.
fn equal(a: &Tensor, b: &Tensor) -> bool {
    let same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
    (a.dtype(), a.shape()) == (b.dtype(), b.shape())
        && match (a.elements().doubles(), b.elements().doubles()) {
            (Some(a), Some(b)) => a.iter().zip(&b).all(same),
            _ => a == b,
        }
}

/// Values within what sums in another order may give.
fn near(a: &Tensor, b: &Tensor) -> bool {
    let within =
        |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-5 * b.abs().max(1.0);
    (a.dtype(), a.shape()) == (b.dtype(), b.shape())
        && match (a.elements().doubles(), b.elements().doubles()) {
            (Some(a), Some(b)) => a.iter().zip(&b).all(within),
            _ => a == b,
        }
}

/// The rows of a model, and rows with missing values, infinities, zeros of both signs and numbers between them.
fn messy(values: &[f64], seed: u64) -> Vec<f64> {
    let mut random = Seeded(seed);
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e30, -1e-40, 3.7, -0.5, 1e9];
    values
        .iter()
        .map(|value| match random.below(12) {
            0 => odd[random.below(odd.len())],
            1 => value + 0.5,
            2 => f64::from(*value as f32).next_up(),
            _ => *value,
        })
        .collect()
}

/// Each pass alone and all of them give the same outputs on a model's rows, and on messy ones.
#[test]
fn passes_keep_what_models_compute() {
    let sets: Vec<(String, Passes)> = Pass::ALL
        .into_iter()
        .map(|pass| (pass.to_string(), Passes::none().with([pass])))
        .chain([
            ("the default ones".to_owned(), Passes::default()),
            ("all".to_owned(), Passes::none().with(Pass::ALL)),
        ])
        .collect();
    let (mut changed, mut names) = (vec![0; sets.len()], Vec::new());
    for folder in folders() {
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let graph = load_graph(&folder.join("model.onnx"), &Default::default()).expect(&name);
        let (shape, rows) = read(&folder.join("rows.npy")).expect("rows");
        let rows_of = |values: &[f64]| inputs(&graph, &shape, values);
        let batches = [rows_of(&rows), rows_of(&messy(&rows, rows.len() as u64))];
        let expected = batches.each_ref().map(|batch| graph.run(batch));
        for (at, (title, passes)) in sets.iter().enumerate() {
            let (rewritten, changes) =
                passes.apply(&graph).unwrap_or_else(|e| panic!("{name}, {title}: {e}"));
            if changes.is_empty() {
                assert_eq!(rewritten.to_string(), graph.to_string(), "{name}, {title}");
                continue;
            }
            changed[at] += 1;
            for (batch, expected) in batches.iter().zip(&expected) {
                let found = rewritten.run(batch);
                let (Ok(expected), Ok(found)) = (expected, &found) else {
                    assert_eq!(expected.is_err(), found.is_err(), "{name}, {title}: {found:?}");
                    continue;
                };
                for (output, (a, b)) in graph.outputs.iter().zip(expected.iter().zip(found)) {
                    let sums_differ = changes.iter().any(|change| change.pass == Pass::Matrices);
                    let fine = if sums_differ { near(b, a) } else { equal(a, b) };
                    assert!(fine, "{name}, {title}, output {:?}:\n{changes:?}\n{rewritten}", output.name);
                }
            }
        }
        let skipping = skip_zeros(&graph).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (batch, expected) in batches.iter().zip(&expected) {
            if let (Ok(expected), Ok(found)) = (expected, skipping.run(batch)) {
                let same = expected.iter().zip(&found).all(|(a, b)| equal(a, b));
                assert!(same, "{name}: zeros are skipped\n{skipping}");
            }
        }
        names.push(name);
    }
    // No model here has a weight whose zeros it pays to skip.
    for ((title, _), count) in sets.iter().zip(changed).filter(|((title, _), _)| title != "sparse") {
        assert!(count > 0, "{title} changed none of {names:?}");
    }
}

/// A graph's text parses back to the same graph, for every model.
#[test]
fn texts_of_graphs_parse_back() {
    for folder in folders() {
        let graph = load_graph(&folder.join("model.onnx"), &Default::default()).expect("a graph");
        let text = graph.to_string();
        let parsed = Graph::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        assert!(parsed.to_string() == text, "{}", folder.display());
        assert!(graph.summary().len() <= text.len());
    }
}

/// Text that is damaged is an error that names its line, or a graph.
#[test]
fn damaged_texts_are_refused() {
    let mut random = Seeded(7);
    let (mut refused, mut read) = (0, 0);
    for file in files() {
        let text = std::fs::read_to_string(&file).expect("a text file");
        let head: Vec<char> = text.split("\n== ").next().expect("a graph").chars().collect();
        for _ in 0..400 {
            let mut damaged = head.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(damaged.len());
                match random.below(4) {
                    0 => drop(damaged.remove(at)),
                    1 => damaged.insert(at, ['(', ']', '"', '9', '-', '%', '\n', 'e'][random.below(8)]),
                    2 => damaged[at] = ['0', '9', ',', '[', 'x', ' ', '=', '\\'][random.below(8)],
                    _ => damaged.truncate(at.max(1)),
                }
            }
            match Graph::parse(&damaged.iter().collect::<String>()) {
                Ok(graph) => {
                    read += 1;
                    assert_eq!(
                        Graph::parse(&graph.to_string()).expect("its own text").to_string(),
                        graph.to_string()
                    );
                }
                Err(error) => {
                    refused += 1;
                    assert!(!error.to_string().contains('\n'), "{error}");
                }
            }
        }
    }
    assert!(refused > 500 && read > 100, "{refused} refused, {read} read");
}

fn list(values: Vec<f32>) -> Tensor {
    Tensor::new([values.len()], Elements::F32(values)).expect("a list")
}

/// A forest on `columns` columns whose leaves all have values of their own, so that equal values are equal leaves.
fn forest(random: &mut Seeded, columns: usize, thresholds: &[f64], categories: bool) -> Forest {
    let mut forest = Forest::builder(columns, 1).compare(CompareType::F32);
    if categories {
        forest.set([1, 3, 4], CategoryRule::NotNegative);
    }
    for tree in 0..1 + random.below(6) {
        let mut building = forest.tree(0);
        let depth = 1 + random.below(3);
        let splits = (1 << depth) - 1;
        for at in 0..splits {
            let threshold = thresholds[random.below(thresholds.len())] as f32;
            let predicate = match random.below(if categories { 6 } else { 5 }) {
                0 => Predicate::Equal { value: threshold.into() },
                1 => CompareType::F32.at_most(threshold.into()),
                5 => Predicate::InSet { set: 0, inside: Side::Left },
                _ => Predicate::Less { threshold: threshold.into() },
            };
            let missing = if random.below(2) == 0 { Side::Left } else { Side::Right };
            let (left, right) = (2 * at as u32 + 1, 2 * at as u32 + 2);
            building.split(random.below(columns) as u32, predicate, missing, left, right);
        }
        for leaf in splits..2 * splits + 1 {
            building
                .leaf(leaf as u32, &[f64::from((1u32 << (4 * tree)) * (leaf as u32 + 1 - splits as u32))]);
        }
    }
    forest.build().expect("a forest")
}

/// Columns that are prepared in a random way: what a column transformer does to some of the columns.
fn prepared(graph: &mut Graph, random: &mut Seeded, x: Operand, columns: usize) -> (Operand, usize) {
    let count = 1 + random.below(columns);
    let indices: Vec<i64> = (0..count).map(|_| random.below(columns) as i64).collect();
    let (mut found, mut width) = (x, columns);
    if random.below(5) > 0 {
        let indices = graph.weight(Tensor::new([count], Elements::I64(indices)).expect("a list"));
        (found, width) = (graph.node("columns", Operator::Gather { axis: 1 }, [x, indices]), count);
    }
    let number = |random: &mut Seeded| [0.5, -2.0, 3.0, 1e-3, 0.1, -7.25, 1.0][random.below(7)];
    for _ in 0..random.below(4) {
        let values: Vec<f32> = (0..width).map(|_| number(random)).collect();
        match random.below(8) {
            7 => {
                // A layer of a network.
                let outputs = 1 + random.below(6);
                let values = (0..width * outputs).map(|_| number(random)).collect();
                let weight = Tensor::new([width, outputs], Elements::F32(values)).expect("a matrix");
                let weight = graph.weight(weight);
                (found, width) = (graph.node("layer", Operator::MatMul, [found, weight]), outputs);
            }
            6 => found = graph.node("rectified", Operator::Unary(Unary::Relu), [found]),
            0 => {
                let missing = graph.node("missing", Operator::Unary(Unary::IsNan), [found]);
                let values = graph.weight(list(values));
                found = graph.node("imputed", Operator::Where, [missing, values, found]);
            }
            1 => {
                let wide = graph.node("wide", Operator::Cast(Dtype::F64), [found]);
                let by = graph.weight(Tensor::new([1], Elements::F64(vec![0.1])).expect("a number"));
                let scaled = graph.node("scaled", Operator::Binary(Binary::Multiply), [wide, by]);
                found = graph.node("narrow", Operator::Cast(Dtype::F32), [scaled]);
            }
            2 => {
                let values = graph.weight(list(values));
                found = graph.node("from", Operator::Binary(Binary::Subtract), [values, found]);
            }
            how => {
                let how = [Binary::Add, Binary::Multiply, Binary::Divide][how - 3];
                let values = graph.weight(list(values));
                found = graph.node("arithmetic", Operator::Binary(how), [found, values]);
            }
        }
    }
    (found, width)
}

/// A one-hot encoder of one column.
fn encoded(graph: &mut Graph, random: &mut Seeded, x: Operand, columns: usize) -> (Operand, usize) {
    let index = Tensor::new([1], Elements::I64(vec![random.below(columns) as i64])).expect("a number");
    let index = graph.weight(index);
    let column = graph.node("column", Operator::Gather { axis: 1 }, [x, index]);
    let truncated = random.below(2) == 0;
    let (column, categories) = match truncated {
        true => {
            let column = graph.node("integers", Operator::Cast(Dtype::I64), [column]);
            (column, Tensor::new([4], Elements::I64(vec![0, 1, 3, 9])).expect("a list"))
        }
        false => (column, list(vec![0.0, 1.0, 3.0, 3.5])),
    };
    let column = graph.node("unsqueezed", Operator::Unsqueeze(vec![-1]), [column]);
    let categories = graph.weight(categories);
    let equal = graph.node("equal", Operator::Compare(Compare::Equal), [column, categories]);
    let encoded = graph.node("encoded", Operator::Cast(Dtype::F32), [equal]);
    (graph.node("flat", Operator::Reshape(vec![-1, 4]), [encoded]), 4)
}

/// Random pipelines before random forests: every row reaches the leaves that it reached, however much is folded.
#[test]
fn folded_forests_reach_the_same_leaves() {
    let (mut whole, mut partly) = (0, 0);
    for seed in 0..400 {
        let mut random = Seeded(seed);
        let columns = 1 + random.below(7);
        let mut graph = Graph::default();
        let x = graph.input("x", Dtype::F32, [None, Some(columns)]);
        let mut groups = Vec::new();
        for _ in 0..1 + random.below(4) {
            groups.push(match random.below(4) {
                0 => encoded(&mut graph, &mut random, x, columns),
                _ => prepared(&mut graph, &mut random, x, columns),
            });
        }
        let width = groups.iter().map(|(_, width)| width).sum();
        let rows = match groups[..] {
            [(only, _)] => only,
            _ => graph.node("together", Operator::Concat { axis: 1 }, groups.iter().map(|(group, _)| *group)),
        };
        let thresholds = [0.0, 0.5, 1.0, -1.25, 3.0, 0.1, -7.0, 2.5e-3, 40.0];
        let categories = random.below(4) == 0;
        let forest = forest(&mut random, width, &thresholds, categories);
        let values = graph.node("forest", Operator::Forest(Arc::new(forest)), [rows]);
        graph.output("values", values);
        let (rewritten, _) =
            Passes::default().apply(&graph).unwrap_or_else(|e| panic!("{seed}: {e}\n{graph}"));
        match rewritten.nodes.len() {
            1 => whole += 1,
            _ => partly += 1,
        }
        let count = 64;
        let mut values: Vec<f32> = (0..count * columns)
            .map(|_| {
                let near =
                    [0.0, 1.0, 3.0, 3.5, 9.0, 0.5, -1.25, 2.5, 400.0, -70.0, 0.1][random.below(11)] as f32;
                [near, near.next_up(), near.next_down(), near * 1.5][random.below(4)]
            })
            .collect();
        for value in &mut values {
            match random.below(12) {
                0 => *value = f32::NAN,
                1 => *value = [f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-45, f32::MAX][random.below(5)],
                _ => {}
            }
        }
        let rows = Tensor::new([count, columns], Elements::F32(values)).expect("rows");
        let expected = graph.run(std::slice::from_ref(&rows)).expect("values");
        let found = rewritten.run(std::slice::from_ref(&rows)).expect("values");
        assert!(equal(&expected[0], &found[0]), "{seed}:\n{graph}\nbecomes\n{rewritten}");
    }
    assert!(whole > 100 && partly > 50, "{whole} pipelines went into their forest, {partly} did not");
}

/// A graph that no pass changes is returned as it is, with NaN among its weights and tables, too.
#[test]
fn passes_report_no_change_where_there_is_none() {
    let text = "input %in0 \"x\": f32[rows, 2]
weight %w0: f32[2] = [NaN, 1.0]
%0 \"add\" = add(%in0, %w0)
%1 \"table\" = lookup(%0, keys=f32[NaN, 1.0], values=i64[1, 2], other=i64[0])
output \"y\": %1
";
    let (rewritten, changes) =
        Passes::none().with(Pass::ALL).apply(&Graph::parse(text).expect("a graph")).expect("passes");
    assert_eq!((rewritten.nodes.len(), changes), (2, Vec::new()));
}

/// Runs a graph before and after the default passes, and compares the outputs.
#[track_caller]
fn outputs_stay(text: &str, inputs: &[Tensor]) {
    let graph = Graph::parse(text).expect("a graph");
    let (rewritten, _) = Passes::default().apply(&graph).expect("passes");
    let [before, after] = [&graph, &rewritten].map(|graph| graph.run(inputs).expect("values"));
    assert_eq!(before, after, "{rewritten}");
}

/// The text of a float is another one than that of the double that it is cast to.
#[test]
fn casts_to_text_keep_the_type_that_they_print() {
    let text = "input %in0 \"x\": f32[rows]
%0 \"wide\" = cast(%in0, to=f64)
%1 \"text\" = cast(%0, to=text)
output \"y\": %1
";
    outputs_stay(text, &[list(vec![0.1])]);
}

/// A list that is computed and as long as rows are wide is not taken for one of columns.
#[test]
fn columns_are_chosen_of_rows_alone() {
    let text = "input %in0 \"x\": f32[rows, 2]
input %in1 \"y\": f32[2]
weight %w0: i64[1] = [1]
%0 \"negated\" = negate(%in1)
%1 \"add\" = add(%in0, %0)
%2 \"second\" = gather(%1, %w0, axis=1)
output \"z\": %2
";
    let rows = Tensor::new([2, 2], Elements::F32(vec![1.0, 2.0, 3.0, 4.0])).expect("rows");
    outputs_stay(text, &[rows, list(vec![10.0, 20.0])]);
}

/// A file may claim inputs of any width, which no pass makes a list of.
#[test]
fn widths_that_a_file_claims_take_no_memory() {
    let half = usize::MAX / 2;
    let text = format!(
        "input %in0 \"x\": f32[rows, {half}]
input %in1 \"y\": f32[rows, {half}]
%f0:
  forest features=2 outputs=1 trees=1 compare=f32 transform=identity
    from custom by hand
    base_score [0.0]
  tree 0 -> output 0
    0: leaf 0 #0 [1.0]
%0 \"some\" = slice(%in0, axis=1, start=1, end={}, step=1)
%1 \"last\" = slice(%0, axis=1, start=0, end=-1, step=2)
%2 \"both\" = concat(%in0, %in1, %1, axis=1)
%3 \"forest\" = forest(%2, trees=%f0)
output \"value\": %3
output \"last\": %1
",
        i64::MAX
    );
    let graph = Graph::parse(&text).expect("a graph");
    for pass in Pass::ALL {
        pass.apply(&graph).unwrap_or_else(|e| panic!("{pass}: {e}"));
    }
}

/// Products of every shape around the tiles of the products' kernel, with none of a dimension among them, as the
/// predictor and as the interpreter computes them.
#[test]
fn products_of_all_shapes_are_those_of_the_interpreter() {
    let mut random = Seeded(9);
    let lengths = [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 64, 65, 130];
    for case in 0..150 {
        let [m, k, n] = [0; 3].map(|_| lengths[random.below(lengths.len())]);
        let mut values = |count: usize| -> Vec<f32> {
            let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0];
            let mut value = || match random.below(400) {
                0 => odd[random.below(odd.len())],
                _ => random.below(2000) as f32 / 256.0 - 4.0,
            };
            (0..count).map(|_| value()).collect()
        };
        let mut graph = Graph::default();
        let x = graph.input("x", Dtype::F32, [None, Some(k)]);
        let weight = Tensor::new([k, n], Elements::F32(values(k * n))).expect("a matrix");
        let weight = graph.weight(weight);
        let product = graph.node("product", Operator::MatMul, [x, weight]);
        graph.output("y", product);
        let rows = Tensor::new([m, k], Elements::F32(values(m * k))).expect("rows");
        let predictor = GraphPredictor::with_passes(&graph, 1, &Passes::none()).expect("compiled");
        let found = predictor.predict(std::slice::from_ref(&rows)).expect("values");
        let expected = graph.run(std::slice::from_ref(&rows)).expect("values");
        assert!(near(&found[0], &expected[0]), "case {case}: {m} x {k} x {n}");
    }
}

/// A large product with a weight that is mostly 0 skips the zeros, and gives the same bits on messy rows.
#[test]
fn zeros_of_a_large_weight_are_skipped() {
    let mut random = Seeded(5);
    for (inner, width) in [(200, 300), (300, 129)] {
        let values = (0..inner * width)
            .map(|_| if random.below(200) == 0 { random.below(9) as f32 - 4.25 } else { 0.0 })
            .collect();
        let mut graph = Graph::default();
        let x = graph.input("x", Dtype::F32, [None, Some(inner)]);
        let weight = graph.weight(Tensor::new([inner, width], Elements::F32(values)).expect("a matrix"));
        let product = graph.node("product", Operator::MatMul, [x, weight]);
        graph.output("y", product);
        let rewritten = Pass::Sparse.apply(&graph).expect("a pass");
        assert!(matches!(rewritten.nodes[0].operator, Operator::SparseMatMul(_)), "{}", rewritten.summary());
        assert!(rewritten.weights.is_empty());
        let rows: Vec<f64> = (0..9 * inner).map(|_| random.below(1000) as f64 / 37.0 - 13.0).collect();
        let messy = messy(&rows, 3);
        // The last rows have one missing value or one infinity, and else numbers.
        let one = |odd: f64| {
            let mut row = rows[..inner].to_vec();
            row[inner / 3] = odd;
            row
        };
        let all = [rows.clone(), messy, one(f64::NAN), one(f64::NEG_INFINITY)].concat();
        let all = Elements::of_doubles(Dtype::F32, all).expect("floats");
        let rows = Tensor::new([20, inner], all).expect("rows");
        let (dense, skipping) =
            (graph.run(std::slice::from_ref(&rows)), rewritten.run(std::slice::from_ref(&rows)));
        assert!(equal(&dense.expect("values")[0], &skipping.expect("values")[0]), "{inner} x {width}");
    }
}

/// Doubles that are near a category, before a forest that rounds its rows to `f32`: the encoder does not round.
#[test]
fn encoders_of_doubles_do_not_round() {
    for compare in ["f32", "f64"] {
        let text = format!(
            "input %in0 \"x\": f64[rows, 2]
weight %w0: i64[1] = [1]
weight %w1: i64[2] = [3, 4]
%f0:
  forest features=4 outputs=1 trees=2 compare={compare} transform=identity
    from custom by hand
    base_score [0.0]
  tree 0 -> output 0
    0: if x[2] < 0.5, missing left, then 1 else 2
    1: leaf 1 #0 [1.0]
    2: leaf 2 #1 [2.0]
  tree 1 -> output 0
    0: if x[3] < 0.5, missing left, then 1 else 2
    1: leaf 1 #2 [10.0]
    2: leaf 2 #3 [20.0]
%0 \"column\" = gather(%in0, %w0, axis=1)
%1 \"integer\" = cast(%0, to=i64)
%2 \"equal\" = equal(%1, %w1)
%3 \"encoder\" = cast(%2, to=f64)
%4 \"rows\" = concat(%in0, %3, axis=1)
%5 \"forest\" = forest(%4, trees=%f0)
output \"y\": %5
"
        );
        let graph = Graph::parse(&text).expect("a graph");
        let (rewritten, _) = Passes::default().apply(&graph).expect("passes");
        let values = vec![0.0, 3.999_999_999_9, 0.0, 4.0, 0.0, 2.999_999_999_9, 0.0, f64::NAN, 0.0, -0.5];
        let rows = Tensor::new([5, 2], Elements::F64(values)).expect("rows");
        let [expected, found] = [&graph, &rewritten].map(|graph| graph.run(std::slice::from_ref(&rows)));
        assert_eq!(expected.expect("values"), found.expect("values"), "{compare}: {rewritten}");
    }
}

/// Tensors that are the same to the bit, the signs of zeros among them.
fn same_bits(a: &Tensor, b: &Tensor) -> bool {
    let bits = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
    (a.dtype(), a.shape()) == (b.dtype(), b.shape())
        && match (a.elements().doubles(), b.elements().doubles()) {
            (Some(a), Some(b)) => a.iter().zip(&b).all(bits),
            _ => a == b,
        }
}

/// A random operator on `x`, rows of `width` columns of doubles or truth values, and the width of its result.
fn typed(
    graph: &mut Graph,
    random: &mut Seeded,
    (x, width, doubles): (Operand, usize, bool),
) -> (Operand, usize, bool) {
    let number = |random: &mut Seeded| match random.below(6) {
        0 => [0.5, -0.25, 0.1, 1e9, 1e-300, -0.0][random.below(6)],
        _ => random.below(9) as f64 - 4.0,
    };
    let list = |graph: &mut Graph, values: Vec<f64>| {
        graph.weight(Tensor::new([values.len()], Elements::F64(values)).expect("a list"))
    };
    if !doubles {
        return match random.below(3) {
            0 => {
                let floats = graph.node("floats", Operator::Cast(Dtype::F32), [x]);
                (graph.node("doubles", Operator::Cast(Dtype::F64), [floats]), width, true)
            }
            _ => (graph.node("doubles", Operator::Cast(Dtype::F64), [x]), width, true),
        };
    }
    match random.below(12) {
        0 => {
            let values = (0..width).map(|_| number(random)).collect();
            let with = list(graph, values);
            let how = [Compare::Less, Compare::Equal, Compare::GreaterOrEqual][random.below(3)];
            (graph.node("compare", Operator::Compare(how), [x, with]), width, false)
        }
        1 | 2 => {
            let values = (0..width).map(|_| number(random)).collect();
            let with = list(graph, values);
            let all = [
                Binary::Add,
                Binary::Subtract,
                Binary::Multiply,
                Binary::Minimum,
                Binary::Maximum,
                Binary::Divide,
            ];
            (graph.node("binary", Operator::Binary(all[random.below(6)]), [x, with]), width, true)
        }
        3 => {
            let all = [
                Unary::Abs,
                Unary::Negate,
                Unary::Relu,
                Unary::Floor,
                Unary::Round,
                Unary::Sign,
                Unary::Sqrt,
            ];
            (graph.node("unary", Operator::Unary(all[random.below(7)]), [x]), width, true)
        }
        4 => {
            let count = 1 + random.below(4);
            let indices = (0..count).map(|_| random.below(width) as i64).collect();
            let indices = graph.weight(Tensor::new([count], Elements::I64(indices)).expect("a list"));
            (graph.node("columns", Operator::Gather { axis: 1 }, [x, indices]), count, true)
        }
        5 => (graph.node("twice", Operator::Concat { axis: 1 }, [x, x]), 2 * width, true),
        6 => {
            let how = [Reduction::Sum, Reduction::Minimum, Reduction::Mean][random.below(3)];
            (graph.node("reduce", Operator::Reduce { how, axes: vec![1], keep: true }, [x]), 1, true)
        }
        7 => {
            let missing = graph.node("missing", Operator::Unary(Unary::IsNan), [x]);
            let with = list(graph, vec![number(random)]);
            (graph.node("where", Operator::Where, [missing, with, x]), width, true)
        }
        8 => {
            let floats = graph.node("floats", Operator::Cast(Dtype::F32), [x]);
            (graph.node("doubles", Operator::Cast(Dtype::F64), [floats]), width, true)
        }
        _ => {
            let columns = 1 + random.below(5);
            let most = [1usize, 4, 1000, 1 << 23][random.below(4)];
            let fraction = if random.below(8) == 0 { 0.5 } else { 0.0 };
            let mut value = || random.below(2 * most + 1) as f64 - most as f64 + fraction;
            let values = (0..width * columns).map(|_| value()).collect();
            let with = graph.weight(Tensor::new([width, columns], Elements::F64(values)).expect("a matrix"));
            (graph.node("product", Operator::MatMul, [x, with]), columns, true)
        }
    }
}

/// Random chains of products, casts and their neighbours give the same bits with the pass as without it, by the
/// interpreter and by the predictor.
#[test]
fn types_that_are_rewritten_keep_every_bit() {
    let (mut products, mut others, mut kept) = (0, 0, 0);
    for seed in 0..600 {
        let mut random = Seeded(seed);
        let columns = 1 + random.below(6);
        let mut graph = Graph::default();
        let x = graph.input("x", Dtype::F32, [None, Some(columns)]);
        let wide = graph.node("doubles", Operator::Cast(Dtype::F64), [x]);
        let mut at = (wide, columns, true);
        if random.below(3) > 0 {
            at = (graph.node("over", Operator::Compare(Compare::Greater), [wide, wide]), columns, false);
            let half = graph.weight(Tensor::new([1], Elements::F64(vec![0.5])).expect("a number"));
            graph.nodes[1].operands[1] = half;
        }
        for index in 0..1 + random.below(9) {
            at = typed(&mut graph, &mut random, at);
            if random.below(6) == 0 {
                graph.output(&format!("output {index}"), at.0);
            }
        }
        graph.output("y", at.0);
        if at.2 {
            let greatest = Operator::ArgExtreme { axis: 1, keep: false, greatest: true, last: false };
            let class = graph.node("class", greatest, [at.0]);
            graph.output("class", class);
        }
        let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-45, f32::MAX];
        let values =
            (0..32 * columns)
                .map(|_| {
                    if random.below(8) == 0 {
                        odd[random.below(6)]
                    } else {
                        random.below(9) as f32 / 4.0 - 1.0
                    }
                })
                .collect();
        let rows = [Tensor::new([32, columns], Elements::F32(values)).expect("rows")];
        let passes = Passes::none().with([Pass::Dtypes]);
        let (rewritten, changes) = passes.apply(&graph).unwrap_or_else(|e| panic!("{seed}: {e}\n{graph}"));
        let rewrites: Vec<&String> = changes.iter().flat_map(|change| &change.rewrites).collect();
        products += rewrites.iter().filter(|rewrite| rewrite.contains("a product of f64")).count();
        others += rewrites.iter().filter(|rewrite| rewrite.contains("without a cast")).count();
        kept += usize::from(rewrites.is_empty());
        assert_eq!(rewrites.is_empty(), rewritten == graph.used(), "{seed}:\n{graph}\nbecomes\n{rewritten}");
        let expected = graph.run(&rows).expect("values");
        let found = rewritten.run(&rows).expect("values");
        let predictor = |graph| GraphPredictor::with_passes(graph, 1, &Passes::none()).expect("compiled");
        let predicted = [&graph, &rewritten].map(|graph| predictor(graph).predict(&rows).expect("values"));
        for at in 0..expected.len() {
            let text = || format!("{seed}, output {at}:\n{graph}\nbecomes\n{rewritten}");
            assert!(same_bits(&expected[at], &found[at]), "{}", text());
            assert!(same_bits(&predicted[0][at], &predicted[1][at]), "by the predictor, {}", text());
        }
    }
    println!("{products} products, {others} other operators, {kept} graphs as they were");
    assert!(products > 100 && others > 200 && kept > 50, "{products} products, {others} others, {kept} kept");
}

/// Sums may go up to 2^24 in `f32`, and no further, whatever the weight's other columns are.
#[test]
fn products_become_floats_up_to_the_last_exact_sum() {
    let limit = 1i64 << 24;
    for (column, floats) in [
        ([limit, 0], true),
        ([limit - 1, 1], true),
        ([1 - limit, 1], true),
        ([limit, 1], false),
        ([limit - 1, -2], false),
        ([limit + 1, 0], false),
    ] {
        let text = format!(
            "input %in0 \"x\": bool[rows, 2]
weight %w0: f64[2, 2] = [{:?}, 1.0, {:?}, -1.0]
%0 \"numbers\" = cast(%in0, to=f64)
%1 \"votes\" = matmul(%0, %w0)
output \"y\": %1
",
            column[0] as f64, column[1] as f64
        );
        let graph = Graph::parse(&text).expect("a graph");
        let rewritten = Pass::Dtypes.apply(&graph).expect("a pass");
        assert_eq!(rewritten != graph, floats, "{column:?}: {rewritten}");
        let rows = [Tensor::new([2, 2], Elements::Bool(vec![true, true, true, false])).expect("rows")];
        assert_eq!(graph.run(&rows), rewritten.run(&rows), "{column:?}");
    }
}

/// Products that integers or truth values have go to `f32` and back.
#[test]
fn products_of_integers_become_floats() {
    for dtype in ["i32", "i64", "bool"] {
        let elements = if dtype == "bool" { "[true, false, true, true]" } else { "[3, -2, 0, 5]" };
        let text = format!(
            "input %in0 \"x\": bool[rows, 2]
weight %w0: {dtype}[2, 2] = {elements}
%0 \"numbers\" = cast(%in0, to={dtype})
%1 \"product\" = matmul(%0, %w0)
output \"y\": %1
"
        );
        let graph = Graph::parse(&text).expect("a graph");
        let rewritten = Passes::none().with([Pass::Dtypes]).apply(&graph).expect("a pass").0;
        assert!(rewritten.summary().contains("to=f32"), "{rewritten}");
        let rows = vec![true, true, true, false, false, true, false, false];
        let rows = [Tensor::new([4, 2], Elements::Bool(rows)).expect("rows")];
        assert_eq!(graph.run(&rows), rewritten.run(&rows), "{dtype}: {rewritten}");
    }
}

/// Forests are walked by default, since their products take longer, and become products where the pass is named.
#[test]
fn forests_become_products_where_the_pass_is_named() {
    let mut random = Seeded(3);
    let mut graph = Graph::default();
    let x = graph.input("x", Dtype::F32, [None, Some(4)]);
    let mut forest = Forest::builder(4, 1).compare(CompareType::F32);
    for _ in 0..3 {
        let mut tree = forest.tree(0);
        tree.split(random.below(4) as u32, Predicate::Less { threshold: 0.5.into() }, Side::Left, 1, 2);
        tree.leaf(1, &[random.below(9) as f64]);
        tree.leaf(2, &[-1.5]);
    }
    let forest = Operator::Forest(Arc::new(forest.build().expect("a forest")));
    let values = graph.node("forest", forest.clone(), [x]);
    graph.output("y", values);
    let has_forest = |passes: &Passes| {
        let (rewritten, _) = passes.apply(&graph).expect("passes");
        rewritten.nodes.iter().any(|node| node.operator == forest)
    };
    assert!(has_forest(&Passes::default()) && Passes::default().has(Pass::Matrices));
    assert!(has_forest(&Passes::default().on(GraphTarget::Device)));
    assert!(!has_forest(&Passes::none().with([Pass::Matrices])));
    assert!(!has_forest(&Passes::default().with([Pass::Matrices])));
    assert!(has_forest(&Passes::default().with([Pass::Matrices]).without(Pass::Matrices)));
    for (passes, products) in [(Passes::default(), false), (Passes::none().with(Pass::ALL), true)] {
        let why = GraphExplanation::new(&graph, &passes, 64).expect("an explanation");
        let [ways] = &why.forests[..] else { panic!("{why:?}") };
        assert_eq!((ways.products, ways.refused, ways.facts.splits), (products, None, 3));
        assert!(!ways.choice.products_pay() && ways.choice.products.is_some());
        assert_eq!(why.products.len(), if products { 2 } else { 0 });
    }
}
