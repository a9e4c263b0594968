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
    rows::{self, Cells, TableChoice, Wanted},
};

/// Reads an ONNX file as a graph. Returns `None` where the file is no ONNX file, or where another reason than an
/// operator keeps it from being a forest.
pub fn load(path: &Path, limits: &LimitsChoice) -> Option<Result<Graph>> {
    let options = LoadOptions { limits: limits.limits(), raw_categories: true, ..LoadOptions::default() };
    let Err(fangorn::Error::Import(error)) = import::load(path, &options) else { return None };
    let is_onnx = || Some(Format::of(&std::fs::read(path).ok()?).ok()? == Format::Onnx);
    let unsupported = error.kind() == ErrorKind::Unsupported && is_onnx() == Some(true);
    unsupported.then(|| import::load_graph(path, &options).map_err(library_error))
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

/// Reads the rows of a graph: a tensor for each input, whose columns lie side by side. Columns of an input of texts stay
/// texts.
///
/// # Errors
/// An input has no fixed number of columns, or the file can't be read or has other columns.
pub fn read_inputs(path: &Path, graph: &Graph, rows: &Path, table: TableChoice) -> Result<Vec<Tensor>> {
    let widths = graph.inputs.iter().map(width).collect::<Result<Vec<usize>, String>>();
    let widths = widths.map_err(|what| Error::file(path, what))?;
    let all = widths.iter().try_fold(0usize, |sum, width| sum.checked_add(*width));
    let all =
        all.ok_or_else(|| Error::file(path, "its inputs have more columns than there is memory for"))?;
    let made = |input: &GraphInput, width: usize, elements: Option<Elements>| {
        let elements =
            elements.ok_or_else(|| Error::Defect(format!("input `{}` of another type", input.name)))?;
        let rows = elements.len().checked_div(width).unwrap_or(0);
        let shape = if input.shape.len() == 1 { vec![rows] } else { vec![rows, width] };
        Tensor::new(shape, elements).ok_or_else(|| Error::Defect("columns of different lengths".into()))
    };
    let mut inputs = Vec::with_capacity(graph.inputs.len());
    let mut first = 0;
    if graph.inputs.iter().all(|input| input.dtype != Dtype::Text) {
        let rows = rows::read_columns::<f64>(rows, all, table)?;
        for (input, width) in graph.inputs.iter().zip(widths) {
            let of_row = |row: usize| &rows.row(row)[first..first + width];
            let values: Vec<f64> = (0..rows.rows).flat_map(of_row).copied().collect();
            inputs.push(made(input, width, Elements::of_doubles(input.dtype, values))?);
            first += width;
        }
        return Ok(inputs);
    }
    let mut wanted = Vec::new();
    for (input, width) in graph.inputs.iter().zip(&widths) {
        let (name, texts) = ((*width == 1).then_some(&input.name[..]), input.dtype == Dtype::Text);
        wanted.extend(std::iter::repeat_n(Wanted { name, texts }, *width));
    }
    let columns = rows::read_mixed(rows, &wanted, table)?;
    for (input, width) in graph.inputs.iter().zip(widths) {
        let columns = &columns[first..first + width];
        inputs.push(made(input, width, side_by_side(input.dtype, columns))?);
        first += width;
    }
    Ok(inputs)
}

/// Returns columns as the elements of a tensor, row after row. `None` where they are of another type.
fn side_by_side(dtype: Dtype, columns: &[Cells]) -> Option<Elements> {
    let rows = columns.iter().map(|cells| match cells {
        Cells::Numbers(numbers) => numbers.len(),
        Cells::Texts(texts) => texts.len(),
    });
    let rows = rows.min().unwrap_or(0);
    let cells = || (0..rows).flat_map(|row| columns.iter().map(move |column| (column, row)));
    if dtype == Dtype::Text {
        let text = |(column, row): (&Cells, usize)| match column {
            Cells::Texts(texts) => texts.get(row).cloned(),
            Cells::Numbers(_) => None,
        };
        return cells().map(text).collect::<Option<_>>().map(Elements::Text);
    }
    let number = |(column, row): (&Cells, usize)| match column {
        Cells::Numbers(numbers) => numbers.get(row).copied(),
        Cells::Texts(_) => None,
    };
    Elements::of_doubles(dtype, cells().map(number).collect::<Option<_>>()?)
}

/// Predicts rows: the classes if `class` is set, and the values otherwise.
///
/// # Errors
/// The graph has no such output, or an operator does not take its operands.
pub fn predict(path: &Path, graph: Graph, inputs: &[Tensor], class: bool) -> Result<Table> {
    let rows = inputs.first().and_then(|input| input.shape().first()).copied().unwrap_or(0);
    let mut graph = graph;
    let kept = chosen(&graph, class).map_err(|what| Error::file(path, what))?;
    // What the other outputs alone need is not computed.
    graph.outputs = vec![graph.outputs.swap_remove(kept)];
    let predictor = GraphPredictor::new(graph, 1).map_err(library_error)?;
    let found = predictor.predict(inputs).map_err(library_error)?;
    let [output] = &found[..] else { unreachable!("a graph of one output") };
    let columns = output.elements().len().checked_div(rows).unwrap_or(1).max(1);
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
