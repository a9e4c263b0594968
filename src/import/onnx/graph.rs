//! Follows the graph around the trees: the operators before them, and the operators that take their scores
//! and labels.

use std::collections::HashMap;
use std::rc::Rc;

use super::super::{ErrorKind, ImportError};
use super::attributes::Attributes;
use super::error::at;
use super::prepare::{Preparation, PreparationSteps};
use super::proto::{
    self, AttributeProto, Bytes, ElementType, ModelProto, NodeProto, TensorProto, ValueInfoProto,
};
use super::steps::{Label, Names, ScoreOperation, Sign, Step, Steps};

/// The maximum length of the chain of operators that are followed before the trees, and of that after them.
const LONGEST_CHAIN: usize = 64;

/// The domain of ONNX's machine learning operators.
pub(super) const ML: &str = "ai.onnx.ml";

/// The newest version of the domain [`ML`] whose operators have the meaning that is read here.
pub(super) const NEWEST_ML: i64 = 5;

#[derive(Clone, Debug)]
enum Value {
    /// The rows that the user gives, after the operators so far.
    Rows(Rows),
    Scores(Steps),
    Label(Label),
    /// A tensor of the file.
    Constant(Bytes),
    /// The result of an operator that is not followed.
    Unknown(Rc<Unknown>),
}

#[derive(Debug)]
struct Unknown {
    location: String,
    operator: String,
}

/// The input of the trees.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    /// The element type that reaches the trees.
    pub(super) given: ElementType,
    /// Whether values have been rounded to float on the way.
    pub(super) single: bool,
    /// Columns of a row, if the file fixes them.
    pub(super) columns: Option<u64>,
    /// The element type of the graph's input, and its columns if the file fixes them.
    pub(super) raw: (ElementType, Option<u64>),
    /// The steps between the graph's input and the trees.
    pub(super) prepared: PreparationSteps,
}

/// The tree operator, its input, and the graph's steps on its scores and its label.
pub(super) struct TreeGraph {
    pub(super) operator: NodeProto,
    pub(super) location: String,
    pub(super) rows: Rows,
    pub(super) scores: Option<Steps>,
    pub(super) label: Option<Label>,
}

/// Follows the graph from its inputs to its outputs.
pub(super) fn follow(model: ModelProto) -> Result<TreeGraph, ImportError> {
    let version = |domain: &str| {
        let found = model
            .opset_import
            .iter()
            .find(|o| o.domain == domain || domain.is_empty() && o.domain == "ai.onnx");
        found.map(|o| o.version)
    };
    if let Some(ml) = version(ML).filter(|v| *v > NEWEST_ML) {
        let cause = format!(
            "version {ml} of the operators of {ML} is newer than {NEWEST_ML}, the newest that is read"
        );
        return Err(at(ErrorKind::Unsupported, "opset_import", cause)
            .with_remedy("convert the model with an older target_opset for ai.onnx.ml"));
    }
    let Some(graph) = model.graph else {
        return Err(at(ErrorKind::Schema, "graph", "missing field"));
    };
    let mut follower = GraphReader { values: HashMap::new(), trees: None };
    for (i, bytes) in graph.input.iter().enumerate() {
        follower.input(bytes.clone(), &format!("graph.input[{i}]"))?;
    }
    for (i, bytes) in graph.initializer.iter().enumerate() {
        let tensor: TensorProto = proto::decode(bytes.clone(), &format!("graph.initializer[{i}]"))?;
        follower.values.insert(tensor.name, Value::Constant(bytes.clone()));
    }
    let mut first_other = None;
    for (i, bytes) in graph.node.iter().enumerate() {
        let location = format!("graph.node[{i}]");
        let node: NodeProto = proto::decode(bytes.clone(), &location)?;
        if first_other.is_none() {
            first_other = Some(node.op_type.clone());
        }
        follower.node(node, location)?;
    }
    let Some((operator, location, rows)) = follower.trees.take() else {
        let among =
            first_other.map_or_else(String::new, |op| format!(" (the first of its operators is {op})"));
        let cause =
            format!("the graph has no TreeEnsembleRegressor, TreeEnsembleClassifier or TreeEnsemble{among}");
        return Err(at(ErrorKind::Unsupported, "graph.node", cause)
            .with_remedy("convert a model of trees; other models are not read"));
    };
    let mut followed = TreeGraph { operator, location, rows, scores: None, label: None };
    for (i, bytes) in graph.output.iter().enumerate() {
        let location = format!("graph.output[{i}]");
        let output: ValueInfoProto = proto::decode(bytes.clone(), &location)?;
        followed.output(follower.values.remove(&output.name), &output.name, location)?;
    }
    if followed.scores.is_none() && followed.label.is_none() {
        return Err(at(ErrorKind::Structure, "graph.output", "the graph has no output"));
    }
    Ok(followed)
}

impl TreeGraph {
    fn output(&mut self, value: Option<Value>, name: &str, location: String) -> Result<(), ImportError> {
        let twice = |what: &str| {
            Err(at(
                ErrorKind::Unsupported,
                location.as_str(),
                format!("`{name}` is a second output of {what}"),
            )
            .with_remedy("keep one output of scores and one of labels"))
        };
        match value {
            Some(Value::Scores(_)) if self.scores.is_some() => twice("scores"),
            Some(Value::Label(_)) if self.label.is_some() => twice("labels"),
            Some(Value::Scores(steps)) => {
                self.scores = Some(steps);
                Ok(())
            }
            Some(Value::Label(label)) => {
                self.label = Some(label);
                Ok(())
            }
            Some(Value::Unknown(what)) => Err(unsupported(what.location.as_str(), &what.operator, "")),
            Some(Value::Rows(_) | Value::Constant(_)) => {
                let cause = format!("output `{name}` does not come from the trees");
                Err(at(ErrorKind::Unsupported, location, cause)
                    .with_remedy("remove the output from the graph"))
            }
            None => Err(at(
                ErrorKind::Structure,
                location,
                format!("no operator gives the output `{name}`, or it is there twice"),
            )),
        }
    }
}

/// Returns the error that refuses an operator. `why` continues the sentence.
pub(super) fn unsupported(location: impl Into<String>, operator: &str, why: &str) -> ImportError {
    let cause = format!("operator {operator} is not supported{why}");
    at(ErrorKind::Unsupported, location, cause).with_remedy(
        "convert the trees alone, without the steps before and after them (skl2onnx: options={'zipmap': False})",
    )
}

struct GraphReader {
    values: HashMap<String, Value>,
    trees: Option<(NodeProto, String, Rows)>,
}

impl GraphReader {
    fn input(&mut self, bytes: Bytes, location: &str) -> Result<(), ImportError> {
        let input: ValueInfoProto = proto::decode(bytes, location)?;
        let tensor = input.r#type.and_then(|t| t.tensor_type);
        let Some(tensor) = tensor else {
            self.values.insert(input.name, unknown_at(location, "input that is no tensor".into()));
            return Ok(());
        };
        let given = ElementType::of(tensor.elem_type);
        let columns = tensor.shape.and_then(|s| match s.dim.as_slice() {
            [_, columns] => u64::try_from(columns.dim_value).ok().filter(|c| *c > 0),
            _ => None,
        });
        let single = given == ElementType::Float;
        let rows =
            Rows { given, single, columns, raw: (given, columns), prepared: PreparationSteps::default() };
        self.values.insert(input.name, Value::Rows(rows));
        Ok(())
    }

    fn node(&mut self, node: NodeProto, location: String) -> Result<(), ImportError> {
        if node.domain == ML && node.op_type.starts_with("TreeEnsemble") {
            return self.trees(node, location);
        }
        let value = self.result(&node, &location)?;
        let output = |i: usize| node.output.get(i).filter(|name| !name.is_empty()).cloned();
        if let Some(name) = output(0) {
            self.values.insert(name, value);
        }
        for name in (1..node.output.len()).filter_map(output) {
            self.values.insert(name, unknown(&node, &location));
        }
        Ok(())
    }

    fn trees(&mut self, node: NodeProto, location: String) -> Result<(), ImportError> {
        let classifier = match node.op_type.as_str() {
            "TreeEnsembleClassifier" => true,
            "TreeEnsembleRegressor" | "TreeEnsemble" => false,
            _ => return Err(unsupported(location, &named(&node), "")),
        };
        if let Some((_, first, _)) = &self.trees {
            let cause = format!("{} is a second tree ensemble, after {first}", named(&node));
            return Err(at(ErrorKind::Unsupported, location, cause).with_remedy(
                "a graph of one tree ensemble is read: convert a model that is one (onnxmltools: without split=; AdaBoost, bagging, isolation forests and several outputs of a classifier make many)",
            ));
        }
        let rows = match node.input.first().map(|name| self.values.get(name)) {
            Some(Some(Value::Rows(rows))) => rows.clone(),
            Some(Some(Value::Unknown(what))) => {
                return Err(unsupported(what.location.as_str(), &what.operator, " before the trees"));
            }
            _ => {
                let cause = "the trees' input is no input of the graph";
                return Err(at(ErrorKind::Structure, format!("{location}.input"), cause));
            }
        };
        let [scores, label] = if classifier { [1, 0] } else { [0, usize::MAX] };
        let label = node.output.get(label).filter(|name| !name.is_empty());
        if let Some(name) = label {
            self.values.insert(name.clone(), Value::Label(Label { largest_after: None, names: None }));
        }
        if let Some(name) = node.output.get(scores).filter(|name| !name.is_empty()) {
            self.values.insert(name.clone(), Value::Scores(Steps::default()));
        }
        self.trees = Some((node, location, rows));
        Ok(())
    }

    /// Returns the result of a node.
    fn result(&self, node: &NodeProto, location: &str) -> Result<Value, ImportError> {
        let first = node.input.first().and_then(|name| self.values.get(name));
        let second = node.input.get(1).and_then(|name| self.values.get(name));
        // Pass an unknown input on, so that the message names the first operator that is not followed.
        for input in node.input.iter().filter_map(|name| self.values.get(name)) {
            if let Value::Unknown(_) = input {
                return Ok(input.clone());
            }
        }
        let own = node.domain.is_empty() || node.domain == "ai.onnx";
        if let Some(rows) = self.prepare(node, location, own, first, second)? {
            return Ok(Value::Rows(rows));
        }
        let wanted = ["value", "to", "axis", "keepdims", "select_last_index", "norm", "alpha"];
        let lists = ["keys_int64s", "values_int64s", "values_strings"];
        let wanted: Vec<&str> = wanted.into_iter().chain(lists).collect();
        let mut attributes = Attributes::read(&node.attribute, location.into(), &wanted)?;
        let value = match (own, node.op_type.as_str(), first, second) {
            (true, "Constant", None, None) => constant(node, location)?,
            (true, "Identity", Some(value), None) => Some(value.clone()),
            (true, "Cast", Some(value), None) => {
                cast(value, ElementType::of(attributes.int("to").unwrap_or(0) as i32))
            }
            // These operators keep the row's label. They can only change whether it has an axis of its own.
            (true, "Reshape" | "Squeeze" | "Flatten" | "Unsqueeze", Some(Value::Label(label)), _) => {
                Some(Value::Label(label.clone()))
            }
            (true, "ArgMax", Some(Value::Scores(steps)), None) => argmax(steps, &mut attributes),
            (true, "Mul" | "Div" | "Add" | "Sub", Some(_), Some(_)) => {
                self.arithmetic(node, location, first, second)?
            }
            (true, op @ ("Exp" | "Sigmoid" | "Softmax"), Some(Value::Scores(steps)), None) => {
                let axis = attributes.int("axis").unwrap_or(1);
                let does = match op {
                    "Exp" => ScoreOperation::Exp,
                    "Sigmoid" => ScoreOperation::Sigmoid,
                    _ => ScoreOperation::Softmax,
                };
                let by_row = op != "Softmax" || axis == 1 || axis == -1;
                by_row.then(|| self.then(steps, node, location, does)).transpose()?
            }
            (true, "Gather", Some(Value::Constant(names)), Some(Value::Label(label))) => {
                renamed(label, Names::Tensor(names.clone()))
            }
            (false, "ArrayFeatureExtractor", Some(Value::Constant(names)), Some(Value::Label(label))) => {
                renamed(label, Names::Tensor(names.clone()))
            }
            (false, "LabelEncoder", Some(Value::Label(label)), None) => encoded(label, &mut attributes),
            (false, "ZipMap", Some(Value::Scores(steps)), None) => Some(Value::Scores(steps.clone())),
            (false, "Normalizer", Some(Value::Scores(steps)), None) => {
                let l1 = attributes.string("norm").as_deref() == Some("L1");
                l1.then(|| self.then(steps, node, location, ScoreOperation::NormalizeL1)).transpose()?
            }
            _ => None,
        };
        Ok(value.unwrap_or_else(|| unknown(node, location)))
    }

    /// Returns the rows after one more step, or `None` if the node is not one that can precede the trees.
    fn prepare(
        &self,
        node: &NodeProto,
        location: &str,
        own: bool,
        first: Option<&Value>,
        second: Option<&Value>,
    ) -> Result<Option<Rows>, ImportError> {
        let (rows, constant, swapped) = match (first, second) {
            (Some(Value::Rows(rows)), None) => (rows, None, false),
            (Some(Value::Rows(rows)), Some(Value::Constant(c))) => (rows, Some(c), false),
            (Some(Value::Constant(c)), Some(Value::Rows(rows))) => (rows, Some(c), true),
            _ => return Ok(None),
        };
        let Some(prepares) = Preparation::of(location, own, node, constant, swapped, rows.given)? else {
            return Ok(None);
        };
        if rows.prepared.len() >= LONGEST_CHAIN {
            return Err(unsupported(location, &named(node), &format!(" after {LONGEST_CHAIN} others")));
        }
        let prepared = rows.prepared.then(location, named(node), prepares);
        // A Scaler gives floats whatever its input's type.
        let given = if node.op_type == "Scaler" { ElementType::Float } else { rows.given };
        let single = given == ElementType::Float;
        Ok(Some(Rows { given, single, prepared, ..rows.clone() }))
    }

    /// Returns the scores after one more step.
    fn then(
        &self,
        steps: &Steps,
        node: &NodeProto,
        location: &str,
        does: ScoreOperation,
    ) -> Result<Value, ImportError> {
        if steps.len() >= LONGEST_CHAIN {
            return Err(unsupported(location, &named(node), &format!(" after {LONGEST_CHAIN} others")));
        }
        Ok(Value::Scores(steps.then(Step { location: location.into(), operator: named(node), does })))
    }

    /// Returns the scores after arithmetic with a constant, or `None` if the node is not such a step.
    fn arithmetic(
        &self,
        node: &NodeProto,
        location: &str,
        first: Option<&Value>,
        second: Option<&Value>,
    ) -> Result<Option<Value>, ImportError> {
        let (steps, constant, swapped) = match (first, second) {
            (Some(Value::Scores(steps)), Some(Value::Constant(c))) => (steps, c, false),
            (Some(Value::Constant(c)), Some(Value::Scores(steps))) => (steps, c, true),
            _ => return Ok(None),
        };
        let sign = match (node.op_type.as_str(), swapped) {
            ("Mul", _) => Sign::Multiply,
            ("Add", _) => Sign::Add,
            ("Div", false) => Sign::Divide,
            ("Sub", false) => Sign::Subtract,
            _ => return Ok(None),
        };
        self.then(steps, node, location, ScoreOperation::Arithmetic(sign, constant.clone())).map(Some)
    }
}

/// Returns an operator's type and its name, for a message.
pub(super) fn named(node: &NodeProto) -> String {
    match node.name.is_empty() {
        true => node.op_type.clone(),
        false => format!("{} `{}`", node.op_type, node.name),
    }
}

fn unknown(node: &NodeProto, location: &str) -> Value {
    unknown_at(location, named(node))
}

fn unknown_at(location: &str, operator: String) -> Value {
    Value::Unknown(Rc::new(Unknown { location: location.into(), operator }))
}

fn constant(node: &NodeProto, location: &str) -> Result<Option<Value>, ImportError> {
    for (i, bytes) in node.attribute.iter().enumerate() {
        let attribute: AttributeProto = proto::decode(bytes.clone(), &format!("{location}.attribute[{i}]"))?;
        if attribute.name == "value" {
            return Ok(Some(Value::Constant(attribute.t)));
        }
    }
    Ok(None)
}

/// Returns a value cast to another type, or `None` if the cast changes the value in a way that is not
/// followed.
fn cast(value: &Value, to: ElementType) -> Option<Value> {
    use ElementType::{Double, Float, Int32, Int64, Text};
    match (value, to) {
        (Value::Rows(rows), _) => {
            let prepared = match (rows.given, to) {
                (Double, Float) => rows.prepared.cast(),
                _ => rows.prepared.clone(),
            };
            let (given, single) = match (rows.given, to) {
                (Float | Double | Int32 | Int64, Float) => (Float, true),
                (Float | Double | Int32 | Int64, Double) => (Double, rows.single),
                (Int32 | Int64, Int64) | (Int32, Int32) => (to, false),
                _ => return None,
            };
            // An integer input counts as an input of the type that it is first cast to.
            let raw = if matches!(rows.raw.0, Int32 | Int64) { (given, rows.raw.1) } else { rows.raw };
            Some(Value::Rows(Rows { given, single, prepared, raw, ..*rows }))
        }
        (Value::Scores(_), Float | Double) | (Value::Label(_), Int32 | Int64 | Text) => Some(value.clone()),
        _ => None,
    }
}

/// Returns the label that is the index of a row's first largest score, or `None` for another kind of ArgMax.
fn argmax(steps: &Steps, attributes: &mut Attributes) -> Option<Value> {
    // Axis 0, the default, looks across rows.
    let by_row = matches!(attributes.int("axis"), Some(1 | -1));
    let first = attributes.int("select_last_index").unwrap_or(0) == 0;
    (by_row && first).then(|| Value::Label(Label { largest_after: Some(steps.clone()), names: None }))
}

/// Returns a label whose indices are replaced by names. Returns `None` for a label that is no index or has
/// names already.
fn renamed(label: &Label, names: Names) -> Option<Value> {
    let index = label.largest_after.is_some() && label.names.is_none();
    index.then(|| Value::Label(Label { names: Some(names), ..label.clone() }))
}

fn encoded(label: &Label, attributes: &mut Attributes) -> Option<Value> {
    let keys = attributes.ints("keys_int64s");
    let strings = attributes.strings("values_strings");
    let mut names: Vec<String> = strings.iter().map(|s| String::from_utf8_lossy(s).into_owned()).collect();
    let words = !names.is_empty();
    if !words {
        names = attributes.ints("values_int64s").iter().map(i64::to_string).collect();
    }
    // Accept only one key for each class, in order. Other keys would leave classes to the default value.
    let in_order = keys.iter().enumerate().all(|(i, key)| usize::try_from(*key) == Ok(i));
    if !in_order || keys.len() != names.len() {
        return None;
    }
    renamed(label, Names::List { names: names.into(), words })
}
