//! Epilogues: what runs on margins and values in the forest's kernel, or in a last launch.

use fangorn::{
    Forest,
    cube::{Buffer, EpilogueInputs, Executable, Rows},
    forest::{Aggregate, Transform},
    plan::{Emit, EpilogueOp, EpiloguePlan, Number, RowType},
    schedule::{Preset, Schedule},
    sum::Contract,
};
use half::f16;

use crate::{
    generate::{
        forest_of,
        kinds::{small, small_rows},
        rows,
    },
    gpu::{Gpu, Placement, as_floats},
};

/// A step, before it knows where its numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    HalfAndMore,
    Each,
    Sigmoid,
    Softmax,
    Add,
    Multiply,
}

use Step::{Add, Each, HalfAndMore, Multiply, Sigmoid, Softmax};

/// Steps of a value alone. They read two buffers, because WebGPU promises eight for a kernel.
const ALONE: &[Step] = &[Add, HalfAndMore, Multiply, Sigmoid];
/// The other step of a value alone, behind one with numbers of its own.
const WITH_NUMBERS: &[Step] = &[HalfAndMore, Each, Add];
/// The step that needs its row, and others.
const WITH_ROW: &[Step] = &[Each, Softmax, Add, Softmax, Each];

/// An epilogue with what its steps read.
struct Made {
    plan: EpiloguePlan,
    numbers: Vec<f32>,
    /// Tensors of the result's shape, then numbers by output.
    buffers: Vec<Vec<f32>>,
    tensors: usize,
}

impl Made {
    fn new(steps: &[Step], count: usize, width: usize, number: Number) -> Self {
        let tensors = steps.iter().filter(|step| matches!(step, Add | Multiply)).count();
        let (mut tensor, mut each, mut numbers) = (0, tensors as u32, Vec::new());
        let next = |of: &mut u32| {
            *of += 1;
            *of - 1
        };
        let op = |step: &Step| match step {
            HalfAndMore => {
                numbers.extend([0.5, 0.25]);
                EpilogueOp::Affine { at: numbers.len() as u32 - 2 }
            }
            Each => EpilogueOp::AffineEach { buffer: next(&mut each) },
            Sigmoid => EpilogueOp::Sigmoid,
            Softmax => EpilogueOp::Softmax,
            Add => EpilogueOp::Add { buffer: next(&mut tensor) },
            Multiply => EpilogueOp::Multiply { buffer: next(&mut tensor) },
        };
        let plan = EpiloguePlan { steps: steps.iter().map(op).collect(), number, recorded: false };
        // Numbers that tell rows and columns apart.
        let beside = |from: usize| -> Vec<f32> {
            (0..count * width).map(|i| from as f32 - 1.0 + ((i * 37) % 101) as f32 / 64.0).collect()
        };
        let scales = (0..width).map(|o| 1.0 - o as f32 / 4.0);
        let by_output: Vec<f32> = scales.chain((0..width).map(|o| o as f32 / 8.0 - 0.5)).collect();
        let buffers = (0..each as usize).map(|i| if i < tensors { beside(i) } else { by_output.clone() });
        Self { plan, numbers, buffers: buffers.collect(), tensors }
    }

    /// Uploads what the steps read.
    fn inputs(&self, gpu: &Gpu) -> EpilogueInputs {
        let mut handles = self.buffers.iter().map(|numbers| gpu.floats(numbers.iter().copied()).handle);
        let tensors = handles.by_ref().take(self.tensors).collect();
        EpilogueInputs { tensors, each: handles.collect(), numbers: self.numbers.clone() }
    }
}

/// A forest without an epilogue, and rows.
struct Bare<'a> {
    gpu: &'a Gpu,
    forest: &'a Forest,
    executable: Executable,
    rows: Rows,
    /// Number of margins or values of a row.
    width: usize,
}

impl Bare<'_> {
    /// Runs the forest with steps and without, and compares them. Returns false if the GPU binds fewer buffers.
    async fn same(&self, what: &str, steps: &[Step], number: Number) -> bool {
        let Bare { gpu, forest, executable: bare, rows, width } = self;
        let width = *width;
        let count = rows.batch as usize;
        let made = Made::new(steps, count, width, number);
        let what = format!("{what}, {steps:?} to {number:?}");
        let executable = bare.with_epilogue(made.plan.clone());
        if executable.bindings() > gpu.client.properties().hardware.max_bindings {
            assert_ne!(number, Number::F32, "{what}: the kernel binds {} buffers", executable.bindings());
            return false;
        }
        let mut expected = as_floats(gpu.run(bare, forest, rows, width).await);
        let buffers: Vec<&[f32]> = made.buffers.iter().map(|numbers| &numbers[..]).collect();
        made.plan.apply(width, 0, &mut expected, &made.numbers, &buffers);
        let (leaves, inputs) = (gpu.leaves(forest), made.inputs(gpu));
        let run = async |executable: &Executable| {
            let words = (count * width * number.bytes() as usize).div_ceil(4);
            let out = Buffer { len: count * width, ..gpu.room(words) };
            executable.run_with(rows, &leaves, &inputs, &out);
            let words = gpu.read(out, words).await;
            let halves = words.iter().flat_map(|word| [*word as u16, (word >> 16) as u16]);
            let found: Vec<f32> = match number {
                Number::F32 => as_floats(words),
                _ => halves.map(|bits| f16::from_bits(bits).to_f32()).take(count * width).collect(),
            };
            found
        };
        let found = run(&executable).await;
        // Each step rounds once or a few times; a half has 11 bits.
        let rounding = if number == Number::F32 { 2e-6 } else { 1e-3 };
        assert_eq!(found.len(), expected.len(), "{what}");
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let off = (found - expected).abs();
            let index = (i / width, i % width);
            assert!(
                off <= rounding * expected.abs().max(1.0),
                "{what} at {index:?}: {found}, should be {expected}"
            );
        }
        let pieces = run(&executable.with_most_rows(128)).await;
        let bits = |all: &[f32]| all.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert!(bits(&found) == bits(&pieces), "{what} in pieces");
        true
    }
}

/// The types of results that the GPU stores.
fn numbers(gpu: &Gpu) -> Vec<Number> {
    [Some(Number::F32), gpu.has_halves().then_some(Number::F16)].into_iter().flatten().collect()
}

fn summary(gpu: &Gpu, ran: usize, unbound: usize) -> String {
    let halves = if gpu.has_halves() { "f32 and f16" } else { "f32; the GPU has no f16" };
    let unbound =
        if unbound > 0 { format!(", {unbound} with more buffers than the GPU binds") } else { String::new() };
    format!("{ran} epilogues to {halves}{unbound}")
}

/// Every step by itself and behind others, after margins and after values of every transform.
pub async fn every_step(gpu: &Gpu) -> String {
    let (mut ran, mut unbound) = (0, 0);
    let mut count = |same: bool| if same { ran += 1 } else { unbound += 1 };
    for line in [
        "20 x depth 4; features 3",
        "20 x depth 4; features 3; outputs 5",
        "9 x depth 3; features 3; outputs 4; vector",
    ] {
        let forest = forest_of(line);
        let bare = Bare {
            gpu,
            forest: &forest,
            executable: Executable::builder(&gpu.client, &forest).build().expect("the default"),
            rows: gpu.rows(&rows(&forest, 300, 9), 3, RowType::F32, Placement::Rows),
            width: forest.outputs as usize,
        };
        let singles: [&[Step]; 6] = [&[HalfAndMore], &[Each], &[Sigmoid], &[Softmax], &[Add], &[Multiply]];
        for steps in singles.into_iter().chain([ALONE, WITH_NUMBERS, WITH_ROW]) {
            for number in numbers(gpu) {
                count(bare.same(line, steps, number).await);
            }
        }
    }
    let x = small_rows();
    for transform in Transform::ALL {
        let forest = small(transform, Aggregate::Sum, false, transform.outputs().unwrap_or(3));
        let executable = Executable::builder(&gpu.client, &forest).emit(Emit::Values(transform)).build();
        let bare = Bare {
            gpu,
            forest: &forest,
            executable: executable.expect("the default"),
            rows: gpu.rows(&x, 2, RowType::F32, Placement::Rows),
            width: transform.width(forest.outputs) as usize,
        };
        for steps in [ALONE, WITH_ROW] {
            count(bare.same(transform.name(), steps, Number::F32).await);
        }
    }
    summary(gpu, ran, unbound)
}

/// A last stage of each kind: sums written once, by row, one row's by a cube, private copies, several launches; and
/// sums that keep a contract.
pub async fn every_last_stage(gpu: &Gpu) -> String {
    let (mut ran, mut unbound) = (0, 0);
    let forest = forest_of("24 x depth 4, 3 x chain 5; features 6; outputs 5");
    let presets = [
        Preset::TahoeDirect,
        Preset::TahoeSharedPartialForest,
        Preset::RapidsFil,
        Preset::Nvforest,
        Preset::Hummingbird,
    ];
    let presets = presets.map(|preset| (preset.name(), preset.schedule_on(&forest, gpu.device())));
    let atomic = "tile(batch, b0, b1, 32)\ntile(tree, t0, t1, 16)\nreorder(b0, t0, b1, t1)\ngpuDimension(b0, grid.x)\n\
                  gpuDimension(t0, grid.y)\ngpuDimension(b1, block.x)\natomicReduce(t0)";
    let ranked = format!("{}\nranks(u8)", presets[0].1);
    let texts = [("atomic", atomic), ("ranks", &ranked)]
        .map(|(name, text)| (name, Schedule::parse(text).expect("a schedule")));
    let x = rows(&forest, 300, 11);
    for (name, schedule) in presets.iter().cloned().chain(texts) {
        // What keeps a contract ends alike with every schedule.
        let sums = if name == presets[0].0 { &Contract::ALL[..] } else { &[Contract::Any] };
        for sum in sums.iter().copied() {
            let made = Executable::builder(&gpu.client, &forest).schedule(schedule.clone()).sum(sum).build();
            let bare = Bare {
                gpu,
                forest: &forest,
                executable: made.unwrap_or_else(|e| panic!("{name}: {e}")),
                rows: gpu.rows(&x, 6, RowType::F32, Placement::Rows),
                width: 5,
            };
            for (steps, number) in [ALONE, WITH_ROW].into_iter().zip(numbers(gpu).into_iter().cycle()) {
                match bare.same(&format!("{name}, {sum}"), steps, number).await {
                    true => ran += 1,
                    false => unbound += 1,
                }
            }
        }
    }
    summary(gpu, ran, unbound)
}
