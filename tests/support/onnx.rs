//! ONNX files made by hand, field by field, so that they may say what no converter writes.

// Each test crate uses its part.
#![allow(dead_code)]

/// A message of protobuf, field by field.
#[derive(Clone, Default)]
pub struct Message(pub Vec<u8>);

impl Message {
    pub fn varint(mut self, mut value: u64) -> Self {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    pub fn int(self, field: u64, value: i64) -> Self {
        self.varint(field << 3).varint(value as u64)
    }

    pub fn bytes(self, field: u64, bytes: &[u8]) -> Self {
        let mut message = self.varint(field << 3 | 2).varint(bytes.len() as u64);
        message.0.extend(bytes);
        message
    }

    pub fn floats(self, field: u64, values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.bytes(field, &bytes)
    }
}

/// A value of an attribute.
#[derive(Clone)]
pub enum Value {
    Int(i64),
    Text(&'static str),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Texts(Vec<&'static str>),
    /// Its type and its bytes.
    Tensor(i64, Vec<i64>, Vec<u8>),
}

use Value::{Floats, Int, Ints, Tensor, Text, Texts};

/// An operator's attributes by name.
pub type Attributes = Vec<(&'static str, Value)>;

/// A tensor by its element type's number.
pub fn tensor(name: &str, element: i64, dims: &[i64], raw: &[u8]) -> Message {
    let message = dims.iter().fold(Message::default(), |m, d| m.int(1, *d));
    message.int(2, element).bytes(8, name.as_bytes()).bytes(9, raw)
}

pub fn attribute(name: &str, value: &Value) -> Message {
    let message = Message::default().bytes(1, name.as_bytes());
    match value {
        Int(value) => message.int(3, *value),
        Text(value) => message.bytes(4, value.as_bytes()),
        // One field a number, as the format's older version has it.
        Ints(values) => values.iter().fold(message, |m, v| m.int(8, *v)),
        Floats(values) => message.floats(7, values),
        Texts(values) => values.iter().fold(message, |m, v| m.bytes(9, v.as_bytes())),
        Tensor(element, dims, raw) => message.bytes(5, &tensor("", *element, dims, raw).0),
    }
}

/// A tensor of floats.
pub fn singles(values: &[f32]) -> Value {
    Tensor(1, vec![values.len() as i64], values.iter().flat_map(|v| v.to_le_bytes()).collect())
}

/// An operator, what it reads, and what it gives.
pub struct Node {
    pub op: &'static str,
    pub from: &'static [&'static str],
    pub to: &'static [&'static str],
    pub attributes: Attributes,
}

/// An operator without attributes.
pub fn node(op: &'static str, from: &'static [&'static str], to: &'static [&'static str]) -> Node {
    Node { op, from, to, attributes: Vec::new() }
}

impl Node {
    pub fn message(&self) -> Message {
        let message = self.from.iter().fold(Message::default(), |m, name| m.bytes(1, name.as_bytes()));
        let message = self.to.iter().fold(message, |m, name| m.bytes(2, name.as_bytes()));
        let ml = ["Tree", "Scaler", "Normal", "ZipMap", "Linear", "ArrayF", "LabelE"]
            .iter()
            .any(|p| self.op.starts_with(p));
        let message = message.bytes(3, b"n").bytes(4, self.op.as_bytes());
        let message = if ml { message.bytes(7, b"ai.onnx.ml") } else { message };
        self.attributes.iter().fold(message, |m, (name, value)| m.bytes(5, &attribute(name, value).0))
    }
}

/// A graph of operators over an input of rows of `columns` of an element type; constants are initializers.
pub struct Graph {
    pub element: i64,
    pub columns: i64,
    pub nodes: Vec<Node>,
    pub constants: Vec<Message>,
    pub outputs: Vec<&'static str>,
    pub ml: i64,
}

impl Graph {
    pub fn bytes(&self) -> Vec<u8> {
        let dims = Message::default().bytes(1, &[]).bytes(1, &Message::default().int(1, self.columns).0);
        let tensor = Message::default().int(1, self.element).bytes(2, &dims.0);
        let input = Message::default().bytes(1, b"X").bytes(2, &Message::default().bytes(1, &tensor.0).0);
        let graph = self.nodes.iter().fold(Message::default(), |g, n| g.bytes(1, &n.message().0));
        let graph = self.constants.iter().fold(graph, |g, c| g.bytes(5, &c.0)).bytes(11, &input.0);
        let output = |g: Message, name: &&str| g.bytes(12, &Message::default().bytes(1, name.as_bytes()).0);
        let graph = self.outputs.iter().fold(graph, output);
        let opset = Message::default().bytes(1, b"ai.onnx.ml").int(2, self.ml);
        Message::default().int(1, 8).bytes(2, b"hand").bytes(7, &graph.0).bytes(8, &opset.0).0
    }
}

/// Two trees of five and three nodes over two columns, of one target.
pub fn trees() -> Attributes {
    vec![
        ("n_targets", Int(1)),
        ("nodes_treeids", Ints(vec![0, 0, 0, 0, 0, 4, 4, 4])),
        ("nodes_nodeids", Ints(vec![0, 1, 2, 3, 4, 0, 1, 2])),
        ("nodes_featureids", Ints(vec![0, 1, 0, 0, 0, 1, 0, 0])),
        (
            "nodes_modes",
            Texts(vec!["BRANCH_LEQ", "BRANCH_GT", "LEAF", "LEAF", "LEAF", "BRANCH_EQ", "LEAF", "LEAF"]),
        ),
        ("nodes_truenodeids", Ints(vec![1, 3, 0, 0, 0, 1, 0, 0])),
        ("nodes_falsenodeids", Ints(vec![2, 4, 0, 0, 0, 2, 0, 0])),
        ("nodes_missing_value_tracks_true", Ints(vec![0, 1, 0, 0, 0, 0, 0, 0])),
        ("nodes_values", Floats(vec![0.5, -1.5, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0])),
        ("target_treeids", Ints(vec![0, 0, 0, 4, 4])),
        ("target_nodeids", Ints(vec![2, 3, 4, 1, 2])),
        ("target_ids", Ints(vec![0, 0, 0, 0, 0])),
        ("target_weights", Floats(vec![0.25, 0.5, -0.75, 1.0, 2.0])),
        ("base_values", Floats(vec![0.125])),
        ("post_transform", Text("NONE")),
    ]
}

/// Attributes with some replaced or added.
pub fn with(mut all: Attributes, changes: Attributes) -> Attributes {
    for (name, value) in changes {
        all.retain(|a| a.0 != name);
        all.push((name, value));
    }
    all
}

/// A graph of one tree operator.
pub fn around(op: &'static str, attributes: Attributes) -> Graph {
    let to: &[&str] = if op == "TreeEnsembleClassifier" { &["L", "Y"] } else { &["Y"] };
    let trees = Node { op, from: &["X"], to, attributes };
    Graph { element: 1, columns: 2, nodes: vec![trees], constants: Vec::new(), outputs: to.to_vec(), ml: 3 }
}
