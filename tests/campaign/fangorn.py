"""Runs the command line `fangorn`."""

import os
import subprocess

import numpy as np

LIMIT = 60  # seconds a command may take


class Refused(Exception):
    """It said in a line why it does not do it, with status 2."""


class Broken(Exception):
    """It ended in any other way than it should."""


class Fangorn:
    def __init__(self, program, folder):
        self.program, self.folder, self.runs = str(program), folder, 0

    def run(self, *words, isa=None, gathers=None, threads=1):
        """Runs a command."""
        asked = {"FANGORN_ISA": isa, "FANGORN_GATHERS": gathers, "RAYON_NUM_THREADS": str(threads)}
        environment = {name: value for name, value in os.environ.items() if name not in asked}
        environment.update({name: value for name, value in asked.items() if value})
        command = [self.program, *map(str, words)]
        self.runs += 1
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=environment)
        except subprocess.TimeoutExpired:
            raise Broken(f"no end after {LIMIT} s") from None
        said = done.stderr.strip()
        if done.returncode == 2 and len(said.splitlines()) == 1 and "panic" not in said and "defect" not in said:
            raise Refused(said)
        if done.returncode:
            raise Broken(f"status {done.returncode}: {said[-500:]}")
        return done.stdout

    def predict(self, model, rows, output, how, sums=None):
        """An output of rows, as an array."""
        # Classes may have names, which .npy has no room for.
        out = "out.csv" if output == "class" else "out.npy"
        given, wanted, text = (self.folder / name for name in ("rows.npy", out, "schedule.txt"))
        np.save(given, rows)
        wanted.unlink(missing_ok=True)
        more = ["--sum", sums] if sums else []
        if how.schedule:
            text.write_text(how.schedule)
            more += ["--schedule", text if "(" in how.schedule else how.schedule]
        more += ["--backend", how.backend] if how.backend else []
        environment = {"isa": how.isa, "gathers": how.gathers, "threads": how.threads}
        self.run("predict", model, "--rows", given, "--output", output, "-o", wanted, *more, **environment)
        if output == "class":
            lines = wanted.read_text().splitlines()
            return np.array([[int(float(label)) for label in line.split(",")] for line in lines])
        return np.load(wanted)
