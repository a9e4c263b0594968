//! Gradients of leaf values and of rows on every backend that is built in. They are compared with finite
//! differences in f64, with tensor operations, and to the bit.

mod support;

use burn::{
    module::{Module, Param},
    tensor::{Device, Int, Tensor, TensorData, activation},
};
use fangorn::{
    Forest,
    forest::{Aggregate, Targets, reference},
    op::GRADIENT_ROWS,
};
use fangorn_graphs::{
    Error,
    forest::{ForestModule, ForestModuleConfig, Output},
};
use support::{Seeded, bits, devices, floats, forest, margins, rows, soft_margins, tensor, with_leaves};

/// Makes a module that gives margins, on an autodiff device.
fn module(forest: &Forest, device: &Device) -> ForestModule {
    ForestModuleConfig::new(forest.clone()).with_output(Output::Margins).init(device).expect("a module")
}

/// Returns the weight of a margin in the losses of these tests.
fn weight(r: usize, o: usize) -> f64 {
    ((r * 7 + o * 3) % 11) as f64 - 5.0
}

fn weights(rows: usize, outputs: usize, device: &Device) -> Tensor<2> {
    let weights: Vec<f32> = (0..rows * outputs).map(|i| weight(i / outputs, i % outputs) as f32).collect();
    Tensor::from_data(TensorData::new(weights, [rows, outputs]), device)
}

fn leaf_gradient(module: &ForestModule, loss: Tensor<1>) -> Vec<f32> {
    floats(module.leaf_values.grad(&loss.backward()).expect("leaf values have a gradient"))
}

#[test]
fn leaf_gradients_are_those_of_finite_differences() {
    for seed in 0..10 {
        let forest = forest(seed);
        let rows = rows(&forest, 60, seed);
        let outputs = forest.outputs as usize;
        // The loss is not linear: it squares weighed margins, so that the gradient depends on the leaf
        // values.
        let loss = |leaves: &[f64]| -> f64 {
            let margins = margins(&with_leaves(&forest, leaves), &rows);
            margins.iter().enumerate().map(|(i, m)| (m * weight(i / outputs, i % outputs)).powi(2)).sum()
        };
        let leaves: Vec<f64> = forest.leaf_values.iter().map(|v| v.0).collect();
        let difference = |i: usize| {
            let at = |step: f64| {
                let mut leaves = leaves.clone();
                leaves[i] += step;
                loss(&leaves)
            };
            // The central difference of a square is exact for any step. This one spans 1.
            at(0.5) - at(-0.5)
        };
        let expected: Vec<f64> = (0..leaves.len()).map(difference).collect();
        let largest = expected.iter().fold(0.0f64, |m, g| m.max(g.abs()));
        for (name, device) in devices() {
            let device = device.autodiff();
            let module = module(&forest, &device);
            let x = tensor(&rows, forest.features.len(), &device);
            let weighed = module.forward(x).expect(name) * weights(60, outputs, &device);
            let found = leaf_gradient(&module, (weighed.clone() * weighed).sum());
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let off = (f64::from(*found) - expected).abs();
                let allowed = 1e-5 * expected.abs().max(1e-2 * largest);
                assert!(
                    off <= allowed,
                    "seed {seed} on {name}, leaf value {i}: {found}, expected {expected}"
                );
            }
        }
    }
}

/// Computes the forest by tensor operations alone: gathers each row's leaf values and adds them up.
fn by_tensors(forest: &Forest, leaves: Tensor<2>, rows: &[f32], device: &Device) -> Tensor<2> {
    let columns = forest.features.len();
    let (count, trees, outputs) = (rows.len() / columns, forest.trees.len(), forest.outputs as usize);
    let slots: Vec<i32> = rows
        .chunks(columns)
        .flat_map(|row| reference::leaf_slots(forest, row))
        .map(|slot| slot as i32)
        .collect();
    let slots = Tensor::<1, Int>::from_data(TensorData::new(slots, [count * trees]), device);
    let width = forest.leaf_width();
    let reached = leaves.select(0, slots).reshape([count, trees, width]);
    let base: Vec<f32> = forest.base_score.iter().map(|b| b.0 as f32).collect();
    let base = Tensor::<2>::from_data(TensorData::new(base, [1, outputs]), device);
    let sums = match &forest.targets {
        Targets::All => reached.sum_dim(1).reshape([count, outputs]),
        Targets::One(targets) => {
            let ones =
                targets.iter().flat_map(|t| (0..outputs).map(|o| f32::from(u8::from(o == *t as usize))));
            let ones = TensorData::new(ones.collect::<Vec<f32>>(), [trees, outputs]);
            reached.reshape([count, trees]).matmul(Tensor::from_data(ones, device))
        }
    };
    sums + base
}

#[test]
fn leaf_gradients_are_those_of_tensor_operations() {
    for seed in 20..26 {
        let forest = forest(seed);
        let rows = rows(&forest, 100, seed);
        let outputs = forest.outputs as usize;
        for (name, device) in devices() {
            let device = device.autodiff();
            let module = module(&forest, &device);
            let loss =
                |margins: Tensor<2>| (activation::sigmoid(margins) * weights(100, outputs, &device)).sum();
            let x = tensor(&rows, forest.features.len(), &device);
            let found = leaf_gradient(&module, loss(module.forward(x).expect(name)));
            let leaves = module.leaf_values.val().detach().require_grad();
            let grads = loss(by_tensors(&forest, leaves.clone(), &rows, &device)).backward();
            let expected = floats(leaves.grad(&grads).expect("a gradient"));
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let off = (found - expected).abs();
                assert!(off <= 1e-5 * expected.abs().max(1.0), "{name}, value {i}: {found}, {expected}");
            }
        }
    }
}

#[test]
fn a_leaf_gradient_is_one_sum_on_every_backend() {
    let forest = forest(3);
    let count = 3 * GRADIENT_ROWS + 17;
    let rows = rows(&forest, count, 9);
    let outputs = forest.outputs as usize;
    // Sums of these weights round.
    let weight: Vec<f32> = (0..count * outputs).map(|i| (i as f32 * 0.7).sin()).collect();
    // The order that `GRADIENT_ROWS` promises: so many rows are added in their order, then their sums in their order.
    let width = forest.leaf_width();
    let mut expected = vec![0.0f32; forest.leaf_values.len()];
    for chunk in (0..count).collect::<Vec<_>>().chunks(GRADIENT_ROWS) {
        let mut sums = vec![0.0f32; expected.len()];
        for r in chunk {
            let row = &rows[r * forest.features.len()..][..forest.features.len()];
            for (t, slot) in reference::leaf_slots(&forest, row).into_iter().enumerate() {
                match &forest.targets {
                    Targets::One(targets) => sums[slot as usize] += weight[r * outputs + targets[t] as usize],
                    Targets::All => {
                        (0..width).for_each(|o| sums[slot as usize * width + o] += weight[r * outputs + o]);
                    }
                }
            }
        }
        expected.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
    }
    for (name, device) in devices() {
        let device = device.autodiff();
        let module = module(&forest, &device);
        let x = tensor(&rows, forest.features.len(), &device);
        let weight = Tensor::<2>::from_data(TensorData::new(weight.clone(), [count, outputs]), &device);
        let found = leaf_gradient(&module, (module.forward(x).expect(name) * weight).sum());
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_forest_without_trees_gives_its_base_score() {
    let forest = Forest::builder(2, 1).base_score([0.5]).build().expect("a forest");
    for (name, device) in devices() {
        let device = device.autodiff();
        let module = module(&forest, &device);
        let margins = module.forward(tensor(&[1.0; 6], 2, &device)).expect(name);
        assert_eq!(floats(margins), [0.5; 3], "{name}");
    }
}

#[test]
fn leaves_are_trained_beside_rows_that_are_data() {
    for aggregate in [Aggregate::Sum, Aggregate::Min, Aggregate::Max] {
        let forest = Forest { aggregate, ..forest(4) };
        let rows = rows(&forest, 30, 4);
        let outputs = forest.outputs as usize;
        for (name, device) in devices() {
            let tracked = device.clone().autodiff();
            let module = module(&forest, &tracked);
            let gradient = |x: Tensor<2>| {
                let weighed = module.forward(x).expect(name) * weights(30, outputs, &tracked);
                leaf_gradient(&module, weighed.sum())
            };
            let plain = gradient(tensor(&rows, forest.features.len(), &device));
            let expected = gradient(tensor(&rows, forest.features.len(), &tracked));
            assert!(expected.iter().any(|g| *g != 0.0));
            assert_eq!(plain, expected, "{aggregate:?} on {name}");
        }
    }
}

#[test]
fn rows_have_no_gradient_unless_asked_for() {
    let forest = forest(1);
    let values = rows(&forest, 20, 1);
    for (name, device) in devices() {
        let device = device.autodiff();
        let x = tensor(&values, forest.features.len(), &device).require_grad();
        let grads = module(&forest, &device).forward(x.clone()).expect(name).sum().backward();
        assert!(x.grad(&grads).is_none_or(|grad| floats(grad).iter().all(|g| *g == 0.0)), "{name}");
    }
}

#[test]
fn soft_splits_give_the_gradient_of_the_soft_forest() {
    let temperature = 0.25;
    for seed in 0..10 {
        let forest = forest(seed);
        let (columns, outputs) = (forest.features.len(), forest.outputs as usize);
        let values = rows(&forest, 24, seed);
        let wide: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
        let loss = |r: usize, row: &[f64]| -> f64 {
            let margins = soft_margins(&forest, row, temperature);
            margins.iter().enumerate().map(|(o, m)| m * weight(r, o)).sum()
        };
        let expected: Vec<f64> = (0..values.len())
            .map(|i| {
                let r = i / columns;
                let at = |step: f64| {
                    let mut row = wide[r * columns..][..columns].to_vec();
                    row[i % columns] += step;
                    loss(r, &row)
                };
                // A value at the border of a hard split is flat on both sides.
                if wide[i].is_nan() { 0.0 } else { (at(1e-6) - at(-1e-6)) / 2e-6 }
            })
            .collect();
        let largest = expected.iter().fold(0.0f64, |m, g| m.max(g.abs()));
        for (name, device) in devices() {
            let device = device.autodiff();
            let hard = module(&forest, &device);
            let soft = ForestModuleConfig::new(forest.clone())
                .with_output(Output::Margins)
                .with_soft_splits(temperature)
                .init(&device)
                .expect(name);
            let x = tensor(&values, columns, &device).require_grad();
            let margins = soft.forward(x.clone()).expect(name);
            assert_eq!(
                bits(margins.clone() + 0.0),
                bits(hard.forward(x.clone()).expect(name) + 0.0),
                "seed {seed} on {name}: soft splits change no margin"
            );
            let grads = (margins * weights(24, outputs, &device)).sum().backward();
            let found = x.grad(&grads).map_or_else(|| vec![0.0; values.len()], floats);
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                // At a threshold of equality, or where zero is set aside, the step of the difference changes
                // sides.
                let edge = forest_has_edges(&forest) && (wide[i] == 0.0 || expected.abs() > 1e4);
                let off = (f64::from(*found) - expected).abs();
                assert!(
                    edge || off <= 1e-4 * largest.max(1.0),
                    "seed {seed} on {name}, {i}: {found}, {expected}"
                );
            }
            let leaves = soft.leaf_values.grad(&grads).expect("leaf values");
            let grads = (hard.forward(x).expect(name) * weights(24, outputs, &device)).sum().backward();
            assert_eq!(floats(leaves), floats(hard.leaf_values.grad(&grads).expect("leaf values")), "{name}");
        }
    }
}

/// 500 trees of 64 leaves on 28 columns, as a usual model has them.
fn usual_forest() -> Forest {
    let mut forest = Forest::builder(28, 1);
    for t in 0..500u32 {
        let mut tree = forest.tree(0);
        for n in 0..63 {
            let threshold = f64::from((n * 37 + t * 11) % 101) / 101.0;
            let column = (n * 5 + t) % 28;
            tree.split(
                column,
                fangorn::forest::CompareType::F32.less(threshold),
                fangorn::forest::Side::Left,
                2 * n + 1,
                2 * n + 2,
            );
        }
        for n in 63..127 {
            tree.leaf(n, &[f64::from((n * 13 + t * 7) % 17) / 17.0 - 0.5]);
        }
    }
    forest.build().expect("a forest")
}

#[test]
fn soft_splits_of_a_usual_model_fit_every_device() {
    let forest = usual_forest();
    let values: Vec<f32> = (0..256 * 28).map(|i| (i as f32 * 0.618).fract()).collect();
    let mut expected: Option<Vec<f32>> = None;
    for (name, device) in devices() {
        let device = device.autodiff();
        let soft = ForestModuleConfig::new(forest.clone()).with_soft_splits(0.1).init(&device).expect(name);
        let x = tensor(&values, 28, &device).require_grad();
        let grads = soft.margins(x.clone()).expect(name).sum().backward();
        let found = floats(x.grad(&grads).expect("a gradient"));
        let largest = found.iter().fold(0.0f32, |m, g| m.max(g.abs()));
        assert!(largest > 0.0, "{name}");
        for (found, expected) in found.iter().zip(expected.get_or_insert_with(|| found.clone())) {
            assert!((found - *expected).abs() <= 1e-4 * largest, "{name}: {found}, {expected}");
        }
    }
}

#[test]
fn soft_splits_work_with_gradient_checkpointing_and_steep_splits() {
    let forest = forest(1);
    let (columns, values) = (forest.features.len(), rows(&forest, 24, 1));
    for (name, device) in devices() {
        let gradient = |device: Device, temperature: f64| {
            let soft = ForestModuleConfig::new(forest.clone()).with_soft_splits(temperature).init(&device);
            let x = tensor(&values, columns, &device).require_grad();
            let margins = soft.expect(name).margins(x.clone()).expect(name);
            assert!(floats(margins.clone().detach()).iter().all(|m| m.is_finite()), "{name}");
            floats(x.grad(&margins.sum().backward()).expect("a gradient"))
        };
        let expected = gradient(device.clone().autodiff(), 0.25);
        assert_eq!(gradient(device.clone().autodiff().gradient_checkpointing(), 0.25), expected, "{name}");
        // Derivatives overflow, and margins stay those of the forest.
        gradient(device.autodiff(), 2e-38);
    }
}

fn forest_has_edges(forest: &Forest) -> bool {
    use fangorn::forest::{Node, Predicate};
    let aside = |node: &Node| {
        matches!(
            node,
            Node::Split { predicate: Predicate::LessZeroAside { .. } | Predicate::Equal { .. }, .. }
        )
    };
    forest.trees.iter().any(|tree| tree.nodes.iter().any(aside))
}

#[test]
fn soft_splits_are_refused_by_name() {
    let device = devices()[0].1.clone();
    let refused = |forest: Forest, temperature: f64| {
        let config = ForestModuleConfig::new(forest).with_soft_splits(temperature);
        match config.init(&device) {
            Err(Error::SoftSplits(what)) => what,
            other => panic!("{other:?}"),
        }
    };
    for temperature in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-60] {
        assert!(refused(forest(0), temperature).contains("temperature"));
    }
    assert!(refused(Forest { aggregate: Aggregate::Max, ..forest(0) }, 1.0).contains("max"));
    assert!(refused(support::model("category-partition"), 1.0).contains("categories"));
}

#[derive(Module, Debug)]
struct Scaled {
    scale: Param<Tensor<2>>,
    forest: ForestModule,
}

#[test]
fn an_extractor_below_is_trained_through_soft_splits() {
    // The forest is one stump at 0.5. The scale has to grow until rows at 0.2 pass the threshold.
    let mut stump = Forest::builder(1, 1);
    let mut tree = stump.tree(0);
    tree.split(0, fangorn::forest::CompareType::F32.less(0.5), fangorn::forest::Side::Left, 1, 2);
    tree.leaf(1, &[0.0]);
    tree.leaf(2, &[1.0]);
    let stump = stump.build().expect("a stump");
    for (name, device) in devices() {
        let device = device.autodiff();
        let forest = ForestModuleConfig::new(stump.clone()).with_soft_splits(0.2).init(&device).expect(name);
        let mut scaled = Scaled { scale: Param::from_tensor(Tensor::ones([1, 1], &device)), forest };
        let x = Tensor::<2>::full([4, 1], 0.2, &device);
        let mut optimizer = burn::optim::SgdConfig::new().init();
        for _ in 0..12 {
            let y = scaled.forest.forward(x.clone().matmul(scaled.scale.val())).expect(name);
            let loss = y.sub_scalar(1.0).square().mean();
            let grads = burn::optim::GradientsParams::from_grads(loss.backward(), &scaled.scale);
            scaled = optimizer.step(1.0, scaled, grads);
        }
        let y = scaled.forest.forward(x.matmul(scaled.scale.val())).expect(name);
        assert_eq!(floats(y), [1.0; 4], "{name}");
    }
}

#[test]
fn seeds_are_as_random_as_they_say() {
    let kinds: Vec<(bool, u32)> =
        (0..10).map(|seed| (matches!(forest(seed).targets, Targets::All), forest(seed).outputs)).collect();
    assert!(kinds.iter().any(|k| k.0) && kinds.iter().any(|k| !k.0 && k.1 > 1), "{kinds:?}");
    assert_ne!(Seeded(1).below(1000), Seeded(2).below(1000));
}
