//! What the equivalence suite's draws reach: how often each directive, each pair of directives and each kind of forest
//! occurs among the accepted ones. The counts are in `coverage.txt`, so that a change of the generator shows in review;
//! `FANGORN_BLESS=1` writes them.

use crate::generate;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::Path,
};

use fangorn::{
    Forest,
    forest::{Aggregate, CompareType, Node, Predicate, Targets},
    plan::{Request, check_with},
    schedule::{Dim, Directive, LayoutKind, Preset, Schedule, TreeOrder},
};
use generate::{
    Case, Kind,
    engines::{TABLES, engines, usual},
    tables::{Kind as ColumnKind, Table},
};
use proptest::strategy::{Strategy, ValueTree};

/// Occurrences that nothing may have fewer of.
const LEAST: usize = 5;

/// The directives, those with several meanings once for each.
const DIRECTIVES: [&str; 30] = [
    "tile",
    "split",
    "reorder",
    "unroll",
    "specialize",
    "gpuDimension",
    "parallel",
    "cache rows",
    "cache trees",
    "interleave",
    "unrollWalk",
    "peelWalk",
    "peelWalk by rows",
    "atomicReduce",
    "sharedReduce",
    "vectorReduce",
    "layout(array)",
    "layout(sparse)",
    "layout(reorg)",
    "layout(depth_first)",
    "sort(depth)",
    "sort(first_leaf)",
    "sort(structure)",
    "sort(likely_leaf)",
    "pad",
    "ranks",
    "evaluate",
    "tileNodes(1)",
    "tileNodes(n)",
    "fewRows",
];

/// Pairs that are refused, but for forests of leaves only.
const REFUSED: [(&str, &str); 2] =
    [("tileNodes(n)", "layout(reorg)"), ("tileNodes(n)", "layout(depth_first)")];

/// The index of a directive in [`DIRECTIVES`].
fn index(directive: &Directive, dims: &BTreeMap<String, Dim>) -> usize {
    match directive {
        Directive::Tile { .. } => 0,
        Directive::Split { .. } => 1,
        Directive::Reorder { .. } => 2,
        Directive::Unroll { .. } => 3,
        Directive::Specialize { .. } => 4,
        Directive::GpuDimension { .. } => 5,
        Directive::Parallel { .. } => 6,
        Directive::Cache { var } => match dims[var.rsplit('.').next().unwrap_or(var)] {
            Dim::Batch => 7,
            Dim::Tree => 8,
        },
        Directive::Interleave { .. } => 9,
        Directive::UnrollWalk { .. } => 10,
        Directive::PeelWalk { .. } => 11,
        Directive::PeelLikely { .. } => 12,
        Directive::AtomicReduce { .. } => 13,
        Directive::SharedReduce { .. } => 14,
        Directive::VectorReduce { .. } => 15,
        Directive::Layout { kind: LayoutKind::Array } => 16,
        Directive::Layout { kind: LayoutKind::Sparse } => 17,
        Directive::Layout { kind: LayoutKind::Reorg } => 18,
        Directive::Layout { kind: LayoutKind::DepthFirst } => 19,
        Directive::Sort { by: TreeOrder::Depth } => 20,
        Directive::Sort { by: TreeOrder::FirstLeaf } => 21,
        Directive::Sort { by: TreeOrder::Structure } => 22,
        Directive::Sort { by: TreeOrder::LikelyLeaf } => 23,
        Directive::Pad { .. } => 24,
        Directive::Ranks { .. } => 25,
        Directive::Evaluate { .. } => 26,
        Directive::TileNodes { nodes: 0..=1, .. } => 27,
        Directive::TileNodes { .. } => 28,
        Directive::FewRows { .. } => 29,
    }
}

/// Which of [`DIRECTIVES`] a schedule has.
fn has(schedule: &Schedule) -> [bool; DIRECTIVES.len()] {
    let mut dims = BTreeMap::from([("batch".to_owned(), Dim::Batch), ("tree".to_owned(), Dim::Tree)]);
    let mut has = [false; DIRECTIVES.len()];
    for directive in &schedule.directives {
        if let Directive::Tile { var, outer: a, inner: b, .. }
        | Directive::Split { var, first: a, second: b, .. } = directive
        {
            let dim = dims[var.rsplit('.').next().unwrap_or(var)];
            dims.extend([(a.clone(), dim), (b.clone(), dim)]);
        }
        has[index(directive, &dims)] = true;
    }
    has
}

/// What the suite has to reach of forests and batches.
type Reached = (&'static str, fn(&Case) -> bool);

const CASES: [Reached; 29] = [
    ("no rows", |c| c.batch == 0),
    ("1 row", |c| c.batch == 1),
    ("2 rows", |c| c.batch == 2),
    ("63 rows", |c| c.batch == 63),
    ("64 rows", |c| c.batch == 64),
    ("65 rows", |c| c.batch == 65),
    ("1000 rows", |c| c.batch == 1000),
    ("1 tree", |c| c.forest.trees.len() == 1),
    ("12 trees and more", |c| c.forest.trees.len() >= 12),
    ("2000 trees and more", |c| c.forest.trees.len() >= 2000),
    ("only single leaves", |c| deepest(&c.forest) == 0),
    ("stumps", |c| deepest(&c.forest) == 1),
    ("trees of depth 9 and more", |c| deepest(&c.forest) >= 9),
    ("chains of depth 50 and more", |c| deepest(&c.forest) >= 50),
    ("1 feature", |c| c.forest.features.len() == 1),
    ("13 features and more", |c| c.forest.features.len() >= 13),
    ("1000 features and more", |c| c.forest.features.len() >= 1000),
    ("1 output", |c| c.forest.outputs == 1),
    ("6 outputs and more", |c| c.forest.outputs >= 6),
    ("100 outputs and more", |c| c.forest.outputs >= 100),
    ("vector leaves", |c| c.forest.targets == Targets::All),
    ("the least leaf", |c| c.forest.aggregate == Aggregate::Min),
    ("the largest leaf", |c| c.forest.aggregate == Aggregate::Max),
    ("decisions in f64", |c| c.forest.compare == CompareType::F64),
    ("only thresholds", |c| !asks(&c.forest, |p| !matches!(p, Predicate::Less { .. }))),
    ("categories", |c| asks(&c.forest, |p| matches!(p, Predicate::InSet { .. }))),
    ("equality", |c| asks(&c.forest, |p| matches!(p, Predicate::Equal { .. }))),
    ("zero aside", |c| asks(&c.forest, |p| matches!(p, Predicate::LessZeroAside { .. }))),
    ("missing values", |c| c.rows.iter().any(|x| x.is_nan())),
];

fn deepest(forest: &Forest) -> u32 {
    forest.trees.iter().map(fangorn::forest::Tree::depth).max().unwrap_or(0)
}

fn asks(forest: &Forest, what: impl Fn(&Predicate) -> bool) -> bool {
    let asked = |n: &Node| matches!(n, Node::Split { predicate, .. } if what(predicate));
    forest.trees.iter().any(|t| t.nodes.iter().any(asked))
}

/// What a table asks of an engine.
type Demand = (&'static str, fn(&Table) -> bool);

const DEMANDS: [Demand; 8] = [
    ("thresholds only", |t| !asks(&t.forest, |p| !matches!(p, Predicate::Less { .. }))),
    ("categories", |t| asks(&t.forest, |p| matches!(p, Predicate::InSet { .. }))),
    ("many codes", |t| t.forest.sets.iter().any(|set| set.words.len() > 8)),
    ("one category column", |t| {
        t.columns.len() > 1 && t.columns.iter().filter(|c| c.kind == ColumnKind::Category).count() == 1
    }),
    ("few thresholds", |t| most_thresholds(&t.forest) < 8),
    ("to 255", |t| (8..256).contains(&most_thresholds(&t.forest))),
    ("more", |t| most_thresholds(&t.forest) > 255),
    ("compared in f64", |t| t.forest.compare == CompareType::F64),
];

/// Thresholds of the column that has most.
fn most_thresholds(forest: &Forest) -> usize {
    let mut of_column = vec![BTreeSet::new(); forest.features.len()];
    for node in forest.trees.iter().flat_map(|tree| &tree.nodes) {
        if let Node::Split { feature, predicate: Predicate::Less { threshold }, .. } = node {
            of_column[*feature as usize].insert(threshold.0.to_bits());
        }
    }
    of_column.iter().map(BTreeSet::len).max().unwrap_or(0)
}

/// What the tables of `tests/suite/tables.rs` reach: kinds of columns within a group of 16, what is asked of each engine, and blocks
/// of 64 rows a call with what is left of them. Engines are those that a forest allows on any machine.
fn of_tables(rare: &mut Vec<String>) -> String {
    let tables: Vec<_> = (0..u64::from(TABLES)).map(usual).collect();
    let mut text = format!("# Of {TABLES} tables: groups of 16 columns that hold two kinds.\n");
    for (a, kind) in ColumnKind::ALL.into_iter().enumerate() {
        let _ = write!(text, "{:12}", format!("{kind:?}"));
        for (b, other) in ColumnKind::ALL.into_iter().enumerate().take(a + 1) {
            let holds = |group: &&[generate::tables::Column]| {
                let count = |kind| group.iter().filter(|c| c.kind == kind).count();
                if a == b { count(kind) >= 2 } else { count(kind) >= 1 && count(other) >= 1 }
            };
            let groups = tables.iter().flat_map(|(t, _)| t.columns.chunks(16)).filter(|g| holds(g)).count();
            let _ = write!(text, "{groups:5}");
            if groups < LEAST {
                rare.push(format!("{kind:?} with {other:?} in a group: {groups}"));
            }
        }
        text += "\n";
    }
    text += "# Tables that an engine's schedule accepts, by what is asked of it:\n";
    let names: Vec<&str> = DEMANDS.iter().map(|(name, _)| *name).collect();
    let _ = writeln!(text, "# {}", names.join(", "));
    for (name, schedule, _) in engines() {
        let schedule = |t: &Table| {
            schedule.clone().unwrap_or_else(|| Preset::Default.schedule(&t.forest, false).unranked())
        };
        let accepts = |t: &Table| check_with(&t.forest, &schedule(t), Request::cpu(), None).is_ok();
        let accepted: Vec<&Table> = tables.iter().map(|(t, _)| t).filter(|t| accepts(t)).collect();
        let _ = write!(text, "{name:32}");
        for (demand, holds) in DEMANDS {
            let count = accepted.iter().filter(|t| holds(t)).count();
            let _ = write!(text, "{count:5}");
            if count < LEAST {
                rare.push(format!("{demand} asked of {name}: {count}"));
            }
        }
        text += "\n";
    }
    text += "# Calls by blocks of 64 rows that they begin, and by what is left of blocks of 16, 64, 128 and 256:\n";
    let calls: Vec<usize> = tables.iter().flat_map(|(_, batches)| batches.iter().map(|b| b.1)).collect();
    for blocks in [1, 2, 3, 4, 5] {
        let of =
            |rows: &&usize| if blocks < 5 { rows.div_ceil(64) == blocks } else { rows.div_ceil(64) >= 5 };
        let count = calls.iter().filter(of).count();
        let _ =
            writeln!(text, "{:30}{count:5}", format!("{blocks}{}", if blocks < 5 { "" } else { " or more" }));
        if count < LEAST {
            rare.push(format!("calls of {blocks} blocks: {count}"));
        }
    }
    for size in [16, 64, 128, 256] {
        let lefts: BTreeSet<usize> = calls.iter().map(|rows| rows % size).collect();
        let _ = writeln!(text, "{:30}{:5}", format!("remainders of {size}"), lefts.len());
    }
    text
}

/// The suite's draws of one kind that the CPU accepts.
fn accepted(kind: Kind) -> Vec<Case> {
    let mut runner = generate::runner_of(0, generate::IN_CI);
    let strategy = generate::case(kind);
    let draws = (0..generate::IN_CI).map(|_| strategy.new_tree(&mut runner).expect("a draw").current());
    let request = Request { threads: 2, ..Request::cpu() };
    draws
        .filter(|case| check_with(&case.forest, &case.schedule, request, Some(&case.profile())).is_ok())
        .collect()
}

#[test]
fn the_draws_reach_every_pair_of_directives() {
    let cases: Vec<Case> = [Kind::Any, Kind::MappedLoop].into_iter().flat_map(accepted).collect();
    let mut together = [[0usize; DIRECTIVES.len()]; DIRECTIVES.len()];
    for case in &cases {
        let has = has(&case.schedule);
        for (a, row) in together.iter_mut().enumerate() {
            row.iter_mut().enumerate().for_each(|(b, n)| *n += usize::from(has[a] && has[b]));
        }
    }
    let mut table = format!(
        "# Of {} draws of each kind {} are accepted. How many of those have a directive, and how many have two:\n",
        generate::IN_CI,
        cases.len()
    );
    let mut rare = Vec::new();
    // Writing to a String does not fail.
    for (a, name) in DIRECTIVES.iter().enumerate() {
        let _ = write!(table, "{name:18}");
        for (b, other) in DIRECTIVES.iter().enumerate().take(a + 1) {
            let count = together[a][b];
            let _ = write!(table, "{count:5}");
            if count < LEAST && !REFUSED.contains(&(name, other)) {
                rare.push(format!("{name} with {other}: {count}"));
            }
        }
        table += "\n";
    }
    table += "# Of the forests and batches:\n";
    for (name, holds) in CASES {
        let count = cases.iter().filter(|c| holds(c)).count();
        let _ = writeln!(table, "{name:30}{count:5}");
        if count < LEAST {
            rare.push(format!("{name}: {count}"));
        }
    }
    table += &of_tables(&mut rare);
    // No other pair is left out: marks that exclude each other on one loop stand on different ones.
    assert!(rare.is_empty(), "fewer than {LEAST} draws have\n{}\n{table}", rare.join("\n"));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/coverage.txt");
    if std::env::var_os("FANGORN_BLESS").is_some() {
        std::fs::write(&file, &table).expect("the file is written");
    }
    // A `usize` is drawn from fewer random bits where it has 32.
    if usize::BITS < 64 {
        return;
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        expected == table,
        "tests/coverage.txt is of another generator; FANGORN_BLESS=1 writes what is found:\n{table}"
    );
}
