"""Wraps the classes of XGBoost, LightGBM, treelite and scikit-learn, so that fangorn makes each prediction, too.

Training stays with the library. A model goes over as the library itself saves it, whenever it predicts.
"""

import ctypes
import functools
import hashlib
import inspect
import os

from fangorn.compat import lightgbm as our_lightgbm
from fangorn.compat import sklearn as our_sklearn
from fangorn.compat import treelite as our_treelite
from fangorn.compat import xgboost as our_xgboost

# Models that are kept from one prediction to the next.
_MOST_MODELS = 32


class _Kept:
    """Models by their bytes."""

    def __init__(self):
        self.models = {}

    def get(self, data, kind, make):
        data = data.encode() if isinstance(data, str) else bytes(data)
        key = (hashlib.sha256(data).digest(), kind)
        if key not in self.models:
            if len(self.models) >= _MOST_MODELS:
                self.models.clear()
            self.models[key] = make()
        return self.models[key]


def wrap(owner, name, make):
    """Put in place of a method what `make` makes of it."""
    method = getattr(owner, name)
    setattr(owner, name, functools.wraps(method)(make(method)))


def arguments_of(method, *arguments, **options):
    """Return a call's arguments by name, without `self`."""
    bound = inspect.signature(method).bind(*arguments, **options).arguments
    bound.pop("self", None)
    return {**bound, **bound.pop("kwargs", {})}


# XGBoost


def redirect_xgboost(record):
    """Wrap XGBoost's Booster and estimators."""
    import xgboost

    kept = _Kept()
    for matrix in (xgboost.DMatrix, xgboost.QuantileDMatrix):
        wrap(matrix, "__init__", _remembering)
    for name in ("update", "boost"):
        wrap(xgboost.Booster, name, record.without)
    wrap(xgboost.Booster, "__getitem__", lambda method: _cut(kept, method))
    for name in ("predict", "inplace_predict"):
        wrap(xgboost.Booster, name, lambda method: _xgboost_booster(record, kept, method))
    methods = [(xgboost.XGBModel, "predict"), (xgboost.XGBModel, "apply"), (xgboost.XGBRanker, "predict")]
    methods += [(xgboost.XGBRanker, "apply"), (xgboost.XGBClassifier, "predict"), (xgboost.XGBClassifier, "predict_proba")]
    for owner, name in methods:
        wrap(owner, name, lambda method: _xgboost_estimator(record, kept, method))


def _remembering(method):
    @functools.wraps(method)
    def __init__(self, *arguments, **options):
        method(self, *arguments, **options)
        # A class that calls the one above it is the last to write.
        self._foreign = arguments_of(method, self, *arguments, **options)

    return __init__


def has_rows(theirs):
    """Whether the rows of XGBoost's DMatrix can be had; those in external memory can't."""
    import xgboost

    data = getattr(theirs, "_foreign", {}).get("data")
    if data is not None and not isinstance(data, (str, os.PathLike, ctypes.c_void_p, xgboost.DataIter)):
        return True
    try:
        theirs.get_data()
    except xgboost.core.XGBoostError:
        return False
    return True


def our_matrix(theirs):
    """Make fangorn's DMatrix of what XGBoost's was made of, or of what that one holds if it was not made of rows."""
    import xgboost

    options = dict(getattr(theirs, "_foreign", {}))
    data = options.pop("data", None)
    if data is None or isinstance(data, (str, os.PathLike, ctypes.c_void_p, xgboost.DataIter)):
        data = theirs.get_data()
        options = {"feature_types": theirs.feature_types}
    margin = theirs.get_base_margin()
    if margin.size and options.get("base_margin") is None:
        options["base_margin"] = margin
    ours = our_xgboost.DMatrix(data, **options)
    if theirs.feature_names is not None and ours.feature_names is None:
        ours.feature_names = theirs.feature_names
    return ours


def _our_booster(kept, theirs):
    raw = theirs.save_raw("ubj")
    cut = getattr(theirs, "_foreign_cut", None)
    if cut is not None and cut[1] == raw:
        return cut[0]
    return kept.get(raw, "Booster", lambda: our_xgboost.Booster(model_file=bytes(raw)))


def _cut(kept, method):
    def __getitem__(self, rounds):
        theirs = method(self, rounds)
        try:
            # fangorn cuts, too, as long as nobody trains on.
            theirs._foreign_cut = (_our_booster(kept, self)[rounds], theirs.save_raw("ubj"))
        except ValueError:
            pass
        return theirs

    return __getitem__


def _xgboost_booster(record, kept, method):
    name = method.__name__

    def predict(self, *arguments, **options):
        if not record.is_nested():
            data = arguments_of(method, self, *arguments, **options)["data"]
            if hasattr(data, "get_base_margin") and not has_rows(data):
                record.leave("xgboost: rows in external memory, of which no copy can be had")
                return method(self, *arguments, **options)

        def ours():
            given = arguments_of(method, self, *arguments, **options)
            if name == "predict" and hasattr(given["data"], "get_base_margin"):
                given["data"] = our_matrix(given["data"])
            return getattr(_our_booster(kept, self), name)(given.pop("data"), **given)

        def reproduction():
            given = arguments_of(method, self, *arguments, **options)
            if hasattr(given["data"], "get_base_margin"):
                given["matrix"] = dict(getattr(given["data"], "_foreign", {}))
                given["data"] = given["data"].get_data()
            return {"model": bytes(self.save_raw("ubj")), "arguments": given}

        what = next((option for option in options if option.startswith("pred_") and options[option] is True), None)
        call = f"xgboost.Booster.{name}" + (f" {what}" if what else "")
        theirs = functools.partial(method, self, *arguments, **options)
        return record.both(call, theirs, ours, what == "pred_leaf", reproduction)

    return predict


def _class_of(ours, names, theirs):
    """fangorn's class of the same name, or of the nearest class above it."""
    return next(getattr(ours, owner.__name__) for owner in type(theirs).__mro__ if owner.__name__ in names)


def _xgboost_estimator(record, kept, method):
    name = method.__name__

    def predict(self, *arguments, **options):
        kind = _class_of(our_xgboost, our_xgboost.__all__, self)

        def ours():
            raw = self.get_booster().save_raw("ubj")
            key = (kind, str(self.missing), self.n_jobs, str(self.objective))
            return getattr(kept.get(raw, key, lambda: kind.from_model(self)), name)(*arguments, **options)

        def reproduction():
            return {"model": bytes(self.get_booster().save_raw("ubj")), "arguments": (arguments, options)}

        theirs = functools.partial(method, self, *arguments, **options)
        return record.both(f"xgboost.{kind.__name__}.{name}", theirs, ours, name == "apply", reproduction)

    return predict


# LightGBM


def redirect_lightgbm(record):
    """Wrap LightGBM's Booster and estimators."""
    import lightgbm

    kept = _Kept()
    wrap(lightgbm.Booster, "predict", lambda method: _lightgbm_booster(record, kept, method))
    wrap(lightgbm.Booster, "refit", record.without)
    for owner, name in (("LGBMModel", "predict"), ("LGBMClassifier", "predict"), ("LGBMClassifier", "predict_proba")):
        wrap(getattr(lightgbm, owner), name, lambda method: _lightgbm_estimator(record, method))


def _lightgbm_booster(record, kept, method):
    def predict(self, *arguments, **options):
        def ours():
            text = self.model_to_string(num_iteration=-1)
            key = (self.best_iteration, str(self.params))
            booster = kept.get(text, key, lambda: our_lightgbm.Booster(self.params, model_file=self))
            return booster.predict(*arguments, **options)

        def reproduction():
            return {"model": self.model_to_string(num_iteration=-1), "arguments": (arguments, options)}

        what = next((option for option in options if option.startswith("pred_") and options[option] is True), None)
        call = "lightgbm.Booster.predict" + (f" {what}" if what else "")
        theirs = functools.partial(method, self, *arguments, **options)
        return record.both(call, theirs, ours, what == "pred_leaf", reproduction)

    return predict


def _lightgbm_estimator(record, method):
    name = method.__name__

    def predict(self, *arguments, **options):
        kind = _class_of(our_lightgbm, our_lightgbm.__all__, self)

        def reproduction():
            return {"model": self.booster_.model_to_string(num_iteration=-1), "arguments": (arguments, options)}

        theirs = functools.partial(method, self, *arguments, **options)
        exact = bool(options.get("pred_leaf"))
        call = f"lightgbm.{kind.__name__}.{name}"
        return record.both(
            call, theirs, lambda: getattr(kind.from_model(self), name)(*arguments, **options), exact, reproduction
        )

    return predict


# treelite


def redirect_treelite(record):
    """Wrap treelite's GTIL, and the libraries whose predictions its tests compare with."""
    import treelite

    for name in ("predict", "predict_leaf", "predict_per_tree"):
        wrap(treelite.gtil, name, lambda method: _treelite(record, method))


def _treelite(record, method):
    name = method.__name__

    def predict(*arguments, **options):
        def reproduction():
            given = arguments_of(method, *arguments, **options)
            return {"model": given.pop("model").serialize_bytes(), "arguments": given}

        theirs = functools.partial(method, *arguments, **options)
        ours = lambda: getattr(our_treelite.gtil, name)(*arguments, **options)  # noqa: E731
        return record.both(f"treelite.gtil.{name}", theirs, ours, name == "predict_leaf", reproduction)

    return predict


# scikit-learn

_METHODS = "predict predict_proba predict_log_proba apply decision_function score_samples".split()


def redirect_sklearn(record):
    """Wrap scikit-learn's trees and forests."""
    import sklearn.ensemble
    import sklearn.tree

    for name in our_sklearn.__all__:
        owner = getattr(sklearn.ensemble, name, None) or getattr(sklearn.tree, name, None)
        if owner is None:
            continue
        wrap(owner, "fit", record.without)
        for method in _METHODS:
            # Bags have some of these only if what they hold has them.
            if inspect.isfunction(inspect.getattr_static(owner, method, None)):
                wrap(owner, method, lambda method, name=name: _sklearn(record, name, method))


def _sklearn(record, owner, method):
    name = method.__name__

    def predict(self, *arguments, **options):
        if options.get("check_input") is False:
            # A forest asks its trees so, on threads of its own.
            return method(self, *arguments, **options)

        def ours():
            return getattr(getattr(our_sklearn, owner).from_model(self), name)(*arguments, **options)

        theirs = functools.partial(method, self, *arguments, **options)
        return record.both(
            f"sklearn.{owner}.{name}",
            theirs,
            ours,
            name == "apply",
            lambda: {"model": self, "arguments": (arguments, options)},
        )

    return predict
