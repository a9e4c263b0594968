#!/usr/bin/env python3
"""Makes pipelines and linear models of scikit-learn, as the exporter writes them, with rows and expected outputs.

    python3 tests/zoo-classical/make_pipelines.py OUT [NAME ...]

Everything is seeded random numbers; no data set is involved. OUT gets a folder for each model, with `model.npz`,
`rows.npy` (float64), `output.npy` (what predict or transform returns) and, for classifiers, `scores.npy`
(predict_proba, or decision_function; of an isolation forest -score_samples). Missing values, categories that were not in training, and values at thresholds are
among the rows.

The models in this folder were made by this script with scikit-learn 1.9.1 and numpy 2.4.6. Needs these.
"""

import argparse
import pathlib
import sys

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor, IsolationForest, RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"))
from export_sklearn import export

ROWS, KEPT = 400, 60


def columns():
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    encoder = OneHotEncoder(handle_unknown="ignore", drop="if_binary")
    members = [("numbers", numbers, [2, 0]), ("codes", encoder, [1, 5]), ("as", "passthrough", [3]), ("not", "drop", [4])]
    return ColumnTransformer(members)


MODELS = {
    "pipeline-forest": lambda: make_pipeline(columns(), RandomForestClassifier(8, max_depth=5, random_state=1)),
    "pipeline-logistic": lambda: make_pipeline(
        SimpleImputer(), RobustScaler(), MinMaxScaler(clip=True),
        FeatureUnion([("pca", PCA(3, whiten=True)), ("best", SelectKBest(k=2)), ("all", "passthrough")]),
        LogisticRegression(max_iter=500),
    ),
    "pipeline-ridge": lambda: make_pipeline(SimpleImputer(), PolynomialFeatures(2), MaxAbsScaler(), Ridge()),
    "pipeline-histogram": lambda: make_pipeline(
        StandardScaler(with_mean=False), HistGradientBoostingRegressor(max_iter=8, random_state=1)
    ),
    "pipeline-transform": lambda: make_pipeline(SimpleImputer(), Normalizer("l1"), Binarizer(threshold=0.05)),
    "pipeline-isolation": lambda: make_pipeline(SimpleImputer(), IsolationForest(n_estimators=20, random_state=1)),
    "pipeline-one-step": lambda: LinearSVC(),
}


def write(folder, model, random):
    x = random.normal(size=(ROWS, 6)) * [1, 1, 100, 0.01, 1, 1] + [0, 0, 50, 0, 0, 0]
    x[:, 1], x[:, 5] = random.randint(0, 5, ROWS), random.randint(0, 2, ROWS)
    score = x[:, 0] + x[:, 2] / 100 + (x[:, 1] % 2) + 50 * x[:, 3]
    named = folder.name in ("pipeline-forest",)
    labels = np.digitize(score, [0.5, 1.5]) if folder.name != "pipeline-one-step" else score > 1
    is_regressor = folder.name in ("pipeline-ridge", "pipeline-histogram")
    y = score if is_regressor else np.array(["low", "middle", "high"])[labels] if named else labels.astype(int)
    if folder.name != "pipeline-one-step":
        x[random.uniform(size=x.shape) < 0.05] = np.nan
        x[:, [1, 5]] = np.where(np.isnan(x[:, [1, 5]]), 0, x[:, [1, 5]])
    model.fit(x, y)
    rows = x[:KEPT].copy()
    rows[:8, 1] = [7, -1, 0.5, 2, 3, 1, 0, 4]
    folder.mkdir(parents=True, exist_ok=True)
    export(model, folder / "model.npz")
    np.save(folder / "rows.npy", rows)
    found = model.predict(rows) if hasattr(model, "predict") else model.transform(rows)
    # A .npy of texts is none of numbers: their places among the labels.
    np.save(folder / "output.npy", np.searchsorted(model.classes_, found) if named else found)
    if folder.name == "pipeline-isolation":
        np.save(folder / "scores.npy", -model.score_samples(rows))
    elif not is_regressor and hasattr(model, "predict"):
        score = getattr(model, "predict_proba", getattr(model, "decision_function", None))
        np.save(folder / "scores.npy", score(rows))
    print(f"{folder.name}: {(folder / 'model.npz').stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("name", nargs="*", help="only these models")
    arguments = parser.parse_args()
    for name, make in MODELS.items():
        if not arguments.name or name in arguments.name:
            write(arguments.out / name, make(), np.random.RandomState(5))


if __name__ == "__main__":
    main()
