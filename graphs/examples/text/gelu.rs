//! GELU in one pass on the CPU.

use burn::{
    nn::Linear,
    tensor::{DType, Device, Tensor, activation},
};
use pulp::Arch;

/// Returns GELU of the layer's output for `x`, `[rows, width]`.
///
/// On the CPU each operation of burn is a pass over all values, and burn's GELU computes the error function
/// of one value at a time. A program may work on the memory of a tensor on Flex. So this function applies the
/// bias and all of GELU in one pass, compiled for the instructions of this processor. With gradients, and on
/// other devices such as a GPU, it calls burn's GELU.
pub fn gelu(layer: &Linear, x: Tensor<2>) -> Tensor<2> {
    let device = x.device();
    let bias = match &layer.bias {
        Some(bias) if device == Device::flex() && !device.is_autodiff() && x.dtype() == DType::F32 => {
            bias.val()
        }
        _ => return activation::gelu(layer.forward(x)),
    };
    let bias = bias.into_data();
    // Nothing else shares the product's memory, so the memory is taken without a copy.
    let mut product = x.matmul(layer.weight.val()).into_data();
    let (values, bias) =
        (product.as_mut_slice().expect("a tensor of f32"), bias.as_slice().expect("a bias of f32"));
    Arch::new().dispatch(
        #[inline(always)]
        || one_pass(values, bias),
    );
    Tensor::from_data(product, &device)
}

#[inline(always)]
fn one_pass(rows: &mut [f32], bias: &[f32]) {
    for row in rows.chunks_exact_mut(bias.len()) {
        for (x, bias) in row.iter_mut().zip(bias) {
            *x = approximate_gelu(*x + bias);
        }
    }
}

/// Returns GELU of `x`, off by 1e-6 at most. The difference of ReLU and GELU is `|x|` times the 16th power of
/// a polynomial of `|x|`, up to 7.2, and next to nothing beyond. The polynomial was fitted in double
/// precision to make the largest error small.
#[inline(always)]
fn approximate_gelu(x: f32) -> f32 {
    let size = (x.abs() * (1.0 / 7.2)).min(1.0);
    let sum = size - 2.107_610_4;
    let sum = sum.mul_add(size, 0.590_485);
    let sum = sum.mul_add(size, 1.041_879_8);
    let sum = sum.mul_add(size, 0.389_195_1);
    let sum = sum.mul_add(size, -1.083_353);
    let power = (0..4).fold(sum, |power, _| power * power);
    // This form keeps NaN, which `max` would drop.
    let rectified = if x < 0.0 { 0.0 } else { x };
    rectified - size * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pass_gives_what_burn_gives() {
        let device = Device::flex();
        let x: Vec<f32> = (-9000..=9000).map(|i| i as f32 / 1000.0).collect();
        let count = x.len();
        let expected = activation::gelu(Tensor::<1>::from_data(x.as_slice(), &device)).into_data();
        let mut found = x.clone();
        one_pass(&mut found, &[0.0]);
        for i in 0..count {
            let expected = expected.as_slice::<f32>().expect("f32")[i];
            assert!((found[i] - expected).abs() < 2e-6, "{}: {} is not {expected}", x[i], found[i]);
        }
        let mut ends = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        one_pass(&mut ends, &[0.0]);
        assert!(ends[0].is_nan() && ends[1] == f32::INFINITY && ends[2].abs() < 1e-6, "{ends:?}");
    }
}
