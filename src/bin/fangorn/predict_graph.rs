//! `fangorn predict` for a graph of classical operators: a file that is more than one tree ensemble, or has linear
//! models in its leaves.

use std::{borrow::Cow, path::Path};

use fangorn::{
    Forest,
    graph::{
        Dtype, Elements, Graph, GraphInput, GraphOutput, GraphPredictor, LinearLeaves, Operand, Operator,
        Passes, Tensor,
    },
    import::{self, ErrorKind, Format, LoadOptions},
};

use crate::{
    error::{Error, Result},
    library_error,
    limits::LimitsChoice,
    output::{Table, Values},
    predict::Output,
    rows::{self, Cells, ColumnRequest, Matrix, TableChoice},
    schedule::compiled_graph,
};

/// Reads a file of ONNX, LightGBM or scikit-learn as a graph. Returns `None` if the file is a forest, has another
/// format, or is refused for another reason than its contents.
pub fn load(path: &Path, limits: &LimitsChoice) -> Option<Result<Graph>> {
    let Err(fangorn::Error::Import(error)) = import::load(path, &options(limits)) else { return None };
    let unsupported = error.kind() == ErrorKind::Unsupported && may_be_a_graph(path);
    unsupported.then(|| load_any(path, limits))
}

/// Reads a file of ONNX or LightGBM as a graph, even an ONNX file of a single tree ensemble.
///
/// # Errors
/// The file can't be read, or an operator in it is not supported.
pub fn load_any(path: &Path, limits: &LimitsChoice) -> Result<Graph> {
    import::load_graph(path, &options(limits)).map_err(library_error)
}

/// Tells whether a file is of a format that has graphs.
pub fn may_be_a_graph(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| Format::of(&bytes).is_ok_and(Format::has_graphs))
}

fn options(limits: &LimitsChoice) -> LoadOptions {
    LoadOptions { limits: limits.limits(), raw_categories: true, ..LoadOptions::default() }
}

/// Returns the graph with only one output. What only other outputs need is then not computed.
///
/// # Errors
/// The graph has no such output.
pub fn with_one_output(path: &Path, mut graph: Graph, output: Output) -> Result<Graph> {
    let operand = chosen(&graph, output).map_err(|what| Error::file(path, what))?;
    graph.outputs = vec![GraphOutput { name: "predictions".into(), operand }];
    Ok(graph)
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

/// Returns the forest that reads the rows directly. Its features name the columns.
fn forest_of_rows(graph: &Graph) -> Option<&Forest> {
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

/// The inputs of a graph, which are side by side in the rows.
pub struct GraphInputs<'g> {
    path: &'g Path,
    graph: &'g Graph,
    /// The number of columns of each input.
    widths: Vec<usize>,
}

impl<'g> GraphInputs<'g> {
    /// Finds the columns of each input.
    ///
    /// # Errors
    /// An input has no fixed number of columns.
    pub fn new(path: &'g Path, graph: &'g Graph) -> Result<Self> {
        let widths = graph.inputs.iter().map(width).collect::<Result<_, String>>();
        Ok(Self { path, graph, widths: widths.map_err(|what| Error::file(path, what))? })
    }

    /// Tells whether an input takes texts.
    pub fn are_texts(&self) -> bool {
        self.graph.inputs.iter().any(|input| input.dtype == Dtype::Text)
    }

    /// Returns a forest whose features are the columns of the rows. They have names if each of several inputs is one
    /// column, as those of a model that was trained on a table are.
    ///
    /// # Errors
    /// There are more columns than there is memory for.
    pub fn columns(&self) -> Result<Cow<'g, Forest>> {
        if let Some(forest) = forest_of_rows(self.graph) {
            return Ok(Cow::Borrowed(forest));
        }
        let all = self.widths.iter().try_fold(0usize, |sum, width| sum.checked_add(*width));
        let all = all
            .ok_or_else(|| Error::file(self.path, "its inputs have more columns than there is memory for"))?;
        let mut forest = rows::nameless(all)?;
        if self.graph.inputs.len() > 1 && self.widths.iter().all(|width| *width == 1) {
            for (feature, input) in forest.features.iter_mut().zip(&self.graph.inputs) {
                feature.name = Some(input.name.clone());
            }
        }
        Ok(Cow::Owned(forest))
    }

    /// Reads the rows into a tensor for each input. Columns of an input of texts stay texts.
    ///
    /// # Errors
    /// The file can't be read or has other columns.
    pub fn read(&self, rows: &Path, table: TableChoice) -> Result<Vec<Tensor>> {
        if !self.are_texts() {
            return self.of_rows(&rows::read_rows(rows, &*self.columns()?, table)?);
        }
        let mut wanted = Vec::new();
        for (input, width) in self.graph.inputs.iter().zip(&self.widths) {
            let (name, texts) = ((*width == 1).then_some(&input.name[..]), input.dtype == Dtype::Text);
            wanted.extend(std::iter::repeat_n(ColumnRequest { name, texts }, *width));
        }
        let columns = rows::read_mixed(rows, &wanted, table)?;
        let mut inputs = Vec::with_capacity(self.graph.inputs.len());
        let mut first = 0;
        for (input, width) in self.graph.inputs.iter().zip(&self.widths) {
            let columns = &columns[first..first + width];
            inputs.push(input_of(input, *width, side_by_side(input.dtype, columns))?);
            first += width;
        }
        Ok(inputs)
    }

    /// Returns the tensors of rows of numbers.
    ///
    /// # Errors
    /// An input takes texts.
    pub fn of_rows(&self, rows: &Matrix<f64>) -> Result<Vec<Tensor>> {
        let rows = rows.by_rows();
        let mut inputs = Vec::with_capacity(self.graph.inputs.len());
        let mut first = 0;
        for (input, width) in self.graph.inputs.iter().zip(&self.widths) {
            let of_row = |row: usize| &rows.row(row)[first..first + width];
            let values: Vec<f64> = (0..rows.rows).flat_map(of_row).copied().collect();
            inputs.push(input_of(input, *width, Elements::of_doubles(input.dtype, values))?);
            first += width;
        }
        Ok(inputs)
    }
}

/// A graph that predicts one of its outputs.
pub struct GraphScorer<'p> {
    path: &'p Path,
    predictor: GraphPredictor,
}

impl<'p> GraphScorer<'p> {
    /// Compiles a graph for one of its outputs. It runs on one thread, because each part of the rows has its own
    /// thread.
    ///
    /// # Errors
    /// The graph has no such output, or a forest can't be compiled.
    pub fn new(path: &'p Path, graph: Graph, output: Output) -> Result<Self> {
        let graph = with_one_output(path, graph, output)?;
        Ok(Self { path, predictor: compiled_graph(&graph, 1, &Passes::default()).map_err(library_error)? })
    }

    /// Tells whether rows may be predicted part by part.
    pub fn goes_by_rows(&self) -> bool {
        self.predictor.goes_by_rows()
    }

    /// Predicts rows.
    ///
    /// # Errors
    /// An operator does not take its operands, or the output does not have as many rows as the input.
    pub fn predict(&self, inputs: &[Tensor]) -> Result<Table> {
        let rows = inputs.first().and_then(|input| input.shape().first()).copied().unwrap_or(0);
        let found = self.predictor.predict(inputs).map_err(library_error)?;
        let [output] = &found[..] else { unreachable!("a graph of one output") };
        if output.shape().first() != Some(&rows) {
            let what =
                "the output does not have a row for each input row; print it with `fangorn graph --run`";
            return Err(Error::file(self.path, what));
        }
        Ok(table_of(output, rows))
    }
}

/// Returns an output of `rows` rows as a table.
fn table_of(output: &Tensor, rows: usize) -> Table {
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
    Table { rows, columns, values }
}

fn input_of(input: &GraphInput, width: usize, elements: Option<Elements>) -> Result<Tensor> {
    let elements =
        elements.ok_or_else(|| Error::Defect(format!("input `{}` of another type", input.name)))?;
    let rows = elements.len().checked_div(width).unwrap_or(0);
    let shape = if input.shape.len() == 1 { vec![rows] } else { vec![rows, width] };
    Tensor::new(shape, elements).ok_or_else(|| Error::Defect("columns of different lengths".into()))
}

/// Returns columns as the elements of a tensor, row after row, or `None` if they are of another type.
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

/// Returns the operand of an output. A classifier's labels come before its probabilities; the output of a graph with a
/// single output is values. Margins and leaves belong to a forest with linear models in its leaves.
pub fn chosen(graph: &Graph, output: Output) -> Result<Operand, String> {
    let leaves = linear_leaves(graph).map(|(at, _)| at);
    match (output, leaves) {
        (Output::Margin, Some(at)) => return Ok(Operand::Node(at, 0)),
        (Output::Leaf, Some(at)) => return Ok(Operand::Node(at, 1)),
        (Output::Value | Output::Class, _) => {}
        (_, Some(_)) => {
            return Err(
                "--output: the leaves have linear models, so this output does not exist; use value, class, margin or \
                leaf"
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
