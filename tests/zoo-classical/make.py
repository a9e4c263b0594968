#!/usr/bin/env python3
"""Makes one model of each scikit-learn estimator that skl2onnx converts, with rows and what scikit-learn says of them.

    python3 tests/zoo-classical/make.py OUT [NAME ...]

Everything is seeded random numbers; no data set is involved. OUT gets a folder for each estimator, named after its
class, with `model.onnx`, `rows.npy` (texts: `rows.csv`, a column with a header), `output.npy` (what transform or predict
returns) and, for a classifier that has one, `proba.npy` or `decision.npy`. An estimator that can't be made is named with
the reason. Estimators are the classes that skl2onnx names in its table of converters, and pipelines that begin with
texts.

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
    "CountVectorizer": {"ngram_range": (1, 2), "token_pattern": "[a-z]+"},
    "FeatureHasher": {"n_features": 16, "input_type": "string"},
    "ReplaceTransformer": {"from_value": 1, "to_value": 9},
    "CastRegressor": {"estimator": None},
    "RandomTreesEmbedding": {"sparse_output": False},
}
SMALL = {"n_estimators": 8, "max_depth": 4, "random_state": 0}
# Data of another kind than numbers between -3 and 3.
POSITIVE = "MultinomialNB ComplementNB PoissonRegressor GammaRegressor TweedieRegressor NMF SelectKBest".split()
WHOLE = "CategoricalNB OneHotEncoder OrdinalEncoder".split()
LABELS = "LabelEncoder LabelBinarizer".split()
# What is converted for two classes alone.
BINARY = "GaussianProcessClassifier TargetEncoder TunedThresholdClassifierCV".split()
# What takes texts.
TEXTS = "CountVectorizer TfidfVectorizer FeatureHasher TextPipeline TokenPipeline".split()
WORDS = "red green blue cat dog bird runs sleeps eats fast slow The A Tree forest".split()
# Operators of ONNX that a converter asks for and that are newer than others need.
OPSETS = {"KNNImputer": 18}


def linear():
    import sklearn.linear_model

    return sklearn.linear_model


def tree():
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_depth=3, random_state=0)


def texts(random):
    """Sentences of a few words, some of them empty, and two classes."""
    sentences = [" ".join(random.choice(WORDS, random.randint(0, 9))) for _ in range(ROWS)]
    ends = random.choice(["", ".", "!", " 42"], ROWS)
    sentences = np.array([sentence + end for sentence, end in zip(sentences, ends)], dtype=object)
    classes = np.array([("cat" in text) + ("dog" in text) for text in sentences]).astype(np.int64)
    return sentences, classes


def data(name):
    """Rows, a regression's target and three classes."""
    random = np.random.RandomState(7)
    if name in TEXTS:
        x, classes = texts(random)
        return x, classes.astype(np.float32), classes
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
    if name in TEXTS:
        # A hasher takes a list of words for each row.
        return model.fit(x if name != "FeatureHasher" else [[text] for text in x], classes), x
    if name == "TfidfTransformer":
        counts = np.floor(np.abs(x))
        return model.fit(counts), counts
    if name in ("PLSRegression", "CCA", "PLSCanonical", "PLSSVD"):
        return model.fit(x, np.stack([y, np.cos(x[:, 3])], axis=1)), x
    if name == "CastRegressor":
        return model.fit(x, y), x
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
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType

    model, x = fitted(estimator)
    kinds = {"f": FloatTensorType, "i": Int64TensorType, "O": StringTensorType}
    kind = kinds[x.dtype.kind]
    shape = [None, x.shape[1]] if x.ndim == 2 else [None, 1] if x.dtype == object else [None]
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
    if rows.dtype == object:
        (folder / "rows.csv").write_text("text\n" + "".join(f'"{text}"\n' for text in rows))
        rows = [[text] for text in rows] if estimator.__name__ == "FeatureHasher" else rows
    else:
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


def pipelines():
    """Pipelines, by name; those of texts among them."""
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.pipeline import FeatureUnion, Pipeline

    def named(name, *steps):
        return type(name, (), {"__new__": lambda _: Pipeline(list(steps)), "__name__": name})

    found = {e.__name__: e for e in (ColumnTransformer, FeatureUnion, Pipeline)}
    text = named("TextPipeline", ("texts", TfidfVectorizer()), ("classes", linear().LogisticRegression()))
    counts = CountVectorizer(token_pattern="[a-z]+", ngram_range=(1, 2), binary=True)
    token = named("TokenPipeline", ("texts", counts), ("classes", tree()))
    return found | {"TextPipeline": text, "TokenPipeline": token}


def write_truths_as_integers():
    """skl2onnx writes lists of truth values for lists of integers, which protobuf takes no more."""
    import onnx.helper

    plain = onnx.helper.make_attribute

    def make_attribute(key, value, *others, **named):
        if isinstance(value, list) and any(isinstance(item, (bool, np.bool_)) for item in value):
            value = [int(item) for item in value]
        return plain(key, value, *others, **named)

    onnx.helper.make_attribute = make_attribute


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("name", nargs="*", help="only these estimators")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    from skl2onnx._supported_operators import sklearn_operator_name_map

    made = 0
    write_truths_as_integers()
    every = {estimator.__name__: estimator for estimator in sklearn_operator_name_map}
    every |= pipelines()
    for name, estimator in sorted(every.items()):
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
