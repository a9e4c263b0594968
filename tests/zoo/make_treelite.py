#!/usr/bin/env python3
"""Make the small zoo of treelite checkpoints that the tests read.

Models are built by hand with treelite's ModelBuilder, or trained by scikit-learn,
XGBoost and LightGBM on data that this script draws from a seeded generator, and
imported by treelite. What treelite's own interpreter (GTIL) says of the rows is
what is expected of them.

It runs in the Python it is started with, which needs
  treelite 4.8.1, scikit-learn 1.9, xgboost 3.2.0, lightgbm 4.7, numpy, scipy

Examples:
  python3 tests/zoo/make_treelite.py                        make everything again
  python3 tests/zoo/make_treelite.py --check                make it elsewhere and compare
  python3 tests/zoo/make_treelite.py --only treelite-hinge  only these models
  python3 tests/zoo/make_treelite.py --table                print the table of the book
"""

import argparse
import filecmp
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent

# name -> function() -> (treelite model, rows to begin with, what is special)
MODELS = {}

# Values that are asked of a split on categories.
CATEGORIES = [-0.0, -0.5, -1, -7, 0.5, 2.7, 31, 32, 63, 64, 2.0**24 - 1, 2.0**24, 2.0**24 + 2, 1e30, -1e30, np.inf, np.nan]


def model(name):
    def register(make):
        MODELS[f"treelite-{name}"] = make
        return make

    return register


# ---------------------------------------------------------------- rows


def asked(built):
    """The thresholds and the categories that the model asks of each feature."""
    thresholds, categories = {}, {}
    for t in range(built.num_tree):
        tree = built.get_tree_accessor(t)
        fields = ["node_type", "split_index", "threshold", "category_list", "category_list_begin", "category_list_end"]
        kind, feature, threshold, lists, begin, end = map(tree.get_field, fields)
        for n in range(len(kind)):
            if kind[n] == 1:
                thresholds.setdefault(int(feature[n]), set()).add(float(threshold[n]))
            elif kind[n] == 2:
                members = [int(c) for c in lists[int(begin[n]) : int(end[n])]]
                categories.setdefault(int(feature[n]), set()).update(members)
    return thresholds, categories


def rows(built, begin, dtype, most):
    """Ordinary rows, then rows at thresholds and one float beside them, at categories, and at the ends of the type."""
    begin = np.asarray(begin, dtype)
    found = list(begin)
    thresholds, categories = asked(built)
    rng = np.random.RandomState(5)

    def put(feature, value):
        row = begin[rng.randint(len(begin))].copy()
        row[feature] = value
        found.append(row)

    at = [(f, t) for f, some in sorted(thresholds.items()) for t in sorted(some)]
    if len(at) > most:
        at = [at[i] for i in np.linspace(0, len(at) - 1, most).astype(int)]
    for feature, threshold in at:
        near = dtype(threshold)
        for value in [np.nextafter(near, dtype(-np.inf)), near, np.nextafter(near, dtype(np.inf))]:
            put(feature, value)
    for feature, members in sorted(categories.items()):
        largest = max(members, default=0)
        for value in sorted(members)[:4] + [largest, largest + 1, largest + 0.5] + CATEGORIES:
            put(feature, value)
    tiny, huge = np.nextafter(dtype(0), dtype(1)), np.finfo(dtype).max
    width = begin.shape[1]
    for value in [0.0, -0.0, tiny, -tiny, huge, -huge, np.inf, -np.inf, np.nan]:
        found.append(np.full(width, value, dtype))
    for _ in range(3):
        row = begin[rng.randint(len(begin))].copy()
        row[rng.uniform(size=width) < 0.5] = np.nan
        found.append(row)
    return np.array(found, dtype)


# ---------------------------------------------------------------- writing


def write(folder, name, built, begin, special, most=8):
    """Saves the model with its rows and what GTIL says of them."""
    import treelite

    gtil = treelite.gtil
    folder.mkdir(parents=True, exist_ok=True)
    built.serialize(str(folder / "model.tl"))
    x = rows(built, begin, np.float32, most)
    flat = lambda values: values.reshape(len(values), -1)
    raw = flat(gtil.predict(built, x, nthread=1, pred_margin=True))
    value = flat(gtil.predict(built, x, nthread=1))
    header = built.get_header_accessor()
    objective = header.get_field("postprocessor")
    objective = objective if isinstance(objective, str) else bytes(objective).decode()
    np.save(folder / "rows.npy", x)
    if objective == "exponential_standard_ratio":
        raw, value = value, value
    np.save(folder / "margin.npy", raw)
    if not np.array_equal(raw, value, equal_nan=True):
        np.save(folder / "output.npy", value)
    trees = built.num_tree
    np.save(folder / "leaves.npy", gtil.predict_leaf(built, x, nthread=1).astype(np.int32).reshape(len(x), trees))
    if built.input_type == "float64":
        x64 = rows(built, begin, np.float64, most)
        np.save(folder / "rows64.npy", x64)
        np.save(folder / "leaves64.npy", gtil.predict_leaf(built, x64, nthread=1).astype(np.int32).reshape(len(x64), trees))
        np.save(folder / "margin64.npy", flat(gtil.predict(built, x64, nthread=1, pred_margin=True)))
    meta = {
        "library": "treelite",
        "version": treelite.__version__,
        "trees": trees,
        "objective": objective,
        "special": special,
        "name": name,
        "model": "model.tl",
        "rows": list(x.shape),
        "outputs": int(raw.shape[1]),
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")


# ---------------------------------------------------------------- models by hand


def build(trees, features=3, type="float32", task="kRegressor", average=False, classes=(1,), leaf=(1, 1), targets=None,
          class_ids=None, post="identity", base=None, **parameters):
    """A model of trees whose nodes are tuples:

    ("leaf", value), (operator, feature, threshold, default_left, left, right) and
    ("in", feature, default_left, categories, categories go right, left, right).
    """
    from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

    outputs = len(classes) * max(classes)
    builder = ModelBuilder(
        threshold_type=type,
        leaf_output_type=type,
        metadata=Metadata(features, task, average, len(classes), list(classes), list(leaf)),
        tree_annotation=TreeAnnotation(len(trees), targets or [0] * len(trees), class_ids or [0] * len(trees)),
        postprocessor=PostProcessorFunc(post, **parameters),
        base_scores=[float(b) for b in base] if base is not None else [0.0] * outputs,
    )
    for tree in trees:
        builder.start_tree()
        for key, (kind, *node) in enumerate(tree):
            builder.start_node(key)
            if kind == "leaf":
                value = node[0]
                builder.leaf([float(v) for v in value] if isinstance(value, (list, tuple, np.ndarray)) else float(value))
            elif kind == "in":
                feature, left_default, members, right_members, left, right = node
                builder.categorical_test(feature, default_left=left_default, category_list=members,
                                         category_list_right_child=right_members, left_child_key=left, right_child_key=right)
            else:
                feature, threshold, left_default, left, right = node
                builder.numerical_test(feature, threshold, default_left=left_default, opname=kind,
                                       left_child_key=left, right_child_key=right)
            builder.end_node()
        builder.end_tree()
    return builder.commit()


def grown(rng, depth, features, leaf, ops=("<", "<=", ">", ">=", "=="), categories=0.2, values=(0.0, 0.5, -1.5)):
    """A random tree whose nodes stand in the order of a walk, left first."""
    nodes = []

    def grow(depth):
        at = len(nodes)
        nodes.append(None)
        if depth == 0 or rng.uniform() < 0.1:
            nodes[at] = ("leaf", leaf())
            return at
        feature, default = int(rng.randint(features)), bool(rng.randint(2))
        kind, threshold = ops[rng.randint(len(ops))], values[rng.randint(len(values))]
        members = sorted({int(c) for c in rng.randint(0, 70, rng.randint(0, 9))})
        polarity, among = bool(rng.randint(2)), rng.uniform() < categories
        left, right = grow(depth - 1), grow(depth - 1)
        nodes[at] = ("in", feature, default, members, polarity, left, right) if among else (kind, feature, threshold, default, left, right)
        return at

    grow(depth)
    return nodes


def numbers(seed, rows, features, missing=0.15):
    rng = np.random.RandomState(seed)
    x = (rng.normal(size=(rows, features)) * 10.0 ** rng.uniform(-1, 2, features)).astype(np.float32)
    score = np.sign(x[:, 0]) + x[:, 1 % features] / 10 - (x[:, 2 % features] > 0)
    x[rng.uniform(size=x.shape) < missing] = np.nan
    return x, score


def whole(seed, rows, features, categories):
    """Rows of small numbers, which are categories too."""
    rng = np.random.RandomState(seed)
    return rng.randint(-1, categories, (rows, features)).astype(np.float32)


def operators(type):
    tiny = 1e-45 if type == "float32" else 5e-324
    trees = []
    for op in ["<", "<=", "==", ">", ">="]:
        for i, t in enumerate([0.0, -0.0, tiny, -tiny, 0.1, 16777217.0, float("inf"), float("-inf")]):
            default = (i + len(op)) % 2 == 0
            trees.append([(op, i % 3, t, default, 1, 2), ("leaf", 1.5 * len(trees) + 0.25), ("leaf", -1.0 * len(trees) - 0.5)])
    special = f"every operator on thresholds of 0, -0, the least denormal and infinity, in {type}"
    return build(trees, type=type), numbers(1, 12, 3)[0], special


@model("operators")
def _():
    return operators("float32")


@model("operators-f64")
def _():
    return operators("float64")


def sets(type):
    trees = []
    for i, members in enumerate([[0], [2, 31, 32], [63, 64, 95, 96], [], [5, 200], [2**24 - 1], [1, 2, 3]]):
        for right in [False, True]:
            trees.append([("in", i % 2, (i + right) % 2 == 0, members, right, 1, 2), ("leaf", i + 0.5), ("leaf", -i - 0.25)])
    special = f"sets of categories that go left or right, one empty, one up to 2^24 - 1, in {type}"
    return build(trees, type=type, features=2), whole(2, 12, 2, 70), special


@model("categories")
def _():
    return sets("float32")


@model("categories-f64")
def _():
    return sets("float64")


def random_forest(seed, count, classes, leaf, targets, class_ids, post="identity_multiclass", type="float32", depth=3, **more):
    rng = np.random.RandomState(seed)
    width = leaf[0] * leaf[1]
    value = lambda: list(rng.normal(size=width).round(3)) if width > 1 else round(float(rng.normal()), 3)
    trees = [grown(rng, depth, 3, value) for _ in range(count)]
    outputs = len(classes) * max(classes)
    base = rng.normal(size=outputs).round(2)
    return build(trees, type=type, classes=classes, leaf=leaf, targets=targets, class_ids=class_ids, post=post, base=base, **more)


@model("all-targets-all-classes")
def _():
    built = random_forest(3, 5, (3, 2), (2, 3), [-1] * 5, [-1] * 5, average=True, task="kMultiClf")
    return built, whole(3, 16, 3, 70), "two targets of three and two classes, averaged; the sixth output only fills up"


@model("all-targets-one-class")
def _():
    built = random_forest(4, 6, (3, 3), (2, 1), [-1] * 6, [0, 1, 2, 2, 1, 0], task="kMultiClf")
    return built, whole(4, 16, 3, 70), "each tree adds to one class of both targets"


@model("one-target-all-classes")
def _():
    built = random_forest(5, 6, (3, 3, 2), (1, 3), [0, 1, 2, 2, 0, 0], [-1] * 6, average=True, task="kMultiClf")
    return built, whole(5, 16, 3, 70), "each tree adds to all classes of one of three targets; averaged by the trees of each"


@model("one-target-one-class")
def _():
    ids = [0, 1, 0, 0, 1, 1, 0], [0, 1, 1, 0, 0, 1, 1]
    built = random_forest(6, 7, (2, 2), (1, 1), *ids, average=True, task="kMultiClf")
    return built, whole(6, 16, 3, 70), "each tree adds to one class of one target; averaged by the trees of each"


@model("regression-targets")
def _():
    built = random_forest(7, 5, (1, 1, 1), (3, 1), [-1] * 5, [0] * 5, post="signed_square", type="float64")
    return built, whole(7, 16, 3, 70), "three targets of one class, transformed one by one"


def transformed(seed, post, special, classes=1, **more):
    ids = [0] * 6, [i % classes for i in range(6)]
    built = random_forest(seed, 6, (classes,), (1, 1), *ids, post=post, **more)
    return built, whole(seed, 16, 3, 70), special


@model("signed-square")
def _():
    return transformed(11, "signed_square", "m |m|")


@model("hinge")
def _():
    return transformed(12, "hinge", "1 where the margin is above 0", task="kBinaryClf")


@model("sigmoid-alpha")
def _():
    return transformed(13, "sigmoid", "a sigmoid of slope 2.5", task="kBinaryClf", sigmoid_alpha=2.5)


@model("exponential")
def _():
    return transformed(14, "exponential", "e^m")


@model("exponential-standard-ratio")
def _():
    return transformed(15, "exponential_standard_ratio", "2^-(m / 3.5); margin.npy holds the value", ratio_c=3.5, type="float64")


@model("logarithm-one-plus-exp")
def _():
    return transformed(16, "logarithm_one_plus_exp", "ln(1 + e^m)")


@model("softmax")
def _():
    return transformed(17, "softmax", "three classes, a tree a class", classes=3, task="kMultiClf")


@model("multiclass-ova")
def _():
    return transformed(18, "multiclass_ova", "three classes, each with a sigmoid of slope 0.7", classes=3, task="kMultiClf", sigmoid_alpha=0.7)


@model("no-trees")
def _():
    return build([], post="sigmoid", base=[-0.75], task="kBinaryClf"), numbers(8, 4, 3)[0], "no tree: the base score"


# ---------------------------------------------------------------- models of other libraries


def sklearn(estimator, x, y=None):
    import treelite

    return treelite.sklearn.import_model(estimator.fit(x, y))


@model("sk-random-forest-binary")
def _():
    from sklearn.ensemble import RandomForestClassifier

    x, y = numbers(21, 300, 4)
    built = sklearn(RandomForestClassifier(4, max_depth=3, random_state=1), x, y > 0)
    return built, x[:16], "a random forest of two classes: averaged vector leaves, missing values"


@model("sk-random-forest-classes-and-targets")
def _():
    from sklearn.ensemble import RandomForestClassifier

    x, y = numbers(22, 300, 4)
    y = np.stack([np.digitize(y, [-1, 0, 1]), y > 0.2], axis=1)
    built = sklearn(RandomForestClassifier(3, max_depth=3, random_state=1), x, y)
    return built, x[:16], "a random forest of two targets, of four and two classes"


@model("sk-extra-trees-targets")
def _():
    from sklearn.ensemble import ExtraTreesRegressor

    x, y = numbers(23, 300, 4)
    built = sklearn(ExtraTreesRegressor(3, max_depth=3, random_state=1), x, np.stack([y, -2 * y, y**2], axis=1))
    return built, x[:16], "extremely random trees of three targets"


@model("sk-gradient-boosting-classes")
def _():
    from sklearn.ensemble import GradientBoostingClassifier

    x, y = numbers(24, 300, 4, missing=0)
    built = sklearn(GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=1), x, np.digitize(y, [-1, 0.5]))
    return built, x[:16], "gradient boosting, three classes"


@model("sk-hist-gradient-boosting-categories")
def _():
    from sklearn.ensemble import HistGradientBoostingClassifier

    x, y = numbers(25, 400, 4)
    x[:, 1] = np.random.RandomState(1).randint(0, 40, len(x))
    y = y + (x[:, 1] % 3 == 0) - (x[:, 1] % 5 == 0)
    booster = HistGradientBoostingClassifier(max_iter=4, max_leaf_nodes=6, categorical_features=[1], random_state=1)
    return sklearn(booster, x, y > 0), x[:16], "histogram boosting with categories and missing values"


@model("sk-isolation-forest")
def _():
    from sklearn.ensemble import IsolationForest

    x, _ = numbers(26, 200, 4, missing=0)
    return sklearn(IsolationForest(n_estimators=4, max_samples=24, random_state=1), x), x[:16], "an isolation forest; margin.npy holds the score"


def xgb(objective, x, y, rounds=4, types=None, **more):
    import treelite
    import xgboost

    params = {"objective": objective, "max_depth": 3, "nthread": 1, "seed": 1, **more}
    data = xgboost.DMatrix(x, y, feature_types=types, enable_categorical=types is not None)
    booster = xgboost.train(params, data, rounds)
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "model.json")
        booster.save_model(path)
        return treelite.frontend.load_xgboost_model(path)


@model("xgb-logistic-missing")
def _():
    x, y = numbers(27, 400, 5)
    return xgb("binary:logistic", x, (y > 0).astype(int), base_score=0.3), x[:16], "XGBoost through treelite: float32, missing values"


@model("xgb-categories")
def _():
    x, y = numbers(28, 400, 3)
    x[:, 1] = np.random.RandomState(2).randint(0, 40, len(x))
    y = y + (x[:, 1] % 3 == 0) - (x[:, 1] % 5 == 0)
    built = xgb("reg:squarederror", x, y, types=["float", "c", "float"], max_cat_to_onehot=4)
    return built, x[:16], "XGBoost through treelite: categories"


@model("xgb-softprob")
def _():
    x, y = numbers(29, 400, 4)
    return xgb("multi:softprob", x, np.digitize(y, [-1, 0.5]), num_class=3), x[:16], "XGBoost through treelite: three classes"


@model("xgb-pruned")
def _():
    x, y = numbers(33, 400, 4)
    built = xgb("reg:squarederror", x, y, gamma=30, tree_method="exact", max_depth=4)
    return built, x[:16], "XGBoost through treelite: pruned nodes stay in the file as leaves that are no node's child"


def lgb(objective, x, y, rounds=4, **more):
    import lightgbm
    import treelite

    params = {"objective": objective, "num_leaves": 6, "verbosity": -1, "num_threads": 1, "seed": 1, "min_data_in_leaf": 5, **more}
    categories = more.pop("categorical", "auto")
    params.pop("categorical", None)
    booster = lightgbm.train(params, lightgbm.Dataset(x, y, categorical_feature=categories), rounds)
    return treelite.frontend.from_lightgbm(booster)


@model("lgb-binary-categories")
def _():
    x, y = numbers(30, 400, 3)
    x[:, 1] = np.random.RandomState(3).randint(0, 40, len(x))
    y = y + (x[:, 1] % 3 == 0) - (x[:, 1] % 5 == 0)
    built = lgb("binary", x.astype(float), (y > 0).astype(int), sigmoid=1.7, categorical=[1], min_data_per_group=5, cat_smooth=1)
    return built, x[:16], "LightGBM through treelite: categories, a sigmoid of slope 1.7"


@model("lgb-multiclassova")
def _():
    x, y = numbers(31, 400, 3)
    return lgb("multiclassova", x.astype(float), np.digitize(y, [-1, 0.5]), num_class=3), x[:16], "LightGBM through treelite: one against the others"


@model("lgb-random-forest")
def _():
    x, y = numbers(32, 400, 3)
    built = lgb("regression", x.astype(float), y, boosting="rf", bagging_freq=1, bagging_fraction=0.6)
    return built, x[:16], "LightGBM through treelite: averaged trees"


# ---------------------------------------------------------------- main


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names of models, separated by commas")
    parser.add_argument("--out", type=pathlib.Path, default=HERE, help="folder to write to")
    parser.add_argument("--check", action="store_true", help="write elsewhere and compare with what is here")
    parser.add_argument("--table", action="store_true", help="print a table of the models")
    args = parser.parse_args()
    names = args.only.split(",") if args.only else list(MODELS)
    if args.table:
        print("| model | postprocessor | trees | rows x features | outputs | what it is there for |\n|---|---|---:|---:|---:|---|")
        for name in sorted(names):
            m = json.loads((HERE / name / "meta.json").read_text())
            size = " x ".join(map(str, m["rows"]))
            print(f"| `{name}` | `{m['objective']}` | {m['trees']} | {size} | {m['outputs']} | {m['special']} |")
        return
    out = pathlib.Path(tempfile.mkdtemp()) if args.check else args.out
    for name in names:
        built, begin, special = MODELS[name]()
        shutil.rmtree(out / name, ignore_errors=True)
        write(out / name, name, built, begin, special)
        size = sum(f.stat().st_size for f in (out / name).iterdir())
        print(f"{name}: {size} bytes")
    if args.check:
        differ = []
        for name in names:
            files = sorted({f.name for folder in (HERE / name, out / name) for f in folder.glob("*")})
            _, different, missing = filecmp.cmpfiles(HERE / name, out / name, files, shallow=False)
            differ += [f"{name}/{file}" for file in different + missing]
        shutil.rmtree(out)
        sys.exit(f"these differ: {', '.join(differ)}" if differ else 0)


if __name__ == "__main__":
    main()
