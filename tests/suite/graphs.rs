//! Classical models as graphs: what the interpreter and the predictor make of the models of scikit-learn, and what
//! each operator means in its corners.

use std::{
    path::{Path, PathBuf},
    slice::from_ref,
};

use fangorn::{
    cost::NumberType,
    graph::{
        Binary, Compare, Distance, Dtype, Elements, Graph, GraphPredictor, Operator, Reduction, Tensor, Unary,
    },
    import::load_graph,
};

use crate::generate::Seeded;

/// The folders of classical models: the project's own, and the shared ones where they lie beside the checkout.
pub fn folders() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let zoos = [here.join("tests/zoo-classical"), here.join("../shared/zoo-classical")];
    let inside = zoos.iter().filter_map(|zoo| std::fs::read_dir(zoo).ok()).flatten();
    let mut found: Vec<PathBuf> = inside.filter_map(|entry| Some(entry.ok()?.path())).collect();
    // Models of texts have their rows as CSV.
    found.retain(|path| path.join("model.onnx").is_file() && path.join("rows.npy").is_file());
    found.sort();
    found
}

/// An array of any type of numbers, with its shape.
pub fn read(path: &Path) -> Option<(Vec<usize>, Vec<f64>)> {
    let bytes = std::fs::read(path).ok()?;
    let open = || npyz::NpyFile::new(&bytes[..]).expect("a npy file");
    let shape: Vec<usize> = open().shape().iter().map(|length| *length as usize).collect();
    let fortran = open().order() == npyz::Order::Fortran;
    let values: Vec<f64> = match open().dtype().descr() {
        text if text.contains("f4") => {
            open().into_vec::<f32>().expect("f32").into_iter().map(f64::from).collect()
        }
        text if text.contains("f8") => open().into_vec::<f64>().expect("f64"),
        text if text.contains("i4") => {
            open().into_vec::<i32>().expect("i32").into_iter().map(f64::from).collect()
        }
        _ => open().into_vec::<i64>().expect("i64").into_iter().map(|v| v as f64).collect(),
    };
    match (fortran, &shape[..]) {
        (true, &[rows, columns]) => {
            let by_row = (0..rows).flat_map(|row| (0..columns).map(move |column| column * rows + row));
            let values = by_row.map(|at| values[at]).collect();
            Some((shape, values))
        }
        _ => Some((shape, values)),
    }
}

/// The rows as the tensors that the graph's inputs take, columns side by side.
pub fn inputs(graph: &Graph, shape: &[usize], values: &[f64]) -> Vec<Tensor> {
    let (rows, columns) = (shape[0], shape.get(1).copied().unwrap_or(1));
    let mut first = 0;
    let input = |input: &fangorn::graph::GraphInput| {
        let width = input.shape.get(1).map_or(1, |length| length.expect("a fixed number of columns"));
        let of_row = |row: usize| values[row * columns + first..][..width].iter().copied();
        let values: Vec<f64> = (0..rows).flat_map(of_row).collect();
        first += width;
        let shape = if input.shape.len() == 1 { vec![rows] } else { vec![rows, width] };
        Tensor::new(shape, Elements::of_doubles(input.dtype, values).expect("numbers")).expect("rows")
    };
    graph.inputs.iter().map(input).collect()
}

/// Whether all numbers are within 1e-5 of what is expected, relative to 1 or to the number.
fn agrees(found: &Tensor, expected: &[f64]) -> bool {
    let found = found.elements().doubles().expect("numbers");
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5 * b.abs().max(1.0) || a.is_nan() && b.is_nan();
    found.len() == expected.len() && found.iter().zip(expected).all(near)
}

#[test]
fn classical_models_predict_what_scikit_learn_predicts() {
    let folders = folders();
    assert!(folders.len() >= 14, "{} models", folders.len());
    let mut wrong = Vec::new();
    for folder in &folders {
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let graph = load_graph(&folder.join("model.onnx"), &Default::default());
        let graph = graph.unwrap_or_else(|e| panic!("{name}: {e}"));
        let (shape, rows) = read(&folder.join("rows.npy")).expect("rows");
        let inputs = inputs(&graph, &shape, &rows);
        let interpreted = graph.run(&inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
        let predictor = GraphPredictor::new(graph.clone(), 2).unwrap_or_else(|e| panic!("{name}: {e}"));
        let predicted = predictor.predict(&inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (a, b) in interpreted.iter().zip(&predicted) {
            let same = a.dtype() == b.dtype()
                && a.shape() == b.shape()
                && match (a.dtype(), b.elements().doubles()) {
                    (Dtype::F32 | Dtype::F64, Some(b)) => agrees(a, &b),
                    _ => a == b,
                };
            assert!(same, "{name}: the interpreter and the predictor differ");
        }
        // A classifier's label comes first, and its probabilities or scores after it.
        let files = ["output", "proba", "decision"].map(|file| read(&folder.join(format!("{file}.npy"))));
        let [output, proba, decision] = files;
        let (_, output) = output.expect("an output");
        let mut fine = agrees(&predicted[0], &output);
        for (_, scores) in proba.iter().chain(&decision) {
            // Of two classes, a file may hold the second one's score alone.
            let scores_of = predicted.get(1).filter(|found| found.elements().len() == scores.len());
            fine &= scores_of.is_none_or(|found| agrees(found, scores));
        }
        if !fine {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{} of {} models differ: {wrong:?}", wrong.len(), folders.len());
}

/// Batches of any size give each row what it gets alone, across the pieces that a batch is evaluated in. Of a network
/// before a forest this holds for the network: the forest's contract of sums lets the last digit of a value depend on
/// the batch.
#[test]
fn rows_do_not_depend_on_their_batch() {
    for name in ["Pipeline", "network-images", "network-texts"] {
        of_any_batch(name);
    }
}

fn of_any_batch(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo-classical").join(name);
    let graph = load_graph(&folder.join("model.onnx"), &Default::default()).expect("a graph");
    let (shape, rows) = read(&folder.join("rows.npy")).expect("rows");
    let predictor = GraphPredictor::new(graph.clone(), 1).expect("compiled");
    let one = predictor.predict(&inputs(&graph, &shape, &rows)).expect("values");
    for count in [0, 1, 4095, 4096, 4097, 9000] {
        let many: Vec<f64> = rows.iter().copied().cycle().take(count * shape[1]).collect();
        let found = predictor.predict(&inputs(&graph, &[count, shape[1]], &many)).expect("values");
        for (found, of_few) in found.iter().zip(&one) {
            let (found, of_few) =
                (found.elements().doubles().expect("numbers"), of_few.elements().doubles().expect("numbers"));
            let expected: Vec<f64> =
                of_few.iter().copied().cycle().take(of_few.len() / shape[0] * count).collect();
            let near = |(a, b): (&f64, &f64)| a == b || name != "Pipeline" && (a - b).abs() <= 1e-7;
            assert_eq!(found.len(), expected.len(), "{name}, {count} rows");
            assert!(found.iter().zip(&expected).all(near), "{name}, {count} rows");
        }
    }
}

/// The class of floats is that of the plain rule, and a softmax of floats is that of doubles, for lines of every length
/// around those that vectors have, with equal, missing and infinite elements.
#[test]
fn lines_of_every_length() {
    let mut random = Seeded(11);
    for length in 1..70 {
        let lines = 40;
        let values: Vec<f32> = (0..lines * length)
            .map(|_| match random.below(60) {
                0 => f32::NAN,
                1 => [f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0][random.below(4)],
                _ => random.below(9) as f32 / 2.0 - 2.0,
            })
            .collect();
        let x = floats(&[lines, length], &values);
        for greatest in [true, false] {
            let operator = Operator::ArgExtreme { axis: 1, keep: false, greatest, last: false };
            let found = operator.evaluate(&[&x]).expect("indices").remove(0);
            let indices = values.chunks(length).map(|line| {
                let missing = line.iter().position(|v| v.is_nan());
                let better = |a: f32, b: f32| if greatest { a > b } else { a < b };
                missing.unwrap_or_else(|| {
                    (1..length).fold(0, |best, at| if better(line[at], line[best]) { at } else { best })
                })
            });
            let expected: Vec<i64> = indices.map(|index| index as i64).collect();
            assert_eq!(found, integers(&[lines], &expected), "{length}, greatest: {greatest}");
        }
        let wide =
            Tensor::new([lines, length], Elements::F64(values.iter().map(|v| f64::from(*v)).collect()));
        let softmax = |x: &Tensor| {
            let found = Operator::Softmax { axis: -1 }.evaluate(&[x]).expect("floats").remove(0);
            found.elements().doubles().expect("numbers")
        };
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-7 || a.is_nan() && b.is_nan();
        let (found, expected) = (softmax(&x), softmax(&wide.expect("as many")));
        assert!(found.iter().zip(&expected).all(near), "{length}: {found:?} and {expected:?}");
    }
}

/// Slices of each axis, with every start, end and step, are those of a plain loop.
#[test]
fn slices_of_every_kind() {
    let lengths = [3usize, 4, 2];
    let x = integers(&lengths, &(0..24).collect::<Vec<_>>());
    for (axis, length) in lengths.iter().enumerate() {
        let after: usize = lengths[axis + 1..].iter().product();
        let ends = -(*length as i64) - 1..=*length as i64 + 1;
        for (start, end) in ends.clone().flat_map(|start| ends.clone().map(move |end| (start, end))) {
            for step in [-3, -2, -1, 1, 2, 3, i64::MAX] {
                let n = *length as i64;
                let from_front = |at: i64| if at < 0 { at + n } else { at };
                let (start_at, end_at) = match step > 0 {
                    true => (from_front(start).clamp(0, n), from_front(end).clamp(0, n)),
                    false => (from_front(start).clamp(-1, n - 1), from_front(end).clamp(-1, n - 1)),
                };
                let mut indices = Vec::new();
                let mut at = start_at;
                while if step > 0 { at < end_at } else { at > end_at } {
                    indices.push(at as usize);
                    at = at.saturating_add(step);
                }
                let mut shape = lengths.to_vec();
                shape[axis] = indices.len();
                let chosen =
                    |at: &i64| indices.iter().position(|index| *index == *at as usize / after % length);
                let mut expected: Vec<i64> = (0..24).filter(|at| chosen(at).is_some()).collect();
                expected.sort_by_key(|at| {
                    let outer = *at as usize / after / length;
                    (outer, chosen(at), *at as usize % after)
                });
                let operator = Operator::Slice { axis: axis as i64, start, end, step };
                let found = operator.evaluate(&[&x]).expect("a slice").remove(0);
                assert_eq!(found, integers(&shape, &expected), "axis {axis}: {start}..{end} by {step}");
            }
        }
    }
}

/// Operators write into the memory of an operand that nothing reads afterwards. They give what they give alone.
#[test]
fn operators_give_in_place_what_they_give_alone() {
    let values = |count: usize| -> Vec<f64> {
        let special = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0, -2.5];
        (0..count).map(|at| if at % 5 == 0 { special[at / 5 % 7] } else { at as f64 / 7.0 - 3.0 }).collect()
    };
    let of = |dtype: Dtype, shape: &[usize]| {
        let elements = Elements::of_doubles(dtype, values(shape.iter().product())).expect("numbers");
        Tensor::new(shape, elements).expect("as many as the shape has")
    };
    let bits = |tensor: &Tensor| -> Vec<u64> {
        let values = tensor.elements().doubles().expect("numbers");
        values.iter().map(|v| if v.is_nan() { f64::NAN.to_bits() } else { v.to_bits() }).collect()
    };
    /// What the operator's second operand is.
    #[derive(Clone, Copy, PartialEq)]
    enum Second {
        Weight,
        Input,
        Node,
        First,
    }
    // The first operand is a negation's result, which an output may be as well. An absolute value comes after the operator.
    let check = |operator: &Operator, x: &Tensor, other: Option<&Tensor>| {
        let alone =
            |operator: &Operator, operands: &[&Tensor]| operator.evaluate(operands).map(|all| all[0].clone());
        let negate = Operator::Unary(Unary::Negate);
        let absolute = Operator::Unary(Unary::Abs);
        let negated = alone(&negate, &[x]).expect("numbers");
        let seconds = match other {
            Some(_) => &[Second::Weight, Second::Input, Second::Node, Second::First][..],
            None => &[Second::Weight],
        };
        for (second, kept) in seconds.iter().flat_map(|second| [(*second, false), (*second, true)]) {
            let mut graph = Graph::default();
            let mut inputs = vec![x.clone()];
            let input = graph.input("x", x.dtype(), vec![None; x.shape().len()]);
            let first = graph.node("first", negate.clone(), [input]);
            let (mut operands, mut tensors) = (vec![first], vec![negated.clone()]);
            if let Some(other) = other {
                let of_input =
                    |graph: &mut Graph| graph.input("o", other.dtype(), vec![None; other.shape().len()]);
                let (operand, tensor) = match second {
                    Second::Weight => (graph.weight(other.clone()), other.clone()),
                    Second::Input => (of_input(&mut graph), other.clone()),
                    Second::Node => {
                        let input = of_input(&mut graph);
                        let tensor = alone(&negate, &[other]).expect("numbers");
                        (graph.node("other", negate.clone(), [input]), tensor)
                    }
                    Second::First => (first, negated.clone()),
                };
                if matches!(second, Second::Input | Second::Node) {
                    inputs.push(other.clone());
                }
                operands.push(operand);
                tensors.push(tensor);
            }
            let result = graph.node("result", operator.clone(), operands);
            let last = graph.node("last", absolute.clone(), [result]);
            graph.output("y", last);
            if kept {
                graph.output("z", first);
            }
            let what = format!("{operator} of {:?} {:?}", x.dtype(), other.map(Tensor::shape));
            let expected = alone(operator, &tensors.iter().collect::<Vec<_>>());
            let expected = expected.and_then(|result| alone(&absolute, &[&result]));
            match (expected, graph.run(&inputs)) {
                (Ok(expected), Ok(found)) => {
                    assert_eq!((found[0].shape(), found[0].dtype()), (expected.shape(), expected.dtype()));
                    assert_eq!(bits(&found[0]), bits(&expected), "{what}");
                    assert!(!kept || bits(&found[1]) == bits(&negated), "{what}: the operand has changed");
                }
                (Err(_), Err(_)) => {}
                (expected, found) => panic!("{what}: {expected:?} and {found:?}"),
            }
        }
    };
    for dtype in [Dtype::I32, Dtype::I64, Dtype::F32, Dtype::F64] {
        let x = of(dtype, &[3, 37]);
        for unary in Unary::ALL {
            check(&Operator::Unary(unary), &x, None);
        }
        for binary in Binary::ALL {
            for shape in [&[3, 37][..], &[37], &[1], &[3, 1], &[2, 3, 37], &[1, 1, 1]] {
                check(&Operator::Binary(binary), &x, Some(&of(dtype, shape)));
            }
        }
        for operator in [
            Operator::Reshape(vec![37, -1]),
            Operator::Reshape(vec![7, 7]),
            Operator::Unsqueeze(vec![0, -1]),
            Operator::Unsqueeze(vec![9]),
        ] {
            check(&operator, &x, None);
        }
        check(&Operator::Squeeze(vec![]), &of(dtype, &[1, 5, 1]), None);
    }
}

/// Outputs of a call have the memory of those of an earlier one, whatever their number of rows and their type was.
#[test]
fn outputs_take_the_memory_of_earlier_ones() {
    let mut graph = Graph::default();
    let x = graph.input("x", Dtype::F32, [None, Some(3)]);
    let doubled = graph.node("doubled", Operator::Binary(Binary::Add), [x, x]);
    let best = graph.node(
        "best",
        Operator::ArgExtreme { axis: -1, keep: false, greatest: true, last: false },
        [doubled],
    );
    graph.output("doubled", doubled);
    graph.output("best", best);
    let predictor = GraphPredictor::new(graph, 1).expect("compiled");
    let rows = |count: usize| {
        let values = (0..count * 3).map(|at| (at * 7919 % 1000) as f32).collect::<Vec<_>>();
        floats(&[count, 3], &values)
    };
    let mut outputs = vec![integers(&[20_000, 3], &[5; 60_000])];
    let mut pointer = std::ptr::null();
    for count in [20_000, 9_000, 4_097, 1, 0, 12_000] {
        predictor.predict_into(&[rows(count)], &mut outputs).expect("values");
        assert_eq!(outputs, predictor.predict(&[rows(count)]).expect("values"), "{count} rows");
        let Elements::F32(values) = outputs[0].elements() else { panic!("floats") };
        match count {
            20_000 => pointer = values.as_ptr(),
            9_000 | 4_097 => assert_eq!(values.as_ptr(), pointer, "{count} rows"),
            _ => {}
        }
    }
    assert!(predictor.predict_into(&[floats(&[5000, 2], &[0.0; 10_000])], &mut outputs).is_err());
    predictor.predict_into(&[rows(5000)], &mut outputs).expect("values after an error");
    assert_eq!(outputs.len(), 2);
}

/// A forest without trees and without a producer has a text.
#[test]
fn a_forest_of_nobody_has_a_text() {
    let text =
        "forest features=1 outputs=1 trees=0 compare=f32 transform=identity\n  from   \n  base_score [0.5]\n";
    let forest = fangorn::Forest::from_text(text).expect("a forest");
    assert_eq!((&*forest.producer.library, forest.trees.len()), ("", 0));
}

fn floats(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::new(shape, Elements::F32(values.to_vec())).expect("as many as the shape has")
}

fn integers(shape: &[usize], values: &[i64]) -> Tensor {
    Tensor::new(shape, Elements::I64(values.to_vec())).expect("as many as the shape has")
}

/// Runs one operator on tensors.
fn run(operator: Operator, operands: &[Tensor]) -> Result<Vec<Tensor>, String> {
    let mut graph = Graph::default();
    let inputs: Vec<_> =
        operands.iter().map(|t| graph.input("x", t.dtype(), vec![None; t.shape().len()])).collect();
    let results = operator.results();
    let first = graph.node("it", operator, inputs);
    for result in 0..results {
        let fangorn::graph::Operand::Node(at, _) = first else { unreachable!("a node") };
        graph.output("y", fangorn::graph::Operand::Node(at, result as u32));
    }
    graph.run(operands).map_err(|e| e.to_string())
}

#[track_caller]
fn gives(operator: Operator, operands: &[Tensor], expected: &Tensor) {
    let found = run(operator, operands).expect("a result");
    assert_eq!((found[0].shape(), found[0].dtype()), (expected.shape(), expected.dtype()));
    let same = |a: &f64, b: &f64| a == b || a.is_nan() && b.is_nan();
    match (found[0].elements().doubles(), expected.elements().doubles()) {
        (Some(a), Some(b)) => assert!(a.iter().zip(&b).all(|(a, b)| same(a, b)), "{a:?} and not {b:?}"),
        _ => assert_eq!(&found[0], expected),
    }
}

/// Values as numpy gives them.
#[test]
fn operators_mean_what_numpy_means() {
    const NAN: f32 = f32::NAN;
    let x = floats(&[2, 3], &[1.0, -2.0, 3.0, 4.0, NAN, -6.0]);
    let row = floats(&[3], &[10.0, 20.0, 30.0]);
    let column = floats(&[2, 1], &[1.0, -1.0]);
    let bools = |values: &[bool]| Tensor::new([2, 3], Elements::Bool(values.to_vec())).expect("six");
    gives(
        Operator::Binary(Binary::Add),
        &[x.clone(), row.clone()],
        &floats(&[2, 3], &[11.0, 18.0, 33.0, 14.0, NAN, 24.0]),
    );
    gives(
        Operator::Binary(Binary::Multiply),
        &[column.clone(), row],
        &floats(&[2, 3], &[10.0, 20.0, 30.0, -10.0, -20.0, -30.0]),
    );
    gives(
        Operator::Binary(Binary::Maximum),
        &[x.clone(), column],
        &floats(&[2, 3], &[1.0, 1.0, 3.0, 4.0, NAN, -1.0]),
    );
    gives(
        Operator::Compare(Compare::Less),
        &[x.clone(), floats(&[], &[2.0])],
        &bools(&[true, true, false, false, false, true]),
    );
    gives(Operator::Unary(Unary::IsNan), from_ref(&x), &bools(&[false, false, false, false, true, false]));
    gives(
        Operator::Unary(Unary::Round),
        &[floats(&[4], &[0.5, 1.5, -2.5, 2.6])],
        &floats(&[4], &[0.0, 2.0, -2.0, 3.0]),
    );
    gives(
        Operator::Unary(Unary::Sigmoid),
        &[floats(&[3], &[-1000.0, 0.0, 1000.0])],
        &floats(&[3], &[0.0, 0.5, 1.0]),
    );
    let erf = |x: f64| {
        let found =
            run(Operator::Unary(Unary::Erf), &[Tensor::new([1], Elements::F64(vec![x])).expect("a number")]);
        found.expect("a result")[0].elements().doubles().expect("a number")[0]
    };
    // Values of Abramowitz and Stegun's table 7.1, to its ten digits and beyond.
    for (x, expected) in [
        (0.0, 0.0),
        (0.5, 0.520_499_877_813_046_5),
        (1.0, 0.842_700_792_949_714_9),
        (2.0, 0.995_322_265_018_952_7),
        (2.999, 0.999_977_769_831_400),
        (3.0, 0.999_977_909_503_001_4),
        (6.0, 1.0),
    ] {
        assert!((erf(x) - expected).abs() < 1e-10 && erf(-x) == -erf(x), "erf {x} is {}", erf(x));
    }
    // Of equal extremes the first is found, or the last with `last`. A NaN is the extreme, and the first NaN is found.
    let ties = floats(&[2, 4], &[3.0, 1.0, 3.0, 1.0, 0.0, NAN, 9.0, NAN]);
    for (greatest, last, expected) in
        [(true, false, [0, 1]), (true, true, [2, 1]), (false, false, [1, 1]), (false, true, [3, 1])]
    {
        let operator = Operator::ArgExtreme { axis: -1, keep: false, greatest, last };
        gives(operator, from_ref(&ties), &integers(&[2], &expected));
    }
    let reduce = |how, axes: &[i64], keep| Operator::Reduce { how, axes: axes.to_vec(), keep };
    let small = floats(&[2, 2], &[3.0, 4.0, -6.0, 8.0]);
    gives(reduce(Reduction::L2, &[1], true), from_ref(&small), &floats(&[2, 1], &[5.0, 10.0]));
    gives(reduce(Reduction::Product, &[], false), from_ref(&small), &floats(&[], &[-576.0]));
    gives(reduce(Reduction::Mean, &[0], false), from_ref(&small), &floats(&[2], &[-1.5, 6.0]));
    gives(
        reduce(Reduction::LogSumExp, &[1], false),
        &[floats(&[1, 2], &[1000.0, 1000.0])],
        &floats(&[1], &[1_000.693_2]),
    );
    gives(
        Operator::Softmax { axis: 1 },
        &[floats(&[1, 2], &[1000.0, 1000.0])],
        &floats(&[1, 2], &[0.5, 0.5]),
    );
    gives(Operator::MatMul, &[small.clone(), floats(&[2], &[1.0, 2.0])], &floats(&[2], &[11.0, 10.0]));
    gives(
        Operator::MatMul,
        &[floats(&[2, 1, 2], &[1.0, 2.0, 3.0, 4.0]), floats(&[2, 1], &[1.0, 10.0])],
        &floats(&[2, 1, 1], &[21.0, 43.0]),
    );
    gives(
        Operator::Distances(Distance::Manhattan),
        &[small.clone(), floats(&[1, 2], &[0.0, 0.0])],
        &floats(&[2, 1], &[7.0, 14.0]),
    );
    gives(
        Operator::Gather { axis: -1 },
        &[small.clone(), integers(&[1, 3], &[1, -2, 0])],
        &floats(&[2, 1, 3], &[4.0, 3.0, 3.0, 8.0, -6.0, -6.0]),
    );
    gives(
        Operator::Slice { axis: 1, start: -1, end: i64::MIN, step: -2 },
        &[floats(&[1, 5], &[0.0, 1.0, 2.0, 3.0, 4.0])],
        &floats(&[1, 3], &[4.0, 2.0, 0.0]),
    );
    gives(
        Operator::Transpose(vec![2, 0, 1]),
        &[integers(&[1, 2, 3], &[1, 2, 3, 4, 5, 6])],
        &integers(&[3, 1, 2], &[1, 4, 2, 5, 3, 6]),
    );
    gives(Operator::Reshape(vec![0, -1, 1]), from_ref(&small), &floats(&[2, 2, 1], &[3.0, 4.0, -6.0, 8.0]));
    gives(Operator::CumulativeSum { axis: 0 }, from_ref(&small), &floats(&[2, 2], &[3.0, 4.0, -3.0, 12.0]));
    let top = run(Operator::TopK { axis: 1, k: 2, greatest: false }, &[floats(&[1, 3], &[2.0, 1.0, 2.0])]);
    assert_eq!(top.expect("two"), [floats(&[1, 2], &[1.0, 2.0]), integers(&[1, 2], &[1, 0])]);
    let lookup = Operator::Lookup {
        keys: Elements::F32(vec![NAN, 0.0]),
        values: Elements::Text(vec!["none".into(), "zero".into()]),
        other: Elements::Text(vec!["other".into()]),
    };
    let words = Elements::Text(["none", "zero", "other"].map(Into::into).to_vec());
    let expected = Tensor::new([3], words).expect("three");
    gives(lookup, &[floats(&[3], &[NAN, -0.0, 7.0])], &expected);
    gives(
        Operator::Binary(Binary::Divide),
        &[integers(&[2], &[7, i64::MIN]), integers(&[2], &[0, -1])],
        &integers(&[2], &[0, 0]),
    );
}

/// What does not fit is an error that names the node, and no panic.
#[test]
fn operands_that_do_not_fit_are_refused() {
    let (x, y) = (floats(&[2, 3], &[0.0; 6]), floats(&[2, 2], &[0.0; 4]));
    for (operator, operands, phrase) in [
        (Operator::Binary(Binary::Add), vec![x.clone(), y.clone()], "don't broadcast"),
        (Operator::Binary(Binary::And), vec![x.clone(), x.clone()], "does not take f32"),
        (Operator::MatMul, vec![x.clone(), x.clone()], "have no product"),
        (Operator::Gather { axis: 1 }, vec![x.clone(), integers(&[1], &[3])], "not among the 3"),
        (Operator::Softmax { axis: 2 }, vec![x.clone()], "no axis 2"),
        (Operator::Reshape(vec![4, 2]), vec![x.clone()], "does not become"),
        (Operator::Concat { axis: 0 }, vec![x.clone(), y], "don't join"),
        (Operator::TopK { axis: 1, k: 4, greatest: true }, vec![x.clone()], "4 of 3"),
        (Operator::Fill(Elements::F32(vec![0.0])), vec![integers(&[2], &[1 << 40, 1 << 40])], "too large"),
        (Operator::Binary(Binary::Add), vec![x.clone()], "takes 2 operands"),
    ] {
        let error = run(operator, &operands).expect_err(phrase);
        assert!(error.starts_with("it: ") && error.contains(phrase), "`{phrase}` is not in {error}");
    }
    // Each tensor is twice as long as the one before it.
    let mut graph = Graph::default();
    let mut so_far = graph.input("x", Dtype::Bool, [None]);
    for _ in 0..40 {
        so_far = graph.node("twice", Operator::Concat { axis: 0 }, [so_far, so_far]);
    }
    graph.output("y", so_far);
    let one = Tensor::new([1 << 16], Elements::Bool(vec![true; 1 << 16])).expect("a list");
    let error = graph.run(from_ref(&one)).expect_err("too large").to_string();
    assert!(error.contains("twice: concat") && error.contains("too large"), "{error}");
    let error = Graph::default().run(&[]).expect_err("no output").to_string();
    assert!(error.contains("no output"), "{error}");
}

/// The text of a graph says each weight's density and the smallest type that holds it.
#[test]
fn a_graphs_text_names_its_operators_and_weights() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo-classical/Pipeline");
    let text = load_graph(&folder.join("model.onnx"), &Default::default()).expect("a graph").to_string();
    let phrases = [
        "input %in0 \"X\": f32[rows, 6]",
        "% filled, exact in ",
        "matmul(",
        "): i64[rows]  // indices in f32",
        "output \"label\"",
    ];
    for phrase in phrases {
        assert!(text.contains(phrase), "`{phrase}` is not in\n{text}");
    }
    let dtypes = [
        (Elements::F32(vec![0.0, 1.0]), Some(NumberType::Bool)),
        (Elements::F32(vec![0.0, -7.0]), Some(NumberType::I4)),
        (Elements::F32(vec![200.0, -7.0]), Some(NumberType::I16)),
        (Elements::F64(vec![0.5, 1e9]), Some(NumberType::F32)),
        (Elements::F32(vec![-0.0]), Some(NumberType::F16)),
        (Elements::I64(vec![1 << 40]), Some(NumberType::F32)),
        (Elements::I64(vec![(1 << 53) + 1]), Some(NumberType::I64)),
        (Elements::I64(vec![i64::MAX]), Some(NumberType::I64)),
        (Elements::F64(vec![0.1]), Some(NumberType::F64)),
        (Elements::Text(vec!["red".into()]), None),
    ];
    for (elements, expected) in dtypes {
        let tensor = Tensor::new([elements.len()], elements).expect("a list");
        assert_eq!(tensor.smallest_type(), expected, "{tensor:?}");
    }
}

/// A line of a node may give the types of its results, of each result, and with no shape where none is known. Types
/// that the node does not give are refused with its line.
#[test]
fn the_types_of_a_line_are_checked() {
    let text = |types: &str| {
        format!(
            "input %in0 \"X\": f32[rows, 3]\n%0 \"best\" = topK(%in0, axis=1, k=2, greatest=true){types}\noutput \"a\": %0\n"
        )
    };
    let graph = Graph::parse(&text("")).expect("no types");
    assert_eq!(Graph::parse(&text(": f32[rows, 2], i64[rows, 2]")), Ok(graph.clone()));
    assert!(graph.to_string().contains(": f32[rows, 2], i64[rows, 2]  // indices in f32\n"), "{graph}");
    for wrong in
        ["f32[rows, 2]", "f32[rows, 3], i64[rows, 2]", "f64[rows, 2], i64[rows, 2]", "f32, i64[rows, 2]"]
    {
        let error = Graph::parse(&text(&format!(": {wrong}"))).expect_err(wrong).to_string();
        assert!(error.contains("line 2: ") && error.contains(&format!("not {wrong}")), "{error}");
    }
    for damaged in [":", ": f99[rows]", ": f32[rows, 2],", ": f32[rows, -1]", ": f32[rows, 2] i64"] {
        assert!(Graph::parse(&text(damaged)).is_err(), "{damaged}");
    }
    let open = "input %in0 \"X\": f32[rows, 3]\ninput %in1 \"to\": i64[rows]\n\
                %0 \"shaped\" = reshapeAs(%in0, %in1): f32\noutput \"a\": %0\n";
    assert!(Graph::parse(open).expect("an unknown shape").to_string().contains("%in1): f32  // "));
}

/// Wide rows go through a graph in pieces of few rows: with every remainder of a piece, outputs of each type, and on
/// several threads.
#[test]
fn pieces_of_a_batch_are_put_together() {
    let text = "input %in0 \"x\": f32[rows, 600]
weight %w0: f32[600, 9] = [WEIGHTS]
weight %w1: text[9] = [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\", \"i\"]
weight %w2: f32[1] = [0.1]
%0 \"scores\" = matmul(%in0, %w0)
%1 \"best\" = argMax(%0, axis=-1, keep=false, last=false)
%2 \"label\" = gather(%w1, %1, axis=0)
%3 \"over\" = greater(%0, %w2)
%4 \"wide\" = cast(%0, to=f64)
output \"scores\": %0
output \"best\": %1
output \"label\": %2
output \"over\": %3
output \"wide\": %4
";
    let number = |at: usize| (at % 2001 * 7919 % 2001) as f32 / 1000.0 - 1.0;
    let weights: Vec<String> = (0..5400).map(|at| format!("{:?}", number(at))).collect();
    let graph = Graph::parse(&text.replace("WEIGHTS", &weights.join(", "))).expect("a graph");
    let predictors = [1, 2].map(|threads| GraphPredictor::new(graph.clone(), threads).expect("compiled"));
    let most = 300;
    let values: Vec<f32> = (0..most * 600).map(|at| number(at * 13 + at / 600)).collect();
    let rows = |count: usize| floats(&[count, 600], &values[..count * 600]);
    let expected = graph.run(&[rows(most)]).expect("values");
    for count in [0, 1, 2, 11, 12, 13, 63, 64, 65, 127, 128, 129, 191, 192, 193, most] {
        let [found, threaded] = predictors.each_ref().map(|p| p.predict(&[rows(count)]).expect("values"));
        assert_eq!(found, threaded, "{count} rows");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!((found.shape()[0], &found.shape()[1..]), (count, &expected.shape()[1..]));
            let a_row = expected.elements().len() / most;
            match (found.elements(), expected.elements()) {
                (Elements::Text(a), Elements::Text(b)) => assert_eq!(a[..], b[..count * a_row]),
                (a, b) => {
                    let (a, b) = (a.doubles().expect("numbers"), b.doubles().expect("numbers"));
                    let near = a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-4);
                    assert!(near && a.len() == count * a_row, "{count} rows");
                }
            }
        }
    }
}

/// A batch whose rows depend on each other is evaluated as a whole, however large it is.
#[test]
fn batches_whose_rows_depend_on_each_other_stay_whole() {
    let text = "input %in0 \"x\": f32[rows, 300]
%0 \"mean\" = reduceMean(%in0, axes=[0], keep=true)
%1 \"centred\" = subtract(%in0, %0)
%2 \"turned\" = transpose(%1, order=[1, 0])
output \"centred\": %1
output \"turned\": %2
";
    let graph = Graph::parse(text).expect("a graph");
    let predictor = GraphPredictor::new(graph.clone(), 2).expect("compiled");
    let values: Vec<f32> = (0..300 * 300).map(|at| ((at * 31) % 997) as f32).collect();
    for count in [1, 64, 300] {
        let rows = [floats(&[count, 300], &values[..count * 300])];
        assert_eq!(predictor.predict(&rows).expect("values"), graph.run(&rows).expect("values"));
    }
}
