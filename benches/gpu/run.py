#!/usr/bin/env python3
"""Times Fangorn on a GPU beside nvForest, XGBoost and Hummingbird.

One command: it makes a virtual environment for each engine, builds
fangorn-benches for each device, makes the models, times every engine on every
model and batch size, holds their margins and leaves against each other, and
writes results.tsv, results.md, results.png and results.svg. benches/gpu/README.md
says what is measured and what the columns mean.

An engine that is missing, or a GPU, is named in one line and left out. Exit
status: 0; 1 where results differ that must not; 2 where nothing could be run.

Examples:
  python3 benches/gpu/run.py                              everything, hours
  python3 benches/gpu/run.py --dry-run                    print what would be done
  python3 benches/gpu/run.py --only higgs --batch 512     one model, one batch size
  python3 benches/gpu/run.py --models DIR                 real models in place of synthetic ones
  python3 benches/gpu/run.py --device cpu --quick --batch 64,256 --seconds 0.1
                                                          try it out without a GPU; figures mean nothing
"""

import argparse
import datetime
import importlib.util
import json
import os
import pathlib
import platform
import queue
import shlex
import shutil
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BATCHES = "512,4096,32768,262144,1048576"
PEERS = {"nvforest": "nvforest", "xgboost": "xgboost", "xgboost-dmatrix": "xgboost", "hummingbird": "hummingbird"}
OURS = ["fangorn-cuda", "fangorn-vulkan", "fangorn-wgpu", "fangorn-metal", "fangorn-rocm"]
MODELS = ["higgs", "airline", "year", "bosch", "epsilon", "letters", "letters-26000", "covtype", "thousand"]
COLUMNS = (
    "date commit machine gpu driver engine version model origin trees features outputs batch setting metric "
    "median_us min_us samples check"
).split()
SOFTWARE = ("llvmpipe", "lavapipe", "softpipe", "swiftshader")


def note(text):
    print(f"run.py: {text}", file=sys.stderr, flush=True)


def first_line(command):
    """The first line that a command prints, or none where it does not run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else None


def gpu():
    """The first NVIDIA GPU's name and driver."""
    line = first_line(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"])
    return [part.strip() for part in line.split(",")] if line else None


def processor():
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


# ---------------------------------------------------------------- environments and builds


def environment(name, args):
    """The Python of an engine's environment, made where it is missing; none where that fails."""
    if args.python:
        return args.python
    folder = args.work / "venvs" / f"{name}-{args.device}"
    python = folder / "bin" / "python"
    wanted = [HERE / "requirements" / f"{name}.txt"]
    if args.device == "cuda" and name == "xgboost":
        wanted.append(HERE / "requirements" / "cupy.txt")
    stamp = folder / "made"
    text = "".join(file.read_text() for file in wanted)
    if stamp.is_file() and stamp.read_text() == text:
        return python
    note(f"making the environment of {name}")
    commands = [
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        + [word for file in wanted for word in ("-r", str(file))],
    ]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            note(f"{name}: its environment can't be made ({lines[-1]}); left out")
            return None
    stamp.write_text(text)
    return python


def build_command(feature):
    return ["cargo", "build", "--release", "--locked", "-p", "fangorn-benches", "--features", feature]


def build(feature, args):
    """The program with a device's feature; none where it can't be built."""
    if feature in args.fangorn:
        return args.fangorn[feature]
    note(f"building fangorn-benches with the feature {feature}")
    command = build_command(feature) + ["--message-format", "json-render-diagnostics"]
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        note(f"fangorn-{feature}: {error}; left out")
        return None
    if done.returncode:
        note(f"fangorn-{feature}: it can't be built, see above; left out")
        return None
    made = [json.loads(line) for line in done.stdout.splitlines() if '"executable":"' in line]
    built = next(m["executable"] for m in made if m["target"]["name"] == "fangorn-benches")
    # The next feature's build takes its place.
    kept = args.work / "bin" / f"fangorn-benches-{feature}"
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(built, kept)
    return kept


# ---------------------------------------------------------------- rows


def fill(np, rows, count, file):
    """`count` rows: those given, then the same again with each number off by at most one part in 1000. Columns of whole
    numbers, which are categories or counts, stay."""
    out = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=(count, rows.shape[1]))
    rng = np.random.default_rng(1)
    present = np.where(np.isfinite(rows), rows, 0)
    moves = (present != np.rint(present)).any(axis=0)
    for first in range(0, count, len(rows)):
        more = rows[: count - first]
        if first:
            more = more.copy()
            more[:, moves] *= 1 + rng.uniform(-1e-3, 1e-3, (len(more), int(moves.sum()))).astype(np.float32)
        out[first : first + len(more)] = more
    out.flush()


# ---------------------------------------------------------------- programs


class Lost(Exception):
    """A program that is gone, or does not answer."""


class Program:
    """An engine's program, which answers requests."""

    def __init__(self, engine, command, out, timeout):
        self.engine, self.command, self.timeout = engine, command, timeout
        out.mkdir(parents=True, exist_ok=True)
        self.log = open(out / "stderr.txt", "w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, cwd=ROOT
        )
        self.answers = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put(None)

    def answer(self):
        try:
            line = self.answers.get(timeout=self.timeout)
        except queue.Empty:
            self.stop()
            raise Lost(f"no answer in {self.timeout:.0f} s") from None
        if line is None:
            code = self.process.wait()
            self.log.seek(0)
            said = self.log.read().strip().splitlines()
            raise Lost(said[-1] if said else f"it ended with status {code}")
        return json.loads(line)

    def ask(self, request):
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # the answer says why

    def stop(self):
        self.ask("quit")
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def command_of(engine, tools, folder, rows, out, args, skipped=()):
    common = ["--model", folder / "model.json", "--rows", rows, "--out", out, "--check", args.check]
    if engine in PEERS:
        command = [tools[engine], "-W", "ignore", HERE / "worker.py", engine, *common, "--device", args.device]
    else:
        backend = engine.removeprefix("fangorn-")
        command = [tools[engine], "gpu", *common, "--backend", backend, "--serve", "--schedule", args.schedule]
        command += ["--patience", args.patience]
        command += ["--skip", ",".join(skipped)] if skipped else []
    return [str(word) for word in command]


class Engine:
    """One engine on one model, through as many programs as it takes."""

    def __init__(self, name, tools, folder, rows, out, args):
        self.name, self.out, self.args = name, out, args
        self.command = lambda skipped: command_of(name, tools, folder, rows, out, args, skipped)
        self.skipped, self.program, self.failed = [], None, None
        self.version = self.device = ""

    def start(self):
        try:
            self.program = Program(self.name, self.command(self.skipped), self.out, self.args.timeout)
            hello = self.program.answer()
            if hello["kind"] != "device":
                raise Lost(hello.get("error", "no word of its device"))
        except (Lost, OSError) as error:
            self.give_up(str(error))
            return False
        self.version, self.device = hello["version"], hello["device"]
        # Figures of a software driver are no figures.
        if self.args.device == "cuda" and any(s in self.device.lower() for s in SOFTWARE):
            self.give_up(f"its device is {self.device}, a software driver; --device cpu tries things out on it")
            return False
        return True

    def give_up(self, why):
        note(f"{self.name}: {why}; left out")
        self.failed = why
        self.stop()

    def stop(self):
        if self.program:
            self.program.stop()
            self.program = None

    def open(self, batch):
        """What the engine says of a batch: its trials, and the answer that it is ready or why not."""
        for _ in range(4):
            trials = []
            try:
                if not self.program and not self.start():
                    return [], {"kind": "failed", "error": self.failed}
                self.program.ask(f"open {batch} {self.args.trial}")
                while True:
                    answer = self.program.answer()
                    if answer["kind"] in ("opened", "failed"):
                        return trials, answer
                    trials.append(answer)
                    if answer["kind"] == "lost":
                        self.skipped.append(answer["schedule"])
            except Lost as error:
                lost = [t for t in trials if t["kind"] == "lost"]
                why = f"{lost[0]['schedule']}: {lost[0]['error']}" if lost else str(error)
                note(f"{self.name}: batch {batch}: {why}; started again")
                self.stop()
                if not lost:
                    return trials, {"kind": "failed", "error": str(error)}
        return [], {"kind": "failed", "error": "the device was lost four times"}

    def time(self, seconds):
        try:
            self.program.ask(f"time {seconds}")
            return self.program.answer()
        except Lost as error:
            note(f"{self.name}: {error}; started again")
            self.stop()
            return {"kind": "failed", "error": str(error)}


# ---------------------------------------------------------------- checks


def lone_leaves(model):
    """Trees that are one leaf."""
    trees = json.loads(model.read_text())["learner"]["gradient_booster"]["model"]["trees"]
    return [i for i, tree in enumerate(trees) if len(tree["left_children"]) == 1]


def unlike(np, ours, theirs, exact, skipped=()):
    """Leaves that differ. Where numbers are the engine's own, each of ours has to be one of theirs, tree by tree."""
    count = min(len(ours), len(theirs))
    ours, theirs = ours[:count], theirs[:count]
    if exact:
        return int((ours != theirs).sum())
    wrong = 0
    for tree in range(ours.shape[1]):
        pairs = np.unique(np.stack([ours[:, tree], theirs[:, tree]]), axis=1)
        repeated = [pairs.shape[1] - len(np.unique(side)) for side in pairs]
        wrong += 0 if tree in skipped else max(repeated)
    return wrong


def compare(np, engine, model, reference, written):
    """`ok`, or what is wrong with an engine's results, held against the reference's."""
    own = np.load(written["margins"])
    margins = np.load(reference["margins"])
    if own.shape != margins.shape:
        return f"differs: margins of shape {own.shape}, not {margins.shape}"
    wrong = []
    # Either sum may be off by the bound.
    apart = np.abs(own.astype(np.float64) - margins)
    over = ~(apart <= 2 * np.array(reference["bound"])[None, :])
    rows = np.load(reference["row_bound"])
    over[: len(rows)] |= ~(apart[: len(rows)] <= 2 * rows)
    if over.any():
        wrong.append(f"{int(over.any(axis=1).sum())} of {len(own)} rows beyond a sum's bound, by up to {np.nanmax(apart):.3g}")
    if "leaves" in written:
        exact = engine != "nvforest"
        # nvForest makes a split of a lone leaf.
        skipped = [] if exact else lone_leaves(model)
        differ = unlike(np, np.load(reference["leaves"]), np.load(written["leaves"]), exact, skipped)
        if differ:
            wrong.append(f"{differ} leaves are others")
    if written.get("leaves_unlike_cpu"):
        wrong.append(f"{written['leaves_unlike_cpu']} leaves unlike the CPU's")
    return "differs: " + ", ".join(wrong) if wrong else "ok" + (", leaves too" if "leaves" in written else "")


def may_differ(engine, meta):
    """Hummingbird sends missing values to the right, whatever the model says."""
    return engine == "hummingbird" and meta["missing"]


# ---------------------------------------------------------------- the run


class Table:
    """results.tsv, written row by row."""

    def __init__(self, file, facts):
        self.facts = facts
        self.file = open(file, "w")
        print("\t".join(COLUMNS), file=self.file, flush=True)

    def row(self, **values):
        values = {**self.facts, **values}
        cells = [" ".join(str(values.get(c, "")).split()) for c in COLUMNS]
        print("\t".join(cells), file=self.file, flush=True)


def median(values):
    return sorted(values)[len(values) // 2]


def run_model(np, name, engines, tools, folder, args, table):
    """Times all engines on a model; gives whether all results agree."""
    meta = json.loads((folder / "meta.json").read_text())
    batches = [b for b in args.batch if b * meta["features"] * 4 <= args.most_bytes]
    for batch in args.batch:
        if batch not in batches:
            note(f"{name}: a batch of {batch} is more than --most-bytes {args.most_bytes}; left out")
    if not batches:
        return True
    scratch = args.work / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    rows = scratch / "rows.npy"
    fill(np, np.load(folder / "rows.npy"), max(batches), rows)
    running = [Engine(e, tools, folder, rows, scratch / e, args) for e in engines]
    running = [engine for engine in running if engine.start()]
    agree = True
    try:
        for batch in batches:
            agree &= run_batch(np, folder, meta, batch, running, args, table)
    finally:
        for engine in running:
            engine.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    return agree


def run_batch(np, folder, meta, batch, running, args, table):
    name = folder.name
    outputs = 0
    opened, reference = {}, None
    agree = True
    for engine in running:
        trials, answer = engine.open(batch)
        facts = {
            "engine": engine.name,
            "version": engine.version,
            "model": name,
            "origin": meta["origin"],
            "trees": meta["trees"],
            "features": meta["features"],
            "batch": batch,
        }
        for t in trials:
            if t["kind"] == "schedule":
                times = t["resident_us"]
                table.row(
                    **facts,
                    setting=t["schedule"],
                    metric="trial",
                    median_us=f"{times['median']:.3f}",
                    min_us=f"{times['min']:.3f}",
                    samples=times["samples"],
                )
            else:
                table.row(**facts, setting=t["schedule"], metric="refused", check=t["error"])
        if answer["kind"] == "failed":
            note(f"{name}, batch {batch}, {engine.name}: {answer['error']}")
            table.row(**facts, metric="failed", check=answer["error"])
            continue
        written = answer["written"]
        if reference is None and "row_bound" in written:
            reference = written
            outputs = len(written["bound"])
        if reference is None:
            check = "nothing to compare with"
        else:
            check = compare(np, engine.name, folder / "model.json", reference, written)
        if check.startswith("differs"):
            note(f"{name}, batch {batch}, {engine.name}: {check}")
            agree &= may_differ(engine.name, meta)
        facts.update(setting=answer["setting"], check=check, outputs=outputs or "")
        first = answer["first_ms"] * 1e3
        table.row(**facts, metric="first", median_us=f"{first:.0f}", min_us=f"{first:.0f}", samples=1)
        opened[engine] = (facts, {"resident": [], "queued": [], "device": [], "total": []})
    # In turns, each round begun by another engine, so that what disturbs the machine disturbs all alike.
    order = list(opened)
    for turn in range(args.rounds):
        shift = turn % max(1, len(order))
        for engine in order[shift:] + order[:shift]:
            if engine not in opened:
                continue
            answer = engine.time(args.seconds / args.rounds)
            if answer["kind"] == "failed":
                facts, _ = opened.pop(engine)
                note(f"{name}, batch {batch}, {engine.name}: {answer['error']}")
                table.row(**{**facts, "metric": "failed", "check": answer["error"]})
                continue
            for metric, times in answer["times"].items():
                opened[engine][1][metric] += times
    for engine, (facts, times) in opened.items():
        for metric, values in times.items():
            if values:
                table.row(
                    **facts,
                    metric=metric,
                    median_us=f"{median(values):.3f}",
                    min_us=f"{min(values):.3f}",
                    samples=len(values),
                )
        resident = median(times["resident"])
        print(f"{name:14} {batch:8} {engine.name:16} {resident:12.1f} us  {facts['setting']}", flush=True)
    return agree


def size(text):
    """A number of bytes: 512m, 2g."""
    scale = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}.get(text[-1:].lower(), 1)
    return int(float(text.rstrip("kmgKMG")) * scale)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--only", help=f"models, separated by commas (default: {','.join(MODELS)})")
    add("--batch", default=BATCHES, help="batch sizes, separated by commas (default: %(default)s)")
    add("--engines", help=f"of {', '.join(OURS + list(PEERS))} (default: cuda and vulkan of ours, and all others)")
    add("--models", type=pathlib.Path, metavar="DIR", help="a folder of real models, used where it has one")
    add("--quick", action="store_true", help="small models, for trying things out")
    add("--schedule", default="all", help="what our engines try: all, presets, or files (default: %(default)s)")
    add("--seconds", type=float, default=3.0, help="time for each engine and batch size (default: %(default)s)")
    add("--rounds", type=int, default=5, help="turns that this time is cut into (default: %(default)s)")
    add("--trial", type=float, default=0.2, help="seconds to try each schedule for (default: %(default)s)")
    add("--patience", type=float, default=60, help="seconds a schedule's first call may take (default: %(default)s)")
    add("--timeout", type=float, default=1800, help="seconds to wait for an answer (default: %(default)s)")
    add("--most-bytes", type=size, default="2g", help="batches of more bytes are left out (default: 2g)")
    add("--check", type=int, default=4096, help="rows whose leaves are compared (default: %(default)s)")
    add("--device", default="cuda", choices=["cuda", "cpu"], help="cpu: software driver and peers on the CPU, to try things out")
    add("--work", type=pathlib.Path, default=ROOT / "target" / "gpu-bench", help="environments, models, scratch")
    add("--out", type=pathlib.Path, help="the folder for results (default: results in the work folder)")
    add("--python", type=pathlib.Path, help="one Python that has the engines, in place of environments")
    add("--fangorn", action="append", default=[], metavar="FEATURE=FILE", help="a program in place of a build")
    add("--dry-run", action="store_true", help="print what would be done")
    args = parser.parse_args()
    try:
        args.batch = sorted({int(b) for b in args.batch.split(",")})
        args.fangorn = {k: pathlib.Path(v) for k, v in (pair.split("=", 1) for pair in args.fangorn)}
    except ValueError:
        parser.error("--batch takes whole numbers, --fangorn FEATURE=FILE")
    if args.batch[0] < 1 or args.rounds < 1 or args.seconds <= 0:
        parser.error("batch sizes and rounds are whole numbers from 1, --seconds is above 0")
    ours = ["fangorn-cuda", "fangorn-vulkan"] if args.device == "cuda" else ["fangorn-wgpu"]
    # Without an NVIDIA GPU only what is asked for by name runs, on another's.
    args.named = args.engines.split(",") if args.engines else []
    args.engines = args.named or ours + list(PEERS)
    args.only = args.only.split(",") if args.only else MODELS
    for name in [e for e in args.engines if e not in OURS and e not in PEERS]:
        parser.error(f"unknown engine {name}; the engines are {', '.join(OURS + list(PEERS))}")
    for name in [m for m in args.only if m not in MODELS]:
        parser.error(f"unknown model {name}; the models are {', '.join(MODELS)}")
    if args.models and not args.models.is_dir():
        parser.error(f"{args.models} is not a folder")
    for name in ("work", "out", "models", "python"):
        value = getattr(args, name)
        if value is not None:
            # A virtual environment's Python is a link: followed, it would be another.
            setattr(args, name, pathlib.Path(os.path.abspath(value)))
    args.fangorn = {k: pathlib.Path(os.path.abspath(v)) for k, v in args.fangorn.items()}
    args.out = args.out or args.work / "results"
    # Ours first: the others are held against it.
    args.engines.sort(key=lambda e: e in PEERS)
    return args


def models_command(python, args):
    command = [python, HERE / "models.py", "--out", args.work / "models", "--only", ",".join(args.only)]
    command += ["--models", args.models] if args.models else []
    command += ["--quick"] if args.quick else []
    return [str(word) for word in command]


def dry_run(args, found):
    """Prints what would be done."""
    print(f"GPU: {', '.join(found) if found else 'none answers nvidia-smi'}")
    tools = {}
    for name in dict.fromkeys(["xgboost"] + [PEERS[e] for e in args.engines if e in PEERS]):
        tools[name] = args.python or args.work / "venvs" / f"{name}-{args.device}" / "bin" / "python"
        if not args.python:
            print(f"environment of {name}: {tools[name]}, from {HERE / 'requirements' / f'{name}.txt'}")
    print(shlex.join(models_command(tools["xgboost"], args)))
    for engine in args.engines:
        feature = engine.removeprefix("fangorn-")
        if engine not in PEERS:
            tools[engine] = args.fangorn.get(feature, args.work / "bin" / f"fangorn-benches-{feature}")
            if feature not in args.fangorn:
                print(shlex.join(build_command(feature)))
    programs = {e: tools[PEERS[e]] if e in PEERS else tools[e] for e in args.engines}
    for name in args.only:
        for engine in args.engines:
            folder, scratch = args.work / "models" / name, args.work / "scratch"
            command = command_of(engine, programs, folder, scratch / "rows.npy", scratch / engine, args)
            print(shlex.join(command))
    print(f"batches {', '.join(map(str, args.batch))}, at most {args.most_bytes} bytes of rows")
    print(f"results: {args.out / 'results.tsv'}, .md, .png, .svg")


def main():
    args = arguments()
    found = gpu()
    if args.dry_run:
        return dry_run(args, found)
    if args.device == "cuda" and not found:
        left = [e for e in args.named if e in OURS[1:]]
        note(f"no NVIDIA GPU answers nvidia-smi; left out: {', '.join(e for e in args.engines if e not in left)}")
        args.engines = left
        if not left:
            note("nothing is left to run; --device cpu tries things out without a GPU")
            return 2
    # Models, comparisons and the plot are XGBoost's environment's.
    python = environment("xgboost", args)
    if python is None:
        return 2
    if importlib.util.find_spec("numpy") is None:
        if os.environ.get("FANGORN_GPU_BENCH"):
            note(f"{python} has no numpy; install {HERE / 'requirements' / 'xgboost.txt'}")
            return 2
        os.environ["FANGORN_GPU_BENCH"] = "1"
        os.execv(python, [str(python), str(HERE / "run.py"), *sys.argv[1:]])
    import numpy as np

    sys.path.insert(0, str(HERE))
    import report

    tools = {}
    for engine in args.engines:
        is_peer = engine in PEERS
        tool = environment(PEERS[engine], args) if is_peer else build(engine.removeprefix("fangorn-"), args)
        if tool is not None:
            tools[engine] = tool
    if not tools:
        note("no engine is left to run")
        return 2
    if subprocess.run(models_command(python, args)).returncode:
        note("the models can't be made, see above")
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    tested = "" if args.device == "cuda" else "no GPU: a trial of the bench, not a measurement"
    facts = {
        "date": datetime.date.today().isoformat(),
        "commit": first_line(["git", "describe", "--always", "--dirty", "--exclude", "*"]) or "unknown",
        "machine": f"{processor()}, {os.cpu_count()} threads, {platform.system()}",
        "gpu": tested or (found[0] if found else "unknown"),
        "driver": "" if tested or not found else found[1],
    }
    table = Table(args.out / "results.tsv", facts)
    begin = time.perf_counter()
    engines = [e for e in args.engines if e in tools]
    agree = [
        run_model(np, name, engines, tools, args.work / "models" / name, args, table)
        for name in args.only
    ]
    note(f"{time.perf_counter() - begin:.0f} s")
    report.write(args.out / "results.tsv")
    return 0 if all(agree) else 1


if __name__ == "__main__":
    sys.exit(main())
