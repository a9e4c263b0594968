//! Graphs of classical operators as burn modules: every model on every backend against the interpreter, and weights
//! that are trained.

mod support;

use std::path::{Path, PathBuf};

use burn::{
    module::Module,
    optim::{AdamConfig, GradientsParams},
    tensor::{Device, Int, Tensor, TensorData},
};
use fangorn_graphs::{
    Error,
    classical::{GraphModule, Value},
    fangorn::{
        graph::{self, Binary, Dtype, Elements, Graph, Operator, Pass, Passes, Unary},
        import,
    },
};
use support::{Seeded, devices};

fn folders() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let zoos = [here.join("../tests/zoo-classical"), here.join("../../shared/zoo-classical")];
    let inside = zoos.iter().filter_map(|zoo| std::fs::read_dir(zoo).ok()).flatten();
    let mut found: Vec<PathBuf> = inside.filter_map(|entry| Some(entry.ok()?.path())).collect();
    // Models of texts have their rows as CSV, and are not there for devices.
    found.retain(|path| path.join("model.onnx").is_file() && path.join("rows.npy").is_file());
    found.sort();
    found
}

/// Rows of one input, random, for graphs that take floats or integers.
fn rows(input: &graph::GraphInput, count: usize, missing: bool, random: &mut Seeded) -> graph::Tensor {
    let shape: Vec<usize> = input.shape.iter().map(|length| length.unwrap_or(count)).collect();
    let all = shape.iter().product();
    let values = match input.dtype {
        // A model that imputes gets missing values.
        Dtype::F32 | Dtype::F64 => (0..all)
            .map(|_| if missing && random.below(8) == 0 { f64::NAN } else { random.step() * 2.0 })
            .collect(),
        _ => (0..all).map(|_| random.below(4) as f64).collect(),
    };
    graph::Tensor::new(shape, Elements::of_doubles(input.dtype, values).expect("numbers")).expect("rows")
}

fn on(tensor: &graph::Tensor, device: &Device) -> Value {
    let values = tensor.elements().doubles().expect("numbers");
    match (tensor.dtype(), tensor.shape()) {
        (Dtype::F32 | Dtype::F64, [rows, columns]) => {
            let values: Vec<f32> = values.into_iter().map(|value| value as f32).collect();
            Tensor::<2>::from_data(TensorData::new(values, [*rows, *columns]), device).into()
        }
        (_, [rows, columns]) => {
            let values: Vec<i64> = values.into_iter().map(|value| value as i64).collect();
            Tensor::<2, Int>::from_data(TensorData::new(values, [*rows, *columns]), device).into()
        }
        (_, [rows]) => {
            let values: Vec<i64> = values.into_iter().map(|value| value as i64).collect();
            Tensor::<1, Int>::from_data(TensorData::new(values, [*rows]), device).into()
        }
        (dtype, shape) => panic!("{dtype} of shape {shape:?}"),
    }
}

/// The elements of a value.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Float(tensor, _) => tensor.to_data().convert::<f32>().iter::<f64>().collect(),
        Value::Int(tensor, _) => tensor.to_data().convert::<i64>().iter::<i64>().map(|v| v as f64).collect(),
        Value::Bool(tensor, _) => tensor.to_data().iter::<bool>().map(|v| f64::from(u8::from(v))).collect(),
        Value::Host(tensor) => tensor.elements().doubles().expect("numbers"),
        _ => panic!("another kind of value"),
    }
}

/// Models that have all operators between them. A software GPU takes seconds to compile each graph's kernels.
const FEW: [&str; 6] = [
    "ColumnTransformer",
    "GaussianNB",
    "KBinsDiscretizer",
    "KNeighborsClassifier",
    "Pipeline",
    "StackingClassifier",
];

#[test]
fn modules_compute_what_the_interpreter_computes() {
    for (backend, device) in devices() {
        let (mut ran, mut refused, mut wrong) = (0, Vec::new(), Vec::new());
        for folder in folders() {
            let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
            if backend == "wgpu" && !FEW.contains(&&*name) {
                continue;
            }
            let graph = import::load_graph(&folder.join("model.onnx"), &Default::default()).expect(&name);
            let module = match GraphModule::new(&graph, &device) {
                Ok(module) => module,
                Err(error @ Error::Graph(_)) => {
                    refused.push(format!("{name}: {error}"));
                    continue;
                }
                Err(error) => panic!("{name}: {error}"),
            };
            let missing = name.to_lowercase().contains("impute");
            let mut random = Seeded(11);
            let inputs: Vec<graph::Tensor> =
                graph.inputs.iter().map(|input| rows(input, 37, missing, &mut random)).collect();
            let expected = graph.run(&inputs).expect(&name);
            let found = match module.forward(inputs.iter().map(|input| on(input, &device))) {
                Ok(found) => found,
                Err(error) => {
                    wrong.push(format!("{name}: {error}"));
                    continue;
                }
            };
            for (output, (found, expected)) in graph.outputs.iter().zip(found.iter().zip(&expected)) {
                let values = numbers(found);
                let wanted = expected.elements().doubles().expect("numbers");
                let near = |(a, b): (&f64, &f64)| {
                    (a - b).abs() <= 2e-4 * b.abs().max(1.0) || a.is_nan() && b.is_nan()
                };
                let off = values.iter().zip(&wanted).filter(|pair| !near(*pair)).count();
                // Sums in f32 may turn a class that is nearly another.
                let few = if found.shape().len() == 1 { values.len() / 12 } else { 0 };
                if found.shape() != expected.shape() || values.len() != wanted.len() || off > few {
                    let shapes = (found.shape(), expected.shape());
                    wrong.push(format!(
                        "{name}, {}: {off} of {} differ, shapes {shapes:?}",
                        output.name,
                        wanted.len()
                    ));
                }
            }
            ran += 1;
        }
        assert!(wrong.is_empty(), "{backend}: {wrong:#?}");
        let least = if backend == "wgpu" { FEW.len() } else { 30 };
        assert!(ran >= least && refused.is_empty(), "{backend}: {ran} ran, refused: {refused:#?}");
    }
}

/// A scaler, a linear model and a squash, whose weights are trained as any parameter is.
#[test]
fn weights_of_a_graph_are_trained() {
    let mut graph = Graph::default();
    let x = graph.input("x", Dtype::F32, [None, Some(3)]);
    let weight = |graph: &mut Graph, shape: &[usize], values: Vec<f32>| {
        graph.weight(graph::Tensor::new(shape, Elements::F32(values)).expect("as many as the shape has"))
    };
    let mean = weight(&mut graph, &[3], vec![0.1, 0.2, 0.3]);
    let scaled = graph.node("scaler", Operator::Binary(Binary::Subtract), [x, mean]);
    let slopes = weight(&mut graph, &[3, 1], vec![0.0; 3]);
    let scores = graph.node("linear", Operator::MatMul, [scaled, slopes]);
    let p = graph.node("squash", Operator::Unary(Unary::Sigmoid), [scores]);
    graph.output("p", p);
    for (backend, device) in devices().into_iter().filter(|(backend, _)| *backend != "wgpu") {
        let training = device.clone().autodiff();
        let mut module = GraphModule::new(&graph, &training).expect("a module");
        let mut random = Seeded(3);
        let values: Vec<f32> = (0..90).map(|_| random.step() as f32).collect();
        let labels: Vec<f32> = values.chunks(3).map(|row| f32::from(u8::from(row[0] > row[1]))).collect();
        let x = Tensor::<2>::from_data(TensorData::new(values, [30, 3]), &training);
        let wanted = Tensor::<2>::from_data(TensorData::new(labels, [30, 1]), &training);
        let mut optimizer = AdamConfig::new().init();
        let mut losses = Vec::new();
        for _ in 0..60 {
            let p = module.forward([x.clone().into()]).expect(backend)[0].float::<2>().expect("floats");
            let loss = (p - wanted.clone()).powf_scalar(2.0).mean();
            losses.extend(support::floats(loss.clone()));
            let grads = GradientsParams::from_grads(loss.backward(), &module);
            module = optimizer.step(0.1, module, grads);
        }
        assert!(losses[59] < 0.6 * losses[0], "{backend}: {losses:?}");
        let saved = module.clone().valid().into_record().into_bytes().expect("a record");
        let record = burn::store::ModuleRecord::from_bytes(saved).expect("a record");
        let fresh = GraphModule::new(&graph, &device).expect("a module");
        let loaded = fresh.try_load_record(record).expect("the same weights");
        let rows = x.inner();
        let of = |module: &GraphModule| numbers(&module.forward([rows.clone().into()]).expect(backend)[0]);
        assert_eq!(of(&loaded), of(&module.valid()), "{backend}");
    }
}

/// A product whose zeros are skipped on the CPU is a dense one on a device.
#[test]
fn sparse_weights_are_dense_on_a_device() {
    let graph = Graph::parse(
        "input %in0 \"x\": f32[rows, 3]
%0 \"product\" = sparseMatmul(%in0, columns=3, rows=[[0:2.0], [1:-1.0, 2:0.5]])
output \"y\": %0
",
    )
    .expect("a graph");
    for (backend, device) in devices() {
        let module = GraphModule::with_passes(&graph, &device, &Passes::none()).expect("a module");
        let x = Tensor::<2>::from_data(TensorData::new(vec![1.0f32, 2.0, 4.0], [1, 3]), &device);
        assert_eq!(numbers(&module.forward([x.into()]).expect(backend)[0]), [2.0, 0.0], "{backend}");
    }
}

/// What no device computes, the interpreter computes on the host: texts, tensors of five dimensions, and operators that
/// burn does not have.
#[test]
fn what_no_device_computes_runs_on_the_host() {
    let texts = "input %in0 \"x\": f32[rows, 2]
input %in1 \"words\": text[rows, 1]
weight %w0: text[2] = [\"no\", \"yes\"]
weight %w1: f64[3, 2] = [0.0, NaN, 3.0, 4.0, 8.0, 9.0]
weight %w2: bool[2] = [true, false]
%0 \"class\" = argMax(%in0, axis=1, keep=false, last=false)
%1 \"label\" = gather(%w0, %0, axis=0)
%2 \"known\" = lookup(%in1, keys=text[\"a\", \"b\"], values=f32[1.0, 2.0], other=f32[-1.0])
%3 \"sum\" = add(%in0, %2)
%4 \"wide\" = cast(%3, to=f64)
%5 \"fill\" = imputeNeighbors(%4, %w1, neighbors=1, byDistance=false)
%6 \"some\" = compress(%5, %w2, axis=1)
%7 \"deep\" = unsqueeze(%6, axes=[0, 2, 3])
%8 \"deeper\" = exp(%7)
%9 \"flat\" = reshape(%8, to=[-1, 1])
%10 \"lengths\" = cast(%0, to=i64)
%11 \"filled\" = fill(%10, with=f32[0.5])
%12 \"pairs\" = couplePairs(%3, classes=2)
output \"label\": %1
output \"fill\": %5
output \"flat\": %9
output \"deep\": %8
output \"filled\": %11
";
    // Two classes have one pair.
    let texts = texts.replace("couplePairs(%3, classes=2)", "couplePairs(%2, classes=2)");
    let graph = Graph::parse(&texts).expect("a graph");
    let x = vec![1.0f32, 2.0, 4.0, f32::NAN, 1.0, 1.5];
    let words = Elements::Text(["a", "x", "b"].map(Into::into).to_vec());
    let words = graph::Tensor::new([3, 1], words).expect("texts");
    let rows = graph::Tensor::new([3, 2], Elements::F32(x.clone())).expect("rows");
    let expected = graph.run(&[rows, words.clone()]).expect("a run");
    for (backend, device) in devices() {
        let module = GraphModule::with_passes(&graph, &device, &Passes::none()).expect("a module");
        let on_host: Vec<&str> = module.host_nodes().map(|node| &*node.name).collect();
        let wanted = ["label", "known", "fill", "some", "deep", "deeper", "flat", "filled", "pairs"];
        assert_eq!(on_host, wanted, "{backend}");
        let x = Tensor::<2>::from_data(TensorData::new(x.clone(), [3, 2]), &device);
        let found = module.forward([x.into(), words.clone().into()]).expect(backend);
        assert_eq!(found[0].on_host(), Some(&expected[0]), "{backend}");
        assert_eq!(found[1].float::<2>().expect("on the device").dims(), [3, 2], "{backend}");
        for (found, expected) in found.iter().zip(&expected).skip(1) {
            assert_eq!(found.shape(), expected.shape(), "{backend}");
            let wanted = expected.elements().doubles().expect("numbers");
            let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
            assert!(numbers(found).iter().zip(&wanted).all(near), "{backend}: {found:?} and not {expected}");
        }
        assert_eq!(found[3].on_host().map(|tensor| tensor.shape().len()), Some(5), "{backend}");
    }
}

/// Rows that the host holds, and a graph without any weight on a device.
#[test]
fn values_of_the_host_are_taken() {
    let graph = Graph::parse(
        "input %in0 \"x\": text[rows, 1]
%0 \"code\" = lookup(%in0, keys=text[\"a\"], values=i64[7], other=i64[])
%1 \"next\" = add(%0, %0)
output \"y\": %1
",
    )
    .expect("a graph");
    let device = devices().remove(0).1;
    let module = GraphModule::new(&graph, &device).expect("a module");
    let words = |word: &str| graph::Tensor::new([1, 1], Elements::Text(vec![word.into()])).expect("a text");
    let found = module.forward([words("a").into()]).expect("a value");
    assert_eq!(found[0].on_host().map(graph::Tensor::elements), Some(&Elements::I64(vec![14])));
    let error = module.forward([words("b").into()]).expect_err("no key").to_string();
    assert!(error.contains("code: lookup: \"b\" is none of its 1 keys"), "{error}");
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let device = devices().remove(0).1;
    let graph = Graph::parse("input %in0 \"x\": f32[rows, 2]\n%0 \"abs\" = abs(%in0)\noutput \"y\": %0\n")
        .expect("a graph");
    let module =
        GraphModule::with_passes(&graph, &device, &Passes::none().with([Pass::Redundant])).expect("a module");
    let wide = Tensor::<2>::zeros([4, 3], &device);
    let error = module.forward([wide.into()]).expect_err("wide").to_string();
    assert!(error.contains("input `x`") && error.contains("[4, 3]"), "{error}");
    let error = module.forward([]).expect_err("nothing").to_string();
    assert!(error.contains("1 inputs, not 0"), "{error}");
}
