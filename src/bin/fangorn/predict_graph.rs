//! `fangorn predict` for a graph of classical operators: a file that is more than one tree ensemble, or has linear
//! models in its leaves.

use std::{path::Path, sync::Arc};

use fangorn::{
    Forest,
    graph::{Dtype, Elements, Graph, GraphInput, GraphPredictor, Passes, Prediction, Tensor},
    import::{self, ErrorKind, Format, LoadOptions},
};

use crate::{
    error::{Error, Result},
    library_error,
    limits::LimitsChoice,
    output::{Table, Values},
    predict::Output,
    rows::{self, ColumnRequest, Matrix, MixedRows, OnError, RowBatch, RowsInParts, TableChoice},
    schedule::compiled_graph,
    tables::KeptColumn,
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
pub fn with_one_output(path: &Path, graph: &Graph, output: Output) -> Result<Graph> {
    let wanted = match output {
        Output::Value => Prediction::Value,
        Output::Class => Prediction::Class,
        Output::Margin if graph.linear_leaves().is_some() => Prediction::Margin,
        Output::Leaf if graph.linear_leaves().is_some() => Prediction::Leaf,
        _ => {
            let what = match graph.linear_leaves() {
                Some(_) => {
                    "--output: the leaves have linear models, so this output does not exist; use value, class, margin \
                     or leaf"
                }
                None => "--output: the file is a graph, which has values and classes; use value or class",
            };
            return Err(Error::file(path, what));
        }
    };
    graph.predicting(wanted).map_err(|e| {
        let remedy = if output == Output::Class { "use --output value" } else { "use --output class" };
        Error::file(path, format!("{}; {remedy}", e.cause))
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
        let widths = graph.inputs.iter().map(GraphInput::width).collect::<Result<_, _>>();
        Ok(Self { path, graph, widths: widths.map_err(|e| Error::file(path, e.to_string()))? })
    }

    /// Tells whether an input takes texts.
    pub fn are_texts(&self) -> bool {
        self.graph.inputs.iter().any(|input| input.dtype == Dtype::Text)
    }

    /// Returns a forest whose features are the columns of the rows.
    ///
    /// # Errors
    /// There are too many columns.
    pub fn columns(&self) -> Result<Forest> {
        self.graph.rows().map_err(|e| Error::file(self.path, e.to_string()))
    }

    /// Returns a forest of no trees, whose features are the columns of numbers if an input takes texts, and otherwise all
    /// columns of the rows.
    ///
    /// # Errors
    /// There are too many columns.
    pub fn numbers(&self) -> Result<Forest> {
        match self.are_texts() {
            true => rows::nameless(self.requests().iter().filter(|request| !request.texts).count()),
            false => self.columns(),
        }
    }

    /// Opens the rows to read them part by part. `numbers` are [those](Self::numbers) of the inputs. Returns `None` if the
    /// rows have to be read whole.
    ///
    /// # Errors
    /// The file can't be read or has other columns.
    pub fn open<'f>(
        &self,
        path: &'f Path,
        numbers: &'f Forest,
        table: TableChoice,
        keep: &[String],
        on_error: OnError,
    ) -> Result<Option<RowsInParts<'f>>> {
        match self.are_texts() {
            true => RowsInParts::open_mixed(path, &self.requests(), numbers, table, keep, on_error).map(Some),
            false => RowsInParts::open(path, numbers, table, keep, on_error),
        }
    }

    /// Returns a made-up row of the inputs: zeros and empty texts.
    pub fn made_up_row(&self, numbers: &Forest) -> RowBatch<f64> {
        let columns = numbers.features.len();
        let rows = Matrix::of_rows(1, columns, vec![0.0; columns]);
        let texts = self.requests().iter().filter(|request| request.texts).count();
        let texts = (0..texts).map(|_| KeptColumn::Texts([""].into_iter().collect())).collect();
        RowBatch { texts, ..RowBatch::of_numbers(rows) }
    }

    /// Returns the columns that the inputs are made of.
    fn requests(&self) -> Vec<ColumnRequest<'g>> {
        let mut wanted = Vec::new();
        for (input, width) in self.graph.inputs.iter().zip(&self.widths) {
            let (name, texts) = ((*width == 1).then_some(&input.name[..]), input.dtype == Dtype::Text);
            wanted.extend(std::iter::repeat_n(ColumnRequest { name, texts }, *width));
        }
        wanted
    }

    /// Reads the rows into a tensor for each input. Columns of an input of texts stay texts.
    ///
    /// # Errors
    /// The file can't be read or has other columns.
    pub fn read(&self, path: &Path, table: TableChoice) -> Result<Vec<Tensor>> {
        match self.are_texts() {
            true => {
                let MixedRows { numbers, texts } = rows::read_mixed(path, &self.requests(), table)?;
                self.of_mixed(&numbers, &texts)
            }
            false => self.of_rows(&rows::read_rows(path, &self.columns()?, table)?),
        }
    }

    /// Returns the tensors of a batch.
    ///
    /// # Errors
    /// A column of texts holds other values.
    pub fn of_batch(&self, batch: &RowBatch<f64>, path: &Path) -> Result<Vec<Tensor>> {
        match self.are_texts() {
            true => self.of_mixed(&batch.rows.by_rows(), &rows::texts_of(&batch.texts, path)?),
            false => self.of_rows(&batch.rows),
        }
    }

    /// Returns the tensors of columns of numbers and of texts.
    fn of_mixed(&self, numbers: &Matrix<f64>, texts: &[Vec<Arc<str>>]) -> Result<Vec<Tensor>> {
        // The columns of each kind that the inputs so far have taken.
        let (mut of_numbers, mut of_texts) = (0, 0);
        let mut inputs = Vec::with_capacity(self.graph.inputs.len());
        for (input, width) in self.graph.inputs.iter().zip(&self.widths) {
            let rows = 0..numbers.rows;
            let elements = if input.dtype == Dtype::Text {
                let own = &texts[of_texts..][..*width];
                of_texts += width;
                Some(Elements::Text(
                    rows.flat_map(|r| own.iter().map(move |column| column[r].clone())).collect(),
                ))
            } else {
                let columns = of_numbers..of_numbers + width;
                of_numbers += width;
                let values: Vec<f64> =
                    rows.flat_map(|r| numbers.row(r)[columns.clone()].iter().copied()).collect();
                let whole = matches!(input.dtype, Dtype::I64 | Dtype::I32 | Dtype::Bool);
                if let Some(odd) = values.iter().position(|value| whole && value.fract() != 0.0) {
                    return Err(Error::file(
                        self.path,
                        format!(
                            "row {} of a batch: the input `{}` takes whole numbers, not {}; write one",
                            odd / width.max(&1),
                            input.name,
                            if values[odd].is_nan() {
                                "a missing value".into()
                            } else {
                                values[odd].to_string()
                            }
                        ),
                    ));
                }
                Elements::of_doubles(input.dtype, values)
            };
            let elements =
                elements.ok_or_else(|| Error::Defect(format!("input `{}` of another type", input.name)))?;
            let rows = numbers.rows;
            let shape = if input.shape.len() == 1 { vec![rows] } else { vec![rows, *width] };
            let tensor = Tensor::new(shape, elements);
            inputs.push(tensor.ok_or_else(|| Error::Defect("columns of different lengths".into()))?);
        }
        Ok(inputs)
    }

    /// Returns the tensors of rows of numbers.
    ///
    /// # Errors
    /// An input takes texts.
    pub fn of_rows(&self, rows: &Matrix<f64>) -> Result<Vec<Tensor>> {
        let inputs = self.graph.inputs_of_rows(&rows.by_rows().values);
        inputs.map_err(|e| Error::file(self.path, e.to_string()))
    }
}

/// A graph that predicts one of its outputs.
pub struct GraphScorer<'p> {
    path: &'p Path,
    predictor: GraphPredictor,
}

impl<'p> GraphScorer<'p> {
    /// Compiles a graph with one output. It runs on one thread, because each part of the rows has its own thread.
    ///
    /// # Errors
    /// A forest can't be compiled.
    pub fn new(path: &'p Path, graph: &Graph) -> Result<Self> {
        Ok(Self { path, predictor: compiled_graph(graph, 1, &Passes::default()).map_err(library_error)? })
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
            let what = format!(
                "the output has shape {:?} for {rows} rows, so its rows can't be told; print it with `fangorn graph --run`",
                output.shape()
            );
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
