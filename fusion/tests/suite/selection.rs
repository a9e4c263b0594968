//! Selection: the plans that the paper names, and MPSkipEnum against exhaustive enumeration.

use fangorn_fusion::{
    dag::{Builder, Dag},
    explore::{MemoTable, Template},
    select::{Costs, Partition, Plan, PlanCache, PointKind, Policy},
};

use crate::{
    exploration::{expression_1, expression_2},
    random::{Random, bindings, graph, graph_of_compressed},
};

fn plan(dag: &Dag, policy: Policy) -> Plan {
    Plan::new(dag, policy, &Costs::default())
}

fn covers(plan: &Plan) -> Vec<(Option<Template>, Vec<usize>)> {
    plan.operators().iter().map(|operator| (operator.template, operator.covered.clone())).collect()
}

/// A row of t(X) is as long as X has rows, but nothing holds it.
#[test]
fn gradients_of_many_rows_are_one_operator() {
    for rows in [1000, 999_999, 1_000_000, 12_500_000, 1 << 31] {
        let builder = Builder::new();
        let (x, w) = (builder.dense("X", rows, 10), builder.dense("w", rows, 1));
        let v = builder.dense("v", 10, 1);
        builder.output("gradient", x.transpose().matmul(w * x.matmul(v)));
        let dag = builder.finish().unwrap();
        let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
        assert_eq!(plan.operators().len(), 1, "{}", plan.explain(&dag));
        assert_eq!(plan.operators()[0].template, Some(Template::Row));
    }
}

#[test]
fn expression_2_is_one_row_operator() {
    let dag = expression_2();
    let plan = plan(&dag, Policy::CostBased);
    assert_eq!(covers(&plan), [(Some(Template::Row), (4..12).collect())]);
    assert_eq!(plan.operators()[0].variant(&dag), "col_t_agg");
    let points = &plan.reports()[0].partition.points;
    let pairs: Vec<_> = points.iter().map(|point| (point.input, point.consumer)).collect();
    assert_eq!(pairs, [(5, 6), (5, 8), (6, 7), (6, 9), (9, 11)]);
    // Cells of 9 could run without rows; 11 has no Cell plan.
    assert_eq!(points[4].kind, PointKind::Switch);
    assert!(points[..4].iter().all(|point| point.kind == PointKind::Materialization));
}

#[test]
fn expression_1_is_an_outer_and_a_cell_operator() {
    let dag = expression_1(0.01);
    let chosen = plan(&dag, Policy::CostBased);
    let fused: Vec<_> = covers(&chosen).into_iter().filter(|(template, _)| template.is_some()).collect();
    assert_eq!(
        fused,
        [(Some(Template::Outer), vec![5, 7, 8, 9]), (Some(Template::Cell), vec![11, 12, 13])],
        "{}",
        chosen.explain(&dag)
    );
    let outer =
        chosen.operators().iter().find(|operator| operator.template == Some(Template::Outer)).unwrap();
    assert_eq!((outer.variant(&dag), outer.driver), ("right_mm", Some(0)));
    // Fuse-all takes the Row template through the sum and loses the sparse driver (section 5.4).
    let all = plan(&dag, Policy::FuseAll);
    assert!(all.operators().iter().all(|operator| operator.template != Some(Template::Outer)));
    assert!(all.cost() > 20.0 * chosen.cost(), "{} {}", all.cost(), chosen.cost());
}

#[test]
fn a_cell_operator_does_not_destroy_a_sparse_outer_one() {
    // Section 4.2's Y + X * U V^T.
    let builder = Builder::new();
    let x = builder.csr("X", 5000, 4000, 0.001);
    let (y, u, v) =
        (builder.dense("Y", 5000, 4000), builder.dense("U", 5000, 50), builder.dense("V", 4000, 50));
    builder.output("sum", y + x * u.matmul(v.transpose()));
    let dag = builder.finish().unwrap();
    let chosen = plan(&dag, Policy::CostBased);
    let switches = &chosen.reports()[0].partition.points;
    assert!(switches.iter().any(|point| point.kind == PointKind::Switch), "{}", chosen.explain(&dag));
    assert!(covers(&chosen).iter().any(|(template, _)| *template == Some(Template::Outer)));
    assert!(
        covers(&plan(&dag, Policy::FuseAll)).iter().all(|(template, _)| *template != Some(Template::Outer))
    );
}

#[test]
fn figure_1_aggregates_share_one_scan() {
    let builder = Builder::new();
    let (x, y, z) =
        (builder.csr("X", 3000, 100, 0.1), builder.dense("Y", 3000, 100), builder.dense("Z", 3000, 100));
    builder.output("a", (x * y).sum());
    builder.output("b", (x * z).sum());
    let dag = builder.finish().unwrap();
    let chosen = plan(&dag, Policy::CostBased);
    assert_eq!(covers(&chosen), [(Some(Template::MAgg), vec![3, 4, 5, 6])]);
    // Section 5.2: X is the sparse driver of both.
    assert_eq!(chosen.operators()[0].driver, Some(0));
    assert_eq!(covers(&plan(&dag, Policy::FuseAll)).len(), 2);
}

/// One pass over X computes all results of logistic regression, and writes none that only itself needs.
#[test]
fn operators_over_the_same_rows_share_a_pass() {
    let builder = Builder::new();
    let (x, y, b) = (builder.dense("X", 5000, 10), builder.dense("y", 5000, 1), builder.dense("b", 10, 1));
    let scores = x.matmul(b);
    let p = scores.sigmoid();
    builder.output("p", p);
    builder.output("loss", (y * p.log() + (1.0 - y) * (1.0 - p).log()).sum());
    builder.output("gradient", x.transpose().matmul(p - y));
    builder.output("means", p.column_sums() * (1.0 / 5000.0));
    let scores = scores.node();
    let dag = builder.finish().unwrap();
    let chosen = plan(&dag, Policy::CostBased);
    let [pass, scaled] = chosen.operators() else { panic!("{}", chosen.explain(&dag)) };
    assert_eq!((pass.template, pass.roots.len(), pass.inputs.len()), (Some(Template::Row), 4, 4));
    assert!(!pass.roots.contains(&scores) && scaled.template.is_none());
    let text = chosen.explain(&dag);
    assert!(text.contains("Row no_agg full_agg col_t_agg col_agg:"), "{text}");
    // The paper's heuristics keep an operator for each result.
    for policy in [Policy::FuseAll, Policy::FuseNoRedundancy, Policy::NoFusion] {
        assert!(plan(&dag, policy).operators().iter().all(|operator| operator.roots.len() == 1));
    }
}

/// A pass that holds more than memory has room for is not made.
#[test]
fn passes_keep_the_limit_of_memory() {
    let builder = Builder::new();
    let x = builder.dense("X", 1000, 1);
    for name in ["a", "b"] {
        let of = builder.dense(name, 1000, 1);
        builder.output(&format!("times {name}"), x * of);
    }
    let dag = builder.finish().unwrap();
    let operators = |memory: f64| {
        let costs = Costs { memory, ..Costs::default() };
        Plan::new(&dag, Policy::CostBased, &costs).operators().len()
    };
    // Three vectors each; five in one pass.
    assert_eq!(operators(39_999.0), 2);
    assert_eq!(operators(40_000.0), 1);
}

#[test]
fn too_little_memory_has_infinite_cost() {
    let dag = expression_2();
    let costs = Costs { row: 8.0, ..Costs::default() };
    let plan = Plan::new(&dag, Policy::CostBased, &costs);
    assert!(plan.cost().is_finite());
    assert!(
        plan.operators().iter().all(|operator| operator.template != Some(Template::Row)),
        "{}",
        plan.explain(&dag)
    );
}

/// Runs plans that were made for graphs of other sizes.
#[test]
fn a_kept_plan_computes_what_the_interpreter_does() {
    let (mut cache, costs) = (PlanCache::default(), Costs::default());
    for seed in 0..300 {
        for sizes in [(20, 90), (23, 70), (700, 20), (65, 66)] {
            // The same seed draws the same operators as long as shapes decide alike.
            let mut random = Random::new(9_000_000 + seed);
            let operators = 2 + random.below(12);
            let draw = if seed % 4 < 3 { graph } else { graph_of_compressed };
            let dag = draw(&mut random, operators, sizes.0, sizes.1);
            let bindings = bindings(&mut random, &dag);
            let found = cache.plan(&dag, Policy::CostBased, &costs).run(&dag, &bindings).unwrap();
            for (name, expected) in dag.interpret(&bindings).unwrap() {
                let pairs = expected.to_dense().into_iter().zip(found[&name].to_dense());
                let differ = |(a, b): &(f64, f64)| (a - b).abs() > 1e-5 * a.abs().max(1e-3);
                let wrong = pairs.into_iter().find(differ);
                assert!(wrong.is_none(), "seed {seed}, {sizes:?}, {name}: {wrong:?}\n{dag}");
            }
        }
    }
    let report = cache.report();
    println!("{report:?}");
    assert!(report.hits > 150, "{report:?}");
}

/// Compares both searches on partitions with 2 to 14 interesting points. `FANGORN_FUSION_PARTITIONS` says on how many.
#[test]
fn the_search_finds_the_optimum() {
    let count =
        std::env::var("FANGORN_FUSION_PARTITIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let costs = Costs::default();
    let (mut compared, mut large, mut shares) = (0, 0, Vec::new());
    for seed in 0.. {
        if compared == count {
            break;
        }
        let mut random = Random::new(seed);
        let operators = 4 + random.below(16);
        let (rows, columns) = (10_000 + random.below(100_000), 20 + random.below(500));
        let draw = if seed % 4 < 3 { graph } else { graph_of_compressed };
        let dag = draw(&mut random, operators, rows, columns);
        let memo = MemoTable::explore(&dag);
        for partition in Partition::all(&dag, &memo) {
            let points = partition.points.len();
            // A fifth of the partitions has 12 points and more.
            let wanted = if large * 5 < compared { 12..=14 } else { 2..=14 };
            if !wanted.contains(&points) || compared == count {
                continue;
            }
            let (found, all) =
                (costs.search(&dag, &memo, &partition), costs.search_all(&dag, &memo, &partition));
            assert!(
                found.cost <= all.cost * (1.0 + 1e-12),
                "seed {seed}: {} instead of {}\n{dag}{}",
                found.cost,
                all.cost,
                memo.display(&dag)
            );
            let (_, again) = costs.assignment(&dag, &memo, &partition, &found.cut);
            assert!(
                (again - found.cost).abs() <= 1e-12 * found.cost,
                "seed {seed}: {again} is not {}",
                found.cost
            );
            assert_eq!(all.costed as f64, all.plans);
            compared += 1;
            if points >= 12 {
                large += 1;
                shares.push(found.costed as f64 / found.plans);
            }
        }
        if compared % 50 == 49 {
            println!("{compared} of {count} partitions, {large} with 12 points and more");
        }
    }
    shares.sort_by(f64::total_cmp);
    let median = shares[shares.len() / 2];
    println!(
        "{compared} partitions, {large} with 12 to 14 points; {:.2} % of their plans costed (median; {:.2} % in the worst)",
        100.0 * median,
        100.0 * shares[shares.len() - 1]
    );
    assert!(median < 0.05, "{median}");
}
