//! A graph of classical operators as a burn module.
//!
//! [`GraphModule`] runs a [`Graph`] with burn's operators on any backend: scalers, encoders, linear models, support
//! vector machines, and forests as [`ForestModule`]s. Its float weights are parameters, so a linear model that was
//! trained elsewhere can be trained further inside a network.
//!
//! Doubles are rounded to `f32`, since many devices have no `f64`. So outputs are those of [`Graph::run`] within the
//! rounding of `f32`. Forests compare in the type that they were trained in.
//!
//! What no device computes, such as texts, the interpreter computes on the host: it reads the operands from the device
//! and puts the results there. [`GraphModule::host_nodes`] names these nodes. No gradient goes through them.

mod operators;
mod value;

use std::sync::Arc;

use burn::{
    module::{Module, Param},
    tensor::{Device, Tensor},
};
use fangorn::{
    Forest,
    cost::GraphTarget,
    graph::{Dtype, Graph, Node, Operand, Operator, Pass, Passes},
};

pub use value::Value;

use crate::{
    error::{Error, Result},
    forest::{ForestModule, ForestModuleConfig},
};
use value::padded;

/// A graph of classical operators as a burn module.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::tensor::{Device, Tensor};
/// use fangorn::import;
/// use fangorn_graphs::classical::GraphModule;
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/zoo-classical/Pipeline/model.onnx");
/// let graph = import::load_graph(model.as_ref(), &Default::default()).map_err(fangorn::Error::from)?;
/// let device = Device::flex();
/// let module = GraphModule::new(&graph, &device)?;
/// let outputs = module.forward([Tensor::<2>::zeros([4, 6], &device).into()])?;
/// assert_eq!(outputs[0].int::<1>()?.dims(), [4]);
/// assert_eq!(outputs[1].float::<2>()?.dims(), [4, 3]);
/// # }
/// # Ok::<(), fangorn_graphs::Error>(())
/// ```
#[derive(Module, Debug)]
pub struct GraphModule {
    /// The float weights, in the graph's order, each with dimensions of length 1 before its own.
    weights: Vec<Param<Tensor<4>>>,
    /// The forests, in the graph's order.
    forests: Vec<ForestModule>,
    #[module(skip)]
    prepared: Arc<PreparedGraph>,
}

/// What runs: the rewritten graph, and the indices of its weights and forests.
#[derive(Debug)]
struct PreparedGraph {
    graph: Graph,
    /// For each weight of the graph, its index among the parameters. `None` if it is no float weight.
    parameters: Vec<Option<usize>>,
    /// For each node, the index of its forest among the modules, or of its sparse weight among the parameters.
    indices: Vec<Option<usize>>,
    /// For each node, whether anything reads its second result.
    second: Vec<bool>,
    /// For each node, the last node that reads its result; `usize::MAX` if an output reads it.
    last_use: Vec<usize>,
    /// For each node that the interpreter evaluates on the host, the types of its operands.
    on_host: Vec<Option<Vec<Dtype>>>,
}

impl GraphModule {
    /// Makes a module of a graph, which the [passes](Passes) rewrite first.
    ///
    /// # Errors
    /// The graph does not verify ([`Error::Graph`] names the node), or a forest can't be compiled for the device.
    pub fn new(graph: &Graph, device: &Device) -> Result<Self> {
        // Devices compute in f32 anyway, and an integer weight must not become a parameter.
        let passes = Passes::default().on(GraphTarget::Device).without(Pass::Sparse).without(Pass::Dtypes);
        Self::with_passes(graph, device, &passes)
    }

    /// Makes a module of a graph, which these passes rewrite first.
    ///
    /// # Errors
    /// Those of [`GraphModule::new`].
    pub fn with_passes(graph: &Graph, device: &Device, passes: &Passes) -> Result<Self> {
        let (graph, _) = passes.apply(graph).map_err(|e| Error::Graph(e.to_string()))?;
        let on_host = host_nodes(&graph)?;
        let mut module = Self {
            weights: Vec::new(),
            forests: Vec::new(),
            prepared: Arc::new(PreparedGraph {
                graph: Graph::default(),
                parameters: Vec::new(),
                indices: Vec::new(),
                second: vec![false; graph.nodes.len()],
                last_use: vec![0; graph.nodes.len()],
                on_host: Vec::new(),
            }),
        };
        let mut parameters = Vec::with_capacity(graph.weights.len());
        for weight in &graph.weights {
            let floats = matches!(weight.dtype(), Dtype::F32 | Dtype::F64);
            parameters.push(floats.then_some(module.weights.len()));
            if floats {
                let values = weight.elements().doubles().unwrap_or_default();
                module.parameter(values, weight.shape(), device);
            }
        }
        let mut indices = Vec::with_capacity(graph.nodes.len());
        // The forests of linear leaves run on the host.
        let mut known = graph.forests();
        known.retain(|forest| graph.nodes.iter().any(|node| is_of(node, forest)));
        for node in &graph.nodes {
            indices.push(match &node.operator {
                Operator::Forest(forest) | Operator::LeafSlots(forest) => {
                    known.iter().position(|known| Arc::ptr_eq(known, forest))
                }
                Operator::SparseMatMul(weights) => {
                    let (width, inner) = weights.shape();
                    let values = weights.to_dense();
                    let by_row =
                        (0..inner).flat_map(|row| (0..width).map(move |output| output * inner + row));
                    module.parameter(by_row.map(|at| values[at]).collect(), &[inner, width], device);
                    Some(module.weights.len() - 1)
                }
                _ => None,
            });
        }
        for forest in known {
            module.forests.push(ForestModuleConfig::new(Arc::unwrap_or_clone(forest)).init(device)?);
        }
        let (mut second, mut last_use) = (vec![false; graph.nodes.len()], vec![0; graph.nodes.len()]);
        let of_nodes =
            graph.nodes.iter().enumerate().flat_map(|(at, node)| node.operands.iter().map(move |o| (at, *o)));
        let of_outputs = graph.outputs.iter().map(|output| (usize::MAX, output.operand));
        for (at, operand) in of_nodes.chain(of_outputs) {
            if let Operand::Node(of, result) = operand {
                last_use[of as usize] = at;
                second[of as usize] |= result == 1;
            }
        }
        module.prepared = Arc::new(PreparedGraph { graph, parameters, indices, second, last_use, on_host });
        Ok(module)
    }

    fn parameter(&mut self, values: Vec<f64>, shape: &[usize], device: &Device) {
        let values: Vec<f32> = values.into_iter().map(|value| value as f32).collect();
        let data = burn::tensor::TensorData::new(values, padded(shape));
        self.weights.push(Param::from_tensor(Tensor::from_data(data, device)));
    }

    /// Returns the graph that runs, after its passes.
    pub fn graph(&self) -> &Graph {
        &self.prepared.graph
    }

    /// Returns the nodes that the interpreter evaluates on the host, in the graph's order: operators that devices do not
    /// have, and those that take or give texts or tensors of more than four dimensions.
    pub fn host_nodes(&self) -> impl Iterator<Item = &Node> {
        let prepared = &self.prepared;
        prepared
            .graph
            .nodes
            .iter()
            .zip(&prepared.on_host)
            .filter(|(_, on)| on.is_some())
            .map(|(node, _)| node)
    }

    /// Evaluates the graph: takes a value for each input, and returns a value for each output, both in the graph's
    /// order. An output of texts or of more than four dimensions is on the host; any other output is on the device of
    /// the inputs or, if they are on the host, that of the module.
    ///
    /// # Errors
    /// There is another number of inputs, an input has another type or shape, or an operator can't be evaluated
    /// ([`Error::Graph`]), or a forest refuses its rows.
    pub fn forward(&self, inputs: impl IntoIterator<Item = Value>) -> Result<Vec<Value>> {
        let graph = &self.prepared.graph;
        let inputs: Vec<Value> = inputs.into_iter().collect();
        if inputs.len() != graph.inputs.len() {
            let cause = format!("the graph takes {} inputs, not {}", graph.inputs.len(), inputs.len());
            return Err(Error::Graph(cause));
        }
        for (input, given) in graph.inputs.iter().zip(&inputs) {
            let shape = given.shape();
            let fits = shape.len() == input.shape.len()
                && shape
                    .iter()
                    .zip(&input.shape)
                    .all(|(length, wanted)| wanted.is_none_or(|wanted| wanted == *length));
            if !fits || !given.is(input.dtype) {
                let cause = format!(
                    "input `{}` is {} of shape {:?}, not {} of shape {shape:?}",
                    input.name,
                    input.dtype,
                    input.shape,
                    given.kind()
                );
                return Err(Error::Graph(cause));
            }
        }
        let mut results: Vec<Vec<Value>> = Vec::with_capacity(graph.nodes.len());
        for (at, node) in graph.nodes.iter().enumerate() {
            let operands: Vec<Value> =
                node.operands.iter().map(|operand| self.value(*operand, &inputs, &results)).collect();
            let found = self.node(at, &operands).map_err(|error| match error {
                Error::Graph(cause) => Error::Graph(format!("{}: {}: {cause}", node.name, node.operator)),
                other => other,
            })?;
            results.push(found);
            for operand in &node.operands {
                if let Operand::Node(of, _) = operand
                    && self.prepared.last_use[*of as usize] == at
                {
                    results[*of as usize].clear();
                }
            }
        }
        let device = inputs.iter().find_map(Value::device).or_else(|| self.device());
        let outputs = graph.outputs.iter().map(|output| self.value(output.operand, &inputs, &results));
        match device {
            Some(device) => outputs.map(|output| output.on_if_fits(&device)).collect(),
            None => Ok(outputs.collect()),
        }
    }

    /// Returns the device of the module's parameters, or `None` if it has none.
    fn device(&self) -> Option<Device> {
        let weights = self.weights.first().map(|weight| weight.val().device());
        weights.or_else(|| self.forests.first().map(ForestModule::device))
    }

    fn value(&self, operand: Operand, inputs: &[Value], results: &[Vec<Value>]) -> Value {
        match operand {
            Operand::Input(at) => inputs[at as usize].clone(),
            Operand::Node(at, result) => results[at as usize][result as usize].clone(),
            Operand::Weight(at) => {
                let weight = &self.prepared.graph.weights[at as usize];
                match self.prepared.parameters[at as usize] {
                    Some(index) => Value::float_of(self.weights[index].val(), weight.shape().len()),
                    None => Value::Host(Arc::clone(weight)),
                }
            }
        }
    }

    fn node(&self, at: usize, operands: &[Value]) -> Result<Vec<Value>> {
        let node = &self.prepared.graph.nodes[at];
        // If the host knows all operands, as for shapes and for weights that are no floats, the operator runs on the
        // host.
        let host: Option<Vec<_>> = operands.iter().map(Value::host).collect();
        if let Some(host) =
            host.filter(|_| !matches!(node.operator, Operator::Forest(_) | Operator::LeafSlots(_)))
        {
            let host: Vec<_> = host.iter().map(|tensor| &**tensor).collect();
            let found = node.operator.evaluate(&host).map_err(Error::Graph)?;
            return Ok(found.into_iter().map(|tensor| Value::Host(Arc::new(tensor))).collect());
        }
        if let Some(dtypes) = &self.prepared.on_host[at] {
            let read = operands.iter().zip(dtypes).map(|(operand, dtype)| operand.read(*dtype));
            let read: Vec<_> = read.collect::<Result<_>>()?;
            let read: Vec<_> = read.iter().map(|tensor| &**tensor).collect();
            let found = node.operator.evaluate(&read).map_err(Error::Graph)?.into_iter().map(Value::from);
            return match operands.iter().find_map(Value::device) {
                Some(device) => found.map(|value| value.on_if_fits(&device)).collect(),
                None => Ok(found.collect()),
            };
        }
        let device = operands
            .iter()
            .find_map(Value::device)
            .or_else(|| self.device())
            .ok_or_else(|| Error::Graph("it has no operand".into()))?;
        match (&node.operator, self.prepared.indices[at]) {
            (Operator::Forest(_), Some(index)) => {
                let forest = &self.forests[index];
                let rows = operands[0].on(&device)?.as_floats()?.float::<2>()?;
                let values = Value::from(forest.values(rows.clone())?);
                match self.prepared.second[at] {
                    true => {
                        let classes = forest.classes(rows)?;
                        let [rows, _] = classes.dims();
                        Ok(vec![values, Value::from(classes.narrow(1, 0, 1).reshape([rows]))])
                    }
                    // Nothing reads the classes.
                    false => Ok(vec![values]),
                }
            }
            (Operator::LeafSlots(_), Some(index)) => {
                let rows = operands[0].on(&device)?.as_floats()?.float::<2>()?;
                Ok(vec![Value::from(self.forests[index].leaf_slots(rows)?)])
            }
            (Operator::SparseMatMul(_), Some(index)) => {
                let weights = Value::float_of(self.weights[index].val(), 2);
                operators::evaluate(&Operator::MatMul, &[operands[0].clone(), weights], &device)
            }
            (operator, _) => operators::evaluate(operator, operands, &device),
        }
    }
}

/// Returns, for each node that runs on the host, the types of its operands.
fn host_nodes(graph: &Graph) -> Result<Vec<Option<Vec<Dtype>>>> {
    let types = graph.types().map_err(|e| Error::Graph(e.to_string()))?;
    let on_host = |(at, node): (usize, &Node)| {
        let operands = || node.operands.iter().map(|operand| types.of(*operand));
        // A forest takes rows, also where the number of dimensions is not known.
        let device = matches!(node.operator, Operator::Forest(_) | Operator::LeafSlots(_))
            || operators::has_device_form(&node.operator)
                && operands().chain(types.results(at)).all(Value::fits_device);
        (!device).then(|| operands().map(|operand| operand.dtype).collect())
    };
    Ok(graph.nodes.iter().enumerate().map(on_host).collect())
}

/// Tells whether a node evaluates a forest on the device.
fn is_of(node: &Node, forest: &Arc<Forest>) -> bool {
    matches!(&node.operator, Operator::Forest(own) | Operator::LeafSlots(own) if Arc::ptr_eq(own, forest))
}
