#!/usr/bin/env python3
"""Makes pipelines of scikit-learn that take a table's columns by their names, with rows and what scikit-learn says of them.

    python3 tests/zoo-classical/make_named.py OUT

Everything is seeded random numbers; no data set is involved. OUT gets a folder for each pipeline: `named-numbers` takes
three columns of numbers, `named-mixed` a column of texts, too, and `named-notes` texts of several words, whose words it
counts. A folder has `model.onnx`, `rows.csv` with the columns in
another order and one more, `output.npy` (classes) and `proba.npy`. The models in this folder were made with scikit-learn
1.9.1, skl2onnx 1.20.0 and onnx 1.23.2. Needs these, numpy and pandas.
"""

import argparse
import pathlib

import numpy as np
import pandas as pd
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

ROWS, KEPT = 400, 60
NUMBERS = ["age", "pay", "days"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    arguments = parser.parse_args()
    random = np.random.RandomState(11)
    table = pd.DataFrame(
        {
            "age": random.randint(18, 90, ROWS).astype(np.float32),
            "pay": np.exp(random.randn(ROWS) + 7).astype(np.float32),
            "days": (random.rand(ROWS) * 400).astype(np.float32),
            "city": random.choice(["Paris", "Oslo", "Rome", "La Paz, upper"], ROWS),
        }
    )
    classes = (table["age"] * 20 + table["days"] * 5 + (table["city"] == "Oslo") * 900 > 1900).astype(np.int64)
    words = ["late", "paid", "twice", "\"soon\"", "never", "call, back", "thanks", "refund"]
    table["note"] = [" ".join(random.choice(words, random.randint(0, 6))) for _ in range(ROWS)]
    for name, cities, notes in [
        ("named-numbers", [], []),
        ("named-mixed", ["city"], []),
        ("named-notes", ["city"], ["note"]),
    ]:
        parts = [("numbers", StandardScaler(), NUMBERS)]
        # skl2onnx and scikit-learn read this pattern alike.
        parts += [("words", CountVectorizer(token_pattern="[a-zA-Z]+"), "note")] if notes else []
        parts += [("texts", OneHotEncoder(handle_unknown="ignore"), cities)] if cities else []
        pipeline = Pipeline([("columns", ColumnTransformer(parts)), ("classes", LogisticRegression(max_iter=500))])
        pipeline.fit(table[NUMBERS + notes + cities], classes)
        types = [(column, FloatTensorType([None, 1])) for column in NUMBERS]
        types += [(column, StringTensorType([None, 1])) for column in notes + cities]
        model = convert_sklearn(pipeline, initial_types=types, options={"zipmap": False})
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        rows = table.iloc[:KEPT].copy()
        rows.insert(0, "id", np.arange(KEPT) * 3)
        rows[["id", "days", "city", "age", *notes, "pay"]].to_csv(folder / "rows.csv", index=False)
        np.save(folder / "output.npy", pipeline.predict(rows))
        np.save(folder / "proba.npy", pipeline.predict_proba(rows).astype(np.float32))


if __name__ == "__main__":
    main()
