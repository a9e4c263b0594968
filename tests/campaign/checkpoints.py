"""Random models of the other libraries as treelite checkpoints, and what treelite's own interpreter says of rows."""

import numpy as np
import treelite

import lgb
import skl
import trees as forest
import xgb

NAME = "treelite"
FAMILIES = ["RandomForest", "ExtraTrees", "GradientBoosting", "HistGradientBoosting", "IsolationForest"]


class Model:
    producer = NAME

    def __init__(self, built, inner, kind, file):
        self.built, self.table, self.kind, self.note, self.file = built, inner.table, kind, inner.note, file
        built.serialize(str(file))
        header = built.get_header_accessor()
        post = header.get_field("postprocessor")
        self.post = post if isinstance(post, str) else bytes(post).decode()
        self.wide = built.input_type == "float64"
        self.sums_in = np.float64 if self.wide else np.float32
        # Elsewhere it adds the base score last, or divides a sum at the end.
        self.same_bits = False
        self.grown = None

    def trees(self):
        if self.grown is None:
            self.grown = [tree_of(self.built.get_tree_accessor(t)) for t in range(self.built.num_tree)]
        return self.grown

    def leaves(self, rows):
        found = treelite.gtil.predict_leaf(self.built, self.given(rows), nthread=1)
        return np.asarray(found).reshape(len(rows), -1).astype(np.int32)

    def given(self, rows):
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(rows, np.float64 if self.wide and rows.dtype == np.float64 else np.float32)

    def refused(self, rows):
        return {}

    def said(self, rows):
        given, flat = self.given(rows), lambda values: np.asarray(values).reshape(len(rows), -1)
        margin = None
        if self.post != "exponential_standard_ratio":
            margin = flat(treelite.gtil.predict(self.built, given, nthread=1, pred_margin=True))
        value = flat(treelite.gtil.predict(self.built, given, nthread=1))
        return {"margin": margin, "value": value, "class": None, "leaves": self.leaves(rows)}


def tree_of(accessor):
    fields = ["node_type", "split_index", "threshold", "cleft", "cright"]
    kind, feature, threshold, left, right = [np.asarray(accessor.get_field(f)) for f in fields]
    column = np.where(kind == 1, feature, -1)
    return forest.Tree(column, threshold, forest.parents(left, right), range(len(kind)))


def from_xgboost(rng, folder):
    inner = xgb.make(rng, folder)
    return Model(treelite.frontend.from_xgboost(inner.booster), inner, f"XGBoost {inner.kind}", folder / "model.tl")


def from_lightgbm(rng, folder):
    inner = lgb.make(rng, folder)
    return Model(treelite.frontend.from_lightgbm(inner.booster), inner, f"LightGBM {inner.kind}", folder / "model.tl")


def from_sklearn(rng, folder):
    inner = skl.make(rng, folder, families=FAMILIES)
    return Model(
        treelite.sklearn.import_model(inner.estimator), inner, f"scikit-learn {inner.kind}", folder / "model.tl"
    )


def make(rng, folder, plain=False):
    how = [from_xgboost, from_lightgbm, from_sklearn][rng.integers(3)]
    return how(rng, folder)
