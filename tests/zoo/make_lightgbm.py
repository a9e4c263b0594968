#!/usr/bin/env python3
"""Make the zoo's models of LightGBM's text format, `lightgbm-*`.

Every model is trained on data that this script draws from a seeded generator.
What is asserted is what LightGBM {version} says of the file read back: leaf
indices, raw scores and outputs of float32 rows, and of float64 rows at the
thresholds themselves (`rows64.npy`, `leaves64.npy`, `margin64.npy`).

It needs numpy, pandas and lightgbm=={version}.

Examples:
  python3 tests/zoo/make_lightgbm.py                       make everything again
  python3 tests/zoo/make_lightgbm.py --check               make it elsewhere and compare
  python3 tests/zoo/make_lightgbm.py --only lightgbm-dart  only these models
"""

import argparse
import filecmp
import json
import pathlib
import shutil
import sys
import tempfile

import lightgbm
import numpy as np
import pandas

HERE = pathlib.Path(__file__).resolve().parent
VERSION = "4.7.0"
F32 = np.float32
ZONE = float(F32(1e-35))  # values of at most this magnitude are zeros to LightGBM

# name -> function() -> Trained
MODELS = {}


class Trained:
    """What a recipe hands back: the text of a model and data to draw rows from."""

    def __init__(self, text, data, special, judged=None, categories=()):
        self.text = text
        self.data = np.asarray(data, dtype=np.float64)
        self.special = special
        self.judged = judged or text  # the text that LightGBM is asked about
        self.categories = list(categories)  # categorical columns


def model(name):
    def register(make):
        MODELS[f"lightgbm-{name}"] = make
        return make

    return register


# ---------------------------------------------------------------- data


def numbers(seed, rows=500, features=6, missing=0.15, zeros=0.1):
    """Normal features on differing scales, some values missing, some zero, and a score made of them."""
    rng = np.random.RandomState(seed)
    raw = rng.normal(size=(rows, features))
    x = raw * 10.0 ** rng.uniform(-2, 3, features)
    score = raw[:, 0] - 0.7 * raw[:, 1] * raw[:, 2] + 0.5 * (raw[:, 3] > 0.3)
    hole = rng.uniform(size=x.shape) < missing
    score = score + 1.5 * hole[:, 0] - 1.5 * hole[:, 1]
    none = rng.uniform(size=x.shape) < zeros
    score = score + 0.8 * none[:, 0] - 0.8 * none[:, 2]
    x[none] = 0.0
    x[hole] = np.nan
    return x, score + rng.normal(size=rows) * 0.3, rng


def categories(seed, rows=600, most=40):
    """Three columns of category codes and one of numbers."""
    rng = np.random.RandomState(seed)
    x = np.stack([rng.randint(0, n, rows) for n in (3, 12, most)] + [rng.normal(size=rows)], axis=1).astype(float)
    y = (x[:, 0] == 1) + 0.5 * (x[:, 1] % 3) + np.sin(x[:, 2]) + 0.3 * x[:, 3] + rng.normal(size=rows) * 0.2
    x[rng.uniform(size=x.shape) < 0.08] = np.nan
    return x, y, rng


def fit(x, y, rounds=6, group=None, columns="auto", names="auto", **more):
    params = {
        "verbosity": -1,
        "num_threads": 1,
        "seed": 7,
        "deterministic": True,
        "force_col_wise": True,
        "num_leaves": 9,
        "learning_rate": 0.3,
        "min_data_in_leaf": 5,
    }
    params.update(more)
    data = lightgbm.Dataset(x, y, group=group, categorical_feature=columns, feature_name=names, params=dict(params))
    return lightgbm.train(params, data, rounds)


def plain(special, label, seed=1, rounds=4, **more):
    """A recipe over numbers alone, with a label made of the score. The list of parameters is cut out to save room."""

    def make():
        x, score, rng = numbers(seed)
        text = fit(x, label(score, rng), rounds, **more).model_to_string()
        head, tail = text[: text.index("\nparameters:")], text[text.index("end of parameters") + 18 :]
        return Trained(head + tail, x, special)

    return make


def positive(score, rng):
    return np.exp(0.3 * score)


def count(score, rng):
    return rng.poisson(np.exp(0.3 * score)).astype(float)


def flag(score, rng):
    return (score > 0.2).astype(float)


def share(score, rng):
    return 1 / (1 + np.exp(-score))


def classes(n):
    return lambda score, rng: np.digitize(score, np.quantile(score, np.linspace(0, 1, n + 1)[1:-1])).astype(float)


# ---------------------------------------------------------------- recipes

RF = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}

for name, special, label, more in [
    ("regression", "squared error; NaN missing, both default sides", lambda s, r: s, {}),
    ("regression-sqrt", "reg_sqrt: the output is the margin's signed square", lambda s, r: s, {"reg_sqrt": True}),
    ("l1", "leaves are medians", lambda s, r: s, {"objective": "regression_l1"}),
    ("huber", "identity", lambda s, r: s, {"objective": "huber"}),
    ("fair", "identity", lambda s, r: s, {"objective": "fair"}),
    ("fair-sqrt", "fair loss of roots", lambda s, r: s, {"objective": "fair", "reg_sqrt": True}),
    ("quantile", "identity", lambda s, r: s, {"objective": "quantile", "alpha": 0.8}),
    ("mape", "identity", positive, {"objective": "mape"}),
    ("poisson", "exponential of the margin", count, {"objective": "poisson"}),
    ("gamma", "exponential of the margin", positive, {"objective": "gamma"}),
    ("tweedie", "exponential of the margin", count, {"objective": "tweedie"}),
    ("binary", "sigmoid of slope 1.7", flag, {"objective": "binary", "sigmoid": 1.7}),
    ("multiclass", "softmax of 4 classes", classes(4), {"objective": "multiclass", "num_class": 4, "rounds": 3}),
    ("ova", "a sigmoid a class, of slope 0.7", classes(3),
     {"objective": "multiclassova", "num_class": 3, "sigmoid": 0.7, "rounds": 3}),
    ("cross-entropy", "labels between 0 and 1", share, {"objective": "cross_entropy"}),
    ("cross-entropy-lambda", "ln(1 + e^m)", share, {"objective": "cross_entropy_lambda"}),
    ("lambdarank", "ranking", classes(4), {"objective": "lambdarank", "group": [50] * 10}),
    ("xendcg", "ranking", classes(4), {"objective": "rank_xendcg", "group": [50] * 10}),
    ("rf", "the average of 7 trees, slope 2", flag, {"objective": "binary", "sigmoid": 2.0, "rounds": 7, **RF}),
    ("rf-multiclass", "softmax of averages", classes(3), {"objective": "multiclass", "num_class": 3, "rounds": 3, **RF}),
    ("rf-regression", "average_output of 5 trees", lambda s, r: s, {"rounds": 5, **RF}),
    ("dart", "dropped trees, weights in the leaves", flag, {"objective": "binary", "boosting": "dart", "drop_rate": 0.5}),
    ("zero-as-missing", "zeros are missing, both default sides", lambda s, r: s, {"zero_as_missing": True}),
    ("no-missing", "use_missing=false: NaN counts as 0", lambda s, r: s, {"use_missing": False}),
    ("stumps", "num_leaves=2, max_bin=5000", lambda s, r: s, {"num_leaves": 2, "max_bin": 5000, "rounds": 10}),
    ("leafwise", "unbalanced trees of up to 40 leaves", lambda s, r: s,
     {"num_leaves": 40, "min_data_in_leaf": 1, "rounds": 3, "extra_trees": True}),
]:  # fmt: skip
    MODELS[f"lightgbm-{name}"] = plain(special, label, **more)


@model("custom")
def _():
    x, score, rng = numbers(3)
    y = classes(3)(score, rng)

    def loss(margins, data):
        hits = np.eye(3)[data.get_label().astype(int)]
        return margins - hits, np.ones_like(margins)

    booster = fit(x, y, 3, objective=loss, num_class=3)
    return Trained(booster.model_to_string(), x, "a loss of one's own: no objective in the file, 3 outputs")


@model("constant-trees")
def _():
    x, score, rng = numbers(4)
    y = np.where(score > 9, 1.0, 0.0)
    return Trained(fit(x, y * 0, 2, objective="binary").model_to_string(), x, "trees of one leaf")


@model("linear-constants")
def _():
    x, score, _ = numbers(5)
    booster = fit(x, score, 2, linear_tree=True)
    text = booster.model_to_string(num_iteration=1)
    # The constants stand apart from the leaf values, and are what counts.
    old = next(line for line in text.splitlines() if line.startswith("leaf_const="))
    new = "leaf_const=" + " ".join(str(float(v) + 0.25) for v in old.split("=")[1].split())
    return Trained(resized(text.replace(old, new)), x, "a linear tree whose leaves have no coefficients: leaf_const counts")


@model("categories")
def _():
    x, y, _ = categories(6)
    booster = fit(x, y, columns=[0, 1, 2], max_cat_to_onehot=4, min_data_per_group=5, cat_smooth=1)
    return Trained(booster.model_to_string(), x, "one-hot and sorted category splits", categories=[0, 1, 2])


@model("categories-many")
def _():
    x, y, _ = categories(7, 3000, 1200)
    booster = fit(x, y, 2, columns=[0, 1, 2], max_cat_threshold=500, min_data_per_group=2, cat_smooth=1, max_bin=2000)
    return Trained(booster.model_to_string(), x, "sets over 1200 categories", categories=[0, 1, 2])


@model("category-names")
def _():
    x, y, rng = categories(8)
    frame = pandas.DataFrame(x, columns=["shape", "hue", "shop id", "weight"])
    shapes = ["round", 'a "square"', "straße"]
    frame["shape"] = pandas.Categorical.from_codes(np.nan_to_num(x[:, 0], nan=-1).astype(int), shapes)
    frame["hue"] = pandas.Categorical.from_codes(np.nan_to_num(x[:, 1], nan=-1).astype(int), [h * 30 for h in range(12)])
    frame = frame.drop(columns="shop id")
    booster = fit(frame, y, min_data_per_group=5, cat_smooth=1)
    return Trained(booster.model_to_string(), x[:, [0, 1, 3]], "pandas' names of categories", categories=[0, 1])


@model("odd-names")
def _():
    x, score, _ = numbers(9)
    names = ["a b", "x=1;y|z", "größe", "end of trees", "Tree=0", "(log)'#%"]
    booster = fit(x, score, 4, names=names, monotone_constraints=[1, 0, 0, -1, 0, 0])
    return Trained(booster.model_to_string(), x, "feature names as LightGBM writes them, monotone constraints")


@model("v3")
def _():
    x, score, rng = numbers(10)
    text = fit(x, flag(score, rng), 4, objective="binary").model_to_string()
    lines = [line for line in text.splitlines() if not line.startswith("is_linear=")]
    text = resized("\n".join(lines).replace("version=v4", "version=v3") + "\n")
    return Trained(text, x, "the fields that version v3 has")


@model("v2-crlf")
def _():
    x, score, rng = numbers(11)
    text = fit(x, flag(score, rng), 3, objective="binary").model_to_string()
    gone = ("is_linear=", "leaf_weight=", "internal_weight=", "pandas_categorical")
    lines = [line for line in text.splitlines() if not line.startswith(gone)]
    text = resized("\n".join(lines).replace("version=v4", "version=v2") + "\n")
    return Trained(text.replace("\n", "\r\n"), x, "the fields that version v2 has, lines end in CR LF", judged=text)


@model("drawn")
def _():
    """Trees that are drawn, not trained: every decision type with thresholds in and around the zone of zeros."""
    rng = np.random.RandomState(12)
    near = [np.nextafter(ZONE, 0), ZONE, np.nextafter(ZONE, 1), 1e-40, 5e-324, 0.0]
    thresholds = near + [-t for t in near] + [0.1, -0.1, 1.0, 1e300, np.finfo(float).max, -np.finfo(float).max]
    text, x = drawn(rng, 12, 16, thresholds)
    return Trained(text, x, "drawn trees: every decision type, thresholds around zero, sets of categories", categories=[2, 3])


def drawn(rng, trees, leaves, thresholds, objective="regression", features=4):
    """A model of drawn trees over four columns, the last two categories."""
    blocks = []
    for t in range(trees):
        left, right, parent = [], [], {0: None}
        for split in range(leaves - 1):  # as LightGBM grows: a leaf becomes a split, its number stays on the left
            leaf = rng.choice(sorted(parent))
            where = parent[leaf]
            if where is not None:
                where[0][where[1]] = split
            left.append(~leaf)
            right.append(~(split + 1))
            parent[leaf] = (left, split)
            parent[split + 1] = (right, split)
        column = rng.randint(0, features, leaves - 1)
        kind = [1 if f >= 2 and rng.uniform() < 0.8 else 0 for f in column]
        types = [k + 2 * rng.randint(2) + 4 * rng.randint(3) for k in kind]
        sets = [[int(w) for w in rng.randint(0, 1 << 32, rng.randint(1, 4), dtype=np.int64)] for k in kind if k]
        number = iter(range(len(sets)))
        at = [str(next(number)) if k else repr(float(thresholds[rng.randint(len(thresholds))])) for k in kind]
        join = lambda values: " ".join(str(v) for v in values)
        lines = [f"Tree={t}", f"num_leaves={leaves}", f"num_cat={len(sets)}", f"split_feature={join(column)}"]
        lines += [f"split_gain={join([1] * (leaves - 1))}", f"threshold={join(at)}", f"decision_type={join(types)}"]
        lines += [f"left_child={join(left)}", f"right_child={join(right)}"]
        lines += [f"leaf_value={join(round(v, 3) for v in rng.normal(size=leaves))}"]
        if sets:
            bounds = np.cumsum([0] + [len(s) for s in sets])
            lines += [f"cat_boundaries={join(bounds)}", f"cat_threshold={join(w for s in sets for w in s)}"]
        blocks.append("\n".join(lines + ["is_linear=0", "shrinkage=1", "", "", ""]))
    names = " ".join(f"Column_{f}" for f in range(features))
    head = ["tree", "version=v4", "num_class=1", "num_tree_per_iteration=1", "label_index=0"]
    head += [f"max_feature_idx={features - 1}", f"objective={objective}", f"feature_names={names}"]
    head += [f"feature_infos={' '.join(['[-1:1]'] * features)}", f"tree_sizes={join(len(b) for b in blocks)}", "", ""]
    x = rng.normal(size=(200, features))
    x[:, 2:] = rng.randint(0, 100, (200, features - 2))
    return "\n".join(head) + "".join(blocks) + "end of trees\n", x


def resized(text):
    """The text with `tree_sizes` as LightGBM reads it: bytes from one `Tree=` to the next."""
    start, end = text.index("\nTree=0\n") + 1, text.index("\nend of trees") + 1
    parts = text[start:end].split("\nTree=")
    sizes = [len(p.encode()) + (0 if i == 0 else 5) + (1 if i + 1 < len(parts) else 0) for i, p in enumerate(parts)]
    old = next(line for line in text.splitlines() if line.startswith("tree_sizes="))
    return text.replace(old, "tree_sizes=" + " ".join(map(str, sizes)))


# ---------------------------------------------------------------- rows


def splits(text):
    """(feature, threshold) of each numerical split."""
    feature, thresholds = [], []
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name == "split_feature":
            feature = [int(v) for v in value.split()]
        elif name == "threshold":
            thresholds = [float(v) for v in value.split()]
        elif name == "decision_type":
            for f, t, kind in zip(feature, thresholds, value.split()):
                if not int(kind) & 1:
                    yield f, t


def draw_rows(trained, kind, count, seed=99):
    """Rows of that type: plain ones, then ones at the thresholds and at the ends of the type."""
    rng = np.random.RandomState(seed)
    data = trained.data.astype(kind)
    features = data.shape[1]
    big, tiny, zone = np.finfo(kind).max, np.finfo(kind).smallest_subnormal, kind(ZONE)
    step = lambda v: [v, np.nextafter(v, kind(-np.inf)), np.nextafter(v, kind(np.inf))]
    ends = [0.0, -0.0, tiny, -tiny, big, -big, np.inf, -np.inf, np.nan, 1e30, -1e30] + step(zone) + step(-zone)
    at = {f: list(ends) for f in range(features)}
    with np.errstate(over="ignore"):
        for f, threshold in splits(trained.text):
            at[f] += step(kind(threshold))
    for f in trained.categories:
        top = np.nanmax(data[:, f])
        at[f] = [top, top + 1, top + 40, 31, 32, 63, 64, 0.0, -0.0, -0.5, -0.999, -1, -7, 0.5, 2.7, top + 0.5, np.nan, np.inf]
        at[f] += [-np.inf, 2.0**24 - 1, 2.0**24, 2.0**24 + 2, 2.0**31, 2.0**32, 2.0**32 + 1024, 1e30, -1e30] + list(range(8))
    for f in at:
        rng.shuffle(at[f])
    rows = data[rng.randint(0, len(data), count)].copy()
    for i in range(count // 4, count):
        for f in range(features):
            if rng.uniform() < 0.6:
                rows[i, f] = at[f][(i * 7 + f) % len(at[f])]
    rows[-1] = np.nan
    rows[-2] = 0.0
    return np.ascontiguousarray(rows, dtype=kind)


def write(name, trained, out, count=64, count64=32, classes=False):
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "model.txt").write_bytes(trained.text.encode())
    # What is asserted is what the file says, so predict with the file read back.
    booster = lightgbm.Booster(model_str=trained.judged, params={"verbosity": -1})
    outputs = booster.num_model_per_iteration()

    def say(rows, suffix):
        table = lambda values, kind: np.ascontiguousarray(np.asarray(values).reshape(len(rows), -1), dtype=kind)
        margin = table(booster.predict(rows, raw_score=True), np.float64)
        output = table(booster.predict(rows), np.float64)
        np.save(folder / f"rows{suffix}.npy", rows)
        np.save(folder / f"margin{suffix}.npy", margin)
        np.save(folder / f"leaves{suffix}.npy", table(booster.predict(rows, pred_leaf=True), np.int32))
        if suffix:
            return
        if classes:
            number = output.argmax(axis=1) if outputs > 1 else (output[:, 0] > 0.5)
            np.save(folder / "output.npy", table(number, np.int32))
        elif not (output == margin).all():
            np.save(folder / "output.npy", output)

    rows = draw_rows(trained, F32, count)
    say(rows, "")
    say(draw_rows(trained, np.float64, count64), "64")
    objective = next((line.split("=", 1)[1] for line in trained.text.splitlines() if line.startswith("objective=")), "none")
    meta = {
        "library": "lightgbm",
        "version": VERSION,
        "trees": booster.num_trees(),
        "objective": objective,
        "special": trained.special,
        "name": name,
        "model": "model.txt",
        "rows": list(rows.shape),
        "outputs": outputs,
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")
    print(f"  {name}: {booster.num_trees()} trees, {outputs} outputs, {objective}", flush=True)


def differences(made, kept):
    found = []
    for path in sorted(p for p in made.rglob("*") if p.is_file()):
        other = kept / path.relative_to(made)
        if not other.exists() or not filecmp.cmp(path, other, shallow=False):
            found.append(str(path.relative_to(made)))
    return found


def main():
    text = __doc__.format(version=VERSION)
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of models, separated by commas")
    parser.add_argument("--out", type=pathlib.Path, default=HERE, help="folder to write to (default: this script's)")
    parser.add_argument("--check", action="store_true", help="write elsewhere, and say which files differ from --out")
    args = parser.parse_args()
    if lightgbm.__version__ != VERSION:
        parser.error(f"lightgbm {lightgbm.__version__} is installed, {VERSION} is needed")
    only = [n for n in args.only.split(",") if n]
    unknown = [n for n in only if n not in MODELS]
    if unknown:
        parser.error(f"not known: {', '.join(unknown)}")
    with tempfile.TemporaryDirectory(prefix="zoo-made-") as made:
        out = pathlib.Path(made) if args.check else args.out.resolve()
        for name in only or MODELS:
            write(name, MODELS[name](), out)
        if args.check:
            found = differences(out, args.out.resolve())
            print("\n".join(f"differs: {f}" for f in found) or "the same, byte for byte")
            sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
