//! Reads the text of a graph.

use std::{collections::HashMap, str::FromStr, sync::Arc};

use super::{
    error::GraphError,
    linear_leaves::{LeafModels, LinearLeaves},
    model::{Graph, GraphInput, GraphOutput, Node, Operand},
    networks::{Pool, Pooling, Window},
    operator::{Binary, Compare, Distance, Operator, Reduction, Unary},
    pattern::Pattern,
    tensor::{Dtype, Elements, Tensor},
    tensor_type::TensorType,
    texts::{Case, Ngrams, Normalizer, TextOperator, Tokenizer, Tokens, Weighing},
};
use crate::{
    cursor::Cursor,
    forest::{Coding, Feature, Forest, Real, UnseenCategory},
    sparse::SparseMatrix,
};

impl Tensor {
    /// Reads the text that `to_string` writes.
    ///
    /// ```
    /// use fangorn::graph::Tensor;
    ///
    /// let tensor = Tensor::parse("f32[2, 1] = [1.0, 2.5]")?;
    /// assert_eq!(tensor.shape(), [2, 1]);
    /// assert_eq!(Tensor::parse(&tensor.to_string())?, tensor);
    /// # Ok::<(), fangorn::graph::GraphError>(())
    /// ```
    ///
    /// # Errors
    /// The text describes no tensor, or its shape does not fit its number of elements.
    pub fn parse(text: &str) -> Result<Self, GraphError> {
        let mut cursor = Cursor::new(text);
        let read = tensor(&mut cursor).and_then(|tensor| cursor.end().map(|()| tensor));
        read.map_err(|cause| GraphError::at("the tensor", cause))
    }
}

impl Graph {
    /// Reads the text that `to_string` writes. Comments after `//` and blank lines are ignored. A node may be written
    /// without the types of its results.
    ///
    /// ```
    /// use fangorn::graph::Graph;
    ///
    /// let text = "input %in0 \"X\": f32[rows, 2]
    /// weight %w0: f32[2] = [10.0, 20.0]
    /// %0 \"Scaler\" = subtract(%in0, %w0)
    /// output \"scaled\": %0
    /// ";
    /// let graph = Graph::parse(text)?;
    /// assert_eq!(Graph::parse(&graph.to_string())?, graph);
    /// # Ok::<(), fangorn::graph::GraphError>(())
    /// ```
    ///
    /// # Errors
    /// A line is not as `to_string` writes it, the graph does not verify, or a node's results have other types than its
    /// line says.
    pub fn parse(text: &str) -> Result<Self, GraphError> {
        let mut graph = Self::default();
        let mut forests: Vec<Arc<Forest>> = Vec::new();
        // The types that lines of nodes give, with the number of the line.
        let mut stated = Vec::new();
        let mut lines = text.lines().enumerate().peekable();
        while let Some((at, line)) = lines.next() {
            let refused = |cause| GraphError::at(&format!("line {}", at + 1), cause);
            let line = without_comment(line);
            if line.trim().is_empty() {
                continue;
            }
            if line.trim_end() == format!("%f{}:", forests.len()) {
                // A forest's lines are indented.
                let mut indented = String::new();
                while let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with(' ')) {
                    indented.push_str(line);
                    indented.push('\n');
                }
                let forest =
                    Forest::from_text(&indented).map_err(|e| refused(format!("in the forest, {e}")))?;
                forests.push(Arc::new(forest));
                continue;
            }
            if let Some(types) = graph.read(line, &forests).map_err(refused)? {
                stated.push((at + 1, graph.nodes.len() - 1, types));
            }
        }
        let types = graph.types()?;
        for (line, node, stated) in stated {
            let text =
                |types: &[TensorType]| types.iter().map(TensorType::to_string).collect::<Vec<_>>().join(", ");
            let found = types.results(node);
            if found != stated {
                let cause = format!("the node gives {}, not {}", text(found), text(&stated));
                return Err(GraphError::at(&format!("line {line}"), cause));
            }
        }
        Ok(graph)
    }

    /// Reads a line. For a node, returns the types of its results if the line gives them.
    fn read(&mut self, line: &str, forests: &[Arc<Forest>]) -> Result<Option<Vec<TensorType>>, String> {
        let mut types = None;
        let mut cursor = Cursor::new(line);
        if cursor.take("input ") {
            cursor.expect(&Operand::Input(self.inputs.len() as u32).to_string())?;
            let name = cursor.string()?;
            cursor.expect(":")?;
            let dtype = dtype(&mut cursor)?;
            let shape = shape(&mut cursor)?;
            let mut columns = Vec::new();
            if cursor.take(",") {
                cursor.expect("columns=")?;
                columns = cursor.list(column)?;
            }
            self.inputs.push(GraphInput { name, dtype, shape, columns });
        } else if cursor.take("weight ") {
            cursor.expect(&Operand::Weight(self.weights.len() as u32).to_string())?;
            cursor.expect(":")?;
            let tensor = tensor(&mut cursor)?;
            self.weights.push(Arc::new(tensor));
        } else if cursor.take("output ") {
            let name = cursor.string()?;
            cursor.expect(":")?;
            let operand = operand(&mut cursor)?;
            self.outputs.push(GraphOutput { name, operand });
        } else {
            cursor.expect(&Operand::Node(self.nodes.len() as u32, 0).to_string())?;
            let name = cursor.string()?;
            cursor.expect("=")?;
            let (operator, operands) = operation(&mut cursor, forests)?;
            self.nodes.push(Node { name, operator, operands });
            if cursor.take(":") {
                types = Some(result_types(&mut cursor)?);
            }
        }
        cursor.end()?;
        Ok(types)
    }
}

/// Reads a column of an input: its name and its categories.
fn column(cursor: &mut Cursor<'_>) -> Result<Feature, String> {
    let name = if cursor.take("_") { None } else { Some(cursor.string()?) };
    if !cursor.take("of") {
        return Ok(Feature { name, ..Feature::default() });
    }
    let categories = cursor.list(Cursor::string)?;
    cursor.expect("unseen=")?;
    let unseen = match cursor.word() {
        "missing" => UnseenCategory::Missing,
        "refused" => UnseenCategory::Refused,
        "own" => UnseenCategory::Own,
        other => return Err(format!("`{other}` is none of missing, refused and own")),
    };
    let (numbers, needed) = (cursor.take("numbers"), cursor.take("needed"));
    Ok(Feature { name, categories, coding: Coding::Indices { numbers, unseen, needed } })
}

/// Reads a shape; `rows` stands for a length that may differ from batch to batch.
fn shape(cursor: &mut Cursor<'_>) -> Result<Vec<Option<usize>>, String> {
    cursor.list(|cursor| match cursor.take("rows") {
        true => Ok(None),
        false => cursor.parse().map(Some),
    })
}

/// Reads the types of a node's results, after the colon.
fn result_types(cursor: &mut Cursor<'_>) -> Result<Vec<TensorType>, String> {
    let mut types = Vec::new();
    loop {
        let dtype = dtype(cursor)?;
        let shape = match cursor.rest().trim_start().starts_with('[') {
            true => Some(shape(cursor)?),
            false => None,
        };
        types.push(TensorType { dtype, shape });
        if !cursor.take(",") {
            return Ok(types);
        }
    }
}

/// Returns a line without its comment. `//` in quotation marks is no comment.
fn without_comment(line: &str) -> &str {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'/' if !quoted && line.as_bytes().get(at + 1) == Some(&b'/') => return &line[..at],
            _ => {}
        }
    }
    line
}

fn dtype(cursor: &mut Cursor<'_>) -> Result<Dtype, String> {
    let name = cursor.word();
    let known = Dtype::ALL.into_iter().find(|dtype| dtype.name() == name);
    known.ok_or_else(|| format!("`{name}` is no type of elements"))
}

fn tensor(cursor: &mut Cursor<'_>) -> Result<Tensor, String> {
    let dtype = dtype(cursor)?;
    let shape = cursor.list(Cursor::parse::<usize>)?;
    cursor.expect("=")?;
    let elements = elements(cursor, dtype)?;
    let count = elements.len();
    let tensor = Tensor::new(shape.clone(), elements);
    tensor.ok_or_else(|| format!("{count} elements are no tensor of shape {shape:?}"))
}

fn elements(cursor: &mut Cursor<'_>, dtype: Dtype) -> Result<Elements, String> {
    Ok(match dtype {
        Dtype::Bool => Elements::Bool(cursor.list(Cursor::parse)?),
        Dtype::I32 => Elements::I32(cursor.list(Cursor::parse)?),
        Dtype::I64 => Elements::I64(cursor.list(Cursor::parse)?),
        Dtype::F32 => Elements::F32(cursor.list(Cursor::parse)?),
        Dtype::F64 => Elements::F64(cursor.list(Cursor::parse)?),
        Dtype::Text => Elements::Text(cursor.list(|cursor| cursor.string().map(Into::into))?),
    })
}

fn operand(cursor: &mut Cursor<'_>) -> Result<Operand, String> {
    cursor.expect("%")?;
    if cursor.take("in") {
        return cursor.parse().map(Operand::Input);
    }
    if cursor.take("w") {
        return cursor.parse().map(Operand::Weight);
    }
    let word = cursor.word();
    let (node, result) = word.split_once('.').unwrap_or((word, "0"));
    match (node.parse(), result.parse()) {
        (Ok(node), Ok(result)) => Ok(Operand::Node(node, result)),
        _ => Err(format!("`%{word}` is no operand")),
    }
}

/// The attributes of a node, by name.
struct Attributes<'t> {
    values: HashMap<&'t str, Cursor<'t>>,
}

impl<'t> Attributes<'t> {
    fn cursor(&mut self, name: &str) -> Result<Cursor<'t>, String> {
        self.values.remove(name).ok_or_else(|| format!("the attribute {name} is missing"))
    }

    fn parse<T: FromStr>(&mut self, name: &str) -> Result<T, String> {
        self.cursor(name)?.parse()
    }

    fn list<T: FromStr>(&mut self, name: &str) -> Result<Vec<T>, String> {
        self.cursor(name)?.list(Cursor::parse)
    }

    fn word(&mut self, name: &str) -> Result<String, String> {
        Ok(self.cursor(name)?.word().to_owned())
    }

    fn texts(&mut self, name: &str) -> Result<Vec<Arc<str>>, String> {
        self.cursor(name)?.list(|cursor| cursor.string().map(Into::into))
    }

    fn elements(&mut self, name: &str) -> Result<Elements, String> {
        let mut cursor = self.cursor(name)?;
        let dtype = dtype(&mut cursor)?;
        elements(&mut cursor, dtype)
    }
}

/// Reads an operator with its operands.
fn operation(cursor: &mut Cursor<'_>, forests: &[Arc<Forest>]) -> Result<(Operator, Vec<Operand>), String> {
    let name = cursor.word();
    cursor.expect("(")?;
    let mut operands = Vec::new();
    let mut attributes = Attributes { values: HashMap::new() };
    while !cursor.take(")") {
        if !(operands.is_empty() && attributes.values.is_empty()) {
            cursor.expect(",")?;
        }
        let mut ahead = *cursor;
        if ahead.take("%") {
            operands.push(operand(cursor)?);
            continue;
        }
        let attribute = cursor.word();
        cursor.expect("=")?;
        attributes.values.insert(attribute, *cursor);
        skip(cursor)?;
    }
    let operator = operator(name, &mut attributes, forests)?;
    match attributes.values.keys().next() {
        Some(other) => Err(format!("{name} has no attribute {other}")),
        None => Ok((operator, operands)),
    }
}

/// Skips an attribute's value, up to the comma or bracket after it.
fn skip(cursor: &mut Cursor<'_>) -> Result<(), String> {
    let mut depth = 0usize;
    loop {
        let mut ahead = *cursor;
        if ahead.take("\"") {
            cursor.string()?;
        } else if cursor.take("[") {
            depth += 1;
        } else if depth == 0 && (ahead.rest().trim_start().starts_with([',', ')'])) {
            return Ok(());
        } else if cursor.take("]") {
            depth = depth.checked_sub(1).ok_or("`]` closes nothing")?;
        } else if !(cursor.take(",") || cursor.take(":") || cursor.take("%")) && cursor.word().is_empty() {
            return Err("an attribute has no end".into());
        }
    }
}

fn operator(
    name: &str,
    attributes: &mut Attributes<'_>,
    forests: &[Arc<Forest>],
) -> Result<Operator, String> {
    let plain = Unary::ALL
        .into_iter()
        .map(Operator::Unary)
        .chain(Binary::ALL.into_iter().map(Operator::Binary))
        .chain(Compare::ALL.into_iter().map(Operator::Compare))
        .chain(Distance::ALL.into_iter().map(Operator::Distances))
        .chain([Operator::Where, Operator::MatMul, Operator::ReshapeAs, Operator::Shape, Operator::Solve])
        .find(|operator| operator.name() == name);
    if let Some(operator) = plain {
        return Ok(operator);
    }
    for how in Reduction::ALL {
        if (Operator::Reduce { how, axes: Vec::new(), keep: false }).name() == name {
            return Ok(Operator::Reduce {
                how,
                axes: attributes.list("axes")?,
                keep: attributes.parse("keep")?,
            });
        }
    }
    Ok(match name {
        "cast" => Operator::Cast(dtype(&mut attributes.cursor("to")?)?),
        "softmax" => Operator::Softmax { axis: attributes.parse("axis")? },
        "argMax" | "argMin" => Operator::ArgExtreme {
            axis: attributes.parse("axis")?,
            keep: attributes.parse("keep")?,
            greatest: name == "argMax",
            last: attributes.parse("last")?,
        },
        "topK" => Operator::TopK {
            axis: attributes.parse("axis")?,
            k: attributes.parse("k")?,
            greatest: attributes.parse("greatest")?,
        },
        "gather" => Operator::Gather { axis: attributes.parse("axis")? },
        "gatherElements" => Operator::GatherElements { axis: attributes.parse("axis")? },
        "compress" => Operator::Compress { axis: attributes.parse("axis")? },
        "scatterElements" => Operator::ScatterElements { axis: attributes.parse("axis")? },
        "concat" => Operator::Concat { axis: attributes.parse("axis")? },
        "cumulativeSum" => Operator::CumulativeSum { axis: attributes.parse("axis")? },
        "reshape" => Operator::Reshape(attributes.list("to")?),
        "transpose" => Operator::Transpose(attributes.list("order")?),
        "slice" => Operator::Slice {
            axis: attributes.parse("axis")?,
            start: attributes.parse("start")?,
            end: attributes.parse("end")?,
            step: attributes.parse("step")?,
        },
        "unsqueeze" => Operator::Unsqueeze(attributes.list("axes")?),
        "squeeze" => Operator::Squeeze(attributes.list("axes")?),
        "fill" => Operator::Fill(attributes.elements("with")?),
        "lookup" => Operator::Lookup {
            keys: attributes.elements("keys")?,
            values: attributes.elements("values")?,
            other: attributes.elements("other")?,
        },
        "imputeNeighbors" => Operator::ImputeNeighbors {
            neighbors: attributes.parse("neighbors")?,
            by_distance: attributes.parse("byDistance")?,
        },
        "couplePairs" => Operator::CouplePairs { classes: attributes.parse("classes")? },
        "sparseMatmul" => Operator::SparseMatMul(Arc::new(sparse(attributes)?)),
        "convolve" => Operator::Convolve { window: window(attributes)?, groups: attributes.parse("groups")? },
        "pool" => Operator::Pool(Pool {
            how: named(&Pooling::ALL, Pooling::name, &attributes.word("how")?)?,
            size: lengths(attributes, "size")?,
            window: window(attributes)?,
        }),
        "layerNorm" => Operator::LayerNorm { epsilon: attributes.parse("epsilon")? },
        "leafSlots" => Operator::LeafSlots(trees(attributes, forests)?),
        "forest" => Operator::Forest(trees(attributes, forests)?),
        "linearLeaves" => {
            let forest = trees(attributes, forests)?;
            let constants = attributes.list("constants")?.into_iter().map(Real).collect();
            let (offsets, columns, coefficients) = terms(attributes, "terms")?;
            let coefficients = coefficients.into_iter().map(Real).collect();
            let models = LeafModels { constants, offsets, columns, coefficients };
            Operator::LinearLeaves(Arc::new(LinearLeaves::new(forest, models)?))
        }
        _ => match text_operator(name, attributes)? {
            Some(operator) => Operator::Texts(operator),
            None => return Err(format!("there is no operator {name:?}")),
        },
    })
}

/// Reads a list of `N` lengths.
fn lengths<const N: usize>(attributes: &mut Attributes<'_>, name: &str) -> Result<[usize; N], String> {
    let found: Vec<usize> = attributes.list(name)?;
    found.try_into().map_err(|_| format!("the attribute {name} has not {N} numbers"))
}

fn window(attributes: &mut Attributes<'_>) -> Result<Window, String> {
    Ok(Window {
        strides: lengths(attributes, "strides")?,
        padding: lengths(attributes, "padding")?,
        dilations: lengths(attributes, "dilations")?,
    })
}

fn text_operator(name: &str, attributes: &mut Attributes<'_>) -> Result<Option<TextOperator>, String> {
    Ok(Some(match name {
        "normalizeTexts" => TextOperator::Normalize(Arc::new(Normalizer {
            case: named(&Case::ALL, Case::name, &attributes.word("case")?)?,
            exact: attributes.parse("exact")?,
            stopwords: attributes.texts("stopwords")?,
        })),
        "tokenize" => {
            let patterns = attributes.texts("patterns")?;
            let mut patterns =
                patterns.iter().map(|text| Pattern::new(text)).collect::<Result<Vec<_>, _>>()?;
            let tokens = match (&attributes.word("tokens")?[..], patterns.len()) {
                ("characters", 0) => Tokens::Characters,
                ("matches", 1) => Tokens::Matches(patterns.swap_remove(0)),
                ("between", _) => Tokens::Between(patterns),
                (other, count) => return Err(format!("tokens {other:?} do not have {count} patterns")),
            };
            TextOperator::Tokenize(Arc::new(Tokenizer {
                tokens,
                least: attributes.parse("least")?,
                has_delimiters: attributes.parse("mark")?,
                padding: attributes.cursor("padding")?.string()?.into(),
            }))
        }
        "countNgrams" => {
            let weighing = named(&Weighing::ALL, Weighing::name, &attributes.word("weighing")?)?;
            let lengths = attributes.list("lengths")?;
            let [least, most] = lengths[..] else { return Err("it has two lengths".into()) };
            let pool = (attributes.elements("pool")?, attributes.list("starts")?);
            let columns = (attributes.list("columns")?, attributes.list("weights")?);
            let skips = attributes.parse("skips")?;
            TextOperator::CountNgrams(Arc::new(Ngrams::new(weighing, [least, most], skips, pool, columns)?))
        }
        "murmurHash" => {
            TextOperator::Hash { seed: attributes.parse("seed")?, positive: attributes.parse("positive")? }
        }
        _ => return Ok(None),
    }))
}

/// Returns the one of all that has a name.
fn named<T: Copy>(all: &[T], name_of: impl Fn(T) -> &'static str, name: &str) -> Result<T, String> {
    all.iter().copied().find(|one| name_of(*one) == name).ok_or_else(|| format!("{name:?} is not known"))
}

fn trees(attributes: &mut Attributes<'_>, forests: &[Arc<Forest>]) -> Result<Arc<Forest>, String> {
    let mut cursor = attributes.cursor("trees")?;
    cursor.expect("%f")?;
    let at: usize = cursor.parse()?;
    let forest = forests.get(at).ok_or_else(|| format!("there is no forest %f{at} before this line"))?;
    Ok(Arc::clone(forest))
}

/// Compressed rows: the index at which each row begins and the last one ends, the columns, and the values.
type Terms = (Vec<usize>, Vec<u32>, Vec<f64>);

/// Reads rows of `column:value` as compressed rows.
fn terms(attributes: &mut Attributes<'_>, name: &str) -> Result<Terms, String> {
    let element = |cursor: &mut Cursor<'_>| {
        let column: u32 = cursor.parse()?;
        cursor.expect(":")?;
        Ok((column, cursor.parse::<f64>()?))
    };
    let rows = attributes.cursor(name)?.list(|cursor| cursor.list(element))?;
    let mut offsets = vec![0];
    for row in &rows {
        offsets.push(offsets.last().copied().unwrap_or(0) + row.len());
    }
    let (columns, values) = rows.iter().flatten().copied().unzip();
    Ok((offsets, columns, values))
}

fn sparse(attributes: &mut Attributes<'_>) -> Result<SparseMatrix<f64>, String> {
    let columns: usize = attributes.parse("columns")?;
    let (offsets, indices, values) = terms(attributes, "rows")?;
    let matrix = SparseMatrix::new([offsets.len() - 1, columns], offsets, indices, values);
    matrix.ok_or_else(|| "columns of a row ascend and are below the number of columns".into())
}
