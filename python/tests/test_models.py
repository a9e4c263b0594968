"""Models from files, bytes and objects of the libraries, their options, and what they say of themselves."""

import pickle

import numpy
import pytest

import fangorn
from conftest import ZOO, close, model_file, zoo


def data(count=300, columns=6, seed=0):
    random = numpy.random.default_rng(seed)
    x = random.normal(size=(count, columns))
    x[random.random(x.shape) < 0.1] = numpy.nan
    return x, numpy.nan_to_num(x[:, 0]) + numpy.nan_to_num(x[:, 1]) ** 2


def test_loads_and_formats():
    path = model_file(ZOO / "churn")
    rows = numpy.load(ZOO / "churn/rows.npy")
    expected = fangorn.load(str(path)).predict(rows)
    for given in (path.read_bytes(), bytearray(path.read_bytes()), memoryview(path.read_bytes())):
        assert numpy.array_equal(fangorn.loads(given).predict(rows), expected)
    assert numpy.array_equal(fangorn.loads(path.read_bytes(), "xgboost-ubj").predict(rows), expected)
    text = model_file(ZOO / "lightgbm-binary").read_text()
    assert fangorn.loads(text, "lightgbm").library == "lightgbm"
    with pytest.raises(fangorn.Error, match="format: `pickle` is unknown; take one of fangorn, xgboost-json"):
        fangorn.loads(b"", "pickle")
    with pytest.raises(fangorn.Error, match="the file is empty"):
        fangorn.loads(b"")
    with pytest.raises(fangorn.Error, match="no/such/file"):
        fangorn.load("no/such/file")
    assert issubclass(fangorn.Error, ValueError)


@pytest.mark.parametrize("folder", zoo()[::7], ids=lambda folder: folder.name)
def test_models_are_pickled(folder):
    model = fangorn.load(model_file(folder), threads=1, sum="exact")
    rows = numpy.load(folder / "rows.npy")
    copy = pickle.loads(pickle.dumps(model))
    assert numpy.array_equal(copy.predict(rows), model.predict(rows), equal_nan=True)
    assert (copy.threads, copy.sum, repr(copy)) == (1, "exact", repr(model))


def test_options(softprob):
    _, rows = softprob
    path = model_file(ZOO / "softprob")
    expected = fangorn.load(path, sum="exact").predict(rows)
    for schedule in ("xgboost", "treebeard_one_row", "reorder(tree, batch)", "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)"):
        model = fangorn.load(path, sum="exact", schedule=schedule)
        assert numpy.array_equal(model.predict(rows), expected), schedule
    for options, message in [
        ({"schedule": "quick"}, "`quick` is no file, no preset and no schedule; the presets are default"),
        ({"schedule": "tile(batch)"}, "tile"),
        ({"threads": 0}, "threads: 0 is no number of threads"),
        ({"sum": "all"}, "sum: `all` is no contract of sums; take one of any, tree, exact"),
        ({"iteration_range": "last"}, "iteration_range: `last` is unknown"),
        ({"iteration_range": (3, 2)}, "rounds|range"),
        ({"iteration_range": "best"}, "names no best round"),
    ]:
        with pytest.raises(fangorn.Error, match=message):
            fangorn.load(path, **options)


def test_schedules_from_files(tmp_path, softprob):
    _, rows = softprob
    path = model_file(ZOO / "softprob")
    schedule = tmp_path / "mine.txt"
    schedule.write_text("reorder(tree, batch)\n")
    assert numpy.array_equal(
        fangorn.load(path, schedule=str(schedule), sum="exact").margin(rows), fangorn.load(path, sum="exact").margin(rows)
    )
    schedule.write_text("nonsense(tree)\n")
    with pytest.raises(fangorn.Error, match="mine.txt: "):
        fangorn.load(path, schedule=str(schedule))


def test_what_a_model_says_of_itself(churn, softprob):
    model, _ = churn
    assert (model.n_features, model.n_outputs, model.n_values, model.n_trees) == (12, 1, 1, 100)
    assert (model.library, model.objective, model.task) == ("xgboost", "binary:logistic", "classification")
    assert len(model.feature_names) == 12 and model.classes.tolist() == [0, 1] and model.best_iteration is None
    assert "binary:logistic, 100 trees, 12 features, 1 output" in repr(model)
    assert "schedule" in model.explain() and "plan" in model.explain(1)
    assert softprob[0].classes.tolist() == list(range(5)) and softprob[0].feature_names is None
    assert fangorn.load(model_file(ZOO / "squared-error")).classes is None
    with pytest.raises(fangorn.Error, match="the model has no classes"):
        fangorn.load(model_file(ZOO / "squared-error")).predict_class(numpy.zeros((1, 10)))
    assert fangorn.load(model_file(ZOO / "sklearn-forest-names")).classes.tolist() == ["ja", "no", "yes, perhaps"]


@pytest.mark.parametrize("name", ["churn", "softprob", "lightgbm-multiclass", "catboost-multiclass-depthwise"])
def test_contributions(name):
    folder = ZOO / name
    model, rows = fangorn.load(model_file(folder)), numpy.load(folder / "rows.npy")
    expected = numpy.load(ZOO.parent / f"contributions/{name}.npy")
    # Those of the first rows and of the last ones.
    rows = numpy.concatenate([rows[: len(expected) - 4], rows[-4:]])
    found = model.contributions(rows)
    close(found.reshape(expected.shape), expected, 1e-4)
    few = model.interactions(rows[:3])
    close(few.sum(axis=-1).reshape(found[:3].shape), found[:3], 1e-3)
    of_background = model.contributions(rows[:3], background=rows[-5:])
    few = model.interactions(rows[:3], background=rows[-5:])
    assert not numpy.allclose(few, model.interactions(rows[:3]))
    close(few.sum(axis=-1).reshape(of_background.shape), of_background, 1e-3)


def test_from_xgboost():
    xgboost = pytest.importorskip("xgboost")
    x, y = data()
    booster = xgboost.train({"max_depth": 4}, xgboost.DMatrix(x, y), 20)
    model = fangorn.from_xgboost(booster)
    close(model.predict(x.astype("f4")), booster.inplace_predict(x.astype("f4")))
    assert fangorn.from_xgboost(booster, iteration_range=(0, 5)).n_trees == 5
    stopped = xgboost.XGBClassifier(n_estimators=200, early_stopping_rounds=3, max_depth=2, learning_rate=1.0)
    stopped.fit(x[:200], y[:200] > 0.5, eval_set=[(x[200:], y[200:] > 0.5)], verbose=False)
    assert stopped.best_iteration + 1 < stopped.get_booster().num_boosted_rounds()
    close(fangorn.from_xgboost(stopped).predict(x), stopped.predict_proba(x)[:, 1])
    close(fangorn.from_xgboost(stopped.get_booster()).predict(x), stopped.get_booster().inplace_predict(x))
    # A value of its own for missing ones is the estimator's, and not the model's.
    marked = xgboost.XGBRegressor(n_estimators=2, missing=-1.0).fit(x, y)
    with pytest.raises(fangorn.Error, match="takes -1.0 for a missing value.*fangorn.compat.xgboost"):
        fangorn.from_xgboost(marked)
    assert fangorn.from_xgboost(marked.get_booster()).n_trees == 2
    with pytest.raises(TypeError, match="is no model of XGBoost"):
        fangorn.from_xgboost(x)


def test_from_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    x, y = data()
    labels = numpy.where(y > 1, "high", numpy.where(y > 0, "middle", "low"))
    model = lightgbm.LGBMClassifier(n_estimators=8, verbose=-1).fit(x, labels)
    found = fangorn.from_lightgbm(model)
    close(found.predict(x), model.predict_proba(x))
    assert found.predict_class(x).tolist() == model.predict(x).tolist()
    assert numpy.array_equal(found.leaf(x), model.predict(x, pred_leaf=True))
    booster = lightgbm.train({"verbose": -1, "objective": "poisson"}, lightgbm.Dataset(x, numpy.abs(y)), 9)
    close(fangorn.from_lightgbm(booster).predict(x), booster.predict(x))
    close(fangorn.from_lightgbm(booster, num_iteration=4).predict(x), booster.predict(x, num_iteration=4))
    linear = lightgbm.train({"verbose": -1, "linear_tree": True}, lightgbm.Dataset(x, y, params={"linear_tree": True}), 5)
    found = fangorn.from_lightgbm(linear)
    assert isinstance(found, fangorn.Pipeline)
    close(found.predict(x), linear.predict(x))
    assert numpy.array_equal(found.leaf(x), linear.predict(x, pred_leaf=True))
    for option in ({"sum": "exact"}, {"schedule": "xgboost"}):
        with pytest.raises(fangorn.Error, match="no single forest"):
            fangorn.from_lightgbm(linear, **option)
    with pytest.raises(TypeError, match="is no model of LightGBM"):
        fangorn.from_lightgbm(x)


def test_categories_of_lightgbm_in_a_frame():
    lightgbm, pandas = pytest.importorskip("lightgbm"), pytest.importorskip("pandas")
    x, y = data()
    frame = pandas.DataFrame({"a": x[:, 0], "kind": pandas.Categorical.from_codes(numpy.arange(300) % 4, list("zxyw"))})
    model = lightgbm.LGBMRegressor(n_estimators=10, verbose=-1).fit(frame, y + frame["kind"].cat.codes)
    found = fangorn.from_lightgbm(model)
    close(found.predict(frame), model.predict(frame))
    close(found.predict(frame[["kind", "a"]].assign(kind=frame["kind"].astype(str))), model.predict(frame))


def test_categories_of_xgboost_in_a_frame():
    xgboost, pandas = pytest.importorskip("xgboost"), pytest.importorskip("pandas")
    x, y = data()
    frame = pandas.DataFrame({"a": x[:, 0], "kind": pandas.Categorical.from_codes(numpy.arange(300) % 4, list("zxyw"))})
    model = xgboost.XGBRegressor(n_estimators=10, enable_categorical=True).fit(frame, y + frame["kind"].cat.codes)
    found = fangorn.from_xgboost(model)
    close(found.predict(frame), model.predict(frame))
    close(found.predict(frame[["kind", "a"]]), model.predict(frame))


def test_from_catboost():
    catboost = pytest.importorskip("catboost")
    x, y = data()
    labels = numpy.where(y > 1, "high", numpy.where(y > 0, "middle", "low"))
    model = catboost.CatBoostClassifier(iterations=10, depth=4, verbose=False, allow_writing_files=False).fit(x, labels)
    found = fangorn.from_catboost(model)
    close(found.predict(x), model.predict_proba(x))
    assert found.predict_class(x).tolist() == model.predict(x)[:, 0].tolist()
    with pytest.raises(TypeError, match="is no model of CatBoost"):
        fangorn.from_catboost(x)


def test_from_sklearn():
    ensemble = pytest.importorskip("sklearn.ensemble")
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = data()
    forest = ensemble.RandomForestRegressor(9, random_state=0).fit(x, y)
    close(fangorn.from_sklearn(forest).predict(x.astype("f4")), forest.predict(x.astype("f4")))
    boosting = ensemble.HistGradientBoostingClassifier(max_iter=9).fit(x, y > 0.5)
    found = fangorn.from_sklearn(boosting)
    close(found.predict(x), boosting.predict_proba(x))
    whole = numpy.nan_to_num(x)
    for steps in (
        [StandardScaler(), ensemble.RandomForestClassifier(5, random_state=0)],
        [StandardScaler(), LogisticRegression()],
    ):
        pipeline = make_pipeline(*steps).fit(whole, y > 0.5)
        found = fangorn.from_sklearn(pipeline)
        close(found.predict(whole).reshape(-1, 2), pipeline.predict_proba(whole))
        assert isinstance(found, fangorn.Pipeline)
        assert found.predict_class(whole).astype(str).tolist() == pipeline.predict(whole).astype(str).tolist()
        assert found.predict(whole[:0]).shape[0] == 0
        with pytest.raises(fangorn.Error, match="trained on 6"):
            found.predict(whole[:, :5])
        with pytest.raises(fangorn.Error, match="predict or predict_class"):
            found.leaf(whole)
    with pytest.raises(TypeError, match="is no estimator of scikit-learn"):
        fangorn.from_sklearn(x)
    with pytest.raises(fangorn.Error, match="is not fitted"):
        fangorn.from_sklearn(ensemble.RandomForestRegressor())
    neighbors = KNeighborsRegressor(3).fit(whole, y)
    try:
        import skl2onnx  # noqa: F401
    except ImportError:
        with pytest.raises(fangorn.Error, match="pip install skl2onnx"):
            fangorn.from_sklearn(neighbors)
    else:
        few = whole[:20].astype("f4")
        close(fangorn.from_sklearn(neighbors).predict(few), neighbors.predict(few), 1e-3)


def test_from_onnx(tmp_path):
    onnx = pytest.importorskip("onnx")
    path = model_file(ZOO / "onnx-softmax")
    rows = numpy.load(ZOO / "onnx-softmax/rows.npy")
    expected = fangorn.load(path).predict(rows)
    for given in (path, str(path), path.read_bytes(), onnx.load(path)):
        assert numpy.array_equal(fangorn.from_onnx(given).predict(rows), expected)


def test_from_treelite():
    treelite = pytest.importorskip("treelite")
    path = model_file(ZOO / "treelite-softmax")
    rows = numpy.load(ZOO / "treelite-softmax/rows.npy")
    found = fangorn.from_treelite(treelite.Model.deserialize(path))
    assert numpy.array_equal(found.predict(rows), fangorn.load(path).predict(rows))



CLASSICAL = sorted(path.parent for path in (ZOO.parent / "zoo-classical").glob("*/rows.npy"))


@pytest.mark.parametrize("folder", CLASSICAL, ids=lambda folder: folder.name)
def test_classical_models(folder):
    [path] = folder.glob("model.*")
    rows, output = numpy.load(folder / "rows.npy"), numpy.load(folder / "output.npy", allow_pickle=True)
    model = fangorn.load(path)
    if rows.ndim == 1:
        rows = rows.reshape(-1, 1)
    values = next((numpy.load(folder / f"{n}.npy") for n in ("proba", "scores") if (folder / f"{n}.npy").exists()), None)
    if values is not None:
        close(model.predict(rows).reshape(values.shape), values, 2e-4)
        classes = model.predict_class(rows)
        if classes.dtype.kind == "U" and output.dtype.kind != "U":
            # The file has the indices of the labels.
            classes = numpy.unique(classes, return_inverse=True)[1]
        assert classes.reshape(-1).astype(str).tolist() == output.reshape(-1).astype(str).tolist()
    elif output.dtype.kind == "f":
        close(model.predict(rows).reshape(output.shape), output, 2e-4)
    else:
        assert model.predict_class(rows).reshape(-1).astype(str).tolist() == output.reshape(-1).astype(str).tolist()
    few = model.predict(rows[::-1][:3])
    assert numpy.array_equal(few, model.predict(numpy.ascontiguousarray(rows[::-1][:3])), equal_nan=True)


def test_tune_returns_a_model_with_the_same_results(softprob, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _, rows = softprob
    model = fangorn.load(model_file(ZOO / "softprob"), threads=1, sum="exact")
    assert model.tuning is None and model.plan is None
    lines = []
    tuned = model.tune(rows, batches=[64, 1], budget=0.3, progress=lines.append)
    assert [found["batch"] for found in tuned.tuning] == [1, 64]
    for found in tuned.tuning:
        assert found["tried"] <= found["points"] and found["missed"] == 0
        assert found["tuned"]["us_per_row"] > 0 and found["auto"]["us_per_row"] > 0
        assert "best" not in found
    assert lines and all("candidates" in line for line in lines)
    for count in (1, 3, 64, 300):
        assert numpy.array_equal(tuned.margin(rows[:count]), model.margin(rows[:count]))
    path = tmp_path / "plan.toml"
    path.write_text(tuned.plan)
    for schedule in (tuned.plan, str(path), "tuned"):
        again = fangorn.load(model_file(ZOO / "softprob"), threads=1, sum="exact", schedule=schedule)
        assert again.schedule == tuned.schedule
        assert numpy.array_equal(again.margin(rows), model.margin(rows))
    assert numpy.array_equal(pickle.loads(pickle.dumps(tuned)).margin(rows), model.margin(rows))
    with pytest.raises(fangorn.Error, match="the plan file is for the model"):
        fangorn.load(model_file(ZOO / "churn"), schedule=tuned.plan)
    for options, message in [
        ({"budget": 0}, "budget: 0 seconds"),
        ({"budget": float("nan")}, "budget: NaN seconds"),
        ({"batches": []}, "batches: the list is empty"),
        ({"batches": [0]}, "batches: 0 rows a batch"),
        ({"batches": [1 << 25]}, "batches: 33554432 rows a batch"),
    ]:
        with pytest.raises(fangorn.Error, match=message):
            model.tune(**options)
    with pytest.raises(fangorn.Error, match="columns"):
        model.tune(numpy.zeros((3, 2)), budget=0.1)


def test_diff_says_where_models_differ():
    import xgboost

    x, y = data()
    train = lambda eta: xgboost.train({"max_depth": 3, "eta": eta}, xgboost.DMatrix(x, y), num_boost_round=6)
    booster, other = train(0.3), train(0.1)
    a, b = fangorn.from_xgboost(booster), fangorn.from_xgboost(other)
    same = a.diff(fangorn.from_xgboost(booster), x)
    assert (same["model"], same["differences"], same["equal_trees"]) == ([], [], 6)
    assert same["rows"]["other_values"] == same["rows"]["other_leaves"] == 0
    diff = a.diff(b, x)
    assert diff["trees"] == [6, 6] and diff["equal_trees"] + diff["leaf_trees"] + 1 <= 12
    assert {"tree", "path", "a", "b"} == set(diff["differences"][0])
    rows, ours, theirs = diff["rows"], a.predict(x), b.predict(x)
    assert rows["rows"] == len(x)
    assert rows["other_values"] == (ours != theirs).sum()
    assert rows["other_leaves"] == (a.leaf(x) != b.leaf(x)).any(axis=1).sum()
    off = numpy.abs(ours - theirs)
    assert rows["worst_row"] == off.argmax() and rows["largest_value_difference"] == pytest.approx(off.max())
    shorter = fangorn.from_xgboost(booster, iteration_range=(0, 2))
    diff = a.diff(shorter, x)
    assert diff["trees"] == [6, 2] and diff["rows"]["other_leaves"] is None
    assert a.diff(b, x[:0])["rows"]["rows"] == 0
    with pytest.raises(fangorn.Error, match="columns"):
        a.diff(fangorn.load(model_file(ZOO / "churn")), x)


def test_contributions_against_a_background():
    x, y = data(60, 4)
    import xgboost

    booster = xgboost.train({"max_depth": 3}, xgboost.DMatrix(x, y), num_boost_round=4)
    model = fangorn.from_xgboost(booster)
    rows, background = x[:5], x[20:32]
    found = model.contributions(rows, background=background)
    assert found.shape == (5, 5)
    assert numpy.allclose(found.sum(axis=1), model.margin(rows), atol=1e-5)
    assert numpy.allclose(found, shapley(model.margin, rows, background), atol=1e-5)
    frame = pandas_frame(rows)
    assert numpy.array_equal(model.contributions(frame, background=pandas_frame(background)), found)
    with pytest.raises(fangorn.Error, match="the background has 0 rows"):
        model.contributions(rows, background=background[:0])
    with pytest.raises(fangorn.Error, match="columns"):
        model.contributions(rows, background=background[:, :2])


def shapley(margin, rows, background):
    """Shapley values by all orders of all features: the definition."""
    import itertools

    count = rows.shape[1]
    found = numpy.zeros((len(rows), count + 1))
    orders = list(itertools.permutations(range(count)))
    for r, row in enumerate(rows):
        for order in orders:
            mixed = background.copy()
            before = margin(mixed).mean(dtype=float)
            for feature in order:
                mixed[:, feature] = row[feature]
                after = margin(mixed).mean(dtype=float)
                found[r, feature] += (after - before) / len(orders)
                before = after
        found[r, -1] = margin(background).mean(dtype=float)
    return found


def pandas_frame(values):
    import pandas

    return pandas.DataFrame(values)


TABLES = sorted((ZOO.parent / "zoo-classical").glob("table-*"))


@pytest.mark.parametrize("folder", TABLES, ids=lambda folder: folder.name)
def test_tables_of_texts_and_numbers(folder):
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    model = fangorn.load(next(folder.glob("model.*")))
    types = {"city": object, "job": object}
    frame = pandas.read_csv(folder / "rows.csv", dtype=types)
    expected = numpy.load(folder / "value.npy")
    close(model.predict(frame).reshape(expected.shape), expected)
    # The same texts as a dictionary, as Arrow's texts, and in other orders of columns.
    categories = frame.astype({name: "category" for name in types if name in frame})
    backwards = frame[frame.columns[::-1]]
    arrow = pyarrow.Table.from_pandas(frame, preserve_index=False)
    for rows in (categories, backwards, arrow):
        assert numpy.array_equal(model.predict(rows), model.predict(frame))
    if (folder / "class.csv").exists():
        classes = pandas.read_csv(folder / "class.csv", header=None)[0].astype(str).tolist()
        found = model.predict_class(frame)
        assert found.reshape(len(frame), -1)[:, 0].astype(str).tolist() == classes


def test_pipelines_of_frames():
    pandas = pytest.importorskip("pandas")
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    random = numpy.random.default_rng(4)
    cities = numpy.array(["Oslo", "Rome", "Lima", None], dtype=object)
    frame = pandas.DataFrame({"note": "x", "pay": random.normal(size=200), "city": cities[random.integers(0, 4, 200)]})
    wanted = (frame["pay"] > 0) ^ (frame["city"] == "Rome")
    steps = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["city"]), ("passthrough", ["pay"])
    )
    pipeline = make_pipeline(steps, RandomForestClassifier(9, max_depth=4, random_state=0)).fit(frame, wanted)
    model = fangorn.from_sklearn(pipeline)
    close(model.predict(frame), pipeline.predict_proba(frame))
    # All is in the forest, and the column that nothing reads need not be there.
    assert (model.n_features, model.predict(frame[["city", "pay"]]).shape) == (2, (200, 2))
    with pytest.raises(fangorn.Error, match="column `city`: `Bonn` is no category of the model"):
        model.predict(frame.assign(city="Bonn"))
    with pytest.raises(fangorn.Error, match="column `city` has categories with names"):
        model.predict(numpy.zeros((3, 2)))
    with pytest.raises(fangorn.Error, match="city"):
        model.predict(frame[["pay"]])
    free = ZOO.parent / "zoo-classical/TextPipeline/model.onnx"
    with pytest.raises(fangorn.Error, match="free texts"):
        fangorn.load(free)
