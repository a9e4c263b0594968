#!/usr/bin/env python3
"""What a schedule takes that was tuned for another batch size or another model (SilvanForge, figure 2).

    python3 benches/experiments/carried_schedules.py --fangorn target/release/fangorn ZOO
        [--model NAME ...] [--batch 1,16,64,1024,16384] [--budget 5s] [--threads 1] [--plot carried]

ZOO has a folder for each model, with a file `model.*` and the rows, `rows.npy`. Tunes each model at each batch size.
Then times, in turns, the schedules of all batch sizes at each batch size of the same model, and the schedules of all
models at the largest batch size of each model. Writes Markdown tables to standard output: times as parts of the time
by the schedule that was tuned for the place. A schedule that a model can't run is a dash. `--plot NAME` writes
NAME-batches.svg and NAME-models.svg as well, and needs matplotlib. What the user's cache keeps is used and added to.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROUNDS = 5


class Fangorn:
    def __init__(self, arguments):
        self.program, self.threads = arguments.fangorn, arguments.threads

    def run(self, command, model, *options):
        line = [self.program, command, model["file"], "--rows", model["rows"], "--threads", self.threads, "--json"]
        done = subprocess.run([*line, *options], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return json.loads(done.stdout)["results"]

    def tuned(self, model, batches, budget):
        """The tuned schedule of each batch size, one directive a line."""
        found = self.run("tune", model, "--batch", batches, "--budget", budget)
        return {result["batch"]: result["tuned"]["schedule"].replace("; ", "\n") + "\n" for result in found}

    def times(self, model, batch, schedules):
        """Microseconds a row by each schedule, measured in turns; none for those that the model refuses."""
        found = [[] for _ in schedules]
        for _ in range(ROUNDS):
            for times, schedule in zip(found, schedules):
                with tempfile.NamedTemporaryFile("w", suffix=".schedule") as file:
                    file.write(schedule)
                    file.flush()
                    options = ["--batch", str(batch), "--seconds", "0.1", "--schedule", file.name]
                    try:
                        times.append(self.run("bench", model, *options)[0]["wall_us_per_row_median"])
                    except RuntimeError:
                        pass
        return [statistics.median(times) if times else None for times in found]


def table(title, names, rows):
    print(f"\n| {title} | " + " | ".join(map(str, names)) + " |")
    print("|---|" + "---:|" * len(names))
    for name, parts in rows:
        print(f"| {name} | " + " | ".join("-" if part is None else f"{part:.2f}" for part in parts) + " |", flush=True)


def plot(path, title, names, rows, across):
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(1.5 + 0.8 * len(names), 1.5 + 0.5 * len(rows)))
    values = [[float("nan") if part is None else part for part in parts] for _, parts in rows]
    axes.imshow(values, cmap="YlOrRd", vmin=1, vmax=3, aspect="auto")
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.set_xlabel(across)
    axes.set_title(title, fontsize=10)
    for y, parts in enumerate(values):
        for x, part in enumerate(parts):
            axes.text(x, y, "-" if part != part else f"{part:.1f}", ha="center", va="center", fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zoo", type=pathlib.Path)
    parser.add_argument("--fangorn", default="target/release/fangorn")
    parser.add_argument("--model", action="append", help="only this folder; may be given several times")
    parser.add_argument("--batch", default="1,16,64,1024,16384")
    parser.add_argument("--budget", default="5s", help="time to tune a model in")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--plot", help="the beginning of the plots' names")
    arguments = parser.parse_args()
    fangorn = Fangorn(arguments)
    models, tuned = {}, {}
    for folder in sorted(arguments.zoo.iterdir()):
        files = sorted(f for f in folder.glob("model.*") if f.suffix != ".joblib")
        wanted = not arguments.model or folder.name in arguments.model
        if files and wanted and (folder / "rows.npy").exists():
            model = {"file": files[0], "rows": folder / "rows.npy"}
            try:
                tuned[folder.name] = fangorn.tuned(model, arguments.batch, arguments.budget)
                models[folder.name] = model
            except RuntimeError as error:
                print(f"{folder.name}: {error}", file=sys.stderr)
    if not models:
        sys.exit(f"{arguments.zoo}: no models with rows")
    batches = sorted(int(batch) for batch in arguments.batch.split(","))
    # Of a schedule that was tuned for one batch size at another: medians over models.
    parts = {(of, at): [] for of in batches for at in batches}
    for name, model in models.items():
        for at in batches:
            times = fangorn.times(model, at, [tuned[name][of] for of in batches])
            own = times[batches.index(at)]
            for of, time in zip(batches, times):
                if time and own:
                    parts[of, at].append(time / own)
    rows = [(of, [statistics.median(parts[of, at]) if parts[of, at] else None for at in batches]) for of in batches]
    table("tuned for batches of", [f"run at {at}" for at in batches], rows)
    largest = batches[-1]
    across = []
    for name, model in models.items():
        times = fangorn.times(model, largest, [tuned[of][largest] for of in models])
        own = times[list(models).index(name)]
        across.append([time / own if time and own else None for time in times])
    # A row for each model whose schedule is carried.
    carried = [(of, [of_model[k] for of_model in across]) for k, of in enumerate(models)]
    table(f"tuned for batches of {largest} of", list(models), carried)
    if arguments.plot:
        title = "time / time by the schedule tuned for the batch size, medians over models"
        plot(f"{arguments.plot}-batches.svg", title, batches, rows, "run at a batch of")
        title = f"time / time by the model's own tuned schedule, batches of {largest}"
        plot(f"{arguments.plot}-models.svg", title, list(models), carried, "run on")


if __name__ == "__main__":
    main()
