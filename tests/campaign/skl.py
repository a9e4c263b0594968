"""Random models of scikit-learn, and what it says of rows."""

import pathlib
import sys
import warnings

import numpy as np
from sklearn import ensemble, tree
from sklearn.base import is_classifier

import data
import trees as forest

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"))
from export_sklearn import export  # noqa: E402

NAME = "scikit-learn"
TOP = np.finfo(np.float32).max
HISTOGRAM = (ensemble.HistGradientBoostingClassifier, ensemble.HistGradientBoostingRegressor)
BOOSTING = (ensemble.GradientBoostingClassifier, ensemble.GradientBoostingRegressor)


class Model:
    producer = NAME
    sums_in = np.float64

    def __init__(self, estimator, table, note, file):
        self.estimator, self.table, self.note, self.file = estimator, table, note, file
        self.kind = type(estimator).__name__ + (", categories" if table.categories else "")
        self.wide = isinstance(estimator, HISTOGRAM)
        self.same_bits = not isinstance(estimator, ensemble.IsolationForest)
        export(estimator, file)
        self.takes_missing = takes(estimator, np.full((1, table.x.shape[1]), np.nan))
        self.grown = None

    def trees(self):
        if self.grown is None:
            grown = histogram_trees if self.wide else plain_trees
            self.grown = list(grown(self.estimator))
        return self.grown

    def refused(self, rows):
        refused = {} if self.takes_missing else {"a missing value": np.isnan(rows).any(axis=1)}
        if self.table.categories:
            refused["an infinite category"] = np.isinf(rows[:, self.table.categories]).any(axis=1)
        return refused

    def leaves(self, rows):
        if self.wide:
            return histogram_leaves(self.estimator, rows)
        with np.errstate(over="ignore"):
            single = np.ascontiguousarray(rows, np.float32)
        found = [t.tree_.apply(np.ascontiguousarray(single[:, columns])) for t, columns in members(self.estimator)]
        return np.stack(found, axis=1).astype(np.int32)

    def said(self, rows):
        # The public methods of all but histogram boosting take no infinities.
        x = rows if self.wide else finite(rows)
        e, flat = self.estimator, lambda values: np.asarray(values).reshape(len(rows), -1)
        leaves = self.leaves(rows)
        if isinstance(e, ensemble.IsolationForest):
            value = -flat(e.score_samples(x))
            margin = -np.log2(value) * ensemble._iforest._average_path_length(np.array([e._max_samples]))[0]
            return {"margin": margin, "value": value, "class": flat(e.predict(x)), "leaves": leaves}
        if isinstance(e, (*HISTOGRAM, *BOOSTING)):
            margin = flat(e._raw_predict(x))
            value = flat(e.predict_proba(x) if is_classifier(e) else e.predict(x))
        elif is_classifier(e):
            value = flat(e.predict_proba(x))
            margin = sum_of_distributions(e, x)
            np.testing.assert_allclose(margin / len(members(e)), value, rtol=1e-9, atol=1e-12)
        else:
            margin = value = flat(e.predict(x))
        classes = flat(e.predict(x)) if is_classifier(e) else None
        return {"margin": margin, "value": value, "class": classes, "leaves": leaves}

    def tied(self, said):
        if isinstance(self.estimator, ensemble.IsolationForest):
            return np.abs(said["value"][:, 0] + self.estimator.offset_) < 1e-9
        return np.zeros(len(said["value"]), bool)


def takes(estimator, row):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            estimator.predict(row)
        except ValueError:
            return False
    return True


def finite(rows):
    return np.ascontiguousarray(np.clip(rows, -TOP, TOP), np.float32)


def members(estimator):
    """The fitted trees in order, each with the columns that it sees."""
    trees = np.ravel(getattr(estimator, "estimators_", [estimator]))
    every = np.arange(estimator.n_features_in_)
    columns = getattr(estimator, "estimators_features_", [every] * len(trees))
    return list(zip(trees, columns))


def sum_of_distributions(estimator, x):
    total = np.zeros((len(x), len(estimator.classes_)))
    for fitted, columns in members(estimator):
        found = fitted.tree_.predict(np.ascontiguousarray(x[:, columns])).reshape(len(x), -1)
        seen = np.arange(total.shape[1]) if found.shape[1] == total.shape[1] else np.asarray(fitted.classes_, int)
        total[:, seen] += found
    return total


def plain_trees(estimator):
    for fitted, columns in members(estimator):
        t = fitted.tree_
        inner = t.children_left >= 0
        column = np.where(inner, np.asarray(columns)[np.where(inner, t.feature, 0)], -1)
        yield forest.Tree(column, t.threshold, forest.parents(t.children_left, t.children_right), range(t.node_count))


def order(estimator):
    """The column of the data that each column of histogram boosting's trees is: categories come first there."""
    chosen = np.asarray(getattr(estimator, "is_categorical_", None))
    if chosen.ndim == 0 or getattr(estimator, "_preprocessor", None) is None:
        return np.arange(estimator.n_features_in_)
    return np.concatenate([np.flatnonzero(chosen), np.flatnonzero(~chosen)])


def predictors(estimator):
    return [p for stage in estimator._predictors for p in stage]


def histogram_trees(estimator):
    columns = order(estimator)
    for p in predictors(estimator):
        n = p.nodes
        column = np.where((n["is_leaf"] == 0) & (n["is_categorical"] == 0), columns[n["feature_idx"]], -1)
        left, right = [np.where(n["is_leaf"] == 1, 0, n[side].astype(int)) for side in ("left", "right")]
        yield forest.Tree(column, n["num_threshold"], forest.parents(left, right), range(len(n)))


def histogram_leaves(estimator, rows):
    """The node where each row ends in each tree, read off the node arrays; its value is held against scikit-learn's."""
    rows = np.ascontiguousarray(rows, np.float64)
    if getattr(estimator, "_preprocessor", None) is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = np.ascontiguousarray(estimator._preprocessor.transform(rows))
    known, indices = estimator._bin_mapper.make_known_categories_bitsets()
    found = []
    for p in predictors(estimator):
        ends = walk(p, rows, known, indices)
        np.testing.assert_array_equal(p.predict(rows, known, indices, 1), p.nodes["value"][ends])
        found.append(ends)
    return np.stack(found, axis=1).astype(np.int32)


def walk(predictor, rows, known, indices):
    nodes = predictor.nodes
    at, every = np.zeros(len(rows), int), np.arange(len(rows))
    while True:
        node = nodes[at]
        walking = node["is_leaf"] == 0
        if not walking.any():
            return at
        value = rows[every, node["feature_idx"]]
        missing = node["missing_go_to_left"] == 1
        with np.errstate(invalid="ignore"):
            left = np.where(np.isnan(value), missing, value <= node["num_threshold"])
        sets = walking & (node["is_categorical"] == 1)
        for r in np.flatnonzero(sets):
            if np.isnan(value[r]) or value[r] < 0:
                left[r] = missing[r]
                continue
            code = int(value[r]) % 256
            inside = lambda bits: bits[code // 32] >> (code % 32) & 1
            member = inside(predictor.raw_left_cat_bitsets[node["bitset_idx"][r]])
            left[r] = member or (missing[r] and not inside(known[indices[node["feature_idx"][r]]]))
        at = np.where(walking, np.where(left, node["left"], node["right"]), at)


# ---------------------------------------------------------------- training

PLAIN = "DecisionTree ExtraTree RandomForest ExtraTrees GradientBoosting HistGradientBoosting".split()
FAMILIES = PLAIN + ["HistGradientBoosting", "HistGradientBoosting", "RandomForest", "Bagging", "IsolationForest"]


def make(rng, folder, plain=False, families=None):
    """Trains a random model. `plain`: as converters take it."""
    family = str(rng.choice(families or (PLAIN if plain else FAMILIES)))
    histogram = family == "HistGradientBoosting"
    missing = family not in ("GradientBoosting", "Bagging") and not plain or histogram
    codes = 0.35 if histogram and not plain else 0.0
    table = data.table(rng, missing=missing, categories=codes, most_codes=250, most_columns=120, wide=histogram)
    if histogram and table.categories and rng.uniform() < 0.3:  # categories are any whole numbers
        c = int(rng.choice(table.categories))
        table.x[:, c] = table.x[:, c] * 3 + 1000
        table.known[c] = np.unique(table.x[~np.isnan(table.x[:, c]), c])
    score = data.score(rng, table)
    seed = int(rng.integers(1 << 30))
    note = {"family": family, "random_state": seed}
    if family == "IsolationForest":
        more = {
            "n_estimators": data.log_uniform(rng, 1, 100), "max_samples": int(rng.choice([3, 16, 64, 200])),
            "contamination": float(rng.choice([0.05, 0.2])), "max_features": float(rng.choice([1.0, 0.5])),
        }  # fmt: skip
        fitted = ensemble.IsolationForest(random_state=seed, **more).fit(table.single if not histogram else table.x)
        return Model(fitted, table, note | more, folder / "model.npz")
    classifier = rng.uniform() < 0.5
    count = int(rng.choice([2, 2, 3, 5]))
    depth = {"max_depth": [None, 1, 3, 5, 8, 12][rng.integers(6)]}
    if rng.uniform() < 0.3:
        depth = {"max_leaf_nodes": int(rng.choice([2, 8, 31, 100]))}
    whole = rng.uniform() < 0.2
    trees = data.log_uniform(rng, 1, 25 if whole or depth.get("max_depth", 0) is None else 100)
    if family in ("DecisionTree", "ExtraTree"):
        kind = getattr(tree, family + ("Classifier" if classifier else "Regressor"))
        more = dict(depth)
    elif family == "Bagging":
        kind = getattr(ensemble, family + ("Classifier" if classifier else "Regressor"))
        inner = getattr(tree, "DecisionTree" + ("Classifier" if classifier else "Regressor"))
        share = {"max_features": float(rng.choice([1.0, 0.6])), "bootstrap_features": bool(rng.integers(2))}
        more = {"estimator": inner(**depth), "n_estimators": min(trees, 30), **share}
    elif histogram:
        kind = getattr(ensemble, family + ("Classifier" if classifier else "Regressor"))
        rounds = max(1, min(trees, 40) // (count if classifier and count > 2 else 1))
        more = {
            "max_iter": rounds, "max_leaf_nodes": int(rng.choice([2, 8, 31, 100])),
            "min_samples_leaf": int(rng.choice([1, 5, 20])), "learning_rate": float(rng.choice([0.1, 0.5])),
            "max_bins": int(rng.choice([2, 16, 64, 255])), "early_stopping": False,
        }  # fmt: skip
        if table.categories:
            more["categorical_features"] = table.categories
            more["max_bins"] = 255
        if not classifier:
            more["loss"] = str(rng.choice(["squared_error", "absolute_error", "poisson", "gamma", "quantile"]))
            if more["loss"] == "quantile":
                more["quantile"] = 0.8
    elif family == "GradientBoosting":
        kind = getattr(ensemble, family + ("Classifier" if classifier else "Regressor"))
        more = {
            "n_estimators": max(1, min(trees, 60) // (count if classifier else 1)),
            "learning_rate": float(rng.choice([0.1, 1.0])),
            **depth,
        }
        more["max_depth"] = more.get("max_depth") or 4
        if classifier and count == 2 and rng.uniform() < 0.3:
            more["loss"] = "exponential"
        elif not classifier:
            more["loss"] = str(rng.choice(["squared_error", "absolute_error", "huber", "quantile"]))
        if rng.uniform() < 0.2 and not plain:
            more["init"] = "zero"
    else:
        kind = getattr(ensemble, family + ("Classifier" if classifier else "Regressor"))
        more = {"n_estimators": trees, "max_features": float(rng.choice([0.3, 1.0])), **depth}
        if rng.uniform() < 0.3:
            more["bootstrap"] = bool(rng.integers(2))
    if classifier:
        y = data.classes_of(rng, score, count)
        if rng.uniform() < 0.3 and not plain:
            y = np.array([5, -2, 40, 7, 0])[y]
    elif more.get("loss") in ("poisson", "gamma"):
        y = data.labels(rng, "positive", score)
    elif not histogram and family not in ("GradientBoosting", "Bagging") and rng.uniform() < 0.25:
        y = np.stack([score, score**2, -score], axis=1)
    else:
        y = data.labels(rng, "number", score)
    seeded = {"random_state": seed}
    fitted = kind(**more, **seeded).fit(table.x if histogram else table.single, y)
    note |= {k: str(v) if k == "estimator" else v for k, v in more.items()}
    return Model(fitted, table, note | {"classes": count if classifier else 0}, folder / "model.npz")
