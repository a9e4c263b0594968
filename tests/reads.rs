//! Nothing is read back from a device by the operator: it is issued whole while the device is held, which a read would wait
//! for.

#![cfg(feature = "cube")]
// burn-ndarray is deprecated upstream in favour of burn-flex and served as long as burn has it.
#![allow(deprecated)]

mod support;

use std::{sync::Arc, sync::mpsc, thread, time::Duration};

use burn::{
    backend::{DispatchDevice, ops::FloatTensorOps},
    tensor::TensorData,
};
use burn_cubecl::{CubeBackend, CubeDevice};
use fangorn::op::{Epilogue, EpilogueStep, EpilogueTensors, ForestBackend, ForestOp, forest_with_epilogue};

/// The cubecl device under test, where one answers.
fn device() -> Option<CubeDevice> {
    let (_, device) = support::gpu()?;
    match device.as_dispatch() {
        DispatchDevice::Cube(device) => Some(device.clone()),
        _ => None,
    }
}

/// Runs `issue` while nothing else can run on the device, and says whether it was through by then.
fn while_held<R: Send>(
    device: &CubeDevice,
    patience: Duration,
    issue: impl FnOnce() -> R + Send,
) -> (bool, R) {
    let (held, is_held) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let client = device.client();
    thread::scope(|scope| {
        scope.spawn(move || {
            let hold = move || {
                held.send(()).expect("the test waits");
                let _ = released.recv();
            };
            client.exclusive(hold).expect("a device of its own");
        });
        is_held.recv().expect("the device is held");
        let (done, is_done) = mpsc::channel();
        let issued = scope.spawn(move || {
            let result = issue();
            let _ = done.send(());
            result
        });
        let in_time = is_done.recv_timeout(patience).is_ok();
        release.send(()).expect("the device waits");
        (in_time, issued.join().expect("no panic"))
    })
}

#[test]
fn margins_values_leaves_gradients_and_what_follows_are_issued_without_a_read() {
    let Some(device) = device() else { return };
    for model in ["churn", "softprob", "vector-leaf"] {
        let s = support::named(model);
        let op = Arc::new(ForestOp::new(s.forest.clone()).expect(model));
        let of = |values: Vec<f32>, shape: [usize; 2]| {
            CubeBackend::float_from_data(TensorData::new(values, shape), &device)
        };
        let x = of(s.rows.clone(), [s.count, s.columns()]);
        let leaves: Vec<f32> = s.forest.leaf_values.iter().map(|v| v.0 as f32).collect();
        let leaves = CubeBackend::float_from_data(TensorData::new(leaves.clone(), [leaves.len()]), &device);
        let outputs = op.outputs();
        let grad = of((0..s.count * outputs).map(|i| i as f32).collect(), [s.count, outputs]);
        // What is made for the device at the first call is made by the operator's public functions.
        let public = burn::tensor::Device::new(DispatchDevice::Cube(device.clone()));
        let rows = burn::tensor::Tensor::<2>::from_data(
            TensorData::new(s.rows.clone(), [s.count, s.columns()]),
            &public,
        );
        op.margins(rows.clone()).expect(model);
        op.values(rows.clone()).expect(model);
        let epilogue = Epilogue::of_margins([EpilogueStep::Add, EpilogueStep::Softmax]).expect("steps");
        let epilogue = Arc::new(epilogue);
        let tensors = vec![burn::tensor::Tensor::zeros([s.count, outputs], &public)];
        forest_with_epilogue(rows.clone(), op.leaf_values(&public), tensors, &op, &epilogue).expect(model);
        op.leaf_slots(rows).expect(model);
        let issue = || {
            let margins = CubeBackend::forest_margins(x.clone(), leaves.clone(), op.clone());
            let values = CubeBackend::forest_values(x.clone(), leaves.clone(), op.clone());
            let gradients = CubeBackend::forest_leaf_gradients(x.clone(), grad.clone(), op.clone());
            let beside = EpilogueTensors::One(grad.clone());
            let followed =
                CubeBackend::forest_epilogue(x.clone(), leaves.clone(), beside, op.clone(), epilogue.clone());
            let slots = CubeBackend::forest_slots(x.clone(), op.clone());
            (vec![margins, values, gradients, followed], slots)
        };
        let read = |(floats, slots)| {
            let floats: Vec<TensorData> = Vec::into_iter(floats)
                .map(|t| burn::tensor::read_sync(CubeBackend::float_into_data(t)).expect("floats"))
                .collect();
            use burn::backend::ops::IntTensorOps;
            (floats, burn::tensor::read_sync(CubeBackend::int_into_data(slots)).expect("integers"))
        };
        let expected = read(issue());
        let (in_time, issued) = while_held(&device, Duration::from_secs(60), issue);
        assert!(in_time, "{model}: the operator waits for the device");
        assert_eq!(read(issued), expected, "{model}");
    }
}

/// What no row reached has a gradient of zero, whatever lay in the memory.
#[test]
fn no_rows_give_no_gradient() {
    let Some(device) = device() else { return };
    let s = support::named("churn");
    let op = Arc::new(ForestOp::new(s.forest.clone()).expect("churn"));
    let (leaves, outputs) = (s.forest.leaf_values.len(), op.outputs());
    let public = burn::tensor::Device::new(DispatchDevice::Cube(device.clone()));
    let rows = TensorData::new(s.rows.clone(), [s.count, s.columns()]);
    op.leaf_slots(burn::tensor::Tensor::<2>::from_data(rows, &public)).expect("slots");
    let of = |values: Vec<f32>, shape: [usize; 2]| {
        CubeBackend::float_from_data(TensorData::new(values, shape), &device)
    };
    // Memory of this size that is free again and does not hold zeros.
    drop(of(vec![7.0; leaves], [leaves, 1]));
    let (x, grad) = (of(vec![], [0, s.columns()]), of(vec![], [0, outputs]));
    let found = CubeBackend::forest_leaf_gradients(x, grad, op);
    let found = burn::tensor::read_sync(CubeBackend::float_into_data(found)).expect("floats");
    assert_eq!(found.to_vec::<f32>().expect("floats"), vec![0.0; leaves]);
}

#[test]
fn a_read_is_noticed() {
    let Some(device) = device() else { return };
    let x = CubeBackend::float_from_data(TensorData::new(vec![1.0f32; 4], [4]), &device);
    let read = || burn::tensor::read_sync(CubeBackend::float_into_data(x));
    let (in_time, read) = while_held(&device, Duration::from_millis(500), read);
    assert!(!in_time, "a read goes by a device that is held");
    assert_eq!(read.expect("four values").num_elements(), 4);
}
