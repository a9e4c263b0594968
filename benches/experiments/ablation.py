#!/usr/bin/env python3
"""What each part of the default schedule is worth: SilvanForge's ablation, on a CPU.

    python3 benches/experiments/ablation.py --fangorn target/release/fangorn ZOO
        [--model NAME ...] [--batch 64,4096] [--threads 1] [--rounds 5]

ZOO has a folder for each model, with a file `model.*` and the rows, `rows.npy`. Takes parts out of the schedule, one
after the other, and times all variants in turns. Writes a Markdown table to standard output: times as multiples of
the default schedule's, and geometric means over models.
"""

import math

import experiment

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
    parser = experiment.parser(__doc__, "64,4096")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    fangorn = experiment.Fangorn(arguments)
    batches = [int(batch) for batch in arguments.batch.split(",")]
    lacking = list(VARIANTS)[1:]
    ratios = {}
    print("| model | rows | default, us a row | " + " | ".join(lacking) + " |")
    print("|---|---:|---:|" + "---:|" * len(lacking))
    for folder, model, rows in experiment.models(arguments):
        times = fangorn.times(model, rows, arguments.batch, VARIANTS, arguments.rounds)
        for batch in batches:
            default = times.get((batch, "default"))
            if default is None:
                continue
            shown = []
            for name in lacking:
                if (batch, name) not in times:
                    shown.append("-")
                    continue
                ratio = times[batch, name] / default
                ratios.setdefault((batch, name), []).append(ratio)
                shown.append(f"{ratio:.2f}")
            print(f"| {folder} | {batch} | {default:.4f} | " + " | ".join(shown) + " |", flush=True)
    for batch in batches:
        means = []
        for name in lacking:
            found = ratios.get((batch, name), [])
            means.append(f"{math.exp(sum(map(math.log, found)) / len(found)):.2f}" if found else "-")
        print(f"| geometric mean | {batch} | | " + " | ".join(means) + " |")


if __name__ == "__main__":
    main()
