//! Operators that go element by element.

use std::sync::Arc;

use super::{
    broadcast::{each, each_in_place, pairs, pairs_in_place, repeated},
    operator::{Binary, Compare, Unary},
    tensor::{Dtype, Elements, Lengths, Tensor, broadcast, broadcasts_to, room},
    view::{ElementsView, TensorView},
};
use crate::cpu::functions;

/// Returns the shape that two tensors broadcast to, if there may be a tensor of it.
fn shape_of(a: &[usize], b: &[usize]) -> Result<Lengths, String> {
    let shape = broadcast(a, b).ok_or_else(|| format!("shapes {a:?} and {b:?} don't broadcast"))?;
    room(&shape)?;
    Ok(shape)
}

fn types(a: TensorView<'_>, b: TensorView<'_>) -> String {
    format!("it does not take {} and {}", a.dtype(), b.dtype())
}

/// Calls a loop with the function of an operator on floats. Each operator gets a loop of its own, so that the
/// compiler vectorizes it.
macro_rules! of_floats {
    ($how:expr, $loop:ident($($argument:expr),+)) => {
        match $how {
            Binary::Add => $loop($($argument,)+ |a, b| a + b),
            Binary::Subtract => $loop($($argument,)+ |a, b| a - b),
            Binary::Multiply => $loop($($argument,)+ |a, b| a * b),
            Binary::Divide => $loop($($argument,)+ |a, b| a / b),
            Binary::Power => $loop($($argument,)+ |a, b| a.powf(*b)),
            // A NaN on either side gives NaN.
            Binary::Minimum => $loop($($argument,)+ |a, b| if *a < *b || a.is_nan() { *a } else { *b }),
            Binary::Maximum => $loop($($argument,)+ |a, b| if *a > *b || a.is_nan() { *a } else { *b }),
            _ => $loop($($argument,)+ |a, b| *a - (*a / *b).floor() * *b),
        }
    };
}

/// Applies an operator to two tensors of floats, and writes the result over the first. Returns `false`, and changes
/// nothing, if the operator is not for floats, or if the result has another type or shape.
pub(super) fn binary_in_place(how: Binary, a: &mut Tensor, b: TensorView<'_>) -> bool {
    let logic = matches!(how, Binary::And | Binary::Or | Binary::Xor);
    if logic || !broadcasts_to(b.shape(), a.shape()) {
        return false;
    }
    let (shape, elements) = a.fields_mut();
    match (elements, b.elements()) {
        (Elements::F32(a), ElementsView::F32(values)) => {
            of_floats!(how, pairs_in_place(a, values, b.shape(), shape));
        }
        (Elements::F64(a), ElementsView::F64(values)) => {
            of_floats!(how, pairs_in_place(a, values, b.shape(), shape));
        }
        _ => return false,
    }
    true
}

/// Applies an operator to two tensors.
pub(super) fn binary(how: Binary, a: TensorView<'_>, b: TensorView<'_>) -> Result<Tensor, String> {
    let shape = shape_of(a.shape(), b.shape())?;
    let (of_a, of_b) = (a.shape(), b.shape());
    macro_rules! by {
        ($a:expr, $b:expr, { $($how:pat => $f:expr),+ $(,)? }) => {
            match how {
                $($how => pairs($a, of_a, $b, of_b, &shape, $f),)+
            }
        };
    }
    macro_rules! integers {
        ($a:expr, $b:expr) => {
            by!($a, $b, {
                Binary::Add => |a, b| a.wrapping_add(*b),
                Binary::Subtract => |a, b| a.wrapping_sub(*b),
                Binary::Multiply => |a, b| a.wrapping_mul(*b),
                // A division by zero gives 0, so that no input stops a program.
                Binary::Divide => |a, b| a.checked_div(*b).unwrap_or(0),
                Binary::Power => |a, b| u32::try_from(*b).map_or(0, |b| a.wrapping_pow(b)),
                Binary::Minimum => |a, b| *a.min(b),
                Binary::Maximum => |a, b| *a.max(b),
                _ => |a, b| {
                    let rest = a.checked_rem(*b).unwrap_or(0);
                    if rest != 0 && (rest < 0) != (*b < 0) { rest + b } else { rest }
                },
            })
        };
    }
    let logic = matches!(how, Binary::And | Binary::Or | Binary::Xor);
    let elements = match (a.elements(), b.elements()) {
        (ElementsView::Bool(a), ElementsView::Bool(b)) if logic => Elements::Bool(by!(a, b, {
            Binary::And => |a, b| a & b,
            Binary::Or => |a, b| a | b,
            _ => |a, b| a ^ b,
        })),
        _ if logic => return Err(types(a, b)),
        (ElementsView::F32(a), ElementsView::F32(b)) => {
            Elements::F32(of_floats!(how, pairs(a, of_a, b, of_b, &shape)))
        }
        (ElementsView::F64(a), ElementsView::F64(b)) => {
            Elements::F64(of_floats!(how, pairs(a, of_a, b, of_b, &shape)))
        }
        (ElementsView::I32(a), ElementsView::I32(b)) => Elements::I32(integers!(a, b)),
        (ElementsView::I64(a), ElementsView::I64(b)) => Elements::I64(integers!(a, b)),
        // A power's exponent may have a type of its own; the result has the base's.
        (_, exponents) if how == Binary::Power => {
            let exponents = exponents.doubles().and_then(|values| Elements::of_doubles(a.dtype(), values));
            let exponents = exponents.and_then(|elements| Tensor::new(of_b, elements));
            return match exponents {
                Some(exponents) if a.dtype() != Dtype::Bool => binary(how, a, exponents.view()),
                _ => Err(types(a, b)),
            };
        }
        _ => return Err(types(a, b)),
    };
    Tensor::new(shape, elements).ok_or_else(|| "the shape is too large".into())
}

/// Compares two tensors element by element.
pub(super) fn compare(how: Compare, a: TensorView<'_>, b: TensorView<'_>) -> Result<Tensor, String> {
    let shape = shape_of(a.shape(), b.shape())?;
    let (of_a, of_b) = (a.shape(), b.shape());
    macro_rules! ordered {
        ($a:expr, $b:expr) => {
            match how {
                Compare::Equal => pairs($a, of_a, $b, of_b, &shape, |a, b| a == b),
                Compare::Less => pairs($a, of_a, $b, of_b, &shape, |a, b| a < b),
                Compare::LessOrEqual => pairs($a, of_a, $b, of_b, &shape, |a, b| a <= b),
                Compare::Greater => pairs($a, of_a, $b, of_b, &shape, |a, b| a > b),
                Compare::GreaterOrEqual => pairs($a, of_a, $b, of_b, &shape, |a, b| a >= b),
            }
        };
    }
    let truths = match (a.elements(), b.elements()) {
        (ElementsView::Bool(a), ElementsView::Bool(b)) => ordered!(a, b),
        (ElementsView::I32(a), ElementsView::I32(b)) => ordered!(a, b),
        (ElementsView::I64(a), ElementsView::I64(b)) => ordered!(a, b),
        (ElementsView::F32(a), ElementsView::F32(b)) => ordered!(a, b),
        (ElementsView::F64(a), ElementsView::F64(b)) => ordered!(a, b),
        (ElementsView::Text(a), ElementsView::Text(b)) => ordered!(a, b),
        _ => return Err(types(a, b)),
    };
    Tensor::new(shape, Elements::Bool(truths)).ok_or_else(|| "the shape is too large".into())
}

/// Applies an operator to a float, in doubles.
fn of_float(how: Unary, v: f64) -> f64 {
    match how {
        Unary::Abs => v.abs(),
        Unary::Ceil => v.ceil(),
        Unary::Cos => v.cos(),
        Unary::Erf => functions::erf(v),
        Unary::Exp => v.exp(),
        Unary::Floor => v.floor(),
        Unary::Gelu => functions::gelu(v),
        Unary::Log => v.ln(),
        Unary::Negate => -v,
        Unary::Reciprocal => v.recip(),
        Unary::Relu => {
            if v > 0.0 || v.is_nan() {
                v
            } else {
                0.0
            }
        }
        Unary::Round => v.round_ties_even(),
        // The two forms never overflow.
        Unary::Sigmoid if v >= 0.0 => 1.0 / (1.0 + (-v).exp()),
        Unary::Sigmoid => v.exp() / (1.0 + v.exp()),
        Unary::Sign if v == 0.0 || v.is_nan() => v,
        Unary::Sign => v.signum(),
        Unary::Sin => v.sin(),
        Unary::Sqrt => v.sqrt(),
        Unary::Tanh => v.tanh(),
        Unary::IsNan | Unary::Not => v,
    }
}

/// Calls a loop with the function of an operator on floats of 32 bits: one of [`functions`], or the standard
/// library's in doubles. The first five have the same result in either type.
macro_rules! of_f32 {
    ($how:expr, $loop:ident($argument:expr)) => {
        match $how {
            Unary::Abs => $loop($argument, |v| v.abs()),
            Unary::Negate => $loop($argument, |v| -v),
            Unary::Reciprocal => $loop($argument, |v| 1.0 / v),
            Unary::Relu => $loop($argument, |v| if *v <= 0.0 { 0.0 } else { *v }),
            Unary::Sqrt => $loop($argument, |v| v.sqrt()),
            Unary::Erf => $loop($argument, |v| functions::erf(f64::from(*v)) as f32),
            Unary::Exp => $loop($argument, |v| functions::exp(f64::from(*v)) as f32),
            Unary::Gelu => $loop($argument, |v| functions::gelu(f64::from(*v)) as f32),
            Unary::Sigmoid => $loop($argument, |v| functions::sigmoid(f64::from(*v)) as f32),
            Unary::Tanh => $loop($argument, |v| functions::tanh(f64::from(*v)) as f32),
            how => $loop($argument, |v| of_float(how, f64::from(*v)) as f32),
        }
    };
}

/// Applies an operator to each float in place. Returns `false`, and changes nothing, if the result has another type,
/// or if the tensor is not of floats.
pub(super) fn unary_in_place(how: Unary, x: &mut Tensor) -> bool {
    match (how, x.fields_mut().1) {
        (Unary::IsNan | Unary::Not, _) => return false,
        (how, Elements::F32(x)) => of_f32!(how, each_in_place(x)),
        (how, Elements::F64(x)) => each_in_place(x, |v| of_float(how, *v)),
        _ => return false,
    }
    true
}

/// Applies an operator to each element.
pub(super) fn unary(how: Unary, x: TensorView<'_>) -> Result<Tensor, String> {
    let refused = || Err(format!("it does not take {}", x.dtype()));
    let elements = match (how, x.elements()) {
        (Unary::IsNan, ElementsView::F32(x)) => Elements::Bool(each(x, |v| v.is_nan())),
        (Unary::IsNan, ElementsView::F64(x)) => Elements::Bool(each(x, |v| v.is_nan())),
        (Unary::Not, ElementsView::Bool(x)) => Elements::Bool(each(x, |v| !v)),
        (Unary::IsNan | Unary::Not, _) => return refused(),
        (_, ElementsView::F32(x)) => Elements::F32(of_f32!(how, each(x))),
        (_, ElementsView::F64(x)) => Elements::F64(each(x, |v| of_float(how, *v))),
        (Unary::Abs, ElementsView::I64(x)) => Elements::I64(x.iter().map(|v| v.wrapping_abs()).collect()),
        (Unary::Negate, ElementsView::I64(x)) => Elements::I64(x.iter().map(|v| v.wrapping_neg()).collect()),
        (Unary::Sign, ElementsView::I64(x)) => Elements::I64(x.iter().map(|v| v.signum()).collect()),
        (Unary::Abs, ElementsView::I32(x)) => Elements::I32(x.iter().map(|v| v.wrapping_abs()).collect()),
        (Unary::Negate, ElementsView::I32(x)) => Elements::I32(x.iter().map(|v| v.wrapping_neg()).collect()),
        (Unary::Sign, ElementsView::I32(x)) => Elements::I32(x.iter().map(|v| v.signum()).collect()),
        _ => return refused(),
    };
    Ok(Tensor::new(x.shape(), elements).expect("one element for each"))
}

/// Returns elements of another type. A text that is no number is refused.
pub(super) fn cast(to: Dtype, x: TensorView<'_>) -> Result<Tensor, String> {
    if x.dtype() == to {
        return Ok(x.to_tensor());
    }
    let elements = match (x.elements(), to) {
        (ElementsView::F32(values), Dtype::F64) => Some(Elements::F64(each(values, |v| f64::from(*v)))),
        (ElementsView::F64(values), Dtype::F32) => Some(Elements::F32(each(values, |v| *v as f32))),
        (ElementsView::Bool(values), Dtype::F32) => {
            Some(Elements::F32(each(values, |v| f32::from(u8::from(*v)))))
        }
        (ElementsView::Text(texts), _) => {
            let number = |text: &Arc<str>| {
                text.trim().parse::<f64>().map_err(|_| format!("the text {text:?} is no number"))
            };
            let numbers = texts.iter().map(number).collect::<Result<Vec<_>, _>>()?;
            Elements::of_doubles(to, numbers)
        }
        (ElementsView::I64(values), Dtype::Text) => Some(texts(values)),
        (ElementsView::I32(values), Dtype::Text) => Some(texts(values)),
        (ElementsView::F32(values), Dtype::Text) => Some(texts(values)),
        (ElementsView::F64(values), Dtype::Text) => Some(texts(values)),
        (ElementsView::Bool(values), Dtype::Text) => Some(texts(values)),
        // Large integers keep their digits.
        (ElementsView::I64(values), Dtype::I32) => {
            Some(Elements::I32(values.iter().map(|v| *v as i32).collect()))
        }
        (ElementsView::I64(values), Dtype::Bool) => {
            Some(Elements::Bool(values.iter().map(|v| *v != 0).collect()))
        }
        (others, _) => others.doubles().and_then(|values| Elements::of_doubles(to, values)),
    };
    let elements = elements.ok_or_else(|| format!("{} can't be cast to {to}", x.dtype()))?;
    Ok(Tensor::new(x.shape(), elements).expect("one element for each"))
}

fn texts(values: &[impl ToString]) -> Elements {
    Elements::Text(values.iter().map(|value| value.to_string().into()).collect())
}

/// Returns the elements of `yes` where the condition is true, and of `no` elsewhere.
pub(super) fn choose(
    condition: TensorView<'_>,
    yes: TensorView<'_>,
    no: TensorView<'_>,
) -> Result<Tensor, String> {
    let ElementsView::Bool(truths) = condition.elements() else {
        return Err(format!("its condition is of {}, not of truth values", condition.dtype()));
    };
    let shape = shape_of(&shape_of(yes.shape(), no.shape())?, condition.shape())?;
    let truths = repeated(truths, condition.shape(), &shape);
    macro_rules! chosen {
        ($yes:expr, $no:expr) => {{
            let (no, yes) = (repeated($no, no.shape(), &shape), repeated($yes, yes.shape(), &shape));
            let all = truths.iter().zip(yes.iter()).zip(no.iter());
            all.map(|((truth, yes), no)| if *truth { yes.clone() } else { no.clone() }).collect()
        }};
    }
    let elements = match (yes.elements(), no.elements()) {
        (ElementsView::Bool(y), ElementsView::Bool(n)) => Elements::Bool(chosen!(y, n)),
        (ElementsView::I32(y), ElementsView::I32(n)) => Elements::I32(chosen!(y, n)),
        (ElementsView::I64(y), ElementsView::I64(n)) => Elements::I64(chosen!(y, n)),
        (ElementsView::F32(y), ElementsView::F32(n)) => Elements::F32(chosen!(y, n)),
        (ElementsView::F64(y), ElementsView::F64(n)) => Elements::F64(chosen!(y, n)),
        (ElementsView::Text(y), ElementsView::Text(n)) => Elements::Text(chosen!(y, n)),
        _ => return Err(types(yes, no)),
    };
    Tensor::new(shape, elements).ok_or_else(|| "the shape is too large".into())
}

/// Up to this number of comparisons, a lookup makes no table of its keys.
const FEW_COMPARES: usize = 1024;

/// Returns why the element at `index` is refused.
fn no_key(x: TensorView<'_>, keys: usize, index: Option<usize>) -> String {
    let at = index.unwrap_or(0);
    let element = match x.elements() {
        ElementsView::Text(texts) => {
            texts.get(at).map(|text| format!("{:?}", text.chars().take(40).collect::<String>()))
        }
        others => others.doubles().and_then(|values| {
            values.get(at).map(|value| match value.is_nan() {
                true => "a missing value".to_owned(),
                false => value.to_string(),
            })
        }),
    };
    let element = element.unwrap_or_default();
    format!(
        "{element} is none of its {keys} keys, and it has no value for others; use a value of the training data"
    )
}

/// Returns the value of each element, found by its key.
pub(super) fn lookup(
    x: TensorView<'_>,
    keys: &Elements,
    values: &Elements,
    other: &Elements,
) -> Result<Tensor, String> {
    use std::collections::HashMap;
    // Few elements are compared with the keys one by one, which takes less time than a table of all keys.
    let few = x.elements().len().saturating_mul(keys.len()) <= FEW_COMPARES;
    // A float's key is its bits; a missing value finds the key NaN, and -0.0 the key 0.
    let bits = |v: f64| if v.is_nan() { f64::NAN.to_bits() } else { (v + 0.0).to_bits() };
    let indices: Vec<Option<usize>> = match (x.elements(), keys) {
        (ElementsView::Text(x), Elements::Text(keys)) if few => {
            x.iter().map(|text| keys.iter().rposition(|key| key == text)).collect()
        }
        (ElementsView::I64(x), Elements::I64(keys)) if few => {
            x.iter().map(|v| keys.iter().rposition(|key| key == v)).collect()
        }
        (ElementsView::Text(x), Elements::Text(keys)) => {
            let of: HashMap<&str, usize> = keys.iter().map(|key| &**key).zip(0..).collect();
            x.iter().map(|text| of.get(&**text).copied()).collect()
        }
        (ElementsView::I64(x), Elements::I64(keys)) => {
            let of: HashMap<i64, usize> = keys.iter().copied().zip(0..).collect();
            x.iter().map(|v| of.get(v).copied()).collect()
        }
        (x, keys) => match (x.doubles(), keys.doubles()) {
            (Some(x), Some(keys)) => {
                let of: HashMap<u64, usize> = keys.into_iter().map(bits).zip(0..).collect();
                x.into_iter().map(|v| of.get(&bits(v)).copied()).collect()
            }
            _ => return Err(format!("elements of {} have no keys of {}", x.dtype(), keys.dtype())),
        },
    };
    macro_rules! found {
        ($values:expr, $other:expr) => {{
            let value = |at: &Option<usize>| match at {
                Some(at) => Some($values[*at].clone()),
                None => $other.first().cloned(),
            };
            let found: Option<Vec<_>> = indices.iter().map(value).collect();
            found.ok_or_else(|| no_key(x, keys.len(), indices.iter().position(Option::is_none)))?
        }};
    }
    if keys.len() != values.len() {
        return Err(format!("it has {} keys and {} values", keys.len(), values.len()));
    }
    let elements = match (values, other) {
        (Elements::Text(v), Elements::Text(o)) => Elements::Text(found!(v, o)),
        (Elements::I64(v), Elements::I64(o)) => Elements::I64(found!(v, o)),
        (Elements::F32(v), Elements::F32(o)) => Elements::F32(found!(v, o)),
        (Elements::F64(v), Elements::F64(o)) => Elements::F64(found!(v, o)),
        _ => return Err(format!("its values are of {} and {}", values.dtype(), other.dtype())),
    };
    Ok(Tensor::new(x.shape(), elements).expect("one element for each"))
}
