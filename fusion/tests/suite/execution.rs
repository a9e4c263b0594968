//! Runs of plans against the interpreter.

use std::collections::BTreeSet;

use fangorn_fusion::{
    Bindings, Matrix,
    dag::{Aggregation, Builder, Dag, Direction, Operator},
    explore::Template,
    select::{Costs, Plan, Policy},
};

use crate::random::{Random, bindings, compressed, graph, graph_of_compressed, single};

/// Compares runs under every policy with the interpreter.
pub fn compare(name: &str, dag: &Dag, bindings: &Bindings, seen: &mut BTreeSet<String>) {
    let expected = dag.interpret(bindings).unwrap();
    for policy in Policy::ALL {
        let plan = Plan::new(dag, policy, &Costs::default());
        seen.extend(plan.operators().iter().map(|operator| {
            let skips = if operator.driver.is_some() { " sparse" } else { "" };
            let distinct = if operator.distinct(dag).is_some() { " distinct" } else { "" };
            format!("{:?} {}{skips}{distinct}", operator.template, operator.variant(dag))
        }));
        let shared = plan
            .operators()
            .iter()
            .filter(|operator| operator.template == Some(Template::Row) && operator.roots.len() > 1);
        seen.extend(shared.flat_map(|operator| &operator.roots).map(|root| match dag.operator(*root) {
            Operator::Aggregate(_, direction) => format!("shared {direction:?}"),
            Operator::MatMul if dag.transposed(dag.inputs(*root)[0]).is_some() => "shared t(X) W".to_owned(),
            _ => "shared elements".to_owned(),
        }));
        let found = plan.run(dag, bindings).unwrap();
        assert_eq!(found.len(), expected.len());
        for (output, expected) in &expected {
            let (expected, found) = (expected.to_dense(), found[output].to_dense());
            assert_eq!(expected.len(), found.len());
            for (at, (a, b)) in expected.iter().zip(&found).enumerate() {
                let same = (a - b).abs() <= 1e-5 * a.abs().max(b.abs()).max(1e-3)
                    || a.is_nan() && b.is_nan()
                    || a == b;
                assert!(
                    same,
                    "{name}, {policy:?}, {output}[{at}]: {b} instead of {a}\n{dag}{}",
                    plan.explain(dag)
                );
            }
        }
    }
}

#[test]
fn a_factor_that_another_way_covers_is_written() {
    // b is on the right of a product, which needs it whole, and is added to that product.
    let builder = Builder::new();
    let a = builder.dense("X", 20, 20).abs();
    let b = a * 2.0;
    builder.output("sum", a.matmul(b) + b);
    let dag = builder.finish().unwrap();
    let bindings = bindings(&mut Random::new(1), &dag);
    compare("square", &dag, &bindings, &mut BTreeSet::new());
}

#[test]
fn a_transposition_is_a_factor_and_has_elements_of_its_own() {
    let builder = Builder::new();
    let (a, y) = (builder.dense("X", 8, 8), builder.dense("Y", 8, 8));
    builder.output("product", a.transpose().matmul(a.transpose() * y));
    let dag = builder.finish().unwrap();
    let bindings = bindings(&mut Random::new(2), &dag);
    compare("transposed twice", &dag, &bindings, &mut BTreeSet::new());
}

#[test]
fn zeros_in_csr_give_zero_beside_nan_and_infinity() {
    let builder = Builder::new();
    let (s, x) = (builder.csr("S", 2, 3, 0.5), builder.dense("X", 2, 3));
    builder.output("elements", s * x);
    builder.output("sums", (s * x).row_sums());
    builder.output("product", s.matmul(builder.dense("w", 3, 1)));
    builder.output("dense", (x - x) * x);
    let dag = builder.finish().unwrap();
    let (nan, infinity) = (f64::NAN, f64::INFINITY);
    let bindings = Bindings::from([
        ("S".to_owned(), Matrix::csr((2, 3), &[0.0, 2.0, 0.0, 1.0, 0.0, 3.0]).unwrap()),
        ("X".to_owned(), Matrix::dense((2, 3), vec![nan, 1.0, infinity, infinity, nan, -1.0]).unwrap()),
        ("w".to_owned(), Matrix::dense((3, 1), vec![infinity, 1.0, nan]).unwrap()),
    ]);
    for policy in Policy::ALL {
        let found = Plan::new(&dag, policy, &Costs::default()).run(&dag, &bindings).unwrap();
        assert_eq!(found["elements"].to_dense(), [0.0, 2.0, 0.0, infinity, 0.0, -3.0]);
        assert_eq!(found["sums"].to_dense(), [2.0, infinity]);
        let product = found["product"].to_dense();
        assert!(product[0] == 2.0 && product[1].is_nan(), "{product:?}");
        let dense = found["dense"].to_dense();
        assert!(dense[0].is_nan() && dense[1] == 0.0 && dense[2].is_nan(), "{dense:?}");
    }
    compare("by hand", &dag, &bindings, &mut BTreeSet::new());
}

/// The least and the greatest of numbers are NaN if one of them is.
#[test]
fn extremes_of_nan_are_nan() {
    let builder = Builder::new();
    let x = builder.dense("X", 3, 2);
    builder.output("least", x.min(0.0));
    builder.output("greatest", x.max(0.0));
    for (name, aggregation) in [("min", Aggregation::Min), ("max", Aggregation::Max)] {
        builder.output(name, x.aggregate(aggregation, Direction::Row));
        builder.output(&format!("{name} of columns"), x.aggregate(aggregation, Direction::Column));
    }
    let dag = builder.finish().unwrap();
    let values = vec![1.0, f64::NAN, f64::NAN, -1.0, 2.0, -2.0];
    let bindings = Bindings::from([("X".to_owned(), Matrix::dense((3, 2), values).unwrap())]);
    let bits = |values: &[f64]| {
        values.iter().map(|x| if x.is_nan() { "NaN".into() } else { x.to_string() }).collect()
    };
    for policy in Policy::ALL {
        let found = Plan::new(&dag, policy, &Costs::default()).run(&dag, &bindings).unwrap();
        let of = |name: &str| -> Vec<String> { bits(&found[name].to_dense()) };
        assert_eq!(of("least"), ["0", "NaN", "NaN", "-1", "0", "-2"]);
        assert_eq!(of("greatest"), ["1", "NaN", "NaN", "0", "2", "0"]);
        assert_eq!(
            (of("min"), of("max")),
            (vec!["NaN".into(), "NaN".into(), "-2".into()], vec!["NaN".into(), "NaN".into(), "2".into()])
        );
        assert_eq!(
            (of("min of columns"), of("max of columns")),
            (vec!["NaN".into(); 2], vec!["NaN".into(); 2])
        );
    }
    compare("by hand", &dag, &bindings, &mut BTreeSet::new());
}

/// Plans agree with the interpreter where elements are NaN or infinite, too.
#[test]
fn plans_agree_on_values_that_are_not_finite() {
    let count = std::env::var("FANGORN_FUSION_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    for seed in 0..count {
        let mut random = Random::new(5_000_000 + seed);
        let operators = 2 + random.below(10);
        let sizes = [1, 2, 3, 7, 9, 12, 16, 17, 65];
        let (rows, columns) = (random.pick(&sizes), random.pick(&sizes));
        let draw = if seed % 2 == 0 { graph } else { graph_of_compressed };
        let dag = draw(&mut random, operators, rows, columns);
        // By name, so that a seed draws the same values each time.
        let mut drawn: Vec<_> = bindings(&mut random, &dag).into_iter().collect();
        drawn.sort_by(|a, b| a.0.cmp(&b.0));
        let share = random.pick(&[0.01, 0.1, 0.5]);
        let spoiled = drawn.into_iter().map(|(name, matrix)| {
            let values: Vec<f64> = matrix
                .to_dense()
                .into_iter()
                .map(|x| match random.share() < share {
                    true if x != 0.0 => random.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.5]),
                    _ => x,
                })
                .collect();
            let spoiled = match matrix {
                Matrix::Dense(_) => Matrix::dense(matrix.shape(), values),
                Matrix::Single(_) => single(matrix.shape(), &values),
                Matrix::Csr(_) => Matrix::csr(matrix.shape(), &values),
                Matrix::Compressed(_) => Some(compressed(matrix.shape(), values)),
            };
            (name, spoiled.unwrap())
        });
        compare(&format!("seed {seed}"), &dag, &spoiled.collect(), &mut BTreeSet::new());
    }
}

/// Rows that take many tiles and end within one, of inputs in every format.
#[test]
fn passes_over_many_tiles_compute_what_the_interpreter_does() {
    let count = std::env::var("FANGORN_FUSION_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(150);
    let mut seen = BTreeSet::new();
    for seed in 0..count {
        let mut random = Random::new(9_000_000 + seed);
        let operators = 4 + random.below(12);
        let (rows, columns) = (random.pick(&[511, 2049, 4097, 9001]), random.pick(&[1, 2, 5, 10, 17]));
        let draw = if seed % 4 > 0 { graph } else { graph_of_compressed };
        let dag = draw(&mut random, operators, rows, columns);
        let bindings = bindings(&mut random, &dag);
        compare(&format!("seed {seed}"), &dag, &bindings, &mut seen);
    }
    for end in ["elements", "Row", "Column", "Full", "t(X) W"] {
        assert!(
            count < 150 || seen.contains(&format!("shared {end}")),
            "no pass with {end} is drawn: {seen:?}"
        );
    }
}

/// A pass can't read what it sums, neither itself nor by way of another operator.
#[test]
fn what_needs_a_whole_sum_waits_for_it() {
    let builder = Builder::new();
    let (x, v) = (builder.dense("X", 700, 3), builder.dense("v", 3, 1));
    let product = x.matmul(v);
    let most = product.aggregate(Aggregation::Max, Direction::Full);
    let columns = x.abs().column_sums();
    builder.output("scaled", product / (most + 1.0));
    builder.output("shares", (x / columns).row_sums());
    builder.output("least", (product - most).aggregate(Aggregation::Min, Direction::Full));
    builder.output("gradient", x.transpose().matmul(product * most));
    let x = x.node();
    let dag = builder.finish().unwrap();
    let bindings = bindings(&mut Random::new(4), &dag);
    compare("by hand", &dag, &bindings, &mut BTreeSet::new());
    // The first pass sums, and the second one has the rest.
    let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
    let passes = plan.operators().iter().filter(|operator| operator.inputs.contains(&x));
    assert_eq!(passes.count(), 2, "{}", plan.explain(&dag));
}

/// Algorithms whose loops are unrolled have thousands of operators over one matrix. Each step reads what the one before
/// wrote, so no two of them share a pass, while what a step computes beside it does.
#[test]
fn passes_are_found_in_graphs_of_thousands_of_operators() {
    let builder = Builder::new();
    let (x, y) = (builder.dense("X", 9, 3), builder.dense("y", 9, 1));
    let (mut w, mut speed) = (builder.dense("w", 3, 1), builder.literal(0.0) * builder.dense("v", 3, 1));
    let mut loss = builder.literal(0.0);
    let steps = 1100;
    for _ in 0..steps {
        let error = (x.matmul(w).sigmoid() - y) * 1e-3;
        speed = speed * 0.9 + x.transpose().matmul(error);
        loss = loss * 0.5 + (error * error).sum();
        w = w - speed;
    }
    builder.output("w", w);
    builder.output("loss", loss);
    let x = x.node();
    let dag = builder.finish().unwrap();
    let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
    let over_x = plan.operators().iter().filter(|operator| operator.inputs.contains(&x));
    // A pass may be split where one window of operators ends.
    assert!((steps..steps + 10).contains(&over_x.count()));
    let bindings = bindings(&mut Random::new(6), &dag);
    compare("gradient descent", &dag, &bindings, &mut BTreeSet::new());
    // A pass over many independent results has its limit, too.
    let builder = Builder::new();
    let x = builder.dense("X", 40, 2);
    for at in 0..700 {
        builder.output(&format!("c{at}"), (x * f64::from(at)).abs().column_sums());
    }
    let dag = builder.finish().unwrap();
    let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
    assert!((2..20).contains(&plan.operators().len()), "{}", plan.operators().len());
}

/// `FANGORN_FUSION_CASES` says how many graphs are drawn.
#[test]
fn plans_compute_what_the_interpreter_does() {
    let count = std::env::var("FANGORN_FUSION_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(1500);
    let mut seen = BTreeSet::new();
    for seed in 0..count {
        let mut random = Random::new(1_000_000 + seed);
        let operators = 2 + random.below(14);
        let sizes = [1, 2, 3, 7, 9, 12, 16, 17, 31, 65, 130];
        let (rows, columns) = (random.pick(&sizes), random.pick(&sizes));
        let draw = if seed % 3 > 0 { graph } else { graph_of_compressed };
        let dag = draw(&mut random, operators, rows, columns);
        let bindings = bindings(&mut random, &dag);
        compare(&format!("seed {seed}"), &dag, &bindings, &mut seen);
        if seed % 1000 == 999 {
            println!("{} of {count} graphs", seed + 1);
        }
    }
    println!("{seen:?}");
    // The draws reach every template, and its variants (table 1).
    for variant in [
        "Some(Cell) no_agg",
        "Some(Cell) row_agg",
        "Some(Cell) col_agg",
        "Some(Cell) full_agg",
        "Some(Cell) no_agg sparse",
        "Some(Cell) full_agg sparse",
        "Some(Row) no_agg",
        "Some(Row) row_agg",
        "Some(Row) col_agg",
        "Some(Row) full_agg",
        "Some(Row) col_t_agg",
        "Some(MAgg) full_agg",
        "Some(MAgg) full_agg sparse",
        "Some(Cell) no_agg distinct",
        "Some(Cell) row_agg distinct",
        "Some(Cell) col_agg distinct",
        "Some(Cell) full_agg distinct",
        "Some(Outer) no_agg sparse",
        "Some(Outer) full_agg sparse",
        "Some(Outer) left_mm sparse",
        "Some(Outer) right_mm sparse",
    ] {
        assert!(count < 1500 || seen.contains(variant), "{variant} is never drawn");
    }
}
