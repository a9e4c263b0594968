#!/usr/bin/env python3
"""What a schedule takes that was tuned for another batch size or another model (SilvanForge, figure 2).

    python3 benches/experiments/carried_schedules.py --fangorn target/release/fangorn ZOO
        [--model NAME ...] [--batch 1,16,64,1024,16384] [--budget 5s] [--threads 1] [--plot carried]

ZOO has a folder for each model, with a file `model.*` and the rows, `rows.npy`. Tunes each model at each batch size.
Then times, in turns, the schedules of all batch sizes at each batch size of the same model, and the schedules of all
models at the largest batch size of each model. Writes Markdown tables to standard output: times as multiples of the
time by the schedule that was tuned for the same model and batch size. A schedule that a model can't run is a dash.
`--plot NAME` writes NAME-batches.svg and NAME-models.svg as well, and needs matplotlib. What the user's cache keeps is
used and added to.
"""

import statistics
import sys

import experiment

ROUNDS = 5


def table(title, names, rows):
    print(f"\n| {title} | " + " | ".join(map(str, names)) + " |")
    print("|---|" + "---:|" * len(names))
    for name, ratios in rows:
        cells = ["-" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def plot(path, title, names, rows, across):
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(1.5 + 0.8 * len(names), 1.5 + 0.5 * len(rows)))
    values = [[float("nan") if ratio is None else ratio for ratio in ratios] for _, ratios in rows]
    axes.imshow(values, cmap="YlOrRd", vmin=1, vmax=3, aspect="auto")
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.set_xlabel(across)
    axes.set_title(title, fontsize=10)
    for y, ratios in enumerate(values):
        for x, ratio in enumerate(ratios):
            axes.text(x, y, "-" if ratio != ratio else f"{ratio:.1f}", ha="center", va="center", fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = experiment.parser(__doc__, "1,16,64,1024,16384")
    parser.add_argument("--budget", default="5s", help="time to tune a model in")
    parser.add_argument("--plot", help="the beginning of the plots' names")
    arguments = parser.parse_args()
    fangorn = experiment.Fangorn(arguments)
    models, tuned = {}, {}
    for name, model, rows in experiment.models(arguments):
        try:
            found = fangorn.run("tune", model, rows, "--batch", arguments.batch, "--budget", arguments.budget)
        except RuntimeError as refused:
            print(f"{name}: {refused}", file=sys.stderr)
            continue
        models[name] = model, rows
        tuned[name] = {result["batch"]: result["tuned"]["schedule"].replace("; ", "\n") + "\n" for result in found}
    if not models:
        sys.exit(f"{arguments.zoo}: no models with rows")
    batches = sorted(int(batch) for batch in arguments.batch.split(","))
    # Of a schedule that was tuned for one batch size at another: medians over models.
    ratios = {(of, at): [] for of in batches for at in batches}
    for name, (model, rows) in models.items():
        times = fangorn.times(model, rows, arguments.batch, tuned[name], ROUNDS)
        for of, at in ratios:
            if (at, of) in times and (at, at) in times:
                ratios[of, at].append(times[at, of] / times[at, at])
    rows = [(of, [statistics.median(ratios[of, at]) if ratios[of, at] else None for at in batches]) for of in batches]
    table("tuned for batches of", [f"run at {at}" for at in batches], rows)
    largest = batches[-1]
    schedules = {name: of_model[largest] for name, of_model in tuned.items()}
    # A row for each model whose schedule is carried, a column for each model that it runs on.
    carried = {name: [] for name in models}
    for name, (model, rows_of_model) in models.items():
        times = fangorn.times(model, rows_of_model, str(largest), schedules, ROUNDS)
        own = times.get((largest, name))
        for of, row in carried.items():
            row.append(times[largest, of] / own if own and (largest, of) in times else None)
    carried = list(carried.items())
    table(f"tuned for batches of {largest} of", list(models), carried)
    if arguments.plot:
        title = "time / time by the schedule tuned for the batch size, medians over models"
        plot(f"{arguments.plot}-batches.svg", title, batches, rows, "run at a batch of")
        title = f"time / time by the model's own tuned schedule, batches of {largest}"
        plot(f"{arguments.plot}-models.svg", title, list(models), carried, "run on")


if __name__ == "__main__":
    main()
