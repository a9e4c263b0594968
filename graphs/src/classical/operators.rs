//! The operators of a graph with burn's tensors. All values have four dimensions here, padded in front with lengths of
//! 1, so that they broadcast as they are.

use burn::tensor::kind::Ordered;
use burn::tensor::{
    Bool, Device, Int, Tensor, activation,
    module::{avg_pool2d, conv2d, max_pool2d},
    ops::{AvgPoolOptions, ConvOptions, MaxPoolOptions},
};
use fangorn::graph::{
    Binary, Compare, Distance, Dtype, Elements, Operator, Pool, Pooling, Reduction, Unary, Window,
};

use super::value::{MOST_DIMENSIONS, Value, padded};
use crate::error::{Error, Result};

/// The maximum number of keys of a lookup table on a device, which compares each element with each key.
const MOST_KEYS: usize = 1 << 12;

/// Tells whether [`evaluate`] has an operator. The interpreter evaluates the others on the host.
pub(super) fn has_device_form(operator: &Operator) -> bool {
    match operator {
        Operator::CouplePairs { .. }
        | Operator::LinearLeaves(_)
        | Operator::Compress { .. }
        | Operator::ScatterElements { .. }
        | Operator::Solve
        | Operator::ImputeNeighbors { .. }
        | Operator::Texts(_) => false,
        // Means of pixels that are apart.
        Operator::Pool(Pool { window, how, .. }) => *how == Pooling::Greatest || window.dilations == [1, 1],
        // Without another value, an element that is no key is an error, which a device can't report.
        Operator::Lookup { keys, other, .. } => !other.is_empty() && keys.len() <= MOST_KEYS,
        _ => true,
    }
}

fn refused<T>(cause: impl Into<String>) -> Result<T> {
    Err(Error::Graph(cause.into()))
}

/// Evaluates an operator on a device.
pub(super) fn evaluate(operator: &Operator, operands: &[Value], device: &Device) -> Result<Vec<Value>> {
    // A shape is known on the host before the device has computed anything.
    if let (Operator::Shape, [x]) = (operator, operands) {
        let lengths: Vec<i64> = x.shape().iter().map(|length| *length as i64).collect();
        let shape = fangorn::graph::Tensor::new([lengths.len()], Elements::I64(lengths));
        return Ok(shape.into_iter().map(|tensor| Value::Host(tensor.into())).collect());
    }
    if let (Operator::ReshapeAs, [x, lengths]) = (operator, operands) {
        let lengths = lengths.read(Dtype::I64)?.elements().doubles().unwrap_or_default();
        return reshape(&x.on(device)?, &lengths.iter().map(|length| *length as i64).collect::<Vec<_>>())
            .map(one);
    }
    if let (Operator::Fill(_), [lengths]) = (operator, operands) {
        let filled = operator.evaluate(&[&*lengths.read(Dtype::I64)?]).map_err(Error::Graph)?;
        return filled.into_iter().map(|tensor| Value::from(tensor).on(device)).collect();
    }
    let on_device = operands.iter().map(|operand| operand.on(device)).collect::<Result<Vec<_>>>()?;
    match (operator, &on_device[..]) {
        (Operator::Unary(how), [x]) => unary(*how, x).map(one),
        (Operator::Binary(how), [a, b]) => binary(*how, a, b).map(one),
        (Operator::Compare(how), [a, b]) => compare(*how, a, b).map(one),
        (Operator::Where, [condition, yes, no]) => choose(condition, yes, no).map(one),
        (Operator::Cast(to), [x]) => cast(*to, x).map(one),
        (Operator::MatMul, [a, b]) => product(a, b).map(one),
        (Operator::Reduce { how, axes, keep }, [x]) => reduce(*how, axes, *keep, x).map(one),
        (Operator::Softmax { axis }, [Value::Float(x, dimensions)]) => {
            let axis = axis_of(*axis, *dimensions)?;
            Ok(one(Value::Float(activation::softmax(x.clone(), axis), *dimensions)))
        }
        (Operator::ArgExtreme { axis, keep, greatest, last }, [x]) => {
            arg_extreme(x, *axis, *keep, *greatest, *last).map(one)
        }
        (Operator::TopK { axis, k, greatest }, [Value::Float(x, dimensions)]) => {
            let axis = axis_of(*axis, *dimensions)?;
            if *k > x.dims()[axis] {
                return refused(format!("it asks for {k} of {} elements", x.dims()[axis]));
            }
            let signed = |x: Tensor<4>| if *greatest { x } else { x.neg() };
            let (values, indices) = signed(x.clone()).topk_with_indices(*k, axis);
            Ok(vec![Value::Float(signed(values), *dimensions), Value::Int(indices, *dimensions)])
        }
        (Operator::Gather { axis }, [x, indices]) => gather(*axis, x, indices).map(one),
        (Operator::GatherElements { axis }, [x, Value::Int(indices, dimensions)]) => {
            let axis = axis_of(*axis, *dimensions)?;
            let indices = from_front(indices.clone(), padded(&x.shape())[axis]);
            Ok(one(match x {
                Value::Float(x, _) => Value::Float(x.clone().gather(axis, indices), *dimensions),
                Value::Int(x, _) => Value::Int(x.clone().gather(axis, indices), *dimensions),
                Value::Bool(x, _) => Value::Bool(x.clone().gather(axis, indices), *dimensions),
                Value::Host(_) => return refused("no tensor"),
            }))
        }
        (Operator::Concat { axis }, all) => concat(*axis, all).map(one),
        (Operator::Reshape(lengths), [x]) => reshape(x, lengths).map(one),
        (Operator::CumulativeSum { axis }, [x]) => {
            let axis = axis_of(*axis, x.shape().len())?;
            Ok(one(match x {
                Value::Float(x, dimensions) => Value::Float(x.clone().cumsum(axis), *dimensions),
                Value::Int(x, dimensions) => Value::Int(x.clone().cumsum(axis), *dimensions),
                other => return refused(format!("it does not take {}", other.kind())),
            }))
        }
        (Operator::Transpose(order), [x]) => transpose(x, order).map(one),
        (Operator::Slice { axis, start, end, step }, [x]) => {
            slice(x, *axis, [*start, *end, *step], device).map(one)
        }
        (Operator::Unsqueeze(axes), [x]) => unsqueeze(x, axes).map(one),
        (Operator::Squeeze(axes), [x]) => squeeze(x, axes).map(one),
        (
            Operator::Convolve { window, groups },
            [Value::Float(x, 4), Value::Float(filters, 4), bias @ ..],
        ) => {
            let options =
                ConvOptions::new_with_padding(window.strides, padding_of(window), window.dilations, *groups);
            let bias = match bias {
                [Value::Float(bias, _)] => Some(bias.clone().reshape([filters.dims()[0]])),
                [] => None,
                _ => return refused("its bias is no list of floats"),
            };
            Ok(one(Value::Float(conv2d(x.clone(), filters.clone(), bias, options), 4)))
        }
        (Operator::Pool(pool), [Value::Float(x, 4)]) => pooled(pool, x.clone()).map(one),
        (
            Operator::LayerNorm { epsilon },
            [Value::Float(x, dimensions), Value::Float(scale, _), Value::Float(bias, _)],
        ) => {
            let last = MOST_DIMENSIONS - 1;
            let x = x.clone();
            let x = x.clone() - x.mean_dim(last);
            let variance = (x.clone() * x.clone()).mean_dim(last);
            let normal = x / (variance + *epsilon as f32).sqrt();
            Ok(one(Value::Float(normal * scale.clone() + bias.clone(), *dimensions)))
        }
        (Operator::Lookup { keys, values, other }, [x]) => lookup(x, keys, values, other).map(one),
        (Operator::Distances(how), [a, b]) => distances(*how, a, b).map(one),
        _ => refused("it does not take these operands on a device; predict with GraphPredictor"),
    }
}

/// Returns a window's padding before and after, down and across.
fn padding_of(window: &Window) -> [(usize, usize); 2] {
    let [above, left, below, right] = window.padding;
    [(above, below), (left, right)]
}

fn pooled(pool: &Pool, x: Tensor<4>) -> Result<Value> {
    let Pool { size, window, how } = pool;
    let (stride, padding, dilation) = (window.strides, padding_of(window), window.dilations);
    let found = match how {
        Pooling::Greatest => {
            let options = MaxPoolOptions { kernel_size: *size, stride, padding, dilation, ceil_mode: false };
            max_pool2d(x, options)
        }
        how => {
            let count_include_pad = *how == Pooling::MeanWithPadding;
            let options =
                AvgPoolOptions { kernel_size: *size, stride, padding, count_include_pad, ceil_mode: false };
            avg_pool2d(x, options)
        }
    };
    Ok(Value::Float(found, 4))
}

fn one(value: Value) -> Vec<Value> {
    vec![value]
}

/// Returns an axis of a value as an axis of its four dimensions.
fn axis_of(axis: i64, dimensions: usize) -> Result<usize> {
    let from_front = if axis < 0 { axis.checked_add(dimensions as i64) } else { Some(axis) };
    let found = from_front.and_then(|axis| usize::try_from(axis).ok()).filter(|axis| *axis < dimensions);
    match found {
        Some(axis) => Ok(axis + MOST_DIMENSIONS - dimensions),
        None => refused(format!("there is no axis {axis} among {dimensions} dimensions")),
    }
}

/// Returns the elements in another shape.
fn shaped(x: &Value, shape: &[usize]) -> Result<Value> {
    if shape.len() > MOST_DIMENSIONS {
        return refused("tensors of more than four dimensions do not run on devices");
    }
    let (lengths, dimensions) = (padded(shape), shape.len());
    Ok(match x {
        Value::Float(x, _) => Value::Float(x.clone().reshape(lengths), dimensions),
        Value::Int(x, _) => Value::Int(x.clone().reshape(lengths), dimensions),
        Value::Bool(x, _) => Value::Bool(x.clone().reshape(lengths), dimensions),
        Value::Host(_) => return refused("no tensor"),
    })
}

/// Returns the index of an extreme element along an axis: the greatest if `greatest` is set, and otherwise the least.
/// Of equal elements, the last counts if `last` is set, and otherwise the first.
fn arg_extreme(x: &Value, axis: i64, keep: bool, greatest: bool, last: bool) -> Result<Value> {
    let Value::Float(x, dimensions) = x.as_floats()? else { return refused("no floats") };
    let axis = axis_of(axis, dimensions)?;
    let length = x.dims()[axis] as i64;
    let x = if last { x.flip([axis]) } else { x };
    let indices = if greatest { x.argmax(axis) } else { x.argmin(axis) };
    let indices = if last { indices.neg().add_scalar(length - 1) } else { indices };
    without(&Value::Int(indices, dimensions), &[axis], keep)
}

/// Reorders the dimensions. `order` holds, for each dimension of the result, that of `x`.
fn transpose(x: &Value, order: &[usize]) -> Result<Value> {
    let before = MOST_DIMENSIONS - order.len();
    let axes: [usize; 4] =
        std::array::from_fn(|at| if at < before { at } else { order[at - before] + before });
    Ok(match x {
        Value::Float(x, dimensions) => Value::Float(x.clone().permute(axes), *dimensions),
        Value::Int(x, dimensions) => Value::Int(x.clone().permute(axes), *dimensions),
        Value::Bool(x, dimensions) => Value::Bool(x.clone().permute(axes), *dimensions),
        Value::Host(_) => return refused("no tensor"),
    })
}

/// Inserts dimensions of length 1, which are these dimensions of the result.
fn unsqueeze(x: &Value, axes: &[i64]) -> Result<Value> {
    let mut shape = x.shape();
    let dimensions = shape.len() + axes.len();
    if dimensions > MOST_DIMENSIONS {
        return refused("tensors of more than four dimensions do not run on devices");
    }
    let mut at: Vec<usize> = axes
        .iter()
        .map(|axis| if *axis < 0 { (axis + dimensions as i64) as usize } else { *axis as usize })
        .collect();
    at.sort_unstable();
    at.into_iter().for_each(|at| shape.insert(at.min(shape.len()), 1));
    shaped(x, &shape)
}

/// Removes these dimensions, or all dimensions of length 1 if there are no axes.
fn squeeze(x: &Value, axes: &[i64]) -> Result<Value> {
    let shape = x.shape();
    let named = axes.iter().map(|axis| axis_of(*axis, shape.len())).collect::<Result<Vec<_>>>()?;
    let before = MOST_DIMENSIONS - shape.len();
    let kept = |(at, length): &(usize, &usize)| match named.is_empty() {
        true => **length != 1,
        false => !named.contains(&(at + before)),
    };
    let shape: Vec<usize> = shape.iter().enumerate().filter(kept).map(|(_, length)| *length).collect();
    shaped(x, &shape)
}

fn reshape(x: &Value, lengths: &[i64]) -> Result<Value> {
    let old = x.shape();
    let all: usize = old.iter().product();
    let mut shape = Vec::with_capacity(lengths.len());
    for (at, length) in lengths.iter().enumerate() {
        shape.push(match length {
            0 => old.get(at).copied().unwrap_or(1),
            -1 => 1,
            other => usize::try_from(*other).unwrap_or(1),
        });
    }
    if let Some(open) = lengths.iter().position(|length| *length == -1) {
        // Lengths that stay as they are count on neither side: with a batch of no rows, both products would be 0.
        let product = |shape: &[usize]| -> usize {
            let changed = shape.iter().enumerate().filter(|(at, _)| lengths.get(*at) != Some(&0));
            changed.map(|(_, length)| length).product()
        };
        shape[open] = product(&old).checked_div(product(&shape)).unwrap_or(0);
    }
    if shape.iter().product::<usize>() != all {
        return refused(format!("shape {old:?} does not become {lengths:?}"));
    }
    shaped(x, &shape)
}

/// Returns the shape that values broadcast to.
fn broadcast(all: &[[usize; 4]]) -> Result<[usize; 4]> {
    let mut shape = [1; 4];
    for lengths in all {
        for (to, length) in shape.iter_mut().zip(lengths) {
            match (*to, *length) {
                (a, b) if a == b || b == 1 => {}
                (1, other) => *to = other,
                _ => return refused(format!("shapes {all:?} don't broadcast")),
            }
        }
    }
    Ok(shape)
}

fn unary(how: Unary, x: &Value) -> Result<Value> {
    Ok(match (how, x) {
        (Unary::Not, Value::Bool(x, dimensions)) => Value::Bool(x.clone().bool_not(), *dimensions),
        (Unary::IsNan, Value::Float(x, dimensions)) => Value::Bool(x.clone().is_nan(), *dimensions),
        (Unary::Abs, Value::Int(x, dimensions)) => Value::Int(x.clone().abs(), *dimensions),
        (Unary::Negate, Value::Int(x, dimensions)) => Value::Int(x.clone().neg(), *dimensions),
        (Unary::Sign, Value::Int(x, dimensions)) => Value::Int(x.clone().sign(), *dimensions),
        (_, Value::Float(x, dimensions)) => {
            let x = x.clone();
            let found = match how {
                Unary::Abs => x.abs(),
                Unary::Ceil => x.ceil(),
                Unary::Cos => x.cos(),
                Unary::Erf => x.erf(),
                Unary::Exp => x.exp(),
                Unary::Floor => x.floor(),
                Unary::Gelu => activation::gelu(x),
                Unary::Log => x.log(),
                Unary::Negate => x.neg(),
                Unary::Reciprocal => x.recip(),
                Unary::Relu => activation::relu(x),
                Unary::Round => x.round(),
                Unary::Sigmoid => activation::sigmoid(x),
                Unary::Sign => x.sign(),
                Unary::Sin => x.sin(),
                Unary::Sqrt => x.sqrt(),
                Unary::Tanh => x.tanh(),
                Unary::IsNan | Unary::Not => return refused("it takes other elements"),
            };
            Value::Float(found, *dimensions)
        }
        (_, other) => return refused(format!("it does not take {}", other.kind())),
    })
}

fn binary(how: Binary, a: &Value, b: &Value) -> Result<Value> {
    let dimensions = a.shape().len().max(b.shape().len());
    let power = how == Binary::Power && matches!(a, Value::Float(..));
    let b = if power { b.as_floats()? } else { b.clone() };
    Ok(match (a, &b) {
        (Value::Float(a, _), Value::Float(b, _)) => {
            let shape = broadcast(&[a.dims(), b.dims()])?;
            let (a, b) = (a.clone(), b.clone());
            let found = match how {
                Binary::Add => a + b,
                Binary::Subtract => a - b,
                Binary::Multiply => a * b,
                Binary::Divide => a / b,
                Binary::Power => power_of(a, b),
                Binary::Minimum | Binary::Maximum => {
                    let (a, b) = (a.expand(shape), b.expand(shape));
                    // A NaN on either side gives NaN.
                    let missing = b.clone().is_nan();
                    let found = match how {
                        Binary::Minimum => a.min_pair(b.clone()),
                        _ => a.max_pair(b.clone()),
                    };
                    found.mask_where(missing, b)
                }
                Binary::Modulo => a.remainder(b),
                _ => return refused("it takes truth values"),
            };
            Value::Float(found, dimensions)
        }
        (Value::Int(a, _), Value::Int(b, _)) => {
            let shape = broadcast(&[a.dims(), b.dims()])?;
            let (a, b) = (a.clone(), b.clone());
            let found = match how {
                Binary::Add => a + b,
                Binary::Subtract => a - b,
                Binary::Multiply => a * b,
                Binary::Divide => a / b,
                Binary::Power => a.powi(b),
                Binary::Minimum => a.expand(shape).min_pair(b.expand(shape)),
                Binary::Maximum => a.expand(shape).max_pair(b.expand(shape)),
                Binary::Modulo => a.remainder(b),
                _ => return refused("it takes truth values"),
            };
            Value::Int(found, dimensions)
        }
        (Value::Bool(a, _), Value::Bool(b, _)) => {
            let shape = broadcast(&[a.dims(), b.dims()])?;
            let (a, b) = (a.clone().expand(shape), b.clone().expand(shape));
            let found = match how {
                Binary::And => a.bool_and(b),
                Binary::Or => a.bool_or(b),
                Binary::Xor => a.bool_xor(b),
                _ => return refused("it does not take truth values"),
            };
            Value::Bool(found, dimensions)
        }
        (a, b) => return refused(format!("it does not take {} and {}", a.kind(), b.kind())),
    })
}

/// Returns powers. Shaders give NaN for every power of a negative number, so the power of a whole exponent is computed
/// from magnitude and sign.
fn power_of(base: Tensor<4>, exponent: Tensor<4>) -> Tensor<4> {
    let found = base.clone().abs().powf(exponent.clone());
    let shape = found.dims();
    let (base, exponent) = (base.expand(shape), exponent.expand(shape));
    let negative = base.lower_scalar(0.0);
    let odd = exponent.clone().remainder_scalar(2.0).equal_scalar(1.0);
    let whole = exponent.clone().equal(exponent.floor());
    let found = found.clone().mask_where(negative.clone().bool_and(odd), found.clone().neg());
    found.mask_fill(negative.bool_and(whole.bool_not()), f32::NAN)
}

fn ordered<K: Ordered>(how: Compare, a: Tensor<4, K>, b: Tensor<4, K>) -> Tensor<4, Bool> {
    match how {
        Compare::Equal => a.equal(b),
        Compare::Less => a.lower(b),
        Compare::LessOrEqual => a.lower_equal(b),
        Compare::Greater => a.greater(b),
        Compare::GreaterOrEqual => a.greater_equal(b),
    }
}

fn compare(how: Compare, a: &Value, b: &Value) -> Result<Value> {
    let dimensions = a.shape().len().max(b.shape().len());
    broadcast(&[padded(&a.shape()), padded(&b.shape())])?;
    let found = match (a, b) {
        (Value::Float(a, _), Value::Float(b, _)) => ordered(how, a.clone(), b.clone()),
        (Value::Int(a, _), Value::Int(b, _)) => ordered(how, a.clone(), b.clone()),
        (Value::Bool(a, _), Value::Bool(b, _)) if how == Compare::Equal => a.clone().equal(b.clone()),
        (a, b) => return refused(format!("it does not take {} and {}", a.kind(), b.kind())),
    };
    Ok(Value::Bool(found, dimensions))
}

fn choose(condition: &Value, yes: &Value, no: &Value) -> Result<Value> {
    let Value::Bool(mask, _) = condition else { return refused("its condition is no truth values") };
    let dimensions = [condition, yes, no].map(|value| value.shape().len()).into_iter().max().unwrap_or(0);
    let shape = broadcast(&[condition, yes, no].map(|value| padded(&value.shape())))?;
    let mask = mask.clone().expand(shape);
    Ok(match (yes, no) {
        (Value::Float(yes, _), Value::Float(no, _)) => {
            Value::Float(no.clone().expand(shape).mask_where(mask, yes.clone().expand(shape)), dimensions)
        }
        (Value::Int(yes, _), Value::Int(no, _)) => {
            Value::Int(no.clone().expand(shape).mask_where(mask, yes.clone().expand(shape)), dimensions)
        }
        (Value::Bool(yes, _), Value::Bool(no, _)) => {
            let (yes, no) = (yes.clone().expand(shape), no.clone().expand(shape));
            Value::Bool(mask.clone().bool_and(yes).bool_or(mask.bool_not().bool_and(no)), dimensions)
        }
        (yes, no) => return refused(format!("it does not take {} and {}", yes.kind(), no.kind())),
    })
}

fn cast(to: Dtype, x: &Value) -> Result<Value> {
    Ok(match (to, x) {
        (Dtype::F32 | Dtype::F64, x) => x.as_floats()?,
        (Dtype::I32 | Dtype::I64, Value::Float(x, dimensions)) => Value::Int(x.clone().int(), *dimensions),
        (Dtype::I32 | Dtype::I64, Value::Bool(x, dimensions)) => Value::Int(x.clone().int(), *dimensions),
        (Dtype::Bool, Value::Float(x, dimensions)) => {
            Value::Bool(x.clone().not_equal_scalar(0.0), *dimensions)
        }
        (Dtype::Bool, Value::Int(x, dimensions)) => Value::Bool(x.clone().not_equal_scalar(0), *dimensions),
        (Dtype::Text, _) => return refused("texts are not on a device"),
        (_, x) => x.clone(),
    })
}

fn product(a: &Value, b: &Value) -> Result<Value> {
    let (of_a, of_b) = (a.shape(), b.shape());
    let (Value::Float(x, _), Value::Float(y, _)) = (a, b) else { return refused("it takes floats") };
    // A vector on the right is a column.
    let y = if of_b.len() == 1 { y.clone().reshape([1, 1, of_b[0], 1]) } else { y.clone() };
    let (lengths_x, lengths_y) = (x.dims(), y.dims());
    let outside = broadcast(&[[lengths_x[0], lengths_x[1], 1, 1], [lengths_y[0], lengths_y[1], 1, 1]]);
    if lengths_x[3] != lengths_y[2] || outside.is_err() {
        return refused(format!("matrices of shapes {of_a:?} and {of_b:?} have no product"));
    }
    let found = x.clone().matmul(y);
    let lengths = found.dims();
    let outer = of_a.len().saturating_sub(2).max(of_b.len().saturating_sub(2));
    let mut shape = lengths[2 - outer..2].to_vec();
    if of_a.len() > 1 {
        shape.push(lengths[2]);
    }
    if of_b.len() > 1 {
        shape.push(lengths[3]);
    }
    shaped(&Value::Float(found, 4), &shape)
}

/// Drops the axes that were reduced to length 1, unless `keep` is set.
fn without(x: &Value, axes: &[usize], keep: bool) -> Result<Value> {
    if keep {
        return Ok(x.clone());
    }
    let shape = x.shape();
    let before = MOST_DIMENSIONS - shape.len();
    let kept = |(at, _): &(usize, &usize)| !axes.contains(&(at + before));
    let shape: Vec<usize> = shape.iter().enumerate().filter(kept).map(|(_, length)| *length).collect();
    shaped(x, &shape)
}

fn reduce(how: Reduction, axes: &[i64], keep: bool, x: &Value) -> Result<Value> {
    let dimensions = x.shape().len();
    let axes: Vec<usize> = match axes.is_empty() {
        true => (MOST_DIMENSIONS - dimensions..MOST_DIMENSIONS).collect(),
        false => axes.iter().map(|axis| axis_of(*axis, dimensions)).collect::<Result<_>>()?,
    };
    if let Value::Int(x, _) = x {
        let mut found = x.clone();
        for axis in &axes {
            found = match how {
                Reduction::Sum => found.sum_dim(*axis),
                Reduction::Product => found.prod_dim(*axis),
                Reduction::Minimum => found.min_dim(*axis),
                Reduction::Maximum => found.max_dim(*axis),
                _ => return refused("it does not take integers"),
            };
        }
        return without(&Value::Int(found, dimensions), &axes, keep);
    }
    let Value::Float(x, _) = x else { return refused(format!("it does not take {}", x.kind())) };
    let each =
        |x: Tensor<4>, f: fn(Tensor<4>, usize) -> Tensor<4>| axes.iter().fold(x, |x, axis| f(x, *axis));
    let sum = |x: Tensor<4>| each(x, |x, axis| x.sum_dim(axis));
    let x = x.clone();
    let found = match how {
        Reduction::Sum => sum(x),
        Reduction::Mean => each(x, |x, axis| x.mean_dim(axis)),
        Reduction::Product => each(x, |x, axis| x.prod_dim(axis)),
        Reduction::Minimum => each(x, |x, axis| x.min_dim(axis)),
        Reduction::Maximum => each(x, |x, axis| x.max_dim(axis)),
        Reduction::L1 => sum(x.abs()),
        Reduction::L2 => sum(x.clone() * x).sqrt(),
        Reduction::SumOfSquares => sum(x.clone() * x),
        Reduction::LogSumExp => {
            let greatest = each(x.clone(), |x, axis| x.max_dim(axis));
            sum((x - greatest.clone()).exp()).log() + greatest
        }
    };
    without(&Value::Float(found, dimensions), &axes, keep)
}

/// Returns indices that count from the front, given indices of which negative ones count from the end.
fn from_front<const D: usize>(indices: Tensor<D, Int>, length: usize) -> Tensor<D, Int> {
    let behind = indices.clone().lower_scalar(0);
    indices.clone().mask_where(behind, indices.add_scalar(length as i64))
}

fn gather(axis: i64, x: &Value, indices: &Value) -> Result<Value> {
    let shape = x.shape();
    let Value::Int(at, _) = indices else { return refused("indices are integers") };
    let axis = axis_of(axis, shape.len())?;
    let own = axis + shape.len() - MOST_DIMENSIONS;
    let index_shape = indices.shape();
    let to = [&shape[..own], &index_shape, &shape[own + 1..]].concat();
    let count: usize = index_shape.iter().product();
    let at = from_front(at.clone().reshape([count]), shape[own]);
    let mut found = shape;
    found[own] = count;
    let dimensions = found.len();
    let found = match x {
        Value::Float(x, _) => Value::Float(x.clone().select(axis, at), dimensions),
        Value::Int(x, _) => Value::Int(x.clone().select(axis, at), dimensions),
        Value::Bool(x, _) => Value::Bool(x.clone().select(axis, at), dimensions),
        Value::Host(_) => return refused("no tensor"),
    };
    shaped(&found, &to)
}

fn concat(axis: i64, all: &[Value]) -> Result<Value> {
    let dimensions = all.first().map_or(0, |value| value.shape().len());
    let axis = axis_of(axis, dimensions)?;
    let (mut floats, mut integers, mut truths) = (Vec::new(), Vec::new(), Vec::new());
    for value in all {
        match value {
            Value::Float(x, _) => floats.push(x.clone()),
            Value::Int(x, _) => integers.push(x.clone()),
            Value::Bool(x, _) => truths.push(x.clone()),
            Value::Host(_) => return refused("no tensor"),
        }
    }
    match (floats.len(), integers.len(), truths.len()) {
        (_, 0, 0) => Ok(Value::Float(Tensor::cat(floats, axis), dimensions)),
        (0, _, 0) => Ok(Value::Int(Tensor::cat(integers, axis), dimensions)),
        (0, 0, _) => Ok(Value::Bool(Tensor::cat(truths, axis), dimensions)),
        _ => refused("its operands are of several kinds"),
    }
}

fn slice(x: &Value, axis: i64, [start, end, step]: [i64; 3], device: &Device) -> Result<Value> {
    let shape = x.shape();
    let length = shape[axis_of(axis, shape.len())? + shape.len() - MOST_DIMENSIONS];
    // The interpreter slices the list of all indices, which gives the indices of the slices.
    let indices = fangorn::graph::Tensor::new([length], Elements::I64((0..length as i64).collect()));
    let indices = indices.ok_or_else(|| Error::Graph("the shape is too large".into()))?;
    let chosen = Operator::Slice { axis: 0, start, end, step }.evaluate(&[&indices]).map_err(Error::Graph)?;
    let chosen = chosen.into_iter().next().ok_or_else(|| Error::Graph("no slices".into()))?;
    if chosen == indices {
        return Ok(x.clone());
    }
    gather(axis, x, &Value::Host(chosen.into()).on(device)?)
}

/// Compares each element with each key, and adds up the values of those that are equal.
fn lookup(x: &Value, keys: &Elements, values: &Elements, other: &Elements) -> Result<Value> {
    let dimensions = x.shape().len();
    let (Some(keys), Some(found), Some(other)) = (keys.doubles(), values.doubles(), other.doubles()) else {
        return refused("texts are not on a device");
    };
    if keys.len() != found.len() || other.is_empty() {
        return refused(format!("{} keys with {} values", keys.len(), found.len()));
    }
    let equal = |key: f64| -> Result<Tensor<4, Bool>> {
        Ok(match x {
            Value::Float(x, _) if key.is_nan() => x.clone().is_nan(),
            Value::Float(x, _) => x.clone().equal_scalar(key as f32),
            Value::Int(x, _) => x.clone().equal_scalar(key as i64),
            other => return refused(format!("it does not take {}", other.kind())),
        })
    };
    let zeros = match x {
        Value::Float(x, _) => x.zeros_like(),
        Value::Int(x, _) => x.zeros_like().float(),
        other => return refused(format!("it does not take {}", other.kind())),
    };
    let integers = matches!(values.dtype(), Dtype::I32 | Dtype::I64 | Dtype::Bool);
    if integers {
        let mut so_far: Tensor<4, Int> = zeros.int().add_scalar(other[0] as i64);
        for (key, value) in keys.iter().zip(found) {
            so_far = so_far.mask_fill(equal(*key)?, value as i64);
        }
        return Ok(Value::Int(so_far, dimensions));
    }
    let mut so_far = zeros.add_scalar(other[0] as f32);
    for (key, value) in keys.iter().zip(found) {
        so_far = so_far.mask_fill(equal(*key)?, value as f32);
    }
    Ok(Value::Float(so_far, dimensions))
}

/// Returns the distance of each row of `a` from each row of `b`. Values are subtracted before they are squared, so that
/// small distances keep their digits.
fn distances(how: Distance, a: &Value, b: &Value) -> Result<Value> {
    let (a, b) = (a.float::<2>()?, b.float::<2>()?);
    let ([rows, columns], [others, width]) = (a.dims(), b.dims());
    if columns != width {
        return refused(format!("rows of {columns} and {width} columns have no distance"));
    }
    let differences = a.reshape([rows, 1, columns]) - b.reshape([1, others, columns]);
    let found: Tensor<3> = match how {
        Distance::SquaredEuclidean => (differences.clone() * differences).sum_dim(2),
        Distance::Euclidean => (differences.clone() * differences).sum_dim(2).sqrt(),
        Distance::Manhattan => differences.abs().sum_dim(2),
        Distance::Chebyshev => differences.abs().max_dim(2),
    };
    Ok(Value::from(found.reshape::<2, _>([rows, others])))
}
