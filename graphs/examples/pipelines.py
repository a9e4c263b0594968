#!/usr/bin/env python3
"""Data for the example pipelines, and what is not trained with burn.

  python3 pipelines.py data NAME FOLDER     rows and labels, seeded: rows-train.npy, labels-train.npy and -test
  python3 pipelines.py forest NAME FOLDER   a forest, on features-train.npy of the network, or on the rows

NAME is text, deep_hybrid or click_through. --quick makes little of everything, for trying things out. The examples run
this script themselves; requirements.txt beside it says what it needs.
"""

import argparse
import pathlib
import sys

try:
    import joblib
    import numpy as np
except ImportError as error:
    sys.exit(f"pipelines.py: {error}; pip install -r {pathlib.Path(__file__).with_name('requirements.txt')}")

SEED = 7
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def text(rng, quick):
    """Sentences of 32 tokens, the first a class token. Of the 4000 tokens, those with low numbers are frequent. Some
    praise, some blame, and a token after a negation counts as its opposite. The label is 1 if praise prevails."""
    rows, length, vocabulary = 1500 if quick else 7500, 32, 4000
    weights = 1 / np.arange(10, vocabulary - 1 + 10)
    tokens = rng.choice(np.arange(1, vocabulary), size=(rows, length), p=weights / weights.sum())
    tokens[:, 0] = 0
    says = np.zeros(vocabulary, int)
    told = rng.permutation(np.arange(20, vocabulary))
    says[told[:900]], says[told[900:1800]] = 1, -1
    negations = np.isin(tokens, rng.choice(np.arange(1, 20), 4, replace=False))
    said = says[tokens]
    said[:, 1:][negations[:, :-1]] *= -1
    sums = said.sum(1)
    clear = sums != 0
    return tokens[clear].astype(np.int32), (sums[clear] > 0).astype(np.int32)


def deep_hybrid(rng, quick):
    """The handwritten digits that come with scikit-learn: 8 x 8 pixels, ten classes."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(labels))[: 600 if quick else None]
    return (images[order] / 16).astype(np.float32), labels[order].astype(np.int32)


def click_through(rng, quick):
    """Eight numbers and four ids of a click, the ids numbered through all columns."""
    rows, kinds = 4000 if quick else 40000, (20, 80, 300, 600)
    numbers = rng.normal(size=(rows, 8))
    numbers[:, 4:] = np.exp(0.5 * numbers[:, 4:])
    ids = np.stack([(kind * rng.random(rows) ** 2).astype(int) for kind in kinds], 1)
    tastes = [rng.normal(size=kind) for kind in kinds]
    logit = sum(taste[ids[:, column]] for column, taste in enumerate(tastes)) * 0.6
    logit += numbers[:, 0] * numbers[:, 1] + np.where(numbers[:, 2] > 0.5, 1.5, -0.5) * (numbers[:, 4] > 1) - 1.5
    ids += np.concatenate([[0], np.cumsum(kinds)[:-1]])
    labels = rng.random(rows) < 1 / (1 + np.exp(-logit))
    return np.hstack([numbers, ids]).astype(np.float32), labels.astype(np.int32)


DATA = {"text": text, "deep_hybrid": deep_hybrid, "click_through": click_through}


def data(name, out, quick):
    rows, labels = DATA[name](np.random.default_rng(SEED), quick)
    held = len(rows) // 5
    for kind, some in (("test", slice(held)), ("train", slice(held, None))):
        np.save(out / f"rows-{kind}.npy", rows[some])
        np.save(out / f"labels-{kind}.npy", labels[some])
    print(f"data: {len(rows) - held} rows to train on, {held} to test with, {rows.shape[1]} columns")


def forest(name, out, quick):
    labels = np.load(out / "labels-train.npy")
    trees = 20 if quick else 100
    if name == "deep_hybrid":
        from sklearn.ensemble import RandomForestClassifier

        sys.path.insert(0, str(ROOT / "scripts"))
        from export_sklearn import export

        features = np.load(out / "features-train.npy")
        fitted = RandomForestClassifier(trees, random_state=SEED).fit(features, labels)
        joblib.dump(fitted, out / "model.joblib")
        export(fitted, out / "model.npz")
        return print(f"forest: scikit-learn, {trees} trees on {features.shape[1]} features")
    from xgboost import XGBClassifier

    if name == "text":
        from sklearn.linear_model import LogisticRegression

        features = np.load(out / "features-train.npy")
        fitted = LogisticRegression(max_iter=2000).fit(features, labels)
        joblib.dump(fitted, out / "regression.joblib")
        np.save(out / "regression-weight.npy", np.ascontiguousarray(fitted.coef_.T, np.float32))
        np.save(out / "regression-bias.npy", fitted.intercept_.astype(np.float32))
        rows, depth = features, 4
    else:
        rows, depth = np.load(out / "rows-train.npy"), 6
    fitted = XGBClassifier(n_estimators=trees, max_depth=depth, learning_rate=0.1, random_state=SEED)
    fitted.fit(rows, labels).save_model(out / "model.ubj")
    print(f"forest: XGBoost, {trees} trees on {rows.shape[1]} columns")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["data", "forest"])
    parser.add_argument("name", choices=DATA)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="little of everything")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    {"data": data, "forest": forest}[args.what](args.name, args.folder, args.quick)


if __name__ == "__main__":
    main()
