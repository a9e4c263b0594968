#!/usr/bin/env python3
"""Makes the models and rows that benches/gpu/run.py times.

Each model is trained by XGBoost on data drawn from a seeded generator, in the
shape of a known benchmark: its columns, classes, trees, and about its depth
and leaves a tree. Nothing is downloaded. A folder of models, each in a folder
of its own with rows.npy, takes the place of what it holds: NAME, or xgb-NAME;
letter-recognition.csv in it is what `letters-26000` is trained on.

Writes OUT/NAME/model.json (as XGBoost saves it), rows.npy (float32; NaN is
missing) and meta.json. What is there already is left alone.

Needs xgboost and numpy.

Examples:
  python3 benches/gpu/models.py --out models               all of them
  python3 benches/gpu/models.py --out models --only year   one of them
  python3 benches/gpu/models.py --out small --quick        a tenth of the trees, for trying things out
"""

import argparse
import csv
import json
import pathlib
import sys
import time

SEED = 20261

# name -> (objective, rounds, function(np, rng) -> (rows, labels, XGBoost's parameters))
MODELS = {}


def model(name, objective, rounds, **more):
    def register(make):
        MODELS[name] = (objective, rounds, make, more)
        return make

    return register


def mixed(np, x, rng, terms=12):
    """A score of products and steps of columns: what boosting needs deep trees for."""
    score = np.zeros(len(x), dtype=np.float64)
    for _ in range(terms):
        a, b, c = rng.integers(0, x.shape[1], 3)
        score += rng.normal() * np.tanh(x[:, a] * x[:, b]) + rng.normal() * (x[:, c] > rng.normal())
    return score


def flip(np, score, rng, noise=1.0):
    """Labels of two classes, about even, some of them wrong."""
    return (score + noise * rng.normal(size=len(score)) > np.median(score)).astype(np.float32)


@model("higgs", "binary:logistic", 100)
def _(np, rng):
    x = rng.normal(size=(200_000, 28)).astype(np.float32)
    x[:, 21:] = np.exp(0.4 * x[:, 21:])  # masses: positive, with a tail
    return x, flip(np, mixed(np, x, rng), rng), {"max_depth": 8}


@model("airline", "binary:logistic", 100)
def _(np, rng):
    # Month, day, weekday, times, carrier, flight, tail number, airports, distance and the like: whole numbers.
    ends = [12, 31, 7, 2400, 2400, 20, 5000, 4500, 500, 300, 300, 3000, 20]
    x = np.stack([rng.integers(0, end, 200_000) for end in ends], axis=1).astype(np.float32)
    scaled = (x / np.array(ends, dtype=np.float32) - 0.5) * 3.5
    return x, flip(np, mixed(np, scaled, rng), rng), {"max_depth": 8}


@model("year", "reg:squarederror", 100)
def _(np, rng):
    x = (rng.normal(size=(50_000, 90)) * 10.0 ** rng.uniform(-1, 3, 90)).astype(np.float32)
    score = mixed(np, x / x.std(axis=0), rng)
    y = 1998 - 6 * np.abs(score + rng.normal(size=len(x)))
    return x, y.astype(np.float32), {"max_depth": 8, "min_child_weight": 16}


@model("epsilon", "binary:logistic", 100)
def _(np, rng):
    x = rng.normal(size=(20_000, 2000)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    score = x[:, :200] @ rng.normal(size=200)
    return x, flip(np, score, rng, 0.5 * score.std()), {"max_depth": 8, "min_child_weight": 0, "max_bin": 64}


@model("bosch", "binary:logistic", 100, missing=True)
def _(np, rng):
    x = (rng.normal(size=(30_000, 968)) * 0.2).astype(np.float32)
    score = mixed(np, x * 5, rng, 40)
    # Parts pass some stations only: groups of columns are missing together, and that says something.
    for first in range(0, 968, 22):
        gone = rng.random(len(x)) < 0.6
        x[gone, first : first + 22] = np.nan
        score += 0.4 * rng.normal() * gone
    y = (score + rng.normal(size=len(x)) > np.quantile(score, 0.97)).astype(np.float32)
    return x, y, {"max_depth": 8, "max_bin": 64}


def letters(np, rng):
    """16 whole numbers from 0 to 15 for each of 26 classes, three clusters a class."""
    y = rng.integers(0, 26, 20_000)
    centres = rng.uniform(2, 13, (26, 3, 16))
    x = centres[y, rng.integers(0, 3, len(y))] + 1.6 * rng.normal(size=(len(y), 16))
    return np.clip(np.rint(x), 0, 15).astype(np.float32), y.astype(np.float32), {"max_depth": 8}


model("letters", "multi:softprob", 40, classes=26)(letters)
model("letters-26000", "multi:softprob", 1000, classes=26)(letters)


@model("covtype", "multi:softprob", 60, classes=7)
def _(np, rng):
    rows = 30_000
    numbers = rng.normal(size=(rows, 10))
    area, soil = rng.integers(0, 4, rows), rng.zipf(1.4, rows) % 40
    score = mixed(np, numbers, rng) + rng.normal(size=4)[area] + rng.normal(size=40)[soil]
    numbers = np.rint(numbers * 200 + 1000)
    x = np.concatenate([numbers, np.eye(4)[area], np.eye(40)[soil]], axis=1).astype(np.float32)
    # Two large classes and five small ones.
    edges = np.quantile(score, [0.36, 0.85, 0.91, 0.915, 0.93, 0.965])
    y = np.searchsorted(edges, score + 0.3 * rng.normal(size=rows))
    return x, y.astype(np.float32), {"max_depth": 8, "min_child_weight": 30, "gamma": 2.0}


@model("thousand", "reg:squarederror", 1000)
def _(np, rng):
    x = rng.normal(size=(50_000, 8)).astype(np.float32)
    y = mixed(np, x, rng) + 0.3 * rng.normal(size=len(x))
    return x, y.astype(np.float32), {"max_depth": 6, "eta": 0.05}


def shape(booster):
    """Trees, their mean number of leaves, and the greatest depth."""
    trees = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    leaves, deepest = 0, 0
    for tree in trees:
        left, right = tree["left_children"], tree["right_children"]
        level, depth = [0], 0
        while level:
            deepest = max(deepest, depth)
            leaves += sum(left[n] < 0 for n in level)
            level = [c for n in level if left[n] >= 0 for c in (left[n], right[n])]
            depth += 1
    return len(trees), leaves / max(1, len(trees)), deepest


def found(folder, name):
    """The model's own folder in a folder of models."""
    if folder is None:
        return None
    for inner in (folder / name, folder / f"xgb-{name}"):
        if (inner / "rows.npy").is_file() and any((inner / f"model.{e}").is_file() for e in ("json", "ubj")):
            return inner
    return None


def real_letters(np, file):
    with open(file, newline="") as f:
        lines = list(csv.reader(f))[1:]
    y = np.array([ord(line[0]) - ord("A") for line in lines], dtype=np.float32)
    return np.array([line[1:] for line in lines], dtype=np.float32), y, {"max_depth": 8}


def make(np, xgb, name, out, zoo=None, quick=False, device="cpu", threads=0):
    """Makes one model, unless it is there; gives what meta.json says."""
    objective, rounds, draw, more = MODELS[name]
    # What it was made from; another wish makes it again.
    own = found(zoo, name)
    csv_file = zoo / "letter-recognition.csv" if zoo else None
    is_real_csv = name == "letters-26000" and own is None and csv_file is not None and csv_file.is_file()
    origin = f"{own.name} of a folder of models" if own else f"{'real' if is_real_csv else 'synthetic'} rows, seed {SEED}"
    folder = out / name
    meta_file = folder / "meta.json"
    if meta_file.is_file():
        meta = json.loads(meta_file.read_text())
        if meta["origin"] == origin and meta["quick"] == quick:
            return meta
    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    if own:
        rows = np.ascontiguousarray(np.load(own / "rows.npy"), dtype=np.float32)
        booster = xgb.Booster(model_file=next(own / f"model.{e}" for e in ("json", "ubj") if (own / f"model.{e}").is_file()))
    else:
        rng = np.random.default_rng(SEED)
        rows, labels, params = real_letters(np, csv_file) if is_real_csv else draw(np, rng)
        if quick:
            rows, labels, rounds = rows[:2000], labels[:2000], max(1, rounds // 10)
            if "classes" in more:
                labels[: more["classes"]] = np.arange(more["classes"])  # none goes missing
        # XGBoost numbers nodes level by level on any device; trees may differ between releases and devices.
        params = {"objective": objective, "tree_method": "hist", "seed": 7, "device": device, "verbosity": 1, **params}
        if threads:
            params["nthread"] = threads
        if "classes" in more:
            params["num_class"] = more["classes"]
        booster = xgb.train(params, xgb.DMatrix(rows, label=labels), rounds)
        rows = rows[: 1 << 16] if rows.shape[1] <= 128 else rows[:4096]
    booster.save_model(folder / "model.json")
    np.save(folder / "rows.npy", rows)
    trees, leaves, depth = shape(booster)
    meta = {
        "name": name,
        "origin": origin,
        "quick": quick,
        "objective": objective,
        "trees": trees,
        "leaves": round(leaves, 1),
        "depth": depth,
        "features": rows.shape[1],
        "rows": rows.shape[0],
        "missing": bool(np.isnan(rows).any()),
        "xgboost": xgb.__version__,
    }
    meta_file.write_text(json.dumps(meta, indent=1) + "\n")
    print(
        f"{name:14} {trees:6} trees of depth {depth} and {leaves:6.1f} leaves, {rows.shape[1]:5} columns, "
        f"{origin}, {time.perf_counter() - start:.0f} s",
        flush=True,
    )
    return meta


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=pathlib.Path, help="the folder to write to")
    parser.add_argument("--only", help=f"names, separated by commas, of {', '.join(MODELS)}")
    parser.add_argument("--models", type=pathlib.Path, metavar="DIR", help="a folder of models to use instead")
    parser.add_argument("--quick", action="store_true", help="a tenth of the trees on few rows")
    parser.add_argument("--device", default="cpu", help="where XGBoost trains, cpu or cuda (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=0, help="XGBoost's nthread (default: all)")
    args = parser.parse_args()
    names = args.only.split(",") if args.only else list(MODELS)
    unknown = [n for n in names if n not in MODELS]
    if unknown:
        parser.error(f"unknown model {unknown[0]}; the models are {', '.join(MODELS)}")
    if args.models and not args.models.is_dir():
        parser.error(f"{args.models} is not a folder")
    try:
        import numpy as np
        import xgboost as xgb
    except ImportError as error:
        sys.exit(f"{error}: install it with pip install xgboost numpy")
    for name in names:
        make(np, xgb, name, args.out, args.models, args.quick, args.device, args.threads)


if __name__ == "__main__":
    main()
