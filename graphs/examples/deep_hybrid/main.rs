//! Predicts the class of an image: a small convolutional network feeds a random forest (Deep Hybrid
//! Learning).
//!
//! ```console
//! cargo run --release -p fangorn-graphs --example deep_hybrid
//! ```

mod model;
#[path = "../stages/mod.rs"]
mod stages;

use burn::{
    module::Module,
    nn::loss::CrossEntropyLoss,
    tensor::{Device, Tensor},
};
use fangorn_graphs::{
    fangorn::{graph::Graph, import},
    forest::ForestModuleConfig,
};
use model::{Classifier, DeepHybrid, Seen, Sizes};
use stages::{Pipeline, Result, Saved, Steps, Table, Work};

impl Pipeline for DeepHybrid {
    const NAME: &str = "deep_hybrid";
    const HEADS: &[&str] = &["forest"];

    fn trained(work: &Work) -> Result<Self> {
        let (rows, labels) = work.labelled("train")?;
        let device = Device::flex().autodiff();
        device.seed(7);
        let network = Classifier::new(Sizes::DIGITS, 10, &device);
        let loss = CrossEntropyLoss::new(None, &device);
        let steps = Steps { epochs: 8, batch: 32, rate: 1e-3 };
        let network = work.fit(network, (&rows, &labels), steps, |network, rows, wanted| {
            Ok(loss.forward(network.forward(rows.floats(&device)), wanted))
        })?;

        let (seen, plain) = (network.valid().seen, Device::flex());
        work.write_features(&rows, |rows| seen.forward(rows.floats(&plain)))?;
        work.script("forest")?;
        let forest = import::load(&work.path("model.npz"), &Default::default())?;
        Ok(Self { seen, forest: ForestModuleConfig::new(forest).init(&plain)? })
    }

    fn of(saved: &Saved, device: &Device) -> Result<Self> {
        Ok(Self { seen: Seen::new(Sizes::DIGITS, device), forest: saved.forest("forest")?.init(device)? })
    }

    fn predict(&self, _: &str, rows: &Table, device: &Device) -> Result<Tensor<2>> {
        Ok(self.forward(rows.floats(device))?)
    }

    fn graph(&self, _: &str) -> Result<Graph> {
        self.graph()
    }

    fn right(predicted: &[f32], label: i32) -> bool {
        let best = predicted.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        best.is_some_and(|(class, _)| class as i32 == label)
    }
}

fn main() -> Result<()> {
    stages::run::<DeepHybrid>()
}
