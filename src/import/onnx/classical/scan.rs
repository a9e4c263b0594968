//! `Scan`, a loop over rows. scikit-learn's converter writes distances between rows as such a loop.

use std::collections::HashMap;

use super::super::super::ImportError;
use super::super::{
    attributes::Attributes,
    proto::{self, GraphProto, NodeProto, TensorProto, ValueInfoProto},
};
use super::{Reader, Source, Value, tensors};
use crate::graph::{Binary, Distance, Elements, Operator, Reduction, Unary};

impl Reader<'_> {
    /// Adds a loop whose body computes the distances of the current row to all rows of a matrix.
    pub(super) fn scan(&mut self, source: &mut Source<'_>) -> Result<Vec<Value>, ImportError> {
        let other = |source: &Source<'_>| source.unsupported(" but for distances between rows");
        let axes = ["scan_input_axes", "scan_output_axes", "scan_input_directions", "scan_output_directions"];
        let forwards = axes.iter().all(|name| source.attributes.ints(name).iter().all(|axis| *axis == 0));
        let scanned = source.attributes.int("num_scan_inputs");
        let (Some(body), true, Some(1), [matrix, rows]) =
            (source.attributes.graph("body"), forwards, scanned, &source.operands[..])
        else {
            return Err(other(source));
        };
        let (matrix, rows) = (*matrix, *rows);
        let body: GraphProto = proto::decode(body, source.location)?;
        let body = Body::read(&body, source.location)?;
        if let Some(how) = body.distance() {
            let distances = self.add(source, Operator::Distances(how), &[rows, matrix], rows.dtype);
            return Ok(vec![matrix, distances]);
        }
        let exponent = body.power().ok_or_else(|| other(source))?;
        let exponent = self.weight(tensors::tensor(&exponent, source.location)?);
        // `[rows, 1, columns]` less `[others, columns]`.
        let wide = self.add(source, Operator::Unsqueeze(vec![1]), &[rows], rows.dtype);
        let differences = self.add(source, Operator::Binary(Binary::Subtract), &[wide, matrix], rows.dtype);
        let sizes = self.add(source, Operator::Unary(Unary::Abs), &[differences], rows.dtype);
        let powers = self.add(source, Operator::Binary(Binary::Power), &[sizes, exponent], rows.dtype);
        let sum = Operator::Reduce { how: Reduction::Sum, axes: vec![2], keep: false };
        let distances = self.add(source, sum, &[powers], rows.dtype);
        Ok(vec![matrix, distances])
    }
}

/// The body of a loop: its nodes, by the names of their results.
struct Body {
    inputs: Vec<String>,
    outputs: Vec<String>,
    nodes: HashMap<String, NodeProto>,
    constants: HashMap<String, TensorProto>,
    location: String,
}

impl Body {
    fn read(body: &GraphProto, location: &str) -> Result<Self, ImportError> {
        let location = format!("{location}.body");
        let mut found = Self {
            inputs: Vec::new(),
            outputs: Vec::new(),
            nodes: HashMap::new(),
            constants: HashMap::new(),
            location: location.clone(),
        };
        for (list, names) in [(&body.input, &mut found.inputs), (&body.output, &mut found.outputs)] {
            for bytes in list {
                names.push(proto::decode::<ValueInfoProto>(bytes.clone(), &location)?.name);
            }
        }
        for bytes in &body.initializer {
            let tensor: TensorProto = proto::decode(bytes.clone(), &location)?;
            found.constants.insert(tensor.name.clone(), tensor);
        }
        for bytes in &body.node {
            let node: NodeProto = proto::decode(bytes.clone(), &location)?;
            if let Some(output) = node.output.first() {
                found.nodes.insert(output.clone(), node);
            }
        }
        Ok(found)
    }

    /// Returns the name of a value's source, before any `Identity` nodes.
    fn source<'b>(&'b self, name: &'b str) -> &'b str {
        let mut name = name;
        // The number of nodes is bounded, in case the body has a cycle.
        for _ in 0..=self.nodes.len() {
            match self.nodes.get(name) {
                Some(node) if node.op_type == "Identity" && node.input.len() == 1 => name = &node.input[0],
                _ => break,
            }
        }
        name
    }

    fn node(&self, name: &str) -> Option<&NodeProto> {
        self.nodes.get(self.source(name))
    }

    /// Returns the distance that the second output computes, if it is one.
    fn distance(&self) -> Option<Distance> {
        let ([matrix, row], [matrix_out, distance]) = (&self.inputs[..], &self.outputs[..]) else {
            return None;
        };
        let reduced = self.node(distance)?;
        let differences = |name: &str| {
            let node = self.node(name).filter(|node| node.op_type == "Sub")?;
            let [a, b] = &node.input[..] else { return None };
            let both = [self.source(a), self.source(b)];
            (both == [matrix, row] || both == [row, matrix]).then_some(())
        };
        let magnitudes = |name: &str| {
            let node = self.node(name).filter(|node| node.op_type == "Abs")?;
            differences(node.input.first()?)
        };
        if self.source(matrix_out) != matrix || !self.reduces_columns(reduced)? {
            return None;
        }
        let x = reduced.input.first()?;
        match &reduced.op_type[..] {
            "ReduceSumSquare" => differences(x).map(|()| Distance::SquaredEuclidean),
            "ReduceL2" => differences(x).map(|()| Distance::Euclidean),
            "ReduceL1" => differences(x).map(|()| Distance::Manhattan),
            "ReduceSum" => magnitudes(x).map(|()| Distance::Manhattan),
            "ReduceMax" => magnitudes(x).map(|()| Distance::Chebyshev),
            _ => None,
        }
    }

    /// Returns the exponent if the second output is the sum of powers of differences, as for Minkowski's distance.
    fn power(&self) -> Option<TensorProto> {
        let ([matrix, row], [matrix_out, distance]) = (&self.inputs[..], &self.outputs[..]) else {
            return None;
        };
        let reduced = self.node(distance).filter(|node| node.op_type == "ReduceSum")?;
        let power = self.node(reduced.input.first()?).filter(|node| node.op_type == "Pow")?;
        let size = self.node(power.input.first()?).filter(|node| node.op_type == "Abs")?;
        let difference = self.node(size.input.first()?).filter(|node| node.op_type == "Sub")?;
        let [a, b] = &difference.input[..] else { return None };
        let both = [self.source(a), self.source(b)];
        let fits = self.source(matrix_out) == matrix
            && (both == [matrix, row] || both == [row, matrix])
            && self.reduces_columns(reduced)?;
        self.constant(power.input.get(1)?).filter(|_| fits)
    }

    /// Returns whether a node reduces over columns and drops their axis.
    fn reduces_columns(&self, node: &NodeProto) -> Option<bool> {
        let mut attributes =
            Attributes::read(&node.attribute, self.location.clone(), &["axes", "keepdims"]).ok()?;
        let mut axes = attributes.ints("axes");
        if let Some(name) = node.input.get(1) {
            axes = match tensors::tensor(&self.constant(name)?, &self.location).ok()?.into_elements() {
                Elements::I64(axes) => axes,
                _ => return None,
            };
        }
        Some(attributes.int("keepdims") == Some(0) && matches!(axes[..], [1 | -1]))
    }

    fn constant(&self, name: &str) -> Option<TensorProto> {
        let name = self.source(name);
        if let Some(tensor) = self.constants.get(name) {
            return Some(tensor.clone());
        }
        let node = self.nodes.get(name).filter(|node| node.op_type == "Constant")?;
        let mut attributes = Attributes::read(&node.attribute, self.location.clone(), &["value"]).ok()?;
        proto::decode(attributes.message("value")?, &self.location).ok()
    }
}
