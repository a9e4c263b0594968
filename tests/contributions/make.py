#!/usr/bin/env python3
"""Make the expected contributions that the tests compare with.

For models of tests/zoo, the script asks the library itself for the contributions (SHAP values, the bias last) of some of
the model's rows: XGBoost's pred_contribs, LightGBM's pred_contrib, CatBoost's ShapValues. Each model gets a file
FOLDER/MODEL.npy, float64, rows x outputs x (features + 1).

Some models of XGBoost get their interactions of the first rows, too: pred_interactions, interactions/MODEL.npy, float32,
rows x outputs x (features + 1) x (features + 1).

It needs numpy, xgboost 3.2, lightgbm and catboost.

Example:
  python3 tests/contributions/make.py                   make all files again
  python3 tests/contributions/make.py --only churn      make one of them
"""

import argparse
import json
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ZOO = HERE.parent / "zoo"
ROWS = 12
XGBOOST = """churn logistic-missing softprob dart dart-softprob deep-lossguide forest-softprob poisson category-one-hot
category-partition absolute-error only-leaves one-feature base-score-given""".split()
LIGHTGBM = """lightgbm-binary lightgbm-categories lightgbm-multiclass lightgbm-zero-as-missing lightgbm-leafwise
lightgbm-constant-trees lightgbm-regression lightgbm-dart lightgbm-stumps""".split()
INTERACTIONS = """churn logistic-missing softprob dart deep-lossguide forest-softprob poisson category-one-hot
category-partition absolute-error only-leaves one-feature base-score-given""".split()
INTERACTION_ROWS = 4
CATBOOST = "catboost-logloss catboost-multiclass-depthwise catboost-lossguide-deep catboost-multi-logloss catboost-huber".split()


def rows_of(folder):
    """The first rows that a model's library was trained on, and the last ones, which are hard."""
    rows = np.load(folder / "rows.npy")
    return np.concatenate([rows[: ROWS - 4], rows[-4:]])


def xgboost(folder, rows=None, **what):
    import xgboost as xgb

    booster = xgb.Booster(model_file=next(folder.glob("model.*")))
    rows = rows_of(folder) if rows is None else rows
    types = booster.feature_types
    data = xgb.DMatrix(rows, feature_names=booster.feature_names, feature_types=types, enable_categorical=types is not None)
    return booster.predict(data, **(what or {"pred_contribs": True}))


def interactions(folder):
    rows = np.load(folder / "rows.npy")[:INTERACTION_ROWS]
    return xgboost(folder, rows, pred_interactions=True)


def lightgbm(folder):
    import lightgbm as lgb

    return lgb.Booster(model_file=folder / "model.txt").predict(rows_of(folder), pred_contrib=True)


def catboost(folder):
    from catboost import CatBoost, Pool

    model = CatBoost()
    model.load_model(folder / "model.json", format="json")
    return model.get_feature_importance(Pool(rows_of(folder)), type="ShapValues")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="models to make, with commas between them")
    only = parser.parse_args().only
    for library, models in [(xgboost, XGBOOST), (lightgbm, LIGHTGBM), (catboost, CATBOOST)]:
        for name in models:
            if only and name not in only.split(","):
                continue
            folder = ZOO / name
            if not folder.is_dir():
                print(f"{name}: not in the zoo")
                continue
            try:
                found = np.asarray(library(folder), dtype=np.float64)
            except Exception as error:  # some libraries refuse contributions of some models
                print(f"{name}: {error}".splitlines()[0])
                continue
            columns = json.loads((folder / "meta.json").read_text()).get("features") or np.load(folder / "rows.npy").shape[1]
            found = found.reshape(len(found), -1, columns + 1)
            np.save(HERE / f"{name}.npy", found)
            print(name, found.shape)
    (HERE / "interactions").mkdir(exist_ok=True)
    for name in INTERACTIONS:
        if not only or name in only.split(","):
            found = np.asarray(interactions(ZOO / name), dtype=np.float32)
            found = found.reshape(len(found), -1, *found.shape[-2:])
            np.save(HERE / "interactions" / f"{name}.npy", found)
            print("interactions", name, found.shape)


if __name__ == "__main__":
    main()
