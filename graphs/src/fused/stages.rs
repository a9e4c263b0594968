//! Operations that are fused, and those between them that burn runs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use burn::{
    backend::ir::{
        BaseOperationIr, IrVisitorMut, NumericOperationIr, OperationIr, TensorId, TensorIr, TensorStatus,
    },
    tensor::TensorData,
};
use fangorn_fusion::{
    Matrix,
    dag::{Builder, Dag},
    select::{Costs, Plan, Policy},
};

use super::{
    Input,
    argument::matrix_of,
    lower::{Lowering, matrix_shape},
    record::Recorded,
};
use crate::error::{Error, Result};

/// Operations that run together.
pub(super) struct Stage {
    pub work: Work,
    /// The tensors that it takes from arguments, constants and earlier stages.
    pub reads: Vec<TensorIr>,
    /// The tensors that later stages or the caller take.
    pub writes: Vec<TensorIr>,
    /// Those of a fused stage that later stages read: they are rounded to the precision of burn's own operations.
    pub rounded: Vec<TensorId>,
}

/// What a stage does.
pub(super) enum Work {
    /// A plan over matrices, which are named by [`name_of`].
    Fused { dag: Dag, plan: Box<Plan> },
    /// Operations that burn runs, in this order.
    Burn(Vec<OperationIr>),
}

/// The tensors that a function made itself.
pub(super) type Constants = Vec<(TensorId, Matrix)>;

/// Returns the name of a tensor among the inputs and outputs of a graph.
pub(super) fn name_of(tensor: TensorId) -> String {
    format!("t{}", tensor.value())
}

/// Returns the name of an operation of burn.
pub(super) fn name(operation: &OperationIr) -> String {
    let text = format!("{operation:?}");
    // "NumericFloat(F32, ArgMax(ReduceDimOpIr { …": the name is before the last parenthesis.
    let head = text.split(" {").next().unwrap_or(&text);
    let mut parts = head.rsplit('(');
    let (fields, before) = (parts.next().unwrap_or(head), parts.next());
    before.unwrap_or(fields).rsplit(", ").next().unwrap_or(head).to_owned()
}

/// Divides recorded operations into stages. Each operation is in the earliest stage of its kind that comes after what it
/// reads. Also returns the tensors that the function made itself.
pub(super) fn of<const N: usize, const M: usize>(
    inputs: &[Input; N],
    recorded: &Recorded<N, M>,
    policy: Policy,
    costs: &Costs,
) -> Result<(Constants, Vec<Stage>)> {
    let (operations, mut values) = prepared(recorded);
    let declared: HashMap<TensorId, Input> = recorded.arguments.iter().copied().zip(*inputs).collect();
    let levels = levels(&operations, &declared, &values)?;

    // Where each tensor is made, and where it is last read.
    let last = levels.iter().copied().max().unwrap_or(0);
    let (mut made, mut read): (HashMap<TensorId, usize>, HashMap<TensorId, usize>) = Default::default();
    for (operation, level) in operations.iter().zip(&levels) {
        operation.outputs().for_each(|tensor| _ = made.insert(tensor.id, *level));
        for tensor in operation.inputs() {
            let latest = read.entry(tensor.id).or_default();
            *latest = (*latest).max(*level);
        }
    }
    let by_stages = read.clone();
    recorded.results.iter().for_each(|result| _ = read.insert(*result, usize::MAX));

    let mut stages = Vec::new();
    for level in 0..=last {
        let here: Vec<&OperationIr> =
            operations.iter().zip(&levels).filter(|(_, at)| **at == level).map(|(op, _)| op).collect();
        if here.is_empty() {
            continue;
        }
        let (mut reads, mut writes) = (BTreeMap::new(), BTreeMap::new());
        for operation in &here {
            let outside = operation.inputs().filter(|tensor| made.get(&tensor.id) != Some(&level));
            reads.extend(outside.map(|tensor| (tensor.id, tensor.clone())));
            let later =
                operation.outputs().filter(|tensor| read.get(&tensor.id).is_some_and(|at| *at > level));
            writes.extend(later.map(|tensor| (tensor.id, tensor.clone())));
        }
        let (reads, writes): (Vec<TensorIr>, Vec<TensorIr>) =
            (reads.into_values().collect(), writes.into_values().collect());
        let work = if level % 2 == 0 {
            let dag = graph(&here, &reads, &writes, &declared, &values)?;
            Work::Fused { plan: Box::new(Plan::new(&dag, policy, costs)), dag }
        } else {
            Work::Burn(here.into_iter().cloned().collect())
        };
        let later = |tensor: &&TensorIr| by_stages.get(&tensor.id).is_some_and(|at| *at > level);
        let rounded = writes.iter().filter(later).map(|tensor| tensor.id).collect();
        stages.push(Stage { work, reads, writes, rounded });
    }

    // Of the tensors that the function made, those are kept that a stage reads, or that are results.
    let wanted: BTreeSet<TensorId> = stages
        .iter()
        .flat_map(|stage| &stage.reads)
        .map(|tensor| tensor.id)
        .chain(recorded.results)
        .collect();
    values.retain(|id, _| wanted.contains(id) && !declared.contains_key(id));
    Ok((values.into_iter().collect(), stages))
}

/// Sets the status of tensors, so that none is used up: a stage that runs later may read it, too.
struct KeepTensors;

impl IrVisitorMut for KeepTensors {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        if tensor.status == TensorStatus::ReadWrite {
            tensor.status = TensorStatus::ReadOnly;
        }
    }
}

/// The tensors that a function made.
type Values = BTreeMap<TensorId, Matrix>;

/// Returns the operations that compute, and the tensors that the function made.
fn prepared<const N: usize, const M: usize>(recorded: &Recorded<N, M>) -> (Vec<OperationIr>, Values) {
    let mut values = Values::new();
    let mut keep = |id: TensorId, data: &TensorData| {
        values.extend(matrix_of(data).map(|matrix| (id, matrix)));
    };
    recorded.values.iter().for_each(|(id, data)| keep(*id, data));
    let mut operations = Vec::with_capacity(recorded.operations.len());
    for operation in &recorded.operations {
        let is_argument = operation.outputs().any(|tensor| recorded.arguments.contains(&tensor.id));
        if is_argument || matches!(operation, OperationIr::Init(_) | OperationIr::Drop(_)) {
            continue;
        }
        if let Some((tensor, value)) = filled(operation) {
            keep(tensor.id, &TensorData::full(tensor.shape.clone(), value).convert_dtype(tensor.dtype));
            continue;
        }
        let mut operation = operation.clone();
        operation.visit_mut(&mut KeepTensors);
        operations.push(operation);
    }
    (operations, values)
}

/// Returns the result of an operation that makes a float tensor with the same value in each place, and the value.
fn filled(operation: &OperationIr) -> Option<(&TensorIr, f64)> {
    match operation {
        OperationIr::BaseFloat(BaseOperationIr::Zeros(of)) => Some((&of.out, 0.0)),
        OperationIr::BaseFloat(BaseOperationIr::Ones(of)) => Some((&of.out, 1.0)),
        OperationIr::NumericFloat(_, NumericOperationIr::Full(of)) => Some((&of.out, of.value.elem())),
        _ => None,
    }
}

/// Returns the level of each operation: even if it is fused, odd if burn runs it, and not before what it reads.
fn levels(
    operations: &[OperationIr],
    declared: &HashMap<TensorId, Input>,
    values: &Values,
) -> Result<Vec<usize>> {
    let builder = Builder::new();
    let mut lowering = Lowering { builder: &builder, values: HashMap::new() };
    for (id, input) in declared {
        let [rows, columns] = input.shape;
        lowering.values.insert(*id, builder.dense(&name_of(*id), rows, columns));
    }
    for (id, matrix) in values {
        let (rows, columns) = matrix.shape();
        lowering.values.insert(*id, builder.dense(&name_of(*id), rows, columns));
    }
    let mut of_tensors: HashMap<TensorId, usize> = HashMap::new();
    let mut found = Vec::with_capacity(operations.len());
    for operation in operations {
        if let OperationIr::Custom(custom) = operation {
            let problem = format!(
                "the function calls {:?}, which is not recorded with its parameters; call it before, and make its result \
                 an argument",
                custom.id
            );
            return Err(Error::Fused(problem));
        }
        let fused = lowering.add(operation).is_some();
        let read = operation.inputs().filter_map(|tensor| of_tensors.get(&tensor.id)).max();
        let after = read.copied().unwrap_or(0);
        let level = if after % 2 == usize::from(!fused) { after } else { after + 1 };
        for tensor in operation.outputs() {
            of_tensors.insert(tensor.id, level);
            if !fused && let Some((rows, columns)) = matrix_shape(&tensor.shape) {
                lowering.values.insert(tensor.id, builder.dense(&name_of(tensor.id), rows, columns));
            }
        }
        found.push(level);
    }
    Ok(found)
}

/// Makes the graph of a fused stage.
fn graph(
    operations: &[&OperationIr],
    reads: &[TensorIr],
    writes: &[TensorIr],
    declared: &HashMap<TensorId, Input>,
    values: &Values,
) -> Result<Dag> {
    let builder = Builder::new();
    let mut lowering = Lowering { builder: &builder, values: HashMap::new() };
    for tensor in reads {
        let (rows, columns) = matrix_shape(&tensor.shape).unwrap_or((1, 1));
        let name = name_of(tensor.id);
        let constant = values.get(&tensor.id).filter(|matrix| matrix.shape() == (1, 1));
        let expression = match (constant, declared.get(&tensor.id).and_then(|input| input.filled)) {
            (Some(matrix), _) => builder.literal(matrix.scalar()),
            (None, Some(filled)) => builder.csr(&name, rows, columns, filled),
            (None, None) => builder.dense(&name, rows, columns),
        };
        lowering.values.insert(tensor.id, expression);
    }
    let lost = |operation: &OperationIr| Error::Fused(format!("{}: its operands are lost", name(operation)));
    for operation in operations {
        lowering.add(operation).ok_or_else(|| lost(operation))?;
    }
    for tensor in writes {
        builder.output(&name_of(tensor.id), lowering.values[&tensor.id]);
    }
    let empty = writes.is_empty().then(|| builder.literal(0.0));
    empty.into_iter().for_each(|nothing| builder.output("nothing", nothing));
    Ok(builder.finish()?)
}
