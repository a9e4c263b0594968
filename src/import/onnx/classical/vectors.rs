//! Support vector machines of `ai.onnx.ml`.

use super::super::super::{ErrorKind, ImportError};
use super::super::error::at;
use super::{Reader, Source, Value};
use crate::graph::{Binary, Compare, Dtype, Elements, Operator, Tensor, Unary};

/// The maximum number of a support vector classifier's weights. There is one for each support vector and pair of
/// classes.
const MOST_PAIRED: usize = 1 << 26;

impl Reader<'_> {
    pub(super) fn svm_regressor(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        let kernel = source.attributes.string("kernel_type").unwrap_or_else(|| "LINEAR".into());
        let parameters = source.attributes.floats("kernel_params");
        let coefficients = source.attributes.floats("coefficients");
        let vectors = source.attributes.floats("support_vectors");
        let rho = source.attributes.floats("rho").first().copied().unwrap_or(0.0);
        let count = usize::try_from(source.attributes.int("n_supports").unwrap_or(0)).unwrap_or(0);
        let one_class = source.attributes.int("one_class").unwrap_or(0) != 0;
        let how = self.post_transform(source)?;
        let column = |values: &[f64]| {
            let elements = Elements::F32(values.iter().map(|v| *v as f32).collect());
            Tensor::new([values.len(), 1], elements).expect("a column")
        };
        let x = self.single(source)?;
        let products = match count {
            // Without support vectors, there is a coefficient for each column.
            0 => x,
            _ => {
                let columns = vectors.len() / count;
                if columns * count != vectors.len() || columns == 0 || coefficients.len() != count {
                    let cause = format!(
                        "{} numbers of {count} support vectors, and {} coefficients",
                        vectors.len(),
                        coefficients.len()
                    );
                    return Err(at(ErrorKind::Structure, source.location, cause));
                }
                self.kernel(source, x, &kernel, &parameters, &vectors, count)?
            }
        };
        let weights = self.weight(column(&coefficients));
        let sums = self.add(source, Operator::MatMul, &[products, weights], Dtype::F32);
        let rho = self.floats(vec![rho as f32]);
        let sums = self.binary(source, Binary::Add, sums, rho);
        if one_class {
            let (zero, inside, outside) =
                (self.floats(vec![0.0]), self.floats(vec![1.0]), self.floats(vec![-1.0]));
            let above = self.compare(source, Compare::Greater, sums, zero);
            return Ok(self.choose(source, above, inside, outside));
        }
        Ok(self.transformed(source, sums, how))
    }

    /// Adds a support vector classifier, as in LIBSVM: a sum of kernels for each pair of classes, and a vote of each
    /// pair for the class. The scores are the pairs' sums, or the classes' probabilities if the file has them.
    pub(super) fn svm_classifier(&mut self, source: &mut Source<'_>) -> Result<Vec<Value>, ImportError> {
        let labels = self.labels(source)?;
        let kernel = source.attributes.string("kernel_type").unwrap_or_else(|| "LINEAR".into());
        let parameters = source.attributes.floats("kernel_params");
        let coefficients = source.attributes.floats("coefficients");
        let vectors = source.attributes.floats("support_vectors");
        let (a, b) = (source.attributes.floats("prob_a"), source.attributes.floats("prob_b"));
        let rho = source.attributes.floats("rho");
        let counts = source.attributes.ints("vectors_per_class");
        let how = self.post_transform(source)?;
        let classes = labels.len();
        let pairs = classes.saturating_mul(classes.saturating_sub(1)) / 2;
        let counts =
            counts.into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>().unwrap_or_default();
        let count = counts.iter().try_fold(0usize, |sum, count| sum.checked_add(*count)).unwrap_or(0);
        if count == 0 {
            let scores = self.svm_of_columns(source, &coefficients, &rho, classes)?;
            let greatest = Operator::ArgExtreme { axis: -1, keep: false, greatest: true, last: false };
            let class = self.add(source, greatest, &[scores], Dtype::I64);
            let label = self.label(source, class, labels);
            return Ok(vec![label, self.transformed(source, scores, how)]);
        }
        let columns = vectors.len() / count;
        let whole = counts.len() == classes
            && classes >= 2
            && columns * count == vectors.len()
            && columns > 0
            && Some(coefficients.len()) == count.checked_mul(classes - 1)
            && rho.len() == pairs
            && (a.is_empty() || a.len() == pairs)
            && a.len() == b.len();
        if !whole {
            let cause = format!(
                "{count} support vectors of {classes} classes with {} numbers, {} coefficients and {} intercepts",
                vectors.len(),
                coefficients.len(),
                rho.len()
            );
            return Err(at(ErrorKind::Structure, source.location, cause));
        }
        let numbers = count.max(classes).checked_mul(pairs).filter(|numbers| *numbers <= MOST_PAIRED);
        if numbers.is_none() {
            return Err(source.unsupported(&format!(" with {count} support vectors of {classes} classes")));
        }
        let class_of: Vec<usize> =
            counts.iter().enumerate().flat_map(|(class, count)| std::iter::repeat_n(class, *count)).collect();
        let all_pairs = || (0..classes).flat_map(move |i| (i + 1..classes).map(move |j| (i, j)));
        // A support vector has a coefficient for each pair that its class is in.
        let mut weights = Vec::with_capacity(count.saturating_mul(pairs));
        for (vector, class) in class_of.iter().enumerate() {
            weights.extend(all_pairs().map(|(i, j)| match *class {
                class if class == i => coefficients[(j - 1) * count + vector] as f32,
                class if class == j => coefficients[i * count + vector] as f32,
                _ => 0.0,
            }));
        }
        // A pair votes for its first class if its sum is above 0, and else for its second one.
        let vote = |class: usize, (i, j)| f32::from(i8::from(class == i) - i8::from(class == j));
        let votes = all_pairs().flat_map(|pair| (0..classes).map(move |class| vote(class, pair))).collect();
        let against =
            (0..classes).map(|class| all_pairs().filter(|(_, j)| *j == class).count() as f32).collect();
        let matrix = |rows, columns, values| {
            Tensor::new([rows, columns], Elements::F32(values)).expect("a number for each pair")
        };
        let x = self.single(source)?;
        let kernels = self.kernel(source, x, &kernel, &parameters, &vectors, count)?;
        let weights = self.weight(matrix(count, pairs, weights));
        let sums = self.add(source, Operator::MatMul, &[kernels, weights], Dtype::F32);
        let rho = self.floats(rho.into_iter().map(|v| v as f32).collect());
        let sums = self.binary(source, Binary::Add, sums, rho);
        let zero = self.floats(vec![0.0]);
        let above = self.compare(source, Compare::Greater, sums, zero);
        let above = self.cast(source, above, Dtype::F32);
        let (votes, against) = (self.weight(matrix(pairs, classes, votes)), self.floats(against));
        let votes = self.add(source, Operator::MatMul, &[above, votes], Dtype::F32);
        let votes = self.binary(source, Binary::Add, votes, against);
        let greatest = Operator::ArgExtreme { axis: -1, keep: false, greatest: true, last: false };
        let class = self.add(source, greatest, &[votes], Dtype::I64);
        let label = self.label(source, class, labels);
        if a.is_empty() {
            // With two classes, the only pair gives both scores: the negated sum and the sum.
            if classes == 2 {
                let other = self.add(source, Operator::Unary(Unary::Negate), &[sums], Dtype::F32);
                let both = self.add(source, Operator::Concat { axis: 1 }, &[other, sums], Dtype::F32);
                return Ok(vec![label, self.transformed(source, both, how)]);
            }
            return Ok(vec![label, self.transformed(source, sums, how)]);
        }
        // The probability of a pair's first class is 1 / (1 + exp(a x + b)), kept away from 0 and 1.
        let (a, b) = (self.negated(&a), self.negated(&b));
        let scaled = self.binary(source, Binary::Multiply, sums, a);
        let scaled = self.binary(source, Binary::Add, scaled, b);
        let first = self.add(source, Operator::Unary(Unary::Sigmoid), &[scaled], Dtype::F32);
        let (least, most) = (self.floats(vec![1e-7]), self.floats(vec![1.0 - 1e-7]));
        let first = self.binary(source, Binary::Maximum, first, least);
        let first = self.binary(source, Binary::Minimum, first, most);
        // scikit-learn's LIBSVM couples the pair of two classes as well.
        let values = self.add(source, Operator::CouplePairs { classes }, &[first], Dtype::F32);
        Ok(vec![label, self.transformed(source, values, how)])
    }

    /// Adds a classifier with a coefficient for each class and column in place of support vectors, as in LIBLINEAR.
    fn svm_of_columns(
        &mut self,
        source: &Source<'_>,
        coefficients: &[f64],
        rho: &[f64],
        classes: usize,
    ) -> Result<Value, ImportError> {
        let columns = coefficients.len().checked_div(classes).unwrap_or(0);
        if columns == 0 || columns * classes != coefficients.len() || rho.is_empty() || classes < 2 {
            let cause = format!(
                "{} coefficients and {} intercepts of {classes} classes",
                coefficients.len(),
                rho.len()
            );
            return Err(at(ErrorKind::Structure, source.location, cause));
        }
        let by_column =
            (0..columns).flat_map(|column| (0..classes).map(move |class| class * columns + column));
        let elements = Elements::F32(by_column.map(|at| coefficients[at] as f32).collect());
        let weights = self.weight(Tensor::new([columns, classes], elements).expect("all coefficients"));
        let x = self.single(source)?;
        let products = self.add(source, Operator::MatMul, &[x, weights], Dtype::F32);
        let rho = self.floats(vec![rho[0] as f32]);
        Ok(self.binary(source, Binary::Add, products, rho))
    }

    fn negated(&mut self, values: &[f64]) -> Value {
        self.floats(values.iter().map(|v| -*v as f32).collect())
    }

    /// Returns the kernel of each row with each of `count` support vectors.
    fn kernel(
        &mut self,
        source: &Source<'_>,
        x: Value,
        kernel: &str,
        parameters: &[f64],
        vectors: &[f64],
        count: usize,
    ) -> Result<Value, ImportError> {
        let [gamma, offset, degree] = [0, 1, 2].map(|at| parameters.get(at).copied().unwrap_or(0.0) as f32);
        let columns = vectors.len() / count;
        let scaled = |reader: &mut Self, x: Value, by: f32, plus: Option<f32>| {
            let by = reader.floats(vec![by]);
            let x = reader.binary(source, Binary::Multiply, x, by);
            match plus {
                Some(plus) => {
                    let plus = reader.floats(vec![plus]);
                    reader.binary(source, Binary::Add, x, plus)
                }
                None => x,
            }
        };
        if kernel == "RBF" {
            let elements = Elements::F32(vectors.iter().map(|v| *v as f32).collect());
            let vectors = self.weight(Tensor::new([count, columns], elements).expect("all vectors"));
            let squared = Operator::Distances(crate::graph::Distance::SquaredEuclidean);
            let distances = self.add(source, squared, &[x, vectors], Dtype::F32);
            let scaled = scaled(self, distances, -gamma, None);
            return Ok(self.add(source, Operator::Unary(Unary::Exp), &[scaled], Dtype::F32));
        }
        let by_column = (0..columns).flat_map(|column| (0..count).map(move |v| v * columns + column));
        let elements = Elements::F32(by_column.map(|at| vectors[at] as f32).collect());
        let vectors = self.weight(Tensor::new([columns, count], elements).expect("all vectors"));
        let products = self.add(source, Operator::MatMul, &[x, vectors], Dtype::F32);
        match kernel {
            "LINEAR" => Ok(products),
            "POLY" => {
                let base = scaled(self, products, gamma, Some(offset));
                let degree = self.floats(vec![degree]);
                Ok(self.binary(source, Binary::Power, base, degree))
            }
            "SIGMOID" => {
                let base = scaled(self, products, gamma, Some(offset));
                Ok(self.add(source, Operator::Unary(Unary::Tanh), &[base], Dtype::F32))
            }
            other => Err(source.unsupported(&format!(" with the kernel {other:?}"))),
        }
    }
}
