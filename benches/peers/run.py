#!/usr/bin/env python3
"""Times Fangorn on the CPU beside other engines.

One command: it makes virtual environments with pinned versions, builds
fangorn-benches, times every engine on every model and batch size in turns,
holds their results against ours, and writes results.tsv, results.md,
results.png and results.svg. benches/peers/README.md says what is measured and
what the columns mean.

An engine that can't be installed or can't take a model is named with the
reason, here and in the results, and left out. Exit status: 0; 1 where results
differ that must not; 2 where nothing could be run.

Examples:
  python3 benches/peers/run.py --own                             models made here, a thread, hours
  python3 benches/peers/run.py --zoo DIR --dry-run               print what would be done
  python3 benches/peers/run.py --zoo DIR --own --threads 2       on the wall, two threads each
  python3 benches/peers/run.py --zoo tests/zoo --only churn --batch 64 --seconds 0.5
                                                                 one small model, minutes
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

import xgboost_inplace

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OURS = "fangorn"
# engine -> the environment it lives in
PEERS = {
    "xgboost": "peers",
    "lightgbm": "peers",
    "catboost": "peers",
    "onnxruntime": "peers",
    "treelite": "peers",
    "tl2cgen": "peers",
    "tl2cgen-quantize": "peers",
    "lleaves": "lleaves",
    "onedal": "peers",
    "scikit-learn": "peers",
    "hummingbird": "hummingbird",
}
ENGINES = [OURS, *PEERS]
ZOO = (
    "xgb-higgs xgb-airline xgb-airline-ohe xgb-year xgb-bosch xgb-epsilon xgb-letters xgb-covtype lgb-higgs "
    "lgb-multiclass lgb-adult-categorical cat-higgs sk-random-forest-onnx sk-extra-trees-onnx"
).split()
OWN = (
    "own-friedman own-letters-26000 own-sparse own-thousand own-leafwise own-oblivious own-forest own-forest-classes"
).split()
COLUMNS = (
    "date commit machine threads engine version model trees features outputs batch setting metric unit "
    "median least samples check"
).split()


def note(text):
    print(f"\r\033[Krun.py: {text}" if sys.stderr.isatty() else f"run.py: {text}", file=sys.stderr, flush=True)


class Progress:
    """A line of what is done, on a terminal."""

    def __init__(self, turns):
        self.turns, self.done, self.begin = turns, 0, time.perf_counter()

    def show(self, text):
        if sys.stderr.isatty():
            passed = time.perf_counter() - self.begin
            left = passed / self.done * (self.turns - self.done) / 60 if self.done else 0
            about = f", about {left:.0f} min left" if self.done > 20 else ""
            share = 100 * self.done // max(1, self.turns)
            print(f"\r\033[K{share:3}% {text}{about}", end="", file=sys.stderr, flush=True)

    def advance(self, text, count=1):
        self.done += count
        self.show(text)

    def clear(self):
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


# ---------------------------------------------------------------- the machine


def first_line(command):
    """The first line that a command prints, or none where it does not run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else None


def read(path):
    try:
        return pathlib.Path(path).read_text().strip()
    except OSError:
        return ""


def machine():
    """What figures depend on, as far as Linux says it."""
    info = {}
    for line in read("/proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        info.setdefault(key.strip(), value.strip())
    telling = ("sse4_2", "avx", "avx2", "fma", "bmi2", "f16c", "avx512", "avx_vnni", "amx", "asimd", "sve")
    flags = (info.get("flags") or info.get("Features") or "").split()
    caches = []
    for index in range(8):
        cache = f"/sys/devices/system/cpu/cpu0/cache/index{index}"
        if size := read(f"{cache}/size"):
            kind = read(f"{cache}/type").lower()
            shared = read(f"{cache}/shared_cpu_list")
            caches.append(f"L{read(f'{cache}/level')} {kind} {size} (CPU {shared})")
    memory = read("/proc/meminfo").partition("MemTotal:")[2].split()
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": info.get("model name") or platform.processor() or platform.machine(),
        "family, model, stepping": ", ".join(info.get(k, "?") for k in ("cpu family", "model", "stepping")),
        "flags": " ".join(f for f in flags if f in telling or f.startswith(("avx512", "amx"))),
        "cores": f"{os.cpu_count()}, of which {allowed} may be used; {info.get('cpu cores', '?')} a socket",
        "caches of one": "; ".join(caches),
        "memory": f"{int(memory[0]) / 2**20:.0f} GiB" if memory else "unknown",
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "unknown",
        "virtual": "yes" if "hypervisor" in flags else "no",
        "system": f"{platform.system()} {platform.release()}",
        "rustc": first_line(["rustc", "--version"]) or "none",
        "C compiler": first_line(["gcc", "--version"]) or first_line(["clang", "--version"]) or "none",
        "python": platform.python_version(),
        "load at the start": " ".join(f"{load:.2f}" for load in os.getloadavg()),
    }


# ---------------------------------------------------------------- environments and builds


def python_of(name, args):
    return args.python.get(name) or args.work / "venvs" / name / "bin" / "python"


def environment(name, args, requirements=HERE / "requirements"):
    """The Python of an environment, made where it is missing; none where that fails."""
    python = python_of(name, args)
    if name in args.python:
        return python
    folder = args.work / "venvs" / name
    wanted = requirements / f"{name}.txt"
    stamp = folder / "made"
    if stamp.is_file() and stamp.read_text() == wanted.read_text():
        return python
    note(f"making the environment {name}")
    done = subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], capture_output=True, text=True)
    if done.returncode:
        note(f"{name}: {last_line(done)}")
        return None
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]
    done = subprocess.run([*install, "-r", str(wanted)], capture_output=True, text=True)
    if done.returncode:
        # One that there is no wheel of for this machine should not take the others with it.
        note(f"{name}: {last_line(done)}; its packages are installed one by one")
        lines = [line for line in wanted.read_text().splitlines() if line and not line.startswith("#")]
        options = [word for line in lines if line.startswith("-") for word in line.split()]
        for package in [line for line in lines if not line.startswith("-")]:
            done = subprocess.run([*install, *options, package], capture_output=True, text=True)
            if done.returncode:
                note(f"{name}: {package} can't be installed ({last_line(done)}); engines that need it are left out")
    stamp.write_text(wanted.read_text())
    return python


def last_line(done):
    lines = [line for line in (done.stderr or done.stdout).strip().splitlines() if line]
    errors = [line for line in lines if "ERROR" in line]
    return (errors or lines or ["no message"])[-1]


BUILD = ["cargo", "build", "--release", "--locked", "-p", "fangorn-benches"]


def made(command, kept):
    """The program that a build makes, kept where the next build does not take its place; none where the build fails."""
    done = subprocess.run(command + ["--message-format", "json-render-diagnostics"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return None
    programs = [json.loads(line) for line in done.stdout.splitlines() if '"executable":"' in line]
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(next(m["executable"] for m in programs if m["target"]["name"] == "fangorn-benches"), kept)
    return kept


def build(args):
    """Our program; none where it can't be built."""
    if args.fangorn:
        return args.fangorn
    note("building fangorn-benches")
    try:
        program = made(BUILD, args.work / "bin" / "fangorn-benches")
    except OSError as error:
        note(f"{OURS}: {error}; left out")
        return None
    if program is None:
        note(f"{OURS}: it can't be built, see above; left out")
    return program


# ---------------------------------------------------------------- programs


class Lost(Exception):
    """A program that is gone, or does not answer."""


class Program:
    """An engine's program on one model, which answers requests."""

    def __init__(self, engine, command, out, threads):
        self.engine = engine
        out.mkdir(parents=True, exist_ok=True)
        self.log = open(out / "stderr.txt", "w+")
        pools = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "RAYON")
        limits = {f"{pool}_NUM_THREADS": str(threads) for pool in pools}
        # A session of its own, so that compilers it started end with it.
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, cwd=ROOT,
            env={**os.environ, **limits}, start_new_session=True,
        )
        self.answers = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put(None)

    def answer(self, timeout):
        try:
            line = self.answers.get(timeout=timeout)
        except queue.Empty:
            self.kill()
            raise Lost(f"no answer in {timeout:.0f} s") from None
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

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def stop(self):
        self.ask("quit")
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()
        self.log.close()


def command_of(engine, tools, file, rows, out, args):
    common = ["--model", file, "--rows", rows, "--out", out, "--threads", args.threads, "--check", args.check]
    if engine == OURS:
        command = [tools[engine], "cpu", "--serve", *common, "--schedule", args.schedule]
    else:
        worker = [tools[PEERS[engine]], "-W", "ignore", HERE / "worker.py", engine]
        command = [*worker, *common, "--compiled", args.work / "compiled" / engine]
    return [str(word) for word in command]


# ---------------------------------------------------------------- models and rows


def model_file(folder):
    files = sorted(file for file in folder.glob("model.*") if file.suffix != ".joblib")
    return files[0] if files else None


def models_of(args):
    """The folders of the models to run, and what is missing."""
    named, found = args.only or [], []
    own = [name for name in OWN if args.own and (not named or name in named)]
    if args.zoo:
        for name in [n for n in named if n not in OWN] or ([] if named else ZOO):
            folder = args.zoo / name
            if model_file(folder) and (folder / "rows.npy").is_file():
                found.append(folder)
            else:
                note(f"{name}: no model and rows in {folder}; left out")
    return found, own


def write_rows(np, convert, file, rows, args, out):
    """Writes the pool of rows that all engines go through."""
    categories = convert.categories(file)
    kinds = ["c" if column in categories else "q" for column in range(rows.shape[1])]
    count = max(batch * xgboost_inplace.batches_of_pool(batch) for batch in args.batch)
    np.save(out, xgboost_inplace.rows_of_pool(np, rows, count, kinds, 1))


# ---------------------------------------------------------------- checks


def compare(np, gives, reference, written):
    """`ok`, or what is wrong with an engine's results, held against ours."""
    own = np.load(written[gives]).astype(np.float64)
    theirs = np.load(reference[gives]).astype(np.float64)
    bound = np.load(reference["row_bound"]).astype(np.float64)
    count = min(len(own), len(theirs))
    own, theirs, bound = own[:count], theirs[:count], bound[:count]
    if own.shape[1] == 2 and theirs.shape[1] == 1:
        own = own[:, 1:]  # probabilities of both classes
    if own.shape != theirs.shape:
        return f"differs: {gives} of shape {own.shape}, not {theirs.shape}"
    if gives == "margins":
        most = 2 * bound  # either sum may be off by the bound
    else:
        # Neither a sigmoid nor a softmax moves further than its margins; each rounds a few times by itself.
        most = 2 * bound.max(axis=1, keepdims=True) + 8 * 2.0**-24 * np.maximum(1, np.abs(theirs))
    apart = np.abs(own - theirs)
    over = ~((apart <= most) | (np.isnan(own) & np.isnan(theirs)))
    if over.any():
        bad = int(over.any(axis=1).sum())
        return f"differs: {gives} of {bad} of {count} rows beyond a sum's bound, by up to {np.nanmax(apart):.3g}"
    return "ok" if gives == "margins" else "ok, outputs, not margins"


def may_differ(np, engine, rows):
    """Hummingbird sends missing values to the right, whatever the model says."""
    return engine == "hummingbird" and bool(np.isnan(rows).any())


# ---------------------------------------------------------------- the run


class Table:
    """results.tsv, written row by row."""

    def __init__(self, file, facts, as_json, columns=COLUMNS):
        self.facts, self.as_json, self.columns = facts, as_json, columns
        self.file = open(file, "w")
        print("\t".join(columns), file=self.file, flush=True)

    def row(self, **values):
        values = {**self.facts, **values}
        cells = {c: " ".join(str(values.get(c, "")).split()) for c in self.columns}
        print("\t".join(cells.values()), file=self.file, flush=True)
        if self.as_json:
            print(json.dumps(cells), flush=True)


def middle(values):
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


class Run:
    def __init__(self, np, convert, tools, args, table, progress):
        self.np, self.convert, self.tools, self.args, self.table = np, convert, tools, args, table
        self.progress = progress
        self.agree = True
        # With a thread a busy machine disturbs its time on the processor least; with more it says nothing.
        self.clock = "cpu" if args.threads == 1 else "wall"

    def model(self, folder):
        np, args = self.np, self.args
        scratch = args.work / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        file = model_file(folder)
        rows = np.load(folder / "rows.npy")
        meta = json.loads(read(folder / "meta.json") or "{}")
        facts = {"model": folder.name, "trees": meta.get("trees", ""), "features": rows.shape[1]}
        programs, left = {}, {}
        try:
            try:
                write_rows(np, self.convert, file, rows, args, scratch / "rows.npy")
            except Exception as error:  # one model that can't be read should not end all
                why = f"no rows can be made: {' '.join(str(error).split())[:300]}"
                note(f"{folder.name}: {why}; left out")
                self.table.row(**facts, engine="all", metric="left out", check=why)
                return
            for engine in args.engines:
                self.progress.show(f"{folder.name}: {engine} reads the model")
                try:
                    facts |= self.start(engine, file, scratch, facts, programs)
                except Lost as error:
                    left.setdefault(str(error), []).append(engine)
                    self.table.row(**facts, engine=engine, metric="left out", check=str(error))
            for why, names in left.items():
                note(f"{folder.name}: left out: {', '.join(names)}: {why}")
            for batch in args.batch:
                self.batch(batch, rows, facts, programs)
            for program, _ in programs.values():
                program.stop()
        except BaseException:  # an interruption waits for no answer
            for program, _ in programs.values():
                program.kill()
            raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def start(self, engine, file, scratch, facts, programs):
        """Starts an engine's program; gives what ours says of the model."""
        args, table = self.args, self.table
        out = scratch / engine
        command = command_of(engine, self.tools, file, scratch / "rows.npy", out, args)
        try:
            program = Program(engine, command, out, args.threads)
        except OSError as error:
            raise Lost(str(error)) from None
        try:
            hello = program.answer(args.patience)
            if hello["kind"] != "engine":
                raise Lost(hello["error"])
        except BaseException:
            program.kill()
            raise
        programs[engine] = (program, hello)
        more = {k: hello[k] for k in ("trees", "outputs") if k in hello}
        facts = {**facts, **more, "engine": engine, "version": hello["version"], "setting": hello["setting"]}
        for metric, key, unit in (
            ("load", "load_ms", "ms"),
            ("compile", "compile_ms", "ms"),
            ("kept", "kept_mib", "MiB"),
            ("peak", "peak_mib", "MiB"),
        ):
            if hello.get(key) is not None:
                value = f"{hello[key]:.3f}"
                table.row(**facts, metric=metric, unit=unit, median=value, least=value, samples=1)
        for refused in hello.get("refused", []):
            table.row(**{**facts, "setting": refused["schedule"]}, metric="refused", check=refused["error"])
        return more if engine == OURS else {}

    def batch(self, batch, rows, facts, programs):
        args, table = self.args, self.table
        batches = xgboost_inplace.batches_of_pool(batch)
        name = facts["model"]
        opened, reference = {}, None
        for engine in list(programs):
            program, hello = programs[engine]
            own = {**facts, "engine": engine, "version": hello["version"], "batch": batch, "setting": hello["setting"]}
            self.progress.show(f"{name}, batch {batch}: {engine} warms up")
            trials, answer = self.open(program, f"open {batch} {batches} {args.trial}")
            for trial in trials:
                self.times(
                    {**own, "setting": trial["schedule"]},
                    "trial",
                    batch,
                    trial["thread_us" if self.clock == "cpu" else "wall_us"],
                    trial["directives"],
                )
            if answer["kind"] == "failed":
                self.lost(engine, own, answer["error"], programs)
                continue
            written = answer["written"]
            gives = hello.get("gives", "margins")
            if engine == OURS:
                reference, check = written, "ok"
                own["setting"] = answer["directives"]
            elif reference is None:
                check = "nothing to compare with"
            else:
                own["setting"] = answer["setting"]
                check = compare(self.np, gives, reference, written)
            if check.startswith("differs"):
                note(f"{name}, batch {batch}, {engine}: {check}")
                self.agree &= may_differ(self.np, engine, rows)
            opened[engine] = ({**own, "check": check}, {"thread": [], "process": [], "wall": []})
        # In turns, each round begun by another engine, so that what disturbs the machine disturbs all alike.
        order = list(opened)
        for turn in range(args.rounds):
            shift = turn % max(1, len(order))
            for engine in order[shift:] + order[:shift]:
                if engine not in opened:
                    continue
                self.progress.advance(f"{name}, batch {batch}: round {turn + 1} of {args.rounds}, {engine}")
                try:
                    program = programs[engine][0]
                    program.ask(f"time {args.seconds / args.rounds}")
                    answer = program.answer(args.timeout)
                except Lost as error:
                    answer = {"kind": "failed", "error": str(error)}
                if answer["kind"] == "failed":
                    self.lost(engine, opened.pop(engine)[0], answer["error"], programs)
                    continue
                for clock, times in answer["times"].items():
                    opened[engine][1][clock] += times
        # Those that are left out take no turns.
        self.progress.advance(f"{name}, batch {batch}", args.rounds * (len(args.engines) - len(order)))
        self.progress.clear()
        for engine, (own, times) in opened.items():
            self.write(own, times, batch)

    def open(self, program, request):
        trials = []
        try:
            program.ask(request)
            while True:
                answer = program.answer(self.args.timeout)
                if answer["kind"] in ("opened", "failed"):
                    return trials, answer
                trials.append(answer)
        except Lost as error:
            return trials, {"kind": "failed", "error": str(error)}

    def lost(self, engine, facts, why, programs):
        """What failed at one batch; a program that is gone fails at all that follow."""
        note(f"{facts['model']}, batch {facts['batch']}, {engine}: {why}")
        self.table.row(**{**facts, "metric": "failed", "check": why})
        if programs[engine][0].process.poll() is not None:
            del programs[engine]

    def times(self, facts, metric, batch, summary, check):
        row = {"median": f"{summary['median'] / batch:.5f}", "least": f"{summary['min'] / batch:.5f}"}
        self.table.row(**{**facts, "check": check}, metric=metric, unit="us/row", samples=summary["samples"], **row)

    def write(self, facts, times, batch):
        engine, check = facts["engine"], facts["check"]
        # A thread that nobody asked for does not show in the calling thread's time.
        more = sum(times["process"]) / max(1e-9, sum(times["thread"]))
        if self.clock == "cpu" and more > 1.2:
            check += f"; its process took {more:.1f} times its calling thread's time"
            note(f"{facts['model']}, batch {batch}, {engine}: its process takes {more:.1f} times its thread's time")
        metrics = {"cpu": "thread", "process": "process", "wall": "wall"}
        for metric, clock in metrics.items():
            values = times[clock]
            summary = {"median": middle(values), "min": min(values), "samples": len(values)}
            self.times(facts, metric, batch, summary, check)
        if not self.args.json:
            shown = times[metrics[self.clock]]
            print(
                f"{facts['model']:24} {batch:6} {engine:17} {middle(shown) / batch:10.4f} us a row, "
                f"least {min(shown) / batch:10.4f}  {check}",
                flush=True,
            )


# ---------------------------------------------------------------- the command


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--zoo", type=pathlib.Path, metavar="DIR", help="a folder of models, each in a folder with model.* and rows.npy")
    add("--own", action="store_true", help=f"models made here: {', '.join(OWN)} (so it is without --zoo)")
    add("--only", help="models, separated by commas (default: all of --own, and of --zoo " + ", ".join(ZOO) + ")")
    add("--engines", help=f"of {', '.join(ENGINES)} (default: all)")
    add("--batch", default="1,64,512,4096", help="batch sizes, separated by commas (default: %(default)s)")
    add("--threads", type=int, default=1, help="threads of each engine (default: %(default)s)")
    add("--schedule", default="all", help="ours, the first against others: all, presets, or files (default: %(default)s)")
    add("--seconds", type=float, default=3.0, help="time for each engine and batch size (default: %(default)s)")
    add("--rounds", type=int, default=5, help="turns that this time is cut into (default: %(default)s)")
    add("--trial", type=float, default=0.2, help="seconds to try each schedule for (default: %(default)s)")
    add("--check", type=int, default=512, help="rows whose results are compared (default: %(default)s)")
    add("--patience", type=float, default=900, help="seconds an engine may take to read a model (default: %(default)s)")
    add("--timeout", type=float, default=900, help="seconds to wait for another answer (default: %(default)s)")
    add("--quick", action="store_true", help="small models of --own, for trying things out")
    add("--work", type=pathlib.Path, default=ROOT / "target" / "peers-bench", help="environments, models, scratch")
    add("--out", type=pathlib.Path, help="the folder for results (default: results in the work folder)")
    add("--fangorn", type=pathlib.Path, metavar="FILE", help="a fangorn-benches in place of a build")
    add("--python", action="append", default=[], metavar="ENVIRONMENT=FILE", help="a Python in place of an environment")
    add("--json", action="store_true", help="print each row of results.tsv as JSON")
    add("--dry-run", action="store_true", help="print what would be done")
    args = parser.parse_args()
    try:
        args.batch = sorted({int(b) for b in args.batch.split(",")})
        args.python = {k: pathlib.Path(v) for k, v in (pair.split("=", 1) for pair in args.python)}
    except ValueError:
        parser.error("--batch takes whole numbers, --python ENVIRONMENT=FILE")
    if min(args.batch[0], args.rounds, args.threads, args.check) < 1 or min(args.seconds, args.trial) <= 0:
        parser.error("batch sizes, --rounds, --threads and --check are whole numbers from 1, times are above 0")
    args.engines = args.engines.split(",") if args.engines else list(ENGINES)
    for name in [e for e in args.engines if e not in ENGINES]:
        parser.error(f"unknown engine {name}; the engines are {', '.join(ENGINES)}")
    args.only = args.only.split(",") if args.only else None
    args.own |= args.zoo is None or any(name in OWN for name in args.only or [])
    if args.zoo and not args.zoo.is_dir():
        parser.error(f"{args.zoo} is not a folder")
    if args.only and not args.zoo:
        for name in [m for m in args.only if m not in OWN]:
            parser.error(f"unknown model {name}; --zoo DIR says where it is, and of ours there are {', '.join(OWN)}")
    for name in ("work", "out", "zoo", "fangorn"):
        value = getattr(args, name)
        if value is not None:
            setattr(args, name, pathlib.Path(os.path.abspath(value)))
    # A virtual environment's Python is a link: followed, it would be another.
    args.python = {k: pathlib.Path(os.path.abspath(v)) for k, v in args.python.items()}
    args.out = args.out or args.work / "results"
    # Ours first: the others are held against it.
    args.engines.sort(key=lambda e: e != OURS)
    return args


def own_command(args, names):
    command = [python_of("peers", args), HERE / "own.py", "--out", args.work / "models", "--only", ",".join(names)]
    command += ["--quick"] if args.quick else []
    return [str(word) for word in command]


def dry_run(args):
    """Prints what would be done."""
    for key, value in machine().items():
        print(f"{key}: {value}")
    found, own = models_of(args)
    for name in dict.fromkeys(["peers"] + [PEERS[e] for e in args.engines if e in PEERS]):
        if name not in args.python:
            print(f"environment {name}: {python_of(name, args)}, from {HERE / 'requirements' / f'{name}.txt'}")
    if OURS in args.engines and not args.fangorn:
        print(shlex.join(BUILD))
    if own:
        print(shlex.join(own_command(args, own)))
    tools = {name: python_of(name, args) for name in PEERS.values()}
    tools[OURS] = args.fangorn or args.work / "bin" / "fangorn-benches"
    files = [model_file(folder) for folder in found] + [args.work / "models" / name / "model.*" for name in own]
    for file in files:
        for engine in args.engines:
            scratch = args.work / "scratch"
            print(shlex.join(command_of(engine, tools, file, scratch / "rows.npy", scratch / engine, args)))
    least = len(files) * len(args.batch) * len(args.engines) * args.seconds / 60
    print(f"batches {', '.join(map(str, args.batch))}; {args.threads} thread(s)")
    print(f"{least:.0f} min at most, and what compilers take")
    print(f"results: {args.out / 'results.tsv'}, .md, .png, .svg")
    return 0


def main():
    args = arguments()
    if args.dry_run:
        return dry_run(args)
    python = environment("peers", args)
    if python is None:
        return 2
    # Rows, comparisons and the plot are that environment's.
    if os.environ.get("FANGORN_PEERS_BENCH") != str(python):
        os.environ["FANGORN_PEERS_BENCH"] = str(python)
        os.execv(python, [str(python), "-W", "ignore", str(HERE / "run.py"), *sys.argv[1:]])
    sys.path.insert(0, str(HERE))
    try:
        import numpy as np
        import treelite

        del treelite
    except ImportError as error:
        note(f"{error}; rows can't be made without it")
        return 2
    import convert
    import report

    tools = {}
    for name in dict.fromkeys(PEERS[e] for e in args.engines if e in PEERS):
        tools[name] = environment(name, args)
    if OURS in args.engines:
        tools[OURS] = build(args)
    for engine in [e for e in args.engines if not tools[PEERS.get(e, e)]]:
        note(f"{engine}: nothing to run it with; left out")
        args.engines.remove(engine)
    folders, own = models_of(args)
    if own and subprocess.run(own_command(args, own)).returncode:
        note("not all models can be made, see above")
    for name in own:
        if model_file(args.work / "models" / name):
            folders.append(args.work / "models" / name)
        else:
            note(f"{name}: it was not made; left out")
    if not folders or not args.engines:
        note("nothing is left to run")
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    about = machine()
    about["command"] = shlex.join(["benches/peers/run.py", *sys.argv[1:]])
    (args.out / "machine.json").write_text(json.dumps(about, indent=1) + "\n")
    facts = {
        "date": datetime.date.today().isoformat(),
        "commit": first_line(["git", "describe", "--always", "--dirty", "--exclude", "*"]) or "unknown",
        "machine": f"{about['cpu']}, {os.cpu_count()} cores",
        "threads": args.threads,
    }
    table = Table(args.out / "results.tsv", facts, args.json)
    # Programs have sessions of their own: they are ended with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    progress = Progress(len(folders) * len(args.batch) * len(args.engines) * args.rounds)
    run = Run(np, convert, tools, args, table, progress)
    for folder in folders:
        run.model(folder)
    progress.clear()
    note(f"{time.perf_counter() - progress.begin:.0f} s")
    report.write(args.out / "results.tsv")
    return 0 if run.agree else 1


if __name__ == "__main__":
    sys.exit(main())
