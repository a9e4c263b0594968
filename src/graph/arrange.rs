//! Operators that change the order or the shape of elements.

use super::{
    reduce::axis_of,
    tensor::{Elements, Lengths, Tensor, count, room},
    view::{ElementsView, TensorView},
};

fn whole(shape: impl AsRef<[usize]>, elements: Elements) -> Result<Tensor, String> {
    Tensor::new(shape, elements).ok_or_else(|| "the shape is too large".into())
}

/// Returns the elements of a tensor of integers as `i64`.
pub(super) fn integers(x: TensorView<'_>) -> Result<Vec<i64>, String> {
    match x.elements() {
        ElementsView::I64(values) => Ok(values.to_vec()),
        ElementsView::I32(values) => Ok(values.iter().map(|v| i64::from(*v)).collect()),
        _ => Err(format!("indices are integers, not {}", x.dtype())),
    }
}

/// Returns the slices of an axis with these indices.
pub(super) fn gather(axis: i64, x: TensorView<'_>, indices: TensorView<'_>) -> Result<Tensor, String> {
    let axis = axis_of(axis, x.shape().len())?;
    let length = x.shape()[axis];
    let inside = |index: i64| axis_of(index, length);
    let wanted = match indices.elements() {
        ElementsView::I64(indices) => indices.iter().map(|index| inside(*index)).collect(),
        _ => integers(indices)?.into_iter().map(inside).collect::<Result<Vec<usize>, _>>(),
    };
    let wanted = wanted.map_err(|_| format!("an index is not among the {length} of axis {axis}"))?;
    let (before, after): (usize, usize) =
        (x.shape()[..axis].iter().product(), x.shape()[axis + 1..].iter().product());
    let lengths = [&x.shape()[..axis], indices.shape(), &x.shape()[axis + 1..]];
    let shape: Lengths = lengths.into_iter().flatten().copied().collect();
    room(&shape)?;
    let wanted = &wanted;
    let from = (0..before).flat_map(|b| wanted.iter().map(move |index| (b * length + index) * after));
    let elements = match after {
        1 => x.elements().at(from),
        _ => x.elements().runs(from, after),
    };
    whole(shape, elements)
}

/// Returns, for each of these indices along an axis, the row-major index of the element of `x` that it selects.
pub(super) fn flat_indices(
    axis: usize,
    x: TensorView<'_>,
    indices: TensorView<'_>,
) -> Result<Vec<usize>, String> {
    let (length, shape) = (x.shape()[axis], indices.shape());
    let inside = |(at, (own, other)): (usize, (&usize, &usize))| at == axis || other <= own;
    if shape.len() != x.shape().len() || !x.shape().iter().zip(shape).enumerate().all(inside) {
        return Err(format!("indices of shape {shape:?} are not inside a tensor of shape {:?}", x.shape()));
    }
    let strides: Vec<usize> = (0..shape.len()).map(|at| x.shape()[at + 1..].iter().product()).collect();
    let mut found = Vec::with_capacity(indices.elements().len());
    for (mut at, index) in integers(indices)?.into_iter().enumerate() {
        let index = axis_of(index, length)
            .map_err(|_| format!("an index is not among the {length} of axis {axis}"))?;
        let mut there = index * strides[axis];
        for (dimension, lengths) in shape.iter().enumerate().rev() {
            if dimension != axis {
                there += at % lengths * strides[dimension];
            }
            at /= lengths;
        }
        found.push(there);
    }
    Ok(found)
}

/// Returns the elements of `x` with these indices along an axis, in the shape of `indices`.
pub(super) fn gather_elements(
    axis: i64,
    x: TensorView<'_>,
    indices: TensorView<'_>,
) -> Result<Tensor, String> {
    let axis = axis_of(axis, x.shape().len())?;
    let from = flat_indices(axis, x, indices)?;
    whole(indices.shape(), x.elements().at(from.into_iter()))
}

/// Joins tensors along an axis.
pub(super) fn concat(axis: i64, all: &[TensorView<'_>]) -> Result<Tensor, String> {
    let first = all.first().ok_or("it has no operand")?;
    let axis = axis_of(axis, first.shape().len())?;
    let mut shape = first.shape().to_vec();
    for other in &all[1..] {
        let fits = other.dtype() == first.dtype()
            && other.shape().len() == shape.len()
            && other.shape().iter().zip(&shape).enumerate().all(|(at, (a, b))| at == axis || a == b);
        if !fits {
            let (a, b) = ((first.dtype(), first.shape()), (other.dtype(), other.shape()));
            return Err(format!("{a:?} and {b:?} don't join along axis {axis}"));
        }
        shape[axis] = shape[axis].checked_add(other.shape()[axis]).ok_or("the shape is too large")?;
    }
    room(&shape)?;
    let before: usize = shape[..axis].iter().product();
    macro_rules! joined {
        ($variant:ident) => {{
            let mut out = Vec::new();
            for b in 0..before {
                for tensor in all {
                    if let ElementsView::$variant(values) = tensor.elements() {
                        let length: usize = tensor.shape()[axis..].iter().product();
                        out.extend_from_slice(&values[b * length..][..length]);
                    }
                }
            }
            Elements::$variant(out)
        }};
    }
    let elements = match first.elements() {
        ElementsView::Bool(_) => joined!(Bool),
        ElementsView::I32(_) => joined!(I32),
        ElementsView::I64(_) => joined!(I64),
        ElementsView::F32(_) => joined!(F32),
        ElementsView::F64(_) => joined!(F64),
        ElementsView::Text(_) => joined!(Text),
    };
    whole(shape, elements)
}

/// Returns the shape that a reshape to these lengths gives a tensor. A length of -1 becomes the one that fits,
/// and a length of 0 stays as it is.
pub(super) fn reshaped(lengths: &[i64], x: TensorView<'_>) -> Result<Lengths, String> {
    let cannot = || format!("shape {:?} does not become {lengths:?}", x.shape());
    let (mut shape, mut open) = (Lengths::new(), None);
    for (at, length) in lengths.iter().enumerate() {
        shape.push(match length {
            0 => *x.shape().get(at).ok_or_else(cannot)?,
            -1 if open.is_none() => {
                open = Some(at);
                1
            }
            other => usize::try_from(*other).map_err(|_| cannot())?,
        });
    }
    if let Some(open) = open {
        // Dimensions that stay are left out of both products. Otherwise both would be 0 for a batch of no rows,
        // and the length of -1 would be unknown.
        let stays = |at: &usize| lengths.get(*at) == Some(&0);
        let product = |shape: &[usize]| {
            let changed: Lengths = (0..shape.len()).filter(|at| !stays(at)).map(|at| shape[at]).collect();
            count(&changed)
        };
        let (all, others) = (product(x.shape()).ok_or_else(cannot)?, product(&shape).ok_or_else(cannot)?);
        shape[open] = all.checked_div(others).filter(|length| length * others == all).ok_or_else(cannot)?;
    }
    if count(&shape) == Some(x.elements().len()) { Ok(shape) } else { Err(cannot()) }
}

/// Returns the tensor with its dimensions in another order.
pub(super) fn transpose(order: &[usize], x: TensorView<'_>) -> Result<Tensor, String> {
    let dimensions = x.shape().len();
    let mut seen = vec![false; dimensions];
    order.iter().for_each(|at| {
        if let Some(seen) = seen.get_mut(*at) {
            *seen = true;
        }
    });
    if order.len() != dimensions || seen.contains(&false) {
        return Err(format!("{order:?} is no order of {dimensions} dimensions"));
    }
    let strides: Vec<usize> = (0..dimensions).map(|at| x.shape()[at + 1..].iter().product()).collect();
    let shape: Vec<usize> = order.iter().map(|at| x.shape()[*at]).collect();
    let ordered: Vec<[usize; 2]> = order.iter().map(|at| [x.shape()[*at], strides[*at]]).collect();
    whole(shape, x.elements().strided(0, &ordered))
}

/// Returns the index of the first slice, and the number of slices, for every `step`th slice of an axis of this
/// length from `start` up to `end`.
pub(super) fn sliced(start: i64, end: i64, step: i64, length: usize) -> Result<(i64, usize), String> {
    let length = i64::try_from(length).map_err(|_| "the shape is too large")?;
    let from_front = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    let (least, most) = if step < 0 { (-1, length - 1) } else { (0, length) };
    let (start, end) = (from_front(start).clamp(least, most), from_front(end).clamp(least, most));
    let span = if step < 0 { start - end } else { end - start }.max(0) as u64;
    match step.unsigned_abs() {
        0 => Err("a step of 0 slices nothing".into()),
        step => Ok((start, span.div_ceil(step) as usize)),
    }
}

/// Returns every `step`th slice of an axis from `start` up to `end`.
pub(super) fn slice(axis: i64, start: i64, end: i64, step: i64, x: TensorView<'_>) -> Result<Tensor, String> {
    let axis = axis_of(axis, x.shape().len())?;
    let (first, count) = sliced(start, end, step, x.shape()[axis])?;
    if let (Ok(first), Ok(step)) = (usize::try_from(first), usize::try_from(step)) {
        let mut shape = x.shape().to_vec();
        let stride = |at: usize| x.shape()[at + 1..].iter().product::<usize>();
        shape[axis] = count;
        let mut dimensions: Vec<[usize; 2]> =
            shape.iter().enumerate().map(|(at, n)| [*n, stride(at)]).collect();
        dimensions[axis][1] = dimensions[axis][1].saturating_mul(step);
        return whole(shape, x.elements().strided(first * stride(axis), &dimensions));
    }
    let indices: Vec<i64> = (0..count as i64).map(|at| first + at * step).collect();
    let wanted = Tensor::new([indices.len()], Elements::I64(indices)).expect("a list");
    gather(axis as i64, x, wanted.view())
}

/// Returns the shape with dimensions of length 1 inserted. `axes` are their indices in the result.
pub(super) fn unsqueezed(axes: &[i64], x: TensorView<'_>) -> Result<Lengths, String> {
    let dimensions = x.shape().len() + axes.len();
    let mut new = vec![false; dimensions];
    for axis in axes {
        let at = axis_of(*axis, dimensions)?;
        if std::mem::replace(&mut new[at], true) {
            return Err(format!("axis {axis} is there twice"));
        }
    }
    let mut old = x.shape().iter();
    let shape = new.iter().map(|new| if *new { Some(1) } else { old.next().copied() });
    shape.collect::<Option<Lengths>>().ok_or_else(|| "an axis is there twice".into())
}

/// Returns the shape without these dimensions of length 1, or without all dimensions of length 1 if `axes` is
/// empty.
pub(super) fn squeezed(axes: &[i64], x: TensorView<'_>) -> Result<Lengths, String> {
    let dimensions = x.shape().len();
    let mut gone = vec![false; dimensions];
    for axis in axes {
        let at = axis_of(*axis, dimensions)?;
        if x.shape()[at] != 1 {
            return Err(format!("axis {axis} has length {}, not 1", x.shape()[at]));
        }
        gone[at] = true;
    }
    let keeps = |(at, length): &(usize, &usize)| !(gone[*at] || axes.is_empty() && **length == 1);
    Ok(x.shape().iter().enumerate().filter(keeps).map(|(_, length)| *length).collect())
}

/// Returns a tensor that repeats one element. `x` holds its shape.
pub(super) fn fill(with: &Elements, x: TensorView<'_>) -> Result<Tensor, String> {
    let lengths = integers(x)?;
    if lengths.iter().any(|length| *length < 0) {
        return Err("a length is below 0".into());
    }
    // A length beyond `usize` is too large in any case.
    let shape: Vec<usize> =
        lengths.into_iter().map(|length| usize::try_from(length).unwrap_or(usize::MAX)).collect();
    let all = room(&shape)?;
    if with.len() != 1 {
        return Err(format!("it is filled with {} elements, not with one", with.len()));
    }
    whole(shape, with.view().at((0..all).map(|_| 0)))
}
