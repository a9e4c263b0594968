//! Operators that go element by element.

use std::sync::Arc;

use super::{
    broadcast::{each, pairs, repeated},
    operator::{Binary, Compare, Unary},
    tensor::{Dtype, Elements, Tensor, broadcast},
};

fn shape_of(a: &Tensor, b: &Tensor) -> Result<Vec<usize>, String> {
    broadcast(a.shape(), b.shape())
        .ok_or_else(|| format!("shapes {:?} and {:?} don't broadcast", a.shape(), b.shape()))
}

fn types(a: &Tensor, b: &Tensor) -> String {
    format!("it does not take {} and {}", a.dtype(), b.dtype())
}

/// Returns what an operator makes of two tensors.
pub(super) fn binary(how: Binary, a: &Tensor, b: &Tensor) -> Result<Tensor, String> {
    let shape = shape_of(a, b)?;
    let (of_a, of_b) = (a.shape(), b.shape());
    // One loop for each operator, so that the compiler makes vectors of it.
    macro_rules! by {
        ($a:expr, $b:expr, { $($how:pat => $f:expr),+ $(,)? }) => {
            match how {
                $($how => pairs(($a, of_a), ($b, of_b), &shape, $f),)+
            }
        };
    }
    macro_rules! floats {
        ($a:expr, $b:expr) => {
            by!($a, $b, {
                Binary::Add => |a, b| a + b,
                Binary::Subtract => |a, b| a - b,
                Binary::Multiply => |a, b| a * b,
                Binary::Divide => |a, b| a / b,
                Binary::Power => |a, b| a.powf(*b),
                // A NaN on either side gives NaN.
                Binary::Minimum => |a, b| if *a < *b || a.is_nan() { *a } else { *b },
                Binary::Maximum => |a, b| if *a > *b || a.is_nan() { *a } else { *b },
                _ => |a, b| *a - (*a / *b).floor() * *b,
            })
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
        (Elements::Bool(a), Elements::Bool(b)) if logic => Elements::Bool(by!(a, b, {
            Binary::And => |a, b| a & b,
            Binary::Or => |a, b| a | b,
            _ => |a, b| a ^ b,
        })),
        _ if logic => return Err(types(a, b)),
        (Elements::F32(a), Elements::F32(b)) => Elements::F32(floats!(a, b)),
        (Elements::F64(a), Elements::F64(b)) => Elements::F64(floats!(a, b)),
        (Elements::I32(a), Elements::I32(b)) => Elements::I32(integers!(a, b)),
        (Elements::I64(a), Elements::I64(b)) => Elements::I64(integers!(a, b)),
        // A power's exponent may have a type of its own; the result has the base's.
        (_, exponents) if how == Binary::Power => {
            let exponents = exponents.doubles().and_then(|values| Elements::of_doubles(a.dtype(), values));
            let exponents = exponents.and_then(|elements| Tensor::new(of_b, elements));
            return match exponents {
                Some(exponents) if a.dtype() != Dtype::Bool => binary(how, a, &exponents),
                _ => Err(types(a, b)),
            };
        }
        _ => return Err(types(a, b)),
    };
    Tensor::new(shape, elements).ok_or_else(|| "the shape is too large".into())
}

/// Returns how two tensors compare.
pub(super) fn compare(how: Compare, a: &Tensor, b: &Tensor) -> Result<Tensor, String> {
    let shape = shape_of(a, b)?;
    let (of_a, of_b) = (a.shape(), b.shape());
    macro_rules! ordered {
        ($a:expr, $b:expr) => {
            match how {
                Compare::Equal => pairs(($a, of_a), ($b, of_b), &shape, |a, b| a == b),
                Compare::Less => pairs(($a, of_a), ($b, of_b), &shape, |a, b| a < b),
                Compare::LessOrEqual => pairs(($a, of_a), ($b, of_b), &shape, |a, b| a <= b),
                Compare::Greater => pairs(($a, of_a), ($b, of_b), &shape, |a, b| a > b),
                Compare::GreaterOrEqual => pairs(($a, of_a), ($b, of_b), &shape, |a, b| a >= b),
            }
        };
    }
    let truths = match (a.elements(), b.elements()) {
        (Elements::Bool(a), Elements::Bool(b)) => ordered!(a, b),
        (Elements::I32(a), Elements::I32(b)) => ordered!(a, b),
        (Elements::I64(a), Elements::I64(b)) => ordered!(a, b),
        (Elements::F32(a), Elements::F32(b)) => ordered!(a, b),
        (Elements::F64(a), Elements::F64(b)) => ordered!(a, b),
        (Elements::Text(a), Elements::Text(b)) => ordered!(a, b),
        _ => return Err(types(a, b)),
    };
    Tensor::new(shape, Elements::Bool(truths)).ok_or_else(|| "the shape is too large".into())
}

/// Returns the error function, by Abramowitz and Stegun's series and continued fraction in doubles.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a.is_nan() {
        return x;
    }
    if a < 3.0 {
        // 7.1.6: erf x = 2/sqrt(pi) exp(-x^2) sum of 2^n x^(2n+1) / (1 3 ... (2n+1)).
        let (mut term, mut sum, mut n) = (a, a, 1.0);
        while term > 1e-17 * sum {
            term *= 2.0 * a * a / (2.0 * n + 1.0);
            sum += term;
            n += 1.0;
        }
        return x.signum() * std::f64::consts::FRAC_2_SQRT_PI * (-a * a).exp() * sum;
    }
    // 7.1.14, a continued fraction of erfc, from its far end.
    let fraction = (1..=60).rev().fold(a, |below, n| a + f64::from(n) / 2.0 / below);
    x.signum() * (1.0 - (-a * a).exp() / (std::f64::consts::PI.sqrt() * fraction))
}

/// Returns what an operator makes of each element.
pub(super) fn unary(how: Unary, x: &Tensor) -> Result<Tensor, String> {
    let refused = || Err(format!("it does not take {}", x.dtype()));
    let of_float = |v: f64| match how {
        Unary::Abs => v.abs(),
        Unary::Ceil => v.ceil(),
        Unary::Erf => erf(v),
        Unary::Exp => v.exp(),
        Unary::Floor => v.floor(),
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
        Unary::Sqrt => v.sqrt(),
        Unary::Tanh => v.tanh(),
        Unary::IsNan | Unary::Not => v,
    };
    let elements = match (how, x.elements()) {
        (Unary::IsNan, Elements::F32(x)) => Elements::Bool(each(x, |v| v.is_nan())),
        (Unary::IsNan, Elements::F64(x)) => Elements::Bool(each(x, |v| v.is_nan())),
        (Unary::Not, Elements::Bool(x)) => Elements::Bool(each(x, |v| !v)),
        (Unary::IsNan | Unary::Not, _) => return refused(),
        // These have the same result in either type.
        (Unary::Abs, Elements::F32(x)) => Elements::F32(each(x, |v| v.abs())),
        (Unary::Negate, Elements::F32(x)) => Elements::F32(each(x, |v| -v)),
        (Unary::Reciprocal, Elements::F32(x)) => Elements::F32(each(x, |v| 1.0 / v)),
        (Unary::Relu, Elements::F32(x)) => Elements::F32(each(x, |v| if *v <= 0.0 { 0.0 } else { *v })),
        (Unary::Sqrt, Elements::F32(x)) => Elements::F32(each(x, |v| v.sqrt())),
        (_, Elements::F32(x)) => Elements::F32(each(x, |v| of_float(f64::from(*v)) as f32)),
        (_, Elements::F64(x)) => Elements::F64(each(x, |v| of_float(*v))),
        (Unary::Abs, Elements::I64(x)) => Elements::I64(x.iter().map(|v| v.wrapping_abs()).collect()),
        (Unary::Negate, Elements::I64(x)) => Elements::I64(x.iter().map(|v| v.wrapping_neg()).collect()),
        (Unary::Sign, Elements::I64(x)) => Elements::I64(x.iter().map(|v| v.signum()).collect()),
        (Unary::Abs, Elements::I32(x)) => Elements::I32(x.iter().map(|v| v.wrapping_abs()).collect()),
        (Unary::Negate, Elements::I32(x)) => Elements::I32(x.iter().map(|v| v.wrapping_neg()).collect()),
        (Unary::Sign, Elements::I32(x)) => Elements::I32(x.iter().map(|v| v.signum()).collect()),
        _ => return refused(),
    };
    Ok(Tensor::new(x.shape(), elements).expect("one element for each"))
}

/// Returns elements of another type. A text that is no number is refused.
pub(super) fn cast(to: Dtype, x: &Tensor) -> Result<Tensor, String> {
    if x.dtype() == to {
        return Ok(x.clone());
    }
    let elements = match (x.elements(), to) {
        (Elements::F32(values), Dtype::F64) => Some(Elements::F64(each(values, |v| f64::from(*v)))),
        (Elements::F64(values), Dtype::F32) => Some(Elements::F32(each(values, |v| *v as f32))),
        (Elements::Bool(values), Dtype::F32) => {
            Some(Elements::F32(each(values, |v| f32::from(u8::from(*v)))))
        }
        (Elements::Text(texts), _) => {
            let number = |text: &Arc<str>| {
                text.trim().parse::<f64>().map_err(|_| format!("the text {text:?} is no number"))
            };
            let numbers = texts.iter().map(number).collect::<Result<Vec<_>, _>>()?;
            Elements::of_doubles(to, numbers)
        }
        (Elements::I64(values), Dtype::Text) => Some(texts(values)),
        (Elements::I32(values), Dtype::Text) => Some(texts(values)),
        (Elements::F32(values), Dtype::Text) => Some(texts(values)),
        (Elements::F64(values), Dtype::Text) => Some(texts(values)),
        (Elements::Bool(values), Dtype::Text) => Some(texts(values)),
        // Large integers keep their digits.
        (Elements::I64(values), Dtype::I32) => {
            Some(Elements::I32(values.iter().map(|v| *v as i32).collect()))
        }
        (Elements::I64(values), Dtype::Bool) => {
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
pub(super) fn choose(condition: &Tensor, yes: &Tensor, no: &Tensor) -> Result<Tensor, String> {
    let Elements::Bool(truths) = condition.elements() else {
        return Err(format!("its condition is of {}, not of truth values", condition.dtype()));
    };
    let shape = broadcast(&shape_of(yes, no)?, condition.shape())
        .ok_or_else(|| format!("the condition's shape {:?} does not broadcast", condition.shape()))?;
    let truths = repeated(truths, condition.shape(), &shape);
    macro_rules! chosen {
        ($yes:expr, $no:expr) => {{
            let mut out = repeated($no, no.shape(), &shape);
            let yes = repeated($yes, yes.shape(), &shape);
            let all = out.iter_mut().zip(yes).zip(truths);
            all.for_each(|((out, yes), truth)| *out = if truth { yes } else { out.clone() });
            out
        }};
    }
    let elements = match (yes.elements(), no.elements()) {
        (Elements::Bool(y), Elements::Bool(n)) => Elements::Bool(chosen!(y, n)),
        (Elements::I32(y), Elements::I32(n)) => Elements::I32(chosen!(y, n)),
        (Elements::I64(y), Elements::I64(n)) => Elements::I64(chosen!(y, n)),
        (Elements::F32(y), Elements::F32(n)) => Elements::F32(chosen!(y, n)),
        (Elements::F64(y), Elements::F64(n)) => Elements::F64(chosen!(y, n)),
        (Elements::Text(y), Elements::Text(n)) => Elements::Text(chosen!(y, n)),
        _ => return Err(types(yes, no)),
    };
    Tensor::new(shape, elements).ok_or_else(|| "the shape is too large".into())
}

/// Compares up to which a lookup goes without a table of its keys.
const FEW_COMPARES: usize = 1024;

/// Returns the value of each element, by its key.
pub(super) fn lookup(
    x: &Tensor,
    keys: &Elements,
    values: &Elements,
    other: &Elements,
) -> Result<Tensor, String> {
    use std::collections::HashMap;
    // Few elements are compared with the keys one by one, which takes less time than a table of all keys.
    let few = x.elements().len().saturating_mul(keys.len()) <= FEW_COMPARES;
    // A float's key is its bits; a missing value finds the key NaN, and -0.0 the key 0.
    let bits = |v: f64| if v.is_nan() { f64::NAN.to_bits() } else { (v + 0.0).to_bits() };
    let places: Vec<Option<usize>> = match (x.elements(), keys) {
        (Elements::Text(x), Elements::Text(keys)) if few => {
            x.iter().map(|text| keys.iter().rposition(|key| key == text)).collect()
        }
        (Elements::I64(x), Elements::I64(keys)) if few => {
            x.iter().map(|v| keys.iter().rposition(|key| key == v)).collect()
        }
        (Elements::Text(x), Elements::Text(keys)) => {
            let of: HashMap<&str, usize> = keys.iter().map(|key| &**key).zip(0..).collect();
            x.iter().map(|text| of.get(&**text).copied()).collect()
        }
        (Elements::I64(x), Elements::I64(keys)) => {
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
            let found: Option<Vec<_>> = places.iter().map(value).collect();
            found.ok_or("an element is no key, and it has no value for others")?
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
