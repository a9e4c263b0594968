#!/usr/bin/env python3
"""How long kernels for an NVIDIA GPU take to compile, by the walks and steps that they hold. No GPU is needed.

    python3 benches/gpu/compile_times.py --fangorn PATH --ptxas PATH [--walks 1,8,16] [--steps 2,6] [MODEL...]

Without a model: churn and lightgbm-categories of the zoo. Needs a fangorn built with `--features cuda`, and NVIDIA's
ptxas (Python package nvidia-cuda-nvcc). A unit advances so many walks at once, each by so many straight-line steps. The
limits `CodeLimits::PTX` of `src/schedule/code_limits.rs` cut both; to see beyond them, build with larger ones.
`cut` says that the kernel holds less than was asked for. Writes Markdown to standard output, the least of three times.
"""

import argparse
import pathlib
import re
import sys
import tempfile
import time

from machine_code import Refused, name_of, run, tool, zoo

MODELS = ["churn", "lightgbm-categories"]
REPEATS = 3
SCHEDULE = """\
tile(batch, b0, b1, 128)
gpuDimension(b0, grid.x)
gpuDimension(b1, block.x)
cache(b0)
tile(tree, t0, t1, {walks})
reorder(b0, b1, t0, t1)
interleave(t1)
unrollWalk(t1, {steps})
"""


def timed(arguments):
    """The least seconds of a few runs, and what the last one said."""
    best, said = float("inf"), ""
    for _ in range(REPEATS):
        start = time.perf_counter()
        said = run(arguments)
        best = min(best, time.perf_counter() - start)
    return best, said


def row(tools, folder, model, walks, steps):
    """The cells of a kernel: seconds of both compilers, and what they made."""
    schedule, ptx = folder / "a.schedule", folder / "kernel.ptx"
    schedule.write_text(SCHEDULE.format(walks=walks, steps=steps))
    lower = [tools.fangorn, "lower", "--backend", "cuda", "--arch", tools.arch, "--schedule", schedule, model, "--emit"]
    notes = run([*lower, "plan"])
    cut = "in this kernel" in notes or "more than a kernel may hold" in notes
    lowered, _ = timed([*lower, "kernel", "-o", ptx])
    assembled, said = timed([tools.ptxas, f"-arch={tools.arch}", "-v", ptx, "-o", folder / "kernel.cubin"])
    registers = re.search(r"Used (\d+) registers", said)
    spilled = re.search(r"(\d+) bytes spill stores", said)
    lines = len(ptx.read_text().splitlines())
    return [
        name_of(model), walks, steps, "yes" if cut else "", f"{lowered:.2f}", f"{assembled:.2f}", lines,
        registers[1] if registers else "", spilled[1] if spilled else "",
    ]


def numbers(text):
    """Numbers with commas between them."""
    return [int(n) for n in text.split(",")]


def main():
    options = argparse.ArgumentParser(description="How long kernels take to compile, without a GPU.")
    options.add_argument("models", nargs="*", metavar="MODEL", help="model files (default: two of the zoo)")
    options.add_argument("--fangorn", metavar="PATH", help="built with --features cuda")
    options.add_argument("--ptxas", metavar="PATH")
    options.add_argument("--arch", default="sm_90a", metavar="NAME", help="default: sm_90a")
    options.add_argument("--walks", type=numbers, default=[1, 4, 8, 16, 32, 64], metavar="N,N")
    options.add_argument("--steps", type=numbers, default=[2, 6], metavar="N,N")
    options = options.parse_args()
    options.fangorn = tool(options.fangorn, "fangorn", "build it with --features cuda and say --fangorn PATH")
    options.ptxas = tool(options.ptxas, "ptxas", "install the Python package nvidia-cuda-nvcc and say --ptxas PATH")
    models = [pathlib.Path(m) for m in options.models] or [zoo(m) for m in MODELS]
    print("| model | walks | steps each | cut | lower, s | ptxas, s | lines of PTX | registers | bytes spilled |")
    print("|---|---:|---:|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            for walks in options.walks:
                for steps in options.steps:
                    try:
                        cells = row(options, pathlib.Path(folder), model, walks, steps)
                    except Refused as refusal:
                        print(f"{name_of(model)}, {walks} walks, {steps} steps: {refusal}", file=sys.stderr)
                        continue
                    print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
