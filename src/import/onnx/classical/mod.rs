//! Reads a whole graph of classical operators: preprocessing, linear models, support vector machines and forests.
//!
//! An operator of the file becomes one or a few operators of [`Graph`]. An operator that is not supported is
//! refused by its name.
//!
//! | file | subject |
//! |---|---|
//! | `tensors` | tensors of the file |
//! | `standard` | ONNX's own operators |
//! | `learning` | the operators of `ai.onnx.ml`, and linear models among them |
//! | `vectors` | support vector machines |
//! | `forests` | tree ensembles |
//! | `networks` | ONNX's operators of networks |
//! | `indices` | operators that select or replace elements by their indices |
//! | `texts` | operators on texts |
//! | `scan` | loops over rows that compute distances |
//! | `maps` | inputs that are maps |
//! | `neighbors` | imputers of the nearest rows, which skl2onnx writes as functions |

mod forests;
mod indices;
mod learning;
mod maps;
mod neighbors;
mod networks;
mod scan;
mod standard;
mod tensors;
mod texts;
mod vectors;

use std::collections::HashMap;

use super::super::{ErrorKind, ImportError, LoadOptions, Location, budget::Budget};
use super::{
    at,
    attributes::Attributes,
    graph::{ML, NEWEST_ML, named},
    proto::{self, NodeProto, TensorProto, ValueInfoProto},
};
use crate::graph::{Dtype, Elements, Graph, Operand, Operator, Tensor};

/// The newest version of ONNX's own operators whose meaning is read here. Versions 26 and 27 changed none of them.
const NEWEST: i64 = 27;
/// The remedy for an operator that is not supported.
const REMEDY: &str = "predict with the operators around it, or ask for the operator by its name";

/// Reads the graph that a file describes.
pub(in super::super) fn graph(bytes: &[u8], options: &LoadOptions) -> Result<Graph, ImportError> {
    let model = proto::decode_file(bytes)?;
    for opset in &model.opset_import {
        let newest = match &opset.domain[..] {
            "" | "ai.onnx" => NEWEST,
            domain if domain == ML => NEWEST_ML,
            _ => continue,
        };
        if opset.version > newest {
            let cause = format!(
                "version {} of the operators of {:?} is newer than {newest}",
                opset.version, opset.domain
            );
            return Err(at(ErrorKind::Unsupported, "opset_import", cause)
                .with_remedy("convert the model with an older target_opset"));
        }
    }
    let Some(graph) = model.graph else {
        return Err(at(ErrorKind::Schema, "graph", "missing field"));
    };
    let mut reader = Reader {
        graph: Graph::default(),
        values: HashMap::new(),
        sequences: HashMap::new(),
        maps: HashMap::new(),
        searches: 0,
        options,
    };
    for (i, bytes) in graph.initializer.iter().enumerate() {
        let location = format!("graph.initializer[{i}]");
        let tensor: TensorProto = proto::decode(bytes.clone(), &location)?;
        let weight = reader.weight(tensors::tensor(&tensor, &location)?);
        reader.values.insert(tensor.name, weight);
    }
    for (i, bytes) in graph.input.iter().enumerate() {
        let location = format!("graph.input[{i}]");
        let input: ValueInfoProto = proto::decode(bytes.clone(), &location)?;
        // Old files list their initializers among the inputs.
        if !reader.values.contains_key(&input.name) && !reader.map_input(&input, &location)? {
            reader.input(input, &location)?;
        }
    }
    let mut nodes: Vec<(String, NodeProto)> = Vec::with_capacity(graph.node.len());
    for (i, bytes) in graph.node.iter().enumerate() {
        let location = format!("graph.node[{i}]");
        let node = proto::decode(bytes.clone(), &location)?;
        nodes.push((location, node));
    }
    let outputs =
        graph.output.iter().map(|bytes| proto::decode::<ValueInfoProto>(bytes.clone(), "graph.output"));
    let outputs = outputs.map(|output| output.map(|output| output.name)).collect::<Result<Vec<_>, _>>()?;
    neighbors::put_together(&mut nodes, &outputs);
    for (location, node) in &nodes {
        reader.node(node, location)?;
    }
    for (i, bytes) in graph.output.iter().enumerate() {
        let location = format!("graph.output[{i}]");
        let output: ValueInfoProto = proto::decode(bytes.clone(), &location)?;
        // The tensors of a sequence are outputs of their own.
        if let Some(values) = reader.sequences.get(&output.name) {
            for (n, value) in values.iter().enumerate() {
                reader.graph.output(&format!("{}[{n}]", output.name), value.operand);
            }
            continue;
        }
        let value = reader.value(&output.name, &location)?;
        let declared = output.r#type.and_then(|t| t.tensor_type).and_then(|t| tensors::widened(t.elem_type));
        if let Some(declared) = declared.filter(|of| (*of == Dtype::Text) != (value.dtype == Dtype::Text)) {
            let cause = format!(
                "output `{}` is declared as {declared}, and the operators compute {}",
                output.name, value.dtype
            );
            return Err(at(ErrorKind::Structure, location, cause).with_remedy(
                "the converter wrote a wrong file: use classes that are numbers, or another converter",
            ));
        }
        reader.graph.output(&output.name, value.operand);
    }
    let Reader { graph, .. } = reader;
    graph.verify().map_err(|e| {
        at(ErrorKind::Structure, e.location, e.cause).with_remedy(
            "the operators of the file do not fit together: convert the model with inputs of one type, such as float",
        )
    })?;
    Ok(graph)
}

/// A value of the file: its operand in the graph, and its type.
#[derive(Clone, Copy)]
struct Value {
    operand: Operand,
    dtype: Dtype,
}

struct Reader<'o> {
    graph: Graph,
    values: HashMap<String, Value>,
    /// Lists of tensors, which a file may have as one output.
    sequences: HashMap<String, Vec<Value>>,
    /// The inputs that are maps, with the type of their values.
    maps: HashMap<String, Dtype>,
    /// How often a shape was searched for.
    searches: u32,
    options: &'o LoadOptions,
}

/// A node of the file while it is read.
struct Source<'n> {
    node: &'n NodeProto,
    /// The location in the file.
    location: &'n str,
    /// The operator and its name.
    name: String,
    operands: Vec<Value>,
    attributes: Attributes,
}

impl Source<'_> {
    fn operand(&self, at: usize) -> Result<Value, ImportError> {
        self.operands.get(at).copied().ok_or_else(|| {
            let cause =
                format!("{} has {} inputs, and input {at} is missing", self.name, self.operands.len());
            super::super::error::at(ErrorKind::Structure, self.location, cause)
        })
    }

    fn unsupported(&self, why: &str) -> ImportError {
        at(ErrorKind::Unsupported, self.location, format!("operator {} is not supported{why}", self.name))
            .with_remedy(REMEDY)
    }
}

impl Reader<'_> {
    fn input(&mut self, input: ValueInfoProto, location: &str) -> Result<(), ImportError> {
        let tensor = input.r#type.and_then(|t| t.tensor_type);
        let dtype = tensor.as_ref().and_then(|tensor| tensors::widened(tensor.elem_type));
        let (Some(tensor), Some(dtype)) = (tensor, dtype) else {
            let cause = format!("input `{}` is no tensor of a type that is read", input.name);
            return Err(at(ErrorKind::Unsupported, location, cause)
                .with_remedy("convert the model with inputs of float, double, int64 or string"));
        };
        let length = |value: i64| usize::try_from(value).ok().filter(|length| *length > 0);
        let lengths = tensor.shape.map(|shape| shape.dim.iter().map(|d| length(d.dim_value)).collect());
        let mut shape: Vec<Option<usize>> = lengths.unwrap_or_else(|| vec![None, None]);
        // The first dimension is the rows of a batch, however many the file says.
        if let Some(rows) = shape.first_mut() {
            *rows = None;
        }
        let columns = shape.iter().skip(1).try_fold(1usize, |all, n| all.checked_mul(n.unwrap_or(1)));
        let of_input = || Location::Field(format!("graph.input.{}", input.name));
        Budget::new(&self.options.limits).features(columns.unwrap_or(usize::MAX), of_input)?;
        let operand = self.graph.input(&input.name, dtype, shape);
        self.values.insert(input.name, Value { operand, dtype });
        Ok(())
    }

    fn value(&self, name: &str, location: &str) -> Result<Value, ImportError> {
        let missing = || at(ErrorKind::Structure, location, format!("no operator gives `{name}`"));
        self.values.get(name).copied().ok_or_else(missing)
    }

    fn weight(&mut self, tensor: Tensor) -> Value {
        let dtype = tensor.dtype();
        Value { operand: self.graph.weight(tensor), dtype }
    }

    fn node(&mut self, node: &NodeProto, location: &str) -> Result<(), ImportError> {
        let is_map = |name: &String| self.maps.contains_key(name);
        let operands = node.input.iter().filter(|name| !name.is_empty() && !is_map(name));
        let operands = operands.map(|name| self.value(name, location));
        let own = node.domain.is_empty() || node.domain == "ai.onnx";
        let mut source = Source {
            node,
            location,
            name: named(node),
            operands: operands.collect::<Result<_, _>>()?,
            attributes: Attributes::all(&node.attribute, location.into())?,
        };
        if own && node.op_type == "SequenceConstruct" {
            let name = node.output.first().cloned().unwrap_or_default();
            self.sequences.insert(name, source.operands);
            return Ok(());
        }
        let found = match own {
            true if node.op_type == "Scan" => self.scan(&mut source)?,
            true => self.standard(&mut source)?,
            false if node.domain == ML && node.op_type == "DictVectorizer" => {
                vec![self.dictionary(&mut source)?]
            }
            false if node.domain == ML => self.learning(&mut source)?,
            false if neighbors::is_imputer(node) => vec![self.impute_neighbors(&source)?],
            false => self.contributed(&mut source)?,
        };
        for (name, value) in node.output.iter().zip(found) {
            if !name.is_empty() {
                self.values.insert(name.clone(), value);
            }
        }
        Ok(())
    }

    /// Adds an operator whose first result is of type `dtype`.
    fn add(&mut self, source: &Source<'_>, operator: Operator, operands: &[Value], dtype: Dtype) -> Value {
        let name = if source.node.name.is_empty() { source.location } else { &source.node.name };
        let operands = operands.iter().map(|value| value.operand);
        Value { operand: self.graph.node(name, operator, operands), dtype }
    }

    /// Returns a value as elements of another type.
    fn cast(&mut self, source: &Source<'_>, value: Value, to: Dtype) -> Value {
        match value.dtype == to {
            true => value,
            false => self.add(source, Operator::Cast(to), &[value], to),
        }
    }

    /// Returns the numbers of an operand that must be a constant.
    fn constant(&self, source: &Source<'_>, value: Value, what: &str) -> Result<Tensor, ImportError> {
        self.graph.weight_of(value.operand).cloned().ok_or_else(|| {
            source.unsupported(&format!(" with {what} that is computed; export the model with fixed shapes"))
        })
    }

    /// Returns the integers of an operand that must be a constant.
    fn integers(&self, source: &Source<'_>, value: Value, what: &str) -> Result<Vec<i64>, ImportError> {
        match self.constant(source, value, what)?.into_elements() {
            Elements::I64(values) => Ok(values),
            Elements::I32(values) => Ok(values.into_iter().map(i64::from).collect()),
            _ => Err(source.unsupported(&format!(" with {what} that is no list of integers"))),
        }
    }
}
