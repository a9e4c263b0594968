//! Elementwise operations behind a forest that burn's fusion records run in the forest's kernel, after `fangorn::op::init()`. Tests by
//! themselves: fusers are registered, and launches counted, for the whole process.

#![cfg(feature = "cube")]

mod support;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::{
    backend::DispatchDevice,
    tensor::{DType, Device, Tensor, TensorData, activation},
};
use cubecl::{
    client::Client,
    logging::{LaunchObservation, LaunchObserver},
};
use fangorn::{
    Forest,
    cube::Executable,
    forest::{CompareType, Side, reference},
    op::{ForestOp, forest},
    schedule::{self, Preset, Schedule},
    sum::Contract,
};
use support::Specimen;

/// The device, one test at a time, after the fuser is there.
fn device() -> Option<(Device, MutexGuard<'static, ()>)> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    fangorn::op::init().expect("before the first tensor operation");
    support::gpu().map(|(_, device)| (device, guard))
}

#[derive(Default)]
struct Seen(Mutex<Vec<&'static str>>);

impl LaunchObserver for Seen {
    fn launched(&self, kernel: &'static str) {
        self.0.lock().expect("no panic").push(kernel);
    }
}

/// What `run` gives, and the kernels that it launches until that is read.
fn launches<const N: usize>(run: impl Fn() -> [Tensor<2>; N]) -> ([Vec<f32>; N], Vec<&'static str>) {
    let read = |t: Tensor<2>| t.cast(DType::F32).into_data().try_to_vec().expect("f32");
    // What is made at the first call is not counted, and what is explored before it is fused neither.
    for _ in 0..2 {
        let _ = run().map(read);
    }
    let seen = Arc::new(Seen::default());
    let watching = LaunchObservation::new(seen.clone());
    let found = run().map(read);
    drop(watching);
    let seen = seen.0.lock().expect("no panic");
    (found, seen.clone())
}

fn rows(s: &Specimen, device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(s.rows.clone(), [s.count, s.columns()]), device)
}

fn made(s: &Specimen, preset: Preset) -> Arc<ForestOp> {
    let op = ForestOp::builder(s.forest.clone()).schedule(preset.schedule(&s.forest, true)).build();
    Arc::new(op.expect("a schedule"))
}

/// Eleven operations, each of its element alone.
fn eleven(m: Tensor<2>, beside: &Tensor<2>) -> Tensor<2> {
    let m = m * 0.5 + 0.25;
    let m = (m + beside.clone()).abs().sqrt();
    let m = (m - 1.0) * beside.clone();
    (m.exp() + 1.0).log() / 3.0
}

fn near(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let allowed = 4e-6 * expected.abs().max(1.0);
        assert!((found - expected).abs() <= allowed, "{what} at {i}: {found}, should be {expected}");
    }
}

/// The same on the CPU.
fn on_cpu(s: &Specimen, run: impl Fn(Tensor<2>) -> Tensor<2>) -> Vec<f32> {
    let device = Device::flex();
    let op = Arc::new(ForestOp::new(s.forest.clone()).expect("a forest"));
    run(op.margins(rows(s, &device)).expect("rows")).into_data().try_to_vec().expect("f32")
}

fn beside(s: &Specimen, width: usize, device: &Device) -> Tensor<2> {
    let values: Vec<f32> = (0..s.count * width).map(|i| ((i * 29) % 17) as f32 / 8.0 - 1.0).collect();
    Tensor::from_data(TensorData::new(values, [s.count, width]), device)
}

#[test]
fn a_forest_and_eleven_operations_are_one_launch() {
    let Some((device, _one)) = device() else { return };
    for model in ["churn", "softprob"] {
        let s = support::named(model);
        let op = made(&s, Preset::Default);
        if refused(&op, &s, &device) {
            continue;
        }
        let (x, y) = (rows(&s, &device), beside(&s, op.outputs(), &device));
        let (bare, kernels) = launches(|| [op.margins(x.clone()).expect(model)]);
        assert_eq!(kernels.len(), 1, "{model}: {kernels:?}");
        let (found, kernels) = launches(|| [eleven(op.margins(x.clone()).expect(model), &y)]);
        let expected = on_cpu(&s, |m| eleven(m, &beside(&s, op.outputs(), &Device::flex())));
        near(model, &found[0], &expected);
        assert_eq!(kernels.len(), 1, "{model}: {kernels:?}");
        // The margins, too, where they are still wanted.
        let (found, kernels) = launches(|| {
            let margins = op.margins(x.clone()).expect(model);
            [eleven(margins.clone(), &y), margins]
        });
        near(model, &found[0], &expected);
        assert_eq!(found[1], bare[0], "{model}");
        assert_eq!(kernels.len(), 1, "{model}: {kernels:?}");
        // The objective's transform is before the operations; that of a whole row is written first.
        let (found, kernels) = launches(|| [op.values(x.clone()).expect(model) * 2.0 + 1.0]);
        let values: Vec<f32> =
            op.values(rows(&s, &device)).expect(model).into_data().try_to_vec().expect("f32");
        near(model, &found[0], &values.iter().map(|v| v * 2.0 + 1.0).collect::<Vec<_>>());
        assert_eq!(kernels.len(), if model == "churn" { 1 } else { 2 }, "{model}: {kernels:?}");
    }
}

/// Whether the driver has no shared memory that is right, and with it none of the schedule.
fn refused(op: &Arc<ForestOp>, s: &Specimen, device: &Device) -> bool {
    match op.margins(rows(s, device)) {
        Ok(_) => false,
        Err(error) => {
            assert!(support::lacks_shared_memory(&error), "{error}");
            true
        }
    }
}

/// Blocks of trees side by side, each of which adds to the result.
const ATOMIC: &str = "tile(batch, b0, b1, 32)\ntile(tree, t0, t1, 16)\nreorder(b0, t0, b1, t1)\n\
                      gpuDimension(b0, grid.x)\ngpuDimension(t0, grid.y)\ngpuDimension(b1, block.x)\natomicReduce(t0)";

fn client(device: &Device) -> Client {
    let DispatchDevice::Cube(device) = device.as_dispatch() else { panic!("a cubecl device") };
    device.client()
}

/// Whether the device adds to f32 in buffers atomically.
fn atomic_add(device: &Device) -> bool {
    matches!(fangorn::cube::device(&client(device)), schedule::Device::Gpu(gpu) if gpu.atomic_add)
}

/// Whether the plan of a schedule does.
fn adds_atomically(forest: &Forest, schedule: &Schedule, device: &Device) -> bool {
    let made = Executable::builder(&client(device), forest).schedule(schedule.clone()).build();
    made.expect("a schedule").plan().is_atomic()
}

/// Sums that are added to tree by tree, copies, atomics, and sums that keep a contract.
#[test]
fn what_the_kernel_can_not_take_runs_behind_it() {
    let Some((device, _one)) = device() else { return };
    let s = support::named("softprob");
    let direct = || Preset::TahoeDirect.schedule(&s.forest, true);
    let with_sum = |sum| {
        let op = ForestOp::builder(s.forest.clone()).schedule(direct()).sum(sum).build();
        Arc::new(op.expect("sums that keep it"))
    };
    let atomic = Schedule::parse(ATOMIC).expect("a schedule");
    assert_eq!(adds_atomically(&s.forest, &atomic, &device), atomic_add(&device));
    let atomic = ForestOp::builder(s.forest.clone()).schedule(atomic).build().expect("a schedule");
    let cases = [
        ("atomics", Arc::new(atomic)),
        ("several outputs", made(&s, Preset::TahoeDirect)),
        ("copies", made(&s, Preset::Hummingbird)),
        ("in order", with_sum(Contract::Tree)),
        ("whole numbers", with_sum(Contract::Exact)),
    ];
    let y = beside(&s, 5, &device);
    let expected = on_cpu(&s, |m| eleven(m, &beside(&s, 5, &Device::flex())));
    for (what, op) in cases {
        let x = rows(&s, &device);
        let (_, bare) = launches(|| [op.margins(x.clone()).expect(what)]);
        let (found, kernels) = launches(|| [eleven(op.margins(x.clone()).expect(what), &y)]);
        near(what, &found[0], &expected);
        assert_eq!(kernels.len(), bare.len() + 1, "{what}: {kernels:?}");
    }
}

/// Rows of a piece are a multiple of 128 that a binding holds: of 160 rows that fill a binding the last 32 are a piece by
/// themselves, and operations run behind both.
#[test]
fn a_batch_in_pieces_is_followed_by_a_launch() {
    let Some((device, _one)) = device() else { return };
    let binding = client(&device).properties().memory.max_page_size;
    if binding > 256 << 20 {
        return eprintln!("skipped: a binding of {binding} bytes is more than a test should fill");
    }
    // Few columns are asked for; the others make rows long.
    let count = 160;
    let columns = binding as usize / 4 / count;
    let mut forest = Forest::builder(columns, 1);
    for column in [0, 1, columns as u32 - 1] {
        let mut tree = forest.tree(0);
        tree.split(column, CompareType::F32.at_most(0.0), Side::Left, 1, 2);
        tree.leaf(1, &[f64::from(column % 7) + 0.5]);
        tree.leaf(2, &[-1.25]);
    }
    let forest = forest.build().expect("a forest");
    let mut rows = vec![0.0f32; count * columns];
    for (r, row) in rows.chunks_mut(columns).enumerate() {
        for (i, column) in [0, 1, columns - 1].into_iter().enumerate() {
            row[column] = ((r >> i) % 5) as f32 - 2.0;
        }
    }
    let schedule = Preset::TahoeDirect.schedule(&forest, true);
    let op = Arc::new(ForestOp::builder(forest.clone()).schedule(schedule).build().expect("a schedule"));
    let x = Tensor::<2>::from_data(TensorData::new(rows.clone(), [count, columns]), &device);
    let few = TensorData::new(rows[..7 * columns].to_vec(), [7, columns]);
    let few = Tensor::<2>::from_data(few, &device);
    let (_, one) = launches(|| [op.margins(few.clone()).expect("rows") * 0.5 + 0.25]);
    let (_, bare) = launches(|| [op.margins(x.clone()).expect("rows")]);
    let (found, kernels) = launches(|| [op.margins(x.clone()).expect("rows") * 0.5 + 0.25]);
    let expected: Vec<f32> =
        rows.chunks(columns).map(|row| reference::margins(&forest, row)[0] as f32 * 0.5 + 0.25).collect();
    near("pieces", &found[0], &expected);
    assert_eq!((one.len(), bare.len(), kernels.len()), (1, 2, 3), "{one:?}, {bare:?}, {kernels:?}");
}

#[test]
fn forests_that_are_followed_alike_are_told_apart() {
    let Some((device, _one)) = device() else { return };
    let s = support::named("churn");
    let mut other = s.forest.clone();
    other.leaf_values.iter_mut().for_each(|v| v.0 *= -2.0);
    let other = Specimen { forest: other, ..support::named("churn") };
    let ops = [made(&s, Preset::TahoeDirect), made(&other, Preset::TahoeDirect)];
    let expected = [&s, &other].map(|s| on_cpu(s, |m| m * 0.5 + 0.25));
    for count in [s.count, 7, s.count] {
        for (op, expected) in ops.iter().zip(&expected) {
            let x = rows(&s, &device).slice([0..count, 0..s.columns()]);
            let (found, kernels) = launches(|| [op.margins(x.clone()).expect("rows") * 0.5 + 0.25]);
            near("of its own", &found[0], &expected[..count]);
            assert_eq!(kernels.len(), 1, "{kernels:?}");
        }
    }
}

#[test]
fn rows_may_be_read_again_or_be_done_with() {
    let Some((device, _one)) = device() else { return };
    let s = support::named("one-feature");
    let op = made(&s, Preset::TahoeDirect);
    let values: Vec<f32> = s.rows.clone();
    let plain = on_cpu(&s, |m| m);
    let expected: Vec<f32> = plain.iter().zip(&values).map(|(m, x)| m * 0.5 + x).collect();
    // Rows of the result's shape, read by the forest and by an operation, whose last use this is.
    let (found, _) = launches(|| {
        let x = rows(&s, &device) * 1.0;
        let margins = op.margins(x.clone()).expect("rows");
        [margins * 0.5 + x]
    });
    let finite = |v: &[f32]| -> Vec<f32> { v.iter().map(|v| if v.is_finite() { *v } else { 0.0 }).collect() };
    near("read again", &finite(&found[0]), &finite(&expected));
    // Rows that are dropped before the first operation.
    let (found, _) = launches(|| {
        let x = rows(&s, &device) * 1.0;
        let margins = op.margins(x.clone()).expect("rows");
        drop(x);
        [margins * 0.5 + 0.25]
    });
    near("dropped", &found[0], &plain.iter().map(|m| m * 0.5 + 0.25).collect::<Vec<_>>());
    // One row of numbers for all rows, and a result of halves.
    let (found, _) = launches(|| {
        let numbers = Tensor::<2>::full([1, 1], 3.0, &device);
        [op.margins(rows(&s, &device)).expect("rows") * numbers]
    });
    near("broadcast", &found[0], &plain.iter().map(|m| m * 3.0).collect::<Vec<_>>());
    if device.supports_dtype(DType::F16) {
        let (found, _) = launches(|| [(op.margins(rows(&s, &device)).expect("rows") * 0.5).cast(DType::F16)]);
        for (found, margin) in found[0].iter().zip(&plain) {
            assert!((found - margin * 0.5).abs() <= 1e-3 * margin.abs().max(1e-3), "{found} of {margin}");
        }
    }
    let none = Tensor::<2>::zeros([0, 1], &device);
    assert_eq!((op.margins(none).expect("no rows") * 0.5).dims(), [0, 1]);
}

#[test]
fn gradients_are_the_same() {
    let Some((device, _one)) = device() else { return };
    let s = support::named("softprob");
    let gradient = |device: &Device| -> Vec<f32> {
        let device = device.clone().autodiff();
        let op = made(&s, Preset::TahoeDirect);
        let op = if device == Device::flex().autodiff() {
            Arc::new(ForestOp::new(s.forest.clone()).expect("op"))
        } else {
            op
        };
        let leaves = op.leaf_values(&device).require_grad();
        let margins = forest(rows(&s, &device), leaves.clone(), &op).expect("rows");
        let loss = activation::sigmoid(margins * 0.5 + 0.25).square().mean();
        leaves.grad(&loss.backward()).expect("leaves").into_data().try_to_vec().expect("f32")
    };
    for (i, (found, expected)) in gradient(&device).into_iter().zip(gradient(&Device::flex())).enumerate() {
        assert!((found - expected).abs() <= 1e-6, "leaf value {i}: {found}, should be {expected}");
    }
}

#[test]
fn it_may_be_called_again() {
    let Some((device, _one)) = device() else { return };
    Tensor::<1>::zeros([1], &device).into_data();
    fangorn::op::init().expect("it was called before");
}
