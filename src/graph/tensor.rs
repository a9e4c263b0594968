//! Tensors: values of any number of dimensions, row-major.

use std::{fmt, sync::Arc};

use smallvec::{SmallVec, smallvec};

use crate::cost::NumberType;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// Truth values.
    Bool,
    /// Signed integers of 32 bits.
    I32,
    /// Signed integers of 64 bits.
    I64,
    /// Floats of 32 bits.
    F32,
    /// Floats of 64 bits.
    F64,
    /// Texts.
    Text,
}

impl Dtype {
    /// All types.
    pub const ALL: [Self; 6] = [Self::Bool, Self::I32, Self::I64, Self::F32, Self::F64, Self::Text];

    /// Returns the name in a graph's text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Text => "text",
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A tensor's elements.
#[derive(Clone, Debug, PartialEq)]
pub enum Elements {
    /// Truth values.
    Bool(Vec<bool>),
    /// Signed integers of 32 bits.
    I32(Vec<i32>),
    /// Signed integers of 64 bits.
    I64(Vec<i64>),
    /// Floats of 32 bits.
    F32(Vec<f32>),
    /// Floats of 64 bits.
    F64(Vec<f64>),
    /// Texts.
    Text(Vec<Arc<str>>),
}

impl Elements {
    /// Returns the type.
    pub fn dtype(&self) -> Dtype {
        self.view().dtype()
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.view().is_empty()
    }

    /// Returns the elements as doubles: truth values as 0 and 1; `None` for texts.
    pub fn doubles(&self) -> Option<Vec<f64>> {
        self.view().doubles()
    }

    /// Returns doubles as elements of a type, converted as a cast does: floats are rounded to nearest, and
    /// integers towards zero. `None` for texts.
    pub fn of_doubles(dtype: Dtype, values: Vec<f64>) -> Option<Self> {
        Some(match dtype {
            Dtype::Bool => Self::Bool(values.into_iter().map(|v| v != 0.0).collect()),
            Dtype::I32 => Self::I32(values.into_iter().map(|v| v as i32).collect()),
            Dtype::I64 => Self::I64(values.into_iter().map(|v| v as i64).collect()),
            Dtype::F32 => Self::F32(values.into_iter().map(|v| v as f32).collect()),
            Dtype::F64 => Self::F64(values),
            Dtype::Text => return None,
        })
    }
}

/// The length of each dimension. Up to four lengths need no allocation.
pub(super) type Lengths = SmallVec<[usize; 4]>;

/// A tensor, row-major. A scalar has no dimensions and one element.
///
/// ```
/// use fangorn::graph::{Dtype, Elements, Tensor};
///
/// let tensor = Tensor::new([2, 3], Elements::F32(vec![1.0; 6])).expect("six elements");
/// assert_eq!((tensor.shape(), tensor.elements().dtype()), (&[2, 3][..], Dtype::F32));
/// assert!(Tensor::new([2, 3], Elements::F32(vec![1.0; 5])).is_none());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    shape: Lengths,
    elements: Elements,
}

impl Tensor {
    /// Makes a tensor. Returns `None` if the shape does not fit the number of elements.
    pub fn new(shape: impl AsRef<[usize]>, elements: Elements) -> Option<Self> {
        let shape = shape.as_ref();
        (count(shape)? == elements.len()).then(|| Self { shape: Lengths::from_slice(shape), elements })
    }

    /// Returns the length of each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the elements.
    pub fn elements(&self) -> &Elements {
        &self.elements
    }

    /// Returns the elements without the shape.
    pub fn into_elements(self) -> Elements {
        self.elements
    }

    /// Gives the elements another shape. Returns `false`, and changes nothing, if it has another number of elements.
    pub(super) fn reshape(&mut self, shape: Lengths) -> bool {
        let fits = count(&shape) == Some(self.elements.len());
        if fits {
            self.shape = shape;
        }
        fits
    }

    /// Returns the shape, and the elements to be changed.
    pub(super) fn fields_mut(&mut self) -> (&[usize], &mut Elements) {
        (&self.shape, &mut self.elements)
    }

    /// Returns the rows, slices of the first dimension, with these indices and in their order. Returns `None` if
    /// there is no such row.
    ///
    /// ```
    /// use fangorn::graph::{Elements, Tensor};
    ///
    /// let tensor = Tensor::new([3, 2], Elements::I32(vec![0, 1, 10, 11, 20, 21])).expect("six elements");
    /// let rows = tensor.rows(&[2, 0]).expect("two of three rows");
    /// assert_eq!((rows.shape(), rows.elements()), (&[2, 2][..], &Elements::I32(vec![20, 21, 0, 1])));
    /// assert_eq!(tensor.rows(&[3]), None);
    /// ```
    pub fn rows(&self, indices: &[usize]) -> Option<Self> {
        let (rows, row) = self.shape.split_first()?;
        if indices.iter().any(|index| index >= rows) {
            return None;
        }
        let width: usize = row.iter().product();
        let elements = self.elements.view().runs(indices.iter().map(|index| index * width), width);
        Self::new([&[indices.len()], row].concat(), elements)
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.elements.dtype()
    }

    /// Returns the fraction of elements that are not 0, `false` or an empty text.
    pub fn density(&self) -> f64 {
        let filled = match &self.elements {
            Elements::Text(texts) => texts.iter().filter(|text| !text.is_empty()).count(),
            others => others.doubles().unwrap_or_default().iter().filter(|v| **v != 0.0).count(),
        };
        filled as f64 / self.elements.len().max(1) as f64
    }

    /// Returns the smallest type of numbers that holds every element exactly; `None` for texts.
    pub fn smallest_type(&self) -> Option<NumberType> {
        let values = self.elements.doubles()?;
        // Not every 64-bit integer is a double.
        if let Elements::I64(integers) = &self.elements
            && integers.iter().zip(&values).any(|(integer, value)| i128::from(*integer) != *value as i128)
        {
            return Some(NumberType::I64);
        }
        NumberType::ALL.into_iter().find(|number| values.iter().all(|value| number.holds(*value)))
    }
}

/// The maximum number of elements of a tensor. A batch whose tensors would be larger is refused.
pub(super) const MOST_ELEMENTS: usize = if usize::BITS < 64 { 1 << 26 } else { 1 << 28 };

/// Up to so many bytes glibc's `malloc` takes memory from a cache of the thread, and `calloc` does not.
const SMALL: usize = 1024;

/// Returns `count` default elements.
#[inline]
pub(super) fn defaults<T: Clone + Default>(count: usize) -> Vec<T> {
    // The system hands out large memory cleared.
    if count > SMALL / size_of::<T>().max(1) {
        return vec![T::default(); count];
    }
    let mut elements = Vec::with_capacity(count);
    elements.resize(count, T::default());
    elements
}

/// Returns the number of elements of a shape, or `None` if it overflows.
pub(super) fn count(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |count, length| count.checked_mul(*length))
}

/// Returns the number of elements of a shape that an operator is about to make.
///
/// # Errors
/// There are more than [`MOST_ELEMENTS`].
pub(super) fn room(shape: &[usize]) -> Result<usize, String> {
    let all = count(shape).filter(|all| *all <= MOST_ELEMENTS);
    all.ok_or_else(|| format!("a tensor of shape {shape:?} is too large; predict fewer rows at a time"))
}

/// Returns the shape that two shapes broadcast to, aligned at their last dimensions, or `None` if they don't
/// broadcast.
pub(super) fn broadcast(a: &[usize], b: &[usize]) -> Option<Lengths> {
    // Mostly one of the shapes is the result already.
    for (from, to) in [(b, a), (a, b)] {
        if broadcasts_to(from, to) {
            return Some(Lengths::from_slice(to));
        }
    }
    let dimensions = a.len().max(b.len());
    let of = |shape: &[usize], at: usize| match (at + shape.len()).checked_sub(dimensions) {
        Some(at) => shape[at],
        None => 1,
    };
    (0..dimensions)
        .map(|at| match (of(a, at), of(b, at)) {
            (a, b) if a == b => Some(a),
            (1, other) | (other, 1) => Some(other),
            _ => None,
        })
        .collect()
}

/// Returns whether a tensor of shape `from` broadcasts to the shape `to`.
pub(super) fn broadcasts_to(from: &[usize], to: &[usize]) -> bool {
    from.len() <= to.len()
        && from.iter().rev().zip(to.iter().rev()).all(|(from, to)| from == to || *from == 1)
}

/// Returns, for each element of a tensor of shape `to`, the index of the element of a tensor of shape `from` that is
/// broadcast to it.
pub(super) fn source_indices<'s>(from: &'s [usize], to: &'s [usize]) -> impl Iterator<Item = usize> + 's {
    let mut strides: Lengths = smallvec![0; to.len()];
    let mut stride = 1;
    for (length, own) in from.iter().zip(&mut strides[to.len() - from.len()..]).rev() {
        *own = if *length == 1 { 0 } else { stride };
        stride *= length;
    }
    let mut index: Lengths = smallvec![0; to.len()];
    let (mut offset, mut left) = (0, to.iter().product::<usize>());
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let found = offset;
        for (at, length) in to.iter().enumerate().rev() {
            index[at] += 1;
            offset += strides[at];
            if index[at] < *length {
                break;
            }
            offset -= strides[at] * length;
            index[at] = 0;
        }
        Some(found)
    })
}
