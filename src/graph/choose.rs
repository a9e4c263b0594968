//! Operators that select slices by truth values, or replace elements at indices.

use super::{
    arrange::{gather, places_along},
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
    let places: Vec<i64> = (0..).zip(truths).filter(|(_, truth)| **truth).map(|(at, _)| at).collect();
    let places = Tensor::new([places.len()], Elements::I64(places)).ok_or("the shape is too large")?;
    gather(axis, x, places.view())
}

/// Returns `x` with elements along an axis replaced by those of `updates`. `places` has the shape of `updates`
/// and holds the index of each update along the axis. If an index occurs twice, the last update counts.
pub(super) fn scatter_elements(
    axis: i64,
    x: TensorView<'_>,
    places: TensorView<'_>,
    updates: TensorView<'_>,
) -> Result<Tensor, String> {
    let axis = axis_of(axis, x.shape().len())?;
    if places.shape() != updates.shape() {
        let (places, updates) = (places.shape(), updates.shape());
        return Err(format!("places of shape {places:?} are not for updates of shape {updates:?}"));
    }
    let to = places_along(axis, x, places)?;
    macro_rules! placed {
        ($variant:ident, $values:expr, $updates:expr) => {{
            let mut values = $values.to_vec();
            to.into_iter().zip($updates).for_each(|(at, update)| values[at] = update.clone());
            Elements::$variant(values)
        }};
    }
    let elements = match (x.elements(), updates.elements()) {
        (ElementsView::Bool(x), ElementsView::Bool(u)) => placed!(Bool, x, u),
        (ElementsView::I32(x), ElementsView::I32(u)) => placed!(I32, x, u),
        (ElementsView::I64(x), ElementsView::I64(u)) => placed!(I64, x, u),
        (ElementsView::F32(x), ElementsView::F32(u)) => placed!(F32, x, u),
        (ElementsView::F64(x), ElementsView::F64(u)) => placed!(F64, x, u),
        (ElementsView::Text(x), ElementsView::Text(u)) => placed!(Text, x, u),
        _ => return Err(format!("it does not put {} into {}", updates.dtype(), x.dtype())),
    };
    Tensor::new(x.shape(), elements).ok_or_else(|| "the shape is too large".into())
}
