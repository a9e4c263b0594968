#!/usr/bin/env python3
"""Scores a Parquet or a CSV file with `fangorn predict` and with pandas and XGBoost, and compares time and memory.

    python3 benches/tables/run.py make OUT --rows 10000000 --csv
    python3 benches/tables/run.py time OUT --fangorn target/release/fangorn --threads 2
    python3 benches/tables/run.py time OUT --from csv --fangorn target/release/fangorn --threads 2
    python3 benches/tables/run.py time OUT --other before/fangorn --rounds 9
    python3 benches/tables/run.py kill OUT --kills 10

`make` trains a model of XGBoost (100 trees of depth 6, 28 columns) on random numbers, and writes `model.ubj`,
`rows.parquet` in row groups of 2^20 rows, and with `--csv` the same rows as `rows.csv`. `time` scores the file to
Parquet, in turns, and prints medians: wall time, processor time, and the most memory that a process held. Both read
columns `f0` to `f27` and keep `id`. It also compares the predictions. `kill` ends a run at random moments, and checks
that it leaves no output and that `--resume` ends with the same bytes. Needs numpy, pandas, pyarrow and xgboost.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from random import Random

COLUMNS = 28
PEER = """
import sys, pandas, xgboost
model, rows, out, threads = sys.argv[1:]
booster = xgboost.Booster(model_file=model)
booster.set_param({"nthread": int(threads)})
table = pandas.read_csv(rows) if rows.endswith(".csv") else pandas.read_parquet(rows)
values = booster.inplace_predict(table[booster.feature_names])
pandas.DataFrame({"id": table["id"], "value": values}).to_parquet(out)
"""


def make(out, rows, with_csv):
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq
    import xgboost

    out.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(7)
    names = [f"f{at}" for at in range(COLUMNS)]

    def columns(count):
        # A third each of normal, heavy-tailed and whole numbers; one value of fifty is missing.
        x = random.standard_normal((count, COLUMNS), dtype=np.float32)
        x[:, 1::3] = np.exp(x[:, 1::3])
        x[:, 2::3] = np.round(10 * x[:, 2::3])
        x[random.random((count, COLUMNS), dtype=np.float32) < 0.02] = np.nan
        return x

    train = columns(100_000)
    label = (np.nan_to_num(train[:, 0]) * np.nan_to_num(train[:, 1]) + random.standard_normal(len(train)) > 0.5).astype(int)
    matrix = xgboost.DMatrix(train, label, feature_names=names)
    options = {"objective": "binary:logistic", "max_depth": 6, "tree_method": "hist"}
    xgboost.train(options, matrix, 100).save_model(out / "model.ubj")
    schema = pa.schema([("id", pa.int64()), *((name, pa.float32()) for name in names)])
    with pq.ParquetWriter(out / "rows.parquet", schema, compression="snappy") as writer:
        for first in range(0, rows, 1 << 20):
            count = min(1 << 20, rows - first)
            x = columns(count)
            arrays = [pa.array(np.arange(first, first + count)), *(pa.array(x[:, at].copy()) for at in range(COLUMNS))]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=1 << 20)
            print(f"run.py: {first + count} of {rows} rows", file=sys.stderr)
    if with_csv:
        table = pq.ParquetFile(out / "rows.parquet")
        with pyarrow.csv.CSVWriter(out / "rows.csv", schema) as writer:
            for batch in table.iter_batches():
                # pandas writes nothing where a value is missing.
                nan_to_null = lambda column: pa.array(column.to_numpy(zero_copy_only=False), from_pandas=True)
                writer.write_batch(pa.record_batch([nan_to_null(column) for column in batch.columns], schema=schema))


def measured(command, threads, out):
    """Wall and processor time in seconds, and peak memory in MB, of a process that writes a new file."""
    out.unlink(missing_ok=True)
    # The process does not wait for what an earlier one wrote.
    os.sync()
    variables = {"RAYON_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "ARROW_NUM_THREADS": threads}
    started = time.perf_counter()
    process = subprocess.Popen(command, env=os.environ | {name: str(value) for name, value in variables.items()})
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    if status != 0:
        sys.exit(f"run.py: {command[0]} failed")
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def compare(ours, theirs):
    import numpy as np
    import pyarrow.parquet as pq

    a, b = pq.read_table(ours), pq.read_table(theirs)
    # Columns of a CSV are kept as texts.
    first = [[int(value) for value in table["id"].to_pylist()[:1000]] for table in (a.slice(0, 1000), b.slice(0, 1000))]
    if first[0] != first[1] or len(a) != len(b):
        sys.exit("run.py: the files have other rows")
    worst = float(np.abs(a["value"].to_numpy() - b["value"].to_numpy()).max())
    if not worst <= 1e-5:
        sys.exit(f"run.py: predictions differ by {worst}")
    return worst


def run(out, source, fangorn, other, threads, rounds, as_json):
    model, rows = out / "model.ubj", out / f"rows.{source}"
    ours, theirs = out / "ours.parquet", out / "theirs.parquet"
    commands = {
        "fangorn": [fangorn, "predict", model, "--rows", rows, "--keep", "id", "-o", ours],
        "pandas and XGBoost": [sys.executable, "-c", PEER, model, rows, theirs, str(threads)],
    }
    if other:
        commands = {"fangorn": commands["fangorn"], "the other build": [other, *commands["fangorn"][1:-1], theirs]}
    found = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            found[name].append(measured(list(map(str, command)), threads, ours if name == "fangorn" else theirs))
            print(f"run.py: {name}: {found[name][-1][0]:.2f} s", file=sys.stderr)
    worst = compare(ours, theirs)
    table = {
        name: dict(zip(("wall", "processor", "peak_mb"), map(statistics.median, zip(*runs)))) for name, runs in found.items()
    }
    if as_json:
        print(json.dumps({"from": source, "threads": threads, "rounds": rounds, "engines": table, "largest_difference": worst}, indent=2))
        return
    print("| engine | wall, s | processor time, s | wall x threads / processor time | peak memory, MB |\n|---|--:|--:|--:|--:|")
    for name, row in table.items():
        busy = statistics.median(wall * threads / processor for wall, processor, _ in found[name])
        print(f"| {name} | {row['wall']:.2f} | {row['processor']:.2f} | {busy:.2f} | {row['peak_mb']:.0f} |")
    peer = list(table)[1]
    ratio = table[peer]["wall"] / table["fangorn"]["wall"]
    print(f"\nThe wall time of {peer} is {ratio:.2f} times fangorn's; predictions differ by at most {worst:.1e}.")


def kill(out, source, fangorn, threads, kills):
    """Kills runs at random moments of the time that one takes, and goes on from what each has left."""
    random = Random(7)
    whole, cut = out / "whole.parquet", out / "cut.parquet"
    command = [fangorn, "predict", out / "model.ubj", "--rows", out / f"rows.{source}", "--keep", "id", "-o"]
    wall, _, _ = measured(list(map(str, [*command, whole])), threads, whole)
    expected = whole.read_bytes()
    variables = os.environ | {"RAYON_NUM_THREADS": str(threads)}
    resumed, done = [], 0
    while done < kills:
        cut.unlink(missing_ok=True)
        process = subprocess.Popen(list(map(str, [*command, cut])), env=variables)
        after = random.uniform(0, wall)
        time.sleep(after)
        process.kill()
        if process.wait() == 0:
            # It ended before it was killed.
            continue
        done += 1
        if cut.exists():
            sys.exit(f"run.py: a run that was killed after {after:.2f} s left an output")
        again = measured(list(map(str, [*command, cut, "--resume"])), threads, cut)[0]
        if cut.read_bytes() != expected:
            sys.exit(f"run.py: after a kill at {after:.2f} s, --resume ended with other bytes")
        resumed.append((after, again))
        print(f"run.py: killed after {after:.2f} s; the rest took {again:.2f} s", file=sys.stderr)
    killed, rest = [", ".join(f"{seconds:.2f}" for seconds in times) for times in zip(*resumed)]
    print(f"A whole run took {wall:.2f} s. Killed after {killed} s, it left no output. The rest took {rest} s; same bytes.")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="Example:\n  python3 benches/tables/run.py time target/tables --threads 2",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="train a model and write rows")
    making.add_argument("out", type=pathlib.Path, metavar="OUT")
    making.add_argument("--rows", type=int, default=10_000_000)
    making.add_argument("--csv", action="store_true", help="write the rows as CSV, too")
    timing = commands.add_parser("time", help="score the rows")
    timing.add_argument("out", type=pathlib.Path, metavar="OUT")
    timing.add_argument("--from", dest="source", choices=["parquet", "csv"], default="parquet")
    timing.add_argument("--fangorn", default="target/release/fangorn")
    timing.add_argument("--other", metavar="FILE", help="another build of fangorn, timed in turns in place of the peer")
    timing.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    timing.add_argument("--rounds", type=int, default=3)
    timing.add_argument("--json", action="store_true")
    killing = commands.add_parser("kill", help="kill runs, and resume them")
    killing.add_argument("out", type=pathlib.Path, metavar="OUT")
    killing.add_argument("--from", dest="source", choices=["parquet", "csv"], default="parquet")
    killing.add_argument("--fangorn", default="target/release/fangorn")
    killing.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    killing.add_argument("--kills", type=int, default=10)
    arguments = parser.parse_args()
    if arguments.command == "make":
        make(arguments.out, arguments.rows, arguments.csv)
    elif arguments.command == "kill":
        kill(arguments.out, arguments.source, arguments.fangorn, arguments.threads, arguments.kills)
    else:
        run(arguments.out, arguments.source, arguments.fangorn, arguments.other, arguments.threads, arguments.rounds, arguments.json)


if __name__ == "__main__":
    main()
