#!/usr/bin/env python3
"""Time calls of the Python package beside the same predictions in Rust, and beside XGBoost's inplace_predict.

Measurements come in pairs, one after the other, in turns; the medians of the times, of the differences and of the ratios
are printed. They are many and short, so that most of them run undisturbed on a machine that does other things, too. All
predict on one thread unless --threads says otherwise. Needs the package fangorn, numpy and xgboost.

Example:
  benches/python/run.py                            models of the zoo
  benches/python/run.py model.ubj --batch 1,4096 --json
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import numpy

ZOO = pathlib.Path(__file__).resolve().parents[2] / "tests/zoo"
MODELS = ["churn", "softprob", "deep-lossguide"]


def seconds_of(call, calls):
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - start


def calls_for(call, seconds):
    """How many calls take about so long."""
    calls = 1
    while (took := seconds_of(call, calls)) < seconds / 2:
        calls = max(calls * 2, int(calls * seconds / max(took, 1e-9) / 2))
    return calls


def measure(path, rows, options):
    import fangorn
    import xgboost

    model = fangorn.load(path, threads=options.threads)
    booster = xgboost.Booster(model_file=str(path))
    booster.set_param({"nthread": options.threads})
    ours = lambda: model.predict(rows)  # noqa: E731
    theirs = lambda: booster.inplace_predict(rows, validate_features=False)  # noqa: E731
    assert numpy.allclose(ours(), theirs(), atol=1e-5)
    count, their_count = calls_for(ours, options.seconds), calls_for(theirs, options.seconds)
    native, python, peer, over = [], [], [], []
    for _ in range(options.pairs):
        native.append(model._seconds(rows, count) / count)
        python.append(seconds_of(ours, count) / count)
        # The same once more in the other order, so that whatever rises or falls meets both.
        again = seconds_of(ours, count) / count
        native_again = model._seconds(rows, count) / count
        over += [python[-1] - native[-1], again - native_again]
        peer.append(seconds_of(theirs, their_count) / their_count)
    median = statistics.median
    return {
        "model": path.parent.name if path.is_relative_to(ZOO) else str(path),
        "rows": len(rows),
        "native_us": median(native) * 1e6,
        "python_us": median(python) * 1e6,
        "call_us": median(over) * 1e6,
        "over_native": median(over) / median(native),
        "xgboost_us": median(peer) * 1e6,
        "times_faster": median(p / o for p, o in zip(peer, python)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=pathlib.Path, help="model files of XGBoost; by default some of the zoo's")
    parser.add_argument("--batch", default="1,64,4096", help="numbers of rows (%(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=201, help="pairs of measurements (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0.002, help="how long a measurement takes (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each measurement")
    options = parser.parse_args()
    models = options.models or [ZOO / name / "model.ubj" for name in MODELS]
    if not options.json:
        print(f"{'model':16} {'rows':>6} {'Rust':>10} {'Python':>10} {'the call':>10} {'over':>7} {'XGBoost':>11} {'times':>7}")
    for path in models:
        import fangorn

        columns = fangorn.load(path, threads=1).n_features
        known = path.parent / "rows.npy"
        random = numpy.random.default_rng(0)
        for batch in map(int, options.batch.split(",")):
            rows = numpy.resize(numpy.load(known), (batch, columns)) if known.exists() else random.normal(size=(batch, columns))
            rows = numpy.ascontiguousarray(rows, numpy.float32)
            found = measure(path, rows, options)
            if options.json:
                print(json.dumps(found))
            else:
                print(
                    f"{found['model']:16} {batch:6} {found['native_us']:7.2f} µs {found['python_us']:7.2f} µs "
                    f"{found['call_us']:7.2f} µs {found['over_native']:6.1%} {found['xgboost_us']:8.2f} µs "
                    f"{found['times_faster']:6.1f}x"
                )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
