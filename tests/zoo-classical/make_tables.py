#!/usr/bin/env python3
"""Makes pipelines of scikit-learn that were trained on tables of texts and numbers, with rows and expected outputs.

    python3 tests/zoo-classical/make_tables.py OUT [NAME ...]

Everything is seeded random numbers; no data set is involved. OUT gets a folder for each pipeline, with `model.npz` (as
the exporter writes it) or `model.onnx` (as skl2onnx does), `rows.csv` with the columns in another order, `value.npy`
(probabilities, or what predict or transform returns) and, for classifiers, `class.csv`. Missing cells are among the
rows and, where the encoders take them, categories that were not in training.

The models in this folder were made by this script with scikit-learn 1.9.1, skl2onnx 1.20.0, onnx 1.23.2, pandas 3.1.1
and numpy 2.4.6. Needs these.
"""

import argparse
import pathlib
import sys

import numpy as np
import pandas as pd
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import DictionaryType, FloatTensorType, StringTensorType
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import TruncatedSVD
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ExpSineSquared
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler, TargetEncoder

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"))
from export_sklearn import export

ROWS, KEPT = 400, 50
NUMBERS, TEXTS = ["age", "income", "score"], ["city", "job"]


def columns(*members):
    named = [(str(at), *member) for at, member in enumerate(members)]
    return ColumnTransformer(named, sparse_threshold=0)


def usual(**options):
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    texts = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(**options))
    return columns((numbers, NUMBERS), (texts, TEXTS))


def encoder(**options):
    return columns((OneHotEncoder(**options), TEXTS))


def small(kind):
    return kind(6, max_depth=4, random_state=0)


# A pipeline, its target, and whether it takes categories that were not in training.
MODELS = {
    "forest": (lambda: make_pipeline(usual(handle_unknown="ignore"), small(RandomForestClassifier)), "word", True),
    "logistic": (lambda: make_pipeline(usual(), LogisticRegression(max_iter=500)), "word", False),
    "boosting": (
        lambda: make_pipeline(usual(drop="first"), GradientBoostingClassifier(n_estimators=6, random_state=0)),
        "class", False,
    ),
    "missing-category": (
        lambda: make_pipeline(
            columns((OneHotEncoder(handle_unknown="ignore"), TEXTS), (SimpleImputer(add_indicator=True), NUMBERS)),
            Ridge(),
        ),
        "number", True,
    ),
    "ordinal": (
        lambda: make_pipeline(
            columns((OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), TEXTS)),
            HistGradientBoostingRegressor(max_iter=6),
        ),
        "number", True,
    ),
    "ordinal-missing": (
        lambda: make_pipeline(
            columns(
                (
                    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2),
                    TEXTS,
                ),
                ("passthrough", ["kids", "income"]),
            ),
            small(RandomForestRegressor),
        ),
        "number", True,
    ),
    "rare": (
        lambda: make_pipeline(encoder(handle_unknown="infrequent_if_exist", min_frequency=60), LogisticRegression()),
        "class", True,
    ),
    "rare-ignored": (
        lambda: make_pipeline(encoder(handle_unknown="ignore", max_categories=3), LogisticRegression()), "class", True
    ),
    "target": (
        lambda: make_pipeline(
            columns((TargetEncoder(random_state=0), TEXTS), (KNNImputer(n_neighbors=4), NUMBERS)), LinearRegression()
        ),
        "number", True,
    ),
    "neighbors": (
        lambda: make_pipeline(
            columns((KNNImputer(n_neighbors=7, weights="distance", add_indicator=True), NUMBERS + ["kids"])), Ridge()
        ),
        "number", True,
    ),
    "chosen": (
        lambda: make_pipeline(
            columns(
                (SimpleImputer(), make_column_selector(dtype_include=float)),
                (
                    make_pipeline(
                        SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder(handle_unknown="ignore")
                    ),
                    ["job", "city"],
                ),
            ),
            SelectKBest(k=6),
            small(ExtraTreesClassifier),
        ),
        "class", True,
    ),
    "numbers": (lambda: make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()), "class", True),
    "components": (
        lambda: make_pipeline(encoder(handle_unknown="ignore"), TruncatedSVD(3, random_state=0), LinearRegression()),
        "number", True,
    ),
    "two-encoders": (
        lambda: make_pipeline(
            columns(
                (OneHotEncoder(handle_unknown="ignore"), ["job"]),
                (OrdinalEncoder(), ["job"]),
                (OneHotEncoder(handle_unknown="ignore"), TEXTS),
            ),
            Ridge(),
        ),
        "number", False,
    ),
    "codes": (
        lambda: make_pipeline(columns((OneHotEncoder(), ["kids"]), (SimpleImputer(), NUMBERS)), Ridge()), "number", True
    ),
}
# Files of skl2onnx, with operators and outputs that others do not have: the model, its target, and its rows.
ONNX = {
    "onnx-rare": (
        lambda: make_pipeline(encoder(handle_unknown="ignore", max_categories=3), LogisticRegression()), "class"
    ),
    "onnx-forest": (lambda: make_pipeline(encoder(), small(RandomForestClassifier)), "word"),
    "onnx-minkowski": (lambda: KNeighborsClassifier(3, metric="minkowski", p=3), "class"),
    "onnx-sine": (lambda: GaussianProcessRegressor(ExpSineSquared(2.0, 3.0), optimizer=None, alpha=9.0), "number"),
    "onnx-discriminant": (lambda: QuadraticDiscriminantAnalysis(), "class"),
    "onnx-targets": (lambda: MultiOutputClassifier(LogisticRegression(max_iter=500)), "targets"),
    "onnx-forest-targets": (lambda: small(RandomForestClassifier), "targets"),
    "onnx-embedding": (
        lambda: make_pipeline(
            RandomTreesEmbedding(4, max_depth=3, sparse_output=False, random_state=0), LogisticRegression()
        ),
        "class",
    ),
    "onnx-dictionary": (lambda: make_pipeline(DictVectorizer(), Ridge()), "number"),
}


def table(random, unseen):
    rows = len(random["age"])
    jobs = ["cook", "dev", "nurse"] + (["pilot"] if unseen else [])
    frame = pd.DataFrame(
        {
            "id": [f"p{at}" for at in range(rows)],
            "age": random["age"],
            "city": random["city"],
            "income": random["income"],
            "job": np.array(jobs, dtype=object)[random["job"] % len(jobs)],
            "kids": random["kids"],
            "note": random["note"],
            "score": random["score"],
        }
    )
    return frame


def draws(seed, rows):
    random = np.random.RandomState(seed)
    cities = np.array(["Oslo", "Rome", "New York, NY", "Zürich", "NA-town", '"the" Bay', "7"], dtype=object)
    city = cities[random.randint(0, len(cities), rows)]
    city[random.uniform(size=rows) < 0.1] = np.nan
    age = random.randint(18, 80, rows).astype(float)
    age[random.uniform(size=rows) < 0.15] = np.nan
    score = random.normal(size=rows)
    score[random.uniform(size=rows) < 0.1] = np.nan
    return {
        "age": age, "city": city, "score": score, "income": random.lognormal(10, 1, rows).round(2),
        "job": random.randint(0, 12, rows), "kids": random.randint(0, 4, rows),
        "note": np.array(["hello there", "x"], dtype=object)[random.randint(0, 2, rows)],
    }


def targets(frame, random):
    age = frame["age"].fillna(40) / 80
    score = age + (frame["city"] == "Oslo") * 0.5 + (frame["job"] == "dev") * 0.4 + frame["kids"] * 0.1
    score = (score + random.normal(size=len(frame)) * 0.2).to_numpy()
    classes = (score > 0.9).astype(int)
    return {
        "class": classes, "word": np.where(classes == 1, "yes", "no"), "number": score * 3 + frame["income"] / 1e5,
        "targets": np.stack([classes, np.digitize(score, [0.7, 1.1])], axis=1),
    }


def outputs(folder, model, rows):
    if hasattr(model, "predict_proba"):
        found = model.predict_proba(rows)
        # A forest's file has as many classes for each target; those that a target lacks have probability 0.
        if isinstance(found, list):
            most = max(part.shape[1] for part in found) if isinstance(model, RandomForestClassifier) else 0
            found = np.concatenate([np.pad(p, ((0, 0), (0, max(0, most - p.shape[1])))) for p in found], axis=1)
        np.save(folder / "value.npy", found)
        pd.DataFrame(model.predict(rows)).to_csv(folder / "class.csv", index=False, header=False)
    else:
        np.save(folder / "value.npy", model.predict(rows))


def write(folder, make, target, unseen):
    frame, kept = table(draws(3, ROWS), False), table(draws(4, KEPT), unseen)
    wanted = NUMBERS + ["kids"] if folder.name == "table-numbers" else list(frame.columns)
    model = make().fit(frame[wanted], targets(frame, np.random.RandomState(5))[target])
    folder.mkdir(parents=True, exist_ok=True)
    export(model, folder / "model.npz")
    kept[wanted].sample(frac=1, axis=1, random_state=1).to_csv(folder / "rows.csv", index=False)
    # What a reader of the file gets.
    outputs(folder, model, pd.read_csv(folder / "rows.csv", dtype={"city": object})[wanted])


def write_onnx(folder, make, target):
    frame, kept = table(draws(3, ROWS), False), table(draws(4, KEPT), False)
    for part in (frame, kept):
        part["city"] = part["city"].fillna("nowhere")
        part["age"], part["score"] = part["age"].fillna(0), part["score"].fillna(part["income"] / 1e4)
    y = targets(frame, np.random.RandomState(5))[target]
    folder.mkdir(parents=True, exist_ok=True)
    if folder.name in ("table-onnx-rare", "table-onnx-forest"):
        types, rows = [(name, StringTensorType([None, 1])) for name in TEXTS], frame[TEXTS]
        kept = kept[TEXTS]
    elif folder.name == "table-onnx-dictionary":
        types = [("record", DictionaryType(StringTensorType([1]), FloatTensorType([1])))]
        rows = frame[["age", "kids"]].astype(float).to_dict("records")
        rows = [{key: value for key, value in row.items() if value != 0} for row in rows]
        kept = kept[["kids", "age"]].astype(float).replace(0.0, np.nan)
    else:
        # No two rows are equally far from a third.
        wanted = ["income", "kids", "score"]
        types, rows = [("X", FloatTensorType([None, 3]))], frame[wanted] / [1e4, 1, 1]
        rows, kept = rows.astype(np.float32).to_numpy(), (kept[wanted] / [1e4, 1, 1]).astype(np.float32)
        kept.columns = ["f0", "f1", "f2"]
        if folder.name == "table-onnx-sine":
            rows, y = rows[:40], y[:40]
    model = make().fit(rows, y)
    classifies = hasattr(model, "predict_proba")
    file = convert_sklearn(
        model, initial_types=types, target_opset={"": 17, "ai.onnx.ml": 3},
        options={id(model): {"zipmap": False}} if classifies else None,
    )
    (folder / "model.onnx").write_bytes(file.SerializeToString())
    kept.to_csv(folder / "rows.csv", index=False)
    rows = kept
    if folder.name == "table-onnx-dictionary":
        rows = [{key: value for key, value in row.items() if value == value} for row in kept.to_dict("records")]
    outputs(folder, model, rows.to_numpy() if types[0][0] == "X" else rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("name", nargs="*", help="only these models")
    arguments = parser.parse_args()
    for name, (make, target, unseen) in MODELS.items():
        if not arguments.name or name in arguments.name:
            write(arguments.out / f"table-{name}", make, target, unseen)
    for name, (make, target) in ONNX.items():
        if not arguments.name or name in arguments.name:
            write_onnx(arguments.out / f"table-{name}", make, target)


if __name__ == "__main__":
    main()
