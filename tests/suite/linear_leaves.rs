//! Forests whose leaves are linear models: LightGBM's models of `tests/zoo-classical`, and random ones.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    slice::from_ref,
    sync::Arc,
};

use fangorn::{
    Forest,
    forest::{Aggregate, CompareType, Side},
    graph::{
        Dtype, Elements, Graph, GraphPredictor, LeafModels, LinearLeaves, Operand, Operator, Pass, Passes,
        Tensor,
    },
    import::{self, ErrorKind, LoadOptions, load_graph},
};

use crate::{
    generate::{self, Seeded},
    graphs::read,
};

const MODELS: [&str; 10] = [
    "linear-binary",
    "linear-cross-entropy-lambda",
    "linear-dart",
    "linear-multiclass",
    "linear-ova",
    "linear-poisson",
    "linear-regression",
    "linear-regression-sqrt",
    "linear-rf",
    "linear-rf-regression",
];

fn folder(model: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo-classical").join(model)
}

fn doubles(tensor: &Tensor) -> Vec<f64> {
    tensor.elements().doubles().expect("numbers")
}

/// Whether numbers are those expected, within so much of them or of 1. NaN is NaN.
fn agrees(found: &[f64], expected: &[f64], within: f64) -> bool {
    let near = |(a, b): (&f64, &f64)| {
        a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= within * b.abs().max(1.0)
    };
    found.len() == expected.len() && found.iter().zip(expected).all(near)
}

/// The graph with other outputs: the margins and the leaf ids of its trees.
fn with_sums(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    let is_it = |operator: &Operator| matches!(operator, Operator::LinearLeaves(_));
    let at = graph.nodes.iter().position(|node| is_it(&node.operator)).expect("linear leaves") as u32;
    graph.outputs.clear();
    graph.output("margins", Operand::Node(at, 0));
    graph.output("leaves", Operand::Node(at, 1));
    graph
}

#[test]
fn models_predict_what_lightgbm_predicts() {
    for model in MODELS {
        let folder = folder(model);
        let path = folder.join("model.txt");
        let graph = load_graph(&path, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let array = |name: &str| read(&folder.join(name)).unwrap_or_else(|| panic!("{model}: no {name}"));
        let (shape, rows) = array("rows.npy");
        let rows = Tensor::new(shape.clone(), Elements::F64(rows)).expect("rows");

        // The same numbers are added in the same order.
        let sums = with_sums(&graph).run(from_ref(&rows)).unwrap_or_else(|e| panic!("{model}: {e}"));
        let (margins, leaves) = (array("margin.npy").1, array("leaves.npy").1);
        assert!(agrees(&doubles(&sums[0]), &margins, 0.0), "{model}: {sums:?} and not {margins:?}");
        assert_eq!(doubles(&sums[1]), leaves, "{model}");

        let (shape, output) = array("output.npy");
        let interpreted = graph.run(from_ref(&rows)).unwrap_or_else(|e| panic!("{model}: {e}"));
        let values = interpreted.last().expect("values");
        assert_eq!((values.shape(), values.dtype()), (&shape[..], Dtype::F64), "{model}");
        assert!(agrees(&doubles(values), &output, 1e-12), "{model}: {values} and not {output:?}");
        if let [label, _] = &interpreted[..] {
            let classes = shape[1];
            let of_row = |row: &[f64]| match row {
                [p] => f64::from(u8::from(*p > 0.5)),
                _ => (0..classes).fold(0, |best, at| if row[at] > row[best] { at } else { best }) as f64,
            };
            let expected: Vec<f64> = output.chunks_exact(classes).map(of_row).collect();
            assert_eq!(doubles(label), expected, "{model}");
        }

        for graph in [&graph, &with_sums(&graph)] {
            let expected = graph.run(from_ref(&rows)).expect("outputs");
            for passes in [Passes::default(), Passes::none().with(Pass::ALL)] {
                let predictor = GraphPredictor::with_passes(graph, 2, &passes);
                let predictor = predictor.unwrap_or_else(|e| panic!("{model}: {e}"));
                let found = predictor.predict(from_ref(&rows)).unwrap_or_else(|e| panic!("{model}: {e}"));
                assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{model}");
            }
        }
        let text = graph.to_string();
        let parsed = Graph::parse(&text).unwrap_or_else(|e| panic!("{model}: {e}"));
        assert_eq!(parsed.to_string(), text, "{model}");
        assert_eq!(
            format!("{:?}", parsed.run(from_ref(&rows)).expect("outputs")),
            format!("{interpreted:?}"),
            "{model}"
        );
        assert!(graph.summary().len() < text.len() / 4, "{model}");
        assert!(graph.to_dot().contains("linear leaves of "), "{model}");

        let error = import::load(&path, &LoadOptions::default()).expect_err("a forest with linear models");
        let fangorn::Error::Import(error) = error else { panic!("{error}") };
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.remedy().contains("load_graph"), "{error}");
    }
}

/// Rounds are chosen as for other models, where an end of 0 stands for the last one, and an average is over those that are kept.
#[test]
fn rounds_are_chosen() {
    for model in ["linear-rf-regression", "linear-multiclass"] {
        let path = folder(model).join("model.txt");
        let (shape, rows) = read(&folder(model).join("rows.npy")).expect("rows");
        let rows = Tensor::new(shape, Elements::F64(rows)).expect("rows");
        let of = |range: Option<Range<u32>>| {
            let options = LoadOptions { iteration_range: range, ..Default::default() };
            let graph = load_graph(&path, &options).unwrap_or_else(|e| panic!("{e}"));
            doubles(&with_sums(&graph).run(from_ref(&rows)).expect("sums")[0])
        };
        let (first, rest) = (of(Some(0..2)), of(Some(Range { start: 2, end: 0 })));
        let both: Vec<f64> = first.iter().zip(&rest).map(|(a, b)| a + b).collect();
        assert!(agrees(&both, &of(None), 1e-12), "{model}");
    }
    let scale = |range| {
        let options = LoadOptions { iteration_range: Some(range), ..Default::default() };
        let graph = load_graph(&folder("linear-rf-regression").join("model.txt"), &options).expect("a graph");
        graph.weights.first().map(|weight| doubles(weight)[0])
    };
    assert_eq!((scale(1..3), scale(Range { start: 3, end: 0 }), scale(4..5)), (Some(0.5), Some(0.5), None));
}

/// Models of random size for the leaves of a forest. A leaf may name a column twice.
fn random_models(forest: &Forest, random: &mut Seeded) -> LeafModels {
    let mut models = LeafModels::default();
    let number = |random: &mut Seeded| random.below(2001) as f64 / 100.0 - 10.0;
    for _ in 0..forest.leaf_count() {
        let terms = random.below(5).saturating_sub(1);
        let terms: Vec<_> =
            (0..terms).map(|_| (random.below(forest.features.len()) as u32, number(random))).collect();
        models.push(number(random), terms);
    }
    models
}

/// The interpreter and the predictor give the same numbers to the bit, for rows of either type and in any batch.
#[test]
fn random_linear_leaves_on_the_predictor() {
    let strategy = (generate::forest(), proptest::prelude::any::<u64>());
    let (mut compared, mut refused) = (0, 0);
    let mut runner = generate::runner(generate::wanted(60));
    for _ in 0..generate::wanted(60) {
        use proptest::strategy::{Strategy, ValueTree};
        let (forest, seed) = strategy.new_tree(&mut runner).expect("a forest").current();
        let forest = Arc::new(Forest { aggregate: Aggregate::Sum, ..forest });
        let mut random = Seeded(seed);
        let models = random_models(&forest, &mut random);
        let leaves = match LinearLeaves::new(Arc::clone(&forest), models) {
            Ok(leaves) => leaves,
            Err(cause) => {
                assert!(forest.leaf_width() > 1 && cause.contains("one value each"), "{cause}");
                refused += 1;
                continue;
            }
        };
        compared += 1;
        let columns = forest.features.len();
        let leaves = Operator::LinearLeaves(Arc::new(leaves));
        let count = [1, 7, 70][random.below(3)];
        let rows = [
            Elements::F32(generate::rows(&forest, count, seed)),
            Elements::F64(generate::wide_rows(&forest, count, seed)),
        ];
        for rows in rows {
            let mut graph = Graph::default();
            let x = graph.input("x", rows.dtype(), [None, Some(columns)]);
            let margins = graph.node("trees", leaves.clone(), [x]);
            graph.output("margins", margins);
            graph.output("leaves", Operand::Node(0, 1));
            let rows = Tensor::new([count, columns], rows).expect("rows");
            let expected = graph.run(from_ref(&rows)).unwrap_or_else(|e| panic!("{e}"));
            let predictor = GraphPredictor::new(graph, 1).unwrap_or_else(|e| panic!("{e}"));
            let found = predictor.predict(from_ref(&rows)).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(found[1], expected[1]);
            let bits = |tensor: &Tensor| -> Vec<u64> {
                // A NaN is a NaN.
                let bits = |v: f64| if v.is_nan() { f64::NAN.to_bits() } else { v.to_bits() };
                doubles(tensor).into_iter().map(bits).collect()
            };
            assert_eq!(bits(&found[0]), bits(&expected[0]));
        }
    }
    assert!(compared > 20 && refused > 0, "{compared} compared, {refused} refused");
}

/// A stump on column 0, and rows of three columns.
fn stump() -> Arc<Forest> {
    let mut forest = Forest::builder(3, 1).compare(CompareType::F64);
    let mut tree = forest.tree(0);
    tree.split(0, CompareType::F64.at_most(0.5), Side::Left, 1, 2);
    tree.leaf(4, &[-1.0]);
    tree.leaf(5, &[1.0]);
    Arc::new(forest.build().expect("a stump"))
}

fn models() -> LeafModels {
    let mut models = LeafModels::default();
    models.push(10.0, [(1, 2.0), (2, -1.0)]);
    models.push(20.0, [(2, 0.5)]);
    models
}

#[test]
fn models_that_do_not_fit_are_refused() {
    let refused = |change: &dyn Fn(&mut LeafModels), phrase: &str| {
        let mut models = models();
        change(&mut models);
        let cause = LinearLeaves::new(stump(), models).expect_err(phrase);
        assert!(cause.contains(phrase), "`{phrase}` is not in {cause}");
    };
    refused(&|models| models.push(0.0, []), "3 constants for 2 leaves");
    refused(&|models| models.coefficients.truncate(2), "2 coefficients for 3 columns");
    refused(&|models| models.offsets[0] = 1, "its offsets don't part 3 terms among 2 leaves");
    refused(&|models| models.offsets[1] = 4, "its offsets don't part 3 terms");
    refused(&|models| models.offsets.clear(), "its offsets don't part 3 terms");
    refused(&|models| models.offsets.push(3), "its offsets don't part 3 terms");
    refused(&|models| models.columns[1] = 3, "a term of column 3, but rows have 3 columns");
    refused(&|models| models.constants[1] = f64::NAN.into(), "NaN, which is not finite");
    refused(&|models| models.coefficients[0] = f64::INFINITY.into(), "inf, which is not finite");
    let least = Arc::new(Forest { aggregate: Aggregate::Min, ..Forest::clone(&stump()) });
    let cause = LinearLeaves::new(least, models()).expect_err("a minimum");
    assert!(cause.contains("one value each"), "{cause}");
    let mut broken = Forest::clone(&stump());
    broken.trees[0].nodes.pop();
    let cause = LinearLeaves::new(Arc::new(broken), models()).expect_err("a node is missing");
    assert!(cause.starts_with("in the forest, tree 0"), "{cause}");
}

/// Two nodes of the same models on rows of a selection, beside columns that nothing reads.
fn graph() -> Graph {
    let mut graph = Graph::default();
    let leaves = |graph: &mut Graph, x| {
        let leaves = LinearLeaves::new(stump(), models()).expect("models that fit");
        graph.node("trees", Operator::LinearLeaves(Arc::new(leaves)), [x])
    };
    let x = graph.input("x", Dtype::F64, [None, Some(4)]);
    let wanted = graph.weight(Tensor::new([3], Elements::I64(vec![3, 0, 1])).expect("three"));
    let chosen = graph.node("columns", Operator::Gather { axis: 1 }, [x, wanted]);
    let (first, second) = (leaves(&mut graph, chosen), leaves(&mut graph, chosen));
    let both = graph.node("both", Operator::Binary(fangorn::graph::Binary::Add), [first, second]);
    graph.output("both", both);
    graph
}

#[test]
fn passes_leave_linear_leaves_alone() {
    let graph = graph();
    assert_eq!(graph.forests().len(), 2);
    let rows = vec![1.0, 2.0, 9.0, 0.5, 3.0, f64::NAN, 9.0, 0.6, f64::NAN, 2.0, 9.0, f64::NAN];
    let rows = Tensor::new([3, 4], Elements::F64(rows)).expect("rows");
    // Twice 10 + 2 x[1] - x[2]; twice the leaf's value; a missing value that the leaf's model does not read.
    let expected = Elements::F64(vec![2.0 * (10.0 + 2.0 - 2.0), 2.0, -2.0]);
    assert_eq!(graph.run(from_ref(&rows)).expect("sums")[0].elements(), &expected);
    let (rewritten, changes) = Passes::none().with(Pass::ALL).apply(&graph).expect("passes");
    assert_eq!(changes.iter().map(|change| change.pass).collect::<Vec<_>>(), [Pass::Duplicates]);
    assert_eq!((rewritten.nodes.len(), rewritten.forests().len()), (3, 1));
    let predictor = GraphPredictor::new(graph, 1).expect("compiled");
    assert_eq!(predictor.predict(from_ref(&rows)).expect("sums")[0].elements(), &expected);

    // What is known stays a node, whose forest is compiled.
    let mut known = Graph::default();
    let x = known.weight(Tensor::new([1, 3], Elements::F64(vec![0.0; 3])).expect("a row"));
    let leaves = LinearLeaves::new(stump(), models()).expect("models that fit");
    let sums = known.node("trees", Operator::LinearLeaves(Arc::new(leaves)), [x]);
    known.output("sums", sums);
    assert_eq!(Pass::Constants.apply(&known).expect("a graph").nodes.len(), 1);
}

#[test]
fn texts_are_read_back_and_damaged_ones_refused() {
    let graph = Pass::Duplicates.apply(&graph()).expect("a graph");
    let text = graph.to_string();
    assert!(
        text.contains(
            "linearLeaves(%0, trees=%f0, constants=[10.0, 20.0], terms=[[1:2.0, 2:-1.0], [2:0.5]])"
        ),
        "{text}"
    );
    assert_eq!(Graph::parse(&text).expect("its own text"), graph);
    for (from, to, phrase) in [
        ("[10.0, 20.0]", "[10.0]", "1 constants for 2 leaves"),
        ("[2:0.5]", "[3:0.5]", "a term of column 3"),
        ("[2:0.5]", "[2:NaN]", "not finite"),
        (", [2:0.5]", "", "don't part"),
        ("trees=%f0", "trees=%f1", "no forest %f1"),
        ("constants=", "constant=", "constants is missing"),
    ] {
        let error = Graph::parse(&text.replacen(from, to, 1)).expect_err(phrase).to_string();
        assert!(error.contains(phrase), "`{phrase}` is not in {error}");
    }
    let narrow = Graph::parse(&text.replacen("[3, 0, 1]", "[3, 0]", 1).replacen("i64[3]", "i64[2]", 1));
    let error = narrow.expect_err("two columns").to_string();
    assert!(error.contains("it takes rows of 3 columns"), "{error}");
}
