#!/usr/bin/env python3
"""A campaign against the producers: random models, hard rows, exact comparison.

One command. It makes a virtual environment of its own with pinned versions, trains random models in XGBoost, LightGBM,
CatBoost and scikit-learn, converts some to ONNX and treelite, draws rows at each model's own thresholds and around
them, and holds what fangorn says of them against what the library itself says: leaf ids exactly, margins and values by
contract, classes. A failure is made smaller and kept as a folder like those of tests/zoo. README.md says more.

Exit status: 0; 1 where something differs or fangorn breaks; 2 where nothing could be run.

Examples:
  python3 tests/campaign/run.py                              2000 models, about half an hour
  python3 tests/campaign/run.py --models 50 --seed 7         a few, others
  python3 tests/campaign/run.py --only lightgbm,onnx         of these alone
  python3 tests/campaign/run.py --only xgboost-137           one case again
  python3 tests/campaign/run.py --models 2500 --record       and write RESULTS.md
"""

import argparse
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time

import report

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PRODUCERS = ["xgboost", "lightgbm", "catboost", "scikit-learn", "onnx", "treelite"]
# The order in which models of all of them come.
TURNS = "xgboost lightgbm catboost scikit-learn onnx xgboost lightgbm catboost treelite".split()
PATIENCE = 300  # seconds that a case may take, minimising included


def note(text):
    print(f"\r\033[Krun.py: {text}" if sys.stderr.isatty() else f"run.py: {text}", file=sys.stderr, flush=True)


def environment(args):
    """The Python of the environment, made where it is missing or other versions are wanted; none where that fails."""
    if args.python:
        return args.python
    folder = args.work / "venv"
    python, stamp, wanted = folder / "bin" / "python", folder / "made", HERE / "requirements.txt"
    if stamp.is_file() and stamp.read_text() == wanted.read_text():
        return python
    note(f"making an environment in {folder}")
    install = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "-r",
        str(wanted),
    ]
    for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], install):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            note(f"the environment can't be made: {lines[-1]}")
            return None
    stamp.write_text(wanted.read_text())
    return python


class Worker:
    """A process that runs cases."""

    def __init__(self, python, args, log):
        command = [str(python), "-W", "ignore", str(HERE / "worker.py"), "--fangorn", str(args.fangorn)]
        command += ["--failures", str(args.failures), "--seed", str(args.seed)]
        pools = ("OMP", "OPENBLAS", "MKL", "NUMEXPR")
        # A session of its own, so that what it started ends with it.
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
            env={**os.environ, **{f"{pool}_NUM_THREADS": "1" for pool in pools}},
        )  # fmt: skip
        self.answers = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put(None)

    def ask(self, request):
        """An answer; none where the process is gone or takes too long."""
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.answers.get(timeout=PATIENCE)
        except (OSError, queue.Empty):
            line = None
        if line is None:
            self.stop()
            return None
        return json.loads(line)

    def stop(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Campaign:
    """The cases that are left to do, and the results of those that are done."""

    def __init__(self, args, python, log):
        self.args, self.python, self.log = args, python, log
        self.cases, self.results = iter(cases(args)), []
        self.lock, self.begin = threading.Lock(), time.monotonic()
        self.shown, self.workers, self.stopped = self.begin, set(), False

    def stop(self):
        """Ends what runs, and begins nothing more."""
        with self.lock:
            self.stopped = True
            for worker in self.workers:
                worker.stop()

    def next(self):
        with self.lock:
            if self.stopped or self.args.seconds and time.monotonic() - self.begin > self.args.seconds:
                return None
            return next(self.cases, None)

    def work(self):
        worker = None
        while case := self.next():
            if worker is None:
                worker = Worker(self.python, self.args, self.log)
                self.workers.add(worker)
            answer = worker.ask(case)
            if self.stopped:
                return
            if answer is None:
                self.workers.discard(worker)
                status = worker.process.returncode
                words = f"its process ended with status {status}, or took more than {PATIENCE} s"
                answer, worker = report.lost(*case, words), None
            self.done(answer)
        if worker:
            worker.stop()

    def done(self, result):
        with self.lock:
            self.results.append(result)
            if self.args.json:
                print(json.dumps(result), flush=True)
            for failure in result["failures"]:
                note(f"{result['name']} ({result['kind']}): {failure['what']}: {failure.get('left', failure['words'])}; "
                     f"kept as {failure.get('kept')}; reference {failure.get('reference')}")  # fmt: skip
            now, count = time.monotonic(), len(self.results)
            if sys.stderr.isatty() or now - self.shown > 30:
                self.shown = now
                failed = sum(bool(r["failures"]) for r in self.results)
                leaves = sum(r["counts"]["leaves"] for r in self.results)
                text = f"{count} of {self.args.models} cases, {leaves:.3g} leaves compared, {failed} failed"
                text += f", {now - self.begin:.0f} s"
                start, end = ("\r\033[K", "") if sys.stderr.isatty() else ("", "\n")
                print(start + text, end=end, file=sys.stderr, flush=True)


def cases(args):
    """Producer and index of each case. A case is the same whatever runs beside it."""
    named = [name for name in args.only if name not in PRODUCERS]
    for name in named:
        producer, _, index = name.rpartition("-")
        yield producer, int(index)
    turns = [p for p in TURNS if not args.only or p in args.only]
    numbers = dict.fromkeys(PRODUCERS, args.first)
    for i in range(args.models if turns else 0):
        producer = turns[i % len(turns)]
        yield producer, numbers[producer]
        numbers[producer] += 1


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--models", type=int, default=2000, help="how many models to train (default: %(default)s)")
    add("--seed", type=int, default=0, help="other models and rows (default: %(default)s)")
    add("--first", type=int, default=0, help="the number of each producer's first model (default: %(default)s)")
    add("--seconds", type=float, help="stop after so long")
    add("--only", default="", help=f"of {', '.join(PRODUCERS)}, or one case as lightgbm-12; separated by commas")
    add("--jobs", type=int, default=1, help="cases at a time (default: %(default)s)")
    add(
        "--fangorn",
        type=pathlib.Path,
        default=ROOT / "target/release/fangorn",
        help="the program (default: the checkout's)",
    )
    add(
        "--failures",
        type=pathlib.Path,
        default=HERE / "failures",
        help="the folder for what fails (default: beside this)",
    )
    add("--work", type=pathlib.Path, default=ROOT / "target" / "campaign", help="the folder for the environment")
    add("--python", type=pathlib.Path, help="a Python that has the packages, in place of the environment")
    add("--record", action="store_true", help="write the table to tests/campaign/RESULTS.md")
    add("--json", action="store_true", help="print each case as a line of JSON in place of the table")
    args = parser.parse_args()
    args.only = [name for name in args.only.split(",") if name]
    for name in args.only:
        producer, _, index = name.rpartition("-")
        if name not in PRODUCERS and not (producer in PRODUCERS and index.isdigit()):
            parser.error(f"unknown: {name}; there are {', '.join(PRODUCERS)}, and cases as lightgbm-12")
    if args.models < 1 or args.jobs < 1 or args.seed < 0 or args.first < 0:
        parser.error("--models and --jobs are whole numbers from 1, --seed and --first from 0")
    for name in ("fangorn", "failures", "work", "python"):
        if getattr(args, name) is not None:
            setattr(args, name, pathlib.Path(os.path.abspath(getattr(args, name))))
    if not args.fangorn.is_file():
        parser.error(f"{args.fangorn} is not there; build it with `cargo build --release`, or give --fangorn FILE")
    return args


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    args.work.mkdir(parents=True, exist_ok=True)
    python = environment(args)
    if python is None:
        return 2
    begin = time.monotonic()
    with open(args.work / "stderr.txt", "w") as log:
        first = Worker(python, args, log)
        versions = first.ask("versions")
        first.stop()
        if versions is None:
            note(f"the packages can't be imported; {log.name} says why")
            return 2
        campaign = Campaign(args, python, log)
        threads = [threading.Thread(target=campaign.work, daemon=True) for _ in range(args.jobs)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            campaign.stop()
            note("interrupted; this is what was done until then")
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    text = report.text(campaign.results, report.facts(args, versions, time.monotonic() - begin, ROOT))
    if not args.json:
        print(text)
    if args.record:
        (HERE / "RESULTS.md").write_text(text)
        note(f"written: {HERE / 'RESULTS.md'}")
    if not any(r["counts"]["models"] for r in campaign.results):
        note("no model was trained")
        return 2
    return 1 if any(r["failures"] for r in campaign.results) else 0


if __name__ == "__main__":
    sys.exit(main())
