//! KMeans over rows that only operators in blocks read: distances and nearest centroids never leave the blocks.

use std::collections::HashMap;

use fangorn_fusion::{
    Bindings, FusionError, Matrix, RowBlocks,
    dag::{Aggregation, Binary, Builder, Dag, Direction},
    select::{Costs, PlanCache, Policy},
};

const TOLERANCE: f64 = 1e-12;
const ITERATIONS: usize = 20;

/// What clustering gave.
pub struct Clustered {
    /// The centroids, one a row.
    pub centroids: Vec<f64>,
    /// The sum of the squared distances of rows to the nearest centroid.
    pub error: f64,
    /// How many iterations it took.
    pub iterations: usize,
}

/// An iteration: the centroids of the rows that are nearest to each centroid, and the sum of the least distances.
fn iteration(rows: usize, columns: usize, centroids: usize) -> Result<Dag, FusionError> {
    let builder = Builder::new();
    let (x, c) = (builder.dense("X", rows, columns), builder.dense("C", centroids, columns));
    // Squared distances less the squares of X, which are the same for all centroids.
    let distances = x.matmul(c.transpose()) * -2.0 + c.square().row_sums().transpose();
    let least = distances.aggregate(Aggregation::Min, Direction::Row);
    let nearest = distances.binary(Binary::LessEqual, least);
    let shares = nearest / nearest.row_sums();
    builder.output("sums", shares.transpose().matmul(x));
    builder.output("counts", shares.column_sums());
    builder.output("least", least.sum());
    builder.finish()
}

/// Clusters rows, from these centroids on.
///
/// # Errors
/// There are no rows, or they can't be read.
pub fn train(
    rows: &dyn RowBlocks,
    centroids: Vec<f64>,
    costs: &Costs,
    policy: Policy,
) -> Result<Clustered, FusionError> {
    let (count, columns) = rows.shape();
    let number = centroids.len() / columns.max(1);
    let dag = iteration(count, columns, number)?;
    let builder = Builder::new();
    builder.output("squares", builder.dense("X", count, columns).sum_of_squares());
    let squares = builder.finish()?;
    let blocks = HashMap::from([("X".to_owned(), rows)]);
    let mut plans = PlanCache::default();
    let squares =
        plans.plan(&squares, policy, costs).run_blocks(&squares, &Bindings::new(), &blocks)?["squares"]
            .scalar();
    let mut found = Clustered { centroids, error: f64::INFINITY, iterations: 0 };
    while found.iterations < ITERATIONS {
        let c = Matrix::dense((number, columns), found.centroids.clone()).expect("whole centroids");
        let bindings = Bindings::from([("C".to_owned(), c)]);
        let made = plans.plan(&dag, policy, costs).run_blocks(&dag, &bindings, &blocks)?;
        let (sums, counts) = (made["sums"].to_dense(), made["counts"].to_dense());
        for (at, (centroid, count)) in found.centroids.chunks_exact_mut(columns).zip(counts).enumerate() {
            // A centroid that no row is nearest to stays.
            if count > 0.0 {
                centroid.iter_mut().zip(&sums[at * columns..]).for_each(|(c, sum)| *c = sum / count);
            }
        }
        found.iterations += 1;
        let error = squares + made["least"].scalar();
        let gain = found.error - error;
        found.error = error;
        if gain <= TOLERANCE * error {
            break;
        }
    }
    Ok(found)
}
