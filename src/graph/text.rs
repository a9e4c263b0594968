//! The text of a graph: a line for each input, weight, node and output, and the text of each forest.
//!
//! ```text
//! input %in0 "X": f32[rows, 2]
//! weight %w0: f32[2] = [10.0, 20.0]  // 100.0% filled, exact in i8
//! %0 "Scaler" = subtract(%in0, %w0): f32[rows, 2]  // arithmetic in f32
//! %1 "ArgMax" = argMax(%0, axis=1, keep=false, last=false): i64[rows]  // indices in f32
//! output "label": %1
//! ```
//!
//! A node's line is its record in CMLCompiler (section 3.2): its weights and its inputs, its operator, the types of
//! its results, and in the comment its kind, the type that it computes in, and whether it skips a weight's zeros.

use std::{
    fmt::{self, Write},
    sync::Arc,
};

use super::{
    model::{Graph, Operand},
    networks::Window,
    operator::Operator,
    tensor_text::{list, shape, typed},
    tensor_type::TensorType,
};
use crate::forest::{Coding, Feature, Forest, UnseenCategory};

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(at) => write!(f, "%in{at}"),
            Self::Weight(at) => write!(f, "%w{at}"),
            Self::Node(at, 0) => write!(f, "%{at}"),
            Self::Node(at, result) => write!(f, "%{at}.{result}"),
        }
    }
}

/// Writes the name of a column and its categories. `_` stands for a column without a name.
fn column_text(column: &Feature, most: usize) -> String {
    let name = column.name.as_ref().map_or("_".to_owned(), |name| format!("{name:?}"));
    let Coding::Indices { numbers, unseen, needed } = &column.coding else { return name };
    let categories: Vec<String> = column.categories.iter().map(|category| format!("{category:?}")).collect();
    let mut text = format!("{name} of [{}]", shortened(categories.join(", "), most));
    text.push_str(match unseen {
        UnseenCategory::Missing => " unseen=missing",
        UnseenCategory::Refused => " unseen=refused",
        UnseenCategory::Own => " unseen=own",
    });
    for (is_set, flag) in [(*numbers, " numbers"), (*needed, " needed")] {
        text.push_str(if is_set { flag } else { "" });
    }
    text
}

/// Returns an operator's attributes, as a graph's text lists them after the operands.
fn attributes(operator: &Operator, forests: &[Arc<Forest>]) -> Vec<String> {
    match operator {
        Operator::Cast(dtype) => vec![format!("to={dtype}")],
        Operator::Reduce { axes, keep, .. } => vec![format!("axes={axes:?}"), format!("keep={keep}")],
        Operator::Softmax { axis }
        | Operator::Gather { axis }
        | Operator::Concat { axis }
        | Operator::GatherElements { axis }
        | Operator::Compress { axis }
        | Operator::ScatterElements { axis }
        | Operator::CumulativeSum { axis } => vec![format!("axis={axis}")],
        Operator::ArgExtreme { axis, keep, last, .. } => {
            vec![format!("axis={axis}"), format!("keep={keep}"), format!("last={last}")]
        }
        Operator::TopK { axis, k, greatest } => {
            vec![format!("axis={axis}"), format!("k={k}"), format!("greatest={greatest}")]
        }
        Operator::Reshape(lengths) => vec![format!("to={lengths:?}")],
        Operator::Transpose(order) => vec![format!("order={order:?}")],
        Operator::Slice { axis, start, end, step } => {
            vec![
                format!("axis={axis}"),
                format!("start={start}"),
                format!("end={end}"),
                format!("step={step}"),
            ]
        }
        Operator::Unsqueeze(axes) | Operator::Squeeze(axes) => vec![format!("axes={axes:?}")],
        Operator::CouplePairs { classes } => vec![format!("classes={classes}")],
        Operator::ImputeNeighbors { neighbors, by_distance } => {
            vec![format!("neighbors={neighbors}"), format!("byDistance={by_distance}")]
        }
        Operator::Fill(with) => vec![format!("with={}", typed(with))],
        Operator::Lookup { keys, values, other } => vec![
            format!("keys={}", typed(keys)),
            format!("values={}", typed(values)),
            format!("other={}", typed(other)),
        ],
        Operator::Texts(operator) => {
            operator.attributes().into_iter().map(|(name, value)| format!("{name}={value}")).collect()
        }
        Operator::SparseMatMul(weights) => {
            let (rows, columns) = weights.shape();
            let row = |row| {
                let elements: Vec<String> =
                    weights.row(row).map(|(column, value)| format!("{column}:{value:?}")).collect();
                format!("[{}]", elements.join(", "))
            };
            let all: Vec<String> = (0..rows).map(row).collect();
            vec![format!("columns={columns}"), format!("rows=[{}]", all.join(", "))]
        }
        Operator::Convolve { window, groups } => {
            let mut all = window_attributes(window);
            all.push(format!("groups={groups}"));
            all
        }
        Operator::Pool(pool) => {
            let mut all = vec![format!("how={}", pool.how.name()), format!("size={:?}", pool.size)];
            all.extend(window_attributes(&pool.window));
            all
        }
        Operator::LayerNorm { epsilon } => vec![format!("epsilon={epsilon:?}")],
        Operator::Forest(forest) | Operator::LeafSlots(forest) => vec![trees(forest, forests)],
        Operator::LinearLeaves(leaves) => {
            let models = leaves.models();
            let leaf = |slot| {
                let terms =
                    models.terms(slot).map(|(column, coefficient)| format!("{column}:{coefficient:?}"));
                format!("[{}]", terms.collect::<Vec<_>>().join(", "))
            };
            let all: Vec<String> = (0..models.constants.len()).map(leaf).collect();
            vec![
                trees(leaves.forest(), forests),
                format!("constants={:?}", models.constants),
                format!("terms=[{}]", all.join(", ")),
            ]
        }
        Operator::Unary(_)
        | Operator::Binary(_)
        | Operator::Compare(_)
        | Operator::Where
        | Operator::MatMul
        | Operator::ReshapeAs
        | Operator::Shape
        | Operator::Solve
        | Operator::Distances(_) => Vec::new(),
    }
}

/// Returns the attributes that say how a window moves.
fn window_attributes(window: &Window) -> Vec<String> {
    let Window { strides, padding, dilations } = window;
    vec![format!("strides={strides:?}"), format!("padding={padding:?}"), format!("dilations={dilations:?}")]
}

/// Returns the attribute that names an operator's forest.
fn trees(forest: &Arc<Forest>, forests: &[Arc<Forest>]) -> String {
    let at = forests.iter().position(|known| Arc::ptr_eq(known, forest)).unwrap_or(0);
    format!("trees=%f{at}")
}

/// Writes a list that has more characters than `most` as its first elements and `…`.
fn shortened(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => {
            let whole = text[..end].rfind(", ").unwrap_or(end);
            format!("{}, …", &text[..whole])
        }
        None => text,
    }
}

impl Graph {
    /// Returns the forests of the graph, each once.
    pub fn forests(&self) -> Vec<Arc<Forest>> {
        let mut found: Vec<Arc<Forest>> = Vec::new();
        for node in &self.nodes {
            if let Some(forest) = node.operator.forest()
                && !found.iter().any(|known| Arc::ptr_eq(known, forest))
            {
                found.push(Arc::clone(forest));
            }
        }
        found
    }

    /// Returns a short text for readers. It leaves out the nodes of trees, and all but the beginnings of long lists
    /// of numbers.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = self.write(&mut text, false);
        text
    }

    fn write(&self, f: &mut impl Write, whole: bool) -> fmt::Result {
        let most = if whole { usize::MAX } else { 40 };
        for (at, input) in self.inputs.iter().enumerate() {
            let lengths = shape(input.shape.iter().copied());
            let columns: Vec<String> = input.columns.iter().map(|column| column_text(column, most)).collect();
            write!(f, "input %in{at} {:?}: {}{lengths}", input.name, input.dtype)?;
            match columns.is_empty() {
                true => writeln!(f)?,
                false => writeln!(f, ", columns=[{}]", shortened(columns.join(", "), most))?,
            }
        }
        for (at, tensor) in self.weights.iter().enumerate() {
            let lengths = shape(tensor.shape().iter().map(|length| Some(*length)));
            let elements = shortened(list(tensor.elements()), most);
            write!(f, "weight %w{at}: {}{lengths} = {elements}", tensor.dtype())?;
            write!(f, "  // {:.1}% filled", 100.0 * tensor.density())?;
            match tensor.smallest_type() {
                Some(smallest) => writeln!(f, ", exact in {}", smallest.name())?,
                None => writeln!(f)?,
            }
        }
        let forests = self.forests();
        for (at, forest) in forests.iter().enumerate() {
            let text = forest.to_text();
            let lines = if whole { usize::MAX } else { 1 };
            writeln!(f, "%f{at}:")?;
            text.lines().take(lines).try_for_each(|line| writeln!(f, "  {line}"))?;
        }
        // A graph that does not verify is printed without types.
        let types = self.types().ok();
        for (at, node) in self.nodes.iter().enumerate() {
            let mut operands: Vec<_> = node.operands.iter().map(Operand::to_string).collect();
            let attributes = attributes(&node.operator, &forests);
            operands.extend(attributes.into_iter().map(|attribute| shortened(attribute, most)));
            let (operator, kind) = (&node.operator, node.operator.kind().name());
            write!(f, "%{at} {:?} = {operator}({})", node.name, operands.join(", "))?;
            if let Some(types) = &types {
                let results: Vec<_> = types.results(at).iter().map(TensorType::to_string).collect();
                write!(f, ": {}  // {kind} in {}", results.join(", "), types.computed_in(at, node))?;
            } else {
                write!(f, "  // {kind}")?;
            }
            writeln!(f, "{}", if operator.skips_zeros() { ", sparse" } else { "" })?;
        }
        for output in &self.outputs {
            writeln!(f, "output {:?}: {}", output.name, output.operand)?;
        }
        Ok(())
    }
}

impl fmt::Display for Graph {
    /// Writes the whole graph, with all elements of its weights and the nodes of its trees, as [`Graph::parse`]
    /// reads it. A comment gives for each weight the fraction of elements that are not 0 and the smallest type that
    /// holds them exactly. For each node it gives the kind and the type that the node computes in.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, true)
    }
}
