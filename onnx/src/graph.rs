//! Reads which operators of a graph feed which.

use crate::wire::{Field, fields, text};

/// The domain of ONNX's machine-learning operators.
pub(crate) const ML: &str = "ai.onnx.ml";
/// The maximum depth of graphs inside graphs that is followed.
const DEEPEST: usize = 16;

/// An operator of the graph.
pub(crate) struct Node<'b> {
    pub(crate) message: &'b [u8],
    pub(crate) name: String,
    pub(crate) op: String,
    pub(crate) domain: String,
    /// The names of the values that the operator takes, and of those that graphs inside it take.
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
}

impl<'b> Node<'b> {
    pub(crate) fn read(message: &'b [u8]) -> Result<Self, String> {
        Self::read_at(message, 0)
    }

    fn read_at(message: &'b [u8], depth: usize) -> Result<Self, String> {
        let [name, op, domain] = [(); 3].map(|()| String::new());
        let mut node = Self { message, name, op, domain, inputs: Vec::new(), outputs: Vec::new() };
        for field in fields(message)? {
            let Some(body) = field.body else { continue };
            match field.number {
                1 => node.inputs.push(text(body)),
                2 => node.outputs.push(text(body)),
                3 => node.name = text(body),
                4 => node.op = text(body),
                5 => inner(body, depth, &mut node.inputs)?,
                7 => node.domain = text(body),
                _ => {}
            }
        }
        Ok(node)
    }

    pub(crate) fn is_ml(&self, op: &str) -> bool {
        self.domain == ML && self.op == op
    }

    /// Returns the operator's type and name, for a message.
    pub(crate) fn title(&self) -> String {
        match self.name.is_empty() {
            true => self.op.clone(),
            false => format!("{} `{}`", self.op, self.name),
        }
    }
}

/// Adds the names of the values that the graphs of an attribute take or return. Values that such a graph
/// makes itself are among them; at worst they keep an operator that nothing needs.
fn inner(attribute: &[u8], depth: usize, names: &mut Vec<String>) -> Result<(), String> {
    for graph in fields(attribute)?.iter().filter_map(|f| f.of(6).or(f.of(11))) {
        if depth == DEEPEST {
            return Err(format!(
                "graphs lie {DEEPEST} deep in each other; convert the model without control flow"
            ));
        }
        for field in fields(graph)? {
            if let Some(message) = field.of(1) {
                names.extend(Node::read_at(message, depth + 1)?.inputs);
            } else if let Some(message) = field.of(12) {
                names.push(value_name(message)?);
            }
        }
    }
    Ok(())
}

/// Returns the name of an input or output of a graph.
pub(crate) fn value_name(value: &[u8]) -> Result<String, String> {
    Ok(fields(value)?.iter().find_map(|f| f.of(1)).map(text).unwrap_or_default())
}

/// The kind of an output of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputKind {
    Numbers,
    Strings,
    /// A sequence, a map or an optional value.
    Other,
}

impl OutputKind {
    pub(crate) fn of(value: &[u8]) -> Result<Self, String> {
        let Some(kind) = fields(value)?.iter().find_map(|f| f.of(2)) else { return Ok(Self::Numbers) };
        let kind: Vec<Field<'_>> = fields(kind)?;
        let Some(tensor) = kind.iter().find_map(|f| f.of(1)) else {
            let other = kind.iter().any(|f| [4, 5, 9].contains(&f.number));
            return Ok(if other { Self::Other } else { Self::Numbers });
        };
        let strings = fields(tensor)?.iter().any(|f| f.number == 1 && f.integer == 8);
        Ok(if strings { Self::Strings } else { Self::Numbers })
    }
}
