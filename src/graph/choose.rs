//! Operators that select slices by truth values, or replace elements at indices.

use super::{
    arrange::{flat_indices, gather},
    reduce::axis_of,
    tensor::{Elements, Tensor},
    view::{ElementsView, TensorView},
};

/// Returns the slices of an axis for which `condition` is true. `condition` may be shorter than the axis.
pub(super) fn compress(axis: i64, x: TensorView<'_>, condition: TensorView<'_>) -> Result<Tensor, String> {
    let ElementsView::Bool(truths) = condition.elements() else {
        return Err(format!("its condition is of {}, not of truth values", condition.dtype()));
    };
    let length = x.shape()[axis_of(axis, x.shape().len())?];
    if condition.shape().len() != 1 || truths.len() > length {
        return Err(format!("a condition of shape {:?} is not for {length} slices", condition.shape()));
    }
    let indices: Vec<i64> = (0..).zip(truths).filter(|(_, truth)| **truth).map(|(at, _)| at).collect();
    let indices = Tensor::new([indices.len()], Elements::I64(indices)).ok_or("the shape is too large")?;
    gather(axis, x, indices.view())
}

/// Returns `x` with elements along an axis replaced by those of `updates`. `indices` has the shape of `updates`
/// and holds the index of each update along the axis. If an index occurs twice, the last update counts.
pub(super) fn scatter_elements(
    axis: i64,
    x: TensorView<'_>,
    indices: TensorView<'_>,
    updates: TensorView<'_>,
) -> Result<Tensor, String> {
    let axis = axis_of(axis, x.shape().len())?;
    if indices.shape() != updates.shape() {
        let (indices, updates) = (indices.shape(), updates.shape());
        return Err(format!("indices of shape {indices:?} are not for updates of shape {updates:?}"));
    }
    let to = flat_indices(axis, x, indices)?;
    macro_rules! scattered {
        ($variant:ident, $values:expr, $updates:expr) => {{
            let mut values = $values.to_vec();
            to.into_iter().zip($updates).for_each(|(at, update)| values[at] = update.clone());
            Elements::$variant(values)
        }};
    }
    let elements = match (x.elements(), updates.elements()) {
        (ElementsView::Bool(x), ElementsView::Bool(u)) => scattered!(Bool, x, u),
        (ElementsView::I32(x), ElementsView::I32(u)) => scattered!(I32, x, u),
        (ElementsView::I64(x), ElementsView::I64(u)) => scattered!(I64, x, u),
        (ElementsView::F32(x), ElementsView::F32(u)) => scattered!(F32, x, u),
        (ElementsView::F64(x), ElementsView::F64(u)) => scattered!(F64, x, u),
        (ElementsView::Text(x), ElementsView::Text(u)) => scattered!(Text, x, u),
        _ => return Err(format!("it does not put {} into {}", updates.dtype(), x.dtype())),
    };
    Tensor::new(x.shape(), elements).ok_or_else(|| "the shape is too large".into())
}
