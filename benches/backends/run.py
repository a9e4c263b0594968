#!/usr/bin/env python3
"""Times Fangorn's backends side by side: the native CPU target and burn's.

One command: it builds fangorn-benches for each backend, times every backend on
every model of the zoo and every batch size in turns, holds their results
against the native target's first, and writes results.tsv, results.md and
results.png. benches/backends/README.md says what is measured and what the
columns mean.

A backend that can't be built, does not answer or refuses a model is named with
the reason, here and in the results. Exit status: 0; 1 where results differ;
2 where nothing could be run.

Examples:
  python3 benches/backends/run.py                                everything that builds here, hours
  python3 benches/backends/run.py --dry-run                      print what would be done
  python3 benches/backends/run.py --zoo DIR --batches 1,4096     another folder of models
  python3 benches/backends/run.py --only churn --backends cpu,flex --seconds 0.1
                                                                 one small model, two backends
"""

import argparse
import datetime
import importlib.util
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def script(folder, name):
    """A script of another bench, as a module: one way to start programs and to say what a machine is."""
    # It imports the modules beside it.
    sys.path.insert(0, str(HERE.parent / folder))
    spec = importlib.util.spec_from_file_location(f"{folder}_{name}", HERE.parent / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


peers = script("peers", "run")
Lost, note = peers.Lost, peers.note

NATIVE = "cpu"
# backend -> the features of the build that has it; the first build has no need of LLVM.
FEATURES = {
    NATIVE: "flex,ndarray,wgpu",
    "ndarray": "flex,ndarray,wgpu",
    "flex": "flex,ndarray,wgpu",
    "wgpu": "flex,ndarray,wgpu",
    "vulkan": "vulkan",
    "metal": "metal",
    "cubecl-cpu": "cubecl-cpu",
    "cuda": "cuda",
    "rocm": "rocm",
}
BACKENDS = [NATIVE, "ndarray", "flex", "wgpu", "vulkan", "cubecl-cpu", "cuda"]
SOFTWARE = ("llvmpipe", "lavapipe", "softpipe", "swiftshader")
COLUMNS = (
    "date commit machine threads backend device software model trees features outputs batch schedule compile_ms "
    "resident_us resident_least_us to_device_us to_device_least_us to_host_us to_host_least_us samples check"
).split()
# What the answers call them, and what the table does.
TIMES = {"resident": "resident", "upload": "to_device", "download": "to_host"}


# ---------------------------------------------------------------- builds


def llvm():
    """Whether the LLVM that cubecl links is where its build looks."""
    data = pathlib.Path(os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local" / "share")
    return any((data / "tracel").glob("tracel-llvm-*/.tracel-llvm-installed"))


def unbuildable(backend, args):
    """Why a backend that nobody has asked for by name is not built; none where it is."""
    if backend in args.named or backend in args.fangorn:
        return None
    ask = f"--backends {backend} builds it all the same"
    if backend in ("cubecl-cpu", "cuda") and not llvm():
        return f"it needs LLVM 23 and takes half an hour to build; scripts/setup-llvm23.sh sets that up, and {ask}"
    if backend == "cuda" and not peers.first_line(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]):
        return f"no GPU answers nvidia-smi; {ask}"
    return None


def command_of_build(backend):
    return ["cargo", "build", "--release", "--locked", "-p", "fangorn-benches", "--features", FEATURES[backend]]


def build(backend, args, built):
    """The program with a backend, and none; or none, and why there is none."""
    if backend in args.fangorn:
        return args.fangorn[backend], None
    why = unbuildable(backend, args)
    if why:
        return None, why
    features = FEATURES[backend]
    if features not in built:
        note(f"building fangorn-benches with the features {features}")
        try:
            program = peers.made(command_of_build(backend), args.work / "bin" / f"fangorn-benches-{features.replace(',', '-')}")
            why = "it can't be built: cargo build fails, as the run's standard error says"
        except OSError as error:
            program, why = None, f"it can't be built: {error}"
        built[features] = (program, None if program else why)
    return built[features]


# ---------------------------------------------------------------- the run


def command_of(backend, tool, model, rows, args):
    words = [tool, "backend", "--serve", "--backend", backend, "--model", model, "--rows", rows]
    return [str(word) for word in words + ["--threads", args.threads, "--check", args.check]]


class Run:
    def __init__(self, tools, args, table, progress):
        self.tools, self.args, self.table, self.progress = tools, args, table, progress
        self.agree, self.timed = True, 0

    def model(self, folder):
        model, programs = peers.model_file(folder), {}
        try:
            for backend, tool in self.tools.items():
                self.progress.show(f"{folder.name}: {backend} reads the model")
                self.start(backend, command_of(backend, tool, model, folder / "rows.npy", self.args), folder.name, programs)
            for batch in self.args.batches:
                self.batch(batch, programs)
            for program, _ in programs.values():
                program.stop()
        except BaseException:  # an interruption waits for no answer
            for program, _ in programs.values():
                program.kill()
            raise
        self.progress.clear()

    def start(self, backend, command, model, programs):
        facts = {"backend": backend, "model": model}
        program = None
        try:
            program = peers.Program(backend, command, self.args.work / "scratch" / backend, self.args.threads)
            hello = program.answer(self.args.patience)
        except (Lost, OSError) as error:
            if program:
                program.kill()
            why = str(error).removeprefix("fangorn-benches: ")
            note(f"{model}: {backend}: {why}; left out")
            self.table.row(**facts, check=f"left out: {why}")
            self.progress.advance(model, len(self.args.batches) * self.args.rounds)
            return
        software = any(name in hello["device"].lower() for name in SOFTWARE)
        facts |= {key: hello[key] for key in ("device", "schedule", "trees", "features", "outputs")}
        facts |= {"software": "yes" if software else "no", "compile_ms": f"{hello['compile_ms']:.3f}"}
        programs[backend] = (program, facts)

    def batch(self, batch, programs):
        args = self.args
        opened = {}
        for backend, (program, facts) in list(programs.items()):
            facts = {**facts, "batch": batch}
            self.progress.show(f"{facts['model']}, batch {batch}: {backend} is checked")
            answer = self.ask(program, f"open {batch}")
            if answer["kind"] == "opened":
                opened[backend] = (facts, {name: [] for name in TIMES})
                continue
            self.agree &= answer["kind"] != "differs"
            self.without(backend, facts, answer, programs)
            self.progress.advance(facts["model"], args.rounds)
        # In turns, each round begun by another, so that what disturbs the machine disturbs all alike.
        order = list(opened)
        for turn in range(args.rounds):
            shift = turn % max(1, len(order))
            for backend in order[shift:] + order[:shift]:
                if backend not in opened:
                    continue
                facts, times = opened[backend]
                self.progress.advance(f"{facts['model']}, batch {batch}: round {turn + 1} of {args.rounds}, {backend}")
                answer = self.ask(programs[backend][0], f"time {args.seconds / args.rounds}")
                if answer["kind"] == "timed":
                    for name, values in answer["times"].items():
                        times[name] += values
                else:
                    del opened[backend]
                    self.without(backend, facts, answer, programs)
        for facts, times in opened.values():
            self.write(facts, times)

    def ask(self, program, request):
        try:
            program.ask(request)
            return program.answer(self.args.timeout)
        except Lost as error:
            return {"kind": "failed", "error": str(error)}

    def without(self, backend, facts, answer, programs):
        """A batch that is not timed; a program that is gone fails at all that follow."""
        why = f"{answer['kind']}: {answer['error']}"
        note(f"{facts['model']}, batch {facts['batch']}, {backend}: {why}")
        self.table.row(**facts, check=why)
        if programs[backend][0].process.poll() is not None:
            del programs[backend]

    def write(self, facts, times):
        cells = {}
        for name, column in TIMES.items():
            if times[name]:
                cells[f"{column}_us"] = f"{peers.middle(times[name]):.3f}"
                cells[f"{column}_least_us"] = f"{min(times[name]):.3f}"
        self.table.row(**facts, **cells, samples=len(times["resident"]), check="ok")
        self.timed += 1
        if not self.args.json:
            self.progress.clear()
            there, back = cells.get("to_device_us", "-"), cells.get("to_host_us", "-")
            print(
                f"{facts['model']:30} {facts['batch']:6} {facts['backend']:10} {cells['resident_us']:>12} us, "
                f"rows there {there:>10}, margins back {back:>10}",
                flush=True,
            )


# ---------------------------------------------------------------- the command


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--zoo", action="append", type=pathlib.Path, metavar="DIR", help="a folder of models, each in a folder with model.* "
        "and rows.npy; may be given several times (default: tests/zoo)")
    add("--only", help="models, separated by commas (default: all)")
    add("--backends", help=f"of {', '.join(FEATURES)} (default: {','.join(BACKENDS)}; of these, those that need LLVM or a GPU "
        "are built only where it is found)")
    add("--batches", default="1,64,512,4096", help="batch sizes, separated by commas (default: %(default)s)")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    add("--threads", type=int, default=cores, help="threads of what runs on the CPU, software GPUs too (default: %(default)s)")
    add("--seconds", type=float, default=1.0, help="time for each backend and batch size (default: %(default)s)")
    add("--rounds", type=int, default=3, help="turns that this time is cut into (default: %(default)s)")
    add("--check", type=int, default=512, help="rows whose leaves are compared (default: %(default)s)")
    add("--patience", type=float, default=300, help="seconds to compile a model in (default: %(default)s)")
    add("--timeout", type=float, default=300, help="seconds to wait for another answer (default: %(default)s)")
    add("--work", type=pathlib.Path, default=ROOT / "target" / "backends-bench", help="programs, and what makes the plot")
    add("--out", type=pathlib.Path, help="the folder for results (default: results in the work folder)")
    add("--fangorn", action="append", default=[], metavar="BACKEND=FILE", help="a fangorn-benches in place of a build")
    add("--python", action="append", default=[], metavar="plot=FILE", help="a Python that has matplotlib")
    add("--json", action="store_true", help="print each row of results.tsv as JSON")
    add("--dry-run", action="store_true", help="print what would be done")
    args = parser.parse_args()
    try:
        args.batches = sorted({int(b) for b in args.batches.split(",")})
        args.fangorn = {k: pathlib.Path(os.path.abspath(v)) for k, v in (pair.split("=", 1) for pair in args.fangorn)}
        args.python = {k: pathlib.Path(os.path.abspath(v)) for k, v in (pair.split("=", 1) for pair in args.python)}
    except ValueError:
        parser.error("--batches takes whole numbers, --fangorn BACKEND=FILE, --python plot=FILE")
    if min(args.batches[0], args.rounds, args.threads, args.check) < 1 or args.seconds <= 0:
        parser.error("batch sizes, --rounds, --threads and --check are whole numbers from 1, --seconds is above 0")
    args.named = args.backends.split(",") if args.backends else []
    for name in [b for b in args.named + list(args.fangorn) if b not in FEATURES]:
        parser.error(f"unknown backend {name}; the backends are {', '.join(FEATURES)}")
    metal = ["metal"] if sys.platform == "darwin" else []
    args.backends = [b for b in FEATURES if b in (args.named or BACKENDS + metal + list(args.fangorn))]
    args.only = args.only.split(",") if args.only else None
    args.zoo = [pathlib.Path(os.path.abspath(folder)) for folder in args.zoo or [ROOT / "tests" / "zoo"]]
    for folder in [folder for folder in args.zoo if not folder.is_dir()]:
        parser.error(f"{folder} is not a folder")
    args.work = pathlib.Path(os.path.abspath(args.work))
    args.out = pathlib.Path(os.path.abspath(args.out)) if args.out else args.work / "results"
    return args


def models_of(args):
    """The folders of the models to run; what is asked for and missing is named."""
    folders = [f for zoo in args.zoo for f in sorted(zoo.iterdir()) if (f / "rows.npy").is_file() and peers.model_file(f)]
    for name in args.only or []:
        if not any(folder.name == name for folder in folders):
            note(f"{name}: no model and rows of that name; left out")
    return [folder for folder in folders if args.only is None or folder.name in args.only]


def dry_run(args, folders):
    """Prints what would be done."""
    builds, kept = {}, args.work / "bin"
    for backend in args.backends:
        why = unbuildable(backend, args)
        print(f"{backend}: {'left out: ' + why if why else args.fangorn.get(backend, 'built')}")
        if not why and backend not in args.fangorn:
            builds[FEATURES[backend]] = shlex.join(command_of_build(backend))
    print(*builds.values(), sep="\n")
    able = [backend for backend in args.backends if not unbuildable(backend, args)]
    for folder in folders:
        for backend in able:
            tool = args.fangorn.get(backend, kept / f"fangorn-benches-{FEATURES[backend].replace(',', '-')}")
            print(shlex.join(command_of(backend, tool, peers.model_file(folder), folder / "rows.npy", args)))
    least = len(folders) * len(args.batches) * len(able) * args.seconds / 60
    print(f"{len(folders)} models, batches {', '.join(map(str, args.batches))}, {args.threads} thread(s)")
    print(f"{least:.0f} min, and what compilers take")
    print(f"results: {args.out / 'results.tsv'}, .md, .png")
    return 0


def main():
    args = arguments()
    folders = models_of(args)
    if args.dry_run:
        return dry_run(args, folders)
    # First launches are what a driver takes that has not seen the kernel; a software one keeps to as many threads.
    os.environ["MESA_SHADER_CACHE_DISABLE"] = "true"
    os.environ["LP_NUM_THREADS"] = str(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    about = peers.machine()
    about["command"] = shlex.join(["benches/backends/run.py", *sys.argv[1:]])
    (args.out / "machine.json").write_text(json.dumps(about, indent=1) + "\n")
    facts = {
        "date": datetime.date.today().isoformat(),
        "commit": peers.first_line(["git", "describe", "--always", "--dirty", "--exclude", "*"]) or "unknown",
        "machine": f"{about['cpu']}, {os.cpu_count()} cores",
        "threads": args.threads,
    }
    table = peers.Table(args.out / "results.tsv", facts, args.json, COLUMNS)
    tools, built = {}, {}
    for backend in args.backends:
        tool, why = build(backend, args, built)
        if tool is None:
            note(f"{backend}: {why}; left out")
            table.row(backend=backend, model="all", check=f"left out: {why}")
        else:
            tools[backend] = tool
    if not folders or not tools:
        note("nothing is left to run")
        return 2
    # Programs have sessions of their own: they are ended with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    progress = peers.Progress(len(folders) * len(args.batches) * len(tools) * args.rounds)
    run = Run(tools, args, table, progress)
    for folder in folders:
        run.model(folder)
    note(f"{time.perf_counter() - progress.begin:.0f} s")
    report(args)
    return 2 if run.timed == 0 else 0 if run.agree else 1


def report(args):
    """The table and the plot, by a Python that has what the plot needs."""
    python = peers.environment("plot", args, HERE / "requirements") or pathlib.Path(sys.executable)
    subprocess.run([str(python), str(HERE / "report.py"), str(args.out / "results.tsv")])


if __name__ == "__main__":
    sys.exit(main())
