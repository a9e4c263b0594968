#!/usr/bin/env python3
"""Measure XGBoost's own prediction, `inplace_predict(..., predict_type="margin")`.

Each call predicts the next batch of a pool of at least 16 384 rows: those of
the file first, and then the same again with a seeded jitter of one part in
1000. So no branch predictor learns the rows. CPU time is that of the calling
thread, so it is the whole cost only with --threads 1. The cost of the call
from Python is part of each figure; at a batch of 1 it is most of it.

Needs xgboost and numpy.

Example:
  python3 benches/peers/xgboost_inplace.py \\
      --model tests/zoo/churn/model.ubj --rows tests/zoo/churn/rows.npy \\
      --batch 1,64,4096 --threads 1 --json
"""

import argparse
import itertools
import json
import statistics
import sys
import time


# Rows that calls go through at least. A branch predictor remembers some hundreds of rows that come again and again.
POOL = 16384


def batches_of_pool(batch):
    """How many batches a pool has."""
    return max(1, -(-POOL // batch))


def rows_of_pool(np, rows, size, kinds, seed):
    """`size` rows: those given, and then the same again, each number off by at most one part in 1000."""
    rng = np.random.RandomState(seed)
    batch = rows[np.arange(size) % len(rows)].astype(np.float32)
    jitter = 1 + rng.uniform(-1e-3, 1e-3, batch.shape).astype(np.float32)
    jitter[: len(rows)] = 1
    for feature, kind in enumerate(kinds or []):
        if kind == "c":  # a category's code stays what it is
            jitter[:, feature] = 1
    with np.errstate(over="ignore"):
        moved = batch * jitter
    # The largest finite values stay finite.
    return np.ascontiguousarray(np.where(np.isfinite(batch) & np.isinf(moved), batch, moved), dtype=np.float32)


def measure(np, booster, pool, size, seconds, least):
    turn = itertools.cycle([pool[first : first + size] for first in range(0, len(pool), size)])

    def call():
        return booster.inplace_predict(next(turn), predict_type="margin", missing=np.nan, validate_features=False)

    until = time.perf_counter() + min(0.3, seconds / 3)
    call()
    while time.perf_counter() < until:
        call()
    wall, cpu = [], []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(wall) < least:
        w, c = time.perf_counter_ns(), time.thread_time_ns()
        call()
        c, w = time.thread_time_ns() - c, time.perf_counter_ns() - w
        wall.append(w / 1e3 / size)
        cpu.append(c / 1e3 / size)
    return {
        "batch": size,
        "calls": len(wall),
        "cpu_us_per_row_min": round(min(cpu), 5),
        "cpu_us_per_row_median": round(statistics.median(cpu), 5),
        "wall_us_per_row_min": round(min(wall), 5),
        "wall_us_per_row_median": round(statistics.median(wall), 5),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a model saved by XGBoost, .json or .ubj")
    parser.add_argument("--rows", required=True, help="float32 rows x features, .npy; NaN is missing")
    parser.add_argument("--batch", default="1,64,4096", help="batch sizes, separated by commas (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="XGBoost's nthread (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each batch size (default: %(default)s)")
    parser.add_argument("--calls", type=int, default=20, help="at least so many calls a batch size (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the jitter (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    try:
        sizes = [int(b) for b in args.batch.split(",") if b]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1 or args.threads < 1:
        parser.error("batch sizes and threads are whole numbers from 1")
    try:
        import numpy as np
        import xgboost as xgb
    except ImportError as error:
        sys.exit(f"{error}: install it with pip install xgboost numpy")

    booster = xgb.Booster({"nthread": args.threads}, model_file=args.model)
    booster.set_param({"nthread": args.threads})
    rows = np.load(args.rows)
    if rows.ndim != 2 or rows.shape[1] != booster.num_features():
        sys.exit(f"the model has {booster.num_features()} features, the rows are of shape {rows.shape}")
    results = []
    for size in sizes:
        pool = rows_of_pool(np, rows, size * batches_of_pool(size), booster.feature_types, args.seed)
        results.append(measure(np, booster, pool, size, args.seconds, args.calls))
    if args.json:
        print(json.dumps({"library": "xgboost", "version": xgb.__version__, "threads": args.threads, "results": results}))
        return
    print(f"xgboost {xgb.__version__}, {args.threads} thread(s), microseconds a row")
    print(f"{'batch':>8} {'cpu min':>10} {'cpu median':>10} {'wall min':>10} {'wall median':>11}")
    for r in results:
        print(
            f"{r['batch']:>8} {r['cpu_us_per_row_min']:>10.4f} {r['cpu_us_per_row_median']:>10.4f} "
            f"{r['wall_us_per_row_min']:>10.4f} {r['wall_us_per_row_median']:>11.4f}"
        )


if __name__ == "__main__":
    main()
