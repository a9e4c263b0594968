#!/usr/bin/env python3
"""Make the small scikit-learn models that the tests read: tests/zoo/sklearn-*.

Every model is trained on data that this script draws from a seeded generator, and written by scripts/export_sklearn.py.
What is expected of its rows is what scikit-learn says of them. Where its public methods refuse rows (infinities, and
missing values for some estimators), the trees' own methods are asked; on all other rows both must agree.

It needs numpy, pandas and scikit-learn; the models here were made with 1.9.1.

  python3 tests/zoo/make_sklearn.py                    make everything again
  python3 tests/zoo/make_sklearn.py --only sklearn-x   only this model
  python3 tests/zoo/make_sklearn.py --table            print the table of the README
"""

import argparse
import json
import pathlib
import sys
import warnings

import numpy as np
import sklearn
from sklearn import ensemble, tree
from sklearn.base import is_classifier

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "scripts"))
from export_sklearn import export  # noqa: E402

F32 = np.float32
HISTOGRAM = (ensemble.HistGradientBoostingClassifier, ensemble.HistGradientBoostingRegressor)
BOOSTING = (ensemble.GradientBoostingClassifier, ensemble.GradientBoostingRegressor)


# ---------------------------------------------------------------- what scikit-learn says


def trees_of(estimator):
    """The fitted trees in order, each with the columns that it sees."""
    trees = np.ravel(getattr(estimator, "estimators_", [estimator]))
    every = np.arange(estimator.n_features_in_)
    columns = getattr(estimator, "estimators_features_", [every] * len(trees))
    if isinstance(estimator, ensemble.IsolationForest):
        columns = [every if len(c) == len(every) else c for c in columns]
    return list(zip(trees, columns))


def encoded(estimator, x):
    """Rows as histogram boosting's trees see them."""
    if getattr(estimator, "_preprocessor", None) is None:
        return np.ascontiguousarray(x, np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.ascontiguousarray(estimator._preprocessor.transform(as_fitted(estimator, x)))


def as_fitted(estimator, x):
    """Rows as the estimator wants them: with names where it was trained with names."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return x
    import pandas

    return pandas.DataFrame(x, columns=names)


def walk(predictor, x, bitsets, places):
    """The node where each row ends in one of histogram boosting's trees, read off its node array."""

    def member(sets, which, value):
        return sets[which][value // 32] >> (value % 32) & 1

    ends = np.empty(len(x), np.int32)
    for r, row in enumerate(x):
        n = 0
        while not predictor.nodes[n]["is_leaf"]:
            node = predictor.nodes[n]
            value = row[node["feature_idx"]]
            missing = bool(node["missing_go_to_left"])
            if np.isnan(value) or (node["is_categorical"] and value < 0):
                left = missing
            elif node["is_categorical"]:
                left = member(predictor.raw_left_cat_bitsets, node["bitset_idx"], int(value) % 256)
                known = member(bitsets, places[node["feature_idx"]], int(value) % 256)
                left = left or (missing and not known)
            else:
                left = value <= node["num_threshold"]
            n = node["left"] if left else node["right"]
        ends[r] = n
    return ends


def agree(found, expected, rows):
    if rows.any():
        np.testing.assert_allclose(np.ravel(found[rows]), np.ravel(expected), rtol=1e-9, atol=1e-12)


def said(estimator, x):
    """Margins, values and leaves of rows."""
    if isinstance(estimator, HISTOGRAM):
        return histogram(estimator, x)
    with np.errstate(over="ignore"):
        x = np.ascontiguousarray(x, F32)
    trees = trees_of(estimator)
    parts = [np.ascontiguousarray(x[:, columns]) for _, columns in trees]
    leaves = np.stack([fitted.tree_.apply(part) for (fitted, _), part in zip(trees, parts)], axis=1)
    # The public methods take no infinities, and some take no missing values.
    taken = np.isfinite(x).all(axis=1)
    rows = as_fitted(estimator, x[taken])
    if isinstance(estimator, BOOSTING):
        raw = estimator._raw_predict_init(np.zeros((len(x), x.shape[1]), F32))
        for i, fitted in enumerate(np.ravel(estimator.estimators_)):
            # Its sums send missing values right whatever the tree says.
            ends = left_out(fitted.tree_, x)
            leaves[:, i] = ends
            raw[:, i % raw.shape[1]] += estimator.learning_rate * fitted.tree_.value[ends, 0, 0]
        if not is_classifier(estimator):
            agree(raw, estimator.predict(rows), taken)
            return raw, raw, leaves
        agree(raw, estimator.decision_function(rows), taken)
        if raw.shape[1] == 1:
            one = 1.0 / (1.0 + np.exp(-raw * (2.0 if estimator.loss == "exponential" else 1.0)))
            output = np.concatenate([1.0 - one, one], axis=1)
        else:
            power = np.exp(raw - raw.max(axis=1, keepdims=True))
            output = power / power.sum(axis=1, keepdims=True)
        agree(output, estimator.predict_proba(rows), taken)
        output[taken] = estimator.predict_proba(rows)
        return raw, output, leaves
    if isinstance(estimator, ensemble.IsolationForest):
        score = estimator._compute_score_samples(x, estimator._max_features != x.shape[1])[:, None]
        agree(score, -estimator.score_samples(rows), taken)
        return score, score, leaves
    values = [fitted.tree_.predict(part) for (fitted, _), part in zip(trees, parts)]
    if not is_classifier(estimator):
        mean = np.mean([v.reshape(len(x), -1) for v in values], axis=0)
        agree(mean, estimator.predict(rows), taken)
        return mean, mean, leaves
    total = np.zeros((len(x), len(estimator.classes_)))
    for value, (fitted, _) in zip(values, trees):
        value = value.reshape(len(x), -1)
        if sklearn.__version__.startswith(("1.0", "1.1", "1.2", "1.3")):
            value = value / value.sum(axis=1, keepdims=True)
        seen = np.arange(total.shape[1]) if value.shape[1] == total.shape[1] else np.asarray(fitted.classes_, int)
        total[:, seen] += value
    agree(total / len(trees), estimator.predict_proba(rows), taken)
    return total, total / len(trees), leaves


def left_out(grown, x):
    """Leaves of rows whose missing values go right everywhere."""
    ends = np.zeros(len(x), np.int32)
    for r, row in enumerate(x):
        n = 0
        while grown.children_left[n] >= 0:
            left = row[grown.feature[n]] <= grown.threshold[n]
            n = grown.children_left[n] if left else grown.children_right[n]
        ends[r] = n
    return ends


def histogram(estimator, x):
    x = np.asarray(x, np.float64)
    rows = encoded(estimator, x)
    bitsets, places = estimator._bin_mapper.make_known_categories_bitsets()
    predictors = [p for stage in estimator._predictors for p in stage]
    leaves = np.stack([walk(p, rows, bitsets, places) for p in predictors], axis=1)
    raw = np.zeros((len(x), estimator.n_trees_per_iteration_)) + np.ravel(estimator._baseline_prediction)
    for i, p in enumerate(predictors):
        values = p.predict(rows, bitsets, places, 1)
        np.testing.assert_array_equal(values, p.nodes["value"][leaves[:, i]])
        raw[:, i % raw.shape[1]] += values
    every = np.ones(len(x), bool)
    if is_classifier(estimator):
        agree(raw, estimator.decision_function(as_fitted(estimator, x)), every)
        return raw, estimator.predict_proba(as_fitted(estimator, x)), leaves
    return raw, estimator.predict(as_fitted(estimator, x)).reshape(len(x), -1), leaves


def classes(estimator, x):
    """What predict says; rows that it refuses are left to the values."""
    return estimator.predict(as_fitted(estimator, x))


# ---------------------------------------------------------------- rows


def splits(estimator):
    """Columns and thresholds of all splits on numbers."""
    if isinstance(estimator, HISTOGRAM):
        chosen = getattr(estimator, "is_categorical_", None)
        order = np.arange(estimator.n_features_in_)
        if chosen is not None and getattr(estimator, "_preprocessor", None) is not None:
            order = np.concatenate([np.flatnonzero(chosen), np.flatnonzero(~np.asarray(chosen))])
        for stage in estimator._predictors:
            for p in stage:
                plain = (p.nodes["is_leaf"] == 0) & (p.nodes["is_categorical"] == 0)
                for node in p.nodes[plain]:
                    yield order[node["feature_idx"]], node["num_threshold"]
    else:
        for fitted, columns in trees_of(estimator):
            for feature, threshold in zip(fitted.tree_.feature, fitted.tree_.threshold):
                if feature >= 0:
                    yield columns[feature], threshold


def rows_of(estimator, data, seed, plain=16, at=18, categories=(), wide=False):
    """Rows of the data, rows at the model's own thresholds, and rows of all that is odd."""
    rng = np.random.RandomState(seed)
    kind = np.float64 if wide else F32
    data = np.asarray(data, np.float64).astype(kind)
    rows = [data[i] for i in rng.permutation(len(data))[:plain]]
    found = list(splits(estimator))
    for i in rng.permutation(len(found))[:at]:
        column, threshold = found[i]
        with np.errstate(over="ignore"):
            here = kind(threshold)
            near = [np.nextafter(here, kind(-np.inf)), here, np.nextafter(here, kind(np.inf))]
        # Rows whose way leads through the root's own threshold, and those of any other.
        like = data[rng.randint(len(data))]
        for value in near:
            row = like.copy()
            row[column] = value
            rows.append(row)
    numeric = [c for c in range(data.shape[1]) if c not in categories]
    edges = [0.0, -0.0, 1e-45, -1e-45, 1e-38, -1e-38, 3.4028235e38, -3.4028235e38, np.inf, -np.inf, np.nan]
    for value in edges:
        row = data[rng.randint(len(data))].copy()
        row[numeric] = kind(value)
        rows.append(row)
        for column in rng.permutation(numeric)[:2]:
            row = data[rng.randint(len(data))].copy()
            row[column] = kind(value)
            rows.append(row)
    for _ in range(6):
        row = data[rng.randint(len(data))].copy()
        row[rng.uniform(size=len(row)) < 0.5] = np.nan
        rows.append(row)
    for column in categories:
        top = np.nanmax(data[:, column])
        for value in [top, top + 1, -0.0, -0.5, -1, -7, 0.5, 2.7, 31, 32, 63, 64, 255, 256, 300, 2.0**24 - 1, 2.0**24, 1e30, -1e30, np.nan]:  # fmt: skip
            row = data[rng.randint(len(data))].copy()
            row[column] = kind(value)
            rows.append(row)
    rows = np.stack(rows).astype(kind)
    # What no infinity may stand in: the encoder of categories refuses them.
    for column in categories:
        rows[~np.isfinite(rows[:, column]), column] = np.nan
    return rows


# ---------------------------------------------------------------- writing


def write(folder, name, estimator, data, special, categories=(), labels=False, seed=3, **more):
    """Everything of one model; `labels` expects classes, not probabilities."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    export(estimator, folder / "model.npz")
    rows = rows_of(estimator, data, seed, categories=categories, **more)
    if labels and not isinstance(estimator, HISTOGRAM):
        rows = rows[np.isfinite(rows).all(axis=1)]
    margin, output, leaves = (np.ascontiguousarray(what) for what in said(estimator, rows))
    if labels:
        np.save(folder / "output.npy", classes(estimator, rows).astype(np.int32))
    elif not np.array_equal(margin, output):
        np.save(folder / "output.npy", output.astype(F32))
    np.save(folder / "rows.npy", rows)
    np.save(folder / "margin.npy", margin.astype(F32))
    np.save(folder / "leaves.npy", leaves.astype(np.int32))
    if isinstance(estimator, HISTOGRAM):
        rows64 = rows_of(estimator, data, seed + 1, plain=0, at=12, categories=categories, wide=True)
        margin64, _, leaves64 = said(estimator, rows64)
        np.save(folder / "rows64.npy", rows64)
        np.save(folder / "margin64.npy", margin64)
        np.save(folder / "leaves64.npy", leaves64.astype(np.int32))
    meta = {
        "library": "scikit-learn",
        "version": sklearn.__version__,
        "trees": leaves.shape[1],
        "objective": type(estimator).__name__,
        "special": special,
        "name": name,
        "model": "model.npz",
        "rows": list(rows.shape),
        "outputs": margin.shape[1],
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")


# ---------------------------------------------------------------- recipes

MODELS = {}


def model(name):
    def register(make):
        MODELS["sklearn-" + name] = make
        return make

    return register


def numbers(seed, rows=300, features=5, missing=0.0):
    """Normal features on differing scales and a score made of them; where values are missing, that means something."""
    rng = np.random.RandomState(seed)
    raw = rng.normal(size=(rows, features))
    score = raw[:, 0] - 0.7 * raw[:, 1] * raw[:, 2 % features] + rng.normal(size=rows) * 0.3
    x = raw * 10.0 ** rng.uniform(-2, 3, features)
    hole = rng.uniform(size=x.shape) < missing
    score = score + 1.5 * hole[:, 0] - 1.5 * hole[:, 1]
    x[hole] = np.nan
    return x, score, rng


def three(score):
    return np.digitize(score, np.quantile(score, [0.3, 0.7]))


def mixed(seed, rows=400, missing=0.1):
    """Columns of categories at 1 and 3 among columns of numbers."""
    x, score, rng = numbers(seed, rows, 5)
    x[:, 1] = rng.randint(0, 12, rows)
    x[:, 3] = rng.choice([0, 3, 40, 1000, 2**20 + 1], rows)
    score = score + np.sin(x[:, 1] * 7) + (x[:, 3] == 40)
    x[rng.uniform(size=x.shape) < missing] = np.nan
    return x, score, rng


@model("tree-classifier")
def _():
    x, score, _ = numbers(1, missing=0.15)
    return tree.DecisionTreeClassifier(max_depth=6, random_state=0).fit(x, three(score)), x, dict(
        special="one tree, three classes, missing values with both sides", labels=False)


@model("tree-regressor")
def _():
    x, score, _ = numbers(2)
    return tree.DecisionTreeRegressor(max_leaf_nodes=30, random_state=0).fit(x, score), x, dict(
        special="one tree grown leaf by leaf; trained without missing values")


@model("extra-tree")
def _():
    x, score, _ = numbers(3)
    return tree.ExtraTreeClassifier(max_depth=7, random_state=0).fit(x, np.array([5, -2])[(score > 0) * 1]), x, dict(
        special="random thresholds; labels 5 and -2, rows' classes expected", labels=True)


@model("forest-classifier")
def _():
    x, score, _ = numbers(4, missing=0.1)
    fitted = ensemble.RandomForestClassifier(10, max_depth=5, class_weight="balanced", random_state=0)
    return fitted.fit(x, three(score)), x, dict(special="bootstrap, class weights, missing values")


@model("forest-votes")
def _():
    x, score, _ = numbers(5, rows=120)
    fitted = ensemble.RandomForestClassifier(10, random_state=0)
    return fitted.fit(x, three(score + np.random.RandomState(0).normal(size=120) * 3)), x, dict(
        special="pure leaves and an even number of trees: many ties, which go to the first class", labels=True)


@model("forest-one-class")
def _():
    x, _, _ = numbers(6, rows=40)
    return ensemble.RandomForestClassifier(3, random_state=0).fit(x, np.full(40, 7)), x, dict(
        special="a single class", labels=True, at=0)


@model("forest-names")
def _():
    import pandas

    x, score, _ = numbers(7)
    names = ["age", "größe", 'a "b", c', "d\\e\n", "🌲"]
    frame = pandas.DataFrame(x, columns=names)
    fitted = ensemble.RandomForestClassifier(6, max_depth=4, random_state=0)
    return fitted.fit(frame, np.array(["no", "yes, perhaps", "ja"])[three(score)]), x, dict(
        special="names of columns and of classes")


@model("forest-regressor")
def _():
    x, score, _ = numbers(8)
    fitted = ensemble.RandomForestRegressor(10, max_depth=6, criterion="absolute_error", random_state=0)
    return fitted.fit(x, score), x, dict(special="the mean of the trees")


@model("forest-outputs")
def _():
    x, score, rng = numbers(9, missing=0.1)
    y = np.stack([score, score**2, rng.normal(size=len(x))], axis=1)
    return ensemble.RandomForestRegressor(6, max_depth=5, random_state=0).fit(x, y), x, dict(
        special="three outputs, a vector a leaf; missing values")


@model("extra-trees-classifier")
def _():
    x, score, _ = numbers(10, missing=0.1)
    return ensemble.ExtraTreesClassifier(8, max_depth=6, random_state=0).fit(x, score > 0), x, dict(
        special="random thresholds, classes False and True, missing values")


@model("extra-trees-regressor")
def _():
    x, score, _ = numbers(11)
    return ensemble.ExtraTreesRegressor(8, max_depth=6, random_state=0).fit(x, score), x, dict(
        special="random thresholds")


@model("bagging-classifier")
def _():
    x, score, _ = numbers(12)
    fitted = ensemble.BaggingClassifier(
        tree.DecisionTreeClassifier(max_depth=4), 8, max_features=0.6, max_samples=0.1, random_state=0
    )
    return fitted.fit(x, three(score)), x, dict(special="a bag of trees that see three columns each")


@model("bagging-regressor")
def _():
    x, score, _ = numbers(13)
    fitted = ensemble.BaggingRegressor(
        tree.ExtraTreeRegressor(max_depth=4), 8, bootstrap_features=True, random_state=0
    )
    return fitted.fit(x, score), x, dict(special="a bag of trees whose columns are drawn with replacement")


@model("boosting-classifier")
def _():
    x, score, _ = numbers(14)
    return ensemble.GradientBoostingClassifier(n_estimators=12, random_state=0).fit(x, score > 0.5), x, dict(
        special="two classes: the prior's logit and a sigmoid")


@model("boosting-exponential")
def _():
    x, score, _ = numbers(15)
    fitted = ensemble.GradientBoostingClassifier(loss="exponential", n_estimators=10, max_depth=2, random_state=0)
    return fitted.fit(x, score > 0), x, dict(special="exponential loss: the sigmoid of twice the margin")


@model("boosting-zero")
def _():
    x = np.repeat(np.arange(4.0), 2)[:, None]
    fitted = ensemble.GradientBoostingClassifier(init="zero", n_estimators=3, max_depth=1)
    return fitted.fit(x, [0, 1] * 4), x, dict(
        special="nothing is learnt from an initial value of zero: margins of 0, which are class 1", labels=True)


@model("boosting-multiclass")
def _():
    x, score, _ = numbers(16)
    fitted = ensemble.GradientBoostingClassifier(n_estimators=6, subsample=0.7, max_depth=3, random_state=0)
    return fitted.fit(x, three(score)), x, dict(special="three classes: a tree a class, softmax")


@model("boosting-regressor")
def _():
    x, score, _ = numbers(17)
    fitted = ensemble.GradientBoostingRegressor(
        loss="huber", n_estimators=200, n_iter_no_change=3, max_leaf_nodes=6, learning_rate=0.3, random_state=0
    )
    return fitted.fit(x, score + 100), x, dict(special="huber loss, early stopping, leaf by leaf")


@model("histogram-classifier")
def _():
    x, score, _ = numbers(18, missing=0.15)
    fitted = ensemble.HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=12, random_state=0)
    return fitted.fit(x, score > 0), x, dict(special="two classes, missing values; thresholds compared in f64")


@model("histogram-multiclass")
def _():
    x, score, _ = mixed(19)
    fitted = ensemble.HistGradientBoostingClassifier(
        max_iter=4, max_leaf_nodes=8, categorical_features=[1, 3], random_state=0
    )
    return fitted.fit(x, three(score) * 10), x, dict(
        special="three classes 0, 10 and 20; two columns of categories, which scikit-learn moves and encodes",
        categories=(1, 3), labels=True)


@model("histogram-categories")
def _():
    x, score, _ = mixed(20, missing=0.0)
    x[:300, 1][x[:300, 1] == 5] = np.nan
    fitted = ensemble.HistGradientBoostingRegressor(
        max_iter=8, max_leaf_nodes=8, min_samples_leaf=5, categorical_features=[3, 1], random_state=0
    )
    return fitted.fit(x, score), x, dict(
        special="categories of 0, 3, 40, 1000 and 2^20 + 1; unknown ones are missing", categories=(1, 3))


@model("histogram-poisson")
def _():
    x, score, _ = numbers(21, missing=0.1)
    fitted = ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=8, max_depth=3, random_state=0)
    return fitted.fit(x, np.random.RandomState(0).poisson(np.exp(score / 2))), x, dict(
        special="Poisson loss: exponential of the margin")


@model("histogram-gamma")
def _():
    x, score, _ = numbers(22)
    fitted = ensemble.HistGradientBoostingRegressor(
        loss="gamma", max_iter=6, max_depth=3, monotonic_cst=[1, 0, 0, -1, 0], random_state=0
    )
    return fitted.fit(x, np.exp(score)), x, dict(special="gamma loss, monotonic constraints")


@model("histogram-quantile")
def _():
    x, score, _ = numbers(23, missing=0.1)
    fitted = ensemble.HistGradientBoostingRegressor(
        loss="quantile", quantile=0.8, max_iter=6, max_leaf_nodes=6, interaction_cst="no_interactions", random_state=0
    )
    return fitted.fit(x, score), x, dict(special="quantile loss, no interactions")


@model("isolation-forest")
def _():
    x, _, _ = numbers(24, missing=0.05)
    fitted = ensemble.IsolationForest(n_estimators=8, max_samples=64, contamination=0.1, random_state=0)
    return fitted.fit(x), x, dict(special="the margin is the mean path length, the value the anomaly score")


@model("isolation-features")
def _():
    x, _, _ = numbers(25)
    fitted = ensemble.IsolationForest(n_estimators=8, max_samples=32, max_features=3, bootstrap=True, random_state=0)
    return fitted.fit(x), x, dict(special="trees see three columns each; rows' classes 1 and -1 expected", labels=True)


@model("isolation-ties")
def _():
    x, _, _ = numbers(26)
    fitted = ensemble.IsolationForest(n_estimators=9, max_samples=3, contamination=0.1, random_state=5)
    return fitted.fit(x), x, dict(
        special="trees of three samples: many rows score exactly the offset, which is no outlier", labels=True, plain=40)


def table():
    for name in sorted(MODELS):
        meta = json.loads((HERE / name / "meta.json").read_text())
        rows, features = meta["rows"]
        print(
            f"| `{name}` | {meta['version']} | `{meta['objective']}` | {meta['trees']} | {rows} x {features} | "
            f"{meta['outputs']} | {meta['special']} |"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="make only this model")
    parser.add_argument("--table", action="store_true", help="print the table of the README")
    chosen = parser.parse_args()
    if chosen.table:
        return table()
    for name, make in MODELS.items():
        if chosen.only in (None, name):
            estimator, data, how = make()
            write(HERE / name, name, estimator, data, **how)
            print(name)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
