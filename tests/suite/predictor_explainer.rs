//! A predictor's contributions and interactions are those of the explainer that it was built with.

use std::sync::Arc;

use fangorn::{
    Forest, Predictor,
    contributions::{Explainer, Interventional, RowExplainer},
    cpu::Rows,
};

use crate::generate::{
    Seeded,
    explained::{forest, rows},
};

#[test]
fn a_predictor_gives_what_its_explainer_gives() {
    let mut draws = Seeded(53);
    for (case, threads) in [1, 2, 3].into_iter().enumerate() {
        let forest = forest(&mut draws, 5, 30, case == 1, false);
        let data = rows::<f32>(&mut draws, 700, 5);
        let rows = Rows::new(&data, 5).expect("rows");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        let explainer = Arc::new(Explainer::new(&forest).expect("an explainer"));
        let against = Interventional::new(&forest, &rows.slice(0, 9)).expect("an explainer");
        let builder = Predictor::builder(&forest).pool(Arc::new(pool));
        let bare = builder.clone().build().expect("a predictor");
        let refused = bare.contributions(&rows).expect_err("no explainer");
        assert!(refused.to_string().contains("PredictorBuilder::explainer"), "{refused}");
        let by_paths =
            builder.clone().explainer(RowExplainer::Paths(explainer.clone())).build().expect("a predictor");
        let expected = explainer.contributions(&rows).expect("contributions");
        assert_eq!(by_paths.contributions(&rows).expect("contributions"), expected);
        let mut out = vec![0.0; expected.len()];
        by_paths.contributions_into(&rows, &mut out).expect("contributions");
        assert_eq!(out, expected);
        assert!(by_paths.contributions_into(&rows, &mut out[1..]).is_err());
        let expected = explainer.interactions(&rows).expect("interactions");
        assert_eq!(by_paths.interactions(&rows).expect("interactions"), expected);
        let mut out = vec![0.0; expected.len()];
        by_paths.interactions_into(&rows, &mut out).expect("interactions");
        assert_eq!(out, expected);
        let expected = against.contributions(&rows).expect("contributions");
        let pairs = against.interactions(&rows).expect("interactions");
        let by_background = builder.clone().explainer(against).build().expect("a predictor");
        assert_eq!(by_background.contributions(&rows).expect("contributions"), expected);
        assert_eq!(by_background.interactions(&rows).expect("interactions"), pairs);
        // An explainer of another forest: two outputs of three features have as many contributions as one of seven.
        let mut builders = [(2, 3), (1, 7)].map(|(outputs, features)| {
            let mut builder = Forest::builder(features, outputs);
            builder.tree(0).leaf(0, &[1.0]);
            builder.build().expect("a forest")
        });
        let [two, one] = &mut builders;
        let explainer = Explainer::new(two).expect("an explainer");
        let refused = Predictor::builder(one).explainer(explainer).build().expect_err("another forest");
        assert!(refused.to_string().contains("2 outputs and 3 features"), "{refused}");
    }
}
