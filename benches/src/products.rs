//! `fangorn-benches products`: the product of rows with a weight of which some elements are 0, as a dense product and as
//! one that skips them, in turns. `fangorn::cost::PRODUCTS` has the costs that follow from the table.

use std::error::Error;

use cpu_time::ThreadTime;
use fangorn::graph::{Dtype, Elements, Graph, GraphPredictor, Operator, Passes, Tensor, skip_zeros};

/// Rows of a batch.
const ROWS: usize = 512;
/// Rows and columns of the weights.
const SHAPES: [[usize; 2]; 4] = [[90, 10], [300, 1], [300, 100], [1000, 300]];
/// The fractions of a weight's elements that are not 0.
const DENSITIES: [f64; 7] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4];
/// Number of calls of each graph.
const CALLS: usize = 31;

/// A seeded number between 0 and 1.
fn number(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 40) as f64 / f64::from(1 << 24)
}

/// Rows of small batches. From about the fourth on, weights are packed.
const FEW_ROWS: [usize; 8] = [1, 4, 8, 12, 13, 16, 32, 64];

/// Prints, for each shape, the nanoseconds of an element of the weight in small batches. In a batch of 12 rows, an element
/// takes 12 times `unpacked`. From 16 rows on it takes `packing`, and `dense` for each row.
fn few_rows(seed: &mut u64) -> Result<(), Box<dyn Error>> {
    println!(
        "\nrows x columns of a dense weight; nanoseconds of an element of the weight in a batch, by its rows"
    );
    println!("{:15} {}", "", FEW_ROWS.map(|rows| format!("{rows:>7}")).join(" "));
    for [inner, width] in SHAPES {
        let weight = (0..inner * width).map(|_| number(seed) as f32).collect();
        let mut graph = Graph::default();
        let x = graph.input("x", Dtype::F32, [None, Some(inner)]);
        let weight = graph.weight(Tensor::new([inner, width], Elements::F32(weight)).ok_or("a weight")?);
        let product = graph.node("product", Operator::MatMul, [x, weight]);
        graph.output("y", product);
        let predictor = GraphPredictor::with_passes(&graph, 1, &Passes::none())?;
        let mut line = format!("{inner:>6} x {width:<6}");
        for rows in FEW_ROWS {
            let values: Vec<f32> = (0..rows * inner).map(|_| number(seed) as f32 - 0.5).collect();
            let values = Tensor::new([rows, inner], Elements::F32(values)).ok_or("rows")?;
            let mut times = Vec::new();
            for _ in 0..10 * CALLS {
                let start = ThreadTime::now();
                predictor.predict(std::slice::from_ref(&values))?;
                times.push(start.elapsed().as_secs_f64() * 1e9);
            }
            times.sort_unstable_by(f64::total_cmp);
            line += &format!(" {:>7.3}", times[times.len() / 2] / (inner * width) as f64);
        }
        println!("{line}");
    }
    Ok(())
}

/// Prints, for each shape and density, the microseconds of a batch: dense, and with zeros skipped.
///
/// # Errors
/// A graph does not run.
pub fn products() -> Result<(), Box<dyn Error>> {
    println!("{ROWS} rows; microseconds of a batch");
    println!("rows x columns  filled      dense    skipping   dense / skipping");
    let mut seed = 1;
    for [inner, width] in SHAPES {
        let rows: Vec<f32> = (0..ROWS * inner).map(|_| number(&mut seed) as f32 - 0.5).collect();
        let rows = Tensor::new([ROWS, inner], Elements::F32(rows)).ok_or("rows")?;
        for density in DENSITIES {
            let weight = (0..inner * width)
                .map(|_| if number(&mut seed) < density { number(&mut seed) as f32 + 0.5 } else { 0.0 })
                .collect();
            let mut graph = Graph::default();
            let x = graph.input("x", Dtype::F32, [None, Some(inner)]);
            let weight = graph.weight(Tensor::new([inner, width], Elements::F32(weight)).ok_or("a weight")?);
            let product = graph.node("product", Operator::MatMul, [x, weight]);
            graph.output("y", product);
            let skipping = skip_zeros(&graph)?;
            let predictor = |graph| GraphPredictor::with_passes(graph, 1, &Passes::none());
            let (dense, skipping) = (predictor(&graph)?, predictor(&skipping)?);
            let mut times = [Vec::new(), Vec::new()];
            for _ in 0..CALLS {
                for (predictor, times) in [&dense, &skipping].into_iter().zip(&mut times) {
                    let start = ThreadTime::now();
                    predictor.predict(std::slice::from_ref(&rows))?;
                    times.push(start.elapsed().as_secs_f64() * 1e6);
                }
            }
            let [dense, skipping] = times.map(|mut times| {
                times.sort_unstable_by(f64::total_cmp);
                times[CALLS / 2]
            });
            let ratio = dense / skipping;
            println!("{inner:>6} x {width:<6} {density:>7} {dense:>10.1} {skipping:>11.1} {ratio:>18.2}");
        }
    }
    few_rows(&mut seed)
}
