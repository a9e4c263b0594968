//! Operators of networks: convolutions, pooling, and the normalization of layers.

use super::{
    reduce::{Products, line_sum},
    tensor::{Elements, Tensor, room},
    view::{ElementsView, TensorView},
};
use crate::cpu::{Loops, widest};

/// A window that moves over images, `rows x channels x height x width`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Pixels by which the window moves, down and across.
    pub strides: [usize; 2],
    /// Number of pixels that are added around the image, all 0: above, to the left, below, to the right.
    pub padding: [usize; 4],
    /// Pixels from one pixel of the window to the next, down and across.
    pub dilations: [usize; 2],
}

impl Window {
    /// A window that moves by one pixel, without padding.
    pub const PLAIN: Self = Self { strides: [1, 1], padding: [0; 4], dilations: [1, 1] };

    /// Returns the length of the result, down (`axis` 0) or across (`axis` 1), of a window of `size` pixels that moves
    /// over an image of `length` pixels.
    ///
    /// # Errors
    /// A stride or a dilation is 0, the image has no pixels, or the window is larger than the image with its padding.
    pub(super) fn result_length(&self, axis: usize, length: usize, size: usize) -> Result<usize, String> {
        let (stride, dilation) = (self.strides[axis], self.dilations[axis]);
        let padded =
            length.checked_add(self.padding[axis]).and_then(|n| n.checked_add(self.padding[axis + 2]));
        let span = size.checked_sub(1).and_then(|n| n.checked_mul(dilation)).and_then(|n| n.checked_add(1));
        let left = padded.zip(span).and_then(|(padded, span)| padded.checked_sub(span));
        match (left, stride, dilation) {
            _ if length == 0 => Err("an image has no pixels".into()),
            (_, 0, _) | (_, _, 0) => Err("a window has steps above 0".into()),
            (Some(left), ..) => Ok(left / stride + 1),
            (None, ..) => Err(format!("a window of {size} pixels does not fit an image of {length}")),
        }
    }

    /// Returns the pixel of the image under pixel `at` of the window, for pixel `to` of the result. Returns `None` if
    /// that pixel is padding.
    fn pixel(&self, axis: usize, to: usize, at: usize, length: usize) -> Option<usize> {
        let padded = to * self.strides[axis] + at * self.dilations[axis];
        padded.checked_sub(self.padding[axis]).filter(|pixel| *pixel < length)
    }

    /// Returns the pixels of the image under the window, down or across, for pixel `to` of the result. `size` is the
    /// window's length, and `length` the image's. However large the window is, there are no more pixels than the image
    /// has.
    fn covered_pixels(
        &self,
        axis: usize,
        to: usize,
        size: usize,
        length: usize,
    ) -> impl Iterator<Item = usize> + Clone {
        let (dilation, begin) = (self.dilations[axis], to * self.strides[axis]);
        let until =
            |pixel: usize| pixel.saturating_add(self.padding[axis]).saturating_sub(begin).div_ceil(dilation);
        let first =
            begin.saturating_add(until(0).saturating_mul(dilation)).saturating_sub(self.padding[axis]);
        (until(0)..until(length).min(size)).zip(0..).map(move |(_, at)| first + at * dilation)
    }
}

/// How pooling combines the pixels of a window, channel by channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    /// Pixels of the window, down and across.
    pub size: [usize; 2],
    /// How the window moves.
    pub window: Window,
    /// How its pixels are combined.
    pub how: Pooling,
}

/// How the pixels of a window are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pooling {
    /// The greatest pixel, or NaN if a pixel is NaN.
    Greatest,
    /// The mean of the pixels inside the image.
    Mean,
    /// The mean of all pixels; those of the padding are 0.
    MeanWithPadding,
}

impl Pooling {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Greatest, Self::Mean, Self::MeanWithPadding];

    /// Returns the name in a graph's text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Greatest => "greatest",
            Self::Mean => "mean",
            Self::MeanWithPadding => "meanWithPadding",
        }
    }
}

fn image_shape(x: TensorView<'_>) -> Result<[usize; 4], String> {
    x.shape().try_into().map_err(|_| format!("it takes images of four dimensions, not shape {:?}", x.shape()))
}

/// Returns a convolution: the products of the pixels under a window with each filter, plus the filter's bias. A
/// filter reads the channels of its group: `weights` are `filters x channels of a group x height x width`.
///
/// The pixels for each pixel of the result are copied into a column, so that a convolution is a product of matrices.
pub(super) fn convolve(
    window: &Window,
    groups: usize,
    operands: &[TensorView<'_>],
    products: &impl Products,
) -> Result<Tensor, String> {
    let (x, weights) = (operands[0], operands[1]);
    let [rows, channels, height, width] = image_shape(x)?;
    let [filters, group_channels, down, across] = image_shape(weights)?;
    if groups == 0 || filters % groups != 0 || group_channels.checked_mul(groups) != Some(channels) {
        return Err(format!(
            "{filters} filters of {group_channels} channels in {groups} groups don't see {channels} channels"
        ));
    }
    let result = [window.result_length(0, height, down)?, window.result_length(1, width, across)?];
    let (inner, outer) = (room(&[group_channels, down, across])?, room(&result)?);
    let shape = [rows, filters, result[0], result[1]];
    let all = room(&shape)?;
    room(&[inner, outer])?;
    let bias = operands.get(2).copied();
    if bias.is_some_and(|bias| bias.shape() != [filters]) {
        return Err(format!("its bias has not {filters} numbers"));
    }
    macro_rules! computed {
        ($variant:ident, $number:ty, $x:expr, $weights:expr, $product:expr) => {{
            let bias: Option<&[$number]> = match bias.map(|bias| bias.elements()) {
                None => None,
                Some(ElementsView::$variant(bias)) => Some(bias),
                Some(other) => return Err(format!("its bias is of {}", other.dtype())),
            };
            let mut out: Vec<$number> = vec![0.0; all];
            let mut columns: Vec<$number> = vec![0.0; inner * outer];
            let of_group = filters / groups;
            let images = $x.chunks_exact((channels * height * width).max(1));
            for (image, out) in images.zip(out.chunks_exact_mut((filters * outer).max(1))) {
                for group in 0..groups {
                    let image =
                        &image[group * group_channels * height * width..][..group_channels * height * width];
                    fill_columns(window, image, &mut columns, [height, width], [down, across], result);
                    let weights = &$weights[group * of_group * inner..][..of_group * inner];
                    let out = &mut out[group * of_group * outer..][..of_group * outer];
                    $product(weights, &columns, out, [of_group, inner, outer]);
                }
                if let Some(bias) = bias {
                    for (out, bias) in out.chunks_exact_mut(outer.max(1)).zip(bias) {
                        out.iter_mut().for_each(|out| *out += bias);
                    }
                }
            }
            Elements::$variant(out)
        }};
    }
    let elements = match (x.elements(), weights.elements()) {
        (ElementsView::F32(x), ElementsView::F32(weights)) => {
            computed!(F32, f32, x, weights, |a, b, out, lengths| products.floats(a, b, out, lengths))
        }
        (ElementsView::F64(x), ElementsView::F64(weights)) => {
            computed!(F64, f64, x, weights, |a, b, out, lengths| products.doubles(a, b, out, lengths))
        }
        _ => return Err(format!("it does not take {} and {}", x.dtype(), weights.dtype())),
    };
    Tensor::new(shape, elements).ok_or_else(|| "the shape is too large".into())
}

/// Copies the pixels under the window into a column for each pixel of the result. `columns` has a line for each channel
/// and pixel of the window, with an element for each pixel of the result. The last arguments are the lengths of the
/// image, of the window, and of the result.
fn fill_columns<T: Copy + Default>(
    window: &Window,
    image: &[T],
    columns: &mut [T],
    [height, width]: [usize; 2],
    [down, across]: [usize; 2],
    result: [usize; 2],
) {
    let mut lines = columns.chunks_exact_mut((result[0] * result[1]).max(1));
    for channel in image.chunks_exact((height * width).max(1)) {
        for (y, x) in (0..down).flat_map(|y| (0..across).map(move |x| (y, x))) {
            let Some(line) = lines.next() else { return };
            for (to, line) in line.chunks_exact_mut(result[1]).enumerate() {
                let Some(row) = window.pixel(0, to, y, height) else {
                    line.fill(T::default());
                    continue;
                };
                let pixels = &channel[row * width..][..width];
                for (to, out) in line.iter_mut().enumerate() {
                    *out = window.pixel(1, to, x, width).map_or(T::default(), |pixel| pixels[pixel]);
                }
            }
        }
    }
}

/// Combines the pixels under a window into each pixel of the result.
pub(super) fn pool(pool: &Pool, x: TensorView<'_>) -> Result<Tensor, String> {
    let [rows, channels, height, width] = image_shape(x)?;
    let Pool { size, window, how } = pool;
    let result = [window.result_length(0, height, size[0])?, window.result_length(1, width, size[1])?];
    let shape = [rows, channels, result[0], result[1]];
    let all = room(&shape)?;
    let values = x.elements().doubles().ok_or_else(|| format!("it does not take {}", x.dtype()))?;
    let mut found = Vec::with_capacity(all);
    let covered = |axis: usize, to: usize, length: usize| window.covered_pixels(axis, to, size[axis], length);
    for image in values.chunks_exact((height * width).max(1)) {
        for (down, across) in (0..result[0]).flat_map(|down| (0..result[1]).map(move |across| (down, across)))
        {
            let pixels = covered(0, down, height)
                .flat_map(|row| covered(1, across, width).map(move |column| image[row * width + column]));
            found.push(match how {
                Pooling::Greatest => {
                    pixels.fold(f64::NEG_INFINITY, |most, v| if most.is_nan() || v < most { most } else { v })
                }
                Pooling::Mean => {
                    let (sum, count) = pixels.fold((0.0, 0.0), |(sum, count), v| (sum + v, count + 1.0));
                    sum / count
                }
                Pooling::MeanWithPadding => pixels.sum::<f64>() / (size[0] as f64 * size[1] as f64),
            });
        }
    }
    let elements = Elements::of_doubles(x.dtype(), found).ok_or("it takes no texts")?;
    Tensor::new(shape, elements).ok_or_else(|| "the shape is too large".into())
}

/// Scales each line of the last axis to mean 0 and variance 1, multiplies it by a scale, and adds a bias (Ba, Kiros
/// and Hinton, Layer Normalization, 2016). Sums are in doubles.
pub(super) fn layer_norm(epsilon: f64, operands: &[TensorView<'_>]) -> Result<Tensor, String> {
    let x = operands[0];
    let width = x.shape().last().copied().ok_or("a scalar has no last axis")?;
    if operands[1..].iter().any(|weights| weights.shape() != [width]) {
        return Err(format!("its scale and its bias have not {width} numbers each"));
    }
    macro_rules! computed {
        ($variant:ident) => {
            match (x.elements(), operands[1].elements(), operands[2].elements()) {
                (ElementsView::$variant(x), ElementsView::$variant(scale), ElementsView::$variant(bias)) => {
                    Elements::$variant(widest(LayerNorm { x, scale, bias, epsilon }))
                }
                _ => return Err("its scale and its bias have another type".into()),
            }
        };
    }
    let elements = match x.elements() {
        ElementsView::F32(_) => computed!(F32),
        ElementsView::F64(_) => computed!(F64),
        other => return Err(format!("it does not take {}", other.dtype())),
    };
    Tensor::new(x.shape(), elements).ok_or_else(|| "the shape is too large".into())
}

struct LayerNorm<'x, T> {
    x: &'x [T],
    scale: &'x [T],
    bias: &'x [T],
    epsilon: f64,
}

macro_rules! layer_norm {
    ($number:ty) => {
        impl Loops for LayerNorm<'_, $number> {
            type Result = Vec<$number>;

            #[inline(always)]
            fn run(self) -> Vec<$number> {
                let width = self.scale.len().max(1);
                let mut out = vec![0.0; self.x.len()];
                for (line, out) in self.x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
                    let mean = line_sum(line, |v| v) / width as f64;
                    let variance = line_sum(line, |v| (v - mean) * (v - mean)) / width as f64;
                    let factor = 1.0 / (variance + self.epsilon).sqrt();
                    let weights = self.scale.iter().zip(self.bias);
                    for ((out, v), (scale, bias)) in out.iter_mut().zip(line).zip(weights) {
                        let normal = (f64::from(*v) - mean) * factor;
                        *out = (normal * f64::from(*scale) + f64::from(*bias)) as $number;
                    }
                }
                out
            }
        }
    };
}

layer_norm!(f32);
layer_norm!(f64);
