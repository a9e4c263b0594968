//! The six algorithms of the example `algorithms` reach by fusion plans what they reach when burn runs each operation.

#![cfg(feature = "flex")]
#![allow(dead_code, reason = "the example uses all of it")]

use burn::tensor::{DType, Device};
use fangorn_fusion::select::Policy;
use fangorn_graphs::Result;

#[path = "../examples/algorithms/als.rs"]
mod als;
#[path = "../examples/algorithms/autoencoder.rs"]
mod autoencoder;
#[path = "../examples/algorithms/data.rs"]
mod data;
#[path = "../examples/algorithms/glm.rs"]
mod glm;
#[path = "../examples/algorithms/kmeans.rs"]
mod kmeans;
#[path = "../examples/algorithms/l2svm.rs"]
mod l2svm;
#[path = "../examples/algorithms/mlogreg.rs"]
mod mlogreg;
#[path = "../examples/algorithms/newton.rs"]
mod newton;
#[path = "../examples/algorithms/step.rs"]
mod step;

use step::Way;

struct Reached {
    objective: f64,
    iterations: usize,
}

fn compare(training: impl Fn(Way) -> Result<Reached>) {
    let expected = training(Way::Burn).unwrap();
    assert!(expected.objective.is_finite() && expected.iterations > 1);
    for policy in Policy::ALL {
        let found = training(Way::Plan(policy)).unwrap();
        let difference = (found.objective - expected.objective).abs() / expected.objective.abs();
        assert!(difference < 1e-9, "{policy:?}: {} for {}", found.objective, expected.objective);
        assert_eq!(found.iterations, expected.iterations, "{policy:?}");
    }
}

#[test]
fn l2svm_by_plans() {
    let data = data::classes(3001, 7, 2, (&Device::flex(), DType::F64));
    compare(|way| l2svm::train(&data, way));
}

#[test]
fn mlogreg_by_plans() {
    let data = data::classes(3001, 7, 4, (&Device::flex(), DType::F64));
    compare(|way| mlogreg::train(&data, way));
}

#[test]
fn glm_by_plans() {
    let data = data::classes(3001, 7, 2, (&Device::flex(), DType::F64));
    compare(|way| glm::train(&data, way));
}

#[test]
fn kmeans_by_plans() {
    let x = data::clusters(3001, 7, 5, (&Device::flex(), DType::F64));
    compare(|way| kmeans::train(&x, 5, way));
}

#[test]
fn als_by_plans() {
    let ratings = data::ratings(150, 120, (&Device::flex(), DType::F64));
    compare(|way| als::train(&ratings, 4, way));
}

#[test]
fn autoencoder_by_plans() {
    let x = data::waves(2 * autoencoder::BATCH, 8, (&Device::flex(), DType::F64));
    compare(|way| autoencoder::train(&x, way));
}
