//! Operators of networks: convolutions, pooling and normalization.

use super::super::super::ImportError;
use super::{Reader, Source, Value, tensors};
use crate::graph::{Binary, Elements, Operand, Operator, Pool, Pooling, Reduction, Tensor, Unary, Window};

/// The maximum number of nodes that are visited to find a number of dimensions.
const MOST_VISITS: usize = 64;

impl Reader<'_> {
    /// Adds an operator of networks. Returns `None` for any other operator.
    pub(super) fn networks(&mut self, source: &mut Source<'_>) -> Result<Option<Value>, ImportError> {
        let name = &source.node.op_type[..];
        let operator = match name {
            "Gelu" => {
                if let Some(how) = source.attributes.string("approximate").filter(|how| how != "none") {
                    return Err(source.unsupported(&format!(" with the approximation {how:?}")));
                }
                Operator::Unary(Unary::Gelu)
            }
            "Conv" => {
                let size =
                    match source.operands.get(1).and_then(|weight| self.graph.weight_of(weight.operand)) {
                        Some(weight) => weight.shape().get(2..).unwrap_or_default().to_vec(),
                        None => lengths(source, "kernel_shape", &[])?,
                    };
                let window = window(source, size.len())?;
                let groups = source.attributes.int("group").unwrap_or(1);
                let groups = usize::try_from(groups).map_err(|_| source.unsupported(" of no group"))?;
                Operator::Convolve { window, groups }
            }
            "MaxPool" | "AveragePool" => {
                let size = lengths(source, "kernel_shape", &[])?;
                let window = window(source, size.len())?;
                if ["ceil_mode", "storage_order"]
                    .iter()
                    .any(|name| source.attributes.int(name).unwrap_or(0) != 0)
                {
                    return Err(source.unsupported(" with sizes that are rounded up, or indices in columns"));
                }
                let how = match (name, source.attributes.int("count_include_pad").unwrap_or(0)) {
                    ("MaxPool", _) => Pooling::Greatest,
                    (_, 0) => Pooling::Mean,
                    _ => Pooling::MeanWithPadding,
                };
                let size =
                    size.try_into().map_err(|_| source.unsupported(" of other than two dimensions"))?;
                Operator::Pool(Pool { size, window, how })
            }
            "GlobalAveragePool" => Operator::Reduce { how: Reduction::Mean, axes: vec![2, 3], keep: true },
            "GlobalMaxPool" => Operator::Reduce { how: Reduction::Maximum, axes: vec![2, 3], keep: true },
            "BatchNormalization" => return self.batch_norm(source).map(Some),
            "LayerNormalization" => return self.layer_norm(source).map(Some),
            _ => return Ok(None),
        };
        let operands = source.operands.clone();
        let x = source.operand(0)?;
        Ok(Some(self.add(source, operator, &operands, x.dtype)))
    }

    /// Adds the normalization of channels by known means and variances: a factor and a term for each channel.
    fn batch_norm(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        if source.attributes.int("training_mode").unwrap_or(0) != 0 {
            return Err(source.unsupported(" while training; export the network for inference"));
        }
        let x = source.operand(0)?;
        let epsilon = f64::from(source.attributes.float("epsilon").unwrap_or(1e-5));
        let mut lists = Vec::with_capacity(4);
        for at in 1..5 {
            let value = source.operand(at)?;
            let list = self.constant(source, value, "numbers of channels")?.elements().doubles();
            lists.push(list.ok_or_else(|| source.unsupported(" on texts"))?);
        }
        let [scale, bias, mean, variance] = &lists[..] else { unreachable!("four lists") };
        let dimensions = self.dimensions(x.operand).filter(|dimensions| *dimensions >= 2);
        let Some(dimensions) = dimensions.filter(|_| lists.iter().all(|list| list.len() == scale.len()))
        else {
            let remedy = " of a tensor whose dimensions are not known; fold it into the layer before it";
            return Err(source.unsupported(remedy));
        };
        let factors: Vec<f64> = scale.iter().zip(variance).map(|(s, v)| s / (v + epsilon).sqrt()).collect();
        let terms = bias.iter().zip(mean).zip(&factors).map(|((b, m), f)| b - m * f).collect();
        // Channels are the second dimension.
        let shape = [&[factors.len()][..], &vec![1; dimensions - 2]].concat();
        let mut found = x;
        for (how, numbers) in [(Binary::Multiply, factors), (Binary::Add, terms)] {
            let elements = Elements::of_doubles(x.dtype, numbers);
            let tensor = elements.and_then(|elements| Tensor::new(shape.clone(), elements));
            let weight = self.weight(tensor.ok_or_else(|| source.unsupported(" of these numbers"))?);
            found = self.add(source, Operator::Binary(how), &[found, weight], x.dtype);
        }
        Ok(found)
    }

    fn layer_norm(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        let (x, scale) = (source.operand(0)?, source.operand(1)?);
        let axis = source.attributes.int("axis").unwrap_or(-1);
        let last = self.dimensions(x.operand).map(|dimensions| dimensions as i64 - 1);
        if axis != -1 && Some(axis) != last {
            return Err(source.unsupported(" over more than the last axis"));
        }
        let epsilon = f64::from(source.attributes.float("epsilon").unwrap_or(1e-5));
        let bias = match source.operands.get(2).copied() {
            Some(bias) => bias,
            None => {
                let width = self.constant(source, scale, "a scale")?.elements().len();
                let zeros = Elements::of_doubles(x.dtype, vec![0.0; width]);
                self.weight(tensors::list(zeros.ok_or_else(|| source.unsupported(" on texts"))?))
            }
        };
        Ok(self.add(source, Operator::LayerNorm { epsilon }, &[x, scale, bias], x.dtype))
    }

    /// Returns the number of dimensions of a value, if the nodes before it determine it.
    fn dimensions(&self, operand: Operand) -> Option<usize> {
        let (mut most, mut open) = (0, vec![operand]);
        for _ in 0..MOST_VISITS {
            let Some(operand) = open.pop() else { return Some(most) };
            let found = match operand {
                Operand::Input(at) => self.graph.inputs.get(at as usize)?.shape.len(),
                Operand::Weight(at) => self.graph.weights.get(at as usize)?.shape().len(),
                Operand::Node(at, _) => {
                    let node = self.graph.nodes.get(at as usize)?;
                    match &node.operator {
                        Operator::Convolve { .. } | Operator::Pool(_) => 4,
                        Operator::Reshape(lengths) => lengths.len(),
                        Operator::Unary(_) | Operator::LayerNorm { .. } => {
                            open.push(*node.operands.first()?);
                            continue;
                        }
                        // The longer shape is that of the result.
                        Operator::Binary(_) | Operator::MatMul => {
                            open.extend(&node.operands);
                            continue;
                        }
                        _ => return None,
                    }
                }
            };
            most = most.max(found);
        }
        None
    }
}

/// Returns a list of lengths of an attribute, or `absent`.
fn lengths(source: &mut Source<'_>, name: &str, absent: &[usize]) -> Result<Vec<usize>, ImportError> {
    let found = source.attributes.ints(name);
    if found.is_empty() {
        return Ok(absent.to_vec());
    }
    let found = found.into_iter().map(usize::try_from).collect::<Result<_, _>>();
    found.map_err(|_| source.unsupported(&format!(" with {name} below 0")))
}

/// Returns how a window of this number of dimensions moves.
fn window(source: &mut Source<'_>, dimensions: usize) -> Result<Window, ImportError> {
    if dimensions != 2 {
        return Err(source.unsupported(" of other than two dimensions"));
    }
    if let Some(how) = source.attributes.string("auto_pad").filter(|how| how != "NOTSET" && how != "VALID") {
        return Err(source.unsupported(&format!(" with auto_pad {how:?}; export the network with pads")));
    }
    let strides = lengths(source, "strides", &[1; 2])?.try_into();
    let dilations = lengths(source, "dilations", &[1; 2])?.try_into();
    let padding = lengths(source, "pads", &[0; 4])?.try_into();
    match (strides, padding, dilations) {
        (Ok(strides), Ok(padding), Ok(dilations)) => Ok(Window { strides, padding, dilations }),
        _ => Err(source.unsupported(" whose attributes have other than two dimensions")),
    }
}
