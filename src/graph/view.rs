//! Borrowed tensors, whole or only some of their rows. Operators take these.

use std::sync::Arc;

use super::tensor::{Dtype, Elements, Tensor};

/// Borrowed elements.
#[derive(Clone, Copy, Debug)]
pub(super) enum ElementsView<'t> {
    Bool(&'t [bool]),
    I32(&'t [i32]),
    I64(&'t [i64]),
    F32(&'t [f32]),
    F64(&'t [f64]),
    Text(&'t [Arc<str>]),
}

/// A borrowed tensor, row-major.
#[derive(Clone, Copy, Debug)]
pub(super) struct TensorView<'t> {
    shape: &'t [usize],
    elements: ElementsView<'t>,
}

/// Makes a view of some elements.
macro_rules! borrowed {
    ($elements:expr, $range:expr, { $($variant:ident),+ }) => {
        match $elements {
            $(Elements::$variant(values) => ElementsView::$variant(&values[$range]),)+
        }
    };
}

impl Elements {
    /// Returns the elements, borrowed.
    pub(super) fn view(&self) -> ElementsView<'_> {
        borrowed!(self, .., { Bool, I32, I64, F32, F64, Text })
    }
}

impl Tensor {
    /// Returns the tensor, borrowed.
    pub(super) fn view(&self) -> TensorView<'_> {
        TensorView { shape: self.shape(), elements: self.elements().view() }
    }

    /// Returns a view of the rows from `first` on. `shape` is the shape of the view.
    ///
    /// # Panics
    /// The tensor has no rows, or too few of them.
    pub(super) fn rows_view<'t>(&'t self, first: usize, shape: &'t [usize]) -> TensorView<'t> {
        assert_eq!(shape[1..], self.shape()[1..], "rows of another shape");
        let width: usize = shape[1..].iter().product();
        let range = first * width..(first + shape[0]) * width;
        let elements = borrowed!(self.elements(), range, { Bool, I32, I64, F32, F64, Text });
        TensorView { shape, elements }
    }
}

impl<'t> TensorView<'t> {
    /// Stands for no tensor: a list without elements.
    pub(super) const NONE: Self = Self { shape: &[0], elements: ElementsView::F32(&[]) };

    /// Returns the length of each dimension.
    pub(super) fn shape(self) -> &'t [usize] {
        self.shape
    }

    /// Returns the elements.
    pub(super) fn elements(self) -> ElementsView<'t> {
        self.elements
    }

    /// Returns the type of the elements.
    pub(super) fn dtype(self) -> Dtype {
        self.elements.dtype()
    }

    /// Returns a copy.
    pub(super) fn to_tensor(self) -> Tensor {
        Tensor::new(self.shape, self.elements.to_elements()).expect("as many elements as the shape has")
    }
}

/// Evaluates a generic expression on the elements, whatever their type is.
macro_rules! each {
    ($elements:expr, $values:ident => $then:expr) => {
        match $elements {
            ElementsView::Bool($values) => $then,
            ElementsView::I32($values) => $then,
            ElementsView::I64($values) => $then,
            ElementsView::F32($values) => $then,
            ElementsView::F64($values) => $then,
            ElementsView::Text($values) => $then,
        }
    };
}

impl ElementsView<'_> {
    /// Returns the type.
    pub(super) fn dtype(self) -> Dtype {
        match self {
            Self::Bool(_) => Dtype::Bool,
            Self::I32(_) => Dtype::I32,
            Self::I64(_) => Dtype::I64,
            Self::F32(_) => Dtype::F32,
            Self::F64(_) => Dtype::F64,
            Self::Text(_) => Dtype::Text,
        }
    }

    /// Returns the number of elements.
    pub(super) fn len(self) -> usize {
        each!(self, values => values.len())
    }

    /// Returns whether there are no elements.
    pub(super) fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns a copy.
    pub(super) fn to_elements(self) -> Elements {
        match self {
            Self::Bool(values) => Elements::Bool(values.to_vec()),
            Self::I32(values) => Elements::I32(values.to_vec()),
            Self::I64(values) => Elements::I64(values.to_vec()),
            Self::F32(values) => Elements::F32(values.to_vec()),
            Self::F64(values) => Elements::F64(values.to_vec()),
            Self::Text(values) => Elements::Text(values.to_vec()),
        }
    }

    /// Returns the elements as doubles: truth values as 0 and 1; `None` for texts.
    pub(super) fn doubles(self) -> Option<Vec<f64>> {
        Some(match self {
            Self::Bool(values) => values.iter().map(|v| f64::from(u8::from(*v))).collect(),
            Self::I32(values) => values.iter().map(|v| f64::from(*v)).collect(),
            Self::I64(values) => values.iter().map(|v| *v as f64).collect(),
            Self::F32(values) => values.iter().map(|v| f64::from(*v)).collect(),
            Self::F64(values) => values.to_vec(),
            Self::Text(_) => return None,
        })
    }

    /// Returns `length` adjacent elements from each of these indices on.
    ///
    /// # Panics
    /// A run ends past the end.
    pub(super) fn runs(self, indices: impl Iterator<Item = usize>, length: usize) -> Elements {
        fn of<T: Clone>(values: &[T], indices: impl Iterator<Item = usize>, length: usize) -> Vec<T> {
            let mut found = Vec::with_capacity(indices.size_hint().0.saturating_mul(length));
            indices.for_each(|at| found.extend_from_slice(&values[at..][..length]));
            found
        }
        match self {
            Self::Bool(values) => Elements::Bool(of(values, indices, length)),
            Self::I32(values) => Elements::I32(of(values, indices, length)),
            Self::I64(values) => Elements::I64(of(values, indices, length)),
            Self::F32(values) => Elements::F32(of(values, indices, length)),
            Self::F64(values) => Elements::F64(of(values, indices, length)),
            Self::Text(values) => Elements::Text(of(values, indices, length)),
        }
    }

    /// Returns the elements of dimensions with these lengths and strides, row-major, from index `first` on.
    ///
    /// # Panics
    /// An element is past the end.
    pub(super) fn strided(self, first: usize, dimensions: &[[usize; 2]]) -> Elements {
        match self {
            Self::Bool(values) => Elements::Bool(strided(values, first, dimensions)),
            Self::I32(values) => Elements::I32(strided(values, first, dimensions)),
            Self::I64(values) => Elements::I64(strided(values, first, dimensions)),
            Self::F32(values) => Elements::F32(strided(values, first, dimensions)),
            Self::F64(values) => Elements::F64(strided(values, first, dimensions)),
            Self::Text(values) => Elements::Text(strided(values, first, dimensions)),
        }
    }

    /// Returns the elements with these indices, in their order.
    ///
    /// # Panics
    /// An index is past the end.
    pub(super) fn at(self, indices: impl Iterator<Item = usize>) -> Elements {
        match self {
            Self::Bool(values) => Elements::Bool(indices.map(|at| values[at]).collect()),
            Self::I32(values) => Elements::I32(indices.map(|at| values[at]).collect()),
            Self::I64(values) => Elements::I64(indices.map(|at| values[at]).collect()),
            Self::F32(values) => Elements::F32(indices.map(|at| values[at]).collect()),
            Self::F64(values) => Elements::F64(indices.map(|at| values[at]).collect()),
            Self::Text(values) => Elements::Text(indices.map(|at| values[at].clone()).collect()),
        }
    }
}

/// Returns the elements of dimensions with these lengths and strides, from the index `first` on.
fn strided<T: Clone>(values: &[T], first: usize, dimensions: &[[usize; 2]]) -> Vec<T> {
    let all: usize = dimensions.iter().map(|[length, _]| length).product();
    let mut found = Vec::with_capacity(all);
    if all == 0 {
        return found;
    }
    // Two dimensions become one if the inner stride also leads from the last element of an inner line to the
    // first of the next line.
    let mut merged: Vec<[usize; 2]> = Vec::with_capacity(dimensions.len() + 1);
    for [length, stride] in dimensions.iter().copied().filter(|[length, _]| *length != 1) {
        match merged.last_mut() {
            Some([outer, outer_stride]) if *outer_stride == length * stride => {
                (*outer, *outer_stride) = (*outer * length, stride);
            }
            _ => merged.push([length, stride]),
        }
    }
    let [inner, inner_stride] = merged.pop().unwrap_or([1, 1]);
    let (mut index, mut at) = (vec![0; merged.len()], first);
    loop {
        match inner_stride {
            1 => found.extend_from_slice(&values[at..][..inner]),
            _ => found.extend((0..inner).map(|i| values[at + i * inner_stride].clone())),
        }
        if found.len() >= all {
            return found;
        }
        for ([length, stride], index) in merged.iter().zip(&mut index).rev() {
            (*index, at) = (*index + 1, at + stride);
            if *index < *length {
                break;
            }
            at -= stride * length;
            *index = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::strided;

    /// Every order of the dimensions, and every second element of some.
    #[test]
    fn strides_are_followed() {
        let lengths = [3, 1, 4, 2];
        let values: Vec<usize> = (0..2 * 24).collect();
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [2, 0, 3, 1], [1, 0, 2, 3], [0, 1, 3, 2]] {
            for inner_stride in [1, 2] {
                let strides: Vec<usize> =
                    (0..4).map(|at| inner_stride * lengths[at + 1..].iter().product::<usize>()).collect();
                let dimensions = order.map(|at| [lengths[at], strides[at]]);
                let mut expected = Vec::new();
                let [a, b, c, d] = dimensions.map(|[length, stride]| (0..length).map(move |at| at * stride));
                for a in a {
                    for b in b.clone() {
                        for c in c.clone() {
                            expected.extend(d.clone().map(|d| 1 + a + b + c + d));
                        }
                    }
                }
                if inner_stride == 1 || expected.iter().all(|at| *at < values.len()) {
                    assert_eq!(
                        strided(&values, 1, &dimensions),
                        expected,
                        "{order:?}, stride {inner_stride}"
                    );
                }
            }
        }
        assert_eq!(strided(&values, 5, &[]), [5]);
        assert!(strided(&values, 0, &[[3, 1], [0, 1]]).is_empty());
    }
}
