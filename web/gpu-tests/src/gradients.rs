//! The gradient of leaf values.

use fangorn::{
    Forest,
    cube::{Executable, LeafGradients},
    forest::{Targets, reference},
    plan::{Emit, RowType},
    schedule::Preset,
};
use proptest::{prelude::*, strategy::ValueTree};

use crate::{
    generate::{self, Seeded},
    gpu::{Gpu, PLACEMENTS, as_floats},
};

/// Rows of a row block, which are added up by themselves.
const BLOCK: usize = 256;

/// Returns the gradient by the definition: each row's number is added to the leaf values that the row reached, in the
/// order of the rows within a block and then of the blocks.
fn expected(forest: &Forest, rows: &[f32], grad: &[f32]) -> Vec<f32> {
    let (columns, outputs, width) = (forest.features.len(), forest.outputs as usize, forest.leaf_width());
    let mut sums = vec![0.0f32; forest.leaf_values.len()];
    for (rows, grad) in rows.chunks(BLOCK * columns).zip(grad.chunks(BLOCK * outputs)) {
        let mut of_block = vec![0.0f32; sums.len()];
        for (row, grad) in rows.chunks_exact(columns).zip(grad.chunks_exact(outputs)) {
            for (t, slot) in reference::leaf_slots(forest, row).into_iter().enumerate() {
                let first = slot as usize * width;
                match &forest.targets {
                    Targets::One(targets) => of_block[first] += grad[targets[t] as usize],
                    Targets::All => (0..width).for_each(|o| of_block[first + o] += grad[o]),
                }
            }
        }
        sums.iter_mut().zip(of_block).for_each(|(sum, of_block)| *sum += of_block);
    }
    sums
}

pub async fn leaf_gradients(gpu: &Gpu) -> String {
    let (mut runner, mut draws) = (generate::runner(1), Seeded(53));
    let (mut ran, mut values) = (0, 0);
    for case in 0..16 {
        let forest = generate::forest().new_tree(&mut runner).expect("a forest").current();
        let (columns, outputs) = (forest.features.len(), forest.outputs as usize);
        let count = [1, 255, 700, 1025][case % 4];
        let rows = generate::rows(&forest, count, draws.next());
        let grad: Vec<f32> =
            (0..count * outputs).map(|_| (draws.below(1 << 20) as f32 - 5e5) / 1e4).collect();
        let preset = Preset::ALL[case % Preset::ALL.len()].schedule_on(&forest, gpu.device());
        let slots = Executable::builder(&gpu.client, &forest).schedule(preset).emit(Emit::Slots);
        let slots = slots.build().expect("a preset");
        let out = gpu.room(forest.leaf_values.len());
        LeafGradients::new(&gpu.client, &forest).run(
            &slots,
            &gpu.rows(&rows, columns, RowType::F32, PLACEMENTS[case % 3]),
            RowType::F32,
            &gpu.floats(grad.iter().copied()),
            &out,
        );
        let found = as_floats(gpu.read(out, forest.leaf_values.len()).await);
        let expected = expected(&forest, &rows, &grad);
        let other = (0..found.len()).find(|i| found[*i].to_bits() != expected[*i].to_bits());
        if let Some(i) = other {
            panic!(
                "case {case}: value {i} has {}, should have {}\n{}",
                found[i],
                expected[i],
                forest.to_text()
            );
        }
        assert_eq!(found.len(), expected.len(), "case {case}");
        (ran, values) = (ran + 1, values + found.len());
    }
    format!("{ran} forests, {values} leaf values")
}
