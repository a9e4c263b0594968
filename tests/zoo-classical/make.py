#!/usr/bin/env python3
"""Makes one model of each scikit-learn estimator that skl2onnx converts, with rows and what scikit-learn says of them.

    python3 tests/zoo-classical/make.py OUT [NAME ...]

Everything is seeded random numbers; no data set is involved. OUT gets a folder for each estimator, named after its
class, with `model.onnx`, `rows.npy`, `output.npy` (what transform or predict returns) and, for a classifier that has
one, `proba.npy` or `decision.npy`. An estimator that can't be made is named with the reason.

The models in this folder were made by this script with scikit-learn 1.9.1, skl2onnx 1.20.0 and onnx 1.23.2. Needs
these and numpy.
"""

import argparse
import pathlib
import sys
import warnings

import numpy as np

ROWS, COLUMNS, KEPT = 240, 6, 40

# What an estimator asks for besides rows: one inside it, or options that are not the default ones.
INNER = {
    "estimator": lambda: linear().LogisticRegression(max_iter=500),
    "estimators": lambda: [("a", linear().LogisticRegression(max_iter=500)), ("b", tree())],
    "regressor": lambda: linear().LinearRegression(),
}
OPTIONS = {
    "CalibratedClassifierCV": {"cv": 3},
    "ColumnTransformer": {"transformers": None},
    "FunctionTransformer": {},
    "KBinsDiscretizer": {"encode": "ordinal", "n_bins": 4},
    "SVC": {"probability": True},
    "PolynomialFeatures": {"degree": 3},
    "MLPClassifier": {"max_iter": 150},
    "MLPRegressor": {"max_iter": 150},
    "OneHotEncoder": {"handle_unknown": "ignore", "sparse_output": False},
    "OrdinalEncoder": {},
    "TruncatedSVD": {"n_components": 3},
    "PCA": {"n_components": 3},
    "IncrementalPCA": {"n_components": 3},
    "KernelPCA": {"n_components": 3, "kernel": "rbf"},
    "SelectKBest": {"k": 3},
    "SelectFromModel": {"estimator": None},
    "RFE": {"estimator": None},
    "RFECV": {"estimator": None},
    "GaussianRandomProjection": {"n_components": 3},
    "SelectPercentile": {"percentile": 50},
    "GenericUnivariateSelect": {"mode": "k_best", "param": 3},
    "GridSearchCV": {"param_grid": {"C": [0.1, 1.0]}},
    "LocalOutlierFactor": {"novelty": True},
    "VotingClassifier": {"voting": "soft", "flatten_transform": False},
    "HistGradientBoostingClassifier": {"max_iter": 10},
    "HistGradientBoostingRegressor": {"max_iter": 10},
}
SMALL = {"n_estimators": 8, "max_depth": 4, "random_state": 0}
# Data of another kind than numbers between -3 and 3.
POSITIVE = "MultinomialNB ComplementNB PoissonRegressor GammaRegressor TweedieRegressor NMF SelectKBest".split()
WHOLE = "CategoricalNB OneHotEncoder OrdinalEncoder".split()
LABELS = "LabelEncoder LabelBinarizer".split()
# What is converted for two classes alone.
BINARY = "GaussianProcessClassifier TargetEncoder TunedThresholdClassifierCV".split()
# Operators of ONNX that a converter asks for and that are newer than others need.
OPSETS = {"KNNImputer": 18}


def linear():
    import sklearn.linear_model

    return sklearn.linear_model


def tree():
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_depth=3, random_state=0)


def data(name):
    """Rows, a regression's target and three classes."""
    random = np.random.RandomState(7)
    x = random.uniform(-3, 3, (ROWS, COLUMNS)).astype(np.float32)
    if name in POSITIVE:
        x = np.abs(x)
    if name in WHOLE:
        x = random.randint(0, 4, (ROWS, 3)).astype(np.int64)
    y = (x[:, 0] * 1.5 - x[:, 1] + np.sin(x[:, 2]) + 0.1 * random.normal(size=ROWS)).astype(np.float32)
    if name in POSITIVE:
        y = np.abs(y) + 0.1
    if name == "KNNImputer":
        x[random.uniform(size=x.shape) < 0.1] = np.nan
    cuts = [0.5] if name in BINARY else [0.3, 0.7]
    return x, y, np.digitize(y, np.quantile(y, cuts)).astype(np.int64)


def make(estimator):
    """An instance with options."""
    import inspect

    name = estimator.__name__
    wanted = inspect.signature(estimator.__init__).parameters
    options = {key: value for key, value in SMALL.items() if key in wanted}
    options.update(OPTIONS.get(name, {}))
    regression = name.endswith(("Regressor", "RegressorChain", "RegressorCV"))
    for key, inner in INNER.items():
        if key in wanted and options.get(key) is None and (wanted[key].default is wanted[key].empty or key in options):
            options[key] = inner()
            if regression and key != "regressor":
                one = linear().LinearRegression()
                options[key] = [("a", one), ("b", linear().Ridge())] if key == "estimators" else one
    if name in ("GridSearchCV", "TunedThresholdClassifierCV"):
        options["estimator"] = linear().LogisticRegression(max_iter=500)
    if name == "ColumnTransformer":
        from sklearn.preprocessing import MinMaxScaler, StandardScaler

        options["transformers"] = [("a", StandardScaler(), [0, 2]), ("b", MinMaxScaler(), [1, 4])]
    if name == "FeatureUnion":
        from sklearn.preprocessing import MinMaxScaler, StandardScaler

        return estimator([("a", StandardScaler()), ("b", MinMaxScaler())])
    if name == "Pipeline":
        from sklearn.preprocessing import StandardScaler

        return estimator([("a", StandardScaler()), ("b", linear().LogisticRegression(max_iter=500))])
    return estimator(**options)


def fitted(estimator):
    """The estimator, fitted, and the rows to predict."""
    from sklearn.base import is_classifier

    name = estimator.__name__
    model = make(estimator)
    x, y, classes = data(name)
    if name in LABELS:
        model.fit(classes)
        return model, classes
    if name in ("MultiOutputRegressor", "RegressorChain") or name.startswith("MultiTask"):
        return model.fit(x, np.stack([y, -y], axis=1)), x
    if name in ("MultiOutputClassifier", "ClassifierChain"):
        return model.fit(x, np.stack([classes > 0, classes > 1], axis=1).astype(np.int64)), x
    if name == "KernelCenterer":
        kernel = x @ x.T
        return model.fit(kernel), kernel
    if name == "TargetEncoder":
        whole = np.floor(x).astype(np.int64)
        return model.fit(whole, classes), whole
    if name == "IsotonicRegression":
        return model.fit(x[:, :1], y), x[:, :1]
    target = classes if is_classifier(model) or not hasattr(model, "predict") else y
    if "Discriminant" in name or "SGDOneClass" in name:
        target = classes
    return model.fit(x, target), x


def write(out, estimator):
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType

    model, x = fitted(estimator)
    kind = FloatTensorType if x.dtype == np.float32 else Int64TensorType
    shape = [None, x.shape[1]] if x.ndim == 2 else [None]
    # ZipMap makes maps of probabilities, which no tensor holds.
    options = {id(model): {"zipmap": False}} if hasattr(model, "predict_proba") else None
    opset = {"": OPSETS.get(estimator.__name__, 17), "ai.onnx.ml": 3}
    try:
        graph = to_onnx(model, initial_types=[("X", kind(shape))], options=options, target_opset=opset)
    except NameError:
        graph = to_onnx(model, initial_types=[("X", kind(shape))], target_opset=opset)
    rows = x[:KEPT]
    folder = out / estimator.__name__
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(graph.SerializeToString())
    np.save(folder / "rows.npy", rows)
    # A selector with an estimator inside predicts as well; its graph selects.
    selects = hasattr(model, "get_support")
    predicted = model.predict(rows) if hasattr(model, "predict") and not selects else model.transform(rows)
    predicted = predicted.toarray() if hasattr(predicted, "toarray") else predicted
    np.save(folder / "output.npy", np.asarray(predicted))
    for way, file in (("predict_proba", "proba"), ("decision_function", "decision")):
        if not selects and getattr(model, "classes_", None) is not None and hasattr(model, way):
            values = getattr(model, way)(rows)
            if isinstance(values, np.ndarray):
                np.save(folder / f"{file}.npy", values)
            break


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("name", nargs="*", help="only these estimators")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    import skl2onnx
    from sklearn.utils import all_estimators

    supported = {name.removeprefix("Sklearn") for name in skl2onnx.supported_converters(from_sklearn=True)}
    made = 0
    every = [(name, estimator) for name, estimator in all_estimators() if name in supported]
    from sklearn.pipeline import FeatureUnion, Pipeline

    every += [(e.__name__, e) for e in (FeatureUnion, Pipeline) if e.__name__ not in dict(every)]
    for name, estimator in every:
        if arguments.name and name not in arguments.name:
            continue
        try:
            write(arguments.out, estimator)
            made += 1
        except Exception as error:  # one estimator that can't be made should not end all
            print(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:140]}", file=sys.stderr)
    print(f"{made} models in {arguments.out}")


if __name__ == "__main__":
    main()
