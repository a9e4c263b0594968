//! ONNX's own operators.

use super::super::super::{ErrorKind, ImportError};
use super::super::{error::at, proto::TensorProto};
use super::{Reader, Source, Value, tensors};
use crate::graph::{Binary, Compare, Distance, Dtype, Elements, Operator, Reduction, Tensor, Unary};

fn unary(name: &str) -> Option<Unary> {
    Some(match name {
        "Abs" => Unary::Abs,
        "Ceil" => Unary::Ceil,
        "Cos" => Unary::Cos,
        "Erf" => Unary::Erf,
        "Exp" => Unary::Exp,
        "Floor" => Unary::Floor,
        "IsNaN" => Unary::IsNan,
        "Log" => Unary::Log,
        "Neg" => Unary::Negate,
        "Not" => Unary::Not,
        "Reciprocal" => Unary::Reciprocal,
        "Relu" => Unary::Relu,
        "Round" => Unary::Round,
        "Sigmoid" => Unary::Sigmoid,
        "Sign" => Unary::Sign,
        "Sin" => Unary::Sin,
        "Sqrt" => Unary::Sqrt,
        "Tanh" => Unary::Tanh,
        _ => return None,
    })
}

fn binary(name: &str) -> Option<Binary> {
    Some(match name {
        "Add" | "Sum" => Binary::Add,
        "Sub" => Binary::Subtract,
        "Mul" => Binary::Multiply,
        "Div" => Binary::Divide,
        "Pow" => Binary::Power,
        "Min" => Binary::Minimum,
        "Max" => Binary::Maximum,
        "And" => Binary::And,
        "Or" => Binary::Or,
        "Xor" => Binary::Xor,
        "Mod" => Binary::Modulo,
        _ => return None,
    })
}

fn compare(name: &str) -> Option<Compare> {
    Some(match name {
        "Equal" => Compare::Equal,
        "Less" => Compare::Less,
        "LessOrEqual" => Compare::LessOrEqual,
        "Greater" => Compare::Greater,
        "GreaterOrEqual" => Compare::GreaterOrEqual,
        _ => return None,
    })
}

fn reduction(name: &str) -> Option<Reduction> {
    Some(match name {
        "ReduceSum" => Reduction::Sum,
        "ReduceMean" => Reduction::Mean,
        "ReduceProd" => Reduction::Product,
        "ReduceMin" => Reduction::Minimum,
        "ReduceMax" => Reduction::Maximum,
        "ReduceL1" => Reduction::L1,
        "ReduceL2" => Reduction::L2,
        "ReduceSumSquare" => Reduction::SumOfSquares,
        "ReduceLogSumExp" => Reduction::LogSumExp,
        _ => return None,
    })
}

impl Reader<'_> {
    /// Adds an operator of ONNX's own domain, and returns its results.
    pub(super) fn standard(&mut self, source: &mut Source<'_>) -> Result<Vec<Value>, ImportError> {
        if let Some(found) = self.elementwise(source)? {
            return Ok(vec![found]);
        }
        let name = &source.node.op_type[..];
        if let Some(how) = reduction(name) {
            return Ok(vec![self.reduce(source, how)?]);
        }
        let axis = source.attributes.int("axis");
        let found = match name {
            "Identity" | "Dropout" => source.operand(0)?,
            "Constant" => {
                let tensor = self.constant_node(source)?;
                self.weight(tensor)
            }
            "Cast" => {
                let to = source.attributes.int("to").unwrap_or(0) as i32;
                let to = tensors::dtype(to).ok_or_else(|| source.unsupported(" to this type"))?;
                let x = source.operand(0)?;
                self.cast(source, x, to)
            }
            "MatMul" => {
                let (a, b) = (source.operand(0)?, source.operand(1)?);
                self.add(source, Operator::MatMul, &[a, b], a.dtype)
            }
            "Gemm" => self.gemm(source)?,
            "Where" => {
                let operands = [source.operand(0)?, source.operand(1)?, source.operand(2)?];
                self.add(source, Operator::Where, &operands, operands[1].dtype)
            }
            "Clip" => self.clip(source)?,
            "Softmax" => {
                let x = source.operand(0)?;
                self.add(source, Operator::Softmax { axis: axis.unwrap_or(-1) }, &[x], x.dtype)
            }
            "ArgMax" | "ArgMin" => self.arg_extreme(source, axis.unwrap_or(0))?,
            "TopK" => return self.top_k(source, axis.unwrap_or(-1)),
            "Gather" => {
                let (x, indices) = (source.operand(0)?, source.operand(1)?);
                self.add(source, Operator::Gather { axis: axis.unwrap_or(0) }, &[x, indices], x.dtype)
            }
            "GatherElements" => {
                let (x, indices) = (source.operand(0)?, source.operand(1)?);
                let operator = Operator::GatherElements { axis: axis.unwrap_or(0) };
                self.add(source, operator, &[x, indices], x.dtype)
            }
            "Concat" => {
                let all = source.operands.clone();
                let dtype = source.operand(0)?.dtype;
                let axis = axis.ok_or_else(|| source.unsupported(" without an axis"))?;
                self.add(source, Operator::Concat { axis }, &all, dtype)
            }
            "Reshape" => self.reshape(source)?,
            "Flatten" => {
                let x = source.operand(0)?;
                let lengths = match axis.unwrap_or(1) {
                    0 => vec![1, -1],
                    1 => vec![0, -1],
                    _ => return Err(source.unsupported(" at another axis than 0 and 1")),
                };
                self.add(source, Operator::Reshape(lengths), &[x], x.dtype)
            }
            "Transpose" => self.transpose(source)?,
            "Slice" => self.slice(source)?,
            "Split" => return self.split(source, axis.unwrap_or(0)),
            "Tile" => self.tile(source)?,
            "Squeeze" | "Unsqueeze" => {
                let axes = self.axes(source)?;
                let x = source.operand(0)?;
                let operator =
                    if name == "Squeeze" { Operator::Squeeze(axes) } else { Operator::Unsqueeze(axes) };
                self.add(source, operator, &[x], x.dtype)
            }
            "Shape" => {
                let x = source.operand(0)?;
                self.add(source, Operator::Shape, &[x], Dtype::I64)
            }
            "ConstantOfShape" => self.constant_of_shape(source)?,
            "CumSum" => self.cumulative_sum(source)?,
            "LpNormalization" => self.lp_normalization(source, axis.unwrap_or(-1))?,
            "Mean" => self.mean(source)?,
            _ => match self.texts(source)? {
                Some(found) => found,
                None => match self.networks(source)? {
                    Some(found) => found,
                    None => self.by_index(source, axis)?,
                },
            },
        };
        Ok(vec![found])
    }

    /// Adds an operator that computes element by element, or returns `None` for another operator.
    fn elementwise(&mut self, source: &mut Source<'_>) -> Result<Option<Value>, ImportError> {
        let name = &source.node.op_type[..];
        if let Some(how) = unary(name) {
            let x = source.operand(0)?;
            let dtype = if how == Unary::IsNan { Dtype::Bool } else { x.dtype };
            return Ok(Some(self.add(source, Operator::Unary(how), &[x], dtype)));
        }
        if let Some(how) = compare(name) {
            let operands = [source.operand(0)?, source.operand(1)?];
            return Ok(Some(self.add(source, Operator::Compare(how), &operands, Dtype::Bool)));
        }
        let Some(how) = binary(name) else { return Ok(None) };
        if how == Binary::Modulo && source.attributes.int("fmod").unwrap_or(0) != 0 {
            return Err(source.unsupported(" with the sign of the dividend"));
        }
        // `Sum`, `Min` and `Max` take any number of operands.
        let mut so_far = source.operand(0)?;
        if !matches!(name, "Sum" | "Min" | "Max") {
            source.operand(1)?;
        }
        for other in source.operands[1..].iter().copied() {
            so_far = self.add(source, Operator::Binary(how), &[so_far, other], so_far.dtype);
        }
        Ok(Some(so_far))
    }

    /// Adds a reduction.
    fn reduce(&mut self, source: &mut Source<'_>, how: Reduction) -> Result<Value, ImportError> {
        let axes = self.axes(source)?;
        let keep = source.attributes.int("keepdims").unwrap_or(1) != 0;
        let nothing = source.attributes.int("noop_with_empty_axes").unwrap_or(0) != 0;
        let x = source.operand(0)?;
        if axes.is_empty() && nothing {
            return Ok(x);
        }
        Ok(self.add(source, Operator::Reduce { how, axes, keep }, &[x], x.dtype))
    }

    /// Adds the maximum of the operand and a lower bound, and then the minimum of this and an upper bound.
    fn clip(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        let mut x = source.operand(0)?;
        let bounds = [source.attributes.float("min"), source.attributes.float("max")];
        // An operand that is left out has an empty name, so operands are counted by their names.
        let mut given = source.operands[1..].iter().copied();
        for (at, how) in [(0, Binary::Maximum), (1, Binary::Minimum)] {
            let named = source.node.input.get(at + 1).is_some_and(|name| !name.is_empty());
            let bound = match bounds[at] {
                Some(bound) => {
                    let elements = Elements::of_doubles(x.dtype, vec![f64::from(bound)]);
                    let elements = elements.ok_or_else(|| source.unsupported(" on texts"))?;
                    Some(self.weight(tensors::list(elements)))
                }
                None => given.next().filter(|_| named),
            };
            if let Some(bound) = bound {
                x = self.add(source, Operator::Binary(how), &[x, bound], x.dtype);
            }
        }
        Ok(x)
    }

    /// Adds the index of the greatest or the least element along an axis.
    fn arg_extreme(&mut self, source: &mut Source<'_>, axis: i64) -> Result<Value, ImportError> {
        let operator = Operator::ArgExtreme {
            axis,
            keep: source.attributes.int("keepdims").unwrap_or(1) != 0,
            greatest: source.node.op_type == "ArgMax",
            last: source.attributes.int("select_last_index").unwrap_or(0) != 0,
        };
        let x = source.operand(0)?;
        Ok(self.add(source, operator, &[x], Dtype::I64))
    }

    /// Adds the greatest or the least elements along an axis, and their indices.
    fn top_k(&mut self, source: &mut Source<'_>, axis: i64) -> Result<Vec<Value>, ImportError> {
        if source.attributes.int("sorted") == Some(0) {
            return Err(source.unsupported(" without order"));
        }
        let k = source.operand(1)?;
        let k = self.integers(source, k, "a number of elements")?;
        let k = k.first().and_then(|k| usize::try_from(*k).ok());
        let k = k.ok_or_else(|| source.unsupported(" of a negative number of elements"))?;
        let greatest = source.attributes.int("largest").unwrap_or(1) != 0;
        let x = source.operand(0)?;
        let operator = Operator::TopK { axis, k, greatest };
        let values = self.add(source, operator, &[x], x.dtype);
        Ok(vec![values, second(values, Dtype::I64)])
    }

    /// Adds the same elements in another shape, which the second operand holds.
    fn reshape(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        let (x, shape) = (source.operand(0)?, source.operand(1)?);
        if self.graph.weight_of(shape.operand).is_none() {
            return Ok(self.add(source, Operator::ReshapeAs, &[x, shape], x.dtype));
        }
        let mut lengths = self.integers(source, shape, "a shape")?;
        if source.attributes.int("allowzero").unwrap_or(0) != 0 && lengths.contains(&0) {
            return Err(source.unsupported(" to a shape without elements"));
        }
        lengths.truncate(MOST_DIMENSIONS + 1);
        if lengths.len() > MOST_DIMENSIONS {
            return Err(source.unsupported(&format!(" to more than {MOST_DIMENSIONS} dimensions")));
        }
        Ok(self.add(source, Operator::Reshape(lengths), &[x], x.dtype))
    }

    /// Adds the operand with its dimensions in another order, which is the reverse one if the node does not name it.
    fn transpose(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        let x = source.operand(0)?;
        let order = source.attributes.ints("perm");
        let order = order.into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>();
        let order = order.map_err(|_| source.unsupported(" in an order with numbers below 0"))?;
        let order = match order.is_empty() {
            true => (0..self.shape(source, x)?.len()).rev().collect(),
            false => order,
        };
        Ok(self.add(source, Operator::Transpose(order), &[x], x.dtype))
    }

    /// Adds a tensor that repeats one element. The operand is its shape.
    fn constant_of_shape(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        let value = source.attributes.raw_tensor("value")?;
        let with = match value {
            Some(value) => tensors::tensor(&value, source.location)?.into_elements(),
            None => Elements::F32(vec![0.0]),
        };
        let (x, dtype) = (source.operand(0)?, with.dtype());
        // skl2onnx writes lengths as floats if rows are floats.
        let x = self.cast(source, x, Dtype::I64);
        Ok(self.add(source, Operator::Fill(with), &[x], dtype))
    }

    /// Adds the cumulative sums along an axis.
    fn cumulative_sum(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        if [source.attributes.int("exclusive"), source.attributes.int("reverse")]
            .iter()
            .any(|of| of.unwrap_or(0) != 0)
        {
            return Err(source.unsupported(" backwards or without the element itself"));
        }
        let (x, axis) = (source.operand(0)?, source.operand(1)?);
        let axes = self.integers(source, axis, "an axis")?;
        let axis = axes.first().copied().ok_or_else(|| source.unsupported(" without an axis"))?;
        Ok(self.add(source, Operator::CumulativeSum { axis }, &[x], x.dtype))
    }

    /// Adds the elements divided by their norm along an axis.
    fn lp_normalization(&mut self, source: &mut Source<'_>, axis: i64) -> Result<Value, ImportError> {
        let how = match source.attributes.int("p").unwrap_or(2) {
            1 => Reduction::L1,
            2 => Reduction::L2,
            other => return Err(source.unsupported(&format!(" with the norm {other}"))),
        };
        let x = source.operand(0)?;
        self.normalized(source, x, how, axis)
    }

    /// Adds the mean of all operands, element by element.
    fn mean(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        let mut so_far = source.operand(0)?;
        for other in source.operands[1..].iter().copied() {
            so_far = self.add(source, Operator::Binary(Binary::Add), &[so_far, other], so_far.dtype);
        }
        let count = Elements::of_doubles(so_far.dtype, vec![source.operands.len() as f64]);
        let count = self.weight(tensors::list(count.ok_or_else(|| source.unsupported(" on texts"))?));
        Ok(self.add(source, Operator::Binary(Binary::Divide), &[so_far, count], so_far.dtype))
    }

    /// Adds an operator of ONNX Runtime's own domain.
    pub(super) fn contributed(&mut self, source: &mut Source<'_>) -> Result<Vec<Value>, ImportError> {
        if let Some(found) = self.texts(source)? {
            return Ok(vec![found]);
        }
        if source.node.op_type == "Solve" {
            return Ok(vec![self.solve(source)?]);
        }
        if source.node.op_type != "CDist" {
            return Err(source.unsupported(&format!(" of the domain {:?}", source.node.domain)));
        }
        let how = match source.attributes.string("metric").as_deref() {
            None | Some("sqeuclidean") => Distance::SquaredEuclidean,
            Some("euclidean") => Distance::Euclidean,
            Some("cityblock" | "manhattan") => Distance::Manhattan,
            Some("chebyshev") => Distance::Chebyshev,
            Some(other) => return Err(source.unsupported(&format!(" with the metric {other:?}"))),
        };
        let (a, b) = (source.operand(0)?, source.operand(1)?);
        Ok(vec![self.add(source, Operator::Distances(how), &[a, b], a.dtype)])
    }

    /// Returns an operator's axes, which newer versions take as an operand.
    fn axes(&self, source: &mut Source<'_>) -> Result<Vec<i64>, ImportError> {
        let axes = source.attributes.ints("axes");
        match source.operands.get(1) {
            Some(operand) => self.integers(source, *operand, "axes"),
            None => Ok(axes),
        }
    }

    fn constant_node(&mut self, source: &mut Source<'_>) -> Result<Tensor, ImportError> {
        if let Some(tensor) = source.attributes.raw_tensor("value")? {
            return tensors::tensor(&tensor, source.location);
        }
        if let Some(value) = source.attributes.float("value_float") {
            return Ok(scalar(Elements::F32(vec![value])));
        }
        if let Some(value) = source.attributes.int("value_int") {
            return Ok(scalar(Elements::I64(vec![value])));
        }
        let integers = source.attributes.ints("value_ints");
        if !integers.is_empty() {
            return Ok(tensors::list(Elements::I64(integers)));
        }
        Err(at(ErrorKind::Schema, source.location, "a constant without a tensor"))
    }

    fn gemm(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        let (mut a, mut b) = (source.operand(0)?, source.operand(1)?);
        for (value, name) in [(&mut a, "transA"), (&mut b, "transB")] {
            if source.attributes.int(name).unwrap_or(0) != 0 {
                *value = self.add(source, Operator::Transpose(vec![1, 0]), &[*value], value.dtype);
            }
        }
        let product = self.add(source, Operator::MatMul, &[a, b], a.dtype);
        let product = self.scaled(source, product, "alpha")?;
        match source.operands.get(2).copied() {
            Some(c) => {
                let c = self.scaled(source, c, "beta")?;
                Ok(self.add(source, Operator::Binary(Binary::Add), &[product, c], a.dtype))
            }
            None => Ok(product),
        }
    }

    /// Returns a value times an attribute, which counts as 1 if it is absent.
    fn scaled(&mut self, source: &mut Source<'_>, x: Value, name: &str) -> Result<Value, ImportError> {
        let by = f64::from(source.attributes.float(name).unwrap_or(1.0));
        if by == 1.0 {
            return Ok(x);
        }
        let by = Elements::of_doubles(x.dtype, vec![by]).ok_or_else(|| source.unsupported(" on texts"))?;
        let by = self.weight(tensors::list(by));
        Ok(self.add(source, Operator::Binary(Binary::Multiply), &[x, by], x.dtype))
    }

    /// Returns what is known of a value's shape.
    fn shape(&mut self, source: &Source<'_>, x: Value) -> Result<Vec<Option<usize>>, ImportError> {
        if let Some(weight) = self.graph.weight_of(x.operand) {
            return Ok(weight.shape().iter().map(|length| Some(*length)).collect());
        }
        // Each search goes through all nodes so far.
        self.searches += 1;
        if self.searches > MOST_SEARCHES {
            return Err(
                source.unsupported(&format!(" where more than {MOST_SEARCHES} shapes have to be found"))
            );
        }
        // The graph has no output yet, so it is asked for the types of its nodes with one.
        let mut graph = self.graph.clone();
        graph.output("x", x.operand);
        let types = graph.types().map_err(|e| at(ErrorKind::Structure, e.location, e.cause))?;
        let shape = types.of(x.operand).shape.clone();
        shape.ok_or_else(|| source.unsupported(" of a tensor whose number of dimensions is not known"))
    }

    /// Adds a slice for each of the parts of an axis.
    fn split(&mut self, source: &mut Source<'_>, axis: i64) -> Result<Vec<Value>, ImportError> {
        let x = source.operand(0)?;
        let attribute = source.attributes.ints("split");
        let lengths = match source.operands.get(1) {
            Some(operand) => self.integers(source, *operand, "lengths")?,
            None => attribute,
        };
        let count = source.node.output.len();
        let lengths = match lengths.is_empty() {
            false => lengths,
            true => {
                let shape = self.shape(source, x)?;
                let at = if axis < 0 { axis + shape.len() as i64 } else { axis };
                let length = usize::try_from(at).ok().and_then(|at| shape.get(at).copied().flatten());
                let length =
                    length.ok_or_else(|| source.unsupported(" of an axis whose length is not known"))?;
                // The last part is shorter if they can't be equal.
                let each = length.div_ceil(count.max(1));
                (0..count).map(|n| each.min(length.saturating_sub(n * each)) as i64).collect()
            }
        };
        if lengths.len() != count || lengths.iter().any(|length| *length < 0) {
            return Err(source.unsupported(&format!(" into {count} parts of lengths {lengths:?}")));
        }
        let mut start = 0i64;
        let mut parts = Vec::with_capacity(count);
        for length in lengths {
            let end = start.saturating_add(length);
            parts.push(self.add(source, Operator::Slice { axis, start, end, step: 1 }, &[x], x.dtype));
            start = end;
        }
        Ok(parts)
    }

    /// Adds the copies of a list, one after the other.
    fn tile(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        let (x, repeats) = (source.operand(0)?, source.operand(1)?);
        if self.shape(source, x)?.len() != 1 {
            return Err(source.unsupported(" of more than one dimension"));
        }
        // A row for each copy, of which a choice between equal elements makes copies.
        let one = self.weight(tensors::list(Elements::I64(vec![1])));
        let repeats = self.cast(source, repeats, Dtype::I64);
        let shape = self.add(source, Operator::Concat { axis: 0 }, &[repeats, one], Dtype::I64);
        let rows = self.add(source, Operator::Fill(Elements::Bool(vec![true])), &[shape], Dtype::Bool);
        let copies = self.add(source, Operator::Where, &[rows, x, x], x.dtype);
        Ok(self.add(source, Operator::Reshape(vec![-1]), &[copies], x.dtype))
    }

    fn slice(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        let mut x = source.operand(0)?;
        let mut lists = Vec::new();
        for (at, name) in ["starts", "ends", "axes", "steps"].into_iter().enumerate() {
            let attribute = source.attributes.ints(name);
            lists.push(match source.operands.get(at + 1) {
                Some(operand) => self.integers(source, *operand, name)?,
                None => attribute,
            });
        }
        let [starts, ends, axes, steps] = &lists[..] else { unreachable!("four lists") };
        if starts.len() != ends.len() || starts.len() > MOST_DIMENSIONS {
            return Err(source.unsupported(&format!(
                " with {} starts and {} ends",
                starts.len(),
                ends.len()
            )));
        }
        for (at, (start, end)) in starts.iter().zip(ends).enumerate() {
            let axis = axes.get(at).copied().unwrap_or(at as i64);
            let step = steps.get(at).copied().unwrap_or(1);
            let operator = Operator::Slice { axis, start: *start, end: *end, step };
            x = self.add(source, operator, &[x], x.dtype);
        }
        Ok(x)
    }
}

/// The maximum number of dimensions of a tensor.
const MOST_DIMENSIONS: usize = 16;
/// The maximum number of times that a shape is searched for in a file.
const MOST_SEARCHES: u32 = 256;

/// Returns the second result of the node whose first result is `first`.
pub(super) fn second(first: Value, dtype: Dtype) -> Value {
    let operand = match first.operand {
        crate::graph::Operand::Node(at, _) => crate::graph::Operand::Node(at, 1),
        other => other,
    };
    Value { operand, dtype }
}

fn scalar(elements: Elements) -> Tensor {
    Tensor::new(Vec::new(), elements).expect("a scalar has one element")
}

impl super::Attributes {
    /// Returns a tensor, or `None` if the attribute is absent.
    fn raw_tensor(&mut self, name: &str) -> Result<Option<TensorProto>, ImportError> {
        let location = self.path(name);
        self.message(name).map(|bytes| super::proto::decode(bytes, &location)).transpose()
    }
}
