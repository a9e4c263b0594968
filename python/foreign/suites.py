"""The suites: which of a checkout's tests predict, and which libraries fangorn stands beside in them."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Suite:
    """Tests of a library, whose files are named from its checkout's folder."""

    # The distributions whose versions the report names, the first of them the suite's own.
    packages: tuple
    # Libraries whose predictions are made by fangorn, too.
    redirect: tuple
    files: tuple
    # Tests that are left out, with the reason; a name is a part of the test's.
    left_out: dict = dataclasses.field(default_factory=dict)
    # Differences that are none of fangorn's, with the reason; a name is a part of the test's, or of what was found.
    explained: dict = dataclasses.field(default_factory=dict)
    # Folders of the checkout that tests open from the folder they run in.
    folders: tuple = ()
    # Whether `files` are modules of the installed package, and no checkout is needed.
    installed: bool = False


def _in(folder, names):
    return tuple(f"{folder}/{name}.py" for name in names.split())


SUITES = {
    "xgboost": Suite(
        packages=("xgboost", "xgboost-cpu"),
        redirect=("xgboost",),
        files=_in(
            "tests/python",
            "test_basic test_basic_models test_callback test_data_iterator test_dmatrix test_early_stopping "
            "test_eval_metrics test_interaction_constraints test_intercept test_linear test_model_compatibility "
            "test_model_io test_monotone_constraints test_multi_target test_openmp test_ordinal test_pickling test_predict "
            "test_quantile_dmatrix test_ranking test_shap test_survival test_training_continuation "
            "test_tree_regularization test_updaters test_with_arrow test_with_pandas test_with_polars test_with_scipy "
            "test_with_shap test_with_sklearn",
        ),
        folders=("demo",),
        explained={
            "The data type doesn't match": "fangorn reads numbers of a column of categories by the categories' names; "
            "XGBoost asks for a column of categories",
            "support for multi-target tree is not yet implemented": "fangorn explains trees of several outputs",
            "`enable_categorical` must be set": "XGBoost refuses columns of categories if its estimator's option "
            "`enable_categorical` is turned off; fangorn reads them whatever it is",
            "XGBRegressor(…)-check_methods_subset_invariance": "1.5 and the leaf values of 100 trees cancel to 0.0008; "
            "under the contract `any` of sums a row alone is added up in another order, under `tree` it is equal",
        },
    ),
    "lightgbm": Suite(
        packages=("lightgbm",),
        redirect=("lightgbm",),
        files=_in(
            "tests/python_package_test", "test_arrow test_basic test_callback test_consistency test_engine test_sklearn"
        ),
        explained={
            "without_cffi_raises": "LightGBM reads tables of Arrow by the package cffi, and fangorn needs no other package",
            "ndarray in place of memmap": "the labels of the estimator lie in a file mapped into memory, and so does what "
            "LightGBM takes from them",
            ")-check_methods_subset_invariance": "leaf values cancel to 0.00003, and fangorn adds them up in float32",
        },
    ),
    "treelite": Suite(
        packages=("treelite", "xgboost", "xgboost-cpu", "lightgbm", "scikit-learn"),
        redirect=("treelite", "xgboost", "lightgbm", "sklearn"),
        files=_in(
            "tests/python",
            "test_field_accessor test_gtil test_lightgbm_integration test_model_builder test_model_builder_legacy "
            "test_model_concat test_serializer test_sklearn_integration test_xgboost_integration",
        ),
    ),
    "sklearn": Suite(
        packages=("scikit-learn",),
        redirect=("sklearn",),
        files=(
            "sklearn.tree.tests.test_tree",
            "sklearn.ensemble.tests.test_forest",
            "sklearn.ensemble.tests.test_gradient_boosting",
            "sklearn.ensemble.tests.test_bagging",
            "sklearn.ensemble.tests.test_iforest",
            "sklearn.ensemble._hist_gradient_boosting.tests.test_gradient_boosting",
            "sklearn.ensemble._hist_gradient_boosting.tests.test_monotonic_constraints",
        ),
        installed=True,
    ),
    "shap": Suite(
        packages=("shap", "xgboost", "xgboost-cpu", "lightgbm", "scikit-learn", "catboost"),
        redirect=("shap", "xgboost", "lightgbm"),
        files=("tests/explainers/test_tree.py",),
        left_out={"test_overflow_tree_path_dependent": "its rows alone take 35 GB of memory"},
        explained={
            "test_lightgbm_categorical_split": "shap's own code takes category 0 for none of a split's categories; the "
            "sums of fangorn's interactions are the contributions of LightGBM itself",
            "test_lightgbm_interactions": "fangorn explains in float32, and the test asks for 7 digits of each sum",
            "test_xgboost_ranking": "fangorn explains in float32, and the test asks for 5 digits of sums near 0",
            "test_xgboost_classifier_independent_margin": "fangorn explains in float32, and the test asks for 5 digits "
            "of sums near 0",
        },
    ),
    "shapiq": Suite(
        packages=("shapiq", "scikit-learn", "xgboost", "xgboost-cpu", "lightgbm"),
        redirect=("shapiq",),
        files=(
            "tests/shapiq/tests_unit/tests_explainer/tests_tree_explainer",
            "tests/shapiq/tests_unit/tests_explainer/test_explainer_models.py",
            "tests/shapiq/tests_integration_tests/test_explainer_california_housing.py",
        ),
        left_out={
            "test_with_recompute": "no tree is explained",
            "test_agnostic_explainer": "no tree is explained",
            "test_tabular_explainer": "no tree is explained",
            "test_product_kernel_explainer": "no tree is explained",
            **{f"Explainers::test_tree_explainer[{order}-": "shapiq alone has orders above 2" for order in range(3, 8)},
        },
        explained={
            "test_explainer_california_housing": "a threshold lies between a number of the row and the same in "
            "float32; scikit-learn and fangorn read rows in float32, and shapiq doesn't",
            **dict.fromkeys(
                ("test_xgboost_bug", "test_xgboost_shap_error", "test_conversion_predict_identity[xgb_reg_model"),
                "a number of the row is a threshold, where XGBoost and fangorn turn right, and shapiq turns left",
            ),
            "test_decision_tree_regression": "fangorn explains in float32, and the test asks for 6 digits of -2.4, "
            "a sum of numbers up to 76",
        },
    ),
}
