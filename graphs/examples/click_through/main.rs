//! Predicts the probability of a click from a table: the leaves of gradient-boosted trees feed a Wide & Deep
//! network.
//!
//! ```console
//! cargo run --release -p fangorn-graphs --example click_through
//! ```

mod model;
#[path = "../stages/mod.rs"]
mod stages;

use burn::{
    nn::loss::BinaryCrossEntropyLossConfig,
    tensor::{Device, Tensor},
};
use fangorn_graphs::{
    fangorn::{graph::Graph, import},
    forest::ForestModuleConfig,
};
use model::{ClickThrough, Sizes};
use stages::{Pipeline, Result, Saved, Steps, Table, Work};

impl Pipeline for ClickThrough {
    const NAME: &str = "click_through";
    const HEADS: &[&str] = &["click"];

    fn trained(work: &Work) -> Result<Self> {
        // The script fits the trees first, because the network learns what their leaves mean.
        work.script("forest")?;
        let (rows, labels) = work.labelled("train")?;
        let device = Device::flex().autodiff();
        device.seed(7);
        let forest = import::load(&work.path("model.ubj"), &Default::default())?;
        let forest = ForestModuleConfig::new(forest).init(&device)?;
        let network = Self::new(Sizes::CLICKS, forest, &device)?;
        let loss = BinaryCrossEntropyLossConfig::new().with_logits(true).init(&device);
        let steps = Steps { epochs: 2, batch: 128, rate: 1e-3 };
        work.fit(network, (&rows, &labels), steps, |network, rows, wanted| {
            let logits = network.logits(rows.floats(&device))?;
            Ok(loss.forward(logits, wanted.unsqueeze_dim(1)))
        })
    }

    fn of(saved: &Saved, device: &Device) -> Result<Self> {
        Ok(Self::new(Sizes::CLICKS, saved.forest("forest")?.init(device)?, device)?)
    }

    fn predict(&self, _: &str, rows: &Table, device: &Device) -> Result<Tensor<2>> {
        Ok(self.forward(rows.floats(device))?)
    }

    fn graph(&self, _: &str) -> Result<Graph> {
        self.graph()
    }

    fn export(&self, work: &Work) -> Result<()> {
        // XGBoost numbers the nodes of each tree, an embedding the leaves of all trees. The array holds the
        // leaf slot of each leaf id.
        let forest = self.forest.operator()?.forest();
        let ids = 1 + forest.trees.iter().flat_map(|tree| &tree.ids).max().copied().unwrap_or(0) as usize;
        let mut slots = vec![0i32; forest.trees.len() * ids];
        for (t, tree) in forest.trees.iter().enumerate() {
            for (node, id) in tree.nodes.iter().zip(&tree.ids) {
                if let Some(slot) = node.slot() {
                    slots[t * ids + *id as usize] = slot as i32;
                }
            }
        }
        work.write("slots.npy", &slots, &[forest.trees.len(), ids])
    }
}

fn main() -> Result<()> {
    stages::run::<ClickThrough>()
}
