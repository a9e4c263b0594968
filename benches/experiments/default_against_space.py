#!/usr/bin/env python3
"""How far the default schedule and the tuned one are from the best of all candidates.

    python3 benches/experiments/default_against_space.py --fangorn target/release/fangorn ZOO
        [--model NAME ...] [--batch 1,16,64,1024,16384] [--budget 5s] [--threads 1]

ZOO has a folder for each model, with a file `model.*` and the rows, `rows.npy`. Runs `fangorn tune --exhaustive` on each
model and writes a Markdown table to standard output: times as parts of the best candidate's, and geometric means. What
the user's cache keeps is replaced. Takes half a minute for a model, more for large ones.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zoo", type=pathlib.Path)
    parser.add_argument("--fangorn", default="target/release/fangorn")
    parser.add_argument("--model", action="append", help="only this folder; may be given several times")
    parser.add_argument("--batch", default="1,16,64,1024,16384")
    parser.add_argument("--budget", default="5s")
    parser.add_argument("--threads", default="1")
    arguments = parser.parse_args()
    ratios = {"auto": [], "tuned": []}
    print("| model | rows | default, us a row | default / best | tuned / best | candidates | missed |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for folder in sorted(arguments.zoo.iterdir()):
        models = sorted(folder.glob("model.*")) if folder.is_dir() else []
        wanted = not arguments.model or folder.name in arguments.model
        if not models or not wanted or not (folder / "rows.npy").exists():
            continue
        command = [arguments.fangorn, "tune", models[0], "--rows", folder / "rows.npy", "--batch", arguments.batch]
        command += ["--budget", arguments.budget, "--threads", arguments.threads, "--exhaustive", "--fresh", "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"{folder.name}: {done.stderr.strip()}", file=sys.stderr)
            continue
        for result in json.loads(done.stdout)["results"]:
            best = result["best"]["us_per_row"]
            of = {name: result[name]["us_per_row"] / best for name in ratios}
            for name, ratio in of.items():
                ratios[name].append(ratio)
            auto = result["auto"]["us_per_row"]
            print(
                f"| {folder.name} | {result['batch']} | {auto:.4f} | {of['auto']:.2f} | {of['tuned']:.2f} "
                f"| {result['tried']} | {result['missed']} |",
                flush=True,
            )
    for name, found in ratios.items():
        if found:
            mean = math.exp(sum(map(math.log, found)) / len(found))
            print(f"\n{name}: {mean:.3f} in the geometric mean, {max(found):.2f} at most", end="")
    print()


if __name__ == "__main__":
    main()
