"""XGBoost's classes, which predict with fangorn.

    from fangorn.compat import xgboost

    booster = xgboost.Booster(model_file="model.ubj")
    booster.predict(xgboost.DMatrix(rows))
    booster.inplace_predict(rows)
"""

import os
import pathlib

import numpy

from .. import _load
from .._fangorn import Error as XGBoostError
from ._common import by_position, kept, module_getattr, names_of, refuses, with_missing

__all__ = [
    "Booster",
    "DMatrix",
    "QuantileDMatrix",
    "XGBClassifier",
    "XGBModel",
    "XGBRFClassifier",
    "XGBRFRegressor",
    "XGBRanker",
    "XGBRegressor",
    "XGBoostError",
]

__getattr__ = module_getattr("xgboost", {"train", "cv", "plot_importance", "plot_tree", "to_graphviz", "build_info"})


class DMatrix:
    """Rows with their labels, weights, base margins and column names. The rows are not copied, unless `missing` is a
    number. `label`, `weight` and the other options of training have no effect on predictions.
    """

    def __init__(
        self,
        data,
        label=None,
        *,
        weight=None,
        base_margin=None,
        missing=None,
        silent=False,
        feature_names=None,
        feature_types=None,
        nthread=None,
        group=None,
        qid=None,
        label_lower_bound=None,
        label_upper_bound=None,
        feature_weights=None,
        enable_categorical=True,
        data_split_mode=0,
        **_,
    ):
        if isinstance(data, (str, os.PathLike)):
            raise XGBoostError("DMatrix: rows can't be a path; read the file first, for example with pandas or polars")
        data = _table(data)
        self.data = with_missing(data, missing)
        self._label, self._weight, self._base_margin = label, weight, base_margin
        self.feature_names = list(feature_names) if feature_names is not None else names_of(data)
        self.feature_types = feature_types
        # With mode 1, each of several workers holds some of the columns.
        self._by_columns = int(data_split_mode) == 1

    def num_row(self):
        """Return the number of rows."""
        return int(self.data.shape[0] if hasattr(self.data, "shape") else len(self.data))

    def num_col(self):
        """Return the number of columns."""
        return int(self.data.shape[1])

    def get_label(self):
        """Return the labels, float32."""
        return numpy.asarray([] if self._label is None else self._label, numpy.float32)

    def get_weight(self):
        """Return the weights, float32."""
        return numpy.asarray([] if self._weight is None else self._weight, numpy.float32)

    def get_base_margin(self):
        """Return the base margins, float32."""
        return numpy.asarray([] if self._base_margin is None else self._base_margin, numpy.float32)

    def set_base_margin(self, margin):
        """Set the margin at which the sum of each row starts."""
        self._base_margin = margin

    def set_info(self, *, label=None, weight=None, base_margin=None, feature_names=None, feature_types=None, **_):
        """Set labels, weights, base margins, names or types of columns."""
        if label is not None:
            self._label = label
        if weight is not None:
            self._weight = weight
        if base_margin is not None:
            self._base_margin = base_margin
        if feature_names is not None:
            self.feature_names = list(feature_names)
        if feature_types is not None:
            self.feature_types = feature_types

    for _name in "save_binary slice get_data get_quantile_cut set_group set_label set_weight".split():
        locals()[_name] = refuses("xgboost", "DMatrix", _name)
    del _name


QuantileDMatrix = DMatrix


class Booster:
    """A trained model of XGBoost.

    `model_file` is the path of a model file, its bytes, or a Booster of the package xgboost. Of `params`, `nthread` and
    `n_jobs` set the maximum number of threads; the others have no effect.
    """

    def __init__(self, params=None, cache=None, model_file=None):
        # The rounds of a slice, from the first up to the last but excluding it; None for all.
        self._models, self._raw, self._rounds = {}, None, None
        self._threads = None
        self.set_param(params or {})
        if model_file is not None:
            self.load_model(model_file)

    def load_model(self, fname):
        """Load a model from the path of a file, its bytes, or a Booster."""
        if hasattr(fname, "save_raw") and not isinstance(fname, Booster):
            fname = fname.save_raw("ubj")
        self._rounds = None
        if isinstance(fname, Booster):
            self._raw, self._rounds = fname._raw, fname._rounds
        elif isinstance(fname, (bytes, bytearray, memoryview)):
            self._raw = bytes(fname)
        else:
            self._raw = pathlib.Path(fname).read_bytes()
        self._models = {}
        self._model()

    def save_model(self, fname):
        """Write the bytes that `save_raw` returns, whatever the ending of the name."""
        pathlib.Path(fname).write_bytes(self.save_raw())

    def save_raw(self, raw_format="ubj"):
        """Return the bytes of the model file that was loaded, whatever `raw_format`.

        If the Booster is a slice of rounds, they are the bytes of a `.fangorn` file.
        """
        model = self._model()
        return bytearray(self._raw if self._rounds is None else model.to_bytes())

    def set_param(self, params, value=None):
        """Set parameters. `nthread` and `n_jobs` set the maximum number of threads; the others have no effect."""
        items = dict(params) if not isinstance(params, str) else {params: value}
        threads = items.get("nthread", items.get("n_jobs"))
        if threads is not None:
            self._threads, self._models = (int(threads) if int(threads) > 0 else None), {}

    def _model(self, iteration_range=(0, 0)):
        if self._raw is None:
            raise XGBoostError("the Booster holds no model; call load_model, because fangorn only predicts")
        key = (int(iteration_range[0]), int(iteration_range[1]))
        rounds = None if key == (0, 0) else key
        if self._rounds is not None:
            first, end = self._rounds
            if not 0 <= key[0] < (key[1] or end - first) <= end - first:
                raise XGBoostError(f"iteration_range {key}: the slice has {end - first} rounds; give a range of these")
            rounds = (first + key[0], first + key[1] if key[1] else end)
        return kept(
            self._models, key, lambda: _load.loads(self._raw, threads=self._threads, iteration_range=rounds)
        )

    @property
    def model(self):
        """The `fangorn.Model` of all rounds."""
        return self._model()

    @property
    def feature_names(self):
        """The names of the columns, or None if the model has none."""
        return self._model().feature_names

    @property
    def best_iteration(self):
        """The best round of early stopping, counted from 0. Without early stopping it raises AttributeError."""
        best = self._model().best_iteration
        if best is None:
            raise AttributeError("`best_iteration` is only defined when early stopping is used.")
        return best

    def num_features(self):
        """Return the number of columns."""
        return self._model().n_features

    def num_boosted_rounds(self):
        """Return the number of boosting rounds."""
        model = self._model()
        if self._rounds is not None:
            return self._rounds[1] - self._rounds[0]
        # A range beyond the last round is refused.
        low, high = 0, model.n_trees
        while low < high:
            middle = (low + high + 1) // 2
            try:
                _load.loads(self._raw, threads=1, iteration_range=(middle - 1, middle))
                low = middle
            except XGBoostError:
                high = middle - 1
        return low

    def predict(
        self,
        data,
        *,
        output_margin=False,
        pred_leaf=False,
        pred_contribs=False,
        approx_contribs=False,
        pred_interactions=False,
        validate_features=True,
        training=False,
        iteration_range=(0, 0),
        strict_shape=False,
    ):
        """Predict rows, as `xgboost.Booster.predict` does."""
        if not isinstance(data, DMatrix):
            raise TypeError(f"Expecting data to be a DMatrix object, got: {type(data)}; call inplace_predict instead")
        if sum(map(bool, (output_margin, pred_contribs, pred_interactions, pred_leaf))) > 1:
            raise ValueError("One type of prediction at a time.")
        if approx_contribs:
            raise XGBoostError("approx_contribs is not supported; leave it out for the exact contributions")
        if training:
            raise XGBoostError("training=True is not supported, because fangorn drops no trees; leave it out")
        model = self._model(iteration_range)
        if data._by_columns and data.num_col() != model.n_features:
            raise XGBoostError(
                f"data_split_mode: the rows have {data.num_col()} of the model's {model.n_features} columns; "
                "hand over whole rows, because fangorn asks no other worker"
            )
        if validate_features:
            self._validate(data.feature_names)
        rows, margin = by_position(model, data.data), data._base_margin
        if _is_empty(rows):
            return _nothing()
        if pred_leaf:
            return _leaves(model, rows, strict_shape)
        if pred_contribs or pred_interactions:
            found = model.interactions(rows) if pred_interactions else model.contributions(rows)
            return found[:, None] if strict_shape and model.n_outputs == 1 else found
        return _sums(model, rows, margin, output_margin, strict_shape)

    def inplace_predict(
        self,
        data,
        *,
        iteration_range=(0, 0),
        predict_type="value",
        missing=numpy.nan,
        validate_features=True,
        base_margin=None,
        strict_shape=False,
    ):
        """Predict rows without a DMatrix, as `xgboost.Booster.inplace_predict` does."""
        if predict_type not in ("value", "margin"):
            raise ValueError(f"predict_type is {predict_type!r}; give `value` or `margin`")
        model = self._model(iteration_range)
        if isinstance(data, numpy.ndarray) and missing != missing and base_margin is None and not strict_shape:
            # The path with the least overhead.
            if data.ndim == 2 and data.shape[1] == model.n_features and len(data):
                return model.margin(data) if predict_type == "margin" else model.predict(data)
        data = _table(data)
        if validate_features:
            names = names_of(data)
            if names is not None:
                self._validate(names)
            if hasattr(data, "shape") and data.shape[1] != model.n_features:
                raise ValueError(f"Feature shape mismatch, expected: {model.n_features}, got {data.shape[1]}")
        rows = with_missing(by_position(model, data), missing)
        if _is_empty(rows):
            return _nothing()
        return _sums(model, rows, base_margin, predict_type == "margin", strict_shape)

    def _validate(self, names):
        expected = self.feature_names
        if expected is None or names == expected:
            return
        if names is None:
            fields = ", ".join(expected)
            raise ValueError(f"data did not contain feature names, but the following fields are expected: {fields}")
        message = f"feature_names mismatch: {expected} {names}"
        lacking, others = set(expected) - set(names), set(names) - set(expected)
        if lacking:
            message += "\nexpected " + ", ".join(sorted(lacking)) + " in input data"
        if others:
            message += "\ntraining data did not have the following fields: " + ", ".join(sorted(others))
        raise ValueError(message)

    def __getitem__(self, rounds):
        """Return a Booster with some of the rounds: an index, a slice without a step, or all with `...`.

        As with XGBoost, numbers count from the first round alone, and a slice up to 0 goes to the last round.
        """
        count = self.num_boosted_rounds()
        if isinstance(rounds, (int, numpy.integer)):
            rounds = slice(int(rounds), int(rounds) + 1)
        elif rounds is ...:
            rounds = slice(None)
        elif isinstance(rounds, tuple):
            raise ValueError("a Booster has one dimension, its rounds; hand over one index or slice")
        elif not isinstance(rounds, slice):
            raise TypeError(f"rounds can't be {type(rounds).__name__}; hand over an index or a slice")
        if rounds.step not in (None, 1):
            raise XGBoostError("a slice of a Booster can't have a step; leave it out")
        begin = 0 if rounds.start in (None, ...) else int(rounds.start)
        end = None if rounds.stop in (None, ...) else int(rounds.stop)
        if begin < 0 or (end or 0) < 0:
            raise XGBoostError(f"rounds can't be negative; count from the first of {count}")
        end = None if begin == end == 0 else end
        if begin == count if end is None else begin >= end:
            raise XGBoostError(f"a slice of no rounds; the Booster has {count}")
        if max(begin, end or 0) > count:
            raise IndexError(f"a slice beyond the last of {count} rounds")
        end = count if end is None else end
        cut = self.copy()
        first = 0 if self._rounds is None else self._rounds[0]
        cut._rounds, cut._models = (first + begin, first + end), {}
        return cut

    def __copy__(self):
        copied = Booster()
        copied.__setstate__(self.__getstate__())
        return copied

    def __deepcopy__(self, _):
        return self.__copy__()

    copy = __copy__

    def __getstate__(self):
        return {"_raw": self._raw, "_threads": self._threads, "_rounds": self._rounds}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._models = {}

    for _name in (
        "update boost eval eval_set get_dump dump_model get_score get_fscore trees_to_dataframe load_config save_config "
        "attr attributes set_attr get_split_value_histogram reset"
    ).split():
        locals()[_name] = refuses("xgboost", "Booster", _name)
    del _name


def _table(data):
    """Turn lists into a matrix, and a series or an array of one dimension into a table of one column."""
    if isinstance(data, (list, tuple)):
        data = numpy.asarray(data)
    if isinstance(data, numpy.ndarray):
        return data.reshape(-1, 1) if data.ndim == 1 else data
    if hasattr(data, "to_frame") and not hasattr(data, "columns"):
        return data.to_frame()
    return data


def _is_empty(rows):
    return getattr(rows, "shape", (1,))[0] == 0


def _nothing():
    """Return the prediction of no rows. XGBoost gives it one dimension, whatever is predicted."""
    return numpy.empty(0, numpy.float32)


def _sums(model, rows, base_margin, margin, strict_shape):
    predict = model.margin if margin else model.predict
    found = predict(rows) if base_margin is None or numpy.size(base_margin) == 0 else predict(rows, base_margin=base_margin)
    return found[:, None] if strict_shape and found.ndim == 1 else found


def _leaves(model, rows, strict_shape):
    found = model.leaf(rows).astype(numpy.float32)
    if strict_shape:
        outputs = model.tree_outputs
        groups = 1 if outputs is None or model.n_trees == 0 else model.n_outputs
        # Trees of a round come output by output, those of one output together.
        same = outputs is not None and model.n_trees > 0 and int(numpy.argmax(outputs != outputs[0])) or 1
        together = same if groups > 1 else 1
        return found.reshape(len(found), -1, groups, together)
    return found[:, 0] if found.shape[1] == 1 else found


class XGBModel:
    """An estimator of XGBoost's scikit-learn interface that only predicts.

    `model` is what `from_model` takes. Its `n_jobs` holds if none is given, and its `missing` if none or NaN is given. `load_model` gives the
    estimator another model.
    """

    def __init__(self, model=None, /, *, missing=numpy.nan, n_jobs=None, **params):
        self.missing, self.n_jobs, self._params, self._booster = missing, n_jobs, params, None
        if model is not None:
            self._take(model)

    @classmethod
    def from_model(cls, model):
        """Make an estimator from a fitted one of the package xgboost, or from a Booster."""
        estimator = cls()
        estimator._take(model)
        return estimator

    def _take(self, model):
        missing = getattr(model, "missing", None)
        if self.missing != self.missing and missing is not None:
            self.missing = missing
        if self.n_jobs is None:
            self.n_jobs = getattr(model, "n_jobs", None)
        self.load_model(model.get_booster() if hasattr(model, "get_booster") else model)

    def load_model(self, fname):
        """Load a model from the path of a file, its bytes, or a Booster."""
        self._booster = Booster({} if self.n_jobs is None else {"nthread": self.n_jobs}, model_file=fname)

    def save_model(self, fname):
        """Write the bytes of the model file that was loaded."""
        self.get_booster().save_model(fname)

    def get_booster(self):
        """Return the Booster of the estimator."""
        if self._booster is None:
            raise XGBoostError("need to call load_model beforehand, because fangorn only predicts")
        return self._booster

    def get_params(self, deep=True):
        """Return the parameters of the constructor and of `set_params`."""
        return {"missing": self.missing, "n_jobs": self.n_jobs, **self._params}

    def set_params(self, **params):
        """Set parameters. Only `missing` and `n_jobs` have an effect."""
        for name in ("missing", "n_jobs"):
            if name in params:
                setattr(self, name, params.pop(name))
        if self._booster is not None and self.n_jobs is not None:
            self._booster.set_param("nthread", self.n_jobs)
        self._params.update(params)
        return self

    @property
    def objective(self):
        """The objective that the model was trained with."""
        return self.get_booster().model.objective

    @property
    def best_iteration(self):
        """The best round of early stopping, counted from 0."""
        return self.get_booster().best_iteration

    @property
    def n_features_in_(self):
        """The number of columns."""
        return self.get_booster().num_features()

    @property
    def feature_names_in_(self):
        """The names of the columns."""
        names = self.get_booster().feature_names
        if names is None:
            raise AttributeError("`feature_names_in_` is defined only when `X` has feature names that are all strings.")
        return numpy.array(names)

    def get_num_boosting_rounds(self):
        """Return the number of boosting rounds."""
        return self.get_booster().num_boosted_rounds()

    def __sklearn_is_fitted__(self):
        return self._booster is not None

    def _rounds(self, iteration_range):
        if iteration_range is None or iteration_range[1] == 0:
            best = self.get_booster().model.best_iteration
            return (0, 0) if best is None else (0, best + 1)
        return iteration_range

    def _predict(self, X, margin, validate_features, base_margin, iteration_range):
        return self.get_booster().inplace_predict(
            X,
            iteration_range=self._rounds(iteration_range),
            predict_type="margin" if margin else "value",
            missing=self.missing,
            base_margin=base_margin,
            validate_features=validate_features,
        )

    def predict(self, X, *, output_margin=False, validate_features=True, base_margin=None, iteration_range=None):
        """Predict rows, as the estimator of the package xgboost does."""
        return self._predict(X, output_margin, validate_features, base_margin, iteration_range)

    def apply(self, X, iteration_range=None):
        """Return the id of the leaf that each row reaches in each tree."""
        rows = DMatrix(X, missing=self.missing)
        return self.get_booster().predict(rows, pred_leaf=True, iteration_range=self._rounds(iteration_range))

    for _name in "fit evals_result feature_importances_ coef_ intercept_".split():
        if not _name.endswith("_"):
            locals()[_name] = refuses("xgboost", "XGBModel", _name)
    del _name


class XGBRegressor(XGBModel):
    """A regressor of XGBoost that only predicts."""


class XGBRFRegressor(XGBRegressor):
    """A random forest of XGBoost for regression that only predicts."""


class XGBRanker(XGBModel):
    """A ranker of XGBoost that only predicts."""

    def _predict(self, X, *arguments):
        if hasattr(X, "columns") and hasattr(X, "drop") and "qid" in list(X.columns):
            X = X.drop(columns="qid") if hasattr(X, "iloc") else X.drop("qid")
        return super()._predict(X, *arguments)


class XGBClassifier(XGBModel):
    """A classifier of XGBoost that only predicts."""

    @property
    def n_classes_(self):
        """The number of classes."""
        model = self.get_booster().model
        return model.n_outputs if model.objective.startswith("multi:") else 2

    @property
    def classes_(self):
        """The labels of the classes: the integers from 0 on."""
        return numpy.arange(self.n_classes_)

    def predict(self, X, *, output_margin=False, validate_features=True, base_margin=None, iteration_range=None):
        """Predict the class of each row, or margins if `output_margin` is true."""
        found = self._predict(X, output_margin, validate_features, base_margin, iteration_range)
        if output_margin:
            return found
        if found.ndim > 1 and self.n_classes_ != 2:
            return numpy.argmax(found, axis=1)
        if found.ndim > 1 and found.shape[1] != 1:
            return (found > 0.5).astype(numpy.float64)
        if self.objective == "multi:softmax":
            return found.astype(numpy.int32)
        return (found > 0.5).astype(numpy.int64)

    def predict_proba(self, X, validate_features=True, base_margin=None, iteration_range=None):
        """Predict the probability of each class: `(n, n_classes)`."""
        if self.objective == "multi:softmax":
            margins = self._predict(X, True, validate_features, base_margin, iteration_range)
            powers = numpy.exp(margins - margins.max(axis=1, keepdims=True))
            return powers / powers.sum(axis=1, keepdims=True)
        found = self._predict(X, False, validate_features, base_margin, iteration_range)
        if found.ndim == 2:
            return found
        return numpy.vstack((1.0 - found, found)).transpose()


class XGBRFClassifier(XGBClassifier):
    """A random forest of XGBoost for classification that only predicts."""
