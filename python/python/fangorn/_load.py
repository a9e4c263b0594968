"""Models from files, from bytes, and from the objects of other libraries."""

import importlib.util
import io
import os
import pathlib
import tempfile

from . import _fangorn
from ._fangorn import Error


def load(path, *, schedule=None, threads=None, sum="any", iteration_range=None):
    """Load a model file of XGBoost (`.ubj`, `.json`), LightGBM (text), CatBoost (`.json`), treelite, ONNX, scikit-learn
    (`.npz` of fangorn's exporter) or fangorn (`.fangorn`). The content tells the format, and the name plays no part.

    Parameters
    ----------
    path : str or path
    schedule : str, optional
        How the forest is walked: a preset's name (`default`, `xgboost`, …), `tuned` for what `fangorn tune` keeps, the path
        of a schedule or of a plan, or the text of either. It changes how long a prediction takes, and never its result.
    threads : int, optional
        How many threads predict large batches; by default as many as the machine runs at the same time.
    sum : {"any", "tree", "exact"}
        What sums promise: the fastest order, the producer's own order and type, or the same bytes on every machine.
    iteration_range : (int, int), "best" or "all", optional
        The boosting rounds to keep; an end of 0 is the last one. By default all, as XGBoost's Booster predicts.

    Returns
    -------
    Model, or Pipeline for a file that is more than one forest

    Raises
    ------
    fangorn.Error
        The file can't be read as a model. The message names the place in it, and the remedy.

    Examples
    --------
    >>> import fangorn
    >>> fangorn.load(zoo / "churn/model.ubj")
    <fangorn.Model: xgboost binary:logistic, 100 trees, 12 features, 1 output>
    """
    path = os.fspath(path)
    return _fangorn._load(path, _options(schedule, threads, sum, iteration_range))


def loads(data, format=None, *, schedule=None, threads=None, sum="any", iteration_range=None):
    """Load a model from the bytes of its file.

    Parameters
    ----------
    data : bytes, bytearray, memoryview or str
        What the file holds; the text of a format of texts may be a str.
    format : str, optional
        `fangorn`, `xgboost-json`, `xgboost-ubj`, `lightgbm`, `catboost`, `onnx`, `treelite` or `scikit-learn`. By default
        the content tells.
    schedule, threads, sum, iteration_range
        As `load` takes them.

    Examples
    --------
    >>> import fangorn
    >>> data = (zoo / "softprob/model.ubj").read_bytes()
    >>> fangorn.loads(data, iteration_range=(0, 2)).n_trees
    10
    """
    return _parse(data, format, _options(schedule, threads, sum, iteration_range))


def _parse(data, format, options, labels=None):
    data = data.encode() if isinstance(data, str) else bytes(data)
    return _fangorn._parse(data, format, labels, options)


def _options(schedule, threads, sum, iteration_range=None):
    """Options as the extension takes them."""
    if isinstance(iteration_range, list):
        iteration_range = tuple(iteration_range)
    return {"schedule": schedule, "threads": threads, "sum": sum, "iteration_range": iteration_range}


def unpickle(data, options):
    """Make a model of its pickle."""
    return _fangorn._parse(data, None, None, options)


def from_xgboost(model, *, schedule=None, threads=None, sum="any", iteration_range=None):
    """Take over a model of XGBoost: a `Booster`, or an estimator of its scikit-learn interface.

    Of an estimator that was trained with early stopping, the rounds up to the best one predict, as the estimator itself
    predicts; of a Booster all do. `iteration_range` says otherwise.

    Examples
    --------
    >>> import fangorn, numpy, xgboost
    >>> x = numpy.random.default_rng(0).normal(size=(200, 4))
    >>> booster = xgboost.train({"max_depth": 3}, xgboost.DMatrix(x, x[:, 0] > 0), num_boost_round=5)
    >>> fangorn.from_xgboost(booster).n_trees
    5
    """
    booster = model
    if hasattr(model, "get_booster"):
        booster = model.get_booster()
        if iteration_range is None:
            best = _best_of(booster)
            iteration_range = None if best is None else (0, best + 1)
    if not hasattr(booster, "save_raw"):
        raise TypeError(f"{_name(model)} is no model of XGBoost; pass a Booster, or for example a fitted XGBClassifier")
    return _parse(booster.save_raw("ubj"), "xgboost-ubj", _options(schedule, threads, sum, iteration_range))


def _best_of(booster):
    try:
        return int(booster.best_iteration)
    except (AttributeError, TypeError):
        return None


def from_lightgbm(model, *, schedule=None, threads=None, sum="any", start_iteration=0, num_iteration=None):
    """Take over a model of LightGBM: a `Booster`, or a fitted estimator of its scikit-learn interface.

    `num_iteration` says how many rounds predict from `start_iteration` on; by default those up to the best one if training
    stopped early, otherwise all, as LightGBM itself predicts.

    Examples
    --------
    >>> import fangorn, lightgbm, numpy
    >>> x = numpy.random.default_rng(0).normal(size=(200, 4))
    >>> model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(x, numpy.where(x[:, 0] > 0, "up", "down"))
    >>> fangorn.from_lightgbm(model).predict_class(x[:3]).tolist() == model.predict(x[:3]).tolist()
    True
    """
    booster = getattr(model, "booster_", model)
    if not hasattr(booster, "model_to_string"):
        raise TypeError(f"{_name(model)} is no model of LightGBM; pass a Booster, or for example a fitted LGBMClassifier")
    text = booster.model_to_string(num_iteration=num_iteration, start_iteration=start_iteration)
    labels = getattr(model, "classes_", None) if booster is not model else None
    return _parse(text, "lightgbm", _options(schedule, threads, sum), _labels(labels))


def _labels(labels):
    """The labels of classes and whether they are texts, as the extension takes them."""
    if labels is None:
        return None
    return [str(label) for label in labels], labels.dtype.kind not in "iu"


def from_catboost(model, *, pool=None, schedule=None, threads=None, sum="any"):
    """Take over a model of CatBoost: a fitted `CatBoost`, `CatBoostClassifier`, `CatBoostRegressor` or `CatBoostRanker`.

    CatBoost saves it as JSON into a temporary file. A model with columns of categories needs the `pool` that it was trained
    on, as `save_model` does.
    """
    if not hasattr(model, "save_model") or not hasattr(model, "tree_count_"):
        raise TypeError(f"{_name(model)} is no model of CatBoost; pass for example a fitted CatBoostClassifier")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.json")
        model.save_model(str(path), format="json", pool=pool)
        return load(path, schedule=schedule, threads=threads, sum=sum)


def from_sklearn(model, *, schedule=None, threads=None, sum="any", initial_types=None):
    """Take over an estimator of scikit-learn: a tree, a forest, boosting, a linear model, or a pipeline of these.

    The script that writes estimators for the command line does it, `fangorn._export_sklearn`. Steps of a pipeline that it
    does not know go through skl2onnx if that is installed, and `initial_types` are then what `skl2onnx.to_onnx` takes; by
    default all columns are floats.

    Returns a Model, or a Pipeline where the estimator is more than one forest.

    Examples
    --------
    >>> import fangorn, numpy
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> x = numpy.random.default_rng(0).normal(size=(200, 4))
    >>> forest = RandomForestClassifier(5, random_state=0).fit(x, x[:, 0] > 0)
    >>> bool(numpy.allclose(fangorn.from_sklearn(forest).predict(x), forest.predict_proba(x)))
    True
    """
    package = type(model).__module__.partition(".")[0]
    for name, function in (("xgboost", from_xgboost), ("lightgbm", from_lightgbm), ("catboost", from_catboost)):
        if package == name:
            return function(model, schedule=schedule, threads=threads, sum=sum)
    if not hasattr(model, "get_params"):
        raise TypeError(f"{_name(model)} is no estimator of scikit-learn; pass a fitted one")
    from ._export_sklearn import export

    file = io.BytesIO()
    try:
        export(model, file)
        return _parse(file.getvalue(), "scikit-learn", _options(schedule, threads, sum))
    except (Error, TypeError, AttributeError) as error:
        refused = error
    if not hasattr(model, "n_features_in_"):
        raise Error(f"{_name(model)} is not fitted: {refused}; call fit first")
    if importlib.util.find_spec("skl2onnx") is None:
        raise Error(f"{_name(model)}: {refused}; pip install skl2onnx, which writes more estimators") from refused
    import skl2onnx
    from skl2onnx.common.data_types import FloatTensorType

    types = initial_types or [("x", FloatTensorType([None, model.n_features_in_]))]
    try:
        graph = skl2onnx.to_onnx(model, initial_types=types, options={"zipmap": False} if _classifies(model) else None)
    except Exception as error:  # skl2onnx has errors of many types.
        raise Error(f"{_name(model)}: {refused}; and skl2onnx does not write it: {error}") from refused
    return from_onnx(graph, schedule=schedule, threads=threads, sum=sum)


def _classifies(model):
    return hasattr(model, "predict_proba") or getattr(model, "_estimator_type", "") == "classifier"


def from_onnx(model, *, schedule=None, threads=None, sum="any"):
    """Take over an ONNX model: a path, the bytes of a file, or a `ModelProto`.

    Returns a Model, or a Pipeline where the graph is more than one tree ensemble.
    """
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _parse(model, "onnx", _options(schedule, threads, sum))
    return load(model, schedule=schedule, threads=threads, sum=sum)


def from_treelite(model, *, schedule=None, threads=None, sum="any"):
    """Take over a `treelite.Model`."""
    if not hasattr(model, "serialize_bytes"):
        raise TypeError(f"{_name(model)} is no model of treelite; pass a treelite.Model")
    return _parse(model.serialize_bytes(), "treelite", _options(schedule, threads, sum))


def _name(model):
    return f"{type(model).__module__}.{type(model).__qualname__}"
