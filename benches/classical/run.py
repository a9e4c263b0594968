#!/usr/bin/env python3
"""Times Fangorn beside other engines on the 14 algorithms of CMLCompiler's tables 5 and 6.

CMLCompiler (Wen et al., ICS 2023) times a batch of 103 063 rows of 90 columns, and one record. `make` trains the
models, `time` times every engine on them in turns, and `passes` times what each pass of Fangorn's gains (figure 7).
benches/classical/README.md says what is measured. Exit status: 0; 1 where Fangorn's results differ from
scikit-learn's; 2 where nothing could be run.

Examples:
  python3 benches/classical/run.py make target/classical-models
  python3 benches/classical/run.py time target/classical-models --threads 1,2 --plot classical.svg
  python3 benches/classical/run.py passes target/classical-models
"""

import argparse
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# This folder has a run.py of its own, which is this one.
sys.path.insert(0, str(HERE.parent / "peers"))
import run as peers
import xgboost_inplace

OURS = "fangorn"
# engine -> the environment it lives in
PEERS = {"scikit-learn": "peers", "intelex": "peers", "onnxruntime": "peers", "hummingbird": "hummingbird"}
ENGINES = [OURS, *PEERS]
ALGORITHMS = (
    "Binarizer Normalizer MinMaxScaler RobustScaler LinearRegression LogisticRegression SGDClassifier "
    "DecisionTreeClassifier DecisionTreeRegressor RandomForestClassifier ExtraTreeClassifier ExtraTreesClassifier "
    "LinearSVC LinearSVR"
).split()
CLASSIFIERS = [name for name in ALGORITHMS if name.endswith(("Classifier", "SVC", "LogisticRegression"))]
# The passes that are on by default, in their order.
PASSES = "constants redundant duplicates columns forests matrices products sparse dtypes".split()
TOLERANCE = 1e-5  # relative to max(1, |expected|); labels are to be equal


# ---------------------------------------------------------------- engines


class Refused(Exception):
    """Why an engine has no figure for a model."""


class Fangorn:
    """The program, on one model."""

    def __init__(self, args, folder, threads, passes=None):
        self.args, self.folder, self.threads = args, folder, threads
        output = "class" if folder.name in CLASSIFIERS else "value"
        self.options = ["--output", output]
        self.timing = ["--threads", str(threads), *(["--passes", passes] if passes else [])]
        self.setting = ""

    def run(self, command, rows, *more):
        line = [self.args.fangorn, command, self.folder / "model.onnx", "--rows", rows, *self.options, *more]
        try:
            return subprocess.run([str(word) for word in line], capture_output=True, text=True)
        except OSError as error:
            raise Refused(f"{self.args.fangorn}: {error}") from None

    def open(self, batch):
        """Holds the sample's results against scikit-learn's."""
        done = self.run("predict", self.args.out / "sample.npy", "--expect", self.folder / "expected.npy")
        said = done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"]
        if done.returncode not in (0, 1):
            raise Refused(said[-1])
        return "" if done.returncode == 0 else f"differs: {said[-1]}"

    def time(self, batch, seconds):
        """Microseconds a call, on the wall."""
        more = [*self.timing, "--batch", str(batch), "--seconds", str(seconds), "--json"]
        done = self.run("bench", self.args.out / "rows.npy", *more)
        if done.returncode:
            raise Refused((done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1])
        return json.loads(done.stdout)["results"][0]["wall_us_per_row_median"] * batch

    def stop(self, kill=False):
        pass


class Peer:
    """A library in a process of its own, on one model."""

    def __init__(self, args, engine, folder, threads):
        self.args, self.folder = args, folder
        self.out = args.work / "scratch" / engine
        command = [peers.python_of(PEERS[engine], args), "-W", "ignore", HERE / "engines.py", engine]
        command += ["--model", folder / "model.onnx", "--rows", args.out / "rows.npy", "--out", self.out]
        command += ["--compiled", args.work / "compiled", "--threads", threads, "--check", 64]
        self.gone = None
        self.program = peers.Program(engine, [str(word) for word in command], self.out, threads)
        try:
            self.version = self.answer("engine")["version"]
        except BaseException:
            self.program.kill()
            raise

    def answer(self, kind):
        if self.gone:
            raise Refused(self.gone)
        try:
            answer = self.program.answer(self.args.timeout)
        except peers.Lost as error:
            self.gone = str(error)
            raise Refused(self.gone) from None
        if answer["kind"] != kind:
            raise Refused(answer["error"])
        return answer

    def open(self, batch):
        """Warms up, and holds results against scikit-learn's."""
        # No branch predictor learns the rows of so many single records.
        self.program.ask(f"open {batch} {xgboost_inplace.batches_of_pool(batch)} 0.2")
        answer = self.answer("opened")
        self.setting = answer["setting"]
        return self.compare(answer["written"]["outputs"])

    def compare(self, file):
        import numpy as np

        expected, found = np.load(self.folder / "expected.npy"), np.load(file)
        count = min(len(expected), len(found))
        expected, found = expected.reshape(len(expected), -1)[:count], found[:count]
        if self.folder.name in CLASSIFIERS:
            different = int((expected != found).sum())
            return f"differs: {different} labels of {count}" if different else ""
        worst = (np.abs(found - expected) / np.maximum(1, np.abs(expected))).max()
        return f"differs by up to {worst:.1e} of max(1, |expected|)" if not worst <= TOLERANCE else ""

    def time(self, batch, seconds):
        self.program.ask(f"time {seconds}")
        return statistics.median(self.answer("timed")["times"]["wall"])

    def stop(self, kill=False):
        self.program.kill() if kill else self.program.stop()


def in_turns(engines, batch, args, refuse):
    """Opens engines for a batch size and times them in turns: their checks, and medians of rounds in microseconds."""
    checks, times = {}, {}

    def attempt(name, what):
        try:
            return what()
        except Refused as why:
            refuse(name, str(why))
            checks.pop(name, None)
            times.pop(name, None)

    for name, engine in engines.items():
        check = attempt(name, lambda: engine.open(batch))
        if check is not None:
            checks[name], times[name] = check, []
    order = list(checks)
    for turn in range(args.rounds):
        # Each round is begun by another, so that what disturbs the machine disturbs all alike.
        shift = turn % max(1, len(order))
        for name in [n for n in order[shift:] + order[:shift] if n in times]:
            took = attempt(name, lambda: engines[name].time(batch, args.seconds / args.rounds))
            if took is not None:
                times[name].append(took)
    return checks, {name: statistics.median(each) for name, each in times.items()}


# ---------------------------------------------------------------- time


def of_model(args, folder, threads, engines, results, refused):
    """Starts `engines` on a model and times them."""
    name, batch = folder.name, None

    def refuse(engine, why):
        refused.append({"model": name, "threads": threads, "batch": batch, "engine": engine, "why": why})
        peers.note(f"{name}, {engine}: {why}")

    for engine in args.engines:
        try:
            ours = engine == OURS
            engines[engine] = Fangorn(args, folder, threads) if ours else Peer(args, engine, folder, threads)
        except Refused as why:
            refuse(engine, str(why))
    for batch in (args.rows, 1):
        peers.note(f"{name}, {threads} thread(s), batch {batch}")
        checks, times = in_turns(engines, batch, args, refuse)
        for engine, took in times.items():
            own = {"engine": engine, "setting": engines[engine].setting, "check": checks[engine]}
            results.append({"model": name, "threads": threads, "batch": batch, **own, "wall_us_per_call": took})
        peers.note(", ".join(f"{engine} {took:.1f} us{'†' * bool(checks[engine])}" for engine, took in times.items()))


def time(args):
    results, refused = [], []
    for threads in args.threads:
        for name in args.only:
            engines = {}
            try:
                of_model(args, args.out / name, threads, engines, results, refused)
            except BaseException:  # what a long call is in would outlive this
                for engine in engines.values():
                    engine.stop(kill=True)
                raise
            for engine in engines.values():
                engine.stop()
        # What there is so far is kept, should the next number of threads not come to its end.
        if args.json:
            about = {"machine": peers.machine(), "rows": args.rows, "seconds": args.seconds, "rounds": args.rounds}
            args.json.write_text(json.dumps({**about, "results": results, "refused": refused}, indent=1) + "\n")
    for threads in args.threads:
        for batch in (args.rows, 1):
            print(table(args, [r for r in results if (r["threads"], r["batch"]) == (threads, batch)], threads, batch))
    print(footnotes(results, refused))
    if args.plot:
        plot(args, results)
    differs = any(r["engine"] == OURS and r["check"] for r in results)
    return 1 if differs else 0 if results else 2


def digits(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def table(args, results, threads, batch):
    """A line an algorithm. Below are geometric means of how many times Fangorn's time an engine takes."""
    what, unit, of = (f"Batch of {batch} rows", "ms", 1e3) if batch > 1 else ("One record", "us", 1)
    times = {(r["model"], r["engine"]): r for r in results}
    lines = [f"**{what}, {threads} thread{'s' * (threads > 1)}, {unit}**\n"]
    lines.append("| algorithm | " + " | ".join(args.engines) + " | best peer / fangorn |")
    lines.append("|---" + "|--:" * (len(args.engines) + 1) + "|")
    ratios = {engine: [] for engine in [*PEERS, "best"]}
    for model in args.only:
        row = {e: times[model, e]["wall_us_per_call"] for e in args.engines if (model, e) in times}
        cells = []
        for engine in args.engines:
            if engine not in row:
                cells.append("-")
                continue
            shown = digits(row[engine] / of) + "†" * bool(times[model, engine]["check"])
            cells.append(f"**{shown}**" if row[engine] == min(row.values()) else shown)
        theirs = {engine: took for engine, took in row.items() if engine != OURS}
        ratio = None
        if OURS in row and theirs:
            ratio = min(theirs.values()) / row[OURS]
            ratios["best"].append(ratio)
            for engine, took in theirs.items():
                ratios[engine].append(took / row[OURS])
        lines.append(f"| {model} | " + " | ".join(cells) + f" | {f'{ratio:.2f}' if ratio else '-'} |")
    means = [mean(ratios[e]) if e != OURS else 1.0 for e in args.engines] + [mean(ratios["best"])]
    if ratios["best"]:
        shown = [f"{m:.2f}" if m else "-" for m in means]
        lines.append("| geometric mean, times fangorn's | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


def footnotes(results, refused):
    """What differs and what was refused, each with the models it is true of."""
    models = {}
    for r in results:
        if r["check"]:
            models.setdefault(f"† {r['engine']}, batch of {r['batch']}: {r['check']}", []).append(r["model"])
    for r in refused:
        models.setdefault(f"- {r['engine']}: {r['why']}", []).append(r["model"])
    return "\n\n".join(f"{said} ({', '.join(dict.fromkeys(names))})" for said, names in models.items())


def plot(args, results):
    """How many times Fangorn's time each engine takes; without Fangorn, how many times the fastest's."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot

    figure, grid = pyplot.subplots(
        len(args.threads), 2, figsize=(15, 4.2 * len(args.threads)), squeeze=False, layout="constrained"
    )
    for threads, axes in zip(args.threads, grid):
        for batch, axis in zip((args.rows, 1), axes):
            here = [r for r in results if (r["threads"], r["batch"]) == (threads, batch)]
            times = {(r["model"], r["engine"]): r["wall_us_per_call"] for r in here}
            width = 0.8 / len(args.engines)
            for at, engine in enumerate(args.engines):
                x, y = [], []
                for index, model in enumerate(args.only):
                    all_of = [took for (m, _), took in times.items() if m == model]
                    if (model, engine) in times:
                        x.append(index + (at - (len(args.engines) - 1) / 2) * width)
                        y.append(times[model, engine] / times.get((model, OURS), min(all_of)))
                axis.bar(x, y, width, label=engine)
            axis.set_yscale("log")
            axis.axhline(1, color="black", linewidth=0.8)
            axis.set_xticks(range(len(args.only)), args.only, rotation=40, ha="right")
            what = f"batch of {batch} rows" if batch > 1 else "one record"
            axis.set_title(f"{what}, {threads} thread{'s' * (threads > 1)}")
            axis.set_ylabel("times fangorn's time" if OURS in args.engines else "times the fastest's time")
    grid[0][0].legend()
    figure.savefig(args.plot)


# ---------------------------------------------------------------- passes


def passes(args):
    """Times with all default passes, with none, and with each left out: what a pass gains is the time without it."""
    variants = {"default": None, "none": "none"}
    variants.update({f"without {left}": ",".join(p for p in PASSES if p != left) for left in PASSES})
    found, refused = [], []
    for threads in args.threads:
        for batch in (args.rows, 1):
            what, unit, of = (f"Batch of {batch} rows", "ms", 1e3) if batch > 1 else ("One record", "us", 1)
            lines = [f"**{what}, {threads} thread{'s' * (threads > 1)}: {unit} by default, else times that**\n"]
            lines.append("| algorithm | " + " | ".join(variants) + " |")
            lines.append("|---" + "|--:" * len(variants) + "|")
            for name in args.only:
                peers.note(f"{name}, {threads} thread(s), batch {batch}")

                def refuse(variant, why):
                    refused.append(f"- {name}, batch {batch}, {variant}: {why}")
                    peers.note(refused[-1])

                engines = {v: Fangorn(args, args.out / name, threads, chosen) for v, chosen in variants.items()}
                checks, times = in_turns(engines, batch, args, refuse)
                facts = {"model": name, "threads": threads, "batch": batch}
                for variant, took in times.items():
                    more = {"variant": variant, "check": checks[variant], "wall_us_per_call": took}
                    found.append({**facts, **more})
                base = times.get("default")
                shown = [digits(base / of) if base else "-"]
                shown += [f"{times[v] / base:.2f}" if base and v in times else "-" for v in list(variants)[1:]]
                marks = ["†" * bool(checks.get(v)) for v in variants]
                lines.append(f"| {name} | " + " | ".join(s + m for s, m in zip(shown, marks)) + " |")
            print("\n".join(lines) + "\n", flush=True)
    notes = [f"† {f['model']}, {f['variant']}: {f['check']}" for f in found if f["check"]] + refused
    print("\n\n".join(dict.fromkeys(notes)))
    if args.json:
        args.json.write_text(json.dumps({"machine": peers.machine(), "results": found}, indent=1) + "\n")
    return 1 if any(f["check"] for f in found) else 0 if found else 2


# ---------------------------------------------------------------- the command


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    raw = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    for name, text, example in (
        ("make", "Trains the models and saves them in OUT.", "make target/classical-models --only LinearSVR"),
        ("time", "Times every engine on the models of OUT, and prints tables 5 and 6.",
         "time target/classical-models --threads 1,2 --json classical.json --plot classical.svg"),
        ("passes", "Times Fangorn with and without each pass (figure 7).", "passes target/classical-models --threads 1"),
    ):
        example = f"Example:\n  python3 benches/classical/run.py {example}"
        command = commands.add_parser(name, help=text, description=text, epilog=example, **raw)
        add = command.add_argument
        add("out", type=pathlib.Path, metavar="OUT", help="the folder of the models")
        add("--only", metavar="NAME,…", help="algorithms (default: all 14)")
        add("--work", type=pathlib.Path, default=ROOT / "target" / "classical-bench", help="environments and scratch")
        add("--python", action="append", default=[], metavar="ENVIRONMENT=FILE",
            help="a Python in index of an environment: peers or hummingbird")
        if name == "make":
            continue
        add("--fangorn", type=pathlib.Path, default=ROOT / "target/release/fangorn", metavar="FILE",
            help="the program (default: target/release/fangorn)")
        add("--threads", default="1", help="numbers of threads of each engine, separated by commas (default: %(default)s)")
        add("--seconds", type=float, default=3.0, help="time for each engine and batch size (default: %(default)s)")
        add("--rounds", type=int, default=5, help="turns that this time is cut into (default: %(default)s)")
        add("--json", type=pathlib.Path, metavar="FILE", help="also writes the figures there")
        if name == "time":
            add("--engines", help=f"of {', '.join(ENGINES)} (default: all)")
            add("--plot", type=pathlib.Path, metavar="FILE", help="draws the figures as .svg or .png")
            add("--timeout", type=float, default=900, help="seconds to wait for an answer (default: %(default)s)")
    args = parser.parse_args()
    args.only = args.only.split(",") if args.only else list(ALGORITHMS)
    for name in [n for n in args.only if n not in ALGORITHMS]:
        parser.error(f"unknown algorithm {name}; there are {', '.join(ALGORITHMS)}")
    try:
        args.python = {k: pathlib.Path(os.path.abspath(v)) for k, v in (pair.split("=", 1) for pair in args.python)}
        if args.command != "make":
            args.threads = [int(t) for t in args.threads.split(",")]
            if min(*args.threads, args.rounds) < 1 or args.seconds <= 0:
                raise ValueError
    except ValueError:
        parser.error("--python takes ENVIRONMENT=FILE, --threads and --rounds whole numbers from 1, --seconds a number above 0")
    if args.command == "time":
        args.engines = args.engines.split(",") if args.engines else list(ENGINES)
        for name in [e for e in args.engines if e not in ENGINES]:
            parser.error(f"unknown engine {name}; the engines are {', '.join(ENGINES)}")
    for name in ("out", "work", "fangorn", "json", "plot"):
        if getattr(args, name, None) is not None:
            setattr(args, name, pathlib.Path(os.path.abspath(getattr(args, name))))
    if args.command != "make":
        missing = [n for n in args.only if not (args.out / n / "expected.npy").is_file()]
        if missing:
            parser.error(f"{args.out} has no model of {', '.join(missing)}; run.py make {args.out} trains it")
        if OURS in getattr(args, "engines", [OURS]) and not args.fangorn.is_file():
            parser.error(f"{args.fangorn} is not there; cargo build --release makes it, --fangorn names another")
    return args


def main():
    args = arguments()
    # Peers have sessions of their own: they are ended with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A kind of core that is set for another machine slows the peers' products of matrices.
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(name, None)
    python = peers.environment("peers", args, HERE / "requirements")
    if python is None:
        return 2
    if args.command == "make":
        line = [python, "-W", "ignore", HERE / "models.py", args.out, "--only", ",".join(args.only)]
        return subprocess.run([str(word) for word in line]).returncode
    # Rows, comparisons and the plot are that environment's.
    if os.environ.get("FANGORN_CLASSICAL_BENCH") != str(python):
        os.environ["FANGORN_CLASSICAL_BENCH"] = str(python)
        os.execv(python, [str(python), "-W", "ignore", str(HERE / "run.py"), *sys.argv[1:]])
    import numpy as np

    args.rows = len(np.load(args.out / "rows.npy", mmap_mode="r"))
    if args.command == "passes":
        return passes(args)
    for engine in [e for e in args.engines if e in PEERS and not peers.environment(PEERS[e], args, HERE / "requirements")]:
        peers.note(f"{engine}: nothing to run it with; left out")
        args.engines.remove(engine)
    return time(args)


if __name__ == "__main__":
    sys.exit(main())
