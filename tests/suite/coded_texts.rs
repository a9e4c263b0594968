//! Graphs whose inputs of texts become inputs of numbers, and the columns of a graph's rows.

use fangorn::{
    forest::Coding,
    graph::{Compare, Dtype, Elements, Graph, Operand, Operator, Prediction, Tensor},
    table::CellReader,
};

use crate::generate::Seeded;

const WORDS: [&str; 7] = ["red", "green", "", "7", "blue sky", "Zürich", "\"quoted\""];

fn words(random: &mut Seeded, count: usize) -> Vec<std::sync::Arc<str>> {
    (0..count).map(|_| WORDS[random.below(WORDS.len())].into()).collect()
}

/// A graph of texts: columns are selected, joined, filled, looked up and compared.
fn random_graph(random: &mut Seeded) -> Graph {
    let mut graph = Graph::default();
    let mut texts: Vec<(Operand, usize)> = Vec::new();
    for at in 0..1 + random.below(3) {
        let width = 1 + random.below(3);
        texts.push((graph.input(&format!("in{at}"), Dtype::Text, [None, Some(width)]), width));
    }
    for _ in 0..random.below(5) {
        let (x, width) = texts[random.below(texts.len())];
        texts.push(match random.below(4) {
            0 => {
                let (other, more) = texts[random.below(texts.len())];
                (graph.node("join", Operator::Concat { axis: 1 }, [x, other]), width + more)
            }
            1 => {
                let count = 1 + random.below(3);
                let chosen = (0..count).map(|_| random.below(width) as i64).collect();
                let chosen = graph.weight(Tensor::new([count], Elements::I64(chosen)).expect("a list"));
                (graph.node("select", Operator::Gather { axis: 1 }, [x, chosen]), count)
            }
            2 => {
                let gone = graph.weight(Tensor::new([1], Elements::Text(words(random, 1))).expect("a text"));
                let is = graph.node("missing", Operator::Compare(Compare::Equal), [x, gone]);
                let with =
                    graph.weight(Tensor::new([width], Elements::Text(words(random, width))).expect("texts"));
                (graph.node("fill", Operator::Where, [is, with, x]), width)
            }
            _ if width == 1 => {
                let flat = graph.node("flat", Operator::Reshape(vec![-1]), [x]);
                (graph.node("column", Operator::Unsqueeze(vec![1]), [flat]), 1)
            }
            _ => (graph.node("same", Operator::Cast(Dtype::Text), [x]), width),
        });
    }
    for (at, (x, width)) in texts.into_iter().enumerate() {
        let found = match random.below(2) {
            0 => {
                let mut keys = words(random, 4);
                keys.sort();
                keys.dedup();
                let values = Elements::F32((0..keys.len()).map(|at| at as f32 + 1.0).collect());
                let operator =
                    Operator::Lookup { keys: Elements::Text(keys), values, other: Elements::F32(vec![-1.0]) };
                graph.node("look up", operator, [x])
            }
            _ => {
                let known =
                    graph.weight(Tensor::new([width], Elements::Text(words(random, width))).expect("texts"));
                let equal = graph.node("equal", Operator::Compare(Compare::Equal), [known, x]);
                graph.node("number", Operator::Cast(Dtype::F32), [equal])
            }
        };
        graph.output(&format!("out{at}"), found);
    }
    graph
}

/// The inputs of a coded graph, for the same texts.
fn codes(coded: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    let rows = coded.rows().expect("rows");
    let readers: Vec<_> = rows.features.iter().map(CellReader::of).collect();
    let count = inputs[0].shape()[0];
    let mut values = Vec::new();
    for row in 0..count {
        let mut column = 0;
        for input in inputs {
            let width = input.shape()[1];
            let Elements::Text(texts) = input.elements() else { panic!("texts") };
            for text in &texts[row * width..][..width] {
                values.push(readers[column].value(text.as_bytes()).expect("a code"));
                column += 1;
            }
        }
    }
    coded.inputs_of_rows(&values).expect("inputs")
}

#[test]
fn codes_give_what_texts_give() {
    let mut random = Seeded(8);
    for round in 0..300 {
        let graph = random_graph(&mut random);
        graph.verify().unwrap_or_else(|e| panic!("{round}: {e}"));
        let rows = random.below(9);
        let inputs: Vec<Tensor> = graph
            .inputs
            .iter()
            .map(|input| {
                let width = input.shape[1].expect("a width");
                // Among them are texts that no operator knows.
                let mut texts = words(&mut random, rows * width);
                texts
                    .iter_mut()
                    .filter(|text| &***text == "7")
                    .for_each(|text| *text = format!("x{rows}").into());
                Tensor::new([rows, width], Elements::Text(texts)).expect("texts")
            })
            .collect();
        let expected = graph.run(&inputs).unwrap_or_else(|e| panic!("{round}: {e}"));
        let coded =
            graph.with_coded_texts().unwrap_or_else(|| panic!("{round}: every text is looked up\n{graph}"));
        assert!(coded.inputs.iter().all(|input| input.dtype == Dtype::F32), "{round}");
        assert_eq!(Graph::parse(&coded.to_string()).as_ref(), Ok(&coded), "{round}");
        assert_eq!(coded.run(&codes(&coded, &inputs)).as_ref(), Ok(&expected), "{round}\n{graph}\n{coded}");
    }
}

#[test]
fn operators_that_need_texts_keep_them() {
    let keeps = |text: &str| Graph::parse(text).expect("a graph").with_coded_texts().is_none();
    let x = "input %in0 \"x\": text[rows, 1]\n";
    assert!(keeps(&format!("{x}%0 \"n\" = cast(%in0, to=f32)\noutput \"y\": %0\n")), "texts as numbers");
    assert!(keeps(&format!("{x}%0 \"n\" = cast(%in0, to=text)\noutput \"y\": %0\n")), "texts as an output");
    assert!(keeps("input %in0 \"x\": f32[rows, 1]\n%0 \"n\" = abs(%in0)\noutput \"y\": %0\n"), "no texts");
    // Nothing reads one of two inputs; a text of a dictionary without another value has to be known.
    let graph = Graph::parse(
        "input %in0 \"x\": text[rows, 1]
input %in1 \"y\": text[rows, 1]
%0 \"n\" = lookup(%in0, keys=text[\"a\", \"b\"], values=i64[3, 4], other=i64[])
output \"y\": %0
",
    )
    .expect("a graph");
    let coded = graph.with_coded_texts().expect("every text is looked up");
    let rows = coded.rows().expect("rows");
    let value = |column: usize, text: &str| CellReader::of(&rows.features[column]).value(text.as_bytes());
    assert_eq!([value(0, "b"), value(0, "c"), value(1, "c")], [Some(1.0), None, Some(0.0)]);
    assert!(rows.features.iter().all(|feature| feature.coding.is_needed()));
    let error = coded.run(&coded.inputs_of_rows(&[f64::NAN, 0.0]).expect("inputs")).expect_err("missing");
    assert!(error.to_string().contains("a missing value is none of its 2 keys"), "{error}");
}

/// Each node joins the columns of the one before it with themselves.
#[test]
fn columns_that_double_are_left_as_texts() {
    let mut text = "input %in0 \"x\": text[rows, 2]\n%0 \"join\" = concat(%in0, %in0, axis=1)\n".to_owned();
    for at in 1..50 {
        text += &format!("%{at} \"join\" = concat(%{0}, %{0}, axis=1)\n", at - 1);
    }
    text +=
        "%50 \"known\" = lookup(%49, keys=text[\"a\"], values=f32[1.0], other=f32[0.0])\noutput \"y\": %50\n";
    assert!(Graph::parse(&text).expect("a graph").with_coded_texts().is_none());
    let wide = text.replace("text[rows, 2]", "text[rows, 9000]");
    assert!(Graph::parse(&wide).expect("a graph").with_coded_texts().is_none());
}

#[test]
fn rows_have_the_columns_of_inputs() {
    let graph = Graph::parse(
        "input %in0 \"x\": f64[rows, 2], columns=[\"age\", _ of [\"a\", \"b\"] unseen=refused numbers]
input %in1 \"n\": i64[rows]
%0 \"a\" = abs(%in0)
output \"y\": %0
",
    )
    .expect("a graph");
    let rows = graph.rows().expect("rows");
    let names: Vec<_> = rows.features.iter().map(|feature| feature.name.as_deref()).collect();
    assert_eq!(names, [Some("age"), None, None]);
    assert_eq!(rows.features[1].coding, graph.inputs[0].columns[1].coding);
    assert_ne!(rows.features[1].coding, Coding::Numbers);
    let inputs = graph.inputs_of_rows(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("inputs");
    assert_eq!(inputs[0].elements(), &Elements::F64(vec![1.0, 2.0, 4.0, 5.0]));
    assert_eq!((inputs[1].shape(), inputs[1].elements()), (&[2][..], &Elements::I64(vec![3, 6])));
    for (values, word) in [
        (vec![1.0, 2.0], "no rows of 3"),
        (vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.5], "row 1, column 0: it takes whole numbers, not 6.5"),
        (vec![1.0, 2.0, f64::NAN], "a missing value"),
    ] {
        let error = graph.inputs_of_rows(&values).expect_err(word).to_string();
        assert!(error.contains(word), "{error}");
    }
    for (input, word) in [
        ("f32[rows, 2], columns=[\"a\"]", "it has 1 columns"),
        ("f32[rows, 2], columns=[\"a\", \"b\" of [\"c\"] unseen=guess]", "none of missing, refused and own"),
        ("f32[rows, 2], rows=[]", "columns="),
    ] {
        let text = format!("input %in0 \"x\": {input}\n%0 \"a\" = abs(%in0)\noutput \"y\": %0\n");
        let error = Graph::parse(&text).expect_err(word).to_string();
        assert!(error.contains(word), "{error}");
    }
}

/// The outputs of files, in the order in which exporters write them.
#[test]
fn predictions_are_found_among_outputs() {
    let find = |outputs: &str, what: Prediction| {
        let text = format!(
            "input %in0 \"x\": f32[rows, 2]
%0 \"class\" = argMax(%in0, axis=1, keep=false, last=false)
%1 \"row\" = unsqueeze(%0, axes=[0])
%2 \"deep\" = unsqueeze(%in0, axes=[0])
%3 \"both\" = concat(%2, %2, axis=0)
%4 \"first\" = slice(%in0, axis=1, start=0, end=1, step=1)
%5 \"flat\" = reshape(%4, to=[-1])
%6 \"wide\" = cast(%in0, to=f64)
{outputs}"
        );
        let graph = Graph::parse(&text).unwrap_or_else(|e| panic!("{outputs}: {e}"));
        let x = Tensor::new([3, 2], Elements::F32(vec![1.0, 2.0, 4.0, 3.0, 5.0, 6.0])).expect("rows");
        let predicting = graph.predicting(what).map_err(|e| e.to_string())?;
        let found = predicting.run(&[x]).map_err(|e| e.to_string())?.remove(0);
        Ok::<_, String>((found.shape().to_vec(), found.elements().doubles().expect("numbers")))
    };
    let class = Ok((vec![3], vec![1.0, 0.0, 1.0]));
    let value = Ok((vec![3, 2], vec![1.0, 2.0, 4.0, 3.0, 5.0, 6.0]));
    for (outputs, expected) in [
        ("output \"label\": %0\noutput \"probabilities\": %in0\n", [&class, &value]),
        // An embedding comes before the labels, and leaf ids after the scores.
        (
            "output \"variable\": %4\noutput \"output_label\": %0\noutput \"scores\": %in0\noutput \"leaf\": %0\n",
            [&class, &value],
        ),
        // Discriminant analysis.
        ("output \"label\": %1\noutput \"probabilities\": %in0\n", [&class, &value]),
        ("output \"classes\": %0\noutput \"scores\": %in0\n", [&class, &value]),
    ] {
        assert_eq!(&find(outputs, Prediction::Class), expected[0], "{outputs}");
        assert_eq!(&find(outputs, Prediction::Value), expected[1], "{outputs}");
    }
    // A column for each class, several targets, and types that differ.
    let columns = "output \"label\": %0\noutput \"i0\": %5\noutput \"i1\": %4\n";
    assert_eq!(find(columns, Prediction::Value), Ok((vec![3, 2], vec![1.0, 1.0, 4.0, 4.0, 5.0, 5.0])));
    let targets =
        "output \"label\": %0\noutput \"probabilities[0]\": %in0\noutput \"probabilities[1]\": %6\n";
    let twice = vec![1.0, 2.0, 1.0, 2.0, 4.0, 3.0, 4.0, 3.0, 5.0, 6.0, 5.0, 6.0];
    assert_eq!(find(targets, Prediction::Value), Ok((vec![3, 4], twice.clone())));
    let forest = "output \"label\": %0\noutput \"probabilities\": %3\n";
    assert_eq!(find(forest, Prediction::Value), Ok((vec![3, 4], twice)));
    // A regression with leaf ids, and an only output of integers.
    let regression = "output \"leaf\": %1\noutput \"variable\": %4\n";
    assert_eq!(find(regression, Prediction::Value), Ok((vec![3, 1], vec![1.0, 4.0, 5.0])));
    assert_eq!(find("output \"codes\": %0\n", Prediction::Value), class);
    assert_eq!(find("output \"codes\": %0\n", Prediction::Class), class);
    let words = |outputs: &str, what| find(outputs, what).expect_err(outputs);
    assert!(words("output \"variable\": %in0\n", Prediction::Class).contains("no classes"));
    assert!(words("output \"label\": %0\noutput \"other\": %1\n", Prediction::Value).contains("no values"));
    assert!(words("output \"label\": %0\n", Prediction::Margin).contains("no margins"));
}

/// Missing elements of rows become means of the nearest rows, by a search through all of them.
#[test]
fn neighbors_fill_missing_elements() {
    let mut random = Seeded(3);
    for round in 0..200 {
        let (rows, donors, columns) = (1 + random.below(5), 1 + random.below(9), 1 + random.below(5));
        let (neighbors, by_distance) = (1 + random.below(6), random.below(2) == 0);
        let mut draw = |count: usize| -> Vec<f64> {
            let of = |random: &mut Seeded| match random.below(3) {
                0 => f64::NAN,
                _ => f64::from(random.below(4000) as u32) / 97.0,
            };
            (0..count).map(|_| of(&mut random)).collect()
        };
        let (x, known) = (draw(rows * columns), draw(donors * columns));
        let text = format!(
            "input %in0 \"x\": f64[rows, {columns}]
weight %w0: f64[{donors}, {columns}] = {known:?}
%0 \"fill\" = imputeNeighbors(%in0, %w0, neighbors={neighbors}, byDistance={by_distance})
output \"y\": %0
"
        );
        let graph = Graph::parse(&text).unwrap_or_else(|e| panic!("{round}: {e}\n{text}"));
        assert_eq!(Graph::parse(&graph.to_string()).expect("a graph").to_string(), graph.to_string());
        let given = Tensor::new([rows, columns], Elements::F64(x.clone())).expect("rows");
        let found = graph.run(&[given]).expect("rows")[0].elements().doubles().expect("numbers");
        for (at, value) in x.iter().enumerate() {
            let (row, column) = (at / columns, at % columns);
            let expected = match value.is_nan() {
                false => *value,
                true => {
                    nearest_mean(&x[row * columns..][..columns], &known, column, (neighbors, by_distance))
                }
            };
            let same = (found[at] - expected).abs() <= 1e-12 || found[at].is_nan() && expected.is_nan();
            assert!(same, "{round}: {} is not {expected}", found[at]);
        }
    }
}

/// Rows at no distance count alone, as scikit-learn weighs them.
#[test]
fn rows_at_no_distance_count_alone() {
    let fill = |by_distance: bool| {
        let text = format!(
            "input %in0 \"x\": f32[rows, 2]
weight %w0: f32[3, 2] = [1.0, 10.0, 1.0, 20.0, 3.0, 90.0]
%0 \"fill\" = imputeNeighbors(%in0, %w0, neighbors=3, byDistance={by_distance})
output \"y\": %0
"
        );
        let rows = Tensor::parse("f32[2, 2] = [1.0, NaN, 2.0, NaN]").expect("rows");
        Graph::parse(&text).expect("a graph").run(&[rows]).expect("rows")[0]
            .elements()
            .doubles()
            .expect("numbers")
    };
    assert_eq!(fill(true), [1.0, 15.0, 2.0, 40.0]);
    assert_eq!(fill(false), [1.0, 40.0, 2.0, 40.0]);
}

fn nearest_mean(row: &[f64], known: &[f64], column: usize, (neighbors, by_distance): (usize, bool)) -> f64 {
    let mut near: Vec<(f64, f64)> = Vec::new();
    let mut all = Vec::new();
    for donor in known.chunks_exact(row.len()) {
        if donor[column].is_nan() {
            continue;
        }
        all.push(donor[column]);
        let both: Vec<f64> = row.iter().zip(donor).map(|(a, b)| a - b).filter(|d| !d.is_nan()).collect();
        if !both.is_empty() {
            let sum: f64 = both.iter().map(|d| d * d).sum();
            near.push(((sum * (row.len() as f64 / both.len() as f64)).sqrt(), donor[column]));
        }
    }
    if near.is_empty() {
        return all.iter().sum::<f64>() / all.len() as f64;
    }
    near.sort_by(|a, b| a.0.total_cmp(&b.0));
    near.truncate(neighbors);
    let weight = |distance: f64| if by_distance { 1.0 / distance } else { 1.0 };
    let sum: f64 = near.iter().map(|(distance, value)| weight(*distance) * value).sum();
    sum / near.iter().map(|(distance, _)| weight(*distance)).sum::<f64>()
}
