//! Generated rows.

use burn::tensor::{DType, Device, Tensor, TensorData};
use fangorn_graphs::fangorn_fusion::Matrix;

/// Where tensors are made, and of which type.
pub(crate) type On<'a> = (&'a Device, DType);

/// Returns a source of random numbers from -0.5 to 0.5: a linear congruential generator.
pub(crate) fn draws(mut seed: u64) -> impl FnMut() -> f64 {
    move || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as f64 / (1u64 << 31) as f64 - 0.5
    }
}

/// Makes a matrix of row-major elements.
pub(crate) fn matrix(values: Vec<f64>, shape: [usize; 2], on: On) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values, shape), on)
}

/// Rows of classes that overlap.
pub(crate) struct Classes {
    pub x: Tensor<2>,
    /// -1 for the first class, 1 for others.
    pub signs: Tensor<2>,
    /// A column for each class but the last, 1 for the rows of the class.
    pub indicators: Tensor<2>,
}

/// Makes rows of classes.
pub(crate) fn classes(rows: usize, columns: usize, classes: usize, on: On) -> Classes {
    let mut draw = draws(11);
    let truth: Vec<f64> = (0..columns * classes).map(|_| 2.0 * draw()).collect();
    let x: Vec<f64> = (0..rows * columns).map(|_| draw()).collect();
    let (mut signs, mut indicators) = (Vec::with_capacity(rows), vec![0.0; rows * (classes - 1)]);
    for (row, x) in x.chunks_exact(columns).enumerate() {
        let mut score = |class: usize| {
            x.iter().enumerate().map(|(at, x)| x * truth[at * classes + class]).sum::<f64>() + draw()
        };
        let scores: Vec<f64> = (0..classes).map(&mut score).collect();
        let class = (0..classes).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap_or(0);
        signs.push(if class == 0 { -1.0 } else { 1.0 });
        if class + 1 < classes {
            indicators[row * (classes - 1) + class] = 1.0;
        }
    }
    Classes {
        x: matrix(x, [rows, columns], on),
        signs: matrix(signs, [rows, 1], on),
        indicators: matrix(indicators, [rows, classes - 1], on),
    }
}

/// Makes rows about so many centres.
pub(crate) fn clusters(rows: usize, columns: usize, centroids: usize, on: On) -> Tensor<2> {
    let mut draw = draws(7);
    let centres: Vec<f64> = (0..centroids * columns).map(|_| 3.0 * draw()).collect();
    let mut x = Vec::with_capacity(rows * columns);
    for row in 0..rows.max(centroids) {
        x.extend(centres[row % centroids * columns..][..columns].iter().map(|centre| centre + 2.0 * draw()));
    }
    matrix(x, [rows.max(centroids), columns], on)
}

/// A matrix of which one element in a hundred is known, and the transposed one.
pub(crate) struct Ratings {
    pub dense: [Tensor<2>; 2],
    pub sparse: [Matrix; 2],
    /// How many elements each row has.
    pub counts: [Tensor<2>; 2],
}

impl Ratings {
    /// Returns the factors to start from.
    pub fn factors(&self, rank: usize) -> [Tensor<2>; 2] {
        let mut draw = draws(31);
        let mut factor = |side: &Tensor<2>| {
            let rows = side.dims()[0];
            matrix((0..rows * rank).map(|_| draw()).collect(), [rows, rank], (&side.device(), side.dtype()))
        };
        [factor(&self.dense[0]), factor(&self.dense[1])]
    }
}

/// Makes a matrix of low rank, with noise.
pub(crate) fn ratings(rows: usize, columns: usize, on: On) -> Ratings {
    const RANK: usize = 5;
    let mut draw = draws(29);
    let mut factor = |length: usize| -> Vec<f64> { (0..length * RANK).map(|_| draw()).collect() };
    let (u, v) = (factor(rows), factor(columns));
    let (mut values, mut turned) = (vec![0.0; rows * columns], vec![0.0; rows * columns]);
    let mut draw = draws(37);
    for row in 0..rows {
        for column in 0..columns {
            // Each row has an element at least.
            if draw() < -0.49 || row % columns == column {
                let product: f64 = (0..RANK).map(|at| u[row * RANK + at] * v[column * RANK + at]).sum();
                let value = 3.0 + product + 0.1 * draw();
                (values[row * columns + column], turned[column * rows + row]) = (value, value);
            }
        }
    }
    let counts = |values: &[f64], rows: usize, columns: usize| {
        let count = |row: &[f64]| row.iter().filter(|x| **x != 0.0).count() as f64;
        matrix(values.chunks_exact(columns).map(count).collect(), [rows, 1], on)
    };
    let sparse = |values: &[f64], rows: usize, columns: usize| {
        Matrix::csr((rows, columns), values).expect("as many elements as the shape has")
    };
    Ratings {
        counts: [counts(&values, rows, columns), counts(&turned, columns, rows)],
        sparse: [sparse(&values, rows, columns), sparse(&turned, columns, rows)],
        dense: [matrix(values, [rows, columns], on), matrix(turned, [columns, rows], on)],
    }
}

/// Makes rows from 0 to 1 that two numbers a row decide.
pub(crate) fn waves(rows: usize, columns: usize, on: On) -> Tensor<2> {
    let mut draw = draws(3);
    let waves: Vec<[f64; 3]> = (0..columns).map(|_| [8.0 * draw(), 8.0 * draw(), 6.0 * draw()]).collect();
    let mut x = Vec::with_capacity(rows * columns);
    for _ in 0..rows {
        let point = [draw(), draw()];
        x.extend(waves.iter().map(|[a, b, c]| 0.5 + 0.5 * (a * point[0] + b * point[1] + c).sin()));
    }
    matrix(x, [rows, columns], on)
}
