//! `fangorn-benches matrices`: forests as the three products of matrices that `Pass::Matrices` makes of them, beside
//! their walks, in turns, on one thread. It fits the costs of `fangorn::cost::FOREST_PRODUCTS` to the times.

use std::{error::Error, sync::Arc};

use cpu_time::ThreadTime;
use fangorn::{
    cost::{FOREST_PRODUCTS, ForestProducts},
    graph::{Dtype, Elements, Graph, GraphPredictor, Operator, Pass, Passes, Tensor},
};

use crate::drawn::{self, Shape};

/// Columns of the rows.
const COLUMNS: usize = 20;
/// Numbers of trees, and the depths of their leaves.
const TREES: [usize; 4] = [1, 10, 30, 100];
const DEPTHS: [u32; 4] = [1, 2, 3, 4];
/// Rows of a batch.
const ROWS: [usize; 3] = [1, 64, 512];
/// Number of calls of each graph.
const CALLS: usize = 11;
/// Steps of the fit. Each goes once through all costs.
const STEPS: usize = 20_000;

/// Times one batch, and the counts of its estimate.
struct Sample {
    seconds: f64,
    counts: [f64; 4],
}

/// Prints the microseconds of a row with walks and with matrix products, and the fitted costs beside the shipped ones.
///
/// # Errors
/// A graph does not run.
pub fn forest_products() -> Result<(), Box<dyn Error>> {
    println!("depth  trees   rows       walk   products   products / walk   estimate / products");
    let mut samples = Vec::new();
    for depth in DEPTHS {
        for trees in TREES {
            let forest = drawn::forest(trees, COLUMNS as u32, Shape::Full(depth))?;
            let outputs = forest.outputs as usize;
            let mut graph = Graph::default();
            let x = graph.input("x", Dtype::F32, [None, Some(COLUMNS)]);
            let values = graph.node("forest", Operator::Forest(Arc::new(forest)), [x]);
            graph.output("y", values);
            let of = |passes: &Passes| GraphPredictor::with_passes(&graph, 1, passes);
            let products = Passes::none().with([Pass::Matrices, Pass::Dtypes]);
            let predictors = [of(&Passes::none())?, of(&products)?];
            for rows in ROWS {
                let batch = Tensor::new([rows, COLUMNS], Elements::F32(drawn::values(rows, COLUMNS)));
                let batch = [batch.ok_or("rows")?];
                let mut times = [Vec::new(), Vec::new()];
                for _ in 0..CALLS {
                    for (predictor, times) in predictors.iter().zip(&mut times) {
                        let start = ThreadTime::now();
                        predictor.predict(&batch)?;
                        times.push(start.elapsed().as_secs_f64());
                    }
                }
                let [walk, products] = times.map(|mut times| {
                    times.sort_unstable_by(f64::total_cmp);
                    times[CALLS / 2]
                });
                let [splits, leaves] =
                    [(1usize << depth) - 1, 1 << depth].map(|count| (trees * count) as f64);
                let elements = leaves * (splits + outputs as f64);
                let counts = [1.0, rows as f64 * splits, rows as f64 * leaves, rows as f64 * elements];
                let estimate: f64 =
                    costs(&FOREST_PRODUCTS).iter().zip(counts).map(|(cost, count)| cost * count).sum();
                let us = |seconds: f64| seconds * 1e6 / rows as f64;
                println!(
                    "{depth:>5} {trees:>6} {rows:>6} {:>10.3} {:>10.3} {:>17.1} {:>21.2}",
                    us(walk),
                    us(products),
                    products / walk,
                    estimate / products
                );
                samples.push(Sample { seconds: products, counts });
            }
        }
    }
    let found = fitted(&samples);
    println!("\ncost      shipped   measured");
    for ((name, shipped), found) in
        ["batch", "split", "leaf", "element"].iter().zip(costs(&FOREST_PRODUCTS)).zip(found)
    {
        println!("{name:8} {shipped:>8.2e} {found:>10.2e}");
    }
    Ok(())
}

fn costs(of: &ForestProducts) -> [f64; 4] {
    [of.batch, of.split, of.leaf, of.element]
}

/// Returns the costs, none below 0, whose estimates have the least sum of squares of relative errors.
fn fitted(samples: &[Sample]) -> [f64; 4] {
    let share = |sample: &Sample, at: usize| sample.counts[at] / sample.seconds;
    let mut found = [0.0; 4];
    for _ in 0..STEPS {
        for at in 0..4 {
            let rest = |sample: &Sample| {
                let others = (0..4).filter(|other| *other != at);
                1.0 - others.map(|other| found[other] * share(sample, other)).sum::<f64>()
            };
            let (above, below) = samples.iter().fold((0.0, 0.0), |(above, below), sample| {
                let own = share(sample, at);
                (above + own * rest(sample), below + own * own)
            });
            found[at] = f64::max(above / below, 0.0);
        }
    }
    found
}
