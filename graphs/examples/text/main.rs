//! Predicts the class of a text: a small BERT feeds a logistic regression and a forest.
//!
//! ```console
//! cargo run --release -p fangorn-graphs --example text
//! ```

mod gelu;
mod model;
#[path = "../stages/mod.rs"]
mod stages;

use burn::{
    module::Module,
    nn::{LinearConfig, loss::CrossEntropyLoss},
    tensor::{Device, Tensor},
};
use fangorn_graphs::{
    fangorn::{graph::Graph, import},
    forest::ForestModuleConfig,
};
use model::{Classifier, Encoder, Sizes, Text};
use stages::{Pipeline, Result, Saved, Steps, Table, Work};

impl Pipeline for Text {
    const NAME: &str = "text";
    const HEADS: &[&str] = &["regression", "forest"];
    const AT_ONCE: usize = 16;

    fn trained(work: &Work) -> Result<Self> {
        let (rows, labels) = work.labelled("train")?;
        let device = Device::flex().autodiff();
        device.seed(7);
        let network = Classifier::new(Sizes::TINY, 2, &device);
        let loss = CrossEntropyLoss::new(None, &device);
        let steps = Steps { epochs: 3, batch: 64, rate: 1e-3 };
        let network = work.fit(network, (&rows, &labels), steps, |network, rows, wanted| {
            Ok(loss.forward(network.forward(rows.integers(&device)), wanted))
        })?;

        let (encoder, plain) = (network.valid().encoder, Device::flex());
        work.write_features(&rows, |rows| encoder.forward(rows.integers(&plain)))?;
        work.script("forest")?;
        let mut logistic = LinearConfig::new(Sizes::TINY.width, 1).init(&plain);
        logistic.weight = work.parameter("regression-weight.npy", &plain)?;
        logistic.bias = Some(work.parameter("regression-bias.npy", &plain)?);
        let forest = import::load(&work.path("model.ubj"), &Default::default())?;
        Ok(Self { encoder, logistic, forest: ForestModuleConfig::new(forest).init(&plain)? })
    }

    fn of(saved: &Saved, device: &Device) -> Result<Self> {
        Ok(Self {
            encoder: Encoder::new(Sizes::TINY, device),
            logistic: LinearConfig::new(Sizes::TINY.width, 1).init(device),
            forest: saved.forest("forest")?.init(device)?,
        })
    }

    fn predict(&self, head: &str, rows: &Table, device: &Device) -> Result<Tensor<2>> {
        let tokens = rows.integers(device);
        Ok(if head == "forest" { self.by_forest(tokens)? } else { self.by_regression(tokens) })
    }

    fn graph(&self, head: &str) -> Result<Graph> {
        self.graph(head)
    }
}

fn main() -> Result<()> {
    stages::run::<Text>()
}
