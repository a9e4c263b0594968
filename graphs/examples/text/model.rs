//! A transformer encoder of the size of BERT-tiny, and two classifiers of what it says of a sentence.

use std::f64::consts::FRAC_1_SQRT_2;

use burn::{
    module::{Initializer, Module, Param},
    nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig},
    tensor::{
        Device, Int, Tensor, activation,
        module::{attention, linear},
        ops::AttentionModuleOptions,
    },
};
use fangorn_graphs::{ForestModule, Result};

/// The sizes of an encoder.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Tokens there are.
    pub vocabulary: usize,
    /// Tokens of a sentence.
    pub length: usize,
    /// Values that stand for a token.
    pub width: usize,
    /// Heads of an attention.
    pub heads: usize,
    /// Values between the two layers after an attention.
    pub inner: usize,
    /// Attentions.
    pub layers: usize,
}

impl Sizes {
    /// BERT-tiny's, with a vocabulary and sentences of the example's size.
    pub const TINY: Self = Self { vocabulary: 4000, length: 32, width: 128, heads: 2, inner: 512, layers: 2 };
}

/// Attention and two layers, each added to what it was made of and normed.
#[derive(Module, Debug)]
pub struct Layer {
    /// Queries, keys and values in one product.
    attend: Linear,
    join: Linear,
    attended: LayerNorm,
    widen: Linear,
    narrow: Linear,
    narrowed: LayerNorm,
    heads: usize,
}

impl Layer {
    fn new(sizes: Sizes, device: &Device) -> Self {
        let Sizes { width, heads, inner, .. } = sizes;
        Self {
            attend: LinearConfig::new(width, 3 * width).init(device),
            join: LinearConfig::new(width, width).init(device),
            attended: LayerNormConfig::new(width).init(device),
            widen: LinearConfig::new(width, inner).init(device),
            narrow: LinearConfig::new(inner, width).init(device),
            narrowed: LayerNormConfig::new(width).init(device),
            heads,
        }
    }

    /// What becomes of the first so many tokens, which attend to all: `[rows, length, width]` to `[rows, asked, width]`.
    fn forward(&self, x: Tensor<3>, asked: usize) -> Tensor<3> {
        let [rows, length, width] = x.dims();
        let heads = self.heads;
        let (weight, bias) = (self.attend.weight.val(), self.attend.bias.as_ref().map(|bias| bias.val()));
        let part = |x: Tensor<3>, from: usize, parts: usize| {
            let bias = bias.clone().map(|bias| bias.narrow(0, from * width, parts * width));
            linear(x, weight.clone().narrow(1, from * width, parts * width), bias)
        };
        let first = x.clone().narrow(1, 0, asked);
        let query = part(first.clone(), 0, 1).reshape([rows, asked, heads, width / heads]).swap_dims(1, 2);
        let seen = part(x, 1, 2).reshape([rows, length, 2 * heads, width / heads]).swap_dims(1, 2);
        let (key, value) = (seen.clone().narrow(1, 0, heads), seen.narrow(1, heads, heads));
        let seen = attention(query, key, value, None, None, AttentionModuleOptions::default());
        let seen = seen.swap_dims(1, 2).reshape([rows, asked, width]);
        let x = self.attended.forward(self.join.forward(seen) + first);
        let inner = gelu(self.widen.forward(x.clone()));
        self.narrowed.forward(self.narrow.forward(inner) + x)
    }
}

/// GELU, off by 5e-7 at most (Abramowitz and Stegun, 7.1.28). burn's takes the error function of a value at a time
/// on the CPU; these operations take a register of values.
fn gelu(x: Tensor<3>) -> Tensor<3> {
    const FACTORS: [f64; 5] = [2.765_672e-4, 1.520_143e-4, 9.270_527_2e-3, 4.228_201_23e-2, 7.052_307_84e-2];
    let size = x.clone().abs();
    // One over the 16th power of a polynomial of |x| / √2 is what the error function lacks to 1.
    let part = size.clone().mul_scalar(FRAC_1_SQRT_2);
    let sum = FACTORS
        .iter()
        .fold(part.clone().mul_scalar(4.306_38e-5), |sum, factor| sum.add_scalar(*factor) * part.clone());
    let power = (0..4).fold(sum.add_scalar(1.0), |power, _| power.clone() * power);
    activation::relu(x) - size.mul_scalar(0.5) / power
}

/// Sentences `[rows, length]` of tokens to what is known of each, `[rows, width]`.
#[derive(Module, Debug)]
pub struct Encoder {
    tokens: Embedding,
    places: Param<Tensor<2>>,
    norm: LayerNorm,
    layers: Vec<Layer>,
    pooler: Linear,
}

impl Encoder {
    pub fn new(sizes: Sizes, device: &Device) -> Self {
        let Sizes { vocabulary, length, width, .. } = sizes;
        let normal = Initializer::Normal { mean: 0.0, std: 0.1 };
        Self {
            tokens: EmbeddingConfig::new(vocabulary, width).with_initializer(normal.clone()).init(device),
            places: normal.init([length, width], device),
            norm: LayerNormConfig::new(width).init(device),
            layers: (0..sizes.layers).map(|_| Layer::new(sizes, device)).collect(),
            pooler: LinearConfig::new(width, width).init(device),
        }
    }

    pub fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<2> {
        let [rows, length] = tokens.dims();
        let mut x = self.norm.forward(self.tokens.forward(tokens) + self.places.val().unsqueeze());
        for (at, layer) in self.layers.iter().enumerate() {
            // The first token stands for the sentence, and the last layer is asked for no other.
            x = layer.forward(x, if at + 1 == self.layers.len() { 1 } else { length });
        }
        let [_, _, width] = x.dims();
        let first = x.narrow(1, 0, 1).reshape([rows, width]);
        self.pooler.forward(first).tanh()
    }
}

/// What is trained with burn: the encoder under a layer that nobody keeps.
#[derive(Module, Debug)]
pub struct Classifier {
    pub encoder: Encoder,
    head: Linear,
}

impl Classifier {
    pub fn new(sizes: Sizes, classes: usize, device: &Device) -> Self {
        Self {
            encoder: Encoder::new(sizes, device),
            head: LinearConfig::new(sizes.width, classes).init(device),
        }
    }

    pub fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<2> {
        self.head.forward(self.encoder.forward(tokens))
    }
}

/// The pipeline: one encoder, and a logistic regression and a forest on what it gives.
#[derive(Module, Debug)]
pub struct Text {
    pub encoder: Encoder,
    pub logistic: Linear,
    pub forest: ForestModule,
}

impl Text {
    /// The probability of the second class, `[rows, 1]`, by the logistic regression.
    pub fn by_regression(&self, tokens: Tensor<2, Int>) -> Tensor<2> {
        activation::sigmoid(self.logistic.forward(self.encoder.forward(tokens)))
    }

    /// The same by the forest.
    pub fn by_forest(&self, tokens: Tensor<2, Int>) -> Result<Tensor<2>> {
        self.forest.forward(self.encoder.forward(tokens))
    }
}
