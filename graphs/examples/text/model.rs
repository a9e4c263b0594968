//! A transformer encoder of the size of BERT-tiny, and two classifiers of its sentence vectors.

use std::sync::Arc;

use burn::{
    module::{Initializer, Module, Param},
    nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig},
    tensor::{Device, Int, Tensor, activation, module::linear},
};
use fangorn_graphs::{
    Result,
    fangorn::graph::{Binary, Dtype, Graph, Operand, Operator, Unary},
    forest::ForestModule,
};

use crate::{
    gelu::gelu,
    stages::{self, Layers},
};

/// The sizes of an encoder.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Different tokens.
    pub vocabulary: usize,
    /// Tokens of a sentence.
    pub length: usize,
    /// Values of the vector that stands for a token.
    pub width: usize,
    /// Heads of each attention.
    pub heads: usize,
    /// Values between the two linear layers after an attention.
    pub inner: usize,
    /// Layers, each with one attention.
    pub layers: usize,
}

impl Sizes {
    /// The sizes of BERT-tiny, with a vocabulary and sentences of the example's size.
    pub const TINY: Self = Self { vocabulary: 4000, length: 32, width: 128, heads: 2, inner: 512, layers: 2 };
}

/// A transformer layer: an attention, then two linear layers. Each half adds its input to its result and
/// normalizes the sum.
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
    pub fn new(sizes: Sizes, device: &Device) -> Self {
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

    /// Computes all tokens of all sentences, `[rows * length, width]` to the same shape, with one product for
    /// all sentences.
    pub fn forward(&self, x: Tensor<2>, length: usize) -> Tensor<2> {
        let [tokens, width] = x.dims();
        let joint = self.attend.forward(x.clone());
        let joint =
            joint.reshape([tokens / length, length, 3 * self.heads, width / self.heads]).swap_dims(1, 2);
        // The products read queries, keys and values in place. burn's `attention` would copy them.
        let third = |n: usize| joint.clone().narrow(1, n * self.heads, self.heads);
        let seen = self.weights(third(0).matmul(third(1).swap_dims(2, 3))).matmul(third(2));
        self.after(seen.swap_dims(1, 2).reshape([tokens, width]), x)
    }

    /// Computes only the first token of each sentence, which attends to all tokens: `[rows * length, width]`
    /// to `[rows, width]`.
    ///
    /// The function makes no keys and no values of single tokens. It multiplies the query by the weight of
    /// the keys and then by the tokens, and the weighted sum of the tokens by the weight of the values. It
    /// leaves out the bias of the keys, which adds the same number to all products of a query, so that the
    /// softmax cancels it.
    pub fn first(&self, x: Tensor<2>, length: usize) -> Tensor<2> {
        let [tokens, width] = x.dims();
        let (rows, size) = (tokens / length, width / self.heads);
        let x = x.reshape([rows, length, width]);
        let first = x.clone().narrow(1, 0, 1).reshape([rows, width]);
        let (weight, bias) = (self.attend.weight.val(), self.attend.bias.as_ref().map(|bias| bias.val()));
        let third = |n: usize, head: usize| {
            let from = n * width + head * size;
            (weight.clone().narrow(1, from, size), bias.clone().map(|bias| bias.narrow(0, from, size)))
        };
        let seen = (0..self.heads).map(|head| {
            let ((query, query_bias), (key, _), (value, value_bias)) =
                (third(0, head), third(1, head), third(2, head));
            let query = linear(first.clone(), query, query_bias).matmul(key.transpose());
            let weights = self.weights(query.unsqueeze_dim::<3>(1).matmul(x.clone().swap_dims(1, 2)));
            linear(weights.matmul(x.clone()).reshape([rows, width]), value, value_bias)
        });
        self.after(Tensor::cat(seen.collect(), 1), first)
    }

    /// Returns the weight of each token for a query, from the query's products with the keys.
    fn weights<const D: usize>(&self, products: Tensor<D>) -> Tensor<D> {
        let [width, _] = self.join.weight.dims();
        activation::softmax(products.mul_scalar(((width / self.heads) as f64).powf(-0.5)), D - 1)
    }

    /// Computes the rest of the layer, after the attention. `seen` is the result of the heads, `x` the layer's
    /// input.
    fn after(&self, seen: Tensor<2>, x: Tensor<2>) -> Tensor<2> {
        let x = self.attended.forward(self.join.forward(seen) + x);
        self.narrowed.forward(self.narrow.forward(gelu(&self.widen, x.clone())) + x)
    }
}

/// Encodes sentences of tokens, `[rows, length]`, as one vector each, `[rows, width]`.
#[derive(Module, Debug)]
pub struct Encoder {
    tokens: Embedding,
    /// A vector for each index of a token in its sentence. Saved pipelines hold this name.
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
        // The first token stands for the sentence, so the last layer computes only that token.
        self.pooler.forward(self.last.first(x, length)).tanh()
    }
}

/// The model that burn trains: the encoder under a linear layer, which is dropped after training.
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

/// The pipeline: one encoder, with a logistic regression and a forest on its vectors.
#[derive(Module, Debug)]
pub struct Text {
    pub encoder: Encoder,
    pub logistic: Linear,
    pub forest: ForestModule,
}

impl Text {
    /// Returns the probability of the second class by the logistic regression, `[rows, 1]`.
    pub fn by_regression(&self, tokens: Tensor<2, Int>) -> Tensor<2> {
        activation::sigmoid(self.logistic.forward(self.encoder.forward(tokens)))
    }

    /// Returns the probability of the second class by the forest, `[rows, 1]`.
    pub fn by_forest(&self, tokens: Tensor<2, Int>) -> Result<Tensor<2>> {
        self.forest.forward(self.encoder.forward(tokens))
    }
}

/// The pipeline as one graph.
impl Text {
    /// Returns one head with its encoder.
    pub fn graph(&self, head: &str) -> stages::Result<Graph> {
        let mut layers = Layers::default();
        let [length, _] = self.encoder.places.dims();
        let tokens = layers.graph.input("tokens", Dtype::I32, [None, Some(length)]);
        let mut x = layers.embedding(self.encoder.tokens.weight.val(), tokens)?;
        let of_indices = layers.weight(self.encoder.places.val())?;
        x = layers.add(x, of_indices);
        x = layers.norm(&self.encoder.norm, x)?;
        for layer in &self.encoder.layers {
            x = layer.nodes(&mut layers, x, length)?;
        }
        // The first token stands for the sentence, so the last layer computes only that token.
        x = self.encoder.last.nodes(&mut layers, x, 1)?;
        x = layers.node(Operator::Reshape(vec![0, -1]), [x]);
        x = layers.linear(&self.encoder.pooler, x)?;
        x = layers.node(Operator::Unary(Unary::Tanh), [x]);
        x = match head {
            "forest" => {
                let forest = self.forest.operator()?.forest();
                layers.node(Operator::Forest(Arc::new(forest.clone())), [x])
            }
            _ => {
                let score = layers.linear(&self.logistic, x)?;
                layers.node(Operator::Unary(Unary::Sigmoid), [score])
            }
        };
        layers.graph.output("probability", x);
        Ok(layers.graph)
    }
}

impl Layer {
    /// Adds the layer for the first `tokens` tokens of each sentence: `[rows, length, width]`.
    fn nodes(&self, layers: &mut Layers, x: Operand, tokens: usize) -> stages::Result<Operand> {
        let [width, _] = self.join.weight.dims();
        let (heads, size) = (self.heads as i64, (width / self.heads) as i64);
        let asking = layers.slice(x, 1, (0, tokens));
        // Heads come before tokens.
        let mut third = |from: Operand, n: usize, order: [usize; 4]| -> stages::Result<Operand> {
            let columns = layers.columns_of(&self.attend, from, (n * width, width))?;
            let by_head = layers.node(Operator::Reshape(vec![0, -1, heads, size]), [columns]);
            Ok(layers.node(Operator::Transpose(order.to_vec()), [by_head]))
        };
        let query = third(asking, 0, [0, 2, 1, 3])?;
        let key = third(x, 1, [0, 2, 3, 1])?;
        let value = third(x, 2, [0, 2, 1, 3])?;
        let products = layers.node(Operator::MatMul, [query, key]);
        let factor = layers.floats(&[1], vec![(size as f32).powf(-0.5)])?;
        let products = layers.node(Operator::Binary(Binary::Multiply), [products, factor]);
        let shares = layers.node(Operator::Softmax { axis: -1 }, [products]);
        let seen = layers.node(Operator::MatMul, [shares, value]);
        let seen = layers.node(Operator::Transpose(vec![0, 2, 1, 3]), [seen]);
        let seen = layers.node(Operator::Reshape(vec![0, -1, width as i64]), [seen]);
        let joined = layers.linear(&self.join, seen)?;
        let sum = layers.add(joined, asking);
        let x = layers.norm(&self.attended, sum)?;
        let wide = layers.linear(&self.widen, x)?;
        let wide = layers.node(Operator::Unary(Unary::Gelu), [wide]);
        let narrow = layers.linear(&self.narrow, wide)?;
        let sum = layers.add(narrow, x);
        layers.norm(&self.narrowed, sum)
    }
}
