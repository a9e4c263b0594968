//! Nothing is read back between rows and loss.

mod support;

use burn::tensor::{Device, Tensor};
use fangorn_graphs::{ForestModuleConfig, Output};

/// A device that only records has no value to read: a step that asked for one would not be recorded.
#[test]
fn a_step_is_recorded_without_a_value() {
    for model in ["churn", "softprob"] {
        let forest = support::model(model);
        let (columns, output) = (forest.features.len(), Output::Values);
        let device = Device::capture();
        let graph = device
            .capture_scope(|scope| {
                let tracked = device.clone().autodiff();
                let module = ForestModuleConfig::new(forest).with_output(output);
                let module = module.init(&tracked).expect("a module");
                let x = Tensor::<2>::zeros([64, columns], &device);
                let loss = module.forward(x).expect("recorded").square().mean();
                let grads = loss.backward();
                let leaves = module.leaves.grad(&grads).expect("recorded");
                assert_eq!(leaves.dims(), module.leaves.dims());
                assert!(loss.try_into_data().is_err(), "there is nothing to read");
                scope.complete([], [])
            })
            .expect("recorded");
        let recorded = format!("{:?}", graph.graph.operations);
        assert!(
            recorded.contains("forest_margins") && recorded.contains("forest_leaf_gradients"),
            "{recorded}"
        );
    }
}
