"""Random models of CatBoost, and what it says of rows."""

import json

import catboost
import numpy as np
import pandas

import data
import trees as forest
from minimise import less

NAME = "catboost"

# loss function -> the labels it takes
LOSSES = {
    "RMSE": "number", "MAE": "number", "Quantile:alpha=0.3": "number", "LogLinQuantile:alpha=0.6": "positive",
    "Lq:q=1.5": "number", "Huber:delta=0.7": "number", "LogCosh": "number", "Expectile:alpha=0.3": "number",
    "MAPE": "positive", "Poisson": "count", "Tweedie:variance_power=1.4": "count", "Cox": "positive",
    "SurvivalAft:dist=Normal": "bounds", "RMSEWithUncertainty": "number", "MultiRMSE": "numbers",
    "MultiQuantile:alpha=0.1,0.5,0.9": "number", "Logloss": "flag", "CrossEntropy": "share",
    "Focal:focal_alpha=0.4;focal_gamma=1.5": "flag", "MultiClass": "classes", "MultiClassOneVsAll": "classes",
    "MultiLogloss": "flags", "MultiCrossEntropy": "shares", "YetiRank": "rank", "QueryRMSE": "rank",
    "QuerySoftMax": "rank", "LambdaMart": "rank", "GroupQuantile:alpha=0.3": "rank",
}  # fmt: skip
FREQUENT = ["RMSE", "Logloss", "MultiClass"]
CLASSIFIERS = {
    "Logloss",
    "CrossEntropy",
    "Focal",
    "MultiClass",
    "MultiClassOneVsAll",
    "MultiLogloss",
    "MultiCrossEntropy",
}


class Model:
    producer = NAME
    wide = False  # it compares in f32
    same_bits = True
    sums_in = np.float64

    def __init__(self, trained, table, loss, kind, note, file, pool):
        self.table, self.loss, self.kind, self.note, self.file, self.pool = table, loss, kind, note, file, pool
        # CatBoost is asked as it was trained: it reads its own JSON with other last digits, and large whole numbers as 0.
        self.trained = trained
        trained.save_model(str(file), format="json", pool=pool)
        self.grown = None

    def trees(self):
        if self.grown is None:
            self.grown = list(trees_of(json.loads(self.file.read_text()), self.table.x.shape[1]))
        return self.grown

    def leaves(self, rows):
        if not self.trained.tree_count_:
            return np.zeros((len(rows), 0), np.int32)
        # Of the model as it was trained: JSON does not keep the numbers.
        return np.asarray(self.trained.calc_leaf_indexes(asked(rows, self.table), thread_count=1)).astype(np.int32)

    def refused(self, rows):
        codes = rows[:, self.table.categories]
        with np.errstate(invalid="ignore"):
            refused = {
                "a category that is no whole number of 32 bits": ~(
                    (codes == np.trunc(codes)) & (np.abs(codes) < 2**24)
                ).all(axis=1)
            }
        if self.note.get("nan_mode") == "Forbidden":
            refused["a missing value where nan_mode is Forbidden"] = np.isnan(rows).any(axis=1)
        return refused

    def said(self, rows):
        pool = asked(rows, self.table)
        flat = lambda values: np.asarray(values).reshape(len(rows), -1)
        margin = flat(self.trained.predict(pool, prediction_type="RawFormulaVal", thread_count=1))
        if self.loss in CLASSIFIERS:
            value = flat(self.trained.predict_proba(pool, thread_count=1))
        else:
            value = flat(self.trained.predict(pool, thread_count=1))
        if self.loss in ("Poisson", "Tweedie"):
            value = flat(self.trained.predict(pool, prediction_type="Exponent", thread_count=1))
        if self.loss == "RMSEWithUncertainty":
            value = flat(self.trained.predict(pool, prediction_type="RMSEWithUncertainty", thread_count=1))
        return {"margin": margin, "value": value, "class": self.classes(pool, len(rows)), "leaves": self.leaves(rows)}

    def classes(self, pool, rows):
        if self.loss not in CLASSIFIERS:
            return None
        return (
            np.asarray(self.trained.predict(pool, prediction_type="Class", thread_count=1))
            .astype(float)
            .astype(int)
            .reshape(rows, -1)
        )

    def fewer(self, first, last):
        cut = self.trained.copy()
        cut.shrink(ntree_start=first, ntree_end=last)
        return Model(cut, self.table, self.loss, self.kind, self.note, less(self.file), self.pool)

    def rounds(self):
        return self.trained.tree_count_


def asked(rows, table, y=None, **more):
    """Rows as CatBoost takes them: columns of categories as integers."""
    if not table.categories:
        with np.errstate(over="ignore"):
            return catboost.Pool(np.ascontiguousarray(rows, np.float32), y, thread_count=1, **more)
    with np.errstate(over="ignore"):
        single = rows.astype(np.float32)
    columns = {str(c): rows[:, c].astype(np.int64) if c in table.known else single[:, c] for c in range(rows.shape[1])}
    return catboost.Pool(pandas.DataFrame(columns), y, cat_features=table.categories, thread_count=1, **more)


def trees_of(document, width):
    floats = document["features_info"].get("float_features") or []
    flat = {f["feature_index"]: f["flat_feature_index"] for f in floats}
    number = lambda split: split.get("split_type", "FloatFeature") == "FloatFeature"
    for tree in document.get("oblivious_trees") or []:
        splits = [s for s in tree.get("splits") or [] if number(s)]
        yield forest.Tree([flat[s["float_feature_index"]] for s in splits], [s["border"] for s in splits])
    for root in document.get("trees") or []:
        # Leaves of these have other numbers in the file, so their splits count as ones that every row comes by.
        found, todo = [], [root]
        while todo:
            node = todo.pop()
            if "split" in node:
                todo += [node["left"], node["right"]]
                found.append(node["split"])
        found = [s for s in found if number(s)]
        yield forest.Tree([flat[s["float_feature_index"]] for s in found], [s["border"] for s in found])


def make(rng, folder, plain=False):
    """Trains a random model. `plain`: as converters take it."""
    named = str(rng.choice(FREQUENT if rng.uniform() < 0.5 else list(LOSSES)))
    loss, labels = named.split(":")[0], LOSSES[named]
    # Some with many trees and thresholds.
    full = rng.uniform() < 0.3
    chance = 0.0 if plain else 0.6 if full else 0.35
    table = data.table(rng, categories=chance, most_codes=int(rng.choice([2, 9, 40, 255])), full=full)
    x = table.x
    if len(table.categories):
        x[:, table.categories] = np.nan_to_num(x[:, table.categories])
        table.known = {c: np.unique(x[:, c]) for c in table.categories}
        if rng.uniform() < 0.3:  # numbers that are no codes
            c = int(rng.choice(table.categories))
            x[:, c] = np.where(x[:, c] == 1, -5, np.where(x[:, c] == 0, 65535, x[:, c]))
            table.known[c] = np.unique(x[:, c])
    rows = len(x)
    score = data.score(rng, data.Table(np.where(x < 0, 0, x) if table.categories else x, [], table.kinds))
    depth = int(rng.choice([4, 5, 6, 7] if full else [1, 2, 3, 4, 5, 6, 8, 10]))
    params = {
        "loss_function": named, "depth": depth, "verbose": 0, "thread_count": 1, "allow_writing_files": False,
        "random_seed": int(rng.integers(1 << 30)), "learning_rate": float(rng.choice([0.05, 0.3, 1.0])),
        "border_count": int(rng.choice([64, 128, 254] if full else [1, 2, 16, 64, 128, 254, 255, 1000, 3000])),
        "feature_border_type": str(rng.choice(["GreedyLogSum", "Uniform", "Median", "MinEntropy"])),
    }  # fmt: skip
    if params["border_count"] > 255:
        params["feature_border_type"] = str(rng.choice(["GreedyLogSum", "Uniform", "Median"]))
    kind = "oblivious"
    policy = str(rng.choice(["SymmetricTree"] * 3 + ["Depthwise", "Lossguide"])) if not plain else "SymmetricTree"
    if policy != "SymmetricTree":
        kind = policy.lower()
        params["grow_policy"] = policy
        params["min_data_in_leaf"] = int(rng.choice([1, 5, 30]))
        if policy == "Lossguide":
            params["max_leaves"] = int(rng.choice([2, 8, 31, 64]))
    if np.isnan(x).any() and rng.uniform() < 0.4:
        params["nan_mode"] = "Max"
    elif not np.isnan(x).any() and rng.uniform() < 0.1:
        params["nan_mode"] = "Forbidden"
    if table.categories:
        kind += ", one-hot"
        # Splits on counters, which fangorn refuses, now and then.
        params["one_hot_max_size"] = 255 if rng.uniform() < 0.97 else 2
    several = lambda kind: np.stack([data.labels(rng, kind, s) for s in (score, -score, score**2)], axis=1)
    more = {}
    outputs = 1
    if labels == "classes":
        outputs = int(rng.choice([3, 3, 4, 7, 12]))
        y = data.classes_of(rng, score, outputs)
    elif labels in ("numbers", "flags", "shares"):
        y, outputs = several(labels[:-1]), 3
    elif labels == "bounds":
        y = data.labels(rng, "positive", score)
        y = np.stack([y, np.where(rng.uniform(size=rows) < 0.2, -1, y * 1.5)], axis=1)
    elif labels == "rank":
        y = np.clip(data.labels(rng, "count", score), 0, 4) / 4
        more["group_id"] = np.arange(rows) // 20
    else:
        y = data.labels(rng, labels, score)
    if loss == "Cox":
        y = y * rng.choice([1, 1, -1], rows)
    outputs = 3 if loss == "MultiQuantile" else outputs
    if params["depth"] > 8 and outputs > 1:
        params["depth"] = 6
    most = max(1, int(min(40_000 / 2 ** params["depth"], 300, 3e6 / x.size * 8) / outputs))
    params["iterations"] = data.rounds(rng, most, full)
    pool = asked(x, table, y, **more)
    trained = catboost.CatBoostClassifier(**params) if loss in CLASSIFIERS else catboost.CatBoost(params)
    trained.fit(pool)
    single = outputs == 1 and not plain and loss not in CLASSIFIERS and loss != "RMSEWithUncertainty"
    if rng.uniform() < 0.1 and single:
        trained.set_scale_and_bias(-1.5, 0.125)
        params["scale_and_bias"] = [-1.5, 0.125]
    elif rng.uniform() < 0.05 and single:
        other = catboost.CatBoost({**params, "random_seed": params["random_seed"] + 1, "depth": 2}).fit(pool)
        trained, kind = catboost.sum_models([trained, other], weights=[0.25, 0.75]), kind + ", sum"
    note = {k: v for k, v in params.items() if k not in ("thread_count", "verbose", "allow_writing_files")}
    return Model(trained, table, loss, kind, note, folder / "model.json", pool if table.categories else None)
