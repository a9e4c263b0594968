//! The burn operator on every backend that is built in and answers: the zoo, strides, types, gradients, capture.

#![cfg(feature = "burn")]
// burn-ndarray is deprecated upstream in favour of burn-flex and served as long as burn has it.
#![allow(deprecated)]

use crate::{
    generate::kinds::{edges, predicates, small, small_rows},
    support,
};

use std::sync::Arc;

use burn::tensor::{DType, Device, Distribution, Tensor, TensorData};
use fangorn::{
    forest::{Aggregate, CompareType, Profile, Transform, reference},
    op::{ForestOp, forest},
    schedule::{Preset, Schedule},
};
use support::{Specimen, assert_margins, assert_values, devices, for_each_specimen, reference_margins};

fn rows(s: &Specimen, device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(s.rows.clone(), [s.count, s.columns()]), device)
}

fn floats(tensor: Tensor<2>) -> Vec<f32> {
    tensor.into_data().try_to_vec().expect("f32")
}

#[test]
fn margins_values_and_slots_on_every_backend() {
    for (name, device) in devices() {
        for_each_specimen(|s| {
            let what = format!("{} on {name}", s.name);
            let op = Arc::new(ForestOp::new(s.forest.clone()).expect(&what));
            assert_margins(
                &what,
                &s.forest,
                &floats(op.margins(rows(s, &device)).expect(&what)),
                reference_margins(s),
            );
            assert_values(
                &what,
                &s.forest,
                &floats(op.values(rows(s, &device)).expect(&what)),
                reference_margins(s),
            );
            let slots: Vec<i32> = op
                .leaf_slots(rows(s, &device))
                .expect(&what)
                .into_data()
                .convert::<i32>()
                .try_to_vec()
                .expect("i32");
            let expected: Vec<i32> = (0..s.count)
                .flat_map(|r| reference::leaf_slots(&s.forest, s.row(r)))
                .map(|slot| slot as i32)
                .collect();
            assert_eq!(slots, expected, "{what}");
        });
    }
}

#[test]
fn strided_rows_are_read_where_they_lie() {
    let s = support::named("logistic-missing");
    for (name, device) in devices() {
        let op = Arc::new(ForestOp::new(s.forest.clone()).expect(name));
        let plain = floats(op.margins(rows(&s, &device)).expect(name));
        // The same rows, stored column by column.
        let columns: Vec<f32> = (0..s.columns())
            .flat_map(|c| (0..s.count).map(move |r| (r, c)))
            .map(|(r, c)| s.row(r)[c])
            .collect();
        let transposed =
            Tensor::<2>::from_data(TensorData::new(columns, [s.columns(), s.count]), &device).transpose();
        assert_eq!(floats(op.margins(transposed).expect(name)), plain, "transposed on {name}");
        let flipped = rows(&s, &device).flip([0]);
        let backwards: Vec<f32> = plain.iter().rev().copied().collect();
        assert_eq!(floats(op.margins(flipped).expect(name)), backwards, "flipped on {name}");
        let tail = rows(&s, &device).slice([3..s.count, 0..s.columns()]);
        assert_eq!(floats(op.margins(tail).expect(name)), plain[3..], "sliced on {name}");
        let wide = Tensor::cat(vec![rows(&s, &device), rows(&s, &device)], 1)
            .slice([0..s.count, s.columns()..2 * s.columns()]);
        assert_eq!(floats(op.margins(wide).expect(name)), plain, "columns sliced on {name}");
    }
}

#[test]
fn halves_are_widened_exactly() {
    let s = support::named("zero-threshold");
    // Every kind of half: normal, denormal, zeros, infinities, NaN, in every column.
    let specials =
        [0.0, -0.0, 1.0, -1.5, 6e-8, -3e-5, 65504.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.333];
    let values: Vec<f32> = (0..specials.len() * s.columns())
        .map(|i| specials[(i * 7 + i / s.columns()) % specials.len()])
        .collect();
    for (name, device) in devices().into_iter().filter(|(name, _)| *name != "ndarray") {
        let op = Arc::new(ForestOp::new(s.forest.clone()).expect(name));
        for dtype in [DType::F16, DType::BF16] {
            let narrow = TensorData::new(values.clone(), [specials.len(), s.columns()]).convert_dtype(dtype);
            let widened: Vec<f32> = narrow.clone().convert::<f32>().try_to_vec().expect("f32");
            let x = Tensor::<2>::from_data(narrow, (&device, dtype));
            let slots: Vec<i32> =
                op.leaf_slots(x).expect(name).into_data().convert::<i32>().try_to_vec().expect("i32");
            let expected: Vec<i32> = widened
                .chunks(s.columns())
                .flat_map(|r| reference::leaf_slots(&s.forest, r))
                .map(|slot| slot as i32)
                .collect();
            assert_eq!(slots, expected, "{dtype:?} on {name}");
        }
    }
}

#[test]
fn every_half_decides_as_its_f32() {
    let s = support::named("one-feature");
    let f16: Vec<half::f16> = (0..=u16::MAX).map(half::f16::from_bits).collect();
    let bf16: Vec<half::bf16> = (0..=u16::MAX).map(half::bf16::from_bits).collect();
    let expect = |x: f32| {
        reference::leaf_slots(&s.forest, &[x]).into_iter().map(|slot| slot as i32).collect::<Vec<_>>()
    };
    for (name, device) in devices().into_iter().filter(|(name, _)| *name != "ndarray") {
        let op = Arc::new(ForestOp::new(s.forest.clone()).expect(name));
        let run = |data: TensorData, dtype: DType| -> Vec<i32> {
            let x = Tensor::<2>::from_data(data, (&device, dtype));
            op.leaf_slots(x).expect(name).into_data().convert::<i32>().try_to_vec().expect("i32")
        };
        let found = run(TensorData::new(f16.clone(), [f16.len(), 1]), DType::F16);
        let expected: Vec<i32> = f16.iter().flat_map(|x| expect(x.to_f32())).collect();
        assert!(found == expected, "f16 on {name}");
        let found = run(TensorData::new(bf16.clone(), [bf16.len(), 1]), DType::BF16);
        let expected: Vec<i32> = bf16.iter().flat_map(|x| expect(x.to_f32())).collect();
        assert!(found == expected, "bf16 on {name}");
    }
}

#[test]
fn leaf_values_have_an_exact_gradient() {
    for model in ["logistic-missing", "softprob", "vector-leaf"] {
        let s = support::named(model);
        let outputs = s.forest.outputs as usize;
        let width = s.forest.leaf_width();
        // d/d leaf of Σ w[r][o] margin[r][o], by the definition.
        let weight = |r: usize, o: usize| (r % 5) as f32 - o as f32;
        let mut expected = vec![0.0f32; s.forest.leaf_values.len()];
        for r in 0..s.count {
            for (t, slot) in reference::leaf_slots(&s.forest, s.row(r)).into_iter().enumerate() {
                match &s.forest.targets {
                    fangorn::forest::Targets::One(targets) => {
                        expected[slot as usize] += weight(r, targets[t] as usize)
                    }
                    fangorn::forest::Targets::All => {
                        (0..width).for_each(|o| expected[slot as usize * width + o] += weight(r, o));
                    }
                }
            }
        }
        for (name, device) in devices() {
            let device = device.autodiff();
            let op = Arc::new(ForestOp::new(s.forest.clone()).expect(name));
            let leaves = op.leaf_values(&device).require_grad();
            let x = rows(&s, &device).require_grad();
            let weights: Vec<f32> =
                (0..s.count * outputs).map(|i| weight(i / outputs, i % outputs)).collect();
            let weights = Tensor::<2>::from_data(TensorData::new(weights, [s.count, outputs]), &device);
            let margins = forest(x.clone(), leaves.clone(), &op).expect(name);
            let grads = (margins * weights).sum().backward();
            let found: Vec<f32> =
                leaves.grad(&grads).expect("leaves are a parent").into_data().try_to_vec().expect("f32");
            assert_eq!(found, expected, "{model} on {name}");
            if let Some(grad) = x.grad(&grads) {
                assert!(
                    floats(grad).iter().all(|g| *g == 0.0),
                    "{model} on {name}: a forest is flat between thresholds"
                );
            }
        }
    }
}

/// Devices compare as hardware: a plain device, and autodiff with and without checkpointing, are equal.
#[test]
fn plain_and_autodiff_devices_have_leaf_values_of_their_own() {
    let s = &support::named("churn");
    for (name, plain) in devices() {
        let op = Arc::new(ForestOp::new(s.forest.clone()).expect(name));
        let autodiff = plain.clone().autodiff();
        let checkpointing = autodiff.clone().gradient_checkpointing();
        let mut first = None;
        for device in [&autodiff, &plain, &checkpointing, &autodiff] {
            let leaves = op.leaf_values(device);
            assert_eq!(leaves.is_autodiff(), device.is_autodiff(), "{name}");
            let margins = floats(forest(rows(s, device), leaves.clone(), &op).expect(name));
            assert_eq!(*first.get_or_insert_with(|| margins.clone()), margins, "{name}");
            // Two strategies can't meet in one operation.
            let other = Tensor::<1>::ones(leaves.dims(), device);
            let values = (leaves * other).into_data().try_to_vec::<f32>().expect("f32");
            assert_eq!(values, s.forest.leaf_values.iter().map(|v| v.0 as f32).collect::<Vec<_>>(), "{name}");
        }
    }
}

#[test]
fn a_forest_is_one_node_between_tensor_operations() {
    let s = support::named("logistic-missing");
    for (name, device) in devices() {
        let op = Arc::new(ForestOp::new(s.forest.clone()).expect(name));
        let x = rows(&s, &device);
        // Elementwise work before and after, which Fusion records round the custom operation.
        let doubled = floats(op.margins(x.clone() * 1.0).expect(name) * 2.0 + 1.0);
        let plain = floats(op.margins(x).expect(name));
        let expected: Vec<f32> = plain.iter().map(|m| m * 2.0 + 1.0).collect();
        assert_eq!(doubled, expected, "{name}");
    }
}

#[test]
fn capture_records_the_operator() {
    let s = support::named("logistic-missing");
    let op = Arc::new(ForestOp::new(s.forest.clone()).expect("op"));
    let device = Device::capture();
    let graph = device
        .capture_scope(|scope| {
            let margins = op.margins(rows(&s, &device)).expect("recorded");
            assert_eq!(margins.dims(), [s.count, 1]);
            scope.complete([], [])
        })
        .expect("captured");
    let recorded = format!("{:?}", graph.graph.operations);
    assert!(recorded.contains("forest_margins"), "{recorded}");
}

#[test]
fn wrong_input_is_an_error_and_not_a_panic() {
    let s = support::named("logistic-missing");
    for (name, device) in devices() {
        let op = Arc::new(ForestOp::new(s.forest.clone()).expect(name));
        let narrow = Tensor::<2>::random([3, s.columns() - 1], Distribution::Default, &device);
        let error = op.margins(narrow).expect_err("a column is missing").to_string();
        assert!(error.contains(&format!("{}", s.columns())), "{error}");
        let leaves = Tensor::<1>::zeros([3], &device);
        assert!(forest(rows(&s, &device), leaves, &op).is_err(), "{name}: three leaves");
        let none = Tensor::<2>::zeros([0, s.columns()], &device);
        assert_eq!(op.margins(none.clone()).expect(name).dims(), [0, 1], "{name}");
        assert_eq!(op.leaf_slots(none).expect(name).dims(), [0, s.forest.trees.len()], "{name}");
        // An unmapped schedule is right on a CPU and refused on a GPU, where one unit would do all the work.
        let serial =
            Arc::new(ForestOp::builder(s.forest.clone()).schedule(Schedule::default()).build().expect(name));
        let result = serial.margins(rows(&s, &device));
        match ["flex", "ndarray"].contains(&name) {
            true => assert!(result.is_ok(), "{name}"),
            false => assert!(result.expect_err(name).to_string().contains("gpuDimension"), "{name}"),
        }
    }
}

#[test]
fn every_preset_runs_as_an_operator() {
    let s = support::named("softprob");
    for (name, device) in devices() {
        let gpu = !["flex", "ndarray"].contains(&name);
        for preset in Preset::ALL {
            let what = format!("{} on {name}", preset.name());
            let op = ForestOp::builder(s.forest.clone())
                .schedule(preset.schedule(&s.forest, gpu))
                .build()
                .expect(&what);
            match Arc::new(op).margins(rows(&s, &device)) {
                Ok(margins) => assert_margins(&what, &s.forest, &floats(margins), reference_margins(&s)),
                Err(refused) => assert!(support::lacks_shared_memory(&refused), "{what}: {refused}"),
            }
        }
    }
}

#[test]
fn every_predicate_on_every_backend() {
    let x = edges();
    for compare in [CompareType::F32, CompareType::F64] {
        let forest = predicates(compare);
        let expected: Vec<i32> =
            x.iter().flat_map(|x| reference::leaf_slots(&forest, &[*x])).map(|slot| slot as i32).collect();
        for (name, device) in devices() {
            let op = Arc::new(ForestOp::new(forest.clone()).expect(name));
            let rows = Tensor::<2>::from_data(TensorData::new(x.clone(), [x.len(), 1]), &device);
            let found: Vec<i32> =
                op.leaf_slots(rows).expect(name).into_data().convert::<i32>().try_to_vec().expect("i32");
            let trees = forest.trees.len();
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let split = forest.trees[i % trees].nodes[0];
                assert_eq!(found, expected, "x = {:e} at {split:?} on {name}", x[i / trees]);
            }
        }
    }
}

#[test]
fn every_transform_on_every_backend() {
    let x = small_rows();
    // With one output a kernel transforms as it sums, with several a last launch does.
    let outputs = |t: Transform| t.outputs().map_or_else(|| vec![1, 3], |only| vec![only]);
    let cases = Transform::ALL.into_iter().flat_map(|t| outputs(t).into_iter().map(move |o| (t, o)));
    for (transform, outputs) in cases {
        let forest = small(transform, Aggregate::Sum, false, outputs);
        let margins = |r: usize| reference::margins(&forest, &x[2 * r..][..2]);
        let found = fangorn::Predictor::new(&forest).expect("a predictor").predict(&x, 2).expect("rows");
        assert_values(&format!("{transform:?} on the CPU"), &forest, &found, margins);
        for (name, device) in devices() {
            let op = Arc::new(ForestOp::new(forest.clone()).expect(name));
            let rows = Tensor::<2>::from_data(TensorData::new(x.clone(), [x.len() / 2, 2]), &device);
            let found = floats(op.values(rows).expect(name));
            assert_values(&format!("{transform:?} on {name}"), &forest, &found, margins);
        }
    }
}

#[test]
fn the_least_and_the_largest_leaf_on_every_backend() {
    let x = small_rows();
    for (aggregate, vectors) in
        [Aggregate::Min, Aggregate::Max].into_iter().flat_map(|a| [(a, false), (a, true)])
    {
        let forest = small(Transform::Identity, aggregate, vectors, 3);
        let expected: Vec<f32> =
            x.chunks(2).flat_map(|row| reference::margins(&forest, row)).map(|m| m as f32).collect();
        let rows = fangorn::cpu::Rows::new(&x, 2).expect("rows");
        let found = fangorn::Predictor::new(&forest).expect("a predictor").margins(&rows).expect("margins");
        assert_eq!(found, expected, "{aggregate:?} on the CPU");
        for (name, device) in devices() {
            let op = Arc::new(ForestOp::new(forest.clone()).expect(name));
            let rows = Tensor::<2>::from_data(TensorData::new(x.clone(), [x.len() / 2, 2]), &device);
            assert_eq!(floats(op.margins(rows).expect(name)), expected, "{aggregate:?} on {name}");
        }
    }
}

#[test]
fn a_profile_reaches_every_device() {
    let s = support::named("churn");
    let expected: Vec<u32> = (0..s.count).flat_map(|r| reference::leaf_slots(&s.forest, s.row(r))).collect();
    let mut profile = Profile::new(&s.forest);
    profile.count(&s.forest, &expected).expect("slots of its rows");
    let expected: Vec<i32> = expected.into_iter().map(|slot| slot as i32).collect();
    for (name, device) in devices() {
        let on_gpu = !matches!(name, "flex" | "ndarray");
        let rows_a_unit = Preset::TahoeDirect.schedule(&s.forest, on_gpu);
        let by_profile = format!("{rows_a_unit}\nsort(likely_leaf)\npeelWalk(tree, 90%)");
        let schedule = Schedule::parse(&by_profile).expect(name);
        let builder = || ForestOp::builder(s.forest.clone()).schedule(schedule.clone());

        let op = Arc::new(builder().build().expect(name));
        let refused = op.leaf_slots(rows(&s, &device)).expect_err(name).to_string();
        assert!(refused.contains("ForestOp::builder"), "{name}: {refused}");

        let profiled = Arc::new(builder().profile(profile.clone()).build().expect(name));
        let slots = profiled.leaf_slots(rows(&s, &device)).expect(name).into_data().convert::<i32>();
        assert_eq!(slots.try_to_vec::<i32>().expect("i32"), expected, "{name}");
        let values = floats(profiled.values(rows(&s, &device)).expect(name));
        assert_values(name, &s.forest, &values, reference_margins(&s));

        let other = Profile::new(&support::named("softprob").forest);
        assert!(builder().profile(other).build().is_err(), "a profile of another forest on {name}");
    }
}

/// Each size of a batch has its default schedule, and none changes a result: margins within the bound of their sums, leaf
/// slots exactly. 1448 rows and 11 586 rows are where the schedules of a GPU change.
#[test]
fn the_default_schedule_of_every_batch_size() {
    let s = support::named("churn");
    let bounds = s.forest.sum_bound();
    for (name, device) in devices() {
        let op = Arc::new(ForestOp::new(s.forest.clone()).expect("an operator"));
        for batch in [1, 511, 1447, 1449, 4096, 11_580, 11_590] {
            let rows: Vec<f32> = s.rows.iter().copied().cycle().take(batch * s.columns()).collect();
            let x = Tensor::<2>::from_data(TensorData::new(rows.clone(), [batch, s.columns()]), &device);
            let margins = op.margins(x.clone()).expect("rows").into_data().try_to_vec::<f32>().expect("f32");
            let slots = op.leaf_slots(x).expect("rows").into_data().convert::<i32>();
            let slots = slots.try_to_vec::<i32>().expect("i32");
            let predictor = fangorn::Predictor::new(&s.forest).expect("a predictor");
            let own = fangorn::cpu::Rows::new(&rows, s.columns()).expect("rows");
            let expected = predictor.leaf_slots(&own).expect("slots");
            assert!(slots.iter().zip(&expected).all(|(a, b)| *a as u32 == *b), "{name}, {batch} rows");
            let expected = predictor.margins(&own).expect("margins");
            for (i, (found, expected)) in margins.iter().zip(&expected).enumerate() {
                let off = (f64::from(*found) - f64::from(*expected)).abs();
                let most = 2.0 * bounds[i % bounds.len()];
                assert!(off <= most, "{name}, {batch} rows, value {i}: {found}, not {expected}");
            }
        }
    }
}
