//! A Wide & Deep network on the leaves of gradient-boosted trees.

use std::sync::Arc;

use burn::{
    module::Module,
    nn::{Embedding, EmbeddingConfig, Linear, LinearConfig},
    tensor::{Device, Tensor, activation},
};
use fangorn_graphs::{
    Result,
    fangorn::graph::{Dtype, Graph, Operator, Unary},
    forest::ForestModule,
};

use crate::stages::{self, Layers};

/// The sizes of a network.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Columns of numbers. They stand before the columns of ids.
    pub numbers: usize,
    /// Columns of ids.
    pub ids: usize,
    /// Different ids of all columns together. One numbering runs through all columns.
    pub known: usize,
    /// Values of the vector that stands for a leaf or an id.
    pub width: usize,
    /// Values of the deep network's two inner layers.
    pub inner: [usize; 2],
}

impl Sizes {
    /// The sizes for the table of clicks that the script makes.
    pub const CLICKS: Self = Self { numbers: 8, ids: 4, known: 1000, width: 8, inner: [64, 32] };
}

/// The pipeline. The wide model has one weight for each leaf and each id. The deep network takes the numbers and
/// a vector for each leaf and each id.
#[derive(Module, Debug)]
pub struct ClickThrough {
    pub forest: ForestModule,
    wide_leaves: Embedding,
    wide_ids: Embedding,
    deep_leaves: Embedding,
    deep_ids: Embedding,
    deep: Vec<Linear>,
    numbers: usize,
    ids: usize,
}

impl ClickThrough {
    pub fn new(sizes: Sizes, forest: ForestModule, device: &Device) -> Result<Self> {
        let Sizes { numbers, ids, known, width, inner: [first, second] } = sizes;
        let (leaves, trees) = (forest.leaf_count(), forest.operator()?.trees());
        let columns = (trees + ids) * width + numbers;
        let layers = [(columns, first), (first, second), (second, 1)];
        let weights = |entries: usize, width: usize| {
            let init = burn::module::Initializer::Normal { mean: 0.0, std: 0.05 };
            EmbeddingConfig::new(entries, width).with_initializer(init).init(device)
        };
        Ok(Self {
            wide_leaves: weights(leaves, 1),
            wide_ids: weights(known, 1),
            deep_leaves: weights(leaves, width),
            deep_ids: weights(known, width),
            deep: layers.map(|(from, to)| LinearConfig::new(from, to).init(device)).to_vec(),
            forest,
            numbers,
            ids,
        })
    }

    /// Returns the logit of a click: `[rows, columns]` to `[rows, 1]`.
    pub fn logits(&self, x: Tensor<2>) -> Result<Tensor<2>> {
        let [rows, _] = x.dims();
        let leaves = self.forest.leaf_slots(x.clone())?;
        let numbers = x.clone().narrow(1, 0, self.numbers);
        let ids = x.narrow(1, self.numbers, self.ids).int();
        let wide = |weights: Tensor<3>| weights.sum_dim(1).reshape([rows, 1]);
        let wide = wide(self.wide_leaves.forward(leaves.clone())) + wide(self.wide_ids.forward(ids.clone()));
        let flat = |vectors: Tensor<3>| vectors.flatten::<2>(1, 2);
        let (leaves, ids) = (flat(self.deep_leaves.forward(leaves)), flat(self.deep_ids.forward(ids)));
        let mut deep = Tensor::cat(vec![leaves, ids, numbers], 1);
        for (at, layer) in self.deep.iter().enumerate() {
            deep = layer.forward(if at == 0 { deep } else { activation::relu(deep) });
        }
        Ok(wide + deep)
    }

    /// Returns the pipeline as one graph.
    pub fn graph(&self) -> stages::Result<Graph> {
        let mut layers = Layers::default();
        let rows = layers.graph.input("table", Dtype::F32, [None, Some(self.numbers + self.ids)]);
        let forest = Arc::new(self.forest.operator()?.forest().clone());
        let leaves = layers.node(Operator::LeafSlots(forest), [rows]);
        let numbers = layers.slice(rows, 1, (0, self.numbers));
        let ids = layers.slice(rows, 1, (self.numbers, self.ids));
        let ids = layers.node(Operator::Cast(Dtype::I64), [ids]);
        let (mut wide, mut deep) = (Vec::new(), Vec::new());
        for (weights, vectors, entries) in
            [(&self.wide_leaves, &self.deep_leaves, leaves), (&self.wide_ids, &self.deep_ids, ids)]
        {
            let weights = layers.embedding(weights.weight.val(), entries)?;
            wide.push(layers.sum(weights));
            let vectors = layers.embedding(vectors.weight.val(), entries)?;
            deep.push(layers.node(Operator::Reshape(vec![0, -1]), [vectors]));
        }
        deep.push(numbers);
        let mut x = layers.node(Operator::Concat { axis: 1 }, deep);
        for (at, layer) in self.deep.iter().enumerate() {
            if at > 0 {
                x = layers.node(Operator::Unary(Unary::Relu), [x]);
            }
            x = layers.linear(layer, x)?;
        }
        for weight in wide {
            x = layers.add(x, weight);
        }
        x = layers.node(Operator::Unary(Unary::Sigmoid), [x]);
        layers.graph.output("probability", x);
        Ok(layers.graph)
    }

    /// Returns the probability of a click: `[rows, columns]` to `[rows, 1]`.
    pub fn forward(&self, x: Tensor<2>) -> Result<Tensor<2>> {
        Ok(activation::sigmoid(self.logits(x)?))
    }
}
