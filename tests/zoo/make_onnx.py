#!/usr/bin/env python3
"""Make the ONNX models of the zoo, and what ONNX Runtime says of their rows.

Some graphs are written by hand, for what no exporter writes; the others are
trained on numbers from a seeded generator and exported by skl2onnx,
onnxmltools and CatBoost. Nothing is downloaded.

Needs: numpy, onnx, onnxruntime, scikit-learn, skl2onnx, onnxmltools, xgboost,
lightgbm, catboost.

  python3 tests/zoo/make_onnx.py                 make everything again
  python3 tests/zoo/make_onnx.py --only modes    only the models of this name
"""

import argparse
import json
import pathlib
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
ML = "ai.onnx.ml"
TYPES = {T.FLOAT: np.float32, T.DOUBLE: np.float64, T.INT64: np.int64}
MODES = ["LEQ", "LT", "GTE", "GT", "EQ", "NEQ"]

# name -> function() -> Model
MODELS = {}

# Models of which a second folder holds the labels in the place of the values.
WITH_LABELS = {
    "onnx-" + name
    for name in (
        "one-score-positive one-score-logistic one-score-mixed second-score opposite-softmax integers members-softmax"
        " sklearn-forest boosted-binary catboost-classes"
    ).split()
}


class Model:
    """A graph, what it is there for, and the rows that stand for training data."""

    def __init__(self, graph, special, data=None, shift=0.0, whole=False):
        self.graph = graph
        self.special = special
        self.data = data
        self.shift = shift  # what steps after the trees add to margins, one for each output
        self.whole = whole  # rows hold whole numbers


def model(function):
    MODELS["onnx-" + function.__name__.replace("_", "-")] = function
    return function


# --- graphs by hand ---------------------------------------------------------


def grow(rng, modes, leaf, depth=3, features=3, tracks=False, thresholds=(0.0, -0.5, 1.0, 2.0, 2.5)):
    """A tree as tuples: (id, mode, feature, threshold, true, false, tracks) or (id, 'LEAF', votes)."""
    nodes = []
    count = [0]

    def node(d):
        number = count[0]
        count[0] += 1
        place = len(nodes)
        if d == 0:
            nodes.append((number, "LEAF", leaf()))
            return number
        nodes.append(None)
        yes, no = node(d - 1), node(d - 1 if rng.random() < 0.8 else 0)
        mode = modes[rng.integers(len(modes))]
        missing = int(tracks and rng.random() < 0.5)
        value = float(thresholds[rng.integers(len(thresholds))])
        nodes[place] = (number, mode, int(rng.integers(features)), value, yes, no, missing)
        return number

    node(depth)
    return nodes


def attributes(trees, prefix, double):
    """The lists of the classic operators."""
    out = {f"nodes_{n}": [] for n in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true")}
    votes = {f"{prefix}_{n}": [] for n in ("treeids", "nodeids", "ids", "weights")}
    for t, nodes in enumerate(trees):
        for number, mode, *rest in nodes:
            leaf = mode == "LEAF"
            feature, value, yes, no, missing = (0, 0.0, 0, 0, 0) if leaf else rest
            fields = (t, number, feature, value, "LEAF" if leaf else "BRANCH_" + mode, yes, no, missing)
            for name, field in zip(out, fields):
                out[name].append(field)
            for output, weight in rest[0].items() if leaf else ():
                for name, field in zip(votes, (t, number, output, float(weight))):
                    votes[name].append(field)
    out.update(votes)
    if double:
        for name in ("nodes_values", f"{prefix}_weights"):
            out[name + "_as_tensor"] = numpy_helper.from_array(np.array(out.pop(name), np.float64), name)
    return {name: value for name, value in out.items() if not isinstance(value, list) or value}


def graph(nodes, element, features, outputs, ml=3, opset=17, constants=()):
    value = helper.make_tensor_value_info
    inside = helper.make_graph(
        nodes, "trees", [value("X", element, [None, features])], [value(n, t, s) for n, t, s in outputs], list(constants)
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(ML, ml)]
    return helper.make_model(inside, opset_imports=opsets, ir_version=8, producer_name="make_onnx")


def regressor(trees, targets=1, features=3, element=T.FLOAT, double=False, **more):
    node = helper.make_node(
        "TreeEnsembleRegressor", ["X"], ["Y"], domain=ML, n_targets=targets, **attributes(trees, "target", double), **more
    )
    return graph([node], element, features, [("Y", T.FLOAT, [None, targets])])


def classifier(trees, labels, features=3, element=T.FLOAT, double=False, **more):
    text = isinstance(labels[0], str)
    more["classlabels_strings" if text else "classlabels_int64s"] = labels
    node = helper.make_node(
        "TreeEnsembleClassifier", ["X"], ["L", "P"], domain=ML, **attributes(trees, "class", double), **more
    )
    outputs = [("L", T.STRING if text else T.INT64, [None]), ("P", T.FLOAT, [None, len(labels)])]
    return graph([node], element, features, outputs)


def unified(rng, modes, depth=4, trees=3, targets=1, features=3, after=(), outputs=None, constants=(), **more):
    """`TreeEnsemble`: inner nodes and leaves are lists of their own."""
    nodes, leaves, sets = [], [], {}

    def node(d, root=False):
        if d == 0 or not root and rng.random() < 0.15:
            leaves.append((int(rng.integers(targets)), float(np.float32(rng.normal()))))
            return 1, len(leaves) - 1
        place = len(nodes)
        nodes.append(None)
        mode = modes[rng.integers(len(modes))]
        if mode == 6:
            sets[place] = rng.permutation([0.0, 1.0, 2.0, 3.0, 7.0])[: rng.integers(1, 5)]
        split = float(np.float32(rng.choice([0.0, 1.0, 2.0, 0.5, -1.0])))
        nodes[place] = (mode, int(rng.integers(features)), split, node(d - 1), node(d - 1), int(rng.random() < 0.5))
        return 0, place

    roots = [node(depth, root=True)[1] for _ in range(trees)]
    members = np.concatenate([np.append(sets[n], np.nan) for n in sorted(sets)]) if sets else []
    tensor = lambda values, kind=np.float32: numpy_helper.from_array(np.array(values, kind))
    if sets:
        more["membership_values"] = tensor(members)
    raw = "raw" if after else "Y"
    operator = helper.make_node(
        "TreeEnsemble", ["X"], [raw], domain=ML, tree_roots=roots, n_targets=targets,
        nodes_modes=tensor([n[0] for n in nodes], np.uint8), nodes_featureids=[n[1] for n in nodes],
        nodes_splits=tensor([n[2] for n in nodes]), nodes_trueleafs=[n[3][0] for n in nodes],
        nodes_truenodeids=[n[3][1] for n in nodes], nodes_falseleafs=[n[4][0] for n in nodes],
        nodes_falsenodeids=[n[4][1] for n in nodes], nodes_missing_value_tracks_true=[n[5] for n in nodes],
        leaf_targetids=[v[0] for v in leaves], leaf_weights=tensor([v[1] for v in leaves]), **more,
    )
    return graph([operator, *after], T.FLOAT, features, outputs or [("Y", T.FLOAT, [None, targets])], ml=5, opset=21, constants=constants)


def normal(rng, outputs=1):
    return lambda: {o: float(np.float32(rng.normal())) for o in range(outputs)}


@model
def modes():
    rng = np.random.default_rng(1)
    trees = [grow(rng, MODES, normal(rng), depth=4, tracks=True) for _ in range(4)]
    return Model(regressor(trees), "all six modes, missing values on either branch")


@model
def modes_alone():
    rng = np.random.default_rng(2)
    trees = [grow(rng, [mode], normal(rng), tracks=t) for mode in MODES for t in (False, True)]
    return Model(regressor(trees), "one mode a tree, with and without nodes_missing_value_tracks_true")


@model
def doubles():
    rng = np.random.default_rng(3)
    thresholds = (0.1, 0.0, -0.3, 1 / 3, 2.0)
    trees = [grow(rng, MODES, normal(rng), depth=4, tracks=True, thresholds=thresholds) for _ in range(4)]
    return Model(regressor(trees, element=T.DOUBLE, double=True), "double thresholds and input: compared in double")


@model
def doubles_of_floats():
    rng = np.random.default_rng(4)
    thresholds = (0.1, 0.0, -0.3, 1 / 3, 2.0)
    trees = [grow(rng, MODES, normal(rng), depth=4, tracks=True, thresholds=thresholds) for _ in range(4)]
    made = regressor(trees, element=T.DOUBLE, double=True)
    made.graph.input[0].type.tensor_type.elem_type = T.FLOAT
    made.graph.node[0].input[0] = "D"
    made.graph.node.insert(0, helper.make_node("Cast", ["X"], ["D"], to=T.DOUBLE))
    return Model(made, "a row of floats that is cast to double: thresholds are narrowed by their direction")


@model
def average():
    rng = np.random.default_rng(5)
    trees = [grow(rng, MODES, normal(rng, 2)) for _ in range(5)]
    made = regressor(trees, 2, aggregate_function="AVERAGE", base_values=[1.5, -2.0])
    return Model(made, "AVERAGE of two targets with base values")


@model
def least():
    rng = np.random.default_rng(6)
    trees = [grow(rng, MODES, normal(rng, 2)) for _ in range(5)]
    return Model(regressor(trees, 2, aggregate_function="MIN", base_values=[1.5, -2.0]), "MIN with base values")


@model
def largest():
    rng = np.random.default_rng(7)
    trees = [grow(rng, MODES, lambda o=t % 2: {o: float(rng.normal())}) for t in range(6)]
    return Model(regressor(trees, 2, aggregate_function="MAX"), "MAX, a target a tree")


def of_three(seed, transform):
    rng = np.random.default_rng(seed)
    return regressor([grow(rng, MODES, normal(rng, 3)) for _ in range(3)], 3, post_transform=transform)


@model
def logistic():
    return Model(of_three(8, "LOGISTIC"), "LOGISTIC of three targets")


@model
def softmax():
    return Model(of_three(9, "SOFTMAX"), "SOFTMAX of three targets")


@model
def softmax_zero():
    rng = np.random.default_rng(10)
    leaf = lambda: {int(rng.integers(4)): float(rng.normal())}
    made = regressor([grow(rng, MODES, leaf) for _ in range(3)], 4, post_transform="SOFTMAX_ZERO")
    return Model(made, "SOFTMAX_ZERO: targets that no leaf of a row speaks for stay zero")


@model
def probit():
    rng = np.random.default_rng(11)
    # Away from one half, where ONNX Runtime's single precision cancels.
    leaf = lambda: {0: 0.02 + 0.1 * rng.random()}
    return Model(regressor([grow(rng, MODES, leaf) for _ in range(3)], post_transform="PROBIT"), "PROBIT")


@model
def no_trees():
    return Model(regressor([], base_values=[0.75]), "no tree: the base value")


@model
def one_score_positive():
    rng = np.random.default_rng(12)
    trees = [grow(rng, MODES, lambda: {0: rng.random() / 3}) for _ in range(3)]
    return Model(classifier(trees, [3, 7], base_values=[0.125]), "two classes, one score, no weight below zero")


@model
def one_score_logistic():
    rng = np.random.default_rng(13)
    trees = [grow(rng, MODES, normal(rng)) for _ in range(3)]
    return Model(classifier(trees, ["3", "7"], post_transform="LOGISTIC"), "two classes by name, one score, LOGISTIC")


@model
def one_score_mixed():
    rng = np.random.default_rng(14)
    trees = [grow(rng, MODES, normal(rng)) for _ in range(3)]
    return Model(classifier(trees, [3, 7]), "two classes, one score, weights of both signs: -s and s")


@model
def second_score():
    rng = np.random.default_rng(20)
    trees = [grow(rng, MODES, lambda: {1: float(np.float32(rng.normal()))}) for _ in range(3)]
    made = classifier(trees, [3, 7], post_transform="SOFTMAX")
    return Model(made, "two classes, weights of both signs for the second alone, SOFTMAX of 0 and s")


@model
def opposite_softmax():
    rng = np.random.default_rng(15)

    def leaf():
        score = float(np.float32(rng.normal()))
        return {0: -score, 1: score}

    trees = [grow(rng, MODES, leaf) for _ in range(3)]
    return Model(classifier(trees, [0, 1], post_transform="SOFTMAX"), "two classes with opposite scores, SOFTMAX")


@model
def integers():
    rng = np.random.default_rng(16)
    trees = [grow(rng, MODES, normal(rng, 3)) for _ in range(3)]
    made = classifier(trees, [10, 20, 30], element=T.INT64, post_transform="SOFTMAX")
    return Model(made, "rows of int64, which become floats", whole=True)


@model
def members():
    return Model(unified(np.random.default_rng(17), range(7)), "TreeEnsemble: all seven modes, sets of members")


@model
def members_softmax():
    # A label by the largest score, looked up among names.
    after = [
        helper.make_node("Softmax", ["raw"], ["Y"], axis=1),
        helper.make_node("ArgMax", ["raw"], ["at"], axis=1, keepdims=0),
        helper.make_node("LabelEncoder", ["at"], ["L"], domain=ML, keys_int64s=[0, 1, 2], values_strings=["10", "20", "30"]),
    ]
    outputs = [("Y", T.FLOAT, [None, 3]), ("L", T.STRING, [None])]
    made = unified(np.random.default_rng(18), [0, 3, 6], trees=9, targets=3, after=after, outputs=outputs)
    return Model(made, "TreeEnsemble, then Softmax; ArgMax and LabelEncoder for the label")


@model
def scaled():
    constants = [numpy_helper.from_array(np.array(v, np.float32), n) for n, v in (("c", [0.5]), ("d", [1.0, 2.0, 3.0]))]
    after = [helper.make_node("Mul", ["raw", "c"], ["m"]), helper.make_node("Add", ["d", "m"], ["Y"])]
    made = unified(np.random.default_rng(19), [0, 3], targets=3, after=after, constants=constants)
    return Model(made, "Mul and Add after the trees: a scale and a base score", shift=np.array([2.0, 4.0, 6.0]))


# --- exports ------------------------------------------------------------------


def data(classes, features=5, rows=400, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(rows, features)), 2).astype(np.float32)
    score = X[:, 0] * 2 + X[:, 1] ** 2 + rng.normal(size=rows) * 0.3
    y = np.searchsorted(np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1]), score)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y, score


def whole_numbers():
    """skl2onnx gives truth values of numpy where onnx wants integers."""
    make = helper.make_attribute

    def patched(key, value, *args, **kwargs):
        if isinstance(value, list) and any(isinstance(v, (bool, np.bool_, np.integer)) for v in value):
            value = [int(v) for v in value]
        return make(key, value, *args, **kwargs)

    helper.make_attribute = patched


def sklearn(estimator, X, y, **options):
    from skl2onnx import to_onnx

    whole_numbers()
    return to_onnx(estimator.fit(X, y), X[:1], **options)


def tools(convert, estimator, X, y, **fit):
    from onnxmltools.convert.common.data_types import FloatTensorType

    options = fit.pop("options", {})
    return convert(estimator.fit(X, y, **fit), initial_types=[("X", FloatTensorType([None, X.shape[1]]))], **options)


@model
def sklearn_forest():
    from sklearn.ensemble import RandomForestClassifier

    X, y, _ = data(3)
    made = sklearn(RandomForestClassifier(4, max_depth=4, random_state=0), X, (y + 10).astype(str))
    return Model(made, "skl2onnx: leaf distributions of classes named by strings, ZipMap", X)


@model
def sklearn_forest_binary():
    from sklearn.ensemble import ExtraTreesClassifier

    X, y, _ = data(2, seed=1)
    made = sklearn(ExtraTreesClassifier(5, max_depth=5, random_state=0), X, y, options={"zipmap": False})
    return Model(made, "skl2onnx: one probability for two classes", X)


@model
def sklearn_histogram():
    from sklearn.ensemble import HistGradientBoostingClassifier

    X, y, _ = data(2, seed=2, missing=0.2)
    made = sklearn(HistGradientBoostingClassifier(max_iter=6, max_leaf_nodes=8), X, y, options={"zipmap": False})
    return Model(made, "skl2onnx: histogram boosting with missing values on either branch", X)


@model
def sklearn_exponential():
    from sklearn.ensemble import GradientBoostingClassifier

    X, y, _ = data(2, seed=3)
    made = sklearn(GradientBoostingClassifier(n_estimators=6, loss="exponential", random_state=0), X, y)
    return Model(made, "skl2onnx: Mul and Sigmoid after a pair of scores", X)


@model
def sklearn_multi_target():
    from sklearn.ensemble import RandomForestRegressor

    X, _, score = data(2, seed=4)
    made = sklearn(RandomForestRegressor(4, max_depth=4, random_state=0), X, np.c_[score, -score, score**2])
    return Model(made, "skl2onnx: three targets a leaf", X)


@model
def boosted_binary():
    import xgboost
    from onnxmltools import convert_xgboost

    X, y, _ = data(2, seed=5, missing=0.1)
    made = tools(convert_xgboost, xgboost.XGBClassifier(n_estimators=8, max_depth=3), X, y)
    return Model(made, "onnxmltools: binary:logistic with a base value", X)


@model
def boosted_classes():
    import xgboost
    from onnxmltools import convert_xgboost

    X, y, _ = data(4, seed=6, missing=0.1)
    made = tools(convert_xgboost, xgboost.XGBClassifier(n_estimators=3, max_depth=3), X, y)
    return Model(made, "onnxmltools: multi:softprob, a class a tree", X)


@model
def boosted_poisson():
    import xgboost
    from onnxmltools import convert_xgboost

    X, _, score = data(2, seed=7, missing=0.1)
    made = tools(convert_xgboost, xgboost.XGBRegressor(objective="count:poisson", n_estimators=6, max_depth=3), X, abs(score))
    factor = float(numpy_helper.to_array(made.graph.initializer[0])[0])
    return Model(made, "onnxmltools: Exp, then Mul, which is a base score", X, shift=np.log(factor))


@model
def lightgbm_categories():
    import lightgbm
    from onnxmltools import convert_lightgbm

    X, _, _ = data(2, seed=8)
    X[:, 0] = np.random.default_rng(8).integers(0, 60, len(X))
    y = (X[:, 0] % 3 == 0).astype(int)
    how = dict(n_estimators=4, num_leaves=6, min_data_per_group=1, cat_smooth=1, max_cat_to_onehot=1, verbose=-1)
    made = tools(convert_lightgbm, lightgbm.LGBMClassifier(**how), X, y, categorical_feature=[0], options={"zipmap": False})
    return Model(made, "onnxmltools: chains of BRANCH_EQ that share their true branch, read as sets", X)


@model
def lightgbm_forest():
    import lightgbm
    from onnxmltools import convert_lightgbm

    X, _, score = data(2, seed=9, missing=0.1)
    how = dict(boosting_type="rf", n_estimators=6, num_leaves=8, subsample=0.6, subsample_freq=1, verbose=-1)
    made = tools(convert_lightgbm, lightgbm.LGBMRegressor(**how), X, score)
    return Model(made, "onnxmltools: Div by the number of trees, which is a scale", X)


def catboost(estimator, X, y):
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        estimator.fit(X, y).save_model(file.name, format="onnx")
        return onnx.load(file.name)


@model
def catboost_binary():
    from catboost import CatBoostClassifier

    X, y, _ = data(2, seed=10, missing=0.1)
    made = catboost(CatBoostClassifier(iterations=5, depth=3, verbose=0, allow_writing_files=False), X, y)
    return Model(made, "CatBoost: opposite scores of two classes, BRANCH_GT", X)


@model
def catboost_classes():
    from catboost import CatBoostClassifier

    X, y, _ = data(3, seed=11)
    made = catboost(CatBoostClassifier(iterations=4, depth=3, verbose=0, allow_writing_files=False), X, y)
    return Model(made, "CatBoost: SOFTMAX of three classes", X)


@model
def catboost_regression():
    from catboost import CatBoostRegressor

    X, _, score = data(2, seed=12)
    made = catboost(CatBoostRegressor(iterations=5, depth=3, verbose=0, allow_writing_files=False), X, score)
    return Model(made, "CatBoost: a base value", X)


# --- what ONNX Runtime says -----------------------------------------------------


def run(made, rows):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: rows})


def operator(made):
    return next(n for n in made.graph.node if n.op_type.startswith("TreeEnsemble"))


def fields(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def margins(made, rows):
    """The operator's sums, before its post transform: of two classes with one score between them, that score; where the
    score is the second's, ONNX Runtime's 0 of the first beside it."""
    cut = onnx.ModelProto()
    cut.CopyFrom(made)
    node = operator(cut)
    end = [n.output[0] for n in cut.graph.node].index(node.output[0]) + 1
    for attribute in [a for a in node.attribute if a.name == "post_transform"]:
        node.attribute.remove(attribute)
    kept = list(cut.graph.node)[:end]
    del cut.graph.node[:], cut.graph.output[:]
    cut.graph.node.extend(kept)
    is_classifier = node.op_type == "TreeEnsembleClassifier"
    cut.graph.output.append(helper.make_tensor_value_info(node.output[int(is_classifier)], T.FLOAT, None))
    sums = np.asarray(run(cut, rows)[0]).reshape(len(rows), -1)
    if is_classifier and sums.shape[1] == 2 and set(fields(node)["class_ids"]) != {1}:
        return sums[:, 1:]
    return sums


def thresholds(made):
    found = fields(operator(made))
    features = np.array(found.get("nodes_featureids", []), int)
    if "nodes_splits" not in found and "nodes_values_as_tensor" not in found:
        values = np.array(found.get("nodes_values", []), np.float64)
    else:
        values = numpy_helper.to_array(found.get("nodes_values_as_tensor") or found["nodes_splits"]).astype(np.float64)
    if isinstance(found.get("nodes_modes"), list):
        inner = np.array([mode != b"LEAF" for mode in found["nodes_modes"]], bool)
        features, values = features[inner], values[inner]
    return features, values


def hard_rows(made, what, width, kind, count=72):
    """Rows at the model's own thresholds and one ulp beside them, and odd values."""
    rng = np.random.default_rng(99)
    odd = np.array([0.0, -0.0, 1e-45, -1e-45, np.inf, -np.inf, np.nan, 1, 2, 3, 2.7, -0.5, -1, 2.0**24, 1e30, 60, 61], kind)
    base = what.data if what.data is not None else rng.uniform(-2, 4, (50, width))
    rows = base[rng.integers(len(base), size=count)].astype(kind)
    features, values = thresholds(made)
    for r in range(count if len(values) else 0):
        for f in range(width):
            at = values[features == f].astype(kind)
            chance = rng.random()
            if chance < 0.5 and len(at):
                t = at[rng.integers(len(at))]
                rows[r, f] = [t, np.nextafter(t, kind(np.inf)), np.nextafter(t, kind(-np.inf))][rng.integers(3)]
            elif chance < 0.65:
                rows[r, f] = odd[rng.integers(len(odd))]
    return np.trunc(np.clip(np.nan_to_num(rows), -9, 2**25)).astype(kind) if what.whole else rows


def write(name, what):
    made = what.graph
    tensor = made.graph.input[0].type.tensor_type
    width = tensor.shape.dim[1].dim_value
    kind = TYPES[tensor.elem_type]
    rows = hard_rows(made, what, width, np.float32)
    outputs = run(made, rows.astype(kind))
    margin = margins(made, rows.astype(kind)).astype(np.float64) + what.shift
    values, labels = None, None
    for output in outputs:
        if isinstance(output, list):
            output = np.array([list(row.values()) for row in output], np.float32)
        if output.dtype.kind == "f":
            values = output.reshape(len(rows), -1)
        else:
            labels = output.ravel().astype(np.int64)
    write_folder(name, what, rows, margin, values)
    if labels is not None and name in WITH_LABELS:
        write_folder(name + "-labels", what, rows, margin, labels)
    if kind is np.float64:
        rows64 = hard_rows(made, what, width, np.float64)
        np.save(HERE / name / "rows64.npy", rows64)
        np.save(HERE / name / "margin64.npy", margins(made, rows64).astype(np.float64) + what.shift)


def write_folder(name, what, rows, margin, output):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    node = operator(what.graph)
    onnx.save(what.graph, folder / "model.onnx")
    np.save(folder / "rows.npy", rows)
    single = margin.astype(np.float32)
    np.save(folder / "margin.npy", single if (single == margin).all() else margin)
    same = output.shape == margin.shape and np.array_equal(output, single)
    if not same:
        np.save(folder / "output.npy", output)
    found = fields(node)
    trees = found["tree_roots"] if "tree_roots" in found else set(found.get("nodes_treeids", []))
    meta = {
        "library": "onnx",
        "version": onnx.__version__,
        "trees": len(trees),
        "objective": node.op_type,
        "special": what.special,
        "name": name,
        "model": "model.onnx",
        "rows": list(rows.shape),
        "outputs": int(margin.shape[1]),
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names, with commas between them")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    ort.set_default_logger_severity(4)
    only = {"onnx-" + n.removeprefix("onnx-") for n in arguments.only.split(",")} if arguments.only else set(MODELS)
    for name in sorted(only):
        write(name, MODELS[name]())
        print(name)


if __name__ == "__main__":
    main()
