#!/usr/bin/env python3
"""Make the expected importances and dependences that the tests compare with.

For models of tests/zoo, the script asks the library itself: XGBoost's Booster.get_score, LightGBM's
feature_importance, and scikit-learn's partial_dependence (method="brute", of margins). Each model gets a file
FOLDER/MODEL.json: importances by their names here, a number for each column of the rows, and dependences, each with its
column, the values that replace the column, and the mean margins, values x outputs.

It needs numpy, xgboost 3.2, lightgbm and scikit-learn.

Example:
  python3 tests/insight/make.py                   make all files again
  python3 tests/insight/make.py --only churn      make one of them
"""

import argparse
import json
import pathlib
import warnings

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.inspection import partial_dependence

HERE = pathlib.Path(__file__).resolve().parent
ZOO = HERE.parent / "zoo"
XGBOOST = "churn softprob dart category-partition logistic-missing deep-lossguide poisson".split()
LIGHTGBM = "lightgbm-binary lightgbm-categories lightgbm-multiclass lightgbm-regression lightgbm-constant-trees".split()
POINTS = 7


class Margins(RegressorMixin, BaseEstimator):
    """A library's margins as an estimator of scikit-learn."""

    def __init__(self, predict=None):
        self.predict_margins = predict
        self.fitted_ = True

    def fit(self, *_):
        return self

    def predict(self, rows):
        return np.asarray(self.predict_margins(rows), dtype=np.float64)


def xgboost(folder, rows):
    import xgboost as xgb

    booster = xgb.Booster(model_file=next(folder.glob("model.*")))
    names = booster.feature_names or [f"f{column}" for column in range(rows.shape[1])]
    found = {}
    for kind in ["weight", "gain", "total_gain", "cover", "total_cover"]:
        score = booster.get_score(importance_type=kind)
        found[kind] = [float(score.get(name, 0.0)) for name in names]

    def margins(rows):
        types = booster.feature_types
        data = xgb.DMatrix(
            rows, feature_names=booster.feature_names, feature_types=types, enable_categorical=types is not None
        )
        return booster.predict(data, output_margin=True)

    return found, margins


def lightgbm(folder, rows):
    import lightgbm as lgb

    booster = lgb.Booster(model_file=folder / "model.txt")
    found = {
        "weight": [float(n) for n in booster.feature_importance("split")],
        "total_gain": [float(n) for n in booster.feature_importance("gain")],
    }
    return found, lambda rows: booster.predict(rows, raw_score=True)


def dependences(margins, rows, importances):
    """The dependence on the two columns with most splits, at some of their own values."""
    columns = np.argsort(importances["weight"])[::-1][:2]
    for column in columns:
        # JSON has no infinities.
        values = np.unique(rows[:, column][np.isfinite(rows[:, column])])
        if len(values) < 2:
            continue
        values = values[np.unique(np.linspace(0, len(values) - 1, POINTS).astype(int))]
        # An estimator's outputs are told one by one.
        outputs = np.asarray(margins(rows)).reshape(len(rows), -1).shape[1]
        means = []
        for output in range(outputs):
            one = Margins(lambda rows, o=output: np.asarray(margins(rows)).reshape(len(rows), -1)[:, o])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = partial_dependence(
                    one, rows, [int(column)], custom_values={int(column): values}, method="brute", kind="average"
                )
            means.append(found["average"][0])
        yield {"column": int(column), "values": values.tolist(), "partial": np.stack(means, axis=1).ravel().tolist()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="models to make, with commas between them")
    only = parser.parse_args().only
    for library, models in [(xgboost, XGBOOST), (lightgbm, LIGHTGBM)]:
        for name in models:
            if only and name not in only.split(","):
                continue
            folder = ZOO / name
            rows = np.load(folder / ("rows64.npy" if (folder / "rows64.npy").exists() else "rows.npy"))
            importances, margins = library(folder, rows)
            found = {"importances": importances, "dependences": list(dependences(margins, rows, importances))}
            (HERE / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
            print(name, len(found["dependences"]))


if __name__ == "__main__":
    main()
