//! What the examples share: random numbers, a step of conjugate gradients, and a table of times.

#![allow(dead_code, reason = "no example uses all of it")]

use std::time::Instant;

use fangorn_fusion::{
    FusionError,
    dag::{Builder, Dag},
    select::{PlanCache, Policy},
};

/// Returns a source of random numbers from -0.5 to 0.5: a linear congruential generator.
pub fn draws(mut seed: u64) -> impl FnMut() -> f64 {
    move || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as f64 / (1u64 << 31) as f64 - 0.5
    }
}

/// Returns a step of conjugate gradients that solves `H S = G`, over matrices of one shape. It takes the solution S so
/// far, the direction D, the residual R, and HD, the product of H with D. It gives the next S, R and D, and `rr`, the sum
/// of the squares of the next R.
///
/// # Errors
/// A shape has no elements.
pub fn conjugate_step((rows, columns): (usize, usize)) -> Result<Dag, FusionError> {
    let builder = Builder::new();
    let matrix = |name: &str| builder.dense(name, rows, columns);
    let (s, d, r, hd) = (matrix("S"), matrix("D"), matrix("R"), matrix("HD"));
    let rr = r.sum_of_squares();
    let size = rr / (d * hd).sum();
    let left = r - hd * size;
    let next = left.sum_of_squares();
    builder.output("S", s + d * size);
    builder.output("R", left);
    builder.output("D", left + d * (next / rr));
    builder.output("rr", next);
    builder.finish()
}

/// Runs `once` under each policy in turn, so that other work on the machine slows all of them. Prints the median time of
/// three turns after a first one, what plans took, and what `show` says of the last result.
///
/// # Errors
/// Those of `once`.
pub fn report<T>(
    policies: &[Policy],
    mut once: impl FnMut(&mut PlanCache, Policy) -> Result<T, FusionError>,
    show: impl Fn(&T) -> String,
) -> Result<(), FusionError> {
    let mut caches: Vec<PlanCache> = policies.iter().map(|_| PlanCache::default()).collect();
    let mut times = vec![Vec::new(); policies.len()];
    let mut shown = vec![String::new(); policies.len()];
    for turn in 0..4 {
        for (at, policy) in policies.iter().enumerate() {
            let begin = Instant::now();
            let found = once(&mut caches[at], *policy)?;
            if turn > 0 {
                times[at].push(begin.elapsed().as_secs_f64());
            }
            shown[at] = show(&found);
        }
    }
    for (at, policy) in policies.iter().enumerate() {
        times[at].sort_by(f64::total_cmp);
        let report = caches[at].report();
        println!(
            "{policy:?}: {:.3} s ({} plans made in {:.2} ms, {} found in {:.2} ms), {}",
            times[at][times[at].len() / 2],
            report.misses,
            report.making.as_secs_f64() * 1e3,
            report.hits,
            report.finding.as_secs_f64() * 1e3,
            shown[at]
        );
    }
    Ok(())
}
