#!/usr/bin/env python3
"""Trains the 14 algorithms of CMLCompiler's tables 5 and 6 on rows of YearPrediction's shape, for run.py.

Everything is seeded random numbers; no data set is involved. A folder for each algorithm gets `model.onnx` (by
skl2onnx) and `model.joblib` (scikit-learn's estimator), and `intelex.joblib` where scikit-learn-intelex has an
estimator of its own. `expected.npy` is what scikit-learn says of the rows of `sample.npy`, the first of `rows.npy`.
"""

import argparse
import importlib
import pathlib
import sys
import time
import warnings

import numpy as np

ROWS, COLUMNS, TRAINED, SAMPLE = 103_063, 90, 20_000, 2000
FACTORS = 20
YEARS = np.array([1922, *range(1924, 2012)])  # those of the data set: 1923 is not there
# A leaf has weights for many of 89 classes in an ONNX file: forests without this limit take more than a gigabyte.
DEPTH = 10

TRANSFORMERS = "Binarizer Normalizer MinMaxScaler RobustScaler".split()
# Algorithm -> the module of scikit-learn it is in, and the options that aren't the default ones. A linear model costs the
# same to predict after few iterations as after many.
ALGORITHMS = {
    "Binarizer": ("preprocessing", {}),
    "Normalizer": ("preprocessing", {}),
    "MinMaxScaler": ("preprocessing", {}),
    "RobustScaler": ("preprocessing", {}),
    "LinearRegression": ("linear_model", {}),
    "LogisticRegression": ("linear_model", {}),
    "SGDClassifier": ("linear_model", {"random_state": 0, "max_iter": 50}),
    "DecisionTreeClassifier": ("tree", {"random_state": 0}),
    "DecisionTreeRegressor": ("tree", {"random_state": 0}),
    "RandomForestClassifier": ("ensemble", {"random_state": 0, "max_depth": DEPTH}),
    "ExtraTreeClassifier": ("tree", {"random_state": 0}),
    "ExtraTreesClassifier": ("ensemble", {"random_state": 0, "max_depth": DEPTH}),
    "LinearSVC": ("svm", {"random_state": 0, "max_iter": 2}),
    "LinearSVR": ("svm", {"random_state": 0}),
}


def data(count, seed):
    """Rows and years: columns are mixed of a few factors, each has its own scale, and recent years are frequent."""
    mix = np.random.RandomState(7)
    weights = mix.normal(size=(FACTORS, COLUMNS)) / np.sqrt(FACTORS)
    # As of timbres: 12 averages, and 78 covariances, which are wider and have long tails.
    scale = np.concatenate([mix.uniform(5, 50, 12), np.exp(mix.uniform(np.log(20), np.log(2000), 78))])
    offset = np.concatenate([mix.uniform(-10, 45, 12), scale[12:] * mix.uniform(-0.3, 0.3, 78)])
    taste = mix.normal(size=FACTORS)
    random = np.random.RandomState(seed)
    factors = random.normal(size=(count, FACTORS))
    rows = factors @ weights + 0.6 * random.normal(size=(count, COLUMNS))
    rows[:, 12:] = np.sinh(rows[:, 12:])
    rows = rows * scale + offset
    # The year's quantile follows the factors, bent, and mostly chance.
    signal = np.tanh(factors) @ taste + 0.5 * factors[:, 0] * factors[:, 1]
    score = 0.5 * signal / signal.std() + np.sqrt(0.75) * random.normal(size=count)
    quantile = (np.argsort(np.argsort(score)) + 0.5) / count
    frequent = np.where(YEARS <= 2007, np.exp((YEARS - 2007) / 11), np.exp((2007 - YEARS) / 2))
    years = YEARS[np.searchsorted(np.cumsum(frequent) / frequent.sum(), quantile)]
    return np.ascontiguousarray(rows, dtype=np.float32), years.astype(np.int64)


def estimator(name, package="sklearn"):
    module, options = ALGORITHMS[name]
    return getattr(importlib.import_module(f"{package}.{module}"), name)(**options)


def write(folder, name, rows, years, sample):
    """Trains and saves one algorithm. Yields what is done, in a few words."""
    import joblib
    from skl2onnx import to_onnx
    from sklearn.base import is_classifier

    folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    model = estimator(name).fit(rows, None if name in TRANSFORMERS else years)
    yield f"trained in {time.perf_counter() - begin:.0f} s"
    joblib.dump(model, folder / "model.joblib")
    np.save(folder / "expected.npy", model.transform(sample) if name in TRANSFORMERS else model.predict(sample))
    # ZipMap makes maps of probabilities, which no tensor holds. LinearSVC's converter has none.
    options = {id(model): {"zipmap": False}} if is_classifier(model) and name != "LinearSVC" else None
    graph = to_onnx(model, rows[:1], options=options, target_opset={"": 17, "ai.onnx.ml": 3})
    (folder / "model.onnx").write_bytes(graph.SerializeToString())
    yield f"model.onnx has {(folder / 'model.onnx').stat().st_size / 2**20:.1f} MiB"
    try:
        theirs = estimator(name, "sklearnex")
    except (ImportError, AttributeError):
        return
    begin = time.perf_counter()
    joblib.dump(theirs.fit(rows, years), folder / "intelex.joblib")
    yield f"scikit-learn-intelex trained its own in {time.perf_counter() - begin:.0f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", help="algorithms, separated by commas (default: all)")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    args.out.mkdir(parents=True, exist_ok=True)
    rows, years = data(TRAINED, 1)
    predicted = data(ROWS, 2)[0]
    np.save(args.out / "rows.npy", predicted)
    np.save(args.out / "sample.npy", predicted[:SAMPLE])
    failed = False
    for name in args.only.split(",") if args.only else ALGORITHMS:
        try:
            for said in write(args.out / name, name, rows, years, predicted[:SAMPLE]):
                print(f"{name}: {said}", file=sys.stderr, flush=True)
        except Exception as error:  # one algorithm that can't be made should not end all
            failed = True
            print(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
