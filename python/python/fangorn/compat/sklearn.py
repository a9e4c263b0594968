"""scikit-learn's trees, forests and boosting, which predict with fangorn.

    from fangorn.compat.sklearn import RandomForestClassifier

    forest = RandomForestClassifier(fitted)
    forest.predict_proba(rows)

`wrap(fitted)` chooses the class by the class of the fitted estimator.
"""

import numpy

from .. import _load
from .._fangorn import Error, Model
from ._common import by_position, module_getattr, refuses

__getattr__ = module_getattr("sklearn", set())


class _Estimator:
    """An estimator that only predicts. `model` is what `from_model` takes."""

    def __init__(self, model=None, /, **params):
        self._params, self._model = params, None
        if model is not None:
            self._take(model)

    @classmethod
    def from_model(cls, model):
        """Make an estimator from a fitted one of scikit-learn, or from the path of a file of fangorn's exporter."""
        estimator = cls()
        estimator._take(model)
        return estimator

    def _take(self, model):
        of_sklearn, own = hasattr(model, "get_params"), type(self).__name__
        if of_sklearn and type(model).__name__ != own:
            raise TypeError(f"{type(model).__name__} is no {own}; use fangorn.compat.sklearn.wrap")
        self._model = _load.from_sklearn(model) if of_sklearn else _load.load(model)
        if not isinstance(self._model, Model):
            raise Error(
                "the estimator is more than one forest, for example a classifier of several targets; call "
                "fangorn.from_sklearn"
            )
        for name in "classes_ n_features_in_ feature_names_in_ n_outputs_ n_classes_ offset_".split():
            if of_sklearn and hasattr(model, name):
                setattr(self, name, getattr(model, name))

    @property
    def model(self):
        """The `fangorn.Model` of the estimator."""
        if self._model is None:
            raise Error("the estimator holds no model; make it with from_model, because fangorn only predicts")
        return self._model

    def get_params(self, deep=True):
        """Return the parameters of the constructor."""
        return dict(self._params)

    def __sklearn_is_fitted__(self):
        return self._model is not None

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        if name == "classes_" and self.model.classes is not None:
            return self.model.classes
        if name == "n_features_in_":
            return self.model.n_features
        if name == "feature_names_in_" and self.model.feature_names:
            return numpy.array(self.model.feature_names, object)
        # An error that is an AttributeError, so that `hasattr` says no.
        return refuses("sklearn", type(self).__name__, name)()

    def _rows(self, X):
        if isinstance(X, numpy.ndarray) and X.ndim == 2 and X.shape[1] != self.model.n_features:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.model.n_features} features as input."
            )
        return by_position(self.model, X)

    fit = refuses("sklearn", "Estimator", "fit")


class _Applies:
    def apply(self, X):
        """Return the number of the leaf that each row reaches in each tree."""
        return self.model.leaf(self._rows(X)).astype(numpy.int64)


class _Regressor(_Estimator):
    def predict(self, X):
        """Predict values, float64."""
        return self.model.predict(self._rows(X)).astype(numpy.float64)


class _Classifier(_Estimator):
    def predict(self, X):
        """Predict the class of each row, by its label."""
        found = self.model.predict_class(self._rows(X))
        labels = getattr(self, "classes_", None)
        return found if labels is None else found.astype(numpy.asarray(labels).dtype)

    def predict_proba(self, X):
        """Predict the probability of each class, float64."""
        found = self.model.predict(self._rows(X)).astype(numpy.float64)
        return found if found.ndim == 2 else found.reshape(-1, 1)

    def predict_log_proba(self, X):
        """Predict the logarithm of the probability of each class, float64."""
        with numpy.errstate(divide="ignore"):
            return numpy.log(self.predict_proba(X))


class _Decides:
    def decision_function(self, X):
        """Return the margins, float64."""
        return self.model.margin(self._rows(X)).astype(numpy.float64)


def _class(name, *bases):
    return type(name, bases, {"__doc__": f"scikit-learn's {name}, which only predicts.", "__module__": __name__})


class _Tree:
    """A tree. Its methods take scikit-learn's option `check_input`, which has no effect."""

    def apply(self, X, check_input=True):
        """Return the number of the leaf that each row reaches."""
        return self.model.leaf(self._rows(X))[:, 0].astype(numpy.int64)

    def predict(self, X, check_input=True):
        """Predict values, or the class of each row by its label."""
        return super().predict(X)


class _TreeClassifier(_Tree):
    def predict_proba(self, X, check_input=True):
        """Predict the probability of each class, float64."""
        return super().predict_proba(X)


class _Bag:
    """A bag. Like scikit-learn's, unless told to route metadata, its methods refuse options for the bag's estimators."""

    def _no_metadata(self, params):
        if params:
            raise Error(f"{type(self).__name__}: {', '.join(params)} can't be passed to the trees of a bag; leave them out")

    def predict(self, X, **params):
        """Predict values, or the class of each row by its label."""
        self._no_metadata(params)
        return super().predict(X)


class _BagClassifier(_Bag):
    def predict_proba(self, X, **params):
        """Predict the probability of each class, float64."""
        self._no_metadata(params)
        return super().predict_proba(X)

    def predict_log_proba(self, X, **params):
        """Predict the logarithm of the probability of each class, float64."""
        self._no_metadata(params)
        return super().predict_log_proba(X)


class _AppliesBoosting:
    def apply(self, X):
        """Return the number of the leaf that each row reaches in each tree, float64."""
        found = self.model.leaf(self._rows(X)).astype(numpy.float64)
        if not isinstance(self, _Classifier):
            return found
        return found.reshape(len(found), -1, self.model.n_outputs)


RandomForestClassifier = _class("RandomForestClassifier", _Applies, _Classifier)
ExtraTreesClassifier = _class("ExtraTreesClassifier", _Applies, _Classifier)
RandomForestRegressor = _class("RandomForestRegressor", _Applies, _Regressor)
ExtraTreesRegressor = _class("ExtraTreesRegressor", _Applies, _Regressor)
DecisionTreeClassifier = _class("DecisionTreeClassifier", _TreeClassifier, _Classifier)
ExtraTreeClassifier = _class("ExtraTreeClassifier", _TreeClassifier, _Classifier)
DecisionTreeRegressor = _class("DecisionTreeRegressor", _Tree, _Regressor)
ExtraTreeRegressor = _class("ExtraTreeRegressor", _Tree, _Regressor)
BaggingClassifier = _class("BaggingClassifier", _BagClassifier, _Classifier)
BaggingRegressor = _class("BaggingRegressor", _Bag, _Regressor)
GradientBoostingClassifier = _class("GradientBoostingClassifier", _AppliesBoosting, _Decides, _Classifier)
GradientBoostingRegressor = _class("GradientBoostingRegressor", _AppliesBoosting, _Regressor)
HistGradientBoostingClassifier = _class("HistGradientBoostingClassifier", _Decides, _Classifier)
HistGradientBoostingRegressor = _class("HistGradientBoostingRegressor", _Regressor)


class IsolationForest(_Estimator):
    """scikit-learn's IsolationForest, which only predicts."""

    def predict(self, X):
        """Predict 1 for inliers and -1 for outliers."""
        return self.model.predict_class(self._rows(X)).astype(numpy.int64)

    def score_samples(self, X):
        """Return the opposite of the anomaly score, float64."""
        return -self.model.predict(self._rows(X)).astype(numpy.float64)

    def decision_function(self, X):
        """Return the score minus the offset, float64. It is negative for outliers."""
        return self.score_samples(X) - self.offset_


_CLASSES = {
    name: value for name, value in list(globals().items()) if isinstance(value, type) and issubclass(value, _Estimator)
}
__all__ = ["wrap", *sorted(name for name in _CLASSES if not name.startswith("_"))]


def wrap(fitted):
    """Make an estimator of the class with the same name from a fitted one."""
    found = _CLASSES.get(type(fitted).__name__)
    if found is None:
        raise TypeError(
            f"{type(fitted).__name__} has no class in fangorn.compat.sklearn; call fangorn.from_sklearn, which takes "
            "more estimators, and pipelines"
        )
    return found.from_model(fitted)
