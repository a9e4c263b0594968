//! A forest as a module: its results, its moves between devices, how it is printed, and what it refuses.

mod support;

use std::sync::Arc;

use burn::{
    module::Module,
    nn::EmbeddingConfig,
    tensor::{DType, Device, Int, Tensor, TensorData},
};
use fangorn::{
    Forest,
    forest::{ClassRule, Profile, Transform, reference},
    op::ForestOp,
    schedule::{Preset, Schedule},
};
use fangorn_graphs::{
    Error,
    forest::{ForestModule, ForestModuleConfig, Output},
};
use support::{bits, devices, floats, model, named};

fn config(name: &str) -> ForestModuleConfig {
    ForestModuleConfig::new(model(name))
}

fn integers(tensor: Tensor<2, Int>) -> Vec<i32> {
    tensor.into_data().convert::<i32>().try_to_vec().expect("i32")
}

#[test]
fn what_it_gives_is_the_operators_to_the_bit() {
    for model in ["churn", "softprob", "vector-leaf", "no-trees", "only-leaves", "poisson"] {
        let s = named(model);
        for (name, device) in devices() {
            let what = format!("{model} on {name}");
            let schedule = Preset::TahoeDirect.schedule(&s.forest, name == "wgpu");
            let op = ForestOp::builder(s.forest.clone()).schedule(schedule.clone()).build().expect(&what);
            let op = Arc::new(op);
            let made = |output| {
                let config = ForestModuleConfig::new(s.forest.clone()).with_output(output);
                config.with_schedule(schedule.clone()).init(&device).expect(&what)
            };
            let margins = made(Output::Margins).forward(s.tensor(&device)).expect(&what);
            assert_eq!(bits(margins), bits(op.margins(s.tensor(&device)).expect(&what)), "{what}");
            let values = made(Output::Values).forward(s.tensor(&device)).expect(&what);
            assert_eq!(bits(values), bits(op.values(s.tensor(&device)).expect(&what)), "{what}");
        }
    }
}

#[test]
fn leaves_are_numbers_of_an_embedding() {
    let s = named("softprob");
    let expected: Vec<i32> = (0..s.count)
        .flat_map(|r| reference::leaf_slots(&s.forest, s.row(r)))
        .map(|slot| slot as i32)
        .collect();
    for (name, device) in devices() {
        let module = config("softprob").init(&device).expect(name);
        let leaves = module.leaf_slots(s.tensor(&device)).expect(name);
        assert_eq!(integers(leaves.clone()), expected, "{name}");
        let embedding = EmbeddingConfig::new(module.leaf_count(), 3).init(&device);
        let table = floats(embedding.weight.val());
        let found = floats(embedding.forward(leaves));
        let looked_up: Vec<f32> =
            expected.iter().flat_map(|slot| table[*slot as usize * 3..][..3].to_vec()).collect();
        assert_eq!(found, looked_up, "{name}");
    }
}

#[test]
fn classes_and_probabilities_are_the_producers() {
    let mut asked = 0;
    let folders = std::fs::read_dir(support::zoo()).expect("the zoo").flatten().filter(|e| e.path().is_dir());
    let mut folders: Vec<String> = folders.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    folders.sort();
    for model in folders {
        let s = named(&model);
        if s.forest.classes.rule == ClassRule::None {
            continue;
        }
        asked += 1;
        // In f32 a row at the border of two classes may go either way.
        let clear = |r: usize| {
            let margins = reference::margins(&s.forest, s.row(r));
            let bound = s.forest.sum_bound().into_iter().fold(0.0, f64::max) * 4.0;
            [-bound, bound].iter().all(|off| {
                (0..margins.len()).all(|o| {
                    let mut moved = margins.clone();
                    moved[o] += off;
                    reference::classes_of(&s.forest, &moved) == reference::classes_of(&s.forest, &margins)
                })
            })
        };
        for (name, device) in devices() {
            let what = format!("{model} on {name}");
            let module = config(&model).init(&device).expect(&what);
            assert_eq!(module.labels(), s.forest.classes.labels, "{what}");
            let found = module.classes(s.tensor(&device)).expect(&what);
            let width = found.dims()[1];
            let found = integers(found);
            labels_are_the_names_of(&found, width, &module, &s, &device, &clear);
            for (r, found) in found.chunks(width).enumerate() {
                let margins = reference::margins(&s.forest, s.row(r));
                let expected = reference::classes_of(&s.forest, &margins);
                let found: Vec<u32> = found.iter().map(|c| *c as u32).collect();
                assert!(
                    found == expected || !clear(r),
                    "{what}, row {r}: {found:?}, {expected:?}, {margins:?}"
                );
            }
            let probabilities = match module.probabilities(s.tensor(&device)) {
                Ok(probabilities) => probabilities,
                Err(Error::NoProbabilities(why)) => {
                    assert!(why.contains(s.forest.transform.name()), "{what}: {why}");
                    continue;
                }
                Err(error) => panic!("{what}: {error}"),
            };
            let width = probabilities.dims()[1];
            let found = floats(probabilities);
            // If each output is a classifier of its own, its probability stands alone and a row need not sum to one.
            let several = s.forest.outputs > 1
                && (matches!(s.forest.classes.rule, ClassRule::Over { .. })
                    || s.forest.transform == Transform::Sigmoid);
            for row in found.chunks(width) {
                assert!(row.iter().all(|p| (-1e-6..=1.000001).contains(p)), "{what}: {row:?}");
                let sum: f32 = row.iter().sum();
                assert!(several || (sum - 1.0).abs() < 1e-4, "{what}: {row:?}");
            }
        }
    }
    assert!(asked > 30, "{asked} classifiers");
}

/// Checks that integer labels name these classes, and that they come with the module's values.
fn labels_are_the_names_of(
    classes: &[i32],
    width: usize,
    module: &ForestModule,
    s: &support::Specimen,
    device: &Device,
    clear: &dyn Fn(usize) -> bool,
) {
    let names = s.forest.classes.integers();
    let found = module.values_and_labels(s.tensor(device));
    let Some(names) = names.filter(|_| width == 1) else {
        let error = found.expect_err("no integer a row");
        assert!(matches!(error, Error::Labels(_)), "{error}");
        return;
    };
    let (values, labels) = found.expect("labels");
    let labels: Vec<i64> = labels.into_data().try_to_vec().expect("64 bits");
    for (r, (class, label)) in classes.iter().zip(labels).enumerate() {
        let name = names.get(*class as usize).copied().unwrap_or(i64::from(*class));
        assert!(label == name || !clear(r), "row {r}: {label}, not {name}");
    }
    let [found, expected] = [values, module.values(s.tensor(device)).expect("values")].map(floats);
    assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs().max(1.0)));
}

#[test]
fn probabilities_are_those_that_xgboost_gives() {
    for (model, classes) in [("churn", 2), ("softprob", 5)] {
        let s = named(model);
        for (name, device) in devices() {
            let found =
                config(model).init(&device).expect(name).probabilities(s.tensor(&device)).expect(name);
            assert_eq!(found.dims(), [s.count, classes], "{model} on {name}");
            for (r, row) in floats(found).chunks(classes).enumerate() {
                let expected = match classes {
                    2 => vec![1.0 - s.output[r], s.output[r]],
                    _ => s.output[r * classes..][..classes].to_vec(),
                };
                for (found, expected) in row.iter().zip(expected) {
                    assert!((f64::from(*found) - expected).abs() < 1e-5, "{model} on {name}, row {r}");
                }
            }
        }
    }
}

#[test]
fn a_regressor_has_neither_classes_nor_probabilities() {
    let s = named("one-feature");
    for (name, device) in devices() {
        let module = config("one-feature").init(&device).expect(name);
        for error in [
            module.classes(s.tensor(&device)).expect_err(name),
            module.probabilities(s.tensor(&device)).expect_err(name),
        ] {
            assert!(error.to_string().contains("reg:squarederror"), "{error}");
        }
    }
}

#[test]
fn it_goes_where_the_model_goes() {
    let s = named("churn");
    let plan = |module: &ForestModule| Arc::as_ptr(module.operator().expect("a forest"));
    for (from, device) in devices() {
        for (to, other) in devices() {
            let module = config("churn").init(&device).expect(from);
            let expected = config("churn").init(&other).expect(to).forward(s.tensor(&other)).expect(to);
            let expected = bits(expected);
            let same = |moved: &ForestModule| {
                assert_eq!(moved.devices(), std::slice::from_ref(&other), "{from} to {to}");
                assert_eq!(bits(moved.forward(s.tensor(&other)).expect(to)), expected, "{from} to {to}");
                assert_eq!(plan(moved), plan(&module), "{from} to {to}: nothing is compiled again");
            };
            same(&module.clone().to_device(&other));
            same(&module.clone().fork(&other));
            same(&module.clone().to_device(&other).train().valid());
        }
    }
}

#[test]
fn a_clone_shares_the_plan_and_not_what_is_trained() {
    let s = named("churn");
    let device = devices()[0].1.clone();
    let module = config("churn").init(&device).expect("a module");
    let before = bits(module.forward(s.tensor(&device)).expect("rows"));
    let mut clone = module.clone();
    assert!(Arc::ptr_eq(clone.operator().expect("a forest"), module.operator().expect("a forest")));
    clone.leaf_values = clone.leaf_values.map(|leaves| leaves * 2.0);
    assert_ne!(bits(clone.forward(s.tensor(&device)).expect("rows")), before);
    assert_eq!(bits(module.forward(s.tensor(&device)).expect("rows")), before);
}

#[test]
fn it_is_printed_as_a_module() {
    let device = devices()[0].1.clone();
    let module = config("churn").init(&device).expect("a module");
    let expected = "ForestModule {producer: xgboost, features: 12, trees: 100, leaves: 2291, outputs: 1, output: Values, \
                    params: 2291}";
    assert_eq!(module.to_string(), expected);
    assert_eq!(module.num_params(), 2291);
    let soft = config("churn").with_soft_splits(0.5).init(&device).expect("a module").to_string();
    assert!(soft.contains("temperature: 0.5"), "{soft}");
}

#[test]
fn what_it_can_not_take_is_an_error() {
    let s = named("churn");
    for (name, device) in devices() {
        let module = config("churn").init(&device).expect(name);
        let refused = |x: Tensor<2>| module.forward(x).expect_err(name).to_string();
        let narrow = refused(Tensor::zeros([3, 11], &device));
        assert!(narrow.contains("11 columns") && narrow.contains("12"), "{narrow}");
        let none = module.forward(Tensor::zeros([0, 12], &device)).expect(name);
        assert_eq!(none.dims(), [0, 1], "{name}");
        assert_eq!(
            module.leaf_slots(Tensor::zeros([0, 12], &device)).expect(name).dims(),
            [0, 100],
            "{name}"
        );
        if name != "wgpu" {
            let wide = refused(Tensor::zeros([3, 12], (&device, DType::F64)));
            assert!(wide.contains("F64") && wide.contains("cast"), "{wide}");
        }
        for (_, other) in devices().into_iter().filter(|(other, _)| *other != name) {
            let elsewhere = refused(s.tensor(&other));
            assert!(elsewhere.contains("move one of them"), "{elsewhere}");
            assert!(module.leaf_slots(s.tensor(&other)).is_err(), "{name}");
        }
    }
}

/// Rows come as a backbone leaves them: half precision, with swapped axes.
#[test]
fn halves_in_any_strides_are_widened_exactly() {
    let s = named("logistic-missing");
    let columns = s.columns();
    for (name, device) in devices().into_iter().filter(|(name, _)| *name != "ndarray") {
        let module = config("logistic-missing").with_output(Output::Margins).init(&device).expect(name);
        for dtype in [DType::F16, DType::BF16] {
            let halves = TensorData::new(s.rows.clone(), [s.count, columns]).convert_dtype(dtype);
            let widened: Vec<f32> = halves.clone().convert::<f32>().try_to_vec().expect("f32");
            let expected = slots(&s.forest, &widened);
            let x = || Tensor::<2>::from_data(halves.clone(), (&device, dtype));
            assert_eq!(integers(module.leaf_slots(x()).expect(name)), expected, "{dtype:?} on {name}");
            let margins = module.forward(x()).expect(name);
            assert_eq!(margins.dtype(), DType::F32);
            let of_f32 = module.forward(support::tensor(&widened, columns, &device)).expect(name);
            assert_eq!(bits(margins.clone()), bits(of_f32), "{dtype:?} on {name}");
            // The same rows, stored column by column.
            let mut turned = vec![0.0; widened.len()];
            for (i, v) in widened.iter().enumerate() {
                turned[i % columns * s.count + i / columns] = *v;
            }
            let turned = TensorData::new(turned, [columns, s.count]).convert_dtype(dtype);
            let turned = Tensor::<2>::from_data(turned, (&device, dtype)).transpose();
            assert_eq!(
                bits(module.forward(turned).expect(name)),
                bits(margins),
                "{dtype:?} transposed on {name}"
            );
        }
    }
}

fn slots(forest: &Forest, rows: &[f32]) -> Vec<i32> {
    let rows = rows.chunks(forest.features.len());
    rows.flat_map(|row| reference::leaf_slots(forest, row)).map(|slot| slot as i32).collect()
}

#[test]
fn a_profile_goes_with_the_schedule_and_outlives_a_record_of_other_leaves() {
    let s = named("churn");
    let mut profile = Profile::new(&s.forest);
    let slots: Vec<u32> = (0..s.count).flat_map(|r| reference::leaf_slots(&s.forest, s.row(r))).collect();
    profile.count(&s.forest, &slots).expect("slots of its rows");
    let device = Device::flex();
    let schedule = Schedule::parse("sort(likely_leaf)\npeelWalk(tree, 90%)").expect("a schedule");
    let by = |forest: &Forest| ForestModuleConfig::new(forest.clone()).with_schedule(schedule.clone());
    let module = by(&s.forest).with_profile(profile.clone()).init(&device).expect("a module");
    let rows = || s.tensor(&device);
    let plain = config("churn").init(&device).expect("a module");
    let [own, plain] = [&module, &plain].map(|m| floats(m.forward(rows()).expect("values")));
    let near = |(own, plain): (&f32, &f32)| (own - plain).abs() < 1e-5;
    assert!(own.len() == s.count && own.iter().zip(&plain).all(near), "{own:?} {plain:?}");

    // A forest of the same structure with other leaf values.
    let mut trained = s.forest.clone();
    trained.leaf_values.iter_mut().for_each(|value| value.0 *= 2.0);
    let saved = ForestModuleConfig::new(trained).init(&device).expect("a module").into_record();
    let loaded = module.load_record(saved);
    loaded.forward(rows()).expect("the profile is still of this structure");

    let without = by(&s.forest).init(&device).expect("a module").forward(rows()).expect_err("no profile");
    assert!(without.to_string().contains("ForestModuleConfig::with_profile"), "{without}");
}
