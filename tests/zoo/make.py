#!/usr/bin/env python3
"""Make the small zoo of XGBoost models that the tests read.

Every model is trained on data that this script draws from a seeded generator;
nothing is downloaded but the packages themselves. For each XGBoost release the
script makes a virtual environment in a temporary folder, installs that release
with pip, and runs itself there to train, save and predict.

XGBoost releases used: {versions}.

Releases before 2.0 need numpy < 1.24 and therefore Python 3.10 or 3.11; run the
script with one of these (`python3.11 tests/zoo/make.py`). Releases from 3.3 on
need Python 3.12, which is then called as `python3.12`. Each environment takes
200 to 600 MB while the script runs. NVIDIA's NCCL, which XGBoost lists as a
dependency, is not installed: training here is on one CPU thread.

Examples:
  python3 tests/zoo/make.py                      make everything again
  python3 tests/zoo/make.py --check              make it elsewhere and compare
  python3 tests/zoo/make.py --versions 3.2.0     only the models of one release
  python3 tests/zoo/make.py --only churn,dart    only these models
  python3 tests/zoo/make.py --table              print the table of the README
"""

import argparse
import csv
import filecmp
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
VERSIONS = ["1.4.2", "1.7.6", "2.0.3", "2.1.4", "3.1.3", "3.2.0", "3.3.0"]
LATEST = "3.2.0"  # of the models for which any release would do

# name -> (XGBoost release, file name, function(xgb, np) -> Trained)
MODELS = {}

# Models that are predicted with a margin a row to start from, too.
FROM_MARGINS = {"churn", "dart-softprob", "poisson", "softprob", "vector-leaf-softprob"}


class Trained:
    """What a recipe hands back: the booster and how to draw rows for it."""

    def __init__(self, booster, data, special, types=None, rows=48, hard=True, names=None, infinities=False):
        self.booster = booster
        self.data = data  # rows are drawn from here first
        self.special = special
        self.types = types  # feature types, 'c' for a category
        self.rows = rows  # plain rows; the hard ones come on top
        self.hard = hard  # add rows at the thresholds and at the ends of f32
        self.names = names  # write rows.csv under these names
        self.infinities = infinities


def model(name, file="model.ubj", versions=(LATEST,), suffix=False):
    def register(make):
        for version in versions:
            MODELS[f"{name}-{version}" if suffix else name] = (version, file, make)
        return make

    return register


# ---------------------------------------------------------------- data


def numbers(np, seed, rows, features, missing=0.15):
    """Normal features on differing scales, some values missing, and a score made of them."""
    rng = np.random.RandomState(seed)
    scale = 10.0 ** rng.uniform(-2, 3, features)
    raw = rng.normal(size=(rows, features))
    score = raw[:, 0] - 0.7 * raw[:, 1 % features] * raw[:, 2 % features] + 0.5 * (raw[:, 3 % features] > 0.3)
    x = (raw * scale).astype(np.float32)
    hole = rng.uniform(size=x.shape) < missing
    # Missing values mean something, in both directions, so that both default children occur.
    score = score + 1.5 * hole[:, 0] - 1.5 * hole[:, 1 % features]
    x[hole] = np.nan
    noise = rng.normal(size=rows) * 0.3
    return x, (score + noise).astype(np.float32), rng


def params(**more):
    base = {"nthread": 1, "seed": 7, "tree_method": "hist", "max_depth": 4, "eta": 0.3, "verbosity": 0}
    base.update(more)
    return base


def fit(xgb, x, y, rounds, types=None, **more):
    d = xgb.DMatrix(x, label=y, nthread=1, **({"feature_types": types, "enable_categorical": True} if types else {}))
    return xgb.train(params(**more), d, rounds)


# ---------------------------------------------------------------- recipes


def logistic(xgb, np, **more):
    x, score, _ = numbers(np, 1, 700, 8)
    return x, fit(xgb, x, (score > 0.2).astype(np.float32), 20, objective="binary:logistic", **more)


@model("logistic-missing")
def _(xgb, np):
    x, b = logistic(xgb, np)
    return Trained(b, x, "missing values with both default directions")


@model("logistic", "model.json", ["1.4.2", "1.7.6"], suffix=True)
@model("logistic", "model.ubj", ["2.0.3", "2.1.4"], suffix=True)
def _(xgb, np):
    x, b = logistic(xgb, np, max_depth=3)
    return Trained(b, x, f"as saved by XGBoost {xgb.__version__}; the same data and settings for each release")


@model("logistic-infinities")
def _(xgb, np):
    x, b = logistic(xgb, np, max_depth=3)
    return Trained(
        b,
        x,
        "rows hold infinities: margins by inplace_predict, which takes them; leaves are those of the largest finite "
        "values, because DMatrix does not take infinities",
        infinities=True,
    )


@model("base-score-given", "model.json")
def _(xgb, np):
    x, b = logistic(xgb, np, max_depth=2, base_score=0.07)
    return Trained(b, x, "base_score given as 0.07: the margin starts at its logit")


@model("vector-base-score-3.1", versions=["3.1.3"])
def _(xgb, np):
    x, score, rng = numbers(np, 2, 500, 6)
    y = np.stack([score, 10 - score**2, rng.normal(size=len(x)) + 3 * score], axis=1)
    return Trained(
        fit(xgb, x, y, 8, max_depth=3), x, "base_score is a vector: three targets, each with its own, and a tree a target"
    )


@model("squared-error")
def _(xgb, np):
    x, score, _ = numbers(np, 3, 600, 10, missing=0.0)
    return Trained(
        fit(xgb, x, 250 + 40 * score, 20, objective="reg:squarederror"), x, "trained without missing values"
    )


def classes(np, seed, count, rows=700, features=8):
    x, score, rng = numbers(np, seed, rows, features)
    other = np.nan_to_num(x[:, 1]) / (np.nanstd(x[:, 1]) + 1e-9)
    label = np.floor((np.arctan2(score, other) / (2 * np.pi) + 0.5) * count).clip(0, count - 1)
    flip = rng.uniform(size=rows) < 0.05
    label[flip] = rng.randint(0, count, flip.sum())
    label[:count] = np.arange(count)
    return x, label.astype(np.float32)


@model("softprob")
def _(xgb, np):
    x, y = classes(np, 4, 5)
    return Trained(fit(xgb, x, y, 10, objective="multi:softprob", num_class=5), x, "five classes, probabilities")


@model("softmax")
def _(xgb, np):
    x, y = classes(np, 5, 3)
    return Trained(fit(xgb, x, y, 10, objective="multi:softmax", num_class=3), x, "predict returns the class")


@model("softprob-unbalanced", "model.json")
def _(xgb, np):
    x, y = classes(np, 6, 4)
    y = np.where(y > 0, (np.random.RandomState(3).uniform(size=len(y)) < 0.1) * y, 0)
    y[:4] = np.arange(4)
    return Trained(
        fit(xgb, x, y, 5, objective="multi:softprob", num_class=4, max_depth=3), x, "rare classes: a base_score a class"
    )


@model("forest-softprob")
def _(xgb, np):
    x, y = classes(np, 7, 4)
    b = fit(xgb, x, y, 4, objective="multi:softprob", num_class=4, num_parallel_tree=3, subsample=0.7, max_depth=3)
    return Trained(b, x, "num_parallel_tree 3: three trees a class and round")


@model("forest-softprob-1.4.2", "model.json", ["1.4.2"])
def _(xgb, np):
    x, y = classes(np, 7, 3)
    b = fit(xgb, x, y, 3, objective="multi:softprob", num_class=3, num_parallel_tree=2, subsample=0.7, max_depth=3)
    return Trained(b, x, "parallel trees in a file that says neither num_parallel_tree nor iteration_indptr")


@model("forest-logistic")
def _(xgb, np):
    x, score, _ = numbers(np, 8, 500, 8)
    b = fit(
        xgb,
        x,
        (score > 0).astype(np.float32),
        1,
        objective="binary:logistic",
        num_parallel_tree=30,
        subsample=0.6,
        colsample_bynode=0.6,
        eta=1,
    )
    return Trained(b, x, "a random forest: one round of 30 parallel trees")


@model("dart", "model.json")
@model("dart-1.4.2", "model.json", ["1.4.2"])
def _(xgb, np):
    x, score, _ = numbers(np, 9, 500, 8)
    b = fit(
        xgb,
        x,
        (score > 0).astype(np.float32),
        20,
        objective="binary:logistic",
        booster="dart",
        rate_drop=0.3,
        skip_drop=0.2,
        max_depth=3,
    )
    return Trained(b, x, "DART: a weight a tree")


@model("dart-softprob")
def _(xgb, np):
    x, y = classes(np, 10, 3)
    more = {"booster": "dart", "rate_drop": 0.2, "normalize_type": "forest", "max_depth": 3}
    return Trained(fit(xgb, x, y, 8, objective="multi:softprob", num_class=3, **more), x, "DART with three classes")


def targets(np, seed):
    x, score, rng = numbers(np, seed, 500, 7)
    return x, np.stack([score, np.abs(score), rng.normal(size=len(x)) - score], axis=1)


@model("vector-leaf", "model.json")
def _(xgb, np):
    x, y = targets(np, 11)
    return Trained(fit(xgb, x, y, 12, multi_strategy="multi_output_tree"), x, "vector leaves: three outputs a tree")


@model("vector-leaf-mixed")
def _(xgb, np):
    x, y = targets(np, 46)
    d, booster = xgb.DMatrix(x, label=y, nthread=1), None
    for rounds, strategy in [(3, "multi_output_tree"), (2, "one_output_per_tree"), (2, "multi_output_tree")]:
        booster = xgb.train(params(multi_strategy=strategy), d, rounds, xgb_model=booster)
    return Trained(booster, x, "rounds of vector leaves, then of a tree an output, then of vector leaves again")


@model("vector-leaf-softprob")
@model("vector-leaf-2.1.4", versions=["2.1.4"])
def _(xgb, np):
    x, y = classes(np, 12, 4)
    b = fit(xgb, x, y, 8, objective="multi:softprob", num_class=4, multi_strategy="multi_output_tree")
    return Trained(b, x, f"vector leaves: four classes a tree, XGBoost {xgb.__version__}")


@model("targets")
def _(xgb, np):
    x, y = targets(np, 13)
    return Trained(fit(xgb, x, y, 8), x, "three targets, a tree a target")


@model("targets-logistic")
def _(xgb, np):
    x, y = targets(np, 14)
    b = fit(xgb, x, (y > 0.5).astype(np.float32), 6, objective="binary:logistic", max_depth=3)
    return Trained(b, x, "three yes-or-no targets, a tree a target")


def objective(name, special, label, **more):
    def make(xgb, np):
        x, score, rng = numbers(np, 20, 500, 6)
        y = label(np, score, rng).astype(np.float32)
        return Trained(fit(xgb, x, y, 12, objective=name, max_depth=3, **more), x, special)

    return make


for _name, _file, _make in [
    ("poisson", "model.json", objective("count:poisson", "exponential transform", lambda np, s, r: r.poisson(np.exp(s.clip(-3, 2))))),
    ("gamma", "model.ubj", objective("reg:gamma", "exponential transform", lambda np, s, r: np.exp(s.clip(-3, 3)) * 20)),
    ("tweedie", "model.ubj", objective("reg:tweedie", "exponential transform, variance power 1.4", lambda np, s, r: r.poisson(np.exp(s.clip(-3, 2))) * 3, tweedie_variance_power=1.4)),
    ("cox", "model.ubj", objective("survival:cox", "exponential transform; negative labels are censored", lambda np, s, r: np.exp(-s.clip(-3, 3)) * r.choice([1, 1, -1], len(s)))),
    ("hinge", "model.ubj", objective("binary:hinge", "predict returns 0 or 1 by the sign of the margin", lambda np, s, r: s > 0)),
    ("logitraw", "model.ubj", objective("binary:logitraw", "predict returns the margin", lambda np, s, r: s > 0)),
    ("reg-logistic", "model.ubj", objective("reg:logistic", "labels between 0 and 1", lambda np, s, r: 1 / (1 + np.exp(-s)))),
    ("quantile", "model.ubj", objective("reg:quantileerror", "three quantiles, a tree a quantile", lambda np, s, r: s * 5, quantile_alpha=[0.1, 0.5, 0.9])),
    ("absolute-error", "model.ubj", objective("reg:absoluteerror", "leaves are medians, refreshed after the splits", lambda np, s, r: s * 5)),
    ("pseudo-huber", "model.ubj", objective("reg:pseudohubererror", "no transform", lambda np, s, r: s * 5, huber_slope=2.0)),
    ("squared-log-error", "model.ubj", objective("reg:squaredlogerror", "no transform", lambda np, s, r: np.exp(s.clip(-3, 3)))),
]:
    model(_name, _file)(_make)


@model("aft")
def _(xgb, np):
    x, score, rng = numbers(np, 21, 500, 6)
    time = np.exp(score.clip(-3, 3))
    d = xgb.DMatrix(x, nthread=1)
    d.set_float_info("label_lower_bound", time)
    d.set_float_info("label_upper_bound", np.where(rng.uniform(size=len(x)) < 0.3, np.inf, time))
    b = xgb.train(params(objective="survival:aft", aft_loss_distribution="normal", max_depth=3), d, 12)
    return Trained(b, x, "accelerated failure time, exponential transform")


def ranking(xgb, np, name):
    x, score, _ = numbers(np, 22, 600, 12)
    d = xgb.DMatrix(x, label=np.digitize(score, [-1, 0, 1, 2]), nthread=1)
    d.set_group([12] * 50)
    return x, xgb.train(params(objective=name, max_depth=3), d, 12)


@model("rank-ndcg")
def _(xgb, np):
    x, b = ranking(xgb, np, "rank:ndcg")
    return Trained(b, x, "ranking")


@model("rank-pairwise")
def _(xgb, np):
    x, b = ranking(xgb, np, "rank:pairwise")
    return Trained(b, x, "ranking by pairs")


@model("rank-map")
def _(xgb, np):
    x, score, _ = numbers(np, 22, 600, 12)
    d = xgb.DMatrix(x, label=score > 0, nthread=1)
    d.set_group([12] * 50)
    return Trained(xgb.train(params(objective="rank:map", max_depth=3), d, 12), x, "ranking, labels of 0 and 1")


def categories(np, seed, rows=700):
    rng = np.random.RandomState(seed)
    few, many = rng.randint(0, 6, rows), rng.randint(0, 70, rows)
    number = rng.normal(size=rows)
    y = np.isin(few, [1, 4]) * 2.0 + np.sin(many * 1.7) * 1.5 + number * 0.5 + (few == 2) * number
    x = np.stack([few, number, many], axis=1).astype(np.float32)
    hole = rng.uniform(size=x.shape) < 0.08
    y = y + hole[:, 0] * 1.2 - hole[:, 2] * 1.2
    x[hole] = np.nan
    return x, y.astype(np.float32)


TYPES = ["c", "q", "c"]


@model("category-one-hot")
def _(xgb, np):
    x, y = categories(np, 23)
    return Trained(fit(xgb, x, y, 15, types=TYPES, max_cat_to_onehot=1000), x, "one category a split", types=TYPES)


@model("category-partition")
def _(xgb, np):
    x, y = categories(np, 24)
    return Trained(fit(xgb, x, y, 12, types=TYPES, max_cat_to_onehot=1), x, "sets of categories, 70 at most", types=TYPES)


@model("category-partition-2.1.4", "model.json", ["2.1.4"])
def _(xgb, np):
    x, y = categories(np, 24)
    b = fit(xgb, x, y, 6, types=TYPES, max_cat_to_onehot=1)
    return Trained(b, x, "JSON of this release writes the threshold of a categorical split as NaN", types=TYPES)


@model("category-partition-1.7.6", "model.json", ["1.7.6"])
def _(xgb, np):
    x, y = categories(np, 24)
    b = fit(xgb, x, y, 6, types=TYPES, max_cat_to_onehot=1, max_depth=3)
    return Trained(b, x, "categories as this release writes them", types=TYPES)


def frame(np, seed, colours):
    import pandas as pd

    rng = np.random.RandomState(seed)
    rows = 600
    colour = pd.Categorical.from_codes(rng.randint(-1, len(colours), rows), categories=colours)
    code = pd.Categorical(rng.choice([3, 10, 7, -5, 1 << 20], rows))
    weight = rng.normal(size=rows).astype(np.float32)
    weight[rng.uniform(size=rows) < 0.1] = np.nan
    y = np.isin(colour.codes, [1, 4]) * 2.0 + (code.codes % 2) * (1 + np.nan_to_num(weight)) - (colour.codes == -1)
    codes = np.stack([colour.codes, weight, code.codes], axis=1).astype(np.float32)
    codes[colour.codes < 0, 0] = np.nan
    return pd.DataFrame({"colour": colour, "weight": weight, "code": code}), y.astype(np.float32), codes


def named_categories(xgb, np, colours, rounds):
    data, y, codes = frame(np, 25, colours)
    d = xgb.DMatrix(data, label=y, enable_categorical=True, nthread=1)
    return xgb.train(params(max_cat_to_onehot=1), d, rounds), codes


@model("category-names")
def _(xgb, np):
    b, codes = named_categories(xgb, np, ["red", "green", "blue", "violet", "orange", "a b", 'x"y'], 12)
    return Trained(b, codes, "the file names the categories (`cats`): strings and numbers", types=TYPES)


@model("category-names-not-ascii", "model.json")
def _(xgb, np):
    b, codes = named_categories(xgb, np, ["r\u00f6d", "gr\u00f8nn", "bl\u00e5", "\u7eff", "pink"], 4)
    return Trained(
        b,
        codes,
        "`cats` counts characters where it stores bytes: the offsets cut names that are not ASCII, and the end is lost",
        types=TYPES,
    )


@model("zero-threshold", "model.json")
def _(xgb, np):
    rng = np.random.RandomState(26)
    x = rng.randint(-2, 3, (600, 6)).astype(np.float32)
    x[rng.uniform(size=x.shape) < 0.1] = np.nan
    y = (x[:, 0] < 0) * 1.0 + (x[:, 1] < 0) * (x[:, 2] >= 0) - 0.5 * np.isnan(x[:, 3])
    return Trained(fit(xgb, x, y.astype(np.float32), 12, max_depth=3), x, "thresholds of exactly 0", rows=40)


@model("uneven")
def _(xgb, np):
    x, score, _ = numbers(np, 27, 800, 8)
    d = xgb.DMatrix(x, label=score, nthread=1)
    b = None
    for rounds, more in [
        (4, {"max_depth": 1}),
        (2, {"max_depth": 9, "min_child_weight": 8}),
        (3, {"max_depth": 2}),
        (2, {"gamma": 1e9}),
        (1, {"max_depth": 7, "min_child_weight": 20}),
        (2, {"max_depth": 1}),
        (1, {"gamma": 1e9}),
    ]:
        # A continued model keeps the settings of the rounds before, so say each again.
        more = {"gamma": 0, "min_child_weight": 1, **more}
        b = xgb.train(params(**more), d, rounds, xgb_model=b)
    return Trained(b, x, "trees of very unequal depth: stumps, single leaves, two of depth 9")


@model("only-leaves")
def _(xgb, np):
    x, score, _ = numbers(np, 28, 200, 4)
    return Trained(fit(xgb, x, score + 9, 3, gamma=1e9, base_score=0.5), x, "every tree is one leaf", rows=30)


@model("deep-lossguide")
def _(xgb, np):
    x, score, _ = numbers(np, 29, 1500, 8)
    more = {"grow_policy": "lossguide", "max_leaves": 31, "max_depth": 12, "min_child_weight": 0.5}
    y = (np.sin(score * 4) > 0.3).astype(np.float32)
    return Trained(fit(xgb, x, y, 12, objective="binary:logistic", **more), x, "leaf-wise: 31 leaves, depth up to 12")


@model("pruned", "model.json")
def _(xgb, np):
    x, score, _ = numbers(np, 30, 500, 6)
    y = (score > 0).astype(np.float32)
    b = fit(xgb, x, y, 10, objective="binary:logistic", tree_method="exact", gamma=3, max_depth=6)
    return Trained(b, x, "deleted nodes stay in the file; their split index is 2147483647")


@model("pruned-1.4.2", "model.json", ["1.4.2"])
def _(xgb, np):
    x, score, _ = numbers(np, 30, 500, 6)
    y = (score > 0).astype(np.float32)
    b = fit(xgb, x, y, 6, objective="binary:logistic", gamma=4, max_depth=5)
    return Trained(b, x, "deleted nodes as an old release writes them")


@model("no-trees")
def _(xgb, np):
    x, score, _ = numbers(np, 31, 100, 3)
    b = fit(xgb, x, (score > 0).astype(np.float32), 0, objective="binary:logistic", base_score=0.25)
    return Trained(b, x, "no tree at all: the margin is the base score's logit", rows=20)


@model("no-trees-no-base-score", "model.json")
def _(xgb, np):
    x, score, _ = numbers(np, 31, 100, 3)
    b = fit(xgb, x, (score > 0).astype(np.float32), 0, objective="binary:logistic")
    return Trained(
        b,
        x,
        "no tree, and a base score that was neither given nor estimated (boost_from_average 1): from 3.1 the margin is "
        "the base score itself, not its logit",
        rows=20,
    )


@model("early-stopped")
def _(xgb, np):
    x, score, rng = numbers(np, 36, 700, 6)
    y = (score + 2 * rng.normal(size=len(x)) > 0).astype(np.float32)
    train, test = xgb.DMatrix(x[:450], label=y[:450], nthread=1), xgb.DMatrix(x[450:], label=y[450:], nthread=1)
    how = params(objective="binary:logistic", max_depth=3)
    b = xgb.train(how, train, 60, evals=[(test, "test")], early_stopping_rounds=5, verbose_eval=False)
    assert int(b.attr("best_iteration")) + 1 < b.num_boosted_rounds()
    return Trained(b, x, "the file has an attribute best_iteration; margins are of all trees, as Booster.predict has them")


@model("odd-feature-names", "model.json")
def _(xgb, np):
    x, score, _ = numbers(np, 37, 400, 6)
    names = ["a b", '"quoted"', "back\\slash", "\u00fcn\u00ef \u6f22\u5b57 \U0001f332", "tab\there", '{"json": 1}']
    d = xgb.DMatrix(x, label=score, nthread=1, feature_names=names, feature_types=["q", "float", "int", "q", "i", "float"])
    return Trained(xgb.train(params(max_depth=3), d, 6), x, "feature names that need escapes", rows=30)


@model("no-trees-softprob", "model.json")
def _(xgb, np):
    x, y = classes(np, 32, 3, rows=100, features=3)
    return Trained(fit(xgb, x, y, 0, objective="multi:softprob", num_class=3), x, "no tree, three classes", rows=20)


@model("one-feature")
def _(xgb, np):
    rng = np.random.RandomState(33)
    x = rng.uniform(-3, 3, (400, 1)).astype(np.float32)
    x[rng.uniform(size=x.shape) < 0.1] = np.nan
    return Trained(fit(xgb, x, np.nan_to_num(np.sin(3 * x[:, 0]), nan=0.4), 15, max_depth=3), x, "a single feature")


@model("wide-sparse")
def _(xgb, np):
    rng = np.random.RandomState(34)
    x = np.full((400, 120), np.nan, dtype=np.float32)
    x[rng.uniform(size=x.shape) < 0.15] = 1.0
    y = (np.nansum(x[:, :20], axis=1) > np.nansum(x[:, 20:40], axis=1)).astype(np.float32)
    b = fit(xgb, x, y, 20, objective="binary:logistic")
    return Trained(b, x, "120 features, each either 1 or missing", rows=24)


CHURN = [
    "age",
    "tenure_months",
    "contract_months_left",
    "monthly_charge",
    "total_charge",
    "discount_percent",
    "late_payments",
    "support_calls",
    "days_since_last_call",
    "data_gb",
    "roaming_minutes",
    "devices",
]


@model("churn")
def _(xgb, np):
    rng = np.random.RandomState(35)
    n = 3000
    tenure = rng.gamma(2, 15, n).clip(1, 120).round()
    left = (rng.choice([0, 12, 24], n, p=[0.45, 0.35, 0.2]) - tenure % 12).clip(0)
    charge = (rng.gamma(6, 8, n) + 9).round(2)
    late, calls = rng.poisson(0.6, n), rng.poisson(1.1, n)
    x = np.stack(
        [
            rng.normal(44, 15, n).clip(18, 92).round(),
            tenure,
            left,
            charge,
            (charge * tenure * rng.uniform(0.9, 1.05, n)).round(2),
            rng.choice([0, 0, 0, 5, 10, 20], n),
            late,
            calls,
            np.where(calls > 0, rng.randint(0, 90, n), np.nan),
            rng.gamma(2, 6, n).round(1),
            np.where(rng.uniform(size=n) < 0.7, 0, rng.gamma(1.5, 30, n)).round(),
            1 + rng.poisson(0.8, n),
        ],
        axis=1,
    ).astype(np.float32)
    x[rng.uniform(size=n) < 0.07, 0] = np.nan
    x[rng.uniform(size=n) < 0.05, 9] = np.nan
    logit = 0.5 * calls + 0.6 * late + 0.025 * (charge - 57) - 0.03 * tenure - 0.08 * left - 0.2 * x[:, 11] - 0.9
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    d = xgb.DMatrix(x, label=y, feature_names=CHURN, nthread=1)
    b = xgb.train(params(objective="binary:logistic", max_depth=6, eta=0.08, min_child_weight=5, gamma=0.4), d, 100)
    return Trained(b, x, "the example of the README, with named features", rows=20, hard=False, names=CHURN)


def expectiles(xgb, np, alphas, **more):
    x, score, rng = numbers(np, 38, 500, 5)
    y = score + rng.normal(size=len(x)) * (1 + (np.nan_to_num(x[:, 1]) > 0))
    return x, fit(xgb, x, y, 6, objective="reg:expectileerror", expectile_alpha=alphas, max_depth=3, **more)


@model("expectile", versions=["3.3.0"])
def _(xgb, np):
    x, b = expectiles(xgb, np, 0.8)
    return Trained(b, x, "one expectile, whose value is its margin", rows=30)


@model("expectiles", "model.json", versions=["3.3.0"])
def _(xgb, np):
    x, b = expectiles(xgb, np, [0.1, 0.5, 0.9])
    return Trained(b, x, "three expectiles, made to ascend: neither link nor transform is the identity", rows=30)


@model("expectiles-no-trees", "model.json", versions=["3.3.0"])
def _(xgb, np):
    x, score, _ = numbers(np, 38, 100, 5)
    more = {"objective": "reg:expectileerror", "expectile_alpha": [0.1, 0.9]}
    return Trained(fit(xgb, x, score, 0, **more), x, "two expectiles of no tree: the placeholder is the margin", rows=10)


@model("expectiles-vector-leaf", versions=["3.3.0"])
def _(xgb, np):
    # The same base score for all keeps the least step between them.
    x, b = expectiles(xgb, np, [0.2, 0.8], multi_strategy="multi_output_tree", base_score=1.5)
    return Trained(b, x, "two expectiles with the same base score, in vector leaves", rows=30)


# ---------------------------------------------------------------- rows


def file_trees(booster):
    """The trees as the JSON file holds them."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "m.json"
        booster.save_model(str(path))
        whole = json.loads(path.read_text())["learner"]["gradient_booster"]
    return whole.get("gbtree", whole)["model"]["trees"]


def splits(booster):
    """(feature, threshold) of each numerical split, (feature, None) of each categorical one."""
    found = []
    for tree in file_trees(booster):
        kinds = tree.get("split_type") or [0] * len(tree["left_children"])
        for left, feature, at, kind in zip(tree["left_children"], tree["split_indices"], tree["split_conditions"], kinds):
            if left != -1:
                found.append((feature, None if kind else at))
    return found


def draw_rows(np, trained):
    rng = np.random.RandomState(99)
    data = np.asarray(trained.data, dtype=np.float32)
    plain = data[rng.permutation(len(data))[: trained.rows]].copy()
    if not trained.hard:
        return plain
    features = data.shape[1]
    f32 = np.float32
    big, tiny = np.finfo(f32).max, f32(1e-45)
    at = {}
    for feature, threshold in splits(trained.booster):
        if threshold is not None:
            t = f32(threshold)
            at.setdefault(feature, []).extend([t, np.nextafter(t, -big), np.nextafter(t, big)])
    category = [bool(trained.types) and trained.types[f] == "c" for f in range(features)]
    codes = {}
    for f in range(features):
        if category[f]:
            top = f32(np.nanmax(data[:, f]))
            codes[f] = [0, top, top + 1, top + 40, 31, 32, 63, 64, -0.0, -0.5, -1, -7, 0.5, 2.7, top + 0.5]
            codes[f] += [2.0**24 - 1, 2.0**24, 2.0**24 + 2, 1e30, -1e30, np.nan]
    extremes = [0.0, -0.0, tiny, -tiny, f32(1e-40), f32(-1e-40), big, -big, 1e30, -1e30, 1.0, -1.0]
    if trained.infinities:
        extremes += [np.inf, -np.inf] * 4
    hard = []
    for i in range(len(plain)):  # at the thresholds
        row = plain[i].copy()
        for f in range(features):
            if rng.uniform() < 0.6:
                if f in codes:
                    row[f] = codes[f][rng.randint(len(codes[f]))]
                elif f in at:
                    row[f] = at[f][rng.randint(len(at[f]))]
        hard.append(row)
    for i in range(12):  # the ends of f32
        hard.append([(codes[f] if f in codes else extremes)[rng.randint(len(codes.get(f, extremes)))] for f in range(features)])
    for value in extremes[:8] + extremes[12:14]:
        hard.append([value if f not in codes else 0 for f in range(features)])
    hard.append([np.nan] * features)
    hard.append([np.nan if rng.uniform() < 0.5 else v for v in plain[0]])
    for f in codes:  # each hard code alone
        for code in codes[f]:
            row = plain[1].copy()
            row[f] = code
            hard.append(row)
    return np.concatenate([plain, np.array(hard, dtype=f32)])


# ---------------------------------------------------------------- inside an environment


def write(xgb, np, name, file, make, out):
    trained = make(xgb, np)
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    trained.booster.save_model(str(folder / file))
    # What is asserted is what the file says, so predict with the file read back.
    booster = xgb.Booster({"nthread": 1}, model_file=str(folder / file))
    rows = np.ascontiguousarray(draw_rows(np, trained), dtype=np.float32)
    finite = np.clip(rows, -np.finfo(np.float32).max, np.finfo(np.float32).max)
    more = {"feature_types": trained.types, "enable_categorical": True} if trained.types else {}
    if booster.feature_names:
        more["feature_names"] = booster.feature_names
        more["feature_types"] = trained.types or booster.feature_types
    d = xgb.DMatrix(finite, nthread=1, missing=np.nan, **more)

    def table(values, kind):
        return np.ascontiguousarray(np.asarray(values).reshape(len(rows), -1), dtype=kind)

    margin = table(booster.predict(d, output_margin=True), np.float32)
    output = table(booster.predict(d), np.float32)
    trees = len(file_trees(booster))
    leaves = table(booster.predict(d, pred_leaf=True), np.int32) if trees else np.zeros((len(rows), 0), np.int32)
    assert leaves.shape[1] == trees, (name, leaves.shape, trees)
    if trained.infinities:
        assert np.isinf(rows).any()
        same = table(booster.inplace_predict(rows, predict_type="margin"), np.float32)
        assert (same == margin).all(), name
    np.save(str(folder / "rows.npy"), rows)
    np.save(str(folder / "margin.npy"), margin)
    np.save(str(folder / "leaves.npy"), leaves)
    if name in FROM_MARGINS:
        start = np.random.RandomState(97).normal(size=margin.shape).astype(np.float32) * 3
        start[0] = 2.0**24  # what is added to it first is lost, what is added together before is not
        np.save(str(folder / "base_margin.npy"), start)
        # Rows of their own: what was predicted of others is kept with them.
        from_start = xgb.DMatrix(finite, nthread=1, missing=np.nan, base_margin=start, **more)
        margin_from = table(booster.predict(from_start, output_margin=True), np.float32)
        assert not (margin_from == margin).all(), name
        np.save(str(folder / "margin-from.npy"), margin_from)
        np.save(str(folder / "output-from.npy"), table(booster.predict(from_start), np.float32))
    best = booster.attr("best_iteration")
    if best is not None:
        first = (0, int(best) + 1)
        alone = table(booster.predict(d, output_margin=True, iteration_range=first), np.float32)
        np.save(str(folder / "margin-best.npy"), alone)
        np.save(str(folder / "output-best.npy"), table(booster.predict(d, iteration_range=first), np.float32))
    if output.shape != margin.shape or not (output == margin).all():
        np.save(str(folder / "output.npy"), output)
    config = json.loads(booster.save_config())["learner"]
    meta = {
        "library": "xgboost",
        "version": xgb.__version__,
        "trees": trees,
        "objective": config["objective"]["name"],
        "special": trained.special,
        "name": name,
        "model": file,
        "rows": list(rows.shape),
        "outputs": margin.shape[1],
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")
    if trained.names:
        with open(folder / "rows.csv", "w", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(trained.names)
            for row in rows:
                cells = ["" if np.isnan(v) else np.format_float_positional(v, trim="-") for v in row]
                assert all(c == "" or np.float32(c) == v for c, v in zip(cells, row))
                writer.writerow(cells)
    print(f"  {name}: {trees} trees, {rows.shape[0]} rows, {margin.shape[1]} outputs", flush=True)


def inside(args):
    import numpy as np
    import xgboost as xgb

    for name, (version, file, make) in MODELS.items():
        if version == xgb.__version__ and (not args.only or name in args.only):
            write(xgb, np, name, file, make, args.out)


# ---------------------------------------------------------------- outside


def packages(version):
    if version.startswith("1."):
        return ["numpy==1.23.5", "scipy==1.10.1"]
    return ["numpy>=1.26,<3", "scipy", "pandas>=2.2,<3"]


def interpreter(version):
    """The Python that a release runs on."""
    newer = tuple(int(part) for part in version.split(".")[:2]) >= (3, 3)
    return "python3.12" if newer and sys.version_info < (3, 12) else sys.executable


def run_all(args, out):
    for version in args.versions:
        if not any(v == version and (not args.only or n in args.only) for n, (v, _, _) in MODELS.items()):
            continue
        print(f"XGBoost {version}", flush=True)
        with tempfile.TemporaryDirectory(prefix="zoo-") as folder:
            subprocess.run([interpreter(version), "-m", "venv", folder], check=True)
            python = pathlib.Path(folder) / ("Scripts" if sys.platform == "win32" else "bin") / "python"
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run(pip + packages(version), check=True)
            subprocess.run(pip + ["--no-deps", f"xgboost=={version}"], check=True)
            command = [str(python), str(pathlib.Path(__file__).resolve()), "--inside", "--out", str(out)]
            if args.only:
                command += ["--only", ",".join(args.only)]
            subprocess.run(command, check=True)


def differences(made, kept):
    found = []
    for folder in sorted(p for p in made.iterdir() if p.is_dir()):
        for path in sorted(folder.iterdir()):
            other = kept / folder.name / path.name
            if not other.exists() or not filecmp.cmp(path, other, shallow=False):
                found.append(f"{folder.name}/{path.name}")
    return found


def print_table(out):
    print("| model | XGBoost | objective | trees | rows x features | outputs | what it is there for |")
    print("|---|---|---|---:|---:|---:|---|")
    # Other scripts' models stand in the same folder.
    ours = (path for path in sorted(out.glob("*/meta.json")) if json.loads(path.read_text())["library"] == "xgboost")
    for path in ours:
        m = json.loads(path.read_text())
        print(
            f"| `{m['name']}` | {m['version']} `.{m['model'].split('.')[-1]}` | `{m['objective']}` | {m['trees']} "
            f"| {m['rows'][0]} x {m['rows'][1]} | {m['outputs']} | {m['special']} |"
        )


def main():
    text = __doc__.format(versions=", ".join(VERSIONS))
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", default=",".join(VERSIONS), help="XGBoost releases, separated by commas")
    parser.add_argument("--only", default="", help="names of models, separated by commas")
    parser.add_argument("--out", type=pathlib.Path, default=HERE, help="folder to write to (default: this script's)")
    parser.add_argument("--check", action="store_true", help="write elsewhere, and say which files differ from --out")
    parser.add_argument("--table", action="store_true", help="print the table of models of --out")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.versions = [v for v in args.versions.split(",") if v]
    args.only = [n for n in args.only.split(",") if n]
    args.out = args.out.resolve()
    unknown = [v for v in args.versions if v not in VERSIONS] + [n for n in args.only if n not in MODELS]
    if unknown:
        parser.error(f"not known: {', '.join(unknown)}")
    if args.inside:
        inside(args)
    elif args.table:
        print_table(args.out)
    elif args.check:
        with tempfile.TemporaryDirectory(prefix="zoo-made-") as made:
            run_all(args, pathlib.Path(made))
            found = differences(pathlib.Path(made), args.out)
        print("\n".join(f"differs: {f}" for f in found) or "the same, byte for byte")
        sys.exit(1 if found else 0)
    else:
        run_all(args, args.out)
        total = sum(p.stat().st_size for p in args.out.rglob("*") if p.is_file())
        print(f"{total / 1e6:.2f} MB in {args.out.name}")


if __name__ == "__main__":
    main()
