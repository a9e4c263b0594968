//! Contributions and interactions, by covers and against a background.

use fangorn::{
    Forest,
    contributions::{self, Interventional, reference},
    cpu::Rows,
    cube::Explainer,
    plan::RowType,
};

use crate::{
    generate::{
        Seeded,
        explained::{assert_close, assert_close_interactions, forest, rows},
    },
    gpu::{Gpu, PLACEMENTS, ROW_TYPES},
};

/// A forest with rows.
struct Drawn {
    what: String,
    case: usize,
    forest: Forest,
    columns: usize,
    count: usize,
    rows: Vec<f32>,
}

impl Drawn {
    /// Draws a forest of at most `splits` splits a tree on `columns` columns, and `count` rows.
    fn new(draws: &mut Seeded, case: usize, (columns, splits, count): (usize, usize, usize)) -> Self {
        let (vector, deep) = (case.is_multiple_of(3), case.is_multiple_of(5) || case % 8 == 2);
        let forest = forest(draws, columns, splits, vector, deep);
        let rows = rows::<f32>(draws, count, columns);
        Self { what: format!("case {case}"), case, forest, columns, count, rows }
    }

    /// Draws background rows.
    fn background(&self, draws: &mut Seeded, count: usize) -> (Vec<f32>, Interventional) {
        let typical = rows::<f32>(draws, count, self.columns);
        let explainer = Interventional::new(&self.forest, &Rows::new(&typical, self.columns).expect("rows"));
        (typical, explainer.expect("an explainer"))
    }

    /// Explains the rows on the GPU. Their type holds them without rounding.
    async fn explained(&self, gpu: &Gpu, explainer: &Explainer) -> Vec<f32> {
        let (of, placement) = (ROW_TYPES[self.case % 3], PLACEMENTS[self.case / 3 % 3]);
        gpu.explain(explainer, &gpu.rows(&self.rows, self.columns, of, placement), of).await
    }

    /// Returns the first rows, as doubles.
    fn doubles(&self, most: usize) -> impl Iterator<Item = Vec<f64>> {
        self.rows.chunks_exact(self.columns).take(most).map(doubles)
    }
}

fn doubles(row: &[f32]) -> Vec<f64> {
    row.iter().copied().map(f64::from).collect()
}

pub async fn contributions(gpu: &Gpu) -> String {
    let (mut draws, mut rows) = (Seeded(29), 0);
    for case in 0..24 {
        // Chains of many features need several passes.
        let drawn =
            Drawn::new(&mut draws, case, [(5, 9, 3), (3, 40, 64), (40, 150, 2), (60, 20, 131)][case % 4]);
        let explainer = Explainer::new(&gpu.client, &drawn.forest).expect("instructions");
        let found = drawn.explained(gpu, &explainer).await;
        for (row, found) in drawn.doubles(usize::MAX).zip(found.chunks_exact(explainer.width())) {
            assert_close(&drawn.what, found, &reference::tree_shap(&drawn.forest, &row));
        }
        rows += drawn.count;
    }
    format!("24 forests, {rows} rows")
}

pub async fn interactions(gpu: &Gpu) -> String {
    let (mut draws, mut rows) = (Seeded(37), 0);
    for case in 0..16 {
        let drawn =
            Drawn::new(&mut draws, case, [(5, 9, 3), (3, 30, 64), (30, 60, 2), (12, 15, 131)][case % 4]);
        let explainer = Explainer::of_interactions(&gpu.client, &drawn.forest).expect("instructions");
        let found = drawn.explained(gpu, &explainer).await;
        for (row, found) in drawn.doubles(16).zip(found.chunks_exact(explainer.width())) {
            let exact = reference::interactions(&drawn.forest, &row);
            assert_close_interactions(&drawn.what, drawn.columns + 1, found, &exact);
        }
        rows += drawn.count.min(16);
    }
    format!("16 forests, {rows} rows")
}

pub async fn contributions_against_a_background(gpu: &Gpu) -> String {
    let (mut draws, mut rows) = (Seeded(41), 0);
    for case in 0..24 {
        // Trees of few splits have pattern tables, deeper ones do not; some forests have both.
        let mut drawn =
            Drawn::new(&mut draws, case, [(5, 7, 3), (3, 40, 64), (40, 150, 2), (12, 14, 131)][case % 4]);
        drawn.forest.covers = None;
        let (typical, background) = drawn.background(&mut draws, [1, 7, 32, 33, 70][case % 5]);
        let explainer = Explainer::against(&gpu.client, &background).expect("instructions");
        let found = drawn.explained(gpu, &explainer).await;
        let typical = doubles(&typical);
        let typical: Vec<&[f64]> = typical.chunks_exact(drawn.columns).collect();
        for (row, found) in drawn.doubles(16).zip(found.chunks_exact(explainer.width())) {
            assert_close(&drawn.what, found, &reference::interventional(&drawn.forest, &row, &typical));
        }
        rows += drawn.count.min(16);
    }
    format!("24 forests, {rows} rows")
}

pub async fn interactions_against_a_background(gpu: &Gpu) -> String {
    let (mut draws, mut rows) = (Seeded(61), 0);
    for case in 0..16 {
        let mut drawn =
            Drawn::new(&mut draws, case, [(5, 7, 3), (3, 40, 64), (7, 20, 2), (6, 14, 131)][case % 4]);
        drawn.forest.covers = None;
        let (typical, background) = drawn.background(&mut draws, [1, 7, 33, 70][case % 4]);
        let explainer = Explainer::of_interactions_against(&gpu.client, &background).expect("instructions");
        let found = drawn.explained(gpu, &explainer).await;
        let typical = doubles(&typical);
        let typical: Vec<&[f64]> = typical.chunks_exact(drawn.columns).collect();
        for (row, found) in drawn.doubles(4).zip(found.chunks_exact(explainer.width())) {
            let exact = reference::interventional_interactions_by_subsets(&drawn.forest, &row, &typical);
            assert_close_interactions(&drawn.what, drawn.columns + 1, found, &exact);
        }
        rows += drawn.count.min(4);
    }
    format!("16 forests, {rows} rows")
}

/// The four explainers of a forest, each with whether it is of interactions.
fn explainers(gpu: &Gpu, drawn: &Drawn, background: &Interventional) -> [(bool, Explainer); 4] {
    let (client, forest) = (&gpu.client, &drawn.forest);
    let made = [
        (false, Explainer::new(client, forest)),
        (true, Explainer::of_interactions(client, forest)),
        (false, Explainer::against(client, background)),
        (true, Explainer::of_interactions_against(client, background)),
    ];
    made.map(|(pairs, explainer)| (pairs, explainer.expect("instructions")))
}

/// With so many rows a unit adds up several trees, and several blocks of background rows.
pub async fn explanations_of_many_rows(gpu: &Gpu) -> String {
    let mut draws = Seeded(47);
    let (drawn, background) = loop {
        let drawn = Drawn::new(&mut draws, 10, (6, 24, 6000));
        let (_, background) = drawn.background(&mut draws, 40);
        // Some trees have pattern tables, and some have not.
        let all = drawn.forest.trees.len();
        if all >= 12 && background.algorithm().contains(&format!("of {all} trees")) {
            break (drawn, background);
        }
    };
    let some = |all: &[f32], width: usize| -> Vec<f32> {
        (0..drawn.count).step_by(297).flat_map(|row| all[row * width..][..width].to_vec()).collect()
    };
    let few = some(&drawn.rows, drawn.columns);
    let few = Rows::new(&few, drawn.columns).expect("rows");
    let by_paths = contributions::Explainer::new(&drawn.forest).expect("an explainer");
    let expected = [
        by_paths.contributions(&few),
        by_paths.interactions(&few),
        background.contributions(&few),
        background.interactions(&few),
    ];
    for ((pairs, explainer), expected) in explainers(gpu, &drawn, &background).iter().zip(expected) {
        let found = some(&drawn.explained(gpu, explainer).await, explainer.width());
        let expected = doubles(&expected.expect("rows"));
        let width = explainer.width();
        for (found, expected) in found.chunks_exact(width).zip(expected.chunks_exact(width)) {
            match pairs {
                true => assert_close_interactions("many rows", drawn.columns + 1, found, expected),
                false => assert_close("many rows", found, expected),
            }
        }
    }
    format!("4 explainers, {} rows", drawn.count)
}

/// Launches of fewer rows give the same numbers.
pub async fn explanations_in_pieces(gpu: &Gpu) -> String {
    let mut draws = Seeded(43);
    let drawn = Drawn::new(&mut draws, 1, (6, 30, 401));
    let (_, background) = drawn.background(&mut draws, 9);
    for (pairs, whole) in explainers(gpu, &drawn, &background) {
        let pieces = whole.clone().with_most_rows(130);
        let rows = gpu.rows(&drawn.rows, drawn.columns, RowType::F32, PLACEMENTS[0]);
        let whole = gpu.explain(&whole, &rows, RowType::F32).await;
        let pieces = gpu.explain(&pieces, &rows, RowType::F32).await;
        let bits = |all: &[f32]| all.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert!(bits(&whole) == bits(&pieces), "in pieces, interactions: {pairs}");
    }
    format!("4 explainers, {} rows", drawn.count)
}
