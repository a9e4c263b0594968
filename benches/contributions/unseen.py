#!/usr/bin/env python3
"""Compares contributions and interactions by covers with the producer's own, on models that this script trains.

The zoo's models were there while Fangorn was written. These are not: --seed draws other data and so other models. They
cover what changes contributions: deep and lossguide trees, several trees a round, classes, categories, monotone
constraints, large offsets, stumps, linear leaves, oblivious and other trees of CatBoost. For each model the table shows
the largest difference from the producer's contributions and interactions, divided by the largest of them, and how far
the contributions of a row are from its margin, divided by the largest contribution, or by 1 if that is larger. LightGBM
computes no interactions. The status is 1 if a contribution differs by more than 1e-5, an interaction by more than 1e-4,
or a sum by more than 1e-5.

It needs numpy, xgboost, lightgbm and catboost.

Example:
  cargo build --release
  python3 benches/contributions/unseen.py --fangorn target/release/fangorn
  python3 benches/contributions/unseen.py --fangorn target/release/fangorn --seed 2
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROWS, COLUMNS, EXPLAINED, PAIRED = 3000, 9, 256, 16
MOST = {"contributions": 1e-5, "interactions": 1e-4, "sums": 1e-5}


def data(seed):
    """Rows with missing values and a column of whole numbers, and a target of products and steps."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    rows[random.random(rows.shape) < 0.08] = np.nan
    rows[:, 8] = random.integers(0, 40, ROWS)
    filled = np.nan_to_num(rows)
    target = filled[:, 0] * filled[:, 1] + np.abs(filled[:, 2]) + (filled[:, 8] % 7 > 3) * 1.5
    return rows, target + random.normal(size=ROWS) * 0.1


def models(rows, target, folder):
    """Trains models. Yields the name of each, its file, and functions for its producer's values."""
    import catboost
    import lightgbm
    import xgboost

    classes = np.digitize(target, [-0.5, 0.5, 1.5])
    kinds = ["q"] * (COLUMNS - 1) + ["c"]

    def of_xgboost(name, label=target, rounds=30, types=None, **options):
        matrix = xgboost.DMatrix(rows, label, nthread=1, feature_types=types, enable_categorical=types is not None)
        file = folder / f"{name}.ubj"
        xgboost.train({"nthread": 1, **options}, matrix, rounds).save_model(file)
        # What the file says, and not what training had in memory.
        booster = xgboost.Booster({"nthread": 1}, model_file=file)

        def predict(count, **what):
            some = xgboost.DMatrix(
                rows[:count], nthread=1, feature_types=types, enable_categorical=types is not None
            )
            return booster.predict(some, **what)

        return name, file, lambda n: predict(n, pred_contribs=True), lambda n: predict(n, pred_interactions=True)

    def of_lightgbm(name, label=target, rounds=30, categorical=(), **options):
        set_ = lightgbm.Dataset(rows.astype(float), label, categorical_feature=list(categorical))
        file = folder / f"{name}.txt"
        lightgbm.train({"num_threads": 1, "verbose": -1, **options}, set_, rounds).save_model(file)
        booster = lightgbm.Booster(model_file=file)
        explain = lambda n: booster.predict(rows[:n].astype(float), pred_contrib=True, num_threads=1)
        return name, file, explain, None

    def of_catboost(name, label=target, **options):
        model = catboost.CatBoost(
            {"iterations": 25, "thread_count": 1, "verbose": 0, "allow_writing_files": False, **options}
        )
        file = folder / f"{name}.json"
        model.fit(rows, label)
        model.save_model(str(file), format="json")
        # CatBoost explains trees that are not oblivious otherwise in memory than from its file, whose weights are the
        # numbers of training rows in the leaves.
        model = catboost.CatBoost()
        model.load_model(str(file), format="json")

        def importance(count, kind):
            return model.get_feature_importance(catboost.Pool(rows[:count]), type=kind, thread_count=1)

        return (
            name,
            file,
            lambda n: importance(n, "ShapValues"),
            lambda n: importance(n, "ShapInteractionValues"),
        )

    yield of_xgboost(
        "xgboost-monotone", tree_method="approx", monotone_constraints="(1,0,0,0,0,0,0,0,-1)", max_depth=7
    )
    yield of_xgboost(
        "xgboost-lossguide", rounds=5, grow_policy="lossguide", max_depth=0, max_leaves=300, min_child_weight=0
    )
    yield of_xgboost("xgboost-deep", rounds=10, base_score=3.0, max_depth=12, min_child_weight=0, reg_lambda=0)
    yield of_xgboost(
        "xgboost-forest", classes, 6, objective="multi:softmax", num_class=4, num_parallel_tree=3, subsample=0.5
    )
    yield of_xgboost("xgboost-offset", target + 1e5, base_score=1e5, max_depth=4)
    yield of_xgboost("xgboost-stump", rounds=1, max_depth=1)
    yield of_xgboost("xgboost-categories", types=kinds, max_depth=6, max_cat_to_onehot=2)
    yield of_lightgbm("lightgbm-categories", categorical=[8], min_data_per_group=5, num_leaves=60)
    yield of_lightgbm("lightgbm-classes", classes, objective="multiclassova", num_class=4)
    yield of_lightgbm("lightgbm-goss", data_sample_strategy="goss", extra_trees=True, num_leaves=127)
    yield of_lightgbm("lightgbm-cross-entropy", (target > 1) * 0.8 + 0.1, objective="cross_entropy")
    yield of_catboost("catboost-depth-10", depth=10)
    yield of_catboost("catboost-classes", classes, loss_function="MultiClass", depth=5)
    yield of_catboost("catboost-lossguide", grow_policy="Lossguide", max_leaves=40)
    yield of_catboost(
        "catboost-weights", (target > 1).astype(int), loss_function="Logloss", auto_class_weights="Balanced", depth=4
    )


def ours(fangorn, file, rows, output, folder):
    source, out = folder / "rows.npy", folder / "out.npy"
    np.save(source, rows)
    arguments = [fangorn, "predict", file, "--rows", source, "--output", output, "-o", out]
    subprocess.run(list(map(str, arguments)), check=True)
    return np.load(out).astype(float)


def difference(found, expected):
    """The largest difference, divided by the largest expected value."""
    expected = np.asarray(expected, dtype=float)
    found = found.reshape(expected.shape)
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def between_features(values):
    """Interactions without those of the bias, which CatBoost puts in other places."""
    values = values.reshape(-1, COLUMNS + 1, COLUMNS + 1)
    return values[:, :COLUMNS, :COLUMNS]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fangorn", required=True, help="the command line, for example target/release/fangorn")
    parser.add_argument("--seed", type=int, default=1, help="draws the data")
    arguments = parser.parse_args()
    rows, target = data(arguments.seed)
    worst = dict.fromkeys(MOST, 0.0)
    print(f"{'model':<24} {'contributions':>14} {'interactions':>14} {'sums':>10}")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, file, explain, pair in models(rows, target, folder):
            some = rows[:EXPLAINED]
            found = ours(arguments.fangorn, file, some, "contributions", folder)
            margins = ours(arguments.fangorn, file, some, "margin", folder)
            sums = found.reshape(EXPLAINED, -1, COLUMNS + 1).sum(2)
            off = {
                "contributions": difference(found, explain(EXPLAINED)),
                "sums": float(np.abs(sums - margins.reshape(sums.shape)).max() / max(1.0, np.abs(found).max())),
            }
            if pair is not None:
                found = ours(arguments.fangorn, file, rows[:PAIRED], "interactions", folder)
                off["interactions"] = difference(
                    between_features(found), between_features(np.asarray(pair(PAIRED), dtype=float))
                )
            worst = {what: max(worst[what], off.get(what, 0.0)) for what in worst}
            pairs = f"{off['interactions']:14.1e}" if "interactions" in off else f"{'-':>14}"
            print(f"{name:<24} {off['contributions']:14.1e} {pairs} {off['sums']:10.1e}", flush=True)
    print(f"{'largest':<24} {worst['contributions']:14.1e} {worst['interactions']:14.1e} {worst['sums']:10.1e}")
    return int(any(worst[what] > most for what, most in MOST.items()))


if __name__ == "__main__":
    sys.exit(main())
