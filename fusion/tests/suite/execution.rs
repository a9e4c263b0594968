//! Runs of plans against the interpreter.

use std::collections::BTreeSet;

use fangorn_fusion::{
    Bindings,
    dag::Dag,
    select::{Costs, Plan, Policy},
};

use crate::random::{Random, bindings, graph};

/// Compares runs under every policy with the interpreter.
fn compare(name: &str, dag: &Dag, bindings: &Bindings, seen: &mut BTreeSet<String>) {
    let expected = dag.interpret(bindings).unwrap();
    for policy in Policy::ALL {
        let plan = Plan::new(dag, policy, &Costs::default());
        seen.extend(plan.operators().iter().map(|operator| {
            let skips = if operator.driver.is_some() { " sparse" } else { "" };
            format!("{:?} {}{skips}", operator.template, operator.variant(dag))
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

/// `FANGORN_FUSION_CASES` says how many graphs are drawn.
#[test]
fn plans_compute_what_the_interpreter_does() {
    let count = std::env::var("FANGORN_FUSION_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    let mut seen = BTreeSet::new();
    for seed in 0..count {
        let mut random = Random::new(1_000_000 + seed);
        let operators = 2 + random.below(14);
        let sizes = [1, 2, 3, 7, 16, 31, 65, 130];
        let (rows, columns) = (random.pick(&sizes), random.pick(&sizes));
        let dag = graph(&mut random, operators, rows, columns);
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
        "Some(Outer) no_agg sparse",
        "Some(Outer) full_agg sparse",
        "Some(Outer) left_mm sparse",
        "Some(Outer) right_mm sparse",
    ] {
        assert!(count < 300 || seen.contains(variant), "{variant} is never drawn");
    }
}
