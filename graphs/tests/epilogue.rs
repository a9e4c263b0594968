//! Epilogues of modules: with and without a gradient, and with records saved and loaded.

mod support;

use burn::{
    module::Module,
    store::ModuleRecord,
    tensor::{DType, Device, FloatDType, Tensor, TensorData, activation},
};
use fangorn::op::EpilogueStep;
use fangorn_graphs::forest::{ForestModule, ForestModuleConfig, Output};
use support::{bits, devices, floats, named};

const HALF_AND_MORE: EpilogueStep = EpilogueStep::Affine { scale: 0.5, shift: 0.25 };

fn bare(model: &str, device: &Device) -> ForestModule {
    let config = ForestModuleConfig::new(support::model(model)).with_output(Output::Margins);
    config.init(device).expect(model)
}

/// Makes a module whose margins are scaled, added to another model's margins, and put through a softmax.
fn followed(model: &str, device: &Device) -> ForestModule {
    let steps = [HALF_AND_MORE, EpilogueStep::Add, EpilogueStep::Softmax];
    steps.into_iter().try_fold(bare(model, device), ForestModule::with_step).expect(model)
}

fn beside(rows: usize, width: usize, device: &Device) -> Tensor<2> {
    let values: Vec<f32> = (0..rows * width).map(|i| ((i * 29) % 17) as f32 / 8.0 - 1.0).collect();
    Tensor::from_data(TensorData::new(values, [rows, width]), device)
}

fn near(what: &str, found: Tensor<2>, expected: Tensor<2>) {
    for (i, (found, expected)) in floats(found).into_iter().zip(floats(expected)).enumerate() {
        assert!((found - expected).abs() <= 2e-6, "{what} at {i}: {found}, should be {expected}");
    }
}

#[test]
fn gradients_are_those_of_the_operations_one_by_one() {
    let s = named("softprob");
    let outputs = s.forest.outputs as usize;
    for (name, plain) in devices() {
        let device = plain.clone().autodiff();
        let loss = |values: Tensor<2>| (values.clone() * values * beside(s.count, outputs, &device)).sum();
        let module = followed("softprob", &device);
        let other = beside(s.count, outputs, &device).require_grad();
        let values = module.forward_with(s.tensor(&device), vec![other.clone()]).expect(name);
        let grads = loss(values.clone()).backward();
        let found = (module.leaf_values.grad(&grads).expect("leaves"), other.grad(&grads).expect("a tensor"));

        let module = bare("softprob", &device);
        let other = beside(s.count, outputs, &device).require_grad();
        let margins = module.forward(s.tensor(&device)).expect(name);
        let by_hand = activation::softmax(margins * 0.5 + 0.25 + other.clone(), 1);
        let grads = loss(by_hand).backward();
        let expected =
            (module.leaf_values.grad(&grads).expect("leaves"), other.grad(&grads).expect("a tensor"));
        near(&format!("leaves on {name}"), found.0, expected.0);
        near(&format!("the tensor on {name}"), found.1, expected.1);

        // Without autodiff, the epilogue runs in the forest's operator.
        let inference = followed("softprob", &plain);
        let fused =
            inference.forward_with(s.tensor(&plain), vec![beside(s.count, outputs, &plain)]).expect(name);
        near(&format!("values on {name}"), fused, values.inner());
    }
}

#[test]
fn it_follows_what_forward_gives() {
    let s = named("softprob");
    for (name, device) in devices() {
        let config = |output| ForestModuleConfig::new(s.forest.clone()).with_output(output).init(&device);
        let margins = config(Output::Margins).and_then(|m| m.with_step(EpilogueStep::Softmax)).expect(name);
        let values = config(Output::Values).expect(name);
        let made = margins.forward(s.tensor(&device)).expect(name);
        near(name, made, values.forward(s.tensor(&device)).expect(name));
        // The epilogue applies to `forward` only, not to margins and values.
        let bare = config(Output::Margins).expect(name);
        let margin_bits = |m: &ForestModule| bits(m.margins(s.tensor(&device)).expect(name));
        assert_eq!(margin_bits(&margins), margin_bits(&bare), "{name}");
        let value_bits = |m: &ForestModule| bits(m.values(s.tensor(&device)).expect(name));
        assert_eq!(value_bits(&margins), value_bits(&values), "{name}");
    }
}

#[test]
fn leaves_that_were_trained_are_followed() {
    let s = named("churn");
    for (name, device) in devices() {
        let mut module = bare("churn", &device).with_step(HALF_AND_MORE).expect(name);
        module.leaf_values = module.leaf_values.map(|leaves| leaves * 2.0);
        let found = module.forward(s.tensor(&device)).expect(name);
        let expected = module.margins(s.tensor(&device)).expect(name) * 0.5 + 0.25;
        near(name, found, expected);
    }
}

/// A gradient of the rows passes through the epilogue, too.
#[test]
fn soft_splits_are_followed() {
    let s = named("churn");
    for (name, device) in devices() {
        let device = device.autodiff();
        let config = ForestModuleConfig::new(s.forest.clone()).with_output(Output::Margins);
        let module = config.with_soft_splits(0.5).init(&device).expect(name);
        let grad = |forward: &dyn Fn(Tensor<2>) -> Tensor<2>| {
            let x = s.tensor(&device).slice([0..8, 0..s.columns()]).require_grad();
            x.grad(&forward(x.clone()).sum().backward()).expect("rows have a gradient")
        };
        let followed = module.clone().with_step(EpilogueStep::Sigmoid).expect(name);
        let found = grad(&|x| followed.forward(x).expect(name));
        let expected = grad(&|x| activation::sigmoid(module.forward(x).expect(name)));
        assert!(floats(expected.clone()).iter().any(|g| *g != 0.0), "{name}");
        near(name, found, expected);
    }
}

#[test]
fn steps_stay_with_the_program_where_a_record_is_loaded() {
    let s = named("softprob");
    let outputs = s.forest.outputs as usize;
    for (name, device) in devices() {
        let mut saved = followed("softprob", &device);
        saved.leaf_values = saved.leaf_values.map(|leaves| leaves.mul_scalar(1.5));
        let call = |module: &ForestModule| {
            let tensors = vec![beside(s.count, outputs, &device)];
            bits(module.forward_with(s.tensor(&device), tensors).expect(name))
        };
        let bytes = saved.clone().into_record().into_bytes().expect("a record");
        let record = || ModuleRecord::from_bytes(bytes.clone()).expect("a record");
        let loaded = followed("softprob", &device).load_record(record());
        assert_eq!(call(&loaded), call(&saved), "{name}");
        // A record does not hold steps: a module without steps loads it, and so does one with other steps.
        let without = bare("softprob", &device).load_record(record());
        let margins = bits(without.forward(s.tensor(&device)).expect(name));
        assert_eq!(margins, bits(saved.margins(s.tensor(&device)).expect(name)), "{name}");
        assert_eq!(call(&saved.clone().to_device(&device)), call(&saved), "{name}");
    }
}

#[test]
fn the_result_is_a_half_where_the_device_stores_it() {
    let s = named("churn");
    for (name, device) in devices() {
        let module = bare("churn", &device).with_step(EpilogueStep::Cast(FloatDType::F16)).expect(name);
        match module.forward(s.tensor(&device)) {
            Ok(halves) => {
                assert_eq!(halves.dtype(), DType::F16, "{name}");
                let exact = module.margins(s.tensor(&device)).expect(name);
                let off = (halves.cast(DType::F32) - exact.clone()).abs() / exact.abs().clamp_min(1e-3);
                assert!(floats(off).into_iter().all(|off| off <= 1.0 / 1024.0), "{name}");
            }
            Err(refused) => assert!(!device.supports_dtype(DType::F16), "{name}: {refused}"),
        }
    }
}

#[test]
fn steps_are_printed_and_refused_by_name() {
    let (name, device) = devices().swap_remove(0);
    let module = bare("softprob", &device);
    let printed = module.clone().with_step(EpilogueStep::Softmax).expect(name).to_string();
    assert!(printed.contains("epilogue: [Softmax]"), "{printed}");
    let three = EpilogueStep::AffineEach { scale: vec![1.0; 3], shift: vec![0.0; 3] };
    let refused = module.clone().with_step(three).expect_err("five outputs").to_string();
    assert!(refused.contains("3 outputs, the forest has 5"), "{refused}");
    let s = named("softprob");
    let added = module.clone().with_step(EpilogueStep::Add).expect(name);
    let refused = added.forward(s.tensor(&device)).expect_err("no tensor").to_string();
    assert!(refused.contains("0 tensors are given, its steps take 1"), "{refused}");
    let one = vec![beside(s.count, 5, &device)];
    assert!(module.forward_with(s.tensor(&device), one).is_err(), "a tensor that no step takes");
    let cast = module
        .with_step(EpilogueStep::Cast(FloatDType::F16))
        .and_then(|m| m.with_step(EpilogueStep::Sigmoid));
    assert!(cast.expect_err("behind a cast").to_string().contains("last"), "a cast is the last step");
}
