//! Classes that are as good as equal: what each producer says of them, which its own type and order of sums decide. The
//! answers are those of XGBoost 3.2, LightGBM 4.7, CatBoost 1.2.10 and scikit-learn 1.9 of models with these leaves.

use fangorn::{
    Forest, Predictor,
    forest::{ClassRule, Classes, Transform, reference},
};

/// A library's objective.
#[derive(Clone, Copy)]
struct Objective(&'static str, Transform, ClassRule);

const HALF: ClassRule = ClassRule::Over { threshold: fangorn::forest::Real(0.5) };

const SOFTMAX: Objective = Objective("xgboost", Transform::Argmax, ClassRule::Largest);
const SOFTPROB: Objective = Objective("xgboost", Transform::Softmax, ClassRule::Largest);
const LOGISTIC: Objective = Objective("xgboost", Transform::Sigmoid, HALF);
const HINGE: Objective = Objective("xgboost", Transform::Step, HALF);
const LIGHTGBM_MULTICLASS: Objective = Objective("lightgbm", Transform::Softmax, ClassRule::Largest);
const LIGHTGBM_OVA: Objective = Objective("lightgbm", Transform::Sigmoid, ClassRule::Largest);
const LIGHTGBM_BINARY: Objective = Objective("lightgbm", Transform::Sigmoid, HALF);
const CATBOOST_MULTICLASS: Objective = Objective("catboost", Transform::Softmax, ClassRule::Largest);
const CATBOOST_OVA: Objective = Objective("catboost", Transform::Sigmoid, ClassRule::Largest);
const BOOSTED_CLASSES: Objective = Objective("scikit-learn", Transform::Softmax, ClassRule::Largest);
const HISTOGRAM_BINARY: Objective = Objective("scikit-learn", Transform::SigmoidPair, HALF);

fn logloss(threshold: f64) -> Objective {
    Objective("catboost", Transform::SigmoidPair, ClassRule::Over { threshold: threshold.into() })
}

fn gradient_boosting() -> Objective {
    let threshold = 0.5f64.next_down().into();
    Objective("scikit-learn", Transform::SigmoidPair, ClassRule::Over { threshold })
}

/// The class of every row of a forest of trees that are a leaf each: the output that it adds to, and its value.
fn class_from(Objective(library, transform, rule): Objective, base: &[f64], leaves: &[(u32, f64)]) -> u32 {
    let mut forest = Forest::builder(1, base.len() as u32)
        .producer(library, "", "")
        .base_score(base.iter().copied())
        .transform(transform)
        .classes(Classes { rule, ..Classes::default() });
    for (output, value) in leaves {
        forest.tree(*output).leaf(0, &[*value]);
    }
    let forest = forest.build().expect("a forest");
    let classes = reference::classes_of_slots(&forest, &reference::leaf_slots(&forest, &[0.0f32]));
    assert_eq!(classes.len(), 1);
    classes[0]
}

/// The same of three classes whose sums start at 0, for leaves of the classes in turn.
fn largest(objective: Objective, leaves: &[f64]) -> u32 {
    let leaves: Vec<(u32, f64)> = leaves.iter().enumerate().map(|(t, v)| (t as u32 % 3, *v)).collect();
    class_from(objective, &[0.0; 3], &leaves)
}

/// The same of a single output.
fn binary(objective: Objective, base: f64, leaves: &[f64]) -> u32 {
    let leaves: Vec<(u32, f64)> = leaves.iter().map(|v| (0, *v)).collect();
    class_from(objective, &[base], &leaves)
}

#[test]
fn xgboost_adds_up_in_f32_from_the_base_score() {
    for objective in [SOFTMAX, SOFTPROB] {
        let of = |leaves: &[f64]| largest(objective, leaves);
        assert_eq!(of(&[0.5, 0.5, 0.5]), 0);
        assert_eq!(of(&[0.1, 0.5, 0.5]), 1);
        // The 1 is lost beside 10^8, whichever of the two comes first.
        assert_eq!(of(&[1e8, 0.5, 0.0, 1.0, 0.0, 0.0, -1e8, 0.0, 0.0]), 1);
        assert_eq!(of(&[1.0, 0.5, 0.0, 1e8, 0.0, 0.0, -1e8, 0.0, 0.0]), 1);
        assert_eq!(of(&[1e8, 0.5, 0.0, -1e8, 0.0, 0.0, 1.0, 0.0, 0.0]), 0);
        assert_eq!(of(&[1e16, 0.5, 0.0, 1.0, 0.0, 0.0, -1e16, 0.0, 0.0]), 1);
        // Ties in f32 alone, and in f64 alone.
        assert_eq!(of(&[1.0, 1.0, 0.0, 0.0, 2e-8, 0.0]), 0);
        assert_eq!(of(&[16777216.0, 16777218.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0]), 1);
        let from = [(0, 1.0), (1, 0.5), (2, 0.0), (0, -1e8), (1, 0.0), (2, 0.0)];
        assert_eq!(class_from(objective, &[1e8, 0.0, 0.0], &from), 1);
        assert_eq!(of(&[-30.0, 20.0, 20.000002]), 2);
    }
    // Margins are apart, probabilities are not.
    assert_eq!([SOFTMAX, SOFTPROB].map(|of| largest(of, &[0.0, 1e-8, -5.0])), [1, 0]);
    assert_eq!([SOFTMAX, SOFTPROB].map(|of| class_from(of, &[0.0; 2], &[(0, 0.0), (1, 1e-8)])), [1, 0]);
}

#[test]
fn xgboosts_binary_classes_are_those_of_its_f32_values() {
    let logistic = |leaves: &[f64]| binary(LOGISTIC, 0.0, leaves);
    for margin in [0.0, -0.0, 1e-10, 1e-8, 5e-8, 7e-8, -1e-8] {
        assert_eq!(logistic(&[margin]), 0, "{margin}");
    }
    for margin in [1e-7, 1.1920929e-7, 2e-7, 5e-7] {
        assert_eq!(logistic(&[margin]), 1, "{margin}");
    }
    assert_eq!(logistic(&[1e8, 1.0, -1e8]), 0);
    assert_eq!(logistic(&[-1e8, -1.0, 1e8, 1e-6]), 1);
    let hinge = |leaves: &[f64]| binary(HINGE, 0.0, leaves);
    assert_eq!([0.0, -1e-30, 1e-30, 0.4].map(|margin| hinge(&[margin])), [0, 0, 1, 1]);
    assert_eq!(hinge(&[1e8, 1.0, -1e8]), 0);
}

#[test]
fn lightgbms_classes_are_those_of_its_f64_values() {
    for objective in [LIGHTGBM_MULTICLASS, LIGHTGBM_OVA] {
        assert_eq!(largest(objective, &[1e8, 0.5, 0.0, 1.0, 0.0, 0.0, -1e8, 0.0, 0.0]), 0);
        assert_eq!(largest(objective, &[1e16, 0.5, 0.0, 1.0, 0.0, 0.0, -1e16, 0.0, 0.0]), 1);
        assert_eq!(largest(objective, &[1.0, 1.00000000001, 0.0]), 1);
        assert_eq!(largest(objective, &[0.0, 1e-17, -5.0]), 0);
        assert_eq!(largest(objective, &[0.0, 3e-16, -5.0]), 1);
        assert_eq!(largest(objective, &[-60.0, -50.0, -40.0]), 2);
    }
    // Of sigmoids that are all 1, or all 0, the first counts.
    for (leaves, ova) in [([38.0, 40.0, 50.0], 0), ([-900.0, -800.0, -750.0], 0)] {
        assert_eq!([LIGHTGBM_MULTICLASS, LIGHTGBM_OVA].map(|of| largest(of, &leaves)), [2, ova]);
    }
    assert_eq!([LIGHTGBM_MULTICLASS, LIGHTGBM_OVA].map(|of| largest(of, &[0.0, 1e-16, -5.0])), [1, 0]);
    let margins = [0.0, 1e-300, 1e-16, -1e-17, 2.2e-16, 1e-8];
    assert_eq!(margins.map(|margin| binary(LIGHTGBM_BINARY, 0.0, &[margin])), [0, 0, 0, 0, 1, 1]);
}

#[test]
fn catboosts_classes_are_those_of_its_raw_scores() {
    let half = |base: f64, leaves: &[f64]| binary(logloss(0.5), base, leaves);
    assert_eq!([0.0, -0.0, -1e-20, 1e-300, 1e-17].map(|raw| half(0.0, &[raw])), [0, 0, 0, 1, 1]);
    // The bias comes last.
    assert_eq!(half(1e16, &[-1e16, 1.0]), 0);
    assert_eq!(half(0.0, &[1e16, -1e16, 1.0]), 1);
    let raws = [-0.8472979, -0.8472978603872034, -0.8472978];
    assert_eq!(raws.map(|raw| binary(logloss(0.3), 0.0, &[raw])), [0, 1, 1]);
    let raws = [0.8472978, 0.8472978603872034, 0.847297860387204];
    assert_eq!(raws.map(|raw| binary(logloss(0.7), 0.0, &[raw])), [0, 0, 1]);
    assert_eq!([0.0, 1.0].map(|p| binary(logloss(p), 0.0, &[0.1])), [1, 0]);
    for objective in [CATBOOST_MULTICLASS, CATBOOST_OVA] {
        assert_eq!(largest(objective, &[0.5, 0.5, 0.5]), 0);
        assert_eq!(largest(objective, &[0.0, 1e-300, -5.0]), 1);
        assert_eq!(largest(objective, &[38.0, 40.0, 50.0]), 2);
        assert_eq!(largest(objective, &[-900.0, -800.0, -750.0]), 2);
    }
}

#[test]
fn scikit_learns_boosting_decides_by_raw_scores() {
    let raws = [0.0, -0.0, 1e-300, -1e-300, -1e-17, -1e-8];
    assert_eq!(raws.map(|raw| binary(gradient_boosting(), 0.0, &[raw])), [1, 1, 1, 0, 0, 0]);
    assert_eq!(raws.map(|raw| binary(HISTOGRAM_BINARY, 0.0, &[raw])), [0, 0, 1, 0, 0, 0]);
    // The base comes first.
    assert_eq!(binary(HISTOGRAM_BINARY, 1e16, &[-1e16, 1.0]), 1);
    assert_eq!(binary(gradient_boosting(), 1e16, &[-1e16, -1.0]), 0);
    assert_eq!(largest(BOOSTED_CLASSES, &[0.0, 1e-17, -5.0]), 1);
    assert_eq!(largest(BOOSTED_CLASSES, &[-900.0, -800.0, -1.0]), 2);
}

/// XGBoost's softmax of a margin of infinity is NaN for every class.
#[test]
fn a_margin_of_infinity_leaves_no_probability() {
    let base = [1e16, f64::INFINITY, 3e38];
    let Objective(library, transform, _) = SOFTPROB;
    let mut forest = Forest::builder(1, 3).producer(library, "", "").base_score(base).transform(transform);
    forest.tree(0).leaf(0, &[1.0]);
    let forest = forest.build().expect("a forest");
    assert!(reference::values(&forest, &[0.0f32]).iter().all(|v| v.is_nan()));
    let values = Predictor::new(&forest).expect("a predictor").predict(&[0.0f32], 1).expect("values");
    assert!(values.len() == 3 && values.iter().all(|v| v.is_nan()), "{values:?}");
}
