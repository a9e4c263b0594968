#!/usr/bin/env python3
"""Make the CatBoost models of the zoo.

Every model is trained on data that this script draws from a seeded generator, saved with
save_model(format='json'), read back by CatBoost from that file, and asked for raw scores and predictions. Leaf
indices are those of the model as it was trained, which JSON does not always keep. The models were made with CatBoost 1.2.10, numpy and pandas:

  pip install catboost==1.2.10 numpy pandas
  python3 tests/zoo/make_catboost.py                  make everything again
  python3 tests/zoo/make_catboost.py --only NAME,...  only these
  python3 tests/zoo/make_catboost.py --into FOLDER    elsewhere
"""

import argparse
import json
import pathlib
import re

import catboost as cb
import numpy as np
import pandas as pd

HERE = pathlib.Path(__file__).resolve().parent
MODELS = {}
# Models that are predicted with a baseline, too.
FROM_MARGINS = {"catboost-logloss", "catboost-one-vs-all"}


class Trained:
    """What a recipe hands back: the model, rows to draw from, and the columns that hold categories."""

    def __init__(self, model, data, special, categories=(), rows=24, hard=80, pool=None, classes=False):
        self.model, self.data, self.special = model, data, special
        self.categories, self.rows, self.hard, self.pool = list(categories), rows, hard, pool
        self.classes = classes


def model(name):
    def register(make):
        MODELS[f"catboost-{name}"] = make
        return make

    return register


# ---------------------------------------------------------------- data


def numbers(seed, rows=400, features=5, missing=0.1):
    """Normal features of differing scales, some missing, and a score made of them."""
    rng = np.random.RandomState(seed)
    raw = rng.normal(size=(rows, features))
    x = (raw * 10.0 ** rng.uniform(-2, 3, features)).astype(np.float32)
    score = raw[:, 0] - 0.7 * raw[:, 1 % features] * raw[:, 2 % features] + 0.5 * (raw[:, 3 % features] > 0.3)
    hole = rng.uniform(size=x.shape) < missing
    score = score + 1.5 * hole[:, 0] - 1.2 * hole[:, 1 % features]
    x[hole] = np.nan
    return x, score + 0.2 * rng.normal(size=rows), rng


def params(**more):
    base = dict(iterations=4, depth=3, verbose=0, thread_count=1, random_seed=7, allow_writing_files=False)
    base.update(more)
    return base


def regressor(x, y, **more):
    return cb.CatBoostRegressor(**params(**more)).fit(x, y)


def classifier(x, y, **more):
    return cb.CatBoostClassifier(**params(**more)).fit(x, y)


# ---------------------------------------------------------------- recipes


@model("rmse")
def _():
    x, y, _ = numbers(1)
    return Trained(regressor(x, y), x, "missing values below every border (nan_mode Min)")


@model("nan-max")
def _():
    x, y, _ = numbers(2)
    return Trained(regressor(x, y, nan_mode="Max"), x, "missing values above every border (nan_mode Max)")


@model("nan-unseen")
def _():
    x, y, _ = numbers(3, missing=0.0)
    return Trained(regressor(x, y), x, "trained without missing values (AsIs), asked for them")


@model("logloss")
def _():
    x, y, _ = numbers(4)
    return Trained(classifier(x, (y > 0.3).astype(int)), x, "output holds both probabilities")


@model("multiclass-depthwise")
def _():
    x, y, _ = numbers(5)
    labels = np.digitize(y, [-0.5, 0.5]) * 10 + 5
    m = classifier(x, labels, loss_function="MultiClass", grow_policy="Depthwise", iterations=3)
    return Trained(m, x, "labels 5, 15, 25; trees of any shape with vector leaves")


@model("labels")
def _():
    x, y, _ = numbers(17, features=3)
    m = classifier(x, np.where(y > 0.5, 8, 3), depth=2, iterations=3)
    m.set_probability_threshold(0.3)
    return Trained(m, x, "output holds classes: labels 3 and 8, probability threshold of 0.3", classes=True)


@model("one-vs-all")
def _():
    x, y, _ = numbers(6)
    return Trained(
        classifier(x, np.digitize(y, [-0.5, 0.5]), loss_function="MultiClassOneVsAll", iterations=4),
        x,
        "a sigmoid an output, vector leaves",
    )


@model("multi-logloss")
def _():
    x, y, rng = numbers(7)
    labels = (np.stack([y, -y + rng.normal(size=len(y)), y**2 - 1], axis=1) > 0).astype(int)
    return Trained(classifier(x, labels, loss_function="MultiLogloss", iterations=4), x, "three labels at once")


@model("poisson")
def _():
    x, y, rng = numbers(8)
    return Trained(
        regressor(x, rng.poisson(np.exp(y / 2)), loss_function="Poisson"), x, "prediction is the exponential"
    )


@model("multi-quantile")
def _():
    x, y, _ = numbers(9)
    m = regressor(x, y, loss_function="MultiQuantile:alpha=0.1,0.5,0.9", iterations=6)
    return Trained(m, x, "three quantiles, a bias each")


@model("lossguide-deep")
def _():
    x, y, _ = numbers(10, rows=300, features=2)
    m = regressor(x, y, grow_policy="Lossguide", depth=16, max_leaves=16, iterations=2, border_count=32)
    return Trained(m, x, "trees of up to 16 levels")


@model("one-hot")
def _():
    rng = np.random.RandomState(11)
    x = rng.normal(size=(400, 4)).astype(np.float32)
    x[:, 1] = rng.randint(0, 9, len(x))
    x[:, 3] = rng.choice([-1, 3, 300, 65535], len(x))
    y = x[:, 0] + 2 * (x[:, 1] % 4 == 1) - 3 * (x[:, 3] == -1) + (x[:, 3] == 300) * x[:, 2]
    m = cb.CatBoostRegressor(**params(one_hot_max_size=20, iterations=10)).fit(pool(x, [1, 3], y))
    return Trained(m, x, "categories are whole numbers, of which the file has hashes", categories=[1, 3])


@model("one-hot-named")
def _():
    rng = np.random.RandomState(12)
    x = rng.normal(size=(400, 2)).astype(np.float32)
    x[:, 0] = rng.choice([0, 7, 123456, 16777215, -5000000], len(x))
    y = x[:, 1] + 2 * (x[:, 0] == 123456) - 3 * (x[:, 0] == 16777215) + (x[:, 0] < 0)
    train = pool(x, [0], y)
    m = cb.CatBoostRegressor(**params(one_hot_max_size=20, grow_policy="Lossguide", iterations=4)).fit(train)
    return Trained(m, x, "saved with its pool, which names the categories", categories=[0], pool=train)


@model("scaled-sum")
def _():
    x, y, _ = numbers(13)
    parts = [regressor(x, y, random_seed=s, iterations=2, depth=2) for s in (1, 2)]
    m = cb.sum_models(parts, weights=[0.25, 0.75])
    m.set_scale_and_bias(-1.5, 0.125)
    return Trained(m, x, "a sum of two models, with a scale and a bias of its own")


@model("many-borders")
def _():
    x, y, _ = numbers(14, rows=1500, features=2)
    m = regressor(x, y, border_count=2000, iterations=6, depth=2, feature_border_type="Uniform")
    return Trained(m, x, "up to 2000 borders a feature")


@model("only-leaves")
def _():
    x, y, _ = numbers(15)
    m = regressor(x, y, grow_policy="Lossguide", min_data_in_leaf=390, iterations=3)
    return Trained(m, x, "trees without a split")


# ---------------------------------------------------------------- results


def one_of_each_loss():
    """A small model for every loss function that has none above; QueryCrossEntropy and Combination need a GPU."""
    x, y, rng = numbers(40, rows=240, features=3)
    groups = np.repeat(np.arange(30), 8)
    positive, chosen = np.exp(y / 3), (y > 0).astype(int)
    pairs = [(r, r + 1) if y[r] > y[r + 1] else (r + 1, r) for r in range(0, len(y), 2)]
    bounds = np.stack([positive, np.where(rng.uniform(size=len(y)) < 0.2, -1, positive * 1.5)], axis=1)
    several = np.stack([y, -y], axis=1)
    holes = np.where(rng.uniform(size=several.shape) < 0.1, np.nan, several)
    ranks = np.digitize(y, [-0.5, 0.5, 1.0]) / 3
    return {
        "MAE": dict(label=y),
        "Quantile:alpha=0.3": dict(label=y),
        "GroupQuantile:alpha=0.3": dict(label=y, group_id=groups),
        "LogLinQuantile:alpha=0.6": dict(label=positive),
        "Lq:q=1.5": dict(label=y),
        "Huber:delta=0.7": dict(label=y),
        "LogCosh": dict(label=y),
        "Expectile:alpha=0.3": dict(label=y),
        "MAPE": dict(label=positive),
        "Cox": dict(label=positive * np.where(chosen, 1, -1)),
        "SurvivalAft:dist=Normal": dict(label=bounds),
        "Tweedie:variance_power=1.4": dict(label=positive),
        "RMSEWithUncertainty": dict(label=y),
        "MultiRMSE": dict(label=several),
        "MultiRMSEWithMissingValues": dict(label=holes),
        "CrossEntropy": dict(label=1 / (1 + np.exp(-y))),
        "Focal:focal_alpha=0.4;focal_gamma=1.5": dict(label=chosen),
        "MultiCrossEntropy": dict(label=1 / (1 + np.exp(-several))),
        "PairLogit": dict(label=ranks, group_id=groups, pairs=pairs),
        "PairLogitPairwise": dict(label=ranks, group_id=groups, pairs=pairs),
        "YetiRank": dict(label=ranks, group_id=groups),
        "YetiRankPairwise": dict(label=ranks, group_id=groups),
        "QueryRMSE": dict(label=ranks, group_id=groups),
        "QuerySoftMax": dict(label=ranks, group_id=groups),
        "StochasticFilter": dict(label=ranks, group_id=groups),
        "StochasticRank:metric=DCG": dict(label=ranks, group_id=groups),
        "LambdaMart": dict(label=ranks, group_id=groups),
    }, x  # fmt: skip


def of_loss(loss):
    def make():
        losses, x = one_of_each_loss()
        m = cb.CatBoost(params(loss_function=loss, iterations=3))
        m.fit(cb.Pool(x, **losses[loss]))
        special = {"RMSEWithUncertainty": "prediction is a mean and a variance"}.get(loss, "a loss function of its own")
        return Trained(m, x, special, rows=12, hard=12)

    return make


for _loss in one_of_each_loss()[0]:
    model(re.sub("(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", _loss.split(":")[0]).lower())(of_loss(_loss))


def pool(x, categories, y=None):
    """Rows of f32 as CatBoost takes them: columns of categories as integers."""
    if not categories:
        return cb.Pool(np.ascontiguousarray(x, dtype=np.float32), y)
    columns = {i: x[:, i].astype(np.int64) if i in categories else x[:, i] for i in range(x.shape[1])}
    return cb.Pool(pd.DataFrame(columns), y, cat_features=categories)


def hard_rows(data, document, categories, seed, most):
    """Rows at borders and beside them, and with values from the ends of f32."""
    rng = np.random.RandomState(seed)
    edge = [0.0, -0.0, 1e-45, -1e-45, 1e-38, 3.4028235e38, -3.4028235e38, np.inf, -np.inf, np.nan]
    asked = {}
    for feature in document["features_info"].get("float_features") or []:
        borders = np.array(feature["borders"] or [], dtype=np.float32)
        with np.errstate(over="ignore"):
            near = [borders, *(np.nextafter(borders, np.float32(end)) for end in (np.inf, -np.inf))]
        asked[feature["flat_feature_index"]] = np.concatenate(near)
    rows = []
    width = data.shape[1]

    def other(column):
        return data[rng.randint(len(data)), column]

    values = [(c, v) for c, vs in sorted(asked.items()) for v in vs]
    for c, v in [values[i] for i in rng.permutation(len(values))[:most]]:
        row = [other(k) if rng.rand() < 0.5 or not len(asked.get(k, ())) else rng.choice(asked[k]) for k in range(width)]
        row[c] = v
        rows.append(row)
    for v in edge:
        rows.append([other(k) if k in categories else v for k in range(width)])
    for c in categories:
        known = np.unique(data[:, c])
        for v in [*known, known.max() + 1, known.min() - 1, 12345, 2**24 - 1, -(2**24) + 1]:
            rows.append([v if k == c else other(k) for k in range(width)])
    return np.array(rows, dtype=np.float32)


def loss_of(document):
    info = document["model_info"]
    loss = info.get("params", {}).get("loss_function") or json.loads(info.get("loss_function", '{"type": ""}'))
    return loss["type"]


def write(name, folder, trained, seed=99):
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "model.json"
    trained.model.save_model(str(file), format="json", pool=trained.pool)
    document = json.loads(file.read_text())
    rows = hard_rows(trained.data, document, trained.categories, seed, trained.hard)
    rows = np.concatenate([trained.data[: trained.rows], rows]).astype(np.float32)
    loss = loss_of(document)
    classes = loss in {"Logloss", "CrossEntropy", "Focal", "MultiClass", "MultiClassOneVsAll"} | {
        "MultiLogloss",
        "MultiCrossEntropy",
    }
    read = cb.CatBoostClassifier() if classes else cb.CatBoostRegressor()
    if not loss:
        read = cb.CatBoost()
    read.load_model(str(file), format="json")
    asked = pool(rows, trained.categories)
    margin = np.asarray(read.predict(asked, prediction_type="RawFormulaVal"))
    output = np.asarray(read.predict_proba(asked) if classes else read.predict(asked))
    if trained.classes:
        output = np.asarray(read.predict(asked)).astype(np.int32)
    np.save(folder / "rows.npy", rows)
    np.save(folder / "margin.npy", np.ascontiguousarray(margin.reshape(len(rows), -1)))
    if classes or not np.array_equal(output, margin):
        np.save(folder / "output.npy", np.ascontiguousarray(output.reshape(len(rows), -1)))
    if name in FROM_MARGINS:
        start = np.random.RandomState(97).normal(size=margin.reshape(len(rows), -1).shape).astype(np.float32)
        asked.set_baseline(start if start.shape[1] > 1 else start[:, 0])
        np.save(folder / "base_margin.npy", start)
        margin = np.asarray(read.predict(asked, prediction_type="RawFormulaVal")).reshape(len(rows), -1)
        np.save(folder / "margin-from.npy", np.ascontiguousarray(margin))
        np.save(folder / "output-from.npy", np.ascontiguousarray(read.predict_proba(asked).reshape(len(rows), -1)))
    trees = document.get("oblivious_trees") or document.get("trees") or []
    if trees:
        np.save(folder / "leaves.npy", np.ascontiguousarray(trained.model.calc_leaf_indexes(asked), dtype=np.int32))
    meta = {
        "library": "catboost",
        "version": cb.__version__,
        "objective": loss,
        "trees": len(trees),
        "special": trained.special,
        "name": name,
        "model": "model.json",
        "rows": list(rows.shape),
        "outputs": int(margin.reshape(len(rows), -1).shape[1]),
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names, with commas between them")
    parser.add_argument("--into", type=pathlib.Path, default=HERE)
    args = parser.parse_args()
    for name, make in MODELS.items():
        if not args.only or name in args.only.split(","):
            write(name, args.into / name, make())
            print(name)


if __name__ == "__main__":
    main()
