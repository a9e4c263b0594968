#!/usr/bin/env python3
"""Fits the costs of estimates (`Ways` in src/cost) to times.

    cargo run --release -p fangorn-benches -- synthetic random.jsonl
    python3 benches/experiments/fit_estimates.py random.jsonl

An estimate is a sum of counts, each multiplied by a cost. Every line of a file of records has the counts and the
time of one schedule for one batch. `fangorn-benches synthetic` writes records of random models, and
`fangorn tune --records FILE.jsonl` those of a model at hand; give several files to fit them together.

Of the schedules that evaluate a batch of a model in the same way, the fastest counts. A call takes some time besides
the terms, which is fitted for each way and left out. The squares of relative errors are least. Prints the costs of
this version's estimates with their errors beside the fitted ones, how much slower than the fastest way the choices
by either are, and the fitted costs as Rust.

Needs numpy and scipy.
"""

import argparse
import collections
import json
import math
import sys

# Batches of fewer rows go through engines for a few rows, so they say nothing of these ways.
MANY_ROWS = 64
ROW_BY_ROW = "walks row by row"


def read(paths):
    """The records of ways on one thread, by instruction set, and in it by model, rows and way: the fastest."""
    found = collections.defaultdict(dict)
    for path in paths:
        with open(path) as lines:
            for number, line in enumerate(lines, 1):
                try:
                    record = json.loads(line)
                    key = record["model"], record["rows"], record["way"]
                    if record["way"] is None or record["threads"] != 1 or record["seconds"] <= 0:
                        continue
                    best = found[record["instructions"]]
                    if key not in best or record["seconds"] < best[key]["seconds"]:
                        best[key] = record
                except (ValueError, KeyError, TypeError) as error:
                    sys.exit(f"{path}:{number}: not a record: {error}; `fangorn tune --records` writes records")
    return found


def fit(np, nnls, records):
    """The costs by name. Each way has a time of a call besides, which is not returned."""
    names = sorted({name for record in records for name in record["terms"]})
    ways = sorted({record["way"] for record in records})
    counts = np.zeros((len(records), len(names) + len(ways)))
    for row, record in zip(counts, records):
        for name, count in record["terms"].items():
            row[names.index(name)] = count
        row[len(names) + ways.index(record["way"])] = 1
    seconds = np.array([record["seconds"] for record in records])
    # Weights by the time, and then by the mean of time and estimate, so that errors in both directions weigh alike.
    weights = 1 / seconds
    for _ in range(10):
        costs, _ = nnls(counts * weights[:, None], seconds * weights)
        weights = 1 / np.sqrt(np.maximum(counts @ costs, 1e-3 * seconds) * seconds)
    return dict(zip(names, costs.tolist()))


def estimate(costs, record):
    return sum(costs[name] * count for name, count in record["terms"].items())


def spread(np, errors):
    """A mean and a spread of ratios."""
    logs = np.log(errors)
    return math.exp(logs.mean()), math.exp(logs.std())


def regret(np, records, seconds_of):
    """How many times the fastest way's time the way with the least estimate takes: the mean and the most."""
    batches = collections.defaultdict(list)
    for record in records:
        if record["rows"] >= MANY_ROWS and record["way"] != ROW_BY_ROW:
            batches[record["model"], record["rows"]].append(record)
    chosen = [
        min(ways, key=seconds_of)["seconds"] / min(way["seconds"] for way in ways)
        for ways in batches.values()
        if len(ways) > 1
    ]
    return (math.exp(np.log(chosen).mean()), max(chosen), len(chosen)) if chosen else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", help="files of records, a JSON object a line")
    parser.add_argument("--json", action="store_true", help="print the fitted costs as JSON, by instruction set")
    arguments = parser.parse_args()
    try:
        import numpy as np
        from scipy.optimize import nnls
    except ImportError as error:
        sys.exit(f"{error}: install it with pip install numpy scipy")
    found = read(arguments.records)
    if not found:
        sys.exit("no records of one thread; `fangorn-benches synthetic` writes some")
    fitted = {}
    for instructions, best in found.items():
        records = list(best.values())
        costs = fitted[instructions] = fit(np, nnls, records)
        if arguments.json:
            continue
        print(f"{instructions}: {len(records)} records of {len({r['model'] for r in records})} models\n")
        print(f"{'estimate / time':41} {'of this version':>18} {'fitted':>18}")
        for way in sorted({record["way"] for record in records}):
            of_way = [r for r in records if r["way"] == way and r["rows"] >= MANY_ROWS]
            if not of_way:
                continue
            columns = []
            for seconds_of in (lambda r: r["estimate"], lambda r: estimate(costs, r)):
                mean, apart = spread(np, [max(seconds_of(r), 1e-12) / r["seconds"] for r in of_way])
                columns.append(f"{mean:.2f}, spread {apart:.2f}")
            print(f"{way:41} {columns[0]:>18} {columns[1]:>18}")
        for name, seconds_of in (
            ("this version", lambda r: r["estimate"]),
            ("the fitted costs", lambda r: estimate(costs, r)),
        ):
            if regrets := regret(np, records, seconds_of):
                mean, most, count = regrets
                print(f"the choice by {name} takes {mean:.4f} times the fastest way's time, at most {most:.2f}, of {count}")
        print("\nWays {")
        for name, cost in costs.items():
            print(f"    {name}: {cost:.3g}," + ("  // no record shows it" if cost == 0 else ""))
        print("}\n")
    if arguments.json:
        print(json.dumps(fitted))


if __name__ == "__main__":
    main()
