#!/usr/bin/env python3
"""Fits the costs of cubes on a GPU (`CUBES` in src/cost/cubes.rs) to times.

    cargo run --release -p fangorn-benches --features cuda -- gpu-synthetic --backend cuda cubes.jsonl
    python3 benches/experiments/fit_cubes.py cubes.jsonl

An estimate is a sum of counts, each multiplied by a cost. Every line of a file of records has the counts and the time of
one shape of cubes for one batch of a random model. Only shapes that take at most --near times the fastest shape's time
count, since the others are never chosen. The squares of relative errors are least. Prints the costs of this version's
estimates with their errors beside the fitted ones, how much slower than the fastest shape the shape with the least
estimate is, and the fastest of the first five, and the fitted costs as Rust.

Needs numpy and scipy.
"""

import argparse
import collections
import json
import math
import statistics
import sys


def read(paths):
    records = []
    for path in paths:
        with open(path) as lines:
            for number, line in enumerate(lines, 1):
                try:
                    record = json.loads(line)
                    if record.get("seconds"):
                        record["terms"], record["estimate"], record["batch"]
                        records.append(record)
                except (ValueError, KeyError, TypeError) as error:
                    sys.exit(f"{path}:{number}: not a record: {error}; `fangorn-benches gpu-synthetic` writes records")
    return records


def batches(records):
    """The records of each batch of each model."""
    found = collections.defaultdict(list)
    for record in records:
        found[record["model"], record["batch"]].append(record)
    return found


def fit(np, nnls, records):
    names = sorted({name for record in records for name in record["terms"]})
    counts = np.array([[record["terms"].get(name, 0.0) for name in names] for record in records])
    seconds = np.array([record["seconds"] for record in records])
    # Weights by the time, and then by the mean of time and estimate, so that errors in both directions weigh alike.
    weights = 1 / seconds
    for _ in range(10):
        costs, _ = nnls(counts * weights[:, None], seconds * weights)
        weights = 1 / np.sqrt(np.maximum(counts @ costs, 1e-3 * seconds) * seconds)
    return dict(zip(names, costs.tolist()))


def mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def regrets(records, seconds_of):
    """By rows of a batch: how many times the fastest shape's time the chosen shape takes, and the best of five."""
    found = collections.defaultdict(lambda: ([], []))
    for (_, batch), shapes in batches(records).items():
        shapes = sorted(shapes, key=seconds_of)
        least = min(shape["seconds"] for shape in shapes)
        found[batch][0].append(shapes[0]["seconds"] / least)
        found[batch][1].append(min(shape["seconds"] for shape in shapes[:5]) / least)
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example:\n  python3 benches/experiments/fit_cubes.py cubes.jsonl",
    )
    parser.add_argument("records", nargs="+", help="files of records, a JSON object a line")
    parser.add_argument("--near", type=float, default=2.5, help="times the fastest shape's time (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the fitted costs as JSON")
    arguments = parser.parse_args()
    try:
        import numpy as np
        from scipy.optimize import nnls
    except ImportError as error:
        sys.exit(f"{error}: install it with pip install numpy scipy")
    records = read(arguments.records)
    if not records:
        sys.exit("no records; `fangorn-benches gpu-synthetic` writes some")
    near = []
    for shapes in batches(records).values():
        most = arguments.near * min(shape["seconds"] for shape in shapes)
        near += [shape for shape in shapes if shape["seconds"] <= most]
    costs = fit(np, nnls, near)
    if arguments.json:
        print(json.dumps(costs))
        return
    print(f"{len(records)} records of {len({r['model'] for r in records})} models, {len(near)} near the fastest")
    fitted = lambda record: sum(costs[name] * count for name, count in record["terms"].items())
    for name, seconds_of in (("this version", lambda record: record["estimate"]), ("fitted", fitted)):
        errors = [math.log(max(seconds_of(record), 1e-12) / record["seconds"]) for record in near]
        print(f"\n{name}: estimate / time {mean(map(math.exp, errors)):.2f}, spread {math.exp(statistics.pstdev(errors)):.2f}")
        found = regrets(records, seconds_of)
        for batch, (chosen, five) in sorted(found.items()):
            print(f"{batch:>8} rows: the chosen shape {mean(chosen):.3f} of the fastest, at most {max(chosen):.2f}; "
                  f"the best of five {mean(five):.3f}, {max(five):.2f}")
        every = [ratio for chosen, _ in found.values() for ratio in chosen]
        print(f"     all batches: {mean(every):.3f}, at most {max(every):.2f}, of {len(every)}")
    print("\nCubeCosts {")
    for name, cost in costs.items():
        print(f"    {name}: {cost:.3g}," + ("  // no record shows it" if cost == 0 else ""))
    first = [record["first_ms"] for record in records if record.get("first_ms")]
    print(f"    compiling: {statistics.median(first) * 1e-3:.3g},\n}}")


if __name__ == "__main__":
    main()
