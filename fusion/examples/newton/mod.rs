//! Newton's method whose steps conjugate gradients find, for models whose objective is convex. `mlogreg` and `glm` share
//! it.

use fangorn_fusion::{
    Bindings, FusionError, Matrix,
    dag::{Builder, Dag},
    select::{Costs, PlanCache, Policy},
};

#[path = "../shared/mod.rs"]
pub mod shared;

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
    /// From a direction D: `HD`, the product of the Hessian with D.
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

/// Returns the graph of the weights after a step, whose length is scaled.
fn update((rows, columns): (usize, usize)) -> Result<Dag, FusionError> {
    let builder = Builder::new();
    let matrix = |name: &str| builder.dense(name, rows, columns);
    builder.output("B", matrix("old") + matrix("S") * builder.dense("scale", 1, 1));
    builder.finish()
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
    let (step, update) = (shared::conjugate_step(shape)?, update(shape)?);
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
        if first == 0.0 {
            break;
        }
        let residual = Matrix::dense(shape, negative).expect("all weights");
        state.extend([
            ("S".to_owned(), zeros()),
            ("R".to_owned(), residual.clone()),
            ("D".to_owned(), residual),
        ]);
        for _ in 0..INNER {
            state.extend(run(&objective.curvature, &state)?);
            state.extend(run(&step, &state)?);
            products += 1;
            if state["rr"].scalar() <= TOLERANCE * TOLERANCE * first {
                break;
            }
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

/// Trains under each policy in turn, and prints times.
///
/// # Errors
/// Those of `once`.
pub fn report(
    once: impl FnMut(&mut PlanCache, Policy) -> Result<Found, FusionError>,
) -> Result<(), FusionError> {
    shared::report(&Policy::ALL, once, |found| {
        format!("objective {:.9e}, {} products", found.objective, found.products)
    })
}
