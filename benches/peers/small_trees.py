"""Trains what `fangorn-benches matrices` is measured on: 100 trees of depth 1 to 4 on seeded rows of 28 columns.

    python small_trees.py OUT
"""

import pathlib
import sys

import numpy
import xgboost


def main(out: pathlib.Path) -> None:
    random = numpy.random.default_rng(7)
    rows = random.normal(size=(20_000, 28)).astype(numpy.float32)
    target = numpy.sin(rows[:, 0] * 3) + rows[:, 1] * rows[:, 2] + (rows[:, 3] > 0.5) * rows[:, 4]
    out.mkdir(parents=True, exist_ok=True)
    numpy.save(out / "rows.npy", rows[:4096])
    for depth in range(1, 5):
        model = xgboost.XGBRegressor(n_estimators=100, max_depth=depth, learning_rate=0.1, n_jobs=2, seed=7)
        model.fit(rows, target)
        model.get_booster().save_model(out / f"depth-{depth}.ubj")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: small_trees.py OUT")
    main(pathlib.Path(sys.argv[1]))
