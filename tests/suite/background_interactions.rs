//! Interactions against a background: against the definition, and their sums.

use fangorn::{
    Forest,
    contributions::{Interventional, reference},
    cpu::{Row, Rows},
    forest::{CompareType, Predicate, Side},
};

use crate::{
    contributions::{long_forest, long_rows, value},
    generate::{
        Seeded,
        explained::{forest, rows},
    },
    support::for_each_specimen,
};

fn explainer<T: Row>(forest: &Forest, background: &[T]) -> Interventional {
    let rows = Rows::new(background, forest.features.len()).expect("rows");
    Interventional::new(forest, &rows).expect("an explainer")
}

/// Compares interactions with exact ones, within 1e-6 of the largest.
fn assert_close(what: &str, found: &[f32], exact: &[f64]) {
    assert_eq!(found.len(), exact.len(), "{what}");
    let largest = exact.iter().fold(0f64, |most, v| most.max(v.abs()));
    for (i, (found, exact)) in found.iter().zip(exact).enumerate() {
        let off = (f64::from(*found) - exact).abs();
        assert!(
            off <= 1e-6 * largest + 1e-12,
            "{what}: number {i}: {found} for {exact}, of {largest} at most"
        );
    }
}

#[test]
fn interactions_against_a_background_are_the_definition() {
    let mut draws = Seeded(59);
    for case in 0..60 {
        let (features, splits) = [(3, 14), (7, 9), (6, 40)][case % 3];
        let forest = forest(&mut draws, features, splits, case % 4 == 0, case % 2 == 0);
        let (count, others) = ([1, 3, 8][case % 3], [1, 2, 9][case / 3 % 3]);
        let what = format!("case {case}");
        let (other, own) =
            (rows::<f32>(&mut draws, others, features), rows::<f32>(&mut draws, count, features));
        let background: Vec<&[f32]> = other.chunks_exact(features).collect();
        let exact = |row| reference::interventional_interactions_by_subsets(&forest, row, &background);
        let exact: Vec<f64> = own.chunks_exact(features).flat_map(exact).collect();
        let of_own = Rows::new(&own, features).expect("rows");
        assert_close(&what, &explainer(&forest, &other).interactions(&of_own).expect(&what), &exact);
        let (other, own) =
            (rows::<f64>(&mut draws, others, features), rows::<f64>(&mut draws, count, features));
        let background: Vec<&[f64]> = other.chunks_exact(features).collect();
        let exact = |row| reference::interventional_interactions_by_subsets(&forest, row, &background);
        let exact: Vec<f64> = own.chunks_exact(features).flat_map(exact).collect();
        let of_own = Rows::new(&own, features).expect("rows");
        assert_close(&what, &explainer(&forest, &other).interactions(&of_own).expect(&what), &exact);
    }
}

/// Several blocks, of models with many columns, too. A row's matrix does not depend on the others.
#[test]
fn rows_are_explained_alike_in_blocks_and_alone() {
    let mut draws = Seeded(73);
    for (features, splits, count) in [(6, 40, 1100), (90, 60, 200)] {
        let forest = forest(&mut draws, features, splits, true, true);
        let other = rows::<f32>(&mut draws, 11, features);
        let own = rows::<f32>(&mut draws, count, features);
        let explainer = explainer(&forest, &other);
        let all = explainer.interactions(&Rows::new(&own, features).expect("rows")).expect("interactions");
        let width = explainer.interactions_width().expect("a number");
        for (own, all) in own.chunks_exact(features).zip(all.chunks_exact(width)).step_by(41) {
            let alone =
                explainer.interactions(&Rows::new(own, features).expect("a row")).expect("interactions");
            assert!(alone == all, "{features} columns");
        }
    }
}

#[test]
fn trees_without_splits_have_only_a_bias() {
    let mut builder = Forest::builder(2, 1).base_score([0.5]);
    builder.tree(0).leaf(0, &[2.0]);
    for (forest, bias) in [
        (builder.build().expect("a forest"), 2.5),
        (Forest::builder(2, 1).base_score([0.5]).build().expect("no trees"), 0.5),
    ] {
        let found =
            explainer(&forest, &[1.0f32, 2.0]).interactions(&Rows::new(&[3.0f32, 4.0], 2).expect("a row"));
        assert_eq!(found.expect("interactions"), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, bias]);
    }
}

/// Two features that are asked one below the other: by hand, the leaf of both is 6, all others are 0.
#[test]
fn two_features_share_what_neither_adds_alone() {
    let mut builder = Forest::builder(2, 1).base_score([0.5]);
    let mut tree = builder.tree(0);
    tree.split(0, Predicate::Less { threshold: 1f32.into() }, Side::Left, 2, 1);
    tree.split(1, Predicate::Less { threshold: 1f32.into() }, Side::Left, 3, 4);
    for leaf in 0..2 {
        tree.leaf(leaf, &[0.0]);
    }
    tree.leaf(2, &[6.0]);
    let forest = builder.build().expect("a forest");
    let of = |other: [f32; 2], own: [f32; 2]| {
        explainer(&forest, &other).interactions(&Rows::new(&own, 2).expect("a row")).expect("interactions")
    };
    // Both features together add 6: 3 each, all of it by their interaction.
    assert_eq!(of([0.0, 0.0], [2.0, 2.0]), [0.0, 3.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.5]);
    // The other way round both lose.
    assert_eq!(of([2.0, 2.0], [0.0, 0.0]), [-6.0, 3.0, 0.0, 3.0, -6.0, 0.0, 0.0, 0.0, 6.5]);
    // One feature alone.
    assert_eq!(of([2.0, 0.0], [2.0, 2.0]), [0.0, 0.0, 0.0, 0.0, 6.0, 0.0, 0.0, 0.0, 0.5]);
    // One gains what the other one loses.
    assert_eq!(of([2.0, 0.0], [0.0, 2.0]), [0.0, -3.0, 0.0, -3.0, 6.0, 0.0, 0.0, 0.0, 0.5]);
}

#[test]
fn lines_of_interactions_add_up_to_contributions_of_trained_models() {
    let checked = std::cell::Cell::new(0);
    for_each_specimen(|s| {
        let columns = s.columns();
        if columns > 60 || s.forest.leaf_count() > 20_000 {
            return;
        }
        let others = &s.rows[s.rows.len() - s.count.min(7) * columns..];
        let others = Rows::new(others, columns).expect("rows");
        let Ok(explainer) = Interventional::new(&s.forest, &others) else { return };
        let own = Rows::new(&s.rows[..s.count.min(9) * columns], columns).expect("rows");
        let interactions = explainer.interactions(&own).unwrap_or_else(|e| panic!("{}: {e}", s.name));
        let contributions = explainer.contributions(&own).expect("contributions");
        let largest = contributions.iter().fold(0f32, |most, v| most.max(v.abs()));
        for (line, contribution) in interactions.chunks_exact(columns + 1).zip(&contributions) {
            let sum: f32 = line.iter().sum();
            assert!((sum - contribution).abs() <= 2e-5 * largest, "{}: {sum} for {contribution}", s.name);
        }
        checked.set(checked.get() + 1);
    });
    assert!(checked.get() > 20, "{} models", checked.get());
}

/// Paths of any number of features, beside short ones: rows that differ in few features against the definition, and rows
/// that differ in many by their sums.
#[test]
fn interactions_against_a_background_have_any_number_of_features_on_a_path() {
    let mut draws = Seeded(67);
    for (case, features) in [64, 65, 66, 100, 130].into_iter().enumerate() {
        let compare = if case % 2 == 0 { CompareType::F32 } else { CompareType::F64 };
        let forest = long_forest(&mut draws, features, case % 3 == 0, compare);
        let features = features as usize;
        let what = format!("{features} features");
        let row: Vec<f32> = (0..features).map(|f| value(&mut draws, f, true)).collect();
        let mut other = row.clone();
        for _ in 0..7 {
            let feature = draws.below(features);
            other[feature] = value(&mut draws, feature, false);
        }
        for (row, background) in [(&row, [&other[..], &row]), (&other, [&row[..], &row])] {
            let exact = reference::interventional_interactions_by_subsets(&forest, row, &background);
            let own = Rows::new(row, features).expect("a row");
            let found = explainer(&forest, &background.concat()).interactions(&own).expect(&what);
            assert_close(&what, &found, &exact);
        }
        // Several rows, whose patterns are all different.
        let (rows, background) = long_rows(&mut draws, features);
        let (explainer, rows) = (explainer(&forest, &background), Rows::new(&rows, features).expect("rows"));
        let contributions = explainer.contributions(&rows).expect("contributions");
        let interactions = explainer.interactions(&rows).expect("interactions");
        let largest = contributions.iter().fold(0f32, |most, v| most.max(v.abs()));
        let width = features + 1;
        for (line, contribution) in interactions.chunks_exact(width).zip(&contributions) {
            let sum: f64 = line.iter().map(|v| f64::from(*v)).sum();
            let off = (sum - f64::from(*contribution)).abs();
            assert!(off <= 2e-5 * f64::from(largest), "{what}: {sum} for {contribution}");
        }
        for matrix in interactions.chunks_exact(width * width) {
            assert!(
                (0..width * width).all(|at| matrix[at] == matrix[at % width * width + at / width]),
                "{what}"
            );
        }
        // A row alone has the same interactions.
        let alone = explainer.interactions(&rows.slice(2, 1)).expect("interactions");
        assert!(alone == interactions[2 * alone.len()..][..alone.len()], "{what}");
        let short = explainer.interactions_into(&rows, &mut [0.0; 3]).expect_err("no room");
        assert!(short.to_string().contains("room for 3 values"), "{short}");
    }
}
