//! A transformer encoder of the size of BERT-tiny, and two classifiers of what it says of a sentence.

use burn::{
    module::{Initializer, Module, Param},
    nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig},
    tensor::{Device, Int, Tensor, activation, module::linear},
};
use fangorn_graphs::{Result, forest::ForestModule};

use crate::gelu::gelu;

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

    /// What becomes of all tokens of sentences, `[rows * length, width]`: one product for all of them, not one a sentence.
    fn forward(&self, x: Tensor<2>, length: usize) -> Tensor<2> {
        let [tokens, width] = x.dims();
        let parts = self.attend.forward(x.clone());
        let parts =
            parts.reshape([tokens / length, length, 3 * self.heads, width / self.heads]).swap_dims(1, 2);
        // Products take queries, keys and values where they lie; burn's `attention` makes copies of them.
        let part = |part: usize| parts.clone().narrow(1, part * self.heads, self.heads);
        let seen = self.weights(part(0).matmul(part(1).swap_dims(2, 3))).matmul(part(2));
        self.after(seen.swap_dims(1, 2).reshape([tokens, width]), x)
    }

    /// What becomes of the first token of each sentence, which attends to all: `[rows * length, width]` to `[rows, width]`.
    ///
    /// No other token's key or value is made: the query goes through the keys' weight to the tokens, and what it takes of
    /// them through the values'. The keys' bias would add the same to all that a query is compared with.
    fn first(&self, x: Tensor<2>, length: usize) -> Tensor<2> {
        let [tokens, width] = x.dims();
        let (rows, size) = (tokens / length, width / self.heads);
        let x = x.reshape([rows, length, width]);
        let first = x.clone().narrow(1, 0, 1).reshape([rows, width]);
        let (weight, bias) = (self.attend.weight.val(), self.attend.bias.as_ref().map(|bias| bias.val()));
        let part = |part: usize, head: usize| {
            let from = part * width + head * size;
            (weight.clone().narrow(1, from, size), bias.clone().map(|bias| bias.narrow(0, from, size)))
        };
        let seen = (0..self.heads).map(|head| {
            let ((query, query_bias), (key, _), (value, value_bias)) =
                (part(0, head), part(1, head), part(2, head));
            let query = linear(first.clone(), query, query_bias).matmul(key.transpose());
            let weights = self.weights(query.unsqueeze_dim::<3>(1).matmul(x.clone().swap_dims(1, 2)));
            linear(weights.matmul(x.clone()).reshape([rows, width]), value, value_bias)
        });
        self.after(Tensor::cat(seen.collect(), 1), first)
    }

    /// How much a query takes of each token, from its products with the keys.
    fn weights<const D: usize>(&self, products: Tensor<D>) -> Tensor<D> {
        let [width, _] = self.join.weight.dims();
        activation::softmax(products.mul_scalar(((width / self.heads) as f64).powf(-0.5)), D - 1)
    }

    /// What comes after the attention, from what the heads have seen.
    fn after(&self, seen: Tensor<2>, x: Tensor<2>) -> Tensor<2> {
        let x = self.attended.forward(self.join.forward(seen) + x);
        self.narrowed.forward(self.narrow.forward(gelu(&self.widen, x.clone())) + x)
    }
}

/// Sentences `[rows, length]` of tokens to what is known of each, `[rows, width]`.
#[derive(Module, Debug)]
pub struct Encoder {
    tokens: Embedding,
    places: Param<Tensor<2>>,
    norm: LayerNorm,
    layers: Vec<Layer>,
    last: Layer,
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
            layers: (1..sizes.layers).map(|_| Layer::new(sizes, device)).collect(),
            last: Layer::new(sizes, device),
            pooler: LinearConfig::new(width, width).init(device),
        }
    }

    pub fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<2> {
        let [rows, length] = tokens.dims();
        let x = self.norm.forward(self.tokens.forward(tokens) + self.places.val().unsqueeze());
        let [_, _, width] = x.dims();
        let x = x.reshape([rows * length, width]);
        let x = self.layers.iter().fold(x, |x, layer| layer.forward(x, length));
        // The first token stands for the sentence, and the last layer is asked for no other.
        self.pooler.forward(self.last.first(x, length)).tanh()
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

#[cfg(test)]
mod tests {
    use burn::tensor::Distribution;

    use super::*;

    /// No keys and no values is another way to the same numbers.
    #[test]
    fn a_first_token_is_what_it_is_among_all() {
        let device = Device::flex();
        let sizes = Sizes { vocabulary: 1, length: 5, width: 12, heads: 3, inner: 16, layers: 1 };
        let layer = Layer::new(sizes, &device);
        let (rows, Sizes { length, width, .. }) = (7, sizes);
        let x = Tensor::<2>::random([rows * length, width], Distribution::Normal(0.0, 1.0), &device);
        let all = layer.forward(x.clone(), length).reshape([rows, length, width]).narrow(1, 0, 1);
        let (all, first) = (all.into_data(), layer.first(x, length).into_data());
        let (all, first) = (all.as_slice::<f32>().expect("f32"), first.as_slice::<f32>().expect("f32"));
        assert_eq!(all.len(), first.len());
        for (a, b) in all.iter().zip(first) {
            assert!((a - b).abs() < 1e-5, "{a} and {b}");
        }
    }
}
