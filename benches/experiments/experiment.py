"""What the experiments share: models of a folder, the program, and schedules that are timed in turns."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile


def parser(text, batch):
    """The arguments of every experiment."""
    found = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("zoo", type=pathlib.Path)
    found.add_argument("--fangorn", default="target/release/fangorn")
    found.add_argument("--model", action="append", help="only this folder; may be given several times")
    found.add_argument("--batch", default=batch)
    found.add_argument("--threads", default="1")
    return found


def models(arguments):
    """The name, the model's file and the file of rows of each folder."""
    for folder in sorted(arguments.zoo.iterdir()):
        files = sorted(f for f in folder.glob("model.*") if f.suffix != ".joblib")
        wanted = not arguments.model or folder.name in arguments.model
        if files and wanted and (folder / "rows.npy").exists():
            yield folder.name, files[0], folder / "rows.npy"


class Fangorn:
    """The program."""

    def __init__(self, arguments):
        self.program, self.threads = arguments.fangorn, arguments.threads

    def run(self, command, model, rows, *options):
        """The results of a command in JSON. What it refuses is a RuntimeError with its message."""
        line = [self.program, command, model, "--rows", rows, "--threads", self.threads, "--json"]
        done = subprocess.run([*line, *options], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return json.loads(done.stdout)["results"]

    def times(self, model, rows, batches, schedules, rounds):
        """Microseconds a row by batch size and schedule's name, medians of rounds in which schedules take turns.

        A schedule of None is the default one. What a model refuses is left out, and said on standard error.
        """
        found = {}
        for _ in range(rounds):
            for name, schedule in schedules.items():
                with tempfile.NamedTemporaryFile("w", suffix=".schedule") as file:
                    file.write(schedule or "")
                    file.flush()
                    options = ["--batch", batches, "--seconds", "0.1"]
                    options += ["--schedule", file.name] if schedule else []
                    try:
                        results = self.run("bench", model, rows, *options)
                    except RuntimeError as refused:
                        print(f"{model}, {name}: {refused}", file=sys.stderr)
                        continue
                for result in results:
                    found.setdefault((result["batch"], name), []).append(result["wall_us_per_row_median"])
        return {key: statistics.median(times) for key, times in found.items()}
