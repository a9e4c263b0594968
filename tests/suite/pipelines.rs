//! Pipelines and linear models of scikit-learn, as the exporter writes them.

use std::path::Path;

use fangorn::{
    Error,
    graph::{Elements, GraphPredictor, Tensor},
    import::{ErrorKind, load, load_graph, parse_graph},
};

use crate::graphs::read;

const MODELS: [&str; 7] = [
    "pipeline-forest",
    "pipeline-logistic",
    "pipeline-ridge",
    "pipeline-histogram",
    "pipeline-transform",
    "pipeline-isolation",
    "pipeline-one-step",
];

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo-classical").join(name)
}

/// Values and classes are scikit-learn's, of the interpreter and of the predictor: sums of doubles differ in their order.
#[test]
fn pipelines_predict_what_scikit_learn_predicts() {
    for name in MODELS {
        let folder = folder(name);
        let graph = load_graph(&folder.join("model.npz"), &Default::default());
        let graph = graph.unwrap_or_else(|e| panic!("{name}: {e}"));
        let (shape, values) = read(&folder.join("rows.npy")).expect("rows");
        let rows = [Tensor::new(shape.clone(), Elements::F64(values)).expect("rows")];
        let (_, output) = read(&folder.join("output.npy")).expect("an output");
        let scores = read(&folder.join("scores.npy"));
        let predictor = GraphPredictor::new(graph.clone(), 1).unwrap_or_else(|e| panic!("{name}: {e}"));
        for found in [graph.run(&rows).expect("values"), predictor.predict(&rows).expect("values")] {
            let numbers = |tensor: &Tensor| match tensor.elements() {
                // The fixture has the indices of the labels in their order.
                Elements::Text(labels) => {
                    let indices =
                        labels.iter().map(|label| ["high", "low", "middle"].binary_search(&&**label));
                    indices.map(|index| index.expect("a label") as f64).collect()
                }
                others => others.doubles().expect("numbers"),
            };
            let near = |a: &[f64], b: &[f64], within: f64| {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= within * b.abs().max(1.0))
            };
            // A forest's values are floats of 32 bits.
            assert!(near(&numbers(&found[0]), &output, 1e-6), "{name}: {:?}", found[0]);
            assert_eq!(found.len(), 1 + usize::from(scores.is_some()), "{name}");
            for (found, (_, scores)) in found[1..].iter().zip(&scores) {
                assert!(near(&numbers(found), scores, 1e-6), "{name}: {found:?}");
            }
        }
        let Err(Error::Import(error)) = load(&folder.join("model.npz"), &Default::default()) else {
            panic!("{name} is no forest")
        };
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error}");
    }
}

/// The scaler, the imputer and the encoder before a forest become predicates of its splits.
#[test]
fn a_pipeline_becomes_its_forest() {
    let graph =
        load_graph(&folder("pipeline-forest").join("model.npz"), &Default::default()).expect("a graph");
    let predictor = GraphPredictor::new(graph, 1).expect("compiled");
    let names: Vec<_> = predictor.graph().nodes.iter().map(|node| node.operator.name()).collect();
    assert_eq!(names, ["forest", "gather"]);
}

/// A damaged file is an error, or a graph that verifies.
#[test]
fn damaged_pipelines_are_refused() {
    let mut random = crate::generate::Seeded(3);
    for name in MODELS {
        let bytes = std::fs::read(folder(name).join("model.npz")).expect("a file");
        for _ in 0..200 {
            let mut damaged = bytes.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(damaged.len());
                damaged[at] = random.below(256) as u8;
            }
            damaged.truncate(damaged.len() - random.below(2) * random.below(40));
            if let Ok(graph) = parse_graph(&damaged, &Default::default()) {
                graph.verify().expect("a graph");
            }
        }
    }
}
