"""`fangorn.compat` beside the libraries themselves: shapes, types, leaves exactly, sums within the contract."""

import copy
import importlib
import inspect
import pickle

import numpy
import pytest

import fangorn
from conftest import close
from fangorn import compat  # noqa: F401
from fangorn.compat import lightgbm as our_lightgbm
from fangorn.compat import sklearn as our_sklearn
from fangorn.compat import treelite as our_treelite
from fangorn.compat import xgboost as our_xgboost


def data(count=240, columns=7, seed=1):
    random = numpy.random.default_rng(seed)
    x = random.normal(size=(count, columns)).astype(numpy.float32)
    x[random.random(x.shape) < 0.1] = numpy.nan
    return x, numpy.nan_to_num(x[:, 0]) + numpy.nan_to_num(x[:, 1]) ** 2


def alike(found, expected, exact=False, tolerance=1e-5):
    found, expected = numpy.asarray(found), numpy.asarray(expected)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if exact:
        assert numpy.array_equal(found, expected)
    else:
        close(found, expected, tolerance)


XGBOOST = {
    "logistic": {"objective": "binary:logistic"},
    "regression": {},
    "softprob": {"objective": "multi:softprob", "num_class": 4},
    "softmax": {"objective": "multi:softmax", "num_class": 4},
    "forest": {"objective": "multi:softprob", "num_class": 4, "num_parallel_tree": 3, "subsample": 0.7},
    "dart": {"objective": "binary:logistic", "booster": "dart", "rate_drop": 0.3},
    "targets": {"multi": True},
    "vectors": {"multi": True, "multi_strategy": "multi_output_tree"},
}


@pytest.fixture(params=XGBOOST)
def boosters(request):
    xgboost = pytest.importorskip("xgboost")
    parameters = {"max_depth": 4, "seed": 0, "verbosity": 0, **XGBOOST[request.param]}
    x, y = data()
    labels = numpy.clip(numpy.round(y), 0, 3) if "num_class" in parameters else y
    labels = (y > 0.5) if parameters.get("objective") == "binary:logistic" else labels
    if parameters.pop("multi", False):
        labels = numpy.stack([y, -y, y * y], axis=1)
    booster = xgboost.train(parameters, xgboost.DMatrix(x, labels), 6)
    return xgboost, booster, our_xgboost.Booster(model_file=bytes(booster.save_raw("ubj"))), x


def test_many_ranges_of_rounds_keep_few_models(boosters):
    _, _, ours, x = boosters
    whole = ours.inplace_predict(x)
    for start in range(4):
        for end in range(start + 1, 6):
            ours.predict(our_xgboost.DMatrix(x), iteration_range=(start, end))
            assert len(ours._models) <= 8
    assert (ours.inplace_predict(x) == whole).all()


def test_booster(boosters):
    xgboost, theirs, ours, x = boosters
    their_rows, our_rows = xgboost.DMatrix(x), our_xgboost.DMatrix(x)
    vectors = ours.model.tree_outputs is None
    for options in (
        {},
        {"output_margin": True},
        {"strict_shape": True},
        {"iteration_range": (1, 4)},
        {"iteration_range": (0, 1), "output_margin": True},
        {"iteration_range": (2, 0), "strict_shape": True},
    ):
        alike(ours.predict(our_rows, **options), theirs.predict(their_rows, **options))
    for options in ({}, {"iteration_range": (0, 1)}, {"iteration_range": (0, 5)}, {"strict_shape": True}):
        if vectors and "strict_shape" in options:
            # XGBoost 3.2 itself fails here.
            continue
        found, expected = ours.predict(our_rows, pred_leaf=True, **options), theirs.predict(their_rows, pred_leaf=True, **options)
        alike(found, expected, exact=True)
    if vectors:
        return
    for options in ({}, {"iteration_range": (0, 4)}, {"strict_shape": True}):
        for kind in ("pred_contribs", "pred_interactions"):
            options[kind] = True
            alike(ours.predict(our_rows, **options), theirs.predict(their_rows, **options), tolerance=1e-4)
            del options[kind]


def test_in_place(boosters):
    xgboost, theirs, ours, x = boosters
    pandas = pytest.importorskip("pandas")
    scipy = pytest.importorskip("scipy.sparse")
    frame = pandas.DataFrame(x)
    for given in (x, x.astype(float), numpy.asfortranarray(x), frame, x[:1]):
        for options in ({}, {"predict_type": "margin"}, {"iteration_range": (1, 3)}, {"strict_shape": True}):
            alike(ours.inplace_predict(given, **options), theirs.inplace_predict(given, **options))
    whole = numpy.nan_to_num(x)
    whole[whole < 0] = 0
    sparse = scipy.csr_matrix(whole)
    alike(ours.inplace_predict(sparse), theirs.inplace_predict(sparse))
    alike(ours.inplace_predict(whole, missing=0), theirs.inplace_predict(whole, missing=0))
    alike(ours.predict(our_xgboost.DMatrix(whole, missing=0)), theirs.predict(xgboost.DMatrix(whole, missing=0)))
    groups = ours.model.n_outputs
    margin = numpy.linspace(-1, 1, len(x) * groups, dtype=numpy.float32).reshape(len(x), groups)
    if ours.model.tree_outputs is not None:
        expected = theirs.predict(xgboost.DMatrix(x, base_margin=margin))
        alike(ours.predict(our_xgboost.DMatrix(x, base_margin=margin)), expected)
        alike(ours.inplace_predict(x, base_margin=margin), expected)
        if '"name":"dart"' not in theirs.save_config():
            # In place, DART of XGBoost 3.2 adds the margin once for each tree.
            alike(expected, theirs.inplace_predict(x, base_margin=margin))
    assert ours.num_boosted_rounds() == theirs.num_boosted_rounds() == 6 and ours.num_features() == theirs.num_features()
    for other in (copy.copy(ours), copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), our_xgboost.Booster(model_file=theirs)):
        alike(other.inplace_predict(x), ours.inplace_predict(x))
    alike(ours[1:3].inplace_predict(x), theirs[1:3].inplace_predict(x))


def test_slices_of_a_booster():
    xgboost = pytest.importorskip("xgboost")
    x, y = data()
    theirs = xgboost.train({"max_depth": 3}, xgboost.DMatrix(x, y), 9)
    ours = our_xgboost.Booster(model_file=theirs)
    cut, expected = ours[2:8], theirs[2:8]
    assert cut.num_boosted_rounds() == expected.num_boosted_rounds() == 6
    alike(cut[1:3].inplace_predict(x), expected[1:3].inplace_predict(x))
    alike(cut[numpy.int32(5)].inplace_predict(x), theirs[7].inplace_predict(x))
    for rounds in (..., slice(0, 0), slice(None, 0), slice(None, None, 1), slice(..., 3), slice(3, ...), slice(5, 6)):
        alike(cut[rounds].inplace_predict(x), expected[rounds].inplace_predict(x))
        assert cut[rounds].num_boosted_rounds() == expected[rounds].num_boosted_rounds()
    assert [len(list(booster)) for booster in (cut, expected)] == [6, 6]
    for rounds in (-1, slice(-1, 0), slice(-2, None), slice(3, -1), slice(3, 0), slice(1, 1), slice(4, 2), slice(6, None), slice(8, 7), (1, 2)):
        for booster in (cut, expected):
            with pytest.raises(ValueError):
                booster[rounds]
    for rounds in (6, slice(0, 7), slice(5, 7), slice(6, 7), slice(7, None)):
        for booster in (cut, expected):
            with pytest.raises(IndexError):
                booster[rounds]
    for rounds in ("0", 1.0, None):
        for booster in (cut, expected):
            with pytest.raises(TypeError):
                booster[rounds]
    alike(cut.inplace_predict(x, iteration_range=(1, 4)), theirs[3:6].inplace_predict(x))
    alike(cut.inplace_predict(x, iteration_range=(4, 0)), theirs[6:8].inplace_predict(x))
    for other in (copy.copy(cut), pickle.loads(pickle.dumps(cut)), our_xgboost.Booster(model_file=cut)):
        alike(other.inplace_predict(x), cut.inplace_predict(x))
    alike(our_xgboost.Booster(model_file=cut.save_raw()).inplace_predict(x), cut.inplace_predict(x))
    with pytest.raises(fangorn.Error, match="6 rounds"):
        cut.inplace_predict(x, iteration_range=(0, 7))
    with pytest.raises(fangorn.Error, match="no rounds"):
        cut[3:3]
    with pytest.raises(IndexError, match="6 rounds"):
        cut[6]


def test_a_type_of_prediction_that_is_not_there_is_refused():
    xgboost = pytest.importorskip("xgboost")
    x, y = data()
    ours = our_xgboost.Booster(model_file=xgboost.train({}, xgboost.DMatrix(x, y), 2))
    # An array of numbers takes the path with the least overhead.
    with pytest.raises(ValueError, match="predict_type"):
        ours.inplace_predict(x, predict_type="leaf")


def test_rows_with_a_workers_columns_are_refused():
    xgboost = pytest.importorskip("xgboost")
    x, y = data()
    theirs = xgboost.train({}, xgboost.DMatrix(x, y), 2)
    ours = our_xgboost.Booster(model_file=theirs)
    split = xgboost.core.DataSplitMode.COL
    # A single worker holds all columns.
    alike(ours.predict(our_xgboost.DMatrix(x, data_split_mode=split)), theirs.predict(xgboost.DMatrix(x)))
    with pytest.raises(fangorn.Error, match="data_split_mode.*whole rows"):
        ours.predict(our_xgboost.DMatrix(x[:, :2], data_split_mode=split))


def test_tables_go_by_position():
    xgboost, pandas = pytest.importorskip("xgboost"), pytest.importorskip("pandas")
    x, y = data()
    theirs = xgboost.train({}, xgboost.DMatrix(x, y), 4)
    ours = our_xgboost.Booster(model_file=theirs)
    # The model has no names, and XGBoost reads such columns as they come.
    frame = pandas.DataFrame(x, columns=[f"f{at}" for at in reversed(range(7))])
    alike(ours.inplace_predict(frame), theirs.inplace_predict(frame))
    alike(ours.predict(our_xgboost.DMatrix(frame)), theirs.predict(xgboost.DMatrix(frame)))
    numbers = frame.fillna(-999.0)
    alike(ours.inplace_predict(numbers, missing=-999.0), theirs.inplace_predict(numbers, missing=-999.0))
    polars = pytest.importorskip("polars")
    alike(ours.inplace_predict(polars.from_pandas(frame)), theirs.inplace_predict(frame))


def test_no_rows(boosters):
    xgboost, theirs, ours, x = boosters
    none = x[:0]
    for options in ({}, {"output_margin": True}, {"pred_leaf": True}, {"pred_contribs": True}, {"pred_interactions": True}):
        if "multi_output_tree" in theirs.save_config() and ("pred_contribs" in options or "pred_interactions" in options):
            # XGBoost 3.2 does not explain such trees.
            continue
        for strict in (False, True):
            found = ours.predict(our_xgboost.DMatrix(none), strict_shape=strict, **options)
            alike(found, theirs.predict(xgboost.DMatrix(none), strict_shape=strict, **options), exact=True)
    for options in ({}, {"predict_type": "margin"}, {"strict_shape": True}, {"base_margin": none[:, 0]}):
        alike(ours.inplace_predict(none, **options), theirs.inplace_predict(none, **options), exact=True)


def test_a_series_is_one_column():
    xgboost, pandas = pytest.importorskip("xgboost"), pytest.importorskip("pandas")
    x, y = data()
    series = pandas.Series(x[:, 0], name="one")
    theirs = xgboost.train({}, xgboost.DMatrix(series, y), 4)
    ours = our_xgboost.Booster(model_file=theirs)
    alike(ours.inplace_predict(series), theirs.inplace_predict(series))
    alike(ours.predict(our_xgboost.DMatrix(series)), theirs.predict(xgboost.DMatrix(series)))
    polars = pytest.importorskip("polars")
    alike(ours.inplace_predict(polars.Series("one", x[:, 0])), theirs.inplace_predict(series))


def test_names_of_columns():
    xgboost, pandas = pytest.importorskip("xgboost"), pytest.importorskip("pandas")
    x, y = data()
    frame = pandas.DataFrame(x, columns=list("abcdefg"))
    theirs = xgboost.train({}, xgboost.DMatrix(frame, y), 4)
    ours = our_xgboost.Booster(model_file=theirs)
    assert ours.feature_names == theirs.feature_names
    others = frame[frame.columns[::-1]]
    for booster, package in ((ours, our_xgboost), (theirs, xgboost)):
        for rows in (others, frame.rename(columns={"a": "z"})):
            with pytest.raises(ValueError, match="feature_names mismatch"):
                booster.predict(package.DMatrix(rows))
            with pytest.raises(ValueError, match="feature_names mismatch"):
                booster.inplace_predict(rows)
        with pytest.raises(ValueError, match="did not contain feature names"):
            booster.predict(package.DMatrix(x))
        with pytest.raises(ValueError, match="shape mismatch"):
            booster.inplace_predict(x[:, :4])
        with pytest.raises(TypeError, match="DMatrix"):
            booster.predict(x)
        with pytest.raises(ValueError, match="One type of prediction"):
            booster.predict(package.DMatrix(frame), pred_leaf=True, pred_contribs=True)
    # By position, where nobody asks about names.
    alike(
        ours.predict(our_xgboost.DMatrix(others), validate_features=False),
        theirs.predict(xgboost.DMatrix(others), validate_features=False),
    )


@pytest.mark.parametrize("classes", [2, 4])
def test_estimators_of_xgboost(classes):
    xgboost = pytest.importorskip("xgboost")
    x, y = data()
    labels = numpy.clip(numpy.round(y), 0, classes - 1).astype(int)
    theirs = xgboost.XGBClassifier(n_estimators=60, max_depth=2, learning_rate=1.0, early_stopping_rounds=2)
    theirs.fit(x[:160], labels[:160], eval_set=[(x[160:], labels[160:])], verbose=False)
    ours = our_xgboost.XGBClassifier.from_model(theirs)
    assert theirs.best_iteration + 1 < theirs.get_booster().num_boosted_rounds()
    alike(ours.predict(x), theirs.predict(x), exact=True)
    alike(ours.predict_proba(x), theirs.predict_proba(x))
    alike(ours.predict(x, output_margin=True), theirs.predict(x, output_margin=True))
    alike(ours.apply(x), theirs.apply(x), exact=True)
    alike(ours.predict_proba(x, iteration_range=(0, 2)), theirs.predict_proba(x, iteration_range=(0, 2)))
    assert ours.classes_.tolist() == theirs.classes_.tolist() and ours.best_iteration == theirs.best_iteration
    regressor = xgboost.XGBRegressor(n_estimators=5).fit(x, y)
    ours = our_xgboost.XGBRegressor.from_model(regressor)
    alike(ours.predict(x), regressor.predict(x))
    alike(ours.apply(x), regressor.apply(x), exact=True)
    ranker = xgboost.XGBRanker(n_estimators=5).fit(x, labels, qid=numpy.arange(len(x)) // 20)
    alike(our_xgboost.XGBRanker.from_model(ranker).predict(x), ranker.predict(x))


def test_labels_of_softmax():
    xgboost = pytest.importorskip("xgboost")
    x, y = data()
    theirs = xgboost.XGBClassifier(n_estimators=5, objective="multi:softmax").fit(x, numpy.clip(numpy.round(y), 0, 3))
    ours = our_xgboost.XGBClassifier.from_model(theirs)
    alike(ours.predict(x), theirs.predict(x), exact=True)
    alike(ours.predict_proba(x), theirs.predict_proba(x))


LIGHTGBM = {
    "regression": {},
    "binary": {"objective": "binary"},
    "multiclass": {"objective": "multiclass", "num_class": 4},
    "one tree": {"rounds": 1},
    "linear": {"linear_tree": True},
}


@pytest.mark.parametrize("name", LIGHTGBM)
def test_booster_of_lightgbm(name):
    lightgbm, pandas = pytest.importorskip("lightgbm"), pytest.importorskip("pandas")
    parameters = {"verbose": -1, "num_leaves": 9, **LIGHTGBM[name]}
    x, y = data()
    labels = numpy.clip(numpy.round(y), 0, 3) if "num_class" in parameters else y
    labels = (y > 0.5) if name == "binary" else labels
    rounds = parameters.pop("rounds", 6)
    theirs = lightgbm.train(parameters, lightgbm.Dataset(x, labels, params=parameters), rounds)
    ours = our_lightgbm.Booster(model_str=theirs.model_to_string())
    frame = pandas.DataFrame(x, columns=[f"other {at}" for at in range(7)])
    for rows in (x, x.astype(float), frame, x[:1], x.tolist()):
        for options in ({}, {"raw_score": True}, {"pred_leaf": True}):
            alike(ours.predict(rows, **options), theirs.predict(rows, **options), exact="pred_leaf" in options)
    if name != "linear":
        alike(ours.predict(x, pred_contrib=True), theirs.predict(x, pred_contrib=True), tolerance=1e-4)
        for start, count in ((0, 2), (1, 3), (2, None), (0, 100), (4, 1), (3, -1)):
            if rounds > 1:
                options = {"start_iteration": start, "num_iteration": count}
                alike(ours.predict(x, **options), theirs.predict(x, **options))
    assert (ours.num_trees(), ours.num_feature(), ours.current_iteration(), ours.num_model_per_iteration()) == (
        theirs.num_trees(),
        theirs.num_feature(),
        theirs.current_iteration(),
        theirs.num_model_per_iteration(),
    )
    assert ours.feature_name() == theirs.feature_name()
    alike(pickle.loads(pickle.dumps(ours)).predict(x), ours.predict(x))
    with pytest.raises(fangorn.Error, match="names of the columns"):
        ours.predict(frame, validate_features=True)


@pytest.mark.parametrize("classes", [1, 3])
def test_contributions_to_sparse_rows_of_lightgbm_are_sparse(classes):
    lightgbm, scipy = pytest.importorskip("lightgbm"), pytest.importorskip("scipy.sparse")
    x, y = data()
    x = numpy.where(numpy.abs(x) < 0.7, 0, numpy.nan_to_num(x))
    parameters = {"verbose": -1, "objective": "multiclass", "num_class": 3} if classes > 1 else {"verbose": -1}
    labels = numpy.clip(numpy.round(y), 0, 2) if classes > 1 else y
    theirs = lightgbm.train(parameters, lightgbm.Dataset(x, labels), 4)
    ours = our_lightgbm.Booster(model_file=theirs)
    for kind in (scipy.csr_matrix, scipy.csc_matrix, scipy.coo_matrix):
        for dtype in (numpy.float32, numpy.float64):
            rows = kind(x.astype(dtype))
            found, expected = ours.predict(rows, pred_contrib=True), theirs.predict(rows, pred_contrib=True)
            assert type(found) is type(expected)
            if classes == 1:
                found, expected = [found], [expected]
            assert len(found) == len(expected) == classes
            for one, other in zip(found, expected):
                assert one.format == other.format
                alike(one.toarray(), other.toarray())


def test_early_stop_of_lightgbm_is_refused():
    lightgbm = pytest.importorskip("lightgbm")
    x, y = data()
    parameters = {"n_estimators": 50, "verbose": -1, "pred_early_stop": True, "pred_early_stop_margin": 0.1}
    theirs = lightgbm.LGBMClassifier(**parameters).fit(x, y > 0.5)
    booster = our_lightgbm.Booster(model_file=theirs.booster_)
    alike(booster.predict(x), theirs.booster_.predict(x))
    ours = our_lightgbm.LGBMClassifier.from_model(theirs)
    alike(ours.predict_proba(x, pred_early_stop=False), theirs.predict_proba(x, pred_early_stop=False))
    for refused in (
        lambda: booster.predict(x, pred_early_stop=True),
        lambda: ours.predict_proba(x),
        lambda: ours.predict(x),
    ):
        with pytest.raises(fangorn.Error, match="pred_early_stop is not supported; leave it out"):
            refused()


@pytest.mark.parametrize("classes", [2, 3])
def test_a_classifier_of_lightgbm_with_an_objective_of_its_own(classes):
    lightgbm = pytest.importorskip("lightgbm")
    x, y = data()
    labels = numpy.clip(numpy.round(y), 0, classes - 1).astype(int)

    def objective(truth, found):
        if classes == 2:
            return found - truth, numpy.ones_like(found)
        return found - numpy.eye(classes)[truth.astype(int)], numpy.ones_like(found)

    theirs = lightgbm.LGBMClassifier(n_estimators=5, objective=objective, num_class=classes if classes > 2 else 1, verbose=-1)
    theirs.fit(x, labels)
    ours = our_lightgbm.LGBMClassifier.from_model(theirs)
    for method in ("predict", "predict_proba"):
        for options in ({}, {"raw_score": True}):
            alike(getattr(ours, method)(x, **options), getattr(theirs, method)(x, **options))


@pytest.mark.parametrize("classes", [2, 3])
def test_estimators_of_lightgbm(classes):
    lightgbm = pytest.importorskip("lightgbm")
    x, y = data()
    labels = numpy.array(["low", "middle", "high"])[numpy.clip(numpy.round(y), 0, classes - 1).astype(int)]
    theirs = lightgbm.LGBMClassifier(n_estimators=40, learning_rate=1.0, num_leaves=5, verbose=-1)
    theirs.fit(x[:160], labels[:160], eval_set=[(x[160:], labels[160:])], callbacks=[lightgbm.early_stopping(2, verbose=False)])
    ours = our_lightgbm.LGBMClassifier.from_model(theirs)
    assert theirs.best_iteration_ < 40
    with pytest.warns(UserWarning):
        expected = theirs.predict(x)
    assert ours.predict(x).tolist() == expected.tolist()
    alike(ours.predict_proba(x), theirs.predict_proba(x))
    alike(ours.predict(x, pred_leaf=True), theirs.predict(x, pred_leaf=True), exact=True)
    alike(ours.predict(x, raw_score=True), theirs.predict(x, raw_score=True))
    regressor = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1).fit(x, y)
    alike(our_lightgbm.LGBMRegressor.from_model(regressor).predict(x), regressor.predict(x))
    with pytest.raises(ValueError, match="Number of features"):
        ours.predict(x[:, :3])


SKLEARN = (
    "RandomForestClassifier RandomForestRegressor ExtraTreesClassifier ExtraTreesRegressor GradientBoostingClassifier "
    "GradientBoostingRegressor HistGradientBoostingClassifier HistGradientBoostingRegressor IsolationForest "
    "BaggingClassifier BaggingRegressor DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier"
).split()


@pytest.mark.parametrize("name", SKLEARN)
@pytest.mark.parametrize("words", [False, True])
def test_sklearn(name, words):
    ensemble, tree = pytest.importorskip("sklearn.ensemble"), pytest.importorskip("sklearn.tree")
    x, y = data()
    x = numpy.nan_to_num(x)
    kind = getattr(ensemble, name, None) or getattr(tree, name)
    labels = numpy.clip(numpy.round(y), 0, 2).astype(int)
    labels = numpy.array(["low", "middle", "high"])[labels] if words else labels
    size = {"max_iter": 7} if "Hist" in name else {} if name.endswith(("TreeClassifier", "TreeRegressor")) else {"n_estimators": 7}
    theirs = kind(**size, random_state=0).fit(x, labels if "Classifier" in name else y)
    ours = our_sklearn.wrap(theirs)
    assert type(ours).__name__ == name
    for method in "predict predict_proba predict_log_proba apply decision_function score_samples".split():
        if not hasattr(theirs, method) or (method == "apply" and "Bagging" in name):
            continue
        if not hasattr(type(ours), method):
            assert method == "decision_function" and "Bagging" in name, method
            continue
        exact = method == "apply" or method == "predict" and "Regressor" not in name
        alike(getattr(ours, method)(x), getattr(theirs, method)(x), exact=exact)
    if hasattr(theirs, "tree_"):
        for method in ("predict", "apply"):
            found, expected = (getattr(one, method)(x, check_input=True) for one in (ours, theirs))
            alike(found, expected, exact=method == "apply" or "Classifier" in name)
    assert ours.n_features_in_ == 7
    if hasattr(theirs, "classes_"):
        assert ours.classes_.tolist() == theirs.classes_.tolist()
    with pytest.raises(ValueError, match="X has 3 features, but"):
        ours.predict(x[:, :3])
    with pytest.raises(fangorn.Error, match="train with the package sklearn"):
        ours.fit(x, y)
    assert hasattr(ours, "predict") and not hasattr(ours, "warm_start")
    assert hasattr(ours, "predict_proba") == hasattr(theirs, "predict_proba")


def test_constructors_take_a_fitted_estimator():
    xgboost, lightgbm = pytest.importorskip("xgboost"), pytest.importorskip("lightgbm")
    ensemble = pytest.importorskip("sklearn.ensemble")
    x, y = data()
    x, labels = numpy.nan_to_num(x), numpy.where(y > 0.5, "high", "low")
    forest = ensemble.RandomForestClassifier(4, random_state=0).fit(x, labels)
    assert our_sklearn.RandomForestClassifier(forest).predict(x).tolist() == forest.predict(x).tolist()
    with pytest.raises(TypeError, match="RandomForestClassifier is no ExtraTreesClassifier"):
        our_sklearn.ExtraTreesClassifier(forest)
    boosting = lightgbm.LGBMClassifier(n_estimators=4, verbose=-1, pred_early_stop=True).fit(x, labels)
    ours = our_lightgbm.LGBMClassifier(boosting, pred_early_stop=False)
    assert ours.predict(x).tolist() == boosting.predict(x, pred_early_stop=False).tolist()
    with pytest.raises(fangorn.Error, match="pred_early_stop"):
        our_lightgbm.LGBMClassifier(boosting).predict(x)
    regressor = xgboost.XGBRegressor(n_estimators=4, missing=0.0, n_jobs=1).fit(x, y)
    for one, missing, jobs in (
        (our_xgboost.XGBRegressor(regressor), 0.0, 1),
        (our_xgboost.XGBRegressor(regressor, n_jobs=2), 0.0, 2),
        (our_xgboost.XGBRegressor(regressor.get_booster(), missing=0.0), 0.0, None),
    ):
        assert (one.missing, one.n_jobs) == (missing, jobs)
        alike(one.predict(x), regressor.predict(x))


def test_options_of_bags_are_refused():
    ensemble = pytest.importorskip("sklearn.ensemble")
    x, y = data()
    x = numpy.nan_to_num(x)
    theirs = ensemble.BaggingClassifier(n_estimators=3).fit(x, y > 0)
    for bag in (theirs, our_sklearn.wrap(theirs)):
        for method in ("predict", "predict_proba", "predict_log_proba"):
            with pytest.raises(ValueError):
                getattr(bag, method)(x, sample_weight=y)


PREDICTING = (
    "predict inplace_predict predict_proba predict_log_proba predict_leaf predict_per_tree apply decision_function "
    "score_samples"
).split()


def parameters(function):
    """The parameters of a function. What the options in `**` are called is nobody's business."""
    found = inspect.signature(function).parameters.values()
    return [("**" if one.kind is one.VAR_KEYWORD else one.name, one.kind.name, repr(one.default)) for one in found]


@pytest.mark.parametrize(
    ("ours", "package"),
    [
        (our_xgboost, "xgboost"),
        (our_lightgbm, "lightgbm"),
        (our_sklearn, "sklearn.ensemble"),
        (our_sklearn, "sklearn.tree"),
        (our_treelite, "treelite"),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_signatures_are_the_libraries(ours, package):
    pytest.importorskip(package)
    theirs = importlib.import_module(package)
    compared = 0
    for name in set(ours.__all__) & set(dir(theirs)):
        for method in PREDICTING:
            one, other = (getattr(getattr(side, name), method, None) for side in (ours, theirs))
            if one is None or other is None:
                continue
            assert parameters(one) == parameters(other), f"{name}.{method}"
            compared += 1
    assert compared > 1


def test_treelite():
    treelite, xgboost = pytest.importorskip("treelite"), pytest.importorskip("xgboost")
    ensemble, scipy = pytest.importorskip("sklearn.ensemble"), pytest.importorskip("scipy.sparse")
    x, y = data()
    whole = numpy.nan_to_num(x)
    labels = numpy.clip(numpy.round(y), 0, 3).astype(int)
    several = numpy.stack([y, -y], axis=1)
    models = [
        treelite.frontend.from_xgboost(xgboost.train({}, xgboost.DMatrix(x, y), 5)),
        treelite.frontend.from_xgboost(
            xgboost.train({"objective": "multi:softprob", "num_class": 4}, xgboost.DMatrix(x, labels), 5)
        ),
        treelite.sklearn.import_model(ensemble.RandomForestClassifier(5, random_state=0).fit(whole, labels)),
        treelite.sklearn.import_model(ensemble.RandomForestRegressor(5, random_state=0).fit(whole, several)),
        treelite.sklearn.import_model(ensemble.GradientBoostingClassifier(n_estimators=5).fit(whole, labels > 1)),
    ]
    for theirs in models:
        for ours in (our_treelite.Model.deserialize_bytes(theirs.serialize_bytes()), theirs):
            for rows in (x, x.astype(float), x[:1], scipy.csr_matrix(whole), whole[:, :5]):
                for name in ("predict", "predict_leaf"):
                    found, expected = (getattr(p.gtil, name) for p in (our_treelite, treelite))
                    alike(found(ours, rows), expected(theirs, rows), exact=name == "predict_leaf")
                alike(our_treelite.gtil.predict(ours, rows, pred_margin=True), treelite.gtil.predict(theirs, rows, pred_margin=True))
        ours = our_treelite.Model.from_treelite(theirs)
        assert (ours.num_tree, ours.num_feature, ours.input_type) == (theirs.num_tree, theirs.num_feature, theirs.input_type)
    with pytest.raises(fangorn.Error, match="predict_per_tree is not in fangorn.compat"):
        our_treelite.gtil.predict_per_tree(ours, x)


def test_what_is_not_here_is_named():
    for refused, message in [
        (lambda: our_xgboost.train({}, None), "xgboost.train is not in fangorn.compat; train with the package xgboost"),
        (lambda: our_xgboost.dask, "xgboost.dask is not in fangorn.compat; use the package xgboost"),
        (lambda: our_xgboost.Booster(), None),
        (lambda: our_xgboost.Booster().predict(our_xgboost.DMatrix([[1.0]])), "holds no model"),
        (lambda: our_xgboost.Booster().update(None), "Booster.update is not in fangorn.compat; train with"),
        (lambda: our_xgboost.XGBClassifier().fit(None), "train with the package xgboost"),
        (lambda: our_xgboost.XGBClassifier().predict([[1.0]]), "load_model beforehand"),
        (lambda: our_lightgbm.train({}, None), "lightgbm.train is not in fangorn.compat; train with the package lightgbm"),
        (lambda: our_lightgbm.Dataset([]), "lightgbm.Dataset is not in fangorn.compat"),
        (lambda: our_lightgbm.LGBMClassifier().fit(None), "train with the package lightgbm"),
        (lambda: our_sklearn.RandomForestClassifier().predict(None), "make it with from_model"),
        (lambda: our_sklearn.SVC, "sklearn.SVC is not in fangorn.compat"),
        (lambda: our_treelite.frontend, "treelite.frontend is not in fangorn.compat"),
    ]:
        if message is None:
            refused()
            continue
        with pytest.raises(fangorn.Error, match=message):
            refused()
    assert not hasattr(our_xgboost, "no_such_name")
