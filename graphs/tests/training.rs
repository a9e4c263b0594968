//! A network around three models is trained for fifty steps with autodiff (and with fusion where the backend
//! has it), saved, and loaded. Its predictions are the same to the bit.

mod support;

use std::sync::Arc;

use burn::{
    module::{Module, Param},
    nn::{
        Linear, LinearConfig,
        loss::{MseLoss, Reduction},
    },
    optim::{AdamConfig, GradientsParams},
    store::ModuleRecord,
    tensor::{Device, Tensor, activation},
};
use fangorn::{file::Contents, op::ForestOp};
use fangorn_graphs::forest::{ForestModule, ForestModuleConfig, Output};
use support::{bits, devices, floats, model, named};

/// A layer that makes columns, three forests from two importers on these columns, and a layer on the forests'
/// margins.
#[derive(Module, Debug)]
struct Network {
    below: Linear,
    churn: ForestModule,
    classes: ForestModule,
    binary: ForestModule,
    above: Linear,
}

const MODELS: [&str; 3] = ["churn", "softprob", "lightgbm-binary"];

impl Network {
    fn new(device: &Device) -> Self {
        let forests = MODELS.map(model);
        let margins = forests.iter().map(|f| f.outputs as usize).sum();
        let columns = forests.iter().map(|f| f.features.len()).max().expect("three");
        let [churn, classes, binary] = forests.map(|forest| {
            // Only the forest with several outputs has soft splits, which let a gradient through to the layer
            // below.
            let config = ForestModuleConfig::new(forest.clone()).with_output(Output::Margins);
            let config = if forest.outputs > 1 { config.with_soft_splits(1.0) } else { config };
            config.init(device).expect("a module")
        });
        Self {
            below: LinearConfig::new(columns, columns).init(device),
            churn,
            classes,
            binary,
            above: LinearConfig::new(margins, 1).init(device),
        }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let x = x.clone() + self.below.forward(x).mul_scalar(0.01);
        let margins = [&self.churn, &self.classes, &self.binary].map(|forest| {
            let columns = x.clone().narrow(1, 0, forest.features());
            forest.forward(columns).expect("rows")
        });
        activation::sigmoid(self.above.forward(Tensor::cat(margins.to_vec(), 1)))
    }
}

#[test]
fn fifty_steps_and_the_same_bits_from_a_file() {
    let s = named("churn");
    let folder = std::env::temp_dir().join(format!("fangorn-training-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, plain) in devices() {
        let device = plain.clone().autodiff();
        device.seed(7);
        let mut network = Network::new(&device);
        let columns = network.below.weight.dims()[0];
        let wide: Vec<f32> = (0..s.count)
            .flat_map(|r| (0..columns).map(move |c| (r, c)))
            .map(|(r, c)| s.row(r).get(c).copied().unwrap_or(0.5))
            .map(|v| if v.is_nan() { -1.0 } else { v })
            .collect();
        let x = || support::tensor(&wide, columns, &device);
        let wanted: Vec<f32> = (0..s.count).map(|r| (r * r % 5) as f32 / 4.0).collect();
        let wanted = support::tensor(&wanted, 1, &device);
        let before = [&network.churn, &network.classes, &network.binary].map(|f| bits(f.leaf_values.val()));
        let mut optimizer = AdamConfig::new().init();
        let mut losses = Vec::new();
        for _ in 0..50 {
            let loss = MseLoss::new().forward(network.forward(x()), wanted.clone(), Reduction::Mean);
            let grads = GradientsParams::from_grads(loss.backward(), &network);
            assert_eq!(
                grads.len(),
                7,
                "{name}: leaf values of three forests, weights and biases of two layers"
            );
            network = optimizer.step(0.02, network, grads);
            losses.extend(floats(loss));
        }
        assert!(losses[49] < 0.5 * losses[0], "{name}: {losses:?}");
        for ten in losses.chunks(10).collect::<Vec<_>>().windows(2) {
            let mean = |losses: &[f32]| losses.iter().sum::<f32>();
            assert!(mean(ten[1]) < mean(ten[0]), "{name}: {losses:?}");
        }
        let after = [&network.churn, &network.classes, &network.binary].map(|f| bits(f.leaf_values.val()));
        before.iter().zip(&after).for_each(|(before, after)| assert_ne!(before, after, "{name}"));
        let trained = network.valid();
        let x = || support::tensor(&wide, columns, &plain);
        let expected = bits(trained.forward(x()));
        let file = folder.join(format!("{name}.bpk"));
        trained.into_record().save(&file).expect("a file");
        let fresh = Network::new(&plain);
        assert_ne!(bits(fresh.forward(x())), expected, "{name}: a network of other weights");
        let loaded = fresh.load_record(ModuleRecord::load(&file).expect("the file"));
        assert_eq!(bits(loaded.forward(x())), expected, "{name}");
        // The forest as trained, through a file, without the module.
        for module in [&loaded.churn, &loaded.classes, &loaded.binary] {
            let rows = x().narrow(1, 0, module.features());
            let file = Contents::new(module.to_forest().expect("a forest")).to_bytes();
            let forest = Contents::from_bytes(&file, &Default::default()).expect("the file").forest;
            let op = Arc::new(ForestOp::new(forest).expect("an operator"));
            let margins = module.margins(rows.clone()).expect("rows");
            assert_eq!(bits(op.margins(rows).expect("rows")), bits(margins), "{name}");
        }
    }
    std::fs::remove_dir_all(&folder).expect("the folder");
}

/// A leaf value that training has spoilt is refused by its slot; one that it left alone keeps its digits.
#[test]
fn a_forest_with_leaf_values_that_are_no_numbers_is_refused() {
    let forest = model("lightgbm-binary");
    let device = Device::flex();
    let mut module = ForestModuleConfig::new(forest.clone()).init(&device).expect("a module");
    assert_eq!(module.to_forest().expect("a forest"), forest, "to the last digit of f64");
    let spoilt = module.leaf_values.val().slice_assign([3..4, 0..1], Tensor::full([1, 1], f32::NAN, &device));
    module.leaf_values = Param::from_tensor(spoilt);
    let error = module.to_forest().expect_err("NaN").to_string();
    assert!(error.contains("slot 3, output 0, is NaN"), "{error}");
}
