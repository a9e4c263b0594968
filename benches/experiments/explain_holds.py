#!/usr/bin/env python3
"""Whether the reasons of `fangorn explain` hold: times the schedule that it names and the runner-up, in turns.

    python3 benches/experiments/explain_holds.py --fangorn target/release/fangorn ZOO
        [--model NAME ...] [--batch 256,1024,4096,16384] [--threads 1] [--draws 10] [--seed 1]

ZOO has a folder for each model, with a file `model.*` and the rows, `rows.npy`. Draws pairs of a model and a batch size at
random. `fangorn explain` names the schedule that it chose for each and the runner-up, each with an estimate. Writes a
Markdown table to standard output: the runner-up's time as a multiple of the chosen schedule's, by the estimates and as
measured. A reason holds if the runner-up takes at least 0.97 of the chosen schedule's time. The exit status is 1 if one
does not hold.
"""

import json
import random
import subprocess
import sys

import experiment

ROUNDS = 9
NOISE = 0.97


def explained(fangorn, model, batch):
    """The chosen way and the runner-up, each with its schedule and its estimate, or None if there is one way only."""
    line = [fangorn.program, "explain", model, "--batch", batch, "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["chosen_among"][:2]


def main():
    parser = experiment.parser(__doc__, "256,1024,4096,16384")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    fangorn = experiment.Fangorn(arguments)
    pairs = [(*model, batch) for model in experiment.models(arguments) for batch in arguments.batch.split(",")]
    random.Random(arguments.seed).shuffle(pairs)
    print("| model | rows | chosen | runner-up | by the estimates | measured |")
    print("|---|---:|---|---|---:|---:|")
    failed = draws = 0
    for name, model, rows, batch in pairs:
        if draws == arguments.draws:
            break
        ways = explained(fangorn, model, batch)
        if len(ways) < 2:
            continue
        chosen, second = ways
        schedules = {way["way"]: way["schedule"].replace("; ", "\n") for way in ways}
        times = fangorn.times(model, rows, batch, schedules, ROUNDS)
        estimated = second["us_per_row"] / chosen["us_per_row"]
        measured = times[int(batch), second["way"]] / times[int(batch), chosen["way"]]
        draws, failed = draws + 1, failed + (measured < NOISE)
        print(f"| {name} | {batch} | {chosen['way']} | {second['way']} | {estimated:.2f} | {measured:.2f} |", flush=True)
    print(f"\n{draws - failed} of {draws} reasons hold")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
