#!/usr/bin/env python3
"""What each part of the default schedule is worth: SilvanForge's ablation, on a CPU.

    python3 benches/experiments/ablation.py --fangorn target/release/fangorn ZOO
        [--model NAME ...] [--batch 64,4096] [--threads 1] [--rounds 5]

ZOO has a folder for each model, with a file `model.*` and the rows, `rows.npy`. Takes parts out of the schedule, one
after the other, and times all variants in turns. Writes a Markdown table to standard output: times as multiples of
the default schedule's, and geometric means over models.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

WALKS = "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\nparallel(b0)\n"
# Each variant lacks one part more than the one before it.
VARIANTS = {
    "default": None,
    "no blends: walks on ranks": "ranks(u8)\n" + WALKS + "cache(b0)\nunrollWalk(b1)\nlayout(sparse)\n",
    "no ranks: walks on values": WALKS + "cache(b0)\nunrollWalk(b1)\nlayout(sparse)\n",
    "no unrolled walks": WALKS + "cache(b0)\nlayout(sparse)\n",
    "no copy of columns": WALKS + "layout(sparse)\n",
    "trees in complete arrays": WALKS + "layout(array)\n",
    "no row blocks: one row at a time": "reorder(batch, tree)\nparallel(batch)\nlayout(sparse)\nfewRows(walk)\n",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zoo", type=pathlib.Path)
    parser.add_argument("--fangorn", default="target/release/fangorn")
    parser.add_argument("--model", action="append", help="only this folder; may be given several times")
    parser.add_argument("--batch", default="64,4096")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    parts = {}
    print("| model | rows | default, us a row | " + " | ".join(list(VARIANTS)[1:]) + " |")
    print("|---|---:|---:|" + "---:|" * (len(VARIANTS) - 1))
    for folder in sorted(arguments.zoo.iterdir()):
        files = sorted(f for f in folder.glob("model.*") if f.suffix != ".joblib")
        wanted = not arguments.model or folder.name in arguments.model
        if not files or not wanted or not (folder / "rows.npy").exists():
            continue
        command = [arguments.fangorn, "bench", files[0], "--rows", folder / "rows.npy", "--threads", arguments.threads]
        command += ["--batch", arguments.batch, "--seconds", "0.1", "--json"]
        times = {}
        for _ in range(arguments.rounds):
            for name, schedule in VARIANTS.items():
                with tempfile.NamedTemporaryFile("w", suffix=".schedule") as file:
                    file.write(schedule or "")
                    file.flush()
                    options = ["--schedule", file.name] if schedule else []
                    done = subprocess.run([*command, *options], capture_output=True, text=True)
                if done.returncode:
                    # A model may refuse ranks of one byte, or complete arrays of deep trees.
                    print(f"{folder.name}, {name}: {done.stderr.strip()}", file=sys.stderr)
                    continue
                for result in json.loads(done.stdout)["results"]:
                    times.setdefault((result["batch"], name), []).append(result["wall_us_per_row_median"])
        for batch in map(int, arguments.batch.split(",")):
            if (batch, "default") not in times:
                continue
            default = statistics.median(times[batch, "default"])
            shown = []
            for name in list(VARIANTS)[1:]:
                if (batch, name) not in times:
                    shown.append("-")
                    continue
                part = statistics.median(times[batch, name]) / default
                parts.setdefault((batch, name), []).append(part)
                shown.append(f"{part:.2f}")
            print(f"| {folder.name} | {batch} | {default:.4f} | " + " | ".join(shown) + " |", flush=True)
    for batch in map(int, arguments.batch.split(",")):
        means = []
        for name in list(VARIANTS)[1:]:
            found = parts.get((batch, name), [])
            means.append(f"{math.exp(sum(map(math.log, found)) / len(found)):.2f}" if found else "-")
        print(f"| geometric mean | {batch} | | " + " | ".join(means) + " |")


if __name__ == "__main__":
    main()
