"""Random models of LightGBM, and what it says of rows."""

import lightgbm
import numpy as np

import check
import data
import trees as forest
from minimise import less

NAME = "lightgbm"

# objective -> the labels it takes
OBJECTIVES = {
    "regression": "number", "regression_l1": "number", "huber": "number", "fair": "number", "quantile": "number",
    "mape": "positive", "poisson": "count", "gamma": "positive", "tweedie": "count", "binary": "flag",
    "multiclass": "classes", "multiclassova": "classes", "cross_entropy": "share", "cross_entropy_lambda": "share",
    "lambdarank": "count", "rank_xendcg": "count",
}  # fmt: skip
FREQUENT = ["regression", "binary", "multiclass"]


class Model:
    producer = NAME
    wide = True  # it compares in f64
    same_bits = True
    sums_in = np.float64

    def __init__(self, text, table, objective, kind, note, file):
        self.table, self.objective, self.kind, self.note, self.file, self.text = (
            table,
            objective,
            kind,
            note,
            file,
            text,
        )
        file.write_text(text)
        # What is asserted is what the file says.
        self.booster = lightgbm.Booster(model_str=text, params={"verbosity": -1, "num_threads": 1})
        self.grown = None

    def trees(self):
        if self.grown is None:
            self.grown = list(trees_of(self.text))
        return self.grown

    def predict(self, rows, **more):
        return np.asarray(self.booster.predict(rows, num_threads=1, **more)).reshape(len(rows), -1)

    def leaves(self, rows):
        return self.predict(rows, pred_leaf=True).astype(np.int32)

    def refused(self, rows):
        return {}

    def said(self, rows):
        margin, value = self.predict(rows, raw_score=True), self.predict(rows)
        return {"margin": margin, "value": value, "class": self.classes(value), "leaves": self.leaves(rows)}

    def classes(self, value):
        if self.objective in ("multiclass", "multiclassova"):
            return value.argmax(axis=1)
        if self.objective in ("binary", "cross_entropy"):
            return (value[:, 0] > 0.5).astype(int)
        return None

    def tied(self, said):
        # The same in f64. Two sigmoids that are both 1 are no tie: the first counts.
        off = check.gap(said["value"], 0.5)
        return (off > 0) & (off <= 2.0**-50)

    def fewer(self, first, last):
        text = self.booster.model_to_string(start_iteration=first, num_iteration=last - first)
        return Model(text, self.table, self.objective, self.kind, self.note, less(self.file))

    def rounds(self):
        return self.booster.num_trees() // self.booster.num_model_per_iteration()


def trees_of(text):
    """The trees of the file. A split's node is its number, a leaf's follows those of the splits."""
    fields = {}
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name == "Tree":
            fields = {}
        elif name == "shrinkage":
            yield tree_of(fields)
        fields[name] = value


def tree_of(fields):
    list_of = lambda name, kind: [kind(v) for v in fields.get(name, "").split()]
    splits = int(fields["num_leaves"]) - 1
    if splits == 0:
        return forest.Tree([-1], [0.0], [-1], [0])
    index = lambda child: child if child >= 0 else splits + ~child
    left, right = [list(map(index, list_of(name, int))) for name in ("left_child", "right_child")]
    leaf = [-1] * (splits + 1)
    kinds, features = list_of("decision_type", int), list_of("split_feature", int)
    column = [-1 if kind & 1 else f for kind, f in zip(kinds, features)] + leaf
    threshold = list_of("threshold", float) + [0.0] * (splits + 1)
    ends = [splits + i for i in range(splits + 1)]
    return forest.Tree(column, threshold, forest.parents(left + leaf, right + leaf), ends)


def make(rng, folder, plain=False, few_codes=False):
    """Trains a random model. `plain`: as converters take it; `few_codes`: with categories all the same."""
    objective = str(rng.choice(FREQUENT if rng.uniform() < 0.5 else list(OBJECTIVES)))
    # Some with many trees and thresholds.
    full = rng.uniform() < 0.3
    chance, codes = (1.0, 60) if few_codes else (0.0 if plain else 0.6 if full else 0.35, 1000)
    table = data.table(rng, categories=chance, most_codes=codes, wide=rng.uniform() < 0.7, full=full)
    if rng.uniform() < 0.3:  # zeros, and what LightGBM takes for zeros
        where = rng.uniform(size=table.x.shape) < 0.1
        where[:, table.categories] = False
        table.x[where] = rng.choice([0.0, -0.0, 1e-36, -1e-36, 1e-35], where.sum())
    rows = len(table.x)
    score = data.score(rng, table)
    leaves = int(rng.choice([15, 31, 63, 127] if full else [2, 3, 7, 15, 31, 63, 127, 300]))
    bins = [64, 255, 1000] if full else [2, 3, 16, 64, 255, 256, 257, 1000, 5000]
    params = {
        "verbosity": -1, "num_threads": 1, "seed": int(rng.integers(1 << 30)), "deterministic": True, "force_col_wise": True,
        "objective": objective, "num_leaves": leaves, "learning_rate": float(rng.choice([0.05, 0.3, 1.0])),
        "min_data_in_leaf": int(rng.choice([1, 5, 20])), "max_bin": int(rng.choice(bins)),
        "min_data_in_bin": int(rng.choice([1, 3])), "max_depth": int(rng.choice([-1, -1, 1, 3, 6, 12])),
    }  # fmt: skip
    kind = "trees"
    if rng.uniform() < 0.15:
        params["extra_trees"] = True
    if rng.uniform() < 0.15:
        params["zero_as_missing"] = True
        kind = "zeros missing"
    elif rng.uniform() < 0.1:
        params["use_missing"] = False
    if table.categories:
        kind = "categories" if kind == "trees" else f"{kind}, categories"
        params["max_cat_to_onehot"] = int(rng.choice([1, 4, 100, 2000]))
        params["max_cat_threshold"] = int(rng.choice([2, 16, 64, 1000]))
        params["min_data_per_group"] = int(rng.choice([1, 5, 100]))
        params["cat_smooth"] = float(rng.choice([0, 1, 10]))
    boosting = rng.uniform()
    if boosting < 0.12:
        params.update(boosting="rf", bagging_freq=1, bagging_fraction=0.6)
        kind = kind.replace("trees", "rf") if kind == "trees" else f"rf, {kind}"
    elif boosting < 0.24:
        params.update(boosting="dart", drop_rate=0.3)
        kind = kind.replace("trees", "dart") if kind == "trees" else f"dart, {kind}"
    elif boosting < 0.32:
        params.update(data_sample_strategy="goss")
    elif boosting < 0.34 and objective == "regression":
        params.update(linear_tree=True)
        kind = "linear trees"
    labels, group = OBJECTIVES[objective], None
    if labels == "classes":
        params["num_class"] = int(rng.choice([2, 3, 3, 4, 7, 12]))
        y = data.classes_of(rng, score, params["num_class"])
    elif objective in ("lambdarank", "rank_xendcg"):
        y = np.clip(data.labels(rng, labels, score), 0, 15)
        group = [20] * (rows // 20) + ([rows % 20] if rows % 20 else [])
    else:
        y = data.labels(rng, labels, score)
    if objective in ("regression", "regression_l1", "fair", "quantile", "mape") and rng.uniform() < 0.15:
        params["reg_sqrt"] = True
    if objective in ("binary", "multiclassova") and rng.uniform() < 0.3:
        params["sigmoid"] = float(rng.choice([0.5, 1.7, 3.0]))
    if objective == "quantile":
        params["alpha"] = float(rng.choice([0.1, 0.5, 0.9]))
    outputs = params.get("num_class", 1)
    most = max(1, int(min(40_000 / min(leaves, rows), 300, 4e6 / table.x.size * 10) / outputs))
    rounds = data.rounds(rng, most, full)
    named = bool(table.categories) and not plain and rng.uniform() < 0.2
    if named:
        kind = kind.replace("categories", "named categories")
    x, columns = (data.frame(table), "auto") if named else (table.x, table.categories or "auto")
    held = lightgbm.Dataset(x, y, group=group, categorical_feature=columns, params=dict(params))
    text = lightgbm.train(params, held, rounds).model_to_string()
    note = {k: v for k, v in params.items() if k not in ("num_threads", "verbosity", "deterministic", "force_col_wise")}
    return Model(text, table, objective, kind, note | {"rounds": rounds}, folder / "model.txt")
