//! A forest on ranks: every split decides every value as it did, and rows reach the same leaves.

use crate::generate;
use crate::probes;
use crate::support;

use std::collections::HashMap;

use fangorn::{
    Error, Forest, Predictor,
    cost::RankColumns,
    cpu::{Rank, Ranker, Row, Rows},
    forest::{CategoryRule, CompareType, Node, Predicate, Real, Side, reference},
    ranks::{Choice, ColumnKind, Ranks, RanksError, Width},
    schedule::{Preset, Schedule},
};
use probes::{Value, pools, probes, telling};
use proptest::test_runner::TestCaseError;

/// Rows that are ranked together.
const ROW_BLOCK: usize = 64;

fn rank_as<T: Row, R: Rank>(ranks: &Ranks, rows: &Rows<'_, T>) -> Vec<f64> {
    let mut out = vec![R::default(); rows.len() * ranks.columns().len()];
    Ranker::new(ranks).rank(rows, &mut out).expect("ranks");
    out.into_iter().map(|r| f64::from(r.into())).collect()
}

/// Ranks of rows, one row after the other.
fn ranked<T: Row>(ranks: &Ranks, rows: &Rows<'_, T>) -> Vec<f64> {
    match ranks.width() {
        Width::U8 => rank_as::<T, u8>(ranks, rows),
        Width::U16 => rank_as::<T, u16>(ranks, rows),
    }
}

/// Row `r` of a matrix of `columns` columns, of which there may be none.
fn row<T>(values: &[T], columns: usize, r: usize) -> &[T] {
    &values[r * columns..][..columns]
}

/// The child a split sends a value to.
fn child<T: Row>(forest: &Forest, node: Node, row: &[T]) -> Option<u32> {
    let Node::Split { feature, predicate, missing, left, right } = node else { return None };
    Some(match reference::side(forest, predicate, missing, row[feature as usize]) {
        Side::Left => left,
        Side::Right => right,
    })
}

/// What the module promises of the forest on ranks, apart from what it decides.
fn keeps_its_word(forest: &Forest, ranks: &Ranks) {
    let on = ranks.forest();
    on.verify().expect("a forest on ranks keeps the rules");
    assert_eq!(on.features.len(), ranks.columns().len());
    let largest = f64::from(ranks.width().largest());
    for (tree, was) in on.trees.iter().zip(&forest.trees) {
        assert_eq!(tree.ids, was.ids);
        for (node, was) in tree.nodes.iter().zip(&was.nodes) {
            match node {
                Node::Split { predicate: Predicate::Less { threshold: Real(t) }, .. } => {
                    assert!((0.0..=largest).contains(t) && t.trunc() == *t, "a threshold of {t}");
                }
                Node::Split { predicate, .. } => panic!("a rank is asked {predicate}"),
                Node::Leaf { .. } => assert_eq!(node, was),
            }
        }
    }
    for column in ranks.columns() {
        if let ColumnKind::Thresholds { first, count } = column.asks {
            assert!(count <= ranks.width().largest());
            let own = &ranks.thresholds()[first as usize..][..count as usize];
            assert!(own.windows(2).all(|t| t[0].0 < t[1].0 || t[1].0.is_nan()), "{own:?}");
        }
    }
    assert_eq!((&on.leaf_values, &on.targets), (&forest.leaf_values, &forest.targets));
}

/// Each split decides each probe as it did, and so do `slots` rows as a whole.
fn decides_alike<T: Value>(what: &str, forest: &Forest, ranks: &Ranks, slots: usize) {
    let (columns, rank_columns) = (forest.features.len(), ranks.columns().len());
    let pools = pools::<T>(forest);
    let values = probes(&pools);
    let count = values.len().checked_div(columns).unwrap_or(0);
    let rows = Rows::strided(&values, [count, columns], [columns, 1]).expect("rows");
    let on_ranks = ranked(ranks, &rows);
    // Nodes with one predicate are checked once.
    let mut known = HashMap::new();
    for (tree, on) in forest.trees.iter().zip(&ranks.forest().trees) {
        for (node, on) in tree.nodes.iter().zip(&on.nodes) {
            let Node::Split { feature, predicate, missing, left, .. } = *node else { continue };
            let Node::Split { feature: column, predicate: asks, left: on_left, .. } = *on else {
                panic!("a leaf")
            };
            let key = (feature, predicate, missing, column, asks, left == on_left);
            known.entry(key).or_insert_with(|| {
                for r in telling(&pools[feature as usize], predicate) {
                    let row = row(&values, columns, r);
                    let found = child(ranks.forest(), *on, self::row(&on_ranks, rank_columns, r));
                    assert_eq!(found, child(forest, *node, row), "{what}: {predicate} of {row:?}");
                }
            });
        }
    }
    for r in (0..count).step_by((count / slots.max(1)).max(1)) {
        let found = reference::leaf_slots(ranks.forest(), row(&on_ranks, rank_columns, r));
        assert_eq!(found, reference::leaf_slots(forest, row(&values, columns, r)), "{what}: row {r}");
    }
}

#[test]
fn the_zoo_decides_alike_on_ranks() {
    support::for_each_specimen(|s| {
        for choice in Choice::ALL {
            let what = format!("{} on {choice:?}", s.name);
            let ranks = Ranks::new(&s.forest, choice).expect(&what);
            assert_eq!(ranks, Ranks::new(&s.forest, choice).expect(&what), "{what}: made twice");
            keeps_its_word(&s.forest, &ranks);
            decides_alike::<f32>(&what, &s.forest, &ranks, 100);
            decides_alike::<f64>(&what, &s.forest, &ranks, 100);
        }
    });
}

#[test]
fn the_zoos_own_rows_reach_their_leaves_on_ranks() {
    support::for_each_specimen(|s| {
        let ranks = Ranks::new(&s.forest, Choice::Auto).expect(&s.name);
        let rows = Rows::strided(&s.rows, [s.count, s.columns()], [s.columns(), 1]).expect("rows");
        let columns = ranks.columns().len();
        let on_ranks: Vec<f32> = ranked(&ranks, &rows).into_iter().map(|r| r as f32).collect();
        let on_rows = Rows::strided(&on_ranks, [s.count, columns], [columns, 1]).expect("rows");
        let expected = Predictor::new(&s.forest).expect("a predictor").leaf_ids(&rows).expect("leaves");
        for preset in [Preset::Default, Preset::ALL[1]] {
            let schedule = preset.schedule(ranks.forest(), false);
            let predictor =
                Predictor::builder(ranks.forest()).schedule(schedule.clone()).build().expect(&s.name);
            assert_eq!(predictor.leaf_ids(&on_rows).expect("leaves"), expected, "{}", s.name);
        }
    });
}

#[test]
fn random_forests_decide_alike_on_ranks() {
    let run = generate::runner(generate::wanted(300)).run(
        &(generate::forest(), proptest::prelude::any::<u64>()),
        |(forest, seed)| {
            let columns = forest.features.len();
            let count = (20_000 / (forest.trees.len() + columns)).clamp(2, 130);
            for choice in Choice::ALL {
                let ranks = Ranks::new(&forest, choice)?;
                keeps_its_word(&forest, &ranks);
                let same = |found: Vec<u32>, expected: Vec<u32>| {
                    (found == expected)
                        .then_some(())
                        .ok_or_else(|| TestCaseError::fail(format!("{choice:?}")))
                };
                let rank_columns = ranks.columns().len();
                let narrow = generate::rows(&forest, count, seed);
                let found = ranked(&ranks, &Rows::strided(&narrow, [count, columns], [columns, 1])?);
                for r in 0..count {
                    let found = reference::leaf_slots(ranks.forest(), row(&found, rank_columns, r));
                    same(found, reference::leaf_slots(&forest, row(&narrow, columns, r)))?;
                }
                let wide = generate::wide_rows(&forest, count, seed);
                let found = ranked(&ranks, &Rows::strided(&wide, [count, columns], [columns, 1])?);
                for r in 0..count {
                    let found = reference::leaf_slots(ranks.forest(), row(&found, rank_columns, r));
                    same(found, reference::leaf_slots(&forest, row(&wide, columns, r)))?;
                }
            }
            Ok(())
        },
    );
    run.unwrap_or_else(|e| panic!("{e}"));
}

/// A forest of stumps over three columns.
fn stumps(compare: CompareType, splits: &[(u32, Predicate, Side)]) -> Forest {
    let mut forest = Forest::builder(3, 1).compare(compare).names(["age"]);
    let sets: [&[u32]; 4] = [&[1, 4], &[], &[1, 4], &[2]];
    for set in sets {
        forest.set(set.iter().copied(), CategoryRule::NotNegative);
    }
    for (feature, predicate, missing) in splits {
        let mut tree = forest.tree(0);
        tree.split(*feature, *predicate, *missing, 1, 2);
        tree.leaf(1, &[1.0]);
        tree.leaf(2, &[2.0]);
    }
    forest.build().expect("stumps")
}

fn less(t: f64) -> Predicate {
    Predicate::Less { threshold: Real(t) }
}

fn in_set(set: u32) -> Predicate {
    Predicate::InSet { set, inside: Side::Left }
}

#[test]
fn columns_are_pairs_of_a_feature_and_a_missing_side() {
    let forest = stumps(
        CompareType::F32,
        &[
            (2, in_set(0), Side::Left),
            (0, less(30.0), Side::Right),
            (0, less(-0.0), Side::Left),
            (0, less(30.0), Side::Left),
            (0, less(0.0), Side::Left),
            (0, less(f64::NEG_INFINITY), Side::Right),
            (0, Predicate::Always, Side::Right),
            (0, Predicate::Always, Side::Left),
            (2, in_set(1), Side::Right),
            (2, in_set(2), Side::Left),
            (2, in_set(2), Side::Right),
            (2, in_set(1), Side::Left),
        ],
    );
    let ranks = Ranks::new(&forest, Choice::Auto).expect("ranks");
    let text = "ranks u8: 5 columns, 5 bytes a row
  0: x[0], missing left, thresholds [0.0, 30.0]
  1: x[0], missing right, thresholds [30.0, NaN]
  2: x[2], missing left, in set 0
  3: x[2], missing right, in set 0
  4: x[2], missing left, in set 1
set 0 [1, 4]
set 1 []
set 2 [2]
";
    assert_eq!(ranks.to_string(), text);
    let names: Vec<&str> = ranks.forest().features.iter().filter_map(|f| f.name.as_deref()).collect();
    assert_eq!(names[0], "age among thresholds 0..2, missing left");
    keeps_its_word(&forest, &ranks);
    decides_alike::<f32>("stumps", &forest, &ranks, 100);
    // Missing values: rank 0 where they go left, as many as there are thresholds where they go right; a question's own side.
    let rows = [f32::NAN; 3];
    let found = ranked(&ranks, &Rows::new(&rows, 3).expect("rows"));
    assert_eq!(found, [0.0, 2.0, 0.0, 1.0, 0.0]);
}

#[test]
fn splits_that_are_all_constant_read_a_column_of_zeros() {
    let forest = stumps(
        CompareType::F64,
        &[
            (1, Predicate::Always, Side::Left),
            (2, less(f64::NEG_INFINITY), Side::Right),
            (2, in_set(1), Side::Right),
        ],
    );
    let ranks = Ranks::new(&forest, Choice::U16).expect("ranks");
    assert_eq!(ranks.columns().len(), 1);
    keeps_its_word(&forest, &ranks);
    decides_alike::<f64>("constant", &forest, &ranks, 100);
    // Beside a split that asks something they need no column of their own.
    for other in [(0, less(30.0), Side::Left), (2, in_set(1), Side::Right)] {
        let forest = stumps(CompareType::F64, &[(1, Predicate::Always, Side::Left), other]);
        let ranks = Ranks::new(&forest, Choice::U16).expect("ranks");
        assert_eq!(ranks.columns().len(), 1, "{ranks}");
        keeps_its_word(&forest, &ranks);
        decides_alike::<f64>("one split", &forest, &ranks, 100);
    }
    let leaves = stumps(CompareType::F32, &[]);
    let ranks = Ranks::new(&leaves, Choice::Auto).expect("ranks");
    assert_eq!((ranks.columns().len(), ranks.row_bytes()), (0, 0));
    assert_eq!(ranked(&ranks, &Rows::new(&[0.0f32; 6], 3).expect("rows")), [0.0f64; 0]);
}

/// A column of as many thresholds, two of each three between neighbouring `f32` values.
fn long(thresholds: u32) -> Forest {
    let splits: Vec<_> = (0..thresholds)
        .map(|i| {
            let t = f64::from(i / 3) - 100.0;
            (1, less(t * (1.0 + f64::from(i % 3) * 1e-12)), Side::Left)
        })
        .collect();
    stumps(CompareType::F64, &splits)
}

#[test]
fn long_columns_are_sliced_and_auto_takes_fewer_bytes() {
    let forest = long(600);
    let ranks = Ranks::new(&forest, Choice::U8).expect("ranks");
    // Zero has one threshold where others have three.
    let distinct = ranks.thresholds().len();
    assert_eq!(distinct, 598);
    let counts: Vec<u32> = ranks
        .columns()
        .iter()
        .map(|c| match c.asks {
            ColumnKind::Thresholds { count, .. } => count,
            ColumnKind::Question { .. } => 0,
        })
        .collect();
    assert_eq!(counts, [255, 255, 88]);
    for choice in Choice::ALL {
        let ranks = Ranks::new(&forest, choice).expect("ranks");
        keeps_its_word(&forest, &ranks);
        decides_alike::<f32>("long", &forest, &ranks, 1000);
        decides_alike::<f64>("long", &forest, &ranks, 1000);
    }
    let auto = |n| Ranks::new(&long(n), Choice::Auto).expect("ranks").width();
    // Two slices take two bytes, as u16 does; a third one takes more.
    assert_eq!((auto(512), auto(513)), (Width::U8, Width::U16));
    let most = Ranks::new(&long(65_538), Choice::U16).expect("ranks");
    assert_eq!(most.columns().len(), 2, "{} thresholds", most.thresholds().len());
    // Every rank of a width is used.
    for width in Width::ALL {
        let most = width.largest();
        assert_eq!(most, (1 << (8 * width.bytes())) - 1);
        for (count, columns) in [(most, 1), (most + 1, 2)] {
            let splits: Vec<_> = (0..count).map(|t| (0, less(f64::from(t)), Side::Left)).collect();
            let ranks = Ranks::new(
                &stumps(CompareType::F32, &splits),
                if width == Width::U8 { Choice::U8 } else { Choice::U16 },
            )
            .expect("ranks");
            assert_eq!(ranks.columns().len(), columns, "{count} thresholds of {width:?}");
        }
    }
}

/// The numbers of columns, and their order: by feature, thresholds before questions.
#[test]
fn columns_come_by_feature() {
    let forest = stumps(
        CompareType::F32,
        &[
            (2, in_set(0), Side::Left),
            (1, in_set(0), Side::Left),
            (1, less(3.0), Side::Right),
            (1, less(4.0), Side::Left),
            (0, in_set(1), Side::Left),
            (0, Predicate::Always, Side::Left),
        ],
    );
    let ranks = Ranks::new(&forest, Choice::Auto).expect("ranks");
    let columns = ranks.columns().iter();
    let columns: Vec<_> =
        columns.map(|c| (c.feature, c.missing, matches!(c.asks, ColumnKind::Question { .. }))).collect();
    let (left, right) = (Side::Left, Side::Right);
    assert_eq!(
        columns,
        [(0, left, true), (1, left, false), (1, right, false), (1, left, true), (2, left, true)]
    );
    let columns_of = |forest: &Forest, width| {
        let RankColumns { thresholds, levels, questions } =
            Ranks::columns_of(forest, width).expect("numbers");
        (thresholds, levels, questions)
    };
    for width in Width::ALL {
        assert_eq!(columns_of(&forest, width), (2, 2, 3), "{width:?}");
    }
    // Two columns of 300 thresholds: four bytes in either width, of which single bytes are the usual.
    let splits: Vec<_> = (0..600).map(|i| (i % 2, less(f64::from(i / 2)), Side::Left)).collect();
    let forest = stumps(CompareType::F32, &splits);
    assert_eq!(Ranks::new(&forest, Choice::Auto).expect("ranks").width(), Width::U8);
    // Eight levels for 255 thresholds, six for the other 45, and nine for all 300.
    assert_eq!(columns_of(&forest, Width::U8), (4, 28, 0));
    assert_eq!(columns_of(&forest, Width::U16), (2, 18, 0));
}

/// What a kernel does with the keys.
#[test]
fn keys_rank_every_f32_as_the_ranker_does() {
    support::for_each_specimen(|s| {
        let ranks = Ranks::new(&s.forest, Choice::Auto).expect(&s.name);
        let keys = ranks.threshold_keys();
        let values = probes(&pools::<f32>(&s.forest));
        let columns = s.forest.features.len();
        let count = (values.len().checked_div(columns).unwrap_or(0)).min(2000);
        let rows = Rows::strided(&values, [count, columns], [columns, 1]).expect("rows");
        let expected = ranked(&ranks, &rows);
        for (c, column) in ranks.columns().iter().enumerate() {
            let ColumnKind::Thresholds { first, count: of_column } = column.asks else { continue };
            let own = &keys[first as usize..][..of_column as usize];
            assert!(own.is_sorted());
            let d = u32::from(column.missing == Side::Left);
            for r in 0..count {
                let x = values[r * columns + column.feature as usize];
                let k = fangorn::plan::key(x).wrapping_add(d);
                let rank = own.partition_point(|key| *key <= k);
                let found = expected[r * ranks.columns().len() + c];
                assert_eq!(rank as f64, found, "{}: {x:e} in column {c}", s.name);
            }
        }
    });
}

/// Values by row and by column, whole row blocks and some rows that are left over, ranks by row, by column and apart.
#[test]
fn rows_and_ranks_may_lie_anywhere() {
    for name in ["churn", "lightgbm-categories"] {
        let s = support::named(name);
        let ranks = Ranks::new(&s.forest, Choice::U8).expect("ranks");
        let (ranker, columns, rank_columns) = (Ranker::new(&ranks), s.columns(), ranks.columns().len());
        let count = 600;
        let by_row: Vec<f32> = (0..count).flat_map(|r| s.row(r * 7 % s.count)).copied().collect();
        let by_column: Vec<f32> =
            (0..columns * count).map(|i| by_row[i % count * columns + i / count]).collect();
        let all = Rows::strided(&by_row, [count, columns], [columns, 1]).expect("rows");
        let expected = rank_as::<f32, u8>(&ranks, &all);
        // Few rows are ranked one by one, the others as a row block. Column-major rows are ranked for up to four row
        // blocks at a time.
        for count in (1..=16).chain([63, 64, 67, 68, 74, 100, 128, 150, 256, 257, 300, 511, 513, 600]) {
            for (values, strides) in [(&by_row, [columns, 1]), (&by_column, [1, 600])] {
                let rows = Rows::strided(values, [count, columns], strides).expect("rows");
                for to in [[rank_columns, 1], [1, count], [2, 2 * count], [rank_columns + 3, 1]] {
                    let mut out = vec![0xeeu8; (count - 1) * to[0] + (rank_columns - 1) * to[1] + 1];
                    ranker.rank_strided(&rows, &mut out, to).expect("ranks");
                    let mut written = vec![0xeeu8; out.len()];
                    for (i, rank) in expected[..count * rank_columns].iter().enumerate() {
                        written[i / rank_columns * to[0] + i % rank_columns * to[1]] = *rank as u8;
                    }
                    assert!(out == written, "{name}, {count} rows at {strides:?}, ranks at {to:?}");
                }
                // Rows that overwrite each other leave all else alone.
                let mut out = vec![0xeeu8; (rank_columns - 1) * ROW_BLOCK + 1];
                ranker.rank_strided(&rows, &mut out, [0, ROW_BLOCK]).expect("ranks");
                let between = out.iter().enumerate().filter(|(at, _)| at % ROW_BLOCK != 0);
                assert!(between.into_iter().all(|(_, rank)| *rank == 0xee), "{name}, {count} rows");
            }
        }
        // One row may lie anywhere, and its ranks too.
        let mut out = vec![0u8; rank_columns];
        ranker.rank_strided(&all.slice(0, 1), &mut out, [usize::MAX, 1]).expect("ranks");
        assert!(out.iter().zip(&expected).all(|(rank, expected)| f64::from(*rank) == *expected), "{name}");
        // Doubles by column, ranked for several row blocks at a time where the producer compares doubles.
        let wide: Vec<f64> = by_column.iter().map(|value| f64::from(*value)).collect();
        let apart = Rows::strided(&wide, [count, columns], [1, count]).expect("rows");
        let mut out = vec![0u8; count * rank_columns];
        ranker.rank_strided(&apart, &mut out, [1, count]).expect("ranks");
        let by_row_of_ranks = |i: usize| f64::from(out[i % rank_columns * count + i / rank_columns]);
        assert!(
            expected.iter().enumerate().all(|(i, rank)| by_row_of_ranks(i) == *rank),
            "{name}, doubles by column"
        );
        // One row, repeated by a stride of zero, in either type.
        let wide: Vec<f64> = by_row.iter().map(|value| f64::from(*value)).collect();
        let same = Rows::strided(&by_row, [70, columns], [0, 1]).expect("rows");
        let same_wide = Rows::strided(&wide, [70, columns], [0, 1]).expect("rows");
        for found in [rank_as::<f32, u8>(&ranks, &same), rank_as::<f64, u8>(&ranks, &same_wide)] {
            assert!(found.chunks(rank_columns).all(|row| row == &expected[..rank_columns]), "{name}");
        }
    }
}

/// Codes beside those that a table of 256 bits keeps for itself.
#[test]
fn categories_around_255_are_told_apart() {
    let mut builder = Forest::builder(1, 1);
    for members in [&[254, 255][..], &[255], &[253], &[256], &[0, 254]] {
        for rule in [CategoryRule::NotNegative, CategoryRule::Truncated] {
            let set = builder.set(members.iter().copied(), rule);
            for side in [Side::Left, Side::Right] {
                let mut tree = builder.tree(0);
                tree.split(0, Predicate::InSet { set, inside: Side::Left }, side, 1, 2);
                tree.leaf(1, &[1.0]);
                tree.leaf(2, &[2.0]);
            }
        }
    }
    let forest = builder.build().expect("stumps");
    let odd = [f32::NAN, -1.0, -0.5, 0.0, 0.5, 125.5, 253.5, 254.5, 255.5, 1e9, f32::INFINITY];
    let values: Vec<f32> = (0..300u16).map(f32::from).chain(odd).collect();
    let expected: Vec<u32> = values.chunks(1).flat_map(|row| reference::leaf_slots(&forest, row)).collect();
    for (width, walks) in [("u8", ""), ("u16", ""), ("u8", "\nevaluate(b1, blend)")] {
        let text =
            format!("ranks({width})\ntile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\ncache(b0){walks}");
        let schedule = Schedule::parse(&text).expect("a schedule");
        let predictor = Predictor::builder(&forest).schedule(schedule).build().expect("a predictor");
        let found = predictor.leaf_slots(&Rows::new(&values, 1).expect("rows")).expect("slots");
        let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!(
            wrong.map(|at| (values[at / forest.trees.len()], at % forest.trees.len())),
            None,
            "{width}{walks}"
        );
    }
}

/// Forests of stumps over rows of every width around a column block, whose columns have from no threshold to many,
/// missing values on either side, infinite thresholds and questions among them: what is written by column, of rows one
/// after the other, is what is written by row.
#[test]
fn columns_of_few_thresholds_and_of_many_are_ranked_alike() {
    let mut seed = 7u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for columns in [1usize, 15, 16, 17, 24, 31, 33, 48, 70] {
        for most in [1, 2, 5, 9, 40] {
            let mut builder = Forest::builder(columns, 1);
            let set = builder.set([1, 4], CategoryRule::NotNegative);
            for feature in 0..columns as u32 {
                for side in [Side::Left, Side::Right] {
                    // A forest has a tree at least.
                    let stumps = random(most + 1) + u64::from(feature == 0);
                    for _ in 0..stumps {
                        let any = random(1000) as f32 / 64.0;
                        let threshold = [-0.0, 1e-45, -2.5, 3.0, 3.4e38, any][random(6) as usize].into();
                        let odd = random(40) == 0;
                        let predicate = match random(2) {
                            _ if !odd => less(threshold),
                            0 => less(f64::INFINITY),
                            _ => Predicate::InSet { set, inside: Side::Left },
                        };
                        let mut tree = builder.tree(0);
                        tree.split(feature, predicate, side, 1, 2);
                        tree.leaf(1, &[1.0]);
                        tree.leaf(2, &[2.0]);
                    }
                }
            }
            let forest = builder.build().expect("stumps");
            let ranks = Ranks::new(&forest, Choice::U8).expect("ranks");
            let rank_columns = ranks.columns().len();
            let odd = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MAX, f32::MIN];
            // Rows further apart than they are long, too.
            let (count, apart) = (64 + 64 + 20, columns + random(3) as usize);
            let values: Vec<f32> = (0..count * apart)
                .map(|_| match random(4) {
                    0 => odd[random(8) as usize],
                    1 => [-2.5f32, 3.0, 3.4e38, 1e-45][random(4) as usize].next_down(),
                    2 => [-2.5, 3.0, 3.4e38, 1e-45, 1.0, 4.0][random(6) as usize],
                    _ => random(1000) as f32 / 64.0,
                })
                .collect();
            let rows = Rows::strided(&values, [count, columns], [apart, 1]).expect("rows");
            let by_row = rank_as::<f32, u8>(&ranks, &rows);
            let mut by_column = vec![0u8; rank_columns * count];
            Ranker::new(&ranks).rank_strided(&rows, &mut by_column, [1, count]).expect("ranks");
            for (i, rank) in by_column.iter().enumerate() {
                let (c, r) = (i / count, i % count);
                assert_eq!(
                    f64::from(*rank),
                    by_row[r * rank_columns + c],
                    "{columns} {most}: {c} of row {r}"
                );
            }
        }
    }
}

/// One column of categories among numeric ones, at each end of a column block and within one: each row block has
/// categories of its own.
#[test]
fn a_category_among_numeric_columns_is_ranked_in_every_block() {
    const FEATURES: usize = 20;
    for category in [0, 7, 15, 16, 19] {
        let mut builder = Forest::builder(FEATURES, 1);
        let sets = [
            builder.set([1, 4, 5], CategoryRule::NotNegative),
            builder.set([2, 4], CategoryRule::NotNegative),
        ];
        let spread = |f: usize, k: usize| ((k * k + 31 * k + f) as f32).sqrt() * 1.7 - 40.0;
        for feature in 0..FEATURES {
            let splits: Vec<Predicate> = match feature == category {
                true => sets.iter().map(|set| in_set(*set)).collect(),
                false => (0..90).map(|k| less(spread(feature, k).into())).collect(),
            };
            for predicate in splits {
                let mut tree = builder.tree(0);
                tree.split(feature as u32, predicate, Side::Right, 1, 2);
                tree.leaf(1, &[1.0]);
                tree.leaf(2, &[2.0]);
            }
        }
        let forest = builder.build().expect("stumps");
        let predictor = Predictor::new(&forest).expect("a predictor");
        let value = |i: usize| match (i / FEATURES, i % FEATURES) {
            (r, f) if f == category => [1.0, 2.0, 3.0, 4.0, 6.0, f32::NAN, -1.0][(r * r + r / ROW_BLOCK) % 7],
            (r, f) => spread(f, (r * 7919 + f) % 90) + [0.0, 0.01, -0.01][(r + f) % 3],
        };
        for count in [ROW_BLOCK, 2 * ROW_BLOCK, 2 * ROW_BLOCK + 1, 3 * ROW_BLOCK + 16, 1000] {
            let values: Vec<f32> = (0..count * FEATURES).map(value).collect();
            let rows = Rows::new(&values, FEATURES).expect("rows");
            let expected: Vec<u32> =
                values.chunks(FEATURES).flat_map(|row| reference::leaf_slots(&forest, row)).collect();
            let found = predictor.leaf_slots(&rows).expect("slots");
            let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
            let wrong = wrong.map(|at| (at / forest.trees.len(), at % forest.trees.len()));
            assert_eq!(wrong, None, "row and tree; categories in column {category}, {count} rows");
        }
    }
}

#[test]
fn misuse_is_an_error_that_names_the_remedy() {
    let s = support::named("churn");
    let ranks = Ranks::new(&s.forest, Choice::U8).expect("ranks");
    let (ranker, columns, rank_columns) = (Ranker::new(&ranks), s.columns(), ranks.columns().len());
    let rows = Rows::strided(&s.rows, [2, columns], [columns, 1]).expect("rows");
    let fails = |result: Result<(), Error>, with: &str| {
        let message = result.expect_err("a refusal").to_string();
        assert!(message.contains(with), "`{message}` does not say `{with}`");
    };
    let mut bytes = vec![0u8; 2 * rank_columns];
    fails(ranker.rank(&rows, &mut bytes[1..]), "rank columns need");
    fails(ranker.rank(&rows, &mut vec![0u8; 2 * rank_columns + 1]), "rank columns need");
    fails(ranker.rank(&rows, &mut vec![0u16; 2 * rank_columns]), "give room for u8");
    fails(ranker.rank_strided(&rows, &mut bytes, [rank_columns + 1, 1]), "reach past");
    fails(ranker.rank_strided(&rows, &mut bytes, [usize::MAX, usize::MAX]), "reach past");
    let narrow = Rows::strided(&s.rows, [2, columns - 1], [columns, 1]).expect("rows");
    fails(ranker.rank(&narrow, &mut bytes), "columns in order");
    let broken = Forest { outputs: 0, ..s.forest.clone() };
    assert!(matches!(Ranks::new(&broken, Choice::U8), Err(RanksError::Forest(_))));
}
