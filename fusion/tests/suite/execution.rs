//! Runs of plans against the interpreter.

use fangorn_fusion::{
    Bindings,
    dag::Dag,
    select::{Costs, Plan, Policy},
};

use crate::random::{Random, bindings, graph};

/// Compares runs under every policy with the interpreter.
fn compare(name: &str, dag: &Dag, bindings: &Bindings) {
    let expected = dag.interpret(bindings).unwrap();
    for policy in Policy::ALL {
        let plan = Plan::new(dag, policy, &Costs::default());
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
    for seed in 0..count {
        let mut random = Random::new(1_000_000 + seed);
        let operators = 2 + random.below(14);
        let sizes = [1, 2, 3, 7, 16, 31, 65, 130];
        let (rows, columns) = (random.pick(&sizes), random.pick(&sizes));
        let dag = graph(&mut random, operators, rows, columns);
        let bindings = bindings(&mut random, &dag);
        compare(&format!("seed {seed}"), &dag, &bindings);
        if seed % 1000 == 999 {
            println!("{} of {count} graphs", seed + 1);
        }
    }
}
