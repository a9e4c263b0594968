//! What follows a forest, run with it, is what the same steps are as tensor operations, on every backend that is built in and
//! answers.

#![cfg(feature = "burn")]
// burn-ndarray is deprecated upstream in favour of burn-flex and served as long as burn has it.
#![allow(deprecated)]

use crate::support;

use std::sync::Arc;

use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};
use fangorn::{
    Error,
    op::{Epilogue, EpilogueStep, ForestOp, forest_with_epilogue},
    schedule::{Preset, Schedule},
    sum::Contract,
};
use support::{Specimen, devices};

fn rows(s: &Specimen, device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(s.rows.clone(), [s.count, s.columns()]), device)
}

fn floats(tensor: Tensor<2>) -> Vec<f32> {
    tensor.cast(DType::F32).into_data().try_to_vec().expect("f32")
}

/// A tensor of numbers that tell rows and columns apart.
fn beside(rows: usize, width: usize, from: f32, device: &Device) -> Tensor<2> {
    let values: Vec<f32> = (0..rows * width).map(|i| from + ((i * 37) % 101) as f32 / 64.0).collect();
    Tensor::from_data(TensorData::new(values, [rows, width]), device)
}

const HALF_AND_MORE: EpilogueStep = EpilogueStep::Affine { scale: 0.5, shift: 0.25 };

fn each(width: usize) -> EpilogueStep {
    EpilogueStep::AffineEach {
        scale: (0..width).map(|o| 1.0 - o as f32 / 4.0).collect(),
        shift: (0..width).map(|o| o as f32 / 8.0 - 0.5).collect(),
    }
}

/// Every step, of a value alone and with its row.
fn mixed(width: usize) -> [Vec<EpilogueStep>; 2] {
    let alone = [
        EpilogueStep::Add,
        EpilogueStep::Multiply,
        HALF_AND_MORE,
        EpilogueStep::Add,
        each(width),
        EpilogueStep::Multiply,
        EpilogueStep::Sigmoid,
    ];
    let with_row =
        [each(width), EpilogueStep::Softmax, EpilogueStep::Add, EpilogueStep::Softmax, each(width)];
    [alone.to_vec(), with_row.to_vec()]
}

/// Every step by itself, behind others, and rounded to halves.
fn epilogues(width: usize) -> Vec<Vec<EpilogueStep>> {
    let [alone, with_row] = mixed(width);
    vec![
        vec![],
        vec![HALF_AND_MORE],
        vec![each(width)],
        vec![EpilogueStep::Sigmoid],
        vec![EpilogueStep::Softmax],
        vec![EpilogueStep::Add],
        vec![EpilogueStep::Multiply],
        alone,
        with_row,
        vec![HALF_AND_MORE, EpilogueStep::Cast(FloatDType::F16)],
        vec![EpilogueStep::Softmax, EpilogueStep::Cast(FloatDType::F16)],
        vec![EpilogueStep::Multiply, EpilogueStep::Cast(FloatDType::BF16)],
    ]
}

fn made(steps: Vec<EpilogueStep>, of_values: bool) -> Arc<Epilogue> {
    let made = if of_values { Epilogue::of_values(steps) } else { Epilogue::of_margins(steps) };
    Arc::new(made.expect("steps that can follow one another"))
}

/// Runs the steps with the forest and behind it; whether the device stores the type of the result.
fn same(what: &str, s: &Specimen, op: &Arc<ForestOp>, epilogue: &Arc<Epilogue>, device: &Device) -> bool {
    let what = format!("{what}, {:?} of {}", epilogue.steps(), s.name);
    let width = epilogue.width(op);
    let tensors: Vec<_> =
        (0..epilogue.tensors()).map(|i| beside(s.count, width, i as f32 - 1.0, device)).collect();
    let found =
        match forest_with_epilogue(rows(s, device), op.leaf_values(device), tensors.clone(), op, epilogue) {
            Ok(found) => found,
            Err(Error::Device(refused)) if epilogue.dtype() != DType::F32 => {
                assert!(!device.supports_dtype(epilogue.dtype()), "{what}: {refused}");
                assert!(refused.contains("cast"), "{what}: {refused}");
                return false;
            }
            Err(error) => panic!("{what}: {error}"),
        };
    assert_eq!((found.dims(), found.dtype()), ([s.count, width], epilogue.dtype()), "{what}");
    let of = if epilogue.follows_values() { op.values(rows(s, device)) } else { op.margins(rows(s, device)) };
    let expected = floats(epilogue.by_operations(of.expect(&what), &tensors));
    // Each step rounds once or a few times; a half has 11 bits and a bfloat16 8.
    let rounding = match epilogue.dtype() {
        DType::F16 => 1e-3,
        DType::BF16 => 8e-3,
        _ => 2e-6,
    };
    for (i, (found, expected)) in floats(found).into_iter().zip(expected).enumerate() {
        let off = (found - expected).abs();
        let index = (i / width, i % width);
        assert!(
            off <= rounding * expected.abs().max(1.0),
            "{what} at {index:?}: {found}, by operations {expected}"
        );
    }
    true
}

#[test]
fn steps_are_what_tensor_operations_make_of_margins_and_values() {
    let mut stored = 0;
    for (name, device) in devices() {
        for model in ["churn", "softprob"] {
            let s = support::named(model);
            let op = Arc::new(ForestOp::new(s.forest.clone()).expect(model));
            for steps in epilogues(op.outputs()) {
                stored += usize::from(same(name, &s, &op, &made(steps, false), &device));
            }
        }
        // Vectors, an objective's transform, values of another width than the margins, and nothing to launch.
        for model in ["vector-leaf", "poisson", "catboost-rmse-with-uncertainty", "no-trees"] {
            let s = support::named(model);
            let op = Arc::new(ForestOp::new(s.forest.clone()).expect(model));
            for steps in mixed(op.width()) {
                stored += usize::from(same(name, &s, &op, &made(steps, true), &device));
            }
        }
    }
    assert!(stored >= 30, "{stored} were run");
}

/// A last stage of each kind: sums written once, by row, one row's by a cube, private copies, atomics, several launches.
#[test]
fn every_schedule_ends_with_the_same_steps() {
    let atomic = "tile(batch, b0, b1, 32)\ntile(tree, t0, t1, 16)\nreorder(b0, t0, b1, t1)\ngpuDimension(b0, grid.x)\n\
                  gpuDimension(t0, grid.y)\ngpuDimension(b1, block.x)\natomicReduce(t0)";
    for (name, device) in devices() {
        let gpu = !["flex", "ndarray"].contains(&name);
        let s = support::named("softprob");
        let presets = [
            Preset::TahoeDirect,
            Preset::TahoeSharedPartialForest,
            Preset::RapidsFil,
            Preset::Nvforest,
            Preset::Hummingbird,
        ];
        let presets = presets.map(|p| (p.name(), p.schedule(&s.forest, gpu)));
        let atomic = Schedule::parse(atomic).expect("a schedule");
        for (schedule_name, schedule) in presets.into_iter().chain([("atomic", atomic)]) {
            let what = format!("{schedule_name} on {name}");
            let op = Arc::new(ForestOp::builder(s.forest.clone()).schedule(schedule).build().expect(&what));
            match op.margins(rows(&s, &device)) {
                Ok(_) => {}
                Err(refused) => {
                    assert!(support::lacks_shared_memory(&refused), "{what}: {refused}");
                    continue;
                }
            }
            let [each, row] = mixed(op.outputs());
            same(&what, &s, &op, &made(each, false), &device);
            same(&what, &s, &op, &made(row, false), &device);
        }
    }
}

#[test]
fn sums_that_keep_a_contract_are_followed_too() {
    for (name, device) in devices() {
        let s = support::named("churn");
        for (sum, of_values) in [(Contract::Tree, true), (Contract::Exact, false)] {
            let op = ForestOp::builder(s.forest.clone()).sum(sum).build().expect(name);
            let op = Arc::new(op);
            for steps in mixed(op.outputs()) {
                same(&format!("{sum} on {name}"), &s, &op, &made(steps, of_values), &device);
            }
        }
    }
}

#[test]
fn steps_that_can_not_be_taken_are_errors() {
    let refused = |steps: Vec<EpilogueStep>| Epilogue::of_margins(steps).expect_err("refused").to_string();
    assert!(refused(vec![EpilogueStep::Add; 5]).contains("at most 4"));
    assert!(refused(vec![EpilogueStep::Cast(FloatDType::F16), EpilogueStep::Sigmoid]).contains("step 0"));
    assert!(refused(vec![EpilogueStep::Cast(FloatDType::F64)]).contains("F64"));
    let uneven = EpilogueStep::AffineEach { scale: vec![1.0; 2], shift: vec![1.0] };
    assert!(refused(vec![EpilogueStep::Sigmoid, uneven]).contains("step 1 has 2 scales and 1 shifts"));
    let s = support::named("softprob");
    for (name, device) in devices() {
        let op = Arc::new(ForestOp::new(s.forest.clone()).expect(name));
        let call = |tensors: Vec<Tensor<2>>, steps: Vec<EpilogueStep>| {
            let epilogue = made(steps, false);
            forest_with_epilogue(rows(&s, &device), op.leaf_values(&device), tensors, &op, &epilogue)
                .expect_err(name)
                .to_string()
        };
        assert!(call(vec![], vec![EpilogueStep::Add]).contains("0 tensors"), "{name}");
        let one = beside(s.count, 1, 0.0, &device);
        assert!(call(vec![one.clone()], vec![]).contains("1 tensors"), "{name}");
        let narrow = call(vec![one], vec![EpilogueStep::Add]);
        assert!(narrow.contains(&format!("[{}, {}]", s.count, op.outputs())), "{name}: {narrow}");
        let of_three = EpilogueStep::AffineEach { scale: vec![1.0; 3], shift: vec![0.0; 3] };
        assert!(call(vec![], vec![of_three]).contains("3 outputs, the forest has 5"), "{name}");
    }
}

/// A tensor beside the rows is read in whatever strides it has.
#[test]
fn tensors_may_lie_in_any_strides() {
    let s = support::named("softprob");
    for (name, device) in devices() {
        let op = Arc::new(ForestOp::new(s.forest.clone()).expect(name));
        let (width, epilogue) = (op.outputs(), made(vec![EpilogueStep::Add], false));
        let call = |beside: Tensor<2>| {
            floats(
                forest_with_epilogue(
                    rows(&s, &device),
                    op.leaf_values(&device),
                    vec![beside],
                    &op,
                    &epilogue,
                )
                .expect(name),
            )
        };
        let plain = beside(s.count, width, 0.0, &device);
        let expected = call(plain.clone());
        let turned: Vec<f32> = plain.clone().transpose().into_data().try_to_vec().expect("f32");
        let turned = Tensor::<2>::from_data(TensorData::new(turned, [width, s.count]), &device).transpose();
        assert_eq!(call(turned), expected, "columns first on {name}");
        let wide = Tensor::cat(vec![plain.clone() * 2.0, plain], 1).slice([0..s.count, width..2 * width]);
        assert_eq!(call(wide), expected, "a slice on {name}");
    }
}

/// A type that the device lacks is refused before anything is launched: the device goes on.
#[test]
fn halves_are_stored_where_the_device_has_them_and_refused_by_name_elsewhere() {
    let s = support::named("softprob");
    for (name, device) in devices() {
        let op = Arc::new(ForestOp::new(s.forest.clone()).expect(name));
        let margins = || floats(op.margins(rows(&s, &device)).expect(name));
        let before = margins();
        for (to, dtype, rounding) in
            [(FloatDType::F16, DType::F16, 1.0 / 1024.0), (FloatDType::BF16, DType::BF16, 1.0 / 128.0)]
        {
            let what = format!("{dtype:?} on {name}");
            let epilogue = made(vec![EpilogueStep::Cast(to)], false);
            match forest_with_epilogue(rows(&s, &device), op.leaf_values(&device), vec![], &op, &epilogue) {
                Ok(found) => {
                    assert_eq!(has(&device, name, dtype), Some(true), "{what}");
                    assert_eq!((found.dtype(), found.dims()), (dtype, [s.count, op.outputs()]), "{what}");
                    for (i, (found, margin)) in floats(found).into_iter().zip(&before).enumerate() {
                        let off = (found - margin).abs();
                        assert!(off <= rounding * margin.abs(), "{what} at {i}: {found} of {margin}");
                    }
                }
                Err(Error::Device(refused)) => {
                    assert_ne!(has(&device, name, dtype), Some(true), "{what}: {refused}");
                    let named = refused.starts_with(&format!("{dtype:?} is no type of"));
                    assert!(named && refused.ends_with("leave the cast out"), "{what}: {refused}");
                }
                Err(error) => panic!("{what}: {error}"),
            }
            assert_eq!(margins(), before, "after {what}");
        }
    }
}

/// Whether a device has a type, where it is known without asking what the operator asks: WGSL has no bfloat16, NdArray no
/// half of either kind.
fn has(device: &Device, name: &str, dtype: DType) -> Option<bool> {
    match (name, dtype) {
        ("flex", _) => Some(true),
        ("ndarray", _) | ("wgpu", DType::BF16) => Some(false),
        #[cfg(feature = "cube")]
        (_, DType::F16) => match device.as_dispatch() {
            burn::backend::DispatchDevice::Cube(device) => Some(device_has_halves(&device.client())),
            _ => None,
        },
        _ => device.supports_dtype(dtype).then_some(true),
    }
}

#[test]
fn nothing_is_still_nothing() {
    let s = support::named("softprob");
    for (name, device) in devices() {
        let op = Arc::new(ForestOp::new(s.forest.clone()).expect(name));
        let epilogue = made(vec![EpilogueStep::Add, EpilogueStep::Softmax], false);
        let x = Tensor::<2>::zeros([0, s.columns()], &device);
        let none = Tensor::<2>::zeros([0, op.outputs()], &device);
        let found = forest_with_epilogue(x, op.leaf_values(&device), vec![none], &op, &epilogue).expect(name);
        assert_eq!(found.dims(), [0, op.outputs()], "{name}");
    }
}

#[test]
fn capture_records_it_with_its_tensors() {
    let s = support::named("softprob");
    let op = Arc::new(ForestOp::new(s.forest.clone()).expect("op"));
    let epilogue = made(vec![EpilogueStep::Add, EpilogueStep::Cast(FloatDType::F16)], false);
    let device = Device::capture();
    let graph = device.capture_scope(|scope| {
        let tensors = vec![beside(s.count, op.outputs(), 0.0, &device)];
        let made = forest_with_epilogue(rows(&s, &device), op.leaf_values(&device), tensors, &op, &epilogue)
            .expect("recorded");
        assert_eq!((made.dims(), made.dtype()), ([s.count, op.outputs()], DType::F16));
        scope.complete([], [])
    });
    let recorded = format!("{:?}", graph.expect("captured").graph.operations);
    assert!(recorded.contains("forest_epilogue"), "{recorded}");
}

/// Rows that are too many for a binding go in pieces, and with them what stands beside them.
#[cfg(feature = "cube")]
#[test]
fn pieces_take_their_part_of_what_stands_beside_them() {
    use burn::backend::DispatchDevice;
    use fangorn::{
        cube::Executable,
        plan::{EpilogueOp, EpiloguePlan, Number},
    };
    use fangorn_kernels::{Buffer, EpilogueInputs, Rows};

    let Some((_, device)) = support::gpu() else { return };
    let DispatchDevice::Cube(device) = device.as_dispatch() else { panic!("a cubecl device") };
    let client = device.client();
    let s = support::named("softprob");
    let upload = |values: &[f32]| {
        client.create_from_slice(&values.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>())
    };
    let (batch, width) = (300, s.forest.outputs as usize);
    let all: Vec<f32> = s.rows.iter().copied().cycle().take(batch * s.columns()).collect();
    let rows = Rows {
        words: Buffer { handle: upload(&all), len: all.len() },
        batch: batch as u32,
        row_stride: s.columns() as u32,
        column_stride: 1,
        offset: 0,
    };
    let leaves: Vec<f32> = s.forest.leaf_values.iter().map(|v| v.0 as f32).collect();
    let beside: Vec<f32> = (0..batch * width).map(|i| i as f32).collect();
    let inputs = EpilogueInputs { tensors: vec![upload(&beside)], each: vec![], numbers: vec![2.0, 1.0] };
    let halves = device_has_halves(&client);
    let ranked = Preset::Default.schedule(&s.forest, true).to_string() + "\nranks(u8)";
    let ranked = Schedule::parse(&ranked).expect("a schedule");
    for (sum, schedule) in [
        (Contract::Any, Preset::Default.schedule(&s.forest, true)),
        (Contract::Any, Preset::TahoeDirect.schedule(&s.forest, true)),
        (Contract::Any, ranked),
        (Contract::Tree, Preset::TahoeDirect.schedule(&s.forest, true)),
    ] {
        let made = Executable::builder(&client, &s.forest).schedule(schedule.clone()).sum(sum).build();
        let made = match made {
            Ok(made) => made,
            Err(refused) if support::lacks_shared_memory(&refused) => continue,
            Err(refused) => panic!("{schedule}: {refused}"),
        };
        let numbers = [Some(Number::F32), halves.then_some(Number::F16)];
        for number in numbers.into_iter().flatten() {
            let steps = vec![EpilogueOp::Add { buffer: 0 }, EpilogueOp::Affine { at: 0 }];
            let exe = made.with_epilogue(EpiloguePlan { steps, number, recorded: false });
            let run = |exe: &Executable| {
                let bytes = batch * width * number.bytes() as usize;
                let out = Buffer { handle: client.create_from_slice(&vec![0xfe; bytes]), len: batch * width };
                let leaves = Buffer { handle: upload(&leaves), len: leaves.len() };
                exe.run_with(&rows, &leaves, &inputs, &out);
                client.read_one(out.handle).expect("the launch went well")[..bytes].to_vec()
            };
            let (whole, pieces) = (run(&exe), run(&exe.clone().with_most_rows(128)));
            assert!(whole == pieces, "{number:?}, {sum}, {schedule}");
            if number == Number::F32 {
                let last = f32::from_ne_bytes(whole[whole.len() - 4..].try_into().expect("four bytes"));
                // Twice the index of the last element, and a margin that is far below it.
                assert!((last - 2.0 * (batch * width) as f32).abs() < 30.0, "{last}");
            }
        }
    }
}

#[cfg(feature = "cube")]
fn device_has_halves(client: &cubecl::client::Client) -> bool {
    use cubecl::ir::{ElemType, FloatKind, features::TypeUsage};
    client.properties().type_usage(ElemType::Float(FloatKind::F16)).contains(TypeUsage::Buffer)
}
