#!/usr/bin/env python3
"""How far the default schedule and the tuned one are from the best of all candidates.

    python3 benches/experiments/default_against_space.py --fangorn target/release/fangorn ZOO
        [--model NAME ...] [--batch 1,16,64,1024,16384] [--budget 5s] [--threads 1] [--plot NAME.svg] [--json FILE]

ZOO has a folder for each model, with a file `model.*` and the rows, `rows.npy`. Runs `fangorn tune --exhaustive` on each
model and writes a Markdown table to standard output: times as multiples of the best candidate's, and geometric means.
The column "Treebeard's" is the best candidate that walks values, tiled, interleaved or unrolled, which is what
Treebeard explores; it is left out under 64 rows, where engines of ours run a few rows.

`--plot` draws how the times of all candidates are distributed (SilvanForge, figure 5), a panel for each batch size,
and needs matplotlib. `--json` keeps what was measured; given as ZOO, such a file is read instead of measuring. What the
user's cache keeps is replaced. Takes half a minute for a model, more for large ones.
"""

import json
import math
import pathlib
import sys

import experiment

MANY_ROWS = 64


def measure(arguments):
    """What `fangorn tune` says of each model, by its folder's name."""
    fangorn = experiment.Fangorn(arguments)
    for name, model, rows in experiment.models(arguments):
        options = ["--batch", arguments.batch, "--budget", arguments.budget, "--exhaustive", "--fresh"]
        try:
            yield name, fangorn.run("tune", model, rows, *options)
        except RuntimeError as refused:
            print(f"{name}: {refused}", file=sys.stderr)


def treebeard(result):
    """The least time of the candidates that Treebeard explores; none under 64 rows."""
    if result["batch"] < MANY_ROWS:
        return None
    walks = [c["us_per_row"] for c in result["candidates"] if not {"ranks(", "evaluate("} & directives(c["schedule"])]
    return min(walks, default=None)


def directives(schedule):
    return {directive.split("(")[0] + "(" for directive in schedule.split("; ")}


def plot(path, results):
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    batches = sorted({result["batch"] for found in results.values() for result in found})
    figure, all_axes = pyplot.subplots(len(batches), 1, figsize=(9, 2.4 * len(batches)), sharex=True, squeeze=False)
    for axes, batch in zip(all_axes[:, 0], batches):
        for x, found in enumerate(results.values()):
            for result in (result for result in found if result["batch"] == batch):
                best = min([c["us_per_row"] for c in result["candidates"]] + [result["best"]["us_per_row"]])
                times = [candidate["us_per_row"] / best for candidate in result["candidates"]]
                axes.scatter([x] * len(times), times, s=5, alpha=0.35, color="#777777", linewidths=0)
                for name, color, marker in (("auto", "#d55e00", "_"), ("tuned", "#009e73", "x")):
                    axes.scatter([x], [result[name]["us_per_row"] / best], color=color, marker=marker, s=60)
        axes.set_yscale("log")
        axes.set_ylabel("time / best")
        axes.set_title(f"batches of {batch}", fontsize=10)
    all_axes[-1, 0].set_xticks(range(len(results)), list(results), rotation=60, ha="right", fontsize=8)
    figure.suptitle("gray: each candidate; orange: the default schedule; green: tuned", fontsize=10)
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = experiment.parser(__doc__, "1,16,64,1024,16384")
    parser.add_argument("--budget", default="5s")
    parser.add_argument("--plot", metavar="NAME.svg")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    arguments = parser.parse_args()
    measured = json.loads(arguments.zoo.read_text()).items() if arguments.zoo.is_file() else measure(arguments)
    of_best = {"default": [], "tuned": [], "Treebeard's": []}
    results = {}
    print("| model | rows | default, us a row | default / best | tuned / best | Treebeard's / best | candidates | missed |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, found in measured:
        results[name] = found
        for result in found:
            best = result["best"]["us_per_row"]
            auto = result["auto"]["us_per_row"]
            times = {"default": auto, "tuned": result["tuned"]["us_per_row"], "Treebeard's": treebeard(result)}
            shown = []
            for which, time in times.items():
                if time:
                    of_best[which].append(time / best)
                shown.append(f"{time / best:.2f}" if time else "-")
            counts = f"{result['tried']} | {result['missed']}"
            print(f"| {name} | {result['batch']} | {auto:.4f} | {' | '.join(shown)} | {counts} |", flush=True)
    for which, found in of_best.items():
        if found:
            mean = math.exp(sum(map(math.log, found)) / len(found))
            print(f"\n{which}: {mean:.3f} in the geometric mean, {max(found):.2f} at most, {len(found)} cells", end="")
    print()
    if arguments.json:
        arguments.json.write_text(json.dumps(results))
    if arguments.plot:
        plot(arguments.plot, results)


if __name__ == "__main__":
    main()
