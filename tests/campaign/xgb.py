"""Random models of XGBoost, and what it says of rows."""

import json

import numpy as np
import xgboost

import check
import data
import trees as forest
from minimise import less

NAME = "xgboost"
TOP = np.finfo(np.float32).max

# objective -> the labels it takes
OBJECTIVES = {
    "reg:squarederror": "number", "reg:squaredlogerror": "positive", "reg:pseudohubererror": "number",
    "reg:absoluteerror": "number", "reg:quantileerror": "number", "reg:logistic": "share", "reg:gamma": "positive",
    "reg:tweedie": "count", "count:poisson": "count", "binary:logistic": "flag", "binary:logitraw": "flag",
    "binary:hinge": "flag", "survival:cox": "positive", "survival:aft": "positive", "rank:ndcg": "count",
    "rank:pairwise": "count", "rank:map": "flag", "multi:softprob": "classes", "multi:softmax": "classes",
}  # fmt: skip
FREQUENT = ["reg:squarederror", "binary:logistic", "multi:softprob"]


class Model:
    producer = NAME
    wide = False  # it compares in f32
    same_bits = True  # margins in the order of trees are its own, bit for bit
    sums_in = np.float32

    def __init__(self, booster, table, objective, kind, note, file):
        self.table, self.objective, self.kind, self.note, self.file = table, objective, kind, note, file
        self.labels = OBJECTIVES[objective]
        booster.save_model(str(file))
        # What is asserted is what the file says.
        self.booster = xgboost.Booster({"nthread": 1}, model_file=str(file))
        self.grown = None

    def trees(self):
        if self.grown is None:
            self.grown = [tree_of(t) for t in document(self.booster)["trees"]]
        return self.grown

    def matrix(self, rows):
        types = ["c" if c in self.table.known else "q" for c in range(rows.shape[1])]
        more = {"feature_types": types, "enable_categorical": True} if self.table.categories else {}
        if self.booster.feature_names:
            more["feature_names"] = self.booster.feature_names
        return xgboost.DMatrix(rows, missing=np.nan, nthread=1, **more)

    def leaves(self, rows):
        if not self.trees():
            return np.zeros((len(rows), 0), np.int32)
        found = self.booster.predict(self.matrix(finite(rows)), pred_leaf=True)
        return found.reshape(len(rows), -1).astype(np.int32)

    def refused(self, rows):
        """Rows that the library does not take, by reason."""
        with np.errstate(over="ignore"):
            endless = np.isinf(rows.astype(np.float32))
        codes = np.zeros(rows.shape[1], bool)
        codes[self.table.categories] = True
        refused = {"an infinite category": endless[:, codes].any(axis=1)}
        if any(np.isinf(t.threshold[t.column >= 0]).any() for t in self.trees()):
            refused["an infinite value where a threshold is infinite"] = endless.any(axis=1)
        return refused

    def said(self, rows):
        taken = self.matrix(finite(rows))
        margin = self.booster.predict(taken, output_margin=True)
        value = self.booster.predict(taken)
        flat = lambda values: np.asarray(values).reshape(len(rows), -1)
        margin, value = flat(margin), flat(value)
        with np.errstate(over="ignore"):
            endless = np.flatnonzero(np.isinf(rows.astype(np.float32)).any(axis=1))
        if len(endless) and not self.table.categories and "dart" not in self.kind:
            # A DMatrix takes no infinities, prediction in place does; it weighs the trees of DART in another order.
            subset = rows[endless].astype(np.float32)
            margin[endless] = self.booster.inplace_predict(subset, predict_type="margin").reshape(len(endless), -1)
            value[endless] = self.booster.inplace_predict(subset).reshape(len(endless), -1)
        return {"margin": margin, "value": value, "class": classes(self.objective, value), "leaves": self.leaves(rows)}

    def tied(self, said):
        # Its exponential function and ours may differ in the last digit of an f32.
        return check.gap(said["value"], 0.5) <= 2.0**-22

    def fewer(self, first, last):
        """The same with subset rounds only."""
        cut = self.booster[first:last]
        return Model(cut, self.table, self.objective, self.kind, self.note, less(self.file))

    def rounds(self):
        return self.booster.num_boosted_rounds()


def finite(rows):
    return np.clip(rows, -TOP, TOP)


def classes(objective, value):
    """The class of each row; none where there are no classes, or fangorn knows none."""
    if objective == "multi:softprob":
        return value.argmax(axis=1)
    if objective == "multi:softmax":
        return value[:, 0].astype(int)
    if objective in ("binary:logistic", "binary:hinge") and value.shape[1] == 1:
        return (value[:, 0] > 0.5).astype(int)
    return None


def document(booster):
    whole = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]
    return whole.get("gbtree", whole)["model"]


def tree_of(tree):
    left, right = tree["left_children"], tree["right_children"]
    kinds = tree.get("split_type") or [0] * len(left)
    column = [-1 if l < 0 or kind else f for l, kind, f in zip(left, kinds, tree["split_indices"])]
    threshold = np.array(tree["split_conditions"], float)
    return forest.Tree(column, threshold, forest.parents(left, right), range(len(left)))


def make(rng, folder, plain=False):
    """Trains a random model. `plain`: as converters take it."""
    objective = str(rng.choice(FREQUENT if rng.uniform() < 0.5 else list(OBJECTIVES)))
    # Some with many trees and thresholds.
    full = rng.uniform() < 0.3
    table = data.table(rng, categories=0.0 if plain else 0.6 if full else 0.35, wide=rng.uniform() < 0.5, full=full)
    rows = len(table.x)
    score = data.score(rng, table)
    depth = int(rng.integers(3, 9)) if full else int(rng.integers(1, 13))
    params = {
        "nthread": 1, "seed": int(rng.integers(1 << 30)), "verbosity": 0, "objective": objective, "max_depth": depth,
        "eta": float(rng.choice([0.05, 0.3, 1.0])), "min_child_weight": float(rng.choice([0, 0.1, 1, 5])),
        "max_bin": int(rng.choice([64, 256, 1000] if full else [2, 3, 16, 64, 255, 256, 257, 1000, 5000])),
        "tree_method": str(rng.choice(["hist", "hist", "exact", "approx"])),
    }  # fmt: skip
    if rng.uniform() < 0.3:
        params.update(gamma=float(rng.choice([0.01, 1, 10])))
    if rng.uniform() < 0.3:
        params.update(subsample=0.7, colsample_bytree=0.6)
    if rng.uniform() < 0.2:
        params.update(reg_lambda=0.0, reg_alpha=float(rng.choice([0, 0.5])))
    kind = "trees"
    if table.categories:
        kind = "categories"
        params["max_cat_to_onehot"] = int(rng.choice([1, 4, 100, 2000]))
        params["max_cat_threshold"] = int(rng.choice([2, 16, 64, 1000]))
        params["tree_method"] = "hist" if params["tree_method"] == "exact" else params["tree_method"]
    if params["tree_method"] == "hist" and rng.uniform() < 0.35:
        params.update(grow_policy="lossguide", max_leaves=int(rng.choice([3, 8, 31, 64, 200])))
    outputs, parallel = 1, 1
    labels = OBJECTIVES[objective]
    if labels == "classes":
        outputs = params["num_class"] = int(rng.choice([2, 3, 3, 4, 7, 12]))
        y = data.classes_of(rng, score, outputs)
    elif objective in ("rank:ndcg", "rank:pairwise"):
        y = np.clip(data.labels(rng, labels, score), 0, 15)
    else:
        y = data.labels(rng, labels, score)
    if objective == "reg:quantileerror":
        params["quantile_alpha"] = [[0.5], [0.1, 0.5, 0.9]][rng.integers(2)]
        outputs = len(params["quantile_alpha"])
    if objective in ("reg:squarederror", "binary:logistic") and not plain and rng.uniform() < 0.25:
        outputs = int(rng.integers(2, 6))
        y = np.stack([data.labels(rng, labels, data.score(rng, table)) for _ in range(outputs)], axis=1)
    if objective == "survival:cox":
        y = y * rng.choice([1, 1, -1], rows)
    extra = rng.uniform()
    if outputs > 1 and not table.categories and not plain and objective != "reg:quantileerror" and extra < 0.5:
        params.update(multi_strategy="multi_output_tree", tree_method="hist")
        kind = "vector leaves"
    elif extra < 0.15 and not plain:
        kind = "dart" + (", categories" if table.categories else "")
        drop = {"rate_drop": 0.3, "skip_drop": 0.2, "normalize_type": str(rng.choice(["tree", "forest"]))}
        params.update(booster="dart", **drop)
    elif extra < 0.3:
        parallel = params["num_parallel_tree"] = int(rng.integers(2, 9))
        params.update(subsample=0.7, colsample_bytree=0.7)
        kind = "parallel trees" + (", categories" if table.categories else "")
    if rng.uniform() < 0.15 and labels in ("number", "flag", "share"):
        params["base_score"] = float(rng.choice([0.5, 0.07, 0.93]))
    # So many leaves in all, and no more than a second's work.
    a_tree = min(2**depth, rows / 2, params.get("max_leaves", 1 << 20))
    a_round = parallel * (1 if kind == "vector leaves" else outputs)
    most = max(1, int(min(40_000 / a_tree, 300, 4e6 / table.x.size * 20) / a_round))
    rounds = data.rounds(rng, most, full)
    if "dart" in kind:
        rounds = min(rounds, 60)
    if table.categories and not plain and rng.uniform() < 0.2:
        kind = kind.replace("categories", "named categories")
        train = xgboost.DMatrix(data.frame(table), nthread=1, enable_categorical=True)
    else:
        train = xgboost.DMatrix(table.x, nthread=1, missing=np.nan, **types(table))
    if objective == "survival:aft":
        train.set_float_info("label_lower_bound", y)
        train.set_float_info("label_upper_bound", np.where(rng.uniform(size=rows) < 0.3, np.inf, y))
    else:
        train.set_label(y)
    if objective.startswith("rank:"):
        groups = [20] * (rows // 20) + ([rows % 20] if rows % 20 else [])
        train.set_group(groups)
    if rng.uniform() < 0.01 and not plain and params["tree_method"] == "hist" and labels in ("number", "flag"):
        params, kind = {"booster": "gblinear", "objective": objective, "nthread": 1}, "linear"
    booster = xgboost.train(params, train, rounds)
    if rng.uniform() < 0.1 and "dart" not in kind and kind != "linear":  # trees of unlike depths
        params = params | {"max_depth": int(rng.integers(1, 10)), "gamma": float(rng.choice([0, 1e9]))}
        booster = xgboost.train(params, train, 1 + rounds // 2, xgb_model=booster)
    file = folder / ("model.ubj" if rng.uniform() < 0.7 else "model.json")
    note = {k: v for k, v in params.items() if k not in ("nthread", "verbosity")} | {"rounds": rounds}
    return Model(booster, table, objective, kind, note, file)


def types(table):
    if not table.categories:
        return {}
    return {
        "feature_types": ["c" if c in table.known else "q" for c in range(table.x.shape[1])],
        "enable_categorical": True,
    }
