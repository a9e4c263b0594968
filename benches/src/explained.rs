//! `fangorn-benches contributions`: times the algorithms for contributions side by side, and measures their costs.

use std::{
    error::Error,
    hint::black_box,
    path::Path,
    time::{Duration, Instant},
};

use cpu_time::ThreadTime;
use fangorn::{
    Forest,
    contributions::{Algorithm, Explainer},
    cost::ContributionCosts,
    cpu::Rows,
    forest::{Predicate, Real, Side},
    import,
};

use crate::drawn::{Random, share, values};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Rows of a call. They fill whole registers.
const ROWS: usize = 2048;
/// Columns of a drawn forest.
const COLUMNS: u32 = 32;
/// Trees of a drawn forest.
const TREES: usize = 100;

/// The shape of the trees of a drawn forest.
#[derive(Clone, Copy)]
enum Shape {
    /// All leaves at this depth. Each split reads another column than the splits above it.
    Full(u32),
    /// All leaves at this depth, and one test for each level. Tests of one column if it is so.
    Oblivious { depth: u32, one_column: bool },
    /// This many leaves, of which one or the other was split next, as LightGBM grows trees.
    Grown(u32),
}

/// Draws a forest with covers.
fn forest(shape: Shape) -> Result<Forest> {
    let mut random = Random(17);
    let mut builder = Forest::builder(COLUMNS as usize, 1);
    for _ in 0..TREES {
        let first = random.below(COLUMNS);
        let splits = match shape {
            Shape::Full(depth) | Shape::Oblivious { depth, .. } => (1u32 << depth) - 1,
            Shape::Grown(leaves) => leaves - 1,
        };
        // For each node its depth, and for each split its left child.
        let (mut depths, mut left) = (vec![0u32], Vec::new());
        let mut open = vec![0u32];
        for _ in 0..splits {
            let at = if let Shape::Grown(_) = shape { random.below(open.len() as u32) } else { 0 };
            let n = open.remove(at as usize) as usize;
            let child = depths.len() as u32;
            open.extend([child, child + 1]);
            depths.extend([depths[n] + 1; 2]);
            left.push((n, child));
        }
        left.sort_unstable();
        let of_level: Vec<u32> = (0..8).map(|_| 1 + random.below(60)).collect();
        let mut tree = builder.tree(0);
        let mut covers = vec![0.0; depths.len()];
        let (mut next, mut leaves) = (left.iter().copied().peekable(), 0);
        for n in 0..depths.len() {
            let level = depths[n];
            let Some((_, child)) = next.next_if(|(split, _)| *split == n) else {
                leaves += 1;
                tree.leaf(leaves - 1, &[share(random.below(1000), 1000)]);
                covers[n] = f64::from(1 + random.below(100));
                continue;
            };
            let (column, threshold) = match shape {
                Shape::Oblivious { one_column: true, .. } => (first, 1 + level),
                Shape::Oblivious { .. } => (first + level, of_level[level as usize]),
                _ => (first + level, 1 + random.below(60)),
            };
            let threshold = Real(share(threshold, 61));
            tree.split(column % COLUMNS, Predicate::Less { threshold }, Side::Left, child, child + 1);
        }
        for (n, child) in left.iter().rev() {
            covers[*n] = covers[*child as usize] + covers[*child as usize + 1];
        }
        tree.covers(covers);
    }
    Ok(builder.build()?)
}

/// Returns the seconds of a row with each algorithm, timed in turns, and the seconds that each one's preparation takes.
fn times(forest: &Forest) -> Result<([f64; 3], [f64; 3])> {
    const ALGORITHMS: [Algorithm; 3] =
        [Algorithm::Quadrature, Algorithm::PatternTables, Algorithm::Estimated];
    let columns = forest.features.len();
    let values = values(ROWS, columns);
    let rows = Rows::new(&values, columns)?;
    let mut prepared = [Vec::new(), Vec::new(), Vec::new()];
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..5 {
        for (algorithm, prepared) in ALGORITHMS.into_iter().zip(&mut prepared) {
            let start = ThreadTime::now();
            black_box(Explainer::with_algorithm(forest, algorithm)?);
            prepared.push(start.elapsed().as_secs_f64());
        }
    }
    let explainers = [0, 1, 2].map(|a| Explainer::with_algorithm(forest, ALGORITHMS[a]));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let begin = Instant::now();
    pool.install(|| {
        let mut out = Vec::new();
        while times[0].len() < 7 || begin.elapsed() < Duration::from_millis(500) {
            for (explainer, times) in explainers.iter().zip(&mut times) {
                let explainer = explainer.as_ref().map_err(ToString::to_string)?;
                out.resize(rows.len() * explainer.width(), 0.0);
                let start = ThreadTime::now();
                explainer.contributions_into(black_box(&rows), &mut out)?;
                times.push(start.elapsed().as_secs_f64());
            }
        }
        Ok::<_, Box<dyn Error + Send + Sync>>(())
    })
    .map_err(|error| error.to_string())?;
    // The median of the fastest third: other programs only add to a time.
    let median = |mut times: Vec<f64>| {
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() / 6]
    };
    Ok((times.map(|times| median(times) / ROWS as f64), prepared.map(median)))
}

/// Prints the time of a row and of the preparation with each algorithm: of models, or of drawn forests if there are none.
pub fn contributions(models: &[String]) -> Result<()> {
    println!("us a row, and ms to prepare, by a quadrature, by pattern tables, and by the estimated choice");
    let line = |name: &str, forest: &Forest| {
        let ([quadrature, tables, estimated], prepared) = times(forest)?;
        let [a, b, c] = prepared.map(|seconds| seconds * 1e3);
        println!(
            "{name:28} {:9.3} {:9.3} {:9.3}  {:5.2} times  {a:8.2} {b:8.2} {c:8.2}  {}",
            quadrature * 1e6,
            tables * 1e6,
            estimated * 1e6,
            quadrature / estimated,
            Explainer::new(forest)?.algorithm()
        );
        Ok::<_, Box<dyn Error>>(())
    };
    for model in models {
        let path = Path::new(model);
        let folder = path.parent().and_then(Path::file_name).unwrap_or(path.as_os_str());
        line(&folder.to_string_lossy(), &import::load(path, &Default::default())?)?;
    }
    if models.is_empty() {
        for depth in 1..=8 {
            line(&format!("{TREES} trees of depth {depth}"), &forest(Shape::Full(depth))?)?;
        }
        for depth in [2, 4, 6, 7, 8] {
            let shape = Shape::Oblivious { depth, one_column: false };
            line(&format!("{TREES} oblivious trees of depth {depth}"), &forest(shape)?)?;
        }
        for leaves in [8, 16, 31] {
            line(&format!("{TREES} trees of {leaves} leaves"), &forest(Shape::Grown(leaves))?)?;
        }
    }
    Ok(())
}

/// Measures the costs of contributions on this machine: those that are nearest to the times of both algorithms on drawn
/// forests, where an error counts by its share of the time.
pub fn costs() -> Result<ContributionCosts> {
    let full = (1..=8).map(Shape::Full);
    let oblivious = (1..=8).map(|depth| Shape::Oblivious { depth, one_column: false });
    let one_column = (3..=8).map(|depth| Shape::Oblivious { depth, one_column: true });
    let grown = [8, 16, 31].map(Shape::Grown);
    // For each forest and algorithm, how much of the time is one second of each cost.
    let mut shares: Vec<[f64; 6]> = Vec::new();
    for shape in full.chain(oblivious).chain(one_column).chain(grown) {
        let forest = forest(shape)?;
        let ([quadrature, tables, _], _) = times(&forest)?;
        for (algorithm, seconds) in [(Algorithm::Quadrature, quadrature), (Algorithm::PatternTables, tables)]
        {
            let work = Explainer::with_algorithm(&forest, algorithm)?.work();
            shares.push(work.all().map(|count| count as f64 / seconds));
        }
    }
    let [test, split, point, bit, lookup, read] = nearest(&shares);
    Ok(ContributionCosts { test, split, point, bit, lookup, read })
}

/// Returns numbers that are not negative and with which the sums of all lines, weighted by the numbers, are nearest to 1.
/// Each round finds the best value of one number after the other.
fn nearest<const N: usize>(lines: &[[f64; N]]) -> [f64; N] {
    let mut found = [0.0; N];
    for _ in 0..20_000 {
        for n in 0..N {
            let rest = |line: &[f64; N]| {
                1.0 - line.iter().zip(&found).map(|(a, x)| a * x).sum::<f64>() + line[n] * found[n]
            };
            let along: f64 = lines.iter().map(|line| line[n] * rest(line)).sum();
            let square: f64 = lines.iter().map(|line| line[n] * line[n]).sum();
            found[n] = if square > 0.0 { (along / square).max(0.0) } else { 0.0 };
        }
    }
    found
}
