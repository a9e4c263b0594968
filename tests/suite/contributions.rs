//! Contributions: the two reference interpreters against each other, the kernel against them, and all against the values of
//! XGBoost, LightGBM and CatBoost in `tests/contributions`.

use crate::{
    generate::{
        Seeded,
        explained::{assert_close, forest, rows},
    },
    support,
};

use fangorn::{
    Forest, Predictor,
    contributions::{Explainer, Interventional, reference},
    cpu::{Row, Rows},
    forest::{Aggregate, Predicate, Side, reference as interpreter},
};
use support::{folders, specimen};

fn explain<T: Row>(forest: &Forest, rows: &[T], count: usize) -> Vec<f32> {
    let columns = forest.features.len();
    let rows = Rows::strided(rows, [count, columns], [columns, 1]).expect("rows");
    Explainer::new(forest).expect("an explainer").contributions(&rows).expect("contributions")
}

#[test]
fn tree_shap_is_the_definition() {
    let mut draws = Seeded(7);
    for case in 0..60 {
        let (vector, deep) = (case % 3 == 0, case % 5 == 0);
        let forest = forest(&mut draws, 5, 9, vector, deep);
        for row in rows::<f64>(&mut draws, 4, 5).chunks_exact(5) {
            let exact = reference::by_subsets(&forest, row);
            for (found, exact) in reference::tree_shap(&forest, row).iter().zip(&exact) {
                assert!((found - exact).abs() < 1e-10, "case {case}: {found} for {exact}");
            }
            for (sum, margin) in exact.chunks_exact(6).zip(interpreter::margins(&forest, row)) {
                assert!((sum.iter().sum::<f64>() - margin).abs() < 1e-10, "case {case}");
            }
        }
    }
}

#[test]
fn the_kernel_gives_what_tree_shap_gives() {
    let mut draws = Seeded(11);
    for case in 0..80 {
        // Many features give paths that need several passes.
        let features = [3, 8, 60][case % 3];
        let splits = [14, 40, 90][case / 3 % 3];
        let forest = forest(&mut draws, features, splits, case % 4 == 0, case % 2 == 0);
        let count = [1, 7, 16, 17, 300][case % 5];
        let singles = rows::<f32>(&mut draws, count, features);
        let doubles = rows::<f64>(&mut draws, count, features);
        let (of_singles, of_doubles) = (explain(&forest, &singles, count), explain(&forest, &doubles, count));
        let width = forest.outputs as usize * (features + 1);
        // TreeSHAP is slow, so only some rows of a large batch are compared.
        for r in (0..count).filter(|r| r % 37 == 0 || *r + 1 == count) {
            let of = |found: &[f32], expected: &[f64]| {
                assert_close(&format!("case {case}, row {r}"), &found[r * width..][..width], expected);
            };
            of(&of_singles, &reference::tree_shap(&forest, &singles[r * features..][..features]));
            of(&of_doubles, &reference::tree_shap(&forest, &doubles[r * features..][..features]));
        }
    }
}

/// LightGBM puts the mean of the target into the leaves of its first tree. Contributions have digits of their own all the
/// same: an error is compared with the largest contribution, and not with the bias.
#[test]
fn an_offset_of_the_leaves_costs_no_digits() {
    let mut draws = Seeded(29);
    for case in 0..20 {
        let features = [3, 8][case % 2];
        let mut forest = forest(&mut draws, features, 25, case % 4 == 0, case % 3 == 0);
        let offset = [2003.0, 1e5, 1.7e9][case % 3];
        forest.leaf_values.iter_mut().for_each(|value| value.0 += offset);
        let count = 9;
        let singles = rows::<f32>(&mut draws, count, features);
        let (found, pairs) = (explain(&forest, &singles, count), interact(&forest, &singles, count));
        let width = features + 1;
        for r in 0..count {
            let row = &singles[r * features..][..features];
            let exact = reference::tree_shap(&forest, row);
            let of_pairs = reference::interactions(&forest, row);
            for output in 0..forest.outputs as usize {
                let of_features =
                    |all: &[f64]| all.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
                let own = &exact[output * width..][..features];
                let most = of_features(own);
                let found = &found[(r * forest.outputs as usize + output) * width..][..features];
                for (found, exact) in found.iter().zip(own) {
                    assert!(
                        (f64::from(*found) - exact).abs() <= 1e-5 * most,
                        "case {case}: {found} for {exact}"
                    );
                }
                let square = width * width;
                let pairs = &pairs[(r * forest.outputs as usize + output) * square..][..square - 1];
                let own = &of_pairs[output * square..][..square - 1];
                let most = of_features(own);
                for (found, exact) in pairs.iter().zip(own) {
                    assert!(
                        (f64::from(*found) - exact).abs() <= 1e-4 * most,
                        "case {case}: {found} for {exact}"
                    );
                }
            }
        }
    }
}

/// A row has the same bits alone and at any index of a batch: in any lane of a group of rows, and in the rest.
#[test]
fn rows_are_explained_alike_wherever_they_stand() {
    let mut draws = Seeded(23);
    for (case, count) in (1..=70).chain([95, 96, 97, 127, 128, 129, 255, 256, 257, 300]).enumerate() {
        let features = [3, 9, 20][case % 3];
        let forest = forest(&mut draws, features, 30, case % 4 == 0, case % 5 == 0);
        let singles = rows::<f32>(&mut draws, count, features);
        let doubles = rows::<f64>(&mut draws, count, features);
        alike(&singles, features, |rows, count| explain(&forest, rows, count));
        alike(&doubles, features, |rows, count| explain(&forest, rows, count));
        alike(&singles, features, |rows, count| interact(&forest, rows, count));
    }
}

/// Compares the results of all rows with those of some of them alone.
fn alike<T: Row>(rows: &[T], features: usize, run: impl Fn(&[T], usize) -> Vec<f32>) {
    let count = rows.len() / features;
    let all = run(rows, count);
    let width = all.len() / count;
    for r in (0..count).filter(|r| r % 13 == 0 || r + 3 > count) {
        let alone = run(&rows[r * features..][..features], 1);
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&all[r * width..][..width]), bits(&alone), "row {r} of {count}");
    }
}

#[test]
fn interactions_leaf_by_leaf_are_the_definition() {
    let mut draws = Seeded(19);
    for case in 0..40 {
        let forest = forest(&mut draws, 5, 9, case % 3 == 0, case % 5 == 0);
        for row in rows::<f64>(&mut draws, 3, 5).chunks_exact(5) {
            let exact = reference::interactions_by_subsets(&forest, row);
            for (found, exact) in reference::interactions(&forest, row).iter().zip(&exact) {
                assert!((found - exact).abs() < 1e-10, "case {case}: {found} for {exact}");
            }
        }
    }
}

fn interact<T: Row>(forest: &Forest, rows: &[T], count: usize) -> Vec<f32> {
    let columns = forest.features.len();
    let rows = Rows::strided(rows, [count, columns], [columns, 1]).expect("rows");
    Explainer::new(forest).expect("an explainer").interactions(&rows).expect("interactions")
}

#[test]
fn interactions_are_those_of_the_reference() {
    let mut draws = Seeded(23);
    for case in 0..80 {
        // Few features repeat on paths, and many give paths that need several passes.
        let features = [3, 8, 40][case % 3];
        let splits = [14, 40, 90][case / 3 % 3];
        let forest = forest(&mut draws, features, splits, case % 4 == 0, case % 2 == 0);
        let count = [1, 7, 16, 17, 140][case % 5];
        let singles = rows::<f32>(&mut draws, count, features);
        let doubles = rows::<f64>(&mut draws, count, features);
        let (of_singles, of_doubles) =
            (interact(&forest, &singles, count), interact(&forest, &doubles, count));
        let width = forest.outputs as usize * (features + 1) * (features + 1);
        // The reference is slow, so only some rows of a large batch are compared.
        for r in (0..count).filter(|r| r % 67 == 0 || *r + 1 == count) {
            let of = |found: &[f32], expected: &[f64]| {
                assert_close(&format!("case {case}, row {r}"), &found[r * width..][..width], expected);
            };
            of(&of_singles, &reference::interactions(&forest, &singles[r * features..][..features]));
            of(&of_doubles, &reference::interactions(&forest, &doubles[r * features..][..features]));
        }
    }
}

#[test]
fn interactions_are_those_of_xgboost() {
    let mut compared = 0;
    for folder in folders() {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let path = format!("{}/tests/contributions/interactions/{name}.npy", env!("CARGO_MANIFEST_DIR"));
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let file = npyz::NpyFile::new(&bytes[..]).expect("an array");
        let count = file.shape()[0] as usize;
        let expected: Vec<f32> = file.into_vec().expect("an array of f32");
        let s = specimen(&folder);
        let found = interact(&s.forest, &s.rows[..count * s.columns()], count);
        let largest = expected.iter().fold(0f32, |most, v| most.max(v.abs()));
        assert_eq!(found.len(), expected.len(), "{name}");
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!((found - expected).abs() <= 1e-4 * largest, "{name}, number {i}: {found} for {expected}");
        }
        compared += 1;
    }
    assert!(compared >= 8 || std::env::var_os("FANGORN_MODELS").is_some(), "{compared} models");
}

fn against<T: Row>(forest: &Forest, background: &[T], rows: &[T], count: usize) -> Vec<f32> {
    let columns = forest.features.len();
    let of = |values| Rows::new(values, columns).expect("rows");
    let explainer = Interventional::new(forest, &of(background)).expect("an explainer");
    let found = explainer.contributions(&of(rows)).expect("contributions");
    assert_eq!(found.len(), count * explainer.width());
    found
}

#[test]
fn contributions_against_a_background_are_the_definition() {
    let mut draws = Seeded(29);
    for case in 0..60 {
        let (features, splits) = [(3, 14), (7, 9), (6, 40)][case % 3];
        let forest = forest(&mut draws, features, splits, case % 4 == 0, case % 2 == 0);
        let (count, others) = ([1, 3, 8][case % 3], [1, 2, 9][case / 3 % 3]);
        let compare =
            |found: &[f32], expected: &[f64]| assert_close(&format!("case {case}"), found, expected);
        let (other, own) =
            (rows::<f32>(&mut draws, others, features), rows::<f32>(&mut draws, count, features));
        let background: Vec<&[f32]> = other.chunks_exact(features).collect();
        let exact = |row| reference::interventional_by_subsets(&forest, row, &background);
        let expected: Vec<f64> = own.chunks_exact(features).flat_map(exact).collect();
        compare(&against(&forest, &other, &own, count), &expected);
        let (other, own) =
            (rows::<f64>(&mut draws, others, features), rows::<f64>(&mut draws, count, features));
        let background: Vec<&[f64]> = other.chunks_exact(features).collect();
        let exact = |row| reference::interventional_by_subsets(&forest, row, &background);
        let expected: Vec<f64> = own.chunks_exact(features).flat_map(exact).collect();
        compare(&against(&forest, &other, &own, count), &expected);
    }
}

#[test]
fn contributions_against_a_background_add_up_on_long_paths_and_without_covers() {
    let mut draws = Seeded(31);
    for case in 0..12 {
        // Paths with more features than a table of patterns has, and more rows than a block.
        let features = [20, 60][case % 2];
        let made = forest(&mut draws, features, 50, case % 3 == 0, true);
        let bare = Forest { covers: None, ..made };
        let count = [1, 65, 2100][case % 3];
        let other = rows::<f64>(&mut draws, 5, features);
        let own = rows::<f64>(&mut draws, count, features);
        let found = against(&bare, &other, &own, count);
        let outputs = bare.outputs as usize;
        let means = (0..outputs).map(|o| {
            other.chunks_exact(features).map(|row| interpreter::margins(&bare, row)[o]).sum::<f64>() / 5.0
        });
        let means: Vec<f64> = means.collect();
        for (row, found) in own.chunks_exact(features).zip(found.chunks_exact(outputs * (features + 1))) {
            let margins = interpreter::margins(&bare, row);
            for ((found, margin), mean) in found.chunks_exact(features + 1).zip(margins).zip(&means) {
                let sum: f64 = found.iter().map(|v| f64::from(*v)).sum();
                assert!((sum - margin).abs() < 1e-4, "case {case}: {sum} for {margin}");
                assert!((f64::from(found[features]) - mean).abs() < 1e-5, "case {case}");
            }
        }
    }
}

/// A tree that asks each feature once, each split below the one before.
fn chain(features: u32) -> Forest {
    let mut builder = Forest::builder(features as usize, 1);
    let mut tree = builder.tree(0);
    for feature in 0..features {
        let next = 2 * feature + 1;
        tree.split(feature, Predicate::Less { threshold: 0.5f32.into() }, Side::Left, next, next + 1);
        tree.leaf(feature, &[1.0 + f64::from(feature * feature % 7)]);
    }
    tree.leaf(features, &[-3.0]);
    builder.build().expect("a forest")
}

/// A path of 14 features has a map of patterns in place of a table.
#[test]
fn contributions_against_a_background_are_the_definition_on_a_long_path() {
    let (forest, features) = (chain(14), 14);
    let background: Vec<f32> = (0..5 * features).map(|at| (at * 7 % 11) as f32 / 11.0).collect();
    let rows: Vec<f32> = (0..4 * features).map(|at| if at % 9 == 4 { 0.0 } else { 0.9 }).collect();
    let of_background: Vec<&[f32]> = background.chunks_exact(features).collect();
    let exact = |row| reference::interventional_by_subsets(&forest, row, &of_background);
    let expected: Vec<f64> = rows.chunks_exact(features).flat_map(exact).collect();
    assert_close("a path of 14 features", &against(&forest, &background, &rows, 4), &expected);
}

#[test]
fn what_has_no_contributions_against_a_background_is_refused() {
    let refused = |forest: &Forest, background: &[f32]| {
        let columns = forest.features.len();
        let background = Rows::new(background, columns).expect("rows");
        Interventional::new(forest, &background).map(drop).expect_err("refused").to_string()
    };
    let long = refused(&chain(65), &[0.0; 65]);
    assert!(long.contains("more than 64 features") && long.contains("leave the background out"), "{long}");
    let empty = refused(&chain(3), &[]);
    assert!(empty.contains("background has 0 rows"), "{empty}");
    let wide = Rows::new(&[0f32; 8], 4).expect("rows");
    assert!(Interventional::new(&chain(3), &wide).is_err());
    assert!(Interventional::new(&chain(64), &Rows::new(&[0f32; 64], 64).expect("rows")).is_ok());
}

#[test]
fn producers_agree() {
    let mut compared = 0;
    for folder in folders() {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let path = format!("{}/tests/contributions/{name}.npy", env!("CARGO_MANIFEST_DIR"));
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let expected: Vec<f64> =
            npyz::NpyFile::new(&bytes[..]).and_then(|file| file.into_vec()).expect("an array of f64");
        let s = specimen(&folder);
        // The script takes the first 8 rows and the last 4.
        let chosen = (0..8).chain(s.count - 4..s.count);
        let rows: Vec<f32> = chosen.flat_map(|r| s.row(r).to_vec()).collect();
        let found = explain(&s.forest, &rows, 12);
        let width = found.len() / 12;
        for r in 0..12 {
            let of = r * width..(r + 1) * width;
            assert_close(&format!("{name}, row {r}"), &found[of.clone()], &expected[of]);
        }
        compared += 1;
    }
    assert!(compared >= 20 || std::env::var_os("FANGORN_MODELS").is_some(), "{compared} models");
}

#[test]
fn sums_are_margins_on_every_model_with_covers() {
    for folder in folders() {
        let s = specimen(&folder);
        let Ok(explainer) = Explainer::new(&s.forest) else { continue };
        let view = Rows::strided(&s.rows, [s.count, s.columns()], [s.columns(), 1]).expect("rows");
        let found = explainer.contributions(&view).expect("contributions");
        let margins = Predictor::new(&s.forest).and_then(|p| p.margins(&view)).expect("margins");
        for (of_output, margin) in found.chunks_exact(s.columns() + 1).zip(margins) {
            let sum: f64 = of_output.iter().map(|v| f64::from(*v)).sum();
            let size: f64 = of_output.iter().map(|v| f64::from(v.abs())).sum();
            let off = (sum - f64::from(margin)).abs();
            assert!(off <= 1e-5 * size.max(1.0) || !margin.is_finite(), "{}: {sum} for {margin}", s.name);
        }
    }
}

#[test]
fn what_has_no_contributions_is_refused() {
    let mut builder = Forest::builder(1, 1);
    let mut tree = builder.tree(0);
    tree.split(0, Predicate::Less { threshold: 0.5f32.into() }, Side::Left, 1, 2);
    tree.leaf(0, &[1.0]);
    tree.leaf(1, &[2.0]);
    let bare = builder.build().expect("a forest");
    let refused = |forest: &Forest| Explainer::new(forest).map(drop).expect_err("refused").to_string();
    assert!(refused(&bare).contains("no covers"), "{}", refused(&bare));
    let least = Forest { aggregate: Aggregate::Min, ..bare };
    assert!(refused(&least).contains("min leaf"), "{}", refused(&least));
}

#[test]
fn covers_come_back_from_a_file_and_are_in_no_hash() {
    let forest = forest(&mut Seeded(3), 4, 6, false, false);
    assert!(forest.covers.is_some());
    let bytes = fangorn::file::Contents::new(forest.clone()).to_bytes();
    let read = fangorn::import::parse(&bytes, &Default::default()).expect("a forest");
    assert_eq!(read.covers, forest.covers);
    let bare = Forest { covers: None, ..forest.clone() };
    assert_eq!(bare.model_hash(), forest.model_hash());
}
