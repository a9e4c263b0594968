#!/usr/bin/env python3
"""Times the example pipelines beside their twins of PyTorch, scikit-learn and XGBoost.

One command: it makes a virtual environment with pinned versions, builds the
examples with burn's SIMD kernels, has each make its data, train itself and
save its file, holds the twin's predictions against it, times the two in turns,
a process each, and writes results.tsv and results.md.

A call goes from rows in memory to predictions in memory. With one thread its
time is the process's on the processor, with more the wall's. The table has the
median of the turns' medians. Exit status: 0; 1 where predictions differ; 2
where something could not be run.

Examples:
  python3 benches/pipelines/run.py                          all three, a thread each; minutes after the build
  python3 benches/pipelines/run.py --quick --seconds 0.2    small data, for trying things out
  taskset -c 1 python3 benches/pipelines/run.py             on one core
"""

import argparse
import datetime
import importlib.util
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# What starts programs, asks them and describes the machine is the peers' bench's.
sys.path.insert(0, str(HERE.parent / "peers"))
spec = importlib.util.spec_from_file_location("peers", HERE.parent / "peers" / "run.py")
peers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peers)

# pipeline -> its heads, and how many times faster than the twin CMLCompiler's is at batch 1
PIPELINES = {
    "text": (["regression", "forest"], 1.67),
    "deep_hybrid": (["forest"], 2.3),
    "click_through": (["click"], 3.04),
}
BUILD = ["cargo", "build", "--release", "--locked", "-p", "fangorn-graphs", "--features", "simd"]
COLUMNS = (
    "date commit machine threads clock pipeline head batch ours_us twin_us ours_least_us twin_least_us times check"
).split()


# glibc's malloc gives large blocks back to the system, and the next call has every page of them made again: both
# programs keep theirs.
KEPT = {"MALLOC_MMAP_THRESHOLD_": "2000000000", "MALLOC_TRIM_THRESHOLD_": "2000000000", "MALLOC_TOP_PAD_": "67108864"}
os.environ |= KEPT


def note(text):
    print(f"run.py: {text}", file=sys.stderr, flush=True)


def build(names, args):
    """The examples' programs; none where they can't be built."""
    if args.examples:
        return {name: args.examples / name for name in names}
    note("building the examples")
    command = BUILD + [word for name in names for word in ("--example", name)]
    command += ["--message-format", "json-render-diagnostics"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return None
    made = [json.loads(line) for line in done.stdout.splitlines() if '"executable":"' in line]
    return {m["target"]["name"]: pathlib.Path(m["executable"]) for m in made}


def agreement(name, folder, python, args):
    """What the twin's predictions of the test rows differ by, by head, and whether that is little enough."""
    done = subprocess.run(
        [str(python), "-W", "ignore", str(HERE / "twin.py"), name, str(folder), "--check"],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": str(args.threads)},
    )
    if done.returncode:
        return None
    told, agree = {}, True
    for line in done.stdout.splitlines():
        fact = json.loads(line)
        inside = fact["rows"] - fact["outside"]
        agree &= fact["outside"] * 100 <= fact["rows"]
        told[fact["head"]] = f"{inside} of {fact['rows']} rows within {fact['tolerance']:g}"
    return told, agree


def time_both(name, folder, programs, args):
    """Microseconds a call, by head and batch: for each program the median and the least of each of its turns."""
    clock = clock_of(args)
    commands = {
        "ours": [str(programs[name]), str(folder), "--serve"] + (["--graph"] if args.graph else []),
        "twin": [str(programs["python"]), "-W", "ignore", str(HERE / "twin.py"), name, str(folder)],
    }
    commands["twin"] += ["--first-token"] if args.first_token else []
    logs = args.work / "logs" / name
    running = {who: peers.Program(who, command, logs / who, args.threads) for who, command in commands.items()}
    try:
        for head in PIPELINES[name][0]:
            for batch in args.batch:
                for program in running.values():
                    program.ask(f"open {head} {batch}")
                    program.answer(300)
                    program.ask(f"time {args.seconds / 4}")
                    program.answer(300)
                turns = {who: [] for who in running}
                for turn in range(args.rounds):
                    # Begun by the other in each round, so that what disturbs the machine disturbs both alike.
                    for who in sorted(running, reverse=bool(turn % 2)):
                        running[who].ask(f"time {args.seconds}")
                        turns[who].append(running[who].answer(300)[clock])
                yield head, batch, turns
    finally:
        for program in running.values():
            program.stop()


def clock_of(args):
    """One thread is held to the processor's clock, which what else runs on the machine hardly moves."""
    return "cpu" if args.threads == 1 else "wall"


def write(rows, about, command, args):
    """The tables."""
    args.out.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(COLUMNS)] + ["\t".join(str(row[column]) for column in COLUMNS) for row in rows]
    (args.out / "results.tsv").write_text("\n".join(lines) + "\n")
    said = ["| pipeline | batch | here, µs | twin, µs | times faster |", "|---|---:|---:|---:|---:|"]
    for row in rows:
        name = row["pipeline"] if len(PIPELINES[row["pipeline"]][0]) == 1 else f"{row['pipeline']}, {row['head']}"
        said.append(f"| {name} | {row['batch']} | {row['ours_us']} | {row['twin_us']} | {row['times']} |")
    made = f"{about['cpu']}, {args.threads} thread(s), {clock_of(args)} time"
    said += ["", f"{made}, {rows[0]['date']}, commit {rows[0]['commit']}, `{command}`"]
    (args.out / "results.md").write_text("\n".join(said) + "\n")
    print("\n" + "\n".join(said))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--only", default=",".join(PIPELINES), help="pipelines, separated by commas (default: %(default)s)")
    add("--batch", default="1,256", help="batch sizes, separated by commas (default: %(default)s)")
    add("--threads", type=int, default=1, help="threads of each program (default: %(default)s)")
    add("--rounds", type=int, default=7, help="turns of each program (default: %(default)s)")
    add("--seconds", type=float, default=1.0, help="time for a turn (default: %(default)s)")
    add("--quick", action="store_true", help="little data, for trying things out")
    add("--graph", action="store_true", help="ours as one graph, rewritten and compiled, in place of burn modules")
    add("--first-token", action="store_true", help="text: a twin whose last layer makes one token, as ours")
    add("--keep", action="store_true", help="take pipelines that are already in the work folder as they are")
    add("--work", type=pathlib.Path, default=ROOT / "target" / "pipelines-bench", help="environment, pipelines, logs")
    add("--out", type=pathlib.Path, help="the folder for results (default: results in the work folder)")
    add("--examples", type=pathlib.Path, metavar="DIR", help="built examples in place of a build")
    add("--python", type=pathlib.Path, metavar="FILE", help="a Python in place of an environment")
    args = parser.parse_args()
    try:
        args.batch = [int(batch) for batch in args.batch.split(",")]
    except ValueError:
        parser.error("--batch takes whole numbers")
    args.only = args.only.split(",")
    for name in [name for name in args.only if name not in PIPELINES]:
        parser.error(f"unknown pipeline {name}; there are {', '.join(PIPELINES)}")
    if min(*args.batch, args.threads, args.rounds) < 1 or args.seconds <= 0:
        parser.error("batch sizes, --threads and --rounds are whole numbers from 1, --seconds is above 0")
    for name in ("work", "out", "examples", "python"):
        if getattr(args, name) is not None:
            # A virtual environment's Python is a link: followed, it would be another.
            setattr(args, name, pathlib.Path(os.path.abspath(getattr(args, name))))
    args.out = args.out or args.work / "results"
    return args


def main():
    args = arguments()
    args.python = {"twins": args.python} if args.python else {}
    python = peers.environment("twins", args, HERE)
    programs = python and build(args.only, args)
    if not programs:
        note("nothing to run it with, see above")
        return 2
    programs["python"] = python
    about = peers.machine()
    command = shlex.join(["benches/pipelines/run.py", *sys.argv[1:]])
    facts = {
        "date": datetime.date.today().isoformat(),
        "commit": peers.first_line(["git", "describe", "--always", "--dirty", "--exclude", "*"]) or "unknown",
        "machine": f"{about['cpu']}, {os.cpu_count()} cores",
        "threads": args.threads,
        "clock": clock_of(args),
    }
    rows, agreed = [], True
    for name in args.only:
        folder = args.work / name
        if not (args.keep and (folder / "pipeline.bpk").is_file()):
            note(f"{name}: data, training, forest")
            quick = ["--quick"] if args.quick else []
            if subprocess.run([str(programs[name]), str(folder), "--python", str(python), *quick], cwd=ROOT).returncode:
                return 2
        found = agreement(name, folder, python, args)
        if found is None:
            return 2
        told, agree = found
        agreed &= agree
        try:
            for head, batch, turns in time_both(name, folder, programs, args):
                middle = {who: statistics.median(turn[0] for turn in found) for who, found in turns.items()}
                least = {who: min(turn[1] for turn in found) for who, found in turns.items()}
                rows.append({
                    **facts, "pipeline": name, "head": head, "batch": batch, "check": told[head],
                    "ours_us": f"{middle['ours']:.1f}", "twin_us": f"{middle['twin']:.1f}",
                    "ours_least_us": f"{least['ours']:.1f}", "twin_least_us": f"{least['twin']:.1f}",
                    "times": f"{middle['twin'] / middle['ours']:.2f}",
                })
                goal = PIPELINES[name][1] if batch == 1 else 1
                print(
                    f"{name:14} {head:11} batch {batch:4}: {middle['ours']:10.1f} us, twin {middle['twin']:10.1f} us, "
                    f"{middle['twin'] / middle['ours']:6.2f} times faster (to beat: {goal}); {told[head]}",
                    flush=True,
                )
        except peers.Lost as error:
            note(f"{name}: {error}")
            return 2
    write(rows, about, command, args)
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
