"""Wraps the explainers of shap and shapiq, so that fangorn computes the same contributions and interactions.

An estimator of scikit-learn goes over as treelite's model of it, which says how many rows reached each node.
"""

import functools

import numpy
from redirect import arguments_of, wrap

import fangorn
import fangorn.compat.xgboost


class NoCounterpart(Exception):
    """fangorn has nothing that explains such a model so."""


def our_model(model):
    """Return fangorn's model of a model of another library."""
    package = type(model).__module__.partition(".")[0]
    if package == "xgboost":
        # Rows get NaN in place of an estimator's own value for a missing one.
        return fangorn.from_xgboost(model.get_booster() if _missing_of(model) is not None else model)
    if package == "lightgbm":
        return fangorn.from_lightgbm(model)
    if package == "catboost":
        return fangorn.from_catboost(model)
    if package == "sklearn":
        import treelite

        try:
            return fangorn.from_treelite(treelite.sklearn.import_model(_as_forest(model)))
        except (NotImplementedError, treelite.TreeliteError, ValueError, AttributeError, TypeError):
            return fangorn.from_sklearn(model)
    raise NoCounterpart(f"a model of {package}")


def _missing_of(model):
    """Return the number that stands for a missing value in rows of an estimator of XGBoost, or None if NaN does."""
    missing = getattr(model, "missing", None)
    return None if missing is None or missing != missing else missing


def _as_forest(model):
    """A tree of scikit-learn as a forest of that tree, which treelite reads."""
    import sklearn.ensemble
    import sklearn.tree

    if not isinstance(model, (sklearn.tree.DecisionTreeClassifier, sklearn.tree.DecisionTreeRegressor)):
        return model
    kind = sklearn.ensemble.RandomForestRegressor
    if isinstance(model, sklearn.tree.DecisionTreeClassifier):
        kind = sklearn.ensemble.RandomForestClassifier
    forest = kind(n_estimators=1)
    forest.estimators_ = [model]
    for name in ("n_outputs_", "n_features_in_", "classes_", "n_classes_"):
        if hasattr(model, name):
            setattr(forest, name, getattr(model, name))
    return forest


def outputs_last(found, axes):
    """Move the axis of outputs, if there is one, behind the features."""
    return numpy.moveaxis(found, 1, -1) if found.ndim == axes + 1 else found


def _remember_model(method):
    """Wrap an explainer's `__init__`, so that the explainer keeps the model that it was made of."""

    @functools.wraps(method)
    def remember(self, model, *arguments, **options):
        method(self, model, *arguments, **options)
        self._foreign = model

    return remember


# shap


def redirect_shap(record):
    """Wrap shap's TreeExplainer."""
    import shap

    explainer = shap.TreeExplainer

    wrap(explainer, "__init__", _remember_model)
    wrap(explainer, "shap_values", lambda method: _shap(record, method, False))
    wrap(explainer, "shap_interaction_values", lambda method: _shap(record, method, True))


def _shap(record, method, pairs):
    def explain(self, X, *arguments, **options):
        theirs = functools.partial(method, self, X, *arguments, **options)
        given = arguments_of(method, self, X, *arguments, **options)
        try:
            model = _counterpart(self, given, pairs)
        except NoCounterpart as reason:
            record.leave(f"shap.{method.__name__}: {reason}")
            return theirs()
        bias = []

        def ours():
            found = _explain(self, model(), X, pairs)
            last = (Ellipsis, -1, -1) if pairs else (Ellipsis, -1)
            bias.append(found[0][last])
            found = found[..., :-1, :-1] if pairs else found[..., :-1]
            found = outputs_last(found, 3 if pairs else 2).astype(expected_type[0])
            return found[0] if getattr(X, "ndim", 2) == 1 else found

        expected_type = []

        def remembered():
            expected = theirs()
            expected_type.append(expected.dtype)
            return expected

        call = f"shap.{method.__name__} {self.feature_perturbation}"
        found = record.both(call, remembered, ours, reproduction=lambda: {"model": self._foreign, "arguments": X})
        if bias:
            expected = numpy.asarray(self.expected_value, numpy.float64).reshape(-1)
            ours_expected = numpy.asarray(bias[0], numpy.float64).reshape(-1)
            record.both(f"{call}, expected_value", lambda: expected, lambda: ours_expected)
        return found

    return explain


def _counterpart(explainer, given, pairs):
    """Return what makes fangorn's model of an explainer's, or raise NoCounterpart."""
    if given.get("approximate"):
        raise NoCounterpart("approximate")
    if explainer.model.model_output != "raw":
        raise NoCounterpart("an output that is transformed")
    limit = given.get("tree_limit")
    if limit not in (None, -1):
        raise NoCounterpart("tree_limit")
    if explainer.feature_perturbation == "interventional" and pairs:
        # shap says on standard error that it has none, and returns zeros.
        raise NoCounterpart("interactions against a background, of which shap has none")
    if explainer.feature_perturbation == "tree_path_dependent" and explainer.data is not None:
        raise NoCounterpart("covers that shap counts again on rows of its caller")
    if type(explainer._foreign).__module__.partition(".")[0] not in ("xgboost", "lightgbm", "catboost", "sklearn"):
        raise NoCounterpart(f"a model of {type(explainer._foreign).__module__.partition('.')[0]}")
    return lambda: our_model(explainer._foreign)


def _rows(X, of=None):
    """Rows as fangorn takes them, by position; those of scikit-learn's trees as the trees read them, in float32."""
    if type(X).__module__.startswith(("xgboost", "catboost")):
        raise NoCounterpart("rows in a matrix of the library's own")
    rows = numpy.asarray(X)
    rows = rows.reshape(1, -1) if rows.ndim == 1 else rows
    if type(of).__module__.startswith("sklearn") and "hist_gradient" not in type(of).__module__:
        return rows.astype(numpy.float32)
    return rows if rows.dtype.kind in "fiub" else rows.astype(numpy.float64)


def _rows_of_explainer(explainer, model, X):
    package = type(explainer._foreign).__module__.partition(".")[0]
    if hasattr(X, "get_base_margin"):
        return X.get_data()
    missing = _missing_of(explainer._foreign)
    if package == "xgboost" and missing is not None:
        # The value stands for a missing one in the estimator's rows; its model knows nothing of it.
        X = fangorn.compat.xgboost.DMatrix(X, missing=missing).data
    if package == "sklearn" or not hasattr(X, "iloc") or X.ndim == 1:
        return X if hasattr(X, "tocsr") else _rows(X, explainer._foreign)
    if model.feature_names is None:
        return X.set_axis([f"f{at}" for at in range(X.shape[1])], axis=1)
    return X


def _explain(explainer, model, X, pairs):
    if explainer.feature_perturbation != "interventional":
        rows = _rows_of_explainer(explainer, model, X)
        return model.interactions(rows) if pairs else model.contributions(rows)
    rows, background = (_rows(of, explainer._foreign).astype(numpy.float64) for of in (X, explainer.data))
    return model.contributions(rows, background=background)


# shapiq

_INDICES = ("SV", "SII", "k-SII")


def redirect_shapiq(record):
    """Wrap shapiq's TreeExplainer and TreeSHAPIQ."""
    from shapiq.explainer.tree import TreeExplainer, TreeSHAPIQ

    wrap(TreeExplainer, "__init__", _remember_model)
    wrap(TreeExplainer, "explain_function", lambda method: _shapiq(record, method, _model_of_explainer))
    wrap(TreeSHAPIQ, "explain", lambda method: _shapiq(record, method, _model_of_tree))


def _shapiq(record, method, model_of):
    def explain(self, x, *arguments, **options):
        theirs = functools.partial(method, self, x, *arguments, **options)
        index = str(getattr(self, "_index", getattr(self, "index", "")))
        order = self._max_order
        try:
            if index not in _INDICES or order > 2:
                raise NoCounterpart(f"{index} of order {order}" if index in _INDICES else index)
            make = model_of(self)
        except NoCounterpart as reason:
            record.leave(f"shapiq: {reason}")
            return theirs()
        explanation = []

        def expected():
            explanation.append(theirs())
            keys = [key for key in explanation[0].interactions if 1 <= len(key) <= 2]
            explanation.append(keys)
            return numpy.array([explanation[0].interactions[key] for key in keys], numpy.float64)

        def ours():
            model, output = make()
            rows = _rows(x, getattr(self, "_foreign", None))[:, : model.n_features]
            values = [model.contributions(rows), model.interactions(rows)]
            sums, pairs = [found[0] if model.n_outputs == 1 else found[0, output] for found in values]
            return numpy.array([_cell(key, sums, pairs, index, order) for key in explanation[1]], numpy.float64)

        found = record.both(f"shapiq.{index} of order {order}", expected, ours)
        if found is None or len(explanation) < 2:
            return explanation[0]
        for key, value in zip(explanation[1], found):
            explanation[0].interactions[key] = float(value)
        return explanation[0]

    return explain


def _cell(key, sums, pairs, index, order):
    """A value of shapiq from SHAP values and SHAP interaction values, which halve what two features add together."""
    if max(key) >= len(sums) - 1:
        return 0.0
    if len(key) == 2:
        return 2.0 * float(pairs[key])
    return float(pairs[key[0], key[0]]) if index == "k-SII" and order == 2 else float(sums[key[0]])


def _model_of_explainer(explainer):
    model = explainer._foreign
    if type(model).__module__.partition(".")[0] not in ("xgboost", "lightgbm", "sklearn"):
        raise NoCounterpart("a tree of shapiq's own, which its TreeSHAPIQ explains")
    # shapiq explains the second class of scikit-learn if it is not told which, and the first one of the others.
    output = explainer._class_label
    if output is None:
        output = 1 if type(model).__module__.startswith("sklearn") else 0
    return lambda: (our_model(model), output)


def _model_of_tree(explainer):
    return lambda: (_treelite_of(explainer._tree), 0)


def _treelite_of(tree):
    """Build a treelite model of a tree of shapiq, which keeps the weights of its nodes."""
    import treelite
    from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

    names = tree.feature_map_internal_original or {}
    features = [int(names.get(int(feature), int(feature))) for feature in tree.features]
    builder = ModelBuilder(
        threshold_type="float64",
        leaf_output_type="float64",
        metadata=Metadata(max(max(features) + 1, 1), "kRegressor", False, 1, [1], (1, 1)),
        tree_annotation=TreeAnnotation(num_tree=1, target_id=[0], class_id=[0]),
        postprocessor=PostProcessorFunc("identity"),
        base_scores=[0.0],
    )
    builder.start_tree()
    for node, (left, right) in enumerate(zip(tree.children_left, tree.children_right)):
        builder.start_node(node)
        if left < 0:
            builder.leaf(float(tree.values[node]))
        else:
            builder.numerical_test(
                feature_id=features[node],
                threshold=float(tree.thresholds[node]),
                default_left=True,
                opname="<=",
                left_child_key=int(left),
                right_child_key=int(right),
            )
        builder.sum_hess(float(tree.node_sample_weight[node]))
        builder.end_node()
    builder.end_tree()
    return fangorn.from_treelite(builder.commit())
