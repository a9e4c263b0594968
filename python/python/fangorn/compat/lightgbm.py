"""LightGBM's classes, which predict with fangorn.

    from fangorn.compat import lightgbm

    booster = lightgbm.Booster(model_file="model.txt")
    booster.predict(rows, pred_leaf=True)
"""

import os
import pathlib

import numpy

from .. import _load
from .._fangorn import Error as LightGBMError
from .._fangorn import Pipeline
from ._common import by_position, kept, module_getattr, names_of, refuses

__all__ = ["Booster", "LGBMClassifier", "LGBMModel", "LGBMRanker", "LGBMRegressor", "LightGBMError"]

__getattr__ = module_getattr("lightgbm", {"train", "cv", "plot_importance", "plot_tree", "plot_metric", "Dataset"})


class Booster:
    """A trained model of LightGBM.

    `model_file` is the path of a model file, or a Booster of the package lightgbm. `model_str` is the text of a model
    file. Of `params`, `num_threads` and `n_jobs` set the maximum number of threads; the others have no effect.
    """

    def __init__(self, params=None, train_set=None, model_file=None, model_str=None):
        if train_set is not None:
            refuses("lightgbm", "Booster", "train")()
        self.params = dict(params or {})
        threads = int(self.params.get("num_threads", self.params.get("n_jobs", 0)) or 0)
        self._threads = threads if threads > 0 else None
        self.best_iteration = -1
        if hasattr(model_file, "model_to_string"):
            self.best_iteration = model_file.best_iteration
            self._text = model_file.model_to_string(num_iteration=-1)
        elif model_file is not None:
            self._text = pathlib.Path(model_file).read_text(encoding="utf-8")
        elif model_str is not None:
            self._text = model_str
        else:
            raise TypeError("Need at least one training dataset or model file or model string to create Booster instance")
        self._models = {}
        self._model(0, -1)

    def _model(self, start, count):
        key = (int(start), int(count))
        rounds = None if key[0] == 0 and key[1] <= 0 else (key[0], key[0] + key[1] if key[1] > 0 else 0)
        options = {"threads": self._threads, "iteration_range": rounds}
        return kept(self._models, key, lambda: _load.loads(self._text, "lightgbm", **options))

    @property
    def model(self):
        """The `fangorn.Model` of all rounds, or the `fangorn.Pipeline` if the trees are linear."""
        return self._model(0, -1)

    def predict(
        self,
        data,
        start_iteration=0,
        num_iteration=None,
        raw_score=False,
        pred_leaf=False,
        pred_contrib=False,
        data_has_header=False,
        validate_features=False,
        **options,
    ):
        """Predict rows, as `lightgbm.Booster.predict` does."""
        if options.get("pred_early_stop"):
            raise LightGBMError("pred_early_stop is not supported; leave it out for the sums of all trees")
        if isinstance(data, (str, os.PathLike)):
            raise TypeError("rows can't be a path; read the file first, for example with pandas or polars")
        if num_iteration is None:
            num_iteration = self.best_iteration if start_iteration <= 0 else -1
        model = self._model(max(start_iteration, 0), self._count(start_iteration, num_iteration))
        if validate_features and names_of(data) not in (None, model.feature_names):
            raise LightGBMError(
                f"the names of the columns are {names_of(data)}, but the model's are {model.feature_names}; rename them"
            )
        if isinstance(data, list):
            data = numpy.asarray(data)
        rows = by_position(model, data)
        if pred_leaf:
            return model.leaf(rows).astype(numpy.int32)
        if pred_contrib:
            if isinstance(model, Pipeline):
                raise LightGBMError("pred_contrib is not supported for linear trees; use the package lightgbm")
            found = model.contributions(rows).astype(numpy.float64)
            if hasattr(data, "tocsr"):
                return _sparse(found, data)
            return found.reshape(len(found), -1)
        found = model.margin(rows) if raw_score else model.predict(rows)
        return found.astype(numpy.float64)

    def _count(self, start, count):
        left = self.num_iterations() - max(start, 0)
        return -1 if count <= 0 or count >= left else count

    def num_iterations(self):
        """Return the number of boosting rounds."""
        return self.num_trees() // self.num_model_per_iteration()

    current_iteration = num_iterations

    def num_trees(self):
        """Return the number of trees."""
        return self._text.count("\nTree=")

    def num_model_per_iteration(self):
        """Return the number of trees in a boosting round."""
        return self._field("num_tree_per_iteration")

    def num_feature(self):
        """Return the number of columns."""
        return self.model.n_features

    def feature_name(self):
        """Return the names of the columns."""
        return self.model.feature_names

    def _field(self, name):
        start = self._text.index(f"\n{name}=") + len(name) + 2
        return int(self._text[start : self._text.index("\n", start)])

    def model_to_string(self, num_iteration=None, start_iteration=0, importance_type="split"):
        """Return the text of the model file that was loaded. A choice of rounds is refused."""
        if start_iteration > 0 or num_iteration not in (None, -1, 0):
            refuses("lightgbm", "Booster", "model_to_string of some rounds")()
        return self._text

    def save_model(self, filename, num_iteration=None, start_iteration=0, importance_type="split"):
        """Write the text of the model file that was loaded. A choice of rounds is refused."""
        pathlib.Path(filename).write_text(self.model_to_string(num_iteration, start_iteration), encoding="utf-8")
        return self

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "_models"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._models = {}

    for _name in (
        "update refit eval eval_train eval_valid dump_model feature_importance get_leaf_output set_leaf_output "
        "trees_to_dataframe rollback_one_iter shuffle_models get_split_value_histogram add_valid reset_parameter"
    ).split():
        locals()[_name] = refuses("lightgbm", "Booster", _name)
    del _name


def _sparse(contributions, rows):
    """Return contributions in the sparse format of the rows: one matrix, or a list with one for each output."""
    from scipy.sparse import csc_matrix, csr_matrix

    kind = csc_matrix if rows.format == "csc" else csr_matrix
    dtype = numpy.float32 if rows.dtype == numpy.float32 else numpy.float64
    outputs = [contributions] if contributions.ndim == 2 else list(contributions.transpose(1, 0, 2))
    found = [kind(output.astype(dtype)) for output in outputs]
    return found[0] if len(found) == 1 else found


class LGBMModel:
    """An estimator of LightGBM's scikit-learn interface that only predicts. `model` is what `from_model` takes."""

    def __init__(self, model=None, /, **params):
        self._params, self._booster = params, None
        # Whether the objective is a Python function. Its sums then get no transform.
        self._custom = False
        if model is not None:
            self._take(model)

    @classmethod
    def from_model(cls, model):
        """Make an estimator from a fitted one of the package lightgbm, a Booster, or the path of a model file."""
        estimator = cls()
        estimator._take(model)
        return estimator

    def _take(self, model):
        if hasattr(model, "get_params"):
            # The parameters of training, one of which is for predicting, too.
            params = model.get_params()
            if "pred_early_stop" in params:
                self._params.setdefault("pred_early_stop", params["pred_early_stop"])
            self._custom = callable(params.get("objective"))
        booster = getattr(model, "booster_", model)
        self._booster = booster if isinstance(booster, Booster) else Booster(model_file=booster)
        labels = getattr(model, "classes_", None)
        if labels is not None:
            self.classes_ = numpy.asarray(labels)

    @property
    def booster_(self):
        """The Booster of the estimator."""
        if self._booster is None:
            raise LightGBMError("the estimator holds no model; make it with from_model, because fangorn only predicts")
        return self._booster

    @property
    def n_features_in_(self):
        """The number of columns."""
        return self.booster_.num_feature()

    n_features_ = n_features_in_

    @property
    def feature_name_(self):
        """The names of the columns."""
        return self.booster_.feature_name()

    def get_params(self, deep=True):
        """Return the parameters of the constructor and of `set_params`."""
        return dict(self._params)

    def set_params(self, **params):
        """Set parameters. Of these only `pred_early_stop` has an effect: it makes `predict` refuse."""
        self._params.update(params)
        return self

    def __sklearn_is_fitted__(self):
        return self._booster is not None

    def predict(
        self,
        X,
        raw_score=False,
        start_iteration=0,
        num_iteration=None,
        pred_leaf=False,
        pred_contrib=False,
        validate_features=False,
        **options,
    ):
        """Predict rows, as the estimator of the package lightgbm does."""
        if isinstance(X, numpy.ndarray) and X.ndim == 2 and X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"Number of features of the model must match the input. Model n_features_ is {self.n_features_in_} and input "
                f"n_features is {X.shape[1]}"
            )
        return self.booster_.predict(
            X,
            raw_score=raw_score,
            start_iteration=start_iteration,
            num_iteration=num_iteration,
            pred_leaf=pred_leaf,
            pred_contrib=pred_contrib,
            validate_features=validate_features,
            pred_early_stop=options.get("pred_early_stop", self._params.get("pred_early_stop")),
        )

    fit = refuses("lightgbm", "LGBMModel", "fit")


class LGBMRegressor(LGBMModel):
    """A regressor of LightGBM that only predicts."""


class LGBMRanker(LGBMModel):
    """A ranker of LightGBM that only predicts."""


class LGBMClassifier(LGBMModel):
    """A classifier of LightGBM that only predicts."""

    classes_ = None

    @property
    def n_classes_(self):
        """The number of classes."""
        if self.classes_ is not None:
            return len(self.classes_)
        count = self.booster_.num_model_per_iteration()
        return 2 if count == 1 else count

    def predict(
        self,
        X,
        raw_score=False,
        start_iteration=0,
        num_iteration=None,
        pred_leaf=False,
        pred_contrib=False,
        validate_features=False,
        **others,
    ):
        """Predict the class of each row, by its label. With an option for other results it returns those."""
        options = dict(
            others,
            raw_score=raw_score,
            start_iteration=start_iteration,
            num_iteration=num_iteration,
            pred_leaf=pred_leaf,
            pred_contrib=pred_contrib,
            validate_features=validate_features,
        )
        found = self.predict_proba(X, **options)
        if raw_score or pred_leaf or pred_contrib or self._custom:
            return found
        classes = numpy.argmax(found, axis=1)
        return classes if self.classes_ is None else self.classes_[classes]

    def predict_proba(
        self,
        X,
        raw_score=False,
        start_iteration=0,
        num_iteration=None,
        pred_leaf=False,
        pred_contrib=False,
        validate_features=False,
        **options,
    ):
        """Predict the probability of each class, float64: `(n, n_classes)`."""
        found = super().predict(
            X, raw_score, start_iteration, num_iteration, pred_leaf, pred_contrib, validate_features, **options
        )
        if raw_score or pred_leaf or pred_contrib or self._custom or found.ndim > 1:
            return found
        return numpy.vstack((1.0 - found, found)).transpose()
