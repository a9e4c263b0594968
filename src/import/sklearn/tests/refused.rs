//! Valid estimators that are not supported. Each is refused by name, with what to do instead.

use serde_json::{Value, json};

use super::super::npz::{Array, Model, class};
use crate::import::{ErrorKind, LoadOptions, parse};

#[track_caller]
fn refused(model: &Model, location: &str, cause: &str, remedy: &str) {
    let error =
        parse(&model.bytes(), &LoadOptions::default()).expect_err("an estimator that is not supported");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(error.location().to_string(), format!("fangorn.{location}"), "{error}");
    assert_eq!(error.cause(), cause);
    assert!(error.remedy().contains(remedy), "{error}");
}

#[test]
fn estimators_that_are_not_known() {
    for (module, name) in [
        ("sklearn.ensemble._weight_boosting", "AdaBoostClassifier"),
        ("sklearn.ensemble._voting", "VotingRegressor"),
        ("sklearn.multioutput", "MultiOutputRegressor"),
        ("imblearn.ensemble._forest", "BalancedRandomForestClassifier"),
        // A class of the same name in another module may do anything.
        ("mine", "RandomForestRegressor"),
        ("sklearnex.ensemble", "RandomForestRegressor"),
    ] {
        // The file is refused by the estimator's name, whatever else it holds or lacks.
        let model = Model::means()
            .head(json!({"estimator": class(module, name), "trees": null, "n_features_in_": "?"}));
        refused(
            &model,
            "estimator",
            &format!("{name} of {module} is not supported"),
            "HistGradientBoostingRegressor",
        );
        refused(
            &model,
            "estimator",
            &format!("{name} of {module} is not supported"),
            "of a search its best_estimator_",
        );
    }
    let text = Model::means().head(json!({"estimator": "RandomForestRegressor"}));
    refused(&text, "estimator", "RandomForestRegressor is not supported", "DecisionTreeClassifier");
}

#[test]
fn releases_that_are_not_known() {
    for version in ["1.10.0", "1.10.dev0", "2.0rc1", "1.10", "30.1"] {
        let model = Model::means().head(json!({"version": version}));
        let cause = format!("scikit-learn {version} is newer than 1.9, the newest that is known");
        refused(&model, "version", &cause, "take a newer fangorn");
    }
    let model = Model::means().head(json!({"version": "0.24.2"}));
    refused(
        &model,
        "version",
        "scikit-learn 0.24.2 is older than 1.0, the oldest that is known",
        "newer one",
    );
    for version in ["1.0", "1.9.dev0", "1.9rc1", "1.9.99.post1"] {
        let model = Model::means().head(json!({"version": version}));
        parse(&model.bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn classifiers_of_several_outputs() {
    let cause = "BaggingClassifier of several outputs is not supported";
    let model = Model::bag().head(json!({"classes_": [[0, 1], [0, 1, 2]]}));
    refused(&model, "classes_", cause, "train a classifier for each of them");
    let model = Model::bag().head(json!({"classes_": [0, 1, 1e300]}));
    refused(&model, "classes_", "label 1e300 is not supported", "smaller numbers");
}

#[test]
fn bags_of_anything_but_trees_of_their_sort() {
    let bag = |module: &str, name: &str| {
        let mut bag = Model::bag();
        bag.head["trees"][1][0] = json!(class(module, name));
        bag
    };
    for (module, name) in [
        ("sklearn.tree._classes", "DecisionTreeRegressor"),
        ("sklearn.ensemble._forest", "RandomForestClassifier"),
        ("mine", "DecisionTreeClassifier"),
    ] {
        let cause = format!("BaggingClassifier of {name} is not supported: only of trees");
        refused(&bag(module, name), "trees", &cause, "DecisionTreeClassifier or ExtraTreeClassifier");
    }
    let mut bag = Model::means();
    bag.head["trees"][0][0] = json!(class("sklearn.tree._classes", "DecisionTreeClassifier"));
    let cause = "RandomForestRegressor of DecisionTreeClassifier is not supported: only of trees";
    refused(&bag, "trees", cause, "DecisionTreeRegressor or ExtraTreeRegressor");
}

#[test]
fn boosting_that_starts_from_rows_or_chance() {
    for init in [
        "<class 'sklearn.linear_model._base.LinearRegression'> LinearRegression()",
        "<class 'sklearn.dummy.DummyClassifier'> DummyClassifier(random_state=0, strategy='stratified')",
        "<class 'mine.DummyClassifier'> DummyClassifier()",
        "zeros",
    ] {
        let cause = format!("GradientBoostingClassifier with init {init} is not supported");
        refused(&Model::boosting().head(json!({"init_": init})), "init_", &cause, "init='zero'");
    }
    for init in ["<class 'sklearn.dummy.DummyClassifier'> DummyClassifier(strategy='uniform')", "zero"] {
        let model = Model::boosting().head(json!({"init_": init}));
        parse(&model.bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn losses_that_are_not_known() {
    for loss in ["log_loss", "tweedie", "<class 'sklearn._loss.loss.HuberLoss'> <HuberLoss object>"] {
        let cause = format!("HistGradientBoostingRegressor with loss {loss} is not supported");
        refused(
            &Model::minimal().head(json!({"loss": loss})),
            "loss",
            &cause,
            "train with one of squared_error, ",
        );
    }
}

#[test]
fn categories_that_are_no_whole_numbers() {
    let with = |category: Value| {
        let bitsets = Array::U4(vec![0; 8]);
        Model::minimal().head(json!({"categories": [[1, category, null]]})).array("left_bitsets", bitsets)
    };
    for (category, text) in [
        (json!("red"), "red"),
        (json!("1"), "1"),
        (json!(0.5), "0.5"),
        (json!(-1), "-1"),
        (json!(1 << 24), "16777216"),
        (json!(1e300), "1e300"),
        (json!([1]), "a list"),
    ] {
        let cause = format!("HistGradientBoostingRegressor: category {text} of column 2 is not supported");
        refused(&with(category), "categories[0][1]", &cause, "cat.codes");
    }
}
