//! Functions of tensors that run by a fusion plan: they return what the same functions return without one.

#![cfg(feature = "flex")]

use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData, activation};
use fangorn_fusion::{Matrix, select::Policy};
use fangorn_graphs::fused::{Argument, FusedFunction, Input};

/// Rows x columns of numbers from -1 to 1, the same each time.
fn numbers(rows: usize, columns: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..rows * columns).map(|_| next()).collect()
}

fn tensor(rows: usize, columns: usize, seed: u64, device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(numbers(rows, columns, seed), [rows, columns]), device)
}

fn elements(tensor: Tensor<2>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// Equal within the rounding of sums in `f32`; NaN equals NaN.
fn assert_close(name: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (at, (a, b)) in found.iter().zip(expected).enumerate() {
        let same = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 2e-5 * b.abs().max(0.1);
        assert!(same, "{name}: element {at} is {a}, {b} without a plan");
    }
}

/// A function of X, of a matrix of the same shape, of a row, of a column, and of a matrix to multiply by.
type Function = fn([Tensor<2>; 5]) -> [Tensor<2>; 1];

/// The functions whose operations are all fused.
fn fused_functions() -> Vec<(&'static str, Function)> {
    vec![
        ("arithmetic", |[x, y, r, c, _]| {
            [(x.clone() + y.clone() * 2.0) / (x.abs() + 1.5) - r * c - 0.25 + y / 3.0]
        }),
        ("functions", |[x, y, ..]| {
            [(x.clone().exp() + y.abs().add_scalar(0.5).log().sqrt().abs() - x.sign()).recip()]
        }),
        ("signs", |[x, ..]| [x.sign()]),
        ("negated", |[x, ..]| [-x + 1.0]),
        ("powers", |[x, y, ..]| [x.clone().powi_scalar(2) + y.powi_scalar(3) * x.powf_scalar(4.0)]),
        ("inverse powers", |[x, y, ..]| [x.powi_scalar(-1) + y.powf_scalar(-2.0)]),
        ("activations", |[x, y, ..]| [activation::relu(x) + activation::sigmoid(y)]),
        ("softmax", |[x, y, ..]| [activation::softmax(x * 9.0, 1) - activation::log_softmax(y * 30.0, 1)]),
        ("clamps", |[x, y, r, ..]| [x.clamp_min(-0.2) + y.clamp_max(0.3) * r.clamp(-0.5, 0.5)]),
        ("comparisons", |[x, y, r, c, _]| {
            let four = x.clone().greater(r).float() + y.clone().lower_equal(c).float() * 2.0;
            let scalars = x.clone().greater_elem(0.1).float() + y.clone().lower_elem(0.2).float() * 2.0;
            let more = x.clone().lower_equal_elem(-0.1).float() + y.clone().greater_equal_elem(0.5).float();
            [four * 4.0 + scalars + more * 16.0 + x.clone().not_equal(y.clone()).float() + x.equal(y).float()]
        }),
        ("booleans", |[x, y, ..]| {
            let (a, b) = (x.clone().greater_elem(0.1), y.clone().greater_elem(0.1));
            let both = a.clone().bool_and(b.clone()).float() + a.clone().bool_or(b.clone()).float() * 2.0;
            [both + a.clone().bool_xor(b).float() * 4.0 + a.bool_not().float() * 8.0]
        }),
        ("sums", |[x, y, r, c, _]| {
            let whole = (x.clone() * y.clone()).sum().unsqueeze::<2>() + x.clone().mean().unsqueeze::<2>();
            [x.clone().sum_dim(0) * r
                + y.clone().mean_dim(0)
                + whole
                + (y.sum_dim(1) * c + x.mean_dim(1)).sum_dim(0)]
        }),
        ("extremes", |[x, y, ..]| {
            let whole = x.clone().max().unsqueeze::<2>() - y.clone().min().unsqueeze::<2>();
            [x.clone().max_dim(1) + y.clone().min_dim(1) + whole + (x.max_dim(0) - y.min_dim(0)).sum_dim(1)]
        }),
        ("products", |[x, _, _, c, w]| [x.clone().transpose().matmul(c * activation::sigmoid(x.matmul(w)))]),
        ("rows and columns", |[x, _, r, c, _]| {
            let (rows, columns) = (c.dims()[0], r.dims()[1]);
            [x + c.reshape([1, rows]).transpose() * r.reshape([columns, 1]).permute([1, 0])]
        }),
        ("slices", |[x, y, ..]| {
            let columns = x.dims()[1];
            [x.clone().slice([0..x.dims()[0], columns / 2..columns])
                + y.narrow(1, columns / 2, columns - columns / 2)]
        }),
        ("its own tensors", |[x, y, r, ..]| {
            let device = x.device();
            let columns = x.dims()[1];
            let own = Tensor::<2>::from_data(TensorData::new(vec![0.5f32; columns], [1, columns]), &device);
            [x * own + Tensor::ones([1, columns], &device) * r + Tensor::full([1, 1], 0.125, &device) * y]
        }),
        ("an argument", |[x, ..]| [x]),
    ]
}

/// Functions with operations that burn runs, and how many stages there are.
fn mixed_functions() -> Vec<(&'static str, usize, Function)> {
    vec![
        ("a sort", 3, |[x, y, ..]| [(x * 2.0 + y.clone()).sort(1) * y + 1.0]),
        ("a mask", 3, |[x, y, ..]| [x.clone().mask_fill(y.clone().greater_elem(0.0), 7.0) * y + x]),
        ("the greatest", 3, |[x, y, ..]| [x.clone().argmax(1).float() + (x * y).sum_dim(1)]),
        ("two chains", 5, |[x, y, r, ..]| {
            let sums = (x.clone() + r).cumsum(0) * y.clone();
            [(sums.exp().tanh() - x).abs() + y.log1p().sum_dim(1)]
        }),
        ("three dimensions", 7, |[x, y, ..]| {
            let [rows, columns] = x.dims();
            let own = Tensor::<3>::from_data([[[1.0f32], [2.0]]], &x.device()).repeat_dim(2, 3);
            let sums = x.clone().reshape([rows, columns, 1, 1]).sum_dim(1).reshape([rows, 1]);
            let cube = (x * 2.0 + sums).reshape([rows, columns, 1]);
            let more = cube.clone().mean_dim(1).reshape([rows, 1]) * y + own.sum().unsqueeze::<2>();
            [more.sort(1) + cube.reshape([rows, columns])]
        }),
        // Elements that are equal without a plan are equal in each stage.
        ("a threshold", 3, |[x, y, ..]| {
            let t = x * 0.1 + y;
            [t.clone().lower_equal(t.sort(1).narrow(1, 2, 1)).float()]
        }),
        ("masks", 5, |[x, y, ..]| {
            let both = Tensor::cat(vec![x.clone().is_nan(), y.clone().greater_elem(0.0)], 0);
            [both.clone().bool_or(both.bool_not()).float().narrow(0, 0, x.dims()[0]) * y]
        }),
        ("only burn", 1, |[x, ..]| [x.cos()]),
    ]
}

fn devices() -> Vec<Device> {
    vec![
        Device::flex(),
        #[cfg(feature = "ndarray")]
        #[allow(deprecated)]
        Device::ndarray(),
        #[cfg(feature = "wgpu")]
        Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
    ]
}

fn arguments(rows: usize, columns: usize, device: &Device) -> [Tensor<2>; 5] {
    [
        tensor(rows, columns, 1, device),
        tensor(rows, columns, 2, device),
        tensor(1, columns, 3, device),
        tensor(rows, 1, 4, device),
        tensor(columns, 3, 5, device),
    ]
}

fn inputs(rows: usize, columns: usize) -> [Input; 5] {
    [
        Input::dense(rows, columns),
        Input::dense(rows, columns),
        Input::dense(1, columns),
        Input::dense(rows, 1),
        Input::dense(columns, 3),
    ]
}

#[test]
fn fused_functions_return_what_burn_returns() {
    for (rows, columns) in [(1, 1), (2, 7), (37, 5), (130, 1), (1, 65), (33, 257)] {
        for (name, f) in fused_functions() {
            let function = FusedFunction::capture(inputs(rows, columns), f).unwrap();
            let name = format!("{name}, {rows} x {columns}");
            // An argument that is returned takes no stage.
            assert!(
                function.plans().count() <= 1 && !function.explain().contains("burn"),
                "{}",
                function.explain()
            );
            // Other devices run the same plans on copies, and compile burn's operations for long.
            for device in devices().into_iter().take(if (rows, columns) == (37, 5) { 3 } else { 1 }) {
                let arguments = arguments(rows, columns, &device);
                let [expected] = f(arguments.clone());
                let [found] = function.run(arguments.map(Argument::from)).unwrap();
                assert_eq!(found.dims(), expected.dims(), "{name}");
                assert_eq!((found.device(), found.dtype()), (expected.device(), DType::F32), "{name}");
                assert_close(&format!("{name}, {device:?}"), &elements(found), &elements(expected));
            }
        }
    }
}

#[test]
fn burn_runs_what_is_not_fused() {
    for (name, stages, f) in mixed_functions() {
        let function = FusedFunction::capture(inputs(37, 5), f).unwrap();
        let explained = function.explain();
        assert_eq!(explained.matches("stage ").count(), stages, "{name}: {explained}");
        for device in devices() {
            let arguments = arguments(37, 5, &device);
            let [expected] = f(arguments.clone());
            let [found] = function.run(arguments.map(Argument::from)).unwrap();
            assert_close(name, &elements(found), &elements(expected));
        }
    }
    let sort = FusedFunction::capture([Input::dense(3, 2)], |[x]| [x.sort(1)]).unwrap();
    assert_eq!(sort.explain(), "stage 0: burn runs Sort\n");
}

#[test]
fn elements_that_are_no_numbers_stay_so() {
    let device = Device::flex();
    let mut values = numbers(9, 4, 11);
    (values[1], values[7], values[20], values[30]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::NAN);
    for (name, f) in fused_functions() {
        if name == "softmax" {
            // Without the row of infinity, where burn's two ways differ.
            continue;
        }
        let function = FusedFunction::capture(inputs(9, 4), f).unwrap();
        let mut arguments = arguments(9, 4, &device);
        arguments[0] = Tensor::from_data(TensorData::new(values.clone(), [9, 4]), &device);
        let [expected] = f(arguments.clone());
        let [found] = function.run(arguments.map(Argument::from)).unwrap();
        assert_close(name, &elements(found), &elements(expected));
    }
}

#[test]
fn every_policy_computes_the_same() {
    let device = Device::flex();
    let f = |[x, v, w]: [Tensor<2>; 3]| {
        let product = x.clone().matmul(v);
        let violated = (product.clone() * w.clone()).greater_elem(0.0).float();
        [x.transpose().matmul(violated.clone() * w), (product.powi_scalar(2) * violated).sum_dim(0)]
    };
    let inputs = [Input::dense(501, 6), Input::dense(6, 1), Input::dense(501, 1)];
    let arguments = [tensor(501, 6, 1, &device), tensor(6, 1, 2, &device), tensor(501, 1, 3, &device)];
    let expected = f(arguments.clone()).map(elements);
    for policy in Policy::ALL {
        let function = FusedFunction::capture_with(inputs, policy, &Default::default(), f).unwrap();
        let found = function.run(arguments.clone().map(Argument::from)).unwrap().map(elements);
        for (found, expected) in found.iter().zip(&expected) {
            assert_close(&format!("{policy:?}"), found, expected);
        }
    }
}

#[test]
fn sparse_matrices_are_arguments() {
    let device = Device::flex();
    let (rows, columns) = (200, 31);
    let values: Vec<f32> =
        numbers(rows, columns, 1).into_iter().map(|x| if x > 0.8 { x } else { 0.0 }).collect();
    let wide: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
    let sparse = Matrix::csr((rows, columns), &wide).unwrap();
    let dense = Tensor::<2>::from_data(TensorData::new(values, [rows, columns]), &device);
    let (u, v) = (tensor(rows, 3, 2, &device), tensor(columns, 3, 3, &device));
    // The weighted loss of a factorization.
    let f = |[x, u, v]: [Tensor<2>; 3]| [(x * (u.matmul(v.transpose()).abs() + 1.0).log()).sum_dim(1)];
    let [expected] = f([dense.clone(), u.clone(), v.clone()]);
    let inputs = [Input::csr(rows, columns, 0.1), Input::dense(rows, 3), Input::dense(columns, 3)];
    let function = FusedFunction::capture(inputs, f).unwrap();
    assert!(function.explain().contains("skips the zeros"), "{}", function.explain());
    let [found] = function.run([sparse.clone().into(), u.clone().into(), v.clone().into()]).unwrap();
    assert_close("sparse", &elements(found), &elements(expected.clone()));

    // Burn's own operations get all elements.
    let g = |[x]: [Tensor<2>; 1]| [x.sort(1)];
    let [sorted] = g([dense.clone()]);
    let [found] = FusedFunction::capture([Input::csr(rows, columns, 0.1)], g)
        .unwrap()
        .run([sparse.clone().into()])
        .unwrap();
    assert_close("sorted", &elements(found), &elements(sorted));

    // A sparse result between stages.
    let g = |[x]: [Tensor<2>; 1]| {
        let doubled = x * 2.0;
        [doubled.clone().sort(1) + doubled]
    };
    let [expected] = g([dense.clone()]);
    let [found] = FusedFunction::capture([Input::csr(rows, columns, 0.1)], g)
        .unwrap()
        .run([sparse.clone().into()])
        .unwrap();
    assert_close("between", &elements(found), &elements(expected));

    let refused = function.run([dense.clone().into(), u.clone().into(), v.clone().into()]).unwrap_err();
    assert!(refused.to_string().contains("argument 0: a matrix in CSR was declared"), "{refused}");
    let inputs = [Input::dense(rows, columns), Input::dense(rows, 3), Input::dense(columns, 3)];
    let refused =
        FusedFunction::capture(inputs, f).unwrap().run([sparse.into(), u.into(), v.into()]).unwrap_err();
    assert!(refused.to_string().contains("argument 0: a dense matrix was declared"), "{refused}");
}

#[test]
fn types_and_strides_of_tensors() {
    let device = Device::flex();
    let f = |[x]: [Tensor<2>; 1]| [x.clone() * 2.0 + x.sum_dim(1)];
    let function = FusedFunction::capture([Input::dense(5, 7)], f).unwrap();
    let x = tensor(5, 7, 1, &device);
    for device in devices() {
        let x = Tensor::from_data(x.to_data(), &device);
        let transposed = Tensor::from_data(x.clone().transpose().into_data(), &device).transpose();
        let part = Tensor::cat(vec![x.clone() + 1.0, x.clone()], 0).narrow(0, 5, 5);
        for x in [x, transposed, part] {
            let [expected] = f([x.clone()]);
            let [found] = function.run([x.into()]).unwrap();
            assert_close("strides", &elements(found), &elements(expected));
        }
    }
    for (dtype, float) in
        [(DType::F64, FloatDType::F64), (DType::F16, FloatDType::F16), (DType::BF16, FloatDType::BF16)]
    {
        let x = x.clone().cast(float);
        let [expected] = f([x.clone()]);
        let input = Input::dense(5, 7);
        let input = if dtype == DType::F64 { input.f64() } else { input };
        let [found] = FusedFunction::capture([input], f).unwrap().run([x.into()]).unwrap();
        assert_eq!(found.dtype(), dtype);
        let (found, expected) = (elements(found), elements(expected));
        let tolerance = if dtype == DType::F64 { 1e-13 } else { 0.1 };
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < tolerance), "{dtype:?}");
    }
    // A matrix of doubles without a tensor beside it.
    let doubles: Vec<f64> = (0..35).map(f64::from).collect();
    let [found] = function.run([Matrix::dense((5, 7), doubles).unwrap().into()]).unwrap();
    assert_eq!(found.dtype(), DType::F32);
    assert_eq!(elements(found)[..2], [21.0, 23.0]);
}

/// A number has the type of what it is compared with, as in burn.
#[test]
fn numbers_in_comparisons_have_the_type_of_tensors() {
    let device = Device::flex();
    let f = |[x]: [Tensor<2>; 1]| {
        let made = Tensor::full([1, 2], 0.3, (&x.device(), x.dtype()));
        let burn = (x.clone().sort(1) * 0.1).cos();
        let held = x.clone().lower_equal_elem(0.3).float().cast(x.dtype());
        [held + x.clone().equal_elem(0.1).float().cast(x.dtype()) * 2.0 + (x - made) * 4.0 + burn]
    };
    for dtype in [FloatDType::F32, FloatDType::F64] {
        let x =
            Tensor::<2>::from_data(TensorData::new(vec![0.3f64, 0.1], [1, 2]), (&device, DType::from(dtype)));
        let input = Input::dense(1, 2);
        let input = if dtype == FloatDType::F64 { input.f64() } else { input };
        let [expected] = f([x.clone()]);
        let [found] = FusedFunction::capture([input], f).unwrap().run([x.into()]).unwrap();
        let tolerance = if dtype == FloatDType::F64 { 1e-15 } else { 1e-6 };
        let pairs: Vec<_> = elements(found).into_iter().zip(elements(expected)).collect();
        assert!(pairs.iter().all(|(a, b)| (a - b).abs() <= tolerance), "{dtype:?}: {pairs:?}");
    }
}

#[test]
fn results_may_repeat() {
    let device = Device::flex();
    let f = |[x]: [Tensor<2>; 1]| {
        let doubled = x.clone() * 2.0;
        [doubled.clone(), x, doubled]
    };
    let x = tensor(5, 7, 1, &device);
    let expected = f([x.clone()]).map(elements);
    let found = FusedFunction::capture([Input::dense(5, 7)], f).unwrap().run([x.into()]).unwrap();
    assert_eq!(found.map(elements), expected);
}

#[test]
fn what_is_wrong_is_said() {
    let device = Device::flex();
    let function = FusedFunction::capture([Input::dense(5, 7)], |[x]| [x * 2.0]).unwrap();
    let said = |argument: Argument| function.run([argument]).unwrap_err().to_string();
    let shape = said(tensor(4, 7, 1, &device).into());
    assert!(shape.contains("argument 0: it has 4 rows and 7 columns, 5 and 7 were declared"), "{shape}");
    let gradient = said(tensor(5, 7, 1, &device.clone().autodiff()).into());
    assert!(gradient.contains("pass tensor.inner()"), "{gradient}");

    let doubles = said(tensor(5, 7, 1, &device).cast(FloatDType::F64).into());
    assert!(doubles.contains("declare Input::dense(…).f64()"), "{doubles}");

    let elsewhere =
        FusedFunction::capture([Input::dense(5, 7)], |_| [Tensor::zeros([2, 2], &Device::flex())]);
    assert!(elsewhere.unwrap_err().to_string().contains("on another device"));
    let share = FusedFunction::capture([Input::csr(5, 7, 1.5)], |[x]| [x * 2.0]).unwrap_err();
    assert!(
        share.to_string().contains("argument 0: it is filled by 1.5; give a share from 0 to 1"),
        "{share}"
    );
    let empty = FusedFunction::capture([Input::dense(0, 7)], |[x]| [x * 2.0]).unwrap_err();
    assert!(empty.to_string().contains("argument 0: 0 rows and 7 columns"), "{empty}");
}
