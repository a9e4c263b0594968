//! The smallest types that products and their neighbours can be computed in exactly (dtype rewriting, CMLCompiler,
//! section 4.3 and algorithm 1).
//!
//! An operand of integers has the smallest type that holds them: truth values of comparisons, indices, weights. A
//! product has the greatest type of its operands, raised to the fastest one of the target
//! ([`crate::cost::PRODUCT_SPEEDS`]). No bit of a result changes: a product becomes one of `f32` only if no partial sum
//! goes beyond 2^24, so that every sum is exact in whatever order it is added.
//!
//! The result of a product in `f32` is cast to the type that the product had. Such a cast, like any cast from `f32` to
//! `f64`, moves after operators that are exact in `f32`, until it cancels or meets one that is not.

use super::super::{
    error::GraphError,
    model::{Graph, Node, Operand},
    operator::{Binary, Operator, Reduction, Unary},
    tensor::{Dtype, Elements, Tensor},
};
use super::{
    integers::{EXACT_FLOATS, KnownIntegers},
    rebuild::Rebuild,
    simple::widens,
};
use crate::cost::{GraphTarget, NumberType};

/// Rewrites the types of a graph's operators, and says what it did to each one.
pub(super) fn rewrite(old: &Graph, target: GraphTarget) -> Result<(Graph, Vec<String>), GraphError> {
    let (mut new, mut known, uses) = (Rebuild::of(old), KnownIntegers::default(), uses(old));
    let mut done = Vec::new();
    for node in &old.nodes {
        let operands = new.operands(node);
        if let Some(product) = Product::of(&new, &mut known, &node.operator, &operands, target) {
            done.push(format!("{:?}: {product}", node.name));
            let result = product.add(&mut new, &node.name, &operands)?;
            new.becomes(vec![result]);
            continue;
        }
        let once = |operand: &Operand| match operand {
            Operand::Node(at, result) => uses[*at as usize][*result as usize] == 1,
            _ => false,
        };
        match narrow(&mut new, &mut known, node, &operands, &once) {
            Some(narrowed) => {
                done.push(format!(
                    "{:?}: {} is computed in f32, without a cast to f64",
                    node.name, node.operator
                ));
                let results = new.node(&node.name, node.operator.clone(), narrowed)?;
                let before = new.results_of(&node.operator, &operands);
                let before = before.map_err(|cause| GraphError::at(&node.name, cause))?;
                let mut widened = Vec::with_capacity(results.len());
                for (result, before) in results.into_iter().zip(before) {
                    widened.push(match new.type_of(result).dtype == before.dtype {
                        true => result,
                        false => new.node(&node.name, Operator::Cast(before.dtype), vec![result])?[0],
                    });
                }
                new.becomes(widened);
            }
            None => new.keep(node)?,
        }
    }
    Ok((new.finish(old), done))
}

/// A product of integers that another type computes exactly and faster.
struct Product {
    /// The type that it has, and the one that it gets.
    types: (Dtype, Dtype),
    /// The smallest types of its operands.
    operands: [NumberType; 2],
    /// A bound of the magnitude of every partial sum.
    sums: f64,
}

impl Product {
    fn of(
        new: &Rebuild,
        known: &mut KnownIntegers,
        operator: &Operator,
        operands: &[Operand],
        target: GraphTarget,
    ) -> Option<Self> {
        let (Operator::MatMul, [a, b]) = (operator, operands) else { return None };
        let [of_a, of_b] = [known.of(new, *a)?, known.of(new, *b)?];
        let sums = known.sums(new, *a, *b)?;
        let smallest = [of_a, of_b].map(|bounds| NumberType::of_integers(bounds.least, bounds.greatest));
        // The type has to hold the operands themselves, too.
        let greatest = sums.max(of_a.magnitude()).max(of_b.magnitude());
        let chosen = target.product_type(smallest[0].max(smallest[1]), greatest)?;
        let from = new.type_of(*a).dtype;
        let to = match chosen {
            NumberType::F32 => Dtype::F32,
            NumberType::F64 => Dtype::F64,
            _ => return None,
        };
        let now = match from {
            Dtype::Bool => Some(NumberType::Bool),
            Dtype::I32 => Some(NumberType::I32),
            Dtype::F32 => Some(NumberType::F32),
            Dtype::F64 => Some(NumberType::F64),
            Dtype::I64 | Dtype::Text => None,
        };
        let speed = |number| target.product_speed(number).unwrap_or(0.0);
        let gains = speed(chosen) > now.map_or(0.0, speed);
        gains.then_some(Self { types: (from, to), operands: smallest, sums })
    }

    /// Adds the product, and returns its result, cast to the type that the product had.
    fn add(&self, new: &mut Rebuild, name: &str, operands: &[Operand]) -> Result<Operand, GraphError> {
        let (from, to) = self.types;
        let mut cast = Vec::with_capacity(operands.len());
        for operand in operands {
            cast.push(in_type(new, name, *operand, to)?);
        }
        let product = new.node(name, Operator::MatMul, cast)?;
        Ok(new.node(name, Operator::Cast(from), product)?[0])
    }
}

impl std::fmt::Display for Product {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { types: (from, to), operands: [a, b], sums } = self;
        let (a, b) = (a.name(), b.name());
        write!(
            f,
            "a product of {from} becomes one of {to}; it multiplies {a} by {b}, and no sum goes beyond {sums}"
        )
    }
}

/// Returns an operand in another type, which holds its elements exactly.
fn in_type(new: &mut Rebuild, name: &str, operand: Operand, to: Dtype) -> Result<Operand, GraphError> {
    if let Some(weight) = new.graph.weight_of(operand)
        && let Some(values) = weight.elements().doubles()
        && let Some(elements) = Elements::of_doubles(to, values)
        && let Some(weight) = Tensor::new(weight.shape(), elements)
    {
        return Ok(new.weight(weight));
    }
    let from = new.type_of(operand).dtype;
    let before = match new.node_of(operand) {
        Some(Node { operator: Operator::Cast(_), operands, .. }) => {
            Some(operands[0]).filter(|before| widens(new.type_of(*before).dtype, from))
        }
        _ => None,
    };
    let operand = before.unwrap_or(operand);
    match new.type_of(operand).dtype == to {
        true => Ok(operand),
        false => Ok(new.node(name, Operator::Cast(to), vec![operand])?[0]),
    }
}

/// Returns the operands of a node in `f32`, if its operands of doubles are all cast from `f32` and the operator is
/// exact in `f32`. The casts are then dropped, or move after the operator. `once` says which results are read only
/// once.
fn narrow(
    new: &mut Rebuild,
    known: &mut KnownIntegers,
    node: &Node,
    operands: &[Operand],
    once: &impl Fn(&Operand) -> bool,
) -> Option<Vec<Operand>> {
    let numbers = match &node.operator {
        Operator::Compare(_) | Operator::Binary(_) | Operator::Concat { .. } => 0..operands.len(),
        Operator::Where => 1..operands.len(),
        _ => 0..1,
    };
    let doubles = numbers.clone().all(|at| new.type_of(operands[at]).dtype == Dtype::F64);
    if !doubles || !exact_in_floats(new, known, &node.operator, operands) {
        return None;
    }
    let gives_doubles = !matches!(
        node.operator,
        Operator::Compare(_) | Operator::ArgExtreme { .. } | Operator::Unary(Unary::IsNan)
    );
    let mut narrowed = operands.to_vec();
    let (mut weights, mut casts) = (Vec::new(), 0);
    for at in numbers {
        if let Some(weight) = new.graph.weight_of(operands[at]) {
            weights.push((at, in_floats(weight)?));
            continue;
        }
        let Some(Node { operator: Operator::Cast(Dtype::F64), operands: before, .. }) =
            new.node_of(operands[at])
        else {
            return None;
        };
        if new.type_of(before[0]).dtype != Dtype::F32 || gives_doubles && !once(&node.operands[at]) {
            return None;
        }
        narrowed[at] = before[0];
        casts += 1;
    }
    if casts == 0 {
        return None;
    }
    for (at, weight) in weights {
        narrowed[at] = new.weight(weight);
    }
    Some(narrowed)
}

/// Returns whether an operator gives the same results in `f32` as in doubles, if every double is an `f32` value.
fn exact_in_floats(
    new: &Rebuild,
    known: &mut KnownIntegers,
    operator: &Operator,
    operands: &[Operand],
) -> bool {
    match operator {
        Operator::Compare(_)
        | Operator::ArgExtreme { .. }
        | Operator::TopK { .. }
        | Operator::Gather { .. }
        | Operator::GatherElements { .. }
        | Operator::Concat { .. }
        | Operator::Reshape(_)
        | Operator::ReshapeAs
        | Operator::Transpose(_)
        | Operator::Slice { .. }
        | Operator::Unsqueeze(_)
        | Operator::Squeeze(_)
        | Operator::Where
        | Operator::Unary(
            Unary::Abs
            | Unary::Ceil
            | Unary::Floor
            | Unary::IsNan
            | Unary::Negate
            | Unary::Relu
            | Unary::Round
            | Unary::Sign,
        )
        | Operator::Binary(Binary::Minimum | Binary::Maximum)
        | Operator::Reduce { how: Reduction::Minimum | Reduction::Maximum, .. } => true,
        // Integers up to 2^24 add and multiply exactly.
        Operator::Binary(Binary::Add | Binary::Subtract | Binary::Multiply) => {
            known.of_result(new, operator, operands).is_some_and(|bounds| bounds.magnitude() <= EXACT_FLOATS)
        }
        Operator::Reduce { how: Reduction::Sum, axes, .. } => {
            known.of(new, operands[0]).is_some()
                && known.sum_along(new, operands[0], axes).is_some_and(|bound| bound <= EXACT_FLOATS)
        }
        _ => false,
    }
}

/// Returns a weight of doubles as `f32`, or `None` if an element is no `f32` value.
fn in_floats(weight: &Tensor) -> Option<Tensor> {
    let Elements::F64(values) = weight.elements() else { return None };
    let exact = values.iter().all(|value| f64::from(*value as f32).to_bits() == value.to_bits());
    let floats = exact.then(|| values.iter().map(|value| *value as f32).collect())?;
    Tensor::new(weight.shape(), Elements::F32(floats))
}

/// Returns how often each result of a graph's nodes is read, by nodes and outputs.
fn uses(graph: &Graph) -> Vec<Vec<usize>> {
    let mut found: Vec<Vec<usize>> =
        graph.nodes.iter().map(|node| vec![0; node.operator.results()]).collect();
    let of_nodes = graph.nodes.iter().flat_map(|node| node.operands.iter().copied());
    for operand in of_nodes.chain(graph.outputs.iter().map(|output| output.operand)) {
        if let Operand::Node(at, result) = operand {
            found[at as usize][result as usize] += 1;
        }
    }
    found
}
