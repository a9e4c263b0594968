"""Models from files, from bytes, and from the objects of other libraries."""

import importlib.util
import io
import os
import pathlib
import tempfile

from . import _fangorn
from ._fangorn import Error


def load(path, *, schedule=None, threads=None, sum="any", iteration_range=None):
    """Load a model file, and compile it for this machine's CPU.

    The file is one of XGBoost (`.ubj`, `.json`), LightGBM (text), CatBoost (`.json`), ONNX, treelite (a checkpoint),
    scikit-learn (`.npz`, which fangorn's `export_sklearn.py` writes) or fangorn (`.fangorn`). Its content tells the
    format; its name does not matter.

    Parameters
    ----------
    path : str or path
        The file.
    schedule : str, optional
        How the forest is walked: the name of a preset, such as `default` or `xgboost`; `tuned` for the schedules that
        `Model.tune` or `fangorn tune` saved for this model on this machine; the path of a file with a schedule, or of a
        plan file (`.toml`); or the text of either. It changes how long a prediction takes, and never its result.
    threads : int, optional
        The maximum number of threads that predict a batch, 1 or more. The default is the number that the machine runs
        at the same time. Small batches are predicted on the caller's thread.
    sum : {"any", "tree", "exact"}, default "any"
        What is promised about a margin's last digits. `any` adds in the fastest order. `tree` adds as the model's own
        library does, tree after tree in its number type. `exact` gives the same bytes on every machine.
    iteration_range : (int, int), "best" or "all", optional
        The boosting rounds to keep: from the first number to before the second, counted from 0, where 0 as the second
        number stands for the end. `best` keeps the rounds up to the best one of XGBoost's early stopping. By default
        all rounds are kept, as by XGBoost's `Booster`. Models of XGBoost, LightGBM and CatBoost and boosting of
        scikit-learn take it; the others are refused with it.

    Returns
    -------
    Model or Pipeline
        A Model for a forest. A Pipeline for a pipeline of scikit-learn, an ONNX graph of other operators, or a model of
        LightGBM with linear leaves; it has no `schedule` and no `sum`.

    Raises
    ------
    fangorn.Error
        The file can't be read, is no model that fangorn supports, or does not fit the options. The message says where
        in the file or in which option the fault is, and what to do.

    Examples
    --------
    >>> import fangorn
    >>> fangorn.load(zoo / "churn/model.ubj")
    <fangorn.Model: xgboost binary:logistic, 100 trees, 12 features, 1 output>
    """
    path = os.fspath(path)
    return _fangorn._load(path, _options(schedule, threads, sum, iteration_range))


def loads(data, format=None, *, schedule=None, threads=None, sum="any", iteration_range=None):
    """Load a model from the bytes of its file, and compile it for this machine's CPU.

    Parameters
    ----------
    data : bytes, bytearray, memoryview or str
        The contents of the file. A str stands for a file in UTF-8.
    format : str, optional
        `fangorn`, `xgboost-json`, `xgboost-ubj`, `lightgbm`, `catboost`, `onnx`, `treelite` or `scikit-learn`. By
        default the content tells the format.
    schedule, threads, sum, iteration_range
        As for `load`.

    Returns
    -------
    Model or Pipeline
        As for `load`.

    Raises
    ------
    fangorn.Error
        The format is unknown, or the data is refused as a file is by `load`.

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
    """Return the options as the extension takes them."""
    if isinstance(iteration_range, list):
        iteration_range = tuple(iteration_range)
    return {"schedule": schedule, "threads": threads, "sum": sum, "iteration_range": iteration_range}


def unpickle(data, options):
    """Make a model from its pickle."""
    return _fangorn._parse(data, None, None, options)


def from_xgboost(model, *, schedule=None, threads=None, sum="any", iteration_range=None):
    """Make a model from one of XGBoost.

    Parameters
    ----------
    model : xgboost.Booster, or an estimator such as xgboost.XGBClassifier
        A trained model.
    schedule, threads, sum
        As for `load`.
    iteration_range : (int, int), "best" or "all", optional
        The boosting rounds to keep, as for `load`. By default all rounds of a Booster are kept. If an estimator was
        trained with early stopping, the rounds up to the best one are kept. Both predict like this in XGBoost, too.

    Returns
    -------
    Model

    Raises
    ------
    fangorn.Error
        The model has something that fangorn does not support, or does not fit the options.
    TypeError
        `model` is no model of XGBoost.

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
        missing = getattr(model, "missing", None)
        if missing is not None and missing == missing:
            raise Error(
                f"the estimator takes {missing} for a missing value, and a model takes NaN; hand over "
                "model.get_booster() and rows that have NaN there, or use fangorn.compat.xgboost"
            )
        booster = model.get_booster()
        if iteration_range is None:
            best = _best_of(booster)
            iteration_range = None if best is None else (0, best + 1)
    if not hasattr(booster, "save_raw"):
        raise TypeError(f"{_name(model)} is no model of XGBoost; hand over a Booster or a fitted estimator")
    return _parse(booster.save_raw("ubj"), "xgboost-ubj", _options(schedule, threads, sum, iteration_range))


def _best_of(booster):
    try:
        return int(booster.best_iteration)
    except (AttributeError, TypeError):
        return None


def from_lightgbm(model, *, schedule=None, threads=None, sum="any", start_iteration=0, num_iteration=None):
    """Make a model from one of LightGBM.

    Parameters
    ----------
    model : lightgbm.Booster, or an estimator such as lightgbm.LGBMClassifier
        A trained model. A classifier's labels are kept; a Booster has none, and its classes are numbers from 0 on.
    schedule, threads, sum
        As for `load`.
    start_iteration : int, default 0
        The first boosting round to keep.
    num_iteration : int, optional
        The number of boosting rounds to keep. By default the rounds up to the best one are kept if training stopped
        early, otherwise all, as LightGBM predicts. 0 or less keeps all.

    Returns
    -------
    Model, or Pipeline if the leaves are linear

    Raises
    ------
    fangorn.Error
        The model has something that fangorn does not support, or does not fit the options.
    TypeError
        `model` is no model of LightGBM.

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
        raise TypeError(f"{_name(model)} is no model of LightGBM; hand over a Booster or a fitted estimator")
    text = booster.model_to_string(num_iteration=num_iteration, start_iteration=start_iteration)
    labels = getattr(model, "classes_", None) if booster is not model else None
    return _parse(text, "lightgbm", _options(schedule, threads, sum), _labels(labels))


def _labels(labels):
    """Return the labels of the classes and whether they are texts, as the extension takes them."""
    if labels is None:
        return None
    return [str(label) for label in labels], labels.dtype.kind not in "iu"


def from_catboost(model, *, pool=None, schedule=None, threads=None, sum="any"):
    """Make a model from one of CatBoost. CatBoost writes it to a temporary file of JSON, which is then loaded.

    Parameters
    ----------
    model : catboost.CatBoost, CatBoostClassifier, CatBoostRegressor or CatBoostRanker
        A fitted model.
    pool : catboost.Pool, optional
        The rows that the model was trained on. CatBoost's `save_model` needs them if the model has columns of
        categories.
    schedule, threads, sum
        As for `load`.

    Returns
    -------
    Model

    Raises
    ------
    fangorn.Error
        The model has something that fangorn does not support, or does not fit the options.
    TypeError
        `model` is no model of CatBoost.

    Examples
    --------
    >>> import catboost, fangorn, numpy
    >>> x = numpy.random.default_rng(0).normal(size=(200, 4))
    >>> model = catboost.CatBoostRegressor(iterations=5, verbose=False, allow_writing_files=False).fit(x, x[:, 0])
    >>> fangorn.from_catboost(model).n_trees
    5
    """
    if not hasattr(model, "save_model") or not hasattr(model, "tree_count_"):
        raise TypeError(f"{_name(model)} is no model of CatBoost; hand over a fitted CatBoost or one of its estimators")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.json")
        model.save_model(str(path), format="json", pool=pool)
        return load(path, schedule=schedule, threads=threads, sum=sum)


def from_sklearn(model, *, schedule=None, threads=None, sum="any", initial_types=None):
    """Make a model from an estimator of scikit-learn.

    Trees, forests, boosting, linear models and pipelines of these are read directly. Other estimators are converted to
    ONNX by skl2onnx, if it is installed. A pipeline that was trained on a DataFrame with columns of texts takes such a
    DataFrame; its columns are found by their names.

    Parameters
    ----------
    model : estimator
        A fitted estimator. One of XGBoost, LightGBM or CatBoost goes to `from_xgboost`, `from_lightgbm` or
        `from_catboost`.
    schedule, threads, sum
        As for `load`.
    initial_types : list of (str, type), optional
        The names and types of the inputs, as `skl2onnx.to_onnx` takes them. By default there is one input of float32
        with all columns. They have no effect if the estimator is read directly.

    Returns
    -------
    Model, or Pipeline if the estimator is more than one forest

    Raises
    ------
    fangorn.Error
        The estimator is not fitted, or it can't be converted. The message says why.
    TypeError
        `model` is no estimator.

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
        raise TypeError(f"{_name(model)} is no estimator of scikit-learn; hand over a fitted estimator")
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
        raise Error(f"{_name(model)}: {refused}; pip install skl2onnx, which converts more estimators") from refused
    import skl2onnx
    from skl2onnx.common.data_types import FloatTensorType

    types = initial_types or [("x", FloatTensorType([None, model.n_features_in_]))]
    try:
        graph = skl2onnx.to_onnx(model, initial_types=types, options={"zipmap": False} if _classifies(model) else None)
    except Exception as error:  # skl2onnx has errors of many types.
        raise Error(f"{_name(model)}: {refused}; and skl2onnx can't convert it: {error}") from refused
    return from_onnx(graph, schedule=schedule, threads=threads, sum=sum)


def _classifies(model):
    return hasattr(model, "predict_proba") or getattr(model, "_estimator_type", "") == "classifier"


def from_onnx(model, *, schedule=None, threads=None, sum="any"):
    """Make a model from one of ONNX.

    Parameters
    ----------
    model : str, path, bytes, bytearray, memoryview or onnx.ModelProto
        The path of a file, the bytes of a file, or a model in memory.
    schedule, threads, sum
        As for `load`.

    Returns
    -------
    Model, or Pipeline if the graph is more than one tree ensemble

    Raises
    ------
    fangorn.Error
        The file can't be read, or the graph has something that fangorn does not support.

    Examples
    --------
    >>> import fangorn
    >>> fangorn.from_onnx(zoo / "onnx-softmax/model.onnx").n_outputs
    3
    """
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _parse(model, "onnx", _options(schedule, threads, sum))
    return load(model, schedule=schedule, threads=threads, sum=sum)


def from_treelite(model, *, schedule=None, threads=None, sum="any"):
    """Make a model from one of treelite.

    Parameters
    ----------
    model : treelite.Model
        The model.
    schedule, threads, sum
        As for `load`.

    Returns
    -------
    Model

    Raises
    ------
    fangorn.Error
        The model has something that fangorn does not support, or does not fit the options.
    TypeError
        `model` is no `treelite.Model`.

    Examples
    --------
    >>> import fangorn, treelite
    >>> fangorn.from_treelite(treelite.Model.deserialize(zoo / "treelite-softmax/model.tl")).n_trees
    6
    """
    if not hasattr(model, "serialize_bytes"):
        raise TypeError(f"{_name(model)} is no model of treelite; pass a treelite.Model")
    return _parse(model.serialize_bytes(), "treelite", _options(schedule, threads, sum))


def _name(model):
    return f"{type(model).__module__}.{type(model).__qualname__}"
