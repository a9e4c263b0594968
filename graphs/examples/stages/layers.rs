//! Layers of burn as nodes of a graph, with their weights.

use burn::{
    nn::{LayerNorm, Linear, conv::Conv2d},
    tensor::Tensor,
};
use fangorn_graphs::fangorn::graph::{self, Binary, Elements, Graph, Operand, Operator, Reduction, Window};

use super::{Result, arrays};

/// A graph that grows layer by layer.
#[derive(Default)]
pub struct Layers {
    pub graph: Graph,
}

impl Layers {
    /// Adds a node, and returns its first result.
    pub fn node(&mut self, operator: Operator, operands: impl IntoIterator<Item = Operand>) -> Operand {
        let name = format!("{operator}");
        self.graph.node(&name, operator, operands)
    }

    /// Adds a tensor as a weight.
    pub fn weight<const D: usize>(&mut self, tensor: Tensor<D>) -> Result<Operand> {
        let shape = tensor.dims();
        self.floats(&shape, arrays::floats(tensor)?)
    }

    /// Adds floats as a weight.
    pub fn floats(&mut self, shape: &[usize], values: Vec<f32>) -> Result<Operand> {
        let tensor = graph::Tensor::new(shape, Elements::F32(values)).ok_or("another number of elements")?;
        Ok(self.graph.weight(tensor))
    }

    /// Adds a sum.
    pub fn add(&mut self, a: Operand, b: Operand) -> Operand {
        self.node(Operator::Binary(Binary::Add), [a, b])
    }

    /// Adds `count` columns of a linear layer from `first` on: the product with their weights, plus their
    /// bias.
    pub fn columns_of(
        &mut self,
        layer: &Linear,
        x: Operand,
        (first, count): (usize, usize),
    ) -> Result<Operand> {
        let weight = self.weight(layer.weight.val().narrow(1, first, count))?;
        let product = self.node(Operator::MatMul, [x, weight]);
        match &layer.bias {
            Some(bias) => {
                let bias = self.weight(bias.val().narrow(0, first, count))?;
                Ok(self.add(product, bias))
            }
            None => Ok(product),
        }
    }

    /// Adds a linear layer.
    pub fn linear(&mut self, layer: &Linear, x: Operand) -> Result<Operand> {
        let [_, width] = layer.weight.dims();
        self.columns_of(layer, x, (0, width))
    }

    /// Adds the normalization of a layer.
    pub fn norm(&mut self, layer: &LayerNorm, x: Operand) -> Result<Operand> {
        let scale = self.weight(layer.gamma.val())?;
        let bias = match &layer.beta {
            Some(bias) => self.weight(bias.val())?,
            None => self.floats(&layer.gamma.dims(), vec![0.0; layer.gamma.dims()[0]])?,
        };
        // The layers have burn's default epsilon, which no field holds.
        Ok(self.node(Operator::LayerNorm { epsilon: 1e-5 }, [x, scale, bias]))
    }

    /// Adds a convolution with a padding of one pixel on each side.
    pub fn convolution(&mut self, layer: &Conv2d, x: Operand) -> Result<Operand> {
        let window = Window { strides: layer.stride, padding: [1; 4], dilations: layer.dilation };
        let mut operands = vec![x, self.weight(layer.weight.val())?];
        if let Some(bias) = &layer.bias {
            operands.push(self.weight(bias.val())?);
        }
        Ok(self.node(Operator::Convolve { window, groups: layer.groups }, operands))
    }

    /// Adds the rows of a table that have the given numbers: `rows x numbers x width`.
    pub fn embedding<const D: usize>(&mut self, table: Tensor<D>, numbers: Operand) -> Result<Operand> {
        let table = self.weight(table)?;
        Ok(self.node(Operator::Gather { axis: 0 }, [table, numbers]))
    }

    /// Adds the sum over the second of three dimensions.
    pub fn sum(&mut self, x: Operand) -> Operand {
        self.node(Operator::Reduce { how: Reduction::Sum, axes: vec![1], keep: false }, [x])
    }

    /// Adds a slice of an axis.
    pub fn slice(&mut self, x: Operand, axis: i64, (first, count): (usize, usize)) -> Operand {
        let (start, end) = (first as i64, (first + count) as i64);
        self.node(Operator::Slice { axis, start, end, step: 1 }, [x])
    }
}
