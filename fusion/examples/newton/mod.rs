//! Newton's method whose steps conjugate gradients find, for models whose objective is convex. `mlogreg` and `glm` share
//! it.

use fangorn_fusion::{
    Bindings, FusionError, Matrix,
    dag::{Builder, Dag},
    select::{Costs, PlanCache, Policy},
};

/// The weight of the squares of weights.
pub const LAMBDA: f64 = 1e-3;
const TOLERANCE: f64 = 1e-12;
const OUTER: usize = 20;
const INNER: usize = 10;

/// What differs between models: two graphs of the script between its branches. Weights B and gradients G are matrices of
/// one shape.
pub struct Objective {
    /// From weights B: `objective`, its gradient `G`, and what `curvature` needs.
    pub model: Dag,
    /// From a direction D: `HD`, the product of the Hessian with D, and `dHd`, the product of both.
    pub curvature: Dag,
}

/// What training found.
pub struct Found {
    /// The weights.
    pub weights: Matrix,
    /// The objective.
    pub objective: f64,
    /// How many products with the Hessian it took.
    pub products: usize,
}

/// Returns a step of conjugate gradients, and the weights after a step.
fn steps(shape: (usize, usize)) -> Result<(Dag, Dag), FusionError> {
    let builder = Builder::new();
    let matrix = |name: &str| builder.dense(name, shape.0, shape.1);
    let scalar = |name: &str| builder.dense(name, 1, 1);
    let (s, d, r, hd) = (matrix("S"), matrix("D"), matrix("R"), matrix("HD"));
    let (rr, dhd) = (scalar("rr"), scalar("dHd"));
    let size = rr / dhd;
    let left = r - hd * size;
    let next = left.sum_of_squares();
    builder.output("S", s + d * size);
    builder.output("R", left);
    builder.output("D", left + d * (next / rr));
    builder.output("rr", next);
    let step = builder.finish()?;

    let builder = Builder::new();
    let matrix = |name: &str| builder.dense(name, shape.0, shape.1);
    builder.output("B", matrix("old") + matrix("S") * builder.dense("scale", 1, 1));
    Ok((step, builder.finish()?))
}

fn scalar(value: f64) -> Matrix {
    Matrix::dense((1, 1), vec![value]).expect("one element")
}

/// Finds the weights, of `shape`, with the least objective, from weights of 0. `state` binds the data.
///
/// # Errors
/// The data don't fit the graphs.
pub fn train(
    cache: &mut PlanCache,
    policy: Policy,
    objective: &Objective,
    mut state: Bindings,
    shape: (usize, usize),
) -> Result<Found, FusionError> {
    let (step, update) = steps(shape)?;
    let costs = Costs::default();
    let mut run = |dag: &Dag, state: &Bindings| cache.plan(dag, policy, &costs).run(dag, state);
    let zeros = || Matrix::dense(shape, vec![0.0; shape.0 * shape.1]).expect("all weights");
    state.insert("B".to_owned(), zeros());
    state.extend(run(&objective.model, &state)?);
    let (mut least, mut products) = (state["objective"].scalar(), 0);
    for _ in 0..OUTER {
        // Conjugate gradients for H S = -G.
        let negative = state["G"].to_dense().into_iter().map(|g| -g).collect::<Vec<_>>();
        let first: f64 = negative.iter().map(|g| g * g).sum();
        let residual = Matrix::dense(shape, negative).expect("all weights");
        state.extend([("S".to_owned(), zeros()), ("rr".to_owned(), scalar(first))]);
        state.extend([("R".to_owned(), residual.clone()), ("D".to_owned(), residual)]);
        for _ in 0..INNER {
            if state["rr"].scalar() <= TOLERANCE * TOLERANCE * first {
                break;
            }
            state.extend(run(&objective.curvature, &state)?);
            state.extend(run(&step, &state)?);
            products += 1;
        }
        state.insert("old".to_owned(), state["B"].clone());
        let (mut scale, before) = (1.0, least);
        loop {
            state.insert("scale".to_owned(), scalar(scale));
            state.extend(run(&update, &state)?);
            state.extend(run(&objective.model, &state)?);
            least = state["objective"].scalar();
            if least <= before || scale < 1e-6 {
                break;
            }
            scale /= 2.0;
        }
        if before - least <= TOLERANCE * least {
            break;
        }
    }
    Ok(Found { weights: state["B"].clone(), objective: least, products })
}

/// Trains under each policy in turn, so that whatever else runs slows all of them, and prints medians of three turns.
///
/// # Errors
/// Those of `once`.
pub fn report(
    mut once: impl FnMut(&mut PlanCache, Policy) -> Result<Found, FusionError>,
) -> Result<(), FusionError> {
    let mut caches: Vec<PlanCache> = Policy::ALL.iter().map(|_| PlanCache::default()).collect();
    let mut times = vec![Vec::new(); Policy::ALL.len()];
    let mut found = Vec::new();
    // The first turn warms up.
    for turn in 0..4 {
        found.clear();
        for ((policy, cache), times) in Policy::ALL.iter().zip(&mut caches).zip(&mut times) {
            let begin = std::time::Instant::now();
            found.push(once(cache, *policy)?);
            if turn > 0 {
                times.push(begin.elapsed().as_secs_f64());
            }
        }
    }
    for (((policy, cache), times), found) in Policy::ALL.iter().zip(&caches).zip(&mut times).zip(&found) {
        times.sort_by(f64::total_cmp);
        let report = cache.report();
        println!(
            "{policy:?}: {:.3} s ({} plans made in {:.2} ms, {} found in {:.2} ms), objective {:.9e}, {} products",
            times[times.len() / 2],
            report.misses,
            report.making.as_secs_f64() * 1e3,
            report.hits,
            report.finding.as_secs_f64() * 1e3,
            found.objective,
            found.products
        );
    }
    Ok(())
}
