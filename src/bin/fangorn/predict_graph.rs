//! `fangorn predict` for a graph of classical operators, where a file is more than one tree ensemble.

use std::path::Path;

use fangorn::{
    graph::{Dtype, Elements, Graph, GraphInput, GraphPredictor, Tensor},
    import::{self, ErrorKind, Format, LoadOptions},
};

use crate::{
    error::{Error, Result},
    library_error,
    limits::LimitsChoice,
    output::{Table, Values},
    rows::Matrix,
};

/// Reads an ONNX file as a graph. Returns `None` where the file is no ONNX file, or where another reason than an
/// operator keeps it from being a forest.
pub fn load(path: &Path, limits: &LimitsChoice) -> Option<Result<Graph>> {
    let Err(fangorn::Error::Import(error)) = import::load(path, &options(limits)) else { return None };
    let unsupported = error.kind() == ErrorKind::Unsupported && is_onnx(path);
    unsupported.then(|| load_any(path, limits))
}

/// Reads an ONNX file as a graph, one of a single tree ensemble too.
///
/// # Errors
/// The file can't be read, or an operator in it is not supported.
pub fn load_any(path: &Path, limits: &LimitsChoice) -> Result<Graph> {
    import::load_graph(path, &options(limits)).map_err(library_error)
}

/// Returns whether a file is an ONNX file.
pub fn is_onnx(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| Format::of(&bytes).is_ok_and(|format| format == Format::Onnx))
}

fn options(limits: &LimitsChoice) -> LoadOptions {
    LoadOptions { limits: limits.limits(), raw_categories: true, ..LoadOptions::default() }
}

/// The output of a graph that is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A classifier's labels.
    Class,
    /// Values.
    Value,
}

/// Returns the graph with the output that is meant alone. What other outputs need is then not computed.
///
/// # Errors
/// The graph has no such output.
pub fn with_one_output(path: &Path, mut graph: Graph, wanted: Wanted) -> Result<Graph> {
    let kept = chosen(&graph, wanted == Wanted::Class).map_err(|what| Error::file(path, what))?;
    graph.outputs = vec![graph.outputs.swap_remove(kept)];
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

/// Predicts rows: the classes if `class` is set, and the values otherwise.
///
/// # Errors
/// The graph has no such output or takes texts, or an operator does not take its operands.
pub fn predict(path: &Path, graph: Graph, rows: &Matrix<f64>, class: bool) -> Result<Table> {
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
    let graph = with_one_output(path, graph, if class { Wanted::Class } else { Wanted::Value })?;
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

/// Returns the place of the output that is meant. A classifier gives its labels before its probabilities; a graph of
/// one output gives values.
fn chosen(graph: &Graph, class: bool) -> Result<usize, String> {
    let types = graph.types().map_err(|e| e.to_string())?;
    let floats = |at: usize| matches!(types.of(graph.outputs[at].operand).dtype, Dtype::F32 | Dtype::F64);
    match (graph.outputs.len(), class) {
        (1, false) => Ok(0),
        (1, true) if floats(0) => Err("the graph gives no classes; use --output value".into()),
        (0, _) => Err("the graph has no outputs".into()),
        (_, true) => Ok(0),
        (_, false) => Ok(1),
    }
}
