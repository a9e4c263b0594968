//! Operators that choose slices by truth values, or put elements at places.

use super::{
    arrange::{gather, integers},
    reduce::axis_of,
    tensor::{Elements, Tensor},
};

/// Returns the slices of an axis whose truth value is true. Truth values may be fewer than slices.
pub(super) fn compress(axis: i64, x: &Tensor, condition: &Tensor) -> Result<Tensor, String> {
    let Elements::Bool(truths) = condition.elements() else {
        return Err(format!("its condition is of {}, not of truth values", condition.dtype()));
    };
    let length = x.shape()[axis_of(axis, x.shape().len())?];
    if condition.shape().len() != 1 || truths.len() > length {
        return Err(format!("a condition of shape {:?} is not for {length} slices", condition.shape()));
    }
    let places: Vec<i64> = (0..).zip(truths).filter(|(_, truth)| **truth).map(|(at, _)| at).collect();
    let places = Tensor::new([places.len()], Elements::I64(places)).ok_or("the shape is too large")?;
    gather(axis, x, &places)
}

/// Returns `x` with the elements of `updates` along an axis at the places that `places` names, of the same shape.
/// Where a place is named twice, the last one counts.
pub(super) fn scatter_elements(
    axis: i64,
    x: &Tensor,
    places: &Tensor,
    updates: &Tensor,
) -> Result<Tensor, String> {
    let axis = axis_of(axis, x.shape().len())?;
    let (length, shape) = (x.shape()[axis], places.shape());
    let inside = |(at, (own, other)): (usize, (&usize, &usize))| at == axis || other <= own;
    if shape != updates.shape()
        || shape.len() != x.shape().len()
        || !x.shape().iter().zip(shape).enumerate().all(inside)
    {
        let (x, updates) = (x.shape(), updates.shape());
        return Err(format!("places of shape {shape:?} are not for updates of {updates:?} in {x:?}"));
    }
    let strides: Vec<usize> = (0..shape.len()).map(|at| x.shape()[at + 1..].iter().product()).collect();
    let mut to = Vec::with_capacity(places.elements().len());
    for (mut at, place) in integers(places)?.into_iter().enumerate() {
        let place = axis_of(place, length)
            .map_err(|_| format!("a place is not among the {length} of axis {axis}"))?;
        let mut found = place * strides[axis];
        for (dimension, lengths) in shape.iter().enumerate().rev() {
            if dimension != axis {
                found += at % lengths * strides[dimension];
            }
            at /= lengths;
        }
        to.push(found);
    }
    macro_rules! placed {
        ($variant:ident, $values:expr, $updates:expr) => {{
            let mut values = $values.clone();
            to.into_iter().zip($updates).for_each(|(at, update)| values[at] = update.clone());
            Elements::$variant(values)
        }};
    }
    let elements = match (x.elements(), updates.elements()) {
        (Elements::Bool(x), Elements::Bool(u)) => placed!(Bool, x, u),
        (Elements::I32(x), Elements::I32(u)) => placed!(I32, x, u),
        (Elements::I64(x), Elements::I64(u)) => placed!(I64, x, u),
        (Elements::F32(x), Elements::F32(u)) => placed!(F32, x, u),
        (Elements::F64(x), Elements::F64(u)) => placed!(F64, x, u),
        (Elements::Text(x), Elements::Text(u)) => placed!(Text, x, u),
        _ => return Err(format!("it does not put {} into {}", updates.dtype(), x.dtype())),
    };
    Tensor::new(x.shape(), elements).ok_or_else(|| "the shape is too large".into())
}
