//! Deep Hybrid Learning: a forest classifies images by the features that a small convolutional network sees
//! in them.

use std::sync::Arc;

use burn::{
    module::Module,
    nn::{
        Linear, LinearConfig, PaddingConfig2d,
        conv::{Conv2d, Conv2dConfig},
    },
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
    /// Pixels of one side of a square image.
    pub side: usize,
    /// Channels of the two convolutions.
    pub channels: [usize; 2],
    /// Features of an image, which the network gives to the forest.
    pub features: usize,
}

impl Sizes {
    /// The sizes for the handwritten digits of scikit-learn.
    pub const DIGITS: Self = Self { side: 8, channels: [32, 64], features: 64 };
}

/// The network under the forest: images, `[rows, side x side]`, to features, `[rows, features]`.
#[derive(Module, Debug)]
pub struct Seen {
    first: Conv2d,
    second: Conv2d,
    dense: Linear,
    side: usize,
}

impl Seen {
    pub fn new(sizes: Sizes, device: &Device) -> Self {
        let Sizes { side, channels: [first, second], features } = sizes;
        let convolution = |from, to, stride| {
            let config = Conv2dConfig::new([from, to], [3, 3]).with_stride([stride, stride]);
            config.with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1)).init(device)
        };
        let halved = side.div_ceil(2);
        Self {
            first: convolution(1, first, 1),
            // A stride replaces pooling, because burn-flex 0.22.1 pools one value at a time.
            second: convolution(first, second, 2),
            dense: LinearConfig::new(second * halved * halved, features).init(device),
            side,
        }
    }

    pub fn forward(&self, images: Tensor<2>) -> Tensor<2> {
        let [rows, _] = images.dims();
        let x = images.reshape([rows, 1, self.side, self.side]);
        let x = activation::relu(self.first.forward(x));
        let x = activation::relu(self.second.forward(x));
        activation::relu(self.dense.forward(x.flatten::<2>(1, 3)))
    }
}

/// The model that burn trains: the network under a linear layer, which is dropped after training.
#[derive(Module, Debug)]
pub struct Classifier {
    pub seen: Seen,
    head: Linear,
}

impl Classifier {
    pub fn new(sizes: Sizes, classes: usize, device: &Device) -> Self {
        Self { seen: Seen::new(sizes, device), head: LinearConfig::new(sizes.features, classes).init(device) }
    }

    pub fn forward(&self, images: Tensor<2>) -> Tensor<2> {
        self.head.forward(self.seen.forward(images))
    }
}

/// The pipeline: the network and a random forest on its features.
#[derive(Module, Debug)]
pub struct DeepHybrid {
    pub seen: Seen,
    pub forest: ForestModule,
}

impl DeepHybrid {
    /// Returns the pipeline as one graph.
    pub fn graph(&self) -> stages::Result<Graph> {
        let mut layers = Layers::default();
        let side = self.seen.side;
        let rows = layers.graph.input("pixels", Dtype::F32, [None, Some(side * side)]);
        let image = Operator::Reshape(vec![-1, 1, side as i64, side as i64]);
        let mut x = layers.node(image, [rows]);
        for convolution in [&self.seen.first, &self.seen.second] {
            x = layers.convolution(convolution, x)?;
            x = layers.node(Operator::Unary(Unary::Relu), [x]);
        }
        x = layers.node(Operator::Reshape(vec![0, -1]), [x]);
        x = layers.linear(&self.seen.dense, x)?;
        x = layers.node(Operator::Unary(Unary::Relu), [x]);
        let forest = self.forest.operator()?.forest();
        let values = layers.node(Operator::Forest(Arc::new(forest.clone())), [x]);
        layers.graph.output("probabilities", values);
        Ok(layers.graph)
    }

    /// Returns the probability of each class: `[rows, side x side]` to `[rows, classes]`.
    pub fn forward(&self, images: Tensor<2>) -> Result<Tensor<2>> {
        self.forest.forward(self.seen.forward(images))
    }
}
