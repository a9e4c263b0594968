//! Runs the generated code: the networks and trees of one file give what ONNX Runtime gave, and they can be
//! trained.

mod support;

use std::path::Path;

use burn::module::Module;
use burn::tensor::{Bytes, Device, Int, Tensor, TensorData};
use fangorn_graphs::forest::ForestModule;

/// Defines a module with the code that burn-onnx made of a model, and with access to the model's forest.
macro_rules! generated {
    ($name:ident $($more:tt)*) => {
        mod $name {
            include!(concat!("generated/", stringify!($name), ".rs"));

            #[allow(dead_code)]
            impl Model {
                pub fn trees(&self) -> &fangorn_graphs::forest::ForestModule {
                    &self.custom1
                }
                $($more)*
            }

            pub fn loaded(device: &Device) -> Model {
                Model::from_bytes(super::weights(stringify!($name)), device)
            }
        }
    };
}

generated!(classifier);
generated!(regressor
    /// Returns the weights of the network after the trees.
    pub fn head(&self) -> Tensor<2> {
        self.linear1.weight.val()
    }
);
generated!(strings);
generated!(unified);

/// Returns the weights that the import of a model writes.
fn weights(name: &str) -> Bytes {
    let folder = support::import(name, &format!("{:?}", std::thread::current().id()));
    let weights = std::fs::read(folder.join(format!("{name}.bpk"))).expect("weights");
    std::fs::remove_dir_all(folder).expect("removed");
    Bytes::from_bytes_vec(weights)
}

/// Reads an array of `tests/models`. Returns its numbers and the number of its columns.
fn array<T: npyz::Deserialize>(file: &str) -> (Vec<T>, usize) {
    let bytes = std::fs::read(Path::new("tests/models").join(file)).expect("an array");
    let array = npyz::NpyFile::new(&bytes[..]).expect("npy");
    let columns = array.shape().get(1).map_or(1, |c| *c as usize);
    (array.into_vec().expect("numbers"), columns)
}

fn rows(name: &str, device: &Device) -> Tensor<2> {
    let (rows, columns) = array::<f32>(&format!("{name}.rows.npy"));
    let count = rows.len() / columns;
    Tensor::from_data(TensorData::new(rows, [count, columns]), device)
}

/// Checks that a tensor holds the numbers that ONNX Runtime gave, up to the rounding of sums.
fn close(found: Tensor<2>, file: &str) {
    let (expected, columns) = array::<f32>(file);
    assert_eq!(found.dims(), [expected.len() / columns, columns], "{file}");
    let found = found.into_data().try_into_vec::<f32>().expect("floats");
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let bound = 4e-6 * expected.abs().max(1.0);
        assert!((found - expected).abs() <= bound, "{file}, number {i}: {found}, not {expected}");
    }
}

#[test]
fn trees_between_two_networks() {
    let device = Device::flex();
    close(regressor::loaded(&device).forward(rows("regressor", &device)), "regressor.Y.npy");
}

#[test]
fn a_tree_ensemble_of_version_5() {
    let device = Device::flex();
    close(unified::loaded(&device).forward(rows("unified", &device)), "unified.Y.npy");
}

#[test]
fn labels_that_are_integers_and_the_scores_in_place_of_maps() {
    let device = Device::flex();
    let (labels, scores): (Tensor<1, Int>, _) =
        classifier::loaded(&device).forward(rows("classifier", &device));
    close(scores, "classifier.output_probability.npy");
    let labels = labels.into_data().try_into_vec::<i64>().expect("integers of 64 bits");
    assert_eq!(labels, array::<i64>("classifier.output_label.npy").0);
}

#[test]
fn labels_that_are_strings_are_cut_off() {
    let device = Device::flex();
    let model = strings::loaded(&device);
    close(model.forward(rows("strings", &device)), "strings.output_probability.npy");
    assert_eq!(model.trees().labels(), ["left", "right"]);
}

#[test]
fn leaf_values_have_their_gradient_through_the_network_after_them() {
    let device = Device::flex();
    let autodiff = device.clone().autodiff();
    let model = regressor::loaded(&autodiff);
    let x = rows("regressor", &autodiff);
    let count = x.dims()[0];
    let gradients = model.forward(x).sum().backward();
    let floats = |tensor: Tensor<2>| tensor.into_data().try_into_vec::<f32>().expect("floats");
    // The gradient of the loss by each target: the sum of the target's row of the head.
    let head = floats(model.head().sum_dim(1));
    let leaves = floats(model.trees().leaf_values.grad(&gradients).expect("a gradient of the leaf values"));
    let reached: Vec<[f32; 2]> = leaves.chunks_exact(2).map(|g| [g[0] / head[0], g[1] / head[1]]).collect();
    assert!(reached.iter().all(|[a, b]| a == b && a.fract() == 0.0 && *a >= 0.0), "{reached:?}");
    // Each row reaches one leaf of each of the five trees.
    assert_eq!(reached.iter().map(|[n, _]| n).sum::<f32>(), (5 * count) as f32);
}

#[test]
fn a_module_says_that_its_weights_were_not_loaded() {
    let device = Device::flex();
    let trees: ForestModule = regressor::Model::new(&device).trees().clone();
    let error = trees.values(Tensor::zeros([1, 6], &device)).expect_err("nothing is loaded");
    assert!(error.to_string().contains("was not loaded"), "{error}");
    assert_eq!(trees.num_params(), regressor::loaded(&device).trees().num_params());
}
