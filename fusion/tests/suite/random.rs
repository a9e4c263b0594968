//! Random graphs, such that results stay finite and aggregates stay small enough to compare.

use std::sync::Arc;

use fangorn_fusion::{
    Bindings, DenseMatrix, Matrix, SingleMatrix,
    dag::{Aggregation, Binary, Builder, Dag, Direction, Expression, Format, Operator},
};

/// Random numbers (xorshift64*).
pub struct Random(u64);

impl Random {
    /// Starts at a seed.
    pub fn new(seed: u64) -> Self {
        let mut found = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..4).for_each(|_| _ = found.next());
        found
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Draws a whole number below a limit.
    pub fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 33) % limit as u64) as usize
    }

    /// Draws a number from 0 to 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws one of several.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Draws a graph of about so many operators over matrices of rows x columns, vectors, and factors of low rank.
pub fn graph(random: &mut Random, operators: usize, rows: usize, columns: usize) -> Dag {
    graph_of(random, operators, rows, columns, |_, builder, name, rows, columns| {
        builder.dense(name, rows, columns)
    })
}

/// Draws a graph, as `graph` does, with X compressed, and other inputs now and then.
pub fn graph_of_compressed(random: &mut Random, operators: usize, rows: usize, columns: usize) -> Dag {
    graph_of(random, operators, rows, columns, |random, builder, name, rows, columns| {
        // Bytes from those of dictionaries alone up to more than a dense matrix takes.
        let bytes = random.pick(&[40, 8 * rows * columns / 10, 9 * rows * columns]) as u64;
        if name == "X" || random.below(3) == 0 {
            builder.compressed(name, rows, columns, bytes)
        } else {
            builder.dense(name, rows, columns)
        }
    })
}

fn graph_of(
    random: &mut Random,
    operators: usize,
    rows: usize,
    columns: usize,
    input: impl for<'b> Fn(&mut Random, &'b Builder, &str, usize, usize) -> Expression<'b>,
) -> Dag {
    let builder = Builder::new();
    let rank = 1 + random.below(3);
    let filled = random.pick(&[0.01, 0.1, 0.4]);
    let x = input(random, &builder, "X", rows, columns);
    let s = builder.csr("S", rows, columns, filled);
    let mut pool = vec![x, s];
    for (name, rows, columns) in [
        ("Y", rows, columns),
        ("c", rows, 1),
        ("r", 1, columns),
        ("v", columns, 1),
        ("U", rows, rank),
        ("V", columns, rank),
    ] {
        pool.push(input(random, &builder, name, rows, columns));
    }
    let mut made = Vec::new();
    while made.len() < operators {
        // The last ones are likelier, so that chains grow; others make shared results.
        let near = pool.len().saturating_sub(6);
        let draw = |random: &mut Random| {
            if random.below(3) == 0 {
                random.below(pool.len())
            } else {
                near + random.below(pool.len() - near)
            }
        };
        let (a, b) = (pool[draw(random)], pool[draw(random)]);
        let Some(next) = operator(random, a, b, &pool, rows, columns) else { continue };
        if pool.iter().all(|known| known.node() != next.node()) {
            pool.push(next);
            made.push(next);
        }
    }
    // Whatever nothing consumes is an output, and now and then something else.
    let last = made.len();
    for (at, each) in made.iter().enumerate() {
        if at + 1 == last || at + 4 > last || random.below(12) == 0 {
            builder.output(&format!("o{at}"), *each);
        }
    }
    builder.finish().expect("only operators that fit are drawn")
}

fn operator<'b>(
    random: &mut Random,
    a: Expression<'b>,
    b: Expression<'b>,
    pool: &[Expression<'b>],
    rows: usize,
    columns: usize,
) -> Option<Expression<'b>> {
    let ((m, n), (p, q)) = (a.shape(), b.shape());
    let fits = |x: usize, y: usize| x == y || x == 1 || y == 1;
    // Squashed values can't overflow, however long a chain is.
    let squash = |value: Expression<'b>| (value * 0.25).sigmoid();
    Some(match random.below(24) {
        0 => a.abs(),
        1 => squash(a),
        2 => (a.abs() + 0.5).log(),
        3 => -a,
        4 => a.sign(),
        5 => a.not_equal(0.0),
        6 => a * random.pick(&[0.5, 2.0, -1.0]),
        7 => a.max(random.pick(&[0.0, 0.3])),
        8..=11 if fits(m, p) && fits(n, q) => {
            a.binary(random.pick(&[Binary::Add, Binary::Subtract, Binary::Min, Binary::Greater]), b)
        }
        12..=14 if fits(m, p) && fits(n, q) => squash(a) * b,
        15 if (m, n) != (1, 1) => {
            let aggregation = random.pick(Aggregation::ALL);
            squash(a).aggregate(aggregation, random.pick(Direction::ALL))
        }
        16 if n > 1 => {
            let start = random.below(n);
            a.columns(start, start + 1 + random.below(n - start))
        }
        17 if n == p => a.matmul(b) * (1.0 / n as f64),
        17 if n == columns => a.matmul(pool[if random.below(2) == 0 { 5 } else { 7 }]) * (1.0 / n as f64),
        18 if m == p && m == rows => a.transpose().matmul(b) * (1.0 / m as f64),
        20 if (m, n) == (rows, columns) => (pool[1] * a).sum(),
        21 if (m, n) == (rows, columns) => (pool[0] * a).sum_of_squares() + (pool[0] * pool[2]).sum(),
        23 if n == columns => a.matmul(pool[7]).row_sums() * (1.0 / n as f64),
        19 | 22 if (m, n) == (rows, columns) => {
            let product = pool[6].matmul(pool[7].transpose());
            let weighted = pool[1] * if random.below(2) == 0 { product } else { squash(product) };
            match random.below(5) {
                0 => weighted.matmul(pool[7]),
                4 => weighted.sum(),
                1 => weighted.transpose().matmul(pool[6]),
                2 => weighted + a,
                _ => weighted,
            }
        }
        _ => return None,
    })
}

/// Draws matrices for the inputs of a graph; a zero in ten elements even where they are dense.
pub fn bindings(random: &mut Random, dag: &Dag) -> Bindings {
    let mut found = Bindings::new();
    for node in dag.nodes() {
        let Operator::Input { name, shape, format, filled } = &node.operator else { continue };
        if format.is_compressed() {
            let values = few_values(random, shape.0, shape.1);
            found.insert(name.clone(), compressed(*shape, values));
            continue;
        }
        let filled = if *format == Format::Dense { 0.9 } else { filled.0 };
        let mut value = || if random.share() < filled { random.share() * 2.0 - 1.0 } else { 0.0 };
        let values: Vec<f64> = (0..shape.0 * shape.1).map(|_| value()).collect();
        let matrix = match format {
            Format::Csr => Matrix::csr(*shape, &values),
            _ if random.below(3) == 0 => single(*shape, &values),
            _ => Matrix::dense(*shape, values),
        };
        found.insert(name.clone(), matrix.expect("as many elements as the shape has"));
    }
    found
}

/// Rounds the elements of a matrix, row-major, to single precision.
pub fn single(shape: (usize, usize), values: &[f64]) -> Option<Matrix> {
    let values: Vec<f32> = values.iter().map(|x| *x as f32).collect();
    SingleMatrix::new(shape, Arc::new(values)).map(Matrix::Single)
}

/// Compresses the elements of a matrix, row-major.
pub fn compressed(shape: (usize, usize), values: Vec<f64>) -> Matrix {
    Matrix::compress(&DenseMatrix::new(shape, values).expect("as many elements as the shape has"))
}

/// Draws a matrix, row-major, whose columns are constant, of few values, sorted, mostly 0, of any values, or functions of
/// the column before.
pub fn few_values(random: &mut Random, rows: usize, columns: usize) -> Vec<f64> {
    let mut found = vec![0.0; rows * columns];
    let value = |random: &mut Random| random.share() * 2.0 - 1.0;
    for column in 0..columns {
        let levels: Vec<f64> = (0..1 + random.below(6)).map(|_| value(random)).collect();
        let kind = random.below(6);
        for row in 0..rows {
            found[row * columns + column] = match kind {
                0 => levels[0],
                1 => random.pick(&levels),
                2 => levels[row * levels.len() / rows],
                3 if random.below(20) > 0 => 0.0,
                3 => random.pick(&levels),
                4 if column > 0 => -0.5 * found[row * columns + column - 1],
                _ => value(random),
            };
        }
    }
    found
}
