#!/usr/bin/env python3
"""Write a fitted scikit-learn estimator of trees as an .npz file of plain arrays, which fangorn reads.

    python3 export_sklearn.py model.joblib model.npz

or, where the estimator is at hand:

    from export_sklearn import export
    export(estimator, "model.npz")

It needs numpy and scikit-learn, 1.0 to 1.9. The first form loads a pickle, which may run any program: use it on files
of your own. The estimators are the keys of ESTIMATORS, below.
"""

import json
import sys

import numpy as np
import sklearn
from sklearn import ensemble, tree
from sklearn.base import is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.utils.validation import check_is_fitted

NEWEST = (1, 9)
LEAF = -1
# The output of a tree whose leaves have a value for each.
EACH = -1


def export(estimator, path):
    """Write the fitted `estimator` to the file `path`."""
    name = type(estimator).__name__
    if tuple(int(part) for part in sklearn.__version__.split(".")[:2]) > NEWEST:
        raise ValueError(
            f"scikit-learn {sklearn.__version__} is newer than this exporter, which knows {NEWEST[0]}.{NEWEST[1]}: "
            "take a newer one"
        )
    if type(estimator) not in ESTIMATORS:
        known = ", ".join(sorted(known.__name__ for known in ESTIMATORS))
        raise TypeError(
            f"{name} is not supported: export a fitted {known}; of a search its best_estimator_, and of a pipeline its "
            "last step, which takes rows as the other steps leave them"
        )
    check_is_fitted(estimator)
    head = {
        "format": 1,
        "estimator": name,
        "version": sklearn.__version__,
        "features": int(estimator.n_features_in_),
        "names": [str(column) for column in getattr(estimator, "feature_names_in_", [])],
        "labels": [str(label) for label in estimator.classes_] if is_classifier(estimator) else [],
    }
    trees, more = ESTIMATORS[type(estimator)](estimator)
    head.update({**DEFAULTS, **more})
    base = np.broadcast_to(np.ravel(head.pop("base")), head["outputs"])

    sets = [members for one in trees for members in one["sets"].values()]
    sets_of, so_far = [], 0
    for one in trees:
        numbers = np.full(len(one["left"]), -1)
        numbers[list(one["sets"])] = np.arange(so_far, so_far + len(one["sets"]))
        so_far += len(one["sets"])
        sets_of.append(numbers)

    def joined(parts, dtype):
        return np.concatenate([np.ravel(part) for part in parts] + [[]]).astype(dtype)

    def offsets(parts):
        return np.cumsum([0] + [len(part) for part in parts]).astype("<i8")

    with open(path, "wb") as file:
        np.savez_compressed(
            file,
            fangorn=np.frombuffer(json.dumps(head).encode(), np.uint8),
            base=base.astype("<f8"),
            tree_offsets=offsets([one["left"] for one in trees]),
            tree_outputs=np.array([one["output"] for one in trees], "<i4"),
            left=joined([one["left"] for one in trees], "<i4"),
            right=joined([one["right"] for one in trees], "<i4"),
            feature=joined([one["feature"] for one in trees], "<i4"),
            threshold=joined([one["threshold"] for one in trees], "<f8"),
            missing_left=joined([one["missing_left"] for one in trees], "u1"),
            set=joined(sets_of, "<i4"),
            set_offsets=offsets(sets),
            set_members=joined(sets, "<i4"),
            values=joined([one["values"] for one in trees], "<f8"),
        )


# What a kind of estimator says otherwise. A row's margins are base + the leaves' sum, its values transform(scale *
# margins). Its class is the first largest of the margins, or 1 where the last value is over the threshold. `round` is
# the number of trees that one round of boosting adds, `categories` how a value is read as a category.
DEFAULTS = {
    "outputs": 1, "base": 0.0, "compare": "f32", "scale": 1.0, "transform": "identity", "classes": "none",
    "threshold": 0.0, "round": 0, "categories": "whole",
}  # fmt: skip


def nodes(left, right, feature, threshold, missing_left, values, output=0, columns=None, sets=None):
    """A tree: arrays with an entry a node, but values, which has one a leaf; -1 for the children of a leaf."""
    leaf = left == LEAF
    feature = np.where(leaf, 0, feature)
    return {
        "left": left,
        "right": np.where(leaf, LEAF, right),
        "feature": feature if columns is None else np.where(leaf, 0, np.asarray(columns)[feature]),
        "threshold": np.where(leaf, 0.0, threshold),
        "missing_left": np.where(leaf, 0, missing_left),
        "values": values[leaf],
        "output": output,
        "sets": sets or {},
    }


def grown(fitted, values, missing=True, **more):
    """A fitted tree with these values a node."""
    grown = fitted.tree_
    # Before 1.3 trees know no missing values: NaN is not at most a threshold.
    missing_left = getattr(grown, "missing_go_to_left", 0) if missing else 0
    return nodes(
        grown.children_left, grown.children_right, grown.feature, grown.threshold, missing_left, values, **more
    )


def average(estimator):
    """Trees, forests and bags of trees: the mean of the leaves."""
    trees = getattr(estimator, "estimators_", [estimator])
    columns = getattr(estimator, "estimators_features_", [None] * len(trees))
    for fitted in trees:
        if type(fitted) not in TREES:
            raise TypeError(f"{type(estimator).__name__} of {type(fitted).__name__} is not supported: only of trees")
    outputs = trees[0].n_outputs_
    if not is_classifier(estimator):
        leaves = [fitted.tree_.value[:, :, 0] / len(trees) for fitted in trees]
        output = EACH if outputs > 1 else 0
        return [grown(f, v, output=output, columns=c) for f, v, c in zip(trees, leaves, columns)], {"outputs": outputs}
    if outputs > 1:
        raise ValueError(
            f"{type(estimator).__name__} of {outputs} outputs is not supported: train a classifier for each of them"
        )
    classes = len(estimator.classes_)

    def shares(fitted):
        value = fitted.tree_.value[:, 0, :]
        total = value.sum(axis=1, keepdims=True)
        # Fractions since 1.4, weights before.
        if not np.allclose(total, 1.0, rtol=1e-9, atol=0.0):
            value = value / np.where(total == 0.0, 1.0, total)
        if value.shape[1] == classes:
            return value
        # A tree of a bag that has not seen all classes.
        wide = np.zeros((len(value), classes))
        wide[:, np.asarray(fitted.classes_, int)] = value
        return wide

    found = [grown(f, shares(f), output=EACH if classes > 1 else 0, columns=c) for f, c in zip(trees, columns)]
    # Leaves stay whole, so that sums of votes are exact and ties are ties.
    more = {"outputs": classes, "scale": 1.0 / len(trees), "classes": "largest"}
    if classes == 1:
        more.update(classes="over", threshold=float("inf"))
    return found, more


def boosting(estimator):
    """Gradient boosting: an initial value and the leaves times the learning rate."""
    init = estimator.init_
    steady = type(init) in (DummyClassifier, DummyRegressor) and init.strategy != "stratified"
    if not (isinstance(init, str) and init == "zero") and not steady:
        raise ValueError(
            f"{type(estimator).__name__} with init={init!r} is not supported: train with the default init or with "
            "init='zero'"
        )
    rounds, width = estimator.estimators_.shape
    found = []
    for stage in estimator.estimators_:
        for output, fitted in enumerate(stage):
            values = estimator.learning_rate * fitted.tree_.value[:, 0, 0]
            # It refuses missing values, and its own sums would send them right.
            found.append(grown(fitted, values, missing=False, output=output))
    base = estimator._raw_predict_init(np.zeros((1, estimator.n_features_in_), np.float32))
    more = {"outputs": width, "base": base, "round": width}
    if is_classifier(estimator) and width > 1:
        more.update(transform="softmax", classes="largest")
    elif is_classifier(estimator):
        # A margin of 0 is class 1.
        more.update(transform="sigmoid_pair", classes="over", threshold=float(np.nextafter(0.5, 0.0)))
        more["scale"] = 2.0 if estimator.loss == "exponential" else 1.0
    return found, more


def histogram(estimator):
    """Histogram boosting, with categories in the columns and the values that the user sees."""
    name, loss = type(estimator).__name__, estimator.loss
    link = {"poisson": "exp", "gamma": "exp"}
    plain = ("squared_error", "least_squares", "absolute_error", "least_absolute_deviation", "quantile")
    if is_classifier(estimator):
        known = ("log_loss", "auto", "binary_crossentropy", "categorical_crossentropy")
    else:
        known = plain + tuple(link)
    if loss not in known:
        raise ValueError(f"{name} with loss={loss!r} is not supported: train with one of {', '.join(known)}")
    encoder = getattr(estimator, "_preprocessor", None)
    columns, codes = np.arange(estimator.n_features_in_), None
    if encoder is not None:
        # Since 1.4 columns of categories are encoded first, and stand before the others.
        chosen = np.asarray(estimator.is_categorical_)
        columns = np.concatenate([np.flatnonzero(chosen), np.flatnonzero(~chosen)])
        encoded = encoder.named_transformers_["encoder"].categories_
        codes = [whole_numbers(name, column, found) for column, found in zip(columns, encoded)]
    known_sets, places = estimator._bin_mapper.make_known_categories_bitsets()

    def members(node, left_sets):
        """The categories that don't go where missing ones go; unknown ones are missing to scikit-learn."""
        left = bits(left_sets[node["bitset_idx"]])
        right = np.setdiff1d(bits(known_sets[places[node["feature_idx"]]]), left)
        found = right if node["missing_go_to_left"] else left
        return found if codes is None else codes[node["feature_idx"]][found]

    found = []
    for stage in estimator._predictors:
        for output, predictor in enumerate(stage):
            node, leaf = predictor.nodes, predictor.nodes["is_leaf"].astype(bool)
            splits = np.flatnonzero((node["is_categorical"] != 0) & ~leaf)
            found.append(
                nodes(
                    np.where(leaf, LEAF, node["left"].astype(np.int64)),
                    node["right"].astype(np.int64),
                    node["feature_idx"],
                    node["num_threshold"],
                    node["missing_go_to_left"],
                    node["value"],
                    output=output,
                    columns=columns,
                    sets={n: members(node[n], predictor.raw_left_cat_bitsets) for n in splits},
                )
            )
    width = estimator.n_trees_per_iteration_
    more = {"outputs": width, "base": estimator._baseline_prediction, "round": width, "compare": "f64"}
    more["categories"] = "not_negative" if codes is None else "whole"
    if not is_classifier(estimator):
        more["transform"] = link.get(loss, "identity")
    elif width > 1:
        more.update(transform="softmax", classes="largest")
    else:
        more.update(transform="sigmoid_pair", classes="over", threshold=0.5)
    return found, more


def bits(words):
    """The numbers of the bits that are set."""
    return np.flatnonzero(np.unpackbits(np.asarray(words, "<u4").view(np.uint8), bitorder="little"))


def whole_numbers(name, column, categories):
    """A column's categories as integers, the missing one left out."""
    numbers = []
    for value in categories:
        if value is None or value != value:
            continue
        if isinstance(value, (str, bytes)) or value != int(value) or not 0 <= value < 1 << 24:
            raise ValueError(
                f"{name}: category {value} of column {column} is not supported: train on whole numbers from 0 to "
                "2**24 - 1, for instance on the column's cat.codes"
            )
        numbers.append(int(value))
    return np.array(numbers, np.int64)


def isolation(estimator):
    """Isolation forests: the margin is the mean path length, the value the anomaly score -score_samples."""
    trees, features = estimator.estimators_, estimator.n_features_in_
    found = []
    for fitted, columns in zip(trees, estimator.estimators_features_):
        left, right = fitted.tree_.children_left, fitted.tree_.children_right
        depth = np.zeros(len(left))
        # Children stand after their parents.
        for n in np.flatnonzero(left != LEAF):
            depth[left[n]] = depth[right[n]] = depth[n] + 1
        values = (depth + path_length(fitted.tree_.n_node_samples)) / len(trees)
        found.append(grown(fitted, values, columns=None if len(columns) == features else columns))
    longest = float(path_length([estimator._max_samples])[0])
    # Of one sample nothing is learnt: the score is one half.
    more = {"scale": 1.0 / longest} if longest > 0.0 else {"base": 1.0}
    # scikit-learn's predict says -1 where the score is below the offset.
    more.update(transform="power_of_two", classes="over", threshold=-float(estimator.offset_), labels=["1", "-1"])
    return found, more


def path_length(samples):
    """The mean depth of a tree grown on so many samples."""
    samples = np.asarray(samples, float)
    many = np.maximum(samples, 3.0)
    length = 2.0 * (np.log(many - 1.0) + np.euler_gamma) - 2.0 * (many - 1.0) / many
    return np.where(samples <= 1.0, 0.0, np.where(samples == 2.0, 1.0, length))


TREES = (tree.DecisionTreeClassifier, tree.DecisionTreeRegressor, tree.ExtraTreeClassifier, tree.ExtraTreeRegressor)
ESTIMATORS = {
    **{kind: average for kind in TREES},
    ensemble.RandomForestClassifier: average,
    ensemble.RandomForestRegressor: average,
    ensemble.ExtraTreesClassifier: average,
    ensemble.ExtraTreesRegressor: average,
    ensemble.BaggingClassifier: average,
    ensemble.BaggingRegressor: average,
    ensemble.GradientBoostingClassifier: boosting,
    ensemble.GradientBoostingRegressor: boosting,
    ensemble.HistGradientBoostingClassifier: histogram,
    ensemble.HistGradientBoostingRegressor: histogram,
    ensemble.IsolationForest: isolation,
}

if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    import joblib

    export(joblib.load(sys.argv[1]), sys.argv[2])
