//! The burn operator on every backend that is built in and answers: the zoo, strides, types, gradients, capture.

#![cfg(feature = "burn")]
// burn-ndarray is deprecated upstream in favour of burn-flex and served as long as burn has it.
#![allow(deprecated)]

mod support;

use std::sync::Arc;

use burn::tensor::{DType, Device, Distribution, Tensor, TensorData};
use fangorn::{
    forest::reference,
    op::{ForestOp, forest},
    schedule::Preset,
};
use support::{Specimen, assert_margins, assert_values, devices, for_each_specimen, reference_margins};

fn rows(s: &Specimen, device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(s.rows.clone(), [s.count, s.columns()]), device)
}

fn floats(tensor: Tensor<2>) -> Vec<f32> {
    tensor.into_data().to_vec().expect("f32")
}

#[test]
fn margins_values_and_slots_on_every_backend() {
    for (name, device) in devices() {
        for_each_specimen(|s| {
            let what = format!("{} on {name}", s.name);
            let op = Arc::new(ForestOp::new(s.forest.clone()).expect(&what));
            assert_margins(&what, &s.forest, &floats(op.margins(rows(s, &device)).expect(&what)), reference_margins(s));
            assert_values(&what, &s.forest, &floats(op.values(rows(s, &device)).expect(&what)), reference_margins(s));
            let slots: Vec<i32> = op.slots(rows(s, &device)).expect(&what).into_data().convert::<i32>().to_vec().expect("i32");
            let expected: Vec<i32> =
                (0..s.count).flat_map(|r| reference::slots(&s.forest, s.row(r))).map(|slot| slot as i32).collect();
            assert_eq!(slots, expected, "{what}");
        });
    }
}
