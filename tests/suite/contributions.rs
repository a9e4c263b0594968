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
    contributions::{Algorithm, Explainer, Interventional, reference},
    cost::Machine,
    cpu::{Row, Rows},
    forest::{
        Aggregate, CategoryRule, CompareType, Predicate, Real, Side, TreeBuilder, reference as interpreter,
    },
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

/// Paths of some hundred splits. With 40 features, which repeat, TreeSHAP says what their contributions are. With 300 it
/// loses all digits, because it divides by shares that are nearly 0; the contributions still add up to the margins.
#[test]
fn the_kernel_gives_what_tree_shap_gives_on_very_long_paths() {
    let mut draws = Seeded(53);
    for case in 0..4 {
        let (features, splits) = ([40, 300][case % 2], [250, 500][case / 2]);
        let forest = forest(&mut draws, features, splits, case % 3 == 0, true);
        let rows = rows::<f32>(&mut draws, 2, features);
        let found = explain(&forest, &rows, 2);
        let width = forest.outputs as usize * (features + 1);
        for (row, found) in rows.chunks_exact(features).zip(found.chunks_exact(width)) {
            if features == 40 {
                assert_close(&format!("case {case}"), found, &reference::tree_shap(&forest, row));
            }
            let margins = interpreter::margins(&forest, row);
            for (output, margin) in found.chunks_exact(features + 1).zip(margins) {
                let sum: f64 = output.iter().map(|value| f64::from(*value)).sum();
                let largest = output.iter().fold(1.0, |most: f32, value| most.max(value.abs()));
                assert!((sum - margin).abs() < 1e-5 * f64::from(largest), "case {case}: {sum} for {margin}");
            }
        }
    }
}

/// A forest whose tables would take more than 256 MB has none.
#[test]
fn large_tables_give_way_to_quadratures() {
    let of = |trees: u32| {
        let mut builder = Forest::builder(40, 1);
        for t in 0..trees {
            // Eight features, each asked below the one before.
            let mut tree = builder.tree(0);
            for level in 0..8 {
                let predicate = Predicate::Less { threshold: (t as f32 / 64.0).into() };
                tree.split((t + 5 * level) % 40, predicate, Side::Left, 2 * level + 1, 2 * level + 2);
                tree.leaf(level, &[f64::from(t % 7 + level)]);
            }
            tree.leaf(8, &[-3.0]);
            tree.covers((0..17).map(|node| if node % 2 == 0 { f64::from(9 - node / 2) } else { 1.0 }));
        }
        let forest = builder.build().expect("a forest");
        let explainer = Explainer::with_algorithm(&forest, Algorithm::PatternTables).expect("an explainer");
        let (text, row) = (explainer.algorithm(), vec![0.7f32; 40]);
        let found = explainer.contributions(&Rows::new(&row, 40).expect("a row")).expect("contributions");
        assert_close(&format!("{trees} trees"), &found, &reference::tree_shap(&forest, &row));
        text
    };
    assert!(of(300).contains("pattern tables"), "{}", of(300));
    let many = of(70_000);
    assert!(!many.contains("tables") && many.contains("quadrature"), "{many}");
}

/// A forest of shallow trees in which tests repeat: complete trees up to eight levels deep, oblivious trees, and trees that
/// grew on one side.
fn shallow_forest(draws: &mut Seeded, features: usize) -> Forest {
    let (vector, doubles) = (draws.below(3) == 0, draws.below(2) == 0);
    let compare = if doubles { CompareType::F64 } else { CompareType::F32 };
    let mut builder = Forest::builder(features, 2).compare(compare).base_score([0.5, -1.0]);
    let set = builder.set([0, 2, 3], CategoryRule::NotNegative);
    for t in 0..1 + draws.below(12) {
        let depth = draws.below(9);
        let oblivious = draws.below(3) == 0;
        let predicate = |draws: &mut Seeded| {
            let threshold = (draws.below(9) as f32 - 4.0) / 2.0;
            // Thresholds that are no numbers of `f32`.
            let threshold = Real(if doubles { f64::from(threshold) + 0.1 } else { threshold.into() });
            let predicate = match draws.below(9) {
                0 => Predicate::Equal { value: threshold },
                1 => Predicate::InSet { set, inside: Side::Right },
                _ => Predicate::Less { threshold },
            };
            let missing = if draws.below(2) == 0 { Side::Left } else { Side::Right };
            (draws.below(features) as u32, predicate, missing)
        };
        let of_level: Vec<_> = (0..depth).map(|_| predicate(draws)).collect();
        // The children of each split, and the depths of all nodes.
        let mut depths = vec![0];
        let mut children = Vec::new();
        for n in 0.. {
            let Some(level) = depths.get(n).copied() else { break };
            let grows = level < depth && (oblivious || level < 2 || draws.below(8) < 6);
            children.push(grows.then(|| (depths.len() as u32, depths.len() as u32 + 1)));
            depths.extend(std::iter::repeat_n(level + 1, if grows { 2 } else { 0 }));
        }
        let mut tree = if vector { builder.vector_tree() } else { builder.tree(t as u32 % 2) };
        let mut covers = vec![0.0; depths.len()];
        let mut leaves = 0;
        for (n, of) in children.iter().enumerate() {
            match of {
                Some((left, right)) => {
                    let (feature, predicate, missing) =
                        if oblivious { of_level[depths[n]] } else { predicate(draws) };
                    tree.split(feature, predicate, missing, *left, *right);
                }
                None => {
                    let values = [(); 2].map(|()| draws.below(2000) as f64 / 1000.0 - 1.0);
                    tree.leaf(leaves, if vector { &values } else { &values[..1] });
                    leaves += 1;
                    covers[n] = draws.below(50) as f64;
                }
            }
        }
        for (n, of) in children.iter().enumerate().rev() {
            if let Some((left, right)) = of {
                covers[n] = covers[*left as usize] + covers[*right as usize];
            }
        }
        tree.covers(covers);
    }
    builder.build().expect("a forest")
}

/// Rows of `f64`, some of whose values are thresholds of [`shallow_forest`] or next to one.
fn rows_at_thresholds(draws: &mut Seeded, count: usize, features: usize) -> Vec<f64> {
    let mut values = rows::<f64>(draws, count, features);
    for value in &mut values {
        let threshold = (draws.below(9) as f64 - 4.0) / 2.0 + 0.1;
        match draws.below(6) {
            0 => *value = threshold,
            1 => *value = threshold.next_down(),
            2 => *value = threshold.next_up(),
            _ => {}
        }
    }
    values
}

#[test]
fn pattern_tables_give_what_tree_shap_gives() {
    let mut draws = Seeded(37);
    let (mut all, mut some) = (0, 0);
    for case in 0..150 {
        let features = [2, 5, 12, 40][case % 4];
        let forest = match case % 3 {
            // Trees with tables beside trees that are too deep for them.
            0 => forest(&mut draws, features, 16, case % 2 == 0, case % 5 == 0),
            _ => shallow_forest(&mut draws, features),
        };
        let count = [1, 7, 16, 33, 64, 65, 300][case % 7];
        let explainer = Explainer::with_algorithm(&forest, Algorithm::PatternTables).expect("an explainer");
        let text = explainer.algorithm();
        all += usize::from(text.starts_with("pattern tables,"));
        some += usize::from(text.starts_with("pattern tables in "));
        let width = explainer.width();
        let singles = rows::<f32>(&mut draws, count, features);
        let doubles = rows_at_thresholds(&mut draws, count, features);
        let of_singles =
            explainer.contributions(&Rows::new(&singles, features).expect("rows")).expect("singles");
        let of_doubles =
            explainer.contributions(&Rows::new(&doubles, features).expect("rows")).expect("doubles");
        for r in (0..count).filter(|r| r % 11 == 0 || *r + 1 == count) {
            let of = |found: &[f32], expected: &[f64]| {
                assert_close(&format!("case {case}, row {r}"), &found[r * width..][..width], expected);
            };
            of(&of_singles, &reference::tree_shap(&forest, &singles[r * features..][..features]));
            of(&of_doubles, &reference::tree_shap(&forest, &doubles[r * features..][..features]));
        }
    }
    assert!(all > 50 && some > 10, "{all} and {some} forests with tables");
}

#[test]
fn pattern_tables_of_a_background_give_what_the_definition_gives() {
    let mut draws = Seeded(41);
    let (mut all, mut some) = (0, 0);
    for case in 0..120 {
        let features = [2, 5, 12, 40][case % 4];
        let mut forest = match case % 3 {
            0 => forest(&mut draws, features, 16, case % 2 == 0, case % 5 == 0),
            _ => shallow_forest(&mut draws, features),
        };
        // An offset must not cost digits.
        if case % 7 == 3 {
            forest.leaf_values.iter_mut().for_each(|value| value.0 += 1e4);
        }
        let (count, known) = ([64, 65, 79, 130, 300][case % 5], [1, 2, 9, 40][case % 4]);
        let background = rows_at_thresholds(&mut draws, known, features);
        let of_background = Rows::new(&background, features).expect("rows");
        let explainer = Interventional::new(&forest, &of_background).expect("an explainer");
        let text = explainer.algorithm();
        all += usize::from(text == "pattern tables of the background from 64 rows on");
        some += usize::from(text.contains("pattern tables of the background from 64 rows on in "));
        let width = explainer.width();
        let doubles = rows_at_thresholds(&mut draws, count, features);
        let singles: Vec<f32> = doubles.iter().map(|value| *value as f32).collect();
        let of_doubles =
            explainer.contributions(&Rows::new(&doubles, features).expect("rows")).expect("doubles");
        let of_singles =
            explainer.contributions(&Rows::new(&singles, features).expect("rows")).expect("singles");
        let others: Vec<&[f64]> = background.chunks_exact(features).collect();
        for r in (0..count).filter(|r| r % 23 == 0 || *r + 1 == count) {
            let row = &doubles[r * features..][..features];
            let of_single: Vec<f64> = row.iter().map(|value| f64::from(*value as f32)).collect();
            for (found, row) in [(&of_doubles, row), (&of_singles, &of_single[..])] {
                let exact = reference::interventional(&forest, row, &others);
                // The bias is large beside contributions if there is an offset.
                for (output, exact) in exact.chunks_exact(features + 1).enumerate() {
                    let found = &found[r * width + output * (features + 1)..][..features + 1];
                    assert_close(&format!("case {case}, row {r}"), &found[..features], &exact[..features]);
                    assert_close(&format!("case {case}, row {r}"), &found[features..], &exact[features..]);
                }
            }
        }
        // A few rows do without tables.
        let few =
            explainer.contributions(&Rows::new(&doubles[..features], features).expect("rows")).expect("few");
        for (few, many) in few.chunks_exact(features + 1).zip(of_doubles.chunks_exact(features + 1)) {
            let many: Vec<f64> = many[..features].iter().map(|value| f64::from(*value)).collect();
            assert_close(&format!("case {case}, alone"), &few[..features], &many);
        }
    }
    assert!(all > 50 && some > 5, "{all} and {some} forests with tables");
}

/// Leaves that neither the rows nor the background reach have no effect, however large they are.
#[test]
fn leaves_beyond_a_background_cost_no_digits() {
    let mut draws = Seeded(43);
    let features = 7;
    for depth in 2..=8u32 {
        let mut builder = Forest::builder(features, 1);
        for _ in 0..5 {
            let mut tree = builder.tree(0);
            let splits = (1u32 << depth) - 1;
            for n in 0..splits {
                let column = if n == 0 { 0 } else { 1 + draws.below(features - 1) as u32 };
                let threshold = if n == 0 { 0.0 } else { draws.below(9) as f32 / 2.0 - 2.0 };
                let predicate = Predicate::Less { threshold: threshold.into() };
                tree.split(column, predicate, Side::Left, 2 * n + 1, 2 * n + 2);
            }
            for leaf in 0..=splits {
                // The right half of the tree is 1e6 above the left half.
                let level = if leaf > splits / 2 { 1e6 } else { 0.0 };
                tree.leaf(leaf, &[level + draws.below(2000) as f64 / 1000.0 - 1.0]);
            }
        }
        let forest = builder.build().expect("a forest");
        let mut left = |count: usize| {
            let mut values = rows::<f64>(&mut draws, count, features);
            values.iter_mut().step_by(features).for_each(|value| *value = -1.0);
            values
        };
        let (background, values) = (left(30), left(70));
        let of_background = Rows::new(&background, features).expect("rows");
        let explainer = Interventional::new(&forest, &of_background).expect("an explainer");
        assert_eq!(explainer.algorithm(), "pattern tables of the background from 64 rows on");
        let found =
            explainer.contributions(&Rows::new(&values, features).expect("rows")).expect("contributions");
        let background: Vec<&[f64]> = background.chunks_exact(features).collect();
        for (row, found) in values.chunks_exact(features).zip(found.chunks_exact(features + 1)) {
            let exact = reference::interventional(&forest, row, &background);
            assert_close(&format!("depth {depth}"), &found[..features], &exact[..features]);
        }
    }
}

/// Each tree takes the algorithm with the least estimated time, and interactions are the same with any.
#[test]
fn the_choice_of_algorithms_is_the_least_estimate() {
    let mut draws = Seeded(47);
    let costs = &Machine::here().contributions;
    let mut kinds = [0; 3];
    for case in 0..40 {
        let features = [3, 9, 30][case % 3];
        let forest = match case % 2 {
            0 => shallow_forest(&mut draws, features),
            _ => forest(&mut draws, features, 40, case % 4 == 1, case % 8 < 4),
        };
        let all = [Algorithm::Estimated, Algorithm::Quadrature, Algorithm::PatternTables]
            .map(|algorithm| Explainer::with_algorithm(&forest, algorithm).expect("an explainer"));
        let [estimated, quadrature, tables] =
            all.each_ref().map(|explainer| costs.seconds(&explainer.work()));
        assert!(estimated <= quadrature.min(tables) * (1.0 + 1e-12), "{estimated}, {quadrature}, {tables}");
        let text = all[0].algorithm();
        let kind = match (text.contains("pattern tables"), text.contains("quadrature")) {
            (true, true) => 0,
            (true, false) => 1,
            _ => 2,
        };
        kinds[kind] += 1;
        let values = rows::<f32>(&mut draws, 20, features);
        let rows = Rows::new(&values, features).expect("rows");
        let [a, b, c] = all.each_ref().map(|explainer| explainer.interactions(&rows).expect("interactions"));
        assert!(a == b && b == c, "case {case}");
    }
    assert!(kinds.iter().all(|count| *count > 2), "{kinds:?}");
}

/// Trees without splits, alone and beside trees that are too deep for tables.
#[test]
fn trees_without_splits_have_no_tables() {
    let deep = chain(100);
    let of = |forest: &Forest| {
        let columns = forest.features.len();
        let values = vec![0.5f32; 64 * columns];
        let rows = Rows::new(&values, columns).expect("rows");
        let explainer = Interventional::new(forest, &rows).expect("an explainer");
        let found = explainer.contributions(&rows).expect("contributions");
        // Rows and background are the same.
        assert!(found.chunks_exact(columns + 1).all(|row| row[..columns].iter().all(|value| *value == 0.0)));
        explainer.algorithm()
    };
    assert_eq!(of(&Forest::builder(3, 1).build().expect("a forest")), "a forest without trees");
    let mut builder = Forest::builder(3, 1);
    builder.tree(0).leaf(0, &[2.5]);
    assert_eq!(
        of(&builder.build().expect("a forest")),
        "patterns of rows and of the background at each leaf"
    );
    assert!(!of(&deep).contains("tables"));
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

/// Asks a feature in a tree. The feature's number says how: by a threshold, with missing values on either side, by
/// categories, or by one value. `again` asks with a higher threshold. `stays` and `goes` are the children of the values
/// of [`value`].
fn ask(tree: &mut TreeBuilder<'_>, set: u32, feature: u32, again: bool, stays: u32, goes: u32) {
    let threshold = if again { 0.7f32 } else { 0.5 }.into();
    let (predicate, missing, left, right) = match feature % 4 {
        0 => (Predicate::Less { threshold }, Side::Left, goes, stays),
        1 => (Predicate::Less { threshold }, Side::Right, goes, stays),
        2 => (Predicate::InSet { set, inside: Side::Right }, Side::Left, goes, stays),
        _ => (Predicate::Equal { value: 1f32.into() }, Side::Right, stays, goes),
    };
    tree.split(feature, predicate, missing, left, right);
}

/// A value that stays on the long path of [`long_forest`] at the first split on a feature, or goes.
pub fn value(draws: &mut Seeded, feature: usize, stays: bool) -> f32 {
    let any = |draws: &mut Seeded, values: &[f32]| values[draws.below(values.len())];
    match (feature % 4, stays) {
        // 0.6 goes at the second split.
        (0, true) => any(draws, &[0.9, 0.9, 0.9, 0.6]),
        (0, false) => any(draws, &[0.1, f32::NAN]),
        (1, true) => any(draws, &[0.9, f32::NAN]),
        (1, false) => 0.1,
        (2, true) => any(draws, &[0.0, 2.0, 5.0, 40.0]),
        (2, false) => any(draws, &[1.0, 41.0, f32::NAN]),
        (_, true) => 1.0,
        (_, false) => any(draws, &[0.0, f32::NAN]),
    }
}

/// A forest of three trees. Each has a path that asks all `features` features, some of them twice, and leaves and
/// splits beside it.
pub fn long_forest(draws: &mut Seeded, features: u32, vector: bool, compare: CompareType) -> Forest {
    let outputs = 2;
    let mut builder = Forest::builder(features as usize, outputs).compare(compare).base_score([0.5, -2.0]);
    let set = builder.set([0, 2, 5, 40], CategoryRule::NotNegative);
    for t in 0..3 {
        let mut tree = if vector { builder.vector_tree() } else { builder.tree(t % outputs) };
        let mut leaves = 0;
        let mut leaf = |tree: &mut TreeBuilder<'_>, draws: &mut Seeded| {
            let values = [(); 2].map(|()| draws.below(1001) as f64 / 500.0 - 1.0);
            tree.leaf(leaves, if vector { &values[..] } else { &values[..1] });
            leaves += 1;
        };
        let mut questions = Vec::new();
        for at in 0..features {
            let feature = if t == 1 { features - 1 - at } else { at };
            questions.push((feature, false));
            if at % 5 == 4 {
                // The thresholds of these features differ, so a row may pass one and not the other.
                let (again, _) = questions[draws.below(questions.len())];
                questions.push((again, true));
            }
        }
        let mut n = 0;
        for (feature, again) in questions {
            let beside = if draws.below(3) == 0 { 3 } else { 1 };
            ask(&mut tree, set, feature, again, n + 1 + beside, n + 1);
            if beside == 3 {
                ask(&mut tree, set, draws.below(features as usize) as u32, true, n + 2, n + 3);
                leaf(&mut tree, draws);
            }
            leaf(&mut tree, draws);
            n += 1 + beside;
        }
        leaf(&mut tree, draws);
    }
    builder.build().expect("a forest")
}

/// Rows and background rows for [`long_forest`]. Most follow the long path with nearly all features, so that pairs come
/// to leaves at its end. The last row and the last background row have half of the features each.
pub fn long_rows(draws: &mut Seeded, features: usize) -> (Vec<f32>, Vec<f32>) {
    let mut some = |of_hundred: usize| -> Vec<f32> {
        let drawn = |feature| {
            let stays = draws.below(100) >= of_hundred;
            value(draws, feature, stays)
        };
        (0..features).map(drawn).collect()
    };
    let mut rows = [some(0), some(2), some(5), some(50)].concat();
    let mut background = [some(0), some(1), some(3), some(10)].concat();
    for feature in 0..features {
        let stays = draws.below(2) == 0;
        rows.push(value(draws, feature, stays));
        background.push(value(draws, feature, !stays));
    }
    (rows, background)
}

#[test]
fn contributions_against_a_background_leaf_by_leaf_are_the_definition() {
    let mut draws = Seeded(37);
    let compare = |forest: &Forest, row: &[f64], background: &[&[f64]]| {
        let exact = reference::interventional_by_subsets(forest, row, background);
        let found = reference::interventional(forest, row, background);
        assert_eq!(found.len(), exact.len());
        for (found, exact) in found.iter().zip(&exact) {
            assert!((found - exact).abs() < 1e-10, "{found} for {exact}");
        }
    };
    for case in 0..40 {
        let forest = forest(&mut draws, 6, [9, 40][case % 2], case % 3 == 0, case % 5 == 0);
        let background = rows::<f64>(&mut draws, 3, 6);
        let background: Vec<&[f64]> = background.chunks_exact(6).collect();
        rows::<f64>(&mut draws, 3, 6).chunks_exact(6).for_each(|row| compare(&forest, row, &background));
    }
    // On long paths, all subsets of the features that differ.
    for features in [65, 100, 300] {
        let forest = long_forest(&mut draws, features, features == 100, CompareType::F32);
        let features = features as usize;
        let row: Vec<f64> = (0..features).map(|f| value(&mut draws, f, true).into()).collect();
        for _ in 0..5 {
            let mut other = row.clone();
            for _ in 0..9 {
                let feature = draws.below(features);
                other[feature] = value(&mut draws, feature, false).into();
            }
            compare(&forest, &row, &[&other, &row]);
            compare(&forest, &other, &[&row]);
        }
    }
}

#[test]
fn contributions_against_a_background_have_any_number_of_features_on_a_path() {
    let mut draws = Seeded(41);
    for (case, features) in [64, 65, 66, 100, 128, 129, 300, 65, 100, 300].into_iter().enumerate() {
        let compare = if case % 2 == 0 { CompareType::F32 } else { CompareType::F64 };
        let forest = long_forest(&mut draws, features, case % 3 == 0, compare);
        let features = features as usize;
        let (rows, background) = long_rows(&mut draws, features);
        let of_background: Vec<&[f32]> = background.chunks_exact(features).collect();
        let exact = |row| reference::interventional(&forest, row, &of_background);
        let expected: Vec<f64> = rows.chunks_exact(features).flat_map(exact).collect();
        let what = format!("case {case}, {features} features");
        assert_close(&what, &against(&forest, &background, &rows, 5), &expected);
        let doubles = |values: &[f32]| -> Vec<f64> { values.iter().copied().map(f64::from).collect() };
        assert_close(&what, &against(&forest, &doubles(&background), &doubles(&rows), 5), &expected);
        for (row, expected) in rows.chunks_exact(features).zip(expected.chunks_exact(2 * (features + 1))) {
            let margins = interpreter::margins(&forest, row);
            for (of_output, margin) in expected.chunks_exact(features + 1).zip(margins) {
                assert!((of_output.iter().sum::<f64>() - margin).abs() < 1e-9, "{what}");
            }
        }
    }
}

/// Random trees of many features: some have long paths and others do not.
#[test]
fn contributions_against_a_background_mix_long_and_short_trees() {
    let mut draws = Seeded(43);
    for case in 0..6 {
        let features = [80, 200][case % 2];
        let forest = forest(&mut draws, features, 400, case % 3 == 0, true);
        let (other, own) = (rows::<f64>(&mut draws, 3, features), rows::<f64>(&mut draws, 4, features));
        let background: Vec<&[f64]> = other.chunks_exact(features).collect();
        let exact = |row| reference::interventional(&forest, row, &background);
        let expected: Vec<f64> = own.chunks_exact(features).flat_map(exact).collect();
        assert_close(&format!("case {case}"), &against(&forest, &other, &own, 4), &expected);
    }
    // More rows than a block has, so that rows are at every index of one.
    let forest = long_forest(&mut draws, 70, true, CompareType::F32);
    let (own, background) = long_rows(&mut draws, 70);
    let explainer = Interventional::new(&forest, &Rows::new(&background, 70).expect("rows"));
    assert_eq!(explainer.expect("an explainer").algorithm(), "walks of each row with each background row");
    let own = own.repeat(9);
    alike(&own, 70, |rows, count| against(&forest, &background, rows, count));
}

/// A leaf at the end of a path of hundreds of features, with the number of orders as its value: the row's features get
/// one share each, and the background row's lose one each.
#[test]
fn weights_of_hundreds_of_features_are_right() {
    for (features, of_row) in [(65, 1), (65, 32), (300, 150), (300, 299), (1000, 0), (1000, 500), (1000, 900)]
    {
        // The sum of two numbers of the line before, in Pascal's triangle.
        let mut line = vec![1f64];
        for _ in 0..features {
            let inner = line.windows(2).map(|two| two[0] + two[1]);
            line = [1.0].into_iter().chain(inner).chain([1.0]).collect();
        }
        let mut forest = chain(features as u32);
        let last = forest.leaf_values.len() - 1;
        forest.leaf_values.iter_mut().for_each(|value| value.0 = 0.0);
        forest.leaf_values[last].0 = line[of_row];
        for turned in [false, true] {
            let is_of_row = |feature: usize| match turned {
                // The first ones, or spread over the path.
                false => feature < of_row,
                true => (feature + 1) * of_row / features > feature * of_row / features,
            };
            let values = |of_row: bool| -> Vec<f32> {
                (0..features).map(|feature| if is_of_row(feature) == of_row { 0.9 } else { 0.1 }).collect()
            };
            let found = against(&forest, &values(false), &values(true), 1);
            for (feature, found) in found[..features].iter().enumerate() {
                let expected = match is_of_row(feature) {
                    true => 1.0 / of_row as f64,
                    false => -1.0 / (features - of_row) as f64,
                };
                let off = (f64::from(*found) - expected).abs();
                assert!(off <= 1e-6 * expected.abs(), "{of_row} of {features}: {found} for {expected}");
            }
        }
    }
}

/// A path of very many features takes no stack of its own.
#[test]
fn contributions_against_a_background_add_up_on_a_very_long_path() {
    let (forest, features) = (chain(20_000), 20_000);
    let other: Vec<f32> = (0..features).map(|feature| if feature % 100 == 3 { 0.1 } else { 0.9 }).collect();
    let row = vec![0.9f32; features];
    let found = against(&forest, &other, &row, 1);
    let sum: f64 = found.iter().map(|v| f64::from(*v)).sum();
    let margin = interpreter::margins(&forest, &row)[0];
    assert!((sum - margin).abs() < 1e-4, "{sum} for {margin}");
}

#[test]
fn what_has_no_contributions_against_a_background_is_refused() {
    let refused = |forest: &Forest, background: &[f32]| {
        let columns = forest.features.len();
        let background = Rows::new(background, columns).expect("rows");
        Interventional::new(forest, &background).map(drop).expect_err("refused").to_string()
    };
    let empty = refused(&chain(3), &[]);
    assert!(empty.contains("background has 0 rows"), "{empty}");
    let wide = Rows::new(&[0f32; 8], 4).expect("rows");
    assert!(Interventional::new(&chain(3), &wide).is_err());
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
