#!/usr/bin/env python3
"""Makes LightGBM models whose leaves are linear models, with rows and what LightGBM says of them.

    python3 tests/zoo-classical/make_lightgbm.py OUT [NAME ...]

Everything is seeded random numbers; no data set is involved. OUT gets a folder for each model, with `model.txt`,
`rows.npy` (float64), `margin.npy` (`raw_score=True`), `output.npy` (what predict returns) and `leaves.npy`
(`pred_leaf=True`). A category that was not in training, missing values, zeros, values at thresholds and next to them,
and for some models infinities are among the rows.

The models in this folder were made by this script with lightgbm 4.7.0 and numpy 2.4.6. Needs these.
"""

import argparse
import pathlib

import lightgbm
import numpy as np

ROWS, KEPT, ROUNDS = 500, 48, 5
CATEGORIES = 4  # the column of categories, the last one

# name -> label of a score, and options that are not those of all models
MODELS = {
    "linear-regression": (lambda score, _: score, {"objective": "regression"}),
    "linear-regression-sqrt": (lambda score, _: score, {"objective": "regression", "reg_sqrt": True}),
    "linear-poisson": (lambda score, random: random.poisson(np.exp(0.2 * score)), {"objective": "poisson"}),
    "linear-binary": (lambda score, _: score > 0.2, {"objective": "binary", "sigmoid": 1.5}),
    "linear-multiclass": (lambda score, _: np.digitize(score, [-1, 1]), {"objective": "multiclass", "num_class": 3}),
    "linear-ova": (lambda score, _: np.digitize(score, [-1, 1]), {"objective": "multiclassova", "num_class": 3}),
    "linear-cross-entropy-lambda": (lambda score, _: 1 / (1 + np.exp(-score)), {"objective": "cross_entropy_lambda"}),
    "linear-rf": (
        lambda score, _: score > 0,
        {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
    ),
    "linear-rf-regression": (
        lambda score, _: score,
        {"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
    ),
    "linear-dart": (lambda score, _: score, {"objective": "huber", "boosting": "dart", "drop_rate": 0.5}),
}
WITH_INFINITIES = ("linear-regression", "linear-rf-regression")


def data(random):
    """Rows of numbers on several scales and one column of categories, with holes, and a score."""
    x = random.normal(size=(ROWS, CATEGORIES + 1))
    x[:, CATEGORIES] = random.randint(0, 6, ROWS)
    score = x[:, 0] * 1.5 - x[:, 1] * (x[:, 2] > 0) + np.where(x[:, CATEGORIES] % 2 == 1, 1.0, -0.5)
    x[:, 1] *= 100
    x[:, 2] *= 0.01
    x[random.uniform(size=x.shape) < 0.04] = np.nan
    x[random.uniform(size=x.shape) < 0.04] = 0.0
    return x, score + 0.2 * random.normal(size=ROWS)


def splits(text):
    """(feature, threshold) of each split on a number."""
    features, thresholds = [], []
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name == "split_feature":
            features = value.split()
        elif name == "threshold":
            thresholds = value.split()
        elif name == "decision_type":
            yield from ((int(f), float(t)) for f, t, kind in zip(features, thresholds, value.split()) if not int(kind) & 1)


def rows_of(name, x, text, random):
    rows = x[:KEPT].copy()
    near_zero = float(np.float32(1e-35))
    special = [np.nan, 0.0, -0.0, near_zero, np.nextafter(near_zero, 1), -near_zero, 1e-40]
    special += [np.inf, -np.inf, 1e200] if name in WITH_INFINITIES else []
    at = {f: [t, np.nextafter(t, -np.inf), np.nextafter(t, np.inf)] for f, t in splits(text)}
    for i in range(KEPT // 3, KEPT):
        f = random.randint(0, CATEGORIES)
        values = special if random.uniform() < 0.5 else at.get(f, special)
        rows[i, f] = values[random.randint(0, len(values))]
        if random.uniform() < 0.2:
            rows[i, CATEGORIES] = [7, -1, 2.5, np.nan, 1e9][random.randint(0, 5)]
    rows[-1], rows[-2] = np.nan, 0.0
    return rows


def write(out, name):
    label, more = MODELS[name]
    random = np.random.RandomState(11)
    x, score = data(random)
    params = {
        "verbosity": -1,
        "num_threads": 1,
        "seed": 3,
        "deterministic": True,
        "force_col_wise": True,
        "num_leaves": 6,
        "learning_rate": 0.3,
        "min_data_in_leaf": 15,
        "linear_tree": True,
        "linear_lambda": 0.01,
        **more,
    }
    names = ["a", "b", "c", "d", "kind"]
    train = lightgbm.Dataset(
        x, np.asarray(label(score, random), dtype=float), categorical_feature=[CATEGORIES], feature_name=names, params=params
    )
    text = lightgbm.train(params, train, ROUNDS).model_to_string()
    # The list of parameters is cut out to save room.
    text = text[: text.index("\nparameters:")] + text[text.index("end of parameters") + 18 :]
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.txt").write_text(text)
    rows = rows_of(name, x, text, random)
    booster = lightgbm.Booster(model_str=text, params={"verbosity": -1})
    np.save(folder / "rows.npy", rows)
    np.save(folder / "margin.npy", booster.predict(rows, raw_score=True).reshape(KEPT, -1))
    np.save(folder / "output.npy", booster.predict(rows).reshape(KEPT, -1))
    np.save(folder / "leaves.npy", booster.predict(rows, pred_leaf=True).astype(np.int32).reshape(KEPT, -1))
    counts = [line.split("=")[1].split() for line in text.splitlines() if line.startswith("num_features=")]
    terms = sum(int(count) for line in counts for count in line)
    margin = booster.predict(rows, raw_score=True)
    sets = sum(int(line.split("=")[1]) for line in text.splitlines() if line.startswith("num_cat="))
    print(f"{name}: {booster.num_trees()} trees, {terms} coefficients, {sets} splits on categories, {len(text)} bytes,"
          f" margins from {np.nanmin(margin)} to {np.nanmax(margin)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("name", nargs="*", help="only these models")
    arguments = parser.parse_args()
    for name in arguments.name or MODELS:
        write(arguments.out, name)


if __name__ == "__main__":
    main()
