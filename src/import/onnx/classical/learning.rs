//! The operators of `ai.onnx.ml`, as ONNX Runtime computes them.

use super::super::super::budget::Budget;
use super::super::super::{ErrorKind, ImportError, Location};
use super::super::error::at;
use super::{Reader, Source, Value, tensors};
use crate::graph::{Binary, Compare, Dtype, Elements, Operator, Reduction, Tensor, Unary};

/// The transform of scores.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum PostTransform {
    None,
    Logistic,
    Softmax,
    /// A softmax that leaves out scores of 0.
    SoftmaxZero,
    /// The quantile of the normal distribution, as ONNX Runtime approximates it. A score outside 0 to 1 has no
    /// quantile.
    Probit,
}

impl Reader<'_> {
    /// Adds an operator of the domain `ai.onnx.ml`, and returns its results.
    pub(super) fn learning(&mut self, source: &mut Source<'_>) -> Result<Vec<Value>, ImportError> {
        let found = match &source.node.op_type[..] {
            "ArrayFeatureExtractor" => self.columns(source)?,
            "Binarizer" => {
                let threshold = source.attributes.float("threshold").unwrap_or(0.0);
                let x = self.single(source)?;
                let threshold = self.floats(vec![threshold]);
                let above = self.compare(source, Compare::Greater, x, threshold);
                self.cast(source, above, Dtype::F32)
            }
            "FeatureVectorizer" => self.feature_vectorizer(source)?,
            "Imputer" => self.imputer(source)?,
            "LabelEncoder" => self.label_encoder(source)?,
            "LinearClassifier" => return self.linear_classifier(source),
            "LinearRegressor" => self.linear_regressor(source)?,
            "Normalizer" => self.normalizer(source)?,
            "OneHotEncoder" => self.one_hot(source)?,
            "Scaler" => {
                let (offset, scale) = (source.attributes.floats("offset"), source.attributes.floats("scale"));
                let mut x = self.single(source)?;
                for (values, how) in [(offset, Binary::Subtract), (scale, Binary::Multiply)] {
                    if !values.is_empty() {
                        let values = self.floats(values.into_iter().map(|v| v as f32).collect());
                        x = self.binary(source, how, x, values);
                    }
                }
                x
            }
            "SVMClassifier" => return self.svm_classifier(source),
            "SVMRegressor" => self.svm_regressor(source)?,
            "TreeEnsembleClassifier" => return self.forest(source, true),
            "TreeEnsembleRegressor" | "TreeEnsemble" => return self.forest(source, false),
            // Probabilities by label hold the same numbers, in the labels' order.
            "ZipMap" => source.operand(0)?,
            _ => return Err(source.unsupported("")),
        };
        Ok(vec![found])
    }

    pub(super) fn floats(&mut self, values: Vec<f32>) -> Value {
        self.weight(tensors::list(Elements::F32(values)))
    }

    pub(super) fn binary(&mut self, source: &Source<'_>, how: Binary, a: Value, b: Value) -> Value {
        self.add(source, Operator::Binary(how), &[a, b], a.dtype)
    }

    pub(super) fn compare(&mut self, source: &Source<'_>, how: Compare, a: Value, b: Value) -> Value {
        self.add(source, Operator::Compare(how), &[a, b], Dtype::Bool)
    }

    pub(super) fn choose(&mut self, source: &Source<'_>, condition: Value, yes: Value, no: Value) -> Value {
        self.add(source, Operator::Where, &[condition, yes, no], yes.dtype)
    }

    /// Returns the first operand as `f32`.
    pub(super) fn single(&mut self, source: &Source<'_>) -> Result<Value, ImportError> {
        let x = source.operand(0)?;
        if x.dtype == Dtype::Text {
            return Err(source.unsupported(" on texts"));
        }
        Ok(self.cast(source, x, Dtype::F32))
    }

    /// Adds a selection of columns by their indices. Indices of shape `[1, k]` count as a list, and a list of values
    /// counts as one row.
    fn columns(&mut self, source: &Source<'_>) -> Result<Value, ImportError> {
        let (x, indices) = (source.operand(0)?, source.operand(1)?);
        let indices = self.add(source, Operator::Reshape(vec![-1]), &[indices], indices.dtype);
        let found = self.add(source, Operator::Gather { axis: -1 }, &[x, indices], x.dtype);
        // A list of values gives one row.
        match self.graph.weight_of(x.operand).is_some_and(|weight| weight.shape().len() == 1) {
            true => Ok(self.add(source, Operator::Reshape(vec![1, -1]), &[found], x.dtype)),
            false => Ok(found),
        }
    }

    /// Adds the columns of all operands side by side. From each operand it takes as many as the operator says.
    fn feature_vectorizer(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        let widths = source.attributes.ints("inputdimensions");
        let operands = source.operands.clone();
        let positive = widths.iter().all(|width| *width >= 0);
        if !positive || !widths.is_empty() && widths.len() != operands.len() {
            let cause =
                format!("{} inputs have {} widths, which are not below 0", operands.len(), widths.len());
            return Err(at(ErrorKind::Structure, source.location, cause));
        }
        let sum = widths.iter().try_fold(0usize, |sum, width| sum.checked_add(usize::try_from(*width).ok()?));
        let location = || Location::Field(format!("{}.inputdimensions", source.location));
        Budget::new(&self.options.limits).features(sum.unwrap_or(usize::MAX), location)?;
        let mut all = Vec::with_capacity(operands.len());
        for (at, value) in operands.into_iter().enumerate() {
            let columns = self.columns_of(value.operand);
            let mut value = self.cast(source, value, Dtype::F32);
            if let Some(width) = widths.get(at) {
                if *width == 0 && (!all.is_empty() || at + 1 < widths.len()) {
                    continue;
                }
                if columns.is_none_or(|columns| i64::try_from(columns).is_ok_and(|columns| columns < *width))
                {
                    value = self.widened(source, value, *width);
                }
                let first = Operator::Slice { axis: 1, start: 0, end: *width, step: 1 };
                value = self.add(source, first, &[value], Dtype::F32);
                value = self.add(source, Operator::Reshape(vec![0, *width]), &[value], Dtype::F32);
            }
            all.push(value);
        }
        Ok(self.add(source, Operator::Concat { axis: 1 }, &all, Dtype::F32))
    }

    /// Returns the number of columns of an input or a weight.
    fn columns_of(&self, operand: crate::graph::Operand) -> Option<usize> {
        match operand {
            crate::graph::Operand::Input(at) => match self.graph.inputs[at as usize].shape[..] {
                [_, columns] => columns,
                _ => None,
            },
            other => self.graph.weight_of(other).and_then(|weight| weight.shape().get(1).copied()),
        }
    }

    /// Returns rows with this many columns of zeros after their own.
    fn widened(&mut self, source: &Source<'_>, rows: Value, width: i64) -> Value {
        let shape = self.add(source, Operator::Shape, &[rows], Dtype::I64);
        let first = Operator::Slice { axis: 0, start: 0, end: 1, step: 1 };
        let count = self.add(source, first, &[shape], Dtype::I64);
        let width = self.weight(tensors::list(Elements::I64(vec![width])));
        let shape = self.add(source, Operator::Concat { axis: 0 }, &[count, width], Dtype::I64);
        let zeros = self.add(source, Operator::Fill(Elements::F32(vec![0.0])), &[shape], Dtype::F32);
        self.add(source, Operator::Concat { axis: 1 }, &[rows, zeros], Dtype::F32)
    }

    fn imputer(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        let x = source.operand(0)?;
        let replaced = source.attributes.float("replaced_value_float");
        let replaced_integer = source.attributes.int("replaced_value_int64");
        let (floats, integers) = (
            source.attributes.floats("imputed_value_floats"),
            source.attributes.ints("imputed_value_int64s"),
        );
        let values = match x.dtype {
            Dtype::I64 if !integers.is_empty() => Elements::I64(integers),
            Dtype::F32 | Dtype::F64 if !floats.is_empty() => {
                Elements::of_doubles(x.dtype, floats).ok_or_else(|| source.unsupported(" on texts"))?
            }
            _ => return Err(source.unsupported(&format!(" without values for {}", x.dtype))),
        };
        let missing = match (x.dtype, replaced, replaced_integer) {
            (Dtype::I64, _, integer) => {
                let integer = self.weight(tensors::list(Elements::I64(vec![integer.unwrap_or(0)])));
                self.compare(source, Compare::Equal, x, integer)
            }
            (_, Some(value), _) if !value.is_nan() => {
                let value = Elements::of_doubles(x.dtype, vec![f64::from(value)]);
                let value = self.weight(tensors::list(value.ok_or_else(|| source.unsupported(" on texts"))?));
                self.compare(source, Compare::Equal, x, value)
            }
            _ => self.add(source, Operator::Unary(Unary::IsNan), &[x], Dtype::Bool),
        };
        let values = self.weight(tensors::list(values));
        Ok(self.choose(source, missing, values, x))
    }

    fn label_encoder(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        let mut x = source.operand(0)?;
        let classes = source.attributes.strings("classes_strings");
        let (keys, values) = match classes.is_empty() {
            // The first version has only class names, and maps texts to integers or integers to texts.
            false => {
                let (texts, indices) =
                    (texts(&classes), Elements::I64((0..).take(classes.len()).collect::<Vec<_>>()));
                if x.dtype == Dtype::Text { (texts, indices) } else { (indices, texts) }
            }
            true => (self.elements(source, "keys")?, self.elements(source, "values")?),
        };
        let default = match values {
            Elements::Text(_) => {
                let text = source.attributes.string("default_string").unwrap_or_else(|| "_Unused".into());
                Elements::Text(vec![text.into()])
            }
            Elements::I64(_) => Elements::I64(vec![source.attributes.int("default_int64").unwrap_or(-1)]),
            _ => Elements::F32(vec![source.attributes.float("default_float").unwrap_or(-0.0)]),
        };
        let other = match source.attributes.message("default_tensor") {
            Some(bytes) => {
                let tensor = super::proto::decode(bytes, source.location)?;
                tensors::tensor(&tensor, source.location)?.into_elements()
            }
            None => default,
        };
        if keys.len() != values.len() || keys.is_empty() {
            let cause = format!("{} keys and {} values", keys.len(), values.len());
            return Err(at(ErrorKind::Structure, source.location, cause));
        }
        if x.dtype != keys.dtype() && x.dtype != Dtype::Text && keys.dtype() != Dtype::Text {
            x = self.cast(source, x, keys.dtype());
        }
        let dtype = values.dtype();
        Ok(self.add(source, Operator::Lookup { keys, values, other }, &[x], dtype))
    }

    /// Reads the keys or the values of a label encoder.
    fn elements(&self, source: &mut Source<'_>, of: &str) -> Result<Elements, ImportError> {
        let strings = source.attributes.strings(&format!("{of}_strings"));
        if !strings.is_empty() {
            return Ok(texts(&strings));
        }
        let integers = source.attributes.ints(&format!("{of}_int64s"));
        if !integers.is_empty() {
            return Ok(Elements::I64(integers));
        }
        let floats = source.attributes.floats(&format!("{of}_floats"));
        if !floats.is_empty() {
            return Ok(Elements::F32(floats.into_iter().map(|v| v as f32).collect()));
        }
        match source.attributes.message(&format!("{of}_tensor")) {
            Some(bytes) => {
                let tensor = super::proto::decode(bytes, source.location)?;
                Ok(tensors::tensor(&tensor, source.location)?.into_elements())
            }
            None => Err(at(ErrorKind::Schema, format!("{}.{of}", source.location), "missing field")),
        }
    }

    fn one_hot(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        let mut x = source.operand(0)?;
        let (integers, strings) =
            (source.attributes.ints("cats_int64s"), source.attributes.strings("cats_strings"));
        let known = source.attributes.int("zeros") == Some(0);
        let categories = if strings.is_empty() { Elements::I64(integers) } else { texts(&strings) };
        if categories.is_empty() || (categories.dtype() == Dtype::Text) != (x.dtype == Dtype::Text) {
            return Err(source.unsupported(&format!(" on {} without categories of that type", x.dtype)));
        }
        if x.dtype != Dtype::Text {
            x = self.cast(source, x, Dtype::I64);
        }
        let mut categories = categories;
        if known {
            // Each category becomes its index, and any other value is refused.
            let indices = Elements::I64((0..).take(categories.len()).collect());
            let other = Elements::I64(Vec::new());
            let lookup = Operator::Lookup { keys: categories, values: indices.clone(), other };
            x = self.add(source, lookup, &[x], Dtype::I64);
            categories = indices;
        }
        let x = self.add(source, Operator::Unsqueeze(vec![-1]), &[x], x.dtype);
        let categories = self.weight(tensors::list(categories));
        let equal = self.compare(source, Compare::Equal, x, categories);
        Ok(self.cast(source, equal, Dtype::F32))
    }

    fn normalizer(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        let how = match source.attributes.string("norm").as_deref() {
            None | Some("MAX") => Reduction::Maximum,
            Some("L1") => Reduction::L1,
            Some("L2") => Reduction::L2,
            Some(other) => return Err(source.unsupported(&format!(" with the norm {other:?}"))),
        };
        let x = self.single(source)?;
        self.normalized(source, x, how, -1)
    }

    /// Divides the elements along an axis by their norm. Elements that are all 0 stay.
    pub(super) fn normalized(
        &mut self,
        source: &Source<'_>,
        x: Value,
        how: Reduction,
        axis: i64,
    ) -> Result<Value, ImportError> {
        let norm = self.add(source, Operator::Reduce { how, axes: vec![axis], keep: true }, &[x], x.dtype);
        let number = |value: f64| Elements::of_doubles(x.dtype, vec![value]).map(tensors::list);
        let (Some(zero), Some(one)) = (number(0.0), number(1.0)) else {
            return Err(source.unsupported(" on texts"));
        };
        let (zero, one) = (self.weight(zero), self.weight(one));
        let nothing = self.compare(source, Compare::Equal, norm, zero);
        let norm = self.choose(source, nothing, one, norm);
        Ok(self.binary(source, Binary::Divide, x, norm))
    }

    /// Adds a linear model: products with rows of coefficients, plus intercepts.
    fn linear(&mut self, source: &mut Source<'_>, outputs: usize) -> Result<Value, ImportError> {
        let coefficients = source.attributes.floats("coefficients");
        let intercepts = source.attributes.floats("intercepts");
        let columns = coefficients.len().checked_div(outputs).unwrap_or(0);
        if columns * outputs != coefficients.len() || columns == 0 {
            let cause = format!("{} coefficients for {outputs} outputs", coefficients.len());
            return Err(at(ErrorKind::Structure, format!("{}.coefficients", source.location), cause));
        }
        let by_column = (0..columns).flat_map(|column| (0..outputs).map(move |o| o * columns + column));
        let elements = by_column.map(|at| coefficients[at] as f32).collect();
        let weights = Tensor::new([columns, outputs], Elements::F32(elements)).expect("all coefficients");
        let weights = self.weight(weights);
        let x = self.single(source)?;
        let scores = self.add(source, Operator::MatMul, &[x, weights], Dtype::F32);
        if intercepts.is_empty() {
            return Ok(scores);
        }
        if intercepts.len() != outputs {
            let cause = format!("{} intercepts for {outputs} outputs", intercepts.len());
            return Err(at(ErrorKind::Structure, format!("{}.intercepts", source.location), cause));
        }
        let intercepts = self.floats(intercepts.into_iter().map(|v| v as f32).collect());
        Ok(self.binary(source, Binary::Add, scores, intercepts))
    }

    pub(super) fn post_transform(&self, source: &mut Source<'_>) -> Result<PostTransform, ImportError> {
        match source.attributes.string("post_transform").as_deref() {
            None | Some("NONE") => Ok(PostTransform::None),
            Some("LOGISTIC") => Ok(PostTransform::Logistic),
            Some("SOFTMAX") => Ok(PostTransform::Softmax),
            Some("SOFTMAX_ZERO") => Ok(PostTransform::SoftmaxZero),
            Some("PROBIT") => Ok(PostTransform::Probit),
            Some(other) => Err(source.unsupported(&format!(" with the transform {other}"))),
        }
    }

    pub(super) fn transformed(&mut self, source: &Source<'_>, scores: Value, how: PostTransform) -> Value {
        match how {
            PostTransform::None => scores,
            PostTransform::Logistic => {
                self.add(source, Operator::Unary(Unary::Sigmoid), &[scores], scores.dtype)
            }
            PostTransform::Softmax => {
                self.add(source, Operator::Softmax { axis: -1 }, &[scores], scores.dtype)
            }
            PostTransform::Probit => self.probit(source, scores),
            PostTransform::SoftmaxZero => {
                let along = |how| Operator::Reduce { how, axes: vec![-1], keep: true };
                let greatest = self.add(source, along(Reduction::Maximum), &[scores], scores.dtype);
                let below = self.binary(source, Binary::Subtract, scores, greatest);
                let terms = self.add(source, Operator::Unary(Unary::Exp), &[below], scores.dtype);
                let magnitudes = self.add(source, Operator::Unary(Unary::Abs), &[scores], scores.dtype);
                let (least, zero) = (self.floats(vec![1e-7]), self.floats(vec![0.0]));
                let counts = self.compare(source, Compare::Greater, magnitudes, least);
                let terms = self.choose(source, counts, terms, zero);
                let sum = self.add(source, along(Reduction::Sum), &[terms], scores.dtype);
                self.binary(source, Binary::Divide, terms, sum)
            }
        }
    }

    /// Returns the quantiles of the normal distribution: Winitzki's approximation of the inverse of `erf`, in doubles.
    fn probit(&mut self, source: &Source<'_>, scores: Value) -> Value {
        const A: f64 = 0.147;
        let number = |reader: &mut Self, value: f64| reader.weight(tensors::list(Elements::F64(vec![value])));
        let wide = self.cast(source, scores, Dtype::F64);
        let [zero, one, two] = [0.0, 1.0, 2.0].map(|value| number(self, value));
        let twice = self.binary(source, Binary::Multiply, wide, two);
        let x = self.binary(source, Binary::Subtract, twice, one);
        let (below, above) =
            (self.binary(source, Binary::Subtract, one, x), self.binary(source, Binary::Add, one, x));
        let product = self.binary(source, Binary::Multiply, below, above);
        let log = self.add(source, Operator::Unary(Unary::Log), &[product], Dtype::F64);
        let (half, by_a) = (number(self, 0.5), number(self, 1.0 / A));
        let constant = number(self, 2.0 / (std::f64::consts::PI * A));
        let halved = self.binary(source, Binary::Multiply, log, half);
        let sum = self.binary(source, Binary::Add, halved, constant);
        let square = self.binary(source, Binary::Multiply, sum, sum);
        let scaled = self.binary(source, Binary::Multiply, log, by_a);
        let inside = self.binary(source, Binary::Subtract, square, scaled);
        let root = self.add(source, Operator::Unary(Unary::Sqrt), &[inside], Dtype::F64);
        let difference = self.binary(source, Binary::Subtract, root, sum);
        // A difference of 0 may be rounded to below 0.
        let difference = self.binary(source, Binary::Maximum, difference, zero);
        let size = self.add(source, Operator::Unary(Unary::Sqrt), &[difference], Dtype::F64);
        let (minus, plus) = (number(self, -std::f64::consts::SQRT_2), number(self, std::f64::consts::SQRT_2));
        let negative = self.compare(source, Compare::Less, x, zero);
        let factor = self.choose(source, negative, minus, plus);
        let found = self.binary(source, Binary::Multiply, size, factor);
        self.cast(source, found, scores.dtype)
    }

    /// Adds the label and the score of a classifier with one class, as ONNX's reference evaluator computes them. The
    /// label is the class, or 0 if the score is too low. ONNX Runtime does not take such a classifier.
    fn only_class(
        &mut self,
        source: &Source<'_>,
        scores: Value,
        how: PostTransform,
        labels: Elements,
    ) -> Result<Vec<Value>, ImportError> {
        let Elements::I64(labels) = labels else {
            return Err(source.unsupported(" of one class that has a text"));
        };
        let values = self.transformed(source, scores, how);
        let least = self.floats(vec![if how == PostTransform::None { 0.0 } else { 0.5 }]);
        let high = self.compare(source, Compare::GreaterOrEqual, values, least);
        let high = self.cast(source, high, Dtype::I64);
        let high = self.add(source, Operator::Reshape(vec![-1]), &[high], Dtype::I64);
        let label = self.weight(tensors::list(Elements::I64(labels)));
        let label = self.binary(source, Binary::Multiply, high, label);
        Ok(vec![label, values])
    }

    fn linear_regressor(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        let targets = usize::try_from(source.attributes.int("targets").unwrap_or(1)).unwrap_or(0);
        let how = self.post_transform(source)?;
        let scores = self.linear(source, targets)?;
        Ok(self.transformed(source, scores, how))
    }

    fn linear_classifier(&mut self, source: &mut Source<'_>) -> Result<Vec<Value>, ImportError> {
        let labels = self.labels(source)?;
        let how = self.post_transform(source)?;
        // Each output has an intercept. Without intercepts there is an output for each label.
        let outputs = match source.attributes.count("intercepts") {
            0 => labels.len(),
            intercepts => intercepts,
        };
        let scores = self.linear(source, outputs)?;
        let two = outputs == 1 && labels.len() == 2;
        if labels.len() == 1 && outputs == 1 {
            return self.only_class(source, scores, how, labels);
        }
        if two && how == PostTransform::Probit {
            return Err(
                source.unsupported(" with PROBIT of one score, which ONNX Runtime gives for other rows")
            );
        }
        if !two && outputs != labels.len() {
            let cause = format!("{outputs} outputs for {} labels", labels.len());
            return Err(at(ErrorKind::Structure, source.location, cause));
        }
        let class = match two {
            true => {
                let zero = self.floats(vec![0.0]);
                let above = self.compare(source, Compare::Greater, scores, zero);
                let class = self.cast(source, above, Dtype::I64);
                self.add(source, Operator::Reshape(vec![-1]), &[class], Dtype::I64)
            }
            false => {
                let greatest = Operator::ArgExtreme { axis: -1, keep: false, greatest: true, last: false };
                self.add(source, greatest, &[scores], Dtype::I64)
            }
        };
        let label = self.label(source, class, labels);
        // The second class has the score, and the first one the negated score.
        let scores = match two {
            true => {
                let other = self.add(source, Operator::Unary(Unary::Negate), &[scores], Dtype::F32);
                self.add(source, Operator::Concat { axis: 1 }, &[other, scores], Dtype::F32)
            }
            false => scores,
        };
        let values = self.transformed(source, scores, how);
        Ok(vec![label, values])
    }

    /// Reads the labels of a classifier.
    pub(super) fn labels(&self, source: &mut Source<'_>) -> Result<Elements, ImportError> {
        let names =
            [("classlabels_ints", "classlabels_strings"), ("classlabels_int64s", "classlabels_strings")];
        for (integers, strings) in names {
            let integers = source.attributes.ints(integers);
            if !integers.is_empty() {
                return Ok(Elements::I64(integers));
            }
            let strings = source.attributes.strings(strings);
            if !strings.is_empty() {
                return Ok(texts(&strings));
            }
        }
        Err(at(
            ErrorKind::Schema,
            format!("{}.classlabels_ints", source.location),
            "a classifier without labels",
        ))
    }

    /// Returns the label of each class.
    pub(super) fn label(&mut self, source: &Source<'_>, class: Value, labels: Elements) -> Value {
        let dtype = labels.dtype();
        let labels = self.weight(tensors::list(labels));
        self.add(source, Operator::Gather { axis: 0 }, &[labels, class], dtype)
    }
}

/// Returns texts of the file.
pub(super) fn texts_of(strings: &[super::super::proto::Bytes]) -> Vec<String> {
    strings.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
}

fn texts(strings: &[super::super::proto::Bytes]) -> Elements {
    Elements::Text(strings.iter().map(|text| tensors::words(text)).collect())
}
