//! Computing a loss from rows reads nothing back from the device.

mod support;

use burn::tensor::{Device, Tensor};
use fangorn::check::SelfCheck;
use fangorn_graphs::forest::{ForestModule, ForestModuleConfig, Output};

/// Makes a module without a self-check, which would wait for the device at the module's first step.
fn module(model: &str, device: &Device) -> ForestModule {
    let config =
        ForestModuleConfig::new(support::model(model)).with_output(Output::Values).with_check(SelfCheck::Off);
    config.init(device).expect(model)
}

/// A capture device records operations and computes nothing, so a read on it fails.
#[test]
fn rows_to_loss_are_recorded_without_a_value() {
    for model in ["churn", "softprob"] {
        let device = Device::capture();
        let graph = device.capture_scope(|scope| {
            let module = module(model, &device);
            let x = Tensor::<2>::zeros([64, module.features()], &device);
            let loss = module.forward(x).expect("recorded").square().mean();
            assert!(loss.try_into_data().is_err(), "there is nothing to read");
            scope.complete([], [])
        });
        let recorded = format!("{:?}", graph.expect("recorded").graph.operations);
        assert!(recorded.contains("forest_values"), "{recorded}");
    }
}

/// A GPU that another thread holds answers no read. A whole training step is issued while the GPU is held.
#[cfg(feature = "wgpu")]
#[test]
fn a_step_is_issued_while_the_device_is_held() {
    use std::{sync::mpsc, thread, time::Duration};

    use burn::{
        backend::DispatchDevice,
        optim::{AdamConfig, GradientsParams},
    };

    let Some((name, device)) = support::devices().into_iter().find(|(name, _)| *name == "wgpu") else {
        return;
    };
    let DispatchDevice::Cube(cube) = device.as_dispatch() else { panic!("{name} is a cubecl device") };
    for model in ["churn", "softprob"] {
        let s = support::named(model);
        let tracked = device.clone().autodiff();
        let x = || s.tensor(&device);
        let step = |forest: ForestModule, x: Tensor<2>| {
            let loss = forest.forward(x).expect(model).square().mean();
            let grads = GradientsParams::from_grads(loss.clone().backward(), &forest);
            (AdamConfig::new().init().step(0.1, forest, grads), loss)
        };
        // The first step compiles the kernels.
        let (expected, loss) = step(module(model, &tracked), x());
        let (expected, expected_loss) = (support::bits(expected.leaf_values.val()), support::bits(loss));
        let (forest, rows) = (module(model, &tracked), x());
        support::bits(forest.leaf_values.val());
        let (held, is_held) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let (waited, (stepped, loss)) = thread::scope(|scope| {
            let client = cube.client();
            let holder = scope.spawn(move || {
                let hold = move || {
                    held.send(()).expect("the test waits");
                    released.recv_timeout(Duration::from_secs(60)).is_err()
                };
                client.exclusive(hold).expect("a device of its own")
            });
            is_held.recv().expect("the device is held");
            let issued = step(forest, rows);
            let _ = release.send(());
            (holder.join().expect("no panic"), issued)
        });
        assert!(!waited, "{model}: the step waits for the device");
        assert_eq!(support::bits(loss), expected_loss, "{model}");
        assert_eq!(support::bits(stepped.leaf_values.val()), expected, "{model}");
    }
}
