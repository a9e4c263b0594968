#!/usr/bin/env python3
"""Makes the models and rows that `benches/peers/run.py --own` times.

Each is trained on rows of a seeded generator, with one thread, so that nothing
is tuned to a set of models that somebody has. Nothing is downloaded.

Writes OUT/NAME/model.* (as its library saves it), rows.npy (float32; NaN is
missing), meta.json and, of scikit-learn's, the estimator as model.joblib. What
is there already is left alone.

Needs numpy, and xgboost, lightgbm, catboost or scikit-learn and skl2onnx.

Examples:
  python3 benches/peers/own.py --out models                      all of them
  python3 benches/peers/own.py --out models --only own-sparse    one of them
  python3 benches/peers/own.py --out small --quick               a tenth of the trees, for trying things out
"""

import argparse
import importlib.util
import json
import pathlib
import sys
import time

SEED = 20262
HERE = pathlib.Path(__file__).resolve().parent

# name -> (what it is, function(np, rng, quick, folder) -> (trees, rows))
MODELS = {}


def model(name, what):
    def register(make):
        MODELS[name] = (what, make)
        return make

    return register


def gpu_models():
    """The generators that benches/gpu has."""
    spec = importlib.util.spec_from_file_location("gpu_models", HERE.parent / "gpu" / "models.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fewer(quick, count):
    return max(1, count // 10) if quick else count


def friedman(np, rng, count, columns=10, noise=1.0):
    """Friedman's first function: a sine of a product, a square, two lines, and columns that say nothing."""
    x = rng.uniform(size=(count, columns)).astype(np.float32)
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x, (y + noise * rng.normal(size=count)).astype(np.float32)


def train_xgboost(folder, rows, labels, rounds, params):
    import xgboost as xgb

    params = {"tree_method": "hist", "seed": 7, "nthread": 1, "verbosity": 1, **params}
    booster = xgb.train(params, xgb.DMatrix(rows, label=labels), rounds)
    booster.save_model(folder / "model.json")
    return booster.num_boosted_rounds() * max(1, params.get("num_class", 1))


@model("own-letters-26000", "XGBoost, 26 classes, 1000 rounds of depth 8, 16 columns of whole numbers")
def _(np, rng, quick, folder):
    # Classes that overlap and labels that are wrong now and then, so that the last rounds still have something to split.
    labels = rng.integers(0, 26, fewer(quick, 20_000))
    centres = rng.uniform(2, 13, (26, 3, 16))
    rows = centres[labels, rng.integers(0, 3, len(labels))] + 2.5 * rng.normal(size=(len(labels), 16))
    rows = np.clip(np.rint(rows), 0, 15).astype(np.float32)
    wrong = rng.random(len(labels)) < 0.05
    labels[wrong] = rng.integers(0, 26, int(wrong.sum()))
    labels[:26] = np.arange(26)  # none goes missing
    params = {"objective": "multi:softprob", "num_class": 26, "max_depth": 8, "eta": 0.05, "max_bin": 16}
    return train_xgboost(folder, rows, labels, fewer(quick, 1000), params), rows


@model("own-thousand", "XGBoost, regression, 1000 trees of depth 6, 8 columns")
def _(np, rng, quick, folder):
    rows = rng.normal(size=(fewer(quick, 50_000), 8)).astype(np.float32)
    labels = (gpu_models().mixed(np, rows, rng) + 0.3 * rng.normal(size=len(rows))).astype(np.float32)
    params = {"objective": "reg:squarederror", "max_depth": 6, "eta": 0.05}
    return train_xgboost(folder, rows, labels, fewer(quick, 1000), params), rows


@model("own-friedman", "XGBoost, regression, 500 trees of depth 6, 10 columns")
def _(np, rng, quick, folder):
    rows, labels = friedman(np, rng, fewer(quick, 50_000))
    params = {"objective": "reg:squarederror", "max_depth": 6, "eta": 0.1}
    return train_xgboost(folder, rows, labels, fewer(quick, 500), params), rows


@model("own-sparse", "XGBoost, two classes, 200 trees of depth 8, 3000 columns of which 97 in 100 values are missing")
def _(np, rng, quick, folder):
    count, columns = fewer(quick, 20_000), 3000
    rows = np.full((count, columns), np.nan, dtype=np.float32)
    weights = rng.normal(size=columns) * (rng.random(columns) < 0.2)
    score = rng.normal(size=count)
    # Common columns and rare ones, as words have.
    chances = np.minimum(0.5, 0.03 * rng.zipf(2.0, columns) ** 0.5)
    chances *= 0.03 / chances.mean()
    for column in range(columns):
        there = rng.random(count) < chances[column]
        values = rng.exponential(size=there.sum()).astype(np.float32)
        rows[there, column] = values
        score[there] += weights[column] * values
    labels = (score > np.median(score)).astype(np.float32)
    params = {"objective": "binary:logistic", "max_depth": 8, "max_bin": 64}
    return train_xgboost(folder, rows, labels, fewer(quick, 200), params), rows


@model("own-leafwise", "LightGBM, two classes, 300 trees of 255 leaves, 28 columns")
def _(np, rng, quick, folder):
    import lightgbm as lgb

    rows = rng.normal(size=(fewer(quick, 100_000), 28)).astype(np.float32)
    labels = gpu_models().flip(np, gpu_models().mixed(np, rows, rng), rng)
    params = {"objective": "binary", "num_leaves": 255, "num_threads": 1, "seed": 7, "deterministic": True, "verbosity": -1}
    booster = lgb.train(params, lgb.Dataset(rows, labels), fewer(quick, 300))
    booster.save_model(folder / "model.txt")
    return booster.num_trees(), rows


@model("own-oblivious", "CatBoost, regression, 500 oblivious trees of depth 6, 20 columns")
def _(np, rng, quick, folder):
    import catboost

    rows, labels = friedman(np, rng, fewer(quick, 50_000), 20)
    made = catboost.CatBoostRegressor(
        iterations=fewer(quick, 500), depth=6, random_seed=7, thread_count=1, allow_writing_files=False, verbose=False
    )
    made.fit(rows, labels)
    made.save_model(folder / "model.json", format="json")
    return made.tree_count_, rows


def keep_estimator(folder, made, rows):
    import joblib
    import skl2onnx

    joblib.dump(made, folder / "model.joblib")
    # The probabilities as one array, not a dictionary a row.
    options = {id(made): {"zipmap": False}} if hasattr(made, "classes_") else None
    versions = {"": 17, "ai.onnx.ml": 3}
    written = skl2onnx.to_onnx(made, rows[:1], options=options, target_opset=versions)
    (folder / "model.onnx").write_bytes(written.SerializeToString())
    return len(made.estimators_), rows


@model("own-forest", "scikit-learn, random forest, regression, 100 trees, 10 columns")
def _(np, rng, quick, folder):
    from sklearn.ensemble import RandomForestRegressor

    rows, labels = friedman(np, rng, fewer(quick, 20_000))
    made = RandomForestRegressor(fewer(quick, 100), min_samples_leaf=5, random_state=7, n_jobs=1)
    return keep_estimator(folder, made.fit(rows, labels), rows)


@model("own-forest-classes", "scikit-learn, extra trees, 5 classes, 60 trees, 12 columns")
def _(np, rng, quick, folder):
    from sklearn.ensemble import ExtraTreesClassifier

    rows, score = friedman(np, rng, fewer(quick, 20_000), 12)
    labels = np.searchsorted(np.quantile(score, [0.2, 0.4, 0.6, 0.8]), score)
    made = ExtraTreesClassifier(fewer(quick, 60), min_samples_leaf=10, random_state=7, n_jobs=1)
    return keep_estimator(folder, made.fit(rows, labels), rows)


def make(np, name, out, quick):
    """Makes one model, unless it is there."""
    what, draw = MODELS[name]
    folder = out / name
    meta_file = folder / "meta.json"
    meta = {"name": name, "special": what, "seed": SEED, "quick": quick}
    if meta_file.is_file():
        made = json.loads(meta_file.read_text())
        if {key: made.get(key) for key in meta} == meta:
            return
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob("*"):
        left.unlink()
    begin = time.perf_counter()
    trees, rows = draw(np, np.random.default_rng(SEED), quick, folder)
    rows = rows[:4096]
    np.save(folder / "rows.npy", rows)
    meta |= {"trees": int(trees), "features": rows.shape[1]}
    meta_file.write_text(json.dumps(meta, indent=1) + "\n")
    print(f"{name}: {trees} trees, {rows.shape[1]} columns, {time.perf_counter() - begin:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=pathlib.Path, help="the folder to write to")
    parser.add_argument("--only", help=f"names, separated by commas, of {', '.join(MODELS)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the trees on few rows")
    args = parser.parse_args()
    names = args.only.split(",") if args.only else list(MODELS)
    for name in [n for n in names if n not in MODELS]:
        parser.error(f"unknown model {name}; the models are {', '.join(MODELS)}")
    import numpy as np

    failed = []
    for name in names:
        try:
            make(np, name, args.out, args.quick)
        except Exception as error:  # a library that is not there should not take the other models with it
            print(f"own.py: {name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", file=sys.stderr)
            failed.append(name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
