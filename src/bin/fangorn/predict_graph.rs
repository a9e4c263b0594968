//! `fangorn predict` for a graph of classical operators, where a file is more than one tree ensemble, or has linear
//! models in its leaves.

use std::path::Path;

use fangorn::{
    Forest,
    graph::{
        Dtype, Elements, Graph, GraphInput, GraphOutput, GraphPredictor, LinearLeaves, Operand, Operator,
        Tensor,
    },
    import::{self, ErrorKind, Format, LoadOptions},
};

use crate::{
    error::{Error, Result},
    library_error,
    limits::LimitsChoice,
    output::{Table, Values},
    predict::Output,
    rows::Matrix,
};

/// Reads a file of ONNX or LightGBM as a graph. Returns `None` where the file is of another format, or where another
/// reason than what it holds keeps it from being a forest.
pub fn load(path: &Path, limits: &LimitsChoice) -> Option<Result<Graph>> {
    let Err(fangorn::Error::Import(error)) = import::load(path, &options(limits)) else { return None };
    let unsupported = error.kind() == ErrorKind::Unsupported && may_be_a_graph(path);
    unsupported.then(|| load_any(path, limits))
}

/// Reads a file of ONNX or LightGBM as a graph, an ONNX file of a single tree ensemble too.
///
/// # Errors
/// The file can't be read, or an operator in it is not supported.
pub fn load_any(path: &Path, limits: &LimitsChoice) -> Result<Graph> {
    import::load_graph(path, &options(limits)).map_err(library_error)
}

/// Returns whether a file is of a format that has graphs.
pub fn may_be_a_graph(path: &Path) -> bool {
    let has_graphs = |format| matches!(format, Format::Onnx | Format::LightGbm);
    std::fs::read(path).is_ok_and(|bytes| Format::of(&bytes).is_ok_and(has_graphs))
}

fn options(limits: &LimitsChoice) -> LoadOptions {
    LoadOptions { limits: limits.limits(), raw_categories: true, ..LoadOptions::default() }
}

/// Returns the graph with the output that is meant alone. What other outputs need is then not computed.
///
/// # Errors
/// The graph has no such output.
pub fn with_one_output(path: &Path, mut graph: Graph, output: Output) -> Result<Graph> {
    let operand = chosen(&graph, output).map_err(|what| Error::file(path, what))?;
    graph.outputs = vec![GraphOutput { name: "predictions".into(), operand }];
    Ok(graph)
}

/// Returns the number of columns of a row: those of all inputs, side by side.
///
/// # Errors
/// An input has no fixed number of columns.
pub fn columns(graph: &Graph) -> Result<usize, String> {
    graph.inputs.iter().map(width).sum()
}

fn width(input: &GraphInput) -> Result<usize, String> {
    match input.shape[..] {
        [_] => Ok(1),
        [_, Some(columns)] => Ok(columns),
        _ => Err(format!(
            "input `{}` has no fixed number of columns; export the model with its number of features",
            input.name
        )),
    }
}

/// Returns the forest that reads the rows as they are, whose features name the columns.
pub fn forest_of_rows(graph: &Graph) -> Option<&Forest> {
    let (at, leaves) = linear_leaves(graph)?;
    let reads_rows = graph.inputs.len() == 1 && graph.nodes[at as usize].operands == [Operand::Input(0)];
    reads_rows.then(|| &**leaves.forest())
}

/// Returns the node that is a forest with linear models in its leaves.
fn linear_leaves(graph: &Graph) -> Option<(u32, &LinearLeaves)> {
    (0..).zip(&graph.nodes).find_map(|(at, node)| match &node.operator {
        Operator::LinearLeaves(leaves) => Some((at, &**leaves)),
        _ => None,
    })
}

/// Predicts rows.
///
/// # Errors
/// The graph has no such output or takes texts, or an operator does not take its operands.
pub fn predict(path: &Path, graph: Graph, rows: &Matrix<f64>, output: Output) -> Result<Table> {
    let mut inputs = Vec::with_capacity(graph.inputs.len());
    let mut first = 0;
    for input in &graph.inputs {
        let columns = width(input).map_err(|what| Error::file(path, what))?;
        let of_row = |row: usize| &rows.row(row)[first..first + columns];
        let values: Vec<f64> = (0..rows.rows).flat_map(of_row).copied().collect();
        let shape = if input.shape.len() == 1 { vec![rows.rows] } else { vec![rows.rows, columns] };
        let tensor = Elements::of_doubles(input.dtype, values).and_then(|values| Tensor::new(shape, values));
        inputs.push(tensor.ok_or_else(|| {
            let what = format!(
                "input `{}` takes texts; encode them before, or export the model without",
                input.name
            );
            Error::file(path, what)
        })?);
        first += columns;
    }
    let graph = with_one_output(path, graph, output)?;
    let predictor = GraphPredictor::new(graph, 1).map_err(library_error)?;
    let found = predictor.predict(&inputs).map_err(library_error)?;
    let [output] = &found[..] else { unreachable!("a graph of one output") };
    let (rows, columns) = (rows.rows, output.elements().len().checked_div(rows.rows).unwrap_or(1).max(1));
    let values = match output.elements() {
        Elements::Text(texts) => Values::Words(texts.iter().map(|text| text.to_string()).collect()),
        Elements::I64(integers) => match integers.iter().map(|v| i32::try_from(*v)).collect() {
            Ok(integers) => Values::Ints(integers),
            Err(_) => Values::Words(integers.iter().map(i64::to_string).collect()),
        },
        Elements::I32(integers) => Values::Ints(integers.clone()),
        Elements::Bool(truths) => Values::Ints(truths.iter().map(|v| i32::from(*v)).collect()),
        Elements::F32(values) => Values::Floats(values.clone()),
        Elements::F64(values) => Values::Floats(values.iter().map(|v| *v as f32).collect()),
    };
    Ok(Table { rows, columns, values })
}

/// Returns where the output that is meant comes from. A classifier gives its labels before its probabilities; a graph
/// of one output gives values. Margins and leaves are those of a forest with linear models in its leaves.
fn chosen(graph: &Graph, output: Output) -> Result<Operand, String> {
    let leaves = linear_leaves(graph).map(|(at, _)| at);
    match (output, leaves) {
        (Output::Margin, Some(at)) => return Ok(Operand::Node(at, 0)),
        (Output::Leaf, Some(at)) => return Ok(Operand::Node(at, 1)),
        (Output::Value | Output::Class, _) => {}
        (_, Some(_)) => {
            return Err(
                "--output: the leaves have linear models, and what each tree adds is not given; use \
                value, class, margin or leaf"
                    .into(),
            );
        }
        (_, None) => {
            return Err(
                "--output: the file is a graph, which has values and classes; use value or class".into()
            );
        }
    }
    let types = graph.types().map_err(|e| e.to_string())?;
    let floats = |at: usize| matches!(types.of(graph.outputs[at].operand).dtype, Dtype::F32 | Dtype::F64);
    let at = match (graph.outputs.len(), output == Output::Class) {
        (1, false) => 0,
        (1, true) if floats(0) => return Err("the graph gives no classes; use --output value".into()),
        (0, _) => return Err("the graph has no outputs".into()),
        (_, true) => 0,
        (_, false) => 1,
    };
    Ok(graph.outputs[at].operand)
}
