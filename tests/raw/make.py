#!/usr/bin/env python3
"""Make small models on tables whose categories are texts or numbers of their own, and what their libraries say of such tables.

Needs xgboost 3.2, lightgbm 4.7, catboost 1.2.10, scikit-learn 1.9, joblib and pandas. Each folder gets the model, rows.csv with
the categories as the table has them (the first line names the columns), and output.npy with what the library predicts.

  python3 tests/raw/make.py
"""

import pathlib
import shutil
import sys

import catboost as cb
import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from sklearn.ensemble import HistGradientBoostingRegressor

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "scripts"))
from export_sklearn import export  # noqa: E402

KINDS = {"words": ["red", "01", "dark red", "blue"], "numbers": [10, -3, 7, 1000000]}
ROWS = 40


def table(values, rows, seed):
    """A column of numbers, one of categories, and a target that goes by both."""
    rng = np.random.RandomState(seed)
    place = rng.randint(0, len(values), rows)
    frame = pd.DataFrame({"size": rng.normal(size=rows).round(3), "kind": [values[p] for p in place]})
    return frame, frame["size"].to_numpy() + np.array([0.0, 2.0, -1.5, 5.0])[place] + rng.normal(size=rows) * 0.1


def category(frame, values):
    # In another order than the sorted one.
    return frame.assign(kind=pd.Categorical(frame["kind"], categories=values))


def with_xgboost(values, folder, train, y, asked):
    d = xgb.DMatrix(category(train, values), label=y, enable_categorical=True, nthread=1)
    how = {"max_depth": 3, "nthread": 1, "seed": 7, "max_cat_to_onehot": 2}
    xgb.train(how, d, 4).save_model(folder / "model.json")
    booster = xgb.Booster(model_file=str(folder / "model.json"))
    return booster.predict(xgb.DMatrix(category(asked, values), enable_categorical=True, nthread=1))


def with_lightgbm(values, folder, train, y, asked):
    how = {"num_leaves": 7, "num_threads": 1, "seed": 7, "verbose": -1, "min_data_per_group": 1, "cat_smooth": 1}
    model = lgb.train(how, lgb.Dataset(category(train, values), label=y), 4)
    model.save_model(folder / "model.txt")
    return lgb.Booster(model_file=str(folder / "model.txt")).predict(category(asked, values))


def with_catboost(values, folder, train, y, asked):
    how = {"iterations": 4, "depth": 3, "one_hot_max_size": 10, "random_seed": 7, "thread_count": 1}
    model = cb.CatBoostRegressor(**how, verbose=False, allow_writing_files=False)
    model.fit(cb.Pool(train, y, cat_features=["kind"]))
    model.save_model(str(folder / "model.json"), format="json")
    return model.predict(asked)


def with_sklearn(values, folder, train, y, asked):
    model = HistGradientBoostingRegressor(max_iter=4, max_depth=3, categorical_features="from_dtype", random_state=7)
    model.fit(category(train, values), y)
    export(model, str(folder / "model.npz"))
    return model.predict(category(asked, values))


def main():
    makers = {"xgboost": with_xgboost, "lightgbm": with_lightgbm, "catboost": with_catboost, "sklearn": with_sklearn}
    for library, make in makers.items():
        for kind, values in KINDS.items():
            folder = HERE / f"{library}-{kind}"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            train, y = table(values, 300, 1)
            asked, _ = table(values, ROWS, 2)
            output = np.asarray(make(values, folder, train, y, asked), dtype=np.float64)
            asked.to_csv(folder / "rows.csv", index=False)
            np.save(folder / "output.npy", output)
            print(folder.name, sum(p.stat().st_size for p in folder.iterdir()), "bytes")


if __name__ == "__main__":
    main()
