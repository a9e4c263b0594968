//! KMeans as in the paper's evaluation (one run, 5 centroids, tolerance 1e-12, at most 20 iterations), under each policy
//! in turn.
//!
//! ```console
//! cargo run --release -p fangorn-fusion --example kmeans -- 1000000 10
//! ```

use fangorn_fusion::{
    Bindings, FusionError, Matrix,
    dag::Aggregation,
    dag::{Binary, Builder, Dag, Direction},
    select::{Costs, PlanCache, Policy},
};

mod shared;

const HELP: &str = "Clusters generated rows by KMeans under each policy of fusion, and times it.

usage: kmeans [ROWS] [COLUMNS] [CENTROIDS]    1 000 000 rows of 10 columns, 5 centroids, if they are left out
example: cargo run --release -p fangorn-fusion --example kmeans -- 200000 100 5";
const TOLERANCE: f64 = 1e-12;
const ITERATIONS: usize = 20;

/// One iteration: the distances of rows X to centroids C, the rows' nearest ones, and the centroids of these.
pub fn iteration(rows: usize, columns: usize, centroids: usize) -> Result<Dag, FusionError> {
    let builder = Builder::new();
    let (x, c) = (builder.dense("X", rows, columns), builder.dense("C", centroids, columns));
    // Squared distances less the squares of X, which are the same for all centroids.
    let distances = x.matmul(c.transpose()) * -2.0 + c.square().row_sums().transpose();
    let least = distances.aggregate(Aggregation::Min, Direction::Row);
    let nearest = distances.binary(Binary::LessEqual, least);
    let shares = nearest / nearest.row_sums();
    builder.output("C", shares.transpose().matmul(x) / shares.column_sums().transpose());
    builder.output("least", least.sum());
    builder.finish()
}

/// Clusters, and returns the centroids, the sum of squared distances to them, and the number of iterations.
pub fn train(
    cache: &mut PlanCache,
    policy: Policy,
    x: &Matrix,
    start: Matrix,
) -> Result<(Matrix, f64, usize), FusionError> {
    let (rows, columns) = x.shape();
    let dag = iteration(rows, columns, start.shape().0)?;
    let builder = Builder::new();
    builder.output("squares", builder.dense("X", rows, columns).sum_of_squares());
    let once = builder.finish()?;
    let costs = Costs::default();
    let mut state = Bindings::from([("X".to_owned(), x.clone()), ("C".to_owned(), start)]);
    let squares = cache.plan(&once, policy, &costs).run(&once, &state)?["squares"].scalar();
    let (mut error, mut count) = (f64::INFINITY, 0);
    for _ in 0..ITERATIONS {
        let found = cache.plan(&dag, policy, &costs).run(&dag, &state)?;
        let next = squares + found["least"].scalar();
        state.insert("C".to_owned(), found["C"].clone());
        count += 1;
        let gain = error - next;
        error = next;
        if gain <= TOLERANCE * error {
            break;
        }
    }
    Ok((state["C"].clone(), error, count))
}

/// Makes rows about so many centres, and the first row of each as the centroids to start from.
pub fn data(rows: usize, columns: usize, centroids: usize) -> (Matrix, Matrix) {
    let mut draw = shared::draws(7);
    let centres: Vec<f64> = (0..centroids * columns).map(|_| 3.0 * draw()).collect();
    let mut x = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        x.extend(centres[row % centroids * columns..][..columns].iter().map(|centre| centre + 2.0 * draw()));
    }
    let start = x[..centroids * columns].to_vec();
    let whole = |rows: usize, values: Vec<f64>| Matrix::dense((rows, columns), values).expect("all rows");
    (whole(rows, x), whole(centroids, start))
}

fn main() -> Result<(), FusionError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or: usize| arguments.get(at).map_or(Some(or), |text| text.parse().ok());
    let (Some(rows @ 1..), Some(columns @ 1..), Some(centroids @ 2..)) =
        (number(0, 1_000_000), number(1, 10), number(2, 5))
    else {
        println!("{HELP}");
        return Ok(());
    };
    if rows < centroids {
        println!("{HELP}");
        return Ok(());
    }
    let (x, start) = data(rows, columns, centroids);
    shared::report(
        &Policy::ALL,
        |cache, policy| train(cache, policy, &x, start.clone()),
        |(_, error, count)| format!("error {error:.9e} after {count}"),
    )
}
